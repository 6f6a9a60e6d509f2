"""Kernels by name, and how they are started.

What a kernel takes is the same on every device: the inputs, the outputs, then layouts, arrays of int64 and whole
numbers, then the size of a row.  On the host the units to begin and to end with come after that, and arrays of which
only bytes are moved are addresses; a launcher of another device turns all into what that wants.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from .. import core
from ..arrays.library import Array, Library
from ..arrays.numpy import NUMPY, distinct
from ..errors import DEVICE, KERNEL, quote
from ..layout import Layout
from ..lazy_import import import_now, loading
from ..native.code import Traits, by_numba, code_of, is_interpreted, spec_of, traits_of
from ..native.loading import MIN_BYTES_WITHOUT_GIL, check_memory
from ..native.signature import Signature, signature_of
from . import threads

if TYPE_CHECKING:  # which loads Numba
    from ..kernels.parts.record import KernelSpec


class Sequences(Protocol):
    """Structure of a batch as kernels need it, a `formats.structure.Structure`."""

    n: int
    rows: int
    lengths: Array
    offsets: Array
    order: Any  # by falling length
    device: dict[Any, Any]  # copies of its arrays on other devices
    calls: dict[Any, Any]  # what calls on a device come to, see `launch.plans`

    @property
    def late(self) -> bool:
        """Tell whether lengths are on a device alone."""

    def cached_arrays(self) -> list[Array]:
        """The arrays that kernels take, as far as they have been asked for."""


class Numbers:
    """Arrays of the host that several kernels take, in place of a structure: a device gets all of them at once.

    Among them are `counters`, so many zeros, which kernels may change and leave as they were.
    """

    late = False

    def __init__(self, arrays: Iterable[Array], counters: int = 0) -> None:
        self.counters: Array = np.zeros(counters, np.int64)
        self.arrays = [*arrays, self.counters]
        self.device: dict[Any, Any] = {}

    def cached_arrays(self) -> list[Array]:
        """See `Sequences`."""
        return self.arrays

    def send_one(self, library: Library, x: Array, like: Array) -> Array:
        """One of them where `like` is, on another device."""
        return launcher(library.kind(like)).send_numbers(library, self, x, like)


class Work(NamedTuple):
    """Amount of work, where a structure does not say it.

    `units` is what a kernel's `lo` and `hi` count (sequences, columns, runs), `rows` how many rows are read or written;
    ``lengths (units,)``: the rows of each unit, None where they are about the same.
    """

    units: int
    rows: int
    lengths: Array | None = None


class Note:
    """Stands in the place of a call plan."""

    def follow(self, inputs: tuple[Array, ...]) -> None:
        """Tell that there is nothing to be followed."""

    follow_one = follow


SEEN = Note()
"""Note for a call that has been seen once."""
Change = Callable[[Array], Array]


# --- kernels ---------------------------------------------------------------------------------------------------------


class Kernel:
    """A kernel of the table, by name.  Its file is imported when it is first needed, which loads Numba."""

    __slots__ = ("by_words", "code", "followers", "freely", "functions", "name", "on_gpus", "run", "spec", "traits")

    code: dict[Any, Callable[..., Any]]
    """What runs on the host, by the numbers of the dtypes of what it calculates with: machine code, see `native`."""
    run: Callable[..., Any]
    """Run a kernel of one variant on the host: the arguments have the same types each time, its numbers are whole.

    From the second call on this is machine code, and no Python comes between.  Other threads wait meanwhile, unless its
    arrays are large."""
    freely: Callable[..., Any]
    """The same while other threads run: for many bytes at addresses."""

    by_words: dict[Any, int]
    """The address of the same for other machine code, by the same numbers."""
    on_gpus: dict[Any, Any]
    """What a GPU has loaded, by its number and the dtypes of what it calculates with."""
    followers: list[Callable[[], None]]
    """Functions that are called when these addresses are to be forgotten."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: KernelSpec | None = None
        self.traits: Traits | None = None
        self.functions: dict[str, Callable[..., Any]] = {}
        """Those that users have registered, by device."""
        self.followers = []
        self.forget()

    def forget(self) -> None:
        """Look for the code on the host anew."""
        self.code, self.by_words, self.on_gpus = {}, {}, {}
        self.run = self.freely = functools.partial(self._first, None)
        while self.followers:
            self.followers.pop()()
        if self.name in core.NAMES:
            core.use_kernel(self.name, 0)

    def load(self) -> KernelSpec:
        """Load the record of the kernel; DeviceError where there is none of this name."""
        if self.spec is None:
            with loading:
                self.spec = spec_of(self.name)
        return self.spec

    def get_traits(self) -> Traits:
        """The traits needed to start it on the host; this loads Numba only where nobody has kept them."""
        if self.traits is None:
            with loading:
                self.traits = traits_of(self.name) if self.spec is None else Traits.from_spec(self.spec)
        return self.traits

    def function(self, device: str) -> Callable[..., Any]:
        """The function for this kind of device, for CUDA not compiled yet; DeviceError where there is none."""
        found = self.functions.get(device)
        if found is None:
            spec = self.load()
            there = {kind: getattr(spec, kind) for kind in ("cpu", "cuda") if getattr(spec, kind) is not None}
            found = there.get(device)
            if found is None:
                known = ", ".join(sorted({*there, *self.functions}))
                raise KERNEL(f"no kernel {self.name} for the device {quote(device)}; there is one for: {known}")
        return found

    def find_variant(self, *arrays: Array) -> Callable[..., Any]:
        """Find the code for these arrays on the host, of a kernel whose calls differ in the types of arrays."""
        variant = _variant(arrays)
        return self.code.get(variant) or functools.partial(self._first, variant)

    def _first(self, variant: int | None, *args: Any) -> Any:
        """A call before the code for its arguments is known.

        A fork has to wait until it is found.
        """
        with loading:
            if variant is None and self.get_traits().several:
                kinds: Any = signature_of(args)
                code = self.code.get(kinds) or self.code.setdefault(kinds, self._load_code(kinds, args)[0])
            else:
                code, freely = self._load_code(variant, args)
                self.code[variant] = code
                if variant is None:
                    self.run, self.freely = code, freely
        return code(*args)

    def _load_code(self, variant: object, args: tuple[Any, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Find the code of the kernel for arguments of these types: `run` and `freely`."""
        function = self.functions.get("cpu")
        if function is None:
            found = code_of(self.name, signature_of(args))
            if found is not None:
                self._is_at(variant, found.by_words)
                return found.run, found.freely
            function = by_numba(self.name)
        import_now("numpy.ma", None)  # which Numba asks for with the first array, before it takes a lock of its own
        return function, function

    def _is_at(self, variant: Any, address: int) -> None:
        """Note the address of a variant, also for the fast paths that several operations share."""
        self.by_words[variant] = address
        if variant is None and self.name in core.NAMES:
            core.use_kernel(self.name, address)

    def teach(self, path: Any, dtypes: tuple[Any, ...], made: Any, variant: int | None = None) -> None:
        """Tell a fast path, a `core.Calculate` or `core.Spread`, where the code for these dtypes is, if that is known.

        It is forgotten when another function is registered for this kernel.
        """
        if path.knows(*dtypes):
            return
        with loading:
            address = self.by_words.get(variant, 0)
            if address and all(map(core.knows_dtype, (*dtypes, made))):
                if path.forget not in self.followers:
                    self.followers.append(path.forget)
                path.add(dtypes, address, made)

    def move_rows(self, x: Any, structure: Any, *args: Any) -> Any:
        """Move rows of an encoding, on one thread; `args` are what the kernel takes behind where they lie.

        The result is laid out as `x`, or with a `structure` a `Ragged` of that.  None where batch or kernel are not
        plain: `start` does it.
        """
        address = self.by_words.get(None)
        return None if address is None else core.move_by_kernel(address, x, structure, *args)

    def address(self, signature: Signature) -> int:
        """Give the `by_words` of a kernel of one variant, loaded now if nobody has run it; 0 where there is none."""
        with loading:
            if None not in self.by_words and "cpu" not in self.functions:
                found = code_of(self.name, signature)
                if found is not None:
                    self._is_at(None, found.by_words)
                    self.code[None], self.run, self.freely = found.run, found.run, found.freely
            return self.by_words.get(None, 0)

    def start(
        self,
        library: Library,
        inputs: tuple[Any, ...],
        outputs: tuple[Array, ...],
        args: tuple[Any, ...],
        size: int,
        structure: Sequences | None,
        work: Work | None = None,
        *,
        variant: int | None = None,
    ) -> None:
        """Start a kernel over all units, where its outputs are; on the host it has ended when this returns.

        Parameters
        ----------
        library : whose arrays these are; on the host some may be NumPy's instead
        inputs : arrays; of a kernel that moves rows one, or a tuple of arrays at the addresses in the first of `args`,
            or the bytes of an item on the host, or for an item of zeros ()
        outputs : arrays beside each other
        args : what the kernel takes between these and the size: layouts, arrays of int64, whole numbers
        size : of a row, in items, or in bytes where rows are moved; nothing is started for 0, nor without units
        structure : over which sequences the kernel goes; a device keeps copies of its arrays there
        work : how much there is to do, where that is not all rows of `structure`
        variant : the key in `code` of the dtypes of these arrays, where the caller knows it; see `variant_of`
        """
        sequences: Any = structure
        if not size or not (sequences.n if work is None else work.units):
            return
        spec = self.traits or self.get_traits()
        out = outputs[0]
        own = NUMPY if type(out) is np.ndarray else library
        if own is not NUMPY and (device := library.kind(out)) != "cpu":
            if work is None:
                work = Work(sequences.n, sequences.bound if sequences.late else sequences.rows)
            launcher(device).start(self, library, inputs, outputs, args, size, work, structure)
            return
        if structure is not None and structure.late:
            sequences.to_host()
        units, rows, lengths = (sequences.n, sequences.rows, None) if work is None else work
        data: list[Any]
        if spec.does == "moves":
            src = inputs[0]
            if type(src) is tuple:
                source = 0
            else:
                source = (NUMPY if type(src) is np.ndarray else library).address(src)
            if rows * size < spec.threads_from:
                run = self.run if rows * size < MIN_BYTES_WITHOUT_GIL else self.freely
                run(source, own.target(out), *args, size, 0, units)
                return
            code, data = self.freely, [source, own.target(out)]
        else:
            if core.start(self.code, variant, inputs, outputs, args, size, rows, units, spec.threads_from):
                return
            data = []
            for x in inputs:
                data.append((NUMPY if type(x) is np.ndarray else library).operand(x))
            for x in outputs:
                data.append((NUMPY if type(x) is np.ndarray else library).result(x))
            if variant is None:
                variant = _variant(data)
            code = self.code.get(variant) or functools.partial(self._first, variant)
            if rows * size * data[0].itemsize < spec.threads_from:
                code(*data, *args, size, 0, units)
                return
        if work is None:
            lengths = _lengths(args, structure)
        threads.run(code, (*data, *args, size), cuts(units, lengths), (inputs, outputs))

    def start_named(
        self,
        library: Library,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        args: tuple[Any, ...],
        size: int,
        work: Work,
        structure: Sequences | Numbers | None = None,
    ) -> None:
        """`start` for a kernel that calculates, where any of these may be named tuples of arrays and whole numbers.

        The kernel takes each as one argument.  Where it runs the first array of the outputs says.
        """
        out = outputs[0][0] if isinstance(outputs[0], tuple) else outputs[0]
        device = "cpu" if type(out) is np.ndarray else library.kind(out)
        if device != "cpu":
            launcher(device).start(self, library, inputs, outputs, args, size, work, structure)
            return
        spec = self.traits or self.get_traits()
        if core.start(self.code, None, inputs, outputs, args, size, work.rows, work.units, spec.threads_from):
            return
        seen: list[Array] = []
        data = [_fields(x, NUMPY.operand, library.operand, seen) for x in inputs]
        data += [_fields(x, NUMPY.result, library.result, seen) for x in outputs]
        self.run_over((*data, *args, size), work, work.rows * size * seen[0].itemsize, _variant(seen))

    def run_over(self, args: tuple[Any, ...], work: Work, size: int, variant: int = 0) -> None:
        """Run the kernel of the host over all units of `work`, `size` bytes; when it has ended, this returns.

        The arguments are what it takes, but the units, and have the same types in all calls of a `variant`.
        """
        spec = self.traits or self.get_traits()
        code = self.code.get(variant) or functools.partial(self._first, variant)
        if size < spec.threads_from:
            code(*args, 0, work.units)
        else:
            threads.run(code, args, cuts(work.units, work.lengths), args)


def _fields(x: Any, own: Change, other: Change, seen: list[Array]) -> Any:
    """An array, or those of a named tuple, as kernels of the host take it: `own` says it of NumPy's."""
    if isinstance(x, tuple):
        kind: Any = type(x)
        return kind(*[_fields(part, own, other, seen) for part in x])
    if isinstance(x, (int, np.integer)):
        return x
    x = (own if type(x) is np.ndarray else other)(x)
    seen.append(x)
    return x


def _lengths(args: tuple[Any, ...], structure: Any) -> Array:
    """The rows of each unit: a sequence, or a column where a layout goes by steps."""
    by_steps = any(type(x) is Layout and x.step != 1 for x in args)
    lengths: Array = structure.order.lengths if by_steps else structure.lengths
    return lengths


def cuts(units: int, lengths: Array | None) -> list[int]:
    """Divide the units so that every block has about the same rows."""
    blocks = min(4 * threads.num_threads(), units)
    if blocks < 2 or threads.num_threads() < 2:
        return [0, units]
    if lengths is None:
        inner = np.arange(1, blocks) * units // blocks
    else:
        cum = np.cumsum(lengths)
        inner = np.searchsorted(cum, np.arange(1, blocks) * (int(cum[-1]) / blocks)) + 1
    return [0, *distinct(inner[inner < units]).tolist(), units]


def variant_of(*names: str) -> int:
    """The key in `Kernel.code` of arrays of these dtypes, by their NumPy names."""
    variant = 0
    for name in names:
        variant = variant << 5 | np.dtype("uint8" if name == "bool" else name).num
    return variant


def _variant(arrays: Iterable[Array]) -> int:
    """Find the variant for arrays, as kernels of the host take them."""
    variant = 0
    for x in arrays:
        variant = variant << 5 | x.dtype.num
    return variant


_kernels: dict[str, Kernel] = {}
epoch = [0]
"""Number of registered kernels; each registration makes call plans void."""
planning: list[object] = []
"""Not empty where call plans are to be looked for: since a kernel has been started on a GPU, see `launch.plans`."""


def kernel(name: str) -> Kernel:
    """The kernel of this name, whether there is one or not; nothing is imported until it is needed."""
    return _kernels.get(name) or _kernels.setdefault(name, Kernel(name))


def add_kernel(name: str, device: str, function: Callable[..., Any]) -> None:
    """Register `function` as the kernel `name` on `device`; later calls find it."""
    found = kernel(name)
    found.functions[device] = function
    if device == "cpu":
        with loading:  # nobody is told of the old code meanwhile
            found.forget()
    found.on_gpus = {}
    epoch[0] += 1


def own_kernel(name: str, cpu: Callable[..., Any], cuda: Callable[..., Any] | None, over: str) -> Kernel:
    """A kernel of a user's functions, which is in no table; DeviceError where no machine code may be made."""
    if not is_interpreted():
        check_memory()
    made = Kernel(name)
    with loading:
        made.spec = import_now("..kernels.parts.custom", __package__).spec_of(cpu, cuda, over)
        made.functions["cpu"] = made.spec.cpu
        if made.spec.cuda is not None:
            made.functions["cuda"] = made.spec.cuda
    return made


# --- other devices ---------------------------------------------------------------------------------------------------


def one_by_one(library: Library, _: Numbers, x: Array, like: Array) -> Array:
    """The `send_numbers` of a device that has none of its own."""
    return library.from_host(x, like)


def cannot_lend(library: Library, _structure: Sequences, _host: Array, there: Array) -> None:
    """The `lend` of a device where structures always come from the host."""
    raise DEVICE(f"the structure of a batch cannot stay on {library.device(there)}; leave trusted=True out")


def in_each_call(library: Library, structure: Sequences, like: Array) -> None:
    """The `keep` of a device where nothing stays."""


def go(*call: Any) -> Any:
    """The `run_planned` of a device without plans."""
    run, args = call[-2:]
    return run(*args)


class Launcher(NamedTuple):
    """Starts kernels on a kind of device other than the host.

    ``start(kernel, library, inputs, outputs, args, size, work, structure)`` is `Kernel.start` with the kernel first,
    whose `function` has the function for the device; what is not on the device yet (arrays of int64, those of layouts,
    the item of a padding), it brings there.  ``keep(library, structure, like)`` brings the arrays of a structure to
    where `like` is, ahead of the kernels that take them, where the launcher has a place for them.
    ``send_numbers(library, numbers, x, like)`` is the copy there of `x`, one of these numbers.  ``lend(library,
    structure, host, there)`` lets kernels find `there` what is to stand in `host`.  ``run_planned(library, structure,
    key, inputs, run, args)`` is ``run(*args)``, where it may put a plan into ``structure.calls``.
    """

    start: Callable[..., None]
    send_numbers: Callable[[Library, Numbers, Array, Array], Array] = one_by_one
    keep: Callable[[Library, Sequences, Array], None] = in_each_call
    lend: Callable[[Library, Sequences, Array, Array], None] = cannot_lend
    run_planned: Callable[..., Any] = go


_launchers: dict[str, Launcher] = {}


def launcher(device: str) -> Launcher:
    """The launcher for a kind of device; DeviceError where there is none."""
    found = _launchers.get(device)
    if found is None:
        check_device(device)
        own = vars(import_now(f".{device}", __package__))
        found = Launcher(**{name: own[name] for name in Launcher._fields if name in own})
        add_launcher(device, found)
    return found


def add_launcher(device: str, launcher: Launcher) -> None:
    """Register how kernels are started on a new kind of device."""
    _launchers[device] = launcher


def check_device(device: str) -> None:
    """DeviceError for a kind of device on which no kernel can be started."""
    known = {"cpu", "cuda", *_launchers}
    if device not in (*known, "program"):
        raise KERNEL(f"no kernels for the device {quote(device)}; there are kernels for: {', '.join(sorted(known))}")
