"""The pages for those who come from another library, as their tests read them.

The first page has variables for all rows.  A section may have variables of its own, of libraries that may be absent:
the rows that use one of them run where the bridges do, all others everywhere.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

import seqformats as sf
from seqformats.formats import Encoding

PAGES = Path(__file__).parent.parent / "docs" / "coming-from"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDEX = (PAGES / "index.md").read_text(encoding="utf-8")
SETUP = BLOCK.findall(INDEX)
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.md")) if path.stem != "index"]
SECTIONS = [part for text in TEXTS for part in re.split(r"^##? ", text, flags=re.MULTILINE) if "\n|" in part]
CELL = re.compile(r"`([^`]+)`(?: (→|≈) `([^`]+)`)?")


class Row(NamedTuple):
    """Their name, our calls with their results, what differs; and the section's variables, if a call uses them."""

    library: str
    theirs: str
    ours: str
    differs: str
    setup: str


def rows_of(section):
    """The rows of a section, whose first line is its title."""
    library = section.partition("\n")[0]
    setup = "".join(BLOCK.findall(section))
    own = names_made(setup)
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert lines[:2] == [f"| {library} | here | what differs |", "|---|---|---|"]
    rows = []
    for line in lines[2:]:
        theirs, ours, differs = [cell.strip() for cell in line.strip("|").split("|")]
        assert CELL.sub("", ours).strip("; ") == "", ours
        used = {
            name
            for call, _, result in CELL.findall(ours)
            for code in (call, result or "0")
            for name in names_used(code)
        }
        rows.append(Row(library, theirs, ours, differs, setup if own & used else ""))
    return rows


def names_made(code):
    """The names that a block of code imports or assigns."""
    nodes = list(ast.walk(ast.parse(code)))
    found = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    imports = [alias for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
    return found | {(alias.asname or alias.name).partition(".")[0] for alias in imports}


def names_used(snippet):
    """The names in an expression."""
    return {node.id for node in ast.walk(ast.parse(snippet, mode="eval")) if isinstance(node, ast.Name)}


LIBRARIES = [section.partition("\n")[0] for section in SECTIONS]
ROWS = [row for section in SECTIONS for row in rows_of(section)]


def holds(ours, setup=""):
    """Whether a cell is true: its calls give what it says, after the variables for all, and those of its section."""
    names = {}
    for code in [*SETUP, setup]:
        exec(compile(code, "index.md", "exec"), names)

    def value(code):
        return eval(compile(code, code, "eval"), names)

    return all(
        is_as_said(value(call), sign, value(result)) if sign else value(call) is True
        for call, sign, result in CELL.findall(ours)
    )


def is_as_said(found, sign, said):
    """Compare a result with what the page says of it."""
    if sign == "≈":
        return bool(np.allclose(found, said, atol=1e-5))
    if isinstance(said, Encoding):
        return sf.equal(found, said)
    return bool((found.tolist() if hasattr(found, "tolist") else found) == said)


def label(row):
    """What a row is called in a report."""
    return f"{row.library}: {row.theirs}"
