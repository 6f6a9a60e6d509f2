"""Hooks of a model with an encoder and a decoder: two rows, and attention from one to the other."""

from __future__ import annotations

from typing import Any

import torch

from ...converters.convert import convert
from ...errors import KIND, TOGETHER
from ...formats import Masked
from .batch import Arrival, arrive
from .body import check_attended
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
    running,
)
from .parameters import name_arguments, names_of
from .rows import Rows, Sides, Tensor, as_ragged, begin, end, is_batch

_MASKS = ("attention_mask", "decoder_attention_mask")
_REFUSED = (
    "head_mask",
    "decoder_head_mask",
    "cross_attn_head_mask",
    "cu_seq_lens_q",
    "position_ids",
    "decoder_position_ids",
)


def enter_pair(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
    """Make the arguments two rows, before the forward."""
    push()
    given = name_arguments(module, args, kwargs)
    if keeps_cache(given) or given.get("encoder_outputs") is not None:
        replace(None, begin(None))
        return None
    source = arrive(given)
    if source is None:
        raise KIND("padding_free is for input_ids= or inputs_embeds=, and there is neither")
    check_options(module, given, _REFUSED)
    target, given = _target(module, given)
    state: State = module._padding_free
    for batch in (source, target):
        check_lengths(batch, state.limits)
    if source.rows.n != target.rows.n:
        raise TOGETHER(f"the encoder has {source.rows.n} sequences, but the decoder {target.rows.n}")
    sent = {}
    for name, x in given.items():
        if name not in (*_MASKS, *CACHES):
            of_decoder = name.startswith("decoder_") or name == "labels"
            sent[name] = (target if of_decoder else source).flatten(name, x)
    if "use_cache" in names_of(module.__class__):
        sent["use_cache"] = False
    replace(Call(target, source), begin(None))
    return (), sent


def leave_pair(module: torch.nn.Module, _args: object, _kwargs: object, output: object) -> Any:
    """Give the results the forms of the two batches, after the forward."""
    call, token = pop()
    if token is not None:
        end(token)
    if call is None or output is None:
        return None
    check_attended(module, call)
    assert call.source is not None
    source, target = call.source, call.batch

    def change(name: str, x: Tensor) -> Any:
        batch = source if name.startswith("encoder_") else target
        return batch.restore(x) if tuple(x.shape[:2]) == (1, batch.rows.total) else x

    return map_results(output, change)


def enter_encoder(_module: torch.nn.Module, _args: object, _kwargs: object) -> None:
    """Let the encoder attend within the sequences of the source."""
    call = running()
    push()
    if call is not None and call.source is not None:
        replace(None, begin(Sides(call.source.rows)))


def enter_decoder(_module: torch.nn.Module, _args: object, _kwargs: object) -> None:
    """Let the decoder attend within its own sequences, and to those of the source."""
    call = running()
    push()
    if call is not None and call.source is not None:
        replace(None, begin(Sides(call.batch.rows, call.source.rows)))


def leave_part(*_: object) -> None:
    """End what `enter_encoder` and `enter_decoder` have begun."""
    token = pop()[1]
    if token is not None:
        end(token)


def _target(module: torch.nn.Module, given: dict[str, Any]) -> tuple[Arrival, dict[str, Any]]:
    """Read the batch of the decoder, which labels give where there is no other; they are moved on by one token."""
    batch, labels = arrive(given, "decoder_"), given.get("labels")
    if batch is not None:
        return batch, given
    shift = getattr(module, "prepare_decoder_input_ids_from_labels", None)
    if labels is None or shift is None:
        raise KIND("a model with a decoder needs decoder_input_ids=, or labels= where it makes them of these")
    if is_batch(labels):
        batch = Arrival("encoding", Rows(as_ragged(labels)))
        square = convert(as_ragged(labels), Masked, side="right", fill=-100).data
    else:
        batch, square = _of_labels(labels), labels
    ids = shift(labels=square)
    if is_batch(labels):
        ids = convert(Masked(ids, batch.rows.lengths), type(labels))
    return batch, {**given, "decoder_input_ids": ids}


def _of_labels(labels: Tensor) -> Arrival:
    """Read the sequences of padded labels ``(n, width)``: each ends behind the last that is not -100."""
    n, width = labels.shape
    places = torch.arange(1, width + 1, device=labels.device)
    lengths = ((labels != -100) * places).amax(1) if width else labels.new_zeros(n)
    token = places <= lengths[:, None]
    index = token.reshape(-1).nonzero().reshape(-1)
    return Arrival("padded", Rows.of_lengths(lengths.tolist(), labels.device), token, index, width)
