"""Lists of arrays and of tensors, which the extension and Python read alike."""

import sys
import warnings

import numpy as np
import pytest

import seqformats as sf
from seqformats import core, reading
from seqformats.arrays import library_of

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(core.extension is None, reason="the extension is not built here"),
]

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.float8_e4m3fn,
]


def sequences(lengths, item=(), dtype=torch.float32):
    return [(torch.rand(length, *item) * 9).to(dtype) for length in lengths]


class Own(torch.Tensor):
    """A tensor of another type."""


def odd_tensors():
    """Beside a plain tensor (7, 6, 4): what is alike, and what is not."""
    with warnings.catch_warnings():  # of kinds of tensors that are not finished, or on their way out
        warnings.simplefilter("ignore")
        return _odd_tensors()


def _odd_tensors():
    block = torch.rand(7, 6, 4)
    z = torch.view_as_complex(torch.rand(7, 6, 4, 2))
    lost = block.clone()
    lost.untyped_storage().resize_(0)
    short = block.clone()
    fits = short[:1]
    short.untyped_storage().resize_(100)
    with torch.inference_mode():
        inferred = block.clone()
    return block, {
        "slice": block[2:5],
        "one row": block[::3][1:2],
        "empty": block[3:3],
        "parameter": torch.nn.Parameter(block.clone()),
        "wanted": block.clone().requires_grad_(),
        "no longer wanted": block.clone().requires_grad_().requires_grad_(False),
        "of a graph": block.clone().requires_grad_() * 2,
        "inferred": inferred,
        "from NumPy": torch.from_numpy(np.ones((3, 6, 4), "f4")),
        "columns": block[:, :3],
        "steps": block[::2],
        "transposed": block.transpose(0, 1),
        "expanded": block[:1].expand(5, 6, 4),
        "channels last": block.view(7, 2, 3, 4).to(memory_format=torch.channels_last),
        "other rank": block.view(7, 24),
        "scalar": block[0, 0, 0],
        "many axes": block.view(7, 1, 1, 1, 1, 6, 4),
        "five axes": block.view(7, 1, 6, 1, 4),
        "no items": torch.rand(7, 0, 4),
        "no rows of other items": torch.rand(0, 3),
        "no sequence": torch.rand(0),
        "one row again and again": block[:1].expand(1, 6, 4),
        "one place again and again": torch.ones(()).expand(7, 6, 4),
        "bfloat16": block.bfloat16(),
        "uint16": torch.ones(7, 6, 4, dtype=torch.uint16),
        "bool": block > 0.5,
        "float8": block.to(torch.float8_e5m2),
        "int32, as wide": block.view(torch.int32),
        "float64": block.double(),
        "complex": block.to(torch.complex64).conj(),
        "negative": block._neg_view(),
        "negative and empty": block[:0]._neg_view(),
        "negative integers": torch.arange(168).view(7, 6, 4)._neg_view(),
        "of conjugated numbers": z.conj().imag,
        "conjugated twice": z.conj().conj(),
        "zeros without memory": torch._efficientzerotensor((7, 6, 4)),
        "copied when written": torch._lazy_clone(block),
        "meta": block.to("meta"),
        "meta parameter": torch.nn.Parameter(block.to("meta")),
        "sparse": block.to_sparse(),
        "compressed": torch.eye(7).to_sparse_csr(),
        "mkldnn": block.to_mkldnn(),
        "quantized": torch.quantize_per_tensor(block, 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([block, block[:2]]),
        "jagged": torch.nested.nested_tensor([block, block[:2]], layout=torch.jagged),
        "functional": torch._to_functional_tensor(block),
        "fake": fake_tensor.FakeTensorMode().from_tensor(block),
        "lost": lost,
        "short": short,
        "short, but long enough": fits,
        "own type": block.clone().as_subclass(Own),
        "array": block.numpy(),
        "number": 1.0,
    }


def outcome(items):
    try:
        x = sf.convert(items, sf.Ragged)
    except Exception as error:
        return type(error), str(error)
    return type(x.data), x.data.dtype, x.data.tolist(), x.lengths.tolist(), getattr(x.data, "requires_grad", None)


@pytest.mark.filterwarnings("ignore:.*data pointer of FakeTensor")
@pytest.mark.parametrize("name", odd_tensors()[1])
def test_a_look_at_tensors_by_the_extension_changes_nothing(name):
    block, others = odd_tensors()
    other = others[name]
    for items in ([block, other], [other, block], [other], (block, block, other)):
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                with core.python_only():
                    expected = outcome(items)
                assert outcome(items) == expected
                found = core.scan_arrays(tuple(items), True)
                if found is not None and type(items[0]) is not np.ndarray:
                    slow = library_of(items[0]).scan(tuple(items))
                    assert [found[0].tolist(), found[2].tolist()] == [x.tolist() for x in slow]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("item", [(), (5,), (2, 0, 3), (1, 2, 1, 3), (1,) * 9], ids=str)
def test_tensors_that_the_extension_reads(dtype, item):
    items = tuple(sequences([3, 0, 1, 4], item, dtype))
    found = core.scan_arrays(items, False)
    assert (found is None) == (dtype.is_complex or 0 in item)
    if found is not None:
        lengths, offsets, addresses, longest = found
        assert (lengths.tolist(), offsets.tolist(), longest) == ([3, 0, 1, 4], [0, 3, 3, 4, 8], 4)
        assert addresses.tolist() == library_of(items[0]).addresses(items).tolist()


def test_tensors_longer_than_all_memory():
    item = torch.zeros(2**62, 0)
    assert sf.convert([item], sf.Ragged).lengths.tolist() == [2**62]
    with pytest.raises(sf.StructureError, match="int64"):
        sf.List([item, item])


def test_reading_holds_nothing():
    """Neither tensors nor the errors of those that cannot be read."""
    block = torch.rand(7, 6, 4)
    for items in ((block, block[:2]), (block, block.to_sparse()), (block, block.to("meta"))):
        before = [sys.getrefcount(x) for x in items]
        for _ in range(1000):
            reading.read(items)
        assert [sys.getrefcount(x) for x in items] == before
        assert sys.exception() is None


def test_tensors_inside_of_a_transformation():
    """There a tensor stands for many, or for one that has a gradient at another level."""
    block = torch.rand(5, 3)

    def rows(x):
        assert reading.read((x,)) is reading.scan((x,)) is None
        return x.sum()

    assert torch.func.vmap(rows)(block).shape == (5,)
    assert torch.func.grad(rows)(block).shape == (5, 3)
