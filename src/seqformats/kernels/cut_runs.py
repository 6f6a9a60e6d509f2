"""The run of items that a slice with start and stop takes of every sequence, as Python slices a list.

`bounds` holds starts, stops and steps, one after the other: one of each where `own` is 0, else n of each.  Sequence i
has ``lengths[i]`` items from row ``offsets[i]`` on, of which those from start to stop are taken, each `step` after the
one before.  Bit 0 of `opened` says that there is no start, bit 1 that there is no stop.
"""

from . import parts as p
from .parts import Integers


@p.shared
def clip(place: int, length: int, step: int) -> int:
    """A bound counted from the beginning, at most one place before the items or behind them."""
    low = 0 if step > 0 else -1
    if place < 0:
        return p.at_least(place + length, low)
    return p.at_most(place, length + low)


@p.compiled
def cpu(lengths: Integers, offsets: Integers, bounds: Integers, own: int, opened: int, table: Integers) -> int:
    """Write one after the other into ``table (3 * n + 2,)``: how many are taken, their offsets, the rows of the first.

    The last number is 1 where some are taken that do not lie side by side, else 0.  Returns how many are taken of a
    sequence, at most; ``-1 - i`` where step i is 0.
    """
    n = lengths.size
    size = n if own else 1
    longest = 0
    total = 0
    apart = 0
    table[n] = 0
    for i in range(n):
        j = i if own else 0
        step = bounds[2 * size + j]
        if step == 0:
            return -1 - i
        length = lengths[i]
        start = clip(bounds[j], length, step)
        if opened & 1:
            start = 0 if step > 0 else length - 1
        stop = clip(bounds[size + j], length, step)
        if opened & 2:
            stop = length if step > 0 else -1
        count = p.at_least(-((start - stop) // step), 0)
        apart |= step != 1 and count > 1
        total += count
        table[i] = count
        table[n + 1 + i] = total
        table[2 * n + 1 + i] = offsets[i] + start if count else offsets[i]
        longest = p.at_least(longest, count)
    table[3 * n + 1] = apart
    return longest


KERNEL = p.KernelSpec(cpu)
