"""Doors before conversions without options, one a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import Encoding, List
from ..formats.structure import Structure
from ..launch.kernel import kernel
from ..native import words
from ..native.words import ENCODINGS, FROM, LAY, NOT_IN_ORDER, TARGET
from ..registry import entrances, provides
from .door import Door

_KERNELS = {getattr(words, name.upper()): kernel(name) for name in (
    "scan_list",
    "sort_lengths",
    "copy_blocks",
    "pad_blocks",
    "blocks_to_steps",
    "words_to_steps",
    "steps_to_blocks",
    "steps_to_words",
)}  # fmt: skip


class Laying(Door):
    """The door before a target.  A form is a way to it: what is read, and which kernels that takes."""

    words = LAY

    def __init__(self, target: type[Encoding]) -> None:
        super().__init__("lay")
        self.target = target
        self.wrong = target.__name__ not in ENCODINGS or target.__module__ != Encoding.__module__
        self.kernels = _KERNELS

    def describe(self, worlds: np.ndarray) -> None:
        """Of the target."""
        super().describe(worlds)
        worlds[:, TARGET] = ENCODINGS.index(self.target.__name__)

    def tell(self, plan: Any) -> bool:
        """No way takes all kernels, and none is gone without those that it takes."""
        super().tell(plan)
        return True

    def tried(self, form: int, x: Any) -> tuple[Any]:
        """By the way that was asked for, although the general way has found the order meanwhile."""
        return (self.trial(fresh(x) if form % FROM & NOT_IN_ORDER else x),)


def fresh(x: Any) -> Any:
    """The same batch over a structure of which no order is known."""
    if not isinstance(x, Encoding):
        return x
    own = x._structure
    structure = Structure(own.lengths, own.offsets, own.longest)
    if isinstance(x, List):
        return List._of(x.items, structure, x._sample())
    return x._sealed(x.data, structure, *x._form())


@provides("learn_conversion")
def learn(To: type[Encoding], x: Any, result: Encoding) -> None:
    """Open the door before `To` for what is like `x`, of which the general way has made `result`."""
    door = _doors.get(To) or _doors.setdefault(To, Laying(To))
    if entrances.get(To) is not door.enter:  # the table of conversions is another one
        door.close()
    door.learn((x,), result)
    entrances[To] = door.enter


_doors: dict[type, Laying] = {}
