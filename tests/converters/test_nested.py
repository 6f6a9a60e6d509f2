"""Nested lists: every list a level, numbers leaves, an array an innermost sequence; and back."""

import json
import sys

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats import core, reading
from seqformats.converters import nested as nested_lists

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)

LEAVES = [
    st.integers(-9, 9),
    st.floats(allow_nan=False),
    st.booleans(),
    st.complex_numbers(allow_nan=False, max_magnitude=9),
]


def lists_of(leaves, depth):
    found = st.lists(leaves, max_size=4)
    for _ in range(depth - 1):
        found = st.lists(found, max_size=3)
    return found


@st.composite
def nested(draw, most=4):
    """Nested lists of one kind of leaf, and how deep they are."""
    depth = draw(st.integers(2, most))
    return draw(lists_of(draw(st.sampled_from(LEAVES)), depth)), depth


def has_leaf(x):
    return any(has_leaf(part) for part in x) if isinstance(x, list) else True


def tupled(x):
    return tuple(tupled(part) for part in x) if isinstance(x, list) else x


# ------------------------------------------------------------------------------------------- lists there and back


@given(case=nested())
def test_there_and_back(case):
    lists, depth = case
    x = sf.LoD.from_nested(lists, levels=depth - 1)
    assert len(x.lod) == depth - 1
    assert repr(x.to_nested()) == repr(lists)
    oracle.assert_holds(x, known(lists, depth))


def known(lists, depth):
    """The oracle's reading of lists whose depth is known."""
    truth = oracle.infer(lists)
    while truth.levels < depth - 1:
        truth = oracle.Truth(deepened(truth.nest, truth.levels), truth.dtype, truth.item_shape, truth.levels + 1)
    return truth


def deepened(nest, levels):
    """One empty level more at the bottom; only called where there are no leaves."""
    return [deepened(part, levels - 1) for part in nest] if levels else []


@given(case=nested())
def test_depth_is_seen_where_there_are_leaves(case):
    lists, depth = case
    if has_leaf(lists):
        assert len(sf.LoD.from_nested(lists).lod) == depth - 1


@given(case=nested())
def test_tuples_are_lists(case):
    lists, depth = case
    x = sf.LoD.from_nested(tupled(lists), levels=depth - 1)
    assert repr(x.to_nested()) == repr(lists)


@every_encoding
@given(case=nested(most=3))
def test_lists_convert_like_their_lod(kind, case):
    lists, _ = case
    x = sf.LoD.from_nested(lists)
    oracle.assert_layout(sf.convert(lists, kind), sf.convert(x, kind))


@given(case=nested(most=3))
def test_lists_by_level(case):
    lists, _ = case
    x = sf.LoD.from_nested(lists)
    for level in range(-len(x.lod), len(x.lod)):
        oracle.assert_layout(sf.convert(lists, sf.Padded, level=level), sf.convert(x, sf.Padded, level=level))
        oracle.assert_layout(sf.convert(lists, sf.LoD, level=level), sf.convert(x, sf.LoD, level=level))
    with pytest.raises(IndexError):
        sf.convert(lists, sf.Ragged, level=len(x.lod))


@every_encoding
@given(data=st.data())
def test_any_encoding_to_lists(kind, data):
    truth, x = data.draw(strategies.encoded(kind))
    wanted = oracle.nested(truth) if truth.item_shape == () else oracle.nested(truth, "arrays")
    oracle.assert_nested(sf.convert(x, list), wanted)


@pytest.mark.parametrize(
    ("lists", "lod"),
    [
        ([], [[0]]),
        ([[]], [[0, 0]]),
        ([[], []], [[0, 0, 0]]),
        ([[1]], [[0, 1]]),
        ([[[]]], [[0, 1], [0, 0]]),
        ([[[1]], []], [[0, 1, 1], [0, 1]]),
        ([[], [[1]]], [[0, 0, 1], [0, 1]]),
        ([[[], [1]], [[]]], [[0, 2, 3], [0, 0, 1, 1]]),
        ([[[[1], [2, 3]], []], []], [[0, 2, 2], [0, 2, 2], [0, 1, 3]]),
        ([[[[[1]]]]], [[0, 1], [0, 1], [0, 1], [0, 1]]),
    ],
)
def test_depths(lists, lod):
    x = sf.LoD.from_nested(lists)
    assert [offsets.tolist() for offsets in x.lod] == lod
    assert x.to_nested() == lists


def test_lists_further_in_are_items_where_levels_say_so():
    x = sf.LoD.from_nested([[[1, 2], [3, 4]], [[5, 6]]], levels=1)
    assert [offsets.tolist() for offsets in x.lod] == [[0, 2, 3]]
    assert x.data.tolist() == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(sf.StructureError, match="one shape"):
        sf.LoD.from_nested([[[1, 2], [3]]], levels=1)


# --------------------------------------------------------------------------------------------------- leaves


@pytest.mark.parametrize(
    ("lists", "dtype"),
    [
        ([[1, 2]], "i8"),
        ([[1], [2.5]], "f8"),
        ([[1, 2j]], "c16"),
        ([[True], [False]], "?"),
        ([[np.float32(1)], [np.float32(2)]], "f4"),
        ([[np.int8(1), np.int8(2)]], "i1"),
        ([["a"], ["bcd"]], "U3"),
        ([[b"ab"]], "S2"),
        ([[np.datetime64("2001-01-01", "D")]], "M8[D]"),
        ([[2**63]], "u8"),
        ([[], []], "f8"),
    ],
)
def test_dtype_of_leaves(lists, dtype):
    assert sf.LoD.from_nested(lists).dtype == np.dtype(dtype)


@pytest.mark.parametrize(("leaf", "dtype"), [(-1, "u1"), (-1, "u8"), (256, "u1"), (-129, "i1"), (2**31, "i4")])
def test_integers_that_a_dtype_cannot_hold(leaf, dtype):
    with pytest.raises(sf.SeqFormatError, match="do not fit"):
        sf.LoD.from_nested([[0, leaf], [1]], dtype)


@pytest.mark.parametrize("dtype", ["f4", "i2", "c8", "f2", "?"])
def test_dtype_as_asked(dtype):
    x = sf.LoD.from_nested([[1], [0, 1]], dtype=dtype)
    assert x.dtype == np.dtype(dtype)
    assert sf.LoD.from_nested([], dtype=dtype).dtype == np.dtype(dtype)
    assert sf.LoD.from_nested([np.array([1]), np.array([0])], dtype=dtype).dtype == np.dtype(dtype)


def test_strings_are_leaves():
    x = sf.LoD.from_nested([["to", "be"], [], ["or"]])
    assert len(x.lod) == 1
    assert x.to_nested() == [["to", "be"], [], ["or"]]
    assert sf.convert([["to", "be"], ["or"]], sf.Masked).data.tolist() == [["to", "be"], ["or", ""]]


def test_leaves_are_pythons_own():
    for leaf in (1, 1.5, True, 1j, "a", b"a"):
        ((found,),) = sf.LoD.from_nested([[leaf]]).to_nested()
        assert type(found) is type(leaf)
        assert found == leaf


@pytest.mark.parametrize(
    ("lists", "kind"),
    [
        ([1, 2], sf.StructureError),
        (["ab"], sf.StructureError),
        ([[1], 2], sf.StructureError),
        ([[[1]], [2]], sf.StructureError),
        ([[1], [[2]]], sf.StructureError),
        ([[1, [2]]], sf.StructureError),
        ([[[1], 2]], sf.StructureError),
        ([[None]], TypeError),
        ([[object()]], TypeError),
        ([[{}]], TypeError),
        ([[1, "a"]], TypeError),
        ([[1.5, b"a"]], TypeError),
        ([["a", b"b"]], TypeError),
        ([[2**64]], TypeError),
        ([[-1, 2**63]], sf.StructureError),
        ([[2**100, None]], TypeError),
        (3, TypeError),
        (None, TypeError),
        ("ab", TypeError),
        ({1: 2}, TypeError),
        (np.zeros((2, 2)), TypeError),
        (iter([[1]]), TypeError),
        ([{1, 2}], sf.StructureError),
        ([range(2)], sf.StructureError),
    ],
)
def test_lists_that_mean_nothing(lists, kind):
    with pytest.raises((sf.StructureError, TypeError)) as caught:
        sf.LoD.from_nested(lists)
    assert caught.type is kind


@pytest.mark.parametrize("dtype", ["i1", "u1", "?", "U1", "M8[s]", "O", "nonsense", 3, object])
def test_a_dtype_that_does_not_fit_the_leaves(dtype):
    """Refused, or every leaf is what it was."""
    lists = [[300, -1], [7]]
    try:
        x = sf.LoD.from_nested(lists, dtype=dtype)
    except (sf.StructureError, TypeError) as error:
        assert "dtype" in str(error) or "fit" in str(error) or "data type" in str(error)
    else:
        assert x.dtype != np.dtype(object)
        assert x.data.tolist() == [300, -1, 7] or np.dtype(dtype).kind in "?bUM"


@pytest.mark.parametrize(
    ("error", "message", "lists", "levels"),
    [
        *[(sf.StructureError, "at least 1", [[1]], levels) for levels in (0, -1)],
        *[(TypeError, "levels", [[1]], levels) for levels in (1.0, "1", True)],
        *[(sf.StructureError, "deep|levels", lists, 4) for lists in ([[1]], [[[1]]], [np.zeros(1)])],
        *[
            ((sf.StructureError, TypeError), r"SF\d", lists, None)
            for lists in ([np.zeros((1, 2)), [1]], [np.zeros(1), ["a"]], [np.zeros(1), [None]], [np.zeros(1), [[1, 2]]])
        ],
        *[
            (sf.StructureError, r"items\[1\]", [[np.zeros(1)], [other]], None)
            for other in (np.zeros(1, "f4"), np.zeros((1, 2)))
        ],
        (TypeError, "objects", [[np.array([None])]], None),
    ],
)
def test_what_has_no_levels(error, message, lists, levels):
    with pytest.raises(error, match=message):
        sf.LoD.from_nested(lists, levels=levels)


# ------------------------------------------------------------------- read by the extension, or in plain Python


class Few(list):
    """A list of another type."""


class Own(int):
    """An int of another type."""


ANY_LEAF = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([k * 2**e + d for k in (1, -1) for e in (30, 31, 53, 60, 62, 63, 64, 90) for d in (-1, 0, 1)]),
    st.floats(),
    st.booleans(),
    st.sampled_from([None, "a", b"a", 1j, np.float32(1.5), np.int64(3), np.bool_(True), Own(2), np.zeros(2), [], [1]]),
)
FORMS = st.sampled_from([list, list, tuple, Few])
DTYPES = [None, None, "f2", "f4", "f8", ">f8", "g", "i1", "i8", "u1", "u8", ">i4", "?", "c8", "U5", "M8[s]"]


@st.composite
def any_lists(draw):
    """Nested lists as they come: mostly of one kind of leaf and equally deep, now and then with something else."""
    depth = draw(st.integers(1, 3))
    kinds = draw(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=1, max_size=2))
    leaves = st.one_of(
        [[st.integers(-(2**63) - 2, 2**64), st.integers(), st.floats(), st.booleans()][k] for k in kinds]
    )
    odd = draw(st.integers(0, 3)) == 0

    def build(level):
        form = draw(FORMS) if odd else list
        if level < depth:
            return form([build(level + 1) for _ in range(draw(st.integers(0, 3)))])
        return form(draw(st.lists(st.one_of(leaves, ANY_LEAF) if odd else leaves, max_size=4)))

    return build(0)


def outcome(lists, dtype, levels):
    try:
        with np.errstate(all="ignore"):
            x = sf.LoD.from_nested(lists, dtype, levels)
    except Exception as error:
        return type(error), str(error)
    return x.dtype, x.data.dtype.str, repr(x.data.tolist()), x.data.shape, [o.tolist() for o in x.lod]


@given(case=any_lists(), dtype=st.sampled_from(DTYPES), levels=st.sampled_from([None, None, 1, 2]))
def test_a_look_by_the_extension_changes_nothing(case, dtype, levels):
    """Values, dtypes, levels and errors are those of plain Python."""
    seen = outcome(case, dtype, levels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nested_lists, "read_numbers", lambda items: None)
        assert seen == outcome(case, dtype, levels)


@pytest.mark.skipif(core.extension is None, reason="the extension is not built here")
@pytest.mark.parametrize("leaf", [7, 2**62, -(2**63), -1.5, True], ids=repr)
@pytest.mark.parametrize("depth", [1, 2, 15, 16, 17])
def test_what_the_extension_reads(leaf, depth):
    lists = [leaf, leaf]
    for level in range(depth):
        lists = [lists, ()] if level else [lists, []]
    found = reading.read_numbers(tuple(lists))
    assert (found is not None) == (depth <= 16)
    if found is not None:
        data, lengths = found
        assert data.tolist() == [leaf, leaf]
        assert data.dtype == np.array([leaf]).dtype
        assert [x.tolist() for x in lengths] == [[2, 0]] * (depth - 1) + [[2, 0]]


@pytest.mark.parametrize("leaf", [2**63, -(2**63) - 1, None, "a", np.int64(1), np.float64(1), Own(1), 1j, np.zeros(1)])
def test_what_the_extension_leaves_to_python(leaf):
    for lists in (
        [[leaf]],
        [[1, leaf]],
        [[1, [1]]],
        [[leaf, 1.5]],
        [[1], [], [leaf]],
        [[1], Few([1])],
        [[[1]], [leaf]],
    ):
        assert reading.read_numbers(tuple(lists)) is None


def test_without_the_extension():
    with core.python_only():
        assert reading.read_numbers(([1],)) is None
        assert sf.LoD.from_nested([[1], [2]]).data.tolist() == [1, 2]
        assert sf.LoD(np.arange(3), [[0, 2], [0, 1, 3]]).to_nested() == [[[0], [1, 2]]]


@pytest.mark.parametrize("lists", [[["a"], ["b", "c"]], [[["a"]], [["b"]]], [np.zeros(1), [2.0]]])
def test_lists_that_change_while_they_are_read_in_python(monkeypatch, lists):
    counted = nested_lists.Structure.of_lengths

    def changing(lengths):
        lists[-1].append(lists[-1][0])
        return counted(lengths)

    monkeypatch.setattr(nested_lists.Structure, "of_lengths", changing)
    with pytest.raises(sf.StructureError, match="changed"):
        sf.LoD.from_nested(lists)


def offsets_of(lengths):
    return np.cumsum([0, *lengths])


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", ">f8", "g", "i1", "i2", "i4", "i8", ">i8", "u1", "u2", "u4", "u8", "?", "c16"]
)
@pytest.mark.parametrize("lod", [[[]], [[0, 0]], [[3, 0, 2]], [[2, 0, 1], [3, 0, 2]], [[1, 1], [0, 3], [2, 1, 2]]])
def test_lists_are_those_of_numpy(lod, dtype):
    rows = sum(lod[-1])
    data = np.array([3, 0, 250, 7, 1][:rows]).astype(dtype)
    wanted = data.tolist()
    for lengths in reversed(lod):
        given = iter(wanted)
        wanted = [[next(given) for _ in range(length)] for length in lengths]
    found = sf.LoD(data, [offsets_of(lengths) for lengths in lod]).to_nested()
    assert repr(found) == repr(wanted)


def test_lists_hold_each_number_once():
    """A number too many references is never freed, one too few is freed too early."""

    def references(x):
        return [sys.getrefcount(part) for part in (x[0], x[0][1], x[0][1][2])]

    for leaf in (1.5, 2**40):
        made = sf.LoD(np.full(6, leaf), [[0, 2], [0, 3, 6]]).to_nested()
        assert references(made) == references(json.loads(json.dumps(made)))


# ------------------------------------------------------------------------------------- arrays as sequences


@pytest.mark.parametrize("item_shape", [(), (2,), (2, 3), (0,)])
@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_arrays_are_innermost_sequences(dtype, item_shape):
    truth = strategies.truth_from([[2, 0], [], [1]], dtype, item_shape, levels=2)
    lists = oracle.nested(truth, "arrays")
    x = sf.LoD.from_nested(lists)
    oracle.assert_holds(x, truth)
    y = sf.convert(lists, sf.Padded)
    oracle.assert_holds(y, truth.at(-1))


def test_lists_of_numbers_beside_arrays():
    x = sf.LoD.from_nested([[np.array([1.0, 2.0]), [3.0]], [[]]])
    assert x.to_nested() == [[[1.0, 2.0], [3.0]], [[]]]


def test_numbers_beside_arrays_keep_their_value():
    """A list of floats beside an array of integers is refused or exact, never rounded."""
    for lists in ([np.array([1]), [1.5]], [np.array([1], "u1"), [-1]], [np.array([1], "u1"), [300]]):
        try:
            x = sf.LoD.from_nested(lists)
        except (sf.StructureError, TypeError):
            continue
        assert x.data.tolist() == [1, lists[1][0]]


def test_arrays_without_axes_are_leaves():
    x = sf.LoD.from_nested([[np.array(1), np.array(2)], [np.array(3)]])
    assert x.to_nested() == [[1, 2], [3]]


def test_deep_lists():
    """Hundreds of levels work, or say that they do not."""
    lists = [1]
    for _ in range(300):
        lists = [lists]
    x = sf.LoD.from_nested(lists)
    assert len(x.lod) == 300
    assert x.to_nested() == lists
    assert sf.convert(x, sf.Ragged).lengths.tolist() == [1]


# --------------------------------------------------------------------------------- the kind comes back


def test_nothing_is_changed():
    lists = [[1, 2], [], [3]]
    arrays = [np.array([1, 2]), np.array([3])]
    sf.convert(lists, sf.Masked)
    sf.convert(arrays, sf.Masked).data[...] = 9
    sf.convert(lists, list, copy=True)[0].append(5)
    assert lists == [[1, 2], [], [3]]
    assert [a.tolist() for a in arrays] == [[1, 2], [3]]


def test_arrays_of_text_in_a_dtype():
    x = sf.LoD.from_nested([[np.array(["a", "bcd"])]], "<U2", levels=2)
    assert x.to_nested() == [[["a", "bc"]]]


# -------------------------------------------------------------------------------------------- the dtype asked for


@pytest.mark.parametrize("dtype", ["f4", np.int32, np.dtype("u1"), float, "U3"])
@pytest.mark.parametrize(
    "kind", [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("x", [[[1, 2], [3]], [[], []], [[[1], []], [[2, 3]]], []], ids=repr)
def test_conversions_take_the_dtype_of_numbers(x, kind, dtype):
    """Of all that Python numbers can be converted to; `[]` and `[[], []]` are float64 without it."""
    found = sf.convert(x, kind, dtype=dtype)
    assert found.dtype == np.dtype(dtype)
    oracle.assert_same(found, sf.convert(sf.LoD.from_nested(x, dtype=dtype), kind))
    y, pullback = sf.vjp(sf.convert, x, kind, dtype=dtype)
    assert y.dtype == np.dtype(dtype)
    if np.dtype(dtype).kind == "f":
        assert pullback(y) == sf.convert(sf.LoD.from_nested(x, dtype=dtype), list)


def test_options_beside_the_dtype():
    found = sf.convert([[[1], [2, 3]], [[4]]], sf.Masked, dtype="f4", level=0, fill=-1, side="left")
    assert found.data.tolist() == [[1, 2, 3], [-1, -1, 4]]
    assert found.dtype == np.float32


@pytest.mark.parametrize("dtype", ["f4", np.int32, "U3"])
@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
@pytest.mark.parametrize("lengths", [[2, 0, 1], [0], []], ids=repr)
def test_conversions_take_the_dtype_of_arrays(lengths, kind, dtype):
    """Before anything is made of them, so that the padding is exact in the new one."""
    items = [np.arange(length) for length in lengths]
    found = sf.convert(items, kind, dtype=dtype)
    assert found.dtype == np.dtype(dtype)
    oracle.assert_same(
        found, sf.convert([item.astype(dtype) for item in items] or sf.List([], np.empty(0, dtype)), kind)
    )
    y, pullback = sf.vjp(sf.convert, items, kind, dtype=dtype)
    oracle.assert_same(y, found)
    assert [item.dtype for item in pullback(y)] == [np.dtype(dtype)] * len(items)


def test_the_padding_is_one_of_the_dtype_asked_for():
    assert sf.convert([np.arange(1), np.arange(2)], sf.Masked, dtype="f4", fill=0.5).data[0, 1] == 0.5
    with pytest.raises(sf.ConversionError, match="fill=0.5 is not exact in int32"):
        sf.convert([np.arange(1.0), np.arange(2.0)], sf.Masked, dtype="i4", fill=0.5)


def test_a_dtype_for_what_has_one():
    x = sf.Ragged(np.arange(2), [2])
    for options in ({"dtype": "f4"}, {"library": "numpy"}):
        for use in (sf.convert, lambda *args, **given: sf.vjp(sf.convert, *args, **given)):
            with pytest.raises(TypeError, match=f"no option '{next(iter(options))}'.*sf[.](astype|to)"):
                use(x, sf.Masked, **options)


@pytest.mark.parametrize("x", [[[1, 2], [3]], [np.arange(2)], [], [[[1]], []]], ids=repr)
def test_conversions_take_a_library(x):
    for kind in oracle.ENCODINGS:
        oracle.assert_same(sf.convert(x, kind, library="numpy"), sf.convert(x, kind))
    for wrong, error in (("abacus", sf.ConversionError), (3, TypeError)):
        with pytest.raises(error, match="library must be"):
            sf.convert(x, sf.Ragged, library=wrong)
