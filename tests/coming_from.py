"""The page for those who come from another library, as its tests read it.

The page begins with variables for all rows.  A section may have variables of its own, of libraries that may be absent:
the rows that use one of them run where the bridges do, all others everywhere.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

PAGE = (Path(__file__).parent.parent / "docs" / "coming-from.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMON, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
SETUP = BLOCK.findall(COMMON)


class Row(NamedTuple):
    """Their name, our snippet, what differs; and the variables of the section, if the snippet uses them."""

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
        assert re.fullmatch(r"`[^`]+`", ours), ours
        rows.append(Row(library, theirs, ours.strip("`"), differs, setup if own & names_used(ours.strip("`")) else ""))
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


def holds(snippet, setup=""):
    """What a snippet gives after the variables for all, and those of its section."""
    names = {}
    for code in [*SETUP, setup]:
        exec(compile(code, "coming-from.md", "exec"), names)
    return eval(compile(snippet, snippet, "eval"), names)


def label(row):
    """What a row is called in a report."""
    return f"{row.library}: {row.theirs}"
