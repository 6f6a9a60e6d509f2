"""What the kernel of the prefix search takes: arrays that belong together, under their names.

Each class is one argument of the kernel, on every device.  Nothing is imported here that a kernel could not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..arrays import Array

    Integers: TypeAlias = Array  # of int64; the other arrays are of floats


class PrefixTerms(NamedTuple):
    """How a search decides, in numbers; and which frames this call of the kernel is for."""

    width: int  # how many tokens there are, the blank among them
    blank: int
    logits: int  # are the frames to be normalised?  See `best_known`
    beam: int  # the most prefixes
    n_best: int
    token_beam: int  # the most tokens of a frame that prefixes go on with
    spelled: int  # is there a lexicon?
    fused: int  # has a hook said what may follow?
    first: int  # the first frame; 0 begins the search
    last: int  # the frame behind the last one; the search ends where that is behind all frames
    shares: Integers  # the sources from shares[b] to shares[b + 1] are the work of unit b
    places: Integers  # where its nodes begin
    reals: Array  # (4,) float64: the least log-probability of a token, how far below the best, what a token adds; -inf


class Guide(NamedTuple):
    """What a lexicon and a hook say.

    The words of a lexicon, one after the other, are states: 0 is where a label begins, and state q is followed by
    ``tokens[begin[q]:begin[q + 1]]``, which rise, and lead to ``states`` at the same places.  Row i of unit b gains
    ``gains[gains_at[b * beam + i] + token]`` with a token.
    """

    begin: Integers
    tokens: Integers
    states: Integers
    whole: Integers  # (states,) 1 where a label may end
    gains: Array  # float64
    gains_at: Integers


class Labels(NamedTuple):
    """What is found: hypothesis j of source s is number ``s * n_best + j``, with room for one token per frame."""

    tokens: Integers
    times: Integers  # as many
    lengths: Integers
    counts: Integers  # (n,) how many hypotheses there are, or -1 - t where frame t holds NaN or +inf
    scores: Array  # float32
    path_scores: Array  # float32, without what tokens and hooks have added


class PrefixTree(NamedTuple):
    """All prefixes of a source that were ever kept: node i is a token behind another node, node 0 is the empty one."""

    parents: Integers
    tokens: Integers
    slots: Integers  # the row of the prefix; -1 where it is not in the beam
    table: Integers  # nodes by parent and token, four places a node
    times: Integers  # what belongs to a path: the frame of a token, behind another one
    before: Integers


class PrefixRows(NamedTuple):
    """The beam of a source, three times: before a frame, behind it, and as it is if no prefix gets longer.

    Log-probabilities are float64: of all paths that end in a blank, of all that end in the last token, and of both.
    """

    nodes: Integers
    states: Integers  # in the lexicon
    origins: Integers  # the row before; -1 - r for one that goes on from row r with a token
    blank_paths: Integers  # where the times of the most likely path of a kind end; see `PrefixTree`
    token_paths: Integers
    firsts: Integers  # the first row that is this one and a token
    nexts: Integers  # the next of these
    blank: Array
    token: Array
    total: Array
    gains: Array  # what tokens and hooks have added
    best_blank: Array  # of the most likely path
    best_token: Array


class Pool(NamedTuple):
    """Room for a frame, and for the candidates that it makes; by rows, then tokens, those that stay first."""

    logs: Array  # (width,) float64, the log-probabilities
    listed: Integers  # (width,) tokens to go on with
    marks: Integers  # (width,) by whom a token is taken
    values: Array  # (places,) float64, what candidates are worth
    floats: Array  # (places,) float64, for work
    rows: Integers  # (places,)
    tokens: Integers  # (places,) -1 where the prefix stays as it is
    state: Integers  # (4,) how many rows there are, and which; how many nodes; how many tokens of paths
    places: int  # more than the beam and the width together


class Goals(NamedTuple):
    """The labels that frames are aligned with."""

    targets: Integers  # without blanks
    cum: Integers  # (n + 1,) where those of each source begin
    places: Integers  # (n,) where its part of `AlignRoom.back` begins
    blank: int
    logits: int  # are the frames to be normalised?  See `best_known`


class Aligned(NamedTuple):
    """What an alignment is: for each frame, each target, each source."""

    tokens: Integers  # (frames,) the token or the blank
    times: Integers  # (targets,) the first frame of each, and the one behind its last; -1 where none is possible
    ends: Integers
    counts: Integers  # (n,) 0, or -1 - t where frame t holds NaN or +inf
    frame_scores: Array  # (frames,) float32
    token_scores: Array  # (targets,) float32
    scores: Array  # (n,) float32


class AlignRoom(NamedTuple):
    """Room to align in.

    Of L targets there are 2 L + 1 states: first L + 1 blanks, k the one before target k, then the targets.
    """

    values: Array  # of each source twice 2 L + 2, float64: of the best path to a blank, -inf, and to a target
    logs: Array  # (frames,) float64: what all tokens of a frame have together
    back: Array  # uint8, a place a frame and state of each source: whence the best path comes


class LossGoals(NamedTuple):
    """The labels whose probabilities are wanted, and how the work is divided."""

    targets: Integers  # of all labels, without blanks
    reach: Integers  # (targets,) the first frame in which a path can be at each
    order: Integers  # (targets,) on a GPU the places within each label, by their tokens; else empty
    cum: Integers  # (labels + 1,) where the targets of each label begin
    first: Integers  # (n + 1,) the first label of each sequence
    factors: Array  # (labels,) float64, what the loss and the gradient of each are multiplied by
    begins: Integers  # (units + 1,) the sequences from begins[b] to begins[b + 1] are the work of unit b
    places: Integers  # (units,) where its part of `LossRoom.values` begins
    powers_at: Integers  # (units,) where its part of `LossRoom.powers` begins
    blank: int
    logits: int  # are the frames to be normalised?
    zero: int  # is the loss of a label without a path 0, and not inf?
    gradient: int  # is that wanted, too?


class LossOut(NamedTuple):
    """What is found."""

    losses: Array  # (labels,) float64
    grad: Array  # in the layout of the frames, or empty


class LossRoom(NamedTuple):
    """Room to calculate in, where each unit has a part."""

    values: Array  # float64
    powers: Array  # as the frames, a place for each target and up to eight more; on a GPU empty
