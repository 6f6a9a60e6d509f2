"""Host memory that pretends to be on a GPU: the simulator of CUDA knows it by its address alone."""

import contextlib

import numpy as np
import pytest
from libraries import SIMULATED

from seqformats import arrays
from seqformats.arrays.library import watch


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
        return watch.took(np.empty(shape, dtype).view(There), zeros=False)

    def zeros(self, shape, dtype, like):
        return watch.took(np.zeros(shape, dtype).view(There), zeros=True)

    def memory(self, like, size):
        memory = np.full(size + 256, 119, np.uint8)
        memory = memory[-memory.ctypes.data % 256 :][:size]
        return memory, self.address(memory)

    def viewer(self, offset, shape, dtype):
        return lambda memory: np.ndarray(shape, dtype, memory, offset).view(There)

    def concatenate(self, arrays):
        return super().concatenate(arrays).view(There)

    def stack(self, items, like):
        return super().stack(items, like).view(There)

    def where(self, condition, x, y):
        return super().where(condition, x, y).view(There)

    def from_host(self, x, like):
        return x.copy().view(There)

    def to_numpy(self, x):
        return x.view(np.ndarray)

    def stream(self, like):
        return self.current

    def upload(self, packed, like):
        return packed.copy().view(There)

    def share(self, x, like):
        self.shared.append((x, self.current))


@contextlib.contextmanager
def elsewhere(monkeypatch):
    """The library; the simulator takes its memory by address, as it does that of all others."""
    if not SIMULATED:
        pytest.skip("stands in for a GPU in the simulator")
    library = Elsewhere()
    monkeypatch.setitem(arrays.lookup._by_type, There, library)
    yield library
