"""The best path of frames, and the search for their best labels, in plain Python."""

import itertools
import math
from typing import NamedTuple


def best_path(frames, blank, logits=False):
    """The tokens, their times and the log-probability of a list of frames, each a list of floats; see `ctc_greedy`.

    The number of the first frame that holds NaN or +inf instead.
    """
    path, score = [], 0.0
    for t, row in enumerate(frames):
        if any(value != value or value == math.inf for value in row):
            return t
        best = max(row)
        if logits and best > -math.inf:
            score -= math.log(sum(math.exp(value - best) for value in row))
        else:
            score += best
        path.append(row.index(best))
    tokens, times, before = [], [], None
    for t, token in enumerate(path):
        if token != before:
            before = token
            if token != blank:
                tokens.append(token)
                times.append(t)
    return tokens, times, score


def log_add(a, b):
    """The logarithm of the sum of two exponentials."""
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log(1.0 + math.exp(low - high))


def label_of(path, blank):
    """A path without repeats, then without blanks; and in which frames its tokens begin."""
    kept = [t for t, c in enumerate(path) if c != blank and (t == 0 or path[t - 1] != c)]
    return tuple(path[t] for t in kept), tuple(kept)


def all_labels(frames, blank):
    """Of every label that is possible the log-probability of all its paths, and of the best one, by all paths."""
    totals, best = {}, {}
    for path in itertools.product(range(len(frames[0]) if frames else 1), repeat=len(frames)):
        label, _ = label_of(path, blank)
        value = sum(frames[t][c] for t, c in enumerate(path))
        if value > -math.inf:
            totals[label] = log_add(totals.get(label, -math.inf), value)
            best[label] = max(best.get(label, -math.inf), value)
    return totals, best


class Prefix(NamedTuple):
    """A label in the beam: its log-probabilities by how paths end, what else it has gained, and its best paths."""

    label: tuple
    blank: float
    token: float
    gain: float
    best_blank: tuple  # the log-probability of the path, and its times
    best_token: tuple

    @property
    def total(self):
        return log_add(self.blank, self.token)

    @property
    def worth(self):
        return self.total + self.gain


def passing(row, blank, token_beam, least):
    """The tokens that prefixes go on with."""
    others = [c for c in range(len(row)) if c != blank and row[c] >= least]
    chosen = sorted(others, key=lambda c: (-row[c], c))[:token_beam]
    return sorted({*chosen, row.index(max(row))} - {blank})


def prefix_search(
    frames,
    blank,
    beam,
    n_best=1,
    *,
    token_beam=None,
    token_threshold=-math.inf,
    threshold=math.inf,
    token_bonus=0.0,
    allowed=lambda label, token: True,
    whole=lambda label: True,
    gains=None,
    model=None,
):
    """Labels, their times, scores and log-probabilities, best first, as lists; see `ctc_beam_search`.

    `model` says of a label what its whole words have gained, what the unfinished one is worth, and what both gain where
    the label ends.  The number of the first frame that holds NaN or +inf instead.
    """
    rows = [Prefix((), 0.0, -math.inf, 0.0, (0.0, ()), (-math.inf, ()))]
    for t, row in enumerate(frames):
        if any(value != value or value == math.inf for value in row):
            return t
    for t, row in enumerate(frames):
        tokens = passing(row, blank, token_beam, token_threshold)
        known = {one.label: one for one in rows}
        stays = []
        for one in rows:
            label, last = one.label, one.label[-1] if one.label else None
            value = row[last] if label else -math.inf
            token, best = one.token + value, (one.best_token[0] + value, one.best_token[1])
            before = known.get(label[:-1]) if label else None
            if before and last in tokens:
                twice = before.label[-1:] == (last,)
                token = log_add(token, (before.blank if twice else before.total) + value)
                path = better(before, twice)
                if path[0] + value > best[0]:
                    best = path[0] + value, (*path[1], t)
            path = better(one, False)
            best_blank = path[0] + row[blank], path[1]
            stays.append(Prefix(label, one.total + row[blank], token, one.gain, best_blank, best))
        new = []
        for one in rows:
            for c in tokens:
                label = (*one.label, c)
                if label in known or row[c] == -math.inf or not allowed(one.label, c):
                    continue
                twice = one.label[-1:] == (c,)
                value = (one.blank if twice else one.total) + row[c]
                path = better(one, twice)
                gain = one.gain + token_bonus
                if gains is not None:
                    gain += gains(one.label)[c]
                if model is not None:
                    kept, worth, _ = model(label)
                    gain = kept + worth
                new.append(Prefix(label, -math.inf, value, gain, (-math.inf, ()), (path[0] + row[c], (*path[1], t))))
        found = [one for one in stays + new if one.worth > -math.inf]
        least = sorted((one.worth for one in found), reverse=True)[:1]
        ranked = sorted(range(len(found)), key=lambda k: -found[k].worth)[:beam]
        rows = [found[k] for k in sorted(ranked) if found[k].worth >= least[0] - threshold]
    ends = [(one.worth + (gains(one.label)[blank] if gains is not None else 0.0), one) for one in rows]
    if model is not None:
        ends = [(one.total + model(one.label)[0] + model(one.label)[2], one) for one in rows]
    ends = [(score, one) for score, one in ends if whole(one.label) and score > -math.inf]
    ends = sorted(ends, key=lambda end: -end[0])[:n_best]
    return [(list(one.label), list(better(one, False)[1]), score, one.total) for score, one in ends]


def better(one, twice):
    """The more likely of the best paths of a prefix, of those that end in a blank where the token comes again."""
    return one.best_blank if twice or one.best_blank[0] >= one.best_token[0] else one.best_token


class Alignment(NamedTuple):
    """The path of frames that has a given label, or of those that cannot have it; see `ctc_align`."""

    tokens: list
    frame_scores: list
    times: list
    ends: list
    token_scores: list
    score: float


def may_follow(states, s):
    """The states from which the best path may come to state `s`, a token each, the nearest first."""
    found = [s, *([s - 1] if s else [])]
    if s > 1 and states[s] not in (None, states[s - 2]):
        found.append(s - 2)
    return found


def best_alignment(frames, label, blank, logits=False):
    """The best path by the table of all frames and states, a blank being None among these."""
    states = [None, *(x for token in label for x in (token, None))]
    values, ways = [0.0, *[-math.inf] * (len(states) - 1)], []
    for row in frames:
        came = [max(may_follow(states, s), key=lambda k: (values[k], k)) for s in range(len(states))]
        values = [values[k] + row[blank if states[s] is None else states[s]] for s, k in enumerate(came)]
        ways.append(came)
    state = len(states) - 1
    if label and values[-2] >= values[-1]:
        state -= 1
    path, score = [], values[state]
    for came in reversed(ways):
        path.append(state)
        state = came[state]
    return described(frames, label, blank, path[::-1], score, logits)


def best_of_all_alignments(frames, label, blank):
    """The same by all paths of states that there are."""
    states = [None, *(x for token in label for x in (token, None))]
    last = len(states) - 1
    found = []
    for path in itertools.product(range(len(states)), repeat=len(frames)):
        joined = all(a in may_follow(states, b) for a, b in itertools.pairwise((0, *path)))
        if joined and (path or (0,))[-1] in (last, last - 1):
            value = sum(row[blank if states[s] is None else states[s]] for row, s in zip(frames, path, strict=True))
            found.append((value, [path[-1] == last - 1, *reversed(path)] if path else [], path))
    score, _, path = max(found, default=(-math.inf, [], ()))
    return described(frames, label, blank, path, score)


def described(frames, label, blank, path, score, logits=False):
    """An alignment from the states of its path."""
    if score == -math.inf:
        n, none = len(frames), [-math.inf]
        return Alignment([blank] * n, none * n, *[[-1] * len(label)] * 2, none * len(label), score)
    tokens = [label[s // 2] if s % 2 else blank for s in path]
    logs = [math.log(sum(math.exp(value) for value in row)) if logits else 0.0 for row in frames]
    worth = [row[c] - log for row, c, log in zip(frames, tokens, logs, strict=True)]
    own = [[t for t, s in enumerate(path) if s == 2 * k + 1] for k in range(len(label))]
    return Alignment(
        tokens,
        worth,
        [times[0] for times in own],
        [times[-1] + 1 for times in own],
        [sum(worth[t] for t in times) for times in own],
        score - sum(logs),
    )


def loss_of_label(frames, label, blank, logits=False):
    """The loss of a label and its gradient, as lists of lists; inf and zeros where no path has it. See `ctc_loss`."""
    rows = [list(row) for row in frames]
    if logits:
        tops = [max(row) if max(row) > -math.inf else 0.0 for row in rows]
        sums = [sum(math.exp(value - top) for value in row) for row, top in zip(rows, tops, strict=True)]
        rows = [
            [value - top - (math.log(total) if total else 0.0) for value in row]
            for row, top, total in zip(rows, tops, sums, strict=True)
        ]
    states = [blank, *(c for token in label for c in (token, blank))]
    slopes = [[0.0] * len(row) for row in rows]
    if any(value != value or value == math.inf for row in frames for value in row):
        if len(rows) < len(label) + sum(a == b for a, b in itertools.pairwise(label)):
            return math.inf, slopes
        return math.nan, [[math.nan] * len(row) for row in rows]

    def passed(rows, states):
        """Yield the sums of all paths to each state, behind each frame; a path begins as if a blank had been before."""
        before = [0.0] + [-math.inf] * (len(states) - 1)
        for row in rows:
            now = []
            for s, c in enumerate(states):
                value = log_add(before[s], before[s - 1] if s > 0 else -math.inf)
                if s > 1 and c not in (blank, states[s - 2]):
                    value = log_add(value, before[s - 2])
                now.append(value + row[c])
            before = now
            yield now

    forth = [*passed(rows, states)]
    back = [now[::-1] for now in passed(rows[::-1], states[::-1])][::-1]
    total = log_add(forth[-1][-1], forth[-1][-2] if label else -math.inf) if rows else (-math.inf if label else 0.0)
    if total > -math.inf:
        for row, slope, one, two in zip(rows, slopes, forth, back, strict=True):
            for c, a, b in zip(states, one, two, strict=True):
                if a > -math.inf and b > -math.inf:
                    slope[c] -= math.exp(a + b - row[c] - total)
            for c, value in enumerate(row):
                slope[c] += math.exp(value) if logits else 0.0
    return -total, slopes
