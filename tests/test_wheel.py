"""The wheel: built by pip, installed beside NumPy and Numba, and used by one who has no compiler and no cache.

A release is tested by the same: ``WHEEL`` in the environment names a wheel that is tested instead of one that is built
here, and ``PYTHONS`` the Pythons that it is installed for, with spaces between them.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile

import pytest
from pages import DOCS, blocks_of, script_of, without_torch

pytestmark = pytest.mark.wheel
ROOT = pathlib.Path(__file__).parents[1]
GIVEN = os.environ.get("WHEEL")
PYTHONS = os.environ.get("PYTHONS", "").split() or [sys.executable]
LARGEST, LARGEST_FOR_GPUS = 4_000_000, 40_000_000  # bytes
VERSION = re.search(r'__version__ = "(.*)"', (ROOT / "src/seqformats/__init__.py").read_text(encoding="utf-8"))[1]
SHOWN = script_of(without_torch([*blocks_of(ROOT / "README.md"), *blocks_of(DOCS / "tour.md")]))


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def built(folder, **environment):
    """The wheel, of a copy of the sources in which nothing else lies."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name in ("src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        path, copy = ROOT / name, source / name
        if path.is_dir():
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, copy)
    # no variable of this process may find its way into the wheel
    env = {**os.environ, "NUMBA_OPT": "0", "NUMBA_BOUNDSCHECK": "1", **environment}
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(folder / "out"), str(source), env=env)
    (found,) = (folder / "out").iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if GIVEN:
        return pathlib.Path(GIVEN).resolve(strict=True)
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=PYTHONS, ids=lambda name: pathlib.Path(name).name)
def python(wheel, tmp_path_factory, request):
    """The Python of a new environment, in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment")
    run(request.param, "-m", "venv", str(folder))
    found = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(str(found), "-m", "pip", "install", "--quiet", str(wheel))
    return found


@pytest.fixture
def alone(tmp_path):
    """The environment of one who has a home in which nothing can be written, and nothing else."""
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    return {"HOME": str(home), "PATH": "", "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}


def said(python, code, environment, folder, **more):
    """What a script prints; it is a file, as workers that are spawned need it."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    return run(str(python), "-W", "error", str(script), env={**environment, **more}, cwd=folder).stdout


# --- what is in it ---------------------------------------------------------------------------------------------------


def names_of_code(wheel):
    with zipfile.ZipFile(wheel) as file:
        return [name for name in file.namelist() if "/shipped/" in name]


def test_the_wheel_has_code(wheel):
    """For the level of this CPU; for every level where that is asked for."""
    levels = ["x86-64-v3", "x86-64-v4"] if platform.machine() in ("x86_64", "AMD64") else ["aarch64"]
    names = names_of_code(wheel)
    if os.environ.get("SEQFORMATS_SHIP") != "all":
        levels = [level for level in levels if f"seqformats/native/shipped/{level}.so" in names]
        assert len(levels) == 1
    assert sorted(names) == [f"seqformats/native/shipped/{level}.{end}" for level in levels for end in ("so", "table")]
    with zipfile.ZipFile(wheel) as file:
        assert "Root-Is-Purelib: false" in file.read(f"seqformats-{VERSION}.dist-info/WHEEL").decode()
        extension = any(name.startswith("seqformats/core/fast.") for name in file.namelist())
    assert ("-cp311-abi3-" if extension else "-py3-none-") in wheel.name
    assert not wheel.name.endswith("-any.whl")
    assert wheel.stat().st_size < LARGEST


def metadata(wheel):
    with zipfile.ZipFile(wheel) as file:
        assert {f"seqformats-{VERSION}.dist-info/licenses/LICENSE", "seqformats/py.typed"} <= set(file.namelist())
        return file.read(f"seqformats-{VERSION}.dist-info/METADATA").decode()


def test_no_link_of_the_long_description_is_relative(wheel):
    text = metadata(wheel)
    assert "Batches of sequences of different lengths" in text
    assert re.findall(r"\]\((?!https:)", text) == []


def test_a_wheel_without_code(tmp_path):
    found = built(tmp_path, SEQFORMATS_SHIP="0", SEQFORMATS_URL="https://example.org/seqformats/")
    place = f"https://example.org/seqformats/raw/v{VERSION}/docs/layouts.svg"
    assert f"![Three sequences laid out as List, Ragged, LoD, Padded, Packed and Masked]({place})" in metadata(found)
    assert "Project-URL: Source, https://example.org/seqformats\n" in metadata(found)
    assert found.name.endswith("-py3-none-any.whl")
    assert names_of_code(found) == []
    with zipfile.ZipFile(found) as file:
        assert not [name for name in file.namelist() if name.endswith(".so")]


def test_where_nothing_links(tmp_path):
    """Check that a wheel without code is made, and that a line says so; for a release it is an error."""
    run(sys.executable, "-m", "venv", str(tmp_path / "environment"))
    found = tmp_path / "environment" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(str(found), "-m", "pip", "install", "--quiet", "hatchling")
    command = [
        str(found),
        "-m",
        "pip",
        "wheel",
        "-v",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "SEQFORMATS_SHIP")}
    environment |= {"PATH": "", "HOME": str(tmp_path)}
    done = run(*command, env=environment)
    told = done.stdout + done.stderr
    assert "left out, they are compiled at first use: there is neither a C compiler" in told
    (wheel,) = tmp_path.glob("*-py3-none-any.whl")
    assert names_of_code(wheel) == []
    done = subprocess.run(command, env={**environment, "SEQFORMATS_SHIP": "all"}, capture_output=True, check=False)
    assert done.returncode


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_the_sdist_has_every_file(wheel):
    """All that is kept, but what serves the repository alone, and nothing else."""
    if not wheel.with_name(f"seqformats-{VERSION}.tar.gz").exists():
        pytest.skip("no sdist is beside the wheel")
    tracked = set(run("git", "ls-files", cwd=ROOT).stdout.splitlines())
    with tarfile.open(wheel.with_name(f"seqformats-{VERSION}.tar.gz")) as file:
        names = {name.split("/", 1)[1] for name in file.getnames()}
    assert {name for name in tracked if not name.startswith(".")} <= names
    assert names - tracked == {"PKG-INFO"}


def test_the_wheel_for_gpus_has_every_kernel(wheel, python, alone, tmp_path):
    """For each compute capability and as PTX, of the sources of this wheel."""
    found = list(wheel.parent.glob(f"seqformats_cuda13-{VERSION}-py3-none-any.whl"))
    if not found:
        pytest.skip("none is beside the wheel")
    assert found[0].stat().st_size < LARGEST_FOR_GPUS
    with zipfile.ZipFile(found[0]) as file:
        file.extractall(tmp_path / "unpacked")
    code = """
    import ast
    from seqformats.native import code, cubins, ship
    images, names = cubins.bundle(), ship.names()
    assert (images.damage(), cubins.list_outdated()) == ("", [])
    assert all(images.facts(name) for name in names if code.spec_of(name).cuda)
    lines = images.path.with_suffix(".table").read_text().splitlines()[1:]
    of_types = [ast.literal_eval(line.split("\\t")[1]) for line in lines if "(" in line.split("\\t")[0]]
    assert len(of_types) > 600
    assert all(list(facts["images"]) == [*cubins.SHIPPED_FOR, "ptx"] for facts in of_types)
    """
    said(python, code, alone, tmp_path, PYTHONPATH=str(tmp_path / "unpacked"))


# --- used ------------------------------------------------------------------------------------------------------------

OPERATIONS = """
import sys
import numpy as np
import seqformats as sf

def use():
    items = [np.ones((k, 4), np.float32) for k in (3, 1, 2)]
    x = sf.convert(items, sf.Ragged)
    for kind in (sf.Padded, sf.Masked, sf.Packed):
        assert np.array_equal(sf.convert(sf.convert(x, kind), sf.Ragged).data, x.data)
    assert sf.reduce_sum(x)[:, 0].tolist() == [3, 1, 2]
    assert sf.reduce_mean(x).sum() == 12
    assert sf.reduce_max(x).sum() == 12
    sf.softmax(x), sf.expand_as(np.ones((3, 4)), x), x[[2, 0]], sf.reverse(x), sf.window(x, 1, 1), sf.sort(x)
    assert sf.convert([[1, 2], [3]], sf.Padded).data.tolist() == [[1, 3], [2, 0]]

use()
"""
NO_NUMBA = """
assert "numba" not in sys.modules, "Numba was loaded"
"""
NOT_EVEN_LLVM = """
import platform
assert "llvmlite" not in sys.modules or (platform.machine(), sys.platform) != ("x86_64", "linux"), "LLVM was loaded"
"""


def test_operations_load_no_numba(python, alone, tmp_path):
    said(python, OPERATIONS + NO_NUMBA + NOT_EVEN_LLVM, alone, tmp_path)
    assert list((tmp_path / "home").iterdir()) == []


WITHOUT_EXECUTABLE_MEMORY = """
import ctypes
ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE, where this kernel of Linux has it
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a switch of Linux")
def test_operations_where_no_memory_becomes_executable(python, alone, tmp_path):
    said(python, WITHOUT_EXECUTABLE_MEMORY + OPERATIONS + NO_NUMBA, alone, tmp_path)


def test_the_readme_and_the_tour_load_no_numba(python, alone, tmp_path):
    said(python, "import sys\n" + SHOWN + NO_NUMBA + NOT_EVEN_LLVM, alone, tmp_path)


def test_the_check_above_can_fail(python, alone, tmp_path):
    with pytest.raises(AssertionError, match="Numba was loaded"):
        said(python, "import sys, numba" + NO_NUMBA, alone, tmp_path)


def test_the_command_says_where_code_is_from(python, alone, tmp_path):
    about = run(str(python), "-m", "seqformats", env=alone, cwd=tmp_path).stdout
    assert "machine code: shipped for " in about
    about = run(str(python), "-m", "seqformats", env={**alone, "SEQFORMATS_JIT": "1"}, cwd=tmp_path).stdout
    assert "(SEQFORMATS_JIT is set)" in about


def test_code_is_compiled_where_that_is_wanted(python, alone, tmp_path):
    """And then kept, and then Numba is not loaded again."""
    more = {"SEQFORMATS_JIT": "1", "SEQFORMATS_CACHE_DIR": str(tmp_path / "cache")}
    said(python, OPERATIONS + "assert 'numba' in sys.modules", alone, tmp_path, **more)
    said(python, OPERATIONS + NO_NUMBA, alone, tmp_path, **more)


def test_every_kernel_is_there(python, alone, tmp_path):
    """For the types of all its arguments, with the sources that it is of."""
    code = """
    from seqformats.native import code, ship
    todo = ship.jobs()
    assert len(todo) > 300
    for job in todo:
        assert code._find_shipped(job.name, job.text) is not None, job.text
        assert not job.signature or code._addresses([job.symbol]), job.text
    assert code.damage() == ""
    """
    said(python, code, alone, tmp_path)


SPAWNED = """
import multiprocessing
OPERATIONS

def worker(number):
    use()
    return "numba" in sys.modules

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(worker, range(4)) == [False] * 4
"""


def test_workers_load_no_numba(python, alone, tmp_path):
    said(python, SPAWNED.replace("OPERATIONS", OPERATIONS) + NO_NUMBA, alone, tmp_path)


LOADED = """
import torch
OPERATIONS

class Lengths(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, k):
        return torch.ones(k + 1)

def collate(samples):
    use()
    assert sf.convert(samples, sf.Padded).data.shape[1] == len(samples)
    return "numba" in sys.modules

if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(
        Lengths(), 2, num_workers=2, collate_fn=collate, multiprocessing_context="spawn"
    )
    assert list(loader) == [False] * 4
"""


def test_loader_workers_load_no_numba(wheel, alone, tmp_path):
    """In the environment of the bridges, where it is there; the wheel is unpacked beside it."""
    found = ROOT / ".venv-bridges" / "bin" / "python"
    if not found.exists():
        pytest.skip("the environment of the bridges is not there")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "unpacked")
    code = LOADED.replace("OPERATIONS", OPERATIONS)
    said(found, code, alone, tmp_path, PYTHONPATH=str(tmp_path / "unpacked"))


@pytest.fixture
def damaged(python, wheel, tmp_path):
    """A copy of what is installed whose machine code was not written to its end."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "unpacked")
    for path in (tmp_path / "unpacked").rglob("shipped/*.so"):
        os.truncate(path, path.stat().st_size // 2)
    return tmp_path / "unpacked"


def test_damaged_code_is_noticed(python, damaged, alone, tmp_path):
    (tmp_path / "script.py").write_text(OPERATIONS)
    more = {"PYTHONPATH": str(damaged), "SEQFORMATS_CACHE_DIR": str(tmp_path / "cache")}
    done = run(str(python), "script.py", env={**alone, **more}, cwd=tmp_path)
    assert "damaged" in done.stderr
    assert list((tmp_path / "cache").glob("*.so"))
