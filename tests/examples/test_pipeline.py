"""The example at work on small files, in a process of its own, as a user starts it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "pipeline.py"
TEXT = """One short sentence. Then a somewhat longer sentence, with a comma in it!

A second document; it's here.
And it goes on over the line. \u00c9t\u00e9, na\u00efve, \u4e2d\u6587.


Third.
"""
COLUMNS = ["List", "Ragged", "Padded", "Packed", "Masked", "left", "LoD", "lists"]
pytestmark = pytest.mark.passes("compiled", reason="it runs in a process of its own")


def run(*arguments, text=None):
    environment = {name: value for name, value in os.environ.items() if name != "TEXT"}
    if text is not None:
        environment["TEXT"] = str(text)
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        env=environment | {"PYTHONIOENCODING": "utf-8"},
        check=False,
    )


def check_refused(done, *words):
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert all(str(word) in line for word in words), line


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    path = tmp_path_factory.mktemp("a folder") / "small text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return run(path)


def test_ends_with_the_check(done):
    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"same numbers from every encoding: max abs difference (\S+) \(limit (\S+)\)", last)
    assert found, last
    assert 0 <= float(found[1]) <= float(found[2]) == 1e-5


def test_counts_what_it_read(done):
    # "it's" is one word, "\u4e2d\u6587" too
    assert done.stdout.splitlines()[0] == "3 documents, 6 sentences, 29 words (25 different)"


def test_columns_are_explained(done):
    explained = done.stdout.partition("\nencoding")[0]
    assert all(word in explained for word in ("padding", '"to"', "GB/s", '"view"', "milliseconds", "layers"))


def test_table_has_every_encoding_and_conversion(done):
    lines = done.stdout.splitlines()
    header = next(k for k, line in enumerate(lines) if line.startswith("encoding"))
    assert lines[header].split()[-len(COLUMNS) :] == COLUMNS
    table = lines[header + 1 : header + 1 + 3 * 7]
    assert [line.split()[0] for line in table[::3]] == [*COLUMNS[:5], "Masked", "LoD"]
    for k, (times, rates, layers) in enumerate(zip(table[::3], table[1::3], table[2::3], strict=True)):
        for line in (times, rates):
            cells = line.split()[-len(COLUMNS) :]
            assert [j for j, cell in enumerate(cells) if cell == "."] == [k]
        assert re.fullmatch(r" +GRU \d+ ms, attention \d+ ms, feed-forward \d+ ms", layers)
        assert max(map(len, (times, rates, layers))) <= 120


def test_environment_names_the_file_too(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\ufeffOne. Two words.\r\n\r\nThree.", encoding="utf-8")
    done = run(text=path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 documents, 3 sentences, 4 words (4 different)\n")


def test_a_long_sentence_is_cut(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("word " * 200, encoding="utf-8")
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 documents, 4 sentences, 200 words (1 different)\n")


@pytest.mark.parametrize("content", [b"", b" \n\n \n", b"... !!\n\n--\n"], ids=["empty", "blank", "no words"])
def test_refuses_a_text_without_words(tmp_path, content):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    check_refused(run(path), path, "no words")


def test_refuses_what_is_not_utf8(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("caf\u00e9".encode("latin-1"))
    check_refused(run(path), path, "UTF-8", "byte 3", "0xe9")


def test_refuses_a_missing_file_and_a_folder(tmp_path):
    check_refused(run(tmp_path / "none.txt"), tmp_path / "none.txt", "No such file")
    check_refused(run(tmp_path), tmp_path, "directory")


def test_interrupt_ends_with_one_line():
    code = f"""
import runpy, sys
sys.argv = [{str(SCRIPT)!r}]
import seqformats as sf
def interrupt(*args, **kwargs):
    raise KeyboardInterrupt
sf.LoD.from_nested = interrupt
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode not in (0, -signal.SIGINT)
    assert done.stderr == "pipeline: interrupted\n"
