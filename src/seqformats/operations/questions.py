"""Questions about a batch: its lengths, its equal, its device."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from .. import registry
from ..arrays import Array, adopt, has_items, is_array, library_of_type, to_host
from ..converters.convert import as_own, rows_of
from ..formats import Encoding, List, Pairs, level_index
from ..formats.annotations import Shaped
from ..formats.bare import as_encoding, is_list_of_arrays
from ..formats.leaves import leaves, rebuild
from ..formats.pairs import is_encoding
from ..formats.structure import integers
from .annotations import Batch, Lengths, X


def lengths(x: Lengths, level: int = -1) -> Array:
    """The lengths of the sequences of one level.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    level : int
        Of a `LoD`, negative from the innermost.  A length counts the sequences of the next level, or rows.

    Returns
    -------
    array
        ``(n,)`` int64 on the host, read-only, in the caller's order.

    Raises
    ------
    IndexError
        For a level that does not exist.
    TypeError
        For what is no encoding.

    See Also
    --------
    LoD.lengths : Those of all levels.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.lengths(sf.convert([np.arange(1), np.arange(3)], sf.Padded))
    array([1, 3])
    """
    own = as_encoding(x)
    if isinstance(own, Pairs):
        return lengths(own.two if is_array(own.one) else own.one, level)
    own = as_own(own)
    found: Array = own._levels[level_index(own, level)].lengths
    return found


def lengths_given(given: Lengths) -> Array:
    """The lengths that a caller means: an encoding's or a bare list's own, or the integers given; a private copy."""
    return lengths(given).copy() if is_batch(given) else integers(given, "lengths")


def is_batch(given: object) -> bool:
    """Is this a batch, and not the lengths of one?  Of a list its first element says so."""
    return (
        bool(given) and has_items(given[0]) if isinstance(given, (list, tuple)) else registry.kind_of(given) is not None
    )


def equal(a: Batch | Shaped, b: Batch | Shaped, equal_nan: bool = False) -> bool:
    """Are these the same encoding, with the same structure, dtype and items?

    Parameters
    ----------
    a, b : encodings, lists of arrays or nested lists, or arrays
    equal_nan : bool
        Is a NaN equal to a NaN?

    Returns
    -------
    bool
        The same structure in the caller's order, dtype, device and items.  Padding never counts.

    Raises
    ------
    TypeError
        For what is neither an encoding nor an array.

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
    return _equal(as_encoding(a), as_encoding(b), equal_nan)


def _equal(a: Any, b: Any, equal_nan: bool) -> bool:
    for x in (a, b):
        if not isinstance(x, (Encoding, Pairs)) and not is_array(x):
            raise TypeError(f"equal compares encodings, not {type(x).__name__}")
    if type(a) is not type(b):
        return False
    if isinstance(a, Pairs):
        return equal(a.one, b.one, equal_nan) and equal(a.two, b.two, equal_nan)
    if isinstance(a, Encoding):
        levels = a._levels, b._levels
        if len(levels[0]) != len(levels[1]) or not all(s.same_lengths(t) for s, t in zip(*levels, strict=True)):
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


def to_device(x: X, device: object) -> X:
    """The same encoding on another device.

    Parameters
    ----------
    x : an encoding, a list of arrays, or an array
    device : "cpu", "cuda", "cuda:1", or what the array library takes

    Returns
    -------
    what `x` is
        torch stays torch and CuPy stays CuPy; NumPy arrays become Numba device arrays on a GPU and come back as NumPy
        arrays.  The structure is on the host anyhow and is shared.

    Raises
    ------
    TypeError
        For what is none of these.
    DeviceError
        For a device that there is not.

    See Also
    --------
    Ragged.device : Where a batch is.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.to_device(sf.Ragged(np.arange(3), [1, 2]), "cpu").device
    'cpu'
    """
    if not is_array(x) and not is_encoding(x) and not (isinstance(x, (list, tuple)) and is_list_of_arrays(x)):
        raise TypeError(f"{type(x).__name__} is neither an encoding nor an array nor a list of arrays")
    if isinstance(x, Encoding) and not x._leaves():  # a list of no arrays
        return cast(X, List._of((), x._structure, to_device(x._sample(), device)))
    if isinstance(x, Encoding):
        x._look()
    moved = []
    for leaf in leaves(x):
        library, array = adopt(leaf)
        moved.append(library.to_device(array, device))
    there: X = rebuild(x, moved)
    return there
