"""Cut, truncated, shifted and chunked sequences: the slow, obviously right truth on plain Python lists.

A sequence is a list of items of any kind.
"""


def cut(items, start=None, stop=None, step=1):
    return items[start:stop:step]


def truncate(items, most, side="right"):
    while len(items) > most:
        if side == "right":
            items = items[:-1]
        elif side == "left":
            items = items[1:]
        else:  # so that the beginning keeps one more than the end, or as many
            return items[: most - most // 2] + [items[len(items) - most // 2 + k] for k in range(most // 2)]
    return items


def pair_lengths(a, b, most, strategy="longest_first"):
    """How many of `a` and `b` items are kept, one taken away at a time; None where there is nothing to take."""
    if most == 0:
        return 0, 0
    shorter_is_first = a <= b
    while a + b > most:
        longer = a > b or (a == b and shorter_is_first)
        if strategy == "only_first" or (strategy == "longest_first" and longer):
            a -= 1
        else:
            b -= 1
        if (strategy == "only_first" and a <= 0) or (strategy == "only_second" and b <= 0):
            return None
    return a, b


def shift(items, by, fill):
    return [items[t - by] if 0 <= t - by < len(items) else fill for t in range(len(items))]


def chunks(items, size, overlap=0, last="keep", fill=None):
    """The chunks of a sequence, and the place of each one's first item."""
    found, starts = [], []
    start = 0
    while start < len(items):
        found.append(items[start : start + size])
        starts.append(start)
        if start + size >= len(items):
            break
        start += size - overlap
    if found and len(found[-1]) < size:
        if last == "drop":
            found.pop(), starts.pop()
        elif last == "pad":
            found[-1] = found[-1] + [fill] * (size - len(found[-1]))
        elif last == "shift" and len(items) >= size:
            found[-1], starts[-1] = items[len(items) - size :], len(items) - size
    return found, starts


def held(parts, starts, length):
    """For every place of a sequence of this length what the chunks have there, in their order."""
    return [
        [part[t - start] for part, start in zip(parts, starts, strict=True) if start <= t < start + len(part)]
        for t in range(length)
    ]
