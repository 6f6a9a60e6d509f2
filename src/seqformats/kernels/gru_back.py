"""Gradients of the gates of one direction of a GRU layer, from those of what it gives.

`x` is what `gru_steps` has left.  `z` is other memory, in which these parts follow each other, with R and W as there:

- slopes ``(R, W / 16, 3, 16)``: the gradients of what the state adds to the gates, which are written
- inputs ``(R, W / 16, 3, 16)``: those of what the input adds, which are written
- weights ``(W / 32, 3 W, 32)``: those of the state, by the order of the gates
- states ``(n, W)``: the gradients of the state at the end; then those at the beginning
- tiles: 512 numbers a unit

`dy` ``(rows, W)``: the gradient of `out`.  Steps, units and `back` are those of `gru_steps`, but in reverse
order.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
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
    x, dy, z = p.pointer(x), p.pointer(dy), p.pointer(z)
    before = room * 3 * width
    inner = before + room * width
    inputs = room * 3 * width
    weights = 2 * inputs
    states = weights + 3 * width * width
    for u in range(lo, hi):
        tile = states + count * width + u * 512
        for s in range(steps):
            row, alive, _, _, _ = p.step_at(begins, steps, steps - 1 - s, back)
            i = u
            while i < alive:
                for group in range(width // 16):
                    place, g = (row + i) * width + 16 * group, (row + i) * 3 * width + 48 * group
                    state, one = states + i * width + 16 * group, p.each(x, 1, 16)
                    reset, keep, content = p.load(x, g, 16, x), p.load(x, g + 16, 16, x), p.load(x, g + 32, 16, x)
                    slope = p.load(z, state, 16, x) + p.load(dy, place, 16, x)
                    new = slope * (one - keep) * (one - content * content)
                    of_reset = new * p.load(x, inner + place, 16, x) * reset * (one - reset)
                    of_keep = slope * (p.load(x, before + place, 16, x) - content) * keep * (one - keep)
                    p.store(z, g, of_reset)
                    p.store(z, g + 16, of_keep)
                    p.store(z, g + 32, new * reset)
                    p.store(z, inputs + g, of_reset)
                    p.store(z, inputs + g + 16, of_keep)
                    p.store(z, inputs + g + 32, new)
                    p.store(z, state, slope * keep)
                i += units
            for group in range(width // 32):
                i = u
                while i < alive:
                    begin, panel = (row + i) * 3 * width, weights + group * 96 * width
                    product = p.Product(tile, 32, begin, units * 3 * width, 1, panel, 32, 3 * width, 0)
                    if i + 4 * units < alive:
                        p.multiply(z, product, 32)
                    else:
                        p.multiply_few(z, product, 32)
                    r = 0
                    while r < 8 and i < alive:
                        place = states + i * width + 32 * group
                        p.store(z, place, p.load(z, place, 32, z) + p.load(z, tile + 32 * r, 32, z))
                        i += units
                        r += 1


KERNEL = p.KernelSpec(cpu, takes=(("f4",) * 3, ("f8",) * 3))
