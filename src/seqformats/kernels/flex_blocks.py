"""Find the blocks of an attention mask that hold a pair of rows that see each other, and those that hold no other.

The rows of all sequences stand one after the other, sequence s from ``cum[s]`` to ``cum[s + 1]``.  Row q sees the rows
from ``q - left`` to ``q + right`` of its sequence, and the first ``prefix[s]`` rows of it.  ``options (4,)`` are `left`
and `right`, neither negative, and how many rows, and how many columns, a block has.

For each line of blocks the numbers of those that are kept, in rising order, and for each column too, as the block
masks of FlexAttention have them: ``counts (2 * lines,)``, ``table (2 * lines * columns,)``, ``back_counts (2 *
columns,)`` and ``back_table (2 * columns * lines,)``, int32, all zeros before.  The first half is of the blocks that
are seen in part, the second of those that are seen as a whole.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(
    cum: Integers,
    prefix: Integers,
    options: Integers,
    counts: Array,
    table: Array,
    back_counts: Array,
    back_table: Array,
) -> None:
    """Only the blocks that are kept are visited.

    The rows that a line of blocks sees are the band between what its first row sees and what its last row sees, without
    a gap since each row sees itself, and the prefixes of the first and the last sequence in it; all others end in it.
    """
    left, right, block, width = options[0], options[1], options[2], options[3]
    lines, columns = counts.size // 2, back_counts.size // 2
    rows = cum[cum.size - 1]
    s = 0
    for i in range(lines):
        a = i * block
        b = p.at_most(a + block, rows)
        while cum[s + 1] <= a:
            s += 1
        last = s
        while cum[last + 1] < b:
            last += 1
        begin, end = cum[s], cum[s + 1]
        known = begin + prefix[s]
        low = p.at_least(a - left, begin)
        high = p.at_least(p.at_most(b + right, cum[last + 1]), cum[last] + prefix[last])
        least = p.at_most(a + right + 1, end)  # that the last row and the first one of a single sequence see
        most = p.at_least(b - 1 - left, begin)
        whole = s == last and a + block <= rows
        j = (begin if prefix[s] > 0 else low) // width
        while j * width < high:
            if j * width >= known and (j + 1) * width <= low:  # between the prefix and the band
                j = low // width
            x, y = j * width, (j + 1) * width
            full = whole and x >= begin and y <= end
            full = full and (y <= known or (y <= least and (x >= most or most <= known)))
            kind = 1 if full else 0
            at = kind * lines + i
            table[at * columns + counts[at]] = j
            counts[at] += 1
            at = kind * columns + j
            back_table[at * lines + back_counts[at]] = i
            back_counts[at] += 1
            j += 1


KERNEL = p.KernelSpec(cpu, takes=(("i4",) * 4,))
