"""`blocks_to_steps` for rows of one word, 1, 2, 4 or 8 bytes: token ids, say.  The arguments are the same.

Word by word, each line of the cache would be fetched many times and used a little each time; so squares of four columns
and four steps are transposed.  Columns fall in length, so neighbours end about together.
"""

from .parts import (
    MOVES,
    KernelSpec,
    Layout,
    at_most,
    begin_of,
    compiled,
    move_row,
    move_square,
    pointer,
    will_write,
)


@compiled
def cpu(src: int, out: int, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Columns `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    count = write.steps.size - 1
    read, write = pointer(read), pointer(write)
    cum, indices, steps, wide = read.cum, write.starts, write.steps, write.step
    packed = 1 if wide == 0 else 0
    t = 0
    while t < count:
        last = at_most(hi, steps[t + 1] - steps[t])
        end = at_most(t + 1024, count)  # of so many steps the next columns find their lines in the cache
        j = lo
        while j < last:
            u = t
            stop = at_most(j + 4, last)
            if stop == j + 4:
                i = indices[j]
                s0 = begin_of(read, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 1]
                s1 = begin_of(read, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 2]
                s2 = begin_of(read, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 3]
                s3 = begin_of(read, i, cum[i + 1] - cum[i], row) + t * row
                most = at_most(end, cum[i + 1] - cum[i])
                p = 0
                while u + 4 <= most:
                    d0 = (j + u * wide + steps[u] * packed) * row
                    d1 = (j + (u + 1) * wide + steps[u + 1] * packed) * row
                    d2 = (j + (u + 2) * wide + steps[u + 2] * packed) * row
                    d3 = (j + (u + 3) * wide + steps[u + 3] * packed) * row
                    move_square(out, (d0, d1, d2, d3), src, (s0 + p, s1 + p, s2 + p, s3 + p), row)
                    # the lines of the next columns: no CPU foresees those of so many steps
                    will_write(out + d0 + 8 * row)
                    will_write(out + d1 + 8 * row)
                    will_write(out + d2 + 8 * row)
                    will_write(out + d3 + 8 * row)
                    p += 4 * row
                    u += 4
            while j < stop:
                i = indices[j]
                most = at_most(end, cum[i + 1] - cum[i])
                s = begin_of(read, i, cum[i + 1] - cum[i], row) + u * row
                v = u
                while v < most:
                    d = (j + v * wide + steps[v] * packed) * row
                    move_row(out, d, src, s, row)
                    s += row
                    v += 1
                j += 1
        t = end


KERNEL = KernelSpec(cpu, None, MOVES)
