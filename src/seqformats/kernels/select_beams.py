"""One step of beam search for every source: the best candidates of all its prefixes (Paddle's beam_search operator).

The scores of the candidates are accumulated, or probabilities where `accumulated` is 0.  Source s has the prefixes of
the rows ``cum[s]`` to ``cum[s + 1]``.  A prefix that has ended, its token being `end`, has one candidate, itself.  The
order is total: higher score, then earlier row, then earlier candidate; NaN and -inf are no candidates.

What is selected of a source is grouped by row, best first; nothing where only ended prefixes are left.
"""

import math

import numpy as np

from ..beam.rows import Prefixes, Selected
from . import parts as p
from .parts import Integers
from .parts.names import gpu


@p.shared
def group(before: Integers, out: Selected, cum: Integers, s: int, found: int, end: int) -> None:
    """The `found` best of a source, in their order, grouped by row; none where all have ended before."""
    values, tokens, parents, counts, most = out
    begin = s * most
    for r in range(cum[s], cum[s + 1]):
        counts[r] = 0
    ended = 0
    for j in range(found):
        if before[parents[begin + j]] == end:
            ended += 1
    if ended < found:
        for j in range(found):
            row, token, value = parents[begin + j], tokens[begin + j], values[begin + j]
            counts[row] += 1
            q = j
            while q > 0 and parents[begin + q - 1] > row:
                parents[begin + q] = parents[begin + q - 1]
                tokens[begin + q] = tokens[begin + q - 1]
                values[begin + q] = values[begin + q - 1]
                q -= 1
            parents[begin + q] = row
            tokens[begin + q] = token
            values[begin + q] = value


@p.compiled
def cpu(
    prefixes: Prefixes, out: Selected, cum: Integers, end: int, accumulated: int, width: int, lo: int, hi: int
) -> None:
    """Sources `lo` to `hi`."""
    scores, ids, pre_ids, pre_scores = prefixes
    values, tokens, parents, most = out.values, out.tokens, out.parents, out.places
    for s in range(lo, hi):
        begin = s * most
        found = 0
        for r in range(cum[s], cum[s + 1]):
            ended = pre_ids[r] == end
            for c in range(1 if ended else width):
                if ended:
                    value = pre_scores[r]
                elif accumulated:
                    value = scores[r * width + c]
                else:
                    value = pre_scores[r] + np.log(scores[r * width + c])
                if not value > -np.inf or (found == most and not value > values[begin + most - 1]):
                    continue
                j = found if found < most else most - 1
                found = min(found + 1, most)
                while j > 0 and values[begin + j - 1] < value:
                    values[begin + j] = values[begin + j - 1]
                    tokens[begin + j] = tokens[begin + j - 1]
                    parents[begin + j] = parents[begin + j - 1]
                    j -= 1
                values[begin + j] = value
                parents[begin + j] = r
                tokens[begin + j] = c
                if ended:
                    tokens[begin + j] = end
                elif ids.size != 0:
                    tokens[begin + j] = ids[r * width + c]
        group(pre_ids, out, cum, s, found, end)


def cuda(prefixes: Prefixes, out: Selected, cum: Integers, end: int, accumulated: int, width: int) -> None:
    """All sources, a block each: as many rounds as places, each for the best candidate behind the last one."""
    scores, ids, pre_ids, pre_scores = prefixes
    values, tokens, parents, most = out.values, out.tokens, out.parents, out.places
    best = p.natural(gpu.shared.array(128, values.dtype))
    place = p.natural(gpu.shared.array(128, parents.dtype))
    me = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    threads = gpu.blockDim.x * gpu.blockDim.y
    for s in range(gpu.blockIdx.x, cum.size - 1, gpu.gridDim.x):
        first = cum[s] * width
        last = cum[s + 1] * width
        begin = s * most
        found = 0
        turn = 0
        while turn < most and gpu.blockIdx.y == 0:
            # position p is candidate p % width of row p // width; the order of positions is that of ties
            place[me] = -1
            q = first + me
            while q < last:
                r = q // width
                ended = pre_ids[r] == end
                value = scores[q]
                if ended:
                    value = pre_scores[r]
                elif not accumulated:
                    value = pre_scores[r] + p.ln(scores[q])
                behind = True
                if found > 0:
                    top = values[begin + found - 1]
                    behind = value < top or (value == top and q > tokens[begin + found - 1])
                fits = behind and value == value and not (ended and q != r * width)
                if math.isinf(value) and value < 0:
                    fits = False
                if fits and (place[me] < 0 or value > best[me]):
                    best[me] = value
                    place[me] = q
                q += threads
            gpu.syncthreads()
            half = threads >> 1
            while half > 0:
                if me < half and place[me + half] >= 0:
                    other = me + half
                    tie = best[other] == best[me] and place[other] < place[me]
                    if place[me] < 0 or best[other] > best[me] or tie:
                        best[me] = best[other]
                        place[me] = place[other]
                gpu.syncthreads()
                half >>= 1
            if place[0] < 0:
                turn = most
            else:
                if me == 0:
                    values[begin + found] = best[0]
                    tokens[begin + found] = place[0]  # the position, until all are found
                found += 1
                turn += 1
            gpu.syncthreads()
        if me == 0 and gpu.blockIdx.y == 0:
            for j in range(found):
                q = tokens[begin + j]
                r = q // width
                parents[begin + j] = r
                if pre_ids[r] == end:
                    tokens[begin + j] = end
                elif ids.size != 0:
                    tokens[begin + j] = ids[q]
                else:
                    tokens[begin + j] = q - r * width
            group(pre_ids, out, cum, s, found, end)
        gpu.syncthreads()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 3))
