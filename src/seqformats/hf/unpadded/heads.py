"""Hooks of a model whose head wants a rectangle, such as classification: the body inside runs over the row."""

from __future__ import annotations

from typing import Any

import torch

from ...converters.convert import convert
from ...errors import EMPTY, TOGETHER
from ...formats import Masked, Ragged
from ...formats.annotations import Operands
from ...operations.attention import mask
from .batch import Arrival
from .calls import Arguments, Call, map_results, pop, push, replace
from .parameters import name_arguments
from .rows import Rows, as_ragged, is_batch


def pad_arguments(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
    """Make encodings padded, with their mask, before the forward; what is padded stays as it is."""
    push()
    given = name_arguments(module, args, kwargs)
    if given.get("start_positions") is not None or given.get("end_positions") is not None:
        raise TOGETHER("the loss of question answering is taken over padding too; take it from the logits")
    x = given.get("input_ids")
    if x is None:
        x = given.get("inputs_embeds")
    if not is_batch(x):
        return None
    padding = getattr(module.config.get_text_config(), "pad_token_id", None) or 0
    tokens = as_ragged(x)
    lengths = tokens._structure.lengths.tolist()
    if 0 in lengths:
        raise EMPTY(f"sequence {lengths.index(0)} is empty; it has no token to pool")
    sent = {}
    for name, value in given.items():
        if is_batch(value):
            value = convert(as_ragged(value), Masked, side="right", fill=padding if name == "input_ids" else 0).data
        sent[name] = value
    sent["attention_mask"] = torch.as_tensor(mask(lengths)).long().to(tokens.data.device)
    replace(Call(Arrival("encoding", Rows(tokens), width=max(lengths))))
    return (), sent


def unpad_results(module: torch.nn.Module, _args: object, _kwargs: object, output: object) -> Any:
    """Make results of tokens encodings again, after the forward; also called after an error, without an output."""
    call, _ = pop()
    if call is None or output is None:
        return None
    rows, width = call.batch.rows, call.batch.width
    of_tokens = "QuestionAnswering" in type(module).__name__

    def change(name: str, x: Operands) -> Any:
        if tuple(x.shape[:2]) != (rows.n, width) or (x.dim() == 2 and name == "logits" and not of_tokens):
            return x
        return convert(Masked(x, rows.lengths), Ragged)

    return map_results(output, change)
