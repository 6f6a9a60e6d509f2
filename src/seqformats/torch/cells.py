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


def weights_of(module: Module) -> list[Weights]:
    """The weights of input and state, the biases, and the weights of a projection, of each direction of each layer."""
    ends = [f"_l{k}{side}" for k in range(module.num_layers) for side in ("", "_reverse")[: 1 + module.bidirectional]]
    names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    there = [True, True, module.bias, module.bias, module.proj_size > 0]
    return [
        [getattr(module, name + end) if has else None for name, has in zip(names, there, strict=True)] for end in ends
    ]


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
