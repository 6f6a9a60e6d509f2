"""The door of an operation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..formats import Encoding
from ..formats.structure import Order, Structure
from ..launch.threads import loading
from ..native.code import door_of
from ..native.loading import function_at
from ..native.words import BY_ITEM, CALCULATE, FIRST, LEARNED, MOST_PLANS, MOVES, NUMBER, NUMBERS, PLANS
from .world import address_of, common


def closed(*args: object) -> None:
    """A door through which nobody can go: the general way does everything."""


class Calculating:
    """The door of a `operations.over.Calculation`.

    It is closed until the general way has told it, by `learn`, which kernel there is for a dtype, and its result is
    that of the general way, bit for bit.
    """

    def __init__(self, numbers: Sequence[int], by_item: bool, moves: bool = False) -> None:
        self.enter: Callable[..., Any] = closed
        self.wrong = False
        self.numbers = numbers
        self.by_item = by_item
        self.moves = moves
        self.world: np.ndarray | None = None

    def learn(self, given: np.dtype[Any], kernel: int, made: np.dtype[Any], x: object, result: object) -> None:
        """Open it for a dtype, by the address of the kernel; the general way has made `result` of `x`."""
        with loading:
            if self.wrong or not kernel:
                return
            world = self.world if self.world is not None else self._prepared()
            count = int(world[LEARNED])
            if count == MOST_PLANS or id(given) in world[PLANS : PLANS + 4 * count : 4]:
                return
            address = door_of("calculate")
            if address is None:
                return
            self.kept.append((given, made))
            world[PLANS + 4 * count : PLANS + 4 * count + 4] = id(given), kernel, id(made), made.itemsize
            world[LEARNED] = count + 1
            enter = function_at(address, "calculate", world)
            made_here = enter(x)
            if made_here is None:  # no plain batch
                world[LEARNED] = count
                return
            self.wrong = not same(made_here, result)
            self.enter = closed if self.wrong else enter

    def _prepared(self) -> np.ndarray:
        self.world = world = np.zeros(CALCULATE, np.int64)
        self.kept: list[object] = []
        world[FIRST] = address_of(common())
        world[MOVES], world[BY_ITEM], world[NUMBERS] = self.moves, self.by_item, len(self.numbers)
        world[NUMBER : NUMBER + len(self.numbers)] = self.numbers
        return world


NO_DOOR = Calculating((), False)
"""That of an operation that has none."""


def same(x: Any, y: Any) -> bool:
    """Are two results equal in type, dtype, shape and every bit?"""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        return bool(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() and x.flags == y.flags)
    if x is y:
        return True
    if type(x) is tuple or isinstance(x, Order):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, Structure):
        return all(same(getattr(x, name), getattr(y, name)) for name in _OF_STRUCTURE)
    if isinstance(x, Encoding):
        return all(same(getattr(x, name), getattr(y, name)) for name in _slots_of(type(x)))  # type: ignore[arg-type]
    return bool(x == y)


_OF_STRUCTURE = ("lengths", "offsets", "n", "rows", "longest", "stable")


@functools.cache
def _slots_of(kind: Any) -> tuple[str, ...]:
    return tuple(name for base in kind.__mro__ for name in vars(base).get("__slots__", ()) if name != "__weakref__")
