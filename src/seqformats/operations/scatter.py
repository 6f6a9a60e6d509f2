"""Updates added to, or put at, chosen places of an array or of a batch."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ..arrays import Array, adopt, is_array, library_of, to_host
from ..arrays.dtypes import HALF, differentiable, sums_in
from ..converters.convert import restore, rows_of
from ..errors import CHOICE, COUNTS, DEVICES, DTYPE, INDEX, MIXED, SHAPE, TOGETHER, UNLIKE, WHOLE, quote
from ..formats import Encoding, Ragged
from ..formats.encoding import abridge
from ..formats.leaves import without_data
from ..gradients.levels import INNERMOST, operation_by_level
from ..gradients.operation import Call, Operand, each_gradient, linear_call, operand, operand_beside, operands_of
from ..launch.kernel import kernel
from .annotations import Batch, X
from .calculation import scratch
from .scatter_items import scatter_call

scatter_rows = kernel("scatter_rows")


@operation_by_level(keeps=True, beside=("updates",), marks=("index",))
def scatter(
    base: X,
    index: Batch,
    updates: Batch,
    *,
    mode: Literal["add", "put"] = "add",
    level: int = INNERMOST,  # noqa: ARG001  see `operation_by_level`
) -> Call[X]:
    """Add the updates of each sequence at chosen places of a row of `base`, or of its sequence there.

    Parameters
    ----------
    base : array ``(n, m, *item)``, an encoding, a list of arrays or nested lists
        An array has a row for each sequence, a batch a sequence.
    index : an encoding (or bare list) of n sequences of integers
        From 0 to m - 1, item shape () or (1,).  Places in a batch are those of `gather`: negative ones count from the
        end.
    updates : an encoding (or bare list) over the same sequences
        Items of shape `item`, dtype and library of `base`.
    mode : "add" or "put"
        "put" replaces what is there, which makes `scatter` the inverse of `gather`; of a place that comes several times
        the last update stays.
    level : int
        The level of a batch whose sequences `index` and `updates` go with, as in `convert`; the whole structure stays.

    Returns
    -------
    same kind as `base`
        New (Paddle's sequence_scatter); its pullback gives the gradients of `base` and of `updates`.

    Raises
    ------
    StructureError
        For sequences or shapes that do not fit.
    DeviceError
        If the arrays belong to different libraries or devices.
    IndexError
        For a place that does not exist.
    TypeError
        For dtypes that cannot be added.
    ConversionError
        For another mode.

    See Also
    --------
    gather : The items at places.
    masked_scatter : Items put where a mask is true.
    reduce_sum : The sum of each sequence.

    Notes
    -----
    To row i of `base`, at the places ``index[i]``, the `updates` of sequence i are added, in their order.  An index on
    a GPU is copied to the host once, to be checked.  Sums into a batch are kept in float64, as those of the gradient of
    `gather` are.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> lengths = [2, 1]
    >>> index, updates = sf.Ragged(np.array([0, 2, 1]), lengths), sf.Ragged(np.array([1.0, 2.0, 3.0]), lengths)
    >>> sf.scatter(np.zeros((2, 3)), index, updates)
    array([[1., 0., 2.],
           [0., 3., 0.]])

    Back to where `gather` has taken items from:

    >>> x = sf.Ragged(np.array([10, 11, 12, 20]), [3, 1])
    >>> places = [[-1, 0], [0]]
    >>> sf.convert(sf.scatter(x, places, [[7, 8], [9]], mode="put"), list)
    [[8, 11, 7], [9]]
    """
    if not (isinstance(mode, str) and mode in ("add", "put")):
        raise CHOICE(f'mode must be "add" or "put", not {quote(mode)}')
    if not is_array(base):
        return scatter_call(operands_of(base, updates), index, mode == "add")
    if mode == "put":
        raise TOGETHER('mode="put" is for a batch; sf.Masked(base, [m] * n) makes one of an array')
    library, array = adopt(base, "base")
    where = operand(index).own
    own, _, gradient = operand_beside(updates, array)
    if len(array.shape) < 2:
        raise SHAPE(f"base must have the axes (n, m, *item), but has shape {tuple(array.shape)}")
    n, room, item = array.shape[0], array.shape[1], tuple(array.shape[2:])
    structure = own._structure
    for what, batch in (("index", where), ("updates", own)):
        if batch._structure.n != n:
            raise COUNTS(f"{what} has {batch._structure.n} sequences, but base has {n} rows")
    if not where._structure.same_lengths(structure):
        raise UNLIKE(
            f"index has sequences of lengths {abridge(where._structure.lengths)}, "
            f"but updates {abridge(structure.lengths)}"
        )
    if own.item_shape != item:
        raise SHAPE(f"updates have item shape {own.item_shape}, but places of base have {item}")
    if library_of(own._sample()) is not library or own.device != library.device(array):
        raise DEVICES(
            f"updates are on {own.device}, {library_of(own._sample()).name}; base is on {library.device(array)}"
        )
    if own.dtype != array.dtype:
        raise MIXED(f"updates have dtype {own.dtype}, but base has {array.dtype}")
    if math.prod(where.item_shape) != 1 or len(where.item_shape) > 1:
        raise SHAPE(f"index must hold one integer per item, but has item shape {where.item_shape}")
    name = library.dtype_name(array.dtype)
    if sums_in(name) and name == "bool":
        raise DTYPE("bools cannot be added up in place; give integers")
    places = to_host(rows_of(where)).reshape(-1).copy()  # read once: another thread may change what is checked
    if places.dtype.kind not in "iu" and places.size:
        raise WHOLE(f"index must hold integers, not {places.dtype}")
    wrong = (places < 0) | (places >= room)
    if wrong.any():
        r = int(wrong.argmax())
        i = int(np.searchsorted(structure.offsets, r, side="right")) - 1
        raise INDEX(f"index has the place {places[r]} for row {i}, but base has {room} places")
    places = places.astype(np.int64, copy=False)
    shape = without_data(own)
    flat = np.repeat(np.arange(n), structure.lengths) * room + places

    def forward(operands: tuple[Array, Encoding]) -> Array:
        start, new = operands
        rows = rows_of(new)
        added_in = "float32" if name in HALF else name
        data, out = library.astype(rows, added_in), library.astype(start, added_in)
        if library.address(out) == library.address(start):  # the caller's own memory
            out = library.copy(out)
        width = math.prod(item)
        if width and structure.rows:
            there = library.from_host(places, data)
            exact = {"float32": "float64", "complex64": "complex128"}.get(added_in, added_in)
            sums = scratch(library, (n * room * width if structure.longest > 16 else 1,), exact, out)
            args = (structure.offsets, room)
            scatter_rows.start(library, (data, there), (out, sums), args, width, structure)
        return library.astype(out, name)

    def gather(dy: Array) -> Any:
        rows = library.take(dy.reshape(n * room, *item), flat, 0)
        return dy, restore(Ragged._freeze(rows, structure), shape)

    of_updates = Operand(own, None, gradient)
    gradients = each_gradient([Operand(array), of_updates])
    return linear_call((array, own), forward, gather, None, gradients, check=lambda: differentiable(name, "a sum"))
