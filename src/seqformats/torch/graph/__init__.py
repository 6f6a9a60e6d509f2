"""Models that use this library, in the graphs of `torch.compile` and `torch.export`.

Loaded when PyTorch's compiler is, by `when_imported`: nobody else pays for it, and nothing is to be called.

The compiler follows whatever Python a model runs, and goes on behind the end of a graph, so it would follow the library
to its kernels.  `torch.compiler.disable` gives functions that it leaves alone, with all that they call.  Each function
that a model can call becomes one where it is: it stays the object that modules have imported by name, and a copy of it
does what it did.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import seqformats

from ... import registry
from ...arrays import library_of
from ...arrays.functions import Operation
from ...formats import Masked, Ragged
from ...formats.sequences import Sequences
from ...formats.structure import Structure
from ...gradients.operation import Back, with_gradient
from ...operations.custom import _Own
from ...post_import_hook import when_imported
from ...wrapping.wrapper import Wrapper, options_to
from .. import citizen

library_of(torch.empty(0))  # what a graph is made of may be the first tensor of all
from . import batches, functions, ops  # noqa: E402

FOLLOWED = {
    "__len__",
    *batches.ATTRIBUTES,
    *[f"with_{kind.lower()}" for kind in (*ops.KIND_BY_NAME, "Array", "Flatten")],
}
FOLLOWED |= {"_unary", "_binary", "_comparison"}  # which make the methods of operators, which call `map_one`, `map_two`
"""Names of what the compiler may follow."""
ENTRANCE = """
def scope({names}):
 def enter(*args, outside, **options):
  try: return outside(*args, **options)
  except BaseException: raise
  {names}
 return enter
"""
"""Code that takes the place of that of a function, which keeps as many variables of a scope around it as it has.

Within ``try`` no graph can end, so that the compiler leaves this too alone where a graph would begin with it.
"""


@functools.cache
def _entrance(free: int) -> types.CodeType:
    made = compile(ENTRANCE.format(names=", ".join([f"name_{k}" for k in range(free)])), __file__, "exec")
    for _ in range(2):  # of the module, of the scope, of the function
        made = next(part for part in made.co_consts if isinstance(part, types.CodeType))
    return made


def leave_alone(function: Any) -> Any:
    """Let the compiler leave a function alone, or read its version; what it gives is left alone where it has to be."""
    code = function.__code__
    if code.co_name == "enter":
        return function
    copy: Any = types.FunctionType(code, function.__globals__, "", function.__defaults__, function.__closure__)
    functools.update_wrapper(copy, function).__dict__ = dict(vars(function))
    copy.__kwdefaults__ = function.__kwdefaults__
    work = copy
    if function in GIVES:
        work = functools.wraps(copy)(lambda *args, **options: secure(copy(*args, **options)))
    outside = torch.compiler.disable(work, reason=batches.ENDS.format(f"{function.__qualname__}(...)"))
    function.__wrapped__ = copy  # its signature, for who asks
    function.__code__, function.__defaults__ = _entrance(len(code.co_freevars)), None
    function.__kwdefaults__ = {"outside": outside}
    if function in VERSIONS:
        torch.compiler.substitute_in_graph(outside, skip_signature_check=True)(VERSIONS[function])
    return function


def secure(found: Any) -> Any:
    """Copy an array that nobody may write to, and let the compiler leave functions alone that have been made.

    As an argument of a graph the compiler does not take a view of such an array.
    """
    if isinstance(found, np.ndarray):
        found = found.copy()
        found.flags.writeable = False
    elif isinstance(found, tuple):  # of `vjp`
        return found[0], torch.compiler.disable(found[1]) if inspect.isfunction(found[1]) else found[1]
    elif inspect.isfunction(found):
        leave_alone(found)
    return found


def functions_in(found: Any) -> Iterator[Any]:
    """Yield a function, or those of a class of this library that are called from outside, inherited ones too."""
    if inspect.isfunction(found):
        yield found
    for owner in getattr(found, "__mro__", ()):
        for name, each in vars(owner).items() if owner.__module__.startswith("seqformats.") else ():
            if not name.startswith("_") or name.startswith("__"):
                each = each.fget if isinstance(each, property) else each
                each = getattr(each, "__func__", each)
                if inspect.isfunction(each) and not each.__module__.startswith(__package__):
                    yield each


def entrances() -> Iterator[Any]:
    """Yield what is called from outside: by users, and by PyTorch."""
    for module in (seqformats, seqformats.rl, seqformats.ctc, seqformats.beam, seqformats.torch):
        for found in [getattr(module, name) for name in module.__all__]:
            if not (inspect.isclass(found) and issubclass(found, (Exception, tuple))):
                yield found
    yield from registry.gradients()  # operations that callers have made are among them
    yield from (with_gradient, Wrapper.with_gradient, Structure.__getattr__, *citizen.CALLED)
    yield from (Back, Operation, Sequences, _Own)


VERSIONS: dict[Any, Callable[..., Any]] = batches.BATCH_VERSIONS | functions.FUNCTION_VERSIONS
GIVES = {seqformats.lengths, *batches.BATCH_VERSIONS, seqformats.vjp, Wrapper.with_gradient, with_gradient}
GIVES -= {Ragged.__init__, Masked.__init__}
"""Functions that give arrays, pullbacks and operations."""
for _found in [*VERSIONS, *[function for found in entrances() for function in functions_in(found)]]:
    if _found in VERSIONS or FOLLOWED.isdisjoint((_found.__name__, _found.__qualname__.partition(".")[0])):
        leave_alone(_found)
torch.compiler.assume_constant_result(options_to)
when_imported("seqformats.hf.unpadded.switch", ".torch.graph.unpadded")
