"""Weights and biases of one direction of a recurrent layer, in the order in which its steps read them.

`w_ih` ``(gates * hidden, deep)`` and `w_hh` ``(gates * hidden, hidden)`` are those of PyTorch's `nn.LSTM`, with 4
gates, or `nn.GRU`, with 3; `b_ih` and `b_hh` ``(gates * hidden,)`` their biases, or none.  W is `width`, the units of
the layer up to a multiple of 32; what belongs to no unit is zero.  A line of gates has 4 W or 3 W numbers: of an LSTM
the 4 gates of 16 units each, one after the other, of a GRU r and z of 16 units each, then the content of all units.

`sizes` are `begin`, `gates`, `hidden` and `deep`.  `x` holds these parts from `begin` on:

- entering ``(line / 32, deep, 32)``: the weights of the input
- weights of the state: of an LSTM ``(line / 32, W, 32)``; of a GRU ``(W / 16, W, 32)`` for r and z, then
  ``(W / 16, W, 16)`` for the content
- bias ``(line,)``: both added up; of a GRU only that of the input for the content
- of a GRU ``(W,)``: that of the state for the content, which r weighs

A unit is 16 units of the layer.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Integers


class Given(NamedTuple):
    """Weights and biases as PyTorch has them."""

    w_ih: Array
    w_hh: Array
    b_ih: Array
    b_hh: Array


@p.shared
def lay(w: Array, row: int, some: int, columns: int, x: Array, to: int, wide: int, depth: int) -> None:
    """Write `some` rows of weights as 16 columns of a panel of `depth` rows, zeros where there is no weight."""
    k = 0
    if some == 16:
        while k + 8 <= columns:
            p.turn(w, row * columns + k, columns, x, to + k * wide, wide)
            p.turn(w, (row + 8) * columns + k, columns, x, to + k * wide + 8, wide)
            k += 8
    while k < depth:
        for r in range(16):
            x[to + k * wide + r] = w[(row + r) * columns + k] if r < some and k < columns else 0
        k += 1


@p.compiled
def cpu(given: Given, x: Array, sizes: Integers, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    biased = given.b_ih.size > 0
    begin, gates, hidden, deep = sizes[0], sizes[1], sizes[2], sizes[3]
    (w_ih, w_hh, b_ih, b_hh), x = p.pointer(given), p.pointer(x)
    line = gates * width
    weights = begin + line * deep
    bias = weights + line * width
    for q in range(lo, hi):
        for g in range(gates):
            row, some = g * hidden + 16 * q, p.at_least(p.at_most(16, hidden - 16 * q), 0)
            column = 64 * q + 16 * g if gates == 4 else 32 * q + 16 * g if g < 2 else 2 * width + 16 * q
            panel, place = column // 32 * 32, column % 32
            lay(w_ih, row, some, deep, x, begin + panel * deep + place, 32, deep)
            if gates == 3 and g == 2:
                lay(w_hh, row, some, hidden, x, weights + column * width, 16, width)
            else:
                lay(w_hh, row, some, hidden, x, weights + panel * width + place, 32, width)
            for r in range(16):
                x[bias + column + r] = b_ih[row + r] if biased and r < some else 0
                last = bias + column + r
                if gates == 3 and g == 2:
                    last = bias + line + 16 * q + r
                    x[last] = 0
                if biased and r < some:
                    x[last] += b_hh[row + r]


KERNEL = p.KernelSpec(cpu, takes=(("f4",) * 5, ("f8",) * 5))
