"""Log-probabilities of rows of scores: ``out = (x - max) - log(sum(exp(x - max)))``, as `best_tokens` has them.

``x`` and ``out (rows * width,)`` float32; a row of -inf stays one.  `limits`, where there are any, act on the scores.
"""

import math

import numpy as np

from ..beam.rows import Limits
from . import parts as p
from .parts import Array
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, limits: Limits, width: int, lo: int, hi: int) -> None:
    """Rows `lo` to `hi`."""
    unlimited = limits.allowed_from.size == 0 and limits.edited_at.size == 0 and limits.words == 0
    for r in range(lo, hi):
        begin = r * width
        for k in range(0 if unlimited else width):
            out[begin + k] = p.apply_limits(x[begin + k], k, r, limits)
        if unlimited:
            top, total = p.powers_of_row(x, begin, width, out, -1, 128)
        else:
            top, total = p.powers_of_row(out, begin, width, out, -1, 128)
        log = np.float32(np.log(total))
        if top == -np.inf:  # there is nothing to divide
            top = np.float32(0)
            log = np.float32(0)
        for k in range(begin, begin + width):
            value = x[k] if unlimited else out[k]
            out[k] = (value - top) - log


def cuda(x: Array, out: Array, limits: Limits, width: int) -> None:
    """All rows, a block each."""
    parts = p.natural(gpu.shared.array(128, x.dtype))
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    r = gpu.blockIdx.x
    while r * width < x.size:
        top = x.dtype.type(-math.inf)
        k = me
        while k < width:
            place = r * width + k
            out[place] = p.apply_limits(x[place], k, r, limits)
            top = max(top, out[place])
            k += threads
        parts[me] = top
        top = p.max_of_block(parts, me, threads)
        gpu.syncthreads()
        empty = math.isinf(top) and top < 0
        if empty:
            top = x.dtype.type(0)
        total = x.dtype.type(0)
        blocks = p.wide(total)
        taken = 0
        k = me
        while k < width:
            total += p.exp(out[r * width + k] - top)
            k += threads
            taken += 1
            if taken & 7 == 0:
                blocks += p.wide(total)
                total = x.dtype.type(0)
        parts[me] = blocks + p.wide(total)
        p.sum_of_block(parts, me, threads)
        log = x.dtype.type(0)
        if not empty:
            log = p.ln(parts[0])
        k = me
        while k < width:
            out[r * width + k] = (out[r * width + k] - top) - log
            k += threads
        gpu.syncthreads()
        r += gpu.gridDim.x


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", p.alike(("f4",), 5))
