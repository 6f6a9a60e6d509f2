"""``python -m seqformats``: versions, devices, threads, the conversion table, the cache folder."""

import importlib.metadata
import os
import platform
import sys
from typing import Any

import seqformats
from seqformats import registry

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


def main() -> int:
    """Print what there is."""
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
    sys.exit(main())
