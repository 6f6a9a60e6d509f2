"""Which tests belong to which pass, and what a pass counts.

A pass is a run of the tests in one way: compiled, interpreted (``NUMBA_DISABLE_JIT=1``, the CUDA kernels in Numba's
simulator, coverage) or guarded (``SEQFORMATS_GUARD``, arrays beside protected pages; ``NUMBA_BOUNDSCHECK=1`` checks
indices too).  Most tests tell something else in each.  Where one cannot, it names the passes that it is for::

    @pytest.mark.passes("compiled", reason="it runs in a process without checks")

Each run of all passes leaves out what shows little for its time, and `make nightly` runs that: the guarded pass has
the tests with drawn batches; the simulator has `launch/`, `kernels/`, and elsewhere one encoding and one dtype of each
operation that a test is for, of each test function at most 24; and each kernel becomes code for GPUs of one compute
capability and in one dtype.  ``SEQFORMATS_FULL=1``, or the profile `nightly`, leaves out nothing.
"""

import collections
import os
import re
import zlib
from pathlib import Path

import pytest


def flag(name):
    """Is it on in the environment?"""
    return os.environ.get(name, "0") not in ("", "0")


INTERPRETED = flag("NUMBA_DISABLE_JIT")
GUARDED = bool(os.environ.get("SEQFORMATS_GUARD")) or flag("NUMBA_BOUNDSCHECK")
PASSES = ("compiled", "interpreted", "guarded")
PASS = "interpreted" if INTERPRETED else "guarded" if GUARDED else "compiled"
FULL = flag("SEQFORMATS_FULL") or os.environ.get("SEQFORMATS_HYPOTHESIS") == "nightly"
IN_FULL = ("launch", "kernels")  # the folders whose tests are all run in the simulator
MOST = 24  # tests of a function in the simulator
DTYPE = re.compile(r"[biufcmSU?]\d*|(bool|u?int|float|complex|bfloat)\d*")


def passes_of(marker):
    """The passes that a marker names; it also says why the others are none."""
    if not marker.args or not set(marker.args) < set(PASSES) or not marker.kwargs.get("reason"):
        raise pytest.UsageError(f"pytest.mark.passes takes some of {PASSES}, and a reason; got {marker}")
    return marker.args


def is_for_this(item):
    """Does the marker next to a test, if there is one, name this pass?"""
    marker = item.get_closest_marker("passes")
    return marker is None or PASS in passes_of(marker)


def is_drawn(item):
    """Does Hypothesis draw what it is called with?"""
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def parameters(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


def is_simulated(item):
    """Does it start kernels for GPUs in the simulator?"""
    arrays = [x for x in parameters(item).values() if getattr(x, "simulated", False)]
    return bool(arrays) or "elsewhere" in getattr(item, "fixturenames", ())


def subject(item):
    """The test, and the operations and options that its parameters name: all that is no encoding, dtype or number."""
    named = [
        getattr(x, "__qualname__", x)
        for _, x in sorted(parameters(item).items())
        if (isinstance(x, str) and not DTYPE.fullmatch(x)) or (callable(x) and not isinstance(x, type))
    ]
    return f"{item.nodeid.partition('[')[0]} {named}"


def one_of_each(items):
    """Of tests of the same subject one, picked by the name alone, so that all encodings have their turn."""
    groups = {}
    for item in items:
        groups.setdefault(subject(item), []).append(item)
    return [same[zlib.crc32(name.encode()) % len(same)] for name, same in groups.items()]


def of_this_pass(items):
    """The tests that this pass runs, in their order."""
    kept = [item for item in items if is_for_this(item)]
    if FULL:
        return kept
    if PASS == "guarded":
        return [item for item in kept if is_drawn(item)]
    thinned = [item for item in kept if is_thinned(item)]
    left = set(thinned) - set(one_of_each(thinned))
    kept = [item for item in kept if item not in left]
    if PASS == "interpreted":
        simulated = [item for item in kept if is_simulated(item)]
        left = set(simulated) - set(some_of_each(simulated))
        kept = [item for item in kept if item not in left]
    return kept


def is_thinned(item):
    """Is one test of each subject enough in each run?"""
    if PASS == "interpreted":
        return is_simulated(item) and item.path.parent.name not in IN_FULL
    return item.path.name == "test_ptx.py"


def some_of_each(items):
    """Choose so many tests of each function at most, by names alone: next is one whose parameters were seen least."""
    groups = {}
    for item in sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode())):
        groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = []
    for same in groups.values():
        seen = collections.Counter()
        for _ in range(min(MOST, len(same))):
            item = min(same, key=lambda item: sum(seen[word] for word in words(item)))
            same.remove(item)
            seen.update(words(item))
            kept.append(item)
    return kept


def words(item):
    """Read from a test's name what stands for its parameters."""
    return item.nodeid.partition("[")[2][:-1].split("-")


def kept_code():
    """The files of machine code that processes of this pass keep for each other."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    return {path.name for path in Path(folder, "seqformats").glob("*.so")} if folder else set()


def shipped_anyway(names):
    """Of files of machine code, those whose code lies compiled beside the sources."""
    if not names:  # as where the package is in the environments of the tests alone
        return []
    from seqformats.native import code, store

    if code.is_interpreted() or code.why_not_shipped():
        return []
    texts = [line.partition("\t")[0] for line in code._bundle()._table.splitlines() if line]
    shipped = {store._file(text, "").removesuffix(store._ENDING) for text in texts}
    return sorted(name for name in names if name[: -store._DIGITS - len(store._ENDING)] in shipped)
