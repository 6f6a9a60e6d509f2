"""Move sequences into a rectangle, and pad what they leave free of it: on a GPU one kernel is faster than two.

The rectangle has `runs` runs of `room` rows each.  Where `write` is in blocks a run is a sequence, else a time step,
whose columns are a prefix of its room.  `read` says where the rows are; where its steps are packed, step t begins at
``begins[t]``: a row, or an address where `read` is absolute and `src` 0.  ``item`` are the bytes of a row of padding;
none for zeros.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Bytes, Integers, Layout
from .parts.names import gpu


class Ways(NamedTuple):
    """Layouts of rows before and after."""

    begins: Integers
    read: Layout
    write: Layout


class Rest(NamedTuple):
    """The rectangle, and what is free of it."""

    item: Bytes
    room: int
    runs: int


@p.shared
def run_of(read: Layout, write: Layout, k: int) -> Any:
    """Describe run k: the sequence that it has, or else k; how many rows it has; and how many are free before them."""
    if write.step != 1:
        return k, write.steps[k + 1] - write.steps[k] if k + 1 < write.steps.size else 0, 0
    i = k if read.step == 1 else read.starts[k]
    length = read.cum[i + 1] - read.cum[i]
    return i, length, write.left * (write.stride - length)


@p.shared
def line_of(begins: Integers, read: Layout, write: Layout, k: int, unit: int) -> Any:
    """Find where row 0 of run k begins, and how far it is to the next; 0 where each lies somewhere else.

    In rows, or as addresses, where `unit` is the bytes of a row.
    """
    if write.step == 1 and read.step == 1:
        return p.begin_of(read, k, read.cum[k + 1] - read.cum[k], 1), unit
    if write.step == 1 and read.step != 0:
        return k * unit, read.step * unit
    if write.step != 1 and read.step == 0:
        return begins[k] if k < begins.size else 0, unit  # there may be more steps than the source has
    if write.step != 1 and read.step != 1:
        return k * read.step, unit
    return 0, 0


@p.shared
def source_of(begins: Integers, read: Layout, write: Layout, k: int, q: int, unit: int) -> Any:
    """Find where row p of run k begins, if its rows lie in no line; in rows or as an address."""
    if write.step == 1:
        return begins[q] + k * unit
    i = write.starts[q]
    return p.begin_of(read, i, read.cum[i + 1] - read.cum[i], 1) + k * unit


@p.compiled
def cpu(src: int, out: int, ways: Ways, rest: Rest, row: int, lo: int, hi: int) -> None:
    """Runs `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    begins, read, write = ways
    item, room = rest.item, rest.room
    scale, unit = (1, row) if read.absolute else (row, 1)
    for k in range(lo, hi):
        i, used, before = run_of(read, write, k)
        begin, gap = line_of(begins, read, write, k, unit)
        for q in range(room):
            to = (i * room + q) * row
            if q >= before and q < before + used:
                t = q - before
                come = begin + t * gap if gap != 0 else source_of(begins, read, write, k, t, unit)
                p.move(out, to, src, come * scale, row)
            elif item.size == 0:
                p.clear(out, to, row)
            else:
                p.move(out, to, item, 0, row)


def cuda(src: Array | int, out: Array, ways: Ways, rest: Rest, row: int) -> None:
    """All runs, a line of threads for four places; `src` and `out` are machine words, `row` words a row."""
    begins, read, write = ways
    item, room, runs = rest
    word = out.itemsize if read.absolute else 1
    scale, unit = (1, row * word) if read.absolute else (row, 1)
    down = gpu.blockDim.y
    w = gpu.blockIdx.x * gpu.blockDim.x + gpu.threadIdx.x
    k = gpu.blockIdx.z * gpu.blockDim.z + gpu.threadIdx.z
    while w < row and k < runs:
        free = p.no_word(out)
        if item.size != 0:
            free = p.load_word(out, item, w)
        i, used, before = run_of(read, write, k)
        begin, gap = line_of(begins, read, write, k, unit)
        for q in range(gpu.blockIdx.y * 4 * down + gpu.threadIdx.y, room, gpu.gridDim.y * 4 * down):
            t0 = q - before
            t1, t2, t3 = t0 + down, t0 + 2 * down, t0 + 3 * down
            in0, in1 = t0 >= 0 and t0 < used, t1 >= 0 and t1 < used
            in2, in3 = t2 >= 0 and t2 < used, t3 >= 0 and t3 < used
            if gap != 0:
                s0 = (begin + t0 * gap) * scale
                far = down * gap * scale
                s1, s2, s3 = s0 + far, s0 + 2 * far, s0 + 3 * far
            else:
                s0 = source_of(begins, read, write, k, t0, unit) * scale if in0 else 0
                s1 = source_of(begins, read, write, k, t1, unit) * scale if in1 else 0
                s2 = source_of(begins, read, write, k, t2, unit) * scale if in2 else 0
                s3 = source_of(begins, read, write, k, t3, unit) * scale if in3 else 0
            a = p.load_word(out, src, s0 + w * word) if in0 else free
            b = p.load_word(out, src, s1 + w * word) if in1 else free
            c = p.load_word(out, src, s2 + w * word) if in2 else free
            d = p.load_word(out, src, s3 + w * word) if in3 else free
            to = (i * room + q) * row + w
            step = down * row
            p.store_word(out, to, a)
            if q + down < room:
                p.store_word(out, to + step, b)
            if q + 2 * down < room:
                p.store_word(out, to + 2 * step, c)
            if q + 3 * down < room:
                p.store_word(out, to + 3 * step, d)
        k += gpu.gridDim.z * gpu.blockDim.z


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "rooms")
