"""The base class of all encodings, and the questions that each answers.

Structure (lengths, offsets, indices, sizes) is on the host, int64, read-only and the encoding's own; data stays in the
caller's array library and on its device.  "Sequence i" means the caller's order everywhere; only the fields of `Padded`
and `Packed` are sorted by falling length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self

import numpy as np

from .. import core, registry
from ..arrays import NUMPY, Array, DType, Library, Shape, is_array, library_of
from ..errors import BROKEN, CHANGED, ITEMS, KIND, OVERFLOW, SHAPE, quote
from ..launch.kernel import kernel
from ..layout import Layout
from ..lazy_import import import_now
from .annotations import Data, Index, Shaped
from .arithmetic import Arithmetic
from .index import places
from .moving import Movable, Resident
from .rows import OutputSpec
from .sequences import Sequences
from .structure import Structure
from .tensors import InPyTorch

pick_sequences = kernel("pick_sequences")

_SHOWN = 6  # lengths that a repr shows


class Encoding(Movable, Resident, InPyTorch, Arithmetic, Generic[Data]):
    """Base class of all encodings.

    Notes
    -----
    The methods and attributes with one underscore are the questions that the rest of the library asks, so that it need
    not know which encoding it has before it.  A new encoding is a frozen dataclass with slots that answers them;
    `converters.layouts.enter` enters it into the table of conversions, and every operation knows it from then on.
    ``tests/native_encoding.py`` has one in full.

    What it says of its class:

    ``_lead``
        how many axes of `data` come before those of an item
    ``_flat``
        whether `data` is all rows in the caller's order, one sequence after the other: such encodings share memory
    ``_by_steps``
        whether sequences lie by time steps, by falling length, so that an item's neighbours are not side by side
    ``_gapped``
        whether `data` may have places that no row takes; an operation fills them with zeros
    ``_in_one_array``
        False for a `List` alone, whose items are arrays of their own
    ``_in_pieces``
        whether each sequence lies in one piece, of which `_piece` and `_all_pieces` give views
    ``_moved_to``
        False where rows cannot be moved to it by `_output_spec` and `_freeze`
    ``_can_plan``
        whether calls over it may be kept as plans: `data` is one array, whose rows lie where structure, form and shape
        of it say
    ``_form_options``
        the names of the options of `convert` that decide its form, in the order of `_form`

    Two things decide where rows lie: the *structure*, the lengths and their order, which encodings share, and the
    *form*, a tuple of all else (the width of a rectangle, the side of its padding, the levels of a `LoD`).

    ``_form(longest)``
        the form that it has, or would have if there were a sequence of `longest`; `convert_like` makes others like it
    ``_layout()``
        a `Layout`: where the rows lie in `data`.  Every kernel reads by it, whatever the encoding
    ``_output_spec(structure, *form)``
        the leading shape of an array for sequences of this structure, the `Layout` that says where their rows belong in
        it, and which places stay free (`formats.rows.Gaps`), None where none can.  The same for what is to be written
        as `_layout` for what is there.  A part of the form that is None, or left out, is the smallest that fits; an
        impossible one that a caller has asked for is a ConversionError
    ``_freeze(data, structure, *form)``
        the encoding over an array that has been filled so.  Nothing is checked: data may be something that only has a
        shape and a dtype
    ``_with_data(data)``
        the same over other data with the same leading shape; for results in the layout of what they come from
    ``_padding()``
        whether there are such free places now
    ``_choose(where)``
        the sequences at some places, in that order: ``x[[3, 0]]``
    ``_slice(start, stop)``
        the same for a range, where views will do; without it `_choose` is asked
    ``_piece(i)``, ``_all_pieces()``
        the array of sequence i, and those of all, where each lies in one piece; else those of a `Ragged` do

    The constructor checks what it is given, since kernels check nothing, and fills `_structure`, `_shape` and `_dtype`
    beside its own fields.  The other questions have answers here for every encoding with its data in one array.
    """

    if TYPE_CHECKING:  # tells encodings of this library from others, see `converters.annotations.OtherDataclass`

        def __sizeof__(self, own: None) -> int: ...  # type: ignore[override]

    __slots__ = ("__weakref__", "_dtype", "_shape", "_structure")

    _structure: Structure  # of the innermost level
    _shape: Shape  # of data when it was validated: an array can be resized under us
    _dtype: DType

    keeps_levels: ClassVar[bool] = False
    _lead: ClassVar[int] = 1
    _flat: ClassVar[bool] = False
    _by_steps: ClassVar[bool] = False
    _gapped: ClassVar[bool] = False
    _in_one_array: ClassVar[bool] = True
    _in_pieces: ClassVar[bool] = False
    _moved_to: ClassVar[bool] = True
    _can_plan: ClassVar[bool] = True
    _form_options: ClassVar[tuple[str, ...]] = ()

    data: Data
    _unshaped: ClassVar[Any] = property(lambda self: self._form())
    """Key of that part of the form which neither the shape of `data` nor the structure tells."""

    if TYPE_CHECKING:  # fields that are handed out as views, themselves; see `with_views`
        _lengths: Array
        _indices: Array
        _size_at_t: Array

    # --- what a user asks ----------------------------------------------------

    @property
    def dtype(self) -> DType:
        """The dtype of the items, in data's library."""
        return self._dtype

    @property
    def item_shape(self) -> Shape:
        """The shape of one item: () for token ids, (width,) for vectors."""
        return tuple(self._shape[self._lead :])

    @property
    def rows(self) -> int:
        """Items in all sequences together, padding not counted."""
        return self._structure.rows

    @property
    def max_length(self) -> int:
        """Number of items in the longest sequence (of the innermost level); 0 where there is none."""
        return self._structure.longest

    @property
    def device(self) -> str:
        """Device of the data: "cpu", "cuda:0", ..."""
        data = self._sample()
        return library_of(data).device(data)

    def __len__(self) -> int:
        return self._structure.n

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Index) -> Self:
        found: Self | None = core.pick(self, index)
        if found is not None:
            return found
        where = places(index, len(self))
        return self._slice(where.start, where.stop) if type(where) is slice else self._choose(where)

    def sequences(self) -> Sequences[Data]:
        """The sequences (of the innermost level) in the caller's order, each as an array ``(length, *item)``.

        Returns
        -------
        a sequence of arrays
            With `len`, ``[i]``, slices and iteration; nothing is made before it is asked for.  The arrays are views,
            those of a `Padded` strided; those of a `Packed` are views of one copy.

        See Also
        --------
        seqformats.map_sequences : A function of every sequence.

        Notes
        -----
        ``x[i]`` is a batch of one sequence, which is what a layer takes; this is for code that takes arrays.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> x = sf.convert([np.array([1, 2]), np.array([3, 4, 5])], sf.Masked)
        >>> [sequence.tolist() for sequence in x.sequences()]
        [[1, 2], [3, 4, 5]]
        >>> x.sequences()[-1]
        array([3, 4, 5])
        """
        return Sequences(self, self._structure.n)

    def to_nested(self) -> list[Any]:
        """Nested lists, one per sequence of each level; leaves are Python numbers for item shape (), otherwise arrays.

        Returns
        -------
        list

        See Also
        --------
        seqformats.LoD.from_nested : The way back.

        Notes
        -----
        The same as ``sf.convert(x, list)``; data on a GPU is copied to the host.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.LoD(np.arange(3), [[0, 1, 3]]).to_nested()
        [[0], [1, 2]]
        """
        nested: list[Any] = registry.service("converters").convert(self, list)
        return nested

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> np.ndarray:
        try:
            return np.array(self.data, dtype, copy=copy)
        except RuntimeError as error:  # a tensor that asks for a gradient
            raise ITEMS(f"these items cannot become a NumPy array: {error}") from None

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The batch as a column of lists, by the Arrow PyCapsule interface; see `to_arrow`."""
        capsules: tuple[object, object] = registry.service("arrow").to_capsules(self, requested_schema)
        return capsules

    @property
    def _numba_type_(self) -> object:
        """Its type in functions that Numba compiles, which asks for it with every call."""
        try:
            numba_type = registry.service("numba_type")
        except KeyError:
            raise AttributeError("nobody has imported Numba") from None
        return numba_type(self)

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Any, ...]]:
        own: Any = self  # a dataclass, as every encoding is
        values = zip(fields(own), self._values(), strict=True)
        return restored, (type(self), *[x if f.name in _OF_ITEMS else _store(x) for f, x in values])

    def __copy__(self) -> Self:
        values = self._values()  # after which a late one is of its own class
        return type(self)(*values)

    def __repr__(self) -> str:
        if self._made_of_others():
            leaves = self._leaves()
            held = quote(leaves[0] if self._in_one_array else tuple(leaves))
            return f"{type(self).__name__}({held} in place of items, {self._structure.n} sequences)"
        return f"{type(self).__name__}({self._describe()}, {self._summary()})"

    def _repr_html_(self) -> str | None:
        """The layout, drawn to scale, for notebooks; no item is read."""
        if self._made_of_others():
            return None
        pictures = import_now(".pictures", __package__)
        drawn: str = pictures.html(pictures.picture(self))
        return drawn

    def _made_of_others(self) -> bool:
        """Tell whether a function of leaves has put something else in the place of its arrays."""
        leaves = self._leaves()
        return bool(leaves) and not all(map(is_array, leaves))

    def _values(self) -> list[Any]:
        """Arguments of its constructor."""
        own: Any = self  # a dataclass, as every encoding is
        return [getattr(self, field.name) for field in fields(own)]

    def _describe(self) -> str:
        return f"shape {tuple(self.data.shape)}"

    def _summary(self) -> str:
        return f"{self.dtype}, {self.device}, {len(self)} sequences of lengths {abridge(self._structure.lengths)}"

    # --- what the library asks -----------------------------------------------

    @property
    def _levels(self) -> tuple[Structure, ...]:
        """The structures of all levels, outermost first."""
        return (self._structure,)

    def _sample(self) -> Array:
        """An array of data's library, dtype and device."""
        data: Any = self.data
        sample: Array = data
        return sample

    def _form(self, longest: int = 0) -> tuple[Any, ...]:
        """Options of its layout beside the structure, wide enough for sequences of `longest`."""
        return ()

    def _layout(self) -> Layout:
        """Layout of its rows in data; here of sequences one after the other."""
        return self._structure.flat

    def _look(self) -> Library:
        """Return the library of data; StructureError if the data was changed since it was validated."""
        data: Any = self.data
        if type(data) is np.ndarray:
            library: Library = NUMPY
            contiguous = data.flags.c_contiguous
        else:
            library = library_of(data)
            contiguous = library.contiguous(data)
        dtype = data.dtype
        if data.shape != self._shape or (dtype is not self._dtype and dtype != self._dtype) or not contiguous:
            raise CHANGED(
                f"data was {describe(self._shape, self._dtype)} when this {type(self).__name__} was built, but is "
                f"{describe(data.shape, dtype, contiguous)} now; build a new one"
            )
        return library

    def _read(self) -> tuple[Any, ...]:
        """Its rows, to be read, after the same look: the fields of a `Source`."""
        data = self.data
        return self._look(), data, self._layout(), self._structure, data, self._shape[self._lead :], None

    @classmethod
    def _output_spec(cls, structure: Structure, *form: Any) -> OutputSpec:
        """Shape that its data needs for sequences of this structure; here of sequences one after the other."""
        return (structure.rows,), structure.flat, None

    @classmethod
    def _freeze(cls, data: Shaped, structure: Structure, *form: Any) -> Self:
        """The encoding over such data; nothing is checked."""
        raise NotImplementedError

    def _padding(self) -> bool:
        """Tell whether there are places in data that no row takes."""
        return False

    def _leaves(self) -> list[Any]:
        """The arrays that hold its items."""
        return [self.data]

    def _with_leaves(self, leaves: Sequence[Shaped]) -> Self:
        """Return this encoding over other leaves with the same leading shapes, without a check."""
        return self._with_data(leaves[0])

    def _with_data(self, data: Shaped) -> Self:
        """Return this encoding over other data with the same leading shape, without a check."""
        raise NotImplementedError

    def _slice(self, start: int, stop: int) -> Self:
        """A range of its sequences, views where they lie side by side."""
        return self._choose(np.arange(start, stop))

    def _choose(self, where: Array) -> Self:
        """Its sequences at the places `where`, in that order."""
        raise NotImplementedError

    def _piece(self, i: int) -> Array:
        """Sequence i, a view; here of data that is `_flat`."""
        data: Any = self.data
        offsets = self._structure.offsets
        piece: Array = data[offsets.item(i) : offsets.item(i + 1)]
        return piece

    def _all_pieces(self) -> Iterable[Array]:
        """All of them."""
        data: Any = self.data
        structure = self._structure
        return library_of(data).split(data, structure.lengths, structure.offsets)

    def _set(self, **values: object) -> None:
        """Fill the fields of a frozen dataclass during construction."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


_OF_ITEMS = ("data", "items", "like")


def _store(value: Any) -> Any:
    """A field of the structure in a pickle: integers as bytes, since unpicklers that trust few types know those."""
    if type(value) is tuple:
        return tuple(map(_store, value))
    whole = type(value) is np.ndarray and value.ndim == 1 and value.dtype == np.int64
    # no bytes at all would be a call of `bytes` in some pickles
    return value.astype("<i8", copy=False).tobytes() or () if whole else value


def _read_back(value: object) -> Any:
    if type(value) is tuple:
        return tuple(map(_read_back, value))
    if type(value) is not bytes:
        return value
    if len(value) % 8:
        raise BROKEN(f"a pickle holds {len(value)} bytes of int64, which is no whole number of them")
    return np.frombuffer(value, "<i8").astype(np.int64)


def restored(kind: type[Encoding], *values: object) -> Any:
    """The encoding that a pickle holds, built and checked by its constructor."""
    if not isinstance(kind, type) or not issubclass(kind, Encoding):
        raise KIND(f"a pickle of an encoding names its class, not {quote(kind)}")
    return kind(*map(_read_back, values))


def no_state(self: Encoding, _: object) -> NoReturn:
    """Pickles rebuild through the constructor; one that sets fields behind its back is forged.

    Each encoding names this itself, since a frozen dataclass with slots would get a `__setstate__` that checks nothing.
    """
    raise KIND(f"a {type(self).__name__} takes no state from a pickle; it is built by its constructor alone")


def abridge(lengths: Array) -> str:
    """The first lengths, for one line."""
    return f"[{', '.join(map(str, lengths[:_SHOWN].tolist()))}{', ...' if lengths.size > _SHOWN else ''}]"


def describe(shape: Shape, dtype: DType, contiguous: bool = True) -> str:
    """An array, for a message."""
    return f"{'items' if dtype is None else dtype} of shape {tuple(shape)}{'' if contiguous else ' and not contiguous'}"


def with_axes(array: Array, least: int, what: str, axes: str) -> Array:
    """The array; StructureError where it has fewer axes than `least`."""
    if len(array.shape) < least:
        raise SHAPE(f"{what} must have the axes {axes}, but has shape {tuple(array.shape)}")
    return array


def open_kind(kind: type) -> type[Any]:
    """A twin of an encoding to be filled without checks, for results that are valid by construction.

    A frozen dataclass is filled by ``object.__setattr__``, each call of which takes longer than a plain assignment to a
    slot: for the fields of an encoding more than its whole allocation.  The twin has the same slots and bases, so the
    same layout in memory, but no setters of its own; once filled it becomes the real thing by ``x.__class__ = kind``.
    """
    return type(f"_Open{kind.__name__}", kind.__bases__, {"__slots__": vars(kind)["__slots__"]})


def without_lengths(kind: type) -> type[Any]:
    """A twin of an encoding whose lengths are still on a device: when it is asked for them it becomes the real thing.

    No other encoding pays for it, as all would for a ``__getattr__`` of their own.
    """

    def __getattr__(self: Any, name: str) -> Any:
        if name not in ("lengths", "_lengths"):
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=self)
        lengths = self._structure.lengths
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "__class__", kind)
        return getattr(self, name)

    own = {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__, "__getattr__": __getattr__}
    return type(kind.__name__, (kind,), own)


def cut_range(structure: Structure, start: int, stop: int) -> Structure:
    """The structure of the sequences `start` to `stop`."""
    lengths = structure.lengths[start:stop]
    offsets = structure.offsets[start : stop + 1]
    return Structure(lengths, offsets - offsets[0], int(lengths.max()) if lengths.size else 0)


def pick(structure: Structure, where: Array) -> tuple[Structure, Array]:
    """The structure of the chosen sequences, and the rows where they begin in the one they are chosen from."""
    k = where.size
    made, starts, _ = core.build_structure(pick_sequences.run, k, k, where, structure.lengths, structure.offsets)
    if made is None:
        raise OVERFLOW(f"{k} sequences add up to more rows than int64 can count")
    return made, starts
