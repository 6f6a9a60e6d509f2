"""The frames of a model as kernels take them, and what kernels give back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, Library, library_of
from ..converters.convert import rows_of
from ..errors import BEYOND, DTYPE, LOGS, NAN, SHAPE, quote
from ..formats import Encoding, LoD, Ragged
from ..formats.structure import Structure, flag, whole
from ..gradients.operation import operand
from ..memory_checks import allocate
from ..operations.annotations import Batch
from ..operations.calculation import in_one_array, name_of
from ..operations.runs import Runs

_KINDS = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "float64": "float64"}
"""In which dtype kernels take frames of these."""


class Frames(NamedTuple):
    """Frames that were looked at: sequences of them, of `width` log-probabilities each."""

    at: Encoding  # in one array
    data: Array  # its items in the dtype of the kernels, outside of any graph
    library: Library
    on: Library  # in whose arrays kernels write: NumPy's on the host
    name: str  # of the dtype in which kernels calculate
    width: int  # how many tokens there are, the blank among them
    blank: int
    levels: tuple[Structure, ...]  # of what was given

    @property
    def structure(self) -> Structure:
        """The sequences."""
        return self.at._structure

    def empty(self, size: int, name: str) -> Array:
        """Room for so many numbers of the dtype of this name, where kernels write."""
        return allocate(self.on.empty, (size,), self.on.dtype(name), self.data)

    def host(self, x: Array) -> Array:
        """Copy results of kernels to the host."""
        return x if self.on is NUMPY else self.on.to_numpy(x)

    def to_caller(self, x: Array) -> Array:
        """Return results of kernels as an array of the caller's library."""
        return x if self.on is self.library else self.library.import_array(x, NUMPY)

    def put(self, x: Array) -> Array:
        """An array of the host as one of the caller's library, on the device of the frames."""
        if self.library is NUMPY:
            return x
        return self.library.import_array(x, NUMPY) if self.on is NUMPY else self.library.from_host(x, self.data)

    def parts(self, x: Array, room: Structure, kept: Structure) -> Array:
        """Take the parts that are kept, one after the other, of rows with some room for each sequence."""
        found: Array = Runs(kept, kept, room.offsets[:-1]).take(Ragged._freeze(x, room)).data
        return found

    def wrap_levels(self, x: Array, inner: Structure) -> Encoding:
        """Items of all sequences, over the levels of what was given."""
        if len(self.levels) > 1:
            return LoD._from_levels(x, (*self.levels[:-1], inner))
        return Ragged._freeze(x, inner)

    def logits(self, normalised: object) -> int:
        """Tell kernels whether frames are to be normalised; see `best_known`."""
        return {"float16": -1, "bfloat16": -2}.get(name_of(self.at), 0) if flag(normalised, "normalised") else 1

    def check(self, counts: Array) -> None:
        """ValueError where the count of a sequence says that a frame, t if it is -1 - t, has no log-probabilities."""
        if counts.size and counts.min() < 0:
            source = int((counts < 0).argmax())
            t = -1 - int(counts[source])
            where = f"frame {t} of source {source} holds"
            row = rows_of(self.at._with_data(self.data))[self.structure.offsets[source] + t]
            largest = float(self.library.to_numpy(row).max())
            if largest < np.inf:
                raise LOGS(
                    f"{where} {largest:.4g}, but no log-probability is above 0; give normalised=False for logits, and "
                    "the logarithms of probabilities"
                )
            raise NAN(f"{where} NaN or +inf")


def frames_of(log_probs: Batch, blank: object) -> Frames:
    """The frames of a batch, looked at; see `ctc_greedy` for the errors."""
    own = operand(log_probs).own
    item, name = own.item_shape, name_of(own)
    if len(item) != 1 or item[0] < 2:
        raise SHAPE(
            f"log_probs must have items of one axis, one for each of two tokens or more, but they have shape {item}"
        )
    if name not in _KINDS:
        raise DTYPE(f"log_probs must be floats, but have dtype {name}")
    width = int(item[0])
    number = whole(blank, "blank")
    if not 0 <= number < width:
        raise BEYOND(f"blank is {quote(blank)}, but there are the tokens 0 to {width - 1}")
    at = in_one_array(own)
    library = library_of(at.data)
    kind = _KINDS[name]
    data = library.astype(library.alias(at.data), kind)
    on = NUMPY if library.kind(data) == "cpu" else library
    return Frames(at, data, library, on, kind, width, number, own._levels)
