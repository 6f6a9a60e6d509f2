"""Companions of the items of a batch: marks, numbers and other batches, checked and laid out as the batch is."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import core
from ..arrays import NUMPY, Array, Library, adopt, freeze, is_array, library_of, to_host
from ..arrays.dtypes import HALF, SUMS_IN
from ..converters.convert import relaid, restore, rows_of
from ..errors import COUNTS, DEVICES, DTYPE, KIND, LOST, SHAPE, UNLIKE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Given
from ..formats.encoding import abridge
from ..formats.leaves import leaves, wants_grad
from ..formats.structure import Structure
from ..gradients.operation import Operand, operand, operand_beside
from .calculation import in_one_array, name_of
from .options import number
from .spread import sum_items

Scalar = (int, float, np.number)
NO_MARKS = freeze(np.zeros(0, np.uint8))
"""Every item counts, or none is an end."""
NO_FLOATS = freeze(np.zeros(0))
"""Numbers that are not there."""


class Kinds(NamedTuple):
    """Names of dtypes."""

    kernel: str  # in which a kernel takes items and writes them
    result: str  # of what the caller gets


@functools.lru_cache(maxsize=1024)
def floats_for(what: str, *names: str) -> Kinds:
    """Find the dtypes in which a kernel takes such items, and of the result; TypeError for complex and others.

    Half precision is taken in float32, integers and bools in float64; of several the widest counts.
    """
    for name in names:
        if name not in SUMS_IN or name.startswith("complex"):
            real = ", ".join(n for n in SUMS_IN if not n.startswith("complex"))
            raise DTYPE(f"{what} takes no items of dtype {name}; those that it takes: {real}")
    if all(name == names[0] for name in names) and names[0] in HALF:
        return Kinds("float32", names[0])
    narrow = all(name in HALF or name == "float32" for name in names)
    return Kinds("float32", "float32") if narrow else Kinds("float64", "float64")


@functools.lru_cache(maxsize=64)
def one_sequence(n: int) -> Structure:
    """The structure of a single sequence of n items."""
    return Structure(freeze(np.array([n])), freeze(np.array([0, n])), n)


def total_of(rows: Array) -> Array:
    """``(1, *item)``: the sum of all rows of an array, in the order of `reduce_sum`."""
    return sum_items(Ragged._freeze(rows, one_sequence(int(rows.shape[0]))))


def is_number(value: object) -> bool:
    """Tell whether this is one number of Python or NumPy."""
    return isinstance(value, Scalar) and not isinstance(value, (bool, np.bool_))


def read_list(given: Given, what: str) -> Any:
    """A list of numbers, bools or strings as an array; all else as it is."""
    if not isinstance(given, (list, tuple)):
        return given
    try:
        return np.asarray(given)
    except Exception as error:  # what an element says of itself
        raise KIND(f"{what} must be an array, or a list of numbers, not {quote(given)}: {error}") from None


# --- other batches ----------------------------------------------------------------------------------------------------


def check_same_lengths(found: Structure, wanted: Structure, what: str, other: str) -> None:
    """StructureError where the sequences of `what` are not as long as those of `other`."""
    if found.n != wanted.n:
        raise COUNTS(f"{what} has {found.n} sequences, but {other} has {wanted.n}")
    if not found.same_lengths(wanted):
        raise UNLIKE(
            f"{what} has sequences of lengths {abridge(found.lengths)}, but {other} has {abridge(wanted.lengths)}"
        )


def check_beside(given: Array, x: Encoding, what: str, other: str) -> None:
    """DeviceError where an array is of another library than the batch, or on another device."""
    own, library = library_of(x._sample()), library_of(given)
    if library is not own or (own is not NUMPY and own.device(given) != x.device):
        raise DEVICES(
            f"{what} is on {library.device(given)}, {library.name}, but {other} on {x.device}, {own.name}; "
            "give both in one library, on one device"
        )


def batch_beside(given: Given, x: Encoding, what: str, other: str = "x", item: tuple[int, ...] | None = ()) -> Operand:
    """A batch that has sequences as long as those of `x`, and items of this shape; None: any."""
    if is_array(given):
        shape = tuple(adopt(given, what)[1].shape)
        raise KIND(
            f"{what} has a number per item, so it must be a batch, not an array of shape {shape}; "
            f"sf.Ragged({what}, sf.lengths({other})) makes one of rows"
        )
    if item == () and core.data_alike(given, x, x._sample()) is not None:
        return Operand(given)
    found = operand_beside(given, x._sample())
    own = found.own
    check_same_lengths(own._structure, x._structure, what, other)
    if item is not None and own.item_shape != item:
        raise SHAPE(f"{what} has items of shape {own.item_shape}, but {other} has {item}")
    if own.rows or isinstance(given, Encoding):  # lists without items have no library
        check_beside(own._sample(), x, what, other)
    return found


def of_numbers(x: Encoding, what: str) -> Encoding:
    """The batch, which has a number per item; StructureError for others."""
    if x.item_shape != ():
        raise SHAPE(f"{what} must have a number per item, but has items of shape {x.item_shape}")
    return x


def data_beside(own: Encoding, at: Encoding, name: str) -> Array:
    """The data of a batch, or of rows in sequences, laid out as `at`, in the dtype of this name."""
    data: Array | None = core.data_alike(own, at, None)
    if data is None:
        laid = relaid(in_one_array(own) if at._in_one_array and not own._in_one_array else own, at)
        data = in_one_array(laid).data
    return library_of(data).astype(data, name)


def laid_back(dx: Encoding, own: Encoding) -> Encoding:
    """A gradient whose padding is zero as the batch that it belongs to."""
    return restore(dx, own) if own.keeps_levels else relaid(dx, own)


def constant(what: str, *given: object) -> None:
    """TypeError for tensors that ask for a gradient that they cannot have; in a traced program nobody can tell."""
    for x in given:
        if wants_grad(x) and not any(library_of(leaf).functional for leaf in leaves(x)):
            raise LOST(f"{what} is a constant here, and its gradient would be lost; give it detached")


# --- marks ------------------------------------------------------------------------------------------------------------


def marks_beside(given: object, x: Encoding, at: Encoding, what: str) -> Array:
    """A bool for each item, laid out as `at`, which has the sequences of `x`; `NO_MARKS` for None.

    Given as a batch, or as an array with one per item, sequence by sequence in the caller's order.
    """
    if given is None:
        return NO_MARKS
    structure, sample = x._structure, x._sample()
    found: Array | None = core.data_alike(given, at, sample)
    if found is not None and structure.rows and library_of(found).dtype_name(found.dtype) == "bool":
        return found
    if is_array(given):
        library, rows = adopt(given, what)
        if tuple(rows.shape) not in ((structure.rows,), (structure.rows, 1)):
            raise SHAPE(f"{what} must have one bool per item, shape ({structure.rows},), not {tuple(rows.shape)}")
        name, flat = library.dtype_name(rows.dtype), rows.reshape(-1)
        own: Encoding = Ragged._freeze(flat, structure)
    else:
        own = operand_beside(given, sample).own
        if math.prod(own.item_shape) != 1 or len(own.item_shape) > 1:
            raise SHAPE(f"{what} must hold one bool per item, but has item shape {own.item_shape}")
        check_same_lengths(own._structure, structure, what, "the batch")
        library, name = library_of(own._sample()), name_of(own)
        if not structure.rows and not isinstance(given, Encoding):
            return NO_MARKS  # lists without items have no dtype
        if own.item_shape:
            own = Ragged._freeze(rows_of(own).reshape(-1), structure)
    if name != "bool":
        raise DTYPE(f"{what} must hold bools, not {name}; give x != 0, or another comparison")
    if not structure.rows:
        return NO_MARKS
    beside = library_of(sample)
    if library is not beside or (library is not NUMPY and own.device != x.device):
        own = Ragged._freeze(beside.from_host(to_host(rows_of(own)), sample), structure)
    laid: Array = in_one_array(relaid(own if own._in_one_array else in_one_array(own), at)).data
    return laid


def marks_where(given: Given, rows: Given) -> Operand:
    """A batch of marks as an `Operand` where an array is, to which they are brought."""
    found = operand(given)
    own, theirs = found.own, library_of(rows)
    library = library_of(own._sample())
    if library is theirs and (library is NUMPY or own.device == library.device(rows)):
        return found
    return found._replace(own=own._with_leaves([theirs.from_host(to_host(leaf), rows) for leaf in own._leaves()]))


def copy_constant(given: Array) -> Array:
    """Copy marks or numbers for a pullback, since the caller may write others before it is called."""
    return given if given is NO_MARKS or given is NO_FLOATS else library_of(given).copy(given)


# --- numbers ----------------------------------------------------------------------------------------------------------


def numbers_of(given: object, x: Encoding, what: str) -> Array:
    """One number, ``(1,)`` of float64 on the host, or one per sequence, ``(n,)``, where it is given so."""
    if is_number(given):
        return np.array([number(given, what)])
    n = x._structure.n
    if not is_array(given) and not isinstance(given, (list, tuple)):
        raise KIND(f"{what} must be a number, or an array ({n},) with one per sequence, not {quote(given)}")
    library, rows = adopt(read_list(given, what), what)
    if tuple(rows.shape) not in ((), (n,)):
        raise COUNTS(f"{what} must be a number, or have shape ({n},), one per sequence, not {tuple(rows.shape)}")
    if not library.dtype_name(rows.dtype).startswith(("float", "bfloat", "int", "uint")):
        raise DTYPE(f"{what} must hold real numbers, not {library.dtype_name(rows.dtype)}")
    constant(what, rows)
    rows = library.astype(rows.reshape(-1), "float64")
    own = library_of(x._sample())
    if library is not own and library is not NUMPY:
        check_beside(rows, x, what, "the batch")
    return rows


def rows_beside(given: Given, x: Encoding, what: str) -> Array:
    """An array ``(n,)`` of real numbers, one a sequence of `x`, of its library."""
    n = x._structure.n
    if not is_array(given):
        raise KIND(f"{what} has a number per sequence, so it must be an array ({n},), not {quote(given)}")
    library, rows = adopt(given, what)
    if tuple(rows.shape) != (n,):
        raise COUNTS(f"{what} must have shape ({n},), one number per sequence, not {tuple(rows.shape)}")
    own = library_of(x._sample())
    if library is NUMPY and own is not NUMPY:
        rows = own.from_host(rows, x._sample())
    else:
        check_beside(rows, x, what, "the batch")
    return rows


def settled_like(library: Library, out: Array, name: str) -> Array:
    """Give what a kernel has written the dtype of the result."""
    found = library.astype(out, name)
    return library.settle(found) if library.functional else found


def in_kind(result: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """The way to the caller's kind of batch, of one that has come as it is."""
    return result if result is not None else lambda y: y
