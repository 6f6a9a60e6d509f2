"""The README's examples run, one after the other as a reader would type them, and its links lead somewhere."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def run_blocks(blocks):
    names = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)


def test_examples_run():
    assert BLOCKS
    assert README.count("```python") == len(BLOCKS)
    run_blocks(BLOCKS)


def test_a_wrong_example_would_be_seen():
    wrong = BLOCKS[0].replace("[3.0, 1.0, 7.0]", "[1.0, 3.0, 7.0]")
    assert wrong != BLOCKS[0]
    with pytest.raises(AssertionError):
        run_blocks([wrong])


def test_the_type_checker_reads_the_same_examples():
    code_of = runpy.run_path(str(ROOT / "tests" / "typing" / "check.py"))["code_of"]
    read, lines = code_of(README).splitlines(), README.splitlines()
    assert [line for line in read if line] == [line for block in BLOCKS for line in block.splitlines() if line]
    assert all(line in ("", lines[k]) for k, line in enumerate(read))  # on the lines where they stand


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert "docs/layouts.svg" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_picture_is_what_its_script_draws():
    script = ROOT / "docs" / "make_layouts.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
