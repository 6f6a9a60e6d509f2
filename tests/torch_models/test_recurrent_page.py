"""The page about recurrent models: its examples print what it shows, one after the other."""

import doctest

import pytest
from pages import DOCS, blocks_of, broken

pytestmark = pytest.mark.peers
BLOCKS = blocks_of(DOCS / "recurrent.md")


def failures(blocks):
    page = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "recurrent.md", None, 0)
    assert len(page.examples) > 20
    return doctest.DocTestRunner(verbose=False).run(page, out=lambda _: None).failed


def test_examples_run():
    pytest.importorskip("torch")
    assert failures(BLOCKS) == 0


def test_a_wrong_example_would_be_seen():
    pytest.importorskip("torch")
    assert failures(broken(BLOCKS, "torch.Size([6, 32])", "torch.Size([6, 16])")) == 1
