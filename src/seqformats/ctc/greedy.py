"""The label of the most likely path."""

from __future__ import annotations

from ..formats.structure import Structure
from ..launch.kernel import kernel
from ..operations.annotations import Batch
from .frames import frames_of
from .result import CTCResult

ctc_best = kernel("ctc_best")


def ctc_greedy(log_probs: Batch, *, blank: int = 0, normalised: bool = True) -> CTCResult:
    """The label of the most likely path of every sequence of frames.

    A path is a token for each frame; its label is what is left without repeats, and then without blanks.

    Parameters
    ----------
    log_probs : an encoding, a list of arrays or nested lists
        Items ``(V,)`` of floats, the log-probability of every token in a frame, of two tokens at least.
    blank : int
        The token that stands for none.
    normalised : bool
        False where these are logits, of which log-softmax is taken here.

    Returns
    -------
    CTCResult
        A label per source; `tokens` and `times` are a `Ragged`, or over the levels of a `LoD`.

    Raises
    ------
    TypeError
        For frames that are no floats.
    StructureError
        For items of another number of axes, and for a blank that is no token.
    ValueError
        For NaN and +inf, and for a log-probability above a rounding of 0, with the source and the frame.

    Notes
    -----
    Of equal tokens the smaller one is taken.  -inf is a token that cannot be; where a frame has no other the score is
    -inf.  A source without frames has the empty label, and score 0.  Half precision is calculated in float32, and sums
    in float64.  A rounding of 0 is up to 0.0001, of float16 up to 0.0156 and of bfloat16 up to 0.125.  Nothing has a
    gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> frames = np.log([[0.1, 0.8, 0.1], [0.2, 0.7, 0.1], [0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]])
    >>> found = sf.ctc_greedy(sf.Ragged(frames, [4, 1]))
    >>> found.tokens.to_nested(), found.times.to_nested()
    ([[1, 1], [2]], [[0, 3], [0]])
    """
    frames = frames_of(log_probs, blank)
    logits = frames.logits(normalised)
    structure = frames.structure
    rows = structure.rows
    path, counts = frames.empty(2 * rows, "int64"), frames.empty(structure.n, "int64")
    values, scores = frames.empty(rows, "float64"), frames.empty(structure.n, "float32")
    outputs, args = (path, values, scores, counts), (frames.at._layout(), frames.blank, logits)
    ctc_best.start(frames.library, (frames.data,), outputs, args, frames.width, structure)
    found = frames.host(counts)
    frames.check(found)
    label = Structure.of_lengths(found)
    halves = path[:rows], path[rows:]
    made = [frames.wrap_levels(frames.to_caller(frames.parts(x, structure, label)), label) for x in halves]
    return CTCResult(made[0], frames.to_caller(scores), made[1])
