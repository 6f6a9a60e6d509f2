"""Ratios of two policies, or the clipped loss of the newer one, and the slope of each by its log-probability.

``logp`` and ``old``, the log-probabilities of both, hold a number an item in one layout, see `Layout`, and so do
``out`` and ``slopes``; ``marks``, a byte an item, lie in the same or are empty.  Items with a mark of 0 are no steps:
nothing of theirs is looked at, they have a ratio of 1, a loss of 0 and no slope.

``advantages`` are empty, for ratios alone; or one an item, `by_row` 1, or one a sequence.  ``how (4,)``: the least and
the largest ratio that is not clipped; how many times the advantage a loss is at most where that is negative, 0 for no
such limit; and the limit of the difference of log-probabilities, beyond which there is no slope.

A ratio is ``exp(logp - old)``, and with `mean` 1 the exponential of the mean over the steps of its sequence, whose
slopes are then of that mean: `policy_back` divides them among its steps.  References: Schulman et al., "Proximal Policy
Optimization Algorithms" (2017), equation 7; Ye et al., "Mastering Complex Control in MOBA Games with Deep Reinforcement
Learning" (2020), equation 5, for the limit; Zheng et al., "Group Sequence Policy Optimization" (2025) for the mean.
"""

from typing import Any, NamedTuple

import numpy as np

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


class Given(NamedTuple):
    """Log-probabilities of two policies, and what a loss is made of."""

    logp: Array
    old: Array
    advantages: Array
    how: Array
    marks: Array


class Results(NamedTuple):
    """Ratios or losses, and their slopes."""

    out: Array
    slopes: Array


@p.shared
def loss_of(ratio: float, advantage: float, how: Array, inside: int) -> Any:
    """The loss of a step, and its slope by the difference of log-probabilities."""
    loss = -advantage * ratio
    slope = loss if inside != 0 else loss - loss
    near = how[0] if ratio < how[0] else how[1] if ratio > how[1] else ratio
    clipped = -advantage * near
    if clipped > loss:
        loss, slope = clipped, ratio - ratio
    if how[2] > 0 and advantage < 0 and -how[2] * advantage < loss:
        loss, slope = -how[2] * advantage, ratio - ratio
    return loss, slope


@p.compiled
def cpu(given: Given, results: Results, at: Layout, by_row: int, mean: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    logp, old, advantages, how, marks = given
    out, slopes = results
    masked, alone, limit = marks.size > 0, advantages.size == 0, how[3]
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        shared_by_all = 0.0
        if mean != 0:
            total, number = 0.0, 0
            for t in range(length):
                row = first + p.along(at, t)
                if not masked or marks[row] != 0:
                    total += float(logp[row]) - float(old[row])
                    number += 1
            shared_by_all = total / max(number, 1)
        for t in range(length):
            row = first + p.along(at, t)
            if masked and marks[row] == 0:
                out[row] = 1.0 if alone else 0.0
                slopes[row] = 0.0
                continue
            away = shared_by_all if mean != 0 else float(logp[row]) - float(old[row])
            inside = 0 if away > limit or away < -limit else 1
            ratio = np.exp(away if inside != 0 else limit if away > limit else -limit)
            if alone:
                out[row] = ratio
                slopes[row] = ratio if inside != 0 else 0.0
            else:
                loss, slope = loss_of(ratio, float(advantages[row if by_row != 0 else i]), how, inside)
                out[row] = loss
                slopes[row] = slope


def cuda(given: Given, results: Results, at: Layout, by_row: int, mean: int, width: int) -> None:
    """All units, a block each, whose threads share the steps."""
    logp, old, advantages, how, marks = given
    out, slopes = results
    parts = p.natural(gpu.shared.array(128, how.dtype))
    slot = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    limit = how[3]
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        shared_by_all = p.zero_in(how)
        if mean != 0:
            total, number = p.zero_in(how), p.zero_in(how)
            for t in range(gpu.threadIdx.y, length, gpu.blockDim.y):
                row = first + p.along(at, t)
                if marks.size == 0 or marks[row] != 0:
                    total += p.number_in(how, logp[row]) - p.number_in(how, old[row])
                    number += p.number_in(how, 1)
            parts[slot] = total
            p.tree_sum(parts, slot)
            total = parts[0]
            gpu.syncthreads()  # before the memory is used again
            parts[slot] = number
            p.tree_sum(parts, slot)
            shared_by_all = total / max(parts[0], p.number_in(how, 1))
            gpu.syncthreads()
        for t in range(gpu.threadIdx.y, length, gpu.blockDim.y):
            row = first + p.along(at, t)
            made, slope = p.zero_in(how), p.zero_in(how)
            if advantages.size == 0:
                made = p.number_in(how, 1)
            if marks.size == 0 or marks[row] != 0:
                away = shared_by_all
                if mean == 0:
                    away = p.number_in(how, logp[row]) - p.number_in(how, old[row])
                inside = 0 if away > limit or away < -limit else 1
                ratio = p.exp(away if inside != 0 else limit if away > limit else -limit)
                if advantages.size == 0:
                    made = ratio
                    slope = ratio if inside != 0 else p.zero_in(how)
                else:
                    advantage = p.number_in(how, advantages[row if by_row != 0 else i])
                    made, slope = loss_of(ratio, advantage, how, inside)
            out[row] = p.item_in(out, made)
            slopes[row] = p.item_in(slopes, slope)


KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "sequences", tuple((kind, kind, kind, "f8", "u1", kind, kind) for kind in p.FLOATS)
)
