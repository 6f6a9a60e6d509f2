"""N-gram models of words: read, written, asked."""

from __future__ import annotations

import gzip
import json
import mmap
import os
import tempfile
import zlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import BROKEN, KIND, quote
from ..formats import Ragged
from ..launch.kernel import kernel
from .arpa import read_arpa
from .automaton import FILE_DTYPES, build, check_states
from .rows import NGramStates

score_ngrams = kernel("score_ngrams")

LN10 = 2.302585092994046
MAGIC = b"seqformats n-grams 1\n"
_ALIGNMENT = 64
"""The arrays of a file begin at multiples of so many bytes, in which their places are counted."""
HEAD = 64
"""The place of the first array."""


class NGrams:
    r"""An n-gram model of words with back-off, held in arrays; `read` makes one.

    Attributes
    ----------
    order : int
        The words of the longest n-grams.
    words : list of str
        All that it knows, the unknown word ``<unk>`` first.

    See Also
    --------
    ctc.WordModel, ctc.TokenModel : A model in `ctc_beam_search`.

    Notes
    -----
    An n-gram takes 12 bytes, and one that others go on from 12 more.  A model has at most 2 ** 31 - 1 n-grams.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import seqformats as sf
    >>> arpa = r'''
    ... \data\
    ... ngram 1=5
    ... ngram 2=2
    ... \1-grams:
    ... -1.0 <unk>
    ... -99 <s> -0.3
    ... -0.7 </s>
    ... -0.5 hello -0.2
    ... -0.6 world
    ... \2-grams:
    ... -0.1 <s> hello
    ... -0.2 hello world
    ... \end\
    ... '''
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.arpa"
    >>> _ = path.write_text(arpa)
    >>> model = sf.NGrams.read(path)
    >>> model.order, len(model), "world" in model
    (2, 5, True)
    >>> model.log_probs(["hello world", "world"]).to_nested()
    [[-0.2302..., -0.4605..., -1.6118...], [-2.0723..., -1.6118...]]
    """

    def __init__(self, model: Model) -> None:
        if type(model) is not Model:
            raise KIND(f"NGrams.read makes models of files, but this is {quote(model)}")
        self._model = model
        self._known: dict[str, int] | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> NGrams:
        r"""Read a model from a file.

        Parameters
        ----------
        path : str or path
            An ARPA file, as it is or packed by gzip, or a file that `write` has made; which of them, the file says.

        Returns
        -------
        NGrams

        Raises
        ------
        StructureError
            Where the file is damaged, or is another one; of an ARPA file it names the line.
        FileNotFoundError
            Where there is none.

        Notes
        -----
        An ARPA file may have spaces or tabs between words, and ends of lines as on Windows.  ``<UNK>`` is ``<unk>``;
        where there is none, an unknown word has a log10 of -100, as in KenLM.  An n-gram whose context is missing, as
        in pruned models, makes that context, with the probability that back-off gives it.

        A file of `write` is mapped into memory, and its checksum compared, which reads it once.  It must not be written
        to as long as a model is in use; `write` itself puts a new file in its place.
        """
        try:
            name = os.fspath(path)
        except TypeError:
            raise KIND(f"a model is read from a path, not from {quote(path)}") from None
        file = Path(os.fsdecode(name))
        with file.open("rb") as f:
            head = f.read(len(MAGIC))
        if head == MAGIC:
            return cls(_load(file))
        data = file.read_bytes()
        if data[:2] == b"\x1f\x8b":
            try:
                data = gzip.decompress(data)
            except (EOFError, OSError, zlib.error) as error:
                raise BROKEN(f"{file} cannot be unpacked: {error}") from None
        found = read_arpa(data, str(file))
        levels, states, start, end = build(found, str(file))
        return cls(Model(states, levels, found.text, found.ends, start, end))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which `read` maps into memory.

        A file that is there already is replaced once the new one is complete.
        """
        model = self._model
        given = {**model.states._asdict(), "text": model.text, "ends": model.ends}
        arrays = {name: np.ascontiguousarray(x, FILE_DTYPES[name]) for name, x in given.items()}
        table: dict[str, list[Any]] = {}
        place = HEAD
        for name, x in arrays.items():
            table[name] = [FILE_DTYPES[name], x.size, place]
            place += -(-x.nbytes // _ALIGNMENT)
        facts: dict[str, Any] = {"order": model.order, "start": model.start, "end": model.end, "arrays": table}
        facts["sum"] = _checksum(facts, arrays.values())
        file = Path(os.fsdecode(os.fspath(path)))
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as f:
            try:
                f.write(MAGIC + json.dumps(facts).encode() + b"\n")
                for name, x in arrays.items():
                    f.seek(table[name][2] * _ALIGNMENT)
                    f.write(x.data)
                f.truncate(place * _ALIGNMENT)
                f.close()
                Path(f.name).replace(file)
            except BaseException:
                Path(f.name).unlink(missing_ok=True)
                raise

    save = write

    @property
    def order(self) -> int:
        """The words of the longest n-grams."""
        return self._model.order

    @property
    def words(self) -> list[str]:
        """All words that it knows, the unknown one first."""
        return list(self._numbers)

    @property
    def _numbers(self) -> dict[str, int]:
        """The numbers of words, made when they are first asked for."""
        if self._known is None:
            data, ends = self._model.text.tobytes(), self._model.ends.tolist()
            spelled = [data[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(ends)]
            self._known = {word: number for number, word in enumerate(spelled)}
        return self._known

    def __len__(self) -> int:
        return len(self._model.ends) - 1

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def __repr__(self) -> str:
        return f"NGrams(order {self.order}, {len(self)} words, {self._model.states.words.size} n-grams)"

    def log_probs(
        self, lines: Iterable[str | Iterable[str]], *, start: bool = True, end: bool = True
    ) -> Ragged[np.ndarray]:
        """The logarithm of the probability of each word, behind those before it.

        Parameters
        ----------
        lines : sequence of sequences of str, or of str
            The words of each sentence; a str is cut at white space.
        start : bool
            Whether a sentence begins after ``<s>``.
        end : bool
            Whether ``</s>`` is scored after the last word.

        Returns
        -------
        Ragged of float64
            For each sentence a natural logarithm a word, and one for the end.

        Raises
        ------
        TypeError
            If `lines` are no sentences of words.
        """
        given: Any = lines
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise KIND(f"lines must be a sequence of sentences, not {quote(given)}")
        numbers: list[int] = []
        lengths = []
        for line in given:
            words = line.split() if isinstance(line, str) else line
            if not isinstance(words, Iterable):
                raise KIND(f"a sentence must be a str or a sequence of words, not {quote(line)}")
            before = len(numbers)
            for word in words:
                if not isinstance(word, str):
                    raise KIND(f"a word must be a str, not {quote(word)}")
                numbers.append(self._numbers.get(word, 0))
            lengths.append(len(numbers) - before)
        model = self._model
        cum = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        out = np.empty(len(numbers) + (len(lengths) if end else 0))
        first, last = model.start if start else 0, model.end if end else -1
        score_ngrams.run(model.states, np.array(numbers, np.int64), cum, out, first, last)
        return Ragged(out * LN10, np.diff(cum) + (1 if end else 0))


class Model(NamedTuple):
    """An n-gram model in arrays."""

    states: NGramStates
    order: int
    text: Array  # uint8: all words in UTF-8, one after the other
    ends: Array  # (words + 1,) int64: where each begins and ends in it
    start: int  # the state behind <s>
    end: int  # the number of </s>, that of the unknown word if there is none


def _checksum(facts: dict[str, Any], arrays: Iterable[Any]) -> int:
    """Calculate the checksum of what a file holds."""
    found = zlib.crc32(json.dumps(facts).encode())
    for x in arrays:
        found = zlib.crc32(x.data, found)
    return found


def _load(file: Path) -> Model:
    """Map a file of `NGrams.write`; StructureError where it is not as it was written."""
    with file.open("rb") as f:
        whole = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        facts = json.loads(whole[len(MAGIC) : whole.find(b"\n", len(MAGIC))])
        order, start, end = (int(facts[name]) for name in ("order", "start", "end"))
        arrays = {}
        for name, dtype in FILE_DTYPES.items():
            kind, size, place = facts["arrays"][name]
            arrays[name] = np.frombuffer(whole, {dtype: dtype}[kind], int(size), int(place) * _ALIGNMENT)
        is_whole = facts.pop("sum") == _checksum(facts, arrays.values())
        text, ends = arrays.pop("text"), arrays.pop("ends")
        states = NGramStates(**arrays)
    except (KeyError, ValueError, TypeError, OverflowError, AttributeError, RecursionError) as error:
        raise BROKEN(f"{file} is damaged: {type(error).__name__}: {error}") from None
    wrong = check_states(states, text, ends, (order, start, end)) if is_whole else "its checksum is another one"
    if wrong:
        raise BROKEN(f"{file} is damaged: {wrong}")
    return Model(states, order, text, ends, start, end)
