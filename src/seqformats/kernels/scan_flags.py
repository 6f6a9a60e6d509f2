"""Read the flags of a tuple of NumPy arrays: may all be written, are all aligned?

Asking each array in Python takes ten times as long as all else that a compiled function asks of a `List`.  The layout
is that of `scan_list`.
"""

from .parts import KernelSpec, compiled_with_gil, peek, peek_int


@compiled_with_gil
def cpu(items: int, n: int, head: int, kind: int) -> int:
    """The flags that all n arrays have whose object pointers begin at `items`; -1 where one is of another type.

    `head` is the size of an object header, `kind` the address of ``numpy.ndarray``.  The caller holds a reference to
    the tuple.
    """
    common = 0x7FFFFFFF
    for i in range(n):
        array = peek(items + 8 * i)
        if peek(array + 8) != kind:
            return -1
        common &= peek_int(array + head + 48)
    return common


KERNEL = KernelSpec(cpu)
