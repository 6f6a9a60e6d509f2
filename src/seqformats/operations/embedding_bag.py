"""Sums, means and largest numbers of rows of a table, which are read where they are and never written out."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from .. import registry
from ..arrays import NUMPY, Array, Library, adopt, frozen, library_of, library_of_type, to_host
from ..arrays.dtypes import HALF
from ..converters.convert import restored, rows_of
from ..errors import CHOICE, DEVICES, DTYPE, INDEX, LIBRARY, SHAPE, TOGETHER, WHOLE, said
from ..formats import Encoding, Ragged
from ..formats.annotations import Shaped
from ..formats.leaves import without_data
from ..formats.structure import Structure
from ..gradients.operation import Call, Operand, Pullback, linear
from ..gradients.vjp import vjp
from ..launch.kernel import kernel, variant_of
from .annotations import Batch, Reduced, Weights
from .extremes import reduce_max
from .options import flag
from .over import scratch
from .reduce import reduce_mean, reduce_sum
from .reduction import operand_of_reduction, over_levels, rows_or_data
from .select import selected
from .weighted import weights_of

bag_rows, bag_max = kernel("bag_rows"), kernel("bag_max")
bag_max_back, bag_slopes, bag_weights_back = kernel("bag_max_back"), kernel("bag_slopes"), kernel("bag_weights_back")
group_bins, rank_keys = kernel("group_bins"), kernel("rank_keys")

Operands: TypeAlias = tuple[Any, ...]
"""The table, and the weights if there are some."""
FLOATS = (*HALF, "float32", "float64")
SUM, MEAN, MAX = "sum", "mean", "max"
NOTHING = frozen(np.zeros(0, np.int64))
FEW = 4
"""Up to so many rows of a table an id, ids are sorted by counting them."""


def embedding_bag(
    table: Shaped,
    ids: Batch,
    weights: Weights | None = None,
    mode: Literal["sum", "mean", "max"] = "sum",
    *,
    sparse: bool = False,
) -> Reduced:
    """Reduce the rows of `table` that the ids of each sequence name, without writing these rows out.

    Parameters
    ----------
    table : array ``(rows, *item)``
        Floats.
    ids : an encoding, a list of arrays or nested lists
        Integers from 0 to ``rows - 1``, item shape () or (1,): a bag in each sequence.
    weights : an encoding, a list of arrays, nested lists or an array ``(ids,)``, optional
        A float for each id, by which its row is multiplied.
    mode : "sum", "mean" or "max"
        Of the rows of a bag, column by column; a mean with weights is divided by their sum.
    sparse : bool
        Of a `table` of PyTorch: make its gradient a sparse tensor with one row for each different id, as
        ``torch.optim.SparseAdam`` takes it.

    Returns
    -------
    array, LoD or list
        ``(n, *item)``, in the dtype and library of `table`; zeros for an empty bag, and where the weights of a mean add
        up to 0.  Where `ids` is a `LoD` with more levels a `LoD` without its innermost.  Its pullback gives the
        gradients of `table`, and of `weights` if there are some.

    Raises
    ------
    IndexError
        For an id that is no row.
    StructureError
        For weights of other lengths, and items of `ids` that are no single integers.
    TypeError
        For a table that does not hold floats, and ids that are no integers.
    ConversionError
        For another mode, and weights beside "max".
    DeviceError
        If the arrays belong to different libraries or devices; `ids` of NumPy go with any table.

    See Also
    --------
    reduce_sum : Of rows that are there already.

    Notes
    -----
    Rows are added up in the order of the ids, blocks of 32 in float64, whatever the batch and the threads.  For the
    gradient ids are sorted, on the host, so that each row of it is written once.  Half precision is calculated in
    float32; of a larger table the rows that are named are cast.

    The same as ``torch.nn.functional.embedding_bag``, which knows no weights of means.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> table = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    >>> sf.embedding_bag(table, [[0, 2], [], [1, 1, 1]])
    array([[4., 3.],
           [0., 0.],
           [0., 6.]])
    >>> sf.embedding_bag(table, [[0, 2], [1]], weights=[[0.5, 2.0], [1.0]], mode="mean")
    array([[2.6, 2.4],
           [0. , 2. ]])
    """
    y = _at_once(table, ids, weights, mode)
    return _embedding_bag(table, ids, weights, mode, sparse).run() if y is None else y


def _embedding_bag(
    table: Shaped, ids: Batch, weights: Weights | None = None, mode: str = SUM, sparse: bool = False
) -> Call[Reduced]:
    """`embedding_bag` for whatever is given, with its gradient."""
    if not (isinstance(mode, str) and mode in (SUM, MEAN, MAX)):
        raise CHOICE(f'mode must be "sum", "mean" or "max", not {said(mode)}')
    if weights is not None and mode == MAX:
        raise TOGETHER('weights go with the modes "sum" and "mean"')
    library, rows = adopt(table, "table")
    name = library.dtype_name(rows.dtype)
    if not rows.shape:
        raise SHAPE("table must have the axes (rows, *item), but is a single number")
    if name not in FLOATS:
        raise DTYPE(f"embedding_bag is for tables of floats ({', '.join(FLOATS)}), but table has dtype {name}")
    if flag(sparse, "sparse") and not library.has_sparse:
        raise LIBRARY(f"sparse gradients are those of PyTorch, but table is an array of {library.name}")
    found = operand_of_reduction(ids)
    own: Encoding = found.own
    flat = _ids_beside(library, rows, own)
    mass = None
    if weights is not None:
        if type(weights) is np.ndarray and library is not NUMPY:
            weights = library.from_host(weights, rows)
        # ids may be NumPy's; weights are beside the table
        mass = weights_of(weights, Ragged._sealed(rows, own._structure))
        if len(mass.own._shape) != mass.own._lead:
            raise SHAPE(f"weights must have one number an id, but have item shape {mass.own.item_shape}")
    kind = "float32" if name in HALF else name
    call = _Bags(own, library, name, kind, flat, tuple(rows.shape), mode, bool(sparse))
    operands = (rows,) if mass is None else (rows, mass.own)
    call.weights = None if mass is None else without_data(mass.own)

    def gradient(slopes: Operands) -> Any:
        if mass is None:
            return slopes[0]
        return slopes[0], slopes[1] if mass.gradient is None else mass.gradient(slopes[1])

    return Call(
        operands, call.rule, found.result, gradient, call.second_order if mass is not None or mode == MAX else None
    )


registry.gradient(embedding_bag)(lambda args, options: _embedding_bag(*args, **options).vjp())


def _at_once(table: Any, ids: Batch, weights: Any, mode: object) -> Array | None:
    """The result of plain arrays on the host that want no gradient; None for all else, and for ids that are wrong."""
    library = library_of_type(type(table))
    if type(ids) is not Ragged or library is None or (mode is not SUM and mode is not MEAN):
        return None
    structure, mass = ids._structure, None
    if weights is not None and library_of_type(type(weights)) is not library:
        return None
    if library.autograd and library.wants_grad((table,) if weights is None else (table, weights)):
        return None
    rows = library.floats(library.alias(table))
    flat = _plain_ids(ids, library)
    if rows is None or flat is None or rows.ndim != 2 or not (structure.rows and rows.size):
        return None
    if weights is not None:
        mass = library.floats(library.alias(weights))
        if mass is None or mass.shape != flat.shape:
            return None
    out = library.empty((structure.n, rows.shape[1]), table.dtype, table)
    values, wrong = library.result(out), np.zeros(1, np.int64)
    totals = values if mass is None or mode is SUM else np.empty(structure.n, np.float32)
    args = (structure.offsets, NOTHING, rows.shape[0], int(mode is MEAN), int(mass is not None))
    given = (rows, rows if mass is None else mass, flat)
    bag_rows.start(NUMPY, given, (values, totals, wrong), args, rows.shape[1], structure, variant=_SINGLES)
    return None if wrong[0] else out


def _plain_ids(ids: Ragged, library: Library) -> Array | None:
    """The ids as a NumPy array of int64, where they are that already, of this library or NumPy's, on the host."""
    theirs: Library = ids._look()
    data: Any = ids.data
    if len(ids._shape) != 1 or ids._dtype != theirs.dtype("int64") or (theirs is not library and theirs is not NUMPY):
        return None
    return theirs.operand(data) if theirs is NUMPY or theirs.kind(data) == "cpu" else None


_SINGLES = variant_of("float32", "float32", "int64", "float32", "float32", "int64")


def _ids_beside(library: Library, table: Array, own: Encoding) -> Array:
    """The ids one bag after the other, int64, where the table is; checked but for their values."""
    if math.prod(own.item_shape) != 1 or len(own.item_shape) > 1:
        raise SHAPE(f"ids must be single integers, but have item shape {own.item_shape}")
    flat = rows_of(own).reshape(-1)
    theirs = library_of(flat)
    name = theirs.dtype_name(flat.dtype)
    if not own.rows:
        return library.zeros((0,), library.dtype("int64"), table)
    if not name.startswith(("int", "uint")):
        raise WHOLE(f"ids must be integers, not {name}")
    if theirs is NUMPY and library is not NUMPY:
        return library.from_host(NUMPY.astype(flat, "int64"), table)
    if theirs is not library or (library is not NUMPY and library.device(flat) != library.device(table)):
        raise DEVICES(
            f"table is on {library.device(table)}, {library.name}, but ids are on {theirs.device(flat)}, {theirs.name}"
        )
    return library.astype(flat, "int64")


class _Bags:
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
            return self.composed(operands), None
        weights = library.astype(library.alias(rows_of(operands[1])), self.kind) if len(operands) > 1 else NOTHING
        if back:  # the ids are the caller's, who may write others before the gradient comes
            self.ids = library.copy(self.ids)
        source = self.source(library.alias(table))
        sums = self.reduce(source, weights, back)
        y = self.laid(sums.values)
        if not back:
            return y, None
        if len(operands) > 1 or self.mode == MAX:
            return y, lambda dy: self.pull(source, weights, sums, dy)

        def again(slopes: Operands) -> Reduced:
            source = self.source(slopes[0])
            return self.laid(self.reduce(source, NOTHING, False).values)

        return y, lambda dy: linear(lambda z: self.pull(source, weights, sums, z), again, dy)

    def laid(self, values: Array) -> Reduced:
        """The result, of rows in the dtype of the kernels."""
        y = self.library.astype(values, self.name).reshape(self.structure.n, *self.item)
        return over_levels(self.library.settled(y) if self.library.functional else y, self.shape)

    # --- forwards ---

    def source(self, table: Array) -> _Source:
        """The rows that kernels read, and the ids of these."""
        library, rows, count = self.library, int(table.shape[0]), int(self.ids.shape[0])
        if self.name not in HALF or rows <= count:
            return _Source(library.astype(table, self.kind), self.ids, rows, None)
        host = to_host(self.ids)
        self.check(host)
        distinct, places = np.unique(host, return_inverse=True)
        chosen = library.astype(library.take(table, distinct, 0), self.kind)
        return _Source(chosen, library.from_host(places.reshape(-1), table), distinct.size, distinct)

    def reduce(self, source: _Source, weights: Array, placed: bool) -> _Sums:
        """The values ``(n, width)`` in the dtype of the kernels; with `placed` of maxima where they are."""
        library, n, width = self.library, self.structure.n, self.width
        like, dtype = source.rows, library.dtype(self.kind)
        if not (n and width and self.ids.shape[0]):
            self.check(to_host(self.ids))
            none = library.zeros((n, width), dtype, like)
            return _Sums(none, library.zeros((n,), dtype, like), NOTHING)
        if not source.height:
            self.check(to_host(self.ids))
        out = library.empty((n, width), dtype, like)
        wrong = _flags(library, like)
        totals, places = out, NOTHING
        if self.mode == MAX:
            places = scratch(library, (n * width if placed else 1,), "int64", like)
            args: tuple[Any, ...] = (self.structure.offsets, source.height, int(placed))
            bag_max.start(library, (like, source.ids), (out, places, wrong), args, width, self.structure)
        else:
            weighted, mean = int(weights is not NOTHING), int(self.mode == MEAN)
            if weighted and mean:
                totals = library.empty((n,), dtype, like)
            given = (like, weights if weighted else like, source.ids)
            args = (self.structure.offsets, NOTHING, source.height, mean, weighted)
            bag_rows.start(library, given, (out, totals, wrong), args, width, self.structure)
        if int((wrong if type(wrong) is np.ndarray else library.to_numpy(wrong))[0]):
            self.check(to_host(self.ids))
        return _Sums(out, totals, places)

    def check(self, ids: Array) -> None:
        """IndexError for an id that is no row of the table."""
        count = self.table[0]
        wrong = (ids < 0) | (ids >= count)
        if wrong.any():
            r, offsets = int(wrong.argmax()), self.structure.offsets
            i = int(np.searchsorted(offsets, r, side="right")) - 1
            raise INDEX(f"ids[{i}][{r - offsets[i]}] is {ids[r]}, but table has {count} rows")

    # --- backwards ---

    def pull(self, source: _Source, weights: Array, sums: _Sums, dy: Reduced) -> tuple[Any, ...]:
        """The gradients of the table, and of the weights if there are some."""
        library, n, width = self.library, self.structure.n, self.width
        slopes = library.astype(rows_or_data(dy), self.kind).reshape(n, width)
        weighted = weights is not NOTHING
        shifts = library.zeros((n,), slopes.dtype, slopes) if weighted else slopes
        if not (n and width and self.ids.shape[0]):
            shape = (0 if self.sparse else self.table[0], width)
            made = self.table_of(NOTHING, library.zeros(shape, slopes.dtype, slopes))
            return (made, self.weights_of(library.zeros(weights.shape, slopes.dtype, slopes))) if weighted else (made,)
        if self.mode == MEAN:
            scaled = library.empty((n, width), slopes.dtype, slopes)
            given = (slopes, sums.values, sums.totals)
            args = (self.structure.offsets, int(weighted), width)
            bag_slopes.start(library, given, (scaled, shifts), args, 1, self.structure)
            slopes = scaled
        named = _Named.of(to_host(source.ids), source.height, self.structure)
        made = self.of_table(named, source, weights, sums, slopes)
        if not weighted:
            return (made,)
        out = library.empty((self.structure.rows,), slopes.dtype, slopes)
        taken = (source.rows, slopes, shifts, source.ids)
        bag_weights_back.start(library, taken, (out,), (self.structure.offsets, width), 1, self.structure)
        return made, self.weights_of(out)

    def of_table(self, named: _Named, source: _Source, weights: Array, sums: _Sums, slopes: Array) -> Any:
        """The gradient of the table: of each row that is named the sum of the gradients of its bags."""
        library, width = self.library, self.width
        places = named.rows if source.distinct is None else source.distinct[named.rows]
        if self.sparse:
            out = library.empty((places.size, width), slopes.dtype, slopes)
        else:
            out = library.zeros((self.table[0], width), slopes.dtype, slopes)
        to: Array = np.arange(places.size) if self.sparse else places
        bags = library.from_host(named.bags, slopes)
        if self.mode == MAX:
            chosen = (slopes, sums.places, library.from_host(named.order, slopes), bags)
            bag_max_back.start(library, chosen, (out,), (named.structure.offsets, frozen(to)), width, named.structure)
        else:
            weighted = int(weights is not NOTHING)
            factors = library.take(weights, named.order, 0) if weighted else slopes
            args = (named.structure.offsets, frozen(to), self.structure.n, 0, weighted)
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
        return restored(Ragged._sealed(self.library.astype(slopes, name), self.structure), shape)

    # --- by other operations ---

    def composed(self, operands: Operands) -> Reduced:
        """The result by operations that programs and graphs know."""
        ids = to_host(self.ids)
        self.check(ids)
        z = Ragged._sealed(selected(Operand(operands[0]), ids).run(), self.structure)
        return over_levels(self.reduction()(z, **_options(operands)), self.shape)

    def reduction(self) -> Any:
        """The operation that reduces rows which are there."""
        return {SUM: reduce_sum, MEAN: reduce_mean, MAX: reduce_max}[self.mode]

    def second_order(self, operands: Operands, dy: Reduced) -> tuple[Any, ...]:
        """The gradients, made of operations that have gradients themselves."""
        rows, back = selected(Operand(operands[0]), to_host(self.ids)).vjp()
        _, pullback = vjp(self.reduction(), Ragged._sealed(rows, self.structure), **_options(operands))
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


class _Source(NamedTuple):
    """Rows as kernels read them."""

    rows: Array  # in the dtype of the kernels
    ids: Array  # int64 (ids,), beside them
    height: int
    distinct: Array | None  # which rows of the table these are, where they are not all


class _Sums(NamedTuple):
    """The results of bags."""

    values: Array  # (n, width)
    totals: Array  # (n,), sums of weights, of a weighted mean
    places: Array  # (n * width,), of maxima that have a gradient


class _Named(NamedTuple):
    """The rows that ids name, and the bags in which each is: the bags, transposed."""

    rows: Array  # which rows, rising
    structure: Structure  # how often each is named
    order: Array  # the places of the ids, row by row
    bags: Array  # and the bags of these

    @classmethod
    def of(cls, ids: Array, count: int, bags: Structure) -> _Named:
        """Sort the ids, equal ones in their order."""
        order = np.empty(ids.size, np.int64)
        if count <= FEW * ids.size:
            counts, begins = np.empty((2, count), np.int64)
            group_bins.run(ids, counts, order, begins)
            rows = np.flatnonzero(counts)
            lengths = counts[rows]
        else:
            words, other = np.empty((2, ids.size), np.int64)
            rank_keys.run(count - 1 - ids, words, other, np.empty(2048, np.int64), order)
            falls = np.flatnonzero(np.diff(ids[order], prepend=-1))
            rows, lengths = ids[order[falls]], np.diff(falls, append=ids.size)
        sequences = np.repeat(np.arange(bags.n), bags.lengths)
        return cls(frozen(rows), Structure.of_lengths(lengths), frozen(order), frozen(sequences[order]))
