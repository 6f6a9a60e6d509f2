"""The passes, the profiles of Hypothesis, and fixtures.

Which tests are run in which pass, `passes` says.

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
from passes import INTERPRETED, PASS, flag, kept_code, of_this_pass, shipped_anyway, subject

if os.environ.get("SEQFORMATS_GUARD"):
    import guard_pages

    guard_pages.install(os.environ["SEQFORMATS_GUARD"])

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def examples(compiled, interpreted):
    """How many a test draws, by the pass."""
    return interpreted if INTERPRETED else compiled


settings.register_profile("dev", max_examples=examples(20, 8), **COMMON)
settings.register_profile("ci", max_examples=examples(20, 8), derandomize=True, database=None, **COMMON)
settings.register_profile("nightly", max_examples=examples(1000, 40), **COMMON)
settings.load_profile(os.environ.get("SEQFORMATS_HYPOTHESIS") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that are for other passes than this one."""
    kept = of_this_pass(items)
    left = set(items) - set(kept)
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = kept


def pytest_collection_finish(session):
    """Leave the tests out of collections of garbage: there are thousands, and many collect, to count what is left."""
    gc.collect()
    gc.freeze()


def pytest_sessionstart(session):
    """See how much machine code there is before the tests."""
    session.config.stash[CODE] = kept_code()


CODE = pytest.StashKey[set]()
AGAIN = pytest.StashKey[list]()


def pytest_sessionfinish(session):
    """Fail a pass that has compiled what the wheel has."""
    if not hasattr(session.config, "workerinput") and shipped_anyway(kept_code() - session.config.stash[CODE]):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Count what the pass has run and compiled; pieces that two processes compile at the same time count once."""
    if not hasattr(config, "workerinput"):
        before, after = config.stash[CODE], kept_code()
        again = shipped_anyway(after - before)
        counts = {name: len(found) for name, found in terminalreporter.stats.items() if name in COUNTED}
        words = ", ".join(f"{counts[name]} {name}" for name in COUNTED if name in counts)
        code = f"machine code: {len(after - before)} compiled, {len(after)} kept; compiled though shipped: {len(again)}"
        terminalreporter.write_sep("-", f"{PASS} pass: {words}; {code}")
        config.stash[AGAIN] = again


def pytest_unconfigure(config):
    """Say last of all why a pass has failed whose tests have not."""
    if again := config.stash.get(AGAIN, []):
        print("Compiled though the wheel has it, so the pass fails:", *again, sep="\n", file=sys.stderr)


COUNTED = ("passed", "failed", "error", "skipped", "deselected", "xfailed")


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


SEEN = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Measure what the first test of each subject runs of the sources, since to measure takes half as long again.

    With ``MEASURE=1``, as in the nightly, all are measured.
    """
    coverage = sys.modules.get("coverage")
    measured = coverage and coverage.Coverage.current()
    this = measured and subject(item)
    if not measured or this not in SEEN or flag("MEASURE"):
        SEEN.add(this)
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        measured.start()


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
def default_threads():
    """A test may set the number of threads; afterwards it is as before."""
    import seqformats as sf

    yield
    sf.set_num_threads(None)


@pytest.fixture
def threads_for_all(monkeypatch, default_threads):
    """Work of any size is divided among threads; a test during which none was fails."""
    from seqformats import core
    from seqformats.launch import threads
    from seqformats.native.code import Traits

    used = []
    run = threads.run

    def noticed(kernel, args, cuts, keep=None):
        used.append(len(cuts))
        run(kernel, args, cuts, keep)

    monkeypatch.setattr(Traits, "threads_from", 1)
    monkeypatch.setattr(threads, "run", noticed)
    with core.python_only():
        yield
    assert max(used, default=0) > 2, "everything was done by one thread"


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
