"""Drivers of kernels: loops over the columns of sequences, made of what a kernel does with some of them.

A kernel gives its mathematics, a function of ``given``, a tuple of what else it needs, of some `Columns`, and of the
place of the first of them in an array with one row a sequence.  What is here makes of it the loop that its driver
calls, so that each such loop stands once.

The loops are closures over that function.  Code that is kept or shipped sees an edit of either, since the digest of a
kernel (`native.code.stamp`) is that of its own file and of all parts.
"""

from collections.abc import Callable
from types import CodeType, FunctionType
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

    def make_drivers(body: Body) -> Any:
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

    return make_drivers


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


# --- on a GPU ---------------------------------------------------------------------------------------------------------

_THREADS = """
def {name}({given}):
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            {columns}
            body({all})
            k += columns_of_grid()
        u += units_of_grid()
"""

_BLOCKS = """
def {name}({given}):
    {slot}
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        column = first_of_block()
        while column < width:
            k = column + gpu.threadIdx.x
            {columns}
            body({all})
            column += columns_of_grid()
        u += gpu.gridDim.x
"""

_SLOT = "slot = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x"


def thread_per_column(body: Body) -> Callable[..., Any]:
    """Make of the decorated body a kernel for CUDA in which one thread has a column of a sequence; see `SHORT`.

    The body takes the kernel's arguments by place, and by keyword what it needs of the unit `u`, its sequence `i`, the
    row `first` of the first item, the `length`, the column `k`, and `columns`, which is that column as `Columns`.
    """
    return _driver(body, _THREADS, "at.step")


def block_per_sequence(body: Body | None = None, *, step: str = "at.step") -> Callable[..., Any]:
    """Make of the decorated body a kernel for CUDA in which a block has a sequence, and its threads the columns.

    Where these are narrow, several threads share one.  The body takes what that of `thread_per_column` does, and
    `slot`, the place of a thread in arrays of the block.  `k` may be beyond the last column, since all threads of a
    block have to come to its barriers.  `step` is that of the layout, if the compiler is to know it.
    """
    return _driver(body, _BLOCKS, step) if body else lambda body: _driver(body, _BLOCKS, step)


def _driver(body: Body, text: str, step: str) -> Any:
    """Write the kernel of a body out, since Numba wants every argument by its name, and have Python compile that."""
    code = body.__code__
    count, all_of_them = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    given, wanted = code.co_varnames[:count], code.co_varnames[count:all_of_them]
    by_place = code.replace(co_argcount=all_of_them, co_kwonlyargcount=0)  # Numba knows no arguments by keyword alone
    inner = FunctionType(by_place, body.__globals__, body.__name__, None, body.__closure__)
    columns = f"columns = Columns(first * width + k, length, width, at.steps, {step})"
    lines = {
        "name": body.__name__,
        "given": ", ".join(given),
        "all": ", ".join((*given, *wanted)),
        "slot": _SLOT if "slot" in wanted else "",
        "columns": columns if "columns" in wanted else "",
    }
    names: dict[str, Any] = {**globals(), **body.__globals__, "body": shared(inner)}
    text = text.format(**lines)
    found = compile(text, f"<driver of {body.__module__}>", "exec", dont_inherit=True).co_consts
    made: Any = FunctionType(next(one for one in found if isinstance(one, CodeType)), names, body.__name__)
    made.__annotations__ = {name: kind for name, kind in body.__annotations__.items() if name not in wanted}
    made.__doc__ = body.__doc__
    return made
