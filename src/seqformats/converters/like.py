"""`convert_like`: the way back to the encoding and the structure that something came from."""

from __future__ import annotations

from typing import Any, TypeVar

from .. import registry
from ..arrays import is_array
from ..errors import BATCH, COUNTS, UNLIKE
from ..formats import Encoding, List, Pairs, Ragged, level_index, structure_of
from ..formats.annotations import Given, Operands
from ..formats.bare import as_encoding, is_list_of_arrays, read_column
from ..formats.pairs import is_encoding
from ..formats.trees import Tree, columns_of, is_tree, map_columns, match_columns
from .convert import as_own, convert, no_encoding, relaid, rows_of

X = TypeVar("X")


def convert_like(y: object, x: X) -> X:
    """Convert `y` to the encoding of `x`, with the structure of `x`.

    Parameters
    ----------
    y, x : encodings, lists of arrays or nested lists, or two trees with the same columns

    Returns
    -------
    same kind as `x`
        Columns of a `Padded` come back in the same order, a `Masked` with its width and side, a `LoD` with all its
        levels, a bare list as a bare list.  Where the sequences of `y` have other lengths, those replace the innermost
        lengths of `x`, and the layout follows them.

    Raises
    ------
    TypeError
        If an argument is not an encoding, and where one of the two alone is Pairs or a tree.
    StructureError
        For trees with other columns.
        Where `y` has another number of sequences than the innermost level of `x`.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.arange(3.0), [[0, 2], [0, 1, 3]])
    >>> y = sf.convert(x, sf.Padded)
    >>> sf.convert_like(y, x).to_nested()
    [[[0.0], [1.0, 2.0]]]
    """
    z: X
    if not (isinstance(x, Encoding) and isinstance(y, Encoding)) and (is_tree(x) or is_tree(y)):
        tree, alike = like_columns(y, x)
        z = map_columns(tree, lambda column, k: column if is_array(column) else back_to(column, alike[k], -1), alike)
    else:
        z = back_to(y, x, -1)
    return z


def like_columns(y: Operands, x: Given) -> tuple[Tree, list[Any]]:
    """A tree, and what each of its columns shall be like."""
    for one in (y, x):
        if not is_tree(one):
            raise BATCH(f"a tree of columns goes back to one alone, not to {registry.label(type(one))}")
    tree = columns_of(y)
    columns_of(x)
    return tree, match_columns(x, y, "the second tree")


def back_to(y: Operands, x: Given, level: int) -> Any:
    """`convert_like` for a `y` whose sequences are those of `level` in `x`."""
    x = read_column(x)
    if isinstance(x, (list, tuple)):
        if isinstance(y, Encoding) and not y.keeps_levels and len(y) == len(x) and is_list_of_arrays(x):
            level_index(y, level)
            return in_kind_of(convert(y, List), x)
        return in_kind_of(back_to(y, as_encoding(x), level), x)
    if isinstance(x, Pairs):
        if not isinstance(y, Pairs):
            raise BATCH(f"only Pairs go back to Pairs, not {type(y).__name__}")
        return Pairs(*[b if is_array(b) else back_to(b, a, level) for a, b in ((x.one, y.one), (x.two, y.two))])
    if isinstance(y, Pairs):
        raise BATCH(f"Pairs go back to Pairs alone, not to {type(x).__name__}; take y.one or y.two")
    same = issubclass(type(x), Encoding) and issubclass(type(y), Encoding) and y._structure is x._structure
    if same and not (x.keeps_levels or y.keeps_levels):
        return relaid(y, x)
    y = as_encoding(y)
    kind = registry.kind_of(x)
    if kind is None or not is_encoding(y):
        raise no_encoding(y if kind else x)
    if not issubclass(type(x), Encoding):
        return convert(back_to(y, as_own(x), level), kind)
    y = as_own(y)
    own = structure_of(x, level)
    new = structure_of(y)
    if new.n != own.n:
        raise COUNTS(f"{own.n} sequences were expected, as in the {type(x).__name__}, but there are {new.n}")
    if own.same_lengths(new):
        if x.keeps_levels:
            return x._with_data(rows_of(y))
        return relaid(convert(y, Ragged) if y.keeps_levels else y, x)
    if x.keeps_levels:
        k = level_index(x, level)
        if k != len(x._levels) - 1:
            raise UNLIKE(
                f"the sequences of level {level} have other lengths now, so the levels within them cannot come back; "
                "convert with level=-1, or keep the lengths"
            )
        return x._freeze(rows_of(y), new, (*x._levels[:-1], new))
    form = x._form(new.longest)
    return convert(y, type(x), **dict(zip(x._form_options, form, strict=True)))


def in_kind_of(y: object, x: list[Any] | tuple[Any, ...]) -> Any:
    """An encoding as the bare list or tuple that `x` was."""
    if isinstance(y, Encoding) and not y._in_one_array:
        items = y._leaves()
        return type(x)(items) if type(x) in (list, tuple) else items
    nested = convert(y, list)
    return tuple(nested) if type(x) is tuple else nested
