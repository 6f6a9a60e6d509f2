"""Tensors of PyTorch with the extension and without, and what is left to Python."""

import copy
import functools
import gc
import pickle
import resource
import sys
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_fast_paths import same

import seqformats as sf
from seqformats import core

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.peers]

LENGTHS = [3, 1, 5, 2]
ROWS = sum(LENGTHS)
NUMBERS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
ENCODINGS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)


def numbers(count, dtype="float32", item=(2,)):
    """A tensor ``(count, *item)`` of small numbers, not in order."""
    table = np.random.default_rng(count).permutation(np.arange(count * int(np.prod(item))) % 7)
    return torch.from_numpy(table.reshape(count, *item)).to(getattr(torch, dtype))


def batch(dtype="float32", item=(2,), lengths=LENGTHS):
    return sf.Ragged(numbers(sum(lengths), dtype, item), lengths)


def items(x):
    return list(torch.split(x.data, x.lengths.tolist()))


# By name: what is called, with a `Ragged`.
CALLS = {
    "Ragged": lambda x: sf.Ragged(x.data, x.lengths.tolist()),
    "Ragged of a tensor": lambda x: sf.Ragged(x.data, torch.from_numpy(x.lengths.copy())),
    "Masked": lambda x: (lambda y: sf.Masked(y.data, y.lengths.tolist()))(sf.convert(x, sf.Masked)),
    "List": lambda x: sf.List(items(x)),
    "a list to Ragged": lambda x: sf.convert(items(x), sf.Ragged),
    "a list to Packed": lambda x: sf.convert(items(x), sf.Packed),
    "a List to Masked": lambda x: sf.convert(sf.List(items(x)), sf.Masked),
    **{f"to {kind.__name__}": lambda x, kind=kind: sf.convert(x, kind) for kind in ENCODINGS[1:]},
    **{
        f"{kind.__name__} to Ragged": lambda x, kind=kind: sf.convert(sf.convert(x, kind), sf.Ragged)
        for kind in ENCODINGS
    },
    "reverse": sf.reverse,
    "first": sf.reduce_first,
    "last": sf.reduce_last,
    "expand": lambda x: sf.expand_as(x.data[: len(x.lengths)], x),
    "flat": lambda x: sf.expand(x.data[: len(x.lengths)], x),
    "shift": lambda x: sf.shift(x, 1),
    "cut": lambda x: sf.cut(x, 1, None),
    "cut by steps": lambda x: sf.cut(x, -1, None, -2),
    "truncate": lambda x: sf.truncate(x, 2),
    "pair": lambda x: sf.truncate_pair(x, sf.reverse(x), 4),
    "slice": lambda x: sf.slice(x, 0, 1),
    "cross": lambda x: sf.cross(x, x),
    "shuffle": lambda x: sf.shuffle(x, 7),
    "chunk": lambda x: sf.chunk(x, 3, 1),
    "concat": lambda x: sf.concat([x, x]),
    "constants": lambda x: sf.concat([x.data[0], x]),
    "interleave": lambda x: sf.interleave([x, x]),
    "select": lambda x: x[[2, 0, 2]],
    "by an array": lambda x: x[np.array([1, 3])],
    "by a tensor": lambda x: x[torch.tensor([1, 3])],
    "a number": lambda x: x[1],
    "a part": lambda x: x[1:3],
    "repeat": lambda x: sf.repeat(x, 2),
    "repeat each": lambda x: sf.repeat(x, np.array([2, 0, 1, 3])),
    "filter": lambda x: sf.filter(x, torch.arange(x.data.shape[0]) % 2 == 0),
    "gather": lambda x: sf.gather(x, sf.Ragged(torch.zeros(4, dtype=torch.int64), [1] * 4)),
    "window": lambda x: sf.window(x, 1, 1),
}


def losses(x, **options):
    """Of the batch as scores of two classes."""
    scores = torch.stack([x.data, -x.data], 1) if x.data.ndim == 1 else x.data.reshape(x.data.shape[0], -1)
    return sf.cross_entropy(x._freeze(scores, x._structure), torch.arange(len(scores)) % 2, **options)


def slopes_of(x, **options):
    """The gradient of the losses of a batch, whose scores ask for one."""
    rows = torch.cat([x.data.reshape(x.data.shape[0], -1)] * 2, 1).detach().requires_grad_()
    y = sf.cross_entropy(x._freeze(rows, x._structure), torch.arange(len(rows)) % 2, **options)
    y = y if isinstance(y, torch.Tensor) else y.data
    y.backward(torch.ones_like(y))
    return rows.grad


def bags(table, mode="sum", weights=None):
    """Of the rows of a table, all of which are named, in seven bags."""
    ids = np.arange(16) * 5 % max(len(table), 1)
    return sf.embedding_bag(table, sf.Ragged(ids, [4, 0, 1, 7, 2, 2, 0]), weights, mode)


def slopes_of_bags(x, mode="sum", sparse=False):
    """The gradient of the table."""
    table = x.data.detach().requires_grad_()
    ids = sf.Ragged(torch.arange(40) * 7 % max(len(table), 1), [3, 0, 37])
    y = sf.embedding_bag(table, ids, mode=mode, sparse=sparse)
    y.backward(torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape) / 8)
    found = table.grad.coalesce() if sparse else table.grad
    return (found.indices(), found.values()) if sparse else found


OF_NUMBERS = {
    "bags": lambda x: bags(x.data),
    "means of bags": lambda x: bags(torch.nn.Parameter(x.data, requires_grad=False), "mean"),
    "largest of bags": lambda x: bags(x.data, "max"),
    "weighted bags": lambda x: bags(x.data, weights=x.data.reshape(-1)[:1].expand(16).clone()),
    "slopes of bags": slopes_of_bags,
    "slopes of means of bags": lambda x: slopes_of_bags(x, "mean"),
    "sparse slopes of bags": lambda x: slopes_of_bags(x, "mean", True),
    "sum": sf.reduce_sum,
    "mean": sf.reduce_mean,
    "max": sf.reduce_max,
    "logsumexp": sf.reduce_logsumexp,
    "softmax": sf.softmax,
    "cumsum": sf.cumsum,
    "sort": sf.sort,
    "argsort": sf.argsort,
    "topk": lambda x: sf.topk(x, 2),
    "loss": losses,
    "mean loss": lambda x: losses(x, reduction="mean"),
    "loss of items": lambda x: losses(x, ignore=1, reduction="none"),
    "slopes of losses": slopes_of,
    "slopes of a mean loss": lambda x: slopes_of(x, reduction="mean"),
    "slopes of the losses of items": lambda x: slopes_of(x, ignore=1, reduction="none"),
    "weighted sum": lambda x: sf.reduce_sum(x, weights=weights_for(x)),
    "weighted mean": lambda x: sf.reduce_mean(x, weights=x._freeze(weights_for(x), x._structure)),
}
OF_SINGLE = {
    "unique": sf.unique,
    "run_starts": sf.run_starts,
    "mask_tokens": lambda x: sf.mask_tokens(x, rate=0.5, mask_id=1, vocabulary=9, special=[2], seed=4),
    "levenshtein": lambda x: sf.levenshtein(x, x[[1, 0, 3, 2]]),
    "ratios": lambda x: sf.rl.ratios(x, x._with_data(x.data.clone())),
    "policy loss": lambda x: sf.rl.policy_loss(x, x, x.data[:4], where=x._with_data(x.data > 3)),
    "slopes of policies": lambda x: slopes_of_policies(x),
    "mean of losses": lambda x: sf.rl.mean_loss(x, where=x._with_data(x.data > 3)),
    "advantages": lambda x: sf.rl.gae(x, x, gamma=0.5, where=x._with_data(x.data > 3)),
    "recurrence": lambda x: sf.recurrence(x, 0.5),
}


def slopes_of_policies(x):
    """The gradient of the mean loss of a policy."""
    rows = x.data.float().requires_grad_()
    losses = sf.rl.policy_loss(sf.Ragged(rows, x.lengths), x, x, where=sf.Ragged(x.data > 3, x.lengths))
    sf.rl.mean_loss(losses).backward()
    return rows.grad


def weights_for(x):
    """One per item."""
    dtype = torch.float32 if x.data.dtype == torch.float32 else torch.float64
    return torch.linspace(0, 1, x.data.shape[0], dtype=dtype)


ERRORS = (TypeError, IndexError, RuntimeError, sf.StructureError, sf.ConversionError, sf.DeviceError)


def outcome(call):
    """The result, or what is raised, in words."""
    try:
        return call()
    except ERRORS as error:
        return f"{type(error).__name__}: {error}"


def check(call):
    """The same result or error with the extension and without, three times: Python tells it of kernels."""
    with core.python_only():
        expected = outcome(call)
    for _ in range(3):
        found = outcome(call)
        assert alike(found, expected), f"{found} instead of {expected}"
    return found


def alike(x, y):
    if isinstance(x, str) or isinstance(y, str):
        return x == y
    return same(x, y) and is_inference(x) == is_inference(y)


def is_inference(x):
    found = x[0] if isinstance(x, tuple) else x
    sample = found._sample() if hasattr(found, "_sample") else found
    return sample.is_inference()


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", CALLS)
def test_moves(name, dtype):
    check(lambda: CALLS[name](batch(dtype)))


def functions_of(call):
    """Count how many functions of Python it calls."""
    counts = [0]

    def count(frame, event, arg):
        counts[0] += event == "call"

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts[0]


VIEWS = {"Ragged to Ragged", "a number", "a part"}  # which PyTorch makes
QUICK = [name for name in CALLS if name not in VIEWS] + [
    "sum",
    "mean",
    "max",
    "logsumexp",
    "softmax",
    "cumsum",
    "unique",
    *[name for name in OF_NUMBERS if "bags" in name],
]


@pytest.mark.parametrize("name", sorted(QUICK))
def test_the_extension_is_used(name):
    """A call by it calls fewer functions of Python."""
    x = batch("int64", ()) if name in OF_SINGLE else batch()
    call = functools.partial((CALLS | OF_NUMBERS | OF_SINGLE)[name], x)
    for _ in range(3):
        call()
    with core.python_only():
        wanted = functions_of(call)
    assert functions_of(call) < wanted


@pytest.mark.parametrize("kind", ENCODINGS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_calculations(name, dtype, kind):
    check(lambda: OF_NUMBERS[name](sf.convert(batch(dtype), kind)))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", OF_SINGLE)
def test_single_numbers(name, dtype):
    check(lambda: OF_SINGLE[name](batch(dtype, ())))


@given(
    st.sampled_from(sorted({**CALLS, **OF_NUMBERS})),
    st.lists(st.integers(0, 4), min_size=4, max_size=4),
    st.sampled_from([(), (3,), (1, 2), (0,)]),
    st.sampled_from(["float32", "int64", "bool"]),
)
def test_odd_shapes(name, lengths, item, dtype):
    check(lambda: {**CALLS, **OF_NUMBERS}[name](batch(dtype, item, lengths)))


# --- what is not plain ------------------------------------------------------------------------------------------------


def shrunk(first, size):
    """Rows from the first one on, in a storage that has become so small."""
    x = numbers(2 * ROWS)
    part = x[first : first + ROWS]
    x.untyped_storage().resize_(size)
    return part


class Own(torch.Tensor):
    pass


ODD = {
    "wants a gradient": lambda: numbers(ROWS).requires_grad_(),
    "of a graph": lambda: numbers(ROWS).requires_grad_() * 2,
    "a parameter": lambda: torch.nn.Parameter(numbers(ROWS)),
    "not contiguous": lambda: numbers(ROWS, item=(2, 2)).transpose(1, 2),
    "every other row": lambda: numbers(2 * ROWS)[::2],
    "expanded": lambda: numbers(1).expand(ROWS, 2),
    "a part": lambda: numbers(2 * ROWS)[ROWS:],
    "negative": lambda: numbers(ROWS)._neg_view(),
    "complex": lambda: numbers(ROWS).to(torch.complex64),
    "conjugated": lambda: numbers(ROWS).to(torch.complex64).conj(),
    "its imaginary part": lambda: torch.ones(ROWS, 2, dtype=torch.complex64).conj().imag,
    "six axes": lambda: numbers(ROWS, item=(1, 1, 2, 1, 1)),
    "seven axes": lambda: numbers(ROWS, item=(1, 1, 2, 1, 1, 1)),
    "a subclass": lambda: numbers(ROWS).as_subclass(Own),
    "sparse": lambda: numbers(ROWS).to_sparse(),
    "meta": lambda: numbers(ROWS).to("meta"),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(ROWS, 2), 0.1, 0, torch.qint8),
    "lost": lambda: shrunk(0, 0),
    "shrunk": lambda: shrunk(0, 8 * ROWS - 1),
    "shrunk, a part": lambda: shrunk(ROWS, 8 * ROWS),
    "shrunk as far as it may be": lambda: shrunk(1, 8 * ROWS + 8),
    "in inference mode": lambda: torch.inference_mode()(lambda: numbers(ROWS) + 1)(),
    "float8": lambda: numbers(ROWS).to(torch.float8_e4m3fn),
    "uint16": lambda: numbers(ROWS, "int32").to(torch.uint16),
}


NOT_CUT = {"sparse", "meta", "quantized", "lost", "shrunk", "shrunk, a part"}
"""What PyTorch does not split."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ODD)
def test_odd_tensors(name):
    """Made plain, refused or moved: as without the extension, from the constructor on."""
    for call in (lambda x: x, sf.reduce_sum, sf.reverse, lambda x: sf.convert(x, sf.Masked), lambda x: x[[1, 0]]):
        for _ in range(3):
            call(batch())  # whose kernels are known
        data = ODD[name]()

        def run(call=call, data=data):
            y = call(sf.Ragged(data, LENGTHS))
            return y if isinstance(y, torch.Tensor) else y.data

        with core.python_only():
            expected = outcome(run)
        for _ in range(3):
            found = outcome(run)
            if isinstance(expected, str):
                assert found == expected
                continue
            assert (found.grad_fn is None) == (expected.grad_fn is None)
            assert found.requires_grad == expected.requires_grad
            assert type(found) is type(expected)
            assert found.dtype == expected.dtype
            if not found.is_meta:
                assert torch.equal(found.detach().to(torch.complex64), expected.detach().to(torch.complex64))


@pytest.mark.parametrize("name", sorted(set(ODD) - NOT_CUT))
def test_odd_tensors_in_a_list(name):
    for _ in range(3):
        sf.convert(items(batch()), sf.Ragged), sf.List(items(batch()))
    parts = list(ODD[name]().split(LENGTHS))
    for call in (sf.List, lambda y: sf.convert(y, sf.Ragged), lambda y: sf.convert(sf.List(y), sf.Ragged)):
        with core.python_only():
            expected = outcome(lambda call=call: call(parts))
        found = outcome(lambda call=call: call(parts))
        if isinstance(expected, str):
            assert found == expected
            continue
        assert found._sample().requires_grad == expected._sample().requires_grad
        pairs = zip(sf.convert(found, sf.Ragged).data, sf.convert(expected, sf.Ragged).data, strict=True)
        assert all(torch.equal(x.to(torch.complex64), y.to(torch.complex64)) for x, y in pairs)


def test_tensors_that_differ_in_a_list():
    parts = items(batch())
    for _ in range(3):
        sf.convert(parts, sf.Ragged)
    for other in (parts[0].double(), parts[0][:, :1].contiguous(), parts[0][0], parts[0].numpy(), None, 1.0):
        check(lambda other=other: sf.convert([*parts, other], sf.Ragged))
        check(lambda other=other: sf.convert([other, *parts], sf.Ragged))


def test_what_was_changed_after_it_was_made():
    x = batch()
    y = sf.convert(x, sf.Masked)
    for z in (x, y):
        for _ in range(3):
            sf.reduce_sum(z)
        z.data.resize_(1)
        check(lambda z=z: sf.reduce_sum(z))


@pytest.mark.parametrize("name", ["sum", "to Masked", "select", "shift", "a List to Masked", "weighted sum"])
def test_storages_that_shrink_behind_a_batch(name):
    call, data = {**CALLS, **OF_NUMBERS}[name], shrunk(0, 16 * ROWS)  # as large as it was
    for _ in range(3):
        call(batch())
    x = sf.Ragged(data, LENGTHS)
    data.untyped_storage().resize_(8 * ROWS - 1)
    with core.python_only():
        expected = outcome(lambda: call(x))
    assert outcome(lambda: call(x)) == expected
    assert isinstance(expected, str)


# --- states of PyTorch ------------------------------------------------------------------------------------------------


def fake():
    return pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    """Sees every operation of PyTorch."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **kwargs or {})


STATES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "fake tensors": fake,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "a dispatch mode": Counting,
    "a default device": lambda: torch.device("meta"),
    "forward mode": torch.autograd.forward_ad.dual_level,
}


@pytest.mark.parametrize("name", ["sum", "softmax", "sort", "bags", "largest of bags"])
@pytest.mark.parametrize("state", STATES)
def test_states(state, name):
    x = batch()
    for _ in range(3):
        OF_NUMBERS[name](x)
    with STATES[state]():
        check(lambda: OF_NUMBERS[name](x))
        check(lambda: sf.convert(x, sf.Masked))


def loss_of(rows, targets, **options):
    y = sf.cross_entropy(sf.Ragged(rows, LENGTHS), targets, **options)
    return y if isinstance(y, torch.Tensor) else y.data


@pytest.mark.filterwarnings("ignore")  # of PyTorch's own, on its way to forward mode
@pytest.mark.parametrize("reduction", ["mean", "sequence", "none"])
def test_derivatives_of_losses(reduction):
    """Of every kind and order."""
    targets = torch.arange(ROWS) % 3

    def loss(rows):
        return loss_of(rows, targets, ignore=2, reduction=reduction)

    rows = torch.randn(ROWS, 3, dtype=torch.float64, requires_grad=True)
    for _ in range(3):
        loss(rows).sum().backward()
    wanted, rows.grad = rows.grad / 3, None
    assert torch.autograd.gradcheck(loss, rows, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(loss, rows)
    torch.testing.assert_close(torch.func.grad(lambda x: loss(x).sum())(rows.detach()), wanted)
    y, pullback = sf.vjp(sf.cross_entropy, sf.Ragged(rows, LENGTHS), targets, ignore=2, reduction=reduction)
    dx = pullback(y.detach() if isinstance(y, torch.Tensor) else y._with_data(y.data.detach()))
    assert dx.data.requires_grad


@pytest.mark.parametrize("kind", [sf.Ragged, sf.Masked])
def test_targets_that_change_before_the_gradient(kind):
    """They are not looked at again, and so no class is beyond the scores."""
    rows = torch.randn(ROWS, 3, requires_grad=True)
    for _ in range(4):
        targets = torch.arange(ROWS) % 3
        x = sf.convert(sf.Ragged(rows, LENGTHS), kind)
        y = sf.cross_entropy(x, targets, reduction="mean")
        (wanted,) = torch.autograd.grad(y, rows, retain_graph=True)
        targets[:] = 1 << 40
        assert torch.equal(torch.autograd.grad(y, rows)[0], wanted)


def test_scores_that_change_before_the_gradient():
    rows = torch.randn(ROWS, 3, requires_grad=True)
    for _ in range(4):
        scores = rows * 1
        y = loss_of(scores, torch.arange(ROWS) % 3)
        with torch.no_grad():
            scores.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_graphs_of_losses_go():
    for _ in range(4):
        rows = torch.randn(ROWS, 3, requires_grad=True)
        y = loss_of(rows * 1, torch.arange(ROWS) % 3, reduction="none")
        y.sum().backward()
        gone = weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(rows)
        del rows, y
        assert [ref() for ref in gone] == [None] * 3


def test_pullbacks_of_what_is_in_a_graph_are_in_it():
    x = batch("float64")
    for _ in range(3):
        y, pullback = sf.vjp(sf.softmax, x)
        pullback(y)
    _, pullback = sf.vjp(sf.softmax, x._with_data(x.data.clone().requires_grad_()))
    assert pullback(y).data.requires_grad


@pytest.mark.filterwarnings("ignore")
def test_tangents():
    forward = torch.autograd.forward_ad
    x = batch()
    for _ in range(3):
        sf.reduce_sum(x)
    with forward.dual_level():
        dual = forward.make_dual(x.data, torch.ones_like(x.data))
        found = forward.unpack_dual(sf.reduce_sum(sf.Ragged(dual, LENGTHS)))
        assert torch.equal(found.tangent, sf.reduce_sum(sf.Ragged(torch.ones(ROWS, 2), LENGTHS)))


@pytest.mark.filterwarnings("ignore")
def test_fake_tensors():
    with fake():
        rows = torch.ones(ROWS, 2)
        for _ in range(3):
            assert "without memory" in outcome(lambda: sf.Ragged(rows, LENGTHS))


# --- what is left behind ----------------------------------------------------------------------------------------------


def test_results_are_tensors_of_their_own():
    x = batch()
    for _ in range(3):
        y = sf.convert(x, sf.Masked)
    assert type(y.data) is torch.Tensor
    assert y.data.is_leaf
    assert not y.data.requires_grad
    assert y.data.untyped_storage().nbytes() == y.data.nbytes
    y.data.add_(1)
    rows = y.data.requires_grad_()
    sf.reduce_sum(y).sum().backward()
    assert rows.grad.shape == rows.shape
    again = pickle.loads(pickle.dumps(sf.convert(x, sf.Masked)))
    assert torch.equal(again.data, copy.deepcopy(sf.convert(x, sf.Masked)).data)
    ref = weakref.ref(sf.convert(x, sf.Masked).data)
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("name", {**CALLS, **OF_NUMBERS})
def test_references(name):
    """Nothing is kept, and nothing is given back twice."""
    call, x = {**CALLS, **OF_NUMBERS}[name], batch()
    things = [x, x.data, x._structure, torch.float32, torch.int64, torch.Size, torch.Tensor, sf.Ragged, np.dtype("i8")]
    for _ in range(3):
        call(x)
    gc.collect()
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(3000):
        call(x)
    gc.collect()
    after = [sys.getrefcount(thing) for thing in things]
    assert [abs(new - old) < 9 for new, old in zip(after, before, strict=True)] == [True] * len(things), (before, after)


def test_memory():
    x = batch(item=(500,))
    calls = [lambda: sf.convert(x, sf.Masked), lambda: sf.reduce_sum(x), lambda: sf.sort(x), lambda: x[[1, 2]]]
    for call in calls * 100:
        call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for call in calls * 2000:
        call()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10  # of 100 MB and more that were made


def test_threads():
    x = batch(item=(40,))
    expected = [call(x) for call in (sf.reduce_sum, sf.reverse)]
    wrong = []

    def work():
        for _ in range(300):
            found = [call(x) for call in (sf.reduce_sum, sf.reverse)]
            wrong.extend(one for one, other in zip(found, expected, strict=True) if not same(one, other))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_list_of_tensors_is_one_of_its_library():
    """Whether it is still valid is asked of the fast path, which does not say whose its arrays are."""
    x = sf.List(items(batch()))
    for _ in range(3):
        assert x._look().name == "torch"
