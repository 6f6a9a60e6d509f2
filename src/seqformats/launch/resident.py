"""Arrays that CUDA kernels read beside their data, on their way to a device: structures, which stay there, and numbers.

A structure goes up once a device, and its offsets and order stay for as long as it lives.  A kernel takes them as
words: seven for an array (see `words_of`), which are found by the array itself, not by where it lies on the host.  A
small one goes up as parameters of a kernel that writes it there, see `parameters`, a larger one as a copy.  The kernels
that read it do not have it as parameters: these lie in another address space, which would want second code for each.
Items of paddings stay there too, as does what is asked of batches again and again; they are found by what they are.

Copies are safe on every stream.  What goes up is followed by an event at once: one that were recorded when a second
stream appears might be recorded in a stream that is gone by then, whose handle another has, or in one that is captured.
Once the event is known to be over, nobody asks again.  Until then a stream waits for it even where its handle is that
of the stream that made the copy; so handles that come back do no harm.

A graph reads a copy at each replay, and nobody tells when it is gone.  So what a capture has seen stays for as long as
the process; and nothing is copied up while a stream is captured, since a graph would read the host's memory again.
What is small is written by a kernel of the graph itself.  It is there once the graph has run, and for those who come
later in it; so it is not found by whoever comes after the capture.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..arrays.library import Array, Library, watch
from ..arrays.numpy import NUMPY
from ..errors import DEVICE
from ..layout import Layout
from . import parameters
from .driver import DEFAULT_STREAMS, Driver, Event

Words = tuple[int, ...]

WAITS = os.environ.get("SEQFORMATS_CUDA_SYNC", "0") not in ("", "0")
"""Is every kernel waited for, so that an error comes up where it was made?"""

_NAMED = 16  # layouts and arrays that are found by themselves: a room for each width, and few of the others
_CONSTANTS = 64  # items of paddings, and numbers of calls, that are kept, on all devices together

_of_graphs: list[Any] = []
"""What a capture has seen."""


def words_of(address: int, size: int, itemsize: int) -> Words:
    """A flat array of so many items, as Numba passes it: who keeps it, twice, sizes, address, shape and strides."""
    return 0, 0, size, itemsize, address, size, itemsize


class Place:
    """Place where a kernel is about to be started: the library of its arrays, the device, its stream."""

    __slots__ = ("captured", "driver", "index", "library", "like", "stream")

    def __init__(self, driver: Driver | None, library: Library, like: Array, index: int) -> None:
        self.driver, self.library, self.like, self.index = driver, library, like, index
        self.stream = library.stream(like)
        self.captured = driver is not None and self.stream not in DEFAULT_STREAMS and driver.capturing(self.stream)

    def await_kernel(self, name: str) -> None:
        """Wait for a kernel that has been started, if every one is waited for; a capture would be invalid then."""
        if WAITS and self.driver is not None and not self.captured:
            self.driver.check(self.driver.StreamSynchronize(self.stream), f"the kernel {name}, which was waited for")

    def bring(self, packed: Array, what: str) -> Array:
        """Bytes on the device, a multiple of 8 of them; DeviceError in a capture if they are many."""
        most = parameters.MAX_BYTES_IN_GRAPH if self.captured else parameters.BYTES_PER_WRITE
        code = None
        if self.driver is not None and packed.size <= most:
            code = parameters.writer(self.driver, self.index)
        if code is not None:
            recorder, watch.recorder = watch.recorder, None  # it is no memory of the call
            buffer = parameters.write(packed, code, self.library, self.like)
            watch.recorder = recorder
            if recorder is not None:
                recorder.wrote(packed, code, buffer)
            self.await_kernel(code.name)
            if self.captured:
                _of_graphs.append(buffer)
            return buffer
        if not self.captured:
            return self.library.upload(packed, self.like)
        raise DEVICE(
            f"{what}, of {packed.size} bytes, would go to {self.library.device(self.like)} in each replay of the graph "
            "that is captured here, from memory of the host which is another's by then; before the capture "
            "x.structure_to(device) brings the structure of a batch there, with order=True for Padded and Packed too, "
            f"and the same call the item of a padding; up to {parameters.MAX_BYTES_IN_GRAPH >> 10} KB a graph takes "
            "along, where the driver has a compiler; give larger numbers as arrays of the device"
        )

    def send(self, packed: Array, what: str) -> Sent:
        """Send bytes to the device for all streams."""
        buffer = self.bring(packed, what)
        event = None
        if self.driver is not None and not self.captured:
            event = Event.record(self.driver, self.index, self.stream)
        return Sent(buffer, self.library.address(buffer), event, self.stream)


class Sent:
    """Memory that was written once, on a stream."""

    __slots__ = ("_events", "_kept", "_met", "address", "buffer", "stream")

    def __init__(self, buffer: Array, address: int, event: Event | None, stream: int) -> None:
        self.buffer, self.address, self.stream = buffer, address, stream
        self._events = [] if event is None else [event]  # at most one, which one thread alone can take away
        self._met: set[int] = {stream}
        self._kept = False

    def __del__(self) -> None:
        """Others may use the event."""
        self._return_event()

    def meet(self, place: Place) -> None:
        """Have it there before what comes next on the stream of a place, and for as long as that runs."""
        stream = place.stream
        if self._events and (stream != self.stream or stream not in DEFAULT_STREAMS):
            self._record(place)
        if place.captured:
            if not self._kept:
                _of_graphs.append(self.buffer)
                self._kept = True
        elif stream not in self._met:
            place.library.share(self.buffer, place.like)
            self._met.add(stream)

    def _record(self, place: Place) -> None:
        for event in self._events[:]:
            with event.driver.beside_captures():
                over = event.is_done()
                if not over and place.captured:  # a graph may not wait for what is outside of it
                    event.wait()
                    over = True
            if over:
                self._return_event()
            else:
                event.met_by(place.stream)

    def is_met(self, stream: int) -> bool:
        """Tell whether a stream that has met it need not do so again."""
        if self._events and (stream != self.stream or stream not in DEFAULT_STREAMS):
            return False
        return stream in self._met

    def settle(self) -> None:
        """Wait until it is there."""
        for event in self._events[:]:
            with event.driver.beside_captures():
                event.wait()
            self._return_event()

    def _return_event(self) -> None:
        """Nobody asks for the event any more."""
        try:  # noqa: SIM105  no name of this module, which may be empty where a process ends
            self._events.pop().give_back()
        except IndexError:
            pass


class Resident:
    """The copies of a structure's arrays that a device has, as words."""

    __slots__ = ("_arrays", "_named", "parts")

    def __init__(self) -> None:
        self.parts: list[Sent] = []
        self._arrays: dict[int, tuple[Array, int]] = {}
        """By where an array begins on the host: it, and where its copy does."""
        self._named: dict[int, tuple[Layout | Array, Words]] = {}
        """Layouts and arrays by their identity: those that were asked for, which therefore live."""

    @classmethod
    def get(cls, structure: Any, place: Place) -> Resident:
        """Find the copy of a structure where a kernel is to be started."""
        library = place.library
        key = (library.name, place.index, place.stream if library.stream_bound else None)
        found: Resident | None = structure.device.get(key)
        return structure.device.setdefault(key, cls()) if found is None else found

    def find_words(self, x: Layout | Array) -> Words | None:
        """The words of a layout, or of an array, that has been asked for before."""
        found = self._named.get(id(x))
        return None if found is None else found[1]

    def remember(self, x: Layout | Array, words: Words) -> None:
        """Find these words by what they are of."""
        if len(self._named) >= _NAMED:
            self._named.clear()
        self._named[id(x)] = x, words

    def address(self, begin: int, size: int) -> int:
        """Give the address of the copy of the array that begins there, or of a longer one; 0 if there is none."""
        found = self._arrays.get(begin)
        return 0 if found is None or found[0].size < size else found[1]

    def missing(self, structure: Any) -> dict[int, Array]:
        """List what of the structure is known and not there, by where it begins on the host."""
        missing = {begins_at(x): x for x in structure.cached_arrays() if x.size}
        for begin in missing.keys() & self._arrays.keys():
            del missing[begin]
        if missing and structure.late:  # they are on another device
            structure.to_host()
        return missing

    def keep(self, arrays: dict[int, Array], sent: Sent, addresses: dict[int, int]) -> None:
        """Find the copies of these arrays of the structure, which have been sent, by where they begin on the host."""
        for begin, x in arrays.items():
            self._arrays[begin] = x, addresses[begin]
        self.parts.append(sent)

    def meet(self, place: Place) -> None:
        """Have all of it there for the stream of a place."""
        for part in self.parts:
            part.meet(place)

    def holds(self, address: int) -> bool:
        """Tell whether an address is in what has gone up to stay."""
        return any(0 <= address - part.address < part.buffer.shape[0] for part in self.parts)

    def copy_of(self, x: Array) -> tuple[Array, int]:
        """Find what holds the copy of an array of the structure, all of which is there, and its first byte."""
        address = self.address(begins_at(x), x.size)
        for part in self.parts:
            begin = address - part.address
            if 0 <= begin < part.buffer.shape[0]:
                return part.buffer, begin
        raise LookupError(x)


def begins_at(x: Array) -> int:
    """Give the address of an array on the host, while it lives."""
    return NUMPY.address(x)


def packed_of(parts: Sequence[Array]) -> tuple[list[int], Array]:
    """Pack arrays: where each begins, at a multiple of 16 bytes, and all of them one after the other as bytes."""
    offsets, end = [], 0
    for part in parts:
        offsets.append(end)
        end += -(-part.nbytes // 16) * 16
    packed = np.zeros(end, np.uint8)
    for part, offset in zip(parts, offsets, strict=True):
        packed[offset : offset + part.nbytes] = part.reshape(-1).view(np.uint8)
    return offsets, packed


def bring(
    arrays: Iterable[Array], structure: Any, resident: Resident | None, place: Place
) -> tuple[Sent | None, dict[int, Words]]:
    """Have arrays of the host on the device, those of the structure to stay: what is missing goes up in one piece.

    What has gone up, and the words of each array, by its identity.
    """
    given = {id(x): x for x in arrays if x.size}
    begins = {name: begins_at(x) for name, x in given.items()}
    own = {} if resident is None else resident.missing(structure)
    missing = dict(own)
    for name, x in sorted(given.items(), key=lambda pair: -pair[1].size) if len(given) > 1 else given.items():
        if resident is None or not resident.address(begins[name], x.size):
            missing.setdefault(begins[name], x)
    sent, addresses = None, {}
    if missing:
        offsets, packed = packed_of(list(missing.values()))
        sent = place.send(packed, "the structure of a batch" if own else "an array of the host")
        addresses = {begin: sent.address + offset for begin, offset in zip(missing, offsets, strict=True)}
        if resident is not None and own and not place.captured:
            resident.keep(own, sent, addresses)
    words = {}
    for name, x in given.items():
        address = 0 if resident is None else resident.address(begins[name], x.size)
        words[name] = words_of(address or addresses[begins[name]], x.size, x.itemsize)
        if resident is not None and address:
            resident.remember(x, words[name])
    return sent, words


# --- constants -------------------------------------------------------------------------------------------------------

_constants: dict[Any, Sent] = {}
_zeros: dict[Any, tuple[int, Sent]] = {}


def constant(numbers: Array, place: Place, what: str) -> tuple[int, Any]:
    """Put few numbers on the device: their address, a multiple of 16, and what keeps them there meanwhile.

    They stay until there are many.
    """
    key = *_where(place), numbers.tobytes()
    found = _constants.get(key)
    if found is None:
        found = place.send(packed_of([numbers])[1], what)
        if not place.captured:
            if len(_constants) >= _CONSTANTS:
                _constants.clear()
            _constants[key] = found
    found.meet(place)
    return found.address, found


def zeros(size: int, place: Place) -> tuple[int, Any]:
    """Put zeros on the device: their address, and what keeps them there while the caller has it."""
    key = _where(place)
    room, found = _zeros.get(key, (0, None))
    if found is None or room < size:
        if place.captured:  # in the graph itself, which writes them at each replay
            library = place.library
            made = library.zeros((size,), library.dtype("uint8"), place.like)
            return library.address(made), made
        room = max(1 << (size - 1).bit_length(), 1 << 12)
        found = place.send(np.zeros(room, np.uint8), "zeros")
        _zeros[key] = room, found
    found.meet(place)
    return found.address, found


def _where(place: Place) -> tuple[Any, ...]:
    library = place.library
    return library.name, place.index, place.stream if library.stream_bound else None
