"""The most likely labels, by prefix beam search."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..beam.rules import number
from ..converters.layouts import at_least
from ..errors import ConversionError, said
from ..formats import LoD
from ..operations.annotations import Batch
from .frames import flag, frames_of
from .prefixes import NO_LEXICON, found_by, prefixes_of
from .result import CTCResult
from .rows import PrefixTerms

_ALL = 1 << 62  # frames, tokens


def ctc_beam_search(
    log_probs: Batch,
    *,
    blank: int = 0,
    beam_size: int,
    n_best: int = 1,
    token_beam: int | None = None,
    token_threshold: float | None = None,
    threshold: float | None = None,
    token_bonus: float = 0.0,
    normalised: bool = True,
) -> CTCResult:
    """The most likely labels of every (innermost) sequence of frames."""
    frames = frames_of(log_probs, blank)
    beam = at_least(beam_size, "beam_size", 1)
    best = at_least(n_best, "n_best", 1)
    if best > beam:
        raise ConversionError(f"n_best is {best}, but the beams have {beam} places")
    reals = [
        _real(token_threshold, "token_threshold", -math.inf),
        _real(threshold, "threshold", math.inf),
        _real(token_bonus, "token_bonus", None),
        -math.inf,
    ]
    if reals[1] < 0:
        raise ConversionError(f"threshold must be at least 0, not {said(threshold)}")
    terms = PrefixTerms(
        width=frames.width,
        blank=frames.blank,
        logits=int(not flag(normalised, "normalised")),
        beam=beam,
        n_best=best,
        token_beam=frames.width if token_beam is None else at_least(token_beam, "token_beam", 1),
        spelled=0,
        fused=0,
        first=0,
        last=_ALL,
        reals=np.array(reals),
    )
    search = prefixes_of(frames, terms, NO_LEXICON, alone=False)
    if frames.structure.n:
        search.run(0, _ALL)
    found = found_by(search)
    levels = (*frames.levels[:-1], found.sources, found.labels)
    return CTCResult(
        LoD._over(found.tokens, levels),
        found.scores,
        LoD._over(found.times, levels),
        found.path_scores,
    )


def _real(value: Any, what: str, default: float | None) -> float:
    """A number as a float, the default where it is None; infinity only as a default."""
    if value is None and default is not None:
        return default
    found = number(value, what)
    if not math.isfinite(found):
        raise ConversionError(f"{what} must be finite, not {said(value)}")
    return found
