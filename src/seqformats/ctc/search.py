"""The most likely labels, by prefix beam search."""

from __future__ import annotations

import math

import numpy as np

from ..beam.rules import number
from ..beam.trie import Trie
from ..converters.layouts import check_at_least
from ..errors import KIND, RANGE, ROOM, quote
from ..formats import LoD
from ..formats.structure import flag
from ..operations.annotations import Batch
from .frames import frames_of
from .fusion import OnNew, search_with
from .lexicon import NO_GUIDE, guide_of
from .prefixes import found_by, prefixes_of
from .rescore import rescore
from .result import CTCResult
from .rows import PrefixTerms
from .speech import TokenModel, WordModel

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
    lexicon: Trie | None = None,
    on_new: OnNew | None = None,
    lm: TokenModel | WordModel | None = None,
    exact: bool = False,
    normalised: bool = True,
) -> CTCResult:
    """The most likely labels of every sequence of frames, by prefix beam search.

    A path is a token for each frame; its label is what is left without repeats, and then without blanks.  A label is as
    likely as all its paths together, which a beam of prefixes adds up frame by frame.

    Parameters
    ----------
    log_probs : an encoding, a list of arrays or nested lists
        Items ``(V,)`` of floats, the log-probability of every token in a frame, of two tokens at least.
    blank : int
        The token that stands for none.
    beam_size : int
        How many prefixes of each source are kept behind each frame.
    n_best : int
        How many labels of each source are returned, if there are so many; at most `beam_size`.
    token_beam : int, optional
        Prefixes go on with so many tokens of a frame, the most likely ones; the blank is not among them.
    token_threshold : float, optional
        Prefixes go on with tokens of this log-probability or more, and with the most likely one.
    threshold : float, optional
        Prefixes whose score is below the best one's by more than this are dropped.
    token_bonus : float
        What every token adds to the score of a label, so that longer ones are not at a disadvantage.
    lexicon : Trie or sequences of tokens, optional
        The words of which labels are made, one after the other; see Notes.
    on_new : function, optional
        Called as ``on_new(state)`` with a `CTCState` of the prefixes that are new in the beams: before the first frame,
        and behind each that has brought some.  It returns an array ``(rows, V)``: what each token adds to the score
        where it comes behind the prefix, and in the column of the blank what it adds that the label ends there.  -inf
        forbids.
    lm : ctc.WordModel or ctc.TokenModel, optional
        An n-gram model that scores words or tokens inside of the search.
    exact : bool
        True to score the labels that are left in the beam by all their paths, and to order them anew.  Else a label
        lacks those that came through prefixes that were not in the beam.
    normalised : bool
        False where these are logits, of which log-softmax is taken here.

    Returns
    -------
    CTCResult
        `tokens` and `times` are `LoD` over ``[source -> hypotheses, hypothesis -> tokens]``, best first, below the
        outer levels of a `LoD`.  `scores` are the log-probability of all paths that the beam has added up, and what
        `token_bonus`, `lm` and `on_new` have added; `path_scores` are without that.  A source has no hypothesis where
        no path is possible, or none of whole words is in the beam.

    Raises
    ------
    TypeError
        For frames that are no floats, and options that are no numbers, words or functions.
    StructureError
        For items of another number of axes, a blank that is no token, a lexicon that cannot be one, a model of another
        number of tokens, and other shapes from `on_new`.
    ConversionError
        For numbers that cannot be.
    ValueError
        For NaN and +inf, and for a log-probability above a rounding of 0 (see `ctc_greedy`), with the source and the
        frame; for NaN and +inf from `on_new`.

    See Also
    --------
    ctc_greedy : The label of the most likely path.
    ctc.build_ctcdecoder : Texts, by the rules of pyctcdecode.
    beam_search : For models that see what they have said.

    Notes
    -----
    A prefix has the sum of its paths that end in a blank, and of those that end in its last token, in float64 (Graves
    2012; Hannun, Maas, Jurafsky and Ng 2014, arXiv 1408.2873).  With a frame it stays, or goes on with a token; paths
    that come to the same label from two prefixes are added up before anything is dropped.  A prefix always can stay:
    the blank and its last token are never left out by `token_beam` and `token_threshold`.

    Of prefixes with the same score those that stay come before new ones, the new ones by the prefix that they go on
    from and then by token; prefixes keep this order.  A result depends on its own source alone.  The times are those of
    the most likely path of each label that the beam has seen.

    With a lexicon a label is a hypothesis if it can be read as words, in one way or in several: it is one hypothesis,
    and has each of its paths once.  Where a word ends another one may begin, and a longer word go on.  (Decoders that
    score words one by one have a hypothesis for each way to read a label.)  Of a `Trie` what this needs is kept, so
    make one of a large lexicon.

    A source without frames has the empty label, with score 0.  Half precision is calculated in float32 up to here.
    Each thread that works on some sources keeps about 80 bytes for each frame of the longest one and place of the beam;
    all together 256 MiB at most, or what a single one needs.  With `on_new` all sources keep theirs at the same time.
    On a GPU a source is the work of one thread, and a model is copied there by each call.  Nothing has a gradient.

    Examples
    --------
    The best path says nothing, though most paths say 1:

    >>> import numpy as np
    >>> import seqformats as sf
    >>> frames = sf.Ragged(np.log([[0.6, 0.4], [0.6, 0.4]]), [2])
    >>> sf.ctc_greedy(frames).tokens.to_nested()
    [[]]
    >>> found = sf.ctc_beam_search(frames, beam_size=4, n_best=2)
    >>> found.tokens.to_nested(), np.exp(found.scores).round(2)
    ([[[1], []]], array([0.64, 0.36], dtype=float32))
    """
    frames = frames_of(log_probs, blank)
    guide = guide_of(lexicon, frames)
    if on_new is not None and not callable(on_new):
        raise KIND(f"on_new must be a function, not {type(on_new).__name__}")
    if lm is not None and not isinstance(lm, (TokenModel, WordModel)):
        raise KIND(f"lm must be a ctc.WordModel or a ctc.TokenModel, not {quote(lm)}")
    speech = None if lm is None else lm._match(frames)
    beam = check_at_least(beam_size, "beam_size", 1)
    best = check_at_least(n_best, "n_best", 1)
    if best > beam:
        raise ROOM(f"n_best is {best}, but the beams have {beam} places")
    all_paths = flag(exact, "exact")
    reals = [
        _real(token_threshold, "token_threshold", -math.inf),
        _real(threshold, "threshold", math.inf),
        _real(token_bonus, "token_bonus"),
        -math.inf,
    ]
    if reals[1] < 0:
        raise RANGE(f"threshold must be at least 0, not {quote(threshold)}")
    terms = PrefixTerms(
        width=frames.width,
        blank=frames.blank,
        logits=frames.logits(normalised),
        beam=beam,
        n_best=beam if all_paths else best,
        token_beam=frames.width if token_beam is None else check_at_least(token_beam, "token_beam", 1),
        spelled=int(guide is not NO_GUIDE),
        fused=int(on_new is not None),
        first=0,
        last=_ALL,
        shares=NO_GUIDE.begin,
        places=NO_GUIDE.begin,
        reals=np.array(reals),
    )
    search = prefixes_of(frames, terms, guide, speech, alone=on_new is not None)
    if frames.structure.n and on_new is not None:
        search_with(search, on_new)
    elif frames.structure.n:
        search.run(0, _ALL, guide)
    found = found_by(search)
    if all_paths:
        found = rescore(frames, found, best, terms.logits)
    levels = (*frames.levels[:-1], found.sources, found.labels)
    return CTCResult(
        LoD._from_levels(found.tokens, levels), found.scores, LoD._from_levels(found.times, levels), found.path_scores
    )


def _real(value: object, what: str, default: float | None = None) -> float:
    """A finite number, or the default where it is None."""
    if value is None and default is not None:
        return default
    found = number(value, what)
    if not math.isfinite(found):
        raise RANGE(f"{what} must be finite, not {quote(value)}")
    return found
