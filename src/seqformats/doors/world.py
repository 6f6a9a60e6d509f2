"""What doors have to know of this process: see `native.words`."""

from __future__ import annotations

import ctypes
import functools
import sys
from types import MemberDescriptorType
from typing import Any

import numpy as np

from .. import registry
from ..formats import List, LoD, Masked, Packed, Padded, Pairs, Ragged
from ..formats.structure import Order, Structure
from ..launch.threads import follow
from ..native import objects, words
from ..native.words import COMMON, ENCODINGS, FIELDS, KINDS, WIDE

SHARED = 4 << 20
"""Bytes from which on a kernel has work for several threads: the least `threads_from` of `kernels.parts.record`."""
ANY_SIZE = 1 << 25
"""Bytes above which the general way always goes on: there memory may be recycled, see `arrays.numpy`."""

_SLOTS = {
    words.LENGTHS: "lengths",
    words.OFFSETS: "offsets",
    words.COUNT: "n",
    words.ROWS: "rows",
    words.LONGEST: "longest",
    words.STABLE: "stable",
    words.ORDER: "order",
}
_SLOTS_OF_LISTS = {
    words.LIST_ITEMS: "items",
    words.LIST_LIKE: "like",
    words.LIST_STRUCTURED: "_structure",
    words.LIST_SHAPE: "_shape",
    words.LIST_DTYPE: "_dtype",
}
_SLOTS_OF_PAIRS = {words.PAIR_ONE: "one", words.PAIR_TWO: "two"}


@registry.provides("common_world")
@functools.cache
def common() -> np.ndarray:
    """What all doors have in common; its words may change, but it stays where it is."""
    made = np.zeros(COMMON, np.int64)
    found: dict[int, Any] = {
        words.NONE: None,
        words.TRUE: True,
        words.NDARRAY: np.ndarray,
        words.LIST: list,
        words.TUPLE: tuple,
        words.STRUCTURE: Structure,
        words.LIST_OF: List,
        words.PAIRS_OF: Pairs,
        words.ORDERED: Order,
        words.WHOLE: int,
        words.INT64: np.dtype(np.int64),
        words.BOOL: np.dtype(bool),
        words.LEFT: sys.intern("left"),
        words.RIGHT: sys.intern("right"),
    }
    for word, thing in found.items():
        made[word] = id(thing)
    _kept.extend(found.values())
    made[words.TUPLE_ITEMS] = objects.tuple_items()
    made[words.NEW_ARRAY], made[words.SET_BASE] = _function_of_numpy(94), _function_of_numpy(282)
    for kind, slots in ((Structure, _SLOTS), (List, _SLOTS_OF_LISTS), (Pairs, _SLOTS_OF_PAIRS)):
        for word, name in slots.items():
            made[word] = _slot(kind, name)
    kinds = {kind.__name__: kind for kind in (Ragged, Masked, Padded, Packed)}
    for place, name in enumerate(ENCODINGS):
        begin = KINDS + place * WIDE
        made[begin : begin + WIDE] = _words_of(kinds[name])

    def with_threads(count: int) -> None:
        made[words.MOST_OF_TENSORS] = SHARED - 1
        made[words.MOST] = ANY_SIZE if count == 1 else SHARED - 1

    follow(with_threads)
    return made


_kept: list[object] = []  # whose addresses are in a world


def _words_of(kind: Any) -> np.ndarray:
    """What is known of an encoding."""
    made = np.zeros(WIDE, np.int64)
    slots = [name for base in kind.__mro__ for name in vars(base).get("__slots__", ()) if name != "__weakref__"]
    made[words.TYPE] = id(kind)
    made[words.LEAD], made[words.GAPPED] = kind._lead, kind._gapped
    own = {words.DATA: "data", words.STRUCTURED: "_structure", words.SHAPE: "_shape", words.DTYPE: "_dtype"}
    for word, name in own.items():
        made[word] = _slot(kind, name)
    others = {words.SIDE: "side", words.LENGTHS_OF: "lengths", words.SIZES: "size_at_t", words.INDICES: "indices"}
    for word, name in others.items():
        made[word] = _slot(kind, name) if name in slots else 0
    made[FIELDS] = len(slots)
    made[FIELDS + 1 : FIELDS + 1 + len(slots)] = [_slot(kind, name) for name in slots]
    return made


@registry.provides("words_of_levels")
@functools.cache
def words_of_levels() -> np.ndarray:
    """The same of a `LoD`, and behind it where its levels are."""
    return np.append(_words_of(LoD), _slot(LoD, "_levels"))


def _slot(kind: Any, name: str) -> int:
    """How many bytes behind the address of an object a slot is.

    CPython's member descriptors hold the address of a PyMemberDef: a name, a type, and then this.
    """
    names = f"_{name}", name  # the first one where a field is handed out as a view, see `formats.structure.with_views`
    found = (vars(base).get(one) for base in kind.__mro__ for one in names)
    descriptor = next(slot for slot in found if isinstance(slot, MemberDescriptorType))
    member = ctypes.c_void_p.from_address(id(descriptor) + 40).value or 0
    return ctypes.c_ssize_t.from_address(member + 16).value


def _function_of_numpy(number: int) -> int:
    """The address of a function of NumPy's C interface, by its number there, which never changes."""
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = pointer_of(sys.modules["numpy._core._multiarray_umath"]._ARRAY_API, None)
    return ctypes.c_void_p.from_address(table + 8 * number).value or 0
