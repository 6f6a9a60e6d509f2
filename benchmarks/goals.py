"""What the library wants to reach, held against what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .cells import BY_TENTH, OURS, figure
from .reasons import EVEN, same_work, wins

Cell = dict[str, Any]
Row = tuple[str, str, bool]

MOVES = ("list -> ", "ragged -> ", "padded -> ", "masked -> ", "packed -> ", "select by index")
BIG = ("wide", "many", "ids")
TINY = (
    ("list -> ragged", "NumPy concatenate, lengths", 2.0),
    ("list -> padded", "NumPy loop", 2.0),
    ("list -> masked", "NumPy loop", 2.0),
    ("reduce_sum", "Thinc", 3.0),
    ("reduce_mean", "Thinc", 3.0),
    ("reduce_first", "NumPy take", 1.3),
    ("reduce_last", "NumPy take", 1.3),
    ("expand", "NumPy repeat", 2.0),
    ("expand_as", "NumPy repeat", 2.0),
    ("reduce_sum gradient", "NumPy repeat", 2.0),
    ("select by index", "", 2.0),  # whichever peer is the fastest
)
"""Of a tiny batch of NumPy's: the operation, the peer, and how many times as fast it should be."""
SPANS = (
    ("Ragged(data, lengths)", 1.5e-6),
    ("Ragged(data, list of lengths)", 1.5e-6),
    ("with_list on List", 2e-6),
    ("with_ragged on Ragged", 2e-6),
    ("with_padded on Padded", 2e-6),
    ("with_packed on Packed", 2e-6),
    ("with_masked on Masked", 2e-6),
)
"""Of a tiny batch of NumPy's: the operation, and the seconds that it may take."""
TENTHS = ("list -> ragged", "select by index", "expand", "expand_as")
"""What is judged by tenth percentiles on a batch that the caches cannot hold."""


def middle(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def near_the_limit(cell: Cell) -> bool:
    """Is it a move, a sum, a mean or a maximum on a large batch, where memory alone should count?"""
    name = cell["operation"]
    plain = name in ("reduce_sum", "reduce_mean", "reduce_max") or name.startswith(MOVES)
    return plain and cell["shape"] in BIG and "of limit" in cell and "-> list" not in name


def one(cells: list[Cell], name: str, shape: str) -> Cell | None:
    """The cell of arrays of NumPy with one thread."""
    for cell in cells:
        if (cell["operation"], cell["shape"], cell["arrays"], cell["threads"]) == (name, shape, "NumPy", 1):
            return cell
    return None


def over(cell: Cell, peer: str) -> float | None:
    """The time of a peer over ours."""
    times, shape = cell["times"], cell["shape"]
    return figure(times[peer], shape) / figure(times[OURS], shape) if peer in times else None


def share(cells: list[Cell], reached: Callable[[Cell], bool], least: str) -> str:
    """Count the cells that reach it, and find the lowest ratio."""
    met = sum(map(reached, cells))
    return f"{met} of {len(cells)} cells, lowest {min(cell[least] for cell in cells):.2f}"


def rows(results: dict[str, Any]) -> Iterable[Row]:
    """(what is wanted, what was measured, is it reached?), where there is something to judge by."""
    cells = results["cells"]
    yield from _tiny(cells)
    yield from _tenths(cells)
    yield from _all(cells)
    yield from _others(cells)
    yield from _beyond_cells(results)


def _tiny(cells: list[Cell]) -> Iterable[Row]:
    """What single calls on a tiny batch should reach."""
    for name, peer, bar in TINY:
        cell = one(cells, name, "tiny")
        found = over(cell, peer or cell.get("best peer", "")) if cell else None
        if found is not None:
            what = peer or "the best peer"
            yield f"{name} of tiny {bar:g} times as fast as {what}", f"{found:.2f}", found >= bar
    for name, bar in SPANS:
        cell = one(cells, name, "tiny")
        if cell:
            found = figure(cell["times"][OURS], "tiny")
            yield f"{name} of tiny in {1e6 * bar:g} µs", f"{1e6 * found:.2f} µs", found <= bar


def _tenths(cells: list[Cell]) -> Iterable[Row]:
    """What should be as fast as the best peer where it streams through memory."""
    for name in TENTHS:
        cell = one(cells, name, BY_TENTH)
        times = cell["times"] if cell else {}
        if len(times) > 1 and all("p10" in t for t in times.values()):
            found = min(t["p10"] for peer, t in times.items() if peer != OURS) / times[OURS]["p10"]
            text = f"{name} of {BY_TENTH} as fast as the best peer (0.95), by tenth percentiles"
            yield text, f"{found:.2f}", found >= EVEN


def _all(cells: list[Cell]) -> Iterable[Row]:
    """What should hold for every cell, or for their mean."""
    rivals = [c for c in cells if "ratio" in c]
    judged = [c for c in rivals if not same_work(c)]
    tiny = [c for c in judged if c["shape"] == "tiny" and c["arrays"] == "NumPy"]
    if tiny:
        text = share(tiny, lambda c: c["ratio"] >= 1.2, "ratio")
        yield "no tiny batch of NumPy arrays below 1.2 of the best peer", text, all(c["ratio"] >= 1.2 for c in tiny)
    alone = [c for c in judged if c["arrays"] == "NumPy" and c["threads"] == 1]
    for some, which in ((alone, "no cell of NumPy arrays with one thread"), (judged, "no cell at all")):
        if some:
            yield f"{which} below 0.95 of the best peer", share(some, wins, "ratio"), all(map(wins, some))
    for some, which, bar in (
        (rivals, "all cells", 4.0),
        ([c for c in rivals if c["shape"] == "tiny"], "tiny batches", 2.5),
    ):
        if some:
            mean = middle([c["ratio"] for c in some])
            yield f"geometric mean of peer / ours over {which} at least {bar:g}", f"{mean:.2f}", mean >= bar


def _others(cells: list[Cell]) -> Iterable[Row]:
    """The limits of the machine, and some single cells."""
    roofed = [c for c in cells if "of roof" in c]
    large = [c for c in cells if near_the_limit(c)]
    if roofed:
        text = share(roofed, lambda c: c["of roof"] >= 0.7, "of roof")
        yield "0.7 of the roof everywhere", text, all(c["of roof"] >= 0.7 for c in roofed)
    if large:
        text = share(large, lambda c: c["of limit"] >= 0.8, "of limit")
        text_of = "0.8 of the limit in moves, sum, mean and max of wide, many and ids"
        yield text_of, text, all(c["of limit"] >= 0.8 for c in large)
    cell = one(cells, "list -> padded", "small")
    if cell:
        loop, thincs = over(cell, "NumPy loop"), over(cell, "Thinc list2padded")
        if loop is not None:
            yield "list -> padded of small in 1.1 times the time of a NumPy loop", f"{1 / loop:.2f}", loop >= 1 / 1.1
        if thincs is not None:
            yield "list -> padded of small 2.5 times as fast as Thinc", f"{thincs:.1f}", thincs >= 2.5
    for shape in ("small", "wide", "many"):
        cell = one(cells, "reduce_max", shape)
        found = over(cell, "Thinc") if cell else None
        if found is not None:
            yield f"reduce_max of {shape} 8 times as fast as Thinc", f"{found:.1f}", found >= 8


def _beyond_cells(results: dict[str, Any]) -> Iterable[Row]:
    start = results.get("startup")
    if start and "times" in start:
        yield from _start(start)
    memory = results.get("memory")
    if memory:
        worst = max(memory, key=lambda kind: memory[kind][OURS])
        found = memory[worst][OURS]
        yield "memory at most 1.1 times the result", f"{found:.2f} ({worst})", found <= 1.1
    growth = results.get("growth")
    if growth:
        yield _growth(growth)
    counts = results.get("counts")
    if counts:
        yield _switches([row for row in counts["switches"] if row["ours"]])
        yield _faults(counts["faults"])


def _start(start: dict[str, Any]) -> Iterable[Row]:
    """What a fresh process takes over one that imports NumPy alone."""
    times = start["times"]
    for before, first in start["pairs"]:
        found = 1e3 * (times[first]["min"] - times[before]["min"])
        yield f"{first} in 60 ms over NumPy", f"{found:.0f} ms", found <= 60
    cold = start["cold"]
    found = cold["cpu"]
    yield "ten operations with empty caches in 0.3 s of the CPU over NumPy", f"{found:.2f} s", found <= 0.3
    loaded = cold["numba"]
    yield "which do not import Numba", "it is imported" if loaded else "it is not", not loaded


def _growth(found: list[dict[str, Any]]) -> Row:
    """What a sequence of the largest batch costs over one of the smaller, and what that is beside a plain copy."""
    rows = [row for row in found if row["sequences"] >= 10_000]

    def grown(name: str) -> float:
        each = [row["times"][name]["median"] / row["sequences"] for row in rows]
        return float(each[-1] / min(each))

    names = [name for name in rows[0]["times"] if not name.startswith(("Thinc", "plain"))]
    copy = grown("plain copy (NumPy)") if "plain copy (NumPy)" in rows[0]["times"] else 1.0
    worst = max(names, key=grown)
    share = grown(worst) / max(1.0, copy)
    text = "a sequence of a million costs at most twice one of ten thousand, beside a plain copy"
    return text, f"{share:.1f} ({worst}; alone {grown(worst):.1f}, the copy {copy:.1f})", share <= 2


def _switches(found: list[dict[str, Any]]) -> Row:
    """How often eight callers wait for each other."""
    row = max(found, key=lambda row: row["worst"])
    text = "eight Python threads that call at once on a tiny batch: at most 0.02 switches a call"
    return text, f"at most {row['worst']:.3f} ({row['operation']})", row["worst"] <= 0.02


def _faults(found: list[dict[str, Any]]) -> Row:
    """How many new pages a large result takes beside a plain copy of it.

    A block that begins within a huge page has up to 512 small ones before the next, and where it begins is chance.
    """

    def more(row: dict[str, Any]) -> float:
        return float(row["faults"] - 1.1 * row["copy"])

    row = max(found, key=more)
    text = "large results take at most 1.1 times the page faults of a copy of them, and the 512 of one huge page"
    measured = f"at most {row['faults']:.0f} beside {row['copy']:.0f} ({row['operation']}, {row['shape']})"
    return text, measured, more(row) <= 512
