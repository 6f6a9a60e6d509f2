"""The page about Thinc: its blocks run, one after the other."""

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.peers, pytest.mark.bridges]
pytest.importorskip("thinc.api")

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "thinc.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run_blocks(blocks):
    names = {"__name__": "thinc_page"}
    for block in blocks:
        exec(compile(block, "thinc.md", "exec"), names)
    return names


def test_blocks_run():
    assert PAGE.count("```python") == len(BLOCKS)
    assert {"model", "layer", "pairs", "plain"} <= run_blocks(BLOCKS).keys()


def test_a_wrong_block_would_be_seen():
    wrong = [BLOCKS[0].split("fix_random_seed(0)\n")[0], BLOCKS[1].replace("[[0.5], [0.5]]", "[[0.0], [1.0]]")]
    assert wrong[1] != BLOCKS[1]
    with pytest.raises(AssertionError):
        run_blocks(wrong)


def test_every_layer_is_on_the_page():
    import seqformats as sf

    assert [name for name in sf.thinc.__all__ if f"`{name}" not in PAGE] == ["SequenceOps"]


def test_files_are_there():
    for path in re.findall(r"`(examples/\S+?)`", PAGE):
        assert (DOCS.parent / path).exists()
