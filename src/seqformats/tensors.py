"""Lists of torch tensors: read natively where their layout can be found, else in plain Python, with equal results."""

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import registry
from .arrays import Array, Library

# Is this a build whose objects lie where their addresses say, and stay as they are while a kernel reads them?
READABLE = (
    sys.implementation.name == "cpython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
    and struct.calcsize("P") == 8
)

_TUPLE = tuple.__basicsize__
_MOST = 256  # bytes of an object that are searched

_layouts: dict[Library, tuple[Array, Array] | None] = {}
_plain: set[tuple[int, int]] = set()  # key sets, each with a dtype and a device, of tensors that Python has looked at

Found = tuple[Array, Array, Array, int, bool]


def read(library: Library, items: tuple[Any, ...]) -> Found | None:
    """Lengths, offsets, addresses, the greatest length, and whether one may want a gradient; else None.

    For plain contiguous tensors of one device, dtype and item shape.
    """
    try:
        layout = _layouts[library]
    except KeyError:
        layout = _layouts[library] = _layout(library)
    return None if layout is None else _read(library, items, *layout)


def _read(library: Library, items: tuple[Any, ...], types: Array, places: Array) -> Found | None:
    n = len(items)
    table = np.empty(3 * n + 4, np.int64)
    lengths, offsets, addresses, about = table[:n], table[n : 2 * n + 1], table[2 * n + 1 : -3], table[-3:]
    kernel = registry.kernel("scan_tensors", "cpu")
    size = items[0].dtype.itemsize
    longest = kernel(id(items) + _TUPLE, types, places, size, lengths, offsets, addresses, about)
    if longest < 0:
        return None
    keys, kind, notes = about.tolist()
    if (keys, kind) not in _plain:
        if library.scan(items[:1]) is None:
            return None
        _plain.add((keys, kind))
    return lengths, offsets, addresses, longest, bool(notes)


# --- the layout ------------------------------------------------------------------------------------------------------


def _layout(library: Any) -> tuple[Array, Array] | None:
    """The types of plain tensors and the places for `scan_tensors`, if with these it sees what Python does."""
    if not READABLE:
        return None
    torch = library.torch
    types = np.array([id(torch.Tensor), id(torch.nn.Parameter)], np.int64)
    try:
        with torch.inference_mode(False):
            places = np.array(_places(torch), np.int64)
            good, *others = _samples(torch)
            right = _read(library, good, types, places) is not None
            for items in (good, *others):
                slow, quick = library.scan(items), _read(library, items, types, places)
                if quick is not None:
                    right &= slow is not None and [x.tolist() for x in slow] == [quick[0].tolist(), quick[2].tolist()]
    except Exception:  # another build of torch may lack anything that is asked for here
        return None
    return (types, places) if right else None


def _places(torch: Any) -> list[int]:
    """Where each field is in tensors that share hardly a value; ValueError where there is no such place, or several."""

    def zeros(size: int, dtype: Any) -> Any:
        return torch.zeros(size, dtype=dtype, device="cpu")

    memory = torch.from_numpy(np.zeros(9001, np.uint8))  # whose owner does not begin where the numbers do
    known = [
        zeros(3001, torch.float32)[41 : 41 + 7 * 11].view(7, 11),
        zeros(3011, torch.int64)[43 : 43 + 3 * 13 * 19].view(3, 13, 19).transpose(0, 2),
        memory[1232 : 1232 + 8 * 23].view(torch.float64),
        zeros(3019, torch.bool)[53 : 53 + 2 * 3 * 5 * 7 * 9].view(2, 3, 5, 7, 9),
        torch.nn.Parameter(zeros(3023, torch.bfloat16)[59 : 59 + 17 * 29].view(17, 1, 29, 1)),
    ]
    codes = [6, 4, 7, 11, 15]  # of their dtypes
    storages = [x.untyped_storage() for x in known]
    objects = [_bytes_at(id(x), torch.Tensor.__basicsize__) for x in known]
    tensors = [_bytes_at(x._cdata) for x in known]
    memories = [_bytes_at(s._cdata) for s in storages]
    rank = _place(tensors, [_words(x.dim(), *x.shape) for x in known])
    if rank + 48 not in _all_places(tensors, [_words(*x.stride()) for x in known]):
        raise ValueError
    return [
        _place(objects, [_words(x._cdata) for x in known]),
        rank,
        _place(tensors, [_words(s._cdata) for s in storages]),
        _place(tensors, [_words(x.storage_offset()) for x in known]),
        _place(tensors, [_words(torch._C._dispatch_keys(x).raw_repr()) for x in known]),
        _place(tensors, [struct.pack("=Hbb", code, 0, -1) for code in codes], 2),  # and the CPU, of no number
        _place_of_notes(zeros(3, torch.float32)),
        _place(memories, [_words(s.data_ptr()) for s in storages]),
        _place(memories, [_words(s.nbytes()) for s in storages]),
    ]


def _samples(torch: Any) -> Iterator[tuple[Any, ...]]:
    """Lists of tensors of many kinds."""
    block = torch.zeros(168, dtype=torch.float32, device="cpu").view(7, 6, 4)
    lost = block.clone()
    lost.untyped_storage().resize_(0)
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
        block.numpy(),
        1.0,
    )
    for other in others:
        yield block, other
        if type(other) is torch.Tensor and other.layout is torch.strided:
            yield other, other


def _place(blocks: list[bytes], fields: list[bytes], step: int = 8) -> int:
    (at,) = _all_places(blocks, fields, step)
    return at


def _all_places(blocks: list[bytes], fields: list[bytes], step: int = 8) -> list[int]:
    """Where every block has its field."""
    pairs = list(zip(blocks, fields, strict=True))
    return [at for at in range(0, _MOST, step) if all(block.startswith(field, at) for block, field in pairs)]


def _place_of_notes(x: Any) -> int:
    """The one word that is 0 until a gradient is wanted of the tensor."""
    before = _bytes_at(x._cdata)
    after = _bytes_at(x.requires_grad_()._cdata)
    (at,) = [at for at in range(0, len(before), 8) if before[at : at + 8] != after[at : at + 8]]
    if any(before[at : at + 8]):
        raise ValueError
    return at


def _words(*values: int) -> bytes:
    return struct.pack(f"={len(values)}Q", *values)


def _bytes_at(address: int, size: int = _MOST) -> bytes:
    """Up to `size` bytes of this process's memory: the system looks whether they are there, so no guess can crash."""
    write = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(
        ("write", ctypes.CDLL(None))
    )
    come, go = os.pipe()
    try:
        count = write(go, address, size)
        return os.read(come, count) if count > 0 else b""
    finally:
        os.close(come)
        os.close(go)
