"""Mask of the pairs of rows that see each other, and their scores: functions that FlexAttention reads into its graph.

The rest of this package is not read by PyTorch's compiler; this file is.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there


def mask_mod_of(numbers: Tensor, left: int | None, right: int | None, known: Tensor | None) -> Any:
    """The function that says it of each pair of rows; `numbers` are of the sequences, `known` rows are seen by all."""

    def mask_mod(batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        inside = numbers[q] == numbers[k]
        near = None
        if right is not None:
            near = k - q <= right
        if left is not None:
            near = q - k <= left if near is None else near & (q - k <= left)
        if near is None:
            return inside
        return inside & (near if known is None else near | known[k])

    return mask_mod


def score_mod_of(places: Tensor, softcap: Tensor | None, bias: Tensor | None) -> Any:
    """Make the function that changes scores: by a soft cap, and a bias by `places` in sequences, or slopes."""

    def score_mod(score: Tensor, batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if softcap is not None:
            score = softcap * (score / softcap).tanh()
        if bias is None:
            return score
        if bias.dim() == 1:
            return score - bias[head] * (q - k).abs()
        return score + bias[head, places[q], places[k]]

    return score_mod
