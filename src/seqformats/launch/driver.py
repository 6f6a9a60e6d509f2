"""The driver of CUDA, called by its own functions: as much of it as starting kernels needs.

Nothing is loaded before somebody asks for a GPU.  What is called for each kernel is one function of the driver; Python
makes no objects for it but numbers.

A kernel runs in whatever context is current, if that is one of the device where its arrays are, and else in the primary
context of that device, in which every array library works.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_void_p
from struct import Struct
from typing import Any, NamedTuple

from ..errors import DEVICE, MEMORY

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
"""Do kernels for CUDA run in Numba's simulator?"""

DEFAULT_STREAMS = (0, 1)
"""The handles of the stream that is always there, by default and by name: one, whichever thread asks."""
MOST_WORDS = 512
"""What a kernel may take: 4 KB."""

_INT, _POINTER = ctypes.POINTER(c_int), ctypes.POINTER(c_void_p)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGetCount": (_INT,),
    "cuDeviceGet": (_INT, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_INT, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_POINTER, c_int),
    "cuCtxGetDevice": (c_void_p,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_POINTER,),
    "cuLibraryLoadData": (_POINTER, c_char_p, c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint),
    "cuLibraryGetKernel": (_POINTER, c_void_p, c_char_p),
    "cuKernelGetFunction": (_POINTER, c_void_p),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p),
    "cuMemcpyDtoH_v2": (c_void_p, c_void_p, c_size_t),
    "cuMemsetD8Async": (c_void_p, c_ubyte, c_size_t, c_void_p),
    "cuStreamIsCapturing": (c_void_p, c_void_p),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuThreadExchangeStreamCaptureMode": (_INT,),
    "cuEventCreate": (_POINTER, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventSynchronize": (c_void_p,),
    "cuEventDestroy_v2": (c_void_p,),
    "cuGetErrorName": (c_int, ctypes.POINTER(c_char_p)),
    "cuGetErrorString": (c_int, ctypes.POINTER(c_char_p)),
}
_MAJOR, _MINOR = 75, 76  # attributes of a device
_NOT_READY, _OUT_OF_MEMORY = 600, 2
_WITHOUT_TIMES, _RELAXED = 2, 2


class _Room(threading.local):
    """Memory that the driver reads and writes in a call of this thread."""

    def __init__(self) -> None:
        self.words = bytearray(8 * MOST_WORDS)
        self._whole = (ctypes.c_char * len(self.words)).from_buffer(self.words)
        first = ctypes.addressof(self._whole)
        self._places = (c_void_p * MOST_WORDS)(*range(first, first + 8 * MOST_WORDS, 8))
        self.parameters = ctypes.addressof(self._places)
        self.number = c_int()
        self.place = ctypes.addressof(self.number)


room = _Room()


class Driver:
    """The functions of the driver, by their names without ``cu``; each returns a number, see `check`."""

    def __init__(self, path: str) -> None:
        try:
            library = ctypes.CDLL(path)
            for name, kinds in _FUNCTIONS.items():
                function = getattr(library, name)
                function.argtypes = kinds
                setattr(self, name[2:].partition("_")[0], function)
        except (OSError, AttributeError) as error:
            raise DEVICE(f"no GPU can be used: {error}; kernels for CUDA want a driver of CUDA 12 or later") from None
        self._contexts: dict[int, int] = {}
        self.writers: dict[int, Code | None] = {}
        """By device, the kernel of `parameters.write`."""
        self.check(self.Init(0), "the driver")

    def __getattr__(self, name: str) -> Any:
        """The functions are there once `__init__` has found them."""
        raise AttributeError(name)

    # --- errors ---

    def check(self, result: int, what: str) -> None:
        """DeviceError where a call has not gone well, MemoryError where a GPU has no room."""
        if result:
            raise self.error(result, what)

    def error(self, result: int, what: str) -> Exception:
        """Make the error for a call that returned this number."""
        words = []
        for function in (self.GetErrorName, self.GetErrorString):
            text = c_char_p()
            function(result, ctypes.byref(text))
            words.append((text.value or b"error %d" % result).decode())
        mistake = MEMORY if result == _OUT_OF_MEMORY else DEVICE
        return mistake(f"{what}: {words[0]}, {words[1]}")

    # --- devices and contexts ---

    def count(self) -> int:
        """Count the GPUs."""
        number = c_int()
        self.check(self.DeviceGetCount(number), "the driver")
        return number.value

    def name(self, index: int) -> str:
        """Name a GPU."""
        text = ctypes.create_string_buffer(256)
        self.check(self.DeviceGetName(text, 256, self.device(index)), f"cuda:{index}")
        return text.value.decode()

    def device(self, index: int) -> int:
        """Give the driver's number of a GPU."""
        number = c_int()
        self.check(self.DeviceGet(number, index), f"cuda:{index}")
        return number.value

    def attribute(self, index: int, which: int) -> int:
        """A number that tells something of a GPU."""
        number = c_int()
        self.check(self.DeviceGetAttribute(number, which, self.device(index)), f"cuda:{index}")
        return number.value

    def capability(self, index: int) -> tuple[int, int]:
        """The compute capability of a GPU."""
        return self.attribute(index, _MAJOR), self.attribute(index, _MINOR)

    def current(self) -> int:
        """The number of the device whose context is current in this thread; -1 where there is none."""
        return -1 if self.CtxGetDevice(room.place) else room.number.value

    @contextlib.contextmanager
    def use_device(self, index: int) -> Iterator[None]:
        """Make a context of this device current, where none is."""
        if self.current() == index:
            yield
            return
        context = self._contexts.get(index)
        if context is None:
            found = c_void_p()
            self.check(self.DevicePrimaryCtxRetain(found, self.device(index)), f"cuda:{index}")
            context = self._contexts.setdefault(index, found.value or 0)
        self.check(self.CtxPushCurrent(context), f"cuda:{index}")
        try:
            yield
        finally:
            self.CtxPopCurrent(c_void_p())

    # --- streams and events ---

    def capturing(self, stream: int) -> bool:
        """Tell whether a stream is recorded in a graph.  The default streams cannot be, and may not be asked."""
        if stream in DEFAULT_STREAMS:
            return False
        self.check(self.StreamIsCapturing(stream, room.place), "a stream")
        return room.number.value != 0

    @contextlib.contextmanager
    def beside_captures(self) -> Iterator[None]:
        """Allow what a capture in any thread would forbid: loading code, asking for events, waiting for them."""
        mode = c_int(_RELAXED)
        self.check(self.ThreadExchangeStreamCaptureMode(mode), "a capture")
        try:
            yield
        finally:
            self.ThreadExchangeStreamCaptureMode(mode)

    # --- code ---

    def load(self, image: bytes, entry: str, words: int, name: str) -> Code:
        """A kernel of a cubin or of PTX, ready to be started; a context of its device is current."""
        library, kernel, function = c_void_p(), c_void_p(), c_void_p()
        with self.beside_captures():
            self.check(self.LibraryLoadData(library, image, None, None, 0, None, None, 0), f"the code of {name}")
            self.check(self.LibraryGetKernel(kernel, library, entry.encode()), f"the code of {name}")
            # now, not in the middle of somebody's capture
            self.check(self.KernelGetFunction(function, kernel), f"the code of {name}")
        return Code(self, kernel.value or 0, words, name)


class Code:
    """A kernel that a device has loaded."""

    __slots__ = ("_driver", "_kernel", "_launch", "name", "pack")

    def __init__(self, driver: Driver, kernel: int, words: int, name: str) -> None:
        self._driver, self._kernel, self._launch = driver, kernel, driver.LaunchKernel
        self.pack = Struct(f"{words}q").pack_into
        self.name = name

    def start(self, grid: tuple[int, int, int], block: tuple[int, int, int], stream: int, words: Sequence[int]) -> None:
        """Put the kernel into a stream; nothing waits for it."""
        self.pack(room.words, 0, *words)
        result = self._launch(self._kernel, *grid, *block, 0, stream, room.parameters, None)
        if result:
            raise self.error(result, grid, block)

    def prepare_launch(self, grid: tuple[int, int, int], block: tuple[int, int, int]) -> Callable[..., int]:
        """The launch with this grid and block, which takes the stream, the parameters and None."""
        return functools.partial(self._launch, self._kernel, *grid, *block, 0)

    def error(self, result: int, grid: tuple[int, int, int], block: tuple[int, int, int]) -> Exception:
        """Make the error for a launch that returned this number."""
        return self._driver.error(result, f"the kernel {self.name}, grid {grid}, block {block}")

    def start_with(self, threads: int, stream: int, address: int, data: bytes) -> None:
        """Start one block of a kernel that takes an address, and bytes as they are."""
        room.words[:8] = address.to_bytes(8, sys.byteorder)
        room.words[8 : 8 + len(data)] = data
        result = self._launch(self._kernel, 1, 1, 1, threads, 1, 1, 0, stream, room.parameters, None)
        if result:
            raise self._driver.error(result, f"the kernel {self.name}, of {threads} threads")


class Event(NamedTuple):
    """The end of what was in a stream when it was recorded."""

    driver: Driver
    handle: int
    spare: list[int]  # those of the device that nobody uses; held here, since at the end of a process modules are empty

    @classmethod
    def record(cls, driver: Driver, index: int, stream: int) -> Event:
        """Record what has been put into a stream so far; a context of the device is current."""
        spare = _spare.setdefault(index, [])
        try:
            handle = spare.pop()
        except IndexError:
            found = c_void_p()
            driver.check(driver.EventCreate(found, _WITHOUT_TIMES), "an event")
            handle = found.value or 0
        driver.check(driver.EventRecord(handle, stream), "an event")
        return cls(driver, handle, spare)

    def is_done(self) -> bool:
        """Tell whether all of it has been done."""
        result = self.driver.EventQuery(self.handle)
        if result not in (0, _NOT_READY):
            raise self.driver.error(result, "what ran before on this GPU")
        return bool(result == 0)

    def met_by(self, stream: int) -> None:
        """Let a stream go on after it."""
        self.driver.check(self.driver.StreamWaitEvent(stream, self.handle, 0), "a stream")

    def wait(self) -> None:
        """Go on after it."""
        self.driver.check(self.driver.EventSynchronize(self.handle), "what ran before on this GPU")

    def give_back(self) -> None:
        """Let another use it, of whom nobody asks any more."""
        self.spare.append(self.handle)


_spare: dict[int, list[int]] = {}
"""Events that nobody uses, by device."""


def capabilities() -> list[tuple[int, int]]:
    """The compute capabilities of the GPUs of this machine, each once; DeviceError where there is none."""
    found = driver()
    return sorted({found.capability(index) for index in range(found.count())})


@functools.cache
def driver() -> Driver:
    """The driver of this machine; DeviceError where there is none."""
    return Driver("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
