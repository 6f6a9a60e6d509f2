"""Columns of Arrow in and out, against `to_pylist`; columns that lie; and everything that offers PyCapsules."""

import doctest
import importlib
import sys

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.arrow import kinds
from seqformats.formats.bare import is_column

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.bridges

# --- types and values ------------------------------------------------------------------------------------------------

NUMBERS = {
    "int8": (-100, 100),
    "int16": (-100, 100),
    "int32": (-100, 100),
    "int64": (-(2**60), 2**60),
    "uint8": (0, 200),
    "uint16": (0, 200),
    "uint32": (0, 200),
    "uint64": (0, 2**60),
    "float16": (-100, 100),
    "float32": (-100, 100),
    "float64": (-100, 100),
}
TIMES = [
    (pa.date32(), "M8[D]"),
    (pa.date64(), "M8[ms]"),
    (pa.timestamp("s"), "M8[s]"),
    (pa.timestamp("ns", "Europe/Zurich"), "M8[ns]"),
    (pa.time32("ms"), "m8[ms]"),
    (pa.time64("us"), "m8[us]"),
    (pa.duration("ms"), "m8[ms]"),
]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
DAY = 86_400_000


@st.composite
def leaves(draw):
    """A type of items, what draws one, the dtype, and whether it is a level by itself."""
    which = draw(st.sampled_from(["number", "bool", "time", "text"]))
    if which == "number":
        name = draw(st.sampled_from(sorted(NUMBERS)))
        return pa.from_numpy_dtype(np.dtype(name)), st.integers(*NUMBERS[name]), np.dtype(name), False
    if which == "bool":
        return pa.bool_(), st.booleans(), np.dtype(bool), False
    if which == "time":
        kind, dtype = draw(st.sampled_from(TIMES))
        several = st.integers(0, 10).map(lambda k: k * DAY if kind == pa.date64() else k)
        return kind, several, np.dtype(dtype), False
    kind = draw(st.sampled_from(TEXTS))
    values = st.text("aä☃", max_size=9) if "string" in str(kind) else st.binary(max_size=20)
    return kind, values, np.dtype(np.uint8), True


LISTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}


@st.composite
def columns(draw, nulls=True, kinds=(*LISTS, "fixed"), least=0):
    """A column, its values, what says how each level and item is to be read, and the dtype."""
    kind, items, dtype, is_text = draw(leaves())
    steps = []
    for at in range(draw(st.integers(0 if is_text else 1, 3))):
        name = draw(st.sampled_from(kinds))
        size = draw(st.integers(0, 3)) if name == "fixed" else None
        steps.insert(0, size)
        kind = pa.list_(kind, size) if name == "fixed" else LISTS[name](kind)
        none = draw(st.booleans()) and nulls and (at or not is_text)
        inner = st.none() | items if none else items
        items = st.lists(inner, min_size=size or 0, max_size=4 if size is None else size)
    if draw(st.booleans()) and nulls:
        items = st.none() | items
    values = draw(st.lists(items, min_size=least, max_size=6))
    return pa.array(values, kind), values, (steps, is_text), dtype


def read(value, steps, is_text, fill, outermost=True):
    """What `to_pylist` says, with empty sequences for null ones, and `fill` for null items."""
    if not steps:
        if is_text:
            return [] if value is None else list(value.encode() if isinstance(value, str) else value)
        return fill if value is None else value
    item = not outermost and not is_text and all(size is not None for size in steps)
    if value is None:
        value = [None] * steps[0] if item else []
    return [read(one, steps[1:], is_text, fill, outermost=False) for one in value]


def plain(x):
    """Nested lists of Python, items with a shape included, times as integers."""
    if isinstance(x, list):
        return [plain(one) for one in x]
    if isinstance(x, (np.ndarray, np.generic)):
        return plain(x.view(np.int64).tolist() if x.dtype.kind in "mM" else x.tolist())
    return x


def expected(values, form, fill=0):
    return [read(value, *form, fill) for value in values]


def of_list(column, values, dtype):
    """The values of a column, by Arrow itself where these are no objects of time."""
    return values if dtype.kind in "mM" else column.to_pylist()


def zero(dtype):
    return np.zeros((), dtype)[()] if dtype.kind in "mM" else False if dtype.kind == "b" else 0


# --- in --------------------------------------------------------------------------------------------------------------


@given(found=columns(), data=st.data())
def test_any_column(found, data):
    """Sliced, and in chunks."""
    column, values, form, dtype = found
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(values)), st.integers(0, len(values)))))
    part, some = column[start:stop], values[start:stop]
    cut = data.draw(st.integers(0, len(values)))
    chunks = pa.chunked_array([column[:cut], column[cut:]])
    for given_, want in ((column, values), (part, some), (chunks, values)):
        x = sf.from_arrow(given_, missing="empty", items=zero(dtype))
        assert plain(x.to_nested()) == expected(of_list(given_, want, dtype), form)
        assert x.dtype == dtype
        assert len(x) == len(want)
    for alone in (column, pa.chunked_array([column])):
        assert sf.equal(sf.from_arrow(alone, missing="empty", items=zero(dtype)), sf.from_arrow(column, **READ(dtype)))


def READ(dtype):
    return {"missing": "empty", "items": zero(dtype)}


@given(found=columns())
def test_a_null_is_an_error(found):
    """Where there is one, and only there."""
    column, values, (steps, is_text), _ = found

    def has_null(value):
        return value is None or (isinstance(value, list) and any(map(has_null, value)))

    if any(map(has_null, values)):
        with pytest.raises(sf.StructureError, match=r"null.* row \d"):
            sf.from_arrow(column)
    else:
        assert plain(sf.from_arrow(column).to_nested()) == expected(values, (steps, is_text))


@given(found=columns(), data=st.data())
def test_what_a_null_list_hides_is_not_read(found, data):
    """Nor what is before and behind a slice: nulls there are no error."""
    column, _, form, dtype = found
    n = len(column)
    if form == ([], True) or n == 0:
        return
    there = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
    valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    if pa.types.is_fixed_size_list(column.type):
        hidden = pa.Array.from_buffers(column.type, n, [valid], children=[column.values])
    elif "view" in str(column.type).partition("<")[0] or column.type.num_fields != 1:
        return
    else:
        hidden = pa.Array.from_buffers(column.type, n, [valid, column.buffers()[1]], children=[column.values])
    x = sf.from_arrow(hidden, **READ(dtype))
    if dtype.kind not in "mM":
        assert plain(x.to_nested()) == expected(hidden.to_pylist(), form)
    assert (sf.lengths(x, 0)[~there] == 0).all()
    if not there.all():
        with pytest.raises(sf.StructureError, match="null"):
            sf.from_arrow(hidden)


@given(found=columns(), data=st.data())
def test_dictionaries(found, data):
    """Of anything: a value may stand for many rows."""
    column, values, form, dtype = found
    numbers = data.draw(st.lists(st.none() | st.integers(0, max(len(values) - 1, 0)), max_size=6))
    if not values:
        numbers = [None] * len(numbers)
    kind = data.draw(st.sampled_from([pa.int8(), pa.uint16(), pa.int64()]))
    encoded = pa.DictionaryArray.from_arrays(pa.array(numbers, kind), column)
    want = [None if k is None else values[k] for k in numbers]
    assert plain(sf.from_arrow(encoded, **READ(dtype)).to_nested()) == expected(want, form)
    assert plain(sf.from_arrow(encoded[1:], **READ(dtype)).to_nested()) == expected(want[1:], form)


def test_words_of_a_dictionary_in_lists():
    words = pa.array(["a", "bc", "a", None]).dictionary_encode()
    column = pa.ListArray.from_arrays(pa.array([0, 3, 3, 4], pa.int32()), words)
    x = sf.from_arrow(column, missing="empty")
    assert x.to_nested() == [[[97], [98, 99], [97]], [], [[]]]
    with pytest.raises(sf.StructureError, match="row 2"):
        sf.from_arrow(column)


@pytest.mark.parametrize("kind", LISTS, ids=str)
@pytest.mark.parametrize("dtype", sorted(NUMBERS))
def test_memory_is_shared(kind, dtype):
    data = np.arange(10).astype(dtype)
    items = pa.array(data)
    if kind.endswith("view"):
        made, size = (pa.LargeListViewArray, pa.int64()) if "large" in kind else (pa.ListViewArray, pa.int32())
        lists = made.from_arrays(pa.array([0, 3, 3], size), pa.array([3, 0, 7], size), items)
    else:
        lists = pa.LargeListArray.from_arrays(pa.array([0, 3, 3, 10]), items).cast(LISTS[kind](items.type))
    for column in (lists, lists[1:], lists[:2], pa.chunked_array([lists])):
        x = sf.from_arrow(column)
        assert x.rows == 0 or np.shares_memory(x.data, data)
        assert not x.data.flags.writeable
    nested = pa.LargeListArray.from_arrays(pa.array([0, 1, 3]), lists)
    assert np.shares_memory(sf.from_arrow(nested[1:]).data, data)
    assert np.shares_memory(sf.from_arrow(pa.FixedSizeListArray.from_arrays(items, 5)).data, data)


def test_the_memory_outlives_the_column():
    x = sf.from_arrow(pa.array([np.arange(1000)] * 100))
    assert [sequence.sum() for sequence in x.sequences()] == [499500] * 100


def test_times_share_memory():
    for kind in (pa.timestamp("us"), pa.duration("s"), pa.time64("ns"), pa.date64()):
        column = pa.array([[0, DAY]], pa.list_(kind))
        values = np.frombuffer(column.values.buffers()[1], np.int64)
        assert np.shares_memory(sf.from_arrow(column).data.view(np.int64), values)


def test_views_out_of_order_and_over_one_another():
    items = pa.array([1, 2, 3, 4])
    column = pa.ListViewArray.from_arrays(pa.array([2, 0, 1], pa.int32()), pa.array([2, 3, 0], pa.int32()), items)
    assert sf.from_arrow(column).to_nested() == [[3, 4], [1, 2, 3], []]
    outer = pa.ListViewArray.from_arrays(pa.array([1, 0], pa.int32()), pa.array([2, 2], pa.int32()), column)
    assert sf.from_arrow(outer).to_nested() == [[[1, 2, 3], []], [[3, 4], [1, 2, 3]]]


def test_lists_of_one_size():
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    assert sf.from_arrow(vectors).to_nested() == [[1, 2], [3, 4]]  # the outermost is a level
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 2], pa.int32()), vectors)
    x = sf.from_arrow(lists)
    assert x.data.tolist() == [[1, 2], [3, 4]]
    assert x.item_shape == (2,)
    words = pa.array([["a", "b"], None], pa.list_(pa.string(), 2))
    assert sf.from_arrow(words, missing="empty").to_nested() == [[[97], [98]], []]


def test_null_items_with_a_shape():
    column = pa.array([[[1, None], None]], pa.list_(pa.list_(pa.int32(), 2)))
    assert sf.from_arrow(column, items=7).data.tolist() == [[1, 7], [7, 7]]
    assert sf.from_arrow(column, items=[8, 9]).data.tolist() == [[1, 9], [8, 9]]
    with pytest.raises(sf.StructureError, match="2 items are null, the first of them in row 0"):
        sf.from_arrow(column)


def test_items_must_fit():
    column = pa.array([[1, None]], pa.list_(pa.int8()))
    for value in (0.5, 300, [1, 2], "x"):
        with pytest.raises(sf.ConversionError, match="items"):
            sf.from_arrow(column, items=value)
    times = pa.array([[1, None]], pa.list_(pa.timestamp("s")))
    assert np.isnat(sf.from_arrow(times, items=np.datetime64("NaT")).data).tolist() == [False, True]


def test_nothing_at_all():
    for kind in (pa.list_(pa.int32()), pa.large_list(pa.list_(pa.float16())), pa.string(), pa.list_(pa.null())):
        for column in (pa.array([], kind), pa.chunked_array([], kind), pa.array([[]], pa.list_(kind)).values):
            x = sf.from_arrow(column)
            assert len(x) == x.rows == 0
    assert sf.from_arrow(pa.array([[], []])).dtype == np.float64
    assert sf.from_arrow(pa.array([[None], []]), items=np.int8(3)).to_nested() == [[3], []]
    assert sf.from_arrow(pa.array([None, None]), missing="empty").to_nested() == [[], []]
    with pytest.raises(sf.StructureError, match="2 sequences are null, the first of them row 0"):
        sf.from_arrow(pa.array([None, None]))
    with pytest.raises(sf.StructureError, match="item is null"):
        sf.from_arrow(pa.array([[None], []]))


def test_extension_types():
    class Points(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.list_(pa.list_(pa.float64(), 2)), "house.points")

        def __arrow_ext_serialize__(self):
            return b""

    column = pa.ExtensionArray.from_storage(Points(), pa.array([[[1.0, 2.0]], []], pa.list_(pa.list_(pa.float64(), 2))))
    assert sf.from_arrow(column).data.tolist() == [[1, 2]]
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(24).reshape(4, 3, 2))
    x = sf.from_arrow(tensors[1:])
    assert x.data.tolist() == np.arange(6, 24).reshape(9, 2).tolist()
    assert x.lengths.tolist() == [3, 3, 3]
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 4], pa.int32()), tensors)
    assert sf.from_arrow(lists).data.tolist() == np.arange(24).reshape(4, 3, 2).tolist()
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, 2], pa.int8()))
    assert sf.from_arrow(pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), flags)).data.tolist() == [1, 0, 1]
    permuted = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2, 2], permutation=[1, 0]), pa.array([[1, 2, 3, 4]], pa.list_(pa.int32(), 4))
    )
    with pytest.raises(TypeError, match="permuted"):
        sf.from_arrow(permuted)


def test_bytes_of_one_size():
    column = pa.array([b"abc", b"def"], pa.binary(3))
    assert sf.from_arrow(column[1:]).to_nested() == [list(b"def")]
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), column)
    assert sf.from_arrow(lists).data.tolist() == [list(b"abc"), list(b"def")]


WRONG = [
    (pa.array([1, 2]), "one item per row.*from_table"),
    (pa.array([[{"a": 1}]]), "struct.*reads their first field"),
    (pa.array([{"a": 1}]), "struct.*from_table"),
    (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), "struct|map"),
    (pa.array([[1, 2]], pa.list_(pa.decimal128(5, 2))), "decimal.*cast"),
    (pa.table({"a": [1]}), "from_table"),
    ([1, 2], "pa.array"),
    (None, "no column"),
    (pa.Array, "no column"),
]


@pytest.mark.parametrize(("column", "words"), WRONG)
def test_what_is_no_column_of_sequences(column, words):
    with pytest.raises(TypeError, match=words):
        sf.from_arrow(column)


def test_options_are_checked():
    with pytest.raises(sf.ConversionError, match='missing must be "raise" or "empty"'):
        sf.from_arrow(pa.array([[1]]), missing="drop")
    with pytest.raises(TypeError, match="missing"):
        sf.from_arrow(pa.array([[1]]), missing=None)


def test_errors_name_the_column_and_the_row():
    pl = pytest.importorskip("polars")
    with pytest.raises(sf.StructureError, match="^column 'ids': 1 sequence is null, the first of them row 1;"):
        sf.from_arrow(pl.Series("ids", [[1], None]))
    chunks = pa.chunked_array([[["a"], ["b"]], [["c", None]]])
    with pytest.raises(sf.StructureError, match="row 2"):
        sf.from_arrow(chunks)
    deep = pa.array([[[1]], [[2], [3, None]]])
    with pytest.raises(sf.StructureError, match="1 item is null, the first of them in row 1"):
        sf.from_arrow(deep)
    with pytest.raises(sf.StructureError, match="^column 'b': .*row 1"):
        sf.from_table(pa.table({"a": [[1], [2]], "b": [[1], [None]]}))


# --- columns that lie ------------------------------------------------------------------------------------------------


class Liar:
    """A column of lists whose offsets change, after Arrow has looked at them, when it is told to lie.

    It is shown as an object alone: Arrow's own way to show such a column believes it.
    """

    def __init__(self, offsets, rows, text=False):
        n = len(offsets) - 1
        self.offsets = offsets
        self.memory = np.zeros(n + 1, np.int64)
        buffers = [None, pa.py_buffer(self.memory)]
        if text:
            self.column = pa.Array.from_buffers(pa.large_binary(), n, [*buffers, pa.py_buffer(bytes(range(rows)))])
        else:
            items = pa.array(np.arange(rows, dtype=np.int32))
            self.column = pa.Array.from_buffers(pa.large_list(items.type), n, buffers, children=[items])

    def lie(self):
        self.memory[:] = self.offsets


LIES = {
    "falling": [0, 3, 2, 4],
    "negative": [-1, 1, 2, 4],
    "negative within": [0, -(2**63), 2, 4],
    "beyond": [0, 1, 2, 5],
    "far beyond": [0, 1, 2, 2**62],
    "overflow": [5, -(2**63), 2**63 - 1, 5],
    "overflow from the first": [4, 2**63 - 1, -(2**63), 4],
    "the end before the beginning": [3, 3, 3, 1],
}


@pytest.mark.parametrize("offsets", LIES.values(), ids=LIES)
def test_offsets_that_lie(offsets):
    """Alone, sliced, in chunks, in lists and tables, and where a dictionary holds them."""
    liar = Liar(offsets, 4)
    outer = Liar([0, 1, 3], 4)
    outer.column = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), liar.column)
    outer.encoded = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0]), liar.column)
    outer.table = pa.table({"ids": liar.column})
    liar.lie()
    for use in (sf.from_arrow, sf.reduce_sum, lambda x: sf.convert(x, sf.Masked), sf.with_padded(lambda p: p)):
        with pytest.raises(sf.StructureError, match=r"^row \d"):
            use(liar.column)
    with pytest.raises(sf.StructureError, match=r"^column 'ids': row \d"):
        sf.from_table(outer.table)
    with pytest.raises(sf.StructureError, match=r"row [01]"):
        sf.from_arrow(outer.column)
    with pytest.raises(sf.StructureError, match=r"row \d"):
        sf.from_arrow(outer.encoded)


@given(
    offsets=st.lists(st.integers(-2, 6) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6),
    rows=st.integers(0, 6),
    slices=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    text=st.booleans(),
)
def test_any_offsets(offsets, rows, slices, text):
    """A `StructureError`, or what is really there."""
    liar = Liar(offsets, rows, text)
    liar.column = liar.column[slice(*slices)]
    liar.lie()
    try:
        x = sf.from_arrow(liar.column)
    except sf.StructureError:
        with pytest.raises(pa.ArrowInvalid):
            liar.column.validate(full=True)
    else:
        if len(liar.column):
            liar.column.validate(full=True)
        assert x.to_nested() == [list(one) for one in liar.column.to_pylist()]


@given(
    starts=st.lists(st.integers(-2, 6) | st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
    sizes=st.lists(st.integers(-2, 6) | st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
    rows=st.integers(0, 6),
)
def test_any_views(starts, sizes, rows):
    first, second = np.zeros(3, np.int64), np.zeros(3, np.int64)
    column = pa.Array.from_buffers(
        pa.large_list_view(pa.int64()),
        3,
        [None, pa.py_buffer(first), pa.py_buffer(second)],
        children=[pa.array(range(rows), pa.int64())],
    )
    first[:], second[:] = starts, sizes
    try:
        x = sf.from_arrow(column)
    except sf.StructureError:
        with pytest.raises(pa.ArrowInvalid):
            column.validate(full=True)
    else:
        column.validate(full=True)
        assert x.to_nested() == column.to_pylist()


@pytest.mark.parametrize(("start", "size"), [(2, 2), (3, 1), (4, 0), (0, 4), (-1, 1), (0, -1)])
def test_views_beyond_what_they_look_at(start, size):
    buffers = [pa.py_buffer(np.array([0, number])) for number in (start, size)]
    column = pa.Array.from_buffers(
        pa.large_list_view(pa.int64()), 2, [None, *buffers], children=[pa.array(np.arange(3))]
    )
    with pytest.raises(sf.StructureError):
        sf.from_arrow(column)


@given(data=st.data())
def test_any_views_of_text(data):
    words = data.draw(st.lists(st.binary(max_size=20), min_size=1, max_size=4))
    column = pa.array(words, pa.binary_view())
    raw = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)[: len(words)].copy()
    column = pa.Array.from_buffers(
        pa.binary_view(), len(words), [None, pa.py_buffer(raw), *map(pa.py_buffer, column.buffers()[2:])]
    )
    assert sf.from_arrow(column).to_nested() == [list(word) for word in words]
    row, place = data.draw(st.integers(0, len(words) - 1)), data.draw(st.integers(0, 3))
    raw[row, place] = data.draw(st.integers(-3, 30) | st.integers(-(2**31), 2**31 - 1))
    try:
        x = sf.from_arrow(column)
    except sf.StructureError:
        with pytest.raises((pa.ArrowInvalid, IndexError)):
            column.validate(full=True)
    else:
        assert len(x) == len(words)


@pytest.mark.parametrize(("place", "value"), [(0, 17), (2, -1), (2, 1), (3, -1), (3, 6), (0, -1)])
def test_views_of_bytes_that_are_not_there(place, value):
    column = pa.array([b"x" * 15, b"y"], pa.binary_view())
    raw = np.frombuffer(column.buffers()[1], np.int32).copy()
    own = pa.py_buffer(b"x" * 16)
    column = pa.Array.from_buffers(pa.binary_view(), 2, [None, pa.py_buffer(raw), own])
    assert sf.from_arrow(column).lengths.tolist() == [15, 1]
    raw[place] = value
    with pytest.raises(sf.StructureError, match="row 0"):
        sf.from_arrow(column)


def over_own_memory(array, memories):
    """The same array over copies of its buffers, which are put into `memories`."""
    kind = str(array.type)
    nested = isinstance(array.type, (pa.ListType, pa.LargeListType, pa.ListViewType, pa.LargeListViewType))
    children = (
        [over_own_memory(array.values, memories)] if nested or "fixed_size_list" in kind.partition("<")[0] else []
    )
    count = 3 if "list_view" in kind.partition("<")[0] else 2 if nested else 1 if children else None
    buffers = []
    for buffer in array.buffers()[:count]:
        if buffer is not None and buffer.size:
            memories.append(np.frombuffer(buffer, np.uint8).copy())
            buffer = pa.py_buffer(memories[-1])
        buffers.append(buffer)
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset, children=children)


@given(found=columns(), data=st.data())
def test_any_byte_may_be_another(found, data):
    """Of any buffer of any column: an error of this library, or what is there."""
    column, _, form, dtype = found
    memories = []
    liar = Liar([0], 0)
    liar.column = over_own_memory(column, memories)
    for _ in range(data.draw(st.integers(1, 3)) if memories else 0):
        memory = data.draw(st.sampled_from(memories))
        memory[data.draw(st.integers(0, memory.size - 1))] = data.draw(st.integers(0, 255))
    try:
        x = sf.from_arrow(liar.column, **READ(dtype))
    except (sf.StructureError, sf.OutOfMemory):
        with pytest.raises((pa.ArrowInvalid, IndexError)):
            liar.column.validate(full=True)
        return
    assert len(x) == len(column)
    try:
        liar.column.validate(full=True)
    except (pa.ArrowInvalid, IndexError):
        return  # bytes that are no UTF-8, say, which are bytes here
    if dtype.kind not in "mMf":
        assert plain(x.to_nested()) == expected(liar.column.to_pylist(), form)


def shrunk(size, kept):
    """A buffer that loses its end when it is told to, behind the back of the arrays that are over it."""
    buffer = pa.allocate_buffer(size, resizable=True)
    np.frombuffer(buffer, np.uint8)  # what it holds is junk
    return buffer, lambda: buffer.resize(kept)


@pytest.mark.parametrize("which", ["offsets", "items", "validity", "bits"])
def test_short_buffers(which):
    buffer, shorten = shrunk(4096, 8)
    n = 400
    if which == "offsets":
        offsets = buffer
        np.frombuffer(buffer, np.int64)
        memory = np.asarray(memoryview(buffer)).view(np.int64)
        memory[:] = 0
        column = pa.Array.from_buffers(pa.large_list(pa.int8()), n, [None, offsets], children=[pa.array([], pa.int8())])
    elif which == "items":
        items = pa.Array.from_buffers(pa.int64(), n, [None, buffer])
        column = pa.LargeListArray.from_arrays(pa.array([0, n]), items)
    elif which == "bits":
        items = pa.Array.from_buffers(pa.bool_(), n, [None, buffer])
        column = pa.LargeListArray.from_arrays(pa.array([0, n]), items)
    else:
        column = pa.Array.from_buffers(
            pa.large_list(pa.int8()),
            n,
            [buffer, pa.py_buffer(np.zeros(n + 1, np.int64))],
            children=[pa.array([], pa.int8())],
        )
    shorten()
    with pytest.raises(sf.StructureError, match="8 bytes"):
        sf.from_arrow(column, missing="empty")


def test_children_shorter_than_they_should_be():
    column = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), pa.array([1, 2, 3, 4]))
    short = pa.Array.from_buffers(column.type, 2, column.buffers()[:2], children=[column.values])
    offsets = np.array([0, 2, 4], np.int32)
    short = pa.Array.from_buffers(column.type, 2, [None, pa.py_buffer(offsets)], children=[column.values])
    offsets[2] = 5
    with pytest.raises(sf.StructureError, match="row 1 goes from 2 to 5, but there are 4 items"):
        sf.from_arrow(short)
    offsets[2] = 4
    assert sf.from_arrow(short).to_nested() == [[1, 2], [3, 4]]


def test_numbers_of_no_dictionary():
    numbers = np.zeros(3, np.int64)
    column = pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(numbers)]), pa.array(["a", "b"]), safe=False
    )
    numbers[1] = 2
    with pytest.raises(sf.StructureError, match="row 1 is value 2 of a dictionary of 2"):
        sf.from_arrow(column)
    numbers[1] = -1
    with pytest.raises(sf.StructureError, match="row 1"):
        sf.from_arrow(column)


def test_few_views_that_stand_for_more_than_there_is_room_for():
    n = 1 << 22
    zeros = pa.array(np.zeros(n, np.int64))
    column = pa.LargeListViewArray.from_arrays(zeros, pa.array(np.full(n, n)), pa.array(np.zeros(n, np.int8)))
    with pytest.raises(sf.OutOfMemory):
        sf.from_arrow(column)


# --- out -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [one for one in oracle.FORMATS if one is not list], ids=oracle.format_name)
@given(data=st.data())
def test_there_and_back(kind, data):
    _, x = data.draw(strategies.encoded(kind))
    if x.dtype.kind not in "biuf" or not x.dtype.isnative:
        return
    column = sf.to_arrow(x)
    column.validate(full=True)
    own = sf.convert(x, sf.LoD) if x.keeps_levels else sf.convert(x, sf.Ragged)
    back = sf.from_arrow(column)
    assert sf.equal(sf.convert(back, sf.LoD), sf.convert(own, sf.LoD), equal_nan=True)
    small = sf.to_arrow(x, large=False)
    small.validate(full=True)
    assert sf.equal(sf.from_arrow(small), back, equal_nan=True)


def test_bare_lists_and_rows():
    assert sf.to_arrow([[1, 2], []]).to_pylist() == [[1, 2], []]
    assert sf.to_arrow([np.array([1.5]), np.array([])]).to_pylist() == [[1.5], []]
    assert sf.to_arrow(np.array([1, 2])).to_pylist() == [1, 2]
    rows = np.arange(6.0).reshape(3, 2)
    column = sf.to_arrow(rows)
    assert column.type == pa.list_(pa.float64(), 2)
    assert column.to_pylist() == rows.tolist()
    assert np.shares_memory(column.values.to_numpy(), rows)
    with pytest.raises(sf.StructureError, match="single number"):
        sf.to_arrow(np.array(1))


@pytest.mark.parametrize("dtype", sorted(NUMBERS))
def test_nothing_is_copied(dtype):
    x = sf.Ragged(np.ones((5, 2), dtype), [2, 3])
    column = sf.to_arrow(x)
    inner = column.values.values
    assert np.shares_memory(inner.to_numpy(), x.data)
    assert np.shares_memory(column.offsets.to_numpy(), x._structure.offsets)


def test_tensors():
    torch = pytest.importorskip("torch")
    x = sf.Ragged(torch.arange(6.0).reshape(3, 2), [1, 2])
    assert np.shares_memory(sf.to_arrow(x).values.values.to_numpy(), x.data.numpy())
    assert sf.to_arrow(sf.Ragged(torch.tensor([True, False]), [2])).to_pylist() == [[True, False]]
    with pytest.raises(TypeError, match=r"data\.detach\(\)"):
        sf.to_arrow(sf.Ragged(torch.ones(2, requires_grad=True), [2]))
    with pytest.raises(TypeError, match=r"bfloat16.*float32"):
        sf.to_arrow(sf.Ragged(torch.ones(2, dtype=torch.bfloat16), [2]))
    with pytest.raises(TypeError, match="bfloat16"):
        sf.to_arrow(torch.ones(2, dtype=torch.bfloat16))


TIMES_OUT = [
    "M8[s]",
    "M8[ms]",
    "M8[us]",
    "M8[ns]",
    "M8[D]",
    "m8[s]",
    "m8[ns]",
    "M8[W]",
    "M8[Y]",
    "M8[h]",
    "m8[h]",
    "m8[D]",
]


@pytest.mark.parametrize("dtype", [*TIMES_OUT, "M8[10ms]"])
def test_times_go_out(dtype):
    data = np.array([1, -3, 20, 5], "i8").view(dtype)
    back = sf.from_arrow(sf.to_arrow(sf.Ragged(data, [1, 3])))
    assert (back.data == data).all()
    data[1] = "NaT"
    column = sf.to_arrow(sf.Ragged(data, [1, 3]))
    column.validate(full=True)
    assert column.values.null_count == 1
    again = sf.from_arrow(column, items=np.array("NaT", data.dtype.kind + "8")[()])
    assert np.array_equal(again.data, data, equal_nan=True)


def test_other_byte_order_bools_and_words():
    assert sf.to_arrow(sf.Ragged(np.arange(3, dtype=">i4"), [1, 2])).to_pylist() == [[0], [1, 2]]
    assert sf.to_arrow(sf.Ragged(np.array(["a", "bc"]), [1, 1])).to_pylist() == [["a"], ["bc"]]
    assert sf.to_arrow(sf.Ragged(np.zeros((3, 0, 2), np.int8), [1, 2])).to_pylist() == [[[]], [[], []]]
    bits = np.random.default_rng(0).random(1001) < 0.5
    assert sf.to_arrow(sf.Ragged(bits, [1000, 1])).values.to_pylist() == bits.tolist()


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "longdouble", "V4", "m8", "m8[Y]", "i4,f4"])
def test_dtypes_that_arrow_does_not_have(dtype):
    with pytest.raises(TypeError, match="Arrow has no items of"):
        sf.to_arrow(sf.Ragged(np.zeros(2, dtype), [2]))


def test_text_comes_back():
    words = pa.array(["a", "☃", ""])
    x = sf.from_arrow(words)
    assert sf.to_arrow(x, type=pa.string()).to_pylist() == ["a", "☃", ""]
    assert sf.to_arrow(x, type=pa.string_view()).type == pa.string_view()
    lists = pa.array([["a", "bc"], []])
    y = sf.from_arrow(lists)
    assert sf.to_arrow(y, type=pa.string()).to_pylist() == lists.to_pylist()
    assert sf.to_arrow(y, type=lists.type).equals(lists)
    assert sf.to_arrow(x, type=pa.binary()).to_pylist() == [b"a", "☃".encode(), b""]
    with pytest.raises(sf.ConversionError, match=r"UTF-?8"):
        sf.to_arrow(sf.Ragged(np.array([0xFF], np.uint8), [1]), type=pa.string())
    with pytest.raises(sf.ConversionError, match="does not fit"):
        sf.to_arrow(sf.Ragged(np.array([1.0]), [1]), type=pa.string())
    with pytest.raises(TypeError, match="type must be"):
        sf.to_arrow(x, type="string")
    assert sf.to_arrow([[1, 2]], type=pa.list_(pa.int8())).type == pa.list_(pa.int8())


def test_what_does_not_go_out():
    x = sf.Ragged(np.arange(3), [1, 2])
    for wrong in (sf.Pairs(x, x), None, "text", {"a": x}):
        with pytest.raises(TypeError):
            sf.to_arrow(wrong)
    with pytest.raises(TypeError, match="large"):
        sf.to_arrow(x, large=1)
    many = sf.Ragged(np.zeros((2**31, 0), np.int8), [2**31])
    with pytest.raises(sf.ConversionError, match="large=True"):
        sf.to_arrow(many, large=False)


# --- whatever offers PyCapsules --------------------------------------------------------------------------------------

ROWS = [[1, 2], [], [3]]


def producers():
    column = pa.array(ROWS)
    yield "pyarrow", column
    yield "chunks", pa.chunked_array([column[:1], column[1:]])
    pl = pytest.importorskip("polars")
    yield "polars", pl.Series("x", ROWS)
    yield "polars array", pl.Series("x", [[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2))
    pd = pytest.importorskip("pandas")
    yield "pandas objects", pd.Series(ROWS)
    yield "pandas arrays", pd.Series([np.array(row) for row in ROWS], name="x")
    yield "pandas arrow", pd.Series(column, dtype=pd.ArrowDtype(column.type))
    na = pytest.importorskip("nanoarrow")
    yield "nanoarrow", na.Array(column)

    class Array:
        def __arrow_c_array__(self, requested_schema=None):
            return column.__arrow_c_array__(requested_schema)

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([column]).__arrow_c_stream__(requested_schema)

    yield "array", Array()
    yield "stream", Stream()


@pytest.mark.parametrize(("name", "column"), list(producers()), ids=[name for name, _ in producers()])
def test_every_way_in(name, column):
    rows = [[1, 2], [3, 4]] if name == "polars array" else ROWS
    assert is_column(column)
    assert sf.from_arrow(column).to_nested() == rows
    assert sf.convert(column, list) == rows
    assert sf.convert(column, sf.Masked).lengths.tolist() == [len(row) for row in rows]
    assert sf.reduce_sum(column).tolist() == [sum(row) for row in rows]
    assert sf.reverse(column).to_nested() == [row[::-1] for row in rows]
    doubled = sf.with_masked(lambda x: x.data * 2)(column)
    assert type(doubled) is sf.Ragged
    assert doubled.to_nested() == [[2 * item for item in row] for row in rows]
    assert sf.lengths(column).tolist() == [len(row) for row in rows]
    assert sf.concat([column, column]).to_nested() == [row + row for row in rows]
    assert sf.explain(sf.Ragged, sf.Masked)


@pytest.mark.parametrize("values", [["a", "bc", None], [b"a", b"bc", None]], ids=["text", "bytes"])
def test_text_of_other_libraries(values):
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    rows = [[97], [98, 99], []]
    assert sf.from_arrow(pl.Series(values), missing="empty").to_nested() == rows
    assert sf.from_arrow(pd.Series(values), missing="empty").to_nested() == rows
    if isinstance(values[0], str):
        words = pl.Series(values, dtype=pl.Categorical)
        assert sf.from_arrow(words, missing="empty").to_nested() == rows
        assert sf.from_arrow(pd.Series(values, dtype="category"), missing="empty").to_nested() == rows
        nested = pl.Series([["a", "a long one, in a buffer"], None])
        assert sf.from_arrow(nested, missing="empty").to_nested() == [[[97], list(b"a long one, in a buffer")], []]


def encodings():
    x = sf.Ragged(np.arange(4), [3, 0, 1])
    return [sf.convert(x, kind) for kind in (sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD)]


@pytest.mark.parametrize("x", encodings(), ids=lambda x: type(x).__name__)
def test_every_way_out(x):
    pl, pd, na, duckdb = map(pytest.importorskip, ("polars", "pandas", "nanoarrow", "duckdb"))
    rows = [[0, 1, 2], [], [3]]
    assert not is_column(x)
    assert pa.array(x).to_pylist() == rows
    assert pa.array(x, type=pa.list_(pa.int16())).type == pa.list_(pa.int16())
    assert pl.Series(x).to_list() == rows
    assert [list(row) for row in pd.Series.from_arrow(x)] == rows
    assert na.Array(x).to_pylist() == rows
    frame = pa.table({"x": x})
    assert len(frame) == 3
    assert duckdb.sql("select len(x) from frame").fetchall() == [(3,), (0,), (1,)]
    assert sf.from_arrow(pl.Series(x)).to_nested() == rows


def test_text_is_asked_for_by_its_type():
    x = sf.Ragged(np.frombuffer(b"hello", np.uint8), [2, 3])
    assert pa.array(x, type=pa.string()).to_pylist() == ["he", "llo"]


def test_a_column_is_a_batch_everywhere():
    column = pa.array([[1.0, 2.0], [3.0]])
    y, pullback = sf.vjp(sf.reduce_mean, column)
    assert y.tolist() == [1.5, 3.0]
    assert pullback(np.ones(2)).to_nested() == [[0.5, 0.5], [1.0]]
    y, pullback = sf.vjp(sf.convert, column, sf.Masked)
    assert pullback(np.ones((2, 2))).to_nested() == [[1, 1], [1]]
    assert sf.convert_like(sf.convert(column, sf.Masked), column).to_nested() == [[1, 2], [3]]
    assert sf.equal(column, column)
    assert sf.Pairs(column, np.zeros(2)).one.to_nested() == [[1, 2], [3]]
    assert sf.to_arrays(column)["data"].tolist() == [1, 2, 3]
    assert sf.astype(column, "float32").dtype == np.float32
    assert sf.with_flatten(lambda items: [item + 1 for item in items])(column).to_nested() == [[2, 3], [4]]
    both = sf.with_ragged(lambda a, b: a.data + b.data)(column, b=pa.chunked_array([column]))
    assert both.to_nested() == [[2, 4], [6]]
    assert sf.with_lod(lambda x: x)(pa.array([[[1]], []])).to_nested() == [[[1]], []]
    assert sf.convert(column, sf.Ragged, copy=True).data.flags.writeable
    assert sf.convert(column, sf.Masked, dtype="float32", fill=-1).data.tolist() == [[1, 2], [3, -1]]
    assert sf.with_padded(lambda x: pa.array([[5.0], [6.0]]))(sf.Ragged(np.zeros(2), [1, 1])).to_nested() == [[5], [6]]
    with pytest.raises(TypeError, match="one item per row"):
        sf.convert(pa.chunked_array([[1, 2]]), sf.Ragged)
    with pytest.raises(TypeError, match="no encoding"):
        sf.convert(pa.array([1, 2]), sf.Ragged)
    assert sf.expand(pa.array([1, 2]), sf.Ragged(np.zeros(3), [2, 1])).data.tolist() == [
        1,
        1,
        2,
    ]  # plain numbers are rows
    with pytest.raises(TypeError, match="from_table"):
        sf.convert(pa.table({"a": [[1]]}), sf.Masked)


def test_tensors_from_a_column():
    torch = pytest.importorskip("torch")
    x = sf.convert(pa.array([[1, 2], [3]]), sf.Masked, library="torch")
    assert torch.equal(x.data, torch.tensor([[1, 2], [3, 0]]))
    y = sf.to(pa.array([[1, 2], [3]]), "torch")
    y.data[0] = 7  # one's own: Arrow's memory cannot be written
    assert y.to_nested() == [[7, 2], [3]]


# --- tables ----------------------------------------------------------------------------------------------------------


def test_tables():
    pl, pd, duckdb = map(pytest.importorskip, ("polars", "pandas", "duckdb"))
    table = pa.table({"ids": [[1, 2], [3]], "label": [0, 1], "text": ["ab", "c"], "flag": [True, False]})
    tables = [
        table,
        table.to_batches()[0],
        pl.DataFrame(table),
        pd.DataFrame(table.to_pydict()),
        duckdb.from_arrow(table),
    ]
    for given_ in tables:
        found = sf.from_table(given_)
        assert list(found) == ["ids", "label", "text", "flag"]
        assert found["ids"].to_nested() == [[1, 2], [3]]
        assert found["label"].tolist() == [0, 1]
        assert found["text"].to_nested() == [[97, 98], [99]]
        assert found["flag"].tolist() == [True, False]
        assert list(sf.from_table(given_, ["label", "ids"])) == ["label", "ids"]
        assert list(sf.from_table(given_, "label")) == ["label"]
    assert np.shares_memory(sf.from_table(table)["label"], table["label"].chunk(0).to_numpy())


def test_structs_are_dicts():
    table = pa.table({"a": [{"b": [1], "c": {"d": 5}}, {"b": [2, 3], "c": {"d": 6}}]})
    found = sf.from_table(table)["a"]
    assert found["b"].to_nested() == [[1], [2, 3]]
    assert found["c"]["d"].tolist() == [5, 6]
    broken = pa.table({"a": [{"b": [1]}, None]})
    with pytest.raises(sf.StructureError, match=r"column 'a\.b': .* row 1"):
        sf.from_table(broken)
    assert sf.from_table(broken, missing="empty")["a"]["b"].to_nested() == [[1], []]


def test_a_struct_array_is_a_table():
    column = pa.array([{"a": [1], "b": 2}, {"a": [], "b": 3}])
    for found in (sf.from_table(column), sf.from_table({"x": column})["x"]):
        assert found["a"].to_nested() == [[1], []]
        assert found["b"].tolist() == [2, 3]


def test_wrong_tables():
    table = pa.table({"a": [[1]]})
    with pytest.raises(sf.StructureError, match=r"no column 'b'; its columns are: a"):
        sf.from_table(table, ["b"])
    with pytest.raises(sf.StructureError, match="2 columns 'a'"):
        sf.from_table(pa.Table.from_arrays([pa.array([[1]])] * 2, ["a", "a"]))
    with pytest.raises(TypeError, match="names"):
        sf.from_table(table, [0])
    for wrong in (None, 5, "a", [1]):
        with pytest.raises(TypeError, match="no table"):
            sf.from_table(wrong)
    with pytest.raises(TypeError, match="column 'a': items of decimal"):
        sf.from_table(pa.table({"a": pa.array([[1]], pa.list_(pa.decimal128(5)))}))
    assert sf.from_table(pa.table({"a": [1, None]}), items=-1)["a"].tolist() == [1, -1]
    with pytest.raises(sf.StructureError, match="column 'a': 1 item is null, the first of them in row 1"):
        sf.from_table(pa.table({"a": [1, None]}))


# --- the words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["columns", "writing"])
def test_examples_in_docstrings(name):
    module = importlib.import_module(f"seqformats.arrow.{name}")
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed


def test_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    kinds.library.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"pyarrow is needed here; pip install 'seqformats\[arrow\]'"):
        sf.from_arrow(None)
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        sf.to_arrow([[1]])
