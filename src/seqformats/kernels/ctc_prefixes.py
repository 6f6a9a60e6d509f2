"""Prefix beam search over the frames of a model that was trained by connectionist temporal classification.

`x` holds the frames in any layout, see `Layout`, each of ``terms.width`` log-probabilities or logits.  The sources
``shares[b]`` to ``shares[b + 1]`` are the work of unit b, one after the other; the named tuples of `ctc.rows` say what
it has to itself in `tree`, `rows` and `pool`: nodes from ``places[b]`` on, and of all else equal parts.

A prefix is a label without blanks and repeats.  It is known how likely all its paths are that end in a blank, and all
that end in its last token (Graves 2012, "Supervised Sequence Labelling with Recurrent Neural Networks", 7.5.3, as a
beam: Hannun, Maas, Jurafsky and Ng 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using
Bi-Directional Recurrent DNNs").  With a frame it stays what it is, or a token comes behind it; where that makes a
prefix that is in the beam already, their paths are added up.  Of all the best ones are kept: the larger value, of the
same whoever comes first.  Those that stay come first, by rows, then those with a new token, by rows and tokens; they
are the rows of the next frame in this order, which is not that of their values.

A prefix that was dropped and comes back is the same node, since longer ones may be alive: nodes are found by parent and
token, in a table with open addresses.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ctc.rows import Fusion, Labels, Pool, PrefixRows, PrefixTerms, PrefixTree, Spelling
from .parts import (
    CALCULATES,
    Array,
    Integers,
    KernelSpec,
    Layout,
    along,
    best_of_frame,
    compiled,
    exp,
    in_order,
    keep,
    locate,
    pointer,
    select,
    shared,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


class Home(NamedTuple):
    """Where what belongs to a unit begins."""

    nodes: int
    table: int
    mask: int  # one less than how many places the table has, a power of two
    rows: int
    frame: int
    pool: int
    floats: int
    state: int
    gains: int


class Own(NamedTuple):
    """What a search has to itself, and what it is told."""

    tree: PrefixTree
    rows: PrefixRows
    pool: Pool
    words: Spelling
    fusion: Fusion
    terms: PrefixTerms
    home: Home


class Cut(NamedTuple):
    """Which tokens of a frame prefixes go on with: those above `value`, and at it those up to `token`; and the best."""

    value: float
    token: int
    best: int


@shared
def log_add(a: float, b: float) -> Any:
    """``log(exp(a) + exp(b))``, both below +inf."""
    high = a if a > b else b
    gap = high - (b if a > b else a)
    if not gap < 37.0:  # what the other one adds is rounded away; both may be -inf
        return high
    return high + math.log(1.0 + math.exp(-gap))


@shared
def home_of(terms: PrefixTerms, pool: Pool, places: Integers, b: int, frames: int) -> Any:
    """Where what belongs to unit b begins; its table is as large as a source of so many frames wants it."""
    nodes = min(places[b + 1] - places[b], frames * terms.beam + 1)
    size = 4
    while size < 2 * nodes:
        size *= 2
    floats = max(pool.places, terms.width)
    rows = terms.beam * b
    return Home(places[b], 4 * places[b], size - 1, 3 * rows, terms.width * b, pool.places * b, floats * b, 4 * b, rows)


@shared
def begin_search(own: Own) -> None:
    """The empty prefix alone."""
    tree, rows, pool, _, _, terms, home = own
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
    rows.blank_paths[at] = -1
    rows.token_paths[at] = -1
    rows.best_blank[at] = 0
    rows.best_token[at] = -math.inf
    pool.state[home.state] = 1
    pool.state[home.state + 1] = 0
    pool.state[home.state + 2] = 1
    pool.state[home.state + 3] = 0


@shared
def read_frame(own: Own, x: Array, begin: int) -> int:
    """Take the log-probabilities of a frame; the best token, or -1 where there is NaN or +inf."""
    _, _, pool, _, _, terms, home = own
    best, top = best_of_frame(x, begin, terms.width)
    if best < 0:
        return -1
    logs = pool.logs
    for c in range(terms.width):
        logs[home.frame + c] = x[begin + c]
    if terms.logits != 0 and top > -math.inf:
        pool.floats[home.floats] = 0
        total = pool.floats[home.floats]  # zero in float64
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
def cut_of(own: Own, best: int) -> Any:
    """Which tokens prefixes go on with."""
    _, _, pool, _, _, terms, home = own
    value = terms.reals[0]
    token = terms.width
    count = 0
    for c in range(terms.width if terms.token_beam < terms.width - 1 else 0):
        if pool.logs[home.frame + c] >= value and c != terms.blank:
            pool.floats[home.floats + count] = pool.logs[home.frame + c]
            count += 1
    if count > terms.token_beam:
        end = home.floats + count
        value = select(pool.floats, home.floats, end, end - terms.token_beam)
        left = terms.token_beam
        for k in range(home.floats, end):
            left -= pool.floats[k] > value
        token = -1
        while left > 0:
            token += 1
            left -= pool.logs[home.frame + token] == value and token != terms.blank
    return Cut(value, token, best)


@shared
def survives(value: float, token: int, cut: Cut) -> Any:
    """Do prefixes go on with this token?"""
    return value > cut.value or (value == cut.value and token <= cut.token) or token == cut.best


@shared
def stay(own: Own, cut: Cut, old: int, live: int) -> int:
    """Every prefix as it is, with all paths that lead to it, as the first candidates; how many."""
    tree, rows, pool, _, _, terms, home = own
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
def shrink(pool: Pool, home: Home, count: int, most: int) -> Any:
    """Of so many candidates the best, as before in their order; the least value that is left."""
    at = home.pool
    floats = home.floats
    for k in range(count):
        pool.floats[floats + k] = pool.values[at + k]
    least = select(pool.floats, floats, floats + count, floats + count - most)
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


class Field(NamedTuple):
    """What is left to look for among the candidates of a frame."""

    count: int
    low: float  # a candidate has to be worth more
    best: float  # what the best one is worth


@shared
def offer(own: Own, field: Field, value: float, row: int, token: int) -> Any:
    """Add a candidate that is worth more than `field.low`."""
    _, _, pool, _, _, terms, home = own
    count, low, best = field
    best = value if value > best else best
    if value < best - terms.reals[1]:
        return Field(count, low, best)
    pool.values[home.pool + count] = value
    pool.rows[home.pool + count] = row
    pool.tokens[home.pool + count] = token
    count += 1
    if count == pool.places:
        low = shrink(pool, home, count, terms.beam)
        count = terms.beam
    return Field(count, low, best)


@shared
def bound_of(own: Own, cut: Cut, field: Field, old: int, live: int) -> Any:
    """A better `field.low`, by what prefixes are worth with the best token behind them, which are yet to be offered."""
    tree, rows, pool, _, _, terms, home = own
    c = cut.best
    value = pool.logs[home.frame + c]
    count = field.count
    for k in range(count):
        pool.floats[home.floats + k] = pool.values[home.pool + k]
    for i in range(live):
        j = rows.firsts[home.rows + i]
        while j >= 0 and tree.tokens[home.nodes + rows.nodes[old + j]] != c:
            j = rows.nexts[home.rows + j]
        if j < 0:
            twice = tree.tokens[home.nodes + rows.nodes[old + i]] == c
            both = (rows.blank[old + i] if twice else rows.total[old + i]) + value
            pool.floats[home.floats + count] = both + (rows.gains[old + i] + terms.reals[2])
            count += 1
    if count < terms.beam:
        return field.low
    end = home.floats + count
    low = select(pool.floats, home.floats, end, end - terms.beam)
    low -= 1e-9 * (1.0 + abs(low))  # who is worth as much may come before one of these
    return low if low > field.low else field.low


@shared
def list_tokens(own: Own, cut: Cut, field: Field, old: int, live: int) -> Any:
    """The tokens that some prefix may go on with, in their order; how many, and the largest log-probability of one.

    None that could only make a candidate that is too bad, with some distance because sums are rounded.
    """
    _, rows, pool, _, _, terms, home = own
    logs, frame = pool.logs, home.frame
    bound = -math.inf
    if terms.fused == 0 and field.low > -math.inf:
        top = -math.inf
        for i in range(live):
            value = rows.total[old + i] + rows.gains[old + i]
            top = value if value > top else top
        top += terms.reals[2]
        bound = field.low - top
        bound -= 1e-9 * (1.0 + abs(field.low) + abs(top))
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
def go_on(own: Own, cut: Cut, field: Field, old: int, live: int, t: int) -> Any:
    """Every prefix with every token behind it that does not make a prefix of the beam, as candidates."""
    tree, rows, pool, words, fusion, terms, home = own
    logs, frame = pool.logs, home.frame
    listed, largest = 0, math.inf
    if terms.spelled == 0:
        listed, largest = list_tokens(own, cut, field, old, live)
    for i in range(live):
        total = rows.total[old + i]
        gain = rows.gains[old + i] + terms.reals[2]
        if terms.fused == 0 and not (total + largest) + gain > field.low:
            continue
        stamp = t * terms.beam + i + 1
        j = rows.firsts[home.rows + i]
        while j >= 0:
            pool.marks[frame + tree.tokens[home.nodes + rows.nodes[old + j]]] = stamp
            j = rows.nexts[home.rows + j]
        last = tree.tokens[home.nodes + rows.nodes[old + i]]
        begin, end = frame, frame + listed
        if terms.spelled != 0:
            state = rows.states[old + i]
            begin, end = words.begin[state], words.begin[state + 1]
        for k in range(begin, end):
            c = words.tokens[k] if terms.spelled != 0 else pool.listed[k]
            value = logs[frame + c]
            worth = (rows.blank[old + i] if c == last else total) + value
            if terms.fused != 0:
                worth += gain + fusion.values[fusion.begin[home.gains + i] + c]
            else:
                worth += gain
            if worth > field.low and pool.marks[frame + c] != stamp and (terms.spelled == 0 or survives(value, c, cut)):
                field = offer(own, field, worth, i, c)
    return field


@shared
def node_of(tree: PrefixTree, home: Home, parent: int, token: int, nodes: int) -> int:
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
def add_time(tree: PrefixTree, home: Home, paths: int, t: int, before: int) -> None:
    """A token of a path, in frame t."""
    tree.times[home.nodes + paths] = t
    tree.before[home.nodes + paths] = before


@shared
def settle(own: Own, field: Field, old: int, live: int, t: int) -> None:
    """Make the candidates the rows behind this frame."""
    tree, rows, pool, words, fusion, terms, home = own
    logs, frame = pool.logs, home.frame
    nodes, paths = pool.state[home.state + 2], pool.state[home.state + 3]
    same = home.rows + 2 * terms.beam
    new = home.rows + (terms.beam if old == home.rows else 0)
    for i in range(live):
        tree.slots[home.nodes + rows.nodes[old + i]] = -1
    near = field.best - terms.reals[1]
    at = new
    for k in range(home.pool, home.pool + field.count):
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
            rows.best_blank[at] = rows.best_blank[same + i]
            rows.best_token[at] = rows.best_token[same + i]
            rows.blank_paths[at] = rows.blank_paths[same + i]
            path = rows.token_paths[same + i]
            if path < -1:
                add_time(tree, home, paths, t, -3 - path)
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
            if terms.fused != 0:
                gain += fusion.values[fusion.begin[home.gains + i] + c]
            rows.origins[at] = -1 - i
            rows.blank[at] = -math.inf
            rows.token[at] = both
            rows.total[at] = both
            rows.gains[at] = gain
            if terms.spelled != 0:
                state = rows.states[old + i]
                place = words.begin[state]
                while words.tokens[place] != c:
                    place += 1
                rows.states[at] = words.states[place]
            blank = twice or rows.best_blank[old + i] >= rows.best_token[old + i]
            rows.best_blank[at] = -math.inf
            rows.best_token[at] = (rows.best_blank[old + i] if blank else rows.best_token[old + i]) + value
            rows.blank_paths[at] = -1
            add_time(tree, home, paths, t, rows.blank_paths[old + i] if blank else rows.token_paths[old + i])
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


@shared
def end_search(own: Own, out: Labels, i: int, begin: int, frames: int) -> int:
    """Write the best hypotheses of source i, whose frames begin at `begin` among all; how many there are."""
    tree, rows, pool, words, fusion, terms, home = own
    live = pool.state[home.state]
    at = home.rows + pool.state[home.state + 1] * terms.beam
    found = 0
    for r in range(live):
        value = rows.total[at + r] + rows.gains[at + r]
        if terms.fused != 0:
            value += fusion.values[fusion.begin[home.gains + r] + terms.blank]
        if terms.spelled == 0 or words.whole[rows.states[at + r]] != 0:
            found = keep(pool.values, pool.rows, home.pool, found, terms.n_best, value, r)
    in_order(pool.values, pool.rows, home.pool, found, terms.n_best)
    for j in range(found):
        r = pool.rows[home.pool + j]
        number = i * terms.n_best + j
        out.scores[number] = pool.values[home.pool + j]
        out.path_scores[number] = rows.total[at + r]
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
    return found


@shared
def frame_of(own: Own, cut: Cut, t: int) -> None:
    """Bring the beam of a source behind frame t, which is in its pool."""
    pool, terms, home = own.pool, own.terms, own.home
    live = pool.state[home.state]
    old = home.rows + pool.state[home.state + 1] * terms.beam
    count = stay(own, cut, old, live)
    low = pool.values[home.pool]
    best = low
    for k in range(home.pool, home.pool + count):
        low = min(low, pool.values[k])
        best = max(best, pool.values[k])
    field = Field(count, low if count == terms.beam else terms.reals[3], best if count > 0 else terms.reals[3])
    if cut.best != terms.blank and terms.spelled == 0 and terms.fused == 0:
        field = Field(field.count, bound_of(own, cut, field, old, live), field.best)
    field = go_on(own, cut, field, old, live, t)
    if field.count > terms.beam:
        low = shrink(pool, home, field.count, terms.beam)
        field = Field(terms.beam, low, field.best)
    settle(own, field, old, live, t)


@shared
def go_over(own: Own, out: Labels, x: Array, at: Layout, u: int) -> None:
    """Go over the frames of a source that this call is for."""
    pool, terms, home = own.pool, own.terms, own.home
    i, first, length = locate(at, u)
    if terms.first == 0:
        out.counts[i] = 0
        for j in range(terms.n_best):
            out.lengths[i * terms.n_best + j] = 0
        begin_search(own)
    for t in range(terms.first, min(length, terms.last)):
        if out.counts[i] == 0:
            best = read_frame(own, x, (first + along(at, t)) * terms.width)
            if best < 0:
                out.counts[i] = -1 - t
            elif pool.state[home.state] > 0:
                frame_of(own, cut_of(own, best), t)
    if terms.first <= length and length < terms.last and out.counts[i] == 0:
        out.counts[i] = end_search(own, out, i, at.cum[i], length)


@compiled
def cpu(
    x: Array,
    terms: PrefixTerms,
    words: Spelling,
    fusion: Fusion,
    out: Labels,
    tree: PrefixTree,
    rows: PrefixRows,
    pool: Pool,
    at: Layout,
    shares: Integers,
    places: Integers,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    words, fusion, out = pointer(words), pointer(fusion), pointer(out)
    tree, rows, pool = pointer(tree), pointer(rows), pointer(pool)
    at = pointer(at)
    for b in range(lo, hi):
        for u in range(shares[b], shares[b + 1]):
            home = home_of(terms, pool, places, b, locate(at, u)[2])
            go_over(Own(tree, rows, pool, words, fusion, terms, home), out, x, at, u)


def cuda(
    x: Array,
    terms: PrefixTerms,
    words: Spelling,
    fusion: Fusion,
    out: Labels,
    tree: PrefixTree,
    rows: PrefixRows,
    pool: Pool,
    at: Layout,
    shares: Integers,
    places: Integers,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
) -> None:
    """All units, a thread each."""
    b = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while b < shares.size - 1:
        for u in range(shares[b], shares[b + 1]):
            home = home_of(terms, pool, places, b, locate(at, u)[2])
            go_over(Own(tree, rows, pool, words, fusion, terms, home), out, x, at, u)
        b += gpu.gridDim.x * gpu.blockDim.y


_KINDS = ("f8", "f8", "f4", "f4", *["f8"] * 9)  # in the order of the arguments
KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", (("f4", *_KINDS), ("f8", *_KINDS)), 1 << 20)
