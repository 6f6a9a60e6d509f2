"""The gradient of `policy_rows` for the log-probabilities of the newer policy.

``dy``, the gradient of what it has written, its ``slopes``, and ``dx`` hold a number an item in one layout, see
`Layout`; ``marks``, a byte an item, lie in the same or are empty.  With `mean` 1 all steps of a sequence have the mean
of their products of gradient and slope.  ``like (0,)`` is of float64, in which these are added up.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


class Given(NamedTuple):
    """Gradients and slopes of results, and which items are steps."""

    dy: Array
    slopes: Array
    like: Array
    marks: Array


@p.compiled
def cpu(given: Given, dx: Array, at: Layout, mean: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    dy, slopes, _, marks = given
    masked = marks.size > 0
    for u in range(lo, hi):
        _, first, length = p.locate(at, u)
        each = 0.0
        if mean != 0:
            total, number = 0.0, 0
            for t in range(length):
                row = first + p.along(at, t)
                if not masked or marks[row] != 0:
                    total += float(dy[row]) * float(slopes[row])
                    number += 1
            each = total / max(number, 1)
        for t in range(length):
            row = first + p.along(at, t)
            if masked and marks[row] == 0:
                dx[row] = 0.0
            elif mean != 0:
                dx[row] = each
            else:
                dx[row] = float(dy[row]) * float(slopes[row])


def cuda(given: Given, dx: Array, at: Layout, mean: int, width: int) -> None:
    """All units, a block each, whose threads share the steps."""
    dy, slopes, like, marks = given
    parts = p.natural(gpu.shared.array(128, like.dtype))
    slot = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        _, first, length = p.locate(at, u)
        each = p.zero_in(like)
        if mean != 0:
            total, number = p.zero_in(like), p.zero_in(like)
            for t in range(gpu.threadIdx.y, length, gpu.blockDim.y):
                row = first + p.along(at, t)
                if marks.size == 0 or marks[row] != 0:
                    total += p.number_in(like, dy[row]) * p.number_in(like, slopes[row])
                    number += p.number_in(like, 1)
            parts[slot] = total
            p.tree_sum(parts, slot)
            total = parts[0]
            gpu.syncthreads()  # before the memory is used again
            parts[slot] = number
            p.tree_sum(parts, slot)
            each = total / max(parts[0], p.number_in(like, 1))
            gpu.syncthreads()
        for t in range(gpu.threadIdx.y, length, gpu.blockDim.y):
            row = first + p.along(at, t)
            value = p.zero_in(like)
            if marks.size == 0 or marks[row] != 0:
                value = each
                if mean == 0:
                    value = p.number_in(like, dy[row]) * p.number_in(like, slopes[row])
            dx[row] = p.item_in(dx, value)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", tuple((kind, kind, "f8", "u1", kind) for kind in p.FLOATS))
