"""Writes what was measured: everything in JSON, a page to read, the tables and pictures in a folder beside it.

All of it but the JSON is made from the JSON alone, so pages can be made anew without measuring (`remake`).
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from . import plots
from .cells import OURS, figure
from .data import SHAPES, SPREAD
from .goals import middle
from .goals import rows as goals
from .markdown import listed, ratio, span, spread, table, threads_of
from .reasons import EVEN, OTHERS, bullet, grouped, lost, same_work, spared

KEY = ("family", "operation", "shape", "arrays", "device", "threads")
TITLES = {
    "moves": "Conversions and selection",
    "reduce": "Reductions and their gradients",
    "sequence": "Along each sequence",
    "rows": "Which items, in which order",
    "parts": "Parts of sequences",
    "join": "Joining and splitting",
    "distance": "Distances",
    "events": "Events and series",
    "bags": "Bags and pairs",
    "attention": "Attention",
    "nested": "Nested lists",
    "steps": "Time steps",
    "training": "Masks, orders and losses for training",
    "recurrent": "Recurrences, recurrent layers, and losses of policies",
    "pipeline": "In and out of pipelines",
    "arrow": "Columns of Arrow",
    "wrap": "Wrappers around a function that does nothing",
    "beam": "Beam search",
    "speech": "Speech",
}
PROCESS = "Start-up, memory, growth and threads"
LOST = "Where a peer is faster"
SAME = "Where a peer does the same work"


METHOD = """\
Each cell is one operation on one batch. This library, its peers and a plain pass over the same bytes take turns in one
process, in an order that is drawn anew in each round: in a fixed order, the same candidate would always follow the one
that leaves the caches cold. A turn is one call, or as many as take 1 ms. Times are minima; then medians, with the
quartiles in brackets. **Ratios are of minima for tiny and small batches**, whose calls take microseconds and can only
be made longer by other programs, **and of medians for the others**. Results are compared before anything is timed.
Tensors are compared with PyTorch; arrays with Thinc, Awkward, pyarrow and the code that NumPy users write. Cells are
measured with one thread and, for large batches, with the number of threads that each library uses by default.

- **peer / ours** is the time of the fastest peer divided by ours: 1 or more means that we are as fast or faster.
- **limit / ours** is the time of a plain pass over the same memory divided by ours: what is both read and written is
  copied once into new memory, what is only written is zeroed, what is only read is summed. Above 32 MB the C library
  asks the operating system for new memory for each result, whose pages are made while it is written; the plain pass
  then writes into new memory too. No limit is given for operations that move nothing.
- **roof / ours** adds to that pass the time of one call of a compiled function that does nothing.

Means of ratios are geometric. Some peers are given more information than they would have in practice (offsets, the
longest length, a mask); the files in `benchmarks/` say which."""


def line(cell: dict[str, Any]) -> str:
    """A cell as one line of text."""
    times = "   ".join(f"{name} {span(figure(t, cell['shape']))}" for name, t in cell["times"].items())
    where = f"{cell['operation']:32} {cell['shape']:16} {cell['arrays']:8} {cell['threads']!s:8}"
    return f"{where} {ratio(cell.get('ratio')):>5} {ratio(cell.get('of limit')):>5}   {times}"


def shapes() -> list[str]:
    """The batches, and how their lengths are drawn."""
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
    text = (
        f"Lengths are log-normal (sigma = {SPREAD}, at most twice the mean) unless stated otherwise; seeds are fixed."
    )
    return [*table(["batch", "sequences", "items per sequence", "item", "dtype"], rows, 5), "", text]


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
            lines += [f"## {arrays} arrays, {'one thread' if threads == 1 else 'as many threads as each takes'}", ""]
            ratios = ["peer / ours", "limit / ours", "roof / ours"]
            head = ["operation", "batch", "seqformats", "best peer", "which", *ratios]
            lines += [*table(head, rows, 2), ""]
    return lines


def summary(cells: list[dict[str, Any]], folder: str) -> list[str]:
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
                    f"[{title}]({folder}/{name}.md)",
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
        "family, with all its cells",
        "threads",
        "cells with a peer",
        "≥ 1",
        "< 0.95",
        "peer / ours, mean",
        "lowest",
        "limit / ours, mean",
    ]
    return table(head, rows, 2)


def losses(cells: list[dict[str, Any]]) -> list[str]:
    """Every cell in which a peer is faster by more than a twentieth, but for the same work."""
    some = lost(cells)
    if not some:
        return ["No cell is below 0.95 of its best peer."]
    head = ["operation", "batch", "arrays", "threads", "seqformats", "best peer", "which", "peer / ours"]
    rows = [
        [
            c["operation"],
            c["shape"],
            c["arrays"],
            threads_of(c),
            span(figure(c["times"][OURS], c["shape"])),
            span(figure(c["times"][c["best peer"]], c["shape"])),
            c["best peer"],
            ratio(c["ratio"]),
        ]
        for c in some
    ]
    return table(head, rows, 4)


def defeats(cells: list[dict[str, Any]], folder: str, explained: bool) -> list[str]:
    """The lost cells in groups, each with the reason that is known; `explained`: on the machine that it is known of."""
    some = lost(cells)
    if not some:
        return ["No cell is below 0.95 of its best peer."]
    least, count = ratio(some[0]["ratio"]), sum("ratio" in cell and not same_work(cell) for cell in cells)
    text = (
        f"{len(some)} of {count} cells with a peer, the lowest ratio at {least}; [all of them]({folder}/lost.md) are"
        " listed. The next section has the cells in which the peer does the same work."
    )
    if not explained:
        return [text]
    rows = [
        [
            reason.title,
            str(len(group)),
            ratio(min(cell["ratio"] for cell in group)),
            ratio(middle([cell["ratio"] for cell in group])),
        ]
        for reason, group in grouped(cells)
    ]
    lines = [text, "", *table(["why", "cells", "lowest ratio", "mean ratio"], rows), ""]
    lines += ["The known reasons, each found by a profile or a trial on such a machine:", ""]
    for reason, group in grouped(cells):
        where = listed([cell["operation"] for cell in group]), listed([cell["shape"] for cell in group])
        lines += bullet(reason.title, f"{reason.text} Cells: {where[0]}; batches: {where[1]}.")
    return lines


def same(cells: list[dict[str, Any]]) -> list[str]:
    """What the goals for all cells leave out, and why."""
    lines = []
    for reason, some in spared(cells):
        where = listed([cell["operation"] for cell in some]), listed([cell["shape"] for cell in some])
        least = ratio(min(cell["ratio"] for cell in some))
        lines += bullet(reason.title, f"{reason.text} Cells: {where[0]}; batches: {where[1]}; lowest ratio {least}.")
    return lines


def start_up(found: dict[str, Any]) -> list[str]:
    """What a fresh process takes."""
    times = found.get("times", found)
    rows = [
        [
            name,
            f"{1e3 * t['min']:.0f}" if "min" in t else "",
            f"{1e3 * t['median']:.0f}",
            f"{1e3 * t['low']:.0f} to {1e3 * t['high']:.0f}",
            f"{1e3 * t['cpu']:.0f}" if "cpu" in t else "",
        ]
        for name, t in times.items()
    ]
    lines = table(["a fresh process", "minimum ms", "median", "quartiles", "minimum ms of the CPU"], rows)
    return [*lines, "", found["from"]] if "from" in found else lines


def peaks(found: dict[str, dict[str, float]]) -> list[str]:
    """The memory that a conversion takes at most."""
    names = sorted({name for row in found.values() for name in row}, key=lambda name: (name != OURS, name))
    rows = [[kind, *(ratio(row.get(name)) for name in names)] for kind, row in found.items()]
    return table(["conversion", *names], rows)


def grown(found: list[dict[str, Any]]) -> list[str]:
    """Nanoseconds a sequence, by the size of the batch."""
    names = list(found[0]["times"])
    rows = [
        [name, *(f"{1e9 * row['times'][name]['median'] / row['sequences']:.0f}" for row in found)] for name in names
    ]
    return table(["nanoseconds a sequence", *(f"{row['sequences']:,}" for row in found)], rows)


def scaled(found: list[dict[str, Any]]) -> list[str]:
    """Times by the number of threads."""
    rows = []
    for shape in dict.fromkeys(row["shape"] for row in found):
        here = [row["times"] for row in found if row["shape"] == shape]
        rows += [[name, shape, *(span(times[name]["median"]) for times in here)] for name in here[0]]
    counts = list(dict.fromkeys(row["threads"] for row in found))
    return table(["operation", "batch", *(f"{k} threads" if k > 1 else "1 thread" for k in counts)], rows, 2)


def called(found: list[dict[str, Any]]) -> list[str]:
    """Times of one caller, and of eight."""
    rows = []
    for row in found:
        one, eight = row["times"]["one"], row["times"]["eight"]
        rows.append([row["operation"], row["shape"], span(one), span(eight), ratio(one / eight)])
    return table(["operation", "batch", "one caller", "eight", "one / eight"], rows, 2)


def counted(found: dict[str, Any]) -> list[str]:
    """What load does not change: switches, page faults and instructions."""
    rows = [[row["operation"], f"{row['median']:.4f}", f"{row['worst']:.4f}"] for row in found["switches"]]
    lines = ["Voluntary context switches a call, where eight Python threads call at once on the batch `tiny`; of some"]
    lines += ["short trials.", "", *table(["operation", "median", "worst trial"], rows), ""]
    rows = [
        [row["operation"], row["shape"], f"{row['bytes'] / 1e6:.0f}", f"{row['faults']:.0f}", f"{row['copy']:.0f}"]
        for row in found["faults"]
    ]
    lines += ["Page faults a call, and those of a copy of the result: above 32 MB each has new memory, in huge pages"]
    lines += ["but for up to 512 small ones where the block begins.", ""]
    lines += [*table(["operation", "batch", "MB of the result", "page faults", "of a copy"], rows, 2), ""]
    if found["instructions"]:
        rows = [[name, f"{count:,}"] for name, count in found["instructions"].items()]
        lines += ["Instructions a call on the batch `tiny`, by Valgrind, with one thread.", ""]
        lines += [*table(["operation", "instructions"], rows), ""]
    return lines


def process(results: dict[str, Any]) -> list[str]:
    """What is measured in processes of its own, and what all the cells compiled."""
    lines: list[str] = []
    if results.get("startup"):
        lines += ["## Start-up", "", *start_up(results["startup"]), ""]
    if results.get("memory"):
        text = "The peak of a fresh process over what it held before, in multiples of the result; `wide`, four times."
        lines += ["## Memory", "", text, "", *peaks(results["memory"]), ""]
    if results.get("growth"):
        lines += ["## Growth", "", "One thread, sequences of about 5 x 4 float32.", "", *grown(results["growth"]), ""]
    if results.get("threads"):
        text = "For information: where cores are shared, no goal can be decided by it."
        lines += ["## Threads", "", text, "", *scaled(results["threads"]), ""]
    if results.get("callers"):
        text = "The time of a call where one Python thread makes all calls, and where eight make as many at once. For"
        text += "\ninformation too; the goal is the number of switches below."
        lines += ["## Eight callers", "", text, "", *called(results["callers"]), ""]
    if results.get("counts"):
        lines += ["## Counts", "", *counted(results["counts"])]
    compiled = results["signatures"]
    lines += [
        "## Kernels compiled",
        "",
        f"{sum(compiled.values())} signatures of {len(compiled)} kernels after all cells: "
        + ", ".join(f"`{name}` {count}" for name, count in compiled.items())
        + ".",
        "",
    ]
    return lines


def page(results: dict[str, Any], device: str, folder: str, pictures: list[str]) -> str:
    """The page that is read first: the method, the summary, the goals, what is lost and why, the pictures."""
    machine = results["machine"]
    cells = results["cells"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    where = machine.get("gpu") or f"{machine['cpus']} CPUs of a shared machine"
    by = "`make bench`" if device == "cpu" else "`make bench BENCH='--device cuda'`"
    head = f"Written by {by} on {where}, {machine['system']}, Python {machine['python']}; {libraries}."
    lines = ["# Benchmarks", ""]
    if results.get("quick"):
        lines += ["**A quick run: too few repetitions for figures that mean anything.**", ""]
    lines += [head, "", "## How to read it", "", METHOD, "", *shapes(), "", "## In short", ""]
    if "copy" in results:
        lines += [f"The device copies {results['copy']['bytes a second'] / 1e9:.0f} GB/s, read and written.", ""]
    lines += [*summary(cells, folder), "", f"[{PROCESS}]({folder}/process.md) have tables of their own.", ""]
    wanted = [[what, measured, "yes" if reached else "no"] for what, measured, reached in goals(results)]
    met = sum(row[2] == "yes" for row in wanted)
    lines += ["## Goals", "", f"{met} of {len(wanted)} are reached.", ""]
    lines += [*table(["wanted", "measured", "reached"], wanted), ""]
    lines += [f"## {LOST}", "", *defeats(cells, folder, device == "cpu"), ""]
    if spared(cells):
        text = "The goals for all cells leave these out: the peer makes the same call of C, or there is no work to do."
        lines += [f"## {SAME}", "", text, "", *same(cells), ""]
    if device == "cpu":
        lines += ["## What else is not reached", ""]
        lines += [one for title, text in OTHERS for one in bullet(title, text)] + [""]
    lines += ["## Pictures", ""]
    for name in pictures:
        lines += [f"![{_caption(name)}]({folder}/{name}.svg)", ""]
    return "\n".join(lines)


def _caption(picture: str) -> str:
    """The words for a reader who cannot see a picture."""
    if picture in TITLES:
        return f"{TITLES[picture]}: time of the fastest peer over ours"
    others = {"families": "How many times as long the fastest other library takes, by family"}
    others |= {"growth": "Time by number of sequences", "threads": "Speed by number of threads"}
    return others[picture]


def documents(results: dict[str, Any], device: str, stem: str) -> dict[str, str]:
    """Every file that is made from the results: its path from the folder of the page, and its text."""
    cells = results["cells"]
    together = plots.families([cell for cell in cells if not same_work(cell)], TITLES, EVEN)
    pictures = ({"families": together} if together else {}) | plots.draw(results, TITLES)
    files = {f"{stem}/{name}.svg": str(picture) for name, picture in pictures.items()}
    back = f"From the [benchmarks](../{stem}.md), which say how to read this."
    for name, title in TITLES.items():
        some = [cell for cell in cells if cell["family"] == name]
        if some:
            lines = [f"# {title}", "", back, ""]
            if name in pictures:
                lines += [f"![{_caption(name)}]({name}.svg)", ""]
            files[f"{stem}/{name}.md"] = "\n".join(lines + family(some, 1) + family(some, "default"))
    files[f"{stem}/lost.md"] = "\n".join([f"# {LOST}", "", back, "", *losses(cells), ""])
    files[f"{stem}/process.md"] = "\n".join([f"# {PROCESS}", "", back, "", *process(results)])
    files[f"{stem}.md"] = page(results, device, stem, list(pictures))
    return files


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


def _stem(device: str) -> str:
    """What the names of the files for a device begin with."""
    return "benchmarks" if device == "cpu" else "benchmarks-cuda"


def write(results: dict[str, Any], folder: pathlib.Path, partial: bool, device: str) -> None:
    """Write the results, and the pages and pictures made of them; `partial`: keep what was not measured again."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{_stem(device)}.json"
    results = rounded(results)
    if partial and data.exists():
        results = merged(results, json.loads(data.read_text(encoding="utf-8")))
    data.write_text(text_of(results), encoding="utf-8")
    remake(folder, device)


def remake(folder: pathlib.Path, device: str) -> None:
    """Make the pages and the pictures from the results that are there; FileNotFoundError where there are none."""
    stem = _stem(device)
    results = json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"))
    (folder / stem).mkdir(exist_ok=True)
    for path, text in documents(results, device, stem).items():
        (folder / path).write_text(text, encoding="utf-8")
