"""Costs of sequences: coefficients, a function of lengths, or numbers; and the order of sequences by cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..arrays import Array, is_array, to_host
from ..errors import ARGUMENT, COUNTS, DTYPE, KIND, LONG, RANGE, RESULT, TOGETHER, quote
from ..formats.annotations import Shaped
from ..launch.kernel import kernel
from .options import number

rank_keys = kernel("rank_keys")

Cost: TypeAlias = tuple[float, float] | tuple[float, float, float] | Callable[[Any], Any] | Shaped | Sequence[float]
"""Cost of a sequence: ``(a, b)`` or ``(a, b, c)`` for ``a L + b L^2 + c``, a function of all lengths, or numbers."""

MAX_PACKED_KEYS = 1 << 32
"""Up to so many sequences, a place and a part of a key share a word."""


def costs_of(lengths: Array, cost: Cost | None) -> Array:
    """Costs of sequences, ``(n,)`` float64, finite and not negative; without `cost` their items.

    StructureError for other numbers, or more or fewer of them; TypeError for an object that is no cost.
    """
    n = lengths.size
    if cost is None:
        return lengths.astype(np.float64)
    if isinstance(cost, tuple):
        found = _polynomial(lengths, cost)
    elif callable(cost):
        given = cost(lengths.copy()) if n else np.zeros(0)
        found = _numbers(given, "what cost(lengths) returns")
        if found.shape != (n,):
            raise RESULT(
                f"cost(lengths) must return ({n},), a number per sequence, but its result has shape {found.shape}"
            )
    elif is_array(cost) or isinstance(cost, list):
        found = _numbers(cost, "cost")
        if found.shape != (n,):
            raise COUNTS(f"cost must be ({n},), a number per sequence, but has shape {found.shape}")
    else:
        raise KIND(
            f"cost must be a tuple of coefficients, a function of lengths or an array of a number per sequence, "
            f"not {quote(cost)}"
        )
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        i = int(wrong.argmax())
        raise ARGUMENT(f"costs must be finite and not negative, but that of sequence {i} is {found[i]}")
    return np.ascontiguousarray(found) + 0.0  # 0 has no sign


def _polynomial(lengths: Array, cost: tuple[Any, ...]) -> Array:
    """Costs by the coefficients of the length, of its square, and of 1."""
    if len(cost) not in (2, 3):
        raise KIND(f"a tuple as cost has two or three coefficients, of L, L * L and 1, not {quote(cost)}")
    linear, square, constant = (*[number(part, "a coefficient of cost") for part in cost], 0.0)[:3]
    known = lengths.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # which is said of the sequence
        found: Array = (linear + square * known) * known + constant
    return found


def _numbers(given: object, what: str) -> Array:
    try:
        found = np.asarray(to_host(given))
        if found.dtype == object:
            found = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise KIND(f"{what} must be numbers: {error}") from None
    if found.dtype.kind not in "iuf" and found.size:
        raise DTYPE(f"{what} must be numbers, not {found.dtype}")
    return found.astype(np.float64)


def rise(cost: Cost | None) -> bool:
    """Tell whether no sequence costs less than a shorter one, whatever the lengths."""
    return cost is None or (isinstance(cost, tuple) and min(cost[:2]) >= 0)


def falling(keys: Array) -> Array:
    """Return the places of numbers that are not negative, int64 or float64, by falling number; equal ones as they came.

    A float that is not negative has its order as the integer of the same bits.
    """
    if keys.dtype.kind == "f":
        whole = keys.size and keys.max() < 2.0**53 and (keys == np.floor(keys)).all()
        keys = keys.astype(np.int64) if whole else keys.view(np.int64)
    n = keys.size
    if n >= MAX_PACKED_KEYS:
        return np.argsort(keys.max() - keys, kind="stable")
    order: Array = np.empty(n, np.int64)
    work = np.empty(2 * n + 2048, np.int64)
    rank_keys.run(np.ascontiguousarray(keys), work[:n], work[n : 2 * n], work[2 * n :], order)
    return order


def cost_limit(cost: Cost | None, max_cost: object) -> float:
    """The most that a batch may cost, infinity without a limit; ConversionError for a `cost` that limits nothing."""
    if max_cost is None:
        if cost is not None:
            raise TOGETHER("cost= says what sequences cost, and max_cost= what a batch may; give both")
        return math.inf
    limit = number(max_cost, "max_cost")
    if not limit >= 0:
        raise RANGE(f"max_cost must be at least 0, not {quote(max_cost)}")
    return limit


def costs_of_widths(lengths: Array, step: int, cost: Cost | None) -> Array:
    """`costs_of` for sequences that are padded to a multiple of `step`, which cost what their widths do."""
    by_width = step > 1 and (cost is None or callable(cost) or isinstance(cost, tuple))
    return costs_of(-(-lengths // step) * step if by_width else lengths, cost)


def check_costs(costs: Array, limit: float) -> None:
    """StructureError for a sequence that costs more than a batch may."""
    if (costs > limit).any():
        i = int((costs > limit).argmax())
        raise LONG(f"sequence {i} costs {costs[i]:g}, more than max_cost={limit:g}")
