"""Trees of columns, dicts, tuples and dataclasses, against the same done column by column and in plain Python."""

import collections
import dataclasses
import itertools
import types
from typing import Any, NamedTuple

import numpy as np
import oracle
import pytest
import strategies
from checks import words_of
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats import registry
from seqformats.formats import trees

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_target = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)


class Named(NamedTuple):
    """Columns under names."""

    ids: Any
    labels: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """A frozen dataclass of columns."""

    ids: Any
    labels: Any = None


@dataclasses.dataclass
class Open:
    """One that can be changed, with a check."""

    ids: Any
    labels: Any = None

    def __post_init__(self):
        assert self.ids is not None


SHAPES = {
    "dict": lambda ids, labels: {"ids": ids, "labels": labels},
    "mapping": lambda ids, labels: collections.UserDict(ids=ids, labels=labels),
    "proxy": lambda ids, labels: types.MappingProxyType({"ids": ids, "labels": labels}),
    "tuple": lambda ids, labels: (ids, labels),
    "named": Named,
    "frozen": Sample,
    "open": Open,
    "nested": lambda ids, labels: {"text": {"ids": ids}, "labels": (labels, ids)},
    "pairs": lambda ids, labels: {"both": sf.Pairs(ids, labels)},
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def sentence(kind, use):
    with pytest.raises(kind) as caught:
        use()
    assert caught.type is kind
    return words_of(caught.value)


def leaves(x):
    """All columns in order, by nothing but Python."""
    if isinstance(x, sf.Pairs):
        return [x.one, x.two]
    if hasattr(x, "keys"):
        return [leaf for key in x.keys() for leaf in leaves(x[key])]  # noqa: SIM118  any mapping
    if type(x) is tuple or isinstance(x, Named):
        return [leaf for part in x for leaf in leaves(part)]
    if isinstance(x, (Sample, Open)):
        return leaves((x.ids, x.labels))
    return [x]


def plain(column):
    """What a column holds, as lists."""
    if column is None:
        return None
    return column.tolist() if isinstance(column, np.ndarray) else sf.convert(column, list)


def same_shape(found, given):
    """A mapping has become a dict, all else is what it was."""
    if hasattr(given, "keys"):
        return type(found) is dict and list(found) == list(given)
    return type(found) is type(given)


def ragged(lengths=(2, 0, 3), dtype="i8"):
    return sf.Ragged(strategies.counting(dtype, (sum(lengths),)), list(lengths))


# ----------------------------------------------------------------------------------------------- any tree


@st.composite
def columns(draw, n=None, kinds=oracle.FORMATS):
    """A column over n sequences, and the same as lists of lists, or as a list of numbers for rows."""
    n = draw(st.integers(0, 5)) if n is None else n
    kind = draw(st.sampled_from([*kinds, np.ndarray, int, None]))
    if kind is None:
        return None, None
    if kind is np.ndarray or (kind is int and not n):
        rows = strategies.counting(draw(st.sampled_from(["i8", "f4", "?"])), (n, *draw(st.sampled_from([(), (2,)]))))
        return rows, rows.tolist()
    if kind is int:
        numbers = draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n))
        return numbers, numbers
    lengths = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    truth = strategies.truth_from(lengths, draw(st.sampled_from(["i8", "f4"])))
    if kind is list:
        return oracle.nested(truth), oracle.nested(truth)
    options = {"side": draw(strategies.sides())} if kind is sf.Masked else {}
    return oracle.build(kind, truth, **options), oracle.nested(truth)


@st.composite
def dicts(draw, n=None, kinds=oracle.FORMATS):
    """A dict of columns with one batch at least, a dict within it now and then, and the same in plain Python."""
    n = draw(st.integers(0, 5)) if n is None else n
    found = {"first": draw(columns(n, kinds).filter(lambda pair: _is_batch(pair[0])))}
    for k in range(draw(st.integers(0, 3))):
        found[f"column {k}"] = draw(columns(n, kinds))
    if draw(st.booleans()):
        inner = draw(columns(n, kinds))
        found["within"] = ({"inner": inner[0]}, {"inner": inner[1]})
    return n, {name: x for name, (x, _) in found.items()}, {name: y for name, (_, y) in found.items()}


def _is_batch(x):
    return not (x is None or isinstance(x, np.ndarray) or (isinstance(x, list) and x and isinstance(x[0], int)))


def in_plain(x):
    return {name: in_plain(value) if isinstance(value, dict) else plain(value) for name, value in x.items()}


def picked(truth, where):
    return {
        name: picked(value, where)
        if isinstance(value, dict)
        else value and [value[i] for i in where]
        if value is not None
        else None
        for name, value in truth.items()
    }


@every_target
@given(data=st.data())
def test_convert(kind, data):
    _, x, truth = data.draw(dicts())
    y = sf.convert(x, kind)
    assert in_plain(y) == truth
    assert list(y) == list(x)
    for mine, theirs in zip(leaves(y), leaves(x), strict=True):
        if _is_batch(theirs):
            assert type(mine) is kind
            oracle.assert_same(sf.convert(mine, sf.List), sf.convert(theirs, sf.List)) if kind is not list else None
        elif isinstance(theirs, np.ndarray):
            assert mine is theirs


@given(data=st.data())
def test_select_and_reorder(data):
    n, x, truth = data.draw(dicts())
    index = data.draw(strategies.indices(n))
    where = strategies.chosen(index, n)
    y = sf.select(x, index)
    assert in_plain(y) == picked(truth, where)
    for mine, theirs in zip(leaves(y), leaves(x), strict=True):
        if _is_batch(theirs):
            assert type(mine) is type(theirs)
    order = data.draw(st.permutations(range(n)))
    assert in_plain(sf.reorder(x, order)) == picked(truth, order)


@given(data=st.data())
def test_sorted_by_a_column(data):
    n, x, truth = data.draw(dicts())
    by = data.draw(st.sampled_from([None, *[name for name in x if _is_batch(x[name]) and type(x[name]) is not dict]]))
    y, order = sf.sort_by_length(x) if by is None else sf.sort_by_length(x, by=by)
    lengths = [len(sequence) for sequence in truth[by or "first"]]
    assert order.tolist() == sorted(range(n), key=lambda i: -lengths[i])
    assert in_plain(y) == picked(truth, order.tolist())
    assert in_plain(sf.reorder(y, sf.inverse_order(order))) == truth


@given(data=st.data())
def test_split_and_join(data):
    n, x, truth = data.draw(dicts(kinds=oracle.ENCODINGS))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=3)))
    ends = [0, *cuts, n]
    parts = sf.split_batches(x, np.diff(ends))
    for part, (a, b) in zip(parts, itertools.pairwise(ends), strict=True):
        assert in_plain(part) == picked(truth, range(a, b))
    turned = [dict(reversed(part.items())) if k else part for k, part in enumerate(parts)]
    joined = sf.join_batches(turned)
    assert in_plain(joined) == truth
    assert sf.equal(joined, x)
    assert not sf.equal(joined, {**x, "more": None})


@given(data=st.data())
def test_wrapped(data):
    """The same wrapper, whatever the layouts of the columns."""
    _, x, truth = data.draw(dicts())
    wrapper = data.draw(st.sampled_from([sf.with_masked, sf.with_padded, sf.with_packed, sf.with_ragged, sf.with_lod]))
    seen = []
    y = wrapper(lambda batch: seen.append(batch) or batch)(x)
    assert in_plain(seen[0]) == in_plain(y) == truth
    for mine, theirs in zip(leaves(y), leaves(x), strict=True):
        if _is_batch(theirs):
            assert type(mine) is type(theirs)


@given(data=st.data())
def test_gradients(data):
    """Of a tree as of its columns."""
    n, x, _ = data.draw(dicts(kinds=oracle.ENCODINGS))
    index = data.draw(strategies.indices(n))
    for op, args in ((sf.convert, (sf.Masked,)), (sf.select, (index,)), (sf.sort_by_length, ())):
        y, pullback = sf.vjp(op, x, *args)
        dy = y if op is not sf.sort_by_length else y[0]
        if op is sf.select:  # places that come twice are added up, which integers are not
            dy = {name: one for name, one in dy.items() if getattr(one, "dtype", None) == np.float32}
        found = pullback(dy)
        if op is sf.sort_by_length:
            op, args = sf.reorder, (y[1],)
        for given_, mine in zip(leaves(x), leaves(found), strict=True):
            if given_ is None:
                assert mine is None
            elif _is_batch(given_) and mine is not None:
                z, back = sf.vjp(op, given_, *args)
                assert sf.equal(mine, back(z))
        assert all(leaf is None for leaf in leaves(pullback({})))


# ------------------------------------------------------------------------------------------------- shapes


@every_shape
@every_encoding
def test_what_comes_back_is_what_was_given(shape, kind):
    ids, labels = sf.convert(ragged(), kind), np.array([1, 0, 1])
    x = SHAPES[shape](ids, labels)
    for y in (
        sf.convert(x, sf.Masked),
        sf.convert_like(sf.convert(x, sf.Padded), x),
        sf.select(x, [0, 1, 2]),
        sf.select(x, 1),
        sf.reorder(x, [2, 0, 1]),
        sf.sort_by_length(x)[0],
        sf.split_batches(x, [1, 2])[1],
        sf.join_batches([x, x]),
        sf.to(x, "numpy", device="cpu"),
        sf.to_device(x, "cpu"),
        sf.with_masked(lambda batch: batch)(x),
    ):
        assert same_shape(y, x)
        assert len(leaves(y)) == len(leaves(x))
    assert sf.equal(sf.convert_like(sf.convert(x, sf.Padded), x), x)
    assert sf.equal(sf.join_batches(sf.split_batches(x, [0, 2, 1])), x)


def test_a_tuple_of_one_and_of_none():
    assert [type(column) for column in sf.convert((ragged(),), sf.Masked)] == [sf.Masked]
    assert sf.convert((), sf.Ragged).lengths.size == 0
    assert sf.convert((np.arange(2), np.arange(3)), sf.Ragged).lengths.tolist() == [2, 3]
    assert sf.convert(([1, 2], [3]), sf.Ragged).lengths.tolist() == [2, 1]
    mixed = sf.convert((ragged(), np.arange(3), [[1], [], [2]], None), sf.Masked)
    assert [type(column) for column in mixed] == [sf.Masked, np.ndarray, sf.Masked, type(None)]
    within = sf.convert(((ragged(),), {"a": (np.zeros(1), np.zeros(0), np.zeros(2))}), list)
    assert within[0] == ([[1, 2], [], [3, 4, 5]],)
    assert [item.size for item in within[1]["a"]] == [1, 0, 2]  # a list of arrays is a list


def test_results_of_this_library_are_trees():
    masked = sf.mask_tokens(ragged(), mask_id=9, vocabulary=10, seed=1, rate=0.5)
    y = sf.convert(masked, sf.Masked)
    assert type(y) is type(masked)
    assert y.labels.data.shape == (3, 3)


def test_a_namedtuple_of_arrays_is_a_list_as_ever():
    y = sf.convert(Named(np.arange(2), np.arange(3)), sf.Ragged)
    assert type(y) is sf.Ragged
    packed = collections.namedtuple("PackedSequence", "data batch_sizes")
    packed.__module__ = "torch.nn.utils.rnn"
    one = packed(np.zeros(3), np.array([2, 1]))
    assert "'b' is no column" in sentence(TypeError, lambda: sf.convert({"a": ragged(), "b": one}, sf.Masked))
    assert "Packed.from_torch" in sentence(TypeError, lambda: sf.convert({"b": one}, sf.Masked))


@pytest.mark.usefixtures("tables")
def test_a_registered_dataclass_is_a_column():
    @dataclasses.dataclass(frozen=True)
    class Boxed:
        inner: sf.Ragged

    assert type(sf.convert(Boxed(ragged()), sf.Masked)) is Boxed  # a tree of one column, until it is registered
    sf.conversion(Boxed, sf.Ragged, shares=True)(lambda x: x.inner)
    sf.conversion(sf.Ragged, Boxed, shares=True)(Boxed)
    assert type(sf.convert(Boxed(ragged()), sf.Masked)) is sf.Masked
    x = {"box": Boxed(ragged()), "ids": ragged()}
    assert sf.convert(x, list) == {"box": [[1, 2], [], [3, 4, 5]], "ids": [[1, 2], [], [3, 4, 5]]}
    assert type(sf.select(x, [2])["box"]) is Boxed
    assert type(sf.with_masked(lambda batch: batch)(x)["box"]) is Boxed
    assert registry.kind_of(x["box"]) is Boxed


# ---------------------------------------------------------------------------------------------- sharing


def test_a_column_that_stands_twice_is_converted_once():
    ids = ragged()
    y = sf.convert({"ids": ids, "labels": ids, "other": ragged()}, sf.Masked)
    assert y["ids"] is y["labels"]
    assert y["other"] is not y["ids"]
    z = sf.convert({"ids": ids, "labels": ids}, sf.Masked, fill={"labels": -100})
    assert z["ids"].data.tolist()[1] == [0, 0, 0]
    assert z["labels"].data.tolist()[1] == [-100, -100, -100]
    seen = []
    sf.with_padded(lambda batch: seen.append(batch["a"] is batch["b"]) or batch)({"a": ids, "b": ids})
    assert seen == [True]


def test_nothing_is_copied_that_need_not_be():
    x = {"ids": sf.convert(ragged(), sf.Masked), "rows": np.arange(3), "none": None}
    y = sf.convert(x, sf.Masked)
    assert y is not x
    assert all(y[name] is x[name] for name in x)
    y = sf.convert(x, sf.Masked, copy=True)
    assert y["none"] is None
    assert not np.shares_memory(y["ids"].data, x["ids"].data)
    assert not np.shares_memory(y["rows"], x["rows"])
    assert sf.equal(x, y)
    assert np.shares_memory(sf.select(x, slice(1, 3))["rows"], x["rows"])


# ---------------------------------------------------------------------------------------------- options


def test_options_by_name():
    x = {"text": {"ids": [[1, 2], [3]], "tags": [[4, 4], [5]]}, "label": [0, 1]}
    y = sf.convert(x, sf.Masked, fill={"text": {"tags": -1}}, multiple_of=4)
    assert y["text"]["ids"].data.tolist() == [[1, 2, 0, 0], [3, 0, 0, 0]]
    assert y["text"]["tags"].data.tolist() == [[4, 4, -1, -1], [5, -1, -1, -1]]
    y = sf.convert(x, sf.Masked, dtype={"text": "f4"})
    assert (y["text"]["ids"].dtype, y["label"].dtype) == (np.float32, np.int64)
    y = sf.to({"a": ragged(), "b": np.arange(3)}, dtype={"b": "f2"})
    assert (y["a"].dtype, y["b"].dtype) == (np.int64, np.float16)
    said = sentence(TypeError, lambda: sf.convert(x, sf.Masked, fill={"label": 0, "lable": 1}))
    assert "fill is given for 'lable', but the columns are: 'text.ids', 'text.tags', 'label'" in said
    pair = sf.convert((ragged(), ragged()), sf.Masked, fill={1: 7})
    assert [column.data[1, 0] for column in pair] == [0, 7]
    with pytest.raises(TypeError, match="no option 'bogus'"):
        sf.convert(x, sf.Masked, bogus=1)
    assert "column 'text.ids': fill" in sentence(sf.ConversionError, lambda: sf.convert(x, sf.Masked, fill=0.5))
    seen = sf.with_masked(lambda m: m["b"].data + 0, fill={"b": 9})({"a": ragged(), "b": ragged()})
    assert sf.convert(seen, list) == [[1, 2], [], [3, 4, 5]]


def test_options_of_the_source_go_where_they_are_known():
    deep = sf.LoD(np.arange(4), [[0, 2, 3], [0, 1, 3, 4]])
    x = {"documents": deep, "words": [[1], [2, 3]], "rows": [7, 8], "flat": sf.Ragged(np.arange(3), [1, 2])}
    y = sf.convert(x, sf.Masked, level=0)
    assert y["documents"].lengths.tolist() == [3, 1]
    assert y["flat"].lengths.tolist() == [1, 2]
    assert len(sf.convert(x, sf.Masked)["documents"]) == 3
    assert sf.convert(x, sf.Ragged, dtype="u1")["words"].dtype == np.uint8
    assert sf.convert(x, sf.Ragged, dtype="u1")["rows"].dtype == np.uint8
    assert sf.convert(x, sf.Ragged, dtype="u1")["flat"].dtype == np.int64
    with pytest.raises(TypeError, match="level"):
        sf.convert({"flat": x["flat"]}, sf.Masked, level=0)
    assert sf.select(x, [1])["documents"].to_nested() == [[[3]]]
    for level in (0, 1, {"documents": 0}, {"documents": 1}):
        some = {"documents": deep, "flat": x["flat"]}
        back = sf.with_masked(lambda m: m, level=level)(some)
        assert sf.equal(back["documents"], deep)
        assert sf.equal(back["flat"], x["flat"])
        twice = sf.with_masked(lambda m: (m, lambda dm: dm), level=level, backprop=True)
        y, backprop = twice(sf.to(some, dtype="f8"))
        assert sf.equal(backprop(y), y)


# ------------------------------------------------------------------------------------------------- errors


def test_other_numbers_of_sequences():
    x = {"input_ids": [[1], [2], [3], [4]], "labels": [0, 1, 0]}
    for use in (
        lambda: sf.convert(x, sf.Masked),
        lambda: sf.select(x, [0]),
        lambda: sf.reorder(x, [0, 1, 2, 3]),
        lambda: sf.sort_by_length(x),
        lambda: sf.split_batches(x, [4]),
        lambda: sf.join_batches([x]),
        lambda: sf.with_masked(lambda m: m)(x),
        lambda: sf.to(x, device="cpu"),
        lambda: sf.vjp(sf.convert, x, sf.Masked),
        lambda: sf.equal(x, x),
    ):
        assert sentence(sf.StructureError, use) == (
            "'labels' has 3 rows, but 'input_ids' has 4: number 3 is in 'input_ids' alone"
        )
    said = sentence(sf.StructureError, lambda: sf.convert({"a": {"b": ragged()}, "c": [[1]]}, sf.Masked))
    assert said == "'c' has 1 sequences, but 'a.b' has 3: number 1 is in 'a.b' alone"


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("text", "a str"),
        (3, "an int"),
        (3.5, "a float"),
        ({1, 2}, "a set"),
        (object(), "an object"),
        (["a", "b", "c"], "a list of str"),
        ([None, 1, 2], "a list of NoneType"),
        ([ragged()] * 3, "a list of Ragged"),
        ([{}] * 3, "a list of dict"),
        (np.array(["a", "b", "c"], object), "a list of str"),
        ([2**80, 1, 2], "column 'bad'"),
        ([[1], ["a"], [2]], "column 'bad'"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_what_is_no_column(column, words):
    for use in (
        lambda: sf.convert({"ids": ragged(), "bad": column}, sf.Masked),
        lambda: sf.with_masked(lambda m: m)({"ids": ragged(), "bad": column}),
        lambda: sf.select({"ids": ragged(), "bad": column}, [0]),
    ):
        said = sentence(TypeError, use)
        assert "'bad'" in said
        assert words in said


def test_an_array_of_lists_is_a_batch():
    given = np.empty(3, object)
    given[:] = [[1, 2], [], [3]]
    found = sf.convert({"a": given, "b": [1, 2, 3]}, sf.Masked)
    assert found["a"].data.tolist() == [[1, 2], [0, 0], [3, 0]]


def test_one_number_is_no_column():
    assert "'loss'" in sentence(sf.StructureError, lambda: sf.convert({"a": ragged(), "loss": np.array(3.0)}, sf.List))


def test_trees_without_batches():
    assert "rows alone: nothing" in sentence(TypeError, lambda: sf.convert({}, sf.Masked))
    assert "rows alone: 'a', 'b'" in sentence(TypeError, lambda: sf.convert({"a": np.ones(2), "b": [1, 2]}, sf.Masked))
    for use in (lambda: sf.select({}, [0]), lambda: sf.reorder({"a": None}, []), lambda: sf.join_batches([{}, {}])):
        assert "without columns" in sentence(TypeError, use)
    assert sf.to({}, "numpy") == {}
    assert sf.equal({}, {})
    rows = {"a": np.arange(3), "b": [1, 2, 3]}
    assert {name: value.tolist() for name, value in sf.select(rows, [2, 0]).items()} == {"a": [2, 0], "b": [3, 1]}
    assert sf.join_batches([rows, rows])["b"].tolist() == [1, 2, 3, 1, 2, 3]
    assert "sort_by_length needs a batch" in sentence(TypeError, lambda: sf.sort_by_length(rows))


def test_trees_within_themselves():
    x = {"a": ragged()}
    x["x"] = x["y"] = x
    assert "does one hold itself" in sentence(sf.StructureError, lambda: sf.convert(x, sf.Masked))
    deep = ragged()
    for _ in range(40):
        deep = {"a": deep}
    assert "32 trees deep" in sentence(sf.StructureError, lambda: sf.convert(deep, sf.Masked))
    nested = (1,)
    for _ in range(3000):
        nested = (nested,)
    assert not trees.is_tree(nested)
    own = Open(1)
    own.ids = own.labels = own
    assert not trees.is_tree(own)


def test_other_arguments():
    x = {"ids": ragged(), "labels": np.arange(3)}
    assert "level" in sentence(TypeError, lambda: sf.select(x, [0], level=1))
    assert "by='labels' is no batch among the columns; those are: 'ids'" in sentence(
        TypeError, lambda: sf.sort_by_length(x, by="labels")
    )
    assert "is no tree" in sentence(TypeError, lambda: sf.sort_by_length(x["ids"], by="ids"))
    assert "is out of range" in sentence(IndexError, lambda: sf.select(x, 3))
    assert "add up to 2" in sentence(sf.StructureError, lambda: sf.split_batches(x, [1, 1]))
    said = sentence(sf.StructureError, lambda: sf.join_batches([x, {"ids": ragged()}]))
    assert said == "'labels' is missing in batch 1; the columns are: 'ids', 'labels'"
    said = sentence(sf.StructureError, lambda: sf.join_batches([{"ids": ragged()}, x]))
    assert said == "'labels' is in batch 1; the columns are: 'ids'"
    assert "batch 1 is no dict" in sentence(TypeError, lambda: sf.join_batches([x, ragged()]))
    assert "column 'labels': batch 1 has None there" in sentence(
        sf.StructureError, lambda: sf.join_batches([x, {**x, "labels": None}])
    )
    assert "column 'labels': batch 1 has rows of float64" in sentence(
        sf.StructureError, lambda: sf.join_batches([x, {**x, "labels": np.zeros(3)}])
    )
    assert "column 'ids':" in sentence(
        sf.StructureError, lambda: sf.join_batches([x, {**x, "ids": ragged(dtype="f8")}])
    )
    assert "a tree of columns goes back to one alone" in sentence(TypeError, lambda: sf.convert_like(x, ragged()))
    assert "a tree of columns goes back to one alone" in sentence(TypeError, lambda: sf.convert_like(ragged(), x))
    assert "'labels' is in the second tree" in sentence(
        sf.StructureError, lambda: sf.convert_like({"ids": ragged()}, x)
    )
    assert not sf.equal(x, ragged())
    assert not sf.equal(ragged(), x)
    assert not sf.equal(x, {**x, "labels": None})
    assert not sf.equal(tuple(x.values()), Named(*x.values()))
    assert sf.equal(x, dict(reversed(x.items())))


def test_gradients_that_do_not_fit():
    x = {"ids": ragged(dtype="f8"), "label": np.zeros(3)}
    y, pullback = sf.vjp(sf.convert, x, sf.Masked)
    assert pullback({"ids": y["ids"]})["label"] is None
    assert "'other' is in the gradient" in sentence(sf.StructureError, lambda: pullback({"other": np.zeros(3)}))
    assert "must be a dict of columns" in sentence(TypeError, lambda: pullback(np.zeros(3)))
    assert "column 'label': the gradient has shape (2,)" in sentence(
        sf.StructureError, lambda: pullback({"label": np.zeros(2)})
    )
    parts, pullback = sf.vjp(sf.split_batches, x, [1, 2])
    back = pullback(parts)
    assert sf.equal(back, x)
    assert "gradient 1 has none for 'ids'" in sentence(sf.StructureError, lambda: pullback([parts[0], {}]))
    assert "2 batches, but 1" in sentence(sf.StructureError, lambda: pullback(parts[:1]))
    _, pullback = sf.vjp(sf.join_batches, [x, sf.select(x, [0])])
    one, two = pullback({"ids": sf.join_batches([x["ids"], x["ids"][0]]), "label": np.arange(4.0)})
    assert sf.equal(one["ids"], x["ids"])
    assert two["label"].tolist() == [3.0]
    _, pullback = sf.vjp(sf.convert_like, x, {**x, "ids": sf.convert(x["ids"], sf.Padded)})
    assert sf.equal(pullback(x), x)


# ------------------------------------------------------------------------------------------------ wrappers


@pytest.mark.parametrize("wrapper", [sf.with_masked, sf.with_padded, sf.with_packed, sf.with_ragged, sf.with_array])
def test_names_go_back_to_names(wrapper):
    x = {
        "ids": sf.convert(ragged(dtype="f8"), sf.Padded),
        "tags": [[1.0, 2.0], [], [3.0, 4.0, 5.0]],
        "label": [7, 8, 9],
        "none": None,
    }

    def model(batch, scale):
        a, b = (getattr(batch[name], "data", batch[name]) for name in ("ids", "tags"))
        if isinstance(a, memoryview):
            a, b = batch["ids"], batch["tags"]
        assert batch["label"].tolist() == [7, 8, 9]
        assert batch["none"] is None
        return {"tags": b * scale, "new": a + b, "label": batch["label"], "loss": 0.5, "text": "seen", "none": None}

    y = wrapper(model)(x, 2.0)
    assert y.pop("label").tolist() == [7, 8, 9]
    assert type(y["new"]) is sf.Padded
    assert y["tags"] == [[2.0, 4.0], [], [6.0, 8.0, 10.0]]
    assert sf.convert(y["new"], list) == [[2.0, 4.0], [], [6.0, 8.0, 10.0]]
    assert (y["loss"], y["text"], y["none"]) == (0.5, "seen", None)


def test_what_a_function_returns():
    x = {"ids": ragged(), "rows": np.arange(6).reshape(3, 2)}
    assert type(sf.with_masked(lambda m: m["ids"].data * 2)(x)) is sf.Ragged
    assert type(sf.with_masked(lambda m: m["ids"])(x)) is sf.Ragged
    y, rest = sf.with_masked(lambda m: (m, 5))(x)
    assert sf.equal(y, x)
    assert rest == 5
    pooled = sf.with_masked(lambda m: {"sum": m["ids"].data.sum(axis=1), "rows": m["rows"]})(x)
    assert pooled["sum"].tolist() == [3, 0, 12]
    assert pooled["rows"] is x["rows"]
    lists = sf.with_list(lambda m: {"ids": [item[:1] for item in m["ids"].items]})(x)
    assert lists["ids"].lengths.tolist() == [1, 0, 1]
    square = sf.with_masked(lambda m: {"rows": m["rows"], "new": m["ids"].data})({**x, "rows": np.ones((3, 3))})
    assert type(square["rows"]) is np.ndarray
    assert type(square["new"]) is sf.Ragged
    assert "column 'new': with_masked: 3 sequences were expected" in sentence(
        sf.StructureError, lambda: sf.with_masked(lambda m: {"new": m["ids"].data[:2]})(x)
    )
    assert "column 'ids': with_masked: 3 sequences were expected" in sentence(
        sf.StructureError, lambda: sf.with_masked(lambda m: {"ids": m["ids"].data.sum(axis=1)})(x)
    )
    assert "column 'ids'" in sentence(TypeError, lambda: sf.with_masked(lambda m: {"ids": "text"})(x))
    assert "not NoneType" in sentence(TypeError, lambda: sf.with_masked(lambda m: None)(x))
    assert "empty tuple" in sentence(TypeError, lambda: sf.with_masked(lambda m: ())(x))
    pair = sf.with_padded(lambda m: (m[0].data + m[1].data, m[1].data))((ragged(), sf.convert(ragged(), sf.Masked)))
    assert [type(column) for column in pair] == [sf.Ragged, sf.Masked]
    assert pair[0].data.tolist() == [2, 4, 6, 8, 10]


def test_columns_of_padded_stand_for_the_same_sequences():
    a = oracle.build(sf.Padded, strategies.truth_from([2, 2, 1], "f8"), order=[1, 0, 2])
    b = oracle.build(sf.Padded, strategies.truth_from([2, 2, 1], "f8"), order=[0, 1, 2])
    for wrapper in (sf.with_padded, sf.with_packed):
        y = wrapper(lambda m: {"a": m["a"].data + m["b"].data})({"a": a, "b": b})
        assert sf.convert(y["a"], list) == [[2.0, 4.0], [6.0, 8.0], [10.0]]


def test_beside_other_arguments():
    """A dict that is no batch is passed on, as ever."""
    add = sf.with_masked(lambda batch, y: batch["ids"].data + y.data)
    assert add({"ids": ragged()}, sf.convert(ragged(), sf.Padded)).data.tolist() == [2, 4, 6, 8, 10]
    filled = sf.with_masked(lambda batch, y: batch["ids"].data + y.data, fill={"ids": 5})
    assert filled({"ids": ragged()}, ragged()).data.tolist() == [2, 4, 6, 8, 10]
    options = {"scale": 2}
    seen = []
    take = sf.with_masked(lambda *args, **more: seen.append((args, more)) or (args[-1] if args else more["x"]))
    take(options, ragged())
    assert seen[-1][0][0] is options
    take2 = sf.with_masked(lambda x, how: seen.append(how) or x)
    take2(ragged(), {"ids": ragged()})
    assert type(seen[-1]["ids"]) is sf.Ragged
    assert sf.with_array(lambda how, rows: rows * how["scale"])(options, np.ones(2)).tolist() == [2.0, 2.0]
    assert "only as the first argument" in sentence(
        TypeError, lambda: sf.with_masked(lambda m, y: m)({"ids": ragged()}, [[1, 2], [], [3, 4, 5]])
    )


def test_methods():
    @dataclasses.dataclass
    class Model:
        scale: list

        @sf.with_masked
        def layer(self, batch):
            return batch.data * self.scale[0]

        @sf.with_masked
        def layers(self, batch):
            return {name: column.data * self.scale[0] for name, column in batch.items()}

    model = Model([2])
    assert model.layer([[1, 2], [3]]) == [[2, 4], [6]]
    assert model.layer(ragged()).data.tolist() == [2, 4, 6, 8, 10]
    assert model.layers({"a": [[1]], "b": [[2]]}) == {"a": [[2]], "b": [[4]]}


def test_backprop():
    def model(batch):
        a, b = batch["a"].data, batch["b"].data

        def backprop(dy):
            return {"a": dy["y"] * b, "b": dy["y"] * a}

        return {"y": a * b, "label": batch["label"]}, backprop

    ids = ragged(dtype="f8")
    x = {"a": sf.convert(ids, sf.Padded), "b": [[1.0, 2.0], [], [3.0, 4.0, 5.0]], "label": [1, 2, 3]}
    y, backprop = sf.with_masked(model, backprop=True)(x)
    assert sf.convert(y["y"], list) == [[1.0, 4.0], [], [9.0, 16.0, 25.0]]
    dx = backprop({"y": ids})
    assert list(dx) == list(x)
    assert type(dx["a"]) is sf.Padded
    assert dx["b"] == [[1.0, 4.0], [], [9.0, 16.0, 25.0]]
    assert dx["label"] is None
    y, backprop = sf.with_ragged(lambda m: (m["a"].data * 2, lambda dy: {"a": dy * 2}), backprop=True)(x)
    dx = backprop(y)
    assert dx["b"] is None
    assert sf.convert(dx["a"], list) == [[4.0, 8.0], [], [12.0, 16.0, 20.0]]
    two = sf.with_ragged(lambda m, z: (m["a"].data * z.data, lambda dy: ({"a": dy}, dy * 2)), backprop=True)
    y, backprop = two(x, ids)
    da, dz = backprop(y)
    assert type(da["a"]) is sf.Padded
    assert dz.data.tolist() == [2.0, 8.0, 18.0, 32.0, 50.0]
    assert "must return (y, backprop)" in sentence(TypeError, lambda: sf.with_ragged(lambda m: m, backprop=True)(x))


# -------------------------------------------------------------------------------------------------- torch


@pytest.mark.peers
def test_autograd_flows_through_every_column():
    torch = pytest.importorskip("torch")
    a, b, w = (
        torch.ones(5, requires_grad=True),
        torch.ones(5, 2, requires_grad=True),
        torch.ones(3, requires_grad=True),
    )
    x = {"a": sf.Ragged(a, [2, 0, 3]), "b": sf.Ragged(b, [2, 0, 3]), "w": w, "ids": torch.arange(3), "n": None}
    y = sf.convert(x, sf.Masked)
    assert y["w"] is w
    assert y["a"].data.requires_grad
    y = sf.join_batches([sf.select(y, [2, 0]), sf.reorder(y, [2, 1, 0])])
    y = sf.sort_by_length(y, by="b")[0]
    y = sf.with_padded(lambda m: {"a": m["a"].data * 2, "b": m["b"], "w": m["w"]})(y)
    loss = sf.reduce_sum(y["a"]).sum() + 3 * sf.reduce_sum(y["b"]).sum() + y["w"].sum()
    loss.backward()
    assert a.grad.tolist() == [4.0] * 5
    assert b.grad.tolist() == [[6.0, 6.0]] * 5
    assert w.grad.tolist() == [2.0, 1.0, 2.0]
    assert sf.to({"ids": [np.arange(2)], "rows": [3]}, "torch")["rows"].tolist() == [3]
    lists = sf.convert({"ids": [[1, 2], [3]], "label": [0, 1]}, sf.Masked, library="torch")
    assert all(isinstance(t, torch.Tensor) for t in (lists["ids"].data, lists["label"]))
