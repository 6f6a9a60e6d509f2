"""A native encoding in one file: `Strided`, where every sequence has the same capacity in one long array.

It answers the questions of `seqformats.formats.Encoding`, and so every operation knows it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import seqformats as sf
from seqformats.arrays import Array, adopt
from seqformats.converters.layouts import check_at_least, enter
from seqformats.formats import NATIVE
from seqformats.formats.encoding import Encoding, no_state, with_axes
from seqformats.formats.structure import Structure, integers, whole


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Strided(Encoding):
    """Sequence i begins at row ``i * capacity``; the rows from its end to the next one are padding.

    Parameters
    ----------
    data : array ``(n * capacity, *item)``
    lengths : n integers, none above `capacity`
    capacity : int
    """

    data: Array
    lengths: Array
    capacity: int

    __setstate__ = no_state
    _gapped: ClassVar[bool] = True
    _form_options: ClassVar[tuple[str, ...]] = ("capacity",)

    def __post_init__(self):
        data = with_axes(adopt(self.data)[1], 1, "data", "(n * capacity, *item)")
        structure = Structure.of_lengths(integers(self.lengths, "lengths"))
        capacity = whole(self.capacity, "capacity")
        if structure.longest > capacity or data.shape[0] != structure.n * capacity:
            raise sf.StructureError(
                f"{structure.n} sequences of up to {structure.longest} items do not fit a capacity of {capacity} "
                f"and {data.shape[0]} rows"
            )
        self._fill(data, structure, capacity)

    def _fill(self, data, structure, capacity):
        own = {"data": data, "lengths": structure.lengths, "capacity": capacity}
        self._set(**own, _structure=structure, _shape=data.shape, _dtype=data.dtype)
        return self

    def _form(self, longest=0):
        return (max(self.capacity, longest),)

    def _layout(self):
        return self._structure.in_rooms(self.capacity, "right")

    @classmethod
    def _output_spec(cls, structure, capacity=None):
        longest = structure.longest
        capacity = longest if capacity is None else check_at_least(capacity, "capacity", longest)
        gaps = structure.offsets, structure.n, capacity, 0
        return (structure.n * capacity,), structure.in_rooms(capacity, "right"), gaps

    @classmethod
    def _freeze(cls, data, structure, capacity=None):
        capacity = structure.longest if capacity is None else capacity
        return object.__new__(cls)._fill(data, structure.in_order(), capacity)

    def _padding(self):
        return self._structure.rows < self._shape[0]

    def _with_data(self, data):
        return self._freeze(data, self._structure, self.capacity)

    def _choose(self, where):
        library, capacity = self._look(), self.capacity
        rows = (where[:, None] * capacity + np.arange(capacity)).reshape(-1)
        return self._freeze(library.take(self.data, rows, 0), Structure.of_lengths(self.lengths[where]), capacity)


def register():
    """Every other encoding is one move away."""
    enter(Strided, NATIVE)
