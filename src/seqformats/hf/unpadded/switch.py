"""Hooks put into a model, and taken out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from ...errors import UNPADDED
from . import body, heads, pairs
from .attend import register
from .calls import State
from .masks import IMPLEMENTATIONS, ORDINARY
from .refusals import is_encoder_decoder, limits, reason
from .trial import Trial

Hook: TypeAlias = Callable[..., Any]

_OVER_TOKENS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForTokenClassification", "ForPreTraining")
"""Ends of names of models whose heads take each token alone."""
_PAIRS = ("ForConditionalGeneration", "MTModel", "LMHeadModel")


def switch_on(model: torch.nn.Module, *, check: bool) -> None:
    """Have a model run over rows; nothing is changed where it is refused."""
    if hasattr(model, "_padding_free"):
        return
    why = reason(model)
    paired = not why and is_encoder_decoder(model)
    if paired and model is not model.base_model and not type(model).__name__.endswith(_PAIRS):
        why = "its head wants a rectangle of the decoder's states"
    if why:
        raise UNPADDED(f"{type(model).__name__} cannot run without padding: {why}")
    register()
    ordinary = model.config._attn_implementation
    ordinary = ORDINARY.get(ordinary, ordinary)
    # A model of several choices takes (n, choices, width), which is no batch of sequences.
    tried = model.base_model if type(model).__name__.endswith("ForMultipleChoice") else model
    trial = Trial(tried) if check else None
    model.set_attn_implementation(IMPLEMENTATIONS[ordinary])
    try:
        (_hook_pair if paired else _hook)(model, ordinary)
        if trial is not None:
            trial.check()
    except BaseException:
        switch_off(model)
        raise


def switch_off(model: torch.nn.Module) -> None:
    """Take the hooks out again; nothing happens where there are none."""
    ordinary = None
    for module in {id(each): each for each in (model, model.base_model)}.values():
        state = module.__dict__.pop("_padding_free", None)
        if state is not None:
            ordinary = state.ordinary
            for handle in state.handles:
                handle.remove()
    if ordinary is not None:
        model.set_attn_implementation(ordinary)


def _wrap_forward(module: torch.nn.Module, before: Hook, after: Hook, keep: list[Any]) -> None:
    keep.append(module.register_forward_pre_hook(before, with_kwargs=True))
    keep.append(module.register_forward_hook(after, with_kwargs=True, always_call=True))


def _hook(model: torch.nn.Module, ordinary: str) -> None:
    """Hook a model without a decoder beside an encoder."""
    base = model.base_model
    pools_itself = isinstance(getattr(base, "pooler", None), torch.nn.Linear)
    flat = model is base or (type(model).__name__.endswith(_OVER_TOKENS) and not pools_itself)
    inner = model if flat else base
    inner._padding_free = state = State(ordinary, limits(model))
    keep = state.handles
    _wrap_forward(inner, body.enter, body.leave, keep)
    if not flat:
        model._padding_free = outer = State(ordinary)
        _wrap_forward(model, heads.pad_arguments, heads.unpad_results, outer.handles)
    _hook_parts(model, keep)
    pooler = getattr(base, "pooler", None)
    if isinstance(pooler, torch.nn.Module):
        keep.append(pooler.register_forward_pre_hook(body.pool_first, with_kwargs=True))


def _hook_pair(model: torch.nn.Module, ordinary: str) -> None:
    """Hook a model with an encoder and a decoder."""
    model._padding_free = state = State(ordinary, limits(model))
    _wrap_forward(model, pairs.enter_pair, pairs.leave_pair, state.handles)
    _wrap_forward(model.get_encoder(), pairs.enter_encoder, pairs.leave_part, state.handles)
    _wrap_forward(model.get_decoder(), pairs.enter_decoder, pairs.leave_part, state.handles)
    _hook_parts(model, state.handles)


def _hook_parts(model: torch.nn.Module, keep: list[Any]) -> None:
    """Hook what calculates with places of the row: relative biases, and positions that are not an argument."""
    for module in model.modules():
        if hasattr(module, "compute_bias") and hasattr(module, "has_relative_attention_bias"):
            _wrap_forward(module, body.short_bias, body.restore_bias, keep)
        if type(module).__name__.endswith("PositionalEmbedding") and body.takes_positions(module):
            keep.append(module.register_forward_pre_hook(body.restart_positions, with_kwargs=True))
