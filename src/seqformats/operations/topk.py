"""Means of the largest items."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import Array, frozen, library_of
from ..arrays.dtypes import differentiable, in_floats
from ..errors import StructureError
from ..formats.leaves import without_data
from ..formats.structure import integers
from ..gradients.operation import Call, linear, operation
from ..launch.kernel import kernel
from .over import in_one_array, laid_out_as, name_of
from .reduce import items_at, operand_of_reduction, over_levels, rows_or_data

topk_rows, topk_back = kernel("topk_rows"), kernel("topk_back")


@operation
def topk_mean(x: Any, topks: Any) -> Any:
    """The means of the k largest items of every (innermost) sequence, column by column, for several k.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    topks : positive integers

    Returns an array ``(n, len(topks), *item)``: the sum of the k largest divided by k, also where the sequence is
    shorter (Paddle's sequence_topk_avg_pooling); of a `LoD` with more levels a `LoD` without its innermost.  Integers
    give float64.  NaN is the largest; of equal items the first gets the gradient.

    Errors: StructureError for a k below 1, TypeError for dtypes without an order.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.topk_mean(sf.Ragged(np.array([3.0, 5.0, 4.0, 1.0]), [3, 1]), [1, 2])
    array([[5. , 4.5],
           [1. , 0.5]])
    """
    own, result_of, gradient = operand_of_reduction(x)
    name = name_of(own)
    floats, result = in_floats(name, "a mean of the largest")
    ks = frozen(integers(topks if not isinstance(topks, (int, np.integer)) else [topks], "topks"))
    if ks.size and int(ks.min()) < 1:
        raise StructureError(f"topks must be at least 1, not {int(ks.min())}")
    most = int(ks.max()) if ks.size else 0

    def rule(z: Any, back: bool) -> tuple[Any, Any]:
        r = in_one_array(z)
        library, at = library_of(r.data), r._layout()
        n, item = r._structure.n, r.item_shape
        width = math.prod(item) if ks.size else 0
        data = library.astype(r.data, floats)
        # no sequence has more than its longest
        kept = min(most, max(r._structure.longest, 1))
        out = library.empty((n, ks.size, *item), data.dtype, data)
        tops = library.empty((n, kept, *item), data.dtype, data)
        places = library.empty((n, kept, *item), library.dtype("int64"), data)
        results = (out, tops, places)
        if width and n:
            topk_rows.start(library, (data,), results, (at, ks, kept, int(back)), width, r._structure)
        y = over_levels(library.astype(out, result), z)
        if not back:
            return y, None
        differentiable(name, "a mean of the largest")
        shape = without_data(z)

        def spread_back(rows: Array) -> Any:
            slopes = library.astype(rows, floats)
            like, sealed = laid_out_as(shape)
            dx = library.zeros((*like._shape[: like._lead], *item), data.dtype, data)
            if width and n:
                topk_back.start(library, (slopes, places), (dx,), (at, ks, kept), width, r._structure)
            return sealed(library.astype(dx, name))

        def gathered(dz: Any) -> Array:
            chosen = items_at(dz, places.reshape(n * kept, *item), np.repeat(np.arange(n), kept))
            chosen = chosen.reshape(n, kept, *item)
            parts = [chosen[:, : min(k, kept)].sum(1) / k for k in ks.tolist()]
            return library.stack(parts, chosen).swapaxes(0, 1)

        return y, lambda dy: linear(spread_back, gathered, rows_or_data(dy))

    return Call(own, rule, result_of, gradient)
