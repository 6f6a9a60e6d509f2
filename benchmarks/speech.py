"""Speech: texts of frames with a language model, beside pyctcdecode with KenLM, and errors of two texts alone."""

import functools
import logging
import pathlib
import re
import tempfile
from collections import Counter
from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, operation
from .data import Batch
from .peers import jiwer, pyctcdecode

LABELS = ["<pad>", "|", *"abcdefghijklmnopqrstuvwxyz'"]
DISCOUNT = 0.7


@functools.cache
def sentences() -> list[list[str]]:
    """Those of Python's own help."""
    from pydoc_data.topics import topics

    parts = re.split(r"[.?!:;]|\n\s*\n", "\n\n".join(topics.values()).lower())
    return [words for part in parts if len(words := re.findall(r"[a-z]+(?:'[a-z]+)?", part)) > 5]


@functools.cache
def model(order: int) -> str:
    """The path of an ARPA file: absolute discounting, interpolated (Ney, Essen, Kneser 1994)."""
    counts: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(order)]
    for words in sentences():
        line = ["<s>", *words, "</s>"]
        for n, table in enumerate(counts):
            table.update(tuple(line[k : k + n + 1]) for k in range(len(line) - n))
    behind: list[Counter[tuple[str, ...]]] = []  # of each context: all that comes behind it, and how many kinds
    kinds: list[Counter[tuple[str, ...]]] = []
    for table in counts:
        behind.append(Counter())
        kinds.append(Counter(gram[:-1] for gram in table))
        for gram, count in table.items():
            behind[-1][gram[:-1]] += count
    logs: list[dict[tuple[str, ...], float]] = []
    for n, table in enumerate(counts):
        own = {}
        for gram, count in table.items():
            context = gram[:-1]
            lower = logs[n - 1][gram[1:]] if n else 1 / (len(table) + 1)
            left = DISCOUNT * kinds[n][context] / behind[n][context]
            own[gram] = (count - DISCOUNT) / behind[n][context] + left * lower
        logs.append(own)
    logs[0]["<unk>",] = DISCOUNT * kinds[0][()] / behind[0][()] / (len(counts[0]) + 1)
    lines = ["\\data\\", *(f"ngram {n}={len(shares)}" for n, shares in enumerate(logs, 1))]
    for n, shares in enumerate(logs, 1):
        lines += ["", f"\\{n}-grams:"]
        for gram, share in shares.items():
            weight = ""
            if n < order and kinds[n][gram]:
                weight = f"\t{np.log10(DISCOUNT * kinds[n][gram] / behind[n][gram]):.6f}"
            lines.append(f"{np.log10(share):.6f}\t{' '.join(gram)}{weight}")
    path = pathlib.Path(tempfile.mkdtemp()) / f"{order}.arpa"
    path.write_text("\n".join([*lines, "", "\\end\\", ""]))
    return str(path)


def spoken(words: list[str], rng: np.random.Generator) -> np.ndarray:
    """Logits as of a model that hears well: a peak or two a letter, blanks between, and letters that sound alike."""
    rows = []
    for letter in "|".join(words):
        for token in [0] * rng.integers(0, 4) + [LABELS.index(letter)] * rng.integers(1, 3):
            row = rng.standard_normal(len(LABELS)) * 0.7
            row[token] += (sure := rng.uniform(4, 10))
            row[1 + (token * 7 + 3) % (len(LABELS) - 1)] += max(sure - rng.uniform(0, 6), 0)
            rows.append(row)
    return np.array(rows, np.float32)


@functools.cache
def decoder_of(library: Any, order: int) -> Any:
    """A decoder with a model; pyctcdecode's log of words that its lists lack is not asked for."""
    logging.getLogger("pyctcdecode").setLevel(logging.ERROR)
    return library.build_ctcdecoder(LABELS, model(order))


def decoding(name: str, order: int) -> None:
    """Declare an operation of the decoder on eight sentences."""

    @operation(f"{name}, {order}-grams", ["small"], arrays=("NumPy",), cuda=False)
    def _(b: Batch) -> Case:  # noqa: ARG001  sentences are as long as they are
        rng = np.random.default_rng(9)
        frames = [spoken(sentences()[k], rng) for k in rng.choice(len(sentences()), 8, replace=False)]

        def texts(library: Any) -> Any:
            decoder = decoder_of(library, order)
            if name == "decode":
                return [decoder.decode(x) for x in frames]
            return [decoder.decode_beams(x)[0][0] for x in frames]

        def letters(found: list[str]) -> np.ndarray:
            return np.frombuffer("\n".join(found).encode(), np.uint8)

        return Case(lambda: texts(sf.ctc), {"pyctcdecode": lambda: texts(pyctcdecode)}, read=letters)


for _name in ("decode", "decode_beams"):
    for _order in (3, 5):
        decoding(_name, _order)


def of_two(name: str) -> None:
    """Declare the errors of one text beside one."""

    @operation(f"{name}, two texts", ["tiny"], arrays=("NumPy",), cuda=False)
    def _(b: Batch) -> Case:  # noqa: ARG001  texts are of lengths of their own
        wanted = "the quick brown fox jumps over the lazy dog and runs away"
        said = "the quick browns fox jumped over lazy dog and then runs away"
        ours, theirs = getattr(sf, name), getattr(jiwer, name)
        return Case(
            lambda: ours(references=wanted, hypotheses=said).rate,
            {"jiwer": lambda: theirs(wanted, said)},
            read=np.float64,
            exact=False,
        )


for _name in ("wer", "cer"):
    of_two(_name)
