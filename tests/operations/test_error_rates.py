"""Hits, substitutions, deletions and insertions, against the table of all prefixes and beside what jiwer counts."""

import math

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from libraries import leaves_of
from passes import INTERPRETED
from test_distance import TOKENS, edited, tokens_of

import seqformats as sf
from seqformats.operations import error_rates

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


def counted(one, two):
    """The four numbers of the way from the end that deletes, else substitutes, else inserts, else hits."""
    table = [[*range(len(two) + 1)]]
    for i, item in enumerate(one, 1):
        row = [i]
        for j, other in enumerate(two, 1):
            row.append(min(table[-1][j] + 1, row[-1] + 1, table[-1][j - 1] + (item != other)))
        table.append(row)
    i, j, found = len(one), len(two), [0, 0, 0, 0]
    while i or j:
        here = table[i][j]
        if i and here == table[i - 1][j] + 1:
            what, i = 2, i - 1
        elif i and j and one[i - 1] != two[j - 1] and here == table[i - 1][j - 1] + 1:
            what, i, j = 1, i - 1, j - 1
        elif j and here == table[i][j - 1] + 1:
            what, j = 3, j - 1
        else:
            what, i, j = 0, i - 1, j - 1
        found[what] += 1
    return found


def rows_of(found):
    for part in found:
        assert part.dtype == np.int64
        assert part.ndim == 1
    return [list(row) for row in zip(*(part.tolist() for part in found), strict=True)]


@every_encoding
@given(data=st.data())
def test_against_the_table(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(TOKENS), shapes=[(), (1,)]))
    one = tokens_of(truth)
    two = [data.draw(edited(items, st.integers(0, 5))) for items in one]
    y = two
    if leaves_of(x):
        own = any(item >= 2**63 for items in two for item in items)  # else a number that is none of these bit for bit
        flat = np.array([item for items in two for item in items], truth.dtype if own else np.int64)
        y = sf.convert(sf.Ragged(flat, list(map(len, two))), data.draw(st.sampled_from(oracle.ENCODINGS)))
    found = arrays.on(lambda x, y: tuple(sf.edits(references=x, hypotheses=y)))(x, y)
    assert rows_of(found) == [counted(*pair) for pair in zip(one, two, strict=True)]


@pytest.mark.parametrize("most", [0, 40, error_rates.MAX_TRACE])
@pytest.mark.parametrize("alphabet", [1, 2, 5, 2**40])
def test_strips_and_rows_count_the_same_way(arrays, alphabet, most, monkeypatch):
    monkeypatch.setattr(error_rates, "MAX_TRACE", most)
    rng = np.random.default_rng(alphabet % 1000)
    ones, twos = [], []
    for m in (0, 1, 63, 64, 65, 130):
        for n in (0, 1, 64, 90):
            one = rng.integers(0, alphabet, m)
            like = np.resize(one, n) if m else rng.integers(0, 9, n)
            like[rng.integers(0, n, n // 7)] = rng.integers(0, 2, n // 7)
            ones.append(one)
            twos.append(like if (m + n) % 2 else rng.integers(0, alphabet, n))
    ones, twos = (parts[:: 7 if INTERPRETED else 1] for parts in (ones, twos))
    x, y = (sf.Ragged(np.concatenate(parts), list(map(len, parts))) for parts in (ones, twos))
    found = arrays.on(lambda x, y: tuple(sf.edits(references=x, hypotheses=y)))(x, y)
    assert rows_of(found) == [counted(a.tolist(), b.tolist()) for a, b in zip(ones, twos, strict=True)]


# What jiwer 4.0 counts: reference, hypothesis, and hits, substitutions, deletions, insertions by words and characters.
RECORDED = [
    ("the cat sat on the mat", "the cat sit on mat", [4, 1, 1, 0], [17, 1, 4, 0]),
    ("a b c d", "b a d c", [2, 1, 1, 1], [3, 4, 0, 0]),
    ("a b a b a", "b a b a b", [4, 0, 1, 1], [7, 0, 2, 2]),
    ("e d e a a f", "a e d f f e a", [4, 0, 2, 3], [7, 4, 0, 2]),
    ("c c a b", "a c b c a c", [3, 1, 0, 2], [6, 1, 0, 4]),
    ("one two three", "three two one zero", [1, 2, 0, 1], [7, 6, 0, 5]),
    ("it is what it is", "what it is it is", [4, 0, 1, 1], [10, 4, 2, 2]),
]


@pytest.mark.parametrize(("reference", "hypothesis", "words", "characters"), RECORDED)
def test_recorded_counts(reference, hypothesis, words, characters):
    for n in (1, 2):  # a pair alone goes another way
        texts = {"references": [reference] * n, "hypotheses": [hypothesis] * n}
        assert rows_of(sf.wer(**texts)) == [words] * n
        assert rows_of(sf.cer(**texts)) == [characters] * n


def test_texts():
    found = sf.wer(references=["a b", "", "c\td\ne"], hypotheses=["a  b ", "x", "c d"])
    assert rows_of(found) == [[2, 0, 0, 0], [0, 0, 0, 1], [2, 0, 1, 0]]
    assert found.rate == 2 / 5
    assert (type(found), type(found.rate)) == (sf.EditCounts, float)
    assert sf.wer(references=[], hypotheses=[]).rate == 0
    for call, empty in ((sf.wer, " "), (sf.cer, "")):
        assert call(references=[empty], hypotheses="a").rate == math.inf
        assert rows_of(call(references=["a"], hypotheses=[empty])) == [[0, 0, 1, 0]]
        assert rows_of(call(references=empty, hypotheses=empty)) == [[0, 0, 0, 0]]
    assert rows_of(sf.cer(references=["\U0001f600\ud800a"], hypotheses=["\U0001f600\ud800b"])) == [[2, 1, 0, 0]]
    words = {"references": [["new york", "is"], []], "hypotheses": [["new", "york", "is"], ["x"]]}
    assert rows_of(sf.edits(**words)) == [[1, 1, 0, 1], [0, 0, 0, 1]]
    assert sf.levenshtein(*words.values()).tolist() == [2, 1]
    assert rows_of(sf.edits(references=["abc"], hypotheses=["ac"])) == [[2, 0, 1, 0]]
    assert sf.levenshtein(["", "flaw"], ("a", "lawn")).tolist() == [1, 2]
    assert sf.levenshtein([[], ["a"]], [["b"], []]).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("call", "one", "two", "error", "words"),
    [
        (sf.wer, ["a"], ["a", "b"], sf.StructureError, "hypotheses has 2 texts, but references has 1"),
        (sf.cer, ["a"], [1], TypeError, "hypotheses must be texts, but number 0 is 1"),
        (sf.wer, None, ["a"], TypeError, "references must be texts in a list, not NoneType"),
        (sf.wer, [["a"]], ["a"], TypeError, "references must be texts, but number 0"),
        (sf.edits, [[1]], [[1], [2]], sf.StructureError, "hypotheses has 2 sequences, but references has 1"),
        (sf.edits, [[1.5]], [[1]], TypeError, "references has dtype float64"),
        (sf.edits, [["a"]], [[1]], TypeError, "hypotheses must be lists of words"),
        (sf.edits, ["a"], sf.Ragged(np.arange(1), [1]), TypeError, "hypotheses must be texts or lists of words"),
        (sf.edits, sf.Ragged(np.ones((1, 2), int), [1]), [[1]], sf.StructureError, "references has"),
        (sf.edits, ["ab"], [["a", "b"]], TypeError, "hypotheses must be texts, but number 0"),
    ],
)
def test_what_does_not_fit(call, one, two, error, words):
    with pytest.raises(error, match=words):
        call(references=one, hypotheses=two)
