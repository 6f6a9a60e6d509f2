"""Stands for the extension where there is none: nothing is known, and Python does everything."""

from __future__ import annotations

from typing import Any

NAMES: tuple[str, ...] = ()


def nothing(*_: object) -> Any:
    """Leave it to Python."""
    return None


construct = fill_list = list_of = is_unchanged = pick = repeat = nothing
use_kernel = use_at_most = use_encodings = use_torch = switch = nothing


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
