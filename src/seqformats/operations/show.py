"""A look at a batch in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ..arrays import is_array
from ..converters.convert import as_own
from ..errors import KIND, quote
from ..formats import Pairs
from ..formats.annotations import Given
from ..formats.bare import as_encoding
from ..formats.pictures import STYLES, lines_of_groups, picture, rows_of_letters
from .annotations import Batch

if TYPE_CHECKING:
    from ..formats.pictures import Picture


def show(x: Batch | Mapping[Any, Any], *, file: TextIO | None = None) -> None:
    """Print where the sequences of a batch lie in memory, drawn to scale.

    A letter is an item of a sequence, "a" of the first one, or several items where the layout is wider or higher than
    the drawing; "·" is padding.  Below a `LoD` each line is an outer level.  With the package ``rich`` sequences have
    colours.  Notebooks draw an encoding by themselves.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, a column, or a dict of them
        No item of an encoding is read, also on a GPU.  Arrays in a dict, which have one row per sequence, are left out.
    file : text stream, optional
        Standard output by default.

    Raises
    ------
    TypeError
        If the argument is not a batch, and for a file that cannot be written to.

    See Also
    --------
    explain : How one layout becomes another.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(7), [2, 4, 1])
    >>> sf.show(x)
    Ragged: 3 sequences of 1 to 4 items, int64, cpu
      aabbbbc
    >>> sf.show(sf.convert(x, sf.Masked))
    Masked: 3 sequences of 1 to 4 items, int64, cpu, 42 % padding
      aa··
      bbbb
      c···
    >>> sf.show(sf.LoD(np.arange(7), [[0, 2, 3], [0, 2, 6, 7]]))
    LoD: 3 sequences of 1 to 4 items, 2 levels, int64, cpu
      aabbbbc
      └────┘│
    """
    stream = sys.stdout if file is None else file
    if not callable(getattr(stream, "write", None)):
        raise KIND(f"file must be a text stream, not {quote(file)}")
    try:
        members = _members(x, "")
    except RecursionError:
        raise KIND("x holds itself, as a dict among its own members") from None
    found = [(name, picture(as_own(as_encoding(member)))) for name, member in members]
    for name, of in found:  # once nothing can be refused any more
        _write(name, of, stream)


def _members(x: Given, name: str) -> list[tuple[str, Any]]:
    """The encodings in it, each with its name; arrays beside them have one row per sequence, and no layout to draw."""
    if not isinstance(x, (Mapping, Pairs)):
        return [(name, x)]
    members = x.items() if isinstance(x, Mapping) else (("one", x.one), ("two", x.two))
    return [found for key, member in members if not is_array(member) for found in _members(member, f"{name}{key} ")]


def _write(name: str, of: Picture, stream: TextIO) -> None:
    lines = rows_of_letters(of)
    below = [f"  {line}" for line in lines_of_groups(of)]
    head = f"{name}{of.title}: {of.note}"
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        drawn = [f"  {''.join(letter for letter, _ in line)}".rstrip() for line in lines]
        stream.write("\n".join([head, *drawn, *below]) + "\n")
        return
    console = Console(file=stream, highlight=False, soft_wrap=True)
    console.print(Text(head))
    for line in lines:
        text = Text("  ")
        for letter, sequence in line:
            text.append(letter, STYLES[sequence % len(STYLES)] if sequence >= 0 else None)
        console.print(text)
    for level in below:
        console.print(Text(level))
