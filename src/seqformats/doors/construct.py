"""Doors before the constructors of `Ragged`, `Masked` and `List`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..arrays import NUMPY, library_of
from ..formats import Encoding
from ..formats.encoding import Entrance, entrance_of_lengths, entrance_of_lists
from ..launch.kernel import kernel
from ..native.words import CHECK_LENGTHS, CONSTRUCT, FORMS, GATHER, IN_TENSOR, SCAN_ITEMS
from ..registry import provides
from .door import Door

_MOST_TO_LEARN = 1 << 16  # sequences: trials fill an encoding several times, and a smaller one shows the same


class Constructing(Door):
    """The door before the constructors that take lengths.  A form is an encoding."""

    words = CONSTRUCT

    def __init__(self, entrance: Entrance, page: str = "construct") -> None:
        super().__init__(page)
        self.entrance = entrance
        self.kernels = {CHECK_LENGTHS: kernel("check_lengths")}

    def learn_of(self, x: Encoding) -> None:
        """Open it for encodings like this one, which the general way has filled."""
        if x._structure.n > _MOST_TO_LEARN:
            return
        self.learn((x,), x)
        self.entrance.enter = self.enter

    def tried(self, form: Any, x: Any) -> list[Any]:
        """The fields of an encoding, in all ways to give them."""
        lengths = x.lengths
        if form % FORMS & IN_TENSOR:
            library = library_of(x.data)
            return [None if library is NUMPY else self.filled(x, lengths=library.taken(lengths.copy(), NUMPY))]
        return [self.filled(x, lengths=given) for given in (lengths.copy(), lengths.tolist(), tuple(lengths.tolist()))]

    def filled(self, x: Encoding, **others: object) -> Any:
        """An encoding of the fields of `x`, but for some others, which the door has filled, or has not (None)."""
        twin: Any = object.__new__(type(x))
        twin._set(**{field.name: getattr(x, field.name) for field in fields(x)} | others)  # type: ignore[arg-type]
        return None if self.trial(twin) is None else twin


class Gathering(Constructing):
    """The same before that of `List`, which reads a list for others, too."""

    words = GATHER

    def __init__(self, entrance: Entrance) -> None:
        super().__init__(entrance, "items")
        self.kernels = {SCAN_ITEMS: kernel("scan_list")}

    def tell(self, plan: Any) -> bool:
        """Tensors are read without the kernel."""
        super().tell(plan)
        return True

    def tried(self, form: Any, x: Any) -> list[Any]:
        """The arrays of a `List`, and that one, if it finds it valid."""
        valid = x if self.trial(x, None) else None
        return [self.filled(x, items=list(x.items)), self.filled(x), self.trial(x.items), valid]


@provides("learn_constructors")
def put_up() -> None:
    """Let both entrances learn."""
    entrance_of_lengths.learn = Constructing(entrance_of_lengths).learn_of
    entrance_of_lists.learn = Gathering(entrance_of_lists).learn_of
