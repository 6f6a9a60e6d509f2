"""Random calls of everything public that touches items: for tests of memory and of endurance, not of meaning.

`draw` makes a batch of odd sizes and one call of each kind that it is good for. A `Call` can be repeated, on the same
arguments or on copies of them (`copied`, `in_torch`), and its result taken apart (`arrays_of`) to be compared.
"""

import copy
import dataclasses
import functools
import inspect
import math
import re
from typing import NamedTuple

import numpy as np
import oracle
import own_kernels
import strategies
from beam_oracle import RULES

import seqformats as sf
from seqformats.operations.reduce import REDUCTIONS

FLAT = oracle.FLAT
WITHOUT_ITEMS = {  # public names that no call here needs
    *("conversion", "conversions", "explain", "is_valid_lod", "show", "to_device"),
    *("from_text", "to_text"),  # of text
    *("doctor", "keep_memory", "kept_memory", "num_threads", "set_num_threads"),
    *(
        "batches",
        "from_arrow",
        "from_awkward",
        "from_njt",
        "from_table",
        "to_arrow",
        "to_awkward",
    ),  # of another library
    *("ConversionError", "DeviceError", "OutOfMemory", "SeqFormatError", "StructureError"),
    *(
        "BeamResult",
        "BeamState",
        "BeamTrace",
        "Balance",
        "CTCAlignment",
        "CTCResult",
        "CTCState",
        "Constraint",
        "EditCounts",
        "MaskedTokens",
        "NGrams",
        "Packs",
        "SpanCorrupted",
        "TagSpans",
        "Templated",
        "TopK",
        "Unique",
        "cer",  # of strings, as is wer
        "wer",
    ),
}


class Call(NamedTuple):
    name: str
    function: object
    args: tuple

    def __call__(self):
        """The result, or the documented error, as a list of arrays and texts."""
        try:
            return arrays_of(self.function(*self.args))
        except (sf.SeqFormatError, TypeError, IndexError) as error:
            return [f"{type(error).__name__}: {error}"]

    def on(self, args):
        return self._replace(args=args)


def failed(result):
    return len(result) == 1 and isinstance(result[0], str) and "Error: " in result[0]


# ----------------------------------------------------------------------------------------- arguments and results


def mapped(change, x):
    """`x` with every array changed; encodings are built anew."""
    if isinstance(x, np.ndarray):
        return change(x)
    if isinstance(x, sf.Masked):
        return sf.Masked(change(x.data), x.lengths, x.side)
    if dataclasses.is_dataclass(x) and type(x).__module__.startswith("seqformats"):
        fields = {field.name: getattr(x, field.name) for field in dataclasses.fields(x) if field.init}
        if isinstance(x, oracle.ENCODINGS) and not isinstance(x, sf.List):
            return type(x)(**{**fields, "data": change(x.data)})
        return type(x)(**{name: mapped(change, value) for name, value in fields.items()})
    if type(x) in (list, tuple):
        return type(x)(mapped(change, part) for part in x)
    if type(x) is dict:
        return {key: mapped(change, value) for key, value in x.items()}
    return x


def copied(x):
    """The same in new memory."""
    return mapped(np.array, x)


def viewed(x):
    """The same as views of new memory that goes on before, and ends with them."""
    return mapped(lambda array: _within(array, 3, 0), x)


def begun(x):
    """The same as views of new memory that begins with them, and goes on."""
    return mapped(lambda array: _within(array, 0, 3), x)


def _within(array, before, behind):
    if not array.ndim:
        return np.array(array)
    room = np.empty((before + len(array) + behind, *array.shape[1:]), array.dtype)
    view = room[before : before + len(array)]
    view[...] = array
    return view


def in_torch(x):
    """The same as tensors over new memory."""
    import torch

    def change(array):
        try:
            return torch.from_numpy(np.array(array))
        except TypeError:  # a dtype that PyTorch does not have
            return array

    return mapped(change, x)


def arrays_of(x):
    """All arrays of a result, in order, and a text for all else."""
    if isinstance(x, np.ndarray):
        return [x]
    if type(x).__module__ == "torch":
        return [x.detach().numpy()]
    if dataclasses.is_dataclass(x):
        parts = [getattr(x, field.name) for field in dataclasses.fields(x) if field.init]
        return [type(x).__name__, *(array for part in parts for array in arrays_of(part))]
    if isinstance(x, (list, tuple)):
        return [f"{len(x)}", *(array for part in x for array in arrays_of(part))]
    return [repr(x)]


def assert_same_bits(found, wanted, what):
    assert len(found) == len(wanted), what
    for one, two in zip(found, wanted, strict=True):
        if isinstance(two, str):
            assert isinstance(one, str), what
            assert one == two, what
        else:
            assert (one.dtype, one.shape) == (two.dtype, two.shape), what
            assert one.tobytes() == two.tobytes(), f"{what}: {one} is not {two}"


def ascending(array):
    """A gradient for it: small whole numbers."""
    numbers = np.arange(int(np.prod(array.shape, dtype=np.int64))) % 7 - 3
    if isinstance(array, np.ndarray):
        return numbers.astype(array.dtype).reshape(array.shape).view(type(array))
    import torch

    return torch.from_numpy(numbers).to(array.dtype).reshape(tuple(array.shape))


def gradient(operation, *args, **options):
    """The gradients of an operation."""
    y, pullback = sf.vjp(operation, *args, **options)
    return pullback(slopes_of(y))


def slopes_of(y):
    """A gradient for a result."""
    if type(y) is tuple:
        return tuple(slopes_of(part) for part in y)
    if isinstance(y, sf.TopK):
        return slopes_of(y.values)
    if isinstance(y, sf.TensorArray):
        return y.with_steps([ascending(step) if hasattr(step, "shape") else step for step in y.steps])
    if isinstance(y, sf.List):
        return sf.List([ascending(item) for item in y.items], y.like)
    return ascending(y.data if dataclasses.is_dataclass(y) and hasattr(y, "data") else y)


# ------------------------------------------------------------------------------------------------------ batches


@dataclasses.dataclass
class Batch:
    """Items, lengths, and the same as an encoding `x`; `flat` where that has one level."""

    rng: object
    data: np.ndarray
    lengths: np.ndarray
    x: object

    @property
    def n(self):
        return len(self.lengths)

    @property
    def flat(self):
        return not isinstance(self.x, sf.LoD)

    @property
    def rows(self):
        """One item per sequence."""
        return numbers(self.rng, (self.n, *self.data.shape[1:]), self.data.dtype)


def numbers(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "USM":
        return strategies.counting(dtype, shape)
    low = 0 if dtype.kind in "ub" else -9
    return rng.integers(low, 9, shape).astype(dtype)


def draw_batch(rng, dtypes, longest=40):
    dtype = np.dtype(dtypes[rng.integers(len(dtypes))])
    if dtype == np.uint8:
        shape = (int(rng.integers(1, 301)),)
    else:
        few = int(rng.integers(1, 41))
        shape = [(), (), (few,), (few,), (3, 5), (0,), (1, few)][rng.integers(7)]
    n = int(rng.integers(0, 9))
    lengths = rng.integers(0, [2, 6, longest][rng.integers(3)] + 1, n)
    data = numbers(rng, (int(lengths.sum()), *shape), dtype)
    return Batch(rng, data, lengths, encoded(rng, data, lengths))


def encoded(rng, data, lengths):
    kind = oracle.ENCODINGS[rng.integers(len(oracle.ENCODINGS))]
    x = sf.Ragged(data, lengths)
    options = {}
    if kind in oracle.PADDED:
        options = {"width": int(lengths.max(initial=0) + rng.integers(3)), "multiple_of": int(rng.integers(1, 4))}
    if kind is sf.Masked:
        options["side"] = ["left", "right"][rng.integers(2)]
    if kind is sf.LoD:
        outer = np.diff([0, *sorted(rng.integers(0, len(lengths) + 1, 2)), len(lengths)])
        return sf.LoD.from_lengths(data, [outer, lengths])
    return sf.convert(x, kind, **options)


def draw(rng, dtypes=tuple(strategies.DTYPES), longest=40, most=math.inf):
    """A random batch, of at most so many numbers, and a call of each kind that it is good for."""
    batch = draw_batch(rng, dtypes, longest)
    while batch.data.size > most:
        batch = draw_batch(rng, dtypes, longest)
    for name, make in MAKERS.items():
        made = make(batch)
        if made is not None:
            yield Call(name, made[0], tuple(made[1:]))


MAKERS = {}


def call(make):
    """Register what makes a function and its arguments for a batch, or None where it is good for none."""
    MAKERS[make.__name__] = make
    return make


def differentiable(operation):
    """Register a call of the operation, and one of its gradient, with the arguments that `make` returns."""

    def register(make):
        def call_and(function):
            def made(b):
                args = make(b)
                return None if args is None else (function, *args)

            return made

        MAKERS[make.__name__] = call_and(operation)
        MAKERS[f"gradient of {make.__name__}"] = call_and(functools.partial(gradient, operation))
        return make

    return register


def calls_of_one(names, also_gradient=True):
    for name in names:
        operation = getattr(sf, name)
        MAKERS[name] = lambda b, operation=operation: (operation, b.x)
        if also_gradient:
            MAKERS[f"gradient of {name}"] = lambda b, operation=operation: (
                lambda x: gradient(operation, x),
                b.x,
            )


calls_of_one([f"reduce_{name}" for name, record in REDUCTIONS.items() if record.has_gradient])
calls_of_one([f"reduce_{name}" for name, record in REDUCTIONS.items() if not record.has_gradient], False)
calls_of_one(["softmax", "log_softmax", "cumsum", "reverse", "sort"])
calls_of_one(["argmax", "lengths", "mask", "position_ids", "segment_ids", "cu_seqlens", "block_mask"], False)
calls_of_one(["argmin", "argsort", "run_starts", "unique"], False)
calls_of_one(["sort_by_length"], False)

# ------------------------------------------------------------------------------------------------------ moves


def options_for(b, kind):
    longest, options = int(b.lengths.max(initial=0)), {}
    if kind in oracle.PADDED and b.flat:
        options["width"] = int(b.rng.integers(0, longest + 4))
        options["truncate"] = True
        options["fill"] = 1 if b.data.dtype.kind in "biufc" else 0
        options["multiple_of"] = int(b.rng.integers(1, 4))
    if kind is sf.Masked:
        options["side"] = ["left", "right"][b.rng.integers(2)]
    return options


def conversions():
    for kind in oracle.FORMATS:
        MAKERS[f"convert to {kind.__name__}"] = lambda b, kind=kind: (lambda x: sf.convert(x, kind, copy=True), b.x)
        if kind is list:
            continue

        def with_options(b, kind=kind):
            options = options_for(b, kind)
            return lambda x: sf.convert(x, kind, **options), b.x

        def back(b, kind=kind):
            options = options_for(b, kind)
            return lambda x: gradient(sf.convert, x, kind, **options), b.x

        def like(b, kind=kind):
            return sf.convert_like, b.x, sf.convert(sf.Ragged(b.data, b.lengths), kind)

        MAKERS[f"convert to {kind.__name__} with options"] = with_options
        MAKERS[f"gradient of convert to {kind.__name__}"] = back
        MAKERS[f"convert_like {kind.__name__}"] = like


conversions()


@call
def convert_lists(b):
    items = np.split(b.data, np.cumsum(b.lengths)[:-1]) if b.n else []
    kind = FLAT[b.rng.integers(len(FLAT))]
    return lambda x: sf.convert(x, kind), [np.array(item) for item in items]


@call
def convert_numbers(b):
    """Nested lists of Python's numbers, and back."""
    if b.data.dtype.kind not in "bif" or b.data.dtype.itemsize > 8:
        return None
    nested = sf.convert(sf.Ragged(b.data, b.lengths), sf.List).items
    return lambda x: sf.convert(sf.convert(x, sf.LoD), list), [item.tolist() for item in nested]


@call
def to_nested(b):
    return lambda x: (x.to_nested(), list(x.sequences()), x.sequences()[::-1]), b.x


@differentiable(sf.astype)
def astype(b):
    return (b.x, "float64") if b.data.dtype.kind == "f" else None


@call
def to(b):
    return (lambda x: sf.to(x, "numpy", device="cpu", dtype=x.dtype), b.x) if type(b.data) is np.ndarray else None


@call
def map_sequences(b):
    return lambda x: (sf.map_sequences(lambda s: s[::2], x, result="sequence"), sf.map_sequences(len, x)), b.x


@call
def model_inputs(b):
    if b.data.ndim > 1 or b.data.dtype.kind not in "iu":
        return None
    options = {"side": ["left", "right"][b.rng.integers(2)], "most": int(b.rng.integers(0, 40))}
    return lambda x: list(sf.model_inputs(x, library=None, multiple_of=3, **options).values()), b.x


@call
def to_arrays(b):
    return lambda x: sf.from_arrays(sf.to_arrays(x, "a."), "a."), b.x


@call
def numbers_in_layout(b):
    return lambda x: (sf.position_ids(x, 3, layout=True), sf.segment_ids(x, layout=True)), b.x


@call
def index(b):
    chosen = b.rng.integers(-b.n, b.n, int(b.rng.integers(0, 7))) if len(b.x) == b.n and b.n else np.empty(0, np.int64)
    return lambda x, chosen: (x[chosen], x[::2], x[::-1], [x[i] for i in range(len(x))][-1:]), b.x, chosen


@differentiable(sf.select)
def select(b):
    chosen = b.rng.integers(0, 2, len(b.x)).astype(bool)
    return b.x, chosen


@differentiable(sf.slice)
def slice_(b):
    start = b.rng.integers(0, b.lengths + 1)
    count = b.rng.integers(0, b.lengths - start + 1)
    return b.x, start, count


@differentiable(sf.cut)
def cut(b):
    n = len(b.lengths)
    start, stop = b.rng.integers(-9, 9, (2, n))
    return b.x, start, stop


@differentiable(sf.cut)
def cut_by_steps(b):
    return b.x, None, None, b.rng.integers(1, 4, b.n) * b.rng.choice([-1, 1], b.n)


@differentiable(sf.truncate)
def truncate(b):
    sides = ("right", "left", "middle")
    side = sides[b.rng.integers(3)]
    return b.x, b.rng.integers(0, 9, b.n), side


@differentiable(sf.truncate_pair)
def truncate_pair(b):
    if not b.flat:
        return None
    most = b.rng.integers(0, 9, b.n)
    return b.x, sf.Ragged(b.data, b.lengths), most


@differentiable(sf.shift)
def shift(b):
    by = b.rng.integers(-9, 9, b.n)
    return b.x, by


@differentiable(sf.chunk)
def chunk(b):
    size = int(b.rng.integers(1, 9))
    return b.x, size, int(b.rng.integers(0, size))


@call
def chunks_at_the_end(b):
    size, fill = int(b.rng.integers(1, 9)), 1 if b.data.dtype.kind in "biufc" else 0
    last = ("drop", "pad", "shift")[b.rng.integers(3)]
    return lambda x: sf.chunk(x, size, size // 2, last=last, fill=fill), b.x


@differentiable(sf.unchunk)
def unchunk(b):
    if b.data.dtype.kind not in "biuf":
        return None
    size, way = int(b.rng.integers(2, 9)), ("first", "mean", "max", "last")[b.rng.integers(4)]
    return sf.chunk(b.x, size, size // 2, last=("keep", "drop", "pad")[b.rng.integers(3)]), way


@call
def some_chunks(b):
    x = sf.chunk(b.x, 3, 1)
    return lambda x: (
        sf.Chunks(x.data, x.lod, x.starts, x.sequence_lengths)[::-1],
        x[1:],
        sf.convert_like(sf.convert(x, sf.Masked), x),
    ), x


@differentiable(sf.filter)
def filter_(b):
    return b.x, b.rng.integers(0, 2, len(b.data)).astype(bool)


@differentiable(sf.gather)
def gather(b):
    chosen = b.rng.integers(0, 4, b.n) * (b.lengths > 0)
    index = sf.Ragged(b.rng.integers(-1, 1, int(chosen.sum())), chosen)
    return b.x, sf.convert(index, FLAT[b.rng.integers(len(FLAT))])


@differentiable(sf.masked_scatter)
def masked_scatter(b):
    marks = b.rng.integers(0, 2, len(b.data)).astype(bool)
    return b.x, marks, numbers(b.rng, (int(marks.sum()), *b.data.shape[1:]), b.data.dtype)


@differentiable(sf.put_sequences)
def put_sequences(b):
    index = b.rng.integers(0, len(b.x), 3) if len(b.x) else []
    return b.x, index, sf.select(b.x, index[::-1])


@differentiable(sf.topk)
def topk(b):
    return b.x, b.rng.integers(0, 20, b.n)


@call
def unique_counts(b):
    return lambda x: sf.unique(x, counts=True), b.x


@call
def cross(b):
    y = encoded(b.rng, b.data, b.lengths) if b.flat else b.x
    return sf.cross, b.x, y if len(y) == len(b.x) else b.x


@call
def gradient_of_cross(b):
    def back(x):
        pairs, pullback = sf.vjp(sf.cross, x, x)
        return pullback(pairs)

    return back, b.x


@differentiable(sf.concat)
def concat(b):
    return ([b.x, b.x],)


@differentiable(sf.concat)
def concat_items(b):
    item = np.zeros(b.data.shape[1:], b.data.dtype)
    return ([item, b.x, item],)


@differentiable(sf.interleave)
def interleave(b):
    return ([b.x, sf.Ragged(b.data[: sum(b.lengths // 2)], b.lengths // 2), b.x],)


@call
def template(b):
    ids = sf.convert(sf.Ragged(b.rng.integers(0, 9, int(b.lengths.sum())), b.lengths), FLAT[b.n % len(FLAT)])
    return lambda x, y: list(sf.Template([7, "a", 8, "b"])(x, y)), ids, ids


@call
def split_at(b):
    ids = sf.convert(sf.Ragged(b.rng.integers(0, 4, int(b.lengths.sum())), b.lengths), FLAT[b.n % len(FLAT)])
    return lambda x: [sf.split_at(x, [1, 2], keep) for keep in ("end", "start", "drop")], ids


@differentiable(sf.split)
def split(b):
    return b.x, b.rng.integers(0, 2, int(b.lengths.sum())).astype(bool)


@call
def split_drop(b):
    return (
        lambda x, where: sf.split(x, where, keep="drop"),
        b.x,
        b.rng.integers(0, 2, int(b.lengths.sum())).astype(bool),
    )


@differentiable(sf.nest)
def nest(b):
    first = int(b.rng.integers(0, len(b.x) + 1))
    return b.x, [first, len(b.x) - first]


@call
def flatten_levels(b):
    return lambda x: sf.flatten_levels(sf.nest(x, [len(x)]), outermost=True), b.x


@differentiable(sf.expand)
def expand(b):
    counts = b.rng.integers(0, 5, len(b.x))
    like = sf.Ragged(np.zeros(int(counts.sum()), np.int8), counts)
    return b.x, like


@differentiable(sf.expand)
def expand_rows(b):
    return b.rows, b.x


@differentiable(sf.expand_as)
def expand_as(b):
    return b.rows, b.x


@differentiable(sf.repeat)
def repeat(b):
    counts = b.rng.integers(0, 5, len(b.x))
    return b.x, counts


@call
def pack(b):
    return lambda x: sf.TensorArray.unpack(x).pack(), b.x


@call
def repeat_out(b):
    counts = b.rng.integers(0, 5, b.n)
    rows = int((counts * b.lengths).sum())
    out = np.zeros((rows + 1, *b.data.shape[1:]), b.data.dtype)
    return lambda x, counts, out: sf.repeat(x, counts, out=out), sf.Ragged(b.data, b.lengths), counts, out


@differentiable(sf.reorder)
def reorder(b):
    return b.x, b.rng.permutation(len(b.x))


@call
def inverse_order(b):
    return sf.inverse_order, b.rng.permutation(b.n)


@call
def split_batches(b):
    first = int(b.rng.integers(0, len(b.x) + 1))
    return lambda x: sf.split_batches(x, [first, len(x) - first]), b.x


@differentiable(sf.join_batches)
def join_batches(b):
    return ([b.x, b.x],)


@call
def equal(b):
    return sf.equal, b.x, copied(b.x)


@differentiable(sf.window)
def window(b):
    before, after = (int(k) for k in b.rng.integers(0, 4, 2))
    return b.x, before, after


@differentiable(sf.ngrams)
def ngrams(b):
    size = int(b.rng.integers(1, 5))
    return b.x, size


@differentiable(sf.reshape)
def reshape(b):
    if b.data.ndim != 2 or not b.data.shape[1]:
        return None
    widths = [k for k in range(1, b.data.shape[1] + 1) if b.data.shape[1] % k == 0]
    width = widths[b.rng.integers(len(widths))]
    return b.x, width


@call
def erase(b):
    if b.data.ndim > 1 or b.data.dtype.kind not in "iu":
        return None
    return lambda x: sf.erase(x, [1, 3, 4]), b.x


@call
def mask_tokens(b):
    if b.data.ndim > 1 or b.data.dtype.kind not in "iu":
        return None
    whole, special = sf.Ragged(b.rng.integers(0, 2, len(b.data)) == 0, b.lengths), b.rng.integers(0, 9, 3)
    options = {"rate": 0.5, "mask_id": 4, "vocabulary": 99, "seed": int(b.rng.integers(1 << 40)), "special": special}
    return lambda x, whole: [tuple(sf.mask_tokens(x, whole=words, **options)) for words in (None, whole)], b.x, whole


@call
def corrupt_spans(b):
    if b.data.ndim > 1 or b.data.dtype.kind not in "iu":
        return None
    options = {"rate": float(b.rng.random()), "mean": 1.5, "sentinel": 127, "seed": int(b.rng.integers(99))}
    return lambda x: tuple(sf.corrupt_spans(x, **options)), b.x


@differentiable(sf.shuffle)
def shuffle(b):
    return b.x, int(b.rng.integers(99))


@differentiable(sf.cross_entropy)
def cross_entropy(b):
    if b.data.ndim != 2 or not b.data.shape[1] or b.data.dtype.kind in "cUSM":
        return None
    targets = b.rng.integers(0, b.data.shape[1], len(b.data))
    return b.x, sf.convert(sf.Ragged(targets, b.lengths), FLAT[b.rng.integers(len(FLAT))])


@differentiable(sf.linear_cross_entropy)
def linear_cross_entropy(b):
    if b.data.ndim != 2 or not b.data.shape[1] or b.data.dtype.name not in ("float32", "float64"):
        return None
    weight = numbers(b.rng, (5, b.data.shape[1]), b.data.dtype)
    return b.x, weight, sf.Ragged(b.rng.integers(0, 5, len(b.data)), b.lengths)


@differentiable(sf.pairwise_dot)
def pairwise_dot(b):
    return (b.x, sf.reverse(b.x)) if b.data.ndim == 2 and b.data.dtype.kind == "f" else None


@differentiable(sf.maxsim)
def maxsim(b):
    if b.data.ndim != 2 or b.data.dtype.kind != "f" or not b.n:
        return None
    return b.x, b.x, sf.Ragged(b.rng.integers(0, b.n, b.n), np.ones(b.n, int))


@differentiable(sf.embedding_bag)
def embedding_bag(b):
    if b.data.dtype.name not in ("float32", "float64") or not len(b.data):
        return None
    ids = encoded(b.rng, b.rng.integers(0, len(b.data), b.lengths.sum()), b.lengths)
    weights = b.rng.random(int(b.lengths.sum())).astype(b.data.dtype)
    mode = ["sum", "mean", "max"][b.rng.integers(3)]
    return b.data, ids, None if mode == "max" else weights, mode


@call
def recurrences(b):
    if b.data.dtype.kind in "cUSM":
        return None
    where = b.rng.random(len(b.data)) < 0.6

    def calls(x, decay, where):
        y, final = sf.recurrence(x, decay, where=where, reverse=True, final=True)
        return y, final, sf.ema(x, 0.5, where=where), sf.standardize(x, where=where, level=None)

    return calls, b.x, b.rng.random((len(b.data), *b.data.shape[1:])), where


@call
def policies(b):
    if b.data.dtype.kind in "cUSM" or b.data.ndim > 1:
        return None
    where, score = b.rng.random(len(b.data)) < 0.6, b.rng.random(b.n)

    def calls(x, where, score):
        found = sf.rl.gae(score, x, gamma=0.9, lam=0.9, where=where, bootstrap=score)
        losses = sf.rl.policy_loss(x, x, found.advantages, where=where, dual=3.0, level="sequence")
        total = sf.rl.mean_loss(losses, where=where, per="sequence")
        return *found, losses, total, sf.rl.whiten(x, where=where), sf.rl.traces(x, gamma=0.5, done=where)

    return calls, b.x, where, score


@differentiable(sf.scatter)
def scatter(b):
    if not b.flat:
        return None
    room = int(b.rng.integers(1, 9))
    index = sf.Ragged(b.rng.integers(0, room, len(b.data)), b.lengths)
    base = numbers(b.rng, (b.n, room, *b.data.shape[1:]), b.data.dtype)
    return base, index, b.x


@differentiable(sf.TensorArray.unpack)
def steps(b):
    return (b.x,)


@differentiable(sf.shrink)
def shrink(b):
    x = sf.sort_by_length(sf.Ragged(b.data, b.lengths))[0]
    step = int(b.rng.integers(0, 4))
    return x, x, step


@call
def wrappers(b):
    kinds = (sf.with_list, sf.with_ragged, sf.with_padded, sf.with_packed, sf.with_masked, sf.with_lod, sf.with_array)
    return kinds[b.rng.integers(len(kinds))](lambda x: x), b.x


@call
def wrapper_gradient(b):
    kinds = (sf.with_ragged, sf.with_padded, sf.with_packed, sf.with_masked)
    wrapped = kinds[b.rng.integers(len(kinds))](lambda x: (x, lambda dy: dy), backprop=True)

    def forth_and_back(x):
        y, backprop = wrapped(x)
        return y, backprop(y)

    return forth_and_back, b.x


@call
def with_flatten(b):
    return sf.with_flatten(lambda flat: flat), sf.convert(sf.Ragged(b.data, b.lengths), sf.List).items


@call
def pairs(b):
    if not b.flat:
        return None
    kind = FLAT[b.rng.integers(len(FLAT))]
    return lambda x: (sf.convert(x, kind), x[::2]), sf.Pairs(sf.Ragged(b.data, b.lengths), b.x)


# -------------------------------------------------------------------------------------------------- structures


@call
def buckets(b):
    return lambda lengths: sf.buckets(lengths, int(b.lengths.max(initial=1)) * 2 + 1), b.lengths


@call
def pack_bins(b):
    return lambda lengths: sf.pack_bins(lengths, int(b.lengths.max(initial=1)) + 3), b.lengths


@call
def balance(b):
    options = {"cost": (3, 1)}
    return lambda lengths: sf.balance(lengths, 3, equal_counts=True, **options).parts, b.lengths


@call
def packs(b):
    tokens = np.arange(b.lengths.sum())
    return lambda lengths: sf.pack(sf.Ragged(tokens, lengths), 4, too_long="cut").ids, b.lengths


@call
def constructors(b):
    offsets = np.concatenate([[0], np.cumsum(b.lengths)])
    return (
        lambda data, lengths, offsets: (
            sf.Ragged(data, lengths),
            sf.Ragged.from_offsets(data, offsets),
            sf.LoD(data, [offsets]),
            sf.LoD.from_absolute(data, [offsets]),
        ),
        b.data,
        b.lengths,
        offsets,
    )


@call
def from_mask(b):
    return lambda m: sf.Masked.from_mask(m.data, m.mask), sf.convert(sf.Ragged(b.data, b.lengths), sf.Masked)


@call
def deep_copy(b):
    return copy.deepcopy, b.x


# -------------------------------------------------------------------------------------------------- arithmetic


@differentiable(sf.reduce)
def reduce(b):
    kinds = ("sum", "average", "sqrt", "max", "min", "first", "last")
    kind = kinds[b.rng.integers(len(kinds))]
    return b.x, kind


weigh = sf.kernel(own_kernels.weigh)
weighed = sf.operation(weigh, transpose=weigh)
total = sf.kernel(own_kernels.total, gives="rows")
spread = sf.kernel(own_kernels.spread, takes="rows")


@differentiable(weighed)
def own_operation(b):
    return (b.x, np.arange(3).astype(b.data.dtype), 1) if b.data.dtype.str[1:] in ("f4", "f8", "i8") else None


@call
def own_kernels_of_rows(b):
    return (lambda x: spread(total(x), x), b.x) if b.data.dtype.str[1:] in ("f4", "f8", "i8") else None


@call
def levenshtein(b):
    if b.data.ndim > 1 or b.data.dtype.kind not in "biu":
        return None
    return sf.levenshtein, b.x, sf.reverse(b.x)


@call
def edits(b):
    if b.data.ndim > 1 or b.data.dtype.kind not in "biu":
        return None
    return lambda x, y: tuple(sf.edits(references=x, hypotheses=y)), b.x, sf.reverse(b.x)


@call
def events(b):
    if b.data.ndim > 1 or b.data.dtype.kind not in "biuf" or b.data.dtype == np.float16:
        return None
    return (
        lambda x, y: (
            sf.searchsorted(sf.sort(y), x),
            sf.merge_asof(x, sf.sort(y), direction="nearest"),
            sf.intersect(x, y),
            sf.diff(x, 2),
            sf.ffill(x, sf.isin(x, y)),
            sf.sort(x, by=y),
            sf.window(x, 1, 1, fill=1),
            sf.bincount(sf.isin(x, y), 2),
        ),
        b.x,
        sf.reverse(b.x),
    )


@call
def tag_spans(b):
    if b.data.ndim > 1 or b.data.dtype.kind != "i":
        return None

    def back(x):
        spans = sf.tags_to_spans(x)
        return *spans, sf.spans_to_tags(spans, x)

    return back, sf.with_array(abs)(b.x)


@call
def where(b):
    if b.data.dtype.kind not in "biuf":
        return None
    return sf.where, sf.Ragged(b.rng.random(len(b.data)) < 0.5, b.lengths), b.x, b.x


@call
def windows_by_time(b):
    times = sf.position_ids(b.x, layout=True)
    if b.data.dtype.kind not in "biuf":
        return None
    return lambda x: (sf.window_by(x, times, 2, 1), sf.reduce_max(sf.window_by(x, times, 0, 3))), b.x


@call
def minimum_bayes_risk(b):
    if b.data.ndim > 1 or b.data.dtype.kind not in "biu":
        return None
    return lambda x: sf.minimum_bayes_risk(sf.nest(x, [sf.lengths(x).size]))[0], sf.Ragged(b.data, b.lengths)


@differentiable(sf.reduce_quantile)
def reduce_quantile(b):
    return b.x, np.round(b.rng.random(int(b.rng.integers(0, 12))), 1).tolist()


@call
def std_of_a_sample(b):
    return lambda x: (sf.reduce_std(x, ddof=1), gradient(sf.reduce_std, x, ddof=1)), b.x


@call
def weighted(b):
    if b.data.dtype.kind not in "biuf":
        return None
    weights = b.rng.integers(-2, 5, b.data.shape if b.rng.integers(2) else b.data.shape[:1]).astype("f4")
    operation = [sf.reduce_sum, sf.reduce_mean][b.rng.integers(2)]
    floats = b.data.dtype.kind == "f"

    def forth_and_back(x, weights):
        y = operation(x, weights=weights)
        return (y, gradient(operation, x, weights=weights)) if floats else y

    return forth_and_back, b.x, encoded(b.rng, weights, b.lengths) if b.rng.integers(2) and b.flat else weights


@differentiable(sf.topk_mean)
def topk_mean(b):
    topks = sorted({int(k) for k in b.rng.integers(1, 9, 3)})
    return b.x, topks


@differentiable(sf.conv)
def conv(b):
    if b.data.ndim != 2 or b.data.dtype.kind != "f":
        return None
    before, after = (int(k) for k in b.rng.integers(0, 3, 2))
    shape = ((before + 1 + after) * b.data.shape[1], int(b.rng.integers(1, 9)))
    weight = numbers(b.rng, shape, b.data.dtype)
    return b.x, weight, before, after


@differentiable(sf.attention)
def attention(b):
    if b.data.ndim not in (2, 3) or b.data.dtype.kind != "f":
        return None
    k, v = (numbers(b.rng, b.data.shape, b.data.dtype) for _ in range(2))
    return b.x, sf.Ragged(k, b.lengths), sf.convert(sf.Ragged(v, b.lengths), FLAT[b.rng.integers(len(FLAT))])


# ---------------------------------------------------------------------------------------------------- decoding


def are_logs(b):
    """May the items be taken for log-probabilities?"""
    return bool(b.rng.integers(2)) and not (b.data > 0).any()


@call
def ctc_greedy(b):
    if b.data.ndim != 2 or b.data.shape[1] < 2 or b.data.dtype.kind != "f":
        return None
    options = {"blank": int(b.rng.integers(b.data.shape[1])), "normalised": are_logs(b)}
    return lambda x: sf.ctc_greedy(x, **options), b.x


@call
def ctc_align(b):
    if b.data.ndim != 2 or b.data.shape[1] < 2 or b.data.dtype.kind != "f":
        return None
    blank = int(b.rng.integers(b.data.shape[1]))
    tokens = [c for c in range(b.data.shape[1]) if c != blank]
    targets = [b.rng.choice(tokens, b.rng.integers(0, 1 + length)) for length in b.lengths]
    options = {"blank": blank, "normalised": are_logs(b)}
    return lambda x: sf.ctc_align(x, targets, **options), b.x


@call
def ctc_loss(b):
    if b.data.ndim != 2 or b.data.shape[1] < 2 or b.data.dtype.kind != "f":
        return None
    blank = int(b.rng.integers(b.data.shape[1]))
    tokens = [c for c in range(b.data.shape[1]) if c != blank]
    labels = [b.rng.choice(tokens, b.rng.integers(0, 1 + length)) for length in b.lengths]
    options = {"blank": blank, "normalised": bool(b.rng.integers(2)), "zero_infinity": True}
    options |= {"reduction": ["none", "sum", "mean"][b.rng.integers(3)]}
    return lambda x: (sf.ctc_loss(x, labels, **options), gradient(sf.ctc_loss, x, labels, **options)), b.x


@call
def ctc_beam_search(b):
    if b.data.ndim != 2 or b.data.shape[1] < 2 or b.data.dtype.kind != "f":
        return None
    beam = int(b.rng.integers(1, 6))
    options = {"blank": int(b.rng.integers(b.data.shape[1])), "normalised": are_logs(b)}
    options |= {"beam_size": beam, "n_best": int(b.rng.integers(1, beam + 1)), "threshold": 3.0}
    return lambda x: sf.ctc_beam_search(x, **options), b.x


def limits(rng, vocabulary, n):
    tokens = [[int(t) for t in rng.integers(0, vocabulary, int(k))] for k in rng.integers(1, 4, 3)]
    found = [
        [],
        [sf.BannedTokens(tokens)],
        [sf.NoRepeatNgram(2), sf.RepetitionPenalty(1.5)],
        [sf.ForcedPrefix(tokens[0])],
        [sf.ForcedTokens({1: tokens[0][0]})],
        [sf.SequenceBias({tokens[0][0]: 1.5}), sf.ExponentialDecayLengthPenalty(1, 1.3), sf.ForcedEnd()],
        [sf.AllowedTokens(tokens)],
        [sf.AllowedTokens(sf.Trie(tokens))],
        [sf.LexicalConstraints([tokens] * n)],
        [sf.DiverseGroups(2, 0.5)],
    ]
    return found[rng.integers(len(found))]


@call
def beam_search(b):
    rng, n = b.rng, int(b.rng.integers(1, 5))
    vocabulary = int(rng.integers(2, 301))
    table = rng.standard_normal((17, vocabulary)).astype(["f4", "f4", "f8", "f2"][rng.integers(4)])
    memory = {"h": numbers(rng, (n, *b.data.shape[1:]), b.data.dtype), "more": (rng.random((n, 3)),)}
    options = {
        "rule": RULES[rng.integers(len(RULES))],
        "beam_size": 2 * int(rng.integers(1, 4)),
        "max_new_tokens": int(rng.integers(1, 6)),
        "n_best": 2,
        "constraints": limits(rng, vocabulary, n),
    }
    choice = rng.integers(4)
    if choice == 0 and not options["constraints"]:
        several = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "typical": 0.9}
        samples = [sf.Stochastic(3), sf.Sample(3), sf.Sample(3, **several), sf.Sample(3, replacement=False, **several)]
        options["sampling"] = samples[rng.integers(4)]
    elif choice == 1:
        options["prune"] = sf.Prune(relative=0.1, per_parent=3)
    elif choice == 2 and not options["constraints"]:
        options["on_scores"] = lambda scores, state: scores

    def search(table, memory):
        decoder = sf.BeamDecoder(memory, start=0, end=vocabulary - 1, **options)
        while decoder.active:
            state = decoder.state
            decoder.step(table[(state.tokens * 7 + state.t) % len(table)], state.memory)
        return decoder.result()

    return search, table, memory


@call
def greedy_search(b):
    vocabulary = int(b.rng.integers(2, 301))
    table = b.rng.standard_normal((17, vocabulary)).astype(np.float32)

    def search(table, memory):
        def step(state):
            return table[(state.tokens * 5 + state.t) % len(table)], state.memory

        return sf.beam_search(step, memory, start=0, end=[1, 2], beam_size=1, max_new_tokens=4)

    return search, table, numbers(b.rng, (3, *b.data.shape[1:]), b.data.dtype)


@call
def beam_step(b):
    rng, n = b.rng, int(b.rng.integers(1, 5))
    vocabulary, rounds = int(rng.integers(2, 30)), 3
    tables = [rng.standard_normal((64, vocabulary)).astype(np.float32) for _ in range(rounds)]

    def search(start, *tables):
        zeros = np.zeros(n, np.float32) if type(start) is np.ndarray else tables[0][:n, 0] * 0
        first = sf.LoD(start, [np.arange(n + 1), np.arange(n + 1)])
        ids, scores = [first], [sf.LoD(zeros, first.lod)]
        for table in tables:
            found = sf.beam_step(
                ids[-1].data, scores[-1].data, None, sf.LoD(table[: len(ids[-1].data)], ids[-1].lod), beam_size=3, end=0
            )
            ids.append(found.ids)
            scores.append(found.scores)
        return sf.beam_backtrace(ids, scores, beam_size=3, end=0), sf.TensorArray(ids).pack_prefixes()

    return search, np.full(n, 1), *tables


def names_called():
    """The public names that stand in this file, and those of the reductions."""
    text = inspect.getsource(inspect.getmodule(names_called))
    text += "".join(f'"reduce_{name}"' for name in REDUCTIONS)
    return {name for name in sf.__all__ if re.search(rf'(sf\.|"){name}\b', text)} | set(map(oracle.format_name, FLAT))
