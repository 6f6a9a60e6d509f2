"""Layers of Thinc on these kernels: between encodings, one row per sequence, windows, softmax and attention."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from thinc.api import Model
from thinc.util import get_width

from ..arrays import is_array
from ..converters.layouts import check_at_least
from ..errors import EMPTY, RANGE, SLOPE, quote
from ..formats import List, Padded, Ragged
from ..operations.extremes import FIRST, LAST, MAX
from ..operations.reduction import Reduction
from ..operations.softmax import SOFTMAX
from ..operations.sums import MEAN as REDUCE_MEAN
from ..operations.sums import SUM as REDUCE_SUM
from ..operations.windows import WINDOW, windows_added
from .inputs import fitting, outline, register, take_input
from .ops import CLIP, batch_of_all, softmax_slopes
from .transforms import (
    MATRIX_VIEW,
    Call,
    Layer,
    sample,
    with_array,
    with_array2d,
    with_flatten,
    with_list,
    with_masked,
    with_packed,
    with_padded,
    with_ragged,
)
from .types import Sequences, over_rows, to_padded, to_ragged

# --- from one encoding to another ------------------------------------------------------------------------------------


def move(kind: type, show: Callable[[Any], Any], model: Layer, X: Sequences, is_train: bool) -> Call:
    """Move sequences to another encoding; gradients go the way back."""
    taken = take_input(X)
    y = taken.as_kind(kind)
    given = outline(y)

    def backprop(dY: Sequences) -> Any:
        return taken.back(over_rows(dY, given._structure) if is_array(dY) else fitting(take_input(dY), given))

    return show(y), backprop


def rows(x: Ragged) -> Any:
    """All rows."""
    return x.data


def items(x: List) -> list[Any]:
    """The arrays."""
    return list(x.items)


@register("list2array")
def list2array() -> Layer:
    """The rows of all sequences of any batch in one array; the gradient goes back into its kind."""
    return Model("list2array", partial(move, Ragged, rows))


@register("list2ragged")
def list2ragged() -> Layer:
    """A list of arrays, or any batch, as Thinc's `Ragged`."""
    return Model("list2ragged", partial(move, Ragged, to_ragged))


@register("list2padded")
def list2padded() -> Layer:
    """A list of arrays, or any batch, as Thinc's `Padded`."""
    return Model("list2padded", partial(move, Padded, to_padded))


@register("ragged2list")
def ragged2list() -> Layer:
    """Thinc's `Ragged`, or any batch, as a list of arrays."""
    return Model("ragged2list", partial(move, List, items))


@register("padded2list")
def padded2list() -> Layer:
    """Thinc's `Padded`, or any batch, as a list of arrays."""
    return Model("padded2list", partial(move, List, items))


# --- one row per sequence ---------------------------------------------------------------------------------------------


def reduce(record: Reduction, model: Layer, X: Sequences, is_train: bool) -> Call:
    """One row per sequence; ValueError for a gradient of another shape or dtype, as in Thinc."""
    taken = take_input(X)
    x = taken.as_kind(Ragged) if isinstance(taken.own, tuple) else taken.own
    if record in NEEDS_ITEMS and not x._structure.lengths.all():
        raise EMPTY("all sequence lengths must be > 0; reduce_sum and reduce_mean give zeros for 0")
    Y, back = record.with_pullback(x)
    shape, dtype = Y.shape, Y.dtype

    def backprop(dY: Sequences) -> Any:
        if dY.shape != shape or dY.dtype != dtype:
            raise SLOPE(f"the result was {dtype} of shape {shape}, its gradient is {dY.dtype} of {dY.shape}")
        return taken.back(back(np.ascontiguousarray(dY)))

    return Y, backprop


NEEDS_ITEMS = (MAX, FIRST, LAST)


@register("reduce_sum")
def reduce_sum() -> Layer:
    """The sum of every sequence of any batch, zeros for an empty one."""
    return Model("reduce_sum", partial(reduce, REDUCE_SUM))


@register("reduce_mean")
def reduce_mean() -> Layer:
    """The mean of every sequence of any batch, zeros for an empty one.

    Returns
    -------
    Model
        It gives an array ``(n, *item)``; its backprop takes one, and gives a batch of the kind that came in.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.thinc.reduce_mean().predict([np.array([[1.0], [3.0]]), np.array([[5.0]])])
    array([[2.],
           [5.]])
    """
    return Model("reduce_mean", partial(reduce, REDUCE_MEAN))


@register("reduce_max")
def reduce_max() -> Layer:
    """The largest item of every sequence, column by column; ValueError for an empty one."""
    return Model("reduce_max", partial(reduce, MAX))


@register("reduce_first")
def reduce_first() -> Layer:
    """The first item of every sequence; ValueError for an empty one."""
    return Model("reduce_first", partial(reduce, FIRST))


@register("reduce_last")
def reduce_last() -> Layer:
    """The last item of every sequence; ValueError for an empty one."""
    return Model("reduce_last", partial(reduce, LAST))


# --- one item per item ------------------------------------------------------------------------------------------------


@register("expand_window")
def expand_window(window_size: int = 1) -> Layer:
    """Every item with its neighbours in the sequence side by side, zeros past its ends.

    Parameters
    ----------
    window_size : int
        How many on each side.

    Returns
    -------
    Model
        For any batch; an array counts as one sequence.
    """
    return Model("expand_window", window, attrs={"window_size": check_at_least(window_size, "window_size", 0)})


def window(model: Layer, X: Sequences, is_train: bool) -> Call:
    """Windows, and what is added up of them."""
    near = model.attrs["window_size"]
    if is_array(X):
        x = batch_of_all(X, [len(X)])
        item = x.item_shape
        return WINDOW.forward(
            x, near, near
        ).data, lambda dY: windows_added(batch_of_all(dY, x.lengths), near, near, item).data
    taken = take_input(X)
    x = taken.as_kind(Ragged) if isinstance(taken.own, (tuple, List)) else taken.own
    item, y = x.item_shape, WINDOW.forward(x, near, near)
    given = outline(y)

    def backprop(dY: Sequences) -> Any:
        return taken.back(windows_added(fitting(take_input(dY), given), near, near, item))

    return taken.back(y), backprop


@register("softmax_sequences")
def softmax_sequences(clip: float | None = None) -> Layer:
    """Softmax along every sequence, column by column.

    Parameters
    ----------
    clip : float, optional
        How far from zero what comes in may be; the gradient goes straight through, as in Thinc, where it is 20.

    Returns
    -------
    Model
        For any batch.
    """
    return Model("softmax_sequences", soften, attrs={"clip": checked_clip(clip)})


def soften(model: Layer, X: Sequences, is_train: bool) -> Call:
    """Softmax and its gradient."""
    taken = take_input(X)
    y = softmax_of(taken.as_kind(Ragged), model.attrs["clip"])

    def backprop(dY: Sequences) -> Any:
        slopes = fitting(take_input(dY), y)
        return taken.back(y._with_data(softmax_slopes(y, slopes.data)))

    return taken.back(y), backprop


def softmax_of(x: Ragged, clip: float | None) -> Any:
    """Softmax of logits, which may be clipped."""
    if clip is not None:
        x = x._with_data(np.clip(x.data, -clip, clip))
    return SOFTMAX.forward(x)


def checked_clip(clip: float | None) -> float | None:
    """Check how far from zero logits may be; ConversionError if it is no positive number."""
    if clip is None:
        return None
    if isinstance(clip, (bool, str)) or not clip > 0:
        raise RANGE(f"clip must be a positive number or None, not {quote(clip)}")
    return float(clip)


# --- attention -------------------------------------------------------------------------------------------------------


@register("ParametricAttention")
def ParametricAttention(
    nO: int | None = None,
    *,
    key_transform: Layer | None = None,
    clip: float | None = CLIP,
) -> Layer:
    """Every item times its weight in its sequence: the softmax of its product with a learned vector.

    Parameters
    ----------
    nO : int, optional
        The width; found out from a sample without it.
    key_transform : Model, optional
        From rows to the rows that the vector is multiplied with.
    clip : float, optional
        Logits are cut to so far from zero, and the gradient goes straight through, as in Thinc; None for no cut, and
        exact gradients.

    Returns
    -------
    Model
        For any batch of vectors, with the parameter ``Q (nO,)``.

    Notes
    -----
    Thinc's ParametricAttention.v1, with `key_transform` its second version.  A model that was trained there gives the
    same here with the same `clip` alone.
    """
    transforms = {} if key_transform is None else {"key_transform": key_transform}
    return Model(
        "para-attn",
        attend,
        init=init_attention,
        params={"Q": None},
        dims={"nO": nO},
        refs=transforms,
        layers=list(transforms.values()),
        attrs={"clip": checked_clip(clip)},
    )


def attend(model: Layer, X: Sequences, is_train: bool) -> Call:
    """Items times their weights, and both gradients."""
    Q, transform = model.get_param("Q"), model.layers[0] if model.layers else None
    taken = take_input(X)
    x = taken.as_kind(Ragged)
    values = x.data
    keys, get_dX = (values, None) if transform is None else transform(values, is_train)
    logits = model.ops.gemm(keys, Q.reshape(-1, 1))
    weights = softmax_of(x._with_data(logits), model.attrs["clip"])

    def backprop(dY: Sequences) -> Any:
        dY = fitting(take_input(dY), given).data
        d_weights = np.einsum("ij,ij->i", values, dY).reshape(-1, 1)
        d_logits = softmax_slopes(weights, d_weights)
        model.inc_grad("Q", model.ops.gemm(keys, d_logits, trans1=True).ravel())
        d_keys = d_logits * Q
        dX = dY * weights.data
        dX += d_keys if get_dX is None else get_dX(d_keys)
        return taken.back(x._with_data(dX))

    y = x._with_data(values * weights.data)
    given = outline(y)
    return taken.back(y), backprop


def init_attention(model: Layer, X: Sequences = None, Y: Sequences = None) -> None:
    """The width of a sample, and a small random vector."""
    samples = [sample(MATRIX_VIEW, model, x) for x in (X, Y)]
    width = None if X is None else get_width(samples[0])
    transform = model.layers[0] if model.layers else None
    if width:
        model.set_dim("nO", width)
        if transform is not None and transform.has_dim("nO") is not False:
            transform.set_dim("nO", width)
    Q = model.ops.alloc1f(model.get_dim("nO"))
    Q += model.ops.xp.random.uniform(-0.1, 0.1, Q.shape)
    model.set_param("Q", Q)
    if transform is not None:
        transform.initialize(*samples)


__all__ = [
    "ParametricAttention",
    "expand_window",
    "list2array",
    "list2padded",
    "list2ragged",
    "padded2list",
    "ragged2list",
    "reduce_first",
    "reduce_last",
    "reduce_max",
    "reduce_mean",
    "reduce_sum",
    "softmax_sequences",
    "with_array",
    "with_array2d",
    "with_flatten",
    "with_list",
    "with_masked",
    "with_packed",
    "with_padded",
    "with_ragged",
]
