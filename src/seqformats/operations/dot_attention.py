"""Scaled dot-product attention along every sequence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, Library, frozen, library_of
from ..arrays.dtypes import HALF
from ..converters.convert import restored, rows_of
from ..converters.layouts import at_least
from ..errors import (
    COUNTS,
    DEVICES,
    DTYPE,
    KIND,
    LEVELS,
    MIXED,
    RANGE,
    SHAPE,
    UNLIKE,
    said,
)
from ..formats import Encoding, Ragged
from ..formats.encoding import shown
from ..formats.leaves import without_data
from ..formats.structure import Structure, same_levels
from ..gradients.operation import Call, Pullback, each_gradient, operands_of, operation
from ..launch.kernel import Work, kernel
from ..launch.threads import num_threads
from .annotations import B, Batch
from .options import number
from .over import in_one_array, name_of, rows_like, scratch

attend_rows, attend_back = kernel("attend_rows"), kernel("attend_back")

FLOATS = (*HALF, "float32", "float64")
ALL = 1 << 61
"""So many keys to a side are all that there are."""
QUERIES = 256
"""How many queries of a sequence the kernel takes at a time: its jobs are cut at these."""
KEYS, LANES = 128, 32
"""How many keys it keeps, and how many queries lie side by side."""
FEW = 1 << 16
"""Scores, below which there is no work for several threads."""
ALIGNED = 64
"""Bytes at whose multiples vectors are best read."""


@operation
def attention(
    q: B,
    k: Batch,
    v: Batch,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] | None = None,
) -> Call[B]:
    """Scaled dot-product attention along every (innermost) sequence, without padding.

    Every query becomes the mean of the values of its sequence, weighted by ``softmax(scale * q @ k.T)``.

    Parameters
    ----------
    q : an encoding, a list of arrays or nested lists
        The queries, items ``(heads, d)``, or ``(d,)`` for one head.
    k, v : encodings, lists of arrays or nested lists
        The keys, items ``(groups, d)``, and the values, ``(groups, w)``, over as many sequences, of equal lengths,
        which may be others than those of `q` (cross attention).  Where there are fewer groups than heads, each serves
        ``heads / groups`` heads in a row (grouped queries).  Kinds may differ; dtype and library are those of `q`.
    causal : bool
        Does a query see no key after it?  The last query sees all keys, as in flash-attention: with ``m`` keys and
        ``n`` queries, query t stands at ``p = t + m - n``, and sees the keys up to p.
    scale : float, optional
        ``1 / sqrt(d)`` without it.
    window : int or a pair (left, right), optional
        A query at p sees the keys from ``p - left`` to ``p + right`` alone; an int is both, None or -1 in a pair is no
        limit.

    Returns
    -------
    what `q` is
        With items ``(heads, w)``, or ``(w,)`` for one head, in the dtype of `q`.  A query that sees nothing, or whose
        scores are all -inf, gives zeros.

    Raises
    ------
    TypeError
        For items that are no floats.
    StructureError
        For sequences, shapes or dtypes that do not fit each other.
    ConversionError
        For a `window` below -1 and a `scale` that is no finite number.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    softmax : The weights alone, of scores that are there already.
    cu_seqlens : Lengths, as flash-attention takes them.

    Notes
    -----
    Scores are never kept: keys come in blocks, and what was added up before is scaled when a larger score comes
    (Milakov and Gimelshein, 2018; Rabe and Staats, 2021; Dao et al., FlashAttention, 2022), so memory grows with the
    items alone.
    Half precision is calculated in float32.  The gradient, of `q`, `k` and `v`, calculates the scores again (Dao,
    FlashAttention-2, 2023); the order of its sums, as that of the results, does not depend on the threads or on
    neighbours.  A second derivative makes the scores of each sequence at once.

    As in every product of matrices, an infinity or NaN in a value may come into rows that do not see it.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> q = sf.Ragged(np.zeros((3, 1, 4)), [2, 1])
    >>> v = sf.Ragged(np.arange(3.0).reshape(3, 1, 1), [2, 1])
    >>> sf.attention(q, q, v).data.ravel()
    array([0.5, 0.5, 2. ])
    >>> sf.attention(q, q, v, causal=True).data.ravel()
    array([0. , 0.5, 2. ])
    """
    operands = operands_of(q, k, v)
    own: Any = tuple([each.own for each in operands])
    name = _check(*own)
    if not isinstance(causal, (bool, np.bool_)):
        raise KIND(f"causal must be True or False, not {said(causal)}")
    left, right = _limits(window)
    item = own[0].item_shape
    factor = 1 / math.sqrt(max(item[-1], 1)) if scale is None else number(scale, "scale")
    if not math.isfinite(factor):
        raise RANGE(f"scale must be finite, not {said(scale)}")
    call = _Attention(own, name, (left, 0 if causal else right), factor)
    return Call(own, call.rule, operands[0].result, each_gradient(operands), call.second_order)


def _limits(window: object) -> tuple[int, int]:
    """How many keys a query sees to each side."""
    pair = window if isinstance(window, (tuple, list)) else (window, window)
    if len(pair) != 2:
        raise RANGE(f"window must be an integer or a pair (left, right), not {said(window)}")
    left, right = (ALL if side is None else min(at_least(side, "window", -1), ALL) for side in pair)
    return ALL if left < 0 else left, ALL if right < 0 else right


def _check(q: Encoding, k: Encoding, v: Encoding) -> str:
    """The dtype of three batches; an error where they do not fit each other."""
    library, structure = library_of(q._sample()), q._structure
    for what, x in (("q", q), ("k", k), ("v", v)):
        if library_of(x._sample()) is not library or x.device != q.device:
            raise DEVICES(
                f"{what} is on {x.device}, {library_of(x._sample()).name}; q is on {q.device}, {library.name}"
            )
        name = name_of(x)
        if name not in FLOATS:
            raise DTYPE(f"attention is for floats ({', '.join(FLOATS)}), but {what} has dtype {name}")
        if name != name_of(q):
            raise MIXED(f"{what} has dtype {name}, but q has {name_of(q)}")
        if x._structure.n != structure.n:
            raise COUNTS(f"{what} has {x._structure.n} sequences, but q has {structure.n}")
        outer = q._levels[:-1], x._levels[:-1]
        if all(outer) and not same_levels(*outer):
            raise LEVELS(f"{what} has other outer levels than q")
        if len(x.item_shape) not in (1, 2) or len(x.item_shape) != len(q.item_shape):
            raise SHAPE(
                f"items must have shape (heads, d), or (d,) for one head, in all three batches, but {what} has "
                f"{x.item_shape}" + ("" if x is q else f" and q {q.item_shape}")
            )
    if not k._structure.same_lengths(v._structure):
        raise UNLIKE(f"k has sequences of lengths {shown(k._structure.lengths)}, but v {shown(v._structure.lengths)}")
    if k.item_shape[-1] != q.item_shape[-1]:
        raise SHAPE(f"queries are {q.item_shape[-1]} wide, but keys {k.item_shape[-1]}")
    if k.item_shape[:-1] != v.item_shape[:-1]:
        raise SHAPE(f"k has {k.item_shape[0]} heads, but v has {v.item_shape[0]}")
    heads, groups = _heads(q), _heads(k)
    if (heads % groups if groups else heads) != 0:
        raise SHAPE(f"q has {heads} heads, which {groups} heads of k and v cannot share evenly")
    return name_of(q)


def _heads(x: Encoding) -> int:
    return int(x.item_shape[0]) if len(x.item_shape) == 2 else 1


class _Attention:
    """One call, whose arguments have been checked."""

    def __init__(
        self, operands: tuple[Encoding, Encoding, Encoding], name: str, limits: tuple[int, int], factor: float
    ) -> None:
        q, k, v = operands
        self.shapes = [without_data(x) for x in operands]
        self.name, self.limits, self.factor = name, limits, factor
        self.kind = "float32" if name in HALF else name
        self.heads, self.groups = _heads(q), _heads(k)
        self.deep, self.wide = int(q.item_shape[-1]), int(v.item_shape[-1])
        self.item = (*q.item_shape[:-1], self.wide)

    def rule(self, operands: tuple[Encoding, Encoding, Encoding], back: bool) -> tuple[Any, Pullback | None]:
        """The result, and the pullback."""
        y, out, kept = self.forward(operands)
        if not back:
            return y, None
        library = library_of(out)
        given = [library.alias(in_one_array(x).data) for x in operands]
        out = library.alias(out)
        return y, lambda dy: self.backward(given, out, kept, dy)

    def forward(self, operands: tuple[Encoding, Encoding, Encoding]) -> tuple[Any, Array, Array]:
        """The result, its data in the dtype of the kernel, and what the gradient wants to know besides."""
        q, k, v = (in_one_array(x) for x in operands)
        library, sample = library_of(q.data), q.data
        arrays = [library.astype(x.data, self.kind) for x in (q, k, v)]
        dtype = library.dtype(self.kind)
        out = rows_like(library, q, self.item, dtype, sample)
        kept = rows_like(library, q, (self.heads, 2), dtype, sample)
        if q._structure.rows and self.heads and self.wide:
            here = library is NUMPY or library.kind(sample) == "cpu"
            jobs, costs = self.jobs(q._structure, k._structure)
            begins = _shares(costs * self.heads) if here else _NOTHING
            high, low = (self.deep + 15) & -16, (self.wide + 15) & -16
            room = LANES + KEYS * (high + low + LANES) + LANES * max(high, low) + QUERIES * (high + low + 2)
            units = begins.size - 1
            tiles = _tiles(library, room * max(units, 1) if here else 1, self.kind, sample)
            args = (*self.places((q, k, v)), jobs, begins, room, *self.sizes())
            work = _work(units) if here else Work(q._structure.rows, q._structure.rows)
            inputs = (*arrays, self.scale(library, sample))
            attend_rows.start(library, inputs, (out, kept, tiles), args, self.heads, q._structure, work)
        return operands[0]._with_data(library.astype(out, self.name)), out, kept

    def backward(self, given: list[Array], out: Array, kept: Array, dy: Encoding) -> tuple[Encoding, ...]:
        """The gradients of q, k and v."""
        library, sample = library_of(out), out
        places = [self.laid_out(shape, x) for shape, x in zip(self.shapes, given, strict=True)]
        q, k, v = places
        dtype = library.dtype(self.kind)
        made = [
            rows_like(library, x, shape.item_shape, dtype, sample) for x, shape in zip(places, self.shapes, strict=True)
        ]
        made[0] = library.zeros(made[0].shape, dtype, sample)
        structure, keys = q._structure, k._structure
        if not self.heads or not self.wide:  # there was no result, and nothing is kept
            made = [library.zeros(x.shape, dtype, sample) for x in made]
        elif structure.rows or keys.rows:
            here = library is NUMPY or library.kind(sample) == "cpu"
            costs = (structure.lengths + 1.0) * (keys.lengths + 1.0) * self.heads * 3
            begins = _shares(costs) if here else _NOTHING
            high, low = (self.deep + 15) & -16, (self.wide + 15) & -16
            room = 4 * LANES + 2 * KEYS * (high + low + LANES) + 2 * LANES * (high + low) + 16
            units = begins.size - 1
            tiles = _tiles(library, room * units if here else 1, self.kind, sample)
            args = (*self.places((q, k, v)), begins, room, *self.sizes())
            rows = max(structure.rows, keys.rows)
            work = _work(units) if here else Work(rows, rows)
            arrays = [library.astype(x, self.kind) for x in (*given, out, in_one_array(dy).data)]
            inputs = (*arrays, kept, self.scale(library, sample))
            attend_back.start(library, inputs, (*made, tiles), args, self.heads, structure, work)
        return tuple(
            [shape._with_data(library.astype(d, self.name)) for shape, d in zip(self.shapes, made, strict=True)]
        )

    def laid_out(self, shape: Encoding, data: Array) -> Encoding:
        """An operand, with its data in one array."""
        return shape._with_data(data) if shape._in_one_array else Ragged._sealed(data, shape._structure)

    def jobs(self, structure: Structure, keys: Structure) -> tuple[Array, Array]:
        """Which queries the kernel takes at a time, and how many scores each of these jobs has."""
        counts = -(-structure.lengths // QUERIES)
        sequences = np.repeat(np.arange(structure.n), counts)
        begins = (np.arange(sequences.size) - np.repeat(np.cumsum(counts) - counts, counts)) * QUERIES
        queries = np.minimum(structure.lengths[sequences] - begins, QUERIES)
        jobs = np.stack([sequences, begins], 1).reshape(-1)
        return frozen(jobs.astype(np.int64)), (queries + 1.0) * (keys.lengths[sequences] + 1.0)

    def places(self, batches: tuple[Encoding, Encoding, Encoding]) -> tuple[Any, ...]:
        """Three layouts, and the unit of each sequence in each of them."""
        layouts = [x._layout() for x in batches]
        n = batches[0]._structure.n
        units = np.tile(np.arange(n), (3, 1))
        for own, at in zip(units, layouts, strict=True):
            if at.step != 1:
                own[at.starts] = np.arange(n)
        return (*layouts, frozen(units.reshape(-1)))

    def sizes(self) -> tuple[int, ...]:
        """The numbers that both kernels take."""
        return (self.groups, self.heads // max(self.groups, 1), self.deep, self.wide, *self.limits)

    def scale(self, library: Library, like: Array) -> Array:
        """The scale as kernels take it."""
        scale = np.array([self.factor], self.kind)
        here = library is NUMPY or library.kind(like) == "cpu"
        return scale if here else library.from_host(scale, like)

    def second_order(self, operands: tuple[Encoding, Encoding, Encoding], dy: Encoding) -> tuple[Encoding, ...]:
        """The gradients, made of operations that have gradients themselves."""
        rows = [rows_of(x) for x in (*operands, dy)]
        library = library_of(rows[0])
        widths = (self.heads, self.deep), (self.groups, self.deep), (self.groups, self.wide), (self.heads, self.wide)
        q, k, v, slopes = (
            library.astype(x, self.kind).reshape(x.shape[0], *width) for x, width in zip(rows, widths, strict=True)
        )
        begins, ends = self.shapes[0]._structure.offsets.tolist(), self.shapes[1]._structure.offsets.tolist()
        found: list[list[Array]] = [[], [], []]
        for i in range(len(begins) - 1):
            queries, keys = slice(*begins[i : i + 2]), slice(*ends[i : i + 2])
            for parts, part in zip(
                found, self.dense(library, q[queries], k[keys], v[keys], slopes[queries]), strict=True
            ):
                parts.append(part)
        made = [library.concatenate(parts) if parts else x * 0 for parts, x in zip(found, (q, k, v), strict=True)]
        return tuple(
            [
                restored(
                    Ragged._sealed(
                        library.astype(d, self.name).reshape(shape._structure.rows, *shape.item_shape), shape._structure
                    ),
                    shape,
                )
                for d, shape in zip(made, self.shapes, strict=True)
            ]
        )

    def dense(self, library: Library, q: Array, k: Array, v: Array, slopes: Array) -> tuple[Array, Array, Array]:
        """The gradients of one sequence, ``(rows, heads, width)`` each, with all of its scores at once."""

        def product(a: Array, b: Array) -> Array:
            return library.astype(a @ b, self.kind)  # a library may be told to take products in less

        t, m = q.shape[0], k.shape[0]
        share = self.heads // max(self.groups, 1)
        queries = q.swapaxes(0, 1).reshape(self.groups, share * t, self.deep) * self.factor
        slopes = slopes.swapaxes(0, 1).reshape(self.groups, share * t, self.wide)
        keys, values = k.swapaxes(0, 1), v.swapaxes(0, 1)
        scores = product(queries, keys.swapaxes(1, 2))
        stands, places = np.arange(t)[:, None] + (m - t), np.arange(m)
        seen = (places >= stands - self.limits[0]) & (places <= stands + self.limits[1])
        seen = np.tile(seen, (share, 1))
        host = library.to_numpy(library.alias(scores))
        top = np.where(seen, host, -np.inf).max(-1, keepdims=True, initial=-np.inf)
        top[np.isneginf(top)] = 0
        visible = library.from_host(seen, scores)
        shifted = library.where(visible, scores - library.from_host(top.astype(self.kind), scores), -math.inf)
        powers = library.exp(shifted)
        total = powers.sum(-1)[..., None]
        shares = powers / library.where(total == 0, 1.0, total)
        change = product(slopes, values.swapaxes(1, 2))
        change = shares * (change - (shares * change).sum(-1)[..., None])
        dq = (product(change, keys) * self.factor).reshape(self.heads, t, self.deep).swapaxes(0, 1)
        dk, dv = product(change.swapaxes(1, 2), queries), product(shares.swapaxes(1, 2), slopes)
        return dq, dk.swapaxes(0, 1), dv.swapaxes(0, 1)


def _work(units: int) -> Work:
    """What `start` is told: several units are always for several threads."""
    return Work(units, 1 << 22 if units > 1 else 1)


_NOTHING = frozen(np.zeros(1, np.int64))


def _shares(costs: Array) -> Array:
    """Where the jobs of each unit of work begin, and end, by how many scores they have."""
    sums = np.cumsum(costs)
    units = min(costs.size, 4 * num_threads()) if num_threads() > 1 and costs.size and sums[-1] >= FEW else 1
    begins = np.searchsorted(sums, np.arange(units + 1) * (sums[-1] / units)) if units > 1 else np.zeros(2, np.int64)
    begins[-1] = costs.size
    return frozen(begins.astype(np.int64))


def _tiles(library: Library, size: int, name: str, like: Array) -> Array:
    """Memory for what the kernels keep while they work, on the host as vectors are best read."""
    here = library is NUMPY or library.kind(like) == "cpu"
    if not here:
        return scratch(library, (size,), name, like)
    room = scratch(library, (size + ALIGNED // 4,), name, like)
    skip = -room.ctypes.data % ALIGNED // room.itemsize
    tiles: Array = room[skip : skip + size]
    return tiles
