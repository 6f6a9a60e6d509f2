"""Recurrent layers beside PyTorch's own: on packed sequences, and on rectangles whose padding it goes through too.

    python -m benchmarks.layers [--threads 1,2] [--seconds 2] [--only LSTM]

A line is one layer on one batch with so many threads, forwards alone or with the gradients of all weights; times
are minima and medians of turns in this process.  The last two columns say how many times as long PyTorch takes, by
minima.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import seqformats as sf

from .cells import OURS, Clock, Effort, Peer, check, in_turns
from .data import log_normal
from .peers import set_threads, torch

RNG = np.random.default_rng(0)
BATCHES = {
    "32 x 1 to 200 x 128": (RNG.integers(1, 201, 32), 128),
    "256 x log-normal, mean 25, x 256": (log_normal(256, 25), 256),
    "16 x 1 to 60 x 96": (RNG.integers(1, 61, 16), 96),
    "32 x 200 x 128": (np.full(32, 200), 128),
}
PACKED, PADDED = "PyTorch, packed", "PyTorch, padded"


def candidates(kind: str, lengths: np.ndarray, width: int, learns: bool) -> dict[str, Callable[[], Any]]:
    """Make the ways to the rows of a layer, in the order of packed sequences, and where it learns, to gradients too."""
    torch.manual_seed(0)
    nn = torch.nn
    layer = getattr(nn, kind)(width, width)
    items = [torch.randn(int(n), width) for n in lengths]
    x = sf.convert(items, sf.Ragged)
    packed = nn.utils.rnn.pack_sequence(items, enforce_sorted=False)
    block = nn.utils.rnn.pad_sequence(items)
    ways = {
        OURS: lambda: sf.torch.rnn(layer, x)[0].data,
        PACKED: lambda: layer(packed)[0].data,
        PADDED: lambda: layer(block)[0],
    }

    def learn(way: Callable[[], Any]) -> Any:
        layer.zero_grad()
        (way() ** 2).sum().backward()
        return layer.weight_hh_l0.grad

    def apply(way: Callable[[], Any]) -> Any:
        with torch.no_grad():
            return way()

    run = learn if learns else apply
    return {name: lambda way=way: run(way) for name, way in ways.items()}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers", description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", default="1,2", help="how many, with commas")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a line is measured")
    parser.add_argument("--only", default="", help="a part of the name of layers or batches")
    options = parser.parse_args()
    print(f"| layer | batch | threads | what | {OURS} | {PACKED} | {PADDED} | packed | padded |")
    print("|---|---|---|---|---|---|---|---|---|")
    for threads in map(int, options.threads.split(",")):
        set_threads(threads)
        for batch, (lengths, width) in BATCHES.items():
            for kind in ("LSTM", "GRU"):
                if options.only not in f"{kind} {batch}":
                    continue
                for learns in (True, False):
                    ways = candidates(kind, lengths, width, learns)
                    if learns:  # both gradients are of all rows
                        check(batch, ways[OURS](), PACKED, ways[PACKED](), exact=False)
                    found = in_turns(
                        {name: Peer(way) for name, way in ways.items()}, Clock("cpu"), Effort(options.seconds, 5)
                    )
                    shown = [f"{1e3 * t['min']:.2f} ms; {1e3 * t['median']:.2f} ms" for t in found.values()]
                    ratios = [f"{found[name]['min'] / found[OURS]['min']:.2f}" for name in (PACKED, PADDED)]
                    what = "forwards and backwards" if learns else "forwards"
                    print("|", " | ".join([kind, batch, str(threads), what, *shown, *ratios]), "|", flush=True)


if __name__ == "__main__":
    main()
