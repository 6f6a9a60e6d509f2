"""`convert`: from anything that holds sequences to any encoding, along a route of conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import hints, registry
from ..arrays import frozen, is_array, library_of, with_autograd
from ..errors import StructureError, said
from ..formats import Encoding, List, LoD, Masked, Packed, Padded, Pairs, Ragged
from ..formats.bare import as_encoding, is_list_of_arrays, list_of, read_list
from ..formats.leaves import connected, leaves, rebuild, wants_grad, without_data
from ..formats.rows import lay_out, put_rows
from ..formats.structure import Structure, same_numbers
from ..limits import check_finite
from .layouts import MOVES, is_already


@registry.provides("as_own")
def as_own(x: Any) -> Any:
    """An encoding, a user's dataclass or a bare list as an encoding of this library; TypeError for anything else."""
    x = as_encoding(x)
    return x if isinstance(x, Encoding) else convert(x, _own_kind(x))


def _own_kind(x: Any) -> type:
    """The encoding of this library that stands for a user's dataclass.

    The one that it shares memory with, since order, width and side of the data are then the same; else one that keeps
    its sequences.
    """
    kind = registry.kind_of(x)
    if kind is None or registry.keeps_levels(kind):
        return Ragged if kind is None else LoD
    routes = [registry.find_route(kind, own, device_kind(x)) for own in (Ragged, Masked, Padded, Packed, List)]
    shared = [route for route in routes if route is not None and route.shares]
    return min(shared, key=lambda route: len(route.legs)).target if shared else Ragged


def convert(x: Any, To: type, *, copy: bool = False, **options: Any) -> Any:
    """The same sequences in another encoding.

    Parameters
    ----------
    x : an encoding, a list or tuple of arrays, or nested lists
    To : `List`, `Ragged`, `Padded`, `Packed`, `Masked`, `LoD`, `list` (nested), or a dataclass registered by
        `conversion`
    copy : never share memory with `x`.  Without it `Ragged` <-> `LoD`, to `List`, and what changes nothing do.
    fill, width, multiple_of, truncate : for `Padded` and `Masked`.  The padding, one value or one item, exact in the
        dtype; the least width; a number that divides the width; whether longer sequences lose their end.
    side : for `Masked`, "right" or "left"
    level : from a `LoD` or nested lists: the level whose sequences the target has, each with all its rows; negative
        from the innermost
    dtype : from nested lists: of their numbers; NumPy's choice without it, and float64 where there is no number

    Returns `x` itself where nothing changes.  dtype, item shape, array library and device stay.

    Errors: TypeError for what is no encoding and for an option that the route does not know, ConversionError where
    there is no route or an option's value is impossible, IndexError for a level that does not exist.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.convert([np.array([1, 2]), np.array([3, 4, 5])], sf.Masked, fill=-1)
    >>> x.data
    array([[ 1,  2, -1],
           [ 3,  4,  5]])
    >>> sf.convert(x, list)
    [[1, 2], [3, 4, 5]]
    """
    kind: Any = type(x)
    if not options and copy is False:  # the usual call: one leg, and nothing that could carry a gradient
        bare = kind is list or kind is tuple
        try:
            entry = registry.direct((List if bare else kind, To))
        except (TypeError, ValueError):  # an array, say, is no key
            entry = None
        if bare:
            source = None if entry is None or entry.function not in MOVES else read_list(tuple(x))
            if source is not None:
                return entry.function(source)  # type: ignore[union-attr]
        elif entry is not None and entry.everywhere and not (with_autograd and wants_grad(x)):
            return entry.function(x)
        elif kind is To and isinstance(x, Encoding):
            return x
    if not isinstance(copy, (bool, np.bool_)):
        raise TypeError(f"copy must be True or False, not {said(copy)}")
    if not registry.is_encoding_type(kind):
        if kind is Pairs:
            return Pairs(*[m if is_array(m) else convert(m, To, copy=copy, **options) for m in (x.one, x.two)])
        kind = _kind_at_the_door(x)
        if kind is List and not x and ("level" in options or "dtype" in options):
            kind = list  # no sequences, on whatever level
        if kind is List:
            if To is list and not options:
                return copied(x) if copy else x
            return convert(list_of(tuple(x)), To, copy=copy, **options)
    check_target(To)
    if kind is To and not options:
        return copied(x) if copy else x
    route = registry.route(kind, To, device_kind(x), options)
    placed = route.place(options)
    if kind is To and is_already(x, options):
        return copied(x) if copy else x
    y = x
    for leg, given in zip(route.legs, placed, strict=True):
        y = _run(leg, y, given)
    return copied(y) if copy and (route.shares or y is x) else y


def check_target(To: Any) -> None:
    """TypeError for what is no type."""
    if not isinstance(To, type):
        what = said(To)
        if isinstance(To, str):
            named = [
                kind for kind in (List, Ragged, Padded, Packed, Masked, LoD) if kind.__name__.lower() == To.lower()
            ]
            what = f"a name; give {f'sf.{named[0].__name__}' if named else 'the class itself'}"
        raise TypeError(f"the target of a conversion must be a type such as Ragged, not {what}")


def _kind_at_the_door(x: Any) -> type:
    if isinstance(x, (list, tuple)):
        if type(x) not in (list, tuple) and hints.for_batch(x):
            raise no_encoding(x)
        return List if is_list_of_arrays(x) else list
    kind = registry.kind_of(x)
    if kind is None:
        raise no_encoding(x)
    return kind


def no_encoding(x: Any, what: str = "no encoding") -> TypeError:
    """The error for an object that is none, with the way in for what has one."""
    hint = f"; the batch comes first: convert(x, {x.__name__})" if isinstance(x, type) else hints.for_batch(x)
    if not hint and getattr(getattr(x, "dtype", None), "hasobject", False):
        hint = "; list(x) is a list of what it holds"
    elif not hint:
        hint = f"; give it lengths, Ragged(data, lengths), or a list of {'such ' * is_array(x)}arrays"
    return TypeError(f"{registry.label(type(x))} is {what}{hint}")


def device_kind(x: Any) -> str:
    """Only asked for where a conversion is bound to a device."""
    return str(getattr(x, "device", "cpu")).partition(":")[0] if registry.bound_to_devices() else "cpu"


def _run(leg: registry.Conversion, x: Any, options: dict[str, Any]) -> Any:
    """One leg, connected to the caller's autograd graph where that asks for it; a shared one is connected anyhow."""
    if not leg.shares and wants_grad(x):
        return connected(lambda z: conversion_vjp(leg, z, options), x)
    return leg.function(x, **options)


def copied(x: Any) -> Any:
    """The same encoding over copies of its arrays; the structure is read-only and stays."""
    if isinstance(x, (list, tuple)):
        return _copied_lists(x)
    if isinstance(x, Pairs):
        return Pairs(copied(x.one), copied(x.two))
    if is_array(x):
        return library_of(x).copy(x)
    if isinstance(x, Encoding):
        x._look()
    return rebuild(x, [library_of(leaf).copy(leaf) for leaf in leaves(x)])


def _copied_lists(x: Any) -> Any:
    """Lists in lists, to any depth, around copies of what they hold."""
    levels = [[x]]
    while levels[-1]:
        check_finite(x, len(levels), sum(map(len, levels[-1])))
        levels.append([item for part in levels[-1] for item in part if isinstance(item, (list, tuple))])
    lists: list[Any] = []
    for level in reversed(levels[:-1]):
        within = iter(lists)
        lists = [
            type(part)([next(within) if isinstance(item, (list, tuple)) else copied(item) for item in part])
            for part in level
        ]
    return lists[0]


# --- the way back ----------------------------------------------------------------------------------------------------


def conversion_vjp(leg: registry.Conversion, x: Any, options: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """The result of one conversion of the table, and its pullback."""
    y = leg.function(x, **options)
    if leg.pullback is not None:
        given = leg.pullback
        return y, lambda dy: given(dy, x)
    shape = without_data(x)
    return y, lambda dy: _back(leg, dy, shape)


def _back(leg: registry.Conversion, dy: Any, x: Any) -> Any:
    if isinstance(x, Encoding):
        return restored(dy if isinstance(dy, Encoding) else convert(dy, leg.source), x)
    return convert(dy, leg.source)


def restored(dy: Any, x: Encoding) -> Any:
    """`dy` with the structure of `x`, its items where they came from, zeros for items that had been cut off."""
    if x.keeps_levels:
        r = convert(dy, Ragged)
        return x._with_data((r if r.rows == x.rows else resized(r, x._structure)).data)
    if not dy._structure.same_lengths(x._structure) or len(dy._levels) > 1:
        dy = convert(dy, Ragged)
        if not dy._structure.same_lengths(x._structure):
            dy = resized(dy, x._structure)
    y = relaid(dy, x)
    return without_padding(y) if y is dy else y


def without_padding(x: Any) -> Any:
    """The same encoding with zeros for padding, itself where it has none."""
    return convert(x, type(x), fill=0) if isinstance(x, Encoding) and x._padding() else x


def resized(x: Ragged, structure: Structure) -> Ragged:
    """Every sequence cut, or filled up with zeros, at its end, to the lengths of `structure`."""
    own = x._structure
    if own.n != structure.n:
        raise StructureError(f"{structure.n} sequences were expected, but there are {own.n}")
    if wants_grad(x):
        return connected(lambda z: (resized(z, structure), lambda dz: resized(dz, own)), x)  # type: ignore[no-any-return]
    kept = Structure.of_lengths(np.minimum(own.lengths, structure.lengths))
    source = x._read().restricted(kept, frozen(own.offsets[:-1].copy()))
    out = source.empty(structure.rows, zeros=True)
    put_rows(source, out, frozen(structure.offsets[:-1].copy()))
    return Ragged._sealed(out, structure)


def rows_of(x: Any) -> Any:
    """The rows of an encoding, one sequence after the other, after a look at whether data is what was validated."""
    r = convert(x, Ragged)
    r._look()
    return r.data


def relaid(y: Any, x: Encoding) -> Any:
    """`y`, whose lengths are those of `x`, laid out exactly as `x`: the same columns, width and side."""
    if y is x:
        return y
    shares = _shares_layout(y, x)
    if not shares and with_autograd and wants_grad(y):
        own, like = without_data(y), without_data(x)
        return connected(lambda z: (relaid(z, like), lambda dz: relaid(dz, own)), y)
    if x._flat and shares:
        y._look()
        return x._with_data(y.data)
    if not x._in_one_array:
        y = convert(y, type(x))
        leaves = y._leaves()
        return List._of(tuple(leaves), x._structure, leaves[0] if leaves else y._sample())
    if shares:
        return y
    source = y._read()
    if y._structure is not x._structure:
        if x._by_steps and source.at.step != 1 and not _same_order(y._structure, x._structure):
            source = convert(y, Ragged)._read()
        source = source._replace(structure=x._structure)
    return lay_out(source, type(x), x._form())


def _shares_layout(y: Any, x: Encoding) -> bool:
    """Has `y` the layout of `x` already, or would a view give it?"""
    if x._flat:
        return bool(y._flat)
    if not x._in_one_array:
        return not y._by_steps
    if type(y) is not type(x) or y._form() != x._form():
        return False
    return not x._by_steps or _same_order(y._structure, x._structure)


def _same_order(a: Structure, b: Structure) -> bool:
    return a is b or same_numbers(a.order.indices, b.order.indices)
