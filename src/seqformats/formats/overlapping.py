"""Windows over the rows of a batch: sequences that share rows, which are written out when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import registry
from ..arrays import Array, freeze, library_of
from ..layout import Layout
from .encoding import Encoding
from .lod import LoD
from .ragged import Ragged
from .rows import Source, lay_out
from .structure import Pieces, Structure


class Overlapping(Ragged[Any]):
    """Sequences that begin anywhere in some rows, as kernels that write one item per sequence read them."""

    __slots__ = ("_at",)

    _at: Layout
    _flat = False
    _can_plan = False

    def _layout(self) -> Layout:
        return self._at


class Windows(LoD[Any]):
    """A `LoD` whose innermost sequences are windows over other rows: `data` is made when it is first asked for.

    Reductions read the rows where they are, see `in_place`.
    """

    __slots__ = ("_source",)

    _can_plan = False
    _source: Overlapping | None

    def __getattr__(self, name: str) -> Any:
        """See `without_lengths` in `formats.encoding`."""
        if name != "data":
            raise AttributeError(f"'LoD' object has no attribute {name!r}", name=name, obj=self)
        assert self._source is not None
        data = separate(self._source).data
        self._set(data=data, _source=None)
        return data

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return LoD._from_levels(self.data, self._levels).__reduce__()

    def __copy__(self) -> Any:
        return LoD._from_levels(self.data, self._levels)

    def __repr__(self) -> str:
        shape: Any = self._shape
        return f"LoD(shape {tuple(shape)}, {self._summary()})"

    def _sample(self) -> Array:
        own: Any = self if self._source is None else self._source
        data: Array = own.data
        return data


def over_rows(x: Encoding, begins: Array, structure: Structure) -> Windows:
    """Windows over the rows of `x`, one per row: each begins at that row, and they are as long as `structure` says."""
    z = x if x._flat else registry.service("converters").convert(x, Ragged)
    source = Overlapping.__new__(Overlapping)
    cum = structure.offsets
    source._set(data=z.data, lengths=structure.lengths, _structure=structure, _shape=z._shape, _dtype=z._dtype)
    source._set(_at=Layout(freeze(begins), cum, cum, -1, 0, 1, 0))
    return _windows(source, (*x._levels, structure))


def _windows(source: Overlapping, levels: tuple[Structure, ...]) -> Windows:
    structure = levels[-1]
    found = Windows.__new__(Windows)
    found._set(
        lod=tuple([level.offsets for level in levels]),
        _levels=levels,
        _structure=structure,
        _shape=(structure.rows, *source._shape[1:]),
        _dtype=source._dtype,
        _source=source,
    )
    return found


def with_levels(x: Encoding, levels: tuple[Structure, ...]) -> LoD[Any]:
    """The rows of a `LoD` under other levels; those of windows stay where they are."""
    source = x._source if type(x) is Windows else None
    return _windows(source, levels) if source is not None else LoD._from_levels(x._sample(), levels)


def in_place(x: object) -> Encoding | None:
    """The rows of windows that nobody has written out, to be read where they are; None for other batches.

    Nor are those of long windows on a GPU, which several blocks share in pieces of rows that lie one after the other.
    """
    source = x._source if type(x) is Windows else None
    if source is None or source._structure.longest <= Pieces.LONG or library_of(source.data).kind(source.data) == "cpu":
        return source
    return None


def separate(x: Encoding) -> Encoding:
    """Write out sequences that share rows, so that each has its own; others as they are."""
    return lay_out(Source(*x._read()), Ragged) if type(x) is Overlapping else x
