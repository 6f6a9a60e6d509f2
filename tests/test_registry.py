"""The tables: an encoding of one's own everywhere at once, cheapest chains, levels, devices, and their errors."""

import dataclasses
import pathlib
import subprocess
import sys

import example_encoding
import numpy as np
import oracle
import pytest
import strategies
from checks import on_arrays, rows, structure_of
from example_encoding import Reversed, TimeMajor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_wrap import WRAPPERS

import seqformats as sf
from seqformats import registry
from seqformats.arrays import NUMPY
from seqformats.launch.kernel import Kernel, kernel
from seqformats.layout import Layout
from seqformats.native.code import in_use

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)


@pytest.fixture
def reversed_(tables):
    example_encoding.register()


def build(truth):
    """`Reversed` by the oracle: one item at a time."""
    items = [item for sequence in truth.sequences() for item in reversed(sequence)]
    return Reversed(truth.array(items), np.array(truth.lengths(), np.int64))


def read(x):
    truth = oracle.cut(x.data, [oracle.offsets_of(x.lengths)])
    return oracle.Truth([sequence[::-1] for sequence in truth.nest], truth.dtype, truth.item_shape)


def example(lengths=(2, 0, 3), dtype="f8", item_shape=(2,)):
    return build(strategies.truth_from(list(lengths), dtype, item_shape))


# ----------------------------------------------------------------------------------- an encoding of one's own


@pytest.mark.usefixtures("reversed_")
@every_format
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_converted_from_and_to_everything(kind, data):
    truth, x = data.draw(strategies.encoded(kind))
    there = sf.convert(x, Reversed)
    assert type(there) is Reversed
    oracle.assert_truth(read(there), truth.at(-1))
    if kind is not list:
        back = sf.convert(there, kind)
        oracle.assert_layout(back, oracle.build(kind, truth.at(-1)))
        oracle.assert_same(sf.convert_like(there, x), x)


@pytest.mark.usefixtures("reversed_")
def test_options_of_the_last_leg():
    x = example()
    padded = sf.convert(x, sf.Masked, width=5, fill=-1, side="left")
    assert padded.data.shape == (3, 5, 2)
    assert padded.data[1].tolist() == [[-1, -1]] * 5
    with pytest.raises(TypeError, match="fill"):
        sf.convert(padded, Reversed, fill=1)
    levels = oracle.build(sf.LoD, strategies.truth_from([[1, 2], [3]], "f8", (), levels=2))
    assert sf.convert(levels, Reversed, level=0).lengths.tolist() == [3, 3]


@pytest.mark.usefixtures("reversed_")
@pytest.mark.parametrize("seen", WRAPPERS, ids=oracle.format_name)
def test_wrapped_functions_take_it(seen):
    x = example()
    y = WRAPPERS[seen](lambda batch: batch)(x)
    assert type(y) is Reversed
    oracle.assert_truth(read(y), read(x))
    y = sf.with_array(lambda a: a.sum(1))(x)
    assert read(y).data().tolist() == read(x).data().sum(1).tolist()


@pytest.mark.usefixtures("reversed_")
def test_wrapped_functions_may_return_it():
    x = sf.convert(example(), sf.Masked, width=5, side="left")
    y = sf.with_padded(lambda batch: sf.convert(batch, Reversed))(x)
    assert structure_of(y) == structure_of(x)
    assert rows(y).tolist() == rows(x).tolist()


@pytest.mark.usefixtures("reversed_")
def test_wrapped_functions_with_a_gradient_take_it():
    def square(batch):
        return batch.data**2, lambda dy: 2 * batch.data * dy

    y, backprop = sf.with_padded(square, backprop=True)(example())
    dx = backprop(y)
    assert type(dx) is Reversed
    assert read(dx).data().tolist() == (2 * read(example()).data() ** 3).tolist()


@pytest.mark.usefixtures("reversed_")
@every_encoding
def test_gradients_go_through_it(kind):
    x = oracle.build(kind, strategies.truth_from([2, 0, 3], "f8", (2,)))
    y, pullback = sf.vjp(sf.convert, x, Reversed)
    dy = Reversed(np.cos(y.data), y.lengths)
    dx = pullback(dy)
    assert structure_of(dx) == structure_of(x)
    assert np.isclose((dy.data * y.data).sum(), (rows(dx) * rows(x)).sum())
    y, pullback = sf.vjp(sf.convert, example(), kind)
    dx = pullback(y)
    assert type(dx) is Reversed
    oracle.assert_truth(read(dx), read(example()))
    y, pullback = sf.vjp(sf.reduce_sum, example())
    dx = pullback(np.array([[1.0, 2], [9, 9], [3, 4]]))
    assert type(dx) is Reversed
    assert read(dx).data().tolist() == [[1, 2]] * 2 + [[3, 4]] * 3


@pytest.mark.usefixtures("reversed_")
def test_a_gradient_that_does_not_fit_it():
    _, pullback = sf.vjp(sf.convert, example(), sf.Masked)
    for wrong in (example((3, 0, 2)), example((5,)), np.zeros((2, 2))):
        with pytest.raises(sf.StructureError, match="gradient"):
            pullback(wrong)
    _, pullback = sf.vjp(sf.convert, sf.convert(example(), sf.Ragged), Reversed)
    for wrong in (example((3, 0, 2)), example((5,)), sf.Ragged(np.zeros((5, 2)), [3, 0, 2]), np.zeros((2, 2))):
        with pytest.raises(sf.StructureError, match="gradient"):
            pullback(wrong)


@pytest.mark.usefixtures("reversed_")
def test_operations_take_it():
    x = example()
    assert sf.lengths(x).tolist() == [2, 0, 3]
    assert sf.reduce_sum(x).tolist() == sf.reduce_sum(sf.convert(x, sf.Ragged)).tolist()
    assert sf.reduce_mean(x).shape == (3, 2)
    copied = sf.convert(x, Reversed, copy=True)
    assert type(copied) is Reversed
    assert not np.shares_memory(copied.data, x.data)


@pytest.mark.usefixtures("reversed_")
def test_it_is_a_member_of_pairs():
    pair = sf.Pairs(sf.convert(example(), sf.Ragged), np.arange(3))
    assert type(sf.convert(pair, Reversed).one) is Reversed


@pytest.mark.usefixtures("reversed_")
def test_it_is_explained():
    text = sf.explain(Reversed, sf.Padded)
    assert "Reversed -> Ragged" in text
    assert "Ragged -> Padded" in text
    assert "2 steps" in text
    assert (Reversed, sf.Ragged) in sf.conversions()


# ------------------------------------------------------------------------- one that shares memory, time-major

ORDERS = ([3, 2, 1, 0], [1, 3, 0, 2], [0, 1, 2, 3])  # of four sequences of one length: ties may stand in any order


def columns(order, lengths=(2, 2, 2, 2), room=3):
    """Column j holds the caller's sequence ``order[j]``, whose items are 10 * the sequence + the time step."""
    sizes = [lengths[i] for i in order]
    data = np.zeros((room, len(order), 1))
    for j, i in enumerate(order):
        data[: sizes[j], j, 0] = 10.0 * i + np.arange(sizes[j])
    alive = [sum(size > t for size in sizes) for t in range(room)]
    return TimeMajor(data, *(np.array(field) for field in (alive, sizes, order)))


def assert_columns(y, x, values):
    assert type(y) is TimeMajor
    assert y.positions.tolist() == x.positions.tolist()
    assert y.sizes.tolist() == x.sizes.tolist()
    assert y.values.shape == x.values.shape
    live = np.arange(y.values.shape[0])[:, None] < y.sizes
    assert y.values[live].tolist() == values[live].tolist()


@pytest.fixture
def time_major(tables):
    example_encoding.register_time_major()


@pytest.mark.usefixtures("time_major")
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("seen", WRAPPERS, ids=oracle.format_name)
def test_a_wrapper_keeps_the_order_of_its_columns(seen, order):
    """Result and gradient: a layer further up counts on the columns being those of its own state."""
    x = columns(order)

    def double(batch):
        wrapped = on_arrays(batch, lambda a: a * 2)
        return wrapped, lambda dy: on_arrays(dy, lambda a: a * 2) if isinstance(dy, sf.List) else dy * 2

    assert_columns(WRAPPERS[seen](lambda batch: batch)(x), x, x.values)
    y, backprop = WRAPPERS[seen](double, backprop=True)(x)
    assert_columns(y, x, x.values * 2)
    assert_columns(backprop(y), x, x.values * 4)
    y, backprop = WRAPPERS[seen](lambda batch: (batch, lambda dy: dy), backprop=True)(x)
    assert_columns(y, x, x.values)
    assert_columns(backprop(y), x, x.values)
    assert_columns(backprop(columns([2, 0, 1, 3])), x, x.values)  # a gradient that comes in another order


@pytest.mark.usefixtures("time_major")
def test_a_wrapper_moves_nothing_that_shares_memory():
    x = columns([3, 2, 1, 0])
    y = sf.with_padded(lambda batch: batch)(x)
    assert np.shares_memory(y.values, x.values)


@pytest.mark.usefixtures("time_major")
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_operations_keep_the_order_of_its_columns(order):
    x = columns(order)
    assert_columns(sf.with_array(lambda a: a + 1)(x), x, x.values + 1)
    assert_columns(sf.cumsum(x), x, np.cumsum(x.values, 0))
    assert_columns(sf.convert_like(sf.convert(x, sf.Ragged), x), x, x.values)
    assert sf.reduce_sum(x)[:, 0].tolist() == [1.0, 21.0, 41.0, 61.0]
    y, pullback = sf.vjp(sf.cumsum, x)
    assert_columns(y, x, np.cumsum(x.values, 0))
    ones = np.ones_like(x.values)
    assert_columns(
        pullback(TimeMajor(ones, x.alive, x.sizes, x.positions)), x, np.array([2.0, 1.0, 0.0])[:, None, None] * ones
    )
    for kind in (sf.List, sf.Ragged, sf.Masked, sf.Packed, sf.LoD):
        y, pullback = sf.vjp(sf.convert, x, kind)
        assert_columns(pullback(y), x, x.values)
    assert sf.lengths(x).tolist() == [2, 2, 2, 2]


@pytest.mark.usefixtures("time_major")
def test_a_gradient_is_zero_where_a_wrapper_has_cut():
    x = columns([1, 0, 3, 2], (3, 3, 1, 1))
    y, backprop = sf.with_masked(lambda batch: (batch, lambda dy: dy), backprop=True, width=2, truncate=True)(x)
    assert y.sizes.tolist() == [2, 2, 1, 1]
    dx = backprop(y)
    kept = x.values.copy()
    kept[2] = 0
    assert_columns(dx, x, kept)


@pytest.mark.usefixtures("time_major")
def test_options_of_what_it_shares_memory_with():
    """Its own routes know none, so the layout is changed behind them."""
    x = columns([1, 0, 3, 2], (3, 3, 1, 1))
    wide = sf.convert(x, sf.Padded, width=5, fill=-1)
    assert wide.data[:, 2, 0].tolist() == [30.0, -1, -1, -1, -1]
    assert wide.indices.tolist() == [1, 0, 3, 2]
    y, pullback = sf.vjp(sf.convert, x, sf.Padded, width=2, truncate=True)
    assert y.lengths.tolist() == [2, 2, 1, 1]
    kept = x.values.copy()
    kept[2] = 0
    assert_columns(pullback(y), x, kept)
    y, backprop = sf.with_padded(lambda batch: (batch, lambda dy: dy), backprop=True, width=2, truncate=True)(x)
    assert y.sizes.tolist() == [2, 2, 1, 1]
    assert_columns(backprop(y), x, kept)
    with pytest.raises(TypeError, match="no option 'side' on the way from TimeMajor to Padded; options there: fill,"):
        sf.convert(x, sf.Padded, width=5, side="left")
    for To in (sf.Padded, sf.LoD):
        with pytest.raises(TypeError, match="no option 'level'"):
            sf.convert(x, To, level=-1)


def test_it_is_known_in_its_test_alone():
    """The fixture takes it back, so no other test can come to depend on it."""
    assert not any(Reversed in pair for pair in sf.conversions())
    with pytest.raises(TypeError, match="no encoding"):
        sf.convert(example(), sf.Ragged)
    with pytest.raises(sf.ConversionError, match="Reversed"):
        sf.convert([np.zeros(1)], Reversed)


def test_the_table_is_a_copy():
    table = sf.conversions()
    table.clear()
    assert (sf.Ragged, sf.Padded) in sf.conversions()


@pytest.mark.usefixtures("tables")
def test_a_subclass_is_converted_like_its_base():
    class Tagged(sf.Ragged):
        tag = "words"

    x = Tagged(np.arange(3), [1, 2])
    assert sf.convert(x, list) == [[0], [1, 2]]
    assert sf.convert(x, sf.Masked).lengths.tolist() == [1, 2]
    assert type(sf.with_padded(lambda p: p)(x)) is sf.Ragged


# ------------------------------------------------------------------------------------------------ routes


@dataclasses.dataclass(frozen=True)
class One:
    inner: sf.Ragged


@dataclasses.dataclass(frozen=True)
class Two:
    inner: sf.Ragged


@pytest.mark.usefixtures("tables")
def test_the_cheapest_chain():
    """Steps that share memory are preferred, however many."""
    walked = []

    def step(source, target, **how):
        @sf.conversion(source, target, **how)
        def convert(x):
            walked.append((registry.label(source), registry.label(target)))
            inner = x if isinstance(x, sf.Ragged) else x.inner
            return target(inner) if target in (One, Two) else inner

    step(sf.Ragged, One)
    step(One, Two, shares=True)
    step(Two, sf.Ragged)
    sf.convert([np.zeros(1)], Two)
    assert walked == [("Ragged", "One"), ("One", "Two")]
    step(sf.Ragged, Two)
    walked.clear()
    sf.convert([np.zeros(1)], Two)
    assert walked == [("Ragged", "Two")], "a new entry is found at once"
    step(sf.Ragged, One, shares=True)
    walked.clear()
    sf.convert([np.zeros(1)], Two)
    assert walked == [("Ragged", "One"), ("One", "Two")], "two free steps are cheaper than one move"
    assert registry.route(sf.Ragged, Two).shares
    assert not registry.route(sf.Masked, Two).shares


@dataclasses.dataclass(frozen=True)
class Deep:
    lod: sf.LoD

    keeps_levels = True


@dataclasses.dataclass(frozen=True)
class Flat:
    inner: sf.Ragged


@pytest.mark.usefixtures("tables")
def test_a_chain_never_loses_levels_that_both_ends_keep():
    levels = sf.LoD(np.arange(4), [[0, 2, 3], [0, 1, 3, 4]])

    @sf.conversion(Deep, Flat)
    def flattened(x):
        return Flat(sf.convert(x.lod, sf.Ragged))

    @sf.conversion(Flat, sf.LoD, shares=True)
    def one_level(x):
        return sf.convert(x.inner, sf.LoD)

    with pytest.raises(sf.ConversionError, match=r"no conversion from Deep to LoD; Deep converts to: Flat"):
        sf.convert(Deep(levels), sf.LoD)
    with pytest.raises(sf.ConversionError):
        sf.convert(Deep(levels), list)
    assert sf.convert(Deep(levels), sf.Ragged).lengths.tolist() == [1, 2, 1], "a flat end has nothing to lose"

    @sf.conversion(Deep, sf.LoD)
    def unwrapped(x):
        return x.lod

    @sf.conversion(sf.LoD, Deep)
    def wrapped(x):
        return Deep(x)

    assert sf.convert(Deep(levels), list) == [[[0], [1, 2]], [[3]]]
    assert sf.convert([[[0], [1, 2]], [[3]]], Deep).lod.lengths() == [[2, 1], [1, 2, 1]]
    assert len(sf.convert(Deep(levels), sf.Masked)) == 3


@pytest.mark.usefixtures("tables")
def test_an_encoding_with_levels_keeps_them_in_wrappers():
    @sf.conversion(Deep, sf.LoD)
    def unwrapped(x):
        return x.lod

    @sf.conversion(sf.LoD, Deep)
    def wrapped(x):
        return Deep(x)

    x = Deep(sf.LoD(np.arange(4), [[0, 2, 3], [0, 1, 3, 4]]))
    assert sf.lengths(x, 0).tolist() == [2, 1]
    for wrapper in (sf.with_lod, sf.with_padded, sf.with_array):
        y = wrapper(lambda batch: (batch if isinstance(batch, np.ndarray) else batch.data) * 2)(x)
        assert type(y) is Deep
        assert y.lod.to_nested() == [[[0], [2, 4]], [[6]]], wrapper.__name__


@pytest.mark.usefixtures("tables")
def test_conversions_for_some_devices_only():
    @sf.conversion(sf.Ragged, Flat, devices=("cuda",))
    def to_flat(x):
        return Flat(x)

    with pytest.raises(sf.ConversionError, match="no conversion from List to Flat"):
        sf.convert([np.zeros(1)], Flat)
    with pytest.raises(sf.ConversionError, match="Flat"):
        sf.explain(sf.Ragged, Flat)
    assert "Ragged -> Flat" in sf.explain(sf.Ragged, Flat, "cuda")
    assert "List -> Ragged" in sf.explain(sf.List, Flat, "cuda")
    assert sf.explain([[1]], sf.Masked) == sf.explain(list, sf.Masked)
    assert sf.convert([np.arange(2)], sf.Masked).data.tolist() == [[0, 1]]

    @sf.conversion(sf.Masked, Flat, devices=("cpu",))
    def masked_to_flat(x):
        return Flat(sf.convert(x, sf.Ragged))

    assert type(sf.convert([np.zeros(1)], Flat)) is Flat
    assert "Masked -> Flat" in sf.explain(sf.Ragged, Flat)


def test_no_route():
    @dataclasses.dataclass
    class Unknown:
        data: object

    with pytest.raises(sf.ConversionError, match=r"^no conversion from Ragged to Unknown; Ragged converts to: "):
        sf.convert(sf.Ragged(np.zeros(1), [1]), Unknown)
    with pytest.raises(sf.ConversionError, match=r"^no conversion from Unknown to Ragged; known encodings: .*LoD"):
        sf.explain(Unknown, sf.Ragged)
    with pytest.raises(TypeError, match="Unknown is no encoding"):
        sf.convert(Unknown(1), sf.Ragged)


@pytest.mark.parametrize("kind", [int, dict, np.ndarray, 3, None, "Ragged", sf.Ragged(np.zeros(0), [])])
def test_only_dataclasses_are_registered(kind):
    for pair in ((kind, sf.Ragged), (sf.Ragged, kind)):
        with pytest.raises(TypeError, match="dataclass"):
            sf.conversion(*pair)
    assert not any(entry is kind for pair in sf.conversions() for entry in pair)


@pytest.mark.usefixtures("tables")
def test_the_options_are_the_keyword_only_parameters():
    @sf.conversion(sf.Ragged, Flat)
    def to_flat(x, *, shift=0, level=None):
        return Flat(sf.Ragged(x.data + shift, x.lengths))

    assert sf.conversions()[sf.Ragged, Flat].options == ("shift", "level")
    assert sf.convert([np.array([1])], Flat, shift=5).inner.data.tolist() == [6]
    with pytest.raises(TypeError, match="'bogus'.*shift"):
        sf.convert([np.array([1])], Flat, bogus=1)


@pytest.mark.usefixtures("tables")
def test_a_route_that_returns_something_else():
    """Whatever it is, the error is a documented one, not a crash."""

    @sf.conversion(Flat, sf.Ragged)
    def broken(x):
        return x.inner

    for inner in (None, 3, "text", np.zeros(2)):
        with pytest.raises((TypeError, sf.SeqFormatError, AttributeError)):
            sf.convert(Flat(inner), sf.Masked)


def test_kernels_by_name_and_device():
    assert kernel("copy_blocks") is kernel("copy_blocks")
    assert kernel("copy_blocks").function("cpu") is kernel("copy_blocks").function("cpu")
    for nonsense in (kernel("nonsense"), kernel("parts")):
        with pytest.raises(sf.DeviceError, match=f"no kernel is called {nonsense.name}"):
            nonsense.run()
    with pytest.raises(sf.DeviceError, match="no kernel copy_blocks for the device 'tpu'; there is one for: cpu, cuda"):
        kernel("copy_blocks").function("tpu")
    with pytest.raises(sf.DeviceError, match="no kernel sort_lengths for the device 'cuda'; there is one for: cpu"):
        kernel("sort_lengths").function("cuda")
    with pytest.raises(sf.DeviceError):
        sf.explain(sf.Ragged, sf.Masked, "tpu")


def test_the_code_of_a_kernel_is_found_once():
    lengths, offsets = np.array([2, 0, 3]), np.empty(4, np.int64)
    check = Kernel("check_lengths")
    assert check.run(lengths, offsets, 10) == 3
    code = check.code[None]
    assert check.run(lengths, offsets, 4) == -3  # which goes past 4 rows
    assert offsets[:3].tolist() == [0, 2, 2]
    assert check.code == {None: code}
    if in_use():
        assert check.run is code, "no Python comes between"
        with pytest.raises(TypeError, match="not compiled for"):  # compiled code looks at the size of items
            check.run(lengths.astype(np.int8), offsets, 10)


def test_the_code_of_a_kernel_that_calculates_is_found_once_for_each_dtype():
    add = Kernel("sum_rows")
    structure = sf.Ragged(np.zeros(5), [2, 0, 3])._structure
    cum = structure.offsets
    at = Layout(cum, cum, cum, -1, 0, 1, 0)
    for _ in range(2):
        for dtype in ("float32", "float64", "int64"):
            x, out = np.arange(5).astype(dtype), np.empty(3, dtype)
            add.start(NUMPY, (x,), (out,), (at, 0), 1, structure)
            assert out.tolist() == [1, 0, 9]
            assert out.dtype == dtype
    assert len(add.code) == 3
    assert None not in add.code


def test_a_kernel_of_ones_own():
    done = run(
        """
        import numpy as np
        import seqformats as sf
        from seqformats.launch.kernel import add_kernel, kernel

        for _ in range(3):  # its compiled code has been found by then
            sf.convert([np.zeros(1)], sf.Padded)
        calls = []
        old = kernel("sort_lengths").function("cpu")
        add_kernel("sort_lengths", "cpu", lambda *args: (calls.append(1), old(*args)))
        sf.convert([np.zeros(1)], sf.Padded)
        assert calls == [1], calls
        """
    )
    assert done.returncode == 0, done.stderr


def run(code):
    here = pathlib.Path(__file__).parent
    lines = [line.removeprefix(" " * 8) for line in code.strip("\n").split("\n")]
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=here, capture_output=True, text=True, timeout=300, check=False
    )
