"""``python -m seqformats``: versions, devices, threads, the conversion table, the cache folder.

``python -m seqformats kernels``: the kernels, by what each says of itself.
"""

import importlib
import importlib.metadata
import os
import pkgutil
import platform
import sys
from collections.abc import Sequence
from typing import Any

import seqformats
from seqformats import kernels, registry
from seqformats.launch.kernel import kernel

_PACKAGES = ("numpy", "numba", "numba-cuda", "torch", "cupy", "ml_dtypes")


def _versions() -> str:
    found = [f"seqformats {seqformats.__version__}", f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def _gpus() -> str:
    try:
        from seqformats.launch.cuda import devices
    except Exception as error:  # whatever a CUDA package without a driver raises
        return f"none ({error})"
    names = devices()
    return ", ".join(names) or "none"


def _cache() -> str:
    if os.environ.get("SEQFORMATS_CACHE", "1") == "0":
        return "off (SEQFORMATS_CACHE=0)"
    from seqformats.kernels import copy_blocks

    cache: Any = getattr(copy_blocks.cpu, "_cache", None)
    return str(getattr(cache, "cache_path", None) or "none")


def _table() -> str:
    entries = registry.conversions().values()
    kinds = list(dict.fromkeys(kind for entry in entries for kind in (entry.source, entry.target)))
    direct = {(entry.source, entry.target): entry for entry in entries}
    wide = max(len(registry.label(kind)) for kind in kinds) + 2
    lines = [" " * wide + "".join(registry.label(kind).ljust(wide) for kind in kinds)]
    for source in kinds:
        cells = []
        for target in kinds:
            entry = direct.get((source, target))
            if entry is None:
                cells.append("-" if source is target else f"{len(registry.route(source, target).legs)} legs")
            else:
                cells.append("shares" if entry.shares else "move")
        lines.append(registry.label(source).ljust(wide) + "".join(cell.ljust(wide) for cell in cells))
    return "\n".join("  " + line.rstrip() for line in lines)


def _kernels() -> str:
    lines = []
    for found in pkgutil.iter_modules(kernels.__path__):
        if found.ispkg:
            continue
        spec = kernel(found.name).load()
        words = importlib.import_module(f"seqformats.kernels.{found.name}").__doc__ or ""
        where = f"CUDA, {spec.over}" if spec.cuda else "host alone"
        lines.append(f"{found.name:18} {spec.does:11} {where:17} {words.partition(chr(10))[0]}")
    return "\n".join(lines)


def main(arguments: Sequence[str] = ()) -> int:
    """Print what there is."""
    if list(arguments) == ["kernels"]:
        sys.stdout.write(_kernels() + "\n")
        return 0
    if arguments:
        sys.stderr.write("usage: python -m seqformats [kernels]\n")
        return 2
    lines = [
        _versions(),
        f"GPUs: {_gpus()}",
        f"threads: {seqformats.num_threads()}",
        f"kernel cache: {_cache()}",
        "conversions, from a row to a column:",
        _table(),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
