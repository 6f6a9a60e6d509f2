"""Lists are read here: of arrays, of tensors, of lists of numbers."""

from .arrays import read, scan
from .numbers import WIDE, read_numbers, write_numbers

__all__ = ["WIDE", "read", "read_numbers", "scan", "write_numbers"]
