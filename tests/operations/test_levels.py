"""Sequences split into parts, grouped, and joined again, against plain Python."""

import dataclasses

import join_oracle
import numpy as np
import oracle
import pytest
import strategies
from checks import assert_slopes, mapped, noise
from hypothesis import given
from hypothesis import strategies as st
from libraries import leaves_of

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_keep = pytest.mark.parametrize("keep", ["end", "start", "drop"])

DOUBLE = [np.dtype("f8")]
TOKENS = [np.dtype(code) for code in ("i8", "u8", "i1", "u1", "i4", "u2", ">i8")]


# ------------------------------------------------------------------------------------------- helpers


def deeper(truth, function):
    """The truth with a level more, ``function(items, i)`` being the parts of its innermost sequence number i."""
    return dataclasses.replace(mapped(truth, function), levels=truth.levels + 1)


def assert_levels(found, x, truth):
    """A `LoD`, or for bare lists bare lists, which hold the truth."""
    if isinstance(x, (list, tuple)):
        wanted = oracle.nested(truth, "arrays" if leaves_of(x) else "scalars")
        oracle.assert_nested(found, type(x)(wanted))
        return
    assert type(found) is sf.LoD
    oracle.assert_holds(found, truth)


def shares(y, x):
    return np.shares_memory(y.data, x.data) or not x.rows or not x.data.size


# ------------------------------------------------------------------------------------------ split_at


@every_keep
@every_format
@given(data=st.data())
def test_split_at(arrays, kind, keep, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(TOKENS), shapes=[(), (1,)]))
    present = [token for token in truth.data().reshape(-1).tolist() if isinstance(token, int) and token < 2**63]
    tokens = data.draw(st.lists(st.sampled_from([*present[:6], -1, 0, 200, 2**63 - 1]), max_size=4))

    def parts(items, _):
        return join_oracle.split(items, [item.reshape(-1)[0] in tokens for item in items], keep)

    if truth.dtype.kind not in "iu" and truth.rows():
        with pytest.raises(TypeError, match=r"tokens are integers.*sf\.split"):
            arrays.on(sf.split_at)(x, tokens, keep)
        return
    found = arrays.on(sf.split_at)(x, tokens, keep)
    assert_levels(found, x, deeper(truth, parts))
    if kind in (sf.Ragged, sf.LoD) and keep != "drop" and arrays.first:
        assert shares(found, x)
        oracle.assert_same(sf.flatten_levels(found), sf.convert(x, sf.LoD) if kind is sf.Ragged else x)


CASES = {  # a sequence, 0 being the token, and its parts for "end", "start" and "drop"
    (): ([], [], []),
    (0,): ([[0]], [[0]], [[]]),
    (0, 0): ([[0], [0]], [[0], [0]], [[], []]),
    (1, 2): ([[1, 2]], [[1, 2]], [[1, 2]]),
    (1, 0): ([[1, 0]], [[1], [0]], [[1]]),
    (0, 1): ([[0], [1]], [[0, 1]], [[], [1]]),
    (0, 0, 1): ([[0], [0], [1]], [[0], [0, 1]], [[], [], [1]]),
    (1, 0, 0, 2, 0): ([[1, 0], [0], [2, 0]], [[1], [0], [0, 2], [0]], [[1], [], [2]]),
}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_is_a_part(number):
    keep = ["end", "start", "drop"][number]
    lists = [list(sequence) for sequence in CASES]
    wanted = [parts[number] for parts in CASES.values()]
    assert sf.split_at(lists, 0, keep) == wanted
    for sequence, parts in zip(lists, wanted, strict=True):
        assert sf.split_at(np.array(sequence, int), [0], keep).to_nested() == parts
        assert sf.split(np.array(sequence, int), np.array(sequence, int) == 0, keep=keep).to_nested() == parts


def test_split_at_takes_any_tokens():
    x = np.array([5, 1, 6, 2, 7])
    for tokens in ([1, 2], {2, 1}, np.array([2, 1, 1], "u1"), (1, 2)):
        assert sf.split_at(x, tokens).to_nested() == [[5, 1], [6, 2], [7]]
    assert sf.split_at(x, []).to_nested() == [[5, 1, 6, 2, 7]]
    assert sf.split_at([np.array([5, 1, 6]), np.array([], int)], 1)[0][0].tolist() == [5, 1]


# --------------------------------------------------------------------------------------------- split


@every_keep
@every_format
@given(data=st.data())
def test_split(arrays, kind, keep, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    marks = data.draw(st.lists(st.booleans(), min_size=truth.rows(), max_size=truth.rows()))
    ends = oracle.offsets_of([len(sequence) for sequence in truth.sequences()])
    wanted = deeper(truth, lambda items, i: join_oracle.split(items, marks[ends[i] : ends[i + 1]], keep))
    flat = np.array(marks, bool)
    lengths = [len(sequence) for sequence in truth.sequences()]
    where = sf.convert(sf.Ragged(flat, lengths), data.draw(st.sampled_from(oracle.FLAT)))
    for given_as in (flat, where):
        found = arrays.on(lambda x, given_as=given_as: sf.split(x, given_as, keep=keep))(x)
        assert_levels(found, x, wanted)
    if kind is not list and keep != "drop" and arrays.first:
        assert kind not in (sf.Ragged, sf.LoD) or shares(found, x)


@every_format
@given(data=st.data())
def test_split_by_lengths(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    lengths = []
    for sequence in truth.sequences():
        cuts = data.draw(st.lists(st.integers(0, len(sequence)), max_size=3).map(sorted)) if sequence else []
        lengths.append(np.diff([0, *cuts, len(sequence)]).tolist() if sequence else data.draw(st.just([0] * len(cuts))))
    wanted = deeper(truth, lambda items, i: join_oracle.cut(items, lengths[i]))
    flat = sf.Ragged(np.array([k for part in lengths for k in part], int), [len(part) for part in lengths])
    for given_as in (lengths, flat, sf.convert(flat, sf.Padded)):
        found = arrays.on(lambda x, given_as=given_as: sf.split(x, lengths=given_as))(x)
        assert_levels(found, x, wanted)


@given(data=st.data())
def test_streams(arrays, data):
    dtype, item = data.draw(st.sampled_from(arrays.dtypes)), data.draw(strategies.item_shapes())
    x = strategies.counting(dtype, (data.draw(st.integers(0, 9)), *item), special=True)
    marks = data.draw(st.lists(st.booleans(), min_size=len(x), max_size=len(x)))
    for keep in ("end", "start", "drop"):
        parts = join_oracle.split(oracle.items_of(x), marks, keep)
        found = arrays.on(lambda x, keep=keep: sf.split(x, np.array(marks, bool), keep=keep))(x)
        assert_levels(found, None, oracle.Truth(parts, x.dtype, item))
    lengths = [0, len(x) // 2, len(x) - len(x) // 2]
    found = arrays.on(lambda x: sf.split(x, lengths=lengths))(x)
    assert_levels(found, None, oracle.Truth(join_oracle.cut(oracle.items_of(x), lengths), x.dtype, item))


# -------------------------------------------------------------------------------- flatten_levels, nest


@pytest.mark.parametrize("kind", [sf.LoD, list], ids=oracle.format_name)
@given(data=st.data())
def test_flatten_levels(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    levels, outermost = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    call = arrays.on(lambda x: sf.flatten_levels(x, levels, outermost=outermost))
    if levels >= truth.levels:
        with pytest.raises(IndexError, match=rf"{type(x).__name__} cannot lose {levels} level"):
            call(x)
        return
    nest = truth.nest
    if outermost:
        for _ in range(levels):
            nest = [child for part in nest for child in part]
    else:
        nest = join_oracle.flattened(nest, truth.levels + 1, levels)
    found = call(x)
    assert_levels(found, x, oracle.Truth(nest, truth.dtype, truth.item_shape, truth.levels - levels))
    assert kind is list or not arrays.first or shares(found, x)


@every_format
@given(data=st.data())
def test_nest(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    cuts = data.draw(st.lists(st.integers(0, len(truth)), max_size=3).map(sorted))
    lengths = np.diff([0, *cuts, len(truth)])
    found = arrays.on(lambda x: sf.nest(x, lengths))(x)
    nest = join_oracle.cut(truth.nest, lengths)
    assert_levels(found, x, oracle.Truth(nest, truth.dtype, truth.item_shape, truth.levels + 1))
    if kind is sf.LoD:
        oracle.assert_layout(sf.flatten_levels(found, outermost=True), x)


def test_one_level_stays():
    for kind in oracle.ENCODINGS:
        with pytest.raises(IndexError, match=f"{kind.__name__} cannot lose 1 level: it has one level"):
            sf.flatten_levels(sf.convert(sf.Ragged(np.zeros(3), [1, 2]), kind))
    with pytest.raises(IndexError, match="it has 2 levels, of which one stays"):
        sf.flatten_levels(sf.LoD(np.zeros(1), [[0, 1], [0, 1]]), 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", oracle.FLAT, ids=oracle.format_name)
def test_a_target_of_one_level_takes_one(kind):
    """The innermost, or the one that is asked for, and nothing is said of the others."""
    documents = [[[1, 2], [3]], [], [[4]]]
    assert sf.convert(sf.convert(documents, kind), list) == [[1, 2], [3], [4]]
    assert sf.convert(sf.convert(documents, kind, level=-1), list) == [[1, 2], [3], [4]]
    assert sf.convert(sf.convert(documents, kind, level=0), list) == [[1, 2, 3], [], [4]]
    assert sf.flatten_levels(documents) == [[1, 2, 3], [], [4]]
    assert sf.flatten_levels(documents, outermost=True) == [[1, 2], [3], [4]]
    deeper = [documents, []]
    assert sf.convert(sf.convert(deeper, kind, level=1), list) == [[1, 2, 3], [], [4]]
    back = sf.convert_like(sf.convert(documents, kind), documents)
    assert back == documents


# ------------------------------------------------------------------------------------------ gradients


def calls(x):
    """What can be done with a batch, however long its sequences are."""
    lengths = oracle.read(x).lengths()
    marks = np.arange(sum(lengths)) % 3 == 1
    halves = [[k // 2, k - k // 2] for k in lengths]
    yield lambda z: (sf.split, z, marks), {}
    yield lambda z: (sf.split, z, marks), {"keep": "drop"}
    yield lambda z: (sf.split, z), {"lengths": halves}
    yield lambda z: (sf.nest, z, [len(x), 0]), {}
    if len(oracle.read(x).counts()) > 1:
        yield lambda z: (sf.flatten_levels, z), {}
        yield lambda z: (sf.flatten_levels, z), {"outermost": True}


@every_format
@given(data=st.data())
def test_slopes(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=DOUBLE))
    if isinstance(x, list) and not truth.rows():
        return
    x = noise(x, 0)
    for call, options in calls(x):
        assert_slopes(lambda z, call=call, options=options: arrays.vjp(*call(z), **options), (x,))


def test_slopes_of_a_stream(arrays):
    x = np.arange(10.0).reshape(5, 2)
    marks = np.array([True, False, True, False, False])
    for keep in ("end", "drop"):
        assert_slopes(lambda z, keep=keep: arrays.vjp(sf.split, z, marks, keep=keep), (x,))


@pytest.mark.peers
@every_encoding
def test_tensors_stay_in_their_graph(kind):
    torch = pytest.importorskip("torch")
    rows = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    shape = sf.Ragged(np.zeros(6), [3, 0, 1, 2])

    def batch(rows):
        return sf.convert(sf.Ragged(rows, [3, 0, 1, 2]), kind)

    for call, options in calls(sf.convert(shape, kind)):

        def function(rows, call=call, options=options):
            op, x, *args = call(batch(rows))
            return (op(x, *args, **options)).data

        assert torch.autograd.gradcheck(function, (rows,))
        assert torch.autograd.gradgradcheck(function, (rows,))
    stream = sf.split(rows, np.array([True] * 6))
    assert stream.data.requires_grad
    assert all(part.requires_grad for parts in sf.split([rows], np.array([True] * 6)) for part in parts)


# --------------------------------------------------------------------------------------------- errors

FLOATS, IDS = sf.Ragged(np.zeros(3), [1, 2]), sf.Ragged(np.zeros(3, int), [1, 2])
ERRORS = {
    sf.StructureError: {
        r"split_at is for tokens.*\(2,\)": lambda: sf.split_at(np.zeros((3, 2), int), 0),
        "where must have one bool for each of 3": lambda: sf.split(FLOATS, np.zeros(4, bool)),
        "its sequences have other lengths": lambda: sf.split(FLOATS, sf.Ragged(np.zeros(3, bool), [2, 1])),
        r"items of shape \(2,\)": lambda: sf.split(FLOATS, sf.Ragged(np.zeros((3, 2), bool), [1, 2])),
        "lengths are for 1 sequences, but x has 2": lambda: sf.split(FLOATS, lengths=[[3]]),
        "lengths for sequence 1 add up to 3, but it has 2": lambda: sf.split(FLOATS, lengths=[[1], [1, 2]]),
        "lengths for sequence 0 add up to 0, but it has 1": lambda: sf.split(FLOATS, lengths=[[], [2]]),
        r"must not be negative, but lengths\[1\]": lambda: sf.split(FLOATS, lengths=[[2, -1], [2]]),
        "lengths add up to 4, but x has 3 items": lambda: sf.split(np.zeros(3), lengths=[4]),
        "lengths add up to 3, but there are 2": lambda: sf.nest(FLOATS, [1, 2]),
        "more than int64": lambda: sf.nest(FLOATS, [2**62] * 4),
        "single number": lambda: sf.split(np.zeros(()), np.zeros(0, bool)),
    },
    sf.ConversionError: {
        'keep must be "end", "start" or "drop", not .both': lambda: sf.split_at(IDS, 0, "both"),
        "levels must be at least 1": lambda: sf.flatten_levels(FLOATS, 0),
        "levels must fit int64": lambda: sf.flatten_levels(FLOATS, 2**70),
    },
    TypeError: {
        r"dtype float64; sf\.split\(x, where\)": lambda: sf.split_at(FLOATS, 0),
        "dtype bool": lambda: sf.split_at(np.zeros(3, bool), 0),
        "tokens must be": lambda: sf.split_at(IDS, 0.0),
        "keep must be": lambda: sf.split_at(IDS, 0, 1),
        "either where= or lengths=": lambda: sf.split(IDS),
        "either where= or lengths= ?": lambda: sf.split(IDS, np.zeros(3, bool), lengths=[[1], [2]]),
        r"where must hold bools, not int64; sf\.split_at": lambda: sf.split(IDS, IDS),
        "lengths must be integers": lambda: sf.split(IDS, lengths=[[1.0], [2.0]]),
        "outermost must be": lambda: sf.flatten_levels(IDS, 1, outermost=3),
        "levels must be an integer": lambda: sf.flatten_levels(IDS, 1.0),
        "give it lengths": lambda: sf.nest(np.zeros(3), [3]),
        "give it lengths ?": lambda: sf.flatten_levels(np.zeros(3)),
        "give it lengths.?": lambda: sf.split(3, np.zeros(3, bool)),
    },
}
ERRORS = [(error, name, call) for error, calls in ERRORS.items() for name, call in calls.items()]


@pytest.mark.parametrize(("error", "name", "call"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_errors(error, name, call):
    with pytest.raises(error, match=name):
        call()
