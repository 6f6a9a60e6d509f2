"""Corruption of items at random, each replaced by a sentinel, and what the sentinels stand for.

`x` holds the items in a layout, see `Layout`; ``inputs`` gets the sequences without the spans, sequence i from
``into[i]`` on, and ``targets`` the spans, from ``aside[i]`` on: sentinel, span, sentinel, span, and a last sentinel,
which fall from `sentinel` on.  Sequence i has ``spans[i]`` of them; kept items and spans take turns, and kept ones
begin.  Both kinds are divided into so many parts, any division as likely: of the gaps between items one after the other
is taken as often as there are still gaps to be taken among those left (D. E. Knuth, "The Art of Computer Programming",
3.4.2, algorithm S).
"""

from typing import Any

from ..operations.choices import Corruption
from . import parts as p
from .parts import Array, Integers, Layout


@p.shared
def goes_on(left: int, parts: int, seed: int, purpose: int, i: int) -> Any:
    """Tell whether the next item, of `left`, is in the same part, where so many parts are still to come."""
    if left == 0:
        return False
    bits, _, _, _ = p.draw(seed, purpose, i, left)
    return p.draw_integer(left, bits, seed, purpose, i, left) >= parts


@p.shared
def divide(
    arrays: tuple[Array, Array, Array],
    at: Layout,
    lengths: tuple[Integers, Integers, Integers],
    seed: int,
    sentinel: int,
    u: int,
) -> None:
    """One unit."""
    (x, inputs, targets), (into, aside, spans) = arrays, lengths
    i, first, length = p.locate(at, u)
    a, b, count = into[i], aside[i], spans[i]
    kept = into[i + 1] - a - count
    masked = length - kept
    t = 0
    for s in range(count + 1):
        same = kept > 0
        while same:
            inputs[a] = x[first + p.along(at, t)]
            t += 1
            a += 1
            kept -= 1
            same = goes_on(kept, count - 1 - s, seed, 3, i)
        targets[b] = sentinel - s
        b += 1
        if s < count:
            inputs[a] = sentinel - s
            a += 1
        same = masked > 0
        while same:
            targets[b] = x[first + p.along(at, t)]
            t += 1
            b += 1
            masked -= 1
            same = goes_on(masked, count - 1 - s, seed, 4, i)


@p.compiled
def cpu(x: Array, inputs: Array, targets: Array, at: Layout, parts: Corruption, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    into, aside, spans, seed, sentinel = parts
    for u in range(lo, hi):
        divide((x, inputs, targets), at, (into, aside, spans), seed, sentinel, u)


def cuda(x: Array, inputs: Array, targets: Array, at: Layout, parts: Corruption, width: int) -> None:
    """All units, a thread each: where a part ends depends on those before."""
    into, aside, spans, seed, sentinel = parts
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        divide((x, inputs, targets), at, (into, aside, spans), seed, sentinel, u)


KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "units", p.alike(("i1", "i2", "i4", "i8", "u1", "u2", "u4"), 3), rare=True
)
