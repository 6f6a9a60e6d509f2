"""Sampling without replacement behind the loop of beam search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array, Library, is_array, shape_of
from ..errors import StructureError
from ..formats.structure import integers, whole
from ..launch.kernel import Work
from . import candidates
from .live import Live


class Stochastic:
    """Draw `beam_size` different hypotheses of each source, instead of searching the best.

    Parameters
    ----------
    seed : int or sequence of int
        An integer for all sources, or one for each (a list or array).

    Raises
    ------
    TypeError
        For what is no integer.

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

    def __init__(self, seed: int | Sequence[int] | Array) -> None:
        each = isinstance(seed, (list, tuple)) or (is_array(seed) and len(shape_of(seed)) == 1)
        self._seeds = integers(seed, "seed") if each else np.array([whole(seed, "seed") % (1 << 63)])
        self._each = each

    def begin(self, n: int) -> Sample:
        """For `n` sources."""
        if self._each and self._seeds.size != n:
            raise StructureError(f"there are {self._seeds.size} seeds, but {n} sources")
        return Sample(self._seeds if self._each else np.repeat(self._seeds, n))


class Sample:
    """The noise of one search."""

    def __init__(self, seeds: Array) -> None:
        self._hashes = _mixed(_mixed(seeds & 0xFFFFFFFF) ^ (seeds >> 32 & 0x7FFFFFFF))

    def perturbed(self, library: Library, x: Array, running: Array, perturbed: Array) -> Array:
        """Log-probabilities of all candidates with noise; see the kernel."""
        rows, width = x.shape
        out = library.empty((rows, width), x.dtype, x)
        work = Work(rows, rows)
        candidates.start("perturb_scores", library, (x, running, perturbed), (out,), (self._hashes,), width, work)
        return out

    def follow(self, live: Live) -> None:
        """The rows have become these."""
        self._hashes = _mixed(_mixed(self._hashes[live.parents]) ^ (live.tokens + 1))


def _mixed(x: Array) -> Array:
    """The kernel's hash of many."""
    x = x ^ (x >> 15)
    x = (x * 0x2C1B3C6D) & 0xFFFFFFFF
    x = x ^ (x >> 12)
    x = (x * 0x297A2D39) & 0xFFFFFFFF
    return x ^ (x >> 15)
