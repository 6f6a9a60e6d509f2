"""Measure this library beside its peers.

    python -m benchmarks [--only moves,softmax] [--quick] [--device cuda] [--out docs]
    python -m benchmarks --report [--device cuda] [--out docs]

Every cell of the tables is one operation on one batch: this library, its peers and a plain pass over the same bytes
take turns in this process, all with one thread and, where there is much to do, each with the threads that it takes by
default.  Results are compared before anything is timed.  What two shared cores cannot decide by the clock is counted:
instructions, switches among callers, page faults.  Writes `benchmarks.json` and, made of it, the page
`benchmarks.md` with a folder `benchmarks` of tables and pictures; with `--only`, which takes families or parts of
operations, what was measured before of the others is kept.  `--report` makes the pages anew and measures nothing.
"""

import argparse
import json
import os
import pathlib
import platform
import sys
import time
import warnings

from . import (
    arrow,
    attention,
    bags,
    beam,
    counts,
    distance,
    events,
    growth,
    join,
    memory,
    moves,
    nested,
    parts,
    pipeline,
    recurrent,
    reduce,
    report,
    rows,
    sequence,
    speech,
    startup,
    steps,
    training,
    wrap,
)
from .cells import OPERATIONS, Effort, measure
from .data import LARGE, Batch
from .peers import remember_threads, set_threads, torch, versions

FAMILIES = [
    module.__name__.rpartition(".")[2]
    for module in (
        moves,
        reduce,
        sequence,
        rows,
        parts,
        join,
        distance,
        events,
        bags,
        attention,
        nested,
        steps,
        training,
        recurrent,
        pipeline,
        arrow,
        wrap,
        beam,
        speech,
    )
]
EXTRAS = ("startup", "memory", "counts", "growth", "threads", "callers")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="families, or parts of the names of operations, with commas")
    parser.add_argument("--shapes", default="", help="names of shapes, with commas")
    parser.add_argument("--quick", action="store_true", help="a few rounds a cell, to see that everything runs")
    parser.add_argument("--check", action="store_true", help="compare results, measure and write nothing")
    parser.add_argument("--report", action="store_true", help="make the pages of what was measured, measure nothing")
    parser.add_argument("--seconds", type=float, default=0.06, help="how long a cell is measured")
    parser.add_argument("--one-thread", action="store_true", help="leave out what has the threads by default")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "docs")
    return parser.parse_args()


def selected(only: list[str]) -> list:
    """The operations of these families, or with such names."""
    if not only:
        return list(OPERATIONS)
    return [one for one in OPERATIONS if one.family in only or any(word in one.name for word in only)]


def cells(options: argparse.Namespace, only: list[str], effort: Effort | None) -> list[dict]:
    """Measure, batch by batch; all with one thread, then as many as each takes by default where there is much to do."""
    found = []
    operations = selected(only)
    shapes = [name for name in options.shapes.split(",") if name]
    arrays = ["NumPy", "PyTorch"] if options.device == "cpu" else ["PyTorch"]
    for shape in dict.fromkeys(shape for one in operations for shape in one.shapes):
        if shapes and shape not in shapes:
            continue
        for library in arrays:
            if library == "PyTorch" and not torch:
                continue
            here = [one for one in operations if shape in one.shapes and library in one.arrays]
            if options.device == "cuda":
                here = [one for one in here if one.cuda]
            if not here:
                continue
            batch = Batch(shape, library, options.device)
            large = shape in LARGE or " x " in shape
            alone = not large or options.one_thread or options.device != "cpu" or effort is None
            for threads in (1,) if alone else (1, None):
                set_threads(threads)
                for one in here:
                    cell = measure(one, batch, threads, effort)
                    if cell is None:
                        print(f"{one.name:32} {shape:16} {library:8} agrees", flush=True)
                    else:
                        found.append(cell)
                        print(report.line(cell), flush=True)
    set_threads(None)
    return found


def signatures() -> dict[str, int]:
    """For how many combinations of types each kernel was started in this process."""
    from seqformats.native.code import loaded

    names = [text.partition("(")[0] for text in loaded]
    return {name: names.count(name) for name in sorted(set(names))}


def machine(device: str) -> dict[str, object]:
    """Where and with what."""
    found: dict[str, object] = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "libraries": versions(),
    }
    if device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    return found


def main() -> int:
    options = arguments()
    if options.report:
        try:
            report.remake(options.out, options.device)
        except FileNotFoundError as error:
            print(f"--report needs what a run without it writes; there is no {error.filename}", file=sys.stderr)
            return 1
        return 0
    if options.device == "cuda" and not (torch and torch.cuda.is_available()):
        print("--device cuda needs PyTorch and a GPU that it can use; there is none here", file=sys.stderr)
        return 1
    remember_threads()
    warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype")
    only = [word.strip() for word in options.only.split(",") if word.strip()]
    if only and not selected(only) and not set(only) & set(EXTRAS):
        print(f"nothing is called {options.only}; families: {', '.join([*FAMILIES, *EXTRAS])}", file=sys.stderr)
        return 1
    begin = time.perf_counter()
    effort = Effort(0.01, 3) if options.quick else Effort(options.seconds)
    if options.check:
        cells(options, only, None)
        return 0
    results: dict[str, object] = {"machine": machine(options.device), "quick": options.quick}
    if options.device == "cuda":
        results["copy"] = growth.device_copy()
    results["cells"] = cells(options, only, effort)
    results["signatures"] = signatures()
    if options.device == "cpu":
        for name in EXTRAS:
            if not only or name in only:
                results[name] = {
                    "startup": lambda: startup.measure(3 if options.quick else 11),
                    "memory": memory.measure,
                    "counts": counts.measure,
                    "growth": lambda: growth.growth(effort),
                    "threads": lambda: growth.scaling(effort),
                    "callers": lambda: growth.callers(effort),
                }[name]()
    results["seconds"] = round(time.perf_counter() - begin)
    report.write(results, options.out, partial=bool(only), device=options.device)
    print(json.dumps({"seconds": results["seconds"], "signatures": sum(results["signatures"].values())}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
