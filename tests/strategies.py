"""Hypothesis strategies whose shrunk examples can be read.

Batches are drawn as `oracle.Truth`. Only the structure, the dtype, the item shape and one flag are random: the
items count upwards from 1 (or walk through NaN, infinities and extreme values where the flag is set), so a failing
example shows at once which item landed where.
"""

import ml_dtypes
import numpy as np
import oracle
from hypothesis import strategies as st

import seqformats as sf

DTYPES = ["i8", "f4", "?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "f2", "f8", "c8", "c16", "M8[s]", "<U3", "S2"]
DTYPES = [np.dtype(code) for code in [*DTYPES, ">f4", ">i8"]]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES.append(BFLOAT16)

PYTHON_DTYPES = [np.dtype(code) for code in ("i8", "f8", "?", "c16")]  # what Python's own numbers become
FLOATS = [dtype for dtype in DTYPES if dtype.kind == "f" or dtype == BFLOAT16]
ITEM_SHAPES = [(), (1,), (3,), (0,), (2, 3), (2, 0, 3)]


def dtypes():
    return st.sampled_from(DTYPES)


def item_shapes():
    return st.sampled_from(ITEM_SHAPES)


# ------------------------------------------------------------------------------------------------- items


def specials_of(dtype):
    """Values of a dtype that a careless copy would change; empty where there are none."""
    if dtype == BFLOAT16:
        return np.array([0x7FC1, 0x8000, 0x7F80, 0xFF80, 1], np.uint16).view(dtype)
    if dtype.kind == "f":
        return np.array([np.nan, -0.0, np.inf, -np.inf, np.finfo(dtype).tiny], dtype)
    if dtype.kind == "c":
        return np.array([complex(np.nan, -0.0), complex(-0.0, np.inf), complex(1, np.nan)], dtype)
    if dtype.kind in "iu":
        return np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    if dtype.kind == "M":
        return np.array(["NaT", "1969-12-31"], dtype)
    return np.zeros(0, dtype)


def counting(dtype, shape, special=False):
    """An array of that dtype whose elements count upwards from 1; `special`: every other one is a special value."""
    dtype = np.dtype(dtype)
    numbers = np.arange(1, 1 + int(np.prod(shape, dtype=np.int64)))
    if dtype.kind == "b":
        flat = numbers % 3 != 2
    elif dtype.kind in "US":
        flat = np.array([str(number % 100) for number in numbers], dtype)
    elif dtype.kind == "M":
        flat = numbers.view("M8[s]").astype(dtype)
    elif dtype.kind == "c":
        flat = (numbers - 1j * numbers).astype(dtype)
    elif dtype.kind in "iu":
        flat = (numbers % 127).astype(dtype) if dtype.itemsize == 1 else numbers.astype(dtype)
    else:
        flat = (numbers % 2048).astype(dtype)
    values = specials_of(dtype)
    if special and values.size:
        places = np.arange(0, flat.size, 2)
        flat[places] = values[(places // 2) % values.size]
    return flat.reshape(shape)


# ----------------------------------------------------------------------------------------------- batches


def lengths(max_size=7):
    """Lengths of a batch: none at all, one, zeros, a long one among short ones."""
    return st.lists(st.one_of(st.integers(0, 5), st.sampled_from([8, 17, 37])), max_size=max_size)


def nestings(levels):
    """Nested lists of lengths: `levels` 1 gives lengths, 2 a list of such lists, ..."""
    if levels == 1:
        return lengths()
    inner = st.lists(st.integers(0, 4), max_size=3)
    for _ in range(levels - 2):
        inner = st.lists(inner, max_size=3)
    return st.lists(inner, max_size=4)


def truth_from(nesting, dtype, item_shape=(), special=False, levels=1):
    """The batch with these (nested) lengths whose items count upwards."""
    total = int(np.sum(innermost(nesting), dtype=np.int64))
    data = counting(dtype, (total, *item_shape), special)
    items = iter(oracle.items_of(data))

    def part(children, depth):
        return [part(child, depth - 1) if depth else [next(items) for _ in range(child)] for child in children]

    return oracle.Truth(part(nesting, levels - 1), np.dtype(dtype), tuple(item_shape), levels)


def innermost(nesting):
    if isinstance(nesting, list):
        return [length for part in nesting for length in innermost(part)]
    return [nesting]


@st.composite
def batches(draw, levels=1, kinds=None, shapes=None):
    """A `Truth` of that many levels."""
    nesting = draw(nestings(levels))
    dtype = draw(dtypes() if kinds is None else st.sampled_from(kinds))
    item_shape = draw(item_shapes() if shapes is None else st.sampled_from(shapes))
    return truth_from(nesting, dtype, item_shape, draw(st.booleans()), levels)


def nested_batches(max_levels=3, **options):
    """A `Truth` of one to three levels."""
    return st.integers(1, max_levels).flatmap(lambda levels: batches(levels=levels, **options))


# ---------------------------------------------------------------------------------------- memory and order


def fortran(array):
    return np.asfortranarray(array)


def strided(array):
    """Every second row of an array twice as long."""
    if array.ndim == 0:
        return array
    out = np.zeros((2 * array.shape[0], *array.shape[1:]), array.dtype)[::2]
    out[...] = array
    return out


def backwards(array):
    """A negative stride on the last axis."""
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def read_only(array):
    out = array.copy()
    out.flags.writeable = False
    return out


def unaligned(array):
    """The same array one byte off every boundary."""
    memory = np.zeros(array.nbytes + 2, np.uint8)
    out = np.ndarray(array.shape, array.dtype, memory.data, offset=1 + memory.ctypes.data % 2)
    out[...] = array
    return out


FORMS = [oracle.same, fortran, strided, backwards, read_only, unaligned]


def forms():
    """A function that gives an equal array in another form of memory."""
    return st.sampled_from(FORMS)


@st.composite
def falling_orders(draw, truth):
    """Any order by falling length: equal lengths in any order."""
    found = truth.lengths()
    shuffled = draw(st.permutations(range(len(found))))
    return sorted(shuffled, key=lambda i: -found[i])


# --------------------------------------------------------------------------------------------- encodings


@st.composite
def encoded(draw, kind, levels=None, kinds=None, shapes=None):
    """A batch and an encoding of it: ``(truth, x)``.

    Every freedom that the encoding leaves is drawn: the form of memory, the order of equal lengths, spare width
    full of bytes that no one asked for, the side of the padding, the number of levels. For `list` the truth is what
    nested lists can keep.
    """
    if levels is None:
        levels = 3 if kind in (sf.LoD, list) else 1
    if kind is list:
        leaves = draw(st.sampled_from(["scalars", "arrays"]))
        if leaves == "scalars":
            kinds, shapes = [dtype for dtype in PYTHON_DTYPES if kinds is None or dtype in kinds] or kinds, [()]
        truth = draw(nested_batches(levels, kinds=kinds, shapes=shapes))
        x = oracle.nested(truth, leaves)
        return oracle.infer(x), x
    truth = draw(nested_batches(levels, kinds=kinds, shapes=shapes))
    options = {"form": draw(forms())}
    if kind in (sf.Padded, sf.Packed):
        options["order"] = draw(falling_orders(truth))
    if kind in (sf.Padded, sf.Masked):
        options["width"] = truth.longest() + draw(st.integers(0, 2))
        options["fill"] = draw(st.sampled_from([0, None]))
    if kind is sf.Masked:
        options["side"] = draw(sides())
    return truth, oracle.build(kind, truth, **options)


def sides():
    return st.sampled_from(["right", "left"])


# --------------------------------------------------------------------------------------- padding options


def fills(truth):
    """A `fill` that is exact in the batch's dtype: a scalar or an item."""
    dtype, item_shape = truth.dtype, truth.item_shape
    values = {
        "b": [True, False],
        "U": ["", "ab"],
        "S": [b"", b"x"],
        "M": [np.datetime64("NaT", "s"), np.datetime64("2001-02-03", "s")],
        "u": [7, np.int64(3)],
        "i": [-1, np.int16(5), 2.0],
        "c": [1.5 - 2j, 3],
    }.get(dtype.kind, [-1, 0.5, np.nan, -np.inf, np.float32(-0.0)])
    scalars = st.sampled_from([0, *values])
    items = st.booleans().map(lambda special: counting(dtype, item_shape, special))
    return st.one_of(scalars, items)


@st.composite
def padding_options(draw, truth, kind):
    """Options for a `Padded` or `Masked` target that fit the batch."""
    options = {}
    if draw(st.booleans()):
        options["fill"] = draw(fills(truth))
    multiple = draw(st.sampled_from([1, 1, 2, 8]))
    if multiple > 1:
        options["multiple_of"] = multiple
    choice = draw(st.sampled_from(["longest", "at least", "truncate"]))
    if choice == "at least":
        options["width"] = truth.longest() + draw(st.integers(0, 3))
    elif choice == "truncate":
        options["width"] = multiple * draw(st.integers(0, 3))
        options["truncate"] = True
    if kind is sf.Masked and draw(st.booleans()):
        options["side"] = draw(sides())
    return options


# ----------------------------------------------------------------------------------------------- indices


def positions(n):
    """One position among n, of either sign, as a Python or a NumPy integer; n is at least one."""
    wrap = st.sampled_from([int, np.int64, np.int8, np.intp])
    return st.tuples(st.integers(-n, n - 1), wrap).map(lambda pair: pair[1](pair[0]))


def slices(n):
    """Slices with any step and with open or far ends."""
    ends = st.one_of(st.none(), st.integers(-n - 2, n + 2))
    steps = st.one_of(st.none(), st.sampled_from([1, 2, 3, -1, -2]))
    return st.builds(slice, ends, ends, steps)


def position_lists(n):
    """Lists and arrays of positions, with repeats, possibly empty."""
    some = st.lists(st.integers(-n, n - 1), max_size=6) if n else st.just([])
    wraps = [list, lambda found: np.array(found, np.int64), lambda found: np.array(found, np.int32)]
    return st.tuples(some, st.sampled_from(wraps)).map(lambda pair: pair[1](pair[0]))


def masks(n):
    """One bool per sequence, as an array or a list."""
    some = st.lists(st.booleans(), min_size=n, max_size=n)
    wraps = [lambda found: np.array(found, bool)] + ([list] if n else [])
    return st.tuples(some, st.sampled_from(wraps)).map(lambda pair: pair[1](pair[0]))


def indices(n):
    """Any index of a batch of n sequences."""
    kinds = [slices(n), position_lists(n), masks(n)]
    return st.one_of(*([positions(n)] if n else []), *kinds)


def chosen(index, n):
    """The positions that an index means, by plain Python."""
    everything = list(range(n))
    if isinstance(index, slice):
        return everything[index]
    if isinstance(index, (int, np.integer)):
        return [everything[int(index)]]
    index = list(index)
    if index and all(isinstance(one, (bool, np.bool_)) for one in index):
        return [i for i in everything if index[i]]
    return [everything[int(one)] for one in index]
