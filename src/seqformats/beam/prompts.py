"""Prompts: tokens that stand before what a search finds."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, is_array
from ..errors import EMPTY
from ..formats import Ragged, is_own
from .tokens import token_batch


def prompts_of(given: object) -> Ragged[Array]:
    """The prompt of each source, on the host; StructureError where one has no token."""
    found = token_batch(given, "the prompts")
    if len(found) and not found.lengths.all():
        empty = int(np.flatnonzero(found.lengths == 0)[0])
        raise EMPTY(f"prompt {empty} has no token, but the last one of each is what its hypotheses begin with")
    return found


def last_tokens(prompts: Ragged[Array]) -> Array:
    """The last token of each prompt, which is what a search starts with."""
    last: Array = prompts.data[prompts.offsets[1:] - 1]
    return last


def where_wanted(given: object) -> list[object]:
    """Starts or prompts, where they say which arrays are wanted: as arrays or encodings, but NumPy's."""
    like = given._sample() if is_own(given) else given
    return [given] if is_array(like) and not isinstance(like, np.ndarray) else []


def side_by_side(prompts: Ragged[Array]) -> Array:
    """The prompts ``(n, longest)``, each at the right end of its row, behind as many -1 as fill it."""
    lengths = prompts.lengths
    longest = int(lengths.max(initial=0))
    table = np.full((len(prompts), longest), -1)
    table[np.arange(longest) >= longest - lengths[:, None]] = prompts.data
    return table
