"""`Pairs`: two batches over the same sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from .. import registry
from ..arrays import Array, DType, adopt, is_array, library_of_type, shape_of
from ..errors import BATCH, COUNTS, KIND
from .annotations import Index, Shaped
from .bare import as_encoding
from .encoding import Encoding, no_state, open_kind
from .index import place, places
from .moving import Movable


@dataclass(frozen=True, eq=False, slots=True)
class Pairs(Movable):
    """Two encodings, or arrays, over the same n sequences; converted member by member.

    Parameters
    ----------
    one, two : encodings, lists of arrays, nested lists or arrays

    Raises
    ------
    TypeError
        If an argument is anything else.
    StructureError
        If their numbers of sequences differ.

    See Also
    --------
    seqformats.equal : compares what two batches hold; ``==`` asks whether both are one object.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Pairs(sf.Ragged(np.arange(3), [1, 2]), sf.Ragged(np.arange(4), [3, 1]))
    >>> sf.convert(x, sf.List).two.items
    (array([0, 1, 2]), array([3]))
    """

    one: Any
    two: Any

    __setstate__ = no_state

    def __post_init__(self) -> None:
        for name in ("one", "two"):
            member = as_encoding(getattr(self, name))
            if is_array(member):
                if not shape_of(member, name):
                    raise KIND(f"{name} must have an axis for the sequences, but is a single number")
                if library_of_type(type(member)) is None:  # as one of a library that is known here
                    member = adopt(member, name)[1]
            elif not is_encoding(member):
                raise BATCH(f"{name} must be an encoding or an array, not {type(member).__name__}")
            object.__setattr__(self, name, member)
        one, two = (count(member) for member in (self.one, self.two))
        if one != two:
            raise COUNTS(f"one has {one} sequences, but two has {two}")

    def __reduce__(self) -> tuple[type[Pairs], tuple[Any, Any]]:
        return type(self), (self.one, self.two)

    def __len__(self) -> int:
        return count(self.one)

    def __iter__(self) -> Iterator[Pairs]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Index) -> Pairs:
        if not isinstance(index, (slice, list)) and not is_array(index):
            i = place(index, len(self))
            index = slice(i, i + 1)
        return Pairs(_members(self.one, index), _members(self.two, index))

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> NoReturn:
        raise BATCH("Pairs are two batches; take x.one or x.two")

    def _look(self) -> None:
        for member in (self.one, self.two):
            if isinstance(member, Encoding):
                member._look()

    def _sample(self) -> Array:
        found = self._leaves() or [m._sample() for m in (self.one, self.two) if isinstance(m, Encoding)]
        sample: Array = found[0]
        return sample

    def _leaves(self) -> list[Any]:
        found: list[Any] = registry.service("leaves").leaves(self)
        return found

    def _with_leaves(self, leaves: Sequence[Shaped]) -> Pairs:
        made: Pairs = registry.service("leaves").rebuild(self, leaves)
        return made

    def _with_data(self, data: Shaped) -> Pairs:
        return self

    @property
    def device(self) -> str:
        """The device of the first member."""
        if is_array(self.one):
            library, array = adopt(self.one)
            return library.device(array)
        return str(getattr(self.one, "device", "cpu"))


_open = open_kind(Pairs)


def pair(one: Encoding, two: Encoding) -> Pairs:
    """Two encodings over the same sequences, without a check."""
    x: Any = _open()
    x.one, x.two = one, two
    x.__class__ = Pairs
    made: Pairs = x
    return made


def is_own(x: object) -> TypeGuard[Encoding]:
    """Tell whether this is an encoding; `isinstance` believes an object whose ``__class__`` says so."""
    return issubclass(type(x), Encoding)


def is_encoding(x: object) -> bool:
    """An encoding of this library or a user's dataclass with a conversion."""
    return issubclass(type(x), (Encoding, Pairs)) or registry.kind_of(x) is not None


def count(x: object) -> int:
    """Count the sequences, of a user's dataclass too."""
    return len(x if isinstance(x, (Encoding, Pairs)) or is_array(x) else registry.service("converters").as_own(x))


def take_rows(x: Array, index: object) -> Array:
    """Rows of a plain array, by any index that an encoding takes."""
    library, array = adopt(x)
    where = places(index, len(array))
    return array[where] if isinstance(where, slice) else library.take(array, where, 0)


def _members(x: object, index: Index) -> Any:
    if is_array(x):
        return take_rows(x, index)
    return x[index] if isinstance(x, (Encoding, Pairs)) else registry.service("select").select(x, index)
