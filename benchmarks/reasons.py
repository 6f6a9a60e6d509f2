"""Reasons for missed goals: why a peer is faster in some cells, and why other goals are not reached.

The goals for all cells leave out those of `SAME`: there the peer makes the same call of C, or there is no work to do.

Each sentence comes from a profile or a trial.  A lost cell belongs to the first reason of `LOST` that covers it, so
special reasons come before general ones, and the last one covers the rest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Cell = dict[str, Any]

EVEN = 0.95  # of the best peer's speed: less of a difference cannot be measured


@dataclass(frozen=True)
class Reason:
    """A reason why cells are lost, and the cells."""

    title: str
    text: str
    covers: Callable[[Cell], bool]


def _nothing_to_convert(cell: Cell) -> bool:
    """Tell whether it is a wrapper around a function that takes what the caller has."""
    wanted, _, held = cell["operation"].partition(" on ")
    return cell["family"] == "wrap" and wanted == f"with_{held.lower()}"


def _ends(cell: Cell) -> bool:
    """Tell whether it reads, or writes, one item of each sequence alone."""
    return cell["operation"].startswith(("reduce_first", "reduce_last"))


def _repeats(cell: Cell) -> bool:
    """Tell whether it repeats rows in one thread."""
    sums = ("reduce_sum gradient", "reduce_mean gradient", "reduce_sqrt gradient")
    return cell["threads"] == 1 and cell["operation"] in ("expand", "expand_as", "repeat", *sums)


SAME = (
    Reason(
        "Wrappers with nothing to convert",
        """A `with_*` wrapper around a function that takes the layout which the caller has. Nothing has to be
        converted. This library still checks the batch, each array of a list, and the result; Thinc calls the function.
        At `tiny` these cells have goals of their own.""",
        _nothing_to_convert,
    ),
    Reason(
        "Lists of tensors",
        """ragged -> list makes its views by `torch.split`, as the peer does. The time goes into views that share a
        version counter, one for each sequence. `unsafe_split_with_sizes` takes 0.7 of the time, but its views do not
        share the counter.""",
        lambda cell: (cell["operation"], cell["arrays"]) == ("ragged -> list", "PyTorch"),
    ),
    Reason(
        "Functions of the caller",
        """`map_sequences` calls a function for each sequence, and nearly all of the time is spent in that function.
        Here it is the largest number minus the smallest, which takes 31 of 38 µs at `tiny` and 99 of 100 at 2,000
        sequences in a loop that Numba alone compiles. Numba's `max` and `min` of an array compare one number at a
        time, NumPy's several.""",
        lambda cell: cell["operation"].startswith("map_sequences"),
    ),
    Reason(
        "First and last items of wide",
        """One row of each sequence is read, and these rows are 180 KB apart. Both libraries wait for the memory.""",
        lambda cell: cell["shape"] == "wide" and cell["operation"] in ("reduce_first", "reduce_last"),
    ),
)
"""Cells in which nothing better than the peer is asked for."""

LOST = (
    Reason(
        "With autograd",
        """A sum of a tiny tensor with its gradient takes 135 µs, `segment_reduce` takes 90. PyTorch needs 53 for any
        operation in Python, even one that does nothing. The rest is spent in some 120 functions, forwards and
        backwards, which check the tensor and build the encodings; no single one dominates.""",
        lambda cell: "autograd" in cell["operation"],
    ),
    Reason(
        "Wrappers that give a list of tensors",
        """`with_ragged` of a list of tensors returns a list of tensors, whose views are made by `torch.split` (see
        "Lists of tensors" below).""",
        lambda cell: (cell["operation"], cell["arrays"]) == ("with_ragged on List", "PyTorch"),
    ),
    Reason(
        "A step of the decoder with a small vocabulary",
        """These are steps on tensors. On a Xeon a step takes 43 µs, and PyTorch's 81; on a Zen 5 they take 27 and 26.
        The kernel takes 16 to 26 µs of that. The rest are calls of PyTorch for the small arrays of a step, of 1 to 3
        µs each.""",
        lambda cell: cell["family"] == "beam" and cell["arrays"] == "PyTorch",
    ),
    Reason(
        "Tiny and small batches",
        """An operation without a fast path (`core`) is prepared in Python. It checks whether the data is still what
        was validated, and whether it requires a gradient; finds the kernel; allocates; and builds a valid result.
        These are 10 to 65 functions, which `tests/test_costs.py` counts. The peer is one C function without checks and
        without a structure. An operation with a fast path takes 1 to 3 µs, at least half of which is the kernel: list
        -> ragged copies for 1 of 2 µs, as `np.concatenate` does.""",
        lambda cell: cell["shape"] in ("tiny", "small"),
    ),
    Reason(
        "First and last items",
        """One item of each sequence is read or written. The peer is one C function without checks, which is given the
        positions. This library reads a row of 32 bytes in one access. For `skewed` that takes 1.2 µs (the peer 1.35),
        but 1.6 to 3 if the data begins where each access crosses two cache lines. Two accesses of 16 bytes take 1.45
        wherever the data begins.""",
        _ends,
    ),
    Reason(
        "Repeated rows",
        """Rows of up to 16 bytes are repeated in vectors. Long runs of these, and of rows of 32 bytes, are written
        along cache lines (`skewed`: 1.1 of the peer's speed). Wider rows are copied at the speed of `np.repeat`, which
        the memory limits. If no data is in the cache, `np.repeat` is ahead by a fifth to a third. Copies along cache
        lines take half the time if they stay in the first cache, from 1 KB on, and if the result does not begin with a
        line; but `expand` takes 0.9 of the time at `tiny`, and no less for large batches.""",
        _repeats,
    ),
    Reason(
        "Short sequences",
        """Reading the batch `short` takes 5 ns for each sequence, and a sum 17. Of these, 6 are for the end of the
        sequence, which the CPU cannot predict: with equal lengths a sum took 11. Repeating took 8, and 3.5 with equal
        lengths.""",
        lambda cell: cell["shape"] == "short",
    ),
    Reason(
        "A second thread",
        """One thread moves 13 MB (`wide`) in 0.4 to 1 ms. In a trace on a busy machine it took 130 µs to divide the
        work and to wake a second thread, and then two threads wrote hardly faster than one. So work below 4 MB stays
        in one thread, and so do operations that only read, or only write, less than 16 MB (for 8 to 13 MB two threads
        took up to 1.5 times as long). When these figures were measured the other core was free, and PyTorch's two
        threads wrote `wide` in half the time of one: what is best on a free machine is wrong on a busy one. A second
        thread that looks for work for 0.2 ms before it sleeps does not change this. At `many` both libraries gain.
        Results in new memory vary: list -> ragged took two threads 17 ms in one minute and 60 in another, and one
        thread, in turns with them, 25 in both.""",
        lambda cell: cell["threads"] != 1,
    ),
    Reason("Not examined", "These have not been profiled yet.", lambda _: True),
)

OTHERS = (
    (
        "list -> ragged, expand, expand_as of tiny",
        """They write 46 KB, which takes most of the time. On a Zen 4 a copy of as many bytes takes 1.2 µs, list ->
        ragged 1.9, and `np.concatenate` with lengths 3.7. On a Xeon these are 1.4, 2.5 and 4.7, and prefetching gains
        a twentieth at most. On a third server they are 1.7, 2.3 and 4.4; there the kernel of `expand`, into existing
        memory, takes 1.3 of 1.5 µs (`np.repeat` 2.8).""",
    ),
    (
        "reduce_first of tiny",
        """Its result has 8 rows of 384 bytes. `np.empty` takes 0.19 µs to make that array, and `take` 0.40 in all, so
        the goal is 0.31. The fast path takes 0.25, and the function in Python around it 0.09. Half of that is looking
        the function up in the module and filling in its keyword argument: Python 3.11 has no shortcut for a module
        with a `__getattr__`, nor for keyword-only arguments.""",
    ),
    (
        "ids, many, by time steps",
        """Faster than every peer, but not at the limit. With stores that bypass the cache, moving `ids` took as long
        as the copy: the difference is that each line of the result is read before it is written. Such stores are not
        used, since their results are not in the cache for the next reader.""",
    ),
    (
        "short, by time steps",
        """Sequences of 80 bytes, in the order of their lengths, are read from random places. When they already lay in
        that order, conversion to Packed took 2.8 ms, not 4.1. With equal lengths, and so without padding, conversion
        to Padded took 2.5 ms, not 11.4; most of the difference is writing zeros.""",
    ),
    (
        "Sums and maxima of wide, many and ids",
        """Rows of 256 bytes to 4 KB that come from memory are read one after the other. Four at a time are best on
        another server, and for rows in the cache, but take 1.5 to 2.8 times as long on a Zen 4. Sums read at 0.7
        to 1.1 of the speed of a plain pass, since the partial sums of four rows pass through the first cache once
        more, and maxima at 0.8 to 1.0. Sums of 64 numbers a row stay in registers, which takes 0.8 of the time on a
        Xeon.""",
    ),
    (
        "softmax, logsumexp, topk_mean",
        """softmax, logsumexp and their gradients take 0.7 to 2 ns for each number to calculate the exponential, which
        is more than the memory takes. `topk_mean` compares every item with each of the largest so far, in vectors: k
        passes over what is in the cache.""",
    ),
    (
        "Compiling",
        """An installed wheel contains the machine code of all kernels and compiles nothing. A checkout compiles each
        kernel once on a machine. That takes some seconds for ten operations, three quarters of it in Numba's own
        passes; `python -m seqformats compile` does it in advance.""",
    ),
    (
        "Import",
        """The package adds 32 ms to NumPy's 84, and the first conversion, which loads kernels, adds 4 to 6 more.
        Kernels are loaded without LLVM, whose binding would take 20 to 26.""",
    ),
    (
        "Growth",
        """`select` picks sequences in random order: of a million sequences each is read from memory, of ten thousand
        from the cache. The rectangle of `masked` is as wide as the longest sequence, and that grows with the batch.
        list -> ragged of a million arrays takes 50 ns for each sequence, or 500 in new memory: in a traced call of 497
        ms the operating system took 414 to make the pages, and the next call, which reused them, took 58.""",
    ),
    (
        "Eight callers",
        """A call that releases the GIL must wait to get it back. Below some 100 µs this costs more than it gains, so
        kernels and fast paths keep the GIL below 256 KB.""",
    ),
)


def wins(cell: Cell) -> bool:
    """Tell whether it is as fast as the best peer."""
    return bool(cell["ratio"] >= EVEN)


def same_work(cell: Cell) -> bool:
    """Tell whether the peer makes the same call, or there is no work to do."""
    return any(reason.covers(cell) for reason in SAME)


def spared(cells: Iterable[Cell]) -> list[tuple[Reason, list[Cell]]]:
    """Cells with a peer that does the same work, by the reason."""
    rivals = [cell for cell in cells if "ratio" in cell]
    groups = [(reason, [cell for cell in rivals if reason.covers(cell)]) for reason in SAME]
    return [(reason, some) for reason, some in groups if some]


def lost(cells: Iterable[Cell]) -> list[Cell]:
    """Cells in which a peer is faster, without those in which it does the same work; the worst first."""
    rivals = [cell for cell in cells if "ratio" in cell and not same_work(cell)]
    return sorted((cell for cell in rivals if not wins(cell)), key=lambda cell: cell["ratio"])


def grouped(cells: Iterable[Cell]) -> list[tuple[Reason, list[Cell]]]:
    """Each reason that holds for a lost cell, and its cells."""
    groups: dict[Reason, list[Cell]] = {reason: [] for reason in LOST}
    for cell in lost(cells):
        groups[next(reason for reason in LOST if reason.covers(cell))].append(cell)
    return [(reason, some) for reason, some in groups.items() if some]


def bullet(title: str, text: str) -> list[str]:
    """Write a reason as an item of a list, in lines of at most 120 characters."""
    words = f"- **{title}.** {' '.join(text.split())}"
    return textwrap.wrap(words, 120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
