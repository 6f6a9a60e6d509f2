"""Choose the candidates of each beam from the scores of all tokens, on the device of the scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Library
from ..launch.grids import SCORE_THREADS, chunks_of
from ..launch.kernel import Numbers, Work, kernel
from .plan import NO_LIMITS, Plan
from .rows import Apart, Candidates, Limits, Lists, RowWork, Scores, Wanted

# What the rows of scores are: logits; log-probabilities; logits that limits act on before they become such
LOGITS, LOG_PROBABILITIES, MASKED = range(3)

# Of how many lists of a row, and for how many rows at a time, a GPU needs memory for the work.
_LISTS, _MOST_WORK = 128, 1 << 23
# The most candidates of a row that `best_of_groups` has room for.
_FEW = 64


class Query(NamedTuple):
    """Scores that the candidates of a step are chosen from, and how many candidates the beams ask for."""

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
        """The limits on what may follow."""
        return NO_LIMITS if self.plan is None else self.plan.limits

    def places(self, width: int) -> int:
        """The most candidates that any beam asks for, and can have of so many tokens."""
        return int(max(min(self.largest, self.longest * width), 1))  # a kernel that is interpreted returns NumPy's


def log_probabilities(library: Library, x: Array, plan: Plan | None) -> Array:
    """The rows of `x`, float32, as log-probabilities; limits act on them before."""
    rows, width = x.shape
    out = library.empty((rows, width), x.dtype, x)
    limits = NO_LIMITS if plan is None else plan.limits
    kernel("log_probabilities").start_named(library, (x,), (out,), (limits,), width, Work(rows, rows))
    return out


def threads_from() -> int:
    """The number of bytes of scores from which on several threads choose."""
    return kernel("best_tokens").get_traits().threads_from


def select(query: Query, per_parent: int | None = None) -> Candidates:
    """The best candidates of every beam, of each row at most `per_parent`."""
    if query.library.kind(query.x) != "cpu":
        found = _on_gpu(query, per_parent, by_beams=True)
        return found if query.apart.begin.size == 0 else _with_apart(found, query.wanted)
    if per_parent is not None:
        return _merge(query, _lists_of_rows(query, per_parent))
    lists = _best_tokens(query, query.wanted)
    return Candidates(lists.values, lists.values, lists.ids, lists.counts, lists.places, query.x.shape[1])


def _with_apart(found: Candidates, wanted: Wanted) -> Candidates:
    """The best of the lists of all beams, behind which are those of what is apart."""
    if found.counts.min(initial=0) < 0:
        return found._replace(counts=found.counts[: wanted.begin.size])  # which say which row is bad
    best = find_used(found)
    return rank(found.values[best], found.ids[best], found.width, wanted._replace(most=2 * wanted.most))


def row_lists(query: Query, per_parent: int | None) -> Candidates:
    """The best candidates of every row, at most `per_parent`.

    Behind the lists of all rows are those of what is apart, from a GPU; elsewhere nothing is where rows have lists.
    """
    if query.library.kind(query.x) != "cpu":
        return _on_gpu(query, per_parent, by_beams=False)
    lists = _lists_of_rows(query, per_parent)
    return Candidates(lists.values, lists.values, lists.ids, lists.counts, lists.places, query.x.shape[1])


def _lists_of_rows(query: Query, per_parent: int | None) -> Lists:
    """A list for each row, on the host."""
    places = _places_of_row(query, per_parent)
    return _best_tokens(query, _each_row(query.wanted, query.x.shape[0], places), places)


def _places_of_row(query: Query, per_parent: int | None) -> int:
    width = query.x.shape[1]
    return min(query.places(width), width, per_parent or width)


def _on_gpu(query: Query, per_parent: int | None, *, by_beams: bool) -> Candidates:
    """The best candidates of every beam, or row, and behind them those of what is apart: one kernel, and one copy."""
    library, x, running, form = query[:4]
    rows, width = x.shape
    numbers = query.numbers
    if numbers is None:
        numbers = Numbers((running, *query.wanted), counters=rows + query.wanted.begin.size)
    lists, parts = query.wanted.begin.size if by_beams else rows, 2 if query.apart.begin.size else 1
    row_places = _places_of_row(query, per_parent)
    places = query.places(row_places) if by_beams else row_places
    chunks = chunks_of(width) if _by_groups(query, row_places) else 0
    if chunks:
        name, units, needed = "best_of_groups", rows * (-(-chunks // 2)), rows * chunks * SCORE_THREADS
    else:
        each = min(row_places, _LISTS) * row_places
        name, units = "best_tokens", min(rows, max(_MOST_WORK // each, _LISTS))
        needed = units * each
    count = parts * lists
    size = count * (1 + 2 * places)
    counts_at = size + parts * rows * row_places
    rest = counts_at + parts * rows
    out = library.empty((rest + needed,), library.dtype("int64"), x)
    work = RowWork(numbers.counters, int(by_beams), count, places, size, row_places, counts_at, rest)
    args: tuple[Any, ...] = (work, query.limits, query.wanted)
    if not chunks:
        args = *args, query.apart
    kernel(name).start_named(library, (Scores(x, running, form),), (out,), args, width, Work(units, rows), numbers)
    found = library.first_to_numpy(out, size) if rows else np.zeros(size, np.int64)  # over no rows no kernel starts
    last = count * (1 + places)
    counts, ids = found[:count], found[count:last]
    values = found[last:].astype(np.int32).view(np.float32)
    return Candidates(values, values, ids, counts, places, width)


def _by_groups(query: Query, places: int) -> bool:
    """Tell whether a GPU may leave out groups of scores by their largest: not where limits change scores."""
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


def _merge(query: Query, lists: Lists) -> Candidates:
    """The best candidates of every beam, of the lists of its rows, on the host."""
    places, count = query.places(lists.places), query.wanted.begin.size
    values, ids = np.empty(count * places, np.float32), np.empty(count * places, np.int64)
    out = Lists(values, ids, np.empty(count, np.int64), places)
    kernel("merge_tokens").run(lists, out, query.wanted)
    return Candidates(values, values, ids, out.counts, places, query.x.shape[1])


def rank(values: Array, ids: Array, width: int, wanted: Wanted, before: tuple[Array, ...] = ()) -> Candidates:
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


def find_used(found: Candidates) -> Array:
    """The places where there is a candidate, beam by beam, in their order."""
    beam = np.repeat(np.arange(found.counts.size), found.counts)
    return beam * found.places + np.arange(beam.size) - np.searchsorted(beam, beam)


def interleave(parts: list[Candidates]) -> Candidates:
    """The candidates of all beams, of which each part has every so many."""
    groups, places = len(parts), max(part.places for part in parts)
    count = parts[0].counts.size

    def join(name: str) -> Array:
        out = np.empty((count, places), getattr(parts[0], name).dtype)
        for g, part in enumerate(parts):
            out[g::groups, : part.places] = getattr(part, name).reshape(count, part.places)[g::groups]
        return out.reshape(-1)

    counts = np.empty(count, np.int64)
    for g, part in enumerate(parts):
        counts[g::groups] = part.counts[g::groups]
    values = join("values")
    return Candidates(values, values, join("ids"), counts, places, parts[0].width)
