"""The layers that let a layer see a batch in one encoding, whatever it comes in: Thinc's ``with_*``, and two more."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from thinc.api import Model
from thinc.types import Padded as ThincPadded
from thinc.types import Ragged as ThincRagged

from ..arrays import Array, is_array
from ..converters.convert import convert
from ..converters.layouts import check_at_least, one_of
from ..errors import RESULT, SLOPE
from ..formats import Encoding, List, Masked, Packed, Padded, Ragged
from .inputs import (
    Input,
    fitting,
    is_padded_data,
    is_ragged_data,
    list_source,
    outline,
    over_data,
    padded_data_input,
    ragged_data_input,
    rectangle_input,
    register,
    take_input,
)
from .ops import padded_rows, pieces
from .structures import structure_of
from .types import Sequences, from_padded, from_ragged, to_padded, to_ragged

Layer = Any
"""A model of Thinc's, of any types; its own types speak of its batches alone."""
Call = tuple[Any, Callable[[Any], Any]]


class View:
    """Encoding that the layer inside sees.

    `straight` are the types of batches that it may have as they are.
    """

    kind: Any
    straight: tuple[type, ...] = ()

    def take(self, X: Sequences) -> Input:
        """Take a batch in."""
        return take_input(X)

    def batch(self, taken: Input, model: Layer) -> Any:
        """The batch in this encoding."""
        return taken.as_kind(self.kind)

    def show(self, batch: Sequences) -> Any:
        """Show a batch as the layer gets it."""
        return batch

    def read(self, y: Sequences, batch: Encoding) -> Any:
        """Read what the layer gave as an encoding; StructureError where it is not of as many sequences."""
        if is_array(y) and batch._in_one_array:
            return over_data(y, batch)
        found = y if type(y) is type(batch) else take_input(y).as_kind(self.kind)
        if len(found) != len(batch):
            raise RESULT(f"the layer saw {len(batch)} sequences, but gave {len(found)}")
        return found


class PaddedView(View):
    """Thinc's `Padded`."""

    kind, straight = Padded, (ThincPadded,)

    def take(self, X: Sequences) -> Input:
        """Fields of a `Padded` in a tuple, and bare rectangles, too."""
        if is_padded_data(X):
            return padded_data_input(X)
        return rectangle_input(X) if is_array(X) else take_input(X)

    def show(self, batch: Sequences) -> Any:
        """With lengths that it may write."""
        return to_padded(batch)

    def read(self, y: Sequences, batch: Encoding) -> Any:
        """The columns may be others now."""
        return super().read(from_padded(y) if isinstance(y, ThincPadded) else y, batch)


class RaggedView(View):
    """Thinc's `Ragged`."""

    kind, straight = Ragged, (ThincRagged,)

    def take(self, X: Sequences) -> Input:
        """Rows and lengths in a tuple, too."""
        return ragged_data_input(X) if is_ragged_data(X) else take_input(X)

    def show(self, batch: Sequences) -> Any:
        """With lengths that it may write."""
        return to_ragged(batch)

    def read(self, y: Sequences, batch: Encoding) -> Any:
        """The lengths may be others now."""
        return super().read(from_ragged(y) if isinstance(y, ThincRagged) else y, batch)


class ListView(View):
    """A list of arrays."""

    kind, straight = List, (list,)

    def show(self, batch: Sequences) -> Any:
        """A list that it may change."""
        return list(batch.items)


class RowsView(View):
    """All rows in one array, without padding; `flat`: with two axes."""

    kind, straight = Ragged, (np.ndarray,)

    def __init__(self, flat: bool) -> None:
        self.flat = flat

    def batch(self, taken: Input, model: Layer) -> Any:
        """Make the batch of a rectangle step by step, which is the shorter way."""
        return taken.as_kind(Packed if isinstance(taken.own, Padded) else Ragged)

    def show(self, batch: Sequences) -> Any:
        """The rows."""
        rows = batch.data
        return rows.reshape(rows.shape[0], -1) if self.flat and rows.ndim != 2 and rows.size else rows

    def read(self, y: Sequences, batch: Encoding) -> Any:
        """Read as many rows; with two axes what had more has them again, where that is what there was."""
        if self.flat and is_array(y) and y.size == batch._shape[0] * np.prod(batch.item_shape, dtype=int):
            y = y.reshape(batch._shape) if len(batch._shape) != 2 else y
        return super().read(y, batch)


class MaskedView(View):
    """A `Masked` of this library."""

    kind = Masked

    def batch(self, taken: Input, model: Layer) -> Any:
        """With the side and the width that the layer wants."""
        options = {"side": model.attrs["side"], "multiple_of": model.attrs["multiple_of"]}
        return convert(taken.as_kind(Ragged if isinstance(taken.own, tuple) else type(taken.own)), Masked, **options)


class PackedView(View):
    """A `Packed` of this library."""

    kind = Packed


PADDED_VIEW, RAGGED_VIEW, LIST_VIEW = PaddedView(), RaggedView(), ListView()
MASKED_VIEW, PACKED_VIEW = MaskedView(), PackedView()
ROWS_VIEW, MATRIX_VIEW = RowsView(False), RowsView(True)


def forward(view: View, model: Layer, X: Sequences, is_train: bool) -> Call:
    """Let the layer inside see the batch as it wants it."""
    layer = model.layers[0]
    if isinstance(X, view.straight):
        found: Call = layer(X, is_train)
        return found
    taken = view.take(X)
    batch = view.batch(taken, model)
    Y, get_dX = layer(view.show(batch), is_train)
    y = view.read(Y, batch)
    seen, given = outline(batch), outline(y)

    def backprop(dY: Sequences) -> Any:
        dX = get_dX(view.show(fitting(view.take(dY), given)))
        return taken.back(view.read(dX, seen))

    return taken.back(y), backprop


def forward_ragged(model: Layer, X: Sequences, is_train: bool) -> Call:
    """Run the layer on rows that lie there already, whatever their lengths are."""
    rows, lengths = X.dataXd, X.lengths
    Y, get_dX = model.layers[0](rows, is_train)
    check_rows(Y, rows)

    def backprop(dY: Sequences) -> Any:
        slopes = dY.dataXd if isinstance(dY, ThincRagged) else take_input(dY).as_kind(Ragged).data
        check_rows(slopes, Y)
        return ThincRagged(get_dX(slopes), lengths)

    return ThincRagged(Y, lengths), backprop


def check_rows(Y: Sequences, rows: Array) -> None:
    """StructureError for another number of rows."""
    if Y.shape[0] != rows.shape[0]:
        raise RESULT(f"{rows.shape[0]} rows were expected, but there are {Y.shape[0]}")


def forward_rows(view: Any, model: Layer, X: Sequences, is_train: bool) -> Call:
    """Run the layer on rows, of lists with rows of zeros between them where the layer asks for these."""
    if isinstance(X, ThincRagged) and not view.flat:
        return forward_ragged(model, X, is_train)
    pad = model.attrs["pad"]
    source = list_source(X) if pad and isinstance(X, (list, tuple)) else None
    if source is None:
        return forward(view, model, X, is_train)
    structure = source.structure
    rooms = structure_of(np.where(structure.lengths > 0, structure.lengths + pad, 0))
    Y, get_dX = model.layers[0](padded_rows(source, pad), is_train)

    def backprop(dY: Sequences) -> Any:
        slopes = list_source(dY)
        if slopes is None or not slopes.structure.same_lengths(structure):
            raise SLOPE("the gradient must be a list of arrays as long as those of the result")
        return pieces(get_dX(padded_rows(slopes, pad)), rooms, pad)

    return pieces(Y, rooms, pad), backprop


def init(view: View, model: Layer, X: Sequences = None, Y: Sequences = None) -> None:
    """Let the layer inside see samples as it wants them, and take over the dimensions that it finds."""
    layer = model.layers[0]
    layer.initialize(X=sample(view, model, X), Y=sample(view, model, Y))
    copy_dims(model)


def sample(view: View, model: Layer, X: Sequences) -> Any:
    """A sample as the layer inside sees it."""
    if X is None or isinstance(X, view.straight):
        return X
    # a chain shows what its last layer gives to all of them
    if is_array(X) and not (view is PADDED_VIEW and X.ndim > 2):
        return X
    return view.show(view.batch(view.take(X), model))


def copy_dims(model: Layer) -> None:
    """The dimensions of the layer inside, where they are known by now."""
    layer = model.layers[0]
    for name in layer.dim_names:
        value = layer.maybe_get_dim(name)
        if value is not None and model.has_dim(name) is not False:
            model.set_dim(name, value)


def wrap(view: View, name: str, layer: Layer, attrs: dict[str, Any] | None = None) -> Layer:
    """A model around a layer."""
    return Model(
        f"{name}({layer.name})",
        partial(forward if attrs is None or "pad" not in attrs else forward_rows, view),
        init=partial(init, view),
        layers=[layer],
        attrs=attrs or {},
        dims={dim: layer.maybe_get_dim(dim) for dim in layer.dim_names},
    )


@register("with_array")
def with_array(layer: Layer, pad: int = 0) -> Layer:
    """Let a layer see all rows in one array, without padding.

    Parameters
    ----------
    layer : Model
        It sees an array ``(rows, *item)`` and gives as many rows; a plain array it sees as it is.
    pad : int
        Rows of zeros before each array of a list that is not empty, and at the end.

    Returns
    -------
    Model
        For any batch; what comes out has the kind of what came in, and so have gradients.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> from thinc.api import Linear
    >>> model = sf.thinc.with_array(Linear())
    >>> X = [np.ones((2, 3), "f"), np.ones((1, 3), "f")]
    >>> _ = model.initialize(X, [x[:, :2] for x in X])
    >>> model.get_dim("nO"), [y.shape for y in model.predict(X)]
    (2, [(2, 2), (1, 2)])
    """
    return wrap(ROWS_VIEW, "with_array", layer, {"pad": check_at_least(pad, "pad", 0)})


@register("with_array2d")
def with_array2d(layer: Layer, pad: int = 0) -> Layer:
    """`with_array` for a layer that wants two axes: items of more are shown flat."""
    return wrap(MATRIX_VIEW, "with_array", layer, {"pad": check_at_least(pad, "pad", 0)})


@register("with_list")
def with_list(layer: Layer) -> Layer:
    """Let a layer see a list of arrays; see `with_array` for the rest."""
    return wrap(LIST_VIEW, "with_list", layer)


@register("with_ragged")
def with_ragged(layer: Layer) -> Layer:
    """Let a layer see Thinc's `Ragged`; see `with_array` for the rest."""
    return wrap(RAGGED_VIEW, "with_ragged", layer)


@register("with_padded")
def with_padded(layer: Layer) -> Layer:
    """Let a layer see Thinc's `Padded`, as `LSTM` wants it.

    Parameters
    ----------
    layer : Model

    Returns
    -------
    Model
        As of `with_array`.  A `Padded` goes in as it is; a bare rectangle ``(steps, n, *item)`` counts as sequences of
        one length.

    Notes
    -----
    Sequences of one length keep their order in the columns; in Thinc the later one comes first.
    """
    return wrap(PADDED_VIEW, "with_padded", layer)


@register("with_masked")
def with_masked(layer: Layer, side: str = "right", multiple_of: int = 1) -> Layer:
    """Let a layer see a `Masked` of this library, batch-major: for attention, say.

    Parameters
    ----------
    layer : Model
        It gives a `Masked`, or an array whose shape begins as that of the data it saw.
    side : "right" or "left"
        Where the padding is.
    multiple_of : int
        A number that divides the width.

    Returns
    -------
    Model
        As of `with_array`.
    """
    one_of(side, "side", ("right", "left"))
    return wrap(
        MASKED_VIEW, "with_masked", layer, {"side": side, "multiple_of": check_at_least(multiple_of, "multiple_of", 1)}
    )


@register("with_packed")
def with_packed(layer: Layer) -> Layer:
    """Let a layer see a `Packed` of this library, time-major without padding; see `with_masked` for what it gives."""
    return wrap(PACKED_VIEW, "with_packed", layer)


# --- nested lists ----------------------------------------------------------------------------------------------------


@register("with_flatten")
def with_flatten(layer: Layer) -> Layer:
    """Let a layer see the items of lists in a list as one flat list.

    Parameters
    ----------
    layer : Model
        It gives as many items, in a list or an array; so does its backprop with gradients.

    Returns
    -------
    Model
        A list of lists, or of arrays where the layer gave one; one level is taken away, whatever is in it.

    Notes
    -----
    Thinc's with_flatten.v2; what its first version did of arrays, too.
    """
    return Model(f"with_flatten({layer.name})", forward_flat, init=init_flat, layers=[layer])


def forward_flat(model: Layer, X: Sequences, is_train: bool) -> Call:
    """Take one level away, and put it back."""
    lengths = [len(items) for items in X]
    Y, get_dX = model.layers[0](flat(X), is_train)

    def backprop(dY: Sequences) -> Any:
        if [len(items) for items in dY] != lengths:
            raise SLOPE("the gradient must be in lists as long as those of the result")
        return nest(get_dX(np.concatenate(dY) if is_array(Y) and len(dY) else flat(dY)), lengths)

    return nest(Y, lengths), backprop


def flat(X: Sequences) -> list[Any]:
    """The items of all lists."""
    return [item for items in X for item in items]


def nest(items: Sequences, lengths: list[int]) -> list[Any]:
    """The items in lists, or arrays, of these lengths; StructureError for another number of them."""
    if len(items) != sum(lengths):
        raise RESULT(f"the layer saw {sum(lengths)} items, but gave {len(items)}")
    return pieces(items, structure_of(lengths))


def init_flat(model: Layer, X: Sequences = None, Y: Sequences = None) -> None:
    """Samples as the layer inside sees them."""
    targets = None if Y is None else np.concatenate(Y) if len(Y) and all(map(is_array, Y)) else flat(Y)
    model.layers[0].initialize(None if X is None else flat(X), targets)


__all__ = [
    "with_array",
    "with_array2d",
    "with_flatten",
    "with_list",
    "with_masked",
    "with_packed",
    "with_padded",
    "with_ragged",
]
