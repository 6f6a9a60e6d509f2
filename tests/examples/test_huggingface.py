"""The example with models of transformers: what it finds is what `generate` finds."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "huggingface.py"))


@pytest.mark.peers
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
def test_it_finds_what_generate_finds(name, capsys):
    for library in ("torch", "transformers"):
        pytest.importorskip(library)
    assert EXAMPLE["main"]([name, "-k", "3", "-t", "8", "-r", "1"]) == 0
    shown = capsys.readouterr().out
    assert re.match(rf"{name}: \d+ ms for \d+ rows, generate \d+ ms; the same scores\n", shown)
    assert len(shown.splitlines()) == 5


@pytest.mark.peers
def test_other_scores_would_be_seen(monkeypatch, capsys):
    for library in ("torch", "transformers"):
        pytest.importorskip(library)
    search = EXAMPLE["search"]
    wider = lambda model, texts, beam_size, most: search(model, texts, beam_size, most - 1)  # noqa: E731
    monkeypatch.setitem(EXAMPLE["main"].__globals__, "search", wider)
    assert EXAMPLE["main"](["gpt2", "-k", "3", "-t", "8", "-r", "1"]) == 1
    assert "scores that differ by" in capsys.readouterr().out


def test_it_says_what_must_be_installed(monkeypatch):
    monkeypatch.setitem(EXAMPLE["main"].__globals__, "find_spec", lambda name: None)
    with pytest.raises(Exception, match=r"^torch and transformers must be installed: pip install 'seqformats\[hf\]'$"):
        EXAMPLE["main"]([])


@pytest.mark.parametrize("arguments", [["rnn"], ["-k", "1"], ["-t", "0"], ["-r", "0"]])
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit):
        EXAMPLE["main"](arguments)
    assert "usage" in capsys.readouterr().err
