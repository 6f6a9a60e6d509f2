"""Embedding bags beside PyTorch's own."""

import numpy as np
import pytest

import seqformats as sf
from seqformats import core
from seqformats.operations.bags import PATH

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.peers

LENGTHS = [3, 0, 1, 40, 2]
MODES = [("sum", False), ("sum", True), ("mean", False), ("max", False)]
OFFSETS = torch.from_numpy(np.cumsum([0, *LENGTHS]))


def drawn(dtype=torch.float64, rows=20, width=6):
    torch.manual_seed(0)
    table = torch.randn(rows, width, dtype=dtype, requires_grad=True)
    ids = torch.randint(0, rows, (sum(LENGTHS),))
    return table, ids, torch.rand(len(ids), dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("mode", "weighted"), MODES)
def test_values_and_gradients_are_those_of_pytorch(mode, weighted, dtype):
    table, ids, weights = drawn(dtype)
    weights = weights if weighted else None
    right = F.embedding_bag(ids, table, OFFSETS, mode=mode, include_last_offset=True, per_sample_weights=weights)
    found = sf.embedding_bag(table, sf.Ragged(ids, LENGTHS), weights, mode)
    torch.testing.assert_close(found, right)
    dy = torch.randn_like(right)
    given = [table, *([weights] if weighted else [])]
    for one, two in zip(*(torch.autograd.grad(y, given, dy) for y in (found, right)), strict=True):
        torch.testing.assert_close(one, two)
    with torch.no_grad():
        assert not sf.embedding_bag(table, sf.Ragged(ids, LENGTHS), weights, mode).requires_grad


@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded])
@pytest.mark.parametrize(("mode", "weighted"), [*MODES, ("mean", True)])
def test_to_the_second_order(mode, weighted, kind):
    table, ids, weights = drawn(rows=7, width=2)
    given = (table, weights) if weighted else (table,)

    def reduced(table, weights=None):
        return sf.embedding_bag(table, sf.convert(sf.Ragged(ids, LENGTHS), kind), weights, mode)

    for _ in range(2):  # the second time by the fast path
        reduced(*given).sum().backward()
    wanted = torch.func.grad(lambda *x: reduced(*x).sum())(*[x.detach() for x in given])
    torch.testing.assert_close(wanted * 2, table.grad)
    assert torch.autograd.gradcheck(reduced, given)
    assert torch.autograd.gradgradcheck(reduced, given)


@pytest.mark.parametrize("library", [torch.from_numpy, np.asarray])
def test_ids_that_change_before_the_gradient(library):
    table, ids, _ = drawn(torch.float32)
    for _ in range(3):
        given = library(ids.numpy().copy())
        y = sf.embedding_bag(table, sf.Ragged(given, LENGTHS))
        given[:] = 1 << 40
        slopes = torch.autograd.grad(y.sum(), table)[0]
        assert slopes.sum().item() == sum(LENGTHS) * table.shape[1]


def test_a_sparse_gradient():
    """It has a row for each different id, and the optimizer for such gradients takes it."""
    table, ids, _ = drawn(torch.float32, rows=1000)
    table = torch.nn.Parameter(table.detach())
    x = sf.Ragged(ids, LENGTHS)
    sf.embedding_bag(table, x, sparse=True).square().sum().backward()
    sparse, table.grad = table.grad, None
    assert sparse.is_sparse
    assert sparse.coalesce().indices().tolist() == [sorted(set(ids.tolist()))]
    sf.embedding_bag(table, x).square().sum().backward()
    torch.testing.assert_close(sparse.to_dense(), table.grad)
    table.grad = sparse
    before = table.detach().clone()
    torch.optim.SparseAdam([table]).step()
    assert (table != before).any(1).sum() == len(set(ids.tolist()))
    sf.embedding_bag(table, sf.Ragged(ids[:0], [0]), sparse=True).sum().backward()


def test_ids_of_numpy_and_half_precision():
    table, ids, _ = drawn(torch.float32)
    x = sf.Ragged(ids.numpy(), LENGTHS)
    right = sf.embedding_bag(table, sf.Ragged(ids, LENGTHS))
    torch.testing.assert_close(sf.embedding_bag(table, x), right)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("width", [1, 3, 4, 37, 130])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_that_of_float32_rounded_once(dtype, width, mode):
    """With NaN, infinity, and what becomes infinite."""
    table, ids, weights = drawn(torch.float32, width=width)
    table = torch.cat([table.detach(), torch.tensor([[torch.nan], [torch.inf], [6e4]]).expand(3, width)])
    x = sf.Ragged(torch.cat([ids, torch.tensor([20, 21, 22, 22])]), [*LENGTHS, 1, 1, 2])
    half = table.to(dtype).requires_grad_()
    whole = half.detach().float().requires_grad_()
    slopes = torch.arange(8 * width).reshape(8, width).to(dtype)
    for _ in range(3):
        found, right = sf.embedding_bag(half, x, mode=mode), sf.embedding_bag(whole, x, mode=mode)
        torch.testing.assert_close(found, right.to(dtype), rtol=0, atol=0, equal_nan=True)
        one, two = (
            torch.autograd.grad(y, t, g)[0] for y, t, g in ((found, half, slopes), (right, whole, slopes.float()))
        )
        torch.testing.assert_close(one, two.to(dtype), rtol=0, atol=0)
    mass = torch.cat([weights.detach(), torch.ones(4)]).to(dtype)
    found, right = (sf.embedding_bag(t.detach(), x, m, mode) for t, m in ((half, mass), (whole, mass.float())))
    torch.testing.assert_close(found, right.to(dtype), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_one_thread_does_large_results_on_the_fast_path(mode, monkeypatch):
    table = torch.rand(50, 60, generator=torch.Generator().manual_seed(0)).requires_grad_()
    bags = sf.Ragged(torch.arange(40_000) % 50, np.full(20_000, 2))
    wanted = torch.nn.functional.embedding_bag(bags.data.view(-1, 2), table, mode=mode)
    (slope,) = torch.autograd.grad(wanted.sum(), table)
    sf.set_num_threads(1)
    try:
        for _ in range(2):  # the first call tells the fast path of the code
            y = sf.embedding_bag(table, bags, mode=mode)
            torch.testing.assert_close(y, wanted)
            torch.testing.assert_close(torch.autograd.grad(y.sum(), table)[0], slope)
        assert y.nbytes > core.SHARED
        if core.extension is not None:
            assert torch.equal(PATH.enter(table.detach(), bags, None, mode), y)
    finally:
        sf.set_num_threads(None)
