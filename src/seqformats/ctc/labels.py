"""Labels of sequences of frames, one each or several, as users give them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Array, freeze
from ..beam.tokens import is_token, one_by_one
from ..converters.convert import convert
from ..errors import BEYOND, COUNTS, KIND, LEVELS
from ..formats import Encoding, LoD, Ragged
from ..formats.annotations import Given
from ..formats.bare import is_column
from ..formats.structure import integers
from ..gradients.operation import operand


class Labels(NamedTuple):
    """Labels that were looked at, on the host."""

    tokens: Array  # int64, of all one after the other
    cum: Array  # (labels + 1,) where those of each begin
    first: Array  # (n + 1,) the first label of each sequence


def labels_of(given: object, n: int, levels: int) -> Labels:
    """The labels of n sequences, which are in so many `levels`; see `ctc_loss` for the errors.

    Whether their tokens can be in a label is not looked at.
    """
    if isinstance(given, (list, tuple)) and not is_column(given):
        found, counts = _in_lists(given, levels)
    else:
        found, counts = _in_batch(given, levels)
    sequences = found.cum.size - 1 if counts is None else counts.size
    if sequences != n:
        raise COUNTS(f"there are labels for {sequences} sequences, but {n} sequences of frames")
    if counts is not None:
        found = found._replace(first=freeze(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)))
    return found


def no_token(labels: Labels, place: int, width: int, blank: int) -> Exception:
    """Say that the token at a place is in no label."""
    label = int(np.searchsorted(labels.cum, place, "right")) - 1
    token = int(labels.tokens[place])
    why = "which is the blank and in no label" if token == blank else f"but there are the tokens 0 to {width - 1}"
    return BEYOND(f"token {place - int(labels.cum[label])} of label {label} is {token}, {why}")


def _in_lists(given: Given, levels: int) -> tuple[Labels, Array | None]:
    """Labels in lists, and how many each sequence has; None where it is one."""
    above, parts, counts = 1, list(given), None
    while any(isinstance(part, (list, tuple)) and not all(map(is_token, part)) for part in parts):
        above += 1
        if above > levels + 1:
            raise LEVELS(
                f"labels are in {above} lists or more, one in the other, but the frames of each in {levels}, and "
                "labels are in as many or, if a sequence has several, in one more"
            )
        if not all(isinstance(part, (list, tuple)) for part in parts):
            raise KIND("labels are in lists of the same depth, but a token or an array is beside a list of labels")
        counts = np.array([len(part) for part in parts], np.int64)
        parts = [label for part in parts for label in part]
    each = [integers(label, "labels") for label in parts]
    cum = np.cumsum([0, *(label.size for label in each)], dtype=np.int64)
    tokens = np.concatenate([np.empty(0, np.int64), *each])
    several = counts if above == levels + 1 else None
    return Labels(tokens, freeze(cum), freeze(np.arange(len(each) + 1))), several


def _in_batch(given: Given, levels: int) -> tuple[Labels, Array | None]:
    """Read labels in an encoding, a column or an array of two axes, as `_in_lists` does those in lists."""
    if not isinstance(given, Encoding) and len(getattr(given, "shape", ())):
        return _in_lists(list(one_by_one(given)), levels)
    own = operand(given).own
    outer = own._levels
    if len(outer) > levels + 1:
        raise LEVELS(
            f"labels have {len(outer)} levels, but frames {levels}, and labels have as many or, if a sequence has "
            "several, one more"
        )
    several = np.diff(outer[-2].offsets) if len(outer) == levels + 1 else None
    if own.keeps_levels:
        lod = convert(own, LoD)
        own = Ragged._freeze(lod.data, outer[-1])
    flat = convert(own, Ragged)
    data = flat.data
    if len(data.shape) == 2 and data.shape[1] == 1:
        data = data.reshape(-1)
    structure = flat._structure
    return Labels(integers(data, "labels"), structure.offsets, freeze(np.arange(structure.n + 1))), several
