"""The ways of hypotheses through the rows of a search, and what is kept along them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Library, adopt, is_array
from ..errors import KIND, MIXED, SHAPE
from ..formats import LoD
from ..formats.structure import Structure
from ..operations.batch import inverse_order
from .hypotheses import Trail
from .memory import Memory, Place
from .rows import Tree
from .step import no_gradient_error

Key = tuple[int | str, ...]


class Leaf(NamedTuple):
    """An array of one step, and its library."""

    library: Library
    array: Array


Step = dict[Key, Leaf]


class Paths:
    """Memory of the steps of a search: where it is traced, or keeps something, the nodes of the rows of each."""

    def __init__(self, *, traced: bool) -> None:
        self.traced = traced
        self.nodes: list[Array] = []
        self._kept: list[Step] = []
        self._like: Step | None = None  # what the first step has kept
        self._form: Any = None
        self._steps = 0

    def read(self, kept: object, rows: int, place: Place) -> Step | None:
        """Read what a step gives to keep, one array or some in tuples, lists and dicts; None where it keeps nothing."""
        if kept is None and self._like is None:
            return None
        found: Step = {}
        for key, x in _leaves(kept, ()):
            if not is_array(x):
                raise KIND(f"what is kept must be arrays, in tuples, lists and dicts, not {type(x).__name__}")
            library, array = adopt(x, "what is kept")
            if library.autograd and library.wants_grad((array,)):
                raise no_gradient_error()
            place.check(library, array, "what is kept")
            if not array.shape or array.shape[0] != rows:
                raise SHAPE(f"what is kept must have {rows} rows, as the scores, but has shape {tuple(array.shape)}")
            found[key] = Leaf(library, library.copy(array))  # what lies in a memory is written again
        if self._steps:
            self._check(found)
        return found

    def _check(self, found: Step) -> None:
        """StructureError unless a step keeps what the first one has kept."""
        first = self._like or {}
        if found.keys() != first.keys():
            raise MIXED(
                f"every step must keep the same: the first one has kept {len(first)} arrays, this one {len(found)}, or "
                "others by their names"
            )
        for key, (_, array) in found.items():
            before = first[key].array
            if array.shape[1:] != before.shape[1:] or array.dtype != before.dtype:
                raise MIXED(
                    f"every step must keep the same: items of shape {tuple(before.shape[1:])} and {before.dtype}, "
                    f"not {tuple(array.shape[1:])} and {array.dtype}"
                )

    def add(self, nodes: Array, kept: object, found: Step | None) -> None:
        """A step over rows with these nodes, which has kept what `read` has found."""
        self._steps += 1
        if found is not None:
            if self._like is None:
                self._like, self._form = found, _rebuild(kept, (), dict.fromkeys(found, 0))  # without the arrays
            self._kept.append(found)
        if self.traced or found is not None:
            self.nodes.append(nodes)

    def drop_steps(self, steps: int, cut: int) -> None:
        """Forget so many first steps, whose nodes are those below `cut`."""
        self._kept = self._kept[steps:]
        self.nodes = [x - cut for x in self.nodes[steps:]]

    def rows(self, tree: Tree, trail: Trail) -> Array | None:
        """Find the row of its step in which each token was chosen, hypothesis by hypothesis; None where nobody asks."""
        if not self.traced and self._like is None:
            return None
        last, begun, inner = trail
        rows = np.empty(inner.rows, np.int64)
        node, end = last.copy(), begun + inner.lengths
        for t in range(int(end.max(initial=0)) - 1, -1, -1):
            here = np.flatnonzero((begun <= t) & (t < end))
            node[here] = before = tree.previous[node[here]]
            known = self.nodes[t][self.nodes[t] >= 0]  # those that begin in this step come last
            place = np.where(before < 0, -1 - before, np.searchsorted(known, before))
            rows[inner.offsets[here] + t - begun[here]] = place
        return rows

    def pack(self, rows: Array, trail: Trail, outer: Structure) -> Any:
        """Gather what was kept where each token was chosen: in the first step's containers, `LoD` like the tokens."""
        if self._like is None:
            return None
        ways, levels = _by_step(rows, trail), (outer, trail.inner)
        found = {key: LoD._from_levels(self._gather(leaf, key, ways), levels) for key, leaf in self._like.items()}
        return _rebuild(self._form, (), found)

    def first(self, rows: Array, trail: Trail) -> Leaf:
        """Gather the first array that was kept, where each token was chosen."""
        assert self._like is not None
        key, leaf = next(iter(self._like.items()))
        return Leaf(leaf.library, self._gather(leaf, key, _by_step(rows, trail)))

    def _gather(self, like: Leaf, key: Key, ways: tuple[list[Array], Array]) -> Array:
        """One of the arrays, along the hypotheses."""
        (steps, back), library = ways, like.library
        chosen = [library.take(like.array, back[:0], 0)]
        chosen += [library.take(kept[key].array, at, 0) for kept, at in zip(self._kept, steps, strict=False)]
        return library.take(library.concatenate(chosen), back, 0)


def _by_step(rows: Array, trail: Trail) -> tuple[list[Array], Array]:
    """The rows of tokens step by step, and where each token has gone."""
    _, begun, inner = trail
    t = np.arange(rows.size) + np.repeat(begun - inner.offsets[:-1], inner.lengths)
    order = np.argsort(t, kind="stable")
    steps: list[Array] = [*np.split(rows[order], np.cumsum(np.bincount(t, minlength=1))[:-1])]
    return steps, inverse_order(order)


def _leaves(x: Memory, path: Key) -> Iterator[tuple[Key, Any]]:
    """The arrays in containers, by their places."""
    if isinstance(x, dict):
        for key, value in x.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(x, (tuple, list)):
        for i, value in enumerate(x):
            yield from _leaves(value, (*path, i))
    elif x is not None:
        yield path, x


def _rebuild(x: Memory, path: Key, found: Mapping[Key, object]) -> Any:
    """Rebuild the containers with other leaves."""
    if isinstance(x, dict):
        return {key: _rebuild(value, (*path, key), found) for key, value in x.items()}
    if isinstance(x, (tuple, list)):
        filled = [_rebuild(value, (*path, i), found) for i, value in enumerate(x)]
        return type(x)(*filled) if hasattr(x, "_fields") else type(x)(filled)
    return found.get(path)
