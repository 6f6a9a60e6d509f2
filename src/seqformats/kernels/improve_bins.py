"""Make the costliest bin cheaper, as long as another one can take something from it.

The costliest bin gives a sequence to another, or exchanges one, so that the two come as near to each other as they can:
the cheapest bin first, then all others by rising cost.  Where none can take anything, the members of the costliest bin
and of another are divided anew: by the differencing method (N. Karmarkar and R. M. Karp, 1982), by pairs where numbers
of sequences must stay; then some of them, up to 12, in all ways.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Integers

MOST, ALL = 512, 12
"""How many members of two bins are divided anew at most, and how many in all ways."""


class Bins(NamedTuple):
    """The bins as they are: what each costs, how many sequences and items it has, and its members by falling cost.

    Those are ``members[b * width]`` to ``members[b * width + listed[b] - 1]``, of the sequences that may be moved.
    """

    loads: Array
    counts: Integers
    filled: Integers
    listed: Integers
    members: Integers
    width: int


class Rules(NamedTuple):
    """Rules for every bin: its capacity, where `sizes` has any; and whether numbers of sequences stay."""

    costs: Array
    sizes: Integers
    capacity: int
    equal: int


@p.shared
def size_of(rules: Rules, i: int) -> Any:
    """Count the items of a sequence; 0 where bins have room for all."""
    return rules.sizes[i] if rules.sizes.size else 0


@p.shared
def remove(bins: Bins, b: int, place: int) -> None:
    """Take the member at `place` out of the list of a bin."""
    last = bins.listed[b] - 1
    for q in range(b * bins.width + place, b * bins.width + last):
        bins.members[q] = bins.members[q + 1]
    bins.listed[b] = last


@p.shared
def insert(bins: Bins, b: int, i: int) -> None:
    """Put a sequence into the list of a bin: their numbers rise as their costs fall."""
    begin = b * bins.width
    q = begin + bins.listed[b]
    while q > begin and bins.members[q - 1] > i:
        bins.members[q] = bins.members[q - 1]
        q -= 1
    bins.members[q] = i
    bins.listed[b] += 1


@p.shared
def account(bins: Bins, rules: Rules, b: int, i: int, sign: int) -> None:
    """Add a sequence to what a bin has, or take it away."""
    bins.loads[b] += sign * rules.costs[i]
    bins.filled[b] += sign * size_of(rules, i)
    bins.counts[b] += sign


@p.shared
def exchange(bins: Bins, rules: Rules, a: int, b: int) -> bool:
    """Move the sequence of a, or exchange it for one of b, that brings the two nearest to each other, if any does."""
    costs, members = rules.costs, bins.members
    gap = bins.loads[a] - bins.loads[b]
    half = gap / 2
    best = half * (1 - 1e-9)
    mine, theirs = -1, -1
    free, back = rules.capacity - bins.filled[b], rules.capacity - bins.filled[a]
    may_move = rules.equal == 0 and bins.counts[a] > 1 and bins.listed[b] < bins.width
    first, second, listed = a * bins.width, b * bins.width, bins.listed[b]
    low = 0
    for spot in range(bins.listed[a]):
        i = members[first + spot]
        cost, size = costs[i], size_of(rules, i)
        if may_move and 0 < cost < gap and size <= free and abs(cost - half) < best:
            best = abs(cost - half)
            mine, theirs = spot, -1
        while low < listed and costs[members[second + low]] > cost - half:
            low += 1  # the first that is no costlier than is wanted
        for q in range(max(low - 2, 0), min(low + 2, listed)):
            j = members[second + q]
            change, more = cost - costs[j], size - size_of(rules, j)
            if 0 < change < gap and abs(change - half) < best and more <= free and -more <= back:
                best = abs(change - half)
                mine, theirs = spot, q
    if mine < 0:
        return False
    i = members[first + mine]
    remove(bins, a, mine)
    account(bins, rules, a, i, -1)
    if theirs >= 0:
        j = members[second + theirs]
        remove(bins, b, theirs)
        account(bins, rules, b, j, -1)
        insert(bins, a, j)
        account(bins, rules, a, j, 1)
    insert(bins, b, i)
    account(bins, rules, b, i, 1)
    return True


@p.shared
def place_of(bins: Bins, b: int, i: int) -> int:
    """The place of a sequence in the list of a bin, by halving."""
    low, high = 0, bins.listed[b]
    while low < high:
        middle = (low + high) >> 1
        if bins.members[b * bins.width + middle] < i:
            low = middle + 1
        else:
            high = middle
    return low


@p.shared
def try_all(bins: Bins, rules: Rules, a: int, b: int, pool: Integers, sides: Integers) -> bool:
    """Divide some members of a and b anew in all ways, and take the best, if the costlier one becomes cheaper.

    ``sides`` says which of ``pool`` are in a.  The ways follow each other by Gray's code: one changes sides each time.
    """
    m = pool.size
    load, other = bins.loads[a], bins.loads[b]
    size, items = bins.filled[a], bins.filled[b]
    way, which, number = 0, 0, 0
    best = load * (1 - 1e-9)
    for turn in range(1, 1 << m):
        k = 0
        while turn >> k & 1 == 0:
            k += 1
        sign = -1 if sides[k] ^ (way >> k & 1) else 1
        way ^= 1 << k
        cost, length = sign * rules.costs[pool[k]], sign * size_of(rules, pool[k])
        load += cost
        other -= cost
        size += length
        items -= length
        number += sign
        fits = max(size, items) <= rules.capacity and 0 < bins.counts[a] + number < bins.counts[a] + bins.counts[b]
        kept = rules.equal == 0 or number == 0 or number == bins.counts[b] - bins.counts[a]
        if max(load, other) < best and fits and kept:
            best, which = max(load, other), way
    number = 0
    for k in range(m):
        number += (which >> k & 1) * (-1 if sides[k] else 1)
    if which == 0 or max(bins.listed[a] + number, bins.listed[b] - number) > bins.width - m:
        return False  # where there might be no place in a list meanwhile
    for k in range(m):
        if which >> k & 1:
            c, d = (a, b) if sides[k] else (b, a)
            remove(bins, c, place_of(bins, c, pool[k]))
            account(bins, rules, c, pool[k], -1)
            insert(bins, d, pool[k])
            account(bins, rules, d, pool[k], 1)
    return True


@p.shared
def sink(spreads: Array, heap: Integers, count: int) -> None:
    """Let the first of a heap by falling spread sink to where it belongs; equal ones by number."""
    s, at = heap[0], 0
    down = 1
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
def difference(rules: Rules, pool: Integers, sides: Integers, spreads: Array, work: Integers) -> None:
    """Divide ``pool``, by falling cost, into two by the differencing method, with equal counts pair by pair."""
    m = pool.size
    each = 2 if rules.equal else 1
    states = (m + each - 1) // each
    heap, partner, turns, signs = work[:MOST], work[MOST : 2 * MOST], work[2 * MOST : 3 * MOST], work[3 * MOST :]
    for s in range(states):
        spreads[s] = rules.costs[pool[s * each]]
        if each == 2 and s * each + 1 < m:
            spreads[s] -= rules.costs[pool[s * each + 1]]
        heap[s] = s
    for s in range(1, states):  # sorted by insertion, which is a heap; singles come sorted
        q = s
        while q > 0 and spreads[heap[q - 1]] < spreads[s]:
            heap[q] = heap[q - 1]
            q -= 1
        heap[q] = s
    for turn in range(states - 1):
        count = states - 1 - turn
        one = heap[0]
        heap[0] = heap[count]
        sink(spreads, heap, count)
        two = heap[0]
        spreads[one] -= spreads[two]
        partner[two] = one
        turns[turn] = two
        heap[0] = one
        sink(spreads, heap, count)
    signs[heap[0]] = 0
    for turn in range(states - 2, -1, -1):
        two = turns[turn]
        signs[two] = 1 - signs[partner[two]]
    for k in range(m):
        s = k // each
        sides[k] = signs[s] if k == s * each else 1 - signs[s]


@p.shared
def divide(bins: Bins, rules: Rules, a: int, b: int, spreads: Array, work: Integers) -> bool:
    """Divide the members of two bins anew by the differencing method, if that makes the costlier one, a, cheaper.

    All of their sequences are listed.
    """
    first, second = a * bins.width, b * bins.width
    one, two = bins.listed[a], bins.listed[b]
    m = one + two
    if m > MOST or m <= ALL:
        return False
    pool, sides = work[:m], work[MOST : MOST + m]
    merge_lists(bins, first, one, second, two, pool)
    difference(rules, pool, sides, spreads, work[2 * MOST :])
    load, other, size, items, count = 0.0, 0.0, 0, 0, 0
    for k in range(m):
        if sides[k]:
            load += rules.costs[pool[k]]
            size += size_of(rules, pool[k])
            count += 1
        else:
            other += rules.costs[pool[k]]
            items += size_of(rules, pool[k])
    if max(load, other) >= bins.loads[a] * (1 - 1e-9) or max(size, items) > rules.capacity or not 0 < count < m:
        return False
    if (rules.equal and count != one and count != two) or max(count, m - count) > bins.width:
        return False
    takes = 1 if not rules.equal or count == one else 0  # with equal counts each bin keeps its own
    for c in (a, b):
        bins.loads[c] = 0.0
        bins.filled[c] = bins.counts[c] = bins.listed[c] = 0
    for k in range(m):
        c = a if sides[k] == takes else b
        bins.members[c * bins.width + bins.listed[c]] = pool[k]
        bins.listed[c] += 1
        account(bins, rules, c, pool[k], 1)
    return True


@p.shared
def merge_lists(bins: Bins, spot: int, one: int, q: int, two: int, pool: Integers) -> None:
    """Merge two lists of members, which begin at p and q, by falling cost."""
    last, end = spot + one, q + two
    for k in range(one + two):
        if q == end or (spot < last and bins.members[spot] < bins.members[q]):
            pool[k] = bins.members[spot]
            spot += 1
        else:
            pool[k] = bins.members[q]
            q += 1


@p.shared
def divide_some(bins: Bins, rules: Rules, a: int, b: int, work: Integers) -> Any:
    """Divide up to `ALL` members of two bins anew in all ways: all, or some that lie between all others by cost."""
    one, two = bins.listed[a], bins.listed[b]
    mine = min(one, max(ALL - two, (ALL + 1) // 2))
    theirs = min(two, ALL - mine)
    pool, sides = work[: mine + theirs], work[MOST : MOST + mine + theirs]
    for k in range(mine):
        pool[k] = bins.members[a * bins.width + k * one // mine]
        sides[k] = 1
    for k in range(theirs):
        pool[mine + k] = bins.members[b * bins.width + k * two // theirs]
        sides[mine + k] = 0
    return mine + theirs > 1 and try_all(bins, rules, a, b, pool, sides)


@p.shared
def put_rising(loads: Array, order: Integers) -> None:
    """Write the bins by rising cost, equal ones by number, to `order`: Shell's method with Knuth's distances."""
    n = loads.size
    for b in range(n):
        order[b] = b
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, n):
            b, q = order[k], k
            while q >= gap:
                c = order[q - gap]
                if loads[c] < loads[b] or (loads[c] == loads[b] and c < b):
                    break
                order[q] = c
                q -= gap
            order[q] = b
        gap //= 3


@p.compiled
def cpu(
    costs: Array, sizes: Integers, movable: Integers, of: Integers, values: Array, numbers: Integers, limits: Integers
) -> int:
    """Change the bin of each sequence in ``of (n,)``; returns 1 where a list of members is full, and 0 at the end.

    ``costs (n,)`` falls; ``sizes (n,)`` are items, empty where bins have room for all; ``movable (m,)`` rises, and only
    these sequences are moved.  ``values (1 + bins + 512,)`` begins with what a bin should cost at most, and the costs
    of the bins.  ``numbers (4 * bins + bins * width + 6 * 512,)`` begins with how many sequences and items each bin
    has.  ``limits (5,)``: the capacity of a bin, 1 where numbers of sequences stay, how many pairs to try, `width`, and
    1 where the members of two bins may be divided anew.
    """
    bins = (numbers.size - 6 * MOST) // (4 + limits[3])
    enough = values[0]
    loads, spreads = values[1 : 1 + bins], values[1 + bins :]
    listed, order = numbers[2 * bins : 3 * bins], numbers[3 * bins : 4 * bins]
    at = 4 * bins + bins * limits[3]
    work = numbers[at:]
    bins_now = Bins(loads, numbers[:bins], numbers[bins : 2 * bins], listed, numbers[4 * bins : at], limits[3])
    rules = Rules(costs, sizes, limits[0], limits[1])
    for b in range(bins):
        listed[b] = 0
    for m in range(movable.size):
        b = of[movable[m]]
        bins_now.members[b * bins_now.width + listed[b]] = movable[m]
        listed[b] += 1
    full = 0
    left = limits[2]
    while left > 0:
        a, b = 0, 0
        for c in range(1, bins):
            a = c if loads[c] > loads[a] else a
            b = c if loads[c] < loads[b] else b
        if loads[a] <= enough:
            break
        done = exchange(bins_now, rules, a, b)
        left -= 1 + bins // 64
        if not done:
            put_rising(loads, order)
            left -= bins // 4
            for way in range(1 + 2 * limits[4]):
                for k in range(bins):
                    b = order[k]
                    if loads[b] < loads[a] and left > 0:
                        if way == 0:
                            done = k > 0 and exchange(bins_now, rules, a, b)
                        elif way == 1:
                            done = divide(bins_now, rules, a, b, spreads, work)
                        else:
                            done = divide_some(bins_now, rules, a, b, work)
                        left -= 64 if way else 1
                        if done:
                            break
                if done:
                    break
        if not done:
            break
        if listed[a] == bins_now.width or listed[b] == bins_now.width:
            full = 1
            break
    for b in range(bins):
        for k in range(listed[b]):
            of[bins_now.members[b * bins_now.width + k]] = b
    return full


KERNEL = p.KernelSpec(cpu, takes=(("f8", "f8"),))
