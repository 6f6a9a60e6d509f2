"""The kernels, one a file: the mathematics, the CPU driver and the CUDA driver side by side.

Some move rows, in bytes on the CPU and in machine words on CUDA; some calculate, on flat arrays of native dtypes; some
work on the host alone, on structure or on Python's objects.  Each ends with a record that says what it is;
``python -m seqformats kernels`` lists them by that.

For kernels of a user's own, which `seqformats.kernel` starts, it has what finds items in any encoding:

>>> from seqformats.kernels import Layout, along, locate
"""

from .parts import Layout, along, locate

__all__ = ["Layout", "along", "locate"]
