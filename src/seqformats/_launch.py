"""How a move of rows is started on each kind of device.

A kernel that moves rows takes, on every device, first the source and the target, then arrays of int64, then numbers; a
launcher turns arrays into what its device wants (addresses on the CPU) and adds the division of the work.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _threads, registry
from .arrays import NUMPY, Array, Library
from .errors import DeviceError, said

_type_of = operator.attrgetter("dtype.num")

# Below this many bytes waking a thread costs more than it brings, which is about a millisecond's work of one: a kernel
# that does little more than read, or write, the items once does four times as much in that time.
_THREADS_FROM = 4 << 20
_STREAMS_FROM = 16 << 20
_STREAMS = frozenset(("max_rows", "repeat_rows", "spread_rows", "sum_rows"))


def is_large(size: int, name: str) -> bool:
    """Is this work of a kernel, so many bytes, for several threads?"""
    return size >= (_STREAMS_FROM if name in _STREAMS else _THREADS_FROM)


class Work(NamedTuple):
    """What a launcher needs to divide a move among threads or blocks.

    `units` is what the kernel's `lo` and `hi` count (sequences, columns, runs); `rows` of `row` bytes each are written;
    ``lengths (units,)``: the rows of each unit, None where they are about the same.
    """

    units: int
    rows: int
    row: int
    lengths: Array | None = None


Fields = tuple[int, int, int, Array | None]
"""Those of a `Work`.  A plain tuple of them is made in a fraction of the time, so launchers take either."""


def _cuts(units: int, lengths: Array | None) -> list[int]:
    """Where to divide the units so that every block has about the same rows."""
    blocks = min(4 * _threads.num_threads(), units)
    if blocks < 2 or _threads.num_threads() < 2:
        return [0, units]
    if lengths is None:
        inner = np.arange(1, blocks) * units // blocks
    else:
        cum = np.cumsum(lengths)
        inner = np.searchsorted(cum, np.arange(1, blocks) * (int(cum[-1]) / blocks)) + 1
    return [0, *np.unique(inner[inner < units]).tolist(), units]


def run(kernel: Callable[..., None], args: tuple[Any, ...], work: Fields, name: str = "") -> None:
    """Run a kernel for the CPU over all units, in blocks over the pool where the work is large."""
    units, rows, row, lengths = work
    if is_large(rows * row, name):
        _threads.run(kernel, args, _cuts(units, lengths))
    else:
        kernel(*args, 0, units)


def move(
    name: str,
    library: Library,
    src: Array | int,
    out: Array,
    arrays: tuple[Array, ...],
    numbers: tuple[int, ...],
    work: Fields,
    structure: Any,
) -> None:
    """Start a kernel that moves rows, where `out` lives; `src` may be 0 (see `copy_blocks`).

    On the CPU it runs in blocks over the pool where the move is large; launchers of other devices keep copies of the
    arrays on `structure`.
    """
    if type(out) is np.ndarray:
        library = NUMPY
    elif library.kind(out) != "cpu":
        launcher(library.kind(out))(name, library, src, out, arrays, numbers, work, structure)
        return
    if type(src) is int:
        source = src
    else:
        source = (NUMPY if type(src) is np.ndarray else library).address(src)
    units, rows, row, _ = work
    if rows * row < _THREADS_FROM:  # what `run` would do, without a call more
        registry.entry(name)(source, library.address(out), *arrays, *numbers, row, 0, units)
    else:
        run(registry.entry(name), (source, library.address(out), *arrays, *numbers, row), work, name)


def cuda(
    name: str,
    library: Library,
    src: Array | int,
    out: Array,
    arrays: tuple[Array, ...],
    numbers: tuple[int, ...],
    work: Fields,
    structure: Any,
) -> None:
    """Start the CUDA kernel on the current stream of the array's library; nothing waits for it."""
    from . import _cuda

    _cuda.launch(registry.kernel(name, "cuda"), library, src, out, arrays, numbers, Work(*work), structure)


def _result(library: Library, x: Array) -> Array:
    return (NUMPY if type(x) is np.ndarray else library).result(x)


def arithmetic(
    name: str,
    library: Library,
    inputs: tuple[Array, ...],
    outputs: tuple[Array, ...],
    arrays: tuple[Array, ...],
    numbers: tuple[int, ...],
    work: Fields,
    structure: Any,
) -> None:
    """Start a kernel that calculates: it takes flat arrays of native dtypes, arrays of int64, then numbers."""
    device = library.kind(outputs[0])
    if device == "cpu":
        # scratch on the host is NumPy's for all libraries
        results = map(library.result, outputs) if library is NUMPY else [_result(library, x) for x in outputs]
        data = (*map(library.operand, inputs), *results)
        kernel = registry.entry(name, tuple(map(_type_of, data)))
        run(kernel, (*data, *arrays, *numbers), work, name)
        return
    from . import _cuda

    found = registry.kernel(name, device)
    _cuda.launch_arithmetic(found, library, inputs, outputs, arrays, numbers, Work(*work), structure)


def sent(library: Library, arrays: tuple[Array, ...], like: Array) -> list[Array]:
    """Arrays of the host beside `like`, which is on a GPU, after one copy."""
    from . import _cuda

    return _cuda.sent(library, arrays, like)


_launchers: dict[str, Callable[..., None]] = {"cpu": move, "cuda": cuda}


def launcher(device: str) -> Callable[..., None]:
    """The launcher for a kind of device; DeviceError where there is none."""
    try:
        return _launchers[device]
    except KeyError:
        known = ", ".join(sorted(_launchers))
        raise DeviceError(f"no kernels for the device {said(device)}; there are kernels for: {known}") from None


def add_launcher(device: str, function: Callable[..., None]) -> None:
    """Register how kernels are started on a new kind of device."""
    _launchers[device] = function
