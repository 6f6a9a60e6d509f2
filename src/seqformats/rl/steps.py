"""Rewards of steps, and what they add up to: returns and advantages."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, SupportsFloat, TypeVar

import numpy as np

from ..arrays import Array, Library, adopt, is_array, library_of
from ..arrays.dtypes import differentiable
from ..errors import KIND
from ..formats import Encoding
from ..formats.annotations import Given, Operands, Shaped
from ..formats.leaves import without_data
from ..gradients.operation import Call, Operand, Pullback, linear, operand, operation, to_be_summed
from ..launch.kernel import kernel
from ..operations.annotations import B, Batch
from ..operations.calculation import in_one_array, layout_for, name_of, rows_like, two_like
from ..operations.companions import (
    NO_FLOATS,
    Kinds,
    batch_beside,
    copy_constant,
    data_beside,
    floats_for,
    in_kind,
    laid_back,
    marks_beside,
    marks_where,
    numbers_of,
    of_numbers,
    rows_beside,
    settled_like,
)
from .rewards import Rewards

advantage_rows, advantage_back = kernel("advantage_rows"), kernel("advantage_back")

A = TypeVar("A")


class Advantages(NamedTuple, Generic[A]):
    """Advantages of steps, and their returns, the advantages plus the values; see `gae`.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.rl.gae([[0.0, 1.0]], [[0.5, 0.5]]).advantages
    [[0.5, 0.5]]
    """

    advantages: A
    returns: A


class Episodes(NamedTuple):
    """Steps in episodes, and how they are discounted: all that is the same forwards and backwards."""

    at: Encoding  # without data, in one array
    kind: str
    gamma: Array
    lam: Array
    marks: Array
    ends: Array
    by_row: bool = False  # has what follows a value per item?

    def none(self) -> Array:
        """Numbers that are not there."""
        return NO_FLOATS.astype(self.kind)

    def forward(self, library: Library, rewards: Array, values: Array | None, after: Array | None) -> list[Array]:
        """Data of the advantages, and of the returns where there are values, in the dtype of the kernel."""
        structure, dtype = self.at._structure, library.dtype(self.kind)
        if values is not None:
            advantages, sums = made = two_like(library, self.at, self.kind, rewards)
        else:
            advantages, sums = rows_like(library, self.at, (), dtype, rewards), library.empty((0,), dtype, rewards)
            made = [advantages]
        others = [self.none() if x is None else x for x in (values, after)]
        given = (rewards, others[0], self.gamma, self.lam, self.marks, self.ends, others[1])
        args = (self.at._layout(), int(self.by_row))
        advantage_rows.start(library, given, (advantages, sums), args, 1, structure)
        return made

    def backward(self, library: Library, slopes: list[Array], after: Array | None) -> list[Array]:
        """The gradients for rewards, for values where there were some, and for `after`, of which the shape counts."""
        structure, dtype = self.at._structure, library.dtype(self.kind)
        dvalues = dafter = library.empty((0,), dtype, slopes[0])
        if len(slopes) > 1:
            drewards, dvalues = two_like(library, self.at, self.kind, slopes[0])
        else:
            drewards = rows_like(library, self.at, (), dtype, slopes[0])
        if after is not None:
            dafter = library.zeros(tuple(after.shape), dtype, slopes[0])
        second = slopes[1] if len(slopes) > 1 else self.none()
        given = (slopes[0], second, self.gamma, self.lam, self.marks, self.ends)
        args = (self.at._layout(), int(self.by_row))
        advantage_back.start(library, given, (drewards, dvalues, dafter), args, 1, structure)
        return [drewards, *([dvalues] if len(slopes) > 1 else []), *([] if after is None else [dafter])]


class _Source(NamedTuple):
    """Rewards as they were given: a batch, or outcomes of sequences, which go to the last step of each."""

    own: Any
    spread: Rewards | None = None
    gradient: Pullback | None = None

    def data(self, library: Library, z: Operands, at: Encoding, kind: str) -> Array:
        """Laid out as kernels take them."""
        if self.spread is not None:
            return self.spread.forward(library, z, NO_FLOATS.astype(kind))
        return data_beside(z, at, kind)

    def collect(self, library: Library, dx: Array, at: Encoding, like: Operands, name: str) -> Any:
        """The gradient for what was given."""
        if self.spread is not None:
            return library.astype(self.spread.backward(library, dx, False)[0], name)
        return laid_back(at._with_data(library.astype(dx, name)), like)


def _source(given: object, x: Encoding, at: Encoding, marks: Array, kind: str, found: Operand | None) -> _Source:
    """The rewards for the items of `x`; `found` where they are that batch."""
    if is_array(given):
        outcome = rows_beside(given, x, "rewards")
        return _Source(outcome, Rewards(at, at, kind, np.zeros(1, kind), marks))
    if found is None:
        found = batch_beside(given, x, "rewards", "values")
    return _Source(found.own, None, found.gradient)


def _name(own: Operands) -> str:
    """The name of the dtype of a batch or an array."""
    return name_of(own) if isinstance(own, Encoding) else library_of(own).dtype_name(own.dtype)


def _bootstrap(given: Given, x: Encoding) -> Operand | None:
    """The value of what would have followed: one per item, or one per sequence."""
    if given is None:
        return None
    if is_array(given):
        found = Operand(rows_beside(given, x, "bootstrap"))
    elif isinstance(given, (list, tuple)) and all(isinstance(v, (int, float)) for v in given) and given:
        found = Operand(rows_beside(np.asarray(given, np.float64), x, "bootstrap"))
    else:
        found = batch_beside(given, x, "bootstrap", "the batch")
    floats_for("bootstrap", _name(found.own))
    return found


class _Given(NamedTuple):
    """Rewards, perhaps values and what would have followed, of which advantages are made."""

    source: _Source
    values: Operand | None
    after: Operand | None
    shape: Encoding  # of the result, without data
    steps: Episodes
    kinds: Kinds

    def operands(self) -> tuple[Any, ...]:
        """Return the operands that may have a gradient."""
        others = [x.own for x in (self.values, self.after) if x is not None]
        return (self.source.own, *others)

    def arrays(self, operands: tuple[Any, ...]) -> tuple[Library, Array, Array | None, Array | None]:
        """Return the library, and the arrays that the kernel takes of these operands."""
        first = operands[0]
        library = library_of(first._sample() if isinstance(first, Encoding) else first)
        at, kind = self.steps.at, self.kinds.kernel
        rewards = self.source.data(library, first, at, kind)
        values = None if self.values is None else data_beside(operands[1], at, kind)
        after = None
        if self.after is not None:
            own = operands[-1]
            after = data_beside(own, at, kind) if isinstance(own, Encoding) else library.astype(own, kind)
        return library, rewards, values, after

    def call(self, result: Operands) -> Call[Any]:
        """The call, whose result is a batch, or a tuple of two where there are values."""
        names = [_name(x) for x in self.operands()]
        steps = self.steps

        def forward(operands: tuple[Any, ...]) -> Any:
            library, rewards, values, after = self.arrays(operands)
            made = [
                self.shape._with_data(settled_like(library, x, self.kinds.result))
                for x in steps.forward(library, rewards, values, after)
            ]
            return made[0] if self.values is None else tuple(made)

        def rule(operands: tuple[Any, ...], back: bool) -> tuple[Any, Pullback | None]:
            y = forward(operands)
            if not back:
                return y, None
            for name in names:
                differentiable(name, "an advantage" if self.values else "a return")
            gamma, lam, marks, ends = map(copy_constant, (steps.gamma, steps.lam, steps.marks, steps.ends))
            fixed = steps._replace(gamma=gamma, lam=lam, marks=marks, ends=ends)
            likes = [without_data(x) for x in operands]
            own = operands[-1]
            after = None
            if self.after is not None:
                after = steps.at if isinstance(own, Encoding) else own
            return y, lambda dy: linear(lambda d: self._pull(d, fixed, likes, after, names), forward, dy)

        def gradient(ds: tuple[Any, ...]) -> Any:
            ways = [self.source.gradient, *[x.gradient for x in (self.values, self.after) if x is not None]]
            found = tuple([in_kind(way)(d) for way, d in zip(ways, ds, strict=True)])
            return found if len(found) > 1 else found[0]

        return Call(self.operands(), rule, result, gradient)

    def _pull(
        self, dy: Operands, steps: Episodes, likes: list[Any], after: Operands, names: list[str]
    ) -> tuple[Any, ...]:
        """The gradients for the operands."""
        slopes = [in_one_array(d).data for d in (dy if self.values is not None else (dy,))]
        library, at = library_of(slopes[0]), steps.at
        room = after
        if isinstance(after, Encoding):
            room = rows_like(library, at, (), library.dtype(self.kinds.kernel), slopes[0])
        found = steps.backward(library, [library.astype(d, self.kinds.kernel) for d in slopes], room)
        made = [self.source.collect(library, found[0], at, likes[0], names[0])]
        for dx, like, name in zip(found[1:], likes[1:], names[1:], strict=True):
            cast = library.astype(dx, name)
            made.append(laid_back(at._with_data(cast), like) if isinstance(like, Encoding) else cast)
        return tuple(made)


@operation
def returns(
    rewards: Batch | Shaped,
    *,
    gamma: SupportsFloat | Shaped = 1.0,
    where: Batch | Shaped | None = None,
    done: Batch | Shaped | None = None,
    bootstrap: Batch | Shaped | None = None,
) -> Call[Any]:
    """Add up the rewards from each step on, discounted: ``return = reward + gamma * (return of the next step)``.

    Parameters
    ----------
    rewards : a batch, or array ``(n,)``
        A reward per item; or an outcome per sequence, which goes to its last step and needs `where` as a batch.
    gamma : number or array ``(n,)``
        The discount, of all sequences or of each.
    where : a batch or an array of bools, optional
        Which items are steps, one bool per item as for `filter`.  The others have a return of 0 and are not counted by
        `gamma`.  Their rewards belong to the step before them in the same episode, with none before it to nobody.
    done : a batch or an array of bools, optional
        Items with which an episode ends, steps or not; nothing flows back over them.
    bootstrap : array ``(n,)`` or a batch, optional
        The value of what would have followed: at the end of each sequence, or an item, read where `done` is true and
        at the last item of each sequence.  Without it there is nothing.

    Returns
    -------
    same kind as `rewards`, or as `where`
        Floats keep their dtype, integers and bools give float64.

    Raises
    ------
    StructureError
        If lengths or shapes do not fit.
    TypeError
        If `where` or `done` do not hold bools.

    See Also
    --------
    gae : Advantages, by values of a critic.
    recurrence : Any other sum with a decay.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> rewards = sf.Ragged(np.array([0.0, 0.0, 1.0, 5.0]), [3, 1])
    >>> sf.rl.returns(rewards, gamma=0.5).data
    array([0.25, 0.5 , 1.  , 5.  ])
    >>> sf.rl.returns(rewards, gamma=0.5, where=np.array([True, False, True, True])).data
    array([0.5, 0. , 1. , 5. ])
    """
    if is_array(rewards):
        if where is None or is_array(where):
            raise KIND(
                "rewards has an outcome per sequence, but no batch says how long these are; give where= as a batch"
            )
        _, outcome = adopt(rewards, "rewards")
        found, name = marks_where(where, outcome), library_of(outcome).dtype_name(outcome.dtype)
    else:
        found = to_be_summed(operand(rewards))
        name = name_of(of_numbers(found.own, "rewards"))
    own: Encoding = found.own
    kinds = floats_for("a return", name)
    shape: Encoding = without_data(own)
    at = layout_for(shape, (), own._dtype)
    after = _bootstrap(bootstrap, own)
    marks = marks_beside(where, own, at, "where")
    steps = Episodes(
        at,
        kinds.kernel,
        numbers_of(gamma, own, "gamma"),
        np.ones(1),
        marks,
        marks_beside(done, own, at, "done"),
        after is not None and isinstance(after.own, Encoding),
    )
    source = _source(rewards, own, at, marks, kinds.kernel, found)
    return _Given(source, None, after, shape, steps, kinds).call(found.result)


@operation
def gae(
    rewards: Batch | Shaped,
    values: B,
    *,
    gamma: SupportsFloat | Shaped = 1.0,
    lam: SupportsFloat | Shaped = 1.0,
    where: Batch | Shaped | None = None,
    done: Batch | Shaped | None = None,
    bootstrap: Batch | Shaped | None = None,
) -> Call[Advantages[B]]:
    """Estimate the advantages of steps by the values of a critic, and their returns (generalized advantage estimation).

    Parameters
    ----------
    rewards : a batch, or array ``(n,)``
        A reward per item; or an outcome per sequence, which goes to its last step.
    values : a batch
        What the critic expects from each item on; not looked at where an item is no step, so it may be NaN there.
    gamma, lam : number or array ``(n,)``
        Discount and decay, of all sequences or of each.
    where : a batch or an array of bools, optional
        Which items are steps, one bool per item as for `filter`.  The others have an advantage and a return of 0, and
        are counted neither by `gamma` nor by `lam`.  Their rewards belong to the step before them in the same episode,
        with none before it to nobody.
    done : a batch or an array of bools, optional
        Items with which an episode ends, steps or not; nothing flows back over them.
    bootstrap : array ``(n,)`` or a batch, optional
        The value of what would have followed: at the end of each sequence, or an item, read where `done` is true and
        at the last item of each sequence.  Where an episode was cut off, it is what the critic expects from there on;
        where it has really ended, 0, which is what it is without this.

    Returns
    -------
    Advantages
        A named tuple of `advantages` and `returns`, both what `values` is, in the wider of the dtypes of both.

    Raises
    ------
    StructureError
        If lengths or shapes do not fit.
    TypeError
        If `where` or `done` do not hold bools.

    See Also
    --------
    returns : Without a critic.
    group_advantages : By other samples instead of a critic.
    whiten : What often follows.

    Notes
    -----
    ``delta = reward + gamma * (value of the next step) - value`` and ``advantage = delta + gamma * lam * (advantage of
    the next step)``: Schulman, Moritz, Levine, Jordan and Abbeel, "High-Dimensional Continuous Control Using
    Generalized Advantage Estimation" (2016).  A `lam` for each sequence, ``1 - 1 / (alpha * steps)``, is that of VAPO
    (Yue et al., 2025), which takes another one for the returns: call it twice.

    Sums are float64, in the order of the plain loop.  The pullback gives gradients for rewards, values, and `bootstrap`
    if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> rewards = sf.Ragged(np.array([0.0, 0.0, 1.0, 5.0]), [3, 1])
    >>> values = sf.Ragged(np.array([0.5, np.nan, 0.5, 4.0]), [3, 1])
    >>> found = sf.rl.gae(rewards, values, lam=0.5, where=np.array([True, False, True, True]))
    >>> found.advantages.data
    array([0.25, 0.  , 0.5 , 1.  ])
    >>> found.returns.data
    array([0.75, 0.  , 1.  , 5.  ])
    """
    worth = to_be_summed(operand(values))
    own = of_numbers(worth.own, "values")
    shape: Encoding = without_data(own)
    at = layout_for(shape, (), own._dtype)
    marks = marks_beside(where, own, at, "where")
    if is_array(rewards):
        name = library_of(rewards).dtype_name(rewards.dtype)
    else:
        given = batch_beside(rewards, own, "rewards", "values")
        name = name_of(given.own)
    kinds = floats_for("an advantage", name, name_of(own))
    after = _bootstrap(bootstrap, own)
    steps = Episodes(
        at,
        kinds.kernel,
        numbers_of(gamma, own, "gamma"),
        numbers_of(lam, own, "lam"),
        marks,
        marks_beside(done, own, at, "done"),
        after is not None and isinstance(after.own, Encoding),
    )
    source = _source(rewards, own, at, marks, kinds.kernel, None if is_array(rewards) else given)
    kind = in_kind(worth.result)
    return _Given(source, worth, after, shape, steps, kinds).call(lambda y: Advantages(kind(y[0]), kind(y[1])))
