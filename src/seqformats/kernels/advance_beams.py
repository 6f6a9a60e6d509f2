"""One step of beam search behind the selection: which candidates live on, which are finished, who is done.

It runs on the host, whatever the device of the scores: the candidates are few.

A *node* is a token behind another node, -1 at the start; ``node_values`` are scores so far.  A *row* is a live
hypothesis, a *lane* a beam of its own: a source, or a group of one.  The arrays of `lanes` hold, for every lane,

- begin, end: its first row, and the row behind its last one; the same where the lane is done
- most: how many candidates it wants in the next step
- width: its beam size
- limit: the most tokens of a hypothesis
- size: how many hypotheses are in its pool, and finished: how many have ever come there
- topped: has the best candidate of a step been an end?

The pool of lane l, best first, is at ``l * pool_room`` of ``pool_scores`` and ``pool_nodes``.

The candidates of lane l are at ``l * places`` of ``values``, ``keys`` and ``ids``, in falling order of `keys`,
``counts[l]`` of them; an id is ``row * width + token``.  `rule` and `prune` hold numbers of `rules.Rule` and
`rules.Prune`.

Of the new rows, ``live`` holds parent, token, node and source, and ``live_values`` value and key.  ``info`` becomes:
rows, nodes, whether every row goes on from the row of the same number, the first bad row or -1, in which case nothing
has been changed, and the most rows, and wanted candidates, of a lane.
"""

from typing import Any

import numpy as np

from .parts import (
    KernelSpec,
    compiled,
    shared,
)


@shared
def scored(value: Any, length: int, norm: int, penalty: Any) -> Any:
    """The score of a hypothesis: by `norm` over ``length ** penalty`` (1) or ``((5 + length) / 6) ** penalty`` (2)."""
    if norm == 1:
        return value / np.float32(np.float64(length) ** penalty)
    if norm == 2:
        return value / np.float32(((5.0 + length) / 6.0) ** penalty)
    return value


@shared
def pruned(values: Any, keys: Any, ids: Any, row_values: Any, prune: Any, at: int, found: int, width: int) -> int:
    """Leave out what is too far behind the best; how many are left, in their order."""
    best = values[at]
    best_token = values[at] - row_values[ids[at] // width]
    for j in range(at, at + found):
        best = max(best, values[j])
        best_token = max(best_token, values[j] - row_values[ids[j] // width])
    left = at
    for j in range(at, at + found):
        token = values[j] - row_values[ids[j] // width]
        if values[j] >= best - prune[0] and token >= best_token - prune[1]:
            values[left] = values[j]
            keys[left] = keys[j]
            ids[left] = ids[j]
            left += 1
    return left - at


@shared
def pooled(scores: Any, nodes: Any, at: int, size: int, room: int, score: Any, node: int) -> int:
    """Put a finished hypothesis among at most `room`, behind those of the same score; the new size."""
    if size == room and not score > scores[at + size - 1]:
        return size
    j = size if size < room else size - 1
    while j > 0 and scores[at + j - 1] < score:
        scores[at + j] = scores[at + j - 1]
        nodes[at + j] = nodes[at + j - 1]
        j -= 1
    scores[at + j] = score
    nodes[at + j] = node
    return size + 1 if size < room else size


@compiled
def cpu(
    values: Any,
    keys: Any,
    ids: Any,
    counts: Any,
    row_nodes: Any,
    row_values: Any,
    lanes: Any,
    penalties: Any,
    pool_scores: Any,
    pool_nodes: Any,
    node_tokens: Any,
    node_previous: Any,
    node_values: Any,
    live: Any,
    live_values: Any,
    ends_at: Any,
    ends: Any,
    rule: Any,
    prune: Any,
    info: Any,
    length: int,
    columns: int,
    places: int,
    pool_room: int,
    groups: int,
    n_best: int,
    safe: int,
) -> None:
    """All lanes; hypotheses have `length` tokens after this step, and scores `columns`."""
    begin, end, most, width, limit, size, finished, topped = lanes
    first_only, at_limit, pool, norm, shrinks, stop = rule
    far = prune[0] < np.inf or prune[1] < np.inf
    for lane in range(begin.size):
        if begin[lane] < end[lane] and counts[lane] < 0:
            info[3] = -1 - counts[lane]
            return
    rows = 0
    nodes = info[1]
    same = 1
    for lane in range(begin.size):
        if begin[lane] == end[lane]:
            continue
        source = lane // groups
        at = lane * places
        home = lane * pool_room
        k = width[lane]
        last = length >= limit[lane]
        penalty = penalties[lane]
        found = counts[lane]
        if far and found > 0:
            found = pruned(values, keys, ids, row_values, prune, at, found, columns)
        begin[lane] = rows
        if pool == 2:  # the finished stay in the beam: they and the candidates compete for its places
            old = 0
            new = 0
            while old + new < k and (old < size[lane] or new < found):
                if old < size[lane] and (new == found or pool_scores[home + old] >= keys[at + new]):
                    old += 1
                else:
                    new += 1
            size[lane] = old
            found = new
        for j in range(found):
            parent = ids[at + j] // columns
            token = ids[at + j] - parent * columns
            value = values[at + j]
            ends_here = False
            for e in range(ends_at[source], ends_at[source + 1]):
                ends_here |= ends[e] == token
            done = ends_here or (last and at_limit)
            if done:
                if (first_only and j >= k) or (pool == 1 and size[lane] == k):
                    continue
                score = keys[at + j] if pool == 2 else scored(value, length, norm, penalty)
                room = pool_room if pool == 3 else k
                size[lane] = pooled(pool_scores, pool_nodes, home, size[lane], room, score, nodes)
                finished[lane] += 1
                topped[lane] |= j == 0
            else:
                if rows - begin[lane] == k:
                    continue
                same &= parent == rows
                live[0, rows] = parent
                live[1, rows] = token
                live[2, rows] = nodes
                live[3, rows] = source
                live_values[0, rows] = value
                live_values[1, rows] = keys[at + j]
                rows += 1
            node_tokens[nodes] = token
            node_previous[nodes] = row_nodes[parent]
            node_values[nodes] = value
            nodes += 1
        alive = rows - begin[lane]
        best = np.float32(-np.inf)
        for r in range(begin[lane], rows):
            best = max(best, live_values[1, r])
        full = size[lane] >= k
        worst = pool_scores[home + k - 1] if full else np.float32(-1e9)
        enough = alive == 0 or last
        if stop < 3:  # "hf": can the best live hypothesis still come among the k best?
            most_tokens = limit[lane] if stop == 2 and penalty > 0 else length
            enough |= (stop == 1 and full) or not scored(best, most_tokens, norm, penalty) > worst
        elif stop == 3:
            enough |= finished[lane] >= k
        elif stop == 4:  # "ct2"
            wanted = min(n_best, k) if penalty == 0 else k
            enough |= finished[lane] >= wanted and (penalty != 0 or topped[lane] == 1)
        elif stop == 5:  # "gnmt": even at full length
            enough |= full and worst > scored(best, limit[lane], norm, penalty)
        if safe and size[lane] >= min(n_best, k):
            longest = limit[lane] if penalty > 0 else length
            bound = scored(best, longest, norm, penalty)
            enough |= pool_scores[home + min(n_best, k) - 1] >= bound
        if enough:
            if size[lane] == 0:  # unless the rule finishes everything there, the live ones are the result
                for r in range(begin[lane], rows):
                    size[lane] = pooled(pool_scores, pool_nodes, home, size[lane], k, live_values[0, r], live[2, r])
            rows = begin[lane]
        end[lane] = rows
        if shrinks:
            most[lane] = max(k - finished[lane], 1)
    info[0] = rows
    info[1] = nodes
    info[2] = same and rows == row_nodes.size
    info[3] = -1
    info[4] = 0
    info[5] = 0
    for lane in range(begin.size):
        if begin[lane] < end[lane]:
            info[4] = max(info[4], end[lane] - begin[lane])
            info[5] = max(info[5], most[lane])


KERNEL = KernelSpec(cpu, takes=(("f4",),))
