"""A query and a key in CUDA kernels: whether one sees the other, their score, dropout.

As in `device`, what is special to CUDA is put among the globals before a function is compiled, see `gpu`.
"""

from typing import Any

from .attending import draw_weights, first_seen, keeps, last_seen
from .code import Item
from .common import dot
from .names import exp
from .options import plain_on_cuda
from .record import Array


@plain_on_cuda
def sees(reach: Item, prefix: int, p: int, j: int) -> Any:
    """Tell whether the query at position p sees key j."""
    return j < prefix or first_seen(reach, p) <= j <= last_seen(reach, p)


@plain_on_cuda
def tanh_of(x: Array, value: Item) -> Any:
    """The hyperbolic tangent, in the dtype of `x`; of small float32 as of `gates.tanh`, whose digits are for these."""
    one = x.dtype.type(1)
    size = -value if value < 0 else value
    if x.itemsize == 4 and size < x.dtype.type(0.625):
        square = value * value
        above = x.dtype.type(-9.64399179425052238628e-1) * square + x.dtype.type(-9.92877231001918586564e1)
        above = (above * square + x.dtype.type(-1.61468768441708447952e3)) * square * value
        below = (square + x.dtype.type(1.12811678491632931402e2)) * square + x.dtype.type(2.23548839060100448583e3)
        return value + above / (below * square + x.dtype.type(4.84406305325125486048e3))
    power = exp(-size - size)
    ratio = (one - power) / (one + power)
    return -ratio if value < 0 else ratio


@plain_on_cuda
def score_of(query: Any, key: Any, deep: int, terms: Item, head: int, places: tuple[int, int, int]) -> Any:
    """The score of query t, which stands at p, and key j, and its slope beside the scale.

    A query and a key are an array, and where in it they begin.
    """
    (q, own), (k, other), (t, p, j) = query, key, places
    score = dot(q, own, k, other, deep) * terms.factors.numbers[0]
    slope = q.dtype.type(1)
    if terms.changes & 2 != 0:
        cap = terms.factors.numbers[1]
        bent = tanh_of(q, score / cap)
        score = cap * bent
        slope -= bent * bent
    if terms.form == 1:
        score += terms.bias[(head * terms.rows + t) * terms.columns + j]
    elif terms.form == 2:
        score -= terms.bias[head] * q.dtype.type(p - j if p > j else j - p)
    return score, slope


@plain_on_cuda
def scale_of(q: Array, terms: Item, i: int, head: int, t: int, j: int) -> Any:
    """The factor of a weight, for dropout."""
    if terms.drop == 0:
        return q.dtype.type(1)
    kept = keeps(terms, draw_weights(terms, i, head, t, j), j)
    return terms.factors.numbers[2] if kept else q.dtype.type(0)


SHARED = {function.__name__: function for function in (sees, score_of, scale_of)}
