"""Gradients of trees: column by column, None where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..formats.trees import Tree, at_column, match_columns, rebuilt, skeleton

Pullback = Callable[[Any], Any]


def tree_vjp(tree: Tree, rule: Callable[[Any, int], tuple[Any, Pullback]]) -> tuple[Any, Pullback]:
    """The result of ``rule(column, k)`` for each column, and the pullback of all.

    That takes a tree of gradients and gives one; one that is None, or missing in a dict, is None on the way back.
    """
    results: list[Any] = []
    pullbacks: list[Pullback | None] = []
    for k, (path, column) in enumerate(zip(tree.paths, tree.columns, strict=True)):
        result, back = (None, None) if column is None else at_column(path, rule, column, k)
        results.append(result)
        pullbacks.append(back)
    like, paths = skeleton(tree), tree.paths

    def pullback(dy: object) -> Any:
        dys = match_columns(dy, like, "the gradient", missing=True)
        dxs = [
            None if one is None or back is None else at_column(path, back, one)
            for path, back, one in zip(paths, pullbacks, dys, strict=True)
        ]
        return rebuilt(like, iter(dxs))

    return rebuilt(tree.given, iter(results)), pullback
