"""The items of every sequence in a random order."""

from __future__ import annotations

import math

from ..arrays import Array, library_of
from ..formats import Encoding
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Operation
from ..launch.kernel import kernel
from .annotations import B
from .calculation import scratch
from .options import check_places, key_of
from .pick import pick, pick_call

shuffle_items = kernel("shuffle_items")


def _places(x: Encoding, seed: int) -> Array:
    """Which item comes where, in each sequence; see `pick`."""
    structure, key, sample = x._structure, key_of(seed), x._sample()
    check_places(structure)
    library = library_of(sample)
    rows = structure.rows if math.prod(x.item_shape) * sample.dtype.itemsize else 0  # without bytes nothing moves
    places = scratch(library, (rows,), "int64", sample)
    if rows:
        shuffle_items.start(library, (), (places,), (structure.offsets, key), 1, structure)
    return places


def _shuffle(x: Encoding, seed: int) -> Encoding:
    y: Encoding = pick(x, _places(x, seed), x._structure)
    return y


SHUFFLE = Operation(_shuffle, lambda x, seed: pick_call(x, _places(x, seed), x._structure)(x, True), by_column=True)


@by_level(keeps=True)
@SHUFFLE.register
def shuffle(x: B, seed: int, *, level: int = INNERMOST) -> B:
    """The items of every sequence in a random order, all orders as likely.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    seed : int
        From 0 to 2^63 - 1.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`

    Raises
    ------
    ConversionError
        For a seed that cannot be.

    See Also
    --------
    reorder : The sequences in another order, one that is given.
    reverse : The items from the end to the beginning.

    Notes
    -----
    The order of a sequence depends on the seed, the number of the sequence and its length alone, and is the same in
    every encoding, array library and device, and in any number of threads; so batches of the same lengths, ids and
    their labels say, keep together by the same seed.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.shuffle([[1, 2, 3, 4, 5], [6, 7]], seed=1)
    [[2, 5, 3, 1, 4], [7, 6]]
    """
    if level is not INNERMOST:
        return at_level(shuffle, level, x, seed)
    return SHUFFLE.run(x, seed)
