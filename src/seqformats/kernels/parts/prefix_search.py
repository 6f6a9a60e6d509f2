"""A prefix search over the frames of a source, from its beginning to its end; see the kernel `ctc_prefixes`.

`own`, `speech` and `told` are those of `parts.prefixes`.
"""

import math
from typing import Any

from ...layout import Layout
from .code import Item
from .common import along, locate
from .options import shared
from .prefixes import Field, Home, Own, bound_of, cut_of, go_on, list_tokens, settle, shrink, stay
from .record import Array
from .speech import end_label
from .vectors import best_known, exp


@shared
def home_of(terms: Item, pool: Item, b: int, frames: int) -> Any:
    """Find where what belongs to unit b begins; its table is as large as a source of so many frames wants it."""
    places = terms.places
    nodes = min(places[b + 1] - places[b], frames * terms.beam + 1)
    size = 4
    while size < 2 * nodes:
        size *= 2
    rows = terms.beam * b
    return Home(places[b], 4 * places[b], size - 1, 3 * rows, terms.width * b, pool.places * b, 4 * b, rows)


@shared
def begin_search(own: Own, speech: Item, told: Item) -> None:
    """The empty prefix alone."""
    tree, rows, pool, _, terms, home = own
    for k in range(home.mask + 1):
        tree.table[home.table + k] = -1
    for k in range(terms.width):
        pool.marks[home.frame + k] = 0
    tree.parents[home.nodes] = -1
    tree.tokens[home.nodes] = -1
    tree.slots[home.nodes] = 0
    at = home.rows
    rows.nodes[at] = 0
    rows.origins[at] = 0
    rows.blank[at] = 0
    rows.token[at] = -math.inf
    rows.total[at] = 0
    rows.gains[at] = 0
    if terms.spelled != 0:
        rows.states[at] = 0
    if speech is not None:
        told.contexts[at] = speech.start
        told.nodes[at] = 0
        told.hots[at] = 0
        told.lengths[at] = 0
        told.kept[at] = 0
    rows.blank_paths[at] = -1
    rows.token_paths[at] = -1
    rows.best_blank[at] = 0
    rows.best_token[at] = -math.inf
    pool.state[home.state] = 1
    pool.state[home.state + 1] = 0
    pool.state[home.state + 2] = 1
    pool.state[home.state + 3] = 0


@shared
def read_frame(own: Own, x: Array, begin: int) -> Any:
    """Take the log-probabilities of a frame; the best token, or -1 where there is NaN or +inf."""
    _, _, pool, _, terms, home = own
    best, top = best_known(x, begin, terms.width, terms.logits)
    if best < 0:
        return -1
    logs = pool.logs
    for c in range(terms.width):
        logs[home.frame + c] = x[begin + c]
    if terms.logits > 0 and top > -math.inf:
        pool.floats[home.pool] = 0
        total = pool.floats[home.pool]  # zero in float64
        k = 0
        while k < terms.width:
            few = x.dtype.type(0)
            for j in range(k, min(k + 8, terms.width)):
                few += exp(x[begin + j] - top)
            total += few
            k += 8
        log = math.log(total)
        for c in range(terms.width):
            logs[home.frame + c] = (logs[home.frame + c] - top) - log
    return best


@shared
def end_search(own: Own, speech: Item, told: Item, out: Item, i: int, begin: int, frames: int) -> Any:
    """Write the best hypotheses of source i, whose frames begin at `begin` among all; how many there are."""
    tree, rows, pool, guide, terms, home = own
    live = pool.state[home.state]
    at = home.rows + pool.state[home.state + 1] * terms.beam
    found = 0
    for r in range(live):
        value = rows.total[at + r] + rows.gains[at + r]
        if speech is not None:
            k = at + r
            value = rows.total[k] + told.kept[k]
            value += end_label(speech, told.contexts[k], told.nodes[k], told.hots[k], told.lengths[k])
        if terms.fused != 0:
            value += guide.gains[guide.gains_at[home.gains + r] + terms.blank]
        if value > -math.inf and (terms.spelled == 0 or guide.whole[rows.states[at + r]] != 0):
            pool.values[home.pool + found] = value
            pool.rows[home.pool + found] = r
            found += 1
    written = min(found, terms.n_best)
    for j in range(written):
        first = home.pool
        for k in range(home.pool + 1, home.pool + found):
            first = k if pool.values[k] > pool.values[first] else first
        r = pool.rows[first]
        number = i * terms.n_best + j
        out.scores[number] = pool.values[first]
        out.path_scores[number] = rows.total[at + r]
        pool.values[first] = -math.inf
        node = rows.nodes[at + r]
        length = 0
        above = node
        while above > 0:
            length += 1
            above = tree.parents[home.nodes + above]
        out.lengths[number] = length
        place = begin * terms.n_best + j * frames
        for k in range(place + length - 1, place - 1, -1):
            out.tokens[k] = tree.tokens[home.nodes + node]
            node = tree.parents[home.nodes + node]
        blank = rows.best_blank[at + r] >= rows.best_token[at + r]
        path = rows.blank_paths[at + r] if blank else rows.token_paths[at + r]
        for k in range(place + length - 1, place - 1, -1):
            out.times[k] = tree.times[home.nodes + path]
            path = tree.before[home.nodes + path]
    return written


@shared
def go_over(own: Own, speech: Item, told: Item, out: Item, x: Array, at: Layout, u: int) -> None:
    """Go over the frames of a source that this call is for."""
    pool, terms, home = own.pool, own.terms, own.home
    i, first, length = locate(at, u)
    if terms.first == 0:
        out.counts[i] = 0
        for j in range(terms.n_best):
            out.lengths[i * terms.n_best + j] = 0
        begin_search(own, speech, told)
    for t in range(terms.first, min(length, terms.last)):
        if out.counts[i] < 0:
            break
        best = read_frame(own, x, (first + along(at, t)) * terms.width)
        if best < 0:
            out.counts[i] = -1 - t
            break
        live = pool.state[home.state]
        old = home.rows + pool.state[home.state + 1] * terms.beam
        cut = cut_of(own, best)
        count = stay(own, cut, old, live)
        low = terms.reals[3]
        top = low
        for k in range(home.pool, home.pool + count):
            value = pool.values[k]
            low = value if k == home.pool or value < low else low
            top = value if value > top else top
        low = low if count == terms.beam else terms.reals[3]
        if speech is None and best != terms.blank and terms.spelled == 0 and terms.fused == 0:
            low = bound_of(own, best, count, low, old, live)
        listed, largest = list_tokens(own, speech, told, cut, low, old, live)
        field = Field(count, low, top, listed, largest)
        for r in range(live + 1):
            if field.found > terms.beam and (r == live or field.found + terms.width > pool.places):
                low = shrink(pool, home, field.found, terms.beam)
                field = Field(terms.beam, low, field.best, listed, largest)
            if r < live:
                field = go_on(own, speech, told, cut, field, old, r, t * terms.beam + r + 1)
        settle(own, speech, told, field, old, live, t)
    if terms.first <= length and length < terms.last and out.counts[i] == 0:
        out.counts[i] = end_search(own, speech, told, out, i, at.cum[i], length)
