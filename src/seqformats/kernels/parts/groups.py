"""Arguments that several kernels take in a group; others are in the files of their kernels.  See `record.group`."""

from typing import NamedTuple

from ...layout import Layout
from .record import Array, Integers


class Strides(NamedTuple):
    """Distances between decays: from a row to the next, from a column to the next, and from sequence to sequence."""

    by_row: int
    by_column: int
    by_sequence: int


class Course(NamedTuple):
    """The course of a recurrence, see `recurrence_rows`."""

    back: int
    exclusive: int
    blank: int
    chunk: int


class Joined(NamedTuple):
    """Places of the sequences of several parts, see `join_rows`."""

    bases: Integers
    units: Integers
    begins: Integers
    cum: Integers
    offsets: Integers
    absolute: int


class Chunks(NamedTuple):
    """Chunks that hold the rows of runs, see `fold_chunks`."""

    cum: Integers
    first: Integers
    counts: Integers
    shifts: Integers


class LayerSteps(NamedTuple):
    """The steps of one direction of a recurrent layer, see `lstm_back`."""

    begins: Integers
    sequences: int
    room: int
    units: int
    back: int


class Compared(NamedTuple):
    """Items of the sequences that are compared."""

    x: Array
    y: Array


class Pairs(NamedTuple):
    """Layouts of both, and which pairs are the work of a unit."""

    at_x: Layout
    at_y: Layout
    begins: Integers
