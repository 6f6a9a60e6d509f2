"""Score a label that gets longer by a model of words, or of tokens: `ctc.rows.Speech`.

``reals`` are alpha times the natural logarithm of 10; beta; what is added to the logarithm of an unknown word, before
alpha; the weight of a hot word; what an unfinished word is worth that no known word begins with; and the most that one
token can add.
"""

from typing import Any, NamedTuple

from .code import Item
from .ngrams import follow_word
from .options import shared
from .record import Integers


class Said(NamedTuple):
    """State of a label: its whole words, and the one that is not finished."""

    context: int  # the state behind the whole words
    node: int  # of the unfinished word in the tree of words; -1 where none begins so
    hot: int  # and in the tree of hot words
    length: int  # its letters
    value: float  # of the whole words, or what they have gained
    worth: float  # of the unfinished one


@shared
def find_letter(heads: Integers, tails: Integers, marks: Integers, node: int, letter: int) -> Any:
    """The child of a node of a tree with a letter, -1 where there is none."""
    if node < 0:
        return -1
    low, high = heads[node], tails[node]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if marks[middle] < letter:
            low = middle + 1
        else:
            high = middle
    return low if low < end and marks[low] == letter else -1


@shared
def next_letter(speech: Item, node: int, hot: int, letter: int) -> Any:
    """An unfinished word with one more letter, in both trees."""
    node = find_letter(speech.heads, speech.tails, speech.marks, node, letter)
    return node, find_letter(speech.hot_heads, speech.hot_tails, speech.hot_marks, hot, letter)


@shared
def worth_of_part(speech: Item, node: int, hot: int, length: int) -> Any:
    """Value an unfinished word as long as it is one: by what it may become.

    Of a hot word as much of its weight as is spelled.  Where no known word begins so, what an unknown one costs, for
    more than 6 letters in proportion (as in pyctcdecode's `score_partial_token`).
    """
    if length == 0:
        return 0.0
    if hot >= 0:
        return speech.reals[3] * length / speech.shortest[hot]
    if node >= 0 and speech.known[node] & 2 != 0:
        return 0.0
    cost = speech.reals[4]
    return cost * length / 6 if length > 6 else cost


@shared
def end_word(speech: Item, context: int, node: int, hot: int) -> Any:
    """Value a word when it ends, with the weight of hot ones, and find the state behind it."""
    number = 0
    if node >= 0:
        number = speech.entries[node]
    value, after = follow_word(speech, context, number)
    if node < 0 or speech.known[node] & 1 == 0:
        value += speech.reals[2]
    value = speech.reals[0] * value + speech.reals[1]
    if hot >= 0 and speech.ends_hot[hot] != 0:
        value += speech.reals[3]
    return value, after


@shared
def spell(speech: Item, node: int, hot: int, length: int, token: int) -> Any:
    """The unfinished word with the letters of a token: its nodes and its length."""
    for k in range(speech.places[token], speech.places[token + 1]):
        node, hot = next_letter(speech, node, hot, speech.letters[k])
        length += 1
    return node, hot, length


@shared
def say(speech: Item, context: int, node: int, hot: int, length: int, token: int) -> Any:
    """Add one more token to a label; `value` is what that token has gained."""
    if speech.by_words == 0:
        value, context = follow_word(speech, context, speech.numbers[token])
        return Said(context, 0, 0, 0, speech.reals[0] * value + speech.reals[1], 0.0)
    gain = 0.0
    if speech.opens[token] != 0:
        if length > 0:
            gain, context = end_word(speech, context, node, hot)
        node, hot, length = 0, 0, 0
    node, hot, length = spell(speech, node, hot, length, token)
    return Said(context, node, hot, length, gain, worth_of_part(speech, node, hot, length))


@shared
def end_label(speech: Item, context: int, node: int, hot: int, length: int) -> Any:
    """Value the end of a label: its last word, and the end of the sentence."""
    value = 0.0
    if length > 0:
        value, context = end_word(speech, context, node, hot)
    if speech.end >= 0:
        value += speech.reals[0] * follow_word(speech, context, speech.end)[0]
    return value
