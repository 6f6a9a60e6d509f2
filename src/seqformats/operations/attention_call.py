"""One call of attention: its forward, its gradient, and how the work is divided."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import NO_INTS, NUMPY, Array, Library, freeze, library_of
from ..arrays.dtypes import HALF
from ..converters.convert import rows_of
from ..formats import Encoding, Ragged
from ..formats.annotations import Operands
from ..formats.call_plans import by_plan, follow_all
from ..formats.leaves import without_data
from ..formats.structure import Structure
from ..gradients.operation import Pullback
from ..launch.kernel import Work, kernel, planning
from ..launch.threads import num_threads
from ..layout import Constants
from ..memory_checks import allocate
from .attention_rows import (
    DRAWS,
    NO_BIAS,
    SLOPES,
    TABLE,
    Answered,
    Attended,
    Attention,
    AttentionJobs,
    AttentionPlaces,
    AttentionReach,
    AttentionSizes,
    AttentionSlopes,
    ScoreTerms,
)
from .calculation import in_one_array, rows_like, scratch
from .companions import one_sequence
from .spread import sum_items

attend_rows, attend_back = kernel("attend_rows"), kernel("attend_back")

TILE_QUERIES = 256
"""How many queries of a sequence the kernel takes at a time: its jobs are cut at these."""
TILE_KEYS, LANES = 128, 32
"""How many keys it keeps, and how many queries lie side by side."""
_MIN_SCORES_FOR_THREADS = 1 << 16
"""Scores, below which there is no work for several threads."""
_VECTOR_ALIGNMENT = 64
"""Bytes at whose multiples vectors are best read."""

_NOTHING = freeze(np.zeros(1, np.int64))
_EMPTY = {name: freeze(np.zeros(0, name)) for name in ("float32", "float64")}


class Choices(NamedTuple):
    """Options of a call, which have been checked."""

    scale: float
    left: int
    right: int
    chunk: int = 0
    prefixes: Array = NO_INTS
    """``(n,)`` int64, at most as long as the keys, or empty."""
    cap: float = 0.0
    form: int = NO_BIAS
    sunk: bool = False
    dropout: float = 0.0
    seed: int = 0

    @property
    def numbers(self) -> tuple[Any, ...]:
        """All of these but the prefixes."""
        return (*self[:4], *self[5:])

    @property
    def drop(self) -> int:
        """Random numbers, of `DRAWS`, below which a weight is dropped."""
        return round(self.dropout * DRAWS)

    @property
    def keep_scale(self) -> float:
        """The factor of a weight that dropout keeps."""
        return DRAWS / (DRAWS - self.drop) if self.drop < DRAWS else 0.0


def heads_of(x: Encoding) -> int:
    """The number of heads of an item."""
    item = x.item_shape
    return int(item[0]) if len(item) == 2 else 1


class AttentionCall:
    """One call, whose arguments have been checked: queries, keys, values, then a bias and sinks if there are some."""

    def __init__(self, operands: tuple[Any, ...], name: str, choices: Choices) -> None:
        q, k, v = operands[:3]
        self.shapes: list[Any] = []  # of these, once there is a pullback
        self.name, self.choices = name, choices
        self.kind = "float32" if name in HALF else name
        self.heads, self.groups = heads_of(q), heads_of(k)
        item = q.item_shape
        self.deep, self.wide = int(item[-1]), int(v.item_shape[-1])
        self.item = (*item[:-1], self.wide)
        self.extras = [library_of(x).dtype_name(x.dtype) for x in operands[3:]]

    def rule(self, operands: tuple[Any, ...], back: bool) -> tuple[Any, Pullback | None]:
        """The result, and the pullback."""
        found = self.forward(operands, back)
        if not back:
            return operands[0]._with_data(found), None
        data, out, kept = found
        y = operands[0]._with_data(data)
        self.shapes = [without_data(x) for x in operands[:3]]
        library = library_of(out)
        given = [library.alias(in_one_array(x).data) for x in operands[:3]]
        places = [self.laid_out(shape, x) for shape, x in zip(self.shapes, given, strict=True)]
        extras = [library.alias(x) for x in operands[3:]]
        out = library.alias(out)
        key = None if extras or self.is_special(*places) else ("attend_back", *_key(places, self.choices, True))
        return y, lambda dy: self.backward(places, extras, out, kept, dy, key)

    def is_special(self, q: Encoding, k: Encoding, v: Encoding) -> bool:
        """Tell whether there is more to a call than a key of plans says."""
        choices = self.choices
        return bool(choices.drop or choices.prefixes.size or not k._structure is v._structure is q._structure)

    def forward(self, operands: tuple[Any, ...], back: bool) -> Any:
        """Data of the result; if `back`, too, the same in the dtype of the kernel, and what else the gradient reads."""
        q, k, v = [x if x._in_one_array else in_one_array(x) for x in operands[:3]]
        extras = operands[3:]
        if self.is_special(q, k, v):
            return self._data(q, k, v, extras, back)
        key = *_key((q, k, v), self.choices, back), *[(x.shape, x.dtype) for x in extras]
        return by_plan(q, (q.data, k.data, v.data, *extras), key, self._data, q, k, v, extras, back)

    def _data(self, q: Encoding, k: Encoding, v: Encoding, extras: tuple[Any, ...], back: bool) -> Any:
        library, _, _ = [x._look() for x in (q, k, v)]
        sample, dtype = q.data, library.dtype(self.kind)
        out = rows_like(library, q, self.item, dtype, sample)
        kept = rows_like(library, q, (self.heads, 2), dtype, sample)
        if q._structure.rows and self.heads and self.wide:
            given = Attended(*[library.astype(x.data, self.kind) for x in (q, k, v)])
            here = library is NUMPY or library.kind(sample) == "cpu"
            places, costs = self.jobs(q._structure, k._structure)
            begins = _shares(costs * self.heads) if here else _NOTHING
            high, low = (self.deep + 15) & -16, (self.wide + 15) & -16
            room = LANES + TILE_KEYS * (high + low + LANES) + LANES * max(high, low) + TILE_QUERIES * (high + low + 2)
            terms, more = self.terms(library, extras)
            units = begins.size - 1
            tiles = _tiles(library, (room + more) * max(units, 1), self.kind, sample) if here else out
            jobs = AttentionJobs(places, begins, room + more, 0)
            work = _work(units) if here else Work(q._structure.rows, q._structure.rows)
            args = (self.places((q, k, v)), self.reach(), jobs, self.sizes())
            outputs = (Attention(out, kept), tiles)
            attend_rows.start_named(library, (given, terms), outputs, args, self.heads, work, q._structure)
        data = library.astype(out, self.name)
        return (data, out, kept) if back else data

    def backward(
        self, places: list[Any], extras: list[Array], out: Array, kept: Array, dy: Encoding, key: tuple[Any, ...] | None
    ) -> tuple[Any, ...]:
        """The gradients of q, k and v, and of a bias and sinks if there are some; by a plan where there is a key."""
        library, choices = library_of(out), self.choices
        q, k, v = places
        slopes = in_one_array(dy).data
        if key is None:
            *made, bias, sinks = self._slopes(places, extras, out, kept, slopes)
        else:
            inputs = q.data, k.data, v.data, out, kept, slopes
            args: tuple[Any, ...] = places, [], out, kept, slopes
            made = by_plan(q, inputs, (key, slopes.dtype), self._slopes_of_rows, *args)
        found: list[Any] = [
            shape._with_data(library.astype(d, self.name)) for shape, d in zip(self.shapes, made, strict=True)
        ]
        names = iter(self.extras)
        if choices.form:
            found.append(library.astype(self.sum(q, bias) if choices.form == SLOPES else bias, next(names)))
        if choices.sunk:
            found.append(library.astype(self.sum(q, sinks), next(names)))
        return tuple(found)

    def _slopes_of_rows(self, *args: Any) -> tuple[Array, ...]:
        """The gradients of q, k and v in the dtype of the kernel."""
        return self._slopes(*args)[:3]

    def _slopes(
        self, places: list[Any], extras: list[Array], out: Array, kept: Array, slopes: Array
    ) -> tuple[Array, ...]:
        """The gradients in the dtype of the kernel; those of a bias and sinks by query."""
        library, sample = library_of(out), out
        q, k, v = places
        dtype = library.dtype(self.kind)
        items = [shape.item_shape for shape in self.shapes]
        made = [allocate(library.zeros, (*q._shape[: q._lead], *items[0]), dtype, sample)]
        made += [rows_like(library, x, item, dtype, sample) for x, item in zip(places[1:], items[1:], strict=True)]
        bias, sinks = self.extra_slopes(library, q, extras, sample)
        slopes = library.astype(slopes, self.kind)
        structure, keys = q._structure, k._structure
        if not self.heads or not self.wide:  # there was no result, and nothing is kept
            made = [library.zeros(x.shape, dtype, sample) for x in made]
        elif structure.rows or keys.rows:
            here = library is NUMPY or library.kind(sample) == "cpu"
            costs = (structure.lengths + 1.0) * (keys.lengths + 1.0) * self.heads * 3
            by_group = self.choices.form == TABLE
            begins = (
                _shares(np.full(self.groups, costs.sum() / max(self.groups, 1)) if by_group else costs)
                if here
                else _NOTHING
            )
            high, low = (self.deep + 15) & -16, (self.wide + 15) & -16
            room = 4 * LANES + 2 * TILE_KEYS * (high + low + LANES) + 2 * LANES * (high + low) + 16
            terms, more = self.terms(library, extras)
            units = begins.size - 1
            tiles = _tiles(library, (room + more) * units, self.kind, sample) if here else made[0]
            jobs = AttentionJobs(NO_INTS, begins, room + more, int(by_group))
            rows = max(structure.rows, keys.rows)
            work = _work(units) if here else Work(rows, rows)
            rows_q, rows_k, rows_v = [library.astype(x.data, self.kind) for x in places]
            known = Answered(rows_q, rows_k, rows_v, out, slopes, kept)
            args = (self.places((q, k, v)), self.reach(), jobs, self.sizes())
            outputs = (AttentionSlopes(made[0], made[1], made[2], bias, sinks), tiles)
            attend_back.start_named(library, (known, terms), outputs, args, self.heads, work, structure)
        return *made, bias, sinks

    def extra_slopes(self, library: Library, q: Encoding, extras: list[Array], like: Array) -> tuple[Array, Array]:
        """Zeros to which the kernel adds the gradients of the bias and the sinks; of one number per head by query."""
        by_query = (*q._shape[: q._lead], self.heads)
        made = [_EMPTY[self.kind], _EMPTY[self.kind]]
        for k, given in enumerate((self.choices.form != NO_BIAS, self.choices.sunk)):
            if given:
                shape = tuple(extras[0].shape) if k == 0 and self.choices.form == TABLE else by_query
                made[k] = library.zeros(shape, library.dtype(self.kind), like)
        return made[0], made[1]

    def sum(self, q: Encoding, each: Array) -> Array:
        """The sum over all queries of numbers ``(rows, heads)`` in the layout of the queries."""
        batch = q._with_data(each)
        total: Array = sum_items(Ragged._freeze(rows_of(batch), one_sequence(q._structure.rows)))[0]
        return total

    def laid_out(self, shape: Encoding, data: Array) -> Encoding:
        """An operand, with its data in one array."""
        return shape._with_data(data) if shape._in_one_array else Ragged._freeze(data, shape._structure)

    def jobs(self, structure: Structure, keys: Structure) -> tuple[Array, Array]:
        """Which queries the kernel takes at a time, and how many scores each of these jobs has."""
        if structure.longest <= TILE_QUERIES:
            sequences = np.flatnonzero(structure.lengths)
            each = np.zeros((sequences.size, 2), np.int64)
            each[:, 0] = sequences
            return each.reshape(-1), (structure.lengths[sequences] + 1.0) * (keys.lengths[sequences] + 1.0)
        counts = -(-structure.lengths // TILE_QUERIES)
        sequences = np.repeat(np.arange(structure.n), counts)
        begins = (np.arange(sequences.size) - np.repeat(np.cumsum(counts) - counts, counts)) * TILE_QUERIES
        queries = np.minimum(structure.lengths[sequences] - begins, TILE_QUERIES)
        jobs = np.stack([sequences, begins], 1).reshape(-1)
        return freeze(jobs.astype(np.int64)), (queries + 1.0) * (keys.lengths[sequences] + 1.0)

    def places(self, batches: tuple[Encoding, Encoding, Encoding]) -> AttentionPlaces:
        """Three layouts, and the unit of each sequence in each of them."""
        layouts = q, k, v = [x._layout() for x in batches]
        n = batches[0]._structure.n
        if q.step == k.step == v.step == 1:
            return AttentionPlaces(q, k, v, _in_turn(n))
        units = np.tile(np.arange(n), (3, 1))
        for own, at in zip(units, layouts, strict=True):
            if at.step != 1:
                own[at.starts] = np.arange(n)
        return AttentionPlaces(q, k, v, freeze(units.reshape(-1)))

    def sizes(self) -> AttentionSizes:
        """Sizes of an item."""
        return AttentionSizes(self.groups, self.heads // max(self.groups, 1), self.deep, self.wide)

    def reach(self) -> AttentionReach:
        """Which keys a query sees."""
        choices = self.choices
        return AttentionReach(choices.left, choices.right, choices.chunk, choices.prefixes)

    def terms(self, library: Library, extras: Operands) -> tuple[ScoreTerms, int]:
        """Terms of the scores, and how much more room they want."""
        choices = self.choices
        if not (extras or choices.cap or choices.dropout):
            return _plain_terms(choices.scale, self.kind), 0
        empty = _EMPTY[self.kind]
        left = [library.astype(x, self.kind) for x in extras]
        bias = left.pop(0) if choices.form else empty
        sinks = left.pop(0) if choices.sunk else empty
        rows, columns = (int(n) for n in bias.shape[1:]) if choices.form == TABLE else (0, 0)
        changes = (choices.form != NO_BIAS) + 2 * (choices.cap > 0) + 4 * (choices.drop > 0)
        factors = Constants(freeze(np.array([choices.scale, choices.cap, choices.keep_scale], self.kind)))
        sunk, drop = int(choices.sunk), choices.drop
        terms = ScoreTerms(factors, bias, sinks, rows, columns, choices.form, changes, sunk, drop, choices.seed)
        return terms, 4 * TILE_KEYS * LANES if changes or sunk else 0


def may_follow(operands: tuple[Any, ...]) -> bool:
    """Tell whether these are queries, keys and values of one structure, on a GPU, of whose calls there may be plans."""
    if not planning or not all(issubclass(type(x), Encoding) and x._can_plan and not x.keeps_levels for x in operands):
        return False
    q, k, v = operands
    return type(q.data) is not np.ndarray and k._structure is v._structure is q._structure


def attend_by_plan(q: Any, k: Any, v: Any, choices: Choices) -> Any:
    """The result by the plan of an earlier call, which has checked the like; None where there is none."""
    found = follow_all(q, (q.data, k.data, v.data), _key((q, k, v), choices, False))
    return None if found is None else q._with_data(found)


def _key(operands: Sequence[Any], choices: Choices, back: bool) -> tuple[Any, ...]:
    """Key of the plan of a call, all that its checks look at beside what `by_plan` adds of the queries."""
    q, k, v = operands
    rest = [(x._dtype, x.data.__class__, x.__class__, x._shape, x._unshaped) for x in (k, v) if x is not q]
    return "attention", back, k is q, v is q, *choices.numbers, *rest


def kept_weights(choices: Choices, heads: int, i: int, t: int, m: int) -> Array:
    """The factors ``(heads, t, m)`` of the weights of sequence i, as the kernels draw them for dropout."""
    words: list[Array] = [x.astype(np.uint64) for x in np.ogrid[:heads, :t, : -(-m // 8)]]
    counter: list[Any] = [words[2], np.uint64(i), words[1], words[0] | np.uint64(1 << 31)]
    four = philox(counter, choices.seed & 0xFFFFFFFF, choices.seed >> 32)
    halves = [half for word in four for half in (word & np.uint64(0xFFFF), word >> np.uint64(16))]
    bits = np.stack(halves, -1).reshape(heads, t, -(-m // 8) * 8)[:, :, :m]
    return np.where(bits >= choices.drop, choices.keep_scale, 0.0)


def philox(counter: list[Any], low: int, high: int) -> list[Array]:
    """Four random numbers of 32 bits of each counter, Philox4x32-10, as `kernels.parts.random` has it."""
    mask = np.uint64(0xFFFFFFFF)
    c: list[Array] = list(np.broadcast_arrays(*counter))
    for turn in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        keys = [np.uint64((k + turn * step) & 0xFFFFFFFF) for k, step in ((low, 0x9E3779B9), (high, 0xBB67AE85))]
        c = [(b >> np.uint64(32)) ^ c[1] ^ keys[0], b & mask, (a >> np.uint64(32)) ^ c[3] ^ keys[1], a & mask]
    return c


def _work(units: int) -> Work:
    """Return the number of units for `start`: several are always for several threads."""
    return Work(units, 1 << 22 if units > 1 else 1)


def _shares(costs: Array) -> Array:
    """Divide the jobs over units of work, by the number of their scores."""
    sums = np.cumsum(costs)
    several = num_threads() > 1 and costs.size and sums[-1] >= _MIN_SCORES_FOR_THREADS
    units = min(costs.size, 4 * num_threads()) if several else 1
    begins = np.searchsorted(sums, np.arange(units + 1) * (sums[-1] / units)) if units > 1 else np.zeros(2, np.int64)
    begins[-1] = costs.size
    return freeze(begins.astype(np.int64))


def _tiles(library: Library, size: int, name: str, like: Array) -> Array:
    """Memory of the host for what the kernels keep while they work, as vectors are best read."""
    room = scratch(library, (size + _VECTOR_ALIGNMENT // 4,), name, like)
    skip = -room.ctypes.data % _VECTOR_ALIGNMENT // room.itemsize
    tiles: Array = room[skip : skip + size]
    return tiles


@functools.lru_cache(maxsize=64)
def _in_turn(n: int) -> Array:
    """The units of three layouts in blocks, where each is the sequence of its number."""
    return freeze(np.concatenate([np.arange(n)] * 3))


@functools.lru_cache(maxsize=64)
def _plain_terms(scale: float, kind: str) -> ScoreTerms:
    """The terms of scores that are scaled and nothing else."""
    factors = Constants(freeze(np.array([scale, 0.0, 1.0], kind)))
    return ScoreTerms(factors, _EMPTY[kind], _EMPTY[kind], 0, 0, NO_BIAS, 0, 0, 0, 0)
