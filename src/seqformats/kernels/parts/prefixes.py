"""Advance the beam of a prefix search by one frame; see the kernel `ctc_prefixes`.

`Own` says what belongs to a search: named tuples of `ctc.rows`, and where its own parts of their arrays begin.  A model
of words or tokens is `speech`, and what it remembers of each row `told`; both are None where there is none, and what is
for them is not compiled.
"""

import math
from typing import Any, NamedTuple

from .code import Item
from .options import shared
from .order import select
from .speech import say


class Home(NamedTuple):
    """Places where what belongs to a unit begins."""

    nodes: int
    table: int
    mask: int  # one less than how many places the table has, a power of two
    rows: int
    frame: int
    pool: int
    state: int
    gains: int


class Own(NamedTuple):
    """Arrays of a search of its own, and what it is told."""

    tree: Item  # PrefixTree
    rows: Item  # PrefixRows
    pool: Item  # Pool
    guide: Item  # Guide
    terms: Item  # PrefixTerms
    home: Home


class Cut(NamedTuple):
    """Cut of the tokens that prefixes go on with: above `value`, and at it up to `token`; and the best."""

    value: float
    token: int
    best: int


class Field(NamedTuple):
    """Range left to look for among the candidates of a frame."""

    found: int  # how many candidates
    low: float  # another one has to be worth more
    best: float  # what the best one is worth
    listed: int  # how many tokens prefixes may go on with
    largest: float  # the largest log-probability of one


@shared
def log_add(a: float, b: float) -> Any:
    """``log(exp(a) + exp(b))``, both below +inf."""
    high = a if a > b else b
    gap = high - (b if a > b else a)
    if not gap < 37.0:  # what the other one adds is rounded away; both may be -inf
        return high
    return high + math.log(1.0 + math.exp(-gap))


@shared
def cut_of(own: Own, best: int) -> Any:
    """Choose the tokens that prefixes go on with."""
    _, _, pool, _, terms, home = own
    value = terms.reals[0]
    token = terms.width
    count = 0
    for c in range(terms.width if terms.token_beam < terms.width - 1 else 0):
        if pool.logs[home.frame + c] >= value and c != terms.blank:
            pool.floats[home.pool + count] = pool.logs[home.frame + c]
            count += 1
    if count > terms.token_beam:
        end = home.pool + count
        value = select(pool.floats, home.pool, end, end - terms.token_beam)
        left = terms.token_beam
        for k in range(home.pool, end):
            left -= pool.floats[k] > value
        token = -1
        while left > 0:
            token += 1
            left -= pool.logs[home.frame + token] == value and token != terms.blank
    return Cut(value, token, best)


@shared
def survives(value: float, token: int, cut: Cut) -> Any:
    """Tell whether prefixes go on with this token."""
    return value > cut.value or (value == cut.value and token <= cut.token) or token == cut.best


@shared
def stay(own: Own, cut: Cut, old: int, live: int) -> int:
    """Every prefix as it is, with all paths that lead to it, as the first candidates; how many."""
    tree, rows, pool, _, terms, home = own
    logs, frame = pool.logs, home.frame
    same = home.rows + 2 * terms.beam
    silent = logs[frame + terms.blank]
    count = 0
    for i in range(live):
        rows.firsts[home.rows + i] = -1
    for i in range(live):
        node = rows.nodes[old + i]
        ends_blank = rows.total[old + i] + silent
        ends_token = rows.token[old + i]  # -inf of the empty prefix
        j = -1
        value = silent
        last = -1
        if node != 0:
            last = tree.tokens[home.nodes + node]
            value = logs[frame + last]
            ends_token += value
            j = tree.slots[home.nodes + tree.parents[home.nodes + node]]
        if j >= 0:
            rows.nexts[home.rows + i] = rows.firsts[home.rows + j]
            rows.firsts[home.rows + j] = i
            if not survives(value, last, cut):
                j = -1
        twice = False
        if j >= 0:
            twice = tree.tokens[home.nodes + rows.nodes[old + j]] == last
            ends_token = log_add(ends_token, (rows.blank[old + j] if twice else rows.total[old + j]) + value)
        a, b = rows.best_blank[old + i], rows.best_token[old + i]
        rows.best_blank[same + i] = (a if a >= b else b) + silent
        rows.blank_paths[same + i] = rows.blank_paths[old + i] if a >= b else rows.token_paths[old + i]
        b += value
        path = rows.token_paths[old + i]
        if j >= 0:
            c, d = rows.best_blank[old + j], rows.best_token[old + j]
            blank = twice or c >= d
            c = (c if blank else d) + value
            if c > b:
                b = c  # a new token behind the path of another prefix; see `settle`
                path = -3 - (rows.blank_paths[old + j] if blank else rows.token_paths[old + j])
        rows.best_token[same + i] = b
        rows.token_paths[same + i] = path
        rows.blank[same + i] = ends_blank
        rows.token[same + i] = ends_token
        total = log_add(ends_blank, ends_token)
        rows.total[same + i] = total
        worth = total + rows.gains[old + i]
        if worth > -math.inf:
            pool.values[home.pool + count] = worth
            pool.rows[home.pool + count] = i
            pool.tokens[home.pool + count] = -1
            count += 1
    return count


@shared
def shrink(pool: Item, home: Home, count: int, most: int) -> Any:
    """Keep the best of so many candidates, in their order; the least value that is left."""
    at = home.pool
    for k in range(count):
        pool.floats[at + k] = pool.values[at + k]
    least = select(pool.floats, at, at + count, at + count - most)
    left = most
    for k in range(count):
        left -= pool.values[at + k] > least
    kept = at
    for k in range(at, at + count):
        value = pool.values[k]
        same = value == least and left > 0
        pool.values[kept] = value
        pool.rows[kept] = pool.rows[k]
        pool.tokens[kept] = pool.tokens[k]
        left -= same
        kept += value > least or same
    return least


@shared
def bound_of(own: Own, c: int, count: int, low: float, old: int, live: int) -> Any:
    """A better `Field.low`, by what prefixes are worth with the best token behind them, which are yet to be offered."""
    tree, rows, pool, _, terms, home = own
    value = pool.logs[home.frame + c]
    for k in range(count):
        pool.floats[home.pool + k] = pool.values[home.pool + k]
    for i in range(live):
        j = rows.firsts[home.rows + i]
        while j >= 0 and tree.tokens[home.nodes + rows.nodes[old + j]] != c:
            j = rows.nexts[home.rows + j]
        if j < 0:
            twice = tree.tokens[home.nodes + rows.nodes[old + i]] == c
            both = (rows.blank[old + i] if twice else rows.total[old + i]) + value
            pool.floats[home.pool + count] = both + (rows.gains[old + i] + terms.reals[2])
            count += 1
    if count < terms.beam:
        return low
    end = home.pool + count
    least = select(pool.floats, home.pool, end, end - terms.beam)
    least -= 1e-9 * (1.0 + abs(least))  # who is worth as much may come before one of these
    return least if least > low else low


@shared
def list_tokens(own: Own, speech: Item, told: Item, cut: Cut, low: float, old: int, live: int) -> Any:
    """The tokens that some prefix may go on with, in their order; how many, and the largest log-probability of one.

    None that could only make a candidate that is too bad, with some distance because sums are rounded.
    """
    _, rows, pool, _, terms, home = own
    logs, frame = pool.logs, home.frame
    bound = -math.inf
    if terms.fused == 0 and low > -math.inf:
        top = -math.inf
        for i in range(live):
            value = rows.total[old + i] + rows.gains[old + i]
            if speech is not None:
                value = rows.total[old + i] + told.kept[old + i]
            top = value if value > top else top
        top += terms.reals[2]
        if speech is not None:
            top += speech.reals[5]
        bound = low - top
        bound -= 1e-9 * (1.0 + abs(low) + abs(top))
    count = 0
    largest = -math.inf
    for c in range(terms.width):
        value = logs[frame + c]
        pool.listed[home.frame + count] = c
        count += value >= bound and value > -math.inf and c != terms.blank and survives(value, c, cut)
    for k in range(count):
        value = logs[frame + pool.listed[frame + k]]
        largest = value if value > largest else largest
    return count, largest


@shared
def say_next(speech: Item, told: Item, row: int, token: int) -> Any:
    """Score a row with one more token by the model."""
    return say(speech, told.contexts[row], told.nodes[row], told.hots[row], told.lengths[row], token)


@shared
def go_on(own: Own, speech: Item, told: Item, cut: Cut, field: Field, old: int, i: int, stamp: int) -> Any:
    """Row i with every token behind it that does not make a prefix of the beam, as candidates."""
    tree, rows, pool, guide, terms, home = own
    count, low, best = field.found, field.low, field.best
    total = rows.total[old + i]
    gain = rows.gains[old + i] + terms.reals[2]
    most = gain
    if speech is not None:
        gain = told.kept[old + i] + terms.reals[2]
        most = gain + speech.reals[5]
    if terms.fused == 0 and not (total + field.largest) + most > low:
        return field
    j = rows.firsts[home.rows + i]
    while j >= 0:
        pool.marks[home.frame + tree.tokens[home.nodes + rows.nodes[old + j]]] = stamp
        j = rows.nexts[home.rows + j]
    last = tree.tokens[home.nodes + rows.nodes[old + i]]
    begin, end = home.frame, home.frame + field.listed
    if terms.spelled != 0:
        begin, end = guide.begin[rows.states[old + i]], guide.begin[rows.states[old + i] + 1]
    for k in range(begin, end):
        c = guide.tokens[k] if terms.spelled != 0 else pool.listed[k]
        value = pool.logs[home.frame + c]
        worth = (rows.blank[old + i] if c == last else total) + value
        added = gain if terms.fused == 0 else gain + guide.gains[guide.gains_at[home.gains + i] + c]
        if speech is not None:
            if not worth + (added + speech.reals[5]) > low or pool.marks[home.frame + c] == stamp:
                continue
            said = say_next(speech, told, old + i, c)
            added = (added + said.value) + said.worth
        worth += added
        if not worth > low or pool.marks[home.frame + c] == stamp:
            continue
        if terms.spelled != 0 and not survives(value, c, cut):
            continue
        best = worth if worth > best else best
        pool.values[home.pool + count] = worth
        pool.rows[home.pool + count] = i
        pool.tokens[home.pool + count] = c
        count += worth >= best - terms.reals[1]
    return Field(count, low, best, field.listed, field.largest)


@shared
def node_of(tree: Item, home: Home, parent: int, token: int, nodes: int) -> Any:
    """The node of a prefix and a token; `nodes`, which is how many there are, where it is put in now."""
    place = (parent * 0x9E3779B1) ^ (token * 0x85EBCA6B)
    place = (place ^ (place >> 29)) & home.mask
    at = home.table
    found = tree.table[at + place]
    while found >= 0:
        if tree.parents[home.nodes + found] == parent and tree.tokens[home.nodes + found] == token:
            return found
        place = (place + 1) & home.mask
        found = tree.table[at + place]
    tree.table[at + place] = nodes
    tree.parents[home.nodes + nodes] = parent
    tree.tokens[home.nodes + nodes] = token
    tree.slots[home.nodes + nodes] = -1
    return nodes


@shared
def settle(own: Own, speech: Item, told: Item, field: Field, old: int, live: int, t: int) -> None:
    """Make the candidates the rows behind this frame."""
    tree, rows, pool, guide, terms, home = own
    logs, frame = pool.logs, home.frame
    nodes, paths = pool.state[home.state + 2], pool.state[home.state + 3]
    same = home.rows + 2 * terms.beam
    new = home.rows + (terms.beam if old == home.rows else 0)
    for i in range(live):
        tree.slots[home.nodes + rows.nodes[old + i]] = -1
    near = field.best - terms.reals[1]
    at = new
    for k in range(home.pool, home.pool + field.found):
        if pool.values[k] < near:
            continue
        i = pool.rows[k]
        c = pool.tokens[k]
        if c < 0:
            node = rows.nodes[old + i]
            rows.origins[at] = i
            rows.blank[at] = rows.blank[same + i]
            rows.token[at] = rows.token[same + i]
            rows.total[at] = rows.total[same + i]
            rows.gains[at] = rows.gains[old + i]
            if terms.spelled != 0:
                rows.states[at] = rows.states[old + i]
            if speech is not None:
                told.contexts[at] = told.contexts[old + i]
                told.nodes[at] = told.nodes[old + i]
                told.hots[at] = told.hots[old + i]
                told.lengths[at] = told.lengths[old + i]
                told.kept[at] = told.kept[old + i]
            rows.best_blank[at] = rows.best_blank[same + i]
            rows.best_token[at] = rows.best_token[same + i]
            rows.blank_paths[at] = rows.blank_paths[same + i]
            path = rows.token_paths[same + i]
            if path < -1:
                tree.times[home.nodes + paths] = t
                tree.before[home.nodes + paths] = -3 - path
                path = paths
                paths += 1
            rows.token_paths[at] = path
        else:
            before = rows.nodes[old + i]
            node = node_of(tree, home, before, c, nodes)
            nodes += node == nodes
            twice = tree.tokens[home.nodes + before] == c
            value = logs[frame + c]
            both = (rows.blank[old + i] if twice else rows.total[old + i]) + value
            gain = rows.gains[old + i] + terms.reals[2]
            if speech is not None:
                gain = told.kept[old + i] + terms.reals[2]
            if terms.fused != 0:
                gain += guide.gains[guide.gains_at[home.gains + i] + c]
            if speech is not None:
                said = say_next(speech, told, old + i, c)
                told.contexts[at] = said.context
                told.nodes[at] = said.node
                told.hots[at] = said.hot
                told.lengths[at] = said.length
                gain += said.value
                told.kept[at] = gain
                gain += said.worth
            rows.origins[at] = -1 - i
            rows.blank[at] = -math.inf
            rows.token[at] = both
            rows.total[at] = both
            rows.gains[at] = gain
            if terms.spelled != 0:
                state = rows.states[old + i]
                place = guide.begin[state]
                while guide.tokens[place] != c:
                    place += 1
                rows.states[at] = guide.states[place]
            blank = twice or rows.best_blank[old + i] >= rows.best_token[old + i]
            rows.best_blank[at] = -math.inf
            rows.best_token[at] = (rows.best_blank[old + i] if blank else rows.best_token[old + i]) + value
            rows.blank_paths[at] = -1
            tree.times[home.nodes + paths] = t
            tree.before[home.nodes + paths] = rows.blank_paths[old + i] if blank else rows.token_paths[old + i]
            rows.token_paths[at] = paths
            paths += 1
        rows.nodes[at] = node
        at += 1
    for i in range(at - new):
        tree.slots[home.nodes + rows.nodes[new + i]] = i
    pool.state[home.state] = at - new
    pool.state[home.state + 1] = (new - home.rows) // terms.beam
    pool.state[home.state + 2] = nodes
    pool.state[home.state + 3] = paths
