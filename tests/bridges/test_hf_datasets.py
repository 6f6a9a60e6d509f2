"""Datasets of Hugging Face: functions over batches in `map`, and collators beside their formats."""

import os
import pickle
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import seqformats as sf

pytestmark = pytest.mark.bridges
datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ROWS = {
    "input_ids": [[1, 2, 3], [], [4], [5, 6], [7, 8, 9, 10]],
    "label": [0, 1, 1, 0, 1],
    "text": ["a", "b", "c", "d", "e"],
    "score": [0.5, 1.5, 2.5, 3.5, 4.5],
}


@pytest.fixture(autouse=True)
def quiet(tmp_path, monkeypatch):
    """No progress bars, no network, caches here."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture
def dataset():
    features = datasets.Features(
        {
            "input_ids": datasets.List(datasets.Value("int64")),
            "label": datasets.ClassLabel(names=["no", "yes"]),
            "text": datasets.Value("string"),
            "score": datasets.Value("float32"),
        }
    )
    return datasets.Dataset.from_dict(ROWS, features=features)


# Functions of a module pickle by name, and so reach other processes.


def described(ids, label):
    return {"length": sf.lengths(ids), "bigrams": sf.ngrams(ids, 2), "twice": label * 2}


def shortened(ids):
    return sf.truncate(ids, 2)


def chunked(ids):
    chunks = sf.chunk(ids, 2)
    counts = np.diff(chunks.lod[0])
    return {"input_ids": sf.convert(chunks, sf.Ragged), "document": np.repeat(np.arange(len(ids)), counts)}


def only_long(ids, label):
    kept = sf.lengths(ids) > 1
    return {"input_ids": ids[kept], "label": label[kept]}


def test_new_columns(dataset):
    function = sf.hf.arrow_map(described, ("input_ids", "label"))
    for size in (1, 2, 1000):
        made = dataset.with_format("arrow").map(function, batched=True, batch_size=size).with_format(None)
        assert made[:] == {
            **ROWS,
            "length": [3, 0, 1, 2, 4],
            "twice": [0, 2, 2, 0, 2],
            "bigrams": [[[*pair] for pair in zip(row, [*row[1:], 0], strict=False)] for row in ROWS["input_ids"]],
        }
        assert made.features["label"] == dataset.features["label"]
        assert made.features["bigrams"] == datasets.List(datasets.List(datasets.Value("int64"), length=2))


def test_a_column_in_the_place_of_another(dataset):
    function = sf.hf.arrow_map(shortened, "input_ids")
    made = dataset.with_format("arrow").map(function, batched=True, batch_size=2).with_format(None)
    assert made["input_ids"][:] == [row[:2] for row in ROWS["input_ids"]]
    assert made.features == dataset.features
    assert made["text"][:] == ROWS["text"]


def test_other_numbers_of_rows(dataset):
    shaped = dataset.with_format("arrow")
    made = shaped.map(sf.hf.arrow_map(chunked, "input_ids", keep=False), batched=True, batch_size=3).with_format(None)
    assert made[:] == {
        "input_ids": [[1, 2], [3], [4], [5, 6], [7, 8], [9, 10]],
        "document": [0, 0, 2, 0, 1, 1],
    }
    made = shaped.map(sf.hf.arrow_map(only_long, ["input_ids", "label"], keep=False), batched=True, batch_size=2)
    assert made.with_format(None)[:] == {"input_ids": [[1, 2, 3], [5, 6], [7, 8, 9, 10]], "label": [0, 0, 1]}
    assert made.features["label"] == dataset.features["label"]
    with pytest.raises(sf.StructureError, match="'input_ids' with 6 rows.* 5; keep=False"):
        shaped.map(sf.hf.arrow_map(chunked, "input_ids", keep="label"), batched=True)


def test_which_columns_stay(dataset):
    shaped = dataset.with_format("arrow")
    for keep, names in ((True, list(ROWS)), (False, []), (["label"], ["label"]), ("text", ["text"]), ((), [])):
        made = shaped.map(sf.hf.arrow_map(lambda ids: {"n": sf.lengths(ids)}, "input_ids", keep=keep), batched=True)
        assert made.column_names == [*names, "n"]
        assert made.with_format(None)["n"][:] == [3, 0, 1, 2, 4]


def test_everything_that_may_come_back(dataset):
    def made(ids):
        n = len(ids)
        return {
            "batch": ids,
            "padded": sf.convert(ids, sf.Padded),
            "levels": sf.chunk(ids, 2),
            "array": np.arange(n, dtype=np.float32),
            "rectangle": np.ones((n, 2, 3)),
            "tensor": torch.arange(n),
            "tensors": sf.to(ids, "torch"),
            "strings": ["x"] * n,
            "nested": ids.to_nested(),
            "arrow": pa.array([None] * n, pa.int8()),
            "bools": np.zeros(n, bool),
        }

    found = dataset.with_format("arrow").map(sf.hf.arrow_map(made, "input_ids", keep=False), batched=True)[:]
    for name in ("batch", "padded", "tensors", "nested"):
        assert found[name].to_pylist() == ROWS["input_ids"]
    assert found["levels"].to_pylist()[4] == [[7, 8], [9, 10]]
    assert found["array"].to_pylist() == found["tensor"].to_pylist() == [0, 1, 2, 3, 4]
    assert found["rectangle"].to_pylist() == np.ones((5, 2, 3)).tolist()
    assert found["strings"].to_pylist() == ["x"] * 5
    assert found["arrow"].to_pylist() == [None] * 5
    assert found["bools"].to_pylist() == [False] * 5


def test_named_tuples_and_nothing(dataset):
    shaped, seen = dataset.with_format("arrow"), []
    masking = sf.hf.arrow_map(
        lambda ids: sf.mask_tokens(ids, rate=1, mask_id=0, split=(1, 0, 0), seed=0), "input_ids", keep=False
    )
    made = shaped.map(masking, batched=True)
    assert made.column_names == ["ids", "labels", "chosen"]
    assert made.with_format(None)["labels"][:] == ROWS["input_ids"]
    assert shaped.map(sf.hf.arrow_map(lambda ids: seen.append(len(ids)), "input_ids"), batched=True)[:] == shaped[:]
    assert sum(seen) >= 5


def test_what_map_adds(dataset):
    function = sf.hf.arrow_map(lambda ids, at, factor: {"at": np.array(at) * factor}, "input_ids", keep=False)
    made = dataset.with_format("arrow").map(
        function, batched=True, batch_size=2, with_indices=True, fn_kwargs={"factor": 10}
    )
    assert made.with_format(None)["at"][:] == [0, 10, 20, 30, 40]


def test_selected_and_shuffled_rows(dataset):
    function = sf.hf.arrow_map(described, ("input_ids", "label"))
    order = [4, 0, 2]
    made = dataset.select(order).with_format("arrow").map(function, batched=True, batch_size=2).with_format(None)
    assert made["length"][:] == [4, 3, 1]
    shuffled = dataset.shuffle(seed=1).with_format("arrow")
    assert sf.from_arrow(shuffled[:]["input_ids"]).to_nested() == shuffled.with_format(None)["input_ids"][:]


def test_in_two_processes(dataset):
    function = sf.hf.arrow_map(described, ("input_ids", "label"))
    made = dataset.with_format("arrow").map(function, batched=True, batch_size=2, num_proc=2).with_format(None)
    assert made["length"][:] == [3, 0, 1, 2, 4]


def test_streams(dataset):
    stream = dataset.to_iterable_dataset().with_format("arrow")
    function = sf.hf.arrow_map(described, ("input_ids", "label"))
    made = stream.map(function, batched=True, batch_size=2).with_format(None)
    assert [row["length"] for row in made] == [3, 0, 1, 2, 4]


def test_it_is_made_once(dataset, tmp_path):
    """The cache of `map` finds what the same function has made."""
    dataset.save_to_disk(tmp_path / "saved")
    calls = []

    def run(limit):
        def shorten(ids):
            import seqformats as sf  # for an editable installation, as that of these tests is

            return {"short": sf.truncate(ids, limit)}

        shaped = datasets.load_from_disk(tmp_path / "saved").with_format("arrow")
        made = shaped.map(sf.hf.arrow_map(shorten, "input_ids"), batched=True)
        calls.append(made.cache_files[0]["filename"])
        return made._fingerprint

    assert run(2) == run(2) != run(3)
    assert calls[0] == calls[1] != calls[2]


def test_pickles():
    function = sf.hf.arrow_map(shortened, "input_ids", keep=("label",))
    assert pickle.loads(pickle.dumps(function)) == function
    assert sf.hf.arrow_map(shortened, "input_ids") != function


NAMES_THE_PACKAGE = """
    import seqformats as sf
    from datasets.fingerprint import Hasher

    print(Hasher.hash(sf.hf.arrow_map(lambda ids: {"n": sf.lengths(ids)}, ("ids",))))
"""
IMPORTS_IT = """
    import seqformats
    from datasets.fingerprint import Hasher

    def count(ids):
        import seqformats as sf

        return {"n": sf.lengths(ids)}

    print(Hasher.hash(seqformats.hf.arrow_map(count, ("ids",))))
"""


@pytest.mark.parametrize(("code", "installed"), [(NAMES_THE_PACKAGE, True), (IMPORTS_IT, True), (IMPORTS_IT, False)])
def test_the_same_hash_in_every_process(tmp_path, code, installed):
    """`dill` hashes a module by its name if its path has "site-packages" in it, as after an installation."""
    folder = Path(sf.__file__).parent
    if installed:
        (tmp_path / "site-packages").mkdir()
        (tmp_path / "site-packages" / "seqformats").symlink_to(folder, target_is_directory=True)
    path = str(tmp_path / "site-packages" if installed else folder.parent)
    found = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    ]
    assert found[0] == found[1]
    assert len(found[0]) > 8


def test_the_package_stays_a_plain_module():
    """Its class is not replaced, so that it pickles as every other module."""
    sf.hf.arrow_map(shortened, "input_ids")
    assert type(sf) is types.ModuleType


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: sf.hf.arrow_map(3, "input_ids"), TypeError, "fn must be a function"),
        (lambda: sf.hf.arrow_map(len, 3), TypeError, "columns"),
        (lambda: sf.hf.arrow_map(len, [3]), TypeError, "columns"),
        (lambda: sf.hf.arrow_map(len, "a", keep=[3]), TypeError, "keep"),
    ],
)
def test_arguments_of_the_wrong_type(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.parametrize(
    ("function", "columns", "kind", "words"),
    [
        (shortened, "idz", sf.StructureError, "'idz'.*input_ids"),
        (lambda ids, label: ids, ("input_ids", "label"), TypeError, "dict"),
        (lambda ids: {"a": np.zeros(3)}, "input_ids", sf.StructureError, "'a' with 3 rows.*5"),
        (lambda ids: {"a": 3}, "input_ids", TypeError, "'a'"),
        (lambda ids: {"a": np.array(3)}, "input_ids", TypeError, "'a'"),
    ],
)
def test_functions_that_do_not_fit(dataset, function, columns, kind, words):
    with pytest.raises(kind, match=words):
        dataset.with_format("arrow").map(sf.hf.arrow_map(function, columns), batched=True)


def test_nulls_and_other_formats_are_named():
    holes = datasets.Dataset.from_dict({"input_ids": [[1], None], "label": [None, 1]})
    shaped = holes.with_format("arrow")
    with pytest.raises(sf.StructureError, match="'input_ids'.*null"):
        shaped.map(sf.hf.arrow_map(shortened, "input_ids"), batched=True)
    with pytest.raises(sf.StructureError, match="'label'.*null"):
        shaped.map(sf.hf.arrow_map(lambda x: x, "label"), batched=True)
    with pytest.raises(TypeError, match="with_format"):
        holes.map(sf.hf.arrow_map(shortened, "input_ids"), batched=True)


# --- into collators --------------------------------------------------------------------------------------------------


def test_formats_into_collators(dataset):
    numbers = dataset.remove_columns("text")
    collate = sf.hf.Collator(pad_token_id=0)
    wanted = collate([numbers[i] for i in range(1, 5)])
    assert wanted["input_ids"].tolist() == [[0] * 4, [4, 0, 0, 0], [5, 6, 0, 0], [7, 8, 9, 10]]
    assert wanted["score"].dtype == torch.float32
    plain = numbers.with_transform(collate)[1:5]
    for found in (
        collate(numbers[1:5]),
        collate(numbers.with_format("arrow")[1:5]),
        collate(numbers.with_format("numpy")[1:5]),
        collate(numbers.with_format("torch")[1:5]),
        collate([numbers.with_format("torch")[i] for i in range(1, 5)]),
        plain,
    ):
        assert set(found) == set(wanted)
        for name in wanted:
            assert torch.equal(found[name], wanted[name]), name
            assert found[name].dtype == wanted[name].dtype
    with pytest.raises(TypeError, match="'text'"):
        collate(dataset[:])
    with pytest.raises(TypeError, match="'text'"):
        collate(dataset.with_format("arrow")[:])


@pytest.mark.parametrize("name", [None, "arrow", "torch", "numpy"])
def test_a_loader_over_a_dataset(dataset, name):
    """In Arrow format a loader takes whole batches, which a sampler of batches gives."""
    data = torch.utils.data
    shaped = dataset.remove_columns("text").with_format(name)
    collate = sf.hf.Collator(pad_token_id=0)
    if name == "arrow":
        sampler = data.BatchSampler(data.SequentialSampler(shaped), 2, drop_last=False)
        loader = data.DataLoader(shaped, sampler=sampler, batch_size=None, collate_fn=collate)
    else:
        loader = data.DataLoader(shaped, batch_size=2, collate_fn=collate)
    batches = list(loader)
    assert [batch["input_ids"].shape for batch in batches] == [(2, 3), (2, 2), (1, 4)]
    assert torch.cat([batch["labels"] for batch in batches]).tolist() == ROWS["label"]
