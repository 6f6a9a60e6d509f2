"""What loaders of PyTorch cost, in padding and in tokens a second: batches at random, by `group_by_length`, by buckets.

    python benchmarks/loaders.py [rounds]

20,000 sequences of lognormal lengths, about 64 a batch, in one process and taking turns: every loader alone, and with a
small model behind it that computes on all places of the rectangle, padding included.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers.trainer_pt_utils import LengthGroupedSampler

import seqformats as sf

N, BATCH, WORDS, WIDTH = 20_000, 64, 30_000, 64

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # ids, mask, labels


def padded(samples: list[dict[str, object]]) -> Batch:
    """What users write."""
    ids = [sample["ids"] for sample in samples]
    rectangle = pad_sequence(ids, batch_first=True)
    lengths = torch.tensor([len(row) for row in ids])
    mask = torch.arange(rectangle.shape[1])[None] < lengths[:, None]
    return rectangle, mask, torch.tensor([sample["label"] for sample in samples])


def collated(samples: list[dict[str, object]]) -> Batch:
    batch = sf.torch.collate(samples)
    return batch["ids"].data, batch["ids"].mask, batch["label"]


def loaders() -> tuple[dict[str, Iterable[Batch]], int, list[int]]:
    """Loaders by name, the tokens in an epoch, and the lengths."""
    random = np.random.default_rng(0)
    lengths = np.minimum(random.lognormal(3.2, 0.7, N).astype(int) + 1, 512)
    rows = torch.from_numpy(random.integers(0, WORDS, lengths.sum())).split(lengths.tolist())
    samples = [{"ids": row, "label": i % 2} for i, row in enumerate(rows)]
    limit = int(lengths.mean() * BATCH)
    grouped = LengthGroupedSampler(BATCH, lengths=lengths.tolist())
    buckets = sf.torch.BucketSampler(lengths, limit)
    made = {
        "random, pad_sequence": DataLoader(samples, BATCH, shuffle=True, collate_fn=padded),
        "random, collate": DataLoader(samples, BATCH, shuffle=True, collate_fn=collated),
        "group_by_length, pad_sequence": DataLoader(samples, BATCH, sampler=grouped, collate_fn=padded),
        "BucketSampler, pad_sequence": DataLoader(samples, batch_sampler=buckets, collate_fn=padded),
        "BucketSampler, collate": DataLoader(samples, batch_sampler=buckets, collate_fn=collated),
    }
    return made, int(lengths.sum()), lengths.tolist()


def drained(batches: Iterable[Batch]) -> None:
    for _ in batches:
        pass


def computed(batches: Iterable[Batch]) -> None:
    table = torch.nn.Embedding(WORDS, WIDTH)
    layer = torch.nn.Linear(WIDTH, WIDTH)
    with torch.no_grad():
        for ids, mask, _ in batches:
            (layer(table(ids)).relu() * mask[..., None]).sum(1)


def seconds(use: Callable[[Iterable[Batch]], None], batches: Iterable[Batch]) -> float:
    begin = time.perf_counter()
    use(batches)
    return time.perf_counter() - begin


def padding(batches: Iterable[Batch]) -> tuple[int, float]:
    """How many batches an epoch has, and which part of their places is padding."""
    masks = [mask for _, mask, _ in batches]
    return len(masks), 1 - sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)


def samplers(lengths: list[int]) -> dict[str, Callable[[], Iterator[object]]]:
    """What makes the order of an epoch."""
    array = np.array(lengths)
    return {
        "group_by_length": lambda: iter(LengthGroupedSampler(BATCH, lengths=lengths)),
        "BucketSampler": lambda: iter(list(sf.torch.BucketSampler(array, int(array.mean() * BATCH)))),
    }


def main(rounds: int = 15) -> None:
    """Five rounds at least."""
    torch.set_num_threads(1)
    made, tokens, lengths = loaders()
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):  # the first one loads kernels
        uses = [("alone", drained), *([("with a model", computed)] if turn % 5 == 0 else [])]
        for name, loader in made.items():
            for what, use in uses:
                took = seconds(use, loader)
                if turn:
                    times.setdefault((name, what), []).append(took)
    print(f"{'':32s}batches  padding  million tokens a second (median, best)")
    for name, loader in made.items():
        count, share = padding(loader)
        speeds = [
            f"{what} {tokens / statistics.median(took) / 1e6:.2f}, {tokens / min(took) / 1e6:.2f}"
            for what in ("alone", "with a model")
            for took in [times[name, what]]
        ]
        print(f"{name:32s}{count:7d}  {share:6.1%}   {'; '.join(speeds)}")
    orders: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, make in samplers(lengths).items():
            begin = time.perf_counter()
            make()
            orders.setdefault(name, []).append((time.perf_counter() - begin) * 1e3)
    for name, took in orders.items():
        print(f"order of an epoch, {name}: {statistics.median(took):.1f} ms, best {min(took):.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
