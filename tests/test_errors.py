"""The sentences of errors: what was asked, what was given, what would work."""

import subprocess
import sys

import numpy as np
import pytest
from checks import words_of

import seqformats as sf
from seqformats import errors

WORDS = np.arange(5.0)
VECTORS = np.zeros((5, 2))


def ragged():
    return sf.Ragged(WORDS, [2, 0, 3])


def lod():
    return sf.LoD(np.arange(7), [[0, 2, 3], [0, 2, 4, 7]])


SENTENCES = [
    (
        lambda: sf.Ragged(WORDS, [2, 4]),
        sf.StructureError,
        "lengths add up to 6, but data has 5 rows",
    ),
    (
        lambda: sf.Ragged(WORDS, [2, -1, 4]),
        sf.StructureError,
        "lengths must not be negative, but lengths[1] is -1",
    ),
    (
        lambda: sf.Ragged(WORDS, [2.0, 3.0]),
        TypeError,
        "lengths must be integers, but one of them is 2.0",
    ),
    (
        lambda: sf.Ragged(WORDS, np.array([2.0, 3.0])),
        TypeError,
        "lengths must be integers, not float64",
    ),
    (
        lambda: sf.Ragged(WORDS, [True, 4]),
        TypeError,
        "lengths must be integers, but one of them is True",
    ),
    (
        lambda: sf.Ragged(WORDS, 5),
        TypeError,
        "lengths must be a sequence of integers, not int",
    ),
    (
        lambda: sf.Ragged(WORDS, [2**63]),
        sf.StructureError,
        "lengths must fit int64, but one of them is 9223372036854775808",
    ),
    (
        lambda: sf.Ragged(WORDS, [[2], [3]]),
        TypeError,
        "lengths must be integers, but one of them is [2]",
    ),
    (
        lambda: sf.Ragged([1, 2], [2]),
        TypeError,
        "data must be an array, not list; np.asarray(...) makes one",
    ),
    (
        lambda: sf.Ragged(np.array(3.0), [1]),
        sf.StructureError,
        "data must have the axes (rows, *item), but has shape ()",
    ),
    (
        lambda: sf.Ragged(np.array([None]), [1]),
        TypeError,
        "data has dtype object, whose items are Python objects; they cannot be moved as bytes",
    ),
    (
        lambda: sf.Ragged.from_offsets(WORDS, [0, 3, 2, 5]),
        sf.StructureError,
        (
            "offsets must never fall, but offsets[2] is 2 after 3; "
            "relative offsets are the cumulated lengths, beginning with 0"
        ),
    ),
    (
        lambda: sf.Ragged.from_offsets(WORDS, [1, 5]),
        sf.StructureError,
        "offsets must begin with 0, but offsets[0] is 1",
    ),
    (
        lambda: sf.Ragged.from_offsets(WORDS, [0, 4]),
        sf.StructureError,
        "offsets must end with 5, since data has 5 rows, but end with 4",
    ),
    (
        lambda: sf.Ragged.from_offsets(WORDS, []),
        sf.StructureError,
        "offsets must begin with 0; no sequence at all is [0]",
    ),
    (
        lambda: sf.Masked(VECTORS, [2, 2, 2, 2, 3]),
        sf.StructureError,
        "lengths[4] is 3, but data is only 2 wide",
    ),
    (
        lambda: sf.Masked(VECTORS, [1], "top"),
        sf.StructureError,
        'side must be "right" or "left", not \'top\'',
    ),
    (
        lambda: sf.Masked.from_mask(np.zeros((1, 3)), np.array([[1, 0, 1]])),
        sf.StructureError,
        "every row of a mask must be True first and False after, or the other way round; row 0 is [1, 0, 1]",
    ),
    (
        lambda: sf.Padded(np.zeros((2, 2)), [2, 1], [1, 2], [0, 1]),
        sf.StructureError,
        "lengths must fall, but lengths[1] is 2 after 1",
    ),
    (
        lambda: sf.Padded(np.zeros((2, 2)), [2, 1], [2, 1], [0, 0]),
        sf.StructureError,
        "indices must hold every position from 0 to 1 once, but indices[1] is 0",
    ),
    (
        lambda: sf.Padded(np.zeros((2, 2)), [2, 2], [2, 1], [0, 1]),
        sf.StructureError,
        "size_at_t[1] must count the sequences longer than 1, which are 1, not 2",
    ),
    (
        lambda: sf.LoD(WORDS, [[0, 3], [0, 2, 5]]),
        sf.StructureError,
        "lod[0] must end with 2, since lod[1] has 2 sequences, but end with 3",
    ),
    (
        lambda: sf.LoD(WORDS, [0, 5]),
        TypeError,
        "lod must be a sequence of levels, but lod[0] is 0",
    ),
    (
        lambda: sf.List([WORDS, VECTORS]),
        sf.StructureError,
        "items[1] has item shape (2,), but items[0] has ()",
    ),
    (
        lambda: sf.List([WORDS, WORDS.astype("f4")]),
        sf.StructureError,
        "items[1] has dtype float32, but items[0] has float64",
    ),
    (
        lambda: sf.Pairs(ragged(), WORDS),
        sf.StructureError,
        "one has 3 sequences, but two has 5",
    ),
    (
        lambda: ragged()[3],
        IndexError,
        "index 3 is out of range for 3 sequences",
    ),
    (
        lambda: ragged()[1.0],
        TypeError,
        "an index must be an integer, a slice, a mask or a list of integers, not float",
    ),
    (
        lambda: ragged()[np.array([True])],
        IndexError,
        "the mask has 1 places, but there are 3 sequences",
    ),
    (
        lambda: sf.convert(ragged(), sf.Masked, width=2),
        sf.ConversionError,
        "width=2 is too small: sequence 2 has 3 items; give truncate=True or a width of at least 3",
    ),
    (
        lambda: sf.convert(ragged(), sf.Masked, multiple_of=0),
        sf.ConversionError,
        "multiple_of must be at least 1, not 0",
    ),
    (
        lambda: sf.convert(ragged(), sf.Masked, width=3.0),
        TypeError,
        "width must be an integer, not 3.0",
    ),
    (
        lambda: sf.convert(sf.Ragged(np.arange(3), [1, 2]), sf.Masked, fill=0.5),
        sf.ConversionError,
        "fill=0.5 is not exact in int64 (it would become 0); give a value of that dtype",
    ),
    (
        lambda: sf.convert(ragged(), sf.Packed, fill=1),
        TypeError,
        "no option 'fill' on the way from Ragged to Packed; options there: none; Padded and Masked take fill=",
    ),
    (
        lambda: sf.convert(WORDS, sf.Masked),
        TypeError,
        "ndarray is no encoding; give it lengths, Ragged(data, lengths), or a list of such arrays",
    ),
    (
        lambda: sf.convert(ragged(), "Masked"),
        TypeError,
        "the target of a conversion must be a type such as Ragged, not a name; give sf.Masked",
    ),
    (
        lambda: sf.convert(ragged(), int),
        sf.ConversionError,
        "no conversion from Ragged to int; Ragged converts to: List, LoD, Masked, Packed, Padded, list",
    ),
    (
        lambda: sf.convert(lod(), sf.Ragged, level=2),
        IndexError,
        "there is no level 2; LoD has 2, outermost first",
    ),
    (
        lambda: sf.convert_like(ragged(), lod()[:1]),
        sf.StructureError,
        "2 sequences were expected, as in the LoD, but there are 3",
    ),
    (
        lambda: sf.LoD.from_nested([1, 2]),
        sf.StructureError,
        (
            "nested lists hold sequences, but element 0 is 1, a single item; "
            "one sequence alone is [[...]], a list with one list in it"
        ),
    ),
    (
        lambda: sf.with_padded(lambda x: x)(5, 2.5),
        TypeError,
        "with_padded needs an encoding or a list of arrays among its arguments, but got: int, float",
    ),
    (
        lambda: sf.with_padded(lambda x: x[1:])(ragged()),
        sf.StructureError,
        "with_padded: 3 sequences were expected back from the function, but there are 2",
    ),
    (
        lambda: sf.with_padded(lambda x: None)(ragged()),
        TypeError,
        "with_padded: the function must return an encoding or an array, not NoneType",
    ),
    (
        lambda: sf.with_padded(lambda x: x, side="left"),
        TypeError,
        (
            "with_padded has no option 'side'; it has: backprop, dtype, fill, level, like, multiple_of, truncate, "
            'width; Masked takes side="right" or "left"'
        ),
    ),
    (
        lambda: sf.vjp(sf.lengths, ragged()),
        TypeError,
        "lengths has no gradient rule; sf.operation makes one of a function and its gradient",
    ),
    (
        lambda: sf.vjp(sf.reduce_sum, sf.Ragged(np.arange(3), [3])),
        TypeError,
        "a sum of int64 has no gradient; give the items a float dtype",
    ),
    (
        lambda: sf.reduce_mean(ragged(), empty="raise"),
        sf.StructureError,
        "sequence 1 is empty; give empty=0.0 or another value for it",
    ),
    (
        lambda: sf.to_device(ragged(), "tpu"),
        sf.DeviceError,
        "NumPy arrays go to \"cuda\", as Numba device arrays, but not to 'tpu'",
    ),
    (
        lambda: ragged()[[1, 2**65]],
        IndexError,
        "index 36893488147419103232 is out of range for 3 sequences",
    ),
    (
        lambda: ragged()[::0],
        IndexError,
        "the step of a slice must not be 0",
    ),
    (
        lambda: sf.reshape(ragged(), 2**65),
        sf.ConversionError,
        "width must fit int64, but is 36893488147419103232",
    ),
    (
        lambda: sf.position_ids(ragged(), 2**63 - 1),
        sf.StructureError,
        "start[0] is 9223372036854775807; 2 positions from there go beyond int64",
    ),
    (
        lambda: sf.conv(sf.Ragged(np.array(["a", "b"]), [2]), np.array([["a"]]), 0, 0),
        TypeError,
        "numpy has no matrix product of <U1",
    ),
    (
        lambda: sf.convert(ragged(), {3}),  # which has no hash
        TypeError,
        "the target of a conversion must be a type such as Ragged, not {3}",
    ),
    (
        lambda: sf.pack_bins([sf.TensorArray.unpack(ragged()), 5], 8),
        TypeError,
        "lengths must be integers, but one of them is TensorArray(3 steps of [2, 2, 1])",
    ),
    (
        lambda: sf.convert_like(sf.Pairs(ragged(), ragged()), ragged()),
        TypeError,
        "Pairs go back to Pairs alone, not to Ragged; take y.one or y.two",
    ),
    (
        lambda: sf.LoD.from_absolute(WORDS, [[0, 5]], empties=np.array(["left", "right"])),
        TypeError,
        "empties must be \"raise\", \"left\" or \"right\", not array(['left', 'right'], dtype='<U5')",
    ),
    (
        lambda: sf.Prune(relative=10**400),
        sf.ConversionError,
        f"relative must be above 0 and at most 1, not {errors.quote(10**400)}",
    ),
    (
        lambda: sf.RepetitionPenalty(-(10**400)),
        sf.ConversionError,
        f"penalty must be above 0, and between 1e-30 and 1e30, not {errors.quote(-(10**400))}",
    ),
    (
        lambda: sf.DiverseGroups(2, 1e308),
        sf.ConversionError,
        "penalty must be at least 0, and below 1e30, not 1e+308",
    ),
    (
        lambda: sf.RepetitionPenalty(np.complex64(1)),
        TypeError,
        f"penalty must be a number, not {np.complex64(1)!r}",
    ),
    (
        lambda: sf.beam_step(
            np.zeros(1, int), np.array(["a"]), None, sf.LoD(np.zeros((1, 2)), [[0, 1], [0, 1]]), beam_size=2, end=0
        ),
        TypeError,
        "pre_scores must be real numbers, not <U1",
    ),
    (
        lambda: sf.LoD.from_nested([[1]], dtype="nonsense"),
        TypeError,
        "dtype must be a dtype of NumPy, not 'nonsense': data type 'nonsense' not understood",
    ),
    (
        lambda: sf.with_padded(lambda x: x, backprop=np.zeros(2)),
        TypeError,
        "backprop must be True or False, not array([0., 0.])",
    ),
    (
        lambda: sf.convert(ragged(), np.zeros(2)),
        TypeError,
        "the target of a conversion must be a type such as Ragged, not array([0., 0.])",
    ),
    (
        lambda: sf.convert(sf.convert(ragged(), sf.Ragged), sf.Masked, multiple_of=10**5000),
        sf.ConversionError,
        "multiple_of must fit int64, but is an int of 16610 bits",
    ),
]


@pytest.mark.parametrize(("use", "kind", "sentence"), SENTENCES, ids=[sentence[:50] for *_, sentence in SENTENCES])
def test_sentences(use, kind, sentence):
    with pytest.raises(kind) as caught:
        use()
    assert caught.type is kind
    assert words_of(caught.value) == sentence


def test_a_changed_array_is_described():
    x = ragged()
    x = sf.Ragged(np.zeros((5, 2)), x.lengths)
    x.data.resize((4, 2), refcheck=False)
    with pytest.raises(sf.StructureError) as caught:
        sf.convert(x, sf.Masked)
    assert words_of(caught.value) == (
        "data was float64 of shape (5, 2) when this Ragged was built, "
        "but is float64 of shape (4, 2) now; build a new one"
    )


def test_all_kinds_are_value_errors():
    for kind in (sf.StructureError, sf.ConversionError, sf.DeviceError):
        assert issubclass(kind, sf.SeqFormatError)
    assert issubclass(sf.SeqFormatError, ValueError)


class Lone:
    """An array that shows itself through DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_of_libraries_that_are_not_known_are_taken_everywhere():
    def lone(*values):
        return Lone(np.array(values))

    x = sf.Ragged(lone(1, 2, 3), lone(2, 1))
    assert x[lone(1, 0)].data.tolist() == [3, 1, 2]
    assert sf.LoD(np.arange(3), [lone(0, 1, 3)]).lengths() == [[1, 2]]
    assert sf.LoD(np.arange(3), Lone(np.array([[0, 3]]))).lengths() == [[3]]
    assert sf.LoD.from_nested([[lone(1, 2)], [lone(3)]]).to_nested() == [[[1, 2]], [[3]]]
    assert sf.slice(x, lone(1, 0), lone(1, 1)).data.tolist() == [2, 3]
    assert sf.position_ids(x, Lone(np.array(5))).tolist() == [5, 6, 5]
    assert sf.Pairs(x, lone(7, 8))[1].two.tolist() == [8]
    assert sf.mask(lone(1, 2)).tolist() == [[True, False], [True, True]]
    assert sf.TensorArray([lone(1, 2), lone(3)]).pack().lengths() == [[2, 1]]
    assert sf.with_flatten(lambda items: lone(4, 5, 6))(x).data.tolist() == [4, 5, 6]


class Lonely:
    """`__dlpack__` without what belongs to it."""

    def __dlpack__(self, **options):
        raise AssertionError


@pytest.mark.parametrize(
    "use",
    [
        lambda lone: sf.Ragged(np.zeros(3), lone),
        lambda lone: ragged()[lone],
        lambda lone: sf.LoD(np.zeros(3), lone),
        lambda lone: sf.slice(ragged(), lone, 0),
        lambda lone: sf.Pairs(ragged(), lone),
        lambda lone: sf.LoD.from_nested([[lone]]),
        lambda lone: sf.AllowedTokens([lone]),
        lambda lone: sf.TensorArray([lone]),
    ],
)
def test_half_an_array_is_none(use):
    with pytest.raises(TypeError, match="must be an array, not Lonely"):
        use(Lonely())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_signalling_nans_are_compared_quietly(dtype, recwarn):
    bits = {"f4": 0x7F800001, "f8": 0x7FF0000000000001}[dtype]
    nan = np.array([bits], f"u{np.dtype(dtype).itemsize}").view(dtype)
    x = sf.Ragged(nan, [1])
    assert not sf.equal(x, x)
    assert sf.equal(x, x, equal_nan=True)
    assert not recwarn.list


def test_equal_looks_whether_data_has_changed():
    x, y = (sf.Ragged(np.zeros((5, 2)), [2, 3]) for _ in range(2))
    x.data.resize((4, 2), refcheck=False)
    for a, b in ((x, y), (y, x), (x, x)):
        with pytest.raises(sf.StructureError, match="now; build a new one"):
            sf.equal(a, b)


def test_large_sums_of_halves_are_infinite_without_a_word(recwarn):
    x = sf.Ragged(np.full(3, 60_000, np.float16), [3])
    assert sf.reduce_sum(x).tolist() == [np.inf]
    assert not recwarn.list


@pytest.mark.parametrize("dtype", ["U0", "S0", "V0", [], "V0,V0"])
def test_items_without_bytes(dtype):
    x = sf.Ragged(np.zeros(3, np.dtype(dtype)), [2, 0, 1])
    for kind in (sf.List, sf.Padded, sf.Packed, sf.Masked, sf.LoD):
        y = sf.convert(x, kind)
        assert sf.equal(sf.convert(y, sf.Ragged), x)
        assert sf.reverse(y).rows == sf.concat([y, y]).rows // 2 == 3
    assert [len(part) for part in sf.convert(x, list)] == [2, 0, 1]
    assert sf.convert(x, sf.Masked, width=4).data.shape == (3, 4)


@pytest.mark.passes("compiled", reason="it imports nothing")
def test_the_package_of_a_library_that_is_not_there():
    script = """
import sys
sys.modules["jax"] = None
import seqformats as sf
try:
    sf.jax.register
except AttributeError as error:
    print(error)
try:
    from seqformats import jax
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    needed = "jax is needed here; pip install 'seqformats[jax]'\n"
    assert done.stdout == f"module 'seqformats' has no attribute 'jax': {needed}{needed}"
