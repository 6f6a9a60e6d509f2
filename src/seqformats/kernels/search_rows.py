"""Search, for every value, among the items of the sequence of the same number.

``x`` holds the items that are searched, in blocks, and ``values`` as many sequences in any layout, in which ``out``
is laid out too; all in one dtype.  Items rise, NaN being the last, unless they are looked at one by one.  ``tolerance``
holds one number, or none.  The modes, by number:

0 how many items are below the value; 1 how many are not above it;
2 the place of the last item that is not above, 3 that of the first that is not below, 4 the nearer of both, the former
where both are as near; -1 where there is none, where it is farther than ``tolerance``, and for NaN;
5 whether an item is equal, 6 the same of items in any order, which are looked at one by one.

Values that rise, as times do, are found from where the one before stands: steps of doubled length, then bisection.
Bentley and Yao (1976), "An almost optimal algorithm for unbounded searching".
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Item, Layout


class Given(NamedTuple):
    """The items that are searched, and what is searched for."""

    x: Array
    values: Array
    tolerance: Array


@p.shared
def is_less(a: Item, b: Item) -> Any:
    """Tell whether `a` comes before `b`, NaN being the last."""
    return (a < b) | ((b != b) & (a == a))


@p.shared
def is_before(item: Item, value: Item, right: int) -> Any:
    """Tell whether an item counts: it is below the value, or with `right` not above it."""
    return not is_less(value, item) if right else is_less(item, value)


@p.shared
def count_between(x: Array, begin: int, lo: int, hi: int, value: Item, right: int) -> Any:
    """Count the items from `begin` on that come before the value; it is at least `lo` and at most `hi`."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if is_before(x[begin + middle], value, right):
            lo = middle + 1
        else:
            hi = middle
    return lo


@p.shared
def count_from(x: Array, begin: int, length: int, start: int, value: Item, right: int) -> Any:
    """Count the items that come before the value, `start` being near."""
    if start > 0 and not is_before(x[begin + start - 1], value, right):
        return count_between(x, begin, 0, start - 1, value, right)
    step = 1
    while start + step <= length and is_before(x[begin + start + step - 1], value, right):
        start += step
        step *= 2
    return count_between(x, begin, start, p.at_most(start + step - 1, length), value, right)


@p.shared
def is_nearer(one: Item, two: Item) -> Any:
    """Compare two distances; beyond the largest integer one is negative."""
    return one < two if (one < 0) == (two < 0) else two < 0


@p.shared
def is_within(distance: Item, tolerance: Array) -> Any:
    """Tell whether a distance of items that are not equal is no larger than the tolerance, if there is one."""
    return tolerance.size == 0 or (distance >= 0 and distance <= tolerance[0])


@p.shared
def near_place(x: Array, begin: int, length: int, above: int, value: Item, mode: int, tolerance: Array) -> int:
    """Choose between the places of the items around a value, of which item `above` is the first that is above it."""
    low, high = above - 1, above
    if value != value:
        return -1
    if low >= 0 and x[begin + low] == value:
        if mode == 3:  # the first of them
            low = count_between(x, begin, 0, low, value, 0)
        return low
    before = mode != 3 and low >= 0
    behind = mode != 2 and high < length and x[begin + high] == x[begin + high]
    if before and behind:
        before = not is_nearer(x[begin + high] - value, value - x[begin + low])
    if before:
        return low if is_within(value - x[begin + low], tolerance) else -1
    return high if behind and is_within(x[begin + high] - value, tolerance) else -1


@p.shared
def has_item(x: Array, begin: int, length: int, value: Item) -> Any:
    """Look at all items for one that is equal."""
    found = False
    for t in range(length):
        found |= x[begin + t] == value
    return found


@p.shared
def answer(x: Array, begin: int, length: int, count: int, value: Item, mode: int, tolerance: Array) -> Any:
    """Give what `mode` asks for, where so many items are before the value."""
    if mode < 2:
        return count
    if mode == 5:
        return int(count < length and x[begin + p.at_most(count, length - 1)] == value)
    return near_place(x, begin, length, count, value, mode, tolerance)


@p.compiled
def cpu(given: Given, out: Array, at_x: Layout, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    x, values, tolerance = given
    items, wanted, found = p.pointer(x), p.pointer(values), p.pointer(out)
    at_x, at = p.pointer(at_x), p.pointer(at)
    right = 0 if mode == 0 or mode == 5 else 1
    for u in range(lo, hi):
        i, first, count = p.locate(at, u)
        _, begin, length = p.locate(at_x, i)
        place = 0
        for t in range(count):
            r = first + p.along(at, t)
            if mode == 6:
                found[r] = has_item(items, begin, length, wanted[r])
            else:
                place = count_from(items, begin, length, place, wanted[r], right)
                found[r] = answer(items, begin, length, place, wanted[r], mode, tolerance)


def cuda(given: Given, out: Array, at_x: Layout, at: Layout, mode: int, width: int) -> None:
    """All values, a thread each."""
    x, values, tolerance = given
    right = 0 if mode == 0 or mode == 5 else 1
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        i, _, d = p.find(at, r)
        _, begin, length = p.locate(at_x, i)
        value = values[d]
        if mode == 6:
            out[d] = has_item(x, begin, length, value)
        else:
            count = count_between(x, begin, 0, length, value, right)
            out[d] = answer(x, begin, length, count, value, mode, tolerance)


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "rows",
    tuple((kind, kind, kind, made) for made in ("i8", "u1") for kind in ("f4", "f8", "i4", "i8", "u8")),
)
