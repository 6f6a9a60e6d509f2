"""Check the labels of a CTC loss, find out what its kernel wants to know of them, and divide the work.

`goals` holds where labels begin; its `targets`, `reach`, `factors`, `begins`, `places` and `powers_at` are written.
"""

from ..ctc.rows import LossGoals
from . import parts as p
from .parts import Integers, Layout


@p.compiled
def cpu(
    tokens: Integers, goals: LossGoals, at: Layout, mean: int, few: int, width: int
) -> tuple[int, int, int, int, int, int]:
    """Plan for `tokens`, those of all labels, and frames in a layout, see `Layout`, of `width` log-probabilities.

    There are as many units as there is room for in `goals`, but one where there is less to do than `few`, and each
    sequence is one where there is room for it.  `mean` is 1 where losses are divided by the lengths of labels, and by
    how many there are.

    Returns the place of the first token that can be in no label, or -1; how many units there are; how much room of
    `LossRoom.values` and `LossRoom.powers` they need; what there is to do; and whether each sequence has one label.
    """
    n, labels, most = goals.first.size - 1, goals.cum.size - 1, goals.begins.size - 1
    for label in range(labels):
        reach, before = 0, -1
        for q in range(goals.cum[label], goals.cum[label + 1]):
            token = tokens[q]
            if token < 0 or token >= width or token == goals.blank:
                return q, 0, 0, 0, 0, 0
            if before == token:  # behind a blank
                reach += 1
            goals.targets[q], goals.reach[q] = token, reach
            reach += 1
            before = token
        share = max(goals.cum[label + 1] - goals.cum[label], 1) * labels
        goals.factors[label] = 1.0 / share if mean != 0 else 1.0
    for q in range(tokens.size, goals.targets.size):
        goals.targets[q] = 0
    work, each_one = 0, 1
    for u in range(n):
        i, _, length = p.locate(at, u)
        sizes = 0
        for label in range(goals.first[i], goals.first[i + 1]):
            sizes += (goals.cum[label + 1] - goals.cum[label] + 8) & -8
        work += (length + 1) * (sizes + width // 4 + 8)
        if goals.first[i + 1] - goals.first[i] != 1:
            each_one = 0
    if work < few:
        most = 1
    unit = done = share = room = powers = 0
    room_before = powers_before = 0
    goals.begins[0] = goals.places[0] = goals.powers_at[0] = 0
    for u in range(n):
        i, _, length = p.locate(at, u)
        if u > 0 and (most == n or done * most >= (share + 1) * work):
            share = done * most // work
            unit += 1
            goals.begins[unit], goals.places[unit], goals.powers_at[unit] = u, room, powers
            room_before, powers_before = room, powers
        largest, sizes = 8, 0
        for label in range(goals.first[i], goals.first[i + 1]):
            size = (goals.cum[label + 1] - goals.cum[label] + 8) & -8
            largest = max(largest, size)
            sizes += size
        # see `Track`: numbers of frames, of tokens, both sides of a frame, and a row of places behind each frame;
        # on the CPU with exponents, which few sequences touch
        rows = (length + 1) * (2 * largest + 8)
        need = (rows if few < 0 else 2 * rows) + 3 * length + 6 * largest + 40
        room, powers = max(room, room_before + need), max(powers, powers_before + largest + 8)
        done += (length + 1) * (sizes + width // 4 + 8)
    goals.begins[unit + 1] = n
    return -1, unit + 1, room, powers, 4 * work, each_one


KERNEL = p.KernelSpec(cpu, takes=(("f8",),))
