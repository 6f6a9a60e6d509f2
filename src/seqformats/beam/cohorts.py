"""The limits on the hypotheses of a search, whose sources need not have begun together."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .hypotheses import Live
from .lexical import LexicalSearch
from .plan import Plan
from .protocol import Running
from .sources import Sources


class Cohort:
    """Sources that have begun together: their constraints see them as if there were no others.

    Until the next step constraints do not know what has been taken away; sources have the numbers of the beginning for
    them at any time.
    """

    live: Live  # what constraints know

    def __init__(self, sources: Sources, constraints: list[Running], *, forced_end: bool) -> None:
        self.sources, self._constraints, self._forced_end = sources, constraints, forced_end
        self.there = np.arange(sources.n)  # the sources that have not been taken away
        self.begun = 0  # so many steps had been made before the first one
        self.first_row = 0  # of those that are alive
        self._left: Array | None = None  # the rows that have not been taken away; None for all
        self._early = int(sources.least.max(initial=0))

    @property
    def last_end(self) -> int:
        """The largest token that ends a hypothesis."""
        return int(self.sources.all_ends.max(initial=-1))

    @property
    def lexical(self) -> int:
        """The number of constraints that say which phrases hypotheses must have."""
        return sum(isinstance(one, LexicalSearch) for one in self._constraints)

    @property
    def rows(self) -> Array:
        """The rows that are still there, as constraints count them."""
        return np.arange(self.live.source.size) if self._left is None else self._left

    def follow(self, live: Live) -> None:
        """A step was made, behind which these are alive."""
        self.live, self._left = live, None
        for constraint in self._constraints:
            constraint.follow(live)

    def part(self, live: Live, first: int) -> Live:
        """Take what is alive of these sources, the first of which has this number."""
        begin, end = np.searchsorted(live.source, [first, first + self.there.size]).tolist()
        rows, parents = slice(begin, end), np.arange(end - begin)
        if self.begun < live.t:
            parents = self.rows[live.parents[rows] - self.first_row]
        self.first_row = begin
        return live.part(rows, parents, self.there[live.source[rows] - first], self.sources, self.begun)

    def keep(self, sources: Array, rows: Array, first_row: int) -> None:
        """Only these sources, and rows, stay, by their numbers among those that are there."""
        self.there, self._left, self.first_row = self.there[sources], self.rows[rows], first_row

    def plan(self, width: int) -> Plan | None:
        """Plan what may follow, where constraints know more rows than there are too; None where anything may."""
        live, sources = self.live, self.sources
        t, source = live.t, live.source
        if not source.size or not (self._constraints or t < self._early or self._forced_end):
            return None
        early = sources.least[source] > t
        last = sources.limit[source] == t + 1 if self._forced_end else early[:0]
        if not (self._constraints or early.any() or last.any()):
            return None
        plan = Plan(source.size, width)
        at, count = sources.ends_at[source], np.diff(sources.ends_at)[source]
        if early.any():
            rows = np.repeat(np.arange(source.size), np.where(early, count, 0))
            first = np.searchsorted(rows, rows)
            plan.ban(rows, sources.all_ends[at[rows] + np.arange(rows.size) - first])
        if last.any():
            plan.allow(np.where(last, at, -1), np.where(last, at + count, -1), sources.all_ends)
        for constraint in self._constraints:
            constraint.limit(live, plan)
        return plan if self._left is None else plan.take(self._left)

    def phrases(self) -> LexicalSearch:
        """The phrases that its sources must have, and how many of them each row has."""
        (found,) = (one for one in self._constraints if isinstance(one, LexicalSearch))
        return found.take(self.there, self.rows)


class Cohorts:
    """All cohorts of a search, in the order of their sources."""

    def __init__(self) -> None:
        self._all: list[Cohort] = []
        self._alone = True  # is there one, from the beginning and as a whole, whose rows are those of the search?

    def add(self, cohort: Cohort, live: Live) -> None:
        """Sources that begin now: `live` are all of the search, of which theirs are the last."""
        if self._all or live.t:
            self._alone = False
            cohort.begun = live.t
            live = cohort.part(live, sum(other.there.size for other in self._all))
        cohort.live = live
        self._all.append(cohort)

    def keep(self, sources: Array, rows: Array) -> None:
        """Only these sources, and rows, stay; both rise."""
        self._alone = False
        source = row = 0
        for cohort in self._all:
            next_source, next_row = source + cohort.there.size, row + cohort.rows.size
            of, at = np.searchsorted(sources, [source, next_source]), np.searchsorted(rows, [row, next_row])
            cohort.keep(sources[slice(*of)] - source, rows[slice(*at)] - row, int(at[0]))
            source, row = next_source, next_row
        self._all = [cohort for cohort in self._all if cohort.there.size]

    def follow(self, live: Live) -> None:
        """A step was made, behind which these are alive."""
        if self._alone:
            self._all[0].follow(live)
            return
        first = 0
        for cohort in self._all:
            cohort.follow(cohort.part(live, first))
            first += cohort.there.size

    def plan(self, width: int) -> Plan | None:
        """Plan what may follow each row; None where anything may."""
        if self._alone:
            return self._all[0].plan(width)
        plans = [(cohort.plan(width), cohort.rows.size) for cohort in self._all]
        return Plan.join(plans, width) if any(plan is not None for plan, _ in plans) else None

    def phrases(self) -> LexicalSearch:
        """The phrases that hypotheses must have, and how many of them each row has."""
        return LexicalSearch.join([cohort.phrases() for cohort in self._all])
