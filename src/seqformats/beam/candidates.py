"""From the scores of all tokens to the candidates of each beam, on the device of the scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, Library
from ..launch.grids import SCORE_THREADS, chunks_of
from ..launch.kernel import Numbers, Work, kernel
from .plan import NO_LIMITS, Plan
from .rows import Apart, Candidates, Limits, Lists, Scores, Wanted

# What the rows of scores are: logits; log-probabilities; logits that limits act on before they become such
LOGITS, LOGS, MASKED = range(3)

# Of how many lists of a row, and for how many rows at a time, a GPU needs memory for the work.
_LISTS, _MOST_WORK = 128, 1 << 23
# The most candidates of a row that `best_of_groups` has room for.
_FEW = 64


class Query(NamedTuple):
    """What the candidates of a step are chosen from, and how many the beams ask for."""

    library: Library
    x: Array  # (rows, width) float32
    running: Array  # (rows,) float32 on the host, the score of each row so far
    form: int  # what `x` holds
    plan: Plan | None
    wanted: Wanted  # on the host
    apart: Apart  # the same
    longest: int  # the most rows of a beam
    largest: int  # the most candidates that one asks for
    numbers: Numbers | None  # arrays of the step, that a GPU gets at once

    @property
    def limits(self) -> Limits:
        """What may follow."""
        return NO_LIMITS if self.plan is None else self.plan.limits

    def places(self, width: int) -> int:
        """The most candidates that any beam asks for, and can have of so many tokens."""
        return int(max(min(self.largest, self.longest * width), 1))  # a kernel that is interpreted returns NumPy's


class RowLists(NamedTuple):
    """The candidates of each row apart, beside the scores."""

    lists: Lists
    width: int
    buffer: Array | None = None  # on a GPU they lie in one

    def on_host(self, library: Library) -> tuple[Array, Array, Array]:
        """Values and ids, of the candidates alone, and counts; one copy from a GPU.  Of none where a row is bad."""
        values, ids, counts, places = self.lists
        if self.buffer is not None:
            sizes = (counts.shape[0], ids.shape[0])
            found = library.to_numpy(self.buffer)
            numbers = found[: 8 * sum(sizes)].view(np.int64)
            counts, ids, values = numbers[: sizes[0]], numbers[sizes[0] :], found[8 * sum(sizes) :].view(np.float32)
        filled = (np.arange(places) < counts[:, None]).reshape(-1)
        return values[filled], ids[filled], counts


def log_probabilities(library: Library, x: Array, plan: Plan | None) -> Array:
    """The rows of `x`, float32, as log-probabilities; limits act on them before."""
    rows, width = x.shape
    out = library.empty((rows, width), x.dtype, x)
    limits = NO_LIMITS if plan is None else plan.limits
    kernel("log_probabilities").start_named(library, (x,), (out,), (limits,), width, Work(rows, rows))
    return out


def threads_from() -> int:
    """From how many bytes of scores on several threads choose."""
    return kernel("best_tokens").known().threads_from


def select(query: Query) -> Candidates:
    """The best candidates of every beam."""
    apart = query.apart.begin.size > 0
    if query.library.kind(query.x) != "cpu":
        if query.numbers is None:
            query = query._replace(numbers=Numbers((query.running, *query.wanted)))
        of_rows = row_lists(query, None)
        return _with_apart(query, of_rows) if apart else merged(query, of_rows)
    lists = _best_tokens(query, query.wanted)
    return Candidates(lists.values, lists.values, lists.ids, lists.counts, lists.places, query.x.shape[1])


def _with_apart(query: Query, lists: RowLists) -> Candidates:
    """The best of the lists of rows, behind which are those of what is apart."""
    wanted, rows = query.wanted, query.x.shape[0]
    begin, end, most = (np.concatenate(pair) for pair in zip(wanted, wanted, strict=True))
    begin[wanted.begin.size :] += rows
    end[wanted.end.size :] += rows
    found = merged(query._replace(wanted=Wanted(begin, end, most)), lists)
    if found.counts.min(initial=0) < 0:
        return found._replace(counts=found.counts[: wanted.begin.size])  # which say which row is bad
    best = used(found)
    return ranked(found.values[best], found.ids[best], found.width, wanted._replace(most=2 * wanted.most))


def row_lists(query: Query, per_parent: int | None) -> RowLists:
    """The best candidates of every row, at most `per_parent`, where they are.

    Behind the lists of all rows are those of what is apart, on a GPU; elsewhere nothing is where rows have lists.
    """
    library, x, running, form = query[:4]
    rows, width = x.shape
    places = min(query.places(width), width, per_parent or width)
    if library.kind(x) == "cpu":
        return RowLists(_best_tokens(query, _each_row(query.wanted, rows, places), places), width)
    count = 2 * rows if query.apart.begin.size else rows
    int64, size = library.dtype("int64"), count * places
    buffer = library.empty((8 * count + 12 * size,), library.dtype("uint8"), x)
    counts, ids = buffer[: 8 * count].view(int64), buffer[8 * count : 8 * (count + size)].view(int64)
    lists = Lists(buffer[8 * (count + size) :].view(x.dtype), ids, counts, places)
    scores, chunks = Scores(x, running, form), chunks_of(width) if _by_groups(query, places) else 0
    args: tuple[Any, ...]
    if chunks:
        groups, over = library.empty((rows * chunks * SCORE_THREADS,), int64, x), Work(rows * chunks, rows)
        args = query.limits, form, chunks
        kernel("group_scores").start_named(library, (x,), (groups,), args, width, over, query.numbers)
        name, blocks, units, args = "best_of_groups", groups, rows, (query.limits, query.wanted)
    else:
        each = min(places, _LISTS) * places
        units = min(rows, max(_MOST_WORK // each, _LISTS))
        blocks = library.empty((units * each,), int64, x)
        name, args = "best_tokens", (query.limits, query.wanted, query.apart)
    kernel(name).start_named(library, (scores,), (lists, blocks), args, width, Work(units, rows), query.numbers)
    return RowLists(lists, width, buffer)


def _by_groups(query: Query, places: int) -> bool:
    """May a GPU leave out groups of scores by their largest?  Not where limits act on what a score is worth."""
    unlimited = query.form == MASKED or query.plan is None
    return unlimited and places <= _FEW and query.apart.begin.size == 0


def _each_row(wanted: Wanted, rows: int, places: int) -> Wanted:
    """A beam for each row, which asks for as many candidates, of which there are places, as the beam it is in."""
    begin, most = np.arange(rows), np.zeros(rows, np.int64)
    lengths = wanted.end - wanted.begin
    inside = np.repeat(wanted.begin - np.cumsum(lengths) + lengths, lengths)
    most[inside + np.arange(inside.size)] = np.minimum(wanted.most, places).repeat(lengths)
    return Wanted(begin, begin + (most > 0), most)


def _best_tokens(query: Query, wanted: Wanted, places: int = 0) -> Lists:
    """A list for each beam, on the host."""
    rows, width = query.x.shape
    lists, blocks = work(query, wanted, None, places)
    scores = Scores(query.library.operand(query.x), query.running, query.form)
    args = (scores, lists, blocks, query.limits, wanted, query.apart, width)
    kernel("best_tokens").run_over(args, Work(wanted.begin.size, rows), 4 * rows * width)
    return lists


def work(query: Query, wanted: Wanted, before: tuple[Lists, Array] | None, places: int = 0) -> tuple[Lists, Array]:
    """Lists for each beam, and what the kernels need beside them, on the host: those of `before`, if they do.

    So many `places` for each, or as many as it asks for.
    """
    beams, (rows, width) = wanted.begin.size, query.x.shape
    places = places or query.places(width) * (3 if query.apart.begin.size else 1)  # see the kernel
    size = rows * (-(-width // (16 if width <= 1024 else 128)) + 2)
    if before is not None:
        lists, blocks = before
        if lists.places == places and lists.counts.size == beams and blocks.size >= size:
            return before
    values, ids = np.empty(beams * places, np.float32), np.empty(beams * places, np.int64)
    return Lists(values, ids, np.empty(beams, np.int64), places), np.empty(size, np.float32)


def merged(query: Query, found: RowLists) -> Candidates:
    """The best candidates of every beam, of the lists of its rows; one copy from a GPU."""
    library, like, wanted = query.library, query.x, query.wanted
    places = query.places(found.lists.places)
    count = wanted.begin.size
    size = count * places
    if type(found.lists.values) is np.ndarray:
        library, like = NUMPY, found.lists.values
    merged = library.empty((2 * size + count,), library.dtype("float64"), like)
    args, work = (wanted,), Work(count, 0)
    kernel("merge_tokens").start_named(library, (found.lists,), (merged,), args, places, work, query.numbers)
    out = library.to_numpy(merged)
    with np.errstate(invalid="ignore", over="ignore"):  # where there is no candidate there is nothing sensible
        values, ids = out[:size].astype(np.float32), out[size : 2 * size].astype(np.int64)
    return Candidates(values, values, ids, out[2 * size :].astype(np.int64), places, found.width)


def ranked(values: Array, ids: Array, width: int, wanted: Wanted, before: tuple[Array, ...] = ()) -> Candidates:
    """The best of any candidates, on the host, as `select` has them: NaN and -inf are none.

    `before` are keys that count more than the values, the last one most; small ones first.
    """
    begin, end, most = wanted
    count = begin.size
    beam = np.full(int(end.max(initial=0)), -1)
    for b in np.flatnonzero(end > begin).tolist():
        beam[begin[b] : end[b]] = b
    of = np.append(beam, -1)[np.minimum(ids // width, beam.size)]
    order = np.lexsort((ids, -values, *before, of))
    order = order[(values[order] > -np.inf) & (of[order] >= 0)]
    of = of[order]
    rank = np.arange(order.size) - np.searchsorted(of, of)
    kept = rank < most[of]
    order, of, rank = order[kept], of[kept], rank[kept]
    places = max(int(rank.max(initial=0)) + 1, 1)
    best, names = np.empty(count * places, np.float32), np.empty(count * places, np.int64)
    best[of * places + rank], names[of * places + rank] = values[order], ids[order]
    return Candidates(best, best, names, np.bincount(of, minlength=count).astype(np.int64), places, width)


def used(found: Candidates) -> Array:
    """The places where there is a candidate, beam by beam, in their order."""
    beam = np.repeat(np.arange(found.counts.size), found.counts)
    return beam * found.places + np.arange(beam.size) - np.searchsorted(beam, beam)


def interleaved(parts: list[Candidates]) -> Candidates:
    """The candidates of all beams, of which each part has every so many."""
    groups, places = len(parts), max(part.places for part in parts)
    count = parts[0].counts.size

    def joined(name: str) -> Array:
        out = np.empty((count, places), getattr(parts[0], name).dtype)
        for g, part in enumerate(parts):
            out[g::groups, : part.places] = getattr(part, name).reshape(count, part.places)[g::groups]
        return out.reshape(-1)

    counts = np.empty(count, np.int64)
    for g, part in enumerate(parts):
        counts[g::groups] = part.counts[g::groups]
    values = joined("values")
    return Candidates(values, values, joined("ids"), counts, places, parts[0].width)
