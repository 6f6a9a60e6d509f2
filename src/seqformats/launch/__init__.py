"""Starting kernels: on the host, in threads, and on other devices."""
