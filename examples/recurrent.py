"""One GRU, written three ways: over time steps, under `with_padded`, and under `with_packed`.

    python examples/recurrent.py

The loop over `TensorArray` is what PaddlePaddle's DynamicRNN did: sequences that have ended leave, by `shrink`, and a
static input follows in the order of the steps.  The numbers of all three are the same.
"""

from typing import Any

import numpy as np

import seqformats as sf

WIDTH = 8


def random_weights(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(WIDTH, 3 * WIDTH)) / 3, rng.normal(size=(WIDTH, 3 * WIDTH)) / 3


def cell(x: np.ndarray, hidden: np.ndarray, weights: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """One step of a GRU for the sequences that are alive: ``(alive, WIDTH)`` each."""
    wanted, held = np.split(x @ weights[0], 3, axis=1), np.split(hidden @ weights[1], 3, axis=1)
    update, reset = 1 / (1 + np.exp(-wanted[0] - held[0])), 1 / (1 + np.exp(-wanted[1] - held[1]))
    return update * hidden + (1 - update) * np.tanh(wanted[2] + reset * held[2])


def over_steps(x: Any, start: np.ndarray, weights: tuple[np.ndarray, np.ndarray]) -> Any:
    """Step by step; `start` is the first state of each sequence, in the caller's order."""
    steps = sf.TensorArray.unpack(x)
    _, order = sf.sort_by_length(x)
    hidden = sf.reorder(start, order)
    out = []
    for t, step in enumerate(steps):
        hidden = cell(step, sf.shrink(hidden, steps, t), weights)
        out.append(hidden)
    return steps.with_steps(out).pack()


@sf.with_padded
def under_padded(x: sf.Padded, start: np.ndarray, weights: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Over the columns that are alive, which are a prefix of each step."""
    out = np.zeros_like(x.data)
    hidden = start[x.indices]
    for t, alive in enumerate(x.size_at_t):
        hidden = out[t, :alive] = cell(x.data[t, :alive], hidden[:alive], weights)
    return out


@sf.with_packed
def under_packed(x: sf.Packed, start: np.ndarray, weights: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Over the rows of each step."""
    out, first = np.empty_like(x.data), 0
    hidden = start[x.indices]
    for alive in x.size_at_t:
        hidden = out[first : first + alive] = cell(x.data[first : first + alive], hidden[:alive], weights)
        first += alive
    return out


def main() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 30, 200)
    x = sf.Ragged(rng.normal(size=(int(lengths.sum()), WIDTH)), lengths)
    start = rng.normal(size=(len(x), WIDTH))
    weights = random_weights()
    results = [function(x, start, weights) for function in (over_steps, under_padded, under_packed)]
    for name, result in zip(("with_padded", "with_packed"), results[1:], strict=True):
        difference = np.abs(result.data - results[0].data).max()
        print(f"TensorArray and {name}: max abs difference {difference:.1e} over {x.rows} rows")


if __name__ == "__main__":
    main()
