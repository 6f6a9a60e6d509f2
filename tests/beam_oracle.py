"""A slow, obviously right beam search on plain Python lists, and the models that tests decode.

`decode` sees one source at a time, so that no source can depend on another.  Numbers are float32, as in the library.
A rule is a class: what it keeps of a step's ranked candidates, what is finished, what goes on, and when it is done.
"""

import copy
import functools
import math
from dataclasses import dataclass, field

import numpy as np

F = np.float32
ZERO = F(0)
RULES = ("hf", "ct2", "fairseq", "marian", "gnmt", "paddle")


# ------------------------------------------------------------------------------------------------ the arithmetic


def log_softmax(logits):
    """Of one row in float32; a row of -inf stays -inf."""
    x = np.asarray(logits, F)
    largest = x.max(initial=-np.inf)
    if largest == -np.inf:
        return x.copy()
    moved = (x - largest).astype(F)
    return (moved - np.log(np.sum(np.exp(moved), dtype=F))).astype(F)


def normalised(score, base, power):
    """The power in float64, rounded to float32; the division in float32."""
    return F(score) / F(float(base) ** float(power))


def best_first(pool):
    """Pairs (path, score) by falling score, equal ones in their order."""
    return sorted(pool, key=lambda pair: -pair[1])


# ---------------------------------------------------------------------------------------------------- the search


@dataclass(frozen=True)
class Path:
    """A prefix or hypothesis: its tokens, its score and what each token has added to it."""

    tokens: tuple = ()
    score: np.float32 = ZERO
    parts: tuple = ()
    ended: bool = False

    def then(self, token, part, ends):
        return Path((*self.tokens, token), F(part) + self.score, (*self.parts, F(part)), token in ends)


@dataclass(frozen=True)
class Options:
    """The options of one source."""

    end: tuple
    beam_size: int
    max_new_tokens: int
    rule: str = "hf"
    n_best: int = 1
    length_penalty: float = 1.0
    early_stopping: object = False
    min_new_tokens: int = 0
    prune: dict = field(default_factory=dict)
    coverage: float = 0.0


@dataclass
class Found:
    """Hypotheses, best first, as (tokens, score, token_scores), and how many rows the model has computed."""

    hypotheses: list
    rows: int


def decode(logits, options, rescore=None, reselect=None, attention=None):
    """Search one source.

    `logits(tokens)` is a row of the model, `rescore(tokens, log_probs)` the hook on it, and `reselect` the hook on the
    best candidates of a step, pairs of a row and a `Path`; `attention(tokens)` is what a row attends to.
    """
    rule = BY_NAME[options.rule](options)
    beam, rows, g = [Path()], 0, 0
    while beam and not rule.done:
        g += 1
        rows += len(beam)
        candidates = []
        for row, path in enumerate(beam):
            candidates += [(row, grown) for grown in children(path, logits, rescore, options, g)]
        best = pruned(candidates, rule.kept(), options)
        if reselect is not None:
            best = sorted(reselect(best), key=order)
        beam = rule.step(best, g)
    result = rule.result()
    if options.coverage:
        result = best_first([(path, covered(path, score, attention, options.coverage)) for path, score in result])
    hypotheses = [(list(path.tokens), score, list(path.parts)) for path, score in result]
    return Found(hypotheses[: options.n_best], rows)


def covered(path, score, attention, weight):
    """The score with the coverage penalty: position by position, token by token; what has no attention is left out."""
    penalty = 0.0
    for position in range(len(attention(()))):
        total = 0.0
        for t in range(len(path.tokens)):
            total += float(attention(path.tokens[:t])[position])
        if total > 0:
            penalty += math.log(min(total, 1.0))
    return F(float(score) + weight * penalty)


def children(path, logits, rescore, options, g):
    """The candidates that a row brings."""
    row, early = np.array(logits(path.tokens), F), g <= options.min_new_tokens
    if early and options.rule == "ct2":  # what is left has all the probability
        row[list(options.end)] = -np.inf
    values = log_softmax(row)
    if rescore is not None:
        values = rescore(path.tokens, values)
    assert not np.isnan(values).any()
    found = []
    for token, value in enumerate(values):
        ends = token in options.end
        if ends and early:
            continue
        if options.rule == "fairseq" and g == options.max_new_tokens and not ends:
            continue
        if value > -np.inf:
            found.append(path.then(token, value, options.end))
    return found


def order(candidate):
    """Higher score, then earlier row, then smaller token."""
    row, path = candidate
    return -path.score, row, path.tokens[-1]


def pruned(candidates, count, options):
    """The best candidates of a step, best first, without those that the thresholds drop."""
    relative, absolute, local, per_parent = (
        options.prune.get(name) for name in ("relative", "absolute", "local", "per_parent")
    )
    ranked = sorted(candidates, key=order)
    if per_parent is not None:
        rows = [row for row, _ in ranked]
        ranked = [c for place, c in enumerate(ranked) if rows[:place].count(c[0]) < per_parent]
    ranked = ranked[:count]
    best = max((float(path.score) for _, path in ranked), default=0)
    likeliest = max((float(path.parts[-1]) for _, path in ranked), default=0)
    if relative is not None:
        ranked = [c for c in ranked if not c[1].score < best + math.log(relative)]
    if absolute is not None:
        ranked = [c for c in ranked if not c[1].score < best - absolute]
    if local is not None:
        ranked = [c for c in ranked if not c[1].parts[-1] < likeliest + math.log(local)]
    return ranked


# ----------------------------------------------------------------------------------------------------- the rules


class Rule:
    """What the rules have in common.  `step` takes the ranked candidates and gives the rows that go on, in order."""

    def __init__(self, options):
        self.options = options
        self.k, self.max, self.power = options.beam_size, options.max_new_tokens, options.length_penalty
        self.finished = []  # (path, score)
        self.unfinished = []
        self.done = False

    def kept(self):
        return 2 * self.k

    def result(self):
        return best_first(self.finished)


class HuggingFace(Rule):
    def kept(self):
        return max(2, 1 + len(self.options.end)) * self.k

    def step(self, ranked, g):
        paths = [path for _, path in ranked]
        stopped = [path.ended or g == self.max for path in paths]
        for path, stop in zip(paths[: self.k], stopped, strict=False):
            if stop:
                self.finished.append((path, normalised(path.score, g, self.power)))
        self.finished = best_first(self.finished)[: self.k]
        live = [path for path, stop in zip(paths, stopped, strict=True) if not stop][: self.k]
        if not live:
            self.done = True
            return []
        full = len(self.finished) == self.k
        worst = min(score for _, score in self.finished) if full else F(-1e9)
        never = self.options.early_stopping == "never" and self.power > 0
        possible = normalised(live[0].score, self.max if never else g, self.power)
        self.done = not possible > worst or (self.options.early_stopping is True and full)
        return live


class CTranslate2(Rule):
    def __init__(self, options):
        super().__init__(options)
        self.top_ended = False

    def step(self, ranked, g):
        paths = [path for _, path in ranked]
        for path in paths[: self.k]:
            if path.ended or g == self.max:
                self.finished.append((path, normalised(path.score, g, self.power)))
        self.top_ended |= bool(paths) and paths[0].ended
        live = [path for path in paths if not path.ended][: self.k]
        count = len(self.finished)
        early = self.power == 0 and not self.options.coverage
        enough = self.top_ended and count >= self.options.n_best if early else count >= self.k
        self.done = enough or not live or g == self.max
        return live


class Fairseq(Rule):
    def step(self, ranked, g):
        paths = [path for _, path in ranked]
        for path in paths[: self.k]:
            if path.ended and len(self.finished) < self.k:
                self.finished.append((path, normalised(path.score, g, self.power)))
        live = [path for path in paths if not path.ended][: self.k]
        self.done = len(self.finished) == self.k or g == self.max or not live
        return live


class Marian(Rule):
    def kept(self):
        return self.k - len(self.finished)

    def step(self, ranked, g):
        paths = [path for _, path in ranked]
        for path in paths:
            if path.ended or g == self.max:
                self.finished.append((path, normalised(path.score, g, self.power)))
        live = [path for path in paths if not path.ended]
        self.done = not live or g == self.max
        return live


class GNMT(Rule):
    def step(self, ranked, g):
        paths = [path for _, path in ranked]
        for path in paths:
            if path.ended:
                self.finished.append((path, normalised(path.score, (5 + g) / 6, self.power)))
        self.finished = best_first(self.finished)[: self.k]
        live = [path for path in paths if not path.ended][: self.k]
        self.unfinished = [(path, path.score) for path in live]
        self.done = g == self.max or not live
        if len(self.finished) == self.k and live:
            worst = min(score for _, score in self.finished)
            self.done |= bool(worst > normalised(live[0].score, (5 + self.max) / 6, self.power))
        return live

    def result(self):
        return self.finished or self.unfinished


class Paddle(Rule):
    """Ended hypotheses stay in the beam, where they come before others of the same score."""

    def kept(self):
        return self.k

    def step(self, ranked, g):
        beam = best_first([*self.finished, *((path, path.score) for _, path in ranked)])[: self.k]
        self.finished = [(path, score) for path, score in beam if path.ended or g == self.max]
        self.done = len(self.finished) == len(beam)
        return [path for path, _ in beam if not path.ended]


BY_NAME = dict(zip(RULES, (HuggingFace, CTranslate2, Fairseq, Marian, GNMT, Paddle), strict=True))


# ---------------------------------------------------------------------------------------------------- the models

MODES = ("random", "exact", "ties", "masked")


class TableModel:
    """Logits looked up by a source's key, the last two tokens (of six kinds) and the length, in a table from a seed.

    Modes: "random": normal numbers.  "exact": one token of a row has all the probability that float32 can tell, so
    that log-probabilities are multiples of 1/4, whatever the order of additions, until a rule masks that token.
    "ties": those, of three values alone.  "masked": "exact", where some tokens are -inf, and some rows are nothing
    else.  "steps": multiples of 1/4 from -3 to 0, or -inf: what a hook may put in the place of log-probabilities.
    """

    LONGEST, KINDS = 6, 6

    def __init__(self, seed, vocabulary, mode="exact", keys=5):
        random = np.random.default_rng(seed)
        self.vocabulary, self.mode = vocabulary, mode
        rows = (keys, self.KINDS + 1, self.KINDS + 1, self.LONGEST)
        shape = (*rows, vocabulary)
        if mode == "random":
            table = 2 * random.standard_normal(shape)
        elif mode == "steps":
            table = -random.integers(0, 13, shape) / 4
            table[random.random(shape) < 0.1] = -np.inf
        else:
            table = -40 - random.integers(0, 2 if mode == "ties" else 32, shape) / 4
            likeliest = random.integers(0, vocabulary, (*rows, 1))
            first = likeliest == np.arange(vocabulary)
            table[first] = 0
            if mode == "masked":
                table[(random.random(shape) < 0.4) & ~first] = -np.inf
                table[random.random(rows) < 0.15] = -np.inf
            table += random.integers(-8, 8, (*rows, 1)) / 4
        self.table = table.astype(F)

    def logits(self, key, tokens):
        """The row of one prefix."""
        before = [self.KINDS, self.KINDS, *(token % self.KINDS for token in tokens[-2:])]
        return self.table[key, before[-2], before[-1], min(len(tokens), self.LONGEST - 1)]

    def of(self, key):
        """The model of one source, for `decode`."""
        return lambda tokens: self.logits(key, tokens)

    def instead(self, key, tokens, values):
        """A hook that puts this model's numbers in the place of any others."""
        return self.logits(key, tokens)

    def step(self, keys):
        """The model of many sources, for `sf.beam_search`."""

        return lambda state: (self.rows(keys, state), state.memory)

    def rows(self, keys, state):
        """The logits of all live rows."""
        found = np.empty((len(state.source), self.vocabulary), F)
        for row, (source, tokens) in enumerate(zip(state.source.tolist(), lists(state.prefixes), strict=True)):
            found[row] = self.logits(keys[source], tokens)
        return found

    @functools.cached_property
    def shaken(self):
        """Models that differ from this one by little more than rounding."""
        random = np.random.default_rng(1)
        found = [copy.copy(self) for _ in range(3)]
        for model in found:
            model.table = self.table + random.uniform(-1e-5, 1e-5, self.table.shape).astype(F)
        return found


def lists(ragged):
    """The sequences of a Ragged of numbers, as lists."""
    ends = np.cumsum(ragged.lengths)
    return [ragged.data[b - n : b].tolist() for n, b in zip(ragged.lengths.tolist(), ends.tolist(), strict=True)]
