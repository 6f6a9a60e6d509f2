"""A small text encoder over real prose: one tour of seqformats, without any deep-learning framework.

    python examples/pipeline.py              the English prose of Python's own help topics
    python examples/pipeline.py notes.txt    a UTF-8 file, blank lines between documents (or TEXT=notes.txt)

Documents, sentences and words become one LoD (nested offsets).  Three layers run over it, and each asks for the
layout it likes: a GRU for time steps, attention for a masked rectangle, a feed-forward layer for bare rows.  Then
words are pooled to sentences and sentences to documents.  At the end the same layers run on every other encoding:
the numbers must not depend on it.  The weights are random, for the subject here is the layout and not the meaning.
"""

import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# The matrix products below are small: threads of BLAS would mostly wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import seqformats as sf

WIDTH = 64  # numbers a word
MAX_SENTENCE = 64  # a longer sentence goes on in a new one, which bounds the attention scores and the GRU's steps
MAX_WORDS = 100_000  # a longer text is cut here, which keeps the tour short
RUNS = 5  # times are medians of so many
LIMIT = 1e-5  # largest difference allowed between encodings, in float32
EXPLAINED = f"""
Each row is an encoding that holds the words, {WIDTH} numbers of float32 each, with the shape of its data, its size, and
how much of it is padding.  Each column behind "to" is an encoding that it is converted into: the milliseconds of a call
(the median of {RUNS}), and below GB/s, each word counted as read once and written once; "view" means that nothing is
copied.  The third line has the times of the layers, called with the encoding of the row.
"""

Nested = list[list[list[str]]]  # documents > sentences > words


# Reading


def read_topics() -> list[str]:
    """The help topics that ship with Python, one document each, without code, grammar and underlines."""
    from pydoc_data.topics import topics

    documents = []
    for _, text in sorted(topics.items()):
        paragraphs = [p for p in text.split("\n\n") if p and not p[0].isspace()]
        documents.append(re.sub(r"^([*=\-~^\"])\1+$", "", "\n\n".join(paragraphs), flags=re.MULTILINE))
    return documents


def read_file(path: Path) -> list[str]:
    """The documents of a UTF-8 text file: whatever blank lines separate."""
    return re.split(r"\n\s*\n", path.read_text(encoding="utf-8-sig"))


def split_words(documents: list[str]) -> Nested:
    """Documents > sentences > words, all lower case; what has no words is left out."""
    nested: Nested = []
    room = MAX_WORDS
    for document in documents:
        sentences: list[list[str]] = []
        for sentence in re.split(r"(?<=[.!?])\s+", document):
            words = re.findall(r"\w+(?:['\u2019]\w+)*", sentence.lower())[:room]
            sentences += [words[k : k + MAX_SENTENCE] for k in range(0, len(words), MAX_SENTENCE)]
            room -= len(words)
        if sentences:
            nested.append(sentences)
        if not room:
            break
    return nested


def number_words(nested: Nested) -> tuple[list[list[list[int]]], int]:
    """Each word as a number, by first appearance; and how many different words there are."""
    numbers: dict[str, int] = {}
    ids = [[[numbers.setdefault(word, len(numbers)) for word in s] for s in document] for document in nested]
    return ids, len(numbers)


# The layers.  Each is written for one layout and, wrapped, takes them all.


def random_weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def make_gru(rng: np.random.Generator) -> Callable[[Any], Any]:
    """A forward GRU.  Padded is time-major and longest first, so the sequences still alive at t are a prefix."""
    weights, recurrent = random_weights(rng, WIDTH, 3 * WIDTH), random_weights(rng, WIDTH, 3 * WIDTH)

    @sf.with_padded
    def gru(x: sf.Padded) -> np.ndarray:
        out = np.zeros_like(x.data)  # (steps, n, WIDTH)
        hidden = np.zeros((len(x), WIDTH), np.float32)
        for t, alive in enumerate(x.size_at_t):
            before = hidden[:alive]
            wanted = np.split(x.data[t, :alive] @ weights, 3, axis=1)
            held = np.split(before @ recurrent, 3, axis=1)
            update, reset = sigmoid(wanted[0] + held[0]), sigmoid(wanted[1] + held[1])
            candidate = np.tanh(wanted[2] + reset * held[2])
            out[t, :alive] = hidden[:alive] = update * before + (1 - update) * candidate
        return out

    return gru


def make_attention(rng: np.random.Generator) -> Callable[[Any], Any]:
    """Self-attention inside each sentence.  Masked says which places are words, wherever the padding lies."""
    weights = random_weights(rng, WIDTH, 3 * WIDTH)
    group = 64  # sentences at a time: at most 64 * 64 * 64 scores in memory

    @sf.with_masked
    def attention(x: sf.Masked) -> np.ndarray:
        out = np.empty_like(x.data)  # (n, width, WIDTH)
        for first in range(0, len(x), group):
            part = slice(first, first + group)
            query, key, value = np.split(x.data[part] @ weights, 3, axis=2)
            scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(WIDTH))
            # a very low score and not -inf, which would give NaN for a sentence without words
            scores = np.where(x.mask[part][:, None, :], scores, np.float32(-1e30))
            scores = np.exp(scores - scores.max(axis=2, keepdims=True))
            out[part] = x.data[part] + (scores / scores.sum(axis=2, keepdims=True)) @ value
        return out

    return attention


def make_feed_forward(rng: np.random.Generator) -> Callable[[Any], Any]:
    """Works on each word alone, so it sees the rows and no padding."""
    inner, outer = random_weights(rng, WIDTH, 2 * WIDTH), random_weights(rng, 2 * WIDTH, WIDTH)

    @sf.with_array
    def feed_forward(rows: np.ndarray) -> np.ndarray:
        return rows + np.maximum(rows @ inner, 0) @ outer

    return feed_forward


# Running and measuring


def run_layers(layers: dict[str, Callable[[Any], Any]], x: Any) -> tuple[Any, list[float]]:
    """The layers one after the other, whatever encoding x is; and the seconds that each took."""
    seconds = []
    for layer in layers.values():
        start = time.perf_counter()
        x = layer(x)
        seconds.append(time.perf_counter() - start)
    return x, seconds


def pool(x: Any, sentences_per_document: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The means of words by sentence, and of sentences by document."""
    sentences = sf.reduce_mean(x)
    if isinstance(sentences, sf.LoD):  # a LoD knows its documents: pooling takes one level off at a time
        return sentences.data, np.asarray(sf.reduce_mean(sentences))
    return np.asarray(sentences), np.asarray(sf.reduce_mean(sf.Ragged(sentences, sentences_per_document)))


def median_time(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the median seconds of RUNS calls after a first one, which loads the kernels."""
    result = function()
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def arrays_of(x: Any) -> list[np.ndarray]:
    """The arrays that hold the items of an encoding or of nested lists."""
    if isinstance(x, list):
        return [array for inner in x for array in arrays_of(inner)]
    return list(x.items) if isinstance(x, sf.List) else [x if isinstance(x, np.ndarray) else x.data]


def shares_memory(x: Any, y: Any) -> bool:
    """Is y only another view of x's items?  Between Ragged, LoD and List nothing has to move."""
    return np.may_share_memory(arrays_of(x)[0], arrays_of(y)[0])


# The table


TARGETS: dict[str, tuple[type, dict[str, Any]]] = {
    "List": (sf.List, {}),
    "Ragged": (sf.Ragged, {}),
    "Padded": (sf.Padded, {}),
    "Packed": (sf.Packed, {}),
    "Masked": (sf.Masked, {"side": "right"}),
    "left": (sf.Masked, {"side": "left"}),
    "LoD": (sf.LoD, {}),
    "lists": (list, {}),
}


def describe(name: str, x: Any) -> str:
    """Encoding, shape, megabytes and the share of them that is padding."""
    arrays = arrays_of(x)
    shape = f"{len(x)} x (*, {WIDTH})" if isinstance(x, sf.List) else str(x.data.shape)
    rows = sum(a.size for a in arrays) // WIDTH
    padding = 1 - x.rows / rows if rows else 0.0
    label = "Masked left" if name == "left" else name
    return f"{label:<13}{shape:<15}{sum(a.nbytes for a in arrays) / 1e6:>7.1f} MB{padding:>9.1%}"


def table_rows(name: str, x: Any, names: list[str], seconds: list[float]) -> list[str]:
    """Three lines for one encoding: times of its conversions, their GB/s, times of the layers run on it."""
    moved = 2 * x.rows * WIDTH * 4 / 1e9  # every word is read once and written once; padding is not counted
    times, rates = "", ""
    for target, (To, options) in TARGETS.items():
        if target == name:
            times, rates = f"{times}{'.':>8}", f"{rates}{'.':>8}"
            continue
        y, median = median_time(partial(sf.convert, x, To, **options))
        times += f"{1e3 * median:>8.2f}"
        rates += f"{'view':>8}" if shares_memory(x, y) else f"{moved / median:>8.2f}"
    layers = ", ".join(f"{layer} {1e3 * s:.0f} ms" for layer, s in zip(names, seconds, strict=True))
    left = describe(name, x)
    blank = " " * len(left)
    return [f"{left}  ms  {times}", f"{blank}  GB/s{rates}", f"{blank}  {layers}"]


def main() -> int:
    path = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TEXT", "")
    try:
        documents = read_file(Path(path)) if path else read_topics()
    except OSError as error:
        return fail(f"cannot read {path}: {error.strerror}")
    except UnicodeDecodeError as error:
        return fail(f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}")
    words = split_words(documents)
    if not words:
        return fail(f"{path} has no words")

    # Nested lists of numbers become a LoD: one flat array and two levels of offsets.
    nested, vocabulary = number_words(words)
    ids = sf.LoD.from_nested(nested)
    per_document, per_sentence = ids.lengths()
    print(f"{len(ids)} documents, {len(per_sentence)} sentences, {ids.rows} words ({vocabulary} different)")
    if ids.rows == MAX_WORDS:
        print(f"only the first {MAX_WORDS} words are used")

    # The look-up changes the item, from a number to WIDTH numbers, and leaves the structure alone.
    rng = np.random.default_rng(0)
    embeddings = random_weights(rng, vocabulary, WIDTH) * np.float32(np.sqrt(vocabulary))
    embedded = sf.with_array(lambda rows: embeddings[rows])(ids)

    layers = {"GRU": make_gru(rng), "attention": make_attention(rng), "feed-forward": make_feed_forward(rng)}
    encoded, _ = run_layers(layers, embedded)
    expected = [encoded.data, *pool(encoded, per_document)]

    print(EXPLAINED)
    left = f"{'encoding':<13}{'shape':<15}{'bytes':>10}{'padding':>9}"
    print(f"{left}  to  {''.join(f'{target:>8}' for target in TARGETS)}")
    worst = 0.0
    for name, (To, options) in TARGETS.items():
        if To is list:
            continue
        x = sf.convert(embedded, To, **options)  # of the LoD's levels, the innermost: one sequence a sentence
        run_layers(layers, x)  # once to load the kernels
        y, seconds = run_layers(layers, x)
        print("\n".join(table_rows(name, x, list(layers), seconds)))
        got = [sf.convert(y, sf.Ragged).data, *pool(y, per_document)]
        worst = max(worst, *(float(np.abs(a - b).max()) for a, b in zip(got, expected, strict=True)))

    # And back to Python: the same documents > sentences > words.
    same_ids = sf.convert(ids, list) == nested
    lists = sf.convert(encoded, list)
    same_shape = [[len(s) for s in document] for document in lists] == [[len(s) for s in d] for d in nested]
    print(f"\ndocuments {expected[2].shape}, sentences {expected[1].shape}, words {expected[0].shape}")
    if not (same_ids and same_shape):
        return fail("the nested lists that came back are not those that went in")
    if not worst <= LIMIT:  # NaN fails too
        return fail(f"the numbers depend on the encoding: max abs difference {worst:.1e} (limit {LIMIT:.0e})")
    print(f"same numbers from every encoding: max abs difference {worst:.1e} (limit {LIMIT:.0e})")
    return 0


def fail(message: str) -> int:
    print(f"pipeline: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("pipeline: interrupted")
