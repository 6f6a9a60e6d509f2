"""Block masks of FlexAttention are those of its own function; arguments of attention over various lengths."""

import inspect
import tracemalloc

import numpy as np
import pytest

import seqformats as sf

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")]
torch = pytest.importorskip("torch")

from torch.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention  # noqa: E402


def slow(lengths, causal, window, prefix):
    """The same meaning, as a function of each pair of rows."""
    numbers = torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths))
    places = torch.from_numpy(np.concatenate([np.arange(length) for length in lengths]))
    known = np.zeros(len(lengths), int) if prefix is None else np.broadcast_to(prefix, len(lengths))
    known = torch.from_numpy(np.repeat(known, lengths))
    left, right = window if isinstance(window, tuple) else (-1, -1) if window is None else (window, window)

    def mask_mod(batch, head, q, k):
        near = q == q
        near = near & (q >= k) if causal else near
        near = near & (q - k <= left) if left >= 0 else near
        near = near & (k - q <= right) if right >= 0 else near
        return (numbers[q] == numbers[k]) & (near | (places[k] < known[k]))

    return mask_mod


def drawn(rng):
    """A batch and the options of a mask."""
    lengths = rng.integers(0, rng.choice([3, 20, 60]), rng.integers(1, 8))
    lengths[rng.integers(lengths.size)] += 1
    windows = [None, int(rng.integers(0, 40)), (int(rng.integers(-1, 40)), int(rng.integers(-1, 40)))]
    prefixes = [None, int(rng.integers(0, 30)), rng.integers(0, 60, lengths.size)]
    options = {"causal": bool(rng.integers(2)), "window": windows[rng.integers(3)], "prefix": prefixes[rng.integers(3)]}
    return lengths, options, [16, 32, (16, 8), (4, 32)][rng.integers(4)]


@pytest.mark.parametrize("seed", range(10))
def test_the_same_blocks_as_create_block_mask(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        lengths, options, block = drawn(rng)
        rows, meant = int(lengths.sum()), slow(lengths, **options)
        mask = sf.torch.flex_mask(lengths, **options, block=block)
        expected = create_block_mask(meant, None, None, rows, rows, device="cpu", BLOCK_SIZE=block)
        assert (mask.shape, mask.BLOCK_SIZE) == (expected.shape, expected.BLOCK_SIZE)
        for name in ("kv", "full_kv", "q", "full_q"):
            counts, found = [getattr(m, f"{name}_num_blocks") for m in (mask, expected)]
            assert torch.equal(counts, found), (lengths, options, block)
            assert counts.dtype is found.dtype
            ours, theirs = [getattr(m, f"{name}_indices") for m in (mask, expected)]
            kept = torch.arange(ours.shape[-1]) < counts[..., None]
            assert ours.shape == theirs.shape
            assert torch.equal(ours[kept], theirs[kept]), (lengths, options, block)


@pytest.mark.parametrize("seed", range(10))
def test_the_same_pairs_and_attention(seed):
    rng = np.random.default_rng(100 + seed)
    lengths, options, block = drawn(rng)
    rows, meant = int(lengths.sum()), slow(lengths, **options)
    q = sf.Ragged(torch.randn(rows, 2, 8), lengths)
    mask = sf.torch.flex_mask(q, **options, block=block)
    expected = create_block_mask(meant, None, None, rows, rows, device="cpu", BLOCK_SIZE=block)
    assert torch.equal(mask.to_dense(), expected.to_dense())
    dense = create_mask(mask.mask_mod, 1, 1, rows, rows, "cpu")
    assert torch.equal(dense, create_mask(meant, 1, 1, rows, rows, "cpu"))
    heads = q.data.transpose(0, 1)[None]
    out = flex_attention(heads, heads, heads, block_mask=mask)
    own = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=dense)
    assert torch.allclose(out, own, atol=1e-5)


def test_it_is_the_square_of_bools():
    x = sf.Ragged(torch.zeros(50), [20, 0, 30])
    for causal in (False, True):
        dense = create_mask(sf.torch.flex_mask(x, causal=causal).mask_mod, 1, 1, 50, 50, "cpu")[0, 0]
        assert torch.equal(dense, sf.block_mask(x, causal=causal))


def test_nothing_of_rows_by_rows():
    rows = 300_000  # whose square has 90 GB
    lengths = np.full(300, 1000)
    sf.torch.flex_mask(lengths[:2])
    tracemalloc.start()
    try:
        mask = sf.torch.flex_mask(lengths, causal=True, prefix=100)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    blocks = -(-rows // 128)
    assert most < 4 * 4 * blocks**2 + 64 * rows
    kept = int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum())
    assert kept < 10 * blocks


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"causal": 1}, TypeError),
        ({"window": 1.5}, TypeError),
        ({"window": (1, 2, 3)}, TypeError),
        ({"window": -2}, sf.StructureError),
        ({"prefix": -1}, sf.StructureError),
        ({"prefix": [1]}, sf.StructureError),
        ({"prefix": [1.5, 2]}, TypeError),
        ({"block": 0}, sf.StructureError),
        ({"block": "large"}, TypeError),
        ({"block": (1, 2, 3)}, TypeError),
    ],
)
def test_wrong_options(options, kind):
    with pytest.raises(kind):
        sf.torch.flex_mask([2, 3], **options)


def test_no_rows():
    for x in ([], [0, 0]):
        with pytest.raises(sf.StructureError, match="1 to"):
            sf.torch.flex_mask(x)


# ------------------------------------------------------------------------------------------------------- varlen


def test_arguments_of_varlen():
    q, k = sf.Ragged(torch.zeros(6, 2, 8), [2, 0, 4]), sf.Ragged(torch.zeros(5, 2, 8), [3, 1, 1])
    found = sf.torch.varlen(q, k)
    assert found["cu_seqlens_q"].tolist() == [0, 2, 2, 6]
    assert found["cu_seqlens_k"].tolist() == [0, 3, 4, 5]
    assert (found["max_seqlen_q"], found["max_seqlen_k"]) == (4, 3)
    assert {type(found[name]) for name in ("max_seqlen_q", "max_seqlen_k")} == {int}
    assert found["cu_seqlens_q"].dtype is found["cu_seqlens_k"].dtype is torch.int32
    alone = sf.torch.varlen(sf.convert(q, sf.Masked))
    assert torch.equal(alone["cu_seqlens_q"], alone["cu_seqlens_k"])
    assert sf.torch.varlen([2, 0, 4])["cu_seqlens_q"].tolist() == [0, 2, 2, 6]


def test_names_of_pytorch():
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    q = sf.Ragged(torch.zeros(6, 2, 8), [2, 0, 4])
    found = sf.torch.varlen(q, names="torch")
    inspect.signature(varlen.varlen_attn).bind(q.data, q.data, q.data, **found)
    assert list(found) == ["cu_seq_q", "cu_seq_k", "max_q", "max_k"]


def test_wrong_calls_of_varlen():
    q = sf.Ragged(torch.zeros(6), [2, 0, 4])
    with pytest.raises(sf.StructureError, match="3 sequences of queries, but 2"):
        sf.torch.varlen(q, [1, 2])
    with pytest.raises(ValueError, match="names must be"):
        sf.torch.varlen(q, names="xformers")
    with pytest.raises(sf.StructureError):
        sf.torch.varlen([2**31])


def test_arguments_of_each_library():
    """Names, padded offsets, copies on the host, the longest as a tensor."""
    q, k = sf.Ragged(torch.zeros(6, 2, 4), [1, 5]), sf.Ragged(torch.zeros(4, 2, 4), [4, 0])
    for names, keys in {
        "hf": ["cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"],
        "te": ["cu_seqlens_q", "cu_seqlens_kv", "max_seqlen_q", "max_seqlen_kv"],
        "megatron": ["cu_seqlens_q", "cu_seqlens_kv", "max_seqlen_q", "max_seqlen_kv"],
    }.items():
        found = sf.torch.varlen(q, k, names=names, max_as="tensor")
        assert [found[key].tolist() for key in keys] == [[0, 1, 6], [0, 4, 4], 5, 4]
        assert {found[key].dtype for key in keys} == {torch.int32}
    assert found["cu_seqlens_q_padded"] is found["cu_seqlens_q"]
    assert found["qkv_format"] == "thd"
    masked = sf.torch.varlen(sf.convert(q, sf.Masked), names="te")
    assert masked["cu_seqlens_q_padded"].tolist() == masked["cu_seqlens_kv_padded"].tolist() == [0, 5, 10]
    assert masked["cu_seqlens_q"].tolist() == [0, 1, 6]
    linear = sf.torch.varlen(q, names="fla")
    assert linear["cu_seqlens"].tolist() == linear["cu_seqlens_cpu"].tolist() == [0, 1, 6]
    assert linear["cu_seqlens"].dtype is torch.int64
    with pytest.raises(sf.StructureError, match="leave k out"):
        sf.torch.varlen(q, k, names="fla")
    with pytest.raises(sf.StructureError, match="pad the Masked on the right"):
        sf.torch.varlen(sf.convert(q, sf.Masked, side="left"), names="te")
    with pytest.raises(ValueError, match="names must be one of"):
        sf.torch.varlen(q, names="xformers")
    with pytest.raises(ValueError, match="max_as must be"):
        sf.torch.varlen(q, max_as="float")


def test_gradients_of_a_linear_cross_entropy():
    """To the second order, of states, weight and bias; and the values of PyTorch's own."""
    hidden, weight, bias = (torch.randn(n, dtype=torch.float64, requires_grad=True) for n in ((9, 4), (7, 4), (7,)))
    targets = torch.tensor([0, 6, -100, 3, 2, 2, 1, 5, 4])

    def loss(hidden, weight, bias):
        x = sf.Ragged(hidden, [3, 0, 5, 1])
        return sf.linear_cross_entropy(x, weight, targets, bias=bias, ignore=-100, reduction="mean", chunk=2)

    expected = torch.nn.functional.cross_entropy(hidden @ weight.T + bias, targets, ignore_index=-100)
    assert torch.allclose(loss(hidden, weight, bias), expected, rtol=1e-12)
    assert torch.autograd.gradcheck(loss, (hidden, weight, bias))
    assert torch.autograd.gradgradcheck(loss, (hidden, weight, bias))
