"""Attention of transformers' models within each sequence of a row, and its registration with transformers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ...errors import TOGETHER, UNPADDED
from ...operations.dot_attention import attention
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

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any) -> Any:
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
    module: Any,
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
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    if dropout or softcap is not None or position_bias is not None or s_aux is not None or seen.chunk is not None:
        return _one_by_one(query, key, value, seen, _Scores(scale, softcap, position_bias, s_aux, dropout)), None
    q, k, v = (
        rows.of(x[0].transpose(0, 1)) for x, rows in ((query, seen.queries), (key, seen.keys), (value, seen.keys))
    )
    window = None if seen.left is None and not seen.right else (seen.left, seen.right)
    return attention(q, k, v, causal=seen.right == 0, scale=scale, window=window).data[None], None


class _Scores(NamedTuple):
    """Options of the scores that `seqformats.attention` does not have."""

    scale: float
    softcap: float | None
    bias: Tensor | None
    sinks: Tensor | None
    dropout: float

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None) -> Tensor:
        """Attend within one sequence, with all of its scores."""
        t, m = q.shape[2], k.shape[2]
        bias = None if self.bias is None else self.bias[:, :, :t, :m]
        if self.softcap is None and self.sinks is None:
            mask = visible
            if bias is not None:
                mask = bias if visible is None else bias.masked_fill(~visible, float("-inf"))
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout, scale=self.scale)
        scores = (q @ k.transpose(2, 3)) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        if bias is not None:
            scores = scores + bias
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        if self.sinks is not None:
            scores = torch.cat([scores, self.sinks.reshape(1, -1, 1, 1).expand(1, -1, t, 1).to(scores)], -1)
        weights = F.softmax(scores, -1, dtype=torch.float32).to(q.dtype)[..., :m]
        return F.dropout(weights, self.dropout) @ v


def _one_by_one(query: Tensor, key: Tensor, value: Tensor, seen: Visible, scores: _Scores) -> Tensor:
    """Attend one sequence after the other."""
    share = query.shape[1] // key.shape[1]
    masks: dict[tuple[int, int], Tensor | None] = {}
    outs = [query.new_zeros(1, 0, query.shape[1], value.shape[3])]
    sources = zip(seen.keys.begins, seen.keys.lengths, strict=True)
    for a, t, (b, m) in zip(seen.queries.begins, seen.queries.lengths, sources, strict=True):
        if not t or not m:
            outs.append(query.new_zeros(1, t, query.shape[1], value.shape[3]))
            continue
        q, k, v = query[:, :, a : a + t], key[:, :, b : b + m], value[:, :, b : b + m]
        if share > 1:
            k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        if (t, m) not in masks:
            masks[t, m] = seen.square(t, m, query.device)
        outs.append(scores.attend(q, k, v, masks[t, m]).transpose(1, 2))
    return torch.cat(outs, 1)
