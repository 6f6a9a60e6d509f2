"""Models that use this library, in the graphs of `torch.compile` and `torch.export`.

Loaded when PyTorch's compiler is, by `when_imported`: nobody else pays for it, and nothing is to be called.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

import seqformats

from ... import registry
from ...arrays import library_of
from ...arrays.functions import Operation
from ...formats import Encoding
from ...formats.arithmetic import Arithmetic, map_one, map_two
from ...formats.sequences import Sequences
from ...formats.structure import Structure
from ...gradients.operation import Back, with_gradient
from ...operations.own import _Own
from ...when_imported import when_imported
from ...wrapping.wrapper import Wrapper
from .. import citizen
from . import batches, functions, ops
from .outside import functions_of, leave_alone, left_alone, with_pullback

OPERATORS = {"_unary", "_binary", "_comparison"}
"""What makes the methods of operators, which call `map_one` and `map_two`."""
AFTER = {"vjp": with_pullback, "lengths": batches.alone, "with_gradient": left_alone}
AFTER["Wrapper.with_gradient"] = with_pullback


def entrances() -> Iterator[Any]:
    """The functions of this library that are called from outside: by users, and by PyTorch."""
    for module in (seqformats, seqformats.rl, seqformats.ctc, seqformats.beam, seqformats.torch):
        for found in [getattr(module, name) for name in module.__all__]:
            if inspect.isclass(found) and not issubclass(found, (Exception, tuple)):
                yield from [x for x in functions_of(found) if x.__name__ not in ("__len__", *batches.ATTRIBUTES)]
            yield found
    yield from registry.gradients()  # operations that callers have made are among them
    yield from (with_gradient, Wrapper.with_gradient, Structure.__getattr__, *citizen.CALLED)
    for kind in (Back, Operation, Sequences, _Own):
        yield from functions_of(kind)


def register() -> None:
    """Tell the compiler, once."""
    library_of(torch.empty(0))  # what a graph is made of may be the first tensor of all
    batches.register()
    for name, version in functions.VERSIONS.items():
        torch.compiler.substitute_in_graph(ops.function(name), skip_signature_check=True)(version)
    leave_alone(Wrapper.call, functions.call_wrapped)
    leave_alone(map_one, functions.elementwise)
    leave_alone(map_two, functions.elementwise)
    leave_alone(Arithmetic.astype, functions.astype)
    leave_alone(Encoding.__getitem__, functions.index)
    leave_alone(Arithmetic.__torch_function__.__func__, functions.torch_function)  # type: ignore[attr-defined]
    for found in [x for x in entrances() if inspect.isfunction(x) and x.__qualname__.split(".")[0] not in OPERATORS]:
        leave_alone(found, after=AFTER.get(found.__qualname__))
    when_imported("seqformats.hf.unpadded.switch", ".torch.graph.unpadded")


register()
