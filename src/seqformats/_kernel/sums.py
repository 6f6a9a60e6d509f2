"""Sums of many rows, in an order that rounds little and depends on the sequence alone.

A sum of float32 rounds at each addition, and after some thousands its digits are gone.  So rows are added up by their
place in the sequence: 4 of them in their order, 8 of these sums in theirs, which makes a block of 32 rows, and the
blocks in float64; up to 3 rows that are left are added one by one to their block.  The sum of positive float32 is wrong
by at most 12 / 2**24 before the last rounding, which is 8e-7, and by less than 1e-8 for what 1e8 rows add in float64.
Complex64 is treated alike, with complex128 for the blocks; float64 and integers are added in the same order and stay
what they are.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .common import along
from .lanes import Lanes, each, in_kind, in_lanes, load, lowered, prefetch, store, unknown
from .moves import at_least, at_most
from .options import shared

COLUMNS = 256  # of a `room`
_WIDE = {"float32": "float64", "complex64": "complex128"}


def wide(lanes: Any) -> Any:
    """Lanes in the dtype in which blocks are added up."""
    return lanes.astype(_WIDE.get(lanes.dtype.name, lanes.dtype))


def narrow(lanes: Any, like: Any) -> Any:
    """Lanes in the dtype of `like`, a pointer."""
    return lanes.astype(like.dtype)


def room(like: Any) -> Any:
    """A pointer to room for 256 numbers in the dtype in which blocks are added up, as long as the kernel runs."""
    return np.empty(COLUMNS, _WIDE.get(like.dtype.name, like.dtype))


def _wide_kind(kind: Any) -> Any:
    return {types.float32: types.float64, types.complex64: types.complex128}.get(kind, kind)


@lowered(wide)
def _wide_lanes(lanes: Any) -> Any:
    kind = _wide_kind(lanes.kind)
    return Lanes(kind, lanes.count)(lanes), lambda _, builder, value: in_kind(builder, value, lanes.kind, kind)


@lowered(narrow)
def _narrow(lanes: Any, like: Any) -> Any:
    kind = like.dtype
    return Lanes(kind, lanes.count)(lanes, like), lambda _, builder, value, __: in_kind(
        builder, value, lanes.kind, kind
    )


@lowered(room)
def _room(like: Any) -> Any:
    kind = _wide_kind(like.dtype)

    def code(context: Any, builder: Any, _: Any) -> Any:
        number = context.get_data_type(kind)
        place = cgutils.alloca_once(builder, ir.ArrayType(number, COLUMNS))
        place.align = 64
        return builder.bitcast(place, number.as_pointer())

    return types.CPointer(kind)(like), code


@in_lanes
def total(
    x: Any, out: Any, p: int, at: int, steps: Any, width: int, length: int, step: int, divisor: float, one: int, count: int
) -> None:
    """Some columns of a sequence, of which item 0 is at p: their sums, by `divisor` unless it is 0, to ``out[at:]``."""
    sums = each(out, 0, count)
    totals = wide(sums)
    t = 0
    while length >= 8 and t + 4 <= length:  # fewer rows are added in the same order one by one
        part = load(x, p + along(t, steps, step) * width, count, out)
        part += load(x, p + along(t + 1, steps, step) * width, count, out)
        part += load(x, p + along(t + 2, steps, step) * width, count, out)
        part += load(x, p + along(t + 3, steps, step) * width, count, out)
        sums += part
        t += 4
        if t & 31 == 0:
            totals += wide(sums)
            sums = each(out, 0, count)
    while t < length:
        sums += load(x, p + along(t, steps, step) * width, count, out)
        t += one
    if length < 32:
        if divisor != 0:
            sums = sums / each(out, divisor, count)
        store(out, at, sums)
    else:
        totals += wide(sums)
        if divisor != 0:
            totals = totals / each(totals, divisor, count)
        store(out, at, totals)


@shared
def total_by_rows(
    x: Any, out: Any, totals: Any, p: int, at: int, steps: Any, width: int, length: int, step: int, divisor: float
) -> int:
    """Those of the columns that 16 lanes can share, four rows at a time, as wide ones are best read; how many.

    `totals` is a `room`, so many columns are added up at once.
    """
    even, ahead = width & -16, at_least(8 * step * width, 2048)
    some = unknown(16)
    begin = 0
    while begin < even:
        size = at_most(even - begin, 256)
        t = 0
        while t + 4 <= length:
            a, b = p + along(t, steps, step) * width, p + along(t + 1, steps, step) * width
            c, d = p + along(t + 2, steps, step) * width, p + along(t + 3, steps, step) * width
            k = 0
            while k < size:
                part = load(x, a + k, 16, out)
                part += load(x, b + k, 16, out)
                part += load(x, c + k, 16, out)
                part += load(x, d + k, 16, out)
                prefetch(x, a + k + ahead, 16)
                prefetch(x, b + k + ahead, 16)
                prefetch(x, c + k + ahead, 16)
                prefetch(x, d + k + ahead, 16)
                if t & 31 != 0:
                    part += load(out, at + k, 16, out)
                store(out, at + k, part)
                k += some
            t += 4
            if t & 31 == 0:
                k = 0
                while k < size:
                    block = load(out, at + k, 16, totals)
                    if t != 32:
                        block += load(totals, k, 16, totals)
                    store(totals, k, block)
                    k += some
        if t & 31 == 0:
            k = 0
            while k < size:
                store(out, at + k, each(out, 0, 16))
                k += some
        while t < length:
            a = p + along(t, steps, step) * width
            k = 0
            while k < size:
                store(out, at + k, load(out, at + k, 16, out) + load(x, a + k, 16, out))
                k += some
            t += 1
        k = 0
        while length >= 32 and k < size:
            block = load(totals, k, 16, totals) + load(out, at + k, 16, totals)
            if divisor != 0:
                block = block / each(totals, divisor, 16)
            store(out, at + k, block)
            k += some
        while divisor != 0 and k < size:
            store(out, at + k, load(out, at + k, 16, out) / each(out, divisor, 16))
            k += some
        p += size
        at += size
        begin += size
    return even
