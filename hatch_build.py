"""How a wheel is built: kernels are compiled, and their machine code is shipped, so that no user has to compile.

A wheel has the code of every kernel, for each level of CPUs that `seqformats.native.cpu` knows for the machine it is
built on.  It is made for its system and kind of machine, but for every version of Python, NumPy and Numba: the code
calls CPython by name and reads public layouts.  Compiling takes some minutes of a CPU; all CPUs work.

``SEQFORMATS_SHIP=0`` in the environment builds a wheel of Python alone, for every system (``py3-none-any``): for
platforms where Numba cannot run while wheels are built.  Kernels are then compiled where they are first used.
``SEQFORMATS_SHIP=here`` builds one with the code for the level of this CPU alone, which tests of the wheel take, and
``SEQFORMATS_SHIP_FROM`` names a folder with code that was compiled for that level before.

This file is hatchling's build hook, and a build backend around hatchling, which asks for Numba where kernels are
compiled: for a wheel, but not for an editable install, which compiles no kernel.  Both build the extension of
`seqformats.core` (Cython) where there is a C compiler; its one file serves every Python from 3.11 on, and is kept in
``.cache/core``, so that all environments share it.  Without a compiler, or with ``SEQFORMATS_CORE=0``, it is left out,
which one line says, and Python does all; ``SEQFORMATS_CORE=1`` makes that an error.
"""

import importlib.util
import os
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling import build as _hatchling
from hatchling.build import build_editable, build_sdist, build_wheel  # noqa: F401  the backend's
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILERS = ["numba>=0.61", "numpy>=2.0"]
_SOURCE = Path(__file__).parent / "src"


def _shipping() -> bool:
    return os.environ.get("SEQFORMATS_SHIP", "1") != "0"


def _core() -> Any:
    """The module that builds the extension of `seqformats.core`, by its file: the package itself needs NumPy."""
    spec = importlib.util.spec_from_file_location("seqformats_core_build", _SOURCE / "seqformats" / "core" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _extension() -> list[str]:
    """What builds the extension, where there is a C compiler."""
    return list(_core().requires())


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What hatchling needs, and what compiles kernels."""
    more = [*COMPILERS, *_extension()] if _shipping() else []
    return [*_hatchling.get_requires_for_build_wheel(config_settings), *more]


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    """What hatchling needs."""
    return list(_hatchling.get_requires_for_build_sdist(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """What hatchling needs, and what builds the extension."""
    return [*_hatchling.get_requires_for_build_editable(config_settings), *_extension()]


class Hook(BuildHookInterface):
    """Compiles the kernels of a wheel, and builds the extension, for an editable install beside its sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before files are collected: have machine code among them."""
        if self.target_name != "wheel":
            return
        cache = Path(self.root) / ".cache" / "core"
        if version == "editable":
            _core().put_beside(cache, _say)
            return
        if not _shipping():
            return
        sys.path.insert(0, str(_SOURCE))
        from seqformats.native import cpu, ship

        here = os.environ.get("SEQFORMATS_SHIP") == "here"
        levels = (cpu.level(),) if here and cpu.level() else cpu.levels_of(platform.machine())
        if not levels:
            raise RuntimeError(f"no machine code is made for {platform.machine()}; set SEQFORMATS_SHIP=0")
        self._made = tempfile.TemporaryDirectory(prefix="seqformats-")
        folder = Path(self._made.name)
        kept = os.environ.get("SEQFORMATS_SHIP_FROM", "")
        ship.ship(folder, levels, _say, kept=kept)
        for path in sorted(folder.iterdir()):
            build_data["force_include"][str(path)] = f"seqformats/native/shipped/{path.name}"
        build_data["pure_python"] = False
        extension = _core().build_or_say(cache, _say)
        if extension is not None:
            build_data["force_include"][str(extension)] = f"seqformats/core/{extension.name}"
        build_data["tag"] = f"{'py3-none' if extension is None else 'cp311-abi3'}-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The files are in the wheel."""
        made = getattr(self, "_made", None)
        if made is not None:
            made.cleanup()


def _platform() -> str:
    """The tag of this system and kind of machine; a Python for several kinds of machine compiles for one."""
    name = sysconfig.get_platform().replace("universal2", platform.machine())
    return name.replace("-", "_").replace(".", "_")
