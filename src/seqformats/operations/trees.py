"""Trees of columns joined and split, with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, adopt, is_array, library_of
from ..errors import BATCH, COUNTS, DEVICES, MIXED, SLOPE
from ..formats.annotations import Operands
from ..formats.leaves import without_data
from ..formats.trees import (
    Tree,
    at_column,
    check_columns,
    columns_of,
    is_tree,
    match_columns,
    name_of,
    rebuilt,
    skeleton,
)
from ..gradients.cotangent import fitting
from ..gradients.operation import Call, Pullback


class JoinedTrees(NamedTuple):
    """Calls of `join_batches` on trees: a `Call` for each column, None for None."""

    tree: Tree  # the first
    likes: Sequence[Any]  # all without their arrays
    calls: Sequence[Call[Any] | None]

    def run(self) -> Any:
        """The tree of the results."""
        return rebuilt(self.tree.given, iter(self._each(lambda call: call.run(), None)))

    def vjp(self) -> tuple[Any, Pullback]:
        """Join, and give the pullback: a tuple of trees of gradients, one for each that was joined."""
        likes, paths = self.likes, self.tree.paths
        found = self._each(lambda call: call.vjp(), (None, None))

        def pullback(dy: object) -> tuple[Any, ...]:
            dys = match_columns(dy, likes[0], "the gradient", missing=True)
            columns = [
                None if one is None or back is None else at_column(path, back, one)
                for path, (_, back), one in zip(paths, found, dys, strict=True)
            ]
            return tuple(
                [
                    rebuilt(like, iter([None if column is None else column[i] for column in columns]))
                    for i, like in enumerate(likes)
                ]
            )

        return rebuilt(self.tree.given, iter([y for y, _ in found])), pullback

    def _each(self, run: Callable[[Call[Any]], Any], none: Operands) -> list[Any]:
        return [
            none if call is None else at_column(path, run, call)
            for path, call in zip(self.tree.paths, self.calls, strict=True)
        ]


def joined_trees(batches: Sequence[Any], join: Callable[[Sequence[Any]], Call[Any]]) -> Any:
    """Join trees with the same columns, all of which are checked; `join` is for those that are batches."""
    trees = []
    for k, batch in enumerate(batches):
        if not is_tree(batch):
            raise BATCH(
                f"batch {k} is no {type(batches[0]).__name__} of columns as the first is, but {type(batch).__name__}"
            )
        trees.append(columns_of(batch))
    first = trees[0]
    check_columns(first)
    likes = [skeleton(tree) for tree in trees]
    arranged = [first.columns, *[_arrange(tree, likes[0], f"batch {k}") for k, tree in enumerate(trees[1:], 1)]]
    calls = [
        at_column(path, _join, parts, join)
        for path, parts in zip(first.paths, zip(*arranged, strict=True), strict=True)
    ]
    return JoinedTrees(first, likes, calls)


def _arrange(tree: Tree, like: object, what: str) -> list[Any]:
    """The columns of a tree in the order of another's."""
    where = match_columns(rebuilt(tree.given, iter(range(len(tree.columns)))), like, what)
    return [tree.columns[k] for k in where]


def _join(parts: Sequence[Any], join: Callable[[Sequence[Any]], Call[Any]]) -> Call[Any] | None:
    rows = [is_array(part) for part in parts]
    none = [part is None for part in parts]
    for kinds, what in ((none, "None"), (rows, "rows")):
        if any(kinds) and not all(kinds):
            a, b = kinds.index(True), kinds.index(False)
            raise COUNTS(f"batch {a} has {what} there, but batch {b} has {_word(parts[b])}")
    if none[0]:
        return None
    return _joined_rows(parts) if rows[0] else join(parts)


def _word(part: object) -> str:
    return "None" if part is None else "rows" if is_array(part) else "a batch"


def _joined_rows(parts: Sequence[Any]) -> Call[Any]:
    owns = tuple([adopt(part)[1] for part in parts])
    library, first = library_of(owns[0]), owns[0]
    for k, own in enumerate(owns):
        if library_of(own) is not library or library.device(own) != library.device(first):
            raise DEVICES(f"batch {k} has rows of another library or on another device than batch 0")
        if own.dtype != first.dtype or own.shape[1:] != first.shape[1:]:
            raise MIXED(
                f"batch {k} has rows of {own.dtype} and shape {tuple(own.shape[1:])}, but batch 0 of {first.dtype} and "
                f"{tuple(first.shape[1:])}"
            )
    ends = np.cumsum([0, *[own.shape[0] for own in owns]]).tolist()

    def split_gradient(dy: Array) -> tuple[Array, ...]:
        return tuple([dy[a:b] for a, b in pairwise(ends)])

    return Call(owns, lambda zs, _: (library.concatenate(list(zs)), split_gradient))


def split_trees(
    tree: Tree, ranges: Sequence[slice], rule: Callable[[Any], tuple[Any, Pullback]]
) -> tuple[list[Any], Pullback]:
    """Consecutive parts of a tree, and the pullback of a list of trees; `rule` splits a batch with its pullback."""
    found: list[tuple[Any, Pullback | None]] = []
    for path, column in zip(tree.paths, tree.columns, strict=True):
        if column is None:
            found.append(([None] * len(ranges), None))
        else:
            found.append(
                at_column(path, _split_rows, column, ranges) if is_array(column) else at_column(path, rule, column)
            )
    like, paths = skeleton(tree), tree.paths

    def pullback(dys: Sequence[Any]) -> Any:
        if len(dys) != len(ranges):
            raise SLOPE(f"there are {len(ranges)} batches, but {len(dys)} gradients")
        given = [match_columns(dy, like, f"gradient {i}", missing=True) for i, dy in enumerate(dys)]
        dxs = []
        for k, (path, (_, back)) in enumerate(zip(paths, found, strict=True)):
            parts = [one[k] for one in given]
            missing = [i for i, part in enumerate(parts) if part is None]
            if missing and len(missing) < len(parts):
                raise SLOPE(f"gradient {missing[0]} has none for {name_of(path)}, but others have")
            dxs.append(None if back is None or missing else at_column(path, back, parts))
        return rebuilt(like, iter(dxs))

    return [rebuilt(tree.given, iter([parts[i] for parts, _ in found])) for i in range(len(ranges))], pullback


def _split_rows(rows: Array, ranges: Sequence[slice]) -> tuple[list[Array], Pullback]:
    own = adopt(rows)[1]
    parts = [own[part] for part in ranges]
    likes = [without_data(part) for part in parts]

    def pullback(dys: Sequence[Any]) -> Array:
        given = [fitting(dy, like) for dy, like in zip(dys, likes, strict=True)]
        return library_of(given[0]).concatenate(given) if given else own

    return parts, pullback
