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
    before = room * 3 * width
    inner = before + room * width
    inputs = room * 3 * width
    weights = 2 * inputs
    states = weights + 3 * width * width
    for u in range(lo, hi):
        tile = states + count * width + u * 512
        for s in range(steps):
            row, alive, _, _, _ = step_at(begins, steps, steps - 1 - s, back)
            i = u
            while i < alive:
                for p in range(width // 16):
                    place, g = (row + i) * width + 16 * p, (row + i) * 3 * width + 48 * p
                    state, one = states + i * width + 16 * p, each(x, 1, 16)
                    reset, keep, content = load(x, g, 16, x), load(x, g + 16, 16, x), load(x, g + 32, 16, x)
                    slope = load(z, state, 16, x) + load(dy, place, 16, x)
                    new = slope * (one - keep) * (one - content * content)
                    of_reset = new * load(x, inner + place, 16, x) * reset * (one - reset)
                    of_keep = slope * (load(x, before + place, 16, x) - content) * keep * (one - keep)
                    store(z, g, of_reset)
                    store(z, g + 16, of_keep)
                    store(z, g + 32, new * reset)
                    store(z, inputs + g, of_reset)
                    store(z, inputs + g + 16, of_keep)
                    store(z, inputs + g + 32, new)
                    store(z, state, slope * keep)
                i += units
            for p in range(width // 32):
                i = u
                while i < alive:
                    begin, panel = (row + i) * 3 * width, weights + p * 96 * width
                    product = Product(tile, 32, begin, units * 3 * width, 1, panel, 32, 3 * width, 0)
                    if i + 4 * units < alive:
                        multiply(z, product, 32)
                    else:
                        multiply_few(z, product, 32)
                    r = 0
                    while r < 8 and i < alive:
                        place = states + i * width + 32 * p
                        store(z, place, load(z, place, 32, z) + load(z, tile + 32 * r, 32, z))
                        i += units
                        r += 1


KERNEL = KernelSpec(cpu, takes=(("f4",) * 3, ("f8",) * 3))
