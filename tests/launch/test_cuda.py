"""What is special to CUDA: grids, words, copies of structure, streams and devices.

Conversions and operations are tested with the others, where `arrays` is a parameter.  The tests of `gpu` run on Numba's
device arrays in the simulator (``NUMBA_ENABLE_CUDASIM=1``), and where there is a GPU on those of Numba, torch and CuPy
(``pytest -m cuda``).
"""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import oracle
import pytest
import strategies
from elsewhere import There
from libraries import SIMULATED, OnCuPy, OnNumba, OnTorch, busy, on_each_library
from of_ptx import machine

import seqformats as sf
from seqformats import arrays
from seqformats.formats.leaves import leaves, rebuild
from seqformats.formats.structure import Pieces, Structure
from seqformats.launch import cuda, grids, resident
from seqformats.launch.kernel import kernel
from seqformats.layout import SHORT
from seqformats.operations import pieces
from seqformats.operations.reduce import REDUCTIONS

# Numbers in the simulator are NumPy's, which warn where a GPU goes on.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA"),
]


from_each = pytest.mark.parametrize("From", oracle.ENCODINGS, ids=oracle.format_name)


def example(kind=sf.Ragged, lengths=(3, 0, 1, 4), dtype="f4", item=(3,)):
    """A batch and its encoding on the CPU."""
    truth = strategies.truth_from(list(lengths), np.dtype(dtype), item)
    return oracle.build(kind, truth)


# ------------------------------------------------------------------------------------------------- moves


@on_each_library
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8"])
@pytest.mark.parametrize("shift", [1, 2, 3, 4])
def test_a_shifted_array_is_moved_in_words_that_fit(gpu, dtype, shift):
    """Its address is a multiple of the item size only; a wider access would be an error that ends the process."""
    rows = strategies.counting(np.dtype(dtype), (shift + 16,))
    x = sf.Ragged(rows[shift:].reshape(8, 2), [3, 0, 1, 4])
    here = sf.Ragged(gpu.up(rows)[shift:].reshape(8, 2), [3, 0, 1, 4])
    for To in (sf.Masked, sf.Padded, sf.Packed):
        oracle.assert_layout(gpu.down(sf.convert(here, To)), sf.convert(x, To))
    views = sf.convert(here, sf.List)
    oracle.assert_layout(gpu.down(sf.convert(views, sf.Masked)), sf.convert(x, sf.Masked))


@on_each_library
@from_each
def test_layouts_that_are_forgotten_are_found_again(gpu, From, monkeypatch):
    monkeypatch.setattr(resident, "_NAMED", 1)
    x = example(From)
    here = gpu.up(x)
    for To in (sf.Masked, sf.Padded, sf.Packed, sf.Ragged) * 2:
        oracle.assert_layout(gpu.down(sf.convert(here, To)), sf.convert(x, To))


@on_each_library
def test_changed_data_is_refused(gpu):
    x = gpu.up(example())
    object.__setattr__(x, "data", x.data[:-1])
    with pytest.raises(sf.StructureError, match="build a new one"):
        sf.convert(x, sf.Masked)


# -------------------------------------------------------------------------------------------- arithmetic


def assert_near(found, wanted):
    found = arrays.to_host(found)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    near = {"float16": 2e-3}.get(wanted.dtype.name, 1e-5)
    if wanted.dtype.kind == "c":  # NumPy divides an infinite part by a real number to NaN
        found, wanted = found[np.isfinite(wanted)], wanted[np.isfinite(wanted)]
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near)


# ------------------------------------------------------------------------------------------- operations


SHORT_OF = ("sum", "mean", "max", "min", "prod", "norm", "logsumexp", "var", "std", "softmax", "log_softmax", "sort")


# An operation, and what it is called with.
def ends_of(x):
    """The places of the first and of the last item of every sequence that has one."""
    some = sf.lengths(x) > 0
    return sf.Ragged(np.tile([0, -1], some.sum()), 2 * some)


MOVES = {
    "reverse": (sf.reverse, lambda x: (x,)),
    "shuffle": (sf.shuffle, lambda x: (x, 7)),
    "slice": (sf.slice, lambda x: (x, sf.lengths(x) // 2, (sf.lengths(x) + 1) // 2)),
    "cut": (sf.cut, lambda x: (x, 1, -1)),
    "cut by steps": (sf.cut, lambda x: (x, None, None, -2)),
    "truncate": (sf.truncate, lambda x: (x, 3, "middle")),
    "shift": (sf.shift, lambda x: (x, np.arange(len(sf.lengths(x))) % 4 - 2)),
    "shift and fill": (sf.shift, lambda x: (x, 1, 3)),
    "chunk": (sf.chunk, lambda x: (x, 3)),
    "unchunk": (sf.unchunk, lambda x: (sf.chunk(x, 3, 1, last="pad"), "last")),
    "reshape": (sf.reshape, lambda x: (x, 1)),
    "astype": (sf.astype, lambda x: (x, x.dtype)),
    "window": (sf.window, lambda x: (x, 2, 1)),
    "ngrams": (sf.ngrams, lambda x: (x, 3)),
    "concat": (sf.concat, lambda x: ([x, sf.reverse(x), x],)),
    "items": (sf.concat, lambda x: ([1, x, 0, sf.reverse(x), 1],)),
    "interleave": (sf.interleave, lambda x: ([x, sf.slice(x, 0, sf.lengths(x) // 2), x],)),
    "parts": (sf.split, lambda x: (x, np.arange(x.rows) % 2 == 1)),
    "nest": (sf.nest, lambda x: (x, [len(x) // 2, len(x) - len(x) // 2])),
    "join": (sf.join_batches, lambda x: ([x, sf.reverse(x)],)),
    "split": (sf.split_batches, lambda x: (x, [len(x) // 2, len(x) - len(x) // 2])),
    "reorder": (sf.reorder, lambda x: (x, np.arange(len(x))[::-1].copy())),
    "select": (sf.select, lambda x: (x, np.arange(len(x)) // 2)),
    "shrink": (sf.shrink, lambda x: (x, sf.Ragged(np.zeros(len(x)), np.ones(len(x), int)), 0)),
    "repeat": (sf.repeat, lambda x: (x, np.arange(len(x)) % 3)),
    "filter": (sf.filter, lambda x: (x, np.arange(sf.lengths(x).sum()) % 3 > 0)),
    "expand": (sf.expand, lambda x: (x, [np.zeros(i % 3) for i in range(len(x))] or sf.Ragged(np.zeros(0), []))),
    **{name: (getattr(sf, f"reduce_{name}"), lambda x: (x,)) for name in ("first", "last")},
}
ALONG = {
    **{name: (getattr(sf, f"reduce_{name}"), lambda x: (x,)) for name in REDUCTIONS if REDUCTIONS[name].what},
    "quantile": (sf.reduce_quantile, lambda x: (x, [0.1, 0.5, 1.0])),
    "topk": (sf.topk_mean, lambda x: (x, [1, 4, 2])),
    "diff": (sf.diff, lambda x: (x, 2)),
    "ffill": (sf.ffill, lambda x: (x, np.arange(sf.lengths(x).sum()) % 3 > 0)),
    "overlapping chunks": (sf.chunk, lambda x: (x, 3, 2)),
    "mean of chunks": (sf.unchunk, lambda x: (sf.chunk(x, 3, 2), "mean")),
    "largest of chunks": (sf.unchunk, lambda x: (sf.chunk(x, 3, 2, last="drop"), "max")),
    "softmax": (sf.softmax, lambda x: (x,)),
    "log_softmax": (sf.log_softmax, lambda x: (x,)),
    "cumsum": (sf.cumsum, lambda x: (x,)),
    "sort": (sf.sort, lambda x: (x,)),
    "gather": (sf.gather, lambda x: (x, ends_of(x))),
}
OPERATIONS = {**MOVES, **ALONG}
each_operation = pytest.mark.parametrize("name", OPERATIONS)
each_along = pytest.mark.parametrize("name", ALONG)


def numbers(lengths, item=(), dtype="f4"):
    """A batch of random numbers, with equal ones among integers."""
    generator, dtype = np.random.default_rng(5), np.dtype(dtype)
    shape = (sum(lengths), *item)
    if dtype.kind in "biu":
        return sf.Ragged(generator.integers(0 if dtype.kind != "i" else -2, 3, shape).astype(dtype), lengths)
    return sf.Ragged((generator.normal(size=shape) + (1j if dtype.kind == "c" else 0)).astype(dtype), lengths)


def encoded(kind, **options):
    """The batch in that encoding; where there is padding, with room to spare and rubbish in it."""

    def build(x):
        given = dict(options)
        if kind in oracle.PADDED:
            given.update(width=max(x.lengths, default=0) + 1, fill=None)
        return oracle.build(kind, oracle.read(x), **given)

    return build


def two_levels(x):
    n = len(x)
    return sf.LoD(x.data, [[0, n // 2, n], x.offsets])


LAYOUTS = {
    **{kind.__name__: encoded(kind) for kind in oracle.ENCODINGS},
    "left": encoded(sf.Masked, side="left"),
    "levels": two_levels,
}

# Lengths and item shape: no sequence, none with an item, a few, and more than one turn of the simulator's grids takes.
NOTHING, EMPTY, FEW, MANY = ([], (3,)), ([0, 0], (3,)), ([2, 0, 3], (2,)), ([2, 0, 5, 1, 6, 3], (5,))


def sent(gpu, x):
    """A batch, or several, on the device."""
    if isinstance(x, (list, tuple)):
        return [sent(gpu, part) for part in x]
    return sf.List([], gpu.up(x.like)) if isinstance(x, sf.List) and not x.items else gpu.up(x)


def assert_found(gpu, found, wanted, exact=False):
    """The same on the device, bit for bit or nearly, padding too."""
    if wanted is None:  # there is no gradient
        assert found is None
        return
    if isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_found(gpu, one, other, exact)
        return
    for leaf in leaves(found):
        assert arrays.library_of(leaf).kind(leaf) == "cuda"
    found = gpu.down(found)
    if not arrays.is_array(wanted):
        oracle.assert_layout(found if exact else rebuild(found, leaves(wanted)), wanted)
    for one, other in zip(leaves(found), leaves(wanted), strict=True):
        if exact:
            oracle.assert_bits(one, other)
        else:
            assert_near(one, other)


def assert_operation(gpu, name, x):
    """The result and the gradient of an operation."""
    operation, arguments = OPERATIONS[name]
    y, pullback = sf.vjp(operation, *arguments(x))
    found, on_gpu = sf.vjp(operation, *arguments(sent(gpu, x)))
    assert_found(gpu, found, y, exact=name in MOVES)
    assert_found(gpu, on_gpu(sent(gpu, y)), pullback(y))


@on_each_library
@each_operation
def test_sizes(gpu, name):
    sizes = [([3, 0, 1], ()), ([3, 0, 1], (0,)), MANY, ([41, 9], (3,))]
    if not SIMULATED:
        sizes += [([30, 0, 700], (1,)), ([70, 3], (130,)), ([9, 300], (3, 100)), ([5] * 70_000, (2,))]
    for lengths, item in sizes:
        if len(item) < 2 or name != "reshape":  # which is for items of one axis
            assert_operation(gpu, name, numbers(lengths, item, "f8"))


@pytest.fixture
def compiled(monkeypatch):
    """A GPU whose kernels run on the CPU as what the compiler makes for one: only where they are compiled."""
    with machine(monkeypatch) as gpu:
        yield gpu


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@each_operation
def test_what_the_compiler_makes(compiled, name, monkeypatch):
    """Of short sequences with rows of 32 bytes, four columns at a time where they can be, and of longer ones."""
    batches = [([5, 64, 2, 0], (8,), sf.Ragged), ([9, 0, 70, 1], (3,), sf.Packed)]
    if name == "reshape":
        batches = batches[:1]
    monkeypatch.setattr(grids, "_FOURS_FROM", 0)
    for lengths, item, kind in batches:
        assert_operation(compiled, name, sf.convert(numbers(lengths, item, "f4"), kind))


def assert_largest(gpu, k, dtype):
    """Several of the largest of numbers among which many are equal, or none at all, to the bit and in their places."""
    rng = np.random.default_rng(k)
    odd = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1, 2], dtype)
    lengths = [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 40]
    for among in (odd, odd[1:], odd[1:2], odd[3:5]):
        x = sf.Ragged(among[rng.integers(0, among.size, (sum(lengths), 6))], lengths)
        for one in (x, sf.Ragged(np.sort(x.data, 0), lengths), sf.convert(x, sf.Packed)):
            found, wanted = sf.topk(gpu.up(one), k), sf.topk(one, k)
            for part, other in zip(found, wanted, strict=True):
                assert_found(gpu, part, other, exact=True)


@on_each_library
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 9])
def test_the_largest_of_equal_numbers_and_of_no_numbers(gpu, k):
    assert_largest(gpu, k, "f4")


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("k", [3, 4, 5, 9])
def test_the_largest_as_they_are_compiled(compiled, k):
    assert_largest(compiled, k, "f8" if k == 4 else "f4")


def assert_first(gpu):
    """The first of equal items, where several threads share a column."""
    lengths = [300, 1, 40, 0, 9, 65]
    x = sf.Ragged(np.random.default_rng(0).integers(0, 2, sum(lengths)).astype("f4"), lengths)
    for operation in (sf.argmax, sf.argmin):
        assert_found(gpu, operation(gpu.up(x)), operation(x), exact=True)


@on_each_library
def test_the_first_of_equal_items(gpu):
    assert_first(gpu)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
def test_the_first_of_equal_items_as_it_is_compiled(compiled):
    assert_first(compiled)


def assert_means(gpu, topks):
    """Means of the largest, without places for a gradient and with them, to the bit where they are of few."""
    x = numbers([0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 40, 70], (5,))
    x.data[::11, 2] = np.nan
    for batch in (x, sf.convert(x, sf.Packed)):
        wanted, here = sf.topk_mean(batch, topks), sent(gpu, batch)
        found = sf.topk_mean(here, topks)
        assert_found(gpu, found, wanted, exact=max(topks) <= 4)
        assert_found(gpu, sf.vjp(sf.topk_mean, here, topks)[0], gpu.down(found), exact=True)


@on_each_library
@pytest.mark.parametrize("topks", [[1], [4, 2], [3, 7], [5], [20, 1]])
def test_means_of_the_largest(gpu, topks):
    assert_means(gpu, topks)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("topks", [[4, 1, 2, 3], [3, 7], [20, 5]])
def test_means_of_the_largest_as_they_are_compiled(compiled, topks):
    assert_means(compiled, topks)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("fours", [True, False])
@pytest.mark.parametrize("name", [name for name in SHORT_OF if name not in ("sort", "mean", "min", "std")])
def test_every_short_length(compiled, name, fours, monkeypatch):
    """Rows are read eight or sixteen at a time, and fewer at the end."""
    operation, arguments = OPERATIONS[name]
    monkeypatch.setattr(grids, "_FOURS_FROM", 0 if fours else 1 << 40)
    x = numbers(list(range(67)), (4,), "f4")
    for batch in (sf.select(x, list(range(65))), sf.convert(sf.select(x, list(range(34))), sf.Packed), x):
        found = operation(*arguments(sent(compiled, batch)))
        assert_found(compiled, found, operation(*arguments(batch)), exact=False)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize("lengths", [range(65), [*range(67), 300]], ids=["short", "long"])
def test_places_of_every_length(compiled, lengths, dtype):
    """The first of many equal items, and of several that are NaN."""
    rng = np.random.default_rng(0)
    data = rng.integers(0, 6, (sum(lengths), 5)).astype(dtype)
    if dtype == "f4":
        data[rng.random(data.shape) < 0.02] = np.nan
    x = sf.Ragged(data, list(lengths))
    for batch in (x, sf.convert(x, sf.Packed)):
        for places in (sf.argmax, sf.argmin):
            assert_found(compiled, places(sent(compiled, batch)), places(batch), exact=True)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize("lengths", [range(65), [*range(67), 300]], ids=["short", "long"])
def test_quantiles_and_counts_of_every_length(compiled, lengths, dtype):
    """Among many equal items, zeros of either sign and NaN; long sequences are put in order first."""
    rng = np.random.default_rng(0)
    odd = np.array([-np.inf, -0.0, 0.0, 1, 2, np.inf], "f4") if dtype == "f4" else np.arange(-3, 3)
    data = odd[rng.integers(0, 6, (sum(lengths), 5))]
    if dtype == "f4":
        data[rng.random(data.shape) < 0.02] = np.nan
    x = sf.Ragged(data, list(lengths))
    for batch in (x, sf.convert(x, sf.Packed)):
        here = sent(compiled, batch)
        for count in (sf.reduce_nunique, sf.reduce_mode):
            assert_found(compiled, count(here), count(batch), exact=True)
        for way in ("linear", "lower", "higher", "nearest", "midpoint"):
            asked = [0, 0.1, 0.5, 0.77, 1]
            wanted = sf.reduce_quantile(batch, asked, interpolation=way)
            assert_found(compiled, sf.reduce_quantile(here, asked, interpolation=way), wanted)
            if dtype == "f4":
                slopes = rng.normal(size=wanted.shape).astype("f4")
                _, back = sf.vjp(sf.reduce_quantile, batch, asked, interpolation=way)
                _, on_gpu = sf.vjp(sf.reduce_quantile, here, asked, interpolation=way)
                assert_found(compiled, on_gpu(compiled.up(slopes)), back(slopes))


@on_each_library
@pytest.mark.parametrize("length", [2, 90])
def test_the_quantile_of_one_sequence(gpu, length):
    x = sf.Ragged(np.arange(length)[::-1].astype("f4"), [length])
    for level in (0.5, 1):
        assert_found(gpu, sf.reduce_quantile(gpu.up(x), level), sf.reduce_quantile(x, level))
        found = sf.vjp(sf.reduce_quantile, gpu.up(x), level)[1](gpu.up(np.ones(1, "f4")))
        assert_found(gpu, found, sf.vjp(sf.reduce_quantile, x, level)[1](np.ones(1, "f4")))


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("last", [10, 20, 40, 100])
def test_a_quantile_that_is_one_item_knows_nothing_of_the_next(compiled, last):
    """The place of a level is rounded before its whole part is taken away from it."""
    for level in (0.1, 0.2, 0.3, 0.6, 0.7, 0.9):
        rank = round(level * last)
        data = np.where(np.arange(last + 1) <= rank, np.arange(last + 1), np.inf)
        found = compiled.down(sf.reduce_quantile(compiled.up(sf.Ragged(data, [last + 1])), level))
        assert found == np.quantile(data[: rank + 1], 1) == rank


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("fours", [True, False])
def test_variances_of_odd_numbers(compiled, fours, monkeypatch):
    """Far from zero, or with a beginning that is far from the rest, they are as exact as the documentation says."""
    monkeypatch.setattr(grids, "_FOURS_FROM", 0 if fours else 1 << 40)
    lengths = [2, 8, 9, 25, 64] if fours else [3, 70, 300, 2000]
    x = numbers(lengths, (4,), "f8").data
    begins = np.concatenate(
        [
            np.arange(end - size, end - size + min(size, 8))
            for size, end in zip(lengths, np.cumsum(lengths), strict=True)
        ]
    )
    for add, at, near in ((0, slice(None), 6e-7), (1e4, slice(None), 6e-7), (1e3, begins, 5e-6)):
        data = x.copy()
        data[at] += add
        batch = sf.Ragged(data.astype("f4"), lengths)
        wanted = sf.reduce_var(sf.astype(batch, "f8"))
        np.testing.assert_allclose(compiled.down(sf.reduce_var(compiled.up(batch))), wanted, rtol=near)


INSTRUCTIONS = {
    "pad_rows": (35, lambda x: sf.convert(x, sf.Masked)),
    "blocks_to_steps": (21, lambda x: sf.convert(x, sf.Packed)),
    "shift_rows": (35, lambda x: sf.shift(x, 1)),
    "sum_rows": (7.2, sf.reduce_sum),
    "max_rows": (9.7, sf.reduce_max),
    "argmax_rows": (27.1, sf.argmax),
    "prod_rows": (5.8, sf.reduce_prod),
    "norm_rows": (9.9, sf.reduce_norm),
    "var_rows": (12.9, sf.reduce_var),
    "logsumexp_rows": (20.2, sf.reduce_logsumexp),
    "softmax_rows": (40.9, sf.softmax),
    "cumsum_rows": (10.9, sf.cumsum),
    "topk_rows": (54, lambda x: sf.topk(x, 4)),
}
"""At most so many of PTX, of all threads together, for a number; about a tenth more than it is."""


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions_for_a_number(compiled, name, monkeypatch):
    """Of short sequences, where four columns are one item if they can be."""
    most, call = INSTRUCTIONS[name]
    monkeypatch.setattr(grids, "_FOURS_FROM", 0)
    x = numbers(np.random.default_rng(0).integers(1, 26, 4000), (64,), "f4")
    call(compiled.up(x))
    assert 0 < compiled.driver.taken[name] <= most * x.data.size


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("name", ["median", "nunique", "mode"])
def test_items_of_long_sequences_are_not_compared_with_all_others(compiled, name):
    """They are put in order first: what is left takes some instructions an item, not some for each of 600."""
    x = numbers([600] * 20, (16,), "f4")
    getattr(sf, f"reduce_{name}")(compiled.up(x))
    taken = compiled.driver.taken
    assert 0 < taken.get("ordered_quantiles", 0) + taken.get("alike_rows", 0) <= 40 * x.data.size
    assert taken["order_rows"] > 0


@pytest.mark.passes("compiled", reason="it compiles the kernels")
@pytest.mark.parametrize("bits", [32, 64])
def test_places_of_large_arrays_have_64_bits(compiled, bits, monkeypatch):
    """The largest array of a call decides: items, or what is known of sequences."""
    seen, image_of = [], cuda.cubins.image_of

    def noted(name, function, signature, *rest):
        seen.append(str(signature))
        return image_of(name, function, signature, *rest)

    x = numbers([3, 0, 77, 20, 1], (4,), "f4")
    monkeypatch.setattr(cuda.cubins, "image_of", noted)
    for least in (101, 6):
        seen.clear()
        monkeypatch.setattr(cuda, "_FAR", least if bits == 64 else 1 << 32)
        oracle.assert_layout(compiled.on(lambda x: sf.convert(x, sf.Masked))(x), sf.convert(x, sf.Masked))
        oracle.assert_bits(compiled.on(sf.reduce_sum)(x), sf.reduce_sum(x))
        for name in ("pad_rows", "sum_rows"):
            kernel(name).on_gpus.clear()
        assert seen
        assert all(f".{bits}" in text and f".{96 - bits}" not in text for text in seen)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
def test_a_small_structure_goes_into_a_capture(compiled):
    """As parameters of kernels, which the graph keeps: nothing is copied, and nobody finds it after the capture."""
    library, driver = arrays.lookup._by_type[There], compiled.driver
    calls = [lambda x: sf.convert(x, sf.Masked), lambda x: sf.convert(x, sf.Packed), sf.reduce_sum]
    calls += [lambda x: sf.shift(x, [k % 3 for k in range(len(x))]), lambda x: sf.convert(x, sf.Masked, fill=7)]
    calls += [lambda x: sf.concat([np.float32(5), x, np.ones(4, "f4")])]
    for lengths in ([3, 0, 77, 20, 1], [1, 2] * 300):
        for called in (calls, [lambda x: sf.convert(x, sf.Padded)]):
            x = numbers(lengths, (4,), "f4")
            there = compiled.up(x)
            library.current = 5
            driver.captured.add(5)
            driver.log.clear()
            found = [compiled.down(call(there)) for call in called]
            assert "copy" not in driver.names()
            assert "new event" not in driver.names()
            with pytest.raises(sf.DeviceError, match="before the capture"):
                there.structure_to("cuda:0", order=True)
            driver.captured.clear()
            found += [compiled.down(call(there)) for call in called]
            for one, wanted in zip(found, [call(x) for call in called] * 2, strict=True):
                if arrays.is_array(wanted):
                    oracle.assert_bits(one, wanted)
                else:
                    oracle.assert_layout(one, wanted)


@pytest.mark.passes("compiled", reason="it compiles the kernels")
def test_a_large_structure_is_refused_in_a_capture(compiled):
    library, driver = arrays.lookup._by_type[There], compiled.driver
    x = compiled.up(numbers([1] * 5000, (4,), "f4"))
    library.current = 5
    driver.captured.add(5)
    with pytest.raises(sf.DeviceError, match=r"of \d+ bytes.*x\.structure_to.*31 KB"):
        sf.reduce_sum(x)
    assert "launch" not in driver.names()


# Lengths on both sides of what is added up apart: four rows, 32, and what the threads of a block have at a time.
ROUNDED = [0, 1, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 36, 63, 64, 67, 100, 257]


@on_each_library
@pytest.mark.parametrize("name", ["sum", "mean", "sqrt", "cumsum"])
@pytest.mark.parametrize("width", [1, 3, 5, 18, 70])
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Packed], ids=oracle.format_name)
def test_sums_round_as_on_the_host(gpu, name, width, kind):
    lengths = ROUNDED if width < 5 or not SIMULATED else ROUNDED[3::4]
    operation, arguments = OPERATIONS[name]
    x = numbers(lengths, (width,))
    x.data[...] *= np.float32(1.1) ** np.random.default_rng(width).integers(-40, 40, x.data.shape)
    x.data[1:6] = -0.0
    x = sf.convert(x, kind)
    assert_found(gpu, operation(*arguments(gpu.up(x))), operation(*arguments(x)), exact=True)


@on_each_library
@pytest.mark.parametrize("name", ["sum", "mean", "sqrt"])
@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Packed], ids=oracle.format_name)
def test_sums_of_short_sequences_round_as_on_the_host(gpu, name, width, kind, monkeypatch):
    monkeypatch.setattr("seqformats.launch.cuda.SHORT", 64)  # in the simulator too
    x = numbers([length for length in ROUNDED if length <= 64], (width,))
    x.data[...] *= np.float32(1.1) ** np.random.default_rng(width).integers(-40, 40, x.data.shape)
    operation, x = OPERATIONS[name][0], sf.convert(x, kind)
    assert_found(gpu, operation(gpu.up(x)), operation(x), exact=True)


@on_each_library
@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
@pytest.mark.parametrize(
    ("name", "dtype"), [("sum", "f4"), ("mean", "f4"), ("sqrt", "f8"), ("sum", "c8"), ("mean", "i4")]
)
def test_long_sequences_are_summed_by_pieces(gpu, name, dtype, kind, monkeypatch):
    monkeypatch.setattr(Pieces, "LONG", 40 if SIMULATED else 8192)
    x = numbers([3, 0, 1056, 31, 1024] if SIMULATED else [3, 0, 1_000_000, 9000], (2,), "f8")
    x.data[...] *= 1.1 ** np.random.default_rng(0).integers(-40, 40, x.data.shape)
    x = sf.convert(sf.Ragged(x.data.astype(dtype), x.lengths), kind)
    operation, arguments = OPERATIONS[name]
    assert_found(gpu, operation(*arguments(gpu.up(x))), operation(*arguments(x)), exact=True)


@on_each_library
@pytest.mark.parametrize("counts", [[0, 1], [7, 8, 9], [15, 16, 17, 40]])
def test_many_pieces_are_added_in_their_order(gpu, counts):
    width, ends = 3, np.cumsum([0, *counts])
    x = np.random.default_rng(0).normal(0, 1, (ends[-1], width)) * 1e3 ** np.arange(-1, 2)
    parts, rows = gpu.up(x).reshape(-1), 1024 * ends
    library = arrays.library_of(parts)
    out = library.zeros((len(counts) * width,), library.dtype("float64"), parts)
    whole = Structure.of_lengths(np.array(counts))
    pieces.add_pieces.start(library, (parts,), (out,), (ends, rows, 0), width, whole)
    sums = [[np.cumsum([0.0, *y[a:b]])[:-1] for a, b in pairwise(ends)] for y in x.T]
    totals = [[np.cumsum([0.0, *y[a:b]])[-1] for a, b in pairwise(ends)] for y in x.T]
    oracle.assert_bits(arrays.to_host(out).reshape(-1, width), np.transpose(totals))
    for back in (0, 1):
        before = library.zeros((x.size,), library.dtype("float64"), parts)
        pieces.before_pieces.start(library, (parts,), (before,), (ends, back), width, whole)
        if back:
            sums = [[np.cumsum([0.0, *y[a:b][::-1]])[:-1][::-1] for a, b in pairwise(ends)] for y in x.T]
        found = arrays.to_host(before).reshape(-1, width)
        oracle.assert_bits(found + 0.0, np.transpose([np.concatenate(of) for of in sums]))


def weighted(reduction, columns):
    """With a weight for each row, or each number, some of which sum to nothing."""

    def weigh(x):
        shape = (x.rows, *x.item_shape) if columns else (x.rows,)
        weights = np.random.default_rng(0).normal(0, 1, shape).astype("f4")
        weights[3:17] = 0
        return {"weights": sf.convert_like(sf.Ragged(weights, sf.convert(x, sf.Ragged).lengths), x)}

    return reduction, weigh


IN_PIECES = {
    "softmax": (sf.softmax, lambda x: {}),
    "log_softmax": (sf.log_softmax, lambda x: {}),
    "logsumexp": (sf.reduce_logsumexp, lambda x: {}),
    "max": (sf.reduce_max, lambda x: {}),
    "min": (sf.reduce_min, lambda x: {}),
    "prod": (sf.reduce_prod, lambda x: {}),
    "norm": (sf.reduce_norm, lambda x: {}),
    "cumsum": (sf.cumsum, lambda x: {}),
    "topk": (sf.topk_mean, lambda x: {"topks": [1, 3, 4]}),
    "sort": (sf.sort, lambda x: {}),
    "quantile": (sf.reduce_quantile, lambda x: {"q": [0, 0.3, 0.5, 1]}),
    "mode": (sf.reduce_mode, lambda x: {}),
    "var": (sf.reduce_var, lambda x: {}),
    "std": (sf.reduce_std, lambda x: {}),
    "sum with weights": weighted(sf.reduce_sum, True),
    "mean with weights": weighted(sf.reduce_mean, False),
    "mean with weights of numbers": weighted(sf.reduce_mean, True),
}


def assert_near_in_sum(gpu, found, wanted):
    """Running sums, whose numbers near zero are differences of large ones."""
    for one, other in zip(leaves(gpu.down(found)), leaves(wanted), strict=True):
        finite = np.isfinite(other)
        np.testing.assert_array_equal(one[~finite], other[~finite])
        largest = np.abs(other[finite]).max(initial=1)
        np.testing.assert_allclose(one[finite] / largest, other[finite] / largest, rtol=1e-5, atol=1e-6)


@on_each_library
@pytest.mark.parametrize("kind", [sf.Ragged, "left", sf.Packed], ids=lambda kind: getattr(kind, "__name__", kind))
@pytest.mark.parametrize("name", list(IN_PIECES))
def test_long_sequences_in_pieces(gpu, name, kind, monkeypatch):
    operation, options = IN_PIECES[name]
    monkeypatch.setattr(Pieces, "LONG", 40 if SIMULATED else 8192)
    monkeypatch.setattr(Pieces, "ROWS", (16 if name == "topk" else 6) if SIMULATED else 1024)
    monkeypatch.setattr(Pieces, "GROUP", 2 if SIMULATED else 32)  # their largest are merged in two levels
    in_blocks, times = pieces.in_blocks, []
    monkeypatch.setattr(pieces, "in_blocks", lambda *args: times.append(1) or in_blocks(*args))
    x = numbers([3, 0, 56, 31, 16, 1] if SIMULATED else [3, 0, 1_000_000, 9000], (3,))
    if name == "prod":  # exact in any order, and nowhere beyond the numbers that there are
        x.data[...] = np.sign(x.data) * np.array([2, 0.5, 1])[np.arange(x.rows) % 3, None]
    else:
        x.data[61:80, 2] *= 1000
    special = sf.Ragged(x.data.copy(), x.lengths)
    special.data[3:17] = -np.inf  # a piece of these alone
    special.data[40, 0] = np.inf
    special.data[60, 1] = np.nan
    for batch in (x, special):
        here = sf.convert(batch, sf.Masked, side="left") if kind == "left" else sf.convert(batch, kind)
        given = options(here)
        there = {key: gpu.up(value) for key, value in given.items()}
        if batch is x:
            y, pullback = sf.vjp(operation, here, **given)
            found, on_gpu = sf.vjp(operation, gpu.up(here), **there)
            dy = np.cos(y) if arrays.is_array(y) else rebuild(y, [np.cos(leaf) for leaf in leaves(y)])
            dx, dx_on_gpu = pullback(dy), on_gpu(sent(gpu, dy))
            if name == "cumsum":
                assert_near_in_sum(gpu, dx_on_gpu, dx)
            else:
                assert_found(gpu, dx_on_gpu, dx)
        else:
            y, found = operation(here, **given), operation(gpu.up(here), **there)
        if name == "cumsum":
            assert_near_in_sum(gpu, found, y)
        else:
            assert_found(gpu, found, y)
        if name == "max":
            assert_found(gpu, sf.argmax(gpu.up(here)), sf.argmax(here), exact=True)
        if name == "mode":
            assert_found(gpu, sf.reduce_nunique(gpu.up(here)), sf.reduce_nunique(here), exact=True)
        if name == "sort":
            for falling in (False, True):
                at = sf.argsort(gpu.up(here), descending=falling)
                assert_found(gpu, at, sf.argsort(here, descending=falling), exact=True)
            few = [2, 1, 40, 0, 3, 1] if SIMULATED else [2, 1, 70_000, 5]
            least = sf.topk(gpu.up(here), few, largest=False)
            assert_found(gpu, least, sf.topk(here, few, largest=False), exact=True)
    assert times


@on_each_library
def test_more_than_a_grid_has_threads(gpu):
    """Of kernels that have a thread for each column of a sequence, or for each row."""
    many = 10 if SIMULATED else 200_000
    x = numbers([1, 0] * many, (5,))
    for name in ("cumsum", "topk"):
        assert_operation(gpu, name, x)
    base, index = numbers([2 * many], (2, 5)).data, sf.Ragged(np.ones(many, int), x.lengths)
    assert_found(gpu, sf.scatter(gpu.up(base), index, gpu.up(x)), sf.scatter(base, index, x))
    tokens = numbers([7, 0] * many, dtype="i8")
    for operation in (sf.segment_ids, sf.position_ids, lambda y: sf.erase(y, [1, -1])):
        assert_found(gpu, operation(gpu.up(tokens)), operation(tokens), exact=True)


@on_each_library
@pytest.mark.parametrize("width", [1, 18] if SIMULATED else [1, 3, 40, 130])
@each_along
def test_a_nan_stays_in_its_sequence_and_column(gpu, name, width):
    operation, arguments = ALONG[name]
    x = numbers([2, 4], (width,))
    x.data[3, width - 1] = np.nan
    found = operation(*arguments(gpu.up(x)))
    assert_found(gpu, found, operation(*arguments(x)))
    others = gpu.down(found[:1]), leaves(gpu.down(found))[0][..., : width - 1]
    for leaf in leaves(others):
        assert not np.isnan(leaf).any()


@on_each_library
@pytest.mark.parametrize("width", [1, 5] if SIMULATED else [1, 3, 40, 130])
@each_along
def test_a_result_does_not_depend_on_the_rest_of_the_batch(gpu, name, width):
    operation, arguments = ALONG[name]
    x = numbers([3, 0, 9, 2] if SIMULATED else [3, 0, 333, 2], (width,))
    together, alone = (operation(*arguments(gpu.up(y))) for y in (x, x[2:3]))
    oracle.assert_bits(*(leaves(gpu.down(y))[0] for y in (alone, together[2:3])))


@on_each_library
@pytest.mark.parametrize("width", [1, 5, 20] if SIMULATED else [1, 3, 40, 130])
@pytest.mark.parametrize("layout", ["Ragged", "left", "Padded", "Packed"])
@pytest.mark.parametrize("name", [*SHORT_OF, "argmax"])
def test_short_sequences_are_what_they_are_beside_long_ones(gpu, name, layout, width):
    """A thread has each column of these, if all of a batch are short; then there is another kernel."""
    operation, arguments = (sf.argmax, lambda x: (x,)) if name == "argmax" else OPERATIONS[name]
    lengths = [*range(SHORT + 1), 1, 0] if SIMULATED else [*range(0, SHORT + 1, 3), 1, SHORT]
    x = numbers([*lengths, 3 * SHORT], (width,))
    if name != "argmax":
        x.data[...] *= np.float32(1.1) ** np.random.default_rng(width).integers(-20, 20, x.data.shape)
    x.data[::7, 0] = np.inf if name in ("max", "min", "argmax") else -0.0
    few = LAYOUTS[layout](x[:-1])
    whole = LAYOUTS[layout](x)
    for call in ("result", "gradient"):
        found = []
        for y in (few, whole):
            if call == "result":
                z = operation(*arguments(gpu.up(y)))
            elif name == "argmax":
                continue
            else:
                z, pullback = sf.vjp(operation, *arguments(gpu.up(y)))
                z = pullback(z)
            z = gpu.down(z)
            found.append(z if arrays.is_array(z) else sf.convert(z, sf.Ragged).data)
        if found:
            oracle.assert_bits(found[0], found[1][: len(found[0])])


@on_each_library
@pytest.mark.parametrize("layout", ["Ragged", "left", "Padded", "Packed"])
@pytest.mark.parametrize(
    "name",
    [
        "sum",
        "mean",
        "sqrt",
        "prod",
        "norm",
        "max",
        "min",
        "var",
        "std",
        "logsumexp",
        "softmax",
        "log_softmax",
        "cumsum",
    ],
)
def test_four_columns_at_a_time(gpu, name, layout, monkeypatch):
    """They are one item where 16 bytes may be read at once, and each has the result that it has alone."""
    in_fours, taken = cuda._Call._in_fours, []

    def calculated(x, *, at_once=True):
        taken.clear()
        monkeypatch.setattr(cuda._Call, "_in_fours", lambda call: taken.append(at_once and in_fours(call)) or taken[-1])
        y, pullback = sf.vjp(operation, x)
        used = any(taken)
        taken.clear()
        return y, pullback(y), used, any(taken)

    monkeypatch.setattr(grids, "_FOURS_FROM", 0)
    operation = getattr(sf, name if name in ALONG and name not in REDUCTIONS else f"reduce_{name}")
    back = name in ("mean", "sqrt", "softmax", "log_softmax", "cumsum")
    lengths = [*range(SHORT + 1), 1, 0] if SIMULATED else [*range(0, SHORT + 1, 3), 1, SHORT]
    for width, shift in ((4, 0), (20, 0), (6, 0), (8, 1)):
        given = numbers(lengths, (width,))
        given.data[...] *= np.float32(1.3) ** np.random.default_rng(width).integers(-20, 20, given.data.shape)
        given.data[::7, 1] = np.nan if name in ("max", "min") else np.inf
        given.data[1::5, 2], given.data[2::9, 0] = -0.0, -np.inf
        here = LAYOUTS[layout](given)
        room = np.zeros(shift + here.data.size, "f4")
        room[shift:] = here.data.reshape(-1)
        there = gpu.up(here)._with_data(gpu.up(room)[shift:].reshape(here.data.shape))
        *found, used, used_back = calculated(there)
        *alone, _, _ = calculated(there, at_once=False)
        for one, other in zip(found, alone, strict=True):
            for part, wanted in zip(leaves(gpu.down(one)), leaves(gpu.down(other)), strict=True):
                oracle.assert_bits(part, wanted)
        assert used is (width % 4 == 0 and shift == 0)
        assert used_back is (width % 4 == 0 and back)
        if name != "cumsum":  # which has infinite numbers and their differences here
            assert_found(gpu, found[0], operation(here))


@on_each_library
def test_a_users_kernel_is_given_single_columns(gpu, monkeypatch):
    """It knows nothing of four at a time."""
    monkeypatch.setattr(grids, "_FOURS_FROM", 0)
    used = kernel("cumsum_rows")
    monkeypatch.setattr(used, "functions", {"cuda": used.load().cuda})
    monkeypatch.setattr(used, "on_gpus", {})
    monkeypatch.setattr(cuda._Call, "_in_fours", lambda call: pytest.fail("four at a time"))
    x = numbers([3, 0, 2], (4,))
    assert_found(gpu, sf.cumsum(gpu.up(x)), sf.cumsum(x))


@on_each_library
def test_places_may_come_from_elsewhere(gpu):
    """The places that rows are scattered to, on the host or the device; the rows lie beside the base."""
    updates = numbers([3, 0, 1, 4], (5,))
    index = sf.Ragged(np.array([0, 2, 0, 1, 2, 2, 2, 0], "i4"), updates.lengths)
    base = numbers([4], (3, 5)).data
    wanted, pullback = sf.vjp(sf.scatter, base, index, updates)
    for ids in (index, gpu.up(index), gpu.up(sf.convert(index, sf.Padded))):
        found, on_gpu = sf.vjp(sf.scatter, gpu.up(base), ids, gpu.up(updates))
        assert_found(gpu, found, wanted)
    assert_found(gpu, on_gpu(gpu.up(wanted)), pullback(wanted))
    with pytest.raises(IndexError, match="place 3 for row 0"):
        sf.scatter(gpu.up(base), gpu.up(sf.Ragged(index.data + 3, index.lengths)), gpu.up(updates))
    with pytest.raises(sf.DeviceError):
        sf.scatter(base, index, gpu.up(updates))


# ----------------------------------------------------------------------------------- repeating into an array


@on_each_library
@pytest.mark.parametrize("dtype", ["u1", "f4", "i8"])
def test_repeating_into_an_array(gpu, dtype):
    x = numbers([2, 0, 3], (3,), dtype)
    like = sf.LoD(np.zeros(6), [[0, 1, 3], [0, 2, 2, 6]])
    rows = x.data[:3]
    calls = [
        (sf.expand, x, like),
        (sf.expand, two_levels(x), sf.Ragged(np.zeros(3), [1, 2])),
        (sf.expand, rows, like),
        (sf.expand_as, rows, like),
        (sf.repeat, x, [2, 3, 0]),
        (sf.repeat, rows, [1, 0, 2]),
    ]
    for operation, y, other in calls:
        wanted = operation(y, other)
        assert_found(gpu, operation(gpu.up(y), other), wanted, exact=True)
        room = gpu.up(np.zeros((20, 3), dtype))
        found = operation(gpu.up(y), other, out=room)
        assert_found(gpu, found, wanted, exact=True)
        data = leaves(wanted)[0]
        oracle.assert_bits(gpu.down(room)[: len(data)], data)
        assert not gpu.down(room)[len(data) :].any()


@on_each_library
def test_arrays_that_take_no_result(gpu):
    x = gpu.up(numbers([2, 0, 3], (3,)))
    like = sf.Ragged(np.zeros(3), [1, 0, 2])
    with pytest.raises(TypeError, match="out must be an array of"):
        sf.expand(x, like, out=np.zeros((20, 3), "f4"))
    with pytest.raises(TypeError, match="dtype"):
        sf.expand(x, like, out=gpu.up(np.zeros((20, 3), "f8")))
    with pytest.raises(sf.StructureError, match="are needed"):
        sf.expand(x, like, out=gpu.up(np.zeros((7, 3), "f4")))
    with pytest.raises(sf.StructureError, match="same memory"):
        sf.repeat(x.data, 1, out=x.data)


@on_each_library
def test_weights_lie_beside_the_rows(gpu):
    """Numba's arrays have no matrix product, even where there is nothing to multiply."""
    weight = numbers([9], (2,)).data
    for lengths in ([3, 0, 1], [0, 0], []):
        x = gpu.up(numbers(lengths, (3,)))
        with pytest.raises(sf.DeviceError):
            sf.conv(x, weight, 1, 1)
        if isinstance(gpu, OnNumba):
            for call in (sf.conv, lambda *args: sf.vjp(sf.conv, *args)):
                with pytest.raises(TypeError, match="no matrix product"):
                    call(x, gpu.up(weight), 1, 1)


# ----------------------------------------------------------------------------------- copies of structure


@pytest.fixture
def uploads(request, monkeypatch):
    """The sizes of what goes up to the device for kernels, in bytes; the zeros of a padding are there already."""
    found = []
    if "gpu" in request.fixturenames:
        sf.convert(request.getfixturevalue("gpu").up(example()), sf.Masked)

    brought = resident.Place.bring

    def counted(place, packed, what):
        found.append(packed.size)
        return brought(place, packed, what)

    monkeypatch.setattr(resident.Place, "bring", counted)
    return found


@on_each_library
def test_structure_goes_up_once_and_in_one_piece(gpu, uploads):
    x = gpu.up(example())
    y = sf.convert(x, sf.Padded)
    assert len(uploads) == 1
    for To in (sf.Padded, sf.Packed, sf.Masked, sf.Ragged):
        sf.convert(sf.convert(x, To), sf.Ragged)
    sf.convert(y, sf.Masked, side="left")
    sf.reduce_sum(x)
    assert len(uploads) == 1, "the encodings that come from one another share their structure"


@on_each_library
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded], ids=oracle.format_name)
def test_operations_share_the_structure(gpu, kind, uploads):
    x = gpu.up(example(kind))
    for name in ("reverse", "window", "max", "sum", "logsumexp", "softmax", "cumsum"):
        y, pullback = sf.vjp(OPERATIONS[name][0], *OPERATIONS[name][1](x))
        pullback(y)
    assert len(uploads) == 1


@on_each_library
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded, sf.Packed, sf.Masked], ids=oracle.format_name)
def test_structure_that_was_brought_is_not_sent_again(gpu, kind, uploads):
    x = gpu.up(example(kind))
    assert x.structure_to(x.device, order=True) is x
    sent = list(uploads)
    assert len(sent) == 1
    assert x.structure_to("cuda", order=True) is x
    for To in (sf.Ragged, sf.Padded, sf.Packed, sf.Masked):
        sf.convert(x, To)
    sf.reduce_sum(x)
    sf.softmax(x)
    assert uploads == sent


@on_each_library
def test_a_list_sends_addresses_alone_once_its_structure_is_there(gpu, uploads):
    x = gpu.up(example(sf.List)).structure_to("cuda", order=True)
    assert len(uploads) == 1
    for To in (sf.Ragged, sf.Padded):
        sf.convert(x, To)
    assert uploads[1:] == [8 * len(x)] * 2


def test_structure_goes_ahead_of_its_items(uploads):
    OnNumba().need()
    x = example()
    assert x.structure_to("cuda") is x
    assert len(uploads) == 1
    assert type(x.data) is np.ndarray
    here = sf.to_device(x, "cuda")
    sf.reduce_sum(here)
    assert len(uploads) == 1
    assert here.structure_to("cuda", order=True) is here
    assert len(uploads) == 2, "the order alone"
    sf.convert(here, sf.Packed)
    assert len(uploads) == 2


def test_structure_of_what_has_no_rows_may_be_brought():
    OnNumba().need()
    for x in (sf.Ragged(np.zeros((0, 3)), []), sf.List([], np.zeros((0, 3))), sf.LoD(np.arange(3.0), [[0, 1], [0, 3]])):
        assert x.structure_to("cuda", order=True) is x


@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
def test_the_host_has_the_structure_always(kind, uploads):
    x = example(kind)
    assert x.structure_to("cpu") is x
    assert uploads == []
    assert "device" not in {name for name in type(x._structure).__slots__ if _is_there(x._structure, name)}


def _is_there(structure, name):
    try:
        object.__getattribute__(structure, name)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cuda:99", 7, None])
def test_structure_does_not_go_to_devices_that_do_not_exist(device):
    pytest.importorskip("numba.cuda")
    with pytest.raises(sf.DeviceError, match="device|GPU|NumPy arrays go to"):
        example().structure_to(device)


@on_each_library
def test_what_is_no_structure_goes_up_with_the_call(gpu, uploads):
    x = gpu.up(example())
    x[[2, 0]]
    assert len(uploads) == 1
    sf.convert(sf.convert(x, sf.List), sf.Masked, fill=1.5)
    sizes = uploads[1:]
    assert len(sizes) == 1, "addresses, offsets and the padding item"


@on_each_library
def test_what_is_asked_of_a_batch_stays(gpu, uploads, monkeypatch):
    monkeypatch.setattr(resident, "_constants", {})
    x = gpu.up(example())
    for _ in range(2):
        sf.reduce_quantile(x, [0.25, 0.5, 0.75])
        sf.topk_mean(x, [1, 3])
        sf.reduce_median(x)
    assert uploads[1:] == [32, 16, 16], "after the structure, each once"
    for k in range(1, 99):
        sf.topk_mean(x, k)
    assert len(resident._constants) <= 64


@on_each_library
@pytest.mark.parametrize("name", ["median", "mode", "nunique", "quantile", "topk"])
def test_what_only_a_gradient_wants_takes_no_memory_without_one(gpu, name, monkeypatch):
    calls = {"quantile": lambda x: sf.reduce_quantile(x, [0.1, 0.5]), "topk": lambda x: sf.topk_mean(x, [1, 4])}
    call = calls.get(name) or getattr(sf, f"reduce_{name}")
    x = gpu.up(numbers([3, 0, SHORT], (2,)))
    library, made = type(arrays.library_of(x.data)), []
    empty = library.empty
    monkeypatch.setattr(library, "empty", lambda *args: made.append(args[1]) or empty(*args))
    call(x)
    assert len(made) == 1, "the result alone"


@pytest.mark.skipif(not SIMULATED, reason="the GPU itself tells wrong words apart")
@pytest.mark.parametrize(
    ("dtype", "item", "shift", "size"),
    [
        ("u1", (), 0, 1),
        ("u1", (6,), 0, 2),
        ("f2", (), 0, 2),
        ("f2", (2,), 0, 4),
        ("f4", (3,), 0, 4),
        ("f4", (2, 3), 0, 8),
        ("f4", (4,), 0, 16),
        ("f4", (4,), 4, 16),
        ("f4", (4,), 2, 8),
        ("f4", (4,), 1, 4),
        ("f2", (8,), 1, 2),
        ("c16", (5,), 0, 16),
        ("S3", (1,), 0, 1),
    ],
)
@pytest.mark.parametrize("From", [sf.Ragged, sf.List], ids=oracle.format_name)
def test_words_are_as_wide_as_rows_and_addresses_allow(From, dtype, item, shift, size, monkeypatch):
    from seqformats.launch import cuda

    count = 6 * int(np.prod(item))
    flat = sf.to_device(strategies.counting(np.dtype(dtype), (count + shift,)), "cuda")
    x = sf.convert(sf.Ragged(flat[shift:].reshape(6, *item), [2, 0, 4]), From)
    seen = []
    start = cuda._Simulated.start

    def watched(self, grid, block, stream, words):
        seen.append(self.signature[:2])
        return start(self, grid, block, stream, words)

    monkeypatch.setattr(cuda._Simulated, "start", watched)
    sf.convert(x, sf.Packed)
    word = f"{cuda.WORD_DTYPES[size].str[1:]}.32"
    assert seen == [("i" if From is sf.List else word, word)]


@from_each
def test_memory_of_another_library_is_met_by_address(elsewhere, From):
    x = example(From)
    here = rebuild(x, [leaf.view(There) for leaf in leaves(x)])
    for To in oracle.FLAT:
        found = sf.convert(here, To)
        assert all(type(leaf) is There for leaf in leaves(found))
        oracle.assert_layout(rebuild(found, [np.array(leaf) for leaf in leaves(found)]), sf.convert(x, To))
    for name in ("sum", "topk", "window"):
        y, pullback = sf.vjp(OPERATIONS[name][0], *OPERATIONS[name][1](x))
        found, on_gpu = sf.vjp(OPERATIONS[name][0], *OPERATIONS[name][1](here))
        for one, other in ((found, y), (on_gpu(found), pullback(y))):
            for leaf, wanted in zip(leaves(one), leaves(other), strict=True):
                assert type(leaf) is There
                assert_near(np.array(leaf), wanted)


# ------------------------------------------------------------------------------------------- the devices


def test_to_device_and_back():
    OnNumba().need()
    nothing = sf.List([], np.zeros((0, 3)))
    for x in (example(), example(sf.List), nothing, sf.LoD(np.arange(3.0), [[0, 1], [0, 3]])):
        here = sf.to_device(x, "cuda")
        assert here.device == "cuda:0"
        assert sf.to_device(here, "cuda:0").device == "cuda:0"
        back = sf.to_device(here, "cpu")
        assert back.device == "cpu"
        oracle.assert_layout(back, x)
    assert type(sf.to_device(sf.to_device(np.arange(3), "cuda"), "cpu")) is np.ndarray


@pytest.mark.parametrize("device", ["cuda:99", "cuda:x", "tpu", "cuda:-1"])
def test_devices_that_do_not_exist(device):
    pytest.importorskip("numba.cuda")
    with pytest.raises(sf.DeviceError):
        sf.to_device(example(), device)


def test_structure_may_come_from_a_device():
    OnNumba().need()
    lengths = sf.to_device(np.array([2, 1]), "cuda")
    x = sf.Ragged(sf.to_device(np.arange(3.0), "cuda"), lengths)
    assert type(x.lengths) is np.ndarray
    assert x.lengths.tolist() == [2, 1]


def test_arrays_on_different_devices_make_no_list():
    OnNumba().need()
    with pytest.raises(sf.DeviceError):
        sf.List([np.arange(3), sf.to_device(np.arange(2), "cuda")])


def test_rows_that_are_not_contiguous_are_copied():
    OnNumba().need()
    rows = np.arange(12.0).reshape(4, 3)
    here = sf.to_device(rows, "cuda")[:, 1:]
    x = sf.Ragged(here, [1, 3])
    oracle.assert_bits(arrays.to_host(x.data), np.ascontiguousarray(rows[:, 1:]))


def in_fresh_process(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_cpu_loads_no_cuda_package():
    code = """if True:
        import sys
        import numpy as np
        import seqformats as sf
        x = sf.convert([np.arange(3.0), np.arange(2.0)], sf.Padded)
        sf.reduce_mean(x), sf.convert(x, sf.Packed), sf.convert(x, sf.Masked, fill=1).mask
        print(sorted(m for m in sys.modules if m.startswith(("numba.cuda", "numba_cuda.numba", "cuda."))))
    """
    before = in_fresh_process("import sys, numba\nprint(sorted(m for m in sys.modules if m.startswith('numba.cuda')))")
    assert in_fresh_process(code) in ("[]", before)


def test_the_list_of_gpus_never_raises():
    pytest.importorskip("numba.cuda")
    from seqformats.launch.cuda import devices

    names = devices()
    assert all(isinstance(name, str) for name in names)
    assert not SIMULATED or len(names) == 1
    assert "GPUs: " in in_fresh_process("from seqformats.__main__ import main; main()")


# ------------------------------------------------------------------------------------------ with a GPU only


@pytest.fixture
def torch():
    gpu = OnTorch()
    gpu.need()
    return gpu.library


@pytest.fixture
def cupy():
    gpu = OnCuPy()
    gpu.need()
    return gpu.library


def big(torch, device="cuda", n=200, dtype=None):
    lengths = np.random.default_rng(3).integers(0, 60, n)
    rows = torch.arange(int(lengths.sum()) * 8, device=device, dtype=dtype or torch.float32).reshape(-1, 8)
    return sf.Ragged(rows, lengths)


@pytest.mark.cuda
def test_a_conversion_runs_on_the_current_stream(torch):
    expected = sf.convert(sf.to_device(big(torch), "cpu"), sf.Padded).data
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(10):
            busy(torch)
            x = big(torch)  # written behind the work above: too early a kernel would see other bytes
            y = sf.convert(x, sf.Padded)
            again = sf.convert(y, sf.Ragged)
            assert torch.equal(again.data, x.data)
            assert torch.equal(y.data.cpu(), expected)


@pytest.mark.cuda
def test_structure_copied_on_one_stream_is_met_by_another(torch):
    expected = sf.convert(sf.to_device(big(torch), "cpu"), sf.Packed).data
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(10):
        x = big(torch)
        torch.cuda.synchronize()
        with torch.cuda.stream(one):
            busy(torch)  # the copy of the structure waits behind this
            sf.convert(x, sf.Padded)
        with torch.cuda.stream(two):
            y = sf.convert(x, sf.Packed)
            assert torch.equal(y.data.cpu(), expected)
        del x, y
        torch.cuda.synchronize()


@pytest.mark.cuda
def test_memory_of_copies_is_not_taken_again_too_early(torch):
    """The structure dies on the host while kernels on another stream still read its copy."""
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    wanted, found = [], []
    for k in range(50):
        with torch.cuda.stream(one):
            x = big(torch, n=100 + k)
            sf.convert(x, sf.Padded)
        one.synchronize()
        with torch.cuda.stream(two):
            if k % 10 == 0:
                busy(torch)
            found.append(sf.convert(x, sf.Padded).data)
            x.data.record_stream(two)  # the data is the caller's to keep
        wanted.append(sf.convert(sf.to_device(x, "cpu"), sf.Padded).data)
        del x
        with torch.cuda.stream(one):
            torch.full((5000,), -1, device="cuda")  # would be written over what was given back
    torch.cuda.synchronize()
    for one_found, one_wanted in zip(found, wanted, strict=True):
        assert torch.equal(one_found.cpu(), one_wanted)


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_conversion_waits_for_nothing(torch):
    sources = [big(torch), sf.convert(big(torch), sf.Padded), sf.convert(big(torch), sf.Masked)]
    targets = (sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.List, sf.LoD)
    for x in sources:  # compile, and fill the pinned memory
        for To in targets:
            sf.convert(sf.convert(x, To), sf.Ragged)
    torch.cuda.set_sync_debug_mode("error")
    try:
        fresh = big(torch)
        for x in (fresh, sf.convert(fresh, sf.Padded, fill=2), sf.convert(fresh, sf.Masked, side="left")):
            for To in targets:
                sf.convert(sf.convert(x, To), sf.Ragged)
            assert sf.convert(x, sf.Masked).mask.is_cuda
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
def test_a_conversion_returns_before_the_gpu_is_done(torch):
    x = big(torch)
    sf.convert(x, sf.Padded)
    torch.cuda.synchronize()
    busy(torch)
    done = torch.cuda.Event()
    fresh = sf.Ragged(x.data, x.lengths)
    sf.convert(fresh, sf.Padded)
    done.record()
    early = not done.query()
    torch.cuda.synchronize()
    assert early, "the host waited for the GPU"


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "bool"])
@pytest.mark.parametrize("shift", [1, 3, 5])
def test_shifted_tensors(torch, dtype, shift):
    rows = torch.arange(shift + 80).remainder(2).to(getattr(torch, dtype))
    here = rows.cuda()[shift:].view(10, 8)
    assert here.data_ptr() % 16
    x, y = sf.Ragged(rows[shift:].view(10, 8), [4, 0, 6]), sf.Ragged(here, [4, 0, 6])
    for To in (sf.Masked, sf.Padded, sf.Packed, sf.List):
        back = sf.convert(sf.convert(y, To), sf.Ragged)
        assert torch.equal(back.data.cpu(), x.data)
    assert torch.equal(sf.convert(y, sf.Masked).data.cpu(), sf.convert(x, sf.Masked).data)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_autograd(torch, dtype):
    def gradient(device):
        rows = torch.arange(30.0).reshape(10, 3).to(device, getattr(torch, dtype)).requires_grad_()
        x = sf.Ragged(rows, [4, 0, 6])
        y = sf.convert(sf.convert(x, sf.Padded), sf.Masked)
        (sf.reduce_mean(y) * torch.arange(9.0, device=device).reshape(3, 3)).sum().backward()
        return rows.grad.cpu()

    torch.testing.assert_close(gradient("cuda"), gradient("cpu"))


@pytest.mark.cuda
def test_the_second_device(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU only")
    with torch.cuda.device(0):  # the current device is not where the data is
        x = big(torch, device="cuda:1")
        y = sf.convert(x, sf.Padded)
        assert y.device == "cuda:1"
        assert torch.cuda.current_device() == 0
        assert torch.equal(y.data.cpu(), sf.convert(sf.to_device(x, "cpu"), sf.Padded).data)
        z = sf.to_device(x, "cuda:0")
        assert torch.equal(sf.convert(z, sf.Padded).data.cpu(), y.data.cpu())
    for device in ("cuda:0", "cuda:1"):
        x = sf.to_device(example(), device)
        assert x.device == device
        assert sf.convert(x, sf.Padded).device == device
    with pytest.raises(sf.DeviceError):
        sf.List([torch.zeros(2, device="cuda:0"), torch.zeros(2, device="cuda:1")])


@pytest.mark.cuda
def test_cupy_streams(cupy):
    x = example(lengths=[7, 0, 30, 2] * 20)
    expected = sf.convert(x, sf.Padded).data
    one, two = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    for _ in range(10):
        with one:
            here = sf.Ragged(cupy.asarray(x.data), x.lengths)
            sf.convert(here, sf.Padded)
        one.synchronize()
        with two:
            y = sf.convert(here, sf.Padded)
            assert (cupy.asnumpy(y.data, stream=two) == expected).all()


@pytest.mark.cuda
def test_foreign_arrays_come_in_as_numbas(torch):
    if "cupy" in sys.modules:
        pytest.skip("with CuPy loaded they come in as CuPy's")

    class Foreign:
        def __init__(self, tensor):
            self.tensor = tensor

        @property
        def __cuda_array_interface__(self):
            return self.tensor.__cuda_array_interface__

    tensor = torch.arange(6.0, device="cuda")
    torch.cuda.synchronize()
    x = sf.Ragged(Foreign(tensor), [2, 4])
    assert x.device == "cuda:0"
    assert sf.to_device(x, "cpu").data.tolist() == tensor.tolist()


@pytest.mark.cuda
def test_many_sizes(torch):
    """Rows of every width near a power of two, and more rows than a grid has threads."""
    for width in (1, 2, 3, 7, 8, 9, 31, 32, 33, 127, 128, 129, 300):
        lengths = np.random.default_rng(width).integers(0, 9, 50)
        rows = torch.arange(int(lengths.sum()) * width).reshape(-1, width).to(torch.int16)
        x, y = sf.Ragged(rows, lengths), sf.Ragged(rows.cuda(), lengths)
        for To in (sf.Masked, sf.Padded, sf.Packed):
            assert torch.equal(sf.convert(y, To).data.cpu(), sf.convert(x, To).data)
        torch.testing.assert_close(sf.reduce_sum(y).cpu(), sf.reduce_sum(x))
    lengths = np.full(300_000, 70)
    rows = torch.arange(21_000_000, device="cuda")
    x = sf.Ragged(rows, lengths)
    assert torch.equal(sf.convert(sf.convert(x, sf.Padded), sf.Ragged).data, rows)
    assert torch.equal(sf.convert(x, sf.Masked).data, rows.reshape(300_000, 70))
