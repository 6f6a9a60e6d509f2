"""Build of the wheel with code for GPUs: every kernel is compiled for some compute capabilities, which needs no GPU.

The wheel has a package of two files, which `seqformats.native.cubins` finds, and is for every system: what is in it
runs on the GPU alone.  It is made of the sources beside this folder, for whose release alone it is.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_SOURCE = Path(__file__).parents[1] / "src"
_TEXT = """
Kernels of `seqformats` as code for NVIDIA GPUs of compute capability 7.5, 8.x, 9.0, 10.x and 12.x, and as PTX for later
ones. Where this package is installed, `seqformats` of the same version compiles nothing for a GPU.
"""


class Metadata(MetadataHookInterface):
    """Takes the version of the library, which it is for."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Before a file is written: fill in what `pyproject.toml` leaves to this hook."""
        text = (_SOURCE / "seqformats" / "__init__.py").read_text(encoding="utf-8")
        version = re.search(r'__version__ = "(.*)"', text)
        assert version is not None
        metadata["version"] = version[1]
        metadata["dependencies"] = [f"seqformats=={version[1]}"]
        metadata["readme"] = {"content-type": "text/markdown", "text": _TEXT}


class Hook(BuildHookInterface):
    """Compiles the kernels of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before files are collected: have the code among them."""
        sys.path.insert(0, str(_SOURCE))
        from seqformats.native import cubins, ship

        self._made = tempfile.TemporaryDirectory(prefix="seqformats-")
        folder = Path(self._made.name)
        (folder / "__init__.py").write_text('"""Kernels of seqformats as code for GPUs, which it finds here."""\n')
        ship.ship_images(folder, lambda line: print(line, file=sys.stderr, flush=True))
        for path in sorted(folder.iterdir()):
            build_data["force_include"][str(path)] = f"{cubins.PACKAGES[0]}/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The files are in the wheel."""
        self._made.cleanup()
