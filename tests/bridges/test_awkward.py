"""Awkward Array there and back, against `ak.to_list`: whatever nodes an array is made of."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqformats as sf
import seqformats.awkward

ak = pytest.importorskip("awkward")
pytestmark = pytest.mark.bridges

contents, Index64 = ak.contents, ak.index.Index64
DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64"]


def plain(x):
    """An encoding as lists all the way down."""
    if isinstance(x, list):
        return [plain(part) for part in x]
    return x.tolist() if isinstance(x, np.ndarray) else x


def listed(x):
    return plain(x.to_nested())


# --- arrays of every make --------------------------------------------------------------------------------------------


@st.composite
def items(draw, length):
    """A node without lists."""
    shape = draw(st.sampled_from([(), (), (1,), (2,), (3, 2)]))
    dtype = draw(st.sampled_from(DTYPES))
    data = (
        np.arange(length * int(np.prod(shape))) % 2 if dtype == "bool" else np.arange(length * int(np.prod(shape)))
    ).astype(dtype)
    step = draw(st.sampled_from([1, 1, 2]))
    data = np.repeat(data, step)[::step]  # with gaps between the items
    if draw(st.booleans()):
        return contents.NumpyArray(data.reshape(length, *shape))
    node = contents.NumpyArray(data)
    for k in reversed(range(len(shape))):
        node = contents.RegularArray(node, shape[k], length * int(np.prod(shape[:k], dtype=int)))
    return node


@st.composite
def lists_of(draw, node, length):
    """A node of `length` lists over a node."""
    cuts = sorted(draw(st.lists(st.integers(0, node.length), min_size=length + 1, max_size=length + 1)))
    kind = draw(st.sampled_from([np.int32, np.uint32, np.int64]))
    index = {np.int32: ak.index.Index32, np.uint32: ak.index.IndexU32, np.int64: Index64}[kind]
    offsets = np.array(cuts, kind)
    made = draw(st.sampled_from(["offsets", "offsets", "ends", "shuffled", "regular"]))
    if made == "offsets":
        return contents.ListOffsetArray(index(offsets), node)
    if made == "regular" and length:
        size = draw(st.integers(0, node.length // length))
        return contents.RegularArray(node, size, length)
    order = draw(st.permutations(range(length))) if made == "shuffled" else list(range(length))
    return contents.ListArray(index(offsets[:-1][order]), index(offsets[1:][order]), node)


@st.composite
def wrapped(draw, node, none):
    """The same node, or others behind an index or a mask; with None only where that is allowed."""
    n = node.length
    made = draw(st.sampled_from(["plain", "plain", "index", "unmasked", "option", "bytes", "bits"]))
    if made == "index":
        return contents.IndexedArray(Index64(np.array(draw(st.permutations(range(n))), np.int64)), node)
    if made == "unmasked":
        return contents.UnmaskedArray.simplified(node)
    valid = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool) if none else np.ones(n, bool)
    if made == "option":
        return contents.IndexedOptionArray.simplified(Index64(np.where(valid, np.arange(n), -1)), node)
    if made == "bytes":
        return contents.ByteMaskedArray.simplified(ak.index.Index8(valid.astype(np.int8)), node, valid_when=True)
    if made == "bits":
        bits = ak.index.IndexU8(np.packbits(valid, bitorder="little"))
        return contents.BitMaskedArray.simplified(bits, node, valid_when=True, length=n, lsb_order=True)
    return node


@st.composite
def arrays(draw, none=False, most=3):
    """An array of 1 to `most` levels of lists that may differ in length, and how many."""
    depth = draw(st.integers(1, most))
    node = draw(wrapped(draw(items(draw(st.integers(0, 12)))), none))
    for _ in range(depth):
        node = draw(wrapped(draw(lists_of(node, draw(st.integers(0, 5)))), none))
    x = ak.Array(node)
    how = draw(st.sampled_from(["whole", "whole", "part", "step", "chosen"]))
    if how == "part":
        x = x[draw(st.integers(0, 3)) :]
    elif how == "step":
        x = x[::-2]
    elif how == "chosen" and len(x):
        x = x[draw(st.lists(st.integers(0, len(x) - 1), max_size=4))]
    return x


@given(arrays())
@settings(max_examples=400, deadline=None)
def test_any_array_has_the_same_lists_here(x):
    y = sf.from_awkward(x)
    assert listed(y) == ak.to_list(x)
    back = sf.to_awkward(y)
    assert ak.to_list(back) == ak.to_list(x)
    assert ak.is_valid(back)
    assert sf.equal(sf.from_awkward(back), y)


@given(arrays(none=True))
@settings(max_examples=300, deadline=None)
def test_none_becomes_an_empty_sequence_or_a_value(x):
    y = sf.from_awkward(x, missing="empty", items=1)
    levels = len(y.lengths()) if isinstance(y, sf.LoD) else 1
    assert listed(y) == without_none(ak.to_list(x), 1 + levels, y.item_shape)


def without_none(x, levels, shape):
    """Lists with an empty one for None on so many levels, and ones in the item shape further in."""
    if levels:
        return [without_none(part, levels - 1, shape) for part in x or []]
    return (
        np.ones(shape, int).tolist() if x is None else [without_none(part, 0, shape[1:]) for part in x] if shape else x
    )


def test_none_is_an_error_that_says_where():
    with pytest.raises(sf.StructureError, match=r"1 lists of level 0 are None, the first is list 1; missing=\"empty\""):
        sf.from_awkward(ak.Array([[1], None]))
    with pytest.raises(sf.StructureError, match=r"2 lists of level 1 are None, the first is list 0"):
        sf.from_awkward(ak.Array([[None, [1]], [None]]))
    with pytest.raises(sf.StructureError, match="2 items are None; items=0"):
        sf.from_awkward(ak.Array([[1, None], [None]]))
    with pytest.raises(sf.ConversionError, match="0.5"):
        sf.from_awkward(ak.Array([[1, None]]), items=0.5)


def test_items_that_were_none_keep_the_dtype():
    x = sf.from_awkward(ak.values_astype(ak.Array([[1, 2], None]), "uint8"), missing="empty")
    assert x.dtype == np.uint8
    assert sf.from_awkward(ak.values_astype(ak.Array([[1, None]]), "float32"), items=np.nan).dtype == np.float32


# --- memory ----------------------------------------------------------------------------------------------------------


def test_memory_is_shared_there_and_back():
    data = np.arange(10.0)
    x = ak.Array(contents.ListOffsetArray(Index64(np.array([0, 2, 2, 7, 10])), contents.NumpyArray(data)))
    assert np.shares_memory(sf.from_awkward(x).data, data)
    assert np.shares_memory(sf.from_awkward(x[1:3]).data, data)
    assert np.shares_memory(sf.from_awkward(ak.unflatten(x, [1, 3])).data, data)
    assert np.shares_memory(sf.from_awkward(ak.mask(x, [True, False, True, True]), missing="empty").data, data)
    assert np.shares_memory(sf.from_awkward(ak.from_numpy(data.reshape(2, 5))).data, data)
    y = sf.LoD(data, [[0, 2, 3], [0, 4, 4, 10]])
    node = sf.to_awkward(y).layout
    assert np.shares_memory(node.offsets.data, y.lod[0])
    assert np.shares_memory(node.content.offsets.data, y.lod[1])
    assert np.shares_memory(node.content.content.data, data)
    wide = sf.Ragged(np.zeros((4, 3, 2), "f4"), [1, 3])
    assert str(sf.to_awkward(wide).type) == "2 * var * 3 * 2 * float32"
    assert np.shares_memory(sf.from_awkward(sf.to_awkward(wide)).data, wide.data)


def test_lists_with_gaps_are_copied_in_their_order():
    x = ak.Array([[1, 2], [3], [4, 5, 6]])[[2, 0, 0]]
    assert sf.from_awkward(x).data.tolist() == [4, 5, 6, 1, 2, 1, 2]


# --- kinds of items --------------------------------------------------------------------------------------------------


def test_strings_are_bytes():
    x = sf.from_awkward(ak.Array(["to", "", "be"]))
    assert x.dtype == np.uint8
    assert bytes(x.data) == b"tobe"
    assert x.lengths.tolist() == [2, 0, 2]
    deep = sf.from_awkward(ak.Array([["to", "\u00e9"], [], [b"x"]][:2]))
    assert deep.lengths() == [[2, 0], [2, 2]]
    assert sf.from_awkward(ak.Array([[b"x", b"yz"]])).lengths() == [[2], [1, 2]]
    assert sf.from_awkward(ak.str.to_categorical(ak.Array(["a", "bc", "a"]))).lengths.tolist() == [1, 2, 1]


def test_dates():
    x = ak.Array([np.array(["2020-01-01", "2021-01-01"], "M8[D]"), np.array([], "M8[D]")])
    y = sf.from_awkward(x)
    assert y.dtype == np.dtype("M8[D]")
    assert ak.to_list(sf.to_awkward(y)) == ak.to_list(x)


@pytest.mark.parametrize(
    ("x", "n", "levels"),
    [([], 0, 1), ([[], []], 2, 1), ([[[], []], []], 2, 2), ([None, None], 2, 1)],
    ids=str,
)
def test_arrays_of_which_nothing_is_known(x, n, levels):
    y = sf.from_awkward(ak.Array(x), missing="empty")
    assert len(y) == n
    assert isinstance(y, sf.LoD if levels > 1 else sf.Ragged)
    assert y.data.shape == (0,)
    assert y.dtype == np.float64


def test_regular_axes():
    data = np.arange(24).reshape(2, 3, 4)
    x = sf.from_awkward(ak.from_numpy(data))  # axis 1 holds the items, and what is below is their shape
    assert x.lengths.tolist() == [3, 3]
    assert x.item_shape == (4,)
    assert sf.from_awkward(ak.from_regular(ak.from_numpy(data), 2)).lengths() == [[3, 3], [4] * 6]
    assert sf.from_awkward(ak.to_regular(ak.Array([[[1], [2, 3]], [[], []]]), 1)).lengths() == [[2, 2], [1, 2, 0, 0]]
    assert sf.from_awkward(ak.from_numpy(np.zeros((2, 0)))).lengths.tolist() == [0, 0]
    assert sf.from_awkward(ak.from_numpy(np.zeros((0, 3)))).lengths.tolist() == []
    assert sf.from_awkward(ak.from_numpy(np.zeros((2, 3, 0)))).data.shape == (6, 0)
    longer = contents.RegularArray(contents.NumpyArray(np.arange(7)), 2)  # than its items take
    assert listed(sf.from_awkward(contents.ListOffsetArray(Index64(np.array([0, 1, 3])), longer))) == [
        [[0, 1]],
        [[2, 3], [4, 5]],
    ]


def test_buffers_that_are_made_when_they_are_asked_for():
    x = ak.Array([[[1, 2]], [[3], []]])
    form, length, buffers = ak.to_buffers(x)
    later = ak.from_buffers(form, length, {key: (lambda b=b: b) for key, b in buffers.items()})
    assert listed(sf.from_awkward(later)) == ak.to_list(x)


def test_a_node_alone_comes_in_too():
    assert listed(sf.from_awkward(ak.Array([[1], []]).layout)) == [[1], []]


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (ak.Array([{"ids": [1, 2], "mask": [1, 1]}]), TypeError, r"records with the fields 'ids', 'mask'.*x\['ids'\]"),
        (ak.Array([[{"a": 1}], []]), TypeError, r"the fields 'a'"),
        (ak.Array([[(1, 2)]]), TypeError, r"the fields '0', '1'"),
        (ak.Array([[1, "a"]]), TypeError, "int64 or string"),
        (ak.Array([[1], 2]), TypeError, r"var \* int64 or int64"),
        (ak.Array([1, 2]), sf.StructureError, "no lists, but int64"),
        ([[1, 2]], TypeError, "takes an awkward.Array, not list; sf.convert"),
        (ak.Record({"a": [1]}), TypeError, "not Record"),
    ],
    ids=["records", "deeper", "tuples", "union", "union of lists", "flat", "list", "one record"],
)
def test_what_is_no_batch(x, error, message):
    with pytest.raises(error, match=message):
        sf.from_awkward(x)


@pytest.mark.parametrize("options", [{"missing": "zero"}, {"missing": None}, {"items": "empty"}], ids=str)
def test_options_that_are_none(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        sf.from_awkward(ak.Array([[1]]), **options)


def broken(offsets):
    return contents.ListOffsetArray(Index64(np.array(offsets)), contents.NumpyArray(np.arange(7)))


@pytest.mark.parametrize(
    "node",
    [
        broken([0, 9]),
        broken([0, 4, 2]),
        broken([3, 1]),
        broken([-2, 3]),
        broken([0, 2**62]),
        contents.ListOffsetArray(Index64(np.array([0, 1])), broken([0, 9])),
        contents.ListArray(Index64(np.array([0, 5])), Index64(np.array([2, 99])), contents.NumpyArray(np.arange(7))),
        contents.ListArray(Index64(np.array([5, -3])), Index64(np.array([7, -1])), contents.NumpyArray(np.arange(7))),
        contents.IndexedArray(Index64(np.array([0, 5])), broken([0, 2, 4])),
        contents.IndexedOptionArray(Index64(np.array([0, 5])), broken([0, 2, 4])),
        contents.ListOffsetArray(
            Index64(np.array([0, 2])),
            contents.IndexedArray(Index64(np.array([0, 9])), contents.NumpyArray(np.arange(7))),
        ),
    ],
    ids=range(11),
)
def test_arrays_that_are_not_valid(node):
    assert not ak.is_valid(node)
    with pytest.raises(sf.StructureError):
        sf.from_awkward(node, missing="empty")


def test_an_array_that_is_nowhere():
    with pytest.raises(sf.DeviceError, match="not typetracer"):
        sf.from_awkward(ak.to_backend(ak.Array([[1]]), "typetracer"))


# --- the way out -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("To", [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD, list])
def test_every_encoding_goes_out(To):
    lists = [[1, 2], [], [3, 4, 5]]
    assert sf.to_awkward(sf.convert(lists, To)).tolist() == lists


def test_tensors_go_out_in_their_memory():
    torch = pytest.importorskip("torch")
    x = sf.Ragged(torch.arange(3), [1, 2])
    out = sf.to_awkward(x)
    assert out.tolist() == [[0], [1, 2]]
    x.data[0] = 7
    assert out.tolist() == [[7], [1, 2]]
    with pytest.raises(TypeError, match="detach"):
        sf.to_awkward(sf.Ragged(torch.zeros(3, requires_grad=True), [1, 2]))
    with pytest.raises(TypeError, match="bfloat16"):
        sf.to_awkward(sf.Ragged(torch.zeros(3, dtype=torch.bfloat16), [1, 2]))


def test_what_does_not_go_out():
    x = sf.Ragged(np.arange(3), [1, 2])
    with pytest.raises(TypeError, match="no Pairs"):
        sf.to_awkward(sf.Pairs(x, x))
    with pytest.raises(TypeError, match="U1"):
        sf.to_awkward([["a"], ["b"]])
    with pytest.raises(TypeError, match="is no encoding"):
        sf.to_awkward(np.arange(3))


def test_an_error_says_the_way_in():
    with pytest.raises(TypeError, match="sf.from_awkward"):
        sf.convert(ak.Array([[1]]), sf.Masked)


def test_the_examples_hold():
    found = doctest.testmod(seqformats.awkward)
    assert found.attempted >= 5
    assert not found.failed
