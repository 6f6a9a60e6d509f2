"""Arguments that several kernels take in a group; others are in the files of their kernels.  See `record.group`."""

from typing import NamedTuple

from .record import Integers


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
    """Where the sequences of several parts are, see `join_rows`."""

    bases: Integers
    units: Integers
    begins: Integers
    cum: Integers
    offsets: Integers
    absolute: int
