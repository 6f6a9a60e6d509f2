"""Read a tuple of NumPy arrays through the public C layout of the tuple and of each array object.

Asking 128 arrays for type, dtype, shape and address in Python costs more than copying them.  The layouts are those of
CPython's ``tupleobject.h`` and NumPy's ``PyArrayObject_fields`` (``ndarraytypes.h``), whose first field lies behind
the object header: data, nd (int), dimensions, strides, base, descr, flags (int).
"""

from .parts import (
    Integers,
    KernelSpec,
    at_least,
    compiled_with_gil,
    peek,
    peek_int,
)


@compiled_with_gil
def cpu(items: int, head: int, kind: int, lengths: Integers, offsets: Integers, addresses: Integers) -> int:
    """Write lengths, offsets and data addresses of the arrays whose object pointers begin at `items`.

    `head` is the size of an object header, `kind` the address of ``numpy.ndarray``.  Returns the greatest length, or
    -1 - i where array i is of another type, dtype object, rank or item shape than array 0, or is not C-contiguous.  The
    caller holds a reference to the tuple.
    """
    first = peek(items)
    descr = peek(first + head + 40)
    rank = peek_int(first + head + 8)
    shape = peek(first + head + 16)
    longest = 0
    offsets[0] = 0
    if rank < 1:
        return -1
    for i in range(lengths.size):
        array = peek(items + 8 * i)
        if peek(array + 8) != kind or peek(array + head + 40) != descr or peek_int(array + head + 8) != rank:
            return -1 - i
        if peek_int(array + head + 48) & 1 == 0:  # NPY_ARRAY_C_CONTIGUOUS
            return -1 - i
        dims = peek(array + head + 16)
        for k in range(1, rank):
            if peek(dims + 8 * k) != peek(shape + 8 * k):
                return -1 - i
        lengths[i] = peek(dims)
        longest = at_least(longest, lengths[i])
        offsets[i + 1] = offsets[i] + lengths[i]
        if offsets[i + 1] < 0:  # arrays without items may be that long
            return -1 - i
        addresses[i] = peek(array + head)
    return longest


KERNEL = KernelSpec(cpu)
