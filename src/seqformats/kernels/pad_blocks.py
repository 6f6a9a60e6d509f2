"""Write the padding of a rectangle: what a sequence of Masked, or a step of Padded, leaves free of its room.

The rectangle has `room` rows a run; run k uses ``cum[k + 1] - cum[k]`` of them, none where `cum` has ended.  The free
rows are at the right, or at the left where `left` is 1.
"""

from . import parts as p
from .parts import Array, Integers
from .parts.names import gpu


@p.compiled
def cpu(item: int, out: int, cum: Integers, room: int, left: int, row: int, lo: int, hi: int) -> None:
    """Runs `lo` to `hi`; `out` is an address, and `item` that of the `row` bytes of one padding row, 0 for zeros."""
    zero = True
    for b in range(row if item != 0 else 0):
        if p.peek_byte(item + b) != 0:
            zero = False
    for k in range(lo, hi):
        used = cum[k + 1] - cum[k] if k + 1 < cum.size else 0
        begin = (k * room + (0 if left else used)) * row
        total = (room - used) * row
        if zero:
            p.clear(out, begin, total)
        elif total > 0:
            # one item, then twice as many at each turn
            p.move(out, begin, item, 0, row)
            done = row
            while done < total:
                step = p.at_most(done, total - done)
                p.move(out, begin + done, out, begin, step)
                done += step


def cuda(item: Array, out: Array, cum: Integers, room: int, left: int, row: int, runs: int) -> None:
    """All `runs`, the grid's y; along x a line of threads a free row of `row` machine words."""
    for k in range(gpu.blockIdx.y, runs, gpu.gridDim.y):
        used = cum[k + 1] - cum[k] if k + 1 < cum.size else 0
        begin = k * room + (0 if left else used)
        for f in range(p.first_unit(), room - used, p.units_of_grid()):
            for w in range(gpu.threadIdx.x, row, gpu.blockDim.x):
                p.move_word(out, (begin + f) * row + w, item, w)


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "runs")
