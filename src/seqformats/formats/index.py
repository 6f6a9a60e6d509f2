"""Meaning of an index: one sequence, some of them, a range."""

import numpy as np

from ..arrays import Array, is_array, shape_of, to_host
from ..errors import INDEX, KIND, WHOLE, quote
from .structure import whole

_INT = {int}


def place(index: object, n: int) -> int:
    """An integer index as a place from 0 to n - 1."""
    try:
        i = whole(index, "an index")
    except TypeError:
        hint = ""
        if isinstance(index, tuple):
            hint = "; it is about sequences alone, and sf.slice(x, start, length) cuts every one"
        elif hasattr(index, "item_shape"):
            hint = "; sf.filter(x, bools) keeps items of each sequence, sf.gather(x, places) takes them"
        raise WHOLE(
            f"an index must be an integer, a slice, a mask or a list of integers, not {type(index).__name__}{hint}"
        ) from None
    if not -n <= i < n:
        hint = "; a batch of one sequence has its items in x.data, or in x.sequences()[0]" if n == 1 else ""
        raise INDEX(f"index {quote(i)} is out of range for {n} sequence{'s' * (n != 1)}{hint}")
    return i + n if i < 0 else i


def places(index: object, n: int) -> slice | Array:
    """Any index as a slice with step 1, or as int64 places from 0 to n - 1."""
    if isinstance(index, slice):
        try:
            start, stop, step = index.indices(n)
        except ValueError:
            raise INDEX("the step of a slice must not be 0") from None
        except TypeError as error:
            raise KIND(f"an index of {quote(index)}: {error}") from None
        if step == 1:
            return slice(start, max(start, stop))
        return np.arange(start, stop, step, dtype=np.int64)
    if isinstance(index, list) or (is_array(index) and len(shape_of(index, "an index")) > 0):
        return _places_of(index, n)
    i = place(index, n)
    return slice(i, i + 1)


def _places_of(index: object, n: int) -> Array:
    if isinstance(index, list):
        kinds = set(map(type, index))
        if kinds == _INT and min(index) >= 0 and max(index) < n:  # the usual one
            return np.array(index)
        kinds = {bool if issubclass(kind, (bool, np.bool_)) else kind for kind in kinds}
        if bool in kinds and len(kinds) > 1:
            raise KIND("an index must be a mask or a list of integers, not a mixture")
        if bool not in kinds:
            index = [place(value, n) for value in index]
        array = np.array(index, None if index else np.int64)
    else:
        array = np.array(to_host(index))  # read once: another thread may change what is checked
    if array.dtype.kind not in "biu" and array.size:
        raise WHOLE(f"an index must hold integers or bools, not {array.dtype}")
    if array.ndim != 1:
        raise KIND(f"an index must have one axis, but has shape {array.shape}")
    if array.dtype.kind == "b":
        if array.size != n:
            raise INDEX(f"the mask has {array.size} places, but there are {n} sequences")
        return np.flatnonzero(array)
    if not array.size:
        return np.empty(0, np.int64)
    chosen = array.astype(np.int64, copy=False)
    if array.dtype.kind == "i" and np.maximum.reduce(chosen.view(np.uint64)) < n:  # a negative one is very large there
        return chosen
    wrong = (array < -n) | (array >= n) if array.dtype.kind != "u" else array >= n
    if wrong.any():
        raise INDEX(f"index {array[wrong][0]} is out of range for {n} sequences")
    return np.where(chosen < 0, chosen + n, chosen)
