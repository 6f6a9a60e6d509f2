"""Items hidden at random, which a model is to guess: masked language modelling, and the corruption of spans."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any, Generic, NamedTuple, SupportsFloat, overload

import numpy as np

from ..arrays import NO_INTS, Array, Library, freeze, library_of
from ..converters.convert import convert, relaid, rows_of
from ..converters.layouts import check_at_least
from ..converters.like import convert_like
from ..errors import (
    DEVICES,
    DTYPE,
    EXACT,
    LEVELS,
    RANGE,
    SHAPE,
    TOGETHER,
    UNLIKE,
    WHOLE,
    quote,
)
from ..formats import Encoding, Ragged
from ..formats.annotations import Given, Integers
from ..formats.bare import is_batch
from ..formats.encoding import abridge
from ..formats.leaves import without_data
from ..formats.structure import MAX_INT64, Structure, integers
from ..formats.structure import whole as check_whole
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import operand
from ..launch.kernel import Work, kernel
from ..memory_checks import allocate
from .annotations import B, Batch
from .calculation import rows_like
from .choices import Corruption, Masking
from .options import UINT32_LIMIT, check_places, key_of, label, number, share
from .spans import divide, divide_around, rows_in_spans, special_rows

mask_items, corrupt_items, pad_blocks = kernel("mask_items"), kernel("corrupt_items"), kernel("pad_blocks")

_RANGES = {
    name: (int(np.iinfo(name).min), min(int(np.iinfo(name).max), MAX_INT64))
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
"""What ids of these dtypes can be, beside labels of int64."""
_NO_MARKS = freeze(np.zeros(0, np.uint8))


class MaskedTokens(NamedTuple, Generic[B]):
    """Inputs of a masked language model, and what it is to guess; see `mask_tokens`.

    Examples
    --------
    >>> import seqformats as sf
    >>> ids, labels, chosen = sf.mask_tokens([[5, 6, 7]], rate=1, mask_id=0, split=(1, 0, 0), seed=0)
    >>> ids, labels, chosen
    ([[0, 0, 0]], [[5, 6, 7]], [[True, True, True]])
    """

    ids: B
    """The items, something else in the place of most chosen ones."""
    labels: B
    """The chosen items, and `ignore` for all others; int64."""
    chosen: B
    """Which these are; bool."""


class SpanCorrupted(NamedTuple, Generic[B]):
    """Sequences without some spans, and these; see `corrupt_spans`.

    Examples
    --------
    >>> import seqformats as sf
    >>> inputs, targets = sf.corrupt_spans([[5, 6, 7, 8]], rate=0.25, mean=1, sentinel=99, seed=0)
    >>> inputs, targets
    ([[5, 6, 7, 99]], [[99, 8, 98]])
    """

    inputs: B
    """The sequences, a sentinel in the place of each span."""
    targets: B
    """The spans, each after its sentinel, and a last sentinel."""


@overload
def mask_tokens(
    ids: B,
    *,
    mask_id: int,
    seed: int,
    rate: SupportsFloat = ...,
    vocabulary: Integers | int | None = ...,
    special: Integers | Set[int] | Batch = ...,
    whole: Batch | bool | None = ...,
    spans: None = ...,
    split: Sequence[float] = ...,
    ignore: int = ...,
) -> MaskedTokens[B]: ...
@overload
def mask_tokens(
    ids: B,
    *,
    mask_id: int,
    seed: int,
    rate: SupportsFloat = ...,
    vocabulary: Integers | int | None = ...,
    special: Integers | Set[int] | Batch = ...,
    whole: Batch | bool | None = ...,
    spans: float,
    split: Sequence[float] = ...,
    ignore: int = ...,
) -> SpanCorrupted[B]: ...
def mask_tokens(
    ids: B,
    *,
    mask_id: int,
    seed: int,
    rate: SupportsFloat = 0.15,
    vocabulary: Integers | int | None = None,
    special: Integers | Set[int] | Batch = (),
    whole: Batch | bool | None = None,
    spans: float | None = None,
    split: Sequence[float] = (0.8, 0.1, 0.1),
    ignore: int = -100,
) -> MaskedTokens[B] | SpanCorrupted[B]:
    """Hide some items of every sequence at random, as masked language models learn to guess them.

    Parameters
    ----------
    ids : an encoding, a list of arrays or nested lists
        Integers with item shape () or (1,).
    mask_id : int
        The id that hides others; with `spans` the first sentinel.
    seed : int
        From 0 to 2^63 - 1; a new one for every batch and epoch.
    rate : float
        How likely each item is chosen, or each word; from 0 to 1.
    vocabulary : int or integers
        What random ids are drawn from: ``range(vocabulary)``, or these ids.
    special : integers, or bools laid out in any way over the same sequences
        Ids that are never chosen, or which items are not.
    whole : bools over the same sequences, or True
        Words are chosen as a whole: an item begins one where this is True, and the others go with the one before.  True
        alone says that the innermost sequences of a `LoD`, or of nested lists, are words, and those of the level above
        are what counts as a sequence.
    spans : float, optional
        Spans of this mean length are replaced by sentinels instead, as `corrupt_spans` does; `rate`, `mask_id` and
        `seed` are all that it takes beside.
    split : three numbers
        The parts of the chosen items that become `mask_id`, that become another id, and that stay as they are; their
        sum is 1.
    ignore : int
        The label of items that are not chosen, and of padding.

    Returns
    -------
    MaskedTokens
        ``(ids, labels, chosen)``, each as `ids` is: with the dtype of `ids`, of int64, and of bools.  With `spans` a
        `SpanCorrupted`.

    Raises
    ------
    ConversionError
        For a rate, a split, a seed, a mask or a vocabulary that cannot be.
    TypeError
        If the items are not integers.
    StructureError
        For other item shapes, and marks over other sequences.
    DeviceError
        For marks on another device.

    See Also
    --------
    corrupt_spans : Spans in the place of items.
    cross_entropy : The loss, which leaves out labels.

    Notes
    -----
    What is drawn for an item depends on the seed, the number of its sequence and its place there alone (and which item
    or word is chosen not even on the ids): so the encoding, the array library, the device, the number of threads and
    what else is in the batch change nothing.  Each item of a chosen word has its own part of the `split`.  The padding
    of `ids` and `chosen` is zero, that of `labels` is `ignore`, so that ``labels.data`` can go into a loss.  Ids of
    uint64 must fit int64.  There is no gradient.

    References
    ----------
    .. [1] J. Devlin, M.-W. Chang, K. Lee, K. Toutanova, "BERT: pre-training of deep bidirectional transformers", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1, 21, 22, 2, 1, 31, 32, 2]), [4, 4])
    >>> y = sf.mask_tokens(x, rate=0.5, mask_id=9, vocabulary=40, special=[1, 2], seed=4)
    >>> y.ids.data
    array([ 1, 21, 22,  2,  1,  9,  9,  2])
    >>> y.labels.data
    array([-100, -100, -100, -100, -100,   31,   32, -100])
    """
    if spans is not None:
        if whole is not None:
            raise TOGETHER("spans are of any items: whole is for words")
        return corrupt_spans(ids, rate=rate, mean=spans, sentinel=mask_id, seed=seed, special=special)
    tokens = _tokens(ids)
    own, items = tokens.own, tokens.items
    in_words = whole is not None and whole is not False
    numbers, drawn = _numbers(tokens.name, rate, mask_id, vocabulary, split, seed, ignore, in_words)
    held, kept = _NO_MARKS, NO_INTS
    if isinstance(special, Set) or not is_batch(special):
        kept = _sorted_ids(special)
    else:
        held = _marks(special, items, "special")
    begins, at = _NO_MARKS, items
    if whole is True:
        begins, at = _words(own, items)
    elif in_words:
        begins = _marks(whole, items, "whole")
    library, structure = tokens.library, at._structure
    check_places(structure)
    item = items._shape[items._lead :]
    out = rows_like(library, items, item, tokens.dtype, tokens.data)
    labels = _fill(library, items, item, int(numbers[-1]), tokens.data)
    chosen = rows_like(library, items, item, library.bool_dtype, tokens.data)
    if structure.rows:
        results, args = (tokens.words(out), labels, chosen), (at._layout(), Masking(kept, drawn, numbers))
        mask_items.start(library, (tokens.words(tokens.data), held, begins), results, args, 1, structure)
    made: list[Any] = [own._with_data(y) for y in (tokens.call_function(out), labels, chosen)]
    if tokens.result is not None:
        return MaskedTokens(*[tokens.result(y) for y in made])
    return MaskedTokens(*made)


@by_level(keeps=False, marks=("special",))
def corrupt_spans(
    ids: B,
    *,
    sentinel: int,
    seed: int,
    rate: SupportsFloat = 0.15,
    mean: SupportsFloat = 3.0,
    special: Integers | Set[int] | Batch = (),
    level: int = INNERMOST,
) -> SpanCorrupted[B]:
    """Take spans at random out of every sequence, as T5 learns to fill them in.

    Parameters
    ----------
    ids : an encoding, a list of arrays or nested lists
        Integers with item shape () or (1,).
    sentinel : int
        The id of the first sentinel of each sequence; those after it fall by 1.  With T5 it is the last id of the
        vocabulary.
    seed : int
        From 0 to 2^63 - 1; a new one for every batch and epoch.
    rate : float
        Which part of a sequence is in spans, from 0 to 1.
    mean : float
        How many items a span has on average, at least 1.
    special : integers, or bools laid out in any way over the same sequences
        Ids, or items, that are in no span, as for `mask_tokens`: the others are divided as if they were alone, and a
        span with a special item within is two.
    level : int
        The level of a `LoD` whose sequences these are, as in `convert`; the levels below are dropped.

    Returns
    -------
    SpanCorrupted
        ``(inputs, targets)``, each as `ids` is, with other lengths: the sequences, a sentinel in the place of each
        span; and sentinel, span, sentinel, span, ..., and a last sentinel.

    Raises
    ------
    ConversionError
        For a rate, a mean or a seed that cannot be, and for sentinels that do not fit the dtype or fall below 0.
    TypeError
        If the items are not integers.
    StructureError
        If the item shape is not allowed.

    See Also
    --------
    mask_tokens : Items in the place of spans.

    Notes
    -----
    As in [1]_ the number of masked items of a sequence, its length times `rate`, and that of spans, the number of items
    divided by `mean`, are rounded (a half to the even number), and at least one; at least one item is kept before each
    span.  Both kinds of items are divided into so many parts, any division as likely, and take turns; kept ones begin.
    A sequence of one item or none stays as it is, its targets are the first sentinel alone.  So all lengths follow from
    the lengths, and nothing of a GPU is copied to the host.  What is drawn depends on the seed, the number of the
    sequence and its length alone.  There is no gradient.  With `special`, where these are is copied to the host once.

    References
    ----------
    .. [1] C. Raffel et al., "Exploring the limits of transfer learning with a unified text-to-text transformer", 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> y = sf.corrupt_spans([[11, 12, 13, 14, 15, 16, 17, 18]], rate=0.5, mean=2, sentinel=99, seed=1)
    >>> y.inputs, y.targets
    ([[11, 99, 15, 16, 17, 98]], [[99, 12, 13, 14, 98, 18, 97]])
    >>> y = sf.corrupt_spans([[1, 11, 12, 13, 14, 2]], rate=0.5, mean=2, sentinel=99, seed=1, special=[1, 2])
    >>> y.inputs, y.targets
    ([[1, 11, 12, 99, 2]], [[99, 13, 14, 98]])
    """
    if level is not INNERMOST:
        return at_level(corrupt_spans, level, ids, sentinel=sentinel, seed=seed, rate=rate, mean=mean, special=special)
    tokens = _tokens(ids)
    part, size, key = share(rate, "rate"), number(mean, "mean"), key_of(seed)
    if not 1 <= size < math.inf:
        raise RANGE(f"mean must be a finite number of items, at least 1, not {quote(mean)}")
    first = check_at_least(sentinel, "sentinel", 0)
    lengths = tokens.items._structure.lengths
    check_places(tokens.items._structure)
    library, items = tokens.library, tokens.items
    if isinstance(special, (list, tuple, Set)) and not special:
        masked, spans = divide(lengths, part, size)
        _check_sentinels(first, spans, tokens.name)
        into, aside = Structure.of_lengths(lengths - masked + spans), Structure.of_lengths(masked + spans + 1)
        made = [
            allocate(library.empty, (s.rows, *items._shape[items._lead :]), tokens.dtype, tokens.data)
            for s in (into, aside)
        ]
        if aside.rows:
            results = (tokens.words(made[0]), tokens.words(made[1]))
            args = (items._layout(), Corruption(into.offsets, aside.offsets, spans, key, first))
            corrupt_items.start(library, (tokens.words(tokens.data),), results, args, 1, items._structure)
    else:
        given = _sorted_ids(special) if isinstance(special, Set) or not is_batch(special) else special
        apart = special_rows(items, given)
        found = divide_around(apart, items._structure, lambda each: rows_in_spans(each, part, size, key))
        _check_sentinels(first, found.sentinels, tokens.name)
        last = int(found.sentinels.max(initial=0))
        rows = tokens.words(library.astype(rows_of(items._with_data(tokens.data)), tokens.name))
        names = np.arange(first, first - last - 1, -1).astype(library.dtype_name(rows.dtype))
        rows = library.concatenate([rows, library.from_host(names.reshape(-1, *items.item_shape), rows)])
        made = [library.take(rows, index, 0).view(tokens.dtype) for index in found.rows]
        into, aside = found.structures
    parts = [
        convert_like(Ragged._freeze(tokens.call_function(data), structure), without_data(tokens.own))
        for data, structure in zip(made, (into, aside), strict=True)
    ]
    return SpanCorrupted(*(parts if tokens.result is None else [tokens.result(y) for y in parts]))


def _check_sentinels(first: int, spans: Array, name: str) -> None:
    last = first - int(spans.max(initial=0))
    if last < 0 or first > _RANGES[name][1]:
        raise EXACT(
            f"sentinels from {first} down to {last}, of sequence {int(spans.argmax()) if spans.size else 0}, "
            f"do not fit {name}, and ids are not below 0"
        )


class _Tokens(NamedTuple):
    """Ids, as these operations take them."""

    own: Encoding
    items: Encoding  # the same, in one array
    library: Library
    data: Array
    name: str  # of the dtype
    dtype: Any
    result: Any  # see `Operand`

    def words(self, x: Array) -> Array:
        """An array of this dtype as kernels take it: uint64 as int64, beside which it would be compared as float64."""
        return x.view(self.library.dtype("int64")) if self.name == "uint64" else x

    def call_function(self, x: Array) -> Array:
        """Give what kernels have written, in the order of bytes that the ids have."""
        dtype = self.items._dtype
        return x if getattr(dtype, "isnative", True) else self.library.astype(x, dtype)


def _tokens(x: Batch) -> _Tokens:
    own, result, _ = operand(x)
    items = own if own._in_one_array else convert(own, Ragged)
    library, data = items._look(), items.data
    shape = items._shape[items._lead :]
    if len(shape) > 1 or math.prod(shape) != 1:
        raise SHAPE(f"ids are items of shape () or (1,), but these have shape {shape}")
    name = library.dtype_name(items._dtype)
    if own.rows == 0 and not isinstance(x, Encoding) and name not in _RANGES:
        data, name = library.zeros(items._shape, library.dtype("int64"), data), "int64"  # lists without items
    if name not in _RANGES:
        raise WHOLE(f"ids are integers, but the items have dtype {name}")
    if name == "uint64":
        data = library.astype(data, name)
    return _Tokens(own, items, library, data, name, library.dtype(name), result)


# --- options ----------------------------------------------------------------------------------------------------------


def _numbers(
    name: str,
    rate: object,
    mask_id: object,
    vocabulary: object,
    split: object,
    seed: object,
    ignore: object,
    in_words: bool,
) -> tuple[Array, Array]:
    """The numbers that `mask_items` takes, and the ids that it draws from where they are no range."""
    if not isinstance(split, (list, tuple)) or len(split) != 3:
        raise RANGE(f"split must be three numbers, (masked, random, kept), not {quote(split)}")
    masked, changed, kept = [share(part, "split") for part in split]
    if abs(masked + changed + kept - 1) > 1e-6:
        raise RANGE(f"split must add up to 1, but {quote(split)} adds up to {masked + changed + kept}")
    least, most = _RANGES[name]
    mask = check_whole(mask_id, "mask_id")
    if not least <= mask <= most:
        raise EXACT(f"mask_id={quote(mask_id)} does not fit {name}, the dtype of the ids")
    drawn, count = NO_INTS, 0
    if isinstance(vocabulary, (int, np.integer)):
        count = check_at_least(vocabulary, "vocabulary", 1)
        if count > min(most + 1, UINT32_LIMIT):
            raise EXACT(f"vocabulary={quote(vocabulary)} is beyond {name}, the dtype of the ids, or 2^32")
    elif vocabulary is not None:
        drawn = freeze(integers(vocabulary, "vocabulary"))
        count = drawn.size
        if count and not (least <= int(drawn.min()) and int(drawn.max()) <= most):
            raise EXACT(f"ids of the vocabulary do not fit {name}, the dtype of the ids")
    if changed > 0 and not count:
        raise TOGETHER(f"split={quote(split)} wants random ids; give vocabulary=, how many ids there are, or which")
    part = share(rate, "rate")
    of = 1.0 if in_words else part  # an item of a word has a number of its own
    ends = (part, of * masked, of * (masked + changed if kept else 1.0))
    bounds = [round(end * UINT32_LIMIT) for end in ends]
    return freeze(np.array([key_of(seed), *bounds, mask, count, label(ignore)], np.int64)), drawn


def _sorted_ids(special: Given) -> Array:
    if type(special) is tuple and not special:
        return NO_INTS
    return freeze(np.sort(integers(list(special) if isinstance(special, Set) else special, "special")))


# --- marks beside items -----------------------------------------------------------------------------------------------


def _marks(given: object, x: Encoding, what: str) -> Array:
    """Bools over the sequences of `x`, laid out as they are."""
    marks = operand(given).own
    if not marks._structure.same_lengths(x._structure):
        raise UNLIKE(
            f"{what} has sequences of lengths {abridge(marks._structure.lengths)}, but the ids "
            f"{abridge(x._structure.lengths)}"
        )
    if math.prod(marks.item_shape) != 1 or len(marks.item_shape) > 1:
        raise SHAPE(f"{what} must hold one bool per item, but has item shape {marks.item_shape}")
    sample, like = marks._sample(), x._sample()
    library = library_of(sample)
    name = library.dtype_name(marks._dtype)
    if name != "bool" and marks.rows:
        raise DTYPE(f"{what} must hold bools, but has dtype {name}")
    beside = library is library_of(like) and library.device(sample) == library.device(like)
    if not beside and type(sample) is not np.ndarray:
        raise DEVICES(
            f"{what} is on {library.device(sample)}, {library.name}; the ids are on {library_of(like).device(like)}"
        )
    laid = relaid(convert(marks, Ragged) if marks.keeps_levels else marks, without_data(x))
    return laid.data if marks.rows else _NO_MARKS


def _words(own: Encoding, items: Encoding) -> tuple[Array, Encoding]:
    """Find where the words of two levels begin, and the sequences of words."""
    levels = own._levels
    if len(levels) < 2:
        raise LEVELS(
            f"whole=True takes the innermost sequences as words, but a {type(own).__name__} has only one level; give "
            "bools, True where a word begins"
        )
    words, outer = levels[-1], levels[-2]
    begins = np.zeros(words.rows, np.uint8)
    begins[words.offsets[:-1][words.lengths > 0]] = 1
    return freeze(begins), Ragged._freeze(items.data, Structure.of_offsets(words.offsets[outer.offsets]))


def _fill(library: Library, x: Encoding, item: tuple[int, ...], value: int, like: Array) -> Array:
    """A new array of int64 in the layout of `x`, whose padding is `value`."""
    dtype = library.dtype("int64")
    out = allocate(library.empty, (*x._shape[: x._lead], *item), dtype, like)
    gaps = x._output_spec(x._structure, *x._form())[2] if x._gapped and x._padding() else None
    if gaps is not None:
        cum, runs, width, left = gaps
        free = Work(runs, runs * width - x._structure.rows)
        fill = library.item(value, dtype, item)
        pad_blocks.start(library, (fill,), (out,), (cum, width, left), 8, x._structure, free)
    return out
