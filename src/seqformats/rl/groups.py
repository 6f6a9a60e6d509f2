"""Advantages by what samples have in common: groups of a prompt, and whole batches on several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, SupportsFloat

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, is_array, library_of, to_host
from ..arrays.dtypes import differentiable
from ..errors import COUNTS, DTYPE, KIND, RANGE, SHAPE, quote
from ..formats import Encoding
from ..formats.annotations import Given, Integers, Shaped
from ..formats.leaves import without_data
from ..formats.structure import Structure, whole
from ..gradients.operation import Call, Pullback, operand, operation, to_be_summed
from ..launch.kernel import kernel
from ..operations.annotations import B, Batch
from ..operations.calculation import flat_layout, in_one_array, layout_for, name_of
from ..operations.companions import (
    NO_MARKS,
    constant,
    copy_constant,
    floats_for,
    marks_beside,
    of_numbers,
    read_list,
    settled_like,
    total_of,
)
from ..operations.standardize import Center, Standard, second_order_of, standardize_call

marked_sums = kernel("marked_sums")


class _Groups(NamedTuple):
    """Groups of samples: their order by group, the way back, and how many each group has."""

    structure: Structure
    order: Array | None  # None where groups follow one another
    inverse: Array | None

    @classmethod
    def from_group(cls, group: object, n: int) -> _Groups:
        """By how many samples follow one another, or by a key per sample."""
        if not is_array(group) and not isinstance(group, (list, tuple)):
            size = whole(group, "group")
            if size < 1:
                raise RANGE(f"group must be at least 1 sample, not {quote(group)}")
            if n % size:
                raise COUNTS(f"{n} samples are no groups of {size}; give group= a key per sample where sizes differ")
            return cls(Structure.of_lengths(np.full(n // size, size)), None, None)
        keys = np.asarray(to_host(group)) if is_array(group) else read_list(group or np.zeros(0, int), "group")
        if keys.shape != (n,):
            raise COUNTS(
                f"group has keys of shape {keys.shape}, but there are {n} samples, and one key is needed for each"
            )
        if keys.dtype.hasobject or keys.dtype.kind not in "iubSU":
            raise DTYPE(f"keys of groups must be integers or strings, not {keys.dtype}")
        numbers = np.unique(keys, return_inverse=True)[1].reshape(-1)
        order = np.argsort(numbers, kind="stable")
        return cls(Structure.of_lengths(np.bincount(numbers) if n else numbers), order, np.argsort(order))

    def sort(self, library: Library, x: Array) -> Array:
        """Numbers of samples, group by group."""
        return x if self.order is None else library.take(x, self.order, 0)

    def restore(self, library: Library, x: Array) -> Array:
        """The way back."""
        return x if self.inverse is None else library.take(x, self.inverse, 0)


@operation
def group_advantages(
    rewards: Shaped | Sequence[float],
    group: int | Integers | Shaped,
    *,
    center: Center = "mean",
    scale: Literal["std"] | None = "std",
    ddof: SupportsFloat = 1,
    eps: SupportsFloat = 1e-6,
    where: Shaped | None = None,
) -> Call[Array]:
    """Compare the rewards of samples with those of their group: ``(reward - mean) / (std + eps)``.

    Parameters
    ----------
    rewards : array ``(n,)``, or a list of numbers
        A reward per sample.
    group : int, or n integers or strings
        How many samples follow one another for each prompt, or a key per sample, in any order.
    center : "mean" or "others"
        What is taken away: the mean of the group, or that of its other samples (leave one out).
    scale : "std" or None
        What remains is divided by: the deviation in the group, or nothing.
    ddof, eps : float
        As of `standardize`.
    where : array ``(n,)`` of bools, optional
        Which samples count.  The others get 0, and are in no mean and no deviation.

    Returns
    -------
    array ``(n,)``
        Floats keep their dtype, integers and bools give float64.  Equal rewards, or a lone one, give exactly 0.

    Raises
    ------
    StructureError
        If the samples are no groups of this size, or keys or marks are not as many.
    ConversionError
        If an option is none of these.
    TypeError
        If `where` does not hold bools, or keys are neither integers nor strings.

    See Also
    --------
    standardize : The same for the items of sequences.
    policy_loss : What takes an advantage per sequence.

    Notes
    -----
    As it stands this is GRPO (Shao et al., "DeepSeekMath", 2024); with ``scale=None`` Dr. GRPO (Liu et al.,
    "Understanding R1-Zero-Like Training", 2025); with ``center="others", scale=None`` RLOO (Ahmadian et al., "Back to
    Basics", 2024).

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> rewards = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    >>> sf.rl.group_advantages(rewards, 3).round(3)
    array([ 1.155, -0.577, -0.577,  0.   ,  0.   ,  0.   ])
    >>> sf.rl.group_advantages(rewards, 3, center="others", scale=None)
    array([ 1. , -0.5, -0.5,  0. ,  0. ,  0. ])
    """
    rewards = read_list(rewards, "rewards")
    if not is_array(rewards):
        raise KIND(f"rewards has a number per sample, so it must be an array (n,), not {quote(rewards)}")
    library, own = adopt(rewards, "rewards")
    if len(own.shape) != 1:
        raise SHAPE(f"rewards must have shape (n,), a number per sample, not {tuple(own.shape)}")
    given = library.dtype_name(own.dtype)
    kind, name = floats_for("a group", given)
    n = int(own.shape[0])
    standard = Standard.from_options(center, scale, ddof, eps)
    groups = _Groups.from_group(group, n)
    at = flat_layout(groups.structure, (), own.dtype)
    marks = _marks_of_samples(where, n, library, own, groups)

    def rule(z: Array, back: bool) -> tuple[Array, Pullback | None]:
        items = groups.sort(library, library.astype(z, kind))
        y = groups.restore(library, standard.forward(library, items, at, marks))
        if not back:
            return settled_like(library, y, name), None
        differentiable(given, "an advantage")
        own_marks, rows = copy_constant(marks), library.alias(items)

        def pullback(dy: Array) -> Array:
            slopes = groups.sort(library, library.astype(dy, kind))
            dx = standard.backward(library, slopes, rows, at, own_marks)
            return library.astype(groups.restore(library, dx), given)

        return settled_like(library, y, name), pullback

    return Call(own, rule, second_order=second_order_of("group_advantages"))


def _marks_of_samples(where: Given, n: int, library: Library, like: Array, groups: _Groups) -> Array:
    """A bool per sample, group by group."""
    if where is None:
        return NO_MARKS
    theirs, marks = adopt(read_list(where, "where"), "where")
    if tuple(marks.shape) != (n,):
        raise COUNTS(f"where must have one bool per sample, shape ({n},), not {tuple(marks.shape)}")
    if n and theirs.dtype_name(marks.dtype) != "bool":
        raise DTYPE(f"where must hold bools, not {theirs.dtype_name(marks.dtype)}")
    if not n:
        return NO_MARKS
    marks = groups.sort(theirs, marks)
    if theirs is not library or (library is not NUMPY and library.device(marks) != library.device(like)):
        marks = library.from_host(to_host(marks), like)
    return marks


def sums_beside(library: Library, x: Array, at: Encoding, marks: Array) -> Array:
    """``(n, 3)`` of float64: how many numbers of each sequence count, their sum, and that of their squares."""
    structure = at._structure
    out = library.empty((structure.n, 3), library.dtype("float64"), x)
    marked_sums.start(library, (x, marks), (out,), (at._layout(),), 1, structure)
    return out


@operation
def moments(x: Batch, *, where: Batch | Shaped | None = None) -> Call[Array]:
    """Count the numbers of a batch, and add up them and their squares: what ranks add up before they `whiten`.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        A number per item.
    where : a batch or an array of bools, optional
        Which items count, one bool per item as for `filter`.

    Returns
    -------
    array ``(3,)``
        float64; zeros where nothing counts, so that a rank without items can add them.

    Raises
    ------
    StructureError
        If `where` has other lengths.
    TypeError
        If `where` does not hold bools, and for complex numbers.

    See Also
    --------
    whiten : What takes the sum over all ranks.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.rl.moments(sf.Ragged(np.array([1.0, 2.0, 4.0]), [2, 1]))
    array([ 3.,  7., 21.])
    """
    found = to_be_summed(operand(x))
    own = of_numbers(found.own, "x")
    given = name_of(own)
    kind, _ = floats_for("moments", given)
    shape: Encoding = without_data(own)
    at = layout_for(shape, (), own._dtype)
    marks = marks_beside(where, own, at, "where")

    def rule(z: Encoding, back: bool) -> tuple[Array, Pullback | None]:
        library = library_of(z._sample())
        items = library.astype(in_one_array(z).data, kind)
        y = settled_like(library, total_of(sums_beside(library, items, at, marks)).reshape(3), "float64")
        if not back:
            return y, None
        differentiable(given, "a moment")
        rows, counts = library.alias(items), copy_constant(marks)

        def pullback(dy: Array) -> Encoding:
            slopes = dy[1] + 2 * rows * dy[2]
            if counts is not NO_MARKS:
                slopes = library.where(counts, slopes, 0.0)
            return shape._with_data(library.astype(slopes, given))

        return y, pullback

    return Call(own, rule, None, found.gradient, second_order_of("moments"))


@operation
def whiten(
    x: B,
    *,
    where: Batch | Shaped | None = None,
    moments: Shaped | None = None,
    ddof: SupportsFloat = 1,
    eps: SupportsFloat = 1e-8,
) -> Call[B]:
    """Bring all items of a batch that count to a mean of 0 and a deviation of 1: ``(x - mean) / (std + eps)``.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        A number per item.
    where : a batch or an array of bools, optional
        Which items count, one bool per item as for `filter`.  The others get 0, and may be NaN.
    moments : array ``(3,)``, optional
        Those of all ranks, see `moments`; without them, those of this batch.
    ddof, eps : float
        As of `standardize`.

    Returns
    -------
    same kind as `x`
        Floats keep their dtype, integers and bools give float64.  As many items as `ddof` get 0.

    Raises
    ------
    StructureError
        If `where` has other lengths, or moments are not three numbers.
    ConversionError
        If an option is negative.
    TypeError
        If `where` does not hold bools, and for moments that ask for a gradient.

    See Also
    --------
    standardize : The same for each sequence, or each level.

    Notes
    -----
    Without `moments` two passes are made; by `moments` the deviation loses digits where it is far less than the mean.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1.0, 2.0, np.nan, 3.0]), [2, 2])
    >>> sf.rl.whiten(x, where=np.array([True, True, False, True]), eps=0).data
    array([-1.,  0.,  0.,  1.])

    On several ranks, whose moments are added up:

    >>> y = sf.Ragged(np.array([6.0]), [1])
    >>> of_all = sf.rl.moments(x, where=np.array([True, True, False, True])) + sf.rl.moments(y)
    >>> sf.rl.whiten(y, moments=of_all).data.round(3)
    array([1.389])
    """
    found = to_be_summed(operand(x))
    standard = Standard.from_options("mean", "std", ddof, eps)
    own = of_numbers(found.own, "x")
    if moments is None:
        return standardize_call(found, standard, None, where)
    theirs, rows = adopt(read_list(moments, "moments"), "moments")
    if tuple(rows.shape) != (3,):
        raise SHAPE(
            f"moments must have shape (3,), the number, the sum and that of the squares, not {tuple(rows.shape)}"
        )
    constant("moments", rows)
    if theirs is not library_of(own._sample()):
        rows = np.asarray(to_host(rows))
    floats_for("moments", library_of(rows).dtype_name(rows.dtype))
    wide = library_of(rows).astype(rows, "float64")
    return standardize_call(found, standard, -1, where, wide)
