"""Batches that are no encoding yet: arrays or numbers in lists and tuples, and columns of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from .. import core, registry
from ..arrays import NUMPY, has_items, is_array_type, library_of, offers_column
from ..layout import Layout
from ..memory_checks import remember
from ..reading import read
from .encoding import Encoding
from .list import List
from .lod import LoD
from .packed import Packed
from .structure import Structure

Items: TypeAlias = tuple[Any, ...]


def as_encoding(x: object) -> Any:
    """A bare list or tuple as an encoding, of arrays as `List`, of lists as `LoD`; a column as `Ragged` or `LoD`.

    Everything else is unchanged.
    """
    if is_list(x):
        return list_of(tuple(x)) if is_list_of_arrays(x) else LoD.from_nested(x)
    return read_column(x)


def is_list(x: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Tell whether this is a list or a tuple, and no PackedSequence, which is a tuple too."""
    return isinstance(x, (list, tuple)) and (type(x) in (list, tuple) or not is_column(x))


def is_column(x: object) -> bool:
    """Tell whether this is a column of another library: of Arrow's PyCapsules, a nested tensor, a PackedSequence."""
    kind = type(x)
    known = _columns.get(kind)
    if known is None:
        column = (offers_column(kind) and not issubclass(kind, Encoding)) or is_packed(kind)
        known = remember(_columns, kind, "some" if hasattr(kind, "is_nested") else "all" if column else "none")
    return known == "all" or (known == "some" and bool(x.is_nested))  # type: ignore[attr-defined]


_columns: dict[type, str] = {}  # of which types all are columns, or some, or none


def is_batch(given: object) -> bool:
    """Tell whether this is a batch, and not the lengths of one.  Of a list its first element decides."""
    if is_column(given):
        return True
    if isinstance(given, (list, tuple)):
        return bool(given) and has_items(given[0])
    return registry.kind_of(given) is not None


def is_packed(kind: type) -> bool:
    """Tell whether objects of this type are PyTorch's packed sequences."""
    return issubclass(kind, tuple) and hasattr(kind, "batch_sizes") and hasattr(kind, "sorted_indices")


def read_column(x: object) -> Any:
    """A column as the `Ragged` or `LoD` that `from_arrow` or `from_njt` gives, or the `Packed` of a PackedSequence.

    What is no column comes back as it is.
    """
    if not is_column(x):
        return x
    if is_packed(type(x)):
        return Packed.from_torch(x)  # type: ignore[arg-type]
    if getattr(x, "is_nested", False):
        return registry.service("tensors").from_njt(x)
    return registry.service("arrow").from_arrow(x)


def is_list_of_arrays(x: Sequence[object]) -> bool:
    """Tell whether this bare list or tuple is a `List`.  An empty one is."""
    return all(map(is_array_type, set(map(type, x))))


def list_of(items: Items) -> List:
    """``List(items)``, without a second look at what the extension has seen."""
    made: List | None = core.list_of(items)
    if made is not None:
        return made
    found = read(items)
    if found is None:
        return List(items)
    return List._from_items(items, Structure(found[0], found[1], found[3]), items[0])


def read_list(items: Items) -> tuple[Any, ...] | None:
    """The rows of plain arrays alike that want no gradient, after one look, as the fields of a `Source`; else None."""
    found = read(items)
    if found is None:
        return None
    lengths, offsets, addresses, longest = found
    at = Layout(addresses, offsets, offsets, -1, 0, 1, 1)
    sample = items[0]
    library = NUMPY if type(sample) is np.ndarray else library_of(sample)
    return library, items, at, Structure(lengths, offsets, longest), sample, sample.shape[1:], None
