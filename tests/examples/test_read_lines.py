"""The example that reads print: a lexicon helps, and what it reads is made of its words."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.peers
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    for library in ("onnxruntime", "PIL"):
        pytest.importorskip(library)
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield runpy.run_path(str(EXAMPLES / "read_lines.py"))
    finally:
        sys.path.remove(str(EXAMPLES))


def test_words_help(example, capsys):
    wrong = example["main"](["-n", "12", "--noise", "40"])
    assert list(wrong) == ["best path", "best label", "of words", "by pairs"]
    assert 0 < wrong["best path"] < 25
    assert wrong["best label"] <= wrong["best path"] + 1
    assert wrong["of words"] < wrong["best path"] / 1.5
    assert wrong["by pairs"] < wrong["best path"] / 1.5
    assert "12 lines" in capsys.readouterr().out


def test_what_is_read_is_made_of_words(example):
    reader, rng = example["Reader"](), np.random.default_rng(2)
    wanted, known, others = example["lines_and_words"](5, rng)
    x = sf.convert([reader.frames(example["draw"](text, 30, rng)) for text in wanted], sf.Ragged)
    found = example["read_all"](
        reader, x, sf.Trie([reader.array(word + " ") for word in known]), example["model_of"](reader, others, known)
    )
    for line in found["of words"][0]:
        assert set(line.split()) <= set(known)
    assert example["errors"](reader, wanted, wanted) == (0, 0, 0)
    assert example["errors"](reader, [""] * 5, wanted) == (100, 100, 100)
