"""Prefix beam search with a model of words or tokens; see the kernel `ctc_prefixes`, of which this is the same search.

`speech` is the model, and `told` what it remembers of each row of the beams.  Labels gain with every token what the
model says of it, see `parts.speech`.
"""

from typing import NamedTuple

from ..ctc.rows import Guide, Labels, Pool, PrefixRows, PrefixTerms, PrefixTree, Speech, Told
from . import parts as p
from .parts import Array, Layout
from .parts.prefix_search import go_over, home_of
from .parts.prefixes import Own


class Rules(NamedTuple):
    """Options and limits of a search."""

    terms: PrefixTerms
    guide: Guide
    speech: Speech


class Memory(NamedTuple):
    """Results of a search, and its memory."""

    out: Labels
    tree: PrefixTree
    rows: PrefixRows
    told: Told
    pool: Pool


@p.compiled
def cpu(x: Array, rules: Rules, memory: Memory, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    terms, guide, speech = rules
    out, tree, rows, told, pool = memory
    guide, speech, out, at = p.pointer(guide), p.pointer(speech), p.pointer(out), p.pointer(at)
    tree, rows, told, pool = p.pointer(tree), p.pointer(rows), p.pointer(told), p.pointer(pool)
    for b in range(lo, hi):
        for u in range(terms.shares[b], terms.shares[b + 1]):
            home = home_of(terms, pool, b, p.locate(at, u)[2])
            go_over(Own(tree, rows, pool, guide, terms, home), speech, told, out, x, at, u)


def cuda(x: Array, rules: Rules, memory: Memory, at: Layout, width: int) -> None:
    """All units, a thread each."""
    terms, guide, speech = rules
    out, tree, rows, told, pool = memory
    for b in range(p.first_unit(), terms.shares.size - 1, p.units_of_grid()):
        for u in range(terms.shares[b], terms.shares[b + 1]):
            home = home_of(terms, pool, b, p.locate(at, u)[2])
            go_over(Own(tree, rows, pool, guide, terms, home), speech, told, out, x, at, u)


_KINDS = ("f8", "f8", *["i4"] * 4, "f8", "f4", "f4", *["f8"] * 10)  # in the order of the arguments
KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("f4", *_KINDS), ("f8", *_KINDS)), 1 << 20)
