"""The translation example: it ends, it says what it found, and `sf.beam_search` finds the same."""

import re
import runpy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import seqformats as sf

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "translate.py"))
END, START, UNKNOWN = (EXAMPLE[name] for name in ("END", "START", "UNKNOWN"))
SOURCE_WORDS, TARGET_WORDS = EXAMPLE["SOURCE_WORDS"], EXAMPLE["TARGET_WORDS"]
SENTENCES = [[10, 2, 7], [0], [], [11, 6, 0, 9, 4], [2, 2]]


def sentences(of=SENTENCES):
    return sf.Ragged(np.array([word for sentence in of for word in sentence], np.int64), [len(s) for s in of])


def translate(model, of=SENTENCES, beam_size=3, max_length=6):
    return EXAMPLE["generate"](model, EXAMPLE["encode"](model, sentences(of)), beam_size, max_length)


@pytest.fixture(scope="module")
def model():
    return EXAMPLE["random_model"]()


def slow_scores(model, sentence, words):
    """The score of one translation up to each of its words, without a batch and without beams."""
    encoder_ctx = np.zeros((1, EXAMPLE["ENCODER_DIM"]), np.float32)
    for word in sentence:
        given = model.source_embedding[[word]] @ model.encoder_input
        encoder_ctx = EXAMPLE["gru_step"](given, encoder_ctx, model.encoder_recurrent)
    mem = np.tanh(encoder_ctx @ model.encoder_ctx_proj)
    scores = [0.0]
    for before, word in pairwise(words):
        logits, mem = EXAMPLE["decoder_step"](model, np.array([before]), mem, encoder_ctx)
        scores.append(scores[-1] + EXAMPLE["log_softmax"](logits)[0, word])
    return scores


def test_scores_are_those_of_the_translations(model):
    ids, scores = translate(model)
    assert len(ids) == len(SENTENCES)
    for sentence, hypotheses, found in zip(SENTENCES, ids.to_nested(), scores.to_nested(), strict=True):
        assert 1 <= len(hypotheses) <= 3
        for words, score in zip(hypotheses, found, strict=True):
            np.testing.assert_allclose(score, slow_scores(model, sentence, words), rtol=1e-4, atol=1e-4)
        assert [score[-1] for score in found] == sorted((score[-1] for score in found), reverse=True)


def test_translations_begin_end_and_know_no_unknown(model):
    ids, _ = translate(model, max_length=6)
    hypotheses = [words for source in ids.to_nested() for words in source]
    assert len({tuple(words) for words in ids.to_nested()[0]}) == len(ids.to_nested()[0])
    for words in hypotheses:
        assert words[0] == START
        assert END not in words[:-1]
        assert UNKNOWN not in words
        assert words[-1] == END or len(words) == 1 + 6


def test_a_beam_of_one_takes_the_best_word(model):
    ids, _ = translate(model, beam_size=1)
    for sentence, ((first, *words),) in zip(SENTENCES, ids.to_nested(), strict=True):
        prefix = [first]
        for word in words:
            scores = {w: slow_scores(model, sentence, [*prefix, w])[-1] for w in range(len(TARGET_WORDS))}
            del scores[UNKNOWN]
            assert max(scores, key=scores.get) == word
            prefix.append(word)


def test_no_sentences_and_no_steps(model):
    ids, scores = translate(model, [])
    assert ids.to_nested() == scores.to_nested() == []
    ids, scores = translate(model, max_length=0)
    assert ids.to_nested() == [[[START]]] * len(SENTENCES)
    assert scores.to_nested() == [[[0.0]]] * len(SENTENCES)


def test_it_stops_when_all_have_ended(model, monkeypatch):
    steps = []
    real = sf.beam_step
    monkeypatch.setattr(sf, "beam_step", lambda *args, **options: steps.append(1) or real(*args, **options))
    ids, _ = translate(model, [[0, 1, 2, 3]], beam_size=4, max_length=1000)
    hypotheses = ids.to_nested()[0]
    assert [words[-1] for words in hypotheses] == [END] * 4
    # one step for each word after the first, and one that selects nothing
    assert len(steps) == max(len(words) for words in hypotheses)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
@pytest.mark.parametrize("max_length", [1, 5, 12])
def test_beam_search_finds_the_same(model, beam_size, max_length):
    encoder_ctx = EXAMPLE["encode"](model, sentences())

    def step(state):
        return EXAMPLE["decoder_step"](model, state.tokens, state.memory, state.shared[state.source])

    result = sf.beam_search(
        step,
        np.tanh(encoder_ctx @ model.encoder_ctx_proj),
        shared=encoder_ctx,
        start=START,
        end=END,
        beam_size=beam_size,
        n_best=beam_size,
        max_new_tokens=max_length,
        rule="paddle",
        constraints=[sf.BannedTokens([UNKNOWN])],
    )
    ids, scores = EXAMPLE["generate"](model, encoder_ctx, beam_size, max_length)
    assert result.tokens.to_nested() == [[words[1:] for words in source] for source in ids.to_nested()]
    last = [score[-1] for source in scores.to_nested() for score in source]
    np.testing.assert_allclose(result.scores, last, rtol=1e-5)


def test_it_prints_them(capsys):
    EXAMPLE["main"]()
    out, err = capsys.readouterr()
    assert err == ""
    groups = re.split(r"^(?=\S)", out, flags=re.MULTILINE)[1:]
    assert [group.splitlines()[0] for group in groups] == [text or "(no words)" for text in EXAMPLE["SENTENCES"]]
    for group in groups:
        lines = group.splitlines()[1:]
        assert 1 <= len(lines) <= EXAMPLE["BEAM_SIZE"]
        scores = [float(line.split()[0]) for line in lines]
        assert scores == sorted(scores, reverse=True)
        assert {word for line in lines for word in line.split()[1:]} <= {*TARGET_WORDS, "..."}
