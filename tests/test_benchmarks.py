"""The benchmark runs, its candidates agree, and it writes what it says; no time is looked at."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"

pytestmark = [
    pytest.mark.passes("compiled", reason="it measures compiled kernels, in processes of its own"),
    pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="it comes with the source alone"),
]


def benchmarks(*options):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_all_candidates_agree():
    done = benchmarks("--check", "--shapes", "tiny")
    assert done.returncode == 0, done.stderr
    assert "reduce_sum gradient" in done.stdout


def test_it_writes_tables_numbers_and_pictures(tmp_path):
    done = benchmarks("--quick", "--shapes", "tiny", "--only", "list -> padded,reduce_max", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "benchmarks.json").read_text())
    cells = {(c["operation"], c["shape"], c["arrays"]): c for c in results["cells"]}
    cell = cells["list -> padded", "tiny", "NumPy"]
    assert cell["ratio"] > 0
    assert cell["of roof"] >= cell["of limit"] > 0
    page, table = (tmp_path / "benchmarks.md").read_text(), (tmp_path / "benchmarks" / "moves.md").read_text()
    assert "## Goals" in page
    assert "(benchmarks/moves.md)" in page
    assert "(benchmarks/moves.svg)" in page
    for name in cell["times"]:
        assert name in table or name not in (cell["best peer"], "seqformats")
    assert {path.name for path in tmp_path.glob("benchmarks/*.svg")} == {"moves.svg", "reduce.svg"}


def test_the_pages_are_what_the_recorded_numbers_make(tmp_path):
    shutil.copy(DOCS / "benchmarks.json", tmp_path)
    done = benchmarks("--report", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    made = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(made) > 10
    there = [DOCS / "benchmarks.json", DOCS / "benchmarks.md", *(DOCS / "benchmarks").iterdir()]
    assert sorted(str(path.relative_to(DOCS)) for path in there) == sorted(made)
    old = [name for name, text in made.items() if (DOCS / name).read_text() != text]
    assert not old, f"{old} are out of date: run python -m benchmarks --report"


def test_links_lead_to_files():
    for path in [DOCS / "benchmarks.md", *(DOCS / "benchmarks").glob("*.md")]:
        links = re.findall(r"\]\(([^)#:]+)\)", path.read_text())
        assert links
        assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_lost_cell_is_in_one_group():
    from benchmarks import reasons

    cells = json.loads((DOCS / "benchmarks.json").read_text())["cells"]
    groups = reasons.grouped(cells)
    lost = [cell for _, some in groups for cell in some]
    assert len(lost) == len(reasons.lost(cells))
    assert {id(cell) for cell in lost} == {id(cell) for cell in reasons.lost(cells)}
    page = (DOCS / "benchmarks.md").read_text()
    assert all(f"- **{reason.title}.** " in page for reason, _ in groups)


def test_no_report_without_numbers(tmp_path):
    done = benchmarks("--report", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "there is no" in done.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_of_that_name():
    done = benchmarks("--only", "nonsense")
    assert done.returncode == 1
    assert "nothing is called nonsense" in done.stderr
