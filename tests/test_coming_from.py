"""The page for those who come from another library: the snippet of every row is true."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "coming-from.md").read_text(encoding="utf-8")
SETUP = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LIBRARIES = ["Thinc", "Paddle", "PyTorch", "TensorFlow"]


def rows_of(library):
    """Their name, our snippet and what differs, row by row."""
    section = re.search(rf"^## {library}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert lines[:2] == [f"| {library} | here | what differs |", "|---|---|---|"]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


ROWS = [(library, *row) for library in LIBRARIES for row in rows_of(library)]


def names():
    found = {}
    exec(compile(SETUP[0], "coming-from.md", "exec"), found)
    return found


def holds(snippet):
    return eval(compile(snippet, snippet, "eval"), names())


@pytest.mark.parametrize(("library", "theirs", "ours", "differs"), ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_snippet(library, theirs, ours, differs):
    assert theirs
    assert differs
    assert re.fullmatch(r"`[^`]+`", ours)
    assert re.search(r"\b(sf|x|deep|wide|padded|packed|masked)[.[]", ours)
    assert holds(ours.strip("`")) is True


def test_a_wrong_snippet_would_be_seen():
    right = "sf.reduce_sum(x).tolist() == [3, 18, 7]"
    assert f"`{right}`" in PAGE
    assert holds(right)
    assert not holds(right.replace("18", "19"))


def test_every_row_is_in_a_table_that_is_read():
    tables = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert len(tables) == len(ROWS) + 2 * len(LIBRARIES)
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == LIBRARIES
    assert len(SETUP) == 1


def test_no_row_is_there_twice():
    known = [row[:2] for row in ROWS]
    assert sorted(set(known)) == sorted(known)
