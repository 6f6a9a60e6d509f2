"""One direction of a layer of an LSTM or a GRU over packed rows, on the host, as a function of PyTorch's graph.

A kernel does all steps; what the input adds to the gates it calculates for some of them at a time.  Backwards a kernel
makes the gradients of the gates step by step, and those of the weights are one product each over all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.autograd import Function

from ..arrays import Array, library_of
from ..errors import NO_GRADIENT
from ..formats.structure import Structure
from ..launch import threads
from ..launch.kernel import kernel

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there when types are checked
Context: TypeAlias = Any  # what autograd hands from a forward to a backward call

SPARE = 8
"""Rows that a kernel may read behind the last one, for each thread."""
TILE = 512
"""Numbers that a thread needs for the product of a step."""
AHEAD = 72
"""Rows of inputs that a thread may have beside those of one step."""
PRODUCT = 256 * 512 + 128 * 256 + 256
"""Numbers that a thread needs for a product of matrices."""
WORTH = 5 << 22
"""From how many multiplications on a second thread brings more than it costs to wake it."""


class Cell(NamedTuple):
    """Kind of a layer, by what tells the two apart."""

    name: str
    gates: int
    states: int
    kept: int  # numbers for each row and unit that are kept beside the gates


LSTM = Cell("lstm", gates=4, states=2, kept=3)
GRU = Cell("gru", gates=3, states=1, kept=2)


class Steps(NamedTuple):
    """Places of the rows of each step in a packed batch."""

    begins: Array  # and where the last one ends
    n: int  # sequences
    rows: int

    @classmethod
    def from_structure(cls, structure: Structure) -> Steps:
        """Read them from the structure of a batch."""
        return cls(structure.order.steps[: structure.longest + 1], structure.n, structure.rows)


class Plan(NamedTuple):
    """Division of the memory of a direction; `lstm_steps` and its neighbours describe the parts."""

    cell: Cell
    steps: Steps
    back: bool
    hidden: int
    width: int  # the hidden units up to a multiple of 32
    units: int  # threads
    room: int  # rows of gates, and spare ones; 0 if no gradient is wanted
    held: int  # rows of what is kept beside the gates

    @classmethod
    def make(cls, cell: Cell, steps: Steps, back: bool, hidden: int, keeps: bool) -> Plan:
        """Divide the work among threads, each of which takes every second sequence, or third, ..."""
        width = -(-hidden // 32) * 32
        units = max(min(_threads(steps.rows * cell.gates * width * width), steps.n // SPARE), 1)
        spare = SPARE * units
        room = steps.rows + spare
        return cls(cell, steps, back, hidden, width, units, *((room, room) if keeps else (0, 2 * steps.n + spare)))

    @property
    def line(self) -> int:
        """The gates of a row."""
        return self.cell.gates * self.width

    @property
    def state_size(self) -> int:
        """The states of all sequences."""
        return self.cell.states * self.steps.n * self.width

    def wide(self, w: Tensor) -> Tensor:
        """Weights ``(gates * hidden, columns)`` as ``(line, columns)``, zero where there is no unit."""
        if self.width == self.hidden:
            return w
        wide = w.new_zeros(self.cell.gates, self.width, w.shape[1])
        wide[:, : self.hidden] = w.view(self.cell.gates, self.hidden, -1)
        return wide.view(self.line, -1)

    def narrow(self, d: Tensor) -> Tensor:
        """A gradient ``(line, ...)`` as one of weights or a bias."""
        if self.width == self.hidden:
            return d
        d = d.view(self.cell.gates, self.width, *d.shape[1:])[:, : self.hidden]
        return d.reshape(self.cell.gates * self.hidden, *d.shape[2:])

    def in_order(self, d: Tensor) -> Tensor:
        """A gradient ``(line, ...)`` by the order in which the weights of a GRU's state are, content first."""
        return torch.from_numpy(np.roll(d.numpy(), -self.width, 0)) if self.cell is GRU else d

    def put_states(self, stored: Tensor, states: Sequence[Tensor]) -> Tensor:
        """Write states or their gradients ``(n, hidden)`` to memory, zeros where none are given."""
        stored = stored.view(self.cell.states, self.steps.n, self.width)
        to = stored.numpy()
        if self.width != self.hidden or not states:
            to[:] = 0
        for place, state in zip(to, states, strict=False):
            place[:, : self.hidden] = _host(state)
        return stored

    def forward(self, x: Tensor, weights: Sequence[Tensor | None], states: Tensor) -> tuple[Tensor, Tensor]:
        """Return memory and output ``(rows, width)`` of all steps, which write to `states` those at the end."""
        deep, line, width, units = x.shape[1], self.line, self.width, self.units
        begin = self.room * line + self.cell.kept * self.held * width
        ahead = AHEAD + -(-self.steps.n // units)
        biases = line + width * (self.cell is GRU)
        memory = _empty(x, begin + line * (deep + width) + biases + units * (TILE + ahead * (deep + line)))
        out = _empty(x, self.steps.rows, width)
        none = memory[:0]
        given = [none if w is None else w for w in weights]
        sizes = np.array([begin, self.cell.gates, self.hidden, deep])
        _run("gate_weights", (*given, memory), (sizes, width), (0, width // 16))
        sizes = np.array([self.steps.n, deep, self.room, self.held, ahead, units, self.back])
        _run(f"{self.cell.name}_steps", (memory, x, out, states), (self.steps.begins, sizes, width), range(units + 1))
        return memory, out

    def backward(self, memory: Tensor, dy: Tensor, w_hh: Tensor, finals: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the gradients of the gates ``(rows, line)``, of a GRU ``(rows, line + width)``, and of the states.

        `finals` are the gradients of the states at the end, none for zeros.
        """
        width, line, rows = self.width, self.line, self.steps.rows
        slopes = line + width * (self.cell is GRU)
        sizes = [self.room * slopes, line * width, self.state_size, self.units * TILE]
        z = _empty(memory, sum(sizes))
        gates, weights, states, _ = z.split_with_sizes(sizes)
        w = torch.nn.functional.pad(self.wide(w_hh), (0, width - self.hidden)) if width != self.hidden else w_hh
        _lay(w.numpy(), weights.numpy().reshape(width // 32, line, 32), width * (self.cell is GRU))
        initial = self.put_states(states, finals)
        numbers = (self.steps.begins, self.steps.n, self.room, self.units, int(self.back), width)
        _run(f"{self.cell.name}_back", (memory, dy, z), numbers, range(self.units + 1))
        return gates[: rows * slopes].view(rows, slopes), initial


def _empty(like: Tensor, *shape: int) -> Tensor:
    return library_of(like).empty(shape, like.dtype, like)


def _host(t: Tensor) -> Array:
    found: Array = t.detach().resolve_neg().numpy()
    return found


def _lay(w: Array, panels: Array, first: int) -> None:
    """Write weights ``(line, W)`` as panels of 32 columns, the last `first` rows first."""
    w = w.reshape(len(w), -1, 32).swapaxes(0, 1)
    panels[:, :first], panels[:, first:] = w[:, w.shape[1] - first :], w[:, : w.shape[1] - first]


def _threads(products: int) -> int:
    return threads.num_threads() if products >= WORTH else 1


def _run(name: str, arrays: Sequence[Tensor], numbers: tuple[Any, ...], cuts: Sequence[int]) -> None:
    """Start a kernel of the host, the units between two cuts in a thread of their own."""
    flat = [x.numpy().reshape(-1) for x in arrays]
    threads.run(kernel(name).find_variant(*flat), (*flat, *numbers), cuts, flat)


def product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``; what is added up does not depend on other rows of `a`, which may be columns of a wider matrix."""
    return _multiply(a, b, (a.stride(0), 1), a.shape)[0]


def weigh(d: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of weights and of a bias, ``d.T @ x`` and ``d.sum(0)``, by those of what these have given."""
    return _multiply(d, x, (1, d.stride(0)), d.shape[::-1])


def _multiply(a: Tensor, b: Tensor, along: tuple[int, int], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """A product of matrices, and the sums of the rows of the left one where it is mirrored."""
    (high, deep), width = shape, b.shape[1]
    out, sums = _empty(a, high, width), _empty(a, high + SPARE)
    if out.numel():
        units = _threads(high * deep * width)
        share = -(-high // (8 * units)) * 8
        flat = (
            a.as_strided((sum(k * (size - 1) for k, size in zip(along, shape, strict=True)) + 1,), (1,)) if deep else a
        )
        sizes = np.array([*along, width, width, high, deep, share], np.int64)
        _run("matrix_product", (flat, b, out, sums, _empty(a, units * PRODUCT)), (sizes, width), range(units + 1))
    return out, sums[:high].clone()


def run_direction(
    cell: Cell, steps: Steps, back: bool, x: Tensor, weights: Sequence[Tensor | None], states: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The state behind each row, and those behind each sequence ``(states, n, hidden)``, of a direction of a layer.

    `x` is ``(rows, input)``; `weights` are those of the input and of the state, and the biases, None where there are
    none; `states` ``(n, hidden)``, none for zeros.
    """
    given = (x, *weights, *states)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in given):
        y, final = Direction.apply(cell, steps, back, *given)
    else:
        y, final, _, _ = _forwards(cell, steps, back, given, False)
    return y, final


def _forwards(
    cell: Cell, steps: Steps, back: bool, tensors: Sequence[Tensor | None], keeps: bool
) -> tuple[Tensor, Tensor, Plan, Tensor]:
    """Return what `run_direction` gives, and what the gradients are made of: the plan and the memory."""
    found: list[Any] = [None if t is None else t.detach().contiguous() for t in tensors]
    x, *weights = found[:5]
    plan = Plan.make(cell, steps, back, weights[1].shape[1], keeps)
    final = plan.put_states(_empty(x, plan.state_size), found[5:])
    memory, out = plan.forward(x, weights, final)
    if plan.width != plan.hidden:
        out, final = out[:, : plan.hidden].contiguous(), final[:, :, : plan.hidden].contiguous()
    return out, final, plan, memory


class Direction(Function):
    """`run_direction` in the graph."""

    @staticmethod
    def forward(ctx: Context, cell: Cell, steps: Steps, back: bool, *tensors: Tensor) -> Any:
        """Keep what the gradient takes."""
        y, final, ctx.plan, memory = _forwards(cell, steps, back, tensors, True)
        ctx.save_for_backward(*tensors[:3], memory)
        ctx.given = len(tensors) > 5
        ctx.set_materialize_grads(False)
        return y, final

    @staticmethod
    def backward(ctx: Context, *slopes: Tensor | None) -> Any:
        """Return the gradients, which refuse to have one themselves."""
        with torch.no_grad():
            found = _gradients(ctx, *slopes)
        if torch.is_grad_enabled():
            given = [t for t in (*ctx.saved_tensors[:3], *slopes) if t is not None]
            found = _Last.apply(len(found), *found, *given)
        return (None, None, None, *found)


def _gradients(ctx: Context, dy: Tensor | None, finals: Tensor | None) -> list[Tensor | None]:
    """Return the gradients of x, of the weights, of the biases, and of the initial states.

    Tensor operations that PyTorch does in threads are avoided: these would wait for work, and take the time of ours.
    """
    x, w_ih, w_hh, memory = [t.detach().contiguous() for t in ctx.saved_tensors]
    plan: Plan = ctx.plan
    rows, width, hidden, line = plan.steps.rows, plan.width, plan.hidden, plan.line
    if dy is None:
        dy = x.new_zeros(rows, width)
    elif width != hidden:
        dy = torch.nn.functional.pad(dy, (0, width - hidden))
    slopes, initial = plan.backward(memory, dy.detach().contiguous(), w_hh, () if finals is None else finals.unbind(0))
    of_state, of_input = slopes[:, :line], slopes[:, -line:]
    need = ctx.needs_input_grad[3:]
    found: list[Tensor | None] = [None] * len(need)
    if need[0]:
        found[0] = product(of_input, plan.wide(w_ih))
    if need[1] or need[3]:
        slope, sums = [plan.narrow(d) for d in weigh(of_input, x)]
        found[1], found[3] = slope, sums if need[3] else None
    if need[2] or need[4]:
        before = memory[plan.room * line :][: rows * width].view(rows, width)
        slope, sums = [plan.narrow(plan.in_order(d)) for d in weigh(of_state, before)]
        found[2], found[4] = slope[:, :hidden], sums if need[4] else None
    if ctx.given:
        found[5:] = initial[:, :, :hidden].clone().unbind(0)
    return found


class _Last(Function):
    """Gradients that have none themselves."""

    @staticmethod
    def forward(ctx: Context, count: int, *tensors: Tensor | None) -> Any:
        return tuple([None if t is None else t.clone() for t in tensors[:count]])

    @staticmethod
    def backward(ctx: Context, *slopes: Tensor) -> Any:
        raise NO_GRADIENT(
            "rnn has no second derivative on the host; module(sf.convert(x, sf.Packed).to_torch()) has, of nn.LSTM and "
            "nn.GRU"
        )
