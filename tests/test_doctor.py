"""`doctor`: what it finds, and that it finds what is wrong."""

import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

import seqformats as sf
from seqformats import core, health
from seqformats.native import code
from seqformats.native.shipped_files import Shipped


def check(name, found=None):
    (only,) = [check for check in (found or sf.doctor()).checks if check.name == name]
    return only


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "seqformats", "doctor", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_check_says_something():
    found = sf.doctor()
    names = [check.name for check in found.checks]
    assert len(names) == len(set(names))
    assert {"versions", "machine code", "CPU", "cache", "extension", "threads", "GPUs", "environment"} <= set(names)
    for one in found.checks:
        assert one.state in ("ok", "note", "problem")
        assert one.text
        assert one.advice or one.state != "problem"
        assert f"{one.state:8}{one.name}" in repr(found)
    assert np.__version__ in check("versions", found).text


def test_nothing_is_imported_that_need_not_be_there():
    script = """
import sys
import types
import seqformats as sf
sf.doctor()
found = {name.partition(".")[0] for name in sys.modules}
assert not found & {"numba", "numba_cuda", "torch", "cupy", "jax", "pyarrow", "matplotlib", "thinc"}, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_command_prints_it_and_says_whether_there_is_a_problem(tmp_path):
    tmp_path.chmod(0o700)
    good = command(SEQFORMATS_CACHE_DIR=str(tmp_path / "own"))
    assert good.returncode == 0, good.stdout
    assert "ok      versions" in good.stdout
    assert f"{tmp_path / 'own'}, made with the first kernel" in good.stdout
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    bad = command(SEQFORMATS_CACHE_DIR=str(tmp_path / "open"))
    assert bad.returncode == 1
    assert "problem cache" in bad.stdout
    assert "others may write" in bad.stdout
    assert "-> give SEQFORMATS_CACHE_DIR a folder" in bad.stdout


def test_a_folder_is_counted(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    (tmp_path / "one.code").write_bytes(bytes(1_500_000))
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(tmp_path))
    assert check("cache").text == f"{tmp_path}: 1 files, 1.5 MB, yours and writable"
    monkeypatch.setenv("SEQFORMATS_CACHE", "0")
    assert check("cache")[1:3] == ("note", "none (SEQFORMATS_CACHE=0)")


@pytest.mark.passes("compiled", reason="it is about machine code")
def test_machine_code(monkeypatch):
    monkeypatch.setattr(code, "why_not_shipped", lambda: "")
    monkeypatch.setattr(code, "list_outdated", list)
    monkeypatch.setattr(code, "damage", str)
    assert check("machine code").state == "ok"
    assert check("shipped code").state == "ok"
    monkeypatch.setattr(code, "list_outdated", lambda: ["copy_blocks", "sum_rows", "max_rows", "pad_blocks"])
    found = check("shipped code")
    assert found.state == "problem"
    assert "4 kernels" in found.text
    assert "copy_blocks, sum_rows, max_rows and others" in found.text


NO_CODE = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE: no memory becomes executable from now on
    sys.exit(77)
import numpy as np
import seqformats as sf
(problem,) = sf.doctor().problems
assert problem.name == "machine code" and "MemoryDenyWriteExecute" in problem.advice, problem
for call in CALLS:
    try:
        call()
    except sf.DeviceError as error:
        assert error.code == "SF503" and "may not have memory for machine code" in str(error), error
    else:
        sys.exit("no error")
"""


@pytest.mark.passes("compiled", reason="it is about machine code")
@pytest.mark.skipif(sys.platform != "linux", reason="a switch of Linux")
def test_memory_that_may_not_become_executable(tmp_path):
    """Check that what is to be compiled is an error of its own and a line of the doctor; LLVM would end the process."""
    calls = (
        "sf.Ragged(np.arange(5.0), [3, 0, 2])",
        "sf.convert([np.zeros(2)], sf.Ragged)",
        "sf.LoD.from_nested([[1], [2]])",
    )
    script = NO_CODE.replace("CALLS", f"[{', '.join(f'lambda: {call}' for call in calls)}]")
    more = {"SEQFORMATS_JIT": "1", "SEQFORMATS_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **more}, capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("this kernel of Linux has no such switch")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.passes("compiled", reason="it is about machine code")
def test_shipped_code_of_other_sources_is_found(tmp_path, monkeypatch):
    """A bundle with one kernel of these sources, one of others, and without all the rest."""
    (tmp_path / "x86-64-v3.so").write_bytes(b"not looked into")
    facts = {"sum_rows": {"stamp": code.stamp("sum_rows")}, "max_rows": {"stamp": "of others"}}
    Shipped.write(tmp_path / "x86-64-v3.so", facts, code.made_by())
    bundle = Shipped.open(tmp_path, "x86-64-v3")
    monkeypatch.setattr(code, "why_not_shipped", lambda: "")
    monkeypatch.setattr(code, "_bundle", lambda: bundle)
    found = code.list_outdated()
    assert "sum_rows" not in found
    assert "max_rows" in found
    assert "copy_blocks" in found
    assert check("shipped code").text == f"{tmp_path / 'x86-64-v3.so'} is damaged"


def test_the_extension(monkeypatch):
    assert check("extension").state in ("ok", "note")
    monkeypatch.setattr(core, "extension", None)
    assert "C compiler" in check("extension").advice
    monkeypatch.setattr(core, "extension", types.SimpleNamespace(SOURCES="others", __file__="fast.so"))
    assert check("extension").state == "problem"
    assert "left out by SEQFORMATS_CORE=0" in command(SEQFORMATS_CORE="0").stdout
    script = "from seqformats import core; print(core.extension)"
    left_out = {"env": os.environ | {"SEQFORMATS_CORE": "0"}, "check": True, "capture_output": True}
    assert subprocess.run([sys.executable, "-c", script], **left_out).stdout == b"None\n"


def test_old_releases_are_found(monkeypatch):
    wanted = ["numpy>=2.0", "numba>=0.61", 'thinc>=8.3; extra == "thinc"', "no-such-package>=1"]
    monkeypatch.setattr(health.importlib.metadata, "requires", lambda name: wanted)
    monkeypatch.setattr(health, "version_of", {"numpy": "1.26.4", "numba": "0.68.1+local", "thinc": ""}.get)
    assert list(health._too_old()) == ["'numpy>=2.0'", "'no-such-package>=1'"]
    monkeypatch.setattr(health, "version_of", lambda name: "9.10" if name != "thinc" else "8.2.9")
    assert list(health._too_old()) == ["'thinc>=8.3'"]
    found = check("versions")
    assert (found.state, found.advice) == ("problem", "pip install 'thinc>=8.3'")


@pytest.mark.usefixtures("default_threads")
def test_threads():
    sf.set_num_threads(1)
    assert "1 for large operations" in check("threads").text


def test_variables_in_force(monkeypatch):
    monkeypatch.setenv("SEQFORMATS_JIT", "1")
    found = check("environment")
    assert found.state == "note"
    assert "SEQFORMATS_JIT=1" in found.text


def test_gpus_are_left_alone(monkeypatch):
    def touched():
        raise AssertionError

    monkeypatch.setattr(health, "gpus", touched)
    monkeypatch.setattr(health, "version_of", lambda name: "0.30.4")
    monkeypatch.setattr(health, "_driver", lambda: "580.1")
    assert check("GPUs").text == "numba-cuda 0.30.4; driver 580.1; not looked at"
    monkeypatch.setattr(health, "version_of", lambda name: "")
    assert "cuda12" in check("GPUs").advice
    assert "cuda12" in health._gpus(True).advice
    shipped = types.SimpleNamespace(path=pathlib.Path("there/kernels.images"), damage=lambda: "")
    monkeypatch.setattr(health.cubins, "bundle", lambda: shipped)
    monkeypatch.setattr(health.cubins, "list_outdated", list)
    assert check("GPUs").text == "numba-cuda is not installed; code is shipped; driver 580.1; not looked at"
    monkeypatch.setattr(health.cubins, "list_outdated", lambda: ["sum_rows"])
    assert "there is of another release" in check("GPUs").text
    shipped.damage = lambda: "it is damaged"
    assert (check("GPUs").state, check("GPUs").text) == ("problem", "it is damaged")


@pytest.mark.passes("interpreted", reason="there is a GPU in the simulator")
def test_a_gpu_is_tried(monkeypatch):
    assert health._gpus(True).text.endswith("a sum there is right")
    monkeypatch.setattr(np, "asarray", lambda x: np.zeros(3))
    assert health._gpus(True).state == "problem"
    monkeypatch.setattr(health, "gpus", lambda: "none (no driver)")
    monkeypatch.setattr(health, "_driver", lambda: "580.1")
    assert health._gpus(True).state == "problem"


def test_a_gpu_that_fails_is_a_problem(monkeypatch):
    monkeypatch.setattr(health, "version_of", lambda name: "0.30.4")
    monkeypatch.setattr(health, "gpus", lambda: "a card")
    monkeypatch.setattr("seqformats.operations.library.to_device", lambda x, device: 1 / 0)
    found = health._gpus(True)
    assert found.state == "problem"
    assert "ZeroDivisionError" in found.text


def test_cuda_is_a_flag():
    with pytest.raises(TypeError, match="cuda must be True or False, not 1"):
        sf.doctor(cuda=1)
