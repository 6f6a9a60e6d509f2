"""What calls leave behind, in numbers that tell of the smallest loss: references, and memory in use."""

import ctypes
import gc
import os
import sys

TURNS = 100_000 if os.environ.get("SEQFORMATS_HYPOTHESIS") == "nightly" else 3_000
"""How often something is called: what each call loses is found as surely in fewer, since everything is counted."""


class Use(ctypes.Structure):
    """What the allocator of the system says of itself."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "top",
        )
    ]


try:
    _ask = ctypes.CDLL(None).mallinfo2  # of glibc, from 2.33 on
    _ask.restype = Use
except (AttributeError, OSError, TypeError):
    _ask = Use
is_told = _ask is not Use


def counted(watched):
    """The references to each thing, the blocks of Python's allocator, and the bytes of the system's."""
    gc.collect()
    gc.freeze()  # what stays is walked over once, not before each count
    use = _ask()
    return [sys.getrefcount(thing) for thing in watched], sys.getallocatedblocks(), use.uordblks + use.hblkhd


def assert_nothing_is_left(call, watched, name=None):
    """A call, many times, changes no count of references and leaves no memory behind."""
    for _ in range(200):  # which may learn, and fill what is remembered
        call()
    references, blocks, size = counted(watched)
    for _ in range(TURNS):
        call()
    now, blocks_now, size_now = counted(watched)
    # what a call changed would have changed as often as it ran
    assert max(abs(a - b) for a, b in zip(references, now, strict=True)) <= 20, name
    assert blocks_now - blocks < TURNS // 10, name
    assert size_now - size < TURNS * 8, name  # an array takes 16 bytes and more
