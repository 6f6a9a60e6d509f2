"""Operations and kernels of a user's own: every encoding, every library, gradients of every order."""

import example_encoding
import numpy as np
import oracle
import own_kernels
import pytest
import strategies
from checks import assert_result, assert_slopes, mapped, noise
from example_encoding import Reversed
from hypothesis import given
from hypothesis import strategies as st
from libraries import on_each_library
from numba import njit
from passes import INTERPRETED

import seqformats as sf
from seqformats.arrays import to_host
from seqformats.kernels import parts as p

# What overflows in an interpreted kernel warns, as in NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
SHAPES = [*strategies.ITEM_SHAPES, (40,)]
NUMBERS = [dtype for dtype in strategies.DTYPES if dtype.kind in "biufc" or dtype == strategies.BFLOAT16]
DOUBLE = [np.dtype("f8")]

weigh = sf.kernel(own_kernels.weigh, own_kernels.weigh_on_cuda)
total = sf.kernel(own_kernels.total, own_kernels.total_on_cuda, gives="rows", over="sequences")
spread = sf.kernel(own_kernels.spread, own_kernels.spread_on_cuda, takes="rows")

scale = sf.kernel(own_kernels.scale, own_kernels.scale_on_cuda)

weighed = sf.operation(weigh, transpose=weigh)


@sf.operation(transpose=lambda dy, *, like: spread(dy, like))
def added_up(x):
    return total(x)


@sf.operation
def squared(x):
    """A rule, of operations that have gradients themselves."""
    rows = sf.convert(x, sf.Ragged).data

    def pullback(dy):
        slopes = 2 * rows * sf.convert(dy, sf.Ragged).data
        return sf.convert_like(sf.Ragged(slopes, sf.lengths(x)), x)

    return sf.convert_like(sf.Ragged(rows * rows, sf.lengths(x)), x), pullback


WEIGHTS = np.array([2.0, -1.0, 3.0])


def weights_for(dtype):
    return WEIGHTS.astype(dtype) if dtype.kind in "fc" else np.array([2, 1, 3], dtype)


# ------------------------------------------------------------------------------------------------ kernels


@every_format
@given(data=st.data(), step=st.integers(0, 2))
def test_a_kernel_of_items(arrays, kind, data, step):
    dtypes = [dtype for dtype in arrays.of(NUMBERS) if dtype.kind in "iu" or dtype.itemsize > 2]
    truth, x = data.draw(strategies.encoded(kind, kinds=dtypes, shapes=SHAPES))
    weights = weights_for(truth.dtype)
    found = arrays.on(weigh)(x, weights, step)

    dtype = truth.dtype.newbyteorder("=")

    def by_weights(items, _):
        return [(item * weights[t * step % 3]).astype(dtype) for t, item in enumerate(items)]

    if np.isfinite(truth.data()).all():  # the bits of NaN are anyone's
        with np.errstate(over="ignore"):
            assert_result(found, x, mapped(truth, by_weights, dtype=dtype))


@every_encoding
def test_a_kernel_of_rows_and_back(arrays, kind):
    for lengths, shape in (([3, 0, 1, 4], (3,)), ([], ()), ([0, 0], (2,)), ([2, 1], (0,)), ([70, 2], (40,))):
        truth = strategies.truth_from(lengths, np.dtype("f8"), shape)
        x = oracle.build(kind, truth)
        rows = arrays.on(total)(x)
        wanted = np.array([sum(items, np.zeros(shape)) for items in truth.sequences()])
        oracle.assert_bits(rows, wanted.reshape(len(lengths), *shape))
        like = arrays.up(x)
        back = arrays.down(spread(arrays.up(rows), like))
        assert_result(back, x, mapped(truth, lambda items, i, rows=rows: [rows[i]] * len(items)))


def test_a_result_has_the_levels_that_are_left():
    x = sf.LoD(np.arange(5.0), [[0, 2, 3], [0, 2, 2, 5]])
    rows = total(x)
    assert rows.lengths() == [[2, 1]]
    assert rows.data.tolist() == [1, 0, 9]
    assert spread(rows, x).to_nested() == [[[1, 1], []], [[9, 9, 9]]]
    assert total([[[1.0, 2.0], []], [[3.0]]]) == [[3, 0], [3]]
    assert spread([[3, 0], [3]], [[[1.0, 2.0], []], [[3.0]]]) == [[[3, 3], []], [[3]]]
    assert weigh([[1.0, 2.0], []], WEIGHTS, 1) == [[2.0, -2.0], []]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_the_dtypes_of_a_kernel(arrays, dtype):
    """Half precision comes as float32, bools as bytes, and any other order of bytes as the machine's."""
    if dtype not in arrays.dtypes:
        pytest.skip("the library has no such dtype")
    native = dtype.newbyteorder("=")
    x = sf.Ragged(strategies.counting(dtype, (3, 2)), [1, 0, 2])
    back = arrays.down(spread(arrays.up(x.data), arrays.up(sf.Ragged(x.data, [1, 1, 1]))))
    assert back.dtype == native
    assert back.data.tolist() == x.data.tolist()
    if dtype.kind != "b":
        found = arrays.on(total)(x)
        assert found.dtype == native
        assert found.tolist() == [x.data[0].tolist(), [0, 0], (x.data[1] + x.data[2]).tolist()]


@pytest.mark.parametrize("name", ["float32", "int16", "bool", "complex64", "float16"])
def test_a_dtype_that_is_asked_for(arrays, name):
    sums = sf.kernel(own_kernels.total, own_kernels.total_on_cuda, gives="rows", dtype=name, over="sequences")
    found = arrays.on(sums)(sf.Ragged(np.array([1, 0, 1], "i4"), [1, 1, 1]))
    assert found.dtype == name
    assert found.tolist() == [1, 0, 1]
    again = sf.kernel(own_kernels.total, gives="rows", dtype=np.dtype(name))
    assert again(sf.Ragged(np.array([1, 0, 1], "i4"), [1, 1, 1])).dtype == name


def test_a_function_that_is_compiled_already():
    compiled = sf.kernel(njit(nogil=True)(own_kernels.total), gives="rows")
    assert compiled.__name__ == "total"
    assert compiled(sf.Ragged(np.arange(3.0), [1, 2])).tolist() == [0, 3]


@pytest.mark.skipif(INTERPRETED, reason="a minute's work in Python")
def test_several_threads():
    rng = np.random.default_rng(0)
    x = sf.Ragged(rng.integers(0, 9, (300_000, 4)).astype("f8"), rng.multinomial(300_000, np.full(5000, 1 / 5000)))
    assert x.data.nbytes > 4 << 20
    for kind in oracle.ENCODINGS:
        assert np.array_equal(to_host(total(sf.convert(x, kind))), sf.reduce_sum(x))


def test_what_a_kernel_refuses(arrays):
    x = arrays.up(sf.Ragged(np.arange(3.0), [1, 2]))
    for call, error, message in (
        (lambda: sf.kernel(3), TypeError, "kernel takes functions, but cpu is 3"),
        (lambda: sf.kernel(own_kernels.total, "x"), TypeError, "but cuda is 'x'"),
        (lambda: sf.kernel(own_kernels.total, gives="row"), sf.ConversionError, 'gives must be "items" or "rows"'),
        (lambda: sf.kernel(own_kernels.total, over="rows"), sf.ConversionError, "over must be"),
        (lambda: sf.kernel(own_kernels.total, takes="rows", gives="rows"), sf.ConversionError, "no sequences"),
        (lambda: sf.kernel(own_kernels.total, dtype="U3"), sf.ConversionError, "a kernel writes numbers"),
        (lambda: sf.kernel(own_kernels.total, dtype=object), sf.ConversionError, "a kernel writes numbers"),
        (lambda: weigh(x, 2**63), sf.ConversionError, "argument 0 of weigh must fit int64"),
        (lambda: weigh(x, 2.5j), TypeError, "arrays and numbers beside its batch, but argument 0 is 2.5j"),
        (lambda: weigh(sf.Ragged(np.array(["a"]), [1]), WEIGHTS, 1), TypeError, "numbers, but was given <U1"),
        (lambda: spread(np.zeros(3), x), sf.StructureError, r"rows of shape \(3,\) were given for 2 sequences"),
        (lambda: spread(3, x), TypeError, "rows are an array"),
        (lambda: spread(np.zeros(2)), TypeError, "and a batch"),
        (lambda: total(np.zeros(3)), TypeError, "give it lengths"),
    ):
        with pytest.raises(error, match=message):
            call()

    def on_cuda(x, out, at, width):
        return arrays

    with pytest.raises(TypeError, match="reads no variables of a function around it, as on_cuda does"):
        sf.kernel(own_kernels.total, on_cuda)


@on_each_library
def test_without_a_kernel_for_cuda(gpu):
    alone = sf.kernel(own_kernels.total, gives="rows")
    with pytest.raises(sf.DeviceError, match="no kernel total for the device 'cuda'; there is one for: cpu"):
        alone(gpu.up(sf.Ragged(np.arange(3.0), [1, 2])))
    with pytest.raises(sf.DeviceError, match="weigh has a batch on cpu, but an argument on cuda"):
        weigh(sf.Ragged(np.arange(3.0), [1, 2]), gpu.up(WEIGHTS), 1)


@pytest.mark.passes("compiled", reason="code for CUDA is made where kernels are compiled")
@pytest.mark.parametrize("name", ["weigh", "total", "spread"])
def test_a_kernel_becomes_code_for_cuda(name):
    pytest.importorskip("numba_cuda")
    from numba import cuda

    from seqformats.kernels import Layout
    from seqformats.kernels.parts.gpu import bind

    types = cuda.types
    integers, whole, items = types.int64[::1], types.int64, types.float32[::1]
    layout = types.NamedTuple([integers] * 3 + [whole] * 4, Layout)
    arguments = {"weigh": [items, items, items, layout, whole, whole]}.get(name, [items, items, layout, whole])
    function = bind(getattr(own_kernels, f"{name}_on_cuda"))
    code, _ = cuda.compile_ptx(function, types.void(*arguments), cc=(8, 0))
    assert "st.global.f32" in code
    assert "call" not in code


def exp(x, out, at, width, lo, hi):
    out[:] = 7


def with_names_of_the_house(x, out, at, width):
    exp(x, out)


def test_names_of_a_user_s_come_before_those_of_the_house():
    from seqformats.kernels.parts.gpu import bind, gpu

    names = bind(with_names_of_the_house).__globals__
    assert names["exp"] is exp
    assert names["gpu"] is gpu


def with_parts(x):
    return p.natural(x), p.exp(x)


def test_parts_and_closures_come_to_a_gpu_with_what_is_there():
    from seqformats.kernels.parts import gpu

    there, slope = gpu.bind(with_parts).__globals__["p"], p.softmax_slope
    assert (there.natural, there.exp) == (gpu.natural, gpu.exp)
    assert p.natural is None
    held = gpu.bind(lambda x: slope(x)).__closure__[0].cell_contents
    assert held is not slope
    assert held.__name__ == "softmax_slope"


@pytest.mark.parametrize("kind", [sf.Ragged, sf.Masked])
def test_numbers_are_ints_or_floats(arrays, kind):
    x = sf.convert(sf.Ragged(np.array([[1.0], [2.0], [3.0]]), [1, 2]), kind)
    for factor in (2, 0.25, np.float32(0.5), -1):
        y = arrays.down(scale(arrays.up(x), factor))
        assert sf.convert(y, sf.Ragged).data.tolist() == [[factor], [2 * factor], [3 * factor]]


# ---------------------------------------------------------------------------------------------- operations


@every_format
@given(data=st.data())
def test_the_gradient_of_a_pair(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(DOUBLE), shapes=SHAPES))
    y, pullback = arrays.vjp(weighed, x, WEIGHTS, 1)
    wanted = mapped(truth, lambda items, _: [item * WEIGHTS[t % 3] for t, item in enumerate(items)])
    if np.isfinite(truth.data()).all():
        assert_result(y, x, wanted)
        slopes = arrays.down(pullback(y))
        again = mapped(wanted, lambda items, _: [item * WEIGHTS[t % 3] for t, item in enumerate(items)])
        assert_result(slopes, x, again)


@every_encoding
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_slopes(arrays, kind, shape):
    for lengths in ([3, 0, 1, 5], [], [0]):
        x = oracle.build(kind, strategies.truth_from(lengths, np.dtype("f8"), shape))
        assert_slopes(lambda x: arrays.vjp(weighed, x, WEIGHTS, 2), [x])
        assert_slopes(lambda x: arrays.vjp(added_up, x), [x])
    x = noise(x, 3)
    assert_slopes(lambda x: sf.vjp(squared, x), [x], 1e-4)


def test_lists_come_back_as_lists():
    x = [[1.0, 2.0], [], [3.0]]
    y, pullback = sf.vjp(weighed, x, WEIGHTS, 1)
    assert y == weighed(x, WEIGHTS, 1) == [[2.0, -2.0], [], [6.0]]
    assert pullback([[1.0, 1.0], [], [1.0]]) == [[2.0, -1.0], [], [2.0]]
    y, pullback = sf.vjp(added_up, [[[1.0], [2.0, 3.0]], []])
    assert y == [[1.0, 5.0], []]
    assert pullback([[7.0, 8.0], []]) == [[[7.0], [8.0, 8.0]], []]
    arrays = (np.arange(2.0), np.arange(3.0))
    y, pullback = sf.vjp(weighed, arrays, WEIGHTS, 1)
    assert isinstance(y, tuple)
    assert [item.tolist() for item in y] == [[0, -1], [0, -1, 6]]
    assert type(pullback(y)) is tuple


def test_an_encoding_of_one_s_own(tables):
    example_encoding.register()
    x = sf.convert([np.array([1.0, 2.0]), np.array([3.0])], Reversed)
    y, pullback = sf.vjp(weighed, x, WEIGHTS, 1)
    assert type(y) is Reversed
    assert y.data.tolist() == [-2, 2, 6]
    dx = pullback(y)
    assert type(dx) is Reversed
    assert dx.data.tolist() == [2, 4, 12]


def test_an_array_of_rows():
    """The same pair the other way round: of rows to items."""
    shape = sf.Ragged(np.zeros(3), [1, 2])
    spreading = sf.operation(lambda rows: spread(rows, shape), lambda dy: total(dy))
    y, pullback = sf.vjp(spreading, np.array([5.0, 7.0]))
    assert y.data.tolist() == [5, 7, 7]
    assert pullback(np.array([1.0, 2.0, 3.0])).tolist() == [1, 5]


def test_a_gradient_is_brought_into_layout_and_dtype():
    x = sf.convert(sf.Ragged(np.arange(3, dtype="f4"), [1, 2]), sf.Masked)
    half = sf.operation(lambda x: sf.convert(x, sf.Padded), lambda dy: sf.convert(dy, sf.Ragged))
    y, pullback = sf.vjp(half, x)
    assert type(y) is sf.Padded
    dx = pullback(sf.Ragged(np.array([1.0, 2.0, 3.0]), [1, 2]))
    assert type(dx) is sf.Masked
    assert dx.data.dtype == np.float32
    assert dx.data.tolist() == [[1, 0], [2, 3]]
    with pytest.raises(sf.StructureError, match="the gradient has sequences of lengths"):
        pullback(sf.Ragged(np.zeros(3), [2, 1]))


def test_what_does_not_fit():
    x = sf.Ragged(np.arange(3.0), [1, 2])
    same = lambda x: x  # noqa: E731
    for call, error, message in (
        (lambda: sf.operation(3), TypeError, "operation takes functions, but function is 3"),
        (lambda: sf.operation(), TypeError, "function is None"),
        (lambda: sf.operation(same, 3), TypeError, "transpose is 3"),
        (lambda: sf.operation(same)(x), TypeError, r"<lambda> must return \(y, pullback\), but gave Ragged"),
        (lambda: sf.operation(lambda x: 3, same)(x), TypeError, "must return an encoding or an array, not int"),
        (lambda: sf.operation(lambda x: sf.Pairs(x, x), same)(x), TypeError, "not Pairs"),
        (lambda: sf.operation(same, same)(3), TypeError, "int"),
    ):
        with pytest.raises(error, match=message):
            call()
    _, pullback = sf.vjp(sf.operation(same, lambda dy: dy[:1]), x)
    with pytest.raises(sf.StructureError, match=r"back to what it was called with: the gradient has sequences of len"):
        pullback(x)
    _, pullback = sf.vjp(sf.operation(same, lambda dy: None), x)
    with pytest.raises(TypeError, match="a gradient must be an encoding or an array, not NoneType"):
        pullback(x)


def test_the_function_stays_what_it_is():
    assert squared.__name__ == "squared"
    assert squared.__doc__ == "A rule, of operations that have gradients themselves."
    with pytest.raises(TypeError):
        squared()


def test_what_is_no_operation():
    def softmaxx(x):
        return x

    def flip(x):
        return x

    x = sf.Ragged(np.arange(3.0), [1, 2])
    for function, nearest in (
        (softmaxx, "softmax"),
        (flip, "reverse"),
        (np.cumsum, "cumsum"),
        (np.mean, "reduce_mean"),
    ):
        with pytest.raises(TypeError) as caught:
            sf.vjp(function, x)
        assert " has no gradient rule; " in str(caught.value)
        assert f"sf.{nearest}" in str(caught.value)
        assert str(caught.value).endswith("; sf.operation makes one of a function and its gradient [SF308]")
        assert "squared" not in str(caught.value)


# ---------------------------------------------------------------------------------------------- autograd


@pytest.mark.peers
@every_encoding
def test_gradients_of_gradients(kind):
    torch = pytest.importorskip("torch")
    lengths = [2, 0, 3]
    rows = torch.tensor(np.random.default_rng(0).normal(size=(5, 2)), requires_grad=True)

    def through(operation, *args):
        def function(rows):
            y = operation(sf.convert(sf.Ragged(rows, lengths), kind), *args)
            return y if isinstance(y, torch.Tensor) else sf.convert(y, sf.Ragged).data

        return function

    for function in (through(weighed, WEIGHTS, 1), through(added_up), through(squared)):
        assert torch.autograd.gradcheck(function, rows)
        assert torch.autograd.gradgradcheck(function, rows)
    y, pullback = sf.vjp(weighed, sf.Ragged(rows, lengths), WEIGHTS, 1)
    assert y.data.requires_grad
    assert pullback(torch.ones(5, 2, dtype=torch.float64)).data[:2].tolist() == [[2, 2], [-1, -1]]


@pytest.mark.peers
def test_what_would_lose_a_gradient():
    torch = pytest.importorskip("torch")
    x = sf.Ragged(torch.arange(3.0, requires_grad=True), [1, 2])
    with pytest.raises(TypeError, match="the kernel total has no gradient; sf.operation gives it one"):
        total(x)
    weights = torch.ones(1, requires_grad=True)
    with pytest.raises(TypeError, match="the first argument of weigh alone has a gradient"):
        weighed(x, weights, 1)
    with pytest.raises(sf.DeviceError, match="returned an array of numpy, but its batch is one of torch"):
        sf.operation(lambda x: np.zeros(2), lambda dy: dy)(x)
    nonlinear = sf.operation(lambda x: (weigh(x, WEIGHTS, 1), lambda dy: weigh(dy, WEIGHTS, 1)))
    (slope,) = torch.autograd.grad(nonlinear(x).data.sum(), x.data, retain_graph=True)
    assert slope.tolist() == [2, 2, -1]
    with pytest.raises(TypeError, match="has no gradient; sf.operation"):
        torch.autograd.grad(nonlinear(x).data.sum(), x.data, create_graph=True)
    with torch.no_grad():
        assert total(x).tolist() == [0, 3]
        assert total(sf.Ragged(x.data.detach(), [1, 2])).tolist() == [0, 3]


@sf.operation(inputs=3)
def scale_and_add(x, factor, y, power=1):
    """``factor ** power * x + y``, of a batch, an array of one number, and a batch that may have no gradient."""
    rows, scale = x.data, factor**power

    def pullback(dy):
        slope = (power * factor ** (power - 1)) * (rows * dy.data).sum()
        return x._with_data(scale * dy.data), slope.reshape(1), dy if y.data.dtype.kind == "f" else None

    return x._with_data(scale * rows + y.data), pullback


def test_several_inputs_have_gradients():
    x, y = sf.Ragged(np.array([1.0, 2.0, 3.0]), [1, 2]), sf.Ragged(np.array([5, 6, 7]), [1, 2])
    total, pullback = sf.vjp(scale_and_add, x, np.array([3.0]), y, power=2)
    assert total.data.tolist() == [14, 24, 34]
    dx, slope, none = pullback(sf.Ragged(np.array([1.0, 0.0, 2.0]), [1, 2]))
    assert (dx.data.tolist(), slope.tolist(), none.data.tolist()) == ([9, 0, 18], [42], [0, 0, 0])
    for wrong, kind, message in (
        (lambda: scale_and_add(x), TypeError, "takes 3 batches or arrays by place, but was given 1"),
        (lambda: scale_and_add(x, 2.0, y), TypeError, "float is no single batch"),
        (lambda: sf.operation(len, len, inputs=2), sf.ConversionError, "a linear function has one input"),
        (lambda: sf.operation(len, inputs=0), sf.ConversionError, "inputs must be at least 1"),
    ):
        with pytest.raises(kind, match=message):
            wrong()
    short = sf.operation(lambda a, b: (a, lambda dy: dy), inputs=2)
    with pytest.raises(TypeError, match="must return a tuple of 2 gradients"):
        sf.vjp(short, x, x)[1](x)


@pytest.mark.peers
def test_several_inputs_in_torch():
    torch = pytest.importorskip("torch")

    @sf.operation(inputs=2)
    def decayed(x, factor):
        return x._with_data(x.data * factor), lambda dy: (
            x._with_data(factor * dy.data),
            (x.data * dy.data).sum().reshape(1),
        )

    rows = torch.arange(1.0, 4, dtype=torch.float64, requires_grad=True)
    factor = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    for kind in (sf.Ragged, sf.Masked, sf.LoD):

        def call(a, b, kind=kind):
            return sf.convert(decayed(sf.convert(sf.Ragged(a, [1, 2]), kind), b), sf.Ragged).data

        assert torch.autograd.gradcheck(call, (rows, factor))
        assert torch.autograd.gradgradcheck(call, (rows, factor))
    with pytest.raises(TypeError, match="the first 2 arguments of decayed alone have gradients"):
        decayed(sf.Ragged(rows, [1, 2]), factor, factor)
