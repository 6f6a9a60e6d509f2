"""`level=` of operations along sequences, against plain Python over the sequences of that level."""

import inspect
import math
from itertools import accumulate, pairwise

import numpy as np
import oracle
import pytest
import rl_oracle
import strategies
from checks import filled_like, noise, rows, structure_of, with_rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.gradients.levels import _operations
from seqformats.registry import known_gradient

every_kind = pytest.mark.parametrize("kind", [sf.LoD, list], ids=oracle.format_name)
FLOAT = [np.dtype("f8")]


def softmax(column):
    total = math.fsum(math.exp(number - max(column)) for number in column)
    return [math.exp(number - max(column)) / total for number in column]


def tags(x):
    return sf.with_array(lambda rows: (rows % 3).astype(np.int64))(x)


def shift(column, by):
    return [column[t - by] if 0 <= t - by < len(column) else -1.0 for t in range(len(column))]


def largest(column, k):
    """The places of the largest, the first of equal ones first."""
    return sorted(range(len(column)), key=lambda t: -column[t])[:k]


def reduced(record):
    return lambda column: column[record.pick(column)] if record.pick else float(record.calculate(column))


# Operation, options, and what it makes of a column: a list as long, or (below) a number, or a list of any length.
EACH = {
    "softmax": (sf.softmax, {}, softmax),
    "log_softmax": (sf.log_softmax, {}, lambda column: [math.log(number) for number in softmax(column)]),
    "cumsum": (sf.cumsum, {}, lambda column: list(accumulate(column))),
    "recurrence": (sf.recurrence, {"decay": 0.5}, lambda column: rl_oracle.recurrence(column, [0.5] * len(column))[0]),
    "ema": (sf.ema, {"decay": 0.5}, lambda column: rl_oracle.ema(column, 0.5)),
    "standardize": (sf.standardize, {}, lambda column: rl_oracle.standardized(column, [True] * len(column))),
    "reverse": (sf.reverse, {}, lambda column: column[::-1]),
    "shift": (sf.shift, {"by": 2, "fill": -1.0}, lambda column: shift(column, 2)),
    "sort": (sf.sort, {}, sorted),
    "argsort": (sf.argsort, {}, lambda column: sorted(range(len(column)), key=lambda t: column[t])),
    "position_ids": (sf.position_ids, {"layout": True, "start": 3}, lambda column: range(3, 3 + len(column))),
}
ROWS = {
    f"reduce_{name}": (getattr(sf, f"reduce_{name}"), {}, reduced(record)) for name, record in oracle.REDUCTIONS.items()
}
ROWS |= {
    "reduce": (sf.reduce, {"kind": "Max"}, max),
    "reduce_quantile": (sf.reduce_quantile, {"q": 0.25}, lambda column: oracle.quantile(column, 0.25)),
    "topk_mean": (sf.topk_mean, {"topks": 2}, lambda column: sum(sorted(column)[-2:]) / 2),
    "argmax": (sf.argmax, {}, oracle.first_largest),
    "argmin": (sf.argmin, {}, oracle.first_least),
}
PARTS = {
    "topk": (lambda *a, **o: sf.topk(*a, **o).values, {"k": 3}, lambda column: sorted(column, reverse=True)[:3]),
    "topk.places": (lambda *a, **o: sf.topk(*a, **o).places, {"k": 3}, lambda column: largest(column, 3)),
}
large = sf.with_array(lambda numbers: numbers > 4)
odd = sf.with_array(lambda numbers: numbers % 2 == 1)
# What is for single numbers, of a batch and a level: does each item have a result, and what a sequence becomes.
OF_NUMBERS = {
    "window": (
        lambda x, **level: sf.window(x, 1, 1, fill=-1, **level),
        True,
        lambda c: list(zip([-1, *c], c, [*c[1:], -1], strict=False)),
    ),
    "ngrams": (lambda x, **level: sf.ngrams(x, 2, **level), True, lambda c: [*zip(c, [*c[1:], 0], strict=False)]),
    "conv": (
        lambda x, **level: sf.conv(x, np.array([[1.0], [2.0]]), 1, 0, **level),
        True,
        lambda c: [a + 2 * b for a, b in zip([0, *c], c, strict=False)],
    ),
    "run_starts": (sf.run_starts, True, lambda c: [a != b for a, b in zip([None, *c], c, strict=False)]),
    "ffill": (
        lambda x, **level: sf.ffill(x, odd(x), **level),
        True,
        lambda c: [([v for v in c[: t + 1] if v % 2 == 1] or [c[t]])[-1] for t in range(len(c))],
    ),
    "searchsorted": (
        lambda x, **level: sf.searchsorted(sf.sort(x, **level), x, **level),
        True,
        lambda c: [sum(b < a for b in c) for a in c],
    ),
    "merge_asof": (
        lambda x, **level: sf.merge_asof(x, sf.sort(x, **level), **level),
        True,
        lambda c: [sum(b <= a for b in c) - 1 for a in c],
    ),
    "isin": (
        lambda x, **level: sf.isin(x, sf.filter(x, odd(x), **level), **level),
        True,
        lambda c: [a % 2 == 1 for a in c],
    ),
    "intersect": (
        lambda x, **level: sf.intersect(x, sf.filter(x, odd(x), **level), **level),
        False,
        lambda c: sorted({a for a in c if a % 2 == 1}),
    ),
    "tags_to_spans": (
        lambda x, **level: sf.tags_to_spans(tags(x), **level).starts,
        False,
        lambda c: [i for i, a in enumerate(c) if a % 3 == 1 or (a % 3 == 2 and (not i or c[i - 1] % 3 == 0))],
    ),
    "spans_to_tags": (
        lambda x, **level: sf.spans_to_tags(sf.tags_to_spans(tags(x), **level), x, **level),
        True,
        lambda c: [1 if a % 3 == 2 and (not i or c[i - 1] % 3 == 0) else a % 3 for i, a in enumerate(c)],
    ),
    "cut": (lambda x, **level: sf.cut(x, 1, None, 2, **level), False, lambda c: c[1::2]),
    "truncate": (lambda x, **level: sf.truncate(x, 2, "left", **level), False, lambda c: c[-2:]),
    "slice": (
        lambda x, **level: sf.slice(x, 0, np.minimum(1, np.diff(sf.cu_seqlens(x, **level))), **level),
        False,
        lambda c: c[:1],
    ),
    "diff": (sf.diff, False, lambda c: [b - a for a, b in pairwise(c)]),
    "filter": (lambda x, **level: sf.filter(x, large(x), **level), False, lambda c: [a for a in c if a > 4]),
    "erase": (
        lambda x, **level: sf.erase(sf.astype(x, "int64"), [3, 4], **level),
        False,
        lambda c: [a for a in c if a not in (3, 4)],
    ),
    "gather": (lambda x, **level: sf.gather(x, sf.argsort(x, **level), **level), False, sorted),
    "map_sequences": (
        lambda x, **level: sf.map_sequences(lambda a, b: a[::-1] + b, x, x, result="sequence", **level),
        False,
        lambda c: [a + b for a, b in zip(c, c[::-1], strict=True)],
    ),
}
EMPTY = {"reduce_logsumexp": -math.inf, "reduce_prod": 1, "reduce_all": 1, "argmax": -1, "argmin": -1}


def drawn(data, kind, shapes):
    """A batch of small whole numbers, its truth, and one of its levels."""
    _, x = data.draw(strategies.encoded(kind, kinds=FLOAT, shapes=shapes))
    x = filled_like(x, data.draw(st.integers(0, 9)), "f8")
    truth = oracle.read(x)
    return x, truth, data.draw(st.integers(-truth.levels, truth.levels - 1))


def of_columns(function, items, shape):
    """`function` of each column of some items, as an array ``(length, *item)``."""
    columns = np.array([item if shape else item.flat[0] for item in items], float).reshape(len(items), -1)
    made = [function(columns[:, j].tolist()) for j in range(columns.shape[1])]
    return np.array(made, float).T.reshape(-1, *shape)


def of_sequences(function, truth, level, shape, empty=None):
    """All rows of that, sequence by sequence, and a row of `empty` for each sequence without items, if it is given."""
    none = np.zeros((0, *shape)) if empty is None else np.full((1, *shape), float(empty))
    made = [of_columns(function, items, shape) if items else none for items in truth.sequences(level)]
    return np.concatenate([np.zeros((0, *shape)), *made])


@pytest.mark.parametrize("name", EACH)
@every_kind
@given(data=st.data())
def test_each_item_has_a_result(arrays, kind, name, data):
    x, truth, level = drawn(data, kind, [(), (2,)])
    operation, options, function = EACH[name]
    found = arrays.on(operation)(x, **options, level=level)
    assert structure_of(found)[:2] == structure_of(x)[:2]
    wanted = of_sequences(function, truth, level, () if name == "position_ids" else truth.item_shape)
    np.testing.assert_allclose(rows(found).astype(float), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [*ROWS, *PARTS])
@every_kind
@given(data=st.data())
def test_levels_below_are_dropped(arrays, kind, name, data):
    x, truth, level = drawn(data, kind, [(), (2,)])
    operation, options, function = (ROWS | PARTS)[name]
    found = arrays.on(operation)(x, **options, level=level)
    k, empty = level % truth.levels, None
    if name in ROWS:
        one, empty = function, EMPTY.get(name, 0)
        function = lambda column: [one(column)]  # noqa: E731
    wanted = of_sequences(function, truth, level, truth.item_shape, empty)
    if k or name in PARTS:
        assert isinstance(found, list if kind is list else sf.LoD)
        counts = oracle.read(found).counts()
        assert counts[:k] == truth.counts()[: min(k, len(counts))]  # lists without items have as many as they show
        found = rows(found)
    np.testing.assert_allclose(np.asarray(found, float).reshape(wanted.shape), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OF_NUMBERS)
@every_kind
@given(data=st.data())
def test_single_numbers(arrays, kind, name, data):
    """Neighbours, searches and parts, against plain Python."""
    x, truth, level = drawn(data, kind, [()])
    operation, keeps, function = OF_NUMBERS[name]
    if not arrays.first and name in ("map_sequences", "conv", "tags_to_spans", "spans_to_tags"):
        return  # functions and a weight of NumPy
    found = arrays.on(operation)(x, level=level)
    wanted = [row for items in truth.sequences(level) for row in function([float(a) for a in items])]
    k = level % truth.levels
    if keeps:
        assert structure_of(found)[:2] == structure_of(x)[:2]
    elif kind is sf.LoD:
        assert found.lengths()[:k] == x.lengths()[:k]
        assert len(found.lod) == k + 1
    assert len(rows(found)) == len(wanted)
    np.testing.assert_array_equal(rows(found).reshape(-1), np.reshape(wanted, -1))


two = sf.with_array(lambda a: np.stack([a, a * a], -1))
ids = sf.with_array(lambda a: a.astype(np.int64) % 2)
WEIGHT, TABLE = np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]]), np.array([[2.0, 1.0], [-1.0, 4.0]])
# Those of several batches, or with other structures: do all levels stay, and the call, of a batch and the place of each
# of its items in the sequences of the level.
CALLS = {
    "bincount": (False, lambda x, _: (sf.bincount, (ids(x), 2, x), {})),
    "cross_entropy": (False, lambda x, _: (sf.cross_entropy, (two(x), ids(x)), {"weights": x})),
    "cross_entropy none": (True, lambda x, _: (sf.cross_entropy, (two(x), ids(x)), {"reduction": "none"})),
    "linear": (False, lambda x, _: (sf.linear_cross_entropy, (two(x), WEIGHT, ids(x)), {"weights": x})),
    "attention": (True, lambda x, _: (sf.attention, (two(x), two(x), two(x)), {"causal": True})),
    "scatter": (True, lambda x, t: (sf.scatter, (x, t, x), {})),
    "window_by": (True, lambda x, t: (sf.window_by, (x, t, 1, 0), {})),
    "truncate_pair": (False, lambda x, _: (sf.truncate_pair, (x, x, 3), {"side": "left"})),
    "chunk": (False, lambda x, _: (sf.chunk, (x, 2, 1), {})),
    "levenshtein": (False, lambda x, t: (sf.levenshtein, (ids(x), t), {})),
    "edits": (False, lambda x, t: (sf.edits, (), {"references": ids(x), "hypotheses": t})),
    "pairwise_dot": (True, lambda x, _: (sf.pairwise_dot, (two(x), two(x)), {})),
    "maxsim": (False, lambda x, _: (sf.maxsim, (two(x), two(x)), {})),
    "embedding_bag": (False, lambda x, _: (sf.embedding_bag, (TABLE, ids(x), x), {})),
    "cross": (False, lambda x, _: (sf.cross, (x, x), {})),
    "reshape": (False, lambda x, _: (sf.reshape, (two(x), 1), {})),
    "corrupt_spans": (False, lambda x, _: (sf.corrupt_spans, (ids(x),), {"sentinel": 9, "seed": 1})),
    "split_at": (False, lambda x, _: (sf.split_at, (ids(x), 1), {})),
    "split": (False, lambda x, _: (sf.split, (x, odd(x)), {"keep": "start"})),
    "shuffle": (True, lambda x, _: (sf.shuffle, (x, 3), {})),
    "mask": (False, lambda x, _: (sf.mask, (x,), {})),
    "cu_seqlens": (False, lambda x, _: (sf.cu_seqlens, (x,), {})),
    "block_mask": (False, lambda x, _: (sf.block_mask, (x,), {})),
}


def items(y):
    return y if isinstance(y, np.ndarray) else rows(y)


def parts(y):
    return [part for each in y for part in parts(each)] if isinstance(y, tuple) else [y]


def in_pair(y):
    return (y.one, y.two) if isinstance(y, sf.Pairs) else y


def with_gradient(operation, args, options):
    """The result, and its pullback or None."""
    return sf.vjp(operation, *args, **options) if known_gradient(operation) else (operation(*args, **options), None)


@pytest.mark.parametrize("name", CALLS)
@every_kind
@given(data=st.data())
def test_as_the_sequences_alone(kind, name, data):
    """Results and gradients are those of a batch of the sequences of the level."""
    x, truth, level = drawn(data, kind, [()])
    if kind is list and not rows(x).size:
        return  # lists without items say too little
    flat, k = truth.at(level), level % truth.levels
    keeps, call = CALLS[name]
    operation, args, options = call(x, sf.position_ids(x, layout=True, level=level))
    one = lambda a: sf.Ragged(rows(a), flat.lengths()) if isinstance(a, (list, sf.LoD)) else a  # noqa: E731
    wanted, back = with_gradient(operation, [one(a) for a in args], {key: one(a) for key, a in options.items()})
    found, pull = with_gradient(operation, args, {**options, "level": level})
    upwards = []
    for y, right in zip(parts(in_pair(found)), parts(in_pair(wanted)), strict=True):
        np.testing.assert_array_equal(items(y).reshape(items(right).shape), items(right))
        upwards.append((noise(right, 3), y))
        if not isinstance(y, np.ndarray):
            counts, above = oracle.read(y).counts(), truth.levels if keeps else k
            assert counts[:above] == truth.counts()[:above]
            if not isinstance(right, np.ndarray):
                own = oracle.read(right).counts()
                assert counts[above:] == own[len(own) - len(counts) + above :]
    if pull is not None:
        some = [slopes for slopes, _ in upwards]
        same = [slopes if isinstance(y, np.ndarray) else with_rows(y, items(slopes)) for slopes, y in upwards]
        as_given = lambda ys, y: sf.Pairs(*ys) if type(y) is sf.Pairs else tuple(ys) if len(ys) > 1 else ys[0]  # noqa: E731
        for dx, right in zip(parts(pull(as_given(same, found))), parts(back(as_given(some, wanted))), strict=True):
            np.testing.assert_array_equal(items(dx), items(right))
            assert isinstance(dx, np.ndarray) or oracle.read(dx).counts() == truth.counts()


def in_library(name):
    """All calls on a batch in that library beside those on NumPy's."""
    x = sf.LoD(np.array([4.0, -3.0, 2.0, 5.0, 1.0]), [[0, 2, 3, 3], [0, 2, 2, 5]])
    calls = {key: call for key, (_, call) in CALLS.items()}
    calls["conv"] = lambda x, _: (sf.conv, (x, np.array([[1.0], [2.0]]), 1, 0), {})
    there = lambda a: sf.to(a, name) if isinstance(a, (np.ndarray, sf.LoD)) else a  # noqa: E731
    for key, call in calls.items():
        operation, args, options = call(x, sf.position_ids(x, layout=True, level=0))
        wanted, back = with_gradient(operation, args, {**options, "level": 0})
        args, options = [there(a) for a in args], {which: there(a) for which, a in options.items()}
        found, pull = with_gradient(operation, args, {**options, "level": 0})
        for y, right in zip(parts(in_pair(found)), parts(in_pair(wanted)), strict=True):
            y = sf.to(y, "numpy")
            assert structure_of(y)[:2] == structure_of(right)[:2] if isinstance(y, sf.LoD) else y.shape == right.shape
            np.testing.assert_allclose(items(y), items(right), rtol=1e-12, err_msg=key)
        if pull is not None:
            for dx, right in zip(parts(pull(found)), parts(back(wanted)), strict=True):
                np.testing.assert_allclose(items(sf.to(dx, "numpy")), items(right), rtol=1e-12, atol=1e-12, err_msg=key)


@pytest.mark.peers
def test_tensors():
    pytest.importorskip("torch")
    in_library("torch")


@pytest.mark.jax
def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        in_library("jax")


@every_kind
@given(data=st.data())
def test_what_is_of_sequences_goes_to_those_of_the_level(arrays, kind, data):
    x, truth, level = drawn(data, kind, [()])
    lengths = [len(items) for items in truth.sequences(level)]
    ids = np.repeat(np.arange(len(lengths)), lengths)
    found = arrays.on(sf.segment_ids)(x, level=level)
    assert found.tolist() == ids.tolist()
    laid = arrays.on(sf.segment_ids)(x, level=level, layout=True)
    assert structure_of(laid)[:2] == structure_of(x)[:2]
    values = np.arange(10.0, 10 + len(lengths))
    spread = arrays.on(sf.expand_as)(values, x, level=level)
    assert structure_of(spread)[:2] == structure_of(x)[:2]
    assert rows(spread).tolist() == values[ids].tolist()
    starts = np.arange(len(lengths))
    assert arrays.on(sf.position_ids)(x, starts, level=level).tolist() == [
        i + t for i, n in enumerate(lengths) for t in range(n)
    ]
    moved = arrays.on(sf.shift)(x, starts, -1.0, level=level)
    wanted = [v for i, items in enumerate(truth.sequences(level)) for v in shift([float(item) for item in items], i)]
    assert rows(moved).tolist() == wanted


@pytest.mark.parametrize("operation", [sf.reduce_sum, sf.reduce_mean], ids=lambda f: f.__name__)
@every_kind
@given(data=st.data())
def test_weights(arrays, kind, operation, data):
    """As a batch with the levels of x, over the sequences of the level, or in an array: all one result and gradient."""
    x, truth, level = drawn(data, kind, [()])
    weights = filled_like(x, 7, "f8")
    flat = truth.at(level)
    alone = sf.Ragged(flat.data(), flat.lengths()), sf.Ragged(rows(weights), flat.lengths())
    wanted, back = sf.vjp(operation, alone[0], weights=alone[1])
    slopes = np.arange(1.0, 1 + len(wanted))
    for mass in (weights, alone[1], rows(weights)):
        found, pull = arrays.vjp(operation, x, weights=mass, level=level)
        assert np.array_equal(np.asarray(found if level % truth.levels == 0 else rows(found)).reshape(-1), wanted)
        dy = (
            slopes if level % truth.levels == 0 else sf.LoD.from_lengths(slopes, truth.counts()[: level % truth.levels])
        )
        for part, right in zip(pull(dy), back(slopes), strict=True):
            assert np.array_equal(part if isinstance(part, np.ndarray) else rows(part), right.data)


GRADIENTS = [*EACH.values(), *[call for name, call in ROWS.items() if name[:3] != "arg"]]
GRADIENTS = {
    o.__name__: (o, options) for o, options, _ in GRADIENTS if o not in (sf.argsort, sf.position_ids, sf.recurrence)
}
GRADIENTS |= {
    "window": (sf.window, {"before": 1, "after": 1}),
    "ngrams": (sf.ngrams, {"size": 2}),
    "shuffle": (sf.shuffle, {"seed": 1}),
    "cut": (sf.cut, {"start": 1}),
    "truncate": (sf.truncate, {"most": 2}),
    "diff": (sf.diff, {}),
    "ffill": (sf.ffill, {}),
}
NONE = [f"reduce_{name}" for name in ("count", "nunique", "any", "all")]


@pytest.mark.parametrize("name", [name for name in GRADIENTS if name not in NONE] + ["topk"])
@every_kind
@given(data=st.data())
def test_gradients(arrays, kind, name, data):
    """Those of the sequences alone."""
    x, truth, level = drawn(data, kind, [()])
    operation, options = GRADIENTS.get(name, (sf.topk, {"k": 2}))
    flat = truth.at(level)
    wanted, back = sf.vjp(operation, sf.Ragged(flat.data(), flat.lengths()), **options)
    vjp = sf.vjp if name == "topk" else arrays.vjp  # which brings no named tuples down
    found, pull = vjp(operation, x, **options, level=level)
    wanted, found = (wanted.values, found.values) if name == "topk" else (wanted, found)
    slopes = noise(wanted, 3)
    dx = back(slopes)
    if isinstance(found, (sf.LoD, list)):
        dy = sf.LoD(rows(slopes) if not isinstance(slopes, np.ndarray) else slopes, sf.convert(found, sf.LoD).lod)
        if kind is list and not rows(found).size:
            return  # lists without items say too little
        slopes = dy
    got = pull(slopes)
    assert structure_of(got)[:2] == structure_of(x)[:2]
    np.testing.assert_allclose(rows(got), dx.data, atol=1e-12)


def test_gradients_of_rows_that_are_spread():
    x = sf.LoD(np.zeros(7), [[0, 2, 3], [0, 2, 4, 7]])
    y, pull = sf.vjp(sf.expand_as, np.array([1.0, 2.0]), x, level=0)
    assert pull(y).tolist() == [4.0, 6.0]


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrences_have_a_decay_and_states_at_the_level(arrays, reverse):
    flat, by, marks = noise(np.zeros(7), 1), noise(np.zeros(7), 2), np.arange(7) % 3 != 1
    deep, wide = ([sf.LoD(row, [[0, 2, 3], [0, 2, 4, 7]]) for row in (flat, by, marks)], [4, 3])
    outer = [sf.Ragged(row, wide) for row in (flat, by, marks)]
    options = {"reverse": reverse, "initial": np.array([0.5, -1.0]), "final": True}
    (y, states), back = arrays.vjp(sf.recurrence, *deep[:2], where=deep[2], level=0, **options)
    (wanted, ends), pull = sf.vjp(sf.recurrence, *outer[:2], where=outer[2], **options)
    assert structure_of(y)[:2] == structure_of(deep[0])[:2]
    assert np.array_equal(y.data, wanted.data)
    assert np.array_equal(states, ends)
    for found, right in zip(back((y, states)), pull((wanted, ends)), strict=True):
        assert np.array_equal(getattr(found, "data", found), getattr(right, "data", right))


def test_no_rows_move():
    x = sf.LoD(np.arange(7.0), [[0, 2, 3], [0, 2, 4, 7]])
    data = x.data
    assert sf.softmax(x, level=0).lod[0].tolist() == [0, 2, 3]
    assert x.data is data


TAKING = {operation.__name__: operation for operation, *_ in [*EACH.values(), *ROWS.values()]}
TAKING |= {"topk": sf.topk, "unique": sf.unique, "segment_ids": sf.segment_ids}


@pytest.mark.parametrize("name", TAKING)
def test_other_levels(name):
    """The innermost one by another name, that of a batch with one level, and those that are not there."""
    operation = TAKING[name]
    args = {"shift": (1,), "topk": (2,), "topk_mean": (2,), "reduce_quantile": (0.5,), "reduce": ("sum",)}.get(name, ())
    args = (0.5,) if name in ("recurrence", "ema") else args
    one, two = sf.Ragged(np.arange(3.0), [2, 1]), sf.LoD(np.arange(3.0), [[0, 2], [0, 2, 3]])
    for x, level in ((one, 0), (one, np.int64(-1)), (two, 1), (sf.convert(one, list), 0), ([], 3)):
        found, plain = operation(x, *args, level=level), operation(x, *args)
        assert str(found) == str(plain)
    for x, level, kind in ((one, 1, IndexError), (two, 2, IndexError), (two, -3, IndexError), (two, 0.0, TypeError)):
        with pytest.raises(kind, match="level"):
            operation(x, *args, level=level)
        with pytest.raises((kind, TypeError), match="level|gradient"):
            sf.vjp(operation, x, *args, level=level)


# Why an operation takes none.
WITHOUT = {
    "an item is what it is in any sequence": "astype equal masked_scatter to to_arrays to_device where",
    "whole sequences, by their numbers, or several batches, of which `convert` takes a level": """concat interleave
        join_batches put_sequences reorder repeat show sort_by_length split_batches""",
    "of lengths, which ``lengths(x, level=)`` gives, or of numbers": "balance buckets inverse_order kernel pack_bins",
    "of levels themselves: words, chunks, hypotheses, steps": """flatten_levels mask_tokens minimum_bayes_risk nest
        shrink unchunk""",
    "inputs of models, and texts, have one level": "cer from_arrays from_text model_inputs pack to_text wer",
}


def test_who_takes_levels():
    """All operations but those named above, which refuse it by name."""
    operations = {name: getattr(sf, name) for name in sf.__all__ if inspect.isfunction(getattr(sf, name))}
    own = {name: f for name, f in operations.items() if f.__module__.startswith("seqformats.operations")}
    without = {name for name, f in own.items() if "level" not in inspect.signature(f).parameters}
    assert without == set(" ".join(WITHOUT.values()).split())
    for name in without:
        with pytest.raises(TypeError, match="level"):
            own[name](level=0)
    plain = {name for name, f in own.items() if name not in without and f not in _operations}
    assert plain == {
        "lengths",
        "select",
        "map_sequences",
        "spans_to_tags",
        "standardize",
        "expand",
    }  # which read it themselves


def test_levels_of_lengths():
    assert sf.segment_ids([2, 1], level=0).tolist() == [0, 0, 1]
    with pytest.raises(IndexError, match="lengths are those of one level"):
        sf.position_ids(np.array([2, 1]), level=1)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["softmax", "reduce_mean", "topk"])
def test_tensors_stay_in_their_graph(name):
    torch = pytest.importorskip("torch")
    operation = {"topk": lambda x, level: sf.topk(x, 2, level=level).values}.get(name, getattr(sf, name))

    def loss(data):
        y = operation(sf.LoD(data, [[0, 2, 3], [0, 2, 4, 7]]), level=0)
        return y if isinstance(y, torch.Tensor) else y.data

    data = torch.randn(7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss, data)
    assert torch.autograd.gradgradcheck(loss, data)
    flat = operation(sf.Ragged(data, [4, 3]), level=-1)
    assert torch.equal(loss(data), flat if isinstance(flat, torch.Tensor) else flat.data)


@pytest.mark.jax
def test_levels_in_programs():
    jax = pytest.importorskip("jax")
    x = sf.LoD(np.arange(7.0), [[0, 2, 3], [0, 2, 4, 7]])
    there = sf.to(x, "jax")
    assert np.allclose(jax.jit(lambda z: sf.cumsum(z, level=0).data)(there), sf.cumsum(x, level=0).data)
    slopes = jax.grad(lambda z: (sf.reduce_mean(z, level=0) ** 2).sum())(there)
    _, back = sf.vjp(sf.reduce_mean, x, level=0)
    assert np.allclose(slopes.data, back(2 * sf.reduce_mean(x, level=0)).data)
