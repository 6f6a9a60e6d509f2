"""Which tests belong to which pass, and the profiles of Hypothesis.

`make test` runs the suite three times: compiled, interpreted (``NUMBA_DISABLE_JIT=1``, the CUDA kernels in Numba's
simulator, coverage) and with bounds checks (``NUMBA_BOUNDSCHECK=1``, arrays beside protected pages). Most tests tell
something else each time. Where one cannot, it names the passes that it is for, and is left out of the others::

    @pytest.mark.passes("compiled", reason="it runs in a process without checks")

``SEQFORMATS_HYPOTHESIS`` picks the profile: ``dev`` (the default), ``ci`` (the default where ``CI`` is set; the same
examples every time) or ``nightly``. With ``NUMBA_DISABLE_JIT=1`` every kernel runs as plain Python, so the same
profiles draw fewer examples there.

A test with an argument `arrays` runs on every array library that is here, see `libraries`; each but NumPy draws a
quarter of the examples, at least five, or three in the simulator of CUDA.  JAX, which compiles for each new shape,
draws two, and runs the tests of converters, formats and gradients, and of operations those in the files that
`libraries.OnJax` names.

``SEQFORMATS_GUARD`` puts NumPy's arrays beside protected pages, see `guard_pages`.
"""

import gc
import os
import sys
import threading

import pytest
from hypothesis import HealthCheck, settings

if os.environ.get("SEQFORMATS_GUARD"):
    import guard_pages

    guard_pages.install(os.environ["SEQFORMATS_GUARD"])


def flag(name):
    """Is it on in the environment?"""
    return os.environ.get(name, "0") not in ("", "0")


INTERPRETED = flag("NUMBA_DISABLE_JIT")
PASSES = ("compiled", "interpreted", "bounds")
PASS = "interpreted" if INTERPRETED else "bounds" if flag("NUMBA_BOUNDSCHECK") else "compiled"

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def examples(compiled, interpreted, bounds):
    """How many a test draws, by the pass."""
    return {"compiled": compiled, "interpreted": interpreted, "bounds": bounds}[PASS]


settings.register_profile("dev", max_examples=examples(20, 8, 12), **COMMON)
settings.register_profile("ci", max_examples=examples(60, 12, 60), derandomize=True, database=None, **COMMON)
settings.register_profile("nightly", max_examples=examples(2000, 200, 2000), **COMMON)
settings.load_profile(os.environ.get("SEQFORMATS_HYPOTHESIS") or ("ci" if os.environ.get("CI") else "dev"))


def passes_of(marker):
    """The passes that a marker names; it also says why the others are none."""
    if not marker.args or not set(marker.args) < set(PASSES) or not marker.kwargs.get("reason"):
        raise pytest.UsageError(f"pytest.mark.passes takes some of {PASSES}, and a reason; got {marker}")
    return marker.args


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that are for other passes than this one; the marker next to a test decides."""
    markers = [(item, item.get_closest_marker("passes")) for item in items]
    others = [item for item, marker in markers if marker and PASS not in passes_of(marker)]
    if others:
        config.hook.pytest_deselected(items=others)
        left = set(others)
        items[:] = [item for item in items if item not in left]


def pytest_collection_finish(session):
    """Leave the tests out of collections of garbage: there are thousands, and many collect, to count what is left."""
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc):
    """What a test asks for as `arrays`."""
    if "arrays" in metafunc.fixturenames:
        import libraries

        where = metafunc.definition.path
        hosts = [host for host in libraries.HOSTS if host.values[0].runs(where.parent.name, where.stem)]
        metafunc.parametrize("arrays", [*hosts, *libraries.GPUS])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Draw fewer examples for other libraries than NumPy: what they share with it has been seen."""
    test, arrays = getattr(item, "obj", None), getattr(item, "callspec", None) and item.callspec.params.get("arrays")
    kept = getattr(test, "_hypothesis_internal_use_settings", None)
    if kept is None or arrays is None or arrays.first:
        return (yield)
    test._hypothesis_internal_use_settings = settings(kept, max_examples=arrays.examples(kept.max_examples))
    try:
        return (yield)
    finally:
        test._hypothesis_internal_use_settings = kept


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


if flag("NUMBA_ENABLE_CUDASIM"):
    quicken_simulator()


@pytest.fixture
def threads_for_all(monkeypatch):
    """Work of any size is divided among threads; a test during which none was fails."""
    from closed_doors import closed_doors

    from seqformats.launch import threads
    from seqformats.native.code import Traits

    used = []
    run = threads.run

    def noticed(kernel, args, cuts, keep=None):
        used.append(len(cuts))
        run(kernel, args, cuts, keep)

    monkeypatch.setattr(Traits, "threads_from", 1)
    monkeypatch.setattr(threads, "run", noticed)
    with closed_doors():
        yield
    assert max(used, default=0) > 2, "everything was done by one thread"


@pytest.fixture(scope="module")
def without_limits():
    """Every call that does not come through a door teaches it, whatever came before it in this process."""
    from seqformats.doors.door import Door

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Door, "is_due", lambda *_: True)
        yield


@pytest.fixture
def elsewhere(monkeypatch):
    """A library of memory that pretends to be on a GPU."""
    from elsewhere import elsewhere

    with elsewhere(monkeypatch) as found:
        yield found


@pytest.fixture
def tables():
    """The tables as they were, afterwards."""
    from seqformats import registry

    saved = dict(registry._conversions), set(registry._encoding_types), registry._bound_to_devices
    rules = registry.gradients()
    yield
    registry._conversions.clear()
    registry._conversions.update(saved[0])
    registry._encoding_types.clear()
    registry._encoding_types.update(saved[1])
    registry._bound_to_devices = saved[2]
    registry._routes.clear()
    registry._gradients.clear()
    registry._gradients.update(rules)
