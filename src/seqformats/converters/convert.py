"""`convert`: from anything that holds sequences to any encoding, along a route of conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

import numpy as np

from .. import core, hints, registry
from ..arrays import Array, freeze, is_array, library_of, with_autograd
from ..errors import BATCH, COUNTS, KIND, quote
from ..formats import Encoding, List, LoD, Masked, Packed, Padded, Pairs, Ragged
from ..formats.annotations import Data, Given
from ..formats.bare import as_encoding, is_column, is_list_of_arrays, list_of, read_column, read_list
from ..formats.call_plans import follow
from ..formats.leaves import connect, leaves, rebuild, wants_grad, without_data
from ..formats.objects import as_list, is_array_of_objects
from ..formats.pairs import is_encoding
from ..formats.rows import Source, lay_out, put_rows
from ..formats.structure import Structure, same_numbers
from ..formats.trees import Options, Tree, check_batches, columns_of, is_tree, map_columns
from ..launch.kernel import planning
from ..lazy_import import import_now
from ..memory_checks import check_finite
from ..registry import direct, entrances, let_in
from .layouts import MOVERS, is_already
from .library import bring

if TYPE_CHECKING:
    from .annotations import Common, OfColumns, OtherDataclass, Rectangle, Registered, Sided

K = TypeVar("K")
T = TypeVar("T")
E = TypeVar("E", bound=Encoding)


def as_own(x: object, what: str = "no encoding") -> Encoding:
    """An encoding, a user's dataclass or a bare list as an encoding of this library; TypeError for anything else."""
    given: Any = as_encoding(x)
    if issubclass(type(given), Encoding):
        return cast(Encoding, given)
    if is_tree(given):
        raise no_encoding(given, "no single batch")
    if not is_encoding(given):
        raise no_encoding(given, what)
    own: Encoding = convert(given, _own_kind(given))
    return own


def in_pieces(x: Encoding) -> Encoding:
    """The encoding with each sequence in one piece."""
    return x if x._in_pieces else convert(x, Ragged)


def _own_kind(x: object) -> type[Encoding]:
    """The encoding of this library that stands for a user's dataclass.

    The one that it shares memory with, since order, width and side of the data are then the same; else one that keeps
    its sequences.
    """
    kind = registry.kind_of(x)
    if kind is None or registry.keeps_levels(kind):
        return Ragged if kind is None else LoD
    routes = [registry.find_route(kind, own, registry.device_kind(x)) for own in (Ragged, Masked, Padded, Packed, List)]
    shared = [route for route in routes if route is not None and route.shares]
    return min(shared, key=lambda route: len(route.steps)).target if shared else Ragged


@overload
def convert(x: Encoding[Data], To: type[Ragged], **options: Unpack[Common]) -> Ragged[Data]: ...
@overload
def convert(x: Encoding[Data], To: type[Padded], **options: Unpack[Rectangle]) -> Padded[Data]: ...
@overload
def convert(x: Encoding[Data], To: type[Packed], **options: Unpack[Common]) -> Packed[Data]: ...
@overload
def convert(x: Encoding[Data], To: type[Masked], **options: Unpack[Sided]) -> Masked[Data]: ...
@overload
def convert(x: Encoding[Data], To: type[List], **options: Unpack[Common]) -> List[Data]: ...
@overload
def convert(x: Encoding[Data], To: type[LoD], **options: Unpack[Common]) -> LoD[Data]: ...
@overload
def convert(  # type: ignore[overload-overlap]  # a mapping is an object, too
    x: Mapping[K, Any], To: type[Encoding] | type[list[Any]], **options: Unpack[OfColumns]
) -> dict[K, Any]: ...
@overload
def convert(x: Mapping[K, Any], To: type[OtherDataclass], *, copy: bool = ..., **options: Any) -> dict[K, Any]: ...
@overload
def convert(x: object, To: type[Padded], **options: Unpack[Rectangle]) -> Padded: ...
@overload
def convert(x: object, To: type[Masked], **options: Unpack[Sided]) -> Masked: ...
@overload
def convert(x: object, To: type[list[Any]], **options: Unpack[Common]) -> list[Any]: ...
@overload
def convert(x: object, To: type[E], **options: Unpack[Common]) -> E: ...
@overload
def convert(x: object, To: type[Registered], *, copy: bool = ..., **options: Any) -> Registered: ...
def convert(x: Given, To: type, *, copy: bool = False, **options: Any) -> Any:
    """Convert a batch to another encoding; the sequences stay the same.

    Parameters
    ----------
    x : an encoding, a list or tuple of arrays, nested lists, a column, or a tree of these
        A column is whatever `from_arrow` takes, or a NumPy array of arrays or lists (dtype object).
        A tree is a mapping, a tuple or NamedTuple that holds an encoding or a tree, or a dataclass that is not an
        encoding.  Its members are columns over the same sequences.  Batches in it are converted, and so are trees; rows
        (an array, or a flat list of numbers, with one row per sequence) and None are kept as they are.
    To : `List`, `Ragged`, `Padded`, `Packed`, `Masked`, `LoD`, `list` (nested), or another dataclass
        The target.  Another dataclass must have been registered with `conversion`.
    copy : bool
        Never share memory with `x`.  Otherwise `Ragged` <-> `LoD`, conversions to `List`, and conversions that change
        nothing share it.
    **options : what the route to the target knows
        fill, width, multiple_of, truncate
            For `Padded` and `Masked`: the padding, one value or one item that the dtype represents exactly; the minimum
            width; a number that the width must be a multiple of; whether longer sequences are cut at their end.
        side
            For `Masked`: the side of the padding, "right" or "left".
        level
            From a `LoD` or nested lists: the level whose sequences become those of the target, each with all its rows;
            negative numbers count from the innermost level, which is the default for a target with one level.  Of
            documents of sentences, the default gives the sentences, and ``level=0`` the documents.
        dtype, library
            From bare lists and columns: the dtype and library for their numbers and arrays, as in `astype` and `to`.
            By default NumPy chooses the dtype of numbers (float64 if there are none), and they become NumPy arrays.

        For a tree, an option applies to every batch that knows it.  A dict gives a value for each column by name,
        ``fill={"labels": -100}``; batches that are not named get the default.

    Returns
    -------
    an object of the type `To`
        `x` itself if nothing changes.  The dtype, item shape, array library and device are kept.  For a tree, a tree
        like it (a dict for any mapping); a batch that occurs twice in it is converted once.

    Raises
    ------
    TypeError
        If `x` is not an encoding, if the route does not know an option, if a tree has no batch, and if one of its
        members is not a column.
    StructureError
        If columns have different numbers of sequences; the error names both of them.
    ConversionError
        If there is no route, or if the value of an option is impossible.
    IndexError
        If the level does not exist.

    See Also
    --------
    convert_like : Back to the encoding and structure of another batch, with all its levels.
    flatten_levels : Fewer levels, but more than one.
    explain : The route as text.

    Notes
    -----
    A NumPy array of arrays or lists (dtype object) is treated as a list of them.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.convert([np.array([1, 2]), np.array([3, 4, 5])], sf.Masked, fill=-1)
    >>> x.data
    array([[ 1,  2, -1],
           [ 3,  4,  5]])
    >>> sf.convert(x, list)
    [[1, 2], [3, 4, 5]]
    >>> documents = [[[1, 2], [3]], [[4]]]
    >>> sf.convert(documents, sf.Masked).data.tolist()
    [[1, 2], [3, 0], [4, 0]]
    >>> sf.convert(documents, sf.Masked, level=0).data.tolist()
    [[1, 2, 3], [4, 0, 0]]
    >>> columns = {"ids": [[5, 6, 7], [8]], "tags": [[1, 1, 2], [3]], "label": [0, 1]}
    >>> batch = sf.convert(columns, sf.Masked, fill={"tags": -100})
    >>> batch["tags"].data.tolist(), batch["label"]
    ([[1, 1, 2], [3, -100, -100]], array([0, 1]))
    """
    if not options and copy is False:  # the usual call: one step, and nothing that could carry a gradient
        kind: Any = type(x)
        try:
            enter = entrances.get(To)
            if enter is not None and (y := enter.convert(x)) is not None:
                return y
            entry = direct((kind, To))
        except (TypeError, ValueError):  # an array, say, is no key
            entry = None
        if entry is not None:
            if planning and entry.function in MOVERS and x._can_plan and (y := follow(x, (To, (), 0))) is not None:
                return To._freeze(y, x._structure)  # type: ignore[attr-defined]
            if entry.everywhere and not (with_autograd and wants_grad(x)):
                if entry.function not in MOVERS:
                    return entry.function(x)
                let_in(kind, To)
                return lay_out(x, To)
        elif kind is To and isinstance(x, Encoding):
            return x
    if not isinstance(copy, (bool, np.bool_)):
        raise KIND(f"copy must be True or False, not {quote(copy)}")
    kind = type(x)
    if registry.is_encoding_type(kind):
        return _along_route(x, kind, To, copy, options)
    for asks, way in _WAYS:
        if asks(x):
            return way(x, To, copy, options)
    raise no_encoding(x)


def _along_route(x: object, kind: type, To: type, copy: bool, options: Options) -> Any:
    """The conversions of the table that lead from `kind`, what `x` is, to the target."""
    check_target(To)
    if kind is To and not options:
        return copy_encoding(x) if copy else x
    route = registry.route(kind, To, registry.device_kind(x), options)
    placed = route.place(options)
    if kind is To and is_already(x, options):
        return copy_encoding(x) if copy else x
    y = x
    for step, given in zip(route.steps, placed, strict=True):
        y = _run(step, y, given)
    return copy_encoding(y) if copy and (route.shares or y is x) else y


def _pairs(x: Pairs, To: type, copy: bool, options: Options) -> Pairs:
    """Both batches of pairs; rows stay."""
    return Pairs(*[m if is_array(m) else convert(m, To, copy=copy, **options) for m in (x.one, x.two)])


def _convert_list(x: Sequence[Any], To: type, copy: bool, options: Options) -> Any:
    """A bare list or tuple: of arrays, or of lists and numbers, to any depth."""
    if type(x) in (list, tuple):
        if not options and not copy and isinstance(To, type) and (y := _laid_out(x, To)) is not None:
            return y
    elif hints.for_batch(x):
        raise no_encoding(x)
    if not is_list_of_arrays(x) or (not x and not options.keys().isdisjoint(registry.OF_THE_SOURCE)):
        return _along_route(x, list, To, copy, options)  # an empty list has no sequences, on whatever level
    if To is list and not options:
        return copy_encoding(x) if copy else x
    library, dtype = options.pop("library", None), options.pop("dtype", None)
    listed: Encoding = list_of(tuple(x))
    if library is not None or dtype is not None:  # in one array, which is cast at once
        listed = bring(convert(listed, Ragged), library, dtype)
    return convert(listed, To, copy=copy, **options)


def at_once(x: object, To: type) -> Any:
    """A bare list or tuple of plain arrays as an encoding, after one look; None for anything else."""
    if type(x) is not list and type(x) is not tuple:
        return None
    if To is List:
        return core.list_of(x)
    y = quickly(x, To)
    return _laid_out(x, To) if y is None else y


def quickly(x: object, To: type) -> Any:
    """A batch outside of any graph by the fast path to `To`; None where there is none for it."""
    enter = entrances.get(To)
    return None if enter is None else enter.convert(x)


def _laid_out(x: Sequence[Any], To: type) -> Any:
    """Convert a sequence of arrays outside of any graph, without a fast path; None where it needs another way."""
    entry = direct((List, To))
    source = None if entry is None or entry.function not in MOVERS else read_list(tuple(x))
    if source is None:
        return None
    let_in(type(x), To)
    return lay_out(source, To)


def _tree(x: object, To: type, copy: bool, options: Options) -> Any:
    """A tree, batch by batch; rows stay."""
    check_target(To)
    tree = columns_of(x)
    check_batches(tree, "convert needs")
    each = import_now(".columns", __package__).source_options(tree, To, options)

    def convert_column(column: Given, k: int) -> Any:
        if is_array(column):
            return converted_rows(tree, k, each[k], copy)
        return _of_column(column, To, copy, each[k]) if k in tree.read else convert(column, To, copy=copy, **each[k])

    return map_columns(tree, convert_column, each)


def converted_rows(tree: Tree, k: int, options: Options, copy: bool) -> Array:
    """The rows of a column; `library` and `dtype` are of those that were numbers in a list."""
    rows: Array = tree.columns[k]
    if k in tree.read:
        return cast(Array, bring(rows, options.get("library"), options.get("dtype")))
    return cast(Array, copy_encoding(rows)) if copy else rows


def _of_column(x: Encoding, To: type, copy: bool, options: Options) -> Any:
    """A column, whose memory nobody may write: another library, which must be able to, gets what has been laid out."""
    library, dtype = options.get("library"), options.get("dtype")
    late = dtype is None and To is not list
    others = {name: value for name, value in options.items() if name not in ("library", "dtype")}
    y = convert(x if late else bring(x, library, dtype), To, copy=copy, **others)
    return bring(y, library, None) if late else y


def check_target(To: object) -> None:
    """TypeError for what is no type."""
    if not isinstance(To, type):
        what = quote(To)
        if isinstance(To, str):
            named = [
                kind for kind in (List, Ragged, Padded, Packed, Masked, LoD) if kind.__name__.lower() == To.lower()
            ]
            what = f"a name; give {f'sf.{named[0].__name__}' if named else 'the class itself'}"
        raise KIND(f"the target of a conversion must be a type such as Ragged, not {what}")


_WAYS: tuple[tuple[Callable[[Any], object], Callable[[Any, type, bool, Options], Any]], ...] = (
    (is_tree, _tree),
    (lambda x: type(x) is Pairs, _pairs),
    (is_column, lambda x, *given: _of_column(read_column(x), *given)),
    (is_array_of_objects, lambda x, To, copy, options: convert(as_list(x), To, copy=copy, **options)),
    (lambda x: isinstance(x, (list, tuple)), _convert_list),
    (registry.kind_of, lambda x, *given: _along_route(x, cast(type, registry.kind_of(x)), *given)),  # one of a user's
)
"""Questions that tell batches that are no encodings apart, and the ways that they are converted."""


def no_encoding(x: object, what: str = "no encoding") -> TypeError:
    """The error for an object that is none, with the way in for what has one."""
    hint = f"; the batch comes first: convert(x, {x.__name__})" if isinstance(x, type) else hints.for_batch(x)
    if not hint and getattr(getattr(x, "dtype", None), "hasobject", False):
        hint = "; x.tolist() is a list of what it holds"
    elif not hint:
        hint = f"; give it lengths, Ragged(data, lengths), or a list of {'such ' * is_array(x)}arrays"
    return BATCH(f"{registry.label(type(x))} is {what}{hint}")


def _run(step: registry.Conversion, x: object, options: dict[str, Any]) -> Any:
    """One step, connected to the caller's autograd graph where that asks for it; a shared one is connected anyhow."""
    if not step.shares and wants_grad(x):
        plain = isinstance(x, Encoding) and not is_array(options.get("fill")) and step.pullback is None
        return connect(lambda z, _: conversion_vjp(step, z, options), x, by_column=plain)
    return step.function(x, **options)


def copy_encoding(x: object) -> Any:
    """Copy the arrays of an encoding; the structure is read-only and stays."""
    if isinstance(x, (list, tuple)):
        return _copied_lists(x)
    if isinstance(x, Pairs):
        return Pairs(copy_encoding(x.one), copy_encoding(x.two))
    if is_array(x):
        return library_of(x).copy(x)
    if isinstance(x, Encoding):
        x._look()
    return rebuild(x, [library_of(leaf).copy(leaf) for leaf in leaves(x)])


def _copied_lists(x: Sequence[Any]) -> Any:
    """Lists in lists, to any depth, around copies of what they hold."""
    levels = [[x]]
    while levels[-1]:
        check_finite(x, len(levels), sum(map(len, levels[-1])))
        levels.append([item for part in levels[-1] for item in part if isinstance(item, (list, tuple))])
    lists: list[Any] = []
    for level in reversed(levels[:-1]):
        within = iter(lists)
        lists = [
            type(part)([next(within) if isinstance(item, (list, tuple)) else copy_encoding(item) for item in part])
            for part in level
        ]
    return lists[0]


# --- the way back ----------------------------------------------------------------------------------------------------


def conversion_vjp(step: registry.Conversion, x: object, options: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """The result of one conversion of the table, and its pullback."""
    y = quickly(x, step.target) if step.function in MOVERS and not options else None
    if y is None:
        y = step.function(x, **options)
    if (pullback := step.pullback) is not None:
        return y, lambda dy: pullback(dy, x)
    shape = without_data(x)
    return y, lambda dy: _back(step, dy, shape)


def _back(step: registry.Conversion, dy: object, x: object) -> Any:
    if isinstance(x, Encoding):
        own: Any = dy if isinstance(dy, Encoding) else convert(dy, step.source)
        return restore(own, x)
    return convert(dy, step.source)


def restore(dy: Encoding, x: E, clean: bool = True) -> E:
    """`dy` with the structure of `x`, its items where they came from, zeros for items that had been cut off.

    Its padding is zeros, or if not `clean` what it was where it stays in place.
    """
    if x.keeps_levels:
        r = convert(dy, Ragged)
        return x._with_data((r if r.rows == x.rows else resize(r, x._structure)).data)
    if not dy._structure.same_lengths(x._structure) or len(dy._levels) > 1:
        r = convert(dy, Ragged)
        dy = r if r._structure.same_lengths(x._structure) else resize(r, x._structure)
    y = relaid(dy, x)
    return without_padding(y) if clean and y is dy else y


def without_padding(x: T) -> T:
    """Put zeros into the padding of an encoding; it is itself where it has none."""
    return cast(T, convert(x, cast(Any, type(x)), fill=0)) if isinstance(x, Encoding) and x._padding() else x


def resize(x: Ragged, structure: Structure) -> Ragged:
    """Every sequence cut, or filled up with zeros, at its end, to the lengths of `structure`."""
    own = x._structure
    if own.n != structure.n:
        raise COUNTS(f"{structure.n} sequences were expected, but there are {own.n}")
    if wants_grad(x):
        y: Ragged = connect(lambda z, _: (resize(z, structure), lambda dz: resize(dz, own)), x, by_column=True)
        return y
    kept = Structure.of_lengths(np.minimum(own.lengths, structure.lengths))
    source = Source(*x._read()).restrict(kept, freeze(own.offsets[:-1].copy()))
    out = source.empty(structure.rows, zeros=True)
    put_rows(source, out, freeze(structure.offsets[:-1].copy()))
    return Ragged._freeze(out, structure)


def rows_of(x: Encoding) -> Array:
    """The rows of an encoding, one sequence after the other, after a look at whether data is what was validated."""
    r: Encoding = x if x._flat else convert(x, Ragged)
    r._look()
    return r._sample()


def relaid(y: Encoding, x: E) -> E:
    """`y`, whose lengths are those of `x`, laid out exactly as `x`: the same columns, width and side."""
    if y is x:
        return x
    shares = _shares_layout(y, x)
    laid: E
    if not shares and with_autograd and wants_grad(y):
        own, like = without_data(y), without_data(x)
        laid = connect(lambda z, _: (relaid(z, like), lambda dz: relaid(dz, own)), y, by_column=True)
        return laid
    if x._flat and shares:
        y._look()
        return x._with_data(y.data)
    alike: Any = y
    if not x._in_one_array:
        alike = convert(y, type(x))
        leaves = alike._leaves()
        laid = alike._from_items(tuple(leaves), x._structure, leaves[0] if leaves else alike._sample())
        return laid
    if shares:
        laid = alike
        return laid
    if y._structure is x._structure:
        form = x._form()
        found = None if form else quickly(y, type(x))
        return lay_out(y, type(x), form) if found is None else found
    source = Source(*y._read())
    if x._by_steps and source.at.step != 1 and not _same_order(y._structure, x._structure):
        source = Source(*convert(y, Ragged)._read())
    return lay_out(source._replace(structure=x._structure), type(x), x._form())


def _shares_layout(y: Encoding, x: Encoding) -> bool:
    """Tell whether `y` has the layout of `x`, or a view would give it."""
    if x._flat:
        return bool(y._flat)
    if not x._in_one_array:
        return not y._by_steps
    if type(y) is not type(x) or y._form() != x._form():
        return False
    return not x._by_steps or _same_order(y._structure, x._structure)


def _same_order(a: Structure, b: Structure) -> bool:
    return a is b or same_numbers(a.order.indices, b.order.indices)
