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

from .parts import (
    Array,
    Inputs,
    Integers,
    KernelSpec,
    Product,
    compiled,
    copy_numbers,
    enter,
    load,
    multiply,
    multiply_few,
    pointer,
    sigmoid,
    step_at,
    store,
    tanh,
)


@compiled
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
    x, given, out, states = pointer(x), pointer(given), pointer(out), pointer(states)
    before = room * line
    inner = before + held * width
    entering = inner + held * width
    weights = entering + line * deep
    narrow = weights + 2 * width * width
    bias = weights + line * width
    for u in range(lo, hi):
        tile = bias + line + width + u * (512 + ahead * (deep + line))
        inputs = Inputs(tile + 512, tile + 512 + ahead * deep, entering, deep, line)
        known, added = (
            0,
            inputs.gates,
        )  # up to which step inputs are added up, and those of this one
        for s in range(steps):
            if s == known:
                known, added = enter(given, x, begins, s, back, u, units, inputs), inputs.gates
            row, alive, old, follow, others = step_at(begins, steps, s, back)
            now, following = row, follow  # where the states before this step are, and before the next one
            if not keeps:
                now, following = (s & 1) * count, (~s & 1) * count
            i = u
            while i < alive:
                if i >= old:  # the sequence begins here
                    copy_numbers(states, i * width, x, before + (now + i) * width, width)
                i += units
            for p in range(width // 16):
                panel, last = weights + p * 32 * width, narrow + p * 16 * width
                shift, bonus = bias + 32 * p, bias + 2 * width + 16 * p
                i, entered, latest = u, added + 32 * p, added + 2 * width + 16 * p
                while i < alive:
                    begin = before + (now + i) * width
                    gap = units * width
                    one = Product(tile, 48, begin, gap, 1, panel, 32, width, 0)
                    two = Product(tile + 32, 48, begin, gap, 1, last, 16, width, 0)
                    if i + 4 * units < alive:
                        multiply(x, one, 32)
                        multiply(x, two, 16)
                    else:
                        multiply_few(x, one, 32)
                        multiply_few(x, two, 16)
                    r = 0
                    while r < 8 and i < alive:
                        q, g, unit = tile + r * 48, (row + i) * line + p * 48, p * 16
                        place = (row + i) * width + unit
                        first = load(x, entered, 16, x) + load(x, shift, 16, x) + load(x, q, 16, x)
                        second = load(x, entered + 16, 16, x) + load(x, shift + 16, 16, x) + load(x, q + 16, 16, x)
                        reset, keep = sigmoid(first, 16), sigmoid(second, 16)
                        inside = load(x, q + 32, 16, x) + load(x, bonus + width, 16, x)
                        outside = load(x, latest, 16, x) + load(x, bonus, 16, x)
                        content = tanh(outside + reset * inside, 16)
                        former = load(x, before + (now + i) * width + unit, 16, x)
                        state = content + keep * (former - content)
                        if keeps:
                            store(x, g, reset)
                            store(x, g + 16, keep)
                            store(x, g + 32, content)
                            store(x, inner + place, inside)
                        store(out, place, state)
                        if i < others:
                            store(x, before + (following + i) * width + unit, state)
                        else:
                            store(states, i * width + unit, state)
                        i += units
                        r += 1
                        entered += line
                        latest += line
            added += (alive - u + units - 1) // units * line if u < alive else 0


KERNEL = KernelSpec(cpu, takes=(("f4",) * 4, ("f8",) * 4))
