"""Names of what `gpu` alone has for kernels for CUDA, which are there without the CUDA package.

A kernel's file imports these, so that it loads no such package, and reads as it runs: before a function is compiled for
a GPU, or runs in the simulator, `gpu.bind` puts what each stands for in its place.
"""

from typing import Any

gpu: Any = None
"""The package itself, `numba.cuda`: places of threads, barriers, memory of a block."""

move_word: Any = None
"""``move_word(out, d, src, s)``: one machine word; where `src` is an integer, `s` is the address of the word."""

load_word: Any = None
"""``load_word(out, src, s)``: the word at place `s` of `src`, or at address `s`."""

store_word: Any = None
"""``store_word(out, d, word)``: write it in one access."""

no_word: Any = None
"""``no_word(out)``: a machine word of zeros."""

natural: Any = None
"""``natural(array)``: the array, whose places are natural numbers, see `places`."""

search: Any = None
"""``search(cum, row)``: the last i with ``cum[i] <= row``."""

bits_of: Any = None
"""``bits_of(value)``: the bits of a float32 as an integer."""

float_of: Any = None
"""``float_of(bits)``: the float32 of these bits."""

wide: Any = None
"""``wide(value)``: float32 as float64, and other numbers as they are."""

zero_in: Any = None
"""``zero_in(out)``: an item of zero, in the dtype of `out`."""

item_in: Any = None
"""``item_in(out, value)``: an item in the dtype of `out`."""

number_in: Any = None
"""``number_in(out, value)``: a number in the dtype of `out`, be it one of four in an item."""

size_of: Any = None
"""``size_of(x)``: the bytes of an item, which the compiler knows."""

better: Any = None
"""``better(best, value, least)``: the larger (less) of two items; NaN is beyond all numbers."""

greater: Any = None
"""``greater(a, b)``: the larger of two items, one instruction; NaN is lost."""

quick_exp: Any = None
"""``quick_exp(value)``: the exponential, of float32 as the GPU has it."""

where_above: Any = None
"""``where_above(a, b, x, y)``: x where a > b, else y."""

is_above: Any = None
"""``is_above(a, b)``: is a > b in any number of an item?"""

exp: Any = None
"""``exp(value)``: the exponential."""

ln: Any = None
"""``ln(value)``: the natural logarithm; of zero -inf."""

sqrt: Any = None
"""``sqrt(value)``: the square root."""

times: Any = None
"""``times(a, b)``: the product of two float64, rounded before anything is added."""
