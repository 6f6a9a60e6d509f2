"""Models of words or of tokens in the search for labels."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..arrays import Array
from ..beam.rules import number
from ..beam.trie import Trie
from ..errors import COUNTS, KIND, RANGE, quote
from ..formats import Ragged
from ..formats.structure import flag
from .frames import Frames
from .ngrams import LN10, NGrams, score_ngrams
from .rows import NGramStates, Speech

_NONE = np.empty(0, np.int64)
_FEW, _LOGS = np.empty(0, np.int32), np.empty(0, np.float32)
NO_STATES = NGramStates(_FEW, _FEW, _LOGS, _FEW, _LOGS, _FEW)
_MORE: Any = (*[_NONE] * 14, np.empty(0))
NO_SPEECH = Speech(*NO_STATES, 0, 0, -1, *_MORE)
"""Arguments of a search without a model."""

_ONE = np.zeros(1, np.int64)
NO_MODEL = NO_SPEECH._replace(
    begin=np.array([0, 1], np.int32),
    words=np.zeros(1, np.int32),
    logs=np.zeros(1, np.float32),
    nexts=np.zeros(1, np.int32),
    weights=np.zeros(1, np.float32),
    fails=np.zeros(1, np.int32),
    heads=_ONE + 1,
    tails=_ONE + 1,
    marks=_ONE - 1,
    entries=_ONE,
    known=_ONE + 2,
)
"""A model of one word, the unknown one, which is certain, and may begin in any way: words are worth nothing."""

LM = TypeVar("LM", bound="_Model")


class _Model:
    """Base of both kinds of models, with what they have in common."""

    def __init__(self, model: NGrams, alpha: float, beta: float, boundary: bool, labels: Sequence[str]) -> None:
        if not isinstance(model, NGrams):
            raise KIND(f"model must be an NGrams, not {quote(model)}; NGrams.read reads one from a file")
        self.model = model
        self.labels = strings(labels, "labels")
        self.alpha, self.beta = finite(alpha, "alpha"), finite(beta, "beta")
        self.boundary = flag(boundary, "boundary")
        self._speech = NO_SPEECH

    def after(self: LM, words: str | Iterable[str]) -> LM:
        """Make the same model for labels that go on behind these words, as those of the next chunk of a recording.

        Parameters
        ----------
        words : str or sequence of str
            Whole words (of a `TokenModel`: tokens); a str is cut at white space.  They follow what the model itself
            begins behind.
        """
        if not isinstance(words, Iterable):
            raise KIND(f"words must be a str or a sequence of words, not {quote(words)}")
        found = copy.copy(self)
        start = state_after(self.model, self._speech.start, words.split() if isinstance(words, str) else words)
        found._speech = self._speech._replace(start=start)
        return found

    def _match(self, frames: Frames) -> Speech:
        """Return what kernels take; StructureError where the frames have another number of tokens."""
        if len(self.labels) != frames.width:
            raise COUNTS(f"lm has {len(self.labels)} labels, but log_probs are of {frames.width} tokens")
        return self._speech

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, {len(self.labels)} labels, alpha={self.alpha}, beta={self.beta})"


class TokenModel(_Model):
    r"""An n-gram model whose words are the tokens of a search.

    Every token adds ``alpha * log p + beta`` to the score of a label, behind the tokens before it.

    Parameters
    ----------
    model : NGrams
        A model over the names of tokens.
    labels : sequence of str
        The name of each token, the blank's too, which is not looked at.  A name that the model does not know is its
        unknown word.
    alpha, beta : float
        The weight of the model, and what every token adds.
    boundary : bool
        True if a label begins behind ``<s>``, and ``</s>`` is scored where it ends.

    Raises
    ------
    TypeError
        For other kinds of arguments.
    ConversionError
        For weights that are not finite.

    See Also
    --------
    WordModel : For words that several tokens spell.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import seqformats as sf
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "letters.arpa"
    >>> _ = path.write_text("\\data\\\nngram 1=3\n\\1-grams:\n-2 <unk>\n-1 a\n-0.1 b\n\\end\\")
    >>> lm = sf.ctc.TokenModel(sf.NGrams.read(path), ["", "a", "b"], boundary=False)
    >>> frames = sf.Ragged(np.log([[0.1, 0.5, 0.4]]), [1])
    >>> sf.ctc_beam_search(frames, beam_size=3).tokens.to_nested()
    [[[1]]]
    >>> sf.ctc_beam_search(frames, beam_size=3, lm=lm).tokens.to_nested()
    [[[2]]]
    """

    def __init__(
        self, model: NGrams, labels: Sequence[str], *, alpha: float = 0.5, beta: float = 0.0, boundary: bool = True
    ) -> None:
        super().__init__(model, alpha, beta, boundary, labels)
        numbers = np.array([model._numbers.get(name, 0) for name in self.labels], np.int64)
        reals = [self.alpha * LN10, self.beta, 0.0, 0.0, 0.0, _find_most(model, self.alpha, max(self.beta, 0.0))]
        self._speech = speech_of(model, self.boundary)._replace(numbers=numbers, reals=np.array(reals))


class WordModel(_Model):
    r"""An n-gram model of words that the tokens of a search spell.

    A word is scored where it ends, with ``alpha * log p + beta``, natural logarithms, behind the words before it.

    Parameters
    ----------
    model : NGrams
        A model of words.
    labels : sequence of str
        What each token writes, the blank's name not being looked at.  If there are some with "▁" (U+2581) at their
        beginning, such a token begins a word, and the sign itself is not written.  Else ``" "`` ends a word, or
        ``"|"`` where there is no ``" "``.
    alpha, beta : float
        The weight of the model, and what every word adds.
    unknown : float
        What is added to the log10 of a word that the model does not know, before `alpha`.
    boundary : bool
        True if a label begins behind ``<s>``, and ``</s>`` is scored where it ends.
    hot_words : sequence of str
        Words that add `hot_weight` each time they are said; of phrases each word does.
    hot_weight : float

    Raises
    ------
    TypeError
        For other kinds of arguments.
    ConversionError
        For weights that are not finite.

    See Also
    --------
    TokenModel : Where the tokens themselves are the words.

    Notes
    -----
    An unfinished word counts what it may become: as much of the weight of a hot word as is spelled, and the cost of an
    unknown one where no known word begins so.  That is taken back when the word ends, so it decides who stays in the
    beam, and is no part of a score.

    Labels that write the same text with other tokens, as with two spaces, are different ones.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import seqformats as sf
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "words.arpa"
    >>> _ = path.write_text("\\data\\\nngram 1=2\n\\1-grams:\n-2 <unk>\n-0.3 ab\n\\end\\")
    >>> lm = sf.ctc.WordModel(sf.NGrams.read(path), ["", " ", "a", "b"], boundary=False)
    >>> frames = sf.Ragged(np.log([[0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.6, 0.2]]), [2])
    >>> sf.ctc_beam_search(frames, beam_size=9).tokens.to_nested()
    [[[2]]]
    >>> sf.ctc_beam_search(frames, beam_size=9, lm=lm).tokens.to_nested()
    [[[2, 3]]]
    """

    def __init__(
        self,
        model: NGrams,
        labels: Sequence[str],
        *,
        alpha: float = 0.5,
        beta: float = 1.5,
        unknown: float = -10.0,
        boundary: bool = True,
        hot_words: Iterable[str] = (),
        hot_weight: float = 10.0,
    ) -> None:
        super().__init__(model, alpha, beta, boundary, labels)
        self.unknown, self.hot_weight = finite(unknown, "unknown"), finite(hot_weight, "hot_weight")
        self.hot_words = tuple(word for phrase in strings(hot_words, "hot_words") for word in phrase.split())
        words = model.words
        known = np.ones(len(words), np.bool_)
        known[0] = False
        cost = self.alpha * LN10 * self.unknown
        most = max(self.beta, 0.0) + (2 * max(self.hot_weight, 0.0) if self.hot_words else 0.0)
        most = _find_most(model, self.alpha, most) if cost <= 0 else math.inf
        reals = [self.alpha * LN10, self.beta, self.unknown, self.hot_weight, cost, most]
        speech = with_words(speech_of(model, self.boundary), words, known)
        speech = with_labels(with_hot_words(speech, self.hot_words), _spell(self.labels))
        self._speech = speech._replace(by_words=1, reals=np.array(reals))


def _spell(labels: Sequence[str]) -> list[tuple[str, int]]:
    """List what each token writes, and whether it ends a word (1), begins one (2) or does neither."""
    if any(label.startswith("▁") for label in labels):
        return [(label.lstrip("▁"), 2) if label.startswith("▁") else (label, 0) for label in labels]
    space = " " if " " in labels else "|"
    return [("", 1) if label == space else (label, 0) for label in labels]


def _find_most(model: NGrams, alpha: float, rest: float) -> float:
    """The most that a token can add: no probability is above 1, but back-off weights may be."""
    if alpha < 0:
        return math.inf
    weights = model._model.states.weights
    return alpha * LN10 * (model.order - 1) * max(float(weights.max(initial=0.0)), 0.0) + rest


def speech_of(model: NGrams, boundary: bool) -> Speech:
    """A model for kernels, without words and tokens."""
    found = model._model
    start, end = (found.start, found.end) if boundary else (0, -1)
    return NO_SPEECH._replace(**found.states._asdict())._replace(start=start, end=end)


def with_labels(speech: Speech, spelled: Sequence[tuple[str, int]]) -> Speech:
    """Add to a model what each token writes, and whether it ends a word (1), begins one (2) or does neither."""
    letters, lengths = letters_of([text for text, _ in spelled])
    places = np.concatenate([[0], np.cumsum(lengths)])
    return speech._replace(opens=np.array([opens for _, opens in spelled], np.int64), places=places, letters=letters)


def with_words(speech: Speech, words: Sequence[str], known: Array) -> Speech:
    """Add to a model a tree of words, whose numbers in the model are their places.

    ``known`` says which words are no unknown ones.
    """
    trie, steps, ends = _tree(words)
    entries, flags = np.zeros((2, trie.tokens.size), np.int64)
    flags[0] = 2 if known.any() else 0
    for which, nodes in steps:
        flags[nodes[known[which]]] = 2
    flags[ends[known]] |= 1
    entries[ends] = np.arange(len(words))
    return speech._replace(heads=trie.begin, tails=trie.end, marks=trie.tokens, entries=entries, known=flags)


def with_hot_words(speech: Speech, hot_words: Iterable[str]) -> Speech:
    """Return a `Speech` with a tree of hot words beside what it has.

    For each node of the tree it keeps the length of the shortest word below it, and whether a word ends there.
    """
    words = sorted({word for word in hot_words if word})
    trie, steps, ends = _tree(words)
    shortest = np.full(trie.tokens.size, np.iinfo(np.int64).max)
    lengths = np.array([len(word) for word in words], np.int64)
    for which, nodes in steps:
        np.minimum.at(shortest, nodes, lengths[which])
    ends_hot = np.zeros(trie.tokens.size, np.int64)
    ends_hot[ends] = 1
    return speech._replace(
        hot_heads=trie.begin, hot_tails=trie.end, hot_marks=trie.tokens, shortest=shortest, ends_hot=ends_hot
    )


def _tree(words: Sequence[str]) -> tuple[Trie, list[tuple[Array, Array]], Array]:
    """A tree of letters of words; for each place in a word, the words that go so far and their nodes; their ends."""
    letters, lengths = letters_of(words)
    sequences = Ragged(letters, lengths)
    trie = Trie(sequences)
    steps, ends, starts = [], np.zeros(lengths.size, np.int64), sequences.offsets[:-1]
    which = np.arange(lengths.size)
    for depth in range(int(lengths.max(initial=0))):
        which = which[lengths[which] > depth]
        ends[which] = trie.child(ends[which], letters[starts[which] + depth])
        steps.append((which, ends[which]))
    return trie, steps, ends


def letters_of(texts: Sequence[str]) -> tuple[Array, Array]:
    """The code points of all texts, one after the other, and how many each has."""
    letters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)
    return letters, np.array([len(text) for text in texts], np.int64)


def state_after(model: NGrams, start: int, words: Iterable[str]) -> int:
    """The state of a model behind some words."""
    numbers = np.array([model._numbers.get(word, 0) for word in words], np.int64)
    out = np.empty(numbers.size)
    state = score_ngrams.run(model._model.states, numbers, np.array([0, numbers.size]), out, start, -1)
    return int(state)


def strings(given: Iterable[str], what: str) -> tuple[str, ...]:
    """Some strings, looked at; TypeError where these are none."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise KIND(f"{what} must be a sequence of str, not {quote(given)}")
    found = tuple(given)
    for text in found:
        if not isinstance(text, str):
            raise KIND(f"{what} must be str, but {quote(text)} is among them")
    return found


def finite(value: object, what: str) -> float:
    """A finite number, looked at."""
    found = number(value, what)
    if not math.isfinite(found):
        raise RANGE(f"{what} must be finite, not {quote(value)}")
    return found
