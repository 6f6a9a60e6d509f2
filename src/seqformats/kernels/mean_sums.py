"""A mean over all sequences of what `marked_sums` has found, and the weight of an item of each sequence in it.

``sums (n * 3,)``; ``how (3,)``: a length that all sequences are said to have, or 0; how many items, or sequences, there
are in all, or -1 for those that count here; and a factor.  `each` 0: the sum over all items that count, divided by
their number; 1: the sum over sequences of their mean, or of their sum divided by the length, divided by the number of
those that have items that count.  ``out (1,)`` and ``weights (n,)``, float64; one unit has all the work.
"""

from . import parts as p
from .parts import Array
from .parts.names import gpu


@p.compiled
def cpu(sums: Array, how: Array, out: Array, weights: Array, each: int, width: int, lo: int, hi: int) -> None:
    """The one unit."""
    for _ in range(lo, hi):
        whole = how[1]
        if whole < 0.0:
            whole = 0.0
            for i in range(weights.size):
                if each == 0:
                    whole += sums[3 * i]
                elif sums[3 * i] > 0.0:
                    whole += 1.0
        total = 0.0
        for i in range(weights.size):
            weight = 0.0
            if sums[3 * i] > 0.0:
                weight = how[2] / whole
                if each != 0:
                    weight /= how[0] if how[0] > 0.0 else sums[3 * i]
                total += sums[3 * i + 1] * weight
            weights[i] = weight
        out[0] = total


def cuda(sums: Array, how: Array, out: Array, weights: Array, each: int, width: int) -> None:
    """The one unit, by one thread, since there are few sequences."""
    if gpu.grid(1) == 0:
        whole = how[1]
        if whole < 0:
            whole = p.zero_in(how)
            for i in range(weights.size):
                if each == 0:
                    whole += sums[3 * i]
                elif sums[3 * i] > 0:
                    whole += p.number_in(how, 1)
        total = p.zero_in(how)
        for i in range(weights.size):
            weight = p.zero_in(how)
            if sums[3 * i] > 0:
                weight = how[2] / whole
                if each != 0:
                    weight /= how[0] if how[0] > 0 else sums[3 * i]
                total += sums[3 * i + 1] * weight
            weights[i] = weight
        out[0] = p.item_in(out, total)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", (("f8", "f8", "f8", "f8"),))
