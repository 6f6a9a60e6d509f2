"""What the decoders find."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array
from ..formats import Encoding


@dataclass(frozen=True, eq=False)
class CTCResult:
    """Labels of sequences of frames, best first.

    Attributes
    ----------
    tokens : LoD or Ragged of int64
        Without blanks: of `ctc_beam_search` a `LoD` over ``[source -> hypotheses, hypothesis -> tokens]``; of
        `ctc_greedy`, which finds one label a source, a sequence a source.
    scores : array (hypotheses,) of float32
        By which hypotheses are ranked.
    ctc_scores : array (hypotheses,) of float32
        The log-probability alone: of all paths of a label, of `ctc_greedy` of the one path.
    times : LoD or Ragged of int64, optional
        Like `tokens`: the frame in which each begins on the best path.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> frames = sf.Ragged(np.log([[0.4, 0.6], [0.7, 0.3]]), [2])
    >>> found = sf.ctc_greedy(frames)
    >>> found.tokens.to_nested(), found.times.to_nested(), np.exp(found.scores).round(2)
    ([[1]], [[0]], array([0.42], dtype=float32))
    """

    tokens: Encoding
    scores: Array
    ctc_scores: Array
    times: Encoding | None = None
