"""Steps of a wrapper, whatever the function: convert, call, convert back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import hints, registry
from ..arrays import adopt, has_items, is_array, library_of
from ..converters.convert import as_own, at_once, convert, relaid, resize, without_padding
from ..converters.like import back_to, convert_like, in_kind_of
from ..errors import BATCH, KIND, OPTION, RESULT, RETURNED, quote
from ..formats import Encoding, List, LoD, Pairs, Ragged, structure_of
from ..formats.annotations import Operands, Shaped
from ..formats.bare import as_encoding, is_column, is_list_of_arrays, read_column
from ..formats.leaves import leaves, rebuild, without_data
from ..formats.pairs import count, is_encoding
from ..formats.structure import flag, same_numbers
from ..formats.trees import Options, entries, is_tree
from ..gradients.cotangent import cotangent, in_dtype

Function = Callable[..., Any]
Arguments = tuple[object, ...]
Named = dict[str, object]
Nested = list[Any] | tuple[Any, ...]


Lists = list[tuple[int | str, Nested]]
Shown = dict[int | str, Any]


class Argument(NamedTuple):
    """An argument that is a batch."""

    place: int | str  # its position or keyword
    given: Any  # as the caller passed it
    batch: Any  # in the encoding of the wrapper
    level: int = -1  # whose sequences those of the batch are


def options_to(To: type[Encoding]) -> tuple[str, ...]:
    """List the options that wrappers for an encoding take for its conversions."""
    known = {name for entry in registry.conversions().values() if entry.target is To for name in entry.options}
    return tuple(sorted(known | {"level", "dtype"}))


def unknown_option(name: str, option: str, known: tuple[str, ...]) -> TypeError:
    """Make the error for an option that a wrapper does not have."""
    have = sorted((*known, "backprop", "like"))
    hint = hints.for_option(option, have)
    return OPTION(f"{name} has no option {quote(option)}; it has: {', '.join(have)}{hint}")


class Wrapper:
    """Wrapper of functions for one encoding: convert, call, convert back."""

    def __init__(
        self,
        name: str,
        To: type[Encoding],
        options: dict[str, Any],
        backprop: bool = False,
        like: Shaped | None = None,
        rows: bool = False,
    ) -> None:
        known = options_to(To)
        for option in options:
            if option not in known:
                raise unknown_option(name, option, known)
        self.name = name
        self.To = To
        self.options = {option: value for option, value in options.items() if option != "dtype"}
        self.level = options.get("level", -1)
        self.dtype = options.get("dtype")
        self.like = None if like is None else List((), like)._sample()
        self.backprop = flag(backprop, "backprop")
        self.rows = rows  # does the function see the bare rows?

    def wrap(self, fn: Function) -> Function:
        """The wrapped function; TypeError for what is none."""
        if not callable(fn):
            raise KIND(f"{self.name} wraps a function, not {type(fn).__name__}")
        if hints.is_recurrent(fn):
            layer = type(fn).__name__
            given = f"a {self.To.__name__}, which {layer} does not take"
            raise KIND(
                f"{self.name} calls a function with "
                f"{f'all rows, which {layer} takes for one sequence' if self.rows else given}; "
                "sf.torch.rnn(module, x) runs it over a batch, sf.torch.Recurrent(module) takes batches"
            )

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return self.call(fn, args, kwargs)

        return wrapper

    def call(self, fn: Function, args: Arguments, kwargs: Named) -> Any:
        """Convert, call, convert back."""
        if len(args) == 1 and not (kwargs or self.rows or self.backprop):
            given: Any = args[0]
            if isinstance(given, Encoding):
                return self.call_alone(fn, given)
            batch = None if self.options else at_once(given, self.To)
            if batch is not None:
                return self.call_list(fn, given, batch)
        if any(map(is_column, (*args, *kwargs.values()))):
            args = tuple(map(read_column, args))
            kwargs = {name: read_column(x) for name, x in kwargs.items()}
        found = batches_in(args, kwargs)
        place = tree_place(args, found)
        if place is not None:
            return self.call_tree(fn, args, kwargs, place)
        if not found:
            if self.rows and any(map(is_array, args)):
                return fn(*args, **kwargs)
            given = (*args, *kwargs.values())
            names = ", ".join(registry.label(type(x)) for x in given) or "nothing"
            hint = "".join(map(hints.for_batch, given))
            raise BATCH(
                f"{self.name} needs an encoding or a list of arrays among its arguments, but got: {names}{hint}"
            )
        arguments = [Argument(place, x, self.convert(x, len(found) == 1), self.level) for place, x in found]
        if self.To._by_steps:
            arguments = [arguments[0], *[same_columns(a, arguments[0].batch) for a in arguments[1:]]]
        lists = other_lists(args, kwargs, found) if len(args) + len(kwargs) > len(found) else []
        if lists:
            self.check_lists(lists, arguments[0].batch)
        shown = {argument.place: self.show(argument.batch) for argument in arguments}
        returned = self.call_function(fn, args, kwargs, shown, lists)
        if self.backprop:
            return self.with_gradient(returned, arguments)
        return self.back(returned, arguments[0])

    def show(self, batch: Encoding) -> Any:
        """A batch as the function sees it."""
        return batch.data if self.rows else batch

    def call_function(self, fn: Function, args: Arguments, kwargs: Named, shown: Shown, lists: Lists) -> Any:
        """Call the function with what it is shown."""
        passed = [shown.get(i, x) for i, x in enumerate(args)]
        named = {name: shown.get(name, x) for name, x in kwargs.items()}
        try:
            return fn(*passed, **named)
        except Exception as error:
            for place, _ in lists:
                error.add_note(f"{self.name} has passed argument {place!r} on as the list that it is; {_GIVE_A_LIST}")
            raise

    def call_tree(self, fn: Function, args: Arguments, kwargs: Named, place: int) -> Any:
        """Call the function where the first argument is a tree of columns."""
        raise NotImplementedError

    def call_alone(self, fn: Function, x: Encoding) -> Any:
        """Call with one batch; a result over the same structure goes back at once."""
        batch: Any = convert(x, self.To, **self.options)
        if batch is x:
            x._look()  # nothing was moved, so nothing has looked whether its data is still what it was
        y = fn(batch)
        if type(y) is type(batch) and y._structure is batch._structure and not (y.keeps_levels or x.keeps_levels):
            if y is x or (batch is x and not y._gapped):
                return y
            if batch is not x and y._structure is x._structure:
                return relaid(y, x)
        return self.back(y, Argument(0, x, batch, self.level))

    def call_list(self, fn: Function, x: Nested, batch: Encoding) -> Any:
        """Call the function with a bare list of arrays, which is `batch` in the encoding of the wrapper."""
        y = fn(batch)
        if type(y) is type(batch) and y._structure is batch._structure and len(x) == len(batch):
            return in_kind_of(convert(y, List), x)
        return self.back(y, Argument(0, x, batch, self.level))

    def convert(self, x: object, alone: bool, options: Options | None = None) -> Any:
        """A batch in the encoding of the wrapper."""
        # Packed rows are rows; several batches have to agree on an order, the caller's
        if self.rows and isinstance(x, Pairs):
            raise BATCH(f"{self.name} takes one batch of rows, not Pairs; give x.one and x.two")
        if isinstance(x, (list, tuple)):
            x = self.read(x)
        own = self.options if options is None else options
        known = x if isinstance(x, Encoding) else None
        packed = self.rows and alone and known is not None and known._by_steps and known._direct
        batch = x if packed else convert(x, self.To, **own)
        if batch is known and known is not None:
            known._look()  # nothing was moved, so nothing has looked whether its data is still what it was
        return batch

    def read(self, x: Nested) -> Any:
        """A bare list; what it cannot say of its items, `dtype` and `like` do."""
        if (self.dtype is None and self.like is None) or (x and is_list_of_arrays(x)):
            return x
        y = LoD.from_nested(x, self.dtype)
        if y.rows or self.like is None:
            return y
        library, item = library_of(self.like), tuple(self.like.shape[1:])
        return LoD._from_levels(library.empty((0, *item), self.like.dtype, self.like), y._levels)

    def check_lists(self, lists: Lists, batch: object) -> None:
        """TypeError for a bare list that is not the first, but plainly a batch over the same sequences."""
        if isinstance(batch, Encoding):
            wanted = batch._structure.lengths.tolist()
            for place, x in lists:
                if [len(part) for part in x] == wanted:
                    raise KIND(
                        f"{self.name} takes a bare list for a batch only as the first argument, but argument {place!r} "
                        f"is one over the same sequences; {_GIVE_A_LIST}"
                    )

    def back(self, returned: object, argument: Argument) -> Any:
        """Give back what the function returned as the caller gets it; of a tuple the first element."""
        if not isinstance(returned, tuple) or is_column(returned):
            return self.restore(self.read_result(returned, argument), argument)
        if not returned:
            raise RETURNED(f"{self.name}: the function returned an empty tuple")
        first = list(returned[0]) if type(returned[0]) is tuple else returned[0]  # which can only be a batch
        return rebuild_tuple(returned, (self.back(first, argument), *returned[1:]))

    def read_result(self, y: object, argument: Argument) -> Any:
        """Read what the function returned as an encoding with as many sequences as it saw."""
        batch = argument.batch
        y = as_encoding(y) if isinstance(y, list) else read_column(y)
        if is_array(y):
            return self.wrap_array(y, batch)
        if not is_encoding(y):
            raise RETURNED(
                f"{self.name}: the function must return an encoding or an array, not "
                f"{registry.label(type(y))}{hints.for_batch(y)}"
            )
        have, expected = _count(y), _count(batch)
        if have != expected:
            raise RESULT(
                f"{self.name}: {expected} sequences were expected back from the function, but there are {have}"
            )
        return y

    def wrap_array(self, y: Shaped, batch: object) -> Any:
        """An array with the leading shape of the data that the function saw, over the structure of that data."""
        _, array = adopt(y, "the result")
        if not isinstance(batch, Encoding) or not batch._in_one_array:
            raise RETURNED(f"{self.name}: the function saw a {type(batch).__name__} and must return one, not an array")
        lead = tuple(batch._shape[: len(batch._shape) - len(batch.item_shape)])
        if tuple(array.shape[: len(lead)]) != lead:
            hint = ""
            if tuple(array.shape[:1]) == (_count(batch),):
                hint = (
                    f"; a function that gives one row per sequence is called without {self.name}, "
                    f"on sf.convert(x, sf.{self.To.__name__}) or as sf.reduce_sum"
                )
            raise RESULT(
                f"{self.name}: {_count(batch)} sequences were expected back from the function, in an array whose shape "
                f"begins with {lead} as the data it saw; it returned shape {tuple(array.shape)}{hint}"
            )
        return rebuild(batch, [array])

    def restore(self, y: object, argument: Argument) -> Any:
        """In the caller's encoding and structure, with nothing of the function's in the padding."""
        back = back_to(y, argument.given, argument.level)
        if back is y and isinstance(y, Encoding) and y._gapped and y.data is not argument.given.data:
            return without_padding(y)
        return back

    def with_gradient(self, returned: object, arguments: list[Argument]) -> tuple[Any, Function]:
        """The result and the backprop function, both in the caller's encoding."""
        if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
            raise RETURNED(f"{self.name} with backprop=True: the function must return (y, backprop)")
        y, inner_backprop = returned
        result = self.back(y, arguments[0])
        first, outer = (y[0], result[0]) if isinstance(y, tuple) else (y, result)
        way = self.way_in(first, arguments[0], outer)

        def backprop(dy: Operands) -> Any:
            dx = inner_backprop(way(dy))
            if len(arguments) == 1:
                return self.gradient_back(dx, arguments[0])
            if not isinstance(dx, tuple) or len(dx) != len(arguments):
                raise RETURNED(f"{self.name}: backprop must return {len(arguments)} gradients, one for each batch")
            return tuple([self.gradient_back(d, a) for d, a in zip(dx, arguments, strict=True)])

        return result, backprop

    def gradient_back(self, dx: Operands, argument: Argument) -> Any:
        """A gradient for what the function saw as one for what the caller passed: zero where that was cut off."""
        dx, given = self.read_result(dx, argument), argument.given
        if isinstance(dx, Encoding) and not isinstance(given, Pairs):
            dtype = argument.batch.dtype
            if dx.dtype != dtype:
                dx = rebuild(dx, [in_dtype(leaf, dtype) for leaf in leaves(dx)])
            given = as_own(given)
            whole = structure_of(given, argument.level)
            if dx._structure.same_lengths(argument.batch._structure) and not whole.same_lengths(dx._structure):
                dx = resize(convert(dx, Ragged), whole)
        return self.restore(dx, argument)

    def way_in(self, y: object, argument: Argument, result: object) -> Function:
        """Make the way by which a gradient of the caller's result becomes one of `y`, which the function returned."""
        inner, outer, as_array = without_data(self.read_result(y, argument)), without_items(result), is_array(y)

        def way(dy: object) -> Any:
            dy = cotangent(dy, outer)
            if isinstance(dy, Encoding) and dy.keeps_levels:
                dy = convert(dy, Ragged, level=argument.level)
            laid = convert_like(dy, inner)
            return laid.data if as_array else laid

        return way


def tree_place(args: Arguments, found: Lists) -> int | None:
    """Find the first argument, if it is a tree of columns.

    Beside another batch it is one only if it holds encodings: any other dict is passed on, as ever.
    """
    if not args or isinstance(args[0], (Encoding, list)):
        return None
    x = args[0]
    if isinstance(x, (Mapping, tuple)):
        place = 0
    else:  # a dataclass before a batch is `self`
        own = len(args) > 1 and (
            is_encoding(args[1]) or is_array(args[1]) or isinstance(args[1], (list, tuple, Mapping))
        )
        place = 0 if is_tree(x) and not own else _first(args)
    if place >= len(args) or not is_tree(args[place]):
        return None
    others = any(other != place for other, _ in found) or any(map(is_array, args))
    return None if others and not any(is_encoding(value) for _, value in entries(args[place])) else place


def same_columns(argument: Argument, first: object) -> Argument:
    """A batch whose columns stand for the same sequences as the first one's, where all lengths agree."""
    batch = argument.batch
    if not isinstance(batch, Encoding) or not isinstance(first, Encoding):
        return argument
    own, wanted = batch._structure, first._structure
    if not own.same_lengths(wanted) or same_numbers(own.order.indices, wanted.order.indices):
        return argument
    return argument._replace(batch=convert_like(batch, first))


def _count(x: object) -> int:
    """Sequences, of a LoD the innermost ones."""
    return x._structure.n if isinstance(x, Encoding) else count(x)


def rebuild_tuple(returned: tuple[Any, ...], parts: tuple[Any, ...]) -> Any:
    """Put parts into a tuple of the class of another: a plain one, a named one, or one of C, as PyTorch has them."""
    kind: Any = type(returned)
    if hasattr(kind, "_make"):
        return kind._make(parts)
    return kind(parts) if hasattr(kind, "n_sequence_fields") else parts


def without_items(x: object) -> Any:
    """The structure of a result, without keeping its data where that is not needed."""
    x = as_encoding(x)
    return without_data(x) if isinstance(x, Encoding) else x


def batches_in(args: Arguments, kwargs: Named) -> list[tuple[int | str, Any]]:
    """The arguments that are batches: encodings anywhere, a bare list only as the first one, after `self`."""
    found: list[tuple[int | str, Any]] = []
    for i, x in enumerate(args):
        if is_encoding(x) or (isinstance(x, (list, tuple)) and not hasattr(x, "_fields") and i == _first(args)):
            found.append((i, x))
    found.extend((name, x) for name, x in kwargs.items() if is_encoding(x))
    return found


def other_lists(args: Arguments, kwargs: Named, found: list[tuple[int | str, Any]]) -> list[tuple[int | str, Any]]:
    """The other arguments that are lists of arrays or of lists, by position or name."""
    taken = {place for place, _ in found}
    given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    return [
        (place, x)
        for place, x in given
        if place not in taken and isinstance(x, (list, tuple)) and x and all(map(has_items, x))
    ]


_GIVE_A_LIST = "a batch there is an encoding: sf.List(...), or sf.convert(..., sf.Ragged)"


def _first(args: Arguments) -> int:
    """Find the first argument: behind `self`, which is nothing that a wrapper knows."""
    x = args[0]
    known = is_array(x) or isinstance(x, (list, tuple)) or is_encoding(x)
    return 0 if known or len(args) == 1 else 1
