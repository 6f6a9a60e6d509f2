"""Search for the texts of one sequence of frames, by the rules of pyctcdecode.

``y (frames * width,)`` are log-probabilities.  The named tuples of `ctc.rows` say what else is given, and what the
search works with.  A row of its beam is a text of whole words, the beginning of a word, and the last token of the
paths, blank or not: so the same text is several rows, and of paths that come to one row the frames of the last one
count, in the order of tokens and rows.  Texts and beginnings of words are found by what they are made of, however they
were spelled.

The score of a row is the logarithm of all its paths, what its words are worth, and what the unfinished one is worth as
long as it is that (`parts.speech`).  (Prefix search with a model of words: Hannun, Maas, Jurafsky and Ng 2014, arXiv
1408.2873; in the form of pyctcdecode 0.5.0, ``BeamSearchDecoderCTC._decode_logits``.)

It begins at the frame ``pool.counts[7]``; the result is the frame before which it has stopped because there is no more
room, for nodes or for as many candidates as ``pool.counts[6]``, or one more than there are frames where it has ended.
"""

from ..ctc.rows import Parts, Spans, Speech, TextPool, TextRows, Texts, TextTerms
from . import parts as p
from .parts import Array
from .parts.texts import (
    Search,
    add_path,
    choose_rows,
    end_part,
    go_on,
    list_tokens,
    settle,
    slot_of,
    worth_of_candidate,
    worth_of_end,
)


@p.shared
def begin(search: Search) -> None:
    """The empty text alone."""
    parts, texts, rows, counts = search.parts, search.texts, search.rows, search.pool.counts
    parts.nodes[0] = 0
    parts.hots[0] = 0
    parts.lengths[0] = 0
    parts.worths[0] = 0
    texts.contexts[0] = search.speech.start
    texts.values[0] = 0
    texts.keys[0] = 7
    rows.texts[0], rows.parts[0], rows.tokens[0] = 0, 0, -1
    rows.spans[0], rows.firsts[0], rows.ends[0] = -1, -1, -1
    rows.paths[0] = 0
    counts[0], counts[1], counts[2], counts[3], counts[4] = 1, 0, 1, 1, 0


@p.shared
def enter_again(search: Search) -> None:
    """Fill the tables with what there is."""
    parts, texts, counts = search.parts, search.texts, search.pool.counts
    for k in range(parts.table.size):
        parts.table[k] = -1
    for k in range(1, counts[2]):
        mask = parts.table.size - 1
        parts.table[slot_of(parts.table, mask, parts.parents, parts.letters, parts.parents[k], parts.letters[k])] = k
    for k in range(texts.table.size):
        texts.table[k] = -1
    for k in range(1, counts[3]):
        mask = texts.table.size - 1
        texts.table[slot_of(texts.table, mask, texts.parents, texts.words, texts.parents[k], texts.words[k])] = k


@p.shared
def end_rows(search: Search, old: int, live: int) -> int:
    """All rows with their words ended, as candidates; how many."""
    rows, pool = search.rows, search.pool
    count = 0
    for i in range(live):
        text = end_part(search, rows.texts[old + i], rows.parts[old + i])
        k, count = add_path(search, count, text, 0, -1, rows.paths[old + i])
        pool.rows[k] = i
        pool.steps[k] = 5
    for k in range(count):
        pool.scores[k] = pool.paths[k] + worth_of_end(search, pool.texts[k])
    return count


@p.compiled
def cpu(
    y: Array,
    terms: TextTerms,
    speech: Speech,
    parts: Parts,
    texts: Texts,
    spans: Spans,
    rows: TextRows,
    pool: TextPool,
) -> int:
    """Go over the frames that are left; which is the next one."""
    search = Search(terms, speech, parts, texts, spans, rows, pool)
    counts = pool.counts
    first = counts[7]
    if first == 0:
        begin(search)
    enter_again(search)
    frames = y.size // terms.width
    for t in range(first, frames + 1):
        live = counts[0]
        old = counts[1] * terms.beam
        more = list_tokens(search, y, t * terms.width) if t < frames else 1
        counts[6] = live * more
        full = counts[2] + terms.beam * terms.longest > parts.parents.size or counts[3] + live > texts.parents.size
        if full or counts[4] + terms.beam > spans.before.size or live * more > pool.texts.size:
            counts[7] = t
            return t
        counts[5] += 1
        count = 0
        if t < frames:
            for i in range(live):
                pool.ended[i] = -1
            for j in range(more):
                token = pool.listed[j]
                value = y[t * terms.width + token]
                for i in range(live):
                    count = go_on(search, count, old, i, token, value)
            for k in range(count):
                pool.scores[k] = pool.paths[k] + worth_of_candidate(search, k)
        else:
            count = end_rows(search, old, live)
        found = choose_rows(search, count)
        settle(search, found, old, terms.beam - old, t, 1 if t == frames else 0)
    return frames + 1


_KINDS = ("f8", "f8", *["i4"] * 4, *["f8"] * 8)  # in the order of the arguments
KERNEL = p.KernelSpec(cpu, takes=(_KINDS,))
