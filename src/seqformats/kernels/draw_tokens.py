"""Tokens drawn from rows of scores: log-probabilities, what may be drawn of them, and the draws, without sorting.

`limits` act on the scores, which are ``scores.items (rows * width,)``.  What is left is warped in the order of
transformers, each step by what the ones before it have left:

========  =============================================================================================================
heat      log-probabilities are multiplied by it
top_k     tokens stay that are worth at least the k-th best
top_p     the best tokens stay until their probabilities add up to this
min_p     tokens stay with at least this part of the probability of the best
typical   those whose log-probability is nearest to the mean stay until their probabilities add up to this (Meister et
          al. 2023, "Locally Typical Sampling")
========  =============================================================================================================

Tokens that are worth the same stay or go together.  A draw takes the first token, by number, at which the sum of
probabilities exceeds a random number below their total.  Its score is that of the row, and the log-probability before
warping; where ``scores.form`` is 1 that is what the items are, by limits.

On the CPU `parts.warping` lists what may be drawn; on CUDA thresholds are found by halving the float32 numbers.
"""

import math
from typing import Any

import numpy as np

from ..beam.rows import Drawn, Draws, Limits, Room, Scores, Warp
from . import parts as p
from .parts import Array
from .parts.names import gpu


@p.shared
def uniform(draws: Draws, d: int) -> Any:
    """A random number from 0 to below 1, of 53 bits; 0 where there is no seed."""
    if draws.seeds[d] < 0:
        return np.float64(0)
    a, b, _, _ = p.draw(draws.seeds[d], 7, draws.sequences[d], draws.places[d])
    return np.float64(a << 21 | b >> 11) * np.float64(2.0**-53)


# --- on the host -----------------------------------------------------------------------------------------------------


@p.shared
def one_of_list(room: Room, base: int, size: int, target: float) -> int:
    """The first token at which the sum of weights exceeds `target`."""
    token = -1
    reached = np.float64(0)
    for i in range(base, base + size):
        if room.weights[i] > 0:
            token = room.tokens[i]
            reached += room.weights[i]
            if reached > target:
                break
    return token


@p.shared
def one_of_all(y: Array, begin: int, width: int, top: float, sums: Array, at: int, target: float) -> int:
    """Draw one of all tokens of a row, of which there are the sums of blocks of 128."""
    token = -1
    reached = np.float64(0)
    for q in range(0, width, 128):
        total = sums[at + (q >> 7)]
        if not reached + total > target:
            reached += total
            continue
        for k in range(q, min(q + 128, width)):
            weight = p.exp(y[begin + k] - top)
            if weight > 0:
                token = k
                reached += weight
                if reached > target:
                    return token
    if token < 0:  # by rounding, where what is left cannot be drawn
        token = 0
        while y[begin + token] < top:
            token += 1
    return token


@p.compiled
def cpu(
    scores: Scores,
    out: Drawn,
    room: Room,
    limits: Limits,
    draws: Draws,
    warp: Warp,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Rows `lo` to `hi`."""
    x, running, form = scores
    heat, top_p, least, typical = warp.numbers[0], warp.numbers[1], warp.numbers[2], warp.numbers[3]
    filtered = (warp.top_k > 0 and warp.top_k < width) or top_p < 1 or least > -np.inf or typical < 1
    unlimited = limits.allowed_from.size == 0 and limits.edited_at.size == 0
    block = 16 if width <= 1024 else 128
    base, blocks, bins = lo * width, lo * ((width + block - 1) // block), lo * 256
    none = np.float32(-np.inf)
    for r in range(lo, hi):
        own = x
        begin = r * width
        top, total = p.powers_of_row(x, begin, width, room.blocks, blocks, block)
        if total < np.inf and not unlimited:
            own = room.limited
            for k in range(width):
                own[base + k] = p.apply_limits(x[begin + k], k, r, limits)
            begin = base
            top, total = p.powers_of_row(own, begin, width, room.blocks, blocks, block)
        good = total < np.inf
        alive = good and top > none
        size = 0
        mass = np.float64(0)
        y, first, peak = own, begin, top
        if alive and filtered:
            size, mass = p.list_tokens(own, begin, width, (top, total), room, warp, (base, blocks, bins))
        elif alive:
            if heat != 1:
                y, first, peak = room.keys, base, np.float32(0)
                for k in range(width):
                    y[base + k] = (own[begin + k] - top) * heat
            for q in range(0, width, 128):
                room.weights[base + (q >> 7)] = p.sum_of_powers(y, first + q, min(width - q, 128), peak)
                mass += room.weights[base + (q >> 7)]
        log = np.float32(np.log(total)) if alive and form != 1 else np.float32(0)
        shift = top if alive and form != 1 else np.float32(0)
        for d in range(draws.begin[r], draws.begin[r + 1]):
            token = -1 if good else -2
            value = none
            if alive:
                target = uniform(draws, d) * mass
                if filtered:
                    token = one_of_list(room, base, size, target)
                else:
                    token = one_of_all(y, first, width, peak, room.weights, base, target)
                value = ((own[begin + token] - shift) - log) + running[r]
            out.tokens[d] = value
            out.tokens[draws.seeds.size + d] = token
        if out.warped.size != 0:
            log = np.float32(np.log(mass)) if alive else np.float32(0)
            out.warped[r * width : (r + 1) * width] = none if good else np.float32(np.nan)
            for i in range(size):
                token = room.tokens[base + i]
                out.warped[r * width + token] = p.beside_best(own[begin + token], top, heat) - log
            for token in range(width if alive and not filtered else 0):
                if own[begin + token] > none:
                    out.warped[r * width + token] = p.beside_best(own[begin + token], top, heat) - log


# --- on a GPU --------------------------------------------------------------------------------------------------------


@p.shared
def sum_threads(parts: Array, value: float) -> Any:
    """The sum of the values of all threads, which all come here."""
    me = gpu.threadIdx.x
    parts[me] = value
    total = p.sum_of_block(parts, me, gpu.blockDim.x)
    gpu.syncthreads()
    return total


@p.shared
def order_of(value: float) -> Any:
    """The bits of a float32 as an integer that rises with it."""
    bits = p.bits_of(value + np.float32(0))  # -0.0 becomes 0.0, since they are equal
    return bits if bits >= 0 else bits ^ 0x7FFFFFFF


@p.shared
def nearness(y: float, mean: float) -> Any:
    """A number that is the larger, the nearer a log-probability is to the mean."""
    return np.float32(-abs(mean - p.wide(y)))


@p.shared
def weight_of(value: float, y: float, floors: Any, mean: float) -> Any:
    """Weigh a score in a draw, 0 where it has gone; `y` is its log-probability beside that of the best."""
    kth, low, near = floors
    stays = value > -math.inf and order_of(value) >= kth and order_of(y) >= low
    if stays and near > -0x7F800000:
        stays = order_of(nearness(y, mean)) >= near
    return p.exp(y) if stays else np.float32(0)


def cuda(
    scores: Scores,
    out: Drawn,
    room: Room,
    limits: Limits,
    draws: Draws,
    warp: Warp,
    width: int,
) -> None:
    """All rows, a block each; the work needs no room."""
    x, running, form = scores
    parts = p.natural(gpu.shared.array(128, out.tokens.dtype))
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    heat = warp.numbers[0]
    infinite = x.dtype.type(math.inf)
    nothing = order_of(-infinite)
    chunk = (width + threads - 1) // threads
    for r in range(gpu.blockIdx.x, running.size, gpu.gridDim.x):
        row = r * width
        top = -infinite
        wrong = 0
        k = me
        while k < width:
            value = x[row + k]
            if value != value or value == infinite:
                wrong = 1
            value = p.apply_limits(value, k, r, limits)
            if value > top:
                top = value
            k += threads
        good = sum_threads(parts, wrong) == 0
        parts[me] = top
        gpu.syncthreads()
        half = threads >> 1
        while half > 0:
            if me < half and parts[me + half] > parts[me]:
                parts[me] = parts[me + half]
            gpu.syncthreads()
            half >>= 1
        top = x.dtype.type(parts[0])
        gpu.syncthreads()
        alive = good and top > -infinite
        total = p.wide(x.dtype.type(0))
        k = me
        while k < width and alive:
            total += p.wide(p.exp(p.apply_limits(x[row + k], k, r, limits) - top))
            k += threads
        total = sum_threads(parts, total)
        shift = p.wide(x.dtype.type(0))
        if form != 1 and alive:
            shift = p.wide(top) + p.ln(total)

        kth, low, near = nothing, nothing, nothing
        mean = p.wide(x.dtype.type(0))
        for stage in range(3):
            asked = warp.top_k > 0 and warp.top_k < width
            target = p.wide(x.dtype.type(warp.top_k))
            if stage == 1:
                asked = warp.numbers[1] < 1
            if stage == 2:
                low = max(low, order_of(warp.numbers[2]))
                asked = warp.numbers[3] < 1
            if stage == 0 and warp.top_k == 1:
                asked = False
                kth = order_of(top)
            if alive and asked:
                if stage > 0:
                    mass = p.wide(x.dtype.type(0))
                    moment = mass
                    k = me
                    while k < width:
                        value = p.apply_limits(x[row + k], k, r, limits)
                        y = p.beside_best(value, top, heat)
                        weight = p.wide(weight_of(value, y, (kth, low, near), mean))
                        mass += weight
                        moment += weight * p.wide(y)
                        k += threads
                    mass = sum_threads(parts, mass)
                    moment = sum_threads(parts, moment)
                    target = mass * p.wide(warp.numbers[1] if stage == 1 else warp.numbers[3])
                    if stage == 2:
                        mean = moment / mass
                least = nothing + 1
                most = order_of(top) if stage == 0 else 0
                while least < most:
                    middle = (least + most + 1) >> 1
                    total = p.wide(x.dtype.type(0))
                    k = me
                    while k < width:
                        value = p.apply_limits(x[row + k], k, r, limits)
                        y = p.beside_best(value, top, heat)
                        weight = weight_of(value, y, (kth, low, near), mean)
                        key = order_of(value)
                        if stage == 0:
                            weight = x.dtype.type(1 if value > -infinite else 0)
                        elif stage == 1:
                            key = order_of(y)
                        else:
                            key = order_of(nearness(y, mean))
                        if key >= middle:
                            total += p.wide(weight)
                        k += threads
                    if sum_threads(parts, total) >= target:
                        least = middle
                    else:
                        most = middle - 1
                if stage == 0:
                    kth = least
                elif stage == 1:
                    low = least
                else:
                    near = least

        total = p.wide(x.dtype.type(0))
        k = me * chunk
        while k < min((me + 1) * chunk, width) and alive:
            value = p.apply_limits(x[row + k], k, r, limits)
            total += p.wide(weight_of(value, p.beside_best(value, top, heat), (kth, low, near), mean))
            k += 1
        parts[me] = total
        gpu.syncthreads()
        mass = p.wide(x.dtype.type(0))
        for own in range(threads):
            mass += parts[own]
        for d in range(draws.begin[r] + me, draws.begin[r + 1], threads):
            token = -1 if good else -2
            score = p.wide(-infinite)
            if alive:
                target = uniform(draws, d) * mass
                own = 0
                reached = p.wide(x.dtype.type(0))
                while own < threads - 1 and not reached + parts[own] > target:
                    reached += parts[own]
                    own += 1
                k = own * chunk
                while k < min((own + 1) * chunk, width) and not (token >= 0 and reached > target):
                    value = p.apply_limits(x[row + k], k, r, limits)
                    weight = weight_of(value, p.beside_best(value, top, heat), (kth, low, near), mean)
                    if weight > 0:
                        token = k
                        reached += p.wide(weight)
                    k += 1
                score = p.wide(p.apply_limits(x[row + token], token, r, limits)) - shift + p.wide(running[r])
            out.tokens[d] = score
            out.tokens[draws.seeds.size + d] = token
        k = me if out.warped.size != 0 else width
        while k < width:
            value = p.apply_limits(x[row + k], k, r, limits)
            y = p.beside_best(value, top, heat)
            place = row + k
            out.warped[place] = x.dtype.type(-math.inf if good else math.nan)
            if alive and weight_of(value, y, (kth, low, near), mean) > 0:
                out.warped[place] = x.dtype.type(p.wide(y) - p.ln(mass))
            k += threads
        gpu.syncthreads()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", (("f4", "f4", "f8", "f4", *("f4",) * 6, "f8", *("f4",) * 4),))
