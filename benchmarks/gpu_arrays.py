"""Arrays on a GPU, and its clock, of whichever library is there: PyTorch, CuPy, or Numba."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Call = Callable[[], Any]

LARGE = 512 << 20
"""Bytes of what is written before each call: several times the second-level cache of any GPU."""
MOST_WRITES = 256


class Timed(NamedTuple):
    """What a call takes on a GPU."""

    seconds: float
    waited: bool
    """Had the GPU nothing to do in between, so that the time has a part of the host's in it?"""


class Arrays:
    """What is asked of a library here."""

    name: str

    def put(self, x: np.ndarray) -> Any:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait for the GPU."""
        raise NotImplementedError

    def event(self) -> Any:
        """A mark in the current stream, with the time."""
        raise NotImplementedError

    def passed(self, event: Any) -> bool:
        """Has the GPU come to a mark?"""
        raise NotImplementedError

    def between(self, begin: Any, end: Any) -> float:
        """Seconds from one mark to another, both of them passed."""
        raise NotImplementedError

    def empty(self, size: int) -> Any:
        """So many float32."""
        raise NotImplementedError

    def fill(self, x: Any) -> None:
        raise NotImplementedError

    def copy(self, source: Any, target: Any) -> None:
        raise NotImplementedError

    # --- the clock ---

    def kernels(self, run: Call, turns: int) -> Timed:
        """The median time that the GPU needs for a call, which comes to it behind writes of `LARGE` bytes.

        They keep the GPU busy until the host has put all of the call into the stream, and leave the caches without its
        data.  Where the GPU came to the beginning of the call before the host had come to its end, there are twice as
        many the next time.
        """
        large = self.empty(LARGE // 4)
        for _ in range(3):
            run()
        self.settle()
        writes = 4
        while True:
            times, waited = [], False
            for _ in range(turns):
                for _ in range(writes):
                    self.fill(large)
                begin = self.event()
                run()
                end = self.event()
                waited |= self.passed(begin)
                self.settle()
                times.append(self.between(begin, end))
            if not waited or writes >= MOST_WRITES:
                return Timed(statistics.median(times), waited)
            writes *= 4


class Torch(Arrays):
    name = "PyTorch"

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")

    def put(self, x: np.ndarray) -> Any:
        return self.torch.from_numpy(x).to("cuda")

    def settle(self) -> None:
        self.torch.cuda.synchronize()

    def event(self) -> Any:
        made = self.torch.cuda.Event(enable_timing=True)
        made.record()
        return made

    def passed(self, event: Any) -> bool:
        return bool(event.query())

    def between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) / 1e3

    def empty(self, size: int) -> Any:
        return self.torch.empty(size, dtype=self.torch.float32, device="cuda")

    def fill(self, x: Any) -> None:
        x.fill_(1.0)

    def copy(self, source: Any, target: Any) -> None:
        target.copy_(source)


class CuPy(Arrays):
    name = "CuPy"

    def __init__(self) -> None:
        self.cupy = importlib.import_module("cupy")

    def put(self, x: np.ndarray) -> Any:
        return self.cupy.asarray(x)

    def settle(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()

    def event(self) -> Any:
        made = self.cupy.cuda.Event()
        made.record()
        return made

    def passed(self, event: Any) -> bool:
        return bool(event.done)

    def between(self, begin: Any, end: Any) -> float:
        return float(self.cupy.cuda.get_elapsed_time(begin, end)) / 1e3

    def empty(self, size: int) -> Any:
        return self.cupy.empty(size, self.cupy.float32)

    def fill(self, x: Any) -> None:
        x.fill(1.0)

    def copy(self, source: Any, target: Any) -> None:
        self.cupy.copyto(target, source)


class Numba(Arrays):
    name = "Numba"

    def __init__(self) -> None:
        self.cuda = cuda = importlib.import_module("numba.cuda")

        def write(x):  # type: ignore[no-untyped-def]  # Numba would read the annotations
            i = cuda.grid(1)
            while i < x.size:
                x[i] = 1.0
                i += cuda.gridsize(1)

        self._write = cuda.jit(write)

    def put(self, x: np.ndarray) -> Any:
        return self.cuda.to_device(x)

    def settle(self) -> None:
        self.cuda.synchronize()

    def event(self) -> Any:
        made = self.cuda.event(timing=True)
        made.record()
        return made

    def passed(self, event: Any) -> bool:
        return bool(event.query())

    def between(self, begin: Any, end: Any) -> float:
        return float(self.cuda.event_elapsed_time(begin, end)) / 1e3

    def empty(self, size: int) -> Any:
        return self.cuda.device_array(size, np.float32)

    def fill(self, x: Any) -> None:
        self._write[1024, 256](x)

    def copy(self, source: Any, target: Any) -> None:
        target.copy_to_device(source)


def there() -> Arrays | None:
    """The first library of these that is installed and, if it is PyTorch, made for CUDA."""
    if importlib.util.find_spec("torch") and importlib.import_module("torch").version.cuda:
        return Torch()
    if importlib.util.find_spec("cupy"):
        return CuPy()
    if importlib.util.find_spec("numba_cuda"):
        return Numba()
    return None
