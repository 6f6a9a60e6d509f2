"""Doors before the general ways of operations: machine code that does for plain batches the whole of a small call.

The machine code is in `kernels.doors`.  Here is what it is told of this process (`world`), and how an operation has a
door of its own (`door`): what is behind it learns from the general way, dtype by dtype, and is compared with it before
it is used.
"""
