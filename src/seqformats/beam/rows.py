"""Arguments of the kernels of decoding: arrays that belong together, under their names.

Each class is one argument of a kernel, on every device.  Nothing is imported here that a kernel could not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..arrays import Array

    Integers: TypeAlias = Array  # of int64; the other arrays are of floats
    Singles: TypeAlias = Array  # of float32, always
    Table: TypeAlias = Array  # of int64, with two axes
    Grid: TypeAlias = Array  # of floats, with two axes


class Limits(NamedTuple):
    """Limits on what may follow each row; see `plan.Plan`, which makes them.

    Row r goes on with ``allowed[allowed_from[r]:allowed_to[r]]`` alone, which rise, unless ``allowed_from[r]`` is -1 or
    there are no such arrays.  The tokens ``edited[edited_at[r]:edited_at[r + 1]]``, which rise too, have their
    log-probability increased by `addends`, and then multiplied by `factors`, or divided by `divisors` where it is above
    zero, where `edited_at` is not empty.  Where `words` is not 0, row r goes on with token k only if bit ``k % 64`` of
    ``bits[r * words + k // 64]`` is one.
    """

    addends: Array  # float32
    factors: Array  # float32
    divisors: Array  # float32
    allowed_from: Integers
    allowed_to: Integers
    allowed: Integers
    edited_at: Integers
    edited: Integers
    bits: Integers
    words: int


class Scores(NamedTuple):
    """Scores that the model has given each row."""

    items: Array  # (rows * width,) float32, the scores of every token
    running: Array  # (rows,) float32, the score of each row so far
    form: int  # what `items` are: see candidates.LOGITS


class Wanted(NamedTuple):
    """The rows of each beam, and how many candidates it asks for."""

    begin: Integers
    end: Integers  # the row behind the last one; the same as `begin` where the beam is done
    most: Integers


class Apart(NamedTuple):
    """Tokens that a beam lists apart, behind the best of all others: ends, which may crowd those out.

    Beam b first lists as many as it asks for of the tokens that are not among ``tokens[begin[b]:end[b]]``, which rise,
    and then as many of these.  Nothing is apart where `begin` is empty.
    """

    begin: Integers
    end: Integers
    tokens: Integers


class Lists(NamedTuple):
    """Lists of candidates, best first: list l is at ``l * places``, and has ``counts[l]`` of them."""

    values: Singles
    ids: Integers  # row * width + token
    counts: Integers  # -1 - r where row r, which belongs to the list, holds NaN or +inf
    places: int


class RowWork(NamedTuple):
    """Results of a GPU for each row, from which it chooses the candidates of the beams.

    It is in the array of the results, of int64.  First are these: how many there are in each list, the ids of all
    lists, and the bits of the values.  Behind them is a list of keys for each row, the best first, and for each again
    where tokens are apart; then how many each of these lists has, -1 - r of a bad row; then what a kernel needs
    besides.
    """

    counters: Integers  # (rows + beams,) 0 before and after: by them the blocks find out which of them is the last one
    by_beams: int  # 1 where each beam has a list in the end, 0 where each row has
    lists: int  # how many there are in the end
    listed: int  # how many candidates each has room for
    of_rows: int  # the place of the first key
    places: int  # how many keys the list of a row has room for
    counts: int  # the place of the first number of keys
    rest: int  # the place of what is needed besides


class Warp(NamedTuple):
    """Changes of the distribution of a row before a token is drawn; see `drawing`."""

    numbers: Array  # (4,) float32: 1 / temperature, top_p, log(min_p), typical; 1, 1, -inf and 1 change nothing
    top_k: int  # 0 for all


class Draws(NamedTuple):
    """The tokens to be drawn: row r has those from ``begin[r]`` to ``begin[r + 1]``."""

    begin: Integers
    seeds: Integers  # at least 0, or -1 for the first token of all that may be drawn
    sequences: Integers  # which random numbers of the seed each draw has
    places: Integers  # how many tokens come before what is drawn


class Drawn(NamedTuple):
    """Results of rows of scores."""

    tokens: Array  # (2 * draws,) float64: scores of the hypotheses with the token; tokens, -1 for none, -2 in a bad row
    warped: Array  # (rows * width,) float32: the log-probabilities that are drawn from; or empty


class Room(NamedTuple):
    """Room for the work on the host; units that one thread works on use the places of the first of them."""

    limited: Array  # (rows * width,) float32, as all of floats but `bins`
    keys: Array  # (rows * width,)
    weights: Array  # (rows * width,)
    few_keys: Array  # (rows * width,)
    few_weights: Array  # (rows * width,)
    tokens: Integers  # (rows * width,)
    blocks: Array  # (rows * blocks,)
    bins: Array  # (rows * 256,) float64


class Candidates(NamedTuple):
    """The candidates of all beams on the host, as `Lists`, one a beam, but in falling order of `keys`."""

    values: Array  # scores of the hypotheses so far, float32
    keys: Array  # what they are sorted by; mostly the same array
    ids: Integers  # row * width + token
    counts: Integers
    places: int
    width: int


class Beams(NamedTuple):
    """The beams of a search: one per source, or one a group of each; ``(beams,)``."""

    begin: Integers  # its first row
    end: Integers  # the row behind its last one; the same where the beam is done
    most: Integers  # how many candidates it asks for in the next step
    width: Integers  # its size
    limit: Integers  # the most tokens of a hypothesis
    enough: Integers  # with so many finished it is done, by the rules that count them
    size: Integers  # how many finished hypotheses are kept
    finished: Integers  # how many have ever finished
    topped: Integers  # has the best candidate of a step been an end?
    begun: Integers  # how many steps had been made before its first one
    asked: Integers  # how many of its rows the model was asked for, in all steps
    penalty: Array  # float64, the power of the length


class Finished(NamedTuple):
    """The finished hypotheses that are kept: those of beam l, best first, from ``l * places`` on."""

    scores: Array  # float32
    nodes: Integers
    places: int


class Tree(NamedTuple):
    """All tokens that were kept: node i is a token behind another node.  The arrays have room for more than `size`."""

    tokens: Integers
    previous: Integers  # the node before; -1 - source at the start
    values: Array  # float32, the score up to here
    size: int


class Rows(NamedTuple):
    """The live hypotheses, a row each."""

    parents: Integers  # the row of the step before
    tokens: Integers  # the last token
    nodes: Integers  # the node of that
    source: Integers
    values: Array  # float32, the score so far
    keys: Array  # float32, what rows are sorted by


class NewRows(NamedTuple):
    """Memory for the rows of a step: for more than there will be."""

    numbers: Table  # (4, most): parents, tokens, nodes and source of `Rows`
    scores: Grid  # (2, most) float32: values and keys


class Terms(NamedTuple):
    """Numbers by which a search decides; most are those of a `rules.Rule` or a `rules.Prune`."""

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
    ends_at: Integers  # source s ends with one of ends[ends_at[s]:ends_at[s + 1]], which rise
    ends: Integers


class Prefixes(NamedTuple):
    """Arrays that a step of `beam_step` reads."""

    scores: Array  # (rows * width,) the candidates of each prefix
    ids: Integers  # (rows * width,) their tokens; empty where the column is the token
    pre_ids: Integers  # (rows,) the last token of each prefix
    pre_scores: Array  # (rows,)


class Selected(NamedTuple):
    """Arrays that a step of `beam_step` writes; source s has the places from ``s * places`` on."""

    values: Array
    tokens: Integers
    parents: Integers  # rows
    counts: Integers  # (rows,) how many each row has
    places: int
