"""Options of a conversion for the columns of a tree."""

from __future__ import annotations

from typing import Any

from .. import registry
from ..arrays import is_array
from ..formats.annotations import Given
from ..formats.trees import Options, Tree, options_of


def source_options(tree: Tree, To: type, options: Options) -> list[Options]:
    """The options of each column; those that say what is read go to the columns that have it."""
    each = options_of(tree, options)
    of_the_source = registry.OF_THE_SOURCE.intersection(options)
    if not of_the_source:
        return each
    numbers = registry.OF_THE_SOURCE - {"level"}
    known = [_readable(x, To) | numbers if k in tree.read else _readable(x, To) for k, x in enumerate(tree.columns)]
    anywhere = frozenset().union(*known)
    return [
        {name: value for name, value in own.items() if name not in anywhere or name in have}
        for own, have in zip(each, known, strict=True)
    ]


def _readable(column: Given, To: type) -> frozenset[str]:
    """The options of the source that a column has."""
    if column is None or is_array(column):
        return frozenset()
    if isinstance(column, (list, tuple)):
        return registry.OF_THE_SOURCE
    kind: Any = registry.kind_of(column)
    return registry.OF_THE_SOURCE.intersection(registry.route(kind, To, registry.device_kind(column)).options)
