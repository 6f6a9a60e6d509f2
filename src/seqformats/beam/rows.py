"""What the kernels of decoding take: arrays that belong together, under their names.

Each class is one argument of a kernel, on every device.  Nothing is imported here that a kernel could not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..arrays import Array


class Limits(NamedTuple):
    """What may follow each row; see `plan.Plan`, which makes it.

    Row r goes on with ``allowed[allowed_from[r]:allowed_to[r]]`` alone, which rise, unless ``allowed_from[r]`` is -1 or
    there are no such arrays.  The tokens ``edited[edited_at[r]:edited_at[r + 1]]``, which rise too, have their
    log-probability multiplied by `factors` (divided, where it is above zero) and increased by `addends`, where
    `edited_at` is not empty.
    """

    factors: Array  # float32
    addends: Array  # float32
    allowed_from: Array
    allowed_to: Array
    allowed: Array
    edited_at: Array
    edited: Array


class Scores(NamedTuple):
    """What the model has said of each row."""

    items: Array  # (rows * width,) float32, the scores of every token
    running: Array  # (rows,) float32, the score of each row so far
    form: int  # what `items` are: see candidates.LOGITS


class Wanted(NamedTuple):
    """The rows of each beam, and how many candidates it asks for; int64."""

    begin: Array
    end: Array  # the row behind the last one; the same as `begin` where the beam is done
    most: Array


class Lists(NamedTuple):
    """Lists of candidates, best first: list l is at ``l * places``, and has ``counts[l]`` of them."""

    values: Array  # float32
    ids: Array  # int64, row * width + token
    counts: Array  # int64; -1 - r where row r, which belongs to the list, holds NaN or +inf
    places: int


class Candidates(NamedTuple):
    """The candidates of all beams on the host, as `Lists`, one a beam, but in falling order of `keys`."""

    values: Array  # scores of the hypotheses so far, float32
    keys: Array  # what they are sorted by; mostly the same array
    ids: Array  # row * width + token
    counts: Array
    places: int
    width: int


class Beams(NamedTuple):
    """The beams of a search: one a source, or one a group of each; ``(beams,)`` int64."""

    begin: Array  # its first row
    end: Array  # the row behind its last one; the same where the beam is done
    most: Array  # how many candidates it asks for in the next step
    width: Array  # its size
    limit: Array  # the most tokens of a hypothesis
    size: Array  # how many finished hypotheses are kept
    finished: Array  # how many have ever finished
    topped: Array  # has the best candidate of a step been an end?
    penalty: Array  # float64, the power of the length


class Finished(NamedTuple):
    """The finished hypotheses that are kept: those of beam l, best first, from ``l * places`` on."""

    scores: Array  # float32
    nodes: Array  # int64
    places: int


class Tree(NamedTuple):
    """All tokens that were kept: node i is a token behind another node.  The arrays have room for more than `size`."""

    tokens: Array  # int64
    previous: Array  # int64, the node before; -1 - source at the start
    values: Array  # float32, the score up to here
    size: int


class Rows(NamedTuple):
    """The live hypotheses, a row each; int64."""

    parents: Array  # the row of the step before
    tokens: Array  # the last token
    nodes: Array  # the node of that
    source: Array
    values: Array  # float32, the score so far
    keys: Array  # float32, what rows are sorted by


class NewRows(NamedTuple):
    """Where the rows of a step are written: room for more than there will be."""

    numbers: Array  # (4, most) int64: parents, tokens, nodes and source of `Rows`
    scores: Array  # (2, most) float32: values and keys


class Terms(NamedTuple):
    """How a search decides, in numbers; most are those of a `rules.Rule` or a `rules.Prune`."""

    first_only: int
    at_limit: int
    pool: int
    norm: int
    shrinks: int
    stop: int
    groups: int  # beams of a source
    n_best: int
    safe: int
    below: Array  # (2,) float32: how far a candidate, and its token, may be below the best one
    ends_at: Array  # source s ends with one of ends[ends_at[s]:ends_at[s + 1]]
    ends: Array


class Prefixes(NamedTuple):
    """What a step of `beam_step` reads."""

    scores: Array  # (rows * width,) the candidates of each prefix
    ids: Array  # (rows * width,) int64, their tokens; empty where the column is the token
    pre_ids: Array  # (rows,) int64, the last token of each prefix
    pre_scores: Array  # (rows,)


class Selected(NamedTuple):
    """What a step of `beam_step` writes; source s has the places from ``s * places`` on."""

    values: Array
    tokens: Array  # int64
    parents: Array  # int64, rows
    counts: Array  # (rows,) int64, how many each row has
    places: int
