"""What the library wants to reach, held against what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .cells import OURS

Cell = dict[str, Any]

EVEN = 0.95  # of the best peer's time: as fast, as far as that can be told
A_CALL = 1e-6  # seconds that a checked call on a tiny batch may take more than a peer that checks nothing
MOVES = ("list -> ", "ragged -> ", "padded -> ", "masked -> ", "packed -> ", "select by index")
BIG = ("wide", "many", "ids")


def middle(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def wins(cell: Cell) -> bool:
    """Is it as fast as the best peer?"""
    if cell["ratio"] >= EVEN:
        return True
    times = cell["times"]
    return bool(cell["shape"] == "tiny" and times[OURS]["median"] - times[cell["best peer"]]["median"] <= A_CALL)


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
    times = cell["times"]
    return times[peer]["median"] / times[OURS]["median"] if peer in times else None


def share(cells: list[Cell], reached: Callable[[Cell], bool], least: str) -> str:
    """How many of the cells reach it, and the least of a ratio."""
    met = sum(map(reached, cells))
    return f"{met} of {len(cells)} cells, least {min(cell[least] for cell in cells):.2f}"


def rows(results: dict[str, Any]) -> Iterable[tuple[str, str, bool]]:
    """(what is wanted, what was measured, is it reached?), where there is something to judge by."""
    cells = results["cells"]
    rivals = [c for c in cells if "ratio" in c]
    roofed = [c for c in cells if "of roof" in c]
    large = [c for c in cells if near_the_limit(c)]
    if rivals:
        text = share(rivals, wins, "ratio")
        yield "no cell slower than the best peer (0.95; tiny batches within 1 µs)", text, all(map(wins, rivals))
        mean = middle([c["ratio"] for c in rivals])
        yield "geometric mean of peer / ours above 3", f"{mean:.2f}", mean > 3
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
    yield from _beyond_cells(results)


def _beyond_cells(results: dict[str, Any]) -> Iterable[tuple[str, str, bool]]:
    start = results.get("startup")
    if start:
        ms = {name: 1e3 * t["median"] for name, t in start.items()}
        found = ms["import numpy, seqformats"] - ms["import numpy"]
        yield "import in 60 ms over NumPy", f"{found:.0f} ms", found < 60
        found = ms["one conversion"] - ms["one cached kernel of Numba"]
        yield "the first result, kernels cached, 150 ms after one kernel of Numba's", f"{found:.0f} ms", found <= 150
        found = ms["ten operations, cold cache"]
        yield "ten operations in a process that compiles them, in 5 s", f"{found / 1e3:.1f} s", found < 5000
    memory = results.get("memory")
    if memory:
        worst = max(memory, key=lambda kind: memory[kind][OURS])
        found = memory[worst][OURS]
        yield "memory at most 1.1 times the result", f"{found:.2f} ({worst})", found <= 1.1
    growth = results.get("growth")
    if growth:
        yield _growth(growth)
    threads = results.get("threads")
    if threads and len({row["threads"] for row in threads}) > 1:
        yield _threads(threads)
    if results.get("callers"):
        yield _callers(results["callers"])


def _growth(found: list[dict[str, Any]]) -> tuple[str, str, bool]:
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


def _callers(found: list[dict[str, Any]]) -> tuple[str, str, bool]:
    """What eight callers lose, beside what they lose with a plain copy."""
    copies = {row["shape"]: row for row in found if row["operation"].startswith("plain copy")}

    def kept(row: dict[str, Any]) -> float:
        return float(row["times"]["one"] / row["times"]["eight"])

    ours = [row for row in found if row["operation"][0].islower() and not row["operation"].startswith("plain")]
    shares = {f"{row['operation']}, {row['shape']}": kept(row) / min(1, kept(copies[row["shape"]])) for row in ours}
    name = min(shares, key=shares.__getitem__)
    text = "eight Python threads that call at once lose nothing (0.95), beside a plain copy"
    return text, f"least {shares[name]:.2f} ({name})", shares[name] >= EVEN


def _threads(found: list[dict[str, Any]]) -> tuple[str, str, bool]:
    """The gain of all threads over one, beside that of a plain copy."""
    worst, name = math.inf, ""
    for shape in dict.fromkeys(row["shape"] for row in found):
        here = [row["times"] for row in found if row["shape"] == shape]
        first, last = here[0], here[-1]
        gain = {key: first[key]["median"] / last[key]["median"] for key in first}
        copy = max(gain[key] for key in gain if key.startswith("plain pass"))
        for key, value in gain.items():
            if not key.startswith("plain pass") and value / max(copy, 1) < worst:
                worst, name = value / max(copy, 1), f"{key}, {shape}"
    return "0.9 of the gain that threads bring to a copy", f"least {worst:.2f} ({name})", worst >= 0.9
