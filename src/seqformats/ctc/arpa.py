"""ARPA files of n-gram models, as SRILM and KenLM write them (SRILM's manual page ngram-format(5))."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import BROKEN, OVERFLOW, quote
from ..launch.kernel import kernel
from .rows import Section, Vocabulary

read_ngrams = kernel("read_ngrams")

WRONG = (
    "",
    "begins with no finite number, or ends with none",
    "has another number of words",
    "has a word that is no 1-gram",
    "stands where another one was expected",
    "was there before",
    "has a probability above 1",
)
"""Faults that an n-gram may have, by the numbers of the kernel."""
UNKNOWN = b"<unk>"


class Level(NamedTuple):
    """The n-grams of one order."""

    words: Array  # (count, order) int32, the numbers of words
    logs: Array  # (count,) float32, log10 of probabilities; NaN: what back-off gives
    weights: Array  # (count,) float32, log10 of back-off weights


class Arpa(NamedTuple):
    """The contents of an ARPA file."""

    levels: list[Level]
    text: Array  # uint8: all words, one after the other
    ends: Array  # (words + 1,) int64: where each begins and ends in it


def read_arpa(data: bytes, name: str) -> Arpa:
    """Read the contents of a file; StructureError with the line where they are wrong."""
    place = data.find(b"\\data\\")
    if place < 0:
        raise BROKEN(f"{name} has no line \\data\\, so it is neither an ARPA file nor one that NGrams.write has made")
    place = _behind_line(data, place)
    counts, place = _read_counts(data, place, name)
    text = np.frombuffer(data + UNKNOWN, np.uint8)
    size = 1 << (2 * counts[0] + 4).bit_length()
    table = np.full(size, -1, np.int64)
    begins, ends = np.zeros((2, counts[0] + 2), np.int64)
    begins[0], ends[0] = len(data), len(data) + len(UNKNOWN)
    known, seen = 1, np.zeros(1, np.int64)
    levels = []
    for order, count in enumerate(counts, 1):
        title = b"\\%d-grams:" % order
        begin = data.find(title, place)
        if begin < 0 or data[place:begin].strip():
            raise _wrong(data, place, name, f"{title.decode()} was expected here")
        place = _behind_line(data, begin)
        words = np.empty(count * order, np.int32)
        logs, weights = np.empty((2, count), np.float32)
        vocabulary = Vocabulary(table, begins, ends, seen, np.empty(2 * order + 4, np.int64))
        place, wrong, known = read_ngrams.run(text, place, order, known, Section(words, logs, weights), vocabulary)
        if wrong:
            raise _wrong(data, place, name, f"the {order}-gram {WRONG[wrong]}")
        levels.append(Level(words.reshape(count, order), logs, weights))
    end = data.find(b"\\end\\", place)
    if end < 0 or data[place:end].strip():
        raise _wrong(data, place, name, f"\\end\\ was expected here, behind {counts[-1]} {len(counts)}-grams")
    spelled = [data[a:b] for a, b in zip(begins[1:known].tolist(), ends[1:known].tolist(), strict=True)]
    spelled.insert(0, UNKNOWN)
    bounds = np.concatenate([[0], np.cumsum([len(word) for word in spelled])])
    return Arpa(levels, np.frombuffer(b"".join(spelled), np.uint8), bounds)


def _read_counts(data: bytes, place: int, name: str) -> tuple[list[int], int]:
    """Read how many n-grams of each order there are, and find the place of the first section."""
    counts: list[int] = []
    while True:
        behind = _behind_line(data, place)
        line = data[place:behind].strip()
        if line.startswith(b"\\") or (not line and behind >= len(data)):
            break
        found = re.fullmatch(rb"ngram\s+(\d{1,4})\s*=\s*(\d{1,18})", line)
        if line and (found is None or int(found[1]) != len(counts) + 1):
            raise _wrong(data, place, name, f"'ngram {len(counts) + 1}=' was expected here, not {quote(line[:60])}")
        if found is not None:
            counts.append(int(found[2]))
            if counts[-1] * (len(counts) + 1) > len(data):  # each takes two bytes a word, and two for its number
                raise _wrong(data, place, name, f"there are {counts[-1]} {len(counts)}-grams, more than the file holds")
        place = behind
    if not counts or not counts[0]:
        raise _wrong(data, place, name, "the number of 1-grams was expected here")
    if sum(counts) >= 1 << 31:
        raise OVERFLOW(f"{name} has {sum(counts)} n-grams, but a model holds at most {(1 << 31) - 1}")
    return counts, place


def _behind_line(data: bytes, place: int) -> int:
    """Find where the next line begins."""
    return data.find(b"\n", place) + 1 or len(data)


def _wrong(data: bytes, place: int, name: str, words: str) -> Exception:
    """The error of the line at a place, or of the next one that is not empty."""
    while place < len(data) and data[place : place + 1].isspace():
        place += 1
    line = data.count(b"\n", 0, place) + 1
    if place >= len(data):
        return BROKEN(f"{name} ends in line {line}, which is too early: {words}")
    return BROKEN(f"{name}, line {line}: {words}")
