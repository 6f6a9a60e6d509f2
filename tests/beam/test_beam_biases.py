"""Limits on ends, and what makes tokens more or less likely: the same as plain ones, and as the engines have it."""

import dataclasses
import itertools
import math

import beam_tables as tables
import numpy as np
import pytest
from beam_oracle import RULES, Options, decode, lists

import seqformats as sf

WORDS = 6
ENDS = [[0], [0, 5], []]  # of three sources
TABLE = 2 * np.random.default_rng(5).standard_normal((3, 6, WORDS, WORDS)).astype(np.float32)
TABLE[..., [0, 5]] += 1
OPTIONS = {
    "start": np.array([1, 2, 3]),
    "end": sf.Ragged(np.array([0, 0, 5]), [1, 2, 0]),
    "beam_size": 4,
    "max_new_tokens": np.array([6, 5, 4]),
    "n_best": 3,
}
NONE = -np.inf
every_rule = pytest.mark.parametrize("rule", RULES)


def step(state):
    return TABLE[state.source, state.t, state.tokens], None


def slow(limit, rule, **options):
    """The same search, whose scores ``limit(source, tokens, row)`` changes row by row."""

    def limited(scores, state):
        scores = scores.copy()
        for source, tokens, row in zip(state.source.tolist(), lists(state.prefixes), scores, strict=True):
            limit(source, tokens, row)
        return scores

    options = {**OPTIONS, **options}
    if rule == "ct2":  # which limits the scores before they become log-probabilities
        return sf.beam_search(lambda state: (limited(step(state)[0], state), None), None, rule=rule, **options)
    return sf.beam_search(step, None, on_scores=limited, rule=rule, **options)


def bias(biases):
    def limit(source, tokens, row):
        for phrase, value in biases:
            if tokens[len(tokens) - len(phrase) + 1 :] == phrase[:-1] and len(tokens) >= len(phrase) - 1:
                row[phrase[-1]] += np.float32(value)

    return limit


def repeat_less(penalty):
    def limit(source, tokens, row):
        for token in set(tokens):
            row[token] = row[token] / np.float32(penalty) if row[token] > 0 else row[token] * np.float32(penalty)

    return limit


def likelier_ends(start, factor):
    def limit(source, tokens, row):
        p = len(tokens) - start
        if p > 0:
            for end in ENDS[source]:
                if row[end] > NONE:
                    row[end] += abs(row[end]) * (factor**p - 1)

    return limit


def force_end(free):
    def limit(source, tokens, row):
        if len(tokens) == OPTIONS["max_new_tokens"][source] - 1 and ENDS[source]:
            kept = np.isin(np.arange(WORDS), ENDS[source])
            row[~kept] = NONE
            if free:
                row[kept] = 0

    return limit


def free_at(at):
    def limit(source, tokens, row):
        token = at(source).get(len(tokens))
        if token is not None:
            row[np.arange(WORDS) != token] = NONE
            row[token] = 0

    return limit


def ban_until(until, phrases):
    def limit(source, tokens, row):
        if len(tokens) < until:
            bias([(phrase, NONE) for phrase in phrases])(source, tokens, row)

    return limit


LIMITS = {
    "a bias": (sf.SequenceBias({2: -1.5}), bias([([2], -1.5)])),
    "biases": (
        sf.SequenceBias({4: 2, (2, 3): 3.0, (4, 4): -2.0, (1, 2, 3): NONE, (5,): NONE}),
        bias([([4], 2), ([2, 3], 3), ([4, 4], -2), ([1, 2, 3], NONE), ([5], NONE)]),
    ),
    "of an end": (sf.SequenceBias({0: np.float32(1.25), (2, 0): -4}), bias([([0], 1.25), ([2, 0], -4)])),
    "none": (sf.SequenceBias({}), bias([])),
    "likelier ends": (sf.ExponentialDecayLengthPenalty(1, 1.3), likelier_ends(1, 1.3)),
    "ends at once": (sf.ExponentialDecayLengthPenalty(0, 50.0), likelier_ends(0, 50.0)),
    "less likely ends": (sf.ExponentialDecayLengthPenalty(0, 0.5), likelier_ends(0, 0.5)),
    "ends above 0": (sf.ExponentialDecayLengthPenalty(1, 2.5), likelier_ends(1, 2.5)),
    "repeated": (sf.RepetitionPenalty(1.7), repeat_less(1.7)),
    "late": (sf.ExponentialDecayLengthPenalty(99, 9), likelier_ends(99, 9)),
    "an end": (sf.ForcedEnd(), force_end(free=False)),
    "no token at first": (sf.BannedTokens([2, 0], until=1), ban_until(1, [[2], [0]])),
    "phrases at first": (sf.BannedTokens([[2, 3], 4, [3, 3, 1]], until=3), ban_until(3, [[2, 3], [4], [3, 3, 1]])),
    "free prefixes": (
        sf.ForcedPrefix([[3, 2], [], [1]], free=True),
        free_at(lambda source: dict(enumerate([[3, 2], [], [1]][source]))),
    ),
    "free tokens": (sf.ForcedTokens({1: 3}, free=True), free_at(lambda source: {1: 3})),
}


def assert_same(found, wanted):
    assert found.tokens.to_nested() == wanted.tokens.to_nested()
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5, atol=1e-5)


@every_rule
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit(name, rule):
    limit, plainly = LIMITS[name]
    assert_same(sf.beam_search(step, None, constraints=limit, rule=rule, **OPTIONS), slow(plainly, rule))


@pytest.mark.parametrize("name", sorted(set(LIMITS) - {"none", "late"}))
def test_limits_change_something(name):
    found = sf.beam_search(step, None, constraints=LIMITS[name][0], **OPTIONS)
    free = sf.beam_search(step, None, **OPTIONS)
    assert found.tokens.to_nested() != free.tokens.to_nested() or not np.array_equal(found.scores, free.scores)


# Each in the order in which transformers acts, whatever the order in which they are given.
SEVERAL = [
    ["biases", "likelier ends", "an end", "phrases at first"],
    ["biases", "repeated", "ends above 0"],
    ["of an end", "repeated", "likelier ends", "phrases at first"],
    ["a bias", "repeated", "less likely ends", "an end"],
    ["of an end", "ends at once"],
]


@every_rule
@pytest.mark.parametrize("names", SEVERAL)
def test_several_limits(names, rule):
    together = lambda *row: [LIMITS[name][1](*row) for name in names]  # noqa: E731
    wanted = slow(together, rule)
    for given in itertools.islice(itertools.permutations(names), 0, None, 5):
        found = sf.beam_search(step, None, constraints=[LIMITS[name][0] for name in given], rule=rule, **OPTIONS)
        assert_same(found, wanted)


@every_rule
def test_what_is_free_costs_nothing_whatever_else_is_said(rule):
    more = [sf.SequenceBias({3: 2.5, 0: 9.0}), sf.RepetitionPenalty(1.7), sf.ExponentialDecayLengthPenalty(2, 2.5)]
    for free, at in ((sf.ForcedTokens({1: 3}, free=True), 1), (sf.ForcedEnd(free=True), 5)):
        options = {**OPTIONS, "min_new_tokens": 5 if at == 5 else 2}
        found = sf.beam_search(step, None, constraints=[*more, free], rule=rule, **options)
        gains = found.token_scores.to_nested()[0]  # of the source with one end
        assert len(gains) > 1
        assert [gain[at] for gain in gains] == [0] * len(gains)


@every_rule
def test_what_becomes_nothing_twice(rule):
    """Products of factors are neither 0 nor infinite."""
    ends = [sf.ForcedEnd(free=True), sf.ExponentialDecayLengthPenalty(0, 50.0)]
    once, twice = (sf.beam_search(step, None, constraints=given, rule=rule, **OPTIONS) for given in (ends[:1], ends))
    assert np.isfinite(once.scores).all()
    assert np.isfinite(twice.scores).all()
    repeated = [sf.RepetitionPenalty(1e29), sf.RepetitionPenalty(1e29)]
    found = sf.beam_search(step, None, constraints=repeated, rule=rule, **OPTIONS)
    assert not np.isnan(found.scores).any()


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "ct2"])
def test_a_free_end(rule):
    found = sf.beam_search(step, None, constraints=sf.ForcedEnd(free=True), rule=rule, **OPTIONS)
    assert_same(found, slow(force_end(free=True), rule))
    costs = sf.beam_search(step, None, constraints=sf.ForcedEnd(), rule=rule, **OPTIONS)
    assert rule != "hf" or costs.scores.tolist() != found.scores.tolist()


def test_every_hypothesis_ends():
    found = sf.beam_search(step, None, constraints=sf.ForcedEnd(), **OPTIONS)
    without = found.tokens.lod[0][2]  # where the source begins that has no end
    assert found.ended[:without].all()
    assert not found.ended[without:].any()
    fairseq = sf.beam_search(step, None, rule="fairseq", **OPTIONS)
    assert_same(sf.beam_search(step, None, rule="fairseq", constraints=sf.ForcedEnd(), **OPTIONS), fairseq)


def test_what_is_free_but_impossible_is_not_chosen():
    table = np.where(np.arange(WORDS) == 3, np.float32(NONE), TABLE)
    found = sf.beam_search(
        lambda state: (table[state.source, state.t, state.tokens], None), None,
        constraints=sf.ForcedTokens({1: 3}, free=True), **OPTIONS | {"min_new_tokens": 2},
    )  # fmt: skip
    assert found.tokens.to_nested() == [[], [], []]


def test_stop_strings():
    """The hook that the page for users of other libraries has: behind a stop string nothing comes but a free end."""
    stops = ["34", "22"]

    def stop(scores, state):
        scores = scores.copy()
        for tokens, row in zip(lists(state.prefixes), scores, strict=True):
            if any("".join(map(str, tokens)).endswith(text) for text in stops):
                row[:], row[0] = NONE, 0
        return scores

    found = sf.beam_search(step, None, on_scores=stop, **OPTIONS | {"end": 0, "length_penalty": 0.0, "n_best": 4})
    stopped = 0
    for i, source in enumerate(found.tokens.to_nested()):
        for tokens, parts in zip(source, found.token_scores.to_nested()[i], strict=True):
            text = "".join(map(str, tokens))
            places = [text.find(one) for one in stops if one in text[:-1]]
            if places:
                assert len(text) in (min(places) + 2, min(places) + 3)  # at the greatest length there is no end
                if text[-3:-1] in stops:
                    assert (tokens[-1], parts[-1]) == (0, 0)
                    stopped += 1
    assert stopped


@pytest.mark.parametrize("patience", [0.5, 0.75, 1, 1.25, 1.4, 1.6, 2, 7.3])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_patience(patience, power):
    """The slow decoder, which is done with more; the one source of each search has two ends."""
    for seed in range(10):
        table = np.random.default_rng(seed).standard_normal((6, WORDS, WORDS)).astype(np.float32)
        for n_best in {1, max(1, math.floor(4 * patience))}:
            found = sf.beam_search(
                lambda state, table=table: (table[state.t, state.tokens], None), None, rule="ct2", start=[2],
                end=[0, 5], beam_size=4, max_new_tokens=6, n_best=n_best, length_penalty=power, patience=patience,
            )  # fmt: skip
            options = PatientOptions((0, 5), 4, 6, "ct2", n_best, power, patience=patience)
            wanted = patient(lambda tokens, table=table: table[len(tokens), tokens[-1] if tokens else 2], options)
            assert found.tokens.to_nested() == [[tokens for tokens, *_ in wanted.hypotheses]]
            assert found.rows == wanted.rows


@dataclasses.dataclass(frozen=True)
class PatientOptions(Options):
    patience: float = 1


def patient(logits, options):
    """CTranslate2's search, done with ``round(k * patience)`` hypotheses."""
    import beam_oracle

    class Patient(beam_oracle.CTranslate2):
        def step(self, ranked, g):
            live = super().step(ranked, g)
            count = len(self.finished)
            many = math.floor(self.k * options.patience + 0.5)
            enough = self.top_ended and count >= options.n_best if self.power == 0 else count >= many
            self.done = enough or not live or g == self.max
            return live

    before = beam_oracle.BY_NAME["ct2"]
    beam_oracle.BY_NAME["ct2"] = Patient
    try:
        return decode(logits, options)
    finally:
        beam_oracle.BY_NAME["ct2"] = before


WRONG = [
    (lambda: sf.SequenceBias([1]), TypeError, "must be a dict"),
    (lambda: sf.SequenceBias({"a": 1}), TypeError, "biased token"),
    (lambda: sf.SequenceBias({1.5: 1}), TypeError, "biased token"),
    (lambda: sf.SequenceBias({-1: 1.0}), sf.StructureError, "biased tokens.*negative"),
    (lambda: sf.SequenceBias({(): 1.0}), sf.StructureError, "no token"),
    (lambda: sf.SequenceBias({1: "a"}), TypeError, "a bias must be a number"),
    (lambda: sf.SequenceBias({1: np.nan}), sf.ConversionError, "a bias must be below"),
    (lambda: sf.SequenceBias({1: np.inf}), sf.ConversionError, "a bias must be below"),
    (lambda: sf.ExponentialDecayLengthPenalty(-1, 1.1), sf.ConversionError, "start"),
    (lambda: sf.ExponentialDecayLengthPenalty(1.5, 1.1), TypeError, "start"),
    (lambda: sf.ExponentialDecayLengthPenalty(1, 0), sf.ConversionError, "factor"),
    (lambda: sf.ExponentialDecayLengthPenalty(1, np.inf), sf.ConversionError, "factor"),
    (lambda: sf.ExponentialDecayLengthPenalty(1, "x"), TypeError, "factor"),
    (lambda: sf.ForcedEnd(free=1), TypeError, "free must be True or False"),
    (lambda: sf.ForcedTokens({0: 1}, free=None), TypeError, "free must be True or False"),
    (lambda: sf.ForcedPrefix([1], free="no"), TypeError, "free must be True or False"),
    (lambda: sf.BannedTokens([1], until=0), sf.ConversionError, "until must be at least 1"),
    (lambda: sf.BannedTokens([1], until=1.5), TypeError, "until"),
    (
        lambda: sf.beam_search(step, None, constraints=sf.SequenceBias({(1, 9): 1}), **OPTIONS),
        sf.StructureError,
        "token 9 has a bias, but scores have 6 columns",
    ),
    (lambda: sf.BeamDecoder(None, patience=2, **OPTIONS), sf.ConversionError, 'patience belongs to the rule "ct2"'),
    (lambda: sf.BeamDecoder(None, rule="ct2", patience=0, **OPTIONS), sf.ConversionError, "above 0, and finite"),
    (lambda: sf.BeamDecoder(None, rule="ct2", patience=np.inf, **OPTIONS), sf.ConversionError, "above 0, and finite"),
    (lambda: sf.BeamDecoder(None, rule="ct2", patience="2", **OPTIONS), TypeError, "patience must be a number"),
    (
        lambda: sf.BeamDecoder(None, rule="ct2", patience=0.5, **OPTIONS),
        sf.ConversionError,
        "n_best is 3, but the beams have 2 places",
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), WRONG, ids=[words for *_, words in WRONG])
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


# --- the libraries themselves ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peers():
    for library in ("torch", "transformers", "ctranslate2"):
        pytest.importorskip(library)
    import beam_peers

    return beam_peers


def cases(rule, seeds):
    """Random cases in which every token is possible, and whose beams are filled."""
    for seed in seeds:
        case = dataclasses.replace(tables.draw(rule, seed), holes=0.0, spread=2.0)
        if case.vocabulary >= (2 + len(case.ends)) * 2 and case.max_new_tokens > 2:
            yield case


def assert_alike(case, found, wanted):
    ours = [[tables.printed(case, tokens) for tokens, _ in source] for source in tables.hypotheses(found)]
    assert ours == [[tokens for tokens, *_ in source] for source in wanted], case
    for mine, theirs in zip(tables.hypotheses(found), wanted, strict=True):
        scores = [score for _, score in mine], [score for _, score, *_ in theirs]
        np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-5, err_msg=str(case))


GENERATE = {
    "sequence_bias": (
        [[[2], 0.75], [[1, 3], 2.0], [[0, 2, 4], -1.0]],
        sf.SequenceBias({2: 0.75, (1, 3): 2.0, (0, 2, 4): -1.0}),
    ),
    "begin_suppress_tokens": ([1, 2], sf.BannedTokens([1, 2], until=1)),
    "exponential_decay_length_penalty": ((2, 1.06), sf.ExponentialDecayLengthPenalty(2, 1.06)),
    "forced_eos_token_id": (None, sf.ForcedEnd(free=True)),
    "forced_bos_token_id": (2, sf.ForcedTokens({0: 2}, free=True)),
}


@pytest.mark.peers
@pytest.mark.parametrize("option", GENERATE)
def test_options_of_generate(peers, option):
    value, limit = GENERATE[option]
    compared = 0
    for case in cases("hf", range(300_000, 300_080)):
        prompts = case.prompts
        if option == "forced_bos_token_id":  # which transformers forces behind a prompt of one token
            prompts = tuple(prompt[:1] for prompt in prompts)
        case = dataclasses.replace(case, prompts=prompts, ends=case.ends[:1], min_new_tokens=0)
        if set(case.ends) & {1, 2}:
            continue
        given = case.ends[0] if option == "forced_eos_token_id" else value
        wanted = peers.hf_table(case, **{option: given})
        found = tables.search(case, constraints=limit, prompt=[list(prompt) for prompt in prompts])
        assert_alike(case, found, wanted)
        compared += 1
    assert compared > 20


BIASES = {"sequence_bias": [[[1], 2.5], [[3], -1.5], [[2, 1], -4.0], [[0, 2], 3.0], [[6], 1.0]]}
BIAS = sf.SequenceBias({1: 2.5, 3: -1.5, (2, 1): -4.0, (0, 2): 3.0, 6: 1.0})
END = 6
LESS, REPEATED = {"repetition_penalty": 1.6}, sf.RepetitionPenalty(1.6)
LATER, DECAY = {"exponential_decay_length_penalty": (1, 1.7)}, sf.ExponentialDecayLengthPenalty(1, 1.7)
TOGETHER = {
    "a bias and a penalty": (BIASES | LESS, [REPEATED, BIAS]),
    "a penalty below 1": (BIASES | {"repetition_penalty": 0.6}, [sf.RepetitionPenalty(0.6), BIAS]),
    "ends above 0": (LATER, [DECAY]),
    "less likely ends": (
        BIASES | {"exponential_decay_length_penalty": (0, 0.6)},
        [sf.ExponentialDecayLengthPenalty(0, 0.6), BIAS],
    ),
    "all three": (BIASES | LESS | LATER, [DECAY, REPEATED, BIAS]),
    "with bans": (
        BIASES
        | LESS
        | {"no_repeat_ngram_size": 2, "bad_words_ids": [[4], [1, 2]]}
        | {"suppress_tokens": [5], "begin_suppress_tokens": [2]},
        [REPEATED, sf.BannedTokens([4, [1, 2], 5]), sf.BannedTokens(2, until=1), sf.NoRepeatNgram(2), BIAS],
    ),
    "forced": (
        BIASES | LESS | LATER | {"forced_bos_token_id": 2, "forced_eos_token_id": ...},
        [sf.ForcedEnd(free=True), DECAY, sf.ForcedTokens({0: 2}, free=True), REPEATED, BIAS],
    ),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", TOGETHER)
def test_options_of_generate_together(peers, name):
    """They act in the order of transformers, which is not the one in which they are given here."""
    options, limits = TOGETHER[name]
    compared = 0
    for case in cases("hf", range(310_000, 310_080)):
        prompts = tuple(prompt[:1] for prompt in case.prompts)
        least = min(case.min_new_tokens, case.max_new_tokens - 1)  # an end that is forced wins there
        words = max(case.vocabulary, 9 + 2 * case.beam_size)  # some are left, whatever is banned
        case = dataclasses.replace(case, prompts=prompts, ends=(END,), min_new_tokens=least, vocabulary=words)
        more = {key: END if value is ... else value for key, value in options.items()}
        wanted = peers.hf_table(case, **more)
        found = tables.search(case, constraints=limits, prompt=[list(prompt) for prompt in prompts])
        assert_alike(case, found, wanted)
        compared += 1
    assert compared > 30


@pytest.mark.peers
@pytest.mark.parametrize("patience", [0.5, 1.0, 1.3, 2.0, 3.0])
def test_patience_of_ctranslate2(peers, patience):
    compared = 0
    for case in cases("ct2", range(300_000, 300_060)):
        case = dataclasses.replace(case, n_best=min(case.n_best, math.floor(case.beam_size * patience)))
        case = dataclasses.replace(case, ends=case.ends[:1])  # with more CTranslate2 may go on behind an end
        if case.n_best:
            assert_alike(case, tables.search(case, patience=patience), peers.ct2_table(case, patience=patience))
            compared += 1
    assert compared > 20


CTRANSLATE2 = {
    "repetition_penalty": (1.8, sf.RepetitionPenalty(1.8)),
    "no_repeat_ngram_size": (2, sf.NoRepeatNgram(2)),
    "suppress_sequences": ([["3"], ["1", "2"], ["4", "4", "5"]], sf.BannedTokens([3, [1, 2], [4, 4, 5]])),
}


@pytest.mark.peers
@pytest.mark.parametrize("option", CTRANSLATE2)
def test_options_of_ctranslate2(peers, option):
    """It does not see the prompt, where that is no part of its results: a start."""
    value, limit = CTRANSLATE2[option]
    compared = 0
    for case in cases("ct2", range(300_100, 300_160)):
        case = dataclasses.replace(case, ends=case.ends[:1])
        if set(case.ends) & {3}:
            continue
        assert_alike(case, tables.search(case, constraints=limit), peers.ct2_table(case, **{option: value}))
        compared += 1
    assert compared > 20
