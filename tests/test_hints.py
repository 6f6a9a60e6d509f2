"""What people from elsewhere try first: it works, or the error says what does."""

import collections
import dataclasses
import traceback
import types

import numpy as np
import pytest
from checks import words_of

import seqformats as sf
from seqformats import registry

pytestmark = pytest.mark.passes("compiled", reason="errors are the same in every pass")

X = sf.Ragged(np.arange(7.0), [2, 4, 1])


def sentence(kind, use):
    with pytest.raises(kind) as caught:
        use()
    assert caught.type is kind
    return words_of(caught.value)


def foreign(module, name, *bases):
    """An object of a class called so, in a module called so."""
    kind = types.new_class(name, bases)
    kind.__module__ = module
    return kind()


# ------------------------------------------------------------------------------------- batches of other libraries

FOREIGN = {
    ("pyarrow.lib", "RecordBatch"): "sf.from_table(x)",
    ("pyarrow.lib", "Table"): "sf.from_table(x)",
    ("pandas.core.frame", "DataFrame"): "sf.from_table(x)",
    ("polars.dataframe.frame", "DataFrame"): "sf.from_table(x)",
    ("datasets.arrow_dataset", "Dataset"): 'with_format("arrow")',
    ("pandas.core.series", "Series"): "x.tolist()",
    ("polars.series.series", "Series"): "x.to_list()",
    ("awkward.highlevel", "Array"): "sf.from_awkward(x)",
    ("thinc.types", "Ragged"): "sf.Ragged(x.dataXd, x.lengths)",
    ("thinc.types", "Padded"): "sf.Padded(x.data, x.size_at_t, x.lengths, x.indices)",
    ("scipy.sparse._csr", "csr_array"): "x.indptr",
    ("tensorflow.python.ops.ragged", "RaggedTensor"): "row_splits",
}


@pytest.mark.parametrize(("module", "name"), FOREIGN, ids=".".join)
@pytest.mark.parametrize(
    "use",
    [
        lambda x: sf.convert(x, sf.Masked),
        lambda x: sf.reduce_sum(x),
        lambda x: sf.with_masked(lambda m: m)(x),
        lambda x: sf.vjp(sf.convert, x, sf.Masked),
        lambda x: sf.convert_like(x, X),
        lambda x: sf.convert_like(X, x),
        lambda x: sf.with_masked(lambda m: x)(X),
        lambda x: sf.lengths(x),
    ],
    ids=["convert", "reduce_sum", "with_masked", "vjp", "convert_like", "like", "returned", "lengths"],
)
def test_a_batch_of_another_library(module, name, use):
    assert FOREIGN[module, name] in sentence(TypeError, lambda: use(foreign(module, name)))


def test_columns():
    """A dict is a batch where something is done column by column, and an error elsewhere."""
    said = sentence(TypeError, lambda: sf.reduce_sum({"ids": X}))
    assert said.startswith("dict is no single batch; ")
    assert 'x["ids"]' in said
    batch = foreign("transformers.tokenization_utils_base", "BatchEncoding", collections.UserDict)
    assert 'from_mask(x["input_ids"], x["attention_mask"])' in sentence(TypeError, lambda: sf.convert(batch, sf.Ragged))


def test_a_dataclass_of_another_library():
    """It holds no columns, whatever its fields are."""
    kind = dataclasses.make_dataclass("Ragged", [("dataXd", object), ("lengths", object)])
    kind.__module__ = "thinc.types"
    assert "x.dataXd" in sentence(TypeError, lambda: sf.convert(kind([[1, 2]], [2]), sf.Masked))


def test_a_packed_sequence_is_no_tuple_of_arrays():
    kind = collections.namedtuple("PackedSequence", "data batch_sizes")
    kind.__module__ = "torch.nn.utils.rnn"
    packed = kind(np.zeros(3), np.array([2, 1]))
    for use in (lambda x: sf.convert(x, sf.Ragged), sf.with_ragged(lambda r: r)):
        assert "sf.Packed.from_torch(x)" in sentence(TypeError, lambda use=use: use(packed))


def test_an_array_of_arrays():
    x = np.empty(2, object)
    x[:] = [np.zeros(1), np.zeros(2)]
    assert sf.convert(x, sf.Ragged).lengths.tolist() == [1, 2]
    assert "x.tolist()" in sentence(TypeError, lambda: sf.reduce_sum(x))


def test_what_is_nothing_of_the_kind():
    assert sentence(TypeError, lambda: sf.convert(None, sf.Ragged)) == (
        "NoneType is no encoding; give it lengths, Ragged(data, lengths), or a list of arrays"
    )
    assert "give list(x)" in sentence(TypeError, lambda: sf.convert((i for i in [1]), sf.Ragged))


# ------------------------------------------------------------------------------------------- names that clash


def test_a_class_of_the_same_name_is_called_by_its_module():
    x = foreign("elsewhere.types", "Ragged")
    assert sentence(TypeError, lambda: sf.convert(x, sf.Masked)).startswith("elsewhere.types.Ragged is no encoding")
    said = sentence(TypeError, lambda: sf.with_masked(lambda m: x)(X))
    assert "not elsewhere.types.Ragged" in said


@pytest.mark.usefixtures("tables")
def test_registered_classes_of_the_same_name():
    @dataclasses.dataclass(frozen=True)
    class Padded:
        inner: sf.Padded

    Padded.__module__ = "elsewhere.types"
    assert registry.label(sf.Padded) == "Padded"

    @sf.conversion(Padded, sf.Padded, shares=True)
    def inward(x):
        return x.inner

    @sf.conversion(sf.Padded, Padded, shares=True)
    def outward(x):
        return Padded(x)

    text = sf.explain(Padded, sf.Padded)
    assert "elsewhere.types.Padded -> seqformats.Padded" in text
    assert "elsewhere.types.Padded -> Ragged" in sf.explain(Padded, sf.Ragged)
    said = sentence(TypeError, lambda: sf.convert(X, Padded, bogus=1))
    assert "from Ragged to elsewhere.types.Padded" in said


# ------------------------------------------------------------------------------------ arguments of other names


@pytest.mark.parametrize(
    ("option", "target", "hint"),
    [
        ("max_length", sf.Masked, "width="),
        ("max_length", sf.Ragged, "sf.truncate(x, k)"),
        ("truncation", sf.Packed, "sf.truncate(x, k)"),
        ("width", sf.Ragged, "sf.slice("),
        ("width", sf.Packed, "sf.truncate(x, k)"),
        ("truncate", sf.Packed, "truncate=True"),
        ("padding_value", sf.Padded, "fill="),
        ("pad_token_id", sf.Masked, "fill="),
        ("fill", sf.Ragged, "Padded and Masked take fill="),
        ("pad_to_multiple_of", sf.Masked, "multiple_of="),
        ("padding_side", sf.Masked, "side="),
        ("side", sf.Padded, "Masked takes side="),
        ("batch_first", sf.Padded, "sf.Masked is batch-major"),
        ("device", sf.Masked, "sf.to_device"),
    ],
)
def test_options(option, target, hint):
    said = sentence(TypeError, lambda: sf.convert([np.arange(3), np.arange(1)], target, **{option: 2}))
    assert hint in said
    assert f"no option {option!r}" in said
    if wrapper := {sf.Masked: sf.with_masked, sf.Padded: sf.with_padded}.get(target):
        assert hint in sentence(TypeError, lambda: wrapper(lambda m: m, **{option: 2}))


@pytest.mark.parametrize(("option", "hint"), [("dtype", "sf.astype(x, dtype)"), ("library", "sf.to(x, ")])
def test_options_of_bare_lists(option, hint):
    assert hint in sentence(TypeError, lambda: sf.convert(X, sf.Masked, **{option: "numpy"}))


def test_the_cut_that_is_suggested():
    cut = sf.slice(X, 0, np.minimum(sf.lengths(X), 3))
    assert sf.convert(cut, list) == [[0, 1], [2, 3, 4], [6]]


def test_arguments_in_the_other_order():
    assert "convert(x, Masked)" in sentence(TypeError, lambda: sf.convert(sf.Masked, X))
    assert "give sf.Masked" in sentence(TypeError, lambda: sf.convert(X, "masked"))
    assert "sf.convert(x, sf.Ragged)" in sentence(TypeError, lambda: sf.Ragged([[1, 2], [3]]))
    assert "sf.convert(x, sf.Ragged)" in sentence(TypeError, lambda: sf.Ragged([np.zeros(2)], [2]))
    assert "Ragged.from_offsets(data, offsets)" in sentence(
        sf.StructureError, lambda: sf.Ragged(np.arange(5), [0, 2, 5])
    )
    assert "from_offsets" not in sentence(sf.StructureError, lambda: sf.Ragged(np.arange(5), [0, 2, 4]))
    mask = np.array([[True, False], [True, True]])
    assert "Masked.from_mask(data, mask)" in sentence(sf.StructureError, lambda: sf.Masked(np.zeros((2, 2)), mask))
    assert "sf.slice(x, start, length)" in sentence(TypeError, lambda: X[:, :5])


def test_the_fault_itself_is_named():
    assert sentence(sf.StructureError, lambda: sf.Ragged(np.arange(5), [6, -1])) == (
        "lengths must not be negative, but lengths[1] is -1"
    )


# -------------------------------------------------------------------------------------------------- wrappers


def test_a_second_bare_list():
    """Over the same sequences it can only be a batch; any other is passed on as ever, and named where that fails."""
    a, b = [np.arange(2), np.arange(3)], [np.ones(2), np.ones(3)]
    add = sf.with_masked(lambda x, y: x.data + y.data)
    for use in (lambda: add(a, b), lambda: add(a, y=b), lambda: add(a, [[1, 2], [3, 4, 5]])):
        said = sentence(TypeError, use)
        assert "only as the first argument" in said
        assert "sf.List(...)" in said
    assert [y.tolist() for y in add(a, sf.List(b))] == [[1, 2], [1, 2, 3]]
    weights = [np.ones(4), np.ones(4)]
    assert sf.with_masked(lambda x, w: (x, w))(a, weights)[1] is weights
    with pytest.raises(AttributeError) as caught:
        add(a, weights)
    assert ["argument 1" in note for note in caught.value.__notes__] == [True]
    with pytest.raises(AttributeError) as caught:
        add(sf.List(a), "text")
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("wrapper", [sf.with_masked, sf.with_ragged, sf.with_padded, sf.with_packed, sf.with_array])
def test_a_function_that_pools(wrapper):
    x = sf.Ragged(np.zeros((7, 2)), [2, 4, 1])
    said = sentence(sf.StructureError, lambda: wrapper(lambda m: np.zeros((3, 2)))(x))
    assert f"called without {wrapper.__name__}, on sf.convert(x, sf." in said
    assert "reduce_sum" not in sentence(sf.StructureError, lambda: wrapper(lambda m: np.zeros((2, 2)))(x))


# -------------------------------------------------------------------------------------------------- did you mean

MISSPELT = [
    (TypeError, lambda: sf.convert(X, sf.Masked, widht=3), "'width'"),
    (TypeError, lambda: sf.convert(X, sf.Masked, Truncate=True), "'truncate'"),
    (TypeError, lambda: sf.with_masked(lambda m: m, multipleof=8), "'multiple_of'"),
    (TypeError, lambda: X.to(dytpe="f4"), "'dtype'"),
    (TypeError, lambda: sf.beam_search(None, None, start=0, end=1, beam_sise=2, max_new_tokens=3), "'beam_size'"),
    (sf.ConversionError, lambda: sf.reduce(X, "men"), "'mean'"),
    (
        sf.ConversionError,
        lambda: sf.beam_search(
            lambda state: None, np.zeros(1), start=0, end=1, beam_size=2, max_new_tokens=3, rule="fairsec"
        ),
        "'fairseq'",
    ),
    (AttributeError, lambda: sf.converts, "'convert'"),
    (AttributeError, lambda: sf.ragged, "'Ragged'"),
]


@pytest.mark.parametrize(("kind", "use", "meant"), MISSPELT)
def test_a_misspelt_name_is_told_which_is_meant(kind, use, meant):
    with pytest.raises(kind) as caught:
        use()
    assert f"; did you mean {meant}?" in str(caught.value)


@pytest.mark.parametrize(
    "use", [lambda: sf.convert(X, sf.Masked, quux=3), lambda: sf.reduce(X, "zzz"), lambda: sf.quux, lambda: sf.__quux__]
)
def test_nothing_is_suggested_where_nothing_is_near(use):
    with pytest.raises((TypeError, sf.ConversionError, AttributeError)) as caught:
        use()
    assert "did you mean" not in str(caught.value)


def test_what_is_called_so_elsewhere():
    with pytest.raises(AttributeError, match=r"no attribute 'pad_sequence'; sf\.convert does what that does$"):
        _ = sf.pad_sequence
    assert not hasattr(sf, "flip")


def test_python_suggests_no_name_of_its_own_beside():
    with pytest.raises(AttributeError) as caught:
        _ = sf.converts
    assert "".join(traceback.format_exception(caught.value)).count("convert'") == 1


# ---------------------------------------------------------------------------------------------------- two of a kind


def test_time_major_data_for_a_batch_major_layout():
    hint = "; time-major data is given as data.swapaxes(0, 1)"
    assert hint in sentence(sf.StructureError, lambda: sf.Masked(np.zeros((7, 3, 2)), [7, 4, 2]))
    assert hint not in sentence(sf.StructureError, lambda: sf.Masked(np.zeros((7, 4)), [7, 4, 2]))
