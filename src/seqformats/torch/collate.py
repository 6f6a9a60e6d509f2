"""Samples of a dataset as one batch of tensors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .. import registry
from ..arrays import is_array_type, shape_of
from ..converters.convert import check_target, convert
from ..errors import COLUMNS, EMPTY, KIND, MIXED, OPTION, OVERFLOW, SeqFormatError, again, quote
from ..formats import Encoding, Masked, Ragged
from ..formats.bare import is_packed
from ..operations.batch import join_batches
from ..operations.library import to as brought

Path: TypeAlias = tuple[Hashable, ...]
"""Where a column is in a sample: a key in a key, a field, a position."""


def collate(
    samples: Sequence[object],
    to: type | Mapping[Hashable, type] = Masked,
    *,
    rows: Collection[Hashable] = (),
    **options: object,
) -> Any:
    """Samples of a dataset as one batch: sequences as encodings of tensors, numbers as tensors.

    Parameters
    ----------
    samples : n dicts, tuples, named tuples or dataclasses, or n sequences
        Nested as they like, all of the same form.
    to : an encoding, `Masked` without it, or `list`
        For all sequences, or a mapping from columns to encodings; columns that it does not name become `Masked`.
        From lists in lists, an encoding of one level has the innermost as its sequences, and with ``level=0`` one a
        sample; `LoD` has all levels, and `list` leaves nested lists as they are.
    rows : names of columns
        Arrays in them have one shape and are stacked, ``(n, *shape)``: an embedding or an image, no sequence.
    **options : of `convert`
        ``fill``, ``side``, ``multiple_of``, ``width``, ``truncate``, ``level``; and ``dtype``, which numbers and
        `rows` take too where a mapping names them.  Each is for all sequences, or a mapping from columns to values.

    Returns
    -------
    what a sample is
        With a column in each place, by the type of what the samples have there:

        an array or tensor with an axis, a list of numbers, lists in lists
            a sequence: an encoding of n sequences, on the device of the tensors
        a number, an array or tensor without axes
            a tensor ``(n,)``; Python's floats are float64, as PyTorch's own function has it
        an encoding
            one encoding, of the sequences of all samples
        a dict, tuple, named tuple or dataclass
            the same of columns
        anything else: text, None, lists of these
            the list of them

    Raises
    ------
    TypeError
        For an option that no encoding knows, a column that is named and not there, and items that tensors cannot hold.
    StructureError
        For samples that do not fit each other: other columns, other kinds of values, other dtypes or item shapes.
    SeqFormatError
        What `convert` says, with the name of the column before it.

    See Also
    --------
    BucketSampler : Which samples come together.
    seqformats.convert : What the options mean.

    Notes
    -----
    The type decides, never the lengths that a batch happens to have: an array is a sequence where all are equally long,
    too, unless it is one of `rows`.  Only where all lists of a batch are empty there is no type: they become sequences
    of float64.  ``dtype={"ids": torch.int64}`` settles it, and ``to={"words": list}`` where they are lists of text.

    With workers, call `collate` once before the loader forks them: they inherit the kernels that it has loaded.  With
    ``pin_memory=True`` encodings are pinned like tensors.

    A column is named by its key, its field or its position; where two are called alike, by all keys on the way to it,
    ``("target", "boxes")``.

    Examples
    --------
    >>> import functools
    >>> import numpy as np
    >>> import seqformats as sf
    >>> samples = [{"ids": np.array([5, 3]), "label": 1}, {"ids": np.array([8, 3, 9]), "label": 0}]
    >>> batch = sf.torch.collate(samples)
    >>> batch["ids"].data
    tensor([[5, 3, 0],
            [8, 3, 9]])
    >>> batch["label"]
    tensor([1, 0])
    >>> from torch.utils.data import DataLoader
    >>> flat = functools.partial(sf.torch.collate, to=sf.Ragged)
    >>> [batch["ids"].data.tolist() for batch in DataLoader(samples, 2, collate_fn=flat)]
    [[5, 3, 8, 3, 9]]
    """
    if isinstance(samples, (str, bytes)) or not isinstance(samples, Sequence):
        raise KIND(f"samples must be a list of them, not {quote(samples)}")
    if not samples:
        raise EMPTY("there are no samples, so nothing says what a batch of them is")
    wishes = _Wishes(to, rows, options)
    batch = _column(samples, (), wishes)
    wishes.check_names()
    return batch


class _Wishes:
    """Wishes of a caller for each column."""

    def __init__(self, to: object, rows: Collection[Hashable], options: dict[str, object]) -> None:
        if isinstance(rows, (str, bytes)) or not isinstance(rows, Collection):
            raise KIND(f"rows must be a list of names of columns, not {quote(rows)}")
        for kind in to.values() if isinstance(to, Mapping) else (to,):
            check_target(kind)
        given = {"to": to, **options}
        self.rows = rows
        self.some = {option: value for option, value in given.items() if isinstance(value, Mapping)}
        self.all = {"to": Masked} | {option: value for option, value in given.items() if option not in self.some}
        self.seen: list[Path] = []

    def find_options(self, path: Path) -> dict[str, Any]:
        """The options of a column, `to` among them."""
        wanted = dict(self.all)
        for option, by_column in self.some.items():
            for name, value in by_column.items():
                if _names(name, path):
                    wanted[option] = value
        return wanted

    def dtype(self, path: Path) -> object:
        """The dtype for a column that holds no sequences, where one is asked for by its name."""
        return next((value for name, value in self.some.get("dtype", {}).items() if _names(name, path)), None)

    def stacks(self, path: Path) -> bool:
        """Tell whether a column holds rows."""
        return any(_names(name, path) for name in self.rows)

    def check_names(self) -> None:
        """TypeError for a name of no column."""
        for option, names in (("rows", self.rows), *self.some.items()):
            for name in names:
                if not any(_names(name, path) for path in self.seen):
                    known = ", ".join(map(_said_path, self.seen))
                    raise OPTION(f"{option} is given for {quote(name)}, but the columns are {known or 'none'}")


def _names(name: Hashable, path: Path) -> bool:
    """Tell whether this name means that column."""
    return name == path or (bool(path) and name == path[-1])


def _said_path(path: Path) -> str:
    return " > ".join(map(quote, path)) if path else "the samples themselves"


def _where(path: Path) -> str:
    return f"column {_said_path(path)}: " if path else ""


def _column(values: Sequence[Any], path: Path, wishes: _Wishes) -> Any:
    """Join what the samples have in one place into one value."""
    kinds = {kind: _kind(kind) for kind in set(map(type, values))}
    kind = kinds[type(values[0])]
    if len(kinds) > 1:
        for i, value in enumerate(values):
            if kinds[type(value)] is not kind:
                raise MIXED(
                    f"{_where(path)}sample {i} is {_a(value)}, but sample 0 is {_a(values[0])}; all must be alike"
                )
    if kind not in _OUTER:
        wishes.seen.append(path)
    return kind(values, path, wishes)


def _a(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


Kind: TypeAlias = Callable[[Sequence[Any], Path, _Wishes], Any]


def _kind(kind: type) -> Kind:
    """Return how values of a type are collated."""
    if kind in _KINDS:
        return _KINDS[kind]
    if registry.is_encoding_type(kind) or issubclass(kind, Encoding) or is_packed(kind):
        return _join
    if issubclass(kind, Mapping):
        return _by_key
    if issubclass(kind, tuple):
        return _by_place
    if dataclasses.is_dataclass(kind):
        return _by_field
    if is_array_type(kind):
        return _arrays
    if issubclass(kind, list):
        return _lists
    if issubclass(kind, (int, float, complex, np.number, np.bool_)):
        return _numbers
    return _objects


# --- outer kinds: columns in columns


def _by_key(values: Sequence[Mapping[Any, Any]], path: Path, wishes: _Wishes) -> dict[Any, Any]:
    first = values[0].keys()
    for i, value in enumerate(values):
        if value.keys() != first:
            missing = [key for key in first if key not in value]
            if missing:
                raise COLUMNS(f"{_where(path)}sample {i} has no {quote(missing[0])}, which sample 0 has")
            more = next(key for key in value if key not in first)
            raise COLUMNS(f"{_where(path)}sample {i} has {quote(more)}, which sample 0 has not")
    return {key: _column([value[key] for value in values], (*path, key), wishes) for key in first}


def _by_place(values: Sequence[tuple[Any, ...]], path: Path, wishes: _Wishes) -> tuple[Any, ...]:
    first = values[0]
    for i, value in enumerate(values):
        if len(value) != len(first):
            raise COLUMNS(
                f"{_where(path)}sample {i} is a tuple of {len(value)}, but sample 0 of {len(first)}; a tuple holds a "
                "column in each place, a sequence is a list or an array"
            )
    names: Sequence[Hashable] = getattr(type(first), "_fields", range(len(first)))
    columns = [_column([value[k] for value in values], (*path, name), wishes) for k, name in enumerate(names)]
    return type(first)(*columns) if hasattr(type(first), "_fields") else tuple(columns)


def _by_field(values: Sequence[Any], path: Path, wishes: _Wishes) -> Any:
    names = [field.name for field in dataclasses.fields(values[0]) if field.init]
    columns = {name: _column([getattr(v, name) for v in values], (*path, name), wishes) for name in names}
    return type(values[0])(**columns)


# --- inner kinds: a column


def _arrays(values: Sequence[Any], path: Path, wishes: _Wishes) -> Any:
    if wishes.stacks(path):
        return _stack(values, path, wishes.dtype(path))
    return (
        _sequences(values, path, wishes)
        if _call(shape_of, path, values[0])
        else _stack(values, path, wishes.dtype(path))
    )


def _lists(values: Sequence[list[Any]], path: Path, wishes: _Wishes) -> Any:
    leaf: object = 0  # where there is none at all they are numbers, as `convert` has it
    for leaf in _leaves(values):
        if leaf is not None:
            break
    if _kind(type(leaf)) not in (_numbers, _arrays):
        return list(values)
    if wishes.stacks(path):
        arrays = [_call(np.array, path, value) for value in values]
        return _stack(arrays, path, wishes.dtype(path))
    return _sequences(values, path, wishes)


def _leaves(values: Sequence[Any]) -> Iterator[object]:
    """Yield what is in lists of lists and is no list; each list is looked into once, so there is an end."""
    waiting: list[Iterator[Any]] = [iter(values)]
    seen = set()
    while waiting:
        for item in waiting[-1]:
            if not isinstance(item, list):
                yield item
            elif id(item) not in seen:
                seen.add(id(item))
                waiting.append(iter(item))
                break
        else:
            waiting.pop()


def _sequences(values: Sequence[Any], path: Path, wishes: _Wishes) -> Any:
    options = wishes.find_options(path)
    if "dtype" in options:
        options["library"] = "torch"
    return _in_tensors(list(values), path, options)


def _join(values: Sequence[Any], path: Path, wishes: _Wishes) -> Any:
    options = wishes.find_options(path)
    dtype = options.pop("dtype", None)
    return _in_tensors(_call(join_batches, path, list(values)), path, {**options, "copy": True}, dtype)


def _in_tensors(x: Any, path: Path, options: dict[str, Any], dtype: object = None) -> Any:
    """Sequences as an encoding of tensors, in memory of its own.

    A `List` is one of views of one tensor: between processes each tensor with memory of its own is a file, and a view
    of a dataset's takes all of that along.
    """
    target = options.pop("to")
    alone = isinstance(target, type) and issubclass(target, Encoding) and not target._in_one_array
    made = _call(convert, path, x, Ragged if alone else target, **options)
    if isinstance(made, list):
        return made
    made = _in_torch(made, path, dtype)
    return convert(made, target) if alone else made


def _numbers(values: Sequence[Any], path: Path, wishes: _Wishes) -> Any:
    types = set(map(type, values))
    if len(types) > 1 and types != {int, float}:
        _differ(values, path, lambda value: type(value).__name__, "is of type")
    array = np.array(values)
    if types == {int} and array.dtype != np.int64:
        i = next(i for i, value in enumerate(values) if not -(2**63) <= value < 2**63)
        raise OVERFLOW(f"{_where(path)}sample {i} is {quote(values[i])}, which does not fit int64")
    return _in_torch(array, path, wishes.dtype(path))


def _stack(values: Sequence[Any], path: Path, dtype: object) -> Any:
    import torch

    tensors = [_in_torch(value, path) for value in values]
    _differ(tensors, path, lambda tensor: str(tensor.dtype), "has dtype")
    hint = f"; rows have one shape, and without rows=({quote(path[-1])},) these are sequences" if path else ""
    _differ(tensors, path, lambda tensor: tuple(tensor.shape), "has shape", hint)
    _differ(tensors, path, lambda tensor: tensor.device, "is on")
    return _in_torch(torch.stack(tensors), path, dtype)


def _in_torch(x: Any, path: Path, dtype: object = None) -> Any:
    """An encoding or an array in PyTorch; what is there already, and NumPy's usual numbers, in little time."""
    import torch

    if dtype is None:
        if type(x) is np.ndarray and x.dtype in _USUAL and x.flags.carray:
            return torch.from_numpy(x)
        if type(x._sample() if isinstance(x, Encoding) else x) is torch.Tensor:
            return x
    return _call(brought, path, x, "torch", dtype=dtype)


_USUAL = {np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_)}


def _differ(values: Sequence[Any], path: Path, look: Callable[[Any], object], what: str, hint: str = "") -> None:
    """StructureError where two samples look different."""
    looks = [look(value) for value in values]
    if len(set(looks)) > 1:
        i = next(i for i, found in enumerate(looks) if found != looks[0])
        raise MIXED(f"{_where(path)}sample {i} {what} {looks[i]}, but sample 0 {looks[0]}{hint}")


def _objects(values: Sequence[Any], *_: object) -> list[Any]:
    return list(values)


def _call(function: Callable[..., Any], path: Path, *args: Any, **options: Any) -> Any:
    """The result; an error names the column, and calls an item what it is here, a sample."""
    try:
        return function(*args, **options)
    except (SeqFormatError, TypeError, IndexError) as error:
        text = re.sub(r"\bitems\[(\d+)\]", r"sample \1", str(error))
        raise again(error, f"{_where(path)}{text}") from None
    except ValueError as error:  # NumPy's, of lists that are no array
        raise MIXED(f"{_where(path)}{error}") from None


_OUTER: set[Kind] = {_by_key, _by_place, _by_field}
_KINDS: dict[type, Kind] = {
    dict: _by_key,
    tuple: _by_place,
    list: _lists,
    np.ndarray: _arrays,
    int: _numbers,
    float: _numbers,
    bool: _numbers,
    str: _objects,
    type(None): _objects,
}
