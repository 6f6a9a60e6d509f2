"""The doors of operations that take items out of batches, or sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..launch.kernel import kernel
from ..launch.threads import loading
from ..native.code import door_of
from ..native.loading import function_at
from ..native.signature import Signature, Word
from ..native.words import (
    BOOL,
    COUNTER,
    FALSE,
    FIRST,
    FORM,
    KNOWN,
    MODE,
    MOST_ORDERS,
    MOVER,
    ORDER_PLANS,
    ORDER_WIDE,
    ORDERING,
    ORDERS,
    PAIR,
    RANGE,
    TAKE,
    WHOLE,
)
from .door import closed, common, same

_BOOL = np.dtype(bool)
_LAYOUT: Word = ("Layout", "i8", "i8", "i8", "i", "i", "i", "i")
_MOVE: Signature = ("i", "i", _LAYOUT)
_UNITS: Signature = ("i", "i", "i")
_JOIN: Signature = ("i", "i", "i8", "i8", "i8", "i8", "i8", "i", *_UNITS)
_SIGNATURES: dict[str, Signature] = {
    "copy_blocks": (*_MOVE, _LAYOUT, *_UNITS),
    "count_kept": ("u1", "i8", "i8"),
    "cut_runs": ("i8", "i8", "i8", "i", "i", "i8"),
    "interleave_rows": _JOIN,
    "join_lengths": ("i8", "i8"),
    "join_rows": _JOIN,
    "move_kept": (*_MOVE, "i8", "u1", "i", *_UNITS),
    "pick_rows": (*_MOVE, "i8", "i8", "i", "i", *_UNITS),
    "pick_sequences": ("i8", "i8", "i8", "i8"),
    "shift_rows": (*_MOVE, "i8", "i", "i", *_UNITS),
    "wrap_places": ("i8", "i8", "i8", "i8"),
}
_ANY_FORM = -1
_TRIES = 8
"""How often a form may be asked for whose result a door does not make."""


class Taking:
    """A door that is open for the forms of calls whose result was once that of the general way, bit for bit.

    Parameters
    ----------
    page : str
        Its file in `kernels.doors`.
    mover : str
        The kernel that moves rows.
    counter : str, optional
        The one that says how many are taken of each sequence.
    mode : int
        Which of its operations.
    """

    words = TAKE

    def __init__(self, page: str, mover: str, counter: str = "", mode: int = 0) -> None:
        self.enter: Callable[..., Any] = closed
        self.page = page
        self.kernels = {MOVER: mover, **({COUNTER: counter} if counter else {})}
        self.mode = mode
        self.wrong = False
        self.tries: dict[tuple[type, ...], int] = {}
        self.world: np.ndarray | None = None
        self.trial: tuple[np.ndarray, Callable[..., Any]] | None = None

    def learn(self, args: tuple[Any, ...], result: Any) -> None:
        """Open it for the form of a call for which the general way has made this result."""
        if self.wrong or not _of_numpy(result):
            return
        kinds = tuple(map(type, args))
        left = self.tries.get(kinds, _TRIES)
        if not left:
            return
        with loading:
            if not self._is_prepared():
                self.wrong = True
                return
            self._prepare_for(args)
            assert self.trial is not None
            assert self.world is not None
            world, enter = self.trial
            made_here = enter(*args)
            self.tries[kinds] = left - (made_here is None)  # which means that something was not plain
            if made_here is None:
                return
            self.wrong = not same(made_here, result)
            if self.wrong:
                self.enter = closed
            else:
                self.world[KNOWN] |= 1 << int(world[FORM])
                self.enter = self.through

    def _prepare_for(self, args: tuple[Any, ...]) -> None:
        """Tell the door what it has to know for calls like this one."""

    def _is_prepared(self) -> bool:
        """Is its machine code there, and that of its kernels?"""
        if self.trial is not None:
            return True
        kernels = {word: kernel(name).address(_SIGNATURES[name]) for word, name in self.kernels.items()}
        address = door_of(self.page) if all(kernels.values()) else None
        if address is None:
            return False
        made = []
        for forms in (0, _ANY_FORM):
            world = np.zeros(self.words, np.int64)
            world[FIRST], world[KNOWN], world[MODE] = common(), forms, self.mode
            world[WHOLE], world[RANGE], world[BOOL] = id(int), id(slice), id(_BOOL)
            for word, function in kernels.items():
                world[word] = function
            made.append((world, function_at(address, self.page, world)))
        (self.world, self.through), self.trial = made
        return True


def _of_numpy(result: Any) -> bool:
    """Is this an encoding, or a pair of them, over an array of NumPy?"""
    found = result[0] if isinstance(result, tuple) and result else result
    return hasattr(found, "_structure") and type(getattr(found, "data", None)) is np.ndarray


class Ordering(Taking):
    """The same of operations that put items in order, which are told of each dtype.

    Parameters
    ----------
    mode : int
        Which of the operations.
    plan : callable
        Of a dtype of NumPy: the addresses of the functions of kernels, and the form in which the first takes items, as
        `native.words` has them; None where they are not known.
    pair : type, optional
        What is made of a pair of results.
    """

    words = ORDERING

    def __init__(self, mode: int, plan: Callable[[np.dtype[Any]], tuple[int, ...] | None], pair: type = tuple) -> None:
        super().__init__("order", "move_kept", "count_kept", mode)
        self.plan, self.pair = plan, pair
        self.dtypes: list[np.dtype[Any]] = []

    def _prepare_for(self, args: tuple[Any, ...]) -> None:
        assert self.trial is not None
        assert self.world is not None
        dtype = args[0]._dtype
        known = any(dtype is other for other in self.dtypes)
        plan = None if known or len(self.dtypes) == MOST_ORDERS else self.plan(dtype)
        if plan is None:
            return
        for world in (self.world, self.trial[0]):
            place = ORDER_PLANS + ORDER_WIDE * len(self.dtypes)
            world[place : place + ORDER_WIDE] = id(dtype), *plan
            world[FALSE], world[PAIR] = id(False), id(self.pair)
            world[ORDERS] = len(self.dtypes) + 1
        self.dtypes.append(dtype)


NO_DOOR = Taking("", "")
"""That of an operation that has none."""
NO_DOOR.wrong = True
