"""Sources that are added to a running search, and taken from it, are found as if each were searched alone."""

import numpy as np
import pytest
from libraries import on_each_library
from passes import FULL, INTERPRETED

import seqformats as sf
from seqformats import arrays

SEEDS = 3 if INTERPRETED else 12 if FULL else 5
WORDS, LONGEST, SOURCES = 7, 6, 9
RULES = ("hf", "ct2", "fairseq", "marian", "gnmt", "paddle")


def masked(state):
    """Tokens that a grammar allows: by the source's number in its memory, not by its place."""
    memory = arrays.to_host(state.memory)
    return (0x7F ^ (1 << (memory[:, 0] + memory[:, 1]) % WORDS)).astype(np.int32)[:, None]


class Rising(sf.Constraint):
    """Tokens that rise or stay, after the second one; it keeps a state for each row and each source."""

    def begin(self, n, ends):
        return RisingNow(ends, np.zeros(n, int))


class RisingNow(sf.beam.Running):
    def __init__(self, ends, least):
        self.ends, self.least = ends, least

    def limit(self, live, plan):
        assert live.prefixes.shape == (self.least.size, live.t)
        for row, source in enumerate(live.source):
            lower = np.setdiff1d(np.arange(self.least[row]), self.ends[source])
            plan.ban(np.full(lower.size, row), lower)

    def follow(self, live):
        self.least = np.maximum(self.least[live.parents], live.tokens - 2)


WAYS = {
    **{rule: {"rule": rule} for rule in RULES},
    "early": {"early_stopping": True},
    "never": {"early_stopping": "never", "length_penalty": 2.0},
    "safe": {"prune": sf.Prune(safe=True, relative=0.01, per_parent=3)},
    "coverage": {"rule": "ct2", "coverage": 2.0},
    "groups": {"constraints": [sf.DiverseGroups(2, 0.5)]},
    "groups of ct2": {"constraints": [sf.DiverseGroups(2, 0.5)], "rule": "ct2", "patience": 1.5},
    "greedy": {"rule": "greedy", "beam_size": 1},
    "draws": {"sampling": sf.Sample(3, temperature=1.5)},
    "draws without replacement": {"sampling": sf.Sample(3, replacement=False, top_k=5)},
    "limits": {
        "constraints": [
            sf.ForcedTokens({0: 3}),
            sf.NoRepeatNgram(2),
            sf.BannedTokens([[3, 4]]),
            sf.SequenceBias({2: -1.0, (5, 6): 2.0}),
            sf.RepetitionPenalty(1.3),
            sf.ExponentialDecayLengthPenalty(2, 1.5),
        ],
        "min_new_tokens": 2,
    },
    "forced end": {"constraints": [sf.ForcedEnd(free=True), sf.BannedTokens(4, until=1)]},
    "one's own": {"constraints": [Rising(), sf.AllowedTokens([[2, 3, 3], [2, 5], [4], [4, 6, 6, 6]])]},
    "phrases": {"constraints": [sf.LexicalConstraints([[5, 4], [2]])], "rule": "marian"},
    "mask": {"on_mask": masked},
    "candidates": {"on_candidates": lambda ids, scores, state: (ids, scores)},
    "selected": {"on_selected": lambda ids, scores, parents, state: (ids, scores, parents)},
}
every_way = pytest.mark.parametrize("way", WAYS)


class Model:
    """Scores by the source, the number of tokens, and what the memory says of all of them."""

    def __init__(self, seed, up=np.asarray):
        self.table = np.random.default_rng(seed).normal(size=(SOURCES, LONGEST + 1, 11, WORDS)).astype(np.float32) * 2
        self.up = up

    def memory(self, numbers):
        """The number of each source, and a sum of its tokens."""
        return self.up(np.stack([numbers, 0 * numbers, 0 * numbers], 1))

    def step(self, decoder):
        """One step, with what is kept of it."""
        state = decoder.state
        memory = arrays.to_host(state.memory).copy()
        length = arrays.to_host(state.lengths)
        assert (memory[:, 2] == length).all()
        memory[:, 1] = (3 * memory[:, 1] + arrays.to_host(state.tokens)) % 11
        memory[:, 2] += 1
        assert (decoder.sources[arrays.to_host(state.source)] == memory[:, 0]).all()
        if state.prompt is not None:
            assert state.prompt.to_nested() == [prompt(number).tolist() for number in decoder.sources]
        scores = self.table[memory[:, 0], length, memory[:, 1]]
        attention = np.exp(scores[:, :3]) / np.exp(scores).sum(1, keepdims=True)
        decoder.step(
            self.up(scores), self.up(memory), {"attention": self.up(attention), "seen": self.up(memory[:, :2])}
        )


def prompt(number):
    """Of one to three tokens."""
    return (np.arange(number % 3 + 1) + number) % WORDS


def options(way, numbers, given):
    """What is said of some sources."""
    found = {"start": numbers % 5 + 2, "end": [0, 1], "beam_size": 4, "max_new_tokens": LONGEST, "n_best": 3} | WAYS[
        way
    ]
    if "prompts" in given:
        found.pop("start")
        found["prompt"] = [prompt(number) for number in numbers]
    if "each" in given:
        sizes = 2 + 2 * (numbers % 3)
        found |= {"max_new_tokens": 2 + numbers % 5, "length_penalty": 0.5 * (numbers % 3)}
        found |= {"min_new_tokens": numbers % 2, "end": sf.Ragged(np.tile([0, 1], numbers.size), [2] * numbers.size)}
        if way != "greedy":
            found |= {"beam_size": sizes, "n_best": 2}
        if way == "phrases":
            found["constraints"] = [sf.LexicalConstraints([[[number % 4 + 2], [6]] for number in numbers])]
        if "sampling" in found and "seeds" in given:
            how = {"temperature": 1.5} if found["sampling"].replacement else {"top_k": 5, "replacement": False}
            found["sampling"] = sf.Sample(numbers * 7, **how)
    found["n_best"] = min(found["n_best"], 1 if way == "greedy" else 3)
    return found


OF_ALL = (
    "rule",
    "coverage",
    "n_best",
    "early_stopping",
    "patience",
    "prune",
    "on_mask",
    "on_candidates",
    "on_selected",
)


def of_more(given):
    """The same for sources that are added."""
    return {name: value for name, value in given.items() if name not in OF_ALL}


def one_by_one(numbers, found):
    """What was found of each source."""
    hypotheses = np.repeat(
        np.arange(len(found.tokens)),
        np.diff(found.tokens.lod[0]),
    )
    split = {}
    tokens, added, kept = (x.to_nested() for x in (found.tokens, found.token_scores, found.kept["seen"]))
    scores, ended = arrays.to_host(found.scores), arrays.to_host(found.ended)
    for i, number in enumerate(numbers.tolist()):
        mine = hypotheses == i
        kept_here = [arrays.to_host(part).tolist() for part in kept[i]]
        split[number] = tokens[i], added[i], kept_here, scores[mine].tolist(), ended[mine].tolist()
    return split


def together(model, way, given):
    """All sources in one search."""
    numbers = np.arange(SOURCES)
    decoder = sf.BeamDecoder(model.memory(numbers), **options(way, numbers, given))
    while decoder.active:
        model.step(decoder)
    return one_by_one(numbers, decoder.result()), decoder.result().rows


def coming_and_going(model, way, given, rng):
    """The same, but that sources come now and then, and are taken when they are done."""
    next_, found, rows = int(rng.integers(0, 4)), {}, 0
    first = options(way, np.arange(next_), given)
    decoder = sf.BeamDecoder(model.memory(np.arange(next_)), **first)
    while decoder.active or next_ < SOURCES:
        if next_ < SOURCES and (rng.random() < 0.4 or not decoder.active):
            more = min(int(rng.integers(1, 4)), SOURCES - next_)
            numbers = np.arange(next_, next_ + more)
            added = decoder.add(model.memory(numbers), **of_more(options(way, numbers, given)))
            assert added.tolist() == numbers.tolist()
            next_ += more
        if decoder.active:
            model.step(decoder)
        if rng.random() < 0.5:
            numbers, result = decoder.take()
            assert not np.isin(numbers, decoder.sources).any()
            found |= one_by_one(numbers, result)
            rows += result.rows
    numbers, result = decoder.take()
    assert decoder.sources.size == 0
    assert len(decoder.state.source) == 0
    return found | one_by_one(numbers, result), rows + result.rows


@every_way
@pytest.mark.parametrize("given", ["", "each", "prompts", "each seeds prompts"])
def test_each_is_found_as_if_it_were_alone(way, given):
    for seed in range(SEEDS):
        model = Model(seed)
        wanted = together(model, way, given)
        assert coming_and_going(model, way, given, np.random.default_rng(seed)) == wanted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA")
@pytest.mark.parametrize("way", ["hf", "draws", "limits", "phrases", "mask", "groups"])
@on_each_library
def test_it_lies_where_the_memory_does(gpu, way):
    gpu.need()
    model, wanted = Model(1, gpu.up), together(Model(1), way, "prompts")
    found = coming_and_going(model, way, "prompts", np.random.default_rng(1))
    for number, (tokens, added, kept, scores, ended) in wanted[0].items():
        assert found[0][number][0] == tokens
        np.testing.assert_allclose(found[0][number][3], scores, rtol=1e-5)
        np.testing.assert_allclose(
            np.concatenate(found[0][number][1] or [[]]), np.concatenate(added or [[]]), atol=1e-5
        )
        assert found[0][number][2] == kept
        assert found[0][number][4] == ended


@pytest.mark.parametrize("way", ["hf", "groups", "draws", "draws without replacement", "limits", "phrases", "mask"])
def test_what_is_given_up_changes_nothing_else(way):
    """Sources are taken in the middle of their search, too, and others go on from other rows."""
    for seed in range(SEEDS):
        rng, model = np.random.default_rng(seed), Model(seed)
        wanted, _ = together(model, way, "prompts")
        numbers, found, given_up = np.arange(SOURCES - 3), {}, set()
        decoder = sf.BeamDecoder(model.memory(numbers), **options(way, numbers, "prompts"))
        while decoder.active:
            model.step(decoder)
            if rng.random() < 0.5 and decoder.sources.size:
                number = int(rng.choice(decoder.sources))
                there = one_by_one(decoder.sources, decoder.result())[number]
                done = number not in decoder.sources[decoder.state.source]
                taken, result = decoder.take(number)
                assert taken.tolist() == [number]
                assert one_by_one(taken, result)[number] == there
                if done:
                    assert there == wanted[number]
                given_up.add(number)
            if rng.random() < 0.3 and decoder.sources.max(initial=0) < SOURCES - 3:
                last = np.arange(SOURCES - 3, SOURCES)
                decoder.add(model.memory(last), **of_more(options(way, last, "prompts")))
        found = one_by_one(*decoder.take(decoder.sources))
        assert found == {number: wanted[number] for number in found}
        assert len(found) + len(given_up) >= SOURCES - 3


def test_what_is_certain_of_sources_of_any_age():
    model = Model(2)
    numbers = np.arange(SOURCES)
    decoder = sf.BeamDecoder(model.memory(numbers[:3]), **options("hf", numbers[:3], ""))
    alone = {}
    for number in numbers:
        one = sf.BeamDecoder(model.memory(numbers[: number + 1]), **options("hf", numbers[: number + 1], ""))
        alone[number] = [one.agreed().to_nested()[number]]
        while one.active:
            model.step(one)
            alone[number].append(one.agreed().to_nested()[number])
    begun = dict.fromkeys(range(3), 0)
    for t in range(2 * LONGEST):
        for number, tokens in zip(decoder.sources.tolist(), decoder.agreed().to_nested(), strict=True):
            seen = alone[number]
            assert tokens == seen[min(t - begun[number], len(seen) - 1)]
        state = decoder.state
        prefixes = state.prefixes
        assert prefixes.lengths.tolist() == state.lengths.tolist() == state.memory[:, 2].tolist()
        if t in (2, 3):
            new = numbers[3 * t - 3 : 3 * t]
            decoder.add(model.memory(new), **of_more(options("hf", new, "")))
            begun |= dict.fromkeys(new.tolist(), t)
        if decoder.active:
            model.step(decoder)
    assert decoder.sources.tolist() == numbers.tolist()


# --- what follows the rows -------------------------------------------------------------------------------------------


class Cache:
    """Objects of rows, which knows how to take in others."""

    def __init__(self, rows):
        self.rows = list(rows)

    def reorder_cache(self, beam_idx):
        self.rows = [self.rows[i] for i in beam_idx.tolist()]

    def join(self, other):
        self.rows += other.rows


class Following:
    """The tokens of each row, by what a hook is told."""

    def __init__(self, sources):
        self.rows = [[] for _ in range(sources)]

    def __call__(self, scores, state):
        assert self.rows == state.prefixes.to_nested()
        return scores

    def follow(self, parents, tokens):
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        self.rows = [(self.rows[p] if p >= 0 else []) + ([token] if token >= 0 else []) for p, token in pairs]


def memory_of(numbers):
    """Something of every kind, of each source."""
    data = np.repeat(numbers, 2)
    return {
        "array": numbers.astype(float)[:, None],
        "ragged": sf.Ragged(data, [2] * numbers.size),
        "objects": [f"{number}" for number in numbers],
        "cache": Cache(numbers.tolist()),
        "name": "n",
        "size": 3,
        "none": None,
    }


def numbers_in(memory):
    """What each row of it says, which is the same in all parts."""
    numbers = memory["array"][:, 0].astype(int).tolist()
    assert memory["ragged"].data.tolist() == np.repeat(numbers, 2).tolist()
    assert memory["objects"] == [str(number) for number in numbers]
    assert memory["cache"].rows == numbers
    assert (memory["name"], memory["size"], memory["none"]) == ("n", 3, None)
    return numbers


def test_all_kinds_of_memory_and_hooks_follow():
    for seed in range(SEEDS):
        rng, model, hook = np.random.default_rng(seed), Model(seed), Following(2)
        decoder = sf.BeamDecoder(
            memory_of(np.arange(2)), start=[2, 3], end=0, beam_size=3, max_new_tokens=5, n_best=3, on_scores=hook,
            shared={"sources": np.arange(2) + 100, "texts": ["0", "1"], "model": len},
        )  # fmt: skip
        for t in range(12):
            state = decoder.state
            numbers = decoder.sources[state.source]
            assert numbers_in(state.memory) == numbers.tolist()
            assert (state.shared["sources"] == decoder.sources + 100).all()
            assert state.shared["texts"] == [str(number) for number in decoder.sources]
            assert state.shared["model"] is len
            if decoder.active:
                decoder.step(model.table[numbers % SOURCES, state.lengths, state.tokens], state.memory)
            if t in (1, 2, 5):
                new = np.arange(decoder._known, decoder._known + t)
                shared = {"sources": new + 100, "texts": [str(number) for number in new], "model": len}
                decoder.add(memory_of(new), start=new % 5, shared=shared)
                assert decoder.state.parents[-t:].tolist() == [-1] * t
                assert decoder.state.moved
            if t % 2 and decoder.sources.size:
                decoder.take(rng.choice(decoder.sources))
        assert not decoder.active


def test_the_memory_may_be_set():
    """Without a memory to be joined the caller says what there is for all rows."""
    table = Model(0).table[0, 0]
    decoder = sf.BeamDecoder(np.zeros((1, 2)), start=[2], end=0, beam_size=2, max_new_tokens=4)
    decoder.step(table[decoder.state.tokens], np.zeros((1, 2)))
    decoder.add(None, start=[3])
    assert decoder.state.memory.shape == (2, 2)
    assert decoder.state.tokens.size == 3
    with pytest.raises(sf.StructureError, match="must have 3 rows"):
        decoder.step(table[decoder.state.tokens], decoder.state.memory)
    with pytest.raises(sf.StructureError, match="must have 3 rows"):
        decoder.add(np.zeros((1, 2)), start=[3])
    decoder.state.memory = np.arange(8).reshape(4, 2)
    with pytest.raises(sf.StructureError, match="must have 2 rows"):
        decoder.take(1)
    decoder.state.memory = np.arange(6).reshape(3, 2)
    decoder.take(1)
    assert decoder.state.memory.tolist() == [[0, 1], [2, 3]]
    decoder.add(None, start=[4])
    decoder.take(0)
    assert decoder.state.memory.shape == (0, 2)
    assert decoder.state.tokens.tolist() == [4]


def test_nothing_is_remembered_of_what_was_taken():
    """A decoder may run forever: its tree, what is kept of steps and its arrays stay small."""
    model, sizes = Model(0), []
    decoder = sf.BeamDecoder(None, start=np.zeros(0, int), end=0, beam_size=3, max_new_tokens=LONGEST)
    states = []
    for t in range(60 if INTERPRETED else 300):
        decoder.add(None, start=[t % 5 + 2])
        tokens, lengths = decoder.state.tokens, decoder.state.lengths
        decoder.step(model.table[0, lengths, tokens], None, kept=tokens)
        if t % 7 == 0:
            states.append((decoder.state, decoder.state.prefixes.to_nested()))
            decoder.state._prefixes = None
        decoder.take()
        sizes.append(
            (decoder._search.nodes._tokens.size, len(decoder._paths.nodes), decoder._search.finished.scores.size)
        )
    assert np.array(sizes).max(0).tolist() < [2000, 3 * LONGEST, 500]
    assert (np.array(sizes)[-20:].max(0) <= np.array(sizes)[20:40].max(0) * 2).all()
    assert decoder.state.t == len(sizes)
    for state, prefixes in states:  # what was seen before is still there
        assert state.prefixes.to_nested() == prefixes


# --- bad input -------------------------------------------------------------------------------------------------------


def seen(decoder):
    """All that shows of a decoder."""
    state = decoder.state
    return (
        decoder.sources.tolist(), state.tokens.tolist(), state.source.tolist(), state.parents.tolist(),
        state.lengths.tolist(), id(state.memory), id(state), decoder.result().tokens.to_nested(),
    )  # fmt: skip


BASE = {"start": [2, 3], "end": 0, "beam_size": 2, "max_new_tokens": 4}
BAD = {
    "another dtype": ({}, {"start": [2]}, np.zeros((1, 3), np.float32), sf.StructureError, "float32"),
    "another shape": ({}, {"start": [2]}, np.zeros((1, 2)), sf.StructureError, r"\(3,\)"),
    "another container": ({}, {"start": [2]}, [np.zeros((1, 3))], sf.StructureError, "list"),
    "other keys": ({"memory": {"a": np.zeros(2)}}, {"start": [2]}, {"b": np.zeros(1)}, sf.StructureError,
                   "'a', and a dict of 'b' is"),
    "too many rows": ({}, {"start": [2]}, np.zeros((2, 3)), sf.StructureError, "1 tokens"),
    "no start": ({}, {}, np.zeros((1, 3)), TypeError, "start is missing"),
    "a prompt": ({}, {"prompt": [[1, 2]]}, np.zeros((1, 3)), sf.StructureError, "prompt"),
    "what is for all": ({}, {"start": [2], "rule": "ct2"}, np.zeros((1, 3)), TypeError, "rule"),
    "an engine's name": ({}, {"start": [2], "num_beams": 3}, np.zeros((1, 3)), TypeError, "beam_size"),
    "one for each": ({"beam_size": [2, 3]}, {"start": [2]}, np.zeros((1, 3)), sf.StructureError, "beam_size is given"),
    "ends for each": ({"end": sf.Ragged(np.array([0, 1]), [1, 1])}, {"start": [2]}, np.zeros((1, 3)), sf.StructureError,
                      "end is given"),
    "seeds for each": ({"sampling": sf.Sample([1, 2])}, {"start": [2]}, np.zeros((1, 3)), sf.StructureError,
                       "sampling is given"),
    "a sample": ({}, {"start": [2], "sampling": sf.Sample(1)}, np.zeros((1, 3)), sf.ConversionError, "draw"),
    "another sample": ({"sampling": sf.Sample(1)}, {"start": [2], "sampling": sf.Sample(1, top_k=3)}, np.zeros((1, 3)),
                       sf.ConversionError, "draw"),
    "groups": ({}, {"start": [2], "constraints": [sf.DiverseGroups(2, 1.0)]}, np.zeros((1, 3)), sf.ConversionError,
               "DiverseGroups"),
    "a size for groups": ({"constraints": [sf.DiverseGroups(2, 1.0)]}, {"start": [2], "beam_size": 3}, np.zeros((1, 3)),
                          sf.ConversionError, "divided"),
    "phrases": ({}, {"start": [2], "constraints": [sf.LexicalConstraints([[3]])]}, np.zeros((1, 3)), sf.ConversionError,
                "LexicalConstraints"),
    "prefixes": ({}, {"start": [2], "constraints": [sf.ForcedPrefix([[1], [2]])]}, np.zeros((1, 3)), sf.StructureError,
                 "2 sources"),
    "a trace": ({"trace": True}, {"start": [2]}, np.zeros((1, 3)), sf.StructureError, "trace"),
    "a shared array": ({}, {"start": [2], "shared": np.zeros(1)}, np.zeros((1, 3)), sf.StructureError, "shared"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_added_changes_nothing(name):
    options, more, memory, kind, said = BAD[name]
    first = options.get("memory", np.zeros((2, 3)))
    decoder = sf.BeamDecoder(first, **BASE | {name: x for name, x in options.items() if name != "memory"})
    table = Model(0).table[0, 0]
    for _ in range(2):
        before = seen(decoder)
        with pytest.raises(kind, match=said):
            decoder.add(memory, **more)
        assert seen(decoder) == before
        decoder.step(table[decoder.state.tokens], decoder.state.memory)


@pytest.mark.parametrize("sources", [2, [0, 5], -1, 0.5, "0", [[0]]])
def test_what_cannot_be_taken(sources):
    decoder = sf.BeamDecoder(np.zeros((2, 3)), **BASE)
    before = seen(decoder)
    with pytest.raises((sf.StructureError, TypeError)):
        decoder.take(sources)
    assert seen(decoder) == before
    with pytest.raises(sf.StructureError, match="trace"):
        sf.BeamDecoder(None, **BASE, trace=True).take()


def test_an_end_that_there_is_not():
    decoder = sf.BeamDecoder(None, **BASE)
    decoder.add(None, start=[2], end=WORDS)
    with pytest.raises(sf.StructureError, match=f"end is {WORDS}, but scores have {WORDS} columns"):
        decoder.step(np.zeros((3, WORDS), np.float32))


@pytest.mark.peers
def test_no_gradient():
    import torch

    decoder = sf.BeamDecoder(torch.zeros(2, 3), **BASE)
    with pytest.raises(TypeError, match="no gradient"):
        decoder.add(torch.zeros(1, 3, requires_grad=True), start=[2])
    assert decoder.sources.tolist() == [0, 1]


def test_what_an_error_cuts_short():
    """Nobody goes on with what is half done."""

    class Fails:
        def __call__(self, scores, state):
            return scores

        def follow(self, parents):
            if (parents < 0).any() or parents.size < 2:
                raise KeyboardInterrupt

    for change in (lambda decoder: decoder.add(None, start=[2]), lambda decoder: decoder.take(0)):
        decoder = sf.BeamDecoder(None, **BASE, on_scores=Fails())
        with pytest.raises(KeyboardInterrupt):
            change(decoder)
        with pytest.raises(sf.StructureError, match="start a new search"):
            decoder.step(np.zeros((2, WORDS)))
        with pytest.raises(sf.StructureError, match="start a new search"):
            decoder.add(None, start=[2])
        with pytest.raises(sf.StructureError, match="start a new search"):
            decoder.take()


def test_only_rows_that_go_move_others():
    """A model need not move its cache because a source that is done is taken."""
    first = np.full((2, WORDS), -5.0)
    first[0, 0], first[1, 2] = 5, 5
    decoder = sf.BeamDecoder(None, **BASE | {"beam_size": 1, "rule": "greedy"})
    decoder.step(first)
    assert decoder.take()[0].tolist() == [0]
    decoder.step(first[1:])
    assert not decoder.state.moved
    assert decoder.take()[0].size == 0
    decoder.add(None, start=[3])
    assert decoder.state.moved
    decoder.step(np.concatenate([first[:1], first[1:]]))
    moved = decoder.state.moved
    assert decoder.take()[0].tolist() == [1]
    assert decoder.state.moved == moved


def test_what_cannot_take_in_others():
    class Tells:
        def follow(self, parents):
            pass

    for bad in (Tells(), {"cache": Tells()}):
        decoder = sf.BeamDecoder([bad, np.zeros(2)], **BASE)
        with pytest.raises(TypeError, match="join"):
            decoder.add([bad, np.zeros(1)], start=[2])
        assert decoder.sources.tolist() == [0, 1]
