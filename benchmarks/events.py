"""Events and series of measurements: matches by time, windows by time, gaps, sets and counts, beside data frames."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import seqformats as sf

from .cells import Case, Peer, operation
from .data import Batch
from .peers import pd, pl

BATCHES = ["tiny", "small", "text", "short", "ids"]
SIZE = 64
"""Different numbers in sets."""


class Events(NamedTuple):
    """A series for each sequence of a batch, and another one of other lengths, as sequences and as data frames."""

    times: sf.Ragged  # whole numbers, which rise
    values: sf.Ragged  # float64, one of ten NaN
    numbers: sf.Ragged  # from 0 to 63
    others: sf.Ragged  # times of other events
    sets: sf.Ragged  # some of the numbers
    keys: np.ndarray  # the sequence of each item
    other_keys: np.ndarray
    set_keys: np.ndarray


@functools.cache
def events(name: str) -> Events:
    """The series of a batch, always the same."""
    lengths = Batch(name, "NumPy").lengths
    rng = np.random.default_rng(3)
    half = np.maximum(rng.permutation(lengths) // 2, 1)

    def rising(counts: np.ndarray, most: int) -> sf.Ragged:
        return sf.cumsum(sf.Ragged(rng.integers(1, most, int(counts.sum())), counts))

    def drawn(counts: np.ndarray) -> sf.Ragged:
        return sf.Ragged(rng.integers(0, SIZE, int(counts.sum())), counts)

    def keys(counts: np.ndarray) -> np.ndarray:
        return np.repeat(np.arange(counts.size), counts)

    values = rng.standard_normal(int(lengths.sum()))
    values[rng.random(values.size) < 0.1] = np.nan
    few = np.minimum(half, 20)
    return Events(
        rising(lengths, 4),
        sf.Ragged(values, lengths),
        drawn(lengths),
        rising(half, 8),
        drawn(few),
        keys(lengths),
        keys(half),
        keys(few),
    )


def frames(e: Events) -> tuple[Any, Any]:
    """The series with a column of keys, in pandas and in Polars."""
    columns = {"k": e.keys, "t": e.times.data, "x": e.values.data, "i": e.numbers.data}
    return pd.DataFrame(columns), pl.DataFrame(columns).with_columns(pl.col("x").fill_nan(None))


def listed(x: sf.Ragged) -> Any:
    """Sequences as a column of lists of Polars."""
    return (
        pl.Series(np.repeat(np.arange(x.lengths.size), x.lengths))
        .to_frame("k")
        .with_columns(x=pl.Series(x.data))
        .group_by("k", maintain_order=True)
        .agg("x")["x"]
    )


def plain(series: Any) -> np.ndarray:
    """A column of Polars, nulls as NaN."""
    return series.to_numpy()


@operation("diff", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    frame, _ = frames(e)
    groups, lists = frame.groupby("k", sort=False)["t"], listed(e.times)
    peers = {
        "pandas groupby": Peer(lambda: groups.diff(), lambda y: y.dropna().to_numpy().astype(np.int64)),
        "Polars lists": Peer(lambda: lists.list.diff(null_behavior="drop"), lambda y: plain(y.explode().drop_nulls())),
    }
    return Case(lambda: sf.diff(e.times), peers)


@operation("ffill", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    frame, table = frames(e)
    groups = frame.groupby("k", sort=False)["x"]
    peers = {
        "pandas groupby": Peer(lambda: groups.ffill(), lambda y: y.to_numpy()),
        "Polars over": Peer(lambda: table.select(pl.col("x").forward_fill().over("k")), lambda y: plain(y["x"])),
    }
    return Case(lambda: sf.ffill(e.values), peers)


@operation("sort by keys", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    frame, table = frames(e)
    peers = {
        "pandas": Peer(lambda: frame.sort_values(["k", "i"], kind="stable")["t"], lambda y: y.to_numpy()),
        "Polars": Peer(lambda: table.sort("k", "i", maintain_order=True)["t"], plain),
    }
    return Case(lambda: sf.sort(e.times, by=e.numbers), peers)


@operation("window_by, mean", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    frame, table = frames(e)
    frame = frame.assign(t=frame["t"].to_numpy().view("M8[s]"), x=frame["i"].astype("f8"))
    rolling = frame.groupby("k", sort=False).rolling("20s", on="t")["x"]
    column = pl.col("i").cast(pl.Float64).rolling_mean_by("t", window_size="20i").over("k")
    numbers = sf.astype(e.numbers, "float64")
    peers = {
        "pandas groupby": Peer(lambda: rolling.mean(), lambda y: y.to_numpy()),
        "Polars over": Peer(lambda: table.select(column), lambda y: plain(y["i"])),
    }
    return Case(
        lambda: sf.reduce_mean(sf.window_by(numbers, e.times, 20, 0, closed="right")),
        peers,
        read=lambda y: y.data,
        exact=False,
    )


@operation("merge_asof", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    place = sf.position_ids(e.others).data
    left, right = {"k": e.keys, "t": e.times.data}, {"k": e.other_keys, "t": e.others.data, "p": place}
    tables = pl.DataFrame(left).set_sorted("t"), pl.DataFrame(right).set_sorted("t")
    sides = [pd.DataFrame(side).sort_values("t", kind="stable") for side in (left, right)]
    back = np.argsort(np.argsort(e.times.data, kind="stable"), kind="stable")
    peers = {
        "pandas merge_asof": Peer(
            lambda: pd.merge_asof(*sides, on="t", by="k")["p"], lambda y: y.fillna(-1).to_numpy().astype(np.int64)[back]
        ),
        "Polars join_asof": Peer(
            lambda: tables[0].join_asof(tables[1], on="t", by="k", check_sortedness=False)["p"],
            lambda y: plain(y.fill_null(-1)),
        ),
    }
    return Case(lambda: sf.merge_asof(e.times, e.others), peers)


@operation("searchsorted", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    pairs = list(
        zip(np.split(e.others.data, e.others.offsets[1:-1]), np.split(e.times.data, e.times.offsets[1:-1]), strict=True)
    )
    far = 1 + max(int(e.others.data.max()), int(e.times.data.max()))

    def by_one_array() -> Any:
        found = np.searchsorted(e.others.data + e.other_keys * far, e.times.data + e.keys * far)
        return found - e.others.offsets[:-1][e.keys]

    peers = {"NumPy, keys added": by_one_array}
    if b.name != "short":
        peers["NumPy, a loop"] = lambda: np.concatenate([np.searchsorted(a, v) for a, v in pairs])
    return Case(lambda: sf.searchsorted(e.others, e.times), peers)


@operation("isin", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    left = pl.DataFrame({"k": e.keys, "x": e.numbers.data})
    right = pl.DataFrame({"k": e.set_keys, "x": e.sets.data, "there": True}).unique()
    peers = {
        "NumPy, keys added": lambda: np.isin(e.keys * SIZE + e.numbers.data, e.set_keys * SIZE + e.sets.data),
        "Polars join": Peer(
            lambda: left.join(right, on=["k", "x"], how="left", maintain_order="left")["there"],
            lambda y: plain(y.fill_null(False)),
        ),
    }
    return Case(lambda: sf.isin(e.numbers, e.sets), peers)


@operation("intersect", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    one, two = listed(e.numbers), listed(e.sets)
    both = pl.DataFrame({"x": one, "y": two})
    peers = {
        "NumPy, keys added": Peer(
            lambda: np.intersect1d(e.keys * SIZE + e.numbers.data, e.set_keys * SIZE + e.sets.data),
            lambda y: y % SIZE,
        ),
        "Polars lists": Peer(
            lambda: both.select(pl.col("x").list.set_intersection("y").list.sort())["x"],
            lambda y: plain(y.explode().drop_nulls()),
        ),
    }
    return Case(lambda: sf.intersect(e.numbers, e.sets), peers)


@operation("bincount", BATCHES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    e = events(b.name)
    n = e.numbers.lengths.size
    table = frames(e)[1]
    peers = {
        "NumPy, keys added": Peer(
            lambda: np.bincount(e.keys * SIZE + e.numbers.data, minlength=n * SIZE), lambda y: y.reshape(n, SIZE)
        ),
        "Polars, not dense": Peer(lambda: table.group_by("k", "i").len(), lambda y: dense(y, n)),
    }
    return Case(lambda: sf.bincount(e.numbers, SIZE), peers)


def dense(counted: Any, n: int) -> np.ndarray:
    """Counts of groups in a table of all."""
    found = np.zeros((n, SIZE), np.int64)
    found[counted["k"].to_numpy(), counted["i"].to_numpy()] = counted["len"].to_numpy()
    return found
