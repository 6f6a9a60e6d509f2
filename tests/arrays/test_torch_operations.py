"""PyTorch: every operation on tensors, first and second derivatives through autograd, the same results as its own."""

import numpy as np
import pytest
from trained import FORMATS, LENGTHS, OPERATIONS, REDUCTIONS, tensor_of

import seqformats as sf
from seqformats import registry

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.peers

every_operation = pytest.mark.parametrize("name", OPERATIONS)
every_format = pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.__name__)


def function_of(name, kind):
    """The operation as a function from rows to rows."""

    def function(rows):
        return tensor_of(OPERATIONS[name](sf.convert(sf.Ragged(rows, LENGTHS), kind)))

    return function


def rows(seed=0):
    return torch.rand(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_no_operation_with_a_gradient_is_missing():
    """By the registry: whoever adds one adds it to the table, too."""
    named = {name for f in OPERATIONS.values() for name in (f.__name__, *f.__code__.co_names)}
    own = {f.__name__ for f in registry.gradients() if f.__module__.startswith("seqformats.")}
    # every test converts; tokens have no gradient that anybody asks for, and `split_at` is `split` at them
    elsewhere = {"convert", "split_at", "ctc_loss", "linear_cross_entropy"}  # ctc/test_ctc_peers, test_attention_glue
    elsewhere |= {"embedding_bag", "maxsim", "pairwise_dot"}  # test_embedding_bags
    elsewhere |= {"bincount", "diff", "ffill", "where", "window_by"}  # test_events, test_arithmetic_in_torch
    elsewhere |= {name for name in own if hasattr(sf.rl, name)} | {
        "recurrence",
        "ema",
        "standardize",
    }  # test_rl_in_torch
    assert own - named <= elsewhere


@every_format
@every_operation
def test_first_derivatives(name, kind):
    assert torch.autograd.gradcheck(function_of(name, kind), rows())


@every_format
@every_operation
def test_second_derivatives(name, kind):
    assert torch.autograd.gradgradcheck(function_of(name, kind), rows())


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean"])
@every_format
def test_weights_learn(kind, name, own):
    """Given in an encoding, and as a tensor beside it."""
    weights = (rows(1) if own else torch.rand(6, dtype=torch.float64)).detach().requires_grad_()

    def function(x, weights):
        return REDUCTIONS[name](sf.convert(sf.Ragged(x, LENGTHS), kind), weights=weights)

    assert torch.autograd.gradcheck(function, (rows(), weights))
    assert torch.autograd.gradgradcheck(function, (rows(), weights))
    encoded = lambda x, w: function(x, sf.convert(sf.Ragged(w, LENGTHS), kind))  # noqa: E731
    assert torch.autograd.gradcheck(encoded, (rows(), weights))
    half = function(rows().half(), weights.half())
    assert half.dtype == torch.float16
    half.sum().backward()
    assert weights.grad.isfinite().all()


@pytest.mark.parametrize("values", [[1.0, 3.0, 2.0, 2.0], [5.0, 5.0, 5.0], [4.0, 1.0]], ids=str)
@pytest.mark.parametrize("level", [0.0, 0.3, 0.5, 1.0])
def test_quantiles_and_their_gradients_are_torch_s(values, level):
    mine, theirs = (torch.tensor(values, dtype=torch.float64, requires_grad=True) for _ in range(2))
    y, wanted = sf.reduce_quantile(sf.Ragged(mine, [len(values)]), level)[0], theirs.quantile(level)
    assert torch.allclose(y, wanted)
    y.backward()
    wanted.backward()
    assert mine.grad.sum() == theirs.grad.sum() == 1
    assert torch.allclose((mine.grad * mine).sum(), (theirs.grad * theirs).sum())  # of equal items any


@pytest.mark.parametrize("name", ["any", "all", "count", "nunique"])
def test_counts_are_in_no_graph(name):
    found = getattr(sf, f"reduce_{name}")(sf.Ragged(rows(), LENGTHS))
    assert not found.requires_grad
    assert found.dtype == (torch.bool if name in ("any", "all") else torch.int64)


def test_the_weight_of_a_convolution_learns():
    x, weight = rows(), torch.rand(6, 3, dtype=torch.float64, requires_grad=True)

    def function(x, weight):
        return sf.conv(sf.Ragged(x, LENGTHS), weight, 1, 1).data

    assert torch.autograd.gradcheck(function, (x, weight))
    assert torch.autograd.gradgradcheck(function, (x, weight))


def test_scatter_learns():
    index = sf.Ragged(torch.tensor([0, 2, 2, 1, 0, 1]), LENGTHS)
    base = torch.rand(4, 3, 2, dtype=torch.float64, requires_grad=True)

    def function(base, updates):
        return sf.scatter(base, index, sf.Ragged(updates, LENGTHS))

    assert torch.autograd.gradcheck(function, (base, rows()))
    assert torch.autograd.gradgradcheck(function, (base, rows()))


def test_rows_of_an_array_learn():
    for function in (
        lambda x: sf.expand(x, sf.Ragged(np.zeros(5), [2, 0, 1, 1, 1, 0])),
        lambda x: sf.repeat(x, [2, 0, 1, 1, 1, 0]),
        lambda x: sf.reorder(x, [5, 4, 3, 0, 1, 2]),
        lambda x: sf.shrink(x, sf.Ragged(np.zeros(3), [2, 1]), 0),
        lambda x: sf.expand_as(x, sf.Ragged(np.zeros(9), [2, 0, 1, 3, 2, 1])).data,
    ):
        assert torch.autograd.gradcheck(function, rows())
        assert torch.autograd.gradgradcheck(function, rows())


@pytest.mark.parametrize("lengths", [[3, 1, 2], [6], [1] * 6], ids=str)
def test_reductions_and_softmax_are_torch_s_on_each_sequence(lengths):
    data = torch.randn(6, 3, dtype=torch.float64)
    x = sf.Ragged(data, lengths)
    parts = data.split(lengths)
    for mine, theirs in (
        (sf.reduce_sum(x), lambda p: p.sum(0)),
        (sf.reduce_mean(x), lambda p: p.mean(0)),
        (sf.reduce_prod(x), lambda p: p.prod(0)),
        (sf.reduce_max(x), lambda p: p.max(0).values),
        (sf.reduce_min(x), lambda p: p.min(0).values),
        (sf.reduce_logsumexp(x), lambda p: p.logsumexp(0)),
        (sf.argmax(x), lambda p: p.argmax(0)),
        (sf.reduce_var(x), lambda p: p.var(0, correction=0)),
        (sf.reduce_std(x), lambda p: p.std(0, correction=0)),
        (sf.reduce_median(x), lambda p: p.quantile(0.5, 0)),
        (sf.reduce_quantile(x, 0.3, interpolation="nearest"), lambda p: p.quantile(0.3, 0, interpolation="nearest")),
        (sf.reduce_mode(x), lambda p: p.mode(0).values),
        (sf.reduce_count(x), lambda p: (p != 0).sum(0)),
    ):
        assert torch.allclose(mine, torch.stack([theirs(p) for p in parts]))
    for mine, theirs in (
        (sf.softmax(x), lambda p: p.softmax(0)),
        (sf.log_softmax(x), lambda p: p.log_softmax(0)),
        (sf.cumsum(x), lambda p: p.cumsum(0)),
        (sf.reverse(x), lambda p: p.flip(0)),
    ):
        assert torch.allclose(mine.data, torch.cat([theirs(p) for p in parts]))


def test_a_convolution_is_torch_s():
    data, weight = torch.rand(7, 4), torch.rand(12, 5)
    mine = sf.conv(sf.Ragged(data, [7]), weight, 1, 1).data
    theirs = torch.nn.functional.conv1d(data.T[None], weight.reshape(3, 4, 5).permute(2, 1, 0), padding=1)[0].T
    assert torch.allclose(mine, theirs, atol=1e-5)


def test_a_buffer_takes_the_result_and_no_gradient():
    x, out = torch.rand(2, 3), torch.empty(9, 3)
    y = sf.expand(x, sf.Ragged(np.zeros(4), [1, 3]), out=out)
    assert y.data_ptr() == out.data_ptr()
    assert torch.equal(y, x[[0, 1, 1, 1]])
    with pytest.raises(TypeError, match="no gradient"):
        sf.expand(x.requires_grad_(), sf.Ragged(np.zeros(4), [1, 3]), out=out)


def test_operands_of_another_library():
    x = sf.Ragged(torch.rand(2, 3), [1, 1])
    with pytest.raises(sf.DeviceError, match="numpy"):
        sf.concat([x, sf.Ragged(np.zeros((2, 3), np.float32), [1, 1])])
    with pytest.raises(sf.DeviceError, match="weight"):
        sf.conv(x, np.zeros((3, 1), np.float32), 0, 0)
    with pytest.raises(TypeError, match="out must be an array of torch"):
        sf.repeat(x, 2, out=np.zeros((4, 3), np.float32))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.__name__)
def test_second_gradients_of_a_product_are_right_or_there_are_none(kind, dtype):
    data = (torch.rand(6, 2, dtype=dtype) + 0.5).requires_grad_()

    def product(data):
        return sf.reduce_prod(sf.convert(sf.Ragged(data, LENGTHS), kind))

    assert torch.autograd.gradgradcheck(product, (data,))
    with torch.no_grad():
        data[2] = 0
    slopes = torch.ones(4, 2, dtype=dtype)
    assert torch.autograd.grad(product(data), data, slopes)[0].isfinite().all()
    with pytest.raises(sf.ConversionError, match="zero among its items has a first gradient, but no second"):
        torch.autograd.grad(product(data), data, slopes, create_graph=True)


@pytest.mark.parametrize("operation", [sf.reduce_logsumexp, sf.softmax, sf.log_softmax], ids=lambda f: f.__name__)
def test_what_was_changed_since_is_noticed(operation):
    data = rows()
    y = tensor_of(operation(sf.Ragged(data * 1, LENGTHS)))
    with torch.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("operation", [lambda x: sf.convert(x, sf.Masked), sf.reverse, lambda x: sf.window(x, 1, 0)])
def test_results_may_be_changed_in_place(operation):
    """Where the gradient does not need them."""
    data = rows()
    y = operation(sf.Ragged(data, LENGTHS)).data
    y.mul_(2)
    y.sum().backward()
    assert data.grad.min() >= 2


def test_a_weight_that_was_changed_since_is_noticed():
    weight = torch.nn.Parameter(torch.ones(2, 1, dtype=torch.float64))
    y = sf.conv(sf.Ragged(rows(), LENGTHS), weight, 0, 0).data
    with torch.no_grad():
        weight.mul_(100)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("kind", [sf.Padded, sf.Masked], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("operation", [sf.reduce_logsumexp, sf.softmax, sf.log_softmax], ids=lambda f: f.__name__)
def test_gradients_are_the_same_on_the_way_to_second_ones(operation, kind):
    x = sf.convert(sf.Ragged(rows().detach(), [3, 1, 2]), kind, fill=1e9, width=4)
    found = []
    for again in (False, True):
        data = x.data.clone().requires_grad_()
        data.data[0, 0] = -torch.inf
        y = tensor_of(operation(rebuilt(x, data)))
        (slopes,) = torch.autograd.grad(y[torch.isfinite(y)].sum(), data, create_graph=again)
        found.append(slopes.detach())
    assert torch.allclose(*found, equal_nan=True)
    assert not sf.convert(rebuilt(x, found[1]), kind, fill=0).data.ne(found[1]).any()


def rebuilt(x, data):
    if isinstance(x, sf.Masked):
        return sf.Masked(data, x.lengths, x.side)
    return sf.Padded(data, x.size_at_t, x.lengths, x.indices)


def test_logsumexp_of_minus_infinity_has_no_slope():
    for again in (False, True):
        data = torch.full((2,), -torch.inf, dtype=torch.float64, requires_grad=True)
        y = sf.reduce_logsumexp(sf.Ragged(data, [2]))
        (slopes,) = torch.autograd.grad(y, data, torch.ones(1, dtype=torch.float64), create_graph=again)
        assert slopes.tolist() == [0, 0]


@pytest.mark.parametrize("size", [0.0, 1e5, 1e8])
def test_logsumexp_of_large_items_to_the_second_order(size):
    """The gradient is the softmax, and its own gradient that of softmax: of float32 too, whose result is rounded."""
    beside = torch.tensor([0.0, 0.0, 64.0, 0.0, 0.0]) if size else torch.arange(5.0)
    data, slopes = (size + beside).requires_grad_(), torch.tensor([0.5, 2.0])
    y = sf.reduce_logsumexp(sf.Ragged(data, [2, 3]))
    (dx,) = torch.autograd.grad(y, data, slopes, create_graph=True)
    (again,) = torch.autograd.grad(dx, data, torch.arange(5.0))
    parts = (size + beside).requires_grad_()
    shares = torch.cat([part.softmax(0) * slope for part, slope in zip(parts.split([2, 3]), slopes, strict=True)])
    assert torch.allclose(dx, shares, rtol=1e-5)
    (right,) = torch.autograd.grad(shares, parts, torch.arange(5.0))
    assert torch.allclose(again, right, rtol=1e-5, atol=1e-6)


def test_vjp_is_connected_to_the_graph():
    data = rows()
    for operation, *args in (
        (sf.convert, sf.Masked),
        (sf.convert, sf.List),
        (sf.reverse,),
        (sf.softmax,),
        (sf.reduce_mean,),
        (sf.reduce_logsumexp,),
    ):
        y, pullback = sf.vjp(operation, sf.Ragged(data, LENGTHS), *args)
        assert tensor_of(y).requires_grad
        slopes = y if isinstance(y, sf.List) else torch.ones_like(tensor_of(y)).requires_grad_()
        assert tensor_of(pullback(slopes)).requires_grad


def test_a_gradient_of_another_library():
    _, pullback = sf.vjp(sf.reduce_sum, sf.Ragged(torch.rand(3), [2, 1]))
    with pytest.raises(sf.DeviceError, match="of numpy"):
        pullback(np.ones(2, np.float32))


def test_beams():
    scores = sf.LoD(torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16), [[0, 1], [0, 1]])
    first = sf.LoD(torch.tensor([7]), scores.lod)
    step = sf.beam_step(first, torch.zeros(1, dtype=torch.bfloat16), None, scores, beam_size=2, end=1)
    assert (step.scores.dtype, step.ids.to_nested()) == (torch.bfloat16, [[[0, 1]]])
    start = sf.LoD(torch.zeros(1, dtype=torch.bfloat16), scores.lod)
    found = sf.beam_backtrace([first, step.ids], [start, step.scores], beam_size=2, end=1)
    assert found.ids.to_nested() == [[[7, 0], [7, 1]]]
    assert found.scores.to_nested() == [[[0, 0.5], [0, 0.25]]]
    live = sf.LoD(torch.rand(1, 2, requires_grad=True), scores.lod)
    with pytest.raises(TypeError, match="no gradient"):
        sf.beam_step(first, torch.zeros(1), None, live, beam_size=2, end=1)
    with torch.no_grad():
        assert sf.beam_step(first, torch.zeros(1), None, live, beam_size=1, end=1).parents.tolist() == [0]


def test_a_buffer_that_was_needed_is_noticed():
    weight, buffer = torch.ones(3, requires_grad=True), torch.ones(3)
    total = (weight * buffer).sum()
    sf.repeat(torch.rand(3), 1, out=buffer)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_indexing_learns():
    data = rows()
    for kind in FORMATS:
        x = sf.convert(sf.Ragged(data, LENGTHS), kind)
        for index in ([2, 0, 0], slice(1, 3), [True, False, True, True]):
            assert torch.autograd.gradcheck(
                lambda part, kind=kind, index=index: tensor_of(sf.convert(sf.Ragged(part, LENGTHS), kind)[index]), data
            )
        assert tensor_of(x[1:]).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("empty", [2**63, -(2**65), np.uint64(2**63), True], ids=repr)
def test_whole_numbers_beyond_int64_for_empty_sequences(dtype, empty):
    x = sf.Ragged(torch.ones(2, dtype=dtype), [2, 0])
    assert sf.reduce_max(x, empty=empty).tolist() == [1.0, float(empty)]
