"""Sums and means in which every item has a weight."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import NUMPY, Array, adopt, is_array, library_of
from ..arrays.dtypes import HALF, differentiable, means
from ..converters.convert import restore, rows_of
from ..errors import DEVICES, DTYPE, EMPTY, SHAPE, UNLIKE
from ..formats import Encoding, Ragged
from ..formats.annotations import Operands
from ..formats.encoding import abridge
from ..formats.leaves import without_data
from ..formats.structure import Structure
from ..gradients.operation import (
    Call,
    Operand,
    Pullback,
    brought_beside,
    each_gradient,
    linear,
    operand_beside,
    to_be_summed,
)
from ..launch.kernel import kernel
from . import pieces
from .annotations import Batch, Empty, Reduced, Weights
from .calculation import flat_layout, in_one_array, layout_for, rows_like
from .pieces import Job
from .reduction import MODE_SUM, Reduction, check_empty, fitting_value, operand_of_reduction, over_levels, rows_or_data
from .spread import spread, sum_items

weigh_rows, weigh_back = kernel("weigh_rows"), kernel("weigh_back")


def prepare_weighted(record: Reduction, mode: int, x: Batch, weights: Weights, empty: Empty) -> Call[Reduced]:
    """Prepare a sum or a mean, the `record` and the mode of the kernel, in which every item has a weight."""
    found = to_be_summed(operand_of_reduction(x))
    own: Encoding = found.own
    name = library_of(own._sample()).dtype_name(own._dtype)
    made = means(name).made
    if name.startswith("complex"):
        raise DTYPE(f"items of dtype {name} take no weights; weigh their real and imaginary parts")
    mass = weights_of(weights, own)
    if empty is not record.default:
        check_empty(own._structure, empty)
    each = len(mass.own._shape) > mass.own._lead and len(own._shape) > own._lead
    call = WeightedSums(record, mode, made, each)

    def rule(operands: tuple[Encoding, Encoding], back: bool) -> tuple[Reduced, Pullback | None]:
        z, w = operands
        if back:
            differentiable(name, "a weighted sum")
        values, totals, pullback = call.calculate(z, w, back)
        if name in HALF:
            values = library_of(values).astype(values, name)
        return over_levels(call.fill_empty(values, totals, z._structure, empty), z), pullback

    return Call((own, mass.own), rule, found.result, each_gradient([found, mass]), call.second_order)


def WITHOUT_SLOPES(_: Encoding) -> None:
    """The gradient of weights that are no floats: None."""


def weights_of(weights: Weights, x: Encoding) -> Operand:
    """Weights for the items of `x` as an encoding: given so, or as an array ``(rows,)`` or ``(rows, *item)``."""
    if is_array(weights):
        rows = adopt(weights, "weights")[1]
        if rows.shape[:1] != (x._structure.rows,):
            raise SHAPE(f"weights have shape {tuple(rows.shape)}, but there are {x.rows} items")
        found = Operand(Ragged._freeze(rows, x._structure), None, rows_of)
    else:
        found = operand_beside(weights, x._sample())
        lengths = found.own._structure.lengths
        if not found.own._structure.same_lengths(x._structure):
            raise UNLIKE(
                f"weights have sequences of lengths {abridge(lengths)}, but x has {abridge(x._structure.lengths)}"
            )
    if type(found.own._sample()) is np.ndarray:
        found = brought_beside(found, x._sample())
    own = found.own
    if len(own._shape) != own._lead and own.item_shape != x.item_shape:
        either = f"() or {x.item_shape}, that of x" if x.item_shape else "()"
        raise SHAPE(f"weights have item shape {own.item_shape}, but must have {either}")
    library, theirs = library_of(x._sample()), library_of(own._sample())
    nothing = not own.rows and (not isinstance(weights, Encoding) or not own._leaves())  # no dtype of its own
    if nothing and theirs is not library and (own._in_one_array or not own._leaves()):  # nor a library
        none = library.empty((0, *own.item_shape), library.dtype("float64"), x._sample())
        own = own._with_data(none) if own._in_one_array else Ragged._freeze(none, own._structure)
        found, theirs = Operand(own, found.result, found.gradient), library
    if theirs is not library or (library is not NUMPY and own.device != x.device):
        raise DEVICES(f"weights are on {own.device}, {theirs.name}; x is on {x.device}, {library.name}")
    name = library.dtype_name(own._dtype)
    if name.startswith(("float", "bfloat")) or (nothing and not name.startswith("complex")):
        return found
    if name != "bool" and not name.startswith(("int", "uint")):
        raise DTYPE(f"weights have dtype {name}; give them a float dtype")
    made = means(library.dtype_name(x._dtype)).made  # a mask or counts, which have no gradient
    return Operand(
        own._with_leaves([library.astype(leaf, made) for leaf in own._leaves()]), found.result, WITHOUT_SLOPES
    )


class WeightedSums:
    """One weighted sum, or mean, whose arguments have been checked."""

    def __init__(self, record: Reduction | None, mode: int, made: str, each: bool) -> None:
        self.record, self.mode, self.made = record, mode, made  # None: nothing is asked for empty sequences
        self.own = int(each)  # has every number of an item a weight of its own?

    def calculate(self, z: Encoding, w: Encoding, back: bool) -> tuple[Array, Array, Pullback | None]:
        """The values in the dtype of the kernel, of a mean the sums of the weights, and the pullback."""
        x = in_one_array(z)
        library, structure, item = library_of(x.data), x._structure, x._shape[x._lead :]
        name, theirs, made = library.dtype_name(x._dtype), library.dtype_name(w._dtype), self.made
        dtype = library.dtype(made)
        data = library.astype(x.data, made) if name in HALF else x.data
        flat = w._flat and not w.keeps_levels
        factors = library.astype(in_one_array(w).data if flat else rows_of(w), made)
        n, width = structure.n, math.prod(item)
        out = library.empty((n, *item), dtype, data)
        totals = library.empty((n, *(item if self.own else ())) if self.mode else (1,), dtype, data)
        if width and n:
            args = (x._layout(), self.mode, self.own)
            if pieces.are_long(library, structure, out):
                pieces.weigh_parts(Job(weigh_rows, library, (data, factors), (out, totals), args, width, structure))
            else:
                weigh_rows.start(library, (data, factors), (out, totals), args, width, structure)
        if not back:
            return out, totals, None
        shapes = without_data(z), without_data(w)
        kept = library.alias(out)

        def pullback(dy: Operands) -> tuple[Encoding, Encoding]:
            rows = library.astype(rows_or_data(dy), made)
            at = layout_for(shapes[0], item, dtype)
            dx = rows_like(library, at, item, dtype, rows)
            slopes = library.empty(factors.shape, dtype, rows)
            if width and n:
                args = (at._layout(), self.mode, self.own)
                given = (rows, data, factors, totals, kept)
                weigh_back.start(library, given, (dx, slopes), args, width, structure)
            elif structure.rows:  # no number is weighed
                slopes = library.zeros(factors.shape, dtype, rows)
            dw = Ragged._freeze(library.astype(slopes, theirs), structure)
            return shapes[0]._with_data(library.astype(dx, name)), restore(dw, shapes[1])

        return out, totals, pullback

    def fill_empty(self, values: Array, totals: Array, structure: Structure, empty: Empty) -> Array:
        """The result, with `empty` where there is no item, or where weights of a mean add up to zero."""
        assert self.record is not None
        if self.mode == MODE_SUM or not math.prod(values.shape):
            return self.record.fill_empty(values, structure, empty)
        if empty is self.record.default:
            return values
        library = library_of(values)
        vacant = np.flatnonzero(library.to_numpy(totals) == 0)
        if isinstance(empty, str):
            if vacant.size:
                i = int(vacant[0]) * structure.n // math.prod(totals.shape)
                raise EMPTY(f"the weights of sequence {i} add up to 0; give empty=0.0 or another value for it")
            return values
        value = fitting_value(empty, library.dtype_name(values.dtype))
        if vacant.size:
            flat = values.reshape(-1) if self.own else values
            if library.functional:  # where no array is a view of another
                flat = library.copy(flat)
            library.overwrite(flat, vacant, value)
            values = flat.reshape(values.shape)
        return values

    def second_order(self, operands: tuple[Encoding, Encoding], dy: Reduced) -> tuple[Encoding, Encoding]:
        """The gradients, made of operations that have gradients themselves."""
        z, w = operands
        structure, item = z._structure, z.item_shape
        rows, mass = rows_of(z), rows_of(w)
        library = library_of(rows)
        names = library.dtype_name(rows.dtype), library.dtype_name(mass.dtype)
        items, factors = library.astype(rows, self.made), library.astype(mass, self.made)
        slopes = library.astype(rows_or_data(dy), self.made)
        if not self.own:
            factors = factors.reshape(structure.rows, *[1] * len(item))
        flat = flat_layout(structure, item, items.dtype)
        if self.mode:
            totals = _sums(factors, structure)
            vacant = totals == 0
            inverse = library.where(vacant, 0.0, 1.0 / library.where(vacant, 1.0, totals))
            slopes = slopes * inverse
            items = items - spread(_sums(items * factors, structure) * inverse, flat).data
        slopes = spread(slopes, flat).data
        dx, dw = slopes * factors, slopes * items
        if not self.own and item:
            dw = dw.reshape(structure.rows, math.prod(item)).sum(1)
        found = (Ragged._freeze(library.astype(d, name), structure) for d, name in zip((dx, dw), names, strict=True))
        one, two = (restore(d, without_data(shape)) for d, shape in zip(found, operands, strict=True))
        return one, two


def _sums(rows: Array, structure: Structure) -> Array:
    """The sums of rows that lie sequence after sequence, in the graph."""
    flat = flat_layout(structure, tuple(rows.shape[1:]), rows.dtype)
    x: Encoding = Ragged._freeze(rows, structure)
    return linear(sum_items, lambda dz: spread(dz, flat), x)
