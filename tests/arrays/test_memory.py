"""Memory that is kept for new results: used again when nothing can see it any more, and never before."""

import contextlib
import ctypes
import functools
import gc
import itertools
import os
import pickle
import subprocess
import sys
import sysconfig
import textwrap
import threading
import weakref

import every_call
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqformats as sf
from seqformats import core
from seqformats.arrays import NUMPY, frozen, memory

LEAST = 1 << 10
LIMIT = 1 << 16
SHAPE = (16, 32)  # of float32: two times what is kept at least
alone = pytest.mark.passes("compiled", reason="a process of its own has no protected pages, and is not measured")
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
HANGS = 300  # seconds, far above what anything here takes


@contextlib.contextmanager
def keeping(limit, least=LEAST):
    old = memory.LEAST
    memory.LEAST = least
    try:
        sf.keep_memory(limit)
        with core.off():  # which leave large results alone, but know nothing of a lower limit
            yield
    finally:
        sf.keep_memory(None)
        memory.LEAST = old


@pytest.fixture
def kept():
    with keeping(LIMIT):
        yield


def new(shape=SHAPE, dtype="f4"):
    return NUMPY.empty(shape, np.dtype(dtype), None)


def at(x):
    return x.ctypes.data


def blocks():
    """The size of each block that is kept, and whether it is free, the one last used at the end."""
    pool = memory._kept
    found = sorted(pool.blocks, key=lambda block: block.turn)
    return [(block.size, block.references() == pool.unused) for block in found]


def run(code):
    """In a process of its own."""
    before = "import os, numpy as np, seqformats as sf\nfrom seqformats.arrays import NUMPY, memory\n"
    command = [sys.executable, "-c", before + textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr


# ----------------------------------------------------------------------------------------------------- on and off


def test_nothing_is_kept_by_default():
    assert sf.kept_memory() == 0
    assert memory.empty is np.empty
    assert memory.zeros is np.zeros, "what is off costs nothing"


def test_on_and_off():
    with keeping(None):
        assert sf.keep_memory(np.int32(1 << 20)) is None
        assert sf.kept_memory() == 1 << 20
        assert type(sf.kept_memory()) is int
        sf.keep_memory(2**70)
        assert sf.kept_memory() == 2**70
        for off in (0, None):
            sf.keep_memory(5000)
            x = new()
            sf.keep_memory(off)
            test_nothing_is_kept_by_default()
            assert x.base is not None
            assert new().base is None


def test_a_wrong_limit(kept):
    for limit in (1.0, "2", True, [1], np.float64(2), np.bool_(True), object):
        with pytest.raises(TypeError, match="integer"):
            sf.keep_memory(limit)
    for limit in (-1, -(2**70), -(10**5000)):
        with pytest.raises(sf.ConversionError, match="at least 0"):
            sf.keep_memory(limit)
    assert sf.kept_memory() == LIMIT, "nothing is half done"


def test_all_is_given_back(kept):
    x = new()
    block = weakref.ref(x.base)
    del x
    assert block() is not None
    sf.keep_memory(None)
    assert block() is None


@pytest.mark.parametrize("how", ["none", "constant", "random", "no lock"])
def test_where_references_are_not_counted(how, monkeypatch):
    counts = itertools.cycle([2, 3, 5, 3])
    if how == "no lock":
        monkeypatch.setattr(sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED")
    else:
        monkeypatch.setattr(
            memory, "_count_of", {"none": None, "constant": lambda x: 2, "random": lambda x: next(counts)}[how]
        )
    with keeping(LIMIT):
        test_nothing_is_kept_by_default()


# ---------------------------------------------------------------------------------------------------- used again


@pytest.mark.parametrize(
    "dtype",
    [
        *("f4", ">f4", "f2", "c16", "?", "u1", "M8[ns]", ">m8[s]", "V7", "S5", "U3"),
        [("a", "u1"), ("b", ">f8")],
        "(3,)i2",
    ],
    ids=str,
)
def test_every_dtype(dtype, kept):
    for shape in ((3000,), (40, 0, 3), (5, 700, 1)):
        wanted, address = np.empty(shape, dtype), None
        for _ in range(2):
            x = new(shape, dtype)
            assert (x.shape, x.dtype, x.strides, type(x)) == (wanted.shape, wanted.dtype, wanted.strides, np.ndarray)
            assert x.flags.c_contiguous
            assert x.flags.aligned
            assert x.flags.writeable
            if x.size:
                assert at(x) % 64 == 0
                assert address in (None, at(x))
                assert not x.flags.owndata
                address = at(x)
            x[...] = np.zeros((), x.dtype)
            del x


def test_objects_never_lie_in_it(kept):
    x = memory.empty(1000, object)
    assert x.flags.owndata
    assert x[0] is None


def test_zeros_are_zeros(kept):
    x = new()
    x[...] = 7
    address = at(x)
    del x
    y = NUMPY.zeros(SHAPE, np.dtype("f4"), None)
    assert at(y) != address
    assert not y.any()
    fill = sf.convert([np.ones(700), np.ones(3)], sf.Masked)
    assert not fill.data[1, 3:].any()


def test_what_was_locked_with_its_block_can_be_written_again(kept):
    x = new()
    address = at(x)
    x = frozen(x)
    assert not x.flags.writeable
    assert not x.base.flags.writeable
    del x
    y = new()
    assert at(y) == address
    assert y.flags.writeable
    y[...] = 1


def test_small_results_do_not_look(kept, monkeypatch):
    monkeypatch.delattr(memory._Kept, "taken")
    assert new((LEAST - 1,), "u1").flags.owndata
    assert new((LIMIT + 1,), "u1").flags.owndata
    with pytest.raises(AttributeError):
        new((LEAST,), "u1")


def faults_of_second(call):
    """Pages that are new to the process in the second call, at least, of a few."""
    import resource  # which not every system has

    found = []
    call()
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        call()
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(found)


@pytest.mark.passes("compiled", reason="protected pages come from another allocator")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_second_result_needs_no_new_pages(threads):
    pytest.importorskip("resource")
    items = [np.full((length, 1024), length, np.float32) for length in (5000, 1, 4500, 900)]  # 43 MB
    x = sf.Ragged(np.concatenate(items), [len(item) for item in items])
    ends = sf.reduce_first(x)
    calls = [lambda: sf.convert(items, sf.Ragged), lambda: sf.expand_as(ends, x), lambda: sf.reverse(x)]
    sf.set_num_threads(threads)
    try:
        for call in calls:
            without = faults_of_second(call)
            with keeping(1 << 27, memory.LEAST):
                assert faults_of_second(call) <= 8
                assert sf.equal(call(), x), "all rows of a sequence are alike"
            assert without >= 20, "20 pages of 2 MB"
    finally:
        sf.set_num_threads(None)


# ------------------------------------------------------------------------------------- what can still see a block


class Own(np.ndarray):
    pass


def suspended(x):
    yield
    yield x


def started(x):
    steps = suspended(x)
    next(steps)
    return steps


def out_of_band(x):
    kept = []
    return pickle.loads(pickle.dumps(x, 5, buffer_callback=kept.append), buffers=kept)


def failed(x):
    try:
        x.reshape(7)
    except ValueError as error:
        return error


def in_a_cycle(x):
    cycle = [x]
    cycle.append(cycle)
    return cycle


HOLDERS = {
    "view": lambda x: x[...],
    "item": lambda x: x[3],
    "view of a view": lambda x: x[2:].T[1:][::2],
    "of another dtype": lambda x: x.view("i2")[1:].view("u1"),
    "of no items": lambda x: x[:0],
    "base": lambda x: x.base,
    "subclass": lambda x: x.view(Own)[2:],
    "masked": np.ma.array,
    "broadcast": lambda x: np.broadcast_to(x, (2, *x.shape))[1],
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 0)[1:],
    "iterator": iter,
    "flat": lambda x: x.flat,
    "nditer": np.nditer,
    "memoryview": memoryview,
    "part of a memoryview": lambda x: memoryview(x).cast("B")[5:7],
    "array of a memoryview": lambda x: np.asarray(memoryview(x))[1:],
    "frombuffer": lambda x: np.frombuffer(x, "u1", 8, 16),
    "interface": lambda x: np.asarray(type("Other", (), {"__array_interface__": x.__array_interface__, "x": x})()),
    "ctypes": lambda x: x.ctypes.data_as(ctypes.c_void_p),
    "ctypes array": lambda x: (ctypes.c_char * 8).from_buffer(x.reshape(-1)),
    "DLPack": lambda x: np.from_dlpack(x)[1:],
    "capsule": lambda x: x.__dlpack__(),
    "pickle": lambda x: pickle.PickleBuffer(x),
    "pickle out of band": out_of_band,
    "generator": started,
    "method": lambda x: x.sum,
    "traceback": failed,
    "cycle": in_a_cycle,
    "thread": lambda x: threading.Thread(target=print, args=(x,)),
    "Ragged": lambda x: sf.Ragged(x, [10, 6]),
    "sequence": lambda x: sf.Ragged(x, [10, 6])[1],
    "List": lambda x: sf.convert(sf.Ragged(x, [10, 6]), sf.List),
    "item of a List": lambda x: sf.convert(sf.Ragged(x, [10, 6]), sf.List).items[1],
    "item of a list": lambda x: sf.convert(sf.Ragged(x, [10, 6]), list)[0],
}


def check_holder(hold, made=new):
    """What `hold` gives for a result keeps its memory from being used again, until it is gone itself."""
    x = made()
    x[...] = 1
    address = x.data_ptr() if hasattr(x, "data_ptr") else at(x)
    holder = hold(x)
    del x
    gc.collect()
    others = [new() for _ in range(3)]
    assert address not in map(at, others)
    for other in others:
        other[...] = 2
    del other
    others.append(new((400,), "f4"))
    assert address not in map(at, others)
    del holder
    gc.collect()
    assert at(new()) == address


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_a_block_that_something_can_see_is_not_used(hold, kept):
    check_holder(hold)


@pytest.mark.passes("compiled", reason="compiled code of the user")
def test_views_of_compiled_functions(kept):
    import numba

    rest = numba.njit(lambda x: x[2:])
    check_holder(rest)
    check_holder(numba.njit(lambda x: [x[k] for k in range(3)]))


@pytest.mark.peers
def test_tensors_over_a_block(kept):
    torch = pytest.importorskip("torch")
    for hold in (
        torch.from_numpy,
        lambda x: torch.from_numpy(x)[1:].view(-1)[3:],
        lambda x: torch.from_numpy(x).detach(),
        lambda x: torch.from_numpy(x).untyped_storage(),
        torch.from_dlpack,
        lambda x: torch.from_numpy(x).numpy()[2:],
        lambda x: (torch.from_numpy(x) * torch.ones(SHAPE, requires_grad=True)).grad_fn,
        lambda x: sf.convert(sf.Ragged(torch.from_numpy(x), [10, 6]), sf.List).items[1],
    ):
        check_holder(hold)


@pytest.mark.peers
def test_tensors_in_kept_memory(kept):
    torch = pytest.importorskip("torch")
    data = torch.arange(4096, dtype=torch.bfloat16).reshape(512, 8)
    x = sf.Ragged(data, [500, 12])
    y = sf.reverse(x)
    first, part = y.data.data_ptr(), y.data[3:]
    del y
    second = sf.reverse(x).data.data_ptr()
    assert second != first
    del part
    z, rest = sf.reverse(x), sf.reverse(x)
    assert {z.data.data_ptr(), rest.data.data_ptr()} == {first, second}
    assert torch.equal(z.data[:500].flip(0), data[:500])


@pytest.mark.bridges
def test_buffers_of_arrow_over_a_block(kept):
    pa = pytest.importorskip("pyarrow")
    for hold in (
        pa.py_buffer,
        lambda x: pa.array(x.reshape(-1)),
        lambda x: sf.to_arrow(sf.Ragged(x.reshape(-1), [500, 12])),
        lambda x: sf.to_arrow(sf.Ragged(x.reshape(-1), [500, 12]))[1:].flatten()[2:],
    ):
        check_holder(hold)


@pytest.mark.jax
@pytest.mark.parametrize("how", ["asarray", "device_put", "from_dlpack"])
def test_arrays_of_jax_over_a_block(how, kept):
    """They may be over it or a copy, and are given back later than they go."""
    jax = pytest.importorskip("jax")
    x = new()
    x[...] = 1
    y = {"asarray": jax.numpy.asarray, "device_put": jax.device_put, "from_dlpack": jax.numpy.from_dlpack}[how](x)
    z = y + 1
    del x
    for other in [new() for _ in range(3)]:
        other[...] = 5
    assert (np.asarray(y) == 1).all()
    assert (np.asarray(z) == 2).all()


# --------------------------------------------------------------------------------------------------- which block


def test_a_block_is_not_much_too_large(kept):
    x = new((5000,), "u1")
    address = at(x)
    del x
    for size, same in ((5001, False), (4000, True), (3999, False)):
        x = new((size,), "u1")
        assert (at(x) == address) is same
        del x
        memory._kept.blocks.difference_update([b for b in list(memory._kept.blocks) if b.size != 5000])


@pytest.mark.parametrize("change", [lambda: new((3000,), "u1"), lambda: sf.keep_memory(2000)], ids=["more", "less"])
def test_what_another_thread_does_meanwhile(change, kept, monkeypatch):
    """It adds a block, or lowers the limit, while one is made."""
    sf.keep_memory(5000)
    real = memory._Block.__init__

    def meanwhile(block, size):
        monkeypatch.setattr(memory._Block, "__init__", real)
        change()
        real(block, size)

    monkeypatch.setattr(memory._Block, "__init__", meanwhile)
    x = new((3000,), "u1")
    assert x.size == 3000
    assert sum(size for size, _ in blocks()) <= min(5000, sf.kept_memory())


class Model:
    """What should be kept, in words of a test: a list of [size, address, result or None], the last used at the end."""

    def __init__(self, limit):
        self.limit = limit
        self.kept = []
        self.live = {}

    def add(self, key, size):
        x = new((size,), "u1")
        assert x.size == size
        x[...] = key % 251
        for _, address, _ in self.live.values():
            assert at(x) != address
        fit = [k for k, (room, _, _) in enumerate(self.kept) if size <= room <= 1.25 * size]
        free = [k for k in fit if self.kept[k][2] not in self.live]
        if size < LEAST or size > self.limit:
            assert x.flags.owndata
        elif free:
            best = min(free, key=lambda k: (self.kept[k][0], -k))
            room, address, _ = self.kept.pop(best)
            assert at(x) == address
            self.kept.append((room, address, key))
        else:
            self.drop_to(self.limit - size)
            self.kept.append((size, at(x), key))
        self.live[key] = (size, at(x), x)

    def drop_to(self, room):
        while self.kept and sum(size for size, _, _ in self.kept) > room:
            self.kept.pop(0)

    def check(self):
        assert blocks() == [(size, key not in self.live) for size, _, key in self.kept]
        assert sum(size for size, _ in blocks()) <= self.limit
        for key, (_, _, x) in self.live.items():
            assert (x == key % 251).all()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("make"), st.sampled_from([900, 1024, 1100, 1300, 2000, 2400, 3000, 9000, 20_000])),
            st.tuples(st.just("drop"), st.integers(0, 30)),
            st.tuples(st.just("limit"), st.integers(1000, 20_000)),
        ),
        max_size=60,
    )
)
@settings(max_examples=100)
def test_any_order_of_results(steps):
    with keeping(12_000):
        model = Model(12_000)
        for key, (step, number) in enumerate(steps):
            if step == "make":
                model.add(key, number)
            elif step == "drop" and model.live:
                del model.live[sorted(model.live)[number % len(model.live)]]
            elif step == "limit":
                sf.keep_memory(number)
                model.limit = number
                model.drop_to(number)
            model.check()


# ------------------------------------------------------------------------------------- threads, interrupts, forks


def test_two_threads_that_want_one_block_see_each_other(kept, monkeypatch):
    x = new()
    address = at(x)
    del x
    other = []

    class Both(memory._Block):
        """Another thread makes a view at the same time."""

        __slots__ = ()

        def view(self, shape, dtype):
            other.append(super().view(shape, dtype))
            return super().view(shape, dtype)

    (block,) = memory._kept.blocks
    block.__class__ = Both
    x = new()
    assert at(other[0]) == address != at(x)
    block.__class__ = memory._Block
    assert at(new()) not in (address, at(x))
    del x
    other.clear()
    held = [new() for _ in range(3)]
    assert address in map(at, held)


def test_eight_threads_never_get_the_same_block():
    failures, reused = [], []
    start = threading.Barrier(8)

    def work(number):
        seen = set()
        rng = np.random.default_rng(number)
        try:
            start.wait()
            for turn in range(300):
                held = [new((int(rng.integers(1024, 2048)),), "u1") for _ in range(turn % 3 + 1)]
                for x in held:
                    x[...] = number
                reused.append(sum(at(x) in seen for x in held))
                seen.update(map(at, held))
                for x in held:
                    assert (x == number).all()
                    assert at(x) % 64 == 0
                del x, held
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with keeping(32_000):
            threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
            assert sum(reused) > 100
            assert sum(size for size, _ in blocks()) <= 32_000
            assert all(free for _, free in blocks())
    finally:
        sys.setswitchinterval(interval)


class Stopped(BaseException):
    pass


def interrupted(call, k):
    """Call it, and let the k-th instruction of the module be interrupted; was it?"""
    count = itertools.count()

    def trace(frame, event, _):
        if frame.f_code.co_filename != memory.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(count) == k:
            sys.settrace(None)
            raise Stopped
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        call()
    except Stopped:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.passes("compiled", reason="it traces by itself, which coverage does, too")
@pytest.mark.parametrize("fresh", [False, True])
def test_an_interrupt_loses_no_block_and_doubles_none(fresh, kept):
    size = 1500 if fresh else 2000

    def prepare():
        sf.keep_memory(None)
        sf.keep_memory(6000)
        held = [new((2000,), "u1") for _ in range(3)]
        return held[0]

    for k in itertools.count():
        live = prepare()
        live[...] = 1
        more = interrupted(functools.partial(new, (size,), "u1"), k)
        assert sum(size for size, _ in blocks()) <= 6000
        assert sum(not free for _, free in blocks()) <= 1, "what nobody can see is free"
        held = [new((size,), "u1") for _ in range(3)]
        assert len({at(x) for x in [live, *held]}) == 4
        del held
        if not fresh:
            assert len(blocks()) == 3
        if not more:
            break
        del live
    assert k > 50


@alone
@FORK
def test_a_forked_child_goes_on():
    run(
        """
        memory.LEAST = 1024
        sf.keep_memory(100_000)
        live, free = (NUMPY.empty((2000,), np.dtype("u1"), None) for _ in range(2))
        live[...] = 1
        places = live.ctypes.data, free.ctypes.data
        del free
        child = os.fork()
        if not child:
            x = [NUMPY.empty((2000,), np.dtype("u1"), None) for _ in range(3)]
            ok = sf.kept_memory() == 100_000 and [y.ctypes.data for y in x].index(places[1]) == 0
            for y in x:
                y[...] = 2
            ok = ok and bool((live == 1).all()) and places[0] not in [y.ctypes.data for y in x]
            del live
            ok = ok and NUMPY.empty((2000,), np.dtype("u1"), None).ctypes.data == places[0]
            os._exit(0 if ok else 3)
        assert os.waitpid(child, 0)[1] == 0
        assert (live == 1).all()
        x = NUMPY.empty((2000,), np.dtype("u1"), None)
        assert x.ctypes.data == places[1]
        """
    )


# ------------------------------------------------------------------------------------------------ little memory


@pytest.mark.parametrize("make", ["empty", "zeros", "large"])
def test_what_is_free_is_given_back_before_an_error(make, kept, monkeypatch):
    live, free = new(), new()
    places = [weakref.ref(live.base), weakref.ref(free.base)]
    del free
    real = {name: getattr(np, name) for name in ("empty", "zeros")}
    calls = []

    def short(name):
        def made(*args):
            calls.append(name)
            if places[1]() is not None:
                raise MemoryError("too little")
            return real[name](*args)

        return made

    for name in real:
        monkeypatch.setattr(np, name, short(name))
    x = {
        "empty": lambda: new((5,)),
        "zeros": lambda: NUMPY.zeros(SHAPE, np.dtype("f4"), None),
        "large": lambda: new((1000,)),
    }[make]()
    assert x.shape
    assert len(calls) == 2
    assert places[0]() is not None
    assert blocks() == [(2048, False), *([(4000, False)] if make == "large" else [])]


def test_an_error_is_one_of_the_library(kept):
    x = sf.Ragged(np.zeros(3), [3])
    for many in (2**45, 2**60):
        with pytest.raises(sf.OutOfMemory) as caught:
            sf.repeat(x, many)
        assert caught.value.__cause__ is None


# ----------------------------------------------------------------------------------------------- everything on it


@pytest.mark.passes("compiled", reason="kernels read the same memory in every pass")
def test_every_call_gives_the_same():
    """All arrays but empty ones lie in memory that held other results before."""
    for seed in range(2):
        for call in every_call.draw(np.random.default_rng([10, seed]), ["f4", "f8", "i8", "u1", "?"], 40):
            wanted = call.on(every_call.copied(call.args))()
            with keeping(1 << 24, 1):
                found = [call.on(every_call.copied(call.args))() for _ in range(2)]
                for result in found:
                    every_call.assert_same_bits(result, wanted, call.name)
                del found, result
                again = call.on(every_call.copied(call.args))()
                every_call.assert_same_bits(again, wanted, call.name)
