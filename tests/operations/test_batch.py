"""Batches joined, split, reordered, selected and cut to a size, against plain Python."""

import numpy as np
import oracle
import pytest
import strategies
from checks import assert_kept, assert_result, assert_slopes, dot, layout_of, noise
from hypothesis import given
from hypothesis import strategies as st
from passes import INTERPRETED

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)

DOUBLE = [np.dtype("f8")]


def example(kind, lengths=(2, 0, 3), dtype="f8", item_shape=(2,)):
    return oracle.build(kind, strategies.truth_from(list(lengths), dtype, item_shape))


def lod(nesting=((2, 0), (), (3,)), dtype="f8"):
    return oracle.build(sf.LoD, strategies.truth_from([list(part) for part in nesting], dtype, (2,), levels=2))


# ------------------------------------------------------------------------------------------- join and split


@st.composite
def several(draw, kinds=None):
    """One to three batches that can be joined: truths, and encodings of them."""
    dtype = draw(strategies.dtypes() if kinds is None else st.sampled_from(kinds))
    item_shape = draw(strategies.item_shapes())
    first = draw(st.sampled_from(oracle.ENCODINGS))
    deep = draw(st.integers(1, 3)) if first is sf.LoD else 1
    truths, encodings = [], []
    for k in range(draw(st.integers(1, 3))):
        kind, levels = first, deep
        if k and deep == 1:
            kind = draw(st.sampled_from(oracle.ENCODINGS))
            levels = draw(st.integers(1, 3)) if kind is sf.LoD and first is not sf.LoD else 1
        nesting = draw(strategies.nestings(levels))
        truths.append(strategies.truth_from(nesting, dtype, item_shape, draw(st.booleans()), levels))
        options = {"side": draw(strategies.sides()), "width": 40} if kind is sf.Masked else {}
        encodings.append(oracle.build(kind, truths[-1], **options))
    return truths, encodings


def all_of(truths):
    """One truth of all sequences: the outermost, or, beside batches without levels, the innermost."""
    first = truths[0]
    parts = [truth.nest if truth.levels == first.levels else truth.sequences() for truth in truths]
    return oracle.Truth([part for nest in parts for part in nest], first.dtype, first.item_shape, first.levels)


@given(data=st.data())
def test_join(arrays, data):
    truths, xs = data.draw(several(kinds=arrays.dtypes))
    assert_result(arrays.on(sf.join_batches)(xs), xs[0], all_of(truths))


def test_join_bare_lists():
    assert sf.join_batches([[[1], [2, 3]], [[4], []]]) == [[1], [2, 3], [4], []]
    assert sf.join_batches(([[[1]], []], [[[2], [3, 4]]])) == [[[1]], [], [[2], [3, 4]]]
    arrays, x = [np.array([1, 2]), np.array([3])], sf.Ragged(np.array([7]), [0, 1])
    oracle.assert_nested(sf.join_batches([arrays, x]), [*arrays, np.array([], int), np.array([7])])
    oracle.assert_layout(sf.join_batches([x, arrays]), sf.Ragged(np.array([7, 1, 2, 3]), [0, 1, 2, 1]))


def test_joined_rectangles_keep_the_widest():
    x, y = example(sf.Masked, [2]), sf.convert(example(sf.Ragged, [1, 3]), sf.Masked, width=9, side="left")
    assert sf.join_batches([x, y]).data.shape == (3, 9, 2)
    assert sf.join_batches([x, y]).side == "right"
    padded = sf.convert(example(sf.Ragged, [1, 3]), sf.Padded, width=7)
    assert sf.join_batches([padded, padded]).data.shape == (7, 4, 2)


@st.composite
def cuts(draw, n):
    """Sizes that add up to n, some of them zero."""
    ends = sorted(draw(st.lists(st.integers(0, n), max_size=4)))
    return [b - a for a, b in zip([0, *ends], [*ends, n], strict=True)]


@every_format
@given(data=st.data())
def test_split(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    sizes = data.draw(cuts(len(truth)))
    parts = arrays.on(sf.split_batches)(x, data.draw(st.sampled_from([list, tuple, np.array]))(sizes))
    assert type(parts) is list
    assert len(parts) == len(sizes)
    ends = oracle.offsets_of(sizes)
    for part, a, b in zip(parts, ends, ends[1:], strict=False):
        assert_kept(part, x, truth.take(range(a, b)))
    if kind is not list:
        assert_kept(arrays.on(sf.join_batches)(parts), x, truth)


@pytest.mark.parametrize("kind", [sf.List, sf.Ragged, sf.Masked, sf.LoD], ids=oracle.format_name)
def test_parts_are_views(kind):
    x = example(kind)
    assert all(oracle.shares(part, x) for part in sf.split_batches(x, [1, 2]))


# ---------------------------------------------------------------------------------------------------- order


@every_format
@given(data=st.data())
def test_reorder(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    order = data.draw(st.permutations(range(len(truth))))
    wrap = data.draw(st.sampled_from([list, tuple, lambda found: np.array(found, "i4")]))
    y = arrays.on(sf.reorder)(x, wrap(order))
    assert_kept(y, x, truth.take(order))
    assert_kept(arrays.on(sf.reorder)(y, sf.inverse_order(order)), x, truth)


@given(order=st.integers(0, 5).flatmap(lambda n: st.permutations(range(n))))
def test_reorder_an_array(order):
    x = np.arange(2.0 * len(order)).reshape(len(order), 2)
    oracle.assert_bits(sf.reorder(x, order), x[list(order)])
    y, pullback = sf.vjp(sf.reorder, x, order)
    oracle.assert_bits(pullback(y), x)


@every_format
@given(data=st.data())
def test_sort_by_length(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    y, order = sf.sort_by_length(arrays.up(x))
    y = arrays.down(y)
    assert oracle.structure_list(order) == oracle.falling(truth.lengths(0))
    assert_kept(y, x, truth.take(order))
    assert_kept(sf.reorder(y, sf.inverse_order(order)), x, truth)


def test_sorted_columns_are_in_the_new_order():
    for kind in (sf.Padded, sf.Packed):
        x = kind(*[example(kind, [2, 2, 3]).data], [3, 3, 1], [3, 2, 2], [2, 1, 0])
        y, order = sf.sort_by_length(x)
        assert order.tolist() == [2, 0, 1]
        assert y.indices.tolist() == [0, 1, 2]
        oracle.assert_holds(y, oracle.read(x).take([2, 0, 1]))


# ------------------------------------------------------------------------------------------------ selection


def selected(truth, positions, level):
    """Sequences of a level; below the outermost each stays with its parent."""
    if level == 0:
        return truth.take(positions)
    numbers = iter(range(sum(truth.lengths(level - 1))))

    def part(children, depth):
        if depth < level:
            return [part(child, depth + 1) for child in children]
        own = {next(numbers): child for child in children}
        return [own[i] for i in positions if i in own]

    return oracle.Truth(part(truth.nest, 0), truth.dtype, truth.item_shape, truth.levels)


@every_format
@given(data=st.data())
def test_select(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    level = data.draw(st.integers(0, truth.levels - 1))
    n = len(truth.lengths(level))
    index = data.draw(strategies.indices(n))
    given_level = data.draw(st.sampled_from([level, level - truth.levels]))
    found = arrays.on(sf.select)(x, index, level=given_level)
    assert_kept(found, x, selected(truth, strategies.chosen(index, n), level))


# ------------------------------------------------------------------------------------------ buckets and bins


def slow_buckets(lengths, limit, padded):
    batches = []
    for i in oracle.falling(lengths):
        wider = [*batches[-1], i] if batches else [i]
        size = lengths[wider[0]] * len(wider) if padded else sum(lengths[j] for j in wider)
        if batches and size <= limit:
            batches[-1] = wider
        else:
            batches.append([i])
    return batches


def best_fit_decreasing(lengths, capacity):
    bins, room = [], []
    for i in oracle.falling(lengths):
        # the least room, of several the bin that has had it longest
        k = min((k for k in range(len(bins)) if room[k][0] >= lengths[i]), key=room.__getitem__, default=len(bins))
        if k == len(bins):
            bins.append([])
            room.append((capacity, 0))
        bins[k].append(i)
        room[k] = (room[k][0] - lengths[i], sum(map(len, bins)))
    return bins


sizes = st.lists(st.integers(0, 12), max_size=40)


@given(lengths=sizes, spare=st.integers(0, 30), padded=st.booleans())
def test_buckets(lengths, spare, padded):
    limit = max(lengths, default=0) + spare
    found = sf.buckets(lengths, limit, padded=padded)
    assert type(found) is sf.Ragged
    assert found.dtype == np.int64
    assert found.data.flags.writeable
    assert sf.convert(found, list) == slow_buckets(lengths, limit, padded)


@given(lengths=sizes, spare=st.integers(0, 30))
def test_pack_bins(lengths, spare):
    capacity = max(lengths, default=0) + spare
    found = sf.pack_bins(lengths, capacity)
    assert type(found) is sf.Ragged
    assert found.dtype == np.int64
    assert sf.convert(found, list) == best_fit_decreasing(lengths, capacity)


@given(
    lengths=st.lists(st.integers(0, 9), max_size=12),
    spare=st.integers(0, 20),
    step=st.integers(1, 8),
    most=st.integers(1, 5),
)
def test_buckets_with_rounded_widths_and_few_sequences(lengths, spare, step, most):
    """What a batch takes once it is padded to a multiple is within the limit, and one more would not be."""

    def width(batch):
        return -(-max(lengths[i] for i in batch) // step) * step

    limit = -(-max(lengths, default=0) // step) * step + spare
    found = sf.convert(sf.buckets(lengths, limit, multiple_of=step, max_sequences=most), list)
    assert [i for batch in found for i in batch] == sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for batch in found:
        made = sf.convert([np.zeros(lengths[i]) for i in batch], sf.Masked, multiple_of=step)
        assert made.data.size <= limit
        assert made.data.shape[1] == width(batch)
        assert len(batch) <= most
    for batch in found[:-1]:
        assert len(batch) == most or width(batch) * (len(batch) + 1) > limit


def test_wrong_widths_of_buckets():
    with pytest.raises(sf.StructureError, match="sequence 0 has 9 items, padded to 16, more than max_items=10"):
        sf.buckets([9, 1], 10, multiple_of=8)
    with pytest.raises(sf.ConversionError, match="multiple_of=8 is about padding"):
        sf.buckets([9, 1], 10, padded=False, multiple_of=8)
    with pytest.raises(sf.ConversionError, match="max_sequences must be at least 1, not 0"):
        sf.buckets([9, 1], 10, max_sequences=0)
    with pytest.raises(sf.ConversionError, match="multiple_of must be at least 1"):
        sf.buckets([9, 1], 10, multiple_of=0)
    assert sf.convert(sf.buckets([0, 0], 2**63 - 1, multiple_of=2**62), list) == [[0, 1]]
    assert sf.convert(sf.buckets([1, 1], 10, max_sequences=2**40), list) == [[0, 1]]


@pytest.mark.parametrize("cut", [sf.buckets, lambda n, limit: sf.buckets(n, limit, padded=False), sf.pack_bins])
def test_a_million_sequences(cut):
    n = 3_000 if INTERPRETED else 1_000_000
    lengths = np.random.default_rng(0).integers(0, 200, n)
    found = cut(lengths, 1000)
    assert np.array_equal(np.sort(found.data), np.arange(n))
    items = sf.Ragged(lengths[found.data], found.lengths)
    assert sf.reduce_sum(items).max() <= 1000
    assert len(found) >= -(-lengths.sum() // 1000)
    falls = sf.window(items, 1, 0).data[:, 0] >= items.data
    assert np.all(falls | (sf.position_ids(items) == 0))


@every_encoding
def test_lengths_of_an_encoding(kind):
    """In the caller's order; of a `LoD` the innermost."""
    x = example(kind, [1, 5, 2, 5, 1])
    assert sf.convert(sf.buckets(x, 10), list) == [[1, 3], [2, 0, 4]]
    assert sf.convert(sf.pack_bins(x, 7), list) == [[1, 2], [3, 0, 4]]
    assert sf.convert(sf.buckets(lod(), 3), list) == [[2], [0], [1]]


@every_encoding
@given(data=st.data())
def test_batches_and_the_way_back(kind, data):
    """Cut a batch into batches, work on each, join, and put everything in the caller's order."""
    truth, x = data.draw(strategies.encoded(kind, levels=1))
    cut = data.draw(st.sampled_from([sf.buckets, sf.pack_bins]))
    order = cut(x, truth.longest() + data.draw(st.integers(0, 20)))
    if len(truth):
        results = [sf.reverse(x[batch.data]) for batch in order]
        oracle.assert_same(sf.reorder(sf.join_batches(results), sf.inverse_order(order)), sf.reverse(x))


# ------------------------------------------------------------------------------------------------ gradients


@given(data=st.data())
def test_slopes_of_join(arrays, data):
    _, xs = data.draw(several(kinds=DOUBLE))
    assert_slopes(lambda *parts: arrays.vjp(sf.join_batches, list(parts)), tuple(noise(x, k) for k, x in enumerate(xs)))


@every_format
@given(data=st.data())
def test_slopes_of_selections(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=DOUBLE))
    level = data.draw(st.integers(0, truth.levels - 1))
    n = len(truth.lengths(level))
    index = data.draw(strategies.indices(n))
    order = data.draw(st.permutations(range(len(truth))))
    x = noise(x, 0)
    for call in (
        lambda z: arrays.vjp(sf.select, z, index, level=level),
        lambda z: arrays.vjp(sf.reorder, z, order),
        lambda z: first_of(sf.vjp(sf.sort_by_length, z)),
    ):
        if not isinstance(x, list) or oracle.infer(call(x)[0]).rows():
            assert_slopes(call, (x,))


def first_of(result):
    (y, _), pullback = result
    return y, pullback


@every_format
@given(data=st.data())
def test_the_gradient_of_a_split(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=DOUBLE))
    x = noise(x, 0)
    parts, pullback = arrays.vjp(sf.split_batches, x, data.draw(cuts(len(truth))))
    if isinstance(x, list) and not all(oracle.infer(part).rows() for part in parts):
        return  # bare lists without items have no item shape
    dys = [noise(part, k) for k, part in enumerate(parts)]
    dx = pullback(dys)
    assert layout_of(dx) == layout_of(x)
    assert sum(dot(dy, part) for dy, part in zip(dys, parts, strict=True)) == dot(dx, x)
    with pytest.raises(sf.StructureError, match="batches"):
        pullback([*dys, *dys, 0])


@every_encoding
def test_what_was_chosen_twice_gets_both_gradients(kind):
    x = example(kind, dtype="f2")
    _, pullback = sf.vjp(sf.select, x, [2, 0, 2, 2])
    dx = oracle.read(pullback(sf.Ragged(np.ones((11, 2), "f2"), [3, 2, 3, 3])))
    assert dx.data()[:, 0].tolist() == [1, 1, 3, 3, 3]


# --------------------------------------------------------------------------------------------------- errors


X = example(sf.Ragged)
ERRORS = {
    sf.StructureError: {
        "join: at least one": lambda: sf.join_batches([]),
        "join: batch 1 has dtype float32": lambda: sf.join_batches([X, example(sf.List, dtype="f4")]),
        r"join: batch 1 has item shape \(3,\)": lambda: sf.join_batches([X, example(sf.Masked, item_shape=(3,))]),
        "join: batch 1 has 1 levels, but batch 0 has 2": lambda: sf.join_batches([lod(), X]),
        "split: sizes add up to 2, but there are 3": lambda: sf.split_batches(X, [1, 1]),
        "split: sizes add up to 4, but there are 3": lambda: sf.split_batches(lod(), [2, 2]),
        "split: negative": lambda: sf.split_batches(X, [4, -1]),
        "reorder: 2 positions, but there are 3": lambda: sf.reorder(X, [1, 0]),
        "reorder: 1 is missing": lambda: sf.reorder(X, [0, 2, 2]),
        "reorder: 2 is missing": lambda: sf.reorder(X, [0, 1, -1]),
        "reorder: 0 is missing": lambda: sf.reorder(np.zeros(2), [1, 2]),
        "inverse: 0 is missing": lambda: sf.inverse_order([1, 1]),
        "buckets: sequence 2 has 9 items, more than max_items=8": lambda: sf.buckets([1, 2, 9, 9], 8),
        "bins: sequence 1 has 9 items, more than capacity=8": lambda: sf.pack_bins([1, 9], 8),
        "bins: negative": lambda: sf.pack_bins([1, -1], 8),
    },
    sf.ConversionError: {
        "buckets: max_items must be at least 0": lambda: sf.buckets([], -1),
        "bins: capacity must be at least 0": lambda: sf.pack_bins([], -1),
    },
    IndexError: {
        "select: index 3 is out of range": lambda: sf.select(X, [0, 3]),
        "select: index -4 is out of range": lambda: sf.select(X, -4),
        "select: mask has 2 places, but there are 3": lambda: sf.select(X, [True, False]),
        "select: level": lambda: sf.select(lod(), [0], level=2),
        "select: level 1": lambda: sf.select(X, [0], level=1),
    },
    TypeError: {
        "join: a list of batches, not Ragged": lambda: sf.join_batches(X),
        "join: give it lengths": lambda: sf.join_batches([X, np.zeros(3)]),
        "split: give it lengths": lambda: sf.split_batches(np.zeros(3), [3]),
        "split: sizes": lambda: sf.split_batches(X, [1.0, 2.0]),
        "split: sizes must be": lambda: sf.split_batches(X, 3),
        "reorder: permutation": lambda: sf.reorder(X, [0.0, 1.0, 2.0]),
        "reorder: permutation must be integers": lambda: sf.reorder(X, [True, False, False]),
        "sort: give it lengths": lambda: sf.sort_by_length(np.zeros(3)),
        "select: index": lambda: sf.select(X, [0.5]),
        "select: index must be": lambda: sf.select(X, "first"),
        "buckets: max_items": lambda: sf.buckets([1], 8.0),
        "buckets: padded": lambda: sf.buckets([1], 8, padded=1),
        "buckets: lengths": lambda: sf.buckets([1.0], 8),
        "bins: capacity": lambda: sf.pack_bins([1], None),
        "bins: lengths": lambda: sf.pack_bins(5, 8),
    },
}
ERRORS = [(error, name, call) for error, calls in ERRORS.items() for name, call in calls.items()]


@pytest.mark.parametrize(("error", "name", "call"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_errors(error, name, call):
    with pytest.raises(error, match=name.partition(": ")[2]):
        call()


def shrunk(kind):
    """A batch whose data was resized behind its back."""
    if kind is sf.Padded:
        data = np.zeros((2, 2))
        x = sf.Padded(data, [2, 2], [2, 2], [0, 1])
    else:
        data = np.zeros(4)
        x = sf.Ragged(data, [2, 2])
    data.resize((1,) * data.ndim, refcheck=False)
    return x


@pytest.mark.parametrize(
    "use",
    [
        lambda: sf.join_batches([shrunk(sf.Ragged)] * 2),
        lambda: sf.sort_by_length(shrunk(sf.Padded)),
        lambda: sf.scatter(np.zeros((2, 2)), sf.Ragged(np.array([0, 1, 0, 1]), [2, 2]), shrunk(sf.Ragged)),
        lambda: sf.reshape(shrunk(sf.Ragged), 1),
        lambda: sf.concat([shrunk(sf.Ragged)]),
        lambda: sf.expand_as(shrunk(sf.Ragged), sf.Ragged(np.zeros(4), [1] * 4)),
        lambda: sf.reorder(shrunk(sf.Ragged), [1, 0]),
    ],
)
def test_data_that_was_resized_is_noticed(use):
    with pytest.raises(sf.StructureError, match="build a new one"):
        use()


def test_lengths_of_bare_lists():
    batch = [np.zeros(3), np.zeros(2)]
    assert sf.convert(sf.buckets(batch, 3), list) == [[0], [1]]
    assert sf.convert(sf.pack_bins([[1, 2, 3], [4, 5]], 5), list) == [[0, 1]]
    assert sf.mask(batch).tolist() == [[True, True, True], [True, True, False]]


def test_pullbacks_take_keywords_and_give_the_dtype():
    x = sf.Ragged(np.ones(3, "f4"), [1, 2])
    parts, pullback = sf.vjp(sf.split_batches, x=x, sizes=[1, 1])
    assert len(parts) == 2
    found = pullback([np.ones(1), np.ones(2)])
    assert (found.dtype, found.data.tolist()) == (np.float32, [1, 1, 1])
    (y, _), pullback = sf.vjp(sf.sort_by_length, x=x)
    assert sf.equal(pullback(y), x)
