"""The general ways of operations, which have doors before them."""

import contextlib


def close():
    """Let nobody through a door any more: any batch is too large for them, whatever threads there are."""
    from seqformats.doors.world import common
    from seqformats.launch import threads
    from seqformats.native.words import MOST

    common()[MOST] = -1
    kept = threads._followers[:]
    threads._followers.clear()
    return kept


@contextlib.contextmanager
def closed_doors():
    """The same for a while."""
    from seqformats.launch import threads

    kept = close()
    try:
        yield
    finally:
        threads._followers[:] = kept
        threads._tell()
