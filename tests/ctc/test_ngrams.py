"""N-gram models: what KenLM has scored, a dictionary that backs off word by word, and files that cannot be read."""

import gzip
import re
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_oracle import LN10, random_model
from recorded_lm import RECORDED, write_models

import seqformats as sf
from seqformats.ctc import ngrams

WORDS = ["a", "b", "ab", "\u00e9", "\U0001f600x"]
PLAIN = """\\data\\
ngram 1=3
ngram 2=2

\\1-grams:
-1 <unk>
-2 a -0.5
-.5e0 b 0

\\2-grams:
-1 a b
-1 b a

\\end\\
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def read(folder, text, name="x.arpa"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return sf.NGrams.read(path)


@pytest.mark.parametrize("name", RECORDED["models"])
def test_what_kenlm_has_scored(models, folder, name):
    model = sf.NGrams.read(models[name])
    assert model.order == int(name)
    packed = gzip.compress(models[name].read_bytes())
    model.write(folder / "x.ngrams")
    for one in (model, read(folder, packed), sf.NGrams.read(folder / "x.ngrams")):
        for _, line, start, end, wanted in (score for score in RECORDED["scores"] if score[0] == name):
            found = one.log_probs([line], start=start, end=end)
            assert found.data.dtype == np.float64
            assert np.abs(found.data / LN10 - wanted).max() < 1e-5


@given(data=st.data())
def test_against_a_dictionary(folder, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 9999)))
    holes, unknown = data.draw(st.booleans()), data.draw(st.booleans())
    plain = random_model(rng, WORDS[: int(rng.integers(1, 6))], int(rng.integers(1, 6)), holes, unknown)
    text = plain.arpa(
        separator=data.draw(st.sampled_from(["\t", " ", "  "])),
        newline=data.draw(st.sampled_from(["\n", "\r\n"])),
        head=data.draw(st.sampled_from(["", "by hand\n"])),
    )
    text = text.replace("<unk>", data.draw(st.sampled_from(["<unk>", "<UNK>"])))
    model = read(folder, text)
    assert (model.order, len(model)) == (len(plain.levels), len(plain.known | {"<unk>"}))
    assert model.words[0] == "<unk>"
    assert set(model.words) == plain.known | {"<unk>"}
    model.save(folder / "x.ngrams")
    again = sf.NGrams.read(folder / "x.ngrams")
    lines = [rng.choice([*WORDS, "</s>", "zz", "<unk>"], int(rng.integers(0, 7))).tolist() for _ in range(4)]
    start, end = data.draw(st.booleans()), data.draw(st.booleans())
    found = model.log_probs(lines, start=start, end=end)
    assert sf.equal(found, again.log_probs(lines, start=start, end=end))
    for line, logs in zip(lines, found.sequences(), strict=True):
        words, before = [*line, *(["</s>"] if end else [])], ["<s>"] if start else []
        wanted = [plain.score((*before, *words[:k]), word) * LN10 for k, word in enumerate(words)]
        assert np.allclose(logs, wanted, rtol=1e-5, atol=1e-5)


def test_lines_of_words(folder):
    model = read(folder, PLAIN)
    assert model.log_probs(["a b", ["a", "b"], "", ("a",)], end=False).lengths.tolist() == [2, 2, 0, 1]
    assert "a" in model
    assert "zz" not in model
    assert 3 not in model
    assert repr(model) == "NGrams(order 2, 3 words, 5 n-grams)"
    for bad in ("a b", 3, [3], [[3]]):
        with pytest.raises(TypeError, match="must be a"):
            model.log_probs(bad)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("\\data\\", "data", "has no line .data., so it is neither"),
        ("ngram 2=2", "ngram 3=2", "line 3: 'ngram 2=' was expected here, not b'ngram 3=2'"),
        ("ngram 2=2", "ngram 2=x", "line 3: 'ngram 2=' was expected"),
        ("ngram 1=3", "ngram 1=999", "line 2: there are 999 1-grams, more than the file holds"),
        ("ngram 1=3\nngram 2=2\n", "", "the number of 1-grams was expected here"),
        ("\\2-grams:", "\\3-grams:", "line 10: .2-grams: was expected here"),
        ("-2 a -0.5", "x a -0.5", "line 7: the 1-gram begins with no finite number"),
        ("-2 a -0.5", "-2 a -inf", "line 7: the 1-gram begins with no finite number, or ends"),
        ("-2 a -0.5", "1e999 a", "line 7: the 1-gram begins with no finite"),
        ("-2 a -0.5", "2 a", "line 7: the 1-gram has a probability above 1"),
        ("-2 a -0.5", "-2 a 1 2 3", "line 7: the 1-gram has another number of words"),
        ("-2 a -0.5", "-2 b", "line 8: the 1-gram was there before"),
        ("-2 a -0.5", "-2 <UNK>", "line 7: the 1-gram was there before"),
        ("-1 b a", "-1 b c", "line 12: the 2-gram has a word that is no 1-gram"),
        ("-1 b a\n", "", "line 13: the 2-gram stands where another one was expected"),
        ("-1 b a", "-1 b a\n-1 b b", "line 13: .end. was expected here, behind 2 2-grams"),
        ("-1 b a", "-1 a b", "has the 2-gram 'a b' twice"),
        ("\n\\end\\\n", "", "ends in line 13, which is too early: .end. was expected"),
        ("-1 b a\n\n\\end\\\n", "", "ends in line 12, which is too early: the 2-gram stands where"),
    ],
)
def test_arpa_files_that_cannot_be(folder, old, new, words):
    assert PLAIN.count(old) >= 1
    with pytest.raises(sf.StructureError, match=words):
        read(folder, PLAIN.replace(old, new))


@given(st.integers(0, 10**6), st.booleans())
def test_bent_files_are_errors(folder, seed, believed):
    """Check what `write` has written and an ARPA file, bent: some bytes are others, or the end is missing.

    Where a checksum is believed that does not fit, the model may be another one, as an ARPA file may say.
    """
    rng = np.random.default_rng(seed)
    with mock.patch.object(ngrams, "_checksum", (lambda *_: 0) if believed else ngrams._checksum):
        model = read(folder, random_model(rng, WORDS, 3).arpa())
        model.write(folder / "whole.ngrams")
        for whole in ((folder / "whole.ngrams").read_bytes(), (folder / "x.arpa").read_bytes()):
            own, bent = whole[:10] == b"seqformats", bytearray(whole)
            parts = [(0, whole.find(b"}")), (64 * ngrams.HEAD, len(bent))] if own else [(0, len(bent))]
            for place in rng.integers(*parts[rng.integers(len(parts))], rng.integers(0, 4)).tolist():
                bent[place] = int(rng.integers(256))
            bent = bytes(bent)[: len(bent) if rng.integers(2) else int(rng.integers(len(bent)))]
            if own and rng.integers(3) == 0:  # an array that is another one
                bent = re.sub(rb'("nexts".*?)\d+\]', rb"\g<1>%d]" % rng.integers(64, 80), bent)
                bent = re.sub(rb"[|<][ifu](?=\d)", rng.choice([b"<i", b"0", b"|O"]), bent, count=int(rng.integers(2)))
            try:
                found = read(folder, bent, "bent").log_probs([WORDS * 3, ["b", "zz"]])
            except sf.StructureError:
                continue
            assert believed or not own or sf.equal(found, model.log_probs([WORDS * 3, ["b", "zz"]]))


def test_other_mistakes(folder):
    with pytest.raises(FileNotFoundError):
        sf.NGrams.read(folder / "nowhere")
    with pytest.raises(TypeError, match="a model is read from a path, not from 3"):
        sf.NGrams.read(3)
    with pytest.raises(TypeError, match="NGrams.read makes models of files, but this is 'x'"):
        sf.NGrams("x")
    with pytest.raises(sf.StructureError, match="cannot be unpacked"):
        read(folder, gzip.compress(PLAIN.encode())[:-12])
    (folder / "one.ngrams").write_bytes(b"kept")
    with pytest.raises(FileNotFoundError):
        read(folder, PLAIN).write(folder / "nowhere" / "one.ngrams")
    read(folder, PLAIN).write(folder / "one.ngrams")
    assert len(sf.NGrams.read(folder / "one.ngrams")) == 3
    other = (folder / "one.ngrams").read_bytes().replace(np.float32(-2).tobytes(), np.float32(-3).tobytes())
    with pytest.raises(sf.StructureError, match="its checksum is another one"):
        read(folder, other)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
