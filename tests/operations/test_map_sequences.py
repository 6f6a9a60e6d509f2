"""Functions of the caller over every sequence, plain and compiled."""

import numba
import numpy as np
import oracle
import pipeline_oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


def total(sequence):
    return sequence.sum()


def twice(sequence):
    return np.concatenate((sequence, sequence))


def ends(sequence):
    return np.array([sequence.sum(), sequence.size])


def pairs(sequence):
    return np.stack((sequence, sequence), 1)


def fails(sequence):
    if sequence.size == 1:
        raise ValueError("one item")
    return sequence.sum()


def uneven(sequence):
    return np.zeros((1, sequence.size))


COMPILED = {f: [f, numba.njit(nogil=True)(f)] for f in (total, twice, ends, pairs, fails, uneven)}
ways = pytest.mark.parametrize("way", [0, 1], ids=["plain", "compiled"])


@every_format
@given(data=st.data())
def test_sequences_of_any_length(arrays, kind, data):
    """Every second item, then all of them backwards: any dtype, any item."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of([np.dtype(c) for c in ("f4", "i8", "?", "c16")])))
    found = arrays.on(lambda y: sf.map_sequences(lambda s: s[::2], y, result="sequence"))(x)
    if truth.sequences():
        wanted = pipeline_oracle.mapped(truth, lambda items: items[::2])
        (
            oracle.assert_nested(found, oracle.nested(wanted, "scalars"))
            if kind is list and not truth.item_shape and not oracle.arrays_of(x)
            else None
            if kind is list
            else oracle.assert_holds(found, wanted)
        )


@every_encoding
@ways
def test_every_encoding(kind, way):
    truth = strategies.truth_from([2, 0, 3, 1], "f8")
    x = oracle.build(kind, truth)
    wanted = [float(np.sum(sequence)) for sequence in truth.sequences()]
    rows = sf.map_sequences(COMPILED[total][way], x)
    assert rows.tolist() == wanted
    oracle.assert_holds(
        sf.map_sequences(COMPILED[twice][way], x), pipeline_oracle.mapped(truth, lambda items: items + items)
    )
    counts = sf.map_sequences(COMPILED[ends][way], x, result="item")
    assert counts.tolist() == [[float(np.sum(s)), len(s)] for s in truth.sequences()]
    y = sf.map_sequences(COMPILED[pairs][way], x)
    assert (type(y), y.item_shape) == (kind, (2,))
    assert sf.lengths(y).tolist() == truth.lengths()


@ways
def test_levels_stay(way):
    x = [[[1, 2], [3]], [], [[]]]
    assert sf.map_sequences(COMPILED[total][way], x) == [[3, 3], [], [0]]
    assert sf.map_sequences(COMPILED[twice][way], x) == [[[1, 2, 1, 2], [3, 3]], [], [[]]]
    y = sf.map_sequences(COMPILED[total][way], sf.LoD.from_nested(x))
    assert (y.to_nested(), len(y.lod)) == ([[3, 3], [], [0]], 1)
    found = sf.map_sequences(COMPILED[twice][way], [np.arange(2), np.arange(1)])
    assert [item.tolist() for item in found] == [[0, 1, 0, 1], [0, 0]]


@ways
@pytest.mark.parametrize("dtype", ["f4", "?", ">f8"])
def test_dtypes(way, dtype):
    x = sf.Ragged(strategies.counting(dtype, (5,)), [2, 0, 3])
    found = sf.map_sequences(COMPILED[twice][way], x)
    assert found.dtype == np.dtype(dtype).newbyteorder("=") or way == 0
    assert found.data.tolist() == twice(x.data[:2]).tolist() + twice(x.data[2:]).tolist()


@ways
def test_the_shape_of_nothing(way):
    for x in ([], sf.Ragged(np.zeros(0, "f4"), []), sf.LoD(np.zeros(0), [[0, 0], [0]])):
        found = sf.map_sequences(COMPILED[total][way], x)
        rows = found if not isinstance(found, sf.LoD) else found.data
        assert (rows.dtype, rows.shape) == (np.float64, (0,))
    x = sf.Ragged(np.zeros(0, "f4"), [])
    found = sf.map_sequences(COMPILED[total][way], x, like=np.zeros((3, 2), "i4"))
    assert (found.dtype, found.shape) == (np.int32, (0, 2))
    found = sf.map_sequences(COMPILED[total][way], x, result="sequence", like=np.zeros((3, 2), "i4"))
    assert (type(found), found.dtype, found.item_shape) == (sf.Ragged, np.int32, (2,))


@ways
def test_an_error_says_where(way):
    x = sf.Ragged(np.arange(6.0), [2, 3, 1])
    with pytest.raises(ValueError, match="one item") as caught:
        sf.map_sequences(COMPILED[fails][way], x)
    assert caught.value.__notes__ == ["map_sequences had called the function with sequence 2"]


@ways
def test_results_that_do_not_fit(way):
    x = sf.Ragged(np.arange(6.0), [2, 3, 1])
    with pytest.raises(sf.StructureError, match=r"result of sequence 1 has .*shape"):
        sf.map_sequences(COMPILED[twice][way], x, result="item")
    with pytest.raises(sf.StructureError, match=r"sequence 1 ha(s|ve) "):
        sf.map_sequences(COMPILED[uneven][way], x)
    with pytest.raises(sf.StructureError, match="at least one axis"):
        sf.map_sequences(COMPILED[total][way], x, result="sequence")


@ways
def test_a_batch_that_uses_threads(way):
    lengths = np.random.default_rng(0).integers(0, 90, 3000)
    x = sf.Ragged(np.arange(lengths.sum()), lengths)
    oracle.assert_bits(sf.map_sequences(COMPILED[total][way], x), sf.reduce_sum(x))
    oracle.assert_layout(sf.map_sequences(COMPILED[twice][way], x), sf.concat([x, x]))


def test_a_function_that_keeps_the_gil():
    x = sf.Ragged(np.arange(100_000.0), np.full(1000, 100))
    assert np.allclose(sf.map_sequences(numba.njit(total), x), sf.reduce_sum(x))


@pytest.mark.passes("compiled", reason="threads run blocks where code is compiled")
def test_an_error_in_a_thread_says_where():
    x = sf.Ragged(np.arange(200_000.0), [*[100] * 1999, 99, 1])
    with pytest.raises(ValueError, match="one item") as caught:
        sf.map_sequences(COMPILED[fails][1], x)
    assert caught.value.__notes__[-1].endswith("sequence 2000")


ERRORS = {
    sf.ConversionError: {'result must be "auto"': lambda x: sf.map_sequences(total, x, result="list")},
    sf.StructureError: {
        "dtype": lambda x: sf.map_sequences(lambda s: s.astype("f4" if s.size else "f8"), x),
        "like must have the axes": lambda x: sf.map_sequences(total, [], like=np.array(1)),
    },
    TypeError: {
        "takes a function first": lambda x: sf.map_sequences(x, total),
        "result of sequence 0 must be an array or a number, not None": lambda x: sf.map_sequences(lambda s: None, x),
        "others numbers": lambda x: sf.map_sequences(lambda s: s if s.size else 1.0, x),
        "no single batch": lambda x: sf.map_sequences(total, 3),
    },
}
ERRORS = [(error, said, call) for error, calls in ERRORS.items() for said, call in calls.items()]


@pytest.mark.parametrize(("error", "said", "call"), ERRORS, ids=[said for _, said, _ in ERRORS])
def test_errors(error, said, call):
    with pytest.raises(error, match=said):
        call(sf.Ragged(np.arange(3.0), [2, 0, 1]))


@pytest.mark.passes("compiled", reason="interpreted, no function is compiled")
def test_functions_that_do_not_compile():
    x = sf.Ragged(np.arange(3.0), [2, 0, 1])
    with pytest.raises(TypeError, match="does not take array"):
        sf.map_sequences(numba.njit(lambda s: s.nonsense), x)
    with pytest.raises(TypeError, match="neither an array nor a number"):
        sf.map_sequences(numba.njit(lambda s: (s, s)), x)


@pytest.mark.peers
def test_tensors():
    torch = pytest.importorskip("torch")
    data = torch.arange(6.0, requires_grad=True)
    x = sf.Ragged(data, [2, 3, 1])
    for kind in oracle.ENCODINGS:
        data.grad = None
        y = sf.convert(x, kind)
        rows = sf.map_sequences(lambda s: (s * s).sum(), y)
        rows.sum().backward()
        assert data.grad.tolist() == (2 * data.detach()).tolist(), kind
        data.grad = None
        sf.map_sequences(lambda s: s.repeat(2), y)._leaves()[0].sum().backward()
        assert data.grad[0] == 2
    with pytest.raises(TypeError, match="has no gradient"):
        sf.map_sequences(COMPILED[total][1], x)
    found = sf.map_sequences(COMPILED[total][1], sf.Ragged(data.detach(), [2, 3, 1]))
    assert torch.equal(found, torch.tensor([1.0, 9.0, 5.0]))


@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
@pytest.mark.parametrize("compile_it", [False, True])
def test_functions_of_several_batches(kind, compile_it):
    """Of other lengths, items and dtypes, in every encoding beside others; results are as the first is."""
    compiled = numba.njit if compile_it else lambda function: function
    lengths, others = [2, 0, 3], [1, 2, 4]
    x = sf.convert(sf.Ragged(np.arange(5.0), lengths), kind)
    y = sf.convert(sf.Ragged(np.arange(14).reshape(7, 2), others), sf.Packed)
    z = [[1, 2], [3], []]
    total = compiled(lambda a, b, c: a.sum() + b.sum() - c.sum())
    ends = [(0, 1), (1, 3), (3, 7)]
    wanted = [
        sum(a) + y.sum() - sum(c)
        for a, y, c in zip(
            ([0.0, 1], [], [2.0, 3, 4]), [np.arange(14).reshape(7, 2)[a:b] for a, b in ends], z, strict=True
        )
    ]
    assert sf.map_sequences(total, x, y, z).tolist() == wanted
    pairs = compiled(lambda a, b: np.concatenate((a, a + len(b))))
    found = sf.map_sequences(pairs, x, y)
    assert type(found) is kind
    assert sf.convert(found, list) == [[0, 1, 1, 2], [], [2, 3, 4, 6, 7, 8]]


def test_batches_that_do_not_fit_each_other():
    x, two = sf.Ragged(np.arange(3.0), [2, 1]), sf.LoD(np.arange(3.0), [[0, 1, 2], [0, 2, 3]])
    with pytest.raises(sf.StructureError, match="batch 1 has 1 sequences, but batch 0 has 2"):
        sf.map_sequences(np.dot, x, [[1.0]])
    with pytest.raises(sf.StructureError, match="batch 1 has other outer levels"):
        sf.map_sequences(np.dot, two, sf.LoD(np.arange(3.0), [[0, 2, 2], [0, 2, 3]]))
