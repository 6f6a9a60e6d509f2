"""Read a tuple of torch tensors through the layout of its C++ objects, as `scan_list` reads NumPy arrays.

That layout is not public, so no offset stands here: `tensors.py` finds them on tensors whose fields are known, or this
kernel is never started.  A Python object holds the address of its ``TensorImpl``, and that the address of a
``StorageImpl``; what is read here is what tensors of every kind begin with.
"""

from typing import Any

from .._kernel import at_least, compiled_with_gil, peek, peek_int


@compiled_with_gil
def cpu(
    items: int, types: Any, places: Any, itemsize: int, lengths: Any, offsets: Any, addresses: Any, about: Any
) -> int:
    """Write lengths, offsets and data addresses of the tensors whose object pointers begin at `items`.

    ``types``: the addresses of the two types that a tensor may have.  ``places``: where the address of the tensor is in
    the Python object; in the tensor the rank (then 5 sizes and 5 strides), the address of the storage, the offset in
    that, the key set (what kind of tensor this is), dtype with device, the address of the graph's notes; in the storage
    the address of the data, and its bytes.

    Returns the greatest length, or -1 - i where tensor i is of another type, key set, dtype, device, rank or item shape
    than tensor 0, has more than 5 axes, is not contiguous, or not all of it is in memory.  ``about (3,)``: the key set
    they share, dtype with device, and how many have notes of the graph, without which none wants a gradient.  The
    caller holds a reference to the tuple.
    """
    kind_of_first = peek(peek(items) + 8)
    if kind_of_first != types[0] and kind_of_first != types[1]:
        return -1
    first = peek(peek(items) + places[0])
    rank, keys, kind = peek(first + places[1]), peek(first + places[4]), peek_int(first + places[5])
    about[0], about[1], about[2] = keys, kind, 0
    longest = 0
    offsets[0] = 0
    if rank < 1 or rank > 5:
        return -1
    for i in range(lengths.size):
        item = peek(items + 8 * i)
        if peek(item + 8) != types[0] and peek(item + 8) != types[1]:
            return -1 - i
        tensor = peek(item + places[0])
        if tensor == 0 or peek(tensor + places[1]) != rank:
            return -1 - i
        if peek(tensor + places[4]) != keys or peek_int(tensor + places[5]) != kind:
            return -1 - i
        sizes = tensor + places[1] + 8
        numbers, contiguous = 1, True
        k = rank - 1
        while k >= 0:
            size = peek(sizes + 8 * k)
            if k and size != peek(first + places[1] + 8 + 8 * k):
                return -1 - i
            contiguous &= size == 1 or peek(sizes + 40 + 8 * k) == numbers
            numbers *= size
            k -= 1
        addresses[i] = 0
        if numbers != 0:
            storage = peek(tensor + places[2])
            if storage == 0 or not contiguous:
                return -1 - i
            begin = peek(tensor + places[3])
            data = peek(storage + places[7])
            if data == 0 or peek(storage + places[8]) < (begin + numbers) * itemsize:
                return -1 - i
            addresses[i] = data + begin * itemsize
        lengths[i] = peek(sizes)
        longest = at_least(longest, lengths[i])
        offsets[i + 1] = offsets[i] + lengths[i]
        if offsets[i + 1] < 0:  # tensors without items may be that long
            return -1 - i
        about[2] += peek(tensor + places[6]) != 0
    return longest
