"""Compiles the extension: ``python -m seqformats.core.build`` in a checkout, which needs Cython and a C compiler.

One file serves every version of Python from 3.11 on (CPython's stable ABI) and every NumPy from 2.0 on.  A Python
without a GIL, which cannot load it, gets a file of its own.  This module imports nothing of the package, since the
build hook loads it where not even NumPy need be there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
NAME = f"fast{sysconfig.get_config_var('EXT_SUFFIX')}" if FREE_THREADED else "fast.abi3.so"
REQUIRES = ["cython>=3.1", "numpy>=2.0"]
_FLAGS = [
    *("-O3", "-fPIC", "-shared", "-s"),
    *(() if FREE_THREADED else ("-DPy_LIMITED_API=0x030b0000", "-DCYTHON_LIMITED_API=1")),
    *("-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION", "-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION"),
]


def compiler() -> list[str] | None:
    """The command of a C compiler: $CC, cc, or the package ziglang; None where there is none, or no Python.h."""
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        return None
    given = os.environ.get("CC", "").split() or ["cc"]
    if shutil.which(given[0]):
        return given
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None


def requires() -> list[str]:
    """List what has to be installed to build here beside the compiler; none where `why_not` says that nobody will."""
    return [] if why_not() else REQUIRES


def why_not() -> str:
    """Why the extension is not built here; "" where it is."""
    if os.environ.get("SEQFORMATS_CORE", "1") == "0":
        return "SEQFORMATS_CORE=0"
    if sys.implementation.name != "cpython" or os.name != "posix" or sysconfig.get_config_var("SIZEOF_VOID_P") != 8:
        return "it is for CPython on 64 bits and POSIX"
    return "" if compiler() else "there is no C compiler, or no Python.h"


def serves() -> str:
    """Name the Pythons and the ABI that the extension is for, as the tag of a wheel does."""
    if not FREE_THREADED:
        return "cp311-abi3"
    version = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return f"{version}-{version}t"


def sources() -> str:
    """A digest of the files that the extension is made of, and of CFLAGS."""
    made = hashlib.sha256(os.environ.get("CFLAGS", "").encode())
    for path in sorted([*HERE.glob("*.pyx"), *HERE.glob("*.pxi"), *HERE.glob("*.h"), Path(__file__)]):
        made.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()[:32]


def has_sources() -> bool:
    """Tell whether these files are here: they are no part of a wheel."""
    return (HERE / "fast.pyx").is_file()


def build(cache: Path) -> Path:
    """The extension, from the folder `cache` if it was built of these sources before.

    Raises
    ------
    Exception
        One of any kind, where Cython or the compiler fail.
    """
    found = cache / f"{sources()}-{sysconfig.get_platform()}" / NAME
    if found.is_file():
        return found
    import numpy as np
    from Cython.Compiler.Main import compile as to_c

    found.parent.mkdir(parents=True, exist_ok=True)
    command = compiler()
    assert command is not None
    with tempfile.TemporaryDirectory(dir=found.parent) as folder:
        text = Path(folder) / "fast.c"
        result = to_c(str(HERE / "fast.pyx"), output_file=str(text), full_module_name="seqformats.core.fast")
        if result.num_errors:
            raise RuntimeError("Cython found errors")
        include = [f"-I{path}" for path in (HERE, sysconfig.get_paths()["include"], np.get_include())]
        made = Path(folder) / NAME
        own = [f'-DSEQFORMATS_SOURCES="{sources()}"']
        own += ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-fno-plt"]
        own += os.environ.get("CFLAGS", "").split()
        subprocess.run([*command, *_FLAGS, *own, *include, str(text), "-o", str(made)], check=True)
        made.replace(found)  # whoever builds at the same time finds a whole file
    return found


def build_or_say(cache: Path, say: Callable[[str], object]) -> Path | None:
    """Build it; where that cannot be, None and one line that says why.  ``SEQFORMATS_CORE=1`` makes that an error."""
    reason = why_not()
    try:
        if not reason:
            return build(cache)
    except Exception as error:
        if os.environ.get("SEQFORMATS_CORE") == "1":
            raise
        reason = f"{type(error).__name__}: {error}"
    if os.environ.get("SEQFORMATS_CORE") == "1":
        raise RuntimeError(reason)
    say(f"seqformats: without its extension, so small batches take Python's way: {reason}")
    return None


def put_beside(cache: Path, say: Callable[[str], object]) -> Path | None:
    """Build it and put it beside its sources, as an editable install wants it; one of other sources goes."""
    made, place = build_or_say(cache, say), HERE / NAME
    if made is None:
        place.unlink(missing_ok=True)
        return None
    part = HERE / f".{os.getpid()}.{NAME}"
    shutil.copyfile(made, part)
    part.replace(place)  # processes that have the old one loaded keep it
    return place


if __name__ == "__main__":
    put_beside(HERE.parents[2] / ".cache" / "core", sys.exit)
