"""Spans of tags, and tags of spans, beside the loop that everybody writes."""

import numpy as np
import oracle
import pytest
import strategies
from checks import assert_result, mapped
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SCHEMES = {
    "BIO": BIO,
    "in another order": ["I-LOC", "B-LOC", "I-a-b", "O", "B-a-b"],
    "BIOES": ["O", *[f"{mark}-{kind}" for kind in ("x", "y") for mark in "BIES"]],
    "BILOU": ["U-x", "L-x", "I-x", "B-x", "O"],
    "BMES": ["B-x", "M-x", "E-x", "S-x", "O"],
    "types alone": ["O", "x", "y"],
    "without outside": ["B-x", "I-x"],
}


def meaning(tag, labels):
    """The mark and the type of a tag, None outside."""
    if labels is None:
        return (None, None) if tag == 0 else ("B" if tag % 2 else "I", (tag - 1) // 2)
    name = labels[tag]
    if name == "O":
        return None, None
    mark, kind = name.split("-", 1) if name[1:2] == "-" else ("I", name)
    kinds = list(dict.fromkeys(other[2:] if other[1:2] == "-" else other for other in labels if other != "O"))
    return mark, kinds.index(kind)


def spans_of(tags, labels):
    """Find spans as conlleval does."""
    spans, mark_before, kind_before = [], None, None
    for i, tag in enumerate(tags):
        mark, kind = meaning(tag, labels)
        if kind is not None:
            if mark in "BSU" or kind != kind_before or mark_before in "ELSU":
                spans.append([i, i, kind])
            spans[-1][1] = i + 1
        mark_before, kind_before = mark, kind
    return spans


def tagged(draw, kind, arrays, labels):
    """A drawn batch of tags, and what it should be."""
    truth, x = draw(strategies.encoded(kind, kinds=arrays.of([np.dtype(c) for c in ("i8", "u1", ">i4")]), shapes=[()]))
    count = 7 if labels is None else len(labels)
    own = mapped(truth, lambda items, i: [np.array(int(v) % count, truth.dtype) for v in items])
    return own, sf.with_array(lambda rows: (rows % count).astype(rows.dtype))(x)


@every_format
@pytest.mark.parametrize("scheme", [None, *SCHEMES])
@given(data=st.data())
def test_spans_are_those_of_the_loop(arrays, kind, scheme, data):
    labels = SCHEMES.get(scheme)
    truth, x = tagged(data.draw, kind, arrays, labels)
    for place, name in enumerate(sf.TagSpans._fields):
        wanted = mapped(
            truth,
            lambda items, i, place=place: [np.int64(span[place]) for span in spans_of([int(v) for v in items], labels)],
            dtype="i8",
        )
        assert_result(arrays.on(lambda x, name=name: getattr(sf.tags_to_spans(x, labels), name))(x), x, wanted)


@every_format
@pytest.mark.parametrize("scheme", [None, "BIO", "in another order", "BIOES", "BILOU", "BMES"])
@given(data=st.data())
def test_tags_of_spans_mark_the_same_spans(arrays, kind, scheme, data):
    labels = SCHEMES.get(scheme)
    truth, x = tagged(data.draw, kind, arrays, labels)

    def tags(x):
        return sf.spans_to_tags(sf.tags_to_spans(x, labels), x, labels)

    def by_the_book(items, i):
        made = [0 if labels is None else labels.index("O")] * len(items)
        for start, stop, kind in spans_of([int(v) for v in items], labels):
            for j in range(start, stop):
                fits = [
                    tag
                    for mark in marks_at(j == start, j == stop - 1)
                    for tag in range(7 if labels is None else len(labels))
                    if meaning(tag, labels) == (mark, kind)
                ]
                made[j] = fits[0]
        return [np.int64(tag) for tag in made]

    assert_result(arrays.on(tags)(x), x, mapped(truth, by_the_book, dtype="i8"))


def marks_at(first, last):
    """The marks for an item, the best first."""
    if first:
        return "SUB" if last else "B"
    return "ELIM" if last else "IM"


def test_levels():
    x = sf.LoD.from_lengths(np.array([1, 2, 2, 1, 0, 2]), [[2, 1], [1, 3, 2]])
    whole = sf.tags_to_spans(x, level=0)
    assert whole.starts.to_nested() == [[0, 3], [1]]
    assert whole.stops.to_nested() == [[3, 4], [2]]
    assert sf.tags_to_spans(x).starts.to_nested() == [[[0], [0, 2]], [[1]]]
    assert sf.spans_to_tags(whole, x, level=0).to_nested() == [[[1], [2, 2, 1]], [[0, 1]]]
    assert sf.spans_to_tags(sf.tags_to_spans(x), x).to_nested() == [[[1], [1, 2, 1]], [[0, 1]]]


def test_labels_by_number_and_spans_in_any_order():
    tags = [[1, 2, 0, 3], [], [1]]
    names = dict(enumerate(BIO))
    found = sf.tags_to_spans(tags, {k: names[k] for k in (3, 1, 0, 4, 2)})
    assert found == sf.tags_to_spans(tags, BIO) == ([[0, 3], [], [0]], [[2, 4], [], [1]], [[0, 1], [], [0]])
    assert sf.spans_to_tags(([[3, 0], [], [0]], [[4, 2], [], [1]], [[1, 0], [], [0]]), tags, names) == tags
    assert sf.spans_to_tags(found, tags, ["x", "y", "O"]) == [[0, 0, 2, 1], [], [0]]
    assert sf.spans_to_tags(([[0]], [[3]], [[0]]), [[7, 7, 7]], ["I-x", "E-x"]) == [[0, 0, 1]]
    assert sf.tags_to_spans([[], []]) == ([[], []], [[], []], [[], []])
    assert sf.tags_to_spans([]) == ([], [], [])


def test_names_as_the_error_says():
    tags, labels = [["B-LOC", "I-LOC"], ["O"]], BIO
    numbers = [[labels.index(name) for name in names] for names in tags]
    assert sf.tags_to_spans(numbers, labels) == ([[0], []], [[2], []], [[1], []])


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: sf.tags_to_spans([[0], [1, -100]], BIO), IndexError, r"tags\[1\]\[1\] is -100.*tags != -100"),
        (lambda: sf.tags_to_spans([[5]], BIO), IndexError, "5 names"),
        (lambda: sf.tags_to_spans([[-1]]), IndexError, "is -1, which is no tag;"),
        (lambda: sf.tags_to_spans([[0.5]], BIO), TypeError, "must be integers, not float64"),
        (lambda: sf.tags_to_spans([["O"]], BIO), TypeError, r"labels\.index\(name\)"),
        (lambda: sf.tags_to_spans(np.zeros((2, 3), int), BIO), TypeError, "batch"),
        (lambda: sf.tags_to_spans(sf.Ragged(np.zeros((1, 1), int), [1])), sf.StructureError, r"shape \(1,\)"),
        (lambda: sf.tags_to_spans([[0]], "BIO"), TypeError, "must be names"),
        (lambda: sf.tags_to_spans([[0]], 5), TypeError, "must be names"),
        (lambda: sf.tags_to_spans([[0]], [0, 1]), TypeError, "must be names"),
        (lambda: sf.tags_to_spans([[0]], {1: "O"}), sf.ConversionError, "0 to 0"),
        (lambda: sf.tags_to_spans([[0]], {"O": 0}), sf.ConversionError, "0 to 0"),
        (lambda: sf.spans_to_tags([[0]], [[1]]), TypeError, "TagSpans"),
        (lambda: sf.spans_to_tags(([[0]], [[3]], [[0]]), [[1, 2]]), IndexError, "from 0 to 3 .* 2 items"),
        (lambda: sf.spans_to_tags(([[-1]], [[1]], [[0]]), [[1, 2]]), IndexError, "from -1 to 1"),
        (lambda: sf.spans_to_tags(([[1, 0]], [[2, 2]], [[0, 0]]), [[1, 2]]), sf.StructureError, "overlap"),
        (lambda: sf.spans_to_tags(([[1]], [[1]], [[0]]), [[1, 2]]), sf.StructureError, "must have items"),
        (lambda: sf.spans_to_tags(([[0]], [[1]], [[2]]), [[1]], BIO), IndexError, "2 types"),
        (lambda: sf.spans_to_tags(([[0]], [[1]], [[-1]]), [[1]]), IndexError, "from -1 to -1"),
        (lambda: sf.spans_to_tags(([[0]], [[1]], [[0]]), [[1, 2]], ["x"]), sf.ConversionError, '"O"'),
        (lambda: sf.spans_to_tags(([[0]], [[1, 2]], [[0]]), [[1]]), sf.StructureError, "spans.stops"),
        (lambda: sf.spans_to_tags(([[0]], [[1]], [[0]]), [[1], [2]]), sf.StructureError, "1 sequences, but x has 2"),
        (lambda: sf.spans_to_tags(([[0]], [[1]], [[0.0]]), [[1]]), TypeError, "spans.types must be integers"),
    ],
)
def test_errors(call, error, says):
    with pytest.raises(error, match=says):
        call()
