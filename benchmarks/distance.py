"""Edit distances of pairs of sequences, tokens of a vocabulary of 30,000, and error rates of texts."""

from __future__ import annotations

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, operation
from .data import Batch
from .peers import jiwer, rapidfuzz

EDITED = 0.3
"""The part of the tokens that is another one in the second sequence, whose length is that of another one, too."""


def pair(b: Batch) -> tuple[sf.Ragged, sf.Ragged]:
    """What was said, and what was wanted."""
    rng = np.random.default_rng(6)
    said = sf.Ragged(rng.integers(0, 30_000, b.rows), b.lengths)
    kept = np.minimum(b.lengths, rng.permutation(b.lengths))
    wanted = sf.slice(said, 0, kept).data.copy()
    wanted[rng.random(wanted.size) < EDITED] = 0
    return said, sf.Ragged(wanted, kept)


def by_rows(x: Any, y: Any, lengths: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The table of all pairs at once, row by row, on rectangles."""
    n, width = y.shape
    steps = np.arange(width + 1, dtype=np.int32)
    row = np.broadcast_to(steps, (n, width + 1)).copy()
    out = others.copy()
    for i in range(x.shape[1]):
        new = np.empty_like(row)
        new[:, 0] = i + 1
        np.minimum(row[:, 1:] + 1, row[:, :-1] + (y != x[:, i : i + 1]), out=new[:, 1:])
        row = np.minimum.accumulate(new - steps, 1) + steps
        ends = np.flatnonzero(lengths == i + 1)
        out[ends] = row[ends, others[ends]]
    return out


def in_python(x: list[int], y: list[int]) -> int:
    """The table of one pair."""
    row = list(range(len(y) + 1))
    for i, item in enumerate(x, 1):
        before, left = row, i
        row = [i]
        for j, other in enumerate(y):
            left = min(before[j + 1] + 1, left + 1, before[j] + (item != other))
            row.append(left)
    return row[-1]


@operation("levenshtein", ["tiny", "small", "many", "short", "ids", "text"], cuda=False)
def _(b: Batch) -> Case:
    said, wanted = pair(b)
    x, y = (sf.Ragged(b.put(z.data), z.lengths) for z in (said, wanted))
    lists = [[z.tolist() for z in sf.convert(batch, sf.List).items] for batch in (said, wanted)]
    peers: dict[str, Any] = {
        "rapidfuzz cpdist": lambda: rapidfuzz.process.cpdist(
            *lists, scorer=rapidfuzz.distance.Levenshtein.distance, dtype=np.int64, workers=sf.num_threads()
        )
    }
    if b.name in ("tiny", "small", "text"):  # seconds a call elsewhere
        peers["NumPy, by rows"] = lambda: by_rows(
            *(sf.convert(z, sf.Masked, fill=fill).data for z, fill in ((said, -1), (wanted, -2))),
            said.lengths,
            wanted.lengths,
        )
    if b.name in ("tiny", "small"):
        peers["Python"] = lambda: np.array([in_python(*both) for both in zip(*lists, strict=True)])
    return Case(lambda: sf.levenshtein(x, y), peers)


def strings(size: int, similar: bool) -> tuple[list[str], list[str]]:
    """Pairs of strings of so many letters, of which a tenth is another, missing or new, or all are drawn."""
    rng = np.random.default_rng(8)
    count = max(4, 40_000 // size)
    said, drawn = rng.integers(ord("a"), ord("z") + 1, (2, count, size))
    if not similar:
        return tuple([["".join(map(chr, row)) for row in rows] for rows in (said, drawn)])
    wanted = np.where(rng.random(said.shape) < EDITED / 9, ord("-"), said)
    kept = rng.random(said.shape) >= EDITED / 9
    return (
        ["".join(map(chr, row)) for row in said],
        ["".join(map(chr, row[own])) + "+" * (size // 30) for row, own in zip(wanted, kept, strict=True)],
    )


def of_strings(size: int, similar: bool) -> None:
    """Declare the operation on strings of one length, whatever the batch."""
    kind = "similar" if similar else "random"

    @operation(f"levenshtein, {size} {kind} characters", ["small"], arrays=("NumPy",), cuda=False)
    def _(b: Batch) -> Case:  # noqa: ARG001  strings have lengths of their own
        said, wanted = strings(size, similar)

        def by_rapidfuzz() -> np.ndarray:
            scorer = rapidfuzz.distance.Levenshtein.distance
            found: np.ndarray = rapidfuzz.process.cpdist(
                said, wanted, scorer=scorer, dtype=np.int64, workers=sf.num_threads()
            )
            return found

        return Case(lambda: sf.levenshtein(said, wanted), {"rapidfuzz cpdist": by_rapidfuzz})


for _size in (180, 500, 1_000, 5_000):
    of_strings(_size, True)
    of_strings(_size, False)


def texts_of(x: sf.Ragged) -> list[str]:
    """A word for each token."""
    return [" ".join(f"w{token}" for token in sequence) for sequence in x.to_nested()]


@operation("wer", ["tiny", "small", "text"], arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    said, wanted = (texts_of(x) for x in pair(b))
    return Case(
        lambda: sf.wer(references=wanted, hypotheses=said).rate,
        {"jiwer": lambda: jiwer.wer([text or " " for text in wanted], said)},
        read=np.float64,
        exact=False,
    )


@operation("cer", ["tiny", "small", "text"], arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    said, wanted = (texts_of(x) for x in pair(b))

    def by_rapidfuzz() -> float:
        edits = rapidfuzz.process.cpdist(wanted, said, scorer=rapidfuzz.distance.Levenshtein.distance)
        return float(edits.sum() / sum(map(len, wanted)))

    return Case(
        lambda: sf.cer(references=wanted, hypotheses=said).rate,
        {"jiwer": lambda: jiwer.cer(wanted, said), "rapidfuzz cpdist, no counts": by_rapidfuzz},
        read=np.float64,
        exact=False,
    )
