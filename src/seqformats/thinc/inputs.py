"""Inputs of layers: any batch as an encoding, and what comes of it as the caller had it.

Thinc's layers are called with its own `Ragged` and `Padded`, with lists of arrays and with tuples of the fields of
these; here also with any encoding of this library.  An `Input` keeps the arrays of lengths that came in, so that what
goes out holds the same ones, as it does in Thinc.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from thinc.api import registry
from thinc.types import Padded as ThincPadded
from thinc.types import Ragged as ThincRagged

from ..arrays import is_array
from ..converters.convert import convert, no_encoding, relaid
from ..converters.like import back_to
from ..errors import RESULT, SHAPE, SLOPE
from ..formats import Encoding, List, Padded, Ragged
from ..formats.bare import as_encoding, is_list_of_arrays, list_of, read_list
from ..formats.leaves import without_data
from ..formats.pairs import is_encoding
from ..formats.rows import Source, lay_out
from .types import Sequences, from_padded, from_ragged, to_padded, to_ragged

Function = TypeVar("Function", bound=Callable[..., Any])

_NO_ARRAYS = List((), np.zeros((0, 0), np.float32))
"""What a bare list without arrays is in Thinc."""


def register(name: str) -> Callable[[Function], Function]:
    """Register a layer with Thinc, by the name that configurations give it."""

    def register(function: Function) -> Function:
        registry.layers(f"seqformats.{name}.v1", func=function)
        return function

    return register


class Input(NamedTuple):
    """A batch that came in: its rows, readable, and the way back for others over as many sequences."""

    own: Any  # an encoding, or the fields of a `Source`
    back: Callable[[Any], Any]

    def as_kind(self, kind: type) -> Any:
        """The batch in an encoding."""
        own = self.own
        if type(own) is kind:
            return own
        if isinstance(own, tuple):
            return lay_out(own, kind) if kind is not List else List._from_items(own[1], own[3], own[4])
        return convert(own, kind)


def take_input(X: Sequences) -> Input:
    """Read a batch; TypeError for an object that is none."""
    if isinstance(X, ThincRagged):
        return ragged_input(X)
    if isinstance(X, ThincPadded):
        return padded_input(X)
    if isinstance(X, (list, tuple)):
        return list_input(X)
    if isinstance(X, Encoding):
        return Input(X, lambda y: back_to(y, X, -1))
    if not is_encoding(X):
        raise no_encoding(X)
    return Input(as_encoding(X), lambda y: back_to(y, X, -1))


def ragged_input(X: Sequences) -> Input:
    """For Thinc's `Ragged`."""
    own = from_ragged(X)

    def back(y: Encoding) -> Any:
        r = convert(y, Ragged)
        return ThincRagged(r.data, X.lengths) if r._structure.same_lengths(own._structure) else to_ragged(r)

    return Input(own, back)


def padded_input(X: Sequences) -> Input:
    """For Thinc's `Padded`: columns come back in their order."""
    own = from_padded(X)

    def back(y: Encoding) -> Any:
        if not y._structure.same_lengths(own._structure):
            return to_padded(convert(y, Padded))
        return ThincPadded(relaid(y, own).data, X.size_at_t, X.lengths, X.indices)

    return Input(own, back)


def list_input(X: Sequences) -> Input:
    """For a list or tuple of arrays, and what else a bare list is."""
    source = read_list(tuple(X)) if X else _NO_ARRAYS
    if source is not None:
        return Input(source, list_back if type(X) is list else tuple_back)
    own = as_encoding(X)
    if is_list_of_arrays(X):
        return Input(own, lambda y: type(X)(convert(y, List).items))
    return Input(own, lambda y: back_to(y, X, -1))


def list_back(y: Encoding) -> list[Any]:
    """An encoding as a list of arrays."""
    return list(convert(y, List).items)


def tuple_back(y: Encoding) -> tuple[Any, ...]:
    """Give the gradient as a tuple."""
    return convert(y, List).items


def is_padded_data(X: Sequences) -> bool:
    """Tell whether a tuple holds the four fields of Thinc's `Padded`."""
    return isinstance(X, tuple) and len(X) == 4 and all(map(is_array, X)) and X[0].ndim >= 2 and X[1].ndim == 1


def is_ragged_data(X: Sequences) -> bool:
    """Tell whether a tuple holds the rows and the lengths of Thinc's `Ragged`."""
    return isinstance(X, tuple) and len(X) == 2 and all(map(is_array, X)) and X[1].ndim == 1 and X[1].dtype.kind in "iu"


def padded_data_input(X: Sequences) -> Input:
    """For the fields of Thinc's `Padded`."""
    inner = padded_input(ThincPadded(*X))

    def back(y: Encoding) -> Any:
        z = inner.back(y)
        return z.data, z.size_at_t, z.lengths, z.indices

    return Input(inner.own, back)


def ragged_data_input(X: Sequences) -> Input:
    """For the rows and lengths of Thinc's `Ragged`."""
    inner = ragged_input(ThincRagged(*X))

    def back(y: Encoding) -> Any:
        z = inner.back(y)
        return z.data, z.lengths

    return Input(inner.own, back)


def rectangle_input(X: Sequences) -> Input:
    """For a bare rectangle, time-major: sequences of one length."""
    if X.ndim < 2:
        raise SHAPE(f"a rectangle has the axes (steps, n, *item), but this one has shape {X.shape}")
    steps, n = X.shape[:2]
    own = Padded(X, np.full(steps, n), np.full(n, steps), np.arange(n))
    return Input(own, lambda y: relaid(y, own).data)


def outline(y: Encoding) -> Any:
    """Keep the layout of a gradient without the data, but for a list: one more object an array costs more there."""
    return without_data(y) if y._in_one_array else y


def fitting(d: Input, shape: Encoding) -> Any:
    """A gradient laid out as what it is of; StructureError where it has other sequences."""
    kind = type(shape)
    y = d.as_kind(kind)
    if y._structure is shape._structure:
        return y
    if not y._structure.same_lengths(shape._structure):
        raise SLOPE(
            f"the gradient has {len(y)} sequences with {y.rows} items, the result had {len(shape)} with {shape.rows}, "
            "or they are of other lengths"
        )
    return relaid(y, shape) if shape._in_one_array else y


def over_data(y: Sequences, batch: Encoding) -> Any:
    """An array with the leading axes of the data that a layer saw, as an encoding like that."""
    lead = batch._shape[: batch._lead]
    if y.shape[: len(lead)] != lead:
        raise RESULT(f"a layer that saw data of shape {batch._shape} gave an array of shape {y.shape}")
    return batch._with_data(np.ascontiguousarray(y))


def list_source(X: Sequences) -> Source | None:
    """The rows of a list of arrays; None for another object, or an empty list."""
    items = tuple(X) if X else ()
    if not items or not is_list_of_arrays(items):
        return None
    return Source(*(read_list(items) or list_of(items)._read()))  # the latter for arrays that are not plain
