"""Forwards that run in this thread, and what their hooks share."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from ...errors import EMPTY, LONG, TOGETHER
from .batch import Arrival
from .refusals import Limits
from .rows import Sides

Arguments: TypeAlias = tuple[tuple[()], dict[str, Any]]
"""Arguments that a hook puts in the place of those given: by name alone."""

CACHES = ("cache", "past_key_values")
PER_SEQUENCE = {
    "pooler_output",
    "seq_relationship_logits",
    "loss",
    "aux_loss",
    "router_logits",
    *CACHES,
}
"""Results that have no row for each token, whatever their shape."""


@dataclass
class Call:
    """One forward: the sequences of its tokens, and of an encoder's where there is one."""

    batch: Arrival
    source: Arrival | None = None
    attended: int = 0
    """The number of layers that have attended."""


@dataclass
class State:
    """State that the hooks of a model keep; copied and pickled with it."""

    ordinary: str
    """The attention that the model had, and goes on to use where it keeps a cache."""
    limits: Limits = field(default_factory=Limits)
    handles: list[Any] = field(default_factory=list)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.calls: list[tuple[Call | None, contextvars.Token[Sides | None] | None]] = []


_stack = _Stack()


def push() -> None:
    """Note that a forward begins; `replace` says of which kind, and `pop` ends it, also after an error."""
    _stack.calls.append((None, None))


def replace(call: Call | None, token: contextvars.Token[Sides | None] | None = None) -> None:
    """Say what the forward that has begun last is for."""
    _stack.calls[-1] = call, token


def pop() -> tuple[Call | None, contextvars.Token[Sides | None] | None]:
    """End the forward that has begun last."""
    return _stack.calls.pop() if _stack.calls else (None, None)


def running() -> Call | None:
    """The innermost forward over a row in this thread."""
    return next((call for call, _ in reversed(_stack.calls) if call is not None), None)


def count_layer() -> None:
    """Note that a layer has attended within sequences."""
    call = running()
    if call is not None:
        call.attended += 1


def keeps_cache(given: Mapping[str, Any]) -> bool:
    """Tell whether a call goes on with keys of earlier calls, as in ``generate``."""
    return any(given.get(name) is not None for name in CACHES)


def check_options(module: torch.nn.Module, given: Mapping[str, Any], refused: tuple[str, ...]) -> None:
    """Refuse what a row of several sequences cannot give."""
    for name in refused:
        if given.get(name) is not None:
            raise TOGETHER(f"{name}= does not go with padding_free")
    weights = given.get("output_attentions")
    if weights or (weights is None and module.config.output_attentions):
        raise TOGETHER("output_attentions=True asks for the weights of every pair, which are never made")
    keep = given.get("logits_to_keep", 0)
    if isinstance(keep, torch.Tensor) or keep:
        raise TOGETHER("logits_to_keep= is for the end of one row, which is the end of the last sequence alone")
    if given.get("use_cache"):
        raise TOGETHER("use_cache=True keeps keys for steps to come; leave it out, or call generate")


def check_lengths(batch: Arrival, limits: Limits) -> None:
    """Refuse sequences that the model's positions are not for."""
    rows = batch.rows
    if not rows.total:
        raise EMPTY("the batch has no tokens")
    if limits.most is not None and rows.longest > limits.most:
        i = rows.lengths.index(rows.longest)
        raise LONG(f"sequence {i} has {rows.longest} tokens, but the model positions for {limits.most}")
    if limits.turn is not None and min(rows.lengths) <= limits.turn < rows.longest:
        raise TOGETHER(
            f"this model turns all sequences of a batch differently where the longest has more than {limits.turn} "
            "tokens; give it shorter and longer sequences in batches of their own"
        )


def map_results(output: Any, change: Callable[[str, Any], Any]) -> Any:
    """A model's output with each tensor changed by ``change(name, tensor)``."""

    def each(name: str, x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            return type(x)(each(name, y) for y in x)
        return change(name, x) if isinstance(x, torch.Tensor) and name not in PER_SEQUENCE else x

    if isinstance(output, dict):
        return type(output)(**{name: each(name, x) for name, x in output.items()})
    if isinstance(output, tuple):
        return tuple(each("", x) for x in output)
    return each("", output)
