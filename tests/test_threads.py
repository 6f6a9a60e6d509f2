"""Threads, forks and interrupts.  What could hang runs in a process of its own."""

import contextlib
import faulthandler
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import numpy as np
import oracle
import pytest

import seqformats as sf
from seqformats import core
from seqformats.launch import threads as pool
from seqformats.native.code import Traits

HANGS = 300  # seconds, far above what anything here takes
alone = pytest.mark.passes("compiled", reason="a process of its own has no protected pages, and is not measured")
pytestmark = pytest.mark.usefixtures("default_threads")
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def batch(seed, count, width):
    """Sequences of wide rows, so that few rows are many bytes, also for kernels run as plain Python."""
    rng = np.random.default_rng(seed)
    return [rng.random((int(length), width), np.float32) for length in rng.integers(0, 2 * count // 100 + 4, 100)]


def small(seed):
    return batch(seed, 40, 3)


def large(seed):
    return batch(seed, 2000, 1024)


def tour(items):
    """Through every encoding and back."""
    x = items
    for kind in (sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.Padded, sf.LoD, sf.Packed, sf.List):
        x = sf.convert(x, kind)
    return x.items


def assert_items(found, items):
    for one, two in zip(found, items, strict=True):
        oracle.assert_bits(one, two)


def run(code, **environment):
    """Run `code` in a fresh process; it ends with exit code 0 and says nothing but "done"."""
    here = pathlib.Path(__file__).parent
    start = "import test_threads\nfrom seqformats.native.code import Traits\n"
    start += "from seqformats.launch import threads as pool\nfrom test_threads import *\n"
    start += "from seqformats import core\ncore.switch(False)\n"  # what comes here would have no work for threads
    code = start + textwrap.dedent(code) + "\nprint('done')\n"
    # A coverage measurement has a lock of its own, which another thread may hold when this one forks.
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.endswith("_NUM_THREADS") and not key.startswith("COVERAGE_")
    }
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore::DeprecationWarning", "-c", code],
        cwd=here,
        env={**env, **environment},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr


# ------------------------------------------------------------------------------------------ many at once


def test_the_large_batch_uses_the_pool():
    """Else the tests below would test nothing."""
    used = []
    old = pool.run
    try:
        pool.run = lambda kernel, args, cuts, keep: (used.append(len(cuts)), old(kernel, args, cuts, keep))
        sf.set_num_threads(3)
        tour(small(0))
        assert not [count for count in used if count > 2]
        tour(large(0))
        assert [count for count in used if count > 2]
    finally:
        pool.run = old


@pytest.mark.passes("compiled", "guarded", reason="kernels run as Python let no other thread run beside them")
def test_eight_threads_convert_at_once():
    sf.set_num_threads(3)
    failures = []
    start = threading.Barrier(8)

    def work(seed):
        try:
            start.wait()
            for turn in range(4):
                items = large(seed) if (seed + turn) % 2 else small(seed)
                assert_items(tour(items), items)
                sums = sf.reduce_sum(items)
                for one, item in zip(sums, items, strict=True):
                    assert np.allclose(one, item.sum(0), rtol=1e-3)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_one_object_in_many_threads():
    """What an encoding computes when first asked for (order, device copies) may be asked for at once."""
    items = small(3)
    for _ in range(20):
        x = sf.convert(items, sf.Ragged)
        found = [None] * 8
        start = threading.Barrier(8)

        def work(i, x=x, start=start, found=found):
            start.wait()
            found[i] = sf.convert(x, sf.Padded)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for y in found[1:]:
            oracle.assert_layout(y, found[0])


# ------------------------------------------------------------------------------------------------- forks


def in_child(work):
    """Call `work` in a forked child; it ends well."""
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(HANGS / 2, exit=True)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"


def tours(*batches):
    for items in batches:
        assert_items(tour(items), items)


@contextlib.contextmanager
def meanwhile(work, threads=1):
    """Call `work` again and again in other threads."""
    stop, failures = [], []

    def again():
        try:
            while not stop:
                work()
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=again) for _ in range(threads)]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        stop.append(1)
        for thread in started:
            thread.join()
    assert failures == []


@alone
@FORK
def test_a_forked_child_works_alone():
    """One thread by default, more if it says so."""
    run(
        """
        def work():
            assert sf.num_threads() == 1
            sf.set_num_threads(2)
            assert sf.num_threads() == 2
            tours(large(2))

        before = sf.num_threads()
        in_child(work)
        assert sf.num_threads() == before
        """
    )


@alone
@FORK
def test_a_child_forked_while_a_part_is_imported():
    """The fork waits for it: here for what a constructor loads when it is first asked for it."""
    run(
        """
        begun = threading.Event()

        class Slow:
            @staticmethod
            def find_spec(name, path=None, target=None):  # the module's lock is held meanwhile
                if name == "seqformats.formats.device_structure":
                    begun.set()
                    time.sleep(0.3)

        sys.meta_path.insert(0, Slow)
        thread = threading.Thread(target=lambda: sf.Ragged.from_offsets(np.ones(3), [0, 1, 3], longest=2))
        thread.start()
        begun.wait()
        in_child(lambda: sf.Ragged.from_offsets(np.ones(3), [0, 1, 3], longest=2))
        thread.join()
        """
    )


LATE = """
    import os, sys, threading, time
    import numpy as np
    import seqformats as sf
    from seqformats.lazy_import import loading

    large = sf.Ragged(np.ones((2000, 1024), np.float32), np.full(100, 20))
    sf.set_num_threads(3)
    """


def alone_with_numpy(code):
    """Run `code` behind `LATE` in a process that has imported nothing else; what it prints."""
    code = textwrap.dedent(LATE) + textwrap.dedent(code)
    here = pathlib.Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@alone
@FORK
def test_a_child_forked_beside_a_first_large_call():
    """What NumPy imports late, a thread would import while another forks: the child waits for that lock for ever."""
    alone_with_numpy(
        """
        begun = threading.Event()

        class Slow:
            @staticmethod
            def find_spec(name, path=None, target=None):  # the module's lock is held meanwhile
                if name.startswith("numpy."):
                    begun.set()
                    time.sleep(0.3)

        sys.meta_path.insert(0, Slow)
        thread = threading.Thread(target=sf.softmax, args=(large,))
        thread.start()
        begun.wait(1)
        child = os.fork()
        if not child:
            sf.set_num_threads(3)
            sf.softmax(large)
            os._exit(0)
        for _ in range(100):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.1)
        else:
            os.kill(child, 9)
            sys.exit("the child hangs")
        thread.join()
        sys.exit(status)
        """
    )


@alone
def test_nothing_is_imported_late_without_the_lock():
    """A fork waits for the lock; what NumPy imports when it is first asked for has one that nobody waits for."""
    found = alone_with_numpy(
        """
        known = set(sys.modules)
        import every_call, numpy.random  # which import more than a user may have
        for name in sorted(sys.modules, reverse=True):
            if name.startswith("numpy.") and name not in known and not name.startswith("numpy.random"):
                parent, _, last = name.rpartition(".")
                del sys.modules[name]
                vars(sys.modules[parent]).pop(last, None)
        from numba.core.compiler_lock import global_compiler_lock as compiling

        class Noted:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if not loading._is_owned() and not compiling.is_locked():
                    print(name)

        sys.meta_path.insert(0, Noted)
        sf.softmax(large), sf.reduce_median(large), sf.convert(large, sf.Padded), sf.sort(large)
        for seed in (0, 1):
            for call in every_call.draw(np.random.default_rng(seed), ("f4", "i8"), 20):
                call()
        list(sf.batches(large, max_items=200, seed=3))
        for name in ("difflib", "pkgutil"):
            sys.modules.pop(name, None)
        for wrong in (lambda: sf.sofmax, lambda: sf.convert(large, sf.Padded, fil=0), lambda: sf.vjp(repr, large)):
            try:
                wrong()
            except (AttributeError, TypeError):
                sys.modules.pop("difflib", None)
        """
    )
    assert found == ""


@alone
@FORK
@pytest.mark.parametrize("first", ["", "tours(small(4))"], ids=["before the first conversion", "after it"])
def test_a_child_forked_while_another_thread_compiles(first):
    """The child loads kernels, which takes the compiler's lock."""
    run(
        f"""
        import numba

        items = small(4)
        {first}
        with meanwhile(lambda: numba.njit(lambda x: x + 1)(1)):
            for _ in range(10):
                time.sleep(0.05)
                in_child(lambda: tours(items))
        """
    )


@alone
@FORK
def test_a_child_forked_while_an_operation_is_imported():
    """The fork waits, so that the import's lock is not held in the child for ever."""
    run(
        """
        import importlib

        import numba

        numba.njit(lambda array: array.size)(np.zeros(1))  # what Numba itself imports late
        imported = importlib.import_module
        begun = threading.Event()

        def slow(*args):
            begun.set()
            time.sleep(0.3)
            return imported(*args)

        items = small(4)
        importlib.import_module = slow
        thread = threading.Thread(target=sf.reduce_sum, args=(items,))
        thread.start()
        assert begun.wait(60)
        importlib.import_module = imported
        in_child(lambda: sf.reduce_sum(items))
        thread.join()
        """
    )


@alone
@FORK
@pytest.mark.parametrize("first", ["logging", "seqformats"])
def test_a_fork_while_a_compiling_thread_logs(first):
    """It waits for the thread before it takes the lock of `logging`, whichever has been imported first."""
    code = f"""
        import {first}
        import os, sys, threading, time
        from seqformats.lazy_import import loading
        assert ("logging" in sys.modules) == ({first!r} == "logging")
        import logging

        begun = threading.Event()

        def compiling():
            with loading:
                begun.set()
                time.sleep(0.3)
                logging.getLogger("a new one")

        thread = threading.Thread(target=compiling)
        thread.start()
        begun.wait()
        child = os.fork()
        if not child:
            logging.getLogger("another one")
            with loading:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=HANGS, check=True)


@alone
@FORK
def test_a_child_forked_while_the_pool_works():
    run(
        """
        def work():
            sf.set_num_threads(3)
            tours(items)

        sf.set_num_threads(3)
        items = large(5)
        tours(items)
        with meanwhile(lambda: tours(items), threads=2):
            for _ in range(10):
                time.sleep(0.02)
                in_child(work)
        """
    )


@alone
@FORK
def test_several_threads_fork():
    run(
        """
        import threading

        sys.setswitchinterval(1e-6)

        def forks():
            for _ in range(30):
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                os.waitpid(pid, 0)

        threads = [threading.Thread(target=forks) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """
    )


@alone
@FORK
def test_worker_processes():
    run(
        """
        import multiprocessing

        sf.set_num_threads(2)
        tour(large(6))
        with multiprocessing.get_context("fork").Pool(2) as pool:
            for found, seed in zip(pool.map(worker, range(6)), range(6)):
                assert_items(found, small(seed))
            pool.close()
            pool.join()
        """
    )


def worker(seed):
    items = large(seed)
    assert_items(tour(items), items)
    return tour(small(seed))


# ----------------------------------------------------------------------------------- the number of threads


def test_set_num_threads():
    default = sf.num_threads()
    assert default >= 1
    for k in (1, 2, 64, np.int8(3)):
        sf.set_num_threads(k)
        assert sf.num_threads() == k
        assert type(sf.num_threads()) is int
    for k in (10**5, 2**70):  # that many threads, the system might start
        sf.set_num_threads(k)
        assert 256 <= sf.num_threads() <= max(256, os.cpu_count())
    sf.set_num_threads(None)
    assert sf.num_threads() == default


@pytest.mark.parametrize(
    ("error", "message", "wrong"),
    [
        (TypeError, "integer", [1.0, "2", True, [1], np.float64(2), np.bool_(True), object()]),
        (sf.ConversionError, "at least 1", [0, -1, -(2**70), -(10**5000)]),
    ],
)
def test_a_wrong_number_of_threads(error, message, wrong):
    sf.set_num_threads(2)
    for k in wrong:
        with pytest.raises(error, match=message):
            sf.set_num_threads(k)
        assert sf.num_threads() == 2, "nothing is half done"


@alone
def test_the_environment_caps_the_threads():
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    run(f"assert sf.num_threads() == {cpus}")
    run("assert sf.num_threads() == 1", SEQFORMATS_NUM_THREADS="1")
    run("assert sf.num_threads() == 1", OMP_NUM_THREADS="1")
    run(f"assert sf.num_threads() == min(2, {cpus})", SEQFORMATS_NUM_THREADS="2", OMP_NUM_THREADS="1")
    run(f"assert sf.num_threads() == {cpus}", SEQFORMATS_NUM_THREADS="10000")
    for nonsense in ("", "0", "-1", "many", "1.5", "²"):
        run(f"assert sf.num_threads() == {cpus}", SEQFORMATS_NUM_THREADS=nonsense)
    run("sf.set_num_threads(7); assert sf.num_threads() == 7", SEQFORMATS_NUM_THREADS="1")


# --------------------------------------------------------------------------------- the pool from inside


def in_blocks(kernel, blocks, *args, keep=None):
    pool.run(kernel, args, list(range(blocks + 1)), keep)


@pytest.mark.parametrize("blocks", [1, 2, 3, 17])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_block_runs_once(blocks, threads):
    sf.set_num_threads(threads)
    ran = []
    in_blocks(lambda start, stop: ran.extend(range(start, stop)), blocks)
    assert sorted(ran) == list(range(blocks))


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("at", [0, 3, 7])
def test_an_error_waits_for_the_other_blocks(kind, at):
    """Once it is raised, no thread writes any more."""
    sf.set_num_threads(4)
    ended = []

    def kernel(start, stop):
        if start == at:
            raise kind("stop")
        time.sleep(0.01)
        ended.append(start)

    with pytest.raises(kind, match="stop"):
        in_blocks(kernel, 8)
    before = len(ended)
    assert before == 7
    time.sleep(0.05)
    assert len(ended) == before


# An exception at every instruction of the library's own, one at a time: what follows must work, and nobody may write
# any more once the exception is out.


class Interrupt(BaseException):
    """An exception from outside."""


HOUSE = str(pathlib.Path(sf.__file__).parent)
KERNELS = str(pathlib.Path(HOUSE, "kernels"))  # which have none, compiled


def interrupted(call, at):
    """Call with an exception raised before instruction number `at` of the library's Python; has it come up?"""
    left = [at]

    def trace(frame, event, arg):
        file = frame.f_code.co_filename
        if not file.startswith(HOUSE) or file.startswith(KERNELS):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            left[0] -= 1
            if left[0] == -1:
                raise Interrupt
        return trace

    sys._getframe().f_trace_opcodes = True  # CPython 3.12 traces instructions only where a frame has asked before
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(None)
    assert left[0] >= 0, "the exception was lost"
    return False


def occupied(helpers):
    """Let all helpers be busy with somebody else's blocks; returns what ends that."""
    free = threading.Event()
    begun = threading.Barrier(helpers + 2)  # and that caller, and this one

    def kernel(start, stop):
        begun.wait()
        free.wait()

    thread = threading.Thread(target=in_blocks, args=(kernel, helpers + 1))
    thread.start()
    begun.wait()

    def end():
        free.set()
        thread.join()

    return end


@alone
@pytest.mark.parametrize("busy", [0, 4])
def test_an_exception_at_every_instruction(busy):
    """It comes up once everybody has stopped writing, and what follows is right."""
    run(
        f"""
        sf.set_num_threads(5)
        writing = []
        ran = []

        def kernel(start, stop):
            if threading.current_thread() is not threading.main_thread():
                writing.append(start)
                time.sleep(0.001)
                writing.remove(start)
            ran.append(start)

        def call():
            in_blocks(kernel, 12)

        call()
        end = occupied(4) if {busy} else lambda: None
        at = 0
        while interrupted(call, at):
            assert not writing, (at, writing)
            ran.clear()
            call()
            assert sorted(ran) == list(range(12)), (at, ran)
            at += 1
        assert at > 300, at
        end()
        """
    )


@alone
def test_an_exception_at_every_instruction_of_a_conversion():
    run(
        """
        sf.set_num_threads(5)
        Traits.threads_from = 1
        items = [np.full((k % 4, 3), k) for k in range(10)]
        padded = sf.convert(items, sf.Padded)
        expected = padded.data.copy()
        end = occupied(4)
        at = 0
        while interrupted(lambda: sf.convert(items, sf.Padded), at):
            assert (sf.convert(items, sf.Padded).data == expected).all(), at
            at += 1
        assert at > 1000, at
        end()
        """
    )


@alone
def test_exceptions_sent_to_helpers():
    """`PyThreadState_SetAsyncExc` at any time: every call ends, with the exception or with the right result."""
    run(
        """
        import ctypes

        sf.set_num_threads(4)
        stop = []

        def send():
            while not stop:
                for thread in threading.enumerate():
                    if thread.name == "seqformats" and thread.ident:  # else it has yet to begin
                        number = ctypes.c_ulong(thread.ident)
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(Interrupt))
                time.sleep(0.0005)

        sender = threading.Thread(target=send)
        sender.start()
        ends = 0
        for turn in range(400):
            ran = []

            def kernel(start, stop):
                for _ in range(20):  # where an exception may come up
                    pass
                ran.append(start)

            try:
                in_blocks(kernel, 16)
            except Interrupt:
                ends += 1
            else:
                assert set(ran) == set(range(16)), ran
        stop.append(1)
        sender.join()
        sf.set_num_threads(None)
        items = large(7)
        assert_items(tour(items), items)
        """
    )


@alone
def test_two_hundred_interrupts():
    """Ctrl-C at any time, while helpers write to arrays that are given up right after."""
    run(
        """
        import random
        import signal

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
        sf.set_num_threads(4)
        items = large(9)
        tours(items)
        random.seed(1)
        seen = 0
        for turn in range(200):
            timer = threading.Timer(random.random() * 0.02, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                while True:
                    sf.convert(sf.convert(items, sf.Padded), sf.Masked)
            except KeyboardInterrupt:
                seen += 1
            timer.join()
            if turn % 20 == 0:
                tours(items)
        assert seen == 200
        tours(items)
        """
    )


def test_what_owns_the_memory_is_kept_while_a_block_runs():
    """Even where a second exception ends the wait for the others too early."""
    import gc
    import weakref

    class Owner:
        pass

    begun, free = threading.Event(), threading.Event()

    def kernel(start, stop):
        begun.set()
        free.wait()

    owner = Owner()
    gone = weakref.ref(owner)
    task = pool._Task(kernel, (), [0, 1], owner, 2)
    assert pool._pool.grow(1) >= 1
    pool._pool.tickets.put(pool._Ticket(task, 1))
    begun.wait()
    del task, owner
    gc.collect()
    assert gone() is not None, "a helper still works on it"
    free.set()
    for _ in range(500):
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.01)
    assert gone() is None


def test_arrays_of_a_list_are_kept_while_a_block_runs(monkeypatch):
    """A kernel has nothing but their addresses."""
    kept = []
    old = pool.run
    monkeypatch.setattr(
        pool, "run", lambda kernel, args, cuts, keep: (kept.append(keep), old(kernel, args, cuts, keep))
    )
    monkeypatch.setattr(Traits, "threads_from", 1)
    items = [np.full((3, 2), k, np.float32) for k in range(4)]
    with core.python_only():
        made = [sf.convert(items, kind).data for kind in (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)]
        made.append(sf.reduce_first(items))
    for (source,), (target,) in kept:
        assert isinstance(source, np.ndarray) or [id(x) for x in source] == [id(x) for x in items]
        assert any(target is y for y in made)
    assert sum(type(source) is tuple for (source,), _ in kept) == 5


@alone
def test_the_pool_within_the_pool():
    """A kernel that uses the pool itself, in callers and helpers, ends."""
    run(
        """
        sf.set_num_threads(3)
        ran = []

        def inner(start, stop):
            ran.extend(range(start, stop))

        def outer(start, stop):
            in_blocks(inner, 5)
            items = small(start)
            assert_items(tour(items), items)

        for _ in range(20):
            in_blocks(outer, 9)
        assert len(ran) == 20 * 9 * 5, len(ran)
        """
    )


@alone
def test_many_callers_of_the_pool():
    run(
        """
        sf.set_num_threads(4)
        ran = []

        def call():
            for _ in range(50):
                in_blocks(lambda start, stop: ran.append(start), 16)

        callers = [threading.Thread(target=call) for _ in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert len(ran) == 8 * 50 * 16
        """
    )


@alone
def test_the_end_of_the_process():
    """Conversions at exit work, and idle helpers do not keep the process alive."""
    run(
        """
        import atexit

        sf.set_num_threads(3)
        items = large(8)

        def at_exit():
            assert_items(tour(items), items)

        atexit.register(at_exit)
        assert_items(tour(items), items)
        """
    )


def test_large_arrays_are_let_go():
    """The pool holds no argument of a call that has ended."""
    import weakref

    sf.set_num_threads(3)
    array = np.zeros(4)
    gone = weakref.ref(array)
    in_blocks(lambda array, start, stop: array[start:stop].fill(1), 4, array)
    assert array.tolist() == [1] * 4
    del array
    for _ in range(200):
        if gone() is None:
            break
        time.sleep(0.01)
    assert gone() is None
