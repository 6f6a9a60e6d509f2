"""Give every item the sequence's own row times the product of all other items of its column: the gradient of a product.

What comes before an item is multiplied from the beginning, what comes after it from the end, and nothing is divided, so
that zeros do no harm.

``x (n * width,)``, the gradient; `y`, the items, and `out` hold the sequences in the same layout, see `Layout`.  Of
complex items the conjugates count.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    COMPLEX,
    FLOATS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    alike,
    along,
    by_columns,
    columns_of,
    compiled,
    conjugated,
    item_at,
    load,
    locate,
    pointer,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu


@by_columns()
def spread(given: Any, columns: Columns, place: int, count: int) -> None:
    """`count` columns of a sequence, to which ``x[place:]`` belongs."""
    x, y, out = given
    length, one = columns.length, unknown(1)
    before = load(x, place, count, out)
    t = 0
    while t < length:
        d = item_at(columns, t)
        store(out, d, before)
        before = before * conjugated(load(y, d, count, out))
        t += one
    t = length - 1
    after = conjugated(load(y, item_at(columns, t), count, out))
    while t > 0:
        t -= one
        d = item_at(columns, t)
        store(out, d, load(out, d, count, out) * after)
        after = after * conjugated(load(y, d, count, out))


@compiled
def cpu(x: Array, y: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (pointer(x), pointer(y), pointer(out)), pointer(at)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        if columns.length != 0:
            spread(given, columns, i * width, 0, width)


def cuda(x: Array, y: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a thread a column of each."""
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            before = x[i * width + k]
            for t in range(length):
                d = (first + along(at, t)) * width + k
                out[d] = before
                before *= y[d].conjugate()
            after = out.dtype.type(1)
            for s in range(length):
                d = (first + along(at, length - 1 - s)) * width + k
                out[d] *= after
                after *= y[d].conjugate()
            k += columns_of_grid()
        u += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", (*alike(FLOATS, 3), *alike(COMPLEX, 3)))
