"""Fast paths where no memory is left: the right result or MemoryError, no crash, and no reference lost or kept."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent

pytestmark = [
    pytest.mark.passes("compiled", reason="fast paths run machine code"),
    pytest.mark.skipif(
        sys.platform == "win32" or importlib.util.find_spec("_testcapi") is None,
        reason="this Python cannot be told to find no memory",
    ),
]


def test_every_piece_of_memory_may_be_missing():
    pytest.importorskip("numba")
    env = {key: value for key, value in os.environ.items() if key != "SEQFORMATS_GUARD"}
    env["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parent), env.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / "without_memory.py")], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, last = done.stdout.splitlines()
    assert wrong == []
    assert last.endswith("calls found no memory")
    assert int(last.split()[0]) > 1000
