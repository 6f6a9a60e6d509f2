"""The beams of a search, what has finished in them, and how a step changes both."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, frozen
from ..launch.kernel import kernel
from .live import Live, Nodes
from .options import Sources
from .rows import Apart, Beams, Candidates, Finished, NewRows, Rows, Terms, Wanted
from .rules import BEAM, Prune, Rule

_NONE = np.empty(0, np.int64)
NOTHING_APART = Apart(_NONE, _NONE, _NONE)


class Search:
    """All that a search keeps on the host, whatever the device of the scores."""

    def __init__(self, sources: Sources, rule: Rule, prune: Prune, groups: int, n_best: int, *, apart: bool) -> None:
        """`apart`: are ends apart from other candidates, under a rule that keeps k of these?"""
        n = sources.n
        source = np.repeat(np.arange(n), groups)
        most = rule.candidates * sources.width
        self.apart = NOTHING_APART
        if rule.spares and apart:
            most = sources.width
            self.apart = Apart(sources.ends_at[source], sources.ends_at[source + 1], sources.all_ends)
        elif rule.spares:  # so that k are left if all ends are among them
            most = np.maximum(2, 1 + np.diff(sources.ends_at)) * sources.width
        size, finished, topped = np.zeros((3, source.size), np.int64)
        width = sources.width // groups
        enough = np.minimum(np.floor(width * rule.patience + 0.5), width * sources.limit).astype(np.int64)
        self.beams = Beams(
            source,  # at first each source has one row
            source + 1,
            most[source] // groups,
            width[source],
            sources.limit[source],
            enough[source],
            size,
            finished,
            topped,
            sources.penalty[source],
        )
        self.wanted = Wanted(self.beams.begin, self.beams.end, self.beams.most)
        self.longest, self.largest = 1, int(self.beams.most.max(initial=0))
        places = int((enough + width).max(initial=2))
        scores, nodes = np.empty(source.size * places, np.float32), np.empty(source.size * places, np.int64)
        self.finished = Finished(scores, nodes, places)
        self._terms = Terms(
            first_only=int(rule.first_only),
            at_limit=int(rule.at_limit),
            pool=rule.pool,
            norm=rule.norm,
            shrinks=int(rule.shrinks),
            stop=rule.stop,
            groups=groups,
            n_best=n_best,
            safe=int(prune.safe),
            below=prune.thresholds(),
            ends_at=sources.ends_at,
            ends=sources.all_ends,
        )
        self.nodes = Nodes(sources.before)
        self._ends = np.repeat(np.arange(n), np.diff(sources.ends_at)), sources.all_ends
        self._limit, self._n_best, self._by_node = sources.limit, n_best, rule.pool == BEAM
        rows, start = frozen(np.arange(n)), frozen(sources.start)  # the state shows them
        values = np.zeros(n, np.float32)
        first = Rows(rows, start, frozen(-1 - rows), rows, values, values)
        self.live = Live(0, first, self.nodes, sources.limit, moved=False)

    def advance(self, found: Candidates) -> int:
        """Let the rule decide; the number of a bad row, by which nothing has changed, or -1 for none."""
        before = self.live
        total = min(found.counts.size, self._terms.groups * before.source.size) * found.places
        tree = self.nodes.tree(total)
        numbers, scores = np.empty((4, total), np.int64), np.empty((2, total), np.float32)
        t = before.t + 1
        advance = kernel("advance_beams").run
        told = advance(found, before.rows, NewRows(numbers, scores), self.beams, self.finished, tree, self._terms, t)
        rows, size, same, bad, longest, largest = told
        if bad >= 0:
            return int(bad)
        self.nodes.steps.append(size)
        self.longest, self.largest = longest, largest
        numbers.setflags(write=False)  # the state shows them
        self.live = Live(t, Rows(*numbers[:, :rows], *scores[:, :rows]), self.nodes, self._limit, moved=not same)
        return -1

    def best(self) -> tuple[Array, Array, Array]:
        """The best finished hypotheses of each source: their sources, last nodes and scores."""
        size, places, groups = self.beams.size, self.finished.places, self._terms.groups
        beam = np.repeat(np.arange(size.size), size)
        place = beam * places + np.arange(beam.size) - np.repeat(np.cumsum(size) - size, size)
        source, nodes, scores = beam // groups, self.finished.nodes[place], self.finished.scores[place]
        if groups > 1:
            order = np.lexsort((-scores, source))
            source, nodes, scores = source[order], nodes[order], scores[order]
        best = np.arange(source.size) - np.searchsorted(source, source) < self._n_best
        source, nodes, scores = source[best], nodes[best], scores[best]
        return source, nodes, self.nodes.tree().values[nodes] if self._by_node else scores

    def ended(self, source: Array, last: Array) -> Array:
        """Which hypotheses, with these sources and last nodes, have ended: by an end of their source."""
        tokens, (of, ends) = self.nodes.tree().tokens[last], self._ends
        width = int(max(tokens.max(initial=0), ends.max(initial=0))) + 1
        return np.isin(source * width + tokens, of * width + ends)
