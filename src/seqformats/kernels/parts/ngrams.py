"""An n-gram model with back-off as an automaton: where a word is among the arcs of a state, and what it is worth.

A state is a context, 0 the empty one.  ``begin[s]`` to ``begin[s + 1]`` are its arcs, by rising word; an arc has the
log10 of a probability and the state behind it.  Where a word is not among the arcs of a state, the weight of the state
is added, and its longest shorter context asked (`fails`); the empty context has an arc for every word, at the place of
its number.  (Katz 1987, "Estimation of Probabilities from Sparse Data for the Language Model Component of a Speech
Recognizer"; as an automaton: Allauzen, Mohri and Roark 2003, "Generalized Algorithms for Constructing Statistical
Language Models".)

`model` is a `ctc.rows.NGramStates`, or has its fields.
"""

from typing import Any

import numpy as np

from .code import Item
from .options import shared


@shared
def find_arc(model: Item, state: int, word: int) -> Any:
    """The arc of a word from a state; -1 where there is none."""
    if state == 0:
        return word
    low, high = np.int64(model.begin[state]), np.int64(model.begin[state + 1])
    end = high
    while low < high:
        middle = (low + high) >> 1
        if model.words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and model.words[low] == word else -1


@shared
def follow_word(model: Item, state: Any, word: int) -> Any:
    """The log10 of the probability of a word behind a state, and the state behind it."""
    total = 0.0
    arc = find_arc(model, state, word)
    while arc < 0:
        total += model.weights[state]
        state = np.int64(model.fails[state])
        arc = find_arc(model, state, word)
    return total + model.logs[arc], np.int64(model.nexts[arc])
