"""Sums, means and largest numbers of rows of a table, which are read where they are and never written out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .. import registry
from ..arrays import NO_INTS, NUMPY, Array, Library, adopt, library_of, library_of_type
from ..arrays.dtypes import FLOAT_NAMES, HALF
from ..converters.convert import rows_of
from ..errors import CHOICE, DEVICES, DTYPE, LIBRARY, SHAPE, TOGETHER, WHOLE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Given, Shaped
from ..formats.leaves import without_data
from ..formats.structure import flag
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Pullback
from ..launch.kernel import variant_of
from .annotations import Batch, Reduced, Weights
from .bags import BAG_MAX, BAG_MEAN, BAG_SUM, PATH, Bags, Operands, Source, bag_rows
from .reduction import operand_of_reduction
from .weighted_sums import weights_of

_SINGLES = variant_of("float32", "float32", "int64", "float32", "float32", "int64")


def embedding_bag(
    table: Shaped,
    ids: Batch,
    weights: Weights | None = None,
    mode: Literal["sum", "mean", "max"] = "sum",
    *,
    sparse: bool = False,
    level: int = INNERMOST,
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
    level : int
        The level of `ids` whose sequences are the bags, as in `convert`; the result has the levels above it.

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
    if level is not INNERMOST:
        return at_level(embedding_bag, level, table, ids, weights, mode, sparse=sparse)
    y = PATH.enter(table, ids, weights, mode) if sparse is False else None
    if y is None:
        y = _plainly(table, ids, weights, mode, sparse)
    return _embedding_bag(table, ids, weights, mode, sparse).run() if y is None else y


def _embedding_bag(
    table: Shaped, ids: Batch, weights: Weights | None = None, mode: str = BAG_SUM, sparse: bool = False
) -> Call[Reduced]:
    """`embedding_bag` for whatever is given, with its gradient."""
    if not (isinstance(mode, str) and mode in (BAG_SUM, BAG_MEAN, BAG_MAX)):
        raise CHOICE(f'mode must be "sum", "mean" or "max", not {quote(mode)}')
    if weights is not None and mode == BAG_MAX:
        raise TOGETHER('weights go with the modes "sum" and "mean"')
    library, rows = adopt(table, "table")
    name = library.dtype_name(rows.dtype)
    if not rows.shape:
        raise SHAPE("table must have the axes (rows, *item), but is a single number")
    if name not in FLOAT_NAMES:
        raise DTYPE(f"embedding_bag is for tables of floats ({', '.join(FLOAT_NAMES)}), but table has dtype {name}")
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
        mass = weights_of(weights, Ragged._freeze(rows, own._structure))
        if len(mass.own._shape) != mass.own._lead:
            raise SHAPE(f"weights must have one number an id, but have item shape {mass.own.item_shape}")
    kind = "float32" if name in HALF else name
    call = Bags(own, library, name, kind, flat, tuple(rows.shape), mode, bool(sparse))
    operands = (rows,) if mass is None else (rows, mass.own)
    call.weights = None if mass is None else without_data(mass.own)

    def gradient(slopes: Operands) -> Any:
        if mass is None:
            return slopes[0]
        return slopes[0], slopes[1] if mass.gradient is None else mass.gradient(slopes[1])

    return Call(
        operands, call.rule, found.result, gradient, call.second_order if mass is not None or mode == BAG_MAX else None
    )


registry.gradient(embedding_bag)(lambda args, options: _embedding_bag(*args, **options).vjp())
by_level(keeps=False, batch=1, marks=("weights",), gradients=("table", "weights"))(embedding_bag)


def _plainly(table: Given, ids: Batch, weights: Given, mode: object, sparse: object) -> Array | None:
    """The result of plain arrays on the host; None for all else, and for ids that are wrong."""
    library = library_of_type(type(table))
    if type(ids) is not Ragged or library is None or (mode is not BAG_SUM and mode is not BAG_MEAN):
        return None
    structure, mass = ids._structure, None
    if weights is not None and library_of_type(type(weights)) is not library:
        return None
    if library.autograd and library.wants_grad((table,) if weights is None else (table, weights)):
        if weights is not None or type(sparse) is not bool or library.functional:
            return None
        return library.connect(_InGraph(ids, mode, sparse), (table,))[0]
    if sparse is not False:
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
    totals = values if mass is None or mode is BAG_SUM else np.empty(structure.n, np.float32)
    args = (structure.offsets, NO_INTS, rows.shape[0], int(mode is BAG_MEAN), int(mass is not None))
    given = (rows, rows if mass is None else mass, flat)
    bag_rows.start(NUMPY, given, (values, totals, wrong), args, rows.shape[1], structure, variant=_SINGLES)
    bag_rows.teach(PATH.sums, (table.dtype,), table.dtype, _SINGLES)
    return None if wrong[0] else out


class _InGraph:
    """Sums or means of a `Ragged` of ids on their way through a graph, as `Differentiable` has it."""

    __slots__ = ("height", "ids", "mode", "places", "pullback", "sparse")

    twice = by_column = False
    leads = result_leads = (1,)

    def __init__(self, ids: Ragged[Any], mode: str, sparse: bool) -> None:
        self.ids, self.mode, self.sparse = ids, mode, sparse
        self.height, self.places = 0, NO_INTS
        self.pullback: Pullback | None = None

    def forget(self) -> None:
        """The ids are all there is to keep."""

    def again(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The result for another table."""
        y: Any = _embedding_bag(arrays[0], self.ids, None, self.mode, self.sparse).run()
        return (y,)

    def forward(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The result; by the fast path, the ids are kept, which the caller may write to before the gradient comes."""
        y = PATH.enter(arrays[0], self.ids, None, self.mode)
        if y is None:
            call = _embedding_bag(arrays[0], self.ids, None, self.mode, self.sparse)
            y, self.pullback = call.rule(call.operands, True)
        else:
            flat: Any = self.ids.data
            self.height, self.places = arrays[0].shape[0], flat.copy() if type(flat) is np.ndarray else flat.clone()
        return (y,)

    def backward(self, gradients: Sequence[Array], arrays: Sequence[Array]) -> Sequence[Array]:
        """The gradient of the table."""
        (dy,) = gradients
        if self.pullback is None:
            structure = self.ids._structure
            library, shape = library_of(dy), (self.height, *dy.shape[1:])
            dx = PATH.back(self.places, structure, dy, self.height, self.mode == BAG_MEAN, self.sparse)
            if dx is not None:
                return (library.sparse(dx[0], dx[1], shape) if self.sparse else dx,)
            name = library.dtype_name(dy.dtype)
            ids = library.from_host(self.places, dy) if type(self.places) is np.ndarray else self.places
            kind = "float32" if name in HALF else name
            bags = Bags(self.ids, library, name, kind, ids, shape, self.mode, self.sparse)
            self.pullback = bags.linear_pullback(Source(dy, ids, self.height, None))
        found: Sequence[Array] = self.pullback(dy)
        return found


def _plain_ids(ids: Ragged, library: Library) -> Array | None:
    """The ids as a NumPy array of int64, where they are that already, of this library or NumPy's, on the host."""
    theirs: Library = ids._look()
    data: Any = ids.data
    if len(ids._shape) != 1 or ids._dtype != theirs.dtype("int64") or (theirs is not library and theirs is not NUMPY):
        return None
    return theirs.operand(data) if theirs is NUMPY or theirs.kind(data) == "cpu" else None


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
