"""Sequences of tokens as a tree."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..formats import Ragged
from .tokens import token_batch


class Trie:
    """Sequences of tokens as a tree held in arrays: the children of a node are neighbours, in rising order.

    Parameters
    ----------
    sequences : lists or arrays of tokens, or encoding
        Any length.

    Attributes
    ----------
    tokens, begin, end : array (nodes,) of int64
        Node 0 is the root; node i follows its parent with ``tokens[i]``, its children are ``begin[i]`` to ``end[i]``.
    whole : array (nodes,) of bool
        True where a sequence ends at the node.

    Raises
    ------
    TypeError
        For tokens that are no integers.
    StructureError
        For negative ones.

    Examples
    --------
    >>> import seqformats as sf
    >>> trie = sf.Trie([[3, 1], [3, 2], [5]])
    >>> trie.tokens, trie.begin, trie.end
    (array([-1,  3,  5,  1,  2]), array([1, 3, 5, 5, 5]), array([3, 5, 5, 5, 5]))
    >>> trie.whole.nonzero()[0]
    array([2, 3, 4])
    """

    tokens: Array
    begin: Array
    end: Array
    whole: Array

    def __init__(self, sequences: object) -> None:
        found = token_batch(sequences, "sequences")
        self._build(found, np.zeros(len(found), np.int64), 1)

    @classmethod
    def _from_roots(cls, sequences: Ragged[Array], roots: Array, count: int) -> Trie:
        """A tree for each of `count` roots, which are the first nodes; sequence i begins at root ``roots[i]``."""
        trie = cls.__new__(cls)
        trie._build(sequences, roots, count)
        return trie

    def _build(self, sequences: Ragged[Array], node: Array, count: int) -> None:
        self._sequences = sequences
        self._ended: dict[tuple[int, ...], Trie] = {}  # the same with ends behind them
        lengths, starts = sequences.lengths, sequences.offsets[:-1]
        self._known, flat = _ranks(sequences.data)
        width = max(self._known.size, 1)
        # one number for a node and a token: children of a node come one after the other, in rising order
        found: list[Array] = [np.empty(0, np.int64)]
        size, depth, alive = count, 0, np.flatnonzero(lengths > 0)
        while alive.size:
            new, which = _number(node[alive] * width + flat[starts[alive] + depth], size * width)
            found.append(new)
            node = node.copy()
            node[alive] = size + which
            size += new.size
            depth += 1
            alive = alive[lengths[alive] > depth]
        self.whole = np.zeros(size, bool)
        self.whole[node] = True
        self._keys = np.concatenate(found)
        parents, known = np.divmod(self._keys, width)
        self.tokens = np.concatenate([np.full(count, -1), self._known[known]])
        children = np.bincount(parents, minlength=size)
        self.end = count + np.cumsum(children)
        self.begin = self.end - children
        self.begin[children == 0] = self.end[children == 0] = size

    @property
    def largest(self) -> int:
        """The largest token; -1 where there is none."""
        return int(self._known[-1]) if self._known.size else -1

    def child(self, nodes: Array, tokens: Array) -> Array:
        """The child of each node with each token; -1 where there is none, or no node."""
        if not self._keys.size:
            return np.full(nodes.shape, -1)
        known = np.minimum(np.searchsorted(self._known, tokens), self._known.size - 1)
        key = nodes * self._known.size + known
        place = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        there = (nodes >= 0) & (self._known[known] == tokens) & (self._keys[place] == key)
        return np.where(there, self.tokens.size - self._keys.size + place, -1)


def _number(keys: Array, bound: int) -> tuple[Array, Array]:
    """Give what ``np.unique(keys, return_inverse=True)`` gives of keys from 0 to below `bound`.

    A key and its place in one number are sorted several times as fast as places by their keys.
    """
    bits = int(keys.size).bit_length()
    if bound.bit_length() + bits > 63:
        new, which = np.unique(keys, return_inverse=True)
        return new, which
    pairs = np.sort(keys << bits | np.arange(keys.size))
    ordered = pairs >> bits
    first = np.diff(ordered, prepend=-1) != 0
    which = np.empty(keys.size, np.int64)
    which[pairs & ((1 << bits) - 1)] = np.cumsum(first) - 1
    return ordered[first], which


def _ranks(tokens: Array) -> tuple[Array, Array]:
    """The tokens that there are, in rising order, and for each its place among them."""
    return _number(tokens, int(tokens.max(initial=0)) + 1)
