"""Hypotheses of a search by all their paths, and ordered anew."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..formats.structure import Structure
from .frames import Frames
from .labels import Labels
from .loss import Loss
from .prefixes import Hypotheses


def rescore(frames: Frames, found: Hypotheses, n_best: int, logits: int) -> Hypotheses:
    """The `n_best` hypotheses of each source by what all paths of their labels have, best first.

    What tokens, hooks and a model have added stays as it is.
    """
    sources, labels = found.sources, found.labels
    if not labels.n:
        return found
    tokens = np.asarray(frames.library.to_numpy(found.tokens))
    given = Labels(tokens, labels.offsets, sources.offsets)
    losses = Loss.plan(frames, given, logits > 0, False, "none").run(frames, False).losses
    paths = -np.asarray(frames.host(losses))
    scores, before = (np.asarray(frames.library.to_numpy(x), np.float64) for x in (found.scores, found.path_scores))
    scores = paths + (scores - before)
    source = np.repeat(np.arange(sources.n), sources.lengths)
    order = np.lexsort((-scores, source))
    kept = order[np.arange(order.size) - sources.offsets[source] < n_best]
    return _pick(frames, found, kept, np.bincount(source[kept], minlength=sources.n), scores[kept], paths[kept])


def _pick(frames: Frames, found: Hypotheses, kept: Array, counts: Array, scores: Array, paths: Array) -> Hypotheses:
    """Some hypotheses, with these scores."""
    lengths = found.labels.lengths[kept]
    begin = np.repeat(found.labels.offsets[:-1][kept] - (np.cumsum(lengths) - lengths), lengths)
    rows = begin + np.arange(begin.size)
    tokens, times = (frames.put(np.asarray(frames.library.to_numpy(x))[rows]) for x in (found.tokens, found.times))
    return Hypotheses(
        Structure.of_lengths(counts),
        Structure.of_lengths(lengths),
        tokens,
        times,
        frames.put(scores.astype(np.float32)),
        frames.put(paths.astype(np.float32)),
    )
