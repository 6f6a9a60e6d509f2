"""Kernels as a user writes them: plain functions, for the host and for CUDA."""

from numba import cuda

from seqformats.kernels import along, locate


def weigh(x, weights, out, at, step, width, lo, hi):
    """Item t of every sequence times ``weights[t * step]``, from the first again where they end."""
    for u in range(lo, hi):
        _, first, length = locate(at, u)
        for t in range(length):
            begin = (first + along(at, t)) * width
            for p in range(begin, begin + width):
                out[p] = x[p] * weights[t * step % weights.size]


def weigh_on_cuda(x, weights, out, at, step, width):
    u = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    while u < at.cum.size - 1:
        _, first, length = locate(at, u)
        k = cuda.threadIdx.x
        while k < width:
            for t in range(length):
                p = (first + along(at, t)) * width + k
                out[p] = x[p] * weights[t * step % weights.size]
            k += cuda.blockDim.x
        u += cuda.gridDim.x * cuda.blockDim.y


def scale(x, out, at, factor, width, lo, hi):
    """Every item times a number, an int or a float."""
    for u in range(lo, hi):
        _, first, length = locate(at, u)
        for t in range(length):
            begin = (first + along(at, t)) * width
            for p in range(begin, begin + width):
                out[p] = x[p] * factor


def scale_on_cuda(x, out, at, factor, width):
    u = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    while u < at.cum.size - 1:
        _, first, length = locate(at, u)
        k = cuda.threadIdx.x
        while k < width:
            for t in range(length):
                p = (first + along(at, t)) * width + k
                out[p] = x[p] * factor
            k += cuda.blockDim.x
        u += cuda.gridDim.x * cuda.blockDim.y


def total(x, out, at, width, lo, hi):
    """The sum of every sequence."""
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        for k in range(width):
            out[i * width + k] = 0
            for t in range(length):
                out[i * width + k] += x[(first + along(at, t)) * width + k]


def total_on_cuda(x, out, at, width):
    """A block for each sequence, in which a thread has a column."""
    u = cuda.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        column = cuda.blockIdx.y * cuda.blockDim.x
        while column < width:
            k = column + cuda.threadIdx.x
            if k < width and cuda.threadIdx.y == 0:
                out[i * width + k] = 0
                for t in range(length):
                    out[i * width + k] += x[(first + along(at, t)) * width + k]
            column += cuda.gridDim.y * cuda.blockDim.x
        u += cuda.gridDim.x


def spread(x, out, at, width, lo, hi):
    """The row of each sequence to all of its items."""
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        for t in range(length):
            begin = (first + along(at, t)) * width
            for k in range(width):
                out[begin + k] = x[i * width + k]


def spread_on_cuda(x, out, at, width):
    u = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = cuda.threadIdx.x
        while k < width:
            for t in range(length):
                out[(first + along(at, t)) * width + k] = x[i * width + k]
            k += cuda.blockDim.x
        u += cuda.gridDim.x * cuda.blockDim.y
