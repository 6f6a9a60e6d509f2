"""The types of a kernel's arguments, by which its machine code is found."""

from __future__ import annotations

from collections.abc import Iterable
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
    """The same in one line, which a file can be called by."""
    return ",".join([word if isinstance(word, str) else f"{word[0]}({text_of(word[1:])})" for word in signature])


def with_places(signature: Signature, bits: int) -> Signature:
    """The same with arrays whose places are natural numbers of so many bits."""

    def changed(word: Word) -> Word:
        if isinstance(word, tuple):
            return (word[0], *map(changed, word[1:]))
        return word if word == "i" else f"{word}.{bits}"

    return tuple(map(changed, signature))


def names_in(text: str, door: bool = False) -> list[str]:
    """The names of the functions in machine code that is called `text`: that for Python, that for machine code."""
    return [text] if door else [text, f"{text} by words"]
