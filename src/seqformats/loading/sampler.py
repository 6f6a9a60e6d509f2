"""Samplers of batches by length, for a loader, for each epoch, rank and restart."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..arrays import Array
from ..converters.layouts import check_at_least, one_of
from ..errors import RETURNED, TOGETHER, TURN, quote
from ..formats.structure import Structure, flag
from ..once import once
from ..operations.annotations import Lengths
from ..operations.costs import Cost, cost_limit, costs_of_widths
from ..operations.inspection import lengths_given
from ..operations.options import key_of
from .loader import share_of
from .plan import POOL, TOO_LONG, fitting, plan_batches, steps_alike


class BucketSampler:
    """Batches of samples of similar length, for ``DataLoader(batch_sampler=...)``.

    Parameters
    ----------
    lengths : n integers, a list, an array or a tensor; or an encoding
        How long each sample of the dataset is.
    max_items : int
        The most items of a batch, padding counted: the greatest length in it, times its samples.
    multiple_of : int
        What `collate` rounds widths up to; it counts as padding.
    max_sequences : int, optional
        The most samples of a batch.
    pool : int, optional
        About how many batches are made of one pool of samples, which are drawn at random and sorted by length.  A
        larger pool means less padding; in a smaller one, chance decides more which samples come together.  None is one
        pool of all samples.
    shuffle : bool
        True for another order in each epoch.  Else all epochs have the same batches: pools follow the order given, and
        each pool begins with its longest samples.
    seed : int
        What the order begins with; the same on all ranks.
    drop : bool
        True to leave some batches out where they cannot be dealt evenly to the ranks.  Else some are there twice.
    rank, world : int, optional
        Which part of the batches this process takes, and how many processes there are; without them what
        ``torch.distributed`` says where it is initialised, else all batches.
    too_long : "raise", "drop" or "alone"
        A sample over `max_items` is an error, is left out, or is a batch of its own.
    cost : optional
        What a sample costs, as `seqformats.balance` has it.  The batches that the ranks take in one step then cost
        alike.  A batch costs as much as its costliest sample times the number of its samples.
    max_cost : float, optional
        The most that a batch costs, as `seqformats.buckets` has it; a sample over it is too long.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    StructureError
        For a sample over `max_items` or `max_cost`; the message names the sample.
    ConversionError
        For impossible options.

    See Also
    --------
    collate : Samples into a batch.
    seqformats.buckets : The batches of one pool.

    Notes
    -----
    The batches depend on lengths, options, seed and epoch alone: they are the same on every machine.  How many there
    are differs a little from epoch to epoch, and `len` is that of the epoch that is set.  All ranks have equally many.

    Trainers that deal batches to ranks themselves want one that does not, ``rank=0, world=1``.

    Without shuffling, results come back into the order of the dataset by
    ``sf.inverse_order(np.concatenate(list(sampler)))``.

    Examples
    --------
    >>> import seqformats as sf
    >>> sampler = sf.torch.BucketSampler([1, 5, 2, 5, 1], 10, shuffle=False)
    >>> list(sampler)
    [[1, 3], [2, 0, 4]]
    >>> sampler = sf.torch.BucketSampler([1, 5, 2, 5, 1] * 100, 10, seed=7)
    >>> sampler.set_epoch(3)
    >>> batches = iter(sampler)
    >>> done = [next(batches), next(batches)]
    >>> again = sf.torch.BucketSampler([1, 5, 2, 5, 1] * 100, 10, seed=7)
    >>> again.load_state_dict(sampler.state_dict())
    >>> list(again) == list(batches)
    True
    """

    def __init__(
        self,
        lengths: Lengths,
        max_items: int,
        *,
        multiple_of: int = 1,
        max_sequences: int | None = None,
        pool: int | None = POOL,
        shuffle: bool = True,
        seed: int = 0,
        drop: bool = False,
        rank: int | None = None,
        world: int | None = None,
        too_long: str = "raise",
        cost: Cost | None = None,
        max_cost: float | None = None,
    ) -> None:
        for name, value in (("shuffle", shuffle), ("drop", drop)):
            flag(value, name)
        one_of(too_long, "too_long", TOO_LONG)
        self._options: dict[str, Any] = {
            "max_items": check_at_least(max_items, "max_items", 0),
            "multiple_of": check_at_least(multiple_of, "multiple_of", 1),
            "max_sequences": None if max_sequences is None else check_at_least(max_sequences, "max_sequences", 1),
            "pool": None if pool is None else check_at_least(pool, "pool", 1),
            "too_long": too_long,
        }
        self._lengths: Array = Structure.of_lengths(lengths_given(lengths)).lengths
        if max_cost is not None:
            self._options["max_cost"] = cost_limit(cost, max_cost)
        priced = cost is not None or max_cost is not None
        self._costs = costs_of_widths(self._lengths, self._options["multiple_of"], cost) if priced else None
        self._alike = cost is not None
        limit, step = self._options["max_items"], self._options["multiple_of"]
        # An error comes now, not in the first epoch.
        fitting(self._lengths, limit, step, too_long, self._costs, self._options.get("max_cost", np.inf))
        self._shuffle, self._seed, self._drop = bool(shuffle), key_of(seed), bool(drop)
        self._rank, self._world = _share(rank, world)
        self._epoch = 0
        self._planned: tuple[int, Array, Array] | None = None  # the epoch, the positions, and where batches begin
        self._state = (0, 0)  # the epoch, and how many batches this rank has had of it
        self._resume = 0
        self._sent = _Sent()
        self._asked = False  # has a loader just asked the iterator for its state?

    @property
    def epoch(self) -> int:
        """The epoch that is set."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next: each has its own order.

        Parameters
        ----------
        epoch : int
            From 0.  The one that is resumed goes on where it was; any other begins at its beginning.
        """
        epoch = check_at_least(epoch, "epoch", 0)
        if epoch != self._epoch:
            self._begin(epoch, 0)

    def __len__(self) -> int:
        batches = self._plan()[1].size - 1
        return batches // self._world if self._drop else -(-batches // self._world)

    def __iter__(self) -> _Pass:
        self._begin(self._epoch, self._resume)
        return _Pass(self, self._epoch, self._resume)

    def _begin(self, epoch: int, taken: int) -> None:
        """Say where the next pass begins."""
        self._epoch, self._resume, self._state = epoch, taken, (epoch, taken)
        self._sent, self._asked = _Sent(), False

    def _remaining_batches(self, epoch: int, begin: int) -> Iterator[list[int]]:
        """The batches of this rank that are left; later passes begin at the beginning once one has been given."""
        self._resume = 0
        positions, begins = self._plan()
        batches = begins.size - 1
        for number in range(begin, len(self)):
            k = (number * self._world + self._rank) % batches
            self._state = (epoch, number + 1)
            yield _Batch(positions[begins.item(k) : begins.item(k + 1)].tolist(), self._sent)

    def _plan(self) -> tuple[Array, Array]:
        """The batches of all ranks in the epoch that is set: the positions in them, and where each begins."""
        if self._planned is None or (self._shuffle and self._planned[0] != self._epoch):
            seed = (self._seed, self._epoch) if self._shuffle else None
            made = plan_batches(self._lengths, seed=seed, costs=self._costs, **self._options)
            if self._costs is not None and self._alike:
                made = steps_alike(made, self._costs, self._world, seed)
            self._planned = (self._epoch, made.data, made.offsets)
        return self._planned[1:]

    def state_dict(self, taken: int | None = None) -> dict[str, int]:
        """Return the place of the sampler, to be saved.

        Parameters
        ----------
        taken : int, optional
            How many batches of this epoch have been used.  Without it, how many the sampler has given, which is the
            same where ``num_workers=0``.

        Returns
        -------
        dict
            Plain ints.

        Raises
        ------
        StructureError
            Without `taken`, where batches have been sent to the workers of a ``DataLoader``, which asks for batches
            ahead of those that it returns, ``prefetch_factor`` for each worker.

        Notes
        -----
        torchdata's ``StatefulDataLoader`` saves and loads the state by itself: it asks the iterator, which has these
        two methods too, each time that it takes a batch from it, and keeps what it heard for when that is returned.
        """
        epoch, given = self._state
        asked, self._asked = self._asked, False
        if taken is None and given and self._sent.there and not asked:
            raise TURN(
                "a loader with workers asks for batches before it returns them, so a sampler does not know how many "
                "have been used; give state_dict(taken=...), or save the state of a StatefulDataLoader"
            )
        return self._state_of(epoch, given if taken is None else check_at_least(taken, "taken", 0))

    def _state_of(self, epoch: int, taken: int) -> dict[str, int]:
        return {"epoch": epoch, "taken": taken, "world": self._world, "plan": self._digest}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from what `state_dict` has returned: the next pass gives the batches that were left.

        Parameters
        ----------
        state : dict

        Raises
        ------
        ConversionError
            For the state of a sampler with other lengths or options, or of more or fewer ranks.

        Notes
        -----
        Of an epoch that was over nothing is left: `set_epoch` says that the next one comes.
        """
        if not isinstance(state, Mapping) or not {"epoch", "taken", "world", "plan"} <= state.keys():
            raise RETURNED(f"a state is what state_dict() has returned, not {quote(state)}")
        if state["plan"] != self._digest:
            raise TOGETHER(
                "the state is that of a sampler with other lengths, options or another seed, whose batches are others"
            )
        if state["world"] != self._world:
            raise TOGETHER(f"the state is that of one of {state['world']} ranks, but here are {self._world}")
        epoch, taken = check_at_least(state["epoch"], "epoch", 0), check_at_least(state["taken"], "taken", 0)
        self._begin(epoch, taken)

    @once
    def _digest(self) -> int:
        """A number that differs where batches do; loaders that save their state ask for it in every step."""
        options = repr((self._options, self._shuffle, self._seed, self._drop))
        own = zlib.crc32(options.encode(), zlib.crc32(self._lengths.tobytes()))
        return own if self._costs is None else zlib.crc32(self._costs.tobytes(), own)

    def __repr__(self) -> str:
        which = f", rank {self._rank} of {self._world}" if self._world > 1 else ""
        return f"BucketSampler({self._lengths.size} samples, epoch {self._epoch}{which})"


class _Sent:
    """Note on whether batches of a pass have been pickled, as they are on their way to the workers of a loader."""

    there = False


class _Batch(list[int]):
    """Positions; other processes get a plain list."""

    def __init__(self, positions: list[int], sent: _Sent) -> None:
        super().__init__(positions)
        self._sent = sent

    def __reduce__(self) -> tuple[type[list[int]], tuple[tuple[int, ...]]]:
        self._sent.there = True
        return list, (tuple(self),)


class _Pass(Iterator[list[int]]):
    """The batches of an epoch that are left.

    It begins with its first batch: a loader may ask for several iterators before it takes one from the last.
    """

    def __init__(self, sampler: BucketSampler, epoch: int, taken: int) -> None:
        self._sampler, self._epoch, self._taken = sampler, epoch, taken
        self._batches = sampler._remaining_batches(epoch, taken)

    def __next__(self) -> list[int]:
        batch = next(self._batches)
        self._taken += 1
        return batch

    def state_dict(self) -> dict[str, int]:
        """Return the state of the sampler with what this iterator has given."""
        self._sampler._asked = True
        return self._sampler._state_of(self._epoch, self._taken)

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from there."""
        self._sampler.load_state_dict(state)
        self._epoch, self._taken = self._sampler._state
        self._batches = self._sampler._remaining_batches(self._epoch, self._taken)


def _share(rank: int | None, world: int | None) -> tuple[int, int]:
    """Tell which of how many processes this is, as is said, or as ``torch.distributed`` has it."""
    distributed: Any = sys.modules.get("torch.distributed")  # without it no process has a rank
    known = distributed is not None and distributed.is_available() and distributed.is_initialized()
    if known and rank is None and world is None:
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return share_of(rank, world)
