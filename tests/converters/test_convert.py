"""Every conversion against the oracle: all ordered pairs, every option, odd shapes, memory and errors."""

import dataclasses

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import assume, given
from hypothesis import strategies as st
from passes import INTERPRETED

import seqformats as sf

every_source = pytest.mark.parametrize("source", oracle.FORMATS, ids=oracle.format_name)
every_target = pytest.mark.parametrize("target", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
padded_target = pytest.mark.parametrize("target", oracle.PADDED, ids=oracle.format_name)


def expected_truth(truth, target):
    """What arrives: formats without levels get the innermost sequences."""
    return truth if target in (sf.LoD, list) else truth.at(-1)


def kept_order(x, target, truth, **options):
    """Between the two sorted formats the columns stay where they are, unless truncation sorts them anew."""
    if target not in SORTED or type(x) not in SORTED:
        return {}
    if truth.longest() > oracle.padded_width(truth, **{name: options[name] for name in WIDTHS if name in options}):
        return {}
    return {"order": x.indices.tolist()}


SORTED = (sf.Padded, sf.Packed)
WIDTHS = ("width", "multiple_of", "truncate")


def assert_is(result, target, truth, **options):
    """The result is the target that the oracle builds, in every field."""
    oracle.assert_layout(result, oracle.build(target, truth, **options))


# ---------------------------------------------------------------------------------------------- every pair


@every_source
@every_target
@given(data=st.data())
def test_every_pair(arrays, source, target, data):
    """The target is built exactly, padding included, whatever the source's padding held."""
    truth, x = data.draw(strategies.encoded(source, kinds=arrays.dtypes))
    result = arrays.on(sf.convert)(x, target)
    if source is target:
        assert result is x
    else:
        assert_is(result, target, expected_truth(truth, target), **kept_order(x, target, truth))


@every_source
@every_target
@given(data=st.data())
def test_every_pair_with_copy(arrays, source, target, data):
    """``copy=True`` gives the same and shares no memory."""
    _, x = data.draw(strategies.encoded(source, kinds=arrays.dtypes))
    result = arrays.on(sf.convert)(x, target, copy=True)
    oracle.assert_same(result, sf.convert(x, target))
    assert result is not x
    assert not oracle.shares(result, x)


@every_source
@padded_target
@given(data=st.data())
def test_padding_options(arrays, source, target, data):
    """fill, width, multiple_of, truncate and side from every source but the target's own kind."""
    truth, x = data.draw(strategies.encoded(source, kinds=arrays.dtypes))
    innermost = truth.at(-1)
    options = data.draw(strategies.padding_options(innermost, target))
    result = arrays.on(sf.convert)(x, target, **options)
    if source is target:
        width = oracle.padded_width(innermost, **{name: options[name] for name in WIDTHS if name in options})
        oracle.assert_holds(result, innermost.truncated(width))
        assert getattr(result, "side", None) == options.get("side", getattr(x, "side", None))
        assert width_of(result) >= width
        assert width_of(result) % options.get("multiple_of", 1) == 0
    else:
        assert_is(result, target, innermost, **options, **kept_order(x, target, innermost, **options))


def width_of(x):
    return x.data.shape[0 if isinstance(x, sf.Padded) else 1]


@pytest.mark.parametrize("source", [sf.LoD, list], ids=oracle.format_name)
@pytest.mark.parametrize("target", oracle.FLAT, ids=oracle.format_name)
@given(data=st.data())
def test_levels(arrays, source, target, data):
    """``level`` picks the boundaries that stay; each sequence keeps all its rows."""
    truth, x = data.draw(strategies.encoded(source, kinds=arrays.dtypes))
    assume(not (source is list and x and isinstance(x[0], np.ndarray)))  # counts as a List, which has no levels
    level = data.draw(st.integers(-truth.levels, truth.levels - 1))
    assert_is(arrays.on(sf.convert)(x, target, level=level), target, truth.at(level))


@padded_target
@given(data=st.data())
def test_level_and_padding_go_to_different_legs(target, data):
    truth, x = data.draw(strategies.encoded(sf.LoD))
    level = data.draw(st.integers(-truth.levels, truth.levels - 1))
    options = data.draw(strategies.padding_options(truth.at(level), target))
    assert_is(sf.convert(x, target, level=level, **options), target, truth.at(level), **options)


@given(data=st.data())
def test_masked_changes_side(arrays, data):
    truth, x = data.draw(strategies.encoded(sf.Masked, kinds=arrays.dtypes))
    side = data.draw(strategies.sides())
    result = arrays.on(sf.convert)(x, sf.Masked, side=side)
    assert result.side == side
    oracle.assert_holds(result, truth)
    if side == x.side:
        assert result is x
    else:
        assert width_of(result) >= truth.longest()
        assert not oracle.shares(result, x)


# ------------------------------------------------------------------------------------- odd shapes, by name

ODD = {
    "no sequences": [],
    "only empty sequences": [0, 0, 0],
    "one empty sequence": [0],
    "one row": [1],
    "one row among empty ones": [0, 1, 0],
    "one sequence": [5],
    "equal lengths": [3, 3, 3],
    "one long among tiny": [1, 0, 120, 1, 2],
}


@every_source
@every_target
@pytest.mark.parametrize("item_shape", [(), (3,), (0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("odd", ODD)
def test_odd_shapes(odd, item_shape, source, target):
    truth = strategies.truth_from(ODD[odd], "f4", item_shape)
    if source is list:
        x = oracle.nested(truth, "arrays")
        truth = oracle.infer(x)
    else:
        x = oracle.build(source, truth)
    result = sf.convert(x, target)
    if source is target:
        assert result is x
    else:
        assert_is(result, target, truth)


@every_source
@padded_target
@pytest.mark.parametrize("odd", ["no sequences", "only empty sequences", "one empty sequence"])
def test_width_of_batches_without_items(odd, source, target):
    """Width 0 by default, and any width where it is asked for."""
    truth = strategies.truth_from(ODD[odd], "f8")
    x = oracle.build(source, truth)
    if source is not target:
        assert width_of(sf.convert(x, target)) == 0
        assert width_of(sf.convert(x, target, multiple_of=8)) == 0
    assert_is(sf.convert(x, target, width=3, fill=7), target, truth, width=3, fill=7)
    if source is not target:
        assert_is(sf.convert(x, target, width=0), target, truth)


STRUCTURED = np.dtype([("id", "i4"), ("weight", "f8")])


@every_encoding
@pytest.mark.parametrize("dtype", [STRUCTURED, np.dtype("V5"), np.dtype("<U7"), np.dtype("S13")], ids=str)
def test_items_of_any_number_of_bytes(dtype, kind):
    """Rows are moved as bytes, so structured and odd-sized dtypes pass."""
    rows = np.frombuffer(bytes(range(1, 1 + 6 * 2)) * dtype.itemsize, np.uint8)[: 6 * dtype.itemsize]
    if dtype.kind == "U":
        data = np.array(["a", "bcdefgh", "", "é", "xyz", "12"], dtype)
    else:
        data = rows.view(dtype)
    x = sf.convert(sf.Ragged(data, [2, 0, 3, 1]), kind)
    oracle.assert_bits(sf.convert(x, sf.Ragged).data, data)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100])
@every_encoding
def test_rows_of_any_width(width, kind):
    truth = strategies.truth_from([3, 1, 0, 2], "u1", (width,))
    x = sf.convert(oracle.build(sf.Ragged, truth), kind)
    oracle.assert_holds(x, truth)
    oracle.assert_holds(sf.convert(x, sf.List), truth)


# --------------------------------------------------------------------------------------------- large batches

LARGE = [sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD, sf.List]
LAZY = 32 << 20  # bytes from which outputs are zeroed by the system


def assert_large(x, data, lengths, fill=0):
    """Checks a large encoding by NumPy slices: every item, and all padding."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if isinstance(x, (sf.Ragged, sf.LoD)):
        assert sf.lengths(x).tolist() == lengths.tolist()
        assert np.array_equal(x.data, data)
        return
    if isinstance(x, sf.List):
        assert [len(item) for item in x.items] == lengths.tolist()
        assert np.array_equal(np.concatenate(x.items), data)
        return
    place = np.arange(int(lengths.max()))
    if isinstance(x, sf.Masked):
        assert x.lengths.tolist() == lengths.tolist()
        inside = place < lengths[:, None]
        assert np.array_equal(x.data[inside], data)
    else:
        order = np.argsort(-lengths, kind="stable")
        inside = place[:, None] < lengths[order]
        assert x.indices.tolist() == order.tolist()
        assert x.lengths.tolist() == lengths[order].tolist()
        assert x.size_at_t.tolist() == inside.sum(1).tolist()
        wanted = data[(offsets[order] + place[:, None])[inside]]
        assert np.array_equal(x.data if isinstance(x, sf.Packed) else x.data[inside], wanted)
        if isinstance(x, sf.Packed):
            return
    assert (x.data[~inside] == fill).all()


def large_batch(lengths, item_shape, dtype):
    lengths = np.asarray(lengths, np.int64)
    rng = np.random.default_rng(0)
    shape = (int(lengths.sum()), *item_shape)
    data = rng.integers(1, 120, shape).astype(dtype)
    return sf.Ragged(data, lengths), data, lengths


def tour(ragged, data, lengths, kinds=LARGE):
    """Ragged to each kind, and each kind to the next and back."""
    for number, kind in enumerate(kinds):
        x = sf.convert(ragged, kind)
        assert_large(x, data, lengths)
        beside = kinds[(number + 1) % len(kinds)]
        assert_large(sf.convert(x, beside), data, lengths)
        assert_large(sf.convert(x, sf.Ragged, copy=True), data, lengths)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    sf.set_num_threads(request.param)
    yield request.param
    sf.set_num_threads(None)


compiled_only = pytest.mark.skipif(INTERPRETED, reason="too many rows for interpreted kernels")


@compiled_only
def test_large_rows(threads):
    """Tens of megabytes of wide rows: blocks of rows in threads, output zeroed lazily."""
    ragged, data, lengths = large_batch(np.random.default_rng(1).integers(0, 60, 1000), (300,), "f4")
    assert sf.convert(ragged, sf.Padded).data.nbytes > 2 * LAZY
    tour(ragged, data, lengths)


@compiled_only
@padded_target
def test_large_fill(target, threads):
    """A fill other than zero reaches every place of a large output."""
    ragged, data, lengths = large_batch(np.random.default_rng(2).integers(0, 50, 800), (250,), "i4")
    result = sf.convert(ragged, target, fill=-3)
    assert result.data.nbytes > LAZY
    assert_large(result, data, lengths, fill=-3)


@compiled_only
def test_large_left_padding(threads):
    ragged, data, lengths = large_batch(np.random.default_rng(3).integers(0, 50, 800), (250,), "f4")
    result = sf.convert(ragged, sf.Masked, side="left")
    inside = np.arange(width_of(result)) >= width_of(result) - lengths[:, None]
    assert np.array_equal(result.data[inside], data)
    assert not result.data[~inside].any()
    assert np.array_equal(sf.convert(result, sf.Ragged).data, data)


def test_many_tiny_sequences():
    """100,000 sequences of few rows and without item axis."""
    count = 1000 if INTERPRETED else 100_000
    tour(*large_batch(np.random.default_rng(4).integers(0, 4, count), (), "u1"))


def test_one_huge_among_tiny():
    """Almost everything is padding."""
    count, huge = (50, 300) if INTERPRETED else (1000, 30_000)
    lengths = np.ones(count + 1, np.int64)
    lengths[count // 2] = huge
    tour(*large_batch(lengths, (), "i2"))


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "i8", "c16", "V3"])
def test_rows_without_item_axis(dtype, threads):
    """Squares of columns and steps, and what is left beside them: columns that end together or not, and long ones."""
    lengths = np.random.default_rng(6).integers(0, 25, 41)
    lengths[7:16] = 1030
    size = int(lengths.sum()) * np.dtype(dtype).itemsize
    data = np.random.default_rng(7).integers(1, 120, size).astype("u1").view(dtype)
    x = sf.Ragged(data, lengths)
    left = sf.convert(x, sf.Masked, side="left", width=1040)
    for steps in (sf.Padded, sf.Packed):
        y = sf.convert(x, steps)
        j = int(np.flatnonzero(y.indices == 11)[0])
        start = x.offsets[11]
        for t in (0, 1, 517, 1029):
            at = (t, j) if steps is sf.Padded else int(y.size_at_t[:t].sum()) + j
            oracle.assert_bits(y.data[at], data[start + t])
        oracle.assert_bits(sf.convert(y, sf.Ragged).data, data)
        oracle.assert_bits(sf.convert(y, sf.Masked, side="left", width=1040).data, left.data)
        oracle.assert_bits(sf.convert(left, steps).data, y.data)
        oracle.assert_bits(sf.convert(sf.convert(x, sf.List), steps).data, y.data)


# ------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "x",
    [[[1, 2], [], [3]], [[[1.5]], []], [[np.arange(2)]], [np.arange(2)], [np.ones((2, 3)), np.ones((0, 3))]],
    ids=["numbers", "levels", "nested arrays", "arrays", "arrays of vectors"],
)
def test_nested_lists_are_themselves(x):
    """And a copy of them is the same in every list, leaf and array."""
    assert sf.convert(x, list) is x
    copied = sf.convert(x, list, copy=True)
    oracle.assert_same(copied, x)
    assert copied is not x
    assert copied[0] is not x[0]


@pytest.mark.parametrize(
    ("source", "target"),
    [(sf.Ragged, sf.LoD), (sf.LoD, sf.Ragged), (sf.Ragged, sf.List), (sf.LoD, sf.List), (sf.Masked, sf.List)],
    ids=oracle.format_name,
)
def test_free_conversions_share_memory(source, target):
    truth = strategies.truth_from([2, 0, 3], "f4", (2,))
    x = oracle.build(source, truth)
    result = sf.convert(x, target)
    assert oracle.shares(result, x)
    x.data[...] = 0
    oracle.assert_holds(result, oracle.read(oracle.build(sf.Ragged, oracle.read(x))))
    assert not any(array.any() for array in oracle.arrays_of(result))


def test_lod_of_two_levels_shares_with_ragged():
    truth = strategies.truth_from([[2, 0], [3]], "f4", levels=2)
    x = oracle.build(sf.LoD, truth)
    for level in (0, 1):
        assert sf.convert(x, sf.Ragged, level=level).data is x.data


@every_encoding
@given(data=st.data())
def test_the_source_is_left_alone(kind, data):
    """A conversion writes nothing into what it was given."""
    _, x = data.draw(strategies.encoded(kind))
    before = [array.tobytes() for array in oracle.arrays_of(x)]
    for target in oracle.FORMATS:
        sf.convert(x, target)
    assert [array.tobytes() for array in oracle.arrays_of(x)] == before


@every_source
@every_target
def test_results_can_be_written(source, target):
    """A result of its own is writable even where the source was not."""
    truth = strategies.truth_from([2, 0, 3], "f4", (2,))
    x = (
        [strategies.read_only(item) for item in oracle.list_fields(truth)["items"]]
        if source is list
        else (oracle.build(source, truth, form=strategies.read_only))
    )
    result = sf.convert(x, target, copy=True)
    for array in oracle.arrays_of(result):
        assert array.flags.writeable or array.size == 0


@every_encoding
def test_empty_results_keep_the_dtype_through_lists_of_arrays(kind):
    x = oracle.build(kind, strategies.truth_from([], ">f4", (2, 3)))
    result = sf.convert(x, sf.List)
    assert result.items == ()
    assert result.dtype == np.dtype(">f4")
    assert result.item_shape == (2, 3)


# ------------------------------------------------------------------------------------------- bare Python


@every_target
@pytest.mark.parametrize("wrap", [list, tuple])
def test_lists_and_tuples_of_arrays_count_as_list(wrap, target):
    truth = strategies.truth_from([3, 0, 1], "f4", (2,))
    x = wrap(oracle.list_fields(truth)["items"])
    oracle.assert_truth(oracle.read(sf.convert(x, target)), truth)


@every_target
def test_an_empty_list_is_no_sequences_of_float64(target):
    result = sf.convert([], target)
    if target is list:
        assert result == []
    else:
        assert_is(result, target, strategies.truth_from([], "f8"))


# ------------------------------------------------------------------------------------------------- errors


def ragged():
    return sf.Ragged(np.arange(6.0), [3, 0, 1, 2])


@padded_target
@pytest.mark.parametrize("source", [sf.List, sf.Ragged, sf.Packed, sf.LoD, list], ids=oracle.format_name)
def test_a_width_that_is_too_small(source, target):
    x = oracle.build(source, strategies.truth_from([1, 4, 2], "i8"))
    with pytest.raises(sf.ConversionError) as caught:
        sf.convert(x, target, width=3)
    message = str(caught.value)
    assert "4" in message, "the longest sequence is named"
    assert "3" in message, "the width is named"
    assert "truncate" in message, "what would work is named"


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("i8", 1.5),
        ("i8", np.nan),
        ("u1", 300),
        ("u1", -1),
        ("i1", 200),
        ("f4", 1e300),
        ("f2", 70000),
        ("f8", 1j),
        ("?", 2),
        ("<U3", "abcd"),
        ("S2", b"abc"),
        ("i8", "a"),
    ],
    ids=str,
)
@padded_target
def test_a_fill_that_is_not_exact(target, dtype, fill):
    x = oracle.build(sf.Ragged, strategies.truth_from([1, 2], dtype))
    with pytest.raises((sf.ConversionError, TypeError)) as caught:
        sf.convert(x, target, fill=fill)
    assert "fill" in str(caught.value)


@dataclasses.dataclass
class Foo:
    data: object


VALUES = sf.LoD(np.zeros(3), [[0, 1, 3]])
NO_BATCH = (TypeError, sf.ConversionError)


@pytest.mark.parametrize(
    ("error", "message", "x", "target", "options"),
    [
        (TypeError, "fill", ragged(), sf.List, {"fill": 0}),
        (TypeError, "width", ragged(), sf.Ragged, {"width": 3}),
        (TypeError, "side", ragged(), sf.Padded, {"side": "left"}),
        (TypeError, "pad", ragged(), sf.Padded, {"pad": 1}),
        (TypeError, "multiple_of", ragged(), sf.LoD, {"multiple_of": 2}),
        (TypeError, "truncate", ragged(), sf.Packed, {"truncate": True}),
        (TypeError, "fill", ragged(), list, {"fill": 1}),
        *[(TypeError, "bogus", sf.convert(ragged(), kind), kind, {"bogus": 1}) for kind in oracle.ENCODINGS],
        # Another option would raise ConversionError if the conversion ran.
        (TypeError, "bogus", ragged(), sf.Padded, {"width": 1, "bogus": 1}),
        (TypeError, "bogus", VALUES, sf.Padded, {"level": 9, "bogus": 1}),
        *[
            (sf.ConversionError, f"{name}.*{value}", ragged(), sf.Masked, {name: value})
            for name, value in [("width", -1), ("multiple_of", 0), ("multiple_of", -2), ("side", "middle")]
        ],
        *[
            (TypeError, f"{name}.*{value}", ragged(), sf.Masked, {name: value})
            for name, value in [("width", 2.5), ("width", "3"), ("multiple_of", 1.5), ("side", 1)]
        ],
        *[
            ((sf.SeqFormatError, TypeError), "fill", sf.Ragged(np.zeros((3, 3)), [1, 2]), target, {"fill": fill})
            for target in oracle.PADDED
            for fill in [np.zeros(2), np.zeros((1, 3)), [1, 2, 3, 4]]
        ],
        *[((sf.ConversionError, IndexError), "level", VALUES, sf.Ragged, {"level": k}) for k in (1, 2, -2, 100)],
        *[(NO_BATCH, "level", VALUES, sf.Ragged, {"level": level}) for level in (0.0, "0", [0])],
        *[(NO_BATCH, r"SF\d", ragged(), target, {}) for target in (np.ndarray, int, "Ragged", None, dict)],
        *[(NO_BATCH, r"SF\d", x, sf.Ragged, {}) for x in (np.zeros((3, 2)), 3, None, "abc", {"a": 1})],
        (NO_BATCH, "Foo", Foo(np.zeros(2)), sf.Padded, {}),
        *[(NO_BATCH, name, ragged(), Foo, {}) for name in ("Ragged", "Foo", "Padded", "List")],
    ],
)
def test_what_cannot_be_converted(error, message, x, target, options):
    with pytest.raises(error, match=message):
        sf.convert(x, target, **options)


def test_other_calls_that_cannot_be():
    with pytest.raises(TypeError):
        sf.convert(ragged(), sf.Padded, 0)
    with pytest.raises(sf.ConversionError, match=r"Foo.*Padded"):
        sf.explain(Foo, sf.Padded)


@padded_target
def test_options_may_be_numpy_numbers(target):
    truth = strategies.truth_from([3, 0, 1, 2], "i8")
    x = oracle.build(sf.Ragged, truth)
    result = sf.convert(x, target, width=np.int8(2), truncate=np.True_, multiple_of=np.uint8(2), fill=np.int16(-1))
    assert_is(result, target, truth, width=2, truncate=True, multiple_of=2, fill=-1)


def test_error_kinds_are_value_errors():
    for kind in (sf.StructureError, sf.ConversionError, sf.DeviceError):
        assert issubclass(kind, sf.SeqFormatError)
    assert issubclass(sf.SeqFormatError, ValueError)


# ------------------------------------------------------------------------------------------- convert_like


@pytest.mark.parametrize("like", oracle.FORMATS, ids=oracle.format_name)
@pytest.mark.parametrize("source", oracle.FLAT, ids=oracle.format_name)
@given(data=st.data())
def test_convert_like_restores_the_structure(arrays, source, like, data):
    """Other items over the same lengths come back in x's encoding, order, width, side and levels."""
    truth, x = data.draw(strategies.encoded(like, kinds=arrays.dtypes))
    other = strategies.truth_from(truth.at(-1).lengths(), data.draw(st.sampled_from(arrays.dtypes)), (2,))
    y = oracle.build(source, other)
    result = arrays.on(sf.convert_like)(y, x)
    items = iter(item for sequence in other.nest for item in sequence)

    def part(children, depth):
        return [part(child, depth - 1) if depth else [next(items) for _ in child] for child in children]

    wanted = oracle.Truth(part(truth.nest, truth.levels - 1), other.dtype, (2,), truth.levels)
    if like is list:
        assert_nested_holds(result, wanted)
        return
    assert type(result) is like
    oracle.assert_holds(result, wanted)
    for name in ("lengths", "indices", "size_at_t"):
        if like is not sf.List and isinstance(getattr(x, name, None), np.ndarray):
            assert getattr(result, name).tolist() == getattr(x, name).tolist()
    if like in oracle.PADDED:
        assert width_of(result) == width_of(x)
        assert getattr(result, "side", None) == getattr(x, "side", None)


def assert_nested_holds(result, truth):
    """Nested lists that hold this batch, as far as nested lists can."""
    oracle.assert_same(result, oracle.nested(truth))


@pytest.mark.parametrize("like", oracle.FLAT, ids=oracle.format_name)
@given(data=st.data())
def test_convert_like_with_other_lengths(like, data):
    """As many sequences of other lengths keep the caller's order."""
    truth, x = data.draw(strategies.encoded(like))
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=len(truth), max_size=len(truth)))
    other = strategies.truth_from(lengths, "f8")
    for source in oracle.FLAT:
        result = sf.convert_like(oracle.build(source, other), x)
        assert type(result) is like
        oracle.assert_holds(result, other)
        assert getattr(result, "side", None) == getattr(x, "side", None)


def test_convert_like_keeps_outer_levels_with_other_lengths():
    x = oracle.build(sf.LoD, strategies.truth_from([[2, 0], [], [3]], "f8", levels=2))
    y = oracle.build(sf.Padded, strategies.truth_from([1, 4, 0], "f4", (2,)))
    result = sf.convert_like(y, x)
    assert [level.tolist() for level in result.lod] == [[0, 2, 2, 3], [0, 1, 5, 5]]
    oracle.assert_truth(oracle.read(result).at(-1), oracle.read(y))


@pytest.mark.parametrize("container", [list, tuple])
def test_convert_like_keeps_the_container(container):
    arrays = container([np.zeros((2, 3), np.float32), np.zeros((0, 3), np.float32)])
    result = sf.convert_like(sf.Ragged(np.array([1.0, 2.0]), [2, 0]), arrays)
    assert type(result) is container
    oracle.assert_nested(result, container([np.array([1.0, 2.0]), np.array([])]))


@pytest.mark.parametrize("like", oracle.ENCODINGS, ids=oracle.format_name)
def test_convert_like_refuses_another_number_of_sequences(like):
    x = oracle.build(like, strategies.truth_from([1, 2, 1], "f8"))
    with pytest.raises(sf.SeqFormatError):
        sf.convert_like(sf.Ragged(np.zeros(3), [1, 2]), x)


def test_convert_like_of_the_same_encoding_keeps_a_chosen_order():
    """A result sorted another way among equal lengths goes back into x's own columns."""
    truth = strategies.truth_from([2, 1, 2, 1], "i8")
    x = oracle.build(sf.Padded, truth, order=[2, 0, 3, 1], width=4)
    y = oracle.build(sf.Padded, truth, order=[0, 2, 1, 3])
    result = sf.convert_like(y, x)
    assert result.indices.tolist() == [2, 0, 3, 1]
    assert result.data.shape == (4, 4)
    oracle.assert_holds(result, truth)


# -------------------------------------------------------------------------------------------------- pairs


@every_encoding
def test_pairs_convert_member_by_member(kind):
    one, two = strategies.truth_from([2, 0, 1], "f4", (2,)), strategies.truth_from([1, 1, 3], "i8")
    result = sf.convert(sf.Pairs(oracle.build(sf.Ragged, one), oracle.build(sf.List, two)), kind)
    assert type(result) is sf.Pairs
    assert type(result.one) is kind
    assert type(result.two) is kind
    oracle.assert_holds(result.one, one)
    oracle.assert_holds(result.two, two)


# ------------------------------------------------------------------------------------- the table of routes


@every_source
@every_target
def test_explain_names_the_route(source, target):
    text = sf.explain(source, target)
    assert isinstance(text, str)
    assert source.__name__ in text
    assert target.__name__ in text


def test_the_table_holds_the_direct_pairs():
    """Every pair of the encodings without levels is one step."""
    table = sf.conversions()
    for source in oracle.FLAT:
        for target in oracle.FLAT:
            if source is not target:
                assert (source, target) in table


# --- arrays of objects -----------------------------------------------------------------------------------------------


def objects(*parts):
    """As pandas, NumPy files and datasets hold sequences of different lengths."""
    x = np.empty(len(parts), object)
    x[:] = parts
    return x


@pytest.mark.parametrize("To", [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD, list])
def test_an_array_of_objects_is_a_list_of_what_it_holds(To):
    parts = [np.array([1, 2]), np.array([3, 4, 5]), np.array([], int)]
    x = sf.convert(objects(*parts), To)
    assert sf.convert(x, sf.LoD).to_nested() == [[1, 2], [3, 4, 5], []]
    assert sf.convert(sf.convert(objects([1, 2], [3]), To), sf.LoD).to_nested() == [[1, 2], [3]]
    assert len(sf.convert(objects(), To)) == 0


def test_arrays_of_objects_in_each_other_are_levels():
    x = objects(objects(np.array([1, 2]), np.array([3])), objects(np.array([4])), objects())
    assert sf.convert(x, sf.LoD).to_nested() == [[[1, 2], [3]], [[4]], []]
    assert sf.convert(objects(objects([1], [2, 3]), [[4]]), sf.LoD).to_nested() == [[[1], [2, 3]], [[4]]]
    square = np.empty((2, 2), object)
    square[:] = [[1, 2], [3, 4]]
    assert sf.convert(square, sf.Ragged).lengths.tolist() == [2, 2]


def test_options_for_arrays_of_objects():
    x = objects(np.array([1, 2]), np.array([3]))
    assert sf.convert(x, sf.Masked, fill=-1, dtype="float32").data.tolist() == [[1, 2], [3, -1]]
    assert np.shares_memory(sf.convert(x, sf.List).items[0], x[0])
    assert not np.shares_memory(sf.convert(x, sf.List, copy=True).items[0], x[0])


def test_arrays_of_objects_that_hold_no_sequences():
    own = np.empty(1, object)
    own[0] = own
    with pytest.raises(sf.StructureError, match="more than 64 deep"):
        sf.convert(own, sf.Ragged)
    with pytest.raises(sf.StructureError, match="element 0 is 1, a single item"):
        sf.convert(objects(1, 2), sf.Ragged)
    with pytest.raises(sf.StructureError, match="element 1 is None"):
        sf.convert(objects([1], None), sf.Ragged)
    with pytest.raises(TypeError, match=r"x.tolist\(\)"):
        sf.convert(np.array(None, object), sf.Ragged)
    with pytest.raises(TypeError, match=r"x.tolist\(\)"):
        sf.reverse(objects([1], [2]))
