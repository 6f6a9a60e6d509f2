"""Beam search over ragged beams: the step, and the way back from its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _flow, _launch
from ._rows import HALF, SUMS_IN
from .arrays import Array, Library, adopt, is_array, library_of
from .convert import at_least, source_of
from .errors import DeviceError, StructureError
from .formats import LoD, build_lod, level_index, rows_of_level
from .sequence import check_alike
from .steps import TensorArray
from .structure import Structure, frozen, integers, whole


@dataclass(frozen=True, eq=False)
class BeamStep:
    """What `beam_step` has selected.

    ids, scores : 1-d `LoD` over ``[source -> prefixes, prefix -> selected]``, grouped by prefix, best first
    parents : ``(selected,)`` int64, the prefix that each goes on, in the library of the scores
    next_lod : offsets ``[source -> prefixes, prefix -> one row]`` of the next step's input
    """

    ids: LoD
    scores: LoD
    parents: Array
    next_lod: tuple[Array, Array]


def beam_step(
    pre_ids: Any,
    pre_scores: Any,
    ids: Any,
    scores: LoD,
    *,
    beam_size: int,
    end: int,
    accumulated: bool = True,
    level: int = 0,
) -> BeamStep:
    """The best candidates of each source, over all its prefixes (Paddle's beam_search operator).

    Parameters
    ----------
    pre_ids, pre_scores : arrays ``(prefixes,)`` or ``(prefixes, 1)``, or `LoD` of such: the last token of each prefix,
        and its score
    ids : `LoD` or array ``(prefixes, K)``, the token of each candidate; None: the column is the token
    scores : `LoD` of data ``(prefixes, K)``, floats
    beam_size : how many candidates a source keeps at most
    end : the token that ends a hypothesis
    accumulated : are `scores` those of whole hypotheses?  Otherwise they are probabilities, and ``pre_scores +
        log(scores)`` counts
    level : the level of `scores` whose sequences are the sources

    A prefix whose last token is `end` has one candidate: itself.  The order is total: higher score, then earlier
    prefix, then earlier candidate.  NaN and -inf are never selected.  A source of which only ended prefixes are left
    selects nothing, so a hypothesis ends once.  A source may have any number of prefixes, or none.

    How many are selected is copied from a GPU to the host once, since the result's structure depends on it.  There is
    no gradient.

    Errors: TypeError for scores that are no `LoD` of floats, StructureError for arrays that do not fit each other,
    ConversionError for a `beam_size` below 1, IndexError for a level that does not exist.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> scores = sf.LoD(np.array([[0.6, 0.9], [0.5, 0.3]]), [[0, 2], [0, 1, 2]])
    >>> step = sf.beam_step(np.array([1, 2]), np.array([0.1, 0.2]), None, scores, beam_size=2, end=0)
    >>> step.ids.to_nested(), step.parents
    ([[[1, 0], []]], array([0, 0]))
    """
    if not isinstance(scores, LoD):
        raise TypeError(f"scores must be a LoD, source by source, not {type(scores).__name__}")
    most, last = at_least(beam_size, "beam_size", 1), _token(end)
    if not isinstance(accumulated, (bool, np.bool_)):
        raise TypeError(f"accumulated must be True or False, not {accumulated!r}")
    sources = Structure.of_offsets(rows_of_level(scores, level_index(scores, level)).copy())
    library = source_of(scores).library
    name = library.dtype_name(scores.dtype)
    if not (name in HALF or name in ("float32", "float64")):
        raise TypeError(f"scores must be floats, not {name}")
    if len(scores.item_shape) != 1:
        raise StructureError(f"scores must have the axes (prefixes, K), but have shape {tuple(scores.data.shape)}")
    rows, width = tuple(scores.data.shape)
    for part in (scores, pre_scores):
        _no_gradient(part)
    floats = "float32" if name in HALF else name
    data = library.astype(scores.data, floats)
    before = _beside(pre_scores, library, scores, (rows,), "pre_scores")
    if library.dtype_name(before.dtype).startswith("complex"):
        raise TypeError(f"pre_scores must be real numbers, not {library.dtype_name(before.dtype)}")
    before = library.astype(before, floats)
    tokens = _integers(pre_ids, library, scores, (rows,), "pre_ids")
    given = library.empty((0,), library.dtype("int64"), data)
    if ids is not None:
        given = _integers(ids, library, scores, (rows, width), "ids")
    most = min(most, max(sources.longest * width, 1))  # no source has more candidates
    int64 = library.dtype("int64")
    found = [library.empty((sources.n * most,), dtype, data) for dtype in (data.dtype, int64, int64)]
    counts = library.zeros((rows,), int64, data)
    if rows and width:
        work = _launch.Work(sources.n, rows, width * library.itemsize(data.dtype), sources.lengths)
        numbers = (width, most, last, int(accumulated))
        inputs, outputs = (data, given, tokens, before), (*found, counts)
        _launch.arithmetic("select_beams", library, inputs, outputs, (sources.offsets,), numbers, work, sources)
    selected = Structure.of_lengths(np.array(library.to_numpy(counts)))
    per_source = Structure.of_lengths(np.diff(selected.offsets[sources.offsets]))
    index = np.repeat(np.arange(sources.n) * most - per_source.offsets[:-1], per_source.lengths)
    index += np.arange(index.size)
    values, chosen, parents = (library.take(array, index, 0) for array in found)
    levels = (sources, selected)
    return BeamStep(
        build_lod(chosen, levels),
        build_lod(library.astype(values, name), levels),
        parents,
        (per_source.offsets, frozen(np.arange(index.size + 1))),
    )


def _token(end: Any) -> int:
    whole(end, "end")
    return int(integers([end], "end")[0])


def _no_gradient(x: Any) -> None:
    """Selection is no function that could be differentiated, and nothing detaches silently."""
    if _flow.wants_grad(x):
        raise TypeError("beam search has no gradient; give scores.detach(), or call it under torch.no_grad()")


def _beside(x: Any, library: Library, scores: LoD, shape: tuple[int, ...], what: str) -> Array:
    """An array, or the data of a `LoD`, that stands beside the scores."""
    if isinstance(x, LoD):
        source_of(x)
        x = x.data
    if not is_array(x):
        raise TypeError(f"{what} must be an array or a LoD, not {type(x).__name__}")
    other, array = adopt(x, what)
    if other is not library or other.device(array) != scores.device:
        raise DeviceError(f"{what} is an array of {other.name} on {other.device(array)}; scores are on {scores.device}")
    if tuple(array.shape) not in (shape, (*shape, 1)):
        raise StructureError(
            f"{what} must have shape {shape}, as scores have {shape[0]} rows, not {tuple(array.shape)}"
        )
    return array.reshape(shape)


def _integers(x: Any, library: Library, scores: LoD, shape: tuple[int, ...], what: str) -> Array:
    array = _beside(x, library, scores, shape, what)
    name = library.dtype_name(array.dtype)
    if SUMS_IN.get(name) not in ("int64", "uint64") or name == "bool":
        raise TypeError(f"{what} must be integers, not {name}")
    return library.astype(array, "int64")


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """What `beam_backtrace` has found: `LoD` over ``[source -> hypotheses, hypothesis -> tokens]``, best first.

    ids : the tokens
    scores : the score of the hypothesis up to each token
    """

    ids: LoD
    scores: LoD


def beam_backtrace(ids: Any, scores: Any, *, beam_size: int, end: int) -> Hypotheses:
    """The hypotheses that the steps of a beam search hold (Paddle's beam_search_decode).

    Parameters
    ----------
    ids, scores : the results of the steps: sequences of 1-d `LoD`, or a `TensorArray`, over
        ``[source -> prefixes, prefix -> selected]``, where the prefixes of a step are the rows of the step before; the
        first holds the start tokens
    beam_size : how many a source has kept at most, as given to `beam_step`; the steps themselves say how many there are
    end : the token that ends a hypothesis; of several at the end one stays

    Hypotheses of a source are those of the last step in which it has any: any number, or none.  They are sorted by
    their last score, equal ones in the order of their rows.  Start tokens stay.

    Data on a GPU is copied to the host, and the result back.

    Errors: TypeError for steps that are no `LoD`, StructureError for steps that do not follow each other.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> lods = [[[0, 1], [0, 1]], [[0, 1], [0, 2]]]
    >>> ids = [sf.LoD(np.array(data), lod) for data, lod in zip(([7], [3, 4]), lods)]
    >>> scores = [sf.LoD(np.array(data), lod) for data, lod in zip(([0.0], [0.1, 0.4]), lods)]
    >>> sf.beam_backtrace(ids, scores, beam_size=2, end=0).ids.to_nested()
    [[[7, 4], [7, 3]]]
    """
    at_least(beam_size, "beam_size", 1)
    last = _token(end)
    steps, values = _steps(ids, "ids"), _steps(scores, "scores")
    check_alike(steps, "ids of step")
    check_alike(values, "scores of step")
    for part in (*steps, *values):
        _no_gradient(part.data)
    if len(steps) != len(values):
        raise StructureError(f"there are {len(steps)} steps of ids, but {len(values)} of scores")
    for t, (step, value) in enumerate(zip(steps, values, strict=True)):
        if value.rows != step.rows:
            raise StructureError(f"scores[{t}] has {value.rows} rows, but ids[{t}] has {step.rows}")
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
    lengths = np.sum(kept, axis=0, dtype=np.int64) if kept else np.zeros(0, np.int64)
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
        build_lod(library.from_host(out_ids, like), (outer, inner)),
        build_lod(score_library.astype(score_library.from_host(out_scores, score_like), name), (outer, inner)),
    )


def _steps(given: Any, what: str) -> tuple[LoD, ...]:
    steps = given.steps if isinstance(given, TensorArray) else given
    if not isinstance(steps, Sequence) or not all(isinstance(step, LoD) for step in steps):
        raise TypeError(f"{what} must be LoDs, one a step")
    if not steps:
        raise StructureError(f"{what} has no step; the first holds the start tokens")
    for t, step in enumerate(steps):
        source_of(step)
        if len(step.lod) != 2 or step.item_shape not in ((), (1,)):
            raise StructureError(f"{what}[{t}] must hold one number a row and have 2 levels, but it is {step!r}")
        if len(step) != len(steps[0]):
            raise StructureError(f"{what}[{t}] has {len(step)} sources, but {what}[0] has {len(steps[0])}")
        if t and step._structure.n != steps[t - 1].rows:
            raise StructureError(
                f"{what}[{t}] has {step._structure.n} prefixes, but {what}[{t - 1}] has {steps[t - 1].rows} rows"
            )
    return tuple([build_lod(step.data.reshape(step.rows), step._levels) if step.item_shape else step for step in steps])


def _hypotheses(steps: Sequence[LoD]) -> tuple[Array, list[Array], Array]:
    """Of which source each hypothesis is, its row in each step (-1 for none), and the step and row where it ends."""
    of = np.empty(0, np.int64)
    at = np.empty(0, np.int64)
    rows: list[Array] = []
    ends = np.empty((0, 2), np.int64)
    for t in range(len(steps) - 1, -1, -1):
        step = steps[t]
        source = np.repeat(np.arange(len(step)), np.diff(step.absolute()[0]))
        new = np.flatnonzero(~np.isin(source, of))
        rows = [np.concatenate([row, np.full(new.size, -1)]) for row in rows]
        of, at = np.concatenate([of, source[new]]), np.concatenate([at, new])
        ends = np.concatenate([ends, np.stack([np.full(new.size, t), new], 1)])
        rows.insert(0, at)
        at = np.repeat(np.arange(step._structure.n), step._structure.lengths)[at]
    return of, rows, ends
