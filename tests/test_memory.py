"""Memory that the C library is told to keep."""

import os
import subprocess
import sys

import numpy as np
import pytest

import seqformats as sf
from seqformats import memory

PROGRAM = """
import resource, sys
import numpy as np
import seqformats as sf

x = sf.Ragged(np.ones((1 << 20, 16), np.float32), [1 << 18] * 4)
sf.keep_memory(int(sys.argv[1]))
faults = []
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = sf.reverse(x)
    new = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    faults.append(new * resource.getpagesize() / x.data.nbytes)
    right = bool((y.data == 1).all())
    del y
sf.keep_memory(None)
size = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
print(max(faults[1:]) < 0.1, right, size < 3 * x.data.nbytes)
"""


@pytest.fixture(autouse=True)
def off():
    yield
    sf.keep_memory(None)


def limits():
    for limit in (1.0, "2", True, [1], np.arange(3), np.float64(2), np.bool_(True), object):
        yield limit, TypeError, "integer"
    for limit in (-1, -(2**70), -(10**5000)):
        yield limit, sf.ConversionError, "at least 0"


@pytest.mark.skipif(memory._mallopt() is None, reason="another C library")
def test_on_and_off():
    for limit, kept in [(np.int32(1 << 20), 1 << 20), (2**70, 2**70), (0, 0), (5, 5), (None, 0)]:
        assert sf.keep_memory(limit) is None
        assert (sf.kept_memory(), type(sf.kept_memory())) == (kept, int)
    sf.keep_memory(1 << 20)
    for limit, error, words in limits():
        with pytest.raises(error, match=words):
            sf.keep_memory(limit)
    assert sf.kept_memory() == 1 << 20, "nothing is half done"


@pytest.mark.skipif(memory._mallopt() is None, reason="another C library")
@pytest.mark.passes("compiled", reason="a process of its own has no protected pages, and is not measured")
def test_pages_are_used_again_and_given_back():
    """Without huge pages, of which one fault is for many."""
    program = [sys.executable, "-c", PROGRAM]
    env = os.environ | {"NUMPY_MADVISE_HUGEPAGE": "0"}
    found = [
        subprocess.run([*program, size], env=env, capture_output=True, text=True, check=True).stdout
        for size in ("0", str(1 << 28))
    ]
    assert found == ["False True True\n", "True True True\n"]


@pytest.mark.parametrize("version", [None, "musl 1.2", AttributeError, OSError, ValueError])
def test_another_c_library_is_said(monkeypatch, caplog, version):
    def answer(name):
        if isinstance(version, type):
            raise version
        return version

    monkeypatch.setattr(os, "confstr", answer)
    sf.keep_memory(1 << 20)
    assert "not glibc" in caplog.text
    sf.keep_memory(None)
    assert sf.kept_memory() == 0
