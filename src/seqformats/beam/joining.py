"""Memories of sources that are added to a search, behind those of the others."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from ..arrays import adopt, is_array
from ..errors import DEVICES, KIND, MIXED, ConversionError, StructureError
from ..formats import Encoding
from ..operations.batch import join_batches
from .memory import Memory, array_like, is_record, is_row_list, members_of, telling


def join_memories(before: Memory, more: Memory, what: str) -> Any:
    """Two memories as one: the rows of the second come behind those of the first.

    Raises
    ------
    StructureError, TypeError, DeviceError
        Where they do not hold the same.
    """
    return _join(before, more, what, {})


Done = dict[tuple[int, int], tuple[Any, Any, Any]]


def _join(before: Memory, more: Memory, what: str, done: Done) -> Any:
    """Join what is in two containers; `done` are the pairs already joined, so that what is there twice stays so."""
    key = id(before), id(more)
    if key not in done:
        done[key] = before, more, _both(before, more, what, done)
    return done[key][2]


def _both(before: Memory, more: Memory, what: str, done: Done) -> Any:
    if is_array(before) and is_array(more):
        return _arrays(before, more, what)
    if array_like(before) or array_like(more):
        return _batches(before, more, what)
    method = None if telling(before) is None else getattr(before, "join", None)
    if method is not None and type(before) is type(more):
        returned = method(more)
        return before if returned is None else returned
    if telling(before) is not None or telling(more) is not None:
        raise KIND(
            f"{what} holds a {type(before).__name__}, to which a {type(more).__name__} cannot be added: it would need "
            "a method join(other); or leave the memory out, and set decoder.state.memory to one with all rows"
        )
    if is_row_list(before, what) and is_row_list(more, what) and type(before) is type(more):
        return type(before)([*before, *more])
    one, two = members_of(before), members_of(more)
    if one is None and two is None:
        return before
    if type(before) is not type(more) or len(list(one or ())) != len(list(two or ())):
        raise _differ(before, more, what)
    return _containers(before, more, what, done)


def _containers(before: Memory, more: Memory, what: str, done: Done) -> Any:
    if isinstance(before, dict):
        if before.keys() != more.keys():
            raise _differ(before, more, what)
        twin = copy.copy(before)
        for key, value in before.items():
            twin[key] = _join(value, more[key], what, done)
        return twin
    if isinstance(before, (tuple, list)):
        found = [_join(a, b, what, done) for a, b in zip(before, more, strict=True)]
        return type(before)(*found) if is_record(before) else type(before)(found)
    twin = copy.copy(before)
    for field in dataclasses.fields(before):
        name = field.name
        object.__setattr__(twin, name, _join(getattr(before, name, None), getattr(more, name, None), what, done))
    return twin


def _arrays(before: Memory, more: Memory, what: str) -> Any:
    library, first = adopt(before, what)
    other, second = adopt(more, what)
    if library is not other or library.device(first) != other.device(second):
        raise DEVICES(
            f"{what} is an array of {library.name} on {library.device(first)}, but that of the sources that are added "
            f"one of {other.name} on {other.device(second)}"
        )
    if tuple(first.shape[1:]) != tuple(second.shape[1:]) or first.dtype != second.dtype:
        raise MIXED(
            f"{what} has items of shape {tuple(first.shape[1:])} and {first.dtype}, but that of the sources that are "
            f"added {tuple(second.shape[1:])} and {second.dtype}"
        )
    return library.concatenate([first, second])


def _batches(before: Memory, more: Memory, what: str) -> Any:
    if not (isinstance(before, Encoding) and type(before) is type(more)):
        raise _differ(before, more, what)
    try:
        return join_batches([before, more])
    except ConversionError as error:
        raise MIXED(f"{what} of the sources that are added does not fit: {error}") from None


def _differ(before: Memory, more: Memory, what: str) -> StructureError:
    return MIXED(
        f"{what} of the sources that are added must hold the same as that of the others, but in one place there is "
        f"{_describe(before)}, and {_describe(more)} is given"
    )


def _describe(x: Memory) -> str:
    """Describe a container, with the number of its members or their keys."""
    if isinstance(x, dict):
        return f"a dict of {', '.join(map(repr, x)) or 'nothing'}"
    return f"a {type(x).__name__}{f' of {len(x)}' if isinstance(x, (list, tuple)) else ''}"
