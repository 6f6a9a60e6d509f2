"""Functions that CUDA kernels of beam search share; as `device`, which has those of all others."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .code import Item
from .options import plain_on_cuda
from .record import Array

if TYPE_CHECKING:  # put among the globals before the function is compiled, by `gpu`, which imports this file
    bits_of: Any = None
    float_of: Any = None
    gpu: Any = None
    quick_exp: Any = None


@plain_on_cuda
def candidate_key(value: float, token: int) -> Any:
    """A number that is the larger, the better a candidate is: the bits of a float32 in their order, then the token."""
    bits = bits_of(value + np.float32(0))  # -0.0 becomes 0.0, since they are equal
    return (bits if bits >= 0 else bits ^ 0x7FFFFFFF) << 32 | (0xFFFFFFFF - token)


@plain_on_cuda
def ranked(keys: Array, count: int, key: int) -> int:
    """How many of the first keys are larger."""
    rank = np.uint32(0)
    k = 0
    while k < count:  # a range takes as many instructions for each number as the rest
        if keys[k] > key:
            rank = np.uint32(rank + np.uint32(1))
        k += 1
    return int(rank)


@plain_on_cuda
def value_of_key(key: int) -> Any:
    """The value of a candidate."""
    bits = key >> 32
    return float_of(bits if bits >= 0 else bits ^ 0x7FFFFFFF)


@plain_on_cuda
def token_of_key(key: int) -> int:
    """Its token."""
    return 0xFFFFFFFF - (key & 0xFFFFFFFF)


@plain_on_cuda
def added_group(top: Item, total: Item, group: int) -> Any:
    """The largest score so far, and the sum of exponentials below it, with those of a group; see `group_scores`."""
    high = float_of(group >> 32)
    more = float_of(group & 0xFFFFFFFF)
    if high > top:
        return high, total * quick_exp(top - high) + more
    if high > -math.inf:
        return top, total + more * quick_exp(high - top)
    return top, total + more


@plain_on_cuda
def tree_powers(largest: Array, sums: Array, threads: int) -> None:
    """The largest score of so many threads, and the sum of exponentials below it, from all of them to the first.

    All threads of the block come here.
    """
    me = gpu.threadIdx.x
    none = largest.dtype.type(-math.inf)
    gpu.syncthreads()
    half = threads >> 1
    while half > 0:
        if me < half:
            other = largest[me + half]
            top = max(largest[me], other)
            if top > none:
                total = sums[me] * quick_exp(largest[me] - top) + sums[me + half] * quick_exp(other - top)
            else:
                total = sums[me] + sums[me + half]
            largest[me] = top
            sums[me] = total
        gpu.syncthreads()
        half >>= 1


KEYS = {
    function.__name__: function
    for function in (candidate_key, ranked, value_of_key, token_of_key, added_group, tree_powers)
}
