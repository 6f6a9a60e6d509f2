"""Linear recurrences along each sequence, and the moving average that is one of them."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, SupportsFloat, overload

from ..arrays import Array, library_of
from ..arrays.dtypes import differentiable
from ..converters.convert import restore, rows_of
from ..errors import RANGE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Given, Operands, Shaped
from ..formats.leaves import without_data
from ..formats.structure import flag
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Operand, Pullback, linear, operand, to_be_summed, with_rule
from .annotations import B, Batch
from .averages import Averages
from .calculation import in_one_array, layout_for, name_of
from .companions import NO_FLOATS, NO_MARKS, copy_constant, floats_for, in_kind, marks_beside, settled_like
from .options import number
from .scan import Decay, Scan, decay_of, initial_of, start_of


@overload
def recurrence(
    x: B,
    decay: SupportsFloat | Shaped | Batch,
    *,
    initial: SupportsFloat | Shaped | None = ...,
    reverse: bool = ...,
    exclusive: bool = ...,
    where: Batch | Shaped | None = ...,
    final: Literal[False] = ...,
    level: int = ...,
) -> B: ...
@overload
def recurrence(
    x: B,
    decay: SupportsFloat | Shaped | Batch,
    *,
    initial: SupportsFloat | Shaped | None = ...,
    reverse: bool = ...,
    exclusive: bool = ...,
    where: Batch | Shaped | None = ...,
    final: Literal[True],
    level: int = ...,
) -> tuple[B, Array]: ...
def recurrence(
    x: B,
    decay: SupportsFloat | Shaped | Batch,
    *,
    initial: SupportsFloat | Shaped | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    where: Batch | Shaped | None = None,
    final: bool = False,
    level: int = INNERMOST,
) -> Any:
    """Run ``state = decay * state + x`` along every sequence, column by column.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape.
    decay : number, array or batch
        One number, or an array of shape (); one per item, in a batch or an array ``(rows,)``; one for each number of an
        item, in a batch or ``(rows, *item)``; or ``(1, *item)``, one a column.
    initial : number or array ``(n, *item)``, optional
        The state before the first item, 0 by default.
    reverse : bool
        Run from the end of each sequence to its beginning.
    exclusive : bool
        Give the state before each item instead of the state after it.
    where : a batch or an array of bools, optional
        Which items are steps, one bool per item as for `filter`.  At the others the state stands still, and neither
        their `x` nor their `decay` is looked at.
    final : bool
        Give the states after all items too, with which a stream goes on as `initial`.
    level : int
        See `softmax`.  States are those of the sequences of this level.

    Returns
    -------
    same kind as `x`
        Floats keep their dtype (float16 and bfloat16 give float32 under ``torch.autocast``), integers and bools give
        float64.  With `final` a tuple of that and of an array ``(n, *item)``, float64.

    Raises
    ------
    StructureError
        If lengths or shapes do not fit.
    TypeError
        If `where` does not hold bools, for complex numbers, and for gradients of integers.
    DeviceError
        If arrays are of different libraries, or on different devices.

    See Also
    --------
    cumsum : The same with a decay of 1.
    ema : The moving average.
    rl.returns, rl.gae, rl.traces : What reinforcement learning makes of it.

    Notes
    -----
    States are float64 for every dtype, rounded where they are written.  Up to 1,024 items the result is that of the
    plain loop, bit for bit; from there on states are handed from one chunk of 1,024 rows to the next by ``product *
    state + alone`` (Blelloch, "Prefix Sums and Their Applications", 1990).  So a result depends on its sequence alone,
    neither on the batch nor on threads, and a GPU has the same bits as the CPU.

    The pullback gives gradients for x, decay and initial, None for numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1.0, 0.0, 0.0, 8.0, 4.0]), [3, 2])
    >>> sf.recurrence(x, 0.5).data
    array([1.  , 0.5 , 0.25, 8.  , 8.  ])
    >>> sf.recurrence(x, 0.5, reverse=True).data
    array([ 1.,  0.,  0., 10.,  4.])

    A stream in two parts:

    >>> y, state = sf.recurrence(sf.Ragged(np.array([1.0, 8.0]), [1, 1]), 0.5, final=True)
    >>> sf.recurrence(sf.Ragged(np.array([0.0, 4.0]), [1, 1]), 0.5, initial=state).data
    array([0.5, 8. ])
    """
    options = {"initial": initial, "reverse": reverse, "exclusive": exclusive, "where": where, "final": final}
    if level is not INNERMOST:
        return at_level(recurrence, level, x, decay, **options)
    return _recurrence(x, decay, **options).run()


def _recurrence(
    x: Batch, decay: Given, initial: object, reverse: object, exclusive: object, where: object, final: object
) -> Call[Any]:
    """Check the arguments of `recurrence`."""
    found = to_be_summed(operand(x))
    own: Encoding = found.own
    kind, name = floats_for("a recurrence", name_of(own))
    by = decay_of(decay, own)
    start, started = initial_of(initial, own)
    shape: Encoding = without_data(own)
    at = layout_for(shape, own.item_shape, own._dtype)
    scan = Scan(
        shape,
        at,
        kind,
        name,
        marks_beside(where, own, at, "where"),
        NO_MARKS,
        by.strides(math.prod(own.item_shape)),
        flag(reverse, "reverse"),
        flag(exclusive, "exclusive"),
    )
    return _call(found, by, start, started, scan, flag(final, "final"))


by_level(keeps=True, beside=("decay",), marks=("where",))(with_rule(recurrence, _recurrence))


def _call(found: Operand, by: Decay, start: Operands, started: bool, scan: Scan, final: bool) -> Call[Any]:
    """The call for arguments that are checked."""
    operands = [found.own, *([by.own] if by.is_operand else []), *([start] if started else [])]
    decay_name = ""
    if by.is_operand:
        own = by.own
        decay_name = name_of(own) if isinstance(own, Encoding) else library_of(own).dtype_name(own.dtype)

    def rule(given: tuple[Any, ...], back: bool) -> tuple[Any, Pullback | None]:
        z = given[0]
        library, data = library_of(z._sample()), in_one_array(z).data
        items = library.astype(data, scan.kind)
        decay = by.data(library, scan.at, given[1] if by.is_operand else by.own, scan.kind)
        first = start_of(library, given[-1] if started else start, z)
        out, states = scan.forward(library, items, decay, first)
        y = scan.shape._with_data(settled_like(library, out, scan.name))
        result = (y, states) if final else y
        if not back:
            return result, None
        differentiable(name_of(z), "a recurrence")
        if by.is_operand and not final and not started:
            differentiable(decay_name, "a recurrence")
        fixed = scan._replace(marks=copy_constant(scan.marks), shape=without_data(z))
        like = by._replace(own=without_data(given[1])) if by.is_operand else by
        memory = _Memory(fixed, like, library.alias(out), decay, first, started, final)
        return result, memory.pullback

    def gradient(ds: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        dx = in_kind(found.gradient)(ds[0])
        ddecay = in_kind(by.gradient)(ds[1]) if by.is_operand else None
        return dx, ddecay, ds[-1] if started else None

    def result(y: Operands) -> Any:
        return (in_kind(found.result)(y[0]), y[1]) if final else in_kind(found.result)(y)

    def second_order(given: tuple[Any, ...], dy: Operands) -> tuple[Any, ...]:
        return _gradients_in_graph(given, dy if final else (dy, None), by, start, started, scan)

    return Call(tuple(operands), rule, result, gradient, second_order)


def _gradients_in_graph(
    given: tuple[Any, ...], dy: tuple[Any, Any], by: Decay, start: Operands, started: bool, scan: Scan
) -> tuple[Any, ...]:
    """The pullback, made of recurrences the other way and of arithmetic, which have gradients themselves."""
    z = given[0]
    x = rows_of(z)
    library, structure, item = library_of(x), z._structure, z.item_shape
    counts = None
    if scan.marks is not NO_MARKS:
        flat = rows_of(scan.at._with_data(scan.marks))
        counts = flat.reshape(structure.rows, *[1] * len(item))

    def of_steps(rows: Array, other: float) -> Array:
        return rows if counts is None else library.where(counts, rows, other)

    own = given[1] if by.is_operand else by.own
    factors = rows_of(own) if isinstance(own, Encoding) else own
    if by.form == "item":
        factors = factors.reshape(structure.rows, *[1] * len(item))
    steps = of_steps(factors + x * 0 if counts is None else factors + library.where(counts, x, 0.0) * 0, 1.0)
    slopes = library.astype(rows_of(dy[0]), library.dtype_name(x.dtype))
    way: dict[str, Any] = {"reverse": not scan.back, "exclusive": True, "initial": dy[1], "final": True}
    first = slopes if scan.exclusive else steps * slopes
    later, dinitial = recurrence(Ragged._freeze(first, structure), Ragged._freeze(steps, structure), **way)
    g = later.data if scan.exclusive else slopes + later.data
    dx: Encoding = restore(Ragged._freeze(of_steps(g, 0.0), structure), without_data(z))
    found: list[Any] = [dx]
    if by.is_operand:
        states = recurrence(
            Ragged._freeze(of_steps(x, 0.0), structure),
            Ragged._freeze(steps, structure),
            initial=given[-1] if started else start,
            reverse=scan.back,
            exclusive=True,
        )
        each = of_steps(g * states.data, 0.0)
        found.append(_gather(each, by, own, structure.rows))
    if started:
        found.append(library.astype(dinitial, library.dtype_name(given[-1].dtype)))
    return tuple(found)


def _gather(each: Array, by: Decay, own: Operands, rows: int) -> Any:
    """The gradient of a decay, of that of each number's, in the graph."""
    if by.form == "full":
        return restore(Ragged._freeze(each, own._structure), without_data(own))
    if by.form == "item":
        sums = each.reshape(rows, -1).sum(1).reshape(rows, *own.item_shape)
        return restore(Ragged._freeze(sums, own._structure), without_data(own))
    if by.form == "column":
        return each.sum(0).reshape(tuple(own.shape))
    return each.reshape(-1).sum(0)


class _Memory(NamedTuple):
    """Arrays and options that a recurrence keeps for its pullback."""

    scan: Scan
    decay: Decay
    y: Array
    factors: Array
    first: Array
    started: bool
    final: bool

    def pullback(self, dy: Operands) -> tuple[Any, ...]:
        """The gradients for the operands."""
        scan, decay = self.scan, self.decay
        dy, dfinal = dy if self.final else (dy, NO_FLOATS)
        data = in_one_array(dy).data
        library, width = library_of(data), math.prod(scan.item)
        slopes = decay.slopes(scan.kind, width) if decay.is_operand else ""
        given = library.astype(data, scan.kind)
        later = library.astype(dfinal, "float64") if self.final else NO_FLOATS
        dx, found, dinitial = scan.backward(library, given, later, self.y, self.factors, self.first, slopes)
        name = library.dtype_name(scan.shape._dtype)
        gradients: list[Any] = [scan.shape._with_data(library.astype(dx, name))]
        if decay.is_operand:
            gradients.append(decay.collect(library, scan.at, found))
        if self.started:
            gradients.append(dinitial)
        return tuple(gradients)


# --- the moving average -----------------------------------------------------------------------------------------------


def ema(
    x: B,
    decay: SupportsFloat,
    *,
    adjust: bool = False,
    where: Batch | Shaped | None = None,
    level: int = INNERMOST,
) -> B:
    """Average the items of every sequence so far, each weighing `decay` times what the next one weighs.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape; they are averaged column by column.
    decay : float
        From 0 to 1; ``1 - alpha`` of pandas.
    adjust : bool
        Divide by the sum of the weights of the items so far.  Otherwise the first item is where the average begins:
        ``decay * average + (1 - decay) * x`` from there on.
    where : a batch or an array of bools, optional
        Which items count, one bool per item as for `filter`.  At the others the average stays as it is.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        Floats keep their dtype, integers and bools give float64.  Before the first item that counts it is 0.

    Raises
    ------
    ConversionError
        If `decay` is not from 0 to 1.
    TypeError
        If `where` does not hold bools, for complex numbers, and for gradients of integers.

    See Also
    --------
    recurrence : Any other decay, and the order of calculation, which is that of this function too.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([4.0, 8.0, 0.0, 6.0]), [3, 1])
    >>> sf.ema(x, 0.5).data
    array([4., 6., 3., 6.])
    >>> sf.ema(x, 0.5, adjust=True).data.round(3)
    array([4.   , 6.667, 2.857, 6.   ])
    """
    if level is not INNERMOST:
        return at_level(ema, level, x, decay, adjust=adjust, where=where)
    return _ema(x, decay, adjust, where).run()


def _ema(x: B, decay: object, adjust: object, where: object) -> Call[B]:
    """Check the arguments of `ema`."""
    found = to_be_summed(operand(x))
    own: Encoding = found.own
    kinds = floats_for("a moving average", name_of(own))
    by = number(decay, "decay")
    if not 0 <= by <= 1:
        raise RANGE(f"decay must be from 0 to 1, not {quote(decay)}")
    shape: Encoding = without_data(own)
    at = layout_for(shape, own.item_shape, own._dtype)
    averages = Averages(shape, at, kinds, marks_beside(where, own, at, "where"), by, flag(adjust, "adjust"))

    def rule(z: Encoding, back: bool) -> tuple[Encoding, Pullback | None]:
        y = averages.average(z)
        if not back:
            return y, None
        differentiable(name_of(z), "a moving average")
        fixed = averages._replace(marks=copy_constant(averages.marks))
        return y, lambda dy: linear(lambda d: fixed.average(d, True), fixed.average, dy)

    return Call(own, rule, found.result, found.gradient)


by_level(keeps=True, marks=("where",))(with_rule(ema, _ema))
