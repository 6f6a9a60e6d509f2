"""Tensors of a list, read natively or in plain Python."""

import ctypes
import sys
import warnings

import numpy as np
import pytest

import seqformats as sf
from seqformats.arrays import library_of
from seqformats.reading import functions, tensors

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")

pytestmark = pytest.mark.peers

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
    fits, behind = short[:1], short[1:2]
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
        "short, but long enough": fits,
        "short, and behind that": behind,
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
def test_a_native_look_at_tensors_changes_nothing(monkeypatch, name):
    block, others = odd_tensors()
    other = others[name]
    for items in ([block, other], [other, block], [other], (block, block, other)):
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                seen = outcome(items)
                with monkeypatch.context() as patch:
                    patch.setattr("seqformats.reading.tensors.read", lambda library, items: None)
                    assert seen == outcome(items)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("item", [(), (5,), (2, 0, 3), (1, 2, 1, 3), (1,) * 5], ids=str)
def test_tensors_that_are_read_natively(dtype, item):
    items = tuple(sequences([3, 0, 1, 4], item, dtype))
    library = library_of(items[0])
    found = tensors.read(library, items)
    assert (found is None) == (dtype.is_complex or len(item) > 4)
    if found is not None:
        lengths, offsets, addresses, longest, notes = found
        assert (lengths.tolist(), offsets.tolist(), longest, notes) == ([3, 0, 1, 4], [0, 3, 3, 4, 8], 4, False)
        assert addresses.tolist() == library.addresses(items).tolist()


def test_tensors_longer_than_all_memory():
    item = torch.zeros(2**62, 0)
    assert sf.convert([item], sf.Ragged).lengths.tolist() == [2**62]
    with pytest.raises(sf.StructureError, match="int64"):
        sf.List([item, item])


def test_reading_holds_nothing():
    """Neither tensors nor the errors of those that cannot be read."""
    block = torch.rand(7, 6, 4)
    library = library_of(block)
    for items in ((block, block[:2]), (block, block.to_sparse()), (block, block.to("meta"))):
        before = [sys.getrefcount(x) for x in items]
        for _ in range(1000):
            tensors.read(library, items)
        assert [sys.getrefcount(x) for x in items] == before
        assert sys.exception() is None


def test_tensors_inside_of_a_transformation():
    """There a tensor stands for many, or for one that has a gradient at another level."""
    block = torch.rand(5, 3)

    def rows(x):
        library = library_of(x)
        assert tensors.read(library, (x,)) is None
        assert library.scan((x,)) is None
        return x.sum()

    assert torch.func.vmap(rows)(block).shape == (5,)
    assert torch.func.grad(rows)(block).shape == (5, 3)


def test_tensors_in_a_mode_that_sees_every_call():
    """Reading is none."""

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            raise AssertionError(function)

    items = tuple(sequences([3, 0, 1, 4], (5,)))
    library = library_of(items[0])
    wanted = tensors.read(library, items)
    with Mode():
        found = tensors.read(library, items)
    assert [x.tolist() for x in found[:3]] == [x.tolist() for x in wanted[:3]]


def table_of_functions():
    """Where DLPack's table for tensors is, and its words."""
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    at = pointer_of(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    return np.frombuffer(ctypes.string_at(at, 56), np.int64).copy()


@pytest.mark.parametrize("fault", ["no table", "another version", "no function", "no symbol", "another shape"])
def test_without_the_functions_tensors_are_read_in_python(monkeypatch, fault):
    items = sequences([2, 0, 3], (4,))
    library = library_of(items[0])
    monkeypatch.setattr(tensors, "_readers", {})
    words = table_of_functions()
    if fault == "no table":  # as before DLPack 1.3
        monkeypatch.delattr(torch._C.TensorBase, "__dlpack_c_exchange_api__", raising=False)
        monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    elif fault == "no symbol":
        monkeypatch.setattr(tensors, "WANTS_GRAD", "no_such_function")
    elif fault == "another shape":
        monkeypatch.setattr(functions, "_MOST", 8)
    else:
        words[0 if fault == "another version" else 5] = 2 if fault == "another version" else 0
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", new(words.ctypes.data, functions._TABLE, None))
    assert tensors.read(library, tuple(items)) is None
    assert tensors._readers == {library: None}
    assert sf.convert(items, sf.Ragged).lengths.tolist() == [2, 0, 3]


def test_a_look_that_differs_from_pythons_is_not_trusted(monkeypatch):
    library = library_of(torch.rand(1))
    monkeypatch.setattr(tensors, "_readers", {})
    monkeypatch.setattr(type(library), "scan", lambda self, items: None)
    assert tensors.read(library, tuple(sequences([2, 0]))) is None
