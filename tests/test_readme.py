"""The README's examples run, it is short, and its links lead somewhere."""

import re
import runpy
import subprocess
import sys

import pytest
from pages import ROOT, blocks_of, broken, failures, without_torch

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks_of(ROOT / "README.md")


def test_examples_without_torch_show_what_comes():
    assert failures(without_torch(BLOCKS)) == []
    assert len(failures(broken(without_torch(BLOCKS), "([3., 5., 4.])", "([3., 4., 5.])"))) == 1


@pytest.mark.peers
def test_all_examples_show_what_comes():
    assert failures(BLOCKS) == []
    assert len(failures(broken(BLOCKS, "lengths [3, 2, 5]", "lengths [2, 3, 5]"))) == 1


def test_it_is_a_screen_and_a_half():
    assert len(README.splitlines()) <= 90


def test_the_commands_are_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"make ([\w-]+)", README)
    assert {"demo", "smoke", "test", "docs"} <= set(commands)
    assert [name for name in commands if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


@pytest.mark.parametrize("page", ["README.md", "docs/tour.md"])
def test_the_type_checker_reads_the_same_examples(page):
    code_of = runpy.run_path(str(ROOT / "tests" / "typing" / "check.py"))["code_of"]
    text = (ROOT / page).read_text(encoding="utf-8")
    read, lines = code_of(text).splitlines(), text.splitlines()
    typed = [x[4:] for block in blocks_of(ROOT / page) for x in block.splitlines() if x.startswith((">>> ", "... "))]
    assert [x for x in read if x] == typed
    assert all(line in ("", lines[k][4:]) for k, line in enumerate(read))  # on the lines where they stand


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert "docs/layouts.svg" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_picture_is_what_its_script_draws():
    script = ROOT / "docs" / "make_layouts.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
