"""Recurrences and what reinforcement learning makes of them, item by item in Python's floats."""

import math


def recurrence(x, decay, initial=0.0, where=None, reverse=False, exclusive=False):
    """One column of one sequence: what is written, and the last state."""
    state, out = float(initial), [0.0] * len(x)
    for t in range(len(x))[:: -1 if reverse else 1]:
        before = state
        if where is None or where[t]:
            state = float(decay[t]) * state + float(x[t])
        out[t] = before if exclusive else state
    return out, state


def ema(x, decay, adjust=False, where=None):
    """The moving average of one column, from its definition."""
    out, found, weights = [], 0.0, 0.0
    for t, item in enumerate(map(float, x)):
        if where is None or where[t]:
            if adjust:
                found, weights = decay * found + item, decay * weights + 1
            else:
                found, weights = item if not weights else decay * found + (1 - decay) * item, 1.0
        out.append(found / weights if weights else 0.0)
    return out


def gae(r, v, where, done, after, gamma, lam):
    """Advantages and returns of one sequence; `after`: the value of what follows each item."""
    n = len(r)
    advantages, returns = [0.0] * n, [0.0] * n
    for t in range(n):
        if not where[t]:
            continue
        total, factor, s = 0.0, 1.0, t
        while True:  # the terms of the sum, step by step to the end of the episode
            reward, u = r[s], s
            while not (done[u] or u == n - 1) and not where[u + 1]:
                u += 1
                reward += r[u]
            ends = done[u] or u == n - 1
            total += factor * (reward + gamma * (after[u] if ends else v[u + 1]) - v[s])
            if ends:
                break
            factor, s = factor * gamma * lam, u + 1
        advantages[t], returns[t] = total, total + v[t]
    return advantages, returns


def plain_gae(r, v, gamma, lam):
    """The loop from the end that everybody writes, for steps alone."""
    out, carry, following = [0.0] * len(r), 0.0, 0.0
    for t in reversed(range(len(r))):
        carry = (float(r[t]) + gamma * following - float(v[t])) + (gamma * lam) * carry
        following = float(v[t])
        out[t] = carry
    return out


def traces(x, where, done, decay):
    """Eligibility traces of one column."""
    out, e = [], 0.0
    for t, item in enumerate(x):
        e = decay * e + item if where[t] else e
        out.append(e if where[t] else 0.0)
        e = 0.0 if done[t] else e
    return out


def standardized(x, where, center="mean", scale="std", ddof=1, eps=1e-6):
    """The numbers that count around their mean, over their deviation; the others 0."""
    kept = [float(item) for item, counts in zip(x, where, strict=True) if counts]
    n = len(kept)
    mean = sum(kept) / max(n, 1)
    std = math.sqrt(sum((item - mean) ** 2 for item in kept) / (n - ddof)) if n > ddof else math.inf
    out = []
    for item, counts in zip(x, where, strict=True):
        if not counts or n < 2:
            out.append(0.0)
            continue
        middle = (sum(kept) - item) / (n - 1) if center == "others" else mean
        out.append((item - middle) / (std + eps) if scale else item - middle)
    return out


def policy(logp, old, advantages, where, clip, dual=None, level="token", limit=20.0):
    """Losses of the items of one sequence."""
    away = [a - b if w else 0.0 for a, b, w in zip(logp, old, where, strict=True)]
    if level == "sequence":
        away = [sum(away) / max(sum(map(int, where)), 1)] * len(away)
    out = []
    for a, d, w in zip(advantages, away, where, strict=True):
        ratio = math.exp(min(max(d, -limit), limit))
        loss = -a * ratio
        if clip is not None:
            loss = -min(ratio * a, min(max(ratio, 1 - clip[0]), 1 + clip[1]) * a)
        if dual is not None and a < 0:
            loss = min(loss, -dual * a)
        out.append(loss if w else 0.0)
    return out


def mean_loss(losses, where, per="token", length=None, total=None, ranks=1):
    """The mean over all sequences."""
    kept = [[x for x, w in zip(*pair, strict=True) if w] for pair in zip(losses, where, strict=True)]
    kept = [part for part in kept if part]
    if per == "token":
        return ranks * sum(map(sum, kept)) / (total or sum(map(len, kept)) or 1)
    return ranks * sum(sum(part) / (length or len(part)) for part in kept) / (total or len(kept) or 1)
