"""Drawing hypotheses: what may be drawn, how often it is, and on what it depends."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from passes import INTERPRETED

import seqformats as sf

DRAWS = 1500 if INTERPRETED else 20_000
NONE = -np.inf


# --- the slow truth: sorted, in float64 ------------------------------------------------------------------------------


def warped(scores, temperature=1.0, top_k=None, top_p=None, min_p=None, typical=None):
    """The probabilities that are drawn from, of one row."""
    x = np.asarray(scores, np.float64) / temperature
    best = x.max()
    if best == NONE:
        return np.zeros_like(x)
    if top_k is not None:
        x[x < np.sort(x)[::-1][: min(top_k, x.size)][-1]] = NONE
    if top_p is not None:
        p = normal(x)
        better = np.array([p[x > value].sum() for value in x])
        x[~(better < top_p)] = NONE
    if min_p is not None:
        x[np.exp(x - best) < min_p] = NONE
    if typical is not None:
        p = normal(x)
        log = np.log(np.where(p > 0, p, 1))
        far = np.where(p > 0, abs(-log + (p * log).sum()), np.inf)
        nearer = np.array([p[far < value].sum() for value in far])
        x[~(nearer < typical)] = NONE
    return normal(x)


def normal(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def one_step(scores, k, sampling, n=1, **options):
    """`k` draws of one token of each of `n` sources with these scores, or each with its own."""
    x = np.asarray(scores, np.float32)
    x = np.broadcast_to(x, (n, x.shape[-1]))
    options = {"end": 0, "beam_size": k, "n_best": k, "max_new_tokens": 1, "start": np.zeros(n, int)} | options
    return sf.beam_search(lambda state: (x[state.source], None), None, sampling=sampling, **options)


def assert_chi_square(counts, wanted):
    """Are they drawn from these probabilities?  Those of rare ones are put together."""
    total = sum(counts.values())
    assert {key for key, count in counts.items() if count} <= {key for key, p in wanted.items() if p > 0}
    often = [key for key, p in wanted.items() if p * total >= 5]
    pairs = [(counts[key], wanted[key] * total) for key in often]
    pairs.append((total - sum(c for c, _ in pairs), max(total - sum(e for _, e in pairs), 1.0)))
    statistic = sum((count - expected) ** 2 / expected for count, expected in pairs)
    freedom = len(pairs) - 1
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom) + 3


# --- one step --------------------------------------------------------------------------------------------------------

WARPS = {
    "plain": {},
    "cold": {"temperature": 0.5},
    "hot": {"temperature": 3},
    "top_k": {"top_k": 4},
    "top_k of all": {"top_k": 1000},
    "top_p": {"top_p": 0.75},
    "min_p": {"min_p": 0.15},
    "typical": {"typical": 0.6},
    "hot and top_p": {"temperature": 1.7, "top_p": 0.8},
    "hot and min_p": {"temperature": 1.7, "min_p": 0.3},
    "hot and typical": {"temperature": 1.7, "typical": 0.5},
    "all": {"temperature": 1.3, "top_k": 9, "top_p": 0.95, "min_p": 0.05, "typical": 0.85},
}
every_warp = pytest.mark.parametrize("name", WARPS)


@every_warp
def test_tokens_are_drawn_by_their_probabilities(name):
    rng = np.random.default_rng(5)
    x = (rng.normal(size=14) * 1.5).astype(np.float32)
    x[[3, 8]] = NONE
    wanted = warped(x, **WARPS[name])
    found = one_step(x, DRAWS, sf.Sample(11, **WARPS[name]))
    tokens = found.tokens.data
    assert tokens.size == DRAWS
    assert_chi_square(Counter(tokens.tolist()), dict(enumerate(wanted)))
    np.testing.assert_allclose(found.scores, np.log(normal(x.astype(np.float64))[tokens]), 1e-5, 1e-5)


@pytest.mark.parametrize("width", [1, 2, 17, 300, 1024, 1025, 5000])
@every_warp
def test_what_may_be_drawn(name, width):
    """All of it is, by what is drawn without replacement, and nothing else."""
    rng = np.random.default_rng(width)
    for spread, holes in ((1.0, 0.0), (4.0, 0.3), (0.0, 0.2)):
        x = (rng.normal(size=width) * spread).astype(np.float32)
        x[rng.random(width) < holes] = NONE
        x[rng.integers(width)] = spread
        p = warped(x, **WARPS[name])
        allowed = np.flatnonzero(p)
        if INTERPRETED and width > 300:
            continue
        found = one_step(x, width, sf.Sample(3, replacement=False, **WARPS[name])).tokens.data
        odd = set(found.tolist()) ^ set(allowed.tolist())
        assert len(odd) <= (width > 1000), "rounding may decide on one token"
        drawn = one_step(x, 200, sf.Sample(4, **WARPS[name])).tokens.data
        assert set(drawn.tolist()) <= set(found.tolist())


@every_warp
def test_ties_stay_or_go_together(name):
    x = np.repeat([2.0, 1.0, 0.0, -1.0], 6).astype(np.float32)
    np.random.default_rng(1).shuffle(x)
    found = one_step(x, 24, sf.Sample(3, replacement=False, **WARPS[name])).tokens.data
    assert set(found.tolist()) == set(np.flatnonzero(warped(x, **WARPS[name])).tolist())
    values = set(x[found].tolist())
    assert set(np.flatnonzero(np.isin(x, list(values))).tolist()) == set(found.tolist())


@every_warp
@pytest.mark.parametrize("x", [[0.5], [NONE, 3, NONE], [1e38, -1e38, 0], [-3e38, 3e38], [0, -200, -300]])
def test_rows_with_one_token(name, x):
    """Where there is one, all others are impossible, or as good as that, it is drawn; its score is 0."""
    found = one_step(x, 5, sf.Sample(1, **WARPS[name]))
    assert found.tokens.data.tolist() == [int(np.argmax(x))] * 5
    assert found.scores.tolist() == [0] * 5


def test_the_best_token_alone():
    x = np.array([0.1, 0.4, 0.3, 0.2], np.float32)
    for warp in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1}, {"temperature": 1e-30}, {"temperature": 1e-3}):
        assert set(one_step(x, 50, sf.Sample(1, **warp)).tokens.data.tolist()) == {1}
    found = one_step(x, 2000, sf.Sample(1, temperature=1e30)).tokens.data
    assert_chi_square(Counter(found.tolist()), dict.fromkeys(range(4), 0.25))


def test_a_row_without_any_token():
    """Of that source nothing is drawn; the others are as they were."""
    x = np.array([[0, 1, 2], [NONE] * 3, [2, 1, 0]], np.float32)
    found = one_step(x, 4, sf.Sample([5, 6, 7]), 3).tokens.to_nested()
    assert list(map(len, found)) == [4, 0, 4]
    assert found[0] == one_step(x[0], 4, sf.Sample([5])).tokens.to_nested()[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"replacement": False, "top_k": 2}])
@pytest.mark.parametrize("hooks", [{}, {"constraints": [sf.BannedTokens([1])]}, {"on_scores": lambda x, state: x}])
def test_bad_scores(bad, options, hooks):
    x = np.zeros((3, 40), np.float32)
    x[1, 30] = bad
    with pytest.raises(ValueError, match="source 1 at step 0, row 1"):
        one_step(x, 4, sf.Sample(1, **options), 3, **hooks)


# --- whole hypotheses ------------------------------------------------------------------------------------------------


class Table:
    """Scores by the last token and the source's own table; all hypotheses with their probabilities."""

    def __init__(self, seed, width, n=1):
        self.scores = (np.random.default_rng(seed).normal(size=(n, width + 1, width)) * 1.2).astype(np.float32)
        self.width = width

    def search(self, sampling, sources, k, most=3, **options):
        """`k` draws of some sources."""
        sources = np.asarray(sources)
        step = lambda state: (self.scores[sources[state.source], state.tokens], None)  # noqa: E731
        given = {"start": np.full(sources.size, self.width), "end": 0, "max_new_tokens": most, "n_best": k}
        return sf.beam_search(step, None, beam_size=k, sampling=sampling, **given | options)

    def everything(self, most, source=0, **warp):
        """The probability of every hypothesis as it is drawn, and its log-probability by the model."""
        found = {}

        def go(tokens, p, score):
            if len(tokens) == most or (tokens and tokens[-1] == 0):
                found[tokens] = p, score
                return
            x = self.scores[source, tokens[-1] if tokens else self.width]
            q, logs = warped(x, **warp), np.log(normal(x.astype(np.float64)))
            for token in np.flatnonzero(q).tolist():
                go((*tokens, token), p * q[token], score + logs[token])

        go((), 1.0, 0.0)
        return found


@pytest.mark.parametrize("name", ["plain", "hot and top_p", "all", "typical"])
def test_hypotheses_are_drawn_by_their_probabilities(name):
    model = Table(1, 5)
    wanted = model.everything(3, **WARPS[name])
    found = model.search(sf.Sample(8, **WARPS[name]), [0] * 50, DRAWS // 50)
    drawn = list(map(tuple, itertools.chain(*found.tokens.to_nested())))
    assert_chi_square(Counter(drawn), {tokens: p for tokens, (p, _) in wanted.items()})
    np.testing.assert_allclose(found.scores, [wanted[tokens][1] for tokens in drawn], 1e-4, 1e-4)
    sums = np.add.reduceat(found.token_scores.data, found.tokens.lod[1][:-1])
    np.testing.assert_allclose(sums, found.scores, 1e-4, 1e-5)


@pytest.mark.parametrize("name", ["plain", "cold", "hot", "hot and top_p", "all"])
def test_pairs_without_replacement(name):
    """In which order two hypotheses come is the distribution of drawing one after the other."""
    model = Table(2, 4)
    wanted = model.everything(2, **WARPS[name])
    p = {tokens: q for tokens, (q, _) in wanted.items()}
    pairs = {(a, b): p[a] * p[b] / (1 - p[a]) for a, b in itertools.permutations(p, 2)}
    n = DRAWS
    found = model.search(sf.Sample(9, replacement=False, **WARPS[name]), [0] * n, 2, 2)
    assert_chi_square(Counter(tuple(map(tuple, source)) for source in found.tokens.to_nested()), pairs)
    drawn = map(tuple, itertools.chain(*found.tokens.to_nested()))
    np.testing.assert_allclose(found.scores, [wanted[tokens][1] for tokens in drawn], 1e-4, 1e-4)


def test_draws_of_a_source_are_independent():
    """Of two draws, how often each pair comes, in the first token and in the second one."""
    model = Table(3, 4)
    found = model.search(sf.Sample(10), [0] * (DRAWS // 2), 2, 2).tokens.to_nested()
    p = {tokens: q for tokens, (q, _) in model.everything(2).items()}
    assert_chi_square(
        Counter((tuple(a), tuple(b)) for a, b in found), {(a, b): p[a] * p[b] for a, b in itertools.product(p, p)}
    )


def bits(result, i):
    """The hypotheses of a source and the bits of their scores."""
    a, b = result.tokens.lod[0][i : i + 2]
    return result.tokens.to_nested()[i], result.scores[a:b].tobytes()


@pytest.mark.parametrize("replacement", [True, False])
def test_what_is_drawn_depends_on_the_seed_of_the_source_alone(replacement):
    model = Table(4, 6, n=5)
    seeds, sizes = np.array([3, 2**40 + 3, 3, 8, 2**63 - 1]), np.array([3, 1, 4, 2, 3])
    options = {"temperature": 1.2, "top_k": 5, "top_p": 0.97, "replacement": replacement}
    together = model.search(sf.Sample(seeds, **options), range(5), sizes, 4, n_best=4)
    for i, seed in enumerate(seeds):
        alone = model.search(sf.Sample([int(seed)], **options), [i], int(sizes[i]), 4)
        assert bits(alone, 0) == bits(together, i)
    backwards = model.search(sf.Sample(seeds[::-1], **options), range(4, -1, -1), sizes[::-1], 4, n_best=4)
    assert [bits(backwards, 4 - i) for i in range(5)] == [bits(together, i) for i in range(5)]


@pytest.mark.parametrize("replacement", [True, False])
def test_one_seed_for_all_goes_by_the_number_of_the_source(replacement):
    model = Table(5, 6)
    sample = sf.Sample(7, replacement=replacement)
    many, few = (model.search(sample, [0] * n, 3, 4) for n in (6, 3))
    assert [bits(many, i) for i in range(3)] == [bits(few, i) for i in range(3)]
    assert len({str(bits(many, i)) for i in range(6)}) == 6
    other = model.search(sf.Sample(8, replacement=replacement), [0] * 6, 3, 4)
    assert [bits(many, i) for i in range(6)] != [bits(other, i) for i in range(6)]


def test_more_draws_leave_the_first_ones_as_they_are():
    model = Table(6, 5)
    large, small = (model.search(sf.Sample(7), [0] * 4, k, 5) for k in (9, 4))
    assert [found[:4] for found in large.tokens.to_nested()] == small.tokens.to_nested()
    assert model.search(sf.Sample(7), [0] * 4, 9, 5, n_best=2).tokens.to_nested() == [
        found[:2] for found in large.tokens.to_nested()
    ]


def test_an_own_class_is_the_sample_without_replacement():
    """It draws alike for sources of one seed, as a sample with that seed for each does."""
    model = Table(7, 5)
    own = model.search(sf.Stochastic(3), [0, 0], 4)
    sample = model.search(sf.Sample([3, 3], replacement=False), [0, 0], 4)
    assert [bits(own, i) for i in range(2)] == [bits(sample, i) for i in range(2)]


# --- beside other options --------------------------------------------------------------------------------------------


def test_limits_come_first():
    """What they leave is normalised, warped, and what scores are of."""
    x = np.array([1.0, 2.0, 0.5, 1.5, 0.0], np.float32)
    left = x.copy()
    left[1] = NONE
    ban = [sf.BannedTokens([1])]
    for options in ({}, {"top_k": 2}, {"temperature": 0.5, "top_p": 0.8}):
        wanted = one_step(left, 60, sf.Sample(2, **options))
        found = one_step(x, 60, sf.Sample(2, **options), constraints=ban)
        assert found.tokens.data.tolist() == wanted.tokens.data.tolist()
        np.testing.assert_allclose(found.scores, wanted.scores, 1e-6)
        hooked = one_step(x, 60, sf.Sample(2, **options), constraints=ban, on_scores=lambda x, state: x)
        assert hooked.tokens.data.tolist() == wanted.tokens.data.tolist()
    stubborn = one_step(x, 60, sf.Sample(2), constraints=ban, on_scores=lambda y, state: np.zeros_like(y))
    assert 1 not in stubborn.tokens.data


def test_a_penalty_acts_on_the_scores():
    model = Table(8, 5)
    model.scores[:] = model.scores[:, -1:]
    found = model.search(sf.Sample(1), [0] * (DRAWS // 10), 10, 2, constraints=[sf.RepetitionPenalty(3.0)], end=[])
    second = Counter(b for a, b in itertools.chain(*found.tokens.to_nested()) if a == 1)
    x = model.scores[0, -1].copy()
    x[1] = x[1] / 3 if x[1] > 0 else x[1] * 3
    assert_chi_square(second, dict(enumerate(normal(x))))


def test_hooks_on_scores_change_what_is_drawn():
    x = np.array([1.0, 2.0, 0.5], np.float32)
    found = one_step(x, 500, sf.Sample(1), on_scores=lambda y, state: y + np.array([0, NONE, 0], np.float32))
    assert set(found.tokens.data.tolist()) == {0, 2}
    logs = np.log(normal(x.astype(np.float64)))
    np.testing.assert_allclose(found.scores, logs[found.tokens.data], 1e-5)


def test_a_sample_is_traced():
    model = Table(9, 5)
    found = model.search(sf.Sample(1), [0, 0], 3, 4, trace=True)
    steps = [step.to_nested() for step in found.trace.ids]
    first = [tokens[0] for source in found.tokens.to_nested() for tokens in source]
    assert [sorted(source[0]) for source in steps[1]] == [sorted(first[:3]), sorted(first[3:])]


def test_rows_are_those_that_are_asked_for():
    """At first one per source; memory follows."""
    seen = []

    def step(state):
        seen.append((state.memory.tolist(), state.source.tolist()))
        return np.zeros((len(state.tokens), 3)), state.memory

    options = {"start": np.zeros(2, int), "end": [], "beam_size": np.array([2, 3]), "max_new_tokens": 2, "n_best": 3}
    sf.beam_search(step, np.array([5, 6]), sampling=sf.Sample(1), **options)
    assert seen == [([5, 6], [0, 1]), ([5, 5, 6, 6, 6], [0, 0, 1, 1, 1])]


# --- beside transformers ---------------------------------------------------------------------------------------------


@pytest.mark.peers
@every_warp
def test_what_transformers_leaves(name):
    """The same tokens, with the same probabilities, of rows without ties."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    made = {
        "temperature": transformers.TemperatureLogitsWarper,
        "top_k": transformers.TopKLogitsWarper,
        "top_p": transformers.TopPLogitsWarper,
        "min_p": transformers.MinPLogitsWarper,
        "typical": transformers.TypicalLogitsWarper,
    }
    options = WARPS[name]
    few = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        width = int(rng.choice([2, 5, 40, 300, 1500, 4000]))
        x = (rng.normal(size=(3, width)) * rng.choice([0.5, 1, 3, 8])).astype(np.float32)
        x[rng.random(x.shape) < rng.choice([0, 0.2, 0.9])] = NONE
        x[:, int(rng.integers(width))] = 1
        theirs = torch.from_numpy(x)
        for key, value in options.items():  # in the order of transformers, which is that of WARPS
            theirs = made[key](float(value) if key == "temperature" else value)(None, theirs)
        p = torch.softmax(theirs, -1).numpy()
        found = one_step(x, width, sf.Sample(3, replacement=False, **options), 3)
        for i in range(3):
            mine = found.tokens.data[slice(*found.tokens.lod[0][i : i + 2])]
            odd = set(mine.tolist()) ^ set(np.flatnonzero(theirs[i].numpy() > NONE).tolist())
            assert p[i, list(odd)].sum() < 1e-3, "rounding may decide on the tokens at the border"
            few += len(odd) > 0
        first = x[:1]
        drawn = Counter(one_step(first, 2000, sf.Sample(seed, **options)).tokens.data.tolist())
        assert_chi_square(drawn, {t: q for t, q in enumerate(p[0].tolist()) if q > 0 or t in drawn})
    assert few <= 3


@pytest.mark.peers
def test_tensors_are_drawn_from():
    torch = pytest.importorskip("torch")
    model = Table(11, 6)
    options = {"temperature": 1.2, "top_p": 0.9}
    scores = torch.from_numpy(model.scores[0])
    for replacement in (True, False):
        sample = sf.Sample(5, replacement=replacement, **options)
        wanted = model.search(sample, [0] * 3, 4)
        found = sf.beam_search(
            lambda state: (scores[state.tokens], None), None, start=torch.full((3,), 6), end=0, beam_size=4, n_best=4,
            max_new_tokens=3, sampling=sample,
        )  # fmt: skip
        assert found.tokens.to_nested() == wanted.tokens.to_nested()
        assert found.scores.numpy().tobytes() == wanted.scores.tobytes()


# --- what does not fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"temperature": 0}, sf.ConversionError, 'temperature must be above 0.*rule="greedy"'),
        ({"temperature": -1}, sf.ConversionError, "temperature"),
        ({"temperature": math.nan}, sf.ConversionError, "temperature"),
        ({"temperature": math.inf}, sf.ConversionError, "temperature"),
        ({"temperature": "1"}, TypeError, "temperature"),
        ({"top_k": 0}, sf.ConversionError, "top_k"),
        ({"top_k": -3}, sf.ConversionError, "top_k"),
        ({"top_k": 1.5}, TypeError, "top_k"),
        ({"top_p": 0}, sf.ConversionError, "top_p must be above 0 and at most 1"),
        ({"top_p": 1.01}, sf.ConversionError, "top_p"),
        ({"top_p": math.nan}, sf.ConversionError, "top_p"),
        ({"top_p": "0.9"}, TypeError, "top_p"),
        ({"min_p": -0.1}, sf.ConversionError, "min_p must be at least 0"),
        ({"min_p": 1.1}, sf.ConversionError, "min_p"),
        ({"typical": 0}, sf.ConversionError, "typical"),
        ({"typical": 2}, sf.ConversionError, "typical"),
        ({"replacement": 1}, TypeError, "replacement"),
        ({"seed": 1.5}, TypeError, "seed"),
        ({"seed": None}, TypeError, "seed"),
        ({"seed": [1.5]}, TypeError, "seed"),
    ],
)
def test_numbers_that_make_no_sense(options, error, words):
    with pytest.raises(error, match=words):
        sf.Sample(**{"seed": 1} | options)


def test_numbers_that_change_nothing():
    x = np.random.default_rng(0).normal(size=30)
    plain = one_step(x, 100, sf.Sample(1)).tokens.data.tolist()
    for options in ({"top_k": 30}, {"top_k": 2**62}, {"top_p": 1}, {"min_p": 0}, {"typical": 1}, {"top_p": 1.0}):
        assert one_step(x, 100, sf.Sample(1, **options)).tokens.data.tolist() == plain


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prune": sf.Prune(relative=0.1)}, "prune does not go with a Sample.*replacement=False"),
        ({"prune": sf.Prune(safe=True)}, "prune"),
        ({"on_candidates": lambda *found: found[:2]}, "on_candidates"),
        ({"on_selected": lambda *found: found[:3]}, "on_selected"),
        ({"constraints": [sf.DiverseGroups(2, 1)]}, "DiverseGroups"),
        ({"constraints": [sf.LexicalConstraints([[1]])]}, "LexicalConstraints"),
        ({"beam_size": 2**24 + 1}, "beam_size must be at most 16777216"),
    ],
)
def test_what_does_not_go_together(options, words):
    with pytest.raises(sf.ConversionError, match=words):
        one_step([0.0, 1.0], 4, sf.Sample(1), **options)


def test_seeds_that_are_not_as_many_as_sources():
    with pytest.raises(sf.StructureError, match="2 seeds, but 3 sources"):
        one_step([0.0, 1.0], 4, sf.Sample([1, 2]), 3)


def test_no_source_at_all():
    found = one_step(np.zeros((0, 3)), 2, sf.Sample(1), 0)
    assert found.tokens.to_nested() == []


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.parametrize("replacement", [True, False])
def test_threads_change_nothing(replacement):
    x = np.random.default_rng(0).normal(size=(40, 700))
    sample, found = sf.Sample(1, top_p=0.9, temperature=1.1, replacement=replacement), []
    for count in (1, 3):
        sf.set_num_threads(count)
        found.append(one_step(x, 3, sample, 40))
    one, several = found
    assert several.tokens.data.tolist() == one.tokens.data.tolist()
    assert several.scores.tobytes() == one.scores.tobytes()
