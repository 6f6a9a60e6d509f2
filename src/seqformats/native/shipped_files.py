"""Files that come with a package: kernels for CPUs of one level, or for GPUs, and a table of what they are.

They are trusted as the Python files beside them are: whoever can change them can change these.  Whether they are whole
their size says, and with `damage` their digest.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .digest import digest
from .loading import address_in, open_shared
from .store import put, warn

_DAMAGED = "kernels that came with seqformats are damaged and are compiled instead: %s; install seqformats anew"


class Shipped:
    """The kernels of a level.

    Attributes
    ----------
    path : Path
        The shared object.
    made_by : str
        For which system, and by which version of LLVM.
    """

    def __init__(self, path: Path, own: str, made_by: str, table: str) -> None:
        self.path, self.made_by = path, made_by
        self._digest, self._table = own, table

    @classmethod
    def open(cls, folder: Path, level: str) -> Shipped | None:
        """The kernels in a folder for a level; None where there are none.

        The table is a line with the level, the digest and the size of the shared object and what has made it; and a
        line for each kernel, with what is to be known of it, and for each choice of types, with nothing.
        """
        path = folder / f"{level}.so"
        found = _read(path)
        return None if found is None else cls(path, *found)

    def facts(self, name: str) -> dict[str, Any] | None:
        """Return what is to be known of a kernel, or of one for some types; None where it is not among them."""
        return _facts_in(self._table, name)

    @functools.cached_property
    def _library(self) -> ctypes.CDLL | None:
        try:
            return open_shared(self.path)
        except OSError as error:
            warn(_DAMAGED, error)
            return None

    def address(self, symbol: str) -> int:
        """Find the address of a function of the shared object; 0 where there is none of that name."""
        return 0 if self._library is None else address_in(self._library, symbol)

    def damage(self) -> str:
        """Why the shared object is not what was shipped; "" where it is, which takes some milliseconds to say."""
        whole = digest(self.path.read_bytes()).hex() == self._digest and self._library is not None
        return "" if whole else f"{self.path} is damaged"

    @staticmethod
    def write(path: Path, facts: dict[str, dict[str, Any]], made_by: str) -> None:
        """Make the table of a shared object, the same one of the same kernels; its name is the level."""
        _write(path, facts, made_by)


class Images:
    """The kernels for GPUs that a package ships: cubins for some compute capabilities, and PTX for all later ones.

    Attributes
    ----------
    path : Path
        The file with all of them, each compressed on its own.
    made_by : str
        Versions of the compilers.
    """

    def __init__(self, path: Path, own: str, made_by: str, table: str) -> None:
        self.path, self.made_by = path, made_by
        self._digest, self._table = own, table

    @classmethod
    def open(cls, folder: Path) -> Images | None:
        """The kernels in a folder; None where there are none."""
        path = folder / _IMAGES
        found = _read(path)
        return None if found is None else cls(path, *found)

    def facts(self, name: str) -> dict[str, Any] | None:
        """Return what is to be known of a kernel, or of one for some types where its images lie; None without it."""
        return _facts_in(self._table, name)

    def image(self, begin: int, size: int) -> bytes:
        """Read what lies there; nothing where the file is damaged."""
        try:
            with self.path.open("rb") as file:
                file.seek(begin)
                return zlib.decompress(file.read(size))
        except (OSError, zlib.error) as error:
            warn(_DAMAGED, error)
            return b""

    def damage(self) -> str:
        """Why the file is not what was shipped; "" where it is."""
        return "" if digest(self.path.read_bytes()).hex() == self._digest else f"{self.path} is damaged"

    @staticmethod
    def write(
        folder: Path,
        facts: dict[str, dict[str, Any]],
        images: Iterable[tuple[str, dict[str, Any], dict[Any, bytes]]],
        made_by: str,
    ) -> None:
        """Write both files, the same ones of the same kernels.

        Of a kernel for some types come its name, what is to be known of it, and its images, which `compress` has made.
        """
        path, known = folder / _IMAGES, dict(facts)
        with path.open("wb") as file:
            for name, of_it, found in sorted(images):
                places = {}
                for key, data in found.items():
                    places[key] = file.tell(), len(data)
                    file.write(data)
                known[name] = {**of_it, "images": places}
        _write(path, known, made_by)


def compress(image: bytes) -> bytes:
    """Compress an image for `Images.write`."""
    return zlib.compress(image, 9)


_IMAGES = "kernels.images"


def _read(path: Path) -> tuple[str, str, str] | None:
    """Read the table of a file: the digest of the file, who has made it, and the lines; None where it is not whole."""
    try:
        head, _, table = path.with_suffix(".table").read_text(encoding="utf-8").partition("\n")
        of_it, own, size, made_by = head.split("\t")
        if of_it == path.stem and path.stat().st_size == int(size):
            return own, made_by, f"\n{table}"
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        pass
    warn(_DAMAGED, path)
    return None


def _facts_in(table: str, name: str) -> dict[str, Any] | None:
    """Find the line of a name in a table."""
    place = table.find(f"\n{name}\t")
    if place < 0:
        return None
    import ast

    begin = place + len(name) + 2
    found: dict[str, Any] = ast.literal_eval(table[begin : table.index("\n", begin)])
    return found


def _write(path: Path, facts: dict[str, dict[str, Any]], made_by: str) -> None:
    """Make the table of a file."""
    data = path.read_bytes()
    lines: list[tuple[str, ...]] = [(path.stem, digest(data).hex(), str(len(data)), made_by)]
    lines += [(name, repr(dict(sorted(known.items())))) for name, known in sorted(facts.items())]
    put(path.with_suffix(".table"), "".join(["\t".join(line) + "\n" for line in lines]).encode())
