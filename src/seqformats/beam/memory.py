"""The memories of a decoder: arrays of any library in any container, which follow the beams."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, is_array
from ..errors import DeviceError, StructureError
from ..formats import Encoding, Pairs
from ..select import getitem
from .step import no_gradient_error


def _is_leaf(x: Any) -> bool:
    return isinstance(x, (Encoding, Pairs)) or is_array(x)


def _fields(x: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(x)]


def leaves(memory: Any) -> Iterator[Any]:
    """The arrays and encodings in tuples, lists, dicts and dataclasses, nested at will; all else is passed over."""
    if _is_leaf(memory):
        yield memory
    elif isinstance(memory, dict):
        for value in memory.values():
            yield from leaves(value)
    elif isinstance(memory, (tuple, list)):
        for value in memory:
            yield from leaves(value)
    elif dataclasses.is_dataclass(memory) and not isinstance(memory, type):
        for name in _fields(memory):
            yield from leaves(getattr(memory, name))


def mapped(memory: Any, change: Callable[[Any], Any]) -> Any:
    """The same containers, with every array and encoding changed."""
    if _is_leaf(memory):
        return change(memory)
    if isinstance(memory, dict):
        filled = copy.copy(memory)
        for key, value in memory.items():
            filled[key] = mapped(value, change)
        return filled
    if isinstance(memory, (tuple, list)):
        values = [mapped(value, change) for value in memory]
        return type(memory)(*values) if hasattr(memory, "_fields") else type(memory)(values)
    if dataclasses.is_dataclass(memory) and not isinstance(memory, type):
        twin = copy.copy(memory)
        for name in _fields(memory):
            value = getattr(memory, name)
            if any(True for _ in leaves(value)):
                object.__setattr__(twin, name, mapped(value, change))
        return twin
    return memory


def check_rows(memory: Any, rows: int | None, what: str) -> int | None:
    """How many rows all arrays have; None where there is none.  StructureError where they differ."""
    for leaf in leaves(memory):
        if is_array(leaf) and len(leaf.shape) == 0:
            raise StructureError(f"{what} holds an array without axes; its first axis must be the rows")
        count = leaf.shape[0] if is_array(leaf) else len(leaf)
        if rows is not None and count != rows:
            raise StructureError(f"{what} must have {rows} rows, one for each row of the state, not {count}")
        rows = int(count)
    return rows


def check_memory(memory: Any, rows: int, library: Library, like: Any) -> None:
    """Can this follow the beams?  Errors are raised before anything has changed."""
    if type(memory) is np.ndarray and library is NUMPY and memory.shape[:1] == (rows,) and not memory.dtype.hasobject:
        return
    check_rows(memory, rows, "memory")
    for leaf in leaves(memory):
        if is_array(leaf):
            own, array = adopt(leaf, "memory")
            if own.wants_grad((array,)):
                raise no_gradient_error()
            if like is not None:
                check_place(own, array, library, like, "a memory")
            elif own is not library:
                raise DeviceError(f"a memory is an array of {own.name}, but at first there was none")


def check_place(library: Library, array: Array, other: Library, like: Array, what: str) -> None:
    """DeviceError unless an array is where the memories are."""
    if library is not other or library.device(array) != library.device(like):
        raise DeviceError(
            f"{what} is an array of {library.name} on {library.device(array)}, "
            f"but the first memory one of {other.name} on {other.device(like)}"
        )


class Memories:
    """Moves memories to the rows of the next step, into two sets of buffers in turn."""

    def __init__(self) -> None:
        self._rooms: dict[tuple[int, int], Any] = {}
        self._turn = 0

    def follow(self, memory: Any, library: Library, parents: Array, there: Array) -> Any:
        """Row i of the result is row ``parents[i]``; `there` are the same numbers as an array of `library`.

        What the last call but one has returned is overwritten, unless the memory given lies there.
        """
        self._turn ^= 1
        number = -1

        def moved(x: Any) -> Any:
            nonlocal number
            number += 1
            if not is_array(x):
                return getitem(x, parents)
            array = x if type(x) is np.ndarray else adopt(x, "memory")[1]
            return library.gather(array, parents, there, self._room(number, library, array, parents.size))

        return mapped(memory, moved)

    def _room(self, number: int, library: Library, x: Array, rows: int) -> Array:
        """A buffer for `rows` rows like those of `x`, where `x` does not lie."""
        room = self._rooms.get((number, self._turn))
        if (
            room is None
            or type(room) is not type(x)
            or room.shape[0] < rows
            or room.shape[1:] != x.shape[1:]
            or room.dtype != x.dtype
            or library.overlap(room, x)
        ):
            room = library.empty((max(rows, 2 * x.shape[0]), *x.shape[1:]), x.dtype, x)
            self._rooms[number, self._turn] = room
        return room[:rows]


def library_and_like(*memories: Any) -> tuple[Library | None, Any]:
    """The library of the first array, and that array; all must be on one device."""
    library, like = None, None
    for memory in memories:
        for leaf in leaves(memory):
            if isinstance(leaf, Pairs):
                continue
            other, array = adopt(leaf if is_array(leaf) else leaf._like(), "memory")
            if library is None:
                library, like = other, array
            else:
                check_place(other, array, library, like, "a memory")
    return library, like
