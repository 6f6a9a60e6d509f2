"""The compiler of kernels for GPUs: all that the library takes of numba-cuda, which takes over ``numba.cuda``.

No other file names it.  `gpu`, `fours` and `places` make of these names what kernels share on a GPU, `cubins` has code
made by these functions, and `arrays.numba` takes the arrays of the package from here.  With another compiler this file
is another, and those intrinsics that it writes in another way; the architecture page says what that takes.

Importing it loads the package, but opens no context on a GPU.  With NUMBA_ENABLE_CUDASIM=1 the package is a simulator
that runs kernels in Python.  Where it is absent `missing` says so, and the rest here is not to be used.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .code import Kind

gpu: Any = None
"""What kernels call the package: places of threads, barriers, memory of a block; and its device arrays."""
simulated = False
"""Is it the simulator?"""
missing = ""
"""Why there is no compiler; "" where there is one, or the simulator."""


def _with_all_names() -> None:
    """Import what numba-cuda, up to 0.30, needs `numpy.row_stack` for, another name of `vstack`.

    NumPy 2.5 has it no more, and no kernel could be compiled.
    """
    if hasattr(np, "row_stack"):
        return
    names: Any = np
    names.row_stack = np.vstack
    try:
        importlib.import_module("numba.cuda.np.arrayobj")
    except ImportError:  # elsewhere in another release
        pass
    finally:
        del names.row_stack


try:
    gpu = importlib.import_module("numba.cuda")
    simulated = not hasattr(gpu, "as_cuda_array")
    if not simulated:
        _with_all_names()
        from numba.cuda import libdevice, types
        from numba.cuda.cudadecl import registry as declared
        from numba.cuda.cudaimpl import registry as implemented
        from numba.cuda.datamodel.models import ArrayModel, PrimitiveModel
        from numba.cuda.extending import intrinsic, register_model
        from numba.cuda.np.arrayobj import load_item, make_array, store_item
        from numba.cuda.typing.templates import AbstractTemplate, signature
except ImportError as error:
    gpu, missing = None, str(error)

__all__ = [
    "AbstractTemplate",
    "ArrayModel",
    "PrimitiveModel",
    "declared",
    "gpu",
    "implemented",
    "inline",
    "intrinsic",
    "libdevice",
    "list_capabilities",
    "load_item",
    "make_array",
    "missing",
    "need",
    "ptx_of",
    "register_model",
    "signature",
    "simulated",
    "store_item",
    "types",
]


def need() -> None:
    """ImportError where the package is absent."""
    if missing:
        raise ImportError(missing)


def list_capabilities() -> list[tuple[int, int]]:
    """List the compute capabilities that code can be made for, in order."""
    need()
    found: list[tuple[int, int]] = importlib.import_module("numba.cuda.cudadrv.nvrtc").get_supported_ccs()
    return sorted(found)


def ptx_of(function: Callable[..., Any], arguments: Kind, capability: tuple[int, int]) -> str:
    """Make PTX of a function whose names are all known, for arguments of these types."""
    need()
    found: str = gpu.compile_ptx(function, arguments, cc=capability)[0]
    return found


_ANY = 7, 5
"""The compute capability for which shared functions are compiled; code is made for that of the kernel."""


def inline(function: Callable[..., Any]) -> Any:
    """Make a function one that LLVM puts into each kernel that calls it.

    That takes a tenth of the time that Numba takes for the same.  The package would ask for the GPU in this machine;
    kernels are compiled where there is none.
    """
    made = gpu.jit(device=True, forceinline=True)(function)
    compile_cuda = importlib.import_module("numba.cuda.compiler").compile_cuda

    def compile_device(args: tuple[Kind, ...], result: Kind | None = None) -> Any:
        if args not in made.overloads:
            found = compile_cuda(made.py_func, result, args, forceinline=True, nvvm_options={"opt": 3}, cc=_ANY)
            found.target_context.insert_user_function(found.entry_point, found.fndesc, [found.library])
            made.overloads[args] = found
        return made.overloads[args]

    made.compile_device = compile_device
    return made
