"""The loss that trains models by connectionist temporal classification."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, frozen
from ..converters.convert import restored
from ..errors import CHOICE, NO_GRADIENT, said
from ..formats import Encoding, Ragged
from ..formats.leaves import connected, without_data
from ..formats.structure import Structure
from ..gradients.operation import Call, Pullback, operand, with_rule
from ..launch.kernel import Work, kernel
from ..launch.threads import num_threads
from ..limits import allocated
from ..operations.annotations import Batch
from ..operations.options import flag
from ..operations.over import name_of, rows_like
from ..operations.spread import summed
from .frames import Frames, frames_of
from .labels import Labels, labels_of
from .rows import LossGoals, LossOut, LossRoom

ctc_losses, scale_rows = kernel("ctc_losses"), kernel("scale_rows")

_REDUCTIONS = ("none", "sum", "mean")
FEW = 1 << 18
"""Places times frames, below which there is no work for several threads: about two milliseconds."""
_NOTHING: Array = frozen(np.empty(0, np.int64))


def ctc_loss(
    log_probs: Batch,
    labels: object,
    *,
    blank: int = 0,
    normalised: bool = True,
    reduction: Literal["none", "sum", "mean"] = "mean",
    zero_infinity: bool = False,
) -> Array:
    """The negative logarithm of the probability of labels, by all paths of their sequences of frames.

    A path is a token for each frame; its label is what is left without repeats, and then without blanks.  A model that
    gives a label for frames, and does not know which frame belongs to which token, is trained with this loss.

    Parameters
    ----------
    log_probs : an encoding, a list of arrays or nested lists
        Items ``(V,)`` of floats, the log-probability of every token in a frame, of two tokens at least.
    labels : an encoding or lists of tokens
        The label of each sequence: integers without blanks, of any length.  With one level more, as a `LoD` or as
        lists in lists, each sequence has several labels or none, for n-best lists say.
    blank : int
        The token that stands for none.
    normalised : bool
        False where these are logits, of which log-softmax is taken here.
    reduction : "none", "sum" or "mean"
        The loss of each label, their sum, or the mean of the losses each divided by the length of its label, 1 at
        least.
    zero_infinity : bool
        Let the loss of a label that no path has be 0 instead of inf.

    Returns
    -------
    array
        ``(labels,)``, those of a sequence one after the other, or an array of one number and no axis.  It is float64
        where frames are, else float32, in their library and on their device.

    Raises
    ------
    TypeError
        For frames that are no floats, and labels that are no integers.
    StructureError
        For items of another number of axes, a blank that is no token, labels for another number of sequences, and a
        label with a token that does not exist or is the blank.
    ConversionError
        For a reduction that there is not.

    See Also
    --------
    ctc_align : The most likely path of a label.
    ctc_greedy, ctc_beam_search : Labels for frames.
    cross_entropy : Where each item has its target.

    Notes
    -----
    A. Graves, S. Fernandez, F. Gomez and J. Schmidhuber (2006), "Connectionist Temporal Classification".  With "mean"
    and "sum" it is PyTorch's ``ctc_loss``, without padding.  Logits have their own gradient, softmax less the
    probability that a path with the label is there; log-softmax is no step of its own, and nothing of the size of the
    frames is written but the gradient.  That of log-probabilities is the derivative of what is calculated here, for
    which they need not add up to 1 (PyTorch gives what is the same only behind log-softmax).

    A label for which there are too few frames has no path: it needs one for each token, and one more between two tokens
    that are the same.  Neither has one whose paths all have a token of -inf.  The loss is inf then, or 0, and the
    gradient 0.  A sequence without frames has the empty label, with loss 0.  NaN or +inf in a frame makes the losses
    and the gradient of its own sequence NaN, those of labels without a path excepted.  Padding is never looked at.

    Half precision is calculated in float32.  Sums over paths are float64, so long sequences are as precise as short
    ones, and a loss depends on its own sequence alone, bit for bit.  Each thread keeps 16 bytes for each frame and
    target of the sequence that it works on; on a GPU, where a sequence is the work of a block, all are kept.

    Labels, and frames of `List`, are copied to the host or into one array.  The gradient has no gradient.

    Examples
    --------
    Two frames, both of which say 1 with probability 0.4.  Of their four paths all but one have the label ``[1]``:

    >>> import numpy as np
    >>> import seqformats as sf
    >>> frames = sf.Ragged(np.log([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9]]), [2, 1])
    >>> losses = sf.ctc_loss(frames, [[1], [1]], reduction="none")
    >>> np.exp(-losses).round(2)
    array([0.64, 0.9 ])

    Several labels for each sequence, and the gradient of logits:

    >>> sf.ctc_loss(frames, [[[1], []], [[1]]], reduction="none").round(3)
    array([0.446, 1.022, 0.105])
    >>> loss, back = sf.vjp(sf.ctc_loss, frames, [[1], [1]], normalised=False)
    >>> float(loss.round(3))
    0.276
    >>> back(np.array(1.0)).data.round(2)
    array([[ 0.11, -0.11],
           [ 0.11, -0.11],
           [ 0.05, -0.05]])
    """
    return _prepared(log_probs, labels, blank, normalised, reduction, zero_infinity).run()


def _prepared(
    log_probs: Batch, labels: object, blank: object, normalised: object, reduction: object, zero_infinity: object
) -> Call[Array]:
    if not isinstance(reduction, str) or reduction not in _REDUCTIONS:
        raise CHOICE(f"reduction must be one of {', '.join(map(repr, _REDUCTIONS))}, not {said(reduction)}")
    found = operand(log_probs)
    frames = frames_of(found.own, blank)
    logits, zero = not flag(normalised, "normalised"), flag(zero_infinity, "zero_infinity")
    known = labels_of(labels, frames.structure.n, len(frames.levels), frames.width, frames.blank)
    loss = Loss(known, frames.blank, logits, zero, reduction)
    return Call(found.own, loss.rule, None, found.gradient, loss.second_order)


with_rule(ctc_loss, _prepared)


class Loss(NamedTuple):
    """A loss whose labels and options were checked."""

    labels: Labels
    blank: int
    logits: bool
    zero: bool
    reduction: str

    def rule(self, x: Encoding, back: bool) -> tuple[Array, Pullback | None]:
        """The result, and the pullback if it is wanted."""
        frames, factors = frames_of(x, self.blank), self.factors()
        at_once = back and (self.reduction != "none" or self.labels.each_one)
        out = self.run(frames, factors, at_once)
        y = self.reduced(frames, out.losses)
        if not back:
            return y, None
        shape, name = without_data(x), name_of(x)
        made = [out.grad] if at_once else []

        def pullback(dy: Array) -> Encoding:
            slopes = self.slopes_of(frames, dy)
            try:
                grad = made.pop()  # once: who takes a gradient may change it
            except IndexError:
                several = self.reduction == "none" and not self.labels.each_one
                grad = self.run(frames, slopes if several else factors, True).grad
                if not several:
                    self.scale(frames, slopes, grad)
            else:
                self.scale(frames, slopes, grad)
            given = frames.library.astype(frames.given(grad), name)
            dx: Encoding = restored(frames.at._with_data(given), shape)
            return dx

        return y, pullback

    def second_order(self, x: Encoding, dy: Array) -> Any:
        """The gradient, in a graph where its own gradient is refused."""

        def refused(ddx: Any) -> Any:  # noqa: ARG001  there is none
            raise NO_GRADIENT("the gradient of ctc_loss has no gradient itself")

        def rule(operands: Any, back: bool) -> tuple[Any, Pullback | None]:
            pullback = self.rule(operands[0], True)[1]
            assert pullback is not None
            return pullback(operands[1]), refused if back else None

        return connected(rule, (x, dy))

    def factors(self) -> Array:
        """Return the factors of loss and gradient of each label."""
        count = self.labels.total
        if self.reduction != "mean":
            return np.ones(count)
        return 1.0 / (np.maximum(self.labels.lengths, 1) * max(count, 1))

    def slopes_of(self, frames: Frames, dy: Array) -> Array:
        """The gradient of the result, float64 where kernels run."""
        flat = dy.reshape(-1)
        if frames.on is NUMPY:
            return frames.library.to_numpy(flat).astype(np.float64)
        wide: Array = frames.on.astype(flat, "float64")
        return wide

    def reduced(self, frames: Frames, losses: Array) -> Array:
        """The result, of the losses of all labels."""
        if self.reduction != "none":
            count = self.labels.total
            one = Structure(frozen(np.array([count])), frozen(np.array([0, count])), count)
            losses = summed(Ragged._sealed(losses, one)).reshape(())
        return frames.given(frames.on.astype(losses, _name(frames)))

    def scale(self, frames: Frames, slopes: Array, grad: Array) -> None:
        """Multiply the gradient of each sequence by that of its loss."""
        whole = self.reduction != "none"
        structure, width = frames.structure, frames.width
        if structure.rows and not (whole and frames.on is NUMPY and slopes[0] == 1):
            args, rows = (frames.at._layout(), int(whole)), structure.rows
            work = None if frames.on is NUMPY else Work(rows, rows)
            scale_rows.start(frames.on, (slopes,), (grad,), args, width, structure, work)

    def run(self, frames: Frames, factors: Array, gradient: bool) -> LossOut:
        """The losses of all labels, and the gradient of their sum if it is wanted."""
        structure, labels, width = frames.structure, self.labels, frames.width
        on, like = frames.on, frames.data
        losses = frames.empty(labels.total, "float64")
        if gradient:
            grad = rows_like(on, frames.at, (width,), on.dtype(_name(frames)), like)
        else:
            grad = allocated(on.empty, (0,), on.dtype(_name(frames)), like)
        out = LossOut(losses, grad)
        if not structure.n:
            return out
        here = on is NUMPY
        units = _Units.of(frames, labels, here)
        reach, order = _reach(labels), _NOTHING if here else _order(labels)
        goals = LossGoals(
            labels.tokens,
            reach,
            order,
            labels.cum,
            labels.first,
            factors,
            units.begins,
            units.places,
            units.powers_at,
            self.blank,
            int(self.logits),
            int(self.zero),
            int(gradient),
        )
        traced = not here and on.kind(like) == "program"  # which takes no room
        room = LossRoom(frames.empty(0 if traced else units.room, "float64"), frames.empty(units.powers, _name(frames)))
        inputs, args = (like, goals), (frames.at._layout(),)
        work = Work(units.begins.size - 1, units.work // width)
        ctc_losses.start_named(frames.library, inputs, (out, room), args, width, work, structure)
        return out


def _name(frames: Frames) -> str:
    """In which dtype kernels calculate."""
    return frames.library.dtype_name(frames.data.dtype)


def _reach(labels: Labels) -> Array:
    """The first frame in which a path can be at each target, behind those before and a blank between equal ones."""
    tokens, begins = labels.tokens, np.repeat(labels.cum[:-1], labels.lengths)
    again = np.zeros(tokens.size, np.int64)
    again[1:] = tokens[1:] == tokens[:-1]
    places = np.arange(tokens.size)
    again[places == begins] = 0
    blanks = np.cumsum(again)
    reach: Array = places - begins + blanks - blanks[begins]
    return reach


def _order(labels: Labels) -> Array:
    """The places within each label by their tokens, those of a token rising."""
    label = np.repeat(np.arange(labels.total), labels.lengths)
    order: Array = np.lexsort((labels.tokens, label)) - np.repeat(labels.cum[:-1], labels.lengths)
    return order


class _Units(NamedTuple):
    """Units into which the work is divided, and where each has its room."""

    begins: Array
    places: Array
    powers_at: Array
    room: int  # places of float64
    powers: int
    work: int

    @classmethod
    def of(cls, frames: Frames, labels: Labels, here: bool) -> _Units:
        """Units of about the same work on the host, of a sequence each on a GPU."""
        structure, sizes = frames.structure, (labels.lengths + 8) & -8
        largest = total = sizes
        if not labels.each_one:
            largest, total = np.full(structure.n, 8), np.zeros(structure.n, np.int64)
            sequence = np.repeat(np.arange(structure.n), np.diff(labels.first))
            np.maximum.at(largest, sequence, sizes)
            np.add.at(total, sequence, sizes)
        lengths = structure.lengths
        if frames.at._by_steps:
            indices = structure.order.indices
            lengths, largest, total = lengths[indices], largest[indices], total[indices]
        # see `Track`: numbers of frames, of tokens, both sides of a frame, and a row of places behind each frame
        needs = (lengths + 1) * (2 * largest + 8) + 3 * lengths + 6 * largest + 40
        costs = (lengths + 1) * (total + frames.width // 4 + 8)
        work, n = int(costs.sum()), structure.n
        if here and (work < FEW or num_threads() < 2):
            room, powers = int(needs.max()), int(largest.max())
            return cls(np.array([0, n]), np.array([0, room]), np.array([0, powers]), room, powers, 4 * work)
        units = min(n, 4 * num_threads()) if here else n
        costs = np.cumsum(costs)
        begins = np.searchsorted(costs, np.arange(units + 1) * (work / units)) if units < n else np.arange(n + 1)
        begins[0], begins[-1] = 0, n
        begins = np.unique(begins)
        places = np.concatenate([[0], np.cumsum(np.maximum.reduceat(needs, begins[:-1]))])
        powers_at = np.concatenate([[0], np.cumsum(np.maximum.reduceat(largest, begins[:-1]))])
        powers = int(powers_at[-1]) if here else 0
        return cls(begins, places, powers_at, int(places[-1]), powers, 4 * work)
