"""The way back through the steps of a beam search, from the last tokens to the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, is_among, library_of
from ..arrays.dtypes import HALF
from ..converters.layouts import check_at_least
from ..errors import BATCH, COUNTS, EMPTY, SHAPE, quote
from ..formats import LoD
from ..formats.structure import Structure
from ..operations.join import check_alike
from ..operations.steps import TensorArray
from .step import no_gradient, token


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Hypotheses that `beam_backtrace` has found, best first.

    Attributes
    ----------
    ids : LoD
        The tokens, over ``[source -> hypotheses, hypothesis -> tokens]``.
    scores : LoD
        The score of the hypothesis up to each token.
    """

    ids: LoD
    scores: LoD


def beam_backtrace(
    ids: TensorArray | Sequence[LoD], scores: TensorArray | Sequence[LoD], *, beam_size: int, end: int
) -> Hypotheses:
    """The hypotheses that the steps of a beam search hold (Paddle's beam_search_decode).

    Parameters
    ----------
    ids, scores : TensorArray or sequence of LoD
        The results of the steps: 1-d `LoD` over ``[source -> prefixes, prefix -> selected]``, where the prefixes of a
        step are the rows of the step before; the first holds the start tokens.
    beam_size : int
        How many a source has kept at most, as given to `beam_step`; the steps themselves say how many there are.
    end : int
        The token that ends a hypothesis; of several at the end one stays.

    Returns
    -------
    Hypotheses
        Tokens and scores, best first.

    Raises
    ------
    TypeError
        For steps that are no `LoD`.
    StructureError
        For steps that do not follow each other.

    See Also
    --------
    beam_step : one step

    Notes
    -----
    Hypotheses of a source are those of the last step in which it has any: any number, or none.  They are sorted by
    their last score, equal ones in the order of their rows.  Start tokens stay.

    Data on a GPU is copied to the host, and the result back.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> lods = [[[0, 1], [0, 1]], [[0, 1], [0, 2]]]
    >>> ids = [sf.LoD(np.array(data), lod) for data, lod in zip(([7], [3, 4]), lods)]
    >>> scores = [sf.LoD(np.array(data), lod) for data, lod in zip(([0.0], [0.1, 0.4]), lods)]
    >>> sf.beam_backtrace(ids, scores, beam_size=2, end=0).ids.to_nested()
    [[[7, 4], [7, 3]]]
    """
    check_at_least(beam_size, "beam_size", 1)
    last = token(end)
    steps, values = _steps(ids, "ids"), _steps(scores, "scores")
    check_alike(steps, "ids of step")
    check_alike(values, "scores of step")
    for part in (*steps, *values):
        no_gradient(part.data)
    if len(steps) != len(values):
        raise COUNTS(f"there are {len(steps)} steps of ids, but {len(values)} of scores")
    for t, (step, value) in enumerate(zip(steps, values, strict=True)):
        if value.rows != step.rows:
            raise COUNTS(f"scores[{t}] has {value.rows} rows, but ids[{t}] has {step.rows}")
    library, like = library_of(steps[0].data), steps[0].data
    score_library, score_like = library_of(values[0].data), values[0].data
    tokens = [library.to_numpy(step.data) for step in steps]
    name = score_library.dtype_name(score_like.dtype)
    exact = "float32" if name in HALF else name  # NumPy cannot hold torch's bfloat16
    numbers = [score_library.to_numpy(score_library.astype(value.data, exact)) for value in values]
    of, rows, ends = _hypotheses(steps)
    n = len(steps[0])
    finals = np.array([numbers[t][r] for t, r in ends.tolist()], np.float64)
    order = np.lexsort((-finals, of))  # stable: equal scores stay in the order of rows
    kept = []
    for t, row in enumerate(rows):
        alive = row >= 0
        keep = alive.copy()
        if t:  # an end that is not the last token of its hypothesis has been said again
            keep[alive] = (tokens[t][row[alive]] != last) | (ends[alive, 0] == t)
        kept.append(keep[order])
    lengths: Array = np.asarray(kept).sum(0, np.int64) if kept else np.zeros(0, np.int64)
    inner = Structure.of_lengths(lengths)
    outer = Structure.of_lengths(np.bincount(of, minlength=n).astype(np.int64))
    out_ids, out_scores = np.empty(inner.rows, tokens[0].dtype), np.empty(inner.rows, numbers[0].dtype)
    place = inner.offsets[:-1].copy()
    for t, keep in enumerate(kept):
        row = rows[t][order][keep]
        out_ids[place[keep]] = tokens[t][row]
        out_scores[place[keep]] = numbers[t][row]
        place[keep] += 1
    return Hypotheses(
        LoD._from_levels(library.from_host(out_ids, like), (outer, inner)),
        LoD._from_levels(score_library.astype(score_library.from_host(out_scores, score_like), name), (outer, inner)),
    )


def _steps(given: object, what: str) -> tuple[LoD, ...]:
    steps = given.steps if isinstance(given, TensorArray) else given
    if not isinstance(steps, Sequence) or not all(isinstance(step, LoD) for step in steps):
        raise BATCH(f"{what} must be LoDs, one per step")
    if not steps:
        raise EMPTY(f"{what} has no step; the first holds the start tokens")
    for t, step in enumerate(steps):
        step._look()
        if len(step.lod) != 2 or step.item_shape not in ((), (1,)):
            raise SHAPE(f"{what}[{t}] must hold one number per row and have 2 levels, but it is {quote(step)}")
        if len(step) != len(steps[0]):
            raise COUNTS(f"{what}[{t}] has {len(step)} sources, but {what}[0] has {len(steps[0])}")
        if t and step._structure.n != steps[t - 1].rows:
            raise COUNTS(
                f"{what}[{t}] has {step._structure.n} prefixes, but {what}[{t - 1}] has {steps[t - 1].rows} rows"
            )
    return tuple(
        [LoD._from_levels(step.data.reshape(step.rows), step._levels) if step.item_shape else step for step in steps]
    )


def _hypotheses(steps: Sequence[LoD]) -> tuple[Array, list[Array], Array]:
    """Find the source of each hypothesis, its row in each step (-1 for none), and the step and row where it ends."""
    of = np.empty(0, np.int64)
    at = np.empty(0, np.int64)
    rows: list[Array] = []
    ends = np.empty((0, 2), np.int64)
    for t in range(len(steps) - 1, -1, -1):
        step = steps[t]
        source = np.repeat(np.arange(len(step)), np.diff(step.absolute()[0]))
        new = np.flatnonzero(~is_among(source, of))
        rows = [np.concatenate([row, np.full(new.size, -1)]) for row in rows]
        of, at = np.concatenate([of, source[new]]), np.concatenate([at, new])
        ends = np.concatenate([ends, np.stack([np.full(new.size, t), new], 1)])
        rows.insert(0, at)
        at = np.repeat(np.arange(step._structure.n), step._structure.lengths)[at]
    return of, rows, ends
