"""The most likely path that has a given label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..beam.tokens import token_batch
from ..converters.convert import convert
from ..errors import BEYOND, COUNTS
from ..formats import LoD, Ragged, is_own
from ..launch.kernel import Work, kernel
from ..operations.annotations import Batch
from .frames import Frames, frames_of
from .rows import Aligned, AlignRoom, Goals

ctc_viterbi = kernel("ctc_viterbi")


@dataclass(frozen=True, eq=False)
class CTCAlignment:
    """The most likely paths of sequences of frames that have given labels.

    Attributes
    ----------
    tokens : Ragged or LoD of int64
        For each frame the token of the path, or the blank.
    frame_scores : Ragged or LoD of float32
        For each frame the log-probability of that.
    times, ends : Ragged or LoD of int64
        For each target the first of its frames, and the one behind the last of them.
    token_scores : Ragged or LoD of float32
        For each target the sum over its frames of their log-probabilities.
    scores : array (n,) of float32
        The log-probability of each path; -inf where no path has the label.  There all tokens are blanks, times and
        ends are -1, and the other scores are -inf.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> frames = sf.Ragged(np.log([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.9, 0.1]]), [3, 1])
    >>> found = sf.ctc_align(frames, [[1], [1, 1]])
    >>> found.tokens.to_nested(), found.times.to_nested(), found.ends.to_nested()
    ([[1, 1, 0], [0]], [[0], [-1, -1]], [[2], [-1, -1]])
    """

    tokens: Any
    frame_scores: Any
    times: Any
    ends: Any
    token_scores: Any
    scores: Array


def ctc_align(log_probs: Batch, targets: object, *, blank: int = 0, normalised: bool = True) -> CTCAlignment:
    """Place the tokens of given labels in the most likely path of each sequence of frames.

    A path is a token for each frame; its label is what is left without repeats, and then without blanks.  Of all paths
    with the label of a sequence the most likely one is taken ("forced alignment").

    Parameters
    ----------
    log_probs : an encoding, a list of arrays or nested lists
        Items ``(V,)`` of floats, the log-probability of every token in a frame, of two tokens at least.
    targets : an encoding or lists of tokens
        The label of each sequence, without blanks, of any length.
    blank : int
        The token that stands for none.
    normalised : bool
        False where these are logits, of which log-softmax is taken here.

    Returns
    -------
    CTCAlignment
        What it says of frames and of targets is a `Ragged`, or over the outer levels of a `LoD` of frames.

    Raises
    ------
    TypeError
        For frames that are no floats, and targets that are no integers.
    StructureError
        For items of another number of axes, a blank that is no token, labels for another number of sequences, and
        targets that are no token or the blank.
    ValueError
        For NaN and +inf, and for a log-probability above a rounding of 0 (see `ctc_greedy`), with the source and the
        frame.

    See Also
    --------
    ctc_beam_search : Where the label is not known.

    Notes
    -----
    A. Graves, S. Fernandez, F. Gomez and J. Schmidhuber (2006), with the largest in place of the sum.  A label needs a
    frame for each token, and one more between two tokens that are the same; where there are fewer, or where all its
    paths have a token of -inf, the score is -inf.  A sequence without frames has the empty label, with score 0.

    From the last frame to the first, of paths that are worth the same the one is taken that ends with a token, then
    the one that comes from the nearer state: which stays on a token, before it goes on from the blank, before it goes
    on from the token before that.

    Half precision is calculated in float32, and sums in float64.  Each sequence has a byte for each frame and state,
    ``frames * (2 * targets + 1)``, while this works.  On a GPU a sequence is the work of a block.  Nothing has a
    gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> frames = np.log([[0.1, 0.8, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
    >>> found = sf.ctc_align(sf.Ragged(frames, [4]), [[1, 1, 2]])
    >>> found.tokens.to_nested(), found.times.to_nested(), np.exp(found.scores).round(3)
    ([[1, 0, 1, 2]], [[0, 2, 3]], array([0.235], dtype=float32))
    """
    frames = frames_of(log_probs, blank)
    logits = frames.logits(normalised)
    labels = _labels(targets, frames)
    structure, inner = frames.structure, labels._structure
    places = np.concatenate([[0], np.cumsum(structure.lengths * (2 * inner.lengths + 1))])
    out = Aligned(
        tokens=frames.empty(structure.rows, "int64"),
        times=frames.empty(inner.rows, "int64"),
        ends=frames.empty(inner.rows, "int64"),
        counts=frames.empty(structure.n, "int64"),
        frame_scores=frames.empty(structure.rows, "float32"),
        token_scores=frames.empty(inner.rows, "float32"),
        scores=frames.empty(structure.n, "float32"),
    )
    room = AlignRoom(
        frames.empty(4 * (inner.rows + structure.n), "float64"),
        frames.empty(structure.rows, "float64"),
        frames.empty(int(places[-1]), "uint8"),
    )
    if structure.n:
        goals = Goals(labels.data, inner.offsets, places, frames.blank, logits)
        work = Work(structure.n, structure.rows + 4 * int(places[-1]) // frames.width)  # a state is worth four numbers
        inputs, args = (frames.data, goals), (frames.at._layout(),)
        ctc_viterbi.start_named(frames.library, inputs, (out, room), args, frames.width, work, structure)
    frames.check(frames.host(out.counts))
    return CTCAlignment(
        tokens=frames.wrap_levels(frames.to_caller(out.tokens), structure),
        frame_scores=frames.wrap_levels(frames.to_caller(out.frame_scores), structure),
        times=frames.wrap_levels(frames.to_caller(out.times), inner),
        ends=frames.wrap_levels(frames.to_caller(out.ends), inner),
        token_scores=frames.wrap_levels(frames.to_caller(out.token_scores), inner),
        scores=frames.to_caller(out.scores),
    )


def _labels(targets: object, frames: Frames) -> Ragged[Array]:
    """The labels on the host, looked at."""
    given: Any = targets
    if is_own(given) and len(given._levels) > 1:
        lod = convert(given, LoD)
        given = Ragged._freeze(lod.data, lod._levels[-1])
    labels = token_batch(given, "targets")
    n = frames.structure.n
    if len(labels) != n:
        raise COUNTS(f"there are targets for {len(labels)} sequences, but {n} sequences of frames")
    tokens = labels.data
    wrong = (tokens >= frames.width) | (tokens == frames.blank)
    if wrong.any():
        place = int(wrong.argmax())
        source = int(np.searchsorted(labels.offsets, place, "right")) - 1
        token = int(tokens[place])
        known = f"there are the tokens 0 to {frames.width - 1}"
        why = "which is the blank and in no label" if token == frames.blank else f"but {known}"
        raise BEYOND(f"target {place - int(labels.offsets[source])} of source {source} is {token}, {why}")
    return labels
