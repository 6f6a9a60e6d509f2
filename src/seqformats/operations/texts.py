"""Texts as batches and back; texts in the place of tokens: by their characters, or by words that are numbered."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array, to_host
from ..converters.convert import rows_of
from ..errors import CHOICE, EXACT, KIND, SHAPE, WHOLE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Given
from ..gradients.operation import operand
from .annotations import Batch

_LIST_TYPES = (list, tuple)
_MAX_CODE_POINT = 0x10FFFF
"""The largest code point."""


def from_text(strings: Sequence[str], *, unit: str = "codepoints") -> Ragged[Array]:
    """Make a batch of texts, a sequence of numbers of each.

    Parameters
    ----------
    strings : list of str, or NumPy array of str
    unit : "codepoints" or "bytes"
        Whether an item is a code point, or a byte of the text in UTF-8.

    Returns
    -------
    Ragged
        Of NumPy, int32 code points or uint8 bytes.

    Raises
    ------
    TypeError
        If the argument is no list of str; a single text is ``[text]``.
    ConversionError
        For another `unit`.

    See Also
    --------
    to_text : The way back.
    levenshtein : The distance of texts, which takes lists of them as they are.
    ngrams : Parts of texts of some length.

    Notes
    -----
    A code point is what ``ord`` gives, and a text has ``len(text)`` of them.  Halves of surrogate pairs stay as they
    are, in UTF-8 too.

    Examples
    --------
    >>> import seqformats as sf
    >>> x = sf.from_text(["hé", "", "llo"])
    >>> x
    Ragged(shape (5,), int32, cpu, 3 sequences of lengths [2, 0, 3])
    >>> x.data
    array([104, 233, 108, 108, 111], dtype=int32)
    >>> sf.from_text(["hé"], unit="bytes").data
    array([104, 195, 169], dtype=uint8)
    """
    if not isinstance(unit, str) or unit not in ("codepoints", "bytes"):
        raise CHOICE(f"unit must be 'codepoints' or 'bytes', not {quote(unit)}")
    if isinstance(strings, str):
        raise KIND("strings must be a list of str, not one str; give [text]")
    given: Any = strings
    if issubclass(type(given), np.ndarray) and given.dtype.kind in "UT" and given.ndim == 1:
        given = given.tolist()
    texts = texts_of(given, "strings")
    if unit == "codepoints":
        return characters(texts)
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return Ragged(np.frombuffer(b"".join(encoded), np.uint8).copy(), list(map(len, encoded)))


def to_text(x: Batch) -> Any:
    """Make a text of every sequence.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Integers with item shape (): uint8 are bytes in UTF-8, all others code points.

    Returns
    -------
    list of str
        For a `LoD` of several levels, lists of lists of texts, as deep as its levels.

    Raises
    ------
    TypeError
        For items that are no integers.
    ConversionError
        For a number that is no code point, and for bytes that are no UTF-8.
    StructureError
        For another item shape.

    See Also
    --------
    from_text : The way back.

    Examples
    --------
    >>> import seqformats as sf
    >>> x = sf.from_text(["hello", "world"])
    >>> sf.to_text(sf.reverse(x))
    ['olleh', 'dlrow']
    >>> sf.to_text(sf.from_text(["né"], unit="bytes"))
    ['né']
    """
    own: Encoding = operand(x).own
    if own.item_shape != ():
        raise SHAPE(f"texts are of single numbers, but items have shape {own.item_shape}")
    rows: Any = to_host(rows_of(own))
    if rows.dtype.kind not in "iu" and (rows.size or rows.dtype.kind == "c"):
        raise WHOLE(f"texts are of code points or bytes, which are integers, but items have dtype {rows.dtype}")
    offsets = own._structure.offsets.tolist()
    if rows.dtype == np.uint8:
        found: list[Any] = _decode(rows.tobytes(), offsets)
    else:
        wrong = (rows < 0) | (rows > _MAX_CODE_POINT) if rows.size else rows
        if wrong.any():
            r = int(wrong.argmax())
            i = int(np.searchsorted(own._structure.offsets, r, side="right")) - 1
            raise EXACT(f"sequence {i} has the item {rows[r]}, but code points are from 0 to {_MAX_CODE_POINT}")
        whole = _by_code_points(rows)
        found = [whole[a:b] for a, b in itertools.pairwise(offsets)]
    for level in reversed(own._levels[:-1]):
        found = [found[a:b] for a, b in itertools.pairwise(level.offsets.tolist())]
    return found


def _decode(rows: bytes, offsets: list[int]) -> list[Any]:
    """Decode bytes as UTF-8, text by text; ConversionError for bytes that are no UTF-8."""
    try:
        return [rows[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(offsets)]
    except UnicodeDecodeError as error:
        wrong = error.object
        i = next(i for i, (a, b) in enumerate(itertools.pairwise(offsets)) if rows[a:b] == wrong)
        raise EXACT(f"sequence {i} is no UTF-8: {error.reason} at its byte {error.start}") from None


def _by_code_points(rows: Array) -> str:
    """Return the text of code points; halves of surrogate pairs stay apart."""
    return rows.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def characters(texts: Sequence[str]) -> Ragged[Array]:
    """The code points of texts, int32."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<i4").astype(np.int32)
    return Ragged(points, list(map(len, texts)))


def number_words(*batches: Sequence[Sequence[str]]) -> list[Ragged[Array]]:
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
    if not isinstance(given, _LIST_TYPES):
        raise KIND(f"{what} must be texts in a list, not {type(given).__name__}")
    if not {str}.issuperset(map(type, given)):
        for k, text in enumerate(given):
            if not isinstance(text, str):
                raise KIND(f"{what} must be texts, but number {k} is {quote(text)}")
    return list(given)


def are_words(given: object) -> bool:
    """Tell whether these are texts, or lists of words; the first sequence that is not empty decides."""
    if isinstance(given, str):
        return True
    if not isinstance(given, _LIST_TYPES):
        return False
    first = next((part for part in given if not isinstance(part, _LIST_TYPES) or len(part)), None)
    return isinstance(first[0] if isinstance(first, _LIST_TYPES) else first, str)


def in_numbers(one: Given, two: Given, names: Sequence[str]) -> tuple[Any, Any]:
    """Two batches of texts or of lists of words as tokens; others are as they were."""
    if not (are_words(one) or are_words(two)):
        return one, two
    for x, what in zip((one, two), names, strict=True):
        if not isinstance(x, (str, *_LIST_TYPES)):
            raise KIND(f"{what} must be texts or lists of words, as the other batch is, not {type(x).__name__}")
    if any(isinstance(x, str) or any(isinstance(part, str) for part in x) for x in (one, two)):
        return characters(texts_of(one, names[0])), characters(texts_of(two, names[1]))
    for x, what in zip((one, two), names, strict=True):
        for sequence in x:
            if not (isinstance(sequence, _LIST_TYPES) and all(isinstance(word, str) for word in sequence)):
                raise KIND(f"{what} must be lists of words, which are texts, but one of them is {quote(sequence)}")
    found = number_words(one, two)
    return found[0], found[1]
