"""Arithmetic of batches of tensors: gradients, what is transformed, compiled, mapped as a tree, and refused."""

import functools
import operator

import numpy as np
import oracle
import pytest

import seqformats as sf

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:.*torch.jit.script")]
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
LENGTHS = [2, 0, 3]
INF = float("inf")
FUNCTIONS = {
    "1 / x": lambda x: 1 / x,
    "log": torch.log,
    "x ** 0.5": lambda x: x**0.5,
    "x * y": lambda x: x * sf.convert(x, sf.Masked),
    "asin": lambda x: torch.asin(x / 9),
    "acosh": torch.acosh,
    "where": lambda x: torch.where(x > 2, x * x, 0.0),
    "sf.where": lambda x: sf.where(x > 2, 1 / x, x),
}


def data(width=()):
    return torch.arange(1.0, 6.0, dtype=torch.float64).reshape(5, *width)


@every_encoding
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(kind, name):
    """Those of the rows alone; padding has none, and no NaN, although it is zero before, and in the way."""
    rows, plain = data().requires_grad_(), data().requires_grad_()
    y = FUNCTIONS[name](sf.convert(sf.Ragged(rows, LENGTHS), kind))
    wanted = FUNCTIONS[name](sf.Ragged(plain, LENGTHS))
    assert type(y) is kind
    torch.testing.assert_close(sf.convert(y, sf.Ragged).data, wanted.data)
    sf.convert(y, sf.Masked).data.sum().backward()
    wanted.data.sum().backward()
    torch.testing.assert_close(rows.grad, plain.grad)
    if kind is sf.Masked:
        padded = torch.full((3, 4), float("nan"), dtype=torch.float64)
        padded[y.mask.nonzero(as_tuple=True)[0], y.mask.nonzero(as_tuple=True)[1]] = data()
        leaf = padded.requires_grad_()
        FUNCTIONS[name](sf.Masked(leaf, LENGTHS)).data.sum().backward()
        assert not leaf.grad[:, 3].any()
        torch.testing.assert_close(leaf.grad[[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]], plain.grad)


OF_ONE = ("abs", "atan", "erf", "expm1", "log1p", "round", "square", "tan", "tanh", "relu", "sin", "log", "log2")
OF_ONE += ("log10", "exp", "sigmoid", "sqrt", "rsqrt", "acos")
OF_TWO = ("add", "mul", "div", "pow", "maximum", "minimum", "atan2", "hypot", "fmod")
CASES = {
    **{name: getattr(torch, name) for name in OF_ONE},
    **{name: getattr(torch.nn.functional, name) for name in ("gelu", "silu", "softplus")},
    **{f"two, {name}": getattr(torch, name) for name in OF_TWO},
    "two dtypes": lambda x: (x.detach() * 9).astype(torch.int64) * x,
    "two dtypes, reversed": lambda x: x * x.astype(torch.float64),
    **{f"{c}, {name}": lambda x, c=c, name=name: getattr(operator, name)(x, c)
       for c in (-1.5, 0, 0.5, 2, INF) for name in ("add", "mul", "truediv", "mod", "pow")},
    **{f"{name} {c}": lambda x, c=c, name=name: getattr(operator, name)(c, x)
       for c in (-1.5, 0, 0.5, 2, INF) for name in ("sub", "mul", "truediv", "pow")},
    "clamp": lambda x: torch.clamp(x, 0.2, 0.4),
    "clamp by names": lambda x: torch.clamp(x, min=0.2, max=0.4),
    "array": lambda x: x * torch.tensor(INF),
    "two, where": lambda x, y: torch.where(x > y, x, 3.0),
}  # fmt: skip


def backward(y, leaves):
    return torch.autograd.grad(y.data.abs().sum(), leaves, allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("name", CASES)
def test_what_padding_holds(name):
    """No result and no gradient knows of it, whichever way a call takes: once it is found, and from then on."""
    rows = torch.tensor([0.1, 0.3, 0.25, 0.5, 0.75])
    for kind, side in ((sf.Masked, {"side": "left"}), (sf.Masked, {}), (sf.Padded, {})):
        like = sf.convert(sf.Ragged(rows, LENGTHS), kind, width=4, **side)
        gaps = (like._with_data(torch.ones(like.data.shape)) == 1).data.logical_not()
        operands = 2 if "two, " in name else 1
        plain = [torch.cat([row]).requires_grad_() for row in (rows, rows.flip(0))[:operands]]
        wanted = CASES[name](*[sf.Ragged(row, LENGTHS) for row in plain])
        slopes = backward(wanted, plain) if wanted.data.requires_grad else None
        for junk in (INF, -INF, 0.0, -3.0, float("nan")) * 2:
            given = [sf.convert_like(sf.Ragged(row.detach(), LENGTHS), like).data for row in plain]
            leaves = [x.masked_fill(gaps, junk).requires_grad_() for x in given]
            for keep in (False, True):
                with torch.set_grad_enabled(keep):
                    y = CASES[name](*[like._with_data(leaf) for leaf in leaves])
                assert not y.data[gaps].any()
                torch.testing.assert_close(sf.convert(y, sf.Ragged).data, wanted.data, equal_nan=True)
            if slopes is not None:
                for found, slope in zip(backward(y, leaves), slopes, strict=True):
                    assert not found[gaps].any()
                    found = sf.convert(like._with_data(found), sf.Ragged).data
                    torch.testing.assert_close(found, slope, equal_nan=True)


@every_encoding
def test_large_batches(kind):
    """By conversions, where small ones go by numbers of rows."""
    rows = torch.ones(40_000, 2, dtype=torch.float64, requires_grad=True)
    (sf.convert(sf.Ragged(rows, [30_000, 0, 10_000]), kind) ** 2)._leaves()[0].sum().backward()
    assert rows.grad[:10_000].eq(2).all()


@every_encoding
def test_transformed(kind):
    def total(rows):
        return sf.reduce_sum(1 / (1 + sf.convert(sf.Ragged(rows, LENGTHS), kind))).sum()

    torch.testing.assert_close(torch.func.grad(total)(data()), -((1 + data()) ** -2))
    torch.testing.assert_close(torch.func.hessian(total)(data()), torch.diag(2 * (1 + data()) ** -3))
    both = torch.stack([data(), 2 * data()])
    mapped = torch.func.vmap(lambda rows: sf.convert(sf.Ragged(rows, LENGTHS), kind) * 2 + 1)(both)
    torch.testing.assert_close(
        mapped._leaves()[0][1], (sf.convert(sf.Ragged(both[1], LENGTHS), kind) * 2 + 1)._leaves()[0]
    )
    assert torch.func.jvp(total, (data(),), (data(),))[1] < 0
    assert torch.autograd.gradcheck(total, (data().requires_grad_(),))


def test_compiled_mapped_and_kept():
    """Compilers, trees and caches ask for identity alone."""
    x, y = (sf.Ragged(data(), lengths) for lengths in (LENGTHS, [1, 4]))

    @functools.partial(torch.compile, backend="eager")
    def chosen(a, b):
        return (a.data * 2).sum() if a is b else a.data.sum()

    assert [float(chosen(*pair)) for pair in ((x, x), (x, y))] == [30, 15]
    compiled = torch.compile(lambda x: sf.reduce_sum(torch.exp(x * 2) - 1), backend="eager")
    torch.testing.assert_close(compiled(x), sf.reduce_sum(torch.exp(x * 2) - 1))
    doubled = torch.utils._pytree.tree_map(lambda leaf: leaf * 2, {"a": [x, 1]})
    assert (sf.equal(doubled["a"][0], x * 2), doubled["a"][1]) == (True, 2)
    assert torch.utils._pytree.tree_structure([x]) == torch.utils._pytree.tree_structure([x > 2])
    assert functools.lru_cache(lambda x: x.rows)(y > 1) == 5
    assert sf.with_padded(lambda p: torch.nn.ReLU()(p - 2))(x).data.tolist() == [0, 0, 1, 2, 3]


x, wide = sf.Ragged(data(), LENGTHS), sf.Ragged(data().expand(3, 5).T, LENGTHS)
REFUSED = {
    "mean": (lambda: torch.mean(x), "torch.mean .*sf.reduce_mean.*x.data"),
    "cat": (lambda: torch.cat([x, x]), "sf.concat"),
    "softmax": (lambda: torch.nn.functional.softmax(x, -1), "sf.softmax"),
    "equal": (lambda: torch.equal(x, x), "sf.equal"),
    "a layer": (lambda: torch.nn.LayerNorm(3)(wide), "layer_norm .*sf.with_array"),
    "a loss": (lambda: torch.nn.functional.cross_entropy(wide, wide), "sf.cross_entropy is for sequences"),
    "a norm": (lambda: torch.nn.functional.normalize(wide), "does not know; x.data"),
    "in place": (lambda: data().add_(x), "torch.Tensor.add_ "),
    "inplace=": (lambda: torch.nn.ReLU(inplace=True)(x), "takes no inplace="),
    "out=": (lambda: torch.exp(x, out=data()), "takes no out="),
    "another library": (lambda: x + sf.to(x, "numpy"), 'sf.to\\(x, "torch"\\)'),
    "an array of another": (lambda: wide * data().numpy()[:3], 'sf.to\\(x, "torch"\\)'),
    "NumPy's clip": (lambda: np.clip(x, 0, 1), "of items of torch"),
    "dtype": (lambda: x & x, "no and of items"),
    "minus of bools": (lambda: -(x > 1), "no neg of items"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, words = REFUSED[what]
    with pytest.raises((TypeError, AttributeError), match=words):
        call()


@every_encoding
def test_parts_of_complex_numbers(kind):
    """They are views of tensors, which operations do not take."""
    x = sf.Ragged(torch.arange(5) * (1 + 2j), [2, 0, 3])
    x = sf.nest(x, [1, 2]) if kind is sf.LoD else sf.convert(x, kind)
    for function, wanted in ((torch.real, [0, 1, 2, 5, 9]), (torch.imag, [0, 2, 4, 10, 18])):
        assert sf.convert(sf.cumsum(function(x)), sf.Ragged).data.tolist() == wanted


def test_tensors_on_the_left():
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert sf.equal(weights * wide, wide * weights)
    assert sf.equal(torch.tensor(2.0) - x, 2 - x)
    assert sf.equal(weights.reshape(1, 3) @ wide, wide @ weights.reshape(3, 1))
    assert (torch.tensor(2.0) < x).dtype is torch.bool
