"""Words of which labels are made, as the kernel of the prefix search reads them."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ..arrays import Array
from ..beam.plan import spread
from ..beam.trie import Trie
from ..errors import BEYOND, OVERFLOW
from .frames import Frames
from .rows import Guide

_NONE = np.empty(0, np.int64)
NO_GUIDE = Guide(_NONE, _NONE, _NONE, _NONE, np.empty(0), _NONE)

MOST_STATES = 1 << 22
"""Of a lexicon; more than millions of words have."""

_known: weakref.WeakKeyDictionary[Trie, Guide] = weakref.WeakKeyDictionary()


def guide_of(lexicon: object, frames: Frames) -> Guide:
    """A lexicon as states; StructureError where it cannot be one of these frames."""
    if lexicon is None:
        return NO_GUIDE
    trie = lexicon if isinstance(lexicon, Trie) else Trie(lexicon)
    if trie.largest >= frames.width:
        raise BEYOND(f"lexicon has the token {trie.largest}, but there are the tokens 0 to {frames.width - 1}")
    if (trie.tokens == frames.blank).any():
        raise BEYOND(f"lexicon has a word with the blank, {frames.blank}, which is in no label")
    guide = _known.get(trie)
    if guide is None:
        guide = _known[trie] = _states_of(trie)
    return guide


def _states_of(trie: Trie) -> Guide:
    """States of a label: a state is the set of all nodes of the tree to which some words one after the other lead.

    Where a word ends the next one may begin, so the root is in the set, and longer words may go on.  A node without
    children is in none.  (The subset construction of M. O. Rabin and D. Scott 1959, a level of new states at a time.)
    """
    inner = trie.end > trie.begin
    alone = np.full(trie.tokens.size, -1)  # the state that is a node alone
    alone[0] = 0
    several: dict[bytes, int] = {}
    count, found = 1, [(_NONE, _NONE, _NONE)]  # of each state how many follow it, by which tokens, and which
    whole = [np.ones(1, np.int64)]
    lengths, nodes = np.ones(1, np.int64), np.zeros(1, np.int64)  # the sets of the states that are new
    while lengths.size:
        of, places = spread(trie.begin[nodes], trie.end[nodes])  # children of the nodes
        state = np.repeat(np.arange(lengths.size), lengths)[of]
        keys, members = _members(state * (trie.largest + 1) + trie.tokens[places], places, inner, trie.whole)
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        sizes = np.diff(first, append=keys.size)
        heads = members[first]
        follows = np.where(sizes == 1, alone[heads], -1)
        fresh: list[int] = []
        for k in np.flatnonzero(follows < 0).tolist():
            new = count + len(fresh)
            if sizes[k] > 1:
                follows[k] = several.setdefault(members[first[k] : first[k] + sizes[k]].tobytes(), new)
            else:
                follows[k] = alone[heads[k]] = new if alone[heads[k]] < 0 else alone[heads[k]]
            if follows[k] == new:
                fresh.append(k)
        count += len(fresh)
        if count > MOST_STATES:
            raise OVERFLOW(
                f"the words of the lexicon go over into one another in more than {MOST_STATES} ways; let each end with "
                "a token that is nowhere else"
            )
        state, tokens = np.divmod(keys[first], trie.largest + 1)
        found.append((np.bincount(state, minlength=lengths.size), tokens, follows))
        chosen = np.array(fresh, np.int64)
        whole.append((heads[chosen] == 0).astype(np.int64))
        lengths = sizes[chosen]
        nodes = members[spread(first[chosen], first[chosen] + lengths)[1]]
    parts: Any = [np.concatenate(part) for part in zip(*found, strict=True)]
    begin = np.concatenate([[0], np.cumsum(parts[0])])
    return NO_GUIDE._replace(begin=begin, tokens=parts[1], states=parts[2], whole=np.concatenate(whole))


def _members(keys: Array, nodes: Array, inner: Array, whole: Array) -> tuple[Array, Array]:
    """The nodes behind each state and token, by these and then in rising order, each once."""
    stays, ends = inner[nodes], whole[nodes]
    keys = np.concatenate([keys[ends], keys[stays]])
    nodes = np.concatenate([np.zeros(np.count_nonzero(ends), np.int64), nodes[stays]])
    order = np.lexsort((nodes, keys))
    keys, nodes = keys[order], nodes[order]
    first = (np.diff(keys, prepend=-1) != 0) | (np.diff(nodes, prepend=-1) != 0)
    return keys[first], nodes[first]
