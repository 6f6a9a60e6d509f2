"""How much memory a conversion takes at its highest, over its result.

Each candidate runs in a process of its own, since what one has freed another would get again.  `python -m
benchmarks.memory` imports what they need and forks for each: the child makes the batch and the kernels, resets the
high-water mark of the process, and runs the conversion once.
"""

import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPE = "wide"  # 64 sequences of about 60 x 768 numbers
COPIES = 4  # of the batch, one after the other: the result is some ten megabytes at least


def candidates() -> dict[str, Callable[[], tuple[Callable[[], Any], Callable[[Any], Any]]]]:
    """By name: something that makes the input, and gives what shall run and the array that it leads to."""
    import seqformats as sf

    from .data import Batch
    from .peers import ops, thinc, torch

    def batch(arrays: str) -> Batch:
        b = Batch(SHAPE, arrays)
        b.lengths = np.tile(b.lengths, COPIES)
        b.n, b.rows = b.lengths.size, int(b.lengths.sum())
        b.offsets = np.concatenate([[0], np.cumsum(b.lengths)])
        return b

    def data(x: Any) -> Any:
        return x.data

    def same(x: Any) -> Any:
        return x

    def ours(source: str, target: str, arrays: str) -> Callable[[], Any]:
        def make() -> Any:
            b = batch(arrays)
            small = sf.Ragged(b.flat[:3], [1, 2])
            x = b.items if source == "list" else getattr(b, source)
            to = getattr(sf, target.capitalize())
            start = sf.convert(small, sf.List if source == "list" else getattr(sf, source.capitalize()))
            sf.convert(start, to)  # the kernels are there
            return (lambda: sf.convert(x, to)), data

        return make

    def thincs(run: Callable[[Batch], Callable[[], Any]], read: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: (run(batch("NumPy")), read)

    def torchs(run: Callable[[Batch], Callable[[], Any]], read: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: (run(batch("PyTorch")), read)

    found = {}
    for source in ("list", "ragged", "padded", "masked", "packed"):
        for target in ("ragged", "padded", "masked", "packed"):
            if source != target:
                found[f"{source} -> {target}|seqformats"] = ours(source, target, "NumPy")

    def bind(x: Any, run: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: run(x)

    found["list -> ragged|Thinc"] = thincs(lambda b: bind(b.items, ops.flatten), same)
    found["list -> padded|Thinc"] = thincs(lambda b: bind(b.items, ops.list2padded), data)
    found["list -> masked|Thinc"] = thincs(lambda b: bind(b.items, ops.pad), same)
    found["ragged -> padded|Thinc"] = thincs(
        lambda b: bind(b.flat, lambda x: ops.list2padded(ops.unflatten(x, b.lengths))), data
    )
    found["ragged -> masked|Thinc"] = thincs(
        lambda b: bind(b.flat, lambda x: ops.pad(ops.unflatten(x, b.lengths))), same
    )

    def thinc_padded(b: Batch) -> Any:
        p = b.padded
        return thinc.Padded(p.data, *(x.astype(np.int32) for x in (p.size_at_t, p.lengths, p.indices)))

    found["padded -> ragged|Thinc"] = thincs(
        lambda b: bind(thinc_padded(b), lambda p: ops.flatten(ops.padded2list(p))), same
    )
    found["masked -> ragged|Thinc"] = thincs(
        lambda b: bind(b.masked.data, lambda x: ops.flatten(ops.unpad(x, b.lengths))), same
    )
    if torch:
        rnn = torch.nn.utils.rnn
        found["list -> ragged|PyTorch"] = torchs(lambda b: bind(b.items, torch.cat), same)
        found["list -> padded|PyTorch"] = torchs(lambda b: bind(b.items, rnn.pad_sequence), same)
        found["list -> masked|PyTorch"] = torchs(
            lambda b: bind(b.items, lambda x: rnn.pad_sequence(x, batch_first=True)), same
        )
        found["list -> packed|PyTorch"] = torchs(
            lambda b: bind(b.items, lambda x: rnn.pack_sequence(x, enforce_sorted=False)), data
        )
        found["ragged -> masked|PyTorch"] = torchs(
            lambda b: bind(
                (b.flat, b.ends),
                lambda x: torch.ops.aten._jagged_to_padded_dense_forward(x[0], [x[1]], [b.longest], 0.0),
            ),
            same,
        )
        found["packed -> padded|PyTorch"] = torchs(
            lambda b: bind(b.packed.to_torch(), lambda x: rnn.pad_packed_sequence(x)[0]), same
        )
        found["masked -> ragged|PyTorch"] = torchs(
            lambda b: bind((b.masked.data, b.column), lambda x: x[0][x[1]]), same
        )
    return found


def status() -> dict[str, int]:
    """The process by /proc: bytes by name."""
    found = {}
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            found[name] = int(value.split()[0]) * 1024
    return found


def one(name: str, answer: Any) -> None:
    """Run a candidate in this process; sends the bytes of its result, and of the peak over what was there before."""
    run, read = candidates()[name]()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again
    before = status()["VmRSS"]
    result = run()
    peak = status()["VmHWM"] - before
    answer.send({"result": int(read(result).nbytes), "peak": peak})


def all_of_them() -> dict[str, dict[str, float]]:
    """For every conversion and candidate the peak over the result, each in a fork of this process."""
    fork = multiprocessing.get_context("fork")
    found: dict[str, dict[str, float]] = {}
    for name in candidates():
        here, there = fork.Pipe()
        child = fork.Process(target=one, args=(name, there))
        child.start()
        there.close()
        try:
            got = here.recv()
        except EOFError:
            raise RuntimeError(f"{name} ended without an answer") from None
        child.join()
        conversion, _, candidate = name.partition("|")
        found.setdefault(conversion, {})[candidate] = got["peak"] / got["result"]
    return found


def measure() -> dict[str, dict[str, float]]:
    """`all_of_them` in a fresh process, or nothing where the system has no such mark."""
    if not pathlib.Path("/proc/self/clear_refs").exists():
        return {}
    # every large array has pages of its own, which are counted from the first write to the end of the array
    environment = os.environ | {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "SEQFORMATS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=pathlib.Path(__file__).parents[1],
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)  # type: ignore[no-any-return]


if __name__ == "__main__":
    print(json.dumps(all_of_them()))
