"""Types of the encodings for Numba: what a value holds, and how it comes in and goes out."""

# mypy: allow-subclassing-any, disable-error-code="untyped-decorator"

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, ClassVar

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import NativeValue, box, make_attribute_wrapper, models, register_model, unbox

from .. import registry
from ..errors import DTYPE, KIND, LIBRARY, StructureError
from ..formats import Chunks, Encoding, List, LoD, Masked, Packed, Padded, Ragged
from ..kernels.parts.code import Context, Kind, Value
from ..reading import common_flags

READONLY_INT64 = types.Array(types.int64, 1, "C", readonly=True)
"""Lengths, offsets and all else that the structure holds: to be read, and not to be written."""

# Numba keeps a compiled function of the user on disk for as long as the user's file stays the same.  It has to compile
# it anew where a value of one of these types has come to hold other things, so that is part of the type.
_STAMP = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()[
    :12
]


class BatchType(types.IterableType):
    """The type of an encoding, by that of its data.

    ``reads``
        what a value holds beside data, each with where it is read from in Python, and its type; None for the levels of
        a `LoD`
    ``fields``
        what the checking constructor takes, in its order
    ``public``
        the members that are attributes in compiled functions, and their names there
    """

    encoding: ClassVar[type[Encoding[Any]]]
    reads: ClassVar[dict[str, tuple[str, Kind]]]
    fields: ClassVar[tuple[str, ...]]
    public: ClassVar[dict[str, str]]

    def __init__(self, data: Kind, levels: int = 1) -> None:
        self.data, self.levels, self.stamp = data, levels, _STAMP
        deep = f", {levels} levels" if levels > 1 else ""
        super().__init__(f"{self.encoding.__name__}({data}{deep})")

    @property
    def key(self) -> tuple[object, ...]:
        """The key that tells it from others of its class."""
        return self.data, self.levels, self.stamp

    @property
    def members(self) -> list[tuple[str, Kind]]:
        """The members of a value."""
        return [("data", self.data), *[(name, kind) for name, (_, kind) in self.reads.items()]]

    @property
    def sequence(self) -> Kind:
        """The type of each of its sequences."""
        return self.data

    @property
    def iterator_type(self) -> Kind:
        """The type of what goes over its sequences."""
        return SequencesIterator(self)

    @property
    def mangling_args(self) -> tuple[str, tuple[object, ...]]:
        """The parts that names of compiled functions are made of."""
        return self.encoding.__name__, (self.data, self.levels)


class SequencesIterator(types.SimpleIteratorType):
    """The type of what goes over the sequences of a batch."""

    def __init__(self, batch: BatchType) -> None:
        self.batch = batch
        super().__init__(f"iter({batch})", batch.sequence)


class RaggedType(BatchType):
    """The type of a `Ragged`."""

    encoding = Ragged
    reads: ClassVar = {
        "lengths": ("_structure.lengths.T", READONLY_INT64),
        "offsets": ("_structure.offsets.T", READONLY_INT64),
        "longest": ("_structure.longest", types.int64),
    }
    fields = ("data", "lengths")
    public: ClassVar = {"lengths": "lengths", "offsets": "offsets", "longest": "max_length"}


class MaskedType(BatchType):
    """The type of a `Masked`, which may have its padding on either side."""

    encoding = Masked
    reads: ClassVar = {
        "lengths": ("_structure.lengths.T", READONLY_INT64),
        "rows": ("_structure.rows", types.int64),
        "longest": ("_structure.longest", types.int64),
        "left": ("side", types.int64),  # 1 or 0: Numba stores no bool of a structure in its parallel loops
    }
    fields = ("data", "lengths", "left")
    public: ClassVar = {"lengths": "lengths", "rows": "rows", "longest": "max_length", "left": "_left"}

    @property
    def sequence(self) -> Kind:
        """One of its rows, without the padding."""
        return self.data.copy(ndim=self.data.ndim - 1)


class PaddedType(BatchType):
    """The type of a `Padded`."""

    encoding = Padded
    reads: ClassVar = {
        "size_at_t": ("size_at_t", READONLY_INT64),
        "lengths": ("lengths", READONLY_INT64),
        "indices": ("indices", READONLY_INT64),
        "columns": ("_structure.columns.T", READONLY_INT64),
        "rows": ("_structure.rows", types.int64),
    }
    fields = ("data", "size_at_t", "lengths", "indices")
    public: ClassVar = {
        "size_at_t": "size_at_t",
        "lengths": "lengths",
        "indices": "indices",
        "columns": "_columns",
        "rows": "rows",
    }

    @property
    def sequence(self) -> Kind:
        """One of its columns, so with strides, without the padding."""
        return self.data.copy(ndim=self.data.ndim - 1, layout="A")


class PackedType(BatchType):
    """The type of a `Packed`."""

    encoding = Packed
    reads: ClassVar = {
        "size_at_t": ("size_at_t", READONLY_INT64),
        "lengths": ("lengths", READONLY_INT64),
        "indices": ("indices", READONLY_INT64),
        "columns": ("_structure.columns.T", READONLY_INT64),
        "steps": ("_structure.order.steps.T", READONLY_INT64),
    }
    fields = ("data", "size_at_t", "lengths", "indices")
    public: ClassVar = {
        "size_at_t": "size_at_t",
        "lengths": "lengths",
        "indices": "indices",
        "columns": "_columns",
        "steps": "_steps",
    }

    @property
    def sequence(self) -> Kind:
        """A copy, since the items of a sequence are apart."""
        return types.Array(self.data.dtype, self.data.ndim, "C")


class LoDType(BatchType):
    """The type of a `LoD` of so many levels."""

    encoding = LoD
    reads: ClassVar = {
        "lod": ("lod", None),
        "lengths": ("_structure.lengths.T", READONLY_INT64),
        "longest": ("_structure.longest", types.int64),
    }
    fields = ("data", "lod")
    public: ClassVar = {"lod": "lod", "lengths": "_lengths", "longest": "max_length"}

    @property
    def members(self) -> list[tuple[str, Kind]]:
        """The members of a value."""
        return [(name, kind or types.UniTuple(READONLY_INT64, self.levels)) for name, kind in super().members]

    @property
    def sequence(self) -> Kind:
        """The level below, which is items at last."""
        return LoDType(self.data, self.levels - 1) if self.levels > 1 else self.data


class ListType(BatchType):
    """The type of a `List`, by that of its arrays.

    A value holds where each array lies, and one reference to what keeps all of them: the `List` of Python, or the list
    that it has been built of.
    """

    encoding = List
    reads: ClassVar = {
        "places": ("_layout().starts", READONLY_INT64),
        "lengths": ("_structure.lengths.T", READONLY_INT64),
        "rows": ("_structure.rows", types.int64),
        "longest": ("_structure.longest", types.int64),
        "shape": ("_shape", None),
    }
    fields = ()
    public: ClassVar = {"lengths": "lengths", "rows": "rows", "longest": "max_length", "shape": "_shape"}

    @property
    def members(self) -> list[tuple[str, Kind]]:
        """The members of a value.  The owner is the address of the `List` of Python, 0 where there is none."""
        parts = [(name, kind or types.UniTuple(types.int64, self.data.ndim)) for name, (_, kind) in self.reads.items()]
        return [*parts, ("memory", types.MemInfoPointer(types.voidptr)), ("owner", types.intp)]


BATCH_TYPES: tuple[type[BatchType], ...] = (RaggedType, MaskedType, PaddedType, PackedType, LoDType)
_KIND_OF: dict[type, type[BatchType]] = {kind.encoding: kind for kind in BATCH_TYPES}
_KIND_OF[Chunks] = LoDType
_types: dict[tuple[object, ...], BatchType] = {}
_ALIGNED, _WRITEABLE = 0x100, 0x400  # flags of an array in NumPy's C interface


# --- what Numba asks of a value --------------------------------------------------------------------------------------


@registry.provides("numba_type")
def numba_type(x: Encoding[Any]) -> BatchType:
    """The type of an encoding; TypeError for one that compiled functions cannot take."""
    if type(x) is List:
        return _type_of_list(x)
    try:
        data = x.data
        x._look()  # compiled functions look at no bounds
        key = type(x), data.dtype, data.ndim, data.flags.num, len(x._levels)
        return _types[key]
    except (AttributeError, KeyError, StructureError, TypeError):
        return _new_type(x)


def _new_type(x: Encoding[Any]) -> BatchType:
    """Make the type of an encoding that has not been seen yet."""
    kind = _KIND_OF.get(type(x))
    if kind is None:
        raise KIND(
            f"a {type(x).__name__} does not go into a compiled function; sf.convert(x, sf.Ragged) does, and its arrays"
        )
    array = _type_of_data(x, x.data)
    return _types.setdefault(
        (type(x), x.data.dtype, x.data.ndim, x.data.flags.num, len(x._levels)), kind(array, len(x._levels))
    )


def _type_of_list(x: List[Any]) -> BatchType:
    """The type of a `List`.  Its arrays are looked at when it comes in, which takes where they lie."""
    flags = _ALIGNED | _WRITEABLE
    try:
        flags &= common_flags(x.items)
        return _types[List, x._dtype, len(x._shape), flags]
    except (KeyError, TypeError):
        array = _type_of_data(x, x._sample())
    array = types.Array(array.dtype, array.ndim, "C", not flags & _WRITEABLE, aligned=bool(flags & _ALIGNED))
    return _types.setdefault((List, x._dtype, len(x._shape), flags), ListType(array))


def _type_of_data(x: Encoding[Any], data: Any) -> Kind:
    """The type of the data, or of one array of several; TypeError for data that a compiled function cannot take."""
    try:
        library = x._look()
    except StructureError as error:
        raise KIND(str(error)) from None  # Numba takes a ValueError for any Python object
    if library.kind(data) != "cpu":
        raise LIBRARY(
            f"a compiled function takes data on the host, but this {type(x).__name__} is on {x.device}; "
            'sf.to_device(x, "cpu") brings it there'
        )
    if library.name != "numpy":
        raise LIBRARY(
            f"a compiled function takes a {type(x).__name__} of NumPy arrays, but this is one of {library.name}; "
            'sf.to(x, "numpy") is the same over NumPy arrays'
        )
    if not data.dtype.isnative:
        raise DTYPE(
            f"a compiled function takes data in the byte order of the machine, not {data.dtype}; "
            "sf.astype(x, dtype) changes it"
        )
    try:
        return numba.typeof(data)
    except NumbaError as error:
        raise DTYPE(f"Numba has no type for data of dtype {data.dtype}: {error}") from None


# --- in and out ------------------------------------------------------------------------------------------------------


def _register(kind: type[BatchType]) -> None:
    """Tell Numba of a type."""

    @register_model(kind)
    class Model(models.StructModel):
        """The members of a value."""

        def __init__(self, manager: object, batch: BatchType) -> None:
            super().__init__(manager, batch, batch.members)

    if "data" in kind.fields:
        make_attribute_wrapper(kind, "data", "data")
    for member, name in kind.public.items():
        make_attribute_wrapper(kind, member, name)
    if kind is not ListType:
        unbox(kind)(unbox_batch)
        box(kind)(_box_batch)


def unbox_batch(batch: BatchType, x: Value, c: Context) -> NativeValue:
    """The value of an encoding of Python.  It holds references to the arrays, which Numba gives back after the call."""
    value = cgutils.create_struct_proxy(batch)(c.context, c.builder)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    for name, kind in batch.members:
        if name not in batch.reads and name != "data":
            continue
        # What is not read after a failure stays zero, which counts as no reference.
        with c.builder.if_then(c.builder.not_(c.builder.load(failed))):
            path = batch.reads[name][0] if name in batch.reads else name
            found = _attribute(x, path.split("."), c)
            missing = cgutils.is_null(c.builder, found)
            c.builder.store(missing, failed)
            with c.builder.if_then(c.builder.not_(missing)):
                if path == "side":
                    setattr(value, name, _is_left(found, c))
                else:
                    native = c.unbox(kind, found)
                    setattr(value, name, native.value)
                    c.builder.store(native.is_error, failed)
                c.pyapi.decref(found)
    with c.builder.if_then(c.builder.load(failed), likely=False):
        c.context.nrt.decref(c.builder, batch, value._getvalue())
    return NativeValue(value._getvalue(), is_error=c.builder.load(failed))


def _attribute(x: Value, path: list[str], c: Context) -> Value:
    """A new reference to an attribute, or what a method returns, of an attribute; null where there is an error."""

    def read(owner: Value, name: str) -> Value:
        if name.endswith("()"):
            return c.pyapi.call_method(owner, name.removesuffix("()"))
        return c.pyapi.object_getattr_string(owner, name)

    found = read(x, path[0])
    for name in path[1:]:
        above, held = found, cgutils.alloca_once_value(c.builder, found)
        with c.builder.if_then(cgutils.is_not_null(c.builder, above)):
            c.builder.store(read(above, name), held)
            c.pyapi.decref(above)
        found = c.builder.load(held)
    return found


def _is_left(side: Value, c: Context) -> Value:
    """1 for the word "left", 0 for the other."""
    left = c.pyapi.string_from_string(c.context.insert_const_string(c.builder.module, "left"))
    same = c.pyapi.object_richcompare(side, left, "==")
    answer = c.pyapi.object_istrue(same)
    c.pyapi.decref(same)
    c.pyapi.decref(left)
    return c.builder.zext(c.builder.icmp_signed("==", answer, ir.Constant(answer.type, 1)), ir.IntType(64))


def _box_batch(batch: BatchType, value: Value, c: Context) -> Value:
    """An encoding of Python by its checking constructor, which copies the structure.  Takes the references over."""
    proxy = cgutils.create_struct_proxy(batch)(c.context, c.builder, value=value)
    kinds = dict(batch.members)
    fields = [c.box(kinds[name], getattr(proxy, name)) for name in batch.fields]
    for name, kind in batch.members:
        if name not in batch.fields:
            c.context.nrt.decref(c.builder, kind, getattr(proxy, name))
    return call_python(c, make_masked if batch.encoding is Masked else batch.encoding, fields)


def call_python(c: Context, function: object, arguments: list[Value]) -> Value:
    """The result of a Python function, whose arguments are given away; null where one of them is or it fails."""
    result = cgutils.alloca_once_value(c.builder, c.pyapi.get_null_object())
    there = cgutils.true_bit
    for argument in arguments:
        there = c.builder.and_(there, cgutils.is_not_null(c.builder, argument))
    with c.builder.if_then(there):
        known = c.env_manager.read_const(c.env_manager.add_const(function))
        c.builder.store(c.pyapi.call_function_objargs(known, arguments), result)
    for argument in arguments:
        c.pyapi.decref(argument)  # a null one is left alone
    return c.builder.load(result)


def make_masked(data: Any, lengths: Any, left: int) -> Masked[Any]:
    """A `Masked` from what a compiled function holds.  Functions on disk ask for it by this name."""
    return Masked(data, lengths, "left" if left else "right")


for _kind in (*BATCH_TYPES, ListType):
    _register(_kind)
