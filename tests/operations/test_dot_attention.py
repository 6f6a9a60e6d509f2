"""Attention, beside plain NumPy, finite differences and PyTorch."""

import itertools

import attention_oracle
import numpy as np
import oracle
import pytest
import strategies
from checks import assert_padding_is_zero, assert_slopes, rows, with_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from passes import INTERPRETED

import seqformats as sf
from seqformats.operations import attention_call

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
KINDS = [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked]
# Numbers in the simulator, and Python's, warn of what has no end, where compiled code goes on.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
WIDTHS = [1, 3, 8, 17] if INTERPRETED else [1, 3, 8, 64, 65, 128]
LONG = [0, 1, 3, 9] if INTERPRETED else [0, 1, 2, 7, 8, 15, 16, 17, 33, 130]


def numbers(rng, lengths, item, dtype="f8"):
    """A batch of random items."""
    return sf.Ragged(rng.normal(size=(sum(lengths), *item)).astype(dtype), lengths)


def three(seed, lengths, others, heads, groups, deep, wide, dtype="f8"):
    """Queries, keys and values."""
    rng = np.random.default_rng(seed)
    items = (heads, deep), (groups, deep), (groups, wide)
    return [numbers(rng, each, item, dtype) for each, item in zip((lengths, others, others), items, strict=True)]


def sequences(x, item):
    """The sequences of a batch as arrays of float64."""
    data, at = np.asarray(sf.convert(x, sf.Ragged).data).astype(np.float64), sf.lengths(x).tolist()
    ends = oracle.offsets_of(at)
    data = data.reshape(sum(at), *item)
    return [data[a:b] for a, b in itertools.pairwise(ends)]


def wanted(q, k, v, **options):
    """The truth, all rows one after the other."""
    items = [x.item_shape if len(x.item_shape) == 2 else (1, *x.item_shape) for x in (q, k, v)]
    parts = [sequences(x, item) for x, item in zip((q, k, v), items, strict=True)]
    found = [attention_oracle.attention(*each, **options) for each in zip(*parts, strict=True)]
    return np.concatenate(found) if found else np.zeros((0, items[0][0], items[2][1]))


def wanted_gradients(q, k, v, dy, **options):
    parts = [sequences(x, x.item_shape) for x in (q, k, v, dy)]
    found = [attention_oracle.gradients(*each, **options) for each in zip(*parts, strict=True)]
    return [np.concatenate(each) for each in zip(*found, strict=True)]


@st.composite
def structures(draw):
    """The lengths of queries and of keys."""
    lengths = draw(st.lists(st.sampled_from(LONG), max_size=4))
    others = draw(st.one_of(st.just(lengths), st.tuples(*[st.sampled_from(LONG) for _ in lengths]).map(list)))
    return lengths, others


@st.composite
def limits(draw):
    """Which keys are seen."""
    sides = st.sampled_from([None, -1, 0, 1, 5, 40])
    window = draw(st.one_of(st.none(), st.sampled_from([0, 3, 20]), st.tuples(sides, sides)))
    return {"causal": draw(st.booleans()), "window": window}


CLOSE = {"f8": 1e-12, "f4": 2e-5, "f2": 4e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f4", "f2", "bfloat16"])
@given(data=st.data())
def test_beside_the_oracle(arrays, dtype, data):
    dtype = strategies.BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    if dtype not in arrays.of([dtype]):
        return
    lengths, others = data.draw(structures())
    groups, share = data.draw(st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 2)]))
    deep, wide = data.draw(st.sampled_from(WIDTHS)), data.draw(st.sampled_from(WIDTHS))
    options = data.draw(limits()) | {"scale": data.draw(st.sampled_from([None, 0.5, -1.0]))}
    given_ = three(data.draw(st.integers(0, 99)), lengths, others, groups * share, groups, deep, wide, dtype)
    truth = wanted(*given_, **options)
    q, k, v = (sf.convert(x, data.draw(st.sampled_from(KINDS))) for x in given_)
    y = arrays.on(lambda q, kv: sf.attention(q, *kv, **options))(q, [k, v])
    assert type(y) is type(q)
    assert sf.lengths(y).tolist() == lengths
    assert y.dtype == dtype.newbyteorder("=")
    assert y.item_shape == (groups * share, wide)
    assert_padding_is_zero(y)
    name = "bfloat16" if dtype == strategies.BFLOAT16 else dtype.str[1:]
    np.testing.assert_allclose(rows(y).astype(float), truth, rtol=CLOSE[name], atol=CLOSE[name])


@settings(max_examples=20 if INTERPRETED else 60)
@pytest.mark.parametrize("dtype", ["f8", "f4", "bfloat16"])
@given(data=st.data())
def test_its_gradients(arrays, dtype, data):
    dtype = strategies.BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    if dtype not in arrays.of([dtype]):
        return
    lengths, others = data.draw(structures().filter(lambda both: both[0]))
    groups, share = data.draw(st.sampled_from([(1, 1), (1, 3), (2, 2)]))
    deep, wide = data.draw(st.sampled_from(WIDTHS)), data.draw(st.sampled_from(WIDTHS))
    options = data.draw(limits())
    given_ = three(data.draw(st.integers(0, 99)), lengths, others, groups * share, groups, deep, wide, dtype)
    kinds = [data.draw(st.sampled_from(KINDS)) for _ in given_]
    q, k, v = (sf.convert(x, kind) for x, kind in zip(given_, kinds, strict=True))
    _, pullback = sf.vjp(sf.attention, *[arrays.up(x) for x in (q, k, v)], **options)
    dy = numbers(np.random.default_rng(5), lengths, (groups * share, wide), dtype)
    found = [arrays.down(d) for d in pullback(arrays.up(sf.convert(dy, kinds[0])))]
    name = "bfloat16" if dtype == strategies.BFLOAT16 else dtype.str[1:]
    for d, x, truth in zip(found, (q, k, v), wanted_gradients(*given_, dy, **options), strict=True):
        assert type(d) is type(x)
        assert d.dtype == dtype
        assert_padding_is_zero(d)
        close = {"f8": 1e-11, "f4": 2e-4, "bfloat16": 6e-2}[name] * max(1, np.abs(truth).max(initial=0))
        np.testing.assert_allclose(rows(d).astype(float), truth, rtol=close, atol=close)


@every_encoding
def test_levels_and_one_head(arrays, kind):
    """Items of one axis are one head; a `LoD` keeps its levels."""
    q, k, v = (with_rows(x, rows(x)[:, 0]) for x in three(1, [2, 0, 3], [3, 1, 0], 1, 1, 3, 2))
    x = sf.LoD(q.data, [[0, 1, 3], [0, 2, 2, 5]]) if kind is sf.LoD else sf.convert(q, kind)
    y = arrays.on(lambda q, kv: sf.attention(q, *kv))(x, [k, v])
    assert type(y) is kind
    assert y.item_shape == (2,)
    assert oracle.read(y).counts() == oracle.read(x).counts()
    np.testing.assert_allclose(rows(y), wanted(q, k, v)[:, 0], rtol=1e-12)


def test_bare_lists():
    """What comes as lists of arrays goes back as such, and so do gradients."""
    q, k, v = three(2, [2, 3], [1, 4], 2, 1, 3, 2)
    items = [[*sf.convert(x, sf.List).items] for x in (q, k, v)]
    y, pullback = sf.vjp(sf.attention, *items)
    assert isinstance(y, list)
    np.testing.assert_allclose(np.concatenate(y), wanted(q, k, v), rtol=1e-12)
    for d, x in zip(pullback(y), items, strict=True):
        assert isinstance(d, list)
        assert [part.shape for part in d] == [part.shape for part in x]


@given(seed=st.integers(0, 99), options=limits())
@pytest.mark.parametrize("lengths", [([2, 0, 3], [2, 0, 3]), ([1, 4], [3, 2])])
def test_finite_differences(lengths, options, seed):
    given_ = three(seed, *lengths, 2, 1, 3, 2)
    assert_slopes(lambda *x: sf.vjp(sf.attention, *x, scale=0.03, **options), given_, 1e-4)


def test_widths_of_nothing(arrays):
    """Without numbers in keys all weights are equal; without numbers in values there is nothing to weigh."""
    q, k, v = three(3, [2, 1], [3, 0], 2, 2, 0, 4)
    y = arrays.on(lambda q, kv: sf.attention(q, *kv))(q, [k, v])
    mean = v.data.mean(0)
    np.testing.assert_allclose(y.data, [mean, mean, 0 * mean], rtol=1e-12)
    for lengths, others, heads, wide in (([2, 1], [3, 0], 2, 0), ([2, 1], [3, 0], 0, 4), ([], [], 2, 4)):
        operands = three(3, lengths, others, heads, heads, 3, wide)
        y, pullback = sf.vjp(sf.attention, *[arrays.up(x) for x in operands])
        assert y.data.shape == (sum(lengths), heads, wide)
        for d, x in zip(pullback(y), operands, strict=True):
            d = arrays.down(d)
            assert d.data.shape == x.data.shape
            assert not d.data.any()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_large_scores(dtype):
    """Scores of 1e4 are no infinity, and of their differences nothing is lost."""
    q = sf.Ragged(np.full((3, 1, 1), 100, dtype), [3])
    k = sf.Ragged(np.array([100, 100, -100], dtype).reshape(3, 1, 1), [3])
    v = sf.Ragged(np.array([1, 3, 7], dtype).reshape(3, 1, 1), [3])
    y, pullback = sf.vjp(sf.attention, q, k, v)
    np.testing.assert_array_equal(y.data.ravel(), [2, 2, 2])
    dq, dk, dv = pullback(q)
    assert not dq.data.any()
    np.testing.assert_array_equal(dv.data.ravel(), [150, 150, 0])
    np.testing.assert_array_equal(dk.data.ravel(), [-15000, 15000, 0])


def test_what_is_no_number(arrays):
    """What softmax gives: NaN of NaN and of +inf; -inf has no weight, and where all are -inf the row is zero."""
    q, k, v = three(4, [1, 2, 1, 2, 2], [2, 2, 2, 2, 2], 1, 1, 1, 1, "f4")
    q.data[:] = 1
    k.data[:] = 1
    k.data[[1, 2, 4, 5, 6]] = np.reshape([-np.inf, np.nan, -np.inf, -np.inf, np.inf], (5, 1, 1))
    y = arrays.on(lambda q, kv: sf.attention(q, *kv))(q, [k, v]).data.ravel()
    np.testing.assert_allclose(y[0], v.data[0].item(), rtol=1e-6)
    assert np.isnan(y[1:3]).all()
    assert y[3] == 0
    assert np.isnan(y[4:6]).all()
    np.testing.assert_allclose(y[6:], v.data[8:].mean(), rtol=1e-5)


def test_neighbours_are_never_looked_at():
    """A sequence gives the same bits whatever is beside it, in whatever encoding, NaN in the padding too."""
    q, k, v = three(5, [40, 0, 3], [40, 2, 5], 2, 1, 9, 5, "f4")
    alone = sf.attention(*[x[0:1] for x in (q, k, v)], causal=True).data
    for kind in KINDS:
        options = {"fill": np.nan} if kind in (sf.Padded, sf.Masked) else {}
        found = sf.attention(*[sf.convert(x, kind, **options) for x in (q, k, v)], causal=True)
        np.testing.assert_array_equal(rows(found)[:40], alone)


@pytest.mark.passes("compiled", reason="threads run compiled kernels")
@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.usefixtures("default_threads")
def test_threads_change_no_bit(window):
    operands = three(6, [300, 3, 0, 700, 41], [300, 50, 7, 700, 41], 4, 2, 24, 16, "f4")
    found = []
    for threads in (1, 2, 4):
        sf.set_num_threads(threads)
        y, pullback = sf.vjp(sf.attention, *operands, causal=True, window=window)
        found.append([y.data, *[d.data for d in pullback(y)]])
    for others in found[1:]:
        for x, y in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(x, y)
    parts = [sequences(x, x.item_shape) for x in operands]
    for i in (1, 4):
        truth = attention_oracle.attention(*[x[i] for x in parts], causal=True, window=window)
        a, b = np.cumsum([0, 300, 3, 0, 700, 41])[[i, i + 1]]
        np.testing.assert_allclose(found[0][0][a:b], truth, rtol=2e-5, atol=2e-5)


@pytest.mark.usefixtures("default_threads")
def test_work_is_cut_by_what_it_costs():
    begins = attention_call._shares(np.array([1.0, 1.0, 1.0]))
    assert begins.tolist() == [0, 3]
    sf.set_num_threads(2)
    begins = attention_call._shares(np.array([1e6, 1.0, 1.0, 1e6, 1e6]))
    assert begins[0] == 0
    assert begins[-1] == 5
    assert (np.diff(begins) >= 0).all()


def refused(change, **options):
    q, k, v = three(7, [2, 1], [3, 1], 4, 2, 3, 5)
    return lambda: sf.attention(*change(q, k, v), **options)


def retyped(x, dtype):
    return sf.Ragged(x.data.astype(dtype), x.lengths)


REFUSED = {
    "sequences": (lambda q, k, v: (q, k[0:1], v[0:1]), sf.StructureError, "k has 1 sequences, but q has 2"),
    "lengths": (lambda q, k, v: (q, k, q), sf.StructureError, "k has sequences of lengths"),
    "width": (lambda q, k, v: (q, v, v), sf.StructureError, "queries are 3 wide, but keys 5"),
    "groups": (lambda q, k, v: (q, k, numbers(np.random, [3, 1], (4, 5))), sf.StructureError, "but v has 4"),
    "heads": (
        lambda q, k, v: (numbers(np.random, [2, 1], (3, 3)), k, v),
        sf.StructureError,
        "q has 3 heads, which 2 heads of k and v cannot share",
    ),
    "axes": (lambda q, k, v: (q, retyped(with_rows(k, rows(k)[:, 0]), "f8"), v), sf.StructureError, "items must have"),
    "no axis": (lambda *x: [with_rows(y, rows(y)[:, 0, 0]) for y in x], sf.StructureError, "items must have shape"),
    "integers": (lambda *x: [retyped(y, "i8") for y in x], TypeError, "attention is for floats"),
    "complex": (lambda *x: [retyped(y, "c16") for y in x], TypeError, "attention is for floats"),
    "dtypes": (lambda q, k, v: (q, retyped(k, "f4"), v), sf.StructureError, "k has dtype float32, but q has float64"),
    "pairs": (lambda q, k, v: (sf.Pairs(q, q), k, v), TypeError, "Pairs"),
}


@pytest.mark.parametrize(("change", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit(change, error, words):
    with pytest.raises(error, match=words):
        refused(change)()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"causal": 1}, TypeError, "causal must be True or False"),
        ({"window": -2}, sf.ConversionError, "window"),
        ({"window": (1, 2, 3)}, sf.ConversionError, "a pair"),
        ({"window": 1.5}, TypeError, "window"),
        ({"scale": "large"}, TypeError, "scale must be a number"),
        ({"scale": float("nan")}, sf.ConversionError, "scale must be finite"),
    ],
)
def test_options_that_mean_nothing(options, error, words):
    with pytest.raises(error, match=words):
        refused(lambda *x: x, **options)()


def test_other_outer_levels():
    q, k, v = three(8, [1, 2], [1, 2], 1, 1, 1, 1)
    levels = [sf.LoD(x.data, [[0, ends, 2], [0, 1, 3]]) for x, ends in ((q, 1), (k, 0), (v, 1))]
    with pytest.raises(sf.StructureError, match="k has other outer levels than q"):
        sf.attention(*levels)


@pytest.mark.peers
class TestBesideTorch:
    @pytest.mark.parametrize("groups", [4, 2, 1])
    @pytest.mark.parametrize("causal", [False, True])
    def test_values_and_gradients(self, causal, groups):
        torch = pytest.importorskip("torch")
        torch.manual_seed(groups)
        lengths = [5, 0, 130, 17, 64]
        ends = np.cumsum([0, *lengths])
        mine = [torch.randn(sum(lengths), heads, 64, requires_grad=True) for heads in (4, groups, groups)]
        theirs = [x.detach().clone().requires_grad_() for x in mine]
        y = sf.attention(*[sf.Ragged(x, lengths) for x in mine], causal=causal).data
        dy = torch.randn(y.shape)
        parts = [
            torch.nn.functional.scaled_dot_product_attention(
                *[x[a:b].transpose(0, 1)[None] for x in theirs], is_causal=causal, enable_gqa=True
            )[0].transpose(0, 1)
            for a, b in itertools.pairwise(ends)
        ]
        other = torch.cat(parts)
        torch.testing.assert_close(y, other, rtol=1e-5, atol=1e-5)
        y.backward(dy)
        other.backward(dy)
        for x, z in zip(mine, theirs, strict=True):
            torch.testing.assert_close(x.grad, z.grad, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("name", ["bfloat16", "float16", "float64"])
    def test_other_dtypes(self, name):
        torch = pytest.importorskip("torch")
        lengths = [7, 40]
        q, k, v = (torch.randn(47, 2, 16, dtype=getattr(torch, name)) for _ in range(3))
        y = sf.attention(*[sf.Ragged(x, lengths) for x in (q, k, v)])
        assert y.data.dtype is q.dtype
        for a, b in ((0, 7), (7, 47)):
            wide = [x[a:b].double().transpose(0, 1) for x in (q, k, v)]
            truth = torch.nn.functional.scaled_dot_product_attention(*wide).transpose(0, 1)
            close = torch.finfo(q.dtype).eps
            torch.testing.assert_close(y.data[a:b].double(), truth, rtol=4 * close, atol=4 * close)

    @pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (1, 0)}])
    def test_a_second_derivative(self, options):
        torch = pytest.importorskip("torch")
        torch.manual_seed(3)
        x = [torch.randn(n, heads, d, dtype=torch.float64) for n, heads, d in ((5, 4, 3), (6, 2, 3), (6, 2, 2))]

        def attention(q, k, v):
            batches = sf.Ragged(q, [2, 0, 3]), sf.Ragged(k, [3, 1, 2]), sf.Ragged(v, [3, 1, 2])
            padded = sf.convert(batches[0], sf.Padded), *batches[1:]
            return sf.convert(sf.attention(*padded, **options), sf.Ragged).data

        x = [part.requires_grad_() for part in x]
        assert torch.autograd.gradcheck(attention, x)
        assert torch.autograd.gradgradcheck(attention, x)

    def test_only_some_ask_for_a_gradient(self):
        torch = pytest.importorskip("torch")
        q, k, v = (torch.randn(3, 1, 4) for _ in range(3))
        v.requires_grad_()
        sf.attention(*[sf.Ragged(x, [1, 2]) for x in (q, k, v)]).data.sum().backward()
        torch.testing.assert_close(v.grad[0], torch.ones(1, 4))
        assert q.grad is None

    def test_of_two_libraries(self):
        torch = pytest.importorskip("torch")
        q = sf.Ragged(torch.randn(3, 1, 4), [1, 2])
        k = sf.Ragged(np.ones((3, 1, 4), np.float32), [1, 2])
        with pytest.raises(sf.DeviceError, match="k is on"):
            sf.attention(q, k, k)
