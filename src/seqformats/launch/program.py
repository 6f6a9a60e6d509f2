"""Kernels as programs of JAX, for arrays that JAX traces or that are not on the host.

Where a kernel moves rows depends on the structure alone, which is on the host.  So a kernel that *moves* rows runs on
the host once, over row numbers.  Its result says which row goes where, and the program is one gather, whose gradient
JAX knows.  A kernel that *calculates* has a formula, see `launch.formulas`.  All other kernels need values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..arrays.jax import Cell, Jax
from ..arrays.library import Array, DType
from ..arrays.numpy import NUMPY
from ..errors import TRACED
from ..memory_checks import remember
from .formulas import FORMULAS, NAMED
from .kernel import Kernel, Sequences, Work
from .recurrences import FORMULAS_OF_STEPS as FORMULAS_OF_STEPS
from .series import FORMULAS_OF_SERIES as FORMULAS_OF_SERIES

Value = Any  # a `Cell`, an array of JAX or an array of NumPy
Values = tuple[Any, ...]


def start(
    kernel: Kernel,
    library: Jax,
    inputs: Values,
    outputs: Values,
    args: Values,
    size: int,
    work: Work | None,
    structure: Sequences | None,
) -> None:
    """Write the results of a kernel into outputs that are cells.  See `Kernel.start` for the parameters."""
    args = tuple([_check_values(library, x) for x in args])
    formula = FORMULAS.get(kernel.name)
    if kernel.load().does == "moves":
        _move(kernel, library, inputs[0], outputs[0], args, size, structure, work)
    elif formula is not None and (kernel.name in NAMED or (_fit(inputs) and _fit(outputs))):
        formula(library.jax, inputs, outputs, args, size)
    else:
        _on_host(kernel, library, inputs, outputs, args, size, work, structure)


def _fit(arrays: Iterable[Any]) -> bool:
    return not any(isinstance(x, tuple) for x in arrays)


def _check_values(library: Jax, x: Value) -> Value:
    """Return an argument that says where rows go as a NumPy array; an error if JAX traces it."""
    return _values(library, x) if isinstance(x, (Cell, library.jax.Array)) else x


def _values(library: Jax, x: Value) -> Array:
    value = x.value if isinstance(x, Cell) else x
    if isinstance(value, library.tracer):
        raise TRACED(
            "this works on the values of arrays, which are not there where JAX traces a program; call it outside of "
            "jax.jit, jax.grad and jax.vmap"
        )
    return np.asarray(value)


def _move(
    kernel: Kernel,
    library: Jax,
    given: Value,
    out: Cell,
    args: Values,
    size: int,
    structure: Sequences | None,
    work: Work | None,
) -> None:
    """Move rows, or parts of them of `size` bytes, by one gather."""
    numpy = library.numpy
    sources = [
        x if isinstance(x, Cell) else Cell(library, numpy.asarray(x))
        for x in (given if type(given) is tuple and given else (given,))
        if type(x) is not tuple
    ]
    if not sources:  # an item of zeros
        sources = [Cell(library, numpy.zeros(size // out.dtype.itemsize, out.dtype))]
    absolute = type(given) is tuple and bool(given)
    index = _plan(
        kernel, [x.nbytes // size for x in sources], sources if absolute else None, out, args, size, (structure, work)
    )
    width = size // out.dtype.itemsize
    rows = [_in_rows(x.value, out.dtype, width) for x in sources]
    there = rows[0] if len(rows) == 1 else numpy.concatenate(rows)
    found = index >= 0
    if not found.any():
        return
    if index.size == len(there) and (index == np.arange(index.size)).all():
        taken = there
    else:
        taken = numpy.take(there, np.maximum(index, 0), axis=0, mode="clip")
    if not found.all():
        before = 0 if out.blank is not None else out.value.reshape(taken.shape)
        taken = numpy.where(found[:, None], taken, before)
    out.write(taken.reshape(out.shape).astype(out.dtype))


def _in_rows(x: Value, dtype: DType, width: int) -> Value:
    """Reshape an array to rows of `width` items of `dtype`, also one that holds the bytes of a padding item."""
    if x.dtype != dtype:
        x = x.reshape(-1).view(dtype)
    return x.reshape(-1, width)


def _plan(
    kernel: Kernel,
    counts: list[int],
    held: list[Cell] | None,
    out: Cell,
    args: Values,
    size: int,
    over: tuple[Sequences | None, Work | None],
) -> Array:
    """Find where each row of the result comes from: a row number, counted through all sources; -1 for none.

    The kernel runs on the host, over rows of the same size that hold their own number.  A row may be too narrow for
    all bytes of the number; then the kernel runs again for the next ones.
    """
    structure, work = over
    units = out.nbytes // size
    key = None
    if held is None and structure is not None:
        key = ("plan", kernel.name, size, units, *counts, _digest(args), None if work is None else work[:2])
        if key in structure.device:
            found: Array = structure.device[key]
            return found
    total = sum(counts)
    numbers = np.arange(1, total + 1)
    needed = max(1, -(-int(total).bit_length() // 8))
    each = min(size, needed)
    index = np.zeros(units, np.int64)
    ends = np.cumsum([0, *counts])
    shadows = [np.empty(counts[0] * size, np.uint8)] if held is None else [x.shadow() for x in held]
    for part in range(0, needed, each):
        for k, shadow in enumerate(shadows):
            rows = shadow[: counts[k] * size].reshape(counts[k], size)
            rows[...] = 0
            own = numbers[ends[k] : ends[k + 1]]
            for b in range(min(each, needed - part)):
                rows[:, b] = own >> (8 * (part + b)) & 255
        made = np.zeros(out.nbytes, np.uint8)
        kernel.start(NUMPY, (tuple(shadows) if held else shadows[0],), (made,), args, size, structure, work)
        rows = made.reshape(units, size)
        for b in range(min(each, needed - part)):
            index |= rows[:, b].astype(np.int64) << (8 * (part + b))
    index -= 1
    if total < 1 << 31:
        index = index.astype(np.int32)
    index.setflags(write=False)
    return index if key is None or structure is None else remember(structure.device, key, index)


def _digest(args: Values) -> bytes:
    """Digest the values of arguments."""
    names = hashlib.blake2b(digest_size=16)
    for x in args:
        if isinstance(x, np.ndarray):
            names.update(str(x.size).encode())
            names.update(np.ascontiguousarray(x).data)
        elif isinstance(x, tuple):
            names.update(_digest(x))
        else:
            names.update(str(x).encode())
        names.update(b";")
    return names.digest()


def _on_host(
    kernel: Kernel,
    library: Jax,
    inputs: Values,
    outputs: Values,
    args: Values,
    size: int,
    work: Work | None,
    structure: Sequences | None,
) -> None:
    """Run a kernel that has no formula on the host, on the values of its inputs."""
    given = tuple([_map_arrays(x, lambda part: _values(library, part)) for x in inputs])
    cells: list[tuple[Any, Array]] = []

    def open_leaf(x: Any) -> Array:
        values = np.array(_values(library, x)) if x.blank is None else np.zeros(x.shape, x.blank)
        cells.append((x, values))
        return values

    made = tuple([_map_arrays(x, open_leaf) for x in outputs])
    if any(isinstance(x, tuple) for x in (*given, *made)):
        assert work is not None
        kernel.start_named(NUMPY, given, made, args, size, work, structure)
    else:
        kernel.start(NUMPY, given, made, args, size, structure, work)
    for out, x in cells:
        out.write(x)  # a NumPy array, so that the next kernel can read its values


def _map_arrays(x: Any, change: Callable[[Any], Array]) -> Any:
    """Apply `change` to an array, or to each in a named tuple; numbers and arrays of NumPy stay."""
    if isinstance(x, tuple):
        kind: Any = type(x)
        return kind(*[_map_arrays(part, change) for part in x])
    return x if isinstance(x, (int, float, np.integer, np.ndarray)) else change(x)
