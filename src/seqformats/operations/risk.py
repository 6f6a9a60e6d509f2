"""Hypotheses ranked by what they are worth beside the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array, freeze, is_array, to_host
from ..converters.convert import convert
from ..errors import DTYPE, KIND, LEVELS, NAN, SHAPE, quote
from ..formats import Ragged
from ..formats.annotations import Given
from ..gradients.operation import operand
from .annotations import T
from .distance import levenshtein
from .select import select

Utility = Callable[[Ragged, Ragged], Array]
"""How good hypotheses are if the truth is these references: two batches of as many sequences, and a number of each."""


def minimum_bayes_risk(x: T, scores: Given = None, *, utility: Utility | None = None) -> tuple[T, Array, Array]:
    """The hypotheses of every source, by falling expected utility: those that are nearest to all others come first.

    Parameters
    ----------
    x : LoD or nested lists
        The tokens of the hypotheses, over ``[source -> hypotheses, hypothesis -> tokens]``, such as ``tokens`` of a
        `BeamResult`; further levels may be outside of these.
    scores : array or sequence of float, optional
        The log-probability of each hypothesis, ``(hypotheses,)``, up to a constant of its source.  Without them all of
        a source are as likely, as draws with replacement are.
    utility : callable, optional
        ``utility(hypotheses, references) -> (pairs,)``: how good each hypothesis is if the truth is the reference at
        its place, for all pairs of all sources at once, each a `Ragged` of tokens where those of `x` are.  By default
        the negative `levenshtein` distance.

    Returns
    -------
    y : what `x` is
        The hypotheses in their new order; of the same utility in the order they had.
    order : array
        The former position of each among all of `x`, int64 on the host, read-only.
    expected : array
        The expected utility of each hypothesis of `y`, float64 on the host.

    Raises
    ------
    StructureError
        For sequences that are in no lists, and another number of scores or utilities.
    TypeError
        For scores, utilities or tokens that are no numbers.
    ValueError
        For scores or utilities that are not finite.

    See Also
    --------
    Sample : draws hypotheses
    levenshtein : the distance of two sequences

    Notes
    -----
    The expectation is over the hypotheses of the source, each a reference for all of them and for itself, by their
    probabilities: ``softmax(scores)`` within the source.  ``k ** 2`` pairs of a source with k hypotheses are held in
    memory.  There is no gradient.

    References
    ----------
    S. Kumar, W. Byrne (2004), "Minimum Bayes-Risk Decoding for Statistical Machine Translation", N04-1022.

    B. Eikema, W. Aziz (2020), "Is MAP Decoding All You Need?", arXiv 2005.10283.

    Examples
    --------
    >>> import seqformats as sf
    >>> y, order, expected = sf.minimum_bayes_risk([[[7, 8], [1, 2, 3], [1, 2]], [[4]]])
    >>> y, expected.round(2)
    ([[[1, 2], [1, 2, 3], [7, 8]], [[4]]], array([-1.  , -1.33, -1.67,  0.  ]))

    By the shared tokens instead, as a part of all, with scores:

    >>> def jaccard(one, two):
    ...     pairs = zip(map(set, one.to_nested()), map(set, two.to_nested()))
    ...     return [len(a & b) / max(len(a | b), 1) for a, b in pairs]
    >>> sf.minimum_bayes_risk([[[7, 8], [1, 2, 3], [1, 2]]], [0.0, -3.0, -3.0], utility=jaccard)[0]
    [[[7, 8], [1, 2, 3], [1, 2]]]
    """
    own = operand(x).own
    levels = own._levels
    if len(levels) < 2:
        raise LEVELS(
            "hypotheses must be in lists, one for each source, but there is one level of sequences; make the outer one "
            "with nest"
        )
    counts = np.diff(levels[-2].offsets)
    source = np.repeat(np.arange(counts.size), counts)
    weights = _weights(scores, source, counts.size)
    beside = counts[source]  # of each hypothesis, how many it is compared with
    one = np.repeat(np.arange(source.size), beside)
    two = np.arange(one.size) - np.repeat(np.cumsum(beside) - beside - levels[-2].offsets[source], beside)
    flat = convert(own, Ragged)
    worth = _numbers((utility or _nearness)(select(flat, one), select(flat, two)), one.size, "utility", "pairs")
    expected = np.bincount(one, worth * weights[two], minlength=source.size)
    order = np.lexsort((-expected, source))
    return select(x, order, level=len(levels) - 1), freeze(order), expected[order]


def _nearness(hypotheses: Ragged, references: Ragged) -> Array:
    distance: Array = to_host(levenshtein(hypotheses, references))
    return -distance


def _weights(scores: Given, source: Array, n: int) -> Array:
    """The probability of each hypothesis within its source."""
    found = np.zeros(source.size) if scores is None else _numbers(scores, source.size, "scores", "hypotheses")
    best = np.full(n, -np.inf)
    np.maximum.at(best, source, found)
    weights = np.exp(found - best[source])
    return weights / np.bincount(source, weights, minlength=n)[source]


def _numbers(given: Given, count: int, what: str, of: str) -> Array:
    """Finite numbers, of any library, as float64 on the host."""
    try:
        found = np.asarray(to_host(given) if is_array(given) else given)
    except ValueError as error:
        raise KIND(f"{what} must be numbers, one for each of the {of}, not {quote(given)}: {error}") from None
    if found.dtype.kind not in "biuf" and found.size:
        raise DTYPE(f"{what} must be real numbers, not {found.dtype}")
    if found.shape != (count,):
        raise SHAPE(f"{what} must have shape ({count},), a number for each of the {of}, not {found.shape}")
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        wrong = int(np.flatnonzero(~np.isfinite(found))[0])
        raise NAN(f"{what} must be finite, but number {wrong} is {found[wrong]}")
    return found
