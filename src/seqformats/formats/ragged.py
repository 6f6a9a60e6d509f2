"""`Ragged`: all sequences in one array, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array, adopt, has_items
from ..errors import StructureError
from ..layout import Layout
from .encoding import Encoding, cut_range, no_state, opened, picked, with_axes
from .rows import Room, Source, lay_out, make_room
from .structure import Structure, integers


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Ragged(Encoding):
    """All sequences in one array, one after the other.

    Parameters
    ----------
    data : array ``(rows, *item)``
    lengths : n integers, not negative, with the sum `rows`

    Errors: TypeError for wrong types, StructureError for lengths that do not fit.

    ``==`` asks whether both are one object; `seqformats.equal` compares what they hold.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(5), [2, 0, 3])
    >>> x
    Ragged(shape (5,), int64, cpu, 3 sequences of lengths [2, 0, 3])
    >>> x[2].data
    array([2, 3, 4])
    """

    data: Array
    lengths: Array = None  # type: ignore[assignment]

    __setstate__ = no_state
    _flat: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: object = self.data
        nested = isinstance(given, (list, tuple)) and any(map(has_items, given))
        if self.lengths is None or nested:
            raise TypeError(
                "Ragged takes one array of rows, and lengths; a list of arrays or of lists comes in by "
                "sf.convert(x, sf.Ragged)"
            )
        data = with_axes(adopt(self.data)[1], 1, "data", "(rows, *item)")
        structure = Structure.of_lengths(integers(self.lengths, "lengths"), data.shape[0])
        self._set(data=data, lengths=structure.lengths, _structure=structure, _shape=data.shape, _dtype=data.dtype)

    @property
    def offsets(self) -> Array:
        """``(n + 1,)``: sequence i is ``data[offsets[i]:offsets[i + 1]]``."""
        return self._structure.offsets

    @classmethod
    def from_offsets(cls, data: Array, offsets: Any) -> Ragged:
        """From ``offsets (n + 1,)``: 0 first, never falling, `rows` last; StructureError otherwise.

        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged.from_offsets(np.arange(5), [0, 2, 2, 5]).lengths
        array([2, 0, 3])
        """
        data = with_axes(adopt(data)[1], 1, "data", "(rows, *item)")
        structure = Structure.of_offsets(integers(offsets, "offsets"))
        ends_at(structure, data.shape[0], "offsets", "data has {} rows")
        return cls._sealed(data, structure)

    def _layout(self) -> Layout:
        return self._structure.flat

    @classmethod
    def _room(cls, structure: Structure) -> Room:
        return make_room(((structure.rows,), structure.flat, None))

    @classmethod
    def _sealed(cls, data: Array, structure: Structure) -> Ragged:
        x: Any = _open()
        x.data = data
        x.lengths = structure.lengths
        x._structure = structure if structure.stable else structure.in_order()
        x._shape = data.shape
        x._dtype = data.dtype
        x.__class__ = Ragged
        return x  # type: ignore[no-any-return]

    def _with_data(self, data: Array) -> Ragged:
        return self._sealed(data, self._structure)

    def _sliced(self, start: int, stop: int) -> Ragged:
        self._look()
        first, last = self.offsets[start], self.offsets[stop]
        return self._sealed(self.data[first:last], cut_range(self._structure, start, stop))

    def _chosen(self, where: Array) -> Ragged:
        return gathered(self._read(), *picked(self._structure, where))


_open = opened(Ragged)


def gathered(source: Source, chosen: Structure, starts: Array) -> Ragged:
    """Blocks of the lengths of `chosen` that begin at rows `starts`, one after the other."""
    library = source.library
    if library.autograd and library.wants_grad((source.data,)):
        # the framework's own indexing adds up what is chosen twice
        shift = np.repeat(starts - chosen.offsets[:-1], chosen.lengths)
        return Ragged._sealed(library.take(source.data, shift + np.arange(chosen.rows), 0), chosen)
    return lay_out(source.restricted(chosen, starts), Ragged)  # type: ignore[no-any-return]


def ends_at(structure: Structure, end: int, what: str, have: str) -> None:
    """StructureError where offsets do not end with what `have` says."""
    if structure.rows != end:
        raise StructureError(f"{what} must end with {end}, since {have.format(end)}, but end with {structure.rows}")
