"""Sampling behind the loop of beam search: with replacement, or without."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..arrays import Array, is_array, shape_of
from ..converters.layouts import check_at_least
from ..errors import COUNTS, RANGE, quote
from ..formats.structure import flag, integers, whole
from .drawing import Drawing, WithoutReplacement, WithReplacement
from .rows import Warp
from .rules import number

_MOST = 1 << 24  # draws of a source, which have to be told apart in float32


class Sample:
    """Draw hypotheses by the probabilities of the model, token by token, instead of searching the best.

    Parameters
    ----------
    seed : int or sequence of int
        An integer for all sources, each of which then draws by its number, too; or one for each (a list or array).
    temperature : float
        The number, above 0, that scores are divided by: below 1 it makes likely tokens more likely, above 1 less.
    top_k : int, optional
        Only tokens are drawn that are worth at least the k-th best one; at least 1.
    top_p : float, optional
        Only the best tokens are drawn, as many as it takes for their probabilities to add up to this; above 0, at
        most 1.
    min_p : float, optional
        Only tokens are drawn with at least this part of the probability of the best one; from 0 to 1.
    typical : float, optional
        Only those tokens are drawn whose log-probability is nearest to its mean, as many as it takes for their
        probabilities to add up to this; above 0, at most 1.
    replacement : bool
        Whether the draws of a source are independent; otherwise they are different hypotheses, by stochastic beam
        search.

    Raises
    ------
    TypeError
        If an argument is not a number.
    ConversionError
        If a number is out of its range.

    See Also
    --------
    Stochastic : without replacement, and alike for all sources of one seed

    Notes
    -----
    As many hypotheses of each source are drawn as `beam_size` says, and the first `n_best` are given back, in the order
    of drawing: with replacement all draws are independent (ancestral sampling); without, the k-th is drawn from what
    the ones before it have left.  Each ends where it draws an end, and at `max_new_tokens`.

    The limits on tokens come first (a temperature sees what they leave), then hooks on scores, then `temperature`,
    `top_k`, `top_p`, `min_p` and `typical`, each by what the ones before it have left, as in transformers.  Tokens of
    the same score stay or go together.

    Scores, and `token_scores`, are log-probabilities of the model before all of these but limits and hooks; no length
    divides them.  A source whose tokens are all impossible loses the draw.

    What is drawn depends on the seed, and on the scores of the source, alone where each source has a seed; with one
    seed for all on the number of the source as well.  It is the same on every device, up to rounding at the border
    between two tokens.

    References
    ----------
    A. Holtzman et al. (2020), "The Curious Case of Neural Text Degeneration", arXiv 1904.09751.

    C. Meister et al. (2023), "Locally Typical Sampling", arXiv 2202.00666.

    W. Kool, H. van Hoof, M. Welling (2019), "Stochastic Beams and Where to Find Them", arXiv 1903.06059.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> scores = np.log([[0.5, 0.3, 0.15, 0.05]])
    >>> found = sf.beam_search(
    ...     lambda state: (scores[[0] * len(state.tokens)], None), None, start=np.array([0]), end=0, beam_size=4,
    ...     n_best=4, max_new_tokens=6, sampling=sf.Sample(seed=1, temperature=0.8, top_k=3))
    >>> found.tokens.to_nested()
    [[[0], [1, 1, 0], [0], [0]]]
    """

    each: bool
    """Is there a seed for each source?"""
    _by_number = True
    """Do sources with one seed for all draw by their number?"""

    def __init__(
        self,
        seed: int | Sequence[int] | Array,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        typical: float | None = None,
        replacement: bool = True,
    ) -> None:
        self.each = isinstance(seed, (list, tuple)) or (is_array(seed) and len(shape_of(seed)) == 1)
        self._seeds = integers(seed, "seed") if self.each else np.array([whole(seed, "seed") % (1 << 63)])
        heat = number(temperature, "temperature")
        if not 1e-30 <= heat <= 1e30:
            greedy = '; for the best token of each step there is rule="greedy"' if heat == 0 else ""
            raise RANGE(f"temperature must be above 0, from 1e-30 to 1e30, not {quote(temperature)}{greedy}")
        k = 0 if top_k is None else check_at_least(top_k, "top_k", 1)
        p, mass = (
            1.0 if given is None else _part(given, name, least=False)
            for given, name in ((top_p, "top_p"), (typical, "typical"))
        )
        least = 0.0 if min_p is None else _part(min_p, "min_p", least=True)
        least = math.log(least) if least > 0 else -math.inf
        flag(replacement, "replacement")
        self._warp = Warp(np.array([1 / heat, p, least, mass], np.float32), k)
        self.replacement = bool(replacement)

    def draws_like(self, other: Sample | None) -> bool:
        """Tell whether another one draws in the same way, whatever its seeds."""
        if type(other) is not type(self) or other.replacement != self.replacement:
            return False
        same = other._warp.top_k == self._warp.top_k and (other._warp.numbers == self._warp.numbers).all()
        return bool(same)

    def begin(self, sizes: Array, first: int = 0) -> Drawing:
        """Begin so many draws of each source, the first of which has this number."""
        n = sizes.size
        if self.each and self._seeds.size != n:
            raise COUNTS(f"there are {self._seeds.size} seeds, but {n} sources")
        seeds = self._seeds if self.each else np.repeat(self._seeds, n)
        numbers = np.arange(first, first + n) if self._by_number and not self.each else None
        if not self.replacement:
            return WithoutReplacement(seeds, numbers, self._warp)
        if sizes.max(initial=1) > _MOST:
            raise RANGE(f"beam_size must be at most {_MOST} for a sample, not {sizes.max()}")
        return WithReplacement(seeds, numbers, self._warp, sizes)


class Stochastic(Sample):
    """Draw `beam_size` different hypotheses of each source, instead of searching the best.

    Parameters
    ----------
    seed : int or sequence of int
        An integer for all sources, or one for each (a list or array).

    Raises
    ------
    TypeError
        If the argument is not an integer.

    See Also
    --------
    Sample : with a temperature, with replacement, and by the number of the source

    Notes
    -----
    What is drawn of a source depends on its seed and its scores alone: two sources with the same scores give the same
    sample, unless they have different seeds.  Hypotheses come in the order in which they were drawn; their scores are
    log-probabilities, which no length divides.  Whatever has ended stays in the sample.

    References
    ----------
    W. Kool, H. van Hoof, M. Welling, "Stochastic Beams and Where to Find Them", arXiv 1903.06059.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> scores = np.log([[0.5, 0.3, 0.2]])
    >>> found = sf.beam_search(
    ...     lambda state: (scores[[0] * len(state.tokens)], None), None, start=np.array([0]), end=[0, 1, 2],
    ...     beam_size=3, n_best=3, max_new_tokens=1, sampling=sf.Stochastic(seed=1))
    >>> sorted(found.tokens.to_nested()[0])
    [[0], [1], [2]]
    """

    _by_number = False

    def __init__(self, seed: int | Sequence[int] | Array) -> None:
        super().__init__(seed, replacement=False)


def _part(given: float, name: str, *, least: bool) -> float:
    """A part of 1, above 0 or at `least`."""
    found = number(given, name)
    if not 0 <= found <= 1 or (found == 0 and not least):
        raise RANGE(f"{name} must be {'at least' if least else 'above'} 0 and at most 1, not {quote(given)}")
    return found
