"""Loops over the columns of sequences, made of what a kernel does with some of them.

A kernel gives its mathematics, a function of ``given``, a tuple of what else it needs, of some `Columns`, and of the
place of the first of them in an array with one row a sequence.  What is here makes of it the loop that its driver
calls, so that each such loop stands once.

The loops are closures over that function.  Code that is kept or shipped sees an edit of either, since the digest of a
kernel (`native.code.stamp`) is that of its own file and of all parts.
"""

from collections.abc import Callable
from typing import Any

from ...layout import Layout
from .common import Columns, locate
from .lanes import columns_at_once, in_lanes
from .moves import at_most
from .options import shared

Body = Callable[..., Any]


@shared
def columns_of(at: Layout, u: int, width: int) -> Any:
    """The sequence of unit `u`, and all its columns; ``columns.begin`` is the place of the first item."""
    i, first, length = locate(at, u)
    return i, Columns(first * width, length, width, at.steps, at.step)


def by_columns(most: int = 32, some: int = 4, few: Body | None = None) -> Callable[[Body], Any]:
    """Make of the decorated ``body(given, columns, place, count)`` a loop ``(given, columns, place, k, end)``.

    On the CPU it goes over the columns k to `end` of a sequence, `most` at a time, `some` (8 or 4), 4 or 1; the body is
    compiled for each of these counts.  `few`, if there is one, does the same for less where a sequence has up to 8 rows
    and 4 columns are taken at a time.
    """

    def made(body: Body) -> Any:
        in_lanes(body)

        def by_three(given: Any, columns: Columns, place: int, k: int, end: int) -> None:
            begin, length, width, steps, step = columns
            count = most if end >= most else 4 if end >= 4 else 1
            while k < end:
                k = at_most(k, end - count)  # the last of them may have been taken before
                these = Columns(begin + k, length, width, steps, step)
                if count == most:
                    body(given, these, place + k, most)
                elif count == 4:
                    body(given, these, place + k, 4)
                else:
                    body(given, these, place + k, 1)
                k += count

        def by_four(given: Any, columns: Columns, place: int, k: int, end: int) -> None:
            begin, length, width, steps, step = columns
            count = columns_at_once(end, some)
            while k < end:
                k = at_most(k, end - count)
                these = Columns(begin + k, length, width, steps, step)
                if count == 32:
                    body(given, these, place + k, 32)
                elif count == some:
                    body(given, these, place + k, some)
                elif count == 4:
                    body(given, these, place + k, 4)
                else:
                    body(given, these, place + k, 1)
                k += count

        return _with_few(by_four, few, some) if few else shared(by_three if some == 4 else by_four)

    return made


def _with_few(loop: Body, few: Body, some: int) -> Any:
    in_lanes(few)
    shared(loop)

    def by_length(given: Any, columns: Columns, place: int, k: int, end: int) -> None:
        begin, length, width, steps, step = columns
        if length > 8 or end < 4 or end >= some:
            loop(given, columns, place, k, end)
            return
        while k < end:
            k = at_most(k, end - 4)
            few(given, Columns(begin + k, length, width, steps, step), place + k, 4)
            k += 4

    return shared(by_length)
