"""Start kernels: by name, on the host over a pool of threads, on other devices by their launchers."""
