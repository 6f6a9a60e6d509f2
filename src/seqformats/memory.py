"""Memory that is free again stays with the process, for new results, where the user asks the C library for that."""

from __future__ import annotations

import ctypes
import logging
import operator
import os
from collections.abc import Callable

import numpy as np

from .errors import RANGE, WHOLE, quote

# parameters of mallopt(3)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_USUAL = {_MMAP_MAX: 65536, _MMAP_THRESHOLD: 1 << 25, _TRIM_THRESHOLD: 1 << 26}
"""The first is glibc's own, and it raises the others to these itself in a process with large arrays."""
_EVERYTHING = -1  # to trim nothing; limits are integers of C
_limit = 0


def kept_memory() -> int:
    """Tell how many bytes of memory may be kept for new results; 0 where none are.

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
    return _limit


def keep_memory(limit: int | None) -> None:
    """Keep up to `limit` bytes of memory that is free again for new arrays; 0 or None keeps none.

    A result of more than 32 MB costs more than what is written into it: it lies in memory that is new to the process,
    whose pages the system zeroes first, and goes back to the system with the result.  Where results come one after the
    other, as batches do, memory that is kept is quicker: a conversion that only copies takes about 0.6 of the time.

    Parameters
    ----------
    limit : int or None
        In bytes, of what is free at the end of the process's memory: what is beyond goes back to the system.  Of 2 GiB
        and more, everything is kept.

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
    With another C library than glibc nothing is kept, which the log of seqformats says, and `kept_memory` stays 0.

    This tells ``mallopt`` of glibc not to ask the system for each large block alone (``M_MMAP_MAX``), and how much that
    is free to keep (``M_TRIM_THRESHOLD``).  So it is for all that takes memory from glibc: results of this library,
    tensors on the CPU, and NumPy's own operations.

    The cost is memory, which the process keeps even while it has no use for it, until ``keep_memory(None)``.  Free
    memory before a block that is in use stays too, beyond the limit.  A good limit is the size of the large results
    that are alive at once.  Threads other than the main one may have memory of their own, from which blocks of more
    than 64 MB go back to the system as before.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.keep_memory(1 << 28)
    >>> x = sf.Ragged(np.zeros((3 << 20, 4), np.float32), [1 << 20, 2 << 20])
    >>> y = sf.reverse(x)
    >>> sf.kept_memory() == 1 << 28
    True
    >>> sf.keep_memory(None)
    """
    global _limit
    wanted = 0 if limit is None else _check_limit(limit)
    mallopt = _mallopt() if wanted or _limit else None
    if mallopt is None:
        if wanted:
            logging.getLogger("seqformats").warning(
                "keep_memory keeps nothing here: the C library is not glibc, whose mallopt it calls"
            )
        return
    keeping = {_MMAP_MAX: 0, _TRIM_THRESHOLD: wanted if wanted < 1 << 31 else _EVERYTHING}
    for parameter, value in (keeping if wanted else _USUAL).items():
        mallopt(parameter, value)
    _limit = wanted
    if not wanted:
        ctypes.CDLL(None).malloc_trim(0)


def _check_limit(limit: object) -> int:
    """The limit as an int that is not negative."""
    try:
        number = None if isinstance(limit, (bool, np.bool_)) else operator.index(limit)  # type: ignore[arg-type]
    except TypeError:  # an array of several has the method too
        number = None
    if number is None:
        raise WHOLE(f"the memory to keep must be an integer, of bytes, or None, not {type(limit).__name__}")
    if number < 0:
        raise RANGE(f"the memory to keep must be at least 0 bytes, not {quote(limit)}")
    return number


def _mallopt() -> Callable[[int, int], int] | None:
    """``mallopt`` of glibc; None where the C library is another one."""
    try:
        glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, OSError, ValueError):  # another system, or another C library
        return None
    return ctypes.CDLL(None).mallopt if glibc else None
