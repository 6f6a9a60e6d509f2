"""The best path that has a given label, against plain Python and against all paths."""

import numpy as np
import oracle
import pytest
import strategies
from ctc_oracle import all_labels, best_alignment, best_of_all_alignments, label_of
from hypothesis import given
from hypothesis import strategies as st
from test_ctc_greedy import BAD, FLOATS, laid_out
from test_ctc_search import frames_in, logs_of

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
PARTS = ["tokens", "frame_scores", "times", "ends", "token_scores"]


@st.composite
def batches(draw, dtypes, most=9, widths=(2, 3, 4, 7, 33, 130), bad=True):
    """Frames with equal values and impossible tokens, sometimes with NaN, and labels that fit, or just do not."""
    lengths = [min(length, most) for length in draw(strategies.lengths(4))]
    width = draw(st.sampled_from(widths))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    data = logs_of(rng, sum(lengths), width, draw(st.sampled_from([0.3, 2.0, 6.0])))
    if draw(st.booleans()):
        data = np.round(data)  # so that many paths are worth the same
    data[rng.random(data.shape) < draw(st.sampled_from([0.0, 0.0, 0.1, 0.5]))] = -np.inf
    if bad and data.size and draw(st.integers(0, 6)) == 0:
        data.reshape(-1)[draw(st.integers(0, data.size - 1))] = draw(st.sampled_from(BAD))
    blank = draw(st.sampled_from(sorted({0, width // 2, width - 1})))
    tokens = [c for c in range(width) if c != blank][: draw(st.sampled_from([1, 2, 200]))]
    share = draw(st.sampled_from([0.3, 0.7, 1.1]))
    labels = [rng.choice(tokens, rng.integers(0, int(share * length) + 2)).tolist() for length in lengths]
    return sf.Ragged(data.astype(draw(st.sampled_from(dtypes))), lengths), labels, blank


def parts(found):
    return [getattr(found, name) for name in PARTS] + [found.scores]


def by_source(found):
    lists = [flat(x).to_nested() for x in found[:5]]
    return list(zip(*lists, np.asarray(found[5]).tolist(), strict=True))


def flat(x):
    return sf.convert(sf.flatten_levels(x, outermost=True) if isinstance(x, sf.LoD) else x, sf.Ragged)


def assert_same(found, wanted, exact):
    for one, two in zip(found, wanted, strict=True):
        assert [one[0], *one[2:4]] == [two[0], *two[2:4]]
        for a, b in ((one[1], two[1]), (one[4], two[4]), (one[5], two[5])):
            if exact:
                assert np.array_equal(np.float32(a), np.float32(b))
            else:
                assert np.allclose(a, b, rtol=1e-5, atol=1e-5)


@every_encoding
@given(data=st.data())
def test_against_plain_python(arrays, kind, data):
    x, labels, blank = data.draw(batches(arrays.of(FLOATS)))
    logits = data.draw(st.booleans())
    y = laid_out(data.draw, x, kind)
    align = arrays.on(lambda y: parts(sf.ctc_align(y, labels, blank=blank, normalised=not logits)))
    items = frames_in(x)
    bad = [(i, t) for i, rows in enumerate(items) for t, row in enumerate(rows) if not all(v < np.inf for v in row)]
    if bad:
        with pytest.raises(ValueError, match="frame {1} of source {0} holds NaN or".format(*bad[0])):
            align(y)
        return
    found = align(y)
    for part, dtype in zip(found, ("i8", "f4", "i8", "i8", "f4", "f4"), strict=True):
        assert (part if part is found[5] else part.data).dtype == dtype
    for part in found[:5]:
        assert type(part) is (sf.LoD if kind is sf.LoD else sf.Ragged)
        if kind is sf.LoD:
            assert [level.tolist() for level in part.lod[:-1]] == [level.tolist() for level in y.lod[:-1]]
    wanted = [best_alignment(rows, label, blank, logits) for rows, label in zip(items, labels, strict=True)]
    if logits and x.data.dtype.itemsize < 8:
        assert_same_worth(by_source(found), wanted)
    else:
        assert_same(by_source(found), wanted, exact=x.data.dtype.itemsize < 8 and not logits)


def assert_same_worth(found, wanted):
    """Where sums are rounded the logarithms still leave the path what it is, since each frame has one."""
    assert_same(found, wanted, exact=False)


@given(data=st.data())
def test_against_all_paths(data):
    x, labels, blank = data.draw(batches([np.dtype("f8")], most=5, widths=(2, 3, 4), bad=False))
    x.data[:] = np.where(x.data > -np.inf, np.round(x.data * 64) / 64, x.data)  # sums are exact in any order
    labels = [label[:3] for label in labels]
    wanted = [best_of_all_alignments(rows, label, blank) for rows, label in zip(frames_in(x), labels, strict=True)]
    found = by_source(parts(sf.ctc_align(x, labels, blank=blank)))
    assert_same(found, wanted, exact=True)
    assert wanted == [best_alignment(r, label, blank) for r, label in zip(frames_in(x), labels, strict=True)]


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_every_label_of_some_frames(seed, blank):
    """A path has its label, its score is the best one of all paths, and the scores of its parts are the score."""
    x = logs_of(np.random.default_rng(seed), 5, 3, 2.0)
    _, best = all_labels(x.tolist(), blank)
    found = sf.ctc_align(sf.Ragged(np.tile(x, (len(best), 1)), [5] * len(best)), list(map(list, best)), blank=blank)
    for label, tokens, times in zip(best, found.tokens.to_nested(), found.times.to_nested(), strict=True):
        assert label_of(tokens, blank) == (label, tuple(times))
    assert np.allclose(found.scores, list(best.values()))
    assert np.allclose(sf.reduce_sum(found.frame_scores), found.scores)
    spoken = np.where(found.tokens.data != blank, found.frame_scores.data, 0)
    assert np.allclose(sf.reduce_sum(found.token_scores), sf.reduce_sum(sf.Ragged(spoken, found.tokens.lengths)))


def test_the_best_path_is_the_best_path_of_its_label():
    x = sf.Ragged(logs_of(np.random.default_rng(3), 60, 9, 3.0), [20, 0, 40])
    best = sf.ctc_greedy(x)
    found = sf.ctc_align(x, best.tokens)
    assert found.times.to_nested() == best.times.to_nested()
    assert np.allclose(found.scores, best.scores)


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.passes("compiled", reason="kernels that are interpreted run in one thread")
@every_encoding
def test_in_threads(kind):
    rng = np.random.default_rng(5)
    lengths = [4, 0, 9, 1, 7, 7, 30, 2] * 3
    x = sf.Ragged(np.round(logs_of(rng, sum(lengths), 40, 2.0)).astype("f4"), lengths)
    labels = [rng.integers(1, 4, length // 2).tolist() for length in lengths]
    wanted = [best_alignment(rows, label, 0) for rows, label in zip(frames_in(x), labels, strict=True)]
    assert_same(by_source(parts(sf.ctc_align(sf.convert(x, kind), labels))), wanted, exact=True)


@pytest.mark.parametrize("counts", [[0, 0], [0, 3], [7, 1], [1, 64], [40, 3]])
def test_many_targets_and_few(counts):
    """More and fewer than threads of a block share, and some for which there are too few frames."""
    rng = np.random.default_rng(sum(counts))
    lengths = [70, 5]
    x = sf.Ragged(np.round(logs_of(rng, 75, 5, 2.0), 1), lengths)
    for labels in ([rng.integers(1, 5, c).tolist() for c in counts], [[1] * c for c in counts]):
        wanted = [best_alignment(rows, label, 0) for rows, label in zip(frames_in(x), labels, strict=True)]
        assert_same(by_source(parts(sf.ctc_align(x, labels))), wanted, exact=False)


@pytest.mark.parametrize("kind", [sf.Padded, sf.Masked, sf.Packed, sf.List, sf.Ragged])
def test_targets_in_every_encoding(kind):
    x = sf.Ragged(logs_of(np.random.default_rng(0), 9, 4, 1.0), [4, 5])
    wanted = sf.ctc_align(x, [[1, 3], [2]])
    targets = sf.convert(sf.Ragged(np.array([1, 3, 2], "i4"), [2, 1]), kind)
    assert by_source(parts(sf.ctc_align(x, targets))) == by_source(parts(wanted))


def test_levels():
    x = sf.Ragged(logs_of(np.random.default_rng(0), 9, 4, 1.0), [4, 0, 5])
    targets = sf.Ragged(np.array([1, 3, 2]), [2, 0, 1])
    found, alone = sf.ctc_align(sf.nest(x, [1, 2]), sf.nest(targets, [1, 2])), sf.ctc_align(x, targets)
    assert found.times.to_nested() == [alone.times.to_nested()[:1], alone.times.to_nested()[1:]]
    assert found.tokens.to_nested() == [alone.tokens.to_nested()[:1], alone.tokens.to_nested()[1:]]


def test_what_cannot_be():
    """Too few frames, one more between equal tokens, tokens that are not possible."""
    x = np.log(np.full((2, 3), 1 / 3))
    never = np.array([[0.0, 0.0, -np.inf]] * 2)
    found = sf.ctc_align([x, x, x, never, x[:0], x[:0]], [[1, 2, 1], [1, 1], [1, 2], [2], [1], []], blank=0)
    assert found.scores[[2, 5]].tolist() == [np.float32(2 * np.log(1 / 3)), 0]
    assert found.scores[[0, 1, 3, 4]].tolist() == [-np.inf] * 4
    assert found.tokens.to_nested() == [[0, 0], [0, 0], [1, 2], [0, 0], [], []]
    assert found.times.to_nested() == [[-1] * 3, [-1] * 2, [0, 1], [-1], [-1], []]
    assert found.ends.to_nested() == [[-1] * 3, [-1] * 2, [1, 2], [-1], [-1], []]
    assert found.token_scores.data[:5].tolist() == [-np.inf] * 5
    assert found.frame_scores.data[:4].tolist() == [-np.inf] * 4


def test_no_sources():
    found = sf.ctc_align(sf.Ragged(np.zeros((0, 3)), []), [])
    assert [x.to_nested() for x in parts(found)[:5]] == [[]] * 5
    assert found.scores.shape == (0,)


WRONG = {
    "too large": ([[1], [2, 3]], sf.StructureError, "target 1 of source 1 is 3, but there are the tokens 0 to 2"),
    "blank": ([[1, 0], [2]], sf.StructureError, "target 1 of source 0 is 0, which is the blank"),
    "negative": ([[1], [-1]], sf.StructureError, "targets must not be negative"),
    "too few": ([[1]], sf.StructureError, "targets for 1 sequences, but 2 sequences of frames"),
    "floats": ([[1.5], [1]], TypeError, "targets"),
    "a number": (3, TypeError, "targets must be sequences of tokens, not int"),
    "text": ("ab", TypeError, "targets must be sequences of tokens, not str"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_are_no_targets(wrong):
    targets, error, words = WRONG[wrong]
    with pytest.raises(error, match=words):
        sf.ctc_align(sf.Ragged(np.zeros((5, 3)), [2, 3]), targets)


def test_what_does_not_fit():
    x = sf.Ragged(np.zeros((5, 3)), [2, 3])
    with pytest.raises(sf.StructureError, match="blank is 3"):
        sf.ctc_align(x, [[1], [1]], blank=3)
    with pytest.raises(TypeError, match="normalised must be True or False"):
        sf.ctc_align(x, [[1], [1]], normalised=1)
    with pytest.raises(TypeError, match="must be floats"):
        sf.ctc_align(sf.Ragged(np.zeros((3, 2), int), [3]), [[1]])
