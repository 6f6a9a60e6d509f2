"""Words of which labels are made, as the kernel of the prefix search reads them."""

from __future__ import annotations

import numpy as np

from ..beam.trie import Trie
from ..errors import StructureError
from .frames import Frames
from .rows import Guide

_NONE = np.empty(0, np.int64)
NO_GUIDE = Guide(_NONE, _NONE, _NONE, _NONE, np.empty(0), _NONE)


def guide_of(lexicon: object, frames: Frames) -> Guide:
    """A lexicon as states; StructureError where it cannot be one of these frames.

    The states are the nodes of its tree, and the end of a word leads back to the root, where the next one begins.
    """
    if lexicon is None:
        return NO_GUIDE
    trie = lexicon if isinstance(lexicon, Trie) else Trie(lexicon)
    if trie.largest >= frames.width:
        raise StructureError(f"lexicon has the token {trie.largest}, but there are the tokens 0 to {frames.width - 1}")
    if (trie.tokens == frames.blank).any():
        raise StructureError(f"lexicon has a word with the blank, {frames.blank}, which is in no label")
    children = trie.end - trie.begin
    words = trie._sequences
    ends = _ends(trie)
    longer = (children[ends] > 0) & (words.lengths > 0)
    if longer.any():
        word = words.to_nested()[int(longer.argmax())]
        raise StructureError(
            f"the word {word} of the lexicon is how another one begins, so nobody knows where it ends; let each end "
            "with a token that is nowhere else"
        )
    states = np.arange(1, children.size)
    states[children[1:] == 0] = 0
    whole = np.zeros(children.size, np.int64)
    whole[0] = 1
    begin = np.concatenate([[0], np.cumsum(children)])
    return NO_GUIDE._replace(begin=begin, tokens=trie.tokens[1:].copy(), states=states, whole=whole)


def _ends(trie: Trie) -> np.ndarray:
    """The node of each word."""
    words = trie._sequences
    node = np.zeros(len(words), np.int64)
    for depth in range(int(words.lengths.max(initial=0))):
        there = np.flatnonzero(words.lengths > depth)
        node[there] = trie.child(node[there], words.data[words.offsets[:-1][there] + depth])
    return node
