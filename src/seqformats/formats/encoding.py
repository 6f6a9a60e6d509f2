"""What all encodings have in common, and the questions that each answers.

Structure (lengths, offsets, indices, sizes) is on the host, int64, read-only and the encoding's own; data stays in the
caller's array library and on its device.  "Sequence i" means the caller's order everywhere; only the fields of `Padded`
and `Packed` are sorted by falling length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, ClassVar, NoReturn

import numpy as np

from ..arrays import NUMPY, Array, Library, Shape, library_of
from ..errors import StructureError
from ..launch.kernel import kernel
from ..layout import Layout
from .index import places
from .rows import Room, Source, make_source
from .structure import Structure

pick_sequences = kernel("pick_sequences")

_SHOWN = 6  # lengths that a repr shows


class Encoding:
    """What all encodings have in common.

    The methods and attributes with one underscore are the questions that the rest of the library asks, so that it
    need not know which encoding it has before it.
    """

    __slots__ = ("__weakref__", "_dtype", "_shape", "_structure")

    _structure: Structure  # of the innermost level
    _shape: Shape  # of data when it was validated: an array can be resized under us
    _dtype: Any

    keeps_levels: ClassVar[bool] = False
    _lead: ClassVar[int] = 1  # axes of data before those of an item
    _flat: ClassVar[bool] = False  # is data all rows, one sequence after the other?
    _by_steps: ClassVar[bool] = False  # do columns, by falling length, hold the sequences?
    _in_one_array: ClassVar[bool] = True
    _moved_to: ClassVar[bool] = True  # can rows be moved to it, by `_room` and `_sealed`?
    _form_options: ClassVar[tuple[str, ...]] = ()  # the options of `convert` that `_form` is made of

    data: Array

    # --- what a user asks ----------------------------------------------------

    @property
    def dtype(self) -> Any:
        """The dtype of the items, in data's library."""
        return self._dtype

    @property
    def item_shape(self) -> Shape:
        """The shape of one item: () for token ids, (width,) for vectors."""
        return tuple(self._shape[self._lead :])

    @property
    def rows(self) -> int:
        """Items in all sequences together, padding not counted."""
        return self._structure.rows

    @property
    def max_length(self) -> int:
        """Items in the longest (innermost) sequence; 0 where there is none."""
        return self._structure.longest

    @property
    def device(self) -> str:
        """Where data lives: "cpu", "cuda:0", ..."""
        data = self._sample()
        return library_of(data).device(data)

    def __len__(self) -> int:
        return self._structure.n

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        where = places(index, len(self))
        return self._sliced(where.start, where.stop) if type(where) is slice else self._chosen(where)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype, copy=copy)

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def __copy__(self) -> Any:
        make, given = self.__reduce__()
        return make(*given)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._about()}, {self._summary()})"

    def _about(self) -> str:
        return f"shape {tuple(self.data.shape)}"

    def _summary(self) -> str:
        return f"{self.dtype}, {self.device}, {len(self)} sequences of lengths {shown(self._structure.lengths)}"

    # --- what the library asks -----------------------------------------------

    @property
    def _levels(self) -> tuple[Structure, ...]:
        """The structures of all levels, outermost first."""
        return (self._structure,)

    def _sample(self) -> Array:
        """An array of data's library, dtype and device."""
        return self.data

    def _form(self, longest: int = 0) -> tuple[Any, ...]:
        """What its layout depends on beside the structure, with room for sequences of `longest`."""
        return ()

    def _layout(self) -> Layout:
        """Where its rows lie in data."""
        raise NotImplementedError

    def _look(self) -> Library:
        """The library of data, after a look at whether that is still what was validated."""
        data = self.data
        if type(data) is np.ndarray:
            library: Library = NUMPY
            contiguous = data.flags.c_contiguous
        else:
            library = library_of(data)
            contiguous = library.contiguous(data)
        if data.shape != self._shape or data.dtype != self._dtype or not contiguous:
            raise StructureError(
                f"data was {about(self._shape, self._dtype)} when this {type(self).__name__} was built, but is "
                f"{about(data.shape, data.dtype, contiguous)} now; build a new one"
            )
        return library

    def _read(self) -> Source:
        """Its rows, to be read, after the same look."""
        data = self.data
        source: Source = make_source(
            (self._look(), data, self._layout(), self._structure, data, self._shape[self._lead :], None)
        )
        return source

    @classmethod
    def _room(cls, structure: Structure, *form: Any) -> Room:
        """What it wants for sequences of this structure."""
        raise NotImplementedError

    @classmethod
    def _sealed(cls, data: Array, structure: Structure, *form: Any) -> Any:
        """The encoding over such data; nothing is checked."""
        raise NotImplementedError

    def _padding(self) -> bool:
        """Is there room in data that no row takes?"""
        return False

    def _leaves(self) -> list[Array]:
        """The arrays that hold its items."""
        return [self.data]

    def _with(self, leaves: list[Array]) -> Any:
        """The same encoding over other leaves with the same leading shapes, without a check."""
        return self._with_data(leaves[0])

    def _with_data(self, data: Array) -> Any:
        """The same encoding over other data with the same leading shape, without a check."""
        raise NotImplementedError

    def _sliced(self, start: int, stop: int) -> Any:
        """A range of its sequences, views where they lie side by side."""
        return self._chosen(np.arange(start, stop))

    def _chosen(self, where: Array) -> Any:
        """Its sequences at the places `where`, in that order."""
        raise NotImplementedError

    def _set(self, **values: Any) -> None:
        """Fill the fields of a frozen dataclass during construction."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def no_state(self: Encoding, state: object) -> NoReturn:  # noqa: ARG001  the signature is pickle's
    """Pickles rebuild through the constructor; one that sets fields behind its back is forged.

    Each encoding names this itself, since a frozen dataclass with slots would get a `__setstate__` that checks nothing.
    """
    raise TypeError(f"a {type(self).__name__} takes no state from a pickle; it is built by its constructor alone")


def shown(lengths: Array) -> str:
    """The first lengths, for one line."""
    return f"[{', '.join(map(str, lengths[:_SHOWN].tolist()))}{', ...' if lengths.size > _SHOWN else ''}]"


def about(shape: Any, dtype: Any, contiguous: bool = True) -> str:
    """An array, for a message."""
    return f"{dtype} of shape {tuple(shape)}{'' if contiguous else ' and not contiguous'}"


def with_axes(array: Array, least: int, what: str, axes: str) -> Array:
    """The array; StructureError where it has fewer axes than `least`."""
    if len(array.shape) < least:
        raise StructureError(f"{what} must have the axes {axes}, but has shape {tuple(array.shape)}")
    return array


def opened(kind: type) -> type:
    """A twin of an encoding to be filled without checks, for results that are valid by construction.

    It has the same slots, but not the setters of a frozen dataclass, which cost more than the allocation; once filled
    it becomes the real thing.
    """
    return type(f"_Open{kind.__name__}", kind.__bases__, {"__slots__": kind.__slots__})  # type: ignore[attr-defined]


def cut_range(structure: Structure, start: int, stop: int) -> Structure:
    """The structure of the sequences `start` to `stop`."""
    lengths = structure.lengths[start:stop]
    offsets = structure.offsets[start : stop + 1]
    return Structure(lengths, offsets - offsets[0], int(lengths.max()) if lengths.size else 0)


def picked(structure: Structure, where: Array) -> tuple[Structure, Array]:
    """The structure of the chosen sequences, and the rows where they begin in the one they are chosen from."""
    k = where.size
    table: Array = np.empty(3 * k + 1, np.int64)
    longest = pick_sequences(where, structure.lengths, structure.offsets, table)
    if longest < 0:
        raise StructureError(f"{k} sequences add up to more rows than int64 can count")
    table.setflags(False)
    return Structure(table[:k], table[k : 2 * k + 1], longest), table[2 * k + 1 :]
