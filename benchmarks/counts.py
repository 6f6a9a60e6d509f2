"""What is counted where two shared cores cannot decide by the clock: instructions, switches among callers, new pages.

`python -m benchmarks.counts` makes the ten calls of `calls`, each some times and then twice as often, between requests
to Valgrind; `instructions` runs that under Valgrind and takes the differences.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import seqformats as sf

from .data import Batch

Call = Callable[[], Any]

COUNTED = 20
"""Calls between two counts, and twice as many between the next two: the difference has the calls alone."""
WARM = 30
CALLERS = 8
LARGE = ("wide", "many")

# Of Callgrind: the letters CT in front of a number
_ZERO, _DUMP, _START, _STOP = (ord("C") << 24 | ord("T") << 16 | k for k in (1, 0, 4, 5))
# Valgrind knows a request by these instructions, which do nothing elsewhere: rax has the address of its words
_REQUEST = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db c3")


def calls(shape: str = "tiny") -> dict[str, Call]:
    """Ten calls on a batch of NumPy arrays, by name."""
    b = Batch(shape, "NumPy")
    items, x, flat, lengths, rows = b.items, b.ragged, b.flat, b.lengths, b.rows_of_ones
    index = np.random.default_rng(3).permutation(b.n)[: b.n // 2]
    wrapped = sf.with_ragged(lambda y: y)
    return {
        "list -> ragged": lambda: sf.convert(items, sf.Ragged),
        "list -> padded": lambda: sf.convert(items, sf.Padded),
        "ragged -> masked": lambda: sf.convert(x, sf.Masked),
        "reduce_sum": lambda: sf.reduce_sum(x),
        "reduce_first": lambda: sf.reduce_first(x),
        "expand_as": lambda: sf.expand_as(rows, x),
        "softmax": lambda: sf.softmax(x),
        "select by index": lambda: x[index],
        "Ragged(data, lengths)": lambda: sf.Ragged(flat, lengths),
        "with_ragged on Ragged": lambda: wrapped(x),
    }


# --- instructions ----------------------------------------------------------------------------------------------------


def why_none() -> str:
    """Why instructions cannot be counted here; "" where they can."""
    if platform.machine() not in ("x86_64", "AMD64") or os.name != "posix":
        return "the requests to Valgrind are written for x86-64"
    return "" if shutil.which("valgrind") else "Valgrind is not installed"


def _requests() -> Callable[[int], None]:
    """A function that asks Valgrind for something, and does nothing without it."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_REQUEST)
    code = ctypes.c_char.from_buffer(page)  # which keeps the page

    def ask(request: int) -> None:
        words = (ctypes.c_uint64 * 6)(request)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.addressof(code))(ctypes.addressof(words))

    return ask


def count() -> None:
    """The calls, for whoever counts them: each `COUNTED` times, then twice as often, and what was counted written."""
    ask = _requests()
    every = calls()
    for call in every.values():
        for _ in range(WARM):
            call()
    gc.collect()
    gc.disable()
    ask(_START)
    for call in every.values():
        for turns in (COUNTED, 2 * COUNTED):
            ask(_ZERO)
            for _ in range(turns):
                call()
            ask(_DUMP)
    ask(_STOP)


def instructions() -> dict[str, int]:
    """Instructions that each of the calls takes, by name; RuntimeError with what Valgrind says if it fails."""
    # Valgrind knows no AVX-512; the kernels are compiled for a level that it knows by a run without it
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    environment |= {"PYTHONHASHSEED": "0", "SEQFORMATS_NUM_THREADS": "1"}
    environment |= {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
    with tempfile.TemporaryDirectory() as folder:
        environment.setdefault("NUMBA_CACHE_DIR", folder)
        # Code for the CPU that Valgrind knows, apart from this one's.
        environment["SEQFORMATS_CACHE_DIR"] = str(pathlib.Path(environment["NUMBA_CACHE_DIR"], "counted"))
        count_them = [sys.executable, "-m", "benchmarks.counts"]
        # the costs of one run are one file each time that they are asked for
        watched = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/counted"]
        for command in (count_them, watched + count_them):
            done = subprocess.run(
                command,
                cwd=pathlib.Path(__file__).parents[1],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(done.stderr)
        found = {}
        for k, name in enumerate(calls()):
            few, many = (_total(pathlib.Path(folder, f"counted.{2 * k + part}")) for part in (1, 2))
            found[name] = round((many - few) / COUNTED)
    return found


def _total(path: pathlib.Path) -> int:
    """The instructions in a file of Callgrind's."""
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise RuntimeError(f"no totals in {path}")


# --- switches and pages ----------------------------------------------------------------------------------------------


def switches(call: Call, turns: int = 1000, trials: int = 8) -> list[float]:
    """Voluntary context switches a call, in each of several short trials, where eight Python threads call at once.

    Threads that wait for the interpreter wake up to ask for it, every 5 ms: that counts the time, which load changes,
    and not the calls, so it is made rare meanwhile.
    """
    import resource

    def trial() -> float:
        start = threading.Barrier(CALLERS + 1)

        def some() -> None:
            start.wait()
            for _ in range(turns):
                call()

        threads = [threading.Thread(target=some) for _ in range(CALLERS)]
        for thread in threads:
            thread.start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        start.wait()
        for thread in threads:
            thread.join()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before) / (CALLERS * turns)

    for _ in range(WARM):
        call()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.1)
    try:
        return [trial() for _ in range(trials)]
    finally:
        sys.setswitchinterval(interval)


def faults(call: Call, turns: int = 5) -> float:
    """Page faults a call, once the first calls are done: memory that is new, or that the system took back."""
    import resource

    for _ in range(2):
        call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(turns):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / turns


def measure() -> dict[str, Any]:
    """Switches on tiny batches, pages of large results, and instructions where they can be counted."""
    sf.set_num_threads(1)
    called = []
    items = Batch("tiny", "NumPy").items
    every = calls()
    for name, call in (every | {"NumPy concatenate": lambda: np.concatenate(items)}).items():
        found = switches(call)
        row = {"operation": name, "ours": name in every}
        called.append(row | {"median": statistics.median(found), "worst": max(found)})
    pages = []
    for shape in LARGE:
        b = Batch(shape, "NumPy")
        copies = {layout: getattr(b, layout).data for layout in ("ragged", "masked")}
        copied = {layout: faults(data.copy) for layout, data in copies.items()}
        every = calls(shape)
        for name in ("list -> ragged", "list -> padded", "ragged -> masked", "expand_as", "softmax"):
            layout = "masked" if name.endswith(("padded", "masked")) else "ragged"
            row = {"operation": name, "shape": shape, "bytes": copies[layout].nbytes, "copy": copied[layout]}
            pages.append(row | {"faults": faults(every[name])})
    sf.set_num_threads(None)
    print("counts: switches and pages", flush=True)
    return {"switches": called, "faults": pages, "instructions": {} if why_none() else instructions()}


if __name__ == "__main__":
    count()
