"""The best candidates of each beam, from the lists of its rows that `best_tokens` has made on the host.

`lists` has a list for each row, `wanted` says which rows a beam has and how many candidates it asks for.  A beam with a
bad row r has the count ``-1 - r``.
"""

from ..beam.rows import Lists, Wanted
from . import parts as p


@p.compiled
def cpu(lists: Lists, out: Lists, wanted: Wanted) -> None:
    """All beams."""
    values, ids, counts, row_places = lists
    best, names, _, places = out
    begin, end, most = wanted
    for b in range(begin.size):
        found = 0
        for r in range(begin[b], end[b]):
            if counts[r] < 0:
                found = -1 - r
                break
            for j in range(r * row_places, r * row_places + counts[r]):
                found = p.keep(best, names, b * places, found, most[b], values[j], ids[j])
        p.in_order(best, names, b * places, found, most[b])
        out.counts[b] = found


KERNEL = p.KernelSpec(cpu)
