"""Stands for the extension where there is none: nothing is known, and Python does everything.

`structured` and `filled` do in Python what those of the extension do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

NAMES: tuple[str, ...] = ()
PROVIDES = ("Calculate", "Conversion", "Spread", "filled", "lay_out", "over", "repeat", "structured")
"""Names that an extension of these sources has."""


def nothing(*_: object) -> Any:
    """Leave it to Python."""
    return None


construct = fill_list = list_of = is_unchanged = pick = repeat = lay_out = over = nothing
use_kernel = use_at_most = use_torch = switch = nothing
_classes: dict[str, Any] = {}


def use_encodings(encodings: Sequence[type], structure: type, order: type) -> None:  # noqa: ARG001
    """Note the class of structures."""
    _classes["structure"] = structure


def structured(run: Callable[..., Any], n: int, extra: int, *args: Any) -> tuple[Any, np.ndarray, int]:
    """Have a kernel write n lengths, n + 1 offsets and so many more numbers into a table, which is its last argument.

    Returns the structure, None where the kernel returns a negative number; the other numbers; and what it returns, the
    greatest length.
    """
    table: np.ndarray = np.empty(2 * n + 1 + extra, np.int64)
    longest = int(run(*args, table))
    table.setflags(write=False)
    made = None if longest < 0 else _classes["structure"](table[:n], table[n : 2 * n + 1], longest)
    return made, table[2 * n + 1 :], longest


def filled(kind: type[T], **slots: object) -> T:
    """Make an object of a frozen dataclass with these slots, without its constructor."""
    made = object.__new__(kind)
    for name, value in slots.items():
        object.__setattr__(made, name, value)
    return made


def knows_dtype(dtype: object) -> bool:  # noqa: ARG001
    """Tell that no fast path knows any dtype."""
    return False


class Calculate:
    """Stands for an operation without a fast path."""

    def __init__(self, numbers: object = (), **options: object) -> None:
        pass

    enter = add = forget = let_default = allow = convert = staticmethod(nothing)

    @staticmethod
    def knows(*dtypes: object) -> bool:  # noqa: ARG004
        """Tell that there is nothing to be told."""
        return True


Spread = Conversion = Calculate
