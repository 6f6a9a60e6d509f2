"""Doors before the constructors of `Ragged`, `Masked` and `List`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from ..formats import Encoding
from ..formats.encoding import Entrance, entrance_of_lengths, entrance_of_lists, not_entered
from ..launch.kernel import kernel
from ..launch.threads import loading
from ..native.code import door_of
from ..native.loading import function_at
from ..native.words import CHECK_LENGTHS, CONSTRUCT, ENCODINGS, FIRST, GATHER, INTEGER, KNOWN, SCAN_ITEMS
from ..registry import provides
from .door import same
from .world import address_of, common

_TRIALS = 100


class Constructing:
    """The door before some constructors: open for an encoding when it has filled one as the general way has."""

    def __init__(self, entrance: Entrance, name: str, kernel_name: str) -> None:
        self.entrance = entrance
        self.name = name
        self.kernel = kernel(kernel_name)
        self.known: set[type] = set()
        self.left = _TRIALS
        self.worlds: np.ndarray | None = None

    def learn(self, x: Encoding) -> None:
        """Open it for encodings like this one, which the general way has filled."""
        kind = type(x)
        if kind in self.known or self.left == 0 or type(x._sample()) is not np.ndarray:
            return
        with loading:
            self.left -= 1
            found = self.kernel.by_words.get(None, 0)
            if self.worlds is None:
                address = door_of(self.name) if found else None
                if address is None:
                    return
                self.worlds = self.world(found)
                self.kernel.doors.append(self.close)
                self.enter, self.trial = [function_at(address, self.name, world) for world in self.worlds]
            made = self.made(x)
            right = all(y is not None and same(y, x) for y in made)
            if right:
                self.worlds[0, KNOWN] |= self.bit(x)
                self.known.add(kind)
                self.entrance.enter = self.enter
            elif None not in made:
                self.left, self.entrance.enter = 0, not_entered

    def close(self) -> None:
        """Let nobody through any more, since there is another kernel now."""
        self.left, self.entrance.enter = 0, not_entered

    def world(self, kernel: int) -> np.ndarray:
        """Two worlds, the second for trials."""
        worlds = np.zeros((2, CONSTRUCT), np.int64)
        worlds[:, FIRST], worlds[:, INTEGER], worlds[:, CHECK_LENGTHS] = address_of(common()), id(int), kernel
        worlds[1, KNOWN] = -1
        return worlds

    def bit(self, x: Encoding) -> int:
        """That of an encoding in the word `KNOWN`."""
        return 1 << ENCODINGS.index(type(x).__name__)

    def made(self, x: Any) -> list[Any]:
        """What the door makes of the fields of an encoding, in all ways to give them."""
        lengths = x.lengths
        return [self.filled(x, lengths=given) for given in (lengths.copy(), lengths.tolist(), tuple(lengths.tolist()))]

    def filled(self, x: Encoding, **others: object) -> Any:
        """An encoding of the fields of `x`, but for some others, which the door has filled, or has not (None)."""
        twin: Any = object.__new__(type(x))
        twin._set(**{field.name: getattr(x, field.name) for field in fields(x)} | others)  # type: ignore[arg-type]
        return None if self.trial(twin) is None else twin


class Gathering(Constructing):
    """The same before that of `List`, which reads a list for others, too."""

    def world(self, kernel: int) -> np.ndarray:
        """The same."""
        worlds = np.zeros((2, GATHER), np.int64)
        worlds[:, FIRST], worlds[:, SCAN_ITEMS] = address_of(common()), kernel
        return worlds

    def bit(self, x: Encoding) -> int:
        """None: there is one encoding."""
        return 0

    def made(self, x: Any) -> list[Any]:
        """What the door makes of the arrays of a `List`, and that one, if it finds it valid."""
        valid = x if self.trial(x, None) else None
        return [self.filled(x, items=list(x.items)), self.filled(x), self.trial(x.items), valid]


@provides("learn_constructors")
def put_up() -> None:
    """Let both entrances learn."""
    entrance_of_lengths.learn = Constructing(entrance_of_lengths, "construct", "check_lengths").learn
    entrance_of_lists.learn = Gathering(entrance_of_lists, "items", "scan_list").learn
