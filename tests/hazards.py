"""What is wrong with a kernel for GPUs although its results are right: `ptx` runs it, and every access is watched.

- An access outside of every array.
- Two threads that touch the same bytes, one of them writing, with no barrier between; or two blocks, without an atomic
  number between that both have counted on (`came_last`).
- A barrier that some threads do not come to, and an address that does not suit its word: `ptx` sees these.
- Memory that is read before it is written begins as garbage, that of blocks and that of results.
- Results that depend on the order of threads or blocks, which is another one in each of `ORDERS`.
"""

import contextlib
import functools
import weakref

import numpy as np
import of_ptx
import ptx
from elsewhere import There
from llvmlite import ir
from numba import carray, cfunc, types
from ptx import CHANGES, I64, READS
from stand_in import stand_in

from seqformats import arrays

ORDERS = ("in turn", "backwards", "mixed")
OUTSIDE, BARRIER, BLOCKS = 1, 2, 3
WORDS = {
    OUTSIDE: "outside of every array",
    BARRIER: "two threads touch it without a barrier between",
    BLOCKS: "two blocks touch it, and nothing says which one is first",
}

# The first words of the memory of the watch, and where its tables begin.
LAUNCH, BLOCK, THREAD, ROUND, TIME, USED, ARRAYS, FOUND, FULL = range(9)
MOST_ARRAYS, MOST_BLOCKS, MOST_FOUND, BYTES = 1024, 1 << 16, 64, 1 << 20
LOW, HIGH = 16, 16 + MOST_ARRAYS
COUNTED = HIGH + MOST_ARRAYS  # of each block, when, in which round and by which thread it has counted last
REPORTS = COUNTED + 3 * MOST_BLOCKS  # what, the line, the other line, how often
TABLE = REPORTS + 4 * MOST_FOUND
# Of each byte: its address, the launch, who wrote it last and when, who has read it last and whether others have.
KEY, IN, W_THREAD, W_BLOCK, W_ROUND, W_LINE, W_ATOM, W_TIME, R_THREAD, R_BLOCK, R_ROUND, R_LINE, R_MANY = range(13)
ENTRY = 16
SIZE = TABLE + ENTRY * BYTES


@functools.cache
def memory():
    """The memory of the watch of this process, and the function that is told of accesses."""
    return np.zeros(SIZE, np.int64), watch()


def watch():
    """The function, compiled: of the memory, the space (1 for a block's), how, the address, the bytes and the line."""

    @cfunc(types.void(types.CPointer(types.int64), *[types.int64] * 5))
    def accessed(pointer, space, how, address, size, line):
        s = carray(pointer, SIZE)
        s[TIME] += 1
        if space == 0:
            lo, hi = 0, s[ARRAYS]
            while lo < hi:
                middle = (lo + hi) // 2
                if s[LOW + middle] <= address:
                    lo = middle + 1
                else:
                    hi = middle
            inside = False
            for k in range(max(lo - 64, 0), lo):
                inside = inside or address + size <= s[HIGH + k]
            if not inside:
                report(s, OUTSIDE, line, 0)
        for k in range(size):
            key = address + k if space == 0 else -1 - ((s[BLOCK] << 24) + address + k)
            e = entry(s, key)
            if e < 0:
                s[FULL] = 1
                return
            at_once = how == CHANGES and s[e + W_ATOM] == 1
            mine = s[e + W_THREAD] == s[THREAD] and s[e + W_BLOCK] == s[BLOCK]
            if s[e + W_THREAD] >= 0 and not mine and not at_once:
                check(s, line, s[e + W_LINE], s[e + W_BLOCK], s[e + W_THREAD], s[e + W_ROUND], s[e + W_TIME])
            if how != READS and s[e + R_THREAD] >= 0 and not at_once:
                mine = s[e + R_THREAD] == s[THREAD] and s[e + R_BLOCK] == s[BLOCK]
                if s[e + R_MANY] == 1 or not mine:
                    check(s, line, s[e + R_LINE], s[e + R_BLOCK], s[e + R_THREAD], s[e + R_ROUND], s[e + W_TIME])
            if how != READS:
                s[e + W_THREAD], s[e + W_BLOCK], s[e + W_ROUND] = s[THREAD], s[BLOCK], s[ROUND]
                s[e + W_LINE], s[e + W_ATOM], s[e + W_TIME] = line, how == CHANGES, s[TIME]
            else:
                same = s[e + R_BLOCK] == s[BLOCK] and s[e + R_ROUND] == s[ROUND] and s[e + R_THREAD] >= 0
                s[e + R_MANY] = same and (s[e + R_MANY] == 1 or s[e + R_THREAD] != s[THREAD])
                s[e + R_THREAD], s[e + R_BLOCK], s[e + R_ROUND], s[e + R_LINE] = s[THREAD], s[BLOCK], s[ROUND], line
        if how == CHANGES and space == 0:
            c = COUNTED + 3 * s[BLOCK]
            s[c], s[c + 1], s[c + 2] = s[TIME], s[ROUND], s[THREAD]

    return accessed


def compiled(function):
    """For the function above alone; the tests of a pass that interprets kernels compile nothing."""
    from numba import njit

    return njit(function)


@compiled
def report(s, what, line, other):
    for k in range(s[FOUND]):
        r = REPORTS + 4 * k
        if s[r] == what and s[r + 1] == line and s[r + 2] == other:
            s[r + 3] += 1
            return
    if s[FOUND] < MOST_FOUND:
        r = REPORTS + 4 * s[FOUND]
        s[r], s[r + 1], s[r + 2], s[r + 3] = what, line, other, 1
        s[FOUND] += 1


@compiled
def entry(s, key):
    """Where a byte stands in the table, -1 where there is no room left; a new launch knows nothing of the last one."""
    mixed = key * 0x1E3779B97F4A7C15
    place = (mixed ^ (mixed >> 29)) & (BYTES - 1)
    while True:
        e = TABLE + ENTRY * place
        if s[e + IN] != s[LAUNCH]:
            if s[USED] > BYTES // 2:
                return -1
            s[USED] += 1
            for k in range(ENTRY):
                s[e + k] = 0
            s[e + KEY], s[e + IN], s[e + W_THREAD], s[e + R_THREAD] = key, s[LAUNCH], -1, -1
            return e
        if s[e + KEY] == key:
            return e
        place = (place + 1) & (BYTES - 1)


@compiled
def check(s, line, other, block, thread, in_round, when):
    """Look whether what another thread has done comes before this."""
    if block == s[BLOCK]:
        if in_round == s[ROUND]:
            report(s, BARRIER, line, other)
        return
    c, own = COUNTED + 3 * block, COUNTED + 3 * s[BLOCK]
    counted = s[c] != 0 and s[own] != 0 and s[c] >= when and s[own] >= s[c]
    before = in_round < s[c + 1] or thread == s[c + 2]
    after = s[ROUND] > s[own + 1] or s[THREAD] == s[own + 2]
    if not (counted and before and after):
        report(s, BLOCKS, line, other)


class Watched(ptx.Translator):
    """PTX whose accesses the watch is told of."""

    def accessed(self, how, space, text, size):
        if space in ("global", "shared"):
            place = self.address(text, "global")  # of a block's memory, the place in it
            state, told = memory()
            kind = ir.FunctionType(ir.VoidType(), [I64] * 6).as_pointer()
            values = [state.ctypes.data, int(space == "shared"), how, place, size, self.line]
            values = [value if isinstance(value, ir.Value) else I64(value) for value in values]
            self.builder.call(self.builder.inttoptr(I64(told.address), kind), values)

    def begins(self, builder, what, number):
        state, _ = memory()

        def place(word):
            return builder.inttoptr(I64(state.ctypes.data + 8 * word), I64.as_pointer())

        if what == "round":
            builder.store(builder.add(builder.load(place(ROUND)), I64(1)), place(ROUND))
        else:
            builder.store(builder.zext(number, I64), place({"block": BLOCK, "thread": THREAD}[what]))


def order_of(kind):
    """The order of so many threads or blocks."""

    def order(n, what):
        if kind == "mixed":
            return np.random.default_rng(n + len(what)).permutation(n).tolist()
        return range(n)[::-1] if kind == "backwards" else range(n)

    return order


def run(text, grid, block, words, ranges, order="in turn"):
    """Start a kernel and watch it; AssertionError where something is found.  How many instructions it took."""
    state, _ = memory()
    ranges = sorted(set(ranges))
    assert len(ranges) <= MOST_ARRAYS
    assert grid[0] * grid[1] * grid[2] <= MOST_BLOCKS
    state[LAUNCH] += 1
    state[[TIME, USED, FOUND, FULL, ROUND]] = 0
    state[ARRAYS] = len(ranges)
    state[LOW : LOW + len(ranges)] = [low for low, _ in ranges]
    state[HIGH : HIGH + len(ranges)] = [high for _, high in ranges]
    state[COUNTED : COUNTED + 3 * grid[0] * grid[1] * grid[2]] = 0
    taken = ptx.run(text, grid, block, words, Watched, order_of(order))
    assert not state[FULL], "more bytes are touched than can be watched"
    lines = ptx.program_of(text, Watched).lines
    found = state[REPORTS : REPORTS + 4 * state[FOUND]].reshape(-1, 4).tolist()
    said = [
        f"{WORDS[what]}: `{lines[line]}`{f' and `{lines[other]}`' if what != OUTSIDE else ''}, {count} times"
        for what, line, other, count in found
    ]
    assert not said, "\n".join(said)
    return taken


class Loaded(of_ptx.Loaded):
    """A kernel that is watched whenever it is started."""

    def start(self, grid, block, stream, words):
        self.driver.asked("launch", self.name, stream)
        known = [(x.__array_interface__["data"][0], x.nbytes) for x in list(self.driver.arrays.values()) if x.nbytes]
        ranges = [(low, low + size) for low, size in known]
        self.driver.taken[self.name] += run(self.text, grid, block, words, ranges, self.driver.order)


class Machine(of_ptx.Machine):
    """A driver that knows which arrays there are."""

    order = "in turn"

    def __init__(self):
        super().__init__()
        self.arrays = weakref.WeakValueDictionary()

    def load(self, image, entry, words, name):
        plain = super().load(image, entry, words, name)
        return Loaded(self, plain.text, name)


@contextlib.contextmanager
def watched(monkeypatch):
    """A GPU that is none, all of whose kernels are watched, and what its memory holds at first is garbage."""
    with stand_in(monkeypatch, Machine(), of_ptx.image_of) as (driver, _):
        library = arrays.known._by_type[There]

        def noted(x, _):
            if x.flags.c_contiguous:
                driver.arrays[id(x)] = x

        def empty(shape, dtype, like):
            made = np.empty(shape, dtype)
            made.reshape(-1).view(np.uint8)[...] = ptx.GARBAGE
            return made.view(There)

        monkeypatch.setattr(There, "__array_finalize__", noted, raising=False)
        monkeypatch.setattr(library, "empty", empty)
        yield driver

