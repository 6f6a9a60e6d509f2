"""The seam to array libraries: whose array is this, where does it live, allocate one like it, see its bytes."""

from .known import adopt, has_items, is_array, is_array_type, library_of, library_of_type, plain, shape_of, to_host
from .library import (
    LAZY_ZEROS,
    Array,
    Differentiable,
    DType,
    Library,
    Shape,
    device_name,
    size_of,
    with_autograd,
)
from .numpy import NUMPY, NumPy, frozen, same_values, zero_item

__all__ = [
    "LAZY_ZEROS",
    "NUMPY",
    "Array",
    "DType",
    "Differentiable",
    "Library",
    "NumPy",
    "Shape",
    "adopt",
    "device_name",
    "frozen",
    "has_items",
    "is_array",
    "is_array_type",
    "library_of",
    "library_of_type",
    "plain",
    "same_values",
    "shape_of",
    "size_of",
    "to_host",
    "with_autograd",
    "zero_item",
]
