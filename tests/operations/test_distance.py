"""Edit distances, against the table of all prefixes."""

import distance_oracle
import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from libraries import leaves_of
from passes import INTERPRETED

import seqformats as sf
from seqformats.operations import distance

TOKENS = [np.dtype(code) for code in ("i8", "i4", "?", "u1", "i1", "u2", "i2", "u4", "u8", ">i8", ">u2")]
PLAIN = [np.dtype("i8"), np.dtype("?")]
FORMATS = [*oracle.ENCODINGS, list]
every_format = pytest.mark.parametrize("kind", FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


def distances(ones, twos):
    return [distance_oracle.levenshtein(one, two) for one, two in zip(ones, twos, strict=True)]


def tokens_of(truth):
    """The sequences of a batch as lists of Python's numbers."""
    return [[item.item() for item in sequence] for sequence in truth.sequences()]


def edited(items, others):
    """Lists made of these by a few edits, or other ones."""

    def edit(change):
        place, what, other = change
        p = place % (len(items) + 1)
        return items[:p] + [[other], [other, *items[p : p + 1]], []][what] + items[p + 1 :]

    return st.one_of(
        st.just(items), st.lists(others, max_size=9), st.tuples(st.integers(0, 40), st.integers(0, 2), others).map(edit)
    )


def without_levels(found):
    """The distances of all innermost sequences as a list."""
    if isinstance(found, list):
        return [value for part in found for value in (without_levels(part) if isinstance(part, list) else [int(part)])]
    if isinstance(found, sf.LoD):
        found = found.data
    assert found.dtype == np.int64
    assert found.ndim == 1
    return found.tolist()


@every_format
@given(data=st.data())
def test_against_the_table(arrays, kind, data):
    dtypes = PLAIN if kind is list else arrays.of(TOKENS)
    truth, x = data.draw(strategies.encoded(kind, kinds=dtypes, shapes=[(), (1,)]))
    one = tokens_of(truth)
    two = [data.draw(edited(items, st.integers(0, 5))) for items in one]
    if leaves_of(x):
        dtype = data.draw(st.sampled_from([dtype for dtype in arrays.of(TOKENS) if dtype.itemsize > 1 or kind is list]))
        if any(not np.can_cast(np.min_scalar_type(item), dtype) for items in two for item in items):
            dtype = truth.dtype
        flat = np.array([item for items in two for item in items], dtype)
        y = sf.convert(sf.Ragged(flat, [len(items) for items in two]), data.draw(st.sampled_from(oracle.ENCODINGS)))
        two = [sequence.tolist() for sequence in sf.convert(y, sf.List).items]
    else:
        y = two
    found = arrays.on(sf.levenshtein)(x, y)
    if truth.levels > 1:
        assert isinstance(found, list if kind is list else sf.LoD)
    assert without_levels(found) == distances(one, two)
    if truth.levels == 1 or kind is not list:
        assert without_levels(arrays.on(sf.levenshtein)(y, x)) == without_levels(found)


LENGTHS = [0, 1, 2, 63, 64, 65, 128, 129, 257, 511, 513, 1030] if not INTERPRETED else [0, 1, 63, 64, 65, 130]


@pytest.mark.parametrize("alphabet", [1, 2, 5, 500, 2**31, 2**63], ids=lambda k: f"{k:.0e}")
@pytest.mark.parametrize("code", ["i4", "i8"])
def test_strips_and_their_edges(arrays, alphabet, code):
    """Sequences of all lengths near a multiple of 64, equal, alike and not."""
    rng = np.random.default_rng(alphabet % 1000)
    least = -(2**31) if code == "i4" else -(2**63)
    least = 12 if alphabet == 500 else least  # some up to 511
    last = least + alphabet - 1 if alphabet <= 500 else min(least + alphabet, -least) - 1
    ones, twos = [], []
    for m in LENGTHS:
        for n in LENGTHS if m < 1030 else LENGTHS[:-3]:
            one = rng.integers(least, last, m, dtype=code, endpoint=True)
            like = np.resize(one, n) if m else rng.integers(0, 9, n, dtype=code)
            like[rng.integers(0, n, n // 7)] = rng.integers(0, 2, n // 7)
            ones.append(one)
            twos.append(like if (m + n) % 2 else rng.integers(least, last, n, dtype=code, endpoint=True))
    x, y = (sf.Ragged(np.concatenate(parts), [len(part) for part in parts]) for parts in (ones, twos))
    found = arrays.on(sf.levenshtein)(x, y).tolist()
    assert found == distances([part.tolist() for part in ones], [part.tolist() for part in twos])


@given(data=st.data(), most=st.sampled_from([1, 3, 2**62]))
def test_long_ones(data, most):
    longest = 300 if not INTERPRETED else 90
    tokens = st.lists(st.integers(-most, most), max_size=longest)
    one, two = data.draw(tokens), data.draw(tokens)
    changed = data.draw(edited(one, st.integers(0, 2)))
    x = sf.convert([one, one, one], sf.Ragged, dtype=np.int64)
    y = sf.convert([two, one, changed], sf.Ragged, dtype=np.int64)
    assert sf.levenshtein(x, y).tolist() == distances([one, one, one], [two, one, changed])


def test_by_hand():
    words = ["kitten", "flaw", "", "abc", "same"]
    others = ["sitting", "lawn", "abc", "", "same"]
    x, y = ([np.frombuffer(word.encode(), np.uint8) for word in some] for some in (words, others))
    assert sf.levenshtein(x, y).tolist() == [3, 2, 3, 3, 0]
    assert sf.levenshtein(y, sf.convert(x, sf.Masked, side="left")).tolist() == [3, 2, 3, 3, 0]


def test_levels():
    x = sf.LoD(np.arange(5), [[0, 2, 3], [0, 2, 2, 5]])
    y = sf.LoD(np.arange(4), [[0, 2, 3], [0, 2, 3, 4]])
    found = sf.levenshtein(x, y)
    assert found.lengths() == [[2, 1]]
    assert found.data.tolist() == [0, 1, 2]
    assert sf.levenshtein(x, sf.Ragged(y.data, [2, 1, 1])).data.tolist() == [0, 1, 2]
    assert sf.levenshtein(sf.Ragged(x.data, [2, 0, 3]), y).tolist() == [0, 1, 2]
    assert sf.levenshtein([[[1, 2], []], [[3]]], [[[1], [7]], [[]]]) == [[1, 1], [1]]
    assert sf.levenshtein([[[]]], [[[]]]) == [[0]]


def test_no_sequences_and_none_with_an_item(arrays):
    for kind in oracle.ENCODINGS:
        for lengths in ([], [0], [0, 0]):
            x = oracle.build(kind, strategies.truth_from(lengths, np.dtype("i4")))
            found = arrays.on(sf.levenshtein)(x, x)
            assert found.dtype == np.int64
            assert found.tolist() == [0] * len(lengths)
    assert sf.levenshtein([], []).tolist() == []
    assert sf.levenshtein([[]], [[1, 2]]).tolist() == [2]
    assert sf.levenshtein([[], [1]], [[], []]).tolist() == [0, 1]


def test_numbers_beyond_int64():
    """Bit for bit they are negative numbers, and equal to none."""
    large = np.array([2**64 - 1, 2**63, 5, 7], np.uint64)
    signed = np.array([-1, -(2**63), 5, 7])
    x, y = sf.Ragged(large, [4]), sf.Ragged(signed, [4])
    assert sf.levenshtein(x, y).tolist() == [2]
    assert sf.levenshtein(y, x).tolist() == [2]
    assert sf.levenshtein(x, sf.Ragged(large[::-1].copy(), [4])).tolist() == [4]
    assert sf.levenshtein(x, x).tolist() == [0]
    assert sf.levenshtein(y, sf.Ragged(np.array([-1, 5, 7], "i1"), [3])).tolist() == [1]
    assert sf.levenshtein(x, sf.Ragged(np.array([True, False]), [2])).tolist() == [4]


@pytest.mark.parametrize("shift", [0, 7, 22, 31, 40, 56])
def test_tokens_that_differ_in_a_few_bits(shift):
    """A table of 256 places and 64 tokens in it, wherever the bits are."""
    rng = np.random.default_rng(shift)
    one, two = (rng.permutation(128)[:70] - 60 << shift for _ in range(2))
    found = sf.levenshtein(sf.Ragged(one, [70]), sf.Ragged(two, [70])).tolist()
    assert found == distances([one.tolist()], [two.tolist()])


@pytest.mark.usefixtures("default_threads")
def test_what_several_threads_share(monkeypatch):
    """Pairs of very different lengths, each the work of one unit."""
    monkeypatch.setattr(distance, "MIN_COLUMNS_FOR_THREADS", 1)
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 12, (2, 60))
    lengths[:, 17] = 130
    x, y = (sf.Ragged(rng.integers(0, 4, int(given.sum())), given) for given in lengths)
    lists = [[part.tolist() for part in sf.convert(z, sf.List).items] for z in (x, y)]
    for threads in (1, 3):
        sf.set_num_threads(threads)
        assert sf.levenshtein(x, y).tolist() == distances(*lists)
    empty = sf.Ragged(np.zeros(0, int), np.zeros(9, int))
    assert sf.levenshtein(empty, sf.Ragged(np.zeros(9, int), np.ones(9, int))).tolist() == [1] * 9


def test_what_does_not_fit():
    x = sf.Ragged(np.arange(3), [2, 1])
    deep = sf.LoD(np.arange(3), [[0, 1, 2], [0, 2, 3]])
    for y, error, message in (
        (sf.Ragged(np.arange(3), [3]), sf.StructureError, "y has 1 sequences, but x has 2"),
        (sf.Ragged(np.arange(3.0), [2, 1]), TypeError, "tokens, which are integers, but y has dtype float64"),
        (sf.Ragged(np.zeros((3, 2), int), [2, 1]), sf.StructureError, "item.*but y has \\(2,\\)"),
        (sf.Ragged(np.array(["a", "b", "c"]), [2, 1]), TypeError, "y has dtype <U1"),
        (np.arange(3), TypeError, "give it lengths"),
        (sf.Pairs(x, x), TypeError, "Pairs"),
    ):
        with pytest.raises(error, match=message):
            sf.levenshtein(x, y)
    with pytest.raises(TypeError, match="but x has dtype float64"):
        sf.levenshtein([[1.0], [2.0]], x)
    with pytest.raises(sf.StructureError, match="y has other outer levels than x"):
        sf.levenshtein(deep, sf.LoD(np.arange(3), [[0, 2, 2], [0, 2, 3]]))
    with pytest.raises(TypeError, match="levenshtein has no gradient rule"):
        sf.vjp(sf.levenshtein, x, x)


def test_data_that_was_changed_is_refused():
    x = sf.Ragged(np.arange(3), [2, 1])
    y = sf.Ragged(np.arange(3), [2, 1])
    object.__setattr__(y, "data", y.data[:-1])
    with pytest.raises(sf.StructureError, match="build a new one"):
        sf.levenshtein(x, y)


@pytest.mark.peers
def test_tensors():
    torch = pytest.importorskip("torch")
    x = sf.Ragged(torch.tensor([1, 2, 3]), [2, 1])
    found = sf.levenshtein(x, sf.Ragged(torch.tensor([1, 3], dtype=torch.uint8), [1, 1]))
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [1, 0]
    with pytest.raises(sf.DeviceError, match="y is on cpu, numpy; x is on cpu, torch"):
        sf.levenshtein(x, sf.Ragged(np.arange(3), [2, 1]))
