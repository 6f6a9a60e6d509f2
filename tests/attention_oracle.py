"""Scaled dot-product attention of one sequence, query by query, and its gradient, in float64."""

import math

import numpy as np


def seen_by(t, queries, keys, causal=False, window=None):
    """The keys that query t sees; the last query stands at the last key."""
    left, right = window if isinstance(window, tuple) else (window, window)
    right = 0 if causal else right
    stands = t + keys - queries
    return [
        j
        for j in range(keys)
        if (left in (None, -1) or j >= stands - left) and (right in (None, -1) or j <= stands + right)
    ]


def weights_of(scores):
    """Their softmax; zeros where all are -inf."""
    top = max(scores, default=-math.inf)
    if top == -math.inf and not any(score != score for score in scores):
        return np.zeros(len(scores))
    powers = np.array([np.exp(score - top) for score in scores])
    return powers / powers.sum()


def attention(q, k, v, scale=None, **options):
    """``(queries, heads, w)`` of ``(queries, heads, d)``, ``(keys, groups, d)`` and ``(keys, groups, w)``."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scale = 1 / math.sqrt(max(q.shape[2], 1)) if scale is None else scale
    out = np.zeros((*q.shape[:2], v.shape[2]))
    for t, h in np.ndindex(*q.shape[:2]):
        seen = seen_by(t, len(q), len(k), **options)
        g = h * k.shape[1] // q.shape[1]
        weights = weights_of([scale * float(q[t, h] @ k[j, g]) for j in seen])
        for weight, j in zip(weights, seen, strict=True):
            out[t, h] += weight * v[j, g]
    return out


def gradients(q, k, v, dy, scale=None, **options):
    """The gradients of q, k and v."""
    q, k, v, dy = (np.asarray(x, np.float64) for x in (q, k, v, dy))
    scale = 1 / math.sqrt(max(q.shape[2], 1)) if scale is None else scale
    dq, dk, dv = (np.zeros(x.shape) for x in (q, k, v))
    for t, h in np.ndindex(*q.shape[:2]):
        seen = seen_by(t, len(q), len(k), **options)
        g = h * k.shape[1] // q.shape[1]
        weights = weights_of([scale * float(q[t, h] @ k[j, g]) for j in seen])
        changes = np.array([float(dy[t, h] @ v[j, g]) for j in seen])
        mean = float(weights @ changes) if seen else 0.0
        for weight, change, j in zip(weights, changes, seen, strict=True):
            slope = scale * weight * (change - mean)
            dq[t, h] += slope * k[j, g]
            dk[j, g] += slope * q[t, h]
            dv[j, g] += weight * dy[t, h]
    return dq, dk, dv
