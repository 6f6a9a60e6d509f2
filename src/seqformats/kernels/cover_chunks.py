"""Find the chunks that hold the items of their sequences: runs of items that the same chunks hold."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(
    starts: Integers,
    offsets: Integers,
    chunks: Integers,
    whole: Integers,
    runs: Integers,
    shifts: Integers,
) -> int:
    """Write the runs one after the other: how long each is, the first chunk that holds it, how many do.

    Chunk c has the rows ``offsets[c]`` to ``offsets[c + 1]``, of which the first is item ``starts[c]`` of its sequence;
    sequence i has the chunks ``chunks[i]`` to ``chunks[i + 1]`` and the rows ``whole[i]`` to ``whole[i + 1]``.  Row r
    of a sequence is row ``r + shifts[c]`` of its chunk c; ``runs (3, 2 * k + n)``, flat, for k chunks of n sequences.
    Rows past the end of the sequence are in no run.  Returns how many runs there are; ``-1 - c`` where chunk c begins
    outside of its sequence, not after the one before, or ends before that does.
    """
    room = runs.size // 3
    found = 0
    for i in range(chunks.size - 1):
        length = whole[i + 1] - whole[i]
        stop = chunks[i + 1]
        before, end = -1, 0
        for c in range(chunks[i], stop):
            start = starts[c]
            if start <= before or start > length:
                return -1 - c
            before = start
            if p.at_most(length - start, offsets[c + 1] - offsets[c]) < end - start:
                return -1 - c
            end = start + p.at_most(length - start, offsets[c + 1] - offsets[c])
            shifts[c] = offsets[c] - start - whole[i]
        first = chunks[i]  # that ends after item t
        last = first  # that begins after it
        t = 0
        while t < length:
            while last < stop and starts[last] <= t:
                last += 1
            while first < last and starts[first] + offsets[first + 1] - offsets[first] <= t:
                first += 1
            until = length
            if last < stop:
                until = p.at_most(until, starts[last])
            if first < last:
                until = p.at_most(until, starts[first] + offsets[first + 1] - offsets[first])
            runs[found] = until - t
            runs[room + found] = first
            runs[2 * room + found] = last - first
            found += 1
            t = until
    return found


KERNEL = p.KernelSpec(cpu)
