"""Mask of the pairs of rows that see each other, as a function that FlexAttention reads into its own graph.

The rest of this package is not read by PyTorch's compiler; this file is.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there


def mask_mod_of(numbers: Tensor, left: int | None, right: int | None, known: Tensor | None) -> Any:
    """The function that says it of each pair of rows; `numbers` are of the sequences, `known` rows are seen by all."""

    def mask_mod(batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:  # noqa: ARG001  as FlexAttention has it
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
