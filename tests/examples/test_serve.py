"""The example of a server: answers do not depend on what else is searched, and come sooner."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "serve.py"))


@pytest.mark.peers
def test_answers_come_sooner(capsys):
    for library in ("torch", "transformers"):
        pytest.importorskip(library)
    assert EXAMPLE["main"](["-n", "12", "-b", "4"]) == 0
    shown = capsys.readouterr().out.splitlines()
    pattern = r": (\d+) steps .* an answer takes ([\d.]+) steps"
    steps, takes = zip(*[re.search(pattern, line).groups() for line in shown[:2]], strict=True)
    assert int(steps[1]) < int(steps[0])
    assert float(takes[1]) < float(takes[0])
    assert shown[2:] == ["the answers are the same"]


@pytest.mark.peers
def test_other_answers_would_be_seen(monkeypatch, capsys):
    for library in ("torch", "transformers"):
        pytest.importorskip(library)
    serve = EXAMPLE["serve"]

    def worse(model, requests, most, *, together):
        found = serve(model, requests, most, together=together)
        return found._replace(tokens={number: tokens[together:] for number, tokens in found.tokens.items()})

    monkeypatch.setitem(EXAMPLE["main"].__globals__, "serve", worse)
    assert EXAMPLE["main"](["-n", "2"]) == 1
    assert "the answers differ" in capsys.readouterr().out


def test_it_says_what_must_be_installed(monkeypatch):
    monkeypatch.setitem(EXAMPLE["main"].__globals__, "find_spec", lambda name: None)
    with pytest.raises(Exception, match=r"^torch and transformers must be installed: pip install 'seqformats\[hf\]'$"):
        EXAMPLE["main"]([])


@pytest.mark.parametrize("arguments", [["-n", "0"], ["-b", "0"], ["x"]])
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit):
        EXAMPLE["main"](arguments)
    assert "usage" in capsys.readouterr().err
