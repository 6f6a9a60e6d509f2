"""Kernels as machine code: kept in files, and started without Numba."""
