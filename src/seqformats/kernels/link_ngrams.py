"""Link each arc of an n-gram model to the state it leads to, and each state to what it falls back to.

Arcs come by rising length of their n-grams, the `size` 1-grams first.  ``contexts (arcs,)`` is the state that each
leaves, ``own (arcs,)`` the state that is the n-gram itself, or -1 where none is.  Written are ``model.nexts`` and
``model.fails``; and of n-grams whose logarithm is NaN what back-off gives them.
"""

from typing import Any

import numpy as np

from ..ctc.rows import NGramStates
from . import parts as p
from .parts import Integers


@p.compiled
def cpu(model: NGramStates, contexts: Integers, own: Integers, size: int) -> int:
    """All arcs."""
    for arc in range(model.words.size):
        back: Any = 0
        if arc >= size:
            state: Any = np.int64(model.fails[contexts[arc]])
            shorter = p.find_arc(model, state, np.int64(model.words[arc]))
            while shorter < 0:
                state = np.int64(model.fails[state])
                shorter = p.find_arc(model, state, np.int64(model.words[arc]))
            back = np.int64(model.nexts[shorter])
            if model.logs[arc] != model.logs[arc]:
                value, _ = p.follow_word(model, np.int64(model.fails[contexts[arc]]), np.int64(model.words[arc]))
                model.logs[arc] = model.weights[contexts[arc]] + value
        state = own[arc]
        model.nexts[arc] = state if state >= 0 else back
        if state >= 0:
            model.fails[state] = back
    return 0


KERNEL = p.KernelSpec(cpu, takes=(("i4",) * 4,))
