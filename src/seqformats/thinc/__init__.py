"""Thinc: its types, its layers and its Ops on these kernels."""
