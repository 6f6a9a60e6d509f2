"""Prompts: what stands before the first new token, and is seen by what looks at the tokens so far."""

from itertools import pairwise

import beam_tables as tables
import numpy as np
import pytest
from beam_oracle import RULES, log_softmax

import seqformats as sf

WORDS = 6
PROMPTS = [[2, 3, 2], [4], [3, 5, 5, 2, 3], [2, 2]]
ENDS = [0, 1]
TABLE = 2 * np.random.default_rng(3).standard_normal((len(PROMPTS), 6, WORDS, WORDS)).astype(np.float32)
OPTIONS = {"end": ENDS, "beam_size": 4, "max_new_tokens": 6, "n_best": 3}


def flat():
    return np.array([token for prompt in PROMPTS for token in prompt])


def ragged():
    return sf.Ragged(flat(), [len(prompt) for prompt in PROMPTS])


def step(state):
    return TABLE[state.source, state.t, state.tokens], None


def penalty(context, row):
    for token in set(context):
        row[token] = row[token] / np.float32(1.7) if row[token] > 0 else row[token] * np.float32(1.7)


def no_bigram(context, row):
    for one, other in pairwise(context):
        if one == context[-1]:
            row[other] = -np.inf


def no_token(context, row):
    row[list(set(context))] = -np.inf


def no_phrase(context, row):
    for phrase in ([2, 3], [5, 2, 3, 4], [3, 2, 4]):
        if context[-len(phrase) + 1 :] == phrase[:-1]:
            row[phrase[-1]] = -np.inf


LIMITS = {
    "a penalty": (sf.RepetitionPenalty(1.7), penalty),
    "no bigram": (sf.NoRepeatNgram(2), no_bigram),
    "no token": (sf.NoRepeatNgram(1), no_token),
    "phrases": (sf.BannedTokens([[2, 3], [5, 2, 3, 4], [3, 2, 4]]), no_phrase),
}


def slow(limit, rule, before=PROMPTS):
    """The same search, whose scores are changed row by row; `before` is what the limit sees before the tokens."""

    def limited(scores, state):
        scores = scores.copy()
        prefixes = state.prefixes.data.reshape(len(scores), state.t).tolist()
        for source, tokens, row in zip(state.source.tolist(), prefixes, scores, strict=True):
            limit([*before[source], *tokens], row)
        return scores

    start = np.array([prompt[-1] for prompt in PROMPTS])
    if rule == "ct2":  # which limits the scores before they become log-probabilities
        return sf.beam_search(
            lambda state: (limited(step(state)[0], state), None), None, start=start, rule=rule, **OPTIONS
        )
    return sf.beam_search(step, None, start=start, on_scores=limited, rule=rule, **OPTIONS)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", LIMITS)
def test_what_looks_at_tokens_sees_the_prompt(name, rule):
    limit, plainly = LIMITS[name]
    found = sf.beam_search(step, None, prompt=PROMPTS, constraints=limit, rule=rule, **OPTIONS)
    wanted = slow(plainly, rule)
    assert found.tokens.to_nested() == wanted.tokens.to_nested()
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5, atol=1e-5)
    without = slow(plainly, rule, [[]] * len(PROMPTS))
    assert found.tokens.to_nested() != without.tokens.to_nested() or found.scores.tolist() != without.scores.tolist()


FORMS = {
    "lists": PROMPTS,
    "lists of arrays": [np.array(prompt) for prompt in PROMPTS],
    "List": sf.List([np.array(prompt, "i4") for prompt in PROMPTS]),
    "LoD": sf.LoD(flat(), [np.cumsum([0, *map(len, PROMPTS)])]),
    **{kind.__name__: sf.convert(ragged(), kind) for kind in (sf.Ragged, sf.Padded, sf.Masked, sf.Packed)},
    "Masked on the left": sf.convert(ragged(), sf.Masked, side="left"),
}


@pytest.mark.parametrize("form", FORMS)
def test_prompts_may_be_any_encoding(form):
    constraints = [sf.NoRepeatNgram(2), sf.RepetitionPenalty(1.3)]
    wanted = sf.beam_search(step, None, prompt=ragged(), constraints=constraints, **OPTIONS)
    decoder = sf.BeamDecoder(None, prompt=FORMS[form], constraints=constraints, **OPTIONS)
    assert sf.equal(decoder.state.prompt, ragged())
    assert decoder.state.tokens.tolist() == [prompt[-1] for prompt in PROMPTS]
    while decoder.active:
        decoder.step(step(decoder.state)[0])
        assert len(decoder.state.prompt) == len(PROMPTS)
    assert decoder.result().tokens.to_nested() == wanted.tokens.to_nested()


def test_a_prompt_of_one_token_is_a_start():
    start = np.array([2, 3, 4, 5])
    one = sf.beam_search(step, None, start=start, **OPTIONS)
    for more in ({}, {"start": start}):
        other = sf.beam_search(step, None, prompt=start[:, None].tolist(), **more, **OPTIONS)
        assert other.tokens.to_nested() == one.tokens.to_nested()
    assert sf.BeamDecoder(None, start=start, **OPTIONS).state.prompt is None


def test_neighbours_change_nothing():
    """Not even longer prompts, beside which these are filled up."""
    together = sf.beam_search(step, None, prompt=PROMPTS, constraints=sf.NoRepeatNgram(2), **OPTIONS)
    for i, prompt in enumerate(PROMPTS):
        alone = sf.beam_search(
            lambda state, i=i: (TABLE[i, state.t, state.tokens], None), None, prompt=[prompt],
            constraints=sf.NoRepeatNgram(2), **OPTIONS,
        )  # fmt: skip
        assert alone.tokens.to_nested()[0] == together.tokens.to_nested()[i]


def test_no_source():
    found = sf.beam_search(lambda state: 1 / 0, None, prompt=sf.Ragged(np.zeros(0, int), []), **OPTIONS)
    assert found.tokens.to_nested() == []


WRONG = {
    "neither": ({}, TypeError, "start is missing: give the token before the first one, or a prompt"),
    "an empty one": ({"prompt": [[2], [], [3]]}, sf.StructureError, "prompt 1 has no token"),
    "another start": ({"prompt": [[2], [3]], "start": [2, 4]}, sf.StructureError, "start is the last token of each"),
    "floats": ({"prompt": sf.Ragged(np.ones(3), [1, 2])}, TypeError, "prompts"),
    "negative": ({"prompt": [[2, -1]]}, Exception, "prompts"),
    "a number": ({"prompt": 3}, TypeError, "prompts"),
    "other sources": (
        {"prompt": [[2], [3]], "shared": np.zeros((3, 1))},
        sf.StructureError,
        "2 prompts, but the memories are for 3 sources",
    ),
}


@pytest.mark.parametrize(("given", "error", "words"), WRONG.values(), ids=list(WRONG))
def test_what_is_refused(given, error, words):
    with pytest.raises(error, match=words):
        sf.BeamDecoder(None, **given, **OPTIONS)


# --- the libraries themselves ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hf():
    for library in ("torch", "transformers"):
        pytest.importorskip(library)
    import hf_models

    return hf_models


GENERATE = {
    "a penalty": ({"repetition_penalty": 1.6}, sf.RepetitionPenalty(1.6)),
    "no bigram": ({"no_repeat_ngram_size": 2}, sf.NoRepeatNgram(2)),
    "phrases": (
        {"bad_words_ids": [[7, 8], [9], [5, 6, 23]]},
        sf.BannedTokens([[7, 8], [9], [5, 6, 23]]),
    ),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", GENERATE)
def test_generate_shows_its_processors_the_prompt(hf, name):
    """Those of one length, since it also shows them the padding of others."""
    options, limit = GENERATE[name]
    model = hf.made("gpt2")
    prompts = [[5, 6, 9, 7, 5, 6], [7, 9, 30, 7, 9, 7], [31, 32, 33, 31, 32, 31], [12, 5, 12, 5, 12, 5]]
    theirs, out = hf.generated(
        model, hf.padded(prompts, left=True), num_beams=4, num_return_sequences=2, max_new_tokens=8, **options
    )
    given = {"end": hf.END, "beam_size": 4, "n_best": 2, "max_new_tokens": 8, "constraints": limit}
    step = sf.hf.decoder_step(model)
    hf.assert_alike(sf.beam_search(step, None, prompt=prompts, **given), theirs, out.sequences_scores)
    free = sf.beam_search(step, None, prompt=prompts, **(given | {"constraints": []}))
    assert [tokens for source in free.tokens.to_nested() for tokens in source] != theirs


@pytest.mark.peers
def test_ragged_prompts_are_what_generate_finds_one_by_one(hf):
    model, prompts = hf.made("llama"), hf.prompts([5, 2, 7, 1])
    options = {"num_beams": 3, "max_new_tokens": 7, "repetition_penalty": 1.4, "no_repeat_ngram_size": 2}
    found = sf.beam_search(
        sf.hf.decoder_step(model), None, prompt=prompts, end=hf.END, beam_size=3, max_new_tokens=7,
        constraints=[sf.RepetitionPenalty(1.4), sf.NoRepeatNgram(2)],
    )  # fmt: skip
    alone = [hf.generated(model, hf.padded([prompt], left=True), **options) for prompt in prompts]
    scores = np.concatenate([out.sequences_scores for _, out in alone])
    hf.assert_alike(found, [tokens for theirs, _ in alone for tokens in theirs], scores)


@pytest.mark.peers
def test_prompts_in_tables(hf):
    """Many random cases of `generate`, whose prompts have up to three tokens."""
    import beam_peers

    compared = 0
    for seed in range(200_000, 200_060):
        case = tables.draw("hf", seed)
        if case.holes or case.beam_size * 2 + 2 > case.vocabulary:
            continue
        wanted = beam_peers.hf_table(case, repetition_penalty=1.5, no_repeat_ngram_size=3)
        found = tables.search(
            case, constraints=[sf.RepetitionPenalty(1.5), sf.NoRepeatNgram(3)], prompt=[list(p) for p in case.prompts]
        )
        for mine, theirs in zip(tables.hypotheses(found), wanted, strict=True):
            assert [tokens for tokens, _ in mine] == [tokens for tokens, *_ in theirs], case
            np.testing.assert_allclose([score for _, score in mine], [score for _, score, _ in theirs], 1e-5, 1e-5)
        compared += 1
    assert compared > 15


def test_the_slow_limits_are_right():
    row = log_softmax(np.zeros(WORDS))
    no_phrase([5, 2, 3], row)
    assert np.isneginf(row).tolist() == [False] * 4 + [True, False]
