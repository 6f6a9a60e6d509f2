"""Small arrays of the host on a device without a copy: as parameters of a kernel that writes them where they belong.

A copy wants memory of the host that stays as it is until the copy is made, and a graph that is captured would read it
again at each replay; the parameters of a kernel are part of its start.  So this is how small structures go up, and how
those that are not on the device get into a graph, which writes them anew at each replay.

The kernel is PTX, which a driver compiles when it loads it: Numba has no parameters that are read by an index.
"""

from __future__ import annotations

from ..arrays.library import Array, Library
from ..errors import DeviceError
from .driver import Code, Driver

_WORDS = 496
BYTES_PER_WRITE = 8 * _WORDS
"""Bytes that one kernel writes; with their address they are just below 4 KB, all that a kernel may take."""
MAX_BYTES_IN_GRAPH = 8 * BYTES_PER_WRITE
"""Bytes that are written at most into a graph, by eight kernels: the structure of some two thousand sequences."""
_NAME = "write_words"
_PTX = f"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry {_NAME}(
	.param .u64 {_NAME}_param_0,
	.param .align 8 .b8 {_NAME}_param_1[{BYTES_PER_WRITE}]
)
{{
	.reg .b32 %r<2>;
	.reg .b64 %rd<8>;

	ld.param.u64 %rd1, [{_NAME}_param_0];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 8;
	mov.u64 %rd4, {_NAME}_param_1;
	add.s64 %rd5, %rd4, %rd3;
	ld.param.u64 %rd6, [%rd5];
	add.s64 %rd7, %rd2, %rd3;
	st.global.u64 [%rd7], %rd6;
	ret;
}}
"""


def writer(driver: Driver, index: int) -> Code | None:
    """The kernel on a device; None where the driver has no compiler, as in some containers."""
    if index not in driver.writers:
        try:
            driver.writers[index] = driver.load(_PTX.encode() + b"\0", _NAME, 1 + _WORDS, _NAME)
        except DeviceError:
            driver.writers[index] = None
    return driver.writers[index]


def write(packed: Array, code: Code, library: Library, like: Array) -> Array:
    """Memory beside `like` that has these bytes once its stream comes to it.

    They are a multiple of 8, and at most `MAX_BYTES_IN_GRAPH`.
    """
    stream = library.stream(like)
    buffer = library.empty((packed.size,), library.dtype("uint8"), like)
    address = library.address(buffer)
    for begin in range(0, packed.size, BYTES_PER_WRITE):
        part = packed[begin : begin + BYTES_PER_WRITE].tobytes()
        code.start_with(len(part) >> 3, stream, address + begin, part)
    return buffer
