"""`List`: one array per sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, overload

import numpy as np

from .. import core
from ..arrays import Array, DType, Library, adopt, library_of
from ..errors import BATCH, CHANGED, DEVICES, KIND, MIXED
from ..layout import Layout
from ..reading import scan
from .annotations import Data, Shaped
from .encoding import Encoding, cut_range, describe, no_state, open_kind, with_axes
from .structure import Structure, same_numbers


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class List(Encoding[Data]):
    """A tuple of arrays, one per sequence.

    Parameters
    ----------
    items : sequence of n arrays ``(length_i, *item)`` of one library, device, dtype and item shape
    like : array ``(anything, *item)``, optional
        It gives dtype, item shape, library and device where there are no items; without it an empty list is float64
        with item shape ().

    Raises
    ------
    TypeError
        If the argument is not an array.
    StructureError
        If the dtypes or item shapes differ.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    seqformats.equal : compares what two encodings hold; ``==`` compares item by item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.List([np.array([1, 2]), np.array([3])])
    List(items of shape (), int64, cpu, 2 sequences of lengths [2, 1])
    """

    items: tuple[Data, ...]
    like: Data | None = None

    if TYPE_CHECKING:  # a dataclass makes this of its fields, but takes more than they hold

        @overload  # NumPy's types of arrays tell the number of axes, which conversions change
        def __init__(self: List[np.ndarray], items: Sequence[np.ndarray], like: np.ndarray | None = None) -> None: ...
        @overload
        def __init__(self, items: Sequence[Data], like: Data | None = None) -> None: ...
        def __init__(self, *args: object, **options: object) -> None: ...

    __setstate__ = no_state
    _in_one_array: ClassVar[bool] = False
    _can_plan: ClassVar[bool] = False
    _in_pieces: ClassVar[bool] = True
    _moved_to: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if core.fill_list(self) is not None:
            return
        given: object = self.items
        if not isinstance(given, (list, tuple)):
            raise KIND(f"items must be a list or tuple of arrays, not {type(given).__name__}")
        like = None if self.like is None else with_axes(adopt(self.like, "like")[1], 1, "like", "(rows, *item)")
        items, lengths = _check_items(given, like)
        first = items[0] if items else np.empty(0) if like is None else like
        self._set(
            items=items,
            like=like,
            _structure=Structure.of_lengths(lengths),
            _shape=(-1, *first.shape[1:]),
            _dtype=first.dtype,
        )

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> NoReturn:
        raise BATCH("a List is several arrays; np.asarray(sf.convert(x, sf.Ragged)) is one")

    def _describe(self) -> str:
        return f"items of shape {self.item_shape}"

    def _sample(self) -> Array:
        items: Any = self.items
        like: Any = self.like
        return items[0] if items else _NO_ITEMS if like is None else like

    def _layout(self) -> Layout:
        """After a look at whether its arrays are still what was validated."""
        cum = self._structure.offsets
        return Layout(self._addresses(self.items, self._structure.lengths), cum, cum, -1, 0, 1, 1)

    def _look(self) -> Library:
        if core.is_unchanged(self) is None:
            self._addresses(self.items, self._structure.lengths)
        return library_of(self._sample())

    def _read(self) -> tuple[Any, ...]:
        sample = self._sample()
        return library_of(sample), self.items, self._layout(), self._structure, sample, self._shape[1:], None

    def _addresses(self, items: tuple[Any, ...], lengths: Array) -> Array:
        """Give the addresses of some of its arrays, after a look at whether they are still what was validated."""
        library = library_of(self._sample())
        scanned = scan(items)
        if scanned is not None and items[0].dtype == self._dtype and items[0].shape[1:] == self._shape[1:]:
            present, addresses = scanned
            if same_numbers(present, lengths):
                return addresses
        for item, length in zip(items, lengths.tolist(), strict=True):
            shape = (length, *self._shape[1:])
            contiguous = library.contiguous(item)
            if tuple(item.shape) != shape or item.dtype != self._dtype or not contiguous:
                raise CHANGED(
                    f"an array was {describe(shape, self._dtype)} when this List was built, "
                    f"but is {describe(item.shape, item.dtype, contiguous)} now; build a new one"
                )
        return library.addresses(items)

    def _leaves(self) -> list[Any]:
        return list(self.items)

    def _with_leaves(self, leaves: Sequence[Shaped]) -> Self:
        return self._from_items(tuple(leaves), self._structure, leaves[0] if leaves else self._sample())

    def _with_data(self, data: Shaped) -> Self:
        """Over the rows of all sequences in one array, of which the items become views."""
        structure = self._structure
        rows: Any = data
        return self._from_items(library_of(rows).split(rows, structure.lengths, structure.offsets), structure, rows)

    def _slice(self, start: int, stop: int) -> Self:
        return self._some(self.items[start:stop], cut_range(self._structure, start, stop))

    def _choose(self, where: Array) -> Self:
        structure = Structure.of_lengths(self._structure.lengths[where])
        return self._some(tuple([self.items[i] for i in where.tolist()]), structure)

    def _some(self, items: tuple[Shaped, ...], structure: Structure) -> Self:
        if items:
            self._addresses(items, structure.lengths)
            return self._from_items(items, structure, items[0])
        like = self._sample()
        return self._from_items((), structure, library_of(like).empty((0, *self.item_shape), self.dtype, like))

    def _piece(self, i: int) -> Array:
        items: Any = self.items
        piece: Array = items[i]
        return piece

    def _all_pieces(self) -> tuple[Any, ...]:
        return self.items

    @classmethod
    def _from_items(cls, items: tuple[Shaped, ...], structure: Structure, like: Shaped) -> Self:
        """A `List` that needs no check; `like` gives dtype and item shape (the shape of its rows)."""
        x: Any = _open()
        x.items = items
        x.like = None if items else like
        x._structure = structure
        x._shape = (-1, *like.shape[1:])
        x._dtype = like.dtype
        x.__class__ = List
        made: Self = x
        return made


_open = open_kind(List)
_NO_ITEMS = np.empty(0)
_NO_ITEMS.flags.writeable = False


def _check_items(items: Sequence[object], like: Array | None) -> tuple[tuple[Array, ...], Array]:
    """The items as C-contiguous arrays of one library, device, dtype and item shape, and their lengths."""
    items = tuple(items)
    scanned = scan(items)
    if scanned is not None and (like is None or matches(items[0], like)):
        plain: Any = items
        return plain, scanned[0]
    out: list[Array] = []
    first, first_library, where = like, None if like is None else library_of(like), "like"
    for i, item in enumerate(items):
        library, array = adopt(item, f"items[{i}]")
        with_axes(array, 1, f"items[{i}]", "(length, *item)")
        if first is None or first_library is None:
            first, first_library, where = array, library, "items[0]"
        elif library is not first_library:
            raise DEVICES(f"items[{i}] is an array of {library.name}, but {where} is one of {first_library.name}")
        elif library.device(array) != library.device(first):
            raise DEVICES(f"items[{i}] is on {library.device(array)}, but {where} on {library.device(first)}")
        if array.dtype != first.dtype:
            raise MIXED(f"items[{i}] has dtype {array.dtype}, but {where} has {first.dtype}")
        if array.shape[1:] != first.shape[1:]:
            raise MIXED(f"items[{i}] has item shape {tuple(array.shape[1:])}, but {where} has {tuple(first.shape[1:])}")
        out.append(array)
    return tuple(out), np.array([array.shape[0] for array in out], np.int64)


def matches(item: Any, like: Any) -> bool:
    """Tell whether two arrays are of one type, dtype and item shape, as the arrays of a list are."""
    return bool(type(item) is type(like) and item.dtype == like.dtype and item.shape[1:] == like.shape[1:])
