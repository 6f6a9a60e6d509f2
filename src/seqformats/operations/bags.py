"""Bags of rows of a table, their arguments being checked: what they are, and the gradients, in any library."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import core
from ..arrays import NO_INTS, NUMPY, Array, DType, Library, freeze, to_host
from ..arrays.dtypes import HALF
from ..converters.convert import restore, rows_of
from ..errors import INDEX
from ..formats import Encoding, Ragged
from ..formats.structure import Structure
from ..gradients.operation import Operand, Pullback, linear
from ..gradients.vjp import vjp
from ..launch.kernel import Kernel, kernel, variant_of
from .annotations import Reduced
from .calculation import scratch
from .extremes import reduce_max
from .reduction import over_levels, rows_or_data
from .select import select_call
from .sums import reduce_mean, reduce_sum

bag_rows, bag_max = kernel("bag_rows"), kernel("bag_max")
bag_max_back, bag_slopes, bag_weights_back = kernel("bag_max_back"), kernel("bag_slopes"), kernel("bag_weights_back")
group_ids = kernel("group_ids")

Operands: TypeAlias = tuple[Any, ...]
"""The table, and the weights if there are some."""
BAG_SUM, BAG_MEAN, BAG_MAX = "sum", "mean", "max"
PATH = core.Bags()


class Bags:
    """A call whose arguments are checked, but for the values of the ids."""

    def __init__(
        self,
        shape: Encoding,
        library: Library,
        name: str,
        kind: str,
        ids: Array,
        table: tuple[int, ...],
        mode: str,
        sparse: bool,
    ) -> None:
        self.shape, self.structure = shape, shape._structure
        self.library, self.name, self.kind = library, name, kind
        self.ids, self.table = ids, table
        self.mode, self.sparse = mode, sparse
        self.weights: Encoding | None = None  # without their data
        self.item = table[1:]
        self.width = math.prod(self.item)

    def rule(self, operands: Operands, back: bool) -> tuple[Reduced, Pullback | None]:
        """The result, and the pullback."""
        library, table = self.library, operands[0]
        if library.functional and library.kind(table) != "cpu":
            return self.compose(operands), None
        weights = library.astype(library.alias(rows_of(operands[1])), self.kind) if len(operands) > 1 else NO_INTS
        if back:  # the ids are the caller's, who may write others before the gradient comes
            self.ids = library.copy(self.ids)
        source = self.source(library.alias(table), not back or len(operands) == 1)
        sums = self.reduce(source, weights, back)
        y = self.make_result(sums.values)
        if not back:
            return y, None
        if len(operands) > 1 or self.mode == BAG_MAX:
            return y, lambda dy: self.pull(source, weights, sums, dy)
        return y, self.linear_pullback(source)

    def linear_pullback(self, source: Source) -> Pullback:
        """The pullback of what is linear, in any graph."""

        def again(slopes: Operands) -> Reduced:
            return self.make_result(self.reduce(self.source(slopes[0]), NO_INTS, False).values)

        return lambda dy: linear(lambda z: self.pull(source, NO_INTS, Sums(NO_INTS, NO_INTS, NO_INTS), z), again, dy)

    def make_result(self, values: Array) -> Reduced:
        """The result, of rows in the dtype of the kernels."""
        y = self.library.astype(values, self.name).reshape(self.structure.n, *self.item)
        return over_levels(self.library.settle(y) if self.library.functional else y, self.shape)

    # --- forwards ---

    def source(self, table: Array, as_bits: bool = True) -> Source:
        """The rows that kernels read, and the ids of these; half precision itself where that may be."""
        library, rows, count = self.library, int(table.shape[0]), int(self.ids.shape[0])
        if as_bits and self.mode != BAG_MAX and self.name in HALF and library.bits(table) is not None:
            return Source(table, self.ids, rows, None)
        if self.name not in HALF or rows <= count:
            return Source(library.astype(table, self.kind), self.ids, rows, None)
        host = to_host(self.ids)
        self.check(host)
        distinct, places = np.unique(host, return_inverse=True)
        chosen = library.astype(library.take(table, distinct, 0), self.kind)
        return Source(chosen, library.from_host(places.reshape(-1), table), distinct.size, distinct)

    def reduce(self, source: Source, weights: Array, placed: bool) -> Sums:
        """The values ``(n, width)`` in the dtype of the kernels; with `placed` of maxima where they are."""
        library, n, width = self.library, self.structure.n, self.width
        like, dtype = source.rows, source.rows.dtype
        if not (n and width and self.ids.shape[0]):
            self.check(to_host(self.ids))
            none = library.zeros((n, width), dtype, like)
            return Sums(none, library.zeros((n,), dtype, like), NO_INTS)
        if not source.height:
            self.check(to_host(self.ids))
        out = library.empty((n, width), dtype, like)
        wrong = _flags(library, like)
        totals, places, read, name = out, NO_INTS, like, self.kind
        if self.mode == BAG_MAX:
            places = scratch(library, (n * width if placed else 1,), "int64", like)
            args: tuple[Any, ...] = (self.structure.offsets, source.height, int(placed))
            bag_max.start(library, (like, source.ids), (out, places, wrong), args, width, self.structure)
            self.teach(bag_max, PATH.largest, dtype, name, "int64", name, "int64", "int64")
        else:
            weighted, mean = int(weights is not NO_INTS), int(self.mode == BAG_MEAN)
            made: Any = out
            bits = library.bits(like) if self.name in HALF else None
            if bits is not None:
                read, made, name = bits, library.bits(out), bits.dtype.name
            if (weighted and mean) or bits is not None:
                totals = library.empty((n,), library.dtype(self.kind), like)
            given = (read, weights if weighted else totals, source.ids)
            args = (self.structure.offsets, NO_INTS, source.height, mean, weighted)
            bag_rows.start(library, given, (made, totals, wrong), args, width, self.structure)
            self.teach(bag_rows, PATH.sums, dtype, name, self.kind, "int64", name, self.kind, "int64")
        if int((wrong if type(wrong) is np.ndarray else library.to_numpy(wrong))[0]):
            self.check(to_host(self.ids))
        return Sums(out, totals, places)

    def teach(self, kernel: Kernel, path: Any, dtype: DType, *names: str) -> None:
        """Tell a fast path for tables of this dtype of the code of a kernel for arrays of these."""
        kernel.teach(path, (dtype,), dtype, variant_of(*names))

    def check(self, ids: Array) -> None:
        """IndexError for an id that is no row of the table."""
        count = self.table[0]
        wrong = (ids < 0) | (ids >= count)
        if wrong.any():
            r, offsets = int(wrong.argmax()), self.structure.offsets
            i = int(np.searchsorted(offsets, r, side="right")) - 1
            raise INDEX(f"ids[{i}][{r - offsets[i]}] is {ids[r]}, but table has {count} rows")

    # --- backwards ---

    def pull(self, source: Source, weights: Array, sums: Sums, dy: Reduced) -> tuple[Any, ...]:
        """The gradients of the table, and of the weights if there are some."""
        library, n, width = self.library, self.structure.n, self.width
        slopes = library.astype(rows_or_data(dy), self.kind).reshape(n, width)
        weighted = weights is not NO_INTS
        shifts = library.zeros((n,), slopes.dtype, slopes) if weighted else slopes
        if not (n and width and self.ids.shape[0]):
            shape = (0 if self.sparse else self.table[0], width)
            made = self.table_of(NO_INTS, library.zeros(shape, slopes.dtype, slopes))
            return (made, self.weights_of(library.zeros(weights.shape, slopes.dtype, slopes))) if weighted else (made,)
        if self.mode == BAG_MEAN:
            scaled = library.empty((n, width), slopes.dtype, slopes)
            given = (slopes, sums.values, sums.totals) if weighted else (slopes, slopes, slopes)
            args = (self.structure.offsets, int(weighted), width)
            bag_slopes.start(library, given, (scaled, shifts), args, 1, self.structure)
            self.teach(bag_slopes, PATH.slopes, slopes.dtype, *[self.kind] * 5)
            slopes = scaled
        named = Named.from_ids(to_host(source.ids), source.height, self.structure)
        made = self.of_table(named, source, weights, sums, slopes)
        if not weighted:
            return (made,)
        out = library.empty((self.structure.rows,), slopes.dtype, slopes)
        taken = (source.rows, slopes, shifts, source.ids)
        bag_weights_back.start(library, taken, (out,), (self.structure.offsets, width), 1, self.structure)
        return made, self.weights_of(out)

    def of_table(self, named: Named, source: Source, weights: Array, sums: Sums, slopes: Array) -> Any:
        """The gradient of the table: of each row that is named the sum of the gradients of its bags."""
        library, width = self.library, self.width
        places = named.rows if source.distinct is None else source.distinct[named.rows]
        if self.sparse:
            out = library.empty((places.size, width), slopes.dtype, slopes)
        else:
            out = library.zeros((self.table[0], width), slopes.dtype, slopes)
        to: Array = np.arange(places.size) if self.sparse else places
        bags = library.from_host(named.bags, slopes)
        if self.mode == BAG_MAX:
            chosen = (slopes, sums.places, library.from_host(named.order, slopes), bags)
            bag_max_back.start(library, chosen, (out,), (named.structure.offsets, freeze(to)), width, named.structure)
        else:
            weighted = int(weights is not NO_INTS)
            factors = library.take(weights, named.order, 0) if weighted else slopes
            args = (named.structure.offsets, freeze(to), self.structure.n, 0, weighted)
            given = (slopes, factors, bags)
            bag_rows.start(library, given, (out, out, _flags(library, slopes)), args, width, named.structure)
        return self.table_of(places, out)

    def table_of(self, places: Array, rows: Array) -> Any:
        """The gradient of the table, of its rows, or where it is sparse of those at `places`."""
        library = self.library
        rows = library.astype(rows, self.name).reshape(places.size if self.sparse else self.table[0], *self.item)
        return library.sparse(places, rows, self.table) if self.sparse else rows

    def weights_of(self, slopes: Array) -> Encoding:
        """The gradient of the weights, as they are laid out."""
        shape: Any = self.weights
        name = self.library.dtype_name(shape.dtype)
        return restore(Ragged._freeze(self.library.astype(slopes, name), self.structure), shape)

    # --- by other operations ---

    def compose(self, operands: Operands) -> Reduced:
        """The result by operations that programs and graphs know."""
        ids = to_host(self.ids)
        self.check(ids)
        z = Ragged._freeze(select_call(Operand(operands[0]), ids).run(), self.structure)
        return over_levels(self.reduction()(z, **_options(operands)), self.shape)

    def reduction(self) -> Any:
        """The operation that reduces rows which are there."""
        return {BAG_SUM: reduce_sum, BAG_MEAN: reduce_mean, BAG_MAX: reduce_max}[self.mode]

    def second_order(self, operands: Operands, dy: Reduced) -> tuple[Any, ...]:
        """The gradients, made of operations that have gradients themselves."""
        rows, back = select_call(Operand(operands[0]), to_host(self.ids)).vjp()
        _, pullback = vjp(self.reduction(), Ragged._freeze(rows, self.structure), **_options(operands))
        found = pullback(rows_or_data(dy))
        if len(operands) == 1:
            return (back(found.data),)
        return back(found[0].data), found[1]


def _options(operands: Operands) -> dict[str, Any]:
    return {"weights": operands[1]} if len(operands) > 1 else {}


def _flags(library: Library, like: Array) -> Array:
    """A number that kernels make 1 where an id is wrong."""
    if library is NUMPY or library.kind(like) == "cpu":
        return np.zeros(1, np.int64)
    return library.zeros((1,), library.dtype("int64"), like)


class Source(NamedTuple):
    """Rows as kernels read them."""

    rows: Array  # in the dtype of the kernels
    ids: Array  # int64 (ids,), beside them
    height: int
    distinct: Array | None  # which rows of the table these are, where they are not all


class Sums(NamedTuple):
    """The results of bags."""

    values: Array  # (n, width)
    totals: Array  # (n,), sums of weights, of a weighted mean
    places: Array  # (n * width,), of maxima that have a gradient


class Named(NamedTuple):
    """The rows that ids name, and the bags in which each is: the bags, transposed."""

    rows: Array  # which rows, rising
    structure: Structure  # how often each is named
    order: Array  # the places of the ids, row by row
    bags: Array  # and the bags of these

    @classmethod
    def from_ids(cls, ids: Array, height: int, bags: Structure) -> Named:
        """Sort the ids, equal ones in their order."""
        m = ids.size
        table = np.empty(6 * m + 2049, np.int64)
        count = group_ids.run(ids, bags.offsets, height, table)
        table.setflags(write=False)
        offsets, ends = table[m : m + count + 1], (2 * m + 1, 3 * m + 1, 4 * m + 1)
        return cls(table[:count], Structure.of_offsets(offsets), table[ends[1] : ends[2]], table[ends[0] : ends[1]])
