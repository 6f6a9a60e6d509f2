"""Which sequences: indexing of every kind, and questions about a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _flow, registry
from ._rows import HALF, differentiable, linear, name_of, sums_in
from .arrays import Array, adopt, has_items, is_array, library_of, library_of_type, plain, shape_of, size_of, to_host
from .convert import (
    addresses_of,
    allocate,
    as_encoding,
    as_own,
    convert,
    is_encoding,
    is_list_of_arrays,
    kind_of,
    lod_to_ragged,
    move_rows,
    moved_at_once,
    restored,
    rows_of,
    source_of,
    structure_of,
    to_ragged,
)
from .errors import StructureError, said
from .formats import (
    Encoding,
    List,
    LoD,
    Masked,
    Packed,
    Padded,
    Pairs,
    Ragged,
    build_list,
    build_lod,
    build_masked,
    build_padded,
    build_ragged,
    level_index,
)
from .grad import Call, operation, single
from .launch.kernel import kernel
from .structure import Structure, frozen, integers, whole

_pick_sequences = kernel("pick_sequences")

# --- what an index means ---------------------------------------------------------------------------------------------


@registry.provides("place")
def place(index: Any, n: int) -> int:
    """An integer index as a place from 0 to n - 1."""
    try:
        i = whole(index, "an index")
    except TypeError:
        hint = ""
        if isinstance(index, tuple):
            hint = "; it is about sequences alone, and sf.slice(x, start, length) cuts every one"
        raise TypeError(
            f"an index must be an integer, a slice, a mask or a list of integers, not {type(index).__name__}{hint}"
        ) from None
    if not -n <= i < n:
        raise IndexError(f"index {said(i)} is out of range for {n} sequences")
    return i + n if i < 0 else i


def places(index: Any, n: int) -> slice | Array:
    """Any index as a slice with step 1, or as int64 places from 0 to n - 1."""
    if isinstance(index, slice):
        try:
            start, stop, step = index.indices(n)
        except ValueError:
            raise IndexError("the step of a slice must not be 0") from None
        except TypeError as error:
            raise TypeError(f"an index of {said(index)}: {error}") from None
        if step == 1:
            return slice(start, max(start, stop))
        return np.arange(start, stop, step, dtype=np.int64)
    if isinstance(index, list) or (is_array(index) and len(shape_of(index, "an index")) > 0):
        return _picked(index, n)
    i = place(index, n)
    return slice(i, i + 1)


def _picked(index: Any, n: int) -> Array:
    if isinstance(index, list):
        kinds = {bool if issubclass(kind, (bool, np.bool_)) else kind for kind in map(type, index)}
        if bool in kinds and len(kinds) > 1:
            raise TypeError("an index must be a mask or a list of integers, not a mixture")
        if bool not in kinds:
            index = [place(value, n) for value in index]
        array = np.array(index, None if index else np.int64)
    else:
        array = to_host(index)
    if array.dtype.kind not in "biu" and array.size:
        raise TypeError(f"an index must hold integers or bools, not {array.dtype}")
    if array.ndim != 1:
        raise TypeError(f"an index must have one axis, but has shape {array.shape}")
    if array.dtype.kind == "b":
        if array.size != n:
            raise IndexError(f"the mask has {array.size} places, but there are {n} sequences")
        return np.flatnonzero(array)
    if not array.size:
        return np.empty(0, np.int64)
    chosen = array.astype(np.int64)
    if array.dtype.kind == "i" and chosen.min() >= 0 and chosen.max() < n:
        return chosen
    wrong = (array < -n) | (array >= n) if array.dtype.kind != "u" else array >= n
    if wrong.any():
        raise IndexError(f"index {array[wrong][0]} is out of range for {n} sequences")
    return np.where(chosen < 0, chosen + n, chosen)


# --- selection -------------------------------------------------------------------------------------------------------


@registry.provides("getitem")
def getitem(x: Encoding, index: Any) -> Any:
    """The same encoding with the chosen sequences, in the order of the index."""
    if type(x) is Ragged and (type(index) is list or type(index) is np.ndarray):
        y = _picked_at_once(x, index)
        if y is not None:
            return y
    where = places(index, len(x))
    if isinstance(where, slice):
        if isinstance(x, LoD):
            return lod_slice(x, 0, where.start, where.stop)
        if isinstance(x, (List, Ragged, Masked)):
            return _sliced(x, where)
        where = np.arange(where.start, where.stop)
    return _SELECT[kind_of(x) or type(x)](x, where)


def _cut(structure: Structure, where: slice) -> Structure:
    lengths = structure.lengths[where]
    offsets = structure.offsets[where.start : where.stop + 1]
    return Structure(lengths, offsets - offsets[0], int(lengths.max()) if lengths.size else 0)


def _sliced(x: Any, where: slice) -> Any:
    """Views of a range of sequences."""
    structure = _cut(x._structure, where)
    if isinstance(x, List):
        return _list_of(x, x.items[where], structure)
    source_of(x)
    if isinstance(x, Masked):
        return build_masked(x.data[where], structure, x.side)
    start, stop = x.offsets[where.start], x.offsets[where.stop]
    return build_ragged(x.data[start:stop], structure)


def _list_of(x: List, items: tuple[Array, ...], structure: Structure) -> List:
    """Some of the arrays of `x`, after a look at whether they are still what was validated."""
    if items:
        addresses_of(x, items, structure.lengths)
        return build_list(items, structure, items[0])
    like = x._like()
    return build_list((), structure, library_of(like).empty((0, *x.item_shape), x.dtype, like))


@registry.provides("lod_slice")
def lod_slice(x: LoD, level: int, start: int, stop: int) -> LoD:
    """Sequences `start` to `stop` of `level` and the levels further in; data is a view."""
    source_of(x)
    levels = []
    for structure in x._levels[level:]:
        levels.append(_cut(structure, slice(start, stop)))
        start, stop = int(structure.offsets[start]), int(structure.offsets[stop])
    return build_lod(x.data[start:stop], tuple(levels))


def _from_list(x: List, where: Array) -> List:
    structure = Structure.of_lengths(x._structure.lengths[where])
    items = tuple([x.items[i] for i in where.tolist()])
    return _list_of(x, items, structure)


def _from_ragged(x: Ragged, where: Array) -> Ragged:
    return build_ragged(*_gathered(x, x._structure, where))


def _gathered(x: Any, structure: Structure, where: Array) -> tuple[Array, Structure]:
    """The rows of the chosen sequences, one after the other, and their structure."""
    source = source_of(x)
    chosen, starts = _chosen(structure, where)
    if _flow.wants_grad(x):  # the framework's own indexing adds up what is chosen twice
        shift = np.repeat(starts - chosen.offsets[:-1], chosen.lengths)
        return source.library.take(x.data, shift + np.arange(chosen.rows), 0), chosen
    out = allocate(source, (chosen.rows,))
    move_rows(source.restricted(chosen, starts), out)
    return out, chosen


def _chosen(structure: Structure, where: Array) -> tuple[Structure, Array]:
    """The structure of the chosen sequences, and the rows where they begin in the one they are chosen from."""
    found = _picked_from(structure, where)
    if found is None:
        raise StructureError(f"{where.size} sequences add up to more rows than int64 can count")
    return found


def _picked_from(structure: Structure, where: Array) -> tuple[Structure, Array] | None:
    """The same, None where a place does not exist or the rows are too many."""
    k = where.size
    picked: Array = np.empty(3 * k + 1, np.int64)
    longest = _pick_sequences(where, structure.lengths, structure.offsets, picked)
    if longest < 0:
        return None
    picked.setflags(False)
    return Structure(picked[:k], picked[k : 2 * k + 1], longest), picked[2 * k + 1 :]


def _picked_at_once(x: Ragged, index: Any) -> Ragged | None:
    """A few sequences of a plain batch on the host; None for anything else, and for a wrong index."""
    library = plain(x.data, x._dtype, x._shape)
    if library is None or (type(index) is list and set(map(type, index)) != {int}):
        return None
    where = np.array(index)
    if where.dtype != np.int64 or where.ndim != 1:
        return None
    found = _picked_from(x._structure, where)
    if found is None:
        return None
    return moved_at_once(to_ragged, library, x.data, x._shape[1:], x.data, *found)  # type: ignore[no-any-return]


def _from_masked(x: Masked, where: Array) -> Masked:
    library = source_of(x).library
    return build_masked(library.take(x.data, where, 0), Structure.of_lengths(x.lengths[where]), x.side)


def _from_padded(x: Padded, where: Array) -> Padded:
    library = source_of(x).library
    structure = Structure.of_lengths(x._structure.lengths[where])
    column = np.empty(len(x), np.int64)
    column[x.indices] = np.arange(len(x))
    data = library.take(x.data[: structure.longest], column[where[structure.order.indices]], 1)
    return build_padded(data, structure)


def _from_packed(x: Packed, where: Array) -> Packed:
    return convert(_from_ragged(convert(x, Ragged), where), Packed)  # type: ignore[no-any-return]


def levels_of(x: LoD, where: Array) -> tuple[Structure, ...]:
    """The levels of the chosen outermost sequences, in the order of `where`."""
    levels = []
    start, stop = where, where + 1
    for structure in x._levels:
        lengths = stop - start
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        inner = np.repeat(start - offsets[:-1], lengths) + np.arange(offsets[-1])
        levels.append(Structure.of_lengths(structure.lengths[inner]))
        start, stop = structure.offsets[start], structure.offsets[stop]
    return tuple(levels)


def _from_lod(x: LoD, where: Array) -> LoD:
    data, _ = _gathered(x, structure_of(x, 0), where)
    return build_lod(data, levels_of(x, where))


_SELECT: dict[type, Callable[[Any, Array], Any]] = {
    List: _from_list,
    Ragged: _from_ragged,
    Masked: _from_masked,
    Padded: _from_padded,
    Packed: _from_packed,
    LoD: _from_lod,
}


@registry.provides("take_rows")
def take_rows(x: Array, index: Any) -> Array:
    """Rows of a plain array, by any index that an encoding takes."""
    library, array = adopt(x)
    where = places(index, len(array))
    return array[where] if isinstance(where, slice) else library.take(array, where, 0)


@registry.provides("select")
@operation
def select(x: Any, index: Any, level: int = 0) -> Any:
    """Some sequences of a level; any dtype.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    index : a list or array of positions (negative from the end), a mask, a slice or one position
    level : of a `LoD`, the level whose sequences are counted.  At the outermost they come in the order of the index, as
        by ``x[index]``; at a deeper one each stays with its parent, parents keep their order, and one that is left
        without any is empty

    Returns what `x` is.

    Errors: IndexError for positions or levels that do not exist, TypeError for another kind of index.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.arange(5), [[0, 2, 3], [0, 1, 3, 5]])
    >>> sf.select(x, [True, True, False], level=1).to_nested()
    [[[0], [1, 2]], []]
    """
    own, home, home_dx = single(x)
    k = level_index(own, level)
    structure = own._levels[k] if isinstance(own, LoD) else own._structure
    return selected(own, places(index, structure.n), home, home_dx, k)


def rows_or_batch(x: Any) -> tuple[Any, Any, Any]:
    """`grad.single` for what may also be a plain array of rows."""
    if not is_array(x):
        return single(x)
    rows = adopt(x, "x")[1]
    if len(rows.shape) < 1:
        raise StructureError("x must have the axes (n, *item), but is a single number")
    return rows, None, None


def selected(own: Any, chosen: slice | Array, home: Any, home_dx: Any, level: int = 0) -> Call:
    """The chosen sequences of a level, or rows of an array, and the way back; of a slice views where there are any."""
    where = np.arange(chosen.start, chosen.stop) if isinstance(chosen, slice) else chosen
    twice = np.unique(where).size < where.size
    name = library_of(own).dtype_name(own.dtype) if is_array(own) else name_of(own)

    def check(wanted: bool) -> None:
        if wanted and twice:  # the gradient adds up
            sums_in(name)
            differentiable(name, "a selection with repeated positions")

    if is_array(own):
        rows, item = own.shape[0], tuple(own.shape[1:])

        def rows_of(z: Any) -> Array:
            return z[chosen] if isinstance(chosen, slice) else library_of(z).take(z, where, 0)

        def placed_rows(dy: Any) -> Array:
            one, all_rows = (Structure.of_lengths(np.ones(count, np.int64)) for count in (where.size, rows))
            return _placed(build_ragged(dy, one), where, all_rows).data.reshape(rows, *item)

        def rule_of_rows(z: Any, wanted: bool) -> tuple[Any, Any]:
            check(wanted)
            return rows_of(z), lambda dy: linear(placed_rows, rows_of, dy)

        return Call(own, rule_of_rows)
    shape = _flow.hollow(own)
    if level:
        offsets = own._levels[level - 1].offsets
        parents = np.searchsorted(offsets, where, side="right") - 1
        order = np.argsort(parents, kind="stable")
        where = where[order]
        above = Structure.of_lengths(np.bincount(parents, minlength=offsets.size - 1).astype(np.int64))

    def forward(z: Any) -> Any:
        if not level:
            return getitem(z, chosen)
        inner = getitem(lod_slice(z, level, 0, z._levels[level].n), where)
        return build_lod(inner.data, (*z._levels[: level - 1], above, *inner._levels))

    def back(dy: Any) -> Any:
        r = convert(dy, LoD) if isinstance(own, LoD) else convert(dy, Ragged)
        r = lod_to_ragged(r, level=level) if isinstance(r, LoD) else r
        return restored(_placed(r, where, structure_of(shape, level)), shape)

    def rule(z: Any, wanted: bool) -> tuple[Any, Any]:
        check(wanted)
        return forward(z), lambda dy: linear(back, forward, dy)

    return Call(own, rule, home, home_dx)


def _placed(dy: Ragged, where: Array, structure: Structure) -> Ragged:
    """Sequence j of `dy` at place ``where[j]`` of a batch of zeros; what meets at one place is added up, in order."""
    source = source_of(dy)
    library = source.library
    counts = np.bincount(where, minlength=structure.n).astype(np.int64)
    if counts.size == 0 or counts.max() <= 1:
        out = library.zeros((structure.rows, *source.item_shape), source.like.dtype, source.like)
        move_rows(source, out, starts=frozen(structure.offsets[where]))
        return build_ragged(out, structure)
    copies, _ = _gathered(dy, dy._structure, np.argsort(where, kind="stable"))
    repeated = Structure.of_lengths(np.repeat(structure.lengths, counts))
    return build_ragged(sum_of_copies(copies, Structure.of_lengths(counts), repeated, structure), structure)


def sum_of_copies(rows: Array, copies: Structure, repeated: Structure, structure: Structure) -> Array:
    """The sum of the copies of every sequence that stand one after the other in `rows`, added up in order.

    Sequence i of `structure` has ``copies.lengths[i]``; `repeated` is the structure of `rows`.
    """
    library = library_of(rows)
    name, item = library.dtype_name(rows.dtype), tuple(rows.shape[1:])
    data = library.astype(rows, "float32" if name in HALF else name)
    total = library.empty((structure.rows, *item), data.dtype, data)
    width = size_of(item)
    if width and structure.n:
        arrays = (frozen(repeated.offsets[copies.offsets[:-1]]), structure.offsets, copies.lengths)
        kernel("sum_copies").start(library, (data,), (total,), arrays, width, structure)
    return library.astype(total, name)


# --- questions -------------------------------------------------------------------------------------------------------


def lengths(x: Any, level: int = -1) -> Array:
    """The lengths of the sequences of one level, in the caller's order: ``(n,)`` int64, read-only, on the host.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    level : of a `LoD`, negative from the innermost.  A length counts the sequences of the next level, or rows.

    Errors: IndexError for a level that does not exist, TypeError for what is no encoding.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.lengths(sf.convert([np.arange(1), np.arange(3)], sf.Padded))
    array([1, 3])
    """
    x = as_encoding(x)
    if isinstance(x, Pairs):
        return lengths(x.two if is_array(x.one) else x.one, level)
    x = as_own(x)
    k = level_index(x, level)
    return x._levels[k].lengths if isinstance(x, LoD) else x._structure.lengths


def lengths_given(given: Any) -> Array:
    """The lengths that a caller means: an encoding's or a bare list's own, or the integers given; a private copy."""
    return lengths(given).copy() if is_batch(given) else integers(given, "lengths")


def is_batch(given: Any) -> bool:
    """Is this a batch, and not the lengths of one?  Of a list its first element says so."""
    return bool(given) and has_items(given[0]) if isinstance(given, (list, tuple)) else kind_of(given) is not None


def equal(a: Any, b: Any, equal_nan: bool = False) -> bool:
    """Are these the same encoding, with the same structure in the caller's order, dtype and items?

    Padding never counts.  With `equal_nan` a NaN equals a NaN.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> a = sf.convert([np.array([1, 2]), np.array([3])], sf.Masked, fill=7)
    >>> b = sf.convert([np.array([1, 2]), np.array([3])], sf.Masked, width=5)
    >>> sf.equal(a, b)
    True
    """
    a, b = as_encoding(a), as_encoding(b)
    for x in (a, b):
        if not isinstance(x, (Encoding, Pairs)) and not is_array(x):
            raise TypeError(f"equal compares encodings, not {type(x).__name__}")
    if type(a) is not type(b):
        return False
    if isinstance(a, Pairs):
        return equal(a.one, b.one, equal_nan) and equal(a.two, b.two, equal_nan)
    if isinstance(a, LoD):
        if len(a.lod) != len(b.lod) or not all(np.array_equal(s, t) for s, t in zip(a.lod, b.lod, strict=True)):
            return False
    elif isinstance(a, Encoding) and not a._structure.like(b._structure):
        return False
    if isinstance(a, Encoding):
        if a.dtype != b.dtype or a.item_shape != b.item_shape or a.device != b.device:
            return False
        a, b = rows_of(a), rows_of(b)
    if tuple(a.shape) != tuple(b.shape) or a.dtype != b.dtype:
        return False
    if size_of(a.shape) == 0:
        return True
    library = library_of_type(type(a))
    if library is not None and not library.arithmetic:
        a, b = to_host(a), to_host(b)
    with np.errstate(invalid="ignore"):  # which signalling NaNs are
        same = a == b
        if equal_nan:
            same = same | ((a != a) & (b != b))
    return bool(same.all())


def to_device(x: Any, device: Any) -> Any:
    """The same encoding on another device.

    torch stays torch and CuPy stays CuPy; NumPy arrays become Numba device arrays on a GPU and come back as NumPy
    arrays.  The structure is on the host anyhow and is shared.

    Parameters
    ----------
    x : an encoding, a list of arrays, or an array
    device : "cpu", "cuda", "cuda:1", or what the array library takes

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.to_device(sf.Ragged(np.arange(3), [1, 2]), "cpu").device
    'cpu'
    """
    if not is_array(x) and not is_encoding(x) and not (isinstance(x, (list, tuple)) and is_list_of_arrays(x)):
        raise TypeError(f"{type(x).__name__} is neither an encoding nor an array nor a list of arrays")
    if isinstance(x, List) and not x.items:
        return build_list((), x._structure, to_device(x._like(), device))
    if isinstance(x, Encoding):
        source_of(x)
    moved = []
    for leaf in _flow.leaves(x):
        library, array = adopt(leaf)
        moved.append(library.to_device(array, device))
    return _flow.rebuild(x, moved)
