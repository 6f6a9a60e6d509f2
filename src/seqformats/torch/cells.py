"""The equations of PyTorch's recurrent layers in tensor operations, for tensors that its layers do not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.functional import dropout, linear

from ..formats import Packed

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there when types are checked
Module: TypeAlias = Any  # torch.nn.RNNBase
Weights: TypeAlias = Sequence[
    Any
]  # of input, state, their biases, and of a projection; None for those that are not there


def shapes_of(module: Module) -> list[dict[str, tuple[int, ...]]]:
    """Names and shapes of the weights of each direction of each layer, in the order of `Weights`; () if it has none."""
    sides = ("", "_reverse")[: 1 + module.bidirectional]
    high, width = {"LSTM": 4, "GRU": 3}.get(module.mode, 1) * module.hidden_size, module.proj_size or module.hidden_size
    bias = (high,) if module.bias else ()
    found: list[dict[str, tuple[int, ...]]] = []
    for layer in range(module.num_layers):
        deep = width * len(sides) if layer else module.input_size
        shapes = (high, deep), (high, width), bias, bias, (width, module.hidden_size) if module.proj_size else ()
        names = "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"
        found += [{f"{k}_l{layer}{side}": shape for k, shape in zip(names, shapes, strict=True)} for side in sides]
    return found


def weights_of(module: Module) -> list[Weights]:
    """The weights of each direction of each layer."""
    return [[getattr(module, name) if shape else None for name, shape in own.items()] for own in shapes_of(module)]


def step(module: Module, x: Tensor, state: Sequence[Tensor], weights: Weights) -> Sequence[Tensor]:
    """The states after one step; `x` is what the input adds to the gates."""
    h = state[0]
    y = linear(h, weights[1], weights[3])
    if isinstance(module, nn.LSTM):
        enter, forget, content, give = (x + y).chunk(4, 1)
        c = forget.sigmoid() * state[1] + enter.sigmoid() * content.tanh()
        h = give.sigmoid() * c.tanh()
        return (h if weights[4] is None else linear(h, weights[4])), c
    if isinstance(module, nn.GRU):
        (reset, keep, content), (of_reset, of_keep, of_content) = x.chunk(3, 1), y.chunk(3, 1)
        content = (content + (reset + of_reset).sigmoid() * of_content).tanh()
        return (content + (keep + of_keep).sigmoid() * (h - content),)
    return ((x + y).relu() if module.nonlinearity == "relu" else (x + y).tanh(),)


def write_out(module: Module, p: Packed, states: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
    """Packed rows through a layer, step by step; the rows that come out, and the final states."""
    data: Any = p.data
    sizes, n = p.size_at_t[: p.max_length].tolist(), len(p)
    sides = 1 + module.bidirectional
    widths = (module.proj_size or module.hidden_size, module.hidden_size)[: 1 + isinstance(module, nn.LSTM)]
    weights = weights_of(module)
    finals = []
    for layer in range(module.num_layers):
        outs = []
        for side in range(sides):
            k = layer * sides + side
            state = [s[k] for s in states] or [data.new_zeros(n, width) for width in widths]
            rows = linear(data, weights[k][0], weights[k][2]).split(sizes)
            found: list[Tensor] = []
            for t in reversed(range(len(sizes))) if side else range(len(sizes)):
                new = step(module, rows[t], [s[: sizes[t]] for s in state], weights[k])
                found.append(new[0])
                state = [torch.cat((now, s[sizes[t] :])) for now, s in zip(new, state, strict=True)]
            outs.append(torch.cat(found[::-1] if side else found) if found else data.new_zeros(0, widths[0]))
            finals.append(state)
        data = outs[0] if sides == 1 else torch.cat(outs, 1)
        if module.dropout and module.training and layer + 1 < module.num_layers:
            data = dropout(data, module.dropout)
    return data, [torch.stack(own) for own in zip(*finals, strict=True)]
