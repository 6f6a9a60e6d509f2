"""Beam search for any model: the loop."""

from __future__ import annotations

from collections.abc import Callable

from ..arrays import Array
from ..errors import KIND, RETURNED, quote
from .decoder import BeamDecoder
from .options import Options, with_options
from .result import BeamResult, BeamState

Step = Callable[[BeamState], tuple[Array, object] | tuple[Array, object, object]]


@with_options(Options)
def beam_search(step: Step, memory: object, options: Options) -> BeamResult:
    """The best sequences of tokens, by a model that scores the next token.

    Parameters
    ----------
    step : callable
        ``step(state) -> (scores, memory)``: the model.  ``scores (rows, vocabulary)`` are logits, one row for each of
        the state; see `BeamState`.  Or ``(scores, memory, kept)``: arrays with those rows, in tuples, lists and dicts,
        which the result has along its hypotheses; see ``BeamResult.kept``.
    memory : arrays, encodings, objects or None, in any containers
        What the model remembers, one row per source at first; see Notes.
    start : int or array of int, optional
        The token before the first one, or an array with one per source; with `prompt` it need not be given.
    end : int, sequence of int, or Ragged
        A token that ends a hypothesis, several, or a `Ragged` with those of each source.
    beam_size, max_new_tokens : int or array of int
        The number of hypotheses to follow for each source, and their maximum length; or an array, one per source.
    prompt : encoding or lists of int, optional
        The tokens before the first new one, at least one per source; the last of them is the start of that source.
        They are in ``state.prompt``, and `NoRepeatNgram`, `RepetitionPenalty` and the phrases of `BannedTokens` see
        them before the tokens of a hypothesis.
    rule : {"hf", "ct2", "fairseq", "marian", "gnmt", "paddle", "greedy"}
        The engine whose rules apply: when hypotheses are finished, how they are scored, and when a source is done; see
        Notes.
    n_best : int
        The maximum number of hypotheses to return for each source.
    length_penalty : float or array of float
        The power of the length that a score is divided by; or an array, one per source.
    coverage : float
        The weight, at least 0, of what a hypothesis loses for inputs without attention; see Notes.
    early_stopping : bool or "never"
        For the rule "hf": False, True or "never".
    patience : float
        For the rule "ct2": a source is done with this many finished hypotheses, in multiples of the beam size.
    min_new_tokens : int or array of int
        The minimum number of tokens before an end; or an array, one per source.
    prune : Prune, optional
        Which candidates are dropped even if the beam has room for them.
    sampling : Sample or Stochastic, optional
        Draw hypotheses by their probabilities instead of searching the best.
    constraints : sequence of constraints
        Limits on the tokens, such as `BannedTokens`.
    shared : arrays or encodings, in any containers
        Memory with one row per source, which does not follow the hypotheses: index it by ``state.source``.
    on_mask : callable, or sequence of callables
        ``f(state) -> mask``: what grammars allow, int32 ``(rows, ceil(vocabulary / 32))`` on the host: bit ``k % 32``
        of ``mask[r, k // 32]`` says whether row r may go on with token k; see Notes.
    on_scores : callable, or sequence of callables
        ``f(scores, state) -> scores``: log-probabilities ``(rows, vocabulary)`` float32 may be changed, -inf for what
        must not be; they are not normalised again.
    on_candidates : callable, or sequence of callables
        ``f(ids, scores, state) -> (ids, scores)``: the best candidates of each row, `LoD` over ``[source -> rows, row
        -> candidates]``, scores those of whole hypotheses, may be removed, changed or added.
    on_selected : callable, or sequence of callables
        ``f(ids, scores, parents, state) -> (ids, scores, parents)``: the same of those that are left, before finished
        ones are taken out; `parents` are their rows.
    trace : bool
        Keep every step in the result.

    Returns
    -------
    BeamResult
        The hypotheses of each source, best first.

    Raises
    ------
    TypeError, StructureError, ConversionError, DeviceError
        For arguments and memories that do not fit.
    ValueError
        If a score is NaN or +inf.

    See Also
    --------
    BeamDecoder : the same as a loop of one's own
    beam_step, beam_backtrace : one step, and the way back, as PaddlePaddle has them

    Notes
    -----
    A hook with a method ``follow(parents, tokens)``, or ``follow(parents)``, is told after every step how rows go on,
    to keep something for each: row r is row ``parents[r]`` of the step before and the token ``tokens[r]``.

    A mask is what xgrammar and llguidance fill.  It holds beside all other limits, and is read where the candidates
    are chosen; no scores are masked for it.  A row of zeros is a hypothesis with no way on, which is dropped.

    A memory follows the hypotheses by itself.  It is None or any of these, in tuples, lists, dicts and dataclasses:

    - arrays of one library and encodings, whose first axis are the rows
    - lists and tuples without any array, one Python object a row
    - objects with a method ``reorder_cache(beam_idx)``, such as the caches of transformers, called where rows move,
      with an array of the library, and on the device, of the scores; or with ``follow(parents, tokens)`` or
      ``follow(parents)``, called after every step with what is then in the state.  What these return takes the
      object's place, unless it is None
    - strings, numbers, functions and modules, which are passed on as they are

    The rules are those of transformers ("hf"), CTranslate2 ("ct2"), fairseq, Marian, GNMT (as tensor2tensor and T5X
    have it) and PaddlePaddle.  With k for `beam_size`:

    - of what has finished, "hf" and "gnmt" keep the k best, "fairseq" the first k, "ct2" and "marian" all, "paddle"
      what stays in the beam beside the live ones
    - a score is the log-probability over ``length ** length_penalty``; of "gnmt" over ``((5 + length) / 6) **
      length_penalty``; of "paddle" and "greedy" nothing divides it
    - a source is done when k have finished ("fairseq", "marian"), or k times `patience`, or without a length penalty
      `n_best` and the best candidate ("ct2"); when no live one can be among the k best any more ("hf", by
      `early_stopping`, and "gnmt"); when none is live ("paddle", "greedy")
    - at `max_new_tokens` live ones count as finished; "fairseq" makes them end, "gnmt" takes them where nothing else
      has finished

    The rule "greedy", with a `beam_size` of 1, is the greedy search that transformers makes of ``num_beams=1``: the
    token with the largest logit, after the constraints, until the first end.  A `beam_size` of 1 under the rule "hf" is
    not: a longer hypothesis may still beat one that has ended, unless ``early_stopping=True``, and a
    `RepetitionPenalty` acts on log-probabilities, where greedy search changes raw logits.

    With a `coverage` the first array that steps keep is attention, floats ``(rows, positions)``, and the score of a
    hypothesis grows by ``coverage * sum(log(min(a, 1)))``, summed over all positions of its source, where a is the
    attention of all its tokens there, the end included.  Hypotheses are ordered by that, draws of a sample too.  It is
    the penalty of GNMT as CTranslate2 has it: positions without any attention are left out, as padding (where an input
    may have none, add a little to its attention); until the hypotheses are finished nothing sees it, nor does `prune`
    or the end of a search, but "ct2" waits for k finished ones whatever the length penalty.

    A result never depends on what else is in the batch.  Of candidates with the same score the earlier row comes first,
    then the smaller token; NaN raises ValueError, -inf is no candidate, and a source without any has no hypothesis.

    On a GPU scores stay there: the best candidates of a step are copied to the host, once, and what follows from them
    goes back.  Nothing has a gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> table = np.log([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])  # the next token by the last one
    >>> found = sf.beam_search(
    ...     lambda state: (table[state.tokens], None), None, start=np.array([1, 2]), end=0, beam_size=2,
    ...     max_new_tokens=5, n_best=2, length_penalty=0)
    >>> found.tokens.to_nested()
    [[[0], [1, 0]], [[0], [2, 0]]]
    >>> np.exp(found.scores).round(3)
    array([0.6  , 0.18 , 0.9  , 0.045], dtype=float32)
    """
    if not callable(step):
        raise KIND(f"step must be a function of the state, not {type(step).__name__}")
    decoder = BeamDecoder._from_options(memory, options)
    while decoder.active:
        returned = step(decoder.state)
        if not isinstance(returned, tuple) or len(returned) not in (2, 3):
            raise RETURNED(f"step must return (scores, memory) or (scores, memory, kept), not {quote(returned)}")
        decoder.step(*returned)
    return decoder.result()
