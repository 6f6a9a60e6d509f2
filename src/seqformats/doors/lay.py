"""Doors before conversions without options, one a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import Encoding, List
from ..formats.structure import Structure
from ..launch.kernel import kernel
from ..launch.threads import loading
from ..native import words
from ..native.code import door_of
from ..native.loading import function_at
from ..native.words import ASKED, ENCODINGS, FIRST, FROM, GONE, LAY, NOT_IN_ORDER, OPEN, TARGET
from ..registry import entrances, provides
from .door import closed, same
from .world import address_of, common

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
_TRIALS = 100


class Laying:
    """The door before a target.

    There are several ways through it: what is read, and which kernels that takes.  Each is closed until the door has
    made by it what the general way has made, bit for bit.
    """

    def __init__(self, target: type[Encoding]) -> None:
        self.enter: Any = closed
        self.wrong = target.__name__ not in ENCODINGS or target.__module__ != Encoding.__module__
        self.target = target
        self.world: np.ndarray | None = None
        self.left = _TRIALS

    def learn(self, x: Any, result: Encoding) -> None:
        """Open the way that `x` has wanted to go; the general way has made `result` of it."""
        if self.wrong:
            return
        if self.world is None:
            with loading:
                self._prepare()
            self.enter(x)
        if self.world is None or not self.world[ASKED]:
            return
        with loading:
            asked = int(self.world[ASKED]) - 1
            self.world[ASKED] = 0
            for word, found in _KERNELS.items():
                self.tried[word] = found.by_words.get(None, 0)
            self.world[GONE + 1 :] = self.tried[GONE + 1 :]
            y = self.trial(fresh(x) if asked % FROM & NOT_IN_ORDER else x)
            if y is None:
                self.left -= 1
                self.wrong = self.left == 0
            elif same(y, result):
                self.world[OPEN] |= 1 << int(self.tried[GONE])
            else:
                self.wrong = True
            if self.wrong:
                self.enter = closed

    def _prepare(self) -> None:
        address = None if self.wrong or self.world is not None else door_of("lay")
        if address is None:
            self.wrong = self.world is None
            return
        worlds = np.zeros((2, LAY), np.int64)
        worlds[:, FIRST], worlds[:, TARGET] = address_of(common()), ENCODINGS.index(self.target.__name__)
        worlds[1, OPEN] = -1
        self.tried = worlds[1]
        self.trial = function_at(address, "lay", worlds[1])
        self.enter = function_at(address, "lay", worlds[0])
        self.world = worlds[0]
        for found in _KERNELS.values():
            found.doors.append(self.close)

    def close(self) -> None:
        """Let nobody through any more, since there is another kernel now."""
        self.wrong = True
        if entrances.get(self.target) is self.enter:
            entrances[self.target] = closed
        self.enter = closed


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
    door = _doors.get(To)
    if door is None or entrances.get(To) is not door.enter:
        door = _doors[To] = Laying(To)
    door.learn(x, result)
    entrances[To] = door.enter


_doors: dict[type, Laying] = {}
