"""Documents side by side in packs of one size: which come together, and what a model wants beside them."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ..arrays import Array, library_of
from ..converters.convert import convert, rows_of
from ..converters.layouts import check_at_least, one_of
from ..errors import LONG, OVERFLOW, SHAPE, UNLIKE, WHOLE
from ..formats import Ragged
from ..formats.annotations import Given
from ..formats.structure import MAX_INT64, Structure, flag
from ..gradients.operation import operand
from ..launch.kernel import kernel
from .annotations import Batch, Lengths
from .attention import position_ids
from .calculation import name_of
from .costs import falling
from .divide import Task, fit, group, least_bins, pack_fewer
from .inspection import lengths_given

cut_buckets = kernel("cut_buckets")

IGNORE = -100
"""The label of what is not to be predicted, as the losses of PyTorch leave it out."""


def pack_bins(lengths: Lengths, capacity: int, *, fewest: bool = False) -> Ragged:
    """Sequences packed into as few bins of one capacity as best fit decreasing finds: sample packing.

    Parameters
    ----------
    lengths : n integers, or an encoding
    capacity : int
        The most items of a bin.
    fewest : bool
        True to spend more time on fewer bins: the differencing method divides the sequences among fewer bins, as long
        as they fit; it finds such where a few sequences of like length fill a bin.

    Returns
    -------
    Ragged
        The original positions (int64), one sequence per bin, the longest first in each.

    Raises
    ------
    StructureError
        For a sequence over `capacity`.

    See Also
    --------
    pack : Documents in such bins, and what a model wants beside them.
    balance : As many bins as there are ranks, or a multiple.
    inverse_order : The way back.
    buckets : Batches of similar lengths.

    Notes
    -----
    It takes at most 11/9 of the minimum number of bins, plus one [1]_.  A capacity over 4,194,304 is packed by first
    fit, which has the same limit.

    References
    ----------
    .. [1] D. S. Johnson, "Near-optimal bin packing algorithms", MIT, 1973.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.convert(sf.pack_bins([3, 7, 5, 4, 1], capacity=10), list)
    [[1, 0], [2, 3, 4]]
    >>> len(sf.pack_bins([5, 5, 4, 4, 3, 3], 12)), len(sf.pack_bins([5, 5, 4, 4, 3, 3], 12, fewest=True))
    (3, 2)
    """
    limit, harder = check_at_least(capacity, "capacity", 0), flag(fewest, "fewest")
    known = Structure.of_lengths(lengths_given(lengths)).lengths
    if (known > limit).any():
        i = int(known.argmax())
        raise LONG(f"sequence {i} has {known[i]} items, more than capacity={limit}")
    order = falling(known)
    of, count = _bins(known[order], limit, harder)
    counts = np.empty(count, np.int64)
    places = group(of, counts)
    return Ragged._freeze(order[places], Structure.of_lengths(counts))


def _bins(sizes: Array, capacity: int, fewest: bool) -> tuple[Array, int]:
    """The bin of each of some falling sizes, and how many there are."""
    of, count = fit(sizes, capacity)
    if fewest and count > 1:
        task = Task(sizes.astype(np.float64), sizes, capacity, False)
        of, count = pack_fewer(task, of, least_bins(sizes, capacity), count)
    return of, count


class Packs(NamedTuple):
    """Packs of documents, as `pack` has made them: batches that have a sequence a pack, all `Ragged`.

    Attributes
    ----------
    ids : Ragged
        The tokens.
    labels : Ragged
        What is to be predicted, int64: the tokens, or the labels given; -100 for the first token of each document, so
        that no document predicts the next one.
    positions : Ragged
        The place of each token in its document, int64, from 0.
    documents : Ragged
        The number of the document that each token is of, int64.
    cu_seqlens : Ragged
        Where the documents of a pack begin, and where the last one ends, int32.

    Examples
    --------
    >>> import seqformats as sf
    >>> packs = sf.pack([[5, 3, 8], [7], [4, 6]], 4)
    >>> sf.select(packs, [1]).ids.to_nested()
    [[4, 6]]
    """

    ids: Ragged
    labels: Ragged
    positions: Ragged
    documents: Ragged
    cu_seqlens: Ragged


def pack(
    documents: Batch,
    capacity: int,
    *,
    labels: Batch | None = None,
    keep_order: bool = False,
    too_long: Literal["raise", "cut"] = "raise",
) -> Packs:
    """Pack documents side by side, with positions, labels and boundaries as models take them.

    Parameters
    ----------
    documents : an encoding, a list of arrays or nested lists
        Token ids, integers with item shape ().  Of a `LoD` with more levels every innermost sequence is a document.
    capacity : int
        The most tokens of a pack.
    labels : a batch with the lengths of `documents`, optional
        Integers, one per token: what is to be predicted, -100 for what is not.  Without it, the tokens.
    keep_order : bool
        True if documents stay in their order, each in the last pack or a new one.  Else they go where they fit best.
    too_long : "raise" or "cut"
        For a document over `capacity`: an error, or cut it into parts of that size and a rest, each packed by itself.

    Returns
    -------
    Packs
        ``ids``, ``labels``, ``positions``, ``documents`` and ``cu_seqlens``, `Ragged` one sequence per pack, in
        the library and on the device of `documents`.  Documents keep their order in a pack; packs are in the order of
        their first documents.

    Raises
    ------
    StructureError
        For a document over `capacity`, labels of other lengths, and items with a shape.
    TypeError
        For tokens or labels that are not integers.
    ConversionError
        For options that are too small or unknown.

    See Also
    --------
    pack_bins : Which sequences come together, of lengths alone.
    model_inputs : Documents in rectangles, without packing.
    block_mask : A mask for attention that knows no boundaries.

    Notes
    -----
    Labels are not shifted, as models of the transformers library expect it: they compare the output for a token with
    the label of the next one.  Documents without tokens are in no pack.  The result depends on lengths and options
    alone.  Tokens on another device come to the host and go back.

    Examples
    --------
    >>> import seqformats as sf
    >>> packs = sf.pack([[5, 3, 8], [7], [4, 6]], 4)
    >>> packs.ids.to_nested(), packs.labels.to_nested()
    ([[5, 3, 8, 7], [4, 6]], [[-100, 3, 8, -100], [-100, 6]])
    >>> packs.positions.to_nested(), packs.documents.to_nested(), packs.cu_seqlens.to_nested()
    ([[0, 1, 2, 0], [0, 1]], [[0, 0, 0, 1], [2, 2]], [[0, 3, 4], [0, 2]])
    >>> batch = sf.convert(packs, sf.Masked, fill={"ids": 0, "labels": -100})
    >>> batch.ids.data
    array([[5, 3, 8, 7],
           [4, 6, 0, 0]])
    """
    limit, keep = check_at_least(capacity, "capacity", 1), flag(keep_order, "keep_order")
    one_of(too_long, "too_long", ("raise", "cut"))
    if limit >= 2**31:
        raise OVERFLOW(f"cu_seqlens counts by int32, and capacity={limit} is beyond that")
    structure, tokens, like = _integers(documents, "documents")
    known: Array = tokens
    if labels is not None:
        own, known, _ = _integers(labels, "labels")
        if not own.same_lengths(structure):
            raise UNLIKE("labels must have the lengths of documents, one label per token")
    if too_long == "raise" and structure.longest > limit:
        i = int(structure.lengths.argmax())
        over = f"more than capacity={limit}"
        raise LONG(f'document {i} has {structure.longest} items, {over}; too_long="cut" cuts it into parts')
    parts, number = _parts(structure.lengths, limit)
    order, counts = _order(parts, limit, keep)
    whole = Structure.of_lengths(parts)
    ids, wanted = [Ragged._freeze(rows, whole)[order] for rows in (tokens, known.astype(np.int64))]
    inner = ids._structure
    wanted.data[inner.offsets[:-1]] = IGNORE
    packs = Structure.of_lengths(np.diff(inner.offsets[np.concatenate([[0], np.cumsum(counts)])]))
    places = (position_ids(inner.lengths), np.repeat(number[order], inner.lengths))
    ends = np.arange(inner.n + counts.size) - np.repeat(np.arange(counts.size), counts + 1)
    begins = (inner.offsets[ends] - np.repeat(packs.offsets[:-1], counts + 1)).astype(np.int32)
    library = library_of(like)
    made = [ids.data, wanted.data, *places, begins]
    *rows, bounds = made if type(like) is np.ndarray else [library.from_host(array, like) for array in made]
    ids, wanted, positions, numbers = [Ragged._freeze(array, packs) for array in rows]
    return Packs(ids, wanted, positions, numbers, Ragged._freeze(bounds, Structure.of_lengths(counts + 1)))


def _integers(given: Given, what: str) -> tuple[Structure, Array, Array]:
    """The structure, the rows on the host, and the rows as they were given, of a batch of integers."""
    own = operand(given).own
    if own.item_shape:
        raise SHAPE(f"{what} are integers, items of shape (), but they have shape {own.item_shape}")
    rows = rows_of(convert(own, Ragged))
    library, kind = library_of(rows), name_of(own)
    if not kind.startswith(("int", "uint")):
        if not own.rows:
            empty = np.zeros(0, np.int64)
            return own._structure, empty, rows
        raise WHOLE(f"{what} are integers, but the items have dtype {kind}")
    host = library.to_numpy(rows)
    if kind == "uint64" and host.size and int(host.max()) > MAX_INT64:
        raise OVERFLOW(f"{what} must fit int64, but one of them does not")
    return own._structure, host, rows


def _parts(lengths: Array, limit: int) -> tuple[Array, Array]:
    """The lengths of parts of at most `limit` items, none empty, and of which document each is."""
    counts = -(-lengths // limit)
    number = np.repeat(np.arange(lengths.size), counts)
    parts = np.full(number.size, limit, np.int64)
    ends = np.cumsum(counts)[lengths > 0] - 1
    parts[ends] = (lengths[lengths > 0] - 1) % limit + 1
    return parts, number


def _order(parts: Array, limit: int, keep: bool) -> tuple[Array, Array]:
    """The parts pack by pack, and how many each pack has."""
    n = parts.size
    if keep:
        counts = np.empty(n, np.int64)
        found = cut_buckets.run(parts, np.empty(0), limit, 0, 1, n, np.inf, counts)
        return np.arange(n), counts[:found].copy()
    order = falling(parts)
    packed, count = _bins(parts[order], limit, True)
    of = np.empty(n, np.int64)
    of[order] = packed
    first = np.full(count, n)
    np.minimum.at(first, of, np.arange(n))
    place = np.empty(count, np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(count)
    counts = np.empty(count, np.int64)
    return group(place[of], counts), counts
