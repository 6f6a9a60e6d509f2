"""Mark the pairs of rows in the same sequence: a square of 0 and 1 with a block for each.

``out (rows * rows,)`` bytes; sequence i has the rows ``cum[i]`` to ``cum[i + 1]``; where `causal` is 1, a row sees
itself and what comes before it.
"""

from . import parts as p
from .parts import Array, Integers
from .parts.names import gpu


@p.compiled
def cpu(out: Array, cum: Integers, causal: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; `width` is the number of rows."""
    for i in range(lo, hi):
        for r in range(cum[i], cum[i + 1]):
            p.clear(out, r * width, width)
            part = out[r * width + cum[i] : r * width + (r + 1 if causal else cum[i + 1])]
            for k in range(part.size):
                part[k] = 1


def cuda(out: Array, cum: Integers, causal: int, width: int) -> None:
    """All rows, a line of threads each."""
    for r in range(p.first_unit(), width, p.units_of_grid()):
        i = p.search(cum, r)
        end = r + 1 if causal else cum[i + 1]
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            out[r * width + k] = 1 if cum[i] <= k and k < end else 0


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", (("u1",),))
