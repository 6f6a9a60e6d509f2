"""Encodings in functions that the caller compiles: what they hold, one sequence, all of them, and on the way back."""

import dataclasses

import native_encoding
import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, prange, typed, types

import seqformats as sf
from seqformats.numba_types.sequences import cut, sequence_of, slice_below

pytestmark = pytest.mark.passes("compiled", reason="the functions of users are compiled in no other pass")

KINDS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed, sf.LoD)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=oracle.format_name)
LENGTHS = [2, 0, 3]


def batch(kind=sf.Ragged, **options):
    return sf.convert(sf.Ragged(np.array([1.0, -2, 3, 4, -5]), LENGTHS), kind, **options)


@njit
def same(x):
    return x


@njit
def length_of(x):
    return len(x)


@njit
def one(x, i):
    return x[i]


@njit
def one_and_all(x, i):
    return x[i], x


@njit
def sums(x):
    out, k = np.zeros(len(x)), 0
    for sequence in x:
        out[k] = sequence.sum()
        k += 1  # noqa: SIM113  iteration alone is looked at here
    return out


@njit(parallel=True)
def sums_in_threads(x):
    out = np.zeros(len(x))
    for i in prange(len(x)):
        out[i] = x[i].sum()
    return out


# --- fields ----------------------------------------------------------------------------------------------------------


@njit
def common(x):
    return x.data, x.rows, x.max_length, x.item_shape


@every_kind
def test_fields_are_those_of_python(kind):
    x = batch(kind)
    data, rows, longest, item = common(x)
    assert data is x.data
    assert (rows, longest, item) == (x.rows, x.max_length, x.item_shape)
    assert length_of(x) == len(x)


def fields_of(x):
    """The same function, compiled and not."""
    if isinstance(x, sf.Ragged):
        return lambda x: (x.lengths, x.offsets)
    if isinstance(x, sf.Masked):
        return lambda x: (x.lengths, x.mask, x.side)
    if isinstance(x, sf.LoD):
        return lambda x: x.lod
    return lambda x: (x.size_at_t, x.lengths, x.indices)


@pytest.mark.parametrize("x", [*map(batch, KINDS), batch(sf.Masked, side="left", width=4), batch(sf.Padded, width=5)])
def test_fields_of_each(x):
    read = fields_of(x)
    for compiled, plain in zip(njit(read)(x), read(x), strict=True):
        np.testing.assert_array_equal(compiled, plain)


def test_structure_is_read_only():
    @njit
    def write(x):
        x.lengths[0] = 1

    @njit
    def replace(x, lengths):
        x.lengths = lengths

    x = batch()
    with pytest.raises(Exception, match="[Cc]annot modify readonly"):
        write(x)
    with pytest.raises(Exception, match="lengths"):
        replace(x, x.lengths)


# --- sequences -------------------------------------------------------------------------------------------------------


@njit
def copied(x, out, lengths):
    """All items, sequence after sequence, by iteration, and once more by index."""
    k = j = 0
    for sequence in x.sequences():
        lengths[j] = len(sequence)
        j += 1  # noqa: SIM113
        for t in range(len(sequence)):
            out[k] = sequence[t]
            k += 1
    j = 0
    for i in range(len(x.sequences())):
        sequence = x.sequences()[i]
        for t in range(len(sequence)):
            if not np.all(sequence[t] == out[j]):
                return -1
            j += 1
    return k


@every_kind
@given(data=st.data())
def test_sequences_are_those_of_the_oracle(kind, data):
    """Few types, since each is compiled for itself; all lengths."""
    truth, x = data.draw(strategies.encoded(kind, levels=1, kinds=[np.dtype("i8")], shapes=[(2,)]))
    if not x.data.flags.writeable or not x.data.flags.aligned:  # other types, to be compiled for themselves
        x = kind(x.data.copy(), *[getattr(x, field.name) for field in dataclasses.fields(x)[1:]])
    out, lengths = np.full((x.rows, 2), -1), np.zeros(len(truth), np.int64)
    assert copied(x, out, lengths) == x.rows
    expected = oracle.build(sf.Ragged, truth)
    np.testing.assert_array_equal(lengths, expected.lengths)
    np.testing.assert_array_equal(out, expected.data)


@every_kind
@pytest.mark.parametrize("lengths", [[], [0], [0, 0], LENGTHS, [4]], ids=str)
def test_one_sequence(kind, lengths):
    x = sf.convert(sf.Ragged(np.arange(sum(lengths) * 1.0), lengths), kind)
    n = len(lengths)
    for i in range(-n, n):
        np.testing.assert_array_equal(one(x, i), x.sequences()[i])
    for i in (n, -n - 1, np.uint64(n), np.uint64(2**63), -(2**63)):
        with pytest.raises(IndexError):
            one(x, i)
    for wrap in (np.uint8, np.uint64, np.int32):
        for i in range(n):
            np.testing.assert_array_equal(one(x, wrap(i)), x.sequences()[i])


@pytest.mark.parametrize("side", ["left", "right"])
def test_one_sequence_of_a_masked(side):
    x = batch(sf.Masked, side=side, width=4)
    for i in range(3):
        np.testing.assert_array_equal(one(x, i), x.sequences()[i])
    assert same(x).side == side


@every_kind
def test_sequences_are_views(kind):
    """But of a `Packed`, whose items are apart."""
    x = batch(kind)
    assert np.shares_memory(one(x, 2), x.data) == (kind is not sf.Packed)
    one(x, 2)[0] = 7
    assert x.sequences()[2][0] == (3 if kind is sf.Packed else 7)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    list(zip((*KINDS, sf.Ragged, sf.Ragged), ("?", "f4", "i1", "u8", "c8", "M8[s]", "S3"), strict=True)),
    ids=lambda part: getattr(part, "__name__", part),
)
def test_dtypes(kind, dtype):
    """Each with one encoding, since each is compiled for itself."""
    x = sf.convert(sf.Ragged(np.arange(5).astype(dtype), LENGTHS), kind)
    sequence, y = one_and_all(x, 2)
    np.testing.assert_array_equal(sequence, x.sequences()[2])
    oracle.assert_same(y, x)


@every_kind
@pytest.mark.parametrize("items", [(2, 3), (0, 3)], ids=str)  # of one type, which is compiled once
def test_item_shapes(kind, items):
    data = np.arange(5.0 * items[0] * items[1]).reshape(5, *items)
    x = sf.convert(sf.Ragged(data, LENGTHS), kind)
    sequence, y = one_and_all(x, 2)
    np.testing.assert_array_equal(sequence, x.sequences()[2])
    oracle.assert_same(y, x)


@every_kind
def test_loops(kind):
    x = batch(kind)
    expected = [sequence.sum() for sequence in x.sequences()]
    np.testing.assert_array_equal(sums(x), expected)
    if kind in (sf.Ragged, sf.Masked):
        np.testing.assert_array_equal(sums_in_threads(x), expected)


def test_zip_and_enumerate():
    @njit
    def weighed(x, y):
        total = 0.0
        for i, (a, b) in enumerate(zip(x, y)):  # noqa: B905  Numba has no strict
            total += i * a.sum() * b.size
        return total

    assert weighed(batch(), batch(sf.Padded)) == 2 * 2 * 3


# --- levels ----------------------------------------------------------------------------------------------------------


@njit
def deep(x):
    found = typed.List.empty_list(types.float64)
    for chapter in x:
        for paragraph in chapter:
            for sentence in paragraph:
                found.append(sentence.sum() if len(sentence) else -1.0)
    return found


def three_levels():
    return sf.LoD(np.arange(7.0), [[0, 1, 1, 3], [0, 2, 3, 3], [0, 2, 2, 7]])


def test_levels():
    x = three_levels()
    assert list(deep(x)) == [1.0, -1.0, 20.0]
    for i in (0, 1, 2, -1):
        expected = x[i].sub(0, x.lod[0][i % 3 + 1] - x.lod[0][i % 3], 1)
        oracle.assert_same(one(x, i), expected)
        assert np.shares_memory(one(x, i).data, x.data) == bool(expected.rows)
    with pytest.raises(IndexError):
        one(x, 3)
    assert len(njit(lambda x: x.sequences()[2])(x)) == 5
    assert common(x)[1:3] == (7, 5)
    oracle.assert_same(same(x), x)


def test_the_longest_of_a_part():
    assert [njit(lambda x, i: x[i].max_length)(three_levels(), i) for i in range(3)] == [2, 0, 5]


def test_chunks_are_read_as_what_they_hold():
    chunks = sf.chunk(batch(), 2)
    assert isinstance(same(chunks), sf.LoD)
    oracle.assert_same(same(chunks), sf.LoD(chunks.data, chunks.lod))


def test_plain_twins_of_compiled_functions():
    x = three_levels()
    assert slice_below(x.lod[:-1], 0, 1) == (0, 2)
    assert [part.tolist() for part in cut(x.lod[1:], 1, 3)] == [[0, 1, 1], [0, 5]]
    assert sequence_of(x, 2).tolist() == [2, 3, 4, 5, 6]


# --- on the way back -------------------------------------------------------------------------------------------------


@every_kind
def test_a_batch_comes_back(kind):
    x = batch(kind, **({"side": "left"} if kind is sf.Masked else {}))
    y = same(x)
    assert type(y) is kind
    oracle.assert_same(y, x)
    assert y.data is x.data
    with pytest.raises(ValueError):
        (y.lod[0] if kind is sf.LoD else y.lengths)[0] = 7
    oracle.assert_same(sf.convert(y, sf.Ragged), sf.convert(x, sf.Ragged))


def test_in_other_things():
    x, y = batch(), batch(sf.Masked)

    @njit
    def of_tuple(pair):
        return pair[0][0].sum() + len(pair[1]), pair

    total, (a, b) = of_tuple((x, y))
    assert total == 2.0
    oracle.assert_same(a, x)
    oracle.assert_same(b, y)

    @njit
    def of_list(batches):
        total = 0.0
        for each in batches:
            for sequence in each:
                total += sequence.sum()
        return total, batches[-1]

    total, last = of_list(typed.List([x, x]))
    assert total == 2.0
    oracle.assert_same(last, x)

    @njit
    def maybe(x, wanted):
        if wanted:
            return x
        return None

    assert maybe(x, False) is None
    oracle.assert_same(maybe(x, True), x)

    @njit
    def or_none(x=None):
        return -1 if x is None else len(x)

    assert (or_none(), or_none(None), or_none(x)) == (-1, -1, 3)


def test_called_by_others_without_the_lock():
    @njit(nogil=True)
    def outer(x):
        return length_of(x) + one(x, 0)[0]

    assert outer(batch()) == 4.0


def test_an_error_may_be_caught():
    @njit
    def guarded(x):
        try:
            return one(x, 9).sum() + x[8].sum()
        except Exception:  # Numba knows no other
            return x[0].sum()

    assert guarded(batch()) == -1.0


def test_data_that_may_not_be_written():
    data = np.arange(5.0)
    data.flags.writeable = False
    x = sf.Ragged(data, LENGTHS)
    assert not one(x, 0).flags.writeable
    assert not same(x).data.flags.writeable

    @njit
    def write(x):
        x.data[0] = 1

    with pytest.raises(Exception, match="readonly"):
        write(x)


# --- what does not go in ---------------------------------------------------------------------------------------------


def test_what_does_not_go_in():
    for x, message in [
        (sf.Ragged(np.arange(5).astype(">i4"), LENGTHS), "byte order of the machine"),
        (native_encoding.Strided(np.arange(4), [2, 1], 2), "Strided does not go into a compiled function; sf.convert"),
        (sf.Ragged(np.zeros(5, np.longdouble), LENGTHS), "Numba has no type for data of dtype"),
    ]:
        with pytest.raises(TypeError, match=message) as error:
            length_of(x)
        assert "\n" not in str(error.value)


def test_data_that_has_changed_its_shape():
    data = np.arange(5.0)
    x = sf.Ragged(data, LENGTHS)
    assert length_of(x) == 3
    data.resize(2, refcheck=False)
    with pytest.raises(TypeError, match="build a new one"):
        length_of(x)


@pytest.mark.peers
def test_tensors_do_not_go_in():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match='sf.to\\(x, "numpy"\\)'):
        length_of(sf.Ragged(torch.arange(5), LENGTHS))
    x = sf.to(sf.Ragged(torch.arange(5), LENGTHS), "numpy")
    assert length_of(x) == 3
