"""A small policy learns a task with turns from a judge alone: GRPO on rollouts of different lengths, without padding.

    python examples/grpo.py

The task: a caller says some digits, one a turn, and after each the policy says whether it is larger than the one
before: two tokens, "so" and then "yes" or "no".  A judge scores the whole conversation.  What the caller says is no
step: nothing of it is in a loss.  The policy is a table of logits by what it sees, trained by plain gradient descent
through `sf.vjp`, in NumPy alone.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import seqformats as sf

SO, YES, NO = 10, 11, 12  # after the digits
TOKENS = 13
SAMPLES = 8
"""Samples of each prompt."""
GOAL = 0.95
"""The mean score that is learned."""


class Rollouts(NamedTuple):
    """Conversations, one a sample, with what the policy was at each token."""

    tokens: Any
    contexts: Any  # what the policy saw before each token
    where: Any  # which tokens it has chosen
    old: Any  # their log-probabilities


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Return the log-probabilities of all tokens, by context."""
    away = logits - logits.max(1, keepdims=True)
    found: np.ndarray = away - np.log(np.exp(away).sum(1, keepdims=True))
    return found


def converse(rng: np.random.Generator, digits: np.ndarray, log: np.ndarray) -> list[tuple[int, int, bool]]:
    """One conversation: token, context, and whether the policy has chosen it."""
    found = []
    for before, digit in pairwise(digits.tolist()):
        found.append((digit, 0, False))
        for turn in range(2):
            context = 1 + turn * 100 + before * 10 + digit
            token = int(rng.choice(TOKENS, p=np.exp(log[context])))
            found.append((token, context, True))
    return found


def sample(rng: np.random.Generator, logits: np.ndarray, prompts: int) -> tuple[Rollouts, list[np.ndarray]]:
    """`SAMPLES` conversations for each of some prompts, and their digits."""
    log = log_probabilities(logits)
    digits = [one for _ in range(prompts) for one in [rng.integers(0, 10, rng.integers(2, 7))] * SAMPLES]
    talks = [converse(rng, one, log) for one in digits]
    lengths = [len(talk) for talk in talks]
    tokens, contexts, chosen = (np.array(column) for column in zip(*[x for talk in talks for x in talk], strict=True))
    old = np.where(chosen, log[contexts, tokens], np.nan)  # nobody looks at the others
    return Rollouts(*[sf.Ragged(x, lengths) for x in (tokens, contexts, chosen, old)]), digits


def judge(rollouts: Rollouts, digits: list[np.ndarray]) -> np.ndarray:
    """The part of its turns that a policy got right, for each sample."""
    scores = []
    for talk, said in zip(rollouts.tokens.sequences(), digits, strict=True):
        turns = talk.reshape(-1, 3)
        right = np.where(said[1:] > said[:-1], YES, NO)
        scores.append(((turns[:, 1] == SO) * 0.5 + (turns[:, 2] == right) * 0.5).mean())
    return np.array(scores)


def step(logits: np.ndarray, rollouts: Rollouts, scores: np.ndarray, rate: float) -> float:
    """Two steps of gradient descent on the loss of some rollouts; the last loss."""
    advantage = sf.rl.group_advantages(scores, SAMPLES)
    contexts, tokens = rollouts.contexts.data, rollouts.tokens.data
    loss = 0.0
    for _ in range(2):  # the second is off the policy that has acted, so ratios and clipping count
        log = log_probabilities(logits)
        logp = sf.Ragged(log[contexts, tokens], rollouts.tokens.lengths)
        losses, back = sf.vjp(sf.rl.policy_loss, logp, rollouts.old, advantage, where=rollouts.where, clip=(0.2, 0.28))
        mean, back_to_losses = sf.vjp(sf.rl.mean_loss, losses, where=rollouts.where)
        slopes = back(back_to_losses(np.ones(()))).data  # 0 where the caller has spoken
        by_token = np.zeros_like(logits)
        np.add.at(by_token, (contexts, tokens), slopes)
        logits -= rate * (by_token - np.exp(log) * by_token.sum(1, keepdims=True))
        loss = float(np.asarray(mean))
    return loss


def train(seed: int = 0, most: int = 400, prompts: int = 64, rate: float = 400.0) -> list[float]:
    """The mean score of each batch of rollouts, until that is `GOAL`."""
    rng, logits = np.random.default_rng(seed), np.zeros((201, TOKENS))
    history: list[float] = []
    while len(history) < most and (not history or history[-1] < GOAL):
        rollouts, digits = sample(rng, logits, prompts)
        scores = judge(rollouts, digits)
        history.append(float(scores.mean()))
        step(logits, rollouts, scores, rate)
    return history


if __name__ == "__main__":
    history = train()
    for k in range(0, len(history), 10):
        print(f"batch {k:4d}: mean score {history[k]:.3f}")
    print(f"batch {len(history) - 1:4d}: mean score {history[-1]:.3f}, the goal is {GOAL}")
