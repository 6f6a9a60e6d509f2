"""Functions that CUDA kernels of beam search share; as `device`, which has those of all others."""

import math
from typing import Any

import numpy as np

from .code import Item
from .names import bits_of, float_of, gpu, quick_exp
from .options import plain_on_cuda
from .record import Array


@plain_on_cuda
def candidate_key(value: float, token: int) -> Any:
    """A number that is the larger, the better a candidate is: the bits of a float32 in their order, then the token."""
    bits = bits_of(value + np.float32(0))  # -0.0 becomes 0.0, since they are equal
    return (bits if bits >= 0 else bits ^ 0x7FFFFFFF) << 32 | (0xFFFFFFFF - token)


@plain_on_cuda
def count_larger(keys: Array, count: int, key: int) -> int:
    """Count the first keys that are larger."""
    rank = np.uint32(0)
    for k in range(0, count, 1):  # with a step, which `loops` makes as short as it can be
        if keys[k] > key:
            rank = np.uint32(rank + np.uint32(1))
    return int(rank)


@plain_on_cuda
def value_of_key(key: int) -> Any:
    """The value of a candidate."""
    bits = key >> 32
    return float_of(bits if bits >= 0 else bits ^ 0x7FFFFFFF)


@plain_on_cuda
def token_of_key(key: int) -> int:
    """Read the token of a key."""
    return 0xFFFFFFFF - (key & 0xFFFFFFFF)


@plain_on_cuda
def added_group(top: Item, total: Item, group: int) -> Any:
    """The largest score so far, and the sum of exponentials below it, with those of a group; see `best_of_groups`."""
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


@plain_on_cuda
def came_last(counters: Array, place: int, count: int, told: Array) -> Any:
    """Tell whether this is the last block to come to this place, which sees all that the others have written.

    It leaves the counter at 0.  All threads of a block come here; `told` is its memory.  What a block has written is
    there before the barrier, so that the fence of one thread is for all of them.

    Reference: NVIDIA, "PTX ISA", Memory Consistency Model.
    """
    gpu.syncthreads()
    if gpu.threadIdx.x == 0:
        before = count - 1
        if count > 1:
            gpu.threadfence()
            before = gpu.atomic.add(counters, place, 1)
            if before == count - 1:
                counters[place] = 0
                gpu.threadfence()
        told[0] = before
    gpu.syncthreads()
    last = told[0] == count - 1
    gpu.syncthreads()  # before the memory is used again
    return last


@plain_on_cuda
def merge_rows(work: Item, out: Array, keys: Array, told: Array, rows: Any, most: int, to: int, width: int) -> None:
    """The best candidates of a beam, of the lists of rows from the first to the last, to a list of the results.

    A candidate's place is the number of better ones; of equal ones those of rows before, and of a row in its order.  Of
    up to 256 each is compared with all others, by `keys`, which are memory of the block; of more it is looked up in
    each list by halving, which waits for memory at every step.  All threads of the block come here.
    """
    first, last, first_of_part = rows
    me, threads = gpu.threadIdx.x, gpu.blockDim.x
    _, _, lists, listed, of_rows, places, counts, _ = work
    none = -0x7FFFFFFFFFFFFFFF  # the key of no candidate, which is less than any
    begin, size = of_rows + first * places, (last - first) * places
    if me == 0:
        told[0] = last
        told[1] = 0
    gpu.syncthreads()
    for j in range(me, size, threads):
        own = int(np.uint32(j) // np.uint32(places))
        place = j - own * places
        count = out[counts + first + own]
        if place == 0 and count < 0:
            gpu.atomic.min(told, 0, first + own)
        elif place == 0:
            gpu.atomic.add(told, 1, count)
        if size <= 256:
            keys[j] = (out[begin + j] >> 32 << 32) | (0xFFFFFFFF - j) if place < count else none
    gpu.syncthreads()
    bad = int(told[0])
    for j in range(me if bad == last else size, size, threads):
        own = first + int(np.uint32(j) // np.uint32(places))
        key = out[begin + j]
        rank = most
        if size <= 256:
            if keys[j] != none:
                rank = count_larger(keys, size, keys[j])
        elif begin + j - (of_rows + own * places) < out[counts + own]:
            rank = begin + j - (of_rows + own * places)
            value = key >> 32
            for r in range(first, last):
                if r != own:
                    low = of_rows + r * places
                    high = low + out[counts + r]
                    while low < high:
                        middle = (low + high) >> 1
                        other = out[middle] >> 32
                        if other > value or (other == value and r < own):
                            low = middle + 1
                        else:
                            high = middle
                    rank += low - (of_rows + r * places)
        if rank < most:
            place = lists + to * listed + rank
            out[place] = (own - first_of_part) * width + token_of_key(key)
            out[place + lists * listed] = bits_of(value_of_key(key))
    if me == 0:
        out[to] = min(int(told[1]), most) if bad == last else first_of_part - 1 - bad
    gpu.syncthreads()  # before the memory is used again


KEYS = {
    function.__name__: function
    for function in (
        candidate_key,
        count_larger,
        value_of_key,
        token_of_key,
        added_group,
        tree_powers,
        came_last,
        merge_rows,
    )
}
