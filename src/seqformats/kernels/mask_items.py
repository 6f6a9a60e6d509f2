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

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    STREAMS,
    Array,
    Integers,
    KernelSpec,
    Layout,
    along,
    below,
    compiled,
    draw,
    locate,
    one_of,
    place_of,
    shared,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, natural


@shared
def another(i: int, t: int, tokens: Integers, numbers: Integers) -> Any:
    """A random item in the place of item t of sequence i."""
    k = below(numbers[5], draw(numbers[0], 2, i, t)[0], numbers[0], 2, i, t)
    return tokens[k] if tokens.size != 0 else k


@compiled
def cpu(
    x: Array,
    held: Array,
    begins: Array,
    out: Array,
    labels: Integers,
    chosen: Array,
    at: Layout,
    special: Integers,
    tokens: Integers,
    numbers: Integers,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    seed, rate, masked, changed = numbers[0], numbers[1], numbers[2], numbers[3]
    mask, none = numbers[4], numbers[6]
    low = special[0] if special.size != 0 else 1
    high = special[special.size - 1] if special.size != 0 else 0
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        four = draw(seed, 0, i, 0)
        block = 0
        word = 0
        for t in range(length):
            p = first + along(at, t)
            if begins.size == 0 or begins[p] != 0:
                word = t
                if word >> 2 != block:
                    block = word >> 2
                    four = draw(seed, 0, i, block)
            token = x[p]
            bits = one_of(four, word & 3)
            pick = bits < rate
            if low <= token <= high:
                pick = pick and place_of(special, 0, special.size, token) < 0
            if held.size != 0:
                pick = pick and held[p] == 0
            if begins.size != 0 and pick:
                bits = one_of(draw(seed, 1, i, t >> 2), t & 3)
            changes = pick and bits < changed  # without branches, which random numbers would mislead
            made = mask if changes else token
            if changes and bits >= masked:
                made = another(i, t, tokens, numbers)
            out[p] = made
            labels[p] = token if pick else none
            chosen[p] = 1 if pick else 0


def cuda(
    x: Array,
    held: Array,
    begins: Array,
    out: Array,
    labels: Integers,
    chosen: Array,
    at: Layout,
    special: Integers,
    tokens: Integers,
    numbers: Integers,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
) -> None:
    """All units, a block each, a thread an item; where there are words, the block finds where each item's begins."""
    begun = natural(gpu.shared.array(128, at.cum.dtype))
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        word = 0  # where the last word of the turns before begins
        turn = 0
        while turn < length:  # the same turns for the whole block, which waits for each other below
            t = turn + me
            p = first
            if t < length:
                p = first + along(at, t)
            unit = t
            if begins.size != 0:
                begun[me] = t if t < length and begins[p] != 0 else word
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
                token = x[p]
                bits = one_of(draw(numbers[0], 0, i, unit >> 2), unit & 3)
                free = held.size == 0 or held[p] == 0
                pick = bits < numbers[1] and free and place_of(special, 0, special.size, token) < 0
                if begins.size != 0:
                    bits = one_of(draw(numbers[0], 1, i, t >> 2), t & 3)
                out[p] = token
                if pick and bits < numbers[3]:
                    out[p] = numbers[4] if bits < numbers[2] else another(i, t, tokens, numbers)
                labels[p] = token if pick else numbers[6]
                chosen[p] = 1 if pick else 0
            turn += threads
        u += gpu.gridDim.x


KERNEL = KernelSpec(
    cpu,
    cuda,
    CALCULATES,
    "blocks",
    tuple((kind, "u1", "u1", kind, "u1") for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4")),
    STREAMS,
    rare=True,
)
