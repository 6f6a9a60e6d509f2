"""Ties of a call into PyTorch's graphs: autograd's, and those of the transformations of torch.func.

It is loaded where torch is there, with the first call that goes through a graph.  Two functions of the graph stand for
all operations:

`Operation`
    for plain tensors.  What the forward call finds out for the gradient is kept, so that it is not calculated twice.
`Transformed`
    for tensors that a transformation has wrapped, and for tangents.  Each level of wrapping sees a call of its own, so
    nothing is kept but what was put in: the gradient is one more call, of that and of the gradients of the results, and
    the product with tangents is another.  Both are made of the gradients that autograd has of the call on plain
    tensors, once all wrapping is taken off; so what has gradients to some order has derivatives of every kind to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.autograd import Function

from .library import Differentiable

if TYPE_CHECKING:
    from .torch import Torch

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there when types are checked
Context: TypeAlias = Any  # what autograd hands from a forward to a backward call


class Operation(Function):
    """Any operation with a gradient rule, on plain tensors."""

    @staticmethod
    def forward(ctx: Context, library: Torch, call: Differentiable, *tensors: Tensor) -> Any:
        outputs = call.forward(tensors)
        ctx.library, ctx.call, ctx.fixed = library, call, ()
        if len(outputs) == 1 and len(tensors) == 1:
            (y,) = outputs
            if y is tensors[0]:  # a result that is what was put in would not be in the graph
                outputs = (y.view_as(y),)
        else:
            own = set(map(id, tensors))
            outputs = tuple([t.view_as(t) if id(t) in own else t for t in outputs])
        for k, t in enumerate(outputs):
            if not (t.is_floating_point() or t.is_complex()):  # what can have no gradient goes back as it is
                ctx.fixed += ((k, t),)
        if ctx.fixed:
            ctx.mark_non_differentiable(*[t for _, t in ctx.fixed])
        if call.twice:
            ctx.save_for_backward(*tensors, *outputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Any:
        """The gradients of all arguments: None for `library` and `call`, and for a tensor that needs none.

        In the place of a gradient the call gets the result itself where that can have no gradient.
        """
        library, call = ctx.library, ctx.call
        given: Sequence[Tensor] = gradients
        if not all(map(_as_it_is, gradients)):
            given = [g if _as_it_is(g) else _readable(library, g, "the gradient") for g in gradients]
        if ctx.fixed:
            given = list(given)
            for k, t in ctx.fixed:
                given[k] = t
        needed = ctx.needs_input_grad
        saved: Sequence[Tensor] = ()
        if call.twice:  # the gradient depends on these; PyTorch raises here if one of them was changed in place
            saved = ctx.saved_tensors[: len(needed) - 2]
            if not torch.is_grad_enabled():
                saved = ()
        found = call.backward(given, saved)
        if len(found) == 1:
            return None, None, found[0]
        return None, None, *[g if asked else None for g, asked in zip(found, needed[2:], strict=True)]


def _as_it_is(x: Tensor) -> bool:
    """Tell whether a kernel can read this gradient as it is."""
    try:
        return x.is_contiguous() and not x.is_neg() and not x.is_conj() and (x.data_ptr() != 0 or x.numel() == 0)
    except RuntimeError:  # sparse, or without memory
        return False


def _readable(library: Torch, x: Tensor, what: str) -> Tensor:
    """Make a tensor of the same numbers that a kernel can read; TypeError for a sparse one."""
    if x.layout is torch.strided and x._is_zerotensor():  # zeros without memory; no public name tells them
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    return library.adopt(x, what)


operate = getattr(super(Function, Operation), "apply", Operation.apply)
"""`Operation.apply` past what that asks in Python: whether tensors are wrapped, which `Torch.connect` has asked."""


# --- the transformations of torch.func -------------------------------------------------------------------------------


class Step:
    """Calculation on plain tensors, once all wrapping is taken off.

    `leads`, `result_leads`: how many axes of each tensor that is put in, and of each that comes out, stand before those
    of an item.  `asks`, `gives`: which of them are of floats, and so have gradients.  All but `leads` are known once it
    has run.
    """

    library: Torch
    by_column: bool
    leads: Sequence[int]
    result_leads: Sequence[int]
    asks: Sequence[bool]
    gives: Sequence[bool]

    def run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The results, in autograd's graph where a tensor asks for a gradient."""
        raise NotImplementedError


class Called(Step):
    """The operation itself."""

    def __init__(self, library: Torch, call: Differentiable) -> None:
        self.library, self.call = library, call
        self.by_column, self.leads = call.by_column, call.leads
        call.forget()

    def run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        found = self.call.again([_readable(self.library, t, "data") for t in tensors])
        outputs = [self.library.unwrap(t) for t in found]  # what a rule had beforehand was wrapped where it was made
        self.result_leads = self.call.result_leads
        self.asks, self.gives = [_continuous(t) for t in tensors], [_continuous(t) for t in outputs]
        return outputs


class Pulled(Step):
    """The gradients of what is put into a step, of that and of the gradients of its results."""

    def __init__(self, inner: Step) -> None:
        self.inner, self.library, self.by_column = inner, inner.library, inner.by_column
        self.leads = [*inner.leads, *_those(inner.result_leads, inner.gives)]
        self.result_leads = _those(inner.leads, inner.asks)
        self.asks, self.gives = [*inner.asks, *[True] * sum(inner.gives)], [True] * len(self.result_leads)

    def run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        count = len(self.inner.leads)
        with torch.enable_grad():
            inputs, wanted = _fresh(tensors[:count])
            outputs = [y for y in self.inner.run(inputs) if _continuous(y)]
            return _gradients(outputs, wanted, tensors[count:], _asking(tensors))


class Pushed(Step):
    """The product of a step's derivative with tangents: what is linear in the gradients, transposed once more."""

    def __init__(self, inner: Step) -> None:
        self.inner, self.library, self.by_column = inner, inner.library, inner.by_column
        self.leads = [*inner.leads, *_those(inner.leads, inner.asks)]
        self.result_leads = _those(inner.result_leads, inner.gives)
        self.asks, self.gives = [*inner.asks, *[True] * sum(inner.asks)], [True] * len(self.result_leads)

    def run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        count = len(self.inner.leads)
        with torch.enable_grad():
            inputs, wanted = _fresh(tensors[:count])
            outputs = [y for y in self.inner.run(inputs) if _continuous(y)]
            free = [torch.zeros_like(y).requires_grad_() for y in outputs]
            slopes = _gradients(outputs, wanted, free, True)
            return _gradients(slopes, free, tensors[count:], _asking(tensors))


def _continuous(x: Tensor) -> bool:
    """Tell whether items of a dtype may have gradients."""
    return bool(x.is_floating_point() or x.is_complex())


def _those(values: Sequence[int], chosen: Sequence[bool]) -> list[int]:
    return [value for value, take in zip(values, chosen, strict=True) if take]


def _asking(tensors: Sequence[Tensor]) -> bool:
    return any(t.requires_grad for t in tensors)


def _fresh(tensors: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Make nodes of their own of tensors, so that no gradient is found by way of another; list those of floats."""
    made = [
        t if not _continuous(t) else t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in tensors
    ]
    return made, [t for t in made if t.requires_grad]


def _gradients(
    outputs: Sequence[Tensor], wanted: Sequence[Tensor], given: Sequence[Tensor], graph: bool
) -> Sequence[Tensor]:
    """Calculate the gradients of `wanted`, zeros where nothing depends on them."""
    pairs = [(y, g) for y, g in zip(outputs, given, strict=True) if y.requires_grad]
    if not pairs:
        return [torch.zeros_like(x) for x in wanted]
    ends, starts = zip(*pairs, strict=True)
    found: Sequence[Tensor] = torch.autograd.grad(
        ends, wanted, starts, create_graph=graph, allow_unused=True, materialize_grads=True
    )
    return found


class Transformed(Function):
    """Any step, on tensors that are wrapped or have tangents."""

    @staticmethod
    def forward(step: Step, *tensors: Tensor) -> Any:
        own = set(map(id, tensors))
        with torch.no_grad():
            outputs = step.run(tensors)
        # a result that is what was put in would not be in the graph
        return tuple([t.view_as(t) if id(t) in own else t for t in outputs])

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.step, *tensors = inputs
        fixed = [t for t in output if not _continuous(t)]
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Any:
        step, tensors = ctx.step, ctx.saved_tensors
        given = [g for g, asked in zip(gradients, step.gives, strict=True) if asked]
        found = iter(run_step(Pulled(step), (*tensors, *given)))
        return None, *[next(found) if asked else None for asked in step.asks]

    @staticmethod
    def jvp(ctx: Context, _: None, *tangents: Tensor) -> Any:
        step, tensors = ctx.step, ctx.saved_tensors
        given = [
            torch.zeros_like(t) if d is None else d
            for t, d, asked in zip(tensors, tangents, step.asks, strict=True)
            if asked
        ]
        found = iter(run_step(Pushed(step), (*tensors, *given)))
        return tuple([next(found) if asked else None for asked in step.gives])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], step: Step, *tensors: Tensor) -> tuple[Any, Any]:
        """The mapped axis becomes the first of the items, where their numbers are treated one by one; else a loop."""
        size, dims = info.batch_size, in_dims[1:]
        if step.by_column:
            moved = [
                t.unsqueeze(lead).expand(*t.shape[:lead], size, *t.shape[lead:])
                if dim is None
                else t.movedim(dim, lead)
                for t, dim, lead in zip(tensors, dims, step.leads, strict=True)
            ]
            return run_step(step, moved), tuple(step.result_leads)
        runs = [
            run_step(step, [t if dim is None else t.select(dim, i) for t, dim in zip(tensors, dims, strict=True)])
            for i in range(size)
        ]
        outputs = tuple([torch.stack(parts) for parts in zip(*runs, strict=True)])
        return outputs, (0,) * len(outputs)


def run_step(step: Step, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The results of a step, in the graphs of all levels of wrapping."""
    outputs: tuple[Tensor, ...] = Transformed.apply(step, *tensors)
    return outputs


def transform(library: Torch, call: Differentiable, *tensors: Tensor) -> tuple[Tensor, ...]:
    """`operate` for such tensors."""
    return run_step(Called(library, call), tensors)
