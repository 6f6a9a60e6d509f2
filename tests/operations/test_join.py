"""Batches joined sequence by sequence: with single items, in turns, by templates; against plain Python."""

import join_oracle
import numpy as np
import oracle
import pytest
import strategies
from checks import assert_kept, assert_result, assert_slopes, mapped, noise, rows
from conftest import INTERPRETED
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)

DOUBLE = [np.dtype("f8")]
TOKENS = [np.dtype(code) for code in ("i8", "i4", "u2", "u8", "i1")]


# ------------------------------------------------------------------------------------------- batches


def relengthed(nesting, lengths):
    """The same nesting around other lengths."""
    if isinstance(nesting, list):
        return [relengthed(part, lengths) for part in nesting]
    return next(lengths)


@st.composite
def same_sequences(draw, kinds=None, shapes=None):
    """Two or three batches, ``(truths, encodings)``, of as many sequences, of any encodings.

    Those that are `LoD` have the same outer levels.
    """
    dtype = draw(strategies.dtypes() if kinds is None else st.sampled_from(kinds))
    item_shape = draw(strategies.item_shapes() if shapes is None else st.sampled_from(shapes))
    levels = draw(st.integers(1, 3))
    nesting = draw(strategies.nestings(levels))
    n = len(strategies.innermost(nesting))
    truths, encodings = [], []
    for _ in range(draw(st.integers(2, 3))):
        lengths = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
        if levels > 1 and (not truths or draw(st.booleans())):
            kind, shape = sf.LoD, relengthed(nesting, iter(lengths))
        else:
            kind, shape = draw(st.sampled_from(oracle.FLAT if levels > 1 else oracle.ENCODINGS)), lengths
        truth = strategies.truth_from(shape, dtype, item_shape, levels=levels if shape is not lengths else 1)
        truths.append(truth)
        encodings.append(oracle.build(kind, truth))
    return truths, encodings


# -------------------------------------------------------------------------------------------- concat


@given(data=st.data())
def test_concat(arrays, data):
    truths, xs = data.draw(same_sequences(arrays.dtypes))
    sequences = [truth.sequences() for truth in truths]
    for turn in range(len(xs)):  # each comes first once
        order = [*range(turn, len(xs)), *range(turn)]
        wanted = mapped(truths[turn], lambda _, i, order=order: [item for k in order for item in sequences[k][i]])
        assert_result(arrays.on(sf.concat)([xs[k] for k in order]), xs[turn], wanted)


@every_encoding
def test_concat_of_one(kind):
    truth = strategies.truth_from([2, 0, 1], "f4", (2,))
    x = oracle.build(kind, truth)
    assert_result(sf.concat((x,)), x, truth)


def test_concat_of_bare_lists():
    assert sf.concat([[[1], [2, 3]], [[], [4]]]) == [[1], [2, 3, 4]]
    assert sf.concat([[[[1]], [[2], []]], [[[5]], [[6], [7, 8]]]]) == [[[1, 5]], [[2, 6], [7, 8]]]
    x = sf.concat(([np.array([1]), np.array([2, 3])], sf.Ragged(np.array([9]), [0, 1])))
    oracle.assert_nested(x, [np.array([1]), np.array([2, 3, 9])])


def values(dtype, item_shape):
    """Single items that are exact in a dtype: numbers, arrays without axes, and items."""
    one = strategies.counting(dtype, (2, *item_shape), special=True)
    zero_d = st.integers(0, 1).map(lambda k: strategies.counting(dtype, (2,), special=True)[k, ...])
    scalars = list(strategies.counting(dtype, (3,), special=True))
    if dtype == strategies.BFLOAT16:  # of which PyTorch takes no scalars
        scalars = [float(one) for one in scalars]
    if np.dtype(dtype).kind in "iufcb":
        scalars += [1, True, np.int8(0)] + ([2.0] if np.dtype(dtype).kind != "b" else [])
    return st.one_of(st.sampled_from(scalars), zero_d, st.integers(0, 1).map(lambda k: one[k, ...]))


@given(data=st.data())
def test_concat_of_single_items(arrays, data):
    truths, xs = data.draw(same_sequences(arrays.dtypes))
    dtype, item_shape = truths[0].dtype, truths[0].item_shape
    items = data.draw(st.lists(values(dtype, item_shape), min_size=1, max_size=3))
    parts = data.draw(st.permutations([*zip(xs, truths, strict=True), *((item, None) for item in items)]))
    first = next(k for k, (_, truth) in enumerate(parts) if truth is not None)

    def item_of(value):
        item = np.empty(item_shape, dtype)
        item[...] = value
        return item

    plain = [item_of(x) if truth is None else truth.sequences() for x, truth in parts]
    made = join_oracle.joined(plain, len(truths[0].sequences()))
    wanted = mapped(parts[first][1], lambda _, i: made[i])
    assert_result(arrays.on(sf.concat)([x for x, _ in parts]), parts[first][0], wanted)


def test_single_items_of_bare_lists():
    assert sf.concat([9, [[1], [], [2, 3]], 8]) == [[9, 1, 8], [9, 8], [9, 2, 3, 8]]
    assert sf.concat(["c", [["a"], []], "b"]) == [["c", "a", "b"], ["c", "b"]]
    oracle.assert_nested(sf.concat([[np.array([1], "i4")], 2]), [np.array([1, 2], "i4")])
    assert sf.concat([[[[1]], [[2], []]], 7]) == [[[1, 7]], [[2, 7], [7]]]


def test_zeros_of_both_signs():
    """And others that are equal, but not the same."""
    x = sf.Ragged(np.zeros(1), [1])
    for items in ([0.0, -0.0, 0.0], [1, True, 1.0], [-0.0, 0, False]):
        found = sf.concat([*items, x]).data
        assert np.signbit(found).tolist() == [*np.signbit(np.array(items, float)).tolist(), False]
        assert found[:3].tolist() == items


def test_slopes_of_single_items(arrays):
    x = sf.Ragged(np.arange(12.0).reshape(6, 2), [3, 0, 1, 2])
    for given_as in (sf.Ragged, sf.Masked, sf.List, sf.Packed):
        parts = np.array([1.0, 2.0]), sf.convert(x, given_as), np.array(3.0)
        assert_slopes(lambda *parts: arrays.vjp(sf.concat, list(parts)), parts)


def test_constants_have_no_gradient():
    x = sf.Ragged(np.ones(3), [2, 1])
    for constant in (1, 2.0, np.float64(3), np.array(1), np.float32(1)):
        y, pullback = sf.vjp(sf.concat, [constant, x, np.array(5.0)])
        found = pullback(sf.Ragged(np.arange(7.0), y.lengths))
        assert found[0] is None
        assert found[1].data.tolist() == [1, 2, 5]
        assert found[2] == 3 + 6


@pytest.mark.peers
def test_single_items_learn():
    torch = pytest.importorskip("torch")
    rows, item, number = (torch.rand(k, dtype=torch.float64, requires_grad=True) for k in ((4, 2), (2,), ()))

    def function(rows, item, number):
        return sf.concat([item, sf.Ragged(rows, [3, 0, 1]), number, 7]).data

    assert torch.autograd.gradcheck(function, (rows, item, number))
    assert torch.autograd.gradgradcheck(function, (rows, item, number))
    function(rows.detach(), item, 1.0).sum().backward()
    assert item.grad.tolist() == [3, 3]
    with pytest.raises(TypeError, match="part 0 has a gradient, which would be lost"):
        sf.concat([item.float(), sf.Ragged(rows, [4])])


# ---------------------------------------------------------------------------------------- interleave


@given(data=st.data())
def test_interleave(arrays, data):
    truths, xs = data.draw(same_sequences(arrays.dtypes))
    sequences = [truth.sequences() for truth in truths]
    for turn in range(len(xs)):
        order = [*range(turn, len(xs)), *range(turn)]
        made = join_oracle.interleaved([sequences[k] for k in order], len(sequences[0]))
        wanted = mapped(truths[turn], lambda _, i, made=made: made[i])
        assert_result(arrays.on(sf.interleave)([xs[k] for k in order]), xs[turn], wanted)


@every_encoding
def test_interleave_of_one(kind):
    truth = strategies.truth_from([2, 0, 1], "f4", (2,))
    x = oracle.build(kind, truth)
    assert_result(sf.interleave((x,)), x, truth)


def test_interleave_of_many_and_long(arrays):
    rng = np.random.default_rng(0)
    for width in (1, 3, 40):
        xs = [sf.Ragged(rng.standard_normal((k * k + 3, width)), [k * k, 0, 3]) for k in range(9)]
        truths = [oracle.read(x) for x in xs]
        made = join_oracle.interleaved([truth.sequences() for truth in truths], 3)
        assert_kept(arrays.on(sf.interleave)(xs), xs[0], mapped(truths[0], lambda _, i, made=made: made[i]))


@pytest.mark.parametrize("width", [1, 5] if INTERPRETED else [1, 2, 4, 8, 33])
@pytest.mark.parametrize("kind", [sf.Ragged, sf.List, sf.Masked, sf.Padded], ids=oracle.format_name)
def test_interleave_of_sequences_alike(arrays, kind, width):
    """They are moved as one, beside others that are not; there and back, by one thread or several."""
    lengths = np.array([3, 0, 40, 1, 7, 7, 0, 5, 2, 26 if INTERPRETED else 260])
    others = lengths.copy()
    others[5] = 6
    xs = [
        sf.convert(sf.Ragged(np.arange(sum(each) * width, dtype="f4").reshape(-1, width) + 1e5 * k, each), kind)
        for k, each in enumerate((lengths, lengths, others))
    ]
    for parts in (xs[:2], xs[:1] * 3, xs, xs[::2]):
        made = join_oracle.interleaved([oracle.read(x).sequences() for x in parts], len(lengths))
        wanted = sf.Ragged(
            np.concatenate([row for part in made for row in part]).reshape(-1, width), list(map(len, made))
        )
        found = arrays.on(sf.interleave)(parts)
        assert np.array_equal(rows(found), wanted.data)
        _, pullback = sf.vjp(sf.interleave, parts)
        for x, dx in zip(parts, pullback(wanted), strict=True):
            assert np.array_equal(rows(dx), rows(x))


def test_interleave_of_arrays_that_overlap():
    """Each begins as many bytes after the one before as that has items."""
    words = np.arange(9, dtype="i2")
    parts = [sf.List([words[k : k + 2] for k in range(5)]), sf.List([words[k + 3 : k + 5] for k in range(5)])]
    assert sf.interleave(parts).to_nested() == [[k, k + 3, k + 1, k + 4] for k in range(5)]


def test_interleave_of_bare_lists():
    assert sf.interleave([[[1, 2, 3], []], [[7], [8, 9]], [[5, 5], []]]) == [[1, 7, 5, 2, 5, 3], [8, 9]]


@given(data=st.data())
def test_slopes_of_interleave(arrays, data):
    _, xs = data.draw(same_sequences(kinds=DOUBLE))
    assert_slopes(lambda *parts: arrays.vjp(sf.interleave, list(parts)), tuple(noise(x, k) for k, x in enumerate(xs)))


# ----------------------------------------------------------------------------------------- templates


@given(data=st.data())
def test_template(arrays, data):
    truths, xs = data.draw(same_sequences(arrays.of(TOKENS), shapes=[(), (1,)]))
    names = ["a", "b", "c"][: len(xs)]
    parts = data.draw(st.permutations([*names, *data.draw(st.lists(st.integers(0, 100), max_size=4))]))
    if data.draw(st.booleans()):
        parts = [*parts, parts[0]]
    types = data.draw(st.one_of(st.none(), st.lists(st.integers(-1, 3), min_size=len(parts), max_size=len(parts))))
    template = sf.Template(parts, types)
    assert template.added == sum(isinstance(part, int) for part in parts)
    order = [names.index(name) for name in template.names]
    made = arrays.on(lambda given: list(template(*given)))([xs[k] for k in order])
    first = truths[order[0]]
    given = {name: truth.sequences() for name, truth in zip(names, truths, strict=True)}
    shape = first.item_shape
    wanted = join_oracle.templated(parts, given, len(first.sequences()), types)
    for found, sequences, dtype in zip(made, wanted, (first.dtype, "i8", "?"), strict=True):
        truth = mapped(
            first, lambda _, i, s=sequences, d=dtype: [np.full(shape, item, d) for item in s[i]], dtype=dtype
        )
        assert_result(found, xs[order[0]], truth)


def test_template_by_name_and_of_lists():
    template = sf.Template((101, "a", 102, "b", 102))
    assert template.names == ("a", "b")
    made = template(b=[[7], [8]], a=[[1, 2], []])
    assert made.ids == [[101, 1, 2, 102, 7, 102], [101, 102, 8, 102]]
    assert made.type_ids == [[0, 0, 0, 0, 1, 1], [0, 0, 1, 1]]
    assert made.special == [[True, False, False, True, False, True], [True, True, False, True]]
    assert template([[1, 2], []], b=[[7], [8]]) == made
    assert template([[], []], [[7], [8]]).ids == [[101, 102, 7, 102], [101, 102, 8, 102]]
    assert template([[], []], [[], []]).ids == [[101, 102, 102]] * 2
    assert template([], []).ids == []
    assert sf.Template([1, "a"]) == sf.Template((1, "a"))
    (none,) = sf.Template(["a"])([np.zeros(0, complex)]).ids
    assert (none.dtype, none.shape) == (np.int64, (0,))
    assert sf.Template(["text", np.int64(5)], types=np.array([3, 4])).types == (3, 4)


def test_padding_of_templates_is_zero():
    x = sf.Masked(np.full((2, 3), 7), [1, 3], "left")
    made = sf.Template([1, "a"], types=[5, 5])(x)
    assert made.ids.data.tolist() == [[0, 0, 1, 7], [1, 7, 7, 7]]
    assert made.type_ids.data.tolist() == [[0, 0, 5, 5], [5, 5, 5, 5]]
    assert made.special.data.tolist() == [[False, False, True, False], [True, False, False, False]]


@pytest.mark.peers
def test_templates_as_in_tokenizers():
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: k for k, word in enumerate(["[CLS]", "[SEP]", "[UNK]", *"abcdefgh"])}
    cases = [
        ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", None, None),
        ("$A [SEP] [CLS]", "[CLS]:2 $A:0 [SEP]:1 $B:3 [SEP]:0", [0, 0, 0], [2, 0, 1, 3, 0]),
    ]
    texts = ["a b c", "", "d"], ["e", "f g", ""]
    for single, pair, *types in cases:
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        plain = [[one.ids for one in tokenizer.encode_batch(list(some), add_special_tokens=False)] for some in texts]
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
        )
        for text, batches, kinds in zip((single, pair), (texts[:1], texts), types, strict=True):
            parts = [{"[CLS]": 0, "[SEP]": 1}.get(word, word) for word in (w.split(":")[0] for w in text.split())]
            made = sf.Template(parts, kinds)(*plain[: len(batches)])
            theirs = tokenizer.encode_batch(list(zip(*batches, strict=True)) if len(batches) > 1 else list(texts[0]))
            assert made.ids == [one.ids for one in theirs]
            assert made.type_ids == [one.type_ids for one in theirs]
            assert made.special == [[bool(k) for k in one.special_tokens_mask] for one in theirs]


# ------------------------------------------------------------------------------------------ gradients


@given(data=st.data())
def test_slopes_of_concat(arrays, data):
    _, xs = data.draw(same_sequences(kinds=DOUBLE))
    assert_slopes(lambda *parts: arrays.vjp(sf.concat, list(parts)), tuple(noise(x, k) for k, x in enumerate(xs)))


# ------------------------------------------------------------------------------------------- errors


def ragged(*lengths, dtype="f8", item_shape=()):
    return oracle.build(sf.Ragged, strategies.truth_from(list(lengths), dtype, item_shape))


IDS = ragged(1, 2, dtype="i8")
PAIR = sf.Template([1, "a", 2, "b"])
ERRORS = {
    sf.StructureError: {
        "at least one batch": lambda: sf.concat([1, 2]),
        "interleave needs at least one": lambda: sf.interleave([]),
        "part 2 has 1 sequences, but part 1 has 2": lambda: sf.concat([0, ragged(1, 2), ragged(3)]),
        "part 3 has dtype float32, but part 1": lambda: sf.concat([0, ragged(1), 0, ragged(1, dtype="f4")]),
        "more than int64": lambda: sf.concat([sf.Ragged(np.zeros((2**62, 0), "i1"), [2**62])] * 4),
        "at least one name": lambda: sf.Template([1, 2]),
        "1 types, but 2 parts": lambda: sf.Template([1, "a"], types=[0]),
        "part 3 has 1 sequences, but part 1 has 2": lambda: PAIR(IDS, ragged(1, dtype="i8")),
        r"shape \(\) or \(1,\)": lambda: PAIR(IDS, ragged(1, 1, dtype="i8", item_shape=(2,))),
    },
    sf.ConversionError: {
        "part 1 .*2.5.* not exact in int64": lambda: sf.concat([IDS, 2.5]),
        "part 0 .*not a value of int64|not exact": lambda: sf.concat([10**30, IDS]),
        "part 0 .*1000.* not exact in uint8": lambda: sf.Template([1000, "a"])(ragged(2, dtype="u1")),
        "not a value of float64|not exact": lambda: sf.concat(["text", ragged(1)]),
    },
    TypeError: {
        "a list of batches, not int": lambda: sf.concat(3),
        r"part 1 is an array of shape \(4,\).* one item of shape \(\)": lambda: sf.concat([IDS, np.zeros(4)]),
        r"one item of shape \(2,\)": lambda: sf.concat([ragged(1, item_shape=(2,)), np.zeros((1, 2))]),
        "give it lengths": lambda: sf.interleave([IDS, np.zeros(3)]),
        "int is no single batch": lambda: sf.interleave([IDS, 3]),
        "NoneType": lambda: sf.concat([IDS, None]),
        "a template takes a list": lambda: sf.Template("a"),
        "a part that is no name must be an integer, not 1.5": lambda: sf.Template([1.5, "a"]),
        "must be an integer, not True": lambda: sf.Template([True, "a"]),
        "takes the batches 'a', 'b', but was given 1 by place": lambda: PAIR(IDS),
        "by name 'c'": lambda: PAIR(IDS, c=IDS),
        "was given 2 by place and by name 'b'": lambda: PAIR(IDS, IDS, b=IDS),
        "the items of 'b' have dtype float64": lambda: PAIR(IDS, ragged(1, 2)),
    },
}
ERRORS = [(error, name, call) for error, calls in ERRORS.items() for name, call in calls.items()]


@pytest.mark.parametrize(("error", "name", "call"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_errors(error, name, call):
    with pytest.raises(error, match=name):
        call()
