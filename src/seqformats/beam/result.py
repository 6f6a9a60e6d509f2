"""Results of a search: its state at every step, its hypotheses in the end, and its trace."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array, freeze
from ..errors import KIND, quote
from ..formats import LoD, Ragged
from ..formats.structure import Structure
from ..operations.batch import inverse_order
from ..operations.steps import TensorArray
from .hypotheses import Found, Live, Nodes
from .memory import Place

if TYPE_CHECKING:
    from .paths import Paths
    from .search import Search


class BeamState:
    """The live hypotheses of a search, one row each; the rows of a source are neighbours.

    Attributes
    ----------
    tokens : array (rows,) of int64
        The last token of each; the start at first.
    source : array (rows,) of int64
        The source of each row.  At first every source has one row; a source that is done has none.
    parents : array (rows,) of int64
        The row of the previous step that each row continues; -1 for a source that was added since.
    memory : object
        What the model returned, in the order of these rows; its arrays are overwritten two steps later.
    shared : object
        The memory with one row per source, as it was given.
    prompt : Ragged of int64, optional
        The prompt of each source, whose last token is its start; None where none was given.
    t : int
        The number of steps so far: the number of tokens of each row, unless its source was added later.
    lengths : array (rows,) of int64
        How many tokens each has.
    prefixes : Ragged of int64
        The tokens of each so far, without the start.
    moved : bool
        Whether any row continues a row of another number, so that what you keep for each row must be moved.

    Notes
    -----
    Arrays are of the library, and on the device, of the arrays in the memories; of `start` or the prompts where there
    are none, and NumPy's where those are no arrays either.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> decoder = sf.BeamDecoder(None, start=np.array([1, 2]), end=0, beam_size=2, max_new_tokens=5)
    >>> decoder.step(np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), None)
    >>> state = decoder.state
    >>> state.t, state.tokens, state.source, state.parents
    (1, array([1, 2, 1, 2]), array([0, 0, 1, 1]), array([0, 0, 1, 1]))
    """

    __slots__ = ("_live", "_place", "_prefixes", "memory", "moved", "prompt", "shared", "t")

    def __init__(self, live: Live, place: Place, memory: object, shared: object, prompt: Ragged | None) -> None:
        if type(live) is not Live:
            raise KIND(f"a search makes its states itself, of hypotheses that live, not of {quote(live)}")
        self._live, self._place = live, place
        self._prefixes: Ragged | None = None
        self.memory: Any = memory
        self.shared: Any = shared
        self.prompt = prompt
        self.t, self.moved = live.t, live.moved

    @property
    def tokens(self) -> Array:
        """The last token of each row; the start at first."""
        return self._get_array("tokens")

    @property
    def source(self) -> Array:
        """The source of each row."""
        return self._get_array("source")

    @property
    def lengths(self) -> Array:
        """The number of tokens of each row, the start excluded."""
        return self._place.put(freeze(self._live.lengths))

    @property
    def parents(self) -> Array:
        """The row of the previous step that each row continues."""
        return self._get_array("parents")

    def _get_array(self, name: str) -> Array:
        found = self._live.get_array(name, self._place)
        return found[...] if type(found) is np.ndarray else found  # never the array that kernels walk over

    @property
    def prefixes(self) -> Ragged:
        """The tokens of each row so far, without the start."""
        if self._prefixes is None:
            tokens, structure = self._live.ragged
            self._prefixes = Ragged._freeze(self._place.put(tokens), structure)
        return self._prefixes

    def __repr__(self) -> str:
        return f"BeamState({self._live.source.size} rows at t = {self.t})"


@dataclass(frozen=True, eq=False)
class BeamTrace:
    """Every step of a search, `LoD` over ``[source -> rows of the step before, row -> what was kept of it]``.

    Attributes
    ----------
    ids, scores : TensorArray
        The tokens and scores of each step; the first step holds the starts.

    See Also
    --------
    beam_backtrace : the hypotheses that the steps hold

    Examples
    --------
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

    Attributes
    ----------
    tokens : LoD of int64
        Over ``[source -> hypotheses, hypothesis -> tokens]``, without the start, with the end where there is one.
    scores : array (hypotheses,) of float32
        Normalised as the rule says, including the coverage penalty if there is one.
    token_scores : LoD of float32
        Like `tokens`: what each token added to the log-probability.
    rows : int
        The number of rows that the model was called with, summed over all steps.
    ended : array (hypotheses,) of bool
        Whether the last token is an end; otherwise the hypothesis reached its maximum length.
    trace : BeamTrace, optional
        The steps, if `trace` was requested.
    parents : LoD of int64, optional
        Like `tokens`, where the trace was asked for: the row of the state in which each token was chosen.
    kept : LoD, or containers of such, optional
        What the steps have given to keep, like `tokens`: for each token the item of the row in which it was chosen, in
        the containers of the first step.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> table = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])
    >>> found = sf.beam_search(
    ...     lambda state: (table[state.tokens], None), None, start=np.array([1, 2]), end=0, beam_size=2,
    ...     max_new_tokens=5)
    >>> found.tokens.to_nested(), np.exp(found.token_scores.data).round(2), found.ended
    ([[[0]], [[0]]], array([0.6, 0.9], dtype=float32), array([ True,  True]))
    >>> found = sf.beam_search(  # the same, which keeps the probabilities of all tokens
    ...     lambda state: (table[state.tokens], None, np.exp(table[state.tokens])), None, start=np.array([1, 2]),
    ...     end=0, beam_size=2, max_new_tokens=5)
    >>> found.kept.data
    array([[0.6 , 0.3 , 0.1 ],
           [0.9 , 0.05, 0.05]])
    >>> attention = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])  # of two inputs, which both shall have some
    >>> found = sf.beam_search(
    ...     lambda state: (table[state.tokens], None, attention[state.tokens]), None, start=np.array([1]), end=0,
    ...     beam_size=2, max_new_tokens=5, n_best=2, coverage=0.7)
    >>> found.tokens.to_nested(), found.scores.round(2)
    ([[[1, 0], [0]]], array([-1.98, -2.2 ], dtype=float32))
    """

    tokens: LoD
    scores: Array
    token_scores: LoD
    rows: int
    ended: Array
    trace: BeamTrace | None = None
    parents: LoD | None = None
    kept: Any = None


def hypotheses(search: Search, paths: Paths, found: Found, sources: Array, place: Place) -> BeamResult:
    """The result of some sources, which rise, of which these hypotheses were found."""
    tree, put = search.nodes.tree(), place.put
    trail = search.trail(found)
    counts = np.bincount(found.source, minlength=search.sources.n)[sources]
    levels = Structure.of_lengths(counts.astype(np.int64)), trail.inner
    tokens, added = search.nodes.trace(found.last, trail.inner.offsets)
    rows = paths.rows(tree, trail)
    return BeamResult(
        LoD._from_levels(put(tokens), levels),
        put(found.scores),
        LoD._from_levels(put(added), levels),
        int(search.rows_asked[sources].sum()),
        put(search.find_ended(found.source, found.last)),
        parents=LoD._from_levels(put(rows), levels) if paths.traced and rows is not None else None,
        kept=None if rows is None else paths.pack(rows, trail, levels[0]),
    )


def trace_steps(nodes: Nodes, start: Array, place: Place) -> BeamTrace:
    """Every step as the model's rows saw it."""
    tree, n = nodes.tree(), start.size
    before: Array = np.arange(n)  # the rows of the step before, as nodes or, at first, sources
    ids, scores = [start], [np.zeros(n, np.float32)]
    levels = [(Structure.of_lengths(np.ones(n, np.int64)), Structure.of_lengths(np.ones(n, np.int64)))]
    source = before
    base = None
    for a, b in pairwise(nodes.steps):
        previous = tree.previous[a:b]
        parents = -1 - previous if base is None else before[previous - base]
        order = np.argsort(parents, kind="stable")
        counts = np.bincount(parents, minlength=source.size).astype(np.int64)
        rows = np.bincount(source, minlength=n).astype(np.int64)
        levels.append((Structure.of_lengths(rows), Structure.of_lengths(counts)))
        ids.append(tree.tokens[a:b][order])
        scores.append(tree.values[a:b][order])
        source = source[parents[order]]
        before, base = inverse_order(order), a
    found = [
        [LoD._from_levels(place.put(array), level) for array, level in zip(arrays, levels, strict=True)]
        for arrays in (ids, scores)
    ]
    return BeamTrace(TensorArray(tuple(found[0])), TensorArray(tuple(found[1])))
