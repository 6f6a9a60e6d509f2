"""The log10 of the probabilities of the words of sentences, behind the words before each; see `parts.ngrams`.

Sentence i has the words ``words[cum[i]:cum[i + 1]]``.  Each begins in the state `start`.  Where `end`, the number of
the word that ends a sentence, is not negative, it is scored as one more.  ``out`` gets a number for each word.  The
result is the state behind the last sentence.
"""

from ..ctc.rows import NGramStates
from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(model: NGramStates, words: Integers, cum: Integers, out: Array, start: int, end: int) -> int:
    """All sentences."""
    place = 0
    state = start
    for i in range(cum.size - 1):
        state = start
        for k in range(cum[i], cum[i + 1] + (1 if end >= 0 else 0)):
            out[place], state = p.follow_word(model, state, words[k] if k < cum[i + 1] else end)
            place += 1
    return state


KERNEL = p.KernelSpec(cpu, takes=((*("i4",) * 4, "f8"),))
