"""Arguments of kernels that belong together: what a caller chooses, under its names.

Each class is one argument of a kernel, on every device.  Nothing is imported here that a kernel could not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..arrays import Array

    Integers: TypeAlias = Array  # of int64


class Order(NamedTuple):
    """How `order_rows` compares items, and what it writes."""

    bits: int  # of a float, 0 of what is compared as it is
    least: int
    order: int
    wanted: int  # 1 the items, 2 their places, 3 both


class Rectangle(NamedTuple):
    """How `fill_inputs` lays tokens out."""

    most: int  # tokens of a sequence
    tail: int  # 1: the last ones stay
    left: int  # 1: padding on the left
    pad: int
    ignore: int  # the label of padding


class Corruption(NamedTuple):
    """Where `corrupt_items` writes, and how many spans each sequence has."""

    into: Integers  # (n + 1,)
    aside: Integers  # (n + 1,)
    spans: Integers  # (n,)
    seed: int
    sentinel: int  # the first, from which they fall


class Masking(NamedTuple):
    """What `mask_items` draws."""

    special: Integers  # ids that stay, in order
    tokens: Integers  # that are drawn from, where they are no range
    numbers: Integers  # see the kernel


class Ignored(NamedTuple):
    """The target without a loss."""

    target: int
    there: int  # 0: there is none


class Scaling(NamedTuple):
    """How `standard_rows` and its gradient scale."""

    others: int
    scaled: int


class Strips(NamedTuple):
    """What `count_edits` has for each unit of work, and which items are equal to themselves."""

    room: int  # numbers of its table
    least: int  # below it no item equals another
