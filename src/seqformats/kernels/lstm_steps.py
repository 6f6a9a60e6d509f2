"""All steps of one direction of an LSTM layer over packed rows, without padding.

`given` ``(rows, deep)`` are the inputs, `out` ``(rows, W)`` the state behind each step, and `states` ``(2, n, W)``
state and cell at the beginning; then those at the end of each sequence.  W is `width`, the units of the layer up to a
multiple of 32, and n the number of sequences.  `sizes` are n and the numbers `deep`, `room`, `held`, `ahead`, `units`
and `back`.  `x` is the memory of a layer, in which these parts follow each other:

- gates ``(room, W / 16, 4, 16)``: the gates i and f, the new content and the gate o
- before ``(held, W)``: the state before each step
- cells ``(held, W)``: the cell before each step
- tops ``(held, W)``: tanh of the cell behind it
- weights and bias, see `gate_weights`
- for each unit a tile of 512 numbers, and `ahead` rows of inputs and gates, see `parts.enter`

Step t is the rows ``begins[t]`` to ``begins[t + 1]``, one for each of the first sequences; with `back` they go from the
last to the first.  Unit u does the sequences u, u + `units`, ...  Where the gradient is to be found, `room` and `held`
are at least 8 more than there are rows, for each unit, and all is kept; else `room` is 0, and `held` 2 n and 8 for each
unit.  The sums of each row do not depend on other rows.

S. Hochreiter and J. Schmidhuber, Long short-term memory, 1997, with the gates of PyTorch's `nn.LSTM`.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(
    x: Array,
    given: Array,
    out: Array,
    states: Array,
    begins: Integers,
    sizes: Integers,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    count, deep, room, held = sizes[0], sizes[1], sizes[2], sizes[3]
    ahead, units, back = sizes[4], sizes[5], sizes[6]
    steps, keeps, line = begins.size - 1, room > 0, 4 * width
    x, given, out, states = p.pointer(x), p.pointer(given), p.pointer(out), p.pointer(states)
    before = room * line
    cells = before + held * width
    tops = cells + held * width
    entering = tops + held * width
    weights = entering + line * deep
    bias = weights + line * width
    for u in range(lo, hi):
        tile = bias + line + u * (512 + ahead * (deep + line))
        inputs = p.Inputs(tile + 512, tile + 512 + ahead * deep, entering, deep, line)
        known, added = (
            0,
            inputs.gates,
        )  # up to which step inputs are added up, and those of this one
        for s in range(steps):
            if s == known:
                known, added = p.enter(given, x, begins, s, back, u, units, inputs), inputs.gates
            row, alive, old, follow, others = p.step_at(begins, steps, s, back)
            now, following = row, follow  # where the states before this step are, and before the next one
            if not keeps:
                now, following = (s & 1) * count, (~s & 1) * count
            i = u
            while i < alive:
                if i >= old:  # the sequence begins here
                    p.copy_numbers(states, i * width, x, before + (now + i) * width, width)
                    p.copy_numbers(states, (count + i) * width, x, cells + (now + i) * width, width)
                i += units
            for group in range(width // 16):
                panel, shift = weights + group * 64 * width, bias + group * 64
                i, entered = u, added + group * 64
                while i < alive:
                    begin = before + (now + i) * width
                    gap = units * width
                    one = p.Product(tile, 64, begin, gap, 1, panel, 32, width, 0)
                    two = p.Product(tile + 32, 64, begin, gap, 1, panel + 32 * width, 32, width, 0)
                    if i + 4 * units < alive:
                        p.multiply(x, one, 32)
                        p.multiply(x, two, 32)
                    else:
                        p.multiply_few(x, one, 32)
                        p.multiply_few(x, two, 32)
                    r = 0
                    while r < 8 and i < alive:
                        q, g, unit = tile + r * 64, (row + i) * line + group * 64, group * 16
                        place = (row + i) * width + unit
                        low = p.load(x, entered, 16, x) + p.load(x, shift, 16, x) + p.load(x, q, 16, x)
                        keep = p.load(x, entered + 16, 16, x) + p.load(x, shift + 16, 16, x) + p.load(x, q + 16, 16, x)
                        new = p.load(x, entered + 32, 16, x) + p.load(x, shift + 32, 16, x) + p.load(x, q + 32, 16, x)
                        last = p.load(x, entered + 48, 16, x) + p.load(x, shift + 48, 16, x) + p.load(x, q + 48, 16, x)
                        admit, forget = p.sigmoid(low, 16), p.sigmoid(keep, 16)
                        content, give = p.tanh(new, 16), p.sigmoid(last, 16)
                        cell = forget * p.load(x, cells + (now + i) * width + unit, 16, x) + admit * content
                        top = p.tanh(cell, 16)
                        state = give * top
                        if keeps:
                            p.store(x, g, admit)
                            p.store(x, g + 16, forget)
                            p.store(x, g + 32, content)
                            p.store(x, g + 48, give)
                            p.store(x, tops + place, top)
                        p.store(out, place, state)
                        if i < others:
                            place = (following + i) * width + unit
                            p.store(x, before + place, state)
                            p.store(x, cells + place, cell)
                        else:
                            place = i * width + unit
                            p.store(states, place, state)
                            p.store(states, place + count * width, cell)
                        i += units
                        r += 1
                        entered += line
            added += (alive - u + units - 1) // units * line if u < alive else 0


KERNEL = p.KernelSpec(cpu, takes=(("f4",) * 4, ("f8",) * 4))
