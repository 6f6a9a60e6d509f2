"""What runs PTX on the CPU for other tests: its arithmetic beside NumPy's, and the mistakes that it is there to see."""

from typing import TYPE_CHECKING

import numpy as np
import of_ptx
import ptx
import pytest

if TYPE_CHECKING:  # put among the globals of a kernel before it is compiled
    from seqformats.kernels.parts.gpu import gpu, load_word, natural, store_word
    from seqformats.kernels.parts.keys import came_last

pytestmark = [
    pytest.mark.passes("compiled", reason="it compiles kernels"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

EIGHT = (8, 1, 1)


def words_of(x):
    return [0, 0, x.size, x.itemsize, x.ctypes.data, x.size, x.itemsize]


def started(function, arrays, block=EIGHT, bits=32, codes=None, grid=(1, 1, 1)):
    """Compile a kernel of arrays for a GPU, and run a block of it, or a grid."""
    pytest.importorskip("numba_cuda", reason="numba-cuda compiles the kernels")
    signature = tuple(f"{code}.{bits}" for code in codes or [x.dtype.str[1:] for x in arrays])
    text = of_ptx.text_of(function, signature, (9, 0))
    ptx.run(text, grid, block, [word for x in arrays for word in words_of(x)])


def integers(x, y, out):
    """Division and remainder, products, shifts, bits and comparisons."""
    k = gpu.threadIdx.x
    a, b = x[k], y[k]
    out[8 * k] = a // b if b != 0 else 0
    out[8 * k + 1] = a % b if b != 0 else 0
    out[8 * k + 2] = a * b
    out[8 * k + 3] = a >> (b & 63)
    out[8 * k + 4] = a << (b & 63)
    out[8 * k + 5] = (a & b) ^ (a | ~b)
    out[8 * k + 6] = min(a, b) + 3 * max(-a, b)
    out[8 * k + 7] = abs(b) if a < b or a == 7 else np.int32(a)


def floats(x, y, out):
    """Sums, quotients, comparisons with NaN, and changes of type."""
    k = gpu.threadIdx.x
    a, b = x[k], y[k]
    out[6 * k] = a + b
    out[6 * k + 1] = a / b
    out[6 * k + 2] = a if a < b else b
    out[6 * k + 3] = np.float64(a) * b
    out[6 * k + 4] = k if a != a else abs(b)
    out[6 * k + 5] = np.int64(min(max(b, -99.0), 99.0)) if b == b else 5


@pytest.mark.parametrize("bits", [32, 64])
def test_integers(bits):
    x = np.array([7, -7, 2**62, -1, 0, 123456789123, -5, 2**63 - 1])
    y = np.array([2, 2, 3, 60, 5, -1000, 0, -1])
    out = np.zeros(64, "i8")
    started(integers, (x, y, out), bits=bits)
    with np.errstate(all="ignore"):
        whole = np.where(y != 0, x // np.where(y == 0, 1, y), 0)
        rest = np.where(y != 0, x % np.where(y == 0, 1, y), 0)
        least = np.minimum(x, y) + 3 * np.maximum(-x, y)
        last = np.where((x < y) | (x == 7), abs(y), x.astype("i4"))
        wanted = [whole, rest, x * y, x >> (y & 63), x << (y & 63), (x & y) ^ (x | ~y), least, last]
    np.testing.assert_array_equal(out.reshape(8, 8), np.stack(wanted, 1))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats(dtype):
    x = np.array([1.5, -2, np.nan, np.inf, 0, -0.0, 1e30, 3], dtype)
    y = np.array([2.25, 3, 1, np.inf, 0, 5, -1e30, np.nan], dtype)
    out = np.zeros(48, dtype)
    started(floats, (x, y, out))
    product = (x.astype("f8") * y).astype(dtype)
    number = np.where(x != x, np.arange(8), abs(y)).astype(dtype)
    whole = np.where(y == y, np.trunc(np.clip(np.nan_to_num(y, nan=0), -99, 99)), 5)
    wanted = [x + y, x / y, np.where(x < y, x, y), product, number, whole]
    np.testing.assert_array_equal(out.reshape(8, 6), np.stack(wanted, 1))


def from_an_odd_place(x, out):
    """Words of 8 bytes; where the array begins is for the caller."""
    k = gpu.threadIdx.x
    store_word(out, k, load_word(out, x, k))


def test_an_address_that_does_not_suit_a_word_is_seen():
    memory = np.arange(80, dtype="u1")
    out = np.zeros(8, "u8")
    begin = -memory.ctypes.data % 8
    started(from_an_odd_place, (memory[begin : begin + 64], out), codes=["u8", "u8"])
    np.testing.assert_array_equal(out.view("u1"), memory[begin : begin + 64])
    with pytest.raises(AssertionError, match="does not suit a machine word"):
        started(from_an_odd_place, (memory[begin + 4 : begin + 68], out), codes=["u8", "u8"])


def mirrored(x, out):
    """Through the memory of the block; a thread reads what another one has written."""
    room = natural(gpu.shared.array(8, x.dtype))
    k = gpu.threadIdx.x
    room[k] = x[k]
    gpu.syncthreads()
    out[k] = room[7 - k]


def unequal(x, out):
    """A barrier that only some threads come to."""
    k = gpu.threadIdx.x
    if x[k] > 3:
        gpu.syncthreads()
        out[k] = 1


def unwritten(x, out):
    """What is in the memory of a block before anybody writes."""
    room = natural(gpu.shared.array(8, x.dtype))
    k = gpu.threadIdx.x
    if x[k] > 100:
        room[k] = x[k]
    gpu.syncthreads()
    out[k] = room[k]


def test_barriers_and_the_memory_of_a_block():
    x, out = np.arange(8), np.zeros(8, "i8")
    started(mirrored, (x, out))
    np.testing.assert_array_equal(out, x[::-1])
    with pytest.raises(AssertionError, match="wait for others"):
        started(unequal, (x, out))
    started(unwritten, (x, out))
    assert set(out) == {np.frombuffer(bytes([ptx.GARBAGE] * 8), "i8")[0]}


def by_the_last(counters, out):
    """The last block of all adds up what they have written, and says which one it is."""
    room = natural(gpu.shared.array(8, np.int32))
    blocks = gpu.gridDim.x
    out[gpu.blockIdx.x] = gpu.blockIdx.x + 1
    last = came_last(counters, 1, blocks, room)
    if last and gpu.threadIdx.x == 0:
        out[blocks + 1] = gpu.blockIdx.x
        for k in range(blocks):
            out[blocks] += out[k]


def test_the_last_block_sees_what_others_have_written():
    counters, out = np.array([7, 0, 7]), np.zeros(7, "i8")
    for _ in range(2):  # the counter is as it was
        out[-2:] = 0
        started(by_the_last, (counters, out), grid=(5, 1, 1))
        assert out.tolist() == [1, 2, 3, 4, 5, 15, 0], "the first block comes last, since none may wait for it"
        assert counters.tolist() == [7, 0, 7]


def far(x, out):
    """The item in the place that `x` names."""
    out[0] = x[x[0]]


def test_places_of_32_bits_are_the_lower_half():
    """So many are counted where no array has more items; with 64 bits this would read far beyond the array."""
    x, out = np.array([2**32 + 1, 5]), np.zeros(1, "i8")
    started(far, (x, out), (1, 1, 1))
    assert out[0] == 5
