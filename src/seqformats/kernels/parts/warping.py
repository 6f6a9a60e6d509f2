"""Tokens that may be drawn of a row of scores, on the host: listed in the `Room` with keys and weights, by the `Warp`.

Thresholds are found with a histogram, which is made anew over the bin that they are in until all in that are the same.
`draw_tokens` says in which order what is asked for is done.
"""

from typing import Any

import numpy as np

from .code import Item
from .heap import least_of_best
from .options import shared
from .record import Array
from .vectors import exp


@shared
def threshold(room: Item, base: int, size: int, target: float, bins: int) -> Any:
    """The largest key such that those of at least this have weights of at least `target` together; or else the least.

    `size` is at least 1, and keys are finite.
    """
    keys, weights = room.keys, room.weights
    above = np.float64(0)
    low = keys[base]
    while size > 0:
        low = keys[base]
        high = low
        for i in range(base + 1, base + size):
            low = min(low, keys[i])
            high = max(high, keys[i])
        if not low < high:
            break
        scale = 255.0 / (np.float64(high) - np.float64(low))  # they come to different bins
        for b in range(bins, bins + 256):
            room.bins[b] = 0.0
        for i in range(base, base + size):
            room.bins[bins + int((np.float64(keys[i]) - np.float64(low)) * scale)] += weights[i]
        b = 255
        while b > 0 and above + room.bins[bins + b] < target:
            above += room.bins[bins + b]
            b -= 1
        left = base
        for i in range(base, base + size):
            key = keys[i]
            room.few_keys[left] = key
            room.few_weights[left] = weights[i]
            left += int((np.float64(key) - np.float64(low)) * scale) == b
        keys, weights, size = room.few_keys, room.few_weights, left - base
    return low


@shared
def leave(room: Item, base: int, size: int, least: float) -> int:
    """Keep what has a key of at least this, in its order; how many."""
    left = base
    for i in range(base, base + size):
        room.keys[left] = room.keys[i]
        room.weights[left] = room.weights[i]
        room.tokens[left] = room.tokens[i]
        left += room.keys[i] >= least
    return left - base


@shared
def gather_scores(x: Array, begin: int, width: int, low: float, room: Item, base: int, blocks: int) -> int:
    """Scores above -inf that are at least `low`, with their tokens, where the block has any; how many."""
    block = 16 if width <= 1024 else 128
    size = 0
    for i in range((width + block - 1) // block):
        best = room.blocks[blocks + i]
        if best >= low and best > -np.inf:
            for token in range(i * block, min((i + 1) * block, width)):
                value = x[begin + token]
                room.keys[base + size] = value
                room.tokens[base + size] = token
                size += value >= low and value > -np.inf
    return size


@shared
def beside_best(value: float, top: float, heat: float) -> Any:
    """A score as a log-probability beside that of the best one, finite."""
    return max((value - top) * heat, np.float32(-1e30))


@shared
def apply_heat(keys: Array, weights: Array, base: int, size: int, top: float, heat: float) -> Any:
    """Make scores the log-probabilities beside that of the best, and write weights; the sum of these."""
    y, w = keys[base : base + size], weights[base : base + size]
    for i in range(y.size):
        y[i] = beside_best(y[i], top, heat)
    for i in range(y.size):
        w[i] = exp(y[i])
    mass = np.float64(0)
    for i in range(w.size):
        mass += w[i]
    return mass


@shared
def list_tokens(
    x: Array, begin: int, width: int, best: tuple[Item, Item], room: Item, warp: Item, places: tuple[int, int, int]
) -> Any:
    """List the tokens that may be drawn, with their weights; how many, and the sum of the weights.

    `best` is the largest score and the sum of powers beside it, `places` are those of this row in `room`: of its
    tokens, its blocks and its bins.
    """
    (top, total), (base, blocks, at) = best, places
    heat, top_p, least, typical = warp.numbers[0], warp.numbers[1], warp.numbers[2], warp.numbers[3]
    keys, weights = room.keys, room.weights
    low = np.float32(-np.inf)
    if warp.top_k > 0 and warp.top_k < width:
        count = (width + 15) // 16 if width <= 1024 else (width + 127) // 128
        low = least_of_best(room.blocks, blocks, blocks + count, keys, room.tokens, base, warp.top_k)
        size = gather_scores(x, begin, width, low, room, base, blocks)
        if size > warp.top_k:
            weights[base : base + size] = np.float32(1)
            low = threshold(room, base, size, np.float64(warp.top_k), at)
            size = leave(room, base, size, low)
        mass = apply_heat(keys, weights, base, size, top, heat)
    elif heat == 1 and (top_p < 1 or typical == 1):
        mass = np.float64(total)
        low = least
        if top_p < 1:  # what is less likely than this goes, if all others are as well
            low = np.float32(np.log(mass * (1.0 - np.float64(top_p)) / np.float64(width)))
        low = (top + low) - np.float32(1e-3) - abs(top) * np.float32(1e-6)
        size = gather_scores(x, begin, width, low, room, base, blocks)
        apply_heat(keys, weights, base, size, top, heat)
    else:
        size = gather_scores(x, begin, width, low, room, base, blocks)
        mass = apply_heat(keys, weights, base, size, top, heat)
    if top_p < 1:
        low = threshold(room, base, size, np.float64(top_p) * mass, at)
        size = leave(room, base, size, low)
    if least > -np.inf:
        size = leave(room, base, size, least)
    mass = np.float64(0)
    mean = np.float64(0)
    for i in range(base, base + size):
        mass += weights[i]
        mean += np.float64(weights[i]) * np.float64(keys[i])
    if typical < 1:
        mean /= mass
        for i in range(base, base + size):
            keys[i] = -np.float32(abs(mean - np.float64(keys[i])))
        low = threshold(room, base, size, np.float64(typical) * mass, at)
        size = leave(room, base, size, low)
        mass = np.float64(0)
        for i in range(base, base + size):
            mass += weights[i]
    return size, mass
