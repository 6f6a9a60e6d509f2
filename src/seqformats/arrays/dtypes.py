"""Dtypes in which kernels calculate, and of results, by the name of the items' dtype."""

from collections.abc import Callable
from typing import NamedTuple

from ..errors import DTYPE, NO_GRADIENT

# dtype of the items -> dtype in which they are added up
SUMS_IN = {
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
    "bool": "int64",
    "int8": "int64",
    "int16": "int64",
    "int32": "int64",
    "int64": "int64",
    "uint8": "uint64",
    "uint16": "uint64",
    "uint32": "uint64",
    "uint64": "uint64",
}
HALF = ("float16", "bfloat16")
FLOAT_NAMES = (*HALF, "float32", "float64")
ORDERED = [name for name in SUMS_IN if not name.startswith("complex")]
INTEGERS = ("int64", "uint64")
"""In which integers and bools are added up."""


class Dtypes(NamedTuple):
    """Names of dtypes."""

    taken: str  # in which the kernel takes the items
    made: str  # of what it writes
    result: str  # of what the caller gets


def sums_in(name: str) -> str:
    """The dtype in which items of this dtype are added up; TypeError where they cannot be."""
    if name not in SUMS_IN:
        raise DTYPE(f"items of dtype {name} cannot be added up; those that can: {', '.join(SUMS_IN)}")
    return SUMS_IN[name]


def sums(name: str) -> Dtypes:
    """Half precision is added up in float32; integers and bools in 64 bits, as which they stay."""
    added = sums_in(name)
    return Dtypes(added, added, name) if name in HALF else Dtypes(name, added, added)


def means(name: str) -> Dtypes:
    """Calculate as sums do, but integers in float64."""
    found = sums(name)
    return Dtypes(name, "float64", "float64") if found.made in INTEGERS else found


def same(name: str) -> Dtypes:
    """Keep what has an order as it is; half precision is compared in float32."""
    if name not in SUMS_IN or name.startswith("complex"):
        raise DTYPE(f"items of dtype {name} have no order; those that have one: {', '.join(ORDERED)}")
    return Dtypes("float32", "float32", name) if name in HALF else Dtypes(name, name, name)


def exponentials(what: str) -> Callable[[str], Dtypes]:
    """Half precision in float32; integers and bools in float64; `what` has no meaning for what has no order."""

    def dtypes(name: str) -> Dtypes:
        floats, result = in_floats(name, what)
        return Dtypes(floats, floats, result)

    return dtypes


def in_floats(name: str, what: str) -> tuple[str, str]:
    """Find the dtype in which exponentials, say, are calculated, and that of the result; TypeError for none."""
    if name not in SUMS_IN or name.startswith("complex"):
        raise DTYPE(
            f"items of dtype {name} have no order, and so {what} neither; those that have one: {', '.join(ORDERED)}"
        )
    if name in HALF:
        return "float32", name
    return (name, name) if name.startswith("float") else ("float64", "float64")


def differentiable(name: str, what: str) -> None:
    """TypeError for integers and bools."""
    if SUMS_IN.get(name) in INTEGERS:
        raise NO_GRADIENT(f"{what} of {name} has no gradient; give the items a float dtype")
