"""The forms in which a batch comes: as an encoding, padded, or as one flat row; into the row, and back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import torch

from ...errors import ARGUMENT, BATCH, SHAPE, TOGETHER, UNLIKE
from .rows import Rows, Tensor, as_ragged, is_batch

Form: TypeAlias = Literal["encoding", "padded", "flat"]


class Arrival(NamedTuple):
    """One batch of tokens: its sequences, and the form that results take again."""

    form: Form
    rows: Rows
    token: Tensor | None = None
    """The mask of a padded batch, bools ``(n, width)``; None where all places are tokens."""
    places: Tensor | None = None
    """The places ``(total,)`` of its tokens among all."""
    width: int = 0

    def flatten(self, name: str, x: object) -> Any:
        """An argument as one row ``(1, total, ...)``; as it is where it is not one per token."""
        rows = self.rows
        if is_batch(x):
            given = as_ragged(x)
            if not given._structure.same_lengths(rows.batch._structure):
                raise UNLIKE(f"{name} has other lengths than the tokens")
            return given.data[None]
        if not isinstance(x, torch.Tensor):
            return x
        if self.form == "padded" and x.dim() >= 2 and tuple(x.shape[:2]) == (rows.n, self.width):
            assert self.places is not None
            return x.reshape(-1, *x.shape[2:]).index_select(0, self.places.to(x.device))[None]
        if self.form == "encoding" and x.dim() >= 2 and x.shape[1] > 1:
            raise BATCH(f"{name} must be a batch as the tokens are, not an array {tuple(x.shape)}")
        return x

    def restore(self, x: Tensor) -> Any:
        """A result ``(1, total, ...)`` in the form of the batch; zeros where there is no token."""
        if self.form == "flat":
            return x
        data = x[0]
        if self.form == "encoding":
            return self.rows.to_batch(data)
        made = data.new_zeros((self.rows.n * self.width, *data.shape[1:])).index_copy(0, self.places, data)
        return made.reshape(self.rows.n, self.width, *data.shape[1:])

    def first_tokens(self) -> list[int]:
        """The places in the row where sequences begin."""
        return [a for a, n in zip(self.rows.begins, self.rows.lengths, strict=True) if n]


def arrive(given: Mapping[str, Any], prefix: str = "") -> Arrival | None:
    """Read the sequences of a batch from the arguments of a forward; None where there are no tokens.

    Parameters
    ----------
    given : mapping
        The arguments by name: tokens or embeddings, and what says which of them there are.
    prefix : str
        ``decoder_`` for those of a decoder beside an encoder.
    """
    x = given.get(f"{prefix}input_ids")
    if x is None:
        x = given.get(f"{prefix}inputs_embeds")
    if x is None:
        return None
    mask = given.get(f"{prefix}attention_mask")
    if is_batch(x):
        if mask is not None:
            raise TOGETHER(f"an encoding knows its lengths; {prefix}attention_mask= does not go with it")
        return Arrival("encoding", Rows(as_ragged(x)))
    if mask is not None and (not isinstance(mask, torch.Tensor) or mask.dim() != 2):
        raise SHAPE(f"{prefix}attention_mask= must be one of tokens, (n, width), not one of pairs")
    ends, places = (None, None) if prefix else (given.get("cu_seq_lens_q"), given.get("position_ids"))
    if ends is not None or (x.shape[0] == 1 and places is not None and mask is None):
        return _flat(x, ends, places)
    n, width = x.shape[:2]
    if mask is None:
        return Arrival(
            "padded", Rows.of_lengths([width] * n, x.device), None, torch.arange(n * width, device=x.device), width
        )
    token = mask.to(device=x.device, dtype=torch.bool)
    if tuple(token.shape) != (n, width):
        raise SHAPE(f"{prefix}attention_mask is {tuple(token.shape)}, but the batch {(n, width)}")
    pieces = (token[:, :1].sum(1) + (token[:, 1:] & ~token[:, :-1]).sum(1)).tolist()
    if max(pieces, default=0) > 1:
        raise ARGUMENT(
            f"row {pieces.index(max(pieces))} of {prefix}attention_mask has a hole; a sequence must stand in one piece"
        )
    index = token.reshape(-1).nonzero().reshape(-1)
    return Arrival("padded", Rows.of_lengths(token.sum(1).tolist(), x.device), token, index, width)


def _flat(x: Tensor, ends: Tensor | None, places: Tensor | None) -> Arrival:
    """Read one row of several sequences, of which `ends` or positions tell."""
    if ends is not None:
        bounds = ends.tolist()
    else:
        assert places is not None
        flat = places.reshape(-1)
        begins = ((flat[1:] != flat[:-1] + 1).nonzero().reshape(-1) + 1).tolist()
        bounds = [0, *begins, flat.numel()] if flat.numel() else [0]
    lengths = [b - a for a, b in pairwise(bounds)]
    if x.shape[0] != 1 or not bounds or bounds[0] or bounds[-1] != x.shape[1] or min(lengths, default=0) < 0:
        raise ARGUMENT(f"cu_seq_lens_q or position_ids end at {bounds[-1:]}, but the row is {tuple(x.shape[:2])}")
    return Arrival("flat", Rows.of_lengths(lengths, x.device))
