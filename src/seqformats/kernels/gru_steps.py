"""All steps of one direction of a GRU layer over packed rows, without padding.

`x` is the memory of a layer, in which the parts below follow each other.  W is `width`, the units of the layer up to a
multiple of 32, R is `room`, at least 8 more than there are rows, and n the number of sequences.

- gates ``(R, W / 16, 3, 16)``: what the input adds to them; then the gates r and z, and the new content, 16 units each
- before ``(held, W)``: the state before each step
- inner ``(held, W)``: what it adds to the content, which r weighs
- weights ``(W / 16, W, 32)``: those of the state for r and z of 16 units, then ``(W / 16, W, 16)`` for the content
- bias ``(W,)``: of the inner
- states ``(n, W)``: at the beginning; then those at the end of each sequence
- tiles: 512 numbers a unit

`out`, steps, units and `back` are those of `lstm_steps`.

K. Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, as PyTorch's `nn.GRU` has it.
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
    before = room * 3 * width
    inner = before + held * width
    weights = inner + held * width
    narrow = weights + 2 * width * width
    bias = narrow + width * width
    states = bias + width
    for u in range(lo, hi):
        tile = states + count * width + u * 512
        for s in range(steps):
            row, alive, old, follow, others = step_at(begins, steps, s, back)
            now, ahead = row, follow  # where the states before this step are, and before the next one
            if not keeps:
                now, ahead = (s & 1) * count, (~s & 1) * count
            i = u
            while i < alive:
                if i >= old:  # the sequence begins here
                    copy_numbers(x, states + i * width, x, before + (now + i) * width, width)
                i += units
            for p in range(width // 16):
                panel, last = weights + p * 32 * width, narrow + p * 16 * width
                shift = load(x, bias + 16 * p, 16, x)
                i = u
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
                        q, g, unit = tile + r * 48, (row + i) * 3 * width + p * 48, p * 16
                        place = (row + i) * width + unit
                        reset = sigmoid(load(x, g, 16, x) + load(x, q, 16, x), 16)
                        keep = sigmoid(load(x, g + 16, 16, x) + load(x, q + 16, 16, x), 16)
                        inside = load(x, q + 32, 16, x) + shift
                        content = tanh(load(x, g + 32, 16, x) + reset * inside, 16)
                        former = load(x, before + (now + i) * width + unit, 16, x)
                        state = content + keep * (former - content)
                        if keeps:
                            store(x, g, reset)
                            store(x, g + 16, keep)
                            store(x, g + 32, content)
                            store(x, inner + place, inside)
                        store(out, place, state)
                        place = before + (ahead + i) * width + unit if i < others else states + i * width + unit
                        store(x, place, state)
                        i += units
                        r += 1


KERNEL = KernelSpec(cpu, takes=(("f4",) * 2, ("f8",) * 2))
