"""The general ways of operations, which have doors before them."""

import contextlib


@contextlib.contextmanager
def closed_doors():
    """Nobody goes through a door: any batch is too large for them."""
    from seqformats.doors.world import common
    from seqformats.native.words import MOST

    world = common()
    most = int(world[MOST])
    world[MOST] = -1
    try:
        yield
    finally:
        world[MOST] = most
