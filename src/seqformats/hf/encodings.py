"""Batches of what tokenizers give: encodings of the tokenizers library, and those of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..arrays import Array
from ..converters.layouts import one_of
from ..errors import BATCH, BROKEN, KIND, LENGTHS, TOGETHER, UNLIKE, WHOLE, quote
from ..formats import LoD, Ragged
from ..formats.annotations import Given
from ..formats.structure import flag
from .columns import sequences, whole_numbers

ENCODING_KEYS = {
    "ids": "input_ids",
    "type_ids": "token_type_ids",
    "attention_mask": "attention_mask",
    "special_tokens_mask": "special_tokens_mask",
    "offsets": "offset_mapping",
    "word_ids": "word_ids",
    "sequence_ids": "sequence_ids",
}
"""The fields of an encoding, as transformers names them."""


def from_encodings(
    encodings: Sequence[Any] | Mapping[str, Any],
    field: str = "ids",
    *,
    words: bool = False,
    chunks: bool = False,
    special: bool = True,
) -> Any:
    """A field of what a tokenizer gives, as one batch without padding.

    Parameters
    ----------
    encodings : a list of ``tokenizers.Encoding``, a ``BatchEncoding`` of transformers, or a dict of its columns
        A `BatchEncoding` of a fast tokenizer has encodings, which are read; of any other the lists, arrays or tensors.
    field : str
        ``"ids"``, ``"type_ids"``, ``"attention_mask"``, ``"special_tokens_mask"``, ``"offsets"`` (where each token is
        in its text: first character and the one after the last), ``"word_ids"`` (the word of each token in its text,
        -1 for none) or ``"sequence_ids"`` (0 or 1, of a pair; -1 for none).
    words : bool
        True for a level of words, sequences > words > tokens.  A token of no word, as special ones are, is a word
        of its own.
    chunks : bool
        True for a level of documents, documents > chunks > tokens.  Chunks are what
        ``return_overflowing_tokens=True`` makes of a long text, or ``Encoding.overflowing``.
    special : bool
        False leaves out what the tokenizer has added, as its special tokens mask tells, which columns have by
        ``return_special_tokens_mask=True``.

    Returns
    -------
    Ragged, or LoD with `words` or `chunks`
        Items of int64; of ``"offsets"`` with item shape (2,).  What the attention mask leaves out is not there.

    Raises
    ------
    ConversionError
        For another field, for one that is not there, for words and chunks that nothing tells of.
    StructureError
        For columns that do not fit each other.
    TypeError
        If the argument holds no encodings of a tokenizer.

    See Also
    --------
    Collator : A padded or flattened batch for a model.
    seqformats.expand_as : From words back to tokens.

    Notes
    -----
    What a model makes of tokens, `vectors` (a `Ragged`, say of ``Masked.from_mask(hidden, attention_mask)``), is in
    words with ``LoD(vectors.data, words.lod)``; ``reduce_mean`` of that has one vector per word, and
    ``expand_as(of_words, words)`` gives every token that of its word.

    Examples
    --------
    >>> import seqformats as sf
    >>> batch = {"input_ids": [[2, 7, 8, 3], [2, 9, 3, 0]], "attention_mask": [[1, 1, 1, 1], [1, 1, 1, 0]]}
    >>> sf.hf.from_encodings(batch).to_nested()
    [[2, 7, 8, 3], [2, 9, 3]]
    >>> batch["word_ids"] = [[None, 0, 0, None], [None, 0, None, None]]
    >>> sf.hf.from_encodings(batch, words=True).to_nested()
    [[[2], [7, 8], [3]], [[2], [9], [3]]]
    >>> batch["special_tokens_mask"] = [[1, 0, 0, 1], [1, 0, 1, 1]]
    >>> sf.hf.from_encodings(batch, special=False).to_nested()
    [[7, 8], [9]]
    """
    one_of(field, "field", tuple(ENCODING_KEYS))
    for name, value in (("words", words), ("chunks", chunks), ("special", special)):
        flag(value, name)
    source, documents = _source(encodings, chunks)
    mask = source.read("attention_mask")
    x = mask if field == "attention_mask" and mask is not None else source.require(field)
    kept = None if mask is None or mask.data.all() else mask.data != 0
    if mask is not None:
        _check_lengths(mask, x, field)
    if not special:
        added = source.require("special_tokens_mask")
        _check_lengths(added, x, field)
        kept = (added.data == 0) if kept is None else kept & (added.data == 0)
    lengths = x.lengths if kept is None else _count_marks(kept, x.offsets)
    levels = [_offsets(lengths)]
    if words:
        of_words = source.require("word_ids")
        _check_lengths(of_words, x, field)
        starts = _word_starts(of_words, source.read("sequence_ids") if source.in_pairs else None)
        if kept is not None:
            starts = starts[kept]  # padding is of no word, and so a word of its own
        levels = [_count_marks(starts, levels[0], cumulated=True), np.append(np.flatnonzero(starts), starts.size)]
    if documents is not None:
        levels.insert(0, documents)
    data = x.data if kept is None else x.data[kept]
    return LoD(data, levels) if len(levels) > 1 else Ragged(data, lengths)


class _Encodings:
    """Encodings of the tokenizers library."""

    def __init__(self, encodings: Sequence[Any]) -> None:
        self.encodings = encodings
        self.in_pairs = any(encoding.n_sequences > 1 for encoding in encodings)

    def read(self, field: str) -> Ragged[Array]:
        rows = [getattr(encoding, field) for encoding in self.encodings]
        if field in ("word_ids", "sequence_ids"):
            return _with_none(field, rows)
        if field == "offsets":
            flat = np.fromiter(chain.from_iterable(chain.from_iterable(rows)), np.int64)
            return Ragged(flat.reshape(-1, 2), list(map(len, rows)))
        x = LoD.from_nested(rows, np.int64, levels=1)
        return Ragged.from_offsets(x.data, x.lod[0])

    require = read


class _Columns:
    """Columns of lists, arrays or tensors."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = columns
        self.in_pairs = "sequence_ids" in columns

    def read(self, field: str) -> Ragged[Array] | None:
        key = ENCODING_KEYS[field]
        if key not in self.columns:
            return None
        values = self.columns[key]
        if field in ("word_ids", "sequence_ids") and all(isinstance(row, (list, tuple)) for row in values):
            return _with_none(key, values)
        x = sequences(key, values)
        if field == "offsets" and not x.rows:
            x = x._with_data(x.data.reshape(0, 2))
        return whole_numbers(key, x, (2,) if field == "offsets" else ())

    def require(self, field: str) -> Ragged[Array]:
        x = self.read(field)
        if x is None:
            raise TOGETHER(
                f"there is no {ENCODING_KEYS[field]!r}, only {quote(sorted(map(str, self.columns)))}; "
                "a fast tokenizer gives encodings, which have all fields"
            )
        return x


def _source(encodings: Given, chunks: bool) -> tuple[_Encodings | _Columns, Array | None]:
    """Find what is read, and with `chunks` the offsets of the documents."""
    if isinstance(encodings, Mapping):
        found = getattr(encodings, "encodings", None)
        source = _Columns(encodings) if found is None else _Encodings(found)
        if not chunks:
            return source, None
        if "overflow_to_sample_mapping" not in encodings:
            raise TOGETHER(
                "chunks=True, but nothing tells which document a chunk is of; tokenize with "
                "return_overflowing_tokens=True"
            )
        return source, _documents(encodings["overflow_to_sample_mapping"])
    if not isinstance(encodings, (list, tuple)):
        raise KIND(
            f"encodings must be a list of encodings or a BatchEncoding, not {type(encodings).__name__}"
            + ("; of one alone [encoding] is a list" if hasattr(encodings, "overflowing") else "")
        )
    for i, encoding in enumerate(encodings):
        if not hasattr(encoding, "overflowing"):
            raise BATCH(f"encodings[{i}] is {quote(encoding)}, no encoding of the tokenizers library")
    if not chunks:
        return _Encodings(encodings), None
    parts = [[encoding, *encoding.overflowing] for encoding in encodings]
    return _Encodings(list(chain.from_iterable(parts))), _offsets(np.array(list(map(len, parts)), np.int64))


def _documents(mapping: Given) -> Array:
    numbers = np.asarray(mapping)
    if numbers.ndim != 1 or (numbers.size and (numbers[0] < 0 or (np.diff(numbers) < 0).any())):
        raise LENGTHS("overflow_to_sample_mapping must hold one number per chunk, which never falls")
    return _offsets(np.bincount(numbers.astype(np.int64))) if numbers.size else np.zeros(1, np.int64)


def _with_none(name: str, rows: Sequence[Sequence[int | None]]) -> Ragged[Array]:
    """Numbers, -1 for None; NumPy makes NaN of None, in compiled code."""
    try:
        flat = np.array(list(chain.from_iterable(rows)), np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise WHOLE(f"column {name!r} must hold integers or None: {error}") from None
    flat = np.where(np.isnan(flat), -1, flat)
    if flat.ndim != 1 or (flat != np.trunc(flat)).any() or (np.abs(flat) > 2**53).any():
        raise BROKEN(f"column {name!r} must hold numbers of words or sequences, which are whole and small")
    return Ragged(flat.astype(np.int64), list(map(len, rows)))


def _word_starts(words: Ragged[Array], sides: Ragged[Array] | None) -> Array:
    """Tell which tokens begin a word: the first of a sequence, those of no word or another than the one before."""
    number = words.data
    starts = np.ones(number.size, bool)
    starts[1:] = (number[1:] != number[:-1]) | (number[1:] < 0)
    if sides is not None:
        starts[1:] |= sides.data[1:] != sides.data[:-1]
    starts[words.offsets[:-1][words.lengths > 0]] = True
    return starts


def _offsets(lengths: Array) -> Array:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _count_marks(marks: Array, offsets: Array, cumulated: bool = False) -> Array:
    """Count the marks of each sequence, or up to each boundary."""
    counts = _offsets(marks)[offsets]
    found: Array = counts if cumulated else np.diff(counts)
    return found


def _check_lengths(x: Ragged[Array], like: Ragged[Array], field: str) -> None:
    if not np.array_equal(x.lengths, like.lengths):
        raise UNLIKE(f"the masks, words and {field} of the encodings have different lengths")
