"""For which CPUs machine code is shipped, and what this one is."""

from __future__ import annotations

import functools
import os
import platform

LEVELS = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
}
"""The levels of x86-64, the best first, and what a CPU must have for each beside that of those after it."""
CHANGES_CODE = ("NUMBA_BOUNDSCHECK", "NUMBA_OPT", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DEBUGINFO")
"""Variables of the environment that change what Numba makes of a kernel."""


def flags() -> tuple[str, ...]:
    """What the environment wants otherwise than usual."""
    return tuple([f"{name}={os.environ[name]}" for name in CHANGES_CODE if os.environ.get(name, "")])


@functools.cache
def _features() -> dict[str, bool]:
    import llvmlite.binding as llvm

    found: dict[str, bool] = llvm.get_host_cpu_features()
    return found


def levels_of(machine: str) -> tuple[str, ...]:
    """For which levels of a kind of machine code is shipped, the best first."""
    if machine.lower() in ("x86_64", "amd64"):
        return tuple(LEVELS)
    return ("aarch64",) if machine.lower() in ("aarch64", "arm64") else ()


def level() -> str:
    """The best level that this CPU has; "" where no code is shipped for it."""
    names = levels_of(platform.machine())
    if names and not names[0].startswith("x86"):
        return names[0]
    missing = [any(not _features().get(feature) for feature in LEVELS[name]) for name in names]
    below = [any(missing[k:]) for k in range(len(names))]
    return next((name for name, lacks in zip(names, below, strict=True) if not lacks), "")


def numba_options(level: str) -> dict[str, str]:
    """The environment in which Numba compiles for a level."""
    name = "generic" if level == "aarch64" else level
    return {
        "NUMBA_CPU_NAME": name,
        "NUMBA_CPU_FEATURES": "+neon" if level == "aarch64" else "",
        "NUMBA_DISABLE_INTEL_SVML": "1",
    }


@functools.cache
def host() -> str:
    """This CPU and system in words: code that is made for it may run on no other."""
    import llvmlite
    import llvmlite.binding as llvm

    own = "".join(sorted(name for name, there in _features().items() if there))
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {own} llvmlite {llvmlite.__version__}"
