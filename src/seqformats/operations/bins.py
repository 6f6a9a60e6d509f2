"""Counts of fixed width: how often each number comes in every sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, adopt, is_array, library_of, to_host
from ..arrays.dtypes import SUMS_IN, differentiable
from ..converters.convert import convert, rows_of
from ..converters.layouts import check_at_least
from ..converters.like import convert_like
from ..errors import BEYOND, DTYPE, NO_GRADIENT, SHAPE, WHOLE
from ..formats import Encoding, Ragged
from ..formats.leaves import without_data
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Operand, Pullback, brought_beside, linear_call, operand_beside, with_rule
from ..launch.kernel import Work, kernel
from .annotations import Batch, Reduced, Weights
from .calculation import in_one_array, name_of, rows_like, settle
from .companions import check_beside, check_same_lengths, data_beside
from .reduction import operand_of_reduction, over_levels, rows_or_data

count_bins, take_bins = kernel("count_bins"), kernel("take_bins")


def bincount(x: Batch, size: int, weights: Weights | None = None, *, level: int = INNERMOST) -> Reduced:
    """Count how often every sequence has each of the numbers from 0 to ``size - 1``.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Integers or bools with item shape () or (1,), each from 0 to ``size - 1``.
    size : int
        The number of bins, not negative.
    weights : a batch or an array of numbers, optional
        A number for each item, in sequences as long as those of `x` or in an array ``(rows,)``: they are added up
        instead.  Bools are a mask of the items that count; NumPy's go with any library.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        ``(n, size)`` of int64, or in the dtype of `weights` that are no bools; of more levels what `reduce_sum` gives.

    Raises
    ------
    StructureError
        For an item that is in no bin, for weights that do not fit, and for other item shapes.
    ConversionError
        If `size` is negative.
    TypeError
        For an `x` that holds no integers, or weights that are no real numbers.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    unique : The numbers that are there, with their counts.
    isin : Which items are some numbers.
    scatter : Rows added up at chosen places.

    Notes
    -----
    NumPy's `bincount` of each sequence.  Floats are added up in float64.  The gradient is that of the weights.  How
    many items are in no bin is copied from a GPU to the host; in a program that JAX traces they are in no count.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([0, 2, 2, 1]), [3, 1])
    >>> sf.bincount(x, 4)
    array([[1, 0, 2, 0],
           [0, 1, 0, 0]])
    >>> sf.bincount(x, 3, weights=np.array([0.5, 1.0, 2.0, 8.0]))
    array([[0.5, 0. , 3. ],
           [0. , 8. , 0. ]])
    """
    if level is not INNERMOST:
        return at_level(bincount, level, x, size, weights)
    return _prepare_bincount(x, size, weights).run()


def _prepare_bincount(x: Batch, size: int, weights: Weights | None) -> Call[Reduced]:
    """Make the `Call` of `bincount`."""
    found = operand_of_reduction(x)
    own = found.own
    width = check_at_least(size, "size", 0)
    if own.item_shape not in ((), (1,)):
        raise SHAPE(f"x must have one number per item, item shape () or (1,), but has {own.item_shape}")
    name = name_of(own)
    if not name.startswith(("int", "uint", "bool")) and (own.rows or isinstance(x, Encoding)):
        raise WHOLE(f"bins are for integers, but x has dtype {name}")
    if weights is None:

        def count(z: Encoding, back: bool) -> tuple[Reduced, Pullback | None]:
            if back and not library_of(z._sample()).functional:
                raise NO_GRADIENT("a count has no gradient; give weights=, which have one")
            return over_levels(_Numbers(z, width).sum_bins(None, "int64"), z), None

        return Call(own, count, found.result)
    numbers = _Numbers(own, width, fixed=True)
    mass = _weights(weights, own)
    kind = name_of(mass.own)
    if kind not in SUMS_IN or kind.startswith("complex"):
        raise DTYPE(f"weights are real numbers, but have dtype {kind}")
    kind = "int64" if kind == "bool" else kind  # a mask counts
    shape = without_data(mass.own)

    def forward(w: Encoding) -> Any:
        return over_levels(numbers.sum_bins(w, kind), own)

    def transpose(dy: Reduced) -> Any:
        return numbers.spread(rows_or_data(dy), shape, kind)

    return linear_call(
        mass.own,
        forward,
        transpose,
        found.result,
        mass.gradient,
        check=lambda: differentiable(kind, "a weighted count"),
    )


by_level(keeps=False, beside=("weights",), gradients=("weights",))(with_rule(bincount, _prepare_bincount))


def _weights(given: Weights, x: Encoding) -> Operand:
    """Take a number for each item, in a batch or in an array; NumPy's come beside arrays of other libraries."""
    if is_array(given):
        rows = adopt(given, "weights")[1]
        if tuple(rows.shape) != (x._structure.rows,):
            raise SHAPE(f"weights must have one number per item, shape ({x._structure.rows},), not {tuple(rows.shape)}")
        found = Operand(Ragged._freeze(rows, x._structure), None, rows_of)
    else:
        found = operand_beside(given, x._sample())
        check_same_lengths(found.own._structure, x._structure, "weights", "x")
        if found.own.item_shape not in ((), (1,)):
            raise SHAPE(f"weights must have one number per item, but have item shape {found.own.item_shape}")
    if type(found.own._sample()) is np.ndarray:
        found = brought_beside(found, x._sample())
    if found.own.rows or isinstance(given, Encoding):  # lists without items have no library
        check_beside(found.own._sample(), x, "weights", "x")
    return found


class _Numbers:
    """The integers of a batch, which say in which bin each item is."""

    def __init__(self, x: Encoding, width: int, fixed: bool = False) -> None:
        self.x, self.width = in_one_array(x), width
        self.library = library_of(self.x.data)
        name = self.library.dtype_name(self.x._dtype)
        narrow = name in ("bool", "int8", "int16", "int32", "uint8", "uint16")
        self.items = self.library.astype(self.x.data, "int32" if narrow else "int64")
        if fixed and self.library.functional:  # beside weights in a program of JAX they have values
            self.items = to_host(self.items)

    def sum_bins(self, weights: Encoding | None, name: str) -> Array:
        """Add up the weights of each bin, or count; ``(n, width)`` of this dtype."""
        library, structure, width = self.library, self.x._structure, self.width
        made = "float64" if name.startswith(("float", "bfloat")) else "int64"
        some = width > 0 and structure.rows > 0
        make = library.empty if some else library.zeros
        like = self.items if weights is None else weights._sample()
        factors = library.empty((0,), library.dtype(made), like)
        if weights is not None:
            factors = data_beside(weights, self.x, made)
        out = make((structure.n, width), library.dtype(made), like)
        beyond = library.zeros((structure.n,), library.dtype("int64"), like)
        if some:
            work = Work(structure.n, structure.n + structure.rows // width)
            args = (self.x._layout(), int(weights is not None))
            count_bins.start(library, (self.items, factors), (out, beyond), args, width, structure, work)
        if library.kind(beyond) != "program":
            self._check(to_host(beyond) if width else structure.lengths)
        return settle(library, library.astype(out, name))

    def spread(self, slopes: Array, shape: Encoding, name: str) -> Encoding:
        """Give each item what its bin has, in the encoding of the weights."""
        library, structure = self.library, self.x._structure
        out = rows_like(library, self.x, (), library.dtype("float64"), slopes)
        if structure.rows:
            given = library.astype(slopes, "float64")
            args = (self.x._layout(),)
            work = Work(structure.n, structure.n + structure.rows // self.width)
            take_bins.start(library, (self.items, given), (out,), args, self.width, structure, work)
        flat = convert(self.x._with_data(out), Ragged).data
        rows = library.astype(flat, name).reshape((structure.rows, *shape.item_shape))
        return convert_like(Ragged._freeze(rows, structure), shape)

    def _check(self, beyond: Array) -> None:
        """StructureError where sequences have items in no bin."""
        if not beyond.any():
            return
        i = int((beyond > 0).argmax())
        items = to_host(rows_of(self.x[[i]] if not self.x.keeps_levels else convert(self.x, Ragged)[[i]])).reshape(-1)
        wrong = items[(items < 0) | (items >= self.width)][0]
        raise BEYOND(f"sequence {i} of x has the item {wrong}, but the {self.width} bins are for numbers from 0 on")
