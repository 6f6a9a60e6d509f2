"""Arguments of the kernel of the prefix search: arrays that belong together, under their names.

Each class is one argument of the kernel, on every device.  Nothing is imported here that a kernel could not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..arrays import Array

    Integers: TypeAlias = Array  # of int64; the other arrays are of floats
    Singles: TypeAlias = Array  # of float32


class PrefixTerms(NamedTuple):
    """Parameters of a search, and the frames of one call of the kernel."""

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
    """Constraints of a lexicon, and scores of a hook.

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
    """Labels found: hypothesis j of source s is number ``s * n_best + j``, with room for one token per frame."""

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
    gains: Array  # what tokens, hooks and a model have added
    best_blank: Array  # of the most likely path
    best_token: Array


class Told(NamedTuple):
    """State of a model of words or tokens for the rows of `PrefixRows`, see `Speech`."""

    contexts: Integers  # the state behind the last whole word
    nodes: Integers  # the unfinished one among the words, and among the hot ones
    hots: Integers
    lengths: Integers  # and its letters
    kept: Array  # the gains without what the unfinished word is worth


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
    """An alignment: for each frame, each target, each source."""

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

    targets: Integers  # of all labels, without blanks, and eight zeros
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
    """Losses and their gradients."""

    losses: Array  # (labels,) float64
    grad: Array  # in the layout of the frames, or empty


class LossRoom(NamedTuple):
    """Room to calculate in, where each unit has a part."""

    values: Array  # float64
    powers: Array  # as the frames, a place for each target and up to 16 more; on a GPU empty


class Section(NamedTuple):
    """The n-grams of one order, as they are in a file."""

    words: Array  # (count * order,) int32, their numbers
    logs: Singles  # (count,)
    weights: Singles  # (count,) 0 where there is none


class Vocabulary(NamedTuple):
    """The words of a file, by a hash table with open addresses."""

    table: Integers  # a power of two places
    begins: Integers  # where each word begins in the text, and ends
    ends: Integers
    seen: Integers  # (1,) becomes 1 when the unknown word has been read
    cuts: Integers  # (2 * order + 4,) for work


class NGramStates(NamedTuple):
    """An n-gram model as an automaton, see `kernels.parts.ngrams`; words have numbers, 0 is the unknown one."""

    begin: Array  # (states + 1,) int32: where the arcs of each state begin
    words: Array  # (arcs,) int32, rising within a state
    logs: Singles  # (arcs,) log10 of probabilities
    nexts: Array  # (arcs,) int32: the state behind each
    weights: Singles  # (states,) log10 of back-off weights
    fails: Array  # (states,) int32: the state of the longest shorter context


class Speech(NamedTuple):
    """A model of words or tokens, and how tokens spell words: an `NGramStates` first, see `kernels.parts.speech`.

    Letters are code points.  The words of the model are a tree: node 0 is the root, the children of node k are
    ``heads[k]`` to ``tails[k]``, each for a letter of `marks`, which rise.  Hot words are another one.
    """

    begin: Array
    words: Array
    logs: Singles
    nexts: Array
    weights: Singles
    fails: Array
    by_words: int  # is it a model of words, or one of tokens?
    start: int  # the state in which a label begins
    end: int  # the number of the word that ends it; -1 where no end is scored
    numbers: Integers  # (V,) of a model of tokens: which word each is
    opens: Integers  # (V,) 1 where a token ends a word, 2 where it begins one, else 0
    places: Integers  # (V + 1,) the letters of each token
    letters: Integers
    heads: Integers
    tails: Integers
    marks: Integers
    entries: Integers  # the number of the word that ends there, 0 where none does
    known: Integers  # 1 where a known word ends, 2 where one ends or goes on, both added up
    hot_heads: Integers
    hot_tails: Integers
    hot_marks: Integers
    shortest: Integers  # the length of the shortest hot word that ends there or further on
    ends_hot: Integers  # 1 where a hot word ends
    reals: Array  # (6,) float64, see `kernels.parts.speech`


class TextTerms(NamedTuple):
    """Parameters of a search for texts."""

    width: int  # how many tokens there are, the blank among them
    blank: int
    beam: int  # the most rows
    history: int  # of rows that agree in so many words, and in all behind them, the best is kept; -1: all are
    longest: int  # the most letters of a token
    reals: (
        Array  # (2,) float64: how far below the best row others may be, negative; the least log-probability of tokens
    )


class Parts(NamedTuple):
    """Beginnings of words: part k is a letter behind another part, part 0 has none.  Found by both in `table`."""

    parents: Integers
    letters: Integers
    nodes: Integers  # in the tree of words, see `Speech`
    hots: Integers  # in that of hot words
    lengths: Integers
    table: Integers  # two places a part, a power of two; -1 where one is free
    worths: Array  # float64, as a word that is not finished


class Texts(NamedTuple):
    """Sequences of words: text k is a word, a part, behind another text, text 0 is empty.  Found by both in `table`."""

    parents: Integers
    words: Integers
    contexts: Integers  # the state of the model behind it
    keys: Integers  # of the last words, see `TextTerms.history`
    table: Integers
    values: Array  # float64, what its words are worth


class Spans(NamedTuple):
    """The frames of words: span k is one behind the span of the word before it, -1 where there is none."""

    before: Integers
    firsts: Integers
    ends: Integers


class TextRows(NamedTuple):
    """The beam, before a frame and behind it: ``beam`` rows each, best first."""

    texts: Integers
    parts: Integers
    tokens: Integers  # the last one of the paths, the blank too; -1 at first
    spans: Integers  # of the last whole word
    firsts: Integers  # the frames of the unfinished word, -1 where there is none
    ends: Integers
    paths: Array  # float64, the log-probability of its paths
    scores: Array  # float64, with what its text is worth


class TextPool(NamedTuple):
    """The candidates of a frame, and what a search counts."""

    texts: Integers
    parts: Integers  # or -2 - p where the letters of the token behind part p are in no part yet
    tokens: Integers
    rows: Integers  # the row that a candidate comes from
    steps: Integers  # how it comes from there
    paths: Array  # float64
    scores: Array  # float64
    table: Integers  # candidates by text, part and token, two places each, a power of two
    stamps: Integers  # as many: in which frame a place was taken
    listed: Integers  # (width,) the tokens of a frame
    ended: Integers  # (beam,) the text of each row with its word ended, -1 where nobody has asked
    ids: Integers  # (beam,) for the choice of the best
    values: Array  # (beam,) float64
    counts: Integers  # (8,) rows; which half of them; parts; texts; spans; stamps; candidates; the next frame
