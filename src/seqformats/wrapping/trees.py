"""Wrapped functions of trees: they see the tree with their own batches, and what they return goes back by name."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ..arrays import has_items, is_array
from ..converters.columns import source_options
from ..errors import RETURNED
from ..formats.annotations import Operands
from ..formats.pairs import is_encoding
from ..formats.trees import (
    Path,
    Tree,
    at_column,
    bones,
    check_batches,
    columns_of,
    entries,
    is_tree,
    match_columns,
    name_of,
    rebuilt,
    skeleton,
)
from .wrapper import (
    Argument,
    Arguments,
    Function,
    Named,
    Wrapper,
    batches_in,
    other_lists,
    rebuild_tuple,
    same_columns,
)


class Given(NamedTuple):
    """A tree that was given, and its batches by their paths."""

    tree: Tree
    arguments: dict[Path, Argument]
    others: list[Argument]  # beside the tree

    def first(self) -> Argument:
        """The batch whose kind has what has no kind of its own."""
        return next(iter(self.arguments.values()))


class TreeWrapper(Wrapper):
    """A `Wrapper` whose first argument may be a tree."""

    def call_tree(self, fn: Function, args: Arguments, kwargs: Named, place: int) -> Any:
        """Convert the columns, call, convert back by name."""
        tree = columns_of(args[place])
        check_batches(tree, f"{self.name} needs")
        found = [(other, x) for other, x in batches_in(args, kwargs) if other != place and is_encoding(x)]
        given = self.convert_batches(tree, found)
        lists = [(other, x) for other, x in other_lists(args, kwargs, found) if other != place]
        if lists:
            self.check_lists(lists, given.first().batch)
        columns = [
            self.show(given.arguments[path].batch) if path in given.arguments else column
            for path, column in zip(tree.paths, tree.columns, strict=True)
        ]
        shown = {argument.place: self.show(argument.batch) for argument in given.others}
        shown[place] = rebuilt(tree.given, iter(columns))
        returned = self.call_function(fn, args, kwargs, shown, lists)
        return self.with_tree_gradient(returned, given) if self.backprop else self.tree_back(returned, given)

    def convert_batches(self, tree: Tree, found: list[tuple[int | str, Any]]) -> Given:
        """All batches in the encoding of the wrapper, the columns of a `Padded` in one order."""
        alone = len(tree.batches()) + len(found) == 1
        each = source_options(tree, self.To, self.options)
        arguments = {}
        done: dict[tuple[int, int], Any] = {}
        for k in tree.batches():
            path, column = tree.paths[k], tree.columns[k]
            key = (id(column), id(each[k]))
            if key not in done:
                done[key] = at_column(path, self.convert, column, alone, each[k])
            arguments[path] = Argument(name_of(path), column, done[key], each[k].get("level", -1))
        plain = {option: value for option, value in self.options.items() if type(value) is not dict}
        level = plain.get("level", -1)
        others = [Argument(place, x, self.convert(x, alone=False, options=plain), level) for place, x in found]
        if self.To._by_steps:
            first = next(iter(arguments.values())).batch
            arguments = {path: same_columns(argument, first) for path, argument in arguments.items()}
            others = [same_columns(argument, first) for argument in others]
        return Given(tree, arguments, others)

    def tree_back(self, returned: object, given: Given) -> Any:
        """Give back what the function returned: columns by name, a batch alone as the first one was.

        Of a tuple it is the first element, as ever, if the caller did not give such a tuple.
        """
        if isinstance(returned, tuple) and not _is_as(returned, given):
            if not returned:
                raise RETURNED(f"{self.name}: the function returned an empty tuple")
            first = self.tree_back(_first_of(returned), given)
            return rebuild_tuple(returned, (first, *returned[1:]))
        if _is_as(returned, given) or is_tree(returned):
            columns = [at_column(path, self.column_back, y, path, given) for path, y in entries(returned)]
            return rebuilt(returned, iter(columns))
        return self.restore(self.read_result(returned, given.first()), given.first())

    def column_back(self, y: Operands, path: Path, given: Given) -> Any:
        """Give back what the function returned under a name; rows and what is no batch stay as they are."""
        argument = self.argument_of(y, path, given)
        return y if argument is None else self.restore(self.read_result(y, argument), argument)

    def argument_of(self, y: Operands, path: Path, given: Given) -> Argument | None:
        """The batch that this goes back like: that of its name, else the first; None for what is no batch."""
        known = given.arguments.get(path)
        if y is None or known is not None:
            return None if y is None else known
        batch = is_encoding(y) or (isinstance(y, list) and bool(y) and all(map(has_items, y)))
        return given.first() if batch or self.is_over(y, path, given) else None

    def is_over(self, y: Operands, path: Path, given: Given) -> bool:
        """Tell whether an array of a new name is over the items.  Else it has a row per sequence, or is a number."""
        if not is_array(y) or not has_items(y):
            return False
        batch, rows = given.first().batch, len(y) == given.tree.n
        if path in given.tree.paths and rows:
            return False
        lead = tuple(batch.data.shape[: len(batch.data.shape) - len(batch.item_shape)]) if batch._in_one_array else ()
        return not rows or (bool(lead) and tuple(y.shape[: len(lead)]) == lead)

    def with_tree_gradient(self, returned: object, given: Given) -> tuple[Any, Function]:
        """The result and the backprop function, which takes and gives trees of gradients in the caller's encodings."""
        if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
            raise RETURNED(f"{self.name} with backprop=True: the function must return (y, backprop)")
        y, inner_backprop = returned
        result = self.tree_back(y, given)
        alone = not isinstance(y, tuple) or _is_as(y, given)
        first = y if alone else _first_of(y)
        is_columns = _is_as(first, given) or is_tree(first)
        found = list(entries(first)) if is_columns else [((), first)]
        ways = [
            None
            if argument is None
            else self.way_in(value, argument, self.restore(self.read_result(value, argument), argument))
            for path, value in found
            for argument in [self.argument_of(value, path, given) if is_columns else given.first()]
        ]
        like = rebuilt(first, iter([bones(value) for _, value in found])) if is_columns else None
        tree = skeleton(given.tree)

        def backprop(dy: Operands) -> Any:
            if is_columns:
                dys = match_columns(dy, like, "the gradient", missing=True)
                inner = [d if d is None or way is None else way(d) for d, way in zip(dys, ways, strict=True)]
                dx = inner_backprop(rebuilt(like, iter(inner)))
            else:
                dx = inner_backprop(cast(Function, ways[0])(dy))
            rest: tuple[Any, ...] = ()
            if given.others:
                if not isinstance(dx, tuple) or len(dx) != 1 + len(given.others):
                    raise RETURNED(f"{self.name}: backprop must return {1 + len(given.others)} gradients, a tree first")
                dx, rest = dx[0], dx[1:]
            dxs = [
                at_column(path, self.gradient_back, d, given.arguments[path])
                if d is not None and path in given.arguments
                else d
                for path, d in zip(given.tree.paths, match_columns(dx, tree, "the gradient", missing=True), strict=True)
            ]
            back = rebuilt(tree, iter(dxs))
            others = [self.gradient_back(d, a) for d, a in zip(rest, given.others, strict=True)]
            return (back, *others) if others else back

        return result, backprop


def _is_as(returned: object, given: Given) -> bool:
    """Tell whether this is a tree like the one that was given.  A plain tuple has as many columns."""
    same = type(returned) is type(given.tree.given)
    return same and (not isinstance(returned, tuple) or len(returned) == len(given.tree.given))


def _first_of(returned: tuple[Any, ...]) -> Any:
    """A tuple of arrays inside a returned tuple can only be a batch."""
    first = returned[0]
    return list(first) if type(first) is tuple and not is_tree(first) else first
