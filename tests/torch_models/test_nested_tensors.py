"""Nested tensors of PyTorch: the same memory both ways, and the same sequences as their own parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning"),
]
torch = pytest.importorskip("torch")

lengths = st.lists(st.integers(0, 5), max_size=6)
item_shapes = st.sampled_from([(), (2,), (2, 3), (0,)])


def ragged(lengths, item=(2,), **options):
    rows = sum(lengths)
    return sf.Ragged(torch.randn(rows, *item, **options), lengths)


def same_parts(nt, x):
    parts, own = nt.unbind(), list(x.sequences())
    assert len(parts) == len(own)
    assert all(torch.equal(one, two) for one, two in zip(parts, own, strict=True))


@given(lengths=lengths, item=item_shapes)
def test_both_ways_over_the_same_memory(lengths, item):
    x = ragged(lengths, item)
    nt = x.to_njt()
    assert nt.layout is torch.jagged
    assert nt.shape[0] == len(lengths)
    assert nt.values().data_ptr() == x.data.data_ptr()
    y = sf.from_njt(nt)
    assert sf.equal(x, y)
    assert y.data.data_ptr() == x.data.data_ptr()
    if lengths:
        same_parts(nt, x)
    assert (nt._maybe_min_seqlen, nt._maybe_max_seqlen) == (min(lengths, default=0), max(lengths, default=0))


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6), item=st.sampled_from([(), (2,), (2, 3)]))
def test_its_own_parts(lengths, item):
    parts = [torch.randn(length, *item) for length in lengths]
    for layout in (torch.jagged, torch.strided):
        nt = torch.nested.nested_tensor(parts, layout=layout)
        same_parts(nt, sf.from_njt(nt))
        same_parts(nt, sf.convert(nt, sf.Masked))
        assert sf.equal(sf.convert(nt, sf.Packed), sf.convert(parts, sf.Packed))


def test_every_encoding_goes_out():
    x = ragged([2, 0, 4])
    for kind in (sf.List, sf.Padded, sf.Packed, sf.Masked, sf.LoD):
        assert sf.equal(sf.from_njt(sf.convert(x, kind).to_njt()), x)
    assert sf.equal(sf.from_njt(sf.torch.to_njt(list(x.sequences()))), x)


def test_one_structure_is_one_ragged_axis():
    """Else they could not be added."""
    x = ragged([2, 0, 4])
    one, two = x.to_njt(), x.to(torch.float64).to_njt()
    assert one.shape == two.shape
    assert torch.equal((one + two).values(), x.data * 2)
    again = sf.from_njt(one * 3)
    assert torch.equal((sf.reverse(again).to_njt() + one).values(), sf.reverse(again).data + x.data)


def test_offsets_that_were_written_are_made_anew():
    x = ragged([2, 0, 4])
    x.to_njt().offsets().zero_()
    assert x.to_njt().offsets().tolist() == [0, 2, 2, 6]
    assert x.offsets.tolist() == [0, 2, 2, 6]


def test_gradients_flow_both_ways():
    data = torch.randn(6, 3, requires_grad=True)
    nt = sf.Ragged(data, [2, 0, 4]).to_njt()
    layer = torch.nn.Linear(3, 2)
    sf.reduce_sum(sf.from_njt(layer(nt))).sum().backward()
    assert torch.allclose(data.grad, layer.weight.sum(0).expand(6, 3))
    inner = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged, requires_grad=True)
    sf.reduce_sum(sf.from_njt(inner)).mul(2).sum().backward()
    assert inner.grad.values().tolist() == [2.0] * 5


def test_holes():
    base = torch.randn(3, 5, 2, requires_grad=True)
    nt = torch.nested.narrow(base, 1, torch.tensor([0, 1, 2]), torch.tensor([2, 0, 3]), layout=torch.jagged)
    x = sf.from_njt(nt)
    assert x.lengths.tolist() == [2, 0, 3]
    assert torch.equal(x.data, torch.cat([base[0, :2], base[2, 2:]]))
    sf.reduce_sum(x).sum().backward()
    assert base.grad[..., 0].tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]


def test_holes_that_lead_out_of_the_values():
    offsets, inside = torch.tensor([0, 3, 6]), torch.nested.nested_tensor_from_jagged
    with pytest.raises(sf.StructureError, match="sequence 1 has 4 rows from 3"):
        sf.from_njt(inside(torch.zeros(6), offsets, lengths=torch.tensor([1, 4])))
    with pytest.raises(sf.StructureError):
        sf.from_njt(inside(torch.zeros(4), offsets))
    with pytest.raises(sf.StructureError, match="negative"):
        sf.from_njt(inside(torch.zeros(6), offsets, lengths=torch.tensor([1, -1])))


def test_another_ragged_axis():
    nt = ragged([2, 3], (4,)).to_njt().transpose(1, 2)
    with pytest.raises(TypeError, match=r"give x\.transpose\(1, 2\)"):
        sf.from_njt(nt)
    assert sf.from_njt(nt.transpose(1, 2)).item_shape == (4,)


def test_attention():
    x = ragged([2, 3], (2, 8))
    q = x.to_njt().transpose(1, 2)
    out = sf.from_njt(torch.nn.functional.scaled_dot_product_attention(q, q, q).transpose(1, 2))
    for one, part in zip(out.sequences(), x.sequences(), strict=True):
        p = part.transpose(0, 1)
        expected = torch.nn.functional.scaled_dot_product_attention(p, p, p).transpose(0, 1)
        assert torch.allclose(one, expected, atol=1e-5)


def test_wherever_a_batch_is_taken():
    x = ragged([2, 0, 4])
    nt = x.to_njt()
    assert torch.equal(sf.reduce_sum(nt), sf.reduce_sum(x))
    assert sf.equal(sf.with_masked(lambda m: m)(nt), x)
    assert sf.lengths(nt).tolist() == [2, 0, 4]
    strided = torch.nested.nested_tensor(list(x.sequences()))
    for nested in (nt, strided):
        assert sf.equal(x + nested, x * 2)
        assert sf.equal(sf.diff(nested), sf.diff(x))
    tree = sf.convert({"x": nt, "y": torch.zeros(3)}, sf.Masked)
    assert sf.equal(tree["x"], sf.convert(x, sf.Masked))


def test_what_is_none():
    for x in (torch.zeros(3), [1, 2], None, np.zeros(3)):
        with pytest.raises(TypeError, match="takes a nested tensor"):
            sf.from_njt(x)
    with pytest.raises(TypeError, match="PyTorch"):
        sf.torch.to_njt(sf.Ragged(np.zeros(3), [3]))
    with pytest.raises(TypeError, match="sf.from_njt"):
        sf.Ragged(ragged([1]).to_njt(), [1])
    with pytest.raises(sf.StructureError, match="item shape"):
        sf.from_njt(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 2)]))
