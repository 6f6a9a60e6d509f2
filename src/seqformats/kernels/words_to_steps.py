"""`blocks_to_steps` for rows of one word, 1, 2, 4 or 8 bytes: token ids, say.  The arguments are the same.

Word by word, each line of the cache would be fetched many times and used a little each time; so squares of four columns
and four steps are transposed.  Columns fall in length, so neighbours end about together.
"""

from . import parts as p
from .parts import Layout


@p.compiled
def cpu(src: int, out: int, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Columns `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    count = write.steps.size - 1
    read, write = p.pointer(read), p.pointer(write)
    cum, indices, steps, wide = read.cum, write.starts, write.steps, write.step
    packed = 1 if wide == 0 else 0
    t = 0
    while t < count:
        last = p.at_most(hi, steps[t + 1] - steps[t])
        end = p.at_most(t + 1024, count)  # of so many steps the next columns find their lines in the cache
        j = lo
        while j < last:
            u = t
            stop = p.at_most(j + 4, last)
            if stop == j + 4:
                i = indices[j]
                s0 = p.begin_of(read, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 1]
                s1 = p.begin_of(read, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 2]
                s2 = p.begin_of(read, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 3]
                s3 = p.begin_of(read, i, cum[i + 1] - cum[i], row) + t * row
                most = p.at_most(end, cum[i + 1] - cum[i])
                q = 0
                while u + 4 <= most:
                    d0 = (j + u * wide + steps[u] * packed) * row
                    d1 = (j + (u + 1) * wide + steps[u + 1] * packed) * row
                    d2 = (j + (u + 2) * wide + steps[u + 2] * packed) * row
                    d3 = (j + (u + 3) * wide + steps[u + 3] * packed) * row
                    p.move_square(out, (d0, d1, d2, d3), src, (s0 + q, s1 + q, s2 + q, s3 + q), row)
                    # the lines of the next columns: no CPU foresees those of so many steps
                    p.will_write(out + d0 + 8 * row)
                    p.will_write(out + d1 + 8 * row)
                    p.will_write(out + d2 + 8 * row)
                    p.will_write(out + d3 + 8 * row)
                    q += 4 * row
                    u += 4
            while j < stop:
                i = indices[j]
                most = p.at_most(end, cum[i + 1] - cum[i])
                s = p.begin_of(read, i, cum[i + 1] - cum[i], row) + u * row
                v = u
                while v < most:
                    d = (j + v * wide + steps[v] * packed) * row
                    p.move_row(out, d, src, s, row)
                    s += row
                    v += 1
                j += 1
        t = end


KERNEL = p.KernelSpec(cpu, None, p.MOVES)
