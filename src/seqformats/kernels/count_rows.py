"""Count the items of every sequence that are not zero, column by column; or tell whether one is, or all are.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  `mode`: 0 the number of them, 1 whether
there is one, 2 whether there is no other.  NaN is not zero.  An empty sequence gives 0, 0 and 1.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.shared
def answer(found: int, length: int, mode: int) -> int:
    """Answer what `mode` asks for, where so many of `length` items are not zero."""
    if mode == 0:
        return found
    return int(found != 0) if mode == 1 else int(found == length)


@p.by_columns()
def tally(given: Any, columns: Columns, place: int, count: int) -> None:
    """The answers for some columns of a sequence to ``out[place:]``."""
    x, out, mode = given
    length, unit = columns.length, p.unknown(1)
    zero, one = p.each(length, 0, count), p.each(length, 1, count)
    found = p.each(length, 0, count)
    t = 0
    while t < length:
        found = found + p.choose(p.nonzero(p.load(x, p.item_at(columns, t), count, x)), one, zero)
        t += unit
    if mode == 1:
        found = p.choose(p.nonzero(found), one, zero)
    elif mode == 2:
        found = p.choose(found == p.each(length, length, count), one, zero)
    p.store(out, place, found)


@p.compiled
def cpu(x: Array, out: Array, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (p.pointer(x), p.pointer(out), mode), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        if width == 1 and at.step == 1:  # a plain loop, which is made one over vectors
            items = x[columns.begin : columns.begin + columns.length]
            found = 0
            for t in range(items.size):
                found += items[t] != 0
            out[i] = answer(found, columns.length, mode)
        else:
            tally(given, columns, i * width, 0, width)


@p.block_per_sequence
def cuda(
    x: Array, out: Array, at: Layout, mode: int, width: int, *, i: int, first: int, length: int, k: int, slot: int
) -> None:
    """A column of a sequence, by the threads of a block."""
    parts = p.natural(gpu.shared.array(128, at.cum.dtype))
    found = 0
    if k < width:
        for t in range(gpu.threadIdx.y, length, gpu.blockDim.y):
            if x[(first + p.along(at, t)) * width + k] != 0:
                found += 1
    parts[slot] = found
    p.tree_sum(parts, slot)
    if gpu.threadIdx.y == 0 and k < width:
        out[i * width + k] = answer(parts[slot], length, mode)
    gpu.syncthreads()  # before the memory is used again


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "sequences",
    tuple((kind, made) for made in ("i8", "u1") for kind in (*p.NUMBERS, *p.COMPLEX)),
    p.STREAMS,
)
