"""For which CPUs machine code is shipped, and what this one is."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

CPU_LEVELS = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
}
"""The levels of x86-64, the best first, and what a CPU must have for each beside that of those after it."""
CHANGES_CODE = ("NUMBA_BOUNDSCHECK", "NUMBA_OPT", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DEBUGINFO")
"""Variables of the environment that change what Numba makes of a kernel."""


def flags() -> tuple[str, ...]:
    """Compiler flags that the environment asks for."""
    return tuple([f"{name}={os.environ[name]}" for name in CHANGES_CODE if os.environ.get(name, "")])


_CPUS = Path("/proc/cpuinfo")
_OF_LINUX = {"bmi": "bmi1", "lzcnt": "abm"}
"""What Linux calls otherwise than LLVM."""


def _features() -> dict[str, bool]:
    import llvmlite.binding as llvm

    found: dict[str, bool] = llvm.get_host_cpu_features()
    return found


def _read_features() -> Callable[[str], bool]:
    """Which features this CPU has, by their names for LLVM, whose binding takes as long to import as all of this."""
    try:
        with _CPUS.open("rb") as file:  # of which the first CPU, of hundreds perhaps, is enough
            lines = file.read(1 << 14).decode().splitlines()
        said = next(line for line in lines if line.startswith("flags")).split()
    except (OSError, ValueError, StopIteration):
        found = _features()
        return lambda feature: found.get(feature, False)
    return lambda feature: _OF_LINUX.get(feature, feature) in said


def levels_of(machine: str) -> tuple[str, ...]:
    """For which levels of a kind of machine code is shipped, the best first."""
    if machine.lower() in ("x86_64", "amd64"):
        return tuple(CPU_LEVELS)
    return ("aarch64",) if machine.lower() in ("aarch64", "arm64") else ()


@functools.cache
def level() -> str:
    """Best of the `CPU_LEVELS` that this CPU has; "" for a CPU or a 32-bit Python for which no code is shipped."""
    names = levels_of(platform.machine())
    if names and not names[0].startswith("x86"):
        return names[0]
    if not names or sys.maxsize < 1 << 32:
        return ""
    known = _read_features()
    missing = [not all(known(feature) for feature in CPU_LEVELS[name]) for name in names]
    below = [any(missing[k:]) for k in range(len(names))]
    return next((name for name, lacks in zip(names, below, strict=True) if not lacks), "")


def numba_options(level: str) -> dict[str, str]:
    """The environment in which Numba compiles for a level; kernels ask it for features by name."""
    features = ["neon"]
    if level in CPU_LEVELS:
        features = [
            feature for name in tuple(CPU_LEVELS)[tuple(CPU_LEVELS).index(level) :] for feature in CPU_LEVELS[name]
        ]
    return {
        "NUMBA_CPU_NAME": level if level in CPU_LEVELS else "generic",
        "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in sorted(features)),
        "NUMBA_DISABLE_INTEL_SVML": "1",
    }


def system() -> str:
    """Which machine code can be loaded here: that for this kind of machine and system.

    Which C library there is, the name of a wheel says, and code asks it for functions that each has.
    """
    return f"{platform.machine().lower()}-{sys.platform}"


@functools.cache
def host() -> str:
    """The CPU that code is compiled for, and the system, in words: such code may run on no other.

    It is this one, unless the environment names another.  Linux says what it is; LLVM, which takes long to import, is
    asked elsewhere.
    """
    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    own = [] if name and features is not None else _said_of_cpu()
    return "\n".join([system(), getattr(sys.implementation, "_multiarch", ""), name or "", features or "", *own])


_TELLS_APART = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU", "Features")


def _said_of_cpu() -> list[str]:
    """Lines that tell CPUs apart for which code differs."""
    with contextlib.suppress(OSError, ValueError), _CPUS.open("rb") as file:
        lines = file.read(1 << 14).decode().split("\n\n")[0].splitlines()
        if found := [line for line in lines if line.startswith(_TELLS_APART)]:
            return found
    import llvmlite.binding as llvm

    return [llvm.get_host_cpu_name(), *sorted(name for name, there in _features().items() if there)]
