"""Attention with other terms of its scores: chunks, prefixes, soft caps, biases, sinks, dropout."""

import attention_oracle
import masking_oracle
import numpy as np
import pytest
from checks import assert_padding_is_zero, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from passes import INTERPRETED
from test_dot_attention import CLOSE, KINDS, limits, sequences, structures, three

import seqformats as sf

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SLOPES, TABLE = "slopes", "table"


def kept(seed, part, i, heads, t, m):
    """What dropout makes of each weight, by a slow generator."""
    drop = round(part * 65536)
    made = np.zeros((heads, t, m))
    for h, a, j in np.ndindex(heads, t, m):
        four = masking_oracle.philox((j // 8, i, a, h + 2**31), (seed % 2**32, seed // 2**32))
        bits = four[j % 8 // 2] >> (16 * (j % 2)) & 0xFFFF
        made[h, a, j] = 65536 / (65536 - drop) if bits >= drop else 0
    return made


@st.composite
def terms(draw, lengths, others, heads):
    """Options of a call, without arrays; and a bias and sinks, in float64."""
    options = draw(limits())
    options["chunk"] = draw(st.sampled_from([None, None, 1, 5, 16, 200]))
    if draw(st.booleans()):
        options["prefix"] = [draw(st.sampled_from([0, 1, 4, 140])) for _ in lengths]
    if draw(st.booleans()):
        options["softcap"] = draw(st.sampled_from([0.5, 3.0, 50.0]))
    if not INTERPRETED and max([0, *lengths]) * max([0, *others]) < 400 and draw(st.booleans()):
        options |= {"dropout": draw(st.sampled_from([0.0, 0.3, 1.0])), "seed": draw(st.sampled_from([0, 2**40 + 7]))}
    rng, arrays = np.random.default_rng(draw(st.integers(0, 9))), {}
    form = draw(st.sampled_from([None, SLOPES, TABLE]))
    if form == TABLE:
        shape = heads, max([0, *lengths]) + draw(st.integers(0, 2)), max([0, *others]) + draw(st.integers(0, 2))
        arrays["bias"] = np.where(rng.random(shape) < 0.1, -np.inf, rng.normal(size=shape))
    elif form == SLOPES:
        arrays["bias"] = rng.random(heads)
    if draw(st.booleans()):
        arrays["sinks"] = rng.normal(size=heads)
    return options, arrays


def by_sequence(options, arrays, given_):
    """What the oracle is given for each sequence."""
    lengths, others = (x.lengths.tolist() for x in given_[:2])
    for i, (t, m) in enumerate(zip(lengths, others, strict=True)):
        each = {k: x for k, x in options.items() if k in ("causal", "window", "chunk", "scale")}
        keep = (
            kept(options["seed"], options["dropout"], i, given_[0].item_shape[0], t, m) if "seed" in options else None
        )
        prefix = options["prefix"][i] if "prefix" in options else 0
        yield {**each, **arrays, "prefix": prefix, "cap": options.get("softcap"), "keep": keep}


def on_device(arrays, x, dtype):
    return arrays.up(sf.Ragged(x.astype(dtype), [len(x)])).data


@settings(max_examples=15 if INTERPRETED else 60)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@given(data=st.data())
def test_beside_the_oracle(arrays, dtype, data):
    """Results, and gradients of all that there is, in every encoding."""
    lengths, others = data.draw(structures().filter(lambda both: both[0]))
    groups, share = data.draw(st.sampled_from([(1, 1), (1, 3), (2, 2)]))
    heads, wide = groups * share, data.draw(st.sampled_from([1, 8, 17]))
    given_ = three(data.draw(st.integers(0, 99)), lengths, others, heads, groups, wide, wide, dtype)
    options, own = data.draw(terms(lengths, others, heads))
    each = list(by_sequence(options, own, given_))
    parts = [sequences(x, x.item_shape) for x in given_]
    truth = [attention_oracle.attention(*x, **one) for *x, one in zip(*parts, each, strict=True)]
    q, k, v = (sf.convert(x, data.draw(st.sampled_from(KINDS))) for x in given_)
    extras = {name: on_device(arrays, x, dtype) for name, x in own.items()}
    y, pullback = sf.vjp(sf.attention, *[arrays.up(x) for x in (q, k, v)], **options, **extras)
    assert type(y) is type(q)
    y = arrays.down(y)
    assert_padding_is_zero(y)
    np.testing.assert_allclose(rows(y), np.concatenate(truth), rtol=CLOSE[dtype], atol=CLOSE[dtype])
    dy = sf.Ragged(np.random.default_rng(5).normal(size=(sum(lengths), heads, wide)).astype(dtype), lengths)
    found = pullback(arrays.up(sf.convert(dy, type(q))))
    slopes = sequences(dy, dy.item_shape)
    expected = [attention_oracle.gradients(*x, d, **one) for *x, d, one in zip(*parts, slopes, each, strict=True)]
    together = [np.concatenate(x) for x in list(zip(*expected, strict=True))[:3]]
    together += [sum(x) for x in list(zip(*expected, strict=True))[3:]]
    assert len(found) == len(together)
    for d, truth in zip(found, together, strict=True):
        d = rows(arrays.down(d)) if isinstance(d, sf.Ragged | sf.List | sf.Padded | sf.Packed | sf.Masked) else d
        d = np.asarray(arrays.down(sf.Ragged(d, [len(d)])).data) if not isinstance(d, np.ndarray) else d
        close = {"f8": 1e-11, "f4": 2e-4}[dtype] * max(1, np.abs(truth).max(initial=0))
        assert d.shape == truth.shape
        np.testing.assert_allclose(d, truth, rtol=close, atol=close)


def options_of_all(dtype, lengths, heads):
    rng = np.random.default_rng(3)
    table = rng.normal(size=(heads, max(lengths), max(lengths))).astype(dtype)
    return {
        "causal": True, "window": 90, "prefix": 20, "softcap": 4.0, "bias": table,
        "sinks": rng.normal(size=heads).astype(dtype), "dropout": 0.25, "seed": 11,
    }  # fmt: skip


def test_neighbours_are_never_looked_at():
    """A sequence gives the same bits whatever comes after it, NaN in padding and neighbours too."""
    lengths = [40, 0, 3]
    q, k, v = three(5, lengths, lengths, 2, 1, 9, 5, "f4")
    options = options_of_all("f4", lengths, 2)
    alone = sf.attention(*[x[0:1] for x in (q, k, v)], **options).data
    assert np.isfinite(alone).all()
    for x in (q, k, v):
        x.data[40:] = np.nan
    for kind in KINDS:
        fill = {"fill": np.nan} if kind in (sf.Padded, sf.Masked) else {}
        found = sf.attention(*[sf.convert(x, kind, **fill) for x in (q, k, v)], **options)
        np.testing.assert_array_equal(rows(found)[:40], alone)


@pytest.mark.passes("compiled", reason="threads run compiled kernels")
@pytest.mark.usefixtures("default_threads")
def test_threads_change_no_bit():
    lengths = [300, 3, 0, 700, 41]
    operands = three(6, lengths, lengths, 4, 2, 24, 16, "f4")
    options, found = options_of_all("f4", lengths, 4), []
    for threads in (1, 2, 4):
        sf.set_num_threads(threads)
        y, pullback = sf.vjp(sf.attention, *operands, **options)
        slopes = pullback(y)
        found.append([y.data, *[d.data for d in slopes[:3]], *slopes[3:]])
    for others in found[1:]:
        for x, y in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(x, y)


def test_dropout_is_fair():
    """The mean over many seeds is what there is without it; and another seed drops other weights."""
    q, k, v = three(7, [6, 3], [6, 3], 2, 2, 4, 3)
    plain = sf.attention(q, k, v).data
    found = np.stack([sf.attention(q, k, v, dropout=0.4, seed=s).data for s in range(60 if INTERPRETED else 2000)])
    assert not np.array_equal(found[0], found[1])
    assert np.abs(found.mean(0) - plain).max() < (1.2 if INTERPRETED else 0.15)
    assert not sf.attention(q, k, v, dropout=1, seed=0).data.any()
    np.testing.assert_array_equal(sf.attention(q, k, v, dropout=0, seed=3).data, plain)


def test_a_prefix_language_model():
    """The prefix sees itself in both directions, all else what comes before it."""
    q, k, v = three(8, [5], [5], 1, 1, 3, 2)
    seen = np.tril(np.ones((5, 5), bool))
    seen[:, :3] = True
    bias = np.where(seen, 0, -np.inf)[None]
    found = sf.attention(q, k, v, causal=True, prefix=3).data
    np.testing.assert_allclose(found, sf.attention(q, k, v, bias=bias).data, rtol=1e-12)


BAD = [
    ({"chunk": 0}, sf.ConversionError, "chunk"),
    ({"prefix": -1}, sf.StructureError, "prefix must not be negative"),
    ({"prefix": [1, 2, 3]}, sf.StructureError, "prefix has 3 numbers"),
    ({"softcap": 0}, sf.ConversionError, "softcap must be finite and above 0"),
    ({"softcap": "x"}, TypeError, "softcap must be a number"),
    ({"dropout": 1.5, "seed": 1}, sf.ConversionError, "dropout must be from 0 to 1"),
    ({"dropout": 0.5}, sf.ConversionError, "say seed="),
    ({"dropout": 0.5, "seed": -1}, sf.ConversionError, "seed"),
    ({"bias": np.zeros((4, 2, 2))}, sf.StructureError, r"bias must have shape \(heads, t, m\), here \(4, 2, 3\)"),
    ({"bias": np.zeros(3)}, sf.StructureError, "or be slopes"),
    ({"bias": np.zeros((4, 2, 3), "f4")}, sf.StructureError, "bias has dtype float32, but q has float64"),
    ({"sinks": np.zeros(2)}, sf.StructureError, r"sinks must have shape \(heads,\)"),
]


@pytest.mark.parametrize(("options", "error", "words"), BAD)
def test_options_that_mean_nothing(options, error, words):
    with pytest.raises(error, match=words):
        sf.attention(*three(7, [2, 1], [3, 1], 4, 2, 3, 5), **options)


@pytest.mark.peers
class TestBesideTorch:
    @pytest.mark.parametrize("form", [SLOPES, TABLE, None])
    @pytest.mark.parametrize("dropout", [0.0, 0.3])
    def test_gradients_of_both_orders(self, form, dropout):
        torch = pytest.importorskip("torch")
        torch.manual_seed(3)
        x = [torch.randn(n, heads, d, dtype=torch.float64) for n, heads, d in ((5, 4, 3), (6, 2, 3), (6, 2, 2))]
        x += [torch.randn(4, 3, 4).double() if form == TABLE else torch.rand(4).double()] * (form is not None)
        x += [torch.randn(4, dtype=torch.float64)]
        options = {"softcap": 1.5, "causal": True, "chunk": 2, "prefix": 1, "dropout": dropout, "seed": 4}

        def attention(q, k, v, *rest):
            batches = sf.Ragged(q, [2, 0, 3]), sf.Ragged(k, [3, 1, 2]), sf.Ragged(v, [3, 1, 2])
            bias = {"bias": rest[0]} if form else {}
            return sf.attention(*batches, sinks=rest[-1], **bias, **options).data

        x = [part.requires_grad_() for part in x]
        assert torch.autograd.gradcheck(attention, x)
        assert torch.autograd.gradgradcheck(attention, x)

    def test_half_precision_beside_wide_terms(self):
        """A bias of float32 goes with bfloat16, and gets its gradient in float32."""
        torch = pytest.importorskip("torch")
        q, k, v = (torch.randn(5, 2, 4, dtype=torch.bfloat16) for _ in range(3))
        bias = torch.randn(2, 3, 3, requires_grad=True)
        y = sf.attention(*[sf.Ragged(x, [2, 3]) for x in (q, k, v)], bias=bias).data
        y.float().sum().backward()
        assert y.dtype is torch.bfloat16
        assert bias.grad.dtype is torch.float32
