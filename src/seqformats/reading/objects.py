"""How Python's own objects lie in memory, for kernels that read lists without a call for each of their items."""

import struct
import sys

from ..native.objects import tuple_items

# Is this a build whose objects lie where their addresses say, and stay as they are while a kernel reads them?
READABLE = (
    sys.implementation.name == "cpython"
    and "free-threading" not in sys.version  # what `sysconfig` knows, which takes a millisecond to load
    and struct.calcsize("P") == 8
)
HEAD = object.__basicsize__  # bytes before the first field of an object
TUPLE = tuple_items()  # bytes before the first item of a tuple
