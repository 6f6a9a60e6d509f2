"""The label of the most likely path, against plain Python."""

import numpy as np
import oracle
import pytest

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


def label(frames, blank):
    """The tokens, their frames and the score of a list of frames."""
    tokens, times, before = [], [], None
    for t, row in enumerate(frames):
        token = int(np.argmax(row))
        if token not in (blank, before):
            tokens.append(token)
            times.append(t)
        before = token
    return tokens, times, float(sum(np.max(row) for row in frames))


def frames_of(seed, lengths, width, dtype):
    x = np.random.default_rng(seed).integers(-6, 0, (sum(lengths), width)).astype(dtype) / 2
    x[x == -3] = -np.inf
    x[:, -1] = np.maximum(x[:, -1], -2)
    return sf.Ragged(x, lengths)


@every_encoding
@pytest.mark.parametrize("code", ["f2", "f4", "f8"])
@pytest.mark.parametrize("width", [2, 3, 5])
def test_against_plain_python(arrays, kind, code, width):
    lengths = [4, 0, 9, 1]
    for blank in (0, width - 1):
        x = frames_of(width, lengths, width, code)
        tokens, times, scores = arrays.on(lambda y, blank=blank: parts(sf.ctc_greedy(y, blank=blank)))(
            sf.convert(x, kind)
        )
        wanted = [label(part, blank) for part in sf.convert(x, sf.List).items]
        assert sf.convert(tokens, sf.Ragged).to_nested() == [one[0] for one in wanted]
        assert sf.convert(times, sf.Ragged).to_nested() == [one[1] for one in wanted]
        assert scores.dtype == np.float32
        assert np.allclose(scores, [one[2] for one in wanted])


def parts(found):
    return [found.tokens, found.times, found.scores]


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
