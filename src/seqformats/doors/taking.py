"""The doors of operations that take items out of batches, or sequences."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..later import loading
from ..launch.kernel import Kernel, kernel
from ..native.signature import Signature, Word
from ..native.words import (
    COUNTER,
    FALSE,
    MODE,
    MOST_ORDERS,
    MOVER,
    ORDER_PLANS,
    ORDER_WIDE,
    ORDERING,
    ORDERS,
    PAIR,
    PICKER,
    PLACER,
    RANGE,
    TAKE,
)
from .door import Door, is_the_one, of_tensors

_LAYOUT: Word = ("Layout", "i8", "i8", "i8", "i", "i", "i", "i")
_MOVE: Signature = ("i", "i", _LAYOUT)
_UNITS: Signature = ("i", "i", "i")
_JOIN: Signature = ("i", "i", "i8", "i8", "i8", "i8", "i8", "i", *_UNITS)
_SIGNATURES: dict[str, Signature] = {
    "copy_blocks": (*_MOVE, _LAYOUT, *_UNITS),
    "count_kept": ("u1", "i8", "i8"),
    "cut_places": ("i8", "i8", "i8", "i8", "i8"),
    "cut_runs": ("i8", "i8", "i8", "i", "i", "i8"),
    "interleave_rows": _JOIN,
    "join_lengths": ("i8", "i8"),
    "join_rows": _JOIN,
    "pair_lengths": ("i8", "i8", "i8"),
    "pair_rows": (*_MOVE, "i8", "i8", "i", *_UNITS),
    "move_kept": (*_MOVE, "i8", "u1", "i", *_UNITS),
    "pick_rows": (*_MOVE, "i8", "i8", "i", "i", *_UNITS),
    "pick_sequences": ("i8", "i8", "i8", "i8"),
    "shift_rows": (*_MOVE, "i8", "i", "i", *_UNITS),
    "shuffle_items": ("i8", "i8", "i", *_UNITS),
    "wrap_places": ("i8", "i8", "i8", "i8"),
}


class Taking(Door):
    """The door of an operation that takes items out of batches, or sequences.

    A form is what the page says: which encodings are given, and how.

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
    apart : pair of str, optional
        The kernels for items that do not lie side by side: what says where they are, and what moves them.
    """

    words = TAKE

    def __init__(self, page: str, mover: str, counter: str = "", mode: int = 0, apart: Sequence[str] = ()) -> None:
        super().__init__(page)
        named = (mover, *([counter] if counter else []), *apart)
        self.kernels = dict(zip((MOVER, COUNTER, PLACER, PICKER), map(kernel, named), strict=False))
        self.mode = mode

    def describe(self, worlds: np.ndarray) -> None:
        """Of its mode, and of what is given beside batches."""
        super().describe(worlds)
        worlds[:, MODE], worlds[:, RANGE] = self.mode, id(slice)

    def address(self, used: Kernel) -> int:
        """The general way may do without it: then it is loaded now."""
        return used.address(_SIGNATURES[used.name])


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
        self.dtypes: list[int] = []

    def describe(self, worlds: np.ndarray) -> None:
        """Of its results."""
        super().describe(worlds)
        worlds[:, FALSE], worlds[:, PAIR] = id(False), id(self.pair)

    def close(self) -> None:
        """The dtypes, too."""
        with loading:
            super().close()
            self.worlds[:, ORDERS] = 0
            self.dtypes.clear()

    def asked(self, args: tuple[Any, ...], plan: Any) -> Hashable | None:
        """Of a new dtype the door has to be told before it can be asked."""
        dtype: Any = getattr(args[0], "_dtype", None)
        if id(dtype) not in self.dtypes and is_the_one(dtype) and self.is_due(id(dtype)) and self._has_told(dtype):
            self.enter(*args)
        return super().asked(args, plan)

    def _has_told(self, dtype: Any) -> bool:
        """Write what the kernels want of a dtype, if that is known, and there is room."""
        with loading:
            for name in ("order_rows", "start_rows"):
                self.watch(kernel(name))
            like = of_tensors.get(dtype, dtype)
            count, plan = len(self.dtypes), None if like is None else self.plan(like)
            if plan is None or count == MOST_ORDERS or id(dtype) in self.dtypes:
                return False
            place = ORDER_PLANS + ORDER_WIDE * count
            self.worlds[:, place : place + ORDER_WIDE] = id(dtype), *plan
            self.worlds[:, ORDERS] = count + 1
            self.dtypes.append(id(dtype))
            return True
