"""The example of reinforcement learning: it reaches its goal, and nothing of what the caller says is in a loss."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from conftest import INTERPRETED

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "grpo.py"))


@pytest.mark.skipif(INTERPRETED, reason="kernels line by line take minutes for 100,000 tokens")
def test_it_learns_the_task():
    history = EXAMPLE["train"](seed=1, most=100)
    assert history[0] < 0.2
    assert history[-1] >= EXAMPLE["GOAL"]


def test_turns_differ_and_the_caller_changes_nothing():
    rng, logits = np.random.default_rng(0), np.zeros((201, EXAMPLE["TOKENS"]))
    rollouts, digits = EXAMPLE["sample"](rng, logits, 3)
    scores = EXAMPLE["judge"](rollouts, digits)
    assert len(set(rollouts.tokens.lengths.tolist())) > 1
    assert np.isnan(rollouts.old.data[~rollouts.where.data]).all()
    assert np.isfinite(EXAMPLE["step"](logits, rollouts, scores, 1.0))
    assert not logits[0].any()  # the context in which the caller speaks
    assert np.isfinite(logits).all()
