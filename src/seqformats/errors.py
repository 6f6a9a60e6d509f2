"""The error kinds of the library, all of them ValueErrors, and the mistakes that they tell of, each with its code.

A wrong type or an unknown option raises TypeError and a wrong index IndexError, as everywhere in Python; and any call
may end in a MemoryError, where the system has less than it takes.
"""

import importlib
import re
import reprlib
from types import ModuleType
from typing import Generic, TypeVar

import numpy as np

_CODE = re.compile(r" \[(SF\d{3})\]$")


def code_of(error: BaseException) -> str:
    """The code at the end of a message; "" where there is none."""
    found = _CODE.search(str(error))
    return found[1] if found else ""


class SeqFormatError(ValueError):
    """Base of every error that this library defines."""

    @property
    def code(self) -> str:
        """The code of the mistake, as "SF102"; docs/reference/error-codes.md describes each."""
        return code_of(self)


class StructureError(SeqFormatError):
    """Lengths, offsets, indices, counts or shapes that do not fit each other.

    Compiled code, which writes no numbers into words, gives the words and the numbers apart.
    """

    def __init__(self, words: object = "", *numbers: object) -> None:
        super().__init__(str(words).format(*numbers) if numbers else words)


class ConversionError(SeqFormatError):
    """No route between two encodings, or an option value that cannot be honoured."""


class OutOfMemory(ConversionError, MemoryError):
    """A result, or an intermediate array, is larger than the memory that is available."""


class DeviceError(SeqFormatError):
    """Arrays on different devices, or a device that has no kernel."""


Kind = TypeVar("Kind", bound=Exception)
Other = TypeVar("Other", bound=Exception)


class Mistake(Generic[Kind]):
    """A kind of mistake: called with a sentence it makes the error, which ends in the code and has it as `code`."""

    def __init__(self, code: str, kind: type[Kind], title: str) -> None:
        self.code, self.kind, self.title = code, kind, title

    def __call__(self, words: object) -> Kind:
        """The error, to be raised."""
        return self.as_error(self.kind, words)

    def as_error(self, kind: type[Other], words: object) -> Other:
        """Return this mistake as an error of another class, one that callers of another library expect."""
        told = str(words)
        found = _CODE.search(told)  # the words of an error that has been caught have one
        return _with_code(kind(told if found else f"{told} [{self.code}]"), found[1] if found else self.code)


def again(error: Exception, words: str) -> Exception:
    """An error of the same class in more words, which end in its own and so in its code."""
    return _with_code(type(error)(words), code_of(error))


def _with_code(error: Other, code: str) -> Other:
    if code and not isinstance(error, SeqFormatError):
        vars(error)["code"] = code
    return error


# The kinds of mistakes.  Nothing in the library raises an error without one, and each has a section, under its title,
# in docs/reference/error-codes.md; a test holds both.
LENGTHS = Mistake("SF101", StructureError, "Lengths, offsets or an order that cannot exist")
ROWS = Mistake("SF102", StructureError, "Lengths that do not add up to the rows")
COUNTS = Mistake("SF103", StructureError, "Counts that differ")
UNLIKE = Mistake("SF104", StructureError, "Sequences whose lengths differ from those of the batch")
SHAPE = Mistake("SF105", StructureError, "Axes or an item shape that the operation does not take")
MIXED = Mistake("SF106", StructureError, "Items of different dtypes or shapes in one batch")
OVERFLOW = Mistake("SF107", StructureError, "A number that is too large for a count")
CHANGED = Mistake("SF108", StructureError, "Data that was changed after it was checked")
EMPTY = Mistake("SF109", StructureError, "Something empty that must not be empty")
LEVELS = Mistake("SF110", StructureError, "Levels that do not fit together")
COLUMNS = Mistake("SF111", StructureError, "Columns that are missing, or do not belong together")
NULLS = Mistake("SF112", StructureError, "Nulls in the place of items or sequences")
BROKEN = Mistake("SF113", StructureError, "Stored data that cannot be read")
BEYOND = Mistake("SF114", StructureError, "A position, token or row that does not exist")
RESULT = Mistake("SF115", StructureError, "A result of your function that does not fit its batch")
SLOPE = Mistake("SF116", StructureError, "A gradient that does not fit its result")
TURN = Mistake("SF117", StructureError, "A call at the wrong time")
LONG = Mistake("SF118", StructureError, "A sequence that is longer than the limit")
ARGUMENT = Mistake("SF119", StructureError, "An argument that fits no structure")
ROUTE = Mistake("SF201", ConversionError, "No conversion between two encodings")
RANGE = Mistake("SF202", ConversionError, "An option out of its range")
CHOICE = Mistake("SF203", ConversionError, "A choice that an option does not have")
ROOM = Mistake("SF204", ConversionError, "A width or size that is too small")
EXACT = Mistake("SF205", ConversionError, "A value that its dtype cannot hold")
TOGETHER = Mistake("SF206", ConversionError, "Options that do not go together, or need another")
MEMORY = Mistake("SF207", OutOfMemory, "More than memory can hold")
KIND = Mistake("SF301", TypeError, "An argument of the wrong type")
OPTION = Mistake("SF302", TypeError, "An option that does not exist")
BATCH = Mistake("SF303", TypeError, "Something that is not a batch")
DTYPE = Mistake("SF304", TypeError, "A dtype that cannot be computed with or moved")
WHOLE = Mistake("SF305", TypeError, "Numbers that must be integers")
ITEMS = Mistake("SF306", TypeError, "An array without plain items")
LEAVES = Mistake("SF307", TypeError, "Nested lists whose items fit in no array")
NO_GRADIENT = Mistake("SF308", TypeError, "A gradient that does not exist")
LOST = Mistake("SF309", TypeError, "A gradient that would be lost")
RETURNED = Mistake("SF310", TypeError, "A function of yours that returned something else")
TRACED = Mistake("SF311", TypeError, "Values that do not exist while a program is traced")
LIBRARY = Mistake("SF312", TypeError, "Arrays of the wrong library")
UNPADDED = Mistake("SF313", TypeError, "A model that cannot run without padding")
INDEX = Mistake("SF401", IndexError, "An index out of range")
LEVEL = Mistake("SF402", IndexError, "A level that does not exist")
DEVICE = Mistake("SF501", DeviceError, "A device that cannot be reached")
DEVICES = Mistake("SF502", DeviceError, "Arrays on different devices, or of different libraries")
KERNEL = Mistake("SF503", DeviceError, "No kernel for a device")
NAN = Mistake("SF601", ValueError, "Scores that are not numbers")
LOGS = Mistake("SF602", ValueError, "Numbers that are not log-probabilities")


class _Words(reprlib.Repr):
    """Words of `quote`."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = 100
        self.maxother = 400

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() < 1000 else f"an int of {x.bit_length()} bits"

    def repr_ndarray(self, x: np.ndarray, level: int) -> str:
        return f"an array of shape {x.shape} of objects" if x.dtype.hasobject else self.repr_instance(x, level)


_words = _Words()


def quote(value: object) -> str:
    """Format a value for a message: not all of it where that is long, or has no end."""
    try:
        return _words.repr(value)
    except Exception:  # foreign code may raise anything
        return f"a {type(value).__name__}"


def import_extra(module: str, extra: str) -> ModuleType:
    """A library that may be absent, imported now; ModuleNotFoundError with what installs it where it is."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:  # it is there, but lacks something itself
            raise
        raise ModuleNotFoundError(
            f"{error.name} is needed here; pip install 'seqformats[{extra}]'", name=error.name
        ) from None


def no_attribute(module: str, name: str, error: ImportError) -> AttributeError:
    """Make the error of an attribute that needs a library which is absent.

    ``hasattr``, ``help`` and ``inspect.getmembers`` ask for every attribute and expect no other kind of error.
    """
    # With a name of its own, or Python would look for a near one too.
    return AttributeError(f"module {module!r} has no attribute {name!r}: {error}", name=name)
