"""The step of beam search and the way back from its results, against plain Python."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from libraries import on_each_library

import seqformats as sf

END = 0
SPECIAL = [-math.inf, math.nan, math.inf]


def slow_step(pre_ids, pre_scores, ids, scores, sources, beam_size, accumulated=True):
    """For each source a list, for each of its prefixes, of (score, token); sources are lists of prefixes."""
    found = []
    for prefixes in sources:
        candidates = []
        for r in prefixes:
            if pre_ids[r] == END:
                candidates.append((pre_scores[r], r, 0, END))
                continue
            for c, score in enumerate(scores[r]):
                value = score if accumulated else pre_scores[r] + np.log(score)
                candidates.append((value, r, c, c if ids is None else ids[r][c]))
        kept = [c for c in candidates if c[0] > -math.inf]
        kept = sorted(kept, key=lambda c: (-c[0], c[1], c[2]))[:beam_size]
        if all(pre_ids[r] == END for _, r, _, _ in kept):
            kept = []
        found.append([[(value, token) for value, r, _, token in kept if r == prefix] for prefix in prefixes])
    return found


def read(step):
    """A result in the same form."""
    ids, scores = step.ids.to_nested(), step.scores.to_nested()
    return [
        [list(zip(s, i, strict=True)) for i, s in zip(*prefixes, strict=True)]
        for prefixes in zip(ids, scores, strict=True)
    ]


@st.composite
def inputs(draw, special=True):
    """pre_ids, pre_scores, ids or None, scores, sources."""
    counts = draw(st.lists(st.integers(0, 4), max_size=4))
    rows, width = sum(counts), draw(st.integers(1, 5))
    number = st.sampled_from([0.1, 0.2, 0.25, 0.5, 0.75, 1.0, *(SPECIAL if special else [])])
    scores = draw(st.lists(st.lists(number, min_size=width, max_size=width), min_size=rows, max_size=rows))
    token = st.integers(0, 3)
    pre_ids = draw(st.lists(token, min_size=rows, max_size=rows))
    pre_scores = draw(st.lists(number, min_size=rows, max_size=rows))
    ids = draw(st.none() | st.lists(st.lists(token, min_size=width, max_size=width), min_size=rows, max_size=rows))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(int)
    sources = [list(range(a, b)) for a, b in pairwise(offsets)]
    return (
        np.array(pre_ids, np.int64),
        np.array(pre_scores, np.float32),
        None if ids is None else np.array(ids, np.int64).reshape(rows, width),
        np.array(scores, np.float32).reshape(rows, width),
        sources,
    )


def lod_of(scores, sources):
    ends = np.concatenate([[0], np.cumsum([len(prefixes) for prefixes in sources])])
    return sf.LoD(scores, [ends.astype(int), np.arange(len(scores) + 1)])


def parents_of(wanted, sources):
    pairs = [pair for part in zip(sources, wanted, strict=True) for pair in zip(*part, strict=True)]
    return [r for r, found in pairs for _ in found]


def assert_step(step, wanted, sources):
    assert read(step) == wanted
    rows = parents_of(wanted, sources)
    assert step.parents.tolist() == rows
    kept = [sum(len(f) for f in found) for found in wanted]
    assert step.next_lod[0].tolist() == np.concatenate([[0], np.cumsum(kept)]).tolist()
    assert sf.is_valid_lod(step.next_lod, len(rows))


@given(inputs(), st.integers(1, 6), st.booleans())
def test_the_step(given_, beam_size, accumulated):
    pre_ids, pre_scores, ids, scores, sources = given_
    with np.errstate(all="ignore"):
        wanted = slow_step(pre_ids, pre_scores, ids, scores, sources, beam_size, accumulated)
        step = sf.beam_step(
            pre_ids, pre_scores, ids, lod_of(scores, sources), beam_size=beam_size, end=END, accumulated=accumulated
        )
    if accumulated:
        assert_step(step, wanted, sources)
    else:  # the logarithm may differ in its last bit
        tokens = [[[token for _, token in f] for f in found] for found in wanted]
        assert step.ids.to_nested() == tokens
        numbers = [score for found in wanted for f in found for score, _ in f]
        np.testing.assert_allclose(step.scores.data, numbers, rtol=1e-6)


@on_each_library
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(given_=inputs(), beam_size=st.integers(1, 4))
def test_the_step_on_a_device(gpu, given_, beam_size):
    gpu.need()
    pre_ids, pre_scores, ids, scores, sources = given_
    wanted = slow_step(pre_ids, pre_scores, ids, scores, sources, beam_size)
    up = [None if x is None else gpu.up(x) for x in (pre_ids, pre_scores, ids)]
    step = sf.beam_step(*up, gpu.up(lod_of(scores, sources)), beam_size=beam_size, end=END)
    if len(scores):
        assert step.scores.device.startswith("cuda")
    assert read(step) == wanted
    assert gpu.down(step.parents).tolist() == parents_of(wanted, sources)


@given(inputs(), st.integers(1, 4))
def test_a_source_does_not_depend_on_the_others(given_, beam_size):
    pre_ids, pre_scores, ids, scores, sources = given_
    options = {"beam_size": beam_size, "end": END}
    together = read(sf.beam_step(pre_ids, pre_scores, ids, lod_of(scores, sources), **options))
    for prefixes, found in zip(sources, together, strict=True):
        part = np.array(prefixes, int)
        alone = sf.beam_step(
            pre_ids[part],
            pre_scores[part],
            None if ids is None else ids[part],
            lod_of(scores[part], [list(range(len(part)))]),
            **options,
        )
        assert read(alone) == [found]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_scores_keep_their_dtype(dtype):
    scores = lod_of(np.array([[0.5, 0.25]], dtype), [[0]])
    step = sf.beam_step(np.array([1], "i4"), np.array([0], "f8"), None, scores, beam_size=2, end=END)
    assert step.scores.dtype == np.dtype(dtype)
    assert step.ids.dtype == np.int64
    assert read(step) == [[[(0.5, 0), (0.25, 1)]]]


def test_columns_of_one_and_lods_are_taken():
    scores = lod_of(np.array([[0.5, 0.25]]), [[0]])
    column, candidates = sf.LoD(np.array([[1]]), scores.lod), sf.LoD(np.array([[7, 8]]), scores.lod)
    step = sf.beam_step(column, np.array([[0.0]]), candidates, scores, beam_size=1, end=END)
    assert read(step) == [[[(0.5, 7)]]]


def test_a_deeper_level():
    scores = sf.LoD(np.array([[0.5], [0.25], [0.75]]), [[0, 1, 2], [0, 2, 3], [0, 1, 2, 3]])
    step = sf.beam_step(np.ones(3, int), np.zeros(3), None, scores, beam_size=1, end=END, level=1)
    assert read(step) == [[[(0.5, 0)], []], [[(0.75, 0)]]]
    with pytest.raises(IndexError, match="level 3"):
        sf.beam_step(np.ones(3, int), np.zeros(3), None, scores, beam_size=1, end=END, level=3)


SCORES = lod_of(np.zeros((2, 3)), [[0, 1]])
GOOD = {"pre_ids": np.ones(2, int), "pre_scores": np.zeros(2), "ids": None, "scores": SCORES, "beam_size": 2, "end": 0}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"scores": np.zeros((2, 3))}, TypeError, "scores must be a LoD"),
        ({"scores": lod_of(np.zeros((2, 3), int), [[0, 1]])}, TypeError, "scores must be floats"),
        ({"scores": lod_of(np.zeros(2), [[0, 1]])}, sf.StructureError, "prefixes, K"),
        ({"pre_ids": np.ones(3, int)}, sf.StructureError, "pre_ids must have shape"),
        ({"pre_ids": np.ones(2)}, TypeError, "pre_ids must be integers"),
        ({"pre_ids": np.ones(2, bool)}, TypeError, "pre_ids must be integers"),
        ({"pre_ids": [1, 1]}, TypeError, "pre_ids must be an array"),
        ({"pre_scores": np.zeros(3)}, sf.StructureError, "pre_scores must have shape"),
        ({"ids": np.zeros((2, 2), int)}, sf.StructureError, "ids must have shape"),
        ({"ids": np.zeros((2, 3))}, TypeError, "ids must be integers"),
        ({"beam_size": 0}, sf.ConversionError, "beam_size must be at least 1"),
        ({"beam_size": 1.5}, TypeError, "beam_size"),
        ({"end": None}, TypeError, "end must be an integer"),
        ({"end": 2**70}, sf.StructureError, "end must fit int64"),
        ({"pre_scores": np.zeros(2, complex)}, TypeError, "pre_scores must be real"),
        ({"accumulated": 1}, TypeError, "accumulated"),
    ],
)
def test_what_does_not_fit(change, error, words):
    arguments = GOOD | change
    positional = [arguments.pop(name) for name in ("pre_ids", "pre_scores", "ids", "scores")]
    with pytest.raises(error, match=words):
        sf.beam_step(*positional, **arguments)


# --- the way back ----------------------------------------------------------------------------------------------------


def slow_backtrace(steps, end):
    """For each source its hypotheses, lists of (token, score), best first; steps as lists of prefixes of lists."""
    found = []
    for source in range(len(steps[0])):
        last = max(t for t, step in enumerate(steps) if t == 0 or any(step[source]))
        paths = []
        for place, _ in enumerate(row for prefix in steps[last][source] for row in prefix):
            path, at = [], place
            for t in range(last, -1, -1):
                rows = [(row, parent) for parent, prefix in enumerate(steps[t][source]) for row in prefix]
                (token, score), at = rows[at]
                if t == 0 or not path or token != end:
                    path.insert(0, (token, score))
            paths.append(path)
        found.append(sorted(paths, key=lambda path: -path[-1][1]))
    return found


@st.composite
def searches(draw):
    """The steps of a search over random scores: sources, prefixes, rows (token, score)."""
    n, beam_size = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    number = st.sampled_from([-1.0, -0.5, -0.25, -math.inf])
    steps = [[[[(7, 0.0)]] for _ in range(n)]]
    for _ in range(draw(st.integers(0, 4))):
        step = []
        for source in range(n):
            rows = [row for prefix in steps[-1][source] for row in prefix]
            candidates = []
            for r, (token, score) in enumerate(rows):
                if token == END:
                    candidates.append((score, r, END))
                else:
                    candidates += [(score + draw(number), r, c) for c in range(3)]
            kept = sorted([c for c in candidates if c[0] > -math.inf], key=lambda c: -c[0])[:beam_size]
            if all(rows[r][0] == END for _, r, _ in kept):
                kept = []
            step.append([[(token, score) for score, r, token in kept if r == i] for i in range(len(rows))])
        steps.append(step)
    return steps


def lods(steps):
    """The tokens and the scores of such steps as LoDs."""
    found = []
    for k, dtype in ((0, np.int64), (1, np.float64)):
        nested = [[[[row[k] for row in prefix] for prefix in source] for source in step] for step in steps]
        found.append([sf.LoD.from_nested(step, dtype, levels=2) for step in nested])
    return found


@given(searches())
def test_the_way_back(steps):
    ids, scores = lods(steps)
    found = sf.beam_backtrace(ids, scores, beam_size=3, end=END)
    wanted = slow_backtrace(steps, END)
    assert found.ids.to_nested() == [[[token for token, _ in path] for path in paths] for paths in wanted]
    assert found.scores.to_nested() == [[[score for _, score in path] for path in paths] for paths in wanted]
    assert found.ids.dtype == np.int64
    again = sf.beam_backtrace(sf.TensorArray(ids), sf.TensorArray(scores), beam_size=3, end=END)
    assert sf.equal(again.ids, found.ids)


ONE = sf.LoD(np.zeros(1), [[0, 1], [0, 1]])


def test_a_whole_search_with_the_step():
    """Two sources of different luck: the second one has no candidate from its second step on, and keeps what it had."""
    first = sf.LoD(np.array([7, 7]), [[0, 1, 2], [0, 1, 2]])
    ids, scores = [first], [sf.LoD(np.zeros(2), first.lod)]
    tables = [
        np.array([[-9.0, -1.0, -2.0], [-9.0, -9.0, -1.0]]),
        np.array([[-1.5, -9.0, -9.0], [-1.0, -9.0, -9.0], [-np.inf] * 3, [-1.0] * 3]),
        np.array([[-9.0] * 3] * 2),
    ]
    for table in tables:
        step = sf.beam_step(ids[-1].data, scores[-1].data, None, sf.LoD(table, ids[-1].lod), beam_size=2, end=END)
        ids.append(step.ids)
        scores.append(step.scores)
        if not len(step.parents):
            break
    found = sf.beam_backtrace(ids, scores, beam_size=2, end=END)
    assert found.ids.to_nested()[0] == [[7, 2, 0], [7, 1, 0]]
    assert found.scores.to_nested()[0] == [[0, -2, -1], [0, -1, -1.5]]
    assert found.ids.to_nested()[1] == [[7, 2], [7, 0]]


@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        ([], sf.StructureError, "no step"),
        ([np.zeros(2)], TypeError, "must be LoDs"),
        (3, TypeError, "must be LoDs"),
        ([sf.LoD(np.zeros(2), [[0, 2]])], sf.StructureError, "2 levels"),
        ([sf.LoD(np.zeros((1, 2)), [[0, 1], [0, 1]])], sf.StructureError, "one number per row"),
        (
            [sf.LoD(np.zeros(1), [[0, 1], [0, 1]]), sf.LoD(np.zeros(1), [[0, 2], [0, 1, 1]])],
            sf.StructureError,
            "prefixes",
        ),
        (
            [sf.LoD(np.zeros(1), [[0, 1], [0, 1]]), sf.LoD(np.zeros(1), [[0, 1, 1], [0, 1]])],
            sf.StructureError,
            "sources",
        ),
    ],
)
def test_steps_that_do_not_follow(ids, error, words):
    with pytest.raises(error, match=words):
        sf.beam_backtrace(ids, ids, beam_size=1, end=END)


def test_ids_and_scores_must_be_as_many():
    with pytest.raises(sf.StructureError, match="1 steps of ids, but 2 of scores"):
        sf.beam_backtrace([ONE], [ONE, ONE], beam_size=1, end=END)
    with pytest.raises(sf.StructureError, match="rows"):
        sf.beam_backtrace([ONE], [sf.LoD(np.zeros(2), [[0, 1], [0, 2]])], beam_size=1, end=END)


def test_a_beam_may_be_far_too_large():
    step = sf.beam_step(
        np.array([1]), np.zeros(1), None, lod_of(np.array([[0.5, 0.25]]), [[0]]), beam_size=10**15, end=0
    )
    assert read(step) == [[[(0.5, 0), (0.25, 1)]]]


def test_steps_of_different_dtypes():
    wide = sf.LoD(np.array([300, 4]), [[0, 1], [0, 2]])
    with pytest.raises(sf.StructureError, match="ids of step 1 has dtype int64"):
        sf.beam_backtrace([sf.LoD(np.array([7], "i1"), ONE.lod), wide], [ONE, ONE], beam_size=2, end=0)
