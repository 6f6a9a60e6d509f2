"""Beam search for any model: the loop, its state and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, frozen, has_items, is_array, to_host
from ..converters.layouts import at_least
from ..errors import ConversionError, StructureError, said
from ..formats import LoD, Ragged
from ..formats.structure import Structure, integers, whole
from ..launch.kernel import kernel
from ..operations.batch import inverse_order
from ..operations.steps import TensorArray
from . import candidates
from .candidates import Found, Lanes
from .constraints import Beams, Constraint, DiverseGroups, Plan, ends_of
from .lexical import LexicalSearch
from .memory import Memories, arrays_among, check_memory, check_place, check_rows, library_and_like, parts
from .names import hinted
from .rules import BEAM, RULES, Prune, number, rule_of
from .sampling import Stochastic
from .step import no_gradient

_MOST = (1 << 31) - 1  # tokens of a hypothesis, places of a beam
Step = Callable[["BeamState"], tuple[Any, Any]]


class BeamState:
    """The live hypotheses of a search, a row each; rows of a source are neighbours.

    tokens : ``(rows,)`` int64, the last token of each; the start at first
    source : ``(rows,)`` int64, of which source each is: at first each has one row, and none when it is done
    parents : ``(rows,)`` int64, the row of the step before that each goes on from
    memory : what the model has returned, in the order of these rows; its arrays are written again two steps later
    shared : the memory with one row a source, as it was given
    t : how many tokens each has

    Arrays are of the library, and on the device, of the arrays in the memories; of `start` where there are none, and
    NumPy's where that is no array either.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> decoder = sf.BeamDecoder(None, start=np.array([1, 2]), end=0, beam_size=2, max_new_tokens=5)
    >>> decoder.step(np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), None)
    >>> state = decoder.state
    >>> state.t, state.tokens, state.source, state.parents
    (1, array([1, 2, 1, 2]), array([0, 0, 1, 1]), array([0, 0, 1, 1]))
    """

    __slots__ = ("_beams", "_decoder", "_prefixes", "memory", "parents", "shared", "source", "t", "tokens")

    def __init__(
        self, decoder: BeamDecoder, beams: Beams, tokens: Array, source: Array, parents: Array, memory: Any
    ) -> None:
        self._decoder, self._beams = decoder, beams
        self._prefixes: Ragged | None = None
        self.tokens, self.source, self.parents = tokens, source, parents
        self.memory, self.shared, self.t = memory, decoder._shared, beams.t

    @property
    def prefixes(self) -> Ragged:
        """The tokens of each row so far, without the start."""
        if self._prefixes is None:
            structure = Structure.of_lengths(np.full(self._beams.source.size, self._beams.t, np.int64))
            self._prefixes = Ragged._sealed(self._decoder._put(self._beams.prefixes.reshape(-1)), structure)
        return self._prefixes

    def __repr__(self) -> str:
        return f"BeamState({self._beams.source.size} rows at t = {self.t})"


@dataclass(frozen=True, eq=False)
class BeamTrace:
    """Every step of a search, `LoD` over ``[source -> rows of the step before, row -> what was kept of it]``.

    ids, scores : a `TensorArray` each; the first step holds the starts.  `beam_backtrace` and `pack_prefixes` read them

    >>> import numpy as np
    >>> import seqformats as sf
    >>> table = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])
    >>> found = sf.beam_search(
    ...     lambda state: (table[state.tokens], None), None, start=np.array([1]), end=0, beam_size=2,
    ...     max_new_tokens=5, trace=True)
    >>> [step.to_nested() for step in found.trace.ids]
    [[[[1]]], [[[0, 1, 2]]], [[[], [0, 1, 2], []]]]
    """

    ids: TensorArray
    scores: TensorArray


@dataclass(frozen=True, eq=False)
class BeamResult:
    """The hypotheses of a search, best first; a source may have none.

    tokens : `LoD` over ``[source -> hypotheses, hypothesis -> tokens]``, int64, without the start, with the end where
        there is one
    scores : ``(hypotheses,)`` float32, as the rule normalises them
    token_scores : `LoD` like `tokens`, float32: what each token has added to the log-probability
    rows : how many rows the model was asked for, in all steps together
    trace : the steps, a `BeamTrace`, where they were asked for

    >>> import numpy as np
    >>> import seqformats as sf
    >>> table = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])
    >>> found = sf.beam_search(
    ...     lambda state: (table[state.tokens], None), None, start=np.array([1, 2]), end=0, beam_size=2,
    ...     max_new_tokens=5)
    >>> found.tokens.to_nested(), np.exp(found.token_scores.data).round(2)
    ([[[0]], [[0]]], array([0.6, 0.9], dtype=float32))
    """

    tokens: LoD
    scores: Array
    token_scores: LoD
    rows: int
    trace: BeamTrace | None = None


@hinted
def beam_search(
    step: Step,
    memory: Any,
    *,
    start: Any,
    end: Any,
    beam_size: Any,
    max_new_tokens: Any,
    rule: str = "hf",
    n_best: int = 1,
    length_penalty: Any = 1.0,
    early_stopping: Any = False,
    min_new_tokens: Any = 0,
    prune: Prune | None = None,
    sampling: Any = None,
    constraints: Sequence[Constraint] = (),
    shared: Any = None,
    on_scores: Any = None,
    on_candidates: Any = None,
    on_selected: Any = None,
    trace: bool = False,
) -> BeamResult:
    """The best sequences of tokens, by a model that scores the next token.

    Parameters
    ----------
    step : ``step(state) -> (scores, memory)``: the model.  ``scores (rows, vocabulary)`` are logits, one row for each
        of the state; see `BeamState`
    memory : what the model remembers, one row a source at first; see below
    start : the token before the first one, or an array with one a source
    end : a token that ends a hypothesis, several, or a `Ragged` with those of each source
    beam_size, max_new_tokens : how many hypotheses a source follows, and how long they are; or an array, one a source
    rule : whose search this is: when hypotheses are finished, how they are scored, and when a source is done; see below
    n_best : how many hypotheses of each source are given back, at most
    length_penalty : the power of the length that a score is divided by; or an array, one a source
    early_stopping : of the rule "hf": False, True or "never"
    min_new_tokens : so many tokens come before an end; or an array, one a source
    prune : which candidates are dropped however many places there are, a `Prune`
    sampling : draw hypotheses without replacement instead of searching the best, a `Stochastic`
    constraints : limits on the tokens, such as `BannedTokens`
    shared : memory with one row a source, which follows nothing: index it by ``state.source``
    on_scores : ``f(scores, state) -> scores``, or a list of such: log-probabilities ``(rows, vocabulary)`` float32 may
        be changed, -inf for what must not be; they are not normalised again
    on_candidates : ``f(ids, scores, state) -> (ids, scores)``: the best candidates of each row, `LoD` over ``[source ->
        rows, row -> candidates]``, scores those of whole hypotheses, may be removed, changed or added
    on_selected : ``f(ids, scores, parents, state) -> (ids, scores, parents)``: the same of those that are left, before
        finished ones are taken out; `parents` are their rows
    trace : keep every step in the result

    A hook with a method ``follow(parents)`` is told how rows go on, to keep something for each.

    A memory follows the hypotheses by itself.  It is None or any of these, in tuples, lists, dicts and dataclasses:

    - arrays of one library and encodings, whose first axis are the rows
    - lists and tuples without any array, one Python object a row
    - objects with a method ``reorder_cache(beam_idx)``, such as the caches of transformers, called where rows move,
      with an array of the library, and on the device, of the scores; or with ``follow(parents)``, called after every
      step with what is then ``state.parents``.  What these return takes the object's place, unless it is None
    - strings, numbers, functions and modules, which are passed on as they are

    The rules are those of transformers ("hf"), CTranslate2 ("ct2"), fairseq, Marian, GNMT (as tensor2tensor and T5X
    have it) and PaddlePaddle.  With k for `beam_size`:

    - of what has finished, "hf" and "gnmt" keep the k best, "fairseq" the first k, "ct2" and "marian" all, "paddle"
      what stays in the beam beside the live ones
    - a score is the log-probability over ``length ** length_penalty``; of "gnmt" over ``((5 + length) / 6) **
      length_penalty``; of "paddle" nothing divides it
    - a source is done when k have finished ("fairseq", "marian", "ct2"), or without a length penalty `n_best` and the
      best candidate ("ct2"); when no live one can be among the k best any more ("hf", by `early_stopping`, and
      "gnmt"); when none is live ("paddle")
    - at `max_new_tokens` live ones count as finished; "fairseq" makes them end, "gnmt" takes them where nothing else
      has finished

    A `beam_size` of 1 under the rule "hf" is not what transformers makes of ``num_beams=1``, a greedy search, in two
    things: by ``early_stopping="never"`` a longer hypothesis may still beat one that has ended, where greedy search
    stops at the first end, as ``early_stopping=True`` does; and a `RepetitionPenalty` acts on log-probabilities, where
    greedy search changes raw logits.

    A result never depends on what else is in the batch.  Of candidates with the same score the earlier row comes first,
    then the smaller token; NaN raises ValueError, -inf is no candidate, and a source without any has no hypothesis.

    On a GPU scores stay there: the best candidates of a step are copied to the host, once, and what follows from them
    goes back.  Nothing has a gradient.

    Errors: TypeError, StructureError, ConversionError, DeviceError for arguments and memories that do not fit;
    ValueError for scores that are NaN or +inf.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> table = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])  # the next token by the last one
    >>> found = sf.beam_search(
    ...     lambda state: (table[state.tokens], None), None, start=np.array([1, 2]), end=0, beam_size=2,
    ...     max_new_tokens=5, n_best=2, length_penalty=0)
    >>> found.tokens.to_nested()
    [[[0], [1, 0]], [[0], [2, 0]]]
    >>> np.exp(found.scores).round(3)
    array([0.6  , 0.18 , 0.9  , 0.045], dtype=float32)
    """
    if not callable(step):
        raise TypeError(f"step must be a function of the state, not {type(step).__name__}")
    decoder = BeamDecoder(
        memory,
        start=start,
        end=end,
        beam_size=beam_size,
        max_new_tokens=max_new_tokens,
        rule=rule,
        n_best=n_best,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        min_new_tokens=min_new_tokens,
        prune=prune,
        sampling=sampling,
        constraints=constraints,
        shared=shared,
        on_scores=on_scores,
        on_candidates=on_candidates,
        on_selected=on_selected,
        trace=trace,
    )
    while decoder.active:
        returned = step(decoder.state)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError(f"step must return (scores, memory), not {type(returned).__name__}")
        decoder.step(*returned)
    return decoder.result()


class BeamDecoder:
    """Beam search as a loop of one's own.

    Parameters
    ----------
    memory and the keywords : as `beam_search` takes them; what `step` is given as memory follows in the same way

    >>> import numpy as np
    >>> import seqformats as sf
    >>> table = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])
    >>> decoder = sf.BeamDecoder(None, start=np.array([1, 2]), end=0, beam_size=2, max_new_tokens=5)
    >>> while decoder.active:
    ...     decoder.step(table[decoder.state.tokens], None)
    >>> decoder.result().tokens.to_nested()
    [[[0]], [[0]]]
    """

    state: BeamState

    @hinted
    def __init__(
        self,
        memory: Any,
        *,
        start: Any,
        end: Any,
        beam_size: Any,
        max_new_tokens: Any,
        rule: str = "hf",
        n_best: int = 1,
        length_penalty: Any = 1.0,
        early_stopping: Any = False,
        min_new_tokens: Any = 0,
        prune: Prune | None = None,
        sampling: Any = None,
        constraints: Sequence[Constraint] = (),
        shared: Any = None,
        on_scores: Any = None,
        on_candidates: Any = None,
        on_selected: Any = None,
        trace: bool = False,
    ) -> None:
        self._rule = rule_of(rule, early_stopping)
        if prune is not None and not isinstance(prune, Prune):
            raise TypeError(f"prune must be a Prune, not {type(prune).__name__}")
        self._prune = prune or Prune()
        self._hooks = {
            name: _functions(given, name)
            for name, given in (
                ("on_scores", on_scores),
                ("on_candidates", on_candidates),
                ("on_selected", on_selected),
            )
        }
        following, staying = parts(memory, "memory"), arrays_among(parts(shared, "shared", known=False))
        library, self._like = library_and_like(following + staying)
        if library is None and is_array(start) and not isinstance(start, np.ndarray):
            library, self._like = library_and_like([start])
        self._library = library or NUMPY
        first = _starts(start, check_rows(staying, check_rows(following, None, "memory"), "shared"))
        n = self._n = first.size
        self._shared = shared
        width = _per_source(beam_size, n, "beam_size", 1)
        limit = _per_source(max_new_tokens, n, "max_new_tokens", 1)
        self._least = _per_source(min_new_tokens, n, "min_new_tokens", 0)
        self._n_best = at_least(n_best, "n_best", 1)
        if n and self._n_best > width.max():
            raise ConversionError(f"n_best is {self._n_best}, but the beams have {width.max()} places at most")
        end_lists, self._ends_at, self._ends = ends_of(end, n)
        self._begin_limits(constraints, sampling, end_lists, width)

        most = self._rule.candidates * width
        if self._rule.spares:  # so that k are left if all ends are among them
            most = np.maximum(2, 1 + np.diff(self._ends_at)) * width
        lane_source = np.repeat(np.arange(n), self._groups)
        self._lanes = np.zeros((8, lane_source.size), np.int64)
        self._lanes[:5] = lane_source, lane_source + 1, most[lane_source], width[lane_source], limit[lane_source]
        self._lanes[2:4] //= self._groups
        self._wanted = self._lanes[0], self._lanes[1], self._lanes[2]  # views, as the kernel keeps them
        self._longest, self._largest = 1, int(self._lanes[2].max(initial=0))
        self._early = int(self._least.max(initial=0))
        self._last_end = int(self._ends.max(initial=-1))
        self._penalties = _penalties(length_penalty, n)[lane_source]
        self._pool_room = 2 * int(width.max(initial=1))
        self._pool_scores = np.empty(lane_source.size * self._pool_room, np.float32)
        self._pool_nodes = np.empty(lane_source.size * self._pool_room, np.int64)
        self._numbers = tuple(map(int, self._rule[2:8]))
        self._thresholds = self._prune.thresholds()
        self._nodes = _Nodes()
        self._memories = Memories()
        if not isinstance(trace, (bool, np.bool_)):
            raise TypeError(f"trace must be True or False, not {said(trace)}")
        self._trace = trace
        self._start = first
        self._rows = 0
        self._cut = False  # is a step under way, or cut short?
        self._values = np.zeros((2, n), np.float32)  # of each row: its score so far, and its key
        rows, first = frozen(np.arange(n)), frozen(first)  # the state shows them
        self._limit = limit
        self._beams = Beams(0, rows, rows, first, frozen(-1 - rows), self._nodes, limit)
        self.state = self._seen(memory)

    def _begin_limits(self, constraints: Any, sampling: Any, ends: list[Array], width: Array) -> None:
        """What limits and draws hypotheses, made ready; ConversionError for what does not go together."""
        n, given = self._n, _constraints(constraints)
        groups = [one for one in given if isinstance(one, DiverseGroups)]
        self._groups = groups[0].groups if groups else 1
        self._diversity = groups[0].penalty if groups else 0.0
        if (width % self._groups).any():
            wrong = int(width[width % self._groups > 0][0])
            raise ConversionError(f"a beam_size of {wrong} cannot be divided into {self._groups} groups")
        self._constraints = [one.begin(n, ends) for one in given if one not in groups]
        self._lexical = [one for one in self._constraints if isinstance(one, LexicalSearch)]
        self._sampling = None
        if sampling is not None:
            if not isinstance(sampling, Stochastic):
                raise TypeError(f"sampling must be a Stochastic, not {type(sampling).__name__}")
            self._sampling = sampling.begin(n)
            # what has ended stays in the sample; limits come before the noise, so that the rest is sampled
            self._rule = RULES["paddle"]._replace(masks_first=True)
        own = {"DiverseGroups": len(groups), "LexicalConstraints": len(self._lexical), "sampling": sampling is not None}
        used = [name for name, count in own.items() for _ in range(count)]
        if len(used) > 1:
            raise ConversionError(f"{' and '.join(used)} do not go together: each chooses candidates in its own way")
        for hook, names in (("on_selected", used), ("on_candidates", ["LexicalConstraints"] if self._lexical else [])):
            if self._hooks[hook] and names:
                raise ConversionError(f"{hook} does not go with {names[0]}, which chooses candidates in its own way")
        if self._lexical and self._rule.pool == BEAM:
            raise ConversionError('LexicalConstraints do not go with the rule "paddle", which compares scores alone')

    @property
    def active(self) -> bool:
        """Is any source still searched?"""
        return bool(self._beams.source.size)

    def step(self, scores: Any, memory: Any = None) -> None:
        """Go on by one token.

        Parameters
        ----------
        scores : ``(rows, vocabulary)`` logits of the state's rows
        memory : what the model remembers, in the order of those rows

        Errors: those of `beam_search`; StructureError where the search has ended.
        """
        if not self.active:
            raise StructureError("the search has ended; result() has the hypotheses")
        if self._cut:
            raise StructureError(
                "a step of this search is under way, or an error has cut one short; start a new search"
            )
        self._cut = True
        try:
            rows = self._beams.source.size
            told = check_memory(memory, rows, self._library, self._like)
            found = self._selected(scores)
        except BaseException:
            self._cut = False  # nothing has changed
            raise
        same = self._advance(found)
        self._rows += rows
        if not same or told:
            memory = self._followed(memory, scores, same)
        self.state = self._seen(memory)
        for constraint in self._constraints:
            constraint.follow(self._beams)
        if self._sampling is not None:
            self._sampling.follow(self._beams)
        for hook in {id(hook): hook for hooks in self._hooks.values() for hook in hooks}.values():
            if hasattr(hook, "follow") and not any(hook is other for other in told):
                hook.follow(self.state.parents)
        self._cut = False

    def _followed(self, memory: Any, scores: Any, same: bool) -> Any:
        """The memory of the rows that are now; is each the row of the same number?"""
        there = self._there()[2]
        if same:
            return self._memories.stay(memory, there)
        return self._memories.follow(memory, self._library, self._beams.parents, there, scores)

    def _selected(self, scores: Any) -> Found:
        """The best candidates of each lane, after all hooks."""
        library, x = self._scores(scores)
        plan = self._plan(x.shape[1])
        form = candidates.MASKED if self._rule.masks_first else candidates.SCORES
        if self._hooks["on_scores"] or self._lexical or self._sampling:
            x = candidates.log_probabilities(library, x, plan if self._rule.masks_first else None)
            for hook in self._hooks["on_scores"]:
                x = self._changed_scores(hook(x, self.state), library, x)
            form = candidates.LOGS
            if plan is not None and self._rule.masks_first:
                plan = plan.bans()
        found = self._found(library, x, form, plan)
        for hook in self._hooks["on_selected"]:
            found = self._after(hook, library, x, found)
        return found

    def result(self) -> BeamResult:
        """The hypotheses that are finished."""
        size, room = self._lanes[5], self._pool_room
        lane = np.repeat(np.arange(size.size), size)
        place = lane * room + np.arange(lane.size) - np.repeat(np.cumsum(size) - size, size)
        source, nodes, scores = lane // self._groups, self._pool_nodes[place], self._pool_scores[place]
        if self._groups > 1:
            order = np.lexsort((-scores, source))
            source, nodes, scores = source[order], nodes[order], scores[order]
        best = np.arange(source.size) - np.searchsorted(source, source) < self._n_best
        source, nodes, scores = source[best], nodes[best], scores[best]
        if self._rule.pool == BEAM:
            scores = self._nodes.values[nodes]
        inner = Structure.of_lengths(self._nodes.lengths(nodes))
        outer = Structure.of_lengths(np.bincount(source, minlength=self._n).astype(np.int64))
        tokens, added = self._nodes.traced(nodes, inner.offsets)
        return BeamResult(
            LoD._over(self._put(tokens), (outer, inner)),
            self._put(scores),
            LoD._over(self._put(added), (outer, inner)),
            self._rows,
            self._traced() if self._trace else None,
        )

    # --- what a step is made of --------------------------------------------------------------------------------------

    def _put(self, array: Array) -> Array:
        """A host array beside the memories."""
        return array if self._library is NUMPY else self._library.from_host(array, self._like)

    def _there(self) -> Any:
        """Tokens, sources and parents of the rows beside the memories."""
        beams = self._beams
        if self._library is NUMPY:
            return beams.tokens, beams.source, beams.parents
        if beams.there is None:
            rows, more = (beams.tokens, beams.source, beams.parents), (self._values[0], *self._lanes[:3])
            beams.there = candidates.Sent(self._library, rows, more, self._like)
        return beams.there.arrays

    def _seen(self, memory: Any) -> BeamState:
        there = self._there()
        return BeamState(self, self._beams, there[0], there[1], there[2], memory)

    def _scores(self, scores: Any) -> tuple[Library, Array]:
        """The scores as float32, beside the memories."""
        if type(scores) is np.ndarray and self._library is NUMPY:
            library: Library = NUMPY
            x = scores if scores.flags.c_contiguous else adopt(scores, "scores")[1]
        else:
            if not is_array(scores):
                raise TypeError(f"scores must be an array (rows, vocabulary), not {type(scores).__name__}")
            no_gradient(scores)
            library, x = adopt(scores, "scores")
            if self._like is not None:
                check_place(library, x, self._library, self._like, "scores")
        rows = self._beams.source.size
        if len(x.shape) != 2 or x.shape[0] != rows or x.shape[1] == 0:
            raise StructureError(f"scores must have shape ({rows}, vocabulary), but have {tuple(x.shape)}")
        if not library.dtype_name(x.dtype).startswith(("float", "bfloat")):
            raise TypeError(f"scores must be floats, not {library.dtype_name(x.dtype)}")
        if self._last_end >= x.shape[1]:
            raise StructureError(f"end is {self._last_end}, but scores have {x.shape[1]} columns")
        return library, library.astype(x, "float32")

    def _changed_scores(self, given: Any, library: Library, x: Array) -> Array:
        """What a hook has made of the log-probabilities."""
        found, y = self._scores(given)
        if found is not library or tuple(y.shape) != tuple(x.shape):
            raise StructureError(f"on_scores must return scores of shape {tuple(x.shape)}, not {tuple(y.shape)}")
        return y

    def _open_lanes(self) -> Lanes:
        return Lanes(*self._wanted, self._longest, self._largest, self._beams.there)

    def _plan(self, width: int) -> Plan | None:
        """What may follow; None where anything may."""
        beams, t = self._beams, self._beams.t
        if not (self._constraints or t < self._early or self._rule.forced_end):
            return None
        source = beams.source
        early = self._least[source] > t
        last = self._lanes[4, :: self._groups][source] == t + 1 if self._rule.forced_end else early[:0]
        if not (self._constraints or early.any() or last.any()):
            return None
        plan = Plan(source.size, width)
        at, count = self._ends_at[source], np.diff(self._ends_at)[source]
        if early.any():
            rows = np.repeat(np.arange(source.size), np.where(early, count, 0))
            first = np.searchsorted(rows, rows)
            plan.ban(rows, self._ends[at[rows] + np.arange(rows.size) - first])
        if last.any():
            plan.allow(np.where(last, at, -1), np.where(last, at + count, -1), self._ends)
        for constraint in self._constraints:
            constraint.limit(beams, plan)
        return plan.done()

    def _found(self, library: Library, x: Array, form: int, plan: Plan | None) -> Found:
        """The best candidates of each lane."""
        lanes = self._open_lanes()
        running = self._values[0]
        if self._sampling is not None:
            noisy = self._sampling.perturbed(library, x, running, self._values[1])
            found = self._best(library, noisy, candidates.LOGS, np.zeros_like(running), lanes, plan)
            self._check(found.counts)
            used = candidates.used(found)
            ids = found.ids[used]
            values = np.zeros_like(found.keys)
            values[used] = running[ids // found.width] + library.to_numpy(library.take(x.reshape(-1), ids, 0))
            return found._replace(values=values)
        if self._lexical:
            return self._lexical[0].found(library, x, running, lanes, plan, self._beams, self._prune.per_parent)
        if self._groups == 1:
            return self._best(library, x, form, running, lanes, plan)
        parts: list[Found] = []
        for g in range(self._groups):
            mine = np.arange(lanes.begin.size) % self._groups == g
            part = lanes._replace(begin=np.where(mine, lanes.begin, 0), end=np.where(mine, lanes.end, 0))
            chosen = self._diverse(plan, parts, x.shape[1])
            parts.append(self._best(library, x, form, running, part, chosen))
            self._check(parts[-1].counts)
        return candidates.interleaved(parts)

    def _best(self, library: Library, x: Array, form: int, running: Array, lanes: Lanes, plan: Plan | None) -> Found:
        """The best candidates of some lanes, each with its limits."""
        per_parent, hooks = self._prune.per_parent, self._hooks["on_candidates"]
        if not hooks and per_parent is None:
            return candidates.select(library, x, form, running, lanes, plan)
        lists = candidates.row_lists(library, x, form, running, lanes, plan, per_parent)
        if not hooks:
            return candidates.merged(library, lists, lanes, x)
        values, ids, counts = lists.on_host(library)
        self._check(counts)
        levels = (self._rows_of_sources(), Structure.of_lengths(counts.astype(np.int64)))
        tokens, scores = (LoD._over(library.from_host(a, x), levels) for a in (ids % lists.width, values))
        for hook in hooks:
            tokens, scores = _several_of(hook(tokens, scores, self.state), "on_candidates", ("ids", "scores"))
            levels = _two_levels(tokens, scores, levels[0])
        parents = np.repeat(np.arange(levels[1].n), levels[1].lengths)
        return self._ranked("on_candidates", scores, tokens, parents, lanes, lists.width)

    def _after(self, hook: Any, library: Library, x: Array, found: Found) -> Found:
        """What a hook leaves of the selected candidates."""
        self._check(found.counts)
        used = candidates.used(found)
        parents, tokens = np.divmod(found.ids[used], found.width)
        order = np.argsort(parents, kind="stable")
        rows = self._beams.source.size
        levels = (self._rows_of_sources(), Structure.of_lengths(np.bincount(parents, minlength=rows).astype(np.int64)))
        ids, scores = (LoD._over(library.from_host(a[order], x), levels) for a in (tokens, found.values[used]))
        given = hook(ids, scores, library.from_host(parents[order], x), self.state)
        ids, scores, parents = _several_of(given, "on_selected", ("ids", "scores", "parents"))
        parents = integers(to_host(parents), "parents")
        if parents.size and (parents.min() < 0 or parents.max() >= rows):
            raise StructureError(f"parents must be rows, from 0 to {rows - 1}, but on_selected returned {parents}")
        lanes = self._open_lanes()._replace(most=np.full_like(self._lanes[2], max(parents.size, 1)))
        return self._ranked("on_selected", scores, ids, parents, lanes, found.width)

    def _ranked(self, name: str, scores: Any, ids: Any, parents: Array, lanes: Lanes, width: int) -> Found:
        """Candidates from a hook, sorted."""
        values, tokens = (to_host(_data_of(a)).reshape(-1) for a in (scores, ids))
        if values.dtype.kind not in "fiu":
            raise TypeError(f"{name} must return real numbers as scores, not {values.dtype}")
        if not (values < np.inf).all():
            raise ValueError(f"the scores that {name} returned hold NaN or +inf, at step {self._beams.t}")
        if tokens.size and tokens.dtype.kind not in "iu":
            raise TypeError(f"{name} must return integers as ids, not {tokens.dtype}")
        if not values.size == tokens.size == parents.size:
            raise StructureError(
                f"{name} returned {tokens.size} ids and {values.size} scores for {parents.size} parents"
            )
        if tokens.size and (tokens.min() < 0 or tokens.max() >= width):
            wrong = tokens.min() if tokens.min() < 0 else tokens.max()
            raise StructureError(f"ids must be from 0 to {width - 1}, but {name} returned {wrong}")
        return candidates.ranked(values.astype(np.float32), parents * width + tokens.astype(np.int64), width, lanes)

    def _rows_of_sources(self) -> Structure:
        return Structure.of_lengths(np.bincount(self._beams.source, minlength=self._n).astype(np.int64))

    def _diverse(self, plan: Plan | None, parts: list[Found], width: int) -> Plan | None:
        """The plan, and a penalty for every token that an earlier group of the source has just chosen."""
        if not parts:
            return plan
        chosen = []
        for part in parts:
            used = candidates.used(part)
            lane, tokens = used // part.places, part.ids[used] % width
            source = lane // self._groups
            going = ~np.isin(source * width + tokens, self._end_places(width))
            lane, places = lane[going], (source * width + tokens)[going]
            rank = np.arange(lane.size) - np.searchsorted(lane, lane)
            chosen.append(places[rank < self._lanes[3, lane]])
        pairs, counts = np.unique(np.concatenate(chosen), return_counts=True)
        changed = Plan(self._beams.source.size, width) if plan is None else plan.copy()
        # every row of a source meets all tokens chosen there
        first, last = (np.searchsorted(pairs, (self._beams.source + k) * width) for k in (0, 1))
        rows = np.repeat(np.arange(first.size), last - first)
        places = np.arange(rows.size) - np.searchsorted(rows, rows) + first[rows]
        changed.change(rows, pairs[places] % width, addend=-self._diversity * counts[places])
        return changed.done()

    def _end_places(self, width: int) -> Array:
        """The ends of all sources, as ``source * width + token``."""
        return np.repeat(np.arange(self._n), np.diff(self._ends_at)) * width + self._ends

    def _check(self, counts: Array) -> None:
        """ValueError where a count says that a row is bad."""
        if counts.size and counts.min() < 0:
            self._raise_bad(-1 - int(counts[counts < 0][0]))

    def _raise_bad(self, row: int) -> None:
        beams = self._beams
        raise ValueError(f"the scores of source {beams.source[row]} at step {beams.t}, row {row}, hold NaN or +inf")

    def _advance(self, found: Found) -> bool:
        """Let the rule decide; are the rows what they were?"""
        beams = self._beams
        total = min(found.counts.size, self._groups * beams.source.size) * found.places
        self._nodes.make_room(total)
        live, values = np.empty((4, total), np.int64), np.empty((2, total), np.float32)
        info = np.array([0, self._nodes.count, 0, -1, 0, 0])
        kernel("advance_beams")(
            found.values,
            found.keys,
            found.ids,
            found.counts,
            beams.nodes,
            self._values[0],
            self._lanes,
            self._penalties,
            self._pool_scores,
            self._pool_nodes,
            self._nodes.tokens,
            self._nodes.previous,
            self._nodes.values,
            live,
            values,
            self._ends_at,
            self._ends,
            self._numbers,
            self._thresholds,
            info,
            beams.t + 1,
            found.width,
            found.places,
            self._pool_room,
            self._groups,
            self._n_best,
            self._prune.safe,
        )
        rows, count, same, bad, longest, largest = info.tolist()
        if bad >= 0:
            self._cut = False
            self._raise_bad(bad)
        self._nodes.add(count)
        live.setflags(write=False)  # the state shows them
        self._longest, self._largest = longest, largest
        self._values = values[:, :rows]
        self._beams = Beams(
            beams.t + 1, live[3, :rows], live[0, :rows], live[1, :rows], live[2, :rows], self._nodes, self._limit
        )
        return bool(same)

    def _traced(self) -> BeamTrace:
        """Every step as the model's rows saw it."""
        nodes, n = self._nodes, self._n
        before: Array = np.arange(n)  # the rows of the step before, as nodes or, at first, sources
        ids, scores = [self._start], [np.zeros(n, np.float32)]
        levels = [(Structure.of_lengths(np.ones(n, np.int64)), Structure.of_lengths(np.ones(n, np.int64)))]
        source = before
        base = None
        for a, b in pairwise(nodes.steps):
            previous = nodes.previous[a:b]
            parents = -1 - previous if base is None else before[previous - base]
            order = np.argsort(parents, kind="stable")
            counts = np.bincount(parents, minlength=source.size).astype(np.int64)
            rows = np.bincount(source, minlength=n).astype(np.int64)
            levels.append((Structure.of_lengths(rows), Structure.of_lengths(counts)))
            ids.append(nodes.tokens[a:b][order])
            scores.append(nodes.values[a:b][order])
            source = source[parents[order]]
            before, base = inverse_order(order), a
        found = [
            [LoD._over(self._put(array), level) for array, level in zip(arrays, levels, strict=True)]
            for arrays in (ids, scores)
        ]
        return BeamTrace(TensorArray(tuple(found[0])), TensorArray(tuple(found[1])))


class _Nodes:
    """All tokens that were ever kept, each behind another; what a kernel appends to."""

    def __init__(self) -> None:
        self.tokens, self.previous = np.empty(64, np.int64), np.empty(64, np.int64)
        self.values = np.empty(64, np.float32)
        self.steps = [0]  # where each step begins

    @property
    def count(self) -> int:
        return self.steps[-1]

    def make_room(self, more: int) -> None:
        if self.count + more > self.tokens.size:
            size = 2 * (self.count + more)
            for name in ("tokens", "previous", "values"):
                old = getattr(self, name)
                new = np.empty(size, old.dtype)
                new[: self.count] = old[: self.count]
                setattr(self, name, new)

    def add(self, count: int) -> None:
        self.steps.append(count)

    def lengths(self, nodes: Array) -> Array:
        """How many tokens there are up to each node."""
        return np.searchsorted(np.array(self.steps), nodes, "right").astype(np.int64)

    def traced(self, nodes: Array, offsets: Array) -> tuple[Array, Array]:
        """The tokens up to each node, one hypothesis after the other, and what each has added to the score."""
        tokens, added = np.empty(int(offsets[-1]), np.int64), np.empty(int(offsets[-1]), np.float32)
        kernel("trace_nodes")(self.tokens, self.previous, self.values, nodes, offsets, tokens, added, 0, nodes.size)
        return tokens, added


def _functions(given: Any, name: str) -> list[Any]:
    found = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    for hook in found:
        if not callable(hook):
            raise TypeError(f"{name} must be a function or a list of such, not {type(hook).__name__}")
    return found


def _constraints(given: Any) -> list[Constraint]:
    found = [given] if isinstance(given, Constraint) else given
    if not isinstance(found, (list, tuple)) or not all(isinstance(one, Constraint) for one in found):
        raise TypeError("constraints must be a list of constraints such as BannedTokens")
    return list(found)


def _starts(start: Any, n: int | None) -> Array:
    """The start token of each source."""
    if has_items(start):
        found = integers(start, "start")
        if n is not None and found.size != n:
            raise StructureError(f"start has {found.size} tokens, but the memories are for {n} sources")
        return found
    token = int(integers([whole(to_host(start).item() if is_array(start) else start, "start")], "start")[0])
    if n is None:
        raise StructureError("how many sources are there?  Without a memory give start as an array, one token a source")
    return np.full(n, token, np.int64)


def _per_source(value: Any, n: int, what: str, least: int) -> Array:
    found = integers(value if has_items(value) else [value], what)
    if has_items(value) and found.size != n:
        raise StructureError(f"{what} has {found.size} numbers, but there are {n} sources")
    if found.size:
        at_least(int(found.min()), what, least)
        if found.max() > _MOST:
            raise ConversionError(f"{what} must be at most {_MOST}, not {found.max()}")
    return found if has_items(value) else np.repeat(found, n)


def _penalties(value: Any, n: int) -> Array:
    if has_items(value):
        values = to_host(value).tolist() if is_array(value) else value
        found = np.array([number(v, "length_penalty") for v in values], np.float64)
        if found.size != n:
            raise StructureError(f"length_penalty has {found.size} numbers, but there are {n} sources")
    else:
        found = np.full(n, number(value, "length_penalty"))
    if not np.isfinite(found).all():
        raise ConversionError("length_penalty must be finite")
    return found


def _several_of(returned: Any, name: str, parts: tuple[str, ...]) -> Any:
    if not isinstance(returned, (tuple, list)) or len(returned) != len(parts):
        raise TypeError(f"{name} must return ({', '.join(parts)}), not {type(returned).__name__}")
    return returned


def _two_levels(ids: Any, scores: Any, rows: Structure) -> tuple[Structure, Structure]:
    """The levels that candidates from a hook have in common."""
    for x in (ids, scores):
        if not isinstance(x, LoD) or len(x.lod) != 2 or x.item_shape not in ((), (1,)):
            raise StructureError(
                f"on_candidates must return LoDs over [source -> rows, row -> candidates], not {said(x)}"
            )
        if not np.array_equal(x.lod[0], rows.offsets):
            raise StructureError("on_candidates must keep the rows of every source")
    if not np.array_equal(ids.lod[1], scores.lod[1]):
        raise StructureError("on_candidates must return as many ids as scores for every row")
    return rows, ids._levels[1]


def _data_of(x: Any) -> Any:
    """The data of a `LoD`, after a look at whether that is what was validated; an array as it is."""
    if not isinstance(x, LoD):
        return x
    x._look()
    return x.data
