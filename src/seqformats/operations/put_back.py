"""Items and whole sequences put back where they were taken: the inverses of `filter` and of `select`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..arrays import Array, Library, freeze, is_array, library_of
from ..converters.convert import convert, restore, rows_of
from ..converters.layouts import lod_to_ragged
from ..errors import COUNTS, EXACT, KIND, LEVELS, UNLIKE, ConversionError
from ..formats import Encoding, LoD, Masked, Ragged, structure_of
from ..formats.annotations import Given, Index, Shaped
from ..formats.encoding import abridge
from ..formats.index import places
from ..formats.leaves import without_data
from ..formats.pairs import is_encoding
from ..formats.rows import lay_out
from ..formats.structure import Structure
from ..gradients.operation import (
    Call,
    Operand,
    Pullback,
    each_gradient,
    linear,
    linear_call,
    operand,
    operand_beside,
    operands_of,
    operation,
    rows_or_batch,
)
from ..layout import Layout
from .annotations import B, Batch
from .companions import one_sequence
from .filter import marks_for
from .join import check_alike
from .runs import Kept
from .select import placed_sequences

Operands: TypeAlias = tuple[Any, Any]
_NUMBERS = (bool, int, float, complex, np.generic)


@operation
def masked_scatter(base: Batch | complex, mask: Batch | Shaped, values: Batch | Shaped) -> Call[Any]:
    """Replace the items of `base` where `mask` is true by `values`, in their order: the inverse of `filter`.

    Parameters
    ----------
    base : an encoding, a list of arrays, nested lists or a number
        Items of any dtype.  A number is the value of all items where the mask is false; `mask` is a batch then.
    mask : an encoding, a list of arrays, nested lists or an array
        Bools, as `filter` takes them.
    values : an encoding, a list of arrays, nested lists or an array ``(count, *item)``
        As many items in each sequence as the mask has true ones there, or the rows of all sequences in one array; item
        shape, dtype and library are those of `base`.

    Returns
    -------
    same kind as `base`, or as `mask` where `base` is a number
        With all lengths as they were.  Its pullback gives the gradients of `base` and of `values`, or of `values` alone
        where `base` is a number.

    Raises
    ------
    StructureError
        For lengths, counts, item shapes or dtypes that do not fit.
    TypeError
        If `mask` does not hold bools.
    ConversionError
        For a number that the dtype of `values` cannot hold.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    filter : The items that a mask keeps.
    put_sequences : Whole sequences.
    scatter : Items added, or put, at places.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([5, 7, 7, 9]), [3, 1])
    >>> mask = [[True, False, True], [False]]
    >>> sf.convert(sf.masked_scatter(x, mask, [[1, 2], []]), list)
    [[1, 7, 2], [9]]
    >>> sf.convert(sf.masked_scatter(x, mask, sf.filter(x, mask)), list)
    [[5, 7, 7], [9]]

    With a number for all other items:

    >>> sf.masked_scatter(-1, mask, np.array([1, 2]))
    [[1, -1, 2], [-1]]
    """
    if isinstance(values, _NUMBERS):
        raise KIND("values must be a batch or an array; sf.where(mask, number, base) puts one number everywhere")
    given = rows_or_batch(values)
    rows = given.own if is_array(given.own) else given.own._sample()
    if isinstance(base, _NUMBERS):
        whole = operand(mask)
        item = tuple(rows.shape[1:]) if is_array(given.own) else given.own.item_shape
        start: Any = Ragged._freeze(_fill(base, rows, (whole.own._structure.rows, *item)), whole.own._structure)
    else:
        whole, given = _read_operands(base, values, given)
        start = whole.own
    puts = _Puts(start, whole.own, Kept.from_marks(marks_for(start, mask, "mask"), start._structure), given.own)
    if start is whole.own:
        gradient = each_gradient((whole, given))
        return linear_call((start, given.own), puts.forward, puts.back, whole.result, gradient, check=puts.keep)
    return Call(given.own, puts.rule_of_values, whole.result, given.gradient)


def _read_operands(base: object, values: object, given: Operand) -> tuple[Operand, Operand]:
    """The two as operands of one library, where one of them is lists of numbers."""
    if is_array(given.own):
        return operand_beside(base, given.own), given
    whole, found = operands_of(base, values)
    return whole, _as_empty(values, found, whole.own)


def _as_empty(values: object, found: Operand, base: Encoding) -> Operand:
    """Values in lists that hold no item, which say nothing of a dtype or of levels, as they go with `base`."""
    own = found.own
    if not isinstance(values, (list, tuple)) or own.rows:
        return found
    sample = base._sample()
    rows = library_of(sample).empty((0, *base.item_shape), sample.dtype, sample)
    levels = own._levels if len(own._levels) == len(base._levels) else ()
    if base.keeps_levels and not levels:
        counts = [len(own), *[0] * (len(base._levels) - 1)]
        levels = tuple([Structure.of_lengths(np.zeros(count, np.int64)) for count in counts])
    same: Any = LoD._from_levels(rows, levels) if base.keeps_levels else Ragged._freeze(rows, own._structure)
    return found._replace(own=same)


def _fill(value: Given, like: Array, shape: tuple[int, ...]) -> Array:
    """An array of this shape, beside `like` and in its dtype, of one value."""
    library = library_of(like)
    nothing = Ragged._freeze(library.empty((0, *shape[1:]), like.dtype, like), one_sequence(0))
    try:
        filled: Array = convert(nothing, Masked, width=shape[0], fill=value).data.reshape(shape)
    except ConversionError as error:
        raise EXACT(f"base is the value of items where mask is false, but {error}") from None
    return filled


class _Puts:
    """A call of `masked_scatter`, whose operands are checked here."""

    def __init__(self, start: Encoding, whole: Encoding, kept: Kept, values: Given) -> None:
        self.start, self.kept = start, kept
        self.shape, self.of_values = without_data(whole), without_data(values)
        check_alike((start, values), "", ("base", "values"))
        if is_array(values):
            if values.shape[0] != kept.kept.rows:
                raise COUNTS(f"values has {values.shape[0]} rows, but mask is true {kept.kept.rows} times")
            return
        found = values._structure
        if found.n != kept.kept.n:
            raise COUNTS(f"values has {found.n} sequences, but mask has {kept.kept.n}")
        if not found.same_lengths(kept.kept):
            raise UNLIKE(
                f"values has sequences of lengths {abridge(found.lengths)}, but mask is true so often: "
                f"{abridge(kept.kept.lengths)}"
            )

    def keep(self) -> None:
        """Copy the marks for a pullback: they are the caller's, who may write others before the gradient comes."""
        self.kept = self.kept._replace(marks=library_of(self.kept.marks).copy(self.kept.marks))

    def rule_of_values(self, values: Given, back: bool) -> tuple[Any, Pullback]:
        """Gradient rule of the values alone, beside a number."""
        if back:
            self.keep()
        return self.forward((self.start, values)), lambda dy: linear(self.take, self.place, dy)

    def forward(self, operands: Operands) -> Any:
        """The values over the marked items of the batch."""
        base, values = operands
        return self.put_rows(base, values if is_array(values) else rows_of(values))

    def put_rows(self, base: Encoding, rows: Array) -> Any:
        """Rows over the marked items of a batch."""
        library, start = library_of(rows), rows_of(base)
        out = library.copy(start) if base._flat else start
        self.kept.put(library, rows, out, self.start._structure)
        return restore(Ragged._freeze(out, self.start._structure), self.shape)

    def back(self, dy: Encoding) -> tuple[Any, Any]:
        """The gradients of the batch and of the values."""
        rows = rows_of(dy)
        zeros = library_of(rows).zeros((self.kept.kept.rows, *rows.shape[1:]), rows.dtype, rows)
        return self.put_rows(dy, zeros), self.take(dy)

    def take(self, dy: Encoding) -> Any:
        """The marked items, as the values are."""
        rows = rows_of(self.kept.take(Ragged._freeze(rows_of(dy), self.start._structure)))
        return restore(Ragged._freeze(rows, self.kept.kept), self.of_values) if is_encoding(self.of_values) else rows

    def place(self, values: Given) -> Any:
        """The values at the marked places, and zeros elsewhere."""
        rows = values if is_array(values) else rows_of(values)
        return self.kept.place(Ragged._freeze(rows, self.kept.kept), self.shape)


@operation
def put_sequences(base: B, index: Index, values: Batch) -> Call[B]:
    """Replace some sequences of `base` by others: the inverse of `select`.

    Parameters
    ----------
    base : an encoding, a list of arrays or nested lists
        Items of any dtype.
    index : a list or array of positions (negative from the end), a mask, a slice or one position
        Of a `LoD` the outermost sequences are counted.  Of a position that comes several times the last one wins.
    values : an encoding, a list of arrays or nested lists
        A sequence for each position, of any length; item shape, dtype and library, and of a `LoD` the number of
        levels, are those of `base`.

    Returns
    -------
    same kind as `base`
        A `Masked` or `Padded` is wider where a new sequence is longer.  Its pullback gives the gradients of `base` and
        of `values`.

    Raises
    ------
    StructureError
        For another number of sequences, other levels, item shapes or dtypes.
    IndexError
        For a position that does not exist.
    TypeError
        If the index is of another kind.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    select : The sequences at these positions.
    masked_scatter : Items in the place of others.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1, 2, 3, 4]), [2, 1, 1])
    >>> y = sf.put_sequences(x, [2, 0], [[7, 8, 9], []])
    >>> sf.convert(y, list)
    [[], [3], [7, 8, 9]]
    """
    given = operands_of(base, values)
    given[1] = _as_empty(values, given[1], given[0].own)
    first, second = given[0].own, given[1].own
    where = places(index, len(first))
    where = np.arange(where.start, where.stop) if isinstance(where, slice) else where
    check_alike((first, second), "", ("base", "values"))
    if first.keeps_levels:
        if len(second._levels) != len(first._levels):
            raise LEVELS(f"values has {len(second._levels)} levels, but base has {len(first._levels)}")
    elif second.keeps_levels:  # of which the innermost sequences count
        second = convert(second, Ragged)
    if len(second) != where.size:
        raise COUNTS(f"values has {len(second)} sequences, but index has {where.size} positions")
    replaced = _Replaced(first, given[1].own if first.keeps_levels else second, where)
    return linear_call((first, second), replaced.forward, replaced.back, given[0].result, each_gradient(given))


class _Replaced:
    """A call of `put_sequences`, whose arguments are checked."""

    def __init__(self, base: Encoding, values: Encoding, where: Array) -> None:
        self.base, self.values = without_data(base), without_data(values)
        count = len(base)
        self.source = np.arange(count)  # of each sequence of the result: one of base, or after these one of the values
        self.source[where] = np.arange(where.size) + count  # NumPy writes them in order, so the last one stays
        self.own = freeze(np.flatnonzero(self.source < count))
        self.others = freeze(np.flatnonzero(self.source >= count))
        one, two = structure_of(base, 0), structure_of(values, 0)
        lengths = np.concatenate([one.lengths, two.lengths])[self.source]
        self.structure = Structure.of_lengths(lengths)

    def forward(self, operands: Operands) -> Any:
        """By one move from both arrays; of a `List` no row is moved."""
        base, values = operands
        if not base._in_one_array:
            pieces = [*base._leaves(), *convert(values, type(base))._leaves()]
            chosen = tuple([pieces[k] for k in self.source.tolist()])
            return base._from_items(chosen, self.structure, base._sample())
        one, two = rows_of(base), rows_of(values)
        library = library_of(one)
        starts = np.concatenate([self.starts(library, one, base), self.starts(library, two, values)])[self.source]
        cum = self.structure.offsets
        at = Layout(freeze(starts), cum, cum, -1, 0, 1, 1)
        source = (library, (one, two), at, self.structure, one, tuple(one.shape[1:]), None)
        if base.keeps_levels:
            rows = lay_out(source, Ragged).data
            return LoD._from_levels(rows, self.levels(base, values))
        longest = max(self.structure.longest, base._form()[0] if base._gapped else 0)
        return lay_out(source, type(base), base._form(longest))

    def starts(self, library: Library, rows: Array, x: Encoding) -> Array:
        """Places in memory where the sequences begin."""
        row = library.itemsize(rows.dtype) * int(np.prod(rows.shape[1:]))
        starts: Array = library.address(rows) + structure_of(x, 0).offsets[:-1] * row
        return starts

    def levels(self, base: LoD, values: LoD) -> tuple[Structure, ...]:
        """The levels of the result."""
        joined = [
            Structure.of_lengths(np.concatenate([a.lengths, b.lengths]))
            for a, b in zip(base._levels, values._levels, strict=True)
        ]
        return LoD._from_levels(base.data, tuple(joined))._levels_of(self.source)

    def back(self, dy: Encoding) -> tuple[Any, Any]:
        """The gradients of the batch and of the values, zeros where nothing came from."""
        r = lod_to_ragged(convert(dy, LoD), level=0) if self.base.keeps_levels else convert(dy, Ragged)
        return (
            self.place(r._choose(self.own), self.own, self.base),
            self.place(r._choose(self.others), self.source[self.others] - len(self.base), self.values),
        )

    def place(self, dy: Ragged, where: Array, shape: Encoding) -> Any:
        """Sequences at places of a batch of zeros."""
        return restore(placed_sequences(dy, where, structure_of(shape, 0)), shape)
