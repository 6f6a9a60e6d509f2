"""Every item with its neighbours: windows, n-grams, convolutions."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from .. import core
from ..arrays import Array, Shape, adopt, freeze, library_of
from ..arrays.dtypes import differentiable, sums_in
from ..converters.convert import convert, restore
from ..converters.layouts import check_at_least
from ..converters.like import convert_like
from ..errors import DEVICES, MIXED, SHAPE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Shaped
from ..formats.call_plans import laid_by_plan
from ..formats.leaves import without_data
from ..formats.rows import pad_blocks
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Operation, Pullback, linear, operand, with_rule
from ..launch.kernel import Work, kernel
from .annotations import B
from .calculation import in_one_array, name_of, rows_like

window_rows, window_back = kernel("window_rows"), kernel("window_back")


def _window(x: Encoding, before: int, after: int, filling: Array | None = None) -> Any:
    """`filling`, the bytes of an item, is for a `Ragged`; zeros without it."""
    z = x if x._in_one_array else convert(x, Ragged)
    library, data, structure, item = z._look(), z.data, z._structure, z._shape[z._lead :]
    count = before + 1 + after
    wide = (count * item[0], *item[1:]) if item else (count,)
    out = rows_like(library, z, wide, z._dtype, data)
    row, rows = math.prod(item) * z._dtype.itemsize, structure.rows
    if row and rows:
        if filling is not None:
            work = Work(rows, rows * count)
            pad_blocks.start(library, (filling,), (out,), (_NOTHING, count, 0), row, None, work)
        args = (z._layout(), before, after, 0 if filling is None else 1)
        window_rows.start(library, (data,), (out,), args, row, structure)
    y: Any = x._with_data(out)
    window_rows.teach(_widening, (z._dtype,), z._dtype)
    return y


_widening = core.Calculate((0,), moves=True, by_item=True, widens=True)
_NOTHING = freeze(np.zeros(1, np.int64))


def windows_added(dy: Encoding, before: int, after: int, item: Shape) -> Any:
    """The gradient of a window: what stands in the windows for an item of shape `item`, added up."""
    z = in_one_array(dy)
    library, width = library_of(z.data), math.prod(item)
    name = library.dtype_name(z.dtype)
    data = library.astype(z.data, sums_in(name))
    out = rows_like(library, z, item, data.dtype, data)
    window_back.start(library, (data,), (out,), (z._layout(), before, after), width, z._structure)
    return dy._with_data(library.astype(out, name))


def _forward(x: Encoding, before: int, after: int, fill: object = 0) -> Any:
    if isinstance(fill, int) and fill == 0:
        return _window(x, before, after)
    filling = library_of(x._sample()).item(fill, x.dtype, x.item_shape)
    return convert_like(_window(convert(x, Ragged), before, after, filling), without_data(x))


def _rule(x: Encoding, before: int, after: int, fill: object = 0) -> tuple[Encoding, Pullback]:
    y, name, item = _forward(x, before, after, fill), name_of(x), x.item_shape
    sums_in(name)
    differentiable(name, "a window")

    def pullback(dy: Encoding) -> Any:
        options: Any = {"before": before, "after": after, "item": item}
        return linear(lambda d: laid_by_plan(windows_added, d, **options), lambda d: _window(d, before, after), dy)

    return y, pullback


WINDOW = Operation(
    _forward,
    _rule,
    check=lambda _, before, after, fill=0: (
        check_at_least(before, "before", 0),
        check_at_least(after, "after", 0),
        fill,
    ),
    path=_widening,
    planned=True,
)
NGRAMS = Operation(
    _forward, _rule, check=lambda _, size, fill: (0, check_at_least(size, "size", 1) - 1, fill), planned=True
)


@by_level(keeps=True)
@WINDOW.register
def window(x: B, before: int, after: int, *, fill: object = 0, level: int = INNERMOST) -> B:
    """Every item with its neighbours in the sequence side by side, `fill` where there are none.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    before, after : int
        How many neighbours on each side.
    fill : a value or an item
        For places outside of the sequence, exact in the dtype.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        With ``k = before + 1 + after`` an item of shape ``(w, ...)`` becomes ``(k * w, ...)``, one of shape () becomes
        ``(k,)``.

    Raises
    ------
    ConversionError
        If a number is negative, and for a `fill` that the dtype cannot hold.

    See Also
    --------
    window_by : Windows by the times of items.
    ngrams : The items after each alone.
    conv : The window times a matrix.

    Notes
    -----
    Thinc's seq2col.  The gradient is for floats.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.window(sf.Ragged(np.array([1, 2, 3]), [2, 1]), 1, 1).data
    array([[0, 1, 2],
           [1, 2, 0],
           [0, 3, 0]])
    >>> sf.window(sf.Ragged(np.array([1, 2, 3]), [2, 1]), 1, 0, fill=-1).data
    array([[-1,  1],
           [ 1,  2],
           [-1,  3]])
    """
    if level is not INNERMOST:
        return at_level(window, level, x, before, after, fill=fill)
    if type(fill) is not int or fill != 0:
        return WINDOW.run(x, before, after, fill)
    return WINDOW.run(x, before, after)


@by_level(keeps=True)
@NGRAMS.register
def ngrams(x: B, size: int, *, fill: object = 0, level: int = INNERMOST) -> B:
    """Every item with the ``size - 1`` items after it, `fill` where the sequence has ended.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    size : int
        How many items side by side, at least 1.
    fill : a value or an item
        For places where the sequence has ended, exact in the dtype.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        Items as in `window`.

    Raises
    ------
    ConversionError
        For a `size` below 1 and for a `fill` that the dtype cannot hold.

    See Also
    --------
    window : Neighbours on both sides.

    Notes
    -----
    Paddle's sequence_enumerate.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.ngrams(sf.Ragged(np.array([1, 2, 3, 4, 5]), [3, 2]), 2, fill=9).data.tolist()
    [[1, 2], [2, 3], [3, 9], [4, 5], [5, 9]]
    """
    if level is not INNERMOST:
        return at_level(ngrams, level, x, size, fill=fill)
    return NGRAMS.run(x, size, fill)


def conv(x: B, weight: Shaped, before: int, after: int, *, level: int = INNERMOST) -> B:
    """A convolution along every sequence: ``window(x, before, after) @ weight``.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        With items ``(width,)`` or (), which counts as width 1.
    weight : array ``((before + 1 + after) * width, out)``
        Dtype and library of `x`.
    before, after : int
        How many neighbours on each side.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        With items ``(out,)`` (Paddle's sequence_conv); its pullback gives the gradients of `x` and of `weight`.

    Raises
    ------
    StructureError
        For a weight that does not fit.
    ConversionError
        If a number is negative.
    DeviceError
        If the arrays belong to different libraries or devices.
    TypeError
        For Numba's device arrays, which have no product.

    See Also
    --------
    window : What is multiplied.

    Notes
    -----
    The matrix product is that of the array library.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.conv(sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 1]), np.ones((3, 1)), 1, 1).data.tolist()
    [[3.0], [3.0], [3.0]]
    """
    if level is not INNERMOST:
        return at_level(conv, level, x, weight, before, after)
    return _prepare_conv(x, weight, before, after).run()


def _prepare_conv(x: B, weight: Shaped, before: int, after: int) -> Call[B]:
    """Make the `Call` of `conv`."""
    own, result, gradient = operand(x)
    before, after = check_at_least(before, "before", 0), check_at_least(after, "after", 0)
    library, w = adopt(cast(Array, weight), "weight")
    item = own.item_shape
    if len(item) > 1:
        raise SHAPE(f"conv is for items of one axis, but they have shape {item}")
    high = (before + 1 + after) * math.prod(item)
    if len(w.shape) != 2 or w.shape[0] != high:
        raise SHAPE(
            f"weight must have shape ({quote(high)}, out), (before + 1 + after) * width rows, but has {tuple(w.shape)}"
        )
    if library is not library_of(own._sample()) or library.device(w) != own.device:
        raise DEVICES(f"weight is an array of {library.name} on {library.device(w)}; x is on {own.device}")
    if w.dtype != own.dtype:
        raise MIXED(f"weight has dtype {w.dtype}, but x has {own.dtype}")
    name, shape = name_of(own), without_data(own)

    def rule(operands: tuple[Encoding, Array], back: bool) -> tuple[Any, Pullback]:
        z, matrix = operands
        if back:
            differentiable(name, "a convolution")
        windows = _window(convert(z, Ragged), before, after)
        y = Ragged._freeze(library.product(windows.data, matrix), windows._structure)
        return convert_like(y, shape), lambda dy: second_order(operands, dy)

    def second_order(operands: tuple[Encoding, Any], dy: Encoding) -> tuple[Encoding, Array]:
        z, matrix = operands
        r, slopes = convert(z, Ragged), convert(dy, Ragged)
        windows = linear(lambda a: _window(a, before, after), lambda a: windows_added(a, before, after, item), r)
        dwindows = Ragged._freeze(library.product(slopes.data, matrix.T.conj()), r._structure)
        dx = linear(lambda a: windows_added(a, before, after, item), lambda a: _window(a, before, after), dwindows)
        return restore(dx, shape), library.product(windows.data.T.conj(), slopes.data)

    return Call(
        (own, w), rule, result, lambda ds: (ds[0] if gradient is None else gradient(ds[0]), ds[1]), second_order
    )


by_level(keeps=True)(with_rule(conv, _prepare_conv))
