"""Numbers of the host on a device without a copy: as the parameters of a kernel that writes them where they belong.

A graph that is captured keeps the parameters of its kernels, where it would read the host's memory of a copy again at
each replay.  So this is how a structure that is not on the device gets into one; each replay writes it anew.

The kernel is PTX, which a driver compiles when it loads it: Numba has no parameters that are read by an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arrays.library import Array

if TYPE_CHECKING:  # which imports this file
    from .resident import Place

_WORDS = 496
"""Numbers of 64 bits that one kernel writes; with the address they are just below 4 KB, all that a kernel may take."""
MOST = 8 * _WORDS * 8
"""Bytes that are written at most, by eight kernels: the structure of some two thousand sequences."""
_NAME = "write_words"
_PTX = f"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry {_NAME}(
	.param .u64 {_NAME}_param_0,
	.param .align 8 .b8 {_NAME}_param_1[{8 * _WORDS}]
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


def written(packed: Array, place: Place) -> Array:
    """Memory of the device that has these bytes, a multiple of 8 and at most `MOST`, once the stream comes to it."""
    driver, library = place.driver, place.library
    assert driver is not None
    code = driver.writers.get(place.index)
    if code is None:
        code = driver.load(_PTX.encode() + b"\0", _NAME, 1 + _WORDS, _NAME)
        driver.writers[place.index] = code
    buffer = library.empty((packed.size,), library.dtype("uint8"), place.like)
    address, words = library.address(buffer), packed.view(np.int64).tolist()
    for begin in range(0, len(words), _WORDS):
        part = words[begin : begin + _WORDS]
        rest = [0] * (_WORDS - len(part))
        code.start((1, 1, 1), (len(part), 1, 1), place.stream, [address + 8 * begin, *part, *rest])
    return buffer
