"""Errors of recognised texts beside their references, and the rates of words and characters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Array, to_host
from ..errors import COUNTS
from ..formats.annotations import Given
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import operands_of
from ..launch.kernel import Work, kernel
from ..layout import Layout
from .annotations import Batch
from .calculation import settle
from .distance import MIN_INT64, pair_of
from .texts import characters, in_numbers, number_words, texts_of

count_errors = kernel("count_errors")
_TABLE_SIZE = 512
"""Numbers of a hash table, with the masks in it."""
MAX_TRACE = 1 << 21
"""Numbers that a pair may have to find its way back; longer pairs find it by a table."""
_NAMES = ("references", "hypotheses")


class EditCounts(NamedTuple):
    """Differences between hypotheses and their references, counted.

    Attributes
    ----------
    hits : array (n,) of int64
        The items of each reference that its hypothesis has as well.
    substitutions : array (n,) of int64
        Those in whose place it has another one.
    deletions : array (n,) of int64
        Those in whose place it has none.
    insertions : array (n,) of int64
        The items that it has beside all these.

    Examples
    --------
    >>> import seqformats as sf
    >>> found = sf.wer(references=["the cat sat", "on it"], hypotheses=["the cats", "on top of it"])
    >>> found.hits, found.substitutions, found.deletions, found.insertions
    (array([1, 2]), array([1, 0]), array([1, 0]), array([0, 2]))
    >>> found.rate
    0.8
    """

    hits: Array
    substitutions: Array
    deletions: Array
    insertions: Array

    @property
    def rate(self) -> float:
        """All edits divided by the items of all references; without any item 0, or inf where some are inserted."""
        hits, substitutions, deletions, insertions = map(_total, self)
        edits, items = substitutions + deletions + insertions, hits + substitutions + deletions
        return edits / items if items else float("inf") if edits else 0.0


def _total(counts: Array) -> int:
    return counts.item() if counts.shape[0] == 1 else int(to_host(counts).sum())


@by_level(keeps=False, marks=("hypotheses",))
def edits(*, references: Batch, hypotheses: Batch, level: int = INNERMOST) -> EditCounts:
    """The hits, substitutions, deletions and insertions that make hypotheses of references.

    Parameters
    ----------
    references, hypotheses : encodings, lists of arrays, nested lists, or lists of texts
        As many sequences of tokens, as `levenshtein` takes them: integers or bools, or texts, which are
        compared by characters, or lists of words.
    level : int
        The level of a `LoD` whose sequences are compared, as in `convert`.

    Returns
    -------
    EditCounts
        Four arrays ``(n,)`` of int64, in the library and on the device of the items, and the rate of all as ``rate``.

    Raises
    ------
    TypeError
        If the items are neither integers nor words.
    StructureError
        For batches that do not fit each other, or other item shapes.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    wer, cer : Of texts, by words and by characters.
    levenshtein : The number of edits alone, which is found many times as fast.

    Notes
    -----
    These are of a way with the fewest edits: the three others are the distance, ``hits + substitutions + deletions``
    items are in the reference, and ``hits + substitutions + insertions`` in the hypothesis.  Of several such ways the
    one is counted that, from the end on, deletes before it substitutes, and inserts before it hits, as RapidFuzz aligns
    sequences: the numbers are those of jiwer.  (Of sequences of many thousands it aligns parts, and may count another
    way.)  The rate is the same for all ways.

    Bit-parallel, 64 items of a reference at a time.  Each thread that works on some pairs keeps a quarter of a byte for
    each item of one and item of the other, up to 16 MiB; pairs that need more take many times as long.  On a GPU a pair
    is the work of one thread.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> wanted = sf.Ragged(np.array([4, 15, 16, 42, 7]), [4, 1])
    >>> found = sf.edits(references=wanted, hypotheses=[[4, 8, 16], [7, 7]])
    >>> found.hits, found.substitutions, found.deletions, found.insertions
    (array([2, 1]), array([1, 0]), array([1, 0]), array([0, 1]))
    >>> found.rate
    0.6
    """
    given = in_numbers(references, hypotheses, _NAMES)
    if level is not INNERMOST:
        return at_level(edits, level, references=given[0], hypotheses=given[1])
    one, two = (each.own for each in operands_of(*given))
    pair = pair_of(one, two, given, _NAMES)
    n, library = one._structure.n, pair.library
    out = library.empty((4 * n,), library.dtype("int64"), pair.items)
    if n:
        columns = (one._structure.lengths + 63) // 64 * two._structure.lengths
        most = min(2 * int(columns.max()), MAX_TRACE)
        pair.start(count_errors, out, _TABLE_SIZE + two._structure.longest + 1 + most, most)
    out = settle(library, out)
    return EditCounts(*[out[k * n : (k + 1) * n] for k in range(4)])


def wer(*, references: Given, hypotheses: Given) -> EditCounts:
    """The errors of texts by words, whose ``rate`` is the word error rate.

    Parameters
    ----------
    references, hypotheses : list of str, or str
        As many texts; one alone is a list of one.  Words are what stands between spaces, tabs and ends of lines.

    Returns
    -------
    EditCounts
        Four arrays ``(n,)`` of int64, see `edits`, and the rate of all words together as ``rate``.

    Raises
    ------
    TypeError
        If an argument is no text.
    StructureError
        For another number of hypotheses.

    See Also
    --------
    cer : By characters.
    edits : Of tokens, and of words that were made by other rules.

    Notes
    -----
    Nothing is changed in the texts: capitals, punctuation and accents count.  An empty reference is one, of which all
    words of its hypothesis are insertions.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.wer(references=["the cat sat", "on it"], hypotheses=["the cats", "on top of it"]).rate
    0.8
    """
    one, two = ([text.split() for text in texts] for texts in _pairs(references, hypotheses))
    if len(one) == 1:
        numbers: dict[str, int] = {}
        return _of_pair(
            *[np.array([numbers.setdefault(w, len(numbers)) for w in words[0]], np.int64) for words in (one, two)]
        )
    return _of_tokens(*number_words(one, two))


def cer(*, references: Given, hypotheses: Given) -> EditCounts:
    """The errors of texts by characters, whose ``rate`` is the character error rate.

    Parameters
    ----------
    references, hypotheses : list of str, or str
        As many texts; one alone is a list of one.  A character is a code point, spaces among them.

    Returns
    -------
    EditCounts
        Four arrays ``(n,)`` of int64, see `edits`, and the rate of all characters together as ``rate``.

    Raises
    ------
    TypeError
        If an argument is no text.
    StructureError
        For another number of hypotheses.

    See Also
    --------
    wer : By words.
    edits : Of tokens.

    Examples
    --------
    >>> import seqformats as sf
    >>> found = sf.cer(references="kitten", hypotheses="sitting")
    >>> found.rate, found.substitutions, found.insertions
    (0.5, array([2]), array([1]))
    """
    one, two = _pairs(references, hypotheses)
    if len(one) == 1:
        return _of_pair(*[np.frombuffer(text[0].encode("utf-32-le", "surrogatepass"), np.int32) for text in (one, two)])
    return _of_tokens(characters(one), characters(two))


def _pairs(references: object, hypotheses: object) -> tuple[list[str], list[str]]:
    """Read references and hypotheses, as many of each."""
    one, two = (texts_of(given, what) for given, what in zip((references, hypotheses), _NAMES, strict=True))
    if len(one) != len(two):
        raise COUNTS(f"hypotheses has {len(two)} texts, but references has {len(one)}")
    return one, two


def _of_tokens(references: Batch, hypotheses: Batch) -> EditCounts:
    return edits(references=references, hypotheses=hypotheses)


def _of_pair(one: Array, two: Array) -> EditCounts:
    """The errors of one pair of tokens on the host, which takes less time than it takes to make batches of them."""
    m, n = one.size, two.size
    most = min(2 * ((m + 63) // 64 * n), MAX_TRACE)
    room = _TABLE_SIZE + n + 1 + most
    out = np.empty(4, np.int64)
    ends = np.array([[0, m], [0, n], [0, 1]])
    layouts = [Layout(cum, cum, cum, -1, 0, 1, 0) for cum in ends[:2]]
    args = (one, two, out, np.empty(room, np.int64), *layouts, ends[2], np.array([room, MIN_INT64, most]), 1)
    count_errors.run_over(args, Work(1, m * n), 8 * m * n, one.dtype.num)
    return EditCounts(*[out[k : k + 1] for k in range(4)])
