"""The sequences of one forward, and which keys a query sees: an object in the place of an attention mask."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeAlias

import torch

from ...converters.convert import convert
from ...errors import EMPTY, UNPADDED
from ...formats import Encoding, Ragged
from ...operations.attention import position_ids

Tensor: TypeAlias = Any  # torch.Tensor


class Rows:
    """The sequences that stand one after the other in a row ``(1, total, ...)``."""

    def __init__(self, batch: Ragged[Any], device: torch.device | None = None) -> None:
        self.batch = batch
        """A batch of these lengths; its structure serves every layer."""
        structure = batch._structure
        self.lengths: list[int] = structure.lengths.tolist()
        self.begins: list[int] = structure.offsets.tolist()[:-1]
        self.n, self.total, self.longest = structure.n, structure.rows, structure.longest
        self.device = batch.data.device if device is None else device

    @classmethod
    def of_lengths(cls, lengths: list[int], device: torch.device) -> Rows:
        """Make the sequences of these lengths."""
        return cls(Ragged(torch.empty(sum(lengths), 0, device=device), lengths))

    def __deepcopy__(self, memo: dict[int, Any]) -> Rows:
        return self

    def to_batch(self, data: Tensor) -> Ragged[Any]:
        """The batch with these data ``(total, ...)``."""
        return Ragged.from_offsets(data, self.batch.offsets)

    def positions(self) -> Tensor:
        """Positions ``(total,)`` that begin again with each sequence."""
        return torch.as_tensor(position_ids(self.lengths)).to(self.device)

    def prefixes(self, blocks: Tensor) -> list[int] | None:
        """Lengths of the prefixes ``(n,)`` that blocks ``(1, total)`` mark, -1 outside; None where they are others."""
        own = blocks[0].tolist()
        found = []
        for begin, length in zip(self.begins, self.lengths, strict=True):
            part = own[begin : begin + length]
            count = sum(block >= 0 for block in part)
            if any(block != part[0] for block in part[:count]):
                return None
            found.append(count)
        return found

    def first(self, x: Tensor) -> Tensor:
        """The first row of each sequence: ``(1, total, ...)`` to ``(n, ...)``."""
        if 0 in self.lengths:
            raise EMPTY(f"sequence {self.lengths.index(0)} is empty; it has no first token to pool")
        return x[0].index_select(0, torch.tensor(self.begins, device=x.device))


class Limits(NamedTuple):
    """Numbers of keys that a query sees to the left and to the right, and the size of its chunk; None for no limit."""

    left: int | None = None
    right: int | None = None
    chunk: int | None = None


class Sides(NamedTuple):
    """Sequences of the queries, and those of an encoder's states where a decoder attends to them."""

    rows: Rows
    source: Rows | None = None


_SIDES: contextvars.ContextVar[Sides | None] = contextvars.ContextVar("seqformats_unpadded", default=None)


def sides() -> Sides | None:
    """The sequences of the forward that runs in this thread; None where a model runs as it always has."""
    return _SIDES.get()


@contextmanager
def hide() -> Iterator[None]:
    """Run models as they always have, within a forward."""
    token = _SIDES.set(None)
    try:
        yield
    finally:
        _SIDES.reset(token)


def begin(given: Sides | None) -> contextvars.Token[Sides | None]:
    """Let the models of this thread run over these sequences."""
    return _SIDES.set(given)


def end(token: contextvars.Token[Sides | None]) -> None:
    """Go back to what was before `begin`."""
    _SIDES.reset(token)


class Visible:
    """The keys that a query sees, in the place of an attention mask; whatever calculates with it is refused.

    A model hands it to its layers as it would hand a tensor, through gradient checkpoints too.  Nothing else says what
    a layer's queries see, so a layer that gets another mask, or none, cannot go unnoticed.
    """

    def __init__(self, sides: Sides, limits: Limits, prefixes: list[int] | None = None) -> None:
        self.queries, self.keys = sides.rows, sides.source or sides.rows
        self.left, self.right, self.chunk = limits
        self.prefixes = prefixes

    def __deepcopy__(self, memo: dict[int, Any]) -> Visible:
        return self

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UNPADDED.as_error(
            AttributeError,
            f"this model reads .{name} of its attention mask: it makes its scores itself, over padding",
        )

    def _refuse(self, *_: object) -> NoReturn:
        raise UNPADDED("this model calculates with its attention mask: it makes its scores itself, over padding")

    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __getitem__ = __lt__ = __gt__ = _refuse
    __invert__ = __and__ = __or__ = __bool__ = __len__ = __iter__ = _refuse

    @classmethod
    def __torch_function__(
        cls, func: object, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> NoReturn:
        raise UNPADDED(
            f"this model calls {getattr(func, '__name__', func)} with its attention mask: it makes its own scores, and "
            "needs padding"
        )


def is_batch(x: object) -> bool:
    """Tell whether an argument is an encoding."""
    return isinstance(x, Encoding)


def as_ragged(x: object) -> Ragged[Any]:
    """An argument as one flat array of rows."""
    return convert(x, Ragged)
