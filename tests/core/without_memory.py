"""A process that calls every fast path while one piece of memory after the other is not to be had.

It prints what went wrong, and first what it calls, so that the last line tells what a crash was in.
"""

import _testcapi
import ctypes
import faulthandler
import gc
import sys

import numpy as np
import test_edges
import test_one_kernel
import test_taking
from numba import cfunc, njit, types
from test_fast_paths import same

import seqformats as sf

MOST = 48  # pieces of memory that a small call asks for
TIMES = 6
FAILED = object()

# --- the memory of NumPy's arrays (NEP 49), of which CPython knows nothing ------------------------------------------


class Allocator(ctypes.Structure):
    """NumPy's PyDataMemAllocator."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")]


class Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", Allocator)]


LEFT = np.array([-1])  # so many pieces are there before one is not
POINTER = types.CPointer(types.int64)
WORDS = [types.int64(POINTER, *[types.int64] * count) for count in range(3)]
MALLOC = types.ExternalFunction("malloc", types.int64(types.int64))
CALLOC = types.ExternalFunction("calloc", types.int64(types.int64, types.int64))
REALLOC = types.ExternalFunction("realloc", types.int64(types.int64, types.int64))
FREE = types.ExternalFunction("free", types.void(types.int64))


@njit
def is_there(left):
    left[0] -= 1
    return left[0] != -1


# No Python runs in these: an error may be set while memory is given back.
@cfunc(WORDS[1])
def malloc(left, size):
    return MALLOC(size) if is_there(left) else 0


@cfunc(WORDS[2])
def calloc(left, count, size):
    return CALLOC(count, size) if is_there(left) else 0


@cfunc(WORDS[2])
def realloc(left, address, size):
    return REALLOC(address, size) if is_there(left) else 0


@cfunc(types.void(POINTER, types.int64, types.int64))
def free(left, address, size):
    FREE(address)


FUNCTIONS = malloc.address, calloc.address, realloc.address, free.address
HANDLER = Handler(b"failing", 1, Allocator(LEFT.ctypes.data, *FUNCTIONS))
NAME = ctypes.create_string_buffer(b"mem_handler")


def set_handler():
    """Have this process take memory for arrays there."""
    python = ctypes.pythonapi
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p] * 3
    capsule = python.PyCapsule_New(ctypes.addressof(HANDLER), ctypes.addressof(NAME), None)
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_void_p]
    table = python.PyCapsule_GetPointer(np._core._multiarray_umath._ARRAY_API, None)
    address = ctypes.c_void_p.from_address(table + 304 * ctypes.sizeof(ctypes.c_void_p)).value
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)(capsule)


def without_a_piece_of_arrays(call, number):
    """The call, where the array of that number finds no memory."""
    LEFT[0] = number
    try:
        return call()
    except MemoryError:
        return FAILED
    finally:
        LEFT[0] = -1


def without_a_piece_of_objects(call, number):
    """The same of all that CPython asks for."""
    _testcapi.set_nomemory(number, number + 1)
    try:
        return call()
    except MemoryError:
        return FAILED
    finally:
        _testcapi.remove_mem_hooks()


# --- the calls -------------------------------------------------------------------------------------------------------


def every_call():
    """Yield what goes by fast paths and primitives, by name."""
    yield from test_taking.CALLS.items()
    yield from test_taking.PRIMITIVES.items()
    test_edges.opened()
    yield from test_edges.calls()[0].items()
    for number, (path, args) in enumerate(test_one_kernel.opened()):
        yield f"{path} {number}", lambda path=path, args=args: path.enter(*args)


def functions_of(call):
    """Count the Python functions that it calls."""
    called = []
    sys.setprofile(lambda frame, event, _: called.append(event) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(called)


def watched():
    """Whose references are counted: what is given to all calls, and what all take from the process."""
    given = (test_taking.R, test_taking.M, test_taking.P, test_taking.K, test_taking.IDS, test_taking.PLACES)
    own = [part for x in given for part in (x, x.data, x._structure, x.lengths, x._shape, x._structure.offsets)]
    dtypes = [np.dtype(name) for name in ("f4", "f8", "i8", "?")]
    return [*own, *dtypes, None, True, False, "left", "right", sf.Ragged, sf.Masked, sf.Padded, sf.Packed, sf.List]


def main():
    """Say what goes wrong."""
    faulthandler.enable()
    set_handler()
    things, failures = watched(), 0
    for name, call in every_call():
        for _ in range(3):
            wanted = call()
        ways = [without_a_piece_of_arrays]
        if functions_of(call) <= 3:  # CPython itself does without exceptions where its frames find no memory
            ways.append(without_a_piece_of_objects)
        for without in ways:
            print(name, without.__name__, file=sys.stderr, flush=True)
            same(call(), wanted)  # computes what is only made when it is asked for
            gc.collect()
            gc.freeze()  # what stays is walked over once
            before = [sys.getrefcount(thing) for thing in things]
            for number in range(MOST):
                for _ in range(TIMES):
                    found = without(call, number)
                    failures += found is FAILED
                    if found is not FAILED and found is not None and not same(found, wanted):
                        print(f"{name}: another result {without.__name__} {number}")
                        break
            del found
            gc.collect()
            after = [sys.getrefcount(thing) for thing in things]
            lost = [
                (repr(thing), b - a)
                for thing, a, b in zip(things, before, after, strict=True)
                if abs(b - a) > TIMES // 2
            ]
            if lost:
                print(f"{name}: references {without.__name__}: {lost}")
    print(f"{failures} calls found no memory")


main()
