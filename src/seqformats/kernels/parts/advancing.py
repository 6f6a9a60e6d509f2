"""Advance the candidates of a step of beam search, on the host; see `advance_beams`.

The arguments are named tuples of `beam.rows`.
"""

from typing import Any

import numpy as np

from .code import Item
from .common import place_of
from .options import shared
from .record import Array


@shared
def normalize_score(value: float, length: int, norm: int, penalty: float) -> Any:
    """The score of a hypothesis: by `norm` over ``length ** penalty`` (1) or ``((5 + length) / 6) ** penalty`` (2)."""
    if norm == 1:
        return value / np.float32(np.float64(length) ** penalty)
    if norm == 2:
        return value / np.float32(((5.0 + length) / 6.0) ** penalty)
    return value


@shared
def prune(candidates: Item, values_before: Array, below: Array, at: int, found: int) -> int:
    """Leave out what is too far behind the best; how many are left, in their order."""
    values, keys, ids, width = candidates.values, candidates.keys, candidates.ids, candidates.width
    best = values[at]
    best_token = values[at] - values_before[ids[at] // width]
    for j in range(at, at + found):
        best = max(best, values[j])
        best_token = max(best_token, values[j] - values_before[ids[j] // width])
    left = at
    for j in range(at, at + found):
        token = values[j] - values_before[ids[j] // width]
        if values[j] >= best - below[0] and token >= best_token - below[1]:
            values[left] = values[j]
            keys[left] = keys[j]
            ids[left] = ids[j]
            left += 1
    return left - at


@shared
def keep_finished(finished: Item, at: int, size: int, most: int, score: float, node: int) -> int:
    """Put a finished hypothesis among at most `most`, behind those of the same score; the new size."""
    scores, nodes = finished.scores, finished.nodes
    if size == most and not score > scores[at + size - 1]:
        return size
    j = size if size < most else size - 1
    while j > 0 and scores[at + j - 1] < score:
        scores[at + j] = scores[at + j - 1]
        nodes[at + j] = nodes[at + j - 1]
        j -= 1
    scores[at + j] = score
    nodes[at + j] = node
    return size + 1 if size < most else size


@shared
def advance(
    candidates: Item,
    before: Item,
    live: Item,
    beams: Item,
    finished: Item,
    tree: Item,
    terms: Item,
    steps: int,
) -> tuple[int, int, int, int, int, int]:
    """All beams; so many steps have been made after this one."""
    values, keys, ids, counts, places, columns = candidates
    begin, end, size = beams.begin, beams.end, beams.size
    parents, tokens, row_nodes, sources = live.numbers
    row_values, row_keys = live.scores
    pool, norm, stop = terms.pool, terms.norm, terms.stop
    far = terms.below[0] < np.inf or terms.below[1] < np.inf
    for b in range(begin.size):
        if begin[b] < end[b] and counts[b] < 0:
            return 0, tree.size, 0, -1 - counts[b], 0, 0
    rows = 0
    nodes = tree.size
    same = 1
    for b in range(begin.size):
        if begin[b] == end[b]:
            continue
        source = b // terms.groups
        at = b * places
        pool_at = b * finished.places
        k = beams.width[b]
        limit = beams.limit[b]
        length = steps - beams.begun[b]
        last = length >= limit
        penalty = beams.penalty[b]
        found = counts[b]
        if far and found > 0:
            found = prune(candidates, before.values, terms.below, at, found)
        if length > 1 or b % terms.groups == 0:  # at first all groups have the same row
            beams.asked[b] += end[b] - begin[b]
        begin[b] = rows
        if pool == 2:  # the finished stay in the beam: they and the candidates compete for its places
            old = 0
            new = 0
            while old + new < k and (old < size[b] or new < found):
                if old < size[b] and (new == found or finished.scores[pool_at + old] >= keys[at + new]):
                    old += 1
                else:
                    new += 1
            size[b] = old
            found = new
        for j in range(found):
            parent = ids[at + j] // columns
            token = ids[at + j] - parent * columns
            value = values[at + j]
            ends_here = place_of(terms.ends, terms.ends_at[source], terms.ends_at[source + 1], token) >= 0
            done = ends_here or (last and terms.at_limit)
            if done:
                if (terms.first_only and j >= k) or (pool == 1 and size[b] == k):
                    continue
                score = keys[at + j] if pool == 2 else normalize_score(value, length, norm, penalty)
                most = finished.places if pool == 3 else k
                size[b] = keep_finished(finished, pool_at, size[b], most, score, nodes)
                beams.finished[b] += 1
                beams.topped[b] |= j == 0
            else:
                if rows - begin[b] == k:
                    continue
                same &= parent == rows
                parents[rows] = parent
                tokens[rows] = token
                row_nodes[rows] = nodes
                sources[rows] = source
                row_values[rows] = value
                row_keys[rows] = keys[at + j]
                rows += 1
            tree.tokens[nodes] = token
            tree.previous[nodes] = before.nodes[parent]
            tree.values[nodes] = value
            nodes += 1
        alive = rows - begin[b]
        best = np.float32(-np.inf)
        for r in range(begin[b], rows):
            best = max(best, row_keys[r])
        full = size[b] >= k
        worst = finished.scores[pool_at + k - 1] if full else np.float32(-1e9)
        enough = alive == 0 or last
        if stop < 3:  # "hf": can the best live hypothesis still come among the k best?
            most_tokens = limit if stop == 2 and penalty > 0 else length
            enough |= (stop == 1 and full) or not normalize_score(best, most_tokens, norm, penalty) > worst
        elif stop == 3:
            enough |= beams.finished[b] >= beams.enough[b]
        elif stop == 4:  # "ct2"
            wanted = min(terms.n_best, beams.enough[b]) if penalty == 0 else beams.enough[b]
            enough |= beams.finished[b] >= wanted and (penalty != 0 or beams.topped[b] == 1)
        elif stop == 5:  # "gnmt": even at full length
            enough |= full and worst > normalize_score(best, limit, norm, penalty)
        if terms.safe and size[b] >= min(terms.n_best, k):
            longest = limit if penalty > 0 else length
            bound = normalize_score(best, longest, norm, penalty)
            enough |= finished.scores[pool_at + min(terms.n_best, k) - 1] >= bound
        if enough:
            if size[b] == 0:  # unless the rule finishes everything there, the live ones are the result
                for r in range(begin[b], rows):
                    size[b] = keep_finished(finished, pool_at, size[b], k, row_values[r], row_nodes[r])
            rows = begin[b]
        end[b] = rows
        if terms.shrinks:
            beams.most[b] = max(k - beams.finished[b], 1)
    longest_beam = 0
    most_wanted = 0
    for b in range(begin.size):
        if begin[b] < end[b]:
            longest_beam = max(longest_beam, end[b] - begin[b])
            most_wanted = max(most_wanted, beams.most[b])
    return rows, nodes, 1 if same and rows == before.nodes.size else 0, -1, longest_beam, most_wanted
