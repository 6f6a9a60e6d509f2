"""Wrappers: a function that wants one layout, called with any.

A wrapper converts every argument that is an encoding, calls the function, and gives the result back in the encoding
and with the structure of the first one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import hints, registry
from .arrays import adopt, has_items, is_array, library_of, shape_of
from .conversion.convert import as_own, convert, relaid, resized, without_padding
from .conversion.like import back_to, convert_like
from .errors import StructureError, said
from .formats import Encoding, List, LoD, Masked, Packed, Padded, Pairs, Ragged, structure_of
from .formats.bare import as_encoding, is_list_of_arrays
from .formats.leaves import leaves, rebuild, without_data
from .formats.pairs import count, is_encoding
from .formats.structure import same_numbers
from .gradients.cotangent import cotangent, in_dtype
from .limits import OBJECT, check_finite, check_room

Function = Callable[..., Any]


class _Argument(NamedTuple):
    """An argument that is a batch."""

    place: int | str  # its position or keyword
    given: Any  # as the caller passed it
    batch: Any  # in the encoding of the wrapper


class _Wrapper:
    """What one `with_...` does, whatever the function."""

    def __init__(
        self,
        name: str,
        To: type,
        options: dict[str, Any],
        backprop: bool = False,
        like: Any = None,
        rows: bool = False,
    ) -> None:
        known = {name for entry in registry.conversions().values() if entry.target is To for name in entry.options}
        known |= {"level", "dtype"}
        for option in options:
            if option not in known:
                have = ", ".join(sorted(known | {"backprop", "like"}))
                raise TypeError(f"{name} has no option {said(option)}; it has: {have}{hints.for_option(option)}")
        self.name = name
        self.To = To
        self.options = {option: value for option, value in options.items() if option != "dtype"}
        self.dtype = options.get("dtype")
        self.like = None if like is None else List((), like)._sample()
        self.backprop = _is_asked(backprop)
        self.rows = rows  # does the function see the bare rows?

    def wrap(self, fn: Function) -> Function:
        if not callable(fn):
            raise TypeError(f"{self.name} wraps a function, not {type(fn).__name__}")

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return self.call(fn, args, kwargs)

        return wrapped

    def call(self, fn: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Convert, call, convert back."""
        if len(args) == 1 and isinstance(args[0], Encoding) and not (kwargs or self.rows or self.backprop):
            return self.call_alone(fn, args[0])
        found = _batches(args, kwargs)
        if not found:
            if self.rows and any(map(is_array, args)):
                return fn(*args, **kwargs)
            given = (*args, *kwargs.values())
            names = ", ".join(registry.label(type(x)) for x in given) or "nothing"
            hint = "".join(map(hints.for_batch, given))
            raise TypeError(
                f"{self.name} needs an encoding or a list of arrays among its arguments, but got: {names}{hint}"
            )
        arguments = [_Argument(place, x, self.converted(x, len(found) == 1)) for place, x in found]
        if self.To._by_steps:
            arguments = [arguments[0], *[_same_columns(a, arguments[0].batch) for a in arguments[1:]]]
        lists = _other_lists(args, kwargs, found) if len(args) + len(kwargs) > len(found) else []
        if lists:
            self.check_lists(lists, arguments[0].batch)
        passed, named = list(args), dict(kwargs)
        for place, _, batch in arguments:
            shown = batch.data if self.rows else batch
            if isinstance(place, int):
                passed[place] = shown
            else:
                named[place] = shown
        try:
            returned = fn(*passed, **named)
        except Exception as error:
            for place, _ in lists:
                error.add_note(f"{self.name} has passed argument {place!r} on as the list that it is; {_GIVE_A_LIST}")
            raise
        if self.backprop:
            return self.with_gradient(returned, arguments)
        return self.back(returned, arguments[0])

    def call_alone(self, fn: Function, x: Encoding) -> Any:
        """Call with one batch; a result over the same structure goes back at once."""
        batch: Any = convert(x, self.To, **self.options)
        if batch is x:
            x._look()  # nothing was moved, so nothing has looked whether its data is still what it was
        y = fn(batch)
        if type(y) is type(batch) and y._structure is batch._structure and not (y.keeps_levels or x.keeps_levels):
            if y is x or (batch is x and y._lead == 1):
                return y
            if batch is not x and y._structure is x._structure:
                return relaid(y, x)
        return self.back(y, _Argument(0, x, batch))

    def converted(self, x: Any, alone: bool) -> Any:
        """A batch in the encoding of the wrapper."""
        # Packed rows are rows; several batches have to agree on an order, the caller's
        if self.rows and isinstance(x, Pairs):
            raise TypeError(f"{self.name} takes one batch of rows, not Pairs; give x.one and x.two")
        if isinstance(x, (list, tuple)):
            x = self.read(x)
        batch = x if self.rows and alone and isinstance(x, Packed) else convert(x, self.To, **self.options)
        if batch is x and isinstance(x, Encoding):
            x._look()  # nothing was moved, so nothing has looked whether its data is still what it was
        return batch

    def read(self, x: Any) -> Any:
        """A bare list; what it cannot say of its items, `dtype` and `like` do."""
        if (self.dtype is None and self.like is None) or (x and is_list_of_arrays(x)):
            return x
        y = LoD.from_nested(x, self.dtype)
        if y.rows or self.like is None:
            return y
        library, item = library_of(self.like), tuple(self.like.shape[1:])
        return LoD._over(library.empty((0, *item), self.like.dtype, self.like), y._levels)

    def check_lists(self, lists: list[tuple[int | str, Any]], batch: Any) -> None:
        """TypeError for a bare list that is not the first, but plainly a batch over the same sequences."""
        if isinstance(batch, Encoding):
            wanted = batch._structure.lengths.tolist()
            for place, x in lists:
                if [len(part) for part in x] == wanted:
                    raise TypeError(
                        f"{self.name} takes a bare list for a batch only as the first argument, but argument {place!r} "
                        f"is one over the same sequences; {_GIVE_A_LIST}"
                    )

    def back(self, returned: Any, argument: _Argument) -> Any:
        """What the function returned, as the caller gets it; of a tuple the first element."""
        if not isinstance(returned, tuple):
            return self.restored(self.encoded(returned, argument), argument)
        if not returned:
            raise TypeError(f"{self.name}: the function returned an empty tuple")
        first, rest = self.back(_untupled(returned[0]), argument), returned[1:]
        return type(returned)(first, *rest) if hasattr(returned, "_fields") else (first, *rest)

    def encoded(self, y: Any, argument: _Argument) -> Any:
        """What the function returned, as an encoding with as many sequences as it saw."""
        batch = argument.batch
        if is_array(y):
            return self.over(y, batch)
        if isinstance(y, list):
            y = as_encoding(y)
        elif not is_encoding(y):
            raise TypeError(
                f"{self.name}: the function must return an encoding or an array, not "
                f"{registry.label(type(y))}{hints.for_batch(y)}"
            )
        have, expected = _count(y), _count(batch)
        if have != expected:
            raise StructureError(
                f"{self.name}: {expected} sequences were expected back from the function, but there are {have}"
            )
        return y

    def over(self, y: Any, batch: Any) -> Any:
        """An array with the leading shape of the data that the function saw, over the structure of that data."""
        _, array = adopt(y, "the result")
        if not isinstance(batch, Encoding) or not batch._in_one_array:
            raise TypeError(f"{self.name}: the function saw a {type(batch).__name__} and must return one, not an array")
        lead = tuple(batch._shape[: len(batch._shape) - len(batch.item_shape)])
        if tuple(array.shape[: len(lead)]) != lead:
            hint = ""
            if tuple(array.shape[:1]) == (_count(batch),):
                hint = (
                    f"; a function that gives one row a sequence is called without {self.name}, "
                    f"on sf.convert(x, sf.{self.To.__name__}) or as sf.reduce_sum"
                )
            raise StructureError(
                f"{self.name}: {_count(batch)} sequences were expected back from the function, in an array whose shape "
                f"begins with {lead} as the data it saw; it returned shape {tuple(array.shape)}{hint}"
            )
        return rebuild(batch, [array])

    def restored(self, y: Any, argument: _Argument) -> Any:
        """In the caller's encoding and structure, with nothing of the function's in the padding."""
        back = back_to(y, argument.given, self.options.get("level", -1))
        if back is y and isinstance(y, Encoding) and y._lead == 2 and y.data is not argument.given.data:
            return without_padding(y)
        return back

    def with_gradient(self, returned: Any, arguments: list[_Argument]) -> tuple[Any, Function]:
        """The result and the backprop function, both in the caller's encoding."""
        if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
            raise TypeError(f"{self.name} with backprop=True: the function must return (y, backprop)")
        y, inner_backprop = returned
        result = self.back(y, arguments[0])
        first = y[0] if isinstance(y, tuple) else y
        outer = _hollow(result[0] if isinstance(y, tuple) else result)
        inner = without_data(self.encoded(first, arguments[0]))
        as_array = is_array(first)

        def backprop(dy: Any) -> Any:
            dy = self.gradient_in(dy, outer, inner)
            dx = inner_backprop(dy.data if as_array else dy)
            if len(arguments) == 1:
                return self.gradient_back(dx, arguments[0])
            if not isinstance(dx, tuple) or len(dx) != len(arguments):
                raise TypeError(f"{self.name}: backprop must return {len(arguments)} gradients, one for each batch")
            return tuple([self.gradient_back(d, a) for d, a in zip(dx, arguments, strict=True)])

        return result, backprop

    def gradient_back(self, dx: Any, argument: _Argument) -> Any:
        """A gradient for what the function saw as one for what the caller passed: zero where that was cut off."""
        dx, given = self.encoded(dx, argument), argument.given
        if isinstance(dx, Encoding) and not isinstance(given, Pairs):
            dtype = argument.batch.dtype
            if dx.dtype != dtype:
                dx = rebuild(dx, [in_dtype(leaf, dtype) for leaf in leaves(dx)])
            given = as_own(given)
            whole = structure_of(given, self.options.get("level", -1))
            if dx._structure.same_lengths(argument.batch._structure) and not whole.same_lengths(dx._structure):
                dx = resized(convert(dx, Ragged), whole)
        return self.restored(dx, argument)

    def gradient_in(self, dy: Any, outer: Any, inner: Any) -> Any:
        """The caller's gradient, laid out like what the function returned."""
        dy = cotangent(dy, outer)
        if isinstance(dy, Encoding) and dy.keeps_levels:
            dy = convert(dy, Ragged, level=self.options.get("level", -1))
        return convert_like(dy, inner)


def _is_asked(backprop: Any) -> bool:
    if not isinstance(backprop, (bool, np.bool_)):
        raise TypeError(f"backprop must be True or False, not {said(backprop)}")
    return bool(backprop)


def _same_columns(argument: _Argument, first: Any) -> _Argument:
    """A batch whose columns stand for the same sequences as the first one's, where all lengths agree."""
    batch = argument.batch
    if not isinstance(batch, Encoding) or not isinstance(first, Encoding):
        return argument
    own, wanted = batch._structure, first._structure
    if not own.same_lengths(wanted) or same_numbers(own.order.indices, wanted.order.indices):
        return argument
    return argument._replace(batch=convert_like(batch, first))


def _count(x: Any) -> int:
    """Sequences, of a LoD the innermost ones."""
    return x._structure.n if isinstance(x, Encoding) else count(x)


def _untupled(y: Any) -> Any:
    """A tuple inside a returned tuple can only be a batch."""
    return list(y) if type(y) is tuple else y


def _hollow(x: Any) -> Any:
    """The structure of a result, without keeping its data where that is not needed."""
    x = as_encoding(x)
    return without_data(x) if isinstance(x, Encoding) else x


def _batches(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[int | str, Any]]:
    """The arguments that are batches: encodings anywhere, a bare list only as the first one, after `self`."""
    found: list[tuple[int | str, Any]] = []
    for i, x in enumerate(args):
        if is_encoding(x) or (isinstance(x, (list, tuple)) and not hasattr(x, "_fields") and i == _first(args)):
            found.append((i, x))
    found.extend((name, x) for name, x in kwargs.items() if is_encoding(x))
    return found


def _other_lists(
    args: tuple[Any, ...], kwargs: dict[str, Any], found: list[tuple[int | str, Any]]
) -> list[tuple[int | str, Any]]:
    """The other arguments that are lists of arrays or of lists, by position or name."""
    taken = {place for place, _ in found}
    given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    return [
        (place, x)
        for place, x in given
        if place not in taken and isinstance(x, (list, tuple)) and x and all(map(has_items, x))
    ]


_GIVE_A_LIST = "a batch there is an encoding: sf.List(...), or sf.convert(..., sf.Ragged)"


def _first(args: tuple[Any, ...]) -> int:
    """Where the first argument stands: behind `self`, which is nothing that a wrapper knows."""
    x = args[0]
    known = is_array(x) or isinstance(x, (list, tuple)) or is_encoding(x)
    return 0 if known or len(args) == 1 else 1


def _with(name: str, To: type, fn: Function | None, options: dict[str, Any], **how: Any) -> Any:
    wrapper = _Wrapper(name, To, options, **how)
    return wrapper.wrap if fn is None else wrapper.wrap(fn)


def with_list(fn: Function | None = None, *, backprop: bool = False, like: Any = None, **options: Any) -> Any:
    """`fn` sees a `List` and returns one, or a list of arrays; see `with_padded`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> ends = sf.with_list(lambda x: [item[-1:] for item in x.items])
    >>> ends(sf.Ragged(np.arange(5), [2, 3])).data
    array([1, 4])
    """
    return _with("with_list", List, fn, options, backprop=backprop, like=like)


def with_ragged(fn: Function | None = None, *, backprop: bool = False, like: Any = None, **options: Any) -> Any:
    """`fn` sees a `Ragged`; see `with_padded`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> double = sf.with_ragged(lambda x: x.data * 2)
    >>> double([np.array([1, 2]), np.array([3])])
    [array([2, 4]), array([6])]
    """
    return _with("with_ragged", Ragged, fn, options, backprop=backprop, like=like)


def with_padded(fn: Function | None = None, *, backprop: bool = False, like: Any = None, **options: Any) -> Any:
    """Let `fn`, which wants a `Padded`, be called with any encoding.

    Parameters
    ----------
    fn : sees a `Padded` and returns one with the same number of sequences (other lengths, item shape or dtype are
        allowed), or an array whose shape begins as that of the data it saw.  Of a returned tuple the first element is
        the result, the rest is passed on.  Without `fn` the call is a decorator.
    backprop : does `fn` return ``(y, backprop)``?  Then the wrapped function does too, and its ``backprop(dy)`` takes
        and gives gradients in the caller's encoding and dtype.
    like : an array ``(anything, *item)`` that gives dtype, item shape and library to a bare list without any item,
        ``[]`` or ``[[], []]``; without it that is float64 with item shape ()
    options : of the conversion (fill, width, multiple_of, truncate, level), and dtype, of numbers in bare lists

    The wrapped function converts every argument that is an encoding (a bare list only as the first one, after `self`)
    and passes the others on.  The result comes back in the encoding of the first one, with its own structure, all
    levels of a `LoD` included.  What `fn` writes into the padding is dropped; sequences that an option (`truncate`) has
    cut come back cut.

    Errors: TypeError where no argument is an encoding, StructureError where `fn` returns another number of sequences.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> @sf.with_padded
    ... def cumulated(x):
    ...     return np.cumsum(x.data, axis=0)
    >>> cumulated(sf.LoD(np.array([1, 2, 3]), [[0, 1, 2], [0, 2, 3]])).to_nested()
    [[[1, 3]], [[3]]]
    """
    return _with("with_padded", Padded, fn, options, backprop=backprop, like=like)


def with_packed(fn: Function | None = None, *, backprop: bool = False, like: Any = None, **options: Any) -> Any:
    """`fn` sees a `Packed`; see `with_padded`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.with_packed(lambda x: -x.data)([np.array([1, 2]), np.array([3])])
    [array([-1, -2]), array([-3])]
    """
    return _with("with_packed", Packed, fn, options, backprop=backprop, like=like)


def with_masked(fn: Function | None = None, *, backprop: bool = False, like: Any = None, **options: Any) -> Any:
    """`fn` sees a `Masked`; options also `side`; see `with_padded`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> @sf.with_masked(side="left", multiple_of=4)
    ... def last(x):
    ...     return x.data * (np.arange(x.data.shape[1]) == x.data.shape[1] - 1)
    >>> last([np.array([1, 2]), np.array([3])])
    [array([0, 2]), array([3])]
    """
    return _with("with_masked", Masked, fn, options, backprop=backprop, like=like)


def with_lod(fn: Function | None = None, *, backprop: bool = False, like: Any = None, **options: Any) -> Any:
    """`fn` sees a `LoD`, with all levels where the argument has some; see `with_padded`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.with_lod(lambda x: x.data + len(x.lod))([[[1, 2], [3]], [[4]]])
    [[[3, 4], [5]], [[6]]]
    """
    return _with("with_lod", LoD, fn, options, backprop=backprop, like=like)


def with_array(fn: Function | None = None, *, backprop: bool = False, like: Any = None) -> Any:
    """`fn` sees the rows alone, an array ``(rows, *item)`` without padding, and returns as many rows.

    Rows are in the caller's order, but of a `Packed` that is the only batch in its own.  A plain array is passed as it
    is.  See `with_padded`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> project = sf.with_array(lambda rows: rows @ np.ones((2, 3)))
    >>> project(sf.Ragged(np.ones((4, 2)), [1, 3]))
    Ragged(shape (4, 3), float64, cpu, 2 sequences of lengths [1, 3])
    """
    return _with("with_array", Ragged, fn, {}, backprop=backprop, like=like, rows=True)


def with_flatten(fn: Function | None = None, *, backprop: bool = False) -> Any:
    """`fn` sees the innermost items of nested lists as one flat list, and returns a list with as many.

    Items may be anything that is no list.  An encoding is passed as nested lists, and its rows come back as an array
    of its library.

    With `backprop` the function returns ``(y, backprop)`` and so does the wrapped one: the inner ``backprop`` takes the
    gradients of its items as one flat list and returns those of the items that the function saw, the outer one takes
    and gives them nested as the caller has them.

    Errors: TypeError where the first argument is no nested list or encoding, StructureError where `fn` returns another
    number of items or items are not all equally deep.

    >>> import seqformats as sf
    >>> shout = sf.with_flatten(lambda words: [word.upper() for word in words])
    >>> shout([["to", "be"], [], ["or"]])
    [['TO', 'BE'], [], ['OR']]
    """
    backprop = _is_asked(backprop)
    if fn is None:
        return functools.partial(with_flatten, backprop=backprop)
    if not callable(fn):
        raise TypeError(f"with_flatten wraps a function, not {type(fn).__name__}")

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        at = next((i for i, x in enumerate(args[:2]) if isinstance(x, (list, tuple)) or is_encoding(x)), None)
        if at is None:
            given = ", ".join(registry.label(type(x)) for x in args) or "nothing"
            raise TypeError(f"with_flatten needs nested lists or an encoding as its first argument, but got: {given}")
        items, shape, back = _items(args[at])
        returned = fn(*args[:at], items, *args[at + 1 :], **kwargs)
        if not backprop:
            return back(_counted(returned, len(items), "the function"))
        if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
            raise TypeError("with_flatten with backprop=True: the function must return (y, backprop)")
        y, inner_backprop = returned
        result = back(_counted(y, len(items), "the function"))
        outer = _hollow(result) if is_encoding(result) else None
        dtype = _hollow(args[at]).dtype if isinstance(args[at], Encoding) else None

        def outer_backprop(dy: Any) -> Any:
            flat, given, _ = _items(dy if outer is None else cotangent(dy, outer))
            if len(flat) != len(items):
                raise StructureError(f"the gradient has {len(flat)} items, but the result has {len(items)}")
            if given is not None and not _same_nesting(given, shape):
                raise StructureError("the gradient has as many items as the result, but other lengths")
            dx = back(_counted(inner_backprop(flat), len(items), "backprop"))
            return dx if dtype is None else rebuild(dx, [in_dtype(leaf, dtype) for leaf in leaves(dx)])

        return result, outer_backprop

    return wrapped


def _items(x: Any) -> tuple[list[Any], list[_Shape] | None, Callable[[Any], Any]]:
    """All items of nested lists or of an encoding as one list, how lists are nested, and the way back for as many."""
    if isinstance(x, Pairs):
        raise TypeError("with_flatten takes one batch, not Pairs; give x.one or x.two")
    if is_encoding(x):
        rows = convert(x, Ragged)
        rows._look()
        check_room(rows.rows, OBJECT, "items")
        return list(rows.data), None, lambda y: convert_like(_stacked(y, rows), x)
    if not isinstance(x, (list, tuple)):
        raise TypeError(f"nested lists or an encoding were expected, not {registry.label(type(x))}")
    items, shape = _flattened(x)
    return items, shape, lambda y: _regrouped(y, shape)


def _counted(y: Any, expected: int, whose: str) -> Any:
    """What `whose` returned, which must be so many items."""
    if not isinstance(y, (list, tuple)) and not (is_array(y) and shape_of(y, "the result")):
        raise TypeError(f"with_flatten: {whose} must return a list of {expected} items, not {type(y).__name__}")
    count = shape_of(y)[0] if is_array(y) else len(y)
    if count != expected:
        raise StructureError(f"with_flatten: {expected} items were expected back from {whose}, but got {count}")
    return y


def _stacked(items: Any, rows: Ragged) -> Ragged:
    library = library_of(rows.data)
    if rows.rows == 0:
        data = rows.data
    elif is_array(items):
        data = library.stack(list(adopt(items, "the result")[1]), rows.data)
    else:
        check_finite(items)
        try:
            data = library.stack(items, rows.data)
        except (TypeError, ValueError, RuntimeError) as error:
            kind = TypeError if isinstance(error, TypeError) else StructureError
            raise kind(f"with_flatten: the items that the function returned fit no array: {error}") from None
    return rebuild(rows, [data])  # type: ignore[no-any-return]


class _Shape(NamedTuple):
    """How lists of one level are nested."""

    kinds: list[type]  # of each list
    counts: list[int]  # of the lists within, or 0
    items: list[int]  # that it holds itself


def _same_nesting(a: list[_Shape], b: list[_Shape] | None) -> bool:
    """Have these the same lengths, whatever is a list and what a tuple?"""
    return b is not None and [shape[1:] for shape in a] == [shape[1:] for shape in b]


def _flattened(x: Any) -> tuple[list[Any], list[_Shape]]:
    """All items in order, and the shape of every level, outermost first."""
    items: list[Any] = []
    shapes: list[_Shape] = []
    lists, depths = [x], set()
    while lists:
        check_finite(x, len(shapes), sum(map(len, lists)))
        shape = _Shape([], [], [])
        for part in lists:
            inner = [isinstance(item, (list, tuple)) for item in part]
            leaf = not any(inner)
            if not leaf and not all(inner):
                i = inner.index(False)
                raise StructureError(
                    f"the items of nested lists must all be equally deep, but element {i} is {said(part[i])}"
                )
            if leaf and inner:
                items += part
                depths.add(len(shapes) + 1)
            shape.kinds.append(type(part))
            shape.counts.append(0 if leaf else len(inner))
            shape.items.append(len(inner) if leaf else 0)
        shapes.append(shape)
        if len(depths) > 1:
            raise StructureError(f"the items of nested lists must all be equally deep, but some are {min(depths)} deep")
        lists = [item for part, count in zip(lists, shape.counts, strict=True) if count for item in part]
    return items, shapes


def _regrouped(items: Any, shapes: list[_Shape]) -> Any:
    """Lists of those shapes around other items: from the innermost level out."""
    lists: list[Any] = []
    for shape in reversed(shapes):
        given, within = iter(items), iter(lists)  # only one level has items
        lists = [
            kind(itertools.islice(within if count else given, count or own))
            for kind, count, own in zip(*shape, strict=True)
        ]
    return lists[0]
