"""The page about gradients: its blocks run, one after the other, and a wrong one would be seen."""

import pytest
from pages import DOCS, blocks_of, broken, run_blocks

pytestmark = pytest.mark.peers
GRADIENTS = blocks_of(DOCS / "gradients.md")


def test_blocks_run():
    run_blocks(GRADIENTS, "gradients.md")


def test_a_wrong_block_would_be_seen():
    with pytest.raises(AssertionError):
        run_blocks(broken(GRADIENTS, "[[3.0], [2.0], [2.0]]", "[[2.0], [2.0], [3.0]]"))
