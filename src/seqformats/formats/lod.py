"""`LoD`: sequences of sequences, to any depth."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np

from .. import registry
from ..arrays import Array, DType, adopt, freeze, is_array
from ..errors import ARGUMENT, BEYOND, EMPTY, KIND, LEVEL, LEVELS, StructureError, quote
from ..memory_checks import OBJECT, check_room
from ..reading import WIDE, write_numbers
from .annotations import Data, Integers, Shaped
from .encoding import Encoding, abridge, cut_range, no_state, open_kind, pick, with_axes
from .ragged import ends_at, gather_rows
from .structure import MAX_INT64, Structure, integers, whole, with_views


class _Deep(Encoding[Data]):
    """A slot more: what is beside the fields of a dataclass has its place in a class below it."""

    __slots__ = ("_levels",)

    _levels: tuple[Structure, ...]
    _lod: tuple[Array, ...]  # the field itself, see `with_views`


@with_views("lod")
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class LoD(_Deep[Data]):
    """Nested sequences, to any depth: offsets for every level, as Paddle's LoD (level of detail) has them.

    Parameters
    ----------
    data : array ``(rows, *item)``
    lod : offset arrays, outermost level first, at least one
        A level's offsets index the sequences of the next level, the innermost level's index rows; each begins with 0
        and never falls.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    StructureError
        If the levels do not fit each other or the rows.

    See Also
    --------
    seqformats.equal : compares what two encodings hold; ``==`` compares item by item.

    Notes
    -----
    `len` and indexing are about the outermost sequences.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.arange(7), [[0, 2, 3], [0, 2, 4, 7]])
    >>> x
    LoD(shape (7,), int64, cpu, 2 levels, 2 sequences of lengths [2, 1])
    >>> x.to_nested()
    [[[0, 1], [2, 3]], [[4, 5, 6]]]
    """

    data: Data
    lod: tuple[Array, ...]

    if TYPE_CHECKING:  # a dataclass makes this of its fields, but takes more than they hold

        @overload  # NumPy's types of arrays tell the number of axes, which conversions change
        def __init__(self: LoD[np.ndarray], data: np.ndarray, lod: Sequence[Integers] | Shaped) -> None: ...
        @overload
        def __init__(self, data: Data, lod: Sequence[Integers] | Shaped) -> None: ...
        def __init__(self, *args: object, **options: object) -> None: ...

    keeps_levels: ClassVar[bool] = True
    __setstate__ = no_state
    _flat: ClassVar[bool] = True
    _unshaped: ClassVar[Any] = None
    _in_pieces: ClassVar[bool] = True

    def __post_init__(self) -> None:
        data = with_axes(adopt(self.data)[1], 1, "data", "(rows, *item)")
        levels = _checked_levels(self._lod, data.shape[0])
        self._set(
            data=data,
            lod=tuple([level.offsets for level in levels]),
            _levels=levels,
            _structure=levels[-1],
            _shape=data.shape,
            _dtype=data.dtype,
        )

    def __len__(self) -> int:
        return self._levels[0].n

    def _summary(self) -> str:
        count = len(self._levels)
        return (
            f"{self.dtype}, {self.device}, {count} level{'s' * (count > 1)}, "
            f"{len(self)} sequences of lengths {abridge(self._levels[0].lengths)}"
        )

    @classmethod
    def from_lengths(cls, data: Shaped, lengths: Sequence[Integers] | Shaped) -> LoD:
        """From the lengths of every level, outermost first.

        Parameters
        ----------
        data : array ``(rows, *item)``
        lengths : integers of every level, outermost first (Paddle's recursive_sequence_lengths)

        Returns
        -------
        LoD

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        StructureError
            If the levels do not fit each other or the rows.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD.from_lengths(np.arange(7), [[2, 1], [2, 2, 3]]).lod
        (array([0, 2, 3]), array([0, 2, 4, 7]))
        """
        rows = with_axes(adopt(data)[1], 1, "data", "(rows, *item)")
        numbers = _level_arrays(lengths, "lengths")
        levels = tuple([Structure.of_lengths(level, None, f"lengths[{k}]") for k, level in enumerate(numbers)])
        _check_levels(levels, rows.shape[0], "lengths")
        return cls._from_levels(rows, levels)

    @classmethod
    def from_nested(cls, lists: Sequence[Any], dtype: DType = None, levels: int | None = None) -> LoD:
        """From nested lists: every list is a level, numbers are leaves, an array is an innermost sequence.

        Parameters
        ----------
        lists : nested lists or tuples
        dtype : of the leaves; NumPy's choice without it
        levels : int, optional
            How many lists deep the levels go, where the lists themselves cannot tell (only empty ones), or where the
            lists further in are items of one shape.

        Returns
        -------
        LoD

        Raises
        ------
        StructureError
            If leaves are at different depths.
        TypeError
            If leaves are not numbers.

        Examples
        --------
        >>> import seqformats as sf
        >>> sf.LoD.from_nested([[[1, 2], [3]], [], [[4]]]).lod
        (array([0, 2, 2, 3]), array([0, 2, 3, 4]))
        """
        x: LoD = registry.service("converters").from_nested(lists, dtype, levels)
        return x

    @classmethod
    def from_absolute(cls, data: Shaped, lod: Sequence[Integers] | Shaped, empties: str = "raise") -> LoD:
        """From absolute offsets, where every level indexes rows.

        Parameters
        ----------
        data : array ``(rows, *item)``
        lod : offset arrays, outermost first
        empties : "raise", "left" or "right"
            Absolute offsets cannot tell to which outer sequence an empty sequence at a boundary belongs: raise a
            StructureError then, or count it to the outer sequence on its left or right.

        Returns
        -------
        LoD

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        StructureError
            For levels that do not fit each other or the rows, and for an outer boundary that does not occur in the
            level below.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD.from_absolute(np.arange(7), [[0, 4, 7], [0, 2, 4, 7]]).lod
        (array([0, 2, 3]), array([0, 2, 4, 7]))
        """
        if not isinstance(empties, str):
            raise KIND(f'empties must be "raise", "left" or "right", not {quote(empties)}')
        if empties not in ("raise", "left", "right"):
            raise ARGUMENT(f'empties must be "raise", "left" or "right", not {quote(empties)}')
        rows = with_axes(adopt(data)[1], 1, "data", "(rows, *item)")
        numbers = _level_arrays(lod, "lod")
        below = None
        levels: list[Structure] = []
        for k in range(len(numbers) - 1, -1, -1):
            offsets = numbers[k]
            ends_at(Structure.of_offsets(offsets.copy(), f"lod[{k}]"), rows.shape[0], f"lod[{k}]", "data has {} rows")
            relative = offsets if below is None else _relative(offsets, below, k, empties)
            levels.insert(0, Structure.of_offsets(relative, f"lod[{k}]"))
            below = offsets
        _check_levels(tuple(levels), rows.shape[0], "lod")
        return cls._from_levels(rows, tuple(levels))

    def lengths(self) -> list[list[int]]:
        """The lengths of every level, outermost first (Paddle's recursive_sequence_lengths).

        Returns
        -------
        list of lists of int
        """
        return [level.lengths.tolist() for level in self._levels]

    def absolute(self) -> tuple[Array, ...]:
        """The offsets of every level counted in rows, outermost first.

        Returns
        -------
        tuple of arrays

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD(np.arange(7), [[0, 2, 3], [0, 2, 4, 7]]).absolute()
        (array([0, 4, 7]), array([0, 2, 4, 7]))
        """
        offsets = self._structure.offsets
        found = [freeze(offsets)]
        for outer in reversed(self._levels[:-1]):
            offsets = offsets[outer.offsets]
            found.append(freeze(offsets))
        return tuple(reversed(found))

    def sub(self, start: int, stop: int, level: int = 0) -> Self:
        """Some sequences of a level, with the levels from there inward, re-based; a view.

        Parameters
        ----------
        start, stop : int
            Sequences `start` to `stop`, that one not included.
        level : int
            The level that they are of, outermost first.

        Returns
        -------
        LoD

        Raises
        ------
        IndexError
            If the level or the range does not exist.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD(np.arange(7), [[0, 2, 3], [0, 2, 4, 7]]).sub(1, 2).to_nested()
        [[[4, 5, 6]]]
        """
        k = level_index(self, level)
        n = self._levels[k].n
        start, stop = whole(start, "start"), whole(stop, "stop")
        if not 0 <= start <= stop <= n:
            raise LEVEL(f"level {k} has {n} sequences; there is no range {quote(start)} to {quote(stop)}")
        return self._sub(k, start, stop)

    @classmethod
    def _from_levels(cls, data: Shaped, levels: tuple[Structure, ...], lod: tuple[Array, ...] | None = None) -> Self:
        """A `LoD` that needs no check; `lod` is that of the levels, if there is one."""
        x: Any = _open()
        x.data = data
        x.lod = tuple([level.offsets for level in levels]) if lod is None else lod
        x._levels = levels
        x._structure = levels[-1]
        x._shape = data.shape
        x._dtype = data.dtype
        x.__class__ = LoD
        made: Self = x
        return made

    def _form(self, longest: int = 0) -> tuple[tuple[Structure, ...]]:
        """Give the levels."""
        return (self._levels,)

    @classmethod
    def _freeze(cls, data: Shaped, structure: Structure, levels: tuple[Structure, ...]) -> Self:
        return cls._from_levels(data, levels)

    def _with_data(self, data: Shaped) -> Self:
        return self._from_levels(data, self._levels, self._lod)

    def _sub(self, level: int, start: int, stop: int) -> Self:
        """Sequences `start` to `stop` of `level` and the levels further in; data is a view."""
        self._look()
        levels = []
        for structure in self._levels[level:]:
            levels.append(cut_range(structure, start, stop))
            start, stop = int(structure.offsets[start]), int(structure.offsets[stop])
        data: Any = self.data
        return self._from_levels(data[start:stop], tuple(levels))

    def _slice(self, start: int, stop: int) -> Self:
        return self._sub(0, start, stop)

    def _choose(self, where: Array) -> Self:
        data: Any = self.data
        rows = gather_rows(self._look(), data, self._shape[1:], *pick(structure_of(self, 0), where))
        return self._from_levels(rows.data, self._levels_of(where))

    def _levels_of(self, where: Array) -> tuple[Structure, ...]:
        """The levels of the chosen outermost sequences, in the order of `where`."""
        levels = []
        start, stop = where, where + 1
        for structure in self._levels:
            lengths = stop - start
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            inner = np.repeat(start - offsets[:-1], lengths) + np.arange(offsets[-1])
            levels.append(Structure.of_lengths(structure.lengths[inner]))
            start, stop = structure.offsets[start], structure.offsets[stop]
        return tuple(levels)


_open = open_kind(LoD)


def _level_arrays(given: object, what: str) -> list[Array]:
    if is_array(given):
        array = adopt(given, what)[1]
        if len(array.shape) == 2:
            check_room(array.shape[0], OBJECT, f"levels in {what}")
            given = list(array)
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise KIND(f"{what} must be a sequence of levels, not {type(given).__name__}")
    if len(given) == 0:
        raise EMPTY(f"{what} must have at least one level")
    for k, level in enumerate(given):
        if isinstance(level, int) or (not isinstance(level, (Sequence, types.NoneType)) and not is_array(level)):
            raise KIND(f"{what} must be a sequence of levels, but {what}[{k}] is {quote(level)}")
    return [integers(level, f"{what}[{k}]") for k, level in enumerate(given)]


def _checked_levels(lod: object, rows: int) -> tuple[Structure, ...]:
    given = _level_arrays(lod, "lod")
    levels = tuple([Structure.of_offsets(level, f"lod[{k}]") for k, level in enumerate(given)])
    _check_levels(levels, rows, "lod")
    return levels


def _check_levels(levels: tuple[Structure, ...], rows: int, what: str) -> None:
    for k in range(len(levels) - 1):
        ends_at(levels[k], levels[k + 1].n, f"{what}[{k}]", f"{what}[{k + 1}] has {{}} sequences")
    ends_at(levels[-1], rows, f"{what}[{len(levels) - 1}]", "data has {} rows")


def _relative(outer: Array, inner: Array, k: int, empties: str) -> Array:
    """Row offsets of a level as indices into the row offsets of the level below."""
    first: Array
    last: Array
    if outer.size == 1 < inner.size:
        raise LEVELS(f"lod[{k}] has no sequence, but lod[{k + 1}] has {inner.size - 1}")
    first = np.searchsorted(inner, outer, side="left")
    last = np.searchsorted(inner, outer, side="right") - 1
    missing = first > last
    if missing.any():
        j = int(missing.argmax())
        raise BEYOND(f"lod[{k}][{j}] is row {outer[j]}, which is no boundary of lod[{k + 1}]")
    if empties == "raise" and outer.size > 2:
        unclear = (first < last)[1:-1]
        if unclear.any():
            j = int(unclear.argmax()) + 1
            raise BEYOND(
                f"lod[{k}][{j}] = {outer[j]} occurs {last[j] - first[j] + 1} times in lod[{k + 1}]: absolute offsets "
                'cannot tell whose empty sequences these are; give empties="left" or "right", or relative offsets'
            )
    relative = last if empties == "left" else first
    relative = relative.astype(np.int64)
    relative[0] = 0
    relative[-1] = inner.size - 1
    return np.asarray(relative)


def is_valid_lod(lod: object, rows: int) -> bool:
    """Check relative offsets against data of `rows` rows.  Never raises for wrong values.

    Parameters
    ----------
    lod : offset arrays, outermost level first
    rows : int

    Returns
    -------
    bool
        False for anything else too.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.is_valid_lod([[0, 2, 3], [0, 2, 4, 7]], 7)
    True
    >>> sf.is_valid_lod([[0, 3, 6], [0, 2, 3, 3, 3, 9]], 9)
    False
    """
    try:
        _checked_levels(lod, min(max(whole(rows, "rows"), -1), MAX_INT64))
    except (StructureError, TypeError):
        return False
    return True


def level_index(x: Encoding, level: int) -> int:
    """A level of a LoD counted from the outermost; IndexError where there is none.  Other encodings have one."""
    count = len(x._levels)
    k = whole(level, "level")
    if not -count <= k < count:
        raise LEVEL(f"there is no level {quote(level)}; {type(x).__name__} has {count}, outermost first")
    return k % count


def rows_of_level(x: Encoding, k: int) -> Array:
    """The offsets of level k counted in rows; read-only."""
    levels = x._levels
    offsets = levels[-1].offsets
    for inner in reversed(levels[k:-1]):
        offsets = offsets[inner.offsets]
    return freeze(offsets)


def structure_of(x: Encoding, level: int = -1) -> Structure:
    """The structure of one level, counted in rows: each sequence with all its rows."""
    k = level_index(x, level)
    if k == len(x._levels) - 1:
        return x._structure
    return Structure.of_offsets(rows_of_level(x, k))


def lod_to_nested(x: LoD) -> list[Any]:
    """See `Encoding.to_nested`."""
    library = x._look()
    inner = x._structure
    nested: list[Any]
    if x.item_shape:
        nested = list(library.split(x.data, inner.lengths, inner.offsets))
    else:
        wide = WIDE.get(library.dtype_name(x.dtype))
        lists = None if wide is None else write_numbers(library.to_numpy(x.data).astype(wide, copy=False), x._lod)
        if lists is not None:
            return lists
        check_room(x.rows, OBJECT, "leaves")
        keep = getattr(x.dtype, "kind", "-") in "mM"  # as Python objects some of these lose their unit
        data = x.data if library.arithmetic else library.to_numpy(x.data)
        nested = _group(list(data) if keep else data.tolist(), inner.offsets)
    for offsets in reversed(x._lod[:-1]):
        nested = _group(nested, offsets)
    return nested


def _group(flat: list[Any], offsets: Array) -> list[Any]:
    return [flat[a:b] for a, b in pairwise(offsets.tolist())]
