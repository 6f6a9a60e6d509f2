"""Libraries that need a line each: SciPy's rows, spaCy's documents, pandas' columns of lists, files of safetensors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqformats as sf

pytestmark = pytest.mark.bridges

BATCHES = {
    "List": sf.List([np.array([1.0, 2.0]), np.array([3.0])]),
    "List of nothing": sf.List((), like=np.zeros((0, 3), np.float32)),
    "Ragged": sf.Ragged(np.arange(12, dtype=np.int32).reshape(6, 2), [4, 0, 2]),
    "no rows": sf.Ragged(np.zeros((0, 8), np.float16), [0, 0]),
    "no sequences": sf.Ragged(np.zeros(0, bool), []),
    "Padded": sf.convert([[1, 2], [3, 4, 5], []], sf.Padded),
    "Packed": sf.convert([[1, 2], [3, 4, 5], []], sf.Packed),
    "Masked": sf.convert([[1, 2], [3, 4, 5], []], sf.Masked, side="left", fill=-1),
    "LoD": sf.LoD.from_nested([[[1, 2], [3]], [], [[4]]]),
    "Pairs": sf.Pairs(sf.convert([[1], [2, 3]], sf.Ragged), np.array([0, 1])),
    "Chunks": sf.chunk([[1, 2, 3, 4], [5]], 2),
}


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", BATCHES.values(), ids=BATCHES)
def test_files_of_safetensors(x, tmp_path):
    from safetensors.numpy import load_file, save_file

    arrays = sf.to_arrays(x, "batch.")
    save_file(arrays, tmp_path / "batch.safetensors", metadata={"made": "here"})
    found = load_file(tmp_path / "batch.safetensors")
    assert sf.equal(sf.from_arrays(found, "batch."), x)
    assert {name: a.dtype for name, a in found.items()} == {name: a.dtype for name, a in arrays.items()}


@pytest.mark.parametrize("x", BATCHES.values(), ids=BATCHES)
def test_files_of_safetensors_for_tensors(x, tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    x = sf.Pairs(sf.to(x.one, "torch"), torch.tensor([0, 1])) if isinstance(x, sf.Pairs) else sf.to(x, "torch")
    save_file(sf.to_arrays(x), tmp_path / "batch.safetensors")
    y = sf.from_arrays(load_file(tmp_path / "batch.safetensors"))
    assert type(y) is type(x)
    assert sf.equal(y, x)


def test_tensors_of_dtypes_that_numpy_has_not(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    x = sf.Ragged(torch.arange(5, dtype=torch.bfloat16), [2, 0, 3])
    save_file(sf.to_arrays(x), tmp_path / "batch.safetensors")
    assert sf.equal(sf.from_arrays(load_file(tmp_path / "batch.safetensors")), x)


def test_tensors_that_a_file_is_opened_for(tmp_path):
    from safetensors import safe_open
    from safetensors.numpy import save_file

    x = sf.Ragged(np.arange(5), [2, 3])
    save_file({**sf.to_arrays(x, "x."), **sf.to_arrays(BATCHES["LoD"], "y.")}, tmp_path / "two.safetensors")
    with safe_open(tmp_path / "two.safetensors", "numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys() if name.startswith("y.")}  # noqa: SIM118
    assert sf.equal(sf.from_arrays(arrays, "y."), BATCHES["LoD"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("x", BATCHES.values(), ids=BATCHES)
def test_files_of_numpy(x, save, tmp_path):
    save(tmp_path / "batch.npz", **sf.to_arrays(x))
    with np.load(tmp_path / "batch.npz") as arrays:
        assert sf.equal(sf.from_arrays(arrays), x)


# --- SciPy -----------------------------------------------------------------------------------------------------------

sparse = pytest.importorskip("scipy.sparse")


@st.composite
def matrices(draw):
    shape = draw(st.tuples(st.integers(0, 5), st.integers(1, 5)))
    dense = np.array(draw(st.lists(st.integers(0, 2), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])))
    dtype = draw(st.sampled_from([np.float32, np.int64, np.complex128]))
    made = draw(st.sampled_from([sparse.csr_array, sparse.csr_matrix]))(dense.reshape(shape).astype(dtype))
    kind = draw(st.sampled_from([np.int32, np.int64]))
    made.indices, made.indptr = made.indices.astype(kind), made.indptr.astype(kind)
    return made


@given(matrices())
@settings(max_examples=100, deadline=None)
def test_the_rows_of_a_sparse_matrix(m):
    numbers, places = sf.Ragged.from_offsets(m.data, m.indptr), sf.Ragged.from_offsets(m.indices, m.indptr)
    dense = m.toarray()
    assert sf.convert(numbers, list) == [row[row != 0].tolist() for row in dense]
    assert sf.convert(places, list) == [np.flatnonzero(row).tolist() for row in dense]
    assert places.dtype == m.indices.dtype
    assert np.shares_memory(numbers.data, m.data) or not m.nnz
    back = sparse.csr_array((numbers.data, places.data, numbers.offsets), shape=m.shape)
    assert np.array_equal(back.toarray(), dense)
    assert np.array_equal(sf.reduce_sum(numbers), dense.sum(axis=1))


def test_tokens_of_each_text_are_counted():
    ids = sf.Ragged(np.array([5, 3, 5, 0]), [3, 0, 1])
    tokens = sf.unique(ids, counts=True)
    m = sparse.csr_array((tokens.counts.data, tokens.values.data, tokens.values.offsets), shape=(3, 6))
    assert m.toarray().tolist() == [[0, 0, 0, 1, 0, 2], [0] * 6, [1, 0, 0, 0, 0, 0]]


def test_an_error_says_the_way_in_for_a_matrix():
    for made in (sparse.csr_array, sparse.csr_matrix):
        with pytest.raises(TypeError, match=r"sf.Ragged.from_offsets\(x.data, x.indptr\)"):
            sf.convert(made(np.eye(2)), sf.Masked)


# --- spaCy -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nlp():
    return pytest.importorskip("spacy").blank("en")


def test_tokens_of_documents(nlp):
    from spacy.attrs import LENGTH, ORTH
    from spacy.tokens import DocBin

    docs = list(nlp.pipe(["A rose is a rose.", "", "So it is, they say."]))
    ids = sf.convert([doc.to_array(ORTH) for doc in docs], sf.Ragged)
    assert ids.dtype == np.uint64
    assert [[nlp.vocab.strings[k] for k in part] for part in ids.to_nested()] == [[t.text for t in doc] for doc in docs]
    both = sf.convert([doc.to_array([ORTH, LENGTH]) for doc in docs], sf.Masked)
    assert both.data.shape == (3, 7, 2)
    assert sf.reduce_sum(both)[:, 1].tolist() == [sum(map(len, doc)) for doc in docs]

    stored = DocBin(attrs=["ORTH", "LENGTH"], docs=docs)
    read = sf.convert(DocBin().from_bytes(stored.to_bytes()).tokens, sf.Ragged)
    assert read.data[:, list(stored.attrs).index(ORTH)].tolist() == ids.data.tolist()
    only = sf.convert(DocBin(attrs=["ORTH"], docs=docs).tokens, sf.Ragged)
    assert only.lengths.tolist() == ids.lengths.tolist()


def test_documents_without_a_token(nlp):
    from spacy.attrs import ORTH

    x = sf.convert([doc.to_array(ORTH) for doc in nlp.pipe(["", ""])], sf.Ragged)
    assert (x.dtype, len(x), x.rows) == (np.uint64, 2, 0)


def test_predictions_go_back_to_tokens(nlp):
    from spacy.attrs import LENGTH

    docs = list(nlp.pipe(["A rose is a rose.", "", "So it is."]))
    found = sf.with_masked(lambda m: m.data % 2)([doc.to_array(LENGTH) for doc in docs])
    for doc, odd in zip(docs, found, strict=True):
        assert [len(token) % 2 for token in doc] == list(odd)


# --- pandas ----------------------------------------------------------------------------------------------------------


def test_columns_of_arrays_and_lists():
    pd = pytest.importorskip("pandas")
    arrays = [np.array([1, 2], np.int32), np.array([], np.int32), np.array([3], np.int32)]
    frame = pd.DataFrame({"ids": arrays, "tags": [[1.5], [], [2.5, 3.5]]}, index=[7, 8, 9])
    ids = sf.convert(frame["ids"].to_numpy(), sf.Ragged)
    assert ids.dtype == np.int32
    assert ids.to_nested() == [[1, 2], [], [3]]
    assert sf.convert(frame["tags"].to_numpy(), sf.Masked).data.tolist() == [[1.5, 0], [0, 0], [2.5, 3.5]]
    again = pd.DataFrame({"ids": list(sf.convert(ids, sf.List).items)})
    assert sf.equal(sf.convert(again["ids"].to_numpy(), sf.Ragged), ids)
    with pytest.raises(sf.StructureError, match="element 1 is None"):
        sf.convert(pd.Series([[1], None], dtype=object).to_numpy(), sf.Ragged)


def test_groups_of_a_frame_are_sequences():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"user": [3, 3, 5, 5, 5], "item": [1.0, 2.0, 3.0, 4.0, 5.0]})
    x = sf.Ragged.from_row_lengths(frame["item"].to_numpy(), frame.groupby("user").size().to_numpy())
    assert sf.reduce_sum(x).tolist() == frame.groupby("user")["item"].sum().tolist()
