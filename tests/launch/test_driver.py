"""Whole operations beside a driver that notes what it is asked: starts, copies, waits, captures, errors, forks."""

import gc
import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from elsewhere import There
from stand_in import CAPTURE_INVALIDATED, ILLEGAL_ADDRESS, stand_in

import seqformats as sf
from seqformats.launch import parameters, resident

pytestmark = pytest.mark.passes("compiled", reason="nothing here is compiled, and the simulator has no driver")


@pytest.fixture
def there(monkeypatch):
    with stand_in(monkeypatch) as (driver, library):
        yield SimpleNamespace(driver=driver, library=library)


def batch(lengths=(1, 3), width=2):
    items = np.arange(sum(lengths) * width, dtype=np.float32).reshape(-1, width)
    return sf.Ragged(items.view(There), np.array(lengths))


CALLS = {
    "packed": lambda x: sf.convert(x, sf.Packed),
    "padded": lambda x: sf.convert(x, sf.Padded),
    "masked": lambda x: sf.convert(x, sf.Masked),
    "lod": lambda x: sf.convert(x, sf.LoD),
    "sum": sf.reduce_sum,
    "max": sf.reduce_max,
    "softmax": sf.softmax,
    "reverse": sf.reverse,
    "cumsum": sf.cumsum,
    "mask": sf.mask,
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@every_call
@pytest.mark.parametrize("small", [True, False])
def test_one_kernel_a_call_and_its_structure_once(there, call, small, monkeypatch):
    """A small one as parameters of a kernel, a larger one in one copy."""
    if not small:
        monkeypatch.setattr(parameters, "BYTES_PER_WRITE", 0)
    x = batch()
    call(x)
    first = [name for name, _ in there.driver.started()]
    assert there.driver.names().count("copy") <= (not small)
    assert first.count("write_words") <= small
    assert len(first) - first.count("write_words") <= 1
    there.driver.log.clear()
    call(x)
    assert set(there.driver.names()) <= {"launch"}
    assert there.driver.names().count("launch") <= 1


@every_call
@pytest.mark.parametrize("forgets", [resident.Resident.find_words, resident.Resident.remember])
def test_what_is_forgotten_meanwhile_is_not_sent_again(there, call, forgets, monkeypatch):
    """Another thread may have asked for many layouts, at any time."""

    def forgetful(own, *args):
        own._named.clear()
        return forgets(own, *args)

    x = batch()
    call(x)
    monkeypatch.setattr(resident.Resident, forgets.__name__, forgetful)
    there.driver.log.clear()
    call(x)
    call(x)
    assert set(there.driver.names()) <= {"launch"}


@every_call
def test_nothing_is_waited_for(there, call):
    there.driver.over = False
    x = batch()
    for there.library.current in (0, 5, 0):
        call(x)
    assert not [name for name in there.driver.names() if name.startswith("wait")]


@every_call
def test_kernels_go_to_the_current_stream(there, call):
    there.library.current = 5
    call(batch())
    assert {stream for _, stream in there.driver.started()} <= {5}


def test_a_padded_target_is_one_kernel_with_its_fill(there):
    sf.convert(batch(), sf.Masked)
    assert there.driver.started() == [("write_words", 0), ("pad_rows", 0)]


# --- structures that are there already ---


LATE = {name: call for name, call in CALLS.items() if name in ("masked", "sum", "max", "softmax", "cumsum")}


@pytest.mark.parametrize("call", LATE.values(), ids=LATE)
@pytest.mark.parametrize("captured", [False, True])
def test_trusted_offsets_are_neither_copied_nor_waited_for(there, call, captured):
    """Where they are, and under a graph that is captured from the first call on, too."""
    there.driver.over = False
    there.library.current = 5
    if captured:
        there.driver.captured.add(5)
    items = np.zeros((4, 2), np.float32).view(There)
    offsets = np.array([0, 1, 4]).view(There)
    call(sf.Ragged.from_offsets(items, offsets, longest=3, trusted=True))
    names = there.driver.names()
    assert "copy" not in names
    assert not [name for name in names if name.startswith("wait")]
    assert names.count("launch") == 1
    assert captured == ("record" not in names)


def test_trusted_lengths_and_masks_take_a_kernel_or_two(there):
    items = np.zeros((4, 2), np.float32).view(There)
    sf.Ragged.from_row_lengths(items, np.array([1, 3]).view(There), longest=3, trusted=True)
    mask = np.ones((4, 2), bool).view(There)
    sf.Masked.from_mask(items, mask, side="left", trusted=True)
    assert [name for name, _ in there.driver.started()] == ["add_lengths", "count_true", "add_lengths"]
    assert "copy" not in there.driver.names()


def test_another_stream_meets_what_made_trusted_offsets(there):
    there.library.current = 5
    x = sf.Ragged.from_offsets(np.zeros((4, 2)).view(There), np.array([0, 4]).view(There), longest=4, trusted=True)
    there.driver.over = False
    there.library.current = 7
    sf.reduce_sum(x)
    assert [name for name in there.driver.names() if name == "stream meets event"]


# --- errors ---


@pytest.fixture
def waiting(there, monkeypatch):
    monkeypatch.setattr(resident, "WAITS", True)
    return there


@every_call
def test_with_the_switch_every_kernel_is_waited_for(waiting, call):
    waiting.library.current = 5
    call(batch())
    names = waiting.driver.names()
    for place, name in enumerate(names):
        if name == "launch":
            assert waiting.driver.log[place + 1] == ("wait for stream", 5)


def test_with_the_switch_an_error_names_its_kernel(waiting):
    x = batch()
    sf.reduce_sum(x)
    waiting.driver.fails["wait for stream"] = ILLEGAL_ADDRESS
    with pytest.raises(sf.DeviceError, match=r"the kernel sum_rows, which was waited for: CUDA_ERROR_700"):
        sf.reduce_sum(x)
    with pytest.raises(sf.DeviceError, match=r"the kernel write_words, which was waited for: CUDA_ERROR_700"):
        sf.reduce_sum(batch())


def test_with_the_switch_a_capture_is_not_waited_for(waiting):
    """It would be invalid from there on."""
    x = batch()
    sf.reduce_sum(x)
    waiting.library.current = 5
    waiting.driver.captured.add(5)
    waiting.driver.log.clear()
    sf.reduce_sum(x)
    assert waiting.driver.names().count("launch") == 1
    assert "wait for stream" not in waiting.driver.names()


def test_a_kernel_that_cannot_be_started_is_named(there):
    x = batch()
    sf.reduce_sum(x)
    there.driver.fails["launch"] = ILLEGAL_ADDRESS
    with pytest.raises(sf.DeviceError, match=r"the kernel sum_rows, grid \(.*\), block \(.*\): CUDA_ERROR_700"):
        sf.reduce_sum(x)
    with pytest.raises(sf.DeviceError, match=r"the kernel write_words, of 4 threads: CUDA_ERROR_700"):
        sf.reduce_sum(batch())


def test_a_driver_that_compiles_nothing_has_copies_made(there, monkeypatch):
    """The kernel that writes small structures is compiled by the driver when it is loaded."""

    def load(image, entry, words, name):
        if name == "write_words":
            raise sf.DeviceError("CUDA_ERROR_JIT_COMPILER_NOT_FOUND")
        return type(there.driver).load(there.driver, image, entry, words, name)

    monkeypatch.setattr(there.driver, "load", load)
    for _ in range(2):
        sf.reduce_sum(batch())
    assert there.driver.names().count("copy") == 2
    there.library.current = 5
    there.driver.captured.add(5)
    with pytest.raises(sf.DeviceError, match=r"x\.structure_to"):
        sf.reduce_sum(batch())


def test_a_gpu_without_room_is_a_memory_error(there):
    there.driver.fails["launch"] = 2
    with pytest.raises(MemoryError):
        sf.reduce_sum(batch())


# --- captures ---


@every_call
def test_what_a_capture_cannot_have_leaves_nothing_behind(there, call, monkeypatch):
    """What is called after it is right: the structure goes up then, and is found by whoever comes later."""
    monkeypatch.setattr(parameters, "MAX_BYTES_IN_GRAPH", 0)
    x = batch()
    there.library.current = 5
    there.driver.captured.add(5)
    if call is not CALLS["lod"]:  # which shares the items
        with pytest.raises(sf.DeviceError, match=r"x\.structure_to"):
            call(x)
    assert not {"copy", "launch"} & set(there.driver.names())
    there.driver.captured.clear()
    call(x)
    call(x)
    assert there.driver.names().count("copy") <= 1


@pytest.mark.parametrize("order", [False, True])
def test_a_capture_after_structure_to(there, order, monkeypatch):
    x = batch()
    x.structure_to("cuda:0", order=order)
    there.library.current = 5
    there.driver.captured.add(5)
    there.driver.log.clear()
    sf.reduce_sum(x)
    if order:
        sf.convert(x, sf.Packed)
    else:
        monkeypatch.setattr(parameters, "MAX_BYTES_IN_GRAPH", 0)
        with pytest.raises(sf.DeviceError, match=r"order=True"):
            sf.convert(x, sf.Packed)
    assert "copy" not in there.driver.names()


def test_what_a_capture_has_seen_stays_when_the_batch_is_gone(there):
    x = batch()
    x.structure_to("cuda:0")
    there.library.current = 5
    there.driver.captured.add(5)
    sf.reduce_sum(x)
    (kept,) = resident._of_graphs
    address = kept.__array_interface__["data"][0]
    del x
    gc.collect()
    assert resident._of_graphs[0].__array_interface__["data"][0] == address


def test_an_error_of_a_capture_is_a_device_error(there):
    there.library.current = 5
    there.driver.fails["launch"] = CAPTURE_INVALIDATED
    with pytest.raises(sf.DeviceError, match="CUDA_ERROR_901"):
        sf.reduce_sum(batch())


# --- processes ---


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_asks_the_driver_for_nothing(there):
    """It may not: only what it starts itself would fail, and nothing that it forgets."""
    x = batch()
    sf.reduce_sum(x)
    there.driver.log.clear()
    child = os.fork()
    if not child:
        try:
            del x
            gc.collect()
            os._exit(len(there.driver.log))
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


SCRIPT = """
import sys
import numpy as np
from elsewhere import There
from seqformats.launch import cuda
from seqformats.native import cubins
from stand_in import ready
import seqformats as sf

found, library = ready()
x = sf.Ragged(np.zeros((4, 2), np.float32).view(There), np.array([1, 3]))
sf.reduce_sum(x)
sf.convert(x, sf.Masked)
print(sorted(kernel for kernel, _ in found.started()))
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"numba", "numba_cuda", "cuda"}))
"""


def test_a_process_that_finds_its_code_imports_no_compiler(tmp_path):
    """The first one compiles, which wants the package for CUDA but no GPU."""
    pytest.importorskip("numba_cuda")
    tmp_path.chmod(0o700)

    here = str(pathlib.Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"SEQFORMATS_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}

    def run():
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    kernels, compilers = run()
    assert kernels == "['pad_rows', 'sum_rows', 'write_words']"
    assert "numba" in compilers
    assert run() == [kernels, ""]
