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
    """Order of items in `order_rows`, and what it writes."""

    bits: int  # of a float, 0 of what is compared as it is
    least: int
    order: int
    wanted: int  # 1 the items, 2 their places, 3 both


class Rectangle(NamedTuple):
    """Form of what `fill_inputs` lays out."""

    most: int  # tokens of a sequence
    tail: int  # 1: the last ones stay
    left: int  # 1: padding on the left
    pad: int
    ignore: int  # the label of padding


class Corruption(NamedTuple):
    """Places where `corrupt_items` writes, and the spans of each sequence."""

    into: Integers  # (n + 1,)
    aside: Integers  # (n + 1,)
    spans: Integers  # (n,)
    seed: int
    sentinel: int  # the first, from which they fall


class Masking(NamedTuple):
    """Chances and ids of `mask_items`."""

    special: Integers  # ids that stay, in order
    tokens: Integers  # that are drawn from, where they are no range
    numbers: Integers  # see the kernel


class Ignored(NamedTuple):
    """The target without a loss."""

    target: int
    there: int  # 0: there is none


class Scaling(NamedTuple):
    """Scale of `standard_rows` and its gradient."""

    others: int
    scaled: int


class Strips(NamedTuple):
    """Memory of a unit of work of `count_edits`, and the items that are equal to themselves."""

    room: int  # numbers of its table
    least: int  # below it no item equals another
