"""Minimum Bayes risk against the definition, written with lists."""

import itertools
import math
from collections import Counter

import distance_oracle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

tokens = st.lists(st.integers(0, 3), max_size=5)
lists = st.lists(st.lists(tokens, max_size=5), max_size=4)


def oracle(x, scores, utility):
    """The hypotheses, their former positions and expected utilities."""
    y, order, expected, first = [], [], [], 0
    for hypotheses in x:
        own = scores[first : first + len(hypotheses)]
        weights = [math.exp(s - max(own)) for s in own]
        worth = [
            sum(w * utility(one, two) for w, two in zip(weights, hypotheses, strict=True)) / sum(weights)
            for one in hypotheses
        ]
        best = sorted(range(len(hypotheses)), key=lambda i: (-round(worth[i], 9), i))
        y.append([hypotheses[i] for i in best])
        order += [first + i for i in best]
        expected += [worth[i] for i in best]
        first += len(hypotheses)
    return y, order, expected


def overlap(one, two):
    """How many tokens both have, beside what they have together."""
    return 2 * sum((Counter(one) & Counter(two)).values()) / max(len(one) + len(two), 1)


def overlaps(hypotheses, references):
    assert type(hypotheses) is type(references) is sf.Ragged
    return [overlap(*pair) for pair in zip(hypotheses.to_nested(), references.to_nested(), strict=True)]


def assert_ranked(found, wanted):
    """Of utilities that are the same but for rounding either may come first."""
    y, order, expected = found
    np.testing.assert_allclose(expected, wanted[2], 1e-9, 1e-9)
    if len({round(value, 9) for value in wanted[2]}) == len(wanted[2]):
        assert order.tolist() == wanted[1]
        assert y == wanted[0]
    assert order.dtype == np.int64
    assert not order.flags.writeable


@given(lists, st.integers(0, 99), st.booleans(), st.booleans())
def test_as_it_is_defined(x, seed, weighed, own):
    count = sum(map(len, x))
    scores = np.random.default_rng(seed).normal(size=count) * 2 - 500 if weighed else None
    wanted = oracle(
        x,
        scores.tolist() if weighed else [0.0] * count,
        overlap if own else lambda one, two: -distance_oracle.levenshtein(one, two),
    )
    batch = lod(x)
    y, order, expected = sf.minimum_bayes_risk(batch, scores, utility=overlaps if own else None)
    flat = list(itertools.chain(*x))
    assert list(itertools.chain(*y.to_nested())) == [flat[i] for i in order]
    assert list(map(len, y.to_nested())) == list(map(len, x))
    assert_ranked((y.to_nested(), order, expected), wanted)


def lod(x):
    flat = [hypothesis for source in x for hypothesis in source]
    offsets = [np.cumsum([0, *map(len, rows)]) for rows in (x, flat)]
    return sf.LoD(np.array(list(itertools.chain(*flat)), np.int64), offsets)


def test_of_the_same_utility_the_first_stays_first():
    y, order, expected = sf.minimum_bayes_risk([[[1], [2], [1], [2]], [], [[5, 6], [5, 6]]])
    assert y == [[[1], [2], [1], [2]], [], [[5, 6], [5, 6]]]
    assert order.tolist() == [0, 1, 2, 3, 4, 5]
    assert expected.tolist() == [-0.5] * 4 + [0.0] * 2


def test_scores_are_probabilities_of_the_source_alone():
    x = lod([[[1, 2], [3]], [[1, 2], [3]]])
    one = sf.minimum_bayes_risk(x, [0.0, math.log(3), 700.0, 700.0 + math.log(3)])
    assert one[0].to_nested() == [[[3], [1, 2]]] * 2
    np.testing.assert_allclose(one[2], [-0.5, -1.5] * 2)


def test_draws_of_a_model_agree_on_what_is_likely():
    """Of many draws the sum of the hypotheses' own probabilities decides, not the most likely one of all."""
    first = np.log([0.34, 0.33, 0.33, 1e-9, 1e-9])  # the best token alone leads away from what the others share

    def step(state):
        after = np.full((len(state.tokens), 5), -30.0)
        after[state.tokens == 0, 4] = after[(state.tokens == 1) | (state.tokens == 2), 3] = 0
        return np.where(state.t == 0, np.broadcast_to(first, after.shape), after), None

    options = {"start": np.zeros(3, int), "end": [], "max_new_tokens": 2, "n_best": 200, "beam_size": 200}
    found = sf.beam_search(step, None, sampling=sf.Sample(5), **options)
    best = [source[0] for source in sf.minimum_bayes_risk(found.tokens)[0].to_nested()]
    assert all(tokens[1] == 3 for tokens in best)
    search = sf.beam_search(step, None, **options | {"beam_size": 3, "n_best": 3})
    assert all(source[0] == [0, 4] for source in search.tokens.to_nested())
    again = sf.minimum_bayes_risk(search.tokens, search.scores * 2)[0]
    assert all(source[0][1] == 3 for source in again.to_nested())


def test_a_level_more_goes_with_it():
    inner = [[[1, 2], [3], [3]], [[4]]]
    x = sf.LoD(np.array([1, 2, 3, 3, 4]), [[0, 2], [0, 3, 4], [0, 2, 3, 4, 5]])
    assert x.to_nested() == [inner]
    assert sf.minimum_bayes_risk(x)[0].to_nested() == [[[[3], [3], [1, 2]], [[4]]]]


def test_tokens_of_other_libraries(arrays):
    x = lod([[[7, 8], [1, 2, 3], [1, 2]], [[4]]])
    there = sf.LoD(arrays.up(x.data), x.lod)
    kinds = []

    def utility(one, two):
        kinds.append(type(one.data))
        return arrays.down(sf.levenshtein(one, two)) * -1.0

    for given_utility in (None, utility):
        y, order, expected = sf.minimum_bayes_risk(there, arrays.up(np.zeros(4, np.float32)), utility=given_utility)
        assert type(y.data) is type(there.data)
        assert arrays.down(y.data).tolist() == [1, 2, 1, 2, 3, 7, 8, 4]
        assert order.tolist() == [2, 1, 0, 3]
        np.testing.assert_allclose(expected, [-1, -4 / 3, -5 / 3, 0])
    assert kinds == [type(there.data)]


@pytest.mark.parametrize(
    ("x", "more", "error", "words"),
    [
        ([[1], [2]], {}, sf.StructureError, "one level of sequences.*nest"),
        (sf.Ragged(np.arange(2), [1, 1]), {}, sf.StructureError, "nest"),
        ([[[1], [2]]], {"scores": [1.0]}, sf.StructureError, r"scores must have shape \(2,\)"),
        ([[[1], [2]]], {"scores": 1.0}, sf.StructureError, "scores"),
        ([[[1], [2]]], {"scores": ["a", "b"]}, TypeError, "scores must be real numbers"),
        ([[[1], [2]]], {"scores": [0.0, math.nan]}, ValueError, "scores must be finite, but number 1 is nan"),
        ([[[1], [2]]], {"scores": [-math.inf, 0.0]}, ValueError, "number 0 is -inf"),
        ([[[1], [2]]], {"utility": lambda one, two: [1.0]}, sf.StructureError, r"utility must have shape \(4,\)"),
        ([[[1], [2]]], {"utility": lambda one, two: [math.inf] * 4}, ValueError, "utility must be finite"),
        ([[[1], [2]]], {"utility": lambda one, two: None}, TypeError, "utility"),
        ([[[1.5], [2]]], {}, TypeError, "integers"),
        (3, {}, TypeError, "3|int"),
    ],
)
def test_what_does_not_fit(x, more, error, words):
    with pytest.raises(error, match=words):
        sf.minimum_bayes_risk(x, **more)


def test_nothing_at_all():
    y, order, expected = sf.minimum_bayes_risk(lod([]))
    assert (y.to_nested(), order.tolist(), expected.tolist()) == ([], [], [])
    assert sf.minimum_bayes_risk(lod([[], []]))[0].to_nested() == [[], []]
    assert sf.minimum_bayes_risk(lod([[[]]]))[0].to_nested() == [[[]]]
