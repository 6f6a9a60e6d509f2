"""All steps of one direction of an LSTM layer over packed rows, without padding.

`x` is the memory of a layer, in which the parts below follow each other.  W is `width`, the units of the layer up to a
multiple of 32, R is `room`, at least 8 more than there are rows, and n the number of sequences.

- gates ``(R, W / 16, 4, 16)``: what the input adds to them; then the gates i and f, the new content and the gate o
- before ``(held, W)``: the state before each step
- cells ``(held, W)``: the cell before each step
- tops ``(held, W)``: tanh of the cell behind it
- weights ``(W / 16, 2, W, 32)``: those of the state for 16 units, of i and f, and of the new content and o
- states ``(2, n, W)``: state and cell at the beginning; then those at the end of each sequence
- tiles: 512 numbers a unit

`out` ``(rows, W)``: the state behind each step.  Step t is the rows ``begins[t]`` to ``begins[t + 1]``, one for each of
the first sequences; with `back` they go from the last to the first.  Unit u does the sequences u, u + `units`, ...
`held` is R where the gradient is to be found, of whose rows all is kept; else 2 n and 8 for each unit.
The sums of each row do not depend on other rows.

S. Hochreiter and J. Schmidhuber, Long short-term memory, 1997, with the gates of PyTorch's `nn.LSTM`.
"""

from .parts import (
    Array,
    Integers,
    KernelSpec,
    Product,
    compiled,
    copy_numbers,
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
    out: Array,
    begins: Integers,
    count: int,
    room: int,
    held: int,
    units: int,
    back: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; `count` is the number of sequences."""
    steps, keeps = begins.size - 1, held == room
    x, out = pointer(x), pointer(out)
    before = room * 4 * width
    cells = before + held * width
    tops = cells + held * width
    weights = tops + held * width
    states = weights + 4 * width * width
    for u in range(lo, hi):
        tile = states + 2 * count * width + u * 512
        for s in range(steps):
            row, alive, old, follow, others = step_at(begins, steps, s, back)
            now, ahead = row, follow  # where the states before this step are, and before the next one
            if not keeps:
                now, ahead = (s & 1) * count, (~s & 1) * count
            i = u
            while i < alive:
                if i >= old:  # the sequence begins here
                    copy_numbers(x, states + i * width, x, before + (now + i) * width, width)
                    copy_numbers(x, states + (count + i) * width, x, cells + (now + i) * width, width)
                i += units
            for p in range(width // 16):
                panel = weights + p * 64 * width
                i = u
                while i < alive:
                    begin = before + (now + i) * width
                    gap = units * width
                    one = Product(tile, 64, begin, gap, 1, panel, 32, width, 0)
                    two = Product(tile + 32, 64, begin, gap, 1, panel + 32 * width, 32, width, 0)
                    if i + 4 * units < alive:
                        multiply(x, one, 32)
                        multiply(x, two, 32)
                    else:
                        multiply_few(x, one, 32)
                        multiply_few(x, two, 32)
                    r = 0
                    while r < 8 and i < alive:
                        q, g, unit = tile + r * 64, (row + i) * 4 * width + p * 64, p * 16
                        place = (row + i) * width + unit
                        enter = sigmoid(load(x, g, 16, x) + load(x, q, 16, x), 16)
                        forget = sigmoid(load(x, g + 16, 16, x) + load(x, q + 16, 16, x), 16)
                        content = tanh(load(x, g + 32, 16, x) + load(x, q + 32, 16, x), 16)
                        give = sigmoid(load(x, g + 48, 16, x) + load(x, q + 48, 16, x), 16)
                        cell = forget * load(x, cells + (now + i) * width + unit, 16, x) + enter * content
                        top = tanh(cell, 16)
                        state = give * top
                        if keeps:
                            store(x, g, enter)
                            store(x, g + 16, forget)
                            store(x, g + 32, content)
                            store(x, g + 48, give)
                            store(x, tops + place, top)
                        store(out, place, state)
                        if i < others:
                            place = (ahead + i) * width + unit
                            store(x, before + place, state)
                            store(x, cells + place, cell)
                        else:
                            place = states + i * width + unit
                            store(x, place, state)
                            store(x, place + count * width, cell)
                        i += units
                        r += 1


KERNEL = KernelSpec(cpu, takes=(("f4",) * 2, ("f8",) * 2))
