"""Call plans: the same results as without, and when they are not followed."""

import ctypes
import functools
import gc
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
import strategies
from elsewhere import Elsewhere, There
from libraries import SIMULATED, on_each_library
from of_ptx import machine
from stand_in import stand_in

import seqformats as sf
from seqformats import core
from seqformats.formats.call_plans import MOST_CALLS
from seqformats.launch import plans, threads
from seqformats.launch.kernel import add_kernel
from seqformats.launch.plans import CallPlan
from seqformats.operations.attention_call import AttentionCall, Choices
from seqformats.operations.reduce import REDUCTIONS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy's numbers in the simulator
on_a_driver = pytest.mark.passes("compiled", reason="the simulator has no driver")

REDUCE = {name: getattr(sf, f"reduce_{name}") for name in REDUCTIONS}
KINDS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)
MOVES = {kind.__name__: functools.partial(sf.convert, To=kind) for kind in KINDS}
OTHERS = {
    "filled": lambda x: sf.convert(x, sf.Masked, fill=3, width=7),
    "softmax": sf.softmax,
    "cumsum": sf.cumsum,
    "reverse": sf.reverse,
    "argmax": sf.argmax,
    "shift": lambda x: sf.shift(x, 1),
    "sort": lambda x: sf.sort(x, descending=True),
    "window": lambda x: sf.window(x, 1, 1),
    "topk": lambda x: tuple(sf.topk(x, 2)),
    "expand_as": lambda x: sf.expand_as(sf.reduce_first(x), x),
    "gradient of softmax": lambda x: sf.vjp(sf.softmax, x)[1](x),
    "gradient of topk": lambda x: sf.vjp(sf.topk, x, 2)[1](sf.topk(x, 2).values),
    "gradient of shift": lambda x: sf.vjp(sf.shift, x, 1)[1](x),
    "gradient of reverse": lambda x: sf.vjp(sf.reverse, x)[1](x),
    "gradient of window": lambda x: sf.vjp(sf.window, x, 1, 1)[1](sf.window(x, 1, 1)),
    "gradient of first": lambda x: sf.vjp(sf.reduce_first, x)[1](sf.reduce_first(x)),
    "gradient of median": lambda x: sf.vjp(sf.reduce_median, x)[1](sf.reduce_sum(x)),
    "gradient of repeat": lambda x: sf.vjp(sf.repeat, x, 2)[1](sf.repeat(x, 2)),
    "gradient of concat": lambda x: sf.vjp(sf.concat, [x, x])[1](sf.concat([x, x])),
    "gradient of attention": lambda x: sf.vjp(sf.attention, x, x, x)[1](x),
    "gradient of a maximum": lambda x: sf.vjp(sf.reduce_max, x)[1](sf.reduce_min(x)),
    "attention": lambda x: sf.attention(x, x, x, causal=True),
}
FLOATS = (*(name for name in OTHERS if name.startswith("gradient")), "attention")
CALLS = REDUCE | MOVES | OTHERS
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture
def there(monkeypatch):
    with stand_in(monkeypatch) as (driver, library):
        yield SimpleNamespace(driver=driver, library=library)


@pytest.fixture
def followed(monkeypatch):
    """The plans that have been followed."""
    found = []

    def note(kind, name):
        follow = vars(kind)[name]

        def noted(own, *args):
            made = follow(own, *args)
            if made is not None and own not in found[-1:]:
                found.append(own)
            return made

        monkeypatch.setattr(kind, name, noted)

    note(CallPlan, "follow")
    note(plans.OneKernel, "follow_one")
    return found


def batch(lengths=(1, 3), width=2, start=0):
    items = np.arange(start, start + sum(lengths) * width, dtype=np.float32).reshape(-1, width)
    return sf.Ragged(items.view(There), np.array(lengths))


def parts(found):
    """The results of a call."""
    return found if type(found) is tuple else (found,)


# --- results ---


@on_each_library
@each_call
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4"])
def test_results_are_those_without_a_plan(gpu, call, dtype, followed):
    """Of other items than those that the plan was made with, in every encoding."""
    if dtype == "i4" and call in map(CALLS.get, FLOATS):
        pytest.skip("whole numbers have none")
    for From in oracle.ENCODINGS:
        truth = strategies.truth_from([3, 0, 1, 4], np.dtype(dtype), (3,))
        x = oracle.build(From, truth)
        other = x._with_leaves([leaf[::-1].copy() for leaf in x._leaves()])
        there = gpu.up(x)
        for _ in range(2):
            call(there)
        followed.clear()
        found = gpu.down(call(there._with_leaves([gpu.up(leaf) for leaf in other._leaves()])))
        for one, two in zip(parts(found), parts(gpu.down(call(gpu.up(other)))), strict=True):
            (oracle.assert_bits if isinstance(one, np.ndarray) else oracle.assert_layout)(one, two)
        assert followed or From in (sf.List, sf.LoD) or call is MOVES.get(From.__name__)


@on_each_library
def test_arrays_that_were_one_may_be_several_later(gpu, followed):
    """Also the other way round, and where they have a part in common."""
    q, k, v = (batch(start=start) for start in (0, 5, 20))
    shared = gpu.up(np.arange(12, dtype=np.float32).reshape(6, 2))
    one, two, three = gpu.up(q), gpu.up(k), gpu.up(v)._with_data(gpu.up(v.data))
    two, three = one._with_data(two.data), one._with_data(three.data)
    over = [one._with_data(shared[begin : begin + 4]) for begin in range(3)]
    for given in [(one, one, one)] * 4 + [(one, two, three)] * 4 + [(one, one, two), (one, one, one), over, over, over]:
        truth = sf.attention(*[gpu.down(x) for x in given])
        np.testing.assert_allclose(gpu.down(sf.attention(*given)).data, truth.data, rtol=1e-5)
    assert followed


JOINS = {
    "concat": lambda x, y: sf.concat([x, y, x]),
    "interleave": lambda x, y: sf.interleave([x, y]),
    "concat of Masked": lambda x, y: sf.concat([sf.convert(x, sf.Masked), y]),
    "repeat": lambda x, y: sf.concat([sf.repeat(x[[1, 0]], [0, 2]), sf.repeat(y, 2)[:2]]),
}


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_addresses_that_kernels_read_are_those_of_each_call(monkeypatch, followed, join):
    """On the machine that runs what is compiled, since the simulator has no kernel that writes words."""
    with machine(monkeypatch) as gpu:
        lengths = sf.Ragged(np.zeros(4), [3, 1]), sf.Ragged(np.zeros(5), [0, 5])
        there = [gpu.up(x) for x in lengths]
        for start in range(6):
            x, y = (z._with_data(np.arange(len(z.data) * 2, dtype=np.float32).reshape(-1, 2) + start) for z in lengths)
            found = join(*[z._with_data(gpu.up(w.data)) for z, w in zip(there, (x, y), strict=True)])
            oracle.assert_layout(gpu.down(found), join(x, y))
        assert followed


def test_addresses_of_the_arrays_of_a_list_are_those_of_each_call(monkeypatch, followed):
    with machine(monkeypatch) as gpu:
        like = sf.List([np.zeros((n, 2), np.float32) for n in (2, 1, 3)])
        there = gpu.up(like)
        for start in range(6):
            x = like._with_leaves([item + start for item in like.items])
            found = sf.convert(there._with_leaves([gpu.up(item) for item in x.items]), sf.Masked)
            oracle.assert_layout(gpu.down(found), sf.convert(x, sf.Masked))
        assert followed


@pytest.mark.parametrize("name", ["topk", "gradient of topk", "attention", "gradient of attention", "sort", "concat"])
def test_several_arrays_have_one_memory_where_a_library_wants_it(monkeypatch, followed, name):
    """If they are small; zeros are zeros there too, and what a call has given stays as it is in later ones."""
    call = CALLS.get(name, lambda x: sf.concat([x, x]))
    monkeypatch.setattr(Elsewhere, "most_in_one", 1 << 16)
    with machine(monkeypatch) as gpu:
        taken = []
        memory = Elsewhere.memory
        monkeypatch.setattr(Elsewhere, "memory", lambda *args: taken.append(args[2]) or memory(*args))
        for rows in (5,) if "attention" in name else (5, 9000):  # whose time is that of rows by rows
            there, found = gpu.up(batch((rows - 1, 0, 1), 3)), []
            for start in range(5):
                x = batch((rows - 1, 0, 1), 3, start)
                items = np.sin(np.asarray(x.data))
                found.append((call(there._with_data(gpu.up(items))), call(x._with_data(items))))
            for one, other in found:
                for part, truth in zip(parts(gpu.down(one)), parts(other), strict=True):
                    np.testing.assert_allclose(part.data, np.asarray(truth.data), rtol=1e-4, atol=1e-6)
            assert followed
            assert bool(taken) == (rows < 9000 or "topk" in name)  # whose arrays are always few
            taken.clear()


@pytest.mark.skipif(SIMULATED, reason="the simulator has no pointers")
def test_arrays_in_one_memory_are_parts_of_it(monkeypatch):
    """Each has its bytes alone, since Numba's own CUDA copies all that memory has, and holds it, as their views do."""
    gpu = pytest.importorskip("numba.cuda")
    arrays = pytest.importorskip("numba.cuda.cudadrv.devicearray")
    from seqformats.arrays import numba

    monkeypatch.setattr(numba, "_plain", lambda: arrays.DeviceNDArray)
    memory = gpu.MemoryPointer(SimpleNamespace(), ctypes.c_void_p(4096), 100)
    for begin in (0, 8):
        part = numba._view(begin, begin + 24, (2, 3), (12, 4), np.dtype("f4"), memory).gpu_data
        view = part.view(4, 12)
        assert [x.size for x in (part, view)] == [24, 8]
        assert [x.device_ctypes_pointer.value - 4096 for x in (part, view)] == [begin, begin + 4]
        assert view.owner is part.owner is memory
    last = weakref.ref(memory)
    del memory, part
    assert last() is not None
    del view
    assert last() is None


# --- when they are followed, beside a driver that notes what it is asked ---


@pytest.fixture
def planned(there, followed):
    """A batch whose sum has a plan."""
    x = batch()
    for _ in range(3):
        sf.reduce_sum(x)
    assert len(followed) == 1
    followed.clear()
    there.driver.log.clear()
    return x


def started(there):
    return [(name, stream) for name, stream in there.driver.started() if name != "write_words"]


@on_a_driver
def test_the_third_call_follows_what_the_second_did(there, followed):
    x = batch()
    for calls in range(1, 5):
        sf.softmax(x)
        assert len(started(there)) == calls
        assert len(followed) == (calls > 2)


@on_a_driver
def test_kernels_of_a_plan_go_to_the_current_stream(there, planned, followed):
    """One that has not met the structure waits for it once; its memory is shared with it."""
    there.driver.over = False
    for there.library.current in (5, 5, 0):
        sf.reduce_sum(planned)
    assert started(there) == [("sum_rows", 5), ("sum_rows", 5), ("sum_rows", 0)]
    assert there.driver.names().count("stream meets event") == 2
    assert [stream for _, stream in there.library.shared] == [5]
    assert followed


@on_a_driver
@pytest.mark.parametrize("what", ["captured", "context", "misaligned", "kernel", "recording"])
def test_a_plan_is_not_followed(there, planned, followed, what, monkeypatch):
    """The call goes its whole way then, and starts its kernel all the same."""
    x = planned
    if what == "captured":
        there.library.current = 5
        there.driver.captured.add(5)
    elif what == "context":
        monkeypatch.setattr(there.driver, "CtxGetDevice", lambda _: 201)
        monkeypatch.setattr(there.driver, "_contexts", {0: 1})
        for name in ("CtxPushCurrent", "CtxPopCurrent"):
            monkeypatch.setattr(there.driver, name, lambda _: 0, raising=False)
    elif what == "misaligned":
        x = x._with_data(np.zeros(9, np.float32)[1:].reshape(4, 2).view(There))
    elif what == "kernel":
        add_kernel("a kernel of a test", "cuda", None)
    else:
        monkeypatch.setattr(plans, "planning", [])
        monkeypatch.setattr(sf.operations.reduction, "planning", [])
    sf.reduce_sum(x)
    assert not followed
    assert len(started(there)) == 1
    if what == "kernel":  # which makes plans void, so that there are new ones
        for _ in range(3):
            sf.reduce_sum(x)
        assert followed


@on_a_driver
def test_data_that_was_changed_is_refused(there, planned):
    object.__setattr__(planned, "data", planned.data[:-1])
    with pytest.raises(sf.StructureError, match="build a new one"):
        sf.reduce_sum(planned)


def items(*shape, dtype=np.float32):
    return np.sin(np.arange(np.prod(shape), dtype=dtype)).reshape(shape).view(There)


@on_a_driver
def test_attention_that_has_a_plan_checks_what_differs(there, followed):
    """Its plan is followed before the arguments are checked, so the key has all that the checks look at."""
    x = batch(width=4)
    y, z = (x._with_data(items(4, 4)) for _ in range(2))
    for _ in range(3):
        sf.attention(x, x, x), sf.attention(x, y, z)
    assert len(followed) == 2
    followed.clear()
    wide, other = x._with_data(items(4, 4, dtype=np.float64)), batch(width=4)
    for k, v, error in (
        (wide, y, "k has dtype float64"),
        (y, wide, "v has dtype float64"),
        (y, x._with_data(items(4)), "items must have shape"),
        (x._with_data(items(4, 3)), y, "queries are 4 wide, but keys 3"),
        (y, x._with_data(np.asarray(x.data)), "v is on cpu"),
        (x, sf.Ragged(items(3, 4), [1, 2]), "k has sequences of lengths"),
        (sf.Pairs(x, x), x, "Pairs"),
    ):
        with pytest.raises((TypeError, sf.SeqFormatError), match=error):
            sf.attention(x, k, v)
    for options in ({"causal": 1}, {"dropout": 2.0}, {"window": -3}, {"none": 1}):
        with pytest.raises((TypeError, sf.SeqFormatError)):
            sf.attention(x, x, x, **options)
    with pytest.raises(TypeError, match=r"attention\(\) missing"):
        sf.attention(x, x)
    plain = x._with_data(items(4))
    with pytest.raises(sf.StructureError, match="items must have shape"):
        sf.attention(plain, plain, plain)
    assert sf.attention(x, other, x).lengths.tolist() == [1, 3]
    assert not followed
    nested = [sf.nest(x, outer) for outer in ([1, 1], [2])]
    assert nested[0]._structure is nested[1]._structure
    for _ in range(3):
        sf.attention(*[nested[0]._with_data(one.data) for one in (x, y, z)])
    with pytest.raises(sf.StructureError, match="other outer levels"):
        sf.attention(nested[0], *[nested[1]._with_data(one.data) for one in (y, z)])
    object.__setattr__(x, "data", x.data[:-1])
    with pytest.raises(sf.StructureError, match="build a new one"):
        sf.attention(x, x, x)


def test_attention_by_plans_has_the_options_of_each_call(monkeypatch, followed):
    with machine(monkeypatch) as gpu:
        x = batch((3, 0, 2), 4)
        there = gpu.up(x)
        for start in range(4):
            here = x._with_data(np.asarray(items(5, 4)) + start)
            y = there._with_data(gpu.up(here.data))
            for options in ({}, {"causal": True}, {"causal": False}, {"scale": 0.1}, {"window": (1, 0)}):
                found, wanted = gpu.down(sf.attention(y, y, y, **options)), sf.attention(here, here, here, **options)
                np.testing.assert_allclose(found.data, wanted.data, rtol=1e-5, atol=1e-6)
        assert len({id(plan) for plan in followed}) == 4


@on_a_driver
@pytest.mark.parametrize("most", [0, 1 << 16])
def test_parts_of_a_result_that_are_one_array_are_one_by_a_plan(there, followed, most, monkeypatch):
    monkeypatch.setattr(Elsewhere, "most_in_one", most)
    x = batch(width=4)
    call = AttentionCall((x, x, x), "float32", Choices(0.5, 5, 5))
    for turn in range(4):
        data, out, kept = call.forward((x, x, x), True)
        assert data is out is not kept
        assert bool(followed) == (turn > 1)


@on_a_driver
@pytest.mark.parametrize("kind", [sf.Masked, sf.Padded])
def test_the_gradient_of_a_conversion_moves_rows_once(there, kind):
    """Nobody cleans the padding of what it is given, where only its rows are read."""
    x = batch()
    for asked in (sf.Ragged, sf.Packed):
        given = sf.convert(x, asked)
        y, pullback = sf.vjp(sf.convert, given, kind)
        for _ in range(4):
            there.driver.log.clear()
            pullback(y)
            assert len(started(there)) == 1


@pytest.mark.parametrize("kind", [sf.Masked, sf.Padded])
@pytest.mark.parametrize("given", [sf.Ragged, sf.Packed, sf.Masked, sf.Padded, sf.List, sf.LoD])
def test_the_padding_of_a_gradient_is_not_read(kind, given):
    x = sf.Ragged(np.arange(8.0).reshape(4, 2), [1, 3])
    for options in ({}, {"width": 5}):
        z = sf.convert(x, given)
        back = sf.vjp(sf.convert, z, kind, **options)[1](sf.convert(x, kind, fill=9, **options))
        assert sf.equal(sf.convert(back, sf.Ragged), x)
        assert not back._in_one_array or back.data.sum() == 28  # its own padding is zeros


@on_a_driver
def test_plans_go_with_their_structure(there):
    x = batch()
    for _ in range(3):
        sf.convert(x, sf.Masked), sf.reduce_sum(x)
    ended = [weakref.ref(plan) for plan in x._structure.calls.values() if isinstance(plan, CallPlan)]
    assert len(ended) == 2
    gc.disable()
    try:
        del x
        assert not any(plan() for plan in ended)
    finally:
        gc.enable()


@on_a_driver
def test_a_structure_has_so_many_plans(there):
    x = batch()
    for width in range(5, 5 + 2 * MOST_CALLS):
        for _ in range(2):
            sf.convert(x, sf.Masked, width=width)
    assert 0 < len(x._structure.calls) <= MOST_CALLS


def bytecodes(call, x):
    """How many steps of the interpreter a call takes."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(x)
    finally:
        sys.settrace(before)
    return count


@pytest.fixture
def tensors(there, monkeypatch):
    """Makes tensors that pretend to be on a GPU."""
    torch = pytest.importorskip("torch")
    host = pytest.importorskip("benchmarks.host", reason="what pretends comes with the source alone")
    monkeypatch.setattr("seqformats.launch.driver.driver", lambda: there.driver)
    monkeypatch.setattr(there.driver, "CtxGetDevice", lambda _: 0)  # of cuda:0; functions of a driver have no bytecodes
    library = sf.arrays.library_of(torch.zeros(1))
    monkeypatch.setattr(library, "__class__", type(library))
    core.use_at_most(core.SHARED - 1, 0)  # fast paths would find that they are on the host
    yield host.pretend()
    core.with_threads(threads.num_threads())


@on_a_driver
@pytest.mark.peers
@pytest.mark.parametrize("left", [0, 8, 31])
def test_memory_that_was_taken_away_is_refused(tensors, followed, left):
    """By PyTorch's `resize_` of a storage: a view of it may still give an address that is not 0."""
    rows = tensors(np.ones((5, 2), np.float32)).clone()
    x = sf.Ragged(rows[1:], [1, 3])
    for _ in range(3):
        sf.reduce_sum(x)
    assert followed
    library = sf.arrays.library_of(x.data)
    assert library.ready(x.data, (4, 2), x.dtype)
    rows.untyped_storage().resize_(left)
    followed.clear()
    with pytest.raises(sf.StructureError, match="build a new one"):
        sf.reduce_sum(x)
    assert not followed
    with core.python_only():
        assert not library.ready(x.data, (4, 2), x.dtype)


@on_a_driver
@pytest.mark.peers
def test_a_planned_call_takes_few_bytecodes(there, tensors, monkeypatch):
    monkeypatch.setattr(there.driver, "LaunchKernel", lambda *_: 0)
    x = sf.Ragged(tensors(np.ones((4, 2), np.float32)), [1, 3])
    counts = {}
    for name, call in (REDUCE | MOVES).items():
        for _ in range(3):
            call(x)
        counts[name] = bytecodes(call, x)
    # once something has been compiled, public functions ask first whether they are in a graph
    most = 350 + 75 * ("seqformats.torch.graph" in sys.modules) + 30 * (core.extension is None)
    assert {name: count for name, count in counts.items() if count > most} == {}


@on_a_driver
@pytest.mark.peers
@pytest.mark.parametrize("call", [sf.reduce_sum, sf.softmax, MOVES["Masked"]])
def test_modes_of_pytorch_are_asked_in_each_call(tensors, followed, call, monkeypatch):
    """A gradient that is wanted, forward mode, functions of torch.func, dispatch modes, autocast."""
    import torch
    from torch.autograd import forward_ad
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    def leaf(y):
        return y if isinstance(y, torch.Tensor) else y.data

    x = sf.Ragged(tensors(np.ones((4, 2), np.float32)), [1, 3])
    for _ in range(3):
        call(x)
    assert followed
    wanting = x._with_data(x.data.clone().requires_grad_())
    followed.clear()
    assert leaf(call(wanting)).requires_grad
    with torch.no_grad():
        assert not leaf(call(wanting)).requires_grad
    assert followed
    followed.clear()
    with forward_ad.dual_level():
        leaf(call(x))
    with Mode():
        leaf(call(x))
    assert not followed
    half = x._with_data(x.data.to(torch.bfloat16))
    for _ in range(3):
        narrow = leaf(call(half))
    monkeypatch.setattr(type(sf.arrays.library_of(x.data)), "autocasts", lambda *_: True)
    wide = leaf(call(half))
    assert narrow.dtype is torch.bfloat16
    assert wide.dtype is (torch.bfloat16 if call is MOVES["Masked"] else torch.float32)
