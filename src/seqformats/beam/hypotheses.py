"""The live hypotheses of a search, and the tree of all tokens that were ever kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import Array, freeze, is_among
from ..errors import NAN
from ..formats.structure import Structure
from ..launch.kernel import Numbers, kernel
from ..once import once
from .rows import Apart, Rows, Tree, Wanted

if TYPE_CHECKING:
    from .memory import Place
    from .sources import Sources


class Found(NamedTuple):
    """Some finished hypotheses, those of a source together."""

    source: Array
    last: Array  # nodes
    scores: Array  # float32

    def take_sources(self, sources: Array) -> Found:
        """Take the hypotheses of some sources."""
        mine = is_among(self.source, sources)
        return Found(*(part[mine] for part in self))


class Trail(NamedTuple):
    """The steps in which hypotheses were found, of those that are remembered."""

    last: Array  # nodes
    begun: Array  # the first step of each
    inner: Structure  # how many there are


class Nodes:
    """The tree: what a kernel appends to, step by step."""

    def __init__(self) -> None:
        self._tokens, self._previous = np.empty(64, np.int64), np.empty(64, np.int64)
        self._values = np.empty(64, np.float32)
        self.steps = [0]
        """Where each step begins that is still there, and where the last one ends."""
        self.dropped = 0
        """How many steps are no longer there."""

    def tree(self, more: int = 0) -> Tree:
        """All nodes, and room for more behind them."""
        count = self.steps[-1]
        if count + more > self._tokens.size:
            size = 2 * (count + more)
            self._tokens, self._previous, self._values = (
                np.concatenate([old[:count], np.empty(size - count, old.dtype)])
                for old in (self._tokens, self._previous, self._values)
            )
        return Tree(self._tokens, self._previous, self._values, count)

    def steps_of(self, nodes: Array) -> Array:
        """Count the steps that had been made with each node; of starts, which have none, those that were dropped."""
        steps: Array = np.searchsorted(np.array(self.steps), nodes, "right")
        return steps + self.dropped

    def drop_steps(self, steps: int) -> tuple[Nodes, int]:
        """The tree without so many first steps, and by how much the numbers of its nodes are smaller."""
        cut, count, other = self.steps[steps], self.steps[-1], Nodes()
        other._tokens, other._values = self._tokens[cut:count].copy(), self._values[cut:count].copy()
        previous = self._previous[cut:count]
        other._previous = np.where(previous < 0, previous, previous - cut)
        other.steps = [at - cut for at in self.steps[steps:]]
        other.dropped = self.dropped + steps
        return other, cut

    def trace(self, nodes: Array, offsets: Array) -> tuple[Array, Array]:
        """The tokens up to each node, one hypothesis after the other, and what each has added to the score."""
        tokens, added = np.empty(int(offsets[-1]), np.int64), np.empty(int(offsets[-1]), np.float32)
        kernel("trace_nodes").run(self.tree(), nodes, tokens, added, offsets, 0, nodes.size)
        return tokens, added


class Live:
    """The live hypotheses on the host, a row each; what a `Running` constraint is shown.

    Attributes
    ----------
    t : int
        How many tokens each has.
    source, parents, tokens : array (rows,) of int64
        Its source, its row in the step before, its last token (the start at first); read-only.
    prefixes : array (rows, t) of int64
        All its tokens, the start excluded; read-only.
    left : array (rows,) of int64
        How many tokens it may still have.
    nodes : array (rows,) of int64
        The last token of each in the tree of all.
    rows : Rows
        All that is known of each.
    moved : bool
        True if any is not the row of the same number of the step before.
    numbers : Numbers, optional
        What a GPU gets of them.

    See Also
    --------
    Running : For an example.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> class Printing(sf.Constraint, sf.beam.Running):
    ...     def begin(self, n, ends):
    ...         return self
    ...     def follow(self, live):
    ...         print(live.t, live.source, live.parents, live.tokens, live.prefixes.tolist(), live.left)
    >>> found = sf.beam_search(
    ...     lambda state: (np.log([[0.1, 0.3, 0.6]]).repeat(len(state.tokens), 0), None), None, start=[0], end=0,
    ...     beam_size=2, max_new_tokens=2, constraints=Printing())
    1 [0 0] [0 0] [2 1] [[2], [1]] [1 1]
    2 [] [] [] [] []
    """

    def __init__(self, t: int, rows: Rows, nodes: Nodes, sources: Sources, begun: Array, *, moved: bool = True) -> None:
        """`begun` of the `t` steps had been made before the first one of each source."""
        self.t, self.rows, self.moved = t, rows, moved
        # views, since a constraint may do to them what it likes; kernels walk over `rows`
        self.parents, self.tokens, self.nodes, self.source = [numbers[...] for numbers in rows[:4]]
        self.numbers: Numbers | None = None
        self._nodes, self._sources, self._begun = nodes, sources, begun
        self._beside: dict[str, Array] = {}

    def gather(self, wanted: Wanted, apart: Apart, place: Place) -> None:
        """Let all that a step asks for go together to the GPU where the memories are, if there is one."""
        library, like = place
        if like is not None and library.kind(like) != "cpu":
            arrays = self.tokens, self.source, self.parents, self.rows.values, *wanted, *apart
            self.numbers = Numbers(arrays, counters=self.tokens.size + wanted.begin.size)

    def get_array(self, name: str, place: Place) -> Array:
        """One of its arrays, by name, where the memories are: brought there when it is first asked for."""
        found = self._beside.get(name)
        if found is None:
            array: Array = getattr(self, name)
            library, like = place
            if self.numbers is None or like is None:
                found = place.put(array)
            else:
                found = self.numbers.send_one(library, array, like)
            self._beside[name] = found
        return found

    @property
    def lengths(self) -> Array:
        """The number of tokens of each row, ``(rows,)``: `t` of a source that was there from the beginning."""
        lengths: Array = self.t - self._begun[self.source]
        return lengths

    @property
    def tokens_left(self) -> Array:
        """The number of tokens each row may still have, ``(rows,)``."""
        left: Array = self._sources.limit[self.source] - self.lengths
        return left

    @once
    def ragged(self) -> tuple[Array, Structure]:
        """The tokens of each row so far, one row after the other, the start excluded."""
        structure = Structure.of_lengths(self.lengths)
        return freeze(self._nodes.trace(self.nodes, structure.offsets)[0]), structure

    @once
    def prefixes(self) -> Array:
        """All tokens so far, ``(rows, t)``, the start excluded."""
        tokens: Array = self._nodes.trace(self.nodes, np.arange(self.nodes.size + 1) * self.t)[0]
        return freeze(tokens.reshape(self.nodes.size, self.t))

    @once
    def context(self) -> Array:
        """The prompt and the tokens so far, ``(rows, longest + t)``; rows of shorter prompts begin with -1."""
        before = self._sources.prompt_block
        return self.prefixes if before is None else np.concatenate([before[self.source], self.prefixes], 1)

    def find_suffix(self, tokens: Array) -> Array:
        """The rows whose prompt and tokens so far end with these."""
        if not tokens.size:
            return np.arange(self.source.size)
        context, size = self.context, tokens.size
        if context.shape[1] < size:
            return np.empty(0, np.int64)
        return np.flatnonzero((context[:, context.shape[1] - size :] == tokens).all(1))

    def check(self, counts: Array) -> None:
        """ValueError where a count of candidates says that a row is bad."""
        if counts.size and counts.min() < 0:
            raise self.bad(-1 - int(counts[counts < 0][0]))

    def bad(self, row: int) -> ValueError:
        """Make the error for a row with scores that are none."""
        return NAN(f"the scores of source {self.source[row]} at step {self.t}, row {row}, hold NaN or +inf")

    def part(self, rows: slice, parents: Array, source: Array, sources: Sources, begun: int) -> Live:
        """Some rows, with these parents and of these sources, as if no others had ever been."""
        tokens, nodes, (values, keys) = self.tokens[rows], self.nodes[rows], (x[rows] for x in self.rows[4:])
        own = Rows(freeze(parents), tokens, nodes, freeze(source), values, keys)
        return Live(self.t - begun, own, self._nodes, sources, np.zeros(sources.n, np.int64))
