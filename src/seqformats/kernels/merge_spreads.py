"""Divide sequences of falling cost among bins by the largest differencing method.

A partial solution is a list of bins by falling cost.  The two whose bins differ most are merged until one is left, the
costliest bin of one with the cheapest of the other (N. Karmarkar and R. M. Karp, "The differencing method of set
partitioning", 1982).  It begins with a solution for each sequence; or for each run of as many sequences as there are
bins, and then the numbers of sequences differ by one at most (W. Michiels, J. Korst and E. Aarts, "On the guaranteed
performance of the Karmarkar-Karp differencing method", 2003).
"""

from . import parts as p
from .parts import Array, Integers


@p.shared
def sink(spreads: Array, heap: Integers, count: int, at: int) -> None:
    """Let the solution at place `at` of a heap by falling spread sink to where it belongs; equal ones by number."""
    s = heap[at]
    down = 2 * at + 1
    while down < count:
        a, b = heap[down], heap[min(down + 1, count - 1)]
        if spreads[b] > spreads[a] or (spreads[b] == spreads[a] and b < a):
            down += 1
            a = b
        if spreads[s] > spreads[a] or (spreads[s] == spreads[a] and s < a):
            break
        heap[at] = a
        at = down
        down = 2 * at + 1
    heap[at] = s


@p.shared
def put_falling(values: Array, order: Integers, other: Integers) -> None:
    """Write the places of `values` by falling value to `order`, equal ones as they came: merges of sorted runs of 8."""
    n = values.size
    for k in range(n):
        spot = k
        while spot & 7 and values[order[spot - 1]] < values[k]:
            order[spot] = order[spot - 1]
            spot -= 1
        order[spot] = k
    half = 8
    while half < n:
        for begin in range(0, n, 2 * half):
            spot, middle = begin, min(begin + half, n)
            q, end = middle, min(begin + 2 * half, n)
            for k in range(begin, end):
                if q == end or (spot < middle and values[order[spot]] >= values[order[q]]):
                    other[k] = order[spot]
                    spot += 1
                else:
                    other[k] = order[q]
                    q += 1
        for k in range(n):
            order[k] = other[k]
        half *= 2


@p.shared
def interleave(sums: Array, members: Integers, one: int, two: int, counts: Integers) -> None:
    """Merge two solutions that have bins enough for the sequences of both, each kept alone, from the last bin on.

    A bin's cost is ``sums[bin]``, its members are ``members[2 * bin]`` to ``members[2 * bin + 1]``.
    """
    spot, q = counts[0], counts[1]
    while q > 0:
        to = one + spot + q - 1
        if spot > 0 and sums[one + spot - 1] < sums[two + q - 1]:
            spot -= 1
            b = one + spot
        else:
            q -= 1
            b = two + q
        sums[to] = sums[b]
        members[2 * to] = members[2 * b]
        members[2 * to + 1] = members[2 * b + 1]


@p.compiled
def cpu(costs: Array, values: Array, numbers: Integers, of: Integers, bins: int, each: int) -> None:
    """Write the bin of each sequence to ``of (n,)``.

    ``costs (n,)`` falls.  A solution begins with `each` sequences, 1 or `bins`, so there are s = n / each, rounded up.
    Workspace: ``values ((s + 1) * bins + s,)`` and ``numbers (2 * (s + 1) * bins + n + 2 * s + 2 * bins + 2,)``.
    """
    n = costs.size
    states = (n + each - 1) // each
    area = states * bins
    sums, fresh = values[:area], values[area : area + bins]
    spreads = values[area + bins : area + bins + states]
    members, firsts = numbers[: 2 * area], numbers[2 * area : 2 * (area + bins)]
    at = 2 * (area + bins)
    following, used, heap = numbers[at : at + n], numbers[at + n : at + n + states], numbers[at + n + states :]
    order, other = heap[states : states + bins], heap[states + bins : states + 2 * bins]
    pair = heap[states + 2 * bins : states + 2 * bins + 2]
    for s in range(states):
        heap[s] = s
        used[s] = min(each, n - s * each)
        for k in range(used[s]):
            i = s * each + k
            sums[s * bins + k] = costs[i]
            members[2 * (s * bins + k)] = i
            members[2 * (s * bins + k) + 1] = i
            following[i] = -1
        spreads[s] = sums[s * bins] - (sums[s * bins + bins - 1] if used[s] == bins else 0.0)
    for place in range(states // 2 - 1, -1, -1):
        sink(spreads, heap, states, place)
    count = states
    while count > 1:
        one = heap[0]
        count -= 1
        heap[0] = heap[count]
        sink(spreads, heap, count, 0)
        two = heap[0]
        a, b = one * bins, two * bins
        if used[one] + used[two] <= bins:
            pair[0] = used[one]
            pair[1] = used[two]
            interleave(sums, members, a, b, pair)
            used[one] += used[two]
        else:
            for k in range(bins):
                mine, theirs = k < used[one], bins - 1 - k < used[two]
                spot, q = a + k, b + bins - 1 - k
                fresh[k] = (sums[spot] if mine else 0.0) + (sums[q] if theirs else 0.0)
                firsts[2 * k] = members[2 * (spot if mine else q)] if mine or theirs else -1
                firsts[2 * k + 1] = members[2 * (q if theirs else spot) + 1] if mine or theirs else -1
                if mine and theirs:
                    following[members[2 * spot + 1]] = members[2 * q]
            put_falling(fresh, order, other)
            for k in range(bins):
                spot = order[k]
                sums[a + k] = fresh[spot]
                members[2 * (a + k)] = firsts[2 * spot]
                members[2 * (a + k) + 1] = firsts[2 * spot + 1]
            used[one] = bins
        spreads[one] = sums[a] - (sums[a + bins - 1] if used[one] == bins else 0.0)
        heap[0] = one
        sink(spreads, heap, count, 0)
    last = heap[0]
    for k in range(used[last]):
        i = members[2 * (last * bins + k)]
        while i >= 0:
            of[i] = k
            i = following[i]


KERNEL = p.KernelSpec(cpu, takes=(("f8", "f8"),))
