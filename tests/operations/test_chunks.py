"""Chunks of long sequences and the way back, against plain lists and real tokenizers."""

import copy
import itertools
import math
import pickle

import cut_oracle
import numpy as np
import oracle
import pytest
import strategies
from checks import assert_slopes, noise
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.formats.chunks import origin_of

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_last = pytest.mark.parametrize("last", ["keep", "drop", "pad", "shift"])
WAYS = ["first", "mean", "max", "last"]
every_way = pytest.mark.parametrize("how", WAYS)
HALF = [np.dtype("f2"), strategies.BFLOAT16]
SUMMED = [dtype for dtype in strategies.DTYPES if dtype.kind in "bfciu" or dtype in HALF]
ORDERED = [dtype for dtype in SUMMED if dtype.kind != "c"]
DOUBLE = [np.dtype("f8")]
FORMATS = st.sampled_from(oracle.FORMATS)

# ------------------------------------------------------------------------------------------------ there


@st.composite
def sizes(draw):
    """A size and an overlap."""
    size = draw(st.one_of(st.integers(1, 6), st.just(2**40)))
    return size, draw(st.integers(0, min(size, 6) - 1))


def chunked(truth, size, overlap, last, fill):
    """The truth with one level more, and the places where chunks begin."""
    starts = []

    def part(children, depth):
        if depth:
            return [part(child, depth - 1) for child in children]
        found, places = cut_oracle.chunks(children, size, overlap, last, fill)
        starts.extend(places)
        return found

    nest = [part(child, truth.levels - 1) for child in truth.nest]
    return oracle.Truth(nest, truth.dtype, truth.item_shape, truth.levels + 1), starts


@every_last
@every_format
@given(data=st.data())
def test_chunk(arrays, kind, last, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    size, overlap = data.draw(sizes())
    if last == "pad":
        size, overlap = min(size, 9), min(overlap, min(size, 9) - 1)
    fill = data.draw(st.one_of(st.none(), strategies.fills(truth)))
    outside = np.zeros(truth.item_shape, truth.dtype)
    if fill is not None and not (type(fill) is int and fill == 0):  # which is zero bytes
        outside[...] = fill
    wanted, starts = chunked(truth, size, overlap, last, outside)
    options = {} if fill is None else {"fill": fill}
    found = arrays.on(sf.chunk)(x, size, overlap, last=last, **options)
    assert type(found) is sf.Chunks
    oracle.assert_holds(found, wanted)
    assert found.starts.tolist() == starts
    assert found.sequence_lengths.tolist() == [len(items) for items in truth.sequences()]
    assert not found.starts.flags.writeable
    make, values = found.__reduce__()
    rebuilt = make(*values)  # which checks
    oracle.assert_layout(rebuilt, found)


def test_chunks_go_on_until_one_holds_the_last_item():
    for length, size in itertools.product(range(9), range(1, 6)):
        for overlap in range(size):
            (found,) = sf.chunk([np.arange(length)], size, overlap).to_nested()
            step = size - overlap
            assert len(found) == (math.ceil(max(length - size, 0) / step) + 1 if length else 0)
            assert all(part == list(range(k * step, min(k * step + size, length))) for k, part in enumerate(found))


@pytest.mark.peers
def test_chunks_are_the_overflowing_tokens_of_fast_tokenizers():
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(k): k for k in range(20)}, unk_token="0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    for size in range(1, 7):
        for overlap in range(size):
            tokenizer.enable_truncation(size, stride=overlap)
            for length in range(1, 15):  # of an empty text they return an empty chunk
                first = tokenizer.encode(" ".join(map(str, range(length))))
                theirs = [part.ids for part in (first, *first.overflowing)]
                assert sf.chunk([np.arange(length)], size, overlap).to_nested() == [theirs]


# ------------------------------------------------------------------------------------------------ what they are


def example(data=None, last="keep"):
    """Chunks of two levels of sequences."""
    x = sf.LoD(np.arange(12.0) if data is None else data, [[0, 2, 2, 4], [0, 5, 5, 7, 12]])
    return sf.chunk(x, 3, 1, last=last)


def assert_origin(found, wanted):
    assert type(found) is sf.Chunks
    assert found.starts.tolist() == wanted.starts.tolist()
    assert found.sequence_lengths.tolist() == wanted.sequence_lengths.tolist()


def test_they_stay_chunks_where_lengths_stay():
    x = example()
    for y in (
        sf.softmax(x),
        sf.with_array(np.negative)(x),
        sf.with_ragged(lambda r: r)(x),
        sf.with_masked(lambda m: m.data * 2)(x),
        sf.with_padded(lambda p: p)(x),
        sf.convert_like(sf.convert(x, sf.Packed), x),
        sf.convert(x, sf.LoD),
        sf.convert(x, sf.LoD, copy=True),
        sf.to_device(x, "cpu"),
        sf.shift(x, 1),
        copy.copy(x),
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
        x[:],
        sf.vjp(sf.reverse, x)[1](x),
    ):
        assert_origin(y, x)
    assert sf.with_masked(lambda m: m.data * 2)(x).data.tolist() == (2 * x.data).tolist()
    for y in (sf.cut(x, 1), sf.select(x, [0], level=1), sf.join_batches([x, x]), sf.convert(x, sf.LoD, level=-1)):
        assert type(y) is sf.LoD


@pytest.mark.parametrize("index", [slice(1, 3), [2, 0, 2], 0, [], slice(None, None, -1), [True, False, True]], ids=str)
def test_some_outermost_sequences(index):
    for x in (example(), sf.chunk(sf.Ragged(np.arange(12.0), [5, 2, 5]), 3, 1)):
        y, plain = x[index], sf.LoD(x.data, x.lod)[index]
        assert sf.equal(y, plain)
        assert_origin(y, y)
        original = sf.unchunk(x)[index]
        oracle.assert_same(sf.unchunk(y), original)


def test_they_are_equal_to_a_lod_that_holds_the_same():
    x = example()
    plain = sf.LoD(x.data, x.lod)
    assert sf.equal(x, plain)
    assert sf.equal(plain, x)
    assert sf.equal(x, copy.copy(x))
    assert not sf.equal(x, sf.convert(x, sf.Ragged))
    assert not sf.equal(x, sf.LoD(-x.data, x.lod))
    assert repr(x).startswith("Chunks(shape (14,), float64, cpu, 3 levels, 3 sequences")


def test_every_encoding_takes_them():
    x = example()
    plain = sf.LoD(x.data, x.lod)
    for kind in oracle.FORMATS:
        y = sf.convert(x, kind)
        if kind is list:
            assert y == plain.to_nested()
        else:
            oracle.assert_layout(y, x if kind is sf.LoD else sf.convert(plain, kind))


LOD = [[0, 2, 3], [0, 3, 6, 8]]
WRONG = {
    "starts has 2 numbers, but there are 3 chunks": (LOD, [0, 2], [5, 2]),
    "sequence_lengths has 1 numbers, but there are 2 sequences": (LOD, [0, 2, 0], [5]),
    "sequence_lengths must not be negative": (LOD, [0, 2, 0], [5, -2]),
    r"starts\[0\] is -1, .*which has 5 items": (LOD, [-1, 2, 0], [5, 2]),
    r"starts\[2\] is 3, for chunk 0 of sequence 1, which has 2 items": (LOD, [0, 2, 3], [5, 2]),
    r"starts\[1\] is 0, .*after 0": (LOD, [0, 0, 0], [5, 2]),
    r"starts\[1\] is 2, .*1 items end before the 5": ([[0, 2, 3], [0, 5, 6, 8]], [0, 2, 0], [5, 2]),
    "two levels": ([[0, 3, 6, 8]], [0, 2, 0], [5, 2, 3]),
    r"lod\[1\] must end with 8": ([[0, 2, 3], [0, 3, 6, 7]], [0, 2, 0], [5, 2]),
    "starts must fit int64": (LOD, [0, 2**64, 0], [5, 2]),
}


@pytest.mark.parametrize("name", WRONG)
def test_fields_that_do_not_fit(name):
    lod, starts, lengths = WRONG[name]
    with pytest.raises(sf.StructureError, match=name):
        sf.Chunks(np.arange(8), lod, starts, lengths)


def test_fields_are_read_only_copies():
    starts = np.array([0, 2, 0])
    x = sf.Chunks(np.arange(8), LOD, starts, [5, 2])
    starts[:] = 9
    assert x.starts.tolist() == [0, 2, 0]
    with pytest.raises(ValueError, match="read-only"):
        x.starts[0] = 1
    with pytest.raises(TypeError, match="starts must be integers"):
        sf.Chunks(np.arange(8), LOD, [0.0, 2.0, 0.0], [5, 2])
    with pytest.raises(TypeError, match="no state"):
        x.__setstate__({})


# ------------------------------------------------------------------------------------------------ and back


@st.composite
def any_chunks(draw, kinds, shapes=None):
    """Chunks of any sizes that rise, as a user may build them, over random numbers; and what they are of."""
    dtype = draw(st.sampled_from(kinds))
    item = draw(strategies.item_shapes() if shapes is None else st.sampled_from(shapes))
    lengths = draw(st.lists(st.integers(0, 9), max_size=4))
    chunks, starts, counts = [], [], []
    for length in lengths:
        before, end, k = -1, 0, 0
        while before < length and draw(st.integers(0, 3)):
            start = draw(st.integers(before + 1, length))
            size = draw(st.integers(max(end - start, 0), length + 2))
            starts.append(start)
            counts.append(size)
            before, end, k = start, min(start + size, length), k + 1
        chunks.append(k)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shape = (sum(counts), *item)
    low = 0 if dtype.kind in "ub" else -9
    data = rng.integers(low, 9, shape).astype(dtype)
    if dtype.kind == "f" and draw(st.booleans()):
        data[rng.random(shape) < 0.2] = np.nan
    return sf.Chunks(data, sf.LoD.from_lengths(data, [chunks, counts]).lod, starts, lengths)


def wanted_of(x, how):
    """What `unchunk` gives: an array of all rows."""
    dtype = x.data.dtype
    if how == "mean":
        dtype = dtype if dtype.kind in "fc" or dtype in HALF else np.dtype("f8")
    rows = []
    parts = [x.data[a:b] for a, b in itertools.pairwise(x.lod[-1].tolist())]
    for (a, b), length in zip(itertools.pairwise(x.lod[-2].tolist()), x.sequence_lengths.tolist(), strict=True):
        for found in cut_oracle.held(parts[a:b], x.starts[a:b].tolist(), length):
            if not found:
                rows.append(np.zeros(x.item_shape, dtype))
            elif how in ("first", "last"):
                rows.append(found[0 if how == "first" else -1])
            elif how == "max":
                rows.append(np.maximum.reduce([np.asarray(one) for one in found]))
            else:
                wide = [np.asarray(one).astype("c16" if dtype.kind == "c" else "f8") for one in found]
                rows.append((sum(wide) / len(wide)).astype(dtype))
    out = np.zeros((len(rows), *x.item_shape), dtype)
    for r, row in enumerate(rows):
        out[r] = row
    return out


@every_way
@given(data=st.data())
def test_unchunk(arrays, how, data):
    kinds = arrays.of({"mean": SUMMED, "max": ORDERED}.get(how, strategies.DTYPES))
    kinds = [dtype for dtype in kinds if dtype.kind in "bfciu" or dtype in HALF]
    x = data.draw(any_chunks(kinds))
    found = arrays.on(sf.unchunk)(x, how)
    assert type(found) is sf.LoD
    assert found.lengths() == [x.sequence_lengths.tolist()]
    wanted = wanted_of(x, how)
    if how in ("first", "last"):
        oracle.assert_bits(found.data, wanted)
    else:
        assert found.data.dtype == wanted.dtype.newbyteorder("=")
        near = 0.02 if wanted.dtype in HALF else 1e-6
        a, b = (part.astype("c16" if wanted.dtype.kind == "c" else "f8") for part in (found.data, wanted))
        np.testing.assert_allclose(a, b, rtol=near, atol=near)


@every_way
@pytest.mark.parametrize("last", ["keep", "pad", "shift"])
@every_format
@given(data=st.data())
def test_there_and_back(kind, last, how, data):
    kinds = {"mean": [np.dtype("f8"), np.dtype("f4")], "max": ORDERED}.get(how)
    truth, x = data.draw(strategies.encoded(kind, kinds=kinds))
    size = data.draw(st.integers(1, 6))
    chunks = sf.chunk(x, size, data.draw(st.integers(0, size - 1)), last=last)
    found = sf.unchunk(chunks, how)
    if how in ("first", "last"):
        oracle.assert_holds(found, truth)
    else:
        assert found.lengths() == truth.counts()
        a, b = found.data, truth.data()
        if a.dtype.kind == "f" or a.dtype in HALF:
            a, b = a.astype("f8"), b.astype("f8")
        np.testing.assert_allclose(a, b, rtol=1e-6) if a.dtype.kind == "f" else oracle.assert_bits(
            a, b.astype(b.dtype.newbyteorder("="))
        )


@every_encoding
def test_what_a_model_says_of_chunks(kind):
    """The whole way, by any encoding, with other items and without a record."""
    x = sf.Ragged(np.arange(7.0), [5, 0, 2])
    chunks = sf.chunk(x, 3, 1, last="pad")
    batch = sf.convert(chunks, kind)
    scores = sf.with_array(lambda rows: np.stack([rows, -rows], 1))(batch)
    for y, like in ((scores, chunks), (sf.convert_like(scores, chunks), None)):
        found = sf.unchunk(y, "mean", like=like)
        assert found.lengths() == [[5, 0, 2]]
        assert found.data.tolist() == np.stack([x.data, -x.data], 1).tolist()
    tokens = sf.with_masked(lambda m: m.data + 1)(chunks)
    assert sf.unchunk(tokens).data.tolist() == (x.data + 1).tolist()


def test_chunks_of_bare_lists():
    chunks = sf.chunk([[1, 2, 3], [], [4]], 2, 1)
    assert chunks.to_nested() == [[[1, 2], [2, 3]], [], [[4]]]
    assert sf.unchunk([[1, 2], [2, 3], [4]], like=chunks).to_nested() == [[1, 2, 3], [], [4]]
    deep = sf.chunk([[[1, 2, 3]], [[4], []]], 2)
    assert sf.unchunk(deep.to_nested(), "max", like=deep).to_nested() == [[[1, 2, 3]], [[4], []]]


def test_items_that_no_chunk_holds_are_zero():
    x = sf.chunk(sf.Ragged(np.arange(1.0, 8), [5, 2]), 3, last="drop")
    for how in WAYS:
        y, pullback = sf.vjp(sf.unchunk, x, how)
        assert y.data.tolist() == [1, 2, 3, 0, 0, 0, 0]
        assert pullback(np.arange(7.0) + 1).data.tolist() == [1, 2, 3]


def test_many_chunks_of_one_item_are_added_up_exactly():
    """As reductions are: in blocks, and these in float64."""
    count = 300
    data = np.full((2 * count, 2), 0.1, "f4")
    chunks = sf.Chunks(data, [[0, count], np.arange(0, 2 * count + 1, 2)], np.arange(count), [count + 1])
    y, back = sf.vjp(sf.chunk, sf.Ragged(np.zeros((900, 2), "f4"), [900]), 400, 399)
    dx = back(np.full(y.data.shape, 0.1, "f4"))
    assert abs(dx.data[450, 0] / (400 * np.float64(np.float32(0.1))) - 1) < 1e-6
    assert np.allclose(sf.unchunk(chunks, "mean").data, 0.1, rtol=1e-7)


# ---------------------------------------------------------------------------------------------- gradients


@every_last
@given(data=st.data())
def test_slopes_of_chunk(arrays, last, data):
    truth, x = data.draw(data.draw(FORMATS.map(lambda kind: strategies.encoded(kind, kinds=DOUBLE))))
    if isinstance(x, list) and not truth.rows():
        return  # bare lists without items have no item shape
    size = data.draw(st.integers(1, 6))
    overlap = data.draw(st.integers(0, size - 1))
    assert_slopes(lambda z: arrays.vjp(sf.chunk, z, size, overlap, last=last, fill=7.0), (noise(x, 0),))


@every_way
@given(data=st.data())
def test_slopes_of_unchunk(arrays, how, data):
    x = data.draw(any_chunks(DOUBLE))
    rng = np.random.default_rng(3)  # numbers none of which is equal to another
    numbers = rng.permutation(x.data.size).astype("f8").reshape(x.data.shape)
    x = sf.convert_like(sf.Ragged(numbers, np.diff(x.lod[-1])), x)
    y, pullback = arrays.vjp(sf.unchunk, x, how)
    dy = rng.integers(-9, 9, y.data.shape).astype("f8")
    dx = pullback(sf.LoD(dy, y.lod))
    assert_origin(dx, x)
    wanted = np.zeros_like(x.data)
    runs, first, counts, shifts = origin_of(x).cover
    for u, (a, b) in enumerate(itertools.pairwise(runs.offsets.tolist())):
        holders = range(first[u], first[u] + counts[u])
        for r in range(a, b):
            for k in np.ndindex(*x.item_shape):
                if how == "mean":
                    for c in holders:
                        wanted[(r + shifts[c], *k)] = dy[(r, *k)] / len(holders)
                elif holders:
                    by = {"first": lambda c: -c, "last": lambda c: c}.get(how)
                    best = max(holders, key=by or (lambda c, r=r, k=k: x.data[(r + shifts[c], *k)]))
                    wanted[(r + shifts[best], *k)] = dy[(r, *k)]
    np.testing.assert_allclose(dx.data, wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["i8", "u1", "?"])
def test_arithmetic_on_integers_has_no_gradient(dtype):
    x = sf.Ragged(np.zeros((3, 2), dtype), [1, 2])
    chunks = sf.chunk(x, 2, 1)
    sf.vjp(sf.chunk, x, 2, 1)  # nothing overlaps
    for call in (
        lambda: sf.vjp(sf.chunk, sf.Ragged(x.data, [3]), 2, 1),
        lambda: sf.vjp(sf.unchunk, chunks, "mean"),
        lambda: sf.vjp(sf.unchunk, chunks, "max"),
    ):
        with pytest.raises(TypeError, match="no gradient.*float"):
            call()


@every_way
@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_gradients_keep_the_dtype(arrays, dtype, how):
    x = sf.Ragged(np.ones((5, 3), dtype), [2, 3])
    y, pullback = arrays.vjp(sf.chunk, x, 2, 1)
    assert pullback(sf.LoD(np.ones(y.data.shape, dtype), y.lod)).dtype == dtype
    z, pullback = arrays.vjp(sf.unchunk, y, how)
    assert z.dtype == dtype
    assert pullback(sf.LoD(np.ones(z.data.shape), z.lod)).dtype == dtype


@pytest.mark.peers
@every_way
def test_they_learn_in_torch(how):
    torch = pytest.importorskip("torch")
    rows = torch.rand(9, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def whole_way(rows):
        chunks = sf.chunk(sf.Ragged(rows, [5, 0, 4]), 3, 1, last="pad")
        said = sf.with_masked(lambda m: m.data * torch.arange(1, 4)[:, None])(chunks)
        return sf.unchunk(said, how).data

    assert torch.autograd.gradcheck(whole_way, rows)
    assert torch.autograd.gradgradcheck(whole_way, rows)


# ------------------------------------------------------------------------------------------------- errors


def ragged(*lengths, dtype="f8"):
    return oracle.build(sf.Ragged, strategies.truth_from(list(lengths), dtype))


ERRORS = {
    sf.ConversionError: {
        "chunk: size must be at least 1": lambda: sf.chunk(ragged(2), 0),
        "chunk: overlap must be at least 0": lambda: sf.chunk(ragged(2), 2, -1),
        "chunk: overlap must be less than size, 2, but is 2": lambda: sf.chunk(ragged(2), 2, 2),
        'chunk: last must be "keep", "drop", "pad" or "shift", not .short.': lambda: sf.chunk(
            ragged(2), 2, last="short"
        ),
        "chunk: fill=0.5": lambda: sf.chunk(ragged(2, dtype="i8"), 2, fill=0.5),
        "chunk: size must fit int64": lambda: sf.chunk(ragged(2), 2**64),
        'unchunk: how must be "first"': lambda: sf.unchunk(example(), "sum"),
    },
    sf.StructureError: {
        "unchunk: y has 1 sequences of lengths .2., but there are 5 chunks": lambda: sf.unchunk(
            ragged(2), like=example()
        ),
        "unchunk: y has other outer levels than": lambda: sf.unchunk(
            sf.LoD(example().data, [[0, 2, 4], [0, 2, 3, 4, 5], example().lod[2]]), like=example()
        ),
    },
    TypeError: {
        "chunk: size must be an integer": lambda: sf.chunk(ragged(2), 2.0),
        "chunk: last must be": lambda: sf.chunk(ragged(2), 2, last=None),
        "unchunk: y must be what sf.chunk returns, not Ragged; give like=chunks": lambda: sf.unchunk(ragged(2)),
        "unchunk: like must be what sf.chunk returns, not Ragged": lambda: sf.unchunk(ragged(2), like=ragged(2)),
        "unchunk: no order": lambda: sf.unchunk(sf.chunk(ragged(2, dtype="c8"), 2), "max"),
        "unchunk: cannot be added up": lambda: sf.unchunk(sf.chunk(ragged(2, dtype="U1"), 2), "mean"),
    },
}
ERRORS = [(error, name, call) for error, calls in ERRORS.items() for name, call in calls.items()]


@pytest.mark.parametrize(("error", "name", "call"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_errors(error, name, call):
    with pytest.raises(error, match=name.partition(": ")[2]):
        call()


def test_no_memory_for_padding():
    with pytest.raises(sf.SeqFormatError, match="memory|int64"):
        sf.chunk(ragged(3, 1), 2**61, last="pad")
