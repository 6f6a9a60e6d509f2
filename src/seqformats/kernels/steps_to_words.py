"""`steps_to_blocks` for rows of one word, 1, 2, 4 or 8 bytes: the way back of `words_to_steps`."""

from . import parts as p
from .parts import Integers, Layout


@p.compiled
def cpu(src: int, out: int, begins: Integers, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Columns `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    count = read.steps.size - 1
    read, write, begins = p.pointer(read), p.pointer(write), p.pointer(begins)
    cum, indices, steps, wide = read.cum, read.starts, read.steps, read.step * row
    packed = 0 if read.step != 0 else 1 if read.absolute else row
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
                d0 = p.begin_of(write, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 1]
                d1 = p.begin_of(write, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 2]
                d2 = p.begin_of(write, i, cum[i + 1] - cum[i], row) + t * row
                i = indices[j + 3]
                d3 = p.begin_of(write, i, cum[i + 1] - cum[i], row) + t * row
                most = p.at_most(end, cum[i + 1] - cum[i])
                q = 0
                while u + 4 <= most:
                    s0 = j * row + u * wide + begins[u] * packed
                    s1 = j * row + (u + 1) * wide + begins[u + 1] * packed
                    s2 = j * row + (u + 2) * wide + begins[u + 2] * packed
                    s3 = j * row + (u + 3) * wide + begins[u + 3] * packed
                    p.move_square(out, (d0 + q, d1 + q, d2 + q, d3 + q), src, (s0, s1, s2, s3), row)
                    # the lines of the next columns: no CPU foresees those of so many steps
                    p.will_read(src + s0 + 8 * row)
                    p.will_read(src + s1 + 8 * row)
                    p.will_read(src + s2 + 8 * row)
                    p.will_read(src + s3 + 8 * row)
                    q += 4 * row
                    u += 4
            while j < stop:
                i = indices[j]
                most = p.at_most(end, cum[i + 1] - cum[i])
                d = p.begin_of(write, i, cum[i + 1] - cum[i], row) + u * row
                v = u
                while v < most:
                    s = j * row + v * wide + begins[v] * packed
                    p.move_row(out, d, src, s, row)
                    d += row
                    v += 1
                j += 1
        t = end


KERNEL = p.KernelSpec(cpu, None, p.MOVES)
