"""Errors for lists that contain themselves, and for results larger than memory."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from .errors import LEVELS, MEMORY, SeqFormatError, quote

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# What may go wrong where a shape goes beyond what a library can count, or a system has.
NO_ROOM = (MemoryError, ValueError, OverflowError, TypeError, RuntimeError)


def no_room(shape: Sequence[int], error: Exception) -> Exception:
    """The error for an array that could not be made, after one of `NO_ROOM`.

    Another library's own, or one of this library's, stays as it is.
    """
    if isinstance(error, SeqFormatError):
        return error
    ours = not isinstance(error, RuntimeError) or math.prod([k for k in shape if k]) >= _ADDRESSES
    return MEMORY(f"no memory can hold shape {quote(tuple(shape))}: {error}") if ours else error


_ADDRESSES = 1 << 47  # bytes that a process can have


def allocate(make: Callable[..., V], shape: Sequence[int], dtype: object, like: object) -> V:
    """``make(shape, dtype, like)``, the `empty` or `zeros` of a library; OutOfMemory where there is no room for it."""
    try:
        return make(shape, dtype, like)
    except NO_ROOM as error:
        raise no_room(shape, error) from None


def check_room(count: int, each: int, what: str) -> None:
    """OutOfMemory where `count` objects of `each` bytes are more than there is room for.

    Rows without items take no memory, and a list may occur in another many times: so little can stand for a lot.
    """
    if count > _FEW:
        try:
            np.empty((count, each), np.uint8)
        except NO_ROOM:
            raise MEMORY(f"no memory can hold {count} {what}") from None


_FEW = 1 << 20
OBJECT = 64  # bytes that a Python object takes, or more


REMEMBERED = 128


def remember(table: dict[K, V], key: K, value: V) -> V:
    """Put a value into a table of what has been found out, and return it.

    Types, dtypes and names can be made without end at run time, so a table of them is emptied when it is full: no call
    looks at an entry's age, and what is in use comes back at once.
    """
    if len(table) >= REMEMBERED:
        table.clear()
    table[key] = value
    return value


_DEEP, _MANY = 16, 1 << 24


def check_finite(lists: Sequence[object], depth: int = _DEEP, count: int = _MANY) -> None:
    """StructureError where a list is among its own items, OutOfMemory where there are too many.

    It is for those who walk nested lists level by level, and are at this depth, where there are so many items.

    A list may be an item in many places, so few lists can stand for more than any memory holds.  Looking at each list
    once takes longer than many a walk, so it is done where that comes to be deep or wide, and only once.
    """
    if depth != _DEEP and count < _MANY:
        return
    sizes: dict[int, int] = {}  # of the lists that were looked at: the items in them, on all levels
    path: list[tuple[Sequence[object], Iterator[object], list[int]]] = [(lists, iter(lists), [len(lists)])]
    above = {id(lists)}
    while path:
        here, items, size = path[-1]
        for item in items:
            if not isinstance(item, (list, tuple)):
                continue
            known = id(item)
            if known in above:
                raise LEVELS(f"a {type(item).__name__} is among its own items, so there is no end to them")
            if known not in sizes:
                path.append((item, iter(item), [len(item)]))
                above.add(known)
                break
            size[0] += sizes[known]
        else:
            path.pop()
            above.remove(id(here))
            sizes[id(here)] = size[0]
            if path:
                path[-1][2][0] += size[0]
    check_room(sizes[id(lists)], 8, "items of nested lists")
