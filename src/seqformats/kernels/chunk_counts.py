"""Count the chunks of sequences, and find where those of each begin among all."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(lengths: Integers, size: int, step: int, full: int, table: Integers) -> int:
    """Write the numbers into ``table (2 * n + 1,)``, behind them their offsets; returns the greatest of them.

    Chunks have `size` items and begin `step` after each other, until one holds the last item of its sequence; with
    `full` 1 a last one that would be shorter is not counted.
    """
    n = lengths.size
    longest = 0
    total = 0
    table[n] = 0
    for i in range(n):
        length = lengths[i]
        count = 0
        if length >= size:
            count = 1 + (length - size) // step
            if full == 0 and (length - size) % step != 0:
                count += 1
        elif length != 0 and full == 0:
            count = 1
        total += count
        table[i] = count
        table[n + 1 + i] = total
        longest = p.at_least(longest, count)
    return longest


KERNEL = p.KernelSpec(cpu)
