"""What a caller gives as an index, a count or a class is read once: another thread may change it after the check."""

import contextlib
import pathlib
import subprocess
import sys
import threading

import every_call
import numpy as np
import pytest

import seqformats as sf
from seqformats import core
from seqformats.launch.kernel import Kernel

N = 50
OTHER = 1  # what is written after the check: as good a number as 0 was, since a test that fails is not to crash


def changed_after_each_kernel(monkeypatch, given, call):
    """Call it while whatever runs a kernel, or a function of NumPy that looks for mistakes, changes what was given."""
    before = given.copy()

    def changing(function):
        def change(*args, **options):
            found = function(*args, **options)
            given[...] = OTHER
            return found

        return change

    monkeypatch.setattr(Kernel, "start", changing(Kernel.start))
    for where, names in ((np, ("searchsorted", "flatnonzero")),):
        for name in names:
            monkeypatch.setattr(where, name, changing(getattr(where, name)))
    try:
        return call()
    finally:
        monkeypatch.undo()
        given[...] = before


def rows():
    return sf.Ragged(np.arange(4.0 * N).reshape(-1, 4), np.full(N, 1))


PADDED, MASKED = (sf.convert(rows(), kind) for kind in (sf.Padded, sf.Masked))
CALLS = {
    "targets": lambda given: sf.cross_entropy(rows(), sf.Ragged(given, np.full(N, 1))),
    "gather": lambda given: sf.gather(rows(), sf.Ragged(given, np.full(N, 1))),
    "scatter": lambda given: sf.scatter(
        np.zeros((N, 4)), sf.Ragged(given, np.full(N, 1)), sf.Ragged(np.ones(N), [1] * N)
    ),
    "index": lambda given: rows()[given],
    "select": lambda given: sf.select(rows(), given),
    "counts": lambda given: sf.repeat(rows(), given),
    "lengths": lambda given: sf.Ragged(np.arange(float(given.sum())), given),
    "offsets": lambda given: sf.Ragged.from_offsets(np.zeros(0), given),
    "padded index": lambda given: PADDED[given],
    "masked index": lambda given: MASKED[given],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_change_between_two_kernels_is_not_seen(name, monkeypatch):
    given = np.zeros(N, np.int64)
    call = lambda: every_call.arrays_of(CALLS[name](given))  # noqa: E731
    with core.python_only():
        expected = call()
        found = changed_after_each_kernel(monkeypatch, given, call)
    every_call.assert_same_bits(found, expected, name)


@pytest.mark.parametrize("kind", ["list", "array of tokens"])
def test_labels_and_prompts_are_copies(kind, monkeypatch):
    frames = sf.Ragged(np.log(np.full((6, 4), 0.25)), [6])
    given = np.array([1, 2, 3])
    labels = [given] if kind == "list" else sf.Ragged(given, [3])
    call = lambda: every_call.arrays_of(sf.ctc_align(frames, labels, blank=0))  # noqa: E731
    expected = call()
    import seqformats.ctc.align as align

    checked = align._labels

    def change(*args):
        found = checked(*args)
        given[...] = OTHER
        return found

    monkeypatch.setattr(align, "_labels", change)
    every_call.assert_same_bits(call(), expected, "ctc_align")
    monkeypatch.undo()
    given[...] = [1, 2, 3]
    prompts = sf.beam.prompts.prompts_of(labels)
    given[...] = OTHER
    assert prompts.data.tolist() == [1, 2, 3]


def race(name):
    """Calls beside a thread that changes what is given all the time."""
    given, stop = np.zeros(N, np.int64), threading.Event()

    def change():
        while not stop.is_set():
            given[-1] = 1 << 20
            given[-1] = 0

    for _ in range(3):
        CALLS[name](given)  # so that fast paths know its kernels
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            with contextlib.suppress(IndexError, sf.SeqFormatError):
                CALLS[name](given)
    finally:
        stop.set()
        thread.join()


@pytest.mark.passes("compiled", "guarded", reason="it is about machine code")
@pytest.mark.parametrize("name", ["index", "masked index", "counts", "targets", "gather"])
def test_a_thread_that_changes_it_all_the_time(name):
    """A fast path has no place between check and use where a test could come in: a race, in a process of its own."""
    here = pathlib.Path(__file__).parent
    script = f"import sys; sys.path[:0] = [{str(here)!r}, {str(here.parent)!r}]\n"
    script += f"import test_read_once as t; t.race({name!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
