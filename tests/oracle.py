"""The slow, obviously right truth on plain Python lists.

A batch is a list of sequences and a sequence is a list of items; an item is a small NumPy array of the item shape
(0-d for item shape ``()``, so that the byte order stays). A batch with ``levels > 1`` nests lists that much
deeper. `Truth` holds such a batch with its dtype and item shape.

`build(kind, truth)` writes the truth out in an encoding, one item at a time; `read(x)` gets it back out of an
encoding by reading nothing but the fields, and checks on the way that the fields fit each other. `assert_same` and
`assert_layout` compare two encodings.
"""

import fractions
import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import seqformats as sf

ENCODINGS = (sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD)
FORMATS = (*ENCODINGS, list)
FLAT = (sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked)
PADDED = (sf.Padded, sf.Masked)


def format_name(kind):
    """For ``pytest.mark.parametrize(..., ids=format_name)``."""
    return kind.__name__


# --------------------------------------------------------------------------------------------- the truth


@dataclass(frozen=True, eq=False)
class Truth:
    """A batch on plain lists: `nest` is a list of sequences (one level) or of lists of such (more levels)."""

    nest: list
    dtype: np.dtype
    item_shape: tuple = ()
    levels: int = 1

    def __len__(self):
        return len(self.nest)

    def __repr__(self):
        def plain(part):
            return [plain(p) for p in part] if isinstance(part, list) else part.tolist()

        return f"Truth({plain(self.nest)}, {self.dtype}, item {self.item_shape}, levels {self.levels})"

    def sequences(self, level=-1):
        """The sequences of that level, each a list of all its items."""
        parts = self.nest
        for _ in range(level % self.levels):
            parts = [child for part in parts for child in part]
        return [flatten(part, self.levels - 1 - level % self.levels) for part in parts]

    def at(self, level):
        """That level's sequences as a batch of one level."""
        return Truth(self.sequences(level), self.dtype, self.item_shape)

    def take(self, positions):
        """The outermost sequences at these positions."""
        return Truth([self.nest[i] for i in positions], self.dtype, self.item_shape, self.levels)

    def truncated(self, width):
        return Truth([sequence[:width] for sequence in self.nest], self.dtype, self.item_shape)

    def counts(self):
        """How many children every part has, level by level, outermost first."""
        found, parts = [], self.nest
        for _ in range(self.levels):
            found.append([len(part) for part in parts])
            parts = [child for part in parts for child in part]
        return found

    def lengths(self, level=-1):
        return self.counts()[level]

    def rows(self):
        return sum(len(sequence) for sequence in self.sequences())

    def longest(self):
        return max((len(sequence) for sequence in self.sequences()), default=0)

    def array(self, items):
        """These items stacked: ``(len(items), *item)``."""
        out = np.empty((len(items), *self.item_shape), self.dtype)
        for row, item in enumerate(items):
            out[row, ...] = item
        return out

    def data(self):
        """All items stacked in order."""
        return self.array([item for sequence in self.sequences() for item in sequence])


def flatten(part, depth):
    """The items below `part`, where `depth` levels of lists lie between."""
    if depth == 0:
        return part
    return [item for child in part for item in flatten(child, depth - 1)]


def truth_of(arrays, dtype=None, item_shape=None):
    """A truth of one level from arrays ``(length, *item)``; dtype and item shape are needed for no arrays."""
    dtype = arrays[0].dtype if dtype is None else np.dtype(dtype)
    item_shape = arrays[0].shape[1:] if item_shape is None else item_shape
    return Truth([items_of(array) for array in arrays], dtype, item_shape)


def items_of(array):
    """The items of an array ``(length, *item)``, each a copy that keeps the byte order."""
    return [np.array(array[row, ...]) for row in range(array.shape[0])]


def offsets_of(lengths):
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + int(length))
    return offsets


def falling(lengths):
    """Positions by falling length, equal lengths in their order."""
    return sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))


def sizes_of(lengths, steps):
    """How many sequences are longer than t, for every t."""
    return [sum(1 for length in lengths if length > t) for t in range(steps)]


def round_up(width, multiple):
    while width % multiple:
        width += 1
    return width


def padded_width(truth, width=None, multiple_of=1, truncate=False):
    """The width of a padded block with these options."""
    wanted = truth.longest() if width is None else width
    if not truncate:
        wanted = max(wanted, truth.longest())
    return round_up(wanted, multiple_of)


# ---------------------------------------------------------------------------------------------- builders


def same(array):
    return array


def list_fields(truth, form=same):
    items = tuple(form(truth.array(sequence)) for sequence in truth.nest)
    return {"items": items, "like": None if items else truth.array([])}


def ragged_fields(truth, form=same):
    return {"data": form(truth.data()), "lengths": truth.lengths()}


def filled(truth, shape, fill):
    """An array of that leading shape with `fill` in every place; None: bytes that no one asked for."""
    out = np.zeros((*shape, *truth.item_shape), truth.dtype)
    if fill is None:
        out.view(np.uint8)[...] = 0xA5 if truth.dtype.kind not in "bU" else 1
        if truth.dtype.kind == "U":
            out[...] = "?"
        return out
    if type(fill) is not int or fill != 0:
        for place in np.ndindex(*shape):
            out[(*place, ...)] = np.array(fill, truth.dtype)
    return out


def padded_fields(truth, form=same, fill=0, width=None, multiple_of=1, truncate=False, order=None):
    """Time-major, sequences by falling length; `order` chooses another order of equal lengths."""
    steps = padded_width(truth, width, multiple_of, truncate)
    truth = truth.truncated(steps)
    order = falling(truth.lengths()) if order is None else order
    lengths = [len(truth.nest[i]) for i in order]
    data = filled(truth, (steps, len(truth)), fill)
    for column, i in enumerate(order):
        for t, item in enumerate(truth.nest[i]):
            data[t, column, ...] = item
    return {"data": form(data), "size_at_t": sizes_of(lengths, steps), "lengths": lengths, "indices": order}


def packed_fields(truth, form=same, order=None):
    """`padded_fields` without the padding."""
    order = falling(truth.lengths()) if order is None else order
    lengths = [len(truth.nest[i]) for i in order]
    sizes = sizes_of(lengths, truth.longest())
    items = [truth.nest[order[column]][t] for t, size in enumerate(sizes) for column in range(size)]
    return {"data": form(truth.array(items)), "size_at_t": sizes, "lengths": lengths, "indices": order}


def masked_fields(truth, form=same, fill=0, width=None, multiple_of=1, truncate=False, side="right"):
    """Batch-major in the caller's order; `side` is where the padding lies."""
    width = padded_width(truth, width, multiple_of, truncate)
    truth = truth.truncated(width)
    data = filled(truth, (len(truth), width), fill)
    for i, sequence in enumerate(truth.nest):
        start = width - len(sequence) if side == "left" else 0
        for t, item in enumerate(sequence):
            data[i, start + t, ...] = item
    return {"data": form(data), "lengths": truth.lengths(), "side": side}


def lod_fields(truth, form=same):
    return {"data": form(truth.data()), "lod": tuple(offsets_of(level) for level in truth.counts())}


FIELDS = {
    sf.List: list_fields,
    sf.Ragged: ragged_fields,
    sf.Padded: padded_fields,
    sf.Packed: packed_fields,
    sf.Masked: masked_fields,
    sf.LoD: lod_fields,
}


def build(kind, truth, **options):
    """The truth in that encoding, one item at a time."""
    if kind is list:
        return nested(truth, **options)
    return kind(**FIELDS[kind](truth, **options))


def nested(truth, leaves="scalars"):
    """Nested lists: Python scalars for item shape () (or `leaves="arrays"`), else an array per sequence.

    Dates stay NumPy scalars, since as Python objects they would lose their unit.
    """

    def sequence(items):
        if truth.item_shape == () and leaves == "scalars":
            return [item[()] if truth.dtype.kind in "mM" else item.item() for item in items]
        return truth.array(items)

    def part(children, depth):
        return [part(child, depth - 1) if depth else sequence(child) for child in children]

    return part(truth.nest, truth.levels - 1)


def depth_of(x):
    """How deep lists are nested; an array counts as one list."""
    if isinstance(x, np.ndarray):
        return 1
    if isinstance(x, (list, tuple)):
        return 1 + max((depth_of(child) for child in x), default=0)
    return 0


def dtype_of(leaves):
    """NumPy's choice for numbers; float64 for none, and uint64 where the largest needs it and none is negative."""
    if leaves and all(type(leaf) is int and leaf >= 0 for leaf in leaves) and max(leaves) >= 2**63:
        return np.dtype(np.uint64)
    return np.array(leaves).dtype if leaves else np.dtype(float)


def infer(x):
    """What nested lists mean on their own: every list is a level, numbers are leaves, arrays are sequences."""
    levels = max(depth_of(x) - 1, 1)
    leaves, arrays = [], []

    def collect(part):
        if isinstance(part, np.ndarray):
            arrays.append(part)
        elif isinstance(part, (list, tuple)):
            for child in part:
                collect(child)
        else:
            leaves.append(part)

    collect(x)
    dtype = arrays[0].dtype if arrays else dtype_of(leaves)
    item_shape = arrays[0].shape[1:] if arrays else ()

    def part_of(part, depth):
        if depth:
            return [part_of(child, depth - 1) for child in part]
        return items_of(part) if isinstance(part, np.ndarray) else [np.array(leaf, dtype) for leaf in part]

    return Truth(part_of(list(x), levels), dtype, item_shape, levels)


# ----------------------------------------------------------------------------------------------- reading


def structure_list(array):
    """A structure field as a list, checked to be a read-only int64 NumPy array of one axis."""
    assert type(array) is np.ndarray, f"structure is {type(array)}"
    assert array.dtype == np.dtype(np.int64), f"structure is {array.dtype}"
    assert array.ndim == 1, f"structure has {array.ndim} axes"
    assert not array.flags.writeable, "structure can be written"
    return array.tolist()


def read(x):
    """The truth in an encoding (or nested lists), read from its fields alone; AssertionError if they do not fit."""
    if isinstance(x, (list, tuple)):
        return infer(x)
    return READERS[type(x)](x)


def read_list(x):
    assert type(x.items) is tuple
    if not x.items:
        like = np.zeros(0) if x.like is None else x.like
        return Truth([], like.dtype, like.shape[1:])
    first = x.items[0]
    for item in x.items:
        assert item.dtype == first.dtype
        assert item.shape[1:] == first.shape[1:]
    return truth_of(x.items)


def read_ragged(x):
    return cut(x.data, [offsets_of(structure_list(x.lengths))])


def cut(data, lod):
    """Rows of `data` by relative offsets, outermost first."""
    parts = items_of(data)
    for offsets in reversed(lod):
        assert offsets[0] == 0
        assert offsets[-1] == len(parts), f"offsets end at {offsets[-1]} of {len(parts)}"
        assert offsets == sorted(offsets)
        parts = [parts[offsets[i] : offsets[i + 1]] for i in range(len(offsets) - 1)]
    return Truth(parts, data.dtype, data.shape[1:], len(lod))


def read_lod(x):
    assert type(x.lod) is tuple
    assert len(x.lod) > 0
    return cut(x.data, [structure_list(offsets) for offsets in x.lod])


def sorted_structure(x):
    sizes, lengths, indices = structure_list(x.size_at_t), structure_list(x.lengths), structure_list(x.indices)
    assert lengths == sorted(lengths, reverse=True), f"lengths do not fall: {lengths}"
    assert sorted(indices) == list(range(len(lengths))), f"indices are no permutation: {indices}"
    assert len(sizes) >= max(lengths, default=0)
    assert sizes == sizes_of(lengths, len(sizes)), f"size_at_t {sizes} does not fit lengths {lengths}"
    return sizes, lengths, indices


def read_padded(x):
    sizes, lengths, indices = sorted_structure(x)
    assert x.data.shape[:2] == (len(sizes), len(lengths))
    sequences = [None] * len(lengths)
    for column, i in enumerate(indices):
        sequences[i] = [np.array(x.data[t, column, ...]) for t in range(lengths[column])]
    return Truth(sequences, x.data.dtype, x.data.shape[2:])


def read_packed(x):
    sizes, lengths, indices = sorted_structure(x)
    assert x.data.shape[0] == sum(lengths)
    sequences = [[] for _ in lengths]
    row = 0
    for size in sizes:
        for column in range(size):
            sequences[indices[column]].append(np.array(x.data[row, ...]))
            row += 1
    return Truth(sequences, x.data.dtype, x.data.shape[1:])


def read_masked(x):
    lengths = structure_list(x.lengths)
    assert x.side in ("left", "right")
    width = x.data.shape[1]
    assert x.data.shape[0] == len(lengths)
    assert max(lengths, default=0) <= width
    sequences = []
    for i, length in enumerate(lengths):
        start = width - length if x.side == "left" else 0
        sequences.append([np.array(x.data[i, start + t, ...]) for t in range(length)])
    return Truth(sequences, x.data.dtype, x.data.shape[2:])


READERS = {
    sf.List: read_list,
    sf.Ragged: read_ragged,
    sf.Padded: read_padded,
    sf.Packed: read_packed,
    sf.Masked: read_masked,
    sf.LoD: read_lod,
    sf.Chunks: read_lod,
}


# --------------------------------------------------------------------------------------------- comparing


def roundings(length, dtype):
    """How often a sum of so many items may be rounded, at most, in units of half the dtype's epsilon.

    Float32, half precision and complex64 are added up in blocks by the place in the sequence, and the blocks in
    float64: a sum of positive items is off by 15 roundings at most in its blocks, and by that of the result.  In
    float64 each addition may round.
    """
    in_blocks = np.dtype(dtype).itemsize <= (8 if np.dtype(dtype).kind == "c" else 4)
    return min(length, 16) if in_blocks else length


# ------------------------------------------------------------------------------------------ reductions


@dataclass(frozen=True)
class Reduction:
    """What a reduction makes of a column of a sequence that has items, a list of Python's own numbers."""

    calculate: Callable | None = None  # the number that they come to
    pick: Callable | None = None  # or the place of the one that is picked
    ordered: bool = False  # is it for numbers with an order alone?
    real: bool = False  # or for real ones?
    whole: bool = False  # are results of integers integers?
    made: str | None = None  # the dtype of the results of all numbers
    rounds: Callable = roundings
    passes: Callable = lambda column: ()  # what it comes to on its way: beyond the dtype, the end is not to be told
    scale: Callable | None = None  # by which rounding is measured; None for the same of the numbers without their signs


def product(column):
    """Exactly, where all numbers are finite."""
    finite = all(number == number and abs(number) != math.inf for number in column)
    return math.prod(column if finite else map(float, column))


def products(column):
    return itertools.accumulate(map(abs, column), operator.mul)


def norm(column):
    if any(number != number for number in column):
        return math.nan
    return math.hypot(*map(float, column))


def logsumexp(column):
    top = max(column, key=rank)
    if not math.isfinite(top):
        return top
    return float(top) + math.log(math.fsum(math.exp(number - top) for number in column))


def rank(number):
    """NaN is the largest."""
    return number != number, number


def first_largest(column):
    return max(range(len(column)), key=lambda t: (rank(column[t]), -t))


def first_least(column):
    return first_largest([number if number != number else -number for number in column])


def squares(column):
    return [number * number for number in column]


def variance(column):
    mean = sum(column) / len(column)
    return sum(squares([number - mean for number in column])) / len(column)


def quantile(column, level):
    """Between two items in proportion; in fractions, so that no rank is rounded."""
    if any(number != number for number in column):
        return math.nan
    ordered = sorted(column)
    low = int(level * (len(column) - 1))
    share = level * (len(column) - 1) - low
    below, above = ordered[low], ordered[min(low + 1, len(column) - 1)]
    return below if share == 0 or below == above else (1 - share) * below + share * above


def different(column):
    return len({number for number in column if number == number}) + any(number != number for number in column)


def most_frequent(column):
    """The first of the items that are there most often, of several the least."""

    def how_often(number):
        return sum(other == number or (other != other and number != number) for other in column)

    return min(range(len(column)), key=lambda t: (-how_often(column[t]), rank(column[t]), t))


REDUCTIONS = {
    "sum": Reduction(sum, whole=True),
    "mean": Reduction(lambda column: sum(column) / len(column)),
    "sqrt": Reduction(lambda column: sum(column) / math.sqrt(len(column))),
    "prod": Reduction(product, whole=True, rounds=lambda length, _: length, passes=products),
    "max": Reduction(pick=first_largest, ordered=True),
    "min": Reduction(pick=first_least, ordered=True),
    "first": Reduction(pick=lambda column: 0),
    "last": Reduction(pick=lambda column: len(column) - 1),
    "logsumexp": Reduction(logsumexp, ordered=True),
    "norm": Reduction(norm, real=True, passes=lambda column: [sum(number * number for number in column)]),
    "var": Reduction(
        variance, real=True, passes=lambda column: [sum(squares(column))], scale=lambda column: sum(squares(column))
    ),
    "std": Reduction(
        lambda column: math.sqrt(variance(column)),
        real=True,
        passes=lambda column: [sum(squares(column))],
        scale=lambda column: math.sqrt(sum(squares(column))),
    ),
    "median": Reduction(
        lambda column: quantile(column, fractions.Fraction(1, 2)),
        ordered=True,
        scale=lambda column: max(map(abs, column)),
    ),
    "mode": Reduction(pick=most_frequent, ordered=True),
    "count": Reduction(lambda column: sum(number != 0 for number in column), made="i8"),
    "nunique": Reduction(different, ordered=True, made="i8"),
    "any": Reduction(lambda column: any(number != 0 for number in column), made="?"),
    "all": Reduction(lambda column: all(number != 0 for number in column), made="?"),
}


# ------------------------------------------------------------------------------------------ comparisons


def assert_bits(a, b, what="array"):
    """Two arrays of one dtype and shape whose bytes are the same, so that NaN equals NaN and 0.0 is not -0.0."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, not {b.dtype}"
    assert a.shape == b.shape, f"{what}: shape {a.shape}, not {b.shape}"
    assert a.tobytes() == b.tobytes(), f"{what}: {a.tolist()}, not {b.tolist()}"


def assert_truth(found, wanted):
    """Two truths with the same levels, dtype, item shape, lengths in the caller's order and items bit for bit."""
    assert found.levels == wanted.levels, f"{found.levels} levels, not {wanted.levels}"
    assert found.dtype == wanted.dtype, f"dtype {found.dtype}, not {wanted.dtype}"
    assert found.item_shape == wanted.item_shape, f"item shape {found.item_shape}, not {wanted.item_shape}"
    assert found.counts() == wanted.counts(), f"lengths {found.counts()}, not {wanted.counts()}"
    assert_bits(found.data(), wanted.data(), "items")


def assert_same(a, b):
    """Two encodings of one type that hold the same batch: everything in the caller's order, padding never.

    Nested lists are compared leaf by leaf with the types of the leaves.
    """
    assert type(a) is type(b), f"{type(a).__name__}, not {type(b).__name__}"
    if isinstance(a, (list, tuple)):
        assert_nested(a, b)
    else:
        assert_truth(read(a), read(b))
        assert getattr(a, "side", None) == getattr(b, "side", None), "padding on the other side"


def assert_nested(a, b):
    """Nested lists with the same lists, leaves of the same type and value, arrays bit for bit."""
    assert type(a) is type(b), f"{type(a).__name__}, not {type(b).__name__}"
    if isinstance(a, np.ndarray):
        assert_bits(a, b)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), f"{len(a)} parts, not {len(b)}"
        for one, two in zip(a, b, strict=True):
            assert_nested(one, two)
    else:
        assert repr(a) == repr(b), f"{a!r}, not {b!r}"


def assert_layout(found, wanted):
    """`assert_same`, and every field is the same too: the place of each sequence, the width and the padding."""
    assert_same(found, wanted)
    if isinstance(found, (list, tuple)):
        return
    for name in ("lengths", "indices", "size_at_t"):
        if hasattr(wanted, name) and isinstance(getattr(wanted, name), np.ndarray):
            assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), f"{name} differ"
    if not isinstance(found, sf.List):
        assert_bits(found.data, wanted.data, "data")


def assert_holds(x, truth):
    """The encoding is valid and holds exactly this batch."""
    assert_truth(read(x), truth)


def arrays_of(x):
    """The arrays that hold an encoding's items."""
    if isinstance(x, (list, tuple)):
        return [array for part in x for array in arrays_of(part)]
    if isinstance(x, np.ndarray):
        return [x]
    if isinstance(x, sf.List):
        return list(x.items)
    return [x.data] if hasattr(x, "data") else []


def shares(a, b):
    """Whether any item of the one lies in memory of the other."""
    return any(np.shares_memory(one, two) for one in arrays_of(a) for two in arrays_of(b))
