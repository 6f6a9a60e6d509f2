"""Parts of the annotations of operations; nothing here is checked when a program runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, SupportsFloat, SupportsIndex, TypeAlias, TypeVar

import numpy as np

from ..arrays import Array
from ..formats import Encoding, LoD
from ..formats.annotations import Integers, Shaped


class Dataclass(Protocol):
    """An instance of a dataclass, which may be an encoding that a user has registered."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Batch: TypeAlias = Encoding | Sequence[Any] | Dataclass
"""A batch of any kind: an encoding, a list of arrays, nested lists."""
Nested: TypeAlias = LoD | Sequence[Any]
"""What may have more levels, whose reductions then have those that are left."""
Flat: TypeAlias = Encoding | Dataclass
"""Encodings of one level, whose reductions are arrays; overloads ask for `Nested` before."""
Reduced: TypeAlias = Array | LoD | list[Any]
"""The result of a reduction: an array, or of more levels what is left of them."""

Counts: TypeAlias = SupportsIndex | Integers
"""A whole number for all sequences, or one for each."""
Lengths: TypeAlias = Integers | Batch
"""Lengths, or a batch that has them."""
Weights: TypeAlias = Batch | Shaped
"""A weight for each item, in a batch or in an array."""
Value: TypeAlias = SupportsFloat | complex | np.datetime64 | np.timedelta64
"""A number, or what stands for one."""
Empty: TypeAlias = Value | Literal["raise"]
"""The result for an empty sequence."""

B = TypeVar("B", bound=Batch)
"""A batch, which comes back as it is: the same encoding, or bare lists."""
T = TypeVar("T", bound=Batch | Mapping[Any, Any])
"""The same, or a tree of columns."""
X = TypeVar("X", bound=Batch | Shaped)
"""The same, or an array of rows."""
XT = TypeVar("XT", bound=Batch | Shaped | Mapping[Any, Any])
"""Any of these."""
E = TypeVar("E", bound=Encoding)
"""An encoding, which comes back as it is."""
