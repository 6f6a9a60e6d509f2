"""Hooks of a model that runs over the row itself: its arguments into the row, its results back."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import ARGUMENT, KIND, SHAPE, UNPADDED
from ...operations.softmax import cumsum
from .batch import Arrival, arrive
from .calls import (
    CACHES,
    Arguments,
    Call,
    State,
    check_lengths,
    check_options,
    keeps_cache,
    map_results,
    pop,
    push,
    replace,
)
from .parameters import name_arguments, names_of
from .refusals import OWN_ATTENTION
from .rows import Sides, Tensor, Visible, begin, end, sides

_REFUSED = (
    "decoder_input_ids",
    "decoder_inputs_embeds",
    "encoder_hidden_states",
    "encoder_outputs",
    "head_mask",
    "cross_attn_head_mask",
    "block_sequence_ids",
    "perm_mask",
    "target_mapping",
    "mems",
)
_OF_SEQUENCES = ("next_sentence_label", "sentence_order_label")
_BOUNDARIES = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx")
_PREDICTS_NEXT = ("ForCausalLM", "LMHeadModel")


def enter(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
    """Make the arguments one row, before the forward."""
    push()
    given = name_arguments(module, args, kwargs)
    if keeps_cache(given):
        replace(None, begin(None))
        return None
    batch = arrive(given)
    if batch is None:
        raise KIND("padding_free is for input_ids= or inputs_embeds=, and there is neither")
    check_options(module, given, _REFUSED)
    state: State = module._padding_free
    check_lengths(batch, state.limits)
    sent = _arguments(module, batch, given)
    replace(Call(batch), begin(Sides(batch.rows)))
    return (), sent


def leave(module: torch.nn.Module, _args: object, _kwargs: object, output: Any) -> Any:
    """Give the results the form of the batch, after the forward; also called after an error, without an output."""
    call, token = pop()
    if token is not None:
        end(token)
    if call is None or output is None:
        return None
    batch = call.batch
    check_attended(module, call)
    pooler = getattr(module, "pooler", None)
    if isinstance(pooler, torch.nn.Linear) and getattr(output, "pooler_output", None) is not None:
        # ALBERT pools in its own forward.
        output.pooler_output = module.pooler_activation(pooler(batch.rows.first(output.last_hidden_state)))
    shape = (1, batch.rows.total)
    return map_results(output, lambda _, x: batch.restore(x) if tuple(x.shape[:2]) == shape else x)


def check_attended(module: torch.nn.Module, call: Call) -> None:
    """Refuse a model of which no layer has attended within sequences: whatever it did, it was over the whole row."""
    if not call.attended:
        raise UNPADDED(f"{type(module).__name__} {OWN_ATTENTION}")


def _arguments(module: torch.nn.Module, batch: Arrival, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the forward over the row."""
    rows, names = batch.rows, names_of(module.__class__)
    sent = {name: batch.flatten(name, x) for name, x in given.items() if name not in ("attention_mask", *CACHES)}
    if sent.get("labels") is not None:
        sent["labels"] = labels_of(module, batch, sent["labels"], given["labels"])
    if "use_cache" in names:
        sent["use_cache"] = False
    if "position_ids" not in names:
        sent.pop("position_ids", None)
    elif given.get("position_ids") is None:
        sent["position_ids"] = _positions(module, batch, sent)
    elif tuple(sent["position_ids"].shape[-2:]) != (1, rows.total):
        raise SHAPE(f"position_ids are {tuple(given['position_ids'].shape)}, not one per token")
    if batch.form == "flat":
        for name in _BOUNDARIES:
            sent.pop(name, None)
    for name, x in sent.items():
        if not isinstance(x, torch.Tensor) or not x.dim() or name in (*_OF_SEQUENCES, "position_ids"):
            continue
        if tuple(x.shape[:2]) != (1, rows.total):
            raise SHAPE(f"{name} is {tuple(x.shape)}: neither one per token, nor known to be one per sequence")
    return sent


def labels_of(module: torch.nn.Module, batch: Arrival, labels: Tensor, given: object) -> Tensor:
    """Labels of the row, none of which is predicted over the beginning of its sequence."""
    token = batch.token
    if token is not None and isinstance(given, torch.Tensor) and given.shape == token.shape:
        outside = given.masked_fill(token.to(given.device), -100)
        if bool((outside != -100).any()):
            raise ARGUMENT("labels count at padding, where nothing is calculated; put -100 there")
    if type(module).__name__.endswith(_PREDICTS_NEXT) and labels.dim() == 2:
        labels = labels.clone()
        labels[0, batch.first_tokens()] = -100
    return labels


def _positions(module: torch.nn.Module, batch: Arrival, sent: dict[str, Any]) -> Tensor:
    """Positions ``(1, total)`` that begin again with each sequence, as the model counts them."""
    rows = batch.rows
    counts = [each for each in module.modules() if hasattr(each, "create_position_ids_from_inputs_embeds")]
    if not counts:
        return rows.positions()[None]
    padding = counts[0].padding_idx  # RoBERTa and its kin begin behind it
    ids = sent.get("input_ids")
    if ids is None:
        return rows.positions()[None] + padding + 1
    real = (ids[0] != padding).long()  # a token that is the padding's id is passed over, as the model does it alone
    return (cumsum(rows.to_batch(real)).data * real + padding)[None]


def pool_first(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
    """Give a pooler, which takes the first token of each row, that of each sequence."""
    here = sides()
    if here is None:
        return None
    given = name_arguments(module, args, kwargs)
    name = next(iter(given))
    x = given[name]
    if x.dim() == 3 and tuple(x.shape[:2]) == (1, here.rows.total):
        given[name] = here.rows.first(x)[:, None]
    return (), given


def short_bias(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
    """Give an attention with relative positions (T5) the bias of the longest sequence, not of the whole row."""
    given, names = name_arguments(module, args, kwargs), names_of(module.__class__)
    seen = given.get("mask", given.get("attention_mask"))
    if not isinstance(seen, Visible) or given.get("position_bias") is not None:
        return None
    t, m = seen.queries.longest, seen.keys.longest
    if "position_bias" not in names:  # UMT5 calculates it in its own forward, anew in each layer
        compute = type(module).compute_bias

        def compute_short(*_: int, device: torch.device = None, **__: Any) -> Tensor:
            return compute(module, t, m, device=device)

        module.__dict__["compute_bias"] = compute_short
        return None
    if module.has_relative_attention_bias:
        given["position_bias"] = module.compute_bias(t, m, device=seen.queries.device)
    else:  # the model would make zeros of total x total
        given["position_bias"] = torch.zeros(1, module.n_heads, t, m, device=seen.queries.device)
    return (), given


def restore_bias(module: torch.nn.Module, *_: object) -> None:
    """Undo `short_bias` where it has put a function into the module."""
    module.__dict__.pop("compute_bias", None)


def restart_positions(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
    """Give an embedding of positions that takes them (BART, Marian) those that begin again with each sequence."""
    here = sides()
    if here is None:
        return None
    return (), {**name_arguments(module, args, kwargs), "position_ids": here.rows.positions()}


def takes_positions(module: torch.nn.Module) -> bool:
    """Tell whether a module's forward has a parameter ``position_ids``."""
    return "position_ids" in names_of(module.__class__)
