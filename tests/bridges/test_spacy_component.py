"""The component of spaCy learns as with Thinc's own layers, and comes back from a file."""

import runpy
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.bridges
spacy = pytest.importorskip("spacy")

import seqformats as sf  # noqa: E402

SCRIPT = Path(__file__).parents[2] / "examples" / "spacy_component.py"


@pytest.fixture(scope="module", autouse=True)
def ops():
    """The callback sets them for good."""
    from thinc.api import get_current_ops, set_current_ops

    before = get_current_ops()
    yield
    set_current_ops(before)


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(SCRIPT))


def test_it_learns_what_thinc_learns(example, tmp_path):
    from thinc.api import NumpyOps, set_current_ops

    set_current_ops(NumpyOps())
    _, theirs = example["train"](example["PLAIN"])
    nlp, mine = example["train"]()
    assert {type(node.ops) for node in nlp.get_pipe("textcat").model.walk()} == {sf.thinc.SequenceOps}
    names = {node.name for node in nlp.get_pipe("textcat").model.walk()}
    assert {"list2ragged", "para-attn", "reduce_sum"} <= names
    assert mine[-1] < mine[0] / 10
    assert np.abs(np.subtract(mine, theirs)).max() < 1e-5
    for text, kind in example["NEW"].items():
        assert max(nlp(text).cats, key=nlp(text).cats.get) == kind
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    for text in example["NEW"]:
        assert again(text).cats == nlp(text).cats


def test_it_runs_as_a_script(example, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(SCRIPT)])
    example["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Ops: seqformats")
    assert [line.split()[0] for line in lines[1:]] == ["weather", "cooking"]
