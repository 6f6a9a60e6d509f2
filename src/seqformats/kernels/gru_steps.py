"""All steps of one direction of a GRU layer over packed rows, without padding.

`states` ``(n, W)`` are those at the beginning; then those at the end of each sequence.  `x` is the memory of a layer,
in which these parts follow each other:

- gates ``(room, W / 16, 3, 16)``: the gates r and z, and the new content, 16 units each
- before ``(held, W)``: the state before each step
- inner ``(held, W)``: what it adds to the content, which r weighs
- weights and biases, see `gate_weights`
- for each unit a tile of 512 numbers, and `ahead` rows of inputs and gates, see `parts.enter`

Everything else is as in `lstm_steps`.

K. Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, as PyTorch's `nn.GRU` has it.
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
    steps, keeps, line = begins.size - 1, room > 0, 3 * width
    x, given, out, states = p.pointer(x), p.pointer(given), p.pointer(out), p.pointer(states)
    before = room * line
    inner = before + held * width
    entering = inner + held * width
    weights = entering + line * deep
    narrow = weights + 2 * width * width
    bias = weights + line * width
    for u in range(lo, hi):
        tile = bias + line + width + u * (512 + ahead * (deep + line))
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
                i += units
            for group in range(width // 16):
                panel, last = weights + group * 32 * width, narrow + group * 16 * width
                shift, bonus = bias + 32 * group, bias + 2 * width + 16 * group
                i, entered, latest = u, added + 32 * group, added + 2 * width + 16 * group
                while i < alive:
                    begin = before + (now + i) * width
                    gap = units * width
                    one = p.Product(tile, 48, begin, gap, 1, panel, 32, width, 0)
                    two = p.Product(tile + 32, 48, begin, gap, 1, last, 16, width, 0)
                    if i + 4 * units < alive:
                        p.multiply(x, one, 32)
                        p.multiply(x, two, 16)
                    else:
                        p.multiply_few(x, one, 32)
                        p.multiply_few(x, two, 16)
                    r = 0
                    while r < 8 and i < alive:
                        q, g, unit = tile + r * 48, (row + i) * line + group * 48, group * 16
                        place = (row + i) * width + unit
                        first = p.load(x, entered, 16, x) + p.load(x, shift, 16, x) + p.load(x, q, 16, x)
                        second = (
                            p.load(x, entered + 16, 16, x) + p.load(x, shift + 16, 16, x) + p.load(x, q + 16, 16, x)
                        )
                        reset, keep = p.sigmoid(first, 16), p.sigmoid(second, 16)
                        inside = p.load(x, q + 32, 16, x) + p.load(x, bonus + width, 16, x)
                        outside = p.load(x, latest, 16, x) + p.load(x, bonus, 16, x)
                        content = p.tanh(outside + reset * inside, 16)
                        former = p.load(x, before + (now + i) * width + unit, 16, x)
                        state = content + keep * (former - content)
                        if keeps:
                            p.store(x, g, reset)
                            p.store(x, g + 16, keep)
                            p.store(x, g + 32, content)
                            p.store(x, inner + place, inside)
                        p.store(out, place, state)
                        if i < others:
                            p.store(x, before + (following + i) * width + unit, state)
                        else:
                            p.store(states, i * width + unit, state)
                        i += units
                        r += 1
                        entered += line
                        latest += line
            added += (alive - u + units - 1) // units * line if u < alive else 0


KERNEL = p.KernelSpec(cpu, takes=(("f4",) * 4, ("f8",) * 4))
