"""Results of the decoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..arrays import Array


@dataclass(frozen=True, eq=False)
class CTCResult:
    """Labels of sequences of frames.

    Attributes
    ----------
    tokens : LoD or Ragged of int64
        Without repeats and blanks.  Of `ctc_greedy` a sequence per source; of `ctc_beam_search` a `LoD` over
        ``[source -> hypotheses, hypothesis -> tokens]``, best first.
    scores : array (n,) or (hypotheses,) of float32
        The log-probability of the path, or of all paths, of each, with what the options of a search add.
    times : LoD or Ragged of int64
        Like `tokens`: the frame in which each begins on the path, or on the most likely one.
    path_scores : array (hypotheses,) of float32, optional
        The log-probability of all paths alone; only a search has it.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> frames = sf.Ragged(np.log([[0.4, 0.6], [0.7, 0.3]]), [2])
    >>> found = sf.ctc_greedy(frames)
    >>> found.tokens.to_nested(), found.times.to_nested(), np.exp(found.scores).round(2)
    ([[1]], [[0]], array([0.42], dtype=float32))
    """

    tokens: Any
    scores: Array
    times: Any
    path_scores: Array | None = None
