"""The page about operations of one's own: its blocks run, one after the other, and a wrong one would be seen."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "own-operations.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run_blocks(blocks):
    names = {"__name__": "own_operations_page"}
    for block in blocks:
        exec(compile(block, "own-operations.md", "exec"), names)
    return names


def test_blocks_run(tables):
    assert PAGE.count("```python") == len(BLOCKS)
    names = run_blocks(BLOCKS)
    assert {"scale", "total", "squares", "with_echo", "Backwards"} <= names.keys()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_kernel_for_cuda_is_the_one_for_the_cpu(tables):
    """In the simulator, and where there is a GPU."""
    from libraries import GPUS

    if not GPUS:
        pytest.skip("there is neither a GPU nor the simulator")
    names = run_blocks(BLOCKS)
    gpu, x = GPUS[0].values[0], names["one"]
    assert gpu.down(names["echoed"](gpu.up(x))).data.tolist() == names["echoed"](x).data.tolist()


def test_a_wrong_block_would_be_seen(tables):
    wrong = [block.replace("[10, 20, 30, 40]", "[10, 20, 30, 41]") for block in BLOCKS[:2]]
    assert wrong != BLOCKS[:2]
    with pytest.raises(AssertionError):
        run_blocks(wrong)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#: ]+\.\w+)\)", PAGE)
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []
