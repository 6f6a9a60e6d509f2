"""Time steps: unpacked, packed, shrunk and linked, against plain Python; and a recurrent network in three ways."""

import copy
import pickle

import numpy as np
import oracle
import pytest
import strategies
from checks import assert_kept, assert_slopes, dot, layout_of, mapped, noise
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)

DOUBLE = [np.dtype("f8")]
unpack = sf.TensorArray.unpack
pack = sf.TensorArray.pack


def steps_of(truth):
    """Step t: the t-th item, or inner sequence, of every outermost sequence longer than t, longest first."""
    lengths = truth.lengths(0)
    order = oracle.falling(lengths)
    found = [[truth.nest[i][t] for i in order if lengths[i] > t] for t in range(max(lengths, default=0))]
    if truth.levels == 1:
        return [truth.array(step) for step in found]
    return [oracle.Truth(step, truth.dtype, truth.item_shape, truth.levels - 1) for step in found]


def assert_steps(found, truth):
    wanted = steps_of(truth)
    assert len(found) == len(wanted)
    for step, want in zip(found, wanted, strict=True):
        if truth.levels == 1:
            oracle.assert_bits(step, want)
        else:
            assert type(step) is sf.LoD
            oracle.assert_holds(step, want)


def sorted_truth(truth):
    """The longest outermost sequence first."""
    return truth.take(oracle.falling(truth.lengths(0)))


def lod(nesting=((2, 0), (), (3,)), dtype="f8", item_shape=()):
    return oracle.build(sf.LoD, strategies.truth_from([list(part) for part in nesting], dtype, item_shape, levels=2))


def ragged(*lengths, item_shape=()):
    return oracle.build(sf.Ragged, strategies.truth_from(list(lengths), "f8", item_shape))


# ----------------------------------------------------------------------------------------- unpack and pack


@every_format
@given(data=st.data())
def test_unpack_and_pack(arrays, kind, data):
    """The place of each column, the width and side of the padding and all levels come back."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    here = unpack(arrays.up(x))
    steps = arrays.down(here)
    assert_steps(steps, truth)
    y = arrays.down(here.pack())
    if kind is list and not truth.rows():
        assert len(y) == len(x)  # nested lists without items keep neither dtype nor item shape
    elif kind is list:
        found, wanted = sf.convert(y, sf.LoD), sf.LoD.from_nested(x)
        assert found.lengths() == wanted.lengths()
        assert repr(found.data.tolist()) == repr(wanted.data.tolist())
    else:
        oracle.assert_same(y, x)
        assert layout_of(y) == layout_of(x)
    oracle.assert_same(arrays.down(here.with_steps(list(here)).pack()), y)


@every_encoding
@given(data=st.data())
def test_other_items_in_the_steps(arrays, kind, data):
    """Other dtypes and item shapes, the same sequences."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of([np.dtype("f4")]), shapes=[(), (2,)]))
    steps = unpack(arrays.up(x))

    def wider(step):
        if isinstance(step, sf.LoD):
            return sf.LoD(wider(step.data), step.lod)
        return arrays.up(np.stack([arrays.down(step)] * 2, axis=1).astype("f8"))

    wanted = mapped(truth, lambda items, _: [np.stack([item, item]).astype("f8") for item in items], None, "f8")
    wanted = oracle.Truth(wanted.nest, wanted.dtype, (2, *truth.item_shape), wanted.levels)
    if len(steps):  # without steps nobody knows their items
        assert_kept(arrays.down(steps.with_steps([wider(step) for step in steps]).pack()), x, wanted)


@given(data=st.data())
def test_other_lengths_within_the_steps(arrays, data):
    levels = data.draw(st.integers(2, 3))
    truth = data.draw(strategies.batches(levels=levels, kinds=arrays.dtypes))
    steps = unpack(arrays.up(oracle.build(sf.LoD, truth)))
    if len(steps):
        found = steps.with_steps([sf.concat([step, sf.reverse(step)]) for step in steps]).pack()
        oracle.assert_holds(arrays.down(found), mapped(truth, lambda items, _: items + items[::-1]))


@given(data=st.data())
def test_steps_without_their_inner_levels(data):
    """Every step of a `LoD` reduced to one row per sequence: what is packed has one level less."""
    truth = data.draw(strategies.batches(levels=2, kinds=DOUBLE, shapes=[(), (2,)]))
    x = noise(oracle.build(sf.LoD, truth), 0)
    steps = unpack(x)
    if len(steps):
        found = steps.with_steps([sf.reduce_sum(step) for step in steps]).pack()
        oracle.assert_same(found, sf.reduce_sum(x))


def test_steps_with_inner_levels_over_a_flat_batch():
    steps = [sf.LoD(np.arange(3.0), [[0, 1, 3]]), sf.LoD(np.arange(2.0), [[0, 2]])]
    for kind in oracle.ENCODINGS:
        x = oracle.build(kind, strategies.truth_from([1, 2], "f8"))
        assert sf.TensorArray(steps, x).pack().to_nested() == [[[1, 2]], [[0], [0, 1]]]


@every_encoding
@given(data=st.data())
def test_pack_without_like(arrays, kind, data):
    """A `LoD`, longest sequence first; one without any step is not there."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    steps = sf.TensorArray(unpack(arrays.up(x)).steps)
    if len(steps):
        there = [i for i, length in enumerate(truth.lengths(0)) if length]
        found = arrays.down(steps.pack())
        assert type(found) is sf.LoD
        oracle.assert_holds(found, sorted_truth(truth.take(there)))


def test_columns_in_an_unstable_order():
    """The steps are in the stable order, the columns come back as they were."""
    for kind in (sf.Padded, sf.Packed):
        x = oracle.build(kind, strategies.truth_from([2, 1, 2], "i8"), order=[2, 0, 1])
        steps = unpack(x)
        assert [step.tolist() for step in steps] == [[1, 4, 3], [2, 5]]
        y = steps.pack()
        oracle.assert_layout(y, x)


def test_steps_are_views():
    steps = unpack(ragged(2, 3))
    assert all(np.shares_memory(step, steps[0].base) for step in steps)


def test_batches_without_a_step():
    for kind in oracle.ENCODINGS:
        for lengths in ([], [0, 0]):
            x = oracle.build(kind, strategies.truth_from(lengths, "f4", (3,)))
            assert len(unpack(x)) == 0
            oracle.assert_same(unpack(x).pack(), x)
            oracle.assert_same(unpack(x).with_steps([]).pack(), x)
    x = lod(((), ()))
    assert unpack(x).pack().to_nested() == [[], []]
    assert len(unpack([]).pack()) == 0


def test_moves_keep_the_byte_order():
    x = oracle.build(sf.Ragged, strategies.truth_from([2, 3], ">f4", (2,)))
    assert unpack(x)[0].dtype == np.dtype(">f4")
    oracle.assert_same(unpack(x).pack(), x)
    linked = sf.TensorArray([sf.LoD(np.ones(2, ">i8"), [[0, 1, 2]]), sf.LoD(np.ones(3, ">i8"), [[0, 2, 3]])])
    assert linked.pack_prefixes().dtype == np.dtype(">i8")


def test_a_sequence_of_steps():
    steps = unpack(sf.Ragged(np.array([1, 2, 3, 4, 5]), [2, 3]))
    assert len(steps) == 3
    assert [step.tolist() for step in steps] == [[3, 1], [4, 2], [5]]
    assert steps[0].tolist() == [3, 1]
    assert steps[-1].tolist() == [5]
    assert [step.tolist() for step in steps[1:]] == [[4, 2], [5]]
    assert type(steps.steps) is tuple
    assert steps == steps
    assert steps != unpack(steps.like)
    assert {steps: 1}[steps] == 1
    assert "3 steps" in repr(steps)
    for i in (3, -4):
        with pytest.raises(IndexError):
            steps[i]
    with pytest.raises(TypeError):
        steps["first"]


@every_encoding
def test_pickle_and_copy(kind):
    x = oracle.build(kind, strategies.truth_from([2, 0, 3], "f8", (2,)))
    for y in (x, lod()):
        for steps in (unpack(y), sf.TensorArray(unpack(y).steps)):
            for again in (pickle.loads(pickle.dumps(steps)), copy.copy(steps), copy.deepcopy(steps)):
                assert type(again) is sf.TensorArray
                assert len(again) == len(steps)
                oracle.assert_layout(again.pack(), steps.pack())


# -------------------------------------------------------------------------------------------------- shrink


@every_format
@given(data=st.data())
def test_shrink(arrays, kind, data):
    """Rows of an array, and sequences of an encoding, that go with the sequences still alive."""
    truth, like = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    lengths = truth.lengths(0)
    step = data.draw(st.integers(0, max(lengths, default=0) + 1))
    alive = sum(1 for length in lengths if length > step)
    array = strategies.counting("f4", (len(lengths), 2))
    _, x = data.draw(strategies.encoded(data.draw(st.sampled_from(oracle.ENCODINGS)), kinds=DOUBLE))
    for model in (like, unpack(like)):
        found = arrays.on(sf.shrink)(array, model, np.int8(step))
        oracle.assert_bits(found, array[:alive])
        assert alive == 0 or not arrays.first or np.shares_memory(found, array)
        if len(x) < alive:
            with pytest.raises(sf.StructureError, match=f"{len(x)} sequences, but {alive}"):
                sf.shrink(x, model, step)
        else:
            assert_kept(arrays.on(sf.shrink)(x, model, step), x, oracle.read(x).take(range(alive)))


def test_shrink_bare_lists():
    assert sf.shrink([[1, 2], [3], [4]], [[1], [2, 3], [4, 5]], 1) == [[1, 2], [3]]
    assert sf.shrink([[[1]], [[2], []]], lod(), 1) == [[[1]]]


# ------------------------------------------------------------------------------------------------ prefixes


def slow_prefixes(steps):
    """Paths of every root; a step is a list of innermost sequences, one for each row before."""

    def paths(t, r):
        item = [item for sequence in steps[t] for item in sequence][r]
        if t + 1 == len(steps):
            return [[item]]
        begin = sum(len(sequence) for sequence in steps[t + 1][:r])
        below = [path for k in range(len(steps[t + 1][r])) for path in paths(t + 1, begin + k)]
        return [[item, *path] for path in below] or [[item]]

    return [paths(0, r) for r in range(sum(len(sequence) for sequence in steps[0]))]


def linked(*steps):
    """One-level steps of nested lists."""
    return sf.TensorArray([sf.LoD.from_nested(step, dtype="i8", levels=1) for step in steps])


def test_the_prefixes_of_a_decoder():
    steps = linked([[0], [1]], [[2, 3], [4, 5]], [[6, 7], [], [8], [9, 10]])
    wanted = [[0, 2, 6], [0, 2, 7], [0, 3], [1, 4, 8], [1, 5, 9], [1, 5, 10]]
    assert steps.pack_prefixes().to_nested() == wanted
    assert slow_prefixes([step.to_nested() for step in steps]) == [wanted[:3], wanted[3:]]


def test_prefixes_that_die_early():
    assert linked([[0, 1]], [[], [2]], [[3]]).pack_prefixes().to_nested() == [[0], [1, 2, 3]]
    assert linked([[0], [1]], [[], []], []).pack_prefixes().to_nested() == [[0], [1]]
    assert linked([[7]]).pack_prefixes().to_nested() == [[7]]
    assert linked([[], []]).pack_prefixes().to_nested() == []
    assert linked([]).pack_prefixes().to_nested() == []


@given(data=st.data())
def test_pack_prefixes(arrays, data):
    """One to three levels in the steps; the outermost of the first one comes back around the paths."""
    dtype, item_shape = data.draw(st.sampled_from(arrays.dtypes)), data.draw(strategies.item_shapes())
    levels = data.draw(st.integers(1, 3))
    first = data.draw(strategies.nestings(levels).filter(lambda found: sum(strategies.innermost(found)) < 20))
    nestings = [first]
    for _ in range(data.draw(st.integers(0, 4))):
        count = sum(strategies.innermost(nestings[-1]))
        lengths = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
        nesting = lengths
        for _ in range(levels - 1):  # one source with everything, and one with nothing
            nesting = [nesting, []]
        nestings.append(nesting)
        if sum(lengths) > 30:
            break
    truths = [strategies.truth_from(nesting, dtype, item_shape, levels=levels) for nesting in nestings]
    paths = slow_prefixes([truth.sequences() for truth in truths])
    found = sf.TensorArray([arrays.up(oracle.build(sf.LoD, truth)) for truth in truths]).pack_prefixes()
    found = arrays.down(found)
    if levels == 1:
        wanted = oracle.Truth([path for root in paths for path in root], dtype, item_shape)
    else:
        roots = iter(paths)
        sources = [[path for _ in source for path in next(roots)] for source in truths[0].sequences(0)]
        wanted = oracle.Truth(sources, dtype, item_shape, 2)
    oracle.assert_holds(found, wanted)


# ----------------------------------------------------------------------------------------------- gradients


@every_format
@given(data=st.data())
def test_the_gradient_of_unpack(arrays, kind, data):
    _, x = data.draw(strategies.encoded(kind, kinds=DOUBLE))
    x = noise(x, 0)
    steps, pullback = arrays.vjp(unpack, x)
    dys = [noise(step, t) for t, step in enumerate(steps)]
    for dy in (dys, steps.with_steps(dys)):
        dx = pullback(dy)
        assert layout_of(dx) == layout_of(x)
        assert sum(dot(a, b) for a, b in zip(dys, steps, strict=True)) == dot(dx, x)


@every_format
@given(data=st.data())
def test_the_gradient_of_pack(arrays, kind, data):
    _, x = data.draw(strategies.encoded(kind, kinds=DOUBLE))
    like = data.draw(st.booleans())
    steps = unpack(noise(x, 0)) if like else sf.TensorArray(unpack(noise(x, 0)).steps)
    if not len(steps):
        return
    y, pullback = arrays.vjp(pack, steps)
    dy = noise(y, 1)
    dsteps = pullback(dy)
    assert type(dsteps) is sf.TensorArray
    assert [layout_of(step) for step in dsteps] == [layout_of(step) for step in steps]
    assert sum(dot(a, b) for a, b in zip(dsteps, steps, strict=True)) == dot(dy, y)


def test_the_gradient_of_pack_with_other_levels():
    """Rows over a `LoD` with more levels, and inner sequences over a flat batch."""
    inner, flat = unpack(noise(lod(), 0)), ragged(1, 2)
    sequences = [sf.LoD(np.arange(3.0), [[0, 1, 3]]), sf.LoD(np.arange(2.0), [[0, 2]])]
    for steps in (inner.with_steps([sf.reduce_sum(step) for step in inner]), sf.TensorArray(sequences, flat)):
        y, pullback = sf.vjp(pack, steps)
        dy = noise(y, 1)
        dsteps = pullback(dy)
        assert [layout_of(step) for step in dsteps] == [layout_of(step) for step in steps]
        assert sum(dot(a, b) for a, b in zip(dsteps, steps, strict=True)) == dot(dy, y)


@every_encoding
@given(data=st.data())
def test_slopes_of_shrink(arrays, kind, data):
    like = ragged(*data.draw(st.lists(st.integers(0, 4), max_size=3)))
    step = data.draw(st.integers(0, 4))
    alive = int((like.lengths > step).sum())
    _, x = data.draw(strategies.encoded(kind, kinds=DOUBLE).filter(lambda pair: len(pair[1]) >= alive))
    for operand in (noise(x, 0), np.ones((alive + 1, 2))):
        assert_slopes(lambda z: arrays.vjp(sf.shrink, z, like, step), (operand,))


def test_a_gradient_that_does_not_fit():
    x = ragged(2, 3, item_shape=(2,))
    steps, pullback = sf.vjp(unpack, x)
    for dy in (
        [np.ones((2, 2))] * 2,
        [np.ones((2, 2))] * 3,
        [np.ones((2, 3)), np.ones((2, 3)), np.ones((1, 3))],
        unpack(ragged(2, 3)),
        unpack(ragged(3, 2, 1, item_shape=(2,))),
    ):
        with pytest.raises(sf.StructureError):
            pullback(dy)
    inner, pullback = sf.vjp(unpack, lod())
    with pytest.raises(sf.StructureError):
        pullback([sf.concat([step, step]) for step in inner])
    _, pullback = sf.vjp(pack, steps)
    with pytest.raises(sf.StructureError, match="gradient"):
        pullback(np.ones((5, 3)))


# ------------------------------------------------------------------------------------------------- errors


ROWS = [np.zeros((2, 3)), np.zeros((1, 3))]
STEPS = unpack(ragged(2, 1))
ERRORS = {
    sf.StructureError: {
        "steps: dtype": lambda: sf.TensorArray([np.zeros(2), np.zeros(1, "f4")]),
        "steps: item shape": lambda: sf.TensorArray([np.zeros(2), np.zeros((1, 2))]),
        "steps: axes": lambda: sf.TensorArray([np.zeros(())]),
        r"steps: steps\[1\] has 1 levels": lambda: sf.TensorArray([lod(), ragged_lod(1)]),
        r"like: \[2, 1\] rows, but like has \[2, 2\]": lambda: sf.TensorArray(ROWS, ragged(2, 2)),
        r"like: \[2, 1\] rows, but like has \[2, 1, 1\]": lambda: sf.TensorArray(ROWS, ragged(1, 3)),
        r"like: but like has \[2, 1\]": lambda: sf.TensorArray([], ragged(1, 2)),
        r"with_steps: \[2\] rows .*\[2, 1\]": lambda: STEPS.with_steps(ROWS[:1]),
        r"with_steps: \[1, 2\] rows .*\[2, 1\]": lambda: STEPS.with_steps(ROWS[::-1]),
        "pack: there is no step": lambda: sf.TensorArray([]).pack(),
        r"pack: steps\[1\] has 2 rows after 1": lambda: sf.TensorArray(ROWS[::-1]).pack(),
        "prefixes: at least one step": lambda: sf.TensorArray([]).pack_prefixes(),
        "prefixes: LoD": lambda: STEPS.pack_prefixes(),
        r"prefixes: steps\[1\] has 1 innermost .*steps\[0\] has 2": lambda: linked([[0, 1]], [[2]]).pack_prefixes(),
        "shrink: 1 sequences, but 2": lambda: sf.shrink(np.zeros(1), STEPS, 0),
    },
    IndexError: {
        "shrink: no step -1": lambda: sf.shrink(np.zeros(2), STEPS, -1),
    },
    TypeError: {
        "steps: a list or tuple, not ndarray": lambda: sf.TensorArray(np.zeros((2, 2))),
        r"steps: steps\[1\] must be an array or a LoD, not list": lambda: sf.TensorArray([np.zeros(1), [1]]),
        r"steps: steps\[0\] must be an array or a LoD, not Ragged": lambda: sf.TensorArray([ragged(1)]),
        "steps: all arrays or all LoDs": lambda: sf.TensorArray([np.zeros(1), lod()]),
        "like: give it lengths": lambda: sf.TensorArray([np.zeros(1)], np.zeros(1)),
        "unpack: give it lengths": lambda: unpack(np.zeros(3)),
        "shrink: step": lambda: sf.shrink(np.zeros(2), STEPS, 1.0),
        "shrink: give it lengths": lambda: sf.shrink(3, STEPS, 1),
    },
}
ERRORS = [(error, name, call) for error, calls in ERRORS.items() for name, call in calls.items()]


def ragged_lod(*lengths):
    return sf.convert(ragged(*lengths), sf.LoD)


@pytest.mark.parametrize(("error", "name", "call"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_errors(error, name, call):
    with pytest.raises(error, match=name.partition(": ")[2]):
        call()


def test_a_step_that_was_resized_is_noticed():
    data = np.arange(2.0)
    steps = sf.TensorArray.unpack(sf.Ragged(np.arange(4.0), [2, 2])).with_steps([data, np.arange(2.0)])
    data.resize(1, refcheck=False)
    with pytest.raises(sf.StructureError, match="alive"):
        steps.pack()


def test_bare_lists_come_back():
    found = sf.TensorArray.unpack([np.arange(2), np.arange(3)]).pack()
    assert [item.tolist() for item in found] == [[0, 1], [0, 1, 2]]
    assert sf.TensorArray.unpack([[1, 2], [], [3]]).pack() == [[1, 2], [], [3]]


def test_shrink_is_a_view_and_takes_keywords():
    x = sf.Ragged(np.arange(6.0), [3, 2, 1])
    assert np.shares_memory(sf.shrink(x, x, 1).data, x.data)
    assert np.shares_memory(sf.shrink(x.data, x, 0), x.data)
    y, pullback = sf.vjp(sf.shrink, x=x, like=x, step=1)
    assert pullback(y).data.tolist() == [0, 1, 2, 3, 4, 0]
