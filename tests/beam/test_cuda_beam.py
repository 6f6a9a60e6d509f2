"""Beam search on a GPU finds what it finds on the CPU, token for token, and copies little.

Like the tests beside it, these run on Numba's device arrays in the simulator, and where there is a GPU on Numba, torch
and CuPy arrays (``pytest -m cuda``).
"""

import beam_oracle
import grouped_scores
import numpy as np
import pytest
from elsewhere import There
from libraries import SIMULATED, OnNumba, OnTorch, busy, need_gpu, on_each_library
from of_ptx import machine

import seqformats as sf
from seqformats import arrays
from seqformats.arrays.cupy import CuPy
from seqformats.arrays.torch import Torch
from seqformats.beam import candidates
from seqformats.beam.search import NOTHING_APART
from seqformats.formats.leaves import leaves, rebuild
from seqformats.launch import kernel as launch
from seqformats.launch.grids import chunks_of

# Numbers in the simulator are NumPy's, which warn where a GPU goes on.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA"),
]

every_rule = pytest.mark.parametrize("rule", beam_oracle.RULES)

# Five sources, each with settings of its own.
RAGGED = {
    "start": 0,
    "end": sf.Ragged(np.array([0, 0, 3, 4, 1, 2, 3, 2]), [1, 2, 1, 3, 1]),
    "beam_size": np.array([2, 3, 1, 4, 2]),
    "max_new_tokens": np.array([4, 3, 5, 2, 4]),
    "min_new_tokens": np.array([0, 2, 0, 1, 0]),
    "length_penalty": np.array([1.0, 0.0, 0.6, -1.0, 2.0]),
    "n_best": 1,
}
PLAIN = {"start": 0, "end": [2, 5], "beam_size": 3, "max_new_tokens": 4, "n_best": 3}


def host(x):
    """Everything in it as NumPy arrays."""
    return rebuild(x, [arrays.to_host(leaf) for leaf in leaves(x)])


class CPU:
    """What the tests do with arrays, where there is no GPU."""

    kind = "cpu"

    def up(self, x):
        return x


class Model:
    """Logits of a table, and memories that check where their rows go."""

    def __init__(self, gpu, mode="random", vocabulary=7, seed=1, n=5):
        self.gpu, self.n = gpu, n
        self.table = beam_oracle.TableModel(seed, vocabulary, mode, n)
        self.states = 0

    def memory(self):
        """Of each row its source, and room for what it has seen."""
        return {"source": self.gpu.up(np.arange(self.n)), "seen": (self.gpu.up(np.full((self.n, 6), -1)), None)}

    def __call__(self, state):
        self.check(state)
        scores = self.table.rows(range(self.n), OnHost(state))
        seen = host(state.memory["seen"][0]).copy()
        seen[:, state.t] = host(state.tokens)
        return self.gpu.up(scores), {"source": state.memory["source"], "seen": (self.gpu.up(seen), None)}

    def check(self, state):
        leaves = (state.tokens, state.source, state.parents, state.prefixes.data)
        for leaf in leaves:
            assert arrays.library_of(leaf).kind(leaf) == getattr(self.gpu, "kind", "cuda")
        assert host(state.memory["source"]).tolist() == host(state.source).tolist()
        history = beam_oracle.lists(host(state.prefixes))
        assert host(state.memory["seen"][0])[:, 1 : state.t].tolist() == [tokens[:-1] for tokens in history]
        self.states += 1


class OnHost:
    """A state with its arrays on the host."""

    def __init__(self, state):
        self.source, self.prefixes = host(state.source), host(state.prefixes)


def search(gpu, options, mode="random", vocabulary=7, seed=1, n=5, hooks=()):
    """The table's best sequences, and how many states the model has seen."""
    model = Model(gpu, mode, vocabulary, seed, n)
    return sf.beam_search(model, model.memory(), **{name: HOOKS[name](gpu) for name in hooks}, **options), model.states


def assert_same(found, wanted):
    """The same hypotheses, the one lying on the GPU."""
    for leaf in (found.tokens.data, found.scores, found.token_scores.data):
        assert arrays.library_of(leaf).kind(leaf) == "cuda"
    assert host(found.tokens).to_nested() == wanted.tokens.to_nested()
    assert found.rows == wanted.rows
    np.testing.assert_allclose(host(found.scores), wanted.scores, 1e-6, 1e-6)
    np.testing.assert_allclose(host(found.token_scores.data), wanted.token_scores.data, 1e-5, 1e-6)


def compare(gpu, **options):
    gpu.need()
    where = {name: options.pop(name) for name in ("mode", "vocabulary", "seed", "n", "hooks") if name in options}
    wanted, steps = search(CPU(), options, **where)
    found, seen = search(gpu, options, **where)
    assert_same(found, wanted)
    assert seen == steps
    assert wanted.rows
    return found, wanted


@on_each_library
@pytest.mark.parametrize("mode", ["random", "ties", "masked"])
@every_rule
def test_rules(gpu, rule, mode):
    options = dict(RAGGED, min_new_tokens=0) if (rule, mode) == ("ct2", "ties") else RAGGED
    compare(gpu, rule=rule, mode=mode, **options)
    compare(gpu, rule=rule, mode=mode, **PLAIN)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("vocabulary", [7, 300, 5000])
def test_what_the_compiler_makes(vocabulary, monkeypatch):
    """The choice of few candidates, of some, and of groups, as code for a GPU that runs on the CPU."""
    with machine(monkeypatch) as gpu:
        compare(gpu, mode="ties", vocabulary=vocabulary, **RAGGED)
        banned = [sf.BannedTokens([3]), sf.RepetitionPenalty(1.3)]
        compare(gpu, rule="ct2", vocabulary=vocabulary, constraints=banned, **PLAIN)


@on_each_library
@pytest.mark.parametrize("early_stopping", [True, "never"])
def test_early_stopping(gpu, early_stopping):
    compare(gpu, early_stopping=early_stopping, **RAGGED)


@on_each_library
@pytest.mark.parametrize(
    "prune", [{"relative": 0.3}, {"absolute": 1.5, "local": 0.05}, {"per_parent": 1}, {"per_parent": 2}, {"safe": True}]
)
def test_thresholds(gpu, prune):
    compare(gpu, prune=sf.Prune(**prune), **RAGGED)


CONSTRAINTS = {
    "allowed": [sf.AllowedTokens([[1, 3], [4], [1, 5, 6], [6, 6]])],
    "allowed of each": [sf.AllowedTokens([[[1], [3, 4]], [[4]], [[5, 1]], [[6, 1], [6]], [[1, 3, 4]]])],
    "prefix": [sf.ForcedPrefix([[3], [], [1, 6], [5], []])],
    "forced": [sf.ForcedTokens({0: 3, 2: 1})],
    "biases": [
        sf.SequenceBias({2: 1.5, (3, 1): -2.0}),
        sf.ExponentialDecayLengthPenalty(0, 1.5),
        sf.ForcedEnd(free=True),
    ],
    "banned": [sf.BannedTokens([6, [3, 1], [4, 4]])],
    "ngram": [sf.NoRepeatNgram(1)],
    "repetition": [sf.RepetitionPenalty(1.5)],
    "above 0": [sf.SequenceBias({2: 3.0, 0: 1.0}), sf.RepetitionPenalty(1.5), sf.ExponentialDecayLengthPenalty(0, 2.5)],
    "several": [sf.AllowedTokens([[1, 3], [1, 6], [4]]), sf.BannedTokens([3]), sf.RepetitionPenalty(1.5)],
    "lexical": [sf.LexicalConstraints([[[3, 1]], [], [[6]], [[1], [3]], [[1, 6]]])],
}


@on_each_library
@pytest.mark.parametrize("rule", ["hf", "ct2", "fairseq"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(gpu, name, rule):
    if (name, rule) == ("lexical", "ct2"):
        pytest.skip("all rules but one are enough")
    options = {**RAGGED, "end": 0, "max_new_tokens": 4} if name == "lexical" else RAGGED
    compare(gpu, rule=rule, constraints=CONSTRAINTS[name], n=5, **options)


@on_each_library
def test_prompts_and_what_is_kept(gpu):
    """The prompt lies beside the memories, and what is kept, and the rows of each token, beside the tokens."""
    gpu.need()
    prompts = sf.Ragged(np.array([3, 4, 3, 0, 5, 0, 0, 1, 0, 0]), [4, 2, 1, 2, 1])
    options = RAGGED | {"start": None, "prompt": prompts, "trace": True}
    options["constraints"] = [sf.NoRepeatNgram(2), sf.RepetitionPenalty(1.5)]

    def found_on(where):
        model = Model(where)

        def step(state):
            assert arrays.library_of(state.prompt.data).kind(state.prompt.data) == getattr(where, "kind", "cuda")
            assert host(state.prompt).to_nested() == prompts.to_nested()
            scores, memory = model(state)
            numbers = host(state.source) * 1000 + np.arange(len(host(state.source))) + 100 * state.t
            return scores, memory, {"row": where.up(numbers), "pairs": (where.up(np.stack([numbers, numbers], 1)),)}

        return sf.beam_search(step, model.memory(), **options)

    found, wanted = found_on(gpu), found_on(CPU())
    assert_same(found, wanted)
    for ours, theirs in (
        (found.kept["row"], wanted.kept["row"]),
        (found.kept["pairs"][0], wanted.kept["pairs"][0]),
        (found.parents, wanted.parents),
    ):
        assert arrays.library_of(ours.data).kind(ours.data) == "cuda"
        assert host(ours).data.tolist() == theirs.data.tolist()
        assert ours.lengths() == theirs.lengths()
    assert host(found.ended).tolist() == wanted.ended.tolist()
    assert arrays.library_of(found.ended).kind(found.ended) == "cuda"


@on_each_library
@pytest.mark.parametrize("rule", ["hf", "marian"])
def test_groups(gpu, rule):
    options = dict(PLAIN, beam_size=4, n_best=4, rule=rule, constraints=[sf.DiverseGroups(2, 0.7)])
    compare(gpu, n=3, **options)
    options["constraints"] = [*options["constraints"], sf.BannedTokens([1])]
    compare(gpu, n=3, **options)


@on_each_library
def test_sampling(gpu):
    compare(gpu, sampling=sf.Stochastic(seed=np.arange(5)), **RAGGED)
    compare(gpu, sampling=sf.Stochastic(seed=7), constraints=[sf.BannedTokens([3])], **PLAIN)


DRAWN = {
    "plain": {},
    "heat": {"temperature": 1.5},
    "top_k": {"top_k": 3},
    "top_p and typical": {"top_p": 0.9, "typical": 0.7},
    "all": {"temperature": 0.7, "top_k": 5, "top_p": 0.95, "min_p": 0.02, "typical": 0.9},
}


@on_each_library
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("name", DRAWN)
def test_draws(gpu, name, replacement):
    """The same tokens as on the host."""
    sample = sf.Sample(3, replacement=replacement, **DRAWN[name])
    compare(gpu, sampling=sample, **RAGGED)
    if not SIMULATED or (name == "all" and replacement):
        compare(gpu, sampling=sample, constraints=[sf.BannedTokens([3])], hooks=["on_scores"], mode="masked", **PLAIN)
    if not SIMULATED or (name == "all" and not replacement):
        compare(gpu, sampling=sample, vocabulary=41, mode="ties", **PLAIN)


@on_each_library
@pytest.mark.parametrize("mode", ["random", "ties", "masked"])
def test_greedy(gpu, mode):
    options = dict(PLAIN, beam_size=1, n_best=1, rule="greedy")
    compare(gpu, mode=mode, **options)
    compare(
        gpu, mode=mode, constraints=[sf.RepetitionPenalty(1.3), sf.NoRepeatNgram(2)], hooks=["on_scores"], **options
    )
    compare(gpu, mode=mode, vocabulary=300, constraints=[sf.RepetitionPenalty(1.3)], **options)


def on_scores(gpu):
    def hook(scores, state):
        assert arrays.library_of(scores).dtype_name(scores.dtype) == "float32"
        changed = host(scores).copy()
        changed[:, 1] = -np.inf
        changed[:, 3] += 0.25 * host(state.source)
        return gpu.up(changed)

    return [hook, lambda scores, state: scores]


def on_candidates(gpu):
    def hook(ids, scores, state):
        tokens, values = host(ids), host(scores)
        rows, keep = rows_of(ids), tokens.data % 3 != 1
        levels = [ids.lod[0], np.cumsum([0, *np.bincount(rows[keep], minlength=len(ids.lod[1]) - 1)])]
        return sf.LoD(gpu.up(tokens.data[keep]), levels), sf.LoD(gpu.up(values.data[keep]), levels)

    return hook


def on_selected(gpu):
    def hook(ids, scores, parents, state):
        tokens, values, rows = host(ids).data, host(scores).data, host(parents)
        assert rows.tolist() == rows_of(ids).tolist()
        keep = tokens != 4
        return gpu.up(tokens[keep]), gpu.up(values[keep]), gpu.up(rows[keep])

    return hook


def rows_of(ids):
    """Of which row each candidate is."""
    return np.repeat(np.arange(len(ids.lod[1]) - 1), np.diff(ids.lod[1]))


# They take numbers to the host and back, as `gpu` does.
HOOKS = {"on_scores": on_scores, "on_candidates": on_candidates, "on_selected": on_selected}


@on_each_library
@pytest.mark.parametrize("rule", ["hf", "ct2"])
@pytest.mark.parametrize("name", HOOKS)
def test_hooks(gpu, name, rule):
    compare(gpu, rule=rule, hooks=[name], **RAGGED)


@on_each_library
def test_hooks_and_limits_together(gpu):
    """Everything but what chooses candidates by itself, with limits before the probabilities and behind them."""
    limits = [sf.NoRepeatNgram(2), sf.RepetitionPenalty(1.2)]
    for rule in ("gnmt", "ct2"):
        compare(gpu, rule=rule, hooks=HOOKS, constraints=limits, prune=sf.Prune(per_parent=2, absolute=6), **RAGGED)
    compare(gpu, hooks=["on_scores", "on_candidates"], sampling=sf.Stochastic(seed=3), **RAGGED)
    compare(gpu, hooks=["on_scores"], constraints=[*limits, sf.LexicalConstraints([[3]])], **{**RAGGED, "end": 0})


@on_each_library
def test_hooks_see_the_same_candidates(gpu):
    """As many of a row as its own source may want, whatever others want."""
    gpu.need()
    both = []
    for here in (CPU(), gpu):
        seen = []

        def look(ids, scores, state, seen=seen):
            seen.append((host(ids).to_nested(), np.round(host(scores).data, 4).tolist()))
            return ids, scores

        search(here, {**RAGGED, "on_candidates": look})
        both.append(seen)
    assert both[0] == both[1]


@on_each_library
def test_a_hook_follows_on_the_device(gpu):
    gpu.need()

    class Hook:
        seen = []

        def __call__(self, scores, state):
            return scores

        def follow(self, parents):
            assert arrays.library_of(parents).kind(parents) == "cuda"
            self.seen.append(host(parents).tolist())

    hook = Hook()
    _, steps = search(gpu, dict(PLAIN, on_scores=hook))
    assert len(hook.seen) == steps
    assert hook.seen[0] == np.repeat(np.arange(5), 3).tolist()


@on_each_library
def test_traces(gpu):
    found, wanted = compare(gpu, trace=True, **RAGGED)
    for name in ("ids", "scores"):
        for one, other in zip(getattr(found.trace, name), getattr(wanted.trace, name), strict=True):
            assert arrays.library_of(one.data).kind(one.data) == "cuda"
            assert [level.tolist() for level in one.lod] == [level.tolist() for level in other.lod]
            np.testing.assert_allclose(host(one).data, other.data, 1e-6, 1e-6)


@on_each_library
@pytest.mark.parametrize("width", [1, 2, 40, 300])
def test_vocabularies(gpu, width):
    """Fewer tokens than a block has threads, and more than a thread has turns."""
    options = {"start": 0, "end": 0, "beam_size": np.array([3, 9]), "max_new_tokens": 2, "n_best": 3}
    table = np.random.default_rng(width).integers(0, 9, (9, width)).astype("f4")
    both = []
    for here in (CPU(), gpu):
        here is gpu and gpu.need()

        def step(state, here=here):
            return here.up(table[host(state.tokens) % 9]), state.memory

        both.append(sf.beam_search(step, here.up(np.zeros(2)), **options))
    wanted, found = both
    assert_same(found, wanted)


@on_each_library
@pytest.mark.parametrize("scores", grouped_scores.SCORES)
@pytest.mark.parametrize("form", grouped_scores.FORMS)
@pytest.mark.parametrize("width", [40, 56, 272, 300] if SIMULATED else [4096, 8192, 8193, 8704, 9984, 50_000])
def test_candidates_by_groups(gpu, width, form, scores):
    """Wide rows, whose groups are one chunk that is not full, or several; one to seven scores are left for a thread."""
    gpu.need()
    library = arrays.library_of(gpu.up(np.zeros(1, "f4")))
    query = grouped_scores.query(library, gpu.up, width, form, scores)
    assert candidates._by_groups(query, 64)
    assert chunks_of(width)
    grouped_scores.assert_chosen(library, query)


@on_each_library
@pytest.mark.parametrize("form", grouped_scores.FORMS)
@pytest.mark.parametrize("width", [1, 5, 30])
def test_candidates_of_narrow_rows(gpu, width, form):
    """Each row is looked through by a block, and some are in no beam."""
    gpu.need()
    library = arrays.library_of(gpu.up(np.zeros(1, "f4")))
    assert not chunks_of(width)
    grouped_scores.assert_chosen(library, grouped_scores.query(library, gpu.up, width, form, "random"))


@on_each_library
def test_no_rows_have_no_candidates(gpu):
    gpu.need()
    x, none = gpu.up(np.zeros((0, 9), "f4")), np.zeros(2, np.int64)
    wanted = candidates.Wanted(none, none, none + 3)
    given = arrays.library_of(x), x, np.zeros(0, "f4"), candidates.LOGITS, None, wanted, NOTHING_APART, 0, 3, None
    assert candidates.select(candidates.Query(*given)).counts.tolist() == [0, 0]


def assert_merged(gpu, room, most, width):
    """Beams of no row to nine, of whose rows each has so many candidates, with equal scores, and a bad row."""
    library, rng = arrays.library_of(gpu.up(np.zeros(1, "f4"))), np.random.default_rng(room)
    lengths = np.array([2, 0, 5, 1, 9, 3, 1])
    end = lengths.cumsum()
    rows, begin = int(end[-1]), end - lengths
    x = (rng.integers(-3, 3, (rows, width)) * rng.choice([0.5, 1e30], (rows, 1))).astype("f4")
    x[rng.random(rows) < 0.3, : width - room // 2] = -np.inf
    x[begin[5] + 1, 0] = np.nan
    running, wanted = rng.integers(0, 2, rows).astype("f4"), candidates.Wanted(begin, end, most)

    def found(library, put):
        given = (
            library,
            put(x),
            running,
            candidates.LOG_PROBABILITIES,
            None,
            wanted,
            NOTHING_APART,
            9,
            int(most.max()),
            None,
        )
        return candidates.select(candidates.Query(*given), room)

    here, there = found(arrays.NUMPY, lambda x: x), found(library, gpu.up)
    assert here.counts[5] == -1 - begin[5] - 1
    np.testing.assert_array_equal(there.counts, here.counts)
    here, there = (x._replace(counts=np.maximum(x.counts, 0)) for x in (here, there))
    best, others = candidates.find_used(here), candidates.find_used(there)
    np.testing.assert_array_equal(there.values[others], here.values[best])
    np.testing.assert_array_equal(there.ids[others], here.ids[best])


def wanted_of(room):
    """Numbers of candidates that differ, and the same for all: then one more would be in the place of others."""
    return [np.array([3, 4, 2 * room, 0, 7, 5, 1]), np.full(7, 3)]


@on_each_library
@pytest.mark.parametrize("room", [1, 10, 28, 29, 70])
def test_lists_are_merged(gpu, room):
    """A block compares up to 256 candidates with each other, and looks up where more belong."""
    gpu.need()
    for most in wanted_of(room):
        for width in (100, 200 if SIMULATED else 9000):
            assert_merged(gpu, room, most, width)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("room", [28, 29])
def test_lists_are_merged_as_compiled(room, monkeypatch):
    with machine(monkeypatch) as gpu:
        for most in wanted_of(room):
            for width in (100, 9000):
                assert_merged(gpu, room, most, width)


def bad(place):
    """Scores for three rows, of which the second is bad."""
    scores = np.zeros((3, 9), "f4")
    scores[1, place] = {0: np.nan, 5: np.inf, 8: np.nan}[place]
    return scores


@on_each_library
@pytest.mark.parametrize("options", [{}, {"prune": sf.Prune(per_parent=1)}, {"on_candidates": lambda *x: x[:2]}])
@pytest.mark.parametrize("place", [0, 5, 8])
@every_rule
def test_bad_scores(gpu, rule, place, options):
    gpu.need()
    options = {"start": 0, "end": 2, "beam_size": 2, "max_new_tokens": 4, "rule": rule, **options}
    with pytest.raises(ValueError, match="scores of source 1 at step 0, row 1, hold NaN or"):
        sf.beam_search(lambda state: (gpu.up(bad(place)), state.memory), gpu.up(np.zeros(3)), **options)


@on_each_library
@pytest.mark.parametrize("changed", ["sampling", "lexical", "on_scores"])
def test_bad_scores_elsewhere(gpu, changed):
    gpu.need()
    more = {
        "sampling": {"sampling": sf.Stochastic(seed=1)},
        "draws": {"sampling": sf.Sample(1)},
        "lexical": {"constraints": [sf.LexicalConstraints([[3]])]},
        "on_scores": {"on_scores": lambda scores, state: gpu.up(bad(8))},
    }[changed]
    scores = np.zeros((3, 9), "f4") if changed == "on_scores" else bad(0)
    with pytest.raises(ValueError, match="source 1"):
        sf.beam_search(
            lambda state: (gpu.up(scores), None),
            gpu.up(np.zeros(3)),
            start=0,
            end=2,
            beam_size=2,
            max_new_tokens=4,
            **more,
        )


@on_each_library
def test_rows_without_candidates(gpu):
    gpu.need()

    def step(here):
        def scores(state):
            found = np.full((len(host(state.source)), 5), -np.inf, "f4")
            found[host(state.source) != 1, 1:] = 0
            return here.up(found), state.memory

        return scores

    options = {"start": 0, "end": 2, "beam_size": 2, "max_new_tokens": 2, "n_best": 2}
    for rule in beam_oracle.RULES:
        wanted = sf.beam_search(step(CPU()), np.zeros(3), rule=rule, **options)
        assert_same(sf.beam_search(step(gpu), gpu.up(np.zeros(3)), rule=rule, **options), wanted)


@on_each_library
def test_no_source_at_all(gpu):
    gpu.need()
    found = sf.beam_search(lambda state: None, gpu.up(np.zeros((0, 3))), start=0, end=0, beam_size=2, max_new_tokens=3)
    assert found.tokens.to_nested() == []
    assert arrays.library_of(found.scores).kind(found.scores) == "cuda"


@on_each_library
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_scores_of_any_float(gpu, dtype):
    gpu.need()
    logits = np.array([[0.0, 1.0, -2.0]], dtype)
    options = {"start": 0, "end": 0, "beam_size": 3, "max_new_tokens": 1, "n_best": 3}
    wanted = sf.beam_search(lambda state: (logits, None), np.zeros(1), **options)
    assert_same(sf.beam_search(lambda state: (gpu.up(logits), None), gpu.up(np.zeros(1)), **options), wanted)


@on_each_library
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded], ids=["Ragged", "Padded"])
def test_encodings_follow(gpu, kind):
    """Of every source something of another length is remembered."""
    gpu.need()
    x = sf.convert(sf.Ragged(np.arange(12.0).reshape(6, 2), [3, 0, 2, 1, 0]), kind)
    expected = sf.convert(x, list)
    model = Model(gpu)

    def step(state):
        there = sf.convert(host(state.memory), list)
        for source, part in zip(host(state.source).tolist(), there, strict=True):
            assert np.array_equal(part, expected[source])
        scores = model.table.rows(range(5), OnHost(state))
        return gpu.up(scores), state.memory

    sf.beam_search(step, gpu.up(x), **RAGGED)


@on_each_library
def test_everything_is_on_one_device(gpu):
    gpu.need()
    options = {"start": 0, "end": 0, "beam_size": 2, "max_new_tokens": 3}
    scores = np.zeros((2, 3), "f4")
    with pytest.raises(sf.DeviceError, match="scores"):
        sf.beam_search(lambda state: (scores, state.memory), gpu.up(np.zeros(2)), **options)
    with pytest.raises(sf.DeviceError):
        sf.beam_search(lambda state: (gpu.up(scores), state.memory), np.zeros(2), **options)
    with pytest.raises(sf.DeviceError, match="memory"):
        sf.beam_search(lambda state: (scores, state.memory), (gpu.up(np.zeros(2)), np.zeros(2)), **options)
    decoder = sf.BeamDecoder(gpu.up(np.zeros(2)), **options)
    scores[:, 1] = 1
    decoder.step(gpu.up(scores), gpu.up(np.zeros(2)))
    rows = [0] * len(decoder.state.prefixes)
    with pytest.raises(sf.DeviceError):
        decoder.step(gpu.up(scores[rows]), np.zeros(len(rows)))


@on_each_library
def test_scores_on_the_device_alone(gpu):
    """Without a memory the state and the results are NumPy's."""
    gpu.need()
    table = np.random.default_rng(3).normal(size=(3, 5)).astype("f4")
    options = {"start": np.array([0, 1]), "end": 0, "beam_size": 2, "max_new_tokens": 3, "n_best": 2}
    wanted = sf.beam_search(lambda state: (table[state.tokens % 3], None), None, **options)
    found = sf.beam_search(lambda state: (gpu.up(table[state.tokens % 3]), None), None, **options)
    assert type(found.scores) is np.ndarray
    assert found.tokens.to_nested() == wanted.tokens.to_nested()
    np.testing.assert_allclose(found.scores, wanted.scores, 1e-6, 1e-6)


@pytest.mark.parametrize("hooks", [[], ["on_candidates"]])
def test_memory_of_another_library_is_met_by_address(elsewhere, hooks):
    class OnThere:
        def need(self):
            pass

        def up(self, x):
            return np.asarray(x).view(There)

    elsewhere.from_host = lambda x, like: x.view(There)
    compare(OnThere(), hooks=hooks, constraints=[sf.NoRepeatNgram(2)], **RAGGED)


# ---------------------------------------------------------------------------------------- what a step costs


@pytest.fixture
def traffic(monkeypatch):
    """Launches of kernels by name, arrays that go up ("up") and come back ("down"), in their order."""
    log = []

    def watched(owner, name, word):
        found = getattr(owner, name)

        def counted(*args, **options):
            log.append(word if type(word) is str else word(*args))
            return found(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    need_gpu()
    from seqformats.arrays.numba import NumbaDevice
    from seqformats.launch import cuda, resident

    monkeypatch.setattr(launch, "_launchers", {})  # which remember what they were made of
    watched(cuda, "start", lambda kernel, *_: kernel.name)
    watched(resident.Place, "bring", "up")  # by a copy or by a kernel
    for kind in (NumbaDevice, Torch, CuPy):
        watched(kind, "to_numpy", "down")
        watched(kind, "from_host", "up")
    return log


def costs(gpu, log, options, hooks=()):
    """What a step in the middle of a search adds to the log; the memory is one array, and scores come from nowhere."""
    gpu.need()
    scores = gpu.up(np.random.default_rng(5).normal(size=(8, 9)).astype("f4"))
    memory = gpu.up(np.arange(8.0).reshape(8, 1))
    options = {"start": 0, "end": 8, "beam_size": 3, "max_new_tokens": 5, "min_new_tokens": 0, **options}
    hooks = {name: HOOKS[name](gpu) for name in hooks}
    decoder = sf.BeamDecoder(memory[:2], **options, **hooks)
    found = []
    while decoder.active:
        rows = len(decoder.state.parents)
        log.clear()
        decoder.step(scores[:rows], memory[:rows])
        found.append(list(log))
    assert len(found) == 5
    return found[2]


SELECTION = ["best_tokens", "down"]


def without_gather(gpu, log):
    """The log without what moves the memory: libraries that can do it themselves upload nothing for that."""
    if "copy_blocks" in log:
        at = log.index("copy_blocks")
        assert log[at + 1] == "up", "where the rows come from"
        return log[:at] + log[at + 2 :]
    return log


@on_each_library
def test_a_step_is_a_launch_and_a_copy_in_each_direction(gpu, traffic):
    found = costs(gpu, traffic, {})
    assert ("copy_blocks" in found) == isinstance(gpu, OnNumba)
    assert without_gather(gpu, found) == [*SELECTION, "up"]
    thresholds = sf.Prune(per_parent=2, absolute=9)
    assert without_gather(gpu, costs(gpu, traffic, {"prune": thresholds})) == [*SELECTION, "up"]


@on_each_library
def test_lists_of_ends_cost_one_copy_more(gpu, traffic):
    found = costs(gpu, traffic, {"end": [0, 3]})
    assert without_gather(gpu, found) == [*SELECTION, "up"]


@on_each_library
def test_limits_go_up_in_one_copy(gpu, traffic):
    limits = [sf.NoRepeatNgram(1), sf.BannedTokens([3]), sf.AllowedTokens([[1, 2, 4, 5, 6], [6, 5, 4, 2, 1]])]
    first = limits[:2]
    for given in (first, limits[2:], limits):
        for rule in ("hf", "ct2"):
            found = costs(gpu, traffic, {"constraints": given, "rule": rule})
            # nobody asks where rows come from that stay what they are; it goes up with the limits of the next step
            moved = ["up"] if given is first else []
            assert without_gather(gpu, found) == ["best_tokens", "up", "down", *moved]


@on_each_library
def test_what_more_a_step_costs(gpu, traffic):
    """Of hooks and of searches that look at the candidates on the host."""
    found = without_gather(gpu, costs(gpu, traffic, {}, ["on_candidates"]))
    lists = ["best_tokens", "down"]
    assert found[:4] == [*lists, "up", "up"], "tokens and scores of all rows, for the hook"
    assert found[4:] == ["down"] * 4 + ["up"], "the hook looks at both, and so does the decoder; then the state"
    found = without_gather(gpu, costs(gpu, traffic, {"sampling": sf.Stochastic(seed=1)}))
    noise = ["log_probabilities", "perturb_scores", "up"]
    assert [word for word in found if word != "copy_blocks"][:6] == [*noise, "best_tokens", "up", "down"]
    assert found.count("down") == 2, "the candidates, and their log-probabilities without the noise"
    found = costs(gpu, traffic, {"constraints": [sf.LexicalConstraints([[3, 1]])]})
    assert found[:4] == ["log_probabilities", "best_tokens", "up", "down"]
    assert found.count("down") == 2, "the candidates, and the tokens that bring a phrase further"
    found = costs(gpu, traffic, {"beam_size": 4, "constraints": [sf.DiverseGroups(2, 0.5)]})
    assert found.count("best_tokens") == found.count("down") == 2, "one selection for each group"


# ------------------------------------------------------------------------------------------ with a GPU only


@pytest.fixture
def torch():
    gpu = OnTorch()
    gpu.need()
    return gpu.library


def network(torch, vocabulary, device="cuda", seed=0):
    """A recurrent network with weights that are multiples of 1/8, so that products are the same on every device."""
    generator = np.random.default_rng(seed)
    embedding, weights, out = (
        torch.from_numpy((generator.integers(-8, 9, shape) / 8).astype("f4")).to(device)
        for shape in ((vocabulary, 16), (16, 16), (16, vocabulary))
    )

    def step(state):
        hidden = torch.round(8 * torch.tanh(embedding[state.tokens] + state.memory[0] @ weights)) / 8
        return hidden @ out, (hidden, state.memory[1])

    return step


def decoded(torch, device, vocabulary, n=12, **options):
    memory = (torch.zeros(n, 16, device=device), torch.arange(n, device=device))
    sizes = np.random.default_rng(n).integers(1, 9, n)
    lengths = np.random.default_rng(n + 1).integers(2, 12, n)
    options = {"start": np.arange(n) % vocabulary, "end": [1, 2], "n_best": 1, **options}
    step = network(torch, vocabulary, device)
    return sf.beam_search(step, memory, beam_size=sizes, max_new_tokens=lengths, **options)


@pytest.mark.cuda
@pytest.mark.parametrize("vocabulary", [5, 127, 1000, 50_000])
@every_rule
def test_a_network(torch, rule, vocabulary):
    wanted = decoded(torch, "cpu", vocabulary, rule=rule)
    found = decoded(torch, "cuda", vocabulary, rule=rule)
    assert found.tokens.data.is_cuda
    # of two hypotheses that are nearly as good each device may prefer another one
    torch.testing.assert_close(found.scores.cpu(), wanted.scores, rtol=1e-5, atol=1e-5)
    pairs = zip(hypotheses(found), hypotheses(wanted), strict=True)
    assert np.mean([one == other for one, other in pairs]) > 0.8


def hypotheses(result):
    return [tokens for source in host(result.tokens).to_nested() for tokens in source]


@pytest.mark.cuda
@pytest.mark.parametrize(("rows", "width", "beam_size"), [(1, 3, 5), (7, 50_000, 9), (3000, 40, 4), (2, 300, 200)])
def test_selections_of_many_sizes(torch, rows, width, beam_size):
    """Multiples of 1/4 that need no logarithm, with many ties: the same to the last bit."""
    generator = np.random.default_rng(width)
    scores = (-generator.integers(0, 30, (rows, width)) / 4).astype("f4")
    scores[generator.random(scores.shape) < 0.1] = -np.inf
    options = {"start": 0, "end": 0, "beam_size": beam_size, "max_new_tokens": 2, "n_best": min(beam_size, width)}

    def search(up):
        return sf.beam_search(
            lambda state: (up(np.zeros((len(state.tokens), width), "f4")), state.memory),
            up(np.zeros(rows)),
            on_scores=lambda logs, state: up(scores[host(state.source)]),
            **options,
        )

    wanted, found = search(lambda x: x), search(lambda x: torch.from_numpy(x).cuda())
    assert host(found.tokens).to_nested() == wanted.tokens.to_nested()
    assert host(found.scores).tobytes() == wanted.scores.tobytes()


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("constraints", [[], [sf.BannedTokens([3])]], ids=["free", "limited"])
def test_a_step_waits_for_the_copy_of_its_candidates_alone(torch, constraints):
    """What torch knows of: its own copies and allocations; launches of kernels wait for nothing."""
    step = network(torch, 300)
    options = {"start": np.arange(9), "end": 1, "beam_size": 3, "max_new_tokens": 6, "constraints": constraints}
    sf.beam_search(step, (torch.zeros(9, 16, device="cuda"), torch.arange(9, device="cuda")), **options)
    decoder = sf.BeamDecoder((torch.zeros(9, 16, device="cuda"), torch.arange(9, device="cuda")), **options)
    kind, waits = Torch, []
    to_numpy = kind.to_numpy

    def allowed(self, x):
        torch.cuda.set_sync_debug_mode("default")
        waits.append(x.numel())
        found = to_numpy(self, x)
        torch.cuda.set_sync_debug_mode("error")
        return found

    kind.to_numpy = allowed
    try:
        torch.cuda.set_sync_debug_mode("error")
        while decoder.active:
            waits.clear()
            decoder.step(*step(decoder.state))
            assert len(waits) == 1
    finally:
        torch.cuda.set_sync_debug_mode("default")
        kind.to_numpy = to_numpy


@pytest.mark.cuda
def test_a_search_runs_on_the_current_stream(torch):
    wanted = decoded(torch, "cuda", 200)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(5):
            busy(torch)
            found = decoded(torch, "cuda", 200)
            assert torch.equal(found.tokens.data, wanted.tokens.data)
            assert torch.equal(found.scores, wanted.scores)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(torch, dtype):
    logits = torch.arange(-8, 8).remainder(7).to(getattr(torch, dtype)).view(2, 8)
    options = {"start": 0, "end": 0, "beam_size": 3, "max_new_tokens": 1, "n_best": 3}
    wanted, found = (
        sf.beam_search(lambda state, x=x: (x, state.memory), x[:, 0], **options) for x in (logits, logits.cuda())
    )
    assert found.tokens.data.tolist() == wanted.tokens.data.tolist()
    torch.testing.assert_close(found.scores.cpu(), wanted.scores)


@pytest.mark.cuda
@pytest.mark.parametrize("ids", [False, True])
def test_ties_of_a_beam_step(torch, ids):
    """Equal scores come in the order of their rows and places on every device."""
    generator = np.random.default_rng(2)
    lengths = generator.integers(0, 9, 60)
    rows, width = int(lengths.sum()), 50
    scores = torch.from_numpy((generator.integers(0, 4, (rows, width)) / 4).astype("f4"))
    tokens = torch.from_numpy(generator.integers(0, 30, (rows, width))) if ids else None
    before = torch.from_numpy(generator.integers(0, 4, rows)), torch.rand(rows)
    lod = [np.concatenate([[0], np.cumsum(lengths)]), np.arange(rows + 1)]

    def step(device):
        given = [None if x is None else x.to(device) for x in (*before, tokens)]
        return sf.beam_step(*given, sf.LoD(scores.to(device), lod), beam_size=7, end=2)

    wanted, found = step("cpu"), step("cuda")
    assert found.ids.data.tolist() == wanted.ids.data.tolist()
    assert found.parents.tolist() == wanted.parents.tolist()
    assert [level.tolist() for level in found.ids.lod] == [level.tolist() for level in wanted.ids.lod]
    assert torch.equal(found.scores.data.cpu(), wanted.scores.data)
