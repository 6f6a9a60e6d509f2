"""Object files become shared objects: by the C compiler, which knows its linker, or by Zig's, a package of PyPI.

What is linked asks for nothing but the libraries of C and mathematics, and for functions of CPython, which the process
has.  Nothing is stripped, so that debuggers and profilers know kernels by name.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_FLAGS = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-Wl,-z,relro,-z,now",)


def linker(zig: bool = False) -> list[str]:
    """The command that links: `CC` of the environment, the C compiler, or with `zig` Zig's; empty where there is none.

    A C compiler may be there without the library of C, and is tried.  The first call of Zig's takes a minute or two, in
    which it makes its own.  On Windows nothing is linked: there a library has to say what it exports.
    """
    if sys.platform == "win32":
        return []
    import shlex
    import shutil
    from importlib.util import find_spec

    for command in (shlex.split(os.environ.get("CC", "")), ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]) and link_object(b"", command):
            return command
    return [sys.executable, "-m", "ziglang", "cc"] if zig and find_spec("ziglang") else []


def link(objects: Sequence[Path], out: Path, command: Sequence[str]) -> None:
    """Link object files into a shared object; RuntimeError with the words of the linker where it does not."""
    import subprocess

    words = [*command, "-shared", *_FLAGS, "-o", str(out), *map(str, objects), "-lm"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} has linked nothing: {done.stderr.strip()[:2000]}")


_at_run_time = functools.cache(linker)


def link_object(code: bytes, command: Sequence[str] | None = None) -> bytes:
    """An object file as a shared object, or none, for a trial; nothing where no command links it."""
    import tempfile

    command = _at_run_time() if command is None else command
    if not command:
        return b""
    with tempfile.TemporaryDirectory(prefix="seqformats-") as name:
        made, out = Path(name, "kernel.o" if code else "empty.c"), Path(name, "kernel.so")
        made.write_bytes(code)
        try:
            link([made], out, command)
            return out.read_bytes()
        except (OSError, RuntimeError):
            return b""
