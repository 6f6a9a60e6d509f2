"""Types of conversions for type checkers: the options of each target; nothing here is checked at run time."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, SupportsIndex, TypedDict, TypeVar

from ..arrays import DType
from ..formats.annotations import Side


class Common(TypedDict, total=False):
    """Options of every target."""

    copy: bool
    level: SupportsIndex
    dtype: DType
    library: str | None


class Rectangle(Common, total=False):
    """Options of targets with padding."""

    fill: Any
    width: SupportsIndex | None
    multiple_of: SupportsIndex
    truncate: bool


class Sided(Rectangle, total=False):
    """Options of `Masked`."""

    side: Side


class OfColumns(TypedDict, total=False):
    """Options of a tree: a value, or a dict with one for each column."""

    copy: bool
    level: Any
    dtype: Any
    library: Any
    fill: Any
    width: Any
    multiple_of: Any
    truncate: Any
    side: Any


class OtherDataclass(Protocol):
    """A class that a user registered, and not an encoding of this library, in which `__sizeof__` is another.

    So an option that an encoding does not have is not taken for one of a user's own conversion.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __sizeof__(self) -> int:
        """Measure the object, as every object does."""


Registered = TypeVar("Registered", bound=OtherDataclass)
