"""`Masked`: a rectangle, batch-major."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np

from .. import core
from ..arrays import Array, adopt, is_array, shape_of
from ..errors import ARGUMENT, COUNTS, DTYPE, KIND, LENGTHS, LONG, SHAPE, quote
from ..layout import Layout
from ..lazy_import import import_now
from .annotations import Data, Integers, Shaped, Side
from .encoding import Encoding, cut_range, no_state, open_kind, with_axes, without_lengths
from .rows import OutputSpec, mask_beside
from .structure import Structure, integers, with_views

_SIDES = ("right", "left")


@with_views("lengths")
@dataclass(frozen=True, eq=False, repr=False, slots=True, init=False)
class Masked(Encoding[Data]):
    """A rectangle, batch-major, in the caller's order, with the padding on one side.

    Parameters
    ----------
    data : array ``(n, width, *item)``, ``width`` at least the longest length
    lengths : ``(n,)``
    side : "right" or "left", where the padding is

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    StructureError
        If the fields do not fit each other.

    See Also
    --------
    seqformats.equal : compares what two encodings hold; ``==`` compares item by item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.convert([np.array([1, 2]), np.array([3, 4, 5])], sf.Masked, side="left")
    >>> x.data
    array([[0, 1, 2],
           [3, 4, 5]])
    >>> x.mask
    array([[False,  True,  True],
           [ True,  True,  True]])
    """

    data: Data
    lengths: Array
    side: Side = "right"

    if TYPE_CHECKING:  # fields take more than they hold

        @overload  # NumPy's types of arrays tell the number of axes, which conversions change
        def __init__(self: Masked[np.ndarray], data: np.ndarray, lengths: Integers, side: Side = "right") -> None: ...
        @overload
        def __init__(self, data: Data, lengths: Integers, side: Side = "right") -> None: ...
        def __init__(self, *args: object, **options: object) -> None: ...
    else:

        def __init__(self, data: Data, lengths: Integers = None, side: Side = "right", *, mask: None = None) -> None:
            """Fill the fields as a dataclass does; `mask` is there for the error that it meets."""
            if mask is not None or lengths is None:
                raise KIND("Masked takes lengths, one for each row of data; Masked.from_mask(data, mask) takes a mask")
            set_field = object.__setattr__
            set_field(self, "data", data)
            set_field(self, "lengths", lengths)
            set_field(self, "side", side)
            self.__post_init__()

    __setstate__ = no_state
    _lead: ClassVar[int] = 2
    _unshaped: ClassVar[Any] = property(operator.attrgetter("side"))
    _gapped: ClassVar[bool] = True
    _in_pieces: ClassVar[bool] = True
    _form_options: ClassVar[tuple[str, ...]] = ("width", "side")

    def __post_init__(self) -> None:
        if core.construct(self) is not None:
            return
        data = with_axes(adopt(self.data)[1], 2, "data", "(n, width, *item)")
        _check_side(self.side)
        if is_array(self._lengths) and len(shape := shape_of(self._lengths, "lengths")) == 2:
            raise SHAPE(
                f"lengths must have one axis, but have shape {shape}; a mask is for Masked.from_mask(data, mask)"
            )
        structure = Structure.of_lengths(integers(self._lengths, "lengths"))
        n, width = data.shape[:2]
        if structure.n != n:
            hint = "; time-major data is given as data.swapaxes(0, 1)" if structure.n == width else ""
            raise COUNTS(f"there are {structure.n} lengths, but data has {n} rows, shape {tuple(data.shape)}{hint}")
        if structure.longest > width:
            i = int(structure.lengths.argmax())
            raise LONG(f"lengths[{i}] is {structure.longest}, but data is only {width} wide")
        self._set(data=data, lengths=structure.lengths, _structure=structure, _shape=data.shape, _dtype=data.dtype)

    @property
    def mask(self) -> Array:
        """``(n, width)`` bool, True where there is an item; in data's library, on its device."""
        data: Any = self.data
        return mask_beside(self._look(), data, self._structure, self._shape[1], self.side)

    @classmethod
    def from_mask(cls, data: Shaped, mask: Shaped, *, side: Side | None = None, trusted: bool = False) -> Masked:
        """From a mask instead of lengths.

        Parameters
        ----------
        data : array ``(n, width, *item)``
        mask : array ``(n, width)`` of bool, True where there is an item
            Every row is True first and False after (padding on the right), or every row the other way round.  Integers
            0 and 1 will do, as tokenizers give them.
        side : "right" or "left", optional
            Where the padding is; without it the mask tells, and one without padding has it on the right.
        trusted : bool
            A mask on a GPU stays there, where its ones are counted, and nothing waits for it; this needs `side`.  A
            mask on the host is checked all the same.

        Returns
        -------
        Masked

        Raises
        ------
        TypeError
            For a mask of another dtype.
        StructureError
            For any other mask, and for ``trusted=True`` without `side`.

        Notes
        -----
        Without `trusted`, a mask on a GPU is copied to the host, which waits for everything that runs there.  With it
        nobody looks where in a row the ones are.  What goes on without waiting is what `Ragged.from_offsets` says, but
        for conversions to other encodings, which have to know how many rows there are.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Masked.from_mask(np.array([[7, 8, 0], [9, 0, 0]]), np.array([[1, 1, 0], [1, 0, 0]])).lengths
        array([2, 1])
        """
        batch: Any = with_axes(adopt(data)[1], 2, "data", "(n, width, *item)")
        if side is not None:
            _check_side(side)
        elif trusted:
            raise ARGUMENT('trusted=True needs side=, "right" or "left": where the padding is')
        library, given = adopt(mask, "mask")
        if trusted and library.kind(given) == "cuda":
            if tuple(given.shape) != tuple(batch.shape[:2]):
                raise SHAPE(
                    f"mask has shape {tuple(given.shape)}, but data has {tuple(batch.shape[:2])} rows and columns"
                )
            return cls._freeze(
                batch, import_now(".device_structure", __package__).of_mask(library, given), 0, str(side)
            )
        where = np.array(library.to_numpy(given))  # read once: another thread may change what is checked
        if where.dtype.kind not in "biu":
            raise DTYPE(f"mask must be bool (or 0 and 1), not {where.dtype}")
        if where.shape != tuple(batch.shape[:2]):
            raise SHAPE(f"mask has shape {where.shape}, but data has {tuple(batch.shape[:2])} rows and columns")
        if where.dtype.kind != "b":
            if ((where != 0) & (where != 1)).any():
                raise LENGTHS("mask must hold 0 and 1 only")
            where = where.astype(bool)
        lengths = where.sum(1, dtype=np.int64)
        place = np.arange(where.shape[1])
        sides: tuple[tuple[Side, np.ndarray], ...] = (
            ("right", place < lengths[:, None]),
            ("left", place >= where.shape[1] - lengths[:, None]),
        )
        for one, expected in sides:
            if side in (None, one) and np.array_equal(where, expected):
                return cls(batch, lengths, one)
        if side is not None:
            raise LENGTHS(f'a mask with side="{side}" must have its padding on the {side} in every row')
        i = int((where != (place < lengths[:, None])).any(1).argmax())
        raise LENGTHS(
            f"every row of a mask must be True first and False after, or the other way round; row {i} is "
            f"{where[i].astype(int).tolist()[:20]}"
        )

    def _layout(self) -> Layout:
        return self._structure.in_rooms(self._shape[1], self.side)

    def _form(self, longest: int = 0) -> tuple[int, str]:
        """Give the width, and the side of the padding."""
        return max(self._shape[1], longest), self.side

    @classmethod
    def _output_spec(cls, structure: Structure, width: int | None = None, side: str = "right") -> OutputSpec:
        n = structure.n
        if width is None:
            width = structure.longest
        at = structure.in_rooms(width, side)
        return (n, width), at, None if structure.rows == n * width else (at[1], n, width, at[4])

    @classmethod
    def _freeze(cls, data: Shaped, structure: Structure, width: int = 0, side: str = "right") -> Self:
        x: Any = _open()
        x.data = data
        late = structure.late and structure.serves(data)
        if not late:
            x.lengths = structure.lengths
        x.side = side
        x._structure = structure if structure.stable else structure.in_order()
        x._shape = data.shape
        x._dtype = data.dtype
        x.__class__ = _late if late else Masked
        made: Self = x
        return made

    def _padding(self) -> bool:
        n, width = self._shape[:2]
        return self._structure.late or self._structure.rows < n * width

    def _with_data(self, data: Shaped) -> Self:
        return self._freeze(data, self._structure, 0, self.side)

    def _slice(self, start: int, stop: int) -> Self:
        self._look()
        data: Any = self.data
        return self._freeze(data[start:stop], cut_range(self._structure, start, stop), *self._form())

    def _piece(self, i: int) -> Array:
        data: Any = self.data
        length = self._lengths.item(i)
        piece: Array = data[i, self._shape[1] - length :] if self.side == "left" else data[i, :length]
        return piece

    def _all_pieces(self) -> list[Array]:
        data: Any = self.data
        if self.side == "left":
            return [data[i, begin:] for i, begin in enumerate((self._shape[1] - self._lengths).tolist())]
        return [data[i, :length] for i, length in enumerate(self._lengths.tolist())]

    def _choose(self, where: Array) -> Self:
        given: Any = self.data
        data = self._look().take(given, where, 0)
        return self._freeze(data, Structure.of_lengths(self._lengths[where]), *self._form())


def _check_side(side: object) -> None:
    if not isinstance(side, str):
        raise KIND(f'side must be "right" or "left", not {quote(side)}')
    if side not in _SIDES:
        raise ARGUMENT(f'side must be "right" or "left", not {quote(side)}')


_open, _late = open_kind(Masked), without_lengths(Masked)
