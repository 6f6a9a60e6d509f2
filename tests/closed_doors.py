"""The general ways of operations: without the fast paths of `core`, and with closed doors."""

import contextlib

from seqformats import core


def close():
    """Let nobody through a door or a fast path any more; no door learns."""
    from seqformats.doors.door import Door, closed
    from seqformats.doors.world import common
    from seqformats.launch import threads
    from seqformats.native.words import MOST, MOST_OF_TENSORS

    common()[[MOST, MOST_OF_TENSORS]] = -1
    kept = threads._followers[:], Door.learn
    threads._followers[:] = [core.with_threads]
    Door.learn = closed
    core.switch(False)
    return kept


@contextlib.contextmanager
def closed_doors():
    """The same for a while."""
    from seqformats.doors.door import Door
    from seqformats.launch import threads

    followers, learn = close()
    try:
        with core.off():
            yield
    finally:
        threads._followers[:], Door.learn = followers, learn
        threads._tell()
