r"""One section of an ARPA file, the n-grams of one order.

``text`` are the bytes of the file and behind them ``<unk>``; `place` is where the section begins.  A line has a
logarithm, `order` words, and may have a back-off weight; between them are spaces or tabs.  The n-grams are written to
`section`.  The vocabulary is a hash table with open addresses, of the hash FNV-1a of 32 bits (Fowler, Noll and Vo
1991), word 0 the unknown one, which ``<UNK>`` is too.  The 1-grams fill it, `known` words are there at first.

The result is the place behind the section, or of the line that is wrong; what is wrong with it, a number of
`ctc.arpa.WRONG`, or 0; and how many words there are.
"""

from typing import Any

import numpy as np

from ..ctc.rows import Section, Vocabulary
from . import parts as p
from .parts import Bytes, Integers


@p.shared
def read_digits(text: Bytes, k: int, end: int, value: Any, count: int) -> Any:
    """Go over digits: the place behind them, the number with these digits, its digits, and how many were left out."""
    skipped = 0
    while k < end and text[k] >= 48 and text[k] <= 57:
        if count < 18:
            value = value * 10 + (np.int64(text[k]) - 48)
            count += value > 0
        else:
            skipped += 1
        k += 1
    return k, value, count, skipped


@p.shared
def read_number(text: Bytes, begin: int, end: int) -> Any:
    """The number that some bytes are, NaN where they are none; 18 digits count."""
    signed = begin < end and (text[begin] == 45 or text[begin] == 43)
    k, value, count, power = read_digits(text, begin + (1 if signed else 0), end, np.int64(0), 0)
    digits = k - begin - (1 if signed else 0)
    if k < end and text[k] == 46:
        first = k + 1
        k, value, count, skipped = read_digits(text, first, end, value, count)
        digits += k - first
        power -= k - first - skipped
    if digits > 0 and k < end and (text[k] | 32) == 101:  # e or E
        k += 1
        negative = k < end and text[k] == 45
        if k < end and (text[k] == 45 or text[k] == 43):
            k += 1
        first = k
        k, shift, _, _ = read_digits(text, k, end, np.int64(0), 0)
        digits = k - first
        shift = min(shift, 10000)
        power += -shift if negative else shift
    if digits == 0 or k != end:
        return np.nan
    found = float(value) / 10.0**-power if -300 < power < 0 else float(value) * 10.0**power
    return -found if text[begin] == 45 else found


@p.shared
def find_word(text: Bytes, begin: int, end: int, vocabulary: Vocabulary) -> Any:
    """Find the word of these bytes in the table, or the free place for it."""
    table, begins, ends = vocabulary.table, vocabulary.begins, vocabulary.ends
    key: Any = 0x811C9DC5
    for k in range(begin, end):
        key = ((key ^ np.int64(text[k])) * 0x01000193) & 0xFFFFFFFF
    mask = table.size - 1
    place = (key ^ (key >> 15)) & mask
    while table[place] >= 0:
        word = table[place]
        if ends[word] - begins[word] == end - begin:
            k = 0
            while begin + k < end and text[begins[word] + k] == text[begin + k]:
                k += 1
            if begin + k == end:
                return place
        place = (place + 1) & mask
    return place


@p.shared
def is_unknown(text: Bytes, begin: int, end: int) -> Any:
    """Tell whether these bytes are ``<unk>`` in small or capital letters."""
    if end - begin != 5 or text[begin] != 60 or text[begin + 4] != 62:
        return False
    small = text[begin + 1] == 117 and text[begin + 2] == 110 and text[begin + 3] == 107
    return small or (text[begin + 1] == 85 and text[begin + 2] == 78 and text[begin + 3] == 75)


@p.shared
def cut_line(text: Bytes, place: int, most: int, cuts: Integers) -> Any:
    """Find where each of `most` words of a line begins and ends; count them, and find the place behind the line."""
    count = 0
    while place < text.size and text[place] != 10:
        c = text[place]
        if c == 32 or c == 9 or c == 13:
            place += 1
            continue
        begin = place
        while place < text.size and not (text[place] == 32 or 9 <= text[place] <= 13):
            place += 1
        if count < most:
            cuts[2 * count], cuts[2 * count + 1] = begin, place
        count += 1
        if place == begin:  # a byte that separates words, but is no space
            place += 1
    return count, place + 1


@p.compiled
def cpu(
    text: Bytes, place: int, order: int, known: int, section: Section, vocabulary: Vocabulary
) -> tuple[int, int, int]:
    """Read ``section.logs.size`` n-grams."""
    words, logs, weights = section.words, section.logs, section.weights
    table, begins, ends = vocabulary.table, vocabulary.begins, vocabulary.ends
    seen, cuts = vocabulary.seen, vocabulary.cuts
    found = 0
    while found < logs.size:
        line = place
        if place >= text.size - 5:
            return line, 4, known
        count, place = cut_line(text, place, order + 2, cuts)
        if count == 0:
            continue
        if text[cuts[0]] == 92:
            return line, 4, known
        if count < order + 1 or count > order + 2:
            return line, 2, known
        value = read_number(text, cuts[0], cuts[1])
        weight = read_number(text, cuts[2 * order + 2], cuts[2 * order + 3]) if count == order + 2 else 0.0
        if not (abs(value) < np.inf and abs(weight) < 1e30):
            return line, 1, known
        if value > 0:
            return line, 6, known
        logs[found] = value
        weights[found] = weight
        for k in range(order):
            begin, end = cuts[2 * k + 2], cuts[2 * k + 3]
            word = np.int64(0)
            if is_unknown(text, begin, end):
                if order == 1:
                    if seen[0] != 0:
                        return line, 5, known
                    seen[0] = 1
            else:
                slot = find_word(text, begin, end, vocabulary)
                word = table[slot]
                if order == 1:
                    if word >= 0:
                        return line, 5, known
                    word = np.int64(known)
                    table[slot] = word
                    begins[word], ends[word] = begin, end
                    known += 1
                elif word < 0:
                    return line, 3, known
            words[found * order + k] = word
        found += 1
    return place, 0, known


KERNEL = p.KernelSpec(cpu, takes=(("i4",),))
