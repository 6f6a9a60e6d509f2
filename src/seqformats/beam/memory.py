"""The memories of a decoder: arrays of any library, Python objects and caches in any container, which follow the beams.

A *part* of a memory is what follows the rows: an array or an encoding, whose rows are gathered; a list or tuple without
any other part, whose objects are; and an object that is told, by a method of its own.
"""

from __future__ import annotations

import copy
import dataclasses
import numbers
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, is_array
from ..errors import COUNTS, DEVICES, KIND, LEVELS, SHAPE, StructureError
from ..formats import Encoding, Pairs
from .followers import with_tokens
from .step import no_gradient_error

_DEEPEST = 100  # containers in one another, far below Python's limit of calls
_CONTAINERS = frozenset((dict, list, tuple))
_SCALARS = frozenset((str, int, float, bool, bytes, complex, type(None)))
_CARRIED = (str, bytes, numbers.Number, np.generic, type(None), types.ModuleType)

Memory: TypeAlias = Any
"""Memory of a model between steps: arrays, encodings, objects that follow by themselves, and containers of these."""


def array_like(x: object) -> bool:
    """Tell whether this is an array or an encoding, whose rows are gathered."""
    return is_array(x) or issubclass(type(x), (Encoding, Pairs))


def telling(x: object) -> Callable[..., Any] | None:
    """The method by which an object wants to be told how rows go on."""
    if type(x) in _CONTAINERS or isinstance(x, type):
        return None
    method = getattr(x, "reorder_cache", None)
    if not callable(method):
        method = getattr(x, "follow", None)
    return method if callable(method) else None


def is_record(x: object) -> bool:
    """A dataclass or a named tuple, which has fields and not rows."""
    return hasattr(x, "_fields") if isinstance(x, tuple) else dataclasses.is_dataclass(x) and not isinstance(x, type)


def members_of(x: Memory) -> Iterable[Any] | None:
    """List the members of a container; None where `x` is none."""
    if isinstance(x, dict):
        return x.values()
    if isinstance(x, (tuple, list)):
        return x
    return [getattr(x, field.name, None) for field in dataclasses.fields(x)] if is_record(x) else None


def is_row_list(x: Memory, what: str) -> bool:
    """Tell whether this is a list or tuple without a part in it, however deep: one Python object a row."""
    kind: Any = type(x)
    if kind is not tuple and kind is not list and (not isinstance(x, (tuple, list)) or is_record(x)):
        return False
    first, depth = x, 0
    while (kind is tuple or kind is list) and first and depth < _DEEPEST:  # mostly an array is soon found
        first, depth = first[0], depth + 1
        kind = type(first)
    if is_array(first):
        return False
    seen, path, stack = {id(x)}, {id(x)}, [(x, iter(x))]
    while stack:
        holder, rest = stack[-1]
        for value in rest:
            if type(value) in _SCALARS:
                continue
            if array_like(value) or telling(value):
                return False
            members = members_of(value)
            if members is None:
                continue
            if id(value) in path and not is_record(value):
                raise _holds_itself(what, value)
            if id(value) not in seen:
                seen.add(id(value))
                path.add(id(value))
                stack.append((value, iter(members)))
                break
        else:
            path.discard(id(holder))
            stack.pop()
    return True


def _holds_itself(what: str, x: object) -> StructureError:
    return LEVELS(f"{what} holds a {type(x).__name__} that holds itself")


def parts(memory: object, what: str, *, known: bool = True) -> list[Any]:
    """The parts of a memory.  TypeError for objects of which nothing is known, unless `known` is False."""
    found: list[Any] = []
    _collect(memory, (), found, {}, what, known)
    return found


def _collect(
    x: object, path: tuple[int, ...], found: list[Any], seen: dict[int, object], what: str, known: bool
) -> None:
    """The parts of `x`, which is in the containers of `path`.

    `seen` are those that were looked into, so that no other object takes their place.
    """
    if array_like(x):
        found.append(x)
        return
    if type(x) in _SCALARS:
        return
    place = id(x)
    if place in path:
        raise _holds_itself(what, x)
    if len(path) > _DEEPEST:
        raise LEVELS(f"{what} has more than {_DEEPEST} containers in one another")
    if place in seen:
        return
    seen[place] = x
    if telling(x) or is_row_list(x, what):
        found.append(x)
        return
    members = members_of(x)
    if members is not None:
        path = (*path, place)
        for value in members:
            _collect(value, path, found, seen, what, known)
    elif known and not callable(x) and not isinstance(x, _CARRIED):
        raise KIND(
            f"{what} holds a {type(x).__name__}, of which nothing says how it follows the rows; give arrays, a list or "
            "tuple with one object per row, or an object with a method reorder_cache(beam_idx) or "
            "follow(parents, tokens)"
        )


Done = dict[int, tuple[Any, Any]]


def map_memory(memory: Memory, change: Callable[[Any], Any]) -> Any:
    """Rebuild the containers with every part changed, once where it occurs several times."""
    return change(memory) if array_like(memory) else _map(memory, change, {})


def _map(x: Memory, change: Callable[[Any], Any], done: Done) -> Any:
    """Change what is in a memory; `done` are the objects that were changed, by their places, and into what."""
    if type(x) in _SCALARS:
        return x
    known = done.get(id(x))
    if known is None:
        is_part = array_like(x) or telling(x) or is_row_list(x, "memory")
        known = done[id(x)] = x, change(x) if is_part else _rebuild(x, change, done)
    return known[1]


def _rebuild(x: Memory, change: Callable[[Any], Any], done: Done) -> Any:
    """A container like `x`, with every part in it changed; `x` itself where none is."""
    before = members_of(x)
    if before is None:
        return x
    after, same = [], True
    for value in before:
        new = _map(value, change, done)
        same = same and new is value
        after.append(new)
    if same:
        return x
    if isinstance(x, dict):
        twin: Any = copy.copy(x)
        for key, value in zip(x, after, strict=True):
            twin[key] = value
        return twin
    if isinstance(x, (tuple, list)):
        return type(x)(*after) if is_record(x) else type(x)(after)
    twin = copy.copy(x)
    for field, old, new in zip(dataclasses.fields(x), before, after, strict=True):
        if new is not old:
            object.__setattr__(twin, field.name, new)
    return twin


def arrays_among(found: list[Any]) -> list[Any]:
    """The parts that are arrays and encodings."""
    return [part for part in found if array_like(part)]


def check_rows(found: list[Any], rows: int | None, what: str) -> int | None:
    """Count the rows that all parts have; None where there is none.  StructureError where they differ."""
    for part in found:
        if is_array(part):
            if len(part.shape) == 0:
                raise SHAPE(f"{what} holds an array without axes; its first axis must be the rows")
            count = part.shape[0]
        elif array_like(part):
            count = len(part)
        elif telling(part) or not part:  # what is empty holds nothing that could follow
            continue
        else:
            count = len(part)
            if rows is not None and count != rows:
                raise COUNTS(
                    f"{what} holds a {type(part).__name__} of {count} Python objects, but has {rows} rows; a list or "
                    "tuple without arrays holds one object per row, and what belongs to no row goes into `shared`"
                )
        if rows is not None and count != rows:
            raise COUNTS(f"{what} must have {rows} rows, one for each row of the state, not {count}")
        rows = int(count)
    return rows


def check_memory(memory: Memory, rows: int, place: Place) -> list[Any]:
    """The parts of a memory that must be told of every step.  Errors are raised before anything has changed."""
    if memory is None:
        return []
    on_host = type(memory) is np.ndarray and place.library is NUMPY
    if on_host and memory.shape[:1] == (rows,) and not memory.dtype.hasobject:
        return []
    found, told = parts(memory, "memory"), []
    check_rows(found, rows, "memory")
    for part in found:
        if is_array(part):
            own, array = adopt(part, "memory")
            if own.autograd and own.wants_grad((array,)):
                raise no_gradient_error()
            if place.like is None and own is not place.library:
                raise DEVICES(f"a memory is an array of {own.name}, but at first there was none")
            place.check(own, array, "a memory")
        elif not array_like(part) and telling(part) and not _is_cache(part):
            told.append(part)
    return told


def _is_cache(x: object) -> bool:
    """Tell whether this only moves rows, so that it need not know of a step in which none moves."""
    return callable(getattr(x, "reorder_cache", None))


class Memories:
    """Moves memories to the rows of the next step, into two sets of buffers in turn."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        """How many rows the memory has."""
        self._buffers: dict[tuple[int, int], Any] = {}
        self._turn = 0

    def follow(
        self, memory: object, place: Place, parents: Array, at_place: Array, tokens: Array, scores: Array
    ) -> Any:
        """Row i of the result is row ``parents[i]``; `at_place` are the same numbers there, as its `tokens` are.

        A cache gets them beside the scores, since there may be no array in the memory to say where that is.

        What the last call but one has returned is overwritten, unless the memory given lies there.
        """
        self._turn ^= 1
        self.rows = parents.size
        number, library = -1, place.library

        def move(x: Memory) -> Any:
            nonlocal number
            number += 1
            if is_array(x):
                array = x if type(x) is np.ndarray else adopt(x, "memory")[1]
                return library.gather(array, parents, at_place, self._buffer(number, library, array, parents.size))
            if array_like(x):
                return x[parents]
            if telling(x):
                return notify(x, place_parents(parents, scores) if _is_cache(x) else at_place, tokens)
            return type(x)([x[i] for i in parents.tolist()]) if x else x

        return map_memory(memory, move)

    def stay(self, memory: object, at_place: Array, tokens: Array) -> Any:
        """Go on where every row follows the row of the same number: only who follows every step is told."""
        return map_memory(
            memory, lambda x: x if array_like(x) or not telling(x) or _is_cache(x) else notify(x, at_place, tokens)
        )

    def _buffer(self, number: int, library: Library, x: Array, rows: int) -> Array:
        """A buffer for `rows` rows like those of `x`, where `x` does not lie."""
        buffer = self._buffers.get((number, self._turn))
        if (
            buffer is None
            or type(buffer) is not type(x)
            or buffer.shape[0] < rows
            or buffer.shape[1:] != x.shape[1:]
            or buffer.dtype != x.dtype
            or library.overlap(buffer, x)
        ):
            buffer = library.empty((max(rows, 2 * x.shape[0]), *x.shape[1:]), x.dtype, x)
            self._buffers[number, self._turn] = buffer
        used: Array = buffer[:rows]
        return used


def place_parents(parents: Array, scores: Array) -> Array:
    """The parents as an array of the library of the scores, on their device."""
    library, like = adopt(scores, "scores")
    return library.from_host(parents, like)


def notify(x: object, parents: Array, tokens: Array) -> Any:
    """Tell an object how rows go on; the result is the object itself, or what its method returns."""
    method = telling(x)
    assert method is not None
    returned = method(parents, tokens) if not _is_cache(x) and with_tokens(method) else method(parents)
    return x if returned is None else returned


class Place(NamedTuple):
    """The device of the memories of a search, and the library it returns arrays of."""

    library: Library
    like: Array | None  # an array there; None where there is none, which is NumPy's

    def check(self, library: Library, array: Array, what: str) -> None:
        """DeviceError unless an array is there."""
        if self.like is None:
            return
        here, place = library.device(array), self.library.device(self.like)
        if library is not self.library or here != place:
            raise DEVICES(
                f"{what} is an array of {library.name} on {here}, but the first memory one of {self.library.name} on "
                f"{place}"
            )

    def put(self, array: Array) -> Array:
        """An array of the host, brought there."""
        return array if self.library is NUMPY or self.like is None else self.library.from_host(array, self.like)


def place_of(found: list[Any]) -> Place:
    """The place of the first array among some parts; all must be on one device."""
    place = Place(NUMPY, None)
    for library, array in _samples(found):
        if place.like is None:
            place = Place(library, array)
        else:
            place.check(library, array, "a memory")
    return place


def check_place(found: list[Any], place: Place) -> None:
    """DeviceError unless the arrays among some parts are there, TypeError where they ask for a gradient."""
    for library, array in _samples(found):
        if library.autograd and library.wants_grad((array,)):
            raise no_gradient_error()
        if place.like is None and library is not place.library:
            raise DEVICES(f"a memory is an array of {library.name}, but at first there was none")
        place.check(library, array, "a memory")


def _samples(found: list[Any]) -> Iterable[tuple[Library, Array]]:
    """An array of each part that has some, and its library."""
    for part in found:
        if array_like(part) and not isinstance(part, Pairs):
            yield adopt(part if is_array(part) else part._sample(), "memory")


def rows_of(x: object, rows: Array, what: str) -> Any:
    """Rebuild the containers with these rows of what has rows."""

    def pick(part: Memory) -> Any:
        if is_array(part):
            library, array = adopt(part, what)
            return library.take(array, rows, 0)
        if array_like(part):
            return part[rows]
        return part if telling(part) else type(part)([part[i] for i in rows.tolist()])

    return map_memory(x, pick)
