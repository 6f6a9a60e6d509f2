"""Files that come with the package: a shared object with kernels for CPUs of one level, and a table of what they are.

The shared object is trusted as the Python files beside it are: whoever can change it can change these.  Whether it is
whole its size says, and with `damage` its digest.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from .digest import digest
from .loading import address_in, opened
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
        try:
            head, _, table = path.with_suffix(".table").read_text(encoding="utf-8").partition("\n")
            of_level, own, size, made_by = head.split("\t")
            if of_level == level and path.stat().st_size == int(size):
                return cls(path, own, made_by, f"\n{table}")
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            pass
        warn(_DAMAGED, path)
        return None

    def facts(self, name: str) -> dict[str, Any] | None:
        """Return what is to be known of a kernel, or of one for some types; None where it is not among them."""
        place = self._table.find(f"\n{name}\t")
        if place < 0:
            return None
        import ast

        begin = place + len(name) + 2
        found: dict[str, Any] = ast.literal_eval(self._table[begin : self._table.index("\n", begin)])
        return found

    @functools.cached_property
    def _library(self) -> ctypes.CDLL | None:
        try:
            return opened(self.path)
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
        data = path.read_bytes()
        lines: list[tuple[str, ...]] = [(path.stem, digest(data).hex(), str(len(data)), made_by)]
        lines += [(name, repr(dict(sorted(known.items())))) for name, known in sorted(facts.items())]
        put(path.with_suffix(".table"), "".join(["\t".join(line) + "\n" for line in lines]).encode())
