"""No kernel has a hazard: what it does to memory is the same in every order of its threads and blocks.

Kernels run as code for a GPU on the CPU, see `ptx_hazards`.  A drawn part of all calls is tried in each run, which
``SEQFORMATS_HAZARDS`` names by a number, and with ``SEQFORMATS_HYPOTHESIS=nightly`` all of them.
"""

import itertools
import os
import pathlib
from typing import TYPE_CHECKING

import every_call
import numpy as np
import of_ptx
import ptx
import pytest
from elsewhere import There
from passes import INTERPRETED

import seqformats as sf
from seqformats import kernels
from seqformats.launch.kernel import kernel

if TYPE_CHECKING:  # put among the globals of a kernel before it is compiled
    from seqformats.kernels.parts.gpu import gpu, natural
    from seqformats.kernels.parts.keys import came_last

if INTERPRETED:
    pytest.skip("accesses are watched by compiled functions", allow_module_level=True)
import ptx_hazards

pytestmark = [
    pytest.mark.passes("compiled", reason="it compiles kernels"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

GRID, BLOCK = (3, 1, 1), (8, 1, 1)

# ------------------------------------------------------------------------------------------- kernels with a fault


def good(x, out):
    """Through the memory of the block, and among blocks by the last of them."""
    room = natural(gpu.shared.array(8, np.int64))
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    room[k] = x[8 * block + k]
    gpu.syncthreads()
    out[8 * block + k] = room[7 - k]
    gpu.syncthreads()
    last = came_last(out, 24, gpu.gridDim.x, room)
    if last and k == 0:
        for p in range(24):
            out[25] += out[p]


def without_a_barrier(x, out):
    room = natural(gpu.shared.array(8, np.int64))
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    room[k] = 0
    gpu.syncthreads()
    room[k] = x[8 * block + k]
    out[8 * block + k] = room[7 - k]


def used_again_without_a_barrier(x, out):
    room = natural(gpu.shared.array(8, np.int64))
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    room[k] = x[8 * block + k]
    gpu.syncthreads()
    out[8 * block + k] = room[7 - k]
    room[k] = 0


def in_global_memory_without_a_barrier(x, out):
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    out[8 * block + k] = x[8 * block + k]
    x[8 * block + k] = out[8 * block + 7 - k]


def off_by_one(x, out):
    p = 8 * gpu.blockIdx.x + gpu.threadIdx.x
    out[p + 1] = x[p + 1]


def before_the_array(x, out):
    p = 8 * gpu.blockIdx.x + gpu.threadIdx.x
    out[p] = x[p - 1]


def off_by_one_in_shared_memory(x, out):
    room = natural(gpu.shared.array(8, np.int64))
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    room[k + 1] = x[8 * block + k]
    gpu.syncthreads()
    out[8 * block + k] = room[k + 1]


def unwritten_shared_memory(x, out):
    """All but one place of it, which is read."""
    room = natural(gpu.shared.array(8, np.int64))
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    if k != 5:
        room[k] = x[8 * block + k]
    gpu.syncthreads()
    out[8 * block + k] = room[k]


def unwritten_result(x, out):
    p = 8 * gpu.blockIdx.x + gpu.threadIdx.x
    out[p] += x[p]


def divergent(x, out):
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    if x[k] > 3:
        gpu.syncthreads()
    out[8 * block + k] = 1


def same_place_from_blocks(x, out):
    k = gpu.threadIdx.x
    out[k] = x[k]


def same_place_from_threads(x, out):
    block = gpu.blockIdx.x
    out[block] = x[block]


def read_from_other_blocks(x, out):
    """Return places written in this launch, with nothing that says they are there."""
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    out[8 * block + k] = x[k]
    gpu.syncthreads()
    if block == 1:
        x[8 + k] = out[k]


def counted_without_a_fence(x, out):
    """The last block adds up what the others have written, which need not be there."""
    k, block = gpu.threadIdx.x, gpu.blockIdx.x
    room = natural(gpu.shared.array(1, np.int64))
    out[8 * block + k] = x[8 * block + k]
    gpu.syncthreads()
    if k == 0:
        room[0] = gpu.atomic.add(out, 24, 1)
    gpu.syncthreads()
    if room[0] == 2 and k == 0:
        for p in range(24):
            out[25] += out[p]


def of_an_odd_place(x, out):
    """`x` begins between two words."""
    p = 8 * gpu.blockIdx.x + gpu.threadIdx.x
    out[p] = x[p]


FAULTS = {
    good: "",
    without_a_barrier: "no barrier between two threads",
    used_again_without_a_barrier: "no barrier between two threads",
    in_global_memory_without_a_barrier: "no barrier between two threads",
    off_by_one: "outside of every array",
    before_the_array: "outside of every array",
    off_by_one_in_shared_memory: "outside of every array",
    unwritten_shared_memory: "other garbage",
    unwritten_result: "other garbage",
    divergent: "wait for others",
    same_place_from_blocks: "nothing between two blocks",
    same_place_from_threads: "no barrier between two threads",
    read_from_other_blocks: "nothing between two blocks",
    counted_without_a_fence: "nothing between two blocks",
    of_an_odd_place: "does not suit a machine word",
}


@pytest.mark.parametrize("function", FAULTS, ids=lambda function: function.__name__)
def test_faults_are_found(function):
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    text = of_ptx.text_of(function, ("i8.32", "i8.32"), (9, 0))
    memory = np.arange(25 * 8, dtype="u1")
    x, out = np.arange(24), np.full(27, 0)
    begin = x.ctypes.data
    if function is of_an_odd_place:
        begin = memory.ctypes.data + 4
    if function is unwritten_result:
        out.view("u1")[:] = ptx.GARBAGE
    size = 24 if function is off_by_one else 26
    words = [0, 0, 24, 8, begin, 24, 8, 0, 0, size, 8, out.ctypes.data, size, 8]

    def start():
        ptx_hazards.run(function.__name__, text, GRID, BLOCK, words)

    if not FAULTS[function]:
        start()
        assert out[:24].tolist() == [8 * block + 7 - k for block in range(3) for k in range(8)]
        assert out[24:].tolist() == [0, sum(range(24)), 0]
        return
    with pytest.raises(AssertionError, match=FAULTS[function]):
        start()


def test_arrays_of_many_bytes_are_watched():
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    text = of_ptx.text_of(off_by_one, ("i8.32", "i8.32"), (9, 0))
    x, out = np.arange(26), np.full(10_000_000, 0)
    words = [0, 0, 26, 8, x.ctypes.data, 26, 8, 0, 0, out.size, 8, out.ctypes.data, out.size, 8]
    ptx_hazards.run("within", text, GRID, BLOCK, words)
    words[11] += out.nbytes - 8 * 24  # its last write is the item behind the last
    words[9] = words[12] = 24
    with pytest.raises(AssertionError, match="outside of every array"):
        ptx_hazards.run("beyond", text, GRID, BLOCK, words)


def test_what_is_given_an_address_alone_writes_to_the_array_there(monkeypatch):
    with ptx_hazards.watched(monkeypatch):
        one, other = (np.zeros(8, "i8").view(There) for _ in range(2))
        begin = other.ctypes.data
        assert ptx_hazards.areas_of([begin + 8, 5]) == [[begin, begin + 64]]
        every = ptx_hazards.areas_of([0, 5])  # of addresses that are in memory
        for begin in (one.ctypes.data, other.ctypes.data):
            assert any(low <= begin and begin + 64 <= high for low, high in every)


# ------------------------------------------------------------------------------------------- kernels of the house

NIGHTLY = os.environ.get("SEQFORMATS_HYPOTHESIS") == "nightly"
PART = int(os.environ.get("SEQFORMATS_HAZARDS", "0"))
CALLS = 400 if NIGHTLY else 250
MOST = 1 << 18  # numbers of a batch: medians of 3,900,000 are watched for more than five minutes
SLOW = {"levenshtein", "minimum_bayes_risk", "cross", "gradient_of_cross", "block_mask"}  # of long sequences


def there(x):
    return every_call.mapped(lambda array: np.array(array).view(There), x)


def calls(rng, longest):
    """All kinds of calls, of batches of one dtype each, without end."""
    while True:
        dtype = ("f4", "f4", "i8", "f2", "f8", "u1", "?")[rng.integers(7)]
        for call in every_call.draw(rng, (dtype,), longest, MOST):
            if longest < 100 or call.name not in SLOW:
                yield call


def hazards(rng, longest, count):
    """Return the findings of so many calls."""
    found = []
    for call in itertools.islice(calls(rng, longest), count):
        try:
            call.on(there(call.args))()
        except AssertionError as error:
            found.append(f"{call.name}: {error}")
    return found


def test_a_part_of_all_calls(monkeypatch):
    with ptx_hazards.watched(monkeypatch) as driver:
        assert not hazards(np.random.default_rng(PART), 70, CALLS)
        assert len(driver.taken) > 20


def test_what_several_threads_know_is_written_by_one(monkeypatch):
    """A level's share is the same for every column, and a count for every thread of a line."""
    with ptx_hazards.watched(monkeypatch) as driver:
        x = there(sf.Ragged(np.arange(160, dtype="f4").reshape(20, 8), [3, 0, 17]))
        every_call.gradient(sf.reduce_quantile, x, [0.1, 0.77])
        assert driver.taken["quantile_rows"]
        sf.filter(x, there(np.arange(20) % 3 > 0))
        assert driver.taken["move_kept"]


@pytest.mark.skipif(not NIGHTLY, reason="takes long")
@pytest.mark.parametrize("longest", [5, 70, 400, 5000])
@pytest.mark.parametrize("part", range(1, 4))
def test_all_calls(part, longest, monkeypatch):
    with ptx_hazards.watched(monkeypatch) as driver:
        assert not hazards(np.random.default_rng([part, longest]), longest, 5 * CALLS)
        SEEN.update(driver.taken)


@pytest.mark.skipif(not NIGHTLY, reason="takes long")
@pytest.mark.parametrize("vocabulary", [7, 300, 5000, 33_000])
def test_beams(vocabulary, monkeypatch):
    table = np.random.default_rng(vocabulary).standard_normal((17, vocabulary)).astype("f4").view(There)

    def step(state):
        return table[np.asarray(state.tokens) % 17], state.memory

    with ptx_hazards.watched(monkeypatch) as driver:
        for beams in (1, 5, 40):
            memory = np.zeros(2).view(There)
            sf.beam_search(step, memory, start=0, end=1, beam_size=beams, max_new_tokens=3)
        assert driver.taken["best_tokens"]
        SEEN.update(driver.taken)


SEEN = set()
NOT_SEEN = {"fill_inputs"}  # its library has a name of its own


@pytest.mark.skipif(not NIGHTLY, reason="takes long")
def test_all_kernels_have_run():
    """In the tests before this one."""
    folder = pathlib.Path(kernels.__file__).parent
    names = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    missing = {name for name in names if kernel(name).load().cuda} - SEEN - NOT_SEEN
    assert not missing, sorted(missing)
