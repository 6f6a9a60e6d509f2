"""Hypothesis profiles for the whole suite.

``SEQFORMATS_HYPOTHESIS`` picks one: ``dev`` (the default), ``ci`` (the default where ``CI`` is set; the same
examples every time) or ``nightly``. With ``NUMBA_DISABLE_JIT=1`` every kernel runs as plain Python, so the same
profiles draw fewer examples there.

``SEQFORMATS_GUARD`` puts NumPy's arrays beside protected pages, see `guard_pages`.
"""

import os
import sys
import threading

import pytest
from hypothesis import HealthCheck, settings

if os.environ.get("SEQFORMATS_GUARD"):
    import guard_pages

    guard_pages.install(os.environ["SEQFORMATS_GUARD"])

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def examples(compiled, interpreted):
    return interpreted if INTERPRETED else compiled


settings.register_profile("dev", max_examples=examples(30, 8), **COMMON)
settings.register_profile("ci", max_examples=examples(60, 12), derandomize=True, database=None, **COMMON)
settings.register_profile("nightly", max_examples=examples(2000, 200), **COMMON)
settings.load_profile(os.environ.get("SEQFORMATS_HYPOTHESIS") or ("ci" if os.environ.get("CI") else "dev"))


class OneByOne(dict):
    """Of threads that look for the same key, which is not there, the first one puts it in, and the others find it."""

    def __init__(self):
        self.lock = threading.Lock()

    def get(self, key):
        self.lock.acquire()
        found = super().get(key)
        if found is not None:
            self.lock.release()
        return found

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.lock.release()


def quicken_simulator():
    """Let the simulator of CUDA run its threads in turn, many times as fast.

    It asks them in a loop whether they wait, and while it does, none of them runs: so the interpreter goes to another
    thread more often.  Then a second one might look for a shared array while the first one makes it.
    """
    from numba.cuda.simulator.kernelapi import FakeCUDAShared

    begin = FakeCUDAShared.__init__

    def begin_one_by_one(self, *args):
        begin(self, *args)
        self._allocations = OneByOne()

    FakeCUDAShared.__init__ = begin_one_by_one
    sys.setswitchinterval(1e-4)


if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
    quicken_simulator()


@pytest.fixture
def threads_for_all(monkeypatch):
    """Work of any size is divided among threads; a test during which none was fails."""
    from seqformats.kernels.parts import KernelSpec
    from seqformats.launch import threads

    used = []
    run = threads.run

    def noticed(kernel, args, cuts, keep=None):
        used.append(len(cuts))
        run(kernel, args, cuts, keep)

    monkeypatch.setattr(KernelSpec, "threads_from", 1)
    monkeypatch.setattr(threads, "run", noticed)
    yield
    assert max(used, default=0) > 2, "everything was done by one thread"
