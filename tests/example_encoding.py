"""Encodings of one's own in twenty lines.

One stores every sequence back to front, as a right-to-left model wants it; the other is another library's time-major
batch, over the memory of a `Padded`.
"""

import dataclasses

import numpy as np

import seqformats as sf


@dataclasses.dataclass(frozen=True)
class Reversed:
    """`Ragged` with the items of every sequence in reverse order."""

    data: np.ndarray
    lengths: np.ndarray


def turned(data, lengths):
    """The rows of every sequence back to front; its own inverse."""
    ends = np.cumsum(lengths)
    return data[np.repeat(ends + ends - lengths, lengths) - 1 - np.arange(len(data))]


@dataclasses.dataclass(frozen=True)
class TimeMajor:
    """`Padded` by other names, as another library has it."""

    values: np.ndarray
    alive: np.ndarray
    sizes: np.ndarray
    positions: np.ndarray


def register_time_major():
    """Both routes share memory: the columns of one are the columns of the other."""

    @sf.conversion(sf.Padded, TimeMajor, shares=True)
    def to_time_major(x):
        return TimeMajor(x.data, x.size_at_t, x.lengths, x.indices)

    @sf.conversion(TimeMajor, sf.Padded, shares=True)
    def from_time_major(x):
        return sf.Padded(x.values, x.alive, x.sizes, x.positions)


def register():
    """Two routes, to and from `Ragged`, and every other encoding is within reach."""

    @sf.conversion(sf.Ragged, Reversed)
    def to_reversed(x):
        return Reversed(turned(x.data, x.lengths), x.lengths)

    @sf.conversion(Reversed, sf.Ragged)
    def from_reversed(x):
        return sf.Ragged(turned(x.data, x.lengths), x.lengths)
