"""Rewards of steps, made of outcomes of sequences and of a divergence."""

from __future__ import annotations

from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from ..arrays import Array, Library, adopt, is_array, library_of
from ..arrays.dtypes import differentiable
from ..errors import KIND, SHAPE, quote
from ..formats import Encoding
from ..formats.annotations import Shaped
from ..formats.leaves import without_data
from ..gradients.operation import Call, Pullback, linear, operand, operation, to_be_summed
from ..launch.kernel import kernel
from ..operations.annotations import Batch
from ..operations.calculation import in_one_array, layout_for, name_of, rows_like
from ..operations.companions import (
    NO_FLOATS,
    copy_constant,
    data_beside,
    floats_for,
    in_kind,
    marks_beside,
    marks_where,
    rows_beside,
    settled_like,
)
from ..operations.options import number

reward_rows, reward_back = kernel("reward_rows"), kernel("reward_back")


class Rewards(NamedTuple):
    """Rewards of items, made of outcomes of sequences and, where there is one, of a divergence of items."""

    shape: Encoding  # laid out as the result, without data
    at: Encoding  # the same in one array
    kind: str
    scale: Array
    marks: Array

    def forward(self, library: Library, outcome: Array, kl: Array) -> Array:
        """Data of the rewards, in the dtype of the kernel."""
        structure = self.at._structure
        out = rows_like(library, self.at, (), library.dtype(self.kind), outcome)
        given = (library.astype(outcome, self.kind), kl, self.scale, self.marks)
        reward_rows.start(library, given, (out,), (self.at._layout(),), 1, structure)
        return out

    def backward(self, library: Library, dy: Array, asked: bool) -> tuple[Array, Array]:
        """The gradients for outcomes, and for the divergence if that is asked for; in the dtype of the kernel."""
        structure, dtype = self.at._structure, library.dtype(self.kind)
        doutcome = library.empty((structure.n,), dtype, dy)
        dkl = rows_like(library, self.at, (), dtype, dy) if asked else library.empty((0,), dtype, dy)
        given = (dy, self.scale, self.marks)
        reward_back.start(library, given, (doutcome, dkl), (self.at._layout(),), 1, structure)
        return doutcome, dkl


@operation
def token_rewards(
    outcome: Shaped, where: Batch | Shaped, *, kl: Batch | None = None, beta: SupportsFloat = 0.0
) -> Call[Any]:
    """Give every item a reward: the outcome of its sequence to the last step, ``-beta * kl`` to every step.

    Parameters
    ----------
    outcome : array ``(n,)``
        What the sequences have earned.
    where : a batch of bools, or beside `kl` an array
        Which items are steps, one bool per item.
    kl : a batch, optional
        How far the policy is from another one, a number per item; it is not looked at where an item is no step.
    beta : float
        How much that costs.

    Returns
    -------
    encoding
        A reward per item, in the encoding of `kl`, or else that of `where`; 0 where an item is no step.  The outcome of
        a sequence without steps is in no reward.

    Raises
    ------
    StructureError
        If lengths or shapes do not fit.
    TypeError
        If `where` does not hold bools.

    See Also
    --------
    returns, gae : What is made of them; both take outcomes too.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> where = sf.Ragged(np.array([False, True, True, False, True]), [4, 1])
    >>> kl = sf.Ragged(np.array([9.0, 0.5, 1.0, 9.0, 0.0]), [4, 1])
    >>> sf.rl.token_rewards(np.array([1.0, -1.0]), where, kl=kl, beta=0.1).data
    array([ 0.  , -0.05,  0.9 ,  0.  , -1.  ])
    """
    if kl is None and is_array(where):
        raise KIND("where says how long the sequences are, so it must be a batch; sf.Ragged(where, lengths) is one")
    if not is_array(outcome):
        raise KIND(f"outcome has a number per sequence, so it must be an array (n,), not {quote(outcome)}")
    _, given_outcome = adopt(outcome, "outcome")
    found = marks_where(where, given_outcome) if kl is None else to_be_summed(operand(kl))
    own: Encoding = found.own
    rows = rows_beside(given_outcome, own, "outcome")
    if own.item_shape != () and kl is not None:
        raise SHAPE(f"kl must have a number per item, but has items of shape {own.item_shape}")
    names = [library_of(rows).dtype_name(rows.dtype), *([] if kl is None else [name_of(own)])]
    kind, name = floats_for("a reward", *names)
    shape: Encoding = without_data(own)
    at = layout_for(shape, (), own._dtype)
    scale = np.array([-number(beta, "beta")])
    parts = Rewards(shape, at, kind, scale, marks_beside(where, own, at, "where"))

    def rule(given: tuple[Any, ...], back: bool) -> tuple[Encoding, Pullback | None]:
        library = library_of(given[0])
        beside = NO_FLOATS.astype(kind) if kl is None else data_beside(given[1], at, kind)
        y = shape._with_data(settled_like(library, parts.forward(library, given[0], beside), name))
        if not back:
            return y, None
        for one in names:
            differentiable(one, "a reward")
        fixed = parts._replace(marks=copy_constant(parts.marks))

        def pullback(dy: Encoding) -> tuple[Any, ...]:
            slopes = library_of(dy._sample()).astype(in_one_array(dy).data, kind)
            doutcome, dkl = fixed.backward(library_of(slopes), slopes, kl is not None)
            made = (library.astype(doutcome, names[0]),)
            return made if kl is None else (*made, shape._with_data(library.astype(dkl, names[1])))

        def forward(ds: tuple[Any, ...]) -> Encoding:
            return rule(ds, False)[0]

        return y, lambda dy: linear(pullback, forward, dy)

    def gradient(ds: tuple[Any, ...]) -> Any:
        return ds[0] if kl is None else (ds[0], in_kind(found.gradient)(ds[1]))

    return Call((rows,) if kl is None else (rows, own), rule, found.result, gradient)
