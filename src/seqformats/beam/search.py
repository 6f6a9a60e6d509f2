"""The beams of a search, what has finished in them, and how a step changes both."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, freeze, is_among
from ..formats.structure import Structure
from ..launch.kernel import kernel
from . import candidates
from .candidates import Query
from .coverage import Coverage
from .hypotheses import Found, Live, Nodes, Trail
from .paths import Paths
from .rows import Apart, Beams, Candidates, Finished, Lists, NewRows, Rows, Scores, Terms, Tree, Wanted
from .rules import POOL_BEAM, Prune, Rule
from .sources import Sources

_NONE = np.empty(0, np.int64)
NOTHING_APART = Apart(_NONE, _NONE, _NONE)


class Search:
    """State of a search on the host, whatever the device of the scores."""

    def __init__(self, sources: Sources, rule: Rule, prune: Prune, groups: int, n_best: int, *, apart: bool) -> None:
        """`apart`: are ends apart from other candidates, under a rule that keeps k of these?"""
        self._rule, self._apart = rule, rule.spares and apart
        self._groups, self._n_best, self._by_node = groups, n_best, rule.pool == POOL_BEAM
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
        self.nodes = Nodes()
        self._work: tuple[Lists, Array] | None = None  # the room of the last step
        self._set(sources, self._make_beams(sources, 0, 0), Finished(np.empty(0, np.float32), _NONE, 2))
        self.live = Live(0, _starts(sources, 0, 0), self.nodes, sources, self.begun, moved=False)

    @property
    def rows_asked(self) -> Array:
        """The number of rows of each source that the model was asked for."""
        asked: Array = self.beams.asked.reshape(-1, self._groups).sum(1)
        return asked

    @property
    def is_done(self) -> Array:
        """Truth of each source being done."""
        done: Array = (self.beams.begin == self.beams.end).reshape(-1, self._groups).all(1)
        return done

    # --- sources -----------------------------------------------------------------------------------------------------

    def _make_beams(self, sources: Sources, rows: int, steps: int) -> Beams:
        """The beams of sources before their first step, each with one row behind so many others."""
        rule, source = self._rule, np.repeat(np.arange(sources.n), self._groups)
        most = rule.candidates * sources.width
        if self._apart:
            most = sources.width
        elif rule.spares:  # so that k are left if all ends are among them
            most = np.maximum(2, 1 + np.diff(sources.ends_at)) * sources.width
        width = sources.width // self._groups
        size, finished, topped, asked = np.zeros((4, source.size), np.int64)
        return Beams(
            source + rows,
            source + (rows + 1),
            most[source] // self._groups,
            width[source],
            sources.limit[source],
            np.minimum(np.floor(width * rule.patience + 0.5), width * sources.limit).astype(np.int64)[source],
            size,
            finished,
            topped,
            np.full(source.size, steps),
            asked,
            sources.penalty[source],
        )

    def _set(self, sources: Sources, beams: Beams, finished: Finished) -> None:
        """Set the sources, and what has finished in the first ones of their beams."""
        self.sources, self.beams = sources, beams
        self.begun: Array = beams.begun[:: self._groups]  # how many steps had been made before the first one of each
        places = max(finished.places, int((beams.enough + beams.width).max(initial=2)))
        scores, nodes = np.empty((beams.size.size, places), np.float32), np.empty((beams.size.size, places), np.int64)
        for old, new in ((finished.scores, scores), (finished.nodes, nodes)):
            table = old.reshape(-1, finished.places)
            new[: table.shape[0], : finished.places] = table
        self.finished = Finished(scores.reshape(-1), nodes.reshape(-1), places)
        self.apart = NOTHING_APART
        if self._apart:
            at = np.repeat(sources.ends_at[:-1], self._groups), np.repeat(sources.ends_at[1:], self._groups)
            self.apart = Apart(*at, sources.all_ends)
        self._terms = self._terms._replace(ends_at=sources.ends_at, ends=sources.all_ends)
        self._ends = np.repeat(np.arange(sources.n), np.diff(sources.ends_at)), sources.all_ends
        self.wanted = Wanted(beams.begin, beams.end, beams.most)
        live = beams.begin < beams.end
        self._most_rows = int(beams.width.sum())
        self.longest = int((beams.end - beams.begin).max(initial=1, where=live))
        self.largest = int(beams.most.max(initial=0, where=live))

    def add(self, sources: Sources) -> None:
        """Search others too, which come behind those that are there."""
        live, n = self.live, self.sources.n
        rows = live.source.size
        beams = map(np.concatenate, zip(self.beams, self._make_beams(sources, rows, live.t), strict=True))
        self._set(self.sources.and_more(sources), Beams(*beams), self.finished)
        new = _starts(sources, n, rows)._replace(parents=np.full(sources.n, -1))
        both = [freeze(np.concatenate(pair)) for pair in zip(live.rows, new, strict=True)]
        self.live = Live(live.t, Rows(*both), self.nodes, self.sources, self.begun)

    def keep(self, kept: Array) -> Array:
        """Search the sources with these numbers, which rise, and no others; the rows that are left."""
        live, groups = self.live, self._groups
        new = np.full(self.sources.n, -1)
        new[kept] = np.arange(kept.size)
        stays = new[live.source] >= 0
        at = np.append(0, np.cumsum(stays))
        which = (kept[:, None] * groups + np.arange(groups)).reshape(-1)
        beams = Beams(*[x[which] for x in self.beams])
        searched = beams.begin < beams.end
        begin, end = (at[np.where(searched, x, 0)] for x in (beams.begin, beams.end))
        places = self.finished.places
        scores, nodes = (x.reshape(-1, places)[which].reshape(-1) for x in self.finished[:2])
        finished = Finished(scores, nodes, places)
        self._set(self.sources.take(kept), beams._replace(begin=begin, end=end), finished)
        left = np.flatnonzero(stays)
        rows = Rows(*[x[left] for x in live.rows])
        rows = rows._replace(source=new[rows.source], nodes=rows.nodes.copy())
        self._forget(rows)
        moved = live.moved or left.size < live.source.size
        self.live = Live(live.t, Rows(*map(freeze, rows)), self.nodes, self.sources, self.begun, moved=moved)
        return left

    def _forget(self, rows: Rows) -> None:
        """Forget the steps that no source has seen, once they are many; other nodes get other numbers."""
        nodes = self.nodes
        first = int(self.begun.min(initial=nodes.dropped + len(nodes.steps) - 1)) - nodes.dropped
        if 2 * nodes.steps[first] > nodes.steps[-1]:
            self.nodes, cut = nodes.drop_steps(first)
            self.finished.nodes[:] -= cut
            rows.nodes[rows.nodes >= 0] -= cut

    # --- steps -------------------------------------------------------------------------------------------------------

    def advance(self, found: Candidates | Query) -> int:
        """Let the rule decide.  Returns the number of a row that holds NaN or +inf, and then changes nothing, or -1.

        Of a `Query`, on the host, the candidates are chosen in the same call of a kernel.
        """
        if isinstance(found, Query):
            return self._at_once(found)
        before = self.live
        new, tree = self._room(min(found.counts.size, self._groups * before.source.size) * found.places)
        advance, t = kernel("advance_beams").run, before.t + 1
        return self._advance(advance(found, before.rows, new, self.beams, self.finished, tree, self._terms, t), new)

    def _at_once(self, query: Query) -> int:
        """Choose candidates and go on with them in one call of a kernel, on the host; returns what `advance` does."""
        before, (rows, width) = self.live, query.x.shape
        lists, blocks = candidates.work(query, self.wanted, self._work)
        self._work = lists, blocks
        new, tree = self._room(min(lists.counts.size, self._groups * rows) * lists.places)
        told = kernel("step_beams").run(
            Scores(query.library.operand(query.x), query.running, query.form),
            lists,
            blocks,
            query.limits,
            query.apart,
            before.rows,
            new,
            self.beams,
            self.finished,
            tree,
            self._terms,
            before.t + 1,
            width,
        )
        return self._advance(told, new)

    def _room(self, most: int) -> tuple[NewRows, Tree]:
        """Allocate the rows, which a state will show, and the nodes for so many candidates."""
        rows = min(most, self._most_rows)
        return NewRows(np.empty((4, rows), np.int64), np.empty((2, rows), np.float32)), self.nodes.tree(most)

    def _advance(self, told: tuple[int, ...], new: NewRows) -> int:
        """Go on to the rows that a kernel has written; the number of a bad row, or -1."""
        rows, size, same, bad, longest, largest = told
        if bad >= 0:
            return int(bad)
        self.nodes.steps.append(size)
        self.longest, self.largest = longest, largest
        x, scores = new
        x.setflags(False)  # the state shows them
        # one by one: to go through a table takes twice the time
        live = Rows(x[0, :rows], x[1, :rows], x[2, :rows], x[3, :rows], scores[0, :rows], scores[1, :rows])
        self.live = Live(self.live.t + 1, live, self.nodes, self.sources, self.begun, moved=not same)
        return -1

    # --- what is found -----------------------------------------------------------------------------------------------

    def best(self, coverage: Coverage, paths: Paths, sources: Array | None = None) -> Found:
        """The best finished hypotheses of each source, or of some, and their scores."""
        found = self._list_finished() if sources is None else self._list_finished().take_sources(sources)
        if coverage.weight:
            found = coverage.rescore(found, self.trail(found), self.nodes.tree(), paths)
        first = np.arange(found.source.size) - np.searchsorted(found.source, found.source) < self._n_best
        return Found(*(part[first] for part in found))

    def possible(self, coverage: Coverage, paths: Paths) -> Found:
        """The finished hypotheses that may be in the result.

        With a coverage penalty these are all that are kept while a source is searched: where one goes, another may
        take its place.
        """
        best = self.best(coverage, paths)
        if not coverage.weight:
            return best
        kept = self._list_finished()
        going, done = is_among(kept.source, self.live.source), ~is_among(best.source, self.live.source)
        return Found(*(np.concatenate([a[going], b[done]]) for a, b in zip(kept, best, strict=True)))

    def _list_finished(self) -> Found:
        """All finished hypotheses that are kept, best first."""
        size, places, groups = self.beams.size, self.finished.places, self._groups
        beam = np.repeat(np.arange(size.size), size)
        place = beam * places + np.arange(beam.size) - np.repeat(np.cumsum(size) - size, size)
        source, nodes, scores = beam // groups, self.finished.nodes[place], self.finished.scores[place]
        if groups > 1:
            order = np.lexsort((-scores, source))
            source, nodes, scores = source[order], nodes[order], scores[order]
        return Found(source, nodes, self.nodes.tree().values[nodes] if self._by_node else scores)

    def lengths(self, source: Array, nodes: Array) -> Array:
        """Count the tokens of hypotheses, by their sources and last nodes."""
        lengths: Array = np.maximum(self.nodes.steps_of(nodes) - self.begun[source], 0)
        return lengths

    def trail(self, found: Found) -> Trail:
        """The steps in which hypotheses were found, of those that are remembered."""
        begun = self.begun[found.source] - self.nodes.dropped
        return Trail(found.last, begun, Structure.of_lengths(self.lengths(found.source, found.last)))

    def find_ended(self, source: Array, last: Array) -> Array:
        """Tell which hypotheses, with these sources and last nodes, have ended: by an end of their source."""
        tokens, (of, ends) = self.nodes.tree().tokens[last], self._ends
        width = int(max(tokens.max(initial=0), ends.max(initial=0))) + 1
        return is_among(source * width + tokens, of * width + ends)


def _starts(sources: Sources, first: int, rows: int) -> Rows:
    """The rows of sources before their first step, behind so many others; the first source has this number."""
    at, values = freeze(np.arange(sources.n)), np.zeros(sources.n, np.float32)  # the state shows them
    return Rows(at, freeze(sources.start), freeze(-1 - rows - at), freeze(at + first), values, values)
