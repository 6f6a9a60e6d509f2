"""Choose the candidates of a step from the scores of a model: limits, hooks, and the ways of choosing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, is_among, is_array
from ..errors import BEYOND, DTYPE, KIND, RANGE, RESULT, RETURNED, SHAPE, TOGETHER
from . import candidates
from .candidates import Query
from .cohorts import Cohort, Cohorts
from .diverse import DiverseGroups
from .drawing import Drawing, Greedy
from .hooks import Hooks
from .hypotheses import Live
from .memory import Place
from .options import Options
from .plan import Plan
from .protocol import Constraint, Running
from .result import BeamState
from .rows import Candidates
from .rules import POOL_BEAM, RULES, Prune
from .search import Search
from .sources import Sources
from .step import no_gradient_error


class Begun(NamedTuple):
    """State that the search of some sources needs."""

    cohort: Cohort
    drawing: Drawing | None


class Selection:
    """Chooses the candidates of one search.

    DiverseGroups, LexicalConstraints and sampling choose in ways of their own, of which there is one at most.
    """

    def __init__(self, options: Options, sources: Sources, place: Place) -> None:
        self._place, self._options = place, options
        self.rule = options.made_rule()
        self.prune = options.prune or Prune()
        self.hooks = Hooks(options)
        diverse = _diverse(options)
        self._diverse = diverse[0] if diverse else None
        self.groups = diverse[0].groups if diverse else 1
        if options.sampling is not None:
            if self.rule.greedy:
                raise TOGETHER('sampling does not go with the rule "greedy", which takes the best token')
            # what has ended stays in the sample; limits come before the noise, so that the rest is sampled
            self.rule = RULES["paddle"]._replace(masks_first=True)
        self._cohorts, self._last_end = Cohorts(), -1
        self._first = self.start(options, sources, 0)
        cohort, self._sample = self._first
        self._lexical = cohort.lexical > 0
        self._check_ways(len(diverse), cohort.lexical)
        self.apart = self._lists_apart(sources)
        self._at_once_below = candidates.threads_from() if self._in_one_call() else 0
        """Below so many bytes of scores a step is one call."""

    def start(self, options: Options, sources: Sources, first: int) -> Begun:
        """Begin the search of some sources, the first of which has this number; nothing has changed yet."""
        if (sources.width % self.groups).any():
            wrong = int(sources.width[sources.width % self.groups > 0][0])
            raise RANGE(f"a beam_size of {wrong} cannot be divided into {self.groups} groups")
        running = [one.begin(sources.n, sources.ends) for one in _limits(options)]
        for one in running:
            if not isinstance(one, Running):
                raise RETURNED(f"the method begin of a constraint must return a Running, not {type(one).__name__}")
        drawing = None
        if options.sampling is not None:
            drawing = options.sampling.begin(sources.width, first)
        elif self.rule.greedy:
            drawing = Greedy(sources.width)
        return Begun(Cohort(sources, running, forced_end=self.rule.forced_end), drawing)

    def begin(self, live: Live) -> None:
        """The rows of the first sources are these."""
        self._cohorts.add(self._first.cohort, live)
        self._last_end = self._first.cohort.last_end

    def more(self, options: Options, sources: Sources, first: int) -> Begun:
        """Begin with other sources, as `start` does; ConversionError unless they are searched in the same way."""
        before, now = self._options.sampling, options.sampling
        if (before is None) != (now is None) or (before is not None and not before.draws_like(now)):
            raise TOGETHER("sources that are added draw like the others: a Sample may have other seeds alone")
        diverse = _diverse(options)
        if (diverse[0] if diverse else None) is not self._diverse:
            raise TOGETHER("sources that are added have the same DiverseGroups as the others, the same object")
        begun = self.start(options, sources, first)
        if begun.cohort.lexical != self._lexical:
            raise TOGETHER("LexicalConstraints are for all sources, or for none: give some, of [] if need be")
        return begun

    def add(self, begun: Begun, live: Live) -> None:
        """Search sources too that are the last ones of all that are alive now."""
        self._cohorts.add(begun.cohort, live)
        self._last_end = max(self._last_end, begun.cohort.last_end)
        if self._sample is not None and begun.drawing is not None:
            self._sample.add(begun.drawing)

    def keep(self, sources: Array, rows: Array) -> None:
        """Only the sources with these numbers stay, and these rows, which are theirs."""
        self._cohorts.keep(sources, rows)
        if self._sample is not None:
            self._sample.keep(sources, rows)

    def _check_ways(self, diverse: int, lexical: int) -> None:
        """Raise ConversionError for options that exclude each other."""
        drawing = 'the rule "greedy"' if self.rule.greedy else "sampling"
        own = {"DiverseGroups": diverse, "LexicalConstraints": lexical, drawing: int(self._sample is not None)}
        used = [name for name, count in own.items() for _ in range(count)]
        if len(used) > 1:
            raise TOGETHER(f"{' and '.join(used)} do not go together: each chooses candidates in its own way")
        if self.hooks.on_selected and used:
            raise TOGETHER(f"on_selected does not go with {used[0]}, which chooses candidates in its own way")
        if self.hooks.on_candidates and lexical:
            raise TOGETHER("on_candidates does not go with LexicalConstraints, which chooses candidates in its own way")
        if self._sample is not None and self._sample.alone and (self.hooks.on_candidates or self.prune != Prune()):
            other = "on_candidates" if self.hooks.on_candidates else "prune"
            if self.rule.greedy:
                raise TOGETHER(f'{other} does not go with the rule "greedy", which has one candidate per source')
            raise TOGETHER(
                f"{other} does not go with a Sample, of which each hypothesis draws one candidate; give it "
                "replacement=False, or change what may be drawn with on_scores"
            )
        if lexical and self.rule.pool == POOL_BEAM:
            raise TOGETHER('LexicalConstraints do not go with the rule "paddle", which compares scores alone')

    def _lists_apart(self, sources: Sources) -> bool:
        """Tell whether ends are listed apart from other candidates.

        Not where anything else than the rule looks at all candidates together.
        """
        hooks, prune, place = self.hooks, self.prune, self._place
        together = hooks.on_candidates or hooks.on_selected or self._lexical
        if together or prune.local is not None or prune.per_parent is not None:
            return False
        on_host = place.like is None or place.library.kind(place.like) == "cpu"
        # with one end, a list of all is no longer than two, and costs a GPU less
        return on_host or bool((np.diff(sources.ends_at) > 1).any())

    def _in_one_call(self) -> bool:
        """Tell whether one kernel may choose and advance on the host: nobody looks at what is between."""
        hooks = self.hooks
        looks = hooks.on_scores or hooks.on_candidates or hooks.on_selected
        own = self._sample is not None or self._lexical or self._diverse is not None
        return not (looks or own or self.prune.per_parent is not None)

    def choose(self, scores: object, search: Search, state: BeamState) -> Candidates | Query:
        """The best candidates of each beam, after all hooks.

        Of a small step in which nobody looks at them, only what to choose them from: the search does it in the call in
        which it advances.
        """
        query = self._query(scores, search, state)
        rows, width = query.x.shape
        if 4 * rows * width < self._at_once_below and query.library.kind(query.x) == "cpu":
            return query
        found = self._find_candidates(query, search, state)
        if self.hooks.on_selected:
            found = self.hooks.filter_selected(query, found, search.live, search.sources.n, state)
        return found

    def _query(self, scores: object, search: Search, state: BeamState) -> Query:
        """Make the query to choose from: scores, as hooks have changed them, and what may follow."""
        live = search.live
        library, x = self._scores(scores, live)
        plan = self._plan(state, live, x.shape[1])
        first = self.rule.masks_first
        form = candidates.MASKED if first else candidates.LOGITS
        if self.hooks.on_scores or self._lexical or (self._sample and not self._sample.takes_logits):
            x = candidates.log_probabilities(library, x, plan if first else None)
            for hook in self.hooks.on_scores:
                x = self._changed_scores(hook(x, state), library, x, live)
            form = candidates.LOG_PROBABILITIES
            if plan is not None and first:
                plan = plan.bans()
        wanted, longest, largest = search.wanted, search.longest, search.largest
        return Query(library, x, live.rows.values, form, plan, wanted, search.apart, longest, largest, live.numbers)

    def follow(self, live: Live) -> None:
        """The rows have become these."""
        self._cohorts.follow(live)
        if self._sample is not None:
            self._sample.follow(live)

    # --- scores and limits -------------------------------------------------------------------------------------------

    def _scores(self, scores: object, live: Live) -> tuple[Library, Array]:
        """The scores as float32, beside the memories; on the host as NumPy's where nobody looks at them."""
        rows = live.source.size
        read: Any = self._place.library.floats(scores) if self._at_once_below else None
        library, x = self._adopt(scores) if read is None else (NUMPY, read)
        if len(x.shape) != 2 or x.shape[0] != rows or x.shape[1] == 0:
            raise SHAPE(f"scores must have shape ({rows}, vocabulary), but have {tuple(x.shape)}")
        if read is None and not library.dtype_name(x.dtype).startswith(("float", "bfloat")):
            raise DTYPE(f"scores must be floats, not {library.dtype_name(x.dtype)}")
        if self._last_end >= x.shape[1]:
            raise BEYOND(f"end is {self._last_end}, but scores have {x.shape[1]} columns")
        return library, library.astype(x, "float32") if read is None else x

    def _adopt(self, scores: object) -> tuple[Library, Array]:
        """An array of scores that wants no gradient, where the memories are."""
        if not is_array(scores):
            raise KIND(f"scores must be an array (rows, vocabulary), not {type(scores).__name__}")
        library, x = adopt(scores, "scores")
        if library.autograd and library.wants_grad((x,)):
            raise no_gradient_error()
        self._place.check(library, x, "scores")
        return library, x

    def _changed_scores(self, given: object, library: Library, x: Array, live: Live) -> Array:
        """Read what a hook has made of the log-probabilities."""
        found, y = self._scores(given, live)
        if found is not library or tuple(y.shape) != tuple(x.shape):
            raise RESULT(f"on_scores must return scores of shape {tuple(x.shape)}, not {tuple(y.shape)}")
        return y

    def _plan(self, state: BeamState, live: Live, width: int) -> Plan | None:
        """Plan what may follow; None where anything may."""
        plan = self._cohorts.plan(width)
        if self.hooks.on_mask:
            plan = plan or Plan(live.source.size, width)
            self.hooks.mask(plan, state)
        return None if plan is None else plan.finish()

    # --- the ways of choosing ----------------------------------------------------------------------------------------

    def _find_candidates(self, query: Query, search: Search, state: BeamState) -> Candidates:
        """The best candidates of each beam."""
        if self._sample is not None:
            return self._sample.draw(query, search.live, lambda asked: self._best(asked, search, state))
        if self._lexical:
            return self._cohorts.phrases().find_candidates(query, search.live, self.prune.per_parent)
        if self._diverse is not None:
            return self._in_groups(self._diverse, query, search, state)
        return self._best(query, search, state)

    def _best(self, query: Query, search: Search, state: BeamState) -> Candidates:
        """Choose the candidates of some beams, each with its limits."""
        if self.hooks.on_candidates:
            return self.hooks.of_rows(query, self.prune.per_parent, search.live, search.sources.n, state)
        return candidates.select(query, self.prune.per_parent)

    def _in_groups(self, diverse: DiverseGroups, query: Query, search: Search, state: BeamState) -> Candidates:
        """Group by group, each with a penalty for the tokens that those before it have chosen."""
        live, wanted, width = search.live, query.wanted, query.x.shape[1]
        parts: list[Candidates] = []
        chosen: list[Array] = []
        for g in range(self.groups):
            mine = np.arange(wanted.begin.size) % self.groups == g
            own = wanted._replace(begin=np.where(mine, wanted.begin, 0), end=np.where(mine, wanted.end, 0))
            plan = query.plan
            if parts:
                chosen.append(self._going(parts[-1], search, width))
                plan = diverse.penalise(plan, live, width, np.concatenate(chosen))
            asked = query._replace(wanted=own, plan=plan)
            parts.append(self._best(asked, search, state))
            live.check(parts[-1].counts)
        return candidates.interleave(parts)

    def _going(self, found: Candidates, search: Search, width: int) -> Array:
        """The tokens with which beams go on, of each as many as its size, as ``source * width + token``."""
        used = candidates.find_used(found)
        beam, tokens = used // found.places, found.ids[used] % width
        places = beam // self.groups * width + tokens
        sources = search.sources
        ends = np.repeat(np.arange(sources.n), np.diff(sources.ends_at)) * width + sources.all_ends
        going = ~is_among(places, ends)
        beam, places = beam[going], places[going]
        rank = np.arange(beam.size) - np.searchsorted(beam, beam)
        kept: Array = places[rank < search.beams.width[beam]]
        return kept


def _diverse(options: Options) -> list[DiverseGroups]:
    return [one for one in options.made_constraints() if isinstance(one, DiverseGroups)]


def _limits(options: Options) -> list[Constraint]:
    return [one for one in options.made_constraints() if not isinstance(one, DiverseGroups)]
