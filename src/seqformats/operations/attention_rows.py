"""The arguments of the kernels of attention: arrays that belong together, under their names.

Each class is one argument of a kernel, on every device.  Nothing is imported here that a kernel could not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..arrays import Array
    from ..layout import Constants, Layout

    Integers: TypeAlias = Array  # of int64; the other arrays are of floats

NO_BIAS, TABLE, SLOPES = 0, 1, 2
"""Forms of a bias of the scores."""
BIASED, BENT, DROPPED = 1, 2, 4
"""Flags of `ScoreTerms.changes`: a bias, a soft cap, dropout."""
DRAWS = 1 << 16
"""The number of values that a random number of dropout has."""


class Attended(NamedTuple):
    """The batches that attention is made of, in the layouts of `AttentionPlaces`."""

    q: Array  # (rows, heads, deep)
    k: Array  # (rows of the keys, groups, deep)
    v: Array  # (rows of the keys, groups, wide)


class Answered(NamedTuple):
    """The arrays that the gradient is made of, of which those beside `Attended` lie as `q` does."""

    q: Array
    k: Array
    v: Array
    y: Array  # (rows, heads, wide), the result
    dy: Array  # its gradient
    kept: Array  # (rows, heads, 2), see `Attention`


class Attention(NamedTuple):
    """The results, in the layout of the queries."""

    out: Array  # (rows, heads, wide)
    kept: Array  # (rows, heads, 2): the largest score, and 1 / the sum of the powers; 0 where nothing is seen


class AttentionSlopes(NamedTuple):
    """Gradients, of which those of queries, bias and sinks hold zeros before."""

    q: Array
    k: Array
    v: Array
    bias: Array  # of a table as that, of slopes (rows, heads), to be summed; empty where it is not wanted
    sinks: Array  # (rows, heads), to be summed; or empty


class ScoreTerms(NamedTuple):
    """Terms of a score beside the product of query and key, and dropout of the weights."""

    factors: Constants  # three: the scale, the soft cap, and the factor of weights that dropout keeps
    bias: Array  # (heads, rows, columns), by places of query and key in their sequences; slopes (heads,); or empty
    sinks: Array  # (heads,), or empty
    rows: int
    columns: int
    form: int  # of the bias
    changes: int  # flags
    sunk: int  # 1 where there are sinks
    drop: int  # weights whose random number is below it are dropped
    seed: int


class AttentionPlaces(NamedTuple):
    """Layouts of queries, keys and values."""

    q: Layout
    k: Layout
    v: Layout
    units: Integers  # (3 * n,) the unit of each sequence in each of the three


class AttentionReach(NamedTuple):
    """Which keys a query sees: the query at p those from ``p - left`` to ``p + right`` that are in its chunk."""

    left: int
    right: int
    chunk: int  # 0 for one chunk
    prefixes: Integers  # (n,) the number of keys of each sequence that all of its queries see; or empty


class AttentionJobs(NamedTuple):
    """Division of the work on the host: unit u does the jobs from ``begins[u]`` to ``begins[u + 1]``."""

    places: Integers  # (jobs, 2) a sequence, and the first of 256 of its queries; empty for gradients
    begins: Integers
    room: int  # numbers of scratch memory for each unit
    by_group: int  # for gradients: 1 where jobs are groups of heads, 0 where they are sequences


class AttentionSizes(NamedTuple):
    """Sizes of an item."""

    groups: int  # of heads that share keys and values
    share: int  # heads of a group
    deep: int
    wide: int
