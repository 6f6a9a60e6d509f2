"""Small steps choose and advance in one call of a kernel: what comes out is what two calls give."""

import numpy as np
import pytest

import seqformats as sf
from seqformats.beam import candidates
from seqformats.beam.search import Search

WORDS = 23


@pytest.fixture
def calls(monkeypatch):
    """The steps that were one call."""
    found, at_once = [], Search._at_once

    def counted(self, query):
        found.append(query.x.shape)
        return at_once(self, query)

    monkeypatch.setattr(Search, "_at_once", counted)
    return found


def table(seed, impossible=False):
    scores = np.random.default_rng(seed).normal(0, 2, (WORDS, WORDS)).astype(np.float32)
    scores[:, 0] += 2  # the end
    if impossible:
        scores[np.random.default_rng(seed).random(scores.shape) < 0.7] = -np.inf
    return scores


def searched(scores, **options):
    start = np.array([1, 4, 2, 7])
    given = {"start": start, "end": [0, 3], "beam_size": [3, 1, 5, 2], "max_new_tokens": 8} | options
    return sf.beam_search(lambda state: (scores[state.tokens], None), None, **given)


def parts(found):
    return [found.tokens.data, *found.tokens.lod, found.scores, found.token_scores.data, found.rows, found.ended]


OPTIONS = [
    *({"rule": rule} for rule in ("hf", "ct2", "fairseq", "marian", "gnmt", "paddle")),
    {"rule": "hf", "end": list(range(12)), "min_new_tokens": 2},
    {"rule": "hf", "length_penalty": 0.0, "early_stopping": True, "n_best": 2},
    {"prune": sf.Prune(relative=0.2, absolute=3.0, safe=True)},
    {"prune": sf.Prune(local=0.2)},
    {"constraints": [sf.NoRepeatNgram(2), sf.RepetitionPenalty(1.3)]},
    {"on_mask": lambda state: np.full((len(state.tokens), 1), 0x55555, np.int32)},
    {"beam_size": 40},
    {"trace": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=[str(k) for k in range(len(OPTIONS))])
@pytest.mark.parametrize("impossible", [False, True])
def test_at_once_is_what_two_calls_give(calls, monkeypatch, options, impossible):
    scores = table(OPTIONS.index(options), impossible)
    found = parts(searched(scores, **options))
    assert calls
    calls.clear()
    monkeypatch.setattr(candidates, "threads_from", lambda: 0)
    apart = parts(searched(scores, **options))
    assert not calls
    for a, b in zip(found, apart, strict=True):
        np.testing.assert_array_equal(a, b)


LOOKING = {
    "on_scores": {"on_scores": lambda scores, state: scores},
    "on_candidates": {"on_candidates": lambda ids, scores, state: (ids, scores)},
    "on_selected": {"on_selected": lambda ids, scores, parents, state: (ids, scores, parents)},
    "Sample": {"sampling": sf.Sample(seed=1)},
    "Stochastic": {"sampling": sf.Stochastic(1)},
    "greedy": {"rule": "greedy", "beam_size": 1},
    "per_parent": {"prune": sf.Prune(per_parent=2)},
    "DiverseGroups": {"constraints": [sf.DiverseGroups(1, 0.5)]},
}


@pytest.mark.parametrize("options", LOOKING.values(), ids=LOOKING)
def test_what_looks_at_candidates_has_them(calls, options):
    searched(table(1), **options)
    assert not calls


def test_large_steps_are_for_threads(calls, monkeypatch):
    monkeypatch.setattr(candidates, "threads_from", lambda: 4 * 4 * WORDS + 1)
    searched(table(1))
    assert calls == [(4, WORDS)]  # the first step alone


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_row_changes_nothing(bad):
    decoder = sf.BeamDecoder(None, start=np.array([1, 2]), end=0, beam_size=2, max_new_tokens=5)
    scores = table(0)
    decoder.step(scores[decoder.state.tokens])
    before = decoder.state.tokens.tolist(), decoder.state.parents.tolist()
    wrong = scores[decoder.state.tokens].copy()
    wrong[2, 5] = bad
    with pytest.raises(ValueError, match="source 1 at step 1, row 2"):
        decoder.step(wrong)
    assert (decoder.state.tokens.tolist(), decoder.state.parents.tolist()) == before
    decoder.step(scores[decoder.state.tokens])
    assert decoder.state.t == 2
