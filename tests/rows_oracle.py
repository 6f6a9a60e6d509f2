"""Which items of a sequence, and in which order, on plain Python lists: the slow truth of filtering, sorting and pairs.

A sequence is a list of items, NumPy's numbers or arrays, as in `oracle.Truth`.
"""

import numpy as np
import oracle


def kept(items, marks):
    return [item for item, mark in zip(items, marks, strict=True) if mark]


def starts(items):
    """A bool for each item: does a number of it differ from that of the item before?"""
    before = [None, *items][: len(items)]
    return [one is None or bool(np.any(one != item)) for one, item in zip(before, items, strict=True)]


def rank(number, falling, nans):
    """By what a number is sorted: NaN last, or first with `nans`."""
    nan = number != number
    return nan != nans, 0 if nan else -number if falling else number


def order(numbers, falling=False, nans=False):
    """The places of Python's numbers in order; of equal ones the first comes first."""
    return sorted(range(len(numbers)), key=lambda t: rank(numbers[t], falling, nans))


def columns(items):
    """The places in an item, and the numbers of all items there."""
    for place in np.ndindex(*items[0].shape) if items else ():
        yield place, [item[place].item() for item in items]


def ordered(items, most=None, **how):
    """The first items in order, column by column, and their places."""
    most = len(items) if most is None else min(most, len(items))
    if not most:
        return [], []
    data = np.stack(items)
    values, places = data[:most].copy(), np.empty((most, *data.shape[1:]), np.int64)
    for place, numbers in columns(items):
        chosen = order(numbers, **how)[:most]
        places[(slice(None), *place)] = chosen
        for j, t in enumerate(chosen):
            values[(j, *place)] = data[(t, *place)]
    return oracle.items_of(values), oracle.items_of(places)


def distinct(items):
    """The distinct items, rising, and how often each is there; all NaN are one."""
    values, counts = [], []
    for item in ordered(items)[0]:
        one = item.reshape(-1)[0]
        last = values[-1].reshape(-1)[0] if values else None
        if values and (one == last or (one != one and last != last)):
            counts[-1] += 1
        else:
            values.append(item)
            counts.append(1)
    return values, counts


def crossed(ones, twos):
    """All pairs: the first of each, and the second of each."""
    return [a for a in ones for _ in twos], [b for _ in ones for b in twos]
