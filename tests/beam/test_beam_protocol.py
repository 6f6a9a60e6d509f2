"""Constraints of users' own: what they are told, what they may say, and that nothing wrong reaches a kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_beam_constraints import OPTIONS, VOCABULARY, Model, assert_same_bits, every_rule

import seqformats as sf


class Own(sf.Constraint, sf.beam.Running):
    """A constraint that says one thing at every step."""

    def __init__(self, say):
        self.say = say

    def begin(self, n, ends):
        return self

    def limit(self, live, plan):
        self.say(live, plan)


class Allowed(sf.Constraint):
    """`AllowedTokens` as a user might write it."""

    def __init__(self, sequences):
        self.sequences = sequences

    def begin(self, n, ends):
        return AllowedNow([[*sequence, end] for sequence in self.sequences for end in ends[0]], n)


class AllowedNow(sf.beam.Running):
    def __init__(self, sequences, n):
        self.sequences, self.rows = sequences, [()] * n

    def limit(self, live, plan):
        assert [list(row) for row in self.rows] == live.prefixes.tolist()
        begin, end, tokens = [], [], []
        for row in self.rows:
            begin.append(len(tokens))
            tokens += sorted({s[live.t] for s in self.sequences if tuple(s[: live.t]) == row and len(s) > live.t})
            end.append(len(tokens))
        plan.allow(begin, end, np.array(tokens, int))

    def follow(self, live):
        self.rows = [(*self.rows[p], t) for p, t in zip(live.parents.tolist(), live.tokens.tolist(), strict=True)]


@every_rule
@given(seed=st.integers(0, 99))
def test_a_users_own_is_like_those_that_are_there(rule, seed):
    model = Model(seed, VOCABULARY)
    sequences = np.random.default_rng(seed).integers(1, VOCABULARY - 1, (9, 3)).tolist()
    banned = sorted({seed % VOCABULARY, 3})

    def ban(live, plan):
        plan.ban(np.repeat(np.arange(plan.rows), len(banned)), banned * plan.rows)

    def penalty(live, plan):
        pairs = [(row, token) for row, tokens in enumerate(live.prefixes.tolist()) for token in set(tokens)]
        rows, tokens = np.array(pairs, int).reshape(-1, 2).T
        plan.change(rows, tokens, factor=1.5)

    for own, theirs in (
        ([Allowed(sequences)], [sf.AllowedTokens(sequences)]),
        ([Own(ban)], [sf.BannedTokens(banned)]),
        ([Own(penalty), Own(ban)], [sf.RepetitionPenalty(1.5), sf.BannedTokens(banned)]),
        ([sf.BannedTokens(3), Allowed(sequences)], [sf.AllowedTokens(sequences), sf.BannedTokens(3)]),
    ):
        options = OPTIONS | {"end": 0, "rule": rule}
        assert_same_bits(model.search(constraints=own, **options), model.search(constraints=theirs, **options))


def search(say, rows=2, width=5):
    start = np.zeros(rows, int)
    return sf.beam_search(
        lambda state: (np.zeros((len(state.tokens), width), np.float32), None),
        None,
        start=start,
        end=0,
        beam_size=1,
        max_new_tokens=1,
        constraints=Own(say),
    )


WRONG = {
    "begin of another size": (lambda plan: plan.allow([0], [1], [1]), "begin must have a number for each of 2 rows"),
    "end of another size": (lambda plan: plan.allow([0, 0], [1], [1]), "end must have a number for each of 2 rows"),
    "begin below": (lambda plan: plan.allow([0, -2], [1, 1], [1]), "row 1 is allowed tokens -2 to 1 of 1"),
    "end before begin": (lambda plan: plan.allow([0, 1], [1, 0], [1]), "row 1 is allowed tokens 1 to 0 of 1"),
    "end too large": (lambda plan: plan.allow([0, 0], [1, 2], [1]), "row 1 is allowed tokens 0 to 2 of 1"),
    "falling": (lambda plan: plan.allow([0, 1], [1, 3], [4, 3, 2]), "row 1 is allowed tokens 1 to 3 of 3"),
    "twice": (lambda plan: plan.allow([0, 2], [2, 2], [3, 3]), "row 0 is allowed tokens 0 to 2 of 2"),
    "large token": (lambda plan: plan.allow([0, 0], [1, 1], [5]), "token 5 is asked for, but scores have 5 columns"),
    "negative token": (lambda plan: plan.allow([0, 0], [1, 1], [-1]), "token -1 is asked for"),
    "row too large": (lambda plan: plan.ban([2], [1]), "row 2 is changed, but there are 2 rows"),
    "negative row": (lambda plan: plan.change([0, -1], [1, 1], 2.0), "row -1 is changed"),
    "no pairs": (lambda plan: plan.ban([0, 1], [1]), "come in pairs, but there are 2 and 1"),
    "addends": (
        lambda plan: plan.change([0], [1], addend=np.zeros(2)),
        "addend must be a number, or one for each of 1",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be(wrong):
    say, words = WRONG[wrong]
    with pytest.raises(sf.StructureError, match=words):
        search(lambda live, plan: say(plan))


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, np.inf])
def test_factors_that_cannot_be(factor):
    with pytest.raises(sf.ConversionError, match="factor must be above 0"):
        search(lambda live, plan: plan.change([0], [1], factor=factor))


@pytest.mark.parametrize("addend", [np.nan, np.inf])
def test_addends_that_cannot_be(addend):
    with pytest.raises(sf.ConversionError, match="addend must not be NaN or"):
        search(lambda live, plan: plan.change([0], [1], addend=addend))


@pytest.mark.parametrize("numbers", [[0.5], ["a"], None, [None]])
def test_numbers_that_are_none(numbers):
    for say in (lambda plan: plan.ban(numbers, [1]), lambda plan: plan.ban([0], numbers)):
        with pytest.raises(TypeError):
            search(lambda live, plan, say=say: say(plan))


def test_what_may_be():
    """Any integers, ranges that share tokens, rows with anything, whatever their end, and tokens without a score."""
    found = search(lambda live, plan: plan.allow(np.array([0, -1], "i4"), [2, 7], np.array([2, 4], np.uint8)))
    assert [one[0][0] for one in found.tokens.to_nested()] == [2, 0]
    both = search(lambda live, plan: (plan.allow([0, -1], [1, 0], [3]), plan.allow([-1, 0], [9, 1], [4])))
    assert [one[0][0] for one in both.tokens.to_nested()] == [3, 4]
    assert search(lambda live, plan: plan.ban([0, 0], [9, -1])).tokens.to_nested() == [[[0]], [[0]]]


@given(st.data())
def test_whatever_is_said_is_refused_or_read(data):
    """Nothing outside of its arrays is ever read."""
    small = st.lists(st.integers(-2, 4), max_size=4)
    args = data.draw(st.tuples(small, small, small))
    rows = data.draw(st.tuples(small, small))

    def say(live, plan):
        plan.ban(*rows)
        plan.allow(*args)

    try:
        found = search(say)
    except sf.StructureError:
        return
    begin, end, tokens = args
    for row, hypotheses in enumerate(found.tokens.to_nested()):
        allowed = set(range(5)) if begin[row] < 0 else set(tokens[begin[row] : end[row]])
        allowed -= {token for r, token in zip(*rows, strict=True) if r == row}
        assert {h[0] for h in hypotheses} <= allowed
        assert bool(hypotheses) or not allowed or 0 not in allowed


def test_begin_returns_a_running():
    class Other(sf.Constraint):
        def begin(self, n, ends):
            return lambda live, plan: None

    with pytest.raises(TypeError, match="begin of a constraint must return a Running, not function"):
        sf.BeamDecoder(None, start=[0], end=0, beam_size=1, max_new_tokens=1, constraints=Other())


def test_what_is_shown_is_read_only():
    def write(live, plan):
        for name in ("source", "parents", "tokens", "prefixes", "nodes"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(live, name)[...] = 0

    search(write)


def test_a_constraint_without_a_beginning():
    class Nothing(sf.Constraint):
        pass

    with pytest.raises(NotImplementedError, match=r"Nothing has no method begin\(n, ends\)"):
        sf.beam_search(
            lambda state: (np.zeros((1, 3)), None),
            None,
            start=[1],
            end=0,
            beam_size=1,
            max_new_tokens=1,
            constraints=Nothing(),
        )
