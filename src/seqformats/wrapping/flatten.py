"""Nested lists as one flat list, and back: what `with_flatten` does."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .. import registry
from ..arrays import adopt, is_array, library_of, shape_of
from ..converters.convert import convert
from ..converters.like import convert_like
from ..errors import BATCH, LEVELS, RESULT, RETURNED, SLOPE, quote
from ..formats import Encoding, Pairs, Ragged
from ..formats.bare import read_column
from ..formats.leaves import leaves, rebuild
from ..formats.pairs import is_encoding
from ..gradients.cotangent import cotangent, in_dtype
from ..memory_checks import OBJECT, check_finite, check_room
from .wrapper import Arguments, Function, Named, without_items


def flattening(fn: Function, backprop: bool) -> Function:
    """The function called with the innermost items of its first batch as one flat list; see `with_flatten`."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return call_flat(fn, backprop, args, kwargs)

    return wrapper


def call_flat(fn: Function, backprop: bool, args: Arguments, kwargs: Named) -> Any:
    """Take the first batch apart, call, put back together."""
    args = tuple(map(read_column, args))
    at = next((i for i, x in enumerate(args[:2]) if isinstance(x, (list, tuple)) or is_encoding(x)), None)
    if at is None:
        given = ", ".join(registry.label(type(x)) for x in args) or "nothing"
        raise BATCH(f"with_flatten needs nested lists or an encoding as its first argument, but got: {given}")
    items, shape, back = _items(args[at])
    returned = fn(*args[:at], items, *args[at + 1 :], **kwargs)
    if not backprop:
        return back(_check_count(returned, len(items), "the function"))
    if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
        raise RETURNED("with_flatten with backprop=True: the function must return (y, backprop)")
    y, inner_backprop = returned
    result = back(_check_count(y, len(items), "the function"))
    outer = without_items(result) if is_encoding(result) else None
    dtype = without_items(args[at]).dtype if isinstance(args[at], Encoding) else None

    def outer_backprop(dy: object) -> Any:
        flat, given, _ = _items(dy if outer is None else cotangent(dy, outer))
        if len(flat) != len(items):
            raise SLOPE(f"the gradient has {len(flat)} items, but the result has {len(items)}")
        if given is not None and (shape is None or [a[1:] for a in given] != [b[1:] for b in shape]):
            raise SLOPE("the gradient has as many items as the result, but other lengths")
        dx = back(_check_count(inner_backprop(flat), len(items), "backprop"))
        return dx if dtype is None else rebuild(dx, [in_dtype(leaf, dtype) for leaf in leaves(dx)])

    return result, outer_backprop


def _items(x: object) -> tuple[list[Any], list[_Shape] | None, Callable[[Any], Any]]:
    """All items of nested lists or of an encoding as one list, how lists are nested, and the way back for as many."""
    if isinstance(x, Pairs):
        raise BATCH("with_flatten takes one batch, not Pairs; give x.one or x.two")
    if is_encoding(x):
        rows = convert(x, Ragged)
        rows._look()
        check_room(rows.rows, OBJECT, "items")
        return list(rows.data), None, lambda y: convert_like(_stack(y, rows), x)
    if not isinstance(x, (list, tuple)):
        raise BATCH(f"nested lists or an encoding were expected, not {registry.label(type(x))}")
    items, shape = _flatten(x)
    return items, shape, lambda y: _regroup(y, shape)


def _check_count(y: object, expected: int, whose: str) -> Any:
    """Check what `whose` returned, which must be so many items."""
    if not isinstance(y, (list, tuple)) and not (is_array(y) and shape_of(y, "the result")):
        raise RETURNED(f"with_flatten: {whose} must return a list of {expected} items, not {type(y).__name__}")
    count = shape_of(y)[0] if is_array(y) else len(y)
    if count != expected:
        raise RESULT(f"with_flatten: {expected} items were expected back from {whose}, but got {count}")
    return y


def _stack(items: Sequence[object], rows: Ragged) -> Ragged:
    """Items, of whatever kind, over the structure of `rows`."""
    library = library_of(rows.data)
    if rows.rows == 0:
        data = rows.data
    elif is_array(items):
        data = library.stack(list(adopt(items, "the result")[1]), rows.data)
    else:
        check_finite(items)
        try:
            data = library.stack(items, rows.data)
        except (TypeError, ValueError, RuntimeError) as error:
            mistake = RETURNED if isinstance(error, TypeError) else RESULT
            raise mistake(f"with_flatten: the items that the function returned fit no array: {error}") from None
    return rows._with_data(data)


class _Shape(NamedTuple):
    """Nesting of lists of one level."""

    kinds: list[type]  # of each list
    counts: list[int]  # of the lists within, or 0
    items: list[int]  # that it holds itself


def _flatten(x: Sequence[Any]) -> tuple[list[Any], list[_Shape]]:
    """All items in order, and the shape of every level, outermost first."""
    items: list[Any] = []
    shapes: list[_Shape] = []
    lists, depths = [x], set()
    while lists:
        check_finite(x, len(shapes), sum(map(len, lists)))
        shape = _Shape([], [], [])
        for part in lists:
            inner = [isinstance(item, (list, tuple)) for item in part]
            leaf = not any(inner)
            if not leaf and not all(inner):
                i = inner.index(False)
                raise LEVELS(f"the items of nested lists must all be equally deep, but element {i} is {quote(part[i])}")
            if leaf and inner:
                items += part
                depths.add(len(shapes) + 1)
            shape.kinds.append(type(part))
            shape.counts.append(0 if leaf else len(inner))
            shape.items.append(len(inner) if leaf else 0)
        shapes.append(shape)
        if len(depths) > 1:
            raise LEVELS(f"the items of nested lists must all be equally deep, but some are {min(depths)} deep")
        lists = [item for part, count in zip(lists, shape.counts, strict=True) if count for item in part]
    return items, shapes


def _regroup(items: Iterable[object], shapes: list[_Shape]) -> Any:
    """Lists of those shapes around other items: from the innermost level out."""
    lists: list[Any] = []
    for shape in reversed(shapes):
        given, within = iter(items), iter(lists)  # only one level has items
        lists = [
            kind(itertools.islice(within if count else given, count or own))
            for kind, count, own in zip(*shape, strict=True)
        ]
    return lists[0]
