"""Type checkers find the mistakes that users make, those of typing/mistakes.py, and editors offer what can be typed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import language_server
import pytest

pytestmark = pytest.mark.passes("compiled", reason="it reads sources")

ROOT = Path(__file__).parent.parent
FILE = ROOT / "tests" / "typing" / "mistakes.py"
WANTED = 28
PATHS = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))

BEGUN = """import numpy as np
import seqformats as sf
x = sf.Ragged(np.zeros(4), [1, 3])
"""
# What is typed, and what an editor offers then.
OFFERED = {
    "sf.convert(x, sf.Masked, f": {"fill="},
    "sf.convert(x, sf.Masked, s": {"side="},
    "sf.convert(x, sf.Masked, w": {"width="},
    "sf.convert(x, sf.Padded, t": {"truncate="},
    "sf.convert(x, sf.Padded, m": {"multiple_of="},
    "sf.convert(x, sf.Ragged, l": {"level=", "library="},
    "sf.convert(x, sf.Ragged, c": {"copy="},
    "sf.convert(x, sf.Ragged, d": {"dtype="},
    "sf.reduce_sum(x, e": {"empty="},
    "sf.convert(x, sf.Masked).l": {"lengths"},
}


def marked():
    """The lines with a mistake."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if "# mistake: " in line}


def test_there_are_thirty():
    assert len(marked()) == 30


def test_mypy_finds_them(tmp_path):
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    options = ["--strict", "--follow-imports", "silent", "--cache-dir", str(ROOT / ".cache" / "typing" / "mypy")]
    command = [sys.executable, "-m", "mypy", *options, str(FILE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {int(number) for number in re.findall(r"mistakes\.py:(\d+): error", done.stdout)}
    assert len(found & marked()) >= WANTED, done.stdout + done.stderr
    assert found <= marked(), "what is right is found to be wrong"


def test_pyright_finds_them(tmp_path):
    if find_spec("basedpyright") is None:
        pytest.skip("basedpyright is not installed")
    path = tmp_path / "mistakes.py"  # away from the settings of this project, as users have it
    path.write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--level", "error", str(path)]
    environment = os.environ | {"PYTHONPATH": PATHS}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = {int(number) for number in re.findall(r"mistakes\.py:(\d+):\d+ - error", done.stdout)}
    assert len(found & marked()) >= WANTED, done.stdout + done.stderr
    assert found <= marked(), "what is right is found to be wrong"


def test_editors_offer_the_options(tmp_path):
    if language_server.PROGRAM is None:
        pytest.skip("basedpyright is not installed")
    with language_server.language_server(tmp_path, PYTHONPATH=PATHS) as server:
        missing = {typed: wanted - server.completions(BEGUN + typed) for typed, wanted in OFFERED.items()}
    assert {typed: names for typed, names in missing.items() if names} == {}
