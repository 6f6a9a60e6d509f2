"""Recurrences along sequences, and what reinforcement learning makes of steps: a number an item."""

from __future__ import annotations

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation
from .data import Batch
from .peers import torch

SHAPES = ["small", "ids", "skewed"]
GAMMA, LAM = 0.99, 0.95
CHUNK = 128
"""Steps that a scan by matrices takes at a time."""


class Steps:
    """Numbers of steps in some columns, packed and padded, and a mask of turns."""

    def __init__(self, b: Batch, columns: int) -> None:
        rng = np.random.default_rng(9)
        self.b, self.rows = b, [rng.normal(-1, 0.5, b.rows).astype("f4") for _ in range(columns)]
        turns = np.repeat(np.arange(b.rows) % 3 != 2, rng.integers(1, 60, b.rows))[: b.rows]
        self.packed = [sf.Ragged(b.put(row), b.lengths) for row in self.rows]
        self.padded = [sf.convert(x, sf.Masked).data for x in self.packed]
        self.turns, self.there = b.put(turns), sf.mask(self.packed[0])
        self.where = sf.Ragged(self.turns, b.lengths)

    def flat(self, padded: Any) -> Any:
        """The numbers that are there."""
        return padded[self.there]

    def peer(self, run: Any) -> Peer:
        """A candidate whose result is padded."""
        return Peer(run, self.flat)


def last_first(b: Batch, r: Any, v: Any, there: Any) -> Any:
    """Advantages by a loop over the columns of a rectangle, from the definition."""
    zeros, choose, stack = (
        (np.zeros(r.shape[0], r.dtype), np.where, np.stack)
        if b.arrays == "NumPy"
        else (torch.zeros(r.shape[0], dtype=r.dtype, device=r.device), torch.where, torch.stack)
    )
    following = carry = zeros
    columns = []
    for t in range(r.shape[1] - 1, -1, -1):
        new = r[:, t] + GAMMA * following - v[:, t] + GAMMA * LAM * carry
        following, carry = choose(there[:, t], v[:, t], following), choose(there[:, t], new, carry)
        columns.append(carry)
    return stack(columns[::-1], 1)


def by_matrices(x: Any, decay: float) -> Any:
    """A recurrence from the end over a rectangle, by products of triangular matrices, some steps at a time."""
    n, width = x.shape
    whole = -(-width // CHUNK) * CHUNK
    y = torch.zeros(n, whole, dtype=x.dtype, device=x.device)
    y[:, :width] = x
    power = torch.arange(CHUNK, device=x.device)
    steps = (power[:, None] - power[None]).clamp(min=0)
    matrix = torch.where(power[:, None] >= power[None], decay**steps, 0.0).to(x.dtype)
    local = (y.view(-1, CHUNK) @ matrix).view(n, -1, CHUNK)
    down = (decay ** (CHUNK - power)).to(x.dtype)
    carry, out = torch.zeros(n, dtype=x.dtype, device=x.device), torch.empty_like(local)
    for c in range(local.shape[1] - 1, -1, -1):
        out[:, c] = local[:, c] + carry[:, None] * down
        carry = out[:, c, 0]
    return out.reshape(n, whole)[:, :width]


@operation("gae", SHAPES)
def _(b: Batch) -> Case:
    steps = Steps(b, 2)
    (r, v), (padded_r, padded_v) = steps.packed, steps.padded
    peers = {"loop over padded steps": steps.peer(lambda: last_first(b, padded_r, padded_v, steps.there))}
    if b.arrays == "PyTorch":

        def scan() -> Any:
            following = torch.nn.functional.pad(padded_v[:, 1:], (0, 1))
            return by_matrices(padded_r + GAMMA * following - padded_v, GAMMA * LAM)

        peers["scan by matrices, padded"] = steps.peer(scan)
    return Case(
        lambda: sf.rl.gae(r, v, gamma=GAMMA, lam=LAM).advantages, peers, Limit(8 * b.rows, 8 * b.rows), exact=False
    )


@operation("gae, a mask of turns", SHAPES)
def _(b: Batch) -> Case:
    steps = Steps(b, 2)
    (r, v), (padded_r, padded_v) = steps.packed, steps.padded
    turns = sf.convert(steps.where, sf.Masked).data
    zeros = padded_r * 0

    def loop() -> Any:
        found = last_first(b, padded_r, padded_v, turns)
        return np.where(turns, found, zeros) if b.arrays == "NumPy" else torch.where(turns, found, zeros)

    def ours() -> Any:
        return sf.rl.gae(sf.Ragged(r.data * steps.turns, r.lengths), v, gamma=GAMMA, lam=LAM, where=steps.where)

    return Case(
        lambda: ours().advantages,
        {"loop over padded steps": steps.peer(loop)},
        Limit(9 * b.rows, 8 * b.rows),
        exact=False,
    )


@operation("recurrence", SHAPES)
def _(b: Batch) -> Case:
    """A decay an item, as state spaces and filters have."""
    steps = Steps(b, 2)
    x, padded = steps.packed[0], steps.padded[0]
    by = abs(steps.packed[1].data) % 1
    padded_by = sf.convert(sf.Ragged(by, b.lengths), sf.Masked).data

    def loop() -> Any:
        state, columns = padded[:, 0] * 0, []
        for t in range(padded.shape[1]):
            state = padded_by[:, t] * state + padded[:, t]
            columns.append(state)
        return np.stack(columns, 1) if b.arrays == "NumPy" else torch.stack(columns, 1)

    peers = {"loop over padded steps": steps.peer(loop)}
    return Case(lambda: sf.recurrence(x, by), peers, Limit(8 * b.rows, 4 * b.rows), exact=False)


@operation("policy loss with its gradient", SHAPES, arrays=("PyTorch",))
def _(b: Batch) -> Case:
    """The clipped loss of steps, their mean, and the gradient of the log-probabilities."""
    steps = Steps(b, 2)
    (logp, old), (padded, padded_old) = steps.packed, steps.padded
    advantages = b.put(np.random.default_rng(3).normal(size=b.n).astype("f4"))
    turns = sf.convert(steps.where, sf.Masked).data

    def ours() -> Any:
        x = logp.data.detach().requires_grad_()
        losses = sf.rl.policy_loss(sf.Ragged(x, b.lengths), old, advantages, where=steps.where, clip=(0.2, 0.28))
        sf.rl.mean_loss(losses, where=steps.where).backward()
        return x.grad

    def theirs() -> Any:
        x = padded.detach().requires_grad_()
        ratio = (x - padded_old).clamp(-20, 20).exp()
        worth = advantages[:, None]
        losses = torch.maximum(-worth * ratio, -worth * ratio.clamp(0.8, 1.28)) * turns
        (losses.sum() / turns.sum()).backward()
        return x.grad

    return Case(ours, {"padded": steps.peer(theirs)}, Limit(12 * b.rows, 4 * b.rows), exact=False)


@operation("group advantages", ["small", "ids", "short"])
def _(b: Batch) -> Case:
    """Rewards of samples in groups of 8, in the dtype of the batch's floats."""
    n = b.n // 8 * 8
    rewards = b.put(np.random.default_rng(4).normal(size=n).astype("f4"))

    def view() -> Any:
        groups = rewards.reshape(-1, 8)
        if b.arrays == "NumPy":
            mean, std = groups.mean(1, keepdims=True), groups.std(1, keepdims=True, ddof=1)
        else:
            mean, std = groups.mean(1, keepdim=True), groups.std(1, keepdim=True)
        return ((groups - mean) / (std + 1e-6)).reshape(-1)

    return Case(
        lambda: sf.rl.group_advantages(rewards, 8), {"a view of groups": view}, Limit(4 * n, 4 * n), exact=False
    )


# --- layers of PyTorch ------------------------------------------------------------------------------------------------


def layer(kind: str, learns: bool) -> Any:
    """A case: outputs of all items, or the gradient of the weights of the state by all outputs."""

    def case(b: Batch) -> Case:
        rnn, width = torch.nn.utils.rnn, b.item[0]
        torch.manual_seed(0)
        module = getattr(torch.nn, kind)(width, width)
        packed, block = b.packed.to_torch(), rnn.pad_sequence(b.items)
        there = sf.mask(b.ragged)

        def run(call: Any, read: Any = None) -> Peer:
            def forwards() -> Any:
                with torch.no_grad():
                    return call()

            def learning() -> Any:
                module.zero_grad()
                (call() if read is None else read(call())).sum().backward()
                return module.weight_hh_l0.grad.clone()

            return Peer(learning) if learns else Peer(forwards, read)

        ours = run(lambda: sf.torch.rnn(module, b.ragged)[0].data)
        peers = {
            "packed": run(lambda: module(packed)[0], lambda y: torch.cat(rnn.unpack_sequence(y))),
            "padded": run(lambda: module(block)[0], lambda y: y.transpose(0, 1)[there]),
        }
        return Case(ours, peers, Limit(b.bytes, b.bytes), exact=False)

    return case


for _kind in ("LSTM", "GRU"):
    for _more in ("", ", learning"):
        operation(_kind + _more, ["tiny", "small"], ("PyTorch",), cuda=False)(layer(_kind, bool(_more)))
