"""JAX's arrays: eager and in its transforms, beside NumPy."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import seqformats as sf

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.jax

KINDS = [sf.Ragged, sf.Masked, sf.Padded, sf.Packed, sf.List, sf.LoD]
LENGTHS = [2, 0, 4, 1, 3]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def like_of(x):
    """A function that makes arrays of the library of `x`."""
    return np.asarray if isinstance(x._leaves()[0], np.ndarray) else jnp.asarray


def numbers(x):
    """An integer for each item, in the library of `x`."""
    return like_of(x)(np.arange(x.rows) % 3)


def data_of(x):
    return sf.convert(x, sf.Ragged).data


BAGS = [[0, 9, 9], [], [3, 1, 0, 2]]
MARKS, PLACES = np.arange(10) % 3 > 0, [[0, -1, 0], [], [1], [0], [2, 1]]
MOVES = {
    **{f"to {kind.__name__}": (lambda x, kind=kind: sf.convert(x, kind)) for kind in (*KINDS[:5], sf.LoD)},
    "fill": lambda x: sf.convert(x, sf.Masked, fill=-1),
    "left": lambda x: sf.convert(x, sf.Masked, side="left", width=7),
    "multiple": lambda x: sf.convert(x, sf.Padded, multiple_of=4),
    "cut off": lambda x: sf.convert(x, sf.Masked, width=2, truncate=True),
    "like": lambda x: sf.convert_like(sf.convert(x, sf.Packed), x),
    "reverse": sf.reverse,
    "cut": lambda x: sf.cut(x, 1, None, 2),
    "truncate": lambda x: sf.truncate(x, 2, "middle"),
    "shift": lambda x: sf.shift(x, 1, fill=2),
    "window": lambda x: sf.window(x, 1, 1),
    "concat": lambda x: sf.concat([x, x]),
    "interleave": lambda x: sf.interleave([x, sf.reverse(x)]),
    "join": lambda x: sf.join_batches([x, x]),
    "select": lambda x: sf.select(x, [3, 0, 3]),
    "reorder": lambda x: sf.reorder(x, [4, 3, 2, 1, 0]),
    "shuffle": lambda x: sf.shuffle(x, 3),
    "repeat": lambda x: sf.repeat(x, [1, 2, 0, 1, 1]),
    "filter": lambda x: sf.filter(x, np.arange(10) % 3 > 0),
    "gather": lambda x: sf.gather(x, PLACES),
    "masked_scatter": lambda x: sf.masked_scatter(x, MARKS, sf.filter(sf.reverse(x), MARKS)),
    "put_sequences": lambda x: sf.put_sequences(x, [4, 0], x[[0, 2]]),
    "put": lambda x: sf.scatter(x, PLACES, sf.gather(x, [[1, 1, 1], [], [3], [0], [0, 0]]), mode="put"),
    "cross": lambda x: sf.cross(x, x).two,
    "chunk": lambda x: sf.chunk(x, 3, 1),
    "nest": lambda x: sf.flatten_levels(sf.nest(sf.convert(x, sf.Ragged), [2, 3])),
    "shrink": lambda x: sf.shrink(x, x, 1),
    "wrapper": lambda x: sf.with_padded(lambda y: sf.Padded(y.data * 2, *rest(y)))(x),
}
"""What takes a batch of any dtype; its gradients are linear."""


def rest(x):
    return x.size_at_t, x.lengths, x.indices


SUMS = {
    "sum": sf.reduce_sum,
    "mean": lambda x: sf.reduce_mean(x, empty=7.0),
    "sqrt": sf.reduce_sqrt,
    "prod": sf.reduce_prod,
    "norm": sf.reduce_norm,
    "logsumexp": lambda x: sf.reduce_logsumexp(x, empty=0.0),
    "max": sf.reduce_max,
    "min": sf.reduce_min,
    "first": sf.reduce_first,
    "last": sf.reduce_last,
    "var": sf.reduce_var,
    "std": lambda x: sf.reduce_std(x, ddof=1),
    "median": sf.reduce_median,
    "quantile": lambda x: sf.reduce_quantile(x, [0.1, 0.5, 1.0]),
    "topk_mean": lambda x: sf.topk_mean(x, [1, 3]),
    "weighted": lambda x: sf.reduce_mean(x, weights=like_of(x)(np.arange(1.0, 11.0))),
    "softmax": sf.softmax,
    "log_softmax": sf.log_softmax,
    "cumsum": sf.cumsum,
    "chunk means": lambda x: sf.unchunk(sf.chunk(x, 3, 1), "mean"),
    "chunk maxima": lambda x: sf.unchunk(sf.chunk(x, 3, 1), "max"),
    "expand": lambda x: sf.expand_as(sf.reduce_sum(x), sf.convert(x, sf.Ragged)),
    "embedding_bag": lambda x: sf.embedding_bag(data_of(x), BAGS, mode="mean"),
    "largest of bags": lambda x: sf.embedding_bag(data_of(x), BAGS, mode="max"),
    "weighted bags": lambda x: sf.embedding_bag(data_of(x), BAGS, data_of(x).reshape(10, -1)[:7, 0], mode="mean"),
    "scatter": lambda x: sf.scatter(like_of(x)(np.zeros((5, 3, *x.item_shape), x.dtype)), numbered(x), x),
}
"""What calculates with floats."""


def numbered(x):
    return sf.Ragged(np.arange(x.rows) % 3, x._structure.lengths)


COUNTS = {
    "count": sf.reduce_count,
    "any": sf.reduce_any,
    "all": sf.reduce_all,
    "argmax": sf.argmax,
    "argmin": sf.argmin,
    "positions": lambda x: sf.position_ids(x, layout=True),
}
"""What has no gradient, but goes through `jax.jit`."""

VALUES = {
    "sort": sf.sort,
    "argsort": sf.argsort,
    "topk": lambda x: sf.topk(x, 2).values,
    "nunique": sf.reduce_nunique,
    "mode": sf.reduce_mode,
}
"""What works on values alone."""


def batch(kind, item=(3,), dtype=np.float64, lengths=LENGTHS, seed=0):
    """A batch on NumPy without two equal items, and the same on JAX."""
    rows = int(np.sum(lengths))
    size = rows * int(np.prod(item))
    values = np.random.default_rng(seed).permutation(size) / max(size, 1) + 0.25
    x = sf.convert(
        sf.Ragged((values * (100 if dtype == np.int32 else 1)).astype(dtype).reshape(rows, *item), lengths), kind
    )
    return x, sf.to(x, "jax")


def same(found, wanted, tolerance=1e-12):
    """Are both the same, `found` in JAX's arrays?"""
    a, b = sf_leaves(found), sf_leaves(wanted)
    assert len(a) == len(b)
    for one, two in zip(a, b, strict=True):
        assert isinstance(one, jax.Array)
        assert one.dtype == two.dtype
        np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=tolerance, atol=tolerance)


def sf_leaves(x):
    if isinstance(x, (tuple, list)):
        return [leaf for part in x for leaf in sf_leaves(part)]
    return list(x._leaves()) if hasattr(x, "_leaves") else [x]


@pytest.fixture(autouse=True)
def wide():
    """64 bits, as NumPy has them."""
    with jax.enable_x64(True):
        yield


ALL = {**MOVES, **SUMS, **COUNTS}


@pytest.mark.parametrize("name", [*ALL, *VALUES])
def test_values_are_those_of_numpy(name):
    """Every kind on its own, and in turn one of them in a program: to compile takes the longest."""
    function = {**ALL, **VALUES}[name]
    turn = [*ALL, *VALUES].index(name) % len(KINDS)
    for k, kind in enumerate(KINDS):
        x, there = batch(kind)
        wanted = function(x)
        same(function(there), wanted)
        if name in ALL and k == turn:
            same(jax.jit(function)(there), wanted)


@pytest.mark.parametrize(
    ("kind", "item", "lengths"),
    [(sf.Ragged, (), []), (sf.Padded, (2, 2), [0]), (sf.Ragged, (0,), [0, 0, 3]), (sf.Padded, (), [0, 3])],
    ids=str,
)
def test_odd_shapes(kind, item, lengths):
    x, there = batch(kind, item, lengths=lengths)
    some = [lambda y: sf.convert(y, sf.Masked), lambda y: sf.convert(y, sf.Packed), sf.reverse, sf.softmax, sf.cumsum]
    some += [SUMS[name] for name in ("sum", "mean", "max", "logsumexp", "prod", "var", "median", "topk_mean")]
    every = [*some, sf.argmax, sf.reduce_any]
    for function in every:
        same(function(there), function(x))
    together = jax.jit(lambda y: [function(y) for function in every])(there)
    for found, function in zip(together, every, strict=True):
        same(found, function(x))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "float32", "bfloat16", "complex64"])
@pytest.mark.parametrize("name", ["left", "shift", "sum"])
def test_every_dtype(name, dtype):
    dtype = jnp.dtype(dtype)
    x, there = batch(sf.Ragged, (), np.float64)
    x = sf.Ragged((x.data * 10).astype(dtype), LENGTHS)
    there = sf.to(x, "jax")
    function = {**ALL, "shift": lambda y: sf.shift(y, 1, fill=1)}[name]
    wanted = function(x)
    same(function(there), wanted, 0)
    same(jax.jit(function)(there), wanted, 1e-2 if dtype.itemsize == 2 else 1e-6)


@pytest.mark.parametrize("name", ["to Masked", "shift", "select", "gather", *SUMS])
def test_gradients(name):
    """Beside differences; forwards too, and to the second order, for some that are not linear."""
    check_grads = pytest.importorskip("jax.test_util").check_grads
    function = {**MOVES, **SUMS}[name]
    _, there = batch(sf.Ragged, ())

    @jax.jit
    def loss(data):
        leaves = sf_leaves(function(there._with_data(data)))
        return sum((leaf * jnp.cos(jnp.arange(leaf.size).reshape(leaf.shape))).sum() for leaf in leaves)

    twice = name in ("softmax", "prod", "var")
    modes = ("fwd", "rev") if twice else ("rev",)
    check_grads(loss, (there.data,), order=1 + twice, modes=modes, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [sf.Packed, sf.List], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["to Masked", "softmax", "cumsum"])
def test_gradients_are_those_of_vjp(name, kind):
    function = ALL[name]
    x, there = batch(kind)
    pullback = sf.vjp(function, x)[1] if name in ("softmax", "cumsum") else None
    result, back = jax.vjp(function, there)
    slopes = jax.tree.map(lambda leaf: jnp.cos(leaf * 7), result)
    (found,) = back(slopes)
    assert type(found) is kind
    if pullback is not None:
        same(found, pullback(jax.tree.map(np.asarray, slopes)), 1e-10)
        mine = sf.vjp(function, there)[1](slopes)
        same(mine, pullback(jax.tree.map(np.asarray, slopes)), 1e-10)
    weights = [jnp.sin(jnp.arange(leaf.size).reshape(leaf.shape)) for leaf in sf_leaves(there)]
    along = jax.tree.unflatten(jax.tree.structure(there), weights)
    _, forwards = jax.jvp(function, (there,), (along,))
    one = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(slopes), jax.tree.leaves(forwards), strict=True))
    two = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(along), strict=True))
    np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)


def test_the_first_of_equal_items_has_the_gradient():
    data = jnp.array([1.0, 3.0, 3.0, 2.0, 2.0])
    for reduction, wanted in ((sf.reduce_max, [0, 1, 0, 1, 0]), (sf.reduce_min, [1, 0, 0, 1, 0])):
        found = jax.grad(lambda d, r=reduction: r(sf.Ragged(d, [3, 2, 0])).sum())(data)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", ["max", "logsumexp", "softmax"])
def test_one_long_sequence_among_many(name, dense, monkeypatch):
    """Where a rectangle would be too large, items are found by the number of their sequence."""
    lengths = [300, *[1] * 40, 0]
    x, there = batch(sf.Ragged, (2,), lengths=lengths)
    if not dense:
        sequences = pytest.importorskip("seqformats.launch.sequences")
        monkeypatch.setattr(sequences.Sequences, "square", False)
    function = SUMS[name]
    same(jax.jit(lambda y: function(y))(there), function(x), 1e-10)
    _, back = jax.vjp(function, there)
    result = function(x)
    slopes = [np.cos(np.arange(leaf.size).reshape(leaf.shape)) for leaf in sf_leaves(result)]
    dy = slopes[0] if not hasattr(result, "_with_data") else result._with_data(slopes[0])
    wanted = sf.vjp({"logsumexp": sf.reduce_logsumexp, "mean": sf.reduce_mean}.get(name, function), x)[1](dy)
    found = back(jax.tree.map(jnp.asarray, dy))[0]
    np.testing.assert_allclose(found.data, wanted.data, rtol=1e-9, atol=1e-9)


def test_nan_is_the_largest_in_programs_too():
    data = np.array([1.0, np.nan, 3.0, -np.inf, np.inf, 2.0])
    x, there = sf.Ragged(data, [3, 1, 2]), sf.Ragged(jnp.asarray(data), [3, 1, 2])
    for function in (sf.reduce_max, sf.reduce_min, sf.argmax, sf.softmax, sf.reduce_logsumexp, sf.reduce_median):
        for found in (function(there), jax.jit(function)(there)):
            same(found, function(x))


# --- pytrees and transforms ------------------------------------------------------------------------------------------


@each_kind
def test_a_program_is_traced_once_for_a_structure(kind):
    traced = []

    @jax.jit
    def program(x):
        traced.append(1)
        return sf.softmax(sf.convert(x, sf.Masked))

    def made(lengths, factor):
        return sf.convert(sf.Ragged(factor * jnp.arange(10.0), lengths), kind)

    for factor in (1, 2, 3):
        program(made([2, 0, 4, 1, 3], factor))
    assert len(traced) == 1
    program(made([3, 1, 4, 0, 2], 1))
    assert len(traced) == 2


@each_kind
def test_leaves_may_be_anything(kind):
    x = batch(kind)[1]
    leaves, tree = jax.tree.flatten(x)
    assert all(a is b for a, b in zip(leaves, sf_leaves(x), strict=True))
    for leaf in (object(), None, 3, jax.ShapeDtypeStruct((2,), jnp.float32), "text", np.zeros(1)):
        made = jax.tree.unflatten(tree, [leaf] * len(leaves))
        assert type(made) is kind
        assert all(found is leaf for found in sf_leaves(made))
    assert jax.tree.structure(batch(kind, seed=1)[1]) == tree
    assert hash(jax.tree.structure(batch(kind, seed=1)[1])) == hash(tree)
    assert jax.tree.structure(batch(kind, lengths=LENGTHS[::-1])[1]) != tree
    same(jax.tree.map(lambda leaf: 2 * leaf, x), sf.convert(sf.Ragged(2 * data_of(batch(sf.Ragged)[0]), LENGTHS), kind))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(x)[0]]
    assert paths == ([f"[{k}]" for k in range(5)] if kind is sf.List else [".data"])


def test_what_else_tells_two_structures_apart():
    x = sf.Ragged(jnp.arange(6.0), [3, 3])
    structure = jax.tree.structure
    assert structure(sf.convert(x, sf.Masked)) != structure(sf.convert(x, sf.Masked, side="left"))
    assert structure(sf.convert(x, sf.Masked)) != structure(sf.convert(x, sf.Masked, width=4))
    assert structure(sf.convert(x, sf.Masked)) != structure(sf.convert(x, sf.Padded))
    assert structure(sf.nest(x, [2])) != structure(sf.nest(x, [1, 1]))
    packed = sf.convert(x, sf.Packed)
    turned = sf.Packed(packed.data, packed.size_at_t, packed.lengths, [1, 0])
    assert structure(packed) != structure(turned)
    assert structure(sf.chunk(x, 2)) == structure(sf.chunk(sf.reverse(x), 2))
    assert structure(sf.chunk(x, 2)) != structure(sf.chunk(x, 2, 1))


def test_pairs_are_pytrees():
    x = sf.Pairs(sf.Ragged(jnp.arange(3.0), [1, 2]), sf.Ragged(jnp.arange(2.0), [1, 1]))
    assert len(jax.tree.leaves(x)) == 2
    same(jax.tree.map(lambda leaf: leaf + 1, x).two, sf.Ragged(np.array([1.0, 2.0]), [1, 1]))


def test_a_batch_that_no_longer_fits_is_refused():
    """`vmap` puts an axis before the others; what comes out is no batch until it has been taken off again."""
    x = sf.Ragged(jnp.ones((10, 2)), LENGTHS)
    many = jax.vmap(lambda k: jax.tree.map(lambda leaf: k * leaf, x))(jnp.arange(3.0))
    for function in (
        sf.reverse,
        sf.reduce_sum,
        lambda y: sf.convert(y, sf.Masked),
        jax.jit(sf.reverse),
        jax.jit(sf.softmax),
    ):
        with pytest.raises(sf.StructureError, match="build a new one"):
            function(many)
    assert jax.vmap(sf.reduce_sum)(many).shape == (3, 5, 2)


@pytest.mark.parametrize("name", ["to Masked", "max", "softmax", "median"])
def test_vmap_is_a_loop(name):
    function = ALL[name]
    stacked = jnp.asarray(np.random.default_rng(0).normal(size=(4, 10, 2)))
    found = jax.tree.leaves(jax.vmap(lambda data: function(sf.Ragged(data, LENGTHS)))(stacked))
    wanted = [jax.tree.leaves(function(sf.Ragged(data, LENGTHS))) for data in stacked]
    for k, leaf in enumerate(found):
        np.testing.assert_allclose(leaf, np.stack([np.asarray(each[k]) for each in wanted]), rtol=1e-10)


def test_other_transforms():
    x = sf.Ragged(jnp.arange(10.0), LENGTHS)

    def loss(y):
        return (sf.reduce_sum(sf.softmax(sf.convert(y, sf.Masked))) * jnp.arange(5.0) ** 2 + sf.reduce_max(y)).sum()

    wanted = jax.grad(loss)(x).data
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x).data, wanted)
    np.testing.assert_allclose(jax.grad(jax.checkpoint(loss))(x).data, wanted)
    value, linear = jax.linearize(loss, x)
    np.testing.assert_allclose(linear(x), jax.jvp(loss, (x,), (x,))[1])
    np.testing.assert_allclose(value, loss(x))
    carried, _ = jax.lax.scan(lambda y, _: (sf.reverse(y), None), x, None, length=3)
    np.testing.assert_allclose(carried.data, sf.reverse(x).data)
    shape = jax.eval_shape(lambda y: sf.convert(y, sf.Masked), x)
    assert shape.data.shape == (5, 4)


def test_training():
    """Attention weights over steps, trained by hand: as NumPy with the pullbacks of this library."""
    generator = np.random.default_rng(0)
    ids = [generator.normal(size=(k, 4)) for k in (3, 1, 5)]
    wanted, weights = generator.normal(size=3), generator.normal(size=4)
    x = sf.to(sf.convert(ids, sf.Ragged), "jax")

    @jax.jit
    def step(weights, x, wanted):
        def loss(w):
            scores = sf.Ragged(x.data @ w, x.lengths)
            mixed = sf.reduce_sum(sf.Ragged(sf.softmax(scores).data[:, None] * x.data, x.lengths))
            return ((mixed.sum(1) - wanted) ** 2).sum()

        value, slope = jax.value_and_grad(loss)(weights)
        return weights - 0.05 * slope, value

    own, losses = jnp.asarray(weights), []
    for _ in range(30):
        own, value = step(own, x, wanted)
        losses.append(float(value))
    plain = sf.convert(ids, sf.Ragged)
    for k in range(30):
        shares, back = sf.vjp(sf.softmax, sf.Ragged(plain.data @ weights, plain.lengths))
        mixed, spread = sf.vjp(sf.reduce_sum, sf.Ragged(shares.data[:, None] * plain.data, plain.lengths))
        error = mixed.sum(1) - wanted
        np.testing.assert_allclose(losses[k], (error**2).sum(), rtol=1e-8)
        slopes = spread(np.repeat(2 * error[:, None], 4, 1)).data
        weights = weights - 0.05 * plain.data.T @ back((slopes * plain.data).sum(1)).data
    np.testing.assert_allclose(own, weights, rtol=1e-7)
    assert losses[-1] < losses[0]


HALVES = sf.Ragged(np.arange(1, 11) / 2, LENGTHS)  # of NumPy, beside arrays of JAX


@pytest.mark.parametrize("reduction", ["mean", "sequence", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"ignore": 2, "label_smoothing": 0.1}, {"ignore": 2, "weights": HALVES}])
@pytest.mark.parametrize("kind", [sf.Padded], ids=lambda kind: kind.__name__)
def test_cross_entropy(kind, options, reduction):
    x, there = batch(kind, (4,))
    targets = sf.Ragged(np.arange(10) % 3, LENGTHS)
    right = sf.to(targets, "jax")

    def loss(y, t):
        return sf.cross_entropy(y, t, reduction=reduction, **options)

    wanted, whole_back = sf.vjp(sf.cross_entropy, x, targets, reduction=reduction, **options)

    def back(dy):
        return whole_back(dy)[0] if "weights" in options else whole_back(dy)

    dy = (
        jax.tree.map(lambda leaf: np.cos(np.asarray(leaf)), wanted)
        if hasattr(wanted, "_leaves")
        else np.asarray(np.cos(wanted))
    )
    slopes = jax.tree.map(jnp.asarray, dy)
    for function in (loss, jax.jit(loss)):
        same(function(there, right), wanted)
    _, pullback = jax.vjp(lambda y: loss(y, right), there)
    same(pullback(slopes)[0], back(dy), 1e-10)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize(("kind", "reduction"), [(sf.Masked, "none"), (sf.Packed, "mean"), (sf.List, "sum")])
def test_the_loss_of_labels(kind, reduction, normalised):
    """Labels without a path, -inf, and several labels of a sequence, beside the kernels."""
    x = np.random.default_rng(0).standard_normal((10, 4)) * 3
    x[1, 2] = x[7, 1] = -np.inf
    labels = [[[1], [2, 2]], [[], [3]], [[1, 3], [1, 1, 2]], [[2]], []]
    options = {"normalised": normalised, "reduction": reduction, "zero_infinity": reduction != "none"}
    wanted, back = sf.vjp(sf.ctc_loss, sf.convert(sf.Ragged(x, LENGTHS), kind), labels, **options)
    there = sf.convert(sf.Ragged(jnp.asarray(x), LENGTHS), kind)

    def loss(y):
        return sf.ctc_loss(y, labels, **options)

    for function in (loss, jax.jit(loss)):
        np.testing.assert_allclose(function(there), wanted, 1e-9)
    dy = np.cos(np.arange(wanted.size).reshape(wanted.shape) + 1.0)
    slopes = jax.vjp(loss, there)[1](jnp.asarray(dy))[0]
    np.testing.assert_allclose(data_of(slopes), data_of(back(np.asarray(dy))), 1e-8, 1e-10)


def test_a_target_that_is_no_class_is_nan_where_nobody_can_look():
    x, targets = sf.Ragged(jnp.ones((2, 3)), [2]), sf.Ragged(jnp.array([0, 3]), [2])
    with pytest.raises(IndexError):
        sf.cross_entropy(x, targets)
    found = jax.jit(lambda y, t: sf.cross_entropy(y, t, reduction="none").data)(x, targets)
    assert np.isnan(found).tolist() == [False, True]


# --- arrays ----------------------------------------------------------------------------------------------------------


def test_dtypes_without_64_bits():
    with jax.enable_x64(False):
        x = sf.Ragged(jnp.arange(10.0), LENGTHS)
        assert sf.convert(x, sf.Masked).dtype == jnp.float32
        whole = sf.Ragged(jnp.arange(10), LENGTHS)
        for function in (sf.reduce_count, sf.argmax, sf.argsort, lambda y: sf.position_ids(y, layout=True)):
            assert jax.tree.leaves(function(x))[0].dtype == jnp.int32
        for function in (sf.reduce_sum, sf.reduce_max):
            wanted = sf_leaves(function(sf.Ragged(np.arange(10), LENGTHS)))[0]
            for found in (function(whole), jax.jit(function)(whole)):
                assert jax.tree.leaves(found)[0].dtype == jnp.int32
                np.testing.assert_array_equal(jax.tree.leaves(found)[0], wanted)
        assert sf.reduce_mean(whole).dtype == jax.jit(sf.reduce_mean)(whole).dtype == jnp.float32
        assert sf.to(sf.Ragged(np.arange(3.0), [3]), "jax").dtype == jnp.float32


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float32", "bfloat16"])
@pytest.mark.parametrize("name", [*ALL, "cross entropy"])
def test_dtypes_are_the_same_in_a_program_and_outside_of_one(name, dtype):
    """Without 64 bits: what NumPy has in float64 is float32 in both."""
    functions = {**ALL, "cross entropy": lambda y: sf.cross_entropy(y, sf.Ragged(jnp.arange(10) % 2, LENGTHS))}
    function = functions[name]
    fitting = (sf.ConversionError, TypeError)  # a padding that the dtype does not have, or no arithmetic with it
    with jax.enable_x64(False):
        x = sf.Ragged(jnp.asarray(np.arange(20).reshape(10, 2) % 2).astype(dtype), LENGTHS)
        try:
            inside = jax.eval_shape(function, x)
        except fitting as error:
            with pytest.raises(type(error)):
                function(x)
            return
        outside = jax.tree.leaves(function(x))
        assert [leaf.dtype for leaf in jax.tree.leaves(inside)] == [leaf.dtype for leaf in outside]
        assert all(leaf.dtype.itemsize < 8 for leaf in outside)


def test_arrays_that_cannot_be_batches():
    gone = jnp.arange(3.0)
    x = sf.Ragged(gone, [3])
    gone.delete()
    with pytest.raises(TypeError, match="deleted or donated"):
        sf.Ragged(gone, [3])
    with pytest.raises(sf.StructureError, match="deleted or donated"):
        sf.convert(x, sf.Masked)
    assert repr(x).startswith("Ragged(shape (3,)")
    with pytest.raises(TypeError, match="key_data"):
        sf.Ragged(jax.random.split(jax.random.key(0), 3), [3])
    with pytest.raises(TypeError, match="less than a byte"):
        sf.Ragged(jnp.zeros(3, jnp.int4), [3])


def test_lengths_are_of_the_host():
    with pytest.raises(TypeError):
        jax.jit(lambda lengths: sf.Ragged(jnp.arange(3.0), lengths).data)(jnp.array([1, 2]))
    assert sf.Ragged(jnp.arange(3.0), jnp.array([1, 2])).lengths.tolist() == [1, 2]


@pytest.mark.parametrize("name", [*VALUES, "erase", "unique", "to list", "levenshtein"])
def test_what_needs_values_says_so(name):
    x = sf.Ragged(jnp.arange(10) % 4, LENGTHS)
    function = {
        **VALUES,
        "erase": lambda y: sf.erase(y, [1]),
        "unique": sf.unique,
        "to list": lambda y: sf.convert(y, list),
        "levenshtein": lambda y: sf.levenshtein(y, y),
    }[name]
    function(x)
    with pytest.raises(TypeError, match="values"):
        jax.jit(function)(x)


def test_own_memory():
    """Nobody's array is written, and a result is nobody else's."""
    data = jnp.arange(10.0)
    before = np.array(data)
    x = sf.Ragged(data, LENGTHS)
    results = [sf.reverse(x).data, sf.softmax(x).data, sf.convert(x, sf.Masked).data, sf.convert(x, sf.List).items[0]]
    kept = [np.array(result) for result in results]
    host = np.arange(10.0)
    taken = sf.to(sf.Ragged(host, LENGTHS), "jax")
    host[:] = -1
    np.testing.assert_array_equal(taken.data, before)
    for _ in range(20):
        sf.softmax(sf.Ragged(jnp.ones(10), LENGTHS))
    np.testing.assert_array_equal(data, before)
    for result, own in zip(results, kept, strict=True):
        np.testing.assert_array_equal(result, own)


@each_kind
def test_copies_and_pickles(kind):
    x = batch(kind)[1]
    for made in (copy.copy(x), pickle.loads(pickle.dumps(x)), sf.convert(x, kind, copy=True)):
        assert sf.equal(made, x)
        same(made, batch(kind)[0])


def test_between_libraries():
    x = batch(sf.Masked)[1]
    assert isinstance(sf.to(x, "numpy").data, np.ndarray)
    assert x.device == "cpu"
    assert sf.to_device(x, "cpu").data is not None
    with pytest.raises(sf.DeviceError):
        sf.to_device(x, "nowhere")
    with pytest.raises(TypeError, match="JAX has no dtype"):
        sf.to(sf.Ragged(np.array(["a", "b"]), [2]), "jax")


# --- memory ----------------------------------------------------------------------------------------------------------

MEMORY = """
import gc

import jax
import jax.numpy as jnp
import numpy as np

import seqformats as sf

jax.config.update("jax_enable_x64", True)
generator = np.random.default_rng(0)
calls = [sf.reverse, sf.reduce_mean, sf.softmax, sf.sort, sf.cumsum, lambda x: sf.convert(x, sf.Masked)]
calls += [lambda x: sf.convert(x, sf.List), lambda x: sf.vjp(sf.reduce_max, x)[1](sf.reduce_max(x))]
calls += [lambda x: sf.concat([x, x]), lambda x: sf.topk(x, 2).values]
twice, later, kept = jax.jit(lambda a: a * 2, donate_argnums=0), jax.jit(lambda a: a + 1), []
for k in range(1500):
    lengths = [[2, 0, 4, 1, 3], [0], [300, 5]][k % 3]
    host = generator.normal(size=(sum(lengths), 3))
    device = jax.devices()[k // 3 % 2]
    given = later(jax.device_put(host, device))  # which JAX may calculate still
    call = calls[k % len(calls)]
    found, wanted = (jax.tree.leaves(call(sf.Ragged(x, lengths))) for x in (given, host + 1))
    for y in found:
        assert y.devices() == {device} or not y.size, (y.devices(), device)
    kept.append((found, [np.array(leaf) for x in wanted for leaf in (x._leaves() if hasattr(x, "_leaves") else [x])]))
    if len(kept) > 40:
        arrays, values = kept.pop(int(generator.integers(40)))
        for x, y in zip(arrays, values, strict=True):
            np.testing.assert_array_equal(x, y)
            if k % 4 == 0:
                view = np.asarray(x)
                np.testing.assert_array_equal(twice(x), y * 2)
                np.testing.assert_array_equal(view, y)  # a donated result is not written
            elif k % 4 == 1:
                x.delete()
    if k % 100 == 0:
        gc.collect()
"""


def test_results_on_any_device_are_never_written_again():
    """Two devices of the host, arrays that are not ready, donated and deleted, with freed memory overwritten."""
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "MALLOC_PERTURB_": "165",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", MEMORY], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_only_own_memory_is_written():
    """What JAX has made is refused, whatever asks for it."""
    library = sf.arrays.library_of(jnp.zeros(3))
    mine = library.empty((3,), np.dtype("float32"), jnp.zeros(3))
    assert library.target(mine) == mine.unsafe_buffer_pointer()
    for theirs in (jnp.arange(3.0), mine + 1, jnp.array(mine)):
        for write in (library.target, library.result, lambda x: library.overwrite(x, np.array([0]), 1)):
            with pytest.raises(sf.DeviceError, match="nobody may write"):
                write(theirs)


def test_arrays_on_several_devices_are_refused():
    code = """
import jax
import numpy as np
import pytest

import seqformats as sf

many = jax.sharding.NamedSharding(jax.make_mesh((2,), ("a",)), jax.sharding.PartitionSpec("a"))
x = jax.device_put(np.zeros((4, 2), np.float32), many)
with pytest.raises(TypeError, match="2 devices"):
    sf.Ragged(x, [4])
batch = sf.Ragged(np.zeros((4, 2), np.float32), [1, 3])
for function in (sf.reverse, sf.reduce_sum, sf.sort):
    with pytest.raises(sf.StructureError, match="2 devices"):
        function(jax.tree.map(lambda leaf: x, sf.to(batch, "jax")))
"""
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    "names", [("int32", "float32"), ("float16", "int32"), ("bfloat16", "int32"), ("uint8", "int8")]
)
def test_a_choice_promotes_as_in_jax(names):
    x, y = (sf.Ragged(jnp.array([1, 2, 3], name), [2, 1]) for name in names)
    for other in (y, y.data[0], 1.5, 2, True):
        wanted = jnp.where(x.data > 1, x.data, other.data if other is y else other)
        found = sf.where(x > 1, x, other).data
        assert found.dtype == wanted.dtype
        assert (found == wanted).all()
        assert jax.jit(lambda x, other: sf.where(x > 1, x, other))(x, other).data.dtype == wanted.dtype
