"""Compiled functions of the user: told from others, and started over all sequences of a batch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.library import Array, Shape
from ..errors import MIXED
from ..lazy_import import import_now
from ..memory_checks import remember
from . import threads
from .kernel import cuts

PAYS = 1 << 18
"""Bytes of items from which on several threads pay, where nobody knows what a function costs."""

_loops: dict[Any, Any] = {}
_known: dict[Any, tuple[Any, Any, dict[str, Callable[..., Any]]]] = {}
"""By a function and the type of what it is given: its loops, what it gives, and what runs each loop at once."""


def is_compiled(fn: object) -> bool:
    """Tell whether Numba compiles this function for the host.  Numba is not loaded to find out."""
    dispatcher = getattr(sys.modules.get("numba.core.registry"), "CPUDispatcher", None)
    return dispatcher is not None and isinstance(fn, dispatcher)


def _parts() -> Any:
    return import_now("..kernels.parts.maps", __package__)


class Mapped:
    """A compiled function over sequences i of some batches, ``data[k][offsets[k][i]:offsets[k][i + 1]]``, at least one.

    `axes` and `dtype` are those of what it gives; a number has no axes.
    """

    def __init__(self, fn: Any, data: tuple[Array, ...], offsets: tuple[Array, ...]) -> None:
        self.fn, self.data, self.offsets = fn, data, offsets
        self.n = offsets[0].size - 1
        key = fn, tuple([(x.dtype, x.ndim, x.flags.writeable) for x in data])
        self.loops, (self.dtype, self.axes), self.entries = _known.get(key) or remember(_known, key, self._loops())

    def items(self) -> Array:
        """One item per sequence, ``(n, *item)``; StructureError where they have not all one shape."""
        shape: Shape = ()
        begin, loop = 0, "numbers"
        if self.axes:
            first = self._call("once", 0, self._sequence(0))
            shape, begin, loop = first.shape, 1, "items"
        out = np.empty((self.n, *shape), self.dtype)
        if self.axes:
            out[0] = first
        reached = np.zeros(self.n + 1, np.int64)

        def block(lo: int, hi: int) -> None:
            lo = max(lo, begin)
            wrong = self._note(loop, reached, lo, self.data, self.offsets, out, reached, lo, hi)
            if wrong >= 0:
                raise MIXED(f"the result of sequence {wrong} has not shape {shape}, which that of sequence 0 has")

        threads.run(block, (), self._cuts())
        return out

    def sequences(self) -> tuple[Array, Array]:
        """One array per sequence, all of them one after the other, and their lengths."""
        first = self._call("once", 0, self._sequence(0))
        item, lengths = first.shape[1:], np.zeros(self.n, np.int64)
        lengths[0] = len(first)
        reached = np.zeros(self.n, np.int64)
        parts: dict[int, Array] = {}

        def block(lo: int, hi: int) -> None:
            begin, used = (lo, 0) if lo else (1, len(first))
            room = max(int(self.offsets[0][hi] - self.offsets[0][lo]), used)
            out = np.empty((room, *item), self.dtype)
            out[:used] = first[:used]
            at = reached, lo, begin, hi
            out, used = self._note("sequences", reached, lo, self.data, self.offsets, out, used, lengths, at)
            if used < 0:
                raise MIXED(f"the items of sequence {-1 - used} have not shape {item}, which those of sequence 0 have")
            parts[lo] = out[:used]

        threads.run(block, (), self._cuts())
        found = [parts[lo] for lo in sorted(parts)]
        rows = found[0]
        if len(found) > 1 or 2 * len(rows) < len(rows.base if rows.base is not None else rows):
            rows = np.concatenate(found)
        return rows, lengths

    def _loops(self) -> tuple[Any, Any, dict[str, Callable[..., Any]]]:
        """Make what is kept for such arrays."""
        parts, fn = _parts(), self.fn
        loops = _loops.get(fn) or remember(_loops, fn, parts.loops_over(fn))
        return loops, parts.kind_of(loops, fn, self._sequence(0)), {}

    def _sequence(self, i: int) -> tuple[Array, ...]:
        return tuple([rows[cum[i] : cum[i + 1]] for rows, cum in zip(self.data, self.offsets, strict=True)])

    def _cuts(self) -> list[int]:
        if sum([x.nbytes for x in self.data]) < PAYS or not self.fn.targetoptions.get("nogil"):
            return [0, self.n]
        return cuts(self.n, np.diff(self.offsets[0]))

    def _note(self, name: str, reached: Array, block: int, *args: Any) -> Any:
        """The loop over a block; an error of the function says at which sequence it came up.

        From the second call on it is run past Numba's dispatcher, which looks at the type of every argument.
        """
        try:
            run = self.entries.get(name)
            if run is not None:
                return run(self.fn, *args)
            loop = getattr(self.loops, name)
            found = loop(self.fn, *args)
            self.entries[name] = _parts().entry_of(loop, (self.fn, *args))
            return found
        except Exception as error:
            error.add_note(note(int(reached[block])))
            raise

    def _call(self, name: str, i: int, *args: Any) -> Any:
        return self._note(name, np.array([i]), 0, *args)


def note(i: int) -> str:
    """Note for an error of a function: where it came up."""
    return f"map_sequences had called the function with sequence {i}"
