"""What an operation costs, beside Thinc and PyTorch where they are installed and have it.

    python benchmarks/operations.py [name ...]      all operations, or those whose name contains one of the words

Every row is one run in this process: the candidates take turns, all with one thread, and the figures are medians in
microseconds.  `copy` is a plain copy of the items, for scale.  Shapes: tiny 8 sequences of about 15 x 96 numbers, small
1,000 of 30 x 96, wide 60 of 60 x 768, many 20,000 of 10 x 16, narrow 20,000 of 30 single numbers.
"""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import seqformats as sf

SHAPES = {"tiny": (8, 15, 96), "small": (1000, 30, 96), "wide": (60, 60, 768), "many": (20_000, 10, 16)}
SHAPES["narrow"] = (20_000, 30, 0)
ENOUGH = 0.3  # seconds a candidate

Candidates = dict[str, Callable[[], object]]


def medians(candidates: Candidates) -> dict[str, float]:
    """Microseconds of each candidate; they take turns."""
    for function in candidates.values():
        function()  # compiled, and in the cache
    found: dict[str, list[float]] = {name: [] for name in candidates}
    begin = time.perf_counter()
    while time.perf_counter() - begin < ENOUGH * len(candidates) or len(found["copy"]) < 5:
        for name, function in candidates.items():
            start = time.perf_counter()
            function()
            found[name].append(time.perf_counter() - start)
    return {name: 1e6 * statistics.median(times) for name, times in found.items()}


def batch(shape: str) -> sf.Ragged:
    """Random numbers in sequences of random lengths, the same in each run."""
    n, mean, width = SHAPES[shape]
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 2 * mean, n)
    return sf.Ragged(rng.normal(size=(int(lengths.sum()), *([width] if width else []))).astype(np.float32), lengths)


def operations(x: sf.Ragged) -> dict[str, Callable[[sf.Ragged], object]]:
    """What is measured, by name."""
    items = x.data.shape[1:]
    rows = np.ones((len(x), *items), np.float32)
    counts = np.arange(len(x)) % 4
    order = np.argsort(-x.lengths, kind="stable")
    weight = np.ones((3 * (items[0] if items else 1), 8), np.float32)
    found: dict[str, Callable[[sf.Ragged], object]] = {}
    for name in ("sum", "mean", "sqrt", "max", "min", "first", "last", "logsumexp"):
        found[f"reduce_{name}"] = getattr(sf, f"reduce_{name}")
        found[f"reduce_{name} gradient"] = gradient(getattr(sf, f"reduce_{name}"))
    for name in ("softmax", "log_softmax", "cumsum"):
        found[name] = getattr(sf, name)
        found[f"{name} gradient"] = gradient(getattr(sf, name))
    found |= {
        "argmax": sf.argmax,
        "topk_mean": lambda y: sf.topk_mean(y, [1, 3]),
        "reverse": sf.reverse,
        "concat": lambda y: sf.concat([y, y]),
        "slice": lambda y: sf.slice(y, 0, x.lengths // 2),
        "window": lambda y: sf.window(y, 1, 1),
        "window gradient": gradient(sf.window, 1, 1),
        "ngrams": lambda y: sf.ngrams(y, 2, fill=1.0),
        "conv": lambda y: sf.conv(y, weight, 1, 1),
        "expand": lambda y: sf.repeat(y, counts),
        "expand_as": lambda y: sf.expand_as(rows, y),
        "reorder": lambda y: sf.reorder(y, order),
        "sort_by_length": sf.sort_by_length,
        "join_batches": lambda y: sf.join_batches([y, y]),
        "time steps": lambda y: sf.TensorArray.unpack(y).pack(),
        "position_ids": sf.position_ids,
        "segment_ids": sf.segment_ids,
        "buckets": lambda y: sf.buckets(y, 8192),
        "pack_bins": lambda y: sf.pack_bins(y, 8192),
    }
    return found


def gradient(operation: Callable[..., object], *args: object) -> Callable[[sf.Ragged], object]:
    """A pullback; the operation itself runs once for each encoding."""
    made: dict[int, tuple[Callable[[object], object], object]] = {}

    def run(x: sf.Ragged) -> object:
        if id(x) not in made:
            y, pullback = sf.vjp(operation, x, *args)
            made[id(x)] = pullback, y
        pullback, dy = made[id(x)]
        return pullback(dy)

    return run


def peers(x: sf.Ragged) -> dict[str, Candidates]:
    """What other libraries have, by our name and theirs."""
    found: dict[str, Candidates] = {}
    lengths = x.lengths.astype(np.int32)
    data = x.data if x.data.ndim > 1 else x.data[:, None]
    if importlib.util.find_spec("thinc"):
        from thinc.api import NumpyOps

        ops = NumpyOps()
        for name in ("sum", "mean", "max"):
            forward = getattr(ops, f"reduce_{name}")
            found.setdefault(f"reduce_{name}", {})["Thinc"] = lambda forward=forward: forward(data, lengths)
        sums = ops.reduce_sum(data, lengths)
        found["reduce_sum gradient"] = {"Thinc": lambda: ops.backprop_reduce_sum(sums, lengths)}
        best, which = ops.reduce_max(data, lengths)
        found["reduce_max gradient"] = {"Thinc": lambda: ops.backprop_reduce_max(best, which, lengths)}
        found["window"] = {"Thinc": lambda: ops.seq2col(data, 1, lengths=lengths)}
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        tensor, counts = torch.from_numpy(x.data), torch.from_numpy(x.lengths.copy())
        for name in ("sum", "mean", "max", "min"):
            found.setdefault(f"reduce_{name}", {})["torch.segment_reduce"] = lambda name=name: torch.segment_reduce(
                tensor, name, lengths=counts, axis=0, initial=0
            )
        rows = torch.ones((len(x), *x.data.shape[1:]))
        found["expand_as"] = {"torch.repeat_interleave": lambda: torch.repeat_interleave(rows, counts, dim=0)}
        masked = sf.convert(x, sf.Masked)
        padded = torch.from_numpy(masked.data).masked_fill(
            ~torch.from_numpy(masked.mask).reshape(*masked.mask.shape, *[1] * (x.data.ndim - 1)), float("-inf")
        )
        found["softmax"] = {"torch on padded": lambda: padded.softmax(1)}
        found["reduce_logsumexp"] = {"torch on padded": lambda: padded.logsumexp(1)}
    return found


def main(words: list[str]) -> None:
    """Measure and print."""
    sf.set_num_threads(1)
    for shape in SHAPES:
        x = batch(shape)
        encodings = {"Ragged": x, "Padded": sf.convert(x, sf.Padded), "Masked": sf.convert(x, sf.Masked)}
        beside = peers(x)
        print(f"\n{shape}: {len(x)} sequences, {x.rows} items of shape {x.item_shape}, {x.data.nbytes / 1e6:.1f} MB")
        for name, function in operations(x).items():
            if words and not any(word in name for word in words):
                continue
            candidates: Candidates = {"copy": x.data.copy}
            for kind, y in encodings.items():
                candidates[kind] = lambda function=function, y=y: function(y)
            figures = medians(candidates | beside.get(name, {}))
            print(f"  {name:27}" + "".join(f"{kind} {time_:.1f}   " for kind, time_ in figures.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
