"""Distances between sequences."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from ..arrays import NUMPY, Array, Library, freeze, library_of
from ..errors import COUNTS, DEVICES, LEVELS, SHAPE, WHOLE
from ..formats import Encoding, is_own
from ..formats.structure import same_levels
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import operands_of
from ..launch.kernel import Kernel, Work, kernel, variant_of
from ..launch.threads import MAX_GPU_UNITS, MAX_WORKSPACE_BYTES, num_threads
from ..memory_checks import remember
from .annotations import Batch, Flat, Nested, Reduced
from .calculation import in_blocks, name_of, scratch, settle
from .choices import Strips
from .reduction import operand_of_reduction, over_levels
from .texts import in_numbers

count_edits = kernel("count_edits")

NARROW = ("bool", "int8", "int16", "int32", "uint8", "uint16")
"""What is compared as int32; other integers as int64."""
MIN_COLUMNS_FOR_THREADS = 1 << 18
"""Columns of strips, below which there is no work for several threads: about a millisecond."""
_TABLE_ON_HOST = 10320
"""Numbers of a hash table, with the masks in it, and around edges and places of columns; see `count_edits`."""
_TABLE_ON_CUDA = 3080
"""Numbers of the table of one thread block on a GPU."""
MIN_INT64 = -(2**63)


@overload
def levenshtein(x: Nested, y: Batch, *, level: int = ...) -> Any: ...
@overload
def levenshtein(x: Flat, y: Batch, *, level: int = ...) -> Array: ...
@by_level(keeps=False, marks=("y",))
def levenshtein(x: Batch, y: Batch, *, level: int = INNERMOST) -> Reduced:
    """The edit distance of every sequence of `x` to the one of `y` at the same place.

    That is how many items must be inserted, deleted or replaced, one at a time, to make one of the other.

    Parameters
    ----------
    x, y : encodings, lists of arrays or nested lists
        Over the same number of innermost sequences, of integers or bools of any dtype, with item shape () or (1,); they
        may be of different kinds and dtypes.  Where both have more levels, the outer ones are the same.  Or texts in
        lists, which are compared by code points, or lists of lists of words.
    level : int
        The level of a `LoD` whose sequences are compared, as in `convert`; the result has the levels above it.

    Returns
    -------
    array, LoD or list
        int64 ``(n,)``, in the library and on the device of the items; where `x` is a `LoD` with more levels a `LoD`
        without its innermost, where it is nested lists with more levels nested lists.

    Raises
    ------
    TypeError
        If the items are not integers.
    StructureError
        For batches that do not fit each other, or other item shapes.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    edits, wer, cer : What the edits are, and rates of errors.
    equal : Compares two batches as wholes.
    erase : Tokens that should not count, taken out before.

    Notes
    -----
    Myers' bit-vector algorithm in Hyyrö's form: 64 rows of the table of distances at a time, so that two sequences of m
    and n items take ``m * n / 64`` steps; in longer sequences eight strips of 64 rows go together.  Each thread that
    works on some pairs keeps 24 bytes an item of the longest sequence, and a table of 81 KiB; all together 256 MiB at
    most, or what a single one needs.  On a GPU a pair is the work of one thread.  Padding is never looked at.
    There is no gradient.

    Examples
    --------
    The distance of each sequence, and the rate of wrong words in all of them:

    >>> import numpy as np
    >>> import seqformats as sf
    >>> said = sf.Ragged(np.array([4, 8, 15, 16, 23]), [3, 2])
    >>> wanted = sf.Ragged(np.array([4, 15, 16, 42]), [2, 2])
    >>> wrong = sf.levenshtein(said, wanted)
    >>> wrong
    array([1, 1])
    >>> float(wrong.sum() / sf.lengths(wanted).sum())
    0.5
    >>> sf.levenshtein(["kitten", "flaw"], ["sitting", "lawn"])
    array([3, 2])
    """
    x, y = in_numbers(x, y, "xy")
    if level is not INNERMOST:
        return at_level(levenshtein, level, x, y)
    own, other = (each.own for each in operands_of(x, y))
    result = None if is_own(x) else operand_of_reduction(x).result
    pair = pair_of(own, other, (x, y), "xy")
    one, two, library, _, items, _ = pair
    out = library.empty((own._structure.n,), library.dtype("int64"), items)
    longest = max(one._structure.longest, two._structure.longest)
    pair.start(count_edits, out, _TABLE_ON_HOST + 3 * longest if pair.here else _TABLE_ON_CUDA + longest)
    out = settle(library, out)
    found = over_levels(out, own) if own.keeps_levels else out
    return found if result is None else result(found)


class _Tokens(NamedTuple):
    """Choices that follow from the dtypes of two batches of tokens."""

    x: str | None  # the dtype in which tokens are compared, None where they have it; "uint64": bit for bit
    y: str | None
    least: int  # of the tokens that can be equal to others
    variant: int  # of the code of the kernel


class Pair(NamedTuple):
    """Two batches of tokens, looked at, each in one piece."""

    x: Encoding
    y: Encoding
    library: Library
    plan: _Tokens
    items: Array  # those of x as they are compared
    others: Array

    @property
    def here(self) -> bool:
        """True if the items are on the host."""
        return self.library is NUMPY or self.library.kind(self.items) == "cpu"

    def start(self, kernel: Kernel, out: Array, room: int, most: int | None = None) -> None:
        """Start a kernel over all pairs, which has so many numbers of room for each unit of work."""
        library, items, structure = self.library, self.items, self.x._structure
        if structure.n:
            begins, columns = _shares(self.x, self.y, room, self.here)
            work = Work(begins.size - 1, columns)
            table = scratch(library, (work.units * room,), "int64", items)
            least = self.plan.least
            how = Strips(room, least) if most is None else np.array([room, least, most])
            args = (self.x._layout(), self.y._layout(), begins, how)
            given = (items, self.others)
            kernel.start(library, given, (out, table), args, 1, structure, work, variant=self.plan.variant)


def pair_of(x: Encoding, y: Encoding, given: tuple[object, object], names: Sequence[str]) -> Pair:
    """Two batches, which are called so in errors and came from `given`, as kernels compare them."""
    _check(x, y, names)
    one, two = in_blocks(x), in_blocks(y)
    library = one._look()
    if two._look() is not library or (library is not NUMPY and one.device != two.device):
        places = [
            f"{what} is on {z.device}, {library_of(z.data).name}" for what, z in zip(names, (one, two), strict=True)
        ]
        raise DEVICES("; ".join(places[::-1]))
    plan = _plans.get((type(one.data), one._dtype, two._dtype)) or _prepare(one, two, given, names)
    items, others = one.data, two.data
    if plan.x is not None:
        items = _as_integers(library, items, plan.x)
    if plan.y is not None:
        others = _as_integers(library, others, plan.y)
    return Pair(one, two, library, plan, items, others)


def _check(x: Encoding, y: Encoding, names: Sequence[str]) -> None:
    """StructureError where the two have other sequences, or no tokens."""
    one, two = names
    if y._structure.n != x._structure.n:
        raise COUNTS(f"{two} has {y._structure.n} sequences, but {one} has {x._structure.n}")
    outer = x._levels[:-1], y._levels[:-1]
    if all(outer) and not same_levels(*outer):
        raise LEVELS(f"{two} has other outer levels than {one}")
    for z, what in zip((x, y), names, strict=True):
        item = z._shape[z._lead :]
        if item and item != (1,):
            raise SHAPE(f"distances are of tokens, items of shape () or (1,), but {what} has {item}")


_plans: dict[Any, _Tokens] = {}


def _prepare(x: Encoding, y: Encoding, given: tuple[object, object], called: Sequence[str]) -> _Tokens:
    """The plan for these; TypeError for dtypes that are not of integers."""
    names, remembered = [], True
    for z, from_, what in zip((x, y), given, called, strict=True):
        name = name_of(z)
        if z.rows == 0 and not isinstance(from_, Encoding):
            name, remembered = "bool", False  # lists without items have no dtype
        if not name.startswith(("int", "uint", "bool")):
            raise WHOLE(f"distances are of tokens, which are integers, but {what} has dtype {name}")
        names.append(name)
    taken = "int32" if all(name in NARROW for name in names) else "int64"
    casts = [name if name == "uint64" else taken for name in names]
    native = [getattr(z.dtype, "isnative", True) for z in (x, y)]
    plain = [
        remembered and cast == name != "uint64" and own for cast, name, own in zip(casts, names, native, strict=True)
    ]
    # beyond int64 they are negative bit for bit, and equal to no negative number of a signed dtype
    least = 0 if (names[0] == "uint64") != (names[1] == "uint64") else MIN_INT64
    one, two = (None if as_is else cast for cast, as_is in zip(casts, plain, strict=True))
    width = "int64" if "uint64" in casts else taken
    plan = _Tokens(one, two, least, variant_of(width, width, "int64", "int64"))
    return remember(_plans, (type(x.data), x._dtype, y._dtype), plan) if remembered else plan


def _as_integers(library: Library, items: Array, name: str) -> Array:
    """The items in the dtype in which they are compared; those of uint64 bit for bit."""
    if not items.shape[0]:  # lists without items, of whatever dtype
        return library.empty((0,), library.dtype("int32" if name == "int32" else "int64"), items)
    items = library.astype(items, name)
    return items.view(library.dtype("int64")) if name == "uint64" else items


@functools.lru_cache(maxsize=64)
def _all_pairs(n: int) -> Array:
    """All of them in one unit of work."""
    return freeze(np.array((0, n)))


def _shares(x: Encoding, y: Encoding, room: int, here: bool) -> tuple[Array, int]:
    """Divide the pairs into units of work, and count the columns of strips that there are in all, about."""
    one, two = x._structure, y._structure
    n, columns = one.n, one.rows * (two.longest // 64 + 1)
    units = 1
    if not here or columns >= MIN_COLUMNS_FOR_THREADS:
        units = min(n, 4 * num_threads() if here else MAX_GPU_UNITS, max(MAX_WORKSPACE_BYTES // (8 * room), 1))
    if units == 1:
        return _all_pairs(n), columns
    costs = np.cumsum(one.lengths * (two.lengths / 64.0 + 1.0) + two.lengths + 1.0)
    begins = np.searchsorted(costs, np.arange(units + 1) * (costs[-1] / units))
    begins[-1] = n
    return freeze(begins), columns
