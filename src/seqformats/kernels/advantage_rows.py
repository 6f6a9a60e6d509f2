"""Advantages and returns of every sequence of steps, in float64 from its end on, by generalized advantage estimation.

``rewards`` and ``values``, or none for values of zero, hold a number an item in one layout, see `Layout`, as do
``advantages`` and ``returns``; ``marks`` and ``ends``, a byte an item, lie in the same or are empty.  Items with a mark
of 0 are no steps: their values are not looked at, their results are 0, and their rewards belong to the step before them
in the same episode.  An episode ends with an item whose byte in ``ends`` is not 0, and with the sequence.

``gamma`` and ``lam`` are one number or one a sequence.  ``after`` are the values of what would have followed: `by_row`
1 for one an item, read where an episode ends, 0 for one a sequence, read at its end; or none, for zeros.

With v the value of the step before which it stands in the loop: ``advantage = (reward + gamma * v - value) + gamma *
lam * advantage``, and a return is an advantage plus the value.  Reference: Schulman, Moritz, Levine, Jordan and Abbeel,
"High-Dimensional Continuous Control Using Generalized Advantage Estimation" (2016), equation 16.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    KernelSpec,
    Layout,
    along,
    choose,
    compiled,
    each,
    load,
    locate,
    nonzero,
    pointer,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import first_unit, units_of_grid
    from .parts.gpu import gpu, item_in, number_in, times, zero_in


@compiled
def cpu(
    rewards: Array,
    values: Array,
    gamma: Array,
    lam: Array,
    marks: Array,
    ends: Array,
    after: Array,
    advantages: Array,
    returns: Array,
    at: Layout,
    by_row: int,
    width: int,  # noqa: ARG001  as in every kernel
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; a lane of numbers, so that no jump depends on the marks."""
    masked, ending, valued, known = marks.size > 0, ends.size > 0, values.size > 0, after.size > 0
    earned, worth, made, sums, like = (
        pointer(rewards),
        pointer(values),
        pointer(advantages),
        pointer(returns),
        pointer(gamma),
    )
    where, one = pointer(at), unknown(1)
    zero = each(like, 0.0, 1)
    for u in range(lo, hi):
        i, first, length = locate(where, u)
        discount = gamma[i if gamma.size > 1 else 0]
        decay = each(like, discount * lam[i if lam.size > 1 else 0], 1)
        factor = each(like, discount, 1)
        advantage, strays, following = zero, zero, zero
        t = length - 1
        if known and length > 0:
            following = each(like, after[first + along(where, t) if by_row != 0 else i], 1)
        while t >= 0:
            row = first + along(where, t)
            if ending and ends[row] != 0 and t != length - 1:
                advantage, strays, following = zero, zero, zero
                if known and by_row != 0:
                    following = each(like, after[row], 1)
            reward = load(earned, row, 1, like) + strays
            value = load(worth, row, 1, like) if valued else zero
            found = (reward + factor * following - value) + decay * advantage
            if masked:
                is_step = nonzero(each(like, float(marks[row]), 1))
                advantage = choose(is_step, found, advantage)
                following = choose(is_step, value, following)
                strays = choose(is_step, zero, reward)
                store(made, row, choose(is_step, found, zero))
                if valued:
                    store(sums, row, choose(is_step, found + value, zero))
            else:
                advantage, following = found, value
                store(made, row, found)
                if valued:
                    store(sums, row, found + value)
            t -= one


def cuda(
    rewards: Array,
    values: Array,
    gamma: Array,
    lam: Array,
    marks: Array,
    ends: Array,
    after: Array,
    advantages: Array,
    returns: Array,
    at: Layout,
    by_row: int,
    width: int,  # noqa: ARG001  as in every kernel
) -> None:
    """All units, a thread each."""
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        discount = gamma[i if gamma.size > 1 else 0]
        decay = discount * lam[i if lam.size > 1 else 0]
        advantage, strays, following = zero_in(gamma), zero_in(gamma), zero_in(gamma)
        if after.size != 0 and length > 0:
            following = number_in(gamma, after[first + along(at, length - 1) if by_row != 0 else i])
        t = length - 1 if gpu.threadIdx.x == 0 and gpu.blockIdx.y == 0 else -1
        while t >= 0:
            row = first + along(at, t)
            if ends.size != 0 and ends[row] != 0 and t != length - 1:
                advantage, strays, following = zero_in(gamma), zero_in(gamma), zero_in(gamma)
                if after.size != 0 and by_row != 0:
                    following = number_in(gamma, after[row])
            reward = number_in(gamma, rewards[row]) + strays
            made, total = zero_in(gamma), zero_in(gamma)
            strays = reward
            if marks.size == 0 or marks[row] != 0:
                value = number_in(gamma, values[row]) if values.size != 0 else zero_in(gamma)
                advantage = (reward + times(discount, following) - value) + times(decay, advantage)
                following, strays = value, zero_in(gamma)
                made, total = advantage, advantage + value
            advantages[row] = item_in(advantages, made)
            if values.size != 0:
                returns[row] = item_in(returns, total)
            t -= 1
        u += units_of_grid()


KERNEL = KernelSpec(
    cpu, cuda, CALCULATES, "units", tuple((kind, kind, "f8", "f8", "u1", "u1", kind, kind, kind) for kind in FLOATS)
)
