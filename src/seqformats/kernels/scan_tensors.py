"""Read a tuple of torch tensors through functions in C, as `scan_list` reads NumPy arrays.

What a tensor is like is told by the DLPack exchange API, which fills a ``DLTensor`` (dlpack.h, version 1): 8 bytes each
for the data, the device, rank and dtype, the addresses of shape and strides, and an offset in bytes.  What that does
not know PyTorch is asked for itself; `reading/tensors.py` finds the functions.
"""

from .parts import (
    Integers,
    KernelSpec,
    at_least,
    call,
    compiled_with_gil,
    peek,
)


@compiled_with_gil
def cpu(
    items: int,
    types: Integers,
    calls: Integers,
    words: Integers,
    room: int,
    lengths: Integers,
    offsets: Integers,
    addresses: Integers,
    wanted: Integers,
) -> int:
    """Write lengths, offsets and data addresses of the tensors whose object pointers begin at `items`.

    ``types``: the addresses of the two types that a tensor may have.  ``calls``: those of the functions that
    `tensors._calls` finds, and where in a tensor's C++ object its shape is.  ``words (8,)``: room for a DLTensor, the
    address of the C++ object (which is a C++ tensor), and a number that is asked for; `room` is where it begins.

    Returns the greatest length, or -1 - i where tensor i is of another type, device, dtype, rank or item shape than
    tensor 0, is complex, has no axis or more than 5, has a sign that is still to be changed, is not contiguous, or not
    all of it is in memory.  ``wanted (1,)``: how many want a gradient.  The caller holds a reference to the tuple.
    """
    device, kind, shape, rank, itemsize = 0, 0, 0, 0, 0
    longest = 0
    offsets[0] = 0
    wanted[0] = 0
    for i in range(lengths.size):
        item = peek(items + 8 * i)
        if peek(item + 8) != types[0] and peek(item + 8) != types[1]:
            return -1 - i
        if call(calls[0], item, room) & 0xFFFFFFFF:
            call(calls[1], 0, 0)
            return -1 - i
        if i == 0:
            device, kind, shape = words[1], words[2], words[3]
            itemsize = (kind >> 40 & 0xFF) * (kind >> 48 & 0xFFFF) >> 3
            where, rank = device & 0xFFFFFFFF, kind & 0xFFFFFFFF
            if where != 1 and where != 2 and where != 10:  # CPU, CUDA, and ROCm, which PyTorch calls CUDA too
                return -1
            if rank < 1 or rank > 5 or kind >> 32 & 0xFF == 5:  # complex numbers may be conjugated
                return -1
        if words[1] != device or words[2] != kind:
            return -1 - i
        numbers, contiguous = 1, True
        k = rank - 1
        while k >= 0:
            size = peek(words[3] + 8 * k)
            if k and size != peek(shape + 8 * k):
                return -1 - i
            contiguous &= size == 1 or peek(words[4] + 8 * k) == numbers
            numbers *= size
            k -= 1
        length, data = peek(words[3]), words[0] + words[5]
        words[6] = words[3] - calls[6]
        if call(calls[4], room + 48, 0) & 0xFF:
            return -1 - i
        addresses[i] = 0
        if numbers != 0:
            if data == 0 or not contiguous or call(calls[2], room + 48, room + 56) & 0xFFFFFFFF:
                return -1 - i
            held = words[7]
            if call(calls[3], room + 48, room + 56) & 0xFFFFFFFF or held < (words[7] + numbers) * itemsize:
                return -1 - i
            addresses[i] = data
        wanted[0] += call(calls[5], words[6], 0) & 0xFF != 0
        lengths[i] = length
        longest = at_least(longest, length)
        offsets[i + 1] = offsets[i] + length
        if offsets[i + 1] < 0:  # tensors without items may be that long
            return -1 - i
    return longest


KERNEL = KernelSpec(cpu)
