"""Scaled dot-product attention of one sequence, query by query, and its gradient, in float64."""

import math

import numpy as np


def seen_by(t, queries, keys, causal=False, window=None, chunk=None, prefix=0):
    """The keys that query t sees; the last query stands at the last key."""
    left, right = window if isinstance(window, tuple) else (window, window)
    right = 0 if causal else right
    stands = t + keys - queries
    return [
        j
        for j in range(keys)
        if j < prefix
        or (
            (left in (None, -1) or j >= stands - left)
            and (right in (None, -1) or j <= stands + right)
            and (chunk is None or j // chunk == stands // chunk)
        )
    ]


def weights_of(scores, sink=-math.inf):
    """Their softmax, and the part of a sink; zeros where all are -inf."""
    top = max(scores, default=-math.inf)
    if top == -math.inf and not any(score != score for score in scores):
        return np.zeros(len(scores)), 0.0
    top = top if top != top or top > sink else sink
    powers = np.array([np.exp(score - top) for score in scores])
    sunk = np.exp(sink - top)
    return powers / (powers.sum() + sunk), sunk / (powers.sum() + sunk)


def added(bias, h, t, j, stands):
    """The bias of a score, of a table ``(heads, t, j)`` or of slopes."""
    if bias is None:
        return 0.0
    return bias[h][t][j] if np.ndim(bias) == 3 else -bias[h] * abs(stands - j)


def steps(q, k, scale, cap, bias, sinks, keep, options):
    """For each query and head: its keys with weights, dropout, slopes of the cap; the sink's part."""
    scale = 1 / math.sqrt(max(q.shape[2], 1)) if scale is None else scale
    for t, h in np.ndindex(*q.shape[:2]):
        seen, g, stands = seen_by(t, len(q), len(k), **options), h * k.shape[1] // q.shape[1], t + len(k) - len(q)
        scores = [scale * float(q[t, h] @ k[j, g]) for j in seen]
        bends = [1.0 if cap is None else 1 - math.tanh(s / cap) ** 2 for s in scores]
        scores = [s if cap is None else cap * math.tanh(s / cap) for s in scores]
        scores = [s + added(bias, h, t, j, stands) for s, j in zip(scores, seen, strict=True)]
        weights, sunk = weights_of(scores, -math.inf if sinks is None else sinks[h])
        kept = [1.0 if keep is None else keep[h][t][j] for j in seen]
        yield t, h, g, stands, scale, list(zip(seen, weights, kept, bends, strict=True)), sunk


def attention(q, k, v, scale=None, cap=None, bias=None, sinks=None, keep=None, **options):
    """``(queries, heads, w)`` of ``(queries, heads, d)``, ``(keys, groups, d)`` and ``(keys, groups, w)``."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    out = np.zeros((*q.shape[:2], v.shape[2]))
    for t, h, g, _, _, each, _ in steps(q, k, scale, cap, bias, sinks, keep, options):
        for j, weight, kept, _ in each:
            out[t, h] += weight * kept * v[j, g]
    return out


def gradients(q, k, v, dy, scale=None, cap=None, bias=None, sinks=None, keep=None, **options):
    """The gradients of q, k and v, and of a bias and sinks where they are given."""
    q, k, v, dy = (np.asarray(x, np.float64) for x in (q, k, v, dy))
    found = [np.zeros(np.shape(x)) for x in (q, k, v, bias, sinks) if x is not None]
    dq, dk, dv = found[:3]
    for t, h, g, stands, factor, each, sunk in steps(q, k, scale, cap, bias, sinks, keep, options):
        mean = sum(weight * kept * float(dy[t, h] @ v[j, g]) for j, weight, kept, _ in each)
        for j, weight, kept, bend in each:
            slope = weight * (kept * float(dy[t, h] @ v[j, g]) - mean)
            if bias is not None:
                found[3][(h, t, j) if np.ndim(bias) == 3 else h] += (
                    slope if np.ndim(bias) == 3 else -slope * abs(stands - j)
                )
            dq[t, h] += factor * bend * slope * k[j, g]
            dk[j, g] += factor * bend * slope * q[t, h]
            dv[j, g] += weight * kept * dy[t, h]
        if sinks is not None:
            found[-1][h] -= sunk * mean
    return found
