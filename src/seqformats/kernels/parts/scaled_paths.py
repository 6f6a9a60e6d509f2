"""Sums over the paths of a label whose range has no end, on the CPU: each is a fraction and an exponent of two.

A sum is ``fraction * 2**exponent``, both float64, with a fraction from 1/2 to 1, or 0 with the exponent `NEVER`.  Rows
of places lie as in `paths`, and their exponents as far behind them as `Gaps` says.  As with logarithms nothing is lost,
but sums are added as they are, eight places at a time.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ...layout import Layout
from .common import along
from .lane_items import collect
from .lanes import choose, each, in_lanes, load, pointer, store
from .options import shared
from .paths import LN_2, Track, band_backward, band_forward, begin_forward, end_row, power_of, subtract_row
from .powers import exponents_of, two_to
from .record import Array
from .tiles import fold_add

NEVER = -8e307
"""The exponent of zero: less than any other, and finite, so that sums and differences of two are numbers."""

LOG2_E, LN_2_HIGH, LN_2_LOW = 1.4426950408889634, 0.69314718036912382, 1.9082149292705877e-10
NEAREST = 6755399441055744.0
"""1.5 * 2**52: adding it rounds to an integer."""


class Gaps(NamedTuple):
    """Distances from fractions to their exponents, of rows and of what comes with a frame and behind it."""

    of_rows: int
    of_back: int


@shared
def exponents_at(goals: Any, track: Track) -> Any:
    """Find the gaps of a label, see `Track`."""
    rows = track.length + 1 if goals.gradient != 0 else 2
    return Gaps(rows * (2 * track.size + 8), track.after - track.back)


@in_lanes
def write(values: Array, place: int, gap: int, number: Any, count: int) -> None:
    """Write sums, with fractions from 1/2 to 1."""
    fraction, exponent = number
    zero = each(values, 0.0, count)
    n = exponents_of(fraction)
    store(values, place, fraction * two_to(zero - n))
    store(values, place + gap, choose(fraction > zero, exponent + n, each(values, NEVER, count)))


@in_lanes
def read(values: Array, place: int, gap: int, count: int) -> Any:
    """Read sums."""
    return load(values, place, count, values), load(values, place + gap, count, values)


@in_lanes
def read_skipping(values: Array, place: int, gap: int, skips: int, count: int) -> Any:
    """Read sums of tokens, which count where the token between can be skipped."""
    fraction, exponent = read(values, place, gap, count)
    skip = load(values, skips, count, values)
    some = skip > each(values, 0.0, count)
    return fraction * skip, choose(some, exponent, each(values, NEVER, count))


@shared
def add(a: Any, b: Any) -> Any:
    """Add sums."""
    first, a_exponent = a
    second, b_exponent = b
    top = choose(a_exponent > b_exponent, a_exponent, b_exponent)
    return first * two_to(a_exponent - top) + second * two_to(b_exponent - top), top


@shared
def multiply(a: Any, b: Any) -> Any:
    """Multiply sums."""
    first, a_exponent = a
    second, b_exponent = b
    return first * second, a_exponent + b_exponent


@in_lanes
def exp(values: Array, place: int, top: float, count: int) -> Any:
    """Calculate the powers of numbers less `top`: the nearest multiple of log 2 is an exponent, the rest a series."""
    x = load(values, place, count, values) - each(values, top, count)
    some = x > each(values, -math.inf, count)
    zero, one = each(values, 0.0, count), each(values, 1.0, count)
    x = choose(some, x, zero)
    n = (x * each(values, LOG2_E, count) + each(values, NEAREST, count)) - each(values, NEAREST, count)
    rest = (x - n * each(values, LN_2_HIGH, count)) - n * each(values, LN_2_LOW, count)
    bound = each(values, 0.5, count)  # beyond 2**53 a rest is noise
    rest = choose(rest < bound, rest, bound)
    rest = choose(rest > zero - bound, rest, zero - bound)
    y = one
    for k in range(13, 0, -1):
        y = y * rest * each(values, 1.0 / k, count) + one
    return choose(some, y, zero), n


@in_lanes
def exp_of_tokens(x: Array, room: Any, goals: Any, track: Track, places: Any, top: float, count: int) -> Any:
    """The powers in a frame of the targets from k on, beside the largest of the frame."""
    frame, k = places
    at = track.mass + k
    store(room.values, at, collect(x, frame, goals.targets, track.first + k, count))
    return exp(room.values, at, top, count)


@shared
def exp_of_blank(x: Array, goals: Any, room: Any, track: Track, frame: int, top: float) -> Any:
    """The power of the blank of a frame, the same in all lanes."""
    for k in range(8):
        room.values[track.mass + k] = x[frame + goals.blank]
    return exp(room.values, track.mass, top, 8)


@in_lanes
def forward_some(values: Array, places: Any, gaps: Gaps, power: Any, blank: Any, count: int) -> None:
    """Add up the places behind a frame of some blanks and tokens; ``power`` and ``blank`` are those of the frame."""
    old, new, size, skips = places
    token = add(read(values, old, gaps.of_rows, count), read(values, old + size, gaps.of_rows, count))
    token = add(token, read_skipping(values, old - 1, gaps.of_rows, skips, count))
    silent = add(read(values, old + size, gaps.of_rows, count), read(values, old - 1, gaps.of_rows, count))
    write(values, new, gaps.of_rows, multiply(token, power), count)
    write(values, new + size, gaps.of_rows, multiply(silent, blank), count)


@shared
def scaled_forward(x: Array, goals: Any, room: Any, at: Layout, track: Track, width: int) -> Any:
    """Log-probability of a label, and the exponent of its probability beside the powers of frames."""
    values, size, gaps, items = room.values, track.size, exponents_at(goals, track), pointer(x)
    wide = 2 * size + 8
    begin_forward(goals, values, track)
    for k in range(wide):
        values[track.rows + gaps.of_rows + k] = NEVER
    values[track.rows + 8 + size], values[track.rows + gaps.of_rows + 8 + size] = 0.5, 1.0
    old, begin, end = track.rows, 0, 0
    logs = 0.0
    for t in range(track.length):
        begin, end = band_forward(goals, track, t, begin, end)
        low = begin & -8
        high = (end + 8) & -8
        frame = (track.row + along(at, t)) * width
        top = values[track.tops + t]
        logs += math.log(values[track.shares + t])
        blank = exp_of_blank(x, goals, room, track, frame, top)
        new = old + wide if goals.gradient != 0 or t & 1 == 0 else old - wide
        for k in range(low, high, 8):
            power = exp_of_tokens(items, room, goals, track, (frame, k), top, 8)
            forward_some(values, (old + 8 + k, new + 8 + k, size, track.skips + k), gaps, power, blank, 8)
        end_row(values, new + 8, size, low, high, 0.0)
        end_row(values, new + gaps.of_rows + 8, size, low, high, NEVER)
        old = new
    silent, token = old + 8 + size + track.number, old + 8 + track.number - 1  # without a token: a zero
    top = max(values[silent + gaps.of_rows], values[token + gaps.of_rows])
    total = 0.0
    for place in (silent, token):
        total += values[place] * power_of(np.int64(max(values[place + gaps.of_rows] - top, -1000.0)))
    return (math.log(total) + top * LN_2 + logs if total > 0 else -math.inf), top


@in_lanes
def probabilities(values: Array, place: int, gap: int, behind: Any, exponent: float, count: int) -> Any:
    """Multiply sums before and behind a frame, and divide by two to the power of an exponent."""
    fraction, power = multiply(read(values, place, gap, count), behind)
    return fraction * two_to(power - each(values, exponent, count))


@in_lanes
def backward_some(values: Array, places: Any, gaps: Gaps, power: Any, blank: Any, exponent: float, count: int) -> Any:
    """Go back over a frame at some places; gives the probabilities of tokens and of blanks."""
    now, size, back, skips, mass = places
    following = read_skipping(values, back + 1, gaps.of_back, skips + 1, count)
    token = read(values, back, gaps.of_back, count)
    silent = add(read(values, back + size + 8, gaps.of_back, count), token)
    token = add(add(token, following), read(values, back + size + 9, gaps.of_back, count))
    spoken = probabilities(values, now, gaps.of_rows, token, exponent, count)
    store(values, mass, spoken)
    write(values, back, gaps.of_back, multiply(token, power), count)
    write(values, back + size + 8, gaps.of_back, multiply(silent, blank), count)
    return spoken, probabilities(values, now + size, gaps.of_rows, silent, exponent, count)


@shared
def scaled_backward(
    x: Array, goals: Any, out: Any, room: Any, at: Layout, track: Track, width: int, exponent: float
) -> None:
    """Subtract the gradient of a label, whose probability has an exponent."""
    values, size, gaps, items = room.values, track.size, exponents_at(goals, track), pointer(x)
    for k in range(2 * size + 16):
        values[track.back + k], values[track.back + gaps.of_back + k] = 0.0, NEVER
    end = track.back + size + 8 + track.number  # as if a blank came
    values[end], values[end + gaps.of_back] = 0.5, 1.0
    begin, end = max(track.number - 1, 0), track.number
    for t in range(track.length - 1, -1, -1):
        begin, end = band_backward(goals, track, t, begin, end)
        frame = (track.row + along(at, t)) * width
        top = values[track.tops + t]
        blank = exp_of_blank(x, goals, room, track, frame, top)
        now = track.rows + (t + 1) * (2 * size + 8) + 8
        spoken = each(values, 0.0, 8)
        silent = each(values, 0.0, 8)
        for k in range(begin & -8, (end + 8) & -8, 8):
            power = exp_of_tokens(items, room, goals, track, (frame, k), top, 8)
            places = (now + k, size, track.back + k, track.skips + k, track.mass + k)
            tokens, blanks = backward_some(values, places, gaps, power, blank, exponent, 8)
            spoken = spoken + tokens
            silent = silent + blanks
        of_blanks = fold_add(silent)
        share = goals.factors[track.label] / (fold_add(spoken) + of_blanks)
        subtract_row(goals, out, room, track, frame, (begin, end), (of_blanks, share))
