"""The example of fine-tuning: without padding it has the losses of padding."""

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.bridges
pytest.importorskip("transformers")

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "finetune.py"))


def test_losses_are_those_of_padding(capsys):
    EXAMPLE["main"](["--steps", "4"])
    shown = capsys.readouterr().out.splitlines()
    assert float(shown[-1].split()[-1]) < 1e-4
    assert shown[0].split(" in ")[0].split()[1:] == shown[1].split(" in ")[0].split()[2:]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_trainer(tmp_path):
    pytest.importorskip("accelerate")
    rows = EXAMPLE["made_up_texts"](64)
    losses = [EXAMPLE["train_by_trainer"](rows, str(tmp_path), free=free, steps=2) for free in (False, True)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
