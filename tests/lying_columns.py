"""Columns of Arrow whose offsets, sizes, indices and masks are at random, read in every way: documented errors alone.

``python tests/lying_columns.py FIRST LAST`` reads those of these seeds, and prints what ends wrongly; a crash ends it.
"""

import sys

import hostile
import numpy as np
import pyarrow as pa

import seqformats as sf

BYTES = pa.py_buffer(b"abcdef")


DAMAGE = []
"""Arrays behind buffers, and what comes to stand in them: Arrow refuses some when it makes a column, but looks once."""


def buffer(array):
    return pa.py_buffer(array.tobytes())


def damaged(right, wrong):
    """A buffer that has other numbers once the column is made."""
    memory = right.copy()
    DAMAGE.append((memory, wrong))
    return pa.py_buffer(memory)


def offsets(rng, n, end, dtype):
    """Those of n lists over so many items, in a buffer: rising, or not, or beyond them."""
    right = np.sort(rng.integers(0, end + 1, n + 1)).astype(dtype)
    found = right.copy()
    place, way = rng.integers(n + 1), rng.integers(6)
    if way == 0:
        found[place] = rng.integers(-5, end + 9)
    elif way == 1:
        found = rng.integers(-3, end + 5, n + 1).astype(dtype)
    elif way == 2:
        found[-1] = end + rng.integers(1, 10**6)
    elif way == 3:
        found[place] = np.iinfo(dtype).max if rng.integers(2) else np.iinfo(dtype).min
    return damaged(right, found)


def validity(rng, n):
    """Which are null; the buffer may be too short."""
    size = -(-n // 8) - int(rng.integers(5) == 0)
    return None if rng.integers(2) else buffer(rng.integers(0, 256, max(size, 0)).astype(np.uint8))


def column(rng, depth=0):
    """A column, of at most three levels or so."""
    n = int(rng.integers(0, 6))
    kind = int(rng.integers(11)) if depth < 3 else int(rng.integers(2))
    inner = None if kind in (0, 1, 10) else column(rng, depth + 1)
    if kind == 0:
        return pa.array(np.arange(n, dtype=["f4", "i8", "u1"][rng.integers(3)]))
    if kind == 1:
        type = [pa.string(), pa.binary(), pa.large_string()][rng.integers(3)]
        wide = "i8" if type == pa.large_string() else "i4"
        return pa.Array.from_buffers(type, n, [validity(rng, n), offsets(rng, n, 6, wide), BYTES])
    if kind in (2, 3, 4):
        made, wide = [(pa.list_, "i4"), (pa.large_list, "i8")][rng.integers(2)]
        there = [validity(rng, n), offsets(rng, n, len(inner), wide)]
        return pa.Array.from_buffers(made(inner.type), n, there, children=[inner])
    if kind == 5:
        type = pa.list_(inner.type, int(rng.integers(0, 4)))
        return pa.Array.from_buffers(type, n, [validity(rng, n)], children=[inner])
    if kind == 6:
        other = column(rng, depth + 1)
        type = pa.struct([("a", inner.type), ("b", other.type)])
        return pa.Array.from_buffers(type, n, [validity(rng, n)], children=[inner, other])
    if kind == 7:
        starts, sizes = (damaged(np.zeros(n, "i4"), rng.integers(-2, len(inner) + 3, n).astype("i4")) for _ in range(2))
        return pa.Array.from_buffers(pa.list_view(inner.type), n, [validity(rng, n), starts, sizes], children=[inner])
    if kind == 8:
        most = max(1, len(inner)) + 2 * int(rng.integers(2))
        numbers = rng.integers(-2 * int(rng.integers(2)), most, n).astype("i4")
        numbers = pa.Array.from_buffers(pa.int32(), n, [None, damaged(np.zeros(n, "i4"), numbers)])
        return pa.DictionaryArray.from_arrays(numbers, inner, safe=False)
    if kind == 9:
        count = min(6, len(inner))
        type = pa.struct([pa.field("key", pa.int64(), False), ("value", inner.type)])
        entries = pa.Array.from_buffers(type, count, [None], children=[pa.array(np.arange(6)), inner])
        there = [validity(rng, n), offsets(rng, n, count, "i4")]
        return pa.Array.from_buffers(pa.map_(pa.int64(), inner.type), n, there, children=[entries])
    return pa.nulls(n, [pa.list_(pa.int8()), pa.null(), pa.string()][rng.integers(3)])


class Stream:
    """What speaks Arrow's C interface of streams alone."""

    def __init__(self, x):
        self.x = x

    def __arrow_c_stream__(self, requested_schema=None):
        return self.x.__arrow_c_stream__(requested_schema)


def batches(source, **options):
    return list(sf.batches(source, max_items=9, prefetch=0, **options))


def ways(rng, x):
    """Every way in."""
    how = {"missing": ["raise", "empty"][rng.integers(2)], "items": ["raise", 0][rng.integers(2)]}
    chunked = pa.chunked_array([x, x])
    yield lambda: sf.from_arrow(x, **how)
    yield lambda: sf.from_arrow(chunked, **how)
    yield lambda: sf.convert(x, sf.Masked)
    yield lambda: sf.reduce_sum(x)
    yield lambda: batches(x, **how)
    yield lambda: batches(chunked, **how)
    yield lambda: batches({"a": x}, **how)
    yield lambda: batches({"a": chunked}, **how)
    try:
        table = pa.Table.from_arrays([x, pa.array(np.zeros(len(x)))], ["a", "b"])
    except pa.ArrowInvalid:  # which looks at some offsets itself
        return
    yield lambda: sf.from_table(table, **how)
    yield lambda: batches(table, **how)
    yield lambda: batches(Stream(table), by="a", **how)
    yield lambda: batches([table] * 2, columns="a", **how)


def read(seed):
    """What ends wrongly."""
    rng = np.random.default_rng(seed)
    DAMAGE.clear()
    try:
        x = column(rng)
    except (pa.ArrowException, NotImplementedError):
        return
    for memory, wrong in DAMAGE:
        memory[:] = wrong
    for number, way in enumerate(ways(rng, x)):
        try:
            way()
        except Exception as error:
            if not getattr(error, "code", ""):
                yield f"seed {seed}, way {number}, {x.type}: {hostile.told(error)}"


if __name__ == "__main__":
    for seed in range(*map(int, sys.argv[1:])):
        for line in read(seed):
            print(line)
