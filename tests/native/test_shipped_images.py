"""Code for GPUs that a package ships: which of it a driver is given, and when none."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from elsewhere import There
from stand_in import StandIn, stand_in

import seqformats as sf
from seqformats.native import code, cubins, ship
from seqformats.native.shipped_files import Images, compress

pytestmark = pytest.mark.passes("compiled", reason="nothing here is calculated, and the simulator takes no such code")

shipped_name = cubins.shipped_name
SIGNATURE = ("f4.32", "f4.32", "i")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """One that has `sum_rows` for two capabilities, and what writes it anew."""

    def write(stamp=None, without=()):
        images = {(8, 0): b"sm_80", (9, 0): b"sm_90", "ptx": b"ptx"}
        found = {key: compress(image) for key, image in images.items() if key not in without}
        name = shipped_name("sum_rows.short", SIGNATURE)
        facts = {"sum_rows": {"stamp": stamp or code.stamp("sum_rows")}}
        Images.write(tmp_path, facts, [(name, {"entry": "sum_rows_short"}, found)], "a compiler")
        return Images.open(tmp_path)

    monkeypatch.setattr(cubins, "image_of", lambda *_: cubins.Image(b"here", "name", "compiled"))
    monkeypatch.setattr(cubins, "is_kept", lambda *_: False)
    monkeypatch.delenv("SEQFORMATS_JIT", raising=False)
    monkeypatch.setattr(cubins, "bundle", write)
    return write


def offered(capability, name="sum_rows.short", signature=SIGNATURE, kept=True):
    return [image.data for image in cubins.images_of(name, None, signature, capability, kept)]


@pytest.mark.parametrize(
    ("capability", "images"),
    [
        ((8, 0), [b"sm_80", b"ptx\0", b"here"]),
        ((8, 9), [b"sm_80", b"ptx\0", b"here"]),
        ((9, 0), [b"sm_90", b"ptx\0", b"here"]),
        ((7, 5), [b"ptx\0", b"here"]),
        ((13, 1), [b"ptx\0", b"here"]),
        ((7, 0), [b"here"]),
    ],
)
def test_the_nearest_code_comes_first(package, capability, images):
    assert offered(capability) == images


def test_what_is_kept_comes_before_what_a_driver_would_have_to_compile(package, monkeypatch):
    monkeypatch.setattr(cubins, "is_kept", lambda *_: True)
    assert offered((13, 1))[0] == b"here"
    assert offered((9, 0))[0] == b"sm_90"


def test_what_is_not_used(package, monkeypatch):
    """Other types, a user's own kernel, other sources, damage, and by a switch."""
    assert offered((9, 0), signature=("f8.32", "f8.32", "i")) == offered((9, 0), kept=False) == [b"here"]
    stale = package(stamp="another")
    monkeypatch.setattr(cubins, "bundle", lambda: stale)
    assert offered((9, 0)) == [b"here"]
    assert cubins.list_outdated() == ["sum_rows"]
    images = package()
    monkeypatch.setattr(cubins, "bundle", lambda: images)
    assert (offered((9, 0))[0], cubins.list_outdated(), images.damage()) == (b"sm_90", [], "")
    whole = images.path.read_bytes()
    images.path.write_bytes(bytes(len(whole)))
    assert offered((9, 0)) == [b"here"]
    assert images.damage().endswith("kernels.images is damaged")
    images.path.write_bytes(whole[:-1])
    assert Images.open(images.path.parent) is None
    monkeypatch.setenv("SEQFORMATS_JIT", "1")
    monkeypatch.setattr(cubins, "bundle", package)
    assert offered((9, 0)) == [b"here"]


@pytest.mark.parametrize("refused", range(4))
def test_a_driver_that_does_not_load_what_was_shipped_gets_the_next(package, monkeypatch, refused):
    given = []

    class Old(StandIn):
        def load(self, image, entry, words, name):
            if name == "sum_rows":
                given.append(image)
                if len(given) <= refused:
                    raise sf.DeviceError("CUDA_ERROR_NO_BINARY_FOR_GPU")
            return super().load(image, entry, words, name)

    with stand_in(monkeypatch, Old(), cubins.image_of):
        batch = sf.Ragged(np.ones((3, 2), np.float32).view(There), np.array([1, 2]))
        monkeypatch.setattr(cubins, "bundle", package)
        monkeypatch.setattr(cubins, "shipped_name", lambda *_: shipped_name("sum_rows.short", SIGNATURE))
        with pytest.raises(sf.DeviceError, match="NO_BINARY") if refused == 3 else contextlib.nullcontext():
            sf.reduce_sum(batch)
    assert given == [b"sm_90", b"ptx\0", b"here"][: refused + 1]


SCRIPT = """
import sys
import numpy as np
from elsewhere import There
from seqformats.launch import cuda
from seqformats.native import code, cubins
from stand_in import ready
import seqformats as sf

compiled, origins = [], set()
def noted(function):
    def call(*args):
        compiled.append(args[0])
        return function(*args)
    return call
code.compile_now, cubins.compile_now = noted(code.compile_now), noted(cubins.compile_now)

found, library = ready()
load = found.load
def seen(image, *rest):
    origins.add(image[:4])
    return load(image, *rest)
found.load = seen
x = sf.Ragged(np.zeros((4, 2), np.float32).view(There), np.array([1, 3]))
sf.reduce_logsumexp(x)
sf.reverse(x)
print(sorted(kernel for kernel, _ in found.started()), b"\\x7fELF" in origins)
print(compiled, sorted({name.partition(".")[0] for name in sys.modules} & {"numba", "numba_cuda", "cuda", "llvmlite"}))
"""


def test_a_first_result_compiles_nothing_and_imports_no_compiler(tmp_path):
    """The package as `make release` makes it, of two kernels; the first process compiles what the CPU runs."""
    pytest.importorskip("numba_cuda", reason="it compiles what is shipped")
    folder = tmp_path / cubins.CUBIN_PACKAGES[0]
    folder.mkdir()
    (folder / "__init__.py").touch()
    said = []
    ship.ship_images(folder, said.append, [(9, 0)], ["logsumexp_rows", "reverse_rows"], processes=1)
    assert re.fullmatch(r"GPUs: 10 functions, 0\.\d MB, \d+ s", said[-1])
    path = [str(tmp_path), str(pathlib.Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    for _ in range(2):
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "['logsumexp_rows', 'reverse_rows', 'write_words'] True\n[] []\n"
