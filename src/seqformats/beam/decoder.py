"""Beam search step by step, in a loop of the user's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import Array, freeze, is_among
from ..errors import TURN
from ..formats import Ragged
from ..formats.structure import whole
from .common_prefix import find_agreed
from .joining import join_memories
from .memory import Memories, arrays_among, check_memory, check_place, check_rows, parts, place_of, rows_of
from .options import More, Options, per_source, with_options
from .paths import Paths
from .prompts import where_wanted
from .result import BeamResult, BeamState, hypotheses, trace_steps
from .search import Search
from .selection import Selection
from .sources import places_of


class BeamDecoder:
    """Beam search for a loop that you write yourself.

    Parameters
    ----------
    memory : arrays, encodings, objects or None, in any containers
        As for `beam_search`; the memory given to `step` follows the hypotheses in the same way.
    **options
        The keywords of `beam_search`; `start`, `end`, `beam_size` and `max_new_tokens` are required.

    Attributes
    ----------
    state : BeamState
        The live hypotheses.
    active : bool
        Whether any source is still being searched.
    sources : array (n,) of int64
        The numbers of the current sources: 0, 1, ..., unless sources were added or taken out.

    Raises
    ------
    TypeError, StructureError, ConversionError, DeviceError
        For arguments and memories that do not fit.

    See Also
    --------
    beam_search : the loop, ready made, and what the keywords mean

    Examples
    --------
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

    @with_options(Options)
    def __init__(self, memory: object, options: Options) -> None:
        self._begin(memory, options)

    @classmethod
    def _from_options(cls, memory: object, options: Options) -> BeamDecoder:
        """A decoder with options that were checked."""
        decoder = cls.__new__(cls)
        decoder._begin(memory, options)
        return decoder

    def _begin(self, memory: object, options: Options) -> None:
        following, staying = parts(memory, "memory"), arrays_among(parts(options.shared, "shared", known=False))
        place = place_of(following + staying)
        if place.like is None:
            place = place_of(where_wanted(options.start) or where_wanted(options.prompt))
        n = check_rows(staying, check_rows(following, None, "memory"), "shared")
        sources = per_source(options, n)
        selection = self._selection = Selection(options, sources, place)
        rule, prune, groups = selection.rule, selection.prune, selection.groups
        self._search = Search(sources, rule, prune, groups, whole(options.n_best, "n_best"), apart=selection.apart)
        selection.begin(self._search.live)
        self._options, self._place, self._shared = options, place, options.shared
        self._paths, self._coverage = Paths(traced=bool(options.trace)), options.made_coverage()
        self._memories = Memories(sources.n)
        self._cut = False  # is a step under way, or cut short?
        self._like: Array = np.empty(0, np.float64)  # scores, where no array of a memory says where things are
        self._numbers = freeze(np.arange(sources.n))
        self._known = sources.n  # how many sources there have been
        self._set_prompt()
        self.state = self._show(memory)

    @property
    def active(self) -> bool:
        """True while a source is still being searched."""
        return bool(self._search.live.source.size)

    def step(self, scores: Array, memory: object = None, kept: object = None) -> None:
        """Advance all hypotheses by one token.

        Parameters
        ----------
        scores : array (rows, vocabulary)
            Logits of the state's rows.
        memory : arrays, encodings, objects or None, in any containers
            What the model remembers, in the order of those rows.
        kept : arrays, in tuples, lists and dicts, optional
            What the result has along its hypotheses, with those rows; the same arrays in every step.

        Raises
        ------
        StructureError
            If the search has ended, and if memories or kept arrays do not fit.
        TypeError, DeviceError
            If the scores or memories do not fit.
        ValueError
            If a score is NaN or +inf.
        """
        search = self._search
        live = search.live
        rows = live.source.size
        if not rows:
            raise TURN("the search has ended; result() has the hypotheses")
        self._check_whole()
        self._cut = True
        try:
            told = check_memory(memory, rows, self._place)
            found_kept = self._paths.read(kept, rows, self._place)
            if self._coverage.weight:
                self._coverage.check(found_kept)
            found = self._selection.choose(scores, search, self.state)
        except BaseException:
            self._cut = False  # nothing has changed
            raise
        bad = search.advance(found)
        if bad >= 0:
            self._cut = False
            raise live.bad(bad)
        self._paths.add(live.nodes, kept, found_kept)
        if self._place.like is None and memory is not None:
            self._like = scores
        state = self._show(memory)
        if memory is not None and (state.moved or told):
            state.memory = self._follow(memory, scores)
        self.state, self._memories.rows = state, search.live.source.size
        self._selection.follow(search.live)
        self._selection.hooks.follow(state, told)
        self._cut = False

    def agreed(self) -> Ragged:
        """The tokens that are certain, while the search goes on: what every possible result of a source begins with.

        Returns
        -------
        Ragged of int64
            For each source, the first tokens that its live hypotheses and the `n_best` best finished ones share,
            without the start; no tokens where a source has no hypotheses.

        Notes
        -----
        It never becomes shorter, so that what is new in it can be shown at once.  Where a source is done it is what the
        hypotheses of its result have in common: the best one, if `n_best` is 1.  Hooks that change scores or candidates
        change nothing of that.

        Each call follows all hypotheses back to their start.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> table = np.log([[0.05, 0.05, 0.9], [0.1, 0.6, 0.3], [0.2, 0.7, 0.1]])  # the next token by the last one
        >>> decoder = sf.BeamDecoder(None, start=np.array([0]), end=0, beam_size=2, max_new_tokens=4)
        >>> while decoder.active:
        ...     decoder.step(table[decoder.state.tokens])
        ...     print(decoder.agreed().to_nested())
        [[]]
        [[2]]
        [[2]]
        [[2, 1, 1, 1]]
        """
        tokens, structure = find_agreed(self._search, self._search.possible(self._coverage, self._paths))
        return Ragged._freeze(self._place.put(tokens), structure)

    def result(self) -> BeamResult:
        """The hypotheses that are finished.

        Returns
        -------
        BeamResult
            Those of each source, best first.

        Notes
        -----
        In the middle of a search these are the ones that have finished so far, with the scores that they keep; others
        may still come before them.  A source of which none has finished has none.  `agreed` says what is certain.
        """
        search = self._search
        best = search.best(self._coverage, self._paths)
        found = hypotheses(search, self._paths, best, np.arange(search.sources.n), self._place)
        if self._paths.traced:
            found = replace(found, trace=trace_steps(search.nodes, search.sources.start, self._place))
        return found

    # --- sources that come and go ------------------------------------------------------------------------------------

    @property
    def sources(self) -> Array:
        """The numbers of the sources that are there; ``state.source`` says at which place in it that of a row is."""
        return self._numbers

    @with_options(More)
    def add(self, memory: object, more: More) -> Array:
        """Add sources to the search, after the current ones.

        Parameters
        ----------
        memory : arrays, encodings, objects or None, in any containers
            What the model remembers of these sources, one row each, like the memory of the state; None leaves that as
            it is, so that what is for all rows has to be given to the next step, or set as ``decoder.state.memory``.
        **options
            Some keywords of `beam_search`: `start` or `prompt`, `end`, `beam_size`, `max_new_tokens`,
            `min_new_tokens`, `length_penalty`, `constraints`, `sampling` (with other seeds) and `shared`.  What is not
            given is as it is for the others, unless those have one for each source.

        Returns
        -------
        array (n,) of int64
            Their numbers: the sources of the beginning are 0, 1, ..., and each one that is added has the next number.

        Raises
        ------
        TypeError, StructureError, ConversionError, DeviceError
            If the arguments or memories do not fit; in that case nothing is added.

        See Also
        --------
        take : The way out.

        Notes
        -----
        What is found of a source is the same, bit for bit, as if it had been searched alone.  In the state its row is
        the last one, with a parent of -1; ``state.lengths`` says how many tokens each row has.  Hooks with a method
        `follow` are told as of a step, and objects in the memory need a method ``join(other)``, which adds the rows of
        another one, or returns a new one with both.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> table = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])
        >>> decoder = sf.BeamDecoder(None, start=np.array([1]), end=0, beam_size=2, max_new_tokens=3)
        >>> decoder.step(table[decoder.state.tokens])
        >>> decoder.add(None, start=np.array([2, 0]))
        array([1, 2])
        >>> decoder.state.tokens, decoder.state.lengths
        (array([1, 2, 2, 0]), array([1, 1, 0, 0]))
        >>> while decoder.active:
        ...     decoder.step(table[decoder.state.tokens])
        ...     numbers, found = decoder.take()
        ...     print(numbers, found.tokens.to_nested())
        [0] [[[0]]]
        [1 2] [[[0]], [[2, 0]]]
        """
        self._check_changing()
        search, place, before = self._search, self._place, self.state.memory
        options = more.make_options(self._options)
        following, staying = parts(memory, "memory"), arrays_among(parts(options.shared, "shared", known=False))
        check_place(following + staying, place)
        sources = per_source(options, check_rows(staying, check_rows(following, None, "memory"), "shared"))
        if (sources.prompts is None) != (search.sources.prompts is None):
            raise TURN("sources that are added have a prompt if the others have, and none if they have not")
        rows = search.live.source.size
        begun = self._selection.more(options, sources, self._known)
        told: list[Any] = []
        shared = join_memories(self._shared, options.shared, "shared") if search.sources.n else options.shared
        if memory is None:
            memory = before
        elif rows:
            told = check_memory(before, rows, place)
            memory = join_memories(before, memory, "memory")
            self._memories.rows = rows + sources.n
        self._cut = True
        search.add(sources)
        self._selection.add(begun, search.live)
        self._known += sources.n
        added = np.arange(self._known - sources.n, self._known)
        self._change(np.append(self._numbers, added), memory, shared)
        self._selection.hooks.tell(np.append(np.arange(rows), np.full(sources.n, -1)), place, told)
        self._cut = False
        return added

    def take(self, sources: object = None) -> tuple[Array, BeamResult]:
        """Remove sources from the search and return what was found for them.

        Parameters
        ----------
        sources : int or array of int, optional
            Their numbers; by default all sources that are done.  A source that is not done is given up: its result is
            what has finished so far.

        Returns
        -------
        array (n,) of int64
            The numbers of the sources, which rise.
        BeamResult
            Their hypotheses, in the same order.

        Raises
        ------
        TypeError, StructureError
            If a number belongs to no current source; in that case nothing is taken out.

        See Also
        --------
        add : The way in, and an example.

        Notes
        -----
        What is left moves up: the state is that of the other sources alone, and its `source`, by which `shared` is
        indexed, counts them anew; `sources` has their numbers.  The memory, and what is shared, lose the rows that are
        taken, and hooks with a method `follow` are told as of a step.

        Nothing is remembered of what was taken, so that a decoder may run forever.
        """
        self._check_changing()
        search, numbers, memory, shared = self._search, self._numbers, self.state.memory, self._shared
        out = np.flatnonzero(search.is_done) if sources is None else places_of(sources, numbers)
        best = search.best(self._coverage, self._paths, out)
        found = hypotheses(search, self._paths, best, out, self._place)
        if not out.size:
            return numbers[out], found
        live, nodes, told = search.live, search.nodes, None
        if is_among(live.source, out).any():
            if check_rows(parts(memory, "memory"), None, "memory") == live.source.size:
                self._memories.rows = live.source.size  # also of sources that were added without one
            told = check_memory(memory, self._memories.rows, self._place)
        kept = np.delete(np.arange(numbers.size), out)
        self._cut = True
        rows = search.keep(kept)
        self._selection.keep(kept, rows)
        dropped = search.nodes.dropped - nodes.dropped
        self._paths.drop_steps(dropped, nodes.steps[dropped])
        if told is not None:
            memory = self._take_memory(memory, rows[rows < self._memories.rows])
        self._change(numbers[kept], memory, rows_of(shared, kept, "shared"))
        if told is not None:
            self._selection.hooks.tell(rows, self._place, told)
        self._cut = False
        return numbers[out], found

    def _check_changing(self) -> None:
        """StructureError unless sources may come and go now."""
        self._check_whole()
        if self._paths.traced:
            raise TURN("trace=True keeps every step of the sources that it has begun with; leave it out")

    def _change(self, numbers: Array, memory: object, shared: object) -> None:
        """Take over the sources that are there now."""
        self._numbers, self._shared = freeze(numbers), shared
        self._set_prompt()
        self.state = self._show(memory)

    def _check_whole(self) -> None:
        """StructureError where a step is under way, or was cut short."""
        if self._cut:
            raise TURN("a step is under way, or an error has cut one short; start a new search")

    def _set_prompt(self) -> None:
        """Show the prompts of the sources that are there."""
        prompts = self._search.sources.prompts
        self._prompt = None if prompts is None else Ragged._freeze(self._place.put(prompts.data), prompts._structure)

    # --- memories ----------------------------------------------------------------------------------------------------

    def _follow(self, memory: object, scores: Array) -> Any:
        """The memory of the rows that are now."""
        live, place = self._search.live, self._place
        parents, tokens = live.get_array("parents", place), live.get_array("tokens", place)
        if not live.moved:
            return self._memories.stay(memory, parents, tokens)
        return self._memories.follow(memory, place, live.parents, parents, tokens, scores)

    def _take_memory(self, memory: object, rows: Array) -> Any:
        """The memory of these of its rows alone."""
        put, place = self._place.put, self._place
        like = self._like if place.like is None else place.like
        return self._memories.follow(memory, place, rows, put(rows), put(np.full(rows.size, -1)), like)

    def _show(self, memory: object) -> BeamState:
        """Show the rows that are there now, which a GPU gets with what its kernels ask for."""
        search, live = self._search, self._search.live
        live.gather(search.wanted, search.apart, self._place)
        return BeamState(live, self._place, memory, self._shared, self._prompt)
