"""Layers of Thinc on these kernels beside Thinc's own: results, gradients, dimensions, configurations, errors."""

import numpy as np
import pytest

pytestmark = [pytest.mark.peers, pytest.mark.bridges]
api = pytest.importorskip("thinc.api")

from thinc.types import Padded, Pairs, Ragged  # noqa: E402

import seqformats as sf  # noqa: E402

OPS = api.NumpyOps()
LENGTHS = {"none": [], "one": [3], "several": [3, 1, 7, 2], "ties": [2, 3, 2, 3, 2], "empties": [0, 4, 0, 0, 2]}
every_length = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
every_kind = pytest.mark.parametrize("kind", ["list", "ragged", "padded"])
WRAPPERS = ["with_array", "with_array2d", "with_list", "with_padded", "with_ragged"]


def arrays(lengths, width=4):
    rng = np.random.default_rng(sum(lengths) + len(lengths))
    return [rng.random((length, width), dtype="f") for length in lengths]


def batch(xs, kind):
    """The arrays as one of Thinc's batches."""
    if kind == "list":
        return xs
    if kind == "padded":
        return OPS.list2padded(xs)
    return Ragged(OPS.flatten(xs), np.array([len(x) for x in xs], "i"))


def listed(y):
    """The sequences of a result."""
    return [np.asarray(x) for x in (y if isinstance(y, list) else sf.convert(y, sf.List).items)]


def same(mine, theirs, **close):
    assert type(mine) is type(theirs)
    if isinstance(mine, np.ndarray):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, **close)
        return
    if isinstance(mine, (Ragged, Padded)):
        assert mine.lengths.dtype == theirs.lengths.dtype == np.int32
        assert mine.lengths.flags.writeable
    if isinstance(mine, Padded):
        np.testing.assert_array_equal(mine.indices, theirs.indices)
        np.testing.assert_array_equal(mine.size_at_t, theirs.size_at_t)
    mine, theirs = listed(mine), listed(theirs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, **close)


def own(widths=0):
    """A layer for rows, lists, rectangles that leaves something to be confused: columns times their number."""

    def forward(model, X, is_train):
        def times(x, factor):
            if isinstance(x, list):
                return [times(part, factor) for part in x]
            if isinstance(x, Ragged):
                return Ragged(times(x.dataXd, factor), x.lengths)
            if isinstance(x, Padded):
                return Padded(times(x.data, factor), x.size_at_t, x.lengths, x.indices)
            return x * factor * np.arange(1, x.shape[-1] + 1, dtype="f")

        return times(X, 2), lambda dY: times(dY, 3)

    return api.Model("times", forward)


@every_length
@every_kind
@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_are_thincs(name, kind, lengths):
    if name == "with_array2d" and kind == "padded" and not lengths:
        pytest.skip("Thinc's own has no width there")
    mine, theirs = (getattr(module, name)(own()) for module in (sf.thinc, api))
    X = batch(arrays(lengths), kind)
    y, back = mine(X, True)
    z, there = theirs(X, True)
    same(y, z)
    same(back(z), there(z))


@every_length
@every_kind
def test_a_recurrent_layer(kind, lengths):
    if not sum(lengths):
        pytest.skip("Thinc's LSTM wants an item")
    X = batch(arrays(lengths), kind)
    models = []
    for module in (sf.thinc, api):
        api.fix_random_seed(0)
        models.append(module.with_padded(api.LSTM(3, 4)))
        models[-1].initialize()
    (y, back), (z, there) = (model(X, True) for model in models)
    same(y, z, rtol=1e-5, atol=1e-6)
    same(back(z), there(z), rtol=1e-4, atol=1e-5)
    for (name, a), (_, b) in zip(
        *[[(n, m.layers[0].get_grad(n)) for n in m.layers[0].grad_names] for m in models], strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5, err_msg=name)


@every_length
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_first", "reduce_last"])
def test_reductions_are_thincs(name, lengths):
    X = batch(arrays(lengths), "ragged")
    mine, theirs = getattr(sf.thinc, name)(), getattr(api, name)()
    if 0 in lengths and name not in ("reduce_sum", "reduce_mean"):
        with pytest.raises(ValueError, match="all sequence lengths must be > 0"):
            mine(X, True)
        return
    (y, back), (z, there) = mine(X, True), theirs(X, True)
    np.testing.assert_allclose(y, z, rtol=1e-6)
    assert y.dtype == z.dtype
    same(back(z), there(z), rtol=1e-6)
    for kind in ("list", "padded"):
        np.testing.assert_array_equal(mine.predict(batch(arrays(lengths), kind)), y)
    for wrong in (z[:-1] if lengths else np.zeros((1, 4), "f"), z.astype("d")):
        with pytest.raises(ValueError, match="gradient"):
            back(wrong)


@every_length
@pytest.mark.parametrize("size", [0, 1, 2])
def test_windows_are_thincs(size, lengths):
    X = batch(arrays(lengths), "ragged")
    mine, theirs = sf.thinc.expand_window(size), api.expand_window(size)
    (y, back), (z, there) = mine(X, True), theirs(X, True)
    same(y, z)
    same(back(z), there(z), rtol=1e-6)
    if lengths and X.data.size:
        (y, back), (z, there) = mine(X.data, True), theirs(X.data, True)
        np.testing.assert_array_equal(y, z)
        np.testing.assert_allclose(back(z), there(z), rtol=1e-6)


@every_length
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("list2array", "list"),
        ("list2ragged", "list"),
        ("list2padded", "list"),
        ("ragged2list", "ragged"),
        ("padded2list", "padded"),
    ],
)
def test_moves_are_thincs(name, kind, lengths):
    X = batch(arrays(lengths), kind)
    (y, back), (z, there) = (getattr(module, name)()(X, True) for module in (sf.thinc, api))
    if name == "list2padded":  # the order of equal lengths is another
        assert [x.tolist() for x in listed(y)] == [x.tolist() for x in listed(z)]
    else:
        same(y, z)
    same(back(y), there(z))


@every_length
@pytest.mark.parametrize("transform", [False, True])
def test_attention_is_thincs(transform, lengths):
    if not sum(lengths):
        pytest.skip("Thinc finds no width")
    X = batch([20 * x for x in arrays(lengths)], "ragged")
    models = []
    for module in (sf.thinc, api):
        api.fix_random_seed(0)
        name = "ParametricAttention" if module is sf.thinc else "ParametricAttention_v2"
        options = {"key_transform": api.Linear(4, 4)} if transform else {}
        models.append(getattr(module, name)(**options) if options or module is sf.thinc else api.ParametricAttention())
        models[-1].initialize(X)
    for model in models:
        model.set_param("Q", np.array([3.0, -2.0, 1.0, 2.0], "f"))
    (y, back), (z, there) = (model(X, True) for model in models)
    same(y, z, rtol=1e-5, atol=1e-6)
    same(back(y), there(y), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(models[0].get_grad("Q"), models[1].get_grad("Q"), rtol=1e-4, atol=1e-4)


def test_the_clip():
    X = Ragged(np.array([[30.0], [60.0]], "f"), np.array([2], "i"))
    for clip, weights in ((20.0, [0.5, 0.5]), (None, [0.0, 1.0])):
        model = sf.thinc.ParametricAttention(1, clip=clip)
        model.set_param("Q", np.ones(1, "f"))
        np.testing.assert_allclose(model.predict(X).data / X.data, np.array(weights, "f")[:, None], atol=1e-6)
        soft = sf.thinc.softmax_sequences(clip=clip)
        y, back = soft(X, True)
        np.testing.assert_allclose(y.data[:, 0], weights, atol=1e-6)
        dY = Ragged(np.array([[1.0], [0.0]], "f"), X.lengths)
        np.testing.assert_allclose(back(dY).data, OPS.backprop_softmax_sequences(dY.data, y.data, X.lengths), atol=1e-6)
    for wrong in (0, -1.0, "20", True):
        with pytest.raises(sf.ConversionError, match="clip must be"):
            sf.thinc.ParametricAttention(1, clip=wrong)


@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.List, sf.LoD])
@pytest.mark.parametrize("name", [*WRAPPERS, "with_masked", "with_packed", "expand_window", "softmax_sequences"])
def test_encodings_come_back_as_they_are(name, kind):
    xs = arrays([2, 3, 0, 3])
    X = sf.convert(xs, kind)
    make = getattr(sf.thinc, name)
    model = make(api.noop()) if name.startswith("with") else make()
    y, back = model(X, True)
    assert type(y) is kind
    assert sf.lengths(y).tolist() == [2, 3, 0, 3]
    dx = back(y)
    assert type(dx) is kind
    if name.startswith("with"):
        assert sf.equal(y, X)
        assert sf.equal(dx, X)


@pytest.mark.parametrize("side", ["left", "right"])
def test_masked_and_packed(side):
    xs = arrays([2, 5, 1])
    seen = []

    def forward(model, x, is_train):
        seen.append(x)
        return x.data * 2, lambda dy: dy.data * 3

    inner = api.Model("inner", forward)
    masked = sf.thinc.with_masked(inner, side=side, multiple_of=4)
    y, back = masked(xs, True)
    assert (type(seen[-1]), seen[-1].side, seen[-1].data.shape) == (sf.Masked, side, (3, 8, 4))
    packed = sf.thinc.with_packed(inner)
    z, again = packed(batch(xs, "ragged"), True)
    assert type(seen[-1]) is sf.Packed
    for x, a, b, c in zip(xs, y, listed(z), back(xs), strict=True):
        np.testing.assert_array_equal(a, 2 * x)
        np.testing.assert_array_equal(b, 2 * x)
        np.testing.assert_array_equal(c, 3 * x)
    assert isinstance(again(z), Ragged)
    with pytest.raises(sf.ConversionError, match="side"):
        sf.thinc.with_masked(inner, side="both")


def test_columns_keep_their_order():
    """Thinc's order of equal lengths is another; a layer in between sees what its neighbours see."""
    X = OPS.list2padded(arrays([2, 2, 2, 2]))
    assert X.indices.tolist() == [3, 2, 1, 0]
    for name in [*WRAPPERS, "with_masked", "with_packed", "expand_window"]:
        model = getattr(sf.thinc, name)(*[api.noop()] * name.startswith("with"))
        y, back = model(X, True)
        for z in (y, back(y)):
            assert z.indices.tolist() == [3, 2, 1, 0]
        if name.startswith("with"):
            np.testing.assert_array_equal(y.data, X.data)


def test_tuples_and_rectangles():
    xs = arrays([3, 1])
    p, r = OPS.list2padded(xs), batch(xs, "ragged")
    y, back = sf.thinc.with_padded(own())((p.data, p.size_at_t, p.lengths, p.indices), True)
    assert isinstance(y, tuple)
    np.testing.assert_allclose(y[0], 2 * p.data * np.arange(1, 5), rtol=1e-6)
    assert [len(part) for part in back(y)] == [3, 3, 2, 2]
    y, back = sf.thinc.with_padded(own())(p.data, True)
    np.testing.assert_allclose(back(p.data), 3 * p.data * np.arange(1, 5), rtol=1e-6)
    y, back = sf.thinc.with_ragged(own())((r.data, r.lengths), True)
    np.testing.assert_allclose(y[0], 2 * r.data * np.arange(1, 5), rtol=1e-6)
    assert back(y)[1].tolist() == [3, 1]


@pytest.mark.parametrize("lengths", [[2, 3], [0, 2, 0], [0, 0]])
@pytest.mark.parametrize("pad", [1, 2])
def test_rows_between_sequences(pad, lengths):
    xs = arrays(lengths)

    def shifted(model, X, is_train):
        Y = np.zeros_like(X)
        Y[1:] = X[:-1]
        return Y, lambda dY: np.concatenate([dY[1:], np.zeros_like(dY[:1])])

    (y, back), (z, there) = (m.with_array(api.Model("shift", shifted), pad=pad)(xs, True) for m in (sf.thinc, api))
    if sum(lengths):
        same(y, z)
        same(back(xs), there(xs))
        apart = [np.repeat(x, 2, 1)[:, ::2] for x in xs]  # not contiguous
        same(sf.thinc.with_array(api.Model("shift", shifted), pad=pad)(apart, True)[0], z)
    assert [len(x) for x in y] == lengths


def test_items_with_more_axes():
    xs = [np.arange(n * 6, dtype="f").reshape(n, 2, 3) for n in (2, 0, 3)]
    for name in [*WRAPPERS, "with_masked", "with_packed"]:
        y, back = getattr(sf.thinc, name)(api.noop())(xs, True)
        for a, b, c in zip(y, back(y), xs, strict=True):
            np.testing.assert_array_equal(a.reshape(c.shape), c)
            np.testing.assert_array_equal(b.reshape(c.shape), c)


def test_nested_lists():
    def forward(model, X, is_train):
        assert isinstance(X, list)
        return [x + 1 for x in X], lambda dY: [dy + 2 for dy in dY]

    y, back = sf.thinc.with_flatten(api.Model("one", forward))([[1, 2, 3], [4], [], [5]], True)
    assert y == [[2, 3, 4], [5], [], [6]]
    assert back(y) == [[4, 5, 6], [7], [], [8]]
    for wrong in ([[1]], [[1, 2], [3, 4], [], [5]]):
        with pytest.raises(sf.StructureError):
            back(wrong)

    def vectors(model, X, is_train):
        return np.array([[x, x] for x in X], "f"), lambda dY: dY[:, 0] * 2

    model = sf.thinc.with_flatten(api.Model("vectors", vectors))
    y, back = model([[1, 2], [], [3]], True)
    assert [x.shape for x in y] == [(2, 2), (0, 2), (1, 2)]
    assert [x.tolist() for x in back(y)] == [[2.0, 4.0], [], [6.0]]


# --- dimensions, configurations, files -------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("name", ["with_array", "with_array2d", "with_padded", "with_list", "with_ragged"])
def test_dimensions_are_inferred(name, kind):
    inner = {"with_padded": lambda: api.with_array(api.noop()), "with_list": lambda: api.with_array(api.Linear())}
    layer = inner.get(name, api.Linear if name != "with_ragged" else lambda: api.with_array(api.Linear()))()
    X, Y = batch(arrays([2, 3], 5), kind), batch(arrays([2, 3], 7), kind)
    model = getattr(sf.thinc, name)(layer)
    model.initialize(X, Y)
    if model.dim_names:
        assert (model.get_dim("nI"), model.get_dim("nO")) == (5, 7)
    known = getattr(sf.thinc, name)(api.Linear(nO=7, nI=5))
    assert (known.get_dim("nI"), known.get_dim("nO")) == (5, 7)


CONFIG = """
[model]
@layers = "chain.v1"

[model.*.list]
@layers = "seqformats.list2ragged.v1"

[model.*.rows]
@layers = "seqformats.with_array.v1"

[model.*.rows.layer]
@layers = "Linear.v1"
nO = 4

[model.*.steps]
@layers = "seqformats.with_padded.v1"

[model.*.steps.layer]
@layers = "LSTM.v1"
nO = 4
nI = 4

[model.*.window]
@layers = "seqformats.expand_window.v1"
window_size = 2

[model.*.attention]
@layers = "seqformats.ParametricAttention.v1"
clip = 5.0

[model.*.mean]
@layers = "seqformats.reduce_mean.v1"
"""


def test_configurations_and_files(tmp_path):
    X = arrays([2, 3, 1], 5)
    first, second = (api.registry.resolve(api.Config().from_str(CONFIG))["model"] for _ in range(2))
    Y = np.zeros((3, 20), "f")
    first.initialize(X, Y)
    second.initialize(X, Y)
    assert not np.allclose(first.predict(X), second.predict(X))
    second.from_bytes(first.to_bytes())
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    third = api.registry.resolve(api.Config().from_str(api.Config().from_str(CONFIG).to_str()))["model"]
    first.to_disk(tmp_path / "model")
    third.initialize(X, Y)
    third.from_disk(tmp_path / "model")
    np.testing.assert_array_equal(first.predict(X), third.predict(X))
    np.testing.assert_array_equal(first.copy().predict(X), third.predict(X))


@pytest.mark.parametrize("name", [name for name in sf.thinc.__all__ if name not in ("use", "SequenceOps")])
def test_every_layer_has_a_name(name):
    assert api.registry.layers.get(f"seqformats.{name}.v1") is getattr(sf.thinc, name)


# --- what does not fit -----------------------------------------------------------------------------------------------


def test_wrong_batches():
    for name in ["with_padded", "with_list", "reduce_sum", "expand_window", "list2padded"]:
        model = getattr(sf.thinc, name)(*[api.noop()] * name.startswith("with"))
        for wrong in (object(), 3, None, "text"):
            with pytest.raises(TypeError):
                model(wrong, True)
        with pytest.raises(ValueError):
            model(Ragged(np.zeros((3, 2), "f"), np.array([2, 2], "i")), True)


def test_wrong_gradients_and_results():
    X = arrays([2, 3])
    for name in WRAPPERS:
        _, back = getattr(sf.thinc, name)(api.noop())(batch(X, "padded" if name != "with_padded" else "ragged"), True)
        with pytest.raises(ValueError):
            back(arrays([2, 2]))
    fewer = api.Model("fewer", lambda model, X, is_train: (X[:-1], lambda dY: dY))
    for name in ("with_array", "with_list"):
        with pytest.raises(ValueError):
            getattr(sf.thinc, name)(fewer)(batch(X, "ragged"), True)


def test_other_lengths():
    """A layer may give other sequences than it saw, but as many."""

    def forward(model, X, is_train):
        return [x[:1] for x in X], lambda dY: [np.repeat(dy, 3, 0) for dy in dY]

    for kind in ("ragged", "padded"):
        y, back = sf.thinc.with_list(api.Model("first", forward))(batch(arrays([3, 3]), kind), True)
        assert [len(x) for x in listed(y)] == [1, 1]
        assert [len(x) for x in listed(back(y))] == [3, 3]


# --- types -----------------------------------------------------------------------------------------------------------


@every_length
@every_kind
@pytest.mark.parametrize("to", [Ragged, Padded, sf.Ragged, sf.Masked, sf.Padded, list])
def test_types_convert(to, kind, lengths):
    xs = arrays(lengths)
    y = sf.convert(batch(xs, kind), to)
    assert isinstance(y, to)
    back = sf.convert(y, sf.List)
    assert [x.tolist() for x in back.items] == [x.tolist() for x in xs]
    if to in (Ragged, Padded):
        numbers = [y.lengths] if to is Ragged else [y.lengths, y.indices, y.size_at_t]
        assert all(n.dtype == np.int32 and n.flags.writeable for n in numbers)
        if to is Ragged and lengths:
            np.testing.assert_allclose(OPS.reduce_sum(y.data, y.lengths), sf.reduce_sum(y), rtol=1e-6)


def test_types_everywhere():
    xs = arrays([3, 1, 2])
    r, p = batch(xs, "ragged"), batch(xs, "padded")
    assert isinstance(sf.softmax(r), Ragged)
    assert isinstance(sf.reverse(p), Padded)
    y, pull = sf.vjp(sf.reduce_max, p)
    assert isinstance(pull(y), Padded)
    double = sf.with_masked(lambda m: m.data * 2)
    np.testing.assert_array_equal(double(r).data, 2 * r.data)
    twice = sf.with_packed(lambda x: (x.data * 2, lambda dy: dy * 3), backprop=True)
    z, back = twice(p)
    assert (type(z), type(back(z))) == (Padded, Padded)
    np.testing.assert_array_equal(back(z).data, 6 * p.data)
    assert sf.convert(r, Padded, multiple_of=4).data.shape == (4, 3, 4)
    with pytest.raises(TypeError, match="no option"):
        sf.convert(p, Ragged, width=3)


def test_the_memory_is_shared():
    r = batch(arrays([3, 1]), "ragged")
    assert np.shares_memory(sf.convert(r, sf.Ragged).data, r.data)
    assert np.shares_memory(sf.convert(sf.convert(r, sf.Ragged), Ragged).data, r.data)
    y = sf.convert(r, sf.Ragged)
    z = sf.convert(y, Ragged)
    z.lengths[0] = 7
    assert y.lengths.tolist() == [3, 1]
    assert r.lengths.tolist() == [3, 1]


def test_lengths_that_are_written_between_two_calls():
    """What is known of lengths is known by what they hold."""
    data, lengths = np.arange(8, dtype="f").reshape(4, 2), np.array([1, 3], "i")
    model = sf.thinc.reduce_sum()
    np.testing.assert_array_equal(model.predict(Ragged(data, lengths))[0], data[0])
    lengths[:] = [2, 2]
    np.testing.assert_array_equal(model.predict(Ragged(data, lengths))[0], data[:2].sum(0))
    lengths[:] = [2, -2]
    with pytest.raises(ValueError, match=">= 0"):
        model.predict(Ragged(data, lengths))


def test_pairs():
    """A tree of two columns."""
    pairs = Pairs(batch(arrays([1, 2]), "ragged"), [np.zeros(3), np.ones(1)])
    y = sf.convert(pairs, sf.Masked)
    assert isinstance(y, Pairs)
    assert (y.one.data.shape, y.two.data.shape) == ((2, 2, 4), (2, 3))
    z = sf.with_padded(lambda both: both)(pairs)
    assert isinstance(z, Pairs)
    assert isinstance(z.one, Ragged)
    assert isinstance(sf.select(pairs, [1]).one, Ragged)


def test_rows_without_items_and_bare_lists():
    r = Ragged(np.zeros((5, 0), "f"), np.array([2, 3], "i"))
    x = sf.convert(r, sf.Ragged)
    assert (x.rows, x.item_shape, x.dtype) == (5, (0,), np.float32)
    for to, shape in ((Ragged, (0, 0)), (Padded, (0, 0, 0))):
        y = sf.convert([], to)
        assert (y.data.shape, y.data.dtype) == (shape, np.float32)
        assert sf.convert(y, list) == []
    for name in WRAPPERS:
        y, back = getattr(sf.thinc, name)(api.noop())([], True)
        assert (y, back([])) == ([], [])


def test_errors_name_the_module():
    with pytest.raises(TypeError, match=r"thinc\.types\.Ragged"):
        sf.convert(batch(arrays([1]), "ragged"), Ragged, width=3)
    assert "thinc.types.Padded -> seqformats.Padded" in sf.explain(Padded, sf.Padded)
    with pytest.raises(sf.StructureError, match="lengths add up to 4, but data has 3 rows"):
        sf.convert(Ragged(np.zeros((3, 2), "f"), np.array([2, 2], "i")), sf.Padded)
    with pytest.raises(sf.StructureError, match="must fall"):
        sf.convert(Padded(np.zeros((2, 2, 1)), np.array([2, 1]), np.array([1, 2]), np.array([0, 1])), sf.List)
