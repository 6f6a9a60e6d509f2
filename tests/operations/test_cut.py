"""Slices as Python has them, truncated sequences and pairs, and shifts, against plain lists and real tokenizers."""

import itertools

import cut_oracle
import numpy as np
import oracle
import pytest
import strategies
from checks import assert_padding_is_zero, assert_result, assert_slopes, mapped, noise, rows
from conftest import INTERPRETED
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
DOUBLE = [np.dtype("f8")]
FORMATS = st.sampled_from(oracle.FORMATS)
FAR = [2**63 - 1, -(2**63), 2**70, -(2**70)]

# ------------------------------------------------------------------------------------------------ arguments


@st.composite
def numbers(draw, n, values, wide=()):
    """One number for all of n sequences, or one for each, in one of the kinds that are taken; and a list of them."""
    if draw(st.booleans()):
        one = draw(st.one_of(values, st.sampled_from(wide)) if wide else values)
        wrap = draw(st.sampled_from([int, np.int64])) if abs(one) < 2**63 else int
        return wrap(one), [one] * n
    found = draw(st.lists(values, min_size=n, max_size=n))
    wrap = draw(st.sampled_from([list, tuple, np.array, lambda values: np.array(values, "i4")[:, None]]))
    return wrap(found) if n else np.zeros(0, int), found


@st.composite
def bounds(draw, n):
    """A start or a stop."""
    if draw(st.integers(0, 3)) == 0:
        return None, [None] * n
    return draw(numbers(n, st.integers(-6, 6), FAR))


def steps():
    return st.integers(-4, 4).filter(bool)


def count_of(truth):
    return len(truth.sequences())


# ------------------------------------------------------------------------------------------------ as Python


@every_format
@given(data=st.data())
def test_cut(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    n = count_of(truth)
    (start, starts), (stop, stops) = data.draw(bounds(n)), data.draw(bounds(n))
    wanted = mapped(truth, lambda items, i: cut_oracle.cut(items, starts[i], stops[i]))
    assert_result(arrays.on(sf.cut)(x, start, stop), x, wanted)


@every_format
@given(data=st.data())
def test_cut_by_steps(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    n = count_of(truth)
    (start, starts), (stop, stops) = data.draw(bounds(n)), data.draw(bounds(n))
    step, each = data.draw(numbers(n, steps(), [*FAR, 2**62]))
    wanted = mapped(truth, lambda items, i: cut_oracle.cut(items, starts[i], stops[i], each[i]))
    assert_result(arrays.on(sf.cut)(x, start, stop, step), x, wanted)


@pytest.mark.passes("compiled", reason="a table over every small slice")
def test_every_small_slice():
    ends = [None, *range(-5, 6)]
    x = sf.Ragged(np.arange(10), [0, 1, 2, 3, 4])
    items = [item.tolist() for item in sf.convert(x, sf.List).items]
    for start, stop, step in itertools.product(ends, ends, [-3, -2, -1, 1, 2, 3]):
        found = sf.convert(sf.cut(x, start, stop, step), list)
        assert found == [item[start:stop:step] for item in items], (start, stop, step)


def test_a_cut_that_cuts_nothing():
    for kind in oracle.ENCODINGS:
        x = oracle.build(kind, strategies.truth_from([3, 0, 2], "f4", (2,)))
        for same in (sf.cut(x), sf.cut(x, 0, 9), sf.cut(x, -3), sf.truncate(x, 3, "middle"), sf.truncate(x, [3, 0, 2])):
            assert same is x
    truth = strategies.truth_from([3, 2], "f8")
    assert oracle.shares(sf.cut(oracle.build(sf.List, truth), 1), oracle.build(sf.List, truth)) is False
    x = oracle.build(sf.List, truth)
    assert oracle.shares(sf.cut(x, 1), x)


def test_slice_names_cut():
    with pytest.raises(sf.StructureError, match=r"sequence 1 has 2 .*sf\.cut\(x, start, stop\)"):
        sf.slice(sf.Ragged(np.arange(5), [3, 2]), 0, 3)


# ------------------------------------------------------------------------------------------------ to a length


@every_format
@pytest.mark.parametrize("side", ["right", "left", "middle"])
@given(data=st.data())
def test_truncate(arrays, kind, side, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    most, each = data.draw(numbers(count_of(truth), st.integers(0, 6), [2**63 - 1]))
    wanted = mapped(truth, lambda items, i: cut_oracle.truncate(items, each[i], side))
    assert_result(arrays.on(sf.truncate)(x, most, side), x, wanted)


STRATEGIES = st.sampled_from(["longest_first", "only_first", "only_second"])


@st.composite
def pairs(draw, kinds=None):
    """Two encodings of as many sequences, with their truths."""
    n = draw(st.integers(0, 4))
    found = []
    for _ in range(2):
        lengths = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
        dtype = draw(strategies.dtypes() if kinds is None else st.sampled_from(kinds))
        truth = strategies.truth_from(lengths, dtype, draw(strategies.item_shapes()))
        found += [truth, oracle.build(draw(st.sampled_from(oracle.ENCODINGS)), truth)]
    return found


@given(data=st.data())
def test_truncate_pair(arrays, data):
    a, x, b, y = data.draw(pairs(arrays.dtypes))
    strategy, side = data.draw(STRATEGIES), data.draw(st.sampled_from(["right", "left", "middle"]))
    most, each = data.draw(numbers(len(a), st.integers(0, 12)))
    lengths = [
        cut_oracle.pair_lengths(*both, k, strategy) for *both, k in zip(a.lengths(), b.lengths(), each, strict=True)
    ]
    if None in lengths:
        with pytest.raises(sf.StructureError, match=f"pair {lengths.index(None)} .*{strategy}.*longest_first"):
            sf.truncate_pair(x, y, most, strategy, side=side)
        return

    def both(x, y):
        return sf.truncate_pair(x, y, most, strategy, side=side)

    found = arrays.on(lambda pair: list(both(*pair)))([x, y])
    for k, (given_, truth, result) in enumerate(zip((x, y), (a, b), found, strict=True)):
        wanted = mapped(truth, lambda items, i, k=k: cut_oracle.truncate(items, lengths[i][k], side))
        assert_result(result, given_, wanted)


def test_pairs_of_bare_lists():
    a, b = sf.truncate_pair([[1, 2, 3], [4]], ([5], [6, 7, 8]), 3)
    assert a == [[1, 2], [4]]
    assert b == ([5], [6, 7])


@pytest.mark.peers
def test_pairs_as_fast_tokenizers_cut_them():
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {str(k): k for k in range(20)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    lengths = list(itertools.product(range(8), range(8)))
    for strategy, side in itertools.product(["longest_first", "only_first", "only_second"], ["right", "left"]):
        for most in range(17):
            tokenizer.enable_truncation(most, strategy=strategy, direction=side)
            for na, nb in lengths:
                a, b = sf.Ragged(np.arange(na), [na]), sf.Ragged(10 + np.arange(nb), [nb])
                texts = [" ".join(map(str, x.data)) for x in (a, b)]
                try:
                    theirs = tokenizer.encode(*texts).ids
                except Exception as error:
                    assert "too short" in str(error)
                    with pytest.raises(sf.StructureError, match=strategy):
                        sf.truncate_pair(a, b, most, strategy, side=side)
                    continue
                mine = sf.truncate_pair(a, b, most, strategy, side=side)
                assert [*mine[0].data, *mine[1].data] == theirs, (na, nb, most, strategy, side)


# ------------------------------------------------------------------------------------------------ shifts


@every_format
@given(data=st.data())
def test_shift(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    by, each = data.draw(numbers(count_of(truth), st.integers(-6, 6), FAR))
    fill = data.draw(st.one_of(st.none(), strategies.fills(truth)))
    outside = np.zeros(truth.item_shape, truth.dtype)
    if fill is not None and not (type(fill) is int and fill == 0):  # which is zero bytes
        outside[...] = fill
    wanted = mapped(truth, lambda items, i: cut_oracle.shift(items, each[i], outside))
    options = {} if fill is None else {"fill": fill}
    assert_result(arrays.on(sf.shift)(x, by, **options), x, wanted)


def test_labels_and_decoder_inputs():
    ids = [[5, 6, 7], [], [8]]
    assert sf.shift(ids, -1, fill=-100) == [[6, 7, -100], [], [-100]]
    assert sf.shift(ids, 1, fill=1) == [[1, 5, 6], [], [1]]


@pytest.mark.parametrize("kind", [sf.Ragged, sf.Masked], ids=oracle.format_name)
@pytest.mark.parametrize("width", [1, 4, 33])
def test_shift_of_many_short_sequences(kind, width):
    """They are moved some at a time, beside long ones: nothing of a neighbour is left."""
    lengths = np.array([*[3, 0, 1, 5] * 40, 700, *[2] * 90, 0, 0, 1300, 4])
    x = sf.Ragged(np.arange(1.0, lengths.sum() * width + 1).reshape(-1, width), lengths)
    for by in (1, -1, 2, -3, 0, 1299, -5000, 2**62, -(2**63)):
        given_ = np.split(x.data, x.offsets[1:-1])
        parts = [np.zeros_like(own) for own in given_]
        for own, part in zip(given_, parts, strict=True):
            away = min(abs(by), len(part))
            part[max(by, 0) :][: len(part) - away] = own[away:] if by < 0 else own[: len(part) - away]
        found = sf.shift(sf.convert(x, kind), by)
        assert np.array_equal(rows(found), np.concatenate(parts))
        assert_padding_is_zero(found)


@pytest.mark.usefixtures("threads_for_all")
def test_threads_do_not_matter():
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 7 if INTERPRETED else 700, 100)
    lengths[7] = 1_000 if INTERPRETED else 100_000
    x = sf.Ragged(rng.normal(size=(int(lengths.sum()), 4)).astype("f4"), lengths)
    calls = [lambda: sf.cut(x, 2, -1), lambda: sf.truncate(x, 5, "middle"), lambda: sf.shift(x, -3, fill=1.0)]
    found = []
    for threads in (1, 2, 8):
        sf.set_num_threads(threads)
        found.append([call().data for call in calls])
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            oracle.assert_bits(one, other)


# ---------------------------------------------------------------------------------------------- gradients

CALLS = {
    "cut": lambda arrays, x: arrays.vjp(sf.cut, x, 1, -1),
    "cut by steps": lambda arrays, x: arrays.vjp(sf.cut, x, -1, None, -2),
    "truncate": lambda arrays, x: arrays.vjp(sf.truncate, x, 2, "left"),
    "truncate in the middle": lambda arrays, x: arrays.vjp(sf.truncate, x, 3, "middle"),
    "shift": lambda arrays, x: arrays.vjp(sf.shift, x, 2),
    "shift each": lambda arrays, x: arrays.vjp(sf.shift, x, np.arange(count_of(oracle.read(x))) % 5 - 2, 7.0),
}


@pytest.mark.parametrize("name", CALLS)
@given(data=st.data())
def test_slopes(arrays, name, data):
    truth, x = data.draw(data.draw(FORMATS.map(lambda kind: strategies.encoded(kind, kinds=DOUBLE))))
    if isinstance(x, list) and not truth.rows():
        return  # bare lists without items have no item shape
    assert_slopes(lambda z: CALLS[name](arrays, z), (noise(x, 0),))


@given(data=st.data())
def test_slopes_of_pairs(data):
    _, x, _, y = data.draw(pairs(DOUBLE))
    for k, z in enumerate((x, y)):

        def call(one, k=k):
            found, pullback = sf.vjp(sf.truncate_pair, *((one, y) if k == 0 else (x, one)), 4)
            zero = noise(found[1 - k], 0)
            zero = sf.convert_like(sf.Ragged(0 * oracle.read(zero).data(), oracle.read(zero).lengths()), zero)
            return found[k], lambda dy: pullback((dy, zero) if k == 0 else (zero, dy))[k]

        assert_slopes(call, (noise(z, k),))


# ------------------------------------------------------------------------------------------------- errors


def ragged(*lengths, dtype="f8", item_shape=()):
    return oracle.build(sf.Ragged, strategies.truth_from(list(lengths), dtype, item_shape))


ERRORS = {
    sf.ConversionError: {
        "cut: step must not be 0": lambda: sf.cut(ragged(2), step=0),
        "cut: step must not be 0, .*sequence 1": lambda: sf.cut(ragged(2, 3), step=[1, 0]),
        "truncate: most must be at least 0, not -1": lambda: sf.truncate(ragged(2), -1),
        "truncate: most must be at least 0, but is -2 for sequence 1": lambda: sf.truncate(ragged(2, 3), [0, -2]),
        'truncate: side must be "right", "left" or "middle", not .up.': lambda: sf.truncate(ragged(2), 1, "up"),
        "truncate_pair: strategy must be .longest_first": lambda: sf.truncate_pair(ragged(2), ragged(2), 1, "longest"),
        "truncate_pair: side must be .right": lambda: sf.truncate_pair(ragged(2), ragged(2), 1, side="up"),
        "shift: fill": lambda: sf.shift(ragged(2, dtype="i8"), 1, 0.5),
        "shift: fill=": lambda: sf.shift(ragged(2, dtype="u1"), 1, -100),
    },
    sf.StructureError: {
        "cut: start has 1 .* 2 sequences": lambda: sf.cut(ragged(2, 3), [1]),
        "cut: stop has 3 .* 2 sequences": lambda: sf.cut(ragged(2, 3), 0, [1, 2, 3]),
        "cut: stop must fit int64": lambda: sf.cut(ragged(2), 0, [2**64]),
        "truncate: most has 1": lambda: sf.truncate(ragged(2, 3), [1]),
        "truncate_pair: a has 2 sequences, but b has 1": lambda: sf.truncate_pair(ragged(2, 3), ragged(2), 1),
        "truncate_pair: pair 0 has 2 and 3 items.*only_first.*first.*most=3": lambda: sf.truncate_pair(
            ragged(2), ragged(3), 3, "only_first"
        ),
        "truncate_pair: pair 1 .*second": lambda: sf.truncate_pair(ragged(1, 9), ragged(1, 3), 3, "only_second"),
        "shift: by has 2": lambda: sf.shift(ragged(2), [1, 2]),
    },
    TypeError: {
        "cut: step must be an integer, .*None": lambda: sf.cut(ragged(2), step=None),
        "cut: start must be a sequence of integers": lambda: sf.cut(ragged(2), 1.5),
        "cut: start must be an integer": lambda: sf.cut(ragged(2), True),
        "truncate: side must be .right": lambda: sf.truncate(ragged(2), 1, None),
        "shift: by must be an integer, .*None": lambda: sf.shift(ragged(2), None),
        "shift: by must be a sequence of integers": lambda: sf.shift(ragged(2), 0.5),
        "truncate_pair: single batch": lambda: sf.truncate_pair(sf.Pairs(ragged(2), ragged(2)), ragged(2), 1),
    },
}
ERRORS = [(error, name, call) for error, calls in ERRORS.items() for name, call in calls.items()]


@pytest.mark.parametrize(("error", "name", "call"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_errors(error, name, call):
    with pytest.raises(error, match=name.partition(": ")[2]):
        call()
