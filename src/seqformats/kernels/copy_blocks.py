"""Move sequences that lie in one block each, in both layouts: Ragged, Masked, a list's arrays, a step of Padded.

`cum (n + 1,)` counts rows: sequence i has ``cum[i + 1] - cum[i]``.  Its block starts at row ``starts[i]`` of a side,
or, where that side's `stride` is not negative, at ``i * stride`` (at the right end of that room, where `left` is 1).
"""

from typing import TYPE_CHECKING, Any

from .._kernel import at_most, compiled, compiled_for_cuda, move, will_read

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, move_word, search


@compiled
def cpu(
    src: int,
    out: int,
    starts: Any,
    out_starts: Any,
    cum: Any,
    stride: int,
    left: int,
    addresses: int,
    out_stride: int,
    out_left: int,
    row: int,
    lo: int,
    hi: int,
) -> None:
    """Sequences `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row.

    Where `addresses` is 1, `src` is 0 and `starts` are memory addresses.
    """
    unit = 1 if addresses else row
    for i in range(lo, hi):
        length = cum[i + 1] - cum[i]
        if stride < 0:
            will_read(src + starts[at_most(i + 8, hi - 1)] * unit)  # it may be anywhere
            s = starts[i] * unit
        else:
            s = (i * stride + left * (stride - length)) * row
        if out_stride < 0:
            d = out_starts[i] * row
        else:
            d = (i * out_stride + out_left * (out_stride - length)) * row
        move(out, d, src, s, length * row)


@compiled_for_cuda(over="rows")
def cuda(
    src: Any,
    out: Any,
    starts: Any,
    out_starts: Any,
    cum: Any,
    stride: int,
    left: int,
    addresses: int,
    out_stride: int,
    out_left: int,
    row: int,
) -> None:
    """All sequences, a line of threads a row; `src` and `out` are machine words, `row` words a row."""
    unit = 1 if addresses else row
    word = out.itemsize if addresses else 1
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i = search(cum, r)
        length = cum[i + 1] - cum[i]
        t = r - cum[i]
        if stride < 0:
            s = starts[i] * unit + t * row * word
        else:
            s = (i * stride + left * (stride - length) + t) * row
        if out_stride < 0:
            d = (out_starts[i] + t) * row
        else:
            d = (i * out_stride + out_left * (out_stride - length) + t) * row
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d + w, src, s + w * word)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
