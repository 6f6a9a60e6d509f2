"""The mask that a model asks transformers for, read off the function that it is made of."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from transformers import masking_utils

from ...errors import UNPADDED
from .rows import Limits, Rows, Sides, Tensor, Visible, sides

IMPLEMENTATIONS = {"sdpa": "seqformats", "eager": "seqformats_eager"}
"""Names under which this attention is registered, by the one that a model goes on to use where it keeps a cache."""
ORDINARY = {ours: theirs for theirs, ours in IMPLEMENTATIONS.items()}


def limits_of(function: Callable[..., Any]) -> Limits:
    """Limits of a mask function of transformers; a TypeError for one that is not known."""
    if function is masking_utils.causal_mask_function:
        return Limits(right=0)
    if function is masking_utils.bidirectional_mask_function:
        return Limits()
    home, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "").split(".")[0]
    # The public makers of mask functions are closures; their variables are the numbers that the model gave.
    given: Any = inspect.getclosurevars(function).nonlocals if home == masking_utils.__name__ else {}
    if name == "and_masks" and given:
        limits = Limits()
        for each in given["mask_functions"]:
            limits = Limits(*[_less(a, b) for a, b in zip(limits, limits_of(each), strict=True)])
        return limits
    # `sliding_window` counts the query itself in a causal mask, and the keys to each side in a bidirectional one.
    if name == "sliding_window_overlay" and given:
        return Limits(left=given["sliding_window"] - 1)
    if name == "sliding_window_bidirectional_overlay" and given:
        return Limits(given["sliding_window"], given["sliding_window"])
    if name == "chunked_overlay" and given:
        return Limits(chunk=given["chunk_size"])
    if name == "remap_positions_for_packed_sequence" and given:
        return limits_of(given["mask_function"])
    if name == "packed_sequence_mask_function" and given:
        return Limits()  # the sequences, which are known
    raise UNPADDED(f"this model asks for a mask that is not known here: {home}.{name or function}")


def split_blocks(function: Callable[..., Any]) -> tuple[Callable[..., Any], Tensor | None]:
    """Divide a mask function into one without blocks, and the numbers of blocks that see themselves in both directions.

    These are ``(1, total)``, -1 outside of blocks; None where there are none.
    """
    given: Any = inspect.getclosurevars(function).nonlocals
    name = getattr(function, "__qualname__", "").split(".")[0]
    if getattr(function, "__module__", "") != masking_utils.__name__ or name not in ("and_masks", "or_masks"):
        return function, None
    parts = given["mask_functions"]
    if name == "or_masks":
        if len(parts) == 2 and getattr(parts[1], "__qualname__", "").startswith("blockwise_overlay."):
            return parts[0], inspect.getclosurevars(parts[1]).nonlocals["block_sequence_ids"]
        return function, None
    pairs = [split_blocks(part) for part in parts]
    blocks = [found for _, found in pairs if found is not None]
    return (masking_utils.and_masks(*[part for part, _ in pairs]), blocks[0]) if len(blocks) == 1 else (function, None)


def _prefixes(rows: Rows, limits: Limits, blocks: Tensor | None) -> list[int] | None:
    """Lengths of the prefixes that blocks are; an error for other blocks, and beside a window, which limits them."""
    if blocks is None or limits == Limits():
        return None
    found = rows.prefixes(blocks) if limits == Limits(right=0) else None
    if found is None:
        raise UNPADDED("this model lets blocks of tokens see themselves in both directions that are no prefixes")
    return found


def _less(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def mask_beside(ordinary: str) -> Callable[..., Any]:
    """Make the function that transformers calls for a mask: `Visible` in a forward without padding, else `ordinary`."""

    def mask(
        batch_size: int,
        q_length: int,
        kv_length: int,
        q_offset: int = 0,
        kv_offset: int = 0,
        mask_function: Callable[..., Any] = masking_utils.causal_mask_function,
        attention_mask: Any = None,
        **rest: Any,
    ) -> Any:
        here = sides()
        if here is None:
            return masking_utils.ALL_MASK_ATTENTION_FUNCTIONS[ordinary](
                batch_size=batch_size,
                q_length=q_length,
                kv_length=kv_length,
                q_offset=q_offset,
                kv_offset=kv_offset,
                mask_function=mask_function,
                attention_mask=attention_mask,
                **rest,
            )
        function, blocks = split_blocks(mask_function)
        limits = limits_of(function)
        across = here.source is not None and limits == Limits()
        seen = Visible(here if across else Sides(here.rows), limits, _prefixes(here.rows, limits, blocks))
        wanted = (1, seen.queries.total, seen.keys.total)
        if (batch_size, q_length, kv_length) != wanted or q_offset or kv_offset:
            raise UNPADDED(
                f"this model asks for a mask of {batch_size} x {q_length} x {kv_length}, for one row of {wanted[1]} "
                f"tokens and {wanted[2]} keys"
            )
        if attention_mask is not None and not bool(attention_mask.all()):
            raise UNPADDED("this model makes a padding mask of its own")
        return seen

    return mask
