"""The label of the most likely path, against plain Python."""

import copy
import pickle

import numpy as np
import oracle
import pytest
import strategies
from ctc_oracle import best_path
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
FLOATS = [np.dtype(code) for code in ("f2", "f4", "f8", ">f4", ">f8")] + [strategies.BFLOAT16]
WIDTHS = [2, 3, 5, 15, 16, 17, 33, 127, 128, 129, 260]  # the largest of a frame is found by 16 and by 128
VALUES = [-np.inf, -np.inf, -9.0, -2.5, -1.25, -0.5, -0.25, -0.0, 0.0]
BAD = [np.nan, np.inf]


def frames_of(seed, lengths, width, dtype):
    x = np.random.default_rng(seed).integers(-6, 0, (sum(lengths), width)).astype(dtype) / 2
    x[x == -3] = -np.inf
    x[:, -1] = np.maximum(x[:, -1], -2)
    return sf.Ragged(x, lengths)


@st.composite
def batches(draw, dtypes):
    """Frames with many equal values, more or less often with their blank on top, and sometimes NaN or +inf."""
    lengths = draw(strategies.lengths(5))
    width = draw(st.sampled_from(WIDTHS))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    few = draw(st.integers(1, len(VALUES)))
    data = rng.choice(VALUES[:few] if draw(st.booleans()) else VALUES[-few:], (sum(lengths), width))
    blank = draw(st.sampled_from(sorted({0, 1, width // 2, width - 1})))
    data[rng.random(len(data)) < draw(st.sampled_from([0.0, 0.5, 1.0])), blank] = 1e-5
    again = rng.random(len(data)) < draw(st.sampled_from([0.0, 0.6]))
    for t in np.flatnonzero(again[1:]) + 1:  # repeats
        data[t] = data[t - 1]
    if data.size and draw(st.integers(0, 4)) == 0:
        data.reshape(-1)[draw(st.integers(0, data.size - 1))] = draw(st.sampled_from(BAD))
    return sf.Ragged(data.astype(draw(st.sampled_from(dtypes))), lengths), blank


def laid_out(draw, x, kind):
    """The same in an encoding; what is padding cannot be read without being seen."""
    if kind is sf.LoD:
        first = draw(st.integers(0, len(x)))
        return sf.nest(x, [first, len(x) - first])
    if kind not in oracle.PADDED:
        return sf.convert(x, kind)
    options = {"side": draw(st.sampled_from(["left", "right"]))} if kind is sf.Masked else {}
    width = int(x.lengths.max(initial=0)) + draw(st.integers(0, 2))
    return sf.convert(x, kind, width=width, fill=np.nan, **options)


def parts(found):
    return [found.tokens, found.times, found.scores]


@every_encoding
@given(data=st.data())
def test_against_plain_python(arrays, kind, data):
    x, blank = data.draw(batches(arrays.of(FLOATS)))
    logits = data.draw(st.booleans())
    y = laid_out(data.draw, x, kind)
    items = [item.astype(np.float64).tolist() for item in sf.convert(x, sf.List).items]
    wanted = [best_path(frames, blank, logits) for frames in items]
    find = arrays.on(lambda y: parts(sf.ctc_greedy(y, blank=blank, normalised=not logits)))
    bad = [(source, t) for source, t in enumerate(wanted) if isinstance(t, int)]
    if bad:
        with pytest.raises(ValueError, match="frame {1} of source {0} holds NaN or".format(*bad[0])):
            find(y)
        return
    tokens, times, scores = find(y)
    for found, k in ((tokens, 0), (times, 1)):
        assert type(found) is (sf.LoD if kind is sf.LoD else sf.Ragged)
        assert found.data.dtype == np.int64
        inner = sf.flatten_levels(found, outermost=True) if kind is sf.LoD else found
        assert sf.convert(inner, sf.Ragged).to_nested() == [one[k] for one in wanted]
    if kind is sf.LoD:
        assert [level.tolist() for level in tokens.lod[:-1]] == [level.tolist() for level in y.lod[:-1]]
    assert scores.dtype == np.float32
    assert scores.shape == (len(wanted),)
    sums = np.array([one[2] for one in wanted])
    if logits:
        assert np.allclose(scores, sums, rtol=1e-6, atol=1e-6 * (1 + max(x.lengths, default=0)))
    else:  # sums of the same numbers in the same order
        assert scores.tolist() == sums.astype(np.float32).tolist()


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.passes("compiled", reason="kernels that are interpreted run in one thread")
@every_encoding
def test_in_threads(kind):
    lengths = [4, 0, 9, 1, 7, 7, 30, 2] * 3
    x = frames_of(5, lengths, 40, "f4")
    wanted = [best_path(frames.tolist(), 2) for frames in sf.convert(x, sf.List).items]
    found = sf.ctc_greedy(sf.convert(x, kind), blank=2)
    assert sf.convert(found.tokens, sf.Ragged).to_nested() == [one[0] for one in wanted]
    assert sf.convert(found.times, sf.Ragged).to_nested() == [one[1] for one in wanted]
    assert found.scores.tolist() == [one[2] for one in wanted]


class Own(np.ndarray):
    pass


@pytest.mark.parametrize("what", ["subclass", "read-only", "strided", "Fortran"])
def test_forms_of_memory(what):
    x = frames_of(5, [4, 0, 9], 6, "f4").data
    wanted = sf.ctc_greedy(sf.Ragged(x, [4, 0, 9]))
    data = {
        "subclass": x.view(Own),
        "read-only": strategies.read_only(x),
        "strided": strategies.strided(x),
        "Fortran": strategies.fortran(x),
    }[what]
    before = data.copy()
    found = sf.ctc_greedy(sf.Ragged(data, [4, 0, 9]))
    assert (data == before).all(), "what was given is left as it is"
    assert type(found.scores) is np.ndarray
    assert found.tokens.to_nested() == wanted.tokens.to_nested()
    assert found.scores.tolist() == wanted.scores.tolist()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deep", "pickle"]
)
def test_copies(copied):
    one = sf.ctc_greedy(frames_of(5, [4, 0, 9], 6, "f4"))
    two = copied(one)
    assert type(two) is sf.CTCResult
    assert sf.equal(one.tokens, two.tokens)
    assert sf.equal(one.times, two.times)
    assert one.scores.tolist() == two.scores.tolist()


def test_levels():
    x = frames_of(0, [4, 0, 9, 1], 3, "f4")
    flat, nested = sf.ctc_greedy(x), sf.ctc_greedy(sf.nest(x, [3, 1]))
    assert nested.tokens.to_nested() == [flat.tokens.to_nested()[:3], flat.tokens.to_nested()[3:]]
    assert nested.times.to_nested() == [flat.times.to_nested()[:3], flat.times.to_nested()[3:]]


def test_frames_that_cannot_be():
    """Where no token is possible the smallest is taken, and the score says it."""
    found = sf.ctc_greedy([np.full((2, 3), -np.inf, "f4"), np.zeros((1, 3), "f4")], blank=2, normalised=False)
    assert found.tokens.to_nested() == [[0], [0]]
    assert found.scores.tolist() == [-np.inf, np.float32(-np.log(3))]


def test_logits():
    x = np.random.default_rng(1).normal(0, 3, (7, 4))
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    one, two = sf.ctc_greedy(sf.Ragged(x, [3, 4]), normalised=False), sf.ctc_greedy(sf.Ragged(logs, [3, 4]))
    assert np.allclose(one.scores, two.scores)
    assert one.tokens.to_nested() == two.tokens.to_nested()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_log_probability(value):
    for column in range(3):
        x = frames_of(3, [2, 5], 3, "f4")
        x.data[4, column] = value
        with pytest.raises(ValueError, match="frame 2 of source 1 holds NaN"):
            sf.ctc_greedy(x)


def test_what_does_not_fit():
    x = frames_of(3, [2, 5], 3, "f4")
    for blank in (3, -1, 2**70):
        with pytest.raises(sf.StructureError, match=f"blank is {blank}, but there are the tokens 0 to 2"):
            sf.ctc_greedy(x, blank=blank)
    with pytest.raises(TypeError, match="blank must be an integer"):
        sf.ctc_greedy(x, blank=True)
    with pytest.raises(TypeError, match="normalised must be True or False"):
        sf.ctc_greedy(x, normalised=1)
    with pytest.raises(sf.StructureError, match="one axis"):
        sf.ctc_greedy(sf.Ragged(np.zeros(3), [3]))
    with pytest.raises(sf.StructureError, match="two tokens or more"):
        sf.ctc_greedy(sf.Ragged(np.zeros((3, 1)), [3]))
    with pytest.raises(TypeError, match="must be floats"):
        sf.ctc_greedy(sf.Ragged(np.zeros((3, 2), int), [3]))


@pytest.mark.parametrize("largest", [0.001, 0.9, 7.0])
def test_what_is_no_log_probability_is_refused(arrays, largest):
    """Logits and probabilities, in any frame and place: the message names the frame and what to give."""
    data = np.full((5, 200), -6.0, "f4")
    data[3, 150] = largest
    x = sf.Ragged(data, [2, 0, 3])
    for call in (
        sf.ctc_greedy,
        lambda y: sf.ctc_align(y, [[1], [], [1]]),
        lambda y: sf.ctc_beam_search(y, beam_size=2),
    ):
        with pytest.raises(ValueError, match=r"frame 1 of source 2 holds .*normalised=False.*\[SF602\]"):
            arrays.on(call)(x)
    with pytest.raises(ValueError, match=r"\[SF601\]"):
        sf.ctc_greedy(sf.Ragged(np.where(data == largest, np.nan, data), [2, 0, 3]))
    assert sf.ctc_greedy(x, normalised=False).tokens.to_nested()[2]


@pytest.mark.parametrize(("dtype", "rounding"), [("f2", 0.015), ("f4", 9e-5), ("f8", 9e-5)])
def test_a_rounding_above_zero_is_a_log_probability(dtype, rounding):
    data = np.full((3, 4), -6.0, dtype)
    data[1, 2] = rounding
    for factor, fits in ((1, True), (1.5, False)):
        x = sf.Ragged((data * np.array(factor, dtype)), [3])
        for call in (sf.ctc_greedy, lambda y: sf.ctc_align(y, [[2]]), lambda y: sf.ctc_beam_search(y, beam_size=2)):
            if fits:
                call(x)
            else:
                with pytest.raises(ValueError, match="normalised=False"):
                    call(x)
