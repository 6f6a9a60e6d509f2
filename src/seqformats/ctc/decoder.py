"""Texts of frames, by the rules, the options and the names of pyctcdecode."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..arrays import Array, is_array, to_host
from ..converters.layouts import check_at_least
from ..errors import BEYOND, DTYPE, KIND, NAN, RANGE, SHAPE, TOGETHER, quote
from ..formats.structure import flag
from ..launch import threads
from ..launch.kernel import cuts
from .alphabet import Alphabet
from .language import LanguageModel
from .ngrams import LN10, NGrams
from .rows import Speech, TextTerms
from .speech import NO_MODEL, finite, strings, with_hot_words, with_labels
from .texts import Found, TextSearch

_MIN_PROBABILITY = 1e-15
"""The minimum probability of a token, as in pyctcdecode."""


class Beam(NamedTuple):
    """A text that a decoder has found.

    Attributes
    ----------
    text : str
    last_lm_state : int or None
        Where the model is behind the last word: the `lm_start_state` of what follows.
    text_frames : list of (str, (int, int))
        Each word, the first of its frames, and the one behind its last.
    logit_score : float
        The log-probability of the paths.
    lm_score : float
        That, and what the words are worth.
    """

    text: str
    last_lm_state: int | None
    text_frames: list[tuple[str, tuple[int, int]]]
    logit_score: float
    lm_score: float


class SafeBeam(NamedTuple):
    """A `Beam` without a state of the model, as `decode_beams_batch` gives it."""

    text: str
    text_frames: list[tuple[str, tuple[int, int]]]
    logit_score: float
    lm_score: float


class BeamSearchDecoderCTC:
    """A decoder of frames into texts, which has the methods of pyctcdecode's; `build_ctcdecoder` makes one.

    Parameters
    ----------
    alphabet : Alphabet
    language_model : LanguageModel, optional

    See Also
    --------
    ctc_beam_search : Labels, by the definition, in any encoding and on GPUs.
    """

    _ALPHABET_SERIALIZED_FILENAME = "alphabet.json"
    _LANGUAGE_MODEL_SERIALIZED_DIRECTORY = "language_model"

    def __init__(self, alphabet: Alphabet, language_model: LanguageModel | None = None) -> None:
        if not isinstance(alphabet, Alphabet):
            raise KIND(f"alphabet must be an Alphabet, not {quote(alphabet)}; build_ctcdecoder makes one of labels")
        if language_model is not None and not isinstance(language_model, LanguageModel):
            raise KIND(f"language_model must be a LanguageModel, not {quote(language_model)}")
        self._alphabet = alphabet
        self._model_key = os.urandom(16)
        self.model_container: dict[bytes, LanguageModel | None] = {self._model_key: language_model}
        self._longest = max(len(text) for text, _ in alphabet.list_spellings())
        self._made: tuple[LanguageModel | None, Speech] | None = None

    @property
    def _model(self) -> LanguageModel | None:
        return self.model_container[self._model_key]

    def reset_params(
        self,
        alpha: float | None = None,
        beta: float | None = None,
        unk_score_offset: float | None = None,
        lm_score_boundary: bool | None = None,
    ) -> None:
        """Change parameters of the model; None leaves one as it is."""
        given = {"alpha": alpha, "beta": beta, "unk_score_offset": unk_score_offset}
        numbers = {name: finite(value, name) for name, value in given.items() if value is not None}
        if lm_score_boundary is not None:
            numbers["score_boundary"] = flag(lm_score_boundary, "lm_score_boundary")
        if self._model is not None:
            vars(self._model).update(numbers)

    def decode(
        self,
        logits: Array,
        beam_width: int = 100,
        beam_prune_logp: float = -10.0,
        token_min_logp: float = -5.0,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
        lm_start_state: int | None = None,
    ) -> str:
        """The best text of frames ``(frames, labels)``; see `decode_beams`, with `prune_history`."""
        options = _Options(beam_width, beam_prune_logp, token_min_logp, True, hotwords, hotword_weight, lm_start_state)
        return " ".join(self._search([logits], options, 1)[0][0].words)

    def decode_batch(
        self,
        pool: object,
        logits_list: Sequence[Array],
        beam_width: int = 100,
        beam_prune_logp: float = -10.0,
        token_min_logp: float = -5.0,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
    ) -> list[str]:
        """The best text of each; see `decode`.  `pool` is not needed, sequences are shared among threads."""
        options = _Options(beam_width, beam_prune_logp, token_min_logp, True, hotwords, hotword_weight, None)
        return [" ".join(beams[0].words) for beams in self._search(logits_list, options, 1)]

    def decode_beams(
        self,
        logits: Array,
        beam_width: int = 100,
        beam_prune_logp: float = -10.0,
        token_min_logp: float = -5.0,
        prune_history: bool = False,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
        lm_start_state: int | None = None,
    ) -> list[Beam]:
        """The texts that are in the beam at the end, best first.

        Parameters
        ----------
        logits : array (frames, labels) of floats
            Logits, log-probabilities, or probabilities, which are told by their sums of 1.
        beam_width : int
            How many beams are kept behind each frame.
        beam_prune_logp : float
            Beams whose score is below the best one's by more than this, a negative number, are dropped.
        token_min_logp : float
            Beams go on with tokens of this log-probability or more, and with the most likely one.
        prune_history : bool
            True to keep only the best of beams that agree in as many last words as the model looks back.
        hotwords : sequence of str, optional
            Words that add `hotword_weight` each time they are said; of phrases each word does.
        hotword_weight : float
        lm_start_state : int, optional
            The `last_lm_state` of the beam of the chunk before this one.

        Returns
        -------
        list of Beam
            Named tuples ``(text, last_lm_state, text_frames, logit_score, lm_score)``.

        Raises
        ------
        TypeError
            For logits that are no floats, and options that are no numbers.
        StructureError
            For logits of another number of labels, and a state that the model does not have.
        ConversionError
            For numbers that cannot be.
        ValueError
            For NaN and +inf among the logits.
        """
        options = _Options(
            beam_width, beam_prune_logp, token_min_logp, prune_history, hotwords, hotword_weight, lm_start_state
        )
        return [self._beam(found) for found in self._search([logits], options, None)[0]]

    def decode_beams_batch(
        self,
        pool: object,
        logits_list: Sequence[Array],
        beam_width: int = 100,
        beam_prune_logp: float = -10.0,
        token_min_logp: float = -5.0,
        prune_history: bool = False,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
    ) -> list[list[SafeBeam]]:
        """The texts of each, as `decode_beams` has them, without states of the model."""
        options = _Options(beam_width, beam_prune_logp, token_min_logp, prune_history, hotwords, hotword_weight, None)
        found = self._search(logits_list, options, None)
        return [[SafeBeam(beam[0], *beam[2:]) for beam in map(self._beam, beams)] for beams in found]

    def save_to_dir(self, filepath: str | os.PathLike[str]) -> None:
        """Write the alphabet and the model into a folder that is there, as pyctcdecode does.

        `load_from_dir` reads it, and pyctcdecode's too if the model is a file that KenLM reads.
        """
        folder = Path(filepath)
        (folder / self._ALPHABET_SERIALIZED_FILENAME).write_text(self._alphabet.dumps(), encoding="utf-8")
        if self._model is not None:
            inner = folder / self._LANGUAGE_MODEL_SERIALIZED_DIRECTORY
            inner.mkdir(exist_ok=True)
            self._model.save_to_dir(inner)

    @classmethod
    def load_from_dir(
        cls, filepath: str | os.PathLike[str], unigram_encoding: str | None = None
    ) -> BeamSearchDecoderCTC:
        """Read what `save_to_dir` has written, here or in pyctcdecode."""
        folder = Path(filepath)
        alphabet = Alphabet.loads((folder / cls._ALPHABET_SERIALIZED_FILENAME).read_text(encoding="utf-8"))
        inner = folder / cls._LANGUAGE_MODEL_SERIALIZED_DIRECTORY
        return cls(alphabet, LanguageModel.load_from_dir(inner, unigram_encoding) if inner.is_dir() else None)

    def _beam(self, found: Found) -> Beam:
        state = None if self._model is None else found.state
        frames = list(zip(found.words, found.frames, strict=True))
        return Beam(" ".join(found.words), state, frames, found.path_score, found.score)

    def _search(self, logits_list: Sequence[Array], options: _Options, n_best: int | None) -> list[list[Found]]:
        """The texts of each sequence of frames."""
        if is_array(logits_list) or not isinstance(logits_list, Iterable):
            raise KIND(f"logits_list must be a sequence of arrays, not {type(logits_list).__name__}")
        given = [self._log_probs(x, k) for k, x in enumerate(logits_list)]
        terms, speech = self._terms(options), self._speech(options)
        found: list[list[Found]] = [[] for _ in given]
        most = terms.beam if n_best is None else n_best

        def search(lo: int, hi: int) -> None:
            memory = TextSearch(terms, speech)
            for k in range(lo, hi):
                found[k] = memory.search(given[k], most)

        if given:
            threads.run(search, (), cuts(len(given), np.array([len(y) + 1 for y in given])))
        return found

    def _log_probs(self, logits: Array, number: int) -> Array:
        """Frames as float64 log-probabilities; see `decode_beams` for the errors."""
        if not is_array(logits):
            raise KIND(f"logits must be an array, not {type(logits).__name__}")
        x = to_host(logits)
        width = len(self._alphabet.labels)
        if x.ndim != 2 or x.shape[1] != width:
            raise SHAPE(f"logits must have shape (frames, {width}), the blank among them, but have {x.shape}")
        if x.dtype.kind != "f":
            raise DTYPE(f"logits must be floats, but have dtype {x.dtype}")
        if not len(x):
            return np.empty((0, width))
        if not (x < np.inf).all():
            t = int((~(x < np.inf)).any(1).argmax())
            raise NAN(f"frame {t} of logits {number} holds NaN or +inf")
        if math.isclose(x.sum(axis=1).mean(), 1):
            logs: Array = np.log(np.clip(x, _MIN_PROBABILITY, 1)).astype(np.float64)
            return logs
        x = x - np.maximum(x.max(axis=1, keepdims=True), np.finfo(x.dtype).min)
        with np.errstate(divide="ignore"):
            x = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        clipped: Array = np.clip(x, math.log(_MIN_PROBABILITY), 0).astype(np.float64)
        return clipped

    def _terms(self, options: _Options) -> TextTerms:
        model = self._model
        history = -1
        if flag(options.prune_history, "prune_history"):
            history = max(1, model.ngrams.order - 1) if model is not None else 1
        prune, least = (
            finite(options.beam_prune_logp, "beam_prune_logp"),
            finite(options.token_min_logp, "token_min_logp"),
        )
        if prune > 0:
            raise RANGE(f"beam_prune_logp must be at most 0, not {quote(options.beam_prune_logp)}")
        beam = check_at_least(options.beam_width, "beam_width", 1)
        alphabet = self._alphabet
        reals = np.array([prune, least])
        return TextTerms(len(alphabet.labels), alphabet.blank, beam, history, self._longest, reals)

    def _speech(self, options: _Options) -> Speech:
        """Make what kernels take; what depends on the model alone is kept."""
        model = self._model
        if self._made is None or self._made[0] is not model:
            speech = NO_MODEL if model is None else model.speech()
            self._made = model, with_labels(speech, self._alphabet.list_spellings())
        hot = [word for phrase in strings(options.hotwords or (), "hotwords") for word in phrase.split()]
        speech = with_hot_words(self._made[1], hot)
        weight = finite(options.hotword_weight, "hotword_weight")
        if model is None:
            if options.lm_start_state is not None:
                raise TOGETHER(f"lm_start_state is {quote(options.lm_start_state)}, but there is no language model")
            return speech._replace(reals=np.array([0, 0, 0, weight, 0, 0.0]))
        unknown = finite(model.unk_score_offset, "unk_score_offset")
        reals = [finite(model.alpha, "alpha") * LN10, finite(model.beta, "beta"), unknown, weight, unknown, 0.0]
        found = model.ngrams._model
        start, end = (found.start, found.end) if flag(model.score_boundary, "lm_score_boundary") else (0, -1)
        if options.lm_start_state is not None:
            start = check_at_least(options.lm_start_state, "lm_start_state", 0)
            if start >= found.states.fails.size:
                raise BEYOND(f"lm_start_state is {start}, but the model has {found.states.fails.size} states")
        return speech._replace(start=start, end=end, reals=np.array(reals))


class _Options(NamedTuple):
    """The options of a call."""

    beam_width: int
    beam_prune_logp: float
    token_min_logp: float
    prune_history: bool
    hotwords: Iterable[str] | None
    hotword_weight: float
    lm_start_state: int | None


def build_ctcdecoder(
    labels: Sequence[str],
    kenlm_model_path: str | os.PathLike[str] | None = None,
    unigrams: Iterable[str] | None = None,
    alpha: float = 0.5,
    beta: float = 1.5,
    unk_score_offset: float = -10.0,
    lm_score_boundary: bool = True,
) -> BeamSearchDecoderCTC:
    """Make a decoder of frames into texts, which has the methods and gives the results of pyctcdecode's.

    Parameters
    ----------
    labels : sequence of str
        What each token writes, see `Alphabet.build_alphabet`.
    kenlm_model_path : str or path, optional
        A file that `NGrams.read` reads.
    unigrams : sequence of str, optional
        The words that are known; None stands for all of the model.
    alpha, beta : float
        The weight of the model, and what every word adds.
    unk_score_offset : float
        What is added to the log10 of an unknown word, before `alpha`.
    lm_score_boundary : bool
        True if a text begins behind ``<s>``, and ``</s>`` is scored where it ends.

    Returns
    -------
    BeamSearchDecoderCTC
        With `decode`, `decode_beams`, `decode_batch`, `decode_beams_batch`, `reset_params`, `save_to_dir` and
        `load_from_dir`.

    Raises
    ------
    TypeError
        For labels that are no str, and numbers that are none.
    StructureError
        For labels that are there twice, and files that cannot be read.

    See Also
    --------
    ctc_beam_search : Labels, by the definition, in any encoding and on GPUs.
    as_pyctcdecode : For code that imports pyctcdecode itself.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> decoder = sf.ctc.build_ctcdecoder(["", " ", "a", "b"])
    >>> frames = np.log([[0.1, 0.1, 0.7, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
    >>> decoder.decode(frames)
    'a b'
    >>> decoder.decode_beams(frames)[0].text_frames
    [('a', (0, 1)), ('b', (2, 3))]
    """
    alphabet = Alphabet.build_alphabet(labels)
    numbers = finite(alpha, "alpha"), finite(beta, "beta"), finite(unk_score_offset, "unk_score_offset")
    boundary = flag(lm_score_boundary, "lm_score_boundary")
    if kenlm_model_path is None:
        return BeamSearchDecoderCTC(alphabet)
    model = NGrams.read(kenlm_model_path)
    language = LanguageModel(model, unigrams, *numbers, boundary, path=kenlm_model_path)
    return BeamSearchDecoderCTC(alphabet, language)
