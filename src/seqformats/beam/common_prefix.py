"""The tokens that all hypotheses of a source begin with which may still be in its result."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..formats.structure import Structure
from .hypotheses import Found
from .search import Search


def find_agreed(search: Search, finished: Found) -> tuple[Array, Structure]:
    """The tokens that the live hypotheses and the finished ones of each source have in common at first.

    Those are all that can be in the result: what is not among these finished ones now will never be, and what a live
    one becomes begins with it.
    """
    live, nodes, n = search.live, search.nodes, search.sources.n
    source = np.concatenate([live.source, finished.source])
    order = np.argsort(source, kind="stable")
    source, last = source[order], np.concatenate([live.nodes, finished.last])[order]
    lengths = search.lengths(source, last)
    begin = np.append(0, np.cumsum(lengths))
    tokens, _ = nodes.trace(last, begin)
    there, first = np.unique(source, return_index=True)
    common = np.zeros(n, np.int64)
    common[there] = np.minimum.reduceat(lengths, first) if first.size else 0
    which = np.zeros(n, np.int64)
    which[there] = first
    each = common[source]
    hypothesis = np.repeat(np.arange(source.size), each)
    at = np.arange(hypothesis.size) - np.repeat(np.cumsum(each) - each, each)
    of = source[hypothesis]
    other = tokens[begin[hypothesis] + at] != tokens[begin[which[of]] + at]
    np.minimum.at(common, of[other], at[other])
    structure = Structure.of_lengths(common)
    place = np.arange(structure.rows) - np.repeat(structure.offsets[:-1] - begin[which], common)
    return tokens[place], structure
