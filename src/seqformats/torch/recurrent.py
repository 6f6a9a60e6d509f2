"""Recurrent layers of PyTorch over sequences of different lengths."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.rnn import PackedSequence

from ..arrays import adopt, library_of
from ..converters.convert import convert, no_encoding
from ..converters.like import convert_like
from ..errors import DEVICES, DTYPE, KIND, LIBRARY, SHAPE, quote
from ..formats import Packed, Ragged
from ..operations.annotations import Batch
from .cells import Weights, shapes_of, weights_of, write_out
from .steps import GRU, LSTM, Steps, run_direction

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there when types are checked
Module: TypeAlias = Any  # torch.nn.Module
State: TypeAlias = Any  # a tensor, or a pair of them
Way: TypeAlias = Callable[[Module, Any, Sequence[Tensor]], tuple[Tensor, Sequence[Tensor]]]

CELLS = {nn.LSTM: LSTM, nn.GRU: GRU}
_PLAIN = (torch.Tensor, nn.Parameter)
_CELL_DTYPES = (torch.float32, torch.float64)
CAST = (torch.float32, torch.float16, torch.bfloat16)
"""Dtypes that autocast brings to one; it leaves float64 as it is."""
_MIN_NUMBERS_FOR_STEPS = 1 << 19
"""Numbers of a result from which, with gradients, the steps of this library beat PyTorch's LSTM on a rectangle."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def rnn(module: Module, x: Batch, state: State = None) -> tuple[Any, State]:
    """Run a recurrent layer of PyTorch over each sequence, without padding.

    Parameters
    ----------
    module : torch.nn.LSTM, torch.nn.GRU or torch.nn.RNN
        Any number of layers, one direction or both, with biases or without, with dropout between layers and with
        projections.  Its parameters stay where they are; `batch_first` means nothing here.
    x : an encoding or a list of tensors
        Its items are ``(input_size,)``.  Of a `LoD` the innermost sequences are meant.
    state : Tensor, or a pair of them for `LSTM`, optional
        The initial state ``(layers * directions, n, hidden)``, for `LSTM` ``(h, c)``, in the order of `x`; by default
        zeros.  With projections h is ``(layers * directions, n, proj_size)``.

    Returns
    -------
    y : a batch like `x`
        Its items are ``(directions * hidden,)``.
    state : Tensor, or a pair of them
        The state behind the last item of each sequence, in the reversed direction behind its first; of a sequence
        without items the initial one.

    Raises
    ------
    TypeError
        If `module` is none of these, if `x` is no batch of tensors, or if `state` is no tensor, or for `LSTM` no pair;
        for items, states and weights of different dtypes, except those that autocast brings to one; for a weight that
        is not there; and for states and weights that are not dense.
    StructureError
        For items of another width, and a state or weights of another shape.
    DeviceError
        For a state or weights on another device, as those on ``meta``.

    See Also
    --------
    seqformats.torch.Recurrent : As a module.
    seqformats.with_packed : For any other function of a `PackedSequence`.

    Notes
    -----
    On the host, float32 and float64 items go through compiled steps of this library, which are several times as fast as
    PyTorch's when gradients are wanted, and not slower than `nn.LSTM` on a rectangle.  They calculate what PyTorch
    does, in another order.  Second derivatives are refused.

    Sequences of one length are a rectangle.  An `nn.LSTM` runs on it as it is, with PyTorch's derivatives, where it is
    small or no gradient is wanted.  PyTorch's layer runs on `Packed` rows in all other cases: on a GPU, for half
    precision and under autocast, for `nn.RNN`, subclasses and projections, and for modules with hooks.  Within
    `torch.func` and for tangents, which that does not know, the steps are written out in tensor operations.
    `torch.compile` takes no layer of PyTorch's into a graph, and ends one before this call.  It goes on behind a
    `Recurrent`, but not behind a function that is given an `nn.LSTM` itself.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch
    >>> lstm = torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True)
    >>> x = sf.Ragged(torch.zeros(5, 4), [2, 0, 3])
    >>> y, (h, c) = sf.torch.rnn(lstm, x)
    >>> y.lengths, tuple(y.data.shape), tuple(h.shape)
    (array([2, 0, 3]), (5, 6), (4, 3, 3))
    """
    if not isinstance(module, nn.RNNBase):
        raise KIND(f"rnn takes an nn.LSTM, nn.GRU or nn.RNN, not {type(module).__name__}")
    p: Any = x if type(x) is Ragged else convert(x, Packed)
    if not isinstance(p, (Packed, Ragged)):
        raise no_encoding(x, "no single batch")
    p._look()
    library = library_of(p.data)
    if library.name != "torch":
        raise LIBRARY(f'rnn is for items in PyTorch, not in {library.name}; sf.to(x, "torch") brings them there')
    if p.item_shape != (module.input_size,):
        raise SHAPE(f"items must have shape ({module.input_size},) as module.input_size says, but have {p.item_shape}")
    states = _states(module, p, state)
    _check_weights(module, p.data, states)
    way = _way(module, p, states)
    order = None
    if way is not _rectangle:
        p = convert(p, Packed)
        columns = p._structure.columns
    if way is not _rectangle and (columns[1:] < columns[:-1]).any():
        order = torch.from_numpy(p._structure.order.indices.copy()).to(p.data.device)
        states = [s.index_select(1, order) for s in states]
    data, finals = way(module, p, states)
    if order is not None:
        home = torch.from_numpy(columns.copy()).to(order.device)
        finals = [s.index_select(1, home) for s in finals]
    y: Any = p._with_data(data)
    if type(x) is Ragged:
        y = convert(y, Ragged)
    elif type(x) is not Packed and type(x) is not PackedSequence:
        y = convert_like(y, x)
    return y, (finals[0] if len(finals) == 1 else tuple(finals))


class Recurrent(nn.Module):
    """A recurrent layer as a module from batch to batch, for ``nn.Sequential``.

    Parameters
    ----------
    module : torch.nn.LSTM, torch.nn.GRU or torch.nn.RNN
        What `rnn` takes.

    Attributes
    ----------
    module
        The same, under whose name its parameters are in ``state_dict``.

    Raises
    ------
    TypeError
        For any other module.

    Notes
    -----
    A call ``layer(x)`` gives ``rnn(module, x)[0]``, the batch alone, which the next module takes.  `rnn` gives the
    states too.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch
    >>> model = torch.nn.Sequential(sf.torch.Recurrent(torch.nn.GRU(4, 3)), sf.torch.Recurrent(torch.nn.GRU(3, 2)))
    >>> tuple(model(sf.Ragged(torch.zeros(5, 4), [2, 3])).data.shape)
    (5, 2)
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        if not isinstance(module, nn.RNNBase):
            raise KIND(f"Recurrent takes an nn.LSTM, nn.GRU or nn.RNN, not {type(module).__name__}")
        self.module = module

    def forward(self, x: Batch, state: State = None) -> Any:
        """The batch that `rnn` gives."""
        return rnn(self.module, x, state)[0]


def _states(module: Module, p: Packed | Ragged, state: State) -> list[Tensor]:
    """The initial states, checked; none for zeros."""
    if state is None:
        return []
    pair = isinstance(module, nn.LSTM)
    given = list(state) if pair and isinstance(state, (tuple, list)) else [state]
    if len(given) != 1 + pair or not all(isinstance(s, torch.Tensor) for s in given):
        wanted = "the state of an nn.LSTM is (h, c), two tensors" if pair else "the state is one tensor"
        raise KIND(
            f"{wanted}, not {quote(type(state).__name__) if not isinstance(state, (tuple, list)) else quote(state)}"
        )
    layers = module.num_layers * (2 if module.bidirectional else 1)
    widths = (module.proj_size or module.hidden_size, module.hidden_size)
    data: Any = p.data
    for name, s, width in zip("hc", given, widths, strict=False):
        _check_device(name, s, data)
        adopt(s, name)
        if tuple(s.shape) != (layers, len(p), width):
            raise SHAPE(f"{name} must have shape {(layers, len(p), width)}, but has {tuple(s.shape)}")
    return given


def _check_device(name: str, t: Tensor, data: Tensor) -> None:
    """DeviceError where a tensor is on another device than the items."""
    if t.device != data.device:
        raise DEVICES(f"{name} is on {t.device}, but the items are on {data.device}")


def _check_weights(module: Module, data: Tensor, states: Sequence[Tensor]) -> None:
    """Refuse weights that cannot be computed with, and items and states of another dtype; autocast brings all to one.

    Parameters are looked at, since a parametrized weight would be calculated once more, and may change by that.
    """
    library: Any = library_of(data)
    own = dict(module.named_parameters(recurse=False, remove_duplicate=False))
    for name, w in own.items():
        _check_device(name, w, data)
        adopt(w, name)
    weight = next(iter(own.values()), None)
    if weight is not None:
        alike = CAST if weight.dtype in CAST and library.autocasts(data) else (weight.dtype,)
        for name, t in (("items", data), *zip(("h", "c"), states, strict=False), *own.items()):
            if t.dtype not in alike:
                raise DTYPE(f"{name} must have the dtype of the weights, {weight.dtype}, not {t.dtype}")
    if parametrize.type_before_parametrizations(module) in (*CELLS, nn.RNN):
        for name, shape in itertools.chain.from_iterable(side.items() for side in shapes_of(module)):
            if shape and (name in own or not parametrize.is_parametrized(module, name)):
                _check_shape(name, own[name] if name in own else getattr(module, name, None), shape)


def _check_shape(name: str, w: Tensor | None, shape: tuple[int, ...]) -> None:
    """Refuse a weight that is not as the sizes of its layer say."""
    if w is None:
        raise KIND(f"the layer has no {name}, which its num_layers, bidirectional, bias and proj_size say it has")
    if tuple(w.shape) != shape:
        raise SHAPE(f"{name} must have shape {shape} as the sizes of its layer say, but has {tuple(w.shape)}")


def _way(module: Module, p: Packed | Ragged, states: Sequence[Tensor]) -> Way:
    """Choose how this layer is to go through these rows."""
    data: Any = p.data
    library: Any = library_of(data)
    if library._transforms():
        return write_out
    cell = _cell_of(module) if data.is_cpu else None
    small = p.rows * module.hidden_size < _MIN_NUMBERS_FOR_STEPS or not torch.is_grad_enabled()
    if cell is LSTM and small and 0 < p.rows == len(p) * p._structure.longest:
        return _rectangle
    if cell is None or not _are_plain(data, data, *states):
        return _run_packed
    weights = weights_of(module)
    for own, shapes in zip(weights, shapes_of(module), strict=True):
        for w, (name, shape) in zip(own, shapes.items(), strict=True):
            if shape:
                _check_shape(name, w, shape)
    if not _are_plain(data, *[w for own in weights for w in own if w is not None]):
        return _run_packed
    return functools.partial(_steps, cell, weights)


def _cell_of(module: Module) -> Any:
    """The kind of a layer that is nothing but that; None of those that are left to PyTorch."""
    cell = CELLS.get(parametrize.type_before_parametrizations(module))
    if cell is None or module.proj_size or "forward" in vars(module) or not module.hidden_size or not module.input_size:
        return None
    modules = torch.nn.modules.module
    hooked = any(getattr(module, name, None) or getattr(modules, f"_global{name}", None) for name in HOOKS)
    return None if hooked else cell


def _are_plain(data: Tensor, *tensors: Tensor) -> bool:
    """Tell whether steps of this library take these tensors beside such items."""
    library: Any = library_of(data)
    if data.dtype not in _CELL_DTYPES or data.is_neg() or library.autocasts(data):
        return False
    return all(type(t) in _PLAIN and t.dtype is data.dtype and t.is_cpu and t.layout is torch.strided for t in tensors)


def _rectangle(module: Module, p: Packed | Ragged, states: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
    """Sequences of one length through the layer itself, whose data are a rectangle."""
    data: Any = p.data
    by_steps = type(p) is Packed
    shape = (-1, len(p)) if by_steps else (len(p), -1)
    block = data.reshape(*shape, data.shape[1])
    y, finals = module(block if by_steps != module.batch_first else block.transpose(0, 1), tuple(states) or None)
    if by_steps == module.batch_first:
        y = y.transpose(0, 1)
    return y.reshape(data.shape[0], -1), finals


def _run_packed(module: Module, p: Packed, states: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
    """Packed rows through the layer itself, which takes no empty sequence: they are the last ones."""
    data: Any = p.data
    n, some = len(p), int((p.lengths > 0).sum())
    pair = isinstance(module, nn.LSTM)
    if not states and (some < n or not some):
        layers = module.num_layers * (2 if module.bidirectional else 1)
        widths = (module.proj_size or module.hidden_size, module.hidden_size)[: 1 + pair]
        states = [data.new_zeros(layers, n, width) for width in widths]
    if not some:
        width = module.proj_size or module.hidden_size
        return data.new_zeros(0, width * (2 if module.bidirectional else 1)), list(states)
    sizes = torch.from_numpy(p.size_at_t[: p.max_length].copy())
    begin = [s[:, :some] for s in states]
    given = (tuple(begin) if pair else begin[0]) if begin else None
    y, final = module(PackedSequence(data, sizes), given)
    finals = list(final) if pair else [final]
    if some < n:
        finals = [torch.cat((own, s[:, some:].to(own.dtype)), 1) for own, s in zip(finals, states, strict=True)]
    return y.data, finals


def _steps(
    cell: Any, weights: Sequence[Weights], module: Module, p: Packed, states: Sequence[Tensor]
) -> tuple[Tensor, Sequence[Tensor]]:
    """Packed rows through the steps of this library."""
    steps, data = Steps.from_structure(p._structure), p.data
    sides = 1 + module.bidirectional
    finals: list[Any] = []
    for layer in range(module.num_layers):
        outs = []
        for side in range(sides):
            k = layer * sides + side
            out, final = run_direction(cell, steps, bool(side), data, weights[k][:4], [s[k] for s in states])
            outs.append(out)
            finals.append(final)
        data = outs[0] if sides == 1 else torch.cat(outs, 1)
        if module.dropout and module.training and layer + 1 < module.num_layers:
            data = nn.functional.dropout(data, module.dropout)  # as nn.LSTM calls it, so that seeds give the same
    return data, torch.stack(finals, 1).unbind(0)
