"""Numbers that callers give to operations: parts, seeds, and what random numbers have places for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsFloat

import numpy as np

from ..arrays import is_array, library_of
from ..converters.layouts import check_at_least
from ..errors import CHOICE, EXACT, KIND, LOST, OVERFLOW, RANGE, quote
from ..formats.leaves import wants_grad
from ..formats.structure import MAX_INT64, Structure, whole

UINT32_LIMIT = 1 << 32
"""Random numbers are below this, and so is every place in a sequence that has some."""


def number(value: object, what: str) -> float:
    """Read a float; TypeError for an object that is no number, and for a tensor whose gradient would be lost."""
    if type(value) is float or (type(value) is int and -UINT32_LIMIT < value < UINT32_LIMIT):
        return float(value)
    given: Any = value
    library = library_of(given) if is_array(given) else None
    if library and not library.functional and wants_grad(given):
        raise LOST(f"{what} is a number here, and its gradient would be lost; give it detached")
    try:
        single = isinstance(value, SupportsFloat) and getattr(value, "shape", ()) == ()
        imaginary = library.dtype_name(given.dtype).startswith("complex") if library else np.iscomplexobj(given)
        if single and not imaginary and not isinstance(value, (bool, np.bool_, str, bytes)):
            return float(given)
    except Exception as error:  # what a foreign object says of itself
        raise RANGE(f"{what} must be a number, not {quote(value)}: {error}") from None
    raise KIND(f"{what} must be a number, not {quote(value)}")


def choice(given: object, what: str, known: Iterable[str]) -> int:
    """The number of one of some words; ConversionError for others, also for what is no word."""
    words = (*known,)
    if not isinstance(given, str) or given not in words:
        raise CHOICE(f"{what} must be one of {', '.join(map(repr, words))}, not {quote(given)}")
    return words.index(given)


def share(value: object, what: str) -> float:
    """A float from 0 to 1; ConversionError for others."""
    part = number(value, what)
    if not 0 <= part <= 1:
        raise RANGE(f"{what} must be from 0 to 1, not {quote(value)}")
    return part


def label(ignore: object) -> int:
    """Read what stands for no label; ConversionError where it is beyond int64, the dtype of labels."""
    found = whole(ignore, "ignore")
    if not -MAX_INT64 - 1 <= found <= MAX_INT64:
        raise EXACT(f"ignore={quote(ignore)} does not fit int64, the dtype of labels")
    return found


def key_of(seed: object) -> int:
    """A seed, from 0 to 2^63 - 1; ConversionError for others."""
    return seed if type(seed) is int and 0 <= seed <= MAX_INT64 else check_at_least(seed, "seed", 0)


def check_places(structure: Structure) -> None:
    """StructureError for a sequence with more items than there are places with random numbers."""
    if structure.longest > UINT32_LIMIT:
        raise OVERFLOW(f"a sequence of {structure.longest} items has more places than random numbers know, 2^32")
