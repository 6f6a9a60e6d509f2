"""Wrappers: every one on every encoding and on nested lists, whatever the function returns."""

from typing import NamedTuple

import numpy as np
import oracle
import pytest
import strategies
from checks import on_arrays, rows, structure_of, width_of
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

pytestmark = pytest.mark.passes("compiled", "interpreted", reason="what they convert by is tested by itself")

WRAPPERS = {
    sf.List: sf.with_list,
    sf.Ragged: sf.with_ragged,
    sf.Padded: sf.with_padded,
    sf.Packed: sf.with_packed,
    sf.Masked: sf.with_masked,
    sf.LoD: sf.with_lod,
}
FLAT = {kind: wrapper for kind, wrapper in WRAPPERS.items() if kind is not sf.List}

every_wrapper = pytest.mark.parametrize("seen", WRAPPERS, ids=oracle.format_name)
every_array_wrapper = pytest.mark.parametrize("seen", FLAT, ids=oracle.format_name)
every_source = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


def example(kind, item_shape=(2,), dtype="f8", lengths=(2, 0, 3, 1)):
    """A batch of four sequences, one of them empty, in that encoding; a LoD and nested lists have two levels."""
    if kind in (sf.LoD, list):
        nesting = [list(lengths[:2]), [], list(lengths[2:])]
        return oracle.build(kind, strategies.truth_from(nesting, dtype, item_shape, levels=2))
    return oracle.build(kind, strategies.truth_from(list(lengths), dtype, item_shape))


# ------------------------------------------------------------------------------------------- what fn returns


@every_wrapper
@every_source
@given(data=st.data())
def test_identity(arrays, seen, kind, data):
    """What `fn` passes on comes back with the structure of what was given."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    y = arrays.on(WRAPPERS[seen](lambda batch: batch))(x)
    if kind is list:
        assert type(y) is list
        assert oracle.infer(y).counts() == truth.counts() or not truth.rows()
    else:
        oracle.assert_holds(y, truth)
        assert structure_of(y) == structure_of(x)


@every_wrapper
@every_source
def test_fn_sees_the_encoding(arrays, seen, kind):
    x = example(kind)
    got = []
    arrays.on(WRAPPERS[seen](lambda batch: got.append(batch) or batch))(x)
    (batch,) = got
    assert type(batch) is seen
    if arrays.held(arrays.up(x)):
        assert arrays.held(batch)
    oracle.assert_truth(oracle.read(arrays.down(batch)).at(-1), oracle.read(x).at(-1))


@every_array_wrapper
@every_source
def test_an_array_comes_back_over_the_structure(arrays, seen, kind):
    x = example(kind)
    y = arrays.on(FLAT[seen](lambda batch: arrays.up(arrays.down(batch.data) * 10)))(x)
    assert structure_of(y) == structure_of(x)
    assert rows(y).tolist() == (rows(x) * 10).tolist()


@every_wrapper
@every_source
@pytest.mark.parametrize(
    ("change", "item_shape", "dtype"),
    [
        (lambda a: a[..., :1], (1,), "f8"),
        (lambda a: a[..., 0], (), "f8"),
        (lambda a: np.stack([a, a, a], axis=-2), (3, 2), "f8"),
        (lambda a: a.astype(np.int8), (2,), "i1"),
        (lambda a: a > 3, (2,), "?"),
        (lambda a: a[..., :0], (0,), "f8"),
    ],
    ids=["narrower", "scalars", "another axis", "another dtype", "bool", "no bytes"],
)
def test_another_item_shape_or_dtype(seen, kind, change, item_shape, dtype):
    x = example(kind)
    y = WRAPPERS[seen](lambda batch: on_arrays(batch, change))(x)
    wanted = change(rows(x))
    assert structure_of(y)[-2:] == structure_of(x)[-2:]
    if kind is list and item_shape == ():
        assert oracle.infer(y).data().tolist() == wanted.tolist()  # Python's own numbers
        return
    found = oracle.read(y)
    assert (found.item_shape, found.dtype) == (item_shape, np.dtype(dtype))
    assert found.data().tolist() == wanted.tolist()


@every_wrapper
@every_source
def test_changed_lengths(seen, kind):
    """Every sequence without its first item; the outer levels stay."""

    def tails(batch):
        return sf.convert_like([item[1:] for item in sf.convert(batch, sf.List).items], batch)

    x = example(kind)
    y = WRAPPERS[seen](tails)(x)
    assert type(y) is type(x)
    truth = oracle.read(x)
    wanted = [sequence[1:] for sequence in truth.sequences()]
    found = oracle.read(y)
    assert [[item.tolist() for item in s] for s in found.sequences()] == [[item.tolist() for item in s] for s in wanted]
    assert found.counts()[:-1] == truth.counts()[:-1]
    assert getattr(y, "side", None) == getattr(x, "side", None)
    if kind in (sf.Padded, sf.Masked):
        assert width_of(y) == width_of(x), "the width of the caller is kept"


@every_source
def test_longer_sequences(kind):
    """What grows past the caller's width widens it."""
    x = example(kind)
    y = sf.with_list(lambda batch: [np.concatenate([item, item]) for item in batch.items])(x)
    assert oracle.read(y).lengths() == [2 * length for length in oracle.read(x).lengths()]


@every_wrapper
@every_source
@pytest.mark.parametrize("returned", oracle.FORMATS, ids=oracle.format_name)
def test_any_encoding_may_come_back(seen, kind, returned):
    x = example(kind)
    y = WRAPPERS[seen](lambda batch: sf.convert(batch, returned))(x)
    assert structure_of(y) == structure_of(x)
    assert rows(y).tolist() == rows(x).tolist()


@every_source
@given(data=st.data())
def test_the_side_of_the_padding_is_the_callers(kind, data):
    truth, x = data.draw(strategies.encoded(kind))
    y = sf.with_masked(lambda m: m, side=data.draw(strategies.sides()), multiple_of=data.draw(st.integers(1, 4)))(x)
    if kind is not list:
        oracle.assert_holds(y, truth)
        assert structure_of(y) == structure_of(x)


@every_encoding
@pytest.mark.parametrize("seen", oracle.PADDED, ids=oracle.format_name)
def test_what_fn_writes_into_padding_is_dropped(kind, seen):
    x = example(kind)
    y = WRAPPERS[seen](lambda batch: np.full_like(batch.data, 7), width=9)(x)
    assert structure_of(y) == structure_of(x)
    assert np.all(rows(y) == 7)
    if kind in (sf.Padded, sf.Masked):
        assert np.count_nonzero(y.data == 7) == y.rows * 2, "the padding that came back is zero"


@every_source
@every_wrapper
def test_the_first_of_a_tuple_goes_back(seen, kind):
    x = example(kind)
    extra = sf.Ragged(np.zeros(1), [1])
    y, *rest = WRAPPERS[seen](lambda batch: (batch, extra, "state", [np.zeros(1)]))(x)
    assert structure_of(y) == structure_of(x)
    assert rest[0] is extra
    assert rest[1] == "state"
    assert type(rest[2]) is list


class Output(NamedTuple):
    hidden: object
    state: object


@every_source
def test_a_named_tuple_keeps_its_type(kind):
    x = example(kind)
    out = sf.with_padded(lambda batch: Output(batch.data + 1, 3))(x)
    assert type(out) is Output
    assert rows(out.hidden).tolist() == (rows(x) + 1).tolist()
    assert out.state == 3


@every_wrapper
@pytest.mark.parametrize(
    "wrong",
    [
        lambda batch: batch[1:],
        lambda batch: sf.Ragged(np.zeros((9, 2)), [2] + [1] * 7),
        lambda batch: [np.zeros((1, 2))],
        lambda batch: sf.convert(batch, sf.Masked)[[0, 0, 0, 0, 1]],
        lambda batch: (batch[:1], "rest"),
    ],
    ids=["fewer", "more", "list", "one more", "tuple"],
)
def test_another_number_of_sequences(seen, wrong):
    with pytest.raises(sf.StructureError, match=r"\b4 sequences were expected"):
        WRAPPERS[seen](wrong)(example(sf.Ragged))


@every_array_wrapper
@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a[0], lambda a: np.zeros(3), lambda a: a.sum()])
def test_an_array_of_another_leading_shape(seen, change):
    with pytest.raises((sf.StructureError, TypeError)) as caught:
        FLAT[seen](lambda batch: change(batch.data))(example(sf.Ragged))
    if caught.type is sf.StructureError:
        assert "4 sequences were expected" in str(caught.value)


@every_wrapper
def test_what_cannot_be_called(seen):
    wrapper = WRAPPERS[seen]
    for returned in (None, 3, "text", {}, (), object(), iter([])):
        with pytest.raises(TypeError, match="must return|empty tuple"):
            wrapper(lambda batch, returned=returned: returned)(example(sf.Padded))
    for args in ((), (1,), ("text", None), (np.zeros(3),), (None, 2, [np.zeros(1)])):
        with pytest.raises(TypeError, match="with_"):
            wrapper(lambda *args: args[0])(*args)
    with pytest.raises(TypeError, match="bogus"):
        wrapper(lambda x: x, bogus=1)
    for other in (wrapper, sf.with_array, sf.with_flatten):
        with pytest.raises(TypeError, match="wraps a function"):
            other(3)
    with pytest.raises(TypeError, match="List"):
        sf.with_list(lambda batch: np.zeros((6, 2)))(example(sf.Ragged))
    with pytest.raises(sf.StructureError, match=r"element 0 is List\(.*x.sequences\(\)"):
        sf.with_list(lambda batch: [2 * one for one in batch])(example(sf.Ragged))
    assert sf.with_list(lambda batch: [2 * one for one in batch.sequences()])([[1, 2], [3]]) == [[2, 4], [6]]


# ------------------------------------------------------------------------------------------- what is given


@pytest.mark.parametrize("container", [list, tuple])
@every_wrapper
def test_bare_arrays_come_back_as_bare_arrays(seen, container):
    x = container(example(sf.List).items)
    y = WRAPPERS[seen](lambda batch: on_arrays(batch, np.negative))(x)
    assert type(y) is container
    assert [item.tolist() for item in y] == [(-item).tolist() for item in x]


@every_wrapper
@pytest.mark.parametrize(
    "x", [[[1, 2], [], [3]], [[[1, 2], []], [], [[3]]], [[[[1], [2, 3]]], [[]]], [], ([1], [2, 3])]
)
def test_nested_lists_of_any_depth(seen, x):
    y = WRAPPERS[seen](lambda batch: on_arrays(batch, np.negative))(x)
    assert type(y) is type(x)
    assert repr(y) == repr(type(x)(negated(x)))


def negated(x):
    return [negated(part) for part in x] if isinstance(x, (list, tuple)) else -x


@every_wrapper
@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0], [1]])
@pytest.mark.parametrize("kind", oracle.FLAT, ids=oracle.format_name)
def test_no_sequences_and_empty_ones(seen, kind, lengths):
    x = oracle.build(kind, strategies.truth_from(lengths, "f4", (3,)))
    y = WRAPPERS[seen](lambda batch: on_arrays(batch, np.negative) if lengths else batch)(x)
    assert structure_of(y) == structure_of(x)
    assert oracle.read(y).item_shape == (3,)
    assert oracle.read(y).dtype == np.float32


@every_wrapper
def test_arguments_that_are_batches_are_converted(seen):
    x, y, z = example(sf.Ragged), example(sf.Padded), example(sf.Masked)
    plain, text, arrays = np.zeros(2), "text", [np.zeros(1)]
    got = []

    def fn(*args, **kwargs):
        got.extend([args, kwargs])
        return args[0]

    out = WRAPPERS[seen](fn)(x, plain, y, text, arrays, key=z, other=5)
    args, kwargs = got
    assert [type(args[0]), type(args[2]), type(kwargs["key"])] == [seen] * 3
    assert args[1] is plain
    assert args[3] is text
    assert args[4] is arrays, "a bare list counts only as the first argument"
    assert kwargs["other"] == 5
    assert structure_of(out) == structure_of(x)


@every_wrapper
def test_the_first_batch_need_not_be_the_first_argument(seen):
    x = example(sf.Padded)
    y = WRAPPERS[seen](lambda scale, batch: on_arrays(batch, lambda a: a * scale))(3, x)
    assert rows(y).tolist() == (rows(x) * 3).tolist()


@every_wrapper
def test_batches_by_keyword(seen):
    x = example(sf.Masked)
    y = WRAPPERS[seen](lambda *, batch: on_arrays(batch, np.negative))(batch=x)
    assert structure_of(y) == structure_of(x)


class Layer:
    """A layer with methods that want one layout each."""

    scale = 3

    @sf.with_padded
    def steps(self, x):
        return x.data * self.scale

    @sf.with_masked(side="left", multiple_of=4)
    def block(self, x, bias):
        assert x.side == "left"
        assert x.data.shape[1] % 4 == 0
        return x.data * self.scale + bias

    @sf.with_array
    def rows(self, x):
        return x * self.scale

    @sf.with_flatten
    def items(self, items):
        return [item * self.scale for item in items]


@every_source
def test_methods(kind):
    x = example(kind)
    layer = Layer()
    assert rows(layer.steps(x)).tolist() == (rows(x) * 3).tolist()
    assert rows(layer.block(x, 1)).tolist() == (rows(x) * 3 + 1).tolist()
    assert rows(layer.rows(x)).tolist() == (rows(x) * 3).tolist()
    assert layer.steps.__name__ == "steps"


def test_methods_take_bare_lists():
    layer = Layer()
    assert layer.steps([[1, 2], [3]]) == [[3, 6], [9]]
    assert layer.items([["a"], ["b", "c"]]) == [["aaa"], ["bbb", "ccc"]]
    assert [a.tolist() for a in layer.rows([np.array([1, 2]), np.array([3])])] == [[3, 6], [9]]


@every_wrapper
def test_decorators_keep_the_name(seen):
    @WRAPPERS[seen]
    def named(x):
        """What it does."""
        return x

    @WRAPPERS[seen]()
    def called(x):
        return x

    assert (named.__name__, named.__doc__, called.__name__) == ("named", "What it does.", "called")
    x = example(sf.Ragged)
    assert structure_of(called(x)) == structure_of(named(x)) == structure_of(x)


def test_options_reach_the_conversion():
    x = example(sf.LoD)
    got = []
    sf.with_masked(lambda m: got.append(m) or m, side="left", width=7, fill=-1, multiple_of=4)(x)
    assert got[0].side == "left"
    assert got[0].data.shape[1] == 8
    assert np.all(got[0].data[~got[0].mask] == -1)
    sf.with_padded(lambda p: got.append(p) or p, width=5)(x)
    assert got[1].data.shape[0] == 5


def test_the_level_of_a_lod():
    """The function sees whole documents; all levels come back."""
    x = sf.LoD(np.arange(6.0), [[0, 2, 3], [0, 1, 4, 6]])
    got = []
    y = sf.with_ragged(lambda r: got.append(r.lengths.tolist()) or r.data * 2, level=0)(x)
    assert got == [[4, 2]]
    assert structure_of(y) == structure_of(x)
    assert y.data.tolist() == (x.data * 2).tolist()


def test_truncation_comes_back_shorter():
    """What the function never saw does not come back."""
    y = sf.with_masked(lambda m: m.data, width=1, truncate=True)(example(sf.Ragged))
    assert y.lengths.tolist() == [1, 0, 1, 1]


def test_errors_of_the_function_come_out_as_they_are():
    class Strange(Exception):
        pass

    def fail(x):
        raise Strange

    for wrapper in (*WRAPPERS.values(), sf.with_array):
        with pytest.raises(Strange):
            wrapper(fail)(example(sf.Masked))


@every_wrapper
@every_source
def test_the_input_stays_as_it_was(seen, kind):
    x = example(kind)
    before = rows(x).tolist(), structure_of(x)
    WRAPPERS[seen](lambda batch: on_arrays(batch, np.negative))(x)
    assert (rows(x).tolist(), structure_of(x)) == before


# ------------------------------------------------------------------------------------------------- nesting


def test_a_wrapper_around_a_wrapper():
    twice = sf.with_masked(sf.with_padded(sf.with_packed(lambda x: x.data * 2)))
    assert twice([[1.0, 2.0], [], [3.0]]) == [[2.0, 4.0], [], [6.0]]


# ------------------------------------------------------------------------------------------------ Pairs


@every_wrapper
@every_encoding
def test_pairs(seen, kind):
    other = kind if kind is sf.LoD else sf.Ragged
    x = sf.Pairs(example(kind, item_shape=()), example(other, item_shape=(3,), lengths=(1, 1, 2, 0)))
    got = []
    y = WRAPPERS[seen](lambda pair: got.append(pair) or pair)(x)
    assert (type(got[0].one), type(got[0].two)) == (seen, seen)
    assert type(y) is sf.Pairs
    assert structure_of(y.one) == structure_of(x.one)
    assert structure_of(y.two) == structure_of(x.two)
    assert rows(y.two).tolist() == rows(x.two).tolist()


def test_pairs_with_an_array():
    x = sf.Pairs(example(sf.Ragged), np.arange(4))
    y = sf.with_padded(lambda pair: sf.Pairs(pair.one, pair.two + 1))(x)
    assert y.two.tolist() == [1, 2, 3, 4]
    assert structure_of(y.one) == structure_of(x.one)


def test_pairs_must_come_back():
    x = sf.Pairs(example(sf.Ragged), example(sf.Ragged))
    with pytest.raises(TypeError, match="Pairs"):
        sf.with_padded(lambda pair: pair.one)(x)


# ------------------------------------------------------------------------------------- with_array, with_flatten


@every_source
@given(data=st.data())
def test_rows_alone(arrays, kind, data):
    """`with_array` sees every item once, and no padding."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of([np.dtype("f8")])))
    got = []
    y = arrays.on(sf.with_array(lambda a: got.append(arrays.down(a)) or a))(x)
    assert got[0].shape == (truth.rows(), *truth.item_shape)
    if kind is not sf.Packed:
        oracle.assert_bits(got[0], truth.data())
    if kind is not list:
        oracle.assert_holds(y, truth)
        assert structure_of(y) == structure_of(x)


@every_source
def test_rows_of_another_shape(kind):
    x = example(kind)
    y = sf.with_array(lambda a: a @ np.ones((2, 5)))(x)
    assert oracle.read(y).item_shape == (5,)
    assert rows(y).tolist() == (rows(x) @ np.ones((2, 5))).tolist()


@every_encoding
def test_rows_of_several_batches_stand_side_by_side(kind):
    x = example(kind)
    for other in oracle.ENCODINGS:
        y = sf.with_array(lambda a, b: a - 2 * b)(x, example(other))
        assert rows(y).tolist() == (-rows(x)).tolist(), other


def test_a_plain_array_is_passed_as_it_is():
    a = np.arange(6.0).reshape(3, 2)
    got = []
    result = sf.with_array(lambda rows: got.append(rows) or rows + 1)(a)
    assert got[0] is a
    assert result.tolist() == (a + 1).tolist()


def test_wrong_number_of_rows():
    with pytest.raises(sf.StructureError, match=r"4 sequences.*\(6,\)"):
        sf.with_array(lambda a: a[1:])(example(sf.Ragged))


def test_flat_words():
    x = [[["to", "be"], []], [], [["or"]]]
    got = []
    y = sf.with_flatten(lambda words: got.append(words) or [word.upper() for word in words])(x)
    assert got == [["to", "be", "or"]]
    assert y == [[["TO", "BE"], []], [], [["OR"]]]


def test_flat_items_of_any_kind():
    double = sf.with_flatten(lambda items: [item * 2 for item in items])
    assert double([]) == []
    assert double([[], []]) == [[], []]
    assert double([1, "a"]) == [2, "aa"]
    assert double(([1, 2], (3,))) == ([2, 4], (6,))
    assert sf.with_flatten(lambda items: np.array(items) * 2)([[1, 2], [3]]) == [[2, 4], [6]]


@every_encoding
def test_flat_items_of_an_encoding(kind):
    x = example(kind)
    y = sf.with_flatten(lambda items: [item.sum() for item in items])(x)
    assert type(y) is type(x)
    assert oracle.read(y).counts() == oracle.read(x).counts()
    assert rows(y).tolist() == rows(x).sum(1).tolist()


@pytest.mark.parametrize("change", [lambda items: items[1:], lambda items: [*items, 0], lambda items: []])
def test_flat_items_must_be_as_many(change):
    for x in ([[1, 2], [3]], sf.Ragged(np.arange(3), [2, 1])):
        with pytest.raises(sf.StructureError, match="3 items were expected"):
            sf.with_flatten(change)(x)


@pytest.mark.parametrize("returned", [None, 3, {1: 2}, object()])
def test_flat_items_must_be_a_list(returned):
    with pytest.raises(TypeError, match="list"):
        sf.with_flatten(lambda items: returned)([[1]])


@pytest.mark.parametrize("x", [[1, [2]], [[1], 2], [[[1]], [2]]])
def test_flat_items_must_be_equally_deep(x):
    with pytest.raises(sf.StructureError, match="equally deep"):
        sf.with_flatten(lambda items: items)(x)


# --------------------------------------------------------------------------------------------- backprop


def squares(batch):
    """y = x², and its gradient."""
    y = on_arrays(batch, np.square)

    def backprop(dy):
        if isinstance(batch, sf.List):
            return [2 * a * b for a, b in zip(batch.items, dy.items, strict=True)]
        return 2 * batch.data * (dy if isinstance(dy, np.ndarray) else dy.data)

    return y, backprop


@every_wrapper
@every_source
def test_backprop_is_the_gradient(seen, kind):
    """Against finite differences of the wrapped function, in the caller's encoding and structure."""
    x = example(kind)
    wrapped = WRAPPERS[seen](squares, backprop=True)
    y, backprop = wrapped(x)
    assert structure_of(y) == structure_of(x)
    weights = np.cos(np.arange(rows(x).size)).reshape(rows(x).shape)
    dx = backprop(with_rows(x, weights))
    assert structure_of(dx) == structure_of(x)
    flat = rows(x)
    for place in np.ndindex(*flat.shape):
        step = np.zeros_like(flat)
        step[place] = 1e-4
        up, down = (rows(wrapped(with_rows(x, flat + sign * step))[0]) for sign in (1, -1))
        slope = ((up - down) * weights).sum() / 2e-4
        assert abs(slope - rows(dx)[place]) < 1e-6


def with_rows(x, new):
    """`x` with other items, in the caller's order."""
    return sf.convert_like(sf.Ragged(new, oracle.read(x).lengths()), x)


@pytest.mark.parametrize("seen", [sf.Padded, sf.Masked], ids=oracle.format_name)
@every_encoding
def test_padding_gets_no_gradient(seen, kind):
    """What the function's backprop finds in the padding of dy is zero, and what it writes there is dropped."""
    got = []

    def fn(batch):
        return batch.data * 2, lambda dy: got.append(dy) or np.full_like(batch.data, 5)

    x = example(kind)
    y, backprop = WRAPPERS[seen](fn, backprop=True, width=6)(x)
    dx = backprop(with_rows(y, np.ones_like(rows(x))))
    assert got[0].sum() == rows(x).size
    assert np.all(rows(dx) == 5)
    if kind in (sf.Padded, sf.Masked):
        assert dx.data.sum() == 5 * rows(x).size


@every_encoding
def test_backprop_in_other_shapes(kind):
    """The gradient has the items of the input, whatever the items of the result."""
    x = example(kind)
    weight = np.arange(6.0).reshape(2, 3)

    def linear(a):
        return a @ weight, lambda dy: dy @ weight.T

    y, backprop = sf.with_array(linear, backprop=True)(x)
    assert oracle.read(y).item_shape == (3,)
    dx = backprop(y)
    assert structure_of(dx) == structure_of(x)
    assert rows(dx).tolist() == (rows(x) @ weight @ weight.T).tolist()


def test_backprop_of_several_batches():
    def product(a, b):
        return a.data * b.data, lambda dy: (dy * b.data, dy * a.data)

    x, z = example(sf.Padded), example(sf.Masked)
    y, backprop = sf.with_ragged(product, backprop=True)(x, z)
    dx, dz = backprop(y)
    assert structure_of(dx) == structure_of(x)
    assert structure_of(dz) == structure_of(z)
    assert rows(dx).tolist() == (rows(x) ** 3).tolist()


def test_one_gradient_for_each_batch():
    wrapped = sf.with_ragged(lambda a, b: (a.data, lambda dy: dy), backprop=True)
    y, backprop = wrapped(example(sf.Ragged), example(sf.Ragged))
    with pytest.raises(TypeError, match="2 gradients"):
        backprop(y)


def test_backprop_through_composed_wrappers():
    inner = sf.with_padded(squares, backprop=True)
    outer = sf.with_masked(lambda m: inner(m), backprop=True)
    x = example(sf.LoD)
    y, backprop = outer(x)
    dx = backprop(y)
    assert structure_of(dx) == structure_of(x)
    assert rows(dx).tolist() == (2 * rows(x) ** 3).tolist()


def test_backprop_of_changed_lengths():
    """Twice as many items come out; the gradient has the lengths of what went in."""

    def doubled(batch):
        y = [np.concatenate([item, item]) for item in batch.items]
        return y, lambda dy: [d[: len(d) // 2] + d[len(d) // 2 :] for d in dy.items]

    for kind in oracle.FLAT:
        x = example(kind)
        y, backprop = sf.with_list(doubled, backprop=True)(x)
        dx = backprop(y)
        assert structure_of(dx) == structure_of(x)
        assert rows(dx).tolist() == (2 * rows(x)).tolist()


def test_backprop_on_bare_lists():
    wrapped = sf.with_padded(squares, backprop=True)
    x = [np.array([1.0, 2.0]), np.array([3.0])]
    y, backprop = wrapped(x)
    assert [item.tolist() for item in y] == [[1, 4], [9]]
    assert [item.tolist() for item in backprop(y)] == [[2, 16], [54]]
    y, backprop = wrapped([[1.0, 2.0], [3.0]])
    assert backprop(y) == [[2.0, 16.0], [54.0]]


def test_backprop_takes_the_gradient_as_an_array():
    y, backprop = sf.with_padded(squares, backprop=True)(example(sf.Ragged))
    dx = backprop(np.ones_like(y.data))
    assert dx.data.tolist() == (2 * example(sf.Ragged).data).tolist()


@pytest.mark.parametrize("dy", [np.zeros((5, 2)), np.zeros(12), sf.Ragged(np.zeros((6, 2)), [3, 0, 2, 1])])
def test_a_gradient_that_does_not_fit(dy):
    _, backprop = sf.with_padded(squares, backprop=True)(example(sf.Ragged))
    with pytest.raises(sf.StructureError, match="gradient"):
        backprop(dy)


@pytest.mark.parametrize("returned", [lambda x: x, lambda x: (x, 3), lambda x: (x, x, lambda dy: dy), lambda x: None])
def test_backprop_wants_a_pair(returned):
    with pytest.raises(TypeError, match="backprop"):
        sf.with_padded(returned, backprop=True)(example(sf.Ragged))


def test_a_tuple_beside_backprop():
    """Of a returned tuple the first element goes back, with backprop too."""
    (y, state), backprop = sf.with_padded(lambda p: ((p.data * 2, "state"), lambda dy: dy * 2), backprop=True)(
        example(sf.Masked)
    )
    assert state == "state"
    assert structure_of(y) == structure_of(example(sf.Masked))
    assert structure_of(backprop(y)) == structure_of(y)


@pytest.mark.parametrize("kind", [sf.Padded, sf.Masked], ids=oracle.format_name)
def test_padding_is_clean_where_nothing_was_converted(kind):
    x = example(kind)
    wrapper = WRAPPERS[kind]
    y = wrapper(lambda batch: batch.data + 7)(x)
    assert np.count_nonzero(y.data) == y.rows * 2
    assert wrapper(lambda batch: batch)(x) is x


@every_encoding
def test_what_was_cut_off_has_no_gradient(kind):
    x = example(kind)
    y, backprop = sf.with_padded(lambda p: (p.data * 2, lambda dy: dy * 2), backprop=True, width=1, truncate=True)(x)
    dx = backprop(y)
    assert structure_of(dx) == structure_of(x)
    kept = sum(min(length, 1) for length in oracle.read(x).lengths())
    assert np.count_nonzero(rows(dx)) <= kept * 2
    assert oracle.read(dx).lengths() == oracle.read(x).lengths()


def test_nothing_to_convert_and_another_side():
    """What the function returns over the same structure is laid out as the caller had it."""
    x = sf.convert([np.array([1, 2, 3]), np.array([4])], sf.Masked)
    other = sf.convert(x, sf.Masked, side="left")
    assert other._structure is x._structure
    y = sf.with_masked(lambda _: other)(x)
    assert y.side == "right"
    assert y.data.tolist() == [[1, 2, 3], [4, 0, 0]]


def test_nothing_to_convert_and_other_levels():
    x = sf.LoD(np.arange(3), [[0, 1, 2], [0, 2, 3]])
    inner = sf.convert(x, sf.LoD, level=-1)
    assert inner._structure is x._structure
    assert len(inner.lod) == 1
    y = sf.with_lod(lambda _: inner)(x)
    assert [level.tolist() for level in y.lod] == [level.tolist() for level in x.lod]


@pytest.mark.parametrize("To", [sf.Masked, sf.Padded])
def test_nothing_to_convert_and_padding_written(To):
    x = sf.convert([np.array([1, 2, 3]), np.array([4])], To)
    wrapper = sf.with_masked if To is sf.Masked else sf.with_padded
    y = wrapper(
        lambda z: type(z)(
            z.data + 1, *[getattr(z, f) for f in ("size_at_t", "lengths", "indices", "side") if hasattr(z, f)]
        )
    )(x)
    assert y.data.sum() == 2 + 3 + 4 + 5


# --------------------------------------------------------------------------------- what an empty list holds


@pytest.mark.parametrize("seen", [*WRAPPERS, "array"], ids=lambda seen: getattr(seen, "__name__", seen))
@pytest.mark.parametrize("x", [[], (), [[], []], [[], [[]]]], ids=repr)
def test_what_an_empty_list_holds(seen, x):
    """Without `like` nobody can know; with it the function sees the items that it was made for."""
    like = np.zeros((4, 3), "f4")
    looked = []

    def look(batch):
        array = batch if isinstance(batch, np.ndarray) else batch._sample()
        looked.append((array.dtype, array.shape[1:] if seen == "array" else batch.item_shape))
        return batch

    wrapper = sf.with_array if seen == "array" else WRAPPERS[seen]
    y = wrapper(look, like=like)(x)
    assert looked == [(np.float32, (3,))]
    assert type(y) is type(x)
    assert len(y) == len(x)
    y, backprop = wrapper(lambda batch: (batch, lambda dy: dy), backprop=True, like=like)(x)
    assert len(backprop(y)) == len(x)


def test_like_says_nothing_of_a_list_that_speaks_for_itself():
    seen = sf.with_ragged(lambda r: (r, r.dtype, r.item_shape), like=np.zeros((1, 3), "f4"))
    assert seen([np.zeros((2, 5), "i2")])[1:] == (np.int16, (5,))
    assert seen([[1, 2], []])[1:] == (np.int64, ())
    assert seen(sf.Ragged(np.zeros(0), []))[1:] == (np.float64, ())
    for wrong in (3, "f4", [1]):
        with pytest.raises(TypeError, match="like"):
            sf.with_ragged(lambda r: r, like=wrong)


def test_the_dtype_of_numbers_in_a_bare_list():
    seen = sf.with_ragged(lambda r: (r, r.dtype), dtype="f4")
    assert seen([[1, 2], [3]])[1] == np.float32
    assert seen([[], []])[1] == np.float32
    assert seen([])[1] == np.float32
    assert seen([np.arange(2)])[1] == np.int64, "arrays have one of their own"
    assert seen(sf.Ragged(np.arange(2), [2]))[1] == np.int64


# ------------------------------------------------------------------------------- flat lists and their gradients


@pytest.mark.parametrize("nested", [[[1.0, 2.0], [], [3.0]], [[[1.0], []], [[2.0, 3.0]]], ([1.0], (2.0, 3.0)), []])
def test_flat_gradients(nested):
    """Both ways nested as the caller has them."""
    square = sf.with_flatten(
        lambda xs: ([x * x for x in xs], lambda dys: [2 * x * d for x, d in zip(xs, dys, strict=True)]), backprop=True
    )
    y, backprop = square(nested)
    assert y == mapped(nested, lambda x: x * x)
    assert backprop(mapped(nested, lambda _: 10.0)) == mapped(nested, lambda x: 20 * x)


def mapped(nested, function):
    return type(nested)(mapped(x, function) if isinstance(x, (list, tuple)) else function(x) for x in nested)


@every_encoding
def test_flat_gradients_of_encodings(kind):
    x = example(kind, dtype="f4")

    @sf.with_flatten(backprop=True)
    def square(items):
        return [a * a for a in items], lambda ds: [
            2.0 * a * np.asarray(d, "f8") for a, d in zip(items, ds, strict=True)
        ]

    y, backprop = square(x)
    assert structure_of(y) == structure_of(x)
    dx = backprop(y)
    assert structure_of(dx) == structure_of(x)
    assert dx.dtype == np.float32
    assert np.allclose(rows(dx), 2 * rows(x) ** 3)
    assert np.allclose(rows(backprop(sf.convert(y, sf.Ragged) if kind is not sf.LoD else y)), 2 * rows(x) ** 3)


def test_flat_gradients_that_do_not_fit():
    with pytest.raises(TypeError, match=r"must return \(y, backprop\)"):
        sf.with_flatten(lambda xs: xs, backprop=True)([[1.0]])
    _, backprop = sf.with_flatten(lambda xs: (xs, lambda ds: ds[1:]), backprop=True)([[1.0], [2.0]])
    with pytest.raises(sf.StructureError, match="2 items were expected back from backprop, but got 1"):
        backprop([[1.0], [1.0]])
    with pytest.raises(sf.StructureError, match="gradient has 1 items, but the result has 2"):
        backprop([[1.0]])
    with pytest.raises(TypeError, match="not float"):
        backprop(1.0)
    _, backprop = sf.with_flatten(lambda xs: (xs, lambda ds: ds), backprop=True)([[1.0, 2.0], (), [3.0]])
    assert backprop(([1.0, 2.0], [], (3.0,))) == [[1.0, 2.0], (), [3.0]]
    for other in ([[1.0], [2.0], [3.0]], [[1.0, 2.0, 3.0]], [[[1.0, 2.0], [], [3.0]]]):
        with pytest.raises(sf.StructureError, match="as many items as the result, but other lengths"):
            backprop(other)
    for wrapper in (*WRAPPERS.values(), sf.with_array, sf.with_flatten):
        with pytest.raises(TypeError, match="backprop must be True or False, not 1"):
            wrapper(lambda x: x, backprop=1)


def test_a_backprop_returns_a_gradient_for_each_batch():
    x = example(sf.Ragged)

    def both(a, b):
        return a.data + b.data, lambda dy: (dy,)

    for seen in (sf.with_ragged, sf.with_masked):
        y, backprop = seen(both, backprop=True)(x, x)
        with pytest.raises(TypeError, match="must return 2 gradients"):
            backprop(y)
