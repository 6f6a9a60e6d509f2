"""Why goals are missed: what is known of the cells in which a peer is faster, and of what else is not reached.

Cells of `SAME` are not held against the library, and the goals for all cells leave them out: there the peer makes the
same call of C, or no work is to be done at all.

Each sentence comes from a profile or a trial.  A lost cell belongs to the first of `LOST` that covers it, so a reason
may be as general as `tiny or small` where a special one stands before it.  The last one covers all that is left.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Cell = dict[str, Any]

EVEN = 0.95  # of the best peer's time: as fast, as far as that can be told


@dataclass(frozen=True)
class Reason:
    """Why cells are lost, and which."""

    title: str
    text: str
    covers: Callable[[Cell], bool]


def _nothing_to_convert(cell: Cell) -> bool:
    """Is it a wrapper around a function that wants what the caller holds?"""
    wanted, _, held = cell["operation"].partition(" on ")
    return cell["family"] == "wrap" and wanted == f"with_{held.lower()}"


def _ends(cell: Cell) -> bool:
    """Is one item of each sequence all that it reads, or writes?"""
    return cell["operation"].startswith(("reduce_first", "reduce_last"))


def _repeats(cell: Cell) -> bool:
    """Does it repeat rows, in one thread?"""
    sums = ("reduce_sum gradient", "reduce_mean gradient", "reduce_sqrt gradient")
    return cell["threads"] == 1 and cell["operation"] in ("expand", "expand_as", "repeat", *sums)


SAME = (
    Reason(
        "Wrappers with nothing to convert",
        """A `with_*` wrapper whose function takes the layout that the caller has. There is no work to do: ours checks
        the batch, the arrays of a list one by one, and the result, while Thinc's just calls the function. At `tiny`
        these have goals of their own.""",
        _nothing_to_convert,
    ),
    Reason(
        "Lists of tensors",
        """The views of ragged -> list are made by `torch.split` here too; making a view for each sequence that shares
        its version counter is what takes the time. `unsafe_split_with_sizes` took 0.7 of the time, but its views do not
        share the counter.""",
        lambda cell: (cell["operation"], cell["arrays"]) == ("ragged -> list", "PyTorch"),
    ),
    Reason(
        "Functions of the caller",
        """`map_sequences` calls the function once per sequence, and the function takes nearly all of the time. The
        function measured here, the largest number minus the smallest, took 31 of 38 µs at `tiny` in a loop compiled by
        Numba alone, and 99 of 100 at 2,000 sequences: Numba's `max` and `min` of an array compare one number at a time,
        NumPy's several.""",
        lambda cell: cell["operation"].startswith("map_sequences"),
    ),
    Reason(
        "First and last items of wide",
        """One row of each sequence, 180 KB apart: both do the same gather, which waits for the memory.""",
        lambda cell: cell["shape"] == "wide" and cell["operation"] in ("reduce_first", "reduce_last"),
    ),
)
"""Of which cells nothing better than the peer is asked."""

LOST = (
    Reason(
        "With autograd",
        """A sum of a tiny tensor and its gradient take 135 µs, `segment_reduce` takes 90, and an operation in Python
        that does nothing takes 53, which is what PyTorch needs for any such operation. The rest is spent in some 120
        functions, forwards and backwards, which check the tensor and build the encodings around it; no single one
        dominates.""",
        lambda cell: "autograd" in cell["operation"],
    ),
    Reason(
        "Wrappers that give a list of tensors",
        """`with_ragged` of a list of tensors returns such a list, whose views are made by `torch.split` here too.""",
        lambda cell: (cell["operation"], cell["arrays"]) == ("with_ragged on List", "PyTorch"),
    ),
    Reason(
        "A step of the decoder with a small vocabulary",
        """On tensors. A step takes 43 µs on a Xeon, where PyTorch's takes 81, and 27 beside 26 on a Zen 5; the kernel
        is 16 to 26 of these, and the rest is calls of PyTorch, 1 to 3 µs each, for the small arrays of a step.""",
        lambda cell: cell["family"] == "beam" and cell["arrays"] == "PyTorch",
    ),
    Reason(
        "Tiny and small batches",
        """An operation without a fast path (`core`) is prepared in Python: it checks whether the data is still what was
        validated and whether it requires a gradient, finds the kernel, allocates, and builds a valid result; these
        are 10 to 65 functions, which `tests/test_costs.py` counts. A peer that is one C function, checks nothing and
        knows no structure does none of that. An operation with a fast path takes 1 to 3 µs, at least half of which is
        the kernel: list -> ragged copies for 1 of 2 µs, as `np.concatenate` does.""",
        lambda cell: cell["shape"] in ("tiny", "small"),
    ),
    Reason(
        "First and last items",
        """One item of each sequence is read or written. The peer is one C function, checks nothing and is given the
        positions. A row of 32 bytes is one access here and two of 16 there: 1.2 µs for those of `skewed` where 1.35 are
        the peer's, but 1.6 to 3 if the data begins where each such access crosses the end of a line of the cache. Two
        of 16 took 1.45 here, wherever the data began.""",
        _ends,
    ),
    Reason(
        "Repeated rows",
        """Rows of up to 16 bytes are repeated in vectors, in 0.2 to 0.8 of the time before; long runs of these and of
        32 bytes go along the lines of the cache (`skewed`: 1.1 of the peer's speed, 0.91 before). Wider ones go
        at the speed of `np.repeat`, which the memory limits. Copies that go along the lines of the cache take half the
        time in the first cache, from 1 KB on and if the result does not begin with a line; but `expand` of a tiny batch
        takes 0.9 of it, and of a large one the same. If none of the data is in the cache, `np.repeat` is ahead by a
        fifth to a third.""",
        _repeats,
    ),
    Reason(
        "Short sequences",
        """Reading the batch `short` takes 5 ns per sequence and a sum 17, of which 6 are for the end of the sequence,
        which the CPU cannot predict: with equal lengths it took 11. Repeating took 8, and 3.5 with equal lengths.""",
        lambda cell: cell["shape"] == "short",
    ),
    Reason(
        "A second thread",
        """One thread moves 13 MB (`wide`) in 0.4 to 1 ms. In a trace on a busy machine, dividing the work and waking a
        second thread took 130 µs of that, and then two threads wrote hardly faster than one. So operations that only
        read or only write less than 16 MB stay in one thread (two took up to 1.5 times as long for 8 to 13 MB), and so
        does other work below 4 MB. When these figures were measured, the other core was free, and PyTorch's two threads
        wrote `wide` in half the time of one: what is best on a free machine is wrong on a busy one. A second thread
        that looks for work for 0.2 ms before it sleeps did not change this. At `many` both libraries gain; but for
        results in new memory, the same call took two threads 17 ms in one minute and 60 in another, in turns with one
        thread, which took 25 in both (list -> ragged).""",
        lambda cell: cell["threads"] != 1,
    ),
    Reason("Not examined", "These have not been profiled yet.", lambda _: True),
)

OTHERS = (
    (
        "list -> ragged, expand, expand_as of tiny",
        """They write 46 KB, which takes most of the time: a copy of as many bytes takes 1.2 µs of the 1.9 of list ->
        ragged on a Zen 4 (with `np.concatenate` and lengths 3.7), 1.4 of 2.5 on a Xeon (4.7), where prefetching gained
        a twentieth at most, and 1.7 of 2.3 on another server (4.4); there the kernel of `expand`, into existing memory,
        took 1.3 of 1.5 (with `np.repeat` 2.8).""",
    ),
    (
        "reduce_first of tiny",
        """Its result is 8 rows of 384 bytes: `np.empty` takes 0.19 µs to make that array, and `take` 0.40 in all, so
        0.31 is asked of a call. The fast path in machine code takes 0.25 by itself, and the function in Python around
        it 0.09: half of that is to find it in the module and to fill in its keyword argument, which Python 3.11 does
        without its shortcuts where a module has a `__getattr__`, and for every keyword-only argument.""",
    ),
    (
        "ids, many, by time steps",
        """Faster than every peer, but not at the limit. With stores that bypass the cache, moving `ids` took as long as
        the copy, so the difference is that each line of the result is read before it is written. But results written
        past the cache are not there for the next reader, so such stores are not used.""",
    ),
    (
        "short, by time steps",
        """Sequences of 80 bytes, taken in the order of their lengths, are reads from random places: when they already
        lay in that order, conversion to Packed took 2.8 ms instead of 4.1. With equal lengths, and so without padding,
        conversion to Padded took 2.5 ms instead of 11.4; most of the difference is writing zeros.""",
    ),
    (
        "Sums and maxima of wide, many and ids",
        """Rows of 256 bytes to 4 KB that come from memory are read one after the other. Reading four at a time, which
        another server does best, took a Zen 4 1.5 to 2.8 times as long; what is in its cache is still read so. Sums
        then read at 0.7 to 1.1 of the speed of a plain pass, since the parts of four rows pass through the first cache
        once more, and maxima at 0.8 to 1.0. Sums of 64 numbers a row stay in registers instead, in 0.8 of the time on a
        Xeon.""",
    ),
    (
        "softmax, logsumexp, topk_mean",
        """The first two and their gradients take 0.7 to 2 ns per number for the exponential, more than the memory does.
        The last one compares every item with each of the largest so far, in vectors: k passes over what is in the
        cache.""",
    ),
    (
        "Compiling",
        """An installed wheel contains the machine code of all kernels and compiles nothing. A checkout compiles each
        kernel once per machine, which takes some seconds for ten operations, three quarters of it in Numba's own
        passes; `python -m seqformats compile` does it in advance.""",
    ),
    (
        "Import",
        """The package adds 32 ms to NumPy's 84, and the first conversion, which loads kernels, adds 4 to 6
        more: shipped code is put into memory without LLVM, whose binding took 20 to 26.""",
    ),
    (
        "Growth",
        """`select` picks sequences in random order, so with a million sequences each one is read from memory, and with
        ten thousand from the cache. The rectangle of `masked` is as wide as the longest sequence, which grows with the
        batch. list -> ragged of a million arrays takes 50 ns per sequence, or 500 if its memory is new: the operating
        system took 414 of the 497 ms of a traced call to make the pages, and the next call, which reused them, took
        58.""",
    ),
    (
        "Eight callers",
        """A call that releases the GIL must wait to get it back, and below some 100 µs this costs more than it gains.
        So kernels and fast paths keep the GIL below 256 KB.""",
    ),
)


def wins(cell: Cell) -> bool:
    """Is it as fast as the best peer?"""
    return bool(cell["ratio"] >= EVEN)


def same_work(cell: Cell) -> bool:
    """Does the peer make the same call, or is no work to be done?"""
    return any(reason.covers(cell) for reason in SAME)


def spared(cells: Iterable[Cell]) -> list[tuple[Reason, list[Cell]]]:
    """The cells with a peer that does the same work, by the reason."""
    rivals = [cell for cell in cells if "ratio" in cell]
    groups = [(reason, [cell for cell in rivals if reason.covers(cell)]) for reason in SAME]
    return [(reason, some) for reason, some in groups if some]


def lost(cells: Iterable[Cell]) -> list[Cell]:
    """The cells in which a peer is faster, but for those in which it does the same work; the worst first."""
    rivals = [cell for cell in cells if "ratio" in cell and not same_work(cell)]
    return sorted((cell for cell in rivals if not wins(cell)), key=lambda cell: cell["ratio"])


def grouped(cells: Iterable[Cell]) -> list[tuple[Reason, list[Cell]]]:
    """Each reason that holds for a lost cell, and its cells."""
    groups: dict[Reason, list[Cell]] = {reason: [] for reason in LOST}
    for cell in lost(cells):
        groups[next(reason for reason in LOST if reason.covers(cell))].append(cell)
    return [(reason, some) for reason, some in groups.items() if some]


def bullet(title: str, text: str) -> list[str]:
    """A reason as an item of a list, its lines no longer than those of the code."""
    words = f"- **{title}.** {' '.join(text.split())}"
    return textwrap.wrap(words, 120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
