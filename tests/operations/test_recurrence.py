"""Recurrences along sequences, moving averages, standardized sequences, and their gradients."""

import numpy as np
import oracle
import pytest
import rl_oracle
import strategies
from checks import rows, with_rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.operations import scan

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
KINDS = [np.dtype(code) for code in ("f2", "f4", "f8", ">f8", "?", "i2", "i8", "u1")]
LENGTHS = [3, 0, 1, 5]
WHERE = np.array([True, False, True, True, True, False, True, True, False])


def numbers(truth):
    """The items as float64, or None where some are too large for a test of nearness."""
    data = truth.data().astype("f8")
    return data if np.isfinite(data).all() and np.abs(data).max(initial=0) < 1e4 else None


def by_column(truth, function, *more):
    """A function of a column of a sequence, its rows and what belongs to them, for all columns and sequences."""
    data, begin, parts = truth.data().astype("f8"), 0, []
    for sequence in truth.sequences():
        part = slice(begin, begin + len(sequence))
        own = data[part].reshape(len(sequence), int(np.prod(truth.item_shape, dtype=int)))
        columns = [function(column, *[m[part] for m in more], k) for k, column in enumerate(own.T)]
        parts.append(np.array(columns).reshape(own.shape[::-1]).T)
        begin += len(sequence)
    return np.concatenate([*parts, np.zeros((0, int(np.prod(truth.item_shape, dtype=int))))])


def near(found, wanted, truth):
    loose = {"f2": 1e-2, "f4": 1e-4}.get(truth.dtype.str[1:], 1e-9)
    if not isinstance(found, list):
        floats = truth.dtype.kind == "f"
        assert found._dtype == (truth.dtype.newbyteorder("=") if floats else np.dtype("f8"))
        got = rows(found).astype("f8").reshape(wanted.shape)
        np.testing.assert_allclose(got, wanted, rtol=loose, atol=loose * max(1, np.abs(wanted).max(initial=0)))


@every_format
@given(data=st.data())
def test_against_plain_python(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(KINDS), shapes=[(), (2,), (5,), (0,)]))
    if numbers(truth) is None:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    lengths = [len(sequence) for sequence in truth.sequences()]
    total = sum(lengths)
    where = data.draw(st.sampled_from([None, rng.random(total) < 0.6]))
    options = {"reverse": data.draw(st.booleans()), "exclusive": data.draw(st.booleans())}
    decay = rng.uniform(-1, 1, total)
    by = data.draw(st.sampled_from([0.5, sf.convert(sf.Ragged(decay, lengths), sf.Masked)]))
    beside = by if isinstance(by, float) else arrays.beside(x, by)
    factors = np.full(total, 0.5) if isinstance(by, float) else decay
    counts = np.ones(total, bool) if where is None else where
    found = arrays.on(lambda x: sf.recurrence(x, beside, where=where, **options))(x)
    near(
        found,
        by_column(truth, lambda c, d, w, _: rl_oracle.recurrence(c, d, 0.0, w, **options)[0], factors, counts),
        truth,
    )
    adjust = data.draw(st.booleans())
    found = arrays.on(lambda x: sf.ema(x, 0.8, adjust=adjust, where=where))(x)
    near(found, by_column(truth, lambda c, w, _: rl_oracle.ema(c, 0.8, adjust, w), counts), truth)


@every_format
@given(data=st.data())
def test_standardize_against_plain_python(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(KINDS[1:3]), shapes=[(), (2,), (0,)]))
    if numbers(truth) is None:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    where = data.draw(st.sampled_from([None, rng.random(truth.rows()) < 0.6]))
    center, scale = data.draw(st.sampled_from(["mean", "others"])), data.draw(st.sampled_from(["std", None]))
    level = data.draw(st.sampled_from([None, *range(-truth.levels, truth.levels)]))
    found = arrays.on(lambda x: sf.standardize(x, level=level, where=where, center=center, scale=scale, eps=0.1))(x)
    counts = np.ones(truth.rows(), bool) if where is None else where
    own = (
        truth.at(level)
        if level is not None
        else oracle.Truth([truth.at(-1).sequences(0)], truth.dtype, truth.item_shape)
    )
    if level is None:
        own = oracle.Truth([[i for s in truth.sequences() for i in s]], truth.dtype, truth.item_shape)
    near(found, by_column(own, lambda c, w, _: rl_oracle.standardized(c, w, center, scale, 1, 0.1), counts), truth)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.usefixtures("threads_for_all")
def test_the_bits_of_the_plain_loop_alone_and_in_a_batch(dtype):
    """Up to a chunk of rows; in every encoding, with neighbours of NaN, and on several threads."""
    rng = np.random.default_rng(0)
    lengths = [1024, 0, 1, 700, 33]
    total = sum(lengths)
    data, by = rng.standard_normal(total).astype(dtype), rng.uniform(0.5, 1.01, total).astype(dtype)
    where = rng.random(total) < 0.7
    x = sf.Ragged(data, lengths)
    wanted = []
    for i, begin in enumerate(x.offsets[:-1]):
        part = slice(begin, begin + lengths[i])
        wanted += rl_oracle.recurrence(data[part], by[part], 0.0, where[part])[0]
    wanted = np.array(wanted).astype(dtype)
    sf.set_num_threads(3)
    for kind in oracle.ENCODINGS:
        y = sf.recurrence(sf.convert(x, kind), by, where=where)
        oracle.assert_bits(rows(y), wanted)
    wide = sf.Ragged(np.stack([data, np.full_like(data, np.nan), data, data, data], 1), lengths)
    oracle.assert_bits(sf.recurrence(wide, by, where=where).data[:, [0, 2, 4]], np.stack([wanted] * 3, 1))
    for i in range(len(lengths)):
        part = slice(x.offsets[i], x.offsets[i + 1])
        alone = sf.recurrence(x[[i]], by[part], where=where[part])
        oracle.assert_bits(alone.data, wanted[part])


@pytest.mark.parametrize("back", [False, True])
def test_long_sequences_go_by_chunks(arrays, monkeypatch, back):
    """The states between chunks are those of their maps, which a thread each can find; and a decay of 2 is not NaN."""
    monkeypatch.setattr(scan, "ROWS_PER_SCAN", 4)
    rng = np.random.default_rng(1)
    data, by, where = rng.standard_normal(19), rng.uniform(0.5, 1.5, 19), rng.random(19) < 0.8
    state, out = 0.25, np.zeros(19)
    chunks = [range(begin, min(begin + 4, 19)) for begin in range(0, 19, 4)]
    for chunk in chunks[::-1] if back else chunks:
        places = list(chunk)[::-1] if back else list(chunk)
        y, alone, product = state, 0.0, 1.0
        for t in places:
            if where[t]:
                y, alone, product = by[t] * y + data[t], by[t] * alone + data[t], product * by[t]
            out[t] = y
        state = product * state + alone
    x = sf.Ragged(data, [19])

    def run(x):
        return sf.recurrence(x, by, initial=0.25, where=where, reverse=back)

    oracle.assert_bits(arrays.on(run)(x).data, out)
    zeros = sf.recurrence(sf.Ragged(np.zeros(2000), [2000]), 2.0)
    assert not zeros.data.any()
    wide = sf.Ragged(np.stack([data] * 21, 1), [19])
    oracle.assert_bits(arrays.on(run)(wide).data, np.stack([out] * 21, 1))


@pytest.mark.parametrize("item", [(), (21,)])
@pytest.mark.parametrize("adjust", [False, True])
@pytest.mark.parametrize("where", [None, np.arange(19) % 3 > 0])
def test_moving_averages_and_their_gradients_by_chunks(arrays, monkeypatch, item, adjust, where):
    """The average is linear, so ``<ema(x), dy>`` is ``<x, pullback(dy)>``."""
    monkeypatch.setattr(scan, "ROWS_PER_SCAN", 4)
    rng = np.random.default_rng(4)
    x, dy = [sf.convert(sf.Ragged(rng.standard_normal((19, *item)), [0, 17, 2]), sf.Padded) for _ in range(2)]
    y, pullback = sf.vjp(sf.ema, arrays.up(x), 0.9, adjust=adjust, where=where)
    y, dx = rows(arrays.down(y)), rows(arrays.down(pullback(arrays.up(dy))))
    counts = np.ones(19, bool) if where is None else where
    for part in (slice(0, 17), slice(17, 19)):
        for k in np.ndindex(item):
            own = rl_oracle.ema(rows(x)[(part, *k)], 0.9, adjust, counts[part])
            np.testing.assert_allclose(y[(part, *k)], own, rtol=1e-12)
    assert np.isclose((y * rows(dy)).sum(), (rows(x) * dx).sum(), rtol=1e-12)


def test_a_stream_goes_on_with_the_bits_of_the_whole():
    rng = np.random.default_rng(2)
    x = sf.Ragged(rng.standard_normal(900).astype("f4"), [500, 0, 400])
    whole, last = sf.recurrence(x, 0.99, final=True)
    first, second = sf.truncate(x, 100), sf.cut(x, 100)
    one, state = sf.recurrence(first, 0.99, final=True)
    two, end = sf.recurrence(second, 0.99, initial=state, final=True)
    assert state.dtype == np.float64
    oracle.assert_bits(sf.concat([one, two]).data, whole.data)
    oracle.assert_bits(end, last)
    np.testing.assert_array_equal(last[1], 0)
    reverse, _ = sf.recurrence(x[[0]], 0.5, reverse=True, initial=3, final=True)
    assert reverse.data[-1] == np.float32(0.5 * 3 + float(x.data[499]))


@every_encoding
@pytest.mark.parametrize("item", [(), (2,)])
@pytest.mark.parametrize("shape", [(), (9,), "full", "column"], ids=str)
def test_gradients_against_finite_differences(arrays, monkeypatch, kind, item, shape):
    monkeypatch.setattr(scan, "ROWS_PER_SCAN", 2)
    rng = np.random.default_rng(3)
    shape = {"full": (9, *item), "column": (1, *item)}.get(shape, shape) if isinstance(shape, str) else shape
    x = sf.convert(sf.Ragged(rng.standard_normal((9, *item)), LENGTHS), kind)
    decay, start = rng.uniform(0.3, 1, shape), rng.standard_normal((4, *item))
    for options in (
        {"where": WHERE},
        {"reverse": True, "where": WHERE},
        {"exclusive": True},
        {"exclusive": True, "reverse": True},
    ):

        def run(x, decay, start, options=options):
            y, final = sf.recurrence(x, decay, initial=start, final=True, **options)
            return np.concatenate([rows(y).reshape(-1), final.reshape(-1)])

        up = arrays.up
        (_, final), pullback = sf.vjp(sf.recurrence, up(x), up(decay), initial=up(start), final=True, **options)
        dy, dfinal = with_rows(x, rng.standard_normal(rows(x).shape)), rng.standard_normal(final.shape)
        found = [arrays.down(d) for d in pullback((up(dy), up(dfinal)))]
        slopes = np.concatenate([rows(dy).reshape(-1), dfinal.reshape(-1)])
        for k, d in enumerate(found):
            given = [rows(x), decay, start]
            way = rng.standard_normal(given[k].shape)
            ends = [
                run(
                    *[
                        with_rows(x, g) if j == 0 else g
                        for j, g in enumerate([*given[:k], given[k] + e * way, *given[k + 1 :]])
                    ]
                )
                for e in (1e-6, -1e-6)
            ]
            own = rows(d) if k == 0 else d
            assert own.shape == given[k].shape
            assert np.isclose((own * way).sum(), ((ends[0] - ends[1]) * slopes).sum() / 2e-6, rtol=1e-5, atol=1e-6)


def test_gradients_of_numbers_are_none_and_batches_come_back_as_given():
    x = sf.Ragged(np.arange(3.0), [2, 1])
    assert sf.vjp(sf.recurrence, x, 0.5)[1](np.ones(3))[1:] == (None, None)
    _, ddecay, _ = sf.vjp(sf.recurrence, x, sf.convert(sf.Ragged(np.ones(3, "f4"), [2, 1]), sf.Padded))[1](np.ones(3))
    assert type(ddecay) is sf.Padded
    assert ddecay.data.dtype == np.float32
    assert isinstance(sf.vjp(sf.recurrence, [[1.0], [2.0, 3.0]], [[1.0], [0.5, 0.5]])[1]([[1.0], [1.0, 1.0]])[1], list)


def test_what_is_not_a_step_may_be_anything():
    x = sf.Ragged(np.array([1.0, np.nan, 2.0]), [3])
    by = np.array([0.5, np.inf, 0.5])
    where = np.array([True, False, True])
    assert sf.recurrence(x, by, where=where).data.tolist() == [1, 1, 2.5]
    dx, ddecay, _ = sf.vjp(sf.recurrence, x, by, where=where)[1](np.ones(3))
    assert dx.data.tolist() == [2.5, 0, 1]
    assert ddecay.tolist() == [0, 0, 1]
    assert sf.ema(x, 0.5, where=where).data.tolist() == [1, 1, 1.5]
    assert sf.standardize(x, where=where, scale=None).data.tolist() == [-0.5, 0, 0.5]
    assert np.isnan(sf.recurrence(x, np.nan).data).all()


X = sf.Ragged(np.arange(3.0), [2, 1])


class Unwilling:
    """A number that says something of its own."""

    def __float__(self):
        raise RuntimeError("I would rather not")


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: sf.recurrence(X, np.ones(2)),
            sf.StructureError,
            r"decay has shape \(2,\), but must be a number, \(3,\)",
        ),
        (lambda: sf.recurrence(X, sf.Ragged(np.ones(3), [1, 2])), sf.StructureError, "decay has sequences of lengths"),
        (lambda: sf.recurrence(X, sf.Ragged(np.ones(3), [3])), sf.StructureError, "decay has 1 sequences, but x has 2"),
        (lambda: sf.recurrence(X, "fast"), TypeError, "decay must be a number, an array or a batch, not 'fast'"),
        (lambda: sf.recurrence(X, 0.5, initial=np.ones(3)), sf.StructureError, r"initial has shape \(3,\)"),
        (lambda: sf.recurrence(X, 0.5, where=np.ones(3)), TypeError, "where must hold bools, not float64; give x != 0"),
        (lambda: sf.recurrence(X, 0.5, where=np.ones(2, bool)), sf.StructureError, r"shape \(3,\), not \(2,\)"),
        (lambda: sf.recurrence(X, 0.5, where=[[True], [True, False]]), sf.StructureError, "where has sequences of"),
        (lambda: sf.recurrence(X, 0.5, reverse=np.ones(2)), TypeError, "reverse must be True or False"),
        (lambda: sf.recurrence(sf.Ragged(np.ones(3) * 1j, [3]), 0.5), TypeError, "takes no items of dtype complex128"),
        (lambda: sf.vjp(sf.recurrence, sf.Ragged(np.arange(3), [3]), 0.5), TypeError, "has no gradient"),
        (lambda: sf.ema(X, 1.5), sf.ConversionError, "decay must be from 0 to 1, not 1.5"),
        (lambda: sf.ema(X, 1j), TypeError, "decay must be a number, not 1j"),
        (lambda: sf.ema(X, np.array(1j)), TypeError, r"decay must be a number, not array\(0.\+1.j\)"),
        (lambda: sf.ema(X, Unwilling()), sf.ConversionError, "decay must be a number, not .*I would rather not"),
        (lambda: sf.ema(X, np.nan), sf.ConversionError, "decay must be from 0 to 1, not nan"),
        (lambda: sf.standardize(X, center="median"), sf.ConversionError, "center must be 'mean' or 'others'"),
        (lambda: sf.standardize(X, scale="range"), sf.ConversionError, "scale must be 'std' or None"),
        (lambda: sf.standardize(X, ddof=-1), sf.ConversionError, "ddof must not be negative"),
        (lambda: sf.standardize(X, level=1), IndexError, "there is no level 1"),
    ],
)
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_equal_items_are_exactly_zero():
    x = sf.Ragged(np.full(7, 0.1, "f4"), [5, 1, 0, 1])
    for options in ({}, {"center": "others"}, {"scale": None}, {"level": None}, {"eps": 0, "scale": None}):
        assert not sf.standardize(x, **options).data.any()


@pytest.mark.parametrize("options", [{"eps": 0}, {"eps": 0, "ddof": 0}, {"eps": 0, "center": "others"}], ids=str)
def test_equal_items_without_eps_are_zero_and_have_no_gradient(arrays, options):
    x = sf.Ragged(np.array([0.1, 0.1, 0.1, 7, 2, 4]), [3, 1, 2])
    y, pullback = sf.vjp(sf.standardize, arrays.up(x), **options)
    found = rows(arrays.down(y))
    assert not found[:4].any()
    assert found[4:].all()
    assert not rows(arrays.down(pullback(arrays.up(with_rows(x, np.arange(6.0))))))[:4].any()
    assert not sf.rl.group_advantages(np.full(6, 0.1), 3, **options).any()
    assert not sf.rl.whiten(sf.Ragged(np.full(3, 0.1), [1, 2]), eps=0).data.any()
    assert np.isnan(sf.standardize(sf.Ragged(np.array([0.1, np.nan]), [2]), **options).data).all()
