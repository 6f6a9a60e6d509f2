"""`sf.pack` and `sf.pack_bins(fewest=True)` beside slow truths: nothing is lost, no label crosses a boundary."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.operations import divide

KINDS = [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD, list]


def slow_pack(documents, labels, of):
    """Packs of parts ``(document, begin, tokens)``, by the pack of each part."""
    packs = {}
    for (number, begin, tokens), k in of:
        ids, wanted, positions, numbers, ends = packs.setdefault(k, ([], [], [], [], [0]))
        ids += tokens
        wanted += [-100, *labels[number][begin + 1 : begin + len(tokens)]]
        positions += range(len(tokens))
        numbers += [number] * len(tokens)
        ends.append(ends[-1] + len(tokens))
    return [list(column) for column in zip(*packs.values(), strict=True)] or [[]] * 5


@given(data=st.data())
def test_pack(data):
    """In every encoding and kind of integer; with the packs that it chose, all else follows."""
    documents = data.draw(st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=9))
    capacity, keep, cut = data.draw(st.integers(1, 12)), data.draw(st.booleans()), data.draw(st.booleans())
    own = data.draw(st.booleans())
    labels = [[token + 100 if token % 3 else -100 for token in document] for document in documents]
    flat = [token for document in documents for token in document]
    x = sf.Ragged(np.array(flat, data.draw(st.sampled_from(["i8", "i4", "u2", ">i4"]))), list(map(len, documents)))
    x = sf.convert(x, data.draw(st.sampled_from(KINDS if flat else KINDS[:-1])))
    options = {"keep_order": keep, "too_long": "cut" if cut else "raise", "labels": labels if own and flat else None}
    longest = max(map(len, documents), default=0)
    if longest > capacity and not cut:
        with pytest.raises(sf.StructureError, match=f"has {longest} items, more than capacity={capacity}"):
            sf.pack(x, capacity, **options)
        return
    packs = sf.pack(x, capacity, **options)
    assert {type(batch) for batch in packs} == {sf.Ragged}
    assert [packs[k].dtype for k in (1, 2, 3, 4)] == ["i8", "i8", "i8", "i4"]
    parts = [(i, a, d[a : a + capacity]) for i, d in enumerate(documents) for a in range(0, len(d), capacity)]
    size, of, open_pack, room = len(packs.ids), [], -1, 0
    if keep:  # the next one opens a pack where it does not fit
        for part in parts:
            if len(part[2]) > room:
                open_pack, room = open_pack + 1, capacity
            room -= len(part[2])
            of.append((part, open_pack))
        assert size == open_pack + 1
    else:  # any packs do, if there are few: the parts of each rise, and so do the packs by their first
        at = [packs.documents.sequences()[k].tolist() for k in range(size)]
        left = list(parts)
        for k, numbers in enumerate(at):
            for number in dict.fromkeys(numbers):
                length = numbers.count(number)
                part = next(p for p in left if p[0] == number and len(p[2]) == length and is_there(p, packs, k))
                left.remove(part)
                of.append((part, k))
        assert not left
        assert all([first for first, *_ in at][k] <= at[k + 1][0] for k in range(size - 1))
        least = len(sf.pack_bins([len(part[2]) for part in parts], capacity))
        assert size <= least
    assert [batch.to_nested() for batch in packs] == slow_pack(documents, labels if own and flat else documents, of)
    assert all(0 < length <= capacity for length in packs.ids.lengths)


def is_there(part, packs, k):
    """Are the tokens of this part in pack k, under its document?"""
    numbers, ids = packs.documents.sequences()[k], packs.ids.sequences()[k]
    return ids[numbers == part[0]].tolist() == part[2]


def test_packs_as_a_model_takes_them():
    packs = sf.pack([[5, 3, 8], [7], [4, 6]], 4)
    batch = sf.convert(packs, sf.Masked, fill={"ids": 0, "labels": -100, "documents": -1})
    assert batch.labels.data.tolist() == [[-100, 3, 8, -100], [-100, 6, -100, -100]]
    seen = sf.block_mask(np.diff(packs.cu_seqlens[0].data), causal=True)
    numbers = packs.documents.sequences()[0]
    assert np.array_equal(seen, np.tril(numbers[:, None] == numbers[None]))


@given(lengths=st.lists(st.integers(0, 12), max_size=14), spare=st.integers(0, 20), rooms=st.booleans())
def test_fewest_bins(lengths, spare, rooms):
    """Between the bound and best fit, whatever the way; the bound is one."""
    capacity = max(lengths, default=0) + spare
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(divide, "ROOMS", divide.ROOMS if rooms else -1)
        usual, fewest = sf.pack_bins(lengths, capacity), sf.pack_bins(lengths, capacity, fewest=True)
        least = divide.least_bins(np.sort(lengths)[::-1].astype(np.int64), capacity)
    assert least <= len(fewest) <= len(usual)
    for bins in (usual, fewest):
        assert sorted(bins.data.tolist()) == list(range(len(lengths)))
        parts = [[lengths[i] for i in part] for part in bins.to_nested()]
        assert all(sum(part) <= capacity and part == sorted(part, reverse=True) for part in parts)


@pytest.mark.parametrize(
    ("lengths", "capacity", "bins"),
    [([5100] * 6 + [2700] * 6 + [2600] * 6 + [2300] * 12, 10_000, 9), ([5, 5, 4, 4, 3, 3], 12, 2)],
    ids=["the worst of first fit", "two bins"],
)
def test_differencing_finds_what_best_fit_misses(lengths, capacity, bins):
    assert len(sf.pack_bins(lengths, capacity)) > bins
    assert len(sf.pack_bins(lengths, capacity, fewest=True)) == bins


ERRORS = {
    sf.StructureError: {
        "labels must have the lengths of documents": lambda: sf.pack([[1, 2]], 4, labels=[[1]]),
        "items of shape": lambda: sf.pack([np.ones((2, 2), int)], 4),
        "cu_seqlens counts by int32": lambda: sf.pack([[1]], 2**31),
        "must fit int64": lambda: sf.pack([np.array([2**63], np.uint64)], 4),
        "sequence 1 costs 9, more than max_cost=8": lambda: sf.buckets([1, 3], 8, cost=(0, 1), max_cost=8),
    },
    sf.ConversionError: {
        "capacity must be at least 1": lambda: sf.pack([[1]], 0),
        'too_long must be "raise" or "cut"': lambda: sf.pack([[1]], 4, too_long="drop"),
        "max_cost must be at least 0": lambda: sf.buckets([1], 4, max_cost=float("nan")),
        "give both": lambda: sf.buckets([1], 4, cost=(1, 1)),
    },
    TypeError: {
        "documents are integers": lambda: sf.pack([[0.5]], 4),
        "labels are integers": lambda: sf.pack([[1]], 4, labels=[[0.5]]),
        "keep_order must be True or False": lambda: sf.pack([[1]], 4, keep_order=1),
        "fewest must be True or False": lambda: sf.pack_bins([1], 4, fewest=None),
    },
}
ERRORS = [(error, words, call) for error, calls in ERRORS.items() for words, call in calls.items()]


@pytest.mark.parametrize(("error", "words", "call"), ERRORS, ids=[words for _, words, _ in ERRORS])
def test_errors(error, words, call):
    with pytest.raises(error, match=words):
        call()


@given(
    lengths=st.lists(st.integers(0, 9), max_size=20),
    padded=st.booleans(),
    step=st.integers(1, 4),
    spare=st.floats(0, 300),
    how=st.sampled_from(["coefficients", "function", "numbers", "none"]),
)
def test_buckets_of_limited_cost(lengths, padded, step, spare, how):
    """As full as can be: with one sequence more, a batch would be over a limit."""
    step = step if padded else 1
    widths = [-(-length // step) * step for length in lengths]
    cost = {
        "coefficients": (2, 1, 3),
        "function": lambda n: n + n**2,
        "numbers": [k % 5 for k in lengths],
        "none": None,
    }
    cost = cost[how]
    each = {"coefficients": lambda n: 2 * n + n * n + 3, "function": lambda n: n + n * n, "none": float}
    costs = [k % 5 for k in lengths] if how == "numbers" else [each[how](n) for n in widths]
    limit, max_cost = max(widths, default=0) * 4, max(costs, default=0) + spare
    found = sf.buckets(lengths, limit, padded, multiple_of=step, cost=cost, max_cost=max_cost).to_nested()
    assert [i for batch in found for i in batch] == sorted(range(len(lengths)), key=lambda i: -lengths[i])

    def over(batch):
        items = len(batch) * widths[batch[0]] if padded else sum(lengths[i] for i in batch)
        total = len(batch) * max(costs[i] for i in batch) if padded else sum(costs[i] for i in batch)
        return items > limit or total > max_cost

    assert not any(map(over, found))
    assert all(over([*batch, after[0]]) for batch, after in pairwise(found))
