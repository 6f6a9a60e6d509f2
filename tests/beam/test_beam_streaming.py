"""What can be said of a search before it has ended."""

import itertools

import numpy as np
import pytest
from libraries import on_each_library
from passes import INTERPRETED

import seqformats as sf
from seqformats import arrays

WORDS = 6
RULES = ("hf", "ct2", "fairseq", "marian", "gnmt", "paddle")
WAYS = {
    **{rule: {"rule": rule} for rule in RULES},
    "early": {"early_stopping": True},
    "never": {"early_stopping": "never", "length_penalty": 2.0},
    "safe": {"prune": sf.Prune(safe=True, relative=0.05)},
    "groups": {"constraints": [sf.DiverseGroups(2, 0.5)]},
    "greedy": {"rule": "greedy", "beam_size": 1},
    "draws": {"sampling": sf.Sample(3)},
    "draws without replacement": {"sampling": sf.Sample(3, replacement=False)},
}
every_way = pytest.mark.parametrize("name", WAYS)


def table(seed, n):
    return (np.random.default_rng(seed).normal(size=(n, 8, WORDS, WORDS)) * 3).astype(np.float32)


def begun(scores, n_best, up=np.asarray, **options):
    """A decoder, and what makes its next step."""
    n = len(scores)
    given = {"start": up(np.arange(n) % WORDS), "end": [0, 1], "beam_size": 4, "max_new_tokens": 7} | options
    decoder = sf.BeamDecoder(None, n_best=min(n_best, given["beam_size"]), **given)

    def step():
        state = decoder.state
        source, tokens = arrays.to_host(state.source), arrays.to_host(state.tokens)
        decoder.step(up(scores[source, state.t, tokens]))

    return decoder, step


def common(lists):
    """What all begin with."""
    same = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*lists, strict=False))
    return [column[0] for column in same]


@every_way
@pytest.mark.parametrize("n_best", [1, 3])
def test_what_is_certain(name, n_best):
    """It is what all hypotheses share that are there, never gets shorter, and begins every result."""
    grew = 0
    for seed in range(8 if INTERPRETED else 25):
        n = 3
        decoder, step = begun(table(seed, n), n_best, **WAYS[name])
        seen = [decoder.agreed().to_nested()]
        assert seen == [[[]] * n]
        while decoder.active:
            step()
            found = decoder.agreed()
            assert type(found) is sf.Ragged
            assert found.data.dtype == np.int64
            there = decoder.result().tokens.to_nested()
            for source, tokens in zip(decoder.state.source.tolist(), decoder.state.prefixes.to_nested(), strict=True):
                there[source].append(tokens)
            assert found.to_nested() == [common(lists) for lists in there]
            seen.append(found.to_nested())
        result = decoder.result().tokens.to_nested()
        for i in range(n):
            assert seen[-1][i] == common(result[i])
            for before, now in itertools.pairwise(found[i] for found in seen):
                assert now[: len(before)] == before
            grew += any(0 < len(now[i]) < len(seen[-1][i]) for now in seen[1:-1])
    assert grew or n_best > 1 or INTERPRETED


def test_nothing_is_certain_of_nothing():
    scores = table(0, 2)
    scores[1] = -np.inf
    decoder, step = begun(scores, 1)
    step()
    assert decoder.agreed().to_nested()[1] == []
    assert sf.BeamDecoder(None, start=np.zeros(0, int), end=0, beam_size=2, max_new_tokens=3).agreed().to_nested() == []


def test_what_has_finished_so_far():
    """Hypotheses keep their scores, and only better ones push them out."""
    for seed in range(10):
        decoder, step = begun(table(seed, 4), 4)
        before: dict = {}
        while decoder.active:
            step()
            result = decoder.result()
            tokens, scores = result.tokens.to_nested(), iter(result.scores.tolist())
            now = {(i, tuple(one)): next(scores) for i, lists in enumerate(tokens) for one in lists}
            worst = {i: min(score for (j, _), score in now.items() if i == j) for i, _ in now}
            for (i, one), score in before.items():
                assert now[i, one] == score if (i, one) in now else score <= worst[i]
            assert len(now) >= len(before)
            before = now
        assert len(before) == 16


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA")
@on_each_library
def test_it_lies_where_the_scores_do(gpu):
    gpu.need()
    decoder, step = begun(table(3, 2), 1, gpu.up)
    host, host_step = begun(table(3, 2), 1)
    while decoder.active:
        step()
        host_step()
        found = decoder.agreed()
        assert type(found.data) is type(gpu.up(np.zeros(1)))
        assert arrays.to_host(found.data).tolist() == host.agreed().data.tolist()
