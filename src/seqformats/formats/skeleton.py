"""A batch taken apart: its arrays, and all else.

Libraries that map functions over trees take arrays out, put others in, and compare what is left.  What comes back need
not be arrays, and need not fit: it is held all the same, and what reads it finds out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import Shape
from ..errors import COUNTS
from .encoding import Encoding
from .list import matches
from .structure import same_levels


class _Lead:
    """Stands for data of which the first axes are known."""

    __slots__ = ("shape",)

    dtype = None

    def __init__(self, shape: Shape) -> None:
        self.shape = shape


class Skeleton:
    """All of an encoding but its arrays; two are equal where the lengths, and the layout, are the same."""

    __slots__ = ("like",)

    def __init__(self, like: Encoding[Any]) -> None:
        self.like = like

    @classmethod
    def from_encoding(cls, x: Encoding[Any]) -> Skeleton:
        """Take the skeleton of an encoding."""
        if x._in_one_array:
            return cls(x._with_data(_Lead(tuple(x._shape[: x._lead]))))
        lengths = x._structure.lengths.tolist()
        if not lengths:
            return cls(x)
        return cls(x._with_leaves([_Lead((length,)) for length in lengths]))

    def fill(self, leaves: Sequence[Any]) -> Encoding[Any]:
        """The encoding over such leaves.

        Whatever they are they are held; those that do not fit the structure are no data to anything that reads them.
        """
        like = self.like
        whole = like._leaves()
        if len(leaves) != len(whole):
            raise COUNTS(f"{type(like).__name__} has {len(whole)} arrays here, but there are {len(leaves)}")
        if not leaves:
            return like
        if all(_fits(leaf, lead.shape) for leaf, lead in zip(leaves, whole, strict=True)) and all(
            matches(leaf, leaves[0]) for leaf in leaves
        ):
            return like._with_leaves(leaves)
        held = like._with_leaves(whole)
        held._set(**({"data": leaves[0]} if like._in_one_array else {"items": tuple(leaves)}))
        return held

    def dump(self) -> dict[str, Any]:
        """Write it as numbers and text alone."""
        like = self.like
        if not like._in_one_array:
            return {"lengths": like._structure.lengths.tolist()}
        values = dict(zip(_names(like), like._values(), strict=True))
        lead = list(values.pop("data").shape)
        return {"lead": lead} | {name: _plain(value) for name, value in values.items()}

    @classmethod
    def load(cls, kind: type[Encoding[Any]], dumped: Mapping[str, Any]) -> Skeleton:
        """From what `dump` gives, checked by the constructor of the encoding."""
        if not kind._in_one_array:
            maker: Any = kind
            return cls.from_encoding(maker([np.empty((length, 0)) for length in dumped["lengths"]]))
        values = dict(dumped)
        return cls.from_encoding(kind(np.empty((*values.pop("lead"), 0)), **values))  # type: ignore[call-arg]

    def __reduce__(self) -> tuple[Any, ...]:
        return Skeleton.load, (type(self.like), self.dump())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Skeleton):
            return NotImplemented
        a, b = self.like, other.like
        if a is b:
            return True
        if type(a) is not type(b) or not same_levels(a._levels, b._levels):
            return False
        if not a._in_one_array:
            return True
        data: Any = a.data, b.data
        return bool(data[0].shape == data[1].shape) and _same_rest(a, b)

    def __hash__(self) -> int:
        like = self.like
        return hash((type(like), tuple([(level.n, level.rows, level.longest) for level in like._levels])))

    def __repr__(self) -> str:
        return f"{type(self.like).__name__} of {self.like._structure.n} sequences"


def _same_rest(a: Encoding[Any], b: Encoding[Any]) -> bool:
    """Tell whether all fields but data are the same."""
    for one, two in zip(a._values()[1:], b._values()[1:], strict=True):
        if isinstance(one, np.ndarray):
            if one is not two and not np.array_equal(one, two):
                return False
        elif not isinstance(one, tuple) and one != two:  # tuples hold the levels
            return False
    return True


def _names(x: Encoding[Any]) -> list[str]:
    own: Any = x  # a dataclass, as every encoding is
    return [field.name for field in dataclasses.fields(own)]


def _plain(value: object) -> Any:
    """A field as numbers and text in lists."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _fits(leaf: object, lead: Shape) -> bool:
    """Tell whether this is an array with these first axes."""
    shape = getattr(leaf, "shape", None)
    if shape is None or not hasattr(leaf, "dtype"):
        return False
    return len(shape) >= len(lead) and tuple(shape[: len(lead)]) == lead
