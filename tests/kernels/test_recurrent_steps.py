"""The kernels of recurrent layers beside the equations, and their gradients beside differences."""

import numpy as np
import pytest

from seqformats.launch.kernel import kernel

W, SPARE = 32, 8
LENGTHS = [3, 2, 2, 0]  # falling
BEGINS = np.array([0, 3, 6, 7], np.int64)
PLACES = [[0, 3, 6], [1, 4], [2, 5], []]  # the rows of each sequence
every_case = pytest.mark.parametrize(
    ("name", "gates", "back"), [("lstm", 4, 0), ("lstm", 4, 1), ("gru", 3, 0), ("gru", 3, 1)]
)


def run(name, *args):
    kernel(name).find_variant(*[x for x in args if isinstance(x, np.ndarray) and x.dtype.kind == "f"])(*args)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def equations(name, given, weights, bias, states, back):
    """Outputs and final states; ``given (rows, gates, W)``, ``weights (gates, W, W)``."""
    out, states = np.zeros((len(given), W)), states.copy()
    for i, rows in enumerate(PLACES):
        for row in rows[::-1] if back else rows:
            x, y = given[row], weights @ states[0, i]
            if name == "lstm":
                enter, forget, content, give = x + y
                states[1, i] = sigmoid(forget) * states[1, i] + sigmoid(enter) * np.tanh(content)
                states[0, i] = sigmoid(give) * np.tanh(states[1, i])
            else:
                reset, keep = sigmoid(x[:2] + y[:2])
                content = np.tanh(x[2] + reset * (y[2] + bias))
                states[0, i] = content + keep * (states[0, i] - content)
            out[row] = states[0, i]
    return out, states


def draw(gates, dtype=np.float64):
    rng = np.random.default_rng(gates)
    states = 2 if gates == 4 else 1
    shapes = (7, gates, W), (gates, W, W), (W,), (states, 4, W)
    return [rng.normal(0, scale, shape).astype(dtype) for scale, shape in zip((1, 0.2, 1, 1), shapes, strict=True)]


def forwards(name, gates, back, given, weights, bias, states, units, held=0):
    """Return what a kernel leaves in its memory, what it gives, and the states at the end."""
    room = 0 if held else 7 + SPARE * units
    held = (held or 7) + SPARE * units
    line, deep, ahead = gates * W, gates * W, 76
    begin = room * line + (3 if gates == 4 else 2) * held * W
    memory = np.full(begin + line * (deep + W) + line + W + units * (512 + ahead * (deep + line)), np.nan, given.dtype)
    biases = np.zeros((2, gates, W), given.dtype)
    biases[1, 2] = bias if gates == 3 else 0
    one = np.eye(line, dtype=given.dtype)  # so that the inputs are what is added to the gates
    laid = [x.reshape(-1) for x in (one, weights, *biases)]
    run("gate_weights", *laid, memory, np.array([begin, gates, W, deep]), W, 0, W // 16)
    out, states = np.zeros((7, W), given.dtype), states.copy()
    floats = memory, given.reshape(-1), out.reshape(-1), states.reshape(-1)
    run(f"{name}_steps", *floats, BEGINS, np.array([4, deep, room, held, ahead, units, back]), W, 0, units)
    return memory, out, states


@every_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps(name, gates, back, dtype):
    drawn = draw(gates, dtype)
    wanted = equations(name, *drawn, back)
    for units, held in ((1, 0), (2, 0), (1, 8), (2, 8)):  # all rows, or twice the sequences
        _, out, states = forwards(name, gates, back, *drawn, units, held)
        exact = 1e-12 if dtype is np.float64 else 3e-6
        np.testing.assert_allclose(out, wanted[0], atol=exact)
        np.testing.assert_allclose(states, wanted[1], atol=exact)


@every_case
def test_gradients(name, gates, back):
    """Along a random direction of what the input adds, of the initial states and, of a GRU, of the bias."""
    given, weights, bias, states = draw(gates)
    rng = np.random.default_rng(back)
    dy, dstates, way, ways = (rng.normal(size=shape) for shape in ((7, W), states.shape, given.shape, states.shape))

    def total(step):
        out, final = equations(name, given + step * way, weights, bias, states + step * ways, back)
        return (out * dy).sum() + (final * dstates).sum()

    memory, _, _ = forwards(name, gates, back, given, weights, bias, states, 1)
    room, line = 7 + SPARE, gates * W
    first = gates == 3  # a GRU's gradients are those of the content of the state, of r and z, and of the other content
    laid = np.roll(weights, first, 0).transpose(2, 0, 1).reshape(W, line).T
    slopes = np.full(room * 4 * W, np.nan)
    z = np.concatenate([slopes, laid.ravel(), dstates.ravel(), np.zeros(512)])
    run(f"{name}_back", memory, dy.reshape(-1), z, BEGINS, 4, room, 1, back, W, 0, 1)
    inputs = z[: 7 * 4 * W].reshape(7, 4, W)[:, first:]
    initial = z[slopes.size + laid.size :][: states.size].reshape(states.shape)
    found = (inputs * way).sum() + (initial * ways).sum()
    np.testing.assert_allclose(found, (total(1e-6) - total(-1e-6)) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("sizes", [(9, 5, 3), (16, 257, 33), (1, 0, 4), (130, 3, 1)], ids=str)
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrix_product(sizes, mirrored, dtype):
    high, deep, width = sizes
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(dtype) for shape in ((high, deep), (deep, width)))
    along = (1, high) if mirrored else (deep, 1)
    given = np.ascontiguousarray(a.T if mirrored else a).reshape(-1)
    for units in (1, 2):
        out, sums, memory = (np.full(shape, np.nan, dtype) for shape in ((high, width), high + 8, units * 164096))
        share = -(-high // (8 * units)) * 8
        numbers = np.array([*along, width, width, high, deep, share])
        run("matrix_product", given, b.reshape(-1), out.reshape(-1), sums, memory, numbers, width, 0, units)
        exact = 1e-12 if dtype is np.float64 else 1e-4
        np.testing.assert_allclose(out, a @ b, atol=exact)
        if mirrored and high > 1:
            np.testing.assert_allclose(sums[:high], a.sum(1), atol=exact)
