"""Prefix beam search, against plain Python and against all paths."""

import functools
import itertools
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
from seqformats.ctc import lexicon
from seqformats.ctc.frames import frames_of

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


@given(data=st.data())
def test_logits(data):
    """In a beam that holds every prefix, since rounding tells prefixes apart that are worth the same."""
    x, blank = data.draw(batches(FLOATS[1:3], most=4, widths=(2, 3, 4)))
    x = sf.Ragged(np.where(np.isfinite(x.data), 3 * x.data, -np.inf).astype(x.data.dtype), x.lengths)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = x.data - np.logaddexp.reduce(x.data.astype("f8"), axis=1, keepdims=True)
    logs = sf.Ragged(np.where(np.isnan(logs), -np.inf, logs), x.lengths)
    one = by_source(sf.ctc_beam_search(x, blank=blank, beam_size=WIDE, n_best=WIDE, normalised=False))
    two = by_source(sf.ctc_beam_search(logs, blank=blank, beam_size=WIDE, n_best=WIDE))
    for a, b in zip(one, two, strict=True):
        first, second = ({tuple(end[0]): end[2] for end in ends} for ends in (a, b))
        assert first.keys() == second.keys()
        assert np.allclose([first[label] for label in second], list(second.values()), rtol=1e-5, atol=1e-5)


@functools.cache
def logs_and_hypotheses(lengths, classes, peak, dtype, blank, beam_size, n_best):
    """Frames of sources, and what plain Python finds in them."""
    x = sf.Ragged(logs_of(np.random.default_rng(3), sum(lengths), classes, peak).astype(dtype), lengths)
    return x, [prefix_search(frames, blank, beam_size, n_best) for frames in frames_in(x)]


@every_encoding
def test_sources_alone_and_together(kind):
    options = {"blank": 2, "beam_size": 20, "n_best": 3}
    x, wanted = logs_and_hypotheses((40, 0, 9, 1, 77, 7, 30), 30, 3.0, "f4", **options)
    together = by_source(sf.ctc_beam_search(sf.convert(x, kind), **options))
    alone = [by_source(sf.ctc_beam_search(x[i : i + 1], **options))[0] for i in range(len(x))]
    assert together == alone
    assert_same(together, wanted)


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.passes("compiled", reason="kernels that are interpreted run in one thread")
@every_encoding
def test_in_threads(kind):
    options = {"blank": 0, "beam_size": 50, "n_best": 2}
    x, wanted = logs_and_hypotheses((40, 0, 9, 1, 77, 7, 30, 2) * 3, 12, 2.0, "f8", **options)
    assert_same(by_source(sf.ctc_beam_search(sf.convert(x, kind), **options)), wanted)


# ------------------------------------------------------------------------------------------------------- lexicons


def is_followed_by(words, label, token):
    """May a label of these words go on with a token?"""
    rests = rests_of(words, label)
    return any(word[: len(rest) + 1] == (*rest, token) for word in words for rest in rests)


def is_whole(words, label):
    """Can a label be read as words?"""
    return () in rests_of(words, label)


def rests_of(words, label):
    """What may be left of a label behind whole words, by all ways to read it."""
    ends = {0}
    for place in range(len(label)):
        ends |= {place + len(word) for word in words if place in ends and word and label[place:][: len(word)] == word}
    return {label[end:] for end in ends}


@st.composite
def lexicons(draw, width, blank):
    """Words, some of which are how others begin, or several others one after the other."""
    tokens = st.sampled_from([c for c in range(width) if c != blank])
    return draw(st.lists(st.lists(tokens, max_size=4).map(tuple), max_size=6))


@given(data=st.data())
def test_lexicon_against_plain_python(data):
    x, blank = data.draw(batches(FLOATS[1:3], widths=(2, 3, 5)))
    x = sf.Ragged(np.where(np.isfinite(x.data), x.data, -np.inf), x.lengths)
    words = data.draw(lexicons(x.item_shape[0], blank))
    options = data.draw(pruning())
    beam = data.draw(st.sampled_from([1, 3, 40]))
    given_words = (
        sf.Trie([list(word) for word in words]) if data.draw(st.booleans()) else [list(word) for word in words]
    )
    found = sf.ctc_beam_search(x, blank=blank, beam_size=beam, n_best=beam, lexicon=given_words, **options)
    wanted = [
        prefix_search(
            frames,
            blank,
            beam,
            beam,
            allowed=lambda label, token: is_followed_by(words, label, token),
            whole=lambda label: is_whole(words, label),
            **options,
        )
        for frames in frames_in(x)
    ]
    assert_same(by_source(found), wanted)


@pytest.mark.parametrize(
    "words",
    [
        [(1, 3), (2, 3), (2, 2, 3), (1, 1, 3)],
        [(1,), (1, 2), (1, 2, 2), (2, 3)],
        [(1,), (1, 1), (2, 1), (2, 1, 3)],
        [(1, 2), (1, 2, 3, 1), (3,), (1, 2)],
    ],
)
def test_lexicon_against_all_paths(words):
    """A wide beam finds the labels that can be read as words, each once, and with the sum of its paths."""
    x = sf.Ragged(logs_of(np.random.default_rng(5), 6, 4, 1.0), [6])
    found = by_source(sf.ctc_beam_search(x, beam_size=WIDE, n_best=WIDE, lexicon=[list(word) for word in words]))[0]
    totals, _ = all_labels(frames_in(x)[0], 0)
    wanted = {label: total for label, total in totals.items() if is_whole(words, label)}
    assert len(wanted) > 5
    assert sorted(tuple(end[0]) for end in found) == sorted(wanted)
    assert np.allclose([end[2] for end in found], [wanted[tuple(end[0])] for end in found])


def test_words_that_cannot_be_spelled_in_time():
    """Three equal tokens need five frames; where no whole word is found there is no hypothesis but the empty label."""
    x = np.zeros((4, 3))
    found = sf.ctc_beam_search(sf.Ragged(x, [4]), beam_size=50, n_best=50, lexicon=[[1, 1, 1]])
    assert found.tokens.to_nested() == [[[]]]
    x[:, 0] = -np.inf
    found = sf.ctc_beam_search(sf.Ragged(x, [1, 3]), beam_size=50, n_best=50, lexicon=[[1, 1]])
    assert found.tokens.to_nested() == [[], []]
    assert found.scores.shape == (0,)


# --------------------------------------------------------------------------------------------------------- hooks


def bigrams(rng, width):
    """What each token adds behind another one, or at the beginning."""
    return np.round(rng.normal(0, 2, (width + 1, width)), 1)


def place_of(label, width):
    """Of a whole label, in such a table."""
    place = width
    for c in label:
        place = (3 * place + c + 1) % (width + 1)
    return place


@every_encoding
@given(data=st.data())
def test_hook_against_plain_python(kind, data):
    x, blank = data.draw(batches(FLOATS[1:3], widths=(2, 3, 5)))
    x = sf.Ragged(np.where(np.isfinite(x.data), x.data, -np.inf), x.lengths)
    width = x.item_shape[0]
    table = bigrams(np.random.default_rng(data.draw(st.integers(0, 99))), width)
    if data.draw(st.booleans()):
        table[data.draw(st.integers(0, width))] = -np.inf
    y = laid_out(data.draw, x, kind)
    options = data.draw(pruning())
    beam = data.draw(st.sampled_from([1, 2, 5, 30]))
    n_best = data.draw(st.integers(1, min(beam, 4)))
    shown = []

    def hook(state):
        prefixes = state.prefixes.to_nested()
        for tokens, token, source, parent in zip(prefixes, state.tokens, state.source, state.parents, strict=True):
            assert token == (tokens[-1] if tokens else blank)
            assert parent == -1 if not tokens else shown[parent] == (source, tokens[:-1])
            assert len(tokens) <= state.t <= x.lengths[source]
        shown.extend(zip(state.source.tolist(), prefixes, strict=True))
        return np.stack([table[place_of(tokens, width)] for tokens in prefixes])

    found = sf.ctc_beam_search(
        y, blank=blank, beam_size=beam, n_best=n_best, on_new=hook if len(x) else None, **options
    )
    wanted = [
        prefix_search(frames, blank, beam, n_best, gains=lambda label: table[place_of(label, width)], **options)
        for frames in frames_in(x)
    ]
    assert_same(by_source(found), wanted)


def test_hook_and_lexicon():
    x = sf.Ragged(logs_of(np.random.default_rng(7), 24, 5, 1.5), [12, 5, 7])
    words = [(1, 4), (2, 4), (3, 2, 4)]
    table = bigrams(np.random.default_rng(8), 5)
    found = sf.ctc_beam_search(
        x,
        beam_size=7,
        n_best=3,
        lexicon=[list(word) for word in words],
        token_bonus=0.25,
        on_new=lambda state: table[np.where(state.tokens == 0, 5, state.tokens)],
    )
    wanted = [
        prefix_search(
            frames,
            0,
            7,
            3,
            token_bonus=0.25,
            allowed=lambda label, token: is_followed_by(words, label, token),
            whole=lambda label: is_whole(words, label),
            gains=lambda label: table[label[-1] if label else 5],
        )
        for frames in frames_in(x)
    ]
    assert_same(by_source(found), wanted)
    assert (found.path_scores != found.scores).all()


def test_a_hook_that_adds_nothing():
    x = sf.Ragged(logs_of(np.random.default_rng(9), 60, 9, 2.0).astype("f4"), [30, 0, 25, 5])
    one = sf.ctc_beam_search(x, beam_size=6, n_best=4)
    two = sf.ctc_beam_search(x, beam_size=6, n_best=4, on_new=lambda state: np.zeros((len(state.tokens), 9), "f4"))
    assert by_source(one) == by_source(two)


def test_what_a_hook_must_return():
    x = sf.Ragged(np.zeros((3, 3)), [2, 1])
    calls = []

    def bad(returned, first=True):
        def hook(state):
            calls.append(state.t)
            return np.zeros((len(state.tokens), 3)) if state.t == 0 and not first else returned

        return hook

    with pytest.raises(TypeError, match="on_new must be a function, not int"):
        sf.ctc_beam_search(x, beam_size=2, on_new=3)
    with pytest.raises(TypeError, match="must return an array, not NoneType"):
        sf.ctc_beam_search(x, beam_size=2, on_new=bad(None))
    with pytest.raises(TypeError, match="real numbers, not complex"):
        sf.ctc_beam_search(x, beam_size=2, on_new=bad(np.zeros((2, 3), complex)))
    with pytest.raises(sf.StructureError, match=r"each of 2 rows and 3 tokens, but returned shape \(3, 3\)"):
        sf.ctc_beam_search(x, beam_size=2, on_new=bad(np.zeros((3, 3))))
    for value in BAD:
        with pytest.raises(ValueError, match="holds NaN or \\+inf, at t = 1"):
            sf.ctc_beam_search(x, beam_size=2, on_new=bad(np.full((2, 3), value), first=False))
    assert calls == [0, 0, 0, 0, 1, 0, 1]


def test_state_says_what_it_is():
    seen = []

    def hook(state):
        seen.append(repr(state))
        return np.zeros((len(state.tokens), 2))

    sf.ctc_beam_search(sf.Ragged(np.zeros((1, 2)), [1]), beam_size=2, on_new=hook)
    assert seen == ["CTCState(1 rows at t = 0)", "CTCState(1 rows at t = 1)"]


# ---------------------------------------------------------------------------------------------------- odd input


def test_frames_that_cannot_be():
    found = sf.ctc_beam_search([np.full((2, 3), -np.inf, "f4"), np.zeros((1, 3), "f4")], beam_size=5, n_best=5)
    assert found.tokens.to_nested() == [[], [[], [1], [2]]]


def test_no_sources_and_no_frames():
    found = sf.ctc_beam_search(sf.Ragged(np.zeros((0, 3)), []), beam_size=3)
    assert found.tokens.to_nested() == []
    assert found.scores.shape == found.path_scores.shape == (0,)
    found = sf.ctc_beam_search(sf.Ragged(np.zeros((0, 3)), [0, 0]), beam_size=3, n_best=2)
    assert found.tokens.to_nested() == found.times.to_nested() == [[[]], [[]]]
    assert found.scores.tolist() == [0, 0]


@pytest.mark.parametrize("what", ["read-only", "strided", "Fortran"])
def test_forms_of_memory(what):
    x = logs_of(np.random.default_rng(11), 13, 6, 1.0)
    wanted = by_source(sf.ctc_beam_search(sf.Ragged(x, [4, 0, 9]), beam_size=4, n_best=2))
    change = {"read-only": strategies.read_only, "strided": strategies.strided, "Fortran": strategies.fortran}[what]
    data = change(x)
    assert by_source(sf.ctc_beam_search(sf.Ragged(data, [4, 0, 9]), beam_size=4, n_best=2)) == wanted
    assert (data == x).all(), "what was given is left as it is"


def test_what_does_not_fit():
    x = sf.Ragged(np.zeros((7, 3)), [2, 5])
    for blank in (3, -1, 2**70):
        with pytest.raises(sf.StructureError, match=f"blank is {blank}, but there are the tokens 0 to 2"):
            sf.ctc_beam_search(x, beam_size=2, blank=blank)
    with pytest.raises(sf.ConversionError, match="n_best is 3, but the beams have 2 places"):
        sf.ctc_beam_search(x, beam_size=2, n_best=3)
    for name in ("beam_size", "n_best", "token_beam"):
        with pytest.raises(sf.ConversionError, match=f"{name} must be at least 1, not 0"):
            sf.ctc_beam_search(x, **{"beam_size": 2, name: 0})
        with pytest.raises(TypeError, match=f"{name} must be an integer"):
            sf.ctc_beam_search(x, **{"beam_size": 2, name: 1.5})
    for name in ("token_threshold", "threshold", "token_bonus"):
        with pytest.raises(TypeError, match=f"{name} must be a number"):
            sf.ctc_beam_search(x, **{"beam_size": 2, name: "1"})
        with pytest.raises(sf.ConversionError, match=f"{name} must be finite, not nan"):
            sf.ctc_beam_search(x, **{"beam_size": 2, name: math.nan})
    with pytest.raises(sf.ConversionError, match="threshold must be at least 0, not -1"):
        sf.ctc_beam_search(x, beam_size=2, threshold=-1)
    with pytest.raises(TypeError, match="token_bonus must be a number"):
        sf.ctc_beam_search(x, beam_size=2, token_bonus=None)
    with pytest.raises(TypeError, match="normalised must be True or False"):
        sf.ctc_beam_search(x, beam_size=2, normalised=1)
    with pytest.raises(sf.StructureError, match="one axis"):
        sf.ctc_beam_search(sf.Ragged(np.zeros(3), [3]), beam_size=2)
    with pytest.raises(TypeError, match="must be floats"):
        sf.ctc_beam_search(sf.Ragged(np.zeros((3, 2), int), [3]), beam_size=2)
    with pytest.raises(sf.OutOfMemory):
        sf.ctc_beam_search(sf.Ragged(np.zeros((70, 3)), [70]), beam_size=2**60)


def test_lexicons_that_cannot_be():
    x = sf.Ragged(np.zeros((7, 3)), [2, 5])
    with pytest.raises(sf.StructureError, match="lexicon has the token 3, but there are the tokens 0 to 2"):
        sf.ctc_beam_search(x, beam_size=2, lexicon=sf.Trie([[1, 3]]))
    with pytest.raises(sf.StructureError, match="a word with the blank, 0, which"):
        sf.ctc_beam_search(x, beam_size=2, lexicon=sf.Trie([[1, 0]]))
    with pytest.raises(TypeError, match="must be sequences of tokens"):
        sf.ctc_beam_search(x, beam_size=2, lexicon=3)


def test_lexicons_with_too_many_ways(monkeypatch):
    """Which of the last tokens were 1 is what such a label would have to remember."""
    monkeypatch.setattr("seqformats.ctc.lexicon.MOST_STATES", 100)
    words = [[1], [2], *([1, *tail] for tail in itertools.product([1, 2], repeat=9))]
    x = sf.Ragged(np.zeros((7, 3)), [2, 5])
    with pytest.raises(sf.StructureError, match="in more than 100 ways; let each end with a token that is nowhere"):
        sf.ctc_beam_search(x, beam_size=2, lexicon=words)
    found = sf.ctc_beam_search(x, beam_size=2, lexicon=[[1], [2]])
    assert found.tokens.to_nested() == sf.ctc_beam_search(x, beam_size=2).tokens.to_nested()


def test_a_tree_is_made_into_states_once():
    trie = sf.Trie([[1], [1, 2]])
    x = sf.Ragged(np.zeros((7, 3)), [2, 5])
    made = [sf.ctc_beam_search(x, beam_size=9, n_best=9, lexicon=trie).tokens.to_nested() for _ in range(2)]
    assert made[0] == made[1]
    assert lexicon._known[trie] is lexicon.guide_of(trie, frames_of(x, 0))
