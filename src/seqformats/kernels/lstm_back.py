"""Gradients of the gates of one direction of an LSTM layer, from those of what it gives.

`x` is what `lstm_steps` has left.  `z` is other memory, in which these parts follow each other, with R and W as there:

- slopes ``(R, W / 16, 4, 16)``: the gradients of the gates before sigmoid and tanh, which are written
- weights ``(W / 32, 4 W, 32)``: those of the state, by the order of the gates
- states ``(2, n, W)``: the gradients of state and cell at the end; then those at the beginning
- tiles: 512 numbers a unit

`dy` ``(rows, W)``: the gradient of `out`.  Steps, units and `back` are those of `lstm_steps`, but in reverse
order.
"""

from .parts import (
    Array,
    Integers,
    KernelSpec,
    Product,
    compiled,
    each,
    load,
    multiply,
    multiply_few,
    pointer,
    step_at,
    store,
)


@compiled
def cpu(
    x: Array,
    dy: Array,
    z: Array,
    begins: Integers,
    count: int,
    room: int,
    units: int,
    back: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; `count` is the number of sequences."""
    steps = begins.size - 1
    x, dy, z = pointer(x), pointer(dy), pointer(z)
    cells = room * 5 * width
    tops = cells + room * width
    weights = room * 4 * width
    states = weights + 4 * width * width
    for u in range(lo, hi):
        tile = states + 2 * count * width + u * 512
        for s in range(steps):
            row, alive, _, _, _ = step_at(begins, steps, steps - 1 - s, back)
            i = u
            while i < alive:
                for p in range(width // 16):
                    place, g = (row + i) * width + 16 * p, (row + i) * 4 * width + 64 * p
                    state = states + i * width + 16 * p
                    cell = state + count * width
                    one = each(x, 1, 16)
                    enter, forget = load(x, g, 16, x), load(x, g + 16, 16, x)
                    content, give = load(x, g + 32, 16, x), load(x, g + 48, 16, x)
                    top = load(x, tops + place, 16, x)
                    slope = load(z, state, 16, x) + load(dy, place, 16, x)
                    change = load(z, cell, 16, x) + slope * give * (one - top * top)
                    store(z, g, change * content * enter * (one - enter))
                    store(z, g + 16, change * load(x, cells + place, 16, x) * forget * (one - forget))
                    store(z, g + 32, change * enter * (one - content * content))
                    store(z, g + 48, slope * top * give * (one - give))
                    store(z, cell, change * forget)
                i += units
            for p in range(width // 32):
                i = u
                while i < alive:
                    begin, panel = (row + i) * 4 * width, weights + p * 128 * width
                    product = Product(tile, 32, begin, units * 4 * width, 1, panel, 32, 4 * width, 0)
                    if i + 4 * units < alive:
                        multiply(z, product, 32)
                    else:
                        multiply_few(z, product, 32)
                    r = 0
                    while r < 8 and i < alive:
                        store(z, states + i * width + 32 * p, load(z, tile + 32 * r, 32, z))
                        i += units
                        r += 1


KERNEL = KernelSpec(cpu, takes=(("f4",) * 3, ("f8",) * 3))
