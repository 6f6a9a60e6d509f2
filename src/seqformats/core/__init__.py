"""Fast paths for small batches, and what Python implementations are made of, in an extension written in Cython.

A call on a small batch takes less time than the Python between its checks and its kernel.  So the usual calls (a
constructor, a conversion, an operation that is one kernel, indexing) are tried here first: ``core.construct(x)`` and
the others do what the Python code after them would do, or give None.  What the extension knows of the library it is
told: classes by `use_encodings`, the addresses of kernels by `launch.kernel`.  A kernel or conversion that a user
registers takes that away again.

What Python implementations are made of is there for all operations: a kernel as a function (`Entry`), a structure that
a kernel writes (`build_structure`), objects without their constructor (`make_object`), and for plain batches rows in
another layout (`lay_out`) and rows that a kernel moves (`move_by_kernel`).

The extension is built where the package is installed from its sources and a C compiler is there (`build`), and is part
of wheels.  Without it, and with ``SEQFORMATS_CORE=0``, all names here stand for functions that give None, and
everything is done in Python.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from . import absent

extension: Any = None
"""The extension; None where there is none, or one of older sources, which is to be built anew, or it is left out."""
IS_LEFT_OUT = os.environ.get("SEQFORMATS_CORE") == "0"
with contextlib.suppress(ImportError, SystemError):  # the latter of one for Python with a GIL where there is none
    from . import fast  # type: ignore[attr-defined, unused-ignore]

    if not IS_LEFT_OUT and all(hasattr(fast, name) for name in absent.PROVIDES):
        extension = fast

_of: Any = absent if extension is None else extension
NAMES: frozenset[str] = frozenset(_of.NAMES)
"""The kernels that several fast paths use, which `use_kernel` takes."""
Calculate, Spread, Conversion, Bags = _of.Calculate, _of.Spread, _of.Conversion, _of.Bags
construct, fill_list, list_of, is_unchanged = _of.construct, _of.fill_list, _of.list_of, _of.is_unchanged
pick, repeat, start, is_plain = _of.pick, _of.repeat, _of.start, _of.is_plain
scan_arrays, common_flags = _of.scan_arrays, _of.common_flags
read_numbers, write_numbers = _of.read_numbers, _of.write_numbers
Entry = _of.Entry
build_structure, make_object, lay_out, move_by_kernel = (
    _of.build_structure,
    _of.make_object,
    _of.lay_out,
    _of.move_by_kernel,
)
data_alike, asks_nothing, concat, interleave = _of.data_alike, _of.asks_nothing, _of.concat, _of.interleave
map_items = _of.map_items
address_of = _of.address_of
use_kernel, use_at_most, use_torch = _of.use_kernel, _of.use_at_most, _of.use_torch
knows_dtype, switch = _of.knows_dtype, _of.switch

SHARED = 4 << 20
"""Bytes from which on a kernel has work for several threads: the smallest `threads_from` of `kernels.parts.record`."""
NO_LIMIT = (1 << 63) - 1
ANY_SIZE = 1 << 25
"""Bytes above which Python always does it: there the system zeroes padding, see `arrays.LAZY_ZEROS`."""


def use_encodings(encodings: Sequence[type], structure: type, order: type) -> None:
    """Tell of the classes: `Ragged`, `Masked`, `Padded`, `Packed`, `LoD`, `List`, and those of structures."""
    absent.use_encodings(encodings, structure, order)
    if extension is not None:
        extension.use_encodings(encodings, structure, order)


def with_threads(count: int) -> None:
    """Let fast paths, which work on one thread, in for what one thread does."""
    use_at_most(ANY_SIZE if count == 1 else SHARED - 1, SHARED - 1, NO_LIMIT if count == 1 else SHARED - 1)


@contextlib.contextmanager
def python_only() -> Iterator[None]:
    """Do everything in Python for a while, in all threads: for tests, and to find out what fast paths are worth."""
    global build_structure, make_object
    switch(False)
    build_structure, make_object = absent.build_structure, absent.make_object
    try:
        yield
    finally:
        switch(True)
        build_structure, make_object = _of.build_structure, _of.make_object
