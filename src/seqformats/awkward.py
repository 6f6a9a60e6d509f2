"""Awkward Array, in and out: the same offsets and the same items, mostly in the same memory."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from .arrays import NUMPY, Array, library_of
from .converters.convert import convert
from .errors import (
    BATCH,
    BROKEN,
    DEVICE,
    DTYPE,
    ITEMS,
    KIND,
    LEAVES,
    NULLS,
    SHAPE,
    SeqFormatError,
    import_extra,
    quote,
)
from .formats import LoD, Pairs, Ragged
from .operations.annotations import Batch
from .operations.library import to

Content: TypeAlias = Any  # a node of the tree that an array of Awkward Array is: awkward.contents.Content


def from_awkward(x: object, *, missing: str = "raise", items: object = "raise") -> Any:
    """An array of lists as `Ragged`, of lists in lists as `LoD`.

    Parameters
    ----------
    x : awkward.Array
        Lists to any depth, on the CPU.  Axis 0 is the batch.  Lists are sequences; regular axes within the
        innermost of them, or within axis 1, are the item shape.  Strings are sequences of bytes (uint8).
    missing : "raise" or "empty"
        Whether lists that are None are an error, or sequences without items.
    items : "raise", or a number
        Whether items that are None are an error, or what stands there instead, exact in their dtype.

    Returns
    -------
    Ragged or LoD
        Over the memory of `x` where that holds the items in their order without a gap, also of a slice; offsets are
        copied.  float64 where `x` does not know what it would hold.

    Raises
    ------
    TypeError
        If the argument is no awkward array, or has records or unions; the message names these.
    StructureError
        For an array without lists, for None without `missing` or `items`, and for an array that is not valid.
    ConversionError
        Where `items` does not fit the dtype.
    DeviceError
        For an array on a GPU.

    See Also
    --------
    to_awkward : The way back.
    from_arrow : The same of Arrow's columns.

    Examples
    --------
    >>> import awkward as ak
    >>> import seqformats as sf
    >>> x = sf.from_awkward(ak.Array([[1, 2], [], [3, None]]), items=0)
    >>> x
    Ragged(shape (4,), int64, cpu, 3 sequences of lengths [2, 0, 2])
    >>> sf.from_awkward(ak.Array([["to", "be"], ["or"]])).lengths()
    [[2, 1], [2, 2, 2]]
    """
    if not isinstance(missing, str) or missing not in ("raise", "empty"):
        raise KIND(f'missing must be "raise" or "empty", not {quote(missing)}')
    if isinstance(items, str) and items != "raise":
        raise KIND(f'items must be "raise" or a number, not {quote(items)}')
    node = _layout_of(x)
    _check_plain(node)
    levels: list[Array] = []
    try:
        while not levels or _has_lists(node):
            offsets, node = _level(node, missing, len(levels))
            levels.append(offsets)
        data = _items(node, items)
    except SeqFormatError:
        raise
    except (IndexError, ValueError) as error:  # of what is looked into
        raise BROKEN(f"the array is not valid: {str(error).partition(chr(10))[0]}") from None
    return Ragged.from_offsets(data, levels[0]) if len(levels) == 1 else LoD(data, levels)


def to_awkward(x: Batch) -> Any:
    """A batch as an array of lists.

    Parameters
    ----------
    x : an encoding, a list of arrays, or nested lists
        On the CPU.

    Returns
    -------
    awkward.Array
        It has a variable axis for each level of `x`, and regular axes for the item shape.  It is made over the items
        and the offsets of `x`: a `Ragged` or `LoD` is not copied.

    Raises
    ------
    TypeError
        If the argument is not a batch, for `Pairs`, and for a dtype that Awkward Array does not have.
    DeviceError
        For a batch on a GPU.

    See Also
    --------
    from_awkward : The way back.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.to_awkward([[[1, 2], [3]], []]).tolist()
    [[[1, 2], [3]], []]
    """
    ak = import_extra("awkward", "awkward")
    if isinstance(x, Pairs):
        raise BATCH("to_awkward takes one batch, and no Pairs; give its members one by one")
    whole: Any = convert(x, LoD)
    if library_of(whole.data).kind(whole.data) != "cpu":
        raise DEVICE(f'to_awkward takes batches on the CPU, not on {whole.device}; sf.to_device(x, "cpu") moves one')
    whole = to(whole, "numpy")
    try:
        node = ak.contents.NumpyArray(whole.data)
    except TypeError as error:
        raise DTYPE(f"Awkward Array has no such items: {str(error).partition(chr(10))[0]}") from None
    for offsets in reversed(whole.lod):
        node = ak.contents.ListOffsetArray(ak.index.Index64(offsets), node)
    return ak.Array(node)


def _layout_of(x: object) -> Content:
    """The outermost node of an array on the CPU."""
    ak = import_extra("awkward", "awkward")
    if not isinstance(x, (ak.Array, ak.contents.Content)):
        raise KIND(f"from_awkward takes an awkward.Array, not {type(x).__name__}; sf.convert takes lists and arrays")
    backend = ak.backend(x)
    if backend != "cpu":
        raise DEVICE(f'from_awkward takes arrays on the CPU, not {backend}; ak.to_backend(x, "cpu") moves one')
    return x.layout if isinstance(x, ak.Array) else x


def _check_plain(node: Content) -> None:
    """TypeError for records and unions, which have no one dtype."""
    while not (node.is_numpy or node.is_unknown):
        if node.is_record:
            names = [quote(name) for name in node.fields[:8]]
            known = f"the fields {', '.join(names)}" if names else "no fields"
            example = f"; take one of them, x[{names[0]}]" if names else ""
            raise ITEMS(f"the array holds records with {known}, which are no batch of one dtype{example}")
        if node.is_union:
            kinds = " or ".join(str(part.form.type) for part in node.contents[:4])
            raise LEAVES(f"the array holds {kinds}, which have no common dtype")
        node = node.content


def _has_lists(node: Content) -> bool:
    """Tell whether there are lists that may differ in length, at whatever depth."""
    while not (node.is_numpy or node.is_unknown):
        if node.is_list and not node.is_regular:
            return True
        node = node.content
    return False


def _level(node: Content, missing: str, level: int) -> tuple[Array, Content]:
    """The offsets of the lists of a node, and what they hold, from the first of them to the last."""
    index = None
    if node.is_option:
        index = _find_places(node, missing, level)
        node = node.to_IndexedOptionArray64().content
    elif node.is_indexed:
        node = node.project()
    if node.is_numpy and node.purelist_depth > 1:
        node = node.to_RegularArray()
    starts: Array
    stops: Array
    if node.is_unknown:  # no list that would hold anything
        starts = stops = np.zeros(node.length, np.int64)
    elif not node.is_list:
        kind = node.form.type
        raise SHAPE(f"the array holds no lists, but {kind}; one sequence alone is x[np.newaxis]")
    elif node.is_regular:
        starts = np.arange(node.length, dtype=np.int64) * node.size
        stops = starts + node.size
    else:
        starts, stops = (np.asarray(edges.data).astype(np.int64, copy=False) for edges in (node.starts, node.stops))
    if index is not None:
        there = index >= 0
        starts, stops = (_put(edges[index[there]], there) for edges in (starts, stops))
    return _in_order(starts, stops, node if node.is_unknown else node.content)


def _find_places(node: Content, missing: str, level: int) -> Array:
    """The places of what this node holds, negative for None."""
    index = np.asarray(node.to_IndexedOptionArray64().index.data)
    absent = np.flatnonzero(index < 0)
    if absent.size and missing == "raise":
        raise NULLS(
            f"{absent.size} lists of level {level} are None, the first is list {absent[0]}; "
            'missing="empty" makes them empty'
        )
    return index


def _put(values: Array, there: Array) -> Array:
    """`values` where something is there, 0 elsewhere."""
    out = np.zeros(there.size, np.int64)
    out[there] = values
    return out


def _in_order(starts: Array, stops: Array, content: Content) -> tuple[Array, Content]:
    """Offsets and content of lists one after the other: a part of the content if they lie so there, else a copy."""
    ak = import_extra("awkward", "awkward")
    lengths = stops[: starts.size] - starts
    full = lengths > 0  # an empty list may begin anywhere
    if lengths.size and (lengths.min() < 0 or starts[full].min(initial=0) < 0):
        raise BROKEN("the array is not valid: a list ends before it begins, or begins before 0")
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    where, wanted = starts[full], offsets[:-1][full]
    first = int(where[0]) if where.size else 0
    if np.array_equal(where - first, wanted):
        return offsets, content[first : first + int(offsets[-1])]
    lists = ak.contents.ListArray(ak.index.Index64(starts), ak.index.Index64(stops[: starts.size]), content)
    return offsets, lists.to_ListOffsetArray64(True).content


def _items(node: Content, fill: object) -> Array:
    """All items of a node without lists, with their regular axes."""
    if node.is_unknown:
        return np.empty(node.length)
    if node.is_numpy:
        return np.asarray(node.data)
    if node.is_option:
        return _fill_missing(_items(node.project(), fill), node.mask_as_bool(valid_when=True), fill)
    if node.is_indexed:
        return _items(node.project(), fill)
    inner = _items(node.content[: node.length * node.size], fill)
    reshaped: Array = inner.reshape(node.length, node.size, *inner.shape[1:])
    return reshaped


def _fill_missing(given: Array, valid: Array, fill: object) -> Array:
    """Items where they are valid, and `fill` elsewhere."""
    absent = int(valid.size - given.shape[0])
    if not absent:
        return given
    if isinstance(fill, str):
        raise NULLS(f"{absent} items are None; items=0, say, puts zeros there")
    out = np.empty((valid.size, *given.shape[1:]), given.dtype)
    out[valid] = given
    out[~valid] = NUMPY.item(fill, given.dtype, given.shape[1:]).view(given.dtype).reshape(given.shape[1:])
    return out
