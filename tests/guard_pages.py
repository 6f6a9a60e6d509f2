"""A memory allocator for NumPy (NEP 49) that kills whoever reads or writes a byte beyond an array.

Kernels check no bounds, and Numba checks those of arrays alone: a vector that is loaded from an address and reaches
beyond the last row passes by luck, as there is mostly something behind.  Here every array has pages of its own.  It
ends where its last page ends and the next page is protected, or it begins where its first page begins and the page
before is protected.  So one byte too far is a SIGSEGV, and pytest's faulthandler names the line.

- Beside it, before an array that ends at a protected page and behind one that begins at one, 256 bytes of its pages are
  junk, which must still be there when the array is freed.
- New memory is junk: NaN for floats of any size, a huge number for integers of 16 bits or more.
- Freed memory is given out again only after many other pieces of its size, and is protected until then: so use after
  free is a SIGSEGV too.  (With "both", which is for all tests, three of four small arrays are filled with junk instead,
  which takes a fraction of the time.)
- The address is a multiple of whatever power of two divides the size, up to a page, and so of the alignment of any
  dtype.  It need not be one of 16, on which nobody may rely.

``SEQFORMATS_GUARD=end``, ``begin`` or ``both`` (each array one of the two, at random) lets `conftest.py` install it for
all tests, as ``make guard`` does.  What other libraries allocate (PyTorch, say) is not guarded, but a tensor made by
``torch.from_numpy`` is.

One large piece of address space is reserved: a table with an entry a page, then the pages.  Pieces have a power of two
of pages, of which as many are made accessible as needed, and a protected one.  The functions are compiled, take a few
microseconds and run no Python, so that neither traces nor signals nor counts of calls notice them.  NumPy holds the GIL
when it calls them.
"""

import contextlib
import ctypes
import mmap
import threading

import numpy as np
from numba import carray, cfunc, njit, types

SIDES = ("end", "begin", "both")

_PAGE = mmap.PAGESIZE
_PAGES = 1 << 26  # 256 GB of addresses
_KEPT = 256  # freed pieces of a size that wait before one is used again
_OPEN = 1 << 40  # in the table, beside the next piece: this one is not protected
_KEPT_PAGES = 1 << 16  # or as many pages of them
# The system allows a process about 65,000 pieces of memory of different protection, and libraries want some too.
_SMALLEST, _OTHERS = 12_000, 800  # pieces of one page that there may be, and pieces of any other size
_WORD = 0x7FFF7FFF7FFF7FFF  # four NaN of 16 bits, two of 32, one of 64
_BESIDE = 256  # bytes of junk on the other side of an array, or what there is up to the end of its pages
_DIRTY = 4  # pages of a piece that keep what they hold when it is freed; those of larger ones go back to the system
_FILLED = 1 << 26  # bytes of junk at most; beyond them, new memory is as the system gives it

# The first words of the reserved space.  In the table, an entry is the bytes of the array whose first page it is for,
# or the next piece that waits after the one whose first page it is for.
_HERE, _FIRST, _FRESH, _SIDE, _RANDOM, _LIVE, _GUARDED, _UNGUARDED = range(8)
_HEADS, _TAILS, _COUNTS, _MADE, _TABLE = 64, 128, 192, 256, 512
_STATE_BYTES = -(-8 * (_TABLE + _PAGES) // _PAGE) * _PAGE
_MESSAGE = b"guard pages: the bytes beside an array have been written to\n"
_MESSAGE_AT = 320

_pointer = types.CPointer(types.int64)
_protect = types.ExternalFunction("mprotect", types.int32(types.int64, types.int64, types.int32))
_advise = types.ExternalFunction("madvise", types.int32(types.int64, types.int64, types.int32))
_malloc = types.ExternalFunction("malloc", types.int64(types.int64))
_realloc = types.ExternalFunction("realloc", types.int64(types.int64, types.int64))
_free_plain = types.ExternalFunction("free", types.void(types.int64))
_copy = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.int64))
_set = types.ExternalFunction("memset", types.int64(types.int64, types.int32, types.int64))
_write = types.ExternalFunction("write", types.int64(types.int32, types.int64, types.int64))
_abort = types.ExternalFunction("abort", types.void())

_NONE, _READ_WRITE, _DONT_NEED = 0, mmap.PROT_READ | mmap.PROT_WRITE, 4
_quick = {"error_model": "numpy", "boundscheck": False}


@njit(**_quick)
def _class_of(pages):
    """The power of two that has room for so many pages and a protected one."""
    k = 0
    while (1 << k) <= pages:
        k += 1
    return k


@njit(**_quick)
def _fill(memory, begin, stop):
    """Junk from one address to another, whose place in a word goes by the address."""
    base = memory[_HERE]
    while begin < stop and begin % 8:
        _set(begin, 0x7F if begin % 2 else 0xFF, 1)
        begin += 1
    words = (stop - begin) // 8
    part = memory[(begin - base) // 8 : (begin - base) // 8 + words]
    for i in range(part.size):
        part[i] = _WORD
    begin += 8 * words
    while begin < stop:
        _set(begin, 0x7F if begin % 2 else 0xFF, 1)
        begin += 1


@njit(**_quick)
def _is_filled(memory, begin, stop):
    base = memory[_HERE]
    first, last = -(-begin // 8), stop // 8
    if begin < 8 * first:  # the word that the array ends in
        word = memory[first - 1 - base // 8]
        shift = 8 * (begin % 8)
        if (word ^ _WORD) >> shift:
            return False
    if last >= first and stop > 8 * last:  # the word that it begins in
        word = memory[last - base // 8]
        if ((word ^ _WORD) << (64 - 8 * (stop % 8))) != 0:
            return False
    part = memory[first - base // 8 : last - base // 8]
    wrong = 0
    for i in range(part.size):
        wrong |= part[i] ^ _WORD
    return wrong == 0


@njit(**_quick)
def _random(memory, n):
    memory[_RANDOM] = memory[_RANDOM] * 6364136223846793005 + 1442695040888963407
    return (memory[_RANDOM] >> 33) % n


@njit(**_quick)
def _unguarded(memory, size, zero):
    memory[_UNGUARDED] += 1
    address = _malloc(size)
    if address and zero:
        _set(address, 0, size)
    return address


@njit(**_quick)
def _allocate(memory, size, zero):
    size = max(size, 1)
    pages = (size + _PAGE - 1) // _PAGE
    k = _class_of(pages)
    waiting, all_made = memory[_COUNTS + k], memory[_MADE + k] >= (_SMALLEST if k == 1 else _OTHERS)
    if waiting > _KEPT or waiting << k > _KEPT_PAGES or (waiting and all_made):
        page = memory[_HEADS + k]
        used, is_open = True, memory[_TABLE + page] & _OPEN != 0
        memory[_HEADS + k] = memory[_TABLE + page] & ~_OPEN
        memory[_COUNTS + k] -= 1
    else:
        page = memory[_FRESH]
        used = is_open = False
        if all_made or page + (1 << k) > _PAGES:
            return _unguarded(memory, size, zero)
    begin = memory[_FIRST] + page * _PAGE
    stop = begin + pages * _PAGE
    if not is_open and _protect(begin, stop - begin, _READ_WRITE) != 0:
        if used:  # the first of those that wait, again
            memory[_TABLE + page] = memory[_HEADS + k]
            memory[_HEADS + k] = page
            memory[_COUNTS + k] += 1
        return _unguarded(memory, size, zero)  # too many pieces of memory for the system, or there is none left
    if not used:
        memory[_FRESH] += 1 << k
        memory[_MADE + k] += 1
    memory[_TABLE + page] = size
    memory[_LIVE] += 1
    memory[_GUARDED] += 1
    side = memory[_SIDE]
    if side == 2:
        side = _random(memory, 2)
    address = begin if side else stop - size
    _fill(memory, max(begin, address - _BESIDE), address)
    _fill(memory, address + size, min(stop, address + size + _BESIDE))
    if not zero:
        _fill(memory, address, address + min(size, _FILLED))
    elif used and 1 << k <= _DIRTY:
        _set(address, 0, size)
    return address


@njit(**_quick)
def _release(memory, address):
    if address == 0:
        return
    page = (address - memory[_FIRST]) // _PAGE
    if not 0 <= page < _PAGES:
        _free_plain(address)
        return
    size = memory[_TABLE + page]
    pages = (size + _PAGE - 1) // _PAGE
    begin = memory[_FIRST] + page * _PAGE
    stop = begin + pages * _PAGE
    before, behind = max(begin, address - _BESIDE), min(stop, address + size + _BESIDE)
    if not (_is_filled(memory, before, address) and _is_filled(memory, address + size, behind)):
        _write(2, memory[_HERE] + 8 * _MESSAGE_AT, len(_MESSAGE))
        _abort()
    k = _class_of(pages)
    if 1 << k > _DIRTY:
        _advise(begin, stop - begin, _DONT_NEED)
    if k == 1 and memory[_SIDE] == 2 and _random(memory, 4):
        _fill(memory, address, address + size)
        memory[_TABLE + page] = _OPEN
    else:
        _protect(begin, stop - begin, _NONE)
        memory[_TABLE + page] = 0
    if memory[_COUNTS + k]:
        memory[_TABLE + memory[_TAILS + k]] |= page
    else:
        memory[_HEADS + k] = page
    memory[_TAILS + k] = page
    memory[_COUNTS + k] += 1
    memory[_LIVE] -= 1


@cfunc(types.int64(_pointer, types.int64), **_quick)
def _new(state, size):
    return _allocate(carray(state, 1 << 57), size, False)


@cfunc(types.int64(_pointer, types.int64, types.int64), **_quick)
def _new_zeros(state, count, size):
    return _allocate(carray(state, 1 << 57), count * size, True)


@cfunc(types.int64(_pointer, types.int64, types.int64), **_quick)
def _resize(state, address, size):
    memory = carray(state, 1 << 57)
    page = (address - memory[_FIRST]) // _PAGE
    if address != 0 and not 0 <= page < _PAGES:
        return _realloc(address, max(size, 1))
    found = _allocate(memory, size, False)
    if found and address:
        _copy(found, address, min(size, memory[_TABLE + page]))
        _release(memory, address)
    return found


@cfunc(types.void(_pointer, types.int64, types.int64), **_quick)
def _delete(state, address, size):
    _release(carray(state, 1 << 57), address)


class _Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


def _python(name, *types):
    return ctypes.PYFUNCTYPE(*types)((name, ctypes.pythonapi))


def _made():
    """The reserved space, and the capsule that tells NumPy of its functions."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = _STATE_BYTES + _PAGES * _PAGE
    here = libc.mmap(None, size, _NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if here in (None, ctypes.c_void_p(-1).value) or libc.mprotect(here, _STATE_BYTES, _READ_WRITE):
        raise MemoryError(f"no {size} bytes of addresses for guard pages")
    state = (ctypes.c_int64 * _TABLE).from_address(here)
    state[_HERE], state[_FIRST] = here, here + _STATE_BYTES
    state[_FRESH] = state[_RANDOM] = 1  # the page before the first piece is protected too
    ctypes.memmove(here + 8 * _MESSAGE_AT, _MESSAGE, len(_MESSAGE))
    functions = (here, _new.address, _new_zeros.address, _resize.address, _delete.address)
    handler = _Handler(b"guard_pages", 1, _Allocator(*functions))
    new = _python("PyCapsule_New", ctypes.py_object, *3 * [ctypes.c_void_p])
    name = ctypes.create_string_buffer(b"mem_handler")
    return state, new(ctypes.addressof(handler), ctypes.addressof(name), None), (handler, name)


def _set_handler():
    """``PyDataMem_SetHandler`` of NumPy's C interface: from a handler, or None for the default, to the one before."""
    get = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    table = get(np._core._multiarray_umath._ARRAY_API, None)
    address = ctypes.c_void_p.from_address(table + 304 * ctypes.sizeof(ctypes.c_void_p)).value
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)


_set_handler_to = _set_handler()
_state, _capsule, _kept = _made()


@contextlib.contextmanager
def guarded(side):
    """Within it this thread's new arrays are guarded on that side: "end", "begin", or "both", of which each has one."""
    before, side_before = _set_handler_to(_capsule), _state[_SIDE]
    _state[_SIDE] = SIDES.index(side)
    try:
        yield
    finally:
        _state[_SIDE] = side_before
        _set_handler_to(before)


def install(side):
    """Guard all new arrays of this thread and of the threads that are started from now on."""
    _state[_SIDE] = SIDES.index(side)
    _set_handler_to(_capsule)
    run = threading.Thread.run

    def guarded_run(self):
        _set_handler_to(_capsule)  # a thread begins with NumPy's own
        run(self)

    threading.Thread.run = guarded_run


def is_guarded(array):
    """Does this array, or what it is a view of, have pages of its own?"""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return 0 <= array.ctypes.data - _state[_FIRST] < _PAGES * _PAGE


def count():
    """How many guarded arrays there are, how many there have been, and how many had no room for it."""
    return _state[_LIVE], _state[_GUARDED], _state[_UNGUARDED]
