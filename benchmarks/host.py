"""The host's part of a call on a GPU: measured against a driver that answers at once, so without a GPU.

    python -m benchmarks.gpu --host [--quick]

The stand-in (`stub_driver.c`) is built with the C compiler that is there and loaded in place of the driver by a fresh
process.  Where PyTorch is installed, tensors of the CPU pretend to lie on cuda:0; else Numba makes arrays in what the
stand-in calls memory of a device.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import seqformats as sf

ROOT = pathlib.Path(__file__).parents[1]
LENGTHS = [5, 10, 15, 10]
WIDTH = 8
BEAMS = (32, 5, 74)
LONGEST = 2.0
"""Seconds after which no further window is begun: what a GPU is slow at is waited for after each."""

Call = Callable[[], Any]
_context = contextlib.ExitStack()


class Unable(Exception):
    """What this machine lacks, in words for who reads them."""


# --- what is called --------------------------------------------------------------------------------------------------


def calls(put: Callable[[np.ndarray], Any], quick: bool) -> dict[str, Call]:
    """Operations on a batch so small that the host is all that they cost."""
    x = put(np.random.default_rng(0).normal(size=(sum(LENGTHS), WIDTH)).astype(np.float32))
    ragged = sf.Ragged(x, LENGTHS)
    found: dict[str, Call] = {
        "make a Ragged": lambda: sf.Ragged(x, LENGTHS),
        "Ragged -> Packed": lambda: sf.convert(ragged, sf.Packed),
        "Ragged -> Masked": lambda: sf.convert(ragged, sf.Masked),
        "new structure -> Masked": lambda: sf.convert(sf.Ragged(x, LENGTHS), sf.Masked),
        "reduce_sum": lambda: sf.reduce_sum(ragged),
        "softmax": lambda: sf.softmax(ragged),
    }
    if not quick:
        rows, parts = x[: len(LENGTHS)], [put(np.zeros((n, WIDTH), np.float32)) for n in LENGTHS]
        padded, masked, several = sf.convert(ragged, sf.Padded), sf.convert(ragged, sf.Masked), sf.List(parts)
        heads = sf.Ragged(x.reshape(sum(LENGTHS), 2, WIDTH // 2), LENGTHS)
        found |= {
            "Ragged -> Padded": lambda: sf.convert(ragged, sf.Padded),
            "Padded -> Ragged": lambda: sf.convert(padded, sf.Ragged),
            "Masked -> Ragged": lambda: sf.convert(masked, sf.Ragged),
            "new structure -> Packed": lambda: sf.convert(sf.Ragged(x, LENGTHS), sf.Packed),
            "reduce_max": lambda: sf.reduce_max(ragged),
            "reduce_mean": lambda: sf.reduce_mean(ragged),
            "logsumexp": lambda: sf.reduce_logsumexp(ragged),
            "cumsum": lambda: sf.cumsum(ragged),
            "reverse": lambda: sf.reverse(ragged),
            "median": lambda: sf.reduce_median(ragged),
            "shift": lambda: sf.shift(ragged, 1),
            "window": lambda: sf.window(ragged, 1, 1),
            "sort": lambda: sf.sort(ragged),
            "expand_as": lambda: sf.expand_as(rows, ragged),
            "topk of 4": lambda: sf.topk(ragged, 4),
            "attention": lambda: sf.attention(heads, heads, heads),
            "repeat": lambda: sf.repeat(ragged, 2),
            "concat": lambda: sf.concat([ragged, ragged]),
            "List -> Masked": lambda: sf.convert(several, sf.Masked),
            "new list -> Masked": lambda: sf.convert(parts, sf.Masked),
        }
        found |= gradients(ragged, rows, heads)
        found["candidates of a beam step"] = beam(put, *BEAMS)  # whose kernels take longest to compile
    return found


def gradients(ragged: sf.Ragged, rows: Any, heads: sf.Ragged) -> dict[str, Call]:
    """Pullbacks; what they are of has been calculated before."""
    of = {
        "reduce_sum": (sf.reduce_sum, ragged),
        "reduce_max": (sf.reduce_max, ragged),
        "logsumexp": (sf.reduce_logsumexp, ragged),
        "median": (sf.reduce_median, ragged),
        "softmax": (sf.softmax, ragged),
        "cumsum": (sf.cumsum, ragged),
        "reverse": (sf.reverse, ragged),
        "shift": (sf.shift, ragged, 1),
        "window": (sf.window, ragged, 1, 1),
        "sort": (sf.sort, ragged),
        "topk": (sf.topk, ragged, 4),
        "expand_as": (sf.expand_as, rows, ragged),
        "repeat": (sf.repeat, ragged, 2),
        "concat": (sf.concat, [ragged, ragged]),
        "Ragged -> Masked": (sf.convert, ragged, sf.Masked),
        "attention": (sf.attention, heads, heads, heads),
    }
    found: dict[str, Call] = {}
    for name, (operation, *args) in of.items():
        y, pullback = sf.vjp(operation, *args)
        found[f"gradient of {name}"] = functools.partial(pullback, y)
    return found


def beam(put: Callable[[np.ndarray], Any], n: int, beams: int, words: int, wait: bool = True) -> Call:
    """The choice of candidates of a beam step; where it is not to `wait`, nothing is read back from the GPU."""
    import copy

    from seqformats.arrays import library_of
    from seqformats.beam import candidates
    from seqformats.beam.rows import Wanted
    from seqformats.beam.search import NOTHING_APART

    scores = put(np.random.default_rng(1).normal(0, 2, (n * beams, words)).astype(np.float32))
    library = library_of(scores)
    if not wait:
        library = copy.copy(library)
        library.to_numpy = lambda x: np.zeros(tuple(x.shape))
    begin = np.arange(n, dtype=np.int64) * beams
    wanted = Wanted(begin, begin + beams, np.full(n, 2 * beams, np.int64))
    running = np.zeros(n * beams, np.float32)
    query = candidates.Query(
        library, scores, running, candidates.LOGITS, None, wanted, NOTHING_APART, beams, 2 * beams, None
    )
    return lambda: candidates.select(query)


# --- how it is measured ----------------------------------------------------------------------------------------------


def least(run: Call, windows: int, turns: int = 10, settle: Call = lambda: None) -> float:
    """Seconds of a call: the least over windows of some calls each; what they left to be done is not waited for."""
    for _ in range(turns):
        run()
    best, until = float("inf"), time.perf_counter() + LONGEST
    gc.collect()
    with without_collections(), np.errstate(all="ignore"):
        for _ in range(windows):
            settle()
            begin = time.perf_counter()
            for _ in range(turns):
                run()
            end = time.perf_counter()
            best = min(best, (end - begin) / turns)
            if end > until:
                break
    settle()
    return best


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pretend() -> Callable[[np.ndarray], Any]:
    """Let tensors of the CPU pretend to lie on cuda:0; gives what makes one."""
    import torch

    from seqformats.arrays import library_of
    from seqformats.arrays.library import watch
    from seqformats.launch.driver import driver

    _context.enter_context(driver().use_device(0))  # one is current where PyTorch has tensors on a GPU
    library: Any = library_of(torch.zeros(1))

    class Pretending(type(library)):  # type: ignore[misc]
        def kind(self, x: Any) -> str:
            return "cuda"

        def device(self, x: Any) -> str:
            return "cuda:0"

        def index(self, x: Any) -> int:
            return 0

        def stream(self, like: Any) -> int:
            return 0

        def lane(self, like: Any) -> tuple[int, int]:
            return 0, 0

        def empty(self, shape: Any, dtype: Any, like: Any) -> Any:
            return watch.took(torch.empty(shape, dtype=dtype), zeros=False)

        def zeros(self, shape: Any, dtype: Any, like: Any) -> Any:
            return watch.took(torch.zeros(shape, dtype=dtype), zeros=True)

        def upload(self, packed: np.ndarray, like: Any) -> Any:
            return torch.from_numpy(packed).clone()

        def share(self, x: Any, like: Any) -> None:
            """There is one stream."""

    library.__class__ = Pretending
    return torch.from_numpy


def inside(quick: bool) -> dict[str, Any]:
    """Measure in this process, whose driver is the stand-in."""
    stub = ctypes.CDLL("libcuda.so.1")
    stub.stub_launches.restype = ctypes.c_long
    if importlib.util.find_spec("torch"):
        put, arrays = pretend(), "PyTorch"
    else:
        from numba import cuda

        put, arrays = cuda.to_device, "Numba"
    rows = []
    for name, run in calls(put, quick).items():
        with np.errstate(all="ignore"):
            begin = time.perf_counter()
            run()
            first = time.perf_counter() - begin
            run()
            before = stub.stub_launches()
            run()
            launches = stub.stub_launches() - before
        seconds = least(run, 5 if quick else 300)
        rows.append({"call": name, "us": seconds * 1e6, "launches": launches, "first s": first})
    return {"arrays": arrays, "calls": rows}


# --- the stand-in ----------------------------------------------------------------------------------------------------


def build(folder: pathlib.Path) -> pathlib.Path:
    """Compile the stand-in into a folder; `Unable` where that is not possible."""
    if not sys.platform.startswith("linux"):
        raise Unable("--host puts a driver of its own in place of libcuda.so.1, which works on Linux alone")
    words = os.environ.get("CC", "").split() or [next(filter(shutil.which, ("cc", "gcc", "clang")), "")]
    if not shutil.which(words[0]):
        raise Unable("--host needs a C compiler, cc, gcc or clang, or what CC says; there is none here")
    source, made = pathlib.Path(__file__).with_name("stub_driver.c"), folder / "libcuda.so.1"
    flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{made.name}"]
    done = subprocess.run([*words, *flags, "-o", str(made), str(source)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unable(f"{words[0]} does not compile {source.name}: {done.stderr.strip()}")
    return made


def measure(quick: bool) -> dict[str, Any]:
    """Measure in a fresh process; `Unable` where something that it needs is missing."""
    if not importlib.util.find_spec("numba_cuda"):
        raise Unable(
            '--host needs numba-cuda, which compiles the kernels; pip install "seqformats[cuda13]" (or cuda12)'
        )
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(folder)
        out = folder / "host.json"
        path = os.pathsep.join(filter(None, [name, os.environ.get("LD_LIBRARY_PATH", "")]))
        env = os.environ | {"LD_LIBRARY_PATH": path}
        for simulator in ("NUMBA_ENABLE_CUDASIM", "NUMBA_DISABLE_JIT"):
            env.pop(simulator, None)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.host", str(out), *["quick"] * quick],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unable(f"the process that measures ended with {done.returncode}:\n{done.stderr.strip()}")
        found: dict[str, Any] = json.loads(out.read_text())
        return found


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(json.dumps(inside("quick" in sys.argv[2:])))
