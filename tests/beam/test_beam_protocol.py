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


@pytest.mark.parametrize("factor", [np.nan, np.inf, -np.inf])
def test_factors_beside_a_divisor(factor):
    with pytest.raises(sf.ConversionError, match="factor must be finite"):
        search(lambda live, plan: plan.change([0], [1], factor=factor, divisor=1.0))


@pytest.mark.parametrize("divisor", [0.0, -1.0, np.nan, np.inf])
def test_divisors_that_cannot_be(divisor):
    with pytest.raises(sf.ConversionError, match="divisor must be above 0, and finite"):
        search(lambda live, plan: plan.change([0], [1], divisor=divisor))


CHANGES = {
    "nothing": [{}],
    "an increase": [{"addend": 0.75}],
    "a factor": [{"factor": 1.5}],
    "a factor behind an increase": [{"factor": 2.0, "addend": 3.0}],
    "which was said before": [{"factor": 2.0}, {"addend": 3.0}],
    "a factor that changes the side": [{"factor": -0.5, "divisor": 0.25}],
    "nothing of it": [{"factor": 0.0, "divisor": 1e30}, {"addend": 1.0}],
    "several of each": [{"factor": 1.5}, {"addend": 1.0}, {"factor": 0.5, "divisor": 4.0}, {"addend": -0.5}],
    "a ban": [{"addend": 3.0}, {"addend": -np.inf}, {"factor": -2.0, "divisor": 3.0}],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=list(CHANGES))
@every_rule
def test_how_a_log_probability_changes(changes, rule):
    """First it is increased, then multiplied, or divided above 0; -inf stays."""
    row = np.append(np.log([0.2, 0.3, 0.4, 0.1]), -np.inf).astype(np.float32)

    def say(live, plan):
        for change in changes:
            plan.change(np.zeros(4, int), [1, 2, 3, 4], **change)

    def wanted(value):
        value += sum(change.get("addend", 0) for change in changes)
        for change in changes if value > -np.inf else ():
            factor = change.get("factor", 1)
            value = value / change.get("divisor", factor) if value > 0 else value * factor
        return value

    found = sf.beam_search(
        lambda state: (row[None].repeat(len(state.tokens), 0), None), None, constraints=Own(say), rule=rule,
        start=[0], end=[0, 1, 2, 3, 4], beam_size=5, max_new_tokens=1, n_best=5, length_penalty=0.0,
    )  # fmt: skip
    values = np.array([row[0], *map(wanted, row[1:])], np.float64)
    if rule == "ct2":  # which limits the scores before they become log-probabilities
        values -= np.log(np.exp(values).sum())
    got = {tokens[0]: score for tokens, score in zip(found.tokens.to_nested()[0], found.scores.tolist(), strict=True)}
    assert sorted(got) == np.flatnonzero(values > -np.inf).tolist()
    np.testing.assert_allclose([got[token] for token in sorted(got)], values[sorted(got)], rtol=1e-5, atol=1e-6)


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
