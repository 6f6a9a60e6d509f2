"""The sources of a search, with what the options say of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array, distinct, has_items, is_among
from ..errors import BEYOND, quote
from ..formats import Ragged
from ..formats.structure import integers
from ..once import once
from ..operations.batch import join_batches
from .prompts import side_by_side


@dataclass(frozen=True, eq=False)
class Sources:
    """Options of each source; arrays ``(n,)``."""

    start: Array  # the first token
    width: Array  # the size of its beam
    limit: Array  # the most tokens of a hypothesis
    least: Array  # so many tokens come before an end
    penalty: Array  # float64, the power of the length
    ends: list[Array]  # the tokens that end a hypothesis
    prompts: Ragged[Array] | None

    @property
    def n(self) -> int:
        """The number of sources."""
        return int(self.start.size)

    @once
    def ends_at(self) -> Array:
        """Places where the ends of each source begin among all."""
        return np.cumsum([0, *[e.size for e in self.ends]]).astype(np.int64)

    @once
    def all_ends(self) -> Array:
        """The ends of all."""
        return np.concatenate([np.empty(0, np.int64), *self.ends])

    @once
    def prompt_block(self) -> Array | None:
        """The prompts ``(n, longest)``, at the right end of rows that begin with -1."""
        return None if self.prompts is None else side_by_side(self.prompts)

    def and_more(self, more: Sources) -> Sources:
        """Join these sources, and others behind them."""
        arrays = {name: np.concatenate([getattr(part, name) for part in (self, more)]) for name in _ARRAYS}
        prompts = self.prompts
        if prompts is not None and more.prompts is not None:
            prompts = join_batches([prompts, more.prompts])
        return replace(self, ends=[*self.ends, *more.ends], prompts=prompts, **arrays)

    def take(self, kept: Array) -> Sources:
        """Take the sources at these places."""
        arrays = {name: getattr(self, name)[kept] for name in _ARRAYS}
        prompts = None if self.prompts is None else self.prompts[kept]
        return replace(self, ends=[self.ends[i] for i in kept.tolist()], prompts=prompts, **arrays)


_ARRAYS = ("start", "width", "limit", "least", "penalty")


def places_of(asked: object, numbers: Array) -> Array:
    """The places of sources with these numbers among all, which rise; StructureError for one that is not there."""
    wanted = distinct(integers(asked if has_items(asked) else [asked], "the sources"))
    unknown = wanted[~is_among(wanted, numbers)]
    if unknown.size:
        raise BEYOND(f"there is no source {unknown[0]}; there are {quote(numbers.tolist())}")
    return np.searchsorted(numbers, wanted)
