"""Gradients of the gates of one direction of a GRU layer, from those of what it gives.

`x` is what `gru_steps` has left.  `z` is other memory, in which these parts follow each other, with R and W as there:

- slopes ``(R, 4, W)``: the gradients of what the state adds to the content, of r, of z, and of what the input adds to
  the content, which are written; so the first three are those of the state, and the last three those of the input
- weights ``(W / 32, 3 W, 32)``: those of the state, the content first, then r and z
- states ``(n, W)``: the gradients of the state at the end; then those at the beginning
- tiles: 512 numbers a unit

`dy` ``(rows, W)``: the gradient of `out`.  Steps, units and `back` are those of `gru_steps`, but in reverse
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
    before = room * 3 * width
    inner = before + room * width
    weights = room * 4 * width
    states = weights + 3 * width * width
    for u in range(lo, hi):
        tile = states + count * width + u * 512
        for s in range(steps):
            row, alive, _, _, _ = p.step_at(begins, steps, steps - 1 - s, back)
            i = u
            while i < alive:
                for group in range(width // 16):
                    place, g = (row + i) * width + 16 * group, (row + i) * 3 * width + 48 * group
                    to = (row + i) * 4 * width + 16 * group
                    state, one = states + i * width + 16 * group, p.each(x, 1, 16)
                    reset, keep, content = p.load(x, g, 16, x), p.load(x, g + 16, 16, x), p.load(x, g + 32, 16, x)
                    slope = p.load(z, state, 16, x) + p.load(dy, place, 16, x)
                    new = slope * (one - keep) * (one - content * content)
                    of_reset = new * p.load(x, inner + place, 16, x) * reset * (one - reset)
                    of_keep = slope * (p.load(x, before + place, 16, x) - content) * keep * (one - keep)
                    p.store(z, to, new * reset)
                    p.store(z, to + width, of_reset)
                    p.store(z, to + 2 * width, of_keep)
                    p.store(z, to + 3 * width, new)
                    p.store(z, state, slope * keep)
                i += units
            for group in range(width // 32):
                i = u
                while i < alive:
                    begin, panel = (row + i) * 4 * width, weights + group * 96 * width
                    product = p.Product(tile, 32, begin, units * 4 * width, 1, panel, 32, 3 * width, 0)
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
