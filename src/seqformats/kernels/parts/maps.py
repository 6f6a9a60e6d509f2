"""A compiled function of the user over all sequences, in loops that call it without Python in between.

The loops are compiled anew for every function, and never kept on disk, where nobody would see that it has changed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, typeof, types
from numba.core.errors import NumbaError
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from .code import Item
from .record import Array, Integers


class Loops(NamedTuple):
    """The loops over one function."""

    once: Any
    numbers: Any
    items: Any
    sequences: Any


class Kind(NamedTuple):
    """Type of what a function gives: a number has no axes."""

    dtype: Any
    axes: int


def loops_over(fn: Any) -> Loops:
    """Loops that run without the GIL where the function does."""
    nogil = bool(fn.targetoptions.get("nogil"))
    return Loops(*[njit(nogil=nogil, error_model="numpy")(loop) for loop in (_once, _numbers, _items, _sequences)])


def kind_of(loops: Loops, fn: Any, sequences: tuple[Array, ...]) -> Kind:
    """Find what the function gives for arrays like these; TypeError where it cannot be compiled, or gives no array."""
    given = typeof(fn), typeof(sequences)
    try:
        loops.once.compile(given)
    except NumbaError as error:
        taken = ", ".join(map(str, given[1]))
        raise TypeError(f"the function does not take {taken}: {error}") from None
    made = loops.once.overloads[given].signature.return_type
    try:
        if isinstance(made, types.Array) and made.ndim:
            return Kind(as_dtype(made.dtype), made.ndim)
        return Kind(as_dtype(made), 0)
    except (NumbaError, NotImplementedError):
        raise TypeError(f"the function gives {made}, which is neither an array nor a number") from None


def entry_of(loop: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
    """Find what runs a loop, that was called, for arguments of the same types."""
    entry: Callable[..., Any] = loop.overloads[tuple(map(typeof, args))].entry_point
    return entry


def parts_of(data: tuple[Array, ...], offsets: tuple[Integers, ...], i: int) -> Any:
    """Sequence i of every batch."""
    return tuple([rows[cum[i] : cum[i + 1]] for rows, cum in zip(data, offsets, strict=True)])


@overload(parts_of, strict=False)
def _parts_of(data: Item, offsets: Item, i: Item) -> Any:
    """Compile `parts_of` for arrays of several types, over which no loop could go."""

    def one(data: Item, offsets: Item, i: int) -> Any:
        return (data[0][offsets[0][i] : offsets[0][i + 1]],)

    def several(data: Item, offsets: Item, i: int) -> Any:
        return (data[0][offsets[0][i] : offsets[0][i + 1]], *parts_of(data[1:], offsets[1:], i))

    return one if len(data) == 1 else several


def _once(fn: Callable[..., Any], sequences: tuple[Array, ...]) -> Any:
    return fn(*sequences)


def _numbers(fn: Callable[..., Any], data: Item, offsets: Item, out: Array, reached: Integers, lo: int, hi: int) -> int:
    """A number a sequence; `reached` says at ``lo`` which one it is about."""
    for i in range(lo, hi):
        reached[lo] = i
        out[i] = fn(*parts_of(data, offsets, i))
    return -1


def _items(fn: Callable[..., Any], data: Item, offsets: Item, out: Any, reached: Integers, lo: int, hi: int) -> int:
    """An array of one shape a sequence, or the first sequence that has another."""
    for i in range(lo, hi):
        reached[lo] = i
        y = fn(*parts_of(data, offsets, i))
        if y.shape != out.shape[1:]:
            return i
        out[i] = y
    return -1


def _sequences(
    fn: Callable[..., Any], data: Item, offsets: Item, out: Any, used: int, lengths: Integers, at: Any
) -> Any:
    """Arrays of any length, one after the other in `out` behind the first `used` rows, or in more room.

    `at` is (reached, block, lo, hi).  It gives the array, and the rows used, or -1 - i where sequence i has items of
    another shape.
    """
    reached, block, lo, hi = at
    for i in range(lo, hi):
        reached[block] = i
        y = fn(*parts_of(data, offsets, i))
        if y.shape[1:] != out.shape[1:]:
            return out, -1 - i
        count = y.shape[0]
        if used + count > out.shape[0]:
            more = np.empty((2 * (used + count), *out.shape[1:]), out.dtype)
            more[:used] = out[:used]
            out = more
        out[used : used + count] = y
        lengths[i] = count
        used += count
    return out, used
