"""The search with a model of words or tokens, against plain Python and against all paths."""

import math

import numpy as np
import oracle
import pytest
from ctc_oracle import all_labels, prefix_search
from hypothesis import given
from hypothesis import strategies as st
from lm_oracle import Tokens, Words, random_model
from test_ctc_greedy import FLOATS, laid_out
from test_ctc_search import WIDE, assert_same, batches, by_source, frames_in, logs_of, pruning

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
ALPHABETS = (["", " ", "a", "b"], ["", "|", "a", "b", "ab"], ["▁a", "", "b", "▁", "▁ba"], ["", "a", "b"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def read(model, folder):
    path = folder / "drawn.arpa"
    path.write_text(model.arpa(), encoding="utf-8")
    return sf.NGrams.read(path)


@st.composite
def models(draw, folder, names):
    """A model of words or tokens, and the same in plain Python."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    order, bonus = draw(st.integers(1, 4)), draw(st.sampled_from([0.0, 0.5]))
    alpha, beta = draw(st.sampled_from([0.0, 0.5, 1.3, -0.2])), draw(st.sampled_from([0.0, 1.5, -1.0]))
    boundary, holes = draw(st.booleans()), draw(st.sampled_from([0.0, 1.0]))
    if draw(st.booleans()):
        model = random_model(rng, sorted({*names} - {"", " "})[1:], order, holes, unknown=draw(st.booleans()))
        plain = Tokens(model, names, alpha, beta, boundary, bonus)
        return sf.ctc.TokenModel(read(model, folder), names, alpha=alpha, beta=beta, boundary=boundary), plain, bonus
    model = random_model(rng, ["a", "ab", "ba", "bab", "aabbaab"], order, holes, unknown=draw(st.booleans()))
    unknown, weight = draw(st.sampled_from([-10.0, -1.0, 0.0, 2.0])), draw(st.sampled_from([10.0, 2.0, -1.0]))
    hot = draw(st.sampled_from([(), ("ab",), ("bb", "bbab"), ("aabb", "ba")]))
    lm = sf.ctc.WordModel(
        read(model, folder),
        names,
        alpha=alpha,
        beta=beta,
        unknown=unknown,
        boundary=boundary,
        hot_words=hot,
        hot_weight=weight,
    )
    return lm, Words(model, names, alpha, beta, unknown, boundary, hot, weight, bonus), bonus


def searched(arrays, x, **options):
    """The hypotheses of every source, on an array library."""

    def find(x):
        found = sf.ctc_beam_search(x, **options)
        return [found.tokens, found.scores, found.times, found.path_scores]

    return by_source(sf.CTCResult(*arrays.on(find)(x)))


@every_encoding
@given(data=st.data())
def test_against_plain_python(arrays, folder, kind, data):
    names = data.draw(st.sampled_from(ALPHABETS))
    x, _ = data.draw(batches(arrays.of(FLOATS[1:3]), widths=(len(names),)))
    x = sf.Ragged(np.where(np.isfinite(x.data), x.data, -np.inf), x.lengths)
    blank = names.index("")
    lm, plain, bonus = data.draw(models(folder, names))
    options = {**data.draw(pruning()), "token_bonus": bonus}
    beam = data.draw(st.sampled_from([1, 2, 5, *([] if arrays.simulated else [30])]))
    n_best = min(beam, 4)
    y = laid_out(data.draw, x, kind)
    found = searched(arrays, y, blank=blank, beam_size=beam, n_best=n_best, lm=lm, **options)
    wanted = [prefix_search(frames, blank, beam, n_best, model=plain, **options) for frames in frames_in(x)]
    assert_same(found, wanted, exact=False)


@given(data=st.data())
def test_against_all_paths(folder, data):
    """A beam that holds every prefix finds every label, with all its paths and all that the model says of it."""
    names = data.draw(st.sampled_from(ALPHABETS))
    x, _ = data.draw(batches(FLOATS[1:3], most=4, widths=(len(names),)))
    x = sf.Ragged(np.where(np.isfinite(x.data), x.data, -np.inf), x.lengths)
    blank = names.index("")
    lm, plain, bonus = data.draw(models(folder, names))
    exact = data.draw(st.booleans())
    found = sf.ctc_beam_search(x, blank=blank, beam_size=WIDE, n_best=WIDE, lm=lm, token_bonus=bonus, exact=exact)
    for frames, ends in zip(frames_in(x), by_source(found), strict=True):
        totals, _ = all_labels(frames, blank)
        assert {tuple(end[0]) for end in ends} == totals.keys()
        assert [end[2] for end in ends] == sorted((end[2] for end in ends), reverse=True)
        for label, _, score, path_score in ends:
            kept, _, end = plain(tuple(label))
            assert math.isclose(path_score, totals[tuple(label)], rel_tol=1e-6, abs_tol=1e-6)
            assert math.isclose(score, totals[tuple(label)] + kept + end, rel_tol=1e-5, abs_tol=1e-5)


@every_encoding
@given(data=st.data())
def test_exact(arrays, kind, data):
    """A narrow beam scores what is left by all paths, in the order of these scores."""
    x, blank = data.draw(batches(arrays.of(FLOATS[1:3]), most=6, widths=(2, 3, 4)))
    x = sf.Ragged(np.where(np.isfinite(x.data), x.data, -np.inf), x.lengths)
    beam, logits = data.draw(st.integers(1, 6)), data.draw(st.booleans())
    options = {"blank": blank, "beam_size": beam, "token_bonus": 0.5}
    given_frames = sf.Ragged(x.data + 1.5, x.lengths) if logits else x
    y = laid_out(data.draw, given_frames, kind)
    left = by_source(sf.ctc_beam_search(y, n_best=beam, normalised=not logits, **options))
    n_best = data.draw(st.integers(1, beam))
    found = searched(arrays, y, n_best=n_best, exact=True, normalised=not logits, **options)
    for frames, before, ends in zip(frames_in(given_frames), left, found, strict=True):
        logs = [math.log(sum(map(math.exp, row)) or 1.0) if logits else 0.0 for row in frames]
        totals = {label: value - sum(logs) for label, value in all_labels(frames, blank)[0].items()}
        wanted = sorted((totals[tuple(end[0])] + 0.5 * len(end[0]) for end in before), reverse=True)[:n_best]
        assert np.allclose([end[2] for end in ends], wanted, rtol=1e-5, atol=1e-4)
        assert np.allclose([end[3] for end in ends], [totals[tuple(end[0])] for end in ends], rtol=1e-5, atol=1e-4)
        assert {(tuple(end[0]), tuple(end[1])) for end in ends} <= {(tuple(end[0]), tuple(end[1])) for end in before}


def test_with_a_lexicon_and_a_hook(folder):
    names = ["", " ", "a", "b"]
    model = random_model(np.random.default_rng(3), ["a", "ab", "ba"], 3)
    lm, plain = sf.ctc.WordModel(read(model, folder), names), Words(model, names, 0.5, 1.5, -10.0, True)
    x = sf.Ragged(logs_of(np.random.default_rng(4), 20, 4, 1.0), [12, 8])
    words = [[2], [2, 3], [1], [3, 2]]
    free = sf.ctc_beam_search(x, beam_size=WIDE, n_best=5, lm=lm, lexicon=words)
    hooked = sf.ctc_beam_search(
        x, beam_size=WIDE, n_best=5, lm=lm, lexicon=words, on_new=lambda state: np.zeros((len(state.tokens), 4))
    )
    assert by_source(free) == by_source(hooked)
    for _, ends in zip(frames_in(x), by_source(free), strict=True):
        for label, _, score, path_score in ends:
            kept, _, end = plain(tuple(label))
            assert math.isclose(score, path_score + kept + end, rel_tol=1e-5)


def test_after_words_that_were_said(folder):
    """A chunk that goes on has what the whole has: its words are scored behind those before."""
    model = random_model(np.random.default_rng(5), ["a", "ab", "ba"], 3)
    names = ["", " ", "a", "b"]
    lm = sf.ctc.WordModel(read(model, folder), names, boundary=True)
    x = sf.Ragged(logs_of(np.random.default_rng(6), 6, 4, 1.0), [6])
    found = by_source(sf.ctc_beam_search(x, beam_size=WIDE, n_best=50, lm=lm.after("ab zzz").after(["a"])))[0]
    plain = Words(model, names, 0.5, 1.5, -10.0, True)
    plain.start = ("<s>", "ab", "zzz", "a")
    for label, _, score, path_score in found:
        kept, _, end = plain(tuple(label))
        assert math.isclose(score, path_score + kept + end, rel_tol=1e-5)


def test_threads_and_neighbours(folder):
    model = random_model(np.random.default_rng(7), ["a", "ab", "ba"], 3)
    lm = sf.ctc.WordModel(read(model, folder), ["", " ", "a", "b"], hot_words=["bb"])
    lengths = [40, 0, 9, 1, 77, 7, 30]
    x = sf.Ragged(logs_of(np.random.default_rng(8), sum(lengths), 4, 2.0).astype("f4"), lengths)
    options = {"beam_size": 20, "n_best": 3, "lm": lm, "exact": True}
    together = by_source(sf.ctc_beam_search(x, **options))
    assert together == [by_source(sf.ctc_beam_search(x[i : i + 1], **options))[0] for i in range(len(x))]


def test_what_does_not_fit(folder):
    model = read(random_model(np.random.default_rng(9), ["a"], 2), folder)
    x = sf.Ragged(np.zeros((3, 3)), [3])
    lm = sf.ctc.WordModel(model, ["", " ", "a", "b"])
    with pytest.raises(sf.StructureError, match="lm has 4 labels, but log_probs are of 3 tokens"):
        sf.ctc_beam_search(x, beam_size=2, lm=lm)
    with pytest.raises(TypeError, match="lm must be a ctc.WordModel or a ctc.TokenModel, not 'a'"):
        sf.ctc_beam_search(x, beam_size=2, lm="a")
    with pytest.raises(TypeError, match="exact must be True or False"):
        sf.ctc_beam_search(x, beam_size=2, exact=1)
    for kind in (sf.ctc.WordModel, sf.ctc.TokenModel):
        with pytest.raises(TypeError, match="model must be an NGrams, not 'x'; NGrams.read reads one"):
            kind("x", ["a"])
        with pytest.raises(TypeError, match="labels must be a sequence of str, not 'ab'"):
            kind(model, "ab")
        with pytest.raises(TypeError, match="labels must be str, but 3 is among them"):
            kind(model, ["a", 3])
        with pytest.raises(sf.ConversionError, match="alpha must be finite, not nan"):
            kind(model, ["a"], alpha=math.nan)
        with pytest.raises(TypeError, match="boundary must be True or False"):
            kind(model, ["a"], boundary=1)
        with pytest.raises(TypeError, match="words must be a str or a sequence of words, not 3"):
            kind(model, ["a"]).after(3)
    with pytest.raises(TypeError, match="hot_words must be a sequence of str"):
        sf.ctc.WordModel(model, ["a"], hot_words="a")
