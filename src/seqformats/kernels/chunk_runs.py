"""Find where the chunks of every sequence begin, and how long they are."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(offsets: Integers, chunks: Integers, size: int, step: int, back: int, table: Integers) -> int:
    """Write one after the other into ``table (4 * k + 1,)``: their lengths, offsets, places in the sequence, and rows.

    Place and row are those of the first item.  Sequence i has the rows ``offsets[i]`` to ``offsets[i + 1]`` and the
    chunks ``chunks[i]`` to ``chunks[i + 1]``, of at most `size` items, each beginning `step` after the one before.
    With `back` 1 a last chunk that is shorter begins earlier, where there is room.  Returns the greatest length.
    """
    k = chunks[chunks.size - 1]
    longest = 0
    total = 0
    table[k] = 0
    for i in range(chunks.size - 1):
        length = offsets[i + 1] - offsets[i]
        start = 0
        for c in range(chunks[i], chunks[i + 1]):
            if back and length - start < size:
                start = p.at_least(length - size, 0)
            count = p.at_most(length - start, size)
            total += count
            table[c] = count
            table[k + 1 + c] = total
            table[2 * k + 1 + c] = start
            table[3 * k + 1 + c] = offsets[i] + start
            longest = p.at_least(longest, count)
            start += step
    return longest


KERNEL = p.KernelSpec(cpu)
