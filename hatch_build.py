"""Build of a wheel: kernels are compiled and linked, and the shared object is shipped, so that no user compiles.

A wheel has the code of every kernel for one level of CPUs, that of this CPU, unless a release is asked for.  It is made
for its system and kind of machine, but for every version of Python, NumPy and Numba: the code calls CPython by name and
reads public layouts.  Compiling takes some minutes of a CPU; all CPUs work.  What was compiled is kept in the cache of
this user, so that the next wheel takes what has not changed.

``SEQFORMATS_SHIP`` in the environment says what is wanted:

- ``here``, or nothing: the level of this CPU; where nothing can be compiled or linked, a wheel of Python alone;
- ``all``: each level that `seqformats.native.cpu` knows for this kind of machine, as for a release, or an error;
- ``0``: a wheel of Python alone, for every system (``py3-none-any``).  Kernels are compiled where they are first used.

``SEQFORMATS_SHIP_FROM`` names another folder for what is kept, and ``CC`` the compiler that links; where there is none,
the package ``ziglang`` does.

``SEQFORMATS_URL`` is where the repository can be read.  The long description of a release links to it; without it the
description has no links to files, since an index shows it far from them.

This file is hatchling's build hooks, and a build backend around hatchling, which asks for Numba where kernels are
compiled: for a wheel, but not for an editable install, which compiles no kernel.  Both build the extension of
`seqformats.core` (Cython) where there is a C compiler; its one file serves every Python with a GIL from 3.11 on, and is
kept in ``.cache/core``, so that all environments share it.  Without a compiler, or with ``SEQFORMATS_CORE=0``, it is
left out, which one line says, and Python does all; ``SEQFORMATS_CORE=1`` makes that an error.
"""

import importlib.util
import os
import platform
import re
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling import build as _hatchling
from hatchling.build import build_editable, build_sdist, build_wheel  # noqa: F401  the backend's
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

COMPILERS = ["numba>=0.61", "numpy>=2.0"]
_SOURCE = Path(__file__).parent / "src"


def _wanted() -> str:
    return os.environ.get("SEQFORMATS_SHIP") or "here"


def _module(name: str) -> Any:
    """A module of the library by its file, alone: what the library needs may not be there yet."""
    spec: Any = importlib.util.spec_from_file_location(f"build_{name}", _SOURCE / "seqformats" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _extension() -> list[str]:
    """List what builds the extension, where there is a C compiler."""
    return list(_module("core/build").requires())


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """List what hatchling needs, and what compiles and links kernels and the extension."""
    needed = list(_hatchling.get_requires_for_build_wheel(config_settings))
    if _wanted() == "0" or platform.machine().lower() not in ("x86_64", "amd64", "aarch64", "arm64"):
        return needed
    return [*needed, *COMPILERS, *_extension(), *([] if _module("native/linking").linker() else ["ziglang"])]


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    """What hatchling needs."""
    return list(_hatchling.get_requires_for_build_sdist(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """List what hatchling needs, and what builds the extension."""
    return [*_hatchling.get_requires_for_build_editable(config_settings), *_extension()]


class Metadata(MetadataHookInterface):
    """Makes the long description of the README, and names the places of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Before a file is written: fill in what `pyproject.toml` leaves to this hook."""
        root, url = Path(self.root), os.environ.get("SEQFORMATS_URL", "").rstrip("/")
        version = re.search(r'__version__ = "(.*)"', (root / "src/seqformats/__init__.py").read_text(encoding="utf-8"))
        assert version is not None
        text = _described((root / "README.md").read_text(encoding="utf-8"), url, f"v{version[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        places = {"Source": "", "Issues": "/issues", "Changelog": f"/blob/v{version[1]}/CHANGELOG.md"}
        metadata["urls"] = {name: url + place for name, place in places.items()} if url else {}


def _described(readme: str, url: str, tag: str) -> str:
    """Return the README with links and pictures of the repository at `url`; without one, with their words alone."""

    def absolute(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if not url:
            return "" if picture else words
        return f"{picture}[{words}]({url}/{'raw' if picture else 'blob'}/{tag}/{path})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)]+)\)", absolute, readme)


class Hook(BuildHookInterface):
    """Compiles the kernels of a wheel, and builds the extension, for an editable install beside its sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before files are collected: have machine code among them."""
        if self.target_name != "wheel":
            return
        cache = Path(self.root) / ".cache" / "core"
        if version == "editable":
            _module("core/build").put_beside(cache, _say)
            return
        wanted = _wanted()
        if wanted == "0":
            return
        sys.path.insert(0, str(_SOURCE))
        try:
            levels, missing = _levels(wanted), ""
        except (ImportError, RuntimeError) as error:
            levels, missing = (), str(error)
        if missing and wanted == "all":
            raise RuntimeError(f"{missing}; set SEQFORMATS_SHIP=0")
        if missing:
            _say(f"machine code of kernels is left out, they are compiled at first use: {missing}")
            return
        from seqformats.native import ship

        self._made = tempfile.TemporaryDirectory(prefix="seqformats-")
        folder = Path(self._made.name)
        ship.ship(folder, levels, _say)
        for path in sorted(folder.iterdir()):
            build_data["force_include"][str(path)] = f"seqformats/native/shipped/{path.name}"
        build_data["pure_python"] = False
        extension = _module("core/build").build_or_say(cache, _say)
        if extension is not None:
            build_data["force_include"][str(extension)] = f"seqformats/core/{extension.name}"
        serves = "py3-none" if extension is None else _module("core/build").serves()
        build_data["tag"] = f"{serves}-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The files are in the wheel."""
        made = getattr(self, "_made", None)
        if made is not None:
            made.cleanup()


def _levels(wanted: str) -> tuple[str, ...]:
    """For which levels there is to be code; RuntimeError or ImportError where something is missing for that."""
    if not _module("native/linking").linker(zig=True):
        raise RuntimeError("there is neither a C compiler, which links it, nor the package ziglang")
    import numba  # noqa: F401, TID251  which compiles it, and is not here in a build without isolation

    from seqformats.native import cpu

    known = cpu.levels_of(platform.machine())
    levels = known if wanted == "all" else tuple([level for level in known if level == cpu.level()])
    if not levels:
        raise RuntimeError(f"none is made for {platform.machine()}, or not for this CPU")
    if kept := os.environ.get("SEQFORMATS_SHIP_FROM"):
        os.environ["SEQFORMATS_CACHE_DIR"] = kept
    return levels


def _platform() -> str:
    """The tag of this system and kind of machine; a Python for several kinds of machine compiles for one."""
    name = sysconfig.get_platform().replace("universal2", platform.machine())
    name = re.sub(r"macosx-10\.\d+-arm64", "macosx-11.0-arm64", name)  # the first macOS for these
    return name.replace("-", "_").replace(".", "_")
