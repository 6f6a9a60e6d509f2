"""Batches as arrays under names, and what is made of arrays that are not right."""

import io

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


def saved(arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return np.load(io.BytesIO(file.getvalue()), allow_pickle=False)


@every_encoding
@given(data=st.data())
def test_there_and_back(arrays, kind, data):
    _, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    prefix = data.draw(st.sampled_from(["", "tokens."]))
    found = sf.to_arrays(arrays.up(x), prefix)
    assert all(key.startswith(prefix) for key in found)
    oracle.assert_layout(arrays.down(sf.from_arrays(found, prefix)), x)


@every_encoding
@given(data=st.data())
def test_a_file(kind, data):
    _, x = data.draw(strategies.encoded(kind, kinds=[d for d in strategies.DTYPES if d != strategies.BFLOAT16]))
    with saved({**sf.to_arrays(x, "x."), **sf.to_arrays(sf.Pairs(x, np.arange(len(x))), "y."), "z": np.zeros(1)}) as f:
        oracle.assert_layout(sf.from_arrays(f, "x."), x)
        pairs = sf.from_arrays(f, "y.")
        oracle.assert_layout(pairs.one, x)
        assert pairs.two.tolist() == list(range(len(x)))


def test_pairs_in_pairs_and_lists():
    x = sf.Pairs(sf.Pairs(np.arange(2), [[1], [2, 3]]), [np.arange(2), np.arange(1)])
    y = sf.from_arrays(sf.to_arrays(x))
    assert y.one.two.to_nested() == [[1], [2, 3]]
    assert sf.equal(x, y)


def test_a_mapped_file_stays_one(tmp_path):
    arrays = sf.to_arrays(sf.Ragged(np.arange(6.0), [2, 4]))
    np.save(tmp_path / "data.npy", arrays["data"])
    mapped = np.load(tmp_path / "data.npy", mmap_mode="r")
    assert np.shares_memory(sf.from_arrays({**arrays, "data": mapped}).data, mapped)


def deep():
    return sf.to_arrays(sf.LoD(np.arange(8.0), [[0, 2, 4], [0, 3, 6, 7, 8]]))


def text(word):
    return np.frombuffer(word, np.uint8)


ERRORS = {
    sf.StructureError: {
        "there is no 'format'": {},
        "there is no 'format', .*there are: 'data'": {"data": np.zeros(3)},
        r"version is \[2\]": {**deep(), "version": np.array([2])},
        r"version is \[1.0\]": {**deep(), "version": np.array([1.0])},
        "must be text in ASCII": {**deep(), "format": text(b"\xc8")},
        "format is 'Encoding', which is no encoding": {**deep(), "format": text(b"Encoding")},
        "format is 'os', which": {**deep(), "format": text(b"os")},
        "'x', 'y' have no place there": {**deep(), "x": np.zeros(1), "y": np.zeros(1)},
        r"'lod.0' has not been given; there are: 'data', 'lod.1'": {k: v for k, v in deep().items() if k != "lod.0"},
        r"'data' has not been given": {k: v for k, v in deep().items() if k != "data"},
        "must end with": {**deep(), "data": np.zeros(3)},
    },
    TypeError: {
        "data must be an array, not int": {**deep(), "data": 3},
        "lod.0. must be integers, not float64": {**deep(), "lod.0": np.zeros(3)},
        "format must be text": {**deep(), "format": np.zeros(3)},
        "Python objects": {**deep(), "data": np.array([None] * 8)},
    },
}

ERRORS = [(error, said, given) for error, calls in ERRORS.items() for said, given in calls.items()]


@pytest.mark.parametrize(("error", "said", "given"), ERRORS, ids=[said for _, said, _ in ERRORS])
def test_errors(error, said, given):
    with pytest.raises(error, match=said):
        sf.from_arrays(given)


def test_what_is_neither():
    for call in (
        lambda: sf.from_arrays([1]),
        lambda: sf.from_arrays({}, 3),
        lambda: sf.to_arrays(3),
        lambda: sf.to_arrays([[1]], 3),
        lambda: sf.to_arrays(None),
    ):
        with pytest.raises(TypeError, match="mapping|prefix|to_arrays takes"):
            call()


KINDS = (sf.SeqFormatError, TypeError, IndexError, MemoryError)


@every_encoding
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_arrays_that_are_broken(kind, data, seed):
    """Whatever is changed, what comes back is valid, or there is an error of a documented kind that says something."""
    _, x = data.draw(strategies.encoded(kind))
    arrays = sf.to_arrays(sf.Pairs(x, x) if seed % 3 == 0 else x)
    rng = np.random.default_rng(seed)
    for _ in range(int(rng.integers(1, 4))):
        key = list(arrays)[int(rng.integers(len(arrays)))] if arrays else "data"
        broken(arrays, key, rng)
    try:
        y = sf.from_arrays(arrays)
    except KINDS as error:
        assert str(error)
    else:
        for part in (y.one, y.two) if isinstance(y, sf.Pairs) else (y,):
            if isinstance(part, oracle.ENCODINGS):
                oracle.read(part)


def broken(arrays, key, rng):
    array = np.array(arrays.pop(key, np.zeros(1)))
    way = int(rng.integers(8))
    if way == 0:
        return
    if way == 1:
        key = ["data", "lengths", "lod.9", "one.", "version", "", "lod.-1", "side"][int(rng.integers(8))]
    if way == 2 and array.size and not array.dtype.hasobject:
        flat = array.reshape(-1).view(np.uint8)
        if flat.size:
            flat[int(rng.integers(flat.size))] ^= 1 << int(rng.integers(8))
    if way == 3:
        array = array.reshape(-1)[: array.size // 2]
    if way == 4:
        array = array[None]
    if way == 5 and array.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):
            array = array.astype(["f4", "u1", "u8", ">i8", "?"][int(rng.integers(5))])
    if way == 6:
        array = [None, 3, "text", [1, 2], b"", {}][int(rng.integers(6))]
    if way == 7 and array.dtype.kind in "iu" and array.size:
        array = array.copy()
        with np.errstate(all="ignore"):
            array.reshape(-1)[int(rng.integers(array.size))] = np.array(-1).astype(array.dtype)
    arrays[key] = array


@pytest.mark.peers
def test_tensors():
    torch = pytest.importorskip("torch")
    for kind in oracle.ENCODINGS:
        x = sf.convert([torch.ones(2), torch.zeros(1)], kind)
        found = sf.to_arrays(x)
        assert all(isinstance(array, torch.Tensor) for array in found.values())
        assert sf.equal(sf.from_arrays(found), x)
