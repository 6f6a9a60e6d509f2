"""The most likely path of every sequence of frames that has a given label (Viterbi alignment).

`x` holds the frames in any layout, see `Layout`, each of `width` log-probabilities or logits.  The named tuples of
`ctc.rows` say what else is given, what is written, and in what room: of frames in the order of the sequences.

A path goes through the states of its label, from one to the next, or over a blank between two tokens that differ
(Graves, Fernandez, Gomez and Schmidhuber 2006, "Connectionist Temporal Classification", 4.1, with the largest in place
of the sum).  Of two ways that are worth the same the one that comes from the nearer state is taken.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..ctc.rows import Aligned, AlignRoom, Goals
from . import parts as p
from .parts import Array, Layout
from .parts.columns import frame_powers
from .parts.names import gpu


class Step(NamedTuple):
    """A frame of a source: which of its targets paths may have reached, and where all that begins."""

    first: int  # target
    number: int  # of targets
    low: int  # from the targets before there is no way to the end
    high: int  # there is no way from the beginning to those behind
    frame: int
    old: int  # values before it
    new: int  # values behind it
    back: int


@p.shared
def step_of(goals: Goals, at: Layout, u: int, t: int, width: int) -> Any:
    """Frame t of a unit."""
    i, begin, length = p.locate(at, u)
    first = goals.cum[i]
    count = goals.cum[i + 1] - first
    base = 4 * (first + i)
    size = 2 * count + 2
    low = max(0, count - (length - t))
    frame = (begin + p.along(at, t)) * width if t < length else 0
    old = base + (size if t & 1 != 0 else 0)
    new = base + (0 if t & 1 != 0 else size)
    return Step(first, count, low, min(count, t), frame, old, new, goals.places[i] + t * (size - 1))


@p.shared
def clear(room: AlignRoom, base: int, place: int) -> None:
    """A value before the first frame: a path begins as if a blank had been before it."""
    room.values[base + place] = 0 if place == 0 else -math.inf


@p.shared
def to_blank(x: Array, goals: Goals, room: AlignRoom, step: Step, k: int) -> None:
    """The best path to the blank before target k, from there or from the target before."""
    stays, comes = room.values[step.old + k], room.values[step.old + step.number + 1 + k]
    moved = comes > stays
    room.values[step.new + k] = (comes if moved else stays) + x[step.frame + goals.blank]
    room.back[step.back + k] = 1 if moved else 0


@p.shared
def to_target(x: Array, goals: Goals, room: AlignRoom, step: Step, k: int) -> None:
    """The best path to target k, from there, from the blank before it, or from the target before that."""
    place = step.number + 1 + k
    token = goals.targets[step.first + k]
    same = goals.targets[step.first + k - (1 if k > 0 else 0)] == token  # there is none before the first one, but -inf
    best, blank, before = room.values[step.old + place + 1], room.values[step.old + k], room.values[step.old + place]
    by = 1 if blank > best else 0
    best = blank if blank > best else best
    jumps = before > best and not same
    best = before if jumps else best
    room.values[step.new + place + 1] = best + x[step.frame + token]
    room.back[step.back + place] = 2 if jumps else by


@p.shared
def trace(x: Array, goals: Goals, out: Aligned, room: AlignRoom, at: Layout, u: int, width: int) -> None:
    """Write the path of a unit, from its end to its beginning."""
    i, begin, length = p.locate(at, u)
    step = step_of(goals, at, u, length, width)
    first, count = step.first, step.number
    frames = at.cum[i]
    k = count
    total = room.values[step.old + count]
    spoken = count != 0 and not total > room.values[step.old + 2 * count + 1]
    if spoken:  # the path ends with the last target, and not with a blank behind it
        k -= 1
        total = room.values[step.old + 2 * count + 1]
    if not total > -math.inf:
        out.scores[i] = -math.inf
        for t in range(length):
            out.tokens[frames + t] = goals.blank
            out.frame_scores[frames + t] = -math.inf
        for j in range(first, first + count):
            out.times[j] = -1
            out.ends[j] = -1
            out.token_scores[j] = -math.inf
        return
    last = -1
    for t in range(length - 1, -1, -1):
        token = goals.targets[first + k] if spoken else goals.blank
        log = room.logs[frames + t]
        total -= log
        value = x[(begin + p.along(at, t)) * width + token] - log
        out.tokens[frames + t] = token
        out.frame_scores[frames + t] = value
        by = room.back[goals.places[i] + t * (2 * count + 1) + k + (count + 1 if spoken else 0)]
        if spoken:
            if k != last:
                out.ends[first + k] = t + 1
                room.logs[frames + t] = value  # from here on the sum over the frames of the token
            else:
                room.logs[frames + t] = room.logs[frames + t + 1] + value
            out.times[first + k] = t
            out.token_scores[first + k] = room.logs[frames + t]
            last = k
            k -= by >> 1
            spoken = by != 1
        else:
            k -= by
            spoken = by != 0
    out.scores[i] = total


@p.compiled
def cpu(x: Array, goals: Goals, out: Aligned, room: AlignRoom, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    goals, out, room = p.pointer(goals), p.pointer(out), p.pointer(room)
    for u in range(lo, hi):
        i, begin, length = p.locate(at, u)
        step = step_of(goals, at, u, 0, width)
        for place in range(4 * step.number + 4):
            clear(room, step.old, place)
        out.counts[i] = 0
        for t in range(length):
            frame = (begin + p.along(at, t)) * width
            token, value = p.best_known(x, frame, width, goals.logits)
            if token < 0:
                out.counts[i] = -1 - t
                break
            log = 0.0
            if goals.logits > 0 and value > -math.inf:
                top, total = p.powers_of_any(x, frame, width, x)
                log = np.float64(top) + math.log(np.float64(total))
            room.logs[at.cum[i] + t] = log
            step = step_of(goals, at, u, t, width)
            for k in range(step.low, step.high + 1):
                to_blank(x, goals, room, step, k)
            for k in range(step.low, min(step.high + 1, step.number)):
                to_target(x, goals, room, step, k)
        if out.counts[i] == 0:
            trace(x, goals, out, room, at, u, width)


def cuda(x: Array, goals: Goals, out: Aligned, room: AlignRoom, at: Layout, width: int) -> None:
    """All units, a block each, whose threads share its frames, and then the states of each."""
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, begin, length = p.locate(at, u)
        step = step_of(goals, at, u, 0, width)
        for place in range(gpu.threadIdx.x, 4 * step.number + 4, gpu.blockDim.x):
            clear(room, step.old, place)
        t = gpu.threadIdx.x
        while t < length:
            frame = (begin + p.along(at, t)) * width
            token, value = p.best_known(x, frame, width, goals.logits)
            room.logs[at.cum[i] + t] = 0
            if token < 0:
                room.logs[at.cum[i] + t] = math.inf
            elif goals.logits > 0 and value > -math.inf:
                room.logs[at.cum[i] + t] = value
                room.logs[at.cum[i] + t] += p.ln(frame_powers(x, frame, width, value))
            t += gpu.blockDim.x
        gpu.syncthreads()
        for t in range(length):
            step = step_of(goals, at, u, t, width)
            k = step.low + gpu.threadIdx.x
            while k <= step.high:
                to_blank(x, goals, room, step, k)
                if k < step.number:
                    to_target(x, goals, room, step, k)
                k += gpu.blockDim.x
            gpu.syncthreads()
        if gpu.threadIdx.x == 0:
            out.counts[i] = 0
            for t in range(length - 1, -1, -1):
                if room.logs[at.cum[i] + t] == math.inf:
                    out.counts[i] = -1 - t
            if out.counts[i] == 0:
                trace(x, goals, out, room, at, u, width)


_KINDS = ("f4", "f4", "f4", "f8", "f8", "u1")  # in the order of the arguments
KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", (("f4", *_KINDS), ("f8", *_KINDS)), 1 << 20)
