"""Tokens, and sequences of them, as users give them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..arrays import Array, distinct, is_array, shape_of, to_host
from ..converters.convert import convert
from ..converters.layouts import check_at_least
from ..errors import COUNTS, KIND, LENGTHS
from ..formats import List, Ragged, is_own
from ..formats.annotations import Given
from ..formats.structure import integers
from ..memory_checks import OBJECT, check_room


def tokens_of(values: object, what: str) -> Array:
    """A sequence of tokens as int64; none is negative."""
    found = integers(values, what)
    if found.size and found.min() < 0:
        raise LENGTHS(f"{what} must not be negative, but one of them is {found.min()}")
    return found


def is_token(x: object) -> bool:
    """Tell whether this is one number, and no sequence."""
    return not isinstance(x, (list, tuple)) and not (is_array(x) and len(shape_of(x)))


def is_nested(given: object) -> bool:
    """Tell whether these are sequences of tokens for each source, and not for all."""
    if is_own(given):
        return len(given._levels) > 1
    lists = (list, tuple)
    return isinstance(given, lists) and any(isinstance(s, lists) and not all(map(is_token, s)) for s in given)


def one_by_one(given: Given) -> Any:
    """Split what holds tokens, or sequences of them, into one by one; an array on the host."""
    if is_array(given):
        given = to_host(given)
        if given.ndim < 1:
            raise KIND("tokens come in sequences, not as a single number")
        check_room(given.shape[0], OBJECT, "sequences of tokens")
    return given


def token_lists(given: object, what: str) -> list[Array]:
    """Sequences of tokens, from a list of lists, an encoding, ..."""
    if is_own(given):
        given = convert(given, Ragged if given.keeps_levels else List)
        given = convert(given, List).items
    given = one_by_one(given)
    if isinstance(given, (str, bytes)) or not (isinstance(given, Iterable) and hasattr(type(given), "__iter__")):
        raise KIND(f"{what} must be sequences of tokens, not {type(given).__name__}")
    return [tokens_of(x, what) for x in given]


def token_batch(given: object, what: str) -> Ragged[Array]:
    """Put sequences of tokens into one array; those of an encoding are never apart."""
    if is_own(given):
        batch = convert(given, Ragged)
        return Ragged._freeze(tokens_of(batch.data, what), batch._structure)
    found = token_lists(given, what)
    return Ragged(np.concatenate([np.empty(0, np.int64), *found]), [tokens.size for tokens in found])


def ends_of(given: object, n: int) -> list[Array]:
    """The tokens that end a hypothesis of each source."""
    if is_own(given):
        found = token_lists(given, "end")
        if len(found) != n:
            raise COUNTS(f"end has the ids of {len(found)} sources, but there are {n} sources")
    elif is_token(given):
        found = [np.array([check_at_least(to_host(given).item() if is_array(given) else given, "end", 0)])] * n
    else:
        found = [tokens_of(given, "end")] * n
    return [distinct(e) for e in found]
