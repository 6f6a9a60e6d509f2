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


def refuse(why: str) -> Callable[[], Any]:
    """Make a function that ends the graph, and says why."""

    def nothing() -> None:
        return None

    stop: Callable[[], Any] = torch.compiler.disable(nothing, reason=ENDS.format(why))
    return stop


def enter(*args: Any, outside: Callable[..., Any], **options: Any) -> Any:
    """Call a function outside of graphs; its code takes the place of that of the function.

    Within ``try`` no graph can end, so that the compiler leaves this too alone where a graph would begin with it.
    """
    try:
        return outside(*args, **options)
    except BaseException:
        raise


@functools.cache
def _entrance(free: int) -> types.CodeType:
    """The code of `enter` with so many variables of a scope around it, since a function keeps as many as it has."""
    if not free:
        return enter.__code__
    names = ", ".join([f"name_{k}" for k in range(free)])
    body = "try: return outside(*args, **options)\n  except BaseException: raise"
    text = f"def around({names}):\n def enter(*args, outside, **options):\n  {body}\n  {names}\n return enter"
    made = compile(text, __file__, "exec")
    for _ in range(2):  # of the module, of the scope, of the function
        made = next(part for part in made.co_consts if isinstance(part, types.CodeType))
    return made


def leave_alone(
    function: Any, version: Callable[..., Any] | None = None, after: Callable[[Any], Any] | None = None
) -> None:
    """Let the compiler leave a function alone, or read `version` in its place; what it gives goes through `after`."""
    if function.__code__.co_name == enter.__name__:
        return
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
    copy.__annotations__ = function.__annotations__
    work = copy if after is None else functools.wraps(copy)(lambda *args, **options: after(copy(*args, **options)))
    outside = torch.compiler.disable(work, reason=ENDS.format(f"{function.__qualname__}(...)"))
    function.__wrapped__ = copy  # its signature, for who asks
    free = function.__code__.co_freevars  # as many as before, though nothing asks for them
    function.__code__ = _entrance(len(free))
    function.__defaults__ = None
    function.__kwdefaults__ = {"outside": outside}
    if version is not None:
        torch.compiler.substitute_in_graph(outside, skip_signature_check=True)(version)


def with_pullback(found: tuple[Any, Any]) -> tuple[Any, Any]:
    """Give what `vjp` gives with a pullback that the compiler leaves alone too."""
    y, pull = found
    return y, torch.compiler.disable(pull) if inspect.isfunction(pull) else pull


def left_alone(function: Any) -> Any:
    """An operation that a caller makes, which the compiler leaves alone too."""
    leave_alone(function)
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
