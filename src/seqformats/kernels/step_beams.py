"""A step of beam search on the host where there is little to do: `best_tokens` and `advance_beams` in one call.

What goes in and what comes out is theirs; `out` and `blocks` are for the work.
"""

from ..beam.rows import Apart, Beams, Candidates, Finished, Limits, Lists, NewRows, Rows, Scores, Terms, Tree, Wanted
from . import parts as p
from .parts import Singles


@p.compiled
def cpu(
    scores: Scores,
    out: Lists,
    blocks: Singles,
    limits: Limits,
    apart: Apart,
    before: Rows,
    live: NewRows,
    beams: Beams,
    finished: Finished,
    tree: Tree,
    terms: Terms,
    steps: int,
    width: int,
) -> tuple[int, int, int, int, int, int]:
    """All beams; so many steps have been made after this one."""
    wanted = Wanted(beams.begin, beams.end, beams.most)
    for b in range(beams.begin.size):
        p.choose_candidates(scores, out, blocks, limits, wanted, apart, b, width)
    candidates = Candidates(out.values, out.values, out.ids, out.counts, out.places, width)
    told: tuple[int, int, int, int, int, int] = p.advance(candidates, before, live, beams, finished, tree, terms, steps)
    return told


KERNEL = p.KernelSpec(cpu, takes=((*("f4",) * 8, "f8", *("f4",) * 3),))
