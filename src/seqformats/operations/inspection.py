"""Questions about a batch: its lengths, its equal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import registry
from ..arrays import Array, is_array, library_of_type, to_host
from ..converters.convert import as_own, rows_of
from ..errors import BATCH
from ..formats import Encoding, Pairs, level_index
from ..formats.annotations import Given, Shaped
from ..formats.bare import as_encoding, is_batch
from ..formats.structure import flag, integers, same_levels
from ..formats.trees import columns_of, is_tree
from .annotations import Batch, Lengths


def lengths(x: Lengths, level: int = -1) -> Array:
    """The lengths of the sequences of one level.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    level : int
        The level of a `LoD`; negative numbers count from the innermost level.  A length counts the sequences of the
        next level, or rows.  How many rows are in each sequence of another level say the lengths of
        ``convert(x, Ragged, level=level)``.

    Returns
    -------
    array
        ``(n,)`` int64 on the host, read-only, in the caller's order.

    Raises
    ------
    IndexError
        If the level does not exist.
    TypeError
        If the argument is not an encoding.

    See Also
    --------
    LoD.lengths : Those of all levels.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.lengths(sf.convert([np.arange(1), np.arange(3)], sf.Padded))
    array([1, 3])

    Sequences of sequences, and the rows in each:

    >>> deep = sf.LoD.from_lengths(np.arange(6), [[2, 1], [1, 3, 2]])
    >>> sf.lengths(deep, 0), sf.lengths(sf.convert(deep, sf.Ragged, level=0))
    (array([2, 1]), array([4, 2]))
    """
    own = as_encoding(x)
    if isinstance(own, Pairs):
        return lengths(own.two if is_array(own.one) else own.one, level)
    own = as_own(own)
    found: Array = own._levels[level_index(own, level)].lengths[...]  # a view: see `with_views`
    return found


def lengths_given(given: Lengths) -> Array:
    """The lengths that a caller means: an encoding's or a bare list's own, or the integers given; a private copy."""
    return lengths(given).copy() if is_batch(given) else integers(given, "lengths")


def equal(
    a: Batch | Shaped | Mapping[Any, Any], b: Batch | Shaped | Mapping[Any, Any], equal_nan: bool = False
) -> bool:
    """Tell whether two batches have the same encoding, structure, dtype and items.

    Parameters
    ----------
    a, b : encodings, lists of arrays or nested lists, arrays, or trees of columns
    equal_nan : bool
        Whether NaN counts as equal to NaN.

    Returns
    -------
    bool
        The same structure in the caller's order, dtype, device and items.  Padding never counts, nor does where
        `Chunks` begin.

    Raises
    ------
    TypeError
        If an argument is neither an encoding nor an array.

    See Also
    --------
    convert : To compare what is in different encodings.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> a = sf.convert([np.array([1, 2]), np.array([3])], sf.Masked, fill=7)
    >>> b = sf.convert([np.array([1, 2]), np.array([3])], sf.Masked, width=5)
    >>> sf.equal(a, b)
    True
    """
    if not (isinstance(a, Encoding) and isinstance(b, Encoding)) and (is_tree(a) or is_tree(b)):
        return _equal_trees(a, b, equal_nan)
    return _equal(as_encoding(a), as_encoding(b), flag(equal_nan, "equal_nan"))


def _equal(a: Given, b: Given, equal_nan: bool) -> bool:
    for x in (a, b):
        if not isinstance(x, (Encoding, Pairs)) and not is_array(x):
            raise BATCH(f"equal compares encodings, not {type(x).__name__}")
    if (registry.kind_of(a) or type(a)) is not (registry.kind_of(b) or type(b)):
        return False
    if isinstance(a, Pairs):
        return equal(a.one, b.one, equal_nan) and equal(a.two, b.two, equal_nan)
    if isinstance(a, Encoding):
        if not same_levels(a._levels, b._levels):
            return False
        if a.dtype != b.dtype or a.item_shape != b.item_shape or a.device != b.device:
            return False
        a, b = rows_of(a), rows_of(b)
    if tuple(a.shape) != tuple(b.shape) or a.dtype != b.dtype:
        return False
    if math.prod(a.shape) == 0:
        return True
    library = library_of_type(type(a))
    if library is not None and not library.arithmetic:
        a, b = to_host(a), to_host(b)
    with np.errstate(invalid="ignore"):  # which signalling NaNs are
        same = a == b
        if equal_nan:
            same = same | ((a != a) & (b != b))
    return bool(same.all())


def _equal_trees(a: Given, b: Given, equal_nan: bool) -> bool:
    """Tell whether trees are of one kind, with equal columns of the same names; their order does not count."""
    mappings = isinstance(a, Mapping) and isinstance(b, Mapping)
    if not (is_tree(a) and is_tree(b)) or not (mappings or type(a) is type(b)):
        return False
    one, two = (dict(zip(tree.paths, tree.columns, strict=True)) for tree in map(columns_of, (a, b)))
    if one.keys() != two.keys():
        return False
    return all(
        x is two[path] if x is None or two[path] is None else equal(x, two[path], equal_nan) for path, x in one.items()
    )
