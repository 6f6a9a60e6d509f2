"""The cookbook: each recipe runs by itself, behind the imports that all share."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "cookbook.md").read_text(encoding="utf-8")
HEAD, *SECTIONS = PAGE.split("\n## ")
TITLES = [section.partition("\n")[0].partition(",")[0] for section in SECTIONS]

pytestmark = pytest.mark.peers
every_section = pytest.mark.parametrize("section", SECTIONS, ids=TITLES)


def code(section):
    (found,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return found


def run(section):
    exec(compile(code(HEAD) + code(section), "cookbook.md", "exec"), {"__name__": "cookbook"})


@every_section
def test_recipe_runs(section):
    run(section)


@every_section
def test_recipe_is_short_and_checked(section):
    assert code(section).count("\n") <= 25
    wrong = re.sub(r"^( *)assert .*$", r"\1assert False", section, flags=re.MULTILINE)
    with pytest.raises(AssertionError):
        run(wrong)


def test_there_are_ten_recipes():
    assert len(TITLES) == 10
