"""Threads over the same batches beside one that changes lists: on a Python without a GIL, with nothing between them."""

import sys
import threading

import numpy as np
import pytest
from passes import INTERPRETED

import seqformats as sf
from seqformats import core
from seqformats.launch.kernel import kernel

ROUNDS = 3 if INTERPRETED else 60
ITEMS = [np.full((k, 4), k, np.float32) for k in (3, 1, 0, 7, 2)]
NUMBERS = [[1, 2, 3], [4], [], [5, 6]]
PACKED, SUMS = sf.convert(ITEMS, sf.Packed).data, sf.reduce_sum(sf.convert(ITEMS, sf.Ragged))


def use(shared, arrays, numbers):
    """Conversions and operations over batches that do not change, and batches of lists that do."""
    for _ in range(ROUNDS):
        x = shared[0]
        assert np.array_equal(sf.convert(x, sf.Packed).data, PACKED)
        assert np.array_equal(sf.reduce_sum(x), SUMS)
        assert x[[1, 3]].lengths.tolist() == [1, 7]
        shared[0] = sf.convert(ITEMS, sf.Ragged)  # whose order nobody has found
        for changing in (arrays, numbers):
            try:
                y = sf.convert(changing, sf.Ragged)
            except ValueError:  # a list may be anything between two changes
                continue
            assert len(y.data) == y.lengths.sum()


def change(arrays, numbers, ends):
    k = 0
    while not ends.is_set():
        k += 1
        if k % 3:
            arrays.append(ITEMS[k % 5].copy())
            numbers[k % len(numbers)].extend([k, 10**6 + k])
        else:
            arrays.pop()
            numbers[k % len(numbers)].clear()
        if k % 20 == 0:
            arrays[:], numbers[k % 4] = ITEMS, [k]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_shared_batches_and_changing_lists(count):
    shared, arrays, numbers = [sf.convert(ITEMS, sf.Ragged)], list(ITEMS), [list(x) for x in NUMBERS]
    ends, failures = threading.Event(), []

    def guarded():
        try:
            use(shared, arrays, numbers)
        except BaseException as error:
            failures.append(error)

    changes = threading.Thread(target=change, args=(arrays, numbers, ends))
    threads = [threading.Thread(target=guarded) for _ in range(count)]
    changes.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ends.set()
    changes.join()
    assert failures == []


@pytest.mark.skipif(INTERPRETED or core.extension is None, reason="nothing has an address")
def test_a_kernel_that_is_forgotten_while_another_thread_runs_it():
    items = [np.full((k, 500), k, np.float32) for k in (600, 1, 640)]  # while so much is moved other threads run
    expected, ends = sf.convert(items, sf.Padded).data.copy(), threading.Event()
    address, before = kernel("pad_blocks").by_words[None], sys.getswitchinterval()

    def forget():
        while not ends.is_set():
            core.use_kernel("pad_blocks", 0)
            core.use_kernel("pad_blocks", address)

    thread = threading.Thread(target=forget)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(ROUNDS * 5):
            assert np.array_equal(sf.convert(items, sf.Padded).data, expected)
    finally:
        ends.set()
        thread.join()
        sys.setswitchinterval(before)
