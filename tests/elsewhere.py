"""Host memory that pretends to be on a GPU: the simulator of CUDA knows it by its address alone."""

import contextlib
import ctypes

import numpy as np
import pytest
from libraries import SIMULATED

from seqformats import arrays


class There(np.ndarray):
    """Host memory that pretends to be on a GPU."""


class Elsewhere(arrays.NumPy):
    """A library of such arrays, which are known to the CUDA package by their addresses alone."""

    name = "elsewhere"

    def __init__(self):
        self.current = 1
        self.shared = []

    def adopt(self, x, what):
        return x

    def kind(self, x):
        return "cuda"

    def device(self, x):
        return "cuda:0"

    def empty(self, shape, dtype, like):
        return np.empty(shape, dtype).view(There)

    def zeros(self, shape, dtype, like):
        return np.zeros(shape, dtype).view(There)

    def stream(self, like):
        return self.current

    def upload(self, packed, like):
        return packed.copy().view(There)

    def share(self, x, like):
        self.shared.append((x, self.current))


class Events:
    """Who recorded and who waited, by the handle of the stream."""

    def __init__(self):
        self.log = []

    def __call__(self, timing=True):
        return self

    def record(self, stream):
        self.log.append(("record", stream))

    def wait(self, stream):
        self.log.append(("wait", stream))


@contextlib.contextmanager
def elsewhere(monkeypatch):
    """The library, and the log of events; the simulator takes memory by its address as the package does."""
    if not SIMULATED:
        pytest.skip("stands in for a GPU in the simulator")
    from seqformats.launch import cuda

    def as_cuda_array(shown, sync):
        shape = shown.__cuda_array_interface__
        memory = np.ndarray(shape["shape"], shape["typestr"], _memory_at(*shape["data"], shown))
        return cuda.gpu.to_device(np.empty(0)).__class__(memory)

    def _memory_at(address, read_only, shown):
        assert not read_only
        size = np.dtype(shown.__cuda_array_interface__["typestr"]).itemsize * shown.__cuda_array_interface__["shape"][0]
        return (ctypes.c_uint8 * size).from_address(address)

    library, events = Elsewhere(), Events()
    monkeypatch.setitem(arrays.known._by_type, There, library)
    monkeypatch.setattr(cuda, "simulated", False)
    monkeypatch.setattr(cuda.gpu, "as_cuda_array", as_cuda_array, raising=False)
    monkeypatch.setattr(cuda.gpu, "external_stream", lambda pointer: pointer)
    monkeypatch.setattr(cuda.gpu, "event", events)
    cuda._stream.cache_clear()
    yield library, events.log
    cuda._stream.cache_clear()
