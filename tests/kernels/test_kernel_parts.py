"""What kernels are made of, where no kernel shows it by itself: compiled, and as plain Python has it."""

import ctypes

import pytest

from seqformats.kernels.parts import call, compiled_with_gil


def address(name):
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


def calling(function, clear, x, y):
    result = call(function, x, y)
    if result <= 0:
        call(clear, 0, 0)
    return result


@pytest.mark.parametrize("called", [calling, compiled_with_gil(calling)], ids=["plain", "kernel"])
def test_a_c_function_is_called(called):
    """With one word or two, and Python objects; an error that it sets is gone afterwards."""
    items = ["a", "b", "c"]
    clear = address("PyErr_Clear")
    assert called(address("PyList_Size"), clear, id(items), 0) == 3
    assert called(address("PyList_GetItem"), clear, id(items), 2) == id(items[2])
    assert called(address("PyList_Size"), clear, id("no list"), 0) == -1
    assert called(address("PyList_GetItem"), clear, id(items), 3) in (0, -1)
    assert [x for x in items if x] == items
