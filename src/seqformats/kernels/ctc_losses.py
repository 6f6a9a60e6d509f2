"""The CTC loss of every label, -log of the probability of all its paths, and the gradient of frames.

`x` holds the frames in any layout, see `Layout`, each of `width` log-probabilities or logits.  The named tuples of
`ctc.rows` say what else is given, what is written, and in what room.

Of L targets there are L + 1 blanks and L tokens, blank k before token k.  With p the probabilities of a frame, paths
that are at a place behind that frame have the probabilities

    blank k' = p(blank) * (blank k + token k-1)
    token k' = p(token k) * (token k + blank k + token k-1 unless that is the same token)

(A. Graves, S. Fernandez, F. Gomez and J. Schmidhuber (2006), "Connectionist Temporal Classification", 4.1).  The
gradient with respect to a log-probability is minus the probability that a path with the label has this token in this
frame, and with respect to a logit the softmax less that.

On the CPU the sums are of probabilities, in float64 and eight places at a time.  Behind each frame all are multiplied
by a power of two, which rounds nothing (L. R. Rabiner (1989), "A Tutorial on Hidden Markov Models", V.A); the sum of
the frame before says which, so that none waits for its own.  Only the places are visited from which and to which a path
leads.  What falls below 1e-308 of all places together is lost.  That matters only where the sum over all places of the
probabilities before and behind a frame, d, is small: what is lost at that frame is below the number of places times
1e-308 / d.  If a d is below 1e-200, the sequence is done again with sums
that have an exponent each (`scaled_paths`), of which nothing is lost, and which take about five times as long.  That is
so where frames tell little, as at the begin of training, or where a label contradicts them: sums before a frame run
ahead of the paths to the end of a long label, or stay behind, and the paths that matter are a small part of them.

On CUDA the threads of a block share the places of a sequence, and add logarithms.
"""

import math
from typing import Any

from ..ctc.rows import LossGoals, LossOut, LossRoom
from .parts import (
    CALCULATES,
    Array,
    KernelSpec,
    Layout,
    along,
    best_known,
    compiled,
    each,
    in_lanes,
    load,
    locate,
    pointer,
    shared,
    store,
)
from .parts import exp as exponential
from .parts.columns import frame_powers
from .parts.names import gpu, ln, natural
from .parts.paths import Track, backward, forward, is_possible, log_of, read_frames, track_of
from .parts.scaled_paths import scaled_backward, scaled_forward


@in_lanes
def add_softmax(x: Array, grad: Array, place: int, numbers: Any, count: int) -> None:
    """Add the softmax of some logits, times a factor."""
    top, factor = numbers
    power = exponential(load(x, place, count, x) - each(x, top, count))
    store(grad, place, load(grad, place, count, x) + power * each(x, factor, count))


@shared
def add_softmaxes(x: Array, out: LossOut, room: LossRoom, at: Layout, track: Track, factor: float, width: int) -> None:
    """Add the softmax of all frames, times a factor."""
    items = pointer(x)
    for t in range(track.length):
        frame = (track.row + along(at, t)) * width
        top, share = room.values[track.tops + t], room.values[track.shares + t] * factor
        k = 0
        while k + 32 <= width:
            add_softmax(items, out.grad, frame + k, (top, share), 32)
            k += 32
        while k + 4 <= width:
            add_softmax(items, out.grad, frame + k, (top, share), 4)
            k += 4
        while k < width:
            add_softmax(items, out.grad, frame + k, (top, share), 1)
            k += 1


# --- sums of logarithms -----------------------------------------------------------------------------------------------
# Here a row is the L + 1 blanks, -inf, and the L tokens.


@shared
def log_sum(a: float, b: float, c: float) -> Any:
    """The logarithm of the sum of three powers."""
    top = a if a > b else b
    top = c if c > top else top
    if not top > -math.inf:
        return top
    return top + math.log(math.exp(a - top) + math.exp(b - top) + math.exp(c - top))


@shared
def first_log(values: Array, track: Track, k: int) -> None:
    """A place before the first frame, as if a blank had been before; and one behind the last one, where the end is."""
    values[track.rows + k] = 0.0 if k == 0 else -math.inf
    values[track.back + k] = 0.0 if k == track.number else -math.inf


@shared
def log_forward(x: Array, goals: LossGoals, room: LossRoom, track: Track, frame: int, t: int, step: Any) -> None:
    """Add up the paths to a place behind frame t; ``step`` holds the rows before and behind it, and the place."""
    old, new, place = step
    values, count = room.values, track.number
    if place <= count:  # a blank
        values[new + place] = log_sum(values[old + place], values[old + count + 1 + place], -math.inf) + log_of(
            x, goals, room, track, t, frame + goals.blank
        )
        if place == 0:
            values[new + count + 1] = -math.inf
    else:
        k = place - count - 1
        p = track.first + k
        skipping = -math.inf
        if k > 0 and goals.reach[p] == goals.reach[p - 1] + 1:
            skipping = values[old + place]
        values[new + place + 1] = log_sum(values[old + place + 1], values[old + k], skipping) + log_of(
            x, goals, room, track, t, frame + goals.targets[p]
        )


@shared
def log_backward(
    x: Array, goals: LossGoals, room: LossRoom, track: Track, frame: int, t: int, step: Any, total: float
) -> None:
    """The probability that a path with the label, which has `total`, is at a place in frame t, in place of its row.

    ``step`` are that row, those of what comes with the next frame and with this one, and the place.
    """
    now, old, new, place = step
    values, count = room.values, track.number
    if place <= count:
        back = values[old + place]
        if place < count:
            back = log_sum(back, values[old + count + 2 + place], -math.inf)
        log = log_of(x, goals, room, track, t, frame + goals.blank)
        to = place
    else:
        k = place - count - 1
        p = track.first + k
        skipping = -math.inf
        if k + 1 < count and goals.reach[p + 1] == goals.reach[p] + 1:
            skipping = values[old + place + 2]
        back = log_sum(values[old + place + 1], values[old + k + 1], skipping)
        log = log_of(x, goals, room, track, t, frame + goals.targets[p])
        to = place + 1
    values[now + to] = math.exp(values[now + to] + back - total)
    values[new + to] = back + log


@shared
def log_total(values: Array, row: int, count: int) -> Any:
    """Add up all paths, behind the last frame."""
    return log_sum(values[row + count], values[row + 2 * count + 1] if count != 0 else -math.inf, -math.inf)


@shared
def put_loss(goals: LossGoals, out: LossOut, label: int, total: float) -> None:
    """Write the loss of a label whose paths have `total` together."""
    out.losses[label] = 0.0 if total == -math.inf and goals.zero != 0 else 0.0 - total * goals.factors[label]


# --- drivers ----------------------------------------------------------------------------------------------------------


@shared
def fill_frames(out: LossOut, at: Layout, u: int, value: float, width: int) -> None:
    """Let the gradient of all frames of a unit be one number."""
    _, row, length = locate(at, u)
    for t in range(length):
        frame = (row + along(at, t)) * width
        for k in range(width):
            out.grad[frame + k] = value


@shared
def by_powers(
    x: Array, goals: LossGoals, out: LossOut, room: LossRoom, at: Layout, track: Track, ready: bool, width: int
) -> Any:
    """Find the log-probability of a label and its part of the gradient, and whether they are right."""
    total, least, lost = forward(x, goals, out, room, at, track, width, ready)
    if goals.gradient == 0 or not total > -math.inf:
        return total, not lost
    return total, backward(x, goals, out, room, at, track, width, (least, ready))


@shared
def by_scaled(x: Array, goals: LossGoals, out: LossOut, room: LossRoom, at: Layout, track: Track, width: int) -> Any:
    """Find the same with sums that have an exponent, always right."""
    total, exponent = scaled_forward(x, goals, room, at, track, width)
    if goals.gradient != 0 and total > -math.inf:
        scaled_backward(x, goals, out, room, at, track, width, exponent)
    return total


@shared
def of_sequence(
    x: Array, goals: LossGoals, out: LossOut, room: LossRoom, at: Layout, place: tuple[int, int], width: int
) -> None:
    """The losses of all labels of a sequence, and the gradient of its frames."""
    u, b = place
    i, _, _ = locate(at, u)
    first, last = goals.first[i], goals.first[i + 1]
    possible = 0
    for label in range(first, last):
        if is_possible(goals, track_of(goals, at, u, b, label)):
            possible += 1
        else:
            put_loss(goals, out, label, -math.inf)
    if possible == 0:
        if goals.gradient != 0:
            fill_frames(out, at, u, 0.0, width)
        return
    track = track_of(goals, at, u, b, first)
    ready = goals.gradient != 0 and goals.logits != 0 and possible == 1
    known = read_frames(x, goals, out, room, at, track, ready, width)
    if goals.gradient != 0 and not (known and ready):
        fill_frames(out, at, u, 0.0 if known else math.nan, width)
    if not known:
        for label in range(first, last):
            if is_possible(goals, track_of(goals, at, u, b, label)):
                put_loss(goals, out, label, math.nan)
        return
    plain = True
    label, factor = first, 0.0
    while label < last:
        track = track_of(goals, at, u, b, label)
        label += 1
        if is_possible(goals, track):
            right = True
            if plain:
                total, right = by_powers(x, goals, out, room, at, track, ready, width)
            else:
                total = by_scaled(x, goals, out, room, at, track, width)
            if not right:  # what has been subtracted belongs to several labels: all of them once more
                plain = ready = False
                label, factor = first, 0.0
                if goals.gradient != 0:
                    fill_frames(out, at, u, 0.0, width)
                continue
            put_loss(goals, out, track.label, total)
            if total > -math.inf:
                factor += goals.factors[track.label]
    if goals.gradient != 0 and goals.logits != 0 and not ready and factor != 0:
        add_softmaxes(x, out, room, at, track, factor, width)


@compiled
def cpu(x: Array, goals: LossGoals, out: LossOut, room: LossRoom, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    goals, out, room = pointer(goals), pointer(out), pointer(room)
    for b in range(lo, hi):
        for u in range(goals.begins[b], goals.begins[b + 1]):
            of_sequence(x, goals, out, room, at, (u, b), width)


@shared
def block_sum(parts: Array, value: float) -> Any:
    """The sum of the values of all threads, added in pairs; every thread of the block comes here and gets it."""
    me = gpu.threadIdx.x
    gpu.syncthreads()
    parts[me] = value
    gpu.syncthreads()
    half = gpu.blockDim.x >> 1
    while half > 0:
        if me < half:
            parts[me] += parts[me + half]
        gpu.syncthreads()
        half >>= 1
    return parts[0]


def cuda(x: Array, goals: LossGoals, out: LossOut, room: LossRoom, at: Layout, width: int) -> None:
    """All units, a block each: its threads share the frames of a sequence, and then the places behind each."""
    parts = natural(gpu.shared.array(128, room.values.dtype))
    me, threads = gpu.threadIdx.x, gpu.blockDim.x
    values = room.values
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, begin, length = locate(at, u)
        first, last = goals.first[i], goals.first[i + 1]
        tops = goals.places[u]
        wrong, t = 0.0, me
        while t < length:
            frame = (begin + along(at, t)) * width
            token, top = best_known(x, frame, width, 1)
            values[tops + t] = 0
            values[tops + length + t] = 0
            if token < 0:
                wrong += 1.0
            elif goals.logits != 0 and top > -math.inf:
                values[tops + t] = top
                values[tops + length + t] = ln(frame_powers(x, frame, width, top))
            for k in range(width if goals.gradient != 0 else 0):
                out.grad[frame + k] = 0
            t += threads
        wrong = block_sum(parts, wrong)
        factor, possible = 0.0, 0
        for label in range(first, last):
            track = track_of(goals, at, u, u, label)
            count = track.number
            wide = 2 * count + 2
            total = -math.inf
            if is_possible(goals, track):
                possible += 1
                total = math.nan
            if wrong == 0 and total != total:
                k = me
                while k < wide:
                    first_log(values, track, k)
                    k += threads
                gpu.syncthreads()
                row = track.rows
                for t in range(length):
                    frame = (begin + along(at, t)) * width
                    new = row + wide if goals.gradient != 0 or t & 1 == 0 else row - wide
                    place = me
                    while place <= 2 * count:
                        log_forward(x, goals, room, track, frame, t, (row, new, place))
                        place += threads
                    gpu.syncthreads()
                    row = new
                total = log_total(values, row, count)
                gpu.syncthreads()  # before that row is written again
                if total > -math.inf:
                    factor += goals.factors[label]
                if goals.gradient != 0 and total > -math.inf:
                    old = track.back
                    for t in range(length - 1, -1, -1):
                        frame = (begin + along(at, t)) * width
                        new = 2 * track.back + wide - old
                        place = me
                        while place <= 2 * count:
                            log_backward(x, goals, room, track, frame, t, (row, old, new, place), total)
                            place += threads
                        gpu.syncthreads()
                        subtract(goals, out, values, parts, track, frame, row)
                        row -= wide
                        old = new
            if me == 0:
                put_loss(goals, out, label, total)
            gpu.syncthreads()  # before the room is used again
        t = me
        while t < length and goals.gradient != 0:
            frame = (begin + along(at, t)) * width
            top, log = values[tops + t], values[tops + length + t]
            for k in range(width):
                if wrong != 0 and possible != 0:
                    out.grad[frame + k] = math.nan
                elif goals.logits != 0 and factor != 0:
                    out.grad[frame + k] += math.exp((x[frame + k] - top) - log) * factor
            t += threads
        gpu.syncthreads()
        u += gpu.gridDim.x


@shared
def subtract(goals: LossGoals, out: LossOut, values: Array, parts: Array, track: Track, frame: int, row: int) -> None:
    """Subtract what a frame has of a label, on CUDA: a thread adds up all places of a token in their order."""
    me, threads = gpu.threadIdx.x, gpu.blockDim.x
    factor, first, count = goals.factors[track.label], track.first, track.number
    blanks = 0.0
    k = me
    while k <= count:
        blanks += values[row + k]
        k += threads
    blanks = block_sum(parts, blanks)
    if me == 0:
        out.grad[frame + goals.blank] -= blanks * factor
    k = me
    while k < count:
        token = goals.targets[first + goals.order[first + k]]
        if k == 0 or goals.targets[first + goals.order[first + k - 1]] != token:
            total = 0.0
            j = k
            while j < count and goals.targets[first + goals.order[first + j]] == token:
                total += values[row + count + 2 + goals.order[first + j]]
                j += 1
            out.grad[frame + token] -= total * factor
        k += threads


KERNEL = KernelSpec(
    cpu, cuda, CALCULATES, "blocks", tuple((kind, "f8", "f8", kind, "f8", kind) for kind in ("f4", "f8")), 1 << 20
)
