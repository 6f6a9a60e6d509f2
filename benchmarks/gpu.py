"""Measure kernels on a GPU, and the host's part of starting them, each without the other.

    python -m benchmarks.gpu [--quick] [--only timing] [--out docs]
    python -m benchmarks.gpu --host [--quick]

Four steps, one after the other, each in a process of its own, so that one that fails, and spoils the context of its
process, stops no other: does it run at all; does it give what the CPU gives; how long does it take; does a graph replay
it.  Times of kernels are of events behind writes of a large buffer, which keep the GPU busy for as long as the host
needs and leave its caches cold; times of the host are of calls that nothing waits for.  Prints tables, and writes
`benchmarks-gpu.json`.  `--host` needs no GPU, see `host.py`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import seqformats as sf

from . import host
from .gpu_arrays import Arrays, there
from .markdown import ratio, span, table

ROOT = pathlib.Path(__file__).parents[1]
SECONDS = 300
"""For which a step may run."""

Call = Callable[[], Any]
Run = Callable[[Any], Any]


class Batch(NamedTuple):
    """Sequences of rows of `width` float32."""

    name: str
    lengths: np.ndarray
    width: int


def batches(quick: bool) -> Iterable[Batch]:
    rng = np.random.default_rng(0)
    many, long = (1_000, 50_000) if quick else (20_000, 1_000_000)
    yield Batch("A: 64 x 1..60 x 768", rng.integers(1, 61, 64), 768)
    yield Batch(f"B: {many:,} x 1..25 x 64", rng.integers(1, 26, many), 64)
    yield Batch(f"one x {long:,} x 64", np.array([long]), 64)


BEAMS = {"256 x 5 x 128,000": (256, 5, 128_000), "32 x 5 x 32,000": (32, 5, 32_000), "32 x 5 x 74": (32, 5, 74)}


def beams(quick: bool) -> list[tuple[str, tuple[int, int, int]]]:
    """Sources, beams and tokens."""
    return list(BEAMS.items())[1 if quick else 0 :]


OPERATIONS: dict[str, Run] = {
    "Ragged -> Masked": lambda x: sf.convert(x, sf.Masked),
    "Ragged -> Padded": lambda x: sf.convert(x, sf.Padded),
    "Ragged -> Packed": lambda x: sf.convert(x, sf.Packed),
    "reverse": sf.reverse,
    "shift": lambda x: sf.shift(x, 1),
    "reduce_sum": sf.reduce_sum,
    "reduce_max": sf.reduce_max,
    "argmax": sf.argmax,
    "reduce_prod": sf.reduce_prod,
    "reduce_logsumexp": sf.reduce_logsumexp,
    "reduce_var": sf.reduce_var,
    "softmax": sf.softmax,
    "cumsum": sf.cumsum,
    "topk of 4": lambda x: sf.topk(x, 4).values,
}
WITH_NUMBERS = ("shift", "topk of 4")
"""What has numbers in an array of the host, which go up in each call: there is no graph of these."""
EXACT = (
    *("Ragged -> Masked", "Ragged -> Padded", "Ragged -> Packed", "reverse", "shift"),
    *("reduce_max", "argmax", "topk of 4"),
)


def items(batch: Batch) -> np.ndarray:
    rows = int(batch.lengths.sum())
    return np.random.default_rng(1).standard_normal((rows, batch.width), np.float32)


def plain(x: Any) -> np.ndarray:
    """The items of a result, on the host."""
    found = sf.to_device(x, "cpu").data if hasattr(x, "data") and hasattr(x, "lengths") else x
    for name in ("copy_to_host", "get"):  # of Numba and of CuPy
        if hasattr(found, name):
            return np.asarray(getattr(found, name)())
    return np.asarray(found.cpu() if hasattr(found, "cpu") else found)


def outcome(run: Call) -> dict[str, Any]:
    """What a part of a step gives, or how it fails."""
    try:
        return run()  # type: ignore[no-any-return]
    except Exception as error:  # the next part may go well
        return {"error": f"{type(error).__name__}: {error}"[:300]}


# --- the steps -------------------------------------------------------------------------------------------------------


def runs(on: Arrays, _: bool) -> list[dict[str, Any]]:
    """Every operation on a few rows, by itself."""
    x = np.random.default_rng(0).standard_normal((40, 8), np.float32)

    def one(run: Run) -> dict[str, Any]:
        run(sf.Ragged(on.put(x), host.LENGTHS))
        on.settle()
        return {"runs": True}

    return [{"call": name} | outcome(lambda run=run: one(run)) for name, run in OPERATIONS.items()]


def correct(on: Arrays, quick: bool) -> list[dict[str, Any]]:
    """Beside the CPU, where sums are made in another order."""
    rows = []

    def compared(run: Run, there: Any, here: Any, exact: bool) -> dict[str, Any]:
        mine, theirs = plain(run(there)), plain(run(here))
        if mine.shape != theirs.shape:
            return {"error": f"the shape is {mine.shape} instead of {theirs.shape}"}
        worst = float(np.max(np.abs(mine - theirs) / (1 + np.abs(theirs)), initial=0))
        good = np.array_equal(mine, theirs) if exact else worst < 1e-3
        return {"worst": worst} if good else {"error": f"another result, by {worst:.3g} at most"}

    for batch in batches(quick):
        x = items(batch)
        there, here = sf.Ragged(on.put(x), batch.lengths), sf.Ragged(x, batch.lengths)
        for name, run in OPERATIONS.items():
            found = outcome(lambda run=run, name=name: compared(run, there, here, name in EXACT))  # noqa: B023
            rows.append({"batch": batch.name, "call": name} | found)
    for name, size in beams(quick):

        def chosen(put: Callable[[np.ndarray], Any], size: tuple[int, int, int] = size) -> dict[str, np.ndarray]:
            found = host.beam(put, *size)()
            room = found.ids.reshape(size[0], -1), found.values.reshape(size[0], -1)
            return {"ids": room[0][:, : size[1]], "values": room[1][:, : size[1]]}

        def same(chosen: Callable[..., dict[str, np.ndarray]] = chosen) -> dict[str, Any]:
            mine, theirs = chosen(on.put), chosen(lambda x: x)
            worst = float(np.max(np.abs(mine["values"] - theirs["values"])))
            differ = int((mine["ids"] != theirs["ids"]).sum())
            return {"worst": worst} if worst < 1e-3 and not differ else {"error": f"{differ} ids differ, {worst:.3g}"}

        rows.append({"batch": name, "call": "candidates of a beam step"} | outcome(same))
    return rows


def timing(on: Arrays, quick: bool) -> list[dict[str, Any]]:
    """Kernels and host, beside a copy of the same bytes and what PyTorch has for it."""
    turns, windows, rows = (3, 3, []) if quick else (11, 20, [])

    def timed(run: Call, launched: Call | None = None) -> dict[str, Any]:
        seconds, waited = on.kernels(launched or run, turns)
        return {"kernels": seconds, "waited": waited, "host": host.least(run, windows, 10, on.settle)}

    for batch in batches(quick):
        x = on.put(items(batch))
        ragged, other = sf.Ragged(x, batch.lengths), on.put(np.zeros_like(items(batch)))
        calls: dict[str, Call] = {"copy": lambda x=x, other=other: on.copy(x, other)}
        calls |= {name: lambda run=run, ragged=ragged: run(ragged) for name, run in OPERATIONS.items()}
        calls |= of_torch(on, x, batch) if on.name == "PyTorch" else {}
        rows += [
            {"batch": batch.name, "call": name, "bytes": int(x.nbytes)} | outcome(lambda run=run: timed(run))
            for name, run in calls.items()
        ]
    for name, size in beams(quick):
        drawn = np.random.default_rng(1).normal(0, 2, (size[0] * size[1], size[2])).astype(np.float32)
        scores, other = on.put(drawn), on.put(np.zeros_like(drawn))
        quiet = host.beam(on.put, *size, wait=False)
        steps: dict[str, tuple[Call, Call | None]] = {
            "copy": (lambda scores=scores, other=other: on.copy(scores, other), None),
            "candidates of a beam step": (host.beam(on.put, *size), quiet),
        }
        if on.name == "PyTorch":
            steps["torch log_softmax, topk"] = (
                lambda scores=scores, size=size: scores.log_softmax(1).view(size[0], -1).topk(2 * size[1]),
                None,
            )
        rows += [
            {"batch": name, "call": call, "bytes": int(scores.nbytes)} | outcome(lambda both=both: timed(*both))
            for call, both in steps.items()
        ]
    return rows


def of_torch(on: Any, x: Any, batch: Batch) -> dict[str, Call]:
    """PyTorch's own operations on the same rows."""
    torch = on.torch
    longest = int(batch.lengths.max())
    offsets = on.put(np.concatenate([[0], batch.lengths.cumsum()]))
    lengths = on.put(np.asarray(batch.lengths))
    dense = torch.ops.aten._jagged_to_padded_dense_forward
    if batch.lengths.size == 1:  # which `segment_reduce` takes a second for
        return {"torch sum": lambda: x.sum(0), "torch max": lambda: x.amax(0), "torch softmax": lambda: x.softmax(0)}
    padded = dense(x, [offsets], [longest], float("-inf"))
    return {
        "torch jagged to padded": lambda: dense(x, [offsets], [longest], 0.0),
        "torch segment_reduce sum": lambda: torch.segment_reduce(x, "sum", lengths=lengths, axis=0, unsafe=True),
        "torch segment_reduce max": lambda: torch.segment_reduce(x, "max", lengths=lengths, axis=0, unsafe=True),
        "torch softmax of the padded": lambda: padded.softmax(1),
    }


def graph(on: Any, _: bool) -> list[dict[str, Any]]:
    """A graph of a resident or small structure gives the right result of new items; one of another is refused."""
    if on.name != "PyTorch":
        return [{"call": "graph", "left out": f"left out with {on.name}: it is tried with PyTorch"}]
    torch = on.torch
    rng = np.random.default_rng(2)

    def replayed(run: Run, lengths: list[int], resident: bool, refused: bool = False) -> dict[str, Any]:
        x = on.put(rng.standard_normal((sum(lengths), 8), np.float32))
        ragged = sf.Ragged(x, lengths)
        run(ragged if resident else sf.Ragged(x, lengths[::-1]))  # the code is loaded in both cases
        on.settle()
        captured, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        try:
            with torch.cuda.graph(captured, stream=side):
                result = run(ragged)
        except sf.DeviceError:
            if not refused:
                raise
            return {"refused": True}
        if refused:
            return {"error": "the structure went into the graph, from memory of the host"}
        new = rng.standard_normal(x.shape, np.float32)
        x.copy_(torch.from_numpy(new))
        for _ in range(40):  # takes page-locked memory that was given back
            torch.empty(1 << 16, dtype=torch.uint8, pin_memory=True).fill_(255)
        captured.replay()
        on.settle()
        wanted = plain(run(sf.Ragged(new, lengths)))
        right = np.allclose(plain(result), wanted, rtol=1e-4, atol=1e-5)
        return {"replays": True} if right else {"error": "the replay gives another result than the CPU"}

    rows = [
        {"call": name} | outcome(lambda run=run: replayed(run, host.LENGTHS, True))
        for name, run in OPERATIONS.items()
        if name not in WITH_NUMBERS
    ]
    padded = OPERATIONS["Ragged -> Masked"]
    few = outcome(lambda: replayed(padded, host.LENGTHS, False))
    # last, since it may spoil what comes after it
    many = outcome(lambda: replayed(padded, [*range(4), *[2] * 10_000], False, refused=True))
    rows += [{"call": "a small structure that is not there"} | few]
    return [*rows, {"call": "a large structure that is not there"} | many]


STEPS: dict[str, Callable[[Any, bool], list[dict[str, Any]]]] = {
    "runs": runs,
    "correct": correct,
    "timing": timing,
    "graph": graph,
}


# --- tables ----------------------------------------------------------------------------------------------------------


def shown(step: str, rows: list[dict[str, Any]]) -> list[str]:
    """The table of a step."""
    if step != "timing":
        words = [[row.get("batch", ""), row["call"], said(row)] for row in rows]
        return table(("batch", "call", "outcome"), words, 3)
    copies = {row["batch"]: row["kernels"] for row in rows if row["call"] == "copy" and "kernels" in row}
    lines = []
    for row in rows:
        if "kernels" not in row:
            lines.append([row["batch"], row["call"], said(row), "", "", ""])
            continue
        copy = copies.get(row["batch"])
        moved = row["call"] == "copy" and row["kernels"]  # a stand-in takes no time
        rate = f"{2 * row['bytes'] / row['kernels'] / 1e12:.2f}" if moved else ""
        kernels = span(row["kernels"]) + (" with the host's" if row["waited"] else "")
        of = ratio(copy / row["kernels"]) if copy and row["kernels"] else ""
        lines.append([row["batch"], row["call"], kernels, of, rate, span(row["host"])])
    return table(("batch", "call", "kernels", "of a copy", "TB/s", "host"), lines, 2)


def said(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"**{row['error']}**".replace("|", "/").replace("\n", " ")
    if "worst" in row:
        return f"agrees, within {row['worst']:.1g}" if row["worst"] else "the same"
    if "left out" in row:
        return str(row["left out"])
    return next((name for name in ("runs", "replays", "refused") if row.get(name)), "")


def host_table(found: dict[str, Any]) -> list[str]:
    """What the host's part takes, against the stand-in."""
    rows = [[row["call"], f"{row['us']:.1f}", str(row["launches"])] for row in found["calls"]]
    return table(("call", "µs", "launches"), rows)


# --- the command -----------------------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--host", action="store_true", help="the host's part alone, against a driver without a GPU")
    parser.add_argument("--only", default="", help=f"steps, with commas: {', '.join(STEPS)}")
    parser.add_argument("--quick", action="store_true", help="smaller batches, a few turns: to see that it all runs")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs", help="the folder for benchmarks-gpu.json")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)  # a step writes there what it found
    return parser.parse_args()


def apart(step: str, quick: bool) -> list[dict[str, Any]]:
    """A step in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "step.json"
        command = [sys.executable, "-m", "benchmarks.gpu", "--only", step, "--inside", str(out), *["--quick"] * quick]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return [{"call": step, "error": f"it was not done after {SECONDS} s"}]
        if out.exists():
            return json.loads(out.read_text())  # type: ignore[no-any-return]
        last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        return [{"call": step, "error": f"the process ended with {done.returncode}: {last}"[:300]}]


def machine(name: str) -> dict[str, Any]:
    """Where, with what and when."""
    found = {"arrays": name, "date": dt.datetime.now(dt.UTC).date().isoformat()}
    found |= {"python": platform.python_version(), "seqformats": sf.__version__}
    smi = shutil.which("nvidia-smi")
    if smi:
        asked = [smi, "--query-gpu=name,driver_version", "--format=csv,noheader"]
        words = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
        gpu, _, driver = (words or [""])[0].partition(", ")
        found |= {"gpu": gpu, "driver": driver}
    return found


def main() -> int:
    options = arguments()
    if options.host:
        try:
            found = host.measure(options.quick)
        except host.Unable as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{found['arrays']}, a driver that answers at once, minima of many calls\n")
        print("\n".join(host_table(found)))
        return 0
    only = [word for word in options.only.split(",") if word] or list(STEPS)
    unknown = [word for word in only if word not in STEPS]
    if unknown:
        print(f"there is no step {unknown[0]}; steps: {', '.join(STEPS)}", file=sys.stderr)
        return 1
    on = there()
    if options.inside:
        options.inside.write_text(json.dumps(STEPS[only[0]](on, options.quick)))
        return 0
    from seqformats.launch.cuda import devices

    names = devices()
    if on is None or not names or names == ["simulator"]:
        lacks = "a GPU" if on else "PyTorch for CUDA, CuPy or numba-cuda"
        print(f"this measures on a GPU, and there is not {lacks} here; --host needs none", file=sys.stderr)
        return 1
    results: dict[str, Any] = {"machine": {"gpu": names[0]} | machine(on.name), "quick": options.quick}
    for step in STEPS:
        if step in only:
            results[step] = apart(step, options.quick)
            print(f"\n{step}\n\n" + "\n".join(shown(step, results[step])), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "benchmarks-gpu.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\n{json.dumps(results['machine'])}\n{path}")
    return 0 if not any("error" in row for step in only for row in results[step]) else 1


if __name__ == "__main__":
    sys.exit(main())
