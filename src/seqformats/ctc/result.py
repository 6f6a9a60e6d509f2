"""What the decoders find."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array
from ..formats import Encoding


@dataclass(frozen=True, eq=False)
class CTCResult:
    """Labels of sequences of frames.

    Attributes
    ----------
    tokens : LoD or Ragged of int64
        Without repeats and blanks, a sequence a source.
    scores : array (n,) of float32
        The log-probability of the path of each.
    times : LoD or Ragged of int64
        Like `tokens`: the frame in which each begins.

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
    times: Encoding
