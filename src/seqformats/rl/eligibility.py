"""Eligibility traces, which say how much each step so far has to do with this one."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np

from ..arrays import Array, library_of
from ..arrays.dtypes import differentiable
from ..formats import Encoding
from ..formats.annotations import Shaped
from ..formats.leaves import without_data
from ..gradients.operation import Call, Pullback, linear, operand, operation, to_be_summed
from ..operations.annotations import B, Batch
from ..operations.calculation import in_one_array, layout_for, name_of
from ..operations.companions import (
    NO_FLOATS,
    copy_constant,
    floats_for,
    marks_beside,
    numbers_of,
    settled_like,
)
from ..operations.scan import Scan


def _product(one: Array, two: Array) -> Array:
    """Numbers times numbers, of which either may be on the host, and one for all."""
    for a, b in ((one, two), (two, one)):
        if type(a) is np.ndarray:
            return b * (float(a[0]) if a.size == 1 else library_of(b).from_host(a, b))
    return one * two


@operation
def traces(
    x: B,
    *,
    gamma: SupportsFloat | Shaped = 1.0,
    lam: SupportsFloat | Shaped = 1.0,
    where: Batch | Shaped | None = None,
    done: Batch | Shaped | None = None,
) -> Call[B]:
    """Trace the eligibility of steps: ``trace = gamma * lam * (trace of the step before) + x``, column by column.

    Parameters
    ----------
    x : a batch
        Items of any shape, as the gradients of values by parameters.
    gamma, lam : number or array ``(n,)``
        Discount and decay, of all sequences or of each.
    where : a batch or an array of bools, optional
        Which items are steps, one bool per item as for `filter`; the traces of the others are 0.
    done : a batch or an array of bools, optional
        Items with which an episode ends; traces begin anew behind them.

    Returns
    -------
    same kind as `x`
        Floats keep their dtype, integers and bools give float64.

    Raises
    ------
    StructureError
        If lengths or shapes do not fit.
    TypeError
        If `where` or `done` do not hold bools.

    See Also
    --------
    recurrence : What it is made of, and the order of calculation.

    Notes
    -----
    Sutton and Barto, "Reinforcement Learning" (2018), section 12.2.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1.0, 0.0, 0.0, 1.0]), [3, 1])
    >>> sf.rl.traces(x, gamma=0.5).data
    array([1.  , 0.5 , 0.25, 1.  ])
    """
    found = to_be_summed(operand(x))
    own: Encoding = found.own
    kind, name = floats_for("a trace", name_of(own))
    shape: Encoding = without_data(own)
    at = layout_for(shape, own.item_shape, own._dtype)
    decay = _product(numbers_of(gamma, own, "gamma"), numbers_of(lam, own, "lam"))
    scan = Scan(
        shape,
        at,
        kind,
        name,
        marks_beside(where, own, at, "where"),
        marks_beside(done, own, at, "done"),
        (0, 0, int(decay.shape[0] > 1)),
        blank=True,
    )

    def forward(z: Encoding) -> Encoding:
        library = library_of(z._sample())
        out, _ = scan.forward(library, library.astype(in_one_array(z).data, kind), decay, NO_FLOATS)
        return shape._with_data(settled_like(library, out, name))

    def rule(z: Encoding, back: bool) -> tuple[Encoding, Pullback | None]:
        if not back:
            return forward(z), None
        differentiable(name_of(z), "a trace")
        theirs, fixed = name_of(z), scan._replace(marks=copy_constant(scan.marks), ends=copy_constant(scan.ends))

        def transpose(dy: Encoding) -> Encoding:
            library = library_of(dy._sample())
            slopes = library.astype(in_one_array(dy).data, kind)
            dx, _, _ = fixed.backward(library, slopes, NO_FLOATS, slopes, decay, NO_FLOATS, "")
            return shape._with_data(library.astype(dx, theirs))

        return forward(z), lambda dy: linear(transpose, forward, dy)

    return Call(own, rule, found.result, found.gradient)
