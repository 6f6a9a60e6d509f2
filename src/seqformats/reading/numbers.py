"""Nested lists of numbers: read and written natively where the build allows it, with equal results."""

import sys
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, frozen
from ..launch.kernel import kernel
from . import objects
from .objects import HEAD, TUPLE

scan_nested, list_rows = kernel("scan_nested"), kernel("list_rows")

_DEEPEST = 16  # levels that are walked natively
_MOST_LISTS = 1 << 28  # on a level; more would keep all threads waiting for seconds, if they are there at all
_TAGGED = int(sys.version_info >= (3, 12))  # how an int keeps its sign
_KNOWN = np.array([HEAD, TUPLE, *map(id, (list, tuple, float, int, bool, True))], np.int64)
_LEAVES = {4: np.float64, 5: np.int64, 6: np.bool_}  # by the place of their type in `_KNOWN`
_numbers_work: bool | None = None


def _native_numbers() -> bool:
    """Tell whether `scan_nested` reads some known numbers right, and refuses others."""
    sizes = [kind.__basicsize__ - HEAD for kind in (list, float, int)]
    if not objects.READABLE or sizes != [24, 8, 8] or sys.int_info[:2] != (30, 4):
        return False
    edges = [2**k + d for k in (0, 8, 15, 29, 30, 31, 59, 60, 61, 62, 63) for d in (-2, -1, 0, 1)]
    whole = [0, *[sign * x for x in edges if x < 2**63 for sign in (1, -1)]]
    for leaves in (whole, [0.0, -0.0, 1.5, -2.5e300, float("inf")], [True, False]):
        found = _read_numbers((leaves[:1], tuple(leaves[1:]), []))
        if found is None or repr(found[0].tolist()) != repr(leaves):
            return False
        if [x.tolist() for x in found[1]] != [[1, len(leaves) - 1, 0]]:
            return False
    found = _read_numbers(([[1, 2], (3,)], (), ([],)))
    right = found is not None and [x.tolist() for x in found[1]] == [[2, 0, 1], [2, 1, 0]]
    bad: list[Any] = [2**63, -(2**63), -(2**90), 2.0, True, np.int64(1), np.float64(1), None, "1", [1]]
    return right and all(_read_numbers(([1], [x])) is _read_numbers(([x, 1],)) is None for x in bad)


def _read_numbers(items: tuple[object, ...], wanted: bool = True) -> tuple[Array, list[Array]] | None:
    """Read numbers as `read_numbers` does; where no result is wanted, only None is told from the rest."""
    where = (id(items) + TUPLE, len(items), _KNOWN, _TAGGED)
    walk = np.zeros((4, _DEEPEST + 1), np.int64)
    walk[3] = _MOST_LISTS
    nothing = np.empty(0, np.int64)
    leaf = scan_nested.run(*where, 0, walk, nothing, nothing)
    if leaf <= 0:
        return None
    if not wanted:
        return nothing, []
    counts = list(filter(None, walk[2].tolist()))  # leaves, then lists on each level
    ends = [0, *accumulate(counts[1:])]
    walk[2:, 1:] = 0
    walk[2, 1 : len(ends)], walk[3, 1 : len(ends)] = ends[:-1], ends[1:]
    leaves = np.empty(counts[0], _LEAVES[leaf])
    lengths: Array = np.empty(ends[-1], np.int64)
    target = leaves if leaf == 5 else leaves.view(np.int64) if leaf == 4 else np.empty(counts[0], np.int64)
    # between the two looks another thread may have changed the lists
    if (
        scan_nested.run(*where, leaf, walk, lengths, target) != counts[0]
        or walk[2, 1:].tobytes() != walk[3, 1:].tobytes()
    ):
        return None
    if leaf == 6:
        leaves[:] = target
    lengths.setflags(False)
    return leaves, [lengths[a:b] for a, b in pairwise(ends)]


def read_numbers(items: tuple[object, ...], wanted: bool = True) -> tuple[Array, list[Array]] | None:
    """The leaves of nested lists, and the lengths of the lists on each level.

    None for all but plain lists and tuples, equally deep, of Python's own floats alone, of ints of 63 bits or of bools.
    """
    global _numbers_work
    if _numbers_work is None:
        _numbers_work = _native_numbers()
    return _read_numbers(items, wanted) if _numbers_work else None


def are_numbers(items: tuple[object, ...]) -> bool:
    """Tell whether `read_numbers` could read these, in a part of the time."""
    return read_numbers(items, wanted=False) is not None


# dtypes whose items are Python's floats or ints, by name, and what these hold
WIDE = dict.fromkeys(("float16", "float32", "float64"), "float64")
WIDE |= dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "int64")


def write_numbers(x: Array, lod: tuple[Array, ...]) -> list[Any] | None:
    """float64 or int64 as nested lists, their levels cut at the offsets `lod`; None where that is not done natively."""
    if not objects.READABLE or list.__basicsize__ != HEAD + 24:
        return None
    outermost: list[Any] = [None] * (lod[0].size - 1)
    parents, cum = np.array([id(outermost)]), frozen(np.array([0, len(outermost)]))
    x = NUMPY.operand(x)
    write = list_rows.of(x)
    for level, offsets in enumerate(lod, 1):
        n = offsets.size - 1
        made = np.empty(n if level < len(lod) else 0, np.int64)
        if write(parents, cum, offsets, x, made, HEAD + 8) < n:
            raise MemoryError(f"no memory holds lists of {x.size} numbers")
        parents, cum = made, offsets
    return outermost
