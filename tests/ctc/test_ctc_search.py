"""Prefix beam search, against plain Python and against all paths."""

import math

import numpy as np
import oracle
import pytest
import strategies
from ctc_oracle import all_labels, prefix_search
from hypothesis import given
from hypothesis import strategies as st
from test_ctc_greedy import BAD, FLOATS, laid_out

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
WIDE = 10_000


def logs_of(rng, frames, width, peak):
    x = rng.standard_normal((frames, width)) * peak
    return x - np.log(np.exp(x).sum(1, keepdims=True))


@st.composite
def batches(draw, dtypes, most=9, widths=(2, 3, 4, 7, 12, 33)):
    """Frames that are peaked or flat, with equal values, impossible tokens, and sometimes NaN or +inf."""
    lengths = [min(length, most) for length in draw(strategies.lengths(4))]
    width = draw(st.sampled_from(widths))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    data = logs_of(rng, sum(lengths), width, draw(st.sampled_from([0.3, 2.0, 6.0])))
    if draw(st.booleans()):
        data = np.round(data)  # so that many prefixes are worth the same
    data[rng.random(data.shape) < draw(st.sampled_from([0.0, 0.0, 0.3, 0.9]))] = -np.inf
    if data.size and draw(st.integers(0, 6)) == 0:
        data.reshape(-1)[draw(st.integers(0, data.size - 1))] = draw(st.sampled_from(BAD))
    blank = draw(st.sampled_from(sorted({0, width // 2, width - 1})))
    return sf.Ragged(data.astype(draw(st.sampled_from(dtypes))), lengths), blank


def frames_in(x):
    return [item.astype(np.float64).tolist() for item in sf.convert(x, sf.List).items]


def by_source(found):
    """Of every source its hypotheses: tokens, times, score and log-probability."""
    tokens, times = (flat(part).to_nested() for part in (found.tokens, found.times))
    scores, paths = iter(np.asarray(found.scores).tolist()), iter(np.asarray(found.path_scores).tolist())
    return [
        [(a, b, next(scores), next(paths)) for a, b in zip(one, two, strict=True)]
        for one, two in zip(tokens, times, strict=True)
    ]


def flat(x):
    """Over sources alone."""
    while len(x.lod) > 2:
        x = sf.flatten_levels(x, outermost=True)
    return x


def assert_same(found, wanted, exact=True):
    assert len(found) == len(wanted)
    for one, two in zip(found, wanted, strict=True):
        assert [end[:2] for end in one] == [end[:2] for end in two]
        for a, b in zip(one, two, strict=True):
            if exact:
                assert a[2:] == tuple(np.float32(b[2:]).tolist())
            else:
                assert np.allclose(a[2:], b[2:], rtol=1e-6, atol=1e-5)


@st.composite
def pruning(draw):
    found = {"token_beam": draw(st.sampled_from([None, None, 1, 2, 5]))}
    found["token_threshold"] = draw(st.sampled_from([None, None, -3.0, -1.0]))
    found["threshold"] = draw(st.sampled_from([None, None, 0.0, 1.0, 4.0]))
    found["token_bonus"] = draw(st.sampled_from([0.0, 0.0, 0.5, -0.5]))
    return {name: value for name, value in found.items() if value is not None}


@every_encoding
@given(data=st.data())
def test_against_plain_python(arrays, kind, data):
    x, blank = data.draw(batches(arrays.of(FLOATS)))
    options = data.draw(pruning())
    beam = data.draw(st.sampled_from([1, 2, 3, 5, 20, 40]))
    n_best = data.draw(st.integers(1, min(beam, 4)))
    y = laid_out(data.draw, x, kind)
    wanted = [prefix_search(frames, blank, beam, n_best, **options) for frames in frames_in(x)]

    def find(y):
        found = sf.ctc_beam_search(y, blank=blank, beam_size=beam, n_best=n_best, **options)
        return [found.tokens, found.times, found.scores, found.path_scores]

    bad = [(source, t) for source, t in enumerate(wanted) if isinstance(t, int)]
    if bad:
        with pytest.raises(ValueError, match="frame {1} of source {0} holds NaN or".format(*bad[0])):
            arrays.on(find)(y)
        return
    tokens, times, scores, path_scores = arrays.on(find)(y)
    found = sf.CTCResult(tokens, scores, times, path_scores)
    for part in (found.tokens, found.times):
        assert type(part) is sf.LoD
        assert part.data.dtype == np.int64
    if kind is sf.LoD:
        assert [level.tolist() for level in found.tokens.lod[:-2]] == [level.tolist() for level in y.lod[:-1]]
    assert found.scores.dtype == found.path_scores.dtype == np.float32
    assert_same(by_source(found), wanted)


@given(data=st.data())
def test_against_all_paths(data):
    """A beam that holds every prefix finds every label, with the sum of its paths and the times of the best one."""
    x, blank = data.draw(batches(FLOATS[1:3], most=4, widths=(2, 3, 4)))
    x = sf.Ragged(np.where(np.isfinite(x.data), x.data, -np.inf), x.lengths)
    found = by_source(sf.ctc_beam_search(x, blank=blank, beam_size=WIDE, n_best=WIDE))
    for frames, ends in zip(frames_in(x), found, strict=True):
        totals, best = all_labels(frames, blank)
        assert {tuple(end[0]) for end in ends} == totals.keys()
        assert [end[2] for end in ends] == sorted((end[2] for end in ends), reverse=True)
        for label, times, score, path_score in ends:
            assert math.isclose(score, totals[tuple(label)], rel_tol=1e-6, abs_tol=1e-6)
            assert score == path_score
            assert path_of(frames, blank, label, times) >= best[tuple(label)] - 1e-9


def path_of(frames, blank, label, times):
    """The log-probability of the best path of a label whose tokens begin in these frames."""
    at = {(-1, blank): 0.0}  # how many tokens have begun, and whether the path is at the last one or at a blank
    for t, row in enumerate(frames):
        begins = times.index(t) if t in times else None
        new = {}
        for (count, token), value in at.items():
            if begins is not None:
                if count == begins - 1 and token != label[begins]:
                    new[begins, label[begins]] = max(
                        new.get((begins, label[begins]), -math.inf), value + row[label[begins]]
                    )
                continue
            for c in {token, blank}:
                new[count, c] = max(new.get((count, c), -math.inf), value + row[c])
        at = new
    return max(at.values(), default=-math.inf)


def test_probabilities_add_up_to_one():
    x = sf.Ragged(logs_of(np.random.default_rng(0), 11, 3, 1.0), [6, 0, 5])
    found = by_source(sf.ctc_beam_search(x, beam_size=WIDE, n_best=WIDE))
    assert np.allclose([sum(math.exp(end[2]) for end in ends) for ends in found], 1, atol=1e-6)


@given(data=st.data())
def test_logits(data):
    x, blank = data.draw(batches(FLOATS[1:3]))
    x = sf.Ragged(np.where(np.isfinite(x.data), np.round(x.data), -np.inf).astype(x.data.dtype), x.lengths)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = x.data - np.logaddexp.reduce(x.data.astype("f8"), axis=1, keepdims=True)
    logs = sf.Ragged(np.where(np.isnan(logs), -np.inf, logs), x.lengths)
    one = by_source(sf.ctc_beam_search(x, blank=blank, beam_size=4, n_best=2, normalised=False))
    two = by_source(sf.ctc_beam_search(logs, blank=blank, beam_size=4, n_best=2))
    for a, b in zip(one, two, strict=True):  # labels that are worth the same may come in another order
        assert np.allclose([end[2] for end in a], [end[2] for end in b], rtol=1e-5, atol=1e-5)


@every_encoding
def test_sources_alone_and_together(kind):
    lengths = [40, 0, 9, 1, 77, 7, 30]
    rng = np.random.default_rng(3)
    x = sf.Ragged(logs_of(rng, sum(lengths), 30, 3.0).astype("f4"), lengths)
    options = {"blank": 2, "beam_size": 20, "n_best": 3}
    together = by_source(sf.ctc_beam_search(sf.convert(x, kind), **options))
    alone = [by_source(sf.ctc_beam_search(x[i : i + 1], **options))[0] for i in range(len(x))]
    assert together == alone
    assert_same(together, [prefix_search(frames, 2, 20, 3) for frames in frames_in(x)])


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.passes("compiled", reason="kernels that are interpreted run in one thread")
@every_encoding
def test_in_threads(kind):
    lengths = [40, 0, 9, 1, 77, 7, 30, 2] * 3
    x = sf.Ragged(logs_of(np.random.default_rng(4), sum(lengths), 12, 2.0), lengths)
    found = sf.ctc_beam_search(sf.convert(x, kind), beam_size=50, n_best=2)
    assert_same(by_source(found), [prefix_search(frames, 0, 50, 2) for frames in frames_in(x)])
