"""Batches as plain arrays under names, for files: npz, safetensors, HDF5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from .. import formats
from ..arrays import Array, adopt, is_array, library_of, to_host
from ..converters.convert import convert
from ..errors import BATCH, BROKEN, KIND, quote
from ..formats import Encoding, Pairs, Ragged
from ..formats.annotations import Given, Shaped
from ..formats.bare import as_encoding
from ..formats.leaves import leaves
from .annotations import Batch

VERSION = 1
"""Of what is written; it rises when what is written already could no longer be read."""
_ARRAY, _PAIRS = "array", "Pairs"
_MEMBERS = ("one", "two")
_HEAD = ("format", "version")

_WORDS = ("str", "Side")  # the types of fields that are stored as letters


def to_arrays(x: Batch | Shaped, prefix: str = "") -> dict[str, Array]:
    """A batch as a dict of arrays, from which `from_arrays` restores it.

    Parameters
    ----------
    x : an encoding of this library, `Pairs`, a list of arrays or nested lists
    prefix : str
        What every name begins with, so that several batches fit one file: ``"tokens."``.

    Returns
    -------
    dict
        ``format`` (the name of the encoding in ASCII, uint8), ``version`` (int64) and the fields of the encoding:
        ``data`` as it is, the structure as int64, words as uint8; of a `LoD` ``lod.0``, ``lod.1``, ...; of `Pairs`
        the members' with ``one.`` and ``two.`` before them.  All are in the library of data, on its device.  A `List`
        is written as one array of rows, and bare lists as the encoding that they stand for.

    Raises
    ------
    TypeError
        If the argument is not a batch, a user's own encoding included.

    See Also
    --------
    from_arrays : The way back.

    Notes
    -----
    ``np.savez(file, **sf.to_arrays(x))`` writes NumPy arrays, ``safetensors.torch.save_file(sf.to_arrays(x), file)``
    tensors; ``to(x, "numpy")`` brings a batch to what the file takes.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> arrays = sf.to_arrays(sf.Ragged(np.array([1, 2, 3]), [2, 1]))
    >>> sorted(arrays)
    ['data', 'format', 'lengths', 'version']
    >>> sf.from_arrays(arrays)
    Ragged(shape (3,), int64, cpu, 2 sequences of lengths [2, 1])
    """
    if not isinstance(prefix, str):
        raise KIND(f"prefix must be a str, not {quote(prefix)}")
    x = as_encoding(x)
    if isinstance(x, Pairs):
        members = {name: getattr(x, name) for name in _MEMBERS}
        sample = next(iter([*leaves(x), np.empty(0)]))
        return {
            **_add_header(_PAIRS, sample, prefix),
            **{key: a for name, member in members.items() for key, a in to_arrays(member, f"{prefix}{name}.").items()},
        }
    if is_array(x):
        return {**_add_header(_ARRAY, adopt(x)[1], prefix), f"{prefix}data": adopt(x)[1]}
    if not isinstance(x, Encoding) or _kind(type(x).__name__) is not type(x):
        raise BATCH(f"to_arrays takes encodings of this library, and no {type(x).__name__}; convert it to one of them")
    x._look()
    source: Any = x if x._in_one_array else convert(x, Ragged)
    found = _add_header(type(x).__name__, source.data, prefix)
    for field in fields(source):
        for name, value in _parts(field.name, getattr(source, field.name)):
            found[prefix + name] = value if name == "data" else library_of(source.data).from_host(value, source.data)
    return found


def _add_header(name: str, like: Array, prefix: str) -> dict[str, Array]:
    library = library_of(like)
    head = (_ascii(name), np.array([VERSION], np.int64))
    return {prefix + key: library.from_host(value, like) for key, value in zip(_HEAD, head, strict=True)}


def _parts(name: str, value: Given) -> Iterable[tuple[str, Array]]:
    """A field as arrays under names."""
    if isinstance(value, tuple):
        return [(f"{name}.{k}", part) for k, part in enumerate(value)]
    return [(name, _ascii(value) if isinstance(value, str) else value)]


def _ascii(text: str) -> Array:
    return np.frombuffer(text.encode("ascii"), np.uint8)


def from_arrays(arrays: Mapping[str, Shaped], prefix: str = "") -> Any:
    """The batch that `to_arrays` has made arrays of.

    Parameters
    ----------
    arrays : mapping of names to arrays
        A dict, or what `np.load` gives.
    prefix : str
        The names that begin with it are looked at, and no others.

    Returns
    -------
    an encoding, `Pairs`, or an array
        Over the data that is given: an array that maps a file stays one.  Everything else is checked and copied.

    Raises
    ------
    StructureError
        For another format or version, for names that are missing or too many, and for arrays that do not fit each
        other.
    TypeError
        If the argument is no mapping of names to arrays, or arrays have wrong dtypes.

    See Also
    --------
    to_arrays : The way there.

    Notes
    -----
    Nothing that is read is trusted: no code is run, and no array is made of a size that is only said.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> import seqformats as sf
    >>> file = io.BytesIO()
    >>> np.savez(file, **sf.to_arrays([np.array([1, 2]), np.array([3])], "words."))
    >>> with np.load(io.BytesIO(file.getvalue())) as saved:
    ...     sf.from_arrays(saved, "words.")
    List(items of shape (), int64, cpu, 2 sequences of lengths [2, 1])
    """
    if not isinstance(prefix, str):
        raise KIND(f"prefix must be a str, not {quote(prefix)}")
    if not isinstance(arrays, Mapping):
        raise KIND(f"from_arrays takes a mapping of names to arrays, not {type(arrays).__name__}")
    found = {key[len(prefix) :]: arrays[key] for key in arrays if isinstance(key, str) and key.startswith(prefix)}
    for key, value in found.items():
        if not is_array(value):
            raise KIND(f"{prefix + key} must be an array, not {type(value).__name__}")
    return _read(found, prefix)


def _read(found: dict[str, Any], prefix: str, depth: int = 8) -> Any:
    """The batch of these arrays, with Pairs in Pairs to this depth."""
    for key in _HEAD:
        if key not in found:
            known = f"; there are: {_list_names(found)}" if found else ""
            raise BROKEN(f"there is no {quote(prefix + key)}, so this is nothing that to_arrays has made{known}")
    version = to_host(found.pop("version"))
    if version.shape != (1,) or version.dtype.kind not in "iu" or version[0] != VERSION:
        raise BROKEN(f"{prefix}version is {quote(version.tolist())}, but only [{VERSION}] can be read here")
    name = _text(found.pop("format"), f"{prefix}format")
    if name == _PAIRS and depth:
        return _pairs(found, prefix, depth - 1)
    if name == _ARRAY:
        _check_names(found, ["data"], prefix)
        return adopt(found["data"], f"{prefix}data")[1]
    kind = _kind(name)
    if kind is None:
        raise BROKEN(f"{prefix}format is {quote(name)}, which is no encoding here")
    source: Any = kind if kind._in_one_array else Ragged
    given: dict[str, Any] = {}
    wanted: list[str] = []
    for field in fields(source):
        if "tuple" in str(field.type):
            count = sum(key.startswith(f"{field.name}.") for key in found)
            names = [f"{field.name}.{k}" for k in range(max(count, 1))]
            given[field.name] = tuple([found.get(key) for key in names])
        else:
            names = [field.name]
            given[field.name] = found.get(field.name)
        wanted += names
    _check_names(found, wanted, prefix)
    for field in fields(source):
        if field.type in _WORDS:
            given[field.name] = _text(given[field.name], prefix + field.name)
    x = source(**given)
    return x if source is kind else convert(x, kind)


def _pairs(found: dict[str, Any], prefix: str, depth: int) -> Pairs:
    begins = tuple([f"{name}." for name in _MEMBERS])
    strange = [key for key in found if not key.startswith(begins)]
    if strange:
        raise BROKEN(f"{_list_names(strange, prefix)} {_have(strange)} no place in {_PAIRS}")
    one, two = (
        _read({key[len(b) :]: a for key, a in found.items() if key.startswith(b)}, prefix + b, depth) for b in begins
    )
    return Pairs(one, two)


def _check_names(found: Iterable[str], wanted: Iterable[str], prefix: str) -> None:
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise BROKEN(f"{_list_names(missing, prefix)} {_have(missing)} not been given; there are: {_list_names(found)}")
    strange = sorted(set(found) - set(wanted))
    if strange:
        raise BROKEN(
            f"{_list_names(strange, prefix)} {_have(strange)} no place there; where several batches are in one file, "
            "each "
            "has a prefix"
        )


def _have(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _list_names(names: Iterable[str], prefix: str = "") -> str:
    some = [quote(prefix + name) for name in names]
    return ", ".join(some[:8]) + (", ..." if len(some) > 8 else "")


def _text(array: object, what: str) -> str:
    """ASCII in an array."""
    codes = to_host(array)
    if codes.dtype != np.uint8 or codes.ndim != 1:
        raise KIND(f"{what} must be text, uint8 with one axis, not {codes.dtype} of shape {codes.shape}")
    try:
        text: str = codes[:64].tobytes().decode("ascii")
    except UnicodeDecodeError:
        raise BROKEN(f"{what} must be text in ASCII, but is {quote(codes[:64].tobytes())}") from None
    return text


def _kind(name: str) -> type[Encoding] | None:
    """The encoding of this library of that name."""
    kind = getattr(formats, name, None) if name in formats.__all__ else None
    own = isinstance(kind, type) and issubclass(kind, Encoding) and kind is not Encoding
    return kind if own else None
