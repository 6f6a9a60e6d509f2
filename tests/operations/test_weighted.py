"""Weighted sums and means, and the gradients of both."""

import numpy as np
import oracle
import pytest
import strategies
from checks import rows, with_rows
from conftest import INTERPRETED
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
of_both = pytest.mark.parametrize("operation", [sf.reduce_sum, sf.reduce_mean], ids=lambda f: f.__name__)
WEIGHED = [np.dtype(code) for code in ("f2", "f4", "f8", ">f8", "?", "i2", "i8", "u1")]


def weights_for(data, truth, own):
    """Some of them zero, as flat rows."""
    shape = (truth.rows(), *(truth.item_shape if own else ()))
    seed = data.draw(st.integers(0, 99))
    dtype = data.draw(st.sampled_from(["f4", "f8", "i8", "?"]))
    return np.random.default_rng(seed).integers(-1, 4, shape).astype(dtype)


def slow(operation, truth, weights, empty):
    """Sequence by sequence in Python."""
    found, begin = [], 0
    for sequence in truth.sequences():
        total, mass = np.zeros(truth.item_shape), np.zeros(truth.item_shape)
        for t, item in enumerate(sequence):
            total = total + np.asarray(item, "f8") * weights[begin + t].astype("f8")
            mass = mass + weights[begin + t]
        if operation is sf.reduce_mean:
            total = np.where(mass == 0, empty, total / np.where(mass == 0, 1, mass))
        found.append(total if len(sequence) else np.full(truth.item_shape, empty))
        begin += len(sequence)
    return np.array(found).reshape(len(found), *truth.item_shape)


@of_both
@every_format
@given(data=st.data())
def test_against_plain_python(arrays, kind, operation, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(WEIGHED), shapes=[(), (2,), (5,), (0,)]))
    if not np.isfinite(truth.data().astype("f8")).all() or np.abs(truth.data().astype("f8")).max(initial=0) > 1e4:
        return
    own = data.draw(st.booleans())
    weights = weights_for(data, truth, own)
    given_as = data.draw(st.sampled_from([None, sf.Ragged, sf.Padded, sf.Packed, sf.List]))
    lengths = [len(sequence) for sequence in truth.sequences()]
    theirs = weights if given_as is None else sf.convert(sf.Ragged(weights, lengths), given_as)
    empty = data.draw(st.sampled_from([0.0, 7.0]))
    beside = arrays.beside(x, theirs) if data.draw(st.booleans()) else theirs  # NumPy's go with all libraries
    found = arrays.on(lambda x: operation(x, weights=beside, empty=empty))(x)
    if isinstance(found, list):
        return  # nested lists without items keep no item shape
    found = found.data if isinstance(found, sf.LoD) else found
    floats = truth.dtype.kind == "f"
    assert found.dtype == (truth.dtype.newbyteorder("=") if floats else np.dtype("f8"))
    near = {"f2": 1e-2, "f4": 1e-4}.get(truth.dtype.str[1:], 1e-9)
    assert np.allclose(found, slow(operation, truth, weights, empty), rtol=near, atol=near * 100)


def vjp_on(arrays, operation, x, weights):
    """With both batches in the library, and NumPy's arrays outside."""
    y, pullback = sf.vjp(operation, arrays.up(x), weights=arrays.beside(x, weights))
    return arrays.down(y), lambda dy: tuple(arrays.down(dz) for dz in pullback(arrays.up(dy)))


@of_both
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("item", [(), (2,), (20,)])
@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
def test_gradients_against_finite_differences(arrays, kind, item, own, operation):
    rng = np.random.default_rng(0)
    lengths = [3, 0, 1, 5]
    x = sf.convert(sf.Ragged(rng.normal(size=(9, *item)), lengths), kind)
    weights = sf.convert(sf.Ragged(rng.uniform(0.5, 2, (9, *(item if own else ()))), lengths), kind)
    y, pullback = vjp_on(arrays, operation, x, weights)
    dy = rng.normal(size=y.shape)
    for side, dz in enumerate(pullback(dy)):
        batch = (x, weights)[side]
        assert type(dz) is kind
        way = rng.normal(size=rows(batch).shape)

        def at(step, side=side, way=way, batch=batch):
            moved = with_rows(batch, rows(batch) + step * way)
            both = (moved, weights) if side == 0 else (x, moved)
            return (operation(both[0], weights=both[1]) * dy).sum()

        slope = (at(1e-5) - at(-1e-5)) / 2e-5
        assert abs((rows(dz) * way).sum() - slope) < 1e-6 * (1 + abs(slope))


@of_both
@pytest.mark.parametrize("dtype", ["?", "i4", "u1"])
def test_masks_and_counts_have_no_gradient(arrays, operation, dtype):
    x, mask = sf.Ragged(np.arange(1.0, 6), [3, 0, 2]), np.array([1, 0, 1, 1, 0], dtype)
    y = arrays.on(operation)(x, weights=mask)
    wanted, back = sf.vjp(operation, x, weights=mask.astype("f8"))
    assert y.tolist() == wanted.tolist()
    dx, none = sf.vjp(operation, x, weights=mask)[1](np.ones(3))
    assert none is None
    assert dx.data.tolist() == back(np.ones(3))[0].data.tolist()


@of_both
def test_a_weight_of_one_changes_nothing(operation):
    rng = np.random.default_rng(1)
    lengths = [1, 7, 8, 9, 31, 32, 33, 0, 100, 1029]
    for width in (1, 4, 33, 65):
        for dtype in ("f4", "f8"):
            x = sf.Ragged(rng.normal(size=(sum(lengths), width)).astype(dtype), lengths)
            for shape in ((), (width,)):
                found = operation(x, weights=np.ones((sum(lengths), *shape), dtype))
                if operation is sf.reduce_sum:
                    oracle.assert_bits(found, operation(x))
                else:
                    np.testing.assert_array_max_ulp(found, operation(x), 1)


@of_both
@pytest.mark.parametrize("width", [1, 5, 40])
@pytest.mark.usefixtures("threads_for_all")
def test_neighbours_threads_and_encodings_do_not_matter(operation, width):
    rng = np.random.default_rng(2)
    lengths = [7, 0, 301, 1, 64]
    x = sf.Ragged(rng.normal(size=(sum(lengths), width)).astype("f4"), lengths)
    weights = sf.Ragged(rng.random(sum(lengths)).astype("f4"), lengths)
    alone = np.concatenate([operation(x[i], weights=weights[i]) for i in range(5)])
    sf.set_num_threads(3)
    for kind in oracle.ENCODINGS:
        oracle.assert_bits(operation(sf.convert(x, kind), weights=weights), alone)
        oracle.assert_bits(operation(x, weights=sf.convert(weights, kind)), alone)


def test_many_rows_lose_nothing():
    rows, tenth = 20_000 if INTERPRETED else 1_000_000, float(np.float32(0.1))
    x, weights = sf.Ragged(np.full(rows, 1e8, "f4"), [rows]), np.full(rows, 0.1, "f4")
    assert abs(sf.reduce_sum(x, weights=weights)[0] / (rows * 1e8 * tenth) - 1) < 1e-6
    assert abs(sf.reduce_mean(x, weights=weights)[0] / 1e8 - 1) < 1e-6


def test_weights_that_add_up_to_zero():
    x = sf.Ragged(np.arange(1.0, 7).reshape(6, 1), [2, 2, 0, 2])
    weights = np.array([1.0, 1, 2, -2, 0, 0])
    assert sf.reduce_mean(x, weights=weights)[:, 0].tolist() == [1.5, 0, 0, 0]
    assert sf.reduce_mean(x, weights=weights, empty=9)[:, 0].tolist() == [1.5, 9, 9, 9]
    assert sf.reduce_sum(x, weights=weights, empty=9)[:, 0].tolist() == [3, -2, 9, 0]
    with pytest.raises(sf.StructureError, match="the weights of sequence 1 add up to 0; give empty"):
        sf.reduce_mean(x[[0, 1]], weights=weights[:4], empty="raise")
    with pytest.raises(sf.StructureError, match="sequence 2 is empty"):
        sf.reduce_mean(x, weights=weights, empty="raise")
    dx, dw = sf.vjp(sf.reduce_mean, x, weights=weights)[1](np.ones((4, 1)))
    assert dx.data[2:].tolist() == [[0]] * 4
    assert dw[2:].tolist() == [0] * 4
    wide = sf.Ragged(np.ones((2, 2)), [2])
    own = np.array([[1.0, 1.0], [1.0, -1.0]])
    assert sf.reduce_mean(wide, weights=own, empty=-1).tolist() == [[1, -1]]
    with pytest.raises(sf.StructureError, match="sequence 0"):
        sf.reduce_mean(wide, weights=own, empty="raise")


def test_weights_of_every_kind():
    x, wanted = sf.Ragged(np.array([1, 2, 3]), [2, 1]), [2, 6]
    for weights in ([[1.0, 0.5], [2.0]], [np.array([1, 0.5]), np.array([2.0])], np.array([1, 0.5, 2], "f4")):
        assert sf.reduce_sum(x, weights=weights).tolist() == wanted
    deep = sf.LoD(np.array([1.0, 2.0, 3.0]), [[0, 2], [0, 2, 3]])
    found = sf.reduce_sum(deep, weights=np.array([1.0, 0.5, 2.0]))
    assert found.to_nested() == [[2.0, 6.0]]
    assert sf.reduce_sum([[[1, 2]], [[3]]], weights=[[[1.0, 0.5]], [[2.0]]]) == [[2.0], [6.0]]
    dx, dw = sf.vjp(sf.reduce_sum, [[1.0, 2.0], [3.0]], weights=[[1.0, 0.5], [2.0]])[1](np.ones(2))
    assert (dx, dw) == ([[1.0, 0.5], [2.0]], [[1.0, 2.0], [3.0]])
    assert sf.reduce_sum(sf.Ragged(np.zeros(0), []), weights=np.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        (np.ones(2), sf.StructureError, r"weights have shape \(2,\), but there are 3 items"),
        (np.ones(()), sf.StructureError, "weights have shape"),
        (np.ones((3, 2)), sf.StructureError, r"weights have item shape \(2,\), but must have \(\) or \(4,\)"),
        (sf.Ragged(np.ones(3), [1, 2]), sf.StructureError, r"lengths \[1, 2\], but x has \[2, 1\]"),
        (np.ones(3, complex), TypeError, "weights have dtype complex128; give them a float dtype"),
        (np.ones(3, "c8"), TypeError, "weights have dtype complex64"),
        (np.array(["a"] * 3), TypeError, "float dtype"),
        (3.0, TypeError, "float"),
    ],
)
@of_both
def test_weights_that_do_not_fit(operation, weights, error, words):
    x = sf.Ragged(np.ones((3, 4)), [2, 1])
    for call in (operation, lambda *args, **options: sf.vjp(operation, *args, **options)):
        with pytest.raises(error, match=words):
            call(x, weights=weights)


@of_both
def test_items_without_weights(operation):
    with pytest.raises(TypeError, match="complex64 take no weights"):
        operation(sf.Ragged(np.ones(3, "c8"), [3]), weights=np.ones(3))
    with pytest.raises(TypeError, match="cannot be added up"):
        operation(sf.Ragged(np.zeros(3, "S2"), [3]), weights=np.ones(3))
    with pytest.raises(TypeError, match="a weighted sum of int64 has no gradient"):
        sf.vjp(operation, sf.Ragged(np.ones(3, int), [3]), weights=np.ones(3))
