"""Every operation on arrays beside protected pages: a byte read or written too far kills the process.

What must not kill the tests runs in a process of its own.  ``SEQFORMATS_GUARD_BATCHES`` says how many batches are drawn
for each test, 16 by default.
"""

import collections
import ctypes
import faulthandler
import mmap
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading

import every_call
import numpy as np
import pytest
import strategies  # noqa: F401  for the children

import seqformats as sf

BATCHES = int(os.environ.get("SEQFORMATS_GUARD_BATCHES") or 16)
SECONDS = 3000  # far above what anything here takes

pytestmark = [
    pytest.mark.passes("compiled", reason="the pass with checks is beside such pages as a whole"),
    pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by POSIX functions"),
]
every_side = pytest.mark.parametrize("side", ["end", "begin"])


def run(code):
    """The exit code and the words of a fresh process."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    env.pop("SEQFORMATS_GUARD", None)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", "import test_guard_pages as t\n" + textwrap.dedent(code)],
        cwd=pathlib.Path(__file__).parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def succeeds(code):
    code, said, complaint = run(code)
    assert code == 0, said + "\n".join(complaint.splitlines()[-40:])
    return said


# ------------------------------------------------------------------------------------------------ the allocator


def lie_beside_a_protected_page(guard_pages):
    for size in (*range(1, 70), 4095, 4096, 4097, 100_000):
        with guard_pages.guarded("end"):
            end, zeros = np.empty(size, np.uint8), np.zeros(size, np.uint8)
        with guard_pages.guarded("begin"):
            begin = np.empty(size, np.uint8)
        assert (end.ctypes.data + size) % mmap.PAGESIZE == (zeros.ctypes.data + size) % mmap.PAGESIZE == 0
        assert begin.ctypes.data % mmap.PAGESIZE == 0
        assert all(map(guard_pages.is_guarded, (end, zeros, begin, begin[1:])))
        assert not zeros.any()
        assert set(end) | set(begin) <= {0x7F, 0xFF}
        end[:], zeros[:], begin[:] = 1, 2, 3
        del end, zeros, begin
    assert not guard_pages.is_guarded(np.empty(1))


def are_junk_at_first(guard_pages):
    with guard_pages.guarded("both"):
        for dtype in ("f2", "f4", "f8"):
            assert np.isnan(np.empty(5, dtype)).all()
        for dtype in ("i2", "i4", "i8", "u2", "u4", "u8"):
            assert (np.empty(5, dtype) > np.iinfo(dtype).max // 3).all()
        for size in (1, 5000, 10_000, 20_000, 1 << 18):
            for _ in range(600):  # used ones too, also such as were a little smaller
                assert not np.zeros(size, np.uint8).any()
                np.empty(size * 3 // 4 + 1, np.uint8)[:] = 1


def grow_and_shrink(guard_pages):
    before = np.arange(10)
    with guard_pages.guarded("both"):
        array = np.arange(10)
        for size in (3, 5000, 2, 100_000, 4):
            array.resize(size, refcheck=False)
            assert array[:2].tolist() == [0, 1]
        before.resize(10_000, refcheck=False)  # memory from elsewhere
        assert before[:11].tolist() == [*range(10), 0]
    array.resize(7, refcheck=False)


def are_freed(guard_pages):
    draw = random.Random(0)
    with guard_pages.guarded("both"):
        live, start = [], guard_pages.count()[0]
        for _ in range(60_000):
            live.append(np.empty(draw.randrange(1, 9000), np.uint8))
            if len(live) > 1000:
                live[draw.randrange(1000)] = live.pop()
        assert guard_pages.count()[::2] == (start + 1000, 0)
        live.clear()
        assert guard_pages.count()[0] == start
        many = [np.zeros(3) for _ in range(40_000)]  # more than a process may have pieces of memory for
        assert guard_pages.count()[2]
        assert sum(array.sum() for array in many) == 0


def are_guarded_in_threads(guard_pages):
    guard_pages.install("end")
    found = []
    thread = threading.Thread(target=lambda: found.append(guard_pages.is_guarded(np.empty(3))))
    thread.start()
    thread.join()
    assert found == [True]


def check_arrays():
    import guard_pages

    for check in (lie_beside_a_protected_page, are_junk_at_first, grow_and_shrink, are_freed, are_guarded_in_threads):
        check(guard_pages)


def test_arrays():
    succeeds("t.check_arrays()")


FAULTS = {
    "read behind": ("end", lambda x, out, move: ctypes.c_uint8.from_address(x.ctypes.data + x.nbytes).value),
    "read before": ("begin", lambda x, out, move: ctypes.c_uint8.from_address(x.ctypes.data - 1).value),
    "read a vector": ("end", lambda x, out, move: move(out, 0, x.ctypes.data, 5, x.nbytes)),
    "write behind": ("end", lambda x, out, move: move(x.ctypes.data, x.nbytes, x.ctypes.data, 0, 1)),
    "write a vector": ("end", lambda x, out, move: move(x.ctypes.data, 1, out, 0, x.nbytes)),
    "write before": ("begin", lambda x, out, move: move(x.ctypes.data, -1, x.ctypes.data, 0, 1)),
    "use what is free": ("end", lambda x, out, move: ctypes.c_uint8.from_address(np.copy(x).ctypes.data).value),
    # not into a protected page, and noticed when the array is freed
    "write the byte before one": ("end", lambda x, out, move: move(x.ctypes.data, -1, x.ctypes.data, 0, 1)),
    "write the byte behind one": ("begin", lambda x, out, move: move(x.ctypes.data, x.nbytes, x.ctypes.data, 0, 1)),
}


def commit_each_fault():
    """Each in a forked child; what became of them."""
    import guard_pages
    import numba

    from seqformats.kernels import parts

    @numba.njit
    def move(out, d, src, s, size):
        parts.move(out, d, src, s, size)

    for name, (side, fault) in {"none": ("end", lambda x, out, move: None), **FAULTS}.items():
        pid = os.fork()
        if pid == 0:
            faulthandler.disable()
            room = np.zeros(1000, np.uint8)
            with guard_pages.guarded(side):
                x = np.ones(203, np.uint8)
                move(room.ctypes.data, 0, x.ctypes.data, 0, x.nbytes)  # all of it, and no more
                fault(x, room.ctypes.data, move)
                del x
            os._exit(0)
        print(name, os.WTERMSIG(os.waitpid(pid, 0)[1]), sep=": ")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_one_byte_too_far_is_death():
    said = succeeds("t.commit_each_fault()").splitlines()
    deaths = [signal.SIGSEGV] * 7 + [signal.SIGABRT] * 2
    assert said == ["none: 0", *(f"{name}: {death:d}" for name, death in zip(FAULTS, deaths, strict=True))]


# ------------------------------------------------------------------------------------------------ every operation


def test_every_public_name_is_called():
    assert every_call.names_called() | every_call.WITHOUT_ITEMS == set(sf.__all__)


MEMORIES = {"end": (every_call.copied, every_call.viewed), "begin": (every_call.copied, every_call.begun)}


def compare(side, dtypes, seed, forms=None, plain=every_call.copied, longest=40, batches=BATCHES):
    """Calls on guarded memory give what they give on any other, to the bit.

    `forms` are the ways to lay out the arguments in guarded memory, `plain` is the one outside.
    """
    import guard_pages

    met = collections.Counter()
    without = guard_pages.count()[2]  # a test before this one may have had too many arrays
    for number in range(batches):
        rng = np.random.default_rng([seed, number])
        for call in every_call.draw(rng, dtypes, longest):
            what = f"{call.name}, batch {number} of seed {seed}"
            print(what, file=sys.stderr, flush=True)  # the last line is what was called when the process died
            wanted = call.on(plain(call.args))()
            if every_call.failed(wanted):
                continue
            met[call.name] += 1
            for form in forms or MEMORIES[side]:
                with guard_pages.guarded(side):
                    found = call.on(form(call.args))()
                every_call.assert_same_bits(found, wanted, what)
                del found
    assert guard_pages.count()[2] == without, "some arrays had no protected page"
    print("none of:", sorted(set(every_call.MAKERS) - set(met)))


def compare_in_child(*args):
    said = succeeds(f"t.compare({', '.join(args)})")
    assert said == "none of: []\n"


@every_side
def test_bytes(side):
    """Items of 1 to 300 bytes."""
    succeeds(f"t.compare({side!r}, ['u1'], 1)")


@every_side
@pytest.mark.parametrize(
    ("dtypes", "seed", "batches"),
    [("['f4', 'f4', 'f8', 'i8']", 2, BATCHES), ("t.strategies.DTYPES", 7, BATCHES * 3 // 2)],
    ids=["common", "all"],
)
def test_numbers(side, dtypes, seed, batches):
    """With seeds for which every call gets its turn."""
    compare_in_child(repr(side), dtypes, f"{seed}", f"batches={batches}")


@every_side
def test_long_sequences(side):
    """Of more rows than are added up, or looked at, in one piece."""
    succeeds(f"t.compare({side!r}, ['f4', 'f8', 'i8', 'f2'], 3, longest=3000, batches={-(-BATCHES // 6)})")


@every_side
def test_threads(side, threads_for_all):
    """In this process."""
    sf.set_num_threads(3)
    compare(side, ["f4", "u1", "i8"], 4, longest=300, batches=-(-BATCHES // 3))


@pytest.mark.peers
@every_side
def test_tensors(side):
    pytest.importorskip("torch")
    compare_in_child(
        repr(side),
        "['f4', 'f4', 'f8', 'i8', 'u1', 'f2', '?', 'c8']",
        "6",
        "(t.every_call.in_torch,)",
        "t.every_call.in_torch",
    )
