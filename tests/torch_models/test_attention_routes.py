"""Attention by other kernels on CUDA: functions that stand in for theirs, over what they document; no GPU is needed."""

import sys
from types import ModuleType

import pytest

import seqformats as sf

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")]
torch = pytest.importorskip("torch")

LENGTHS = [3, 0, 5, 2]


def batch(heads=4, wide=16, dtype=torch.bfloat16, lengths=LENGTHS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return sf.Ragged(torch.randn(sum(lengths), heads, wide, generator=generator).to(dtype), lengths)


@pytest.fixture
def routes(monkeypatch):
    """The module, as if tensors were on a GPU, without flash-attn; FlexAttention runs without its compiler."""
    import seqformats.torch.routes as module

    monkeypatch.setattr(module, "_on_gpu", lambda _: True)
    flex = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    monkeypatch.setattr(module, "_compiled_flex", lambda: flex)
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    module._function.cache_clear()
    yield module
    module._function.cache_clear()


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False,
    window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
):  # fmt: skip
    """The documented arguments, checked, and what they mean."""
    assert cu_seqlens_q.dtype is cu_seqlens_k.dtype is torch.int32
    assert isinstance(max_seqlen_q, int)
    assert isinstance(max_seqlen_k, int)
    assert not dropout_p
    q, k, v = (
        sf.Ragged(x, x_ends.diff().tolist()) for x, x_ends in ((q, cu_seqlens_q), (k, cu_seqlens_k), (v, cu_seqlens_k))
    )
    assert alibi_slopes is None or alibi_slopes.dtype is torch.float32
    options = {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap or None}
    return sf.attention(q, k, v, bias=alibi_slopes, **options).data


CALLS = [
    ({}, "flash_attn", "varlen_attn"),
    ({"causal": True, "scale": 0.5}, "flash_attn", "varlen_attn"),
    ({"window": (2, None)}, "flash_attn", "varlen_attn"),
    ({"causal": True, "softcap": 2.0}, "flash_attn", "flex_attention"),
    ({"bias": torch.rand(4)}, "flash_attn", "flex_attention"),
    ({"bias": torch.randn(4, 6, 6), "softcap": 3.0}, "flex_attention", "flex_attention"),
    ({"bias": torch.randn(4, 6, 6, requires_grad=True)}, "seqformats", "seqformats"),
    ({"causal": True, "prefix": 2}, "flex_attention", "flex_attention"),
    ({"sinks": torch.rand(4)}, "seqformats", "seqformats"),
    ({"chunk": 2}, "seqformats", "seqformats"),
    ({"dropout": 0.5, "seed": 1}, "seqformats", "seqformats"),
]


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize(("options", "first", "second"), CALLS)
def test_routes(routes, monkeypatch, options, first, second, flash):
    """Each gives what ours gives, in the layout and order of the queries, with gradients."""
    if flash:
        stand_in = ModuleType("flash_attn")
        stand_in.flash_attn_varlen_func = flash_attn_varlen_func
        monkeypatch.setitem(sys.modules, "flash_attn", stand_in)
    varlen = ModuleType("torch.nn.attention.varlen")
    called = []

    def varlen_attn(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=(-1, -1), enable_gqa=False
    ):
        called.append(enable_gqa)
        ends = {"cu_seqlens_q": cu_seq_q, "cu_seqlens_k": cu_seq_k, "max_seqlen_q": max_q, "max_seqlen_k": max_k}
        return flash_attn_varlen_func(query, key, value, **ends, softmax_scale=scale, window_size=window_size)

    varlen.varlen_attn = varlen_attn
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", varlen)
    routes._function.cache_clear()
    name = first if flash else second
    q, k, v = batch(), batch(2, seed=1), batch(2, seed=2)
    assert sf.torch.attention_route(q, k, v, **options) == name
    assert not flash or not called
    for encoding in (sf.Ragged, sf.Padded):
        x = sf.convert(q, encoding)
        y = sf.torch.attend(x, k, v, **options)
        expected = sf.attention(x, k, v, **options)
        assert type(y) is encoding
        torch.testing.assert_close(y.data, expected.data, rtol=3e-2, atol=3e-2)
    if name == "varlen_attn":
        assert called == [True, True]
    if name == "flex_attention":
        return  # which has no gradient on a CPU
    leaf = q.data.clone().requires_grad_()
    sf.torch.attend(sf.Ragged(leaf, LENGTHS), k, v, **options).data.sum().backward()
    assert leaf.grad.isfinite().all()


def test_what_no_other_kernel_takes(routes):
    """Other dtypes and widths, other lengths of keys, no rows; on a CPU always ours."""
    route = sf.torch.attention_route
    single = batch(dtype=torch.float32)
    assert route(single) == "flex_attention"
    assert route(batch(wide=8, dtype=torch.float32)) == "seqformats"
    keys = batch(lengths=[4, 1, 5, 2])
    assert route(single, batch(dtype=torch.float32, lengths=[4, 1, 5, 2])) == "seqformats"
    assert route(batch(), keys, keys, causal=True) == "seqformats"  # where queries stand is not documented
    assert route(batch(), keys, keys) == "varlen_attn"
    assert route(batch(lengths=[0, 0])) == "seqformats"
    items = [torch.ones(n, 4, 16) for n in (2, 3)]
    assert isinstance(sf.torch.attend(items, items, items), list | tuple)


def test_on_a_cpu():
    assert sf.torch.attention_route(batch()) == "seqformats"
    for bad, options in ((3, {}), (batch(), {"causal": 1}), (batch(), {"heads": 2})):
        with pytest.raises(TypeError):
            sf.torch.attention_route(bad, **options)
