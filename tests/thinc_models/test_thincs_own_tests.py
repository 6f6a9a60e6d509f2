"""Thinc's own tests of sequences pass with the Ops and the layers of this library in the place of Thinc's."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.peers, pytest.mark.bridges]
pytest.importorskip("thinc.api")

TESTS = Path(find_spec("thinc").submodule_search_locations[0]) / "tests"
FILES = [
    "layers/test_with_transforms.py",
    "layers/test_transforms.py",
    "layers/test_reduce.py",
    "layers/test_with_flatten.py",
    "layers/test_parametric_attention_v2.py",
    "layers/test_basic_tagger.py",
    "layers/test_lstm.py",
    "test_indexing.py",
    "backends/test_ops.py",
]
COUNT = 398


def outcomes(*options):
    """What becomes of each of Thinc's tests, in a process of its own."""
    command = [sys.executable, "-m", "pytest", *options, "-q", "-rA", "-p", "no:cacheprovider", "-c", os.devnull]
    command += ["-W", "ignore", f"--rootdir={TESTS}", "--tb=line", *[str(TESTS / file) for file in FILES]]
    command += ["-k", "not torch and not gpu"]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}, timeout=900
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR) \S*?([\w/]+\.py::\S+)", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {name: outcome for outcome, name in found}


def test_they_pass():
    ours = outcomes("-p", "in_thincs_place")
    assert [name for name, outcome in ours.items() if outcome != "PASSED"] == []
    assert len(ours) >= COUNT
