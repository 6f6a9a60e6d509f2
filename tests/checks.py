"""What the tests of operations share: parts of encodings, results beside truths, and slopes beside differences."""

import numpy as np
import oracle

import seqformats as sf

# ---------------------------------------------------------------------------------------- errors


def words_of(error):
    """The sentence of an error without the code of its mistake, which it must have."""
    words, code = str(error).removesuffix("]").rsplit(" [", 1)
    assert code == error.code
    return words


# ---------------------------------------------------------------------------------------- parts of encodings


def rows(x):
    """The items of any encoding, sequence by sequence."""
    return oracle.read(x).data()


def on_arrays(x, function):
    """`function` on the arrays that hold an encoding's items, as `fn` may return them."""
    return [function(item) for item in x.items] if isinstance(x, sf.List) else function(x.data)


def structure_of(x):
    """Everything about an encoding but its items."""
    if isinstance(x, (list, tuple)):
        return type(x), oracle.read(x).counts()
    fields = {name: getattr(x, name).tolist() for name in ("lengths", "indices", "size_at_t") if has_array(x, name)}
    if isinstance(x, sf.LoD):
        fields["lod"] = [offsets.tolist() for offsets in x.lod]
    return type(x), fields, getattr(x, "side", None), oracle.read(x).counts(), width_of(x)


def has_array(x, name):
    return isinstance(getattr(x, name, None), np.ndarray)


def width_of(x):
    return x.data.shape[:2] if isinstance(x, (sf.Padded, sf.Masked)) else None


def with_rows(x, new):
    """`x` with other items, in the caller's order."""
    return sf.convert_like(sf.Ragged(new, oracle.read(x).lengths()), x)


def filled_like(x, seed, dtype=None):
    """`x` with random small whole numbers, so that sums are exact."""
    old = rows(x)
    return with_rows(x, np.random.default_rng(seed).integers(-9, 9, old.shape).astype(dtype or old.dtype))


def dot(a, b):
    """The inner product of two batches, or arrays, over their items."""
    a, b = (rows(x) if not isinstance(x, np.ndarray) else x for x in (a, b))
    assert a.shape == b.shape
    return (a * b).sum()


# -------------------------------------------------------------------------------------- results and truths


def mapped(truth, function, item_shape=None, dtype=None):
    """The truth with ``function(items, i)`` for the items of its innermost sequence number i."""
    numbers = iter(range(len(truth.sequences())))

    def part(children, depth):
        return [part(child, depth - 1) if depth else function(child, next(numbers)) for child in children]

    return oracle.Truth(
        part(truth.nest, truth.levels - 1),
        truth.dtype if dtype is None else np.dtype(dtype),
        truth.item_shape if item_shape is None else item_shape,
        truth.levels,
    )


def in_lists(truth, x):
    """The truth as the bare lists that an operation returns for the bare lists `x`."""
    return oracle.nested(truth, "arrays" if any(isinstance(part, np.ndarray) for part in x) else "scalars")


def assert_kept(found, x, truth):
    """The encoding of `x`, or bare lists for bare lists, holding the truth bit for bit."""
    if isinstance(x, (list, tuple)):
        oracle.assert_nested(found, in_lists(truth, x))
        return
    assert type(found) is type(x)
    assert getattr(found, "side", None) == getattr(x, "side", None)
    oracle.assert_holds(found, truth)


def assert_result(found, x, truth):
    """`assert_kept`, and new padding is zero."""
    assert_kept(found, x, truth)
    if found is not x:
        assert_padding_is_zero(found)


def assert_padding_is_zero(x):
    if isinstance(x, sf.Masked):
        assert not any(x.data[~x.mask].tobytes())
    elif isinstance(x, sf.Padded):
        assert not any(x.data[np.arange(len(x.data))[:, None] >= x.lengths].tobytes())


# ------------------------------------------------------------------------------------------------ slopes


def noise(x, seed):
    """Small whole numbers laid out as `x`."""
    if isinstance(x, np.ndarray):
        return np.random.default_rng(seed).integers(-9, 9, x.shape).astype(x.dtype)
    return filled_like(x, seed)


def moved(x, direction, step):
    if isinstance(x, np.ndarray):
        return x + step * direction
    return with_rows(x, rows(x) + step * rows(direction))


def layout_of(x):
    return (x.shape, x.dtype) if isinstance(x, np.ndarray) else structure_of(x)


def assert_slopes(call, operands, step=1.0):
    """The pullback against central differences in each operand, along a random direction; float64.

    ``call(*operands)`` gives the result and its pullback, which gives one gradient, or a tuple of one an operand. What
    is linear in each operand is compared exactly: all numbers are small and whole, and so is the step. Other
    operations want a small one.
    """
    y, pullback = call(*operands)
    dy = noise(y, 1)
    found = pullback(dy)
    for k, (x, dx) in enumerate(zip(operands, found if isinstance(found, tuple) else (found,), strict=True)):
        assert layout_of(dx) == layout_of(x)
        assert_padding_is_zero(dx)
        direction = noise(x, 2 + k)
        ends = [(*operands[:k], moved(x, direction, sign * step), *operands[k + 1 :]) for sign in (1, -1)]
        up, down = (dot(dy, call(*end)[0]) for end in ends)
        slope = (up - down) / (2 * step)
        if step == 1:
            assert slope == dot(dx, direction)
        else:
            assert abs(slope - dot(dx, direction)) <= 1e-6 * (1 + np.abs(rows(direction)).sum())
