"""Plan which sequences come together in a batch, and in what order, by their lengths alone, before any is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array
from ..converters.layouts import check_at_least, one_of
from ..errors import LONG
from ..formats import Ragged
from ..formats.annotations import Integers
from ..formats.structure import Structure, integers
from ..lazy_import import import_now
from ..operations.batch import buckets, reorder

POOL = 100
TOO_LONG = ("raise", "drop", "alone")


def plan_batches(
    lengths: Integers,
    max_items: int,
    *,
    multiple_of: int = 1,
    max_sequences: int | None = None,
    pool: int | None = POOL,
    seed: Sequence[int] | None = None,
    too_long: str = "raise",
    costs: Array | None = None,
    max_cost: float = np.inf,
) -> Ragged:
    """Batches of sequences of similar length, in a random order.

    Parameters
    ----------
    lengths : n integers
    max_items : int
        The most items of a batch, padding counted.
    multiple_of : int
        The width of a batch is the length of its longest sequence, rounded up to a multiple of this.
    max_sequences : int, optional
        The most sequences of a batch.
    pool : int, optional
        About how many batches are made of a pool: of sequences that follow one another in the random order and are
        sorted by length.  None: all sequences are one pool.
    seed : whole numbers, optional
        What the random order begins with, ``(seed, epoch)`` say.  None: pools in the order given, and in each the
        longest sequences first; before them what is `alone`.
    too_long : "raise", "drop" or "alone"
        A sequence over `max_items` is an error, is left out, or is a batch of its own.
    costs : array ``(n,)``, optional
        What each sequence costs.
    max_cost : float
        The most that a batch costs, its costliest sequence times the number of its sequences.

    Returns
    -------
    Ragged
        The positions (int64), one sequence per batch.

    Raises
    ------
    StructureError
        For a sequence that is over `max_items`.
    ConversionError
        For options that are too small.

    Notes
    -----
    Sequences are shuffled, cut into pools, sorted by length within each, cut into batches, and the batches of all
    pools shuffled: the larger the pool, the less padding, and the less random is who comes together.
    """
    one_of(too_long, "too_long", TOO_LONG)
    limit, step = check_at_least(max_items, "max_items", 0), check_at_least(multiple_of, "multiple_of", 1)
    most = None if max_sequences is None else check_at_least(max_sequences, "max_sequences", 1)
    size = None if pool is None else check_at_least(pool, "pool", 1)
    known = Structure.of_lengths(integers(lengths, "lengths")).lengths
    fits = fitting(known, limit, step, too_long, costs, max_cost)
    limited = costs is not None and max_cost < np.inf
    order: Array = np.arange(known.size) if seed is None else shuffle(known.size, *seed, 0)
    whole = fits.all()
    long = order[:0] if whole or too_long == "drop" else order[~fits[order]]
    order = order if whole else order[fits[order]]
    positions: list[Array] = [long]
    counts: list[Array] = [np.ones(long.shape, np.int64)]
    for part in _pools(order, known[order], size, limit, most):
        priced = {"cost": costs[part], "max_cost": max_cost} if costs is not None and limited else {}
        made = buckets(known[part], limit, multiple_of=step, max_sequences=most, **priced)
        positions.append(part[made.data])
        counts.append(made.lengths)
    batches = Ragged(np.concatenate(positions), np.concatenate(counts))
    return batches if seed is None else reorder(batches, shuffle(len(batches), *seed, 1))


def fitting(
    lengths: Array, limit: int, step: int, too_long: str, costs: Array | None = None, max_cost: float = np.inf
) -> Array:
    """Tell which sequences fit into a batch; StructureError where one must and does not."""
    fits: Array = lengths <= limit // step * step
    if costs is not None:
        fits &= costs <= max_cost
    if too_long != "raise" or fits.all():
        return fits
    i = int((~fits).argmax())
    if lengths[i] <= limit // step * step and costs is not None:
        raise LONG(
            f"sequence {i} costs {costs[i]:g}, more than max_cost={max_cost:g}; "
            'too_long="drop" leaves such sequences out, "alone" gives each a batch of its own'
        )
    length = int(lengths[i])
    padded = f", padded to {-(-length // step) * step}" if step > 1 else ""
    raise LONG(
        f"sequence {i} has {length} items{padded}, more than max_items={limit}; "
        'too_long="drop" leaves such sequences out, "alone" gives each a batch of its own'
    )


def _pools(order: Array, lengths: Array, size: int | None, limit: int, most: int | None) -> list[Array]:
    """The order in pieces that each make about `size` batches."""
    if not order.size:
        return []
    if size is None or not limit:
        return [order]
    share = limit / order.size if most is None else limit / most  # what a sequence takes of a batch, however short
    pools = np.cumsum(np.maximum(lengths, share))[:-1] // (float(size) * limit)  # of all but the first
    return [*np.split(order, np.flatnonzero(np.diff(pools, prepend=0)) + 1)]


def steps_alike(batches: Ragged, costs: Array, world: int, seed: Sequence[int] | None) -> Ragged:
    """Put batches in steps of `world` that cost alike, in a random order; those of an incomplete step come last.

    Without a seed the costliest step comes first.
    """
    if world == 1 or not len(batches):
        return batches
    each = np.maximum.reduceat(costs[batches.data], batches.offsets[:-1]) * batches.lengths
    ranked = np.argsort(-each, kind="stable")
    whole = ranked.size // world * world
    steps = ranked[:whole].reshape(-1, world)
    if seed is not None:
        steps = steps[shuffle(steps.shape[0], *seed, 2)]
        turns = shuffle(whole, *seed, 3).reshape(steps.shape).argsort(1)  # which rank takes which
        steps = np.take_along_axis(steps, turns, 1)
    return reorder(batches, np.concatenate([steps.reshape(-1), ranked[whole:]]))


def shuffle(n: int, *seed: int) -> Array:
    """The numbers below n in a random order: the same one on any machine, with any version of NumPy.

    Only the bits that NumPy's generators give are promised to stay, not what is made of them.
    """
    return np.argsort(random_bits(n, *seed), kind="stable")


def random_bits(n: int, *seed: int) -> Array:
    """Random numbers of 64 bits (uint64), n of them."""
    random = import_now("numpy.random", None)
    bits: Array = random.Philox(random.SeedSequence(seed)).random_raw(n)
    return bits
