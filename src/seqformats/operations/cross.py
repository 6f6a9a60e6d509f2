"""All pairs of the items of two batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import core
from ..arrays.dtypes import INTEGERS, differentiable, sums_in
from ..converters.convert import restore, rows_of
from ..errors import COUNTS, LEVELS, MEMORY
from ..formats import Encoding, Pairs, Ragged
from ..formats.bare import is_list
from ..formats.leaves import without_data
from ..formats.pairs import pair
from ..formats.structure import Structure
from ..gradients.cotangent import fitting
from ..gradients.levels import INNERMOST, operation_by_level
from ..gradients.operation import Call, Pullback, each_gradient, linear, operands_of
from ..launch.kernel import kernel
from ..memory_checks import check_room
from .annotations import Batch
from .calculation import name_of
from .pick import move
from .select import sum_of_copies
from .spread import sum_items

pair_lengths, pair_rows = kernel("pair_lengths"), kernel("pair_rows")


@operation_by_level(keeps=False, beside=("y",), kinds=())
def cross(x: Batch, y: Batch, *, level: int = INNERMOST) -> Call[Pairs]:  # noqa: ARG001  see `operation_by_level`
    """All pairs of an item of `x` and an item of `y`, within every sequence.

    Parameters
    ----------
    x, y : encodings, lists of arrays or nested lists
        Over as many innermost sequences, and as many outermost ones; of any dtypes, item shapes and libraries.
    level : int
        The level of a `LoD` whose sequences these are, as in `convert`; the levels below are dropped.

    Returns
    -------
    Pairs
        Sequence i of `one` and of `two` has ``len(x[i]) * len(y[i])`` items, those of `x` outermost: the first item of
        `x` beside all of `y`, then the second.  Each is what its own batch is, where that is a bare list as an
        encoding.  Its pullback takes `Pairs`, and gives a tuple, a gradient for each batch.

    Raises
    ------
    StructureError
        If the number of sequences is different.
    OutOfMemory
        Where there are more pairs than any memory holds.
    TypeError
        For a gradient of items that cannot be added up.

    See Also
    --------
    repeat : Sequences, by counts.
    concat : One after the other.

    Notes
    -----
    The gradient of an item is the sum over all its pairs.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> pairs = sf.cross(sf.Ragged(np.array([1, 2, 3]), [2, 1]), sf.Ragged(np.array([7, 8, 9]), [2, 1]))
    >>> pairs.one.data, pairs.two.data
    (array([1, 1, 2, 2, 3]), array([7, 8, 7, 8, 9]))
    """
    batches = operands_of(x, y)
    owns = batches[0].own, batches[1].own
    a, b = owns[0]._structure, owns[1]._structure
    if a.n != b.n:
        raise COUNTS(f"x has {a.n} sequences, but y has {b.n}")
    if len(owns[0]) != len(owns[1]):
        raise LEVELS(
            f"the pairs of x have {len(owns[0])} sequences on their outermost level, but those of y {len(owns[1])}; "
            "give both the same outer levels, or none, as sf.convert(x, sf.Ragged) has"
        )
    paired = _pair(a, b)

    def forward(zs: tuple[Encoding, Encoding]) -> Pairs:
        outer = move(pair_rows, zs[0], paired, b.lengths, 0)
        return pair(outer, move(pair_rows, zs[1], paired, a.lengths, 1))

    def rule(zs: tuple[Encoding, Encoding], wanted: bool) -> tuple[Pairs, Pullback | None]:
        if not wanted:
            return forward(zs), None
        names = [name_of(z) for z in zs]
        floats = [name for name in names if sums_in(name) not in INTEGERS]  # one of them is enough
        differentiable((floats or names)[0], "a repetition")
        pairs, back = forward(zs), _way_back(zs)
        likes = without_data(pairs)
        return pairs, lambda dy: linear(back, forward, Pairs(fitting(dy.one, likes.one), fitting(dy.two, likes.two)))

    def result(pairs: Pairs) -> Pairs:
        members = zip((pairs.one, pairs.two), (x, y), batches, strict=True)
        return Pairs(
            *[
                member if batch.result is None or is_list(given) else batch.result(member)
                for member, given, batch in members
            ]
        )

    as_they_are = batches[0].result is batches[1].result is None
    return Call(owns, rule, None if as_they_are else result, each_gradient(batches))


def _pair(a: Structure, b: Structure) -> Structure:
    """Make the structure of the pairs."""
    paired: Structure | None = core.build_structure(pair_lengths.run, a.n, 0, a.lengths, b.lengths)[0]
    if paired is None:
        raise MEMORY(f"no memory can hold {(a.lengths.astype(float) @ b.lengths).item():.3g} pairs")
    return paired


def _way_back(zs: tuple[Encoding, Encoding]) -> Callable[[Pairs], tuple[Any, Any]]:
    """Make the pullback: sums over all pairs of an item."""
    a, b = zs[0]._structure, zs[1]._structure
    shapes = without_data(zs[0]), without_data(zs[1])
    check_room(a.rows, 8, "items of x")
    each = Structure.of_lengths(np.repeat(b.lengths, a.lengths))  # how often each item of x comes
    times = Structure.of_lengths(a.lengths.copy())

    def back(dy: Pairs) -> tuple[Any, Any]:
        outer = sum_items(Ragged._freeze(rows_of(dy.one), each))
        inner = sum_of_copies(rows_of(dy.two), times, each, b)
        sums = zip((outer, inner), (a, b), shapes, strict=True)
        dx, dz = [restore(Ragged._freeze(data, structure), shape) for data, structure, shape in sums]
        return dx, dz

    return back
