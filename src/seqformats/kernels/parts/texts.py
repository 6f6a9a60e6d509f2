"""Advance the beam of a search for texts by one frame; see the kernel `ctc_texts`.

The steps of a row are: 0 it stays, with a blank; 1 its last token goes on; 2 a token ends the word; 3 one ends it and
begins another; 4 one gives the word more letters; 5 the frames are over.
"""

import math
from typing import Any, NamedTuple

from .code import Item
from .heap import in_order, keep
from .ngrams import follow_word
from .options import shared
from .prefixes import log_add
from .speech import end_word, next_letter, spell, worth_of_part


class Search(NamedTuple):
    """Arrays that a search works with: named tuples of `ctc.rows`."""

    terms: Item  # TextTerms
    speech: Item  # Speech
    parts: Item  # Parts
    texts: Item  # Texts
    spans: Item  # Spans
    rows: Item  # TextRows
    pool: Item  # TextPool


@shared
def slot_of(table: Item, mask: int, firsts: Item, seconds: Item, first: int, second: int) -> Any:
    """Find a pair of numbers in a table, or the free place for it."""
    place = (first * 0x9E3779B1) ^ (second * 0x85EBCA6B)
    place = (place ^ (place >> 29)) & mask
    while table[place] >= 0 and not (firsts[table[place]] == first and seconds[table[place]] == second):
        place = (place + 1) & mask
    return place


@shared
def find_part(search: Search, part: int, token: int) -> Any:
    """The part that a token makes of another one; -1 where nobody has made it yet."""
    parts, speech = search.parts, search.speech
    for k in range(speech.places[token], speech.places[token + 1]):
        place = slot_of(parts.table, parts.table.size - 1, parts.parents, parts.letters, part, speech.letters[k])
        part = parts.table[place]
        if part < 0:
            return part
    return part


@shared
def make_part(search: Search, part: int, token: int) -> Any:
    """The part that a token makes of another one, made if it is not there."""
    parts, speech, counts = search.parts, search.speech, search.pool.counts
    for k in range(speech.places[token], speech.places[token + 1]):
        letter = speech.letters[k]
        place = slot_of(parts.table, parts.table.size - 1, parts.parents, parts.letters, part, letter)
        found = parts.table[place]
        if found < 0:
            found = counts[2]
            counts[2] += 1
            parts.table[place] = found
            parts.parents[found] = part
            parts.letters[found] = letter
            parts.lengths[found] = parts.lengths[part] + 1
            node, hot = next_letter(speech, parts.nodes[part], parts.hots[part], letter)
            parts.nodes[found] = node
            parts.hots[found] = hot
            parts.worths[found] = worth_of_part(speech, node, hot, parts.lengths[found])
        part = found
    return part


@shared
def key_of_text(search: Search, text: int) -> Any:
    """A number for the last words of a text."""
    key = 7
    for _ in range(search.terms.history):
        if text == 0:
            break
        key = ((key ^ search.texts.words[text]) * 0x9E3779B1) & 0x7FFFFFFF
        text = search.texts.parents[text]
    return key


@shared
def ends_alike(search: Search, one: int, two: int) -> Any:
    """Tell whether two texts have the same last words."""
    words, parents = search.texts.words, search.texts.parents
    for _ in range(search.terms.history):
        if one == two:
            return True
        if one == 0 or two == 0 or words[one] != words[two]:
            return False
        one, two = parents[one], parents[two]
    return True


@shared
def end_part(search: Search, text: int, part: int) -> Any:
    """The text in which a part has become a word; none where it has no letters."""
    if part == 0:
        return text
    texts, parts, speech, counts = search.texts, search.parts, search.speech, search.pool.counts
    place = slot_of(texts.table, texts.table.size - 1, texts.parents, texts.words, text, part)
    found = texts.table[place]
    if found < 0:
        found = counts[3]
        counts[3] += 1
        texts.table[place] = found
        texts.parents[found] = text
        texts.words[found] = part
        value, texts.contexts[found] = end_word(speech, texts.contexts[text], parts.nodes[part], parts.hots[part])
        texts.values[found] = texts.values[text] + value
        texts.keys[found] = key_of_text(search, found)
    return found


@shared
def list_tokens(search: Search, y: Item, frame: int) -> int:
    """The tokens that are likely enough, and the best one; how many."""
    terms, listed = search.terms, search.pool.listed
    best = 0
    for c in range(terms.width):
        best = c if y[frame + c] > y[frame + best] else best
    count = 0
    for c in range(terms.width):
        listed[count] = c
        count += y[frame + c] >= terms.reals[1] or c == best
    return count


@shared
def add_path(search: Search, count: int, text: int, part: int, token: int, path: float) -> Any:
    """Add a path to the candidate of this text, part and token; which it is, and how many there are."""
    pool = search.pool
    mask, stamp = pool.table.size - 1, pool.counts[5]
    place = (text * 0x9E3779B1) ^ (part * 0x85EBCA6B) ^ (token * 0xC2B2AE35)
    place = (place ^ (place >> 29)) & mask
    while pool.stamps[place] == stamp:
        k = pool.table[place]
        if pool.texts[k] == text and pool.parts[k] == part and pool.tokens[k] == token:
            pool.paths[k] = log_add(pool.paths[k], path)
            return k, count
        place = (place + 1) & mask
    pool.stamps[place] = stamp
    pool.table[place] = count
    pool.texts[count] = text
    pool.parts[count] = part
    pool.tokens[count] = token
    pool.paths[count] = path
    return count, count + 1


@shared
def go_on(search: Search, count: int, at: int, i: int, token: int, value: float) -> Any:
    """Row i with one more token, as a candidate; how many there are."""
    terms, speech, rows, pool = search.terms, search.speech, search.rows, search.pool
    text, part = rows.texts[at + i], rows.parts[at + i]
    step = 0
    if token != terms.blank:
        step = 1
        if token != rows.tokens[at + i]:
            step = 4
            if speech.opens[token] != 0:
                step = 2 if speech.opens[token] == 1 else 3
                if pool.ended[i] < 0:
                    pool.ended[i] = end_part(search, text, part)
                text = pool.ended[i]
                part = 0
            found = find_part(search, part, token)
            part = found if found >= 0 else -2 - part
    k, count = add_path(search, count, text, part, token, rows.paths[at + i] + value)
    pool.rows[k] = i
    pool.steps[k] = step
    return count


@shared
def worth_of_candidate(search: Search, k: int) -> Any:
    """Value the text of a candidate, its unfinished word included."""
    parts, pool = search.parts, search.pool
    part = pool.parts[k]
    value = search.texts.values[pool.texts[k]]
    if part >= 0:
        return value + parts.worths[part]
    part = -2 - part
    node, hot, length = spell(search.speech, parts.nodes[part], parts.hots[part], parts.lengths[part], pool.tokens[k])
    return value + worth_of_part(search.speech, node, hot, length)


@shared
def worth_of_end(search: Search, text: int) -> Any:
    """Value a text that ends."""
    speech, texts = search.speech, search.texts
    value = texts.values[text]
    if speech.end >= 0:
        value += speech.reals[0] * follow_word(speech, texts.contexts[text], speech.end)[0]
    return value


@shared
def choose_rows(search: Search, count: int) -> int:
    """The best candidates in their order, none far below the first; how many."""
    terms, pool = search.terms, search.pool
    top = -math.inf
    for k in range(count):
        top = pool.scores[k] if pool.scores[k] > top else top
    low = top + terms.reals[0]
    found = 0
    for k in range(count):
        if pool.scores[k] >= low:
            found = keep(pool.values, pool.ids, 0, found, terms.beam, pool.scores[k], k)
    in_order(pool.values, pool.ids, 0, found, terms.beam)
    return found


@shared
def is_like_better(search: Search, k: int) -> Any:
    """Tell whether a better candidate has the same last words and state.  Else enter this one."""
    pool, texts = search.pool, search.texts
    mask, stamp = pool.table.size - 1, pool.counts[5]
    place = (texts.keys[pool.texts[k]] * 0x9E3779B1) ^ (pool.parts[k] * 0x85EBCA6B) ^ (pool.tokens[k] * 0xC2B2AE35)
    place = (place ^ (place >> 29)) & mask
    while pool.stamps[place] == stamp:
        j = pool.table[place]
        same = pool.parts[j] == pool.parts[k] and pool.tokens[j] == pool.tokens[k]
        if same and ends_alike(search, pool.texts[j], pool.texts[k]):
            return True
        place = (place + 1) & mask
    pool.stamps[place] = stamp
    pool.table[place] = k
    return False


@shared
def settle(search: Search, found: int, old: int, new: int, t: int, ending: int) -> None:
    """Make the chosen candidates the rows behind frame t."""
    spans, rows, pool, counts = search.spans, search.rows, search.pool, search.pool.counts
    at = new
    counts[5] += 1
    for x in range(found):
        k = pool.ids[x]
        if search.terms.history >= 0 and ending == 0 and is_like_better(search, k):
            continue
        i, step = old + pool.rows[k], pool.steps[k]
        span, first, end = rows.spans[i], rows.firsts[i], rows.ends[i]
        if (step == 2 or step == 3 or step == 5) and rows.parts[i] != 0:
            spans.before[counts[4]] = span
            spans.firsts[counts[4]] = first
            spans.ends[counts[4]] = end
            span = counts[4]
            counts[4] += 1
        if step == 2 or step == 5:
            first, end = -1, -1
        elif step == 3 or (step == 4 and first < 0):
            first, end = t, t + 1
        elif step != 0:
            end = t + 1
        part = pool.parts[k]
        rows.texts[at] = pool.texts[k]
        rows.parts[at] = part if part >= 0 else make_part(search, -2 - part, pool.tokens[k])
        rows.tokens[at] = pool.tokens[k]
        rows.spans[at] = span
        rows.firsts[at] = first
        rows.ends[at] = end
        rows.paths[at] = pool.paths[k]
        rows.scores[at] = pool.scores[k]
        at += 1
    counts[0] = at - new
    counts[1] = 1 - counts[1]
