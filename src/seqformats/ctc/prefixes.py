"""Memory of the kernel of the prefix search, and its results."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array
from ..formats.structure import Structure
from ..launch.kernel import Work, kernel
from ..launch.threads import MAX_GPU_UNITS, MAX_WORKSPACE_BYTES, num_threads
from .frames import Frames
from .rows import Guide, Labels, Pool, PrefixRows, PrefixTerms, PrefixTree, Speech, Told

ctc_prefixes, ctc_spoken = kernel("ctc_prefixes"), kernel("ctc_spoken")

_MIN_COST_FOR_THREADS = 1 << 20
"""Nanoseconds, about, below which there is no work for several threads."""


class Prefixes(NamedTuple):
    """A search: what it is told, and its memory."""

    frames: Frames
    terms: PrefixTerms
    guide: Guide
    speech: Speech | None
    out: Labels
    tree: PrefixTree
    rows: PrefixRows
    told: Told | None
    pool: Pool
    work: Work

    def run(self, first: int, last: int, guide: Guide) -> None:
        """Search in the frames from `first` on, up to `last`."""
        terms = self.terms._replace(first=first, last=last)
        frames = self.frames
        inputs: tuple[Any, ...] = (frames.data, terms, guide)
        outputs: tuple[Any, ...] = (self.out, self.tree, self.rows, self.pool)
        run = ctc_prefixes
        if self.speech is not None:
            run, inputs, outputs = ctc_spoken, (*inputs, self.speech), (*outputs[:3], self.told, self.pool)
        run.start_named(frames.library, inputs, outputs, (frames.at._layout(),), 1, self.work, frames.structure)


def prefixes_of(frames: Frames, terms: PrefixTerms, guide: Guide, speech: Speech | None, alone: bool) -> Prefixes:
    """Memory for a search; a unit for each source where the kernel comes back to them, `alone`."""
    structure, width = frames.structure, terms.width
    beam = min(terms.beam, _labels(structure.longest, width))
    terms = terms._replace(beam=beam, n_best=min(terms.n_best, beam))
    layout = frames.at._layout()
    lengths = structure.lengths if layout.step == 1 else structure.order.lengths
    most = 1 + structure.longest * beam  # nodes of a source, and tokens of paths
    candidates = 4 * beam + 64 + width
    each = 8 * (9 * most + 65 * beam + 4 * candidates + 4 * width)  # bytes
    costs = lengths * (100.0 * beam + 2.0 * width) + 100.0
    units = structure.n if alone else _units(structure.n, float(costs.sum()), each, frames)
    shares = np.arange(structure.n + 1) if alone else _shares(costs, units)
    size = structure.n + structure.rows * beam if alone else most * units
    spelled = 3 * beam * units if terms.spelled else 0
    rows, tokens, pool = 3 * beam * units, width * units, candidates * units
    tree = PrefixTree(*_cut(frames, "int64", size, size, size, 4 * size, size, size))
    labels, room = structure.n * terms.n_best, structure.rows * terms.n_best
    out = Labels(
        *_cut(frames, "int64", room, room),
        *_cut(frames, "int64", labels, structure.n),
        *_cut(frames, "float32", labels, labels),
    )
    whole = _cut(frames, "int64", rows, spelled, *[rows] * 5)
    real = _cut(frames, "float64", *[rows] * 6)
    listed, marks, which, token, state = _cut(frames, "int64", tokens, tokens, pool, pool, 4 * units)
    logs, values, floats = _cut(frames, "float64", tokens, pool, candidates * units)
    told = None
    if speech is not None:
        contexts, words, hots, letters = _cut(frames, "int64", *[rows] * 4)
        told = Told(contexts, words, hots, letters, frames.empty(rows, "float64"))
    nodes = 1 + lengths * beam if alone else np.full(units, most)
    places = np.concatenate([[0], np.cumsum(nodes)])
    return Prefixes(
        frames,
        terms._replace(shares=shares, places=places),
        guide,
        speech,
        out,
        tree,
        PrefixRows(*whole, *real),
        told,
        Pool(logs, listed, marks, values, floats, which, token, state, candidates),
        Work(units, int(costs.sum()) // 8),
    )


def _cut(frames: Frames, name: str, *sizes: int) -> list[Array]:
    """Arrays of these sizes in one piece of memory."""
    ends = np.cumsum([0, *sizes], dtype=object)
    whole = frames.empty(ends[-1], name)
    return [whole[a:b] for a, b in pairwise(ends)]


def _labels(frames: int, width: int) -> int:
    """Return the number of possible labels of so many frames; more than anybody counts where there are more."""
    total = power = 1
    for _ in range(frames):
        power *= width - 1
        total += power
        if total > 1 << 62:
            return 1 << 62
    return total


def _units(n: int, cost: float, each: int, frames: Frames) -> int:
    here = frames.on is NUMPY
    if n < 2 or (here and cost < _MIN_COST_FOR_THREADS):
        return 1
    return max(min(n, 4 * num_threads() if here else MAX_GPU_UNITS, MAX_WORKSPACE_BYTES // each), 1)


def _shares(costs: Array, units: int) -> Any:
    """Divide the sources over units, so that all have about the same to do."""
    if units == 1:
        return np.array([0, costs.size])
    ends = np.cumsum(costs)
    shares = np.searchsorted(ends, np.arange(units + 1) * (ends[-1] / units))
    shares[-1] = costs.size
    return shares


class Hypotheses(NamedTuple):
    """Hypotheses of a search, as arrays of the caller's library, and how many each source has."""

    sources: Structure
    labels: Structure
    tokens: Array
    times: Array
    scores: Array
    path_scores: Array


def found_by(search: Prefixes) -> Hypotheses:
    """The hypotheses of all sources; ValueError where a frame has no log-probabilities."""
    frames, out, n_best = search.frames, search.out, search.terms.n_best
    counts = frames.host(out.counts)
    frames.check(counts)
    lengths = frames.host(out.lengths)
    sources, kept = Structure.of_lengths(counts), Structure.of_lengths(lengths)
    number = np.tile(np.arange(n_best), counts.size)
    labels = Structure.of_lengths(lengths[number < np.repeat(counts, n_best)])
    places = Structure.of_lengths(np.full(counts.size, n_best))
    room = Structure.of_lengths(np.repeat(frames.structure.lengths, n_best))

    def take(x: Array, room: Structure, kept: Structure) -> Array:
        return frames.to_caller(frames.parts(x, room, kept))

    return Hypotheses(
        sources,
        labels,
        take(out.tokens, room, kept),
        take(out.times, room, kept),
        take(out.scores, places, sources),
        take(out.path_scores, places, sources),
    )
