"""`Ragged`: all sequences in one array, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex, overload

import numpy as np

from .. import core
from ..arrays import Array, Library, Shape, adopt, has_items
from ..errors import ARGUMENT, BATCH, COUNTS, LENGTHS, ROWS, quote
from ..launch.kernel import planning
from ..layout import Layout
from ..lazy_import import import_now
from ..memory_checks import check_room
from .annotations import Data, Integers, Shaped
from .call_plans import MOST_PLACES, by_plan_of, get_or_make, is_on_gpu
from .encoding import Encoding, cut_range, no_state, open_kind, pick, with_axes, without_lengths
from .rows import lay_out
from .structure import Structure, integers, whole, with_views

_LOOKED_AT = 100  # elements of a list that are checked, to name the right mistake


@with_views("lengths")
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Ragged(Encoding[Data]):
    """All sequences in one array, one after the other.

    Parameters
    ----------
    data : array ``(rows, *item)``
        The items of all sequences.
    lengths : n integers, not negative
        They add up to `rows`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    StructureError
        If the lengths do not fit the data.

    See Also
    --------
    seqformats.equal : Compares two batches as a whole; ``==`` compares item by item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(5), [2, 0, 3])
    >>> x
    Ragged(shape (5,), int64, cpu, 3 sequences of lengths [2, 0, 3])
    >>> x[2].data
    array([2, 3, 4])
    """

    data: Data
    lengths: Array = None  # type: ignore[assignment]  # so that a list of arrays is told the way in

    if TYPE_CHECKING:  # a dataclass makes this of its fields, but takes more than they hold

        @overload  # NumPy's types of arrays tell the number of axes, which conversions change
        def __init__(self: Ragged[np.ndarray], data: np.ndarray, lengths: Integers) -> None: ...
        @overload
        def __init__(self, data: Data, lengths: Integers) -> None: ...
        def __init__(self, *args: object, **options: object) -> None: ...

    __setstate__ = no_state
    _flat: ClassVar[bool] = True
    _unshaped: ClassVar[Any] = None
    _in_pieces: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if core.construct(self) is not None:
            return
        given: object = self.data
        nested = isinstance(given, (list, tuple)) and any(map(has_items, given[:_LOOKED_AT]))
        if self._lengths is None or nested:
            raise BATCH(
                "Ragged takes one array of rows, and lengths; a list of arrays or of lists comes in by "
                "sf.convert(x, sf.Ragged)"
            )
        data = with_axes(adopt(self.data)[1], 1, "data", "(rows, *item)")
        structure = Structure.of_lengths(integers(self._lengths, "lengths"), data.shape[0])
        self._set(data=data, lengths=structure.lengths, _structure=structure, _shape=data.shape, _dtype=data.dtype)

    @property
    def offsets(self) -> Array:
        """``(n + 1,)``: sequence i is ``data[offsets[i]:offsets[i + 1]]``."""
        view: Array = self._structure.offsets[...]  # its attributes are the caller's, the memory is not
        return view

    @classmethod
    def from_offsets(
        cls, data: Shaped, offsets: Integers, *, longest: SupportsIndex | None = None, trusted: bool = False
    ) -> Ragged:
        """Make a `Ragged` from offsets instead of lengths.

        Parameters
        ----------
        data : array ``(rows, *item)``
        offsets : ``(n + 1,)`` integers: 0 first, never falling, `rows` last
        longest : int, optional
            The length of the longest sequence, or a larger number.
        trusted : bool
            True to leave offsets on a GPU there, without waiting for them and without a check; this needs `longest`.
            Offsets on the host are checked all the same.

        Returns
        -------
        Ragged

        Raises
        ------
        StructureError
            If the offsets do not fit the data, or a sequence is longer than `longest`; for ``trusted=True`` without
            `longest`.

        Notes
        -----
        Without `trusted`, offsets on a GPU are copied to the host, which waits for everything that runs there.  With
        it nothing is checked: **kernels read and write where the offsets say**, so wrong ones destroy memory or end the
        process.  Offsets of int64 are not copied, and must not change while the batch, or a graph, may read them.

        These need only `longest`, and do not wait: conversions to `Masked` (`longest` wide if no width is given),
        reductions, `softmax`, `expand`, `mask`, and their gradients, on sequences of up to 8,192 rows.  Everything else
        (``x.lengths``, `repr`, the order that `Padded` and `Packed` need, ``x[i]``) copies the offsets to the host when
        it first needs them, and checks them then.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged.from_offsets(np.arange(5), [0, 2, 2, 5]).lengths
        array([2, 0, 3])
        """
        return cls._from_offsets(data, offsets, "data", "offsets", longest, trusted)

    @classmethod
    def from_row_splits(cls, values: Shaped, row_splits: Integers) -> Ragged:
        """Make a `Ragged` from offsets, under TensorFlow's name; see `from_offsets`.

        Parameters
        ----------
        values : array ``(rows, *item)``
        row_splits : ``(n + 1,)`` integers: 0 first, never falling, `rows` last

        Returns
        -------
        Ragged

        Raises
        ------
        StructureError
            If the splits do not fit the values.

        See Also
        --------
        LoD : For several ragged axes: ``LoD(flat_values, nested_row_splits)``.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged.from_row_splits(np.arange(5), [0, 2, 2, 5]).lengths
        array([2, 0, 3])
        """
        return cls._from_offsets(values, row_splits, "values", "row_splits")

    @classmethod
    def from_row_lengths(
        cls, values: Shaped, row_lengths: Integers, *, longest: SupportsIndex | None = None, trusted: bool = False
    ) -> Ragged:
        """Make ``Ragged(values, row_lengths)``, under TensorFlow's name.

        Parameters
        ----------
        values : array ``(rows, *item)``
        row_lengths : n integers, not negative, that add up to `rows`
        longest : int, optional
            As for `from_offsets`.
        trusted : bool
            As for `from_offsets`: lengths on a GPU stay there, and are added up there.

        Returns
        -------
        Ragged

        Raises
        ------
        StructureError
            If the lengths do not fit the data.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged.from_row_lengths(np.arange(5), [2, 0, 3]).offsets
        array([0, 2, 2, 5])
        """
        array = with_axes(adopt(values, "values")[1], 1, "values", "(rows, *item)")
        return cls._freeze(
            array, structure_within(row_lengths, "row_lengths", array.shape[0], longest, trusted, cumulated=False)
        )

    @classmethod
    def from_value_rowids(cls, values: Shaped, value_rowids: Integers, nrows: int | None = None) -> Ragged:
        """Make a `Ragged` from the sequence number of each item, as TensorFlow does; the inverse of `segment_ids`.

        Parameters
        ----------
        values : array ``(rows, *item)``
        value_rowids : `rows` integers, not negative, never falling
        nrows : int, optional
            The number of sequences; the last ones may be empty.  By default the last item is in the last sequence.

        Returns
        -------
        Ragged

        Raises
        ------
        StructureError
            If the numbers fall, are negative, or are not one for each row.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged.from_value_rowids(np.arange(5), [0, 0, 2, 2, 2], nrows=4).lengths
        array([2, 0, 3, 0])
        """
        array = with_axes(adopt(values, "values")[1], 1, "values", "(rows, *item)")
        numbers = integers(value_rowids, "value_rowids")
        if numbers.size != array.shape[0]:
            raise COUNTS(f"value_rowids are {numbers.size}, but values has {array.shape[0]} rows")
        falls = numbers[1:] < numbers[:-1]
        if falls.any():
            i = int(falls.argmax()) + 1
            raise LENGTHS(f"value_rowids must never fall, but value_rowids[{i}] is {numbers[i]} after {numbers[i - 1]}")
        if numbers.size and numbers[0] < 0:
            raise LENGTHS(f"value_rowids must not be negative, but value_rowids[0] is {numbers[0]}")
        least = int(numbers[-1]) + 1 if numbers.size else 0
        n = least if nrows is None else whole(nrows, "nrows")
        if n < least or n < 0:
            raise ARGUMENT(f"nrows must be at least {least}, not {quote(nrows)}")
        check_room(n, 32, "sequences")
        return cls._freeze(array, Structure.of_lengths(np.bincount(numbers, minlength=n)))

    @classmethod
    def _from_offsets(
        cls,
        data: Shaped,
        offsets: Integers,
        rows: str,
        what: str,
        longest: SupportsIndex | None = None,
        trusted: bool = False,
    ) -> Ragged:
        """Check data and offsets, whose names in messages are `rows` and `what`."""
        array = with_axes(adopt(data, rows)[1], 1, rows, "(rows, *item)")
        structure = structure_within(offsets, what, array.shape[0], longest, trusted, cumulated=True)
        ends_at(structure, array.shape[0], what, f"{rows} has {{}} rows")
        return cls._freeze(array, structure)

    @classmethod
    def _freeze(cls, data: Shaped, structure: Structure) -> Self:
        x: Any = _open()
        x.data = data
        late = structure.late and structure.serves(data)
        if not late:
            x.lengths = structure.lengths
        x._structure = structure if structure.stable else structure.in_order()
        x._shape = data.shape
        x._dtype = data.dtype
        x.__class__ = _late if late else Ragged
        made: Self = x
        return made

    def _with_data(self, data: Shaped) -> Self:
        return self._freeze(data, self._structure)

    def _slice(self, start: int, stop: int) -> Self:
        self._look()
        data: Any = self.data
        offsets = self._structure.offsets
        first, last = offsets[start], offsets[stop]
        return self._freeze(data[first:last], cut_range(self._structure, start, stop))

    def _choose(self, where: Array) -> Self:
        data: Any = self.data
        x: Any = gather_rows(self._look(), data, self._shape[1:], *pick_structure(self, where))
        made: Self = x
        return made


_open, _late = open_kind(Ragged), without_lengths(Ragged)


def structure_within(
    values: Integers, what: str, rows: int, longest: SupportsIndex | None, trusted: bool, cumulated: bool
) -> Structure:
    """Make a structure of offsets (`cumulated`) or of lengths; with `longest` or `trusted` see `late`."""
    if longest is not None or trusted:
        found: Structure = import_now(".device_structure", __package__).structure_within(
            values, what, rows, longest, trusted, cumulated
        )
        return found
    numbers = integers(values, what)
    return Structure.of_offsets(numbers, what) if cumulated else Structure.of_lengths(numbers, rows, what)


def gather_rows(library: Library, data: Array, item: Shape, chosen: Structure, starts: Array) -> Ragged:
    """Copy sequences of `data` into a new `Ragged`: they begin at the rows `starts`, and are as long as in `chosen`."""
    if library.autograd and library.wants_grad((data,)):
        # the framework's own indexing adds up what is chosen twice
        shift = np.repeat(starts - chosen.offsets[:-1], chosen.lengths)
        return Ragged._freeze(library.take(data, shift + np.arange(chosen.rows), 0), chosen)
    cum = chosen.offsets
    source = library, data, Layout(starts, cum, cum, -1, 0, 1, 0), chosen, data, item, None
    if planning and starts.size <= MOST_PLACES and library.kind(data) == "cuda":
        key = starts.tobytes(), data.shape, data.dtype, data.__class__
        return Ragged._freeze(by_plan_of(chosen, (data,), key, lambda: lay_out(source, Ragged).data), chosen)
    return lay_out(source, Ragged)


def pick_structure(x: Any, where: Array) -> tuple[Structure, Array]:
    """Return the structure of the sequences at `where`, and the row where each begins; kept for calls on a GPU."""
    structure = x._structure
    if planning and where.size <= MOST_PLACES and is_on_gpu(x):
        found: tuple[Structure, Array] = get_or_make(structure, where.tobytes(), lambda: pick(structure, where))
        return found
    return pick(structure, where)


def ends_at(structure: Structure, end: int, what: str, have: str) -> None:
    """Raise StructureError if the offsets do not end with `end`; `have` explains that number in the message."""
    if structure.rows != end:
        raise ROWS(f"{what} must end with {end}, since {have.format(end)}, but end with {structure.rows}")
