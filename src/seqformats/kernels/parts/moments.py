"""What CUDA kernels make of the mean of a column of a sequence and of the squares beside it, reading its items once.

As in `device`, what is special to CUDA is put among the globals before a function is compiled, see `gpu`.
"""

from typing import TYPE_CHECKING, Any

from ...layout import SHORT
from .common import Columns
from .options import plain_on_cuda
from .record import Array

if TYPE_CHECKING:  # put among the globals before the function is compiled, by `gpu`, which imports this file
    chosen: Any = None
    eight_at: Any = None
    eight_of: Any = None
    item_in: Any = None
    number_in: Any = None
    size_of: Any = None
    sqrt: Any = None
    wide: Any = None
    zero_in: Any = None


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
    """The mean of the rest of a column, of which every so many items from t on are `rows`; and the squares beside it.

    They are added up beside the mean of the first eight.  That is no further from the mean of all than makes the
    squares nine times as large, and as much less exact, at worst.
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
    while size_of(x) < 16 and t + 15 * by < columns.length:  # of single columns, see `eight_ahead`
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
    total = wide(sums)
    apart = total * (1.0 / rows)
    return wide(near) + apart, wide(squares) - total * apart


@plain_on_cuda
def moments_of(x: Array, out: Array, columns: Columns, share: Any) -> Any:
    """How many items a thread has of a column, every so many from some on; their mean, and the squares beside it.

    They are read once.  A short sequence is one block, and blocks of so many items are joined, of float32 in float64
    (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
    """
    t, by = share
    none = zero_in(out)
    rows, mean, squares = 0, wide(none), wide(none)
    left = (columns.length - 1 - t) // by + 1
    while left > 0:
        more = min(left, SHORT)
        end = min(columns.length, t + SHORT * by)
        block = Columns(columns.begin, end, columns.width, columns.steps, columns.step)
        own, beside = block_moments(x, out, block, t, by, more)
        ratio = more / (rows + more)
        apart = own - mean
        squares += beside + (apart * (rows * ratio)) * apart
        mean += apart * ratio
        rows += more
        left -= SHORT
        t += SHORT * by
    return rows, mean, squares


@plain_on_cuda
def total_of(out: Array, moments: tuple[int, Any, Any]) -> Any:
    """What the items of a thread add up to."""
    rows, mean, _ = moments
    return item_in(out, mean * float(rows))


@plain_on_cuda
def sums_beside(out: Array, moments: tuple[int, Any, Any], mean: Any) -> Any:
    """What they add up to beside a mean of more of them, and the squares of it."""
    rows, own, squares = moments
    apart = own - wide(mean)
    total = apart * float(rows)
    return item_in(out, total), item_in(out, squares + total * apart)


@plain_on_cuda
def put_variance(out: Array, place: int, sums: Any, squares: Any, length: int, ddof: int, deviation: int) -> None:
    """The variance by what is beside the mean and its squares, or its root; 0 where there are too few items."""
    none = zero_in(out)
    out[place] = none
    if length > ddof:
        one = number_in(out, 1)
        found = (squares - sums * (sums * (one / number_in(out, length)))) * (one / number_in(out, length - ddof))
        found = chosen(none, found, none, found)
        out[place] = sqrt(found) if deviation else found


SHARED = {
    function.__name__: function
    for function in (
        eight_more,
        block_moments,
        moments_of,
        total_of,
        sums_beside,
        put_variance,
    )
}
