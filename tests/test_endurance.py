"""Many calls, in many threads, beside forks: every result is right, and nothing is kept.

``SEQFORMATS_ENDURANCE=100`` is the full length, a million calls, 10,000 in each of 16 threads and 200 forks; by default
it is 1, a hundredth of that.
"""

import gc
import multiprocessing
import os
import pathlib
import sys
import threading

import every_call
import numpy as np
import numpy.random
import pytest
from test_threads import FORK, in_child, meanwhile, run

import seqformats as sf

LENGTH = int(os.environ.get("SEQFORMATS_ENDURANCE") or 1)
COMMON = ("f4", "f8", "i8", "u1")

pytestmark = pytest.mark.passes("compiled", "guarded", reason="interpreted kernels are Python, and slow")
counted = pytest.mark.passes("compiled", reason="memory and references are kept by Python, checks or not")


def some_calls(seed, batches, change=every_call.copied):
    """Calls with the results that they have."""
    found = []
    for number in range(batches):
        for call in every_call.draw(np.random.default_rng([seed, number]), COMMON, 20):
            call = call.on(change(call.args))
            wanted = call()
            if not every_call.failed(wanted):
                found.append((call, wanted))
    return found


def check(call, wanted):
    every_call.assert_same_bits(call(), wanted, call.name)


# ------------------------------------------------------------------------------------------------------ threads


def together(calls, each, threads=16):
    """Each thread makes so many of the calls, in an order of its own."""
    failures = []
    start = threading.Barrier(threads)

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait()
        try:
            for k in rng.integers(0, len(calls), each):
                check(*calls[k])
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert failures == []


def test_sixteen_threads(default_threads):
    together(some_calls(1, 6), 100 * LENGTH)


def test_sixteen_threads_that_share_the_pool(default_threads, threads_for_all):
    sf.set_num_threads(3)
    together(some_calls(2, 3), 25 * LENGTH)


@pytest.mark.peers
def test_sixteen_threads_with_tensors(default_threads):
    pytest.importorskip("torch")
    together(some_calls(3, 3, every_call.in_torch), 50 * LENGTH)


# -------------------------------------------------------------------------------------------------------- forks


def first_checks(calls=None):
    """What a child does."""
    for call, wanted in calls or some_calls(7, 1):
        check(call, wanted)


def fork_again_and_again():
    calls = some_calls(7, 2)
    sf.set_num_threads(3)
    numbers = iter(range(10**9))

    def work():
        check(*calls[next(numbers) * 7 % len(calls)])

    with meanwhile(work, threads=8):
        for _ in range(2 * LENGTH):
            in_child(lambda: first_checks(calls[::5]))


@FORK
def test_forks_beside_eight_threads():
    run("import test_endurance\ntest_endurance.fork_again_and_again()")


def processes(way):
    with meanwhile(first_checks, threads=2), multiprocessing.get_context(way).Pool(2) as pool:
        for _ in range(LENGTH):
            pool.starmap(first_checks, [()] * 4)


@pytest.mark.parametrize("way", [way for way in multiprocessing.get_all_start_methods() if way != "forkserver"])
def test_pools_of_processes(way):
    run(f"import test_endurance\ntest_endurance.processes({way!r})")


# ------------------------------------------------------------------------------------------------------- memory


def resident():
    """Bytes of this process that are in memory; 0 where the system does not say."""
    try:
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def objects_of(x, found):
    """The arguments of a call and what they are made of."""
    found.append(x)
    if type(x) in (list, tuple):
        for part in x:
            objects_of(part, found)
    elif hasattr(x, "__dataclass_fields__"):
        for name in x.__dataclass_fields__:
            objects_of(getattr(x, name), found)
    elif isinstance(x, np.ndarray):
        found.append(x.dtype)
    return found


def counts(objects):
    """Of references to each, of blocks that Python has allocated, of objects it looks after."""
    gc.collect()
    references = [sys.getrefcount(x) for x in objects]
    return np.array(references), sys.getallocatedblocks(), len(gc.get_objects())


@pytest.fixture
def few_objects():
    """The collector of garbage passes over what is there already."""
    gc.collect()
    gc.freeze()


def keeps_nothing(calls, each):
    """Each of the calls, so many times, leaves all counts about as they were."""
    for call, _ in calls:
        # numbers, texts and such are everybody's
        objects = [x for x in objects_of(call.args, []) if not isinstance(x, (int, str, float, type(None)))]
        for _ in range(8):  # free lists and such fill up, but a leak goes on
            kept = growth(call, each, objects)
            if not kept:
                break
        assert not kept, f"{call.name} keeps {kept}"


def growth(call, each, objects):
    """What has become so much more that it may be due to the calls, in words."""
    function, args = call.function, call.args
    references, blocks, looked_after = counts(objects)
    for _ in range(each):
        function(*args)
    more_references, more_blocks, more_looked_after = counts(objects)
    found = {
        "references": abs(more_references - references).max(),
        "blocks": more_blocks - blocks,
        "objects": more_looked_after - looked_after,
    }
    return ", ".join(f"{count} {what}" for what, count in found.items() if count > each // 4)


@counted
def test_calls_keep_nothing(few_objects):
    calls = some_calls(4, 2)
    keeps_nothing(calls, max(10_000 * LENGTH // len(calls), 300))


@counted
def test_calls_do_not_grow(few_objects):
    """The same calls again and again, all kinds in turn: after the first rounds, the process stays as large."""
    calls = some_calls(5, 2)
    rounds = max(10_000 * LENGTH // len(calls), 20)
    sizes = []
    for turn in range(rounds):
        for call, _ in calls:
            call.function(*call.args)
        if turn % max(rounds // 20, 1) == 0:
            gc.collect()
            sizes.append(resident())
    grown = min(sizes[-3:]) - max(sizes[:5])
    assert grown < (4 << 20), f"{grown} bytes more: {sizes}"


@counted
@pytest.mark.parametrize("what", ["list", "object", "array", "reference"])
def test_a_leak_is_noticed(what, few_objects):
    kept = []

    def leak(x):
        kept.append(
            {"list": lambda: [1.5], "object": object, "array": lambda: np.zeros(9), "reference": lambda: x}[what]()
        )

    with pytest.raises(AssertionError, match="leak"):
        keeps_nothing([(every_call.Call("leak", leak, (np.zeros(3),)), None)], 200)


@pytest.mark.peers
def test_calls_with_tensors_keep_nothing(few_objects):
    torch = pytest.importorskip("torch")

    calls = some_calls(6, 2, every_call.in_torch)
    keeps_nothing(calls, max(5_000 * LENGTH // len(calls), 300))
    x = torch.randn(30, 5, requires_grad=True)

    def forth_and_back(x):
        padded = sf.convert(sf.Ragged(x, [10, 0, 20]), sf.Padded)
        sf.reduce_sum(sf.softmax(padded)).sum().backward()
        x.grad = None

    keeps_nothing([(every_call.Call("autograd", forth_and_back, (x,)), None)], 300 * LENGTH)
