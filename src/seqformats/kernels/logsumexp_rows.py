"""The logarithm of the sum of exponentials of every sequence, column by column, with the maximum taken out first.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  An empty
sequence gives -inf.

Rows are added up 8 at a time, 8 of these sums in a block, and the blocks of float32 in float64.
"""

import math
from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


def logsumexp_few(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of a sequence of up to 8 rows: the same as `logsumexp`, for less."""
    x, out, _ = given
    length, one = columns.length, p.unknown(1)
    top = p.load(x, p.item_at(columns, 0), count, out)
    t = one
    while t < length:
        top = p.larger(top, p.load(x, p.item_at(columns, t), count, out))
        t += one
    infinite = (top == p.each(out, math.inf, count)) | (top == p.each(out, -math.inf, count))
    top = p.choose(infinite, p.each(out, 0, count), top)
    total = p.each(out, 0, count)
    t = 0
    while t < length:
        total += p.exp(p.load(x, p.item_at(columns, t), count, out) - top)
        t += one
    p.store(out, place, top + p.log(total))


@p.by_columns(some=8, few=logsumexp_few)
def logsumexp(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of a sequence, to ``out[place:]``."""
    x, out, blocks = given
    length, one = columns.length, p.unknown(1)
    ahead = p.at_least(8 * columns.step * columns.width, 1024)
    top = p.load(x, p.item_at(columns, 0), count, out)
    t = one
    while t < length:
        d = p.item_at(columns, t)
        if count >= 32:
            p.prefetch(x, d + ahead, count)
        value = p.load(x, d, count, out)
        top = p.larger(top, value)
        t += one
    infinite = (top == p.each(out, math.inf, count)) | (top == p.each(out, -math.inf, count))
    top = p.choose(infinite, p.each(out, 0, count), top)  # inf - inf would be NaN
    total = p.each(out, 0, count)
    t = 0
    end = p.at_most(length, 8)
    while True:
        part = p.each(out, 0, count)
        while t < end:
            part += p.exp(p.load(x, p.item_at(columns, t), count, out) - top)
            t += one
        total += part
        if end == length:
            break
        if end & 63 == 0:
            p.add_block(blocks, total, end == 64)
            total = p.each(out, 0, count)
        end = p.at_most(end + 8, length)
    if length > 64:
        total = p.round_sum(blocks, total)
    p.store(out, place, top + p.log(total))


@p.compiled
def cpu(x: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    logs, at = p.pointer(out), p.pointer(at)
    given = p.pointer(x), logs, p.room(logs)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        k = 0
        while k < width and columns.length == 0:
            p.store(logs, i * width + k, p.each(logs, -math.inf, 1))
            k += 1
        logsumexp(given, columns, i * width, k, width)


@p.block_per_sequence
def cuda(x: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns, slot: int) -> None:
    """A column of a sequence, by the threads of a block."""
    parts = p.natural(gpu.shared.array(128, x.dtype))
    top, total = p.column_powers(x, parts, slot, k, columns)
    if gpu.threadIdx.y == 0 and k < width:
        out[i * width + k] = top + p.ln(total)


@p.thread_per_column
def short(x: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    top, total = p.powers_of(x, columns, 0, 1)
    out[i * width + k] = top + p.ln(total)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 2), short=short, fours=True)
