"""The page about pipelines: its blocks run, one after the other, beside the libraries that they speak of."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.bridges

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "pipelines.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run_blocks(blocks):
    names = {"__name__": "pipelines_page"}
    for block in blocks:
        exec(compile(block, "pipelines.md", "exec"), names)
    return names


def test_blocks_run():
    assert PAGE.count("```python") == len(BLOCKS)
    assert {"collate", "sampler", "frame"} <= run_blocks(BLOCKS).keys()


def test_a_wrong_block_would_be_seen():
    wrong = [block.replace("[3, 0, 2] and", "[3, 0, 1] and") for block in BLOCKS[:1]]
    assert wrong != BLOCKS[:1]
    with pytest.raises(AssertionError):
        run_blocks(wrong)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#: ]+\.\w+)\)", PAGE)
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []
