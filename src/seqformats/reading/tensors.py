"""Lists of torch tensors: read by functions in C where there are such, else in plain Python, with equal results.

A tensor's layout comes from the DLPack exchange API, a table of C functions that torch.Tensor has from PyTorch 2.10 on;
an older torch is read in Python.  It tells nothing of gradients, of a sign that is still to be changed, and of memory
that has been taken away.  For these PyTorch's own functions are asked, by the address of a tensor's C++ object, which
holds the shape that DLPack shows.
"""

import ctypes
import struct
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, Library
from ..launch.kernel import kernel
from . import objects
from .objects import TUPLE

_scan_tensors = kernel("scan_tensors")

_WORDS = 8  # of 8 bytes, that `scan_tensors` writes to
_MOST = 512  # bytes of a C++ object before its shape
_TABLE = b"dlpack_exchange_api"  # the name of the capsule that holds the address of the C functions
_FUNCTIONS = (
    "aoti_torch_get_storage_size",  # of PyTorch's stable C functions, of a tensor: an error code, and what is written
    "aoti_torch_get_storage_offset",
    "_ZN2at6native6is_negERKNS_6TensorE",  # bool at::native::is_neg(at::Tensor const&)
    "_ZNK3c1010TensorImpl13requires_gradEv",  # bool c10::TensorImpl::requires_grad() const
)

_readers: dict[Library, tuple[Array, Array] | None] = {}

Found = tuple[Array, Array, Array, int, bool]


def read(library: Library, items: tuple[object, ...]) -> Found | None:
    """Lengths, offsets, addresses, the greatest length, and whether one wants a gradient; else None.

    For plain contiguous tensors of one device, dtype and item shape.
    """
    try:
        reader = _readers[library]
    except KeyError:
        reader = _readers[library] = _reader(library)
    return None if reader is None else _read(items, *reader)


def _read(items: tuple[object, ...], types: Array, calls: Array) -> Found | None:
    n = len(items)
    table = np.empty(3 * n + 2 + _WORDS, np.int64)
    words, wanted, offsets = table[:_WORDS], table[_WORDS : _WORDS + 1], table[_WORDS + 1 : _WORDS + n + 2]
    lengths, addresses = table[_WORDS + n + 2 : -n], table[-n:]
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
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = pointer_of(torch.Tensor.__dlpack_c_exchange_api__, _TABLE)
    (major,) = struct.unpack("I", ctypes.string_at(table, 4))
    look = ctypes.c_void_p.from_address(table + 40).value  # dltensor_from_py_object_no_sync, which need not be there
    if major != 1 or not look:
        raise ValueError
    fill = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(look)
    words = np.empty(_WORDS, np.int64)
    inside = {fill(x, words.ctypes.data) or int(words[3]) - x._cdata for x in samples}
    inside |= {fill(x, words.ctypes.data) or int(words[3]) - x._cdata for x in _of_all_ranks(samples[0])}
    if len(inside) != 1 or not 0 < min(inside) < _MOST:
        raise ValueError
    loaded = ctypes.CDLL(torch._C.__file__)  # it finds what the libraries hold that this one needs
    functions = (ctypes.pythonapi.PyErr_Clear, *[loaded[name] for name in _FUNCTIONS])
    return [look, *[ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions], *inside]


def _of_all_ranks(block: Any) -> Iterator[Any]:
    """Tensors with 1 to 5 axes."""
    for rank in range(1, 6):
        yield block.reshape(-1, *[1] * (rank - 1))
        yield block.reshape(*[1] * (rank - 1), -1).double()


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
