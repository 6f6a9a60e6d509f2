"""The wheel of these sources, built once, whose machine code all passes run.

    python tests/built.py                the path of the wheel, in .cache/wheel/DIGEST
    python tests/built.py --if-outdated  nothing, where what is compiled is of these sources

The digest is of all that the wheel is made of.  What is compiled of it lies beside the sources afterwards, where an
editable install finds it: the kernels for this CPU's level in ``native/shipped``, and the extension in ``core``.  A
kernel whose source was edited is not taken from there (`native.code`) but compiled, until the next build.

``SEQFORMATS_SHIP`` says as in any build what is compiled; what was before is kept in ``.cache/kernels``.
"""

import hashlib
import os
import platform
import runpy
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "seqformats"
KEPT = 3  # wheels of other sources, the newest
COMPILED = ("native/shipped", "core")  # the folders in which there is what is compiled, and how its names end
ENDINGS = (".so", ".table")
CHANGES_WHEEL = ("CC", "CFLAGS", "SEQFORMATS_SHIP", "SEQFORMATS_CORE", "SEQFORMATS_URL")


def sources():
    """The files that a wheel is made of."""
    ours = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyi", ".pyx", ".pxi", ".h", ".typed")]
    names = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "tests/constraints.txt")
    return sorted(path for path in [*ours, *(ROOT / name for name in names)] if path.is_file())


def digest():
    """Digest of these files, the kind of CPU, and the settings of a build in the environment."""
    level = runpy.run_path(str(PACKAGE / "native" / "cpu.py"))["level"]()
    told = [(name, os.environ.get(name, "")) for name in CHANGES_WHEEL]
    made = hashlib.sha256(repr([platform.machine(), sys.platform, level, told]).encode())
    for path in sources():
        made.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()[:32]


def wheel(folder):
    """The wheel of these sources in a folder, built by pip if it is not there."""
    place = folder / digest()
    if not place.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        environment = {
            "SEQFORMATS_SHIP_FROM": str(ROOT / ".cache" / "kernels"),
            "PIP_CONSTRAINT": str(ROOT / "tests" / "constraints.txt"),
        }
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        with tempfile.TemporaryDirectory(dir=folder) as made:
            out = Path(made, "out")
            subprocess.run([*command, "-w", str(out), str(ROOT)], check=True, env={**os.environ, **environment})
            out.rename(place)
        for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
            shutil.rmtree(old)
    (found,) = place.glob("*.whl")
    return found


def is_current():
    """Tell whether the kernels and the extension beside the sources are of these sources."""
    from seqformats.core import build, extension
    from seqformats.native import code

    has_extension = build.why_not() or (extension is not None and build.sources() == extension.SOURCES)
    return bool(has_extension) and not code.why_not_shipped() and not code.list_outdated()


def put_beside(wheel, package):
    """Let what is compiled of a package be that of a wheel, and nothing else; files that are the same stay."""
    with zipfile.ZipFile(wheel) as file:
        for folder in COMPILED:
            inside = f"seqformats/{folder}/"
            names = {name.removeprefix(inside) for name in file.namelist() if name.startswith(inside)}
            names = {name for name in names if name.endswith(ENDINGS)}
            for other in (package / folder).glob("*"):
                if other.name.endswith(ENDINGS) and other.name not in names:
                    other.unlink()
            for name in sorted(names):
                path, data = package / folder / name, file.read(inside + name)
                if not path.is_file() or path.read_bytes() != data:
                    path.parent.mkdir(exist_ok=True)
                    part = path.with_name(f".{os.getpid()}.{name}")
                    part.write_bytes(data)
                    part.replace(path)  # processes that have the old one loaded keep it


if __name__ == "__main__":
    if sys.argv[1:] != ["--if-outdated"] or not is_current():
        found = wheel(ROOT / ".cache" / "wheel")
        put_beside(found, PACKAGE)
        print(found)
