"""What the library costs, beside its peers and beside the limit of the machine; see `__main__`."""
