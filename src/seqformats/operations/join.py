"""Several batches as one, sequence by sequence: one after the other, or in turns."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from .. import core
from ..arrays import NUMPY, Array, Shape, adopt, is_array, library_of
from ..converters.convert import convert, restore, rows_of
from ..converters.like import convert_like
from ..errors import (
    BATCH,
    COUNTS,
    DEVICES,
    EMPTY,
    EXACT,
    KIND,
    LEVELS,
    LOST,
    MIXED,
    OVERFLOW,
    SHAPE,
    ConversionError,
)
from ..formats import Encoding, Ragged
from ..formats.annotations import Given
from ..formats.call_plans import by_plan_of, get_or_make, is_on_gpu
from ..formats.leaves import without_data
from ..formats.structure import Structure, same_levels
from ..gradients.operation import Call, Operand, Pullback, each_gradient, linear, operand, operands_of, quickly_by
from ..launch.kernel import Numbers, kernel, planning
from ..layout import Layout
from ..memory_checks import allocate, remember
from .annotations import B
from .calculation import flat_layout
from .spread import repeat_items, sum_items

join_lengths, join_rows, interleave_rows = kernel("join_lengths"), kernel("join_rows"), kernel("interleave_rows")

Part = TypeVar("Part")
"""A batch, or an item; type checkers call what is common to both an object."""


class _Constant:
    """One item, an array beside the data or its bytes on the host; no leaf, so it has no gradient."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array


class Joint:
    """Layout of parts beside each other in one batch, sequence by sequence.

    A part is an encoding; a single item, an array that may have a gradient; or a `_Constant`.
    """

    def __init__(self, parts: Sequence[Any], in_turns: bool = False) -> None:
        self.kernel = interleave_rows if in_turns else join_rows
        self.structures: list[Structure | None] = []
        self.batches = True  # and no single item?
        first: Any = None
        for k, part in enumerate(parts):
            if not isinstance(part, Encoding):
                self.structures.append(None)
                self.batches = False
                continue
            self.structures.append(part._structure)
            if first is None:
                first, self.lead = part, k
        self.library, self.item = library_of(first._sample()), first.item_shape
        self.n = first._structure.n
        self.on_gpu = self.batches and bool(planning) and all(map(is_on_gpu, parts))
        self.cum, self.whole = self._kept_whole(first._structure) if self.on_gpu else self._whole()[:2]

    def _kept_whole(self, first: Structure) -> tuple[Array, Structure]:
        """Offsets of all parts, and the structure of all together, which is kept with that of the first."""
        others = self.structures[1:]
        key = "joined", *map(id, others)
        cum, whole, of = get_or_make(first, key, self._whole)
        if any(one() is not other for one, other in zip(of, others, strict=True)):  # those are gone
            first.calls.pop(key, None)
            cum, whole, _ = self._whole()
        return cum, whole

    def _whole(self) -> tuple[Array, Structure, list[Any]]:
        """Offsets of all parts, the structure of all together, and references to those of the parts but the first."""
        # an item counts as a batch of sequences of one
        once = None if self.batches else np.arange(self.n + 1)
        cum = np.concatenate([once if structure is None else structure.offsets for structure in self.structures])
        cum.setflags(write=False)
        whole: Structure | None = core.build_structure(join_lengths.run, self.n, 0, cum)[0]
        if whole is None:
            raise OVERFLOW(f"the parts have {sum(self.sizes())} items, more than int64 can count")
        return cum, whole, [weakref.ref(other) for other in self.structures[1:]] if self.batches else []

    def sizes(self) -> list[int]:
        """Numbers of rows of the parts."""
        return [self.n if structure is None else structure.rows for structure in self.structures]

    def join(self, parts: Sequence[Any]) -> Any:
        """One batch of all parts, which is as the first batch among them."""
        first = parts[self.lead]
        if self.on_gpu:
            key = self.kernel, *[(x.__class__, x._dtype, x._shape, x._unshaped, x.data.__class__) for x in parts]
            out = by_plan_of(self.whole, tuple([x.data for x in parts]), key, self._rows, parts)
        else:
            out = self._rows(parts)
        return self._laid_out(out, first)

    def _rows(self, parts: Sequence[Any]) -> Array:
        """The rows of all parts."""
        first, library, whole = parts[self.lead], self.library, self.whole
        sample = first._sample()
        out = allocate(library.empty, (whole.rows, *self.item), sample.dtype, sample)
        row = math.prod(self.item) * first._dtype.itemsize
        if row and whole.rows:
            host = library is NUMPY or library.kind(sample) == "cpu"
            held: list[Any] = []  # in whose memory the addresses are
            bases: list[int] = []
            units: list[int] = []  # of an absolute layout 1, of an item 0
            begins = self.cum
            for k, part in enumerate(parts if self.batches else self._expand_constants(sample, parts, row)):
                if not isinstance(part, Encoding):
                    held.append(part)
                    bases.append((NUMPY if type(part) is np.ndarray else library).address(part))
                    units.append(0)
                    continue
                x = part
                if x._by_steps or not (host or x._in_one_array):  # words there are as wide as addresses allow
                    x = convert(x, Ragged)
                if x._flat:
                    held.append(x.data)
                    bases.append(x._look().address(x.data))
                    units.append(row)
                    continue
                _, data, at, structure = x._read()[:4]
                held += data if at.absolute else (data,)
                bases.append(0 if at.absolute else library.address(data))
                units.append(1 if at.absolute else row)
                if begins is self.cum:
                    begins = begins.copy()
                begins[k * (whole.n + 1) : (k + 1) * (whole.n + 1) - 1] = _begins(at, structure)
            begins.setflags(write=False)
            table = np.array(bases + units)
            args = (table[: len(parts)], table[len(parts) :], begins, self.cum, whole.offsets, 1)
            self.kernel.start(library, (tuple(held),), (out,), args, row, whole)
        return out

    def pullback(self, parts: Sequence[Any]) -> Pullback:
        """The way back: a gradient for each part, None for a constant."""
        shapes, ends = [without_data(part) for part in parts], np.cumsum([0, *self.sizes()])
        return lambda dy: linear(lambda d: self._split(d, shapes, ends), self.join, dy)

    def _split(self, dy: Encoding, shapes: Sequence[Any], ends: Array) -> tuple[Any, ...]:
        rows = rows_of(dy)
        if self.on_gpu:
            key = "split", self.kernel, rows.shape, rows.dtype, rows.__class__
            out = by_plan_of(self.whole, (rows,), key, self._parts_of, rows, ends)
        else:
            out = self._parts_of(rows, ends)
        found: list[Any] = []
        for shape, structure, (begin, end) in zip(shapes, self.structures, pairwise(ends.tolist()), strict=True):
            if structure is not None:
                own = self.library.rows(out, begin, end)
                is_rows = shape._flat and not shape.keeps_levels
                found.append(shape._with_data(own) if is_rows else restore(Ragged._freeze(own, structure), shape))
            else:
                found.append(None if isinstance(shape, _Constant) else _sum_of(out[begin:end], tuple(shape.shape)))
        return tuple(found)

    def _parts_of(self, rows: Array, ends: Array) -> Array:
        """The rows part after part."""
        out = allocate(self.library.empty, tuple(rows.shape), rows.dtype, rows)
        row = math.prod(self.item) * rows.dtype.itemsize
        if row and self.whole.rows:
            args = (ends[:-1], np.ones(ends.size - 1, np.int64), self.cum, self.cum, self.whole.offsets, 0)
            self.kernel.start(self.library, (rows,), (out,), args, row, self.whole)
        return out

    def label(self, labels: Array, like: Encoding) -> Any:
        """An encoding of the same lengths whose items say from which part they are: ``labels[k]``."""
        lengths = np.diff(self.cum.reshape(labels.size, -1)).T.reshape(-1)  # of each part in each sequence
        rows = self.library.from_host(np.tile(labels, self.whole.n), like._sample())
        at = flat_layout(Structure.of_lengths(lengths), (), rows.dtype)
        data = repeat_items(self.library, rows, at).data
        return self._laid_out(data.reshape(self.whole.rows, *self.item), without_data(like))

    def _laid_out(self, rows: Array, like: Encoding) -> Any:
        if like._flat and not like.keeps_levels:
            return like._freeze(rows, self.whole, *like._form())
        return convert_like(Ragged._freeze(rows, self.whole), without_data(like) if like.keeps_levels else like)

    def _expand_constants(self, sample: Array, parts: Sequence[Any], row: int) -> list[Any]:
        """The parts, and of single items arrays that hold one row of bytes beside the sample."""
        found: list[Any] = []
        for part in parts:
            if isinstance(part, _Constant):
                part = part.array
            elif part is None:  # the gradient of a constant
                part = np.zeros(row, np.uint8)
            elif not isinstance(part, Encoding) and part.shape != self.item:
                part = self.library.item(self.library.alias(part), sample.dtype, self.item)
            found.append(part)
        if self.library is not NUMPY and self.library.kind(sample) != "cpu":
            numbers = Numbers([part for part in found if type(part) is np.ndarray])
            for k, part in enumerate(found):
                if type(part) is np.ndarray:
                    found[k] = numbers.send_one(self.library, part, sample)
        return found


def _begins(at: Layout, structure: Structure) -> Array:
    """The rows, or the addresses, where sequences begin that lie in blocks."""
    if at.stride >= 0:
        return np.arange(structure.n) * at.stride + at.left * (at.stride - structure.lengths)
    starts: Array = at.starts[: structure.n]
    return starts


def _sum_of(rows: Array, shape: Shape) -> Array:
    """The gradient of an item of this shape from those of all places where it stands."""
    if tuple(rows.shape[1:]) != shape:  # a number in each place of every item
        rows = rows.reshape(-1)
    reshaped: Array = sum_items(Ragged._freeze(rows, Structure.of_lengths(np.array([rows.shape[0]])))).reshape(shape)
    return reshaped


@quickly_by(core.concat)
def concat(parts: Sequence[Part]) -> Call[Part]:
    """Sequence by sequence, the items of all parts one after the other.

    Parameters
    ----------
    parts : a list of batches and single items
        Encodings, lists of arrays or nested lists, at least one: over the same number of innermost sequences, with the
        same dtype, which may be any, and item shape; where several are `LoD`, with the same outer levels.  A number, or
        an array of the item shape or without axes, is one item that is put into every sequence.

    Returns
    -------
    same kind as the first batch
        Its pullback gives a tuple with a gradient for each part.  That of an item is the sum over all sequences, where
        it is an array of floats beside the batch and of its dtype, and None for any other.

    Raises
    ------
    StructureError
        If the batches do not fit each other.
    ConversionError
        For an item that is not exact in the dtype of the batches.
    DeviceError
        If the arrays belong to different libraries or devices.
    TypeError
        For an array that is neither, and for an item with a gradient that could not come back.

    See Also
    --------
    Template : Parts with names, and from which part each item is.
    interleave : Item by item in turns.
    join_batches : The sequences of one batch after those of another.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x, y = sf.Ragged(np.array([1, 2]), [2, 0]), sf.Ragged(np.array([7, 8]), [1, 1])
    >>> sf.concat([x, y])
    Ragged(shape (4,), int64, cpu, 2 sequences of lengths [3, 1])
    >>> sf.convert(sf.concat([101, x, 102, y, 102]), list)
    [[101, 1, 2, 102, 7, 102], [101, 102, 8, 102]]
    """
    return _joining("concat", parts, False)


@quickly_by(core.interleave)
def interleave(batches: Sequence[B]) -> Call[B]:
    """Sequence by sequence, item 0 of every batch, item 1 of every batch, and so on.

    Parameters
    ----------
    batches : a list of encodings, lists of arrays or nested lists
        As those of `concat`.

    Returns
    -------
    same kind as the first batch
        Where a sequence is shorter, the others go on in turns without it.  Its pullback gives a tuple, a gradient for
        each batch.

    Raises
    ------
    StructureError
        If the batches do not fit each other.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    concat : One after the other.

    Notes
    -----
    The order is that of the recipe `roundrobin` in the documentation of itertools.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x, y = sf.Ragged(np.array([1, 2, 3]), [3, 0]), sf.Ragged(np.array([7, 8]), [1, 1])
    >>> sf.convert(sf.interleave([x, y]), list)
    [[1, 7, 2, 3], [8]]
    """
    return _joining("interleave", batches, True)


def _joining(name: str, parts: Sequence[Any], in_turns: bool) -> Call[Any]:
    """A call that makes one batch of parts."""
    if not isinstance(parts, (list, tuple)):
        raise KIND(f"{name} takes a list of batches, not {type(parts).__name__}")
    are_batches = [
        isinstance(part, Encoding) or in_turns or not (isinstance(part, _SCALARS) or is_array(part)) for part in parts
    ]
    found = iter(operands_of(*[part for part, is_one in zip(parts, are_batches, strict=True) if is_one]))
    batches = [next(found) if is_one else None for is_one in are_batches]
    operands = checked_parts(name, batches, parts)
    owns = tuple([one.own for one in operands])
    joint = Joint(owns, in_turns)
    return Call(
        owns,
        lambda zs, back: (joint.join(zs), joint.pullback(zs) if back else None),
        operands[joint.lead].result,
        each_gradient(operands),
    )


_SCALARS = (int, float, complex, str, bytes, np.generic)


def checked_parts(name: str, batches: Sequence[Operand | None], parts: Sequence[Any]) -> list[Operand]:
    """The batches that fit each other, and where there is None the single item in `parts`, as an operand."""
    owns: list[Encoding] = []
    places: list[int] = []
    for k, batch in enumerate(batches):
        if batch is not None:
            owns.append(batch.own)
            places.append(k)
    if not places:
        for part in parts:
            if is_array(part):
                operand(part)  # raises
        raise EMPTY(f"{name} needs at least one batch")
    first, n = owns[0], owns[0]._structure.n
    if len(owns) > 1:
        check_alike(owns, "part", places)
        for k, own in zip(places, owns, strict=True):
            if own._structure.n != n:
                raise COUNTS(f"part {k} has {own._structure.n} sequences, but part {places[0]} has {n}")
            if own.keeps_levels and first.keeps_levels and not same_levels(own._levels[:-1], first._levels[:-1]):
                raise LEVELS(f"part {k} has other outer levels than part {places[0]}")
    return [Operand(_item(parts[k], first, k)) if batch is None else batch for k, batch in enumerate(batches)]


def _item(given: Given, like: Encoding, number: int) -> Any:
    """A single item for all sequences, given as a part: an array that has a gradient, or a constant."""
    sample, item, key = like._sample(), like.item_shape, None
    if type(given) in _KEPT and given and given == given and item in _NARROW:  # a token, put in again and again
        key = type(sample), like._dtype, item, type(given), given
        if key in _constants:
            return _constants[key]
    library, what = library_of(sample), f"part {number}"
    if is_array(given):
        own, array = adopt(given, what)
        shape = tuple(array.shape)
        if shape not in ((), item):
            raise BATCH(
                f"{what} is an array of shape {shape}, neither a batch, as Ragged(data, lengths) is, nor one item of "
                f"shape {item}"
            )
        beside = own is library and (own is NUMPY or own.device(array) == own.device(sample))
        if beside and array.dtype == sample.dtype:
            if library.dtype_name(array.dtype).startswith(("float", "bfloat", "complex")):
                return array
            if shape == item:
                return _Constant(array)
        elif own.wants_grad((array,)):
            raise LOST(
                f"{what} has a gradient, which would be lost: it is {array.dtype} on {own.device(array)}, but the "
                f"batches are {sample.dtype} on {like.device}; convert it first, or give it without its gradient"
            )
    try:
        constant = _Constant(library.item(given, sample.dtype, item))
    except ConversionError as error:
        raise EXACT(f"{what} is put into every sequence, but {error}") from None
    return constant if key is None else remember(_constants, key, constant)


_KEPT = (int, float, np.int64, np.float32)  # equal ones of a type have the same bits, unless they are zero or NaN
_NARROW = ((), (1,))
_constants: dict[Any, _Constant] = {}


def check_alike(parts: Sequence[Encoding | Array], what: str, numbers: Sequence[int | str] | None = None) -> None:
    """StructureError or DeviceError where batches, or arrays of rows, differ in what one array must have in common.

    `numbers` are what they are called by, 0, 1, ... without it; names, where `what` is "".
    """
    like: Any = None
    for k, part in enumerate(parts):
        array: Any = part
        if isinstance(part, Encoding):
            array, item = part._sample(), part._shape[part._lead :]
        else:
            item = part.shape[1:]
        if like is None:
            like, shape, library = array, item, library_of(array)
            continue
        if (
            type(array) is type(like)
            and array.dtype == like.dtype
            and item == shape
            and (library is NUMPY or library.device(array) == library.device(like))
        ):
            continue
        zero, own = (f"{what} {numbers[j] if numbers else j}".lstrip() for j in (0, k))
        other = library_of(array)
        if other is not library:
            hint = f'; sf.to(x, "{library.name}") brings a batch to a library'
            raise DEVICES(f"{own} holds arrays of {other.name}, but {zero} of {library.name}{hint}")
        if library.device(array) != library.device(like):
            raise DEVICES(f"{own} is on {library.device(array)}, but {zero} on {library.device(like)}")
        if array.dtype != like.dtype:
            raise MIXED(f"{own} has dtype {array.dtype}, but {zero} has {like.dtype}")
        if item != shape:
            raise SHAPE(f"{own} has item shape {tuple(item)}, but {zero} has {tuple(shape)}")
