"""Meanings of the types of Arrow here: levels, items, or something on the way to them."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, DType
from ..errors import import_extra
from ..formats.structure import INT64

DataType = Any  # pyarrow.DataType
Column = Any  # pyarrow.Array, pyarrow.ChunkedArray


@functools.cache
def library() -> ModuleType:
    """pyarrow; ModuleNotFoundError with what installs it where it is absent."""
    return import_extra("pyarrow", "arrow")


class Kind(NamedTuple):
    """Meaning of a type of Arrow here."""

    what: str  # one of those below
    dtype: DType = None  # of offsets, or of items as they lie in memory


KIND_LISTS, KIND_LIST_VIEWS, KIND_FIXED_LISTS = "lists", "views", "lists of one size"
KIND_BYTES, KIND_BYTE_VIEWS, KIND_FIXED_BYTES = "bytes", "views of bytes", "bytes of one size"
KIND_ITEMS, KIND_BITS, KIND_NULLS = "items", "bits", "nothing"
KIND_DICTIONARY, KIND_STRUCT, KIND_OTHER = "dictionary", "struct", "other"
KINDS_OF_ITEMS = (KIND_ITEMS, KIND_BITS, KIND_NULLS)
_INT32 = np.dtype(np.int32)


@functools.cache
def kinds() -> dict[int, Kind]:
    """The kind of every type by its id."""
    named = {
        "LIST": Kind(KIND_LISTS, _INT32),
        "LARGE_LIST": Kind(KIND_LISTS, INT64),
        "LIST_VIEW": Kind(KIND_LIST_VIEWS, _INT32),
        "LARGE_LIST_VIEW": Kind(KIND_LIST_VIEWS, INT64),
        "FIXED_SIZE_LIST": Kind(KIND_FIXED_LISTS),
        "STRING": Kind(KIND_BYTES, _INT32),
        "BINARY": Kind(KIND_BYTES, _INT32),
        "LARGE_STRING": Kind(KIND_BYTES, INT64),
        "LARGE_BINARY": Kind(KIND_BYTES, INT64),
        "STRING_VIEW": Kind(KIND_BYTE_VIEWS),
        "BINARY_VIEW": Kind(KIND_BYTE_VIEWS),
        "FIXED_SIZE_BINARY": Kind(KIND_FIXED_BYTES, np.dtype(np.uint8)),
        "BOOL": Kind(KIND_BITS, np.dtype(np.uint8)),
        "NA": Kind(KIND_NULLS),
        "DICTIONARY": Kind(KIND_DICTIONARY),
        "STRUCT": Kind(KIND_STRUCT),
    }
    plain = {"HALF_FLOAT": "float16", "FLOAT": "float32", "DOUBLE": "float64"}
    plain |= {name.upper(): name for size in (8, 16, 32, 64) for name in (f"int{size}", f"uint{size}")}
    plain |= {"DATE32": "int32", "TIME32": "int32"}
    plain |= dict.fromkeys(("DATE64", "TIME64", "TIMESTAMP", "DURATION"), "int64")
    named |= {name: Kind(KIND_ITEMS, np.dtype(dtype)) for name, dtype in plain.items()}
    lib = library().lib
    ids = {getattr(lib, f"Type_{name}", None): kind for name, kind in named.items()}
    return {number: kind for number, kind in ids.items() if number is not None}


_OTHER = Kind(KIND_OTHER)


def kind_of(type: DataType) -> Kind:
    """Tell what a type is here; `KIND_OTHER` where it is nothing that this library reads, and for extension types."""
    return kinds().get(type.id, _OTHER)


def is_extension(type: DataType) -> bool:
    """Tell whether this is an extension type, over another type, its storage."""
    return isinstance(type, library().BaseExtensionType)


def are_items(type: DataType) -> bool:
    """Tell whether a type is one of plain items, or of lists of one size of them: with a shape, but no level."""
    while True:
        what = kind_of(type).what
        if what == KIND_FIXED_LISTS:
            type = type.value_type
        elif what == KIND_OTHER and is_extension(type):
            type = type.storage_type
        else:
            return what in KINDS_OF_ITEMS or what == KIND_FIXED_BYTES


@functools.cache
def _temporal() -> dict[int, str]:
    """Map types of time, by their id, to NumPy's: a dtype, or what the unit follows."""
    named = {
        "DATE32": "datetime64[D]",
        "DATE64": "datetime64[ms]",
        "TIMESTAMP": "datetime64[{}]",
        "TIME32": "timedelta64[{}]",
        "TIME64": "timedelta64[{}]",
        "DURATION": "timedelta64[{}]",
    }
    lib = library().lib
    return {getattr(lib, f"Type_{name}"): dtype for name, dtype in named.items()}


def as_numpy(data: Array, type: DataType) -> Array:
    """Items as they lie in memory as those of NumPy: times are times."""
    if data.dtype.kind != "i":  # all that are times are integers in memory
        return data
    named = _temporal().get(type.id)
    if named is None:
        return data
    dtype = np.dtype(named.format(getattr(type, "unit", "")))
    dates: Array = data.astype(np.int64, copy=False).view(dtype)
    return dates


def readable(type: DataType, levels: int) -> str:
    """Say what to do with a type that is not read here, within so many lists, as the end of an error's sentence."""
    name = str(type)
    if name.startswith("map<"):
        made = _write_levels("pa.ListArray.from_arrays({0}.offsets, {0}.keys)", levels)
        return f"; sf.from_arrow({made}) reads their keys, and so .items their values"
    if kind_of(type).what == KIND_STRUCT:
        if not levels:
            return "; sf.from_table({name: column}) reads their fields"
        return f"; sf.from_arrow({_write_levels('{0}.field(0)', levels)}) reads their first field"
    if name.startswith("decimal"):
        lists = "pa.list_(" * levels + "pa.float64()" + ")" * levels
        return f"; pc.cast(column, {lists}) makes floats of them"
    if name.startswith("run_end_encoded"):
        return f"; {_write_levels('pc.run_end_decode({0})', levels)} is a plain one"
    return "; numbers, bools, times, bytes and text are read, in lists or by themselves"


def _write_levels(items: str, levels: int, column: str = "column") -> str:
    """Write Python that makes a column of other items within the same lists."""
    if not levels:
        return items.format(column)
    inner = _write_levels(items, levels - 1, f"{column}.values")
    return f"type({column}).from_arrays({column}.offsets, {inner})"
