"""What is built on the loop of beam search: limits on tokens, groups, sampling, the trace, and what memories may be.

Every limit is compared with a plain-Python one (a *slow* limit) that changes the scores of one row at a time, or with
all sequences there are.
"""

import itertools
from collections import Counter

import beam_oracle
import numpy as np
import pytest
from beam_oracle import RULES, Options
from hypothesis import given
from hypothesis import strategies as st
from passes import INTERPRETED

import seqformats as sf

NONE = -np.inf

every_rule = pytest.mark.parametrize("rule", RULES)


# --- models and slow limits ------------------------------------------------------------------------------------------


class Model:
    """Logits by source, last token and length, in a table drawn from a seed; sources start with `vocabulary`."""

    LONGEST = 6

    def __init__(self, seed, vocabulary=6, sources=3):
        self.known = min(vocabulary + 1, 23)  # so many last tokens are told apart
        shape = (sources, self.LONGEST, self.known, vocabulary)
        self.table = (2 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)
        self.vocabulary, self.sources = vocabulary, sources

    def __call__(self, state):
        return self.logits(state), state.memory

    def logits(self, state):
        return self.table[state.source, min(state.t, self.LONGEST - 1), state.tokens % self.known]

    def row(self, source, tokens):
        """The logits behind one prefix."""
        last = tokens[-1] if tokens else self.vocabulary
        return self.table[source, min(len(tokens), self.LONGEST - 1), last % self.known]

    def search(self, step=None, **options):
        return sf.beam_search(step or self, None, **{"start": np.full(self.sources, self.vocabulary), **options})

    def slow_search(self, limits, rule="hf", **options):
        """The same with limits ``f(source, tokens, scores)``, which change the scores of a row."""

        def limited(scores, state):
            scores = scores.copy()
            rows = zip(state.source.tolist(), beam_oracle.lists(state.prefixes), scores, strict=True)
            for source, tokens, row in rows:
                for limit in limits:
                    limit(source, tokens, row)
            return scores

        if rule == "ct2":  # which limits the scores before they become log-probabilities
            return self.search(lambda state: (limited(self.logits(state), state), state.memory), rule=rule, **options)
        return self.search(on_scores=limited, rule=rule, **options)

    def everything(self, source, ends, longest, slow=None):
        """The log-probability of every sequence that ends, or has the greatest length; a limit acts on the logits."""
        found = {}

        def grow(tokens, score):
            if tokens and (tokens[-1] in ends or len(tokens) == longest):
                found[tokens] = score
                return
            values = self.row(source, tokens).copy()
            if slow is not None:
                slow(source, list(tokens), values)
            values = beam_oracle.log_softmax(values)
            for token, value in enumerate(values.tolist()):
                if value > NONE:
                    grow((*tokens, token), score + value)

        grow((), 0.0)
        return found


def ban(*phrases):
    alone = [phrase[0] for phrase in phrases if len(phrase) == 1]
    longer = [phrase for phrase in phrases if len(phrase) > 1]

    def slow(source, tokens, row):
        row[alone] = NONE
        for phrase in longer:
            if len(tokens) >= len(phrase) - 1 and tokens[len(tokens) - len(phrase) + 1 :] == phrase[:-1]:
                row[phrase[-1]] = NONE

    return slow


def only(row, tokens):
    """Nothing but these tokens."""
    keep = np.isin(np.arange(row.size), sorted(tokens))
    row[~keep] = NONE


def force_prefix(prefixes):
    def slow(source, tokens, row):
        if len(tokens) < len(prefixes[source]):
            only(row, [prefixes[source][len(tokens)]])

    return slow


def force_tokens(at):
    def slow(source, tokens, row):
        if len(tokens) in at:
            only(row, [at[len(tokens)]])

    return slow


def no_repeat(n):
    def slow(source, tokens, row):
        grams = [tokens[i : i + n] for i in range(len(tokens) - n + 1)]
        for gram in grams:
            if gram[:-1] == tokens[len(tokens) - n + 1 :]:
                row[gram[-1]] = NONE

    return slow


def repeat_less(penalty):
    def slow(source, tokens, row):
        for token in set(tokens):
            row[token] = row[token] / np.float32(penalty) if row[token] > 0 else row[token] * np.float32(penalty)

    return slow


def allow(sequences, ends):
    """`sequences` and `ends` of each source."""
    found = [
        {(*sequence, end) for sequence in mine for end in last if not (sequence and sequence[-1] in last)}
        | {tuple(sequence) for sequence in mine if sequence and sequence[-1] in last}
        for mine, last in zip(sequences, ends, strict=True)
    ]

    def slow(source, tokens, row):
        only(row, {s[len(tokens)] for s in found[source] if len(s) > len(tokens) and list(s[: len(tokens)]) == tokens})

    return slow


def assert_same(a, b):
    """Two results with the same hypotheses, and scores but for rounding."""
    assert a.tokens.to_nested() == b.tokens.to_nested()
    np.testing.assert_allclose(a.scores, b.scores, 1e-4, 1e-5)
    np.testing.assert_allclose(a.token_scores.data, b.token_scores.data, 1e-4, 1e-5)
    assert a.rows == b.rows


def assert_same_bits(a, b):
    assert a.tokens.to_nested() == b.tokens.to_nested()
    assert a.scores.tobytes() == b.scores.tobytes()
    assert a.token_scores.data.tobytes() == b.token_scores.data.tobytes()


def lod(nested):
    """Lists of lists of lists as a `LoD`."""
    flat = [token for part in nested for sequence in part for token in sequence]
    outer = np.cumsum([0, *map(len, nested)])
    inner = np.cumsum([0, *(len(sequence) for part in nested for sequence in part)])
    return sf.LoD(np.array(flat, np.int64), [outer, inner])


def ragged(lists):
    return sf.Ragged(np.array([x for part in lists for x in part], np.int64), [len(part) for part in lists])


# --- limits one by one, and together ---------------------------------------------------------------------------------

VOCABULARY = 6
ENDS = [[0], [0, 5], [4]]  # of three sources
SEQUENCES = [[[1, 2], [1, 2, 3], [3], [2, 2, 2, 2, 2, 2, 2]], [[], [5], [1, 1, 0], [1, 0]], []]

# A limit, and the slow one that is the same.
LIMITS = {
    "ban a token": (sf.BannedTokens(2), ban([2])),
    "ban tokens": (sf.BannedTokens(np.array([1, 3, 1])), ban([1], [3])),
    "ban nothing": (sf.BannedTokens([]), ban()),
    "ban phrases": (sf.BannedTokens([[1, 2], [3], (2, 2), [4, 5, 1], [1]]), ban([1, 2], [3], [2, 2], [4, 5, 1], [1])),
    "ban an encoding": (sf.BannedTokens(ragged([[1, 2], [3]])), ban([1, 2], [3])),
    "ban ends": (sf.BannedTokens([0, 4]), ban([0], [4])),
    "one prefix": (sf.ForcedPrefix([3, 1]), force_prefix([[3, 1]] * 3)),
    "no prefix": (sf.ForcedPrefix([]), force_prefix([[]] * 3)),
    "an array as prefix": (sf.ForcedPrefix(np.array([3, 1], np.int32)), force_prefix([[3, 1]] * 3)),
    "prefixes": (sf.ForcedPrefix([[3, 3, 3], [], [1, 4, 2]]), force_prefix([[3, 3, 3], [], [1, 4, 2]])),
    "long prefixes": (sf.ForcedPrefix([[1] * 9, [0], [3]]), force_prefix([[1] * 9, [0], [3]])),
    "prefixes as Ragged": (sf.ForcedPrefix(ragged([[2], [1, 1], []])), force_prefix([[2], [1, 1], []])),
    "prefixes as Padded": (
        sf.ForcedPrefix(sf.convert(ragged([[2], [1, 1], []]), sf.Padded)),
        force_prefix([[2], [1, 1], []]),
    ),
    "tokens at places": (sf.ForcedTokens({1: 3, 3: 2}), force_tokens({1: 3, 3: 2})),
    "an end at a place": (sf.ForcedTokens({2: 0}), force_tokens({2: 0})),
    "no token twice": (sf.NoRepeatNgram(1), no_repeat(1)),
    "no bigram twice": (sf.NoRepeatNgram(2), no_repeat(2)),
    "no trigram twice": (sf.NoRepeatNgram(np.int64(3)), no_repeat(3)),
    "repeat less": (sf.RepetitionPenalty(1.8), repeat_less(1.8)),
    "repeat more": (sf.RepetitionPenalty(0.4), repeat_less(0.4)),
    "repeat the same": (sf.RepetitionPenalty(1), repeat_less(1)),
    "a set": (sf.AllowedTokens(SEQUENCES[0]), allow([SEQUENCES[0]] * 3, ENDS)),
    "a set as arrays": (sf.AllowedTokens([np.array(s) for s in SEQUENCES[0]]), allow([SEQUENCES[0]] * 3, ENDS)),
    "a set as Ragged": (sf.AllowedTokens(ragged(SEQUENCES[0])), allow([SEQUENCES[0]] * 3, ENDS)),
    "a tree": (sf.AllowedTokens(sf.Trie(SEQUENCES[0])), allow([SEQUENCES[0]] * 3, ENDS)),
    "a set for each": (sf.AllowedTokens(SEQUENCES), allow(SEQUENCES, ENDS)),
    "a set for each as LoD": (sf.AllowedTokens(lod(SEQUENCES)), allow(SEQUENCES, ENDS)),
    "an empty set": (sf.AllowedTokens([]), allow([[]] * 3, ENDS)),
    "an empty set for each": (sf.AllowedTokens(lod([[], [], []])), allow([[]] * 3, ENDS)),
    "ends alone": (sf.AllowedTokens([[]]), allow([[[]]] * 3, ENDS)),
}

OPTIONS = {
    "end": ragged(ENDS),
    "beam_size": np.array([4, 3, 5]),
    "max_new_tokens": np.array([6, 4, 7]),
    "n_best": 3,
    "length_penalty": np.array([1.0, 0.0, 0.6]),
}


@every_rule
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit(name, rule):
    limit, slow = LIMITS[name]
    model = Model(len(name), VOCABULARY)
    result = model.search(rule=rule, constraints=limit, **OPTIONS)
    assert_same(result, model.slow_search([slow], rule, **OPTIONS))


@every_rule
@given(data=st.data())
def test_several_limits(rule, data):
    """Also beside a least length, hooks, a beam that is pruned, and where many scores are the same."""
    names = data.draw(st.lists(st.sampled_from(sorted(LIMITS)), min_size=2, max_size=4, unique=True))
    model = Model(data.draw(st.integers(0, 99)), VOCABULARY)
    if rule != "ct2" and data.draw(st.booleans()):
        model.table = model.table.round()
    options = OPTIONS | {"min_new_tokens": data.draw(st.sampled_from([0, np.array([2, 0, 3])]))}
    options["prune"] = data.draw(st.sampled_from([None, sf.Prune(per_parent=2), sf.Prune(absolute=4.0)]))
    for hook in data.draw(st.lists(st.sampled_from(["on_candidates", "on_selected"]), unique=True)):
        options[hook] = lambda *found: found[:-1]
    limits = [LIMITS[name] for name in names]
    result = model.search(rule=rule, constraints=[limit for limit, _ in limits], **options)
    assert_same(result, model.slow_search([slow for _, slow in limits], rule, **options))


@every_rule
def test_a_limit_beside_a_hook_on_scores(rule):
    """The hook comes first; where limits act on scores it gets what they have left."""

    def less(scores, state):
        return scores - np.float32(0.3) * np.arange(VOCABULARY, dtype=np.float32)

    def look(scores, state):
        masked = np.isneginf(scores)
        assert (masked[:, 2].all() if rule == "ct2" else not masked.any()) or state.t + 1 == 7
        return scores

    model = Model(3, VOCABULARY)
    result = model.search(rule=rule, on_scores=[look, less], constraints=[sf.BannedTokens([2])], **OPTIONS)
    if rule == "ct2":
        step = lambda state: (np.where(np.arange(VOCABULARY) == 2, NONE, model.logits(state)), None)  # noqa: E731
        wanted = model.search(step, rule=rule, on_scores=less, **OPTIONS)
    else:
        mask = lambda scores, state: np.where(np.arange(VOCABULARY) == 2, np.float32(NONE), scores)  # noqa: E731
        wanted = model.search(rule=rule, on_scores=[less, mask], **OPTIONS)
    assert_same(result, wanted)


@every_rule
def test_limits_of_one_token_add_up(rule):
    model, slow = Model(13, VOCABULARY), [repeat_less(1.5), ban([2]), repeat_less(1.25), ban([2], [3])]
    limits = [sf.RepetitionPenalty(1.5), sf.BannedTokens(2), sf.RepetitionPenalty(1.25), sf.BannedTokens([2, 3])]
    wanted = model.slow_search(slow, rule, **OPTIONS)
    assert_same(model.search(rule=rule, constraints=limits, **OPTIONS), wanted)
    assert_same(model.search(rule=rule, constraints=limits[::-1], **OPTIONS), wanted)


@every_rule
@pytest.mark.parametrize("vocabulary", [17, 130] if INTERPRETED else [17, 130, 1300])
def test_limits_in_a_large_vocabulary(vocabulary, rule):
    """The best tokens are found block by block, but not those that limits change."""
    model, random = Model(vocabulary, vocabulary), np.random.default_rng(vocabulary)
    rare = random.permutation(np.arange(2, vocabulary))
    model.table[..., rare[: vocabulary // 2]] += 3
    banned = [[int(token)] for token in rare[: vocabulary // 3]] + [
        [int(a), int(b)] for a in rare[:9] for b in rare[-9:]
    ]
    sequences = random.integers(2, vocabulary, (40, 4)).tolist()
    options = {"end": [0, 1], "beam_size": 5, "max_new_tokens": 6, "n_best": 5, "rule": rule, "min_new_tokens": 2}
    for limits, slow in [
        ([sf.BannedTokens(banned)], [ban(*banned)]),
        ([sf.RepetitionPenalty(4.0), sf.NoRepeatNgram(2)], [repeat_less(4.0), no_repeat(2)]),
        ([sf.RepetitionPenalty(0.1), sf.BannedTokens(0)], [repeat_less(0.1), ban([0])]),
        ([sf.AllowedTokens(sequences)], [allow([sequences] * 3, [[0, 1]] * 3)]),
    ]:
        assert_same(model.search(constraints=limits, **options), model.slow_search(slow, **options))


def assert_everything(result, model, ends, longest, allowed, slow=None):
    """The result has all sequences that are allowed, with their log-probabilities."""
    for i, hypotheses in enumerate(result.tokens.to_nested()):
        wanted = {t: s for t, s in model.everything(i, ends, longest, slow).items() if allowed(t)}
        assert {tuple(tokens) for tokens in hypotheses} == set(wanted)
        assert len(hypotheses) == len(wanted)
        scores = result.scores[slice(*result.tokens.lod[0][i : i + 2])]
        np.testing.assert_allclose(scores, [wanted[tuple(t)] for t in hypotheses], 1e-4, 1e-5)


def test_a_limit_is_made_anew_for_every_search():
    """One object serves searches one after the other, and side by side."""
    model = Model(1, VOCABULARY)
    for limit, _ in LIMITS.values():
        first = model.search(constraints=[limit], **OPTIONS)
        decoders = [
            sf.BeamDecoder(None, start=np.full(3, VOCABULARY), constraints=[limit], **OPTIONS) for _ in range(2)
        ]
        while any(decoder.active for decoder in decoders):
            for decoder in decoders:
                if decoder.active:
                    decoder.step(*model(decoder.state))
        for decoder in decoders:
            assert_same_bits(decoder.result(), first)


def test_a_tree_with_other_ends():
    """The same tree serves searches with other ends."""
    trie, model = sf.Trie([[1, 2], [3]]), Model(1, VOCABULARY, sources=1)
    options = {"beam_size": 4, "n_best": 4, "max_new_tokens": 5, "constraints": [sf.AllowedTokens(trie)]}
    for end, wanted in [
        (0, [[1, 2, 0], [3, 0]]),
        ([4, 5], [[1, 2, 4], [1, 2, 5], [3, 4], [3, 5]]),
        (3, [[1, 2, 3], [3]]),
    ]:
        for _ in range(2):
            assert sorted(model.search(end=end, **options).tokens.to_nested()[0]) == wanted


def test_a_source_whose_limits_forbid_everything_has_no_hypothesis():
    model = Model(1, VOCABULARY)
    limits = [sf.ForcedPrefix([[1], [2], [1]]), sf.BannedTokens([2])]
    result = model.search(constraints=limits, end=0, beam_size=2, max_new_tokens=3)
    assert [len(found) for found in result.tokens.to_nested()] == [1, 0, 1]


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=8),
    st.sampled_from([1, 10**6, 2**60]),
    st.data(),
)
def test_a_tree_is_a_dict_of_dicts(sequences, scale, data):
    sequences = [[token * scale for token in sequence] for sequence in sequences]
    form = data.draw(st.sampled_from([list, ragged, lambda s: [np.array(x, np.uint64) for x in s]]))
    trie = sf.Trie(form(sequences))
    wanted = {}
    for sequence in sequences:
        node = wanted
        for token in sequence:
            node = node.setdefault(token, {})
    assert (trie.tokens.dtype, trie.begin.dtype, trie.end.dtype, trie.whole.dtype) == (np.int64,) * 3 + (bool,)
    assert trie.tokens.shape == trie.begin.shape == trie.end.shape
    count = 0

    def check(i, node, tokens=()):
        nonlocal count
        count += 1
        assert trie.whole[i] == (list(tokens) in sequences)
        children = list(range(trie.begin[i], trie.end[i]))
        assert [trie.tokens[child] for child in children] == sorted(node)
        for child in children:
            assert trie.child(np.array([i]), trie.tokens[[child]]).tolist() == [child]
            check(child, node[int(trie.tokens[child])], (*tokens, int(trie.tokens[child])))
        others = [token for token in (-1, 0, scale, 3 * scale, 5 * scale + 1) if token not in node and token < 2**63]
        assert trie.child(np.full(len(others), i), np.array(others, np.int64)).tolist() == [-1] * len(others)

    assert trie.tokens[0] == -1
    check(0, wanted)
    assert count == trie.tokens.size
    assert trie.child(np.array([-1, -1]), np.array([0, 1])).tolist() == [-1, -1]


# --- phrases that must be there --------------------------------------------------------------------------------------


def has(tokens, phrase):
    return any(list(tokens[i : i + len(phrase)]) == list(phrase) for i in range(len(tokens) - len(phrase) + 1))


def has_all(tokens, phrases):
    return all(has(tokens, phrase) for phrase in phrases)


PHRASES = {
    "one token": [[2]],
    "one phrase": [[1, 2]],
    "several": [[3], [1, 2]],
    "overlapping": [[1, 2], [2, 3]],
    "one in the other": [[1, 2, 3], [2]],
    "twice the same": [[2, 2], [2, 2]],
    "a start again": [[1, 1, 2]],
    "two with one start": [[1, 2], [1, 3]],
    "an end": [[2, 0]],
    "none": [],
}


rules_but_paddle = pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "paddle"])


@rules_but_paddle
@pytest.mark.parametrize("name", PHRASES)
def test_phrases_against_all_sequences(name, rule):
    """A beam that holds everything finds all sequences that have the phrases, and the longest in time."""
    model, phrases = Model(7, 4, sources=2), PHRASES[name]
    options = {"end": 0, "beam_size": 130, "n_best": 130, "max_new_tokens": 4, "length_penalty": 0, "rule": rule}
    result = model.search(constraints=[sf.LexicalConstraints(phrases)], **options)
    must_end = rule == "fairseq" or (rule == "gnmt" and name != "two with one start")  # where none has room for it

    def allowed(tokens):
        return has_all(tokens, phrases) and (tokens[-1] == 0 or not must_end)

    slow = None
    if rule == "ct2":  # what is left has all the probability

        def slow(source, tokens, row):
            only(row, [token for token in range(4) if reachable((*tokens, token), phrases, 4)])

    assert_everything(result, model, {0}, 4, allowed, slow)


def reachable(tokens, phrases, longest):
    """Can a hypothesis that begins like this be allowed, as far as its next phrase alone is concerned?"""
    if tokens[-1] == 0 or len(tokens) == longest:
        return has_all(tokens, phrases)
    begun = [
        max(j for j in range(len(phrase) + 1) if list(phrase[:j]) == list(tokens[len(tokens) - j :]))
        for phrase in phrases
    ]
    missing = [len(p) - j for p, j in zip(phrases, begun, strict=True) if not has(tokens, p)]
    return max(missing, default=0) <= longest - len(tokens)


@rules_but_paddle
def test_phrases_of_each_source_with_a_narrow_beam(rule):
    """All hypotheses have them, unlikely though they are, and those of every source end."""
    phrases = [[[7], [8, 9, 7]], [], [[9, 9], [8, 9]], [[5], [6], [7], [8]]]
    model = Model(2, 10, sources=4)
    model.table[..., 5:] -= 6
    options = {"end": [0, 1], "beam_size": 6, "n_best": 6, "max_new_tokens": 14, "rule": rule, "length_penalty": 1.0}
    plain = model.search(**options).tokens.to_nested()
    for form in (list, lod):
        result = model.search(constraints=[sf.LexicalConstraints(form(phrases))], **options)
        assert result.tokens.to_nested()[1] == plain[1]
        for found, wanted in zip(result.tokens.to_nested(), phrases, strict=True):
            assert any(tokens[-1] in (0, 1) for tokens in found)
            assert all(has_all(tokens, wanted) for tokens in found)


@pytest.mark.parametrize("rule", ["ct2", "fairseq", "marian"])
@pytest.mark.parametrize("name", [name for name in PHRASES if name != "none"])
def test_the_places_of_a_beam_are_shared_out(rule, name):
    """Of every degree of progress in turn the best candidate, the furthest first; in plain Python."""
    model = Model(11, 4, sources=2)
    result = model.search(
        constraints=[sf.LexicalConstraints(PHRASES[name])], end=0, beam_size=4, n_best=4, max_new_tokens=6, rule=rule
    )
    for i, found in enumerate(result.tokens.to_nested()):
        options = Options((0,), 4, 6, rule, 4)
        wanted = slow_phrases(lambda tokens, i=i: model.row(i, tokens), PHRASES[name], options)
        assert found == [list(path.tokens) for path, _ in wanted]
        scores = result.scores[slice(*result.tokens.lod[0][i : i + 2])]
        np.testing.assert_allclose(scores, [score for _, score in wanted], 1e-4, 1e-5)


def slow_phrases(logits, phrases, options):
    """Search one source, on the slow decoder's rules."""

    def limited(tokens, row):
        row = np.array(row)
        only(row, [t for t in range(row.size) if reachable((*tokens, t), phrases, options.max_new_tokens)])
        return row

    def progress(tokens):
        done = [has(tokens, phrase) for phrase in phrases]
        begun = [
            max(j for j in range(len(phrase)) if list(phrase[:j]) == list(tokens[len(tokens) - j :]))
            for phrase, there in zip(phrases, done, strict=True)
            if not there
        ]
        return sum(len(phrase) for phrase, there in zip(phrases, done, strict=True) if there) + max(begun, default=0)

    first = options.rule == "ct2"
    rule, beam, g = beam_oracle.BY_NAME[options.rule](options), [beam_oracle.Path()], 0
    while beam and not rule.done:
        g += 1
        banks = {}
        for row, path in enumerate(beam):
            given_ = (lambda tokens: limited(tokens, logits(tokens))) if first else logits
            for grown in beam_oracle.children(path, given_, None if first else limited, options, g):
                banks.setdefault(progress(grown.tokens), []).append((row, grown))
        ranked = [
            (turn, -far, candidate)
            for far, bank in banks.items()
            for turn, candidate in enumerate(sorted(bank, key=beam_oracle.order))
        ]
        ranked.sort(key=lambda one: one[:2])
        beam = rule.step([candidate for _, _, candidate in ranked][: rule.kept()], g)
    return rule.result()[: options.n_best]


@pytest.mark.parametrize("phrases", [[[2, 3]], [2, 3], ragged([[2, 3]]), [np.array([2, 3])], (((2, 3),),) * 3])
def test_phrases_in_every_form(phrases):
    model = Model(9, VOCABULARY)
    wanted = model.search(constraints=[sf.LexicalConstraints([[[2, 3]]] * 3)], **OPTIONS)
    assert_same_bits(model.search(constraints=[sf.LexicalConstraints(phrases)], **OPTIONS), wanted)
    assert all(has(tokens, [2, 3]) for found in wanted.tokens.to_nested() for tokens in found)


@pytest.mark.parametrize("phrases", [[], [[], [], []], lod([[], [], []])])
def test_no_phrases(phrases):
    model = Model(9, VOCABULARY)
    assert_same_bits(model.search(constraints=sf.LexicalConstraints(phrases), **OPTIONS), model.search(**OPTIONS))


def test_phrases_that_have_no_room():
    """Their source has no hypothesis."""
    model = Model(9, VOCABULARY)
    limit = sf.LexicalConstraints([[[2, 3], [3, 2]], [[2, 3], [1, 2]], [[2, 3], [1, 1]]])
    result = model.search(constraints=[limit], **OPTIONS | {"max_new_tokens": 3, "end": 0})
    assert result.tokens.to_nested()[1:] == [[[1, 2, 3]], []]
    assert sorted(result.tokens.to_nested()[0]) == [[2, 3, 2], [3, 2, 3]]


@rules_but_paddle
def test_phrases_beside_other_limits(rule):
    """Bans hold for phrases too, and a penalty does not keep a phrase from being followed."""
    model = Model(4, VOCABULARY)
    limits = [sf.LexicalConstraints([[2, 3], [3, 3]]), sf.RepetitionPenalty(3.0), sf.BannedTokens([1, [4, 2]])]
    result = model.search(constraints=limits, **OPTIONS | {"max_new_tokens": 8, "n_best": 1, "min_new_tokens": 4})
    for source, (tokens,) in enumerate(result.tokens.to_nested()):
        assert tokens[-1] in ENDS[source] or len(tokens) == 8
        assert has_all(tokens, [[2, 3], [3, 3]])
        assert 1 not in tokens
        assert not has(tokens, [4, 2])
        assert len(tokens) > 4


# --- groups ----------------------------------------------------------------------------------------------------------


@every_rule
def test_groups_without_a_penalty_are_beams_of_their_own(rule):
    model = Model(8, VOCABULARY)
    options = OPTIONS | {"rule": rule, "n_best": 1, "beam_size": 3, "length_penalty": 1.0}
    alone = model.search(**options | {"n_best": 3})
    result = model.search(constraints=[sf.DiverseGroups(2, 0)], **options | {"beam_size": 6, "n_best": 6})
    outer, wanted = alone.tokens.lod[0], alone.tokens.to_nested()
    for i, found in enumerate(result.tokens.to_nested()):
        assert found == [tokens for tokens in wanted[i] for _ in range(2)]
        scores = result.scores[slice(*result.tokens.lod[0][i : i + 2])]
        np.testing.assert_allclose(scores, np.repeat(alone.scores[outer[i] : outer[i + 1]], 2), 1e-5)
    assert result.rows == 2 * alone.rows - model.sources  # at first they share one row
    assert_same_bits(model.search(constraints=[sf.DiverseGroups(1, 0.7)], **options), model.search(**options))


def slow_groups(logits, groups, penalty, options):
    """Search one source with several beams, each on the slow decoder's rules."""
    rules = [beam_oracle.BY_NAME[options.rule](options) for _ in range(groups)]
    beams, g = [[beam_oracle.Path()] for _ in rules], 0
    while any(beams):
        g += 1
        chosen = Counter()
        for i, rule in enumerate(rules):
            less = np.array([penalty * chosen[token] for token in range(len(logits(())))], np.float32)

            def punished(tokens, row, less=less):
                return row - less

            first = options.rule == "ct2"
            given_ = (lambda tokens, f=punished: f(tokens, logits(tokens))) if first else logits
            candidates = [
                (row, grown)
                for row, path in enumerate(beams[i])
                for grown in beam_oracle.children(path, given_, None if first else punished, options, g)
            ]
            if candidates:
                best = beam_oracle.pruned(candidates, rule.kept(), options)
                going = [path for _, path in best if not path.ended][: options.beam_size]
                chosen.update(path.tokens[-1] for path in going)
                beams[i] = rule.step(best, g)
            if rule.done or not candidates:
                beams[i] = []
    return sorted((found for rule in rules for found in rule.result()), key=lambda found: -found[1])


@every_rule
@pytest.mark.parametrize(("groups", "penalty"), [(2, 0.5), (3, 2.0), (6, 1.0)])
def test_groups_avoid_what_those_before_have_chosen(rule, groups, penalty):
    model = Model(groups, VOCABULARY)
    options = {"end": ragged(ENDS), "beam_size": 6, "max_new_tokens": 5, "n_best": 6, "rule": rule}
    result = model.search(constraints=[sf.DiverseGroups(groups, penalty)], **options)
    for i, found in enumerate(result.tokens.to_nested()):
        options = Options(tuple(ENDS[i]), 6 // groups, 5, rule, 6 // groups)
        wanted = slow_groups(lambda tokens, i=i: model.row(i, tokens), groups, penalty, options)[:6]
        assert found == [list(path.tokens) for path, _ in wanted]
        scores = result.scores[slice(*result.tokens.lod[0][i : i + 2])]
        np.testing.assert_allclose(scores, [score for _, score in wanted], 1e-4, 1e-5)


@every_rule
def test_groups_beside_limits_and_hooks(rule):
    model = Model(6, VOCABULARY)
    names = ["ban phrases", "repeat less", "no bigram twice"]
    options = OPTIONS | {"beam_size": np.array([4, 2, 6]), "n_best": 2, "min_new_tokens": 1}
    groups = sf.DiverseGroups(2, 0.75)
    result = model.search(rule=rule, constraints=[groups, *(LIMITS[name][0] for name in names)], **options)
    slow = [LIMITS[name][1] for name in names]
    if rule != "ct2":  # where the penalty is of the scores, and so are the limits
        assert_same(result, model.slow_search(slow, rule, constraints=[groups], **options))
    hooks = {"on_candidates": lambda ids, scores, state: (ids, scores), "prune": sf.Prune(per_parent=6)}
    limits = [groups, *(LIMITS[name][0] for name in names)]
    assert_same_bits(result, model.search(rule=rule, constraints=limits, **options | hooks))
    if rule == "hf":
        assert (
            result.tokens.to_nested() != model.search(rule=rule, constraints=limits[1:], **options).tokens.to_nested()
        )


# --- sampling --------------------------------------------------------------------------------------------------------


def sampled(model, n, k, seeds, **options):
    """`k` hypotheses of each of `n` sources, all of which have the first source's model."""
    step = lambda state: (model.table[0, min(state.t, 5), state.tokens], None)  # noqa: E731
    given_ = {"start": np.full(n, model.vocabulary), "end": 0, "beam_size": k, "n_best": k, "max_new_tokens": 3}
    return sf.beam_search(step, None, sampling=sf.Stochastic(seeds), **given_ | options)


def test_samples_are_distinct_and_have_their_log_probabilities():
    model = Model(23, 4)
    wanted = model.everything(0, {0}, 3)
    n = 40
    result = sampled(model, n, 7, list(range(n)), rule="hf", length_penalty=2.0)
    for i, found in enumerate(result.tokens.to_nested()):
        assert len(set(map(tuple, found))) == len(found) == 7
        scores = result.scores[slice(*result.tokens.lod[0][i : i + 2])]
        np.testing.assert_allclose(scores, [wanted[tuple(tokens)] for tokens in found], 1e-4, 1e-5)
    sums = np.add.reduceat(result.token_scores.data, result.tokens.lod[1][:-1])
    np.testing.assert_allclose(sums, result.scores, 1e-4, 1e-5)
    everything = sampled(model, 3, 50, 5, n_best=len(wanted)).tokens.to_nested()
    for found in everything:
        assert {tuple(tokens) for tokens in found} == set(wanted)
        assert len(found) == len(wanted)


def test_a_sample_where_little_is_possible():
    """Fewer hypotheses than places, or none."""
    model = Model(26, 4)
    trie = sf.AllowedTokens([[[1, 2], [3]], [], [[]]])
    found = sampled(model, 3, 4, 1, constraints=[trie]).tokens.to_nested()
    assert [sorted(hypotheses) for hypotheses in found] == [[[1, 2, 0], [3, 0]], [], [[0]]]
    rare = np.array([[0, -200, -np.inf, -1e30]], np.float32)
    step = lambda state: (np.repeat(rare, len(state.source), 0), None)  # noqa: E731
    result = sf.beam_search(
        step, None, start=np.zeros(1, int), end=[0, 1, 2, 3], beam_size=4, n_best=4, max_new_tokens=2,
        sampling=sf.Stochastic(0),
    )  # fmt: skip
    assert result.tokens.to_nested() == [[[0], [1], [3]]]


# --- what does not fit -----------------------------------------------------------------------------------------------

MAKE = [
    (lambda: sf.Trie(3), TypeError, "sequences"),
    (lambda: sf.Trie("abc"), TypeError, "sequences"),
    (lambda: sf.Trie([3]), TypeError, "sequences"),
    (lambda: sf.Trie([[1.5]]), TypeError, "sequences"),
    (lambda: sf.Trie([[True]]), TypeError, "sequences"),
    (lambda: sf.Trie([[-1]]), sf.StructureError, "negative"),
    (lambda: sf.Trie([[2**63]]), sf.StructureError, "int64"),
    (lambda: sf.Trie([np.zeros((2, 2), int)]), sf.StructureError, "one axis"),
    (lambda: sf.AllowedTokens(3), TypeError, "sequences"),
    (lambda: sf.AllowedTokens([[1], 2]), TypeError, "sequences"),
    (lambda: sf.AllowedTokens([[-2]]), sf.StructureError, "negative"),
    (lambda: sf.AllowedTokens([[["a"]]]), TypeError, "sequences"),
    (lambda: sf.ForcedPrefix(3), TypeError, "forced prefix"),
    (lambda: sf.ForcedPrefix("ab"), TypeError, "forced prefix"),
    (lambda: sf.ForcedPrefix([0.5]), TypeError, "forced prefix"),
    (lambda: sf.ForcedPrefix([-1]), sf.StructureError, "forced prefix.*negative"),
    (lambda: sf.ForcedPrefix(np.zeros((2, 2))), (TypeError, sf.StructureError), "forced prefix"),
    (lambda: sf.ForcedTokens([1]), TypeError, "dict"),
    (lambda: sf.ForcedTokens({-1: 1}), sf.ConversionError, "place"),
    (lambda: sf.ForcedTokens({1: -1}), sf.ConversionError, "token"),
    (lambda: sf.ForcedTokens({1: 1.5}), TypeError, "token"),
    (lambda: sf.ForcedTokens({"1": 1}), TypeError, "place"),
    (lambda: sf.BannedTokens(None), TypeError, "banned"),
    (lambda: sf.BannedTokens("ab"), TypeError, "banned"),
    (lambda: sf.BannedTokens(1.5), TypeError, "banned"),
    (lambda: sf.BannedTokens([1, [2.5]]), TypeError, "banned"),
    (lambda: sf.BannedTokens([True]), TypeError, "banned"),
    (lambda: sf.BannedTokens(-1), sf.StructureError, "banned.*negative"),
    (lambda: sf.BannedTokens([1, [-2, 3]]), sf.StructureError, "banned.*negative"),
    (lambda: sf.BannedTokens([1, []]), sf.StructureError, "no token"),
    (lambda: sf.BannedTokens([[[1]]]), TypeError, "banned"),
    (lambda: sf.NoRepeatNgram(0), sf.ConversionError, "n must be at least 1"),
    (lambda: sf.NoRepeatNgram(1.5), TypeError, "n must"),
    (lambda: sf.RepetitionPenalty(0), sf.ConversionError, "above 0"),
    (lambda: sf.RepetitionPenalty(-1.0), sf.ConversionError, "above 0"),
    (lambda: sf.RepetitionPenalty(np.nan), sf.ConversionError, "above 0"),
    (lambda: sf.RepetitionPenalty(np.inf), sf.ConversionError, "penalty"),
    (lambda: sf.RepetitionPenalty("2"), TypeError, "penalty"),
    (lambda: sf.RepetitionPenalty(None), TypeError, "penalty"),
    (lambda: sf.DiverseGroups(0, 1.0), sf.ConversionError, "groups"),
    (lambda: sf.DiverseGroups(2.0, 1.0), TypeError, "groups"),
    (lambda: sf.DiverseGroups(2, -1.0), sf.ConversionError, "penalty"),
    (lambda: sf.DiverseGroups(2, np.nan), sf.ConversionError, "penalty"),
    (lambda: sf.DiverseGroups(2, True), TypeError, "penalty"),
    (lambda: sf.LexicalConstraints(3), TypeError, "phrases"),
    (lambda: sf.LexicalConstraints("ab"), TypeError, "phrase"),
    (lambda: sf.LexicalConstraints([[1], []]), sf.StructureError, "no token"),
    (lambda: sf.LexicalConstraints([[[1], []]]), sf.StructureError, "no token"),
    (lambda: sf.LexicalConstraints([[-1]]), sf.StructureError, "negative"),
    (lambda: sf.LexicalConstraints([[1.5]]), TypeError, "phrase"),
    (lambda: sf.LexicalConstraints([[1], 2]), TypeError, "phrase"),
    (lambda: sf.Stochastic(None), TypeError, "seed"),
    (lambda: sf.Stochastic(1.5), TypeError, "seed"),
    (lambda: sf.Stochastic([1.5]), TypeError, "seed"),
    (lambda: sf.Stochastic("1"), TypeError, "seed"),
    (lambda: sf.Stochastic(np.zeros((2, 2), int)), (TypeError, sf.StructureError), "seed"),
    (lambda: sf.Prune(relative=0), sf.ConversionError, "relative"),
    (lambda: sf.Prune(absolute=-0.5), sf.ConversionError, "absolute"),
    (lambda: sf.Prune(local=np.nan), sf.ConversionError, "local"),
    (lambda: sf.Prune(per_parent=0), sf.ConversionError, "per_parent"),
    (lambda: sf.Prune(safe=1), TypeError, "safe"),
    (lambda: sf.Prune(safe="yes"), TypeError, "safe"),
    (lambda: sf.Prune(relative=True), TypeError, "relative"),
]


@pytest.mark.parametrize(("make", "error", "words"), MAKE, ids=[str(i) for i in range(len(MAKE))])
def test_a_limit_that_makes_no_sense(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("constraints", "error", "words"),
    [
        (sf.BannedTokens(6), sf.StructureError, "token 6 .* 6 columns"),
        (sf.BannedTokens([[9, 1]]), sf.StructureError, "token 9 .* 6 columns"),
        (sf.ForcedPrefix([6]), sf.StructureError, "token 6 .* 6 columns"),
        (sf.ForcedPrefix([[1], [7], []]), sf.StructureError, "token 7 .* 6 columns"),
        (sf.ForcedTokens({1: 8}), sf.StructureError, "token 8 .* 6 columns"),
        (sf.AllowedTokens([[1, 2, 6]]), sf.StructureError, "token 6 .* 6 columns"),
        (sf.AllowedTokens(sf.Trie([[1, 2, 2**62]])), sf.StructureError, "columns"),
        (sf.LexicalConstraints([[1, 6]]), sf.StructureError, "token 6 .* 6 columns"),
        (sf.ForcedPrefix([[1], [2]]), sf.StructureError, "2 sources, but 3 sources"),
        (sf.AllowedTokens([[[1]], [[2]]]), sf.StructureError, "2 sources, but 3 sources"),
        (sf.AllowedTokens(lod([[[1]], [], [], []])), sf.StructureError, "4 sources, but 3 sources"),
        (sf.LexicalConstraints([[[1]], [[2]]]), sf.StructureError, "2 sources, but 3 sources"),
        (sf.DiverseGroups(3, 0.5), sf.ConversionError, "beam_size of 4 .* 3 groups"),
        ([sf.DiverseGroups(2, 0.5)] * 2, sf.ConversionError, "DiverseGroups"),
        ([sf.LexicalConstraints([[1]])] * 2, sf.ConversionError, "LexicalConstraints"),
        (
            [sf.LexicalConstraints([[1]]), sf.DiverseGroups(2, 1)],
            sf.ConversionError,
            "DiverseGroups.*LexicalConstraints",
        ),
        (sf.BannedTokens, TypeError, "constraints"),
        ([None], TypeError, "constraints"),
        ([sf.Trie([[1]])], TypeError, "constraints"),
        (3, TypeError, "constraints"),
    ],
)
def test_a_limit_that_does_not_fit(constraints, error, words):
    with pytest.raises(error, match=words):
        Model(1, VOCABULARY).search(constraints=constraints, end=0, beam_size=4, max_new_tokens=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampling": sf.Stochastic(1), "constraints": [sf.DiverseGroups(2, 1)]}, "DiverseGroups"),
        ({"sampling": sf.Stochastic(1), "constraints": [sf.LexicalConstraints([[1]])]}, "LexicalConstraints"),
        ({"rule": "paddle", "constraints": [sf.LexicalConstraints([[1]])]}, "LexicalConstraints.*paddle"),
        ({"on_selected": print, "sampling": sf.Stochastic(1)}, "on_selected"),
        ({"on_selected": print, "constraints": [sf.DiverseGroups(2, 1)]}, "on_selected"),
        ({"on_selected": print, "constraints": [sf.LexicalConstraints([[1]])]}, "on_selected"),
        ({"on_candidates": print, "constraints": [sf.LexicalConstraints([[1]])]}, "on_candidates"),
    ],
)
def test_what_does_not_go_together(options, words):
    with pytest.raises(sf.ConversionError, match=words):
        Model(1, VOCABULARY).search(end=0, beam_size=4, max_new_tokens=3, **options)


@pytest.mark.parametrize("seeds", [[1, 2], np.arange(4)])
def test_seeds_that_do_not_fit(seeds):
    with pytest.raises(sf.StructureError, match="seeds, but 3 sources"):
        Model(1, VOCABULARY).search(sampling=sf.Stochastic(seeds), end=0, beam_size=4, max_new_tokens=3)


def test_searches_without_sources():
    """Limits have nothing to do there."""
    for limit in (sf.BannedTokens(1), sf.AllowedTokens([[1]]), sf.DiverseGroups(2, 1), sf.LexicalConstraints([[1]])):
        result = sf.beam_search(
            print, None, start=np.zeros(0, int), end=0, beam_size=2, max_new_tokens=3, constraints=[limit]
        )
        assert result.tokens.to_nested() == []


# --- the trace -------------------------------------------------------------------------------------------------------


def paths(steps):
    """Every path through the steps of a trace from a start to any row, source by source, as {tokens: last scores}."""
    found = [{} for _ in range(len(steps.ids[0]))]
    rows = [(i, ()) for i in range(len(found))]
    for t, (ids, scores) in enumerate(zip(steps.ids.steps, steps.scores.steps, strict=True)):
        assert ids.lod[0].tolist() == scores.lod[0].tolist()
        assert ids.lod[1].tolist() == scores.lod[1].tolist()
        parents = np.repeat(np.arange(len(ids.lod[1]) - 1), np.diff(ids.lod[1]))
        assert len(ids.lod[1]) - 1 == len(rows)
        grown = []
        for parent, token, score in zip(parents.tolist(), ids.data.tolist(), scores.data.tolist(), strict=True):
            source, tokens = rows[parent]
            tokens = (*tokens, token) if t else ()
            found[source].setdefault(tokens, []).append(score)  # groups may have the same
            grown.append((source, tokens))
        assert [source for source, _ in grown] == sorted(source for source, _ in grown)
        rows = grown
    return found


TRACED = {
    "plain": {},
    "limits": {"constraints": [sf.BannedTokens([1]), sf.NoRepeatNgram(2)]},
    "phrases": {"constraints": [sf.LexicalConstraints([[2, 3]])]},
    "groups": {"constraints": [sf.DiverseGroups(2, 0.5)], "beam_size": 4},
    "pruned": {"prune": sf.Prune(relative=0.01)},
    "sample": {"sampling": sf.Stochastic(3)},
    "nothing": {"constraints": [sf.ForcedPrefix([[1], [2], [1]]), sf.BannedTokens([2])]},
    "no source": {"start": np.zeros(0, int), "end": 0, "beam_size": 3, "max_new_tokens": 2, "length_penalty": 0},
}


@every_rule
@pytest.mark.parametrize("name", TRACED)
def test_every_hypothesis_is_a_path_of_the_trace(name, rule):
    if (rule, name) == ("paddle", "phrases"):
        return
    model, options = Model(31, VOCABULARY), OPTIONS | {"end": 0} | TRACED[name]
    result = model.search(rule=rule, trace=True, **options)
    trace, n = result.trace, len(result.tokens)
    assert isinstance(trace.ids, sf.TensorArray)
    assert isinstance(trace.scores, sf.TensorArray)
    known = paths(trace)
    assert [tokens for source in trace.ids[0].to_nested() for tokens in source] == [[VOCABULARY]] * n
    inner = result.token_scores.to_nested()
    for i, found in enumerate(result.tokens.to_nested()):
        for tokens, parts in zip(found, inner[i], strict=True):
            total = np.float32(0)
            for length, part in enumerate(parts, 1):
                total += np.float32(part)
                assert min(abs(known[i][tuple(tokens[:length])] - total)) < 1e-5
    packed = trace.ids.pack_prefixes().to_nested()
    assert len(packed) == n
    for i, leaves in enumerate(packed):
        assert all(leaf[0] == VOCABULARY and tuple(leaf[1:]) in known[i] for leaf in leaves)
        every = {tuple(leaf[1 : k + 1]) for leaf in leaves for k in range(len(leaf))}
        assert every == set(known[i])
    back = sf.beam_backtrace(trace.ids, trace.scores, beam_size=6, end=0)
    assert len(back.ids) == n
    for i, found in enumerate(back.ids.to_nested()):
        assert all(tuple(tokens[1:]) in known[i] for tokens in found)
    assert model.search(rule=rule, **options).trace is None


# --- stopping as soon as nothing better can come ---------------------------------------------------------------------


@every_rule
@pytest.mark.parametrize("n_best", [1, 2])
def test_safe_stopping_changes_no_hypothesis_and_saves_rows(rule, n_best):
    """As long as scores fall; the best ones stay the best ones."""
    n, saved = 20, 0
    model = Model(40, VOCABULARY, n)
    for power in (1.0, 0.0, 2.0, -0.5):
        options = {"end": [0, 1], "beam_size": 5, "max_new_tokens": 12, "n_best": n_best, "rule": rule}
        plain = model.search(length_penalty=power, **options)
        safe = model.search(length_penalty=power, prune=sf.Prune(safe=True), **options)
        if rule == "marian":  # where a beam that goes on shrinks, and so do those that come late
            firsts = [[found[:1] for found in result.tokens.to_nested()] for result in (plain, safe)]
            assert firsts[0] == firsts[1]
        else:
            assert safe.tokens.to_nested() == plain.tokens.to_nested()
            assert safe.scores.tobytes() == plain.scores.tobytes()
        assert safe.rows <= plain.rows
        saved += plain.rows - safe.rows
    assert saved > 0 or rule in ("hf", "gnmt")


@every_rule
@pytest.mark.parametrize(
    "prune", [sf.Prune(relative=0.05), sf.Prune(absolute=2.0), sf.Prune(local=0.1), sf.Prune(per_parent=1)], ids=str
)
def test_thresholds_with_several_hypotheses(rule, prune):
    """What is pruned is not among the hypotheses; the best candidate always is kept."""
    model = Model(41, VOCABULARY, 10)
    options = {"end": [0, 1], "beam_size": 5, "max_new_tokens": 8, "n_best": 4, "rule": rule}
    plain, pruned = model.search(**options), model.search(prune=prune, **options)
    assert all(len(found) >= 1 for found in pruned.tokens.to_nested())
    assert pruned.rows < plain.rows
    if prune.absolute is not None and rule == "paddle":  # where scores are log-probabilities
        for a, b in itertools.pairwise(pruned.tokens.lod[0].tolist()):
            assert np.ptp(pruned.scores[a:b]) <= 2.0 * 8


# --- what scores and memories may be ---------------------------------------------------------------------------------


def readonly(x):
    x = x.copy()
    x.flags.writeable = False
    return x


FORMS = {
    "as it is": lambda x: x,
    "read-only": readonly,
    "big-endian": lambda x: x.astype(">f4"),
    "float64": lambda x: x.astype(np.float64),
    "big-endian float64": lambda x: x.astype(">f8"),
    "every other column": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "column by column": np.asfortranarray,
    "read-only and not contiguous": lambda x: readonly(np.repeat(x, 2, 0))[::2],
    "a view on more": lambda x: np.concatenate([x, x])[: len(x)],
    "at an odd address": lambda x: np.frombuffer(b"\0" + x.tobytes(), "u1")[1:].view(x.dtype).reshape(x.shape),
}

WITH = {
    "nothing": {},
    "limits": {"constraints": [sf.BannedTokens([2]), sf.RepetitionPenalty(1.3)]},
    "phrases": {"constraints": [sf.LexicalConstraints([[2, 3]])]},
    "groups": {"constraints": [sf.DiverseGroups(2, 0.5)]},
    "hook": {"on_scores": lambda scores, state: scores},
    "sample": {"sampling": sf.Stochastic(3)},
}


@pytest.mark.parametrize("more", WITH)
@pytest.mark.parametrize("form", FORMS)
def test_scores_and_memories_of_every_form(form, more):
    """Memories follow, whatever they are, and what was given is not changed."""
    model, given_ = Model(51, VOCABULARY), []
    change = FORMS[form]
    options = {"end": 0, "beam_size": 4, "max_new_tokens": 5, "n_best": 4} | WITH[more]

    def step(state):
        memory = state.memory
        assert memory[:, 0].astype(int).tolist() == state.source.tolist()
        assert memory[:, 1 : state.t].tolist() == [tokens[:-1] for tokens in beam_oracle.lists(state.prefixes)]
        memory = memory.copy()
        if state.t:
            memory[:, state.t] = state.tokens
        scores, memory = change(model.logits(state)), change(memory.astype(np.float32))
        given_.extend((x, x.copy()) for x in (scores, memory))
        return scores, memory

    memory = np.full((3, 7), -1, np.float32)
    memory[:, 0] = np.arange(3)
    result = model.search(**options)
    found = sf.beam_search(step, change(memory), start=model.vocabulary, **options)
    assert_same_bits(found, result)
    for x, before in given_:
        assert x.tobytes() == before.tobytes()
        assert x.flags.writeable == change(np.zeros((2, 2), np.float32)).flags.writeable


@pytest.mark.parametrize("more", WITH)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_wrong_scores_say_where(wrong, more):
    model = Model(54, VOCABULARY)
    model.table[1, 2, :, 3] = wrong
    with pytest.raises(ValueError, match="source 1 at step 2"):
        model.search(end=0, beam_size=4, max_new_tokens=5, min_new_tokens=4, **WITH[more])


class Own:
    """A model that keeps the arrays it returns, and gives back what it has been given, or a part of it."""

    def __init__(self, model, way):
        self.model, self.way, self.kept, self.before = model, way, [], None

    def __call__(self, state):
        scores = self.model.logits(state)
        a, b = state.memory
        assert a[:, 0].tolist() == b[:, 0].tolist() == state.source.tolist()
        if self.way == "unchanged":
            given_ = state.memory
        elif self.way == "swapped":
            given_ = (b, a)
        elif self.way == "views":
            given_ = (a[:], b[:, :])
        elif self.way == "the same twice":
            given_ = (a, a)
        elif self.way == "its own":
            given_ = (a.copy(), b.copy())
            self.kept += [(x, x.copy()) for x in given_]
        elif self.way == "one array for both":
            both = np.stack([a, b])
            given_ = (both[0], both[1])
            self.kept.append((both, both.copy()))
        elif self.way == "a part of what it keeps":
            large = np.concatenate([a, a])
            given_ = (large[: len(a)], large[len(a) :])
            self.kept.append((large, large.copy()))
        elif self.way == "by turns":
            given_ = (a.copy(), b) if state.t % 2 else (a, b.copy())
        return scores, given_

    def check(self):
        for x, before in self.kept:
            assert x.tolist() == before.tolist()


@pytest.mark.parametrize(
    "way",
    [
        "unchanged",
        "swapped",
        "views",
        "the same twice",
        "its own",
        "one array for both",
        "a part of what it keeps",
        "by turns",
    ],
)
@every_rule
def test_memories_never_become_others(way, rule):
    model = Model(53, VOCABULARY, 4)
    first = np.repeat(np.arange(4.0)[:, None], 3, 1)
    memory = (first, first.copy())
    own = Own(model, way)
    options = {"end": 0, "beam_size": np.array([4, 1, 3, 2]), "max_new_tokens": 9, "rule": rule}
    result = sf.beam_search(own, memory, start=model.vocabulary, **options)
    own.check()
    assert [x.tolist() for x in memory] == [[[i] * 3 for i in range(4)]] * 2
    assert_same_bits(result, model.search(**options))


def test_safe_stopping_draws_the_same_sample():
    rng = np.random.default_rng(4)
    table = rng.normal(size=(7, 7)).astype(np.float32) * 2
    options = {"start": np.ones(100, int), "end": 0, "beam_size": 4, "n_best": 4, "max_new_tokens": 6}
    seeds = sf.Stochastic(np.arange(100))
    found = [
        sf.beam_search(
            lambda s: (table[s.tokens], None), None, **options, sampling=seeds, prune=sf.Prune(safe=safe)
        ).tokens.to_nested()
        for safe in (False, True)
    ]
    assert found[0] == found[1]


def test_limits_act_once_on_every_group():
    rng = np.random.default_rng(5)
    table = rng.normal(size=(6, 6)).astype(np.float32)
    options = {"start": [1], "end": 0, "beam_size": 4, "n_best": 4, "max_new_tokens": 4, "rule": "ct2"}
    limits = [sf.RepetitionPenalty(3.0), sf.DiverseGroups(2, 0.0)]
    found = [
        sf.beam_search(lambda s: (table[s.tokens], None), None, **options, constraints=limits, on_scores=hook)
        for hook in (None, lambda scores, state: scores)
    ]
    assert found[0].tokens.to_nested() == found[1].tokens.to_nested()
    np.testing.assert_allclose(found[0].scores, found[1].scores, rtol=1e-5)
