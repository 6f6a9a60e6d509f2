"""Masks of grammars in beam search, and hooks that are told the tokens of their rows.

A grammar here is a table of bits that the tokens so far lead to.  What it must do is compared with -inf among scores.
"""

import functools
import zlib

import beam_oracle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from libraries import on_each_library
from passes import INTERPRETED
from test_beam_constraints import LIMITS, OPTIONS, VOCABULARY, Model, assert_same, assert_same_bits, every_rule, ragged
from test_cuda_beam import CPU, host
from test_cuda_beam import assert_same as assert_same_there

import seqformats as sf

NONE = np.float32(-np.inf)


class Grammar:
    """Which tokens may follow which, drawn from a seed; a hook that keeps the tokens of every row."""

    def __init__(self, vocabulary, density=0.5, seed=0, whole=(), junk=False):
        self.vocabulary, self.density, self.seed, self.whole, self.junk = vocabulary, density, seed, whole, junk
        self.rows = None

    @functools.lru_cache  # noqa: B019  for one test
    def allowed(self, source, tokens):
        """The tokens that may follow, ``(vocabulary,)`` bool: some of all, and whole stretches of all or of none."""
        rng = np.random.default_rng(zlib.crc32(repr((self.seed, source, tokens)).encode()))
        found = rng.random(self.vocabulary) < self.density
        for begin, end, value in self.whole:
            found[begin:end] = value
        return found

    def __call__(self, state):
        sources, prefixes = host(state.source).tolist(), map(tuple, beam_oracle.lists(host(state.prefixes)))
        if not state.t:
            self.rows = [() for _ in sources]
        assert self.rows == list(prefixes)
        return packed([self.allowed(s, t) for s, t in zip(sources, self.rows, strict=True)], self.junk)

    def follow(self, parents, tokens):
        pairs = zip(host(parents).tolist(), host(tokens).tolist(), strict=True)
        self.rows = [(*self.rows[parent], token) for parent, token in pairs]

    def slow(self, source, tokens, row):
        """The same for the scores of one row."""
        row[~self.allowed(source, tuple(tokens))] = NONE


def packed(allowed, junk=False):
    """Rows of bools as bits, with ones behind the last token where there is `junk`."""
    allowed = np.array(allowed)
    rows, width = allowed.shape
    bits = np.full((rows, -(-width // 32) * 32), junk)
    bits[:, :width] = allowed
    return np.packbits(bits, axis=1, bitorder="little").view("<i4").astype(np.int32)


@every_rule
@given(data=st.data())
def test_a_grammar_beside_everything_else(rule, data):
    """Limits, ends, hooks, thresholds, and rows with no way on."""
    seed = data.draw(st.integers(0, 99))
    model = Model(seed, VOCABULARY)
    if rule != "ct2" and data.draw(st.booleans()):
        model.table = model.table.round()
    grammar = Grammar(VOCABULARY, data.draw(st.sampled_from([0.0, 0.2, 0.6, 0.9, 1.0])), seed, junk=seed % 2)
    options = OPTIONS | {"min_new_tokens": data.draw(st.sampled_from([0, np.array([2, 0, 3])]))}
    options["prune"] = data.draw(st.sampled_from([None, sf.Prune(per_parent=2), sf.Prune(absolute=4.0)]))
    for hook in data.draw(st.lists(st.sampled_from(["on_candidates", "on_selected"]), unique=True)):
        options[hook] = lambda *found: found[:-1]
    names = data.draw(st.lists(st.sampled_from(sorted(LIMITS)), max_size=2, unique=True))
    limits, slow = zip(*[LIMITS[name] for name in names], strict=True) if names else ((), ())
    found = model.search(rule=rule, constraints=list(limits), on_mask=grammar, **options)
    assert_same(found, model.slow_search([grammar.slow, *slow], rule, **options))


WIDTHS = [1, 31, 32, 33, 64, 65] if INTERPRETED else [1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1025, 1100, 3001]


@every_rule
@pytest.mark.parametrize("vocabulary", WIDTHS)
def test_vocabularies(vocabulary, rule):
    """The best of each block are looked for among what is allowed; ends are apart, in some of these blocks."""
    rng = np.random.default_rng(vocabulary)
    ends = [np.unique(rng.integers(0, vocabulary, 9)).tolist() for _ in range(3)]
    options = {"end": ragged(ends), "beam_size": 4, "max_new_tokens": 4, "n_best": 4, "rule": rule}
    stretches = [(0, 40, True), (64, 192, True), (192, 400, False), (512, 640, False), (2048, 2500, True)]
    for density, whole in [(0.01, ()), (0.5, ()), (0.97, ()), (0.3, stretches), (0.9, stretches), (1.0, ()), (0.0, ())]:
        model = Model(vocabulary, vocabulary)
        grammar = Grammar(vocabulary, density, whole=whole, junk=True)
        assert_same(model.search(on_mask=grammar, **options), model.slow_search([grammar.slow], **options))


def test_a_best_end_in_a_block_that_is_allowed_in_part():
    """Neither the end nor what is forbidden says how good the others of its block are."""
    scores = np.full((1, 40), -9, np.float32)
    scores[0, [3, 5, 7, 20]] = 9, 8, 7, 6
    for forbidden, wanted in [([5], [7, 20]), ([5, 7], [20, 0]), ([3, 5], [7, 20]), ([20], [5, 7])]:
        mask = packed([~np.isin(np.arange(40), forbidden)])
        options = {"end": [3, 4], "beam_size": 2, "max_new_tokens": 2, "on_mask": lambda state, mask=mask: mask}
        decoder = sf.BeamDecoder(None, start=[0], **options)
        decoder.step(scores)
        assert decoder.state.tokens.tolist() == wanted


def test_masks_come_together():
    """Several hooks, and scores that a hook has changed before."""
    model, grammars = Model(3, VOCABULARY), [Grammar(VOCABULARY, 0.8, seed) for seed in range(3)]
    less = lambda scores, state: scores - np.arange(VOCABULARY, dtype=np.float32) / 4  # noqa: E731
    found = model.search(on_mask=grammars, on_scores=less, **OPTIONS)
    masked = [Grammar(VOCABULARY, 0.8, seed).slow for seed in range(3)]

    def changed(scores, state):
        scores = less(scores, state).copy()
        for source, tokens, row in zip(state.source.tolist(), beam_oracle.lists(state.prefixes), scores, strict=True):
            for slow in masked:
                slow(source, tokens, row)
        return scores

    assert_same(found, model.search(on_scores=changed, **OPTIONS))


@pytest.mark.parametrize("rule", ["hf", "ct2"])
@pytest.mark.parametrize(
    "more",
    [
        {"constraints": [sf.DiverseGroups(2, 0.5)]},
        {"constraints": [sf.DiverseGroups(2, 0.5), sf.BannedTokens(2)]},
        {"constraints": [sf.LexicalConstraints([[2, 3]])]},
        {"constraints": [sf.LexicalConstraints([[2], [3, 1]]), sf.RepetitionPenalty(1.2)]},
        {"sampling": sf.Stochastic(3)},
    ],
    ids=["groups", "groups and limits", "phrases", "phrases and limits", "sample"],
)
def test_other_ways_of_choosing(more, rule):
    options = {"end": 0, "beam_size": 4, "max_new_tokens": 6, "n_best": 4} | more
    for seed in range(5):
        model, grammar = Model(seed, VOCABULARY), Grammar(VOCABULARY, 0.7, seed)
        before = "ct2" if "sampling" in more else rule  # limits come before the noise
        found = model.search(on_mask=grammar, rule=rule, **options)
        assert_same(found, model.slow_search([grammar.slow], before, **options))


def test_no_way_on():
    """Such a hypothesis is dropped, and a source may have none, or those that had ended before."""
    logits = np.zeros((1, 5), np.float32)
    ways = {0: [1, 2], 1: [0], 2: [], 3: [], 4: [0, 4]}  # from the last token

    def mask(state):
        return packed([np.isin(np.arange(5), ways[token]) for token in state.tokens.tolist()])

    options = {"start": [0, 3, 4], "end": 0, "beam_size": 3, "max_new_tokens": 4, "n_best": 3}
    found = sf.beam_search(lambda state: (np.repeat(logits, len(state.tokens), 0), None), None, on_mask=mask, **options)
    assert found.tokens.to_nested() == [[[1, 0]], [], [[0], [4, 0], [4, 4, 0]]]


class Counting:
    """A hook that is told of steps, with so many arguments."""

    def __init__(self):
        self.told = []

    def __call__(self, state):
        return packed(np.ones((len(state.tokens), 4), bool))


class OfParents(Counting):
    def follow(self, parents):
        self.told.append((parents.tolist(),))


class OfBoth(Counting):
    def follow(self, parents, tokens):
        self.told.append((parents.tolist(), tokens.tolist()))


class OfTokensPerhaps(Counting):
    def follow(self, parents, tokens=None):
        self.told.append((parents.tolist(), tokens.tolist()))


class WithAnOption(Counting):
    def follow(self, parents, copies=1):
        self.told.append((parents.tolist(),) * copies)


class OfMany(Counting):
    def follow(self, *given):
        self.told.append(tuple(x.tolist() for x in given))


@pytest.mark.parametrize("memory", [False, True], ids=["hook", "hook and memory"])
@pytest.mark.parametrize("kind", [OfParents, OfBoth, OfTokensPerhaps, WithAnOption, OfMany])
def test_who_wants_tokens_gets_them(kind, memory):
    """Also where it is in the memory, and once in all."""
    hook, states = kind(), []
    decoder = sf.BeamDecoder(
        hook if memory else None, start=[0, 1], end=3, beam_size=2, max_new_tokens=3, on_mask=hook, on_scores=[]
    )
    rng = np.random.default_rng(1)
    while decoder.active:
        states.append(decoder.state)
        decoder.step(rng.normal(size=(len(decoder.state.tokens), 4)), hook if memory else None)
    states.append(decoder.state)
    both = [(state.parents.tolist(), state.tokens.tolist()) for state in states[1:]]
    wanted = both if kind in (OfBoth, OfTokensPerhaps) else [(parents,) for parents, _ in both]
    assert hook.told == wanted


def test_a_hook_whose_arguments_are_unknown_gets_parents():
    class Hook(Counting):
        follow = set  # which inspect knows nothing of

    decoder = sf.BeamDecoder(None, start=[0], end=3, beam_size=2, max_new_tokens=3, on_mask=Hook())
    decoder.step(np.zeros((1, 4)))
    assert decoder.state.t == 1


WORDS = 3  # of 70 tokens
WRONG = {
    "no array": (lambda rows: None, TypeError, r"on_mask must return an array of int32, not NoneType, at step 0"),
    "a list": (lambda rows: [[0] * WORDS] * rows, TypeError, "not list, at step 0"),
    "int64": (lambda rows: np.zeros((rows, WORDS), np.int64), TypeError, "int32, not int64, at step 0"),
    "bools": (lambda rows: np.zeros((rows, 70), bool), TypeError, "int32, not bool, at step 0"),
    "uint32": (lambda rows: np.zeros((rows, WORDS), np.uint32), TypeError, "int32, not uint32"),
    "one row less": (
        lambda rows: np.zeros((rows - 1, WORDS), np.int32),
        sf.StructureError,
        r"shape \(2, 3\) for 2 rows of 70 tokens, not \(1, 3\), at step 0",
    ),
    "one word less": (lambda rows: np.zeros((rows, WORDS - 1), np.int32), sf.StructureError, r"not \(2, 2\)"),
    "one word more": (lambda rows: np.zeros((rows, WORDS + 1), np.int32), sf.StructureError, r"not \(2, 4\)"),
    "flat": (lambda rows: np.zeros(rows * WORDS, np.int32), sf.StructureError, r"not \(6,\)"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_mask(wrong):
    """The step can be made again with a better one."""
    make, error, words = WRONG[wrong]
    masks = [make, lambda rows: np.full((rows, WORDS), -1, np.int32)]
    decoder = sf.BeamDecoder(
        None, start=[0, 1], end=3, beam_size=2, max_new_tokens=3, on_mask=lambda state: masks.pop(0)(len(state.tokens))
    )
    with pytest.raises(error, match=words):
        decoder.step(np.zeros((2, 70), np.float32))
    decoder.step(np.zeros((2, 70), np.float32))
    assert decoder.state.t == 1


@pytest.mark.parametrize("wrong", [3, "mask", [np.zeros(3)]], ids=["number", "text", "list of an array"])
def test_what_is_no_hook(wrong):
    with pytest.raises(TypeError, match="on_mask must be a function"):
        sf.BeamDecoder(None, start=[0], end=0, beam_size=1, max_new_tokens=1, on_mask=wrong)


FORMS = {
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "column by column": np.asfortranarray,
    "every other row": lambda x: np.repeat(x, 2, 0)[::2],
    "big-endian": lambda x: x.astype(">i4"),
    "backwards": lambda x: x[::-1].copy()[::-1],
}


@pytest.mark.parametrize("form", FORMS)
def test_masks_of_every_form(form):
    model, grammar = Model(2, 70), Grammar(70, 0.4)

    class Other(Grammar):
        def __call__(self, state):
            return FORMS[form](super().__call__(state))

    options = {"end": 0, "beam_size": 3, "max_new_tokens": 4, "n_best": 3}
    assert_same_bits(model.search(on_mask=Other(70, 0.4), **options), model.search(on_mask=grammar, **options))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers in the simulator are NumPy's
@pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA")
@on_each_library
@pytest.mark.parametrize("rule", ["hf", "ct2", "fairseq"])
@pytest.mark.parametrize("width", [5, 33, 140])
def test_on_a_gpu(gpu, width, rule):
    """The mask comes from the host; beside limits, several ends, and with few of each row."""
    gpu.need()
    table = np.random.default_rng(width).normal(size=(9, width)).astype("f4")
    options = {"start": 0, "end": [1, 3], "beam_size": np.array([3, 5]), "max_new_tokens": 3, "n_best": 3}
    for more in ({}, {"constraints": [sf.BannedTokens(2)]}, {"prune": sf.Prune(per_parent=2)}, {"sampling": SAMPLE}):
        both = []
        for here in (CPU(), gpu):

            def step(state, here=here):
                return here.up(table[host(state.tokens) % 9]), state.memory

            grammar = Grammar(width, 0.4, junk=True)
            both.append(sf.beam_search(step, here.up(np.zeros(2)), on_mask=grammar, rule=rule, **options, **more))
        assert_same_there(both[1], both[0])


SAMPLE = sf.Stochastic([3, 4])
