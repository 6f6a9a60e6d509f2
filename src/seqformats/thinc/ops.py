"""`SequenceOps`: Thinc's Ops whose work on sequences is done by the kernels of this library, and `use`, which sets it.

Models, layers and configurations of Thinc and spaCy stay as they are: what they ask of their Ops is answered here.
What these methods do not take (arrays that are none, mixed dtypes, batches that Thinc lets pass) goes to `NumpyOps`.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from thinc.api import NumpyOps, Ops, get_current_ops, registry, set_current_ops
from thinc.types import Padded as ThincPadded

from ..arrays import Array, DType
from ..converters.convert import convert
from ..errors import ARGUMENT, INDEX, ROWS, SHAPE, SLOPE, StructureError
from ..formats import Masked, Padded, Ragged
from ..formats.bare import read_list
from ..formats.leaves import ShapeDtype
from ..formats.rows import Source, lay_out, put_rows
from ..formats.structure import Structure
from ..operations.extremes import FIRST, LAST, MAX
from ..operations.reduction import MODE_MEAN, MODE_SUM
from ..operations.softmax import SOFTMAX, softmax_back
from ..operations.spread import placed_at_end, places_of, spread, spread_places, sum_items
from ..operations.windows import WINDOW, windows_added
from .structures import int32, structure_of, structure_within
from .types import from_padded, over_rows, to_padded

CLIP = 20.0
"""How far from zero logits may be before Thinc's softmax over sequences."""


class SequenceOps(NumpyOps):
    """Thinc's `NumpyOps` with these kernels for everything along sequences.

    Notes
    -----
    Results are those of `NumpyOps`, but for these:

    * Equal lengths keep their order in a `Padded`; there the later one comes first.
    * A NaN in a sequence makes its maximum NaN.
    * float16 and integers are taken, and data or lengths that are read-only or not int32.
    * A gradient with another number of rows than there are sequences is an error, where there memory is read that is
      not its own; so is a window that does not divide its columns.
    """

    name = "seqformats"

    # --- lists, rows and rectangles --------------------------------------------------------------------------------

    def flatten(self, X: Sequence[Array], dtype: DType = None, pad: int = 0, ndim_if_empty: int = 2) -> Any:
        """The rows of a list of arrays, `pad` rows of zeros before each that is not empty and at the end."""
        found = read_list(tuple(X)) if isinstance(X, (list, tuple)) and len(X) else None
        if found is None or not found[3].rows:
            return super().flatten(X, dtype=dtype, pad=pad, ndim_if_empty=ndim_if_empty)
        source = Source(*found)
        rows = padded_rows(source, int(pad)) if pad >= 1 else lay_out(source, Ragged).data
        return rows if dtype is None else self.asarray(rows, dtype=dtype)

    def unflatten(self, X: Array, lengths: Array, pad: int = 0) -> Any:
        """The way back, views of `X`; IndexError where it has too few rows."""
        structure = structure_of(lengths)
        if pad > 0:
            structure = structure_of(np.where(structure.lengths > 0, structure.lengths + pad, 0))
        if structure.rows > X.shape[0]:
            raise ROWS.as_error(
                IndexError, f"lengths must sum up to the number of rows, {X.shape[0]}, but sum up to {structure.rows}"
            )
        return pieces(X, structure, pad)

    def pad(self, seqs: Sequence[Array], round_to: int = 1) -> Any:
        """A rectangle, batch-major."""
        if round_to < 1 or not isinstance(seqs, (list, tuple)) or not seqs or type(round_to) is not int:
            return super().pad(seqs, round_to)
        found = read_list(tuple(seqs))
        if found is None:
            return super().pad(seqs, round_to)
        width = -(-found[3].longest // round_to) * round_to
        return lay_out(found, Masked, (width, "right")).data

    def list2padded(self, seqs: Sequence[Array]) -> Any:
        """A rectangle, time-major; a copy always."""
        found = read_list(tuple(seqs)) if isinstance(seqs, (list, tuple)) and len(seqs) else None
        if found is None or len(found[5]) < 1:
            return super().list2padded(seqs)
        return to_padded(lay_out(found, Padded))

    def padded2list(self, padded: ThincPadded) -> Any:
        """The way back, views of one array."""
        try:
            x = from_padded(padded)
        except (StructureError, TypeError):  # what is no batch here, but may be one there
            return super().padded2list(padded)
        rows = convert(x, Ragged)
        return pieces(rows.data, rows._structure)

    # --- one row per sequence -----------------------------------------------------------------------------------------

    def reduce_sum(self, X: Array, lengths: Array) -> Any:
        """The sum of every sequence."""
        return sum_items(batch_within(X, lengths), MODE_SUM)

    def reduce_mean(self, X: Array, lengths: Array) -> Any:
        """The mean of every sequence, zeros for an empty one."""
        return sum_items(batch_within(X, lengths), MODE_MEAN)

    def reduce_max(self, X: Array, lengths: Array) -> Any:
        """The largest item of every sequence, column by column, and where it stands."""
        x = batch_within(X, lengths, positive=True)
        values = MAX.values(x)
        return values, int32(places_of(x, values))

    def reduce_first(self, X: Array, lengths: Array) -> Any:
        """The first item of every sequence, and where sequences begin and end."""
        x = batch_of_all(X, lengths, positive=True)
        return FIRST.values(x), int32(x._structure.offsets) if len(x) else lengths

    def reduce_last(self, X: Array, lengths: Array) -> Any:
        """The last item of every sequence, and where it stands."""
        x = batch_of_all(X, lengths, positive=True)
        return LAST.values(x), x._structure.offsets[1:] - 1 if len(x) else lengths

    def backprop_reduce_sum(self, d_sums: Array, lengths: Array) -> Any:
        """To every item the gradient of its sum."""
        return spread_rows(d_sums, structure_of(lengths), MODE_SUM)

    def backprop_reduce_mean(self, d_means: Array, lengths: Array) -> Any:
        """To every item its part of the gradient of its mean."""
        return spread_rows(d_means, structure_of(lengths), MODE_MEAN)

    def backprop_reduce_max(self, d_maxes: Array, which: Array, lengths: Array) -> Any:
        """To the items that were the largest the gradient of that; IndexError where `which` is in no sequence."""
        structure = structure_within(lengths, 2**63 - 1, positive=True)
        rows, shape = gradient_rows(d_maxes, structure)
        places = np.ascontiguousarray(which, np.int64)
        if places.shape != rows.shape:
            raise SLOPE(f"which has shape {places.shape}, but the gradient has {rows.shape}")
        if places.size and (places.min() < 0 or (places >= column(structure.lengths, places)).any()):
            raise INDEX("which must stand in its sequence, but some of it does not")
        return spread_places(shape, rows, places).data

    def backprop_reduce_first(self, d_firsts: Array, starts_ends: Array) -> Any:
        """To the first items the gradient."""
        if starts_ends.size == 1:
            raise SHAPE.as_error(ValueError, "starts_ends must not have size 1")
        ends = np.asarray(starts_ends, np.int64)
        structure = Structure.of_offsets(ends.copy(), "starts_ends") if ends.size else structure_of(ends)
        return ends_of(d_firsts, structure, 0)

    def backprop_reduce_last(self, d_lasts: Array, lasts: Array) -> Any:
        """To the last items the gradient."""
        return ends_of(d_lasts, structure_of(np.diff(np.asarray(lasts, np.int64), prepend=-1)), 1)

    # --- one item per item --------------------------------------------------------------------------------------------

    def seq2col(self, seq: Array, nW: int, *, lengths: Array | None = None) -> Any:
        """Every item with `nW` neighbours on each side, zeros past the ends of its sequence."""
        check_matrix(seq, "sequence array")
        x = batch_of_all(seq, [len(seq)] if lengths is None else lengths)
        return WINDOW.forward(x, not_negative(nW), nW).data

    def backprop_seq2col(self, dY: Array, nW: int, *, lengths: Array | None = None) -> Any:
        """To every item the gradients of all windows that it is in."""
        check_matrix(dY, "gradient array")
        x = batch_of_all(dY, [len(dY)] if lengths is None else lengths)
        count = 2 * not_negative(nW) + 1
        if dY.shape[1] % count:
            raise SHAPE(f"a window of {count} items must divide the columns, but there are {dY.shape[1]}")
        return windows_added(x, nW, nW, (dY.shape[1] // count,)).data

    def softmax_sequences(self, Xs: Array, lengths: Array, *, inplace: bool = False, axis: int = -1) -> Any:
        """Softmax along every sequence, column by column, of logits from -20 to 20."""
        return SOFTMAX.forward(batch_of_all(np.clip(Xs, -CLIP, CLIP), lengths)).data

    def backprop_softmax_sequences(self, dY: Array, Y: Array, lengths: Array) -> Any:
        """The gradient of logits by the result, straight through the clip."""
        y = batch_of_all(Y, lengths)
        return softmax_slopes(y, dY)


for _name, _method in vars(SequenceOps).items():
    if callable(_method):  # the arguments as Thinc declares them
        _method.__signature__ = inspect.signature(getattr(Ops, _name))
registry.ops("SequenceOps.seqformats")(SequenceOps)


class use:
    """Let the models that are made from here on run on these kernels, or those in a ``with`` block.

    Raises
    ------
    ModuleNotFoundError
        Where Thinc is not installed.

    See Also
    --------
    SequenceOps : What it sets, by ``thinc.api.set_current_ops``; in what it differs.

    Notes
    -----
    A model keeps the Ops that were set when it was made.  Thinc keeps the setting for a context (a thread, an
    asynchronous task).  What chooses the CPU by itself, as ``require_cpu()`` and the commands of spaCy do, sets
    `NumpyOps` again: there ``nlp.before_creation`` of a configuration is the place, see `thinc.spacy`.

    Examples
    --------
    >>> import seqformats as sf
    >>> from thinc.api import Linear, get_current_ops
    >>> with sf.thinc.use():
    ...     model = Linear(2, 3)
    >>> model.ops.name, get_current_ops().name
    ('seqformats', 'numpy')
    """

    def __init__(self) -> None:
        self.before = get_current_ops()
        set_current_ops(SequenceOps())

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_current_ops(self.before)


# --- what the methods and the layers share ---------------------------------------------------------------------------


def batch_within(X: Array, lengths: Array, positive: bool = False) -> Ragged:
    """The first rows of an array as sequences, as Thinc has it: rows past the last sequence are let alone."""
    rows = np.ascontiguousarray(X)
    structure = structure_within(lengths, rows.shape[0], positive)
    return over_rows(rows if rows.shape[0] == structure.rows else rows[: structure.rows], structure)


def batch_of_all(X: Array, lengths: Array | Sequence[int], positive: bool = False) -> Ragged:
    """All rows of an array as sequences; IndexError where the lengths do not sum up to them."""
    rows = np.ascontiguousarray(X)
    structure = structure_within(lengths, rows.shape[0], positive)
    if structure.rows != rows.shape[0] and (structure.n or not positive):
        raise ROWS.as_error(
            IndexError, f"lengths must sum up to the number of rows, {rows.shape[0]}, but sum up to {structure.rows}"
        )
    return over_rows(rows[: structure.rows], structure)


def gradient_rows(dY: Array, structure: Structure) -> tuple[Array, Ragged]:
    """A gradient with one row per sequence, and what says where their items lie; ValueError for another number."""
    rows = np.ascontiguousarray(dY)
    if rows.shape[:1] != (structure.n,):
        raise SLOPE(f"the gradient has shape {rows.shape}, but there are {structure.n} sequences")
    data: Any = ShapeDtype((structure.rows, *rows.shape[1:]), rows.dtype)
    return rows, Ragged._freeze(data, structure)


def spread_rows(dY: Array, structure: Structure, mode: int) -> Any:
    """Every row to all items of its sequence, scaled."""
    return spread(*gradient_rows(dY, structure), mode).data


def ends_of(dY: Array, structure: Structure, last: int) -> Any:
    """Every row to the first (last) item of its sequence."""
    return placed_at_end(*gradient_rows(dY, structure), last).data


def softmax_slopes(y: Ragged, dY: Array) -> Any:
    """The gradient of logits by a softmax `y`."""
    slopes = np.ascontiguousarray(dY, y.dtype)
    if slopes.shape != y.data.shape:
        raise SLOPE(f"the gradient has shape {slopes.shape}, but the softmax has {y.data.shape}")
    return softmax_back[0](y, slopes, y.data).data


def column(numbers: Array, like: Array) -> Array:
    """Numbers of sequences beside rows with more axes."""
    reshaped: Array = numbers.reshape(-1, *[1] * (like.ndim - 1))
    return reshaped


def pieces(rows: Array, structure: Structure, skip: int = 0) -> list[Any]:
    """The rows of each sequence, views, without the first `skip`."""
    ends = structure.offsets.tolist()
    if skip:
        return [rows[start + skip : end] for start, end in itertools.pairwise(ends)]
    return [rows[start:end] for start, end in itertools.pairwise(ends)]


def padded_rows(source: Source, pad: int) -> Any:
    """The rows of sequences, with zeros before each that is not empty and at the end."""
    lengths = source.structure.lengths
    rooms = Structure.of_lengths(np.where(lengths > 0, lengths + pad, 0))
    out = Source(*source).library.zeros((rooms.rows + pad, *source.item), source.sample.dtype, source.sample)
    starts = rooms.offsets[:-1] + pad
    starts.flags.writeable = False
    put_rows(source, out, starts)
    return out


def check_matrix(X: Array, what: str) -> None:
    """ValueError for more or less than two axes."""
    if np.ndim(X) != 2:
        raise SHAPE(f"windows are of a {what} with two axes, not {np.ndim(X)}")


def not_negative(nW: int) -> int:
    """The neighbours on one side; ValueError below zero."""
    if nW < 0:
        raise ARGUMENT(f"a window has 0 neighbours or more on each side, not {nW}")
    return int(nW)
