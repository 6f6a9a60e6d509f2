"""The door of an operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import registry
from ..launch.threads import loading
from ..native.code import door_of
from ..native.loading import function_at
from ..native.words import BY_ITEM, CALCULATE, FIRST, LEARNED, MOST_PLANS, MOVES, NARROW, NUMBER, NUMBERS, PLANS


def common() -> int:
    """Where the world begins that all doors have in common."""
    address: int = registry.service("common_world")()
    return address


def closed(*args: object) -> None:
    """A door through which nobody can go: the general way does everything."""


class Calculating:
    """The door of a `operations.over.Calculation`.

    It is closed until the general way has told it, by `learn`, which kernel there is for a dtype, and its result is
    that of the general way, bit for bit.
    """

    def __init__(self, numbers: Sequence[int], by_item: bool, moves: bool = False, narrow: bool = False) -> None:
        self.enter: Callable[..., Any] = closed
        self.wrong = False
        self.numbers = numbers
        self.by_item = by_item
        self.moves = moves
        self.narrow = narrow
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
        world[FIRST] = common()
        world[MOVES], world[BY_ITEM], world[NUMBERS] = self.moves, self.by_item, len(self.numbers)
        world[NARROW] = self.narrow
        world[NUMBER : NUMBER + len(self.numbers)] = self.numbers
        return world


NO_DOOR = Calculating((), False)
"""That of an operation that has none."""


def same(x: Any, y: Any) -> bool:
    """Are two results equal in type, dtype, shape and every bit?"""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() and _alike(x.flags, y.flags)
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(same, x, y))
    parts = ("_shape", "_dtype")
    return (
        all(getattr(x, name) == getattr(y, name) for name in parts)
        and same(x.data, y.data)
        and _same_structure(x._structure, y._structure)
    )


def _alike(one: Any, two: Any) -> bool:
    """Are arrays laid out alike, and may both be written to, or neither?  Who owns the memory does not matter."""
    return all(one[name] == two[name] for name in ("C_CONTIGUOUS", "ALIGNED", "WRITEABLE"))


def _same_structure(one: Any, two: Any) -> bool:
    """Are two structures the same, or equal in all that is known from the beginning?"""
    numbers = ("n", "rows", "longest", "stable")
    arrays = ("lengths", "offsets")
    return one is two or (
        all(getattr(one, name) == getattr(two, name) for name in numbers)
        and all(same(getattr(one, name), getattr(two, name)) for name in arrays)
    )
