"""`Padded`: a rectangle, time-major."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, overload

import numpy as np

from ..arrays import NUMPY, Array, adopt, freeze
from ..errors import COUNTS
from ..layout import Layout
from ..memory_checks import allocate
from .annotations import Data, Integers, Shaped
from .encoding import Encoding, no_state, open_kind, with_axes
from .rows import OutputSpec
from .structure import Structure, integers, with_views


@with_views("size_at_t", "lengths", "indices")
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Padded(Encoding[Data]):
    """A rectangle, time-major: step t holds the t-th item of every sequence, sequences by falling length.

    Parameters
    ----------
    data : array ``(steps, n, *item)``, ``steps`` at least the longest length
    size_at_t : ``(steps,)`` the sequences longer than t; zeros past the longest
    lengths : ``(n,)`` falling
    indices : ``(n,)`` the caller's position of column j

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    StructureError
        If the fields do not fit each other.

    See Also
    --------
    seqformats.equal : compares what two encodings hold; ``==`` compares item by item.

    Notes
    -----
    ``data[t, :size_at_t[t]]`` are the items of step t without padding.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.convert([np.array([1, 2]), np.array([3, 4, 5])], sf.Padded)
    >>> x.data
    array([[3, 1],
           [4, 2],
           [5, 0]])
    >>> x.size_at_t, x.lengths, x.indices
    (array([2, 2, 1]), array([3, 2]), array([1, 0]))
    """

    data: Data
    size_at_t: Array
    lengths: Array
    indices: Array

    if TYPE_CHECKING:  # a dataclass makes this of its fields, but takes more than they hold

        @overload  # NumPy's types of arrays tell the number of axes, which conversions change
        def __init__(
            self: Padded[np.ndarray], data: np.ndarray, size_at_t: Integers, lengths: Integers, indices: Integers
        ) -> None: ...
        @overload
        def __init__(self, data: Data, size_at_t: Integers, lengths: Integers, indices: Integers) -> None: ...
        def __init__(self, *args: object, **options: object) -> None: ...

    __setstate__ = no_state
    _lead: ClassVar[int] = 2
    _unshaped: ClassVar[Any] = None
    _by_steps: ClassVar[bool] = True
    _gapped: ClassVar[bool] = True
    _in_pieces: ClassVar[bool] = True
    _form_options: ClassVar[tuple[str, ...]] = ("width",)

    def __post_init__(self) -> None:
        data = with_axes(adopt(self.data)[1], 2, "data", "(steps, n, *item)")
        structure = check_order(self)
        steps, n = data.shape[:2]
        if structure.order.size_at_t.size != steps:
            raise COUNTS(
                f"size_at_t must have one number per step, but there are "
                f"{structure.order.size_at_t.size} numbers and data has {steps} steps"
            )
        if structure.n != n:
            raise COUNTS(f"there are {structure.n} lengths, but data has {n} columns, shape {tuple(data.shape)}")
        self._set(data=data, _structure=structure, _shape=data.shape, _dtype=data.dtype, **order_fields(structure))

    def _layout(self) -> Layout:
        return self._structure.by_steps

    def _form(self, longest: int = 0) -> tuple[int]:
        """Give the number of steps."""
        return (max(self._shape[0], longest),)

    @classmethod
    def _output_spec(cls, structure: Structure, steps: int | None = None) -> OutputSpec:
        n, at = structure.n, structure.by_steps
        if steps is None:
            steps = structure.longest
        return (steps, n), at, None if structure.rows == steps * n else (at[2], steps, n, 0)

    @classmethod
    def _freeze(cls, data: Shaped, structure: Structure, steps: int | None = None) -> Self:
        """Make one whose columns are in the order of `structure`, without a check."""
        order, steps = structure.order, data.shape[0]
        size_at_t = order.size_at_t
        if steps != size_at_t.size:
            sizes = allocate(NUMPY.zeros, (steps,), np.int64, order.lengths)
            alive = min(steps, size_at_t.size)
            sizes[:alive] = size_at_t[:alive]
            size_at_t = freeze(sizes)
        made: Self = fill_by_steps(_open(), Padded, data, structure, (size_at_t, order.lengths, order.indices))
        return made

    def _padding(self) -> bool:
        steps, n = self._shape[:2]
        return self._structure.rows < steps * n

    def _with_data(self, data: Shaped) -> Self:
        made: Self = fill_by_steps(
            _open(), Padded, data, self._structure, (self._size_at_t, self._lengths, self._indices)
        )
        return made

    def _piece(self, i: int) -> Array:
        data: Any = self.data
        piece: Array = data[: self._structure.lengths.item(i), self._structure.columns.item(i)]
        return piece

    def _all_pieces(self) -> list[Array]:
        data: Any = self.data
        lengths, columns = self._structure.lengths.tolist(), self._structure.columns.tolist()
        return [data[:length, j] for length, j in zip(lengths, columns, strict=True)]

    def _choose(self, where: Array) -> Self:
        library = self._look()
        structure = Structure.of_lengths(self._structure.lengths[where])
        longest = structure.longest
        given: Any = self.data
        data = library.take(given[:longest], self._structure.columns[where[structure.order.indices]], 1)
        return self._freeze(data, structure, longest)


_open = open_kind(Padded)


class TimeMajor(Protocol):
    """The fields that `Padded` and `Packed` share."""

    _size_at_t: Array  # the sequences longer than t
    _lengths: Array  # falling
    _indices: Array  # the caller's position of each


def check_order(x: TimeMajor) -> Structure:
    """The structure of a time-major encoding under construction, checked."""
    return Structure.of_order(
        integers(x._lengths, "lengths"), integers(x._indices, "indices"), integers(x._size_at_t, "size_at_t")
    )


def order_fields(structure: Structure) -> dict[str, Array]:
    """The fields of a time-major encoding that its structure gives."""
    order = structure.order
    return {"size_at_t": order.size_at_t, "lengths": order.lengths, "indices": order.indices}


def fill_by_steps(x: Any, kind: type, data: Shaped, structure: Structure, order: tuple[Array, Array, Array]) -> Any:
    """Fill the twin `x` of a time-major encoding, see `open_kind`; `order` are the fields of the structure."""
    x.data = data
    x.size_at_t, x.lengths, x.indices = order
    x._structure = structure
    x._shape = data.shape
    x._dtype = data.dtype
    x.__class__ = kind
    return x
