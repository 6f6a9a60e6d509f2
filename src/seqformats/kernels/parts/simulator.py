"""Kernels for CUDA in Numba's simulator, which takes them as a GPU does: as words in memory."""

import ctypes
import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...native.signature import FOURS, Signature, Word
from .compiler import gpu
from .gpu import Four, bind
from .record import group, tuples

_Shown: Any = gpu.to_device(np.empty(0)).__class__


def run(
    function: Callable[..., Any],
    signature: Signature,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    words: Sequence[int],
) -> None:
    """Run a kernel on arguments of these types, which lie in these words."""
    left = iter(words)
    args = [_value(word, left) for word in signature]
    assert next(left, None) is None, "more words than arguments"
    _prepare(function)[grid, block](*group(function, args, lambda parts, kind: kind(*parts)))


@functools.cache
def _prepare(function: Callable[..., Any]) -> Any:
    return gpu.jit(bind(function))


def _value(word: Word, left: Iterator[int]) -> Any:
    if isinstance(word, tuple):
        name, *parts = word
        return tuples()[name](*[_value(part, left) for part in parts])
    if word in ("i", "d"):
        number = next(left)
        return number if word == "i" else struct.unpack("d", struct.pack("q", number))[0]
    meminfo, parent, size, itemsize, address, shape, stride = [next(left) for _ in range(7)]
    word, _, bits = word.partition(".")
    fours = word == FOURS
    dtype = np.dtype((np.float32, 4) if fours else word)
    assert (meminfo, parent, shape, stride, itemsize) == (0, 0, size, itemsize, dtype.itemsize), word
    alignment = itemsize if fours else dtype.alignment
    assert address % alignment == 0 or dtype.kind == "c", f"address {address} of an array of {word}"
    kind = Fours if fours else Items if bits else _Shown
    if size == 0:
        return kind(np.empty(0, dtype))
    memory: Any = (ctypes.c_char * (size * itemsize)).from_address(address)
    return kind(np.frombuffer(memory, dtype))


class Items(_Shown):
    """An array of a kernel of the house, in which no place is counted from the end; see `places`."""

    def __getitem__(self, place: Any) -> Any:
        assert isinstance(place, slice) or place >= 0, f"a place of {place}"
        return super().__getitem__(place)

    def __setitem__(self, place: Any, value: Any) -> None:
        assert isinstance(place, slice) or place >= 0, f"a place of {place}"
        super().__setitem__(place, value)


class Fours:
    """An array whose items are four float32 each."""

    itemsize = 16

    def __init__(self, numbers: Any) -> None:
        self.numbers, self.dtype, self.size = numbers, numbers.dtype, len(numbers)

    def __getitem__(self, place: int) -> Any:
        return self.numbers[place].copy().view(Four)

    def __setitem__(self, place: int, value: Any) -> None:
        self.numbers[place] = value
