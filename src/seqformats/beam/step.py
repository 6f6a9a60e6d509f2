"""One step of ragged beam search: the best candidates of every source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Library, adopt, freeze, is_array
from ..arrays.dtypes import HALF, ORDERED, SUMS_IN
from ..converters.layouts import check_at_least
from ..errors import BATCH, DEVICES, DTYPE, KIND, NO_GRADIENT, SHAPE, WHOLE
from ..formats import LoD, level_index, rows_of_level
from ..formats.leaves import wants_grad
from ..formats.structure import Structure, flag, integers, whole
from ..launch.kernel import Work, kernel
from .rows import Prefixes, Selected


@dataclass(frozen=True, eq=False)
class BeamStep:
    """Candidates that `beam_step` has selected.

    Attributes
    ----------
    ids, scores : LoD
        1-d, over ``[source -> prefixes, prefix -> selected]``, grouped by prefix, best first.
    parents : array (selected,) of int64
        The prefix that each goes on, in the library of the scores.
    next_lod : tuple of two arrays
        Offsets ``[source -> prefixes, prefix -> one row]`` of the next step's input.
    """

    ids: LoD
    scores: LoD
    parents: Array
    next_lod: tuple[Array, Array]


def beam_step(
    pre_ids: LoD | Array,
    pre_scores: LoD | Array,
    ids: LoD | Array | None,
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
    pre_ids, pre_scores : array (prefixes,) or (prefixes, 1), or LoD of such
        The last token of each prefix, and its score.
    ids : LoD or array (prefixes, K), or None
        The token of each candidate; None: the column is the token.
    scores : LoD
        The data are floats, ``(prefixes, K)``.
    beam_size : int
        How many candidates a source keeps at most.
    end : int
        The token that ends a hypothesis.
    accumulated : bool
        True if `scores` are those of whole hypotheses.  Otherwise they are probabilities, and
        ``pre_scores + log(scores)`` counts.
    level : int
        The level of `scores` whose sequences are the sources.

    Returns
    -------
    BeamStep
        What is selected of each prefix, and the structure of the next step's input.

    Raises
    ------
    TypeError
        For scores that are no `LoD` of floats.
    StructureError
        For arrays that do not fit each other.
    ConversionError
        For a `beam_size` below 1.
    IndexError
        If the level does not exist.

    See Also
    --------
    beam_backtrace : the hypotheses that the steps hold
    beam_search : the whole search, for any model

    Notes
    -----
    A prefix whose last token is `end` has one candidate: itself.  The order is total: higher score, then earlier
    prefix, then earlier candidate.  NaN and -inf are never selected.  A source of which only ended prefixes are left
    selects nothing, so a hypothesis ends once.  A source may have any number of prefixes, or none.

    How many are selected is copied from a GPU to the host once, since the result's structure depends on it.  There is
    no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> scores = sf.LoD(np.array([[0.6, 0.9], [0.5, 0.3]]), [[0, 2], [0, 1, 2]])
    >>> step = sf.beam_step(np.array([1, 2]), np.array([0.1, 0.2]), None, scores, beam_size=2, end=0)
    >>> step.ids.to_nested(), step.parents
    ([[[1, 0], []]], array([0, 0]))
    """
    if not isinstance(scores, LoD):
        raise BATCH(f"scores must be a LoD, source by source, not {type(scores).__name__}")
    most, last = check_at_least(beam_size, "beam_size", 1), token(end)
    flag(accumulated, "accumulated")
    sources = Structure.of_offsets(rows_of_level(scores, level_index(scores, level)).copy())
    library = scores._look()
    name = library.dtype_name(scores.dtype)
    if not (name in HALF or name in ("float32", "float64")):
        raise DTYPE(f"scores must be floats, not {name}")
    if len(scores.item_shape) != 1:
        raise SHAPE(f"scores must have the axes (prefixes, K), but have shape {tuple(scores.data.shape)}")
    rows, width = tuple(scores.data.shape)
    for part in (scores, pre_scores):
        no_gradient(part)
    floats = "float32" if name in HALF else name
    data = library.astype(scores.data, floats)
    before = _place_like(pre_scores, library, scores, (rows,), "pre_scores")
    if library.dtype_name(before.dtype) not in ORDERED:
        raise DTYPE(f"pre_scores must be real numbers, not {library.dtype_name(before.dtype)}")
    before = library.astype(before, floats)
    tokens = _integers(pre_ids, library, scores, (rows,), "pre_ids")
    given = library.empty((0,), library.dtype("int64"), data)
    if ids is not None:
        given = _integers(ids, library, scores, (rows, width), "ids")
    most = min(most, max(sources.longest * width, 1))  # no source has more candidates
    int64 = library.dtype("int64")
    best, chosen, parents = (library.empty((sources.n * most,), kind, data) for kind in (data.dtype, int64, int64))
    counts = library.zeros((rows,), int64, data)
    if rows and width:
        prefixes, out = Prefixes(data, given, tokens, before), Selected(best, chosen, parents, counts, most)
        args = (sources.offsets, last, int(accumulated))
        work = Work(sources.n, rows, sources.lengths)
        kernel("select_beams").start_named(library, (prefixes,), (out,), args, width, work, sources)
    selected = Structure.of_lengths(np.array(library.to_numpy(counts)))
    per_source = Structure.of_lengths(np.diff(selected.offsets[sources.offsets]))
    index = np.repeat(np.arange(sources.n) * most - per_source.offsets[:-1], per_source.lengths)
    index += np.arange(index.size)
    values, chosen, parents = (library.take(array, index, 0) for array in (best, chosen, parents))
    levels = (sources, selected)
    return BeamStep(
        LoD._from_levels(chosen, levels),
        LoD._from_levels(library.astype(values, name), levels),
        parents,
        (per_source.offsets, freeze(np.arange(index.size + 1))),
    )


def token(end: object) -> int:
    """A token as an int."""
    whole(end, "end")
    return int(integers([end], "end")[0])


def no_gradient(x: object) -> None:
    """Selection is no function that could be differentiated, and nothing detaches silently."""
    if wants_grad(x):
        raise no_gradient_error()


def no_gradient_error() -> TypeError:
    """Make the error for arrays that ask for a gradient."""
    return NO_GRADIENT("beam search has no gradient; give scores.detach(), or call it under torch.no_grad()")


def _place_like(x: object, library: Library, scores: LoD, shape: tuple[int, ...], what: str) -> Array:
    """An array, or the data of a `LoD`, that stands beside the scores."""
    if isinstance(x, LoD):
        x._look()
        x = x.data
    if not is_array(x):
        raise KIND(f"{what} must be an array or a LoD, not {type(x).__name__}")
    other, array = adopt(x, what)
    if other is not library or other.device(array) != scores.device:
        raise DEVICES(f"{what} is an array of {other.name} on {other.device(array)}; scores are on {scores.device}")
    if tuple(array.shape) not in (shape, (*shape, 1)):
        raise SHAPE(f"{what} must have shape {shape}, as scores have {shape[0]} rows, not {tuple(array.shape)}")
    reshaped: Array = array.reshape(shape)
    return reshaped


def _integers(x: object, library: Library, scores: LoD, shape: tuple[int, ...], what: str) -> Array:
    array = _place_like(x, library, scores, shape, what)
    name = library.dtype_name(array.dtype)
    if SUMS_IN.get(name) not in ("int64", "uint64") or name == "bool":
        raise WHOLE(f"{what} must be integers, not {name}")
    return library.astype(array, "int64")
