"""Encodings as pytrees of JAX."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import import_extra
from ..formats import NATIVE, Chunks, Encoding, List, LoD, Pairs
from ..formats.annotations import Operands
from ..formats.leaves import ShapeDtype
from ..formats.structure import Structure, same_levels
from ..memory_checks import remember

Key = Any  # how JAX names a leaf


class Static:
    """A batch without its arrays: lengths, order, levels, width and side.

    Two of the same are equal, so a function that has been compiled for one serves the other.
    """

    __slots__ = ("__weakref__", "_hash", "like")

    def __init__(self, like: Encoding) -> None:
        self.like = like  # without data
        self._hash: int | None = None

    def _lead(self) -> tuple[int, ...]:
        """The axes of data before those of an item."""
        like = self.like
        return like._shape[: like._lead] if like._in_one_array else (like._structure.n,)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Static) or type(self.like) is not type(other.like):
            return False
        a, b = self.like, other.like
        return (
            hash(self) == hash(other)
            and self._lead() == other._lead()
            and same_levels(a._levels, b._levels)
            and all(map(_same, _others(a), _others(b)))
        )

    def __hash__(self) -> int:
        if self._hash is None:
            levels = tuple(map(_hash_of, self.like._levels))
            self._hash = hash((type(self.like), self._lead(), levels))
        return self._hash

    def __repr__(self) -> str:
        return f"{len(self.like)} sequences, {self.like.rows} rows"


def _hash_of(structure: Structure) -> int:
    """The hash of the lengths, which is kept beside them."""
    found = structure.device.get("hash")
    if found is None:
        found = remember(structure.device, "hash", hash(structure.lengths.tobytes()))
    return int(found)


def _others(like: Operands) -> list[Any]:
    """The fields that lengths do not tell: a side, an order, of chunks where they began."""
    names = [f.name for f in dataclasses.fields(like)]
    return [getattr(like, name) for name in names if name not in ("data", "items", "like", "lengths")]


def _same(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _flat(x: Encoding) -> tuple[tuple[Any, ...], Static]:
    """The arrays of a batch, and all the rest."""
    return tuple(_arrays(x)), Static(_without_arrays(x))


def _arrays(x: Operands) -> Sequence[Any]:
    return (x.data,) if x._in_one_array else x.items


def _flat_with_keys(x: Operands) -> tuple[tuple[tuple[Key, Any], ...], Static]:
    """Flatten a batch, its arrays under the names of their fields."""
    paths = sys.modules["jax"].tree_util
    if not x._in_one_array:
        keys: Iterable[Key] = map(paths.SequenceKey, range(len(x.items)))
    else:
        keys = (paths.GetAttrKey("data"),)
    return tuple(zip(keys, _arrays(x), strict=True)), Static(_without_arrays(x))


def _without_arrays(x: Operands) -> Encoding:
    """The batch over what has only a shape and a dtype."""
    if not x._in_one_array:
        items = tuple([ShapeDtype((length, *x._shape[1:]), x._dtype) for length in x._structure.lengths.tolist()])
        return List._from_items(items, x._structure, items[0] if items else x._sample())
    made: Encoding = x._with_data(ShapeDtype(x._shape, x._dtype))
    return made


def _fill(static: Static, arrays: Sequence[Any]) -> Any:
    """A batch over whatever JAX has put in the place of its arrays; nothing is checked.

    An array that does not fit is found out where the batch is used.
    """
    like: Any = static.like
    if not like._in_one_array:
        made: Any = List._from_items(tuple(arrays), like._structure, like.items[0] if like.items else like._sample())
    else:
        data = arrays[0]
        made = like._with_data(like.data)
        object.__setattr__(made, "data", data)
        if hasattr(data, "shape") and hasattr(data, "dtype"):
            lead = tuple(like._shape[: like._lead])
            if tuple(data.shape[: like._lead]) == lead:
                object.__setattr__(made, "_shape", tuple(data.shape))
            object.__setattr__(made, "_dtype", data.dtype)
    return made


def register() -> None:
    """Tell JAX of the encodings; once is enough."""
    _register()


@functools.cache
def _register() -> None:
    util = import_extra("jax", "jax").tree_util
    for kind in (*NATIVE, LoD, Chunks):
        util.register_pytree_with_keys(kind, _flat_with_keys, _fill, _flat)
    util.register_pytree_with_keys(
        Pairs,
        lambda x: (((util.GetAttrKey("one"), x.one), (util.GetAttrKey("two"), x.two)), None),
        lambda _, parts: _pair(*parts),
        lambda x: ((x.one, x.two), None),
    )


def _pair(one: Encoding, two: Encoding) -> Pairs:
    """Without a look at what the members are."""
    made = object.__new__(Pairs)
    object.__setattr__(made, "one", one)
    object.__setattr__(made, "two", two)
    return made
