"""N-grams as an automaton: made of the contents of an ARPA file, and checked where it comes from a file."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..errors import BROKEN
from ..launch.kernel import kernel
from .arpa import Arpa, Level
from .rows import NGramStates

link_ngrams = kernel("link_ngrams")

NO_WORD = -100.0
"""Log10 of the probability of an unknown word in a model that has none, as in KenLM."""
FILE_DTYPES = dict(
    zip((*NGramStates._fields, "text", "ends"), ["<i4", "<i4", "<f4", "<i4", "<f4", "<i4", "|u1", "<i8"], strict=True)
)
"""The dtypes of the arrays of a file."""


def build(found: Arpa, name: str) -> tuple[int, NGramStates, int, int]:
    """The order, the automaton, the state behind ``<s>``, and the number of ``</s>``.

    A context that no n-gram goes on from, and whose weight is 0, is no state: its longest suffix that is one stands for
    it, which changes no score.
    """
    size = len(found.ends) - 1
    levels = list(found.levels)
    while isinstance(ranked := _rank(levels, size), int):
        levels[ranked - 1] = _complete(levels, ranked)
    first = Level(np.arange(size)[:, None], np.full(size, NO_WORD, np.float32), np.zeros(size, np.float32))
    given = levels[0].words[:, 0]
    first.logs[given], first.weights[given] = levels[0].logs, levels[0].weights
    ordered, contexts = ranked
    ordered[0] = first
    for level, context in zip(ordered[1:], contexts[1:], strict=True):
        twice = np.flatnonzero((np.diff(context) == 0) & (np.diff(level.words[:, -1]) == 0))
        if twice.size:
            words = " ".join(_word(found, number) for number in level.words[twice[0]].tolist())
            raise BROKEN(f"{name} has the {level.words.shape[1]}-gram {words!r} twice")
    base = np.concatenate([[0], np.cumsum([len(level.logs) for level in ordered])])
    own = np.full(base[-1], -1, np.int64)  # the state that each n-gram is
    begin, weights, leaves = [np.zeros(1, np.int64)], [np.zeros(1, np.float32)], [np.zeros(size, np.int64)]
    states = 1
    for n, level in enumerate(ordered[:-1]):
        kept = level.weights != 0
        kept[contexts[n + 1]] = True
        numbers = own[base[n] : base[n + 1]]
        numbers[kept] = np.arange(states, states + np.count_nonzero(kept))
        states += int(np.count_nonzero(kept))
        begin.append(base[n + 1] + np.searchsorted(contexts[n + 1], np.flatnonzero(kept)))
        weights.append(level.weights[kept])
        leaves.append(numbers[contexts[n + 1]])
    arcs = int(base[-1])
    model = NGramStates(
        np.concatenate([*begin, [arcs]]).astype(np.int32),
        np.concatenate([level.words[:, -1] for level in ordered]).astype(np.int32),
        np.concatenate([level.logs for level in ordered]).astype(np.float32),
        np.zeros(arcs, np.int32),
        np.concatenate(weights).astype(np.float32),
        np.zeros(states, np.int32),
    )
    link_ngrams.run(model, np.concatenate(leaves), own, size)
    spelled = found.text.tobytes()
    named = {spelled[a:b]: number for number, (a, b) in enumerate(zip(found.ends, found.ends[1:], strict=False))}
    start = named.get(b"<s>", 0)
    return len(levels), model, int(model.nexts[start]) if start else 0, named.get(b"</s>", 0)


def _word(found: Arpa, number: int) -> str:
    return bytes(found.text[found.ends[number] : found.ends[number + 1]]).decode("utf-8", "replace")


def _rank(levels: list[Level], size: int) -> int | tuple[list[Level], list[Array]]:
    """All levels by rising context and word, and for each n-gram the number of its context in the level before.

    Or the number of a level that has n-grams whose context is missing.
    """
    ordered = [levels[0]]
    contexts: list[Array] = [np.zeros(size, np.int64)]
    keys: list[Array] = []  # of each level from the 2-grams on: context * size + word, which rise
    for n, level in enumerate(levels[1:], 1):
        context = level.words[:, 0].astype(np.int64)
        for k in range(1, n):
            context = _find(keys[k - 1], context * size + level.words[:, k])
        if len(context) and context.min() < 0:
            return n
        key = context * size + level.words[:, n]
        order = np.argsort(key, kind="stable")
        keys.append(key[order])
        contexts.append(context[order])
        ordered.append(Level(level.words[order], level.logs[order], level.weights[order]))
    return ordered, contexts


def _find(keys: Array, wanted: Array) -> Array:
    """The places of some among keys that rise; -1 where they are not among them."""
    if not keys.size:
        return np.full(wanted.size, -1)
    new = np.ones(wanted.size, np.bool_)  # neighbours are often the same: each is looked for once
    new[1:] = wanted[1:] != wanted[:-1]
    few = wanted[new]
    places = np.minimum(np.searchsorted(keys, few), keys.size - 1)
    places[keys[places] != few] = -1
    found: Array = places[np.cumsum(new) - 1]
    return found


def _complete(levels: list[Level], n: int) -> Level:
    """The level before level n, with the contexts of this that were missing; NaN is their logarithm."""
    words, logs, weights = levels[n - 1]
    every = np.concatenate([words, levels[n].words[:, :n]])
    _, first = np.unique(every, axis=0, return_index=True)
    missing = np.sort(first[first >= len(words)])
    added = np.zeros(missing.size, np.float32)
    return Level(
        np.concatenate([words, every[missing]]),
        np.concatenate([logs, added + np.nan]),
        np.concatenate([weights, added]),
    )


def check_states(model: NGramStates, text: Array, ends: Array, numbers: tuple[int, int, int]) -> str:
    """Tell what is wrong with the arrays of a file, so that kernels could leave them; "" where all is well."""
    begin, words, logs, nexts, weights, fails = model
    order, start, end = numbers
    states, arcs, size = fails.size, words.size, ends.size - 1
    if begin.size != states + 1 or not (logs.size == nexts.size == arcs) or weights.size != states or not states:
        return "its arrays have other sizes"
    if size < 1 or ends[0] != 0 or ends[-1] != text.size or (np.diff(ends) < 0).any():
        return "its words do not fit into its text"
    if begin[0] != 0 or begin[-1] != arcs or (np.diff(begin) < 0).any() or begin[1] != size:
        return "the arcs of its states are not one after the other"
    if (words[:size] != np.arange(size)).any() or (arcs and not (words.min() >= 0 and words.max() < size)):
        return "its arcs have words that there are not"
    rises = np.diff(words) > 0
    rises[begin[1:-1][(begin[1:-1] > 0) & (begin[1:-1] < arcs)] - 1] = True
    if not rises.all():
        return "the words of a state do not rise"
    if arcs and not (nexts.min() >= 0 and nexts.max() < states):
        return "its arcs lead to states that there are not"
    if fails[0] != 0 or fails.min() < 0 or (fails[1:] >= np.arange(1, states)).any():
        return "its states fall back to longer contexts"
    if not (np.isfinite(logs).all() and np.isfinite(weights).all()):
        return "its probabilities are not finite"
    if not (0 <= start < states and 0 <= end < size and order >= 1):
        return "it begins or ends with what there is not"
    return ""
