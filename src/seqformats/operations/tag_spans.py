"""Tags as spans and back: which items of a sequence a tagger has put together, and as what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..arrays import Array, library_of
from ..converters.convert import restore, rows_of
from ..converters.like import convert_like
from ..errors import CHOICE, COUNTS, INDEX, KIND, LENGTHS, RANGE, SHAPE, WHOLE, quote
from ..formats import Encoding, Ragged, structure_of
from ..formats.structure import MAX_INT64, Structure, integers
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import operand
from .annotations import B, Batch
from .companions import check_same_lengths, in_kind

T = TypeVar("T")
Labels: TypeAlias = Sequence[str] | Mapping[int, str]
"""The name of each tag."""
_PREFIX = re.compile("[BIELMSU]-.")


class TagSpans(NamedTuple, Generic[T]):
    """The spans of every sequence: batches of integers with one item a span; see `tags_to_spans`.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.tags_to_spans([[1, 2, 0, 3]])
    TagSpans(starts=[[0, 3]], stops=[[2, 4]], types=[[0, 1]])
    """

    starts: T
    stops: T
    types: T


class _Tags(NamedTuple):
    """Meanings of tags, arrays with a number for each."""

    types: Array  # -1: outside of all spans
    begins: Array  # does it begin a span?
    ends: Array

    @classmethod
    def from_labels(cls, labels: Labels) -> _Tags:
        """Read the names of tags."""
        if isinstance(labels, Mapping):
            if set(labels) != set(range(len(labels))):
                raise RANGE(f"labels must name the tags 0 to {len(labels) - 1}, but have {quote(list(labels))}")
            labels = [labels[k] for k in range(len(labels))]
        is_list = isinstance(labels, Sequence) and not isinstance(labels, str)
        if not is_list or not all(isinstance(name, str) for name in labels):
            raise KIND('labels must be names such as ["O", "B-PER", "I-PER"], or a dict of them by their numbers')
        pairs = [(name[0], name[2:]) if _PREFIX.match(name) else ("I", name) for name in labels]
        number = {kind: k for k, kind in enumerate(dict.fromkeys(kind for _, kind in pairs if kind != "O"))}
        types = np.array([number.get(kind, -1) for _, kind in pairs], np.int64)
        begins, ends = (np.array([mark in marks for mark, _ in pairs], bool) for marks in ("BSU", "ELSU"))
        return cls(types, begins, ends)

    def find(self, types: Array, begins: bool, ends: bool) -> Array:
        """Find for each type the tag for an item that begins or ends a span, else the one that is nearest to it."""
        found = np.full(int(self.types.max(initial=-1)) + 1, -1)
        fits = 2 * (self.begins == begins) + (self.ends == ends)
        tags = np.lexsort((-np.arange(fits.size), fits))
        tags = tags[self.types[tags] >= 0]
        found[self.types[tags]] = tags  # of several the last one stays, which fits best
        return found[types]


@by_level(keeps=False)
def tags_to_spans(tags: B, labels: Labels | None = None, *, level: int = INNERMOST) -> TagSpans[B]:
    """Find the spans that tags of words or tokens mark in each sequence.

    Parameters
    ----------
    tags : an encoding, a list of arrays or nested lists
        Integers with item shape ().
    labels : list of str, or dict of them by their numbers, optional
        The name of each tag, as ``model.config.id2label`` has them: ``O`` is outside of all spans; ``B-``, ``I-``,
        ``E-``, ``S-`` (and ``L-``, ``M-``, ``U-``) before a type say where in its span an item is, and a type alone is
        ``I-``.  Without labels 0 is outside, ``2 * k + 1`` begins a span of type k, and ``2 * k + 2`` goes on.
    level : int
        See `topk`.

    Returns
    -------
    TagSpans
        ``.starts``, ``.stops`` and ``.types``, int64, each of the kind of `tags` with an item for each span.  Types
        are numbered as they come in `labels`.

    Raises
    ------
    IndexError
        For a tag without a name, and for a negative one.
    StructureError
        For another item shape.
    TypeError
        For tags that are no integers, and labels that are no names.

    See Also
    --------
    spans_to_tags : The way back.
    intersect : The spans that two taggers have in common.

    Notes
    -----
    An item also begins a span where the one before it is outside, has another type or ends its span, so BIO, IOB1, IO,
    BIOES and BILOU are all read by one rule, that of conlleval and of seqeval without ``mode="strict"``.  The tags
    are copied from a GPU to the host.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> tags = sf.Ragged(np.array([1, 2, 0, 3, 1, 2, 0]), [4, 3])
    >>> spans = sf.tags_to_spans(tags, ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    >>> spans.starts.to_nested(), spans.stops.to_nested(), spans.types.to_nested()
    ([[0, 3], [0]], [[2, 4], [2]], [[0, 1], [0]])
    """
    if level is not INNERMOST:
        return at_level(tags_to_spans, level, tags, labels)
    own, result, _ = operand(tags)
    if str(own._dtype)[1:2] == "U":
        raise WHOLE("tags must be numbers, not names; [[labels.index(name) for name in names] for names in tags] are")
    host, structure = _numbers(own, "tags")
    tables = None if labels is None else _Tags.from_labels(labels)
    _check(host, structure, MAX_INT64 if tables is None else tables.types.size)
    if tables is None:
        types, begins, ends = host // 2 + host % 2 - 1, host % 2 == 1, np.zeros(host.size, bool)
    else:
        types, begins, ends = (table[host] for table in tables)
    before, inside = np.roll(types, 1), types >= 0
    before[structure.offsets[:-1][structure.lengths > 0]] = -1
    first = inside & (begins | (types != before) | np.roll(ends, 1))
    last = inside & np.append((first | ~inside)[1:], True)  # before what begins or is outside
    places = np.flatnonzero(first)
    kept = Structure.of_lengths(np.diff(np.searchsorted(places, structure.offsets)))
    zeros = np.repeat(structure.offsets[:-1], kept.lengths)
    found = places - zeros, np.flatnonzero(last) + 1 - zeros, types[first]
    rows = rows_of(own)
    batches = [Ragged._freeze(library_of(rows).from_host(x, rows), kept) for x in found]
    return TagSpans(*[in_kind(result)(convert_like(x, own)) for x in batches])


def spans_to_tags(
    spans: TagSpans[Any] | tuple[Batch, Batch, Batch], x: B, labels: Labels | None = None, *, level: int = INNERMOST
) -> B:
    """Make a tag for each word or token of sequences in which there are spans.

    Parameters
    ----------
    spans : TagSpans, or three batches
        Starts, stops and types, integers with one item a span, over as many sequences as `x` has, in any order.
    x : an encoding, a list of arrays or nested lists
        The words or tokens, of which only the lengths count.
    labels : list of str, or dict of them by their numbers, optional
        See `tags_to_spans`.  An item gets the label of its type that says best where in its span it is.
    level : int
        The level of `x` whose sequences the spans are in, as in `convert`.

    Returns
    -------
    same kind as `x`
        int64, a tag for each item.

    Raises
    ------
    IndexError
        For a span that is not within its sequence, and for a type without a label.
    StructureError
        For batches of other lengths, and for spans that are empty or overlap.
    TypeError
        For spans that are no integers.
    ConversionError
        For labels without ``O``, where an item is in no span.

    See Also
    --------
    tags_to_spans : The way back.

    Notes
    -----
    Labels without ``B-`` and ``S-`` cannot tell neighbouring spans of one type apart.  The spans are copied from a GPU
    to the host.  There is no gradient.

    Examples
    --------
    >>> import seqformats as sf
    >>> spans = sf.TagSpans(starts=[[0, 3], []], stops=[[2, 4], []], types=[[0, 1], []])
    >>> sf.spans_to_tags(spans, [[11, 12, 13, 14], [15]], ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    [[1, 2, 0, 3], [0]]
    >>> sf.spans_to_tags(spans, [[11, 12, 13, 14], [15]], ["O", "B-PER", "E-PER", "S-LOC"])
    [[1, 2, 0, 3], [0]]
    """
    own, result, _ = operand(x)
    structure, rows = structure_of(own, level), rows_of(own)
    if not isinstance(spans, tuple) or len(spans) != 3:
        raise KIND(f"spans must be TagSpans(starts, stops, types), not {quote(spans)}")
    (starts, at), *others = (
        _numbers(part, f"spans.{name}") for part, name in zip(spans, TagSpans._fields, strict=True)
    )
    for (_, its), name in zip(others, TagSpans._fields[1:], strict=True):
        check_same_lengths(its, at, f"spans.{name}", "spans.starts")
    (stops, _), (types, _) = others
    if at.n != structure.n:
        raise COUNTS(f"spans are in {at.n} sequences, but x has {structure.n}")
    counts, room = stops - starts, np.repeat(structure.lengths, at.lengths)
    if (wrong := (starts < 0) | (stops > room)).any():
        k = int(wrong.argmax())
        raise INDEX(f"a span from {starts[k]} to {stops[k]} is not within the {room[k]} items of its sequence")
    first = starts + np.repeat(structure.offsets[:-1], at.lengths)
    order = np.argsort(first, kind="stable")
    first, counts, types = first[order], counts[order], types[order]
    last = first + counts - 1
    if (counts < 1).any() or (first[1:] <= last[:-1]).any():
        raise LENGTHS("spans must have items, and must not overlap")
    tables = None if labels is None else _Tags.from_labels(labels)
    known = MAX_INT64 // 2 if tables is None else int(tables.types.max(initial=-1)) + 1
    if types.size and not 0 <= types.min() <= types.max() < known:
        raise INDEX(f"types are numbers from {types.min()} to {types.max()}, but the labels have {known} types")
    outside = [0] if tables is None else np.flatnonzero(tables.types < 0).tolist()
    if counts.sum() < structure.rows and not outside:
        raise CHOICE('labels must have "O", since there are items in no span')

    def find(types: Array, begins: bool, ends: bool) -> Array:
        return 2 * types + 2 - begins if tables is None else tables.find(types, begins, ends)

    tags = np.full(structure.rows, outside[0] if outside else 0)
    within = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    tags[within] = np.repeat(find(types, False, False), counts)
    tags[last], tags[first] = find(types, False, True), find(types, True, False)
    alone = first == last
    tags[first[alone]] = find(types[alone], True, True)
    found: B = in_kind(result)(restore(Ragged._freeze(library_of(rows).from_host(tags, rows), own._structure), own))
    return found


def _numbers(x: Batch, what: str) -> tuple[Array, Structure]:
    """The integers of a batch on the host, and where its sequences begin."""
    own: Encoding = operand(x).own
    if own.item_shape != ():
        raise SHAPE(f"{what} must be single numbers, but have item shape {own.item_shape}")
    return integers(rows_of(own), what), own._structure


def _check(tags: Array, structure: Structure, count: int) -> None:
    """IndexError for a tag that is none of so many."""
    wrong = (tags < 0) | (tags >= count)
    if wrong.any():
        r = int(wrong.argmax())
        i = int(np.searchsorted(structure.offsets, r, side="right")) - 1
        names = f", as labels has {count} names" if count < MAX_INT64 else ""
        raise INDEX(
            f"tags[{i}][{r - structure.offsets[i]}] is {tags[r]}, which is no tag{names}; "
            f"sf.filter(tags, tags != {tags[r]}) leaves such items out"
        )
