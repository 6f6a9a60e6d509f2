"""Layout of Python's own objects in memory, for kernels that read lists without a call for each item."""

import struct
import sys

# Is this a build whose objects lie where their addresses say, and stay as they are while a kernel reads them?
READABLE = (
    sys.implementation.name == "cpython"
    and "free-threading" not in sys.version  # what `sysconfig` knows, which takes a millisecond to load
    and struct.calcsize("P") == 8
)
HEAD = object.__basicsize__  # bytes before the first field of an object
TUPLE = tuple.__basicsize__  # bytes before the first item of a tuple; from Python 3.14 on it keeps a hash
