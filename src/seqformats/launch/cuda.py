"""Starting kernels on CUDA: their code, once a device, and their arguments, as words of memory.

Importing it loads neither Numba nor a driver.  What Numba's simulator cannot see, each with what sees it:

- a barrier that some threads of a block never reach: loops around one go by what is the same for the whole block, and
  ``compute-sanitizer --tool synccheck`` counts, where there is a GPU;
- an address that does not suit a machine word, which ends the process on a GPU: `_word` looks at every address and at
  the size of a row, `Library.align` at what is calculated with, and in the simulator every array is looked at;
- shared memory that still has what another block has left there: in the simulator it is new for each block, so a kernel
  writes what it reads, ``--tool initcheck`` looks;
- what another block has written, which is there without a fence where blocks run one after the other: no kernel but
  those with `parts.keys.came_last` reads such a thing, and the test of the code for GPUs looks for their fences;
- two constants that must agree, where the simulator has smaller ones: how many threads a block has and how many places
  its shared memory, which the test of the code for GPUs compares with `grids`; how many blocks a grid has and how much
  room for work its caller took, which the tests of `grids` compare;
- a parameter that is packed as another one than the compiler expects: the simulator is given the same words, and checks
  each against the signature that the code is compiled for.
"""

from __future__ import annotations

import contextlib
import functools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import Array, Library
from ..arrays.library import watch
from ..errors import DEVICE, DeviceError
from ..layout import SHORT, Constants, Layout
from ..lazy_import import import_now
from ..native import cubins
from ..native.signature import FOURS, Signature, Word, with_places
from .driver import SIMULATED, Driver, Event, driver
from .grids import Triple, fours_fill, geometry
from .kernel import Kernel, Numbers, Sequences, Work
from .plans import run_planned as run_planned  # one of a launcher's functions
from .resident import Place, Resident, Sent, begins_at, bring, constant, packed_of, words_of, zeros

# A machine word of so many bytes.  There is no 16-byte integer, so complex128 stands for one.
WORD_DTYPES: dict[int, Any] = {1 << k: np.dtype(code) for k, code in enumerate(("u1", "u2", "u4", "u8", "c16"))}
# Of the words of an array: how many there are, and which are its size and its address.
_ARRAY, _SIZE, _ADDRESS = 7, 2, 4
_FAR = 1 << 32
"""From so many items on an array of a call needs places of 64 bits."""
_CODES = {size: dtype.str[1:] for size, dtype in WORD_DTYPES.items()}

_MOST_OF_NOTHING = 64
_of_nothing: dict[int, tuple[tuple[Any, ...], list[str], list[int]]] = {}
"""Codes and words of tuples in which every array is empty, as most limits of a search are, by their identity."""


def devices() -> list[str]:
    """The names of the GPUs; none where there is no driver."""
    if SIMULATED:
        return ["simulator"]
    try:
        found = driver()
        return [found.name(index) for index in range(found.count())]
    except DeviceError:
        return []


# --- starting a kernel -----------------------------------------------------------------------------------------------


def start(
    kernel: Kernel,
    library: Library,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    args: tuple[Any, ...],
    size: int,
    work: Work,
    structure: object,
) -> None:
    """Start a kernel on the current stream of the array's library; nothing waits for it.

    See `Kernel.start` and `Kernel.start_named`.
    """
    traits = kernel.traits or kernel.get_traits()
    if work.units == 0 or size == 0 or (traits.does == "moves" and work.rows == 0):
        return
    out = outputs[0][0] if isinstance(outputs[0], tuple) else outputs[0]
    index = library.index(out)
    given = inputs, outputs, args
    if SIMULATED:
        _start(None, Place(None, library, out, index), kernel, given, size, work, structure)
        return
    found = driver()
    if found.current() == index:
        _start(found, Place(found, library, out, index), kernel, given, size, work, structure)
    else:
        with found.use_device(index):
            _start(found, Place(found, library, out, index), kernel, given, size, work, structure)


def _start(
    driver: Driver | None,
    place: Place,
    kernel: Kernel,
    given: tuple[Any, Any, Any],
    size: int,
    work: Work,
    structure: Any,
) -> None:
    """Start a kernel where a context of the device is current; `given` are inputs, outputs and arguments."""
    inputs, outputs, args = given
    traits = kernel.get_traits()
    moves = traits.does == "moves"
    call = _Call(place, structure, traits.complexes)
    house = not kernel.functions  # those of a user are written for plain items, and any sequence
    short = house and traits.short and structure is not None and structure.longest <= SHORT
    over = "units" if short else traits.over
    if moves:
        size = call.moving(inputs[0], place.like, args, size)
    else:
        fours = house and traits.fours and over in ("lines", "units") and fours_fill(over, work, size)
        size = call.calculating(inputs, outputs, args, size, fours)
    grid, block, more = geometry(over, work, size)
    words = call.words
    words.append(size)
    words += more
    bits = 32 if call.most < _FAR else 64
    key = place.index, short, bits, *call.codes
    code = kernel.on_gpus.get(key)
    if code is None:
        kinds = _kinds((0, 0, *args) if moves else (*inputs, *outputs, *args), call.codes, 2 if moves else 0)
        signature = (*kinds, *["i"] * (1 + len(more)))
        if house:
            signature = with_places(signature, bits)
        code = _prepare(kernel, driver, place.index, signature, len(words), short)
        kernel.on_gpus[key] = code
    if watch.recorder is not None:
        watch.recorder.record_start(place, code, (grid, block, words), call)
    code.start(grid, block, place.stream, words)
    place.await_kernel(kernel.name)


def _prepare(kernel: Kernel, driver: Driver | None, index: int, signature: Signature, words: int, short: bool) -> Any:
    """The code of a kernel for arguments of these types, which a device has loaded."""
    function: Callable[[], Any] = (lambda: kernel.load().short) if short else functools.partial(kernel.function, "cuda")
    if driver is None:
        return _Simulated(function(), signature)
    if kernel.functions:  # those of a user, who may have none for CUDA
        kernel.function("cuda")
    house = "cuda" not in kernel.functions
    name = f"{kernel.name}.short" if short else kernel.name
    for image in cubins.images_of(name, function, signature, driver.capability(index), house):
        try:
            return driver.load(image.data, image.entry, words, kernel.name)
        except DeviceError:
            if image.origin != "shipped":
                raise
    raise AssertionError(name)  # the last one is not shipped


class _Simulated:
    """A kernel in the simulator."""

    def __init__(self, function: Callable[..., Any], signature: Signature) -> None:
        self.function, self.signature = function, signature

    def start(self, grid: Triple, block: Triple, stream: int, words: Sequence[int]) -> None:
        import_now("..kernels.parts.simulator", __package__).run(self.function, self.signature, grid, block, words)


class _Call:
    """The arguments of one start, as words.

    `codes` are the dtypes of the arrays outside of layouts, and `most` the items of the largest array.  These two
    choose the code of the kernel; all else is the same in each call.  `arrays` are the caller's arrays on the device,
    with the places of their addresses among the words.  Other memory that the kernel reads is in `parts`, or at the
    addresses in an array of the host, the `table`.
    """

    __slots__ = (
        "_complexes",
        "_host",
        "_place",
        "_resident",
        "_sent_now",
        "_structure",
        "arrays",
        "codes",
        "most",
        "table",
        "words",
    )

    def __init__(self, place: Place, structure: Any, complexes: tuple[str, ...]) -> None:
        self.words: list[int] = []
        self.codes: list[str] = []
        self.most = 0
        self._place, self._complexes = place, complexes
        self._structure = structure
        self._resident = None if structure is None else Resident.get(structure, place)
        self._host: dict[int, tuple[int, ...]] = {}
        self._sent_now: list[Sent] = []  # which is kept until the kernel is started, as the arrays are
        self.arrays: list[tuple[int, Array]] = []
        self.table: Array | None = None

    @property
    def parts(self) -> list[Sent]:
        """Memory that was written once, which the kernel reads."""
        return [*self._sent_now, *(() if self._resident is None else self._resident.parts)]

    def moving(self, src: Any, out: Array, args: tuple[Any, ...], size: int) -> int:
        """Add the arguments of a kernel that moves rows; return the size of a row in machine words, as wide as fit."""
        library = self._place.library
        target, source, filling = library.address(out), 0, False
        bits = size | target
        if type(src) is tuple and src:  # arrays at the addresses in the first of `args`
            first = args[0]
            self.table = first.starts if type(first) is Layout else first
            bits |= int(np.bitwise_or.reduce(self.table))
            self.codes.append("i")
        else:
            if type(src) is np.ndarray:
                filling, source = True, self._constant(src, "an item of a padding") if src.any() else self._zeros(size)
            elif type(src) is tuple:
                filling, source = True, self._zeros(size)
            else:
                source = library.address(src)
                self.arrays.append((_ADDRESS, src))
            bits |= source
        word = _word(bits)
        code = _CODES[word]
        if self.codes:
            self.words.append(0)
        else:
            self.codes.append(code)
            self._add_words(source, (size if filling else _bytes(library, src)) // word, word)
        self.codes.append(code)
        self.arrays.append((len(self.words) + _ADDRESS, out))
        self._add_words(target, _bytes(library, out) // word, word)
        self._arguments(args)
        return size // word

    def _constant(self, numbers: Array, what: str) -> int:
        address, kept = constant(numbers, self._place, what)
        self._sent_now.append(kept)
        return address

    def _zeros(self, size: int) -> int:
        address, kept = zeros(size, self._place)
        self._sent_now.append(kept)
        return address

    def calculating(
        self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], args: tuple[Any, ...], size: int, fours: bool
    ) -> int:
        """Add the arguments of a kernel that calculates: flat arrays, complex numbers as pairs if it takes none.

        Inputs may be on the host, and arrays in `args` on the device.  With `fours` the kernel may get four numbers as
        one item.  Returns the items of a row.
        """
        self._bring((*inputs, *args))
        for x in inputs:
            self._add(x, False)
        for x in outputs:
            self._add(x, True)
        first = outputs[0]
        while isinstance(first, tuple):
            first = first[0]
        size *= _kind(self._place.library, first.dtype, self._complexes)[2]
        if fours and size % 4 == 0 and self._in_fours():
            size //= 4
        for x in args:
            self._add(x, False)
        return size

    def _in_fours(self) -> bool:
        """View all arrays so far as float32x4, if all are float32 and 16-byte aligned; tell whether they are."""
        words, begins = self.words, range(0, len(self.words), _ARRAY)
        if set(self.codes) != {"f4"} or len(words) != _ARRAY * len(self.codes):
            return False
        if any(words[k + _ADDRESS] % 16 for k in begins):
            return False
        for k in begins:
            words[k : k + _ARRAY] = words_of(words[k + _ADDRESS], words[k + _SIZE] // 4, 16)
        self.codes = [FOURS] * len(self.codes)
        return True

    def _arguments(self, args: tuple[Any, ...]) -> None:
        self._bring(args)
        for x in args:
            self._add(x, False)

    def _bring(self, args: tuple[Any, ...]) -> None:
        """Copy arrays of the host in these arguments to the device, unless they are there."""
        resident, place = self._resident, self._place
        unknown: list[Array] = []
        if not self._find(args, unknown):
            sent, self._host = bring(unknown, self._structure, resident, place)
            self._sent_now += [sent] if sent else []
        if resident is not None:
            resident.meet(place)

    def _find(self, args: tuple[Any, ...], unknown: list[Array]) -> bool:
        """Tell whether all arrays are on the device; add those that are not to `unknown`."""
        resident = self._resident
        for x in args:
            if type(x) is Layout:
                if resident is None or resident.find_words(x) is None:
                    unknown += x[:3]
            elif type(x) is np.ndarray:
                if x.size and (resident is None or resident.find_words(x) is None):
                    unknown.append(x)
            elif isinstance(x, tuple) and type(x) is not Constants and id(x) not in _of_nothing:
                self._find(x, unknown)
        return not unknown

    def _add(self, x: Any, written: bool) -> None:
        """Add an argument after the others."""
        if type(x) is int:
            self.words.append(x)
        elif isinstance(x, tuple):
            if type(x) is Layout:
                self.words += self._layout(x)
            elif type(x) is Constants:
                self._add_constants(x.numbers)
            else:
                self._add_all(x, written)
        elif type(x) is np.ndarray:
            self.codes.append("u1" if x.dtype.kind == "b" else x.dtype.str[1:])
            self.words += self._send(x)
        elif isinstance(x, np.integer):
            self.words.append(int(x))
        elif type(x) is float:
            self.codes.append("d")
            self.words += struct.unpack("q", struct.pack("d", x))
        else:
            self._add_there(x, written)

    def _add_all(self, x: tuple[Any, ...], written: bool) -> None:
        """Add all in a tuple; the words of a tuple with empty arrays alone are kept."""
        found = _of_nothing.get(id(x))
        if found is not None:
            self.codes += found[1]
            self.words += found[2]
            return
        codes, words = len(self.codes), len(self.words)
        for part in x:
            self._add(part, written)
        if all(type(part) is int or (type(part) is np.ndarray and not part.size) for part in x):
            if len(_of_nothing) >= _MOST_OF_NOTHING:
                _of_nothing.clear()
            _of_nothing[id(x)] = x, self.codes[codes:], self.words[words:]

    def _add_constants(self, x: Array) -> None:
        """Add numbers that stay on the device."""
        self.codes.append(x.dtype.str[1:])
        address = self._constant(x, "what is asked of a batch") if x.size else 0
        self._add_words(address, x.size, x.itemsize)

    def _add_there(self, x: Array, written: bool) -> None:
        """Add an array that is on the device."""
        library = self._place.library
        code, itemsize, parts, swapped = _kind(library, x.dtype, self._complexes)
        if swapped:
            x = library.astype(x, x.dtype.newbyteorder("="))
        if not written:
            x = library.align(x)
        self.arrays.append((len(self.words) + _ADDRESS, x))
        self.codes.append(code)
        self._add_words(library.address(x), math.prod(x.shape) * parts, itemsize)

    def _add_words(self, address: int, size: int, itemsize: int) -> None:
        """Add the words of an array that is on the device."""
        if size > self.most:
            self.most = size
        self.words += words_of(address, size, itemsize)

    def _layout(self, at: Layout) -> tuple[int, ...]:
        resident = self._resident
        words = None if resident is None else resident.find_words(at)
        if words is None:
            arrays = {id(x): x for x in at[:3]}
            found = {name: self._send(x) for name, x in arrays.items()}
            words = *found[id(at[0])], *found[id(at[1])], *found[id(at[2])], *map(int, at[3:])
            if resident is not None and all(resident.find_words(x) for x in arrays.values() if x.size):
                resident.remember(at, words)
        self.most = max(self.most, words[_SIZE])
        return words

    def _send(self, x: Array) -> tuple[int, ...]:
        """Return the words of the copy on the device of an array of the host."""
        if not x.size:
            return words_of(0, 0, x.itemsize)
        self.most = max(self.most, x.size)
        found = self._host.get(id(x))
        if found is None and self._resident is not None:
            found = self._resident.find_words(x)
        return found or self._resent(x)

    def begin_of_table(self) -> int:
        """Return the address to which the table was sent for this call alone; 0 if it stays on the device."""
        address = self._host.get(id(self.table), (0,) * _ARRAY)[_ADDRESS]
        return 0 if self._resident is not None and self._resident.holds(address) else address

    def _resent(self, x: Array) -> tuple[int, ...]:
        """Send an array again whose copy on the device has been forgotten meanwhile."""
        sent, words = bring((x,), self._structure, self._resident, self._place)
        self._sent_now += [sent] if sent else []
        self._host |= words
        return words[id(x)]


def _kinds(args: Sequence[Any], codes: Sequence[str], known: int) -> tuple[Word, ...]:
    """Return the types of arguments; `codes` are those of the first `known` arguments, then of the arrays."""
    left = iter(codes)

    def kind(x: Any) -> Word:
        if type(x) is Layout:
            return ("Layout", "i8", "i8", "i8", "i", "i", "i", "i")
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return (type(x).__name__, *[kind(part) for part in x])
        return "i" if isinstance(x, (int, np.integer)) else next(left)

    return (*[next(left) for _ in range(known)], *[kind(x) for x in args[known:]])


def _word(bits: int) -> int:
    """The largest machine word, in bytes, of which addresses and sizes with these bits are multiples."""
    bits |= 16
    return bits & -bits


@functools.lru_cache(maxsize=1024)
def _kind(library: Library, dtype: Any, complexes: tuple[str, ...]) -> tuple[str, int, int, bool]:
    """Describe a dtype: the code of a number in kernels, its bytes, numbers per item, and if its bytes are swapped."""
    name = library.dtype_name(dtype)
    plain = np.dtype("u1" if name == "bool" else name)
    code = plain.str[1:]
    swapped = not getattr(dtype, "isnative", True)
    if plain.kind == "c" and code not in complexes:
        return f"f{plain.itemsize // 2}", plain.itemsize // 2, 2, swapped
    return code, plain.itemsize, 1, swapped


def _bytes(library: Library, x: Array) -> int:
    return library.itemsize(x.dtype) * math.prod(x.shape)


def send_numbers(library: Library, numbers: Numbers, x: Array, like: Array) -> Array:
    """Return the copy of `x`, one of these arrays of the host, on the device of `like`; all are copied together."""
    dtype = library.dtype(x.dtype.name)
    if not x.size:
        return library.empty(x.shape, dtype, like)
    with _enter_place(library, like) as place:
        resident = Resident.get(numbers, place)
        if place.captured and resident.missing(numbers):  # the graph takes along what it needs
            buffer, begin = place.bring(packed_of([x])[1], "an array of the host"), 0
        else:
            bring((), numbers, resident, place)
            resident.meet(place)
            buffer, begin = resident.copy_of(x)
    return buffer[begin : begin + x.nbytes].view(dtype)


def keep(library: Library, structure: Sequences | Numbers, like: Array) -> None:
    """Copy the arrays of a structure that are known to the device of `like`, and keep them there."""
    with _enter_place(library, like) as place:
        resident = Resident.get(structure, place)
        if place.captured and resident.missing(structure):
            raise DEVICE(
                f"while a graph is captured the structure of a batch cannot go to {library.device(like)} to stay; call "
                "x.structure_to(device) before the capture"
            )
        bring((), structure, resident, place)


def lend(library: Library, structure: Sequences, host: Array, there: Array) -> None:
    """Let kernels find `there`, on a device, as the copy of the array `host` of a structure."""
    with _enter_place(library, there) as place:
        address = library.address(there)
        event = None
        if place.driver is not None and not place.captured:
            event = Event.record(place.driver, place.index, place.stream)
        lent = Sent(there, address, event, place.stream)
        begin = begins_at(host)
        Resident.get(structure, place).keep({begin: host}, lent, {begin: address})


@contextlib.contextmanager
def _enter_place(library: Library, like: Array) -> Iterator[Place]:
    """Make the context of an array's device current, and yield the place of the array."""
    index = library.index(like)
    if SIMULATED:
        yield Place(None, library, like, index)
        return
    found = driver()
    with found.use_device(index):
        yield Place(found, library, like, index)
