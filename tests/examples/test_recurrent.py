"""The recurrent example: three ways to run a GRU, the same numbers, in every encoding."""

import runpy
from pathlib import Path

import numpy as np
import oracle
import pytest

import seqformats as sf

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "recurrent.py"))
WAYS = [EXAMPLE[name] for name in ("over_steps", "under_padded", "under_packed")]
WEIGHTS = EXAMPLE["random_weights"]()
WIDTH = EXAMPLE["WIDTH"]


def one_by_one(x, start):
    """The GRU alone over each sequence."""
    found = []
    for i, sequence in enumerate(sf.convert(x, sf.List).items):
        hidden = start[i : i + 1]
        rows = []
        for item in sequence:
            hidden = EXAMPLE["cell"](item[None], hidden, WEIGHTS)
            rows.append(hidden)
        found.append(np.concatenate([*rows, np.zeros((0, WIDTH))]))
    return np.concatenate([*found, np.zeros((0, WIDTH))])


@pytest.mark.parametrize("lengths", [[3, 0, 5, 3, 1], [], [0, 0], [4]], ids=str)
@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
def test_three_ways_agree(kind, lengths):
    rng = np.random.default_rng(0)
    x = sf.Ragged(rng.normal(size=(sum(lengths), WIDTH)), lengths)
    start = rng.normal(size=(len(lengths), WIDTH))
    wanted = one_by_one(x, start)
    for way in WAYS:
        found = way(sf.convert(x, kind), start, WEIGHTS)
        assert type(found) is kind
        assert sf.lengths(found).tolist() == lengths
        assert np.allclose(sf.convert(found, sf.Ragged).data, wanted)


def test_it_says_so(capsys):
    EXAMPLE["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("max abs difference" in line for line in lines)
