"""The doors of operations that run a kernel over sequences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import registry
from ..launch.kernel import Kernel
from ..launch.threads import loading
from ..native import words
from ..native.code import door_of
from ..native.loading import function_at
from ..native.words import LEARNED, MOST_ARRAYS, MOST_PLANS, NUMBER, OF_KERNEL, PLAN, PLANS

DTypes = Sequence[np.dtype[Any]]


def common() -> int:
    """Where the world begins that all doors have in common."""
    address: int = registry.service("common_world")()
    return address


def closed(*args: object) -> None:
    """A door through which nobody can go: the general way does everything."""


class Door:
    """The door of an operation, by the word for each thing that it has to know: see `native.words`.

    It is closed until the general way has told it, by `learn_kernel`, which kernel there is for some dtypes, and its
    result is that of the general way, bit for bit.
    """

    page: ClassVar[str] = ""
    """Of `kernels.doors`."""

    def __init__(self, numbers: Sequence[int], **known: int) -> None:
        self.enter: Callable[..., Any] = closed
        self.wrong = False
        self.numbers = numbers
        self.known = known
        self.default: tuple[object, ...] = ()
        """What has to come last, where it is not asked for."""
        self.learned: dict[tuple[int, ...], object] = {}
        self.worlds: list[np.ndarray] = []
        self.ways: list[Callable[..., Any]] = []

    def knows(self, *dtypes: Any) -> bool:
        """Is there nothing to learn about these dtypes?"""
        return self.wrong or tuple(map(id, dtypes)) in self.learned

    def learn_kernel(
        self, dtypes: DTypes, kernel: Kernel, variant: int | None, made: Any, args: tuple[object, ...], result: object
    ) -> None:
        """Open it for some dtypes, for which there is a kernel; the general way has made `result` of `args`."""
        with loading:
            address = kernel.by_words.get(variant)
            if not address or self.knows(*dtypes) or not all(map(_is_the_one, (*dtypes, made))):
                return
            if not self.worlds and not self._prepared():
                return
            live, trial = self.worlds
            count = int(live[LEARNED])
            if count == MOST_PLANS:
                return
            begin = PLANS + PLAN * count
            numbers = [*map(id, dtypes), *[0] * (MOST_ARRAYS - len(dtypes)), address, id(made), made.itemsize]
            trial[begin : begin + PLAN] = numbers
            trial[LEARNED] = count + 1
            made_here = self.ways[1](*args, *self.default)
            trial[LEARNED] = count
            if made_here is None:  # not plain, or too large
                return
            if not same(made_here, result):
                self.wrong = True
                self.close()
                return
            self.learned[tuple(map(id, dtypes))] = dtypes, made
            live[begin : begin + PLAN] = numbers
            live[LEARNED] = count + 1
            self.enter = self.ways[0]
            kernel.doors.append(self.close)

    def close(self) -> None:
        """Forget all that was learned, since there is another kernel now."""
        self.enter = closed
        self.learned.clear()
        for world in self.worlds:
            world[LEARNED] = 0

    def _prepared(self) -> bool:
        """Its world and another one for trials, and the ways through the door with each; is there a door at all?"""
        address = door_of(self.page)
        if address is None:
            self.wrong = True
            return False
        for _ in range(2):
            world = np.zeros(OF_KERNEL, np.int64)
            world[words.FIRST] = common()
            world[words.NUMBERS] = len(self.numbers)
            world[NUMBER : NUMBER + len(self.numbers)] = self.numbers
            for name, value in self.known.items():
                world[getattr(words, name)] = value
            world[words.DEFAULT] = id(self.default[0]) if self.default else 0
            world[words.INT] = id(int)
            world[words.LOD : words.LOD + words.WIDE + 1] = registry.service("words_of_levels")()
            self.worlds.append(world)
            self.ways.append(function_at(address, self.page, world))
        return True


class Calculating(Door):
    """The door of an operation on one batch: ``enter(x, *options)``."""

    page = "calculate"


class SpreadingOut(Door):
    """The door of what is laid out as an encoding, of arrays: ``enter(shape, *arrays)``."""

    page = "spread"


NO_DOOR = Calculating(())
"""That of an operation that has none."""


def _is_the_one(dtype: Any) -> bool:
    """Is there one object of this dtype, and are its bytes all there is to an item?"""
    if dtype.isbuiltin != 1 or dtype.hasobject or not dtype.itemsize:
        return False
    return bool(np.dtype(dtype.char) is dtype)


def same(x: Any, y: Any) -> bool:
    """Are two results equal in type, dtype, shape and every bit?"""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and _flags_of(x) == _flags_of(y) and x.tobytes() == y.tobytes()
    if x is y:
        return True
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(same, x, y))
    kind: Any = type(x)
    parts = _parts_of(kind)
    return all(same(getattr(x, name), getattr(y, name)) for name in parts) if parts else bool(x == y)


def _flags_of(array: np.ndarray) -> tuple[bool, ...]:
    """All but whether it owns its memory, which does not matter."""
    flags = array.flags
    return flags.c_contiguous, flags.aligned, flags.writeable


_OF_STRUCTURE = ("lengths", "offsets", "n", "rows", "longest", "stable")  # which are known from the beginning


@functools.cache
def _parts_of(kind: Any) -> tuple[str, ...]:
    """What decides about an encoding or a structure."""
    slots = tuple(name for base in kind.__mro__ for name in vars(base).get("__slots__", ()) if name != "__weakref__")
    return _OF_STRUCTURE if "longest" in slots else slots
