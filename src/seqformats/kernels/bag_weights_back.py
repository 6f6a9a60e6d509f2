"""The gradient of the weights of bags: the product of the row of each id with the gradient of its bag, less a shift.

``x (rows * deep,)`` is the table, whose rows the ids of bag i name, ``ids[cum[i]:cum[i + 1]]``; ``slopes (n * deep,)``
are the gradients of the bags, ``shifts (n,)`` what is taken off, and ``out`` has a number for each id.
"""

from .parts import (
    CALCULATES,
    FLOATS,
    STREAMS,
    Array,
    Integers,
    KernelSpec,
    alike,
    compiled,
    dot,
    each,
    fold_add,
    load,
    pointer,
)
from .parts.names import gpu, search


@compiled
def cpu(
    x: Array,
    slopes: Array,
    shifts: Array,
    ids: Integers,
    out: Array,
    cum: Integers,
    deep: int,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
    lo: int,
    hi: int,
) -> None:
    """Bags `lo` to `hi`."""
    x, slopes, shifts, ids, out = pointer(x), pointer(slopes), pointer(shifts), pointer(ids), pointer(out)
    even = deep & -16
    for i in range(lo, hi):
        for p in range(cum[i], cum[i + 1]):
            row, slope = ids[p] * deep, i * deep
            lanes = each(out, 0, 16)
            k = 0
            while k < even:
                lanes += load(x, row + k, 16, out) * load(slopes, slope + k, 16, out)
                k += 16
            total = fold_add(lanes)
            while k < deep:
                total += x[row + k] * slopes[slope + k]
                k += 1
            out[p] = total - shifts[i]


def cuda(
    x: Array,
    slopes: Array,
    shifts: Array,
    ids: Integers,
    out: Array,
    cum: Integers,
    deep: int,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
) -> None:
    """All ids, a thread each."""
    p = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while p < cum[cum.size - 1]:
        i = search(cum, p)
        out[p] = dot(x, ids[p] * deep, slopes, i * deep, deep) - shifts[i]
        p += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "rows", alike(FLOATS, 4), STREAMS)
