"""Loops of CUDA kernels over what is a thread's own: ``for k in range(first, end, step)``, with the threads as step.

Numba counts the turns of such a loop before the first one, by a division of 64 bits, which takes a GPU longer than many
of these loops.  So a kernel is compiled with ``while k < end`` and ``k += step`` in their place.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any


def without_counts(function: Callable[..., Any]) -> CodeType:
    """The code of a function in which loops with steps count no turns, but for those with a minus, which go downwards.

    It stays as it is where its source is not there, or where it is a closure.
    """
    code = function.__code__
    if "range" not in code.co_names or code.co_freevars:
        return code
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        return code
    module = ast.parse(source)
    changed = _Loops()
    changed.visit(module)
    if not changed.found:
        return code
    ast.increment_lineno(ast.fix_missing_locations(module), code.co_firstlineno - 1)
    made = compile(module, code.co_filename, "exec", dont_inherit=True)
    found = next(one for one in made.co_consts if isinstance(one, CodeType) and one.co_name == code.co_name)
    return found.replace(co_argcount=code.co_argcount, co_kwonlyargcount=code.co_kwonlyargcount)


class _Loops(ast.NodeTransformer):
    found = False

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        name = node.target
        match node.iter:
            case ast.Call(func=ast.Name("range"), args=[begin, end, step]) if isinstance(name, ast.Name):
                downwards = isinstance(step, ast.UnaryOp)
                if downwards or any(isinstance(one, ast.Continue) for one in ast.walk(node)):
                    return node
                self.found = True
                goes_on = ast.Compare(ast.Name(name.id, ast.Load()), [ast.Lt()], [end])
                body = [*node.body, ast.AugAssign(ast.Name(name.id, ast.Store()), ast.Add(), step)]
                lines: list[ast.stmt] = [ast.Assign([name], begin), ast.While(goes_on, body, [])]
                return [ast.copy_location(line, node) for line in lines]
        return node
