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


def run(kernel: Callable[..., None], args: tuple[Any, ...], work: Fields, name: str = "", keep: Any = None) -> None:
    """Run a kernel for the CPU over all units, in blocks over the pool where the work is large.

    `keep` is what owns the memory behind addresses among `args`.
    """
    units, rows, row, lengths = work
    if is_large(rows * row, name):
        _threads.run(kernel, args, _cuts(units, lengths), keep)
    else:
        kernel(*args, 0, units)


def move(
    name: str,
    library: Library,
    src: Array | tuple[Array, ...],
    out: Array,
    arrays: tuple[Array, ...],
    numbers: tuple[int, ...],
    work: Fields,
    structure: Any,
) -> None:
    """Start a kernel that moves rows, where `out` lives.

    `src` is an array, or a tuple of those whose addresses are among `arrays` (the kernel's own `src` is 0 then).
    On the CPU it runs in blocks over the pool where the move is large; launchers of other devices keep copies of the
    arrays on `structure`.
    """
    if type(out) is np.ndarray:
        library = NUMPY
    else:
        device = library.kind(out)
        if device != "cpu":
            start = launcher(device).move
            start(registry.kernel(name, device), library, src, out, arrays, numbers, Work(*work), structure)
            return
    if isinstance(src, tuple):
        source = 0
    else:
        source = (NUMPY if type(src) is np.ndarray else library).address(src)
    units, rows, row, _ = work
    if rows * row < _THREADS_FROM:  # what `run` would do, without a call more
        registry.entry(name)(source, library.address(out), *arrays, *numbers, row, 0, units)
    else:
        run(registry.entry(name), (source, library.address(out), *arrays, *numbers, row), work, name, (src, out))


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
    start = launcher(device).arithmetic
    start(registry.kernel(name, device), library, inputs, outputs, arrays, numbers, Work(*work), structure)


def sent(library: Library, arrays: tuple[Array, ...], like: Array) -> list[Array]:
    """Arrays of the host beside `like`, which is on another device, after as few copies as that needs."""
    return launcher(library.kind(like)).sent(library, arrays, like)


def one_by_one(library: Library, arrays: tuple[Array, ...], like: Array) -> list[Array]:
    """The `sent` of a device that has none of its own."""
    return [library.from_host(array, like) for array in arrays]


class Launcher(NamedTuple):
    """How kernels are started on a kind of device other than the host.

    The arguments of both starts are those of `move` and `arithmetic` here, with the kernel that is registered for the
    device instead of its name; what is not on the device yet (`arrays`, the item of a padding), they bring there.
    """

    move: Callable[..., None]  # (kernel, library, src, out, arrays, numbers, work, structure)
    arithmetic: Callable[..., None]  # (kernel, library, inputs, outputs, arrays, numbers, work, structure)
    sent: Callable[[Library, tuple[Array, ...], Array], list[Array]] = one_by_one


_launchers: dict[str, Launcher] = {}


def launcher(device: str) -> Launcher:
    """The launcher for a kind of device; DeviceError where there is none."""
    check_device(device)
    if device not in _launchers:
        from . import _cuda

        add_launcher(device, Launcher(_cuda.launch, _cuda.launch_arithmetic, _cuda.sent))
    return _launchers[device]


def check_device(device: str) -> None:
    """DeviceError for a kind of device on which no kernel can be started."""
    known = {"cpu", "cuda", *_launchers}
    if device not in known:
        raise DeviceError(
            f"no kernels for the device {said(device)}; there are kernels for: {', '.join(sorted(known))}"
        )


def add_launcher(device: str, launcher: Launcher) -> None:
    """Register how kernels are started on a new kind of device."""
    _launchers[device] = launcher
