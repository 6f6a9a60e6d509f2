"""Gradients of the gates of one direction of an LSTM layer, from those of what it gives.

`x` is what `lstm_steps` has left.  `z` is other memory, in which these parts follow each other, with R and W as there:

- slopes ``(R, 4, W)``: the gradients of the gates before sigmoid and tanh, which are written
- weights ``(W / 32, 4 W, 32)``: those of the state, by the order of the gates
- states ``(2, n, W)``: the gradients of state and cell at the end; then those at the beginning
- tiles: 512 numbers a unit

`dy` ``(rows, W)``: the gradient of `out`.  Steps, units and `back` are those of `lstm_steps`, but in reverse
order.
"""

from . import parts as p
from .parts import Array


@p.compiled
def cpu(x: Array, dy: Array, z: Array, layer: p.LayerSteps, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `count` is the number of sequences."""
    begins, count, room, units, back = layer
    steps = begins.size - 1
    x, dy, z = p.pointer(x), p.pointer(dy), p.pointer(z)
    cells = room * 5 * width
    tops = cells + room * width
    weights = room * 4 * width
    states = weights + 4 * width * width
    for u in range(lo, hi):
        tile = states + 2 * count * width + u * 512
        for s in range(steps):
            row, alive, _, _, _ = p.step_at(begins, steps, steps - 1 - s, back)
            i = u
            while i < alive:
                for group in range(width // 16):
                    place, g = (row + i) * width + 16 * group, (row + i) * 4 * width + 64 * group
                    to = (row + i) * 4 * width + 16 * group
                    state = states + i * width + 16 * group
                    cell = state + count * width
                    one = p.each(x, 1, 16)
                    enter, forget = p.load(x, g, 16, x), p.load(x, g + 16, 16, x)
                    content, give = p.load(x, g + 32, 16, x), p.load(x, g + 48, 16, x)
                    top = p.load(x, tops + place, 16, x)
                    slope = p.load(z, state, 16, x) + p.load(dy, place, 16, x)
                    change = p.load(z, cell, 16, x) + slope * give * (one - top * top)
                    p.store(z, to, change * content * enter * (one - enter))
                    p.store(z, to + width, change * p.load(x, cells + place, 16, x) * forget * (one - forget))
                    p.store(z, to + 2 * width, change * enter * (one - content * content))
                    p.store(z, to + 3 * width, slope * top * give * (one - give))
                    p.store(z, cell, change * forget)
                i += units
            for group in range(width // 32):
                i = u
                while i < alive:
                    begin, panel = (row + i) * 4 * width, weights + group * 128 * width
                    product = p.Product(tile, 32, begin, units * 4 * width, 1, panel, 32, 4 * width, 0)
                    if i + 4 * units < alive:
                        p.multiply(z, product, 32)
                    else:
                        p.multiply_few(z, product, 32)
                    r = 0
                    while r < 8 and i < alive:
                        p.store(z, states + i * width + 32 * group, p.load(z, tile + 32 * r, 32, z))
                        i += units
                        r += 1


KERNEL = p.KernelSpec(cpu, takes=(("f4",) * 3, ("f8",) * 3))
