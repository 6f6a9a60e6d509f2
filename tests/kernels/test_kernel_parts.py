"""What kernels are made of, where no kernel shows it by itself: compiled, and as plain Python has it."""

import numba
import numpy as np
import pytest
from passes import INTERPRETED

from seqformats.kernels.parts import clear, move, move_run, repeat_words
from seqformats.kernels.parts.record import group, kinds_of
from seqformats.launch.kernel import kernel

SIZES = [*range(1, 70), 96, 127, 128, 129, 130, 159, 160, 192, 255, 256, 257, 384, *range(1020, 1030), 1088, 1151, 4100]
ROWS, ROOM = 3, 256  # what is moved at a time, and bytes before, between and after


def moving(out, src, d, s, size):
    move(out, d, src, s, size)


def moving_rows(out, src, d, s, size):
    move_run(out, d, size + ROOM, src, s, size + 1, size, ROWS)


def clearing(out, src, d, s, size):
    clear(out, d, size)


@pytest.mark.parametrize("function", [moving, moving_rows, clearing], ids=lambda f: f.__name__)
def test_moves_write_what_they_are_told_to(function):
    """Wherever memory begins, and not a byte beside it."""
    run = numba.njit(function)
    src = np.random.default_rng(0).integers(1, 255, ROWS * 4200 + 64, dtype=np.uint8)
    for size in SIZES:
        for d in range(64, 128):
            for s in (0, 7, 16, 61):
                out = np.full(ROOM + ROWS * (size + ROOM), 255, np.uint8)
                run(out, src, d, s, size)
                wanted = np.full_like(out, 255)
                for k in range(ROWS if function is moving_rows else 1):
                    begin, come = d + k * (size + ROOM), s + k * (size + 1)
                    wanted[begin : begin + size] = 0 if function is clearing else src[come : come + size]
                np.testing.assert_array_equal(out, wanted, f"{size} bytes from {s} to {d}")


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32])
def test_repeated_words_write_what_they_are_told_to(size):
    """Wherever memory begins, and not a byte beside it: short and long runs, and of a part of the words."""

    def repeating(out, src, cum, size, lo, hi):
        repeat_words(out, src, cum, size, lo, hi)

    run = numba.njit(repeating)
    words = np.random.default_rng(0).integers(1, 255, (9, size), dtype=np.uint8)
    for total in (1, 3, 64, 255, 256, 257, 300, 320, 1000):
        count = -(-total // size)
        lengths = np.array([count, 0, 1, count + 1, count, 2, 0, count + 3, count])
        cum = np.append(0, np.cumsum(lengths))
        for d in range(ROOM, ROOM + 64, 7 if INTERPRETED else 1):
            for lo, hi in ((0, 9), (1, 8), (3, 4)):
                out = np.full(d + size * cum[-1] + ROOM, 255, np.uint8)
                run(out.ctypes.data + d, words.ctypes.data, cum, size, lo, hi)
                wanted = np.full_like(out, 255)
                wanted[d + size * cum[lo] : d + size * cum[hi]] = np.repeat(
                    words[lo:hi], lengths[lo:hi], axis=0
                ).ravel()
                np.testing.assert_array_equal(out, wanted, f"words {lo} to {hi}, some {count} of each, from {d}")


def test_fields_of_groups_are_given_one_by_one():
    """A named tuple of the kernel's own is one argument there, one of the library is one everywhere."""
    function = kernel("class_losses").load().cpu
    kinds = [kind.__name__ for kind in kinds_of(function)]
    assert kinds == [*("Array", "Integers", "Array", "Array"), *("Array", "Array"), "Layout", "Ignored", *["int"] * 3]
    found = group(function, range(11), lambda values, kind: (kind.__name__, values))
    assert found == [("Given", [0, 1, 2, 3]), ("Made", [4, 5]), 6, 7, 8, 9, 10]
    assert group(lambda a, b: None, [1, 2], None) == [1, 2]
