"""A GPU that is none: its memory is the host's, and its kernels are what the compiler makes for GPUs, run by `ptx`.

Code of the library's own kernels is kept in ``NUMBA_CACHE_DIR``, where other processes and later passes find it.
"""

import collections
import contextlib
import functools
import gzip
import importlib
import os
from pathlib import Path

import numpy as np
import ptx
import pytest
from libraries import SIMULATED, OnPtx
from stand_in import StandIn, stand_in

from seqformats.native import cubins
from seqformats.native.code import spec_of
from seqformats.native.signature import text_of as text_of_types


@functools.cache
def text_of(function, signature, capability):
    """The PTX of a kernel; nothing is assembled."""
    parts = importlib.import_module("seqformats.kernels.parts.cubins")
    return parts.ptx_of(function, signature, capability)


def kept_text(name, function, signature, capability):
    """Read PTX from the folder of machine code, where it is kept by the digest of all that it depends on."""
    key = cubins.key_of(name, cubins.text_for(name, signature, capability))
    path = Path(os.environ.get("NUMBA_CACHE_DIR", ""), "ptx", f"{name}-{key}.gz")
    if not path.is_absolute():  # nobody has named a folder
        return text_of(function(), signature, capability)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.with_name(f"{path.name}.{os.getpid()}")
        begun.write_bytes(gzip.compress(text_of(function(), signature, capability).encode(), 1))
        begun.replace(path)
    return gzip.decompress(path.read_bytes()).decode()


@functools.cache
def known_signatures(name):
    """What can be compiled of a kernel before anybody calls it."""
    parts = importlib.import_module("seqformats.kernels.parts.cubins")
    return {(name + variant, signature) for variant, signature in parts.signatures_of(spec_of(name))}


def image_of(name, function, signature, capability, kept):
    """The same as what a driver is given, of kernels of the house one that could have been compiled before."""
    if kept and ".64" not in text_of_types(signature):
        assert (name, signature) in known_signatures(name.partition(".")[0])
        return cubins.Image(kept_text(name, function, signature, capability), name, "compiled")
    return cubins.Image(text_of(function(), signature, capability), name, "compiled")


class Loaded:
    """A kernel that the driver has loaded."""

    kind = ptx.Translator

    def __init__(self, driver, text, name):
        self.driver, self.text, self.name = driver, text, name

    def start(self, grid, block, stream, words):
        self.driver.asked("launch", self.name, stream)
        self.driver.taken[self.name] += ptx.run(self.text, grid, block, words)

    def start_with(self, threads, stream, address, data):
        words = np.frombuffer(data, np.int64).tolist()
        rest = ptx.program_of(self.text, self.kind).parameters // 8 - 1 - len(words)
        self.start((1, 1, 1), (threads, 1, 1), stream, [address, *words, *[-1] * rest])


class Machine(StandIn):
    """The driver of it; `taken` counts the instructions of each kernel."""

    def __init__(self, loaded=Loaded):
        super().__init__()
        self.loaded, self.taken = loaded, collections.Counter()

    def load(self, image, entry, words, name):
        self.kernels[next(self.handles)] = name
        return self.loaded(self, image if isinstance(image, str) else image.rstrip(b"\0").decode(), name)


@functools.cache
def install():
    """Have this GPU in the place of all others from now on."""
    context = stand_in(pytest.MonkeyPatch(), Machine(), image_of)
    context.__enter__()
    return context


@contextlib.contextmanager
def machine(monkeypatch, loaded=Loaded):
    """The library of its arrays, for a test of what is compiled; where there is no compiler it is skipped."""
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    if SIMULATED:
        pytest.skip("the simulator is in the compiler's place")
    with stand_in(monkeypatch, Machine(loaded), image_of) as (driver, _):
        yield OnPtx(driver)
