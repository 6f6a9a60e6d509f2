"""The error kinds of the library; all of them are ValueErrors.

A wrong type or an unknown option raises TypeError and a wrong index IndexError, as everywhere in Python; and any call
may end in a MemoryError, where the system has less than it takes.
"""

import importlib
import reprlib
from types import ModuleType

import numpy as np


class SeqFormatError(ValueError):
    """Base of every error that this library defines."""


class StructureError(SeqFormatError):
    """Lengths, offsets, indices, counts or shapes that do not fit each other.

    Compiled code, which writes no numbers into words, gives the words and the numbers apart.
    """

    def __init__(self, words: object = "", *numbers: object) -> None:
        super().__init__(str(words).format(*numbers) if numbers else words)


class ConversionError(SeqFormatError):
    """No route between two encodings, or an option value that cannot be honoured."""


class OutOfMemory(ConversionError, MemoryError):
    """A result, or what is needed on the way to it, that no memory can hold, or none that is left."""


class DeviceError(SeqFormatError):
    """Arrays on different devices, or a device that has no kernel."""


class _Words(reprlib.Repr):
    """What `said` says."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = 100
        self.maxother = 400

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() < 1000 else f"an int of {x.bit_length()} bits"

    def repr_ndarray(self, x: np.ndarray, level: int) -> str:
        return f"an array of shape {x.shape} of objects" if x.dtype.hasobject else self.repr_instance(x, level)


_words = _Words()


def said(value: object) -> str:
    """What was given, as a message repeats it: not all of it where that is long, or has no end."""
    try:
        return _words.repr(value)
    except Exception:  # foreign code may raise anything
        return f"a {type(value).__name__}"


def needed(module: str, extra: str) -> ModuleType:
    """A library that may be absent, imported now; ModuleNotFoundError with what installs it where it is."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:  # it is there, but lacks something itself
            raise
        raise ModuleNotFoundError(
            f"{error.name} is needed here; pip install 'seqformats[{extra}]'", name=error.name
        ) from None
