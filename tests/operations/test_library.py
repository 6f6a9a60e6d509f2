"""Batches in other dtypes, array libraries and on other devices."""

import sys

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
NUMBERS = [np.dtype(code) for code in ("?", "i1", "u2", "i8", "f2", "f4", "f8", "c8")]


@every_format
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(data=st.data())
def test_astype(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(NUMBERS)))
    wanted = data.draw(st.sampled_from(arrays.of(NUMBERS)))
    leaves = oracle.arrays_of(x) or [np.zeros(0, truth.dtype)]
    if truth.dtype.kind == "c" and wanted.kind != "c":
        with pytest.raises(TypeError, match="complex items do not fit"):
            sf.astype(x, wanted)
        return
    if not all(np.isfinite(leaf.real).all() for leaf in leaves) and wanted.kind in "iub":
        return  # what a library makes of NaN is its own
    numbers = truth.data()
    if numbers.dtype.kind in "fiu" and wanted.kind in "iu" and numbers.size:
        info = np.iinfo(wanted)
        if numbers.min() < info.min or numbers.max() > info.max:
            return
    y = arrays.on(sf.astype)(x, wanted)
    with np.errstate(all="ignore"):
        cast = iter(oracle.items_of(numbers.astype(wanted)))
    if kind is list:
        assert type(y) is list
        return
    rows = oracle.read(y)
    assert rows.dtype == wanted
    assert rows.counts() == truth.counts()
    expected = oracle.Truth([list(cast)], wanted, truth.item_shape).data()
    if wanted.kind in "fc" and truth.dtype.kind in "fc":  # the bits of NaN are a library's own
        found = rows.data()
        assert ((found == expected) | ((found != found) & (expected != expected))).all()
        assert (np.signbit(found.real) == np.signbit(expected.real))[found == expected].all()
    else:
        oracle.assert_bits(rows.data(), expected)
    assert getattr(y, "side", None) == getattr(x, "side", None)


@every_encoding
def test_the_gradient_of_a_cast(kind):
    x = oracle.build(kind, strategies.truth_from([2, 0, 3], "f8", (2,)))
    y, pullback = sf.vjp(sf.astype, x, "f4")
    dx = pullback(y)
    oracle.assert_same(dx, x)
    z, pullback = sf.vjp(sf.astype, x, "c8")
    dx = pullback(sf.with_array(lambda rows: rows * (1 + 1j))(z))
    oracle.assert_same(dx, x)
    for whole, back in (("f4", "i8"), ("i4", "f4")):
        y, pullback = sf.vjp(sf.astype, sf.astype(x, whole), back)
        with pytest.raises(TypeError, match="has no gradient"):
            pullback(y)


def test_what_a_cast_shares():
    x = sf.Ragged(np.arange(3.0), [1, 2])
    y = sf.astype(x, float)
    assert y.data is x.data
    assert sf.astype(x, "f4")._lengths is x._lengths
    assert sf.astype(x, ">f8").dtype == np.dtype(">f8")
    assert sf.astype(sf.Ragged(np.array(["1", "20"]), [2]), int).data.tolist() == [1, 20]


def test_to_numpy_of_numpy():
    x = sf.convert([np.arange(3), np.arange(1)], sf.Masked)
    y = sf.to(x, "numpy", device="cpu", dtype="f4")
    assert y.dtype == np.float32
    assert sf.to(x).data is x.data
    assert [item.dtype for item in sf.to([np.arange(2)], dtype="u1")] == [np.uint8]
    assert sf.to(np.arange(2), dtype="u1").dtype == np.uint8
    assert sf.to(sf.List([]), dtype="f4").dtype == np.float32
    pairs = sf.to(sf.Pairs(x, np.arange(2)), dtype="f4")
    assert (pairs.one.dtype, pairs.two.dtype) == (np.float32, np.float32)


ERRORS = {
    sf.ConversionError: {
        "library must be one of numpy, torch": lambda x: sf.to(x, "abacus"),
        "an item of <U1 has no value in int64": lambda x: sf.astype(sf.Ragged(np.array(["a"]), [1]), int),
    },
    sf.DeviceError: {"tpu": lambda x: sf.to(x, device="tpu")},
    TypeError: {
        "library must be a name": lambda x: sf.to(x, 3),
        "dtype must be a dtype of NumPy, not 'nonsense'": lambda x: sf.astype(x, "nonsense"),
        "dtype must be a dtype of NumPy, not None": lambda x: sf.astype(x, None),
        "whose items are Python objects": lambda x: sf.to(x, dtype=object),
        "library=.*takes nested lists": lambda x: sf.to([[1, 2]], "numpy"),
        "neither an encoding": lambda x: sf.to("text"),
        "no single batch": lambda x: sf.astype(3, "f4"),
    },
}
ERRORS = [(error, said, call) for error, calls in ERRORS.items() for said, call in calls.items()]


@pytest.mark.parametrize(("error", "said", "call"), ERRORS, ids=[said for _, said, _ in ERRORS])
def test_errors(error, said, call):
    with pytest.raises(error, match=said):
        call(sf.Ragged(np.arange(3), [1, 2]))


def test_a_library_that_is_not_installed(monkeypatch):
    from seqformats.arrays import lookup

    monkeypatch.delitem(lookup._made_of, "cupy", raising=False)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(sf.ConversionError, match="cupy cannot be imported.*pip install cupy"):
        sf.to(sf.Ragged(np.arange(3), [1, 2]), "cupy")


@pytest.mark.passes("interpreted", reason="there is the simulator")
def test_there_and_back():
    pytest.importorskip("numba.cuda")
    for kind in oracle.ENCODINGS:
        x = oracle.build(kind, strategies.truth_from([2, 0, 3], "f4", (2,)))
        there = sf.to(x, "numba")
        assert there.device == "cuda:0"
        oracle.assert_same(sf.to(there, "numpy"), x)


@pytest.mark.peers
class TestTensors:
    @every_encoding
    @given(data=st.data())
    def test_there_and_back(self, kind, data):
        torch = pytest.importorskip("torch")
        _, x = data.draw(strategies.encoded(kind))
        if x.dtype.kind in "SUM" or x.dtype == strategies.BFLOAT16:
            if x.dtype.kind in "SUM":
                with pytest.raises(TypeError, match="torch has no dtype"):
                    sf.to(x, "torch")
            return
        y = sf.to(x, "torch")
        assert isinstance(y._sample(), torch.Tensor)
        oracle.assert_same(sf.to(y, "numpy"), sf.astype(x, x.dtype.newbyteorder("=")))

    def test_memory(self):
        x = sf.Ragged(np.arange(3.0), [1, 2])
        y = sf.to(x, "torch")
        y.data[0] = 7
        assert x.data[0] == 7
        assert np.shares_memory(sf.to(y, "numpy").data, x.data)
        x.data.flags.writeable = False
        z = sf.to(x, "torch")  # which would warn of memory that is read-only
        z.data[0] = 9
        assert x.data[0] == 7

    def test_a_graph_does_not_leave_its_library(self):
        torch = pytest.importorskip("torch")
        x = sf.Ragged(torch.ones(3, requires_grad=True), [1, 2])
        with pytest.raises(TypeError, match="give data.detach()"):
            sf.to(x, "numpy")
        sf.to(x, "torch", dtype=torch.float64).data.sum().backward()
        sf.astype(x, torch.bfloat16).data.sum().backward()
        assert x.data.grad.tolist() == [2, 2, 2]

    def test_dtypes_of_both(self):
        torch = pytest.importorskip("torch")
        assert sf.astype(sf.Ragged(np.arange(3), [3]), torch.float32).dtype == np.float32
        assert sf.astype(sf.Ragged(torch.arange(3), [3]), np.float32).dtype is torch.float32
        assert sf.convert([[1], [2, 3]], sf.Masked, library="torch", dtype="bfloat16").dtype is torch.bfloat16
        assert sf.convert([np.arange(2)], sf.Padded, library="torch", dtype=torch.int32).dtype is torch.int32
        assert sf.convert([], sf.Ragged, library="torch").dtype is torch.float64
        _, pullback = sf.vjp(sf.convert, [[1], [2, 3]], sf.Masked, library="torch", dtype="f4")
        assert pullback(torch.ones(2, 2)) == [[1.0], [1.0, 1.0]]
