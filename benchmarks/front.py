"""The three numbers of the first page: BERT without padding, advantages of rollouts, batches out of a file.

Run it by ``python -m benchmarks.front``; it needs PyTorch, transformers, datasets and pyarrow.  Times are of the CPU,
of one thread, so that other work on the machine changes little; both ways in turns, the fastest of several rounds.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import seqformats as sf

from . import unpadded
from .recurrent import GAMMA, LAM

ROUNDS = 5
Ways = dict[str, Callable[[], Any]]


def fastest(ways: Ways) -> dict[str, float]:
    """The least seconds of the CPU of each way."""
    best = dict.fromkeys(ways, np.inf)
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS):
        for way in rng.permutation(list(ways)).tolist():
            begun = time.process_time()
            ways[way]()
            best[way] = min(best[way], time.process_time() - begun)
    return best


def advantages() -> Ways:
    """Generalized advantage estimates of 512 rollouts of about 400 steps, and the usual loop over padded tensors."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(5.7, 0.8, 512).astype(int) + 1, 4096)
    rewards, values = (torch.from_numpy(rng.normal(size=lengths.sum()).astype("f4")) for _ in range(2))
    r, v = sf.Ragged(rewards, lengths), sf.Ragged(values, lengths)
    padded_r, padded_v = sf.convert(r, sf.Masked).data, sf.convert(v, sf.Masked).data
    there = torch.from_numpy(sf.mask(lengths)).float()

    def loop() -> torch.Tensor:
        carry, following = torch.zeros(len(lengths)), torch.zeros(len(lengths))
        found = torch.empty_like(padded_r)
        for t in range(padded_r.shape[1] - 1, -1, -1):
            delta = padded_r[:, t] + GAMMA * following - padded_v[:, t]
            carry = (delta + GAMMA * LAM * carry) * there[:, t]
            following = padded_v[:, t] * there[:, t]
            found[:, t] = carry
        return found

    def ours() -> sf.Ragged:
        return sf.rl.gae(r, v, gamma=GAMMA, lam=LAM).advantages

    assert torch.allclose(sf.convert(ours(), sf.Masked).data, loop(), atol=1e-3)
    return {"a loop over padded steps": loop, "sf.rl.gae": ours}


def loading(folder: Path) -> Ways:
    """A pass over 50,000 rows of about 30 ids in a Parquet file, in padded batches of about 64 rows."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(3.2, 0.7, 50_000).astype(int) + 1, 512)
    rows = pa.LargeListArray.from_arrays(np.r_[0, lengths.cumsum()], pa.array(rng.integers(0, 30_000, lengths.sum())))
    pq.write_table(pa.table({"ids": rows}), folder / "ids.parquet")
    datasets.disable_progress_bars()
    stored = datasets.Dataset.from_parquet(str(folder / "ids.parquet"), cache_dir=str(folder)).with_format("torch")
    pad = torch.nn.utils.rnn.pad_sequence

    def loop() -> None:
        for k in range(0, len(stored), 64):
            ids = stored[k : k + 64]["ids"]
            pad(list(ids), batch_first=True)

    def ours() -> None:
        for _ in sf.batches(folder, columns="ids", max_items=64 * 32, library="torch"):
            pass

    return {'with_format("torch") and pad_sequence': loop, "sf.batches": ours}


def main() -> None:
    """Print each number with its times."""
    torch.set_num_threads(1)
    sf.set_num_threads(1)
    unpadded.measure("BERT", ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        for name, ways in (("advantages", advantages()), ("loading", loading(Path(folder)))):
            best = fastest(ways)
            slow, fast = best
            print(f"{name}: {slow} {1e3 * best[slow]:.1f} ms, {fast} {1e3 * best[fast]:.2f} ms, ", end="")
            print(f"{best[slow] / best[fast]:.1f} times")


if __name__ == "__main__":
    main()
