"""The cross entropy of a linear layer's scores, which are made for a few items at a time and never kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, library_of
from ..arrays.dtypes import differentiable, in_floats
from ..converters.convert import restore, rows_of
from ..converters.layouts import check_at_least
from ..errors import DEVICES, MIXED, SHAPE
from ..formats import Encoding, Ragged
from ..formats.annotations import Integers, Operands
from ..formats.leaves import connect, without_data
from ..gradients.levels import INNERMOST, operation_by_level
from ..gradients.operation import Call, Pullback, operand
from .annotations import Batch, Weights
from .calculation import flat_layout
from .choices import Ignored
from .class_loss import LOSS_OF_BATCH, LOSS_OF_ITEM, LOSS_OF_SEQUENCE, LOSS_TOTAL, ClassLoss, counts_of
from .companions import one_sequence
from .item_weights import ItemWeights
from .loss import LOSS_REDUCTIONS, items_of, targets_of
from .options import choice, label, share
from .reduction import over_levels, rows_or_data
from .spread import spread, sum_items

_SCORES, _FEWEST = 1 << 23, 64
"""Numbers of scores that are made at a time, and of items at least: fewer leave the cores waiting for the weights."""


@operation_by_level(
    keeps=lambda given: given.get("reduction") == "none",
    marks=("targets", "weights"),
    gradients=("hidden", "weight", "bias", "weights"),
)
def linear_cross_entropy(
    hidden: Batch,
    weight: Array,
    targets: Batch | Integers,
    *,
    bias: Array | None = None,
    ignore: int | None = None,
    label_smoothing: float = 0.0,
    reduction: Literal["sequence", "mean", "sum", "none"] = "sequence",
    weights: Weights | None = None,
    chunk: int | None = None,
    level: int = INNERMOST,  # noqa: ARG001  see `operation_by_level`
) -> Call[Any]:
    """Return the cross entropy of the scores ``hidden @ weight.T + bias`` without writing the scores out.

    Parameters
    ----------
    hidden : an encoding, a list of arrays or nested lists
        Items of one axis, of d floats.
    weight : array (classes, d)
        As of ``torch.nn.Linear``, in the library, dtype and place of `hidden`.
    targets : an encoding, a list of arrays or nested lists, or an array ``(rows,)``
        Integers over the same sequences, as for `cross_entropy`.
    bias : array (classes,), optional
        Added to the scores.
    ignore, label_smoothing, reduction, weights, level
        As for `cross_entropy`.
    chunk : int, optional
        The number of items whose scores are in memory at a time; by default as many as make 2^23 scores, but 64.

    Returns
    -------
    array or encoding
        As of `cross_entropy`.

    Raises
    ------
    IndexError
        For a target that is no class.
    StructureError
        For a weight or bias of another shape or dtype, and targets over other sequences.
    DeviceError
        For arrays on different devices, or of different libraries.
    ConversionError
        For a smoothing, a reduction or a chunk that cannot be.

    See Also
    --------
    cross_entropy : Of scores that are there.

    Notes
    -----
    The gradient, of `hidden`, `weight`, `bias` and `weights`, makes the scores again, chunk by chunk, so that three
    products of matrices become four.  In memory are the scores of two chunks: of 4,096 items and 128,000 classes a
    thirtieth of all.  A second derivative has all scores at once.  The gradient of a weight of half precision is added
    up in float32.

    The idea is that of Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024, and of
    Hsu et al., "Liger Kernel", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> hidden = sf.Ragged(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [2, 1])
    >>> weight = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> sf.linear_cross_entropy(hidden, weight, [[0, 1], [2]]).round(4)
    array([0.6348, 0.862 ])
    >>> loss, back = sf.vjp(sf.linear_cross_entropy, hidden, weight, [[0, 1], [2]], reduction="mean")
    >>> d_hidden, d_weight = back(np.array(1.0))
    >>> d_weight.shape
    (3, 2)
    """
    found = operand(hidden)
    own = found.own
    each = choice(reduction, "reduction", LOSS_REDUCTIONS)
    parameters = _parameters(own, weight, bias)
    library, name = library_of(own._sample()), library_of(own._sample()).dtype_name(own._dtype)
    classes = int(parameters[0].shape[0])
    ignored = Ignored(0, 0) if ignore is None else Ignored(label(ignore), 1)
    part = share(label_smoothing, "label_smoothing")
    kind = in_floats(name, "a cross entropy")[0]
    right, mass = targets_of(targets, own), None
    if weights is not None:
        mass, right, ignore = ItemWeights.from_weights(weights, own, right, each, ignore, kind)
        ignored = Ignored(0, 0) if ignore is None else Ignored(ignore, 1)
    counts = counts_of(right, classes, ignored)
    size = max(_SCORES // max(classes, 1), _FEWEST) if chunk is None else check_at_least(chunk, "chunk", 1)
    loss = _LinearLoss(
        without_data(own),
        library,
        name,
        kind,
        LOSS_OF_BATCH if each == LOSS_TOTAL else each,
        mass,
        library.astype(rows_of(right), "int64"),
        _scale(library, counts, each, kind),
        np.array([1 - part, part, part / max(classes, 1)], kind),
        ignored,
        classes,
        size,
    )

    def gradient(slopes: Operands) -> Any:
        first = slopes[0] if found.gradient is None else found.gradient(slopes[0])
        if mass is None or mass.given.gradient is None:
            return (first, *slopes[1:])
        return (first, *slopes[1:-1], mass.given.gradient(slopes[-1]))

    result = found.result if each == LOSS_OF_ITEM else None
    factors = () if mass is None else (mass.given.own,)
    return Call((own, *parameters, *factors), loss.rule, result, gradient, loss.second_order)


def _parameters(own: Encoding, weight: object, bias: object) -> list[Array]:
    """The weight, and the bias if there is one, as arrays that go with the items."""
    if len(own.item_shape) != 1:
        raise SHAPE(f"hidden states are items of one axis, but they have shape {own.item_shape}")
    made = [_place_like(own, weight, "weight")]
    if len(made[0].shape) != 2 or made[0].shape[1] != own.item_shape[0]:
        raise SHAPE(f"weight must have shape (classes, {own.item_shape[0]}), not {tuple(made[0].shape)}")
    if bias is not None:
        made.append(_place_like(own, bias, "bias"))
        if tuple(made[1].shape) != (made[0].shape[0],):
            raise SHAPE(f"bias must have shape ({made[0].shape[0]},), not {tuple(made[1].shape)}")
    return made


def _place_like(own: Encoding, given: object, what: str) -> Array:
    """An array in the library, dtype and place of the items."""
    library, x = adopt(given, what)
    like, name = own._sample(), library.dtype_name(x.dtype)
    if library is not library_of(like) or (library is not NUMPY and library.device(x) != library.device(like)):
        raise DEVICES(f"{what} is on {library.device(x)}, {library.name}; hidden is on {own.device}")
    if name != library.dtype_name(own._dtype):
        raise MIXED(f"{what} has dtype {name}, but hidden {library.dtype_name(own._dtype)}")
    return x


def _scale(library: Library, counts: Array, each: int, kind: str) -> Array | None:
    """Return the factor of the sum of the losses of each sequence, ``(n,)``; None for the losses themselves."""
    if each == LOSS_OF_ITEM:
        return None
    if each == LOSS_OF_BATCH:
        counts = counts * 0 + counts.sum()
    elif each == LOSS_TOTAL:
        counts = counts * 0
    if type(counts) is np.ndarray:
        return (1.0 / np.maximum(counts, 1)).astype(kind)
    return library.astype(1.0 / library.where(counts > 0, counts, 1), kind)


class _LinearLoss(NamedTuple):
    """A loss whose arguments are checked."""

    shape: Encoding  # of the hidden states, without data
    library: Library
    name: str  # the dtype of the states, and that of the kernels
    kind: str
    each: int  # LOSS_OF_BATCH, LOSS_OF_SEQUENCE or LOSS_OF_ITEM
    mass: ItemWeights | None  # the weights of items, which are the last operand
    targets: Array  # int64 (rows,)
    scale: Array | None
    factors: Array
    ignored: Ignored
    classes: int
    size: int  # items at a time

    def rule(self, operands: tuple[Any, ...], back: bool) -> tuple[Any, Pullback | None]:
        """The result and its pullback."""
        if back:
            differentiable(self.name, "a cross entropy")
        library = self.library
        factors: Any = operands[-1]
        operands = operands if self.mass is None else operands[:-1]
        rows, *parameters = [library.alias(x) for x in (rows_of(operands[0]), *operands[1:])]
        losses = [piece.losses(rows, parameters) for piece in self.pieces()]
        made = library.concatenate(losses) if losses else library.zeros((0,), library.dtype(self.kind), rows)
        if self.mass is None:
            y = self.reduce(Ragged._freeze(made, self.shape._structure))
            return y, (lambda dy: self.backward(rows, parameters, self.slopes(dy, rows))) if back else None
        y, pull = self.mass.reduce(made, factors, self.name, back)

        def pullback(dy: Operands) -> tuple[Any, ...]:
            assert pull is not None
            slopes, of_factors = pull(dy)
            return (*self.backward(rows, parameters, slopes), of_factors)

        return y, pullback if back else None

    def reduce(self, losses: Encoding) -> Any:
        """The result, of the losses of items in float32 or more."""
        if self.each == LOSS_OF_ITEM:
            return restore(losses._with_data(self.library.astype(losses.data, self.name)), self.shape)
        y = sum_items(losses) * self.scale_beside(losses.data)
        if self.each == LOSS_OF_BATCH:
            y = sum_items(Ragged._freeze(y, one_sequence(losses._structure.n))).reshape(())
        y = self.library.astype(y, self.name)
        return over_levels(y, self.shape) if self.each == LOSS_OF_SEQUENCE else y

    def scale_beside(self, like: Array) -> Array:
        """The scale as an array of the library, ``(n,)``."""
        scale: Any = self.scale
        return self.library.from_host(scale, like) if type(scale) is np.ndarray else scale

    def pieces(self) -> Iterator[_Piece]:
        """The items that are taken at a time."""
        rows = self.shape._structure.rows
        for begin in range(0, rows, self.size):
            yield _Piece(self, begin, min(begin + self.size, rows))

    def slopes(self, dy: Operands, like: Array) -> Array:
        """The gradient of the loss of each item, ``(rows,)``."""
        library, structure = self.library, self.shape._structure
        if self.each == LOSS_OF_ITEM:
            return library.astype(rows_of(dy), self.kind)
        scale = self.scale_beside(like)
        by_sequence = library.astype(rows_or_data(dy), self.kind) * scale
        by_item: Array = spread(by_sequence, flat_layout(structure, (), by_sequence.dtype)).data
        return by_item

    def backward(self, rows: Array, parameters: list[Array], slopes: Array) -> tuple[Any, ...]:
        """The gradients of the hidden states, the weight, and the bias if there is one, by those of losses of items."""
        library = self.library
        weight = parameters[0]
        of_rows = []
        sums = [library.zeros(x.shape, library.dtype(self.kind), rows) for x in parameters]
        for piece in self.pieces():
            states = rows[piece.begin : piece.end]
            change = piece.slopes(states, parameters, slopes[piece.begin : piece.end])
            of_rows.append(library.astype(change @ weight, self.name))
            sums[0] += library.astype(change.swapaxes(0, 1) @ states, self.kind)
            if len(sums) > 1:
                sums[1] += library.astype(change, self.kind).sum(0)
        made = library.concatenate(of_rows) if of_rows else rows
        first = restore(Ragged._freeze(made, self.shape._structure), self.shape)
        return (first, *[library.astype(x, self.name) for x in sums])

    def second_order(self, operands: tuple[Any, ...], dy: Operands) -> tuple[Any, ...]:
        """The gradients, made of operations that have gradients themselves, over all scores at once."""
        factors: Any = operands[-1]
        operands = operands if self.mass is None else operands[:-1]
        rows, weight, structure = rows_of(operands[0]), operands[1], self.shape._structure
        scores = rows @ weight.swapaxes(0, 1) + (operands[2] if len(operands) > 2 else 0)
        piece = _Piece(self, 0, structure.rows)
        z = piece.batch(scores)
        loss = piece.loss(z)
        of_factors: tuple[Any, ...] = ()
        if self.mass is None:
            slopes = self.slopes(dy, rows)
        else:
            losses = connect(items_of(loss), z, loss.second_order)
            slopes, found = self.mass.second_order(rows_of(losses), factors, dy)
            of_factors = (found,)
        change = loss.second_order(z, Ragged._freeze(slopes, loss.at._structure)).data
        first = restore(Ragged._freeze(change @ weight, structure), self.shape)
        return (*(first, change.swapaxes(0, 1) @ rows, change.sum(0))[: len(operands)], *of_factors)


class _Piece(NamedTuple):
    """A few items of a loss."""

    whole: _LinearLoss
    begin: int
    end: int

    def scores(self, states: Array, parameters: list[Array]) -> Array:
        """The scores ``(items, classes)`` of hidden states."""
        made = states @ parameters[0].swapaxes(0, 1)
        if len(parameters) > 1:
            made = made + parameters[1]
        return self.whole.library.astype(made, self.whole.name)

    def loss(self, z: Encoding) -> ClassLoss:
        """The loss of the scores."""
        whole, library = self.whole, self.whole.library
        at = without_data(z)
        on = NUMPY if library.kind(z._sample()) == "cpu" else library
        targets = whole.targets[self.begin : self.end]
        ones = np.ones(1, whole.kind)
        return ClassLoss(
            at, at, library, whole.name, whole.kind, on, LOSS_OF_ITEM, targets, ones, whole.factors, whole.ignored
        )

    def batch(self, scores: Array) -> Encoding:
        """The scores as a batch of one sequence."""
        return Ragged._freeze(scores, one_sequence(self.end - self.begin))

    def losses(self, rows: Array, parameters: list[Array]) -> Array:
        """The losses ``(items,)``, in the dtype of the kernels."""
        z = self.batch(self.scores(rows[self.begin : self.end], parameters))
        loss = self.loss(z)
        made = loss.losses(z)[1].data
        return made if loss.on is loss.library else loss.library.import_array(made, NUMPY)

    def slopes(self, states: Array, parameters: list[Array], dy: Array) -> Array:
        """The gradient of the scores ``(items, classes)``."""
        z = self.batch(self.scores(states, parameters))
        loss = self.loss(z)
        kept = loss.losses(z)[2]
        made: Array = loss.slopes_of(z._sample(), kept, dy).data
        return made
