"""Means of columns in CUDA kernels, and the squares beside them, reading items once.

As in `device`, what is special to CUDA is put among the globals before a function is compiled, see `gpu`.
"""

from typing import Any

from ...layout import SHORT
from .columns import eight_at, eight_of, has_one
from .common import Columns
from .names import item_in, number_in, sqrt, where_above, wide, zero_in
from .options import plain_on_cuda
from .record import Array


@plain_on_cuda
def eight_more(sums: Any, squares: Any, eight: Any, near: Any) -> Any:
    """Sums of what is beside a number, and of its squares, with eight items more."""
    a, b, c, d, e, f, g, h = eight
    a, b, c, d = a - near, b - near, c - near, d - near
    some, squared = (a + b) + (c + d), (a * a + b * b) + (c * c + d * d)
    e, f, g, h = e - near, f - near, g - near, h - near
    some, squared = some + ((e + f) + (g + h)), squared + ((e * e + f * f) + (g * g + h * h))
    return sums + some, squares + squared


@plain_on_cuda
def block_moments(x: Array, out: Array, columns: Columns, t: int, by: int, rows: int) -> Any:
    """The mean of the rest of a column, but for rounding, what it adds up to beside that, and the squares beside it.

    Every so many items from t on are `rows`.  They are added up beside the mean of the first eight, which is no further
    from that of all than makes the squares nine times as large, and as much less exact, at worst.
    """
    a, b, c, d, e, f, g, h = eight_of(x, columns, t, by, zero_in(x))
    a, b, c, d = item_in(out, a), item_in(out, b), item_in(out, c), item_in(out, d)
    e, f, g, h = item_in(out, e), item_in(out, f), item_in(out, g), item_in(out, h)
    number = number_in(out, min(rows, 8))
    near = (((a + b) + (c + d)) + ((e + f) + (g + h))) * (number_in(out, 1) / number)
    if rows < 8:  # what is not there is nothing beside the mean
        b = near if rows < 2 else b
        c = near if rows < 3 else c
        d = near if rows < 4 else d
        e = near if rows < 5 else e
        f = near if rows < 6 else f
        g = near if rows < 7 else g
        h = near
    sums, squares = eight_more(zero_in(out), zero_in(out), (a, b, c, d, e, f, g, h), near)
    t += 8 * by
    while has_one(x) and t + 15 * by < columns.length:  # all on their way at a time
        eight, more = eight_at(x, columns, t, by), eight_at(x, columns, t + 8 * by, by)
        sums, squares = eight_more(sums, squares, eight, near)
        sums, squares = eight_more(sums, squares, more, near)
        t += 16 * by
    while t + 7 * by < columns.length:
        sums, squares = eight_more(sums, squares, eight_at(x, columns, t, by), near)
        t += 8 * by
    if t < columns.length:
        eight = eight_of(x, columns, t, by, near)
        sums, squares = eight_more(sums, squares, eight, near)
    mean = near + sums * (number_in(out, 1) / number_in(out, rows))
    sums, squares = move_sums(out, sums, squares, rows, near - mean)
    return mean, sums, squares


@plain_on_cuda
def move_sums(out: Array, sums: Any, squares: Any, rows: int, apart: Any) -> Any:
    """Move the sums of so many items beside a number, and of their squares, to one that is less by `apart`."""
    more = apart * number_in(out, rows)
    return sums + more, squares + apart * ((sums + sums) + more)


@plain_on_cuda
def moments_of(x: Array, out: Array, columns: Columns, share: Any) -> Any:
    """Sum what a thread has of a column, every so many items from some on, and count these.

    They are read once.  A short sequence is one block, and blocks of so many items are added up beside the mean of the
    first, which of float32 are sums in float64 (after Chan, Golub and LeVeque, "Updating formulae and a pairwise
    algorithm for computing sample variances", 1979).
    """
    t, by = share
    none = zero_in(out)
    rows, mean, sums, squares = 0, none, wide(none), wide(none)
    left = (columns.length - 1 - t) // by + 1
    while left > 0:
        more = min(left, SHORT)
        end = min(columns.length, t + SHORT * by)
        block = Columns(columns.begin, end, columns.width, columns.steps, columns.step)
        own, total, beside = block_moments(x, out, block, t, by, more)
        if rows == 0:
            mean = own
        total, beside = move_sums(out, total, beside, more, own - mean)
        sums += wide(total)
        squares += wide(beside)
        rows += more
        left -= SHORT
        t += SHORT * by
    return rows, mean, item_in(out, sums), item_in(out, squares)


@plain_on_cuda
def total_of(out: Array, moments: tuple[int, Any, Any, Any]) -> Any:
    """Add up the items of a thread."""
    rows, mean, sums, _ = moments
    return mean * number_in(out, rows) + sums


@plain_on_cuda
def sums_beside(out: Array, moments: tuple[int, Any, Any, Any], mean: Any) -> Any:
    """Add up the items of a thread beside a mean of more of them, and their squares beside it."""
    rows, own, sums, squares = moments
    return move_sums(out, sums, squares, rows, own - mean)


@plain_on_cuda
def put_variance(out: Array, place: int, sums: Any, squares: Any, length: int, ddof: int, deviation: int) -> None:
    """The variance by what is beside the mean and its squares, or its root; 0 where there are too few items."""
    none = zero_in(out)
    out[place] = none
    if length > ddof:
        one = number_in(out, 1)
        found = (squares - sums * (sums * (one / number_in(out, length)))) * (one / number_in(out, length - ddof))
        found = where_above(none, found, none, found)
        out[place] = sqrt(found) if deviation else found


SHARED = {
    function.__name__: function
    for function in (
        eight_more,
        block_moments,
        move_sums,
        moments_of,
        total_of,
        sums_beside,
        put_variance,
    )
}
