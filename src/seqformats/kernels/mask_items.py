"""Choose items at random, and put a mask in their place: what a masked language model is to guess.

`x` holds the items in a layout, see `Layout`; `out`, `labels` and `chosen` have the same, `labels` of int64.  Of a
chosen item ``out`` has something else most of the time, and ``labels`` the item; of others ``labels`` has what stands
for none.  ``held`` has 1 for items that are never chosen, and `special`, sorted, the items that never are; ``begins``
has 1 where a word begins, whose items are chosen together.  Each of these three may be empty.  An item becomes one of
`tokens`, or, where these are none, a number below the limit.

``numbers`` are the seed; out of 2^32, below which number an item or a word is chosen, below which a chosen item becomes
the mask, and below which the mask or another item; the mask; the number of other items; the label of what is not
chosen.  The number by which an item is chosen says what becomes of it, too.  One of a word has its own number for that.
"""

from typing import Any, NamedTuple

from ..operations.choices import Masking
from . import parts as p
from .parts import Array, Integers, Layout
from .parts.names import gpu


class Given(NamedTuple):
    """The items, which of them are never chosen, and where words begin."""

    x: Array
    held: Array
    begins: Array


class Results(NamedTuple):
    """Results, a number an item."""

    out: Array
    labels: Integers
    chosen: Array


@p.shared
def another(i: int, t: int, tokens: Integers, numbers: Integers) -> Any:
    """A random item in the place of item t of sequence i."""
    k = p.draw_integer(numbers[5], p.draw(numbers[0], 2, i, t)[0], numbers[0], 2, i, t)
    return tokens[k] if tokens.size != 0 else k


@p.compiled
def cpu(given: Given, results: Results, at: Layout, how: Masking, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    x, held, begins = given
    out, labels, chosen = results
    special, tokens, numbers = how
    seed, rate, masked, changed = numbers[0], numbers[1], numbers[2], numbers[3]
    mask, none = numbers[4], numbers[6]
    low = special[0] if special.size != 0 else 1
    high = special[special.size - 1] if special.size != 0 else 0
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        four = p.draw(seed, 0, i, 0)
        block = 0
        word = 0
        for t in range(length):
            q = first + p.along(at, t)
            if begins.size == 0 or begins[q] != 0:
                word = t
                if word >> 2 != block:
                    block = word >> 2
                    four = p.draw(seed, 0, i, block)
            token = x[q]
            bits = p.one_of(four, word & 3)
            pick = bits < rate
            if low <= token <= high:
                pick = pick and p.place_of(special, 0, special.size, token) < 0
            if held.size != 0:
                pick = pick and held[q] == 0
            if begins.size != 0 and pick:
                bits = p.one_of(p.draw(seed, 1, i, t >> 2), t & 3)
            changes = pick and bits < changed  # without branches, which random numbers would mislead
            made = mask if changes else token
            if changes and bits >= masked:
                made = another(i, t, tokens, numbers)
            out[q] = made
            labels[q] = token if pick else none
            chosen[q] = 1 if pick else 0


def cuda(given: Given, results: Results, at: Layout, how: Masking, width: int) -> None:
    """All units, a block each, a thread an item; where there are words, the block finds where each item's begins."""
    x, held, begins = given
    out, labels, chosen = results
    special, tokens, numbers = how
    begun = p.natural(gpu.shared.array(128, at.cum.dtype))
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        word = 0  # where the last word of the turns before begins
        for turn in range(0, length, threads):  # the same turns for the whole block, which waits for each other below
            t = turn + me
            q = first
            if t < length:
                q = first + p.along(at, t)
            unit = t
            if begins.size != 0:
                begun[me] = t if t < length and begins[q] != 0 else word
                gpu.syncthreads()
                step = 1
                while step < threads:  # the last of those before, by ever larger steps
                    before = begun[me - step] if me >= step else 0
                    gpu.syncthreads()
                    if before > begun[me]:
                        begun[me] = before
                    gpu.syncthreads()
                    step <<= 1
                unit = begun[me]
                word = begun[threads - 1]
                gpu.syncthreads()
            if t < length:
                token = x[q]
                bits = p.one_of(p.draw(numbers[0], 0, i, unit >> 2), unit & 3)
                free = held.size == 0 or held[q] == 0
                pick = bits < numbers[1] and free and p.place_of(special, 0, special.size, token) < 0
                if begins.size != 0:
                    bits = p.one_of(p.draw(numbers[0], 1, i, t >> 2), t & 3)
                out[q] = token
                if pick and bits < numbers[3]:
                    out[q] = numbers[4] if bits < numbers[2] else another(i, t, tokens, numbers)
                labels[q] = token if pick else numbers[6]
                chosen[q] = 1 if pick else 0


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "blocks",
    tuple((kind, "u1", "u1", kind, "u1") for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4")),
    p.STREAMS,
    rare=True,
)
