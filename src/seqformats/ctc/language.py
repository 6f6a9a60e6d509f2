"""A model of words as a decoder holds it, in memory and in a folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..errors import BROKEN, KIND, quote
from .ngrams import NGrams
from .rows import Speech
from .speech import speech_of, strings, with_words

_ATTRIBUTES_FILE, _UNIGRAMS_FILE, _NGRAMS_FILE = "attrs.json", "unigrams.txt", "model.ngrams"
_PARAMETERS = ("alpha", "beta", "unk_score_offset", "score_boundary")


class LanguageModel:
    """An n-gram model, the words that are known, and the parameters of `build_ctcdecoder`, which may be changed.

    Attributes
    ----------
    ngrams : NGrams
    unigrams : list of str
        The words that are known, as far as the model has them.
    alpha, beta, unk_score_offset : float
    score_boundary : bool
    """

    def __init__(
        self,
        ngrams: NGrams,
        unigrams: Iterable[str] | None = None,
        alpha: float = 0.5,
        beta: float = 1.5,
        unk_score_offset: float = -10.0,
        score_boundary: bool = True,
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(ngrams, NGrams):
            raise KIND(f"ngrams must be an NGrams, not {quote(ngrams)}; NGrams.read reads one from a file")
        self.ngrams = ngrams
        listed = None if unigrams is None else set(strings(unigrams, "unigrams"))
        self.unigrams = [word for word in ngrams.words[1:] if listed is None or word in listed]
        self.alpha, self.beta = alpha, beta
        self.unk_score_offset, self.score_boundary = unk_score_offset, score_boundary
        self._path = None if path is None else Path(path)

    def speech(self) -> Speech:
        """Make what kernels take, without tokens; without known words those of the model are, but none that goes on."""
        words, known = self.ngrams.words, set(self.unigrams)
        flags = np.array([number > 0 and word in known for number, word in enumerate(words)])
        speech = with_words(speech_of(self.ngrams, True), words, flags)
        if not known:
            speech = speech._replace(known=(speech.entries > 0).astype(np.int64))
        return speech

    def save_to_dir(self, folder: Path) -> None:
        """Write the parameters, the known words, and a copy of the file of the model, or one of its own."""
        facts = {name: getattr(self, name) for name in _PARAMETERS}
        (folder / _ATTRIBUTES_FILE).write_text(json.dumps(facts), encoding="utf-8")
        (folder / _UNIGRAMS_FILE).write_text("".join(f"{word}\n" for word in sorted(self.unigrams)), encoding="utf-8")
        if self._path is not None and self._path.is_file():
            if (folder / self._path.name).resolve() != self._path.resolve():
                shutil.copy(self._path, folder / self._path.name)
        else:
            self.ngrams.write(folder / _NGRAMS_FILE)

    @classmethod
    def load_from_dir(cls, folder: Path, unigram_encoding: str | None = None) -> LanguageModel:
        """Read what `save_to_dir` has written, here or in pyctcdecode."""
        files = sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "__")))
        models = [name for name in files if name not in (_ATTRIBUTES_FILE, _UNIGRAMS_FILE)]
        if len(files) != 3 or len(models) != 1:
            raise BROKEN(
                f"{folder} must hold {_ATTRIBUTES_FILE}, {_UNIGRAMS_FILE} and the file of a model, "
                f"but holds {quote(files)}"
            )
        try:
            facts = json.loads((folder / _ATTRIBUTES_FILE).read_text(encoding="utf-8"))
            numbers = {name: facts[name] for name in _PARAMETERS}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BROKEN(f"{folder / _ATTRIBUTES_FILE} holds no parameters: {type(error).__name__}: {error}") from None
        try:
            listed = (folder / _UNIGRAMS_FILE).read_text(encoding=unigram_encoding or "utf-8").split("\n")
        except UnicodeError as error:
            raise BROKEN(f"{folder / _UNIGRAMS_FILE} cannot be read: {error}; give its unigram_encoding") from None
        path = folder / models[0]
        return cls(NGrams.read(path), [word for word in listed if word], path=path, **numbers)
