"""Steps of samples that chance has chosen, divided among ranks and micro-batches that cost alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array
from ..converters.layouts import check_at_least
from ..errors import LONG, RANGE
from ..formats import Ragged
from ..formats.structure import MAX_INT64
from ..operations.annotations import Lengths
from ..operations.balance import balance
from ..operations.costs import Cost, costs_of
from .plan import shuffle
from .sampler import BucketSampler


class BalancedSampler(BucketSampler):
    """Micro-batches for ``DataLoader(batch_sampler=...)``, in steps whose samples chance alone has chosen.

    Parameters
    ----------
    lengths : n integers, a list, an array or a tensor; or an encoding
        How long each sample of the dataset is.
    batch_size : int
        The samples of a step, of all ranks together.  Samples at the end that make no whole step are left out.
    cost : optional
        What a sample costs, as `seqformats.balance` has it; its items without it.
    max_items : int, optional
        The most items of a micro-batch, without padding.
    micro_batches : int, optional
        How many micro-batches each rank has in a step.  Without it one; with `max_items` alone as many as the step
        needs that needs most of them, in all steps of an epoch.
    shuffle : bool
        True for another order in each epoch.  Else the samples come in their order.
    seed : int
        What the order begins with; the same on all ranks.
    rank, world : int, optional
        Which part of each step this process takes, and how many processes there are; without them what
        ``torch.distributed`` says where it is initialised, else all.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    StructureError
        For a sample over `max_items`, and costs that are negative, not finite or not one a sample.
    ConversionError
        For impossible options, a step with fewer samples than micro-batches among them.

    See Also
    --------
    BucketSampler : Batches of similar length, with little padding.
    seqformats.balance : The division of one step.

    Notes
    -----
    Who learns together does not depend on lengths, so this is for batches without padding, or nearly; in batches of
    similar length, lengths do decide it.  Each rank takes its micro-batches of a step one after the other,
    ``sampler.micro_batches`` of them, the costliest first, and then the next step begins.  The steps of an epoch are
    divided when the first of it is asked for.  `set_epoch`, `state_dict` and `load_state_dict` are those of
    `BucketSampler`, and count micro-batches.

    Examples
    --------
    >>> import seqformats as sf
    >>> lengths = [7, 1, 5, 2, 5, 1, 3, 4]
    >>> ranks = [sf.torch.BalancedSampler(lengths, 4, shuffle=False, rank=k, world=2) for k in range(2)]
    >>> [list(sampler) for sampler in ranks]
    [[[0, 1], [6, 7]], [[2, 3], [4, 5]]]
    >>> sampler = sf.torch.BalancedSampler(lengths, 4, max_items=8, seed=3)
    >>> len(sampler), sampler.micro_batches
    (6, 3)
    """

    def __init__(
        self,
        lengths: Lengths,
        batch_size: int,
        *,
        cost: Cost | None = None,
        max_items: int | None = None,
        micro_batches: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        rank: int | None = None,
        world: int | None = None,
    ) -> None:
        super().__init__(lengths, MAX_INT64, shuffle=shuffle, seed=seed, rank=rank, world=world)
        self._size = check_at_least(batch_size, "batch_size", 1)
        limit = None if max_items is None else check_at_least(max_items, "max_items", 0)
        count = None if micro_batches is None else check_at_least(micro_batches, "micro_batches", 1)
        if self._size < self._world * (count or 1):
            raise RANGE(f"batch_size={self._size} is less than a sample for each of {self._world} x {count or 1} parts")
        if limit is not None and (self._lengths > limit).any():
            i = int(self._lengths.argmax())
            raise LONG(f"sample {i} has {self._lengths[i]} items, more than max_items={limit}")
        self._costs = costs_of(self._lengths, cost)
        self._wanted = 1 if count is None and limit is None else count
        self._options: dict[str, Any] = {"batch_size": self._size, "max_items": limit, "micro_batches": count}
        self._count = 0

    @property
    def micro_batches(self) -> int:
        """Number of micro-batches that a rank has in each step of the epoch that is set."""
        self._plan()
        return self._count

    def _plan(self) -> tuple[Array, Array]:
        """The micro-batches of all ranks in the epoch that is set, one number after the other of each step."""
        if self._planned is None or (self._shuffle and self._planned[0] != self._epoch):
            n = self._lengths.size
            order = shuffle(n, self._seed, self._epoch, 4) if self._shuffle else np.arange(n)
            steps = order[: n // self._size * self._size].reshape(-1, self._size)
            count = self._wanted
            divided = [self._divide(step, count) for step in steps]
            if count is None:
                count = max([parts.lengths.size // self._world for parts in divided], default=1)
                few = [k for k, parts in enumerate(divided) if parts.lengths.size < count * self._world]
                for k in few:
                    divided[k] = self._divide(steps[k], count)
            self._count = count
            ends = np.cumsum(np.concatenate([[0], *[parts.lengths for parts in divided]]))
            self._planned = (self._epoch, np.concatenate([order[:0], *[parts.data for parts in divided]]), ends)
        return self._planned[1:]

    def _divide(self, step: Array, count: int | None) -> Ragged:
        """The samples of a step as micro-batches, the first of each rank, then the second of each."""
        costs: Any = self._costs
        limit = self._options["max_items"]
        plan = balance(self._lengths[step], self._world, cost=costs[step], max_items=limit, micro_batches=count)
        lengths: Any = plan.parts.lengths
        parts = Ragged(step[plan.parts.data], lengths()[-1])
        turn = np.arange(len(parts)).reshape(plan.costs.shape).T.reshape(-1)
        return parts[turn]

    def __repr__(self) -> str:
        which = f", rank {self._rank} of {self._world}" if self._world > 1 else ""
        return f"BalancedSampler({self._lengths.size} samples, epoch {self._epoch}{which})"
