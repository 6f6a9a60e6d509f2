"""The search for texts: its memory, and what is found there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..launch.kernel import kernel
from .rows import Parts, Spans, Speech, TextPool, TextRows, Texts, TextTerms

ctc_texts = kernel("ctc_texts")

FIRST_ROOM = 1 << 12
"""Nodes, and candidates, for which there is room at first."""


_NONE = np.empty(0, np.int64)


class Found(NamedTuple):
    """A text that a search has found."""

    words: list[str]
    frames: list[tuple[int, int]]  # the first of each word, and the one behind its last
    state: int  # of the model, behind the last word
    path_score: float
    score: float


class TextSearch:
    """Memory for searches of one kind, one after the other; it grows with what they need."""

    def __init__(self, terms: TextTerms, speech: Speech) -> None:
        self._terms, self._speech = terms, speech
        beam = terms.beam
        self._parts = Parts(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0))
        self._texts = Texts(_NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0))
        self._spans = Spans(_NONE, _NONE, _NONE)
        self._rows = TextRows(*_integers(6, 2 * beam), *np.empty((2, 2 * beam)))
        self._counts = np.zeros(8, np.int64)
        self._pool = self._pool_of(FIRST_ROOM)
        self._grow(FIRST_ROOM)

    def search(self, y: Array, n_best: int) -> list[Found]:
        """The best texts of frames ``(frames, width)`` of float64, at most so many."""
        self._counts[7] = 0
        flat = np.ascontiguousarray(y).reshape(-1)
        while True:
            memory: Any = (self._parts, self._texts, self._spans, self._rows, self._pool)
            if ctc_texts.run(flat, self._terms, self._speech, *memory) > len(y):
                return self._read(n_best)
            if self._counts[6] > self._pool.texts.size:
                self._pool = self._pool_of(int(self._counts[6]))
            else:
                self._grow(2 * self._parts.parents.size)

    def _grow(self, size: int) -> None:
        """Have room for so many nodes of each kind, and for those of one frame more."""
        terms, counts = self._terms, self._counts
        each = (size + terms.beam * (terms.longest + 1), size + terms.beam, size + terms.beam)
        for name, kept, room in zip(("_parts", "_texts", "_spans"), counts[2:5].tolist(), each, strict=True):
            old = getattr(self, name)
            new = {}
            for field, x in old._asdict().items():
                if field == "table":
                    new[field] = _table(room)
                else:
                    new[field] = np.empty(room, x.dtype)
                    new[field][:kept] = x[:kept]
            setattr(self, name, old._replace(**new))

    def _pool_of(self, size: int) -> TextPool:
        """Room for so many candidates."""
        terms, table = self._terms, _table(size)
        texts, parts, tokens, rows, steps = _integers(5, size)
        return TextPool(
            texts,
            parts,
            tokens,
            rows,
            steps,
            np.empty(size),
            np.empty(size),
            table,
            np.zeros(table.size, np.int64),
            np.empty(terms.width, np.int64),
            np.empty(terms.beam, np.int64),
            np.empty(terms.beam, np.int64),
            np.empty(terms.beam),
            self._counts,
        )

    def _read(self, n_best: int) -> list[Found]:
        """Read the best texts from the rows of the beam."""
        rows, counts = self._rows, self._counts
        begin = int(counts[1]) * self._terms.beam
        here = slice(begin, begin + min(int(counts[0]), n_best))
        texts, parts, spans = _Chains(self._texts), _Chains(self._parts), _Chains(self._spans)
        found = []
        columns = (x[here].tolist() for x in (rows.texts, rows.spans, rows.paths, rows.scores))
        for text, span, path, score in zip(*columns, strict=True):
            words = ["".join(map(chr, parts.trace(word))) for word in texts.trace(text)]
            state = int(self._texts.contexts[text])
            found.append(Found(words, spans.trace(span), state, path, score))
        return found


class _Chains:
    """Values that are behind each other in a tree, read once for each node."""

    def __init__(self, tree: Any) -> None:
        self._known: dict[int, list[Any]] = {-1: [], 0: []}
        self._before, self._values = tree[0], tree[1]
        if type(tree) is Spans:
            self._known = {-1: []}
            self._ends = tree.ends

    def trace(self, node: int) -> list[Any]:
        """From the first one to this node."""
        missing = []
        while node not in self._known:
            missing.append(node)
            node = int(self._before[node])
        chain = self._known[node]
        for node in reversed(missing):
            value = int(self._values[node])
            one: Any = (value, int(self._ends[node])) if hasattr(self, "_ends") else value
            chain = self._known[node] = [*chain, one]
        return chain


def _integers(count: int, size: int) -> Any:
    return np.empty((count, size), np.int64)


def _table(size: int) -> Array:
    """A table with two places or more for each of so many, a power of two."""
    return np.empty(1 << (2 * size).bit_length(), np.int64)
