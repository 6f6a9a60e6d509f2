"""Attention of transformers' models within each sequence of a row, and its registration with transformers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ...errors import TOGETHER, UNPADDED
from ...torch.routes import attend as attend_sequences
from .calls import count_layer
from .masks import IMPLEMENTATIONS, mask_beside
from .rows import Tensor, Visible, sides

# What models hand to every attention function and what does not change the scores: boundaries and windows are known
# from the mask.
_HARMLESS = {
    "position_ids",
    "position_embeddings",
    "use_cache",
    "cache_position",
    "output_hidden_states",
    "return_dict",
    "cu_seq_lens_q",
    "cu_seq_lens_k",
    "max_length_q",
    "max_length_k",
    "seq_idx",
    "deterministic",
    "num_items_in_batch",
    "output_router_logits",
    "layer_idx",
    "token_type_ids",
    "sliding_window",
    "is_causal",
    "cache",
    "past_key_values",
}


def register() -> None:
    """Make the attention and the mask known to transformers; again is the same."""
    for theirs, ours in IMPLEMENTATIONS.items():
        AttentionInterface.register(ours, _attend_beside(theirs))
        AttentionMaskInterface.register(ours, mask_beside(theirs))


def _attend_beside(ordinary: str) -> Callable[..., Any]:
    """Make the function that layers call: within sequences where the mask says so, else `ordinary`."""

    def attend(
        module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, **options: Any
    ) -> Any:
        if isinstance(attention_mask, Visible):
            count_layer()
            return attend_rows(module, query, key, value, attention_mask, **options)
        if sides() is not None:
            raise UNPADDED(
                f"{type(module).__name__} attends without asking for a mask by transformers' masking_utils, so that "
                "nobody knows what its queries see"
            )
        function: Any
        if ordinary == "eager":  # each file of models has its own
            function = sys.modules[type(module).__module__].eager_attention_forward
        else:
            function = ALL_ATTENTION_FUNCTIONS[ordinary]
        return function(module, query, key, value, attention_mask, **options)

    return attend


def attend_rows(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seen: Visible,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    output_attentions: bool | None = False,
    **rest: Any,
) -> tuple[Tensor, None]:
    """Attend within each sequence.

    Parameters
    ----------
    module : torch.nn.Module
        The layer, named in errors.
    query : tensor (1, heads, total, d)
        Of the queries' sequences.
    key, value : tensor (1, groups, total of the keys, d)
        Of the keys' sequences.
    seen : Visible
        The sequences, and what a query sees of its own.
    dropout : float
        The share of weights that are dropped.
    scaling, softcap : float, optional
        The factor of the scores, and the limit that ``tanh`` keeps them below.
    position_bias : tensor (1, heads, longest, longest of the keys), optional
        Added to the scores of each sequence.
    s_aux : tensor (heads,), optional
        A score that takes its share of the weights and adds nothing.
    output_attentions : bool
        Refused: weights are not kept.

    Returns
    -------
    tensor (1, total, heads, d), and None in the place of weights
    """
    if output_attentions:
        raise TOGETHER("output_attentions=True asks for the weights of every pair, which are never made")
    strange = [name for name, given in rest.items() if given is not None and name not in _HARMLESS]
    if strange:
        raise UNPADDED(f"{type(module).__name__} hands {', '.join(strange)} to its attention, which is not known here")
    for x, rows in ((query, seen.queries), (key, seen.keys), (value, seen.keys)):
        if x.shape[0] != 1 or x.shape[2] != rows.total:
            raise UNPADDED(f"{type(module).__name__} attends to {tuple(x.shape)}, not to one row of {rows.total}")
    longest = (seen.queries.longest, seen.keys.longest)
    fits = position_bias is None or tuple(position_bias.shape[-2:]) == longest
    if not fits and getattr(module, "has_relative_attention_bias", True) is False:
        position_bias = None  # zeros, which UMT5 makes for all pairs where it has no bias
    if position_bias is not None and tuple(position_bias.shape[-2:]) != longest:
        raise UNPADDED(f"a bias {tuple(position_bias.shape)} is not one of {longest[0]} positions by {longest[1]}")
    q, k, v = (
        rows.to_batch(x[0].transpose(0, 1)) for x, rows in ((query, seen.queries), (key, seen.keys), (value, seen.keys))
    )
    out = attend_sequences(
        q,
        k,
        v,
        causal=seen.right == 0,
        scale=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        window=None if seen.left is None and not seen.right else (seen.left, seen.right),
        chunk=seen.chunk,
        prefix=seen.prefixes,
        softcap=softcap,
        bias=None if position_bias is None else _cast_like(query, position_bias[0]),
        sinks=None if s_aux is None else _cast_like(query, s_aux),
        dropout=float(dropout),
        # Drawn of PyTorch's generator, whose state gradient checkpoints keep for the second forward.
        seed=int(torch.randint(1 << 62, ())) if dropout else None,
    )
    return out.data[None], None


def _cast_like(query: Tensor, x: Tensor) -> Tensor:
    """A bias or sinks in the dtype of the queries, or in float32 beside half precision."""
    wide = x.dtype == torch.float32 and query.dtype in (torch.float16, torch.bfloat16)
    return x if wide else x.to(query.dtype)
