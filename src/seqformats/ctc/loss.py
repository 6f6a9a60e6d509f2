"""The loss that trains models by connectionist temporal classification."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ..arrays import NO_INTS, NUMPY, Array, freeze
from ..converters.convert import restore
from ..errors import NO_GRADIENT
from ..formats import Encoding, Ragged
from ..formats.annotations import Operands
from ..formats.leaves import connect, without_data
from ..formats.structure import Structure, flag
from ..gradients.operation import Call, Pullback, operand, with_rule
from ..launch.kernel import Work, kernel
from ..launch.threads import num_threads
from ..operations.annotations import Batch
from ..operations.calculation import name_of, rows_like
from ..operations.options import choice
from ..operations.spread import sum_items
from .frames import Frames, frames_of
from .labels import Labels, labels_of, no_token
from .rows import LossGoals, LossOut, LossRoom

plan_losses, ctc_losses, scale_rows = kernel("plan_losses"), kernel("ctc_losses"), kernel("scale_rows")

_REDUCTIONS = ("none", "sum", "mean")
MIN_CELLS_FOR_THREADS = 1 << 18
"""Places times frames, below which there is no work for several threads: about two milliseconds."""


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
        The frames: items of shape ``(V,)``, the log-probabilities of V tokens, at least two.
    labels : an encoding or lists of tokens
        The label of each sequence: integers without blanks, of any length.  With one level more, as a `LoD` or as
        lists in lists, each sequence has several labels or none, for n-best lists say.
    blank : int
        The token that stands for none.
    normalised : bool
        False if these are logits; then log-softmax is taken first.
    reduction : "none", "sum" or "mean"
        The loss of each label, their sum, or the mean of the losses, each divided by the length of its label, by at
        least 1.
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
    ones, and a loss depends on its own sequence alone, bit for bit.  Where a long label contradicts its frames, so
    that its paths have less than 1e-200 of all that go over a frame, sums have an exponent each, which takes about five
    times as long.  Each thread keeps 16 bytes for each frame and target of the sequence that it works on, 32 where sums
    have exponents; on a GPU, where a sequence is the work of a block, all are kept.

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
    return _prepare(log_probs, labels, blank, normalised, reduction, zero_infinity).run()


def _prepare(
    log_probs: Batch, labels: object, blank: object, normalised: object, reduction: object, zero_infinity: object
) -> Call[Array]:
    how = _REDUCTIONS[choice(reduction, "reduction", _REDUCTIONS)]
    found = operand(log_probs)
    frames = frames_of(found.own, blank)
    logits, zero = not flag(normalised, "normalised"), flag(zero_infinity, "zero_infinity")
    known = labels_of(labels, frames.structure.n, len(frames.levels))
    loss = Loss.plan(frames, known, logits, zero, how)
    return Call(found.own, loss.rule, None, found.gradient, loss.second_order)


with_rule(ctc_loss, _prepare)


class Loss(NamedTuple):
    """A loss whose labels and options were checked."""

    frames: Frames  # for which it was made; it may be taken of others that lie as these do
    goals: LossGoals
    reduction: str
    each_one: bool  # has each sequence one label?
    units: int
    room: int  # places of float64
    powers: int
    work: int

    @classmethod
    def plan(cls, frames: Frames, labels: Labels, logits: bool, zero: bool, reduction: str) -> Loss:
        """Plan a loss; StructureError where a token can be in no label."""
        structure, here = frames.structure, frames.on is NUMPY
        if structure.late:
            structure.to_host()
        n, threads = structure.n, num_threads()
        most = n if not here else min(n, 4 * threads) if threads > 1 else 1
        begins, places, powers_at = np.empty((3, max(most, 1) + 1), np.int64)
        goals = LossGoals(
            np.empty(labels.tokens.size + 8, np.int64),
            np.empty(labels.tokens.size, np.int64),
            NO_INTS if here else _order(labels),
            labels.cum,
            labels.first,
            np.empty(labels.cum.size - 1),
            begins,
            places,
            powers_at,
            frames.blank,
            int(logits),
            int(zero),
            1,
        )
        few = MIN_CELLS_FOR_THREADS if here else -1
        wrong, *plan, each_one = plan_losses.run(
            labels.tokens, goals, frames.at._layout(), int(reduction == "mean"), few, frames.width
        )
        if wrong >= 0:
            raise no_token(labels, wrong, frames.width, frames.blank)
        return cls(frames, goals, reduction, each_one != 0, *plan)

    def rule(self, x: Encoding, back: bool) -> tuple[Array, Pullback | None]:
        """The result, and the pullback if it is wanted."""
        frames = self.frames if x is self.frames.at else frames_of(x, self.goals.blank)
        whole = self.reduction != "none"
        at_once = back and (whole or self.each_one)
        out = self.run(frames, at_once)
        y = self.reduce(frames, out.losses)
        if not back:
            return y, None
        shape, name = None if x is frames.at else without_data(x), name_of(x)
        made = [out.grad] if at_once else []

        def pullback(dy: Array) -> Encoding:
            if not at_once:
                grad = self.run(frames, True, self.slopes_of(frames, dy)).grad
            else:
                try:
                    grad = made.pop()  # once: who takes a gradient may change it
                except IndexError:
                    grad = self.run(frames, True).grad
                if not (whole and frames.on is NUMPY and dy.item() == 1):
                    self.scale(frames, self.slopes_of(frames, dy), grad)
            dx: Encoding = frames.at._with_data(frames.library.astype(frames.to_caller(grad), name))
            return dx if shape is None else restore(dx, shape)

        return y, pullback

    def second_order(self, x: Encoding, dy: Array) -> Any:
        """The gradient, in a graph where its own gradient is refused."""

        def refuse(_: object) -> Any:
            raise NO_GRADIENT("the gradient of ctc_loss has no gradient itself")

        def rule(operands: Operands, back: bool) -> tuple[Any, Pullback | None]:
            pullback = self.rule(operands[0], True)[1]
            assert pullback is not None
            return pullback(operands[1]), refuse if back else None

        return connect(rule, (x, dy))

    def slopes_of(self, frames: Frames, dy: Array) -> Array:
        """The gradient of the result, float64 where kernels run."""
        flat = dy.reshape(-1)
        if frames.on is NUMPY:
            return frames.library.to_numpy(flat).astype(np.float64)
        return frames.on.astype(flat, "float64")

    def reduce(self, frames: Frames, losses: Array) -> Array:
        """The result, of the losses of all labels."""
        if self.reduction != "none":
            if frames.on is NUMPY:
                losses = np.add.reduce(losses, keepdims=True)
            else:
                count = self.goals.cum.size - 1
                one = Structure(freeze(np.array([count])), freeze(np.array([0, count])), count)
                losses = sum_items(Ragged._freeze(losses, one))
            losses = losses.reshape(())
        return frames.to_caller(frames.on.astype(losses, frames.name))

    def scale(self, frames: Frames, slopes: Array, grad: Array) -> None:
        """Multiply the gradient of each sequence by that of its loss."""
        whole = self.reduction != "none"
        structure, width = frames.structure, frames.width
        if structure.rows:
            args, rows = (frames.at._layout(), int(whole)), structure.rows
            work = None if frames.on is NUMPY else Work(rows, rows)
            scale_rows.start(frames.on, (slopes,), (grad,), args, width, structure, work)

    def run(self, frames: Frames, gradient: bool, factors: Array | None = None) -> LossOut:
        """The losses of all labels, and the gradient of their sum if it is wanted; or of their sum times factors."""
        goals, width, like, on = self.goals, frames.width, frames.data, frames.on
        if factors is not None:
            goals = goals._replace(factors=factors)
        if not gradient:
            goals = goals._replace(gradient=0)
        losses = frames.empty(goals.cum.size - 1, "float64")
        if gradient:
            grad = rows_like(on, frames.at, (width,), on.dtype(frames.name), like)
        else:
            grad = frames.empty(0, frames.name)
        out = LossOut(losses, grad)
        if not frames.structure.n:
            return out
        at, work = frames.at._layout(), Work(self.units, self.work // width)
        if on is NUMPY:
            x = frames.library.operand(like)
            room = LossRoom(frames.empty(self.room, "float64"), frames.empty(self.powers, frames.name))
            args = (x, goals, LossOut(losses, grad.reshape(-1)), room, at, width)
            ctc_losses.run_over(args, work, self.work * x.itemsize, x.dtype.num)
        else:
            traced = on.kind(like) == "program"  # which takes no room
            room = LossRoom(frames.empty(0 if traced else self.room, "float64"), frames.empty(0, frames.name))
            ctc_losses.start_named(frames.library, (like, goals), (out, room), (at,), width, work, frames.structure)
        return out


def _order(labels: Labels) -> Array:
    """The places within each label by their tokens, those of a token rising."""
    lengths = np.diff(labels.cum)
    label = np.repeat(np.arange(lengths.size), lengths)
    order: Array = np.lexsort((labels.tokens, label)) - np.repeat(labels.cum[:-1], lengths)
    return order
