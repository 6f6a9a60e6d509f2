"""Long sequences on a GPU, in pieces of 1,024 rows, since one sequence would be the work of a single block.

The pieces of a batch are sequences themselves, and so are the pieces of each sequence, where every piece has become one
row.  What is calculated of a long sequence is calculated of its pieces first, and then of what has become of them.
Only a sort has no pieces, but passes over all rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Library, freeze
from ..formats import Ragged
from ..formats.rows import lay_out, move
from ..formats.structure import Pieces, Structure
from ..launch.kernel import Kernel, Work, kernel
from ..layout import Constants, Layout

sum_pieces, add_pieces = kernel("sum_pieces"), kernel("add_pieces")
power_pieces, add_powers, spread_powers = kernel("power_pieces"), kernel("add_powers"), kernel("spread_powers")
slope_pieces, spread_slopes = kernel("slope_pieces"), kernel("spread_slopes")
var_rows, vary_pieces = kernel("var_rows"), kernel("vary_pieces")
sum_rows, weigh_rows, share_rows = kernel("sum_rows"), kernel("weigh_rows"), kernel("share_rows")
before_pieces, run_pieces = kernel("before_pieces"), kernel("run_pieces")
repeat_rows, find_rows, first_places = kernel("repeat_rows"), kernel("find_rows"), kernel("first_places")
topk_rows, merge_tops = kernel("topk_rows"), kernel("merge_tops")
key_rows, merge_runs, take_ordered = kernel("key_rows"), kernel("merge_runs"), kernel("take_ordered")

_ONE = Constants(freeze(np.ones(1, np.int64)))


class Job(NamedTuple):
    """A kernel, and what it would be started with where sequences are short."""

    kernel: Kernel
    library: Library
    inputs: tuple[Array, ...]
    out: Any  # an array, or several
    args: tuple[Any, ...]  # the layout first
    width: int
    structure: Structure


def are_long(library: Library, structure: Structure, like: Array) -> bool:
    """Tell whether there are sequences that go in pieces, on the device of `like`."""
    return structure.longest > Pieces.LONG and library.kind(like) == "cuda"


def cut(
    library: Library, data: Array, at: Layout, width: int, structure: Structure
) -> tuple[Array, Layout, Structure, Structure]:
    """The data and the layout of the pieces, their structure, and that of the sequences whose rows they are."""
    pieces: Pieces = structure.pieces
    data, at = in_blocks(library, data, at, width, structure)
    return data, pieces.find_layout(at), pieces.each, pieces.whole


def in_blocks(library: Library, data: Array, at: Layout, width: int, structure: Structure) -> tuple[Array, Layout]:
    """The data of sequences, one after the other where they lay by steps, and their layout."""
    if at.step == 1:
        return data, at
    source = (library, data, at, structure, data, (width,), None)
    return lay_out(source, Ragged).data, structure.flat


def twice(job: Job) -> None:
    """Run a kernel over what it has made of the pieces: the largest of the largest is the largest."""
    kernel, library, inputs, out, (at, *numbers), width, structure = job
    data, at, each, whole = cut(library, inputs[0], at, width, structure)
    parts = library.empty((each.n * width,), out.dtype, out)
    kernel.start(library, (data,), (parts,), (at, *numbers), width, each)
    kernel.start(library, (parts,), (out,), (whole.flat, *numbers), width, whole)


def sum_parts(job: Job) -> None:
    """Sum rows in pieces, with the bits of `sum_rows`."""
    _, library, inputs, out, (at, mode), width, structure = job
    data, at, each, whole = cut(library, inputs[0], at, width, structure)
    parts = sums_of(library, data, out, at, width, each)
    numbers = whole.offsets, structure.offsets, mode
    add_pieces.start(library, (parts,), (out,), numbers, width, whole)


def sums_of(library: Library, data: Array, out: Array, at: Layout, width: int, each: Structure) -> Array:
    """The sums of the pieces, which are the chunks of the rule of summation, those of float32 in float64."""
    name = library.dtype_name(out.dtype)
    wide = library.dtype({"float32": "float64", "complex64": "complex128"}.get(name, name))
    parts = library.empty((each.n * width,), wide, out)
    sum_pieces.start(library, (data,), (parts, out), (at,), width, each)
    return parts


def vary_parts(job: Job) -> None:
    """Calculate what `var_rows` does, in pieces."""
    _, library, inputs, out, (at, deviation, ddof), width, structure = job
    data, at, each, whole = cut(library, inputs[0], at, width, structure)
    sums = sums_of(library, data, out, at, width, each)
    variances = library.empty((each.n * width,), out.dtype, out)
    var_rows.start(library, (data,), (variances,), (at, 0, 0), width, each)
    numbers = whole.offsets, each.offsets, deviation, ddof
    vary_pieces.start(library, (sums, variances), (out,), numbers, width, whole)


def running(job: Job) -> None:
    """Calculate what `cumsum_rows` does; rows after the first piece are within the rounding of its sum."""
    _, library, inputs, out, (own, back), width, structure = job
    data, at, each, whole = cut(library, inputs[0], own, width, structure)
    sums = sums_of(library, data, out, at, width, each)
    before = library.empty((each.n * width,), sums.dtype, out)
    before_pieces.start(library, (sums,), (before,), (whole.offsets, back), width, whole)
    result = out if own.step == 1 else library.empty((structure.rows * width,), out.dtype, out)
    run_pieces.start(library, (data, before), (result,), (at, back), width, each)
    if own.step != 1:
        move(library, result, out, structure.flat, own, width * out.dtype.itemsize, structure)


def find_parts(job: Job) -> None:
    """Find what `find_rows` finds, in pieces."""
    _, library, (data, wanted), out, (at,), width, structure = job
    data, at, each, whole = cut(library, data, at, width, structure)
    spread = library.empty((each.n * width,), wanted.dtype, wanted)
    repeat_rows.start(library, (wanted,), (spread,), (whole.flat,), width * wanted.dtype.itemsize, whole)
    places = library.empty((each.n * width,), out.dtype, out)
    find_rows.start(library, (data, spread), (places,), (at,), width, each)
    first_places.start(library, (places,), (out,), (whole.offsets, each.offsets), width, whole)


def largest(job: Job) -> None:
    """Find the largest as `topk_rows` does, with all that it can find.

    The items of some pieces are merged by a thread per column, and what comes of them again, until they are few.
    """
    _, library, (data,), (out, tops, _), (own, ks, most), width, structure = job
    data, at, each, _ = cut(library, data, own, width, structure)

    def take_means(parts: Structure) -> tuple[Array, Array, Array]:
        """Means that nobody reads, items, and their places, of so many parts of sequences."""
        size = parts.n * width
        places = library.empty((size * most,), library.dtype("int64"), tops)
        return library.empty((size,), out.dtype, out), library.empty((size * most,), tops.dtype, tops), places

    level: Pieces = structure.pieces
    lists, over, rows = take_means(each), each, each.offsets
    topk_rows.start(library, (data,), lists, (at, _ONE, most, 1), width, each)
    while level.whole.longest > Pieces.GROUP:
        level = level.groups
        merged, work = take_means(level.each), Work(level.each.n, level.each.rows)
        merge_tops.start(library, lists[1:], merged, (level.each.offsets, rows, _ONE), width, over, work)
        lists, over, rows = merged, level.each, rows[level.each.offsets]
    merge_tops.start(library, lists[1:], job.out, (level.whole.offsets, rows, ks), width, level.whole)


def powers(job: Job) -> None:
    """Calculate what `softmax_rows` does, in pieces."""
    _, library, (data,), out, (own, log), width, structure = job
    top, total = powers_of(library, data, out, own, width, structure)
    spread_powers.start(library, (top, total, data), (out,), (own, log), width, structure)


def powers_of(
    library: Library, data: Array, out: Array, own: Layout, width: int, structure: Structure
) -> tuple[Array, Array]:
    """A number near the largest item of every sequence, and the sum of ``exp(item - number)``."""
    pieces, at, each, whole = cut(library, data, own, width, structure)
    tops, totals = (library.empty((each.n * width,), out.dtype, out) for _ in range(2))
    top, total = (library.empty((whole.n * width,), out.dtype, out) for _ in range(2))
    power_pieces.start(library, (pieces,), (tops, totals), (at,), width, each)
    add_powers.start(library, (tops, totals), (top, total), (whole.offsets,), width, whole)
    return top, total


def powers_times(job: Job) -> None:
    """Calculate what `spread_exp` does."""
    _, library, (rows, data, _logs), out, (at,), width, structure = job
    top, total = powers_of(library, data, out, at, width, structure)
    factors = library.empty((structure.n * width,), out.dtype, out)
    share_rows.start(library, (rows, total), (factors,), (1,), width, structure)
    spread_powers.start(library, (top, factors, data), (out,), (at, 2), width, structure)


def slopes(job: Job) -> None:
    """Calculate what `softmax_back` does, in pieces."""
    _, library, (dy, y), dx, (own, log), width, structure = job
    pieces, at, each, whole = cut(library, dy, own, width, structure)
    results = pieces if log else cut(library, y, own, width, structure)[0]  # of which a logarithm wants none
    parts, totals = (library.empty((of.n * width,), dx.dtype, dx) for of in (each, whole))
    slope_pieces.start(library, (pieces, results), (parts,), (at, log), width, each)
    sum_rows.start(library, (parts,), (totals,), (whole.flat, 0), width, whole)
    spread_slopes.start(library, (totals, dy, y), (dx,), (own, log), width, structure)


def weigh_parts(job: Job) -> None:
    """Calculate what `weigh_rows` does, in pieces; the weights lie one after the other."""
    _, library, (data, weights), (out, totals), (at, mean, own), width, structure = job
    data, at, each, whole = cut(library, data, at, width, structure)
    parts, none = library.empty((each.n * width,), out.dtype, out), library.empty((1,), out.dtype, out)
    sums = library.empty((whole.n * width,), out.dtype, out) if mean else out
    weigh_rows.start(library, (data, weights), (parts, none), (at, 0, own), width, each)
    sum_rows.start(library, (parts,), (sums,), (whole.flat, 0), width, whole)
    if mean:
        columns = width if own else 1
        masses = library.empty((each.n * columns,), out.dtype, out)
        sum_rows.start(library, (weights,), (masses,), (each.flat, 0), columns, each)
        sum_rows.start(library, (masses,), (totals,), (whole.flat, 0), columns, whole)
        share_rows.start(library, (sums, totals), (out,), (own,), width, whole)


def order_parts(job: Job, kept: Structure) -> None:
    """Order rows as `order_rows` does, without pieces: a pass of the sort is one kernel over the rows of all sequences.

    `kept` has the lengths of the results.
    """
    _, library, (data,), (values, out, keys, ids), (own, to, (*form, wanted)), width, structure = job
    half = structure.rows * width
    now, then = ((keys[part], ids[part]) for part in (slice(half), slice(half, None)))
    data, at = in_blocks(library, data, own, width, structure)
    key_rows.start(library, (data,), now, (at, *form), width, structure)
    few = 1
    while few < structure.longest:
        merge_runs.start(library, now, then, (structure.offsets, few), width, structure)
        now, then, few = then, now, 2 * few
    results, target = [values, out], to
    by_steps = [k for k in range(2) if to.step != 1 and wanted & 1 << k]
    for k in by_steps:
        results[k], target = library.empty((kept.rows * width,), results[k].dtype, results[k]), kept.flat
    take_ordered.start(library, (data, now[1]), tuple(results), (at, target, wanted), width, kept)
    for k in by_steps:
        part = job.out[k]
        move(library, results[k], part, target, to, width * part.dtype.itemsize, kept)
