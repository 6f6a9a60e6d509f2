"""A function of the caller over every sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, adopt, is_array, library_of
from ..converters.convert import convert
from ..converters.like import convert_like
from ..errors import (
    CHOICE,
    COUNTS,
    KIND,
    LEVELS,
    LIBRARY,
    MIXED,
    NO_GRADIENT,
    RESULT,
    RETURNED,
    SHAPE,
    quote,
)
from ..formats import Encoding, List, Ragged
from ..formats.annotations import Shaped
from ..formats.leaves import wants_grad
from ..formats.structure import Structure, same_levels
from ..gradients.levels import INNERMOST, Outer
from ..gradients.operation import operand, operands_of
from ..launch.functions import Mapped, is_compiled, note
from .annotations import Batch
from .join import check_alike
from .reduction import operand_of_reduction, over_levels

_RESULTS = ("auto", "item", "sequence")


def map_sequences(
    fn: Callable[..., Any],
    x: Batch,
    *more: Batch,
    result: str = "auto",
    like: Shaped | None = None,
    level: int = INNERMOST,
) -> Any:
    """Call a function with every sequence, of one batch or of several.

    Parameters
    ----------
    fn : function of an array, or of as many as there are batches
        It is called with each sequence, an array ``(length, *item)`` of the library of its batch, in their order, and
        gives an array or a number: ``fn(x_i, y_i, ...)``.  One that `numba.njit` has compiled is called from a compiled
        loop, with NumPy arrays; where it was compiled with ``nogil=True``, in several threads.
    x : an encoding, a list of arrays or nested lists
    *more : encodings, lists of arrays or nested lists
        Over as many innermost sequences, whose lengths, items and dtypes may be others.
    result : "item", "sequence" or "auto"
        What it gives: one item, or a sequence of any length.  "auto" looks at the first result: with as many axes as
        a sequence of `x`, or more, it is a sequence; with fewer, or a number, an item.  So counts ``(10,)`` of token
        ids, or a covariance ``(3, 3)`` of vectors, are taken for sequences unless ``result="item"`` says what they are.
    like : array ``(anything, *item)``, optional
        It gives the dtype and the item shape of the result where there is no sequence, so that `fn` is never called;
        without it float64 with item shape (), and "auto" is "item".
    level : int
        See `topk`; it is one of each batch.

    Returns
    -------
    array ``(n, *item)``, or what `x` is
        Results that are items become an array, or for a `LoD` (nested lists) with more levels a `LoD` without its
        innermost level, as after a reduction.  Results that are sequences become a batch in the encoding of `x`.

    Raises
    ------
    StructureError
        For results of different shapes or dtypes, and batches of other numbers of sequences or outer levels.
    ConversionError
        If `result` has an invalid value.
    TypeError
        If the argument is no function, or its results are neither arrays nor numbers; for a compiled function that does
        not take the items, that would lose a gradient, or whose arrays are on a GPU.

    See Also
    --------
    Ragged.sequences : The arrays themselves.
    with_list : A function of all sequences at once.

    Notes
    -----
    An error of `fn` comes as it is, with a note that names the sequence.  Tensors given to a plain function keep their
    autograd graph.  What `fn` is given may be a view of `x`, and what it gives may be one of that.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1.0, 4.0, 2.0]), [2, 1])
    >>> sf.map_sequences(np.median, x)
    array([2.5, 2. ])
    >>> sf.map_sequences(np.sort, x)
    Ragged(shape (3,), float64, cpu, 2 sequences of lengths [2, 1])

    The place of each value between those of another batch:

    >>> edges = sf.Ragged(np.array([0.0, 3.0, 9.0]), [2, 1])
    >>> sf.map_sequences(np.searchsorted, edges, x).data
    array([1, 2, 0])
    """
    if not callable(fn):
        raise KIND(f"map_sequences takes a function first, not {quote(fn)}")
    if not isinstance(result, str) or result not in _RESULTS:
        raise CHOICE(f'result must be "auto", "item" or "sequence", not {quote(result)}')
    batches: list[Encoding] = [each.own for each in operands_of(x, *more)]
    outer = [None if level is INNERMOST else Outer.from_batch(each, level) for each in (x, *more)]
    batches = [one if found is None else found.inner for one, found in zip(batches, outer, strict=True)]
    own = batches[0]
    for k, other in enumerate(batches):
        if other._structure.n != own._structure.n:
            raise COUNTS(f"batch {k} has {other._structure.n} sequences, but batch 0 has {own._structure.n}")
        above = own._levels[:-1], other._levels[:-1]
        if all(above) and not same_levels(*above):
            raise LEVELS(f"batch {k} has other outer levels than batch 0")
    if not own._structure.n:
        rows, sequences = _nothing(own, like), result == "sequence"
        found: Any = Ragged._freeze(rows, own._structure) if sequences else rows
    elif is_compiled(fn):
        found, sequences = _call_compiled(fn, batches, result)
    else:
        found, sequences = _call(fn, batches, result)
    if sequences:
        back = operand(x).result
        y: Any = convert_like(found, own)
    else:
        back = operand_of_reduction(x).result
        y = over_levels(found, own)
    if outer[0] is not None:
        return outer[0].result(y)
    return y if back is None else back(y)


def _is_sequence(result: str, axes: int, own: Encoding) -> bool:
    """Tell whether a result with so many axes is a sequence."""
    if result == "auto":
        return axes > len(own.item_shape)
    if result == "sequence" and not axes:
        raise RESULT('a sequence has at least one axis, but the function gives a number; give result="item"')
    return result == "sequence"


def _nothing(own: Encoding, like: Shaped | None) -> Array:
    """No rows, as `like` says."""
    if like is None:
        library = library_of(own._sample())
        return library.empty((0,), library.dtype("float64"), own._sample())
    library, sample = adopt(like, "like")
    if not sample.shape:
        raise SHAPE("like must have the axes (anything, *item), but is a single number")
    return library.empty((0, *sample.shape[1:]), sample.dtype, sample)


# --- plain functions -------------------------------------------------------------------------------------------------


def _call(fn: Callable[..., Any], batches: list[Encoding], result: str) -> tuple[Any, bool]:
    """The results, and whether they are sequences."""
    own = batches[0]
    found: list[Any] = []
    try:
        for sequences_i in zip(*[x.sequences() for x in batches], strict=True):
            found.append(fn(*sequences_i))  # noqa: PERF401  an error has to tell how many there were
    except Exception as error:
        error.add_note(note(len(found)))
        raise
    arrays = [i for i, y in enumerate(found) if is_array(y)]
    for i, y in enumerate(found):
        if not is_array(y) and not isinstance(y, _NUMBERS):
            raise RETURNED(f"the result of sequence {i} must be an array or a number, not {quote(y)}")
    if arrays and len(arrays) < len(found):
        raise RETURNED("some results are arrays and others numbers; give arrays in all cases")
    if not arrays:
        _is_sequence(result, 0, own)
        return library_of(own._sample()).stack(found, own._sample()), False
    items: list[Array] = [adopt(y, f"the result of sequence {i}")[1] for i, y in enumerate(found)]
    first = items[0]
    sequences = _is_sequence(result, len(first.shape), own)
    for i, item in enumerate(items):
        same = len(item.shape) == len(first.shape) if sequences else item.shape == first.shape
        if not same:
            raise MIXED(
                f"the result of sequence {i} has shape {tuple(item.shape)}, but that of sequence 0 {tuple(first.shape)}"
            )
    check_alike(items, "the result of sequence")
    return (List(items), True) if sequences else (library_of(first).stack(items, first), False)


_NUMBERS = (int, float, complex, str, bytes, np.generic)


# --- compiled functions ----------------------------------------------------------------------------------------------


def _call_compiled(fn: Callable[..., Any], batches: list[Encoding], result: str) -> tuple[Any, bool]:
    """Map a compiled function in a compiled loop."""
    flat = [_on_host(x) for x in batches]
    mapped = Mapped(fn, tuple([rows for rows, _ in flat]), tuple([offsets for _, offsets in flat]))
    own = batches[0]
    library = library_of(own._sample())
    sequences = _is_sequence(result, mapped.axes, own)
    if not sequences:
        items = mapped.items()
        return (items if library is NUMPY else library.import_array(items, NUMPY)), False
    data, lengths = mapped.sequences()
    data = data if library is NUMPY else library.import_array(data, NUMPY)
    return Ragged._freeze(data, Structure.of_lengths(lengths)), True


def _on_host(x: Encoding) -> tuple[Array, Array]:
    """The rows of a batch as compiled functions take them, and where its sequences are."""
    library, sample = library_of(x._sample()), x._sample()
    if library.kind(sample) != "cpu":
        raise LIBRARY(
            f"a function compiled for the host does not take arrays on {library.device(sample)}; give a plain one"
        )
    if wants_grad(x):
        raise NO_GRADIENT("a compiled function has no gradient; give data.detach(), or a plain function of tensors")
    flat = convert(x, Ragged)
    rows = library.to_numpy(flat.data)
    if not (rows.dtype.isnative and rows.flags.aligned):
        rows = np.require(rows, rows.dtype.newbyteorder("="), ["C", "A"])
    return rows, flat.offsets
