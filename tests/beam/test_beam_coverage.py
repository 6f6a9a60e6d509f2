"""The coverage penalty: what hypotheses lose for inputs without attention, and how they are ordered by it."""

import dataclasses
import itertools
import math

import beam_oracle
import numpy as np
import pytest
from beam_oracle import RULES, Options, TableModel, decode
from hypothesis import given
from hypothesis import strategies as st
from libraries import on_each_library
from passes import INTERPRETED

import seqformats as sf
from seqformats import arrays

SURE = 1e-4  # between scores of networks, where sums depend on how many rows are computed at once
WORDS, POSITIONS = 6, 5
RANDOM = np.random.default_rng(7)
TABLE = (RANDOM.normal(size=(4, WORDS, WORDS)) * 2).astype(np.float32)
HELD = [3, 5, 1, 4]  # how many positions each source has
# multiples of 1/64, so that sums are exact; 0 in the padding, and sometimes elsewhere
ATTENTION = (
    RANDOM.integers(0, 24, (4, WORDS, POSITIONS)) / 64.0 * (np.arange(POSITIONS) < np.array(HELD)[:, None])[:, None]
)
OPTIONS = {"start": np.array([1, 2, 3, 4]), "end": [0, 5], "beam_size": 4, "max_new_tokens": 6, "n_best": 4}


def scores_of(state):
    return TABLE[np.asarray(state.source), np.asarray(state.tokens)]


def attention_of(state):
    return ATTENTION[np.asarray(state.source), np.asarray(state.tokens)].astype(np.float32)


def attending(state):
    return scores_of(state), None, attention_of(state)


def hypotheses(found):
    """(tokens, score, token scores, ended) of every hypothesis, a list for each source."""
    tokens, gains = found.tokens.to_nested(), found.token_scores.to_nested()
    scores, ended = iter(arrays.to_host(found.scores).tolist()), iter(arrays.to_host(found.ended).tolist())
    return [
        [(one, next(scores), gain, next(ended)) for one, gain in zip(*source, strict=True)]
        for source in zip(tokens, gains, strict=True)
    ]


def kept_along(found):
    """What was kept, as lists."""
    return [[one.tolist() for one in source] for source in found.kept.to_nested()]


def penalty(attention):
    """By the formula, of the attention of each token of a hypothesis."""
    totals = [sum(column) for column in zip(*attention, strict=True)]
    return sum(math.log(min(total, 1.0)) for total in totals if total > 0)


# --- beside a slow decoder -------------------------------------------------------------------------------------------


@st.composite
def searches(draw):
    """Some sources with options of their own, and what each attends to, which are less positions than there are."""
    vocabulary, n = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    model = TableModel(draw(st.integers(0, 10**6)), vocabulary, draw(st.sampled_from(["exact", "ties", "masked"])))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    width = draw(st.integers(0, 5))
    held = random.integers(0, width + 1, n)
    attention = random.integers(0, 40, (n, vocabulary + 1, 7, width)) / 64.0
    attention[random.random(attention.shape) < 0.3] = 0
    attention *= (np.arange(width) < held[:, None])[:, None, None]
    if draw(st.booleans()):  # many hypotheses lose the same
        attention = attention[:, :1].repeat(vocabulary + 1, 1)
    common = {
        "rule": draw(st.sampled_from(RULES)),
        "n_best": draw(st.integers(1, 3)),
        "coverage": draw(st.sampled_from([0.0, 0.25, 0.5, 3.0])),
        "end": tuple(draw(st.lists(st.integers(0, vocabulary - 1), max_size=2, unique=True))),
    }
    options = [
        Options(
            beam_size=draw(st.integers(common["n_best"], 5)),
            max_new_tokens=draw(st.integers(1, 5)),
            length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0])),
            min_new_tokens=draw(st.sampled_from([0, 0, 1])),
            **common,
        )
        for _ in range(n)
    ]
    return model, options, attention, common


@given(searches())
def test_a_slow_decoder_finds_the_same(drawn):
    model, options, attention, common = drawn
    keys = [i % 5 for i in range(len(options))]

    def of(i, tokens):
        return attention[i, tokens[-1] + 1 if tokens else 0, min(len(tokens), 6)]

    def step(state):
        prefixes = beam_oracle.lists(state.prefixes)
        rows = [of(i, tokens) for i, tokens in zip(state.source.tolist(), prefixes, strict=True)]
        kept = np.array(rows, np.float32).reshape(len(rows), attention.shape[-1])
        return model.rows(keys, state), None, {"attention": kept, "other": state.tokens}

    each = ("beam_size", "max_new_tokens", "length_penalty", "min_new_tokens")
    found = sf.beam_search(
        step,
        None,
        start=np.zeros(len(options), int),
        **{name: np.array([getattr(one, name) for one in options]) for name in each},
        **{**common, "end": list(common["end"])},
    )
    wanted = [
        decode(model.of(keys[i]), one, attention=lambda tokens, i=i: of(i, tokens)) for i, one in enumerate(options)
    ]
    for mine, theirs in zip(hypotheses(found), wanted, strict=True):
        assert [tokens for tokens, *_ in mine] == [tokens for tokens, *_ in theirs.hypotheses]
        np.testing.assert_allclose([one[1] for one in mine], [one[1] for one in theirs.hypotheses], rtol=1e-6)
        gains = [[gain for one in those for gain in one[2]] for those in (mine, theirs.hypotheses)]
        np.testing.assert_allclose(*gains, rtol=1e-6, atol=1e-7)  # where the likeliest token is masked none is round
    assert found.rows == sum(one.rows for one in wanted)


# --- beside the same search without it -------------------------------------------------------------------------------

WAYS = {
    **{rule: {"rule": rule} for rule in RULES if rule not in ("ct2", "marian")},  # which have more than k
    "greedy": {"rule": "greedy", "beam_size": 1, "n_best": 1},
    "groups": {"constraints": sf.DiverseGroups(2, 3.0)},
    "phrases": {"constraints": sf.LexicalConstraints([[2, 3]])},
    "limits": {"constraints": [sf.RepetitionPenalty(1.4), sf.BannedTokens([4])]},
    "sample": {"sampling": sf.Sample(3)},
    "different draws": {"sampling": sf.Sample(4, replacement=False)},
    "Stochastic": {"sampling": sf.Stochastic(3)},
    "pruned": {"prune": sf.Prune(absolute=6.0, per_parent=3)},
    "several sizes": {"beam_size": [1, 4, 2, 3], "max_new_tokens": [1, 6, 3, 4]},
    "ends of their own": {"end": sf.Ragged(np.array([0, 5, 1]), [1, 0, 2, 0])},
    "prompts": {"start": None, "prompt": [[1], [2, 2], [1, 3], [4]]},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("weight", [0.1, 1.0, 30.0])
def test_it_orders_what_the_search_has_found(way, weight):
    """All that the result holds moves together, and the best are those of the new order."""
    options = {**OPTIONS, **WAYS[way]}
    every = sf.beam_search(attending, None, trace=True, **options)
    kept, parents = kept_along(every), every.parents.to_nested()
    wanted = []
    for i, source in enumerate(hypotheses(every)):
        found = [
            (tokens, np.float32(score + weight * penalty(kept[i][h])), gains, ended, kept[i][h], parents[i][h])
            for h, (tokens, score, gains, ended) in enumerate(source)
        ]
        wanted.append(sorted(found, key=lambda one: -one[1]))
    moved = 0
    for n_best in range(1, options["n_best"] + 1):
        found = sf.beam_search(attending, None, trace=True, coverage=weight, **{**options, "n_best": n_best})
        whole = zip(hypotheses(found), kept_along(found), found.parents.to_nested(), wanted, strict=True)
        for mine, attention, rows, theirs in whole:
            theirs = theirs[:n_best]
            assert [(one[0], one[2], one[3]) for one in mine] == [(one[0], one[2], one[3]) for one in theirs]
            np.testing.assert_allclose([one[1] for one in mine], [one[1] for one in theirs], rtol=2e-6)
            assert attention == [one[4] for one in theirs]
            assert rows == [one[5] for one in theirs]
        assert found.scores.dtype == np.float32
        assert found.rows == every.rows
        moved += found.tokens.to_nested() != [source[:n_best] for source in every.tokens.to_nested()]
    assert moved or way == "greedy" or weight < 1


def test_equal_scores_stay_in_their_order():
    """Those of hypotheses that lose the same, and a draw that comes twice."""
    step = lambda state: (scores_of(state), None, np.full((len(state.tokens), 2), 1.0))  # noqa: E731
    for way in WAYS.values():
        plain = sf.beam_search(step, None, **{**OPTIONS, **way})
        if "sampling" not in way:
            found = sf.beam_search(step, None, coverage=5.0, **{**OPTIONS, **way})
            assert found.tokens.to_nested() == plain.tokens.to_nested()
            assert found.scores.tolist() == plain.scores.tolist()
    flat = lambda state: (np.zeros((len(state.tokens), 3)), None, np.full((len(state.tokens), 2), 0.25))  # noqa: E731
    options = {"start": [0], "end": [0, 1, 2], "beam_size": 3, "max_new_tokens": 2, "n_best": 3}
    assert sf.beam_search(flat, None, coverage=1.0, **options).tokens.to_nested() == [[[0], [1], [2]]]


def test_the_formula():
    """That of CTranslate2, in its float32: the step of the end counts, positions without attention do not."""
    attention = np.array([[0.5, 0.0, 0.25, 0.0], [0.75, 0.125, 0.5, 0.0], [9.0, 9.0, 9.0, 9.0]], np.float32)
    scores = np.log(np.array([[0.1, 0.8, 0.1], [0.7, 0.1, 0.2], [0.3, 0.3, 0.4]]))
    step = lambda state: (scores[state.tokens], None, attention[state.tokens])  # noqa: E731
    for rule in RULES:
        found = sf.beam_search(
            step, None, start=[0], end=0, beam_size=2, max_new_tokens=4, rule=rule, coverage=0.5, length_penalty=0.0
        )
        assert found.tokens.to_nested() == [[[1, 0]]]
        lost = np.float32(0)
        for position in range(4):
            total = np.float32(0)
            for token in (0, 1):  # the rows from which 1 and the end were chosen
                total += attention[token, position]
            if total > 0:
                lost += np.log(min(total, np.float32(1)))
        assert lost == pytest.approx(math.log(0.125) + math.log(0.75))
        assert found.scores.tolist() == pytest.approx([math.log(0.8 * 0.7) + 0.5 * lost], rel=1e-6)


def test_padding_changes_nothing():
    """A source alone, with its own positions, has what it has beside longer ones."""
    whole = hypotheses(sf.beam_search(attending, None, coverage=0.7, **OPTIONS))
    for i, held in enumerate(HELD):

        def step(state, i=i, held=held):
            return TABLE[i, state.tokens], None, ATTENTION[i, state.tokens, :held]

        alone = sf.beam_search(step, None, coverage=0.7, **{**OPTIONS, "start": OPTIONS["start"][i : i + 1]})
        assert hypotheses(alone) == whole[i : i + 1]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("make", [tuple, lambda x: {"a": None, "b": [*x]}, lambda x: x[0]])
def test_the_first_array_is_the_attention(dtype, make):
    def step(state):
        return (
            scores_of(state),
            None,
            make((attention_of(state).astype(dtype), state.tokens, np.zeros(len(state.tokens)))),
        )

    wanted = sf.beam_search(attending, None, coverage=0.7, **OPTIONS)
    assert hypotheses(sf.beam_search(step, None, coverage=0.7, **OPTIONS)) == hypotheses(wanted)


def test_sums_of_halves_are_not_rounded():
    """2049 does not lie in float16, nor do a thousand times 1 / 1024 add up there."""
    part = np.float16(1 / 1536)
    step = lambda state: (np.log([[1e-9, 1.0]]), None, np.full((1, 1), part))  # noqa: E731
    found = sf.beam_search(
        step, None, start=[0], end=0, beam_size=1, max_new_tokens=1100, coverage=1.0, length_penalty=0
    )
    assert found.scores[0] == pytest.approx(
        math.log(1100 * float(part)) + np.float32(found.token_scores.data.sum()), rel=1e-5
    )


# --- in the middle of a search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [*WAYS, "ct2", "marian"])
@pytest.mark.parametrize("n_best", [1, 2])
def test_what_is_certain(way, n_best):
    """It never gets shorter, and begins every result."""
    options = {**OPTIONS, **WAYS.get(way, {"rule": way}), "n_best": n_best}
    if way == "greedy":
        options["n_best"] = 1
    for weight, shift in itertools.product([0.3, 3.0, 30.0], range(1 if INTERPRETED else 4)):
        decoder = sf.BeamDecoder(None, coverage=weight, **options)
        seen = [decoder.agreed().to_nested()]
        while decoder.active:
            state = decoder.state
            source, tokens = np.asarray(state.source), (np.asarray(state.tokens) + shift) % WORDS
            decoder.step(TABLE[source, tokens], None, ATTENTION[source, tokens])
            seen.append(decoder.agreed().to_nested())
            decoder.result()
        for before, now in itertools.pairwise(seen):
            for a, b in zip(before, now, strict=True):
                assert b[: len(a)] == a
        for certain, source in zip(seen[-1], decoder.result().tokens.to_nested(), strict=True):
            same = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*source, strict=False))
            assert certain == [column[0] for column in same]


def test_a_result_before_the_end():
    decoder = sf.BeamDecoder(None, coverage=0.7, **OPTIONS)
    assert decoder.result().tokens.to_nested() == [[]] * 4
    while decoder.active:
        decoder.step(*attending(decoder.state))
        found = decoder.result()
        for i, source in enumerate(hypotheses(found)):
            scores = [one[1] for one in source]
            assert scores == sorted(scores, reverse=True)
            for (_, score, gains, _), attention in zip(source, found.kept.to_nested()[i], strict=True):
                want = sum(gains) / len(gains) + 0.7 * penalty(attention)
                assert score == pytest.approx(want, rel=1e-5)
    whole = sf.beam_search(attending, None, coverage=0.7, **OPTIONS)
    assert hypotheses(decoder.result()) == hypotheses(whole)


def test_sources_without_hypotheses_and_none_at_all():
    def step(state):
        scores, _, attention = attending(state)
        return np.where((state.source == 2)[:, None], -np.inf, scores), None, attention

    found = sf.beam_search(step, None, coverage=0.7, **OPTIONS)
    whole = hypotheses(sf.beam_search(attending, None, coverage=0.7, **OPTIONS))
    assert hypotheses(found) == [*whole[:2], [], *whole[3:]]
    none = lambda state: (np.full((len(state.tokens), 3), -np.inf), None, np.ones((len(state.tokens), 2)))  # noqa: E731
    found = sf.beam_search(none, None, start=[0], end=0, beam_size=2, max_new_tokens=3, coverage=1.0)
    assert found.tokens.to_nested() == [[]]
    found = sf.beam_search(lambda state: 1 / 0, None, coverage=1.0, **{**OPTIONS, "start": np.zeros(0, int)})
    assert found.tokens.to_nested() == []


def test_a_weight_of_0_asks_for_nothing():
    plain = sf.beam_search(lambda state: (scores_of(state), None), None, **OPTIONS)
    found = sf.beam_search(lambda state: (scores_of(state), None), None, coverage=0.0, **OPTIONS)
    assert hypotheses(found) == hypotheses(plain)
    assert found.kept is None
    text = lambda state: (scores_of(state), None, np.asarray(state.tokens))  # noqa: E731
    assert hypotheses(sf.beam_search(text, None, coverage=0, **OPTIONS)) == hypotheses(plain)


def test_the_rule_of_ctranslate2_waits():
    """The best score alone does not end a search whose best hypothesis may be another."""
    scores = np.log([[0.5, 0.3, 0.2]])
    attention = np.array([[1.0, 0.01], [0.3, 1.0], [0.3, 1.0]])  # an end at once leaves the second input out
    step = lambda state: (scores.repeat(len(state.tokens), 0), None, attention[state.tokens])  # noqa: E731
    options = {"start": [0], "end": 0, "beam_size": 2, "max_new_tokens": 3, "rule": "ct2", "length_penalty": 0}
    assert sf.beam_search(step, None, **options).tokens.to_nested() == [[[0]]]
    assert sf.beam_search(step, None, coverage=1.0, **options).tokens.to_nested() == [[[1, 0]]]


# --- what cannot be --------------------------------------------------------------------------------------------------

WEIGHTS = {
    "negative": (-0.1, sf.ConversionError, "coverage must be at least 0, and below 1e30, not -0.1"),
    "NaN": (math.nan, sf.ConversionError, "coverage must be at least 0.*not nan"),
    "infinite": (math.inf, sf.ConversionError, "coverage must be at least 0.*not inf"),
    "text": ("0.2", TypeError, "coverage must be a number, not "),
    "None": (None, TypeError, "coverage must be a number, not None"),
    "a flag": (True, TypeError, "coverage must be a number, not True"),
    "several": ([0.1, 0.2], TypeError, "coverage must be a number, not "),
}


@pytest.mark.parametrize(("weight", "error", "words"), WEIGHTS.values(), ids=list(WEIGHTS))
def test_weights_that_are_none(weight, error, words):
    with pytest.raises(error, match=words):
        sf.BeamDecoder(None, coverage=weight, **OPTIONS)


KEPT = {
    "nothing": (lambda n: None, TypeError, "coverage needs the attention of every step.*keeps nothing; let every step"),
    "an empty container": (lambda n: {}, TypeError, "coverage needs the attention of every step"),
    "one axis": (lambda n: np.zeros(n), sf.StructureError, r"has shape \(4,\); for coverage, let every step return"),
    "three axes": (lambda n: np.zeros((n, 2, 2)), sf.StructureError, r"has shape \(4, 2, 2\).*\(rows, positions\)"),
    "integers": (lambda n: np.zeros((n, 2), int), TypeError, "is one of int64; for coverage"),
    "flags": (lambda n: (np.zeros((n, 2), bool), np.zeros((n, 2))), TypeError, "is one of bool"),
    "complex": (lambda n: np.zeros((n, 2), complex), TypeError, "is one of complex128"),
    "rows": (lambda n: np.zeros((n + 1, 2)), sf.StructureError, "must have 4 rows"),
    "a list": (lambda n: [[0.5, 0.5]] * n, TypeError, "what is kept must be arrays"),
}


@pytest.mark.parametrize(("make", "error", "words"), KEPT.values(), ids=list(KEPT))
def test_what_is_no_attention(make, error, words):
    decoder = sf.BeamDecoder(None, coverage=1.0, **OPTIONS)
    with pytest.raises(error, match=words):
        decoder.step(scores_of(decoder.state), None, make(4))
    decoder.step(*attending(decoder.state))  # nothing has been half done
    assert decoder.state.t == 1
    rows = len(decoder.state.tokens)
    with pytest.raises((TypeError, sf.StructureError)):
        decoder.step(scores_of(decoder.state), None, make(rows))


def test_attention_that_is_nan():
    def step(state):
        attention = attention_of(state)
        attention[np.asarray(state.source) == 2] = np.nan
        return scores_of(state), None, attention

    with pytest.raises(ValueError, match="the attention that was kept for source 2 holds NaN"):
        sf.beam_search(step, None, coverage=1.0, **OPTIONS)


# --- other libraries -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA")
@on_each_library
def test_it_is_added_up_where_it_lies(gpu):
    gpu.need()

    def step(state):
        source, tokens = arrays.to_host(state.source), arrays.to_host(state.tokens)
        found = TABLE[source, tokens], ATTENTION[source, tokens].astype(np.float32)
        return gpu.up(found[0]), None, gpu.up(found[1])

    options = {**OPTIONS, "start": gpu.up(OPTIONS["start"]), "max_new_tokens": 3, "n_best": 2}
    found = sf.beam_search(step, None, coverage=0.7, **options)
    wanted = sf.beam_search(attending, None, coverage=0.7, **{**options, "start": OPTIONS["start"]})
    assert type(found.scores) is type(gpu.up(np.zeros(1)))
    for mine, theirs in zip(hypotheses(found), hypotheses(wanted), strict=True):
        assert [one[0] for one in mine] == [one[0] for one in theirs]
        np.testing.assert_allclose([one[1] for one in mine], [one[1] for one in theirs], rtol=1e-5)


@pytest.mark.peers
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors(dtype):
    torch = pytest.importorskip("torch")

    def step(state):
        scores, _, attention = attending(state)
        return torch.from_numpy(scores), None, torch.from_numpy(attention).to(getattr(torch, dtype))

    found = sf.beam_search(step, None, coverage=0.7, **{**OPTIONS, "start": torch.tensor([1, 2, 3, 4])})
    assert type(found.scores) is torch.Tensor
    assert found.scores.dtype == torch.float32
    assert found.kept.data.dtype == getattr(torch, dtype)
    assert hypotheses(found) == hypotheses(sf.beam_search(attending, None, coverage=0.7, **OPTIONS))


@pytest.mark.peers
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_networks_converted_to_ctranslate2(length_penalty):
    """Translations, in their order, and their scores: those of CTranslate2 with its own attention.

    It is asked for one source after the other: in a batch its first step has the attention of other sources.
    """
    for library in ("torch", "transformers", "ctranslate2"):
        pytest.importorskip(library)
    import beam_peers

    compared = moved = 0
    for seed in range(24):
        network = beam_peers.Network("bart", seed, rule="ct2", attn_implementation="eager")
        network.case = dataclasses.replace(network.case, length_penalty=length_penalty or 1e-12, n_best=2)
        _, margin, enough = network.expected()  # of a search that waits, as it does with coverage
        if not enough or margin < SURE:
            continue
        network.case = dataclasses.replace(network.case, length_penalty=length_penalty)
        plain = network.translate()
        for weight in (0.1, 0.5, 2.0):
            wanted = network.translate(coverage_penalty=weight, max_batch_size=1)
            if any(abs(a - b) < SURE for source in wanted for (_, a), (_, b) in itertools.pairwise(source)):
                continue
            found = network.search(keep=True, coverage=weight)
            assert [[one for one, _ in source] for source in wanted] == [
                [beam_peers.tables.printed(network.case, tokens) for tokens, *_ in source]
                for source in hypotheses(found)
            ]
            scores = [score for source in wanted for _, score in source]
            np.testing.assert_allclose(found.scores, scores, rtol=SURE, atol=SURE)
            compared += 1
            moved += [[one for one, _ in source] for source in wanted] != [[one for one, _ in s] for s in plain]
    assert compared > 15
    assert moved > 5
