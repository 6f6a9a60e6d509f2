"""Reductions: one item a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _flow, _launch, registry
from .arrays import Array, Library, library_of, size_of
from .convert import as_encoding, convert, is_encoding, restored, source_of
from .errors import ConversionError, StructureError
from .formats import Encoding, LoD, Pairs, Ragged, build_lod, build_ragged
from .grad import bared, cotangent, vjp
from .structure import Structure

# dtype of the items -> dtype in which they are added up
_SUMS_IN = {
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
    "bool": "int64",
    "int8": "int64",
    "int16": "int64",
    "int32": "int64",
    "int64": "int64",
    "uint8": "uint64",
    "uint16": "uint64",
    "uint32": "uint64",
    "uint64": "uint64",
}


def reduce_sum(x: Any, *, empty: Any = 0.0) -> Any:
    """The sum of every (innermost) sequence.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists, items of any shape
    empty : the result for an empty sequence, a value or "raise"

    Returns an array ``(n, *item)`` in the library of `x`; of a `LoD` with more levels a `LoD` without its innermost.
    Floats keep their dtype (float16 and bfloat16 are added up in float32), integers and bools give int64, unsigned
    ones uint64.  A NaN in a sequence gives NaN.

    Errors: TypeError for dtypes without a sum, StructureError for an empty sequence with ``empty="raise"``.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_sum(sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 0, 1]))
    array([3., 0., 3.])
    """
    return _reduced(x, empty, mean=False)


def reduce_mean(x: Any, *, empty: Any = 0.0) -> Any:
    """The mean of every (innermost) sequence; integers and bools give float64.  See `reduce_sum`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.array([[1.0], [3.0], [5.0]]), [[0, 2], [0, 2, 3]])
    >>> sf.reduce_mean(x).to_nested()[0]
    array([[2.],
           [5.]])
    """
    return _reduced(x, empty, mean=True)


def _reduced(x: Any, empty: Any, mean: bool) -> Any:
    x = _own(as_encoding(x))
    if _flow.wants_grad(x):
        return _flow.apply(lambda z: _vjp(z, empty, mean), x)
    return _over_levels(_values(x, empty, mean), x)


def _own(x: Any) -> Any:
    """An encoding of this library; a user's is converted."""
    if isinstance(x, Pairs) or not is_encoding(x):
        hint = "; reduce x.one and x.two" if isinstance(x, Pairs) else "; give it lengths, Ragged(data, lengths)"
        raise TypeError(f"{type(x).__name__} is no single batch{hint}")
    return x if isinstance(x, Encoding) else convert(x, LoD if registry.keeps_levels(type(x)) else Ragged)


def _over_levels(values: Array, x: Any) -> Any:
    return build_lod(values, x._levels[:-1]) if isinstance(x, LoD) and len(x.lod) > 1 else values


def _values(x: Any, empty: Any, mean: bool) -> Array:
    """``(n, *item)``, one row a sequence."""
    r = convert(x, Ragged)
    source = source_of(r)
    library, structure = source.library, source.structure
    name = library.dtype_name(r.dtype)
    sums = _sums_in(name)
    _check_empty(structure, empty)
    integers = sums in ("int64", "uint64")
    if mean and integers:
        sums = "float64"  # a sum of int64 could overflow
    data = library.astype(r.data, sums)
    out = library.empty((structure.n, *source.item_shape), data.dtype, data)
    _run("sum_rows", library, data, out, structure, size_of(source.item_shape), ())
    if mean:
        out = library.divided(out, structure.lengths.clip(1))
    if not integers:
        out = library.astype(out, name)
    vacant = (structure.lengths == 0).nonzero()[0]
    value = 0.0 if isinstance(empty, str) else _fitting(empty, library.dtype_name(out.dtype))
    if vacant.size and not (value == 0 and str(value)[0] != "-"):  # zeros are there already, but -0.0 is not
        library.overwrite(out, vacant, value)
    return out


def _sums_in(name: str) -> str:
    if name not in _SUMS_IN:
        raise TypeError(f"items of dtype {name} cannot be added up; those that can: {', '.join(_SUMS_IN)}")
    return _SUMS_IN[name]


def _fitting(empty: Any, name: str) -> Any:
    """`empty` as a value of the result: exact in integers, rounded in floats, never out of range."""
    value = empty.item() if isinstance(empty, np.generic) else empty
    if name.startswith("complex"):
        return value
    fits = not isinstance(value, complex)
    if fits and name in _INTEGERS:
        low, high = _INTEGERS[name]
        fits = value == value and abs(value) != float("inf") and low <= value <= high and value == int(value)
        value = int(value) if fits else value
    elif fits and name in _LARGEST:
        fits = not _LARGEST[name] < abs(value) < float("inf")
    if not fits:
        raise ConversionError(f"empty={empty!r} does not fit {name}, the dtype of the result")
    return value


_INTEGERS = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


def _check_empty(structure: Structure, empty: Any) -> None:
    if isinstance(empty, str):
        if empty != "raise":
            raise StructureError(f'empty must be a value or "raise", not {empty!r}')
        if (structure.lengths == 0).any():
            i = int((structure.lengths == 0).argmax())
            raise StructureError(f"sequence {i} is empty; give empty=0.0 or another value for it")
    elif not isinstance(empty, (int, float, complex, np.number, np.bool_)):
        raise TypeError(f'empty must be a number or "raise", not {empty!r}')


def _run(
    name: str, library: Library, x: Array, out: Array, structure: Structure, width: int, numbers: tuple[int, ...]
) -> None:
    if width and structure.n:
        work = _launch.Work(structure.n, structure.rows, width * library.itemsize(x.dtype), structure.lengths)
        _launch.arithmetic(name, library, x, out, structure, (width, *numbers), work)


def _vjp(x: Any, empty: Any, mean: bool) -> tuple[Any, Callable[[Any], Any]]:
    if _sums_in(library_of(x._like()).dtype_name(x.dtype)) in ("int64", "uint64"):
        raise TypeError(f"a sum of {x.dtype} has no gradient; give the items a float dtype")
    result = _over_levels(_values(x, empty, mean), x)
    like, shape, structure = _flow.hollow(result), _flow.hollow(x), x._structure

    def pullback(dy: Any) -> Any:
        dy = cotangent(dy, like)
        return restored(_spread(dy.data if isinstance(dy, LoD) else dy, structure, mean), shape)

    return result, pullback


def _spread(rows: Array, structure: Structure, mean: bool) -> Ragged:
    """Every row of a sequence gets the sequence's own row, for a mean divided by the length."""
    if _flow.wants_grad(rows):
        return _flow.apply(lambda z: (_spread(z, structure, mean), lambda dz: _reduced(dz, 0.0, mean)), rows)  # type: ignore[no-any-return]
    library = library_of(rows)
    name = library.dtype_name(rows.dtype)
    data = library.astype(rows, _sums_in(name))
    out = library.empty((structure.rows, *rows.shape[1:]), data.dtype, data)
    _run("spread_rows", library, data, out, structure, size_of(rows.shape[1:]), (int(mean),))
    return build_ragged(library.astype(out, name), structure)


def _register(operation: Callable[..., Any], mean: bool) -> None:
    def rule(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
        if len(args) != 1 or set(options) - {"empty"}:
            raise TypeError(f"vjp({operation.__name__}, x, empty=0.0) takes nothing else")
        x, bare = bared(args[0])
        own = _own(x)
        result, pullback = _vjp(own, options.get("empty", 0.0), mean)
        if own is not x:
            back = vjp(convert, x, type(own))[1]
            return result, lambda dy: back(pullback(dy))
        return result, lambda dy: bare(pullback(dy))

    rule.__name__ = operation.__name__
    registry.gradient(operation)(rule)


_register(reduce_sum, False)
_register(reduce_mean, True)
