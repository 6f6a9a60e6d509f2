"""`Packed`: time-major without padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, overload

import numpy as np

from ..arrays import Array, adopt, library_of
from ..errors import EMPTY, KIND, LENGTHS, LIBRARY, ROWS
from ..layout import Layout
from .annotations import Data, Integers, Shaped
from .encoding import Encoding, no_state, open_kind, with_axes
from .padded import check_order, fill_by_steps, order_fields
from .rows import OutputSpec
from .structure import Structure, integers, with_views


@with_views("size_at_t", "lengths", "indices")
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Packed(Encoding[Data]):
    """`Padded` without padding: step after step, each with the sequences that are longer.

    PyTorch's PackedSequence is the same; see `from_torch`.

    Parameters
    ----------
    data : array ``(rows, *item)``
    size_at_t : ``(steps,)`` the sequences longer than t
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

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.convert([np.array([1, 2]), np.array([3, 4, 5])], sf.Packed)
    >>> x.data, x.size_at_t
    (array([3, 1, 4, 2, 5]), array([2, 2, 1]))
    """

    data: Data
    size_at_t: Array
    lengths: Array
    indices: Array

    if TYPE_CHECKING:  # a dataclass makes this of its fields, but takes more than they hold

        @overload  # NumPy's types of arrays tell the number of axes, which conversions change
        def __init__(
            self: Packed[np.ndarray], data: np.ndarray, size_at_t: Integers, lengths: Integers, indices: Integers
        ) -> None: ...
        @overload
        def __init__(self, data: Data, size_at_t: Integers, lengths: Integers, indices: Integers) -> None: ...
        def __init__(self, *args: object, **options: object) -> None: ...

    __setstate__ = no_state
    _by_steps: ClassVar[bool] = True
    _unshaped: ClassVar[Any] = None

    def __post_init__(self) -> None:
        data = with_axes(adopt(self.data)[1], 1, "data", "(rows, *item)")
        structure = check_order(self)
        if structure.rows != data.shape[0]:
            raise ROWS(f"lengths add up to {structure.rows}, but data has {data.shape[0]} rows")
        self._set(data=data, _structure=structure, _shape=data.shape, _dtype=data.dtype, **order_fields(structure))

    @classmethod
    def from_torch(cls, packed: PackedSequence) -> Self:
        """From a ``torch.nn.utils.rnn.PackedSequence``; its data is not copied.

        Parameters
        ----------
        packed : PackedSequence

        Returns
        -------
        Packed

        Raises
        ------
        TypeError
            If an argument is anything else.
        StructureError
            For one whose parts do not fit.
        """
        if not hasattr(packed, "batch_sizes") or not hasattr(packed, "sorted_indices"):
            raise KIND(f"from_torch takes a PackedSequence, not {type(packed).__name__}")
        size_at_t = integers(packed.batch_sizes, "batch_sizes")
        n = int(size_at_t[0]) if size_at_t.size else 0
        if (size_at_t < 0).any() or (np.diff(size_at_t) > 0).any():
            raise LENGTHS(f"batch_sizes must fall and not be negative, but are {size_at_t.tolist()}")
        indices = np.arange(n) if packed.sorted_indices is None else packed.sorted_indices
        lengths = (size_at_t[None, :] > np.arange(n)[:, None]).sum(1) if n * size_at_t.size < 1 << 16 else None
        if lengths is None:  # column j lives as long as there are more than j sequences
            lengths = np.searchsorted(-size_at_t, -np.arange(n), side="left")
        return cls(packed.data, size_at_t, lengths, indices)

    def to_torch(self) -> Any:
        """A ``torch.nn.utils.rnn.PackedSequence`` of the same data, which must be a torch tensor.

        Returns
        -------
        PackedSequence
            No sequence at all is one step without rows.

        Raises
        ------
        TypeError
            Where the data is no tensor.
        StructureError
            For empty sequences.

        Notes
        -----
        Its first batch size is how many sequences there are, so one without items has no place in it, wherever it
        stands: ``x[sf.lengths(x) > 0]`` leaves them out.
        """
        data: Any = self.data
        library = library_of(data)
        if library.name != "torch":
            raise LIBRARY(f"to_torch needs data in torch, but it is an array of {library.name}")
        torch = library.torch  # type: ignore[attr-defined]
        empty = len(self) - int(np.count_nonzero(self._lengths))
        if empty:
            raise EMPTY(
                f"{empty} of {len(self)} sequences are empty, which a PackedSequence cannot hold: its batch sizes "
                "count those that go on; x[sf.lengths(x) > 0] leaves the empty ones out"
            )
        order = torch.from_numpy(self._indices.copy()).to(library.device(data))
        sizes = self._size_at_t[: self.max_length].copy() if len(self) else np.zeros(1, np.int64)
        return torch.nn.utils.rnn.PackedSequence(data, torch.from_numpy(sizes), order)

    def _layout(self) -> Layout:
        return self._structure.packed

    @classmethod
    def _output_spec(cls, structure: Structure) -> OutputSpec:
        return (structure.rows,), structure.packed, None

    @classmethod
    def _freeze(cls, data: Shaped, structure: Structure) -> Self:
        """Make one whose rows are in the order of `structure`, without a check."""
        order = structure.order
        made: Self = fill_by_steps(
            _open(), Packed, data, structure, (order.size_at_t[: structure.longest], order.lengths, order.indices)
        )
        return made

    def _with_data(self, data: Shaped) -> Self:
        order = self._size_at_t, self._lengths, self._indices  # there may be more steps than there are items
        made: Self = fill_by_steps(_open(), Packed, data, self._structure, order)
        return made

    def _choose(self, where: Array) -> Self:
        library, own = self._look(), self._structure
        structure = Structure.of_lengths(own.lengths[where])
        order = structure.order
        sizes = order.size_at_t[: structure.longest]
        step = np.repeat(np.arange(sizes.size), sizes)
        among = np.arange(structure.rows) - order.steps[step]
        place = own.order.steps[step] + own.columns[where[order.indices]][among]
        data: Any = self.data
        return self._freeze(library.take(data, place, 0), structure)


_open = open_kind(Packed)


class PackedSequence(Protocol):
    """Fields that are read of PyTorch's."""

    data: Any
    batch_sizes: Any
    sorted_indices: Any
