"""Divide a few sequences among bins so that the costliest costs as little as can be: branch and bound.

Sequences come by falling cost, and each tries all bins that have some and one that has none, since empty bins are
alike; of bins that are alike otherwise it tries one.  What would cost no less than the best division so far is left.
"""

from typing import Any

from . import parts as p
from .parts import Array, Integers


@p.shared
def is_copy(loads: Array, filled: Integers, counts: Integers, b: int) -> bool:
    """Tell whether a bin before this one costs and holds as much."""
    found = False
    for c in range(b):
        found |= loads[c] == loads[b] and filled[c] == filled[b] and counts[c] == counts[b]
    return found


@p.compiled
def cpu(costs: Array, sizes: Integers, values: Array, numbers: Integers, of: Integers, limits: Integers) -> Any:
    """Write the bin of each sequence to ``of (n,)`` where that is better; returns how many steps were left.

    ``costs (n,)`` falls; ``sizes (n,)`` are items.  ``values (2 + bins + 2 * n + 1,)`` begins with what the costliest
    bin costs in the best division so far, which is changed, and with what is as good as can be.  ``numbers (2 * bins +
    2 * n + 1,)`` is workspace.  ``limits (4,)``: the number of bins, their capacity, 1 where numbers of sequences may
    differ by one at most, and how many steps to take.
    """
    n, bins, capacity, left = costs.size, limits[0], limits[1], limits[3]
    loads, before, top = values[2 : 2 + bins], values[2 + bins : 2 + bins + n], values[2 + bins + n :]
    filled, counts = numbers[:bins], numbers[bins : 2 * bins]
    choice, opened = numbers[2 * bins : 2 * bins + n], numbers[2 * bins + n :]
    low, more = n // bins, n % bins  # with equal counts `more` bins have one sequence more than `low`
    for b in range(bins):
        loads[b] = 0.0
        filled[b] = counts[b] = 0
    depth, longer = 0, 0
    choice[0] = -1
    opened[0] = 0
    top[0] = 0.0
    while depth >= 0 and left > 0:
        left -= 1
        b = choice[depth]
        if b >= 0:  # it leaves the bin where it is
            longer -= counts[b] == low + 1
            loads[b] = before[depth]
            filled[b] -= sizes[depth]
            counts[b] -= 1
        b += 1
        last = min(opened[depth], bins - 1)
        if n >= bins and n - depth <= bins - opened[depth]:
            b = max(b, opened[depth])  # each that is left must go to an empty bin
        while b <= last:
            fits = filled[b] + sizes[depth] <= capacity and loads[b] + costs[depth] < values[0]
            if fits and limits[2]:
                fits = counts[b] < low or (counts[b] == low and longer < more)
            if fits and not is_copy(loads, filled, counts, b):
                break
            b += 1
        if b > last:
            depth -= 1
            continue
        choice[depth] = b
        before[depth] = loads[b]
        loads[b] += costs[depth]
        filled[b] += sizes[depth]
        counts[b] += 1
        longer += counts[b] == low + 1
        top[depth + 1] = max(top[depth], loads[b])
        opened[depth + 1] = max(opened[depth], b + 1)
        if depth + 1 < n:
            depth += 1
            choice[depth] = -1
        else:
            values[0] = top[n]
            for k in range(n):
                of[k] = choice[k]
            if values[0] <= values[1]:
                break
    return left


KERNEL = p.KernelSpec(cpu, takes=(("f8", "f8"),))
