"""Nested Python lists to `LoD` and back.

Every list is a level.  Numbers are leaves; an array is an innermost sequence, so the sequences of items with a shape
come as arrays, and go back as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeGuard

import numpy as np

from .. import hints, registry
from ..arrays import (
    NUMPY,
    Array,
    DType,
    adopt,
    dtype_in,
    has_items,
    is_array,
    library_named,
    library_of,
    library_of_type,
    same_values,
)
from ..errors import ARGUMENT, CHANGED, KIND, LEAVES, LEVELS, MIXED, RANGE, SHAPE, quote
from ..formats import List, LoD, Ragged
from ..formats.lod import lod_to_nested
from ..formats.pairs import is_own
from ..formats.structure import Structure, whole
from ..memory_checks import check_finite
from ..reading import read_numbers
from .convert import convert
from .library import bring

_MOST_LEVELS = 1 << 20  # that may be asked for; lists themselves may be as deep as there is memory


def _is_level(x: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(x, (list, tuple))


_COMMON: dict[type, DType] = {kind: np.dtype(kind) for kind in (np.float16, np.float32, np.float64, np.int32, np.int64)}


def from_nested(lists: object, dtype: DType = None, levels: int | None = None) -> LoD:
    """See `LoD.from_nested`."""
    if not _is_level(lists):
        raise KIND(f"nested lists must be a list or tuple, not {type(lists).__name__}")
    if levels is not None:
        levels = whole(levels, "levels")
        if levels < 1:
            raise ARGUMENT(f"levels must be at least 1, not {quote(levels)}")
        if levels > _MOST_LEVELS:
            raise RANGE(f"levels must be at most {_MOST_LEVELS}, not {quote(levels)}")
    if dtype is not None:
        dtype = (_COMMON.get(dtype) if type(dtype) is type else None) or dtype_in(NUMPY, dtype)
    read = read_numbers(tuple(lists))
    if read is not None and (levels is None or levels == len(read[1])):
        data = _cast(read[0], dtype)
        if data is not None:
            return LoD._from_levels(data, tuple([Structure.of_lengths(lengths) for lengths in read[1]]))
    sequences = list(lists)
    found: list[Structure] = []
    while True:
        for i, sequence in enumerate(sequences):
            if _is_level(sequence):
                continue
            if not has_items(sequence):
                raise _too_shallow(sequence, i, len(found))
            if library_of_type(type(sequence)) is None:
                sequences[i] = adopt(sequence)[1]
        found.append(Structure.of_lengths(np.array([len(sequence) for sequence in sequences], np.int64)))
        deep_enough = levels is not None and len(found) == levels
        if any(is_array(sequence) for sequence in sequences):
            if levels is not None and not deep_enough:
                raise LEVELS(f"levels={levels}, but there is an array, an innermost sequence, {len(found)} deep")
            return _build(_of_arrays(sequences, dtype), found)
        check_finite(lists, len(found), found[-1].rows)
        leaves = list(chain.from_iterable(sequences))
        kinds = set(map(type, leaves))
        if deep_enough or not kinds:
            break
        inner = [kind for kind in kinds if issubclass(kind, (list, tuple))]
        if not inner and not has_items(leaves[0]):
            break
        sequences = leaves
    if levels is not None and len(found) < levels:
        if leaves:
            raise LEVELS(f"levels={levels}, but {quote(leaves[0])} is a leaf only {len(found)} deep")
        # nothing further in, so the levels there are empty, and one does for all
        found += [Structure.of_lengths(np.zeros(0, np.int64))] * (levels - len(found))
    return _build(_of_leaves(leaves, kinds, dtype), found)


def _build(data: Array, found: list[Structure]) -> LoD:
    """`LoD`, after a look at whether another thread has changed the lists since they were counted."""
    if [x.rows for x in found] != [*[x.n for x in found[1:]], data.shape[0]]:
        raise CHANGED("the nested lists changed while they were read")
    return LoD._from_levels(data, tuple(found))


def _cast(data: Array, dtype: DType) -> Array | None:
    """Leaves in the dtype asked for, as `_of_leaves` would give them; None where that could differ, or fail."""
    if dtype is None or data.dtype == dtype:
        return data
    if dtype.char in "efd" and data.dtype.kind in "fi":  # integers by way of float64, as numbers of Python go
        with np.errstate(over="ignore"):
            return data.astype(np.float64, copy=False).astype(dtype)
    if data.dtype.kind + dtype.kind == "ff":
        return data.astype(dtype)
    if data.dtype.kind == "i" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if data.size == 0 or (limits.min <= data.min() and data.max() <= limits.max):
            return data.astype(dtype)
    return None


def _in_dtype(data: Array, dtype: DType) -> Array:
    """A cast as the caller asks for it: floats out of range become infinite, what has no value there is an error."""
    _check_real(data.dtype.type, dtype)
    try:
        with np.errstate(over="ignore", under="ignore", invalid="raise"):
            return data.astype(dtype, copy=False)
    except (ValueError, TypeError, OverflowError, FloatingPointError) as error:
        raise MIXED(f"the leaves have dtype {data.dtype} and do not fit {dtype}: {error}") from None


def _check_real(kind: type, dtype: DType) -> None:
    if issubclass(kind, (complex, np.complexfloating)) and dtype is not None and dtype.kind in "biufmM":
        raise LEAVES(f"complex leaves do not fit {dtype}")


def _too_shallow(leaf: object, i: int, depth: int) -> Exception:
    if is_own(leaf):
        return LEVELS(
            f"a list holds arrays or lists, but element {i} is {quote(leaf)}, as x[i] and a loop over x give it; "
            "take x.sequences(), whose elements are arrays, or sf.join_batches(list)"
        )
    if depth == 0:
        return LEVELS(
            f"nested lists hold sequences, but element {i} is {quote(leaf)}, a single item"
            f"{hints.for_batch(leaf) or '; one sequence alone is [[...]], a list with one list in it'}"
        )
    return LEVELS(
        f"the leaves of nested lists must all be equally deep, but {quote(leaf)} is {depth} deep and others are deeper"
    )


def _of_leaves(leaves: list[object], kinds: set[type], dtype: DType) -> Array:
    if not leaves:
        return np.empty(0, np.float64 if dtype is None else dtype)
    if any(issubclass(kind, (list, tuple)) for kind in kinds):
        check_finite(leaves)
    for kind in kinds:
        _check_real(kind, dtype)
    try:
        with np.errstate(over="ignore", under="ignore", invalid="raise"):
            data = np.array(leaves, dtype)
        if dtype is None and data.dtype.kind == "f" and kinds == {int}:
            data = np.array(leaves, np.uint64)  # some are over int64
    except (OverflowError, FloatingPointError) as error:
        raise MIXED(f"the leaves do not fit one dtype of integers: {error}") from None
    except (TypeError, RuntimeError) as error:  # the latter from objects of other libraries
        raise LEAVES(f"the leaves do not fit {'one dtype' if dtype is None else dtype}: {error}") from None
    except ValueError as error:
        raise SHAPE(f"the lists within an item must all have one shape: {error}") from None
    if data.dtype.hasobject:
        strange = sorted(kind.__name__ for kind in kinds if not issubclass(kind, (int, float, complex, list, tuple)))
        raise LEAVES(f"leaves of nested lists must be numbers that fit a dtype, not {', '.join(strange) or 'these'}")
    if dtype is None and data.dtype.kind in "SU" and len({_family(kind) for kind in kinds}) > 1:
        raise LEAVES("leaves of nested lists must be all numbers, all str or all bytes; give dtype= to force one")
    return data


def _family(kind: type) -> type:
    return str if issubclass(kind, str) else bytes if issubclass(kind, bytes) else object


def _of_arrays(sequences: Sequence[Any], dtype: DType) -> Array:
    first = next(sequence for sequence in sequences if is_array(sequence))
    items = []
    for sequence in sequences:
        if _is_level(sequence):
            if type(first) is not np.ndarray:
                raise LEAVES(f"a list of numbers cannot stand beside an array of type {type(first).__name__}")
            sequence = _read_beside(sequence, first, dtype)
        items.append(sequence)
    data: Array = convert(List(tuple(items)), Ragged).data
    if dtype is None:
        return data
    if type(data) is np.ndarray:  # whose dtypes include some that no name stands for
        return _in_dtype(data, dtype)
    return library_of(data).astype(data, dtype.name)


def _read_beside(sequence: Sequence[object], first: Array, dtype: DType) -> Array:
    """A list of numbers that stands beside arrays, in their dtype."""
    if not sequence:
        return np.empty((0, *first.shape[1:]), first.dtype)
    given = _of_leaves(list(sequence), set(map(type, sequence)), None)
    if given.shape[1:] != first.shape[1:]:
        raise MIXED(f"the list {quote(sequence)} stands beside arrays with items of shape {first.shape[1:]}")
    try:
        with np.errstate(all="ignore"):  # what does not fit is seen below
            cast = given.astype(first.dtype)
    except (TypeError, ValueError):
        cast = None
    if cast is None or (dtype is None and not same_values(given, cast)):
        raise MIXED(f"the list {quote(sequence)} does not fit {first.dtype}, the dtype of the arrays beside it")
    return cast


def _list_to_lod(
    x: Sequence[object], *, level: int | None = None, dtype: DType = None, library: str | None = None
) -> LoD:
    """All levels, or one alone."""
    if library is None:
        y: LoD = from_nested(x, dtype)
    else:  # which may have dtypes that NumPy has not
        target = library_named(library)
        wanted = None if dtype is None else dtype_in(target, dtype)
        y = from_nested(x, wanted if NUMPY.has_dtype(wanted) else None)
        y = bring(y, library, wanted)
    return y if level is None else convert(y, LoD, level=level)


registry.conversion(list, LoD)(_list_to_lod)
registry.conversion(LoD, list, shares=True)(lod_to_nested)
