"""The gradients of `advantage_rows`, from the beginning of every sequence on.

``dadvantages`` and ``dreturns`` are the gradients of what it has written, the latter empty where it had no values; the
other arrays are those of `advantage_rows`.  ``drewards``, ``dvalues`` and ``dafter`` are the gradients for what it has
taken: the second is empty where there were no values, the last begins as zeros, or is empty where nobody asks.

With g the gradient of the advantage of a step: ``g = dadvantage + dreturn + gamma * lam * (g of the step before)``,
which is that of its reward, and of all rewards behind it that belong to it.
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
    dadvantages: Array,
    dreturns: Array,
    gamma: Array,
    lam: Array,
    marks: Array,
    ends: Array,
    drewards: Array,
    dvalues: Array,
    dafter: Array,
    at: Layout,
    by_row: int,
    width: int,  # noqa: ARG001  as in every kernel
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; a lane of numbers, so that no jump depends on the marks."""
    masked, ending, valued, asked = marks.size > 0, ends.size > 0, dvalues.size > 0, dafter.size > 0
    slopes, more, of_rewards, of_values = pointer(dadvantages), pointer(dreturns), pointer(drewards), pointer(dvalues)
    of_after, like, where, one = pointer(dafter), pointer(gamma), pointer(at), unknown(1)
    zero = each(like, 0.0, 1)
    for u in range(lo, hi):
        i, first, length = locate(where, u)
        discount = gamma[i if gamma.size > 1 else 0]
        decay = each(like, discount * lam[i if lam.size > 1 else 0], 1)
        factor = each(like, discount, 1)
        g = zero
        t = 0
        while t < length:
            row = first + along(where, t)
            whole = load(more, row, 1, like) if valued else zero
            found = load(slopes, row, 1, like) + whole + decay * g
            value = whole - found + factor * g
            if masked:
                is_step = nonzero(each(like, float(marks[row]), 1))
                found, value = choose(is_step, found, g), choose(is_step, value, zero)
            g = found
            store(of_rewards, row, g)
            if valued:
                store(of_values, row, value)
            if t == length - 1 or (ending and ends[row] != 0):
                if asked and by_row != 0:
                    store(of_after, row, factor * g)
                elif asked and t == length - 1:
                    store(of_after, i, factor * g)
                g = zero
            t += one


def cuda(
    dadvantages: Array,
    dreturns: Array,
    gamma: Array,
    lam: Array,
    marks: Array,
    ends: Array,
    drewards: Array,
    dvalues: Array,
    dafter: Array,
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
        g = zero_in(gamma)
        t = 0 if gpu.threadIdx.x == 0 and gpu.blockIdx.y == 0 else length
        while t < length:
            row = first + along(at, t)
            before, value = g, zero_in(gamma)
            if marks.size == 0 or marks[row] != 0:
                whole = number_in(gamma, dreturns[row]) if dvalues.size != 0 else zero_in(gamma)
                g = number_in(gamma, dadvantages[row]) + whole + times(decay, before)
                value = whole - g + times(discount, before)
            drewards[row] = item_in(drewards, g)
            if dvalues.size != 0:
                dvalues[row] = item_in(dvalues, value)
            if t == length - 1 or (ends.size != 0 and ends[row] != 0):
                if dafter.size != 0 and (by_row != 0 or t == length - 1):
                    dafter[row if by_row != 0 else i] = item_in(dafter, discount * g)
                g = zero_in(gamma)
            t += 1
        u += units_of_grid()


KERNEL = KernelSpec(
    cpu, cuda, CALCULATES, "units", tuple((kind, kind, "f8", "f8", "u1", "u1", kind, kind, kind) for kind in FLOATS)
)
