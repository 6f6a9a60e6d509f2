"""The pages for those who come from another library: every row gives what it says."""

import re

import coming_from
import pytest
from coming_from import INDEX, LIBRARIES, ROWS, SECTIONS, SETUP, TEXTS, holds, label
from laws import every

pytestmark = pytest.mark.passes("compiled", reason="what the snippets run is tested by itself")

EVERYWHERE = [row for row in ROWS if not row.setup]


@pytest.mark.parametrize("library", LIBRARIES)
def test_snippets(library):
    @every([row for row in EVERYWHERE if row.library == library], label)
    def is_true(row):
        assert holds(row.ours) is True

    is_true()


@every(ROWS, label)
def test_row(row):
    assert row.theirs
    assert row.differs
    assert re.search(r"\b(sf|x|deep|wide|padded|packed|masked)[.[]", row.ours + row.setup)


def test_a_wrong_snippet_would_be_seen():
    right = "`sf.reduce_sum(x)` → `[3, 18, 7]`"
    assert any(right in text for text in TEXTS)
    for said in (
        right,
        "`sf.convert(batch, sf.Ragged)` → `x`",
        "`a / 3` ≈ `[0.3333333, 0.6666667]`",
    ):
        assert holds(said)
    for said in (right.replace("18", "19"), "`sf.reverse(x)` → `x`", "`x.data` ≈ `[1] * 7`"):
        assert not holds(said)


def test_every_row_is_in_a_table_that_is_read():
    tables = [line for text in TEXTS for line in text.splitlines() if line.startswith("|")]
    assert len(tables) == len(ROWS) + 2 * len(LIBRARIES)
    assert len(set(LIBRARIES)) == len(LIBRARIES)
    assert len(SETUP) == 1
    assert all(text.splitlines()[0] == f"# {title}" for text, title in zip(TEXTS, titles(), strict=True))


def titles():
    """The titles of the pages as the first one lists them, by file."""
    found = {file: title for title, file in re.findall(r"\| \[([^\]]+)\]\((\S+)\.md\) \|$", INDEX, re.MULTILINE)}
    return [found[file] for file in sorted(found)]


def test_no_row_is_there_twice():
    known = [(row.library, row.theirs) for row in ROWS]
    assert sorted(set(known)) == sorted(known)


def test_rows_that_need_a_library_are_told_apart():
    section = "Things\n```python\nimport things.of as t\nmade = t.make()\n```\n"
    section += "| Things | here | what differs |\n|---|---|---|\n"
    section += "| `f(x)` | `sf.lengths(made)` → `1` | no |\n| `g(x)` | `sf.lengths(x)` → `t.n` | no |\n"
    section += "| `h(x)` | `sf.lengths(x).sum()` → `7` | no |\n"
    assert [bool(row.setup) for row in coming_from.rows_of(section)] == [True, True, False]
    assert len(EVERYWHERE) > 200
    with pytest.raises(AssertionError):
        coming_from.rows_of(section.replace("| Things |", "| Other |"))


def test_every_set_up_of_a_section_is_used():
    with_setup = {section.partition("\n")[0] for section in SECTIONS if "```python" in section}
    assert {row.library for row in ROWS if row.setup} == with_setup
