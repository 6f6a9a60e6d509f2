"""The conversions between the encodings of this library: what each target wants, and what is shared.

Every conversion that moves rows is one move between two layouts, `formats.rows.lay_out`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import registry
from ..errors import CHOICE, EXACT, KIND, RANGE, ROOM, quote
from ..formats import NATIVE, Encoding, List, LoD, Masked, Packed, Padded, Ragged, structure_of
from ..formats.lod import level_index
from ..formats.rows import Source, cut, lay_out
from ..formats.structure import MAX_INT64, Structure, flag, whole


def check_at_least(value: object, name: str, least: int) -> int:
    """An integer option; ConversionError where it is below `least`, or more than int64 can count."""
    number = whole(value, name)
    if number < least:
        raise RANGE(f"{name} must be at least {least}, not {quote(number)}")
    if number > MAX_INT64:
        raise EXACT(f"{name} must fit int64, but is {quote(number)}")
    return number


def one_of(value: object, name: str, choices: tuple[str, ...]) -> int:
    """The number of an option among some words; ConversionError where it is none of them."""
    if not isinstance(value, str):
        raise KIND(f"{name} must be {_words(choices)}, not {quote(value)}")
    if value not in choices:
        raise CHOICE(f"{name} must be {_words(choices)}, not {quote(value)}")
    return choices.index(value)


def _words(choices: tuple[str, ...]) -> str:
    *others, last = [f'"{choice}"' for choice in choices]
    return f"{', '.join(others)} or {last}"


def _width(structure: Structure, width: object, multiple_of: object, truncate: object) -> tuple[int, int]:
    """The width of the rectangle, and the longest length that is kept."""
    longest = structure.longest
    flag(truncate, "truncate")
    step = check_at_least(multiple_of, "multiple_of", 1)
    wide = longest
    if width is not None:
        wide = check_at_least(width, "width", 0)
        if longest > wide:
            if not truncate:
                i = int(structure.lengths.argmax())
                raise ROOM(
                    f"width={wide} is too small: sequence {i} has {longest} items; "
                    f"give truncate=True or a width of at least {longest}"
                )
            longest = wide
    return -(-wide // step) * step, longest


def _in_rectangle(
    x: Encoding | Source, kind: type[Encoding], width: object, multiple_of: object, truncate: object
) -> tuple[Encoding | Source, int]:
    """The rows that are kept, and the width of the rectangle."""
    structure = x._structure
    if isinstance(x, kind) and width is None:
        width = x._form()[0]  # another side, fill or multiple of the rectangle that is there
    wide, longest = _width(structure, width, multiple_of, truncate)
    if longest < structure.longest:
        source = Source(*x._read())
        return cut(Source(*to_ragged(x)._read()) if source.at.step != 1 else source, longest), wide
    return x, wide


def to_ragged(x: Encoding | Source) -> Ragged:
    """Any layout as `Ragged`."""
    return lay_out(x, Ragged)


def to_packed(x: Encoding | Source) -> Packed:
    """Any layout as `Packed`."""
    return lay_out(x, Packed)


def to_padded(
    x: Encoding | Source, *, fill: object = 0, width: object = None, multiple_of: object = 1, truncate: bool = False
) -> Padded:
    """Any layout as `Padded`."""
    source, wide = _in_rectangle(x, Padded, width, multiple_of, truncate)
    return lay_out(source, Padded, (wide,), fill)


def to_masked(
    x: Encoding | Source,
    *,
    fill: object = 0,
    width: object = None,
    multiple_of: object = 1,
    truncate: bool = False,
    side: str | None = None,
) -> Masked:
    """Any layout as `Masked`, padded on the right (a `Masked` on its own side) unless `side` says otherwise."""
    if side is None:
        side = getattr(x, "side", "right")
    else:
        one_of(side, "side", ("right", "left"))
    source, wide = _in_rectangle(x, Masked, width, multiple_of, truncate)
    return lay_out(source, Masked, (wide, side), fill)


def is_already(x: object, options: dict[str, Any]) -> bool:
    """Tell whether `x` is laid out as these options ask."""
    if "fill" in options or not isinstance(x, Encoding) or x._lead != 2:
        return False  # nobody knows what its padding holds
    x._look()
    width, *side = x._form()
    if isinstance(options.get("side"), str) and [options["side"]] != side:
        return False
    wide, longest = _width(
        x._structure, options.get("width", width), options.get("multiple_of", 1), options.get("truncate", False)
    )
    return wide == width and longest == x.max_length and isinstance(options.get("side", ""), str)


# --- views -----------------------------------------------------------------------------------------------------------


def ragged_to_list(x: Ragged) -> List:
    """Views of the rows of each sequence."""
    library, structure = x._look(), x._structure
    return List._from_items(library.split(x.data, structure.lengths, structure.offsets), structure, x.data)


def steps_to_list(x: Encoding) -> List:
    """Views of one new array."""
    return ragged_to_list(to_ragged(x))


def masked_to_list(x: Masked) -> List:
    """Views of the rows of each sequence, without the padding."""
    source = Source(*x._read())
    items = tuple(x._all_pieces())
    return List._from_items(items, source.structure, items[0] if items else source.empty(0))


def lod_to_ragged(x: LoD, *, level: int = -1) -> Ragged:
    """One level, sharing data; the boundaries further in are dropped."""
    x._look()
    return Ragged._freeze(x.data, structure_of(x, level))


def lod_to_lod(x: LoD, *, level: int = -1) -> LoD:
    """One level alone, sharing data."""
    if len(x._levels) == 1:
        level_index(x, level)
        return x
    r = lod_to_ragged(x, level=level)
    return LoD._from_levels(r.data, (r._structure,))


def ragged_to_lod(x: Ragged) -> LoD:
    """One level, sharing data."""
    x._look()
    return LoD._from_levels(x.data, (x._structure,))


# --- the table -------------------------------------------------------------------------------------------------------

_TO: dict[type[Encoding], tuple[Callable[..., Any], tuple[str, ...]]] = {
    kind: (function, registry.options_of(function))
    for kind, function in ((Ragged, to_ragged), (Masked, to_masked), (Padded, to_padded), (Packed, to_packed))
}
MOVERS: set[Callable[..., Any]] = {function for function, _ in _TO.values()}
"""What reads a `Source` as well as an encoding."""


def enter(kind: type[Encoding], others: Iterable[type[Encoding]]) -> None:
    """Enter an encoding into the table: from it to each of `others` that rows can be moved to, and back.

    Each way is one move.  The options of those to `kind` are its `_form_options`, and `fill` where its data may have
    places that no row takes.
    """
    others = [other for other in others if other is not kind]
    for source, target in [*((other, kind) for other in others), *((kind, other) for other in others)]:
        if target._moved_to:
            registry.enter(source, target, *_mover(target))
    if kind._form_options:
        registry.enter(kind, kind, *_mover(kind))


def _mover(kind: type[Encoding]) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Make the function that moves rows to an encoding, and name its options."""
    if kind in _TO:
        return _TO[kind]

    def to_kind(x: Encoding | Source, *, fill: object = 0, **options: object) -> Encoding:
        own = x._form() if isinstance(x, kind) else [None] * len(kind._form_options)
        form = [options.get(name, part) for name, part in zip(kind._form_options, own, strict=True)]
        return lay_out(x, kind, tuple(form), fill)

    MOVERS.add(to_kind)
    _TO[kind] = to_kind, (*kind._form_options, *(("fill",) if kind._gapped else ()))
    return _TO[kind]


for _place, _kind in enumerate(NATIVE):
    enter(_kind, NATIVE[:_place])
    if _kind._in_one_array:
        registry.conversion(_kind, List)(steps_to_list)

registry.conversion(Ragged, List, shares=True)(ragged_to_list)
registry.conversion(Masked, List, shares=True)(masked_to_list)
registry.conversion(LoD, Ragged, shares=True)(lod_to_ragged)
registry.conversion(Ragged, LoD, shares=True)(ragged_to_lod)
registry.conversion(LoD, LoD, shares=True)(lod_to_lod)
