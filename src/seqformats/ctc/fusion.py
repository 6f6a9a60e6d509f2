"""Scores that a function of the user gives to new prefixes, once a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, is_array, to_host
from ..errors import KIND, NAN, RESULT, RETURNED, quote
from ..formats import Ragged
from ..formats.structure import Structure
from .prefixes import Prefixes

OnNew = Callable[["CTCState"], Array]


class CTCState:
    """The prefixes that are new in the beams of a search, one row each.

    Attributes
    ----------
    tokens : array (rows,) of int64
        The last token of each; the blank at first, when each source has the empty prefix.
    source : array (rows,) of int64
        The source that each row belongs to.
    parents : array (rows,) of int64
        Which prefix each goes on from: its number among all that were ever shown; -1 at first.
    t : int
        How many frames were read.

    Notes
    -----
    Arrays are of the library of the frames, and on their device.  Prefixes are numbered as they are shown, from 0 on,
    so what a model remembers of each can be kept one after the other, and found by `parents`.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> seen = []
    >>> def no_gain(state):
    ...     seen.append((state.t, state.prefixes.to_nested(), state.parents.tolist()))
    ...     return np.zeros((len(state.tokens), 3))
    >>> frames = sf.Ragged(np.log([[0.2, 0.5, 0.3], [0.4, 0.1, 0.5]]), [2])
    >>> found = sf.ctc_beam_search(frames, beam_size=2, on_new=no_gain)
    >>> seen
    [(0, [[]], [-1]), (1, [[1], [2]], [0, 0])]
    """

    __slots__ = ("_history", "_put", "_rows", "parents", "source", "t", "tokens")

    def __init__(self, history: History, rows: Array, source: Array, t: int, put: Callable[[Array], Array]) -> None:
        if type(history) is not History:
            raise KIND(f"a search makes its states itself, of the prefixes that it has shown, not of {quote(history)}")
        self._history, self._rows, self._put = history, rows, put
        self.tokens, self.parents = put(history.tokens[rows]), put(history.parents[rows])
        self.source = put(source)
        self.t = t

    @property
    def prefixes(self) -> Ragged:
        """The tokens of each."""
        data, lengths = self._history.labels(self._rows)
        return Ragged._freeze(self._put(data), Structure.of_lengths(lengths))

    def __repr__(self) -> str:
        return f"CTCState({self._rows.size} rows at t = {self.t})"


class History:
    """All prefixes that were shown, in this order: their last tokens, parents and lengths."""

    def __init__(self) -> None:
        self.size = 0
        self._numbers = np.empty((3, 64), np.int64)

    def add(self, tokens: Array, parents: Array) -> Array:
        """More of them; their numbers."""
        first, self.size = self.size, self.size + tokens.size
        if self.size > self._numbers.shape[1]:
            wider = np.empty((3, 2 * self.size), np.int64)
            wider[:, :first] = self._numbers[:, :first]
            self._numbers = wider
        lengths = np.where(parents < 0, 0, self._numbers[2, parents] + 1)
        self._numbers[:, first : self.size] = tokens, parents, lengths
        return np.arange(first, self.size)

    @property
    def tokens(self) -> Any:
        """The last token of each."""
        return self._numbers[0]

    @property
    def parents(self) -> Any:
        """The number of the prefix before it."""
        return self._numbers[1]

    def labels(self, numbers: Array) -> tuple[Array, Array]:
        """The tokens of some, one after the other, and how many each has."""
        lengths = self._numbers[2, numbers]
        places = np.cumsum(lengths) - 1  # of the last token
        data = np.empty(int(lengths.sum()), np.int64)
        left = lengths.copy()
        while (there := left > 0).any():
            numbers, places, left = numbers[there], places[there], left[there]
            data[places] = self.tokens[numbers]
            numbers, places, left = self.parents[numbers], places - 1, left - 1
        return data, lengths


class _Rows(NamedTuple):
    """The beams of all sources behind a frame, one row after the other."""

    units: Array
    rows: Array  # in the unit
    origins: Array
    tokens: Array


class Asked:
    """Scores of the prefixes that are in the beams."""

    def __init__(self, search: Prefixes, hook: OnNew) -> None:
        self._search, self._hook = search, hook
        self._history = History()
        frames, beam = search.frames, search.terms.beam
        n = frames.structure.n
        by_steps = frames.at._layout().step != 1
        self._sources = frames.structure.order.indices if by_steps else np.arange(n)
        self._lengths = frames.structure.lengths[self._sources]
        numbers = self._history.add(np.full(n, frames.blank), np.full(n, -1))
        self._numbers = np.zeros(n * beam, np.int64)  # of the prefix in each row
        self._numbers[::beam] = numbers
        begin = np.zeros(n * beam, np.int64)
        begin[::beam] = np.arange(n) * frames.width
        gains = self._describe(numbers, np.arange(n), 0).reshape(-1)
        self.guide = search.guide._replace(gains=gains, gains_at=begin)

    def ask(self, t: int) -> None:
        """Ask of what is new behind frame t."""
        beam, width = self._search.terms.beam, self._search.terms.width
        units, rows, origins, tokens = self._rows(t)
        new = origins < 0
        before = units * beam + np.where(new, -1 - origins, origins)
        numbers = self._numbers[before]
        numbers[new] = self._history.add(tokens[new], numbers[new])
        values = np.empty((units.size, width))
        values[~new] = self.guide.gains.reshape(-1, width)[self.guide.gains_at[before[~new]] // width]
        if new.any():
            values[new] = self._describe(numbers[new], units[new], t + 1)
        here = units * beam + rows
        self._numbers[here] = numbers
        begin = np.zeros_like(self.guide.gains_at)
        begin[here] = np.arange(units.size) * width
        self.guide = self.guide._replace(gains=values.reshape(-1), gains_at=begin)

    def _rows(self, t: int) -> _Rows:
        """The rows of the sources that have a frame t."""
        search, frames = self._search, self._search.frames
        beam = search.terms.beam
        state = frames.host(search.pool.state).reshape(-1, 4)
        alive = np.where(self._lengths > t, state[:, 0], 0)
        units = np.repeat(np.arange(alive.size), alive)
        rows = np.arange(units.size) - np.repeat(np.cumsum(alive) - alive, alive)
        at = (3 * units + state[units, 1]) * beam + rows
        nodes = search.terms.places[units] + frames.host(search.rows.nodes)[at]
        return _Rows(units, rows, frames.host(search.rows.origins)[at], frames.host(search.tree.tokens)[nodes])

    def _describe(self, numbers: Array, units: Array, t: int) -> Any:
        """Return the scores of the hook for prefixes, as float64."""
        frames = self._search.frames
        state = CTCState(self._history, numbers, self._sources[units], t, frames.put)
        returned: Any = self._hook(state)
        if not is_array(returned):
            raise RETURNED(f"on_new must return an array, not {type(returned).__name__}")
        found = to_host(returned)
        if found.dtype.kind not in "fiu":
            raise RETURNED(f"on_new must return real numbers, not {found.dtype}")
        if found.shape != (numbers.size, frames.width):
            raise RESULT(
                f"on_new must return a number for each of {numbers.size} rows and {frames.width} tokens, but returned "
                f"shape {found.shape}"
            )
        if not (found < np.inf).all():
            raise NAN(f"what on_new returned holds NaN or +inf, at t = {t}")
        return found.astype(np.float64)


def search_with(search: Prefixes, hook: OnNew) -> None:
    """Search frame by frame, the hook between them."""
    asked = Asked(search, hook)
    longest = search.frames.structure.longest
    for t in range(longest + 1):
        search.run(t, t + 1, asked.guide)
        if t < longest:
            search.frames.check(search.frames.host(search.out.counts))
            asked.ask(t)
