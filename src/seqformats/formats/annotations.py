"""Parts of annotations: arrays and numbers as users have them, and the type of an encoding's data.

Nothing here is checked when a program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias


class Shaped(Protocol):
    """An array of any library, as users have it, or what stands for one; `arrays.Array` has more."""

    @property
    def shape(self) -> Any:
        """A tuple, or what a library has instead."""

    @property
    def dtype(self) -> Any:
        """The dtype in that library."""


# The arrays that hold the items of an encoding: those of PyTorch in ``sf.Ragged[torch.Tensor]``, any in ``sf.Ragged``.
if TYPE_CHECKING:  # a module that every type checker knows, whether it is installed or not
    from typing_extensions import TypeVar

    Data = TypeVar("Data", bound=Shaped, default=Any, covariant=True)
else:  # the standard library has defaults from Python 3.13 on
    from typing import TypeVar

    Data = TypeVar("Data", covariant=True)

Integers: TypeAlias = Sequence[SupportsIndex] | Shaped
"""Whole numbers along one axis: a list, a tuple, an array."""

Index: TypeAlias = SupportsIndex | slice | Sequence[SupportsIndex] | Shaped
"""One sequence, a range, some, or a mask."""

Side: TypeAlias = Literal["right", "left"]
"""Of a sequence, or where its padding is."""

Operands: TypeAlias = Any
"""Operands of an operation, its result, and gradients: an encoding, an array, or a tuple of these."""

Given: TypeAlias = Any
"""Anything that a caller may give, which is still to be read: a batch, a column, a tree, an array, numbers."""
