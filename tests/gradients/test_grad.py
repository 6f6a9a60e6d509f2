"""Gradients: the transpose of every conversion, finite differences, and the structure of what comes back."""

import sys

import libraries
import numpy as np
import oracle
import pytest
import strategies
from checks import dot, filled_like, rows, structure_of
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats import registry

every_source = pytest.mark.parametrize("source", oracle.ENCODINGS, ids=oracle.format_name)
every_target = pytest.mark.parametrize("target", oracle.ENCODINGS, ids=oracle.format_name)
every_kind = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
FLOAT = [np.dtype("f8")]


def example(kind, dtype="f8", item_shape=(2,), lengths=(2, 0, 3)):
    return oracle.build(kind, strategies.truth_from(list(lengths), dtype, item_shape))


def lod(dtype="f8"):
    return oracle.build(sf.LoD, strategies.truth_from([[2, 0], [], [3]], dtype, (2,), levels=2))


# ---------------------------------------------------------------------------------------------- transposes


def assert_transposes(x, y, pullback, seed):
    """<dy, J x> == <J^T dy, x>, exactly, and the gradient has the structure of x."""
    dy = filled_like(y, seed)
    dx = pullback(dy)
    assert structure_of(dx) == structure_of(x)
    assert oracle.read(dx).item_shape == oracle.read(x).item_shape
    assert dot(dy, y) == dot(dx, x)


@every_source
@every_target
@given(data=st.data())
def test_conversions_are_transposed(arrays, source, target, data):
    truth, x = data.draw(strategies.encoded(source, kinds=FLOAT))
    x = filled_like(x, 1)
    options = data.draw(strategies.padding_options(truth.at(-1), target)) if target in oracle.PADDED else {}
    options.pop("fill", None)
    if source is sf.LoD and target is not sf.LoD and data.draw(st.booleans()):
        options["level"] = data.draw(st.integers(-truth.levels, truth.levels - 1))
        options.pop("width", None), options.pop("truncate", None)
    y, pullback = arrays.vjp(sf.convert, x, target, **options)
    oracle.assert_layout(y, sf.convert(x, target, **options))
    assert_transposes(x, y, pullback, 2)


@every_target
@given(data=st.data())
def test_nested_lists_are_transposed(target, data):
    truth, x = data.draw(strategies.encoded(list, kinds=FLOAT))
    y, pullback = sf.vjp(sf.convert, x, target)
    dy = filled_like(y, 3)
    dx = pullback(dy)
    assert type(dx) is type(x)
    assert oracle.infer(dx).rows() == truth.rows()
    assert np.array_equal(rows(dx).reshape(-1), rows(dy).reshape(-1)) or not truth.rows()


@every_source
@given(data=st.data())
def test_dy_may_come_in_any_encoding(arrays, source, data):
    _, x = data.draw(strategies.encoded(source, kinds=FLOAT, levels=1))
    y, pullback = arrays.vjp(sf.convert, x, sf.Padded, width=40, truncate=True, multiple_of=3)
    dy = filled_like(y, 4)
    wanted = pullback(dy)
    for kind in oracle.ENCODINGS:
        dx = pullback(sf.convert(dy, kind))
        assert structure_of(dx) == structure_of(x)
        assert np.array_equal(rows(dx), rows(wanted))
    assert np.array_equal(rows(pullback(dy.data)), rows(wanted)), "an array laid out like y's data"


@every_source
def test_the_gradient_of_truncation_is_zero_where_items_were_cut(arrays, source):
    x = example(source)
    for target in oracle.PADDED:
        _, pullback = arrays.vjp(sf.convert, x, target, width=1, truncate=True)
        dx = rows(pullback(sf.Ragged(np.ones((2, 2)), [1, 0, 1])))
        assert dx.tolist() == [[1, 1], [0, 0], [1, 1], [0, 0], [0, 0]]


@every_source
def test_padding_has_no_gradient(arrays, source):
    """Neither does what dy holds in the padding reach dx, nor has dx something in its own padding."""
    x = example(source)
    for side in ("right", "left"):
        y, pullback = arrays.vjp(sf.convert, x, sf.Masked, width=5, side=side, fill=3)
        dy = np.where(y.mask[..., None], np.ones_like(y.data), np.nan)
        dx = pullback(dy)
        assert np.all(rows(dx) == 1)
        if source in oracle.PADDED:
            assert dx.data.sum() == rows(x).size


def test_the_structure_is_the_inputs_own():
    """Columns of Padded and Packed, width and side of Masked, levels of a LoD."""
    padded = sf.Padded(np.arange(6.0).reshape(3, 2), [2, 2, 0], [2, 2], [1, 0])
    packed = sf.Packed(np.arange(4.0), [2, 2], [2, 2], [1, 0])
    masked = sf.Masked(np.zeros((2, 7)), [1, 3], "left")
    levels = sf.LoD(np.arange(3.0), [[0, 2], [0, 1, 3]])
    for x in (padded, packed, masked, levels):
        for target in oracle.ENCODINGS:
            y, pullback = sf.vjp(sf.convert, x, target)
            dx = pullback(filled_like(y, 5))
            assert structure_of(dx) == structure_of(x)
            assert dot(filled_like(y, 5), y) == dot(dx, x)


def test_convert_like_is_transposed():
    x = lod()
    for kind in oracle.ENCODINGS:
        y = example(kind, lengths=(2, 0, 3))
        z, pullback = sf.vjp(sf.convert_like, y, x)
        assert structure_of(z) == structure_of(x)
        assert_transposes(y, z, pullback, 6)


def test_pairs():
    x = sf.Pairs(example(sf.Ragged), example(sf.Masked, item_shape=()))
    y, pullback = sf.vjp(sf.convert, x, sf.Padded)
    dx = pullback(sf.Pairs(filled_like(y.one, 7), filled_like(y.two, 8)))
    assert structure_of(dx.one) == structure_of(x.one)
    assert structure_of(dx.two) == structure_of(x.two)
    assert rows(dx.one).tolist() == rows(filled_like(y.one, 7)).tolist()


def test_bare_lists_get_bare_lists():
    arrays = [np.array([1.0, 2.0]), np.array([3.0])]
    for x in (arrays, tuple(arrays)):
        _, pullback = sf.vjp(sf.convert, x, sf.Masked)
        dx = pullback(np.array([[1.0, 2.0], [3.0, 9.0]]))
        assert type(dx) is type(x)
        assert [item.tolist() for item in dx] == [[1, 2], [3]]
    _, pullback = sf.vjp(sf.convert, [[1.0, 2.0], [3.0]], sf.Masked)
    assert pullback(np.array([[1.0, 2.0], [3.0, 9.0]])) == [[1.0, 2.0], [3.0]]


@every_kind
def test_nothing_to_do_has_a_gradient_too(kind):
    x = example(kind)
    y, pullback = sf.vjp(sf.convert, x, kind)
    assert y is x
    assert_transposes(x, y, pullback, 9)
    y, _ = sf.vjp(sf.convert, x, kind, copy=True)
    assert not oracle.shares(x, y)


# ---------------------------------------------------------------------------------------- finite differences


# --------------------------------------------------------------------------------------- dtypes and errors


@pytest.mark.parametrize("dtype", ["i8", "u1", "?", "<U3", "M8[s]", "f2"])
@every_source
def test_moves_work_on_any_dtype(source, dtype):
    x = example(source, dtype)
    for target in oracle.ENCODINGS:
        y, pullback = sf.vjp(sf.convert, x, target)
        dx = pullback(y)
        oracle.assert_same(dx, x)


MOVES = (  # which leave no item out
    *((sf.reverse,), (sf.reshape, 1), (sf.slice, 0, [2, 0, 3]), (sf.cut, 0, 9), (sf.truncate, 3), (sf.shift, 0)),
    *((sf.reorder, [2, 0, 1]), (sf.select, [True] * 3), (sf.split_batches, [1, 0, 2]), (sf.chunk, 2)),
    (sf.TensorArray.unpack,),
)


@pytest.mark.parametrize("dtype", ["i8", "?", "<U3", "M8[s]", "f2", ">f4"])
@every_kind
def test_moves_have_a_pullback_for_any_dtype(kind, dtype):
    x = example(kind, dtype)
    for op, *args in MOVES:
        y, pullback = sf.vjp(op, x, *args)
        oracle.assert_same(pullback(y), x)
    y, pullback = sf.vjp(sf.sort_by_length, x)
    oracle.assert_same(pullback(y[0]), x)
    for op in (sf.concat, sf.interleave, sf.join_batches):
        for part in sf.vjp(op, [x, x])[1](op([x, x])):
            oracle.assert_same(part, x)
    for op, args, kept in ((sf.slice, ([1, 0, 2], [1, 0, 1]), [1, 4]), (sf.truncate, (1,), [0, 2])):
        y, pullback = sf.vjp(op, x, *args)
        dx = oracle.read(pullback(y)).data()
        oracle.assert_bits(dx[kept], oracle.read(x).data()[kept])
        assert not any(np.delete(dx, kept, 0).tobytes())


@pytest.mark.parametrize("dtype", ["i8", "?", "<U3", "M8[s]", ">f4"])
@every_kind
def test_steps_and_chunks_come_back_in_any_dtype(kind, dtype):
    x = example(kind, dtype)
    steps = sf.TensorArray.unpack(x)
    y, pullback = sf.vjp(sf.TensorArray.pack, steps)
    for found, wanted in zip(pullback(y), steps, strict=True):
        oracle.assert_bits(found, wanted)
    for last in ("keep", "pad"):
        chunks, pullback = sf.vjp(sf.chunk, x, 2, last=last)
        oracle.assert_same(pullback(chunks), x)
        z, pullback = sf.vjp(sf.unchunk, chunks)
        oracle.assert_same(sf.convert(z, sf.Ragged), sf.convert(x, sf.Ragged))
        oracle.assert_same(sf.unchunk(pullback(z)), z)


UNFIT = {
    "rows": np.zeros((9, 2)),
    "item": np.zeros((5, 3)),
    "flat": np.zeros(10),
    "scalar": np.zeros(()),
    "lengths": sf.Ragged(np.zeros((5, 2)), [3, 0, 2]),
    "sequences": sf.Ragged(np.zeros((5, 2)), [2, 3]),
    "item shape": sf.Ragged(np.zeros((5, 3)), [2, 0, 3]),
    "list": [np.zeros((1, 2))],
    "padded": sf.Masked(np.zeros((3, 9, 2)), [2, 1, 3]),
}


@pytest.mark.parametrize("unfit", UNFIT)
@every_source
@every_target
def test_a_gradient_that_does_not_fit(source, target, unfit):
    _, pullback = sf.vjp(sf.convert, example(source), target)
    with pytest.raises(sf.StructureError, match="gradient"):
        pullback(UNFIT[unfit])


@pytest.mark.parametrize("dy", [None, 3, "text", object(), {}])
def test_a_gradient_of_a_wrong_kind(dy):
    for pullback in (sf.vjp(sf.convert, example(sf.Ragged), sf.Masked)[1], sf.vjp(sf.reduce_sum, example(sf.List))[1]):
        with pytest.raises(TypeError):
            pullback(dy)


@pytest.mark.parametrize("dtype", ["f4", "i8", "c16"])
def test_a_gradient_of_another_dtype(dtype):
    """Is it taken as it is, or refused?  It never comes back as bytes that mean something else."""
    _, pullback = sf.vjp(sf.convert, example(sf.Ragged), sf.Masked)
    try:
        dx = pullback(np.ones((3, 3, 2), dtype))
    except (sf.StructureError, TypeError):
        return
    assert rows(dx).tolist() == np.ones((5, 2)).tolist()


@pytest.mark.parametrize("op", [sf.lengths, sf.equal, np.sum, len, sf.explain, "convert", None, 3, []])
def test_operations_without_a_gradient(op):
    with pytest.raises(TypeError, match=r"has no gradient rule; .*sf\.operation makes one"):
        sf.vjp(op, example(sf.Ragged))


def test_errors_are_those_of_the_operation():
    x = example(sf.Ragged)
    for error, args, options in (
        (sf.ConversionError, (x, sf.Masked), {"width": 1}),
        (TypeError, (x, sf.Masked), {"bogus": 1}),
        (TypeError, (x, sf.Ragged), {"fill": 1}),
        (TypeError, (np.zeros(3), sf.Masked), {}),
        (TypeError, (x, 3), {}),
        (sf.ConversionError, (x, int), {}),
        (IndexError, (lod(), sf.Ragged), {"level": 5}),
    ):
        with pytest.raises(error) as plain:
            sf.convert(*args, **options)
        with pytest.raises(error) as differentiated:
            sf.vjp(sf.convert, *args, **options)
        assert str(differentiated.value) == str(plain.value)


def test_arguments_that_are_missing():
    for op, args, options in (
        (sf.convert, (), {}),
        (sf.convert, (example(sf.Ragged),), {}),
        (sf.convert_like, (example(sf.Ragged),), {}),
        (sf.reduce_sum, (), {}),
        (sf.reduce_sum, (example(sf.Ragged),), {"bogus": 1}),
    ):
        with pytest.raises(TypeError):
            sf.vjp(op, *args, **options)


# ------------------------------------------------------------------------------------------ rules of one's own


@pytest.mark.usefixtures("tables")
def test_a_pullback_of_ones_own():
    """It is used in place of the way back, alone and in a chain."""
    called = []

    def pullback(dy, x):
        called.append((type(dy), type(x)))
        return sf.Ragged(sf.convert(dy, sf.Ragged).data * 100, x.lengths)

    @sf.conversion(sf.Ragged, sf.Packed, pullback)
    def to_packed(x):
        return sf.convert(sf.convert(x, sf.Padded), sf.Packed)

    x = example(sf.Ragged)
    y, back = sf.vjp(sf.convert, x, sf.Packed)
    assert back(y).data.tolist() == (x.data * 100).tolist()
    assert called == [(sf.Packed, sf.Ragged)]
    y, back = sf.vjp(sf.convert, lod(), sf.Packed)
    assert structure_of(back(y)) == structure_of(lod())
    assert rows(back(y)).tolist() == (rows(lod()) * 100).tolist()


@pytest.mark.usefixtures("tables")
def test_a_rule_of_ones_own():
    def double(x):
        return x

    @registry.gradient(double)
    def rule(args, options):
        return args[0], lambda dy: dy * 2

    _, pullback = sf.vjp(double, 1)
    assert pullback(4) == 8
    with pytest.raises(TypeError, match="len has no gradient rule"):
        sf.vjp(len, 1)


def test_a_pullback_that_loses_sequences_is_refused():
    x = sf.convert([np.zeros(4), np.zeros(3), np.zeros(2)], sf.Padded)
    with pytest.raises(sf.StructureError, match="3 sequences were expected"):
        sys.modules["seqformats.converters.convert"].restore(sf.Ragged(np.zeros(9), [9]), x)


# ------------------------------------------------------------------------------- the dtype, and no sequences at all


@pytest.mark.parametrize("given", ["f8", "f4", "f2", "i8"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_a_gradient_has_the_dtype_of_what_it_is_for(dtype, given):
    """Whatever the loss was calculated in: conversions, wrappers and arithmetic alike."""
    x = sf.convert(oracle.build(sf.Ragged, strategies.truth_from([2, 0, 3], dtype, (2,))), sf.Ragged)
    dy = np.ones((5, 2), given)
    same = sf.Ragged(dy, x.lengths)
    masked = sf.convert(same, sf.Masked)
    for pullback, gradient in (
        (sf.vjp(sf.convert, x, sf.Masked)[1], masked),
        (sf.vjp(sf.convert, x, sf.Masked)[1], masked.data),
        (sf.vjp(sf.convert, x, sf.Ragged)[1], same),
        (sf.vjp(sf.convert, x, sf.LoD)[1], same),
        (sf.vjp(sf.convert_like, x, masked)[1], masked),
        (sf.vjp(sf.reverse, x)[1], same),
        (sf.vjp(sf.cumsum, x)[1], same),
        (sf.vjp(sf.reduce_sum, x)[1], np.ones((3, 2), given)),
        (sf.with_padded(lambda z: (z, lambda dz: dz), backprop=True)(x)[1], same),
        (sf.with_array(lambda z: (z, lambda dz: dz.astype(np.result_type(dz, "f8"))), backprop=True)(x)[1], same),
        (
            sf.with_masked(lambda z: (z, lambda dz: dz), backprop=True, width=1, truncate=True)(x)[1],
            sf.slice(same, 0, np.minimum(same.lengths, 1)),
        ),
        (
            sf.with_flatten(lambda z: (z, lambda dz: [d.astype(np.result_type(d, "f8")) for d in dz]), backprop=True)(
                x
            )[1],
            same,
        ),
    ):
        dx = pullback(gradient)
        assert dx.dtype == x.dtype
        assert type(dx) is sf.Ragged


def test_a_function_in_a_wrapper_sees_gradients_in_its_results_dtype():
    seen = []

    def halved(m):
        return m.data.astype("f4") / 2, lambda dy: (seen.append(dy.dtype), dy / 2)[1]

    x = sf.Ragged(np.arange(3.0), [1, 2])
    y, backprop = sf.with_masked(halved, backprop=True)(x)
    assert y.dtype == np.float32
    assert backprop(sf.Ragged(np.ones(3), [1, 2])).dtype == np.float64
    assert seen == [np.float32]


def test_gradients_of_integers_keep_their_own_dtype():
    """There is nothing that they could be rounded to."""
    x = sf.Ragged(np.arange(3), [1, 2])
    dy = sf.Ragged(np.array([0.5, 1.5, 2.5]), [1, 2])
    for op, args in ((sf.convert, (x, sf.Ragged)), (sf.convert, (x, sf.LoD)), (sf.reverse, (x,))):
        assert sorted(sf.vjp(op, *args)[1](dy).data.tolist()) == [0.5, 1.5, 2.5]


@pytest.mark.parametrize("dtype", ["U1", "S3", "M8[s]", "m8[s]", "V5", [("a", "f8")]], ids=str)
def test_a_gradient_is_made_of_numbers(dtype):
    x = sf.Ragged(np.arange(3.0), [1, 2])
    for op, dy in ((sf.reduce_max, np.zeros(2, dtype)), (sf.softmax, sf.Ragged(np.zeros(3, dtype), [1, 2]))):
        with pytest.raises(TypeError, match=f"a gradient of dtype .* does not fit {x.dtype}"):
            sf.vjp(op, x)[1](dy)


def test_the_gradient_of_a_level_of_nothing():
    y, pullback = sf.vjp(sf.convert, [], sf.Masked, level=0)
    assert y.data.shape == (0, 0)
    assert pullback([]) == []


@pytest.mark.parametrize("nothing", [[], ()], ids=repr)
@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
def test_the_gradient_of_no_sequences_may_be_an_empty_list(kind, nothing):
    """A bare list cannot say what its items would be, so it cannot be wrong about them."""
    x = oracle.build(kind, strategies.truth_from([], "f4", (3,)))
    for op, args in (
        (sf.convert, (x, sf.Ragged)),
        (sf.convert, (x, sf.List)),
        (sf.convert, (x, sf.Masked)),
        (sf.convert, (x, kind)),
        (sf.convert_like, (x, sf.convert(x, sf.Padded))),
        (sf.reverse, (x,)),
        (sf.cumsum, (x,)),
        (sf.reduce_sum, (x,)),
        (sf.reduce_max, (x,)),
        (sf.reduce_first, (x,)),
    ):
        dx = sf.vjp(op, *args)[1](nothing)
        assert type(dx) is kind
        assert (len(dx), dx.item_shape, dx.dtype) == (0, (3,), np.float32)
    with pytest.raises(sf.StructureError):
        sf.vjp(sf.convert, sf.Ragged(np.zeros((0, 3)), [0]), sf.Masked)[1](nothing)
    _, backprop = sf.with_padded(lambda z: (z, lambda dz: dz), backprop=True)(x)
    assert type(backprop(nothing)) is kind


ON_ONE_DEVICE = {
    "concat": lambda x: (sf.concat, [x, x]),
    "cumsum": lambda x: (sf.cumsum, x),
    "filter": lambda x: (sf.filter, x, np.array([True, False, True, True, True])),
    "interleave": lambda x: (sf.interleave, [x, x]),
    "reduce_sum": lambda x: (sf.reduce_sum, x),
    "cut": lambda x: (sf.cut, x, 0, 1),
    "softmax": lambda x: (sf.softmax, x),
    "sort": lambda x: (sf.sort, x),
    "topk": lambda x: (sf.topk, x, 2),
}


@pytest.mark.parametrize("name", ON_ONE_DEVICE)
def test_a_gradient_on_another_device_is_refused(name):
    """A kernel would walk over its address there."""
    libraries.need_gpu()
    x = sf.Ragged(np.array([[1.0], [3.0], [2.0], [5.0], [4.0]], np.float32), [2, 0, 3])
    for here, there in (("cuda", "cpu"), ("cpu", "cuda")):
        y, pullback = sf.vjp(*ON_ONE_DEVICE[name](sf.to_device(x, here)))
        y = y.values if name == "topk" else y
        dy = sf.to_device(y, there)
        with pytest.raises(sf.DeviceError, match=f"the gradient is on {there}.* but the result on {here}"):
            pullback(dy)
