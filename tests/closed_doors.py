"""The general ways of operations, which have doors before them."""

import contextlib


def close():
    """Let nobody through a door any more: any batch is too large for them, whatever threads there are; none learns."""
    from seqformats.doors.door import Door, closed
    from seqformats.doors.world import common
    from seqformats.launch import threads
    from seqformats.native.words import MOST, MOST_OF_TENSORS

    common()[[MOST, MOST_OF_TENSORS]] = -1
    kept = threads._followers[:], Door.learn
    threads._followers.clear()
    Door.learn = closed
    return kept


@contextlib.contextmanager
def closed_doors():
    """The same for a while."""
    from seqformats.doors.door import Door
    from seqformats.launch import threads

    followers, learn = close()
    try:
        yield
    finally:
        threads._followers[:], Door.learn = followers, learn
        threads._tell()
