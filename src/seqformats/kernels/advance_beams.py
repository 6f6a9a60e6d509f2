"""One step of beam search behind the selection: which candidates live on, which are finished, who is done.

It runs on the host, whatever the device of the scores: the candidates are few.

A *node* is a token behind another node, a *row* a live hypothesis, a *beam* the rows of a source, or of a group of one.
`candidates` are those of each beam, in falling order of their keys, `before` the rows of the step before.  `beams`,
`finished` and `tree` are written where they are; the rows that live on come to `live`.

The result is (rows, nodes, whether every row goes on from the row of the same number, the first bad row or -1, the most
rows and the most wanted candidates of a beam).  Where a row is bad nothing has been changed.
"""

from ..beam.rows import Beams, Candidates, Finished, NewRows, Rows, Terms, Tree
from . import parts as p


@p.compiled
def cpu(
    candidates: Candidates,
    before: Rows,
    live: NewRows,
    beams: Beams,
    finished: Finished,
    tree: Tree,
    terms: Terms,
    steps: int,
) -> tuple[int, int, int, int, int, int]:
    """All beams; so many steps have been made after this one."""
    told: tuple[int, int, int, int, int, int] = p.advance(candidates, before, live, beams, finished, tree, terms, steps)
    return told


KERNEL = p.KernelSpec(cpu, takes=((*("f4",) * 5, "f8", *("f4",) * 3),))
