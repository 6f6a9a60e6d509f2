"""What can be calculated in which dtype.  Dtypes go by their NumPy names, which say the same in every library."""

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
FLOATS = ("float32", "float64")  # in which kernels calculate exponentials
ORDERED = [name for name in SUMS_IN if not name.startswith("complex")]


def sums_in(name: str) -> str:
    """The dtype in which items of this dtype are added up; TypeError where they cannot be."""
    if name not in SUMS_IN:
        raise TypeError(f"items of dtype {name} cannot be added up; those that can: {', '.join(SUMS_IN)}")
    return SUMS_IN[name]


def in_floats(name: str, what: str) -> tuple[str, str]:
    """In which dtype exponentials, say, are calculated, and which the result has; TypeError where there is none."""
    if name not in SUMS_IN or name.startswith("complex"):
        raise TypeError(
            f"items of dtype {name} have no order, and so {what} neither; those that have one: {', '.join(ORDERED)}"
        )
    if name in HALF:
        return "float32", name
    return (name, name) if name.startswith("float") else ("float64", "float64")


def float_kept(name: str) -> str | None:
    """`name` where exponentials are calculated in items as they are; None for other dtypes."""
    return name if name in FLOATS else None


def differentiable(name: str, what: str) -> None:
    """TypeError for integers and bools."""
    if SUMS_IN.get(name) in ("int64", "uint64"):
        raise TypeError(f"{what} of {name} has no gradient; give the items a float dtype")
