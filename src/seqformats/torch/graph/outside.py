"""Calls outside of graphs: PyTorch's compiler leaves alone what this library does by itself.

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

import torch

ENDS = (
    "seqformats ends the graph here: {}. Conversions, reductions, attention, losses and what docs/models.md lists go "
    "into one; without fullgraph=True the graph ends and goes on behind this"
)
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


def refuse(why: str) -> Callable[[], Any]:
    """Make a function that ends the graph, and says why."""
    stop: Callable[[], Any] = torch.compiler.disable(lambda: None, reason=ENDS.format(why))
    return stop


@functools.cache
def _entrance(free: int) -> types.CodeType:
    made = compile(ENTRANCE.format(names=", ".join([f"name_{k}" for k in range(free)])), __file__, "exec")
    for _ in range(2):  # of the module, of the scope, of the function
        made = next(part for part in made.co_consts if isinstance(part, types.CodeType))
    return made


def leave_alone(
    function: Any, version: Callable[..., Any] | None = None, after: Callable[[Any], Any] | None = None
) -> Any:
    """Let the compiler leave a function alone, or read `version` in its place; what it gives goes through `after`."""
    code = function.__code__
    if code.co_name == "enter":
        return function
    copy: Any = types.FunctionType(code, function.__globals__, "", function.__defaults__, function.__closure__)
    functools.update_wrapper(copy, function).__dict__ = dict(vars(function))
    copy.__kwdefaults__ = function.__kwdefaults__
    work = copy if after is None else functools.wraps(copy)(lambda *args, **options: after(copy(*args, **options)))
    outside = torch.compiler.disable(work, reason=ENDS.format(f"{function.__qualname__}(...)"))
    function.__wrapped__ = copy  # its signature, for who asks
    function.__code__, function.__defaults__ = _entrance(len(code.co_freevars)), None
    function.__kwdefaults__ = {"outside": outside}
    if version is not None:
        torch.compiler.substitute_in_graph(outside, skip_signature_check=True)(version)
    return function


def functions_of(kind: type) -> Iterator[Any]:
    """Yield functions of a class of this library that are called from outside, and those that it inherits."""
    for owner in kind.__mro__:
        if owner.__module__.startswith("seqformats."):
            for name, found in vars(owner).items():
                if not name.startswith("_") or name.startswith("__"):
                    found = found.fget if isinstance(found, property) else found
                    found = getattr(found, "__func__", found)
                    if inspect.isfunction(found) and not found.__module__.startswith(__package__):
                        yield found
