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
from ...formats.sequences import Sequences
from ...formats.structure import Structure
from ...gradients.operation import Back, with_gradient
from ...operations.own import _Own
from ...when_imported import when_imported
from ...wrapping.wrapper import Wrapper
from .. import citizen

library_of(torch.empty(0))  # what a graph is made of may be the first tensor of all
from . import batches, functions  # noqa: E402
from .outside import functions_of, leave_alone  # noqa: E402

OPERATORS = {"_unary", "_binary", "_comparison"}
"""What makes the methods of operators, which call `map_one` and `map_two`."""
LEFT = ("__len__", *batches.ATTRIBUTES)
"""Names of methods and properties that the compiler may follow."""


def with_pullback(found: tuple[Any, Any]) -> tuple[Any, Any]:
    """Give what `vjp` gives with a pullback that the compiler leaves alone too."""
    return found[0], torch.compiler.disable(found[1]) if inspect.isfunction(found[1]) else found[1]


def entrances() -> Iterator[Any]:
    """The functions of this library that are called from outside: by users, and by PyTorch."""
    for module in (seqformats, seqformats.rl, seqformats.ctc, seqformats.beam, seqformats.torch):
        for found in [getattr(module, name) for name in module.__all__]:
            if inspect.isclass(found) and not issubclass(found, (Exception, tuple)):
                yield from [x for x in functions_of(found) if x.__name__ not in LEFT]
            yield found
    yield from registry.gradients()  # operations that callers have made are among them
    yield from (with_gradient, Wrapper.with_gradient, Structure.__getattr__, *citizen.CALLED)
    for kind in (Back, Operation, Sequences, _Own):
        yield from functions_of(kind)


AFTER: dict[Any, Any] = dict.fromkeys([seqformats.lengths, *batches.VERSIONS], batches.alone)
AFTER |= {seqformats.vjp: with_pullback, Wrapper.with_gradient: with_pullback, with_gradient: leave_alone}
VERSIONS = batches.VERSIONS | functions.VERSIONS
for _found in [*VERSIONS, *entrances()]:
    if inspect.isfunction(_found) and _found.__qualname__.split(".")[0] not in OPERATORS:
        leave_alone(_found, VERSIONS.get(_found), AFTER.get(_found))
when_imported("seqformats.hf.unpadded.switch", ".torch.graph.unpadded")
