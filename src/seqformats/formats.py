"""The encodings: frozen dataclasses, valid once built.

Structure (lengths, offsets, indices, sizes) is on the host, int64, read-only and the encoding's own; data stays in the
caller's array library and on its device.  "Sequence i" means the caller's order everywhere; only the fields of `Padded`
and `Packed` are sorted by falling length.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from . import registry
from .arrays import Array, Shape, adopt, has_items, is_array, library_of, library_of_type, shape_of
from .errors import DeviceError, StructureError, said
from .limits import NO_ROOM, OBJECT, check_room, no_room
from .reading import scan
from .structure import MOST, Structure, frozen, integers, whole

_SHOWN = 6  # lengths that a repr shows


class Encoding:
    """What all encodings have in common."""

    __slots__ = ("__weakref__", "_dtype", "_shape", "_structure")

    _structure: Structure  # of the innermost level
    _shape: Any  # of data when it was validated: an array can be resized under us
    _dtype: Any

    keeps_levels: ClassVar[bool] = False

    @property
    def dtype(self) -> Any:
        """The dtype of the items, in data's library."""
        return self._dtype

    @property
    def item_shape(self) -> Shape:
        """The shape of one item: () for token ids, (width,) for vectors."""
        raise NotImplementedError

    @property
    def rows(self) -> int:
        """Items in all sequences together, padding not counted."""
        return self._structure.rows

    @property
    def max_length(self) -> int:
        """Items in the longest (innermost) sequence; 0 where there is none."""
        return self._structure.longest

    @property
    def device(self) -> str:
        """Where data lives: "cpu", "cuda:0", ..."""
        data = self._like()
        return library_of(data).device(data)

    def _like(self) -> Array:
        """An array of data's library, dtype and device."""
        data: Array = self.data  # type: ignore[attr-defined]
        return data

    def __len__(self) -> int:
        return self._structure.n

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return registry.service("getitem")(self, index)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype, copy=copy)  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def __copy__(self) -> Any:
        make, given = self.__reduce__()
        return make(*given)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._layout()}{_summary(self)})"

    def _layout(self) -> str:
        return f"shape {tuple(self.data.shape)}, "  # type: ignore[attr-defined]

    def _set(self, **values: Any) -> None:
        """Fill the fields of a frozen dataclass during construction."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _no_state(self: Any, state: Any) -> None:  # noqa: ARG001  the signature is pickle's
    """Pickles rebuild through the constructor; one that sets fields behind its back is forged.

    Each encoding names this itself, since a frozen dataclass with slots would get a `__setstate__` that checks nothing.
    """
    raise TypeError(f"a {type(self).__name__} takes no state from a pickle; it is built by its constructor alone")


def _summary(x: Any) -> str:
    return f"{x.dtype}, {x.device}, {len(x)} sequences of lengths {shown(x._structure.lengths)}"


def shown(lengths: Array) -> str:
    """The first lengths, for one line."""
    return f"[{', '.join(map(str, lengths[:_SHOWN].tolist()))}{', ...' if lengths.size > _SHOWN else ''}]"


def _with_axes(array: Array, least: int, what: str, axes: str) -> Array:
    if len(array.shape) < least:
        raise StructureError(f"{what} must have the axes {axes}, but has shape {tuple(array.shape)}")
    return array


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class List(Encoding):
    """A tuple of arrays, one a sequence.

    Parameters
    ----------
    items : sequence of n arrays ``(length_i, *item)`` of one library, device, dtype and item shape
    like : an array ``(anything, *item)`` that gives dtype, item shape, library and device where there are no items;
        without it an empty list is float64 with item shape ()

    Errors: TypeError for what is no array, StructureError for different dtypes or item shapes, DeviceError for
    different libraries or devices.

    ``==`` asks whether both are one object; `seqformats.equal` compares what they hold.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.List([np.array([1, 2]), np.array([3])])
    List(items of shape (), int64, cpu, 2 sequences of lengths [2, 1])
    """

    items: tuple[Array, ...]
    like: Array | None = None

    __setstate__ = _no_state

    def __post_init__(self) -> None:
        items = self.items
        if not isinstance(items, (list, tuple)):
            raise TypeError(f"items must be a list or tuple of arrays, not {type(items).__name__}")
        like = None if self.like is None else _with_axes(adopt(self.like, "like")[1], 1, "like", "(rows, *item)")
        items, lengths = checked_items(items, like)
        first = items[0] if items else np.empty(0) if like is None else like
        self._set(
            items=items,
            like=like,
            _structure=Structure.of_lengths(lengths),
            _shape=(-1, *first.shape[1:]),
            _dtype=first.dtype,
        )

    def _like(self) -> Array:
        return self.items[0] if self.items else _NO_ITEMS if self.like is None else self.like

    def _layout(self) -> str:
        return f"items of shape {self.item_shape}, "

    @property
    def item_shape(self) -> Shape:
        return tuple(self._shape[1:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("a List is several arrays; np.asarray(sf.convert(x, sf.Ragged)) is one")


_NO_ITEMS = np.empty(0)
_NO_ITEMS.flags.writeable = False


def checked_items(items: Sequence[Any], like: Array | None) -> tuple[tuple[Array, ...], Array]:
    """The items as C-contiguous arrays of one library, device, dtype and item shape, and their lengths."""
    items = tuple(items)
    scanned = scan(items)
    if scanned is not None and (like is None or _matches(items[0], like)):
        return items, scanned[0]
    out: list[Array] = []
    first, first_library, where = like, None if like is None else library_of(like), "like"
    for i, item in enumerate(items):
        library, array = adopt(item, f"items[{i}]")
        _with_axes(array, 1, f"items[{i}]", "(length, *item)")
        if first is None or first_library is None:
            first, first_library, where = array, library, "items[0]"
        elif library is not first_library:
            raise DeviceError(f"items[{i}] is an array of {library.name}, but {where} is one of {first_library.name}")
        elif library.device(array) != library.device(first):
            raise DeviceError(f"items[{i}] is on {library.device(array)}, but {where} on {library.device(first)}")
        if array.dtype != first.dtype:
            raise StructureError(f"items[{i}] has dtype {array.dtype}, but {where} has {first.dtype}")
        if array.shape[1:] != first.shape[1:]:
            raise StructureError(
                f"items[{i}] has item shape {tuple(array.shape[1:])}, but {where} has {tuple(first.shape[1:])}"
            )
        out.append(array)
    return tuple(out), np.array([array.shape[0] for array in out], np.int64)


def _matches(item: Array, like: Array) -> bool:
    return type(item) is type(like) and item.dtype == like.dtype and item.shape[1:] == like.shape[1:]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Ragged(Encoding):
    """All sequences in one array, one after the other.

    Parameters
    ----------
    data : array ``(rows, *item)``
    lengths : n integers, not negative, with the sum `rows`

    Errors: TypeError for wrong types, StructureError for lengths that do not fit.

    ``==`` asks whether both are one object; `seqformats.equal` compares what they hold.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(5), [2, 0, 3])
    >>> x
    Ragged(shape (5,), int64, cpu, 3 sequences of lengths [2, 0, 3])
    >>> x[2].data
    array([2, 3, 4])
    """

    data: Array
    lengths: Array = None  # type: ignore[assignment]

    __setstate__ = _no_state

    def __post_init__(self) -> None:
        data: object = self.data
        nested = isinstance(data, (list, tuple)) and any(map(has_items, data))
        if self.lengths is None or nested:
            raise TypeError(
                "Ragged takes one array of rows, and lengths; a list of arrays or of lists comes in by "
                "sf.convert(x, sf.Ragged)"
            )
        data = _with_axes(adopt(self.data)[1], 1, "data", "(rows, *item)")
        structure = Structure.of_lengths(integers(self.lengths, "lengths"), data.shape[0])
        self._set(data=data, lengths=structure.lengths, _structure=structure, _shape=data.shape, _dtype=data.dtype)

    @property
    def item_shape(self) -> Shape:
        return tuple(self._shape[1:])

    @property
    def offsets(self) -> Array:
        """``(n + 1,)``: sequence i is ``data[offsets[i]:offsets[i + 1]]``."""
        return self._structure.offsets

    @classmethod
    def from_offsets(cls, data: Array, offsets: Any) -> Ragged:
        """From ``offsets (n + 1,)``: 0 first, never falling, `rows` last; StructureError otherwise.

        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged.from_offsets(np.arange(5), [0, 2, 2, 5]).lengths
        array([2, 0, 3])
        """
        data = _with_axes(adopt(data)[1], 1, "data", "(rows, *item)")
        structure = Structure.of_offsets(integers(offsets, "offsets"))
        _ends_at(structure, data.shape[0], "offsets", "data has {} rows")
        return build_ragged(data, structure)


def _ends_at(structure: Structure, end: int, what: str, have: str) -> None:
    if structure.rows != end:
        raise StructureError(f"{what} must end with {end}, since {have.format(end)}, but end with {structure.rows}")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Padded(Encoding):
    """A rectangle, time-major: step t holds the t-th item of every sequence, sequences by falling length.

    Parameters
    ----------
    data : array ``(steps, n, *item)``, ``steps`` at least the longest length
    size_at_t : ``(steps,)`` the sequences longer than t; zeros past the longest
    lengths : ``(n,)`` falling
    indices : ``(n,)`` the caller's position of column j

    ``data[t, :size_at_t[t]]`` are the items of step t without padding.

    ``==`` asks whether both are one object; `seqformats.equal` compares what they hold.

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

    data: Array
    size_at_t: Array
    lengths: Array
    indices: Array

    __setstate__ = _no_state

    def __post_init__(self) -> None:
        data = _with_axes(adopt(self.data)[1], 2, "data", "(steps, n, *item)")
        structure = _ordered(self)
        steps, n = data.shape[:2]
        if structure.order.size_at_t.size != steps:
            raise StructureError(
                f"size_at_t must have one number a step, but there are "
                f"{structure.order.size_at_t.size} numbers and data has {steps} steps"
            )
        if structure.n != n:
            raise StructureError(
                f"there are {structure.n} lengths, but data has {n} columns, shape {tuple(data.shape)}"
            )
        self._set(data=data, _structure=structure, _shape=data.shape, _dtype=data.dtype, **_fields(structure))

    @property
    def item_shape(self) -> Shape:
        return tuple(self._shape[2:])


def _ordered(x: Any) -> Structure:
    return Structure.of_order(
        integers(x.lengths, "lengths"), integers(x.indices, "indices"), integers(x.size_at_t, "size_at_t")
    )


def _fields(structure: Structure) -> dict[str, Array]:
    order = structure.order
    return {"size_at_t": order.size_at_t, "lengths": order.lengths, "indices": order.indices}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Packed(Encoding):
    """`Padded` without padding: step after step, each with the sequences that are longer, as PyTorch's PackedSequence.

    Parameters
    ----------
    data : array ``(rows, *item)``
    size_at_t : ``(steps,)`` the sequences longer than t
    lengths : ``(n,)`` falling
    indices : ``(n,)`` the caller's position of column j

    ``==`` asks whether both are one object; `seqformats.equal` compares what they hold.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.convert([np.array([1, 2]), np.array([3, 4, 5])], sf.Packed)
    >>> x.data, x.size_at_t
    (array([3, 1, 4, 2, 5]), array([2, 2, 1]))
    """

    data: Array
    size_at_t: Array
    lengths: Array
    indices: Array

    __setstate__ = _no_state

    def __post_init__(self) -> None:
        data = _with_axes(adopt(self.data)[1], 1, "data", "(rows, *item)")
        structure = _ordered(self)
        if structure.rows != data.shape[0]:
            raise StructureError(f"lengths add up to {structure.rows}, but data has {data.shape[0]} rows")
        self._set(data=data, _structure=structure, _shape=data.shape, _dtype=data.dtype, **_fields(structure))

    @property
    def item_shape(self) -> Shape:
        return tuple(self._shape[1:])

    @classmethod
    def from_torch(cls, packed: Any) -> Packed:
        """From a ``torch.nn.utils.rnn.PackedSequence``; its data is not copied.

        TypeError for anything else, StructureError for one whose parts do not fit.
        """
        if not hasattr(packed, "batch_sizes") or not hasattr(packed, "sorted_indices"):
            raise TypeError(f"from_torch takes a PackedSequence, not {type(packed).__name__}")
        size_at_t = integers(packed.batch_sizes, "batch_sizes")
        n = int(size_at_t[0]) if size_at_t.size else 0
        if (size_at_t < 0).any() or (np.diff(size_at_t) > 0).any():
            raise StructureError(f"batch_sizes must fall and not be negative, but are {size_at_t.tolist()}")
        indices = np.arange(n) if packed.sorted_indices is None else packed.sorted_indices
        lengths = (size_at_t[None, :] > np.arange(n)[:, None]).sum(1) if n * size_at_t.size < 1 << 16 else None
        if lengths is None:  # column j lives as long as there are more than j sequences
            lengths = np.searchsorted(-size_at_t, -np.arange(n), side="left")
        return cls(packed.data, size_at_t, lengths, indices)

    def to_torch(self) -> Any:
        """A ``torch.nn.utils.rnn.PackedSequence`` of the same data, which must be a torch tensor.

        Its first batch size is how many sequences there are, so one without items has no place in it, wherever it
        stands: ``x[sf.lengths(x) > 0]`` leaves them out.  No sequence at all is one step without rows.

        TypeError where the data is no tensor; StructureError for empty sequences.
        """
        library = library_of(self.data)
        if library.name != "torch":
            raise TypeError(f"to_torch needs data in torch, but it is an array of {library.name}")
        torch = library.torch  # type: ignore[attr-defined]
        empty = len(self) - int(np.count_nonzero(self.lengths))
        if empty:
            raise StructureError(
                f"{empty} of {len(self)} sequences are empty, which a PackedSequence cannot hold: its batch sizes "
                "count those that go on; x[sf.lengths(x) > 0] leaves the empty ones out"
            )
        order = torch.from_numpy(self.indices.copy()).to(library.device(self.data))
        sizes = self.size_at_t[: self.max_length].copy() if len(self) else np.zeros(1, np.int64)
        return torch.nn.utils.rnn.PackedSequence(self.data, torch.from_numpy(sizes), order)


_SIDES = ("right", "left")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Masked(Encoding):
    """A rectangle, batch-major, in the caller's order, with the padding on one side.

    Parameters
    ----------
    data : array ``(n, width, *item)``, ``width`` at least the longest length
    lengths : ``(n,)``
    side : "right" or "left", where the padding is

    ``==`` asks whether both are one object; `seqformats.equal` compares what they hold.

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

    data: Array
    lengths: Array
    side: str = "right"

    __setstate__ = _no_state

    def __post_init__(self) -> None:
        data = _with_axes(adopt(self.data)[1], 2, "data", "(n, width, *item)")
        if not isinstance(self.side, str):
            raise TypeError(f'side must be "right" or "left", not {said(self.side)}')
        if self.side not in _SIDES:
            raise StructureError(f'side must be "right" or "left", not {said(self.side)}')
        if is_array(self.lengths) and len(shape := shape_of(self.lengths, "lengths")) == 2:
            raise StructureError(
                f"lengths must have one axis, but have shape {shape}; a mask is for Masked.from_mask(data, mask)"
            )
        structure = Structure.of_lengths(integers(self.lengths, "lengths"))
        n, width = data.shape[:2]
        if structure.n != n:
            raise StructureError(f"there are {structure.n} lengths, but data has {n} rows, shape {tuple(data.shape)}")
        if structure.longest > width:
            i = int(structure.lengths.argmax())
            raise StructureError(f"lengths[{i}] is {structure.longest}, but data is only {width} wide")
        self._set(data=data, lengths=structure.lengths, _structure=structure, _shape=data.shape, _dtype=data.dtype)

    @property
    def item_shape(self) -> Shape:
        return tuple(self._shape[2:])

    @property
    def mask(self) -> Array:
        """``(n, width)`` bool, True where there is an item; in data's library, on its device."""
        mask: Array = registry.service("mask_of")(self)
        return mask

    @classmethod
    def from_mask(cls, data: Array, mask: Array) -> Masked:
        """From ``data (n, width, *item)`` and ``mask (n, width)``, True where there is an item.

        Every row of the mask must be True first and False after (padding on the right), or every row the other way
        round; StructureError otherwise.  Integers 0 and 1 will do, as tokenizers give them.  A mask on another device
        is copied to the host.

        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Masked.from_mask(np.array([[7, 8, 0], [9, 0, 0]]), np.array([[1, 1, 0], [1, 0, 0]])).lengths
        array([2, 1])
        """
        data = _with_axes(adopt(data)[1], 2, "data", "(n, width, *item)")
        library, given = adopt(mask, "mask")
        where = library.to_numpy(given)
        if where.dtype.kind not in "biu":
            raise TypeError(f"mask must be bool (or 0 and 1), not {where.dtype}")
        if where.shape != tuple(data.shape[:2]):
            raise StructureError(f"mask has shape {where.shape}, but data has {tuple(data.shape[:2])} rows and columns")
        if where.dtype.kind != "b":
            if ((where != 0) & (where != 1)).any():
                raise StructureError("mask must hold 0 and 1 only")
            where = where.astype(bool)
        lengths = where.sum(1, dtype=np.int64)
        place = np.arange(where.shape[1])
        for side, right in (
            ("right", place < lengths[:, None]),
            ("left", place >= where.shape[1] - lengths[:, None]),
        ):
            if np.array_equal(where, right):
                return cls(data, lengths, side)
        i = int((where != (place < lengths[:, None])).any(1).argmax())
        raise StructureError(
            f"every row of a mask must be True first and False after, or the other way round; row {i} is "
            f"{where[i].astype(int).tolist()[:20]}"
        )


class _Deep(Encoding):
    __slots__ = ("_levels",)

    _levels: tuple[Structure, ...]  # outermost first


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class LoD(_Deep):
    """Level of detail: sequences of sequences, to any depth, as relative offsets.

    Parameters
    ----------
    data : array ``(rows, *item)``
    lod : offset arrays, outermost level first, at least one.  A level's offsets index the sequences of the next level,
        the innermost level's index rows; each begins with 0 and never falls.

    `len` and indexing are about the outermost sequences.

    ``==`` asks whether both are one object; `seqformats.equal` compares what they hold.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.arange(7), [[0, 2, 3], [0, 2, 4, 7]])
    >>> x
    LoD(shape (7,), int64, cpu, 2 levels, 2 sequences of lengths [2, 1])
    >>> x.to_nested()
    [[[0, 1], [2, 3]], [[4, 5, 6]]]
    """

    data: Array
    lod: tuple[Array, ...]

    keeps_levels: ClassVar[bool] = True
    __setstate__ = _no_state

    def __post_init__(self) -> None:
        data = _with_axes(adopt(self.data)[1], 1, "data", "(rows, *item)")
        levels = _checked_levels(self.lod, data.shape[0])
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

    @property
    def item_shape(self) -> Shape:
        return tuple(self._shape[1:])

    def __repr__(self) -> str:
        count = len(self.lod)
        return (
            f"LoD(shape {tuple(self.data.shape)}, {self.dtype}, {self.device}, {count} level{'s' * (count > 1)}, "
            f"{len(self)} sequences of lengths {shown(self._levels[0].lengths)})"
        )

    @classmethod
    def from_lengths(cls, data: Array, lengths: Sequence[Any]) -> LoD:
        """From the lengths of every level, outermost first (Paddle's recursive_sequence_lengths).

        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD.from_lengths(np.arange(7), [[2, 1], [2, 2, 3]]).lod
        (array([0, 2, 3]), array([0, 2, 4, 7]))
        """
        data = _with_axes(adopt(data)[1], 1, "data", "(rows, *item)")
        given = _level_arrays(lengths, "lengths")
        levels = tuple([Structure.of_lengths(level, None, f"lengths[{k}]") for k, level in enumerate(given)])
        _check_levels(levels, data.shape[0], "lengths")
        return build_lod(data, levels)

    @classmethod
    def from_nested(cls, lists: Any, dtype: Any = None, levels: int | None = None) -> LoD:
        """From nested lists: every list is a level, numbers are leaves, an array is an innermost sequence.

        Parameters
        ----------
        lists : nested lists or tuples
        dtype : of the leaves; NumPy's choice without it
        levels : how many lists deep the levels go, where the lists themselves cannot tell (only empty ones), or where
            the lists further in are items of one shape

        Errors: StructureError for leaves at different depths, TypeError for leaves that are no numbers.

        >>> import seqformats as sf
        >>> sf.LoD.from_nested([[[1, 2], [3]], [], [[4]]]).lod
        (array([0, 2, 2, 3]), array([0, 2, 3, 4]))
        """
        return registry.service("from_nested")(lists, dtype, levels)  # type: ignore[no-any-return]

    @classmethod
    def from_absolute(cls, data: Array, lod: Sequence[Any], empties: str = "raise") -> LoD:
        """From absolute offsets, where every level indexes rows.

        Absolute offsets cannot tell to which outer sequence an empty sequence at a boundary belongs.

        Parameters
        ----------
        data : array ``(rows, *item)``
        lod : offset arrays, outermost first
        empties : what to do then: "raise" a StructureError, or count them to the outer sequence on their "left" or
            "right"

        Errors: StructureError also for an outer boundary that does not occur in the level below.

        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD.from_absolute(np.arange(7), [[0, 4, 7], [0, 2, 4, 7]]).lod
        (array([0, 2, 3]), array([0, 2, 4, 7]))
        """
        if not isinstance(empties, str):
            raise TypeError(f'empties must be "raise", "left" or "right", not {said(empties)}')
        if empties not in ("raise", "left", "right"):
            raise StructureError(f'empties must be "raise", "left" or "right", not {said(empties)}')
        data = _with_axes(adopt(data)[1], 1, "data", "(rows, *item)")
        given = _level_arrays(lod, "lod")
        below = None
        levels: list[Structure] = []
        for k in range(len(given) - 1, -1, -1):
            offsets = given[k]
            _ends_at(Structure.of_offsets(offsets.copy(), f"lod[{k}]"), data.shape[0], f"lod[{k}]", "data has {} rows")
            relative = offsets if below is None else _relative(offsets, below, k, empties)
            levels.insert(0, Structure.of_offsets(relative, f"lod[{k}]"))
            below = offsets
        _check_levels(tuple(levels), data.shape[0], "lod")
        return build_lod(data, tuple(levels))

    def to_nested(self) -> list[Any]:
        """Nested lists; the leaves are Python scalars for item shape (), else arrays.

        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD(np.arange(3), [[0, 1, 3]]).to_nested()
        [[0], [1, 2]]
        """
        return registry.service("to_nested")(self)  # type: ignore[no-any-return]

    def lengths(self) -> list[list[int]]:
        """The lengths of every level, outermost first (Paddle's recursive_sequence_lengths)."""
        return [level.lengths.tolist() for level in self._levels]

    def absolute(self) -> tuple[Array, ...]:
        """The offsets of every level counted in rows, outermost first.

        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD(np.arange(7), [[0, 2, 3], [0, 2, 4, 7]]).absolute()
        (array([0, 4, 7]), array([0, 2, 4, 7]))
        """
        return tuple([rows_of_level(self, k) for k in range(len(self.lod))])

    def sub(self, start: int, stop: int, level: int = 0) -> LoD:
        """Sequences `start` to `stop` of `level`, with the levels from there inward, re-based; a view.

        IndexError for a level or a range that does not exist.

        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD(np.arange(7), [[0, 2, 3], [0, 2, 4, 7]]).sub(1, 2).to_nested()
        [[[4, 5, 6]]]
        """
        k = level_index(self, level)
        n = self._levels[k].n
        start, stop = whole(start, "start"), whole(stop, "stop")
        if not 0 <= start <= stop <= n:
            raise IndexError(f"level {k} has {n} sequences; there is no range {said(start)} to {said(stop)}")
        return registry.service("lod_slice")(self, k, start, stop)  # type: ignore[no-any-return]


def _level_arrays(given: Any, what: str) -> list[Array]:
    if is_array(given):
        array = adopt(given, what)[1]
        if len(array.shape) == 2:
            check_room(array.shape[0], OBJECT, f"levels in {what}")
            given = list(array)
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise TypeError(f"{what} must be a sequence of levels, not {type(given).__name__}")
    if len(given) == 0:
        raise StructureError(f"{what} must have at least one level")
    for k, level in enumerate(given):
        if isinstance(level, int) or (not isinstance(level, (Sequence, types.NoneType)) and not is_array(level)):
            raise TypeError(f"{what} must be a sequence of levels, but {what}[{k}] is {said(level)}")
    return [integers(level, f"{what}[{k}]") for k, level in enumerate(given)]


def _checked_levels(lod: Any, rows: int) -> tuple[Structure, ...]:
    given = _level_arrays(lod, "lod")
    levels = tuple([Structure.of_offsets(level, f"lod[{k}]") for k, level in enumerate(given)])
    _check_levels(levels, rows, "lod")
    return levels


def _check_levels(levels: tuple[Structure, ...], rows: int, what: str) -> None:
    for k in range(len(levels) - 1):
        _ends_at(levels[k], levels[k + 1].n, f"{what}[{k}]", f"{what}[{k + 1}] has {{}} sequences")
    _ends_at(levels[-1], rows, f"{what}[{len(levels) - 1}]", "data has {} rows")


def _relative(outer: Array, inner: Array, k: int, empties: str) -> Array:
    """Row offsets of a level as indices into the row offsets of the level below."""
    first: Array
    last: Array
    if outer.size == 1 < inner.size:
        raise StructureError(f"lod[{k}] has no sequence, but lod[{k + 1}] has {inner.size - 1}")
    first = np.searchsorted(inner, outer, side="left")
    last = np.searchsorted(inner, outer, side="right") - 1
    missing = first > last
    if missing.any():
        j = int(missing.argmax())
        raise StructureError(f"lod[{k}][{j}] is row {outer[j]}, which is no boundary of lod[{k + 1}]")
    if empties == "raise" and outer.size > 2:
        unclear = (first < last)[1:-1]
        if unclear.any():
            j = int(unclear.argmax()) + 1
            raise StructureError(
                f"lod[{k}][{j}] = {outer[j]} occurs {last[j] - first[j] + 1} times in lod[{k + 1}]: absolute offsets "
                'cannot tell whose empty sequences these are; give empties="left" or "right", or relative offsets'
            )
    relative = last if empties == "left" else first
    relative = relative.astype(np.int64)
    relative[0] = 0
    relative[-1] = inner.size - 1
    return np.asarray(relative)


def is_valid_lod(lod: Any, rows: int) -> bool:
    """Are these relative offsets valid for data of `rows` rows?  Never raises for wrong values.

    >>> import seqformats as sf
    >>> sf.is_valid_lod([[0, 2, 3], [0, 2, 4, 7]], 7)
    True
    >>> sf.is_valid_lod([[0, 3, 6], [0, 2, 3, 3, 3, 9]], 9)
    False
    """
    try:
        _checked_levels(lod, min(max(whole(rows, "rows"), -1), MOST))
    except (StructureError, TypeError):
        return False
    return True


def level_index(x: Any, level: int) -> int:
    """A level of a LoD counted from the outermost; IndexError where there is none.  Other encodings have one."""
    count = len(x.lod) if isinstance(x, LoD) else 1
    k = whole(level, "level")
    if not -count <= k < count:
        raise IndexError(f"there is no level {said(level)}; {type(x).__name__} has {count}, outermost first")
    return k % count


def rows_of_level(x: LoD, k: int) -> Array:
    """The offsets of level k counted in rows; read-only."""
    offsets = x.lod[-1]
    for inner in reversed(x.lod[k:-1]):
        offsets = offsets[inner]
    return frozen(offsets)


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Two encodings, or arrays, over the same n sequences; converted member by member.

    ``==`` asks whether both are one object; `seqformats.equal` compares what they hold.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Pairs(sf.Ragged(np.arange(3), [1, 2]), sf.Ragged(np.arange(4), [3, 1]))
    >>> sf.convert(x, sf.List).two.items
    (array([0, 1, 2]), array([3]))
    """

    one: Any
    two: Any

    __setstate__ = _no_state

    def __post_init__(self) -> None:
        for name in ("one", "two"):
            member = getattr(self, name)
            if isinstance(member, (list, tuple)):
                object.__setattr__(self, name, registry.service("as_encoding")(member))
            elif is_array(member):
                if not shape_of(member, name):
                    raise TypeError(f"{name} must have an axis for the sequences, but is a single number")
                if library_of_type(type(member)) is None:  # as one of a library that is known here
                    object.__setattr__(self, name, adopt(member, name)[1])
            elif not registry.service("is_encoding")(member):
                raise TypeError(f"{name} must be an encoding or an array, not {type(member).__name__}")
        one, two = (registry.service("count")(member) for member in (self.one, self.two))
        if one != two:
            raise StructureError(f"one has {one} sequences, but two has {two}")

    def __reduce__(self) -> Any:
        return type(self), (self.one, self.two)

    def __len__(self) -> int:
        return int(registry.service("count")(self.one))

    def __iter__(self) -> Iterator[Pairs]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Pairs:
        if not isinstance(index, (slice, list)) and not is_array(index):
            place = registry.service("place")(index, len(self))
            index = slice(place, place + 1)
        return Pairs(_members(self.one, index), _members(self.two, index))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("Pairs are two batches; take x.one or x.two")

    @property
    def device(self) -> str:
        """Where the first member lives."""
        if is_array(self.one):
            library, array = adopt(self.one)
            return library.device(array)
        return str(getattr(self.one, "device", "cpu"))


def _members(x: Any, index: Any) -> Any:
    if is_array(x):
        return registry.service("take_rows")(x, index)
    return x[index] if isinstance(x, (Encoding, Pairs)) else registry.service("select")(x, index)


# --- the private door ------------------------------------------------------------------------------------------------
# Results built inside are valid by construction.  A twin with the same slots is filled without the checks (and without
# the frozen dataclass's setters, which cost more than the allocation) and then becomes the real thing.


class _OpenData(Encoding):
    __slots__ = ("data", "lengths")


class _OpenMasked(Encoding):
    __slots__ = ("data", "lengths", "side")


class _OpenSteps(Encoding):
    __slots__ = ("data", "indices", "lengths", "size_at_t")


class _OpenList(Encoding):
    __slots__ = ("items", "like")


class _OpenLoD(_Deep):
    __slots__ = ("data", "lod")


def _seal(x: Any, kind: type, data: Array, structure: Structure) -> Any:
    x.data = data
    x._structure = structure
    x._shape = data.shape
    x._dtype = data.dtype
    x.__class__ = kind
    return x


def build_ragged(data: Array, structure: Structure) -> Ragged:
    """A `Ragged` that needs no check."""
    x: Any = _OpenData()
    x.lengths = structure.lengths
    return _seal(x, Ragged, data, structure)  # type: ignore[no-any-return]


def build_masked(data: Array, structure: Structure, side: str) -> Masked:
    """A `Masked` that needs no check."""
    x: Any = _OpenMasked()
    x.lengths = structure.lengths
    x.side = side
    return _seal(x, Masked, data, structure)  # type: ignore[no-any-return]


def build_padded(data: Array, structure: Structure) -> Padded:
    """A `Padded` that needs no check; its columns are in the order of `structure`."""
    steps = data.shape[0]
    order = structure.order
    size_at_t = order.size_at_t
    if steps != size_at_t.size:
        try:
            sizes = np.zeros(steps, np.int64)
        except NO_ROOM as error:
            raise no_room((steps,), error) from None
        alive = min(steps, size_at_t.size)
        sizes[:alive] = size_at_t[:alive]
        size_at_t = frozen(sizes)
    x: Any = _OpenSteps()
    x.size_at_t = size_at_t
    x.lengths = order.lengths
    x.indices = order.indices
    return _seal(x, Padded, data, structure)  # type: ignore[no-any-return]


def build_packed(data: Array, structure: Structure) -> Packed:
    """A `Packed` that needs no check; its rows are in the order of `structure`."""
    order = structure.order
    x: Any = _OpenSteps()
    x.size_at_t = order.size_at_t[: structure.longest]
    x.lengths = order.lengths
    x.indices = order.indices
    return _seal(x, Packed, data, structure)  # type: ignore[no-any-return]


def build_lod(data: Array, levels: tuple[Structure, ...]) -> LoD:
    """A `LoD` that needs no check."""
    x: Any = _OpenLoD()
    x.lod = tuple([level.offsets for level in levels])
    x._levels = levels
    return _seal(x, LoD, data, levels[-1])  # type: ignore[no-any-return]


def build_list(items: tuple[Array, ...], structure: Structure, like: Array) -> List:
    """A `List` that needs no check; `like` gives dtype and item shape (the shape of its rows)."""
    x: Any = _OpenList()
    x.items = items
    x.like = None if items else like
    x._structure = structure
    x._shape = (-1, *like.shape[1:])
    x._dtype = like.dtype
    x.__class__ = List
    return x  # type: ignore[no-any-return]
