"""The types of a kernel's arguments, by which its machine code is found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

Word = str | tuple[Any, ...]
"""One argument: "i" a whole number, "d" a float, "f4" an array of float32, "f4:2" one with two axes, "f4.32" one
on a GPU whose places are natural numbers of 32 bits; or a named tuple, as its name and the words of its fields."""
Signature = tuple[Word, ...]
FOURS = "f4x4"
"""An array on a GPU whose items are four float32 each."""


def signature_of(args: Iterable[object]) -> Signature:
    """The types of these arguments; TypeError for what no kernel takes."""
    return tuple([_word(x) for x in args])


def _word(x: Any) -> Word:
    if isinstance(x, np.ndarray):
        code = x.dtype.str[1:]
        return code if x.ndim == 1 else f"{code}:{x.ndim}"
    if isinstance(x, tuple):
        return (type(x).__name__, *map(_word, x))
    if isinstance(x, (float, np.floating)):
        return "d"
    if isinstance(x, (int, np.integer)):
        return "i"
    raise TypeError(f"a kernel takes no {type(x).__name__}")


def text_of(signature: Signature) -> str:
    """Return the signature in one line, which can be the name of a file."""
    return ",".join([word if isinstance(word, str) else f"{word[0]}({text_of(word[1:])})" for word in signature])


def with_places(signature: Signature, bits: int) -> Signature:
    """Return the signature with arrays whose places are natural numbers of so many bits."""

    def change(word: Word) -> Word:
        if isinstance(word, tuple):
            return (word[0], *map(change, word[1:]))
        return word if word == "i" else f"{word}.{bits}"

    return tuple(map(change, signature))


BODY = ".body"
"""The ending of the name of the kernel itself, behind the symbol of the function that others call."""


def symbol_of(name: str, signature: Signature = ()) -> str:
    """Name a kernel as linkers, debuggers and profilers do, by the dtypes of its arrays; named tuples count by others.

    >>> symbol_of("sum_rows", ("f4", "f4", ("Layout", "i8", "i8", "i8", "i", "i", "i", "i"), "i", "i", "i", "i"))
    'sf_sum_rows_f4_f4'
    """
    words: list[str] = []
    for word in signature:
        if isinstance(word, str):
            words += [word] if word not in _NUMBERS else []
        else:
            words += [part for part in _flat(word) if part not in (*_NUMBERS, "i8")]
    return "_".join(["sf", *name.split("/"), *words]).replace(":", "x")


def kinds_of(signature: Signature) -> tuple[int, ...]:
    """List the arguments as `core.Entry` reads them, a number for each, a named tuple before its fields.

    0 is an integer, 1 a float, 2 an array, 3 a named tuple; above these two bits are the number of fields, or the kind
    of a dtype as NumPy says it, its bytes and the axes, of 8 bits each.
    """
    found: list[int] = []
    for word in signature:
        if isinstance(word, tuple):
            found += [3 | len(word) - 1 << 2, *kinds_of(word[1:])]
        elif word in _NUMBERS:
            found.append(_NUMBERS.index(word))
        else:
            dtype, _, axes = word.partition(":")
            found.append(2 | ord(dtype[0]) << 2 | int(dtype[1:]) << 10 | int(axes or 1) << 18)
    return tuple(found)


_NUMBERS = ("i", "d")


def _flat(word: tuple[Any, ...]) -> Iterator[str]:
    """The words of all fields of a named tuple."""
    for part in word[1:]:
        yield from (part,) if isinstance(part, str) else _flat(part)
