"""Move the first or the last row of every sequence to an array of one row a sequence, or back to its place.

One side holds the sequences in any layout, see `locate` for the arguments; where `addresses` is 1, it is a list's
arrays: `src` is 0 and ``starts (n,)`` are memory addresses.  An empty sequence gives zero bytes, and takes nothing.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import along, at_least, at_most, clear, compiled, compiled_for_cuda, locate, move_row, will_read

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, move_word


@compiled
def cpu(
    src: int,
    out: int,
    starts: Any,
    cum: Any,
    steps: Any,
    stride: int,
    left: int,
    step: int,
    last: int,
    back: int,
    addresses: int,
    row: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row; with `back` 1, `out` has the sequences."""
    unit = 1 if addresses else row
    plain = step == 1 and stride < 0 and back == 0 and row < 128
    for u in range(lo, hi if plain else lo):  # small rows of blocks one after the other: the shortest way
        length = cum[u + 1] - cum[u]
        if length != 0:
            move_row(out, u * row, src, starts[u] * unit + last * (length - 1) * row, row)
        else:
            clear(out, u * row, row)
    for u in range(hi if plain else lo, hi):
        if row >= 128 and back == 0:  # of several lines each, so the memory is told in time
            _, first, length = locate(starts, cum, at_most(u + 8, hi - 1), stride, left, step)
            p = src + first * unit + along(last * at_least(length - 1, 0), steps, step) * row
            end = p + at_most(row, 512)
            while p < end:
                will_read(p)
                p += 64
        i, first, length = locate(starts, cum, u, stride, left, step)
        place = first * unit + along(last * (length - 1), steps, step) * row
        if length == 0:
            if back == 0:
                clear(out, i * row, row)
        elif back:
            move_row(out, place, src, i * row, row)
        else:
            move_row(out, i * row, src, place, row)


@compiled_for_cuda(over="rows")
def cuda(
    src: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    stride: int,
    left: int,
    step: int,
    last: int,
    back: int,
    addresses: int,
    row: int,
) -> None:
    """All units, a line of threads each; `src` and `out` are machine words, `row` words a row."""
    unit = 1 if addresses else row
    word = out.itemsize if addresses else 1
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        w = gpu.threadIdx.x
        while w < row:
            if length != 0:
                place = first * unit + (along(last * (length - 1), steps, step) * row + w) * word
                d = place if back else i * row + w
                s = i * row + w if back else place
                move_word(out, d, src, s)
            elif back == 0:
                out[i * row + w] = 0
            w += gpu.blockDim.x
        u += gpu.gridDim.x * gpu.blockDim.y
