"""The page about transformers: its blocks run, and a wrong one would be seen."""

import pytest
from pages import DOCS, blocks_of, broken, run_blocks

pytestmark = pytest.mark.bridges
pytest.importorskip("transformers")
BLOCKS = blocks_of(DOCS / "transformers.md")


def test_blocks_run():
    run_blocks(BLOCKS, "transformers.md")
    with pytest.raises(AssertionError):
        run_blocks(broken(BLOCKS, "== [2, 3, 1]", "== [2, 3, 2]"))
