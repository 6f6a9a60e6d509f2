"""Hazards of kernels for a GPU: their PTX runs on the CPU, every access is watched, and the first hazard ends the run.

Each launch runs in three orders of blocks and threads over the same memory; the bits it leaves must be the same.  What
nobody has written is other garbage each time: it may be read, as compilers do ahead of a choice, but not be used.  Time
is counted in ticks: one where a block, a round of its threads up to a barrier, or a thread begins, and one for an
atomic operation.  Each byte of shared and global memory remembers the ticks of its last write and its last read. Blocks
run one after the other, and so do the threads of a round: a tick tells whose access that was, and whether a barrier
lies between.  Two blocks are ordered by an atomic operation behind a fence in one, and before a fence in the other.
"""

import contextlib
import ctypes
import random
import weakref

import numba
import numpy as np
import of_ptx
import ptx
from elsewhere import There
from llvmlite import ir
from numba import types
from ptx import GARBAGE, I8, I32, I64
from stand_in import Gpu

HAZARD = -4  # what a thread says where an access is one
ORDERS = 3
LOAD, STORE, ATOMIC = range(3)
KINDS = (
    "",
    "outside of every array",
    "no barrier between two threads",
    "nothing between two blocks",
)
OUTSIDE, THREADS, BLOCKS = range(1, 4)

# The state of a run: the tick, and those in which the launch, the block, the round and the thread began; the numbers of
# block, round and thread; how many blocks have begun; the thread that made a fence; how many areas there are, and the
# bytes of shared memory; what was found, where and beside what; accesses so far; the garbage; the rows of `shadow` that
# have been in use.
TICK, LAUNCH, BLOCK, ROUND, THREAD, NUMBERS = 0, 1, 2, 3, 4, 5
BEGUN, FENCE, AREAS, SHARED, FOUND, LINE, OTHER, ADDRESS, ACCESSES, JUNK, USED, SLOTS = range(8, 20)
# Of a byte: tick, line and block of its last write, was that atomic, and tick, line and block of its last read.
WRITE, ATOM, READ, FIELDS = 0, 3, 4, 8
# Of a block's last atomic operation: the ticks of its round, its thread and itself, and whether a fence followed.
SHARED_BYTES = 1 << 18
BYTES, AREA, MEETINGS = (1 << 27, FIELDS), (1 << 12, 3), (1 << 20, 4)

state = np.zeros(SLOTS, np.int64)
shadow = np.zeros(BYTES, np.int32)  # the system gives only what is touched
areas = np.zeros(AREA, np.int64)  # first byte, end, and first row of `shadow`
meetings = np.zeros(MEETINGS, np.int64)

_NUMBERS = types.CPointer(types.int64)
_TABLES = (_NUMBERS, types.CPointer(types.int32), _NUMBERS, _NUMBERS)


@numba.njit
def noted(s, kind, line, other, address):
    s[FOUND], s[LINE], s[OTHER], s[ADDRESS] = kind, line, other, address
    return 1


@numba.njit
def ordered(s, m, tick, other):
    """Did a block's access at this tick come before the current thread by what both have counted on?"""
    left, met = m[other], m[s[BEGUN]]
    before = tick < left[0] or left[1] <= tick < left[2]
    return before and met[3] == 1 and (s[ROUND] > met[0] or s[THREAD] == met[1])


@numba.njit
def clash(s, m, byte, first, line, address):
    """Look at an earlier access, the first three fields of `byte`: is it another thread's, with nothing between?"""
    tick = byte[0]
    if tick < first or tick >= s[THREAD]:
        return 0
    if tick >= s[ROUND]:
        return noted(s, THREADS, line, byte[1], address)
    if tick < s[BLOCK] and not ordered(s, m, tick, byte[2]):
        return noted(s, BLOCKS, line, byte[1], address)
    return 0


@numba.cfunc(types.void(*_TABLES, types.int32, types.int32))
def begin(state_, shadow_, areas_, meetings_, level, number):
    """Of a block, a round or a thread, levels 0, 1 and 2."""
    s = numba.carray(state_, SLOTS)
    s[TICK] += 1
    for k in range(level, 3):
        s[BLOCK + k] = s[TICK]
    s[NUMBERS + level] = number
    s[BEGUN] += level == 0


@numba.cfunc(types.void(*_TABLES))
def fence(state_, shadow_, areas_, meetings_):
    s, m = numba.carray(state_, SLOTS), numba.carray(meetings_, MEETINGS)
    s[FENCE] = s[THREAD]
    if m[s[BEGUN], 1] == s[THREAD]:
        m[s[BEGUN], 3] = 1


@numba.cfunc(types.int32(*_TABLES, types.int32, types.int32, types.int32, types.int64, types.int32))
def access(state_, shadow_, areas_, meetings_, shared, mode, line, address, size):
    """Is this access a hazard?  `address` is a place where `shared`."""
    s, m = numba.carray(state_, SLOTS), numba.carray(meetings_, MEETINGS)
    bytes_, known = numba.carray(shadow_, BYTES), numba.carray(areas_, AREA)
    s[ACCESSES] += 1
    place = address
    if shared:
        if address < 0 or address + size > s[SHARED]:
            return noted(s, OUTSIDE, line, line, address)
    else:
        low, high = 0, s[AREAS]
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if known[middle, 0] <= address else (low, middle)
        if low == 0 or address + size > known[low - 1, 1]:
            return noted(s, OUTSIDE, line, line, address)
        place += known[low - 1, 2] - known[low - 1, 0]
    first = s[BLOCK] if shared else s[LAUNCH]
    for k in range(size):
        byte = bytes_[place + k]
        if not (mode == ATOMIC and byte[ATOM]) and clash(s, m, byte[WRITE:], first, line, address):
            return 1
        if mode != LOAD and clash(s, m, byte[READ:], first, line, address):
            return 1
    if mode == ATOMIC:
        s[TICK] += 1
    for k in range(size):
        byte = bytes_[place + k]
        at = READ if mode == LOAD else WRITE
        byte[at], byte[at + 1], byte[at + 2] = s[TICK], line, s[BEGUN]
        if mode != LOAD:
            byte[ATOM] = mode == ATOMIC
    if mode == ATOMIC and not shared:
        met = m[s[BEGUN]]
        met[0], met[1], met[2], met[3] = s[ROUND], s[THREAD], s[TICK] if s[FENCE] == s[THREAD] else 0, 0
    return 0


class Watcher(ptx.Translator):
    """Kernels that say what they do to `begin`, `fence` and `access`."""

    opt = 0  # compiling takes longer than running

    def begin_line(self, k):
        self.line = k

    def tell(self, b, function, *values):
        """Call one of them."""
        tables = [I64(table.ctypes.data) for table in (state, shadow, areas, meetings)]
        result = I32 if function is access else ir.VoidType()
        kind = ir.FunctionType(result, [value.type for value in (*tables, *values)])
        return b.call(b.inttoptr(I64(function.address), kind.as_pointer()), [*tables, *values])

    def garbage(self, b):
        return b.load(b.inttoptr(I64(state[JUNK:].ctypes.data), I8.as_pointer()))

    def begin(self, b, level, number):
        self.tell(b, begin, I32(level), number)

    def pointer(self, text, space, kind, count=1):
        found = super().pointer(text, space, kind, count)
        if space in ("global", "shared"):
            b, shared = self.builder, space == "shared"
            address = self.address(text, "global")  # of shared memory the place in it
            size = I32(ptx.bits_of(kind) // 8 * count)
            wrong = self.tell(b, access, I32(int(shared)), I32(self.mode), I32(self.line), address, size)
            with b.if_then(b.icmp_signed("!=", wrong, I32(0)), likely=False):
                b.ret(I32(HAZARD))
        return found

    def do_ld(self, words, args):
        self.mode = LOAD
        super().do_ld(words, args)

    def do_st(self, words, args):
        self.mode = STORE
        super().do_st(words, args)

    def do_atom(self, words, args):
        self.mode = ATOMIC
        super().do_atom(words, args)

    def do_membar(self, words, args):
        self.tell(self.builder, fence)


alive = weakref.WeakValueDictionary()


def remember(array, _):
    alive[id(array)] = array


def areas_of(words):
    """Find the memory of the arrays of a launch.

    A launch that is given an address alone has the array there; one that takes addresses in the place of its first
    array has all that are alive.
    """
    if words[:2] == [0, 0] and words[2:4] == words[5:7]:
        parts = [words[k : k + 7] for k in range(len(words) - 6)]
        arrays = [part for part in parts if part[:2] == [0, 0] and part[2:4] == part[5:] and part[2] > 0]
        found = [(address, address + size * itemsize) for _, _, size, itemsize, address, *_ in arrays]
    else:
        whole = [array for array in list(alive.values()) if array.flags.c_contiguous and array.nbytes]
        found = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in whole]
        found = [(low, high) for low, high in found if low <= words[0] < high] or found
    joined = []
    for low, high in sorted(found):
        if joined and low < joined[-1][1]:
            joined[-1][1] = max(high, joined[-1][1])
        else:
            joined.append([low, high])
    return joined


def order_of(count, order):
    """Ascending, descending, or drawn."""
    return [range(count), range(count)[::-1], random.Random(count).sample(range(count), count)][order]


def run(name, text, grid, block, words):
    """Start a kernel in every order of its blocks and threads; an AssertionError names the first hazard."""
    found = areas_of(words)
    memory = [np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low)) for low, high in found]
    before, first = [part.copy() for part in memory], None
    free = [unwritten(part) for part in before]
    lows, sizes = ([*part] for part in zip(*[(low, high - low) for low, high in found], strict=True))
    begins = SHARED_BYTES + np.cumsum([0, *sizes])
    assert begins[-1] <= len(shadow), f"{name}: {sum(sizes)} bytes are more than can be watched"
    state[USED] = max(state[USED], begins[-1])
    assert len(found) <= len(areas), f"{name}: {len(found)} arrays are more than can be watched"
    areas[: len(found)] = np.stack([lows, np.add(lows, sizes), begins[:-1]], 1)
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    assert blocks < len(meetings), f"{name}: {blocks} blocks are more than can be watched"
    for order in range(ORDERS):
        state[JUNK] = GARBAGE ^ (0x11 * order)
        for part, bits, mask in zip(memory, before, free, strict=True):
            part[:] = np.where(mask, state[JUNK], bits)
        if state[TICK] > 1 << 30:
            shadow[: state[USED]] = 0
            state[TICK] = 0
        state[TICK] += 1
        state[LAUNCH] = state[TICK]
        meetings[: blocks + 1] = 0
        state[BEGUN], state[FENCE], state[FOUND], state[AREAS] = 0, 0, 0, len(found)
        state[SHARED] = ptx.program_of(text, Watcher).shared
        try:
            ptx.run(text, grid, block, words, Watcher, order_of(blocks, order), order_of(threads, order))
        except AssertionError as error:
            raise AssertionError(f"{name}, grid {grid}, block {block}, order {order}: {told(text) or error}") from None
        after = [part.copy() for part in memory]
        first = first or after
        for one, two, mask in zip(first, after, free, strict=True):
            same = (one == two) | (mask & (one == GARBAGE) & (two == state[JUNK]))
            assert same.all(), f"{name}: other bits in another order, or of other garbage, grid {grid}, block {block}"
    for part, bits in zip(memory, first, strict=True):
        part[:] = bits


def unwritten(part):
    """Which bytes are garbage, four or more in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], part == GARBAGE, [False]])))
    mask = np.zeros(len(part), bool)
    for low, high in edges.reshape(-1, 2):
        mask[low:high] = high - low >= 4
    return mask


def told(text):
    """The hazard that was noted last, or nothing."""
    if not state[FOUND]:
        return ""
    lines = ptx.Translator(text).lines
    block, _, thread = state[NUMBERS : NUMBERS + 3]
    return (
        f"{KINDS[state[FOUND]]}: `{lines[state[LINE]]}` of thread {thread} in block {block}, at {state[ADDRESS]:#x}, "
        f"and `{lines[state[OTHER]]}`"
    )


class Watched(of_ptx.Loaded):
    """A kernel that is started so."""

    kind = Watcher

    def start(self, grid, block, stream, words):
        self.driver.asked("launch", self.name, stream)
        self.driver.taken[self.name] += 1
        run(self.name, self.text, grid, block, words)


@contextlib.contextmanager
def watched(monkeypatch):
    """The driver of a GPU whose kernels are watched, `taken` counts their launches; memory begins as garbage."""
    with of_ptx.machine(monkeypatch, Watched) as gpu:
        monkeypatch.setattr(There, "__array_finalize__", remember, raising=False)

        def empty(self, shape, dtype, like):
            made = np.empty(shape, dtype)
            made.reshape(-1).view(np.uint8)[...] = GARBAGE
            return made.view(There)

        monkeypatch.setattr(Gpu, "empty", empty)
        yield gpu.driver
