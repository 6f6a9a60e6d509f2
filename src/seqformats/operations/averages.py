"""Moving averages as a kernel takes them: weights by how many items have counted so far."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ..arrays import Array, freeze, library_of
from ..formats import Encoding
from ..launch.kernel import kernel
from . import scan
from .calculation import in_one_array, rows_like
from .companions import NO_MARKS, Kinds, settled_like
from .softmax import cumsum

average_rows = kernel("average_rows")

NO_RANKS = freeze(np.zeros(0, np.int64))


class Averages(NamedTuple):
    """Moving averages whose arguments are checked: all that is the same forwards and backwards."""

    shape: Encoding  # of the items, without data
    at: Encoding  # the same in one array
    kinds: Kinds
    marks: Array
    decay: float
    adjust: bool

    def average(self, x: Encoding, back: bool = False) -> Encoding:
        """Return the averages of items laid out as `shape`; with `back` the gradient of the items by that of these."""
        data = in_one_array(x).data
        library, structure, item = library_of(data), self.at._structure, self.shape.item_shape
        data = library.astype(data, self.kinds.kernel)
        out = rows_like(library, self.at, item, data.dtype, data)
        width = math.prod(item)
        weights = _weights(self.decay, self.adjust, back, _room(structure.longest))
        given = (data, self.marks, self.ranks(), weights)
        average_rows.start(library, given, (out,), (self.at._layout(), int(back), scan.ROWS_PER_SCAN), width, structure)
        return self.shape._with_data(settled_like(library, out, self.kinds.result))

    def ranks(self) -> Array:
        """Return how many items have counted up to and with each, where not all do."""
        if self.marks is NO_MARKS:
            return NO_RANKS
        counts = in_one_array(cumsum(self.at._with_data(self.marks))).data
        return library_of(counts).astype(counts, "int64")


def _room(longest: int) -> int:
    """A number of weights that is enough, and the same for batches that are about as long."""
    return int(1 << max(longest, 1).bit_length())


@functools.lru_cache(maxsize=4)  # a table may be long
def _weights(decay: float, adjust: bool, back: bool, longest: int) -> Array:
    """The decay, the weights of items and those of their averages, by rank, as the kernel takes them."""
    if not adjust:  # the first is where the average begins
        items, averages = np.array([0.0, 1.0, 1 - decay]), np.ones(3)
    else:  # by the sums of a geometric series, which is at its limit as soon as a power is nothing beside 1
        ranks = np.arange(1.0, longest + 1)
        if 0 < decay < 1:
            ranks = ranks[: math.ceil(-40 / math.log(decay))]
            sums = -np.expm1(ranks * math.log(decay)) / (1 - decay)
        else:
            sums = ranks if decay else np.ones(1)
        items, averages = np.ones(sums.size + 1), np.concatenate([[0.0], 1 / sums])
    return freeze(np.concatenate([[decay], averages, items] if back else [[decay], items, averages]))
