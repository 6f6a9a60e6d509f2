"""The ragged beam-search decoder against a slow one that sees one source at a time (`beam_oracle`)."""

import collections
import copy
import dataclasses
import functools
import inspect
import itertools
import math
import re
from dataclasses import dataclass, replace

import beam_oracle
import numpy as np
import pytest
from beam_oracle import MODES, RULES, Options, TableModel, decode, lists
from hypothesis import assume, given
from hypothesis import strategies as st
from passes import INTERPRETED

import seqformats as sf
from seqformats.beam import names
from seqformats.beam.options import Options as Keywords

EXACT = ["exact", "ties", "masked"]  # modes of a model whose scores are the same to the last bit
every_rule = pytest.mark.parametrize("rule", RULES)


# --- the slow decoder itself -----------------------------------------------------------------------------------------

# Log-probabilities after each prefix; token 0 is the end.
HAND = {(): [-1, -0.5, -2], (1,): [-1, -2, -0.25], (2,): [-0.25, -4, -4], (1, 2): [-0.25, -1, -1]}


def by_hand(tokens, log_probs):
    return np.array(HAND.get(tokens, [-1, -8, -8]), np.float32)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"rule": "hf"}, [([1, 2, 0], -1 / 3), ([1, 2, 1], -1.75 / 3)]),  # both displace what was finished first
        ({"rule": "hf", "early_stopping": True}, [([1, 0], -0.75), ([0], -1)]),
        ({"rule": "hf", "length_penalty": 0}, [([0], -1), ([1, 2, 0], -1)]),
        ({"rule": "ct2"}, [([1, 0], -0.75), ([0], -1)]),
        ({"rule": "fairseq"}, [([1, 0], -0.75), ([0], -1)]),
        ({"rule": "marian"}, [([1, 2, 0], -1 / 3), ([0], -1)]),  # one ended, so the beam has one place less
        ({"rule": "gnmt"}, [([1, 2, 0], -0.75), ([0], -1)]),
        ({"rule": "paddle"}, [([0], -1), ([1, 2, 0], -1)]),  # equal; what has ended comes first
    ],
)
def test_the_slow_decoder_by_hand(options, wanted):
    given_ = Options(end=(0,), beam_size=2, max_new_tokens=3, n_best=2, **options)
    found = decode(lambda tokens: np.zeros(3), given_, by_hand)
    assert [tokens for tokens, _, _ in found.hypotheses] == [tokens for tokens, _ in wanted]
    np.testing.assert_allclose([score for _, score, _ in found.hypotheses], [score for _, score in wanted], 1e-6)
    assert all(parts == [by_hand(tuple(t[:i]), None)[t[i]] for i in range(len(t))] for t, _, parts in found.hypotheses)


@every_rule
@pytest.mark.parametrize("power", [0.0, 1.0, 0.5])
def test_the_slow_decoder_with_a_beam_that_holds_everything(rule, power):
    """It gives all hypotheses there are."""
    model, longest = TableModel(1, 3, "random"), 3
    options = Options(end=(2,), beam_size=40, max_new_tokens=longest, rule=rule, n_best=40, length_penalty=power)
    wanted = {}
    for length in range(1, longest + 1):
        for tokens in itertools.product(range(3), repeat=length):
            ended = tokens[-1] == 2
            if 2 in tokens[:-1] or not (ended or (length == longest and rule not in ("fairseq", "gnmt"))):
                continue
            parts = [beam_oracle.log_softmax(model.logits(0, tokens[:i]))[token] for i, token in enumerate(tokens)]
            base = {"gnmt": (5 + length) / 6, "paddle": 1}.get(rule, length)
            wanted[tokens] = sum(parts) / base**power
    found = decode(model.of(0), options).hypotheses
    assert {tuple(tokens) for tokens, _, _ in found} == set(wanted)
    np.testing.assert_allclose([score for _, score, _ in found], sorted(wanted.values(), reverse=True), 1e-5)


# --- searches --------------------------------------------------------------------------------------------------------


@dataclass
class Problem:
    """Sources with a model, the options of each one, and the same options as `beam_search` takes them."""

    model: TableModel
    keys: list
    options: list
    arguments: dict

    def search(self, **more):
        return sf.beam_search(self.model.step(self.keys), np.arange(len(self.keys)), **self.arguments, **more)

    def each(self):
        return zip(self.keys, self.options, strict=True)

    def wanted(self, rescore=None, reselect=None):
        """What the slow decoder finds, source by source; hooks as in `decode`, the first one with the key before."""
        return [
            decode(self.model.of(key), options, rescore and functools.partial(rescore, key), reselect)
            for key, options in self.each()
        ]

    def alone(self, i):
        """The problem of one source."""
        return together(self.model, [self.keys[i]], [self.options[i]])

    def is_stable(self):
        """Do small changes of the model leave the hypotheses as they are?  Otherwise rounding decides."""
        found = [
            [tokens_of(decode(model.of(key), options)) for key, options in self.each()]
            for model in (self.model, *self.model.shaken)
        ]
        return all(other == found[0] for other in found)


def together(model, keys, options):
    """The problem of these sources, each of which has its own options."""
    first, end = options[0], [one.end for one in options]
    each = ("beam_size", "max_new_tokens", "min_new_tokens", "length_penalty")
    arguments = {name: np.array([getattr(one, name) for one in options]) for name in each}
    arguments |= {name: getattr(first, name) for name in ("rule", "n_best", "early_stopping")}
    arguments |= {"start": 0, "end": sf.Ragged(np.array(sum(end, ()), np.int64), list(map(len, end)))}
    arguments |= {"prune": sf.Prune(**first.prune) if first.prune else None}
    return Problem(model, keys, options, arguments)


def tokens_of(found):
    return [tokens for tokens, _, _ in found.hypotheses]


def column(draw, values, n, dtype=np.int64):
    """An option that is the same for all sources, or given for each: what each has, and the argument."""
    if draw(st.booleans()):
        value = draw(values)
        return [value] * n, value
    found = draw(st.lists(values, min_size=n, max_size=n))
    return found, np.array(found, dtype)


@st.composite
def ends(draw, vocabulary, n):
    """The ids that end: one, several, or those of each source; there may be none."""
    form = draw(st.sampled_from(["one", "several", "each"]))
    several = st.lists(st.integers(0, vocabulary - 1), min_size=form == "one", max_size=min(3, vocabulary), unique=True)
    if form == "each":
        found = draw(st.lists(several, min_size=n, max_size=n))
        flat = np.array([token for part in found for token in part], np.int64)
        return found, sf.Ragged(flat, [len(part) for part in found])
    found = draw(several)
    if form == "one":
        return [found[:1]] * n, found[0]
    return [found] * n, found


@st.composite
def prunes(draw):
    thresholds = {
        "relative": st.sampled_from([1.0, 0.5, 0.01, 1e-18]),
        "absolute": st.sampled_from([0.25, 2.5, 40.0, 40.25, 42.0]),
        "local": st.sampled_from([0.98, 0.3, 1e-18]),
        "per_parent": st.integers(1, 3),
    }
    names = draw(st.lists(st.sampled_from(sorted(thresholds)), max_size=2, unique=True))
    return {name: draw(thresholds[name]) for name in names}


@st.composite
def problems(draw, rule=None, modes=MODES, sources=(0, 4), prune=True, least=(0, 0, 1, 2)):
    rule = rule or draw(st.sampled_from(RULES))
    vocabulary, n = draw(st.integers(1, 5)), draw(st.integers(*sources))
    model = TableModel(draw(st.integers(0, 10**6)), vocabulary, draw(st.sampled_from(modes)))
    keys = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    end, end_argument = draw(ends(vocabulary, n))
    beam_size, beam_argument = column(draw, st.integers(1, 6), n)
    masks = rule != "ct2" or model.mode == "random"  # see TableModel
    fewest, fewest_argument = column(draw, st.sampled_from(least if masks else [0]), n)
    most, most_argument = column(draw, st.integers(max(fewest, default=0) + 1, 6), n)
    power, power_argument = column(draw, st.sampled_from([1.0, 0.0, 0.6, 2.0, -1.0]), n, np.float64)
    early = draw(st.sampled_from([False, True, "never"])) if rule == "hf" else False
    n_best = draw(st.integers(1, min([*beam_size, int(np.min(beam_argument, initial=6))])))
    pruned = draw(prunes()) if prune else {}
    options = [
        Options(tuple(e), k, most_, rule, n_best, a, early, m, pruned)
        for e, k, most_, a, m in zip(end, beam_size, most, power, fewest, strict=True)
    ]
    arguments = {
        "start": draw(st.sampled_from([0, 7])),
        "end": end_argument,
        "beam_size": beam_argument,
        "max_new_tokens": most_argument,
        "rule": rule,
        "n_best": n_best,
        "length_penalty": power_argument,
        "early_stopping": early,
        "min_new_tokens": fewest_argument,
        "prune": sf.Prune(**pruned) if pruned else None,
    }
    return Problem(model, keys, options, arguments)


def assert_found(result, wanted, exact=True):
    """The same hypotheses, scores and rows; `exact`: to the last bit."""
    hypotheses = [h for found in wanted for h in found.hypotheses]
    assert result.tokens.to_nested() == [tokens_of(found) for found in wanted]
    scores = np.array([score for _, score, _ in hypotheses], np.float32)
    parts = np.array([part for _, _, parts in hypotheses for part in parts], np.float32)
    if exact:
        assert result.scores.tolist() == scores.tolist()
        assert result.token_scores.data.tolist() == parts.tolist()
    else:
        np.testing.assert_allclose(result.scores, scores, 1e-4, 1e-5)
        np.testing.assert_allclose(result.token_scores.data, parts, 1e-4, 1e-5)
    assert_layout(result, len(wanted))
    assert result.rows == sum(found.rows for found in wanted)


def assert_layout(result, n):
    """What holds for every result."""
    assert isinstance(result.tokens, sf.LoD)
    assert isinstance(result.token_scores, sf.LoD)
    assert len(result.tokens) == n
    assert (result.tokens.dtype, result.scores.dtype, result.token_scores.dtype) == (np.int64, np.float32, np.float32)
    outer, inner = result.tokens.lod
    assert len(outer) == n + 1
    assert result.scores.shape == (len(inner) - 1,)
    assert [level.tolist() for level in result.token_scores.lod] == [outer.tolist(), inner.tolist()]
    for a, b in itertools.pairwise(outer.tolist()):
        assert np.all(np.diff(result.scores[a:b]) <= 0)


def assert_same_bits(a, b):
    """Two results are one."""
    assert a.tokens.to_nested() == b.tokens.to_nested()
    assert a.scores.tobytes() == b.scores.tobytes()
    assert a.token_scores.data.tobytes() == b.token_scores.data.tobytes()
    assert a.rows == b.rows


@every_rule
@given(data=st.data())
def test_a_search(rule, data):
    problem = data.draw(problems(rule, EXACT))
    assert_found(problem.search(), problem.wanted())


def check_many_sources(mode, n, n_best=1, early_stopping=False, vocabulary=5, **same):
    """So many, each with options of its own, that no line of a rule goes untested."""
    random = np.random.default_rng(n_best)
    model = TableModel(n_best, vocabulary, mode, n)
    keys, options = [], []
    for key in range(n):
        one = Options(
            end=tuple(random.permutation(vocabulary)[: random.integers(1, 4 + vocabulary // 16)].tolist()),
            beam_size=int(random.integers(n_best, 6)),
            max_new_tokens=int(random.integers(2, 7)),
            min_new_tokens=int(random.choice([0, 0, 0, 1] if (same["rule"], mode) != ("ct2", "ties") else [0])),
            length_penalty=float(random.choice([0, 0.5, 1, 2, -1])),
            n_best=n_best,
            early_stopping=early_stopping,
            **same,
        )
        if mode != "random" or Problem(model, [key], [one], {}).is_stable():
            keys.append(key)
            options.append(one)
    assert len(keys) > 0.7 * n
    problem = together(model, keys, options)
    if mode == "steps":
        found = problem.search(on_scores=lambda _, state: model.rows(keys, state))
        assert_found(found, problem.wanted(model.instead))
    else:
        assert_found(problem.search(), problem.wanted(), exact=mode != "random")


@pytest.mark.parametrize("n_best", [1, 3])
@pytest.mark.parametrize("mode", ["random", "ties", "steps"])
@pytest.mark.parametrize(
    ("rule", "early_stopping"), [("hf", True), ("hf", "never"), *((rule, False) for rule in RULES)]
)
def test_many_sources(rule, early_stopping, mode, n_best):
    check_many_sources(mode, 8 if INTERPRETED else 60, n_best, early_stopping, rule=rule)


@pytest.mark.parametrize("mode", ["random", "ties", "masked", "steps"])
@pytest.mark.parametrize("vocabulary", [64, 127, 128, 129, 300])
@pytest.mark.parametrize("rule", ["hf", "marian"])
def test_many_tokens(rule, vocabulary, mode):
    """More than a block of a kernel, and about as many."""
    check_many_sources(mode, 2 if INTERPRETED else 5, rule=rule, vocabulary=vocabulary)


THRESHOLDS = [
    {"relative": 0.3},
    {"relative": 1.0},
    {"absolute": 0.75},
    {"absolute": 2.5},
    {"local": 0.2},
    {"local": 0.98},
    {"per_parent": 1},
    {"per_parent": 2},
    {"relative": 0.01, "absolute": 3.0, "local": 0.05, "per_parent": 3},
]


@pytest.mark.parametrize("mode", ["random", "steps"])
@pytest.mark.parametrize("prune", THRESHOLDS, ids=str)
@every_rule
def test_many_sources_with_thresholds(rule, prune, mode):
    check_many_sources(mode, 8 if INTERPRETED else 20, 2, rule=rule, prune=prune)


@given(problems())
def test_a_source_does_not_depend_on_the_others(problem):
    found = problem.search()
    outer, inner = found.tokens.lod
    rows = 0
    for i in range(len(problem.keys)):
        alone = problem.alone(i).search()
        rows += alone.rows
        assert alone.tokens.to_nested() == [found.tokens.to_nested()[i]]
        assert alone.scores.tobytes() == found.scores[outer[i] : outer[i + 1]].tobytes()
        parts = found.token_scores.data[inner[outer[i]] : inner[outer[i + 1]]]
        assert alone.token_scores.data.tobytes() == parts.tobytes()
    assert rows == found.rows


@given(problems())
def test_the_decoder_as_a_loop(problem):
    decoder = sf.BeamDecoder(np.arange(len(problem.keys)), **problem.arguments)
    step = problem.model.step(problem.keys)
    while decoder.active:
        decoder.step(*step(decoder.state))
    assert_same_bits(decoder.result(), problem.search())


@given(st.integers(0, 10**6), st.integers(0, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))
def test_the_rule_of_paddle_is_a_loop_over_its_operators(seed, n, beam_size, most, vocabulary):
    """Where no scores are equal: these have an order of their own."""
    model, keys = TableModel(seed, vocabulary, "random"), list(range(n))
    options = Options((0,), beam_size, most, "paddle", beam_size)
    assume(n == 0 or together(model, keys, [options] * n).is_stable())
    ids = [sf.LoD(np.full(n, 9), [np.arange(n + 1), np.arange(n + 1)])]
    scores = [sf.LoD(np.zeros(n, np.float32), ids[0].lod)]
    prefixes = [(source, ()) for source in range(n)]
    for _ in range(most):
        rows = [beam_oracle.log_softmax(model.logits(*prefix)) for prefix in prefixes]
        table = np.array(rows, np.float32).reshape(-1, vocabulary) + scores[-1].data[:, None]
        lod = [ids[-1].absolute()[0], np.arange(len(prefixes) + 1)]
        step = sf.beam_step(ids[-1].data, scores[-1].data, None, sf.LoD(table, lod), beam_size=beam_size, end=0)
        if not len(step.parents):
            break
        chosen = zip(step.parents.tolist(), step.ids.data.tolist(), strict=True)
        prefixes = [(prefixes[parent][0], (*prefixes[parent][1], token)) for parent, token in chosen]
        ids.append(step.ids)
        scores.append(step.scores)
    wanted = sf.beam_backtrace(ids, scores, beam_size=beam_size, end=0)
    arguments = {"start": 9, "end": 0, "beam_size": beam_size, "max_new_tokens": most, "n_best": beam_size}
    found = sf.beam_search(model.step(keys), np.zeros(n), rule="paddle", **arguments)
    assert found.tokens.to_nested() == [[tokens[1:] for tokens in source] for source in wanted.ids.to_nested()]
    best = [path[-1] for source in wanted.scores.to_nested() for path in source]
    np.testing.assert_allclose(found.scores, np.array(best, np.float32), 1e-4, 1e-5)


def test_more_hypotheses_wanted_than_a_beam_has_places():
    step = TableModel(0, 5, "random").step([0, 0])
    options = {"start": 0, "end": 0, "beam_size": np.array([1, 3]), "max_new_tokens": 3}
    found = sf.beam_search(step, np.zeros(2), n_best=3, **options)
    assert [len(source) for source in found.tokens.to_nested()] == [1, 3]


def test_no_source_at_all():
    def step(state):
        raise AssertionError("there is nothing to compute")

    for memory in (np.zeros((0, 3)), None):
        result = sf.beam_search(step, memory, start=np.zeros(0, int), end=0, beam_size=2, max_new_tokens=3)
        assert_layout(result, 0)
        assert (result.tokens.to_nested(), result.rows) == ([], 0)


@every_rule
def test_a_source_without_candidates_has_no_hypothesis(rule):
    def step(state):
        scores = np.full((len(state.source), 3), -np.inf)
        scores[state.source != 1, 1:] = 0
        return scores, state.memory

    options = {"start": 0, "end": 2, "beam_size": 2, "max_new_tokens": 2, "rule": rule}
    result = sf.beam_search(step, np.zeros(3), n_best=2, **options)
    assert_layout(result, 3)
    assert [len(source) for source in result.tokens.to_nested()] == [2, 0, 2]
    alone = sf.beam_search(step, np.zeros(3), **options)
    assert [len(source) for source in alone.tokens.to_nested()] == [1, 0, 1]


@every_rule
@pytest.mark.parametrize("masked", [0, 1])
@pytest.mark.parametrize("width", [2, 20, 130])
def test_a_row_without_candidates_beside_another(rule, masked, width):
    """The other one has the places of the beam to itself."""

    def logits(tokens):
        found = np.full(width, -9 if len(tokens) == 0 or tokens[0] != masked else -np.inf, np.float32)
        if found[0] == -9:
            found[:2] = [-1 - len(tokens) / 4, 0]
        return found

    def step(state):
        return np.array(list(map(logits, lists(state.prefixes)))), state.memory

    options = {"beam_size": 2, "max_new_tokens": 3, "rule": rule, "n_best": 2}
    found = sf.beam_search(step, np.zeros(1), start=0, end=[], **options)
    assert_found(found, [decode(logits, Options(end=(), **options))], exact=False)


@every_rule
def test_a_source_that_loses_its_candidates_late(rule):
    """Two tokens in, none of which has ended it."""

    def step(state):
        scores = np.zeros((len(state.source), 3), np.float32)
        scores[:, 2] = -np.inf
        scores[(state.source == 0) & (state.t == 2)] = -np.inf
        return scores, state.memory

    result = sf.beam_search(step, np.zeros(2), start=0, end=2, beam_size=1, max_new_tokens=4, rule=rule)
    unfinished = [] if rule == "fairseq" else [[0, 0, 0, 0]]  # which forces an end
    assert result.tokens.to_nested() == [[], unfinished]
    assert result.rows == 3 + 4


@every_rule
def test_a_vocabulary_of_one(rule):
    def step(state):
        return np.zeros((len(state.source), 1), np.float32), state.memory

    options = {"start": 0, "end": 0, "beam_size": 3, "max_new_tokens": 3, "rule": rule}
    result = sf.beam_search(step, np.zeros(2), min_new_tokens=np.array([0, 2]), **options)
    assert result.tokens.to_nested() == [[[0]], []]
    assert result.scores.tolist() == [0]
    assert result.rows == 2


# --- state and memory ------------------------------------------------------------------------------------------------


@dataclass
class Memory:
    history: np.ndarray
    source: np.ndarray


# The forms of a memory: made of two arrays, and taken apart again.
FORMS = {
    "tuple": (lambda a, b: (a, b), lambda m: m),
    "dict": (lambda a, b: {"a": a, "b": b}, lambda m: (m["a"], m["b"])),
    "dataclass": (Memory, lambda m: (m.history, m.source)),
    "nested": (
        lambda a, b: {"x": (a, {"y": b}), "z": Memory(a + 1, b)},
        lambda m: (m["x"][0], m["x"][1]["y"]),
    ),
    "tuple of one": (lambda a, b: (Memory(a, b),), lambda m: (m[0].history, m[0].source)),
}


@given(st.sampled_from(sorted(FORMS)), problems(sources=(1, 4), prune=False))
def test_memory_follows_the_beams(form, problem):
    """What a row remembers is what it has seen."""
    make, parts = FORMS[form]
    n, longest = len(problem.keys), 8
    step = problem.model.step(problem.keys)

    def remember(state):
        history, source = parts(state.memory)
        assert type(state.memory) is type(make(history, source))
        assert source.tolist() == [[s + 0.5] for s in state.source.tolist()]
        assert history[:, 1 : state.t].tolist() == [tokens[:-1] for tokens in lists(state.prefixes)]
        history = history.copy()
        history[:, state.t] = state.tokens
        assert history[:, 1 : state.t + 1].tolist() == lists(state.prefixes)
        return step(state)[0], make(history, source)

    memory = make(np.full((n, longest), -1), np.arange(n)[:, None] + 0.5)
    result = sf.beam_search(remember, memory, **problem.arguments)
    assert_same_bits(result, problem.search())


@given(problems(sources=(1, 4)))
def test_shared_memory_is_handed_on_untouched(problem):
    n = len(problem.keys)
    shared = {"keys": np.array(problem.keys), "x": np.arange(2 * n).reshape(n, 2)}
    step = problem.model.step(problem.keys)

    def use(state):
        assert state.shared["keys"] is shared["keys"]
        assert state.shared["x"] is shared["x"]
        assert state.memory is None
        return step(state)[0], None

    result = sf.beam_search(use, None, shared=shared, **problem.arguments)  # as many sources as it has rows
    assert_same_bits(result, problem.search())


def test_sources_counted_by_their_start_tokens():
    seen = []

    def step(state):
        seen.append(state.tokens.tolist())
        return np.zeros((len(state.source), 3)), None

    result = sf.beam_search(step, None, start=np.array([5, 6, 7]), end=0, beam_size=1, max_new_tokens=1)
    assert seen == [[5, 6, 7]]
    assert result.tokens.to_nested() == [[[0]], [[0]], [[0]]]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_scores_of_any_float(dtype):
    """Probabilities are float32, whatever the model computes in."""
    logits = np.array([[0.0, 1.0, -2.0]], dtype)
    options = {"start": 0, "end": 0, "beam_size": 3, "max_new_tokens": 1, "n_best": 3}
    result = sf.beam_search(lambda state: (logits, state.memory), np.zeros(1), **options)
    assert result.tokens.to_nested() == [[[1], [0], [2]]]
    assert result.scores.dtype == np.float32
    np.testing.assert_allclose(result.scores, beam_oracle.log_softmax(logits[0])[[1, 0, 2]], 1e-6)


# --- hooks -----------------------------------------------------------------------------------------------------------


@every_rule
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_a_hook_on_scores(rule, data, seed):
    """It gets log-probabilities, and what it gives counts, normalised or not; several run one after the other."""
    problem = data.draw(problems(rule))
    other = TableModel(seed, problem.model.vocabulary, "steps")
    without_first = copy.copy(other)
    without_first.table = other.table.copy()
    without_first.table[..., 0] = -np.inf

    def from_other(scores, state):
        logits = problem.model.rows(problem.keys, state)
        assert (scores.dtype, scores.shape) == (np.float32, logits.shape)
        if rule != "ct2":  # where some may be masked
            np.testing.assert_allclose(scores, list(map(beam_oracle.log_softmax, logits)), 1e-5, 1e-6)
        return other.rows(problem.keys, state)

    def mask(scores, state):
        scores = scores.copy()
        scores[:, 0] = -np.inf
        return scores

    assert_found(problem.search(on_scores=from_other), problem.wanted(other.instead))
    assert_found(problem.search(on_scores=[from_other, mask]), problem.wanted(without_first.instead))


@given(problems(sources=(1, 4)))
def test_a_hook_with_rows_of_its_own(problem):
    """`follow` tells it where its rows go."""

    class Own:
        rows = None

        def __call__(self, scores, state):
            if state.t == 0:
                self.rows = state.source
            assert self.rows.tolist() == state.source.tolist()
            return scores

        def follow(self, parents):
            self.rows = self.rows[parents]

    assert_same_bits(problem.search(on_scores=Own()), problem.search(on_scores=lambda scores, state: scores))


def counts_of(lod):
    """How many items each sequence of the inner level has."""
    return np.diff(lod.lod[1])


def same_rows(lod, counts, data):
    """A LoD over the same rows, each with so many items."""
    return sf.LoD(data, [lod.lod[0], np.concatenate([[0], np.cumsum(counts)])])


def kept(lod, keep):
    """A LoD with some of its items."""
    rows = np.repeat(np.arange(len(lod.lod[1]) - 1), counts_of(lod))
    return same_rows(lod, np.bincount(rows[keep], minlength=len(lod.lod[1]) - 1), lod.data[keep])


@given(problems(modes=EXACT, prune=False))
def test_what_hooks_see(problem):
    """Both see the candidates row by row, best first; the second one those alone that are left of a source."""
    n, seen = len(problem.keys), []

    def check(ids, scores, state):
        for lod, dtype in ((ids, np.int64), (scores, np.float32)):
            assert (type(lod), lod.dtype) == (sf.LoD, dtype)
            assert lod.lod[0].tolist() == [0, *np.cumsum(np.bincount(state.source, minlength=n)).tolist()]
            assert len(lod.lod[1]) == len(state.source) + 1
        assert ids.lod[1].tolist() == scores.lod[1].tolist()
        for tokens, values in zip(*(np.split(lod.data, lod.lod[1][1:-1]) for lod in (ids, scores)), strict=True):
            pairs = list(zip(-values, tokens, strict=True))
            assert pairs == sorted(pairs)
            assert len(set(tokens.tolist())) == len(pairs)

    def on_candidates(ids, scores, state):
        check(ids, scores, state)
        seen.append(dict(zip(zip(rows_of(ids), ids.data.tolist(), strict=True), scores.data.tolist(), strict=True)))
        return ids, scores

    def on_selected(ids, scores, parents, state):
        check(ids, scores, state)
        assert (type(parents), parents.dtype, parents.tolist()) == (np.ndarray, np.int64, rows_of(ids))
        before = seen[state.t]
        assert all(
            before[row, t] == v for row, t, v in zip(parents.tolist(), ids.data.tolist(), scores.data, strict=True)
        )
        return ids, scores, parents

    assert_same_bits(problem.search(on_candidates=on_candidates, on_selected=on_selected), problem.search())


def rows_of(lod):
    """Of which row each item is."""
    return np.repeat(np.arange(len(lod.lod[1]) - 1), counts_of(lod)).tolist()


@given(problems(modes=EXACT, prune=False))
def test_a_hook_on_candidates_removes_and_scores_anew(problem):
    assume(problem.arguments["rule"] != "marian")  # whose shrinking beam lets the hook see fewer than there are
    assume(all(options.beam_size >= problem.model.vocabulary for options in problem.options))

    def remove(ids, scores, state):
        return kept(ids, ids.data != 0), kept(scores, ids.data != 0)

    def punish(ids, scores, state):
        return ids, same_rows(ids, counts_of(ids), scores.data - 0.5 * (ids.data == 1))

    def slowly(key, tokens, values):
        values = values.copy()
        values[:1], values[1:2] = -np.inf, values[1:2] - 0.5
        return values

    assert_found(problem.search(on_candidates=[remove, punish]), problem.wanted(slowly))


@given(problems(modes=EXACT, prune=False, least=[0]), st.integers(0, 10**6))
def test_a_hook_on_candidates_adds(problem, seed):
    """It puts candidates of its own in the place of those it gets, which may be none."""
    assume(problem.arguments["rule"] != "fairseq")  # which forces an end
    vocabulary = problem.model.vocabulary
    other = TableModel(seed, vocabulary, "steps")

    def hook(ids, scores, state):
        found = []
        for source, tokens in zip(state.source.tolist(), lists(state.prefixes), strict=True):
            key = problem.keys[source]
            before = sum(other.logits(key, tokens[:i])[token] for i, token in enumerate(tokens))
            found.append(before + other.logits(key, tokens))
        counts = np.full(len(found), vocabulary)
        tokens = np.tile(np.arange(vocabulary), len(found))
        return same_rows(ids, counts, tokens), same_rows(ids, counts, np.concatenate(found))

    assert_found(problem.search(on_candidates=hook), problem.wanted(other.instead))


@given(problems(modes=EXACT, prune=False))
def test_a_hook_on_selected(problem):
    """What it removes is not replaced."""

    def hook(ids, scores, parents, state):
        keep = ids.data != 0
        scores = same_rows(ids, counts_of(ids), scores.data - 25 * (ids.data == 1))
        return kept(ids, keep), kept(scores, keep), parents[keep]

    def slowly(candidates):
        return [(row, punished(path)) for row, path in candidates if path.tokens[-1] != 0]

    def punished(path):
        if path.tokens[-1] != 1:
            return path
        return replace(
            path, score=path.score - np.float32(25), parts=(*path.parts[:-1], path.parts[-1] - np.float32(25))
        )

    assert_found(problem.search(on_selected=hook), problem.wanted(None, slowly))


def test_a_hook_on_selected_adds():
    """The rows of what it gives are those of `parents`, in any order."""

    def step(state):
        return np.tile(np.array([[-30, 0, -np.inf]], np.float32), (len(state.source), 1)), None

    def hook(ids, scores, parents, state):
        if state.t:
            return ids, scores, parents
        return np.array([2, 2, 1]), np.array([5.0, 7.0, 6.0], np.float32), np.array([1, 0, 1])

    options = {"start": np.zeros(2, int), "end": 0, "beam_size": 2, "max_new_tokens": 2, "n_best": 2}
    found = sf.beam_search(step, None, on_selected=hook, **options)
    assert found.tokens.to_nested() == [[[2, 1], [2, 0]], [[1, 1], [2, 1]]]
    assert found.token_scores.to_nested() == [[[7, 0], [7, -30]], [[6, 0], [5, 0]]]


ROWS = [[0, 1, 2], [0, 1, 2]]  # of two sources


@pytest.mark.parametrize(
    ("name", "given_", "error", "words"),
    [
        ("on_scores", np.zeros((1, 3)), sf.StructureError, "shape"),
        ("on_scores", np.zeros((2, 4)), sf.StructureError, "on_scores.*shape"),
        ("on_scores", None, TypeError, "scores must be an array"),
        ("on_scores", np.zeros((2, 3), int), TypeError, "scores must be floats"),
        ("on_candidates", None, TypeError, "on_candidates must return"),
        ("on_candidates", (1, 2, 3), TypeError, "on_candidates must return"),
        ("on_candidates", (np.zeros(2, int), np.zeros(2)), (TypeError, sf.StructureError), "LoD"),
        (
            "on_candidates",
            (sf.LoD(np.zeros(2, int), ROWS), sf.LoD(np.zeros(3), [[0, 1, 2], [0, 1, 3]])),
            sf.StructureError,
            "as many",
        ),
        ("on_candidates", (sf.LoD(np.zeros(2, int), [[0, 2], [0, 1, 2]]),) * 2, sf.StructureError, "rows"),
        ("on_candidates", (sf.LoD(np.zeros(2), ROWS),) * 2, TypeError, "integers"),
        (
            "on_candidates",
            (sf.LoD(np.array([0, 3]), ROWS), sf.LoD(np.zeros(2), ROWS)),
            sf.StructureError,
            "from 0 to 2",
        ),
        (
            "on_candidates",
            (sf.LoD(np.array([0, -1]), ROWS), sf.LoD(np.zeros(2), ROWS)),
            sf.StructureError,
            "from 0 to 2",
        ),
        ("on_selected", None, TypeError, "on_selected must return"),
        ("on_selected", (np.zeros(1, int), np.zeros(1)), TypeError, "on_selected must return"),
        ("on_selected", (np.zeros(1, int), np.zeros(2), np.zeros(1, int)), sf.StructureError, "1 ids"),
        ("on_selected", (np.zeros(1, int), np.zeros(1), np.array([2])), sf.StructureError, "from 0 to 1"),
        ("on_selected", (np.zeros(1, int), np.zeros(1), np.array([-1])), sf.StructureError, "from 0 to 1"),
        ("on_selected", (np.zeros(1, int), np.zeros(1), np.array([0.5])), TypeError, "parents"),
        ("on_selected", (np.array([3]), np.zeros(1), np.array([0])), sf.StructureError, "from 0 to 2"),
    ],
)
def test_a_hook_that_gives_what_does_not_fit(name, given_, error, words):
    hooks = {name: lambda *seen: given_}
    with pytest.raises(error, match=words):
        sf.beam_search(uniform, **GOOD, **hooks)


# --- NaN -------------------------------------------------------------------------------------------------------------


@every_rule
@pytest.mark.parametrize("where", ["one logit", "a row", "beside infinities", "plus infinity", "hook"])
def test_nan_is_an_error_that_says_where(rule, where):
    bad = {
        "one logit": [0, np.nan, 0],
        "a row": [np.nan] * 3,
        "beside infinities": [-np.inf, np.nan, -np.inf],
        "plus infinity": [0, np.inf, 0],
    }

    def spoil(scores, state):
        scores = scores.copy()
        if state.t == 2:
            scores[state.source == 3] = bad.get(where, [0, 0, np.nan])
        return scores

    def step(state):
        scores = np.zeros((len(state.source), 3), np.float32)
        scores[:, 2] = -9
        return (scores if where == "hook" else spoil(scores, state)), state.memory

    options = {"start": 0, "end": 2, "beam_size": 2, "max_new_tokens": 4, "rule": rule}
    with pytest.raises(ValueError, match="NaN") as caught:
        sf.beam_search(step, np.zeros(5), on_scores=spoil if where == "hook" else None, **options)
    assert "source 3" in str(caught.value)
    assert "step 2" in str(caught.value)


# --- what does not fit -----------------------------------------------------------------------------------------------

GOOD = {"memory": np.zeros(2), "start": 0, "end": 0, "beam_size": 2, "max_new_tokens": 3}


def uniform(state):
    return np.zeros((len(state.source), 3), np.float32), state.memory


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"rule": "best"}, sf.ConversionError, "no rule 'best'; there are: hf, ct2"),
        ({"rule": None}, sf.ConversionError, "no rule None"),
        ({"beam_size": 0}, sf.ConversionError, "beam_size must be at least 1"),
        ({"beam_size": 1.5}, TypeError, "beam_size"),
        ({"beam_size": True}, TypeError, "beam_size"),
        ({"beam_size": np.array([1, 2, 3])}, sf.StructureError, "beam_size.*2 sources"),
        ({"beam_size": np.array([1.0, 2.0])}, TypeError, "beam_size"),
        ({"beam_size": np.array([1, 0])}, sf.ConversionError, "beam_size"),
        ({"max_new_tokens": -1}, sf.ConversionError, "max_new_tokens"),
        ({"max_new_tokens": 2.0}, TypeError, "max_new_tokens"),
        ({"max_new_tokens": np.array([1])}, sf.StructureError, "max_new_tokens"),
        ({"min_new_tokens": -1}, sf.ConversionError, "min_new_tokens"),
        ({"min_new_tokens": 0.5}, TypeError, "min_new_tokens"),
        ({"n_best": 3}, sf.ConversionError, "n_best is 3, but the beams have 2 places"),
        ({"n_best": 0}, sf.ConversionError, "n_best"),
        ({"n_best": 1.0}, TypeError, "n_best"),
        ({"length_penalty": "1"}, TypeError, "length_penalty"),
        ({"length_penalty": np.ones(3)}, sf.StructureError, "length_penalty"),
        ({"length_penalty": math.nan}, sf.ConversionError, "length_penalty"),
        ({"early_stopping": "always"}, sf.ConversionError, "early_stopping"),
        ({"early_stopping": True, "rule": "ct2"}, sf.ConversionError, "early_stopping.*ct2"),
        *[
            ({name: value}, sf.SeqFormatError, name)
            for name in ("beam_size", "max_new_tokens", "min_new_tokens")
            for value in (1 << 31, 1 << 62, 1 << 70)
        ],
        ({"end": -1}, sf.SeqFormatError, "end"),
        ({"end": 0.5}, TypeError, "end"),
        ({"end": None}, TypeError, "end"),
        ({"end": 3}, sf.StructureError, "end is 3, but scores have 3 columns"),
        ({"end": [0, -2]}, sf.StructureError, "end must not be negative"),
        ({"end": sf.Ragged(np.array([0, 1, 2]), [1, 1, 1])}, sf.StructureError, "end"),
        ({"end": sf.Ragged(np.array([0.0, 1.0]), [1, 1])}, TypeError, "end"),
        ({"start": 0.5}, TypeError, "start"),
        ({"start": np.zeros(3, int)}, sf.StructureError, "start"),
        ({"start": np.zeros(2)}, TypeError, "start"),
        ({"memory": None}, sf.StructureError, "how many sources"),
        ({"memory": (np.zeros(2), np.zeros(3))}, sf.StructureError, "memory"),
        ({"memory": {"a": np.zeros(())}}, sf.StructureError, "memory"),
        ({"shared": np.zeros(3)}, sf.StructureError, "shared"),
        ({"prune": 2.5}, TypeError, "prune"),
        ({"sampling": 1}, TypeError, "sampling"),
        ({"constraints": [3]}, TypeError, "constraints"),
        ({"on_scores": 3}, TypeError, "on_scores"),
        ({"on_candidates": [3]}, TypeError, "on_candidates"),
        ({"on_selected": "f"}, TypeError, "on_selected"),
    ],
)
def test_what_does_not_fit(change, error, words):
    arguments = GOOD | change
    with pytest.raises(error, match=words):
        sf.beam_search(uniform, arguments.pop("memory"), **arguments)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("num_beams", "is called beam_size here"),
        ("max_length", "is called max_new_tokens here"),
        ("eos_token_id", "is called end here"),
        ("num_return_sequences", "is called n_best here"),
        ("temperature", r"is an option of sampling=Sample\(seed, \.\.\.\) here"),
        ("top_p", r"sampling=Sample"),
        ("typical_p", r"typical="),
        ("do_sample", r"sampling=Sample"),
        ("repetition_penalty", "RepetitionPenalty"),
        ("forced_eos_token_id", r"ForcedEnd\(free=True\)"),
        ("sequence_bias", "SequenceBias"),
        ("begin_suppress_tokens", "until=1"),
        ("stop_strings", "on_scores"),
        ("coverage_penalty", "is called coverage here"),
        ("beamsize", "there is no option beamsize"),
    ],
)
def test_options_of_other_decoders(name, words):
    """What is missing besides is not what the error speaks of."""
    told = rf"{words}.*; the options are: start, end, beam_size, .*, trace\b"
    for options in (GOOD, {"memory": None}):
        options = options | {name: 3}
        memory = options.pop("memory")
        with pytest.raises(TypeError, match=told):
            sf.beam_search(uniform, memory, **options)
        with pytest.raises(TypeError, match=told):
            sf.BeamDecoder(memory, **options)


def test_hints_name_what_there_is():
    options = list(inspect.signature(sf.beam_search).parameters)
    assert options[2:] == list(inspect.signature(sf.BeamDecoder).parameters)[1:]
    assert not set(names.HINTS) & set(options)
    for other, hint in names.HINTS.items():
        for name in re.findall(r"called (\w+) here|(\w+)\(|(on_\w+)|`(\w+)`", hint):
            name = "".join(name)
            assert name in options or hasattr(sf, name), (other, name)


# What else these take: sizes of caches, other ways of decoding, and how a process works.
NOT_OF_A_SEARCH = (
    "assistant|cache|compile|dola|continuous_batching|is_assistant|matching_ngram|prefill|prompt_lookup|speculation|"
    "target_lookbehind|token_healing|transformers_version|use_mtp|watermarking|_from_model|asynchronous|use_vmap|"
    "max_input_length|static_prompt|replace_unknowns|^source$|^self$|constraints"
)


@pytest.mark.peers
def test_every_option_of_generate_and_ctranslate2_has_a_hint():
    for library in ("transformers", "ctranslate2"):
        pytest.importorskip(library)
    import ctranslate2
    import transformers

    theirs = set(transformers.GenerationConfig().to_dict())
    for method in (ctranslate2.Translator.translate_batch, ctranslate2.Generator.generate_batch):
        theirs |= set(re.findall(r"(\w+): ", method.__doc__.partition("->")[0]))
    options = set(inspect.signature(sf.beam_search).parameters)
    unknown = {name for name in theirs - options - set(names.HINTS) if not re.search(NOT_OF_A_SEARCH, name)}
    assert unknown == set()
    assert len(theirs & set(names.HINTS)) > 50


@pytest.mark.parametrize("search", [sf.beam_search, sf.BeamDecoder])
def test_the_options_stand_in_one_place(search):
    found = list(inspect.signature(search).parameters.values())[-len(dataclasses.fields(Keywords)) :]
    assert [one.name for one in found] == [field.name for field in dataclasses.fields(Keywords)]
    for one, field in zip(found, dataclasses.fields(Keywords), strict=True):
        assert one.kind is one.KEYWORD_ONLY
        assert one.default is (one.empty if field.default is dataclasses.MISSING else field.default)
        assert re.search(rf"^ *(\w+, )*{one.name}(, \w+)* : ", sf.beam_search.__doc__, re.M), one.name


@pytest.mark.parametrize("search", [lambda *args, **options: sf.beam_search(uniform, *args, **options), sf.BeamDecoder])
def test_arguments_that_are_missing_or_too_many(search):
    options = {"start": np.zeros(1, int), "end": 0, "beam_size": 1, "max_new_tokens": 2}
    search(None, **options)
    search(memory=None, **options)
    for missing in options:
        with pytest.raises(TypeError, match=missing):
            search(None, **{name: value for name, value in options.items() if name != missing})
    with pytest.raises(TypeError, match="memory"):
        search(**options)
    with pytest.raises(TypeError, match="memory"):
        search(None, memory=None, **options)
    with pytest.raises(TypeError, match="positional"):
        search(None, 1, **options)


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_a_beam_of_one_beside_greedy_search(early_stopping):
    """By "never" a longer hypothesis may beat a finished one: its mean is better."""
    table = np.log([[0.5, 0.45, 0.05], [0.02, 0.97, 0.01], [0.3, 0.3, 0.4]])
    options = {"start": np.array([2]), "end": 0, "beam_size": 1, "max_new_tokens": 4}

    def step(state):
        return table[[0] if state.t == 0 else state.tokens], None

    found = sf.beam_search(step, None, **options, early_stopping=early_stopping)
    assert found.tokens.to_nested() == [[[1, 1, 1, 1] if early_stopping == "never" else [0]]]


@pytest.mark.parametrize(
    ("found", "error", "words"),
    [
        (lambda state: np.zeros((3, 3)), TypeError, "scores, memory"),
        (lambda state: (np.zeros((3, 3)), state.memory), sf.StructureError, r"shape \(2, vocabulary\)"),
        (lambda state: (np.zeros((2, 3, 1)), state.memory), sf.StructureError, "vocabulary"),
        (lambda state: (np.zeros(2), state.memory), sf.StructureError, "vocabulary"),
        (lambda state: (np.zeros((2, 3), int), state.memory), TypeError, "scores"),
        (lambda state: (np.zeros((2, 3), complex), state.memory), TypeError, "scores"),
        (lambda state: ([[0.0, 1.0]] * 2, state.memory), TypeError, "scores"),
        (lambda state: (np.zeros((2, 3)), np.zeros(3)), sf.StructureError, "memory"),
    ],
)
def test_a_step_that_gives_what_does_not_fit(found, error, words):
    arguments = dict(GOOD)
    with pytest.raises(error, match=words):
        sf.beam_search(found, arguments.pop("memory"), **arguments)
    decoder = sf.BeamDecoder(np.zeros(2), **arguments)
    given_ = found(decoder.state)
    if isinstance(given_, tuple):
        with pytest.raises(error, match=words):
            decoder.step(*given_)
        decoder.step(*uniform(decoder.state))  # nothing has been half done
        assert decoder.state.t == 1


def test_a_decoder_that_is_done_takes_no_step():
    arguments = GOOD | {"max_new_tokens": 1}
    decoder = sf.BeamDecoder(arguments.pop("memory"), **arguments)
    decoder.step(*uniform(decoder.state))
    assert not decoder.active
    with pytest.raises(sf.SeqFormatError, match="has ended"):
        decoder.step(np.zeros((2, 3)), np.zeros(2))


def test_a_step_that_is_no_function():
    arguments = dict(GOOD)
    with pytest.raises(TypeError, match="step"):
        sf.beam_search(3, arguments.pop("memory"), **arguments)


# ------------------------------------------------------------------------------------------- bad numbers, errors


@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00001, 0x7FC00000, 0x7F800001, 0xFF800001])
@pytest.mark.parametrize("width", [20, 140, 2000])
@pytest.mark.parametrize("place", [0, 7, -1])
def test_every_nan_is_noticed(bits, width, place):
    scores = np.zeros((1, width), np.float32)
    scores.view(np.uint32)[0, place] = bits
    decoder = sf.BeamDecoder(None, start=[1], end=0, beam_size=2, max_new_tokens=1)
    with pytest.raises(ValueError, match="source 0 at step 0"):
        decoder.step(scores)


class Stumbling:
    """A hook that keeps something for each row, and cannot."""

    def __call__(self, scores, state):
        return scores

    def follow(self, parents):
        raise RuntimeError("no")


def test_a_step_that_an_error_has_cut_short_is_not_gone_on_from():
    decoder = sf.BeamDecoder(None, start=[1], end=0, beam_size=3, max_new_tokens=4, on_scores=Stumbling())
    with pytest.raises(RuntimeError, match="no"):
        decoder.step(np.zeros((1, 5), np.float32))
    with pytest.raises(sf.StructureError, match="cut one short"):
        decoder.step(np.zeros((3, 5), np.float32))


def test_an_error_before_anything_has_changed_can_be_mended():
    decoder = sf.BeamDecoder(None, start=[1], end=0, beam_size=3, max_new_tokens=2)
    with pytest.raises(sf.StructureError, match="shape"):
        decoder.step(np.zeros((2, 5), np.float32))
    decoder.step(np.zeros((1, 5), np.float32))
    assert decoder.state.tokens.tolist() == [1, 2, 3]


def test_a_step_within_a_step_is_refused():
    def again(scores, state):
        decoder.step(np.zeros((1, 5), np.float32))
        return scores

    decoder = sf.BeamDecoder(None, start=[1], end=0, beam_size=3, max_new_tokens=2, on_scores=again)
    with pytest.raises(sf.StructureError, match="under way"):
        decoder.step(np.zeros((1, 5), np.float32))


def test_a_default_dict_follows():
    memory = collections.defaultdict(list, h=np.arange(2.0))
    decoder = sf.BeamDecoder(memory, start=1, end=0, beam_size=2, max_new_tokens=3)
    decoder.step(np.zeros((2, 5), np.float32), memory)
    assert decoder.state.memory["h"].tolist() == [0, 0, 1, 1]
    assert type(decoder.state.memory) is collections.defaultdict


def test_the_state_is_read_only():
    decoder = sf.BeamDecoder(None, start=[1, 2], end=0, beam_size=2, max_new_tokens=3)
    for _ in range(2):
        state = decoder.state
        for array in (state.tokens, state.source, state.parents, state.prefixes.data):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        decoder.step(np.zeros((len(state.tokens), 5), np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_candidates_that_are_no_numbers(value):
    def spoil(ids, scores, state):
        scores.data[...] = value
        return ids, scores

    decoder = sf.BeamDecoder(None, start=[1], end=0, beam_size=2, max_new_tokens=2, on_candidates=spoil)
    with pytest.raises(ValueError, match="on_candidates"):
        decoder.step(np.zeros((1, 5), np.float32))


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.parametrize("sampling", [None, sf.Stochastic(seed=3)], ids=["best", "drawn"])
def test_threads_change_nothing(sampling):
    scores = np.random.default_rng(5).standard_normal((4, 12, 9)).astype(np.float32)
    lists = sf.LoD(scores[0].astype(np.float64), [[0, 5, 5, 12], list(range(13))])

    def found():
        search = sf.beam_search(
            lambda state: (scores[state.t][: len(state.tokens)], None),
            None,
            start=np.zeros(4, int),
            end=1,
            beam_size=3,
            max_new_tokens=4,
            sampling=sampling,
        )
        step = sf.beam_step(np.arange(2, 14), np.zeros(12), None, lists, beam_size=3, end=1)
        return search.tokens.to_nested(), search.scores.tolist(), step.ids.to_nested(), step.parents.tolist()

    sf.set_num_threads(1)
    expected = found()
    sf.set_num_threads(3)
    assert found() == expected


@pytest.mark.parametrize("mode", ["random", "ties"])
@pytest.mark.parametrize("per_parent", [None, 3])
@pytest.mark.parametrize("beam_size", [16, 17, 40])
def test_many_candidates(beam_size, per_parent, mode):
    """More than 32 candidates are kept in a heap; their order is the same."""
    model = beam_oracle.TableModel(beam_size, 60, mode)
    prune = {} if per_parent is None else {"per_parent": per_parent}
    settings = {"beam_size": beam_size, "max_new_tokens": 4, "n_best": beam_size}
    options = beam_oracle.Options(end=(2, 5), prune=prune, **settings)
    found = sf.beam_search(
        model.step(range(2)), None, start=np.zeros(2, int), end=[2, 5], prune=sf.Prune(**prune), **settings
    )
    tokens, scores = found.tokens.to_nested(), found.scores
    expected = [beam_oracle.decode(model.of(key), options).hypotheses for key in range(2)]
    assert tokens == [[tokens for tokens, *_ in one] for one in expected]
    np.testing.assert_allclose(scores, [score for one in expected for _, score, _ in one], rtol=1e-5)
