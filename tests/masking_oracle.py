"""Random masks, spans and orders, and losses, as slow truths on plain lists: written apart from the kernels."""

import math
from fractions import Fraction

ALL = 2**32


def philox(counter, key):
    """Philox4x32-10 of four words and two."""
    for _ in range(10):
        high0, low0 = divmod(counter[0] * 0xD2511F53, ALL)
        high1, low1 = divmod(counter[2] * 0xCD9E8D57, ALL)
        counter = (high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0)
        key = ((key[0] + 0x9E3779B9) % ALL, (key[1] + 0xBB67AE85) % ALL)
    return counter


def four(seed, purpose, sequence, place):
    return philox((place, sequence % ALL, sequence // ALL, purpose), (seed % ALL, seed // ALL))


def number(seed, purpose, sequence, place):
    """One number per place, four of which share a counter."""
    return four(seed, purpose, sequence, place // 4)[place % 4]


def below(limit, bits, seed, purpose, sequence, place):
    """One of `limit` numbers: 2^32 does not divide by it, and the last bits of those that come too often are small."""
    while bits * limit % ALL < ALL % limit:
        purpose += 8
        bits = four(seed, purpose, sequence, place)[0]
    return bits * limit // ALL


def rounded(part):
    """How many of 2^32 numbers are a part of them."""
    return round(part * ALL)


def mask(items, i, *, rate, mask_id, vocabulary, seed, special=(), held=None, begins=None, split, ignore):
    """``(ids, labels, chosen)`` of sequence i, lists of numbers; `vocabulary` is a list of ids."""
    masked, changed, kept = split
    of = rate if begins is None else 1.0
    ids, labels, chosen, word = [], [], [], 0
    for t, token in enumerate(items):
        if begins is None or begins[t]:
            word = t
        bits = number(seed, 0, i, word)
        pick = bits < rounded(rate) and token not in special and not (held is not None and held[t])
        if begins is not None:
            bits = number(seed, 1, i, t)
        new = token
        if pick and bits < rounded(of * masked):
            new = mask_id
        elif pick and (kept == 0 or bits < rounded(of * (masked + changed))):
            new = vocabulary[below(len(vocabulary), four(seed, 2, i, t)[0], seed, 2, i, t)]
        ids.append(new)
        labels.append(token if pick else ignore)
        chosen.append(pick)
    return ids, labels, chosen


def division(count, parts, seed, purpose, i):
    """The sizes of so many parts, none empty, of `count` items."""
    sizes, size, to_come = [], 0, parts - 1
    for left in range(count - 1, -1, -1):
        size += 1
        if left and below(left, four(seed, purpose, i, left)[0], seed, purpose, i, left) < to_come:
            sizes.append(size)
            size, to_come = 0, to_come - 1
    return [*sizes, size] if parts else []


def half_to_even(part):
    return round(Fraction(part))


def spans(length, rate, mean):
    """How many items of a sequence are masked, and in how many spans."""
    masked = min(max(half_to_even(length * rate), 1), max(length - 1, 0))
    return masked, min(max(half_to_even(masked / mean), 1), masked, length - masked)


def corrupt(items, i, *, rate, mean, sentinel, seed):
    """``(inputs, targets)`` of sequence i."""
    masked, count = spans(len(items), rate, mean)
    keep, hide = division(len(items) - masked, count, seed, 3, i), division(masked, count, seed, 4, i)
    inputs, targets, t = [], [], 0
    for s, (a, b) in enumerate(zip(keep, hide, strict=True)):
        inputs += [*items[t : t + a], sentinel - s]
        targets += [sentinel - s, *items[t + a : t + a + b]]
        t += a + b
    return inputs + items[t:], [*targets, sentinel - count]


def corrupt_around(items, i, special, *, sentinel, **options):
    """The same without special items, which are put back; a span with one within is two."""
    plain = [t for t, is_special in enumerate(special) if not is_special]
    hidden = {plain[t] for t in corrupt(list(range(len(plain))), i, sentinel=-1, **options)[1] if t >= 0}
    inputs, targets = [], []
    for t, item in enumerate(items):
        if t not in hidden:
            inputs.append(item)
            continue
        if t - 1 not in hidden:
            inputs.append(sentinel)
            targets.append(sentinel)
            sentinel -= 1
        targets.append(item)
    return inputs, [*targets, sentinel]


def order(length, seed, i):
    """Which item comes as which: each next one in the place of one that is there, or last."""
    found = []
    for t in range(length):
        k = below(t + 1, number(seed, 5, i, t), seed, 6, i, t)
        found.append(t)
        found[t], found[k] = found[k], t
    return found


def cross_entropy(scores, target, smoothing=0.0):
    """The loss of one item: `scores` of its classes, and the right one."""
    top = max(scores)
    if math.isnan(math.fsum(0 * x if math.isnan(x) else 0 for x in scores)) or math.isinf(top):
        return math.nan
    total = top + math.log(math.fsum([math.exp(x - top) for x in scores]))
    loss = (1 - smoothing) * (total - scores[target])
    if smoothing:
        loss += (
            smoothing * math.fsum([(total - x) / len(scores) for x in scores]) if min(scores) > -math.inf else math.inf
        )
    return loss
