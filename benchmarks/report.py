"""Writes what was measured: tables in Markdown, everything in JSON, and the plots."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

from . import plots
from .cells import OURS
from .data import SHAPES, SPREAD
from .goals import EVEN, middle, wins
from .goals import rows as goals

KEY = ("family", "operation", "shape", "arrays", "device", "threads")
TITLES = {
    "moves": "Conversions and selection",
    "reduce": "Reductions and their gradients",
    "sequence": "Along each sequence",
    "nested": "Nested lists",
    "steps": "Time steps",
    "wrap": "Wrappers around a function that does nothing",
    "beam": "Beam search",
}


METHOD = """\
Each cell is one operation on one batch. This library, its peers and a plain pass over the same bytes take turns in one
process, in an order that goes round; a turn is one call, or as many as take 1 ms. Times are medians, with the
quartiles in brackets. Results are compared before anything is timed. Tensors are compared with PyTorch; arrays with
Thinc, Awkward, pyarrow and what NumPy users write.

**peer / ours** is the time of the fastest peer over ours: 1 and more is as fast or faster. **limit / ours** is the time
of a plain pass over ours: what is both read and written is copied once into new memory, what is only written is zeroed,
what is only read is summed. **roof / ours** adds to that pass one call of a compiled function that does nothing. No
limit is given where nothing is moved. Some peers are given more than they get in use
(offsets, the longest length, a mask); the files in `benchmarks/` say what."""


WHY = """\
What is known of what is not reached, each by a profile or a trial on such a machine:

- **Tiny and small batches.** Python decides here. The kernels of list -> ragged at `tiny` take 2 of 7.5 µs, those of
  ragged -> padded 3 of 12, and the check of a new `Ragged` 5 before that. The rest is Python: looking whether the data
  is still what was validated and whether it wants a gradient, finding the kernel, allocating, building a valid result;
  10 to 65 functions, which `tests/test_costs.py` counts. Plain batches have a short way: a sum takes 4.6 µs, 1.6 of it
  the kernel, and 11.5 the long way; ragged -> padded 17 instead of 25, selection 8 instead of 19. A peer that is one
  C function, checks nothing and knows no structure (a NumPy index, `segment_reduce`) has none of that. Of the 12 µs of
  a sum of tensors 8 go into PyTorch's own calls: is the memory still there, a new tensor, two views.
- **With autograd.** A sum of a tiny tensor and its gradient take 135 µs, `segment_reduce` 90, and an operation in
  Python that does nothing 53, since PyTorch takes that long for any; the rest are some 120 functions, on both ways a
  look at the tensor and the encodings built around it, of which no single one dominates.
- **Wrappers with nothing to convert** look at the batch and at the result, 2 to 5 µs, and at a list's arrays, one by
  one; Thinc's call the function.
- **ragged -> list on tensors.** `torch.split` makes the views here too; a view for each sequence that shares its
  version counter is what takes the time. `unsafe_split_with_sizes` took 0.7 of it, but its views do not share the
  counter.
- **ids, many, by time steps.** Ahead of every peer, but not at the limit. With stores that go past the cache the move
  of ids took as long as the copy, so what is missing is the reading of each line of the result before it is written.
  What is written past the cache is not there for whoever reads it next, so such stores are not used.
- **short, by time steps.** Sequences of 80 bytes in the order of their lengths are reads from anywhere: where they
  lay in that order already, to Packed took 2.8 ms instead of 4.1. With equal lengths, and so without padding, to
  Padded took 2.5 ms instead of 11.4, of which the zeros are most.
- **short, sequence by sequence.** A read of the batch takes 5 ns a sequence, a sum 17, of which 6 are the end that no
  CPU foresees: with equal lengths it took 11. Repeating took 8, and 3.5 with equal lengths.
- **expand_as and the gradients of sums.** Rows of 16 bytes and less are repeated in vectors, in 0.2 to 0.8 of the time
  that they took. Wider ones are written at the speed that `np.repeat` has too: with one thread the kernel took 0.93 to
  1.0 of its time for rows of 224, 240, 272 and 384 bytes, but 1.4 for rows of 256, and eight stores without a loop
  did not change that; where nothing of it is in the cache, `np.repeat` is ahead by a fifth to a third.
- **reduce_max** of `wide` and `many`: a plain read of the batch was 7.7 and 8.6 times as fast as Thinc, so 8 is about
  the limit; ours reads at 0.61 and 0.75 of it, with a row of maxima that is read and written once for four rows.
- **softmax, logsumexp** and their gradients take 0.7 to 2 ns a number for the exponential, more than memory does;
  **topk_mean** compares every item with each of the largest so far, in vectors: k passes over what is in the cache.
- **A step of the decoder with a small vocabulary, on tensors.** Its kernels take about 100 µs of it; the rest is
  calls of PyTorch, 1 to 3 µs each, for the small arrays of a step.
- **Compiling.** Ten operations need eleven kernels. Numba takes 1.3 s to be imported and to compile anything at all,
  and 0.14 s for a loop over an array; of the rest, which is longer kernels, LLVM takes a third and Numba's own passes
  two. That is once on a machine; then kernels are read from the disk.
- **Import** took 43, 58, 62 and 69 ms over NumPy in four runs of one day, whose machine changes its speed by half:
  the same import of NumPy alone took 151 to 176 ms.
- **Growth.** `select` picks sequences in random order, so with a million each is a read from memory, and with ten
  thousand from the cache. The rectangle of `masked` is as wide as the longest, which grows with the batch. list ->
  ragged of a million arrays takes 50 ns a sequence, or 500 where its memory is new: 414 of 497 ms of a traced call
  were the system's, which made the pages, and the next call, which got them again, took 58.
- **Threads at `wide`.** 13 MB are moved in 0.4 to 1 ms by one thread. In a trace, dividing the work and waking a
  second one took 130 µs of that, and then two threads wrote at little more than the speed of one. So what only reads,
  or only writes, less than 16 MB stays with one thread (two took up to 1.5 times as long for 8 to 13 MB), and other
  work below 4 MB. A second thread that looks for work for 0.2 ms before it sleeps, as PyTorch's do, did not change it.
  At `many` both gain; but where they write new memory, the same call took two threads 17 ms in one minute and 60 in
  another, in turns with one thread, which took 25 in both (list -> ragged).
- **Eight callers.** A kernel lets other Python threads run, and then waits for its turn. Below some 100 µs that costs
  more than it brings: with kernels that kept the interpreter for themselves eight callers of `tiny` kept 0.72 instead
  of 0.4, but softmax at `small` lost what it gains, 0.83 instead of 1.65. So kernels let go."""


def span(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            value = seconds * factor
            digits = max(0, 2 - math.floor(math.log10(value))) if value >= 0.01 else 2
            return f"{value:.{min(digits, 2)}f} {unit}"
    raise AssertionError


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 9.95 else f"{value:.0f}"


def line(cell: dict[str, Any]) -> str:
    """A cell as one line of text."""
    times = "   ".join(f"{name} {span(t['median'])}" for name, t in cell["times"].items())
    where = f"{cell['operation']:32} {cell['shape']:16} {cell['arrays']:8} {cell['threads']!s:8}"
    return f"{where} {ratio(cell.get('ratio')):>5} {ratio(cell.get('of limit')):>5}   {times}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]], left: int = 1) -> list[str]:
    """A table in Markdown; the first columns stand on the left."""
    head = list(head)
    rule = ["---" if k < left else "---:" for k in range(len(head))]
    return ["| " + " | ".join(row) + " |" for row in [head, rule, *map(list, rows)]]


def spread(t: dict[str, float]) -> str:
    """Median and quartiles."""
    return f"{span(t['median'])} ({span(t['low'])} to {span(t['high'])})"


def shapes() -> list[str]:
    rows = []
    for name, shape in SHAPES.items():
        if " x " in name:
            continue
        item = " x ".join(map(str, shape.item)) or "one number"
        what = f"about {shape.mean}"
        if name == "skewed":
            what = "one of 10,000, the others of 10"
        if name == "text":
            what = "words of the sentences in the docstrings of the standard library"
        rows.append([name, f"{shape.n:,}", what, item, shape.dtype])
    text = f"Lengths are log-normal (sigma = {SPREAD}, at most twice the mean) unless said; seeds are fixed."
    return [*table(["batch", "sequences", "items a sequence", "item", "dtype"], rows, 5), "", text]


def family(cells: list[dict[str, Any]], threads: object) -> list[str]:
    """Two tables, one for each library of arrays."""
    lines: list[str] = []
    for arrays in ("NumPy", "PyTorch"):
        rows = []
        for cell in cells:
            if cell["arrays"] != arrays or cell["threads"] != threads:
                continue
            best = cell.get("best peer")
            rows.append(
                [
                    cell["operation"],
                    cell["shape"],
                    spread(cell["times"][OURS]),
                    spread(cell["times"][best]) if best else "",
                    best or "",
                    ratio(cell.get("ratio")),
                    ratio(cell.get("of limit")),
                    ratio(cell.get("of roof")),
                ]
            )
        if rows:
            lines += [f"#### {arrays} arrays, {'one thread' if threads == 1 else 'as many threads as each takes'}", ""]
            ratios = ["peer / ours", "limit / ours", "roof / ours"]
            head = ["operation", "batch", "seqformats", "best peer", "which", *ratios]
            lines += [*table(head, rows, 2), ""]
    return lines


def summary(cells: list[dict[str, Any]]) -> list[str]:
    """For each family: how many cells, how many are won, and by how much."""
    rows = []
    for name, title in TITLES.items():
        for threads in (1, "default"):
            ratios = [c["ratio"] for c in cells if c["family"] == name and c["threads"] == threads and "ratio" in c]
            if not ratios:
                continue
            limits = [c["of limit"] for c in cells if c["family"] == name and c["threads"] == threads and "limit" in c]
            rows.append(
                [
                    title,
                    "one" if threads == 1 else "default",
                    str(len(ratios)),
                    str(sum(r >= 1 for r in ratios)),
                    str(sum(r < EVEN for r in ratios)),
                    ratio(middle(ratios)),
                    ratio(min(ratios)),
                    ratio(middle(limits)) if limits else "",
                ]
            )
    head = [
        "family",
        "threads",
        "cells with a peer",
        "≥ 1",
        "< 0.95",
        "peer / ours, mean",
        "least",
        "limit / ours, mean",
    ]
    return table(head, rows, 2)


def losses(cells: list[dict[str, Any]]) -> list[str]:
    """Where a peer is faster by more than a twentieth."""
    lost = sorted((c for c in cells if "ratio" in c and not wins(c)), key=lambda c: c["ratio"])
    if not lost:
        return ["No cell is below 0.95 of its best peer."]
    head = ["operation", "batch", "arrays", "threads", "seqformats", "best peer", "which", "peer / ours"]
    rows = [
        [
            c["operation"],
            c["shape"],
            c["arrays"],
            "one" if c["threads"] == 1 else "default",
            span(c["times"][OURS]["median"]),
            span(c["times"][c["best peer"]]["median"]),
            c["best peer"],
            ratio(c["ratio"]),
        ]
        for c in lost
    ]
    return table(head, rows, 4)


def start_up(found: dict[str, dict[str, float]]) -> list[str]:
    rows = [
        [name, f"{1e3 * t['median']:.0f}", f"{1e3 * t['low']:.0f} to {1e3 * t['high']:.0f}"]
        for name, t in found.items()
    ]
    return table(["a fresh process", "ms", "quartiles"], rows)


def peaks(found: dict[str, dict[str, float]]) -> list[str]:
    names = sorted({name for row in found.values() for name in row}, key=lambda name: (name != OURS, name))
    rows = [[kind, *(ratio(row.get(name)) for name in names)] for kind, row in found.items()]
    return table(["conversion", *names], rows)


def grown(found: list[dict[str, Any]]) -> list[str]:
    names = list(found[0]["times"])
    rows = [
        [name, *(f"{1e9 * row['times'][name]['median'] / row['sequences']:.0f}" for row in found)] for name in names
    ]
    return table(["nanoseconds a sequence", *(f"{row['sequences']:,}" for row in found)], rows)


def scaled(found: list[dict[str, Any]]) -> list[str]:
    rows = []
    for shape in dict.fromkeys(row["shape"] for row in found):
        here = [row["times"] for row in found if row["shape"] == shape]
        rows += [[name, shape, *(span(times[name]["median"]) for times in here)] for name in here[0]]
    counts = list(dict.fromkeys(row["threads"] for row in found))
    return table(["operation", "batch", *(f"{k} threads" if k > 1 else "1 thread" for k in counts)], rows, 2)


def called(found: list[dict[str, Any]]) -> list[str]:
    rows = []
    for row in found:
        one, eight = row["times"]["one"], row["times"]["eight"]
        rows.append([row["operation"], row["shape"], span(one), span(eight), ratio(one / eight)])
    return table(["operation", "batch", "one caller", "eight", "one / eight"], rows, 2)


def document(results: dict[str, Any], device: str, pictures: dict[str, str]) -> str:
    machine = results["machine"]
    cells = results["cells"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    where = machine.get("gpu") or f"{machine['cpus']} CPUs of a shared machine"
    by = "`make bench`" if device == "cpu" else "`make bench BENCH='--device cuda'`"
    head = f"Written by {by} on {where}, {machine['system']}, Python {machine['python']}; {libraries}."
    lines = ["# Benchmarks", "", head, "", METHOD, "", *shapes(), "", "## In short", ""]
    if results.get("quick"):
        lines[4:4] = ["**A quick run: too few repetitions for figures that mean anything.**", ""]
    if "copy" in results:
        lines += [f"The device copies {results['copy']['bytes a second'] / 1e9:.0f} GB/s, read and written.", ""]
    wanted = [[what, measured, "yes" if reached else "no"] for what, measured, reached in goals(results)]
    lines += [*summary(cells), "", "### Goals", "", *table(["wanted", "measured", "reached"], wanted), ""]
    lines += ["### Where a peer is faster", "", *losses(cells), ""]
    if device == "cpu":
        lines += ["### Why", "", WHY, ""]
    for name, title in TITLES.items():
        some = [cell for cell in cells if cell["family"] == name]
        if some:
            lines += [f"## {title}", ""]
            if name in pictures:
                lines += [f"![{title}: time of the fastest peer over ours]({pictures[name]})", ""]
            for threads in (1, "default"):
                lines += family(some, threads)
    if results.get("startup"):
        lines += ["## Start-up", "", *start_up(results["startup"]), ""]
    if results.get("memory"):
        text = "The peak of a fresh process over what it held before, in multiples of the result; `wide`, four times."
        lines += ["## Memory", "", text, "", *peaks(results["memory"]), ""]
    if results.get("growth"):
        lines += ["## Growth", "", "One thread, sequences of about 5 x 4 float32.", ""]
        lines += [f"![Time by number of sequences]({pictures['growth']})", "", *grown(results["growth"]), ""]
    if results.get("threads"):
        lines += ["## Threads", "", f"![Speed by number of threads]({pictures['threads']})", ""]
        lines += [*scaled(results["threads"]), ""]
    if results.get("callers"):
        text = "The time of a call where one Python thread makes all calls, and where eight make as many at once."
        lines += ["## Eight callers", "", text, "", *called(results["callers"]), ""]
    compiled = results["signatures"]
    lines += [
        "## Kernels compiled",
        "",
        f"{sum(compiled.values())} signatures of {len(compiled)} kernels after all of the above: "
        + ", ".join(f"`{name}` {count}" for name, count in compiled.items())
        + ".",
        "",
    ]
    return "\n".join(lines)


def merged(results: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """What is new, and of the old what was not measured again."""
    if old.get("machine") != results["machine"] or old.get("quick") != results["quick"]:
        return results
    new = {tuple(cell[k] for k in KEY): cell for cell in results["cells"]}
    cells = [new.pop(tuple(cell[k] for k in KEY), cell) for cell in old["cells"]] + list(new.values())
    signatures = {
        name: max(results["signatures"].get(name, 0), old["signatures"].get(name, 0))
        for name in sorted(results["signatures"].keys() | old["signatures"].keys())
    }
    return old | results | {"cells": cells, "signatures": signatures, "seconds": old["seconds"]}


def rounded(x: Any) -> Any:
    """Numbers with four digits, which is more than a time has."""
    if isinstance(x, dict):
        return {name: rounded(value) for name, value in x.items()}
    if isinstance(x, list):
        return [rounded(value) for value in x]
    return float(f"{x:.4g}") if isinstance(x, float) else x


def text_of(results: dict[str, Any]) -> str:
    """JSON with a line for each cell."""
    parts = []
    for name, value in results.items():
        inner = json.dumps(value)
        if name == "cells":
            inner = "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
        parts.append(f"{json.dumps(name)}: {inner}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write(results: dict[str, Any], folder: pathlib.Path, partial: bool, device: str) -> None:
    """The files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = "benchmarks" if device == "cpu" else "benchmarks-cuda"
    data = folder / f"{stem}.json"
    results = rounded(results)
    if partial and data.exists():
        results = merged(results, json.loads(data.read_text(encoding="utf-8")))
    pictures = plots.draw(results, folder, stem, TITLES)
    data.write_text(text_of(results), encoding="utf-8")
    (folder / f"{stem}.md").write_text(document(results, device, pictures), encoding="utf-8")
