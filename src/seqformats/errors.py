"""The error kinds of the library; all of them are ValueErrors.

A wrong type or an unknown option raises TypeError and a wrong index IndexError, as everywhere in Python.
"""


class SeqFormatError(ValueError):
    """Base of every error that this library defines."""


class StructureError(SeqFormatError):
    """Lengths, offsets, indices, counts or shapes that do not fit each other."""


class ConversionError(SeqFormatError):
    """No route between two encodings, or an option value that cannot be honoured."""


class DeviceError(SeqFormatError):
    """Arrays on different devices, or a device that has no kernel."""
