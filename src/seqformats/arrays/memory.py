"""New arrays of the host: in new memory, or in that of large results that are gone, where the user lets it be kept.

A block that is kept is an array of bytes, of which every result there is a view.  Views of views, and whatever else can
reach its memory (tensors, memoryviews, Arrow's buffers), hold a reference to one of them or to the block itself.  So
the number of references to a block says whether anybody can still see it, and nobody has to tell that a result is gone.

That number is all the state there is.  Whoever wants a block makes a view of it first and looks then: where two do so
at once each sees the other's view, and neither takes it.  So no lock is held, which an exception, a garbage collection
or a fork could find locked, and a block that was not taken after all is free as soon as the view is gone.
"""

import itertools
import math
import operator
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import TypeAlias, TypeVar

import numpy as np

from ..errors import RANGE, WHOLE, said
from .library import LAZY_ZEROS, Array, DType, Shape

LEAST = LAZY_ZEROS
"""The bytes of the smallest result whose memory is kept.

Up to 32 MB, the allocator of glibc keeps what is freed itself.  What is larger goes back to the system at once, which
zeroes every page before it gives it out again: that takes longer than to fill it.
"""

_SPARE = 4
"""A block may be larger than the result by one part in so many: the rest of it is of no use as long as that lives."""

_LINE = 64
"""Bytes of a cache line, at whose multiples results begin, as those of the widest vectors do."""

V = TypeVar("V")
Make: TypeAlias = Callable[[Shape | int, DType], Array]

# How new arrays of the host are made: by NumPy itself, at no cost, as long as no memory is kept.
empty: Make = np.empty
zeros: Make = np.zeros

_count_of: Callable[[object], int] | None = getattr(sys, "getrefcount", None)
_turns = itertools.count()


class _Block:
    """Memory for results, one after the other.

    The bytes are alone in a tuple, which lives as long as this does: so its reference to them is always among those
    that are counted, whoever drops the block meanwhile.
    """

    __slots__ = ("bytes", "offset", "size", "turn")

    def __init__(self, size: int) -> None:
        self.bytes: tuple[Array] = (np.empty(size + _LINE, np.uint8),)
        self.size = size
        self.offset = -self.bytes[0].ctypes.data % _LINE
        self.turn = next(_turns)

    def references(self) -> int:
        """Count the references to the bytes, from C, where no local variable comes in between."""
        return next(map(_count_of, self.bytes))  # type: ignore[arg-type]

    def view(self, shape: Shape | int, dtype: DType) -> Array:
        """An array in this memory."""
        view: Array = np.ndarray(shape, dtype, self.bytes[0], self.offset)  # type: ignore[arg-type]
        return view


def _unused() -> int | None:
    """Return the number of references to a block that nobody can see; None where that number tells nothing.

    An implementation of Python need not count them, and one without a global lock does not count them at once.
    """
    import sysconfig  # which no one else needs

    if _count_of is None or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    block = _Block(_LINE)
    counts = [block.references()]
    view = block.view((4, 2), np.dtype(np.int64))
    counts.append(block.references())
    part, raw = view[1:], memoryview(block.bytes[0])  # type: ignore[arg-type]
    counts.append(block.references())
    del view, part, raw
    counts.append(block.references())
    unused = counts[0]
    return unused if [count - unused for count in counts] == [0, 1, 3, 0] else None


class _Kept:
    """The blocks that are kept, of `limit` bytes together: those that are free, and those that a result is in.

    Both count, as the second kind becomes the first without a word.
    """

    def __init__(self, limit: int, unused: int) -> None:
        self.limit = limit
        self.unused = unused
        self.blocks: set[_Block] = set()

    def empty(self, shape: Shape | int, dtype: DType) -> Array:
        """`numpy.empty`, in a block that is kept where the array is large."""
        dtype = np.dtype(dtype)
        size = dtype.itemsize * (math.prod(shape) if isinstance(shape, tuple) else shape)
        if LEAST <= size <= self.limit and not dtype.hasobject:
            old = self.taken(shape, dtype, size)
            return self.added(shape, dtype, size) if old is None else old
        try:  # what `made` does, of which small results need not wait for the call
            return np.empty(shape, dtype)
        except MemoryError:
            self.give_back()
        return np.empty(shape, dtype)

    def zeros(self, shape: Shape | int, dtype: DType) -> Array:
        """`numpy.zeros`, in new memory: the system zeroes its pages when they are touched, and padding never is."""
        return self.made(np.zeros, shape, dtype)

    def taken(self, shape: Shape | int, dtype: DType, size: int) -> Array | None:
        """An array in the smallest free block that suits it, of several the last one used."""
        fit = [block for block in list(self.blocks) if size <= block.size <= size + size // _SPARE]
        for block in sorted(fit, key=lambda block: (block.size, -block.turn)):
            view = block.view(shape, dtype)
            if block.references() != self.unused + 1:  # somebody else has one, too
                del view
                continue
            block.turn = next(_turns)
            if not view.flags.writeable:  # the block was locked together with a result, see `frozen`
                block.bytes[0].setflags(True)
                view.setflags(True)
            return view
        return None

    def added(self, shape: Shape | int, dtype: DType, size: int) -> Array:
        """An array in a new block."""
        self.shrink(size)  # first, so that there is never more
        block = self.made(_Block, size)
        view = block.view(shape, dtype)
        self.blocks.add(block)
        self.shrink()  # other threads may have added some, and the limit may be another
        return view

    def made(self, make: Callable[..., V], *args: object) -> V:
        """``make(*args)``; where the system has no memory left for it, it gets back what is free here."""
        try:
            return make(*args)
        except MemoryError:
            self.give_back()
        return make(*args)

    def shrink(self, more: int = 0) -> None:
        """Drop blocks, the one last used longest ago first, until there is room for so many bytes more."""
        blocks = sorted(self.blocks, key=attrgetter("turn"))
        size = sum(block.size for block in blocks) + more
        for block in blocks:
            if size <= self.limit:
                break
            self.blocks.discard(block)
            size -= block.size

    def give_back(self) -> None:
        """Drop all blocks that are free."""
        for block in list(self.blocks):
            if block.references() == self.unused:
                self.blocks.discard(block)


_kept: _Kept | None = None


def kept_memory() -> int:
    """Return how many bytes of memory may be kept for new results; 0 where none are.

    The number given to `keep_memory`, which see.

    Returns
    -------
    int

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.kept_memory()
    0
    """
    return 0 if _kept is None else _kept.limit


def keep_memory(limit: int | None) -> None:
    """Keep the memory of large results that are gone for new ones, `limit` bytes of it at most; 0 or None keeps none.

    A result of more than 32 MB costs more than what is written into it: it lies in memory that is new to the process,
    whose pages the system zeroes first, and goes back to the system with the result.  Where results come one after the
    other, as batches do, memory that is kept is quicker: a conversion that only copies takes about two thirds of the
    time.

    Parameters
    ----------
    limit : int or None
        In bytes.  Blocks with a result in them count, as well as those that wait for one; beyond the limit, the one
        last used longest ago is dropped.  What is dropped goes back to the system when no result is in it any more.  A
        result larger than the limit is not kept at all; below 32 MB, nothing is.

    Raises
    ------
    TypeError
        `limit` is not an integer.
    ConversionError
        It is negative.

    See Also
    --------
    kept_memory : The limit.

    Notes
    -----
    The cost is memory: up to `limit` bytes, which the process keeps even while it has no use for them, until
    ``keep_memory(None)``.  (It gives them back sooner where the system has too little for one of its results.)  So it
    is off, unless it is asked for.  A good limit is the size of the large results that are alive at once, and once
    more that of the largest.

    It is for NumPy's arrays and PyTorch's tensors on the CPU.  A block is used again when nothing can see it any more:
    no result, no view of one, no tensor or buffer over the same memory.  It suits results of the same size or up to a
    fifth smaller.  Results that are made of zeros, as large padded ones are, come in new memory, of which the system
    need not touch the padding.

    A result in memory that is kept is a view, of a block of bytes: its ``flags.owndata`` is False, and it cannot be
    resized in place.

    It is safe to call from several threads.  A forked child goes on with the limit and with what was free.

    References to the block tell whether it is free.  Where Python does not count them one by one (in a build without
    the global lock, say), nothing is kept, and `kept_memory` stays 0.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.keep_memory(1 << 28)
    >>> x = sf.Ragged(np.zeros((3 << 20, 4), np.float32), [1 << 20, 2 << 20])
    >>> y = sf.reverse(x)
    >>> address = y.data.ctypes.data
    >>> del y
    >>> sf.reverse(x).data.ctypes.data == address
    True
    >>> sf.keep_memory(None)
    """
    global _kept, empty, zeros
    if limit is not None:
        try:
            number = None if isinstance(limit, (bool, np.bool_)) else operator.index(limit)
        except TypeError:  # an array of several has the method too
            number = None
        if number is None:
            raise WHOLE(f"the memory to keep must be an integer, of bytes, or None, not {type(limit).__name__}")
        limit = number
        if limit < 0:
            raise RANGE(f"the memory to keep must be at least 0 bytes, not {said(limit)}")
    if not limit:
        empty, zeros, _kept = np.empty, np.zeros, None
        return
    if _kept is None:
        unused = _unused()
        if unused is None:
            return
        _kept = _Kept(limit, unused)
    _kept.limit = limit
    _kept.shrink()
    empty, zeros = _kept.empty, _kept.zeros
