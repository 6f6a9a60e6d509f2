"""The benchmark runs, its candidates agree, and it writes what it says; no time is looked at."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

pytestmark = [
    pytest.mark.skipif(INTERPRETED, reason="it measures compiled kernels"),
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
    text = (tmp_path / "benchmarks.md").read_text()
    assert "### Goals" in text
    for name in cell["times"]:
        assert name in text or name not in (cell["best peer"], "seqformats")
    assert list(tmp_path.glob("*.svg"))


def test_nothing_of_that_name():
    done = benchmarks("--only", "nonsense")
    assert done.returncode == 1
    assert "nothing is called nonsense" in done.stderr
