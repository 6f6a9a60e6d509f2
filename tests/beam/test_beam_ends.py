"""Ends apart from other candidates are worth what all candidates together are, to the last bit."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from libraries import on_each_library
from passes import INTERPRETED

import seqformats as sf
from seqformats.arrays import NUMPY, adopt
from seqformats.beam import candidates
from seqformats.beam.plan import Plan
from seqformats.beam.rows import Apart, Wanted
from seqformats.beam.search import NOTHING_APART
from seqformats.beam.selection import Selection

# --- candidates ------------------------------------------------------------------------------------------------------


class Case:
    """Rows of some beams with scores, limits and ends."""

    def __init__(self, seed, widths, sizes, vocabulary, ends, form, values, limited):
        random = self.random = np.random.default_rng(seed)
        rows = sum(widths)
        self.width, self.form, self.ends = vocabulary, form, ends
        self.sizes = np.array(sizes)
        end = np.cumsum(widths)
        self.begin, self.end = end - widths, end
        self.x = self.numbers(values, (rows, vocabulary))
        self.running = (-random.integers(0, 3, rows) / 4).astype(np.float32)
        self.plan = self.limits(limited) if limited else None

    def numbers(self, values, shape):
        """Scores of all tokens: "random", "ties", "masked", or "ends", which are the best by far."""
        random = self.random
        x = random.normal(0, 2, shape) if values == "random" else -random.integers(0, 4, shape) / 4
        if values == "masked":
            x[random.random(shape) < 0.5] = -np.inf
            x[random.random(shape[0]) < 0.3] = -np.inf
        if values == "ends":
            for b, tokens in enumerate(self.ends):
                x[self.begin[b] : self.end[b], tokens] += 5
        return x.astype(np.float32)

    def limits(self, kinds):
        plan, (rows, width), random = Plan(*self.x.shape), self.x.shape, self.random
        if "allow" in kinds:
            kept = [np.flatnonzero(random.random(width) < 0.6) for _ in range(rows)]
            at = np.cumsum([0, *map(len, kept)])
            free = random.random(rows) < 0.4
            plan.allow(np.where(free, -1, at[:-1]), np.where(free, -1, at[1:]), np.concatenate(kept))
        if "change" in kinds:
            count = int(random.integers(1, 2 + rows * width // 2))
            plan.change(random.integers(0, rows, count), random.integers(0, width, count), 1.5)
            plan.change(random.integers(0, rows, count), random.integers(0, width, count), -0.5, 1.0, divisor=0.25)
            plan.ban(random.integers(0, rows, count), random.integers(0, width, count))
        return plan.finish()

    def best(self, apart, up=None):
        """The best candidates of each beam, as pairs."""
        at = np.cumsum([0, *map(len, self.ends)]).astype(np.int64)
        tokens = np.concatenate([np.empty(0, np.int64), *self.ends]).astype(np.int64)
        asked = self.sizes if apart else np.maximum(2, 1 + np.diff(at)) * self.sizes
        x = self.x if up is None else up(self.x)
        query = candidates.Query(
            NUMPY if up is None else adopt(x, "x")[0],
            x,
            self.running,
            self.form,
            self.plan,
            Wanted(self.begin, self.end, asked),
            Apart(at[:-1], at[1:], tokens) if apart else NOTHING_APART,
            int((self.end - self.begin).max()),
            int(asked.max()),
            None,
        )
        found = candidates.select(query)
        values, ids = (a.reshape(self.sizes.size, -1) for a in (found.values, found.ids))
        return [[*zip(values[b, :n], ids[b, :n], strict=True)] for b, n in enumerate(found.counts.tolist())]

    def is_end(self, b, pair):
        return pair[1] % self.width in self.ends[b]

    def check(self, up=None):
        """The first k of both, and the first k that are no ends."""
        together, apart = self.best(False, up), self.best(True, up)
        for b, k in enumerate(self.sizes.tolist()):
            others, same = ([pair for pair in found[b] if not self.is_end(b, pair)][:k] for found in (together, apart))
            assert same == others
            assert apart[b][:k] == together[b][:k]
            ends = [pair for pair in apart[b] if self.is_end(b, pair)]
            assert len(ends) <= k
            assert len(apart[b]) == len(others) + len(ends), "k of each at most"
            order = [(-value, id) for value, id in apart[b]]
            assert order == sorted(order)
            if up is None and len(others) == k:
                assert all(pair[0] >= others[-1][0] for pair in ends), "those that cannot be among the first are out"


@st.composite
def cases(draw, most=300, longest=90):
    vocabulary = draw(st.sampled_from([1, 2, 5, 15, 16, 17, 40, 127, 130, most]))
    beams = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 5, 31, 32, 33, longest]), min_size=beams, max_size=beams))
    widths = [draw(st.integers(b == 0, min(size, 4))) for b, size in enumerate(sizes)]
    parts = [draw(st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0])) for _ in range(beams)]
    seed = draw(st.integers(0, 10**6))
    random = np.random.default_rng(seed)
    ends = [np.flatnonzero(random.random(vocabulary) < part) for part in parts]
    form = draw(st.sampled_from([candidates.LOGITS, candidates.LOG_PROBABILITIES, candidates.MASKED]))
    values = draw(st.sampled_from(["random", "ties", "masked", "ends"]))
    limited = draw(st.sampled_from([(), ("allow",), ("change",), ("allow", "change")]))
    return Case(seed, widths, sizes, vocabulary, ends, form, values, limited)


@given(cases())
def test_the_candidates(case):
    case.check()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA")
@on_each_library
@pytest.mark.parametrize("values", ["random", "ties", "masked", "ends"])
@pytest.mark.parametrize("form", [candidates.LOGITS, candidates.LOG_PROBABILITIES, candidates.MASKED])
def test_the_candidates_of_a_gpu(gpu, form, values):
    gpu.need()
    for seed, limited in enumerate([(), ("allow",), ("change",)]):
        ends = [np.array([0, 3, 4, 9]), np.arange(12), np.array([], np.int64), np.array([11])]
        Case(seed, [2, 1, 2, 0], [3, 2, 20, 1], 12, ends, form, values, limited).check(gpu.up)


@pytest.mark.parametrize("width", [1024, 1030, 1500])
@pytest.mark.parametrize("values", ["random", "ties", "masked", "ends"])
def test_large_vocabularies(width, values):
    """Where a block has 16 tokens, and 128."""
    random = np.random.default_rng(width)
    for part in (0.01, 0.3):
        ends = [np.flatnonzero(random.random(width) < part) for _ in range(2)]
        sizes = [4, 8] if INTERPRETED else [4, 40]
        Case(width, [3, 1], sizes, width, ends, candidates.LOGITS, values, ()).check()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_scores_at_an_end(bad):
    for end in (0, [0, 3]):
        scores = np.zeros((2, 5), np.float32)
        scores[1, 0] = bad
        decoder = sf.BeamDecoder(None, start=np.zeros(2, int), end=end, beam_size=2, max_new_tokens=3)
        with pytest.raises(ValueError, match="source 1 at step 0, row 1, hold NaN"):
            decoder.step(scores)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA")
@on_each_library
def test_bad_scores_of_a_gpu(gpu):
    gpu.need()
    start = gpu.up(np.zeros(2, int))
    scores = np.zeros((2, 5), np.float32)
    scores[1, 4] = np.nan
    decoder = sf.BeamDecoder(None, shared=start, start=start, end=[0, 3], beam_size=2, max_new_tokens=3)
    with pytest.raises(ValueError, match="source 1 at step 0, row 1, hold NaN"):
        decoder.step(gpu.up(scores))


# --- searches --------------------------------------------------------------------------------------------------------


@contextmanager
def together(apart):
    """Searches have all candidates in one list; `apart` hears whether they would have had them apart."""
    own = Selection._lists_apart
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Selection, "_lists_apart", lambda self, sources: apart.append(own(self, sources)) or False)
        yield


def results(options, scores):
    """What a search finds and every step of it, as lists."""
    found = sf.beam_search(
        lambda state: (scores[(7 * state.tokens + 3 * state.t + state.source) % len(scores)], None),
        None,
        trace=True,
        **options,
    )
    steps = [(a.to_nested(), b.to_nested()) for a, b in zip(found.trace.ids, found.trace.scores, strict=True)]
    return found.tokens.to_nested(), found.scores.tolist(), found.token_scores.to_nested(), found.rows, steps


MORE = {
    "nothing": {},
    "thresholds": {"prune": sf.Prune(relative=0.2, absolute=3.0)},
    "safe": {"prune": sf.Prune(safe=True)},
    "groups": {"constraints": [sf.DiverseGroups(2, 0.5)]},
    "limits": {"constraints": [sf.BannedTokens([3, 5]), sf.NoRepeatNgram(2), sf.RepetitionPenalty(1.3)]},
    "early": {"min_new_tokens": 2},
    "on_scores": {"on_scores": lambda scores, state: scores * 0.5},
}


@pytest.mark.parametrize("name", MORE)
@given(data=st.data())
def test_searches(name, data):
    seed = data.draw(st.integers(0, 10**6))
    random = np.random.default_rng(seed)
    vocabulary = data.draw(st.sampled_from([6, 9, 20]))
    scores = random.normal(0, 2, (11, vocabulary)) if data.draw(st.booleans()) else -random.integers(0, 3, (11, 1, 1))
    scores = np.broadcast_to(scores.reshape(11, -1), (11, vocabulary)).astype(np.float32).copy()
    scores[random.random(scores.shape) < data.draw(st.sampled_from([0, 0.4]))] = -np.inf
    counts = data.draw(st.lists(st.integers(0, 6), min_size=3, max_size=3))
    ends = [random.permutation(vocabulary)[:count] for count in counts]
    options = {
        "start": np.arange(3),
        "end": sf.Ragged(np.concatenate(ends), counts),
        "beam_size": np.array(data.draw(st.lists(st.sampled_from([2, 4, 8]), min_size=3, max_size=3))),
        "max_new_tokens": 4,
        "n_best": 2,
        "early_stopping": data.draw(st.sampled_from([False, True, "never"])),
        "length_penalty": data.draw(st.sampled_from([0.0, 1.0, -1.0])),
        **MORE[name],
    }
    apart = []
    with together(apart):
        wanted = results(options, scores)
    assert apart == [True]
    assert results(options, scores) == wanted


LOOKING = {
    "a token's threshold": {"prune": sf.Prune(local=0.1)},
    "some of each row": {"prune": sf.Prune(per_parent=3)},
    "on_candidates": {"on_candidates": lambda ids, scores, state: (ids, scores)},
    "on_selected": {"on_selected": lambda ids, scores, parents, state: (ids, scores, parents)},
    "phrases": {"constraints": [sf.LexicalConstraints([[4]])]},
}


@pytest.mark.parametrize("name", LOOKING)
def test_together_where_something_looks_at_all_of_them(name):
    apart = []
    with together(apart):
        sf.BeamDecoder(None, start=np.zeros(2, int), end=[0, 1], beam_size=2, max_new_tokens=3, **LOOKING[name])
    assert apart == [False]


def test_a_hook_sees_all_candidates():
    seen = []

    def hook(ids, scores, parents, state):
        seen.append(sum(ids.lod[-1][-1:]))
        return ids, scores, parents

    decoder = sf.BeamDecoder(None, start=[0], end=[0, 1, 2], beam_size=2, max_new_tokens=3, on_selected=hook)
    decoder.step(np.arange(9, dtype=np.float32)[None])
    assert seen == [8], "(1 + 3 ends) * 2"
