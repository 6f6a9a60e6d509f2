"""Models that cannot run over one row, with the reason, and the limits of those that can."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from transformers.modeling_utils import PreTrainedModel

from .masks import IMPLEMENTATIONS, ORDINARY
from .parameters import names_of

OWN_ATTENTION = "calculates its attention itself, not by transformers' AttentionInterface"
_MIXING = re.compile(
    "Mamba|Rwkv|SSM|DeltaNet|LightningAttention|Recurrent|ShortConv|Fourier|LinearAttention|RNN|LSTM|GRU"
)
_OF_THE_BATCH = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)
_POSITIONS = {"position_embeddings", "wpe", "embed_positions", "position_embedding"}


def reason(model: torch.nn.Module) -> str:
    """Why a model cannot run over one row; "" where nothing is known against it."""
    if not isinstance(model, PreTrainedModel):
        return f"{type(model).__name__} is no model of transformers"
    config = model.config
    options = config.to_dict()
    if options.get("expert_capacity") is not None:
        return "its experts drop tokens by how many there are in a row"
    if getattr(config.get_text_config(), "attn_temperature_tuning", False):
        return "it scales queries by their place in the row, whatever position_ids say"
    if options.get("token_dropout"):
        return "it scales embeddings by how many tokens of the row are masked (token_dropout=True)"
    return _mixing_layer(model) or _own_attention(model)


def _mixing_layer(model: torch.nn.Module) -> str:
    """Name a layer through which the tokens of a row meet beside attention."""
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, torch.nn.RNNBase) or (_MIXING.search(kind) and module is not model):
            return f"{name} ({kind}) carries something along the row"
        if isinstance(module, (torch.nn.Conv1d, torch.nn.Conv2d)) and max(module.kernel_size) > 1:
            return f"{name} ({kind}, kernel {module.kernel_size}) mixes neighbours of the row"
        if isinstance(module, _OF_THE_BATCH):
            return f"{name} ({kind}) takes statistics of the batch"
    return ""


def _own_attention(model: torch.nn.Module) -> str:
    """Name what does not attend by transformers' AttentionInterface."""
    for module in model.modules():
        # Where a release does not tell, the mask, or the trial, finds out.
        can = getattr(module, "_can_set_attn_implementation", None) if isinstance(module, PreTrainedModel) else None
        if can is not None and not can():
            return f"{type(module).__name__} {OWN_ATTENTION}"
    config = model.config
    crosses = getattr(config, "is_decoder", False) and getattr(config, "add_cross_attention", False)
    if crosses and not is_encoder_decoder(model):
        return "it attends to the states of an encoder that is not part of it"
    if config._attn_implementation not in (*IMPLEMENTATIONS, *ORDINARY):
        return (
            f'its attention is "{config._attn_implementation}", whose mask is another; load it with "sdpa" or "eager"'
        )
    return ""


def is_encoder_decoder(model: torch.nn.Module) -> bool:
    """Tell whether a model is called with two batches, that of the encoder and that of the decoder."""
    paired = getattr(model.config, "is_encoder_decoder", False)
    return bool(paired) and "decoder_input_ids" in names_of(model.__class__)


class Limits(NamedTuple):
    """Lengths that a model can be given."""

    most: int | None = None
    """The number of learned positions."""
    turn: int | None = None
    """The length from which on the rotation is another one, for all sequences of a batch."""


def limits(model: torch.nn.Module) -> Limits:
    """Find the limits of a model."""
    config = model.config.get_text_config()
    most = turn = None
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding) and name.split(".")[-1] in _POSITIONS:
            most = module.num_embeddings - int(getattr(module, "offset", 0) or 0)
            if module.padding_idx is not None:
                most -= module.padding_idx + 1
    rope = getattr(config, "rope_parameters", None) or {}
    for each in (rope, *(x for x in rope.values() if isinstance(x, dict))):
        if each.get("rope_type") in ("dynamic", "longrope"):
            turn = each.get("original_max_position_embeddings") or config.max_position_embeddings
    return Limits(most, turn)
