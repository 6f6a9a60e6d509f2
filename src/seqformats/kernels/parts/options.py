"""Options of compiling with Numba, and what becomes of functions that kernels call."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.extending import overload

from .code import Item

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Mark a kernel for the CPU, which `building` compiles when it is started; it stays the plain function it is.

    With NumPy's division, and with other threads at work meanwhile where there is much to do.
    """
    return function


class _Code(JITCodeLibrary):
    """Code of a function that kernels call.

    They take it in, and it is optimized with their own code.  Numba would have it optimized and made machine code on
    its own besides, which took a quarter of the time that a kernel needs to compile.
    """

    def add_llvm_module(self, module: Item) -> None:
        self._final_module.link_in(module)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Lower a function that kernels call, but make nothing that Python could call."""

    _name = "lowering of a part"

    def run_pass(self, state: Item) -> bool:
        state.flags.no_compile = state.flags.no_cfunc_wrapper = True
        state.library = library = _Code(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        name: Any = [].append  # nobody calls it, but Numba's tables of functions want a builtin one
        state.cr = state.cr._replace(cfunc=name)
        state.targetctx.insert_user_function(name, state.cr.fndesc, [library])
        return True


_WITHOUT = {
    "AnnotateTypes",
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NopythonRewrites",
    "NoPythonSupportedFeatureValidation",
    "RewriteDynamicRaises",
    "WithLifting",
}
"""Steps of Numba for what kernels do not have: closures, generators, expressions of whole arrays, raises, ``with``."""


class Part(Compiler):
    """Numba's compiler, for a kernel and the functions that it calls."""

    def define_pipelines(self) -> Any:
        """Numba's steps, as far as kernels need them, with our own lowering."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            steps = [(step, text) for step, text in pipeline.passes if step.__name__ not in _WITHOUT]
            pipeline.passes = [(_Lowering if step is NativeLowering else step, text) for step, text in steps]
            pipeline._finalized = False
            pipeline.finalize()
        return pipelines


def part(function: Callable[..., Any], **options: Any) -> Any:
    """Have kernels call what the decorated function returns for the types of the arguments, instead of `function`."""
    return overload(function, jit_options={"pipeline_class": Part}, **options)


def shared(function: Callable[..., Any]) -> Any:
    """Make the decorated plain function one that kernels call on every device."""
    part(function, strict=False)(lambda *_: function)
    return plain_on_cuda(function)


def plain_on_cuda(function: Callable[..., Any]) -> Any:
    """Share a function on CUDA alone; `part` says what kernels call on the CPU."""
    made: Any = function
    made.shared = True  # `gpu.bind` looks for it
    return made
