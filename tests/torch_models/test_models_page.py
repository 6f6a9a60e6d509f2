"""The page about model code: its blocks run, one after the other."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "models.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OF_JAX = [block for block in BLOCKS if "jax" in block]


def run_blocks(blocks):
    names = {"__name__": "models_page"}
    for block in blocks:
        exec(compile(block, "models.md", "exec"), names)
    return names


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_blocks_run():
    assert PAGE.count("```python") == len(BLOCKS)
    assert {"compiled", "mixed", "nested", "positive"} <= run_blocks([b for b in BLOCKS if b not in OF_JAX]).keys()


@pytest.mark.jax
def test_blocks_of_jax_run():
    assert "slope" in run_blocks(OF_JAX)


@pytest.mark.peers
def test_a_wrong_block_would_be_seen():
    wrong = BLOCKS[0].replace("(6, 3)", "(6, 4)")
    assert wrong != BLOCKS[0]
    with pytest.raises(AssertionError):
        run_blocks([wrong])


@pytest.mark.peers
def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#: ]+\.\w+)\)", PAGE)
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []
