"""Lists are read here: of arrays, of tensors, of lists of numbers."""

from .arrays import common_flags, read, scan
from .numbers import WIDE, are_numbers, read_numbers, write_numbers

__all__ = ["WIDE", "are_numbers", "common_flags", "read", "read_numbers", "scan", "write_numbers"]
