"""Sums over the paths of a label, in probabilities, on the CPU; see `ctc_losses`.

Sums are float64, of eight places at a time.  A frame has the powers of its logits beside the largest, and its share, 1
over the sum of these, which makes them probabilities; log-probabilities have a share of 1.  Where a sequence has one
label whose gradient is wanted, the powers of all tokens are *ready*: they lie where the gradient will.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ...layout import Layout
from .common import along, locate
from .lane_items import collect
from .lanes import each, in_any, in_lanes, load, pointer, store
from .moves import at_most
from .options import shared
from .record import Array
from .tiles import fold_add
from .vectors import exp, largest, maximum, powers_of_any

TINY = 1.7e-38
"""Powers of -87 are a little less, and float32 rounds what is below."""

LN_2 = 0.6931471805599453


class Track(NamedTuple):
    """A label, the frames of its sequence, and its places in `LossRoom.values`.

    ``size`` is L + 1 or up to 7 more, a multiple of 8.  A row of places is 8 zeros, `size` tokens and `size` blanks.
    """

    label: int
    first: int  # of its targets
    number: int  # of them
    row: int  # of its first frame in `x`
    length: int  # of its frames
    size: int
    powers: int  # in `LossRoom.powers`
    tops: int  # (length,) the largest logit of each frame
    logs: int  # (length,) the logarithm of the sum of the powers of all, beside that; just where logarithms are added
    shares: int  # (length,) 1 over that sum
    skips: int  # (size + 8,) 1 where a path can come from the token before, else 0
    mass: int  # (size,) probabilities of tokens in a frame
    back: int  # (2 * size + 16,) of what comes with a frame and behind it: tokens and 8 zeros, blanks and 8 zeros
    after: int  # the same with another frame; just where logarithms are added
    rows: int  # (length + 1,) rows, before the first frame and behind each


@shared
def track_of(goals: Any, at: Layout, u: int, b: int, label: int) -> Any:
    """A label of unit u, in the room of unit b."""
    _, row, length = locate(at, u)
    first = goals.cum[label]
    count = goals.cum[label + 1] - first
    size = (count + 8) & -8
    tops = goals.places[b]
    skips = tops + 3 * length
    back = skips + 2 * size + 8
    return Track(
        label,
        first,
        count,
        row,
        length,
        size,
        goals.powers_at[b],
        tops,
        tops + length,
        tops + 2 * length,
        skips,
        skips + size + 8,
        back,
        back + 2 * size + 16,
        back + 4 * size + 32,
    )


@shared
def is_possible(goals: Any, track: Track) -> bool:
    """Tell whether there are frames enough for a path."""
    return track.number == 0 or goals.reach[track.first + track.number - 1] < track.length


@shared
def log_of(x: Array, goals: Any, room: Any, track: Track, t: int, place: int) -> Any:
    """The log-probability in frame t of what is at a place of `x`."""
    value = np.float64(x[place])
    return (value - room.values[track.tops + t]) - room.values[track.logs + t] if goals.logits != 0 else value


@in_lanes
def put_powers(x: Array, grad: Array, place: int, top: float, count: int) -> None:
    """Write the powers of some logits beside the largest of their frame."""
    store(grad, place, exp(load(x, place, count, x) - each(x, top, count)))


@shared
def largest_of_frame(x: Array, frame: int, width: int) -> Any:
    """The largest number of a frame, where NaN is passed over if another number is there."""
    top = largest(x, frame, at_most(width, 128))
    for k in range(128, width, 128):
        best = largest(x, frame + k, at_most(width - k, 128))
        top = best if best > top else top
    return top if top > -math.inf else top_of_frame(x, frame, width)


@shared
def top_of_frame(x: Array, frame: int, width: int) -> Any:
    """The largest number of a frame; NaN where there is one."""
    top = maximum(x, frame, at_most(width, 128))
    for k in range(128, width, 128):
        best = maximum(x, frame + k, at_most(width - k, 128))
        if best > top or best != best:
            top = best if top == top else top
    return top


@shared
def powers_of_frame(x: Array, grad: Array, values: Array, frame: int, width: int) -> Any:
    """The largest logit of a frame, and the sum of the powers of all, which come to `grad`; NaN where there is none."""
    top = largest_of_frame(x, frame, width)  # NaN elsewhere makes the sum NaN
    if not top < math.inf:
        return np.float64(top), math.nan
    if top == -math.inf:
        for k in range(width):
            grad[frame + k] = 0
        return np.float64(0.0), 1.0
    items, sums, some = pointer(x), each(values, 0.0, 32), each(values, 0.0, 4)
    k = 0
    while k + 32 <= width:
        put_powers(items, grad, frame + k, top, 32)
        sums = sums + load(grad, frame + k, 32, values)
        k += 32
    while k + 4 <= width:
        put_powers(items, grad, frame + k, top, 4)
        some = some + load(grad, frame + k, 4, values)
        k += 4
    total = fold_add(some) if width < 32 else fold_add(sums) + fold_add(some)
    while k < width:
        put_powers(items, grad, frame + k, top, 1)
        total += grad[frame + k]
        k += 1
    return np.float64(top), total


@shared
def read_frames(x: Array, goals: Any, out: Any, room: Any, at: Layout, track: Track, ready: bool, width: int) -> bool:
    """Find out the shares of all frames, and make the powers of their tokens ready; False for NaN or +inf in one."""
    for t in range(track.length):
        frame = (track.row + along(at, t)) * width
        if goals.logits == 0:
            if not top_of_frame(x, frame, width) < math.inf:
                return False
            top, total = 0.0, 1.0
        elif ready:
            top, total = powers_of_frame(x, out.grad, room.values, frame, width)
            if total != total:
                return False
        else:
            top, total = powers_of_any(x, frame, width, x)
            none = top == -math.inf  # of float64 that are all -inf the sum is NaN too
            if total != total and not (none and x.itemsize == 8):
                return False
            if none:
                top, total = 0.0, 1.0
        room.values[track.tops + t], room.values[track.shares + t] = top, 1.0 / np.float64(total)
    return True


@shared
def exponent_of(total: float) -> Any:
    """The exponent of a positive number: that power of two brings it to between a half and 1.

    By the bits of float64: ``math.frexp`` would be a function of Numba's, which is not there where code was shipped.
    """
    return (np.float64(total).view(np.int64) >> 52) - 1022


@shared
def power_of(exponent: int) -> Any:
    """Two to the power of an integer, that of a normal number."""
    return np.int64((exponent + 1023) << 52).view(np.float64)


@in_lanes
def to_powers(x: Array, powers: Array, tokens: Array, places: Any, top: float, count: int) -> Any:
    """Write the powers of some tokens of a frame; True where one is about too small for float32."""
    frame, token, to = places
    some = exp(collect(x, frame, tokens, token, count) - each(x, top, count))
    store(powers, to, some)
    return in_any(some < each(x, TINY, count))


@in_lanes
def copy_powers(ready: Array, powers: Array, tokens: Array, places: Any, count: int) -> Any:
    """Do the same where they are ready."""
    frame, token, to = places
    some = collect(ready, frame, tokens, token, count)
    store(powers, to, some)
    return in_any(some < each(ready, TINY, count))


@in_lanes
def to_power(powers: Array, place: int, count: int) -> None:
    """Logarithms as powers."""
    store(powers, place, exp(load(powers, place, count, powers)))


@shared
def is_rounded(x: Array, goals: Any, track: Track, frame: int, top: float, band: tuple[int, int]) -> bool:
    """Tell whether the power of the blank or of a target of a band is too small for float32, and not 0."""
    begin, end = band
    for k in range(begin - 1, end):
        log = x[frame + (goals.targets[track.first + k] if k >= begin else goals.blank)] - top
        if log < -87.0 and log > -math.inf:
            return True
    return False


@shared
def gather(
    x: Array, goals: Any, out: Any, room: Any, track: Track, frame: int, t: int, band: tuple[int, int, bool]
) -> Any:
    """The powers in frame t of the targets of a band, eight at a time, and that of the blank.

    True where float32 may be too small for one.  Beside the band are any powers: no path is there.
    """
    begin, end, ready = band
    items, powers, top, at = pointer(x), room.powers, room.values[track.tops + t], track.powers
    if ready:
        blank = out.grad[frame + goals.blank]
    else:
        powers[at + track.size] = x[frame + goals.blank] - top
        to_power(powers, at + track.size, 1)
        blank = powers[at + track.size]
    small = blank < TINY
    for k in range(begin & -8, (end + 8) & -8, 8):
        places = (frame, track.first + k, at + k)
        if ready:
            tiny = copy_powers(out.grad, powers, goals.targets, places, 8)
        else:
            tiny = to_powers(items, powers, goals.targets, places, top, 8)
        small = small or tiny
    return np.float64(blank), small and is_rounded(x, goals, track, frame, top, (begin, end))


@in_lanes
def forward_some(values: Array, powers: Array, places: Any, factors: Any, count: int) -> Any:
    """The places behind a frame of some blanks and tokens, added up; and in which lane one is very small.

    ``factors`` are the scale of the frame, and its blank times that.
    """
    scale, blank = factors
    old, new, size, skips, powers_at = places
    token, before = load(values, old, count, values), load(values, old - 1, count, values)
    silent = load(values, old + size, count, values)
    power = load(powers, powers_at, count, values) * each(values, scale, count)
    spoken = (token + silent + load(values, skips, count, values) * before) * power
    silent = (silent + before) * each(values, blank, count)
    store(values, new, spoken)
    store(values, new + size, silent)
    zero, small = each(values, 0.0, count), each(values, 1e-250, count)
    return spoken + silent, ((spoken > zero) & (spoken < small)) | ((silent > zero) & (silent < small))


@shared
def begin_forward(goals: Any, values: Array, track: Track) -> None:
    """Write the places before the first frame, as if a blank had been before, and where tokens can be skipped."""
    for k in range(2 * track.size + 8):
        values[track.rows + k] = 0.0
    values[track.rows + 8 + track.size] = 1.0
    for k in range(track.size + 8):
        values[track.skips + k] = 0.0
    for k in range(1, track.number):
        p = track.first + k
        values[track.skips + k] = 1.0 if goals.reach[p] == goals.reach[p - 1] + 1 else 0.0


@shared
def band_forward(goals: Any, track: Track, t: int, begin: int, end: int) -> Any:
    """Find the targets where a path can be in frame t, from `begin` up to `end`, from those of the frame before."""
    last = track.number - 1
    while end <= last and goals.reach[track.first + end] <= t:
        end += 1
    left = track.length - 1 - t
    while begin < last and goals.reach[track.first + last] - goals.reach[track.first + begin] > left:
        begin += 1
    return begin, end


@shared
def band_backward(goals: Any, track: Track, t: int, begin: int, end: int) -> Any:
    """Find the targets of `band_forward` from those of the frame behind."""
    last, left = track.number - 1, track.length - 1 - t
    while end > 0 and goals.reach[track.first + end - 1] > t:
        end -= 1
    while begin > 0 and goals.reach[track.first + last] - goals.reach[track.first + begin - 1] <= left:
        begin -= 1
    return begin, end


@shared
def end_row(values: Array, row: int, size: int, low: int, high: int, value: float) -> None:
    """Write a value where the next frame may begin to read a row, and where it may end."""
    values[row + low - 1] = value
    if high < size:
        store(values, row + high, each(values, value, 8))
        store(values, row + size + high, each(values, value, 8))


@shared
def forward(x: Array, goals: Any, out: Any, room: Any, at: Layout, track: Track, width: int, ready: bool) -> Any:
    """Log-probability of a label, the least d for which it is right, and whether something may have been lost.

    All rows of places are there afterwards where a gradient is wanted; ``ready`` says whether powers are.
    """
    values, size = room.values, track.size
    wide = 2 * size + 8
    begin_forward(goals, values, track)
    old, begin, end = track.rows, 0, 0
    power = exponent = before = 0
    lost = rounded = False
    for t in range(track.length):
        begin, end = band_forward(goals, track, t, begin, end)
        low = begin & -8
        high = (end + 8) & -8
        frame = (track.row + along(at, t)) * width
        blank, small_ones = gather(x, goals, out, room, track, frame, t, (begin, end, ready))
        rounded = rounded or small_ones
        scale = values[track.shares + t] * power_of(-power)
        exponent += power
        blank *= scale
        new = old + wide if goals.gradient != 0 or t & 1 == 0 else old - wide
        sums = each(values, 0.0, 8)
        small = sums < sums
        for k in range(low, high, 8):
            places = (old + 8 + k, new + 8 + k, size, track.skips + k, track.powers + k)
            some, tiny = forward_some(values, room.powers, places, (scale, blank), 8)
            sums = sums + some
            small = small | tiny
        end_row(values, new + 8, size, low, high, 0.0)
        total = fold_add(sums)
        values[track.logs + t] = total
        if not 1e-290 < total < 1e290:
            return -math.inf, 0.0, True
        lost = lost or in_any(small)
        power, before = before - power, exponent_of(total)
        old = new
    found = values[old + 8 + size + track.number]
    if track.number != 0:
        found += values[old + 8 + track.number - 1]
    found *= power_of(-before)
    least = 1e-25 if rounded and x.itemsize == 4 else 1e-200
    if not found > least:
        return -math.inf, least, True
    return math.log(found) + (exponent + before) * LN_2, least, lost or rounded


@in_lanes
def backward_some(values: Array, powers: Array, places: Any, factors: Any, count: int) -> Any:
    """Go back over a frame at some places; ``factors`` as in `forward_some`.

    Returns what comes behind the frame, added up, and that times what comes before, of tokens and of blanks.  What
    comes with the frame takes the place of what came with the next one.
    """
    scale, blank = factors
    now, size, back, skips, mass, powers_at = places
    token, following = load(values, back, count, values), load(values, back + 1, count, values)
    silent = load(values, back + size + 8, count, values)
    skipping = load(values, skips + 1, count, values) * following
    silent, token = silent + token, token + (load(values, back + size + 9, count, values) + skipping)
    both = load(values, now, count, values) * token
    store(values, mass, both)
    store(values, back, token * (load(powers, powers_at, count, values) * each(values, scale, count)))
    store(values, back + size + 8, silent * each(values, blank, count))
    return token + silent, both, load(values, now + size, count, values) * silent


@in_lanes
def multiply_some(x: Array, place: int, factor: float, count: int) -> None:
    """Multiply some numbers in their place."""
    store(x, place, load(x, place, count, x) * each(x, factor, count))


@shared
def multiply_row(x: Array, begin: int, factor: float, width: int) -> None:
    """Multiply the numbers of a row in their place."""
    k = 0
    while k + 32 <= width:
        multiply_some(x, begin + k, factor, 32)
        k += 32
    while k + 4 <= width:
        multiply_some(x, begin + k, factor, 4)
        k += 4
    while k < width:
        multiply_some(x, begin + k, factor, 1)
        k += 1


@shared
def subtract_row(goals: Any, out: Any, room: Any, track: Track, frame: int, band: Any, shares: Any) -> None:
    """Subtract the gradient of a frame: ``shares`` are the sum of its blanks, and what each sum is multiplied by."""
    begin, end = band
    blanks, share = shares
    out.grad[frame + goals.blank] -= blanks * share
    for k in range(begin, end):
        out.grad[frame + goals.targets[track.first + k]] -= room.values[track.mass + k] * share


@shared
def backward(
    x: Array, goals: Any, out: Any, room: Any, at: Layout, track: Track, width: int, how: tuple[float, bool]
) -> bool:
    """Subtract the gradient; False where a d is too small, so that the loss is not right.

    ``how`` is the least d, and whether powers are ready, which become the softmax in the gradient.
    """
    least, ready = how
    values, size = room.values, track.size
    factor = goals.factors[track.label]
    for k in range(2 * size + 16):
        values[track.back + k] = 0.0
    values[track.back + size + 8 + track.number] = 1.0  # as if a blank came
    power = 0
    begin, end = max(track.number - 1, 0), track.number
    for t in range(track.length - 1, -1, -1):
        begin, end = band_backward(goals, track, t, begin, end)
        frame = (track.row + along(at, t)) * width
        blank, _ = gather(x, goals, out, room, track, frame, t, (begin, end, ready))
        scale = power_of(-power)
        now = track.rows + (t + 1) * (2 * size + 8) + 8
        sums = each(values, 0.0, 8)
        spoken = each(values, 0.0, 8)
        silent = each(values, 0.0, 8)
        for k in range(begin & -8, (end + 8) & -8, 8):
            places = (now + k, size, track.back + k, track.skips + k, track.mass + k, track.powers + k)
            both, tokens, blanks = backward_some(values, room.powers, places, (scale, blank * scale), 8)
            sums = sums + both
            spoken = spoken + tokens
            silent = silent + blanks
        of_blanks, behind = fold_add(silent), fold_add(sums)
        total = fold_add(spoken) + of_blanks
        if not (1e-290 < behind < 1e290 and total > least * behind * values[track.logs + t]):
            return False
        power = exponent_of(behind) - power
        if ready:
            multiply_row(out.grad, frame, factor * values[track.shares + t], width)
        subtract_row(goals, out, room, track, frame, (begin, end), (of_blanks, factor / total))
    return True
