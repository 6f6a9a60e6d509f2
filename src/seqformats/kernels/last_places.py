"""Find, for every number of a sequence, where the last valid one of its column stands, itself included.

`x` holds the sequences as `at` says, in blocks, marks of bytes, of which those that are not 0 are valid, or with
`marks` 0 numbers, of which NaN are not.  ``out (rows * width,)``: places among the ``length * width`` numbers of the
sequence, one sequence after the other; the place of the number itself where none before it is valid.
"""

from typing import Any

from . import parts as p
from .parts import Array, Integers, Item, Layout
from .parts.names import gpu


@p.shared
def is_valid(value: Item, marks: int) -> Any:
    """Tell whether a number is a mark that is set, or not NaN."""
    return value != 0 if marks else value == value


@p.compiled
def cpu(x: Array, out: Integers, at: Layout, marks: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    rows, places = p.pointer(x), p.pointer(out)
    cum = at.cum
    at = p.pointer(at)
    for i in range(lo, hi):
        _, first, length = p.locate(at, i)
        begin = cum[i] * width
        first *= width
        if width == 1:
            last = -1
            for t in range(length):
                last = t if is_valid(rows[first + t], marks) else last
                places[begin + t] = last if last >= 0 else t
            continue
        for q in range(length * width):
            before = places[begin + q - width] if q >= width else q
            # a number that is its own place need not be valid: it may be one of those before the first
            known = q >= width and is_valid(rows[first + before], marks)
            places[begin + q] = before if known and not is_valid(rows[first + q], marks) else q


def cuda(x: Array, out: Integers, at: Layout, marks: int, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    ends = p.natural(gpu.shared.array(128, at.cum.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        share = (length + gpu.blockDim.y - 1) // gpu.blockDim.y
        start = p.at_most(gpu.threadIdx.y * share, length)
        stop = p.at_most(start + share, length)
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            last = -1
            if k < width:
                for t in range(start, stop):
                    if is_valid(x[(first + t) * width + k], marks):
                        last = t
            ends[place] = last
            gpu.syncthreads()
            last = -1
            for y in range(gpu.threadIdx.y):  # the last one of the threads before
                last = max(last, ends[y * gpu.blockDim.x + gpu.threadIdx.x])
            if k < width:
                for t in range(start, stop):
                    if is_valid(x[(first + t) * width + k], marks):
                        last = t
                    out[(at.cum[i] + t) * width + k] = (last if last >= 0 else t) * width + k
            gpu.syncthreads()  # before the memory is used again


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", (("f4",), ("f8",), ("u1",)))
