"""Texts in the place of tokens: by their characters, or by words that are numbered."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import KIND, said
from ..formats import Ragged

LISTS = (list, tuple)


def characters(texts: Sequence[str]) -> Ragged[Array]:
    """The code points of texts, int32."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<i4").astype(np.int32)
    return Ragged(points, list(map(len, texts)))


def numbered(*batches: Sequence[Sequence[str]]) -> list[Ragged[Array]]:
    """The words of batches of sequences, each as a number that it has in all of them."""
    numbers: dict[str, int] = collections.defaultdict(itertools.count().__next__)
    found: list[Ragged[Array]] = []
    for batch in batches:
        words = map(numbers.__getitem__, itertools.chain.from_iterable(batch))
        found.append(Ragged(np.fromiter(words, np.int64), list(map(len, batch))))
    return found


def texts_of(given: object, what: str) -> list[str]:
    """A list of texts; one text alone is a list of one."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, LISTS):
        raise KIND(f"{what} must be texts in a list, not {type(given).__name__}")
    for k, text in enumerate(given):
        if not isinstance(text, str):
            raise KIND(f"{what} must be texts, but number {k} is {said(text)}")
    return list(given)


def are_words(given: object) -> bool:
    """Are these texts, or lists of words?  What is in a list is what its first sequence with something in it is."""
    if isinstance(given, str):
        return True
    if not isinstance(given, LISTS):
        return False
    first = next((part for part in given if not isinstance(part, LISTS) or len(part)), None)
    return isinstance(first[0] if isinstance(first, LISTS) else first, str)


def in_numbers(one: Any, two: Any, names: Sequence[str]) -> tuple[Any, Any]:
    """Two batches of texts or of lists of words as tokens; others are as they were."""
    if not (are_words(one) or are_words(two)):
        return one, two
    for x, what in zip((one, two), names, strict=True):
        if not isinstance(x, (str, *LISTS)):
            raise KIND(f"{what} must be texts or lists of words, as the other batch is, not {type(x).__name__}")
    if any(isinstance(x, str) or any(isinstance(part, str) for part in x) for x in (one, two)):
        return characters(texts_of(one, names[0])), characters(texts_of(two, names[1]))
    for x, what in zip((one, two), names, strict=True):
        for sequence in x:
            if not (isinstance(sequence, LISTS) and all(isinstance(word, str) for word in sequence)):
                raise KIND(f"{what} must be lists of words, which are texts, but one of them is {said(sequence)}")
    found = numbered(one, two)
    return found[0], found[1]
