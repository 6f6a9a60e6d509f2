"""Machine code of kernels: where it is kept, and how it is loaded without Numba."""
