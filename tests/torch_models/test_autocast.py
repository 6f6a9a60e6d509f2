"""Mixed precision: under `torch.autocast` what adds up gives float32, with gradients in the dtype of what is put in."""

import contextlib

import numpy as np
import pytest
from trained import FORMATS, LENGTHS, OPERATIONS, tensor_of

import seqformats as sf
from seqformats.operations.reduce import REDUCTIONS

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:.*torch.jit.script")]

HALVES = [torch.float16, torch.bfloat16]
WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 0.25, 3.0, 1.5])
TARGETS = torch.tensor([1, 0, -1, 0, 1, 1])
SUMS = {
    **{
        name: OPERATIONS[name]
        for name in (
            *(f"reduce_{name}" for name in ("sum", "mean", "sqrt", "prod", "norm", "logsumexp", "var", "std")),
            "var of a sample",
            "topk_mean",
            "softmax",
            "log_softmax",
            "cumsum",
            "cross_entropy",
            "reduce",
        )
    },
    "sum with empty": lambda x: sf.reduce_sum(x, empty=1e6),
    "weighted sum": lambda x: sf.reduce_sum(x, weights=WEIGHTS.to(x.dtype)),
    "weighted mean": lambda x: sf.reduce_mean(x, weights=sf.Ragged(WEIGHTS, LENGTHS)),
    "loss of items": lambda x: sf.cross_entropy(x, TARGETS, ignore=-1, label_smoothing=0.1, reduction="none"),
    "loss of all": lambda x: sf.cross_entropy(x, TARGETS, ignore=-1, reduction="mean"),
}
"""What adds up; all other operations keep the dtype."""
TWICE = [name for name in SUMS if name not in ("topk_mean",)]
half = pytest.mark.parametrize("dtype", HALVES, ids=str)
every_format = pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.__name__)
every_sum = pytest.mark.parametrize("name", SUMS)


def rows(dtype):
    return (0.1 + torch.rand(6, 2, generator=torch.Generator().manual_seed(3))).to(dtype).requires_grad_()


def batch(x, kind=sf.Ragged):
    return sf.convert(sf.Ragged(x, LENGTHS), kind)


def slopes(y):
    return torch.linspace(-1, 1, y.numel()).reshape(y.shape)


def same(x, y):
    assert x.dtype is y.dtype
    assert torch.equal(x, y)


@contextlib.contextmanager
def autocast_of(device):
    """As `torch.autocast(device)`, also for a device that is not here."""
    before = torch.is_autocast_enabled(device)
    torch.set_autocast_enabled(device, True)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, before)


def test_every_record_that_adds_up_is_here():
    assert {f"reduce_{name}" for name, record in REDUCTIONS.items() if record.sums} <= set(SUMS)


@pytest.mark.parametrize("mode", HALVES, ids=str)
@half
@every_format
@every_sum
def test_sums_are_those_of_float32(name, kind, dtype, mode):
    """Whatever the dtype that autocast has for products."""
    x, wide = rows(dtype), rows(dtype).detach().float().requires_grad_()
    with torch.autocast("cpu", mode):
        y = tensor_of(SUMS[name](batch(x, kind)))
        with torch.no_grad():
            same(tensor_of(SUMS[name](batch(x, kind))), y.detach())
    expected = tensor_of(SUMS[name](batch(wide, kind)))
    same(y.detach(), expected.detach())
    (dx,) = torch.autograd.grad(y, x, slopes(y))
    (expected_dx,) = torch.autograd.grad(expected, wide, slopes(expected))
    same(dx, expected_dx.to(dtype))


@half
@every_format
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in SUMS])
def test_all_else_is_as_without(name, kind, dtype):
    x = rows(dtype)
    expected = tensor_of(OPERATIONS[name](batch(x, kind)))
    with torch.autocast("cpu", dtype):
        y = tensor_of(OPERATIONS[name](batch(x, kind)))
    same(y.detach(), expected.detach())
    dx, expected_dx = (torch.autograd.grad(z, x, slopes(z).to(z.dtype))[0] for z in (y, expected))
    same(dx, expected_dx)


@half
@every_format
def test_wrappers_and_arithmetic_keep_the_dtype(kind, dtype):
    with torch.autocast("cpu", dtype):
        assert sf.with_padded(lambda p: p)(batch(rows(dtype), kind)).dtype is dtype


@half
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", TWICE)
def test_second_order(name, inside, dtype):
    """Also where the gradients are asked for under autocast."""
    x, wide = rows(dtype), rows(dtype).detach().float().requires_grad_()
    found = []
    for leaf in (x, wide):
        with torch.autocast("cpu", dtype):
            y = tensor_of(SUMS[name](batch(leaf)))
        with torch.autocast("cpu", dtype, enabled=inside):
            (dx,) = torch.autograd.grad(y, leaf, slopes(y), create_graph=True)
            if not dx.requires_grad:  # linear
                continue
            found += torch.autograd.grad(dx, leaf, slopes(dx).to(dtype).to(dx.dtype), allow_unused=True)
    if found and found[1] is not None:
        same(found[0], found[1].to(dtype))


@half
@every_format
@every_sum
def test_vjp(name, kind, dtype):
    x, wide = batch(rows(dtype).detach(), kind), batch(rows(dtype).detach().float(), kind)
    with torch.autocast("cpu", dtype):
        y, pullback = vjp_of(name, x)
    expected, other = vjp_of(name, wide)
    same(tensor_of(y), tensor_of(expected))
    dx, dw = (first(f(y)) for f in (pullback, other))
    assert type(dx) is type(x)
    assert dx.dtype is dtype
    same(tensor_of(dx), tensor_of(dw).to(dtype))


VJPS = {
    "var of a sample": (sf.reduce_var, {"ddof": 1}),
    "topk_mean": (sf.topk_mean, {"topks": [1, 2, 4]}),
    "cross_entropy": (sf.cross_entropy, {"targets": TARGETS, "ignore": -1}),
    "loss of items": (sf.cross_entropy, {"targets": TARGETS, "ignore": -1, "reduction": "none"}),
    "loss of all": (sf.cross_entropy, {"targets": TARGETS, "ignore": -1, "reduction": "mean"}),
    "sum with empty": (sf.reduce_sum, {"empty": 1e6}),
    "weighted sum": (sf.reduce_sum, {"weights": WEIGHTS}),
    "weighted mean": (sf.reduce_mean, {"weights": WEIGHTS}),
    "reduce": (sf.reduce, {"kind": "mean"}),
}


def vjp_of(name, x):
    function, options = VJPS.get(name) or (getattr(sf, name), {})
    return sf.vjp(function, x, **options)


def first(dx):
    return dx[0] if type(dx) is tuple else dx


@half
def test_bare_lists_of_tensors(dtype):
    x = [rows(dtype).detach()[:4], rows(dtype).detach()[4:]]
    with torch.autocast("cpu", dtype):
        for y in (sf.softmax(x), sf.cumsum(x)):
            assert [part.dtype for part in y] == [torch.float32] * 2
        assert sf.reduce_sum(x).dtype is torch.float32
        y, pullback = sf.vjp(sf.softmax, x)
        assert [part.dtype for part in pullback(y)] == [dtype] * 2


@half
def test_levels_and_chunks(dtype):
    x = sf.LoD(rows(dtype), [[0, 1, 4], [0, 3, 3, 4, 6]])
    with torch.autocast("cpu", dtype):
        y = sf.reduce_mean(x)
        assert (type(y), y.dtype) == (sf.LoD, torch.float32)
        assert type(sf.softmax(sf.chunk(x, 2))) is sf.Chunks
        assert sf.unchunk(sf.softmax(sf.chunk(batch(rows(dtype)), 2))).dtype is torch.float32


@half
@every_format
def test_no_sequences_and_no_width(kind, dtype):
    with torch.autocast("cpu", dtype):
        for x in (sf.Ragged(torch.zeros(0, 2, dtype=dtype), []), sf.Ragged(torch.zeros(3, 0, dtype=dtype), [2, 1])):
            given = sf.convert(x, kind)
            assert sf.reduce_sum(given).dtype is torch.float32
            y = sf.softmax(given)
            assert (type(y), y.dtype, y.item_shape) == (kind, torch.float32, x.item_shape)


def test_a_list_of_nothing():
    x = sf.List((), like=torch.zeros(5, 2, dtype=torch.float16))
    with torch.autocast("cpu"):
        assert sf.softmax(x).dtype is torch.float32
        assert tuple(sf.reduce_mean(x).shape) == (0, 2)
        assert sf.reduce_mean(x).dtype is torch.float32


@half
@every_sum
def test_where_it_is_off(name, dtype):
    x = batch(rows(dtype))
    f = sf.reduce_sum if name == "sum with empty" else SUMS[name]  # a million is too much for float16
    expected = tensor_of(f(x))
    assert expected.dtype is dtype
    with autocast_of("cuda"):
        same(tensor_of(f(x)), expected)
    with torch.autocast("cpu", dtype), torch.autocast("cpu", enabled=False):
        same(tensor_of(f(x)), expected)


@every_sum
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_other_dtypes_are_not_asked_about(name, dtype, monkeypatch):
    def asked(*_):
        raise AssertionError("autocast was asked for")

    x = batch(rows(dtype))
    monkeypatch.setattr(type(sf.formats.leaves.library_of(x.data)), "autocasts", asked)
    with torch.autocast("cpu"):
        assert tensor_of(SUMS[name](x)).dtype is dtype
        assert sf.reduce_sum(batch(torch.arange(12).reshape(6, 2))).dtype is torch.int64
        assert sf.reduce_sum(sf.Ragged(np.ones(6, np.float16), LENGTHS)).dtype == np.float16


@half
@pytest.mark.parametrize("name", ["reduce_sum", "softmax", "reduce_std", "cross_entropy", "weighted mean"])
def test_transformations(name, dtype):
    """Inside `torch.func` as outside."""
    x, wide = rows(dtype).detach(), rows(dtype).detach().float()

    def total(leaf):
        y = tensor_of(SUMS[name](batch(leaf)))
        assert y.dtype is torch.float32
        return (y * slopes(y)).sum()

    with torch.autocast("cpu", dtype):
        same(torch.func.grad(total)(x), torch.func.grad(total)(wide).to(dtype))
        torch.testing.assert_close(torch.func.vmap(total)(torch.stack([x, x + x]))[0], total(wide))
        tangent = torch.func.jvp(total, (x,), (torch.ones_like(x),))[1]
        torch.testing.assert_close(tangent, torch.func.jvp(total, (wide,), (torch.ones_like(wide),))[1])


@every_format
def test_a_list_may_be_mapped(kind):
    x = rows(torch.bfloat16).detach()
    with torch.autocast("cpu"):
        y = torch.func.vmap(lambda leaf: tensor_of(sf.reduce_sum(batch(leaf, kind))))(torch.stack([x, x]))
        same(y[0], sf.reduce_sum(batch(x.float())))


def test_a_training_step():
    """The weights keep their own precision, what autocast has made half is added up in full."""
    layer = torch.nn.Linear(2, 3)
    x = batch(torch.rand(6, 2), sf.Padded)
    with torch.autocast("cpu", torch.bfloat16):
        logits = sf.with_array(layer)(x)
        assert logits.dtype is torch.bfloat16
        loss = sf.cross_entropy(logits, TARGETS.clamp(0), reduction="mean")
    assert loss.dtype is torch.float32
    loss.backward()
    assert layer.weight.grad.dtype is torch.float32
    assert layer.weight.grad.abs().sum() > 0


@every_format
def test_data_that_is_resized_is_seen(kind):
    """What is cast has still been looked at."""
    x = batch(rows(torch.float16).detach(), kind)
    (x.items[0] if kind is sf.List else x.data).resize_(1, 2)
    with torch.autocast("cpu"), pytest.raises(sf.StructureError, match="build a new one"):
        sf.reduce_sum(x)
