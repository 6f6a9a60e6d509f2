"""Time steps: a batch as one array (or one `LoD`) a step, and what recurrent loops need of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from .. import registry
from ..arrays import Array, adopt, freeze, is_array, library_of, shape_of
from ..converters.convert import convert, restore
from ..converters.layouts import to_packed, to_ragged
from ..converters.like import convert_like
from ..errors import COUNTS, EMPTY, INDEX, KIND, LENGTHS, LEVELS, LONG, SHAPE, SLOPE, UNLIKE, quote
from ..formats import Encoding, LoD, Packed, Ragged
from ..formats.annotations import Given, Shaped
from ..formats.leaves import without_data
from ..formats.pairs import take_rows
from ..formats.rows import Source
from ..formats.structure import Structure, same_numbers, whole
from ..gradients.cotangent import fitting
from ..gradients.operation import Call, Pullback, operand, operation, rows_or_batch
from ..layout import Layout
from ..memory_checks import OBJECT, check_room
from ..reading import scan
from .annotations import Batch, X
from .inspection import lengths
from .join import check_alike
from .select import select_call

_Read = tuple[Array, Array] | None
"""Lengths and addresses of steps that `scan` can read."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class TensorArray:
    """Time steps of a batch: step t holds the t-th item of every sequence longer than t, longest first.

    Parameters
    ----------
    steps : arrays ``(alive_t, *item)``, or `LoD` of `alive_t` sequences
        One a time step; `alive_t` never rises.
    like : an encoding, a list of arrays or nested lists, optional
        The batch that these are the steps of; `pack` gives back its encoding, order and outer levels.  Without it the
        sequences stay in the order of the steps.

    Raises
    ------
    TypeError
        For steps that are neither.
    StructureError
        For steps that do not fit each other or `like`.

    See Also
    --------
    shrink : A state, cut to the sequences that are still alive.

    Notes
    -----
    `len` and ``[t]`` are steps.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> steps = sf.TensorArray.unpack(sf.Ragged(np.array([1, 2, 3, 4, 5]), [2, 3]))
    >>> steps[0], steps[2]
    (array([3, 1]), array([5]))
    >>> steps.with_steps([10 * step for step in steps]).pack().data
    array([10, 20, 30, 40, 50])
    """

    steps: tuple[Any, ...]
    like: Any = None

    if TYPE_CHECKING:  # a dataclass makes this of its fields, but takes more than they hold

        def __init__(self, steps: Sequence[Shaped | LoD], like: Batch | None = None) -> None: ...

    def __post_init__(self) -> None:
        steps, found = _take(self.steps)
        object.__setattr__(self, "steps", steps)
        _check(steps, found, self._like_batch())

    @classmethod
    def _from_steps(cls, steps: tuple[Any, ...], like: Given) -> TensorArray:
        """Make one of steps that have been checked."""
        made = object.__new__(cls)
        object.__setattr__(made, "steps", steps)
        object.__setattr__(made, "like", like)
        return made

    def __reduce__(self) -> Any:
        return type(self), (self.steps, self.like)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.steps)

    def __getitem__(self, t: SupportsIndex | slice) -> Any:
        return self.steps[t]

    def __repr__(self) -> str:
        sizes = [len(step) for step in self.steps]
        return f"TensorArray({len(sizes)} steps of {sizes[:6]}{', ...' if len(sizes) > 6 else ''})"

    @classmethod
    def unpack(cls, x: Batch) -> TensorArray:
        """The steps of a batch.

        Parameters
        ----------
        x : an encoding, a list of arrays or nested lists

        Returns
        -------
        TensorArray
            The steps; of a `LoD` with more levels, step t is a `LoD` of the t-th inner sequence of every outermost one.

        Raises
        ------
        TypeError
            If the argument is not an encoding.

        See Also
        --------
        TensorArray.pack : The way back.

        Notes
        -----
        One move puts all steps in order, where they are not (a `Packed`); the steps are views of that.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> x = sf.LoD(np.arange(5), [[0, 1, 3], [0, 2, 3, 5]])
        >>> sf.TensorArray.unpack(x)[0].to_nested()
        [[2], [0, 1]]
        """
        own = operand(x).own
        if len(own._levels) > 1:
            outer, inner = own._levels[0], own._sub(1, 0, own._levels[1].n)
            ordered = inner._choose(_by_steps(outer))
            ends = outer.order.steps[: outer.longest + 1].tolist()
            steps = tuple([ordered[a:b] for a, b in pairwise(ends)])
        else:
            packed = convert(own if own._structure.stable else convert(own, Ragged), Packed)
            structure = packed._structure
            ends, library = structure.order.steps[: structure.longest + 1], packed._look()
            if library.wants_grad((packed.data,)):  # one that is made by `split` could not be changed in place
                steps = tuple([packed.data[a:b] for a, b in pairwise(ends.tolist())])
            else:
                steps = library.split(packed.data, packed.size_at_t, ends)
        return cls._from_steps(steps, x)

    def with_steps(self, steps: Sequence[Shaped | LoD]) -> TensorArray:
        """Other steps over the same sequences.

        Parameters
        ----------
        steps : arrays or `LoD`
            As many as these, each with as many rows or sequences; items may differ.

        Returns
        -------
        TensorArray
            The new steps over the same sequences.

        Raises
        ------
        StructureError
            For another number of steps, rows or sequences.
        TypeError
            For steps that are neither.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> old = sf.TensorArray.unpack(sf.Ragged(np.ones((3, 2)), [2, 1]))
        >>> old.with_steps([step.sum(1) for step in old]).pack().data
        array([2., 2., 2.])
        """
        if is_array(steps):
            check_room(math.prod(shape_of(steps)[:1]), OBJECT, "steps")
        try:
            given = tuple(steps)
        except TypeError:
            raise KIND(f"the new steps must be a list or tuple, not {type(steps).__name__}") from None
        steps, found = _take(given)
        old, new = _sizes(self.steps, scan(self.steps)), _sizes(steps, found)
        if not same_numbers(old, new):
            raise UNLIKE(f"the new steps have {new.tolist()} rows or sequences, the old ones {old.tolist()}")
        _check(steps, found, self._like_batch())
        return TensorArray._from_steps(steps, self.like)

    def pack(self) -> Any:
        """The steps as one batch.

        Returns
        -------
        what `like` is
            The encoding that they came from, with its order and outer levels; without `like` a `LoD`, longest sequence
            first.  The levels within the outermost are those of the steps; arrays have none.

        Raises
        ------
        StructureError
            Where there is neither a step nor `like`.

        See Also
        --------
        TensorArray.unpack : The way back.
        """
        if not self.steps:
            if self.like is None:
                raise EMPTY("there is no step, so neither a dtype nor an item shape; give like")
            return self.like
        own, result, _ = (None, None, None) if self.like is None else operand(self.like)
        found = scan(self.steps)
        _check(self.steps, found, own)  # one may have been resized under us
        y = self._pack(own, found)
        return y if result is None else result(y)

    def _like_batch(self) -> Any:
        return None if self.like is None else operand(self.like).own

    def _pack(self, like: Encoding | None, found: _Read) -> Any:
        if isinstance(self.steps[0], Encoding):
            return self._pack_levels(like)
        outer = _structure_of_steps(self.steps) if like is None else like._levels[0].in_order()
        y = _join(self.steps, found, outer, like is not None and like._by_steps)
        if like is None or len(like._levels) > 1:
            return LoD._from_levels(convert(y, Ragged).data, (outer,))
        return convert_like(y, like)

    def _pack_levels(self, like: Encoding | None) -> LoD:
        levels = tuple(
            Structure.of_lengths(np.concatenate([step._levels[k].lengths for step in self.steps]))
            for k in range(len(self.steps[0]._levels))
        )
        library = library_of(self.steps[0].data)
        ordered = LoD._from_levels(library.concatenate([step.data for step in self.steps]), levels)
        outer = _structure_of_steps(self.steps) if like is None else like._levels[0]
        place = np.empty(outer.rows, np.int64)
        place[_by_steps(outer)] = np.arange(outer.rows)
        inner = ordered._choose(place)
        return LoD._from_levels(inner.data, (outer, *inner._levels))

    def pack_prefixes(self) -> LoD:
        """Steps that are linked by their `LoD`, as a decoder leaves them, as one `LoD` with a path for every leaf.

        Returns
        -------
        LoD
            ``[path -> rows]``, or, where steps have more levels, ``[source -> paths, path -> rows]`` by the outermost
            level of the first step.

        Raises
        ------
        StructureError
            For steps that are no `LoD`, or whose innermost sequences are not as many as the rows before.

        See Also
        --------
        beam_backtrace : The same for the steps of a beam search.

        Notes
        -----
        The innermost sequence r of step t holds the candidates that follow row r of step t - 1.  A path goes from a row
        of the first step along candidates to a row that has none, or that is in the last step; prefixes without
        candidates are kept.  Paths stand in the order of the tree.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> steps = [sf.LoD(np.array([0, 1]), [[0, 1, 2]]), sf.LoD(np.array([2, 3, 4]), [[0, 2, 3]])]
        >>> sf.TensorArray(steps).pack_prefixes().to_nested()
        [[0, 2], [0, 3], [1, 4]]
        """
        if not self.steps or not isinstance(self.steps[0], Encoding):
            raise EMPTY("pack_prefixes needs at least one step, and steps that are LoDs")
        return _paths(self.steps)


def _take(given: object) -> tuple[tuple[Any, ...], _Read]:
    """Steps that the caller gives: arrays of libraries known here, or LoDs; and what `scan` says of them."""
    if not isinstance(given, (list, tuple)):
        raise KIND(f"steps must be a list or tuple, not {type(given).__name__}")
    steps = tuple(given)
    found = scan(steps)
    if found is None:
        steps = tuple([step if isinstance(step, LoD) else _array(step, t) for t, step in enumerate(steps)])
        found = scan(steps)
    return steps, found


def _array(step: object, t: int) -> Array:
    if not is_array(step):
        raise KIND(f"steps[{t}] must be an array or a LoD, not {type(step).__name__}")
    array = adopt(step, f"steps[{t}]")[1]
    if len(array.shape) < 1:
        raise SHAPE(f"steps[{t}] must have the axes (alive, *item), but is a single number")
    return array


def _sizes(steps: tuple[Any, ...], found: _Read) -> Array:
    """Count the rows, or sequences, of each step."""
    return np.array([len(step) for step in steps], np.int64) if found is None else found[0]


def _join(steps: tuple[Array, ...], found: _Read, outer: Structure, by_steps: bool) -> Packed | Ragged:
    """All rows in one new array, by steps or sequence by sequence; where addresses are known they are moved once."""
    library, like = library_of(steps[0]), steps[0]
    if found is None or library.wants_grad(steps):
        return Packed._freeze(library.concatenate(steps), outer)
    order = outer.order
    at = Layout(order.indices, outer.offsets, order.steps, -1, 0, 0, 1)
    source = Source(library, steps, at, outer, like, tuple(like.shape[1:]), freeze(found[1]))
    return to_packed(source) if by_steps else to_ragged(source)


def _check(steps: tuple[Any, ...], found: _Read, like: Given) -> None:
    """StructureError where steps do not fit each other or `like`."""
    if found is None and any(isinstance(step, Encoding) for step in steps):
        if not all(isinstance(step, Encoding) for step in steps):
            raise KIND("steps must be all arrays or all LoDs")
        check_alike(steps, "step")
        for t, step in enumerate(steps):
            step._look()
            if len(step.lod) != len(steps[0].lod):
                raise LEVELS(f"steps[{t}] has {len(step.lod)} levels, but steps[0] has {len(steps[0].lod)}")
    elif found is None and steps:
        if any(len(step.shape) < 1 for step in steps):  # since it was taken
            raise SHAPE("a step must have the axes (alive, *item), but one is a single number now")
        check_alike(steps, "step")
    if like is not None:
        outer = like._levels[0]
        have = _sizes(steps, found)
        wanted = outer.order.size_at_t[: outer.longest]
        if not same_numbers(have, wanted):
            raise UNLIKE(f"the steps have {have.tolist()} rows, but like has {wanted.tolist()} sequences alive")


def _by_steps(outer: Structure) -> Array:
    """The inner sequences in the order of steps."""
    order = outer.order
    sizes = order.size_at_t[: outer.longest]
    step = np.repeat(np.arange(sizes.size), sizes)
    column = np.arange(outer.rows) - order.steps[step]
    return np.asarray(outer.offsets[order.indices[column]] + step)


def _structure_of_steps(steps: tuple[Any, ...]) -> Structure:
    """The lengths of sequences of which so many are alive at each step, longest first."""
    sizes = _sizes(steps, scan(steps))
    if (np.diff(sizes) > 0).any():
        t = int((np.diff(sizes) > 0).argmax()) + 1
        raise LENGTHS(f"steps[{t}] has {sizes[t]} rows after {sizes[t - 1]}; sequences end, but do not begin later")
    n = int(sizes[0]) if sizes.size else 0
    return Structure.of_lengths(np.searchsorted(-sizes, -np.arange(n), side="left").astype(np.int64))


def _paths(steps: Sequence[LoD]) -> LoD:
    for t in range(1, len(steps)):
        if steps[t]._structure.n != steps[t - 1].rows:
            raise COUNTS(
                f"steps[{t}] has {steps[t]._structure.n} innermost sequences, "
                f"but steps[{t - 1}] has {steps[t - 1].rows} rows"
            )
    # from the last step to the first: how many leaves are below each row
    leaves = [np.ones(steps[-1].rows, np.int64)]
    for step in reversed(steps[1:]):
        below = np.concatenate([[0], np.cumsum(leaves[0])])[step._structure.offsets]
        leaves.insert(0, np.maximum(np.diff(below), 1))
    # from the first to the last: the paths that go through each row, in the order of the tree
    begin = np.concatenate([[0], np.cumsum(leaves[0])])
    count = int(begin[-1])
    lengths_of_paths = np.ones(count, np.int64)
    rows = [np.repeat(np.arange(steps[0].rows), leaves[0])]
    through = [np.arange(count)]
    first = begin[:-1]
    for t in range(1, len(steps)):
        structure = steps[t]._structure
        below = np.concatenate([[0], np.cumsum(leaves[t])])
        # a row begins where its parent does, after its elder siblings
        parent = np.repeat(np.arange(structure.n), structure.lengths)
        first = first[parent] + below[:-1] - below[structure.offsets[parent]]
        rows.append(np.repeat(np.arange(steps[t].rows), leaves[t]))
        at = np.repeat(first - below[:-1], leaves[t]) + np.arange(rows[-1].size)
        through.append(at)
        lengths_of_paths[at] = t + 1
    paths = Structure.of_lengths(lengths_of_paths)
    index = np.empty(paths.rows, np.int64)
    base = 0
    for t, step in enumerate(steps):
        index[paths.offsets[through[t]] + t] = base + rows[t]
        base += step.rows
    library = library_of(steps[0].data)
    everything = library.concatenate([step.data for step in steps])
    data = take_rows(everything, index)
    if len(steps[0].lod) == 1:
        return LoD._from_levels(data, (paths,))
    sources = steps[0].absolute()[0]
    return LoD._from_levels(data, (Structure.of_offsets(begin[sources].astype(np.int64)), paths))


@operation
def shrink(x: X, like: Batch | TensorArray, step: int) -> Call[X]:
    """The first sequences of `x`, or rows of an array: as many as `like` has sequences longer than `step`.

    Parameters
    ----------
    x : an array ``(n, *item)`` or an encoding
        Its sequences in the order of falling length of `like`.
    like : an encoding (of a `LoD` the outermost sequences count), or a `TensorArray`
    step : int
        A time step.

    Returns
    -------
    same kind as `x`
        A view where slices are views (Paddle's shrink_rnn_memory).

    Raises
    ------
    StructureError
        Where `x` has fewer sequences than needed.
    IndexError
        For a negative step.

    See Also
    --------
    sort_by_length : Puts a batch into that order.

    Notes
    -----
    The gradient of what is left out is zero.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.shrink(np.array([10, 20, 30]), sf.Ragged(np.zeros(6), [1, 3, 2]), 1)
    array([10, 20])
    """
    t = whole(step, "step")
    if t < 0:
        raise INDEX(f"there is no step {quote(t)}")
    if isinstance(like, TensorArray):
        alive = len(like.steps[t]) if t < len(like.steps) else 0
    else:
        alive = int((lengths(like, 0) > t).sum())
    batch = rows_or_batch(x)
    if len(batch.own) < alive:
        raise LONG(f"x has {len(batch.own)} sequences, but {alive} of like are longer than {t}")
    return select_call(batch, slice(0, alive))


def _unpack_with_pullback(x: Batch) -> tuple[TensorArray, Pullback]:
    y = TensorArray.unpack(x)
    own, _, gradient = operand(x)
    likes = [without_data(step) for step in y]

    def pullback(dy: object) -> Any:
        if not isinstance(dy, (list, tuple, TensorArray)):
            raise KIND(f"the gradient must be a list of steps, not {type(dy).__name__}")
        given = tuple(dy)
        if len(given) != len(likes):
            raise SLOPE(f"there are {len(likes)} steps, but {len(given)} gradients")
        steps = [fitting(d, like) for d, like in zip(given, likes, strict=True)]
        dx = TensorArray(tuple(steps), own).pack()
        return dx if gradient is None else gradient(dx)

    return y, pullback


def _pack_with_pullback(x: TensorArray) -> tuple[Any, Pullback]:
    y = x.pack()
    like = without_data(operand(y).own)

    def pullback(dy: Batch) -> TensorArray:
        return TensorArray(TensorArray.unpack(restore(fitting(dy, like), like)).steps, x.like)

    return y, pullback


registry.gradient(TensorArray.unpack)(lambda args, options: _unpack_with_pullback(*args, **options))
registry.gradient(TensorArray.pack)(lambda args, options: _pack_with_pullback(*args, **options))
