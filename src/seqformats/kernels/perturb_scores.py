"""Gumbel noise for sampling without replacement (Kool, van Hoof and Welling 2019, "Stochastic Beams").

``x (rows * width,)`` float32 are log-probabilities, ``running (rows,)`` the log-probability of each row so far,
``perturbed (rows,)`` the same with its noise; ``hashes (rows,)`` int64 stand for its tokens.  ``out (rows * width,)``
becomes the perturbed log-probability of every candidate, so shifted that the largest of a row is that of the row.
"""

import math
from typing import Any

import numpy as np

from . import parts as p
from .parts import Array, Integers
from .parts.names import gpu


@p.shared
def hash_bits(x: int) -> int:
    """A hash of 32 bits, in an integer of 64: xor-shifts and multiplications (C. Wellons, hash-prospector)."""
    x ^= x >> 15
    x = (x * 0x2C1B3C6D) & 0xFFFFFFFF
    x ^= x >> 12
    x = (x * 0x297A2D39) & 0xFFFFFFFF
    return x ^ (x >> 15)


@p.shared
def noisy(x: float, running: float, key: int, token: int) -> Any:
    """The log-probability of a candidate with Gumbel noise that depends on its tokens alone."""
    bits = hash_bits(hash_bits(key) ^ (token + 1))
    u = (np.float32(bits) + np.float32(0.5)) * np.float32(2.0**-32)  # fine near 0, where the noise is large
    u = min(u, np.float32(0.9999999))
    return (running + x) - np.float32(math.log(-np.float32(math.log1p(-u))))


@p.shared
def shift_noise(g: float, top: float, limit: float) -> Any:
    """A noisy value of a row whose largest is `top`, on condition that the largest were `limit`."""
    if not g < top:
        return limit
    v = limit - g + np.float32(math.log1p(-p.exp(g - top)))
    return limit - max(v, np.float32(0)) - np.float32(math.log1p(p.exp(-abs(v))))


@p.compiled
def cpu(x: Array, running: Array, perturbed: Array, out: Array, hashes: Integers, width: int, lo: int, hi: int) -> None:
    """Rows `lo` to `hi`."""
    none = np.float32(-np.inf)
    for r in range(lo, hi):
        top = none
        for token in range(width):
            place = r * width + token
            out[place] = none
            if x[place] != x[place]:
                out[place] = x[place]
            elif x[place] > none:
                out[place] = noisy(x[place], running[r], hashes[r], token)
                top = max(top, out[place])
        for place in range(r * width, (r + 1) * width):
            if out[place] > none:
                out[place] = shift_noise(out[place], top, perturbed[r])


def cuda(x: Array, running: Array, perturbed: Array, out: Array, hashes: Integers, width: int) -> None:
    """All rows, a block each."""
    parts = p.natural(gpu.shared.array(128, x.dtype))
    me = gpu.threadIdx.x
    none = x.dtype.type(-math.inf)
    for r in range(gpu.blockIdx.x, running.size, gpu.gridDim.x):
        parts[me] = none
        for token in range(me, width, gpu.blockDim.x):
            place = r * width + token
            out[place] = none
            if x[place] != x[place]:
                out[place] = x[place]
            elif x[place] > none:
                out[place] = noisy(x[place], running[r], hashes[r], token)
                parts[me] = max(parts[me], out[place])
        p.max_of_block(parts, me, gpu.blockDim.x)
        for token in range(me, width, gpu.blockDim.x):
            place = r * width + token
            if out[place] > none:
                out[place] = shift_noise(out[place], parts[0], perturbed[r])
        gpu.syncthreads()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", p.alike(("f4",), 4))
