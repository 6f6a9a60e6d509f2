"""Lists of torch tensors: read by `functions` in C where there are such, else in plain Python, with equal results."""

import ctypes
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, Library
from ..launch.kernel import kernel
from . import objects
from .functions import IS_NEG, STORAGE, WANTS_GRAD, WORDS, Functions, is_watched
from .objects import TUPLE

_scan_tensors = kernel("scan_tensors")

_readers: dict[Library, tuple[Array, Array] | None] = {}

Found = tuple[Array, Array, Array, int, bool]


def read(library: Library, items: tuple[object, ...]) -> Found | None:
    """Lengths, offsets, addresses, the greatest length, and whether one wants a gradient; else None.

    For plain contiguous tensors of one device, dtype and item shape.
    """
    reader = _reader_of(library)
    return None if reader is None else _read(items, *reader)


def functions_of(library: Library) -> Functions | None:
    """Return the functions that this module has tried, if they are there and agree with Python."""
    torch = sys.modules[library.name]
    return Functions(torch, (torch.zeros(2, 3, device="cpu"),)) if _reader_of(library) else None


def _reader_of(library: Library) -> tuple[Array, Array] | None:
    try:
        return _readers[library]
    except KeyError:
        if hasattr(sys.modules[library.name]._C, "DispatchKey") and is_watched(sys.modules[library.name]):
            return None  # not yet
        _readers[library] = _reader(library)
        return _readers[library]


def _read(items: tuple[object, ...], types: Array, calls: Array) -> Found | None:
    n = len(items)
    table = np.empty(3 * n + 2 + WORDS, np.int64)
    words, wanted, offsets = table[:WORDS], table[WORDS : WORDS + 1], table[WORDS + 1 : WORDS + n + 2]
    lengths, addresses = table[WORDS + n + 2 : -n], table[-n:]
    longest = _scan_tensors.run(
        id(items) + TUPLE, types, calls, words, NUMPY.address(table), lengths, offsets, addresses, wanted
    )
    return None if longest < 0 else (lengths, offsets, addresses, longest, bool(wanted[0]))


# --- the functions in C ----------------------------------------------------------------------------------------------


def _reader(library: Library) -> tuple[Array, Array] | None:
    """The types of plain tensors and the functions for `scan_tensors`, if with these it sees what Python does."""
    if not objects.READABLE:
        return None
    torch = sys.modules[library.name]
    types = np.array([id(torch.Tensor), id(torch.nn.Parameter)], np.int64)
    try:
        with torch.inference_mode(False):
            good, *others = _samples(torch)
            calls = np.array(_calls(torch, good), np.int64)
            right = _read(good, types, calls) is not None
            for items in (good, *others):
                slow, quick = library.scan(items), _read(items, types, calls)
                if quick is not None:
                    right &= slow is not None and [x.tolist() for x in slow] == [quick[0].tolist(), quick[2].tolist()]
                    right &= quick[4] == any(x.requires_grad for x in items)
    except Exception:  # another torch may lack anything that is asked for here
        return None
    return (types, calls) if right else None


def _calls(torch: ModuleType, samples: tuple[Any, ...]) -> list[int]:
    """The addresses that `scan_tensors` takes, and how far behind that of a C++ object its shape is."""
    functions = Functions(torch, samples)
    forget = ctypes.cast(ctypes.pythonapi.PyErr_Clear, ctypes.c_void_p).value or 0
    return [functions.look, forget, *map(functions.address, (*STORAGE, IS_NEG, WANTS_GRAD)), functions.inside]


def _samples(torch: ModuleType) -> Iterator[tuple[Any, ...]]:
    """Lists of tensors of many kinds."""
    block = torch.zeros(168, dtype=torch.float32, device="cpu").view(7, 6, 4)
    lost = block.clone()
    lost.untyped_storage().resize_(0)
    short = block.clone()
    short.untyped_storage().resize_(40)
    wanted = block[:3].clone().requires_grad_()
    yield block, block[1:3], block[5:], block[2:2], block[::3][1:2], wanted, wanted * 2, torch.nn.Parameter(block[:2])
    others: tuple[Any, ...] = (
        block[:, :2],
        block.transpose(1, 2),
        block.transpose(0, 1),
        block[:1].expand(7, 6, 4),
        block.view(7, 3, 8),
        block.view(7, 24),
        block.view(7, 3, 2, 4),
        block.view(7, 1, 1, 1, 6, 4),
        block.double(),
        block.int(),
        block.to("meta"),
        block._neg_view(),
        block.to_sparse(),
        block.to(torch.complex64).conj(),
        lost,
        short,
        block.numpy(),
        1.0,
    )
    for other in others:
        yield block, other
        if type(other) is torch.Tensor and other.layout is torch.strided:
            yield other, other
