"""Prefix beam search over the frames of a model that was trained by connectionist temporal classification.

`x` holds the frames in any layout, see `Layout`, each of ``terms.width`` log-probabilities or logits.  The sources
``terms.shares[b]`` to ``terms.shares[b + 1]`` are the work of unit b, one after the other.  The named tuples of
`ctc.rows` say what it has to itself in `tree`, `rows` and `pool`: nodes from ``terms.places[b]`` on, and of all else
equal parts.

A prefix is a label without blanks and repeats.  It is known how likely all its paths are that end in a blank, and all
that end in its last token (Graves 2012, "Supervised Sequence Labelling with Recurrent Neural Networks", 7.5.3, as a
beam: Hannun, Maas, Jurafsky and Ng 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using
Bi-Directional Recurrent DNNs").  With a frame it stays what it is, or a token comes behind it; where that makes a
prefix that is in the beam already, their paths are added up.  Of all the best ones are kept: the larger value, of the
same whoever comes first.  Those that stay come first, by rows, then those with a new token, by rows and tokens; they
are the rows of the next frame in this order, which is not that of their values.

A prefix that was dropped and comes back is the same node, since longer ones may be alive: nodes are found by parent and
token, in a table with open addresses.
"""

from typing import NamedTuple

from ..ctc.rows import Guide, Labels, Pool, PrefixRows, PrefixTerms, PrefixTree
from . import parts as p
from .parts import Array, Layout
from .parts.prefix_search import go_over, home_of
from .parts.prefixes import Own


class Rules(NamedTuple):
    """Options and limits of a search."""

    terms: PrefixTerms
    guide: Guide


class Memory(NamedTuple):
    """Results of a search, and its memory."""

    out: Labels
    tree: PrefixTree
    rows: PrefixRows
    pool: Pool


@p.compiled
def cpu(x: Array, rules: Rules, memory: Memory, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    terms, guide = rules
    out, tree, rows, pool = memory
    guide, out, at = p.pointer(guide), p.pointer(out), p.pointer(at)
    tree, rows, pool = p.pointer(tree), p.pointer(rows), p.pointer(pool)
    for b in range(lo, hi):
        for u in range(terms.shares[b], terms.shares[b + 1]):
            home = home_of(terms, pool, b, p.locate(at, u)[2])
            go_over(Own(tree, rows, pool, guide, terms, home), None, None, out, x, at, u)


def cuda(x: Array, rules: Rules, memory: Memory, at: Layout, width: int) -> None:
    """All units, a thread each."""
    terms, guide = rules
    out, tree, rows, pool = memory
    for b in range(p.first_unit(), terms.shares.size - 1, p.units_of_grid()):
        for u in range(terms.shares[b], terms.shares[b + 1]):
            home = home_of(terms, pool, b, p.locate(at, u)[2])
            go_over(Own(tree, rows, pool, guide, terms, home), None, None, out, x, at, u)


_KINDS = ("f8", "f8", "f4", "f4", *["f8"] * 9)  # in the order of the arguments
KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("f4", *_KINDS), ("f8", *_KINDS)), 1 << 20)
