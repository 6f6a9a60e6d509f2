"""Type checkers find the mistakes that users make: those of typing/mistakes.py, counted."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.passes("compiled", reason="it reads sources")

ROOT = Path(__file__).parent.parent
FILE = ROOT / "tests" / "typing" / "mistakes.py"
WANTED = 25


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
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    found = {int(number) for number in re.findall(r"mistakes\.py:(\d+):\d+ - error", done.stdout)}
    assert len(found & marked()) >= WANTED, done.stdout + done.stderr
    assert found <= marked(), "what is right is found to be wrong"
