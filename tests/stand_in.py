"""A driver of CUDA that notes what it is asked and runs nothing: for the host's part of calls, where no GPU is.

With `elsewhere.Elsewhere`, whose arrays are memory of the host that pretends to be on a GPU, whole operations go their
way up to the start of their kernels.
"""

import contextlib
import ctypes

import numpy as np
from elsewhere import Elsewhere, There

from seqformats import arrays
from seqformats.launch import cuda, driver, resident
from seqformats.launch.kernel import kernel
from seqformats.native import cubins

NOT_READY, ILLEGAL_ADDRESS, CAPTURE_INVALIDATED = 600, 700, 901


def number_at(place):
    """The number that a function of the driver writes where it is told to."""
    return ctypes.c_int.from_address(place) if isinstance(place, int) else place


class StandIn(driver.Driver):
    """One GPU.  `log` has what was asked of it; `captured` are streams, `fails` what functions return."""

    def __init__(self):
        self._contexts = {}
        self.writers = {}
        self.log = []
        self.captured = set()
        self.fails = {}
        self.over = True
        self.kernels = {}
        self.handles = iter(range(0x1000, 10**9, 0x10))

    def asked(self, name, *values):
        self.log.append((name, *values))
        return self.fails.get(name, 0)

    def names(self):
        return [name for name, *_ in self.log]

    def started(self):
        """The kernels, by name, and the streams that they were put into."""
        return [
            (self.kernels[kernel], stream) for name, *rest in self.log if name == "launch" for kernel, stream in [rest]
        ]

    # --- the functions ---

    def GetErrorName(self, number, text):
        ctypes.cast(text, ctypes.POINTER(ctypes.c_char_p))[0] = b"CUDA_ERROR_%d" % number
        return 0

    def GetErrorString(self, number, text):
        ctypes.cast(text, ctypes.POINTER(ctypes.c_char_p))[0] = b"of the stand-in"
        return 0

    def CtxGetDevice(self, place):
        number_at(place).value = 0
        return 0

    def DeviceGet(self, found, index):
        found.value = index
        return 0

    def DeviceGetAttribute(self, found, which, device):
        found.value = {75: 9, 76: 0}[which]
        return 0

    def StreamIsCapturing(self, stream, place):
        number_at(place).value = int(stream in self.captured)
        return 0

    def MemsetD8Async(self, address, value, size, stream):
        ctypes.memset(address, value, size)
        return self.asked("fill", size, stream)

    def StreamSynchronize(self, stream):
        return self.asked("wait for stream", stream)

    def StreamWaitEvent(self, stream, event, flags):
        return self.asked("stream meets event", stream, event)

    def ThreadExchangeStreamCaptureMode(self, mode):
        return 0

    def EventCreate(self, found, flags):
        found.value = next(self.handles)
        return self.asked("new event", found.value)

    def EventRecord(self, event, stream):
        return self.asked("record", event, stream)

    def EventQuery(self, event):
        self.asked("ask event", event)
        return 0 if self.over else NOT_READY

    def EventSynchronize(self, event):
        return self.asked("wait for event", event)

    def load(self, image, entry, words, name):
        self.asked("load", name)
        handle = next(self.handles)
        self.kernels[handle] = name
        return driver.Code(self, handle, words, name)

    def LaunchKernel(self, kernel, *rest):
        *_, stream, _, _ = rest
        return self.asked("launch", kernel, stream)


class Gpu(Elsewhere):
    """Arrays of the GPU that stands in, whose copies up are noted, too."""

    def __init__(self, found):
        super().__init__()
        self.current = 0
        self.driver = found

    def to_device(self, x, device):
        return np.asarray(x).view(There)

    def upload(self, packed, like):
        self.driver.asked("copy", packed.nbytes)
        return super().upload(packed, like)


def ready():
    """For a process of one's own: the driver and the library of its arrays; code is compiled, or found."""
    found = StandIn()
    library = Gpu(found)
    cuda.driver = lambda: found
    arrays.lookup._by_type[There] = library
    return found, library


def no_image(name, *_):
    return cubins.Image(b"", name, "kept")


@contextlib.contextmanager
def stand_in(monkeypatch, found=None, image_of=no_image):
    """The driver and the library of its arrays, in the place of all others; code is not compiled, or by `image_of`."""
    found = found or StandIn()
    library = Gpu(found)
    monkeypatch.setattr(driver, "_spare", {})
    monkeypatch.setattr(resident, "_of_graphs", [])
    monkeypatch.setattr(resident, "_constants", {})
    monkeypatch.setattr(resident, "_zeros", {})
    monkeypatch.setattr(cuda, "driver", lambda: found)
    monkeypatch.setattr(cubins, "image_of", image_of)
    monkeypatch.setattr(cubins, "bundle", lambda: None)
    monkeypatch.setitem(arrays.lookup._by_type, There, library)
    yield found, library
    for name in set(found.kernels.values()) - {"write_words"}:
        kernel(name).on_gpus = {}
