"""`Encoding.sequences`: every sequence of a batch as an array of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, SupportsIndex, overload

from .. import registry
from ..arrays import Array, Library
from .annotations import Data
from .index import place, places


class Pieces(Protocol):
    """An encoding, as it is asked here."""

    _in_pieces: ClassVar[bool]

    def _look(self) -> Library: ...
    def _piece(self, i: int) -> Array: ...
    def _all_pieces(self) -> Iterable[Array]: ...


class Sequences(Sequence[Data]):
    """The sequences of a batch, in the caller's order: arrays ``(length, *item)``, made when asked for.

    An integer gives one, a slice a tuple; `len` and iteration are those of any sequence of Python.
    """

    __slots__ = ("_n", "_pieces", "_x")

    def __init__(self, x: Pieces, n: int) -> None:
        x._look()
        self._x = x
        self._n = n
        self._pieces: Pieces | None = x if x._in_pieces else None  # the same, with each sequence in one piece

    def _get_pieces(self) -> Any:
        """Give what the arrays are views of, after a look at whether it is still what was validated."""
        if self._pieces is None:
            self._pieces = registry.service("converters").in_pieces(self._x)
        self._pieces._look()
        return self._pieces

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: SupportsIndex) -> Data: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Data, ...]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            where = places(index, self._n)
            some = range(where.start, where.stop) if isinstance(where, slice) else where.tolist()
            piece = self._get_pieces()._piece
            return tuple([piece(i) for i in some])
        i = place(index, self._n)
        return self._get_pieces()._piece(i)

    def __iter__(self) -> Iterator[Data]:
        return iter(self._get_pieces()._all_pieces())

    def __repr__(self) -> str:
        return f"the sequences of {self._x!r}"
