"""Functions that CUDA kernels of beam search share; as `device`, which has those of all others."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .code import Item
from .options import plain_on_cuda

if TYPE_CHECKING:  # put among the globals before the function is compiled, by `gpu`, which imports this file
    bits_of: Any = None
    exp: Any = None
    float_of: Any = None


@plain_on_cuda
def candidate_key(value: float, token: int) -> Any:
    """A number that is the larger, the better a candidate is: the bits of a float32 in their order, then the token."""
    bits = bits_of(value + np.float32(0))  # -0.0 becomes 0.0, since they are equal
    return (bits if bits >= 0 else bits ^ 0x7FFFFFFF) << 32 | (0xFFFFFFFF - token)


@plain_on_cuda
def value_of_key(key: int) -> Any:
    """The value of a candidate."""
    bits = key >> 32
    return float_of(bits if bits >= 0 else bits ^ 0x7FFFFFFF)


@plain_on_cuda
def token_of_key(key: int) -> int:
    """Its token."""
    return 0xFFFFFFFF - (key & 0xFFFFFFFF)


@plain_on_cuda
def added_group(top: Item, total: Item, group: int) -> Any:
    """The largest score so far, and the sum of exponentials below it, with those of a group; see `group_scores`."""
    high = float_of(group >> 32)
    more = float_of(group & 0xFFFFFFFF)
    if high > top:
        return high, total * exp(top - high) + more
    if high > -math.inf:
        return top, total + more * exp(high - top)
    return top, total + more


KEYS = {function.__name__: function for function in (candidate_key, value_of_key, token_of_key, added_group)}
