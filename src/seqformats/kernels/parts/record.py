"""Records of kernels, at the end of their files, for all who start, compile, test or list them."""

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from ...layout import Constants, Layout


class Array(Protocol):
    """A flat array, as a kernel sees it."""

    dtype: Any
    size: int
    itemsize: int

    def __getitem__(self, place: Any) -> Any: ...
    def __setitem__(self, place: Any, value: Any) -> None: ...


class Integers(Array, Protocol):
    """A flat array of int64, whatever the items of the others are."""


class Bytes(Array, Protocol):
    """A flat array of bytes beside what is moved."""


class Singles(Array, Protocol):
    """A flat array of float32, whatever the items of the others are."""


class Table(Array, Protocol):
    """Integers with two axes."""

    shape: tuple[int, int]


class Grid(Array, Protocol):
    """An array of items with two axes."""


# What a kernel does: it moves rows, whatever is in them; it calculates; or it works on the host, for one thread.
MOVES, CALCULATES, HOST = "moves", "calculates", "host"


class KernelSpec(NamedTuple):
    """A kernel: its drivers, and what others have to know of them.

    The drivers take inputs, outputs, then layouts, arrays of int64 and whole numbers, then the size of a row; `cpu`
    after that the units to begin and to end with.  What moves rows takes addresses and the size in bytes on the CPU, on
    CUDA machine words and how many these are; what calculates takes flat arrays of native dtypes and the items of a
    row.  What works on the host takes whatever it likes, and returns what it likes.
    Where a named tuple of the kernel's own, or of `parts`, is an argument, its fields are what is given; see `group`.
    """

    cpu: Callable[..., Any]
    """Compiled for the CPU."""
    cuda: Callable[..., None] | None = None
    """For CUDA, not compiled; None where there is nothing to do on a GPU."""
    does: str = HOST
    """`MOVES`, `CALCULATES` or `HOST`."""
    over: str = ""
    """What the grid on CUDA counts: "rows"; "lines" of threads, each for four rows; "rooms", the places of all runs of
    a rectangle; "runs" of free rows; "units", a thread for each column of items of a sequence; "sequences", a block for
    each, with threads for its columns; "blocks", a block for each unit; "scores", the same, larger where a row is
    wide."""
    takes: tuple[tuple[str, ...], ...] = ()
    """Of what calculates: the dtypes of its arrays, without those of int64, in each of the ways in which the library
    calls it.  Bools are bytes, and half precision comes as float32; on CUDA complex numbers are pairs of floats, unless
    they are among these.  Of what works on the host: given where calls differ in the types of the arrays, so that each
    has to look at them."""
    threads_from: int = 4 << 20
    """From how many bytes of rows on the work is for several threads.  Below, waking one costs more than it brings,
    which is about a millisecond's work; `STREAMS` do four times as much in that time."""
    short: Callable[..., None] | None = None
    """For CUDA where no sequence of a batch has more than `SHORT` rows, over "units": the same result, bit for bit."""
    fours: bool = False
    """May an item be four float32 side by side on CUDA, in `short` and in what goes over "lines" or "units"?  Then
    these calculate with items by arithmetic and by what `parts.gpu` has for items alone."""
    on_host: tuple[tuple[str, ...], ...] = ()
    """More of these for the host alone: with int16 and uint16, the bits of float16 and bfloat16; see `parts.halves`."""
    rare: bool = False
    """Is it compiled ahead on the host for the dtypes of `RARE` too, as which tokens come?"""


ROWS = "beam.rows", "ctc.rows", "operations.attention_rows", "operations.choices"
"""Modules of the named tuples that kernels take."""


@functools.cache
def tuples() -> dict[str, Any]:
    """The named tuples that kernels take, by their names."""
    modules = [importlib.import_module(f"...{name}", __package__) for name in ROWS]
    found = [kind for module in modules for kind in vars(module).values() if hasattr(kind, "_fields")]
    named = {kind.__name__: kind for kind in (Constants, Layout, *found)}
    assert all(named[kind.__name__] is kind for kind in found), "two named tuples of kernels have one name"
    return named


_HOUSE = __name__.removesuffix("parts.record")


def kinds_of(function: Callable[..., Any]) -> Iterator[Any]:
    """The annotations of a kernel's arguments, as those who start it give these: one for each field of a group."""
    for kind in _annotations(function):
        yield from kind.__annotations__.values() if is_group(kind) else (kind,)


def is_group(kind: Any) -> bool:
    """Tell whether a named tuple groups arguments, which are given one by one: each that kernels define is one."""
    return hasattr(kind, "_fields") and kind.__module__.startswith(_HOUSE)


def group(function: Callable[..., Any], given: Iterable[Any], join: Callable[[list[Any], Any], Any]) -> list[Any]:
    """Return the arguments as a kernel takes them: where it has a group, ``join(arguments, named tuple)``."""
    left = iter(given)
    found = [
        join([next(left) for _ in kind._fields], kind) if is_group(kind) else next(left)
        for kind in _annotations(function)
    ]
    return [*found, *left]


def _annotations(function: Callable[..., Any]) -> list[Any]:
    return [kind for name, kind in function.__annotations__.items() if name != "return"]


STREAMS = 16 << 20
"""The `threads_from` of a kernel that does little more than read, or write, each item once."""

FLOATS = ("f4", "f8")
SIGNED, UNSIGNED = ("i1", "i2", "i4", "i8"), ("u1", "u2", "u4", "u8")
RARE = {"i2", "u2", "u4"}
"""For these nothing is compiled ahead on the host, but where a kernel says so; a GPU has no other way to be quick."""
COMPLEX = ("c8", "c16")
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)


def alike(kinds: Iterable[str], count: int) -> tuple[tuple[str, ...], ...]:
    """The `takes` of a kernel whose arrays, so many, all have one of these dtypes."""
    return tuple((kind,) * count for kind in kinds)


SUMS = (
    *alike(FLOATS, 2),
    *((kind, "i8") for kind in (*SIGNED, "u1")),
    *((kind, "u8") for kind in UNSIGNED),
)
"""Items, and what they are added up in."""
MEANS = tuple((kind, "f8") for kind in (*SIGNED, *UNSIGNED))
"""Whole numbers, and what their means are."""
