"""`sf.torch.collate` and `sf.torch.BucketSampler` under PyTorch's own loader."""

import dataclasses
import doctest
import functools
import itertools
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import typing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.loading import plan, sampler

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset  # noqa: E402

pytestmark = [
    pytest.mark.bridges,
    # What Python 3.12 says of every fork beside PyTorch's threads.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

collate = sf.torch.collate
ENCODINGS = [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD]
HANG = 300  # seconds: a child that takes so long does not end at all

every_encoding = pytest.mark.parametrize("kind", ENCODINGS, ids=lambda kind: kind.__name__)


class Texts(Dataset):
    """Token ids of many lengths, a label for each, and where it is."""

    def __init__(self, n, seed=0):
        random = np.random.default_rng(seed)
        self.lengths = np.minimum(random.lognormal(2, 0.7, n).astype(int), 40)
        self.ids = [torch.from_numpy(random.integers(0, 1000, length)) for length in self.lengths]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"ids": self.ids[i], "label": i % 2, "number": i, "name": f"text {i}"}


def assert_batch(batch, texts):
    """A batch of `texts` in which everything is at its place."""
    numbers = batch["number"].tolist()
    assert [row.tolist() for row in batch["ids"].sequences()] == [texts.ids[i].tolist() for i in numbers]
    assert {type(leaf) for leaf in batch["ids"]._leaves()} == {torch.Tensor}
    assert batch["label"].tolist() == [i % 2 for i in numbers]
    assert batch["name"] == [f"text {i}" for i in numbers]
    return numbers


# --- what becomes of a column ----------------------------------------------------------------------------------------


def tensor(array):
    """A tensor over a copy."""
    return torch.from_numpy(array.copy())


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    dtype=st.sampled_from(["i8", "f4", "?", "u1", "f2", "i4", "c8"]),
    item_shape=st.sampled_from([(), (3,), (2, 0), (1, 2)]),
    make=st.sampled_from([tensor, read_only, np.array, lambda array: array[:, ...][::1]]),
    kind=st.sampled_from(ENCODINGS),
    wrap=st.sampled_from([lambda x: {"a": x}, lambda x: (x, 1), lambda x: x, lambda x: {"b": {"a": (x,)}}]),
)
def test_sequences_become_encodings_of_tensors(lengths, dtype, item_shape, make, kind, wrap):
    arrays = [np.arange(1, 1 + n * int(np.prod(item_shape))).reshape(n, *item_shape).astype(dtype) for n in lengths]
    batch = collate([wrap(make(array)) for array in arrays], kind)
    while not isinstance(batch, kind):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    expected = sf.convert([torch.from_numpy(array) for array in arrays], kind)
    assert sf.equal(batch, expected)


@given(nested=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), min_size=1, max_size=5))
def test_lists_of_numbers(nested):
    batch = collate([{"ids": row} for row in nested], sf.Ragged)
    assert batch["ids"].to_nested() == nested
    assert batch["ids"].dtype is (torch.int64 if any(nested) else torch.float64)
    settled = collate([{"ids": row} for row in nested], sf.Ragged, dtype={"ids": torch.int64})
    assert settled["ids"].dtype is torch.int64


def test_lists_in_lists():
    samples = [{"words": [[1, 2], [3]]}, {"words": []}, {"words": [[4]]}]
    assert collate(samples, sf.LoD)["words"].to_nested() == [[[1, 2], [3]], [], [[4]]]
    assert collate(samples)["words"].data.tolist() == [[1, 2], [3, 0], [4, 0]]
    assert collate(samples, level=0)["words"].data.tolist() == [[1, 2, 3], [0, 0, 0], [4, 0, 0]]
    assert collate(samples, list)["words"] == [[[1, 2], [3]], [], [[4]]]
    tensors = [{"words": [torch.tensor([1, 2]), torch.tensor([3])]}, {"words": [torch.tensor([4])]}]
    assert collate(tensors, sf.LoD)["words"].to_nested() == [[[1, 2], [3]], [[4]]]
    packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    assert collate([packed, packed]).to_nested() == [[1, 2], [3], [1, 2], [3]], "a named tuple that is a batch"


class Pair(typing.NamedTuple):
    ids: object
    label: object


@dataclasses.dataclass(frozen=True)
class Sample:
    ids: object
    label: object
    hidden: int = dataclasses.field(default=0, init=False)


@pytest.mark.parametrize("make", [Pair, Sample], ids=["named tuple", "dataclass"])
def test_classes_of_columns(make):
    batch = collate([make([1, 2], 0), make([3], 1)], to={"ids": sf.Ragged})
    assert type(batch) is make
    assert sf.equal(batch.ids, sf.Ragged(torch.tensor([1, 2, 3]), [2, 1]))
    assert batch.label.tolist() == [0, 1]


def test_trees_of_columns():
    samples = [({"x": [1]}, {"y": {"z": [2.0, 3.0]}, "n": k}) for k in range(3)]
    first, second = collate(samples, sf.Ragged)
    assert first["x"].to_nested() == [[1]] * 3
    assert second["y"]["z"].to_nested() == [[2.0, 3.0]] * 3
    assert second["n"].tolist() == [0, 1, 2]


def test_numbers_become_tensors_as_torch_has_them():
    samples = [(1, 1.5, True, 1j, np.float32(2), np.array(3, "u1"), torch.tensor(4.0))] * 2
    batch = collate(samples)
    expected = torch.utils.data.default_collate([sample[:3] + sample[4:] for sample in samples])
    for found, wanted in zip(batch[:3] + batch[4:], expected, strict=True):
        assert found.dtype is wanted.dtype
        assert torch.equal(found, wanted)
    assert batch[3].tolist() == [1j, 1j]
    assert collate([(1,), (2.5,)])[0].tolist() == [1, 2.5]
    assert collate([(1,), (2,)], dtype={0: "float16"})[0].dtype is torch.float16
    assert collate([(1, [2]), (2, [3])], dtype=torch.float32)[0].dtype is torch.int64


def test_everything_else_becomes_lists():
    thing = object()
    samples = [("a", b"b", None, thing, ["c"], [None], [[]]), ("d", b"e", None, thing, ["f", "g"], [], [[], ["h"]])]
    batch = collate(samples)
    assert batch == tuple(list(column) for column in zip(*samples, strict=True))


def test_rows_are_stacked():
    samples = [
        {"image": np.ones((2, 3), "f4"), "point": [1, 2], "ids": [1]},
        {"image": torch.zeros(2, 3), "point": [3, 4], "ids": []},
    ]
    batch = collate(samples, rows=("image", "point"))
    assert batch["image"].shape == (2, 2, 3)
    assert batch["image"].dtype is torch.float32
    assert batch["point"].tolist() == [[1, 2], [3, 4]]
    assert isinstance(collate([{"image": torch.zeros(2, 3)}] * 2)["image"], sf.Masked)  # never by chance
    assert collate([({"e": [1]},)] * 2, rows=[(0, "e")], dtype={"e": "int8"})[0]["e"].dtype is torch.int8


def test_options_by_column():
    samples = [{"ids": [1, 2], "labels": [3, 4]}, {"ids": [5], "labels": [6]}]
    batch = collate(samples, fill={"labels": -100}, multiple_of=4, side={"ids": "left"}, dtype={"ids": torch.int32})
    assert batch["ids"].data.tolist() == [[0, 0, 1, 2], [0, 0, 0, 5]]
    assert batch["ids"].dtype is torch.int32
    assert batch["labels"].data.tolist() == [[3, 4, -100, -100], [6, -100, -100, -100]]
    twice = [{"a": {"x": [1]}, "b": {"x": [1]}}]
    batch = collate(twice, to={("a", "x"): sf.Ragged})
    assert [type(batch[key]["x"]) for key in "ab"] == [sf.Ragged, sf.Masked]


def test_a_batch_is_a_dataset():
    x = sf.Ragged(torch.arange(6), [1, 2, 0, 3])
    [batch] = DataLoader(x, batch_sampler=[[3, 2, 0]], collate_fn=collate)
    assert sf.equal(batch, sf.convert(x[[3, 2, 0]], sf.Masked))
    assert collate([{"a": x[1]}, {"a": x[0]}], sf.Ragged, dtype="float32")["a"].data.tolist() == [1.0, 2.0, 0.0]


@every_encoding
def test_gradients_flow(kind):
    leaves = [torch.ones(n, requires_grad=True) for n in (2, 3)]
    batch = collate([{"x": leaf, "scale": leaf.sum()} for leaf in leaves], kind)
    (sf.reduce_sum(batch["x"]) * batch["scale"]).sum().backward()
    assert leaves[0].grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    ("samples", "options", "error", "words"),
    [
        ([], {}, sf.StructureError, "no samples"),
        ("abc", {}, TypeError, "a list of them"),
        ({"a": [1]}, {}, TypeError, "a list of them"),
        ([{"a": 1}, {}], {}, sf.StructureError, "sample 1 has no 'a'"),
        ([{}, {"a": 1}], {}, sf.StructureError, "sample 1 has 'a', which sample 0 has not"),
        ([{"t": {"a": 1}}, {"t": {"b": 1}}], {}, sf.StructureError, "column 't': sample 1 has no 'a'"),
        (
            [{"a": [1]}, {"a": None}],
            {},
            sf.StructureError,
            "column 'a': sample 1 is None, but sample 0 is of type list",
        ),
        ([{"a": [1]}, {"a": np.ones(1)}], {}, sf.StructureError, "'a': sample 1 is of type ndarray"),
        ([(1,), (1, 2)], {}, sf.StructureError, "sample 1 is a tuple of 2, but sample 0 of 1"),
        ([(1,), [1]], {}, sf.StructureError, "sample 1 is of type list, but sample 0 is of type tuple"),
        ([(True,), (1,)], {}, sf.StructureError, "column 0: sample 1 is of type int, but sample 0 bool"),
        ([(1,), (2**63,)], {}, sf.StructureError, "column 0: sample 1 is 9223372036854775808, .* int64"),
        (
            [{"a": torch.ones(1)}, {"a": torch.ones(1).int()}],
            {},
            sf.StructureError,
            "'a': sample 1 has dtype torch.int32",
        ),
        ([{"a": torch.ones(1)}, {"a": np.ones(1)}], {}, sf.DeviceError, "'a': sample 1 is an array of numpy"),
        (
            [{"a": np.ones((1, 2))}, {"a": np.ones((1, 3))}],
            {},
            sf.StructureError,
            r"'a': sample 1 has item shape \(3,\)",
        ),
        ([{"a": torch.ones(1)}, {"a": torch.tensor(1.0)}], {}, sf.StructureError, "'a': sample 1 must have the axes"),
        ([{"a": torch.tensor(1.0)}, {"a": torch.ones(1)}], {}, sf.StructureError, r"'a': sample 1 has shape \(1,\)"),
        (
            [{"a": torch.tensor(1.0)}, {"a": torch.tensor(1)}],
            {},
            sf.StructureError,
            "'a': sample 1 has dtype torch.int64",
        ),
        ([{"a": [1, "x"]}], {}, TypeError, "column 'a': leaves"),
        ([{"a": [1, None]}], {}, TypeError, "column 'a': leaves"),
        ([{"a": [1]}, {"a": [[2]]}], {}, sf.StructureError, "column 'a': "),
        ([{"a": np.array(["x"])}], {}, TypeError, "column 'a': torch has no dtype"),
        ([{"a": np.array([None])}], {}, TypeError, "column 'a': sample 0 has dtype object"),
        (
            [{"a": [1, 2]}, {"a": [1]}],
            {"rows": ["a"]},
            sf.StructureError,
            r"'a': sample 1 has shape \(1,\).* without rows=",
        ),
        ([{"a": [[1, 2], [1]]}], {"rows": ["a"]}, sf.StructureError, "column 'a': "),
        ([{"a": [1]}], {"rows": "a"}, TypeError, "rows must be a list"),
        ([{"a": [1]}], {"rows": ["b"]}, TypeError, "rows is given for 'b', but the columns are 'a'"),
        ([{"a": [1]}], {"fill": {"b": 1}}, TypeError, "fill is given for 'b', but the columns are 'a'"),
        ([{"a": [1]}], {"to": {"b": sf.Ragged}}, TypeError, "to is given for 'b', but the columns are 'a'"),
        ([[1]], {"fill": {"b": 1}}, TypeError, "the columns are the samples themselves"),
        ([{"a": [1]}], {"to": "Masked"}, TypeError, "sf.Masked"),
        ([{"a": [1]}], {"to": {"a": "Masked"}}, TypeError, "sf.Masked"),
        ([{"a": [1]}], {"fil": 1}, TypeError, "column 'a': no option 'fil'"),
        ([{"a": [1]}], {"fill": 0.5}, sf.ConversionError, "column 'a': fill=0.5"),
        ([{"a": [1, 2]}], {"width": 1}, sf.ConversionError, "column 'a': width=1 is too small"),
        ([{"a": [1]}], {"level": 1}, IndexError, "column 'a': "),
    ],
)
def test_what_does_not_fit_is_said_with_column_and_sample(samples, options, error, words):
    with pytest.raises(error, match=words):
        collate(samples, **options)


@every_encoding
def test_a_batch_has_memory_of_its_own(kind):
    """One piece of it: between processes each is a file, and a view of a dataset's would take all of that along."""
    whole = torch.arange(100)
    for samples in (
        list(whole[:9].split([2, 3, 4])),
        [whole[:9]],
        [sf.List([whole[:3]])],
        [sf.Ragged(whole[:3], [1, 2])],
    ):
        found = {leaf.untyped_storage().data_ptr() for leaf in collate(samples, kind)._leaves()}
        assert len(found) == 1
        assert whole.untyped_storage().data_ptr() not in found
    array = np.arange(9)
    batch = collate([array, array[2:5]], kind)
    for leaf in batch._leaves():
        leaf.zero_()
    assert array.tolist() == list(range(9))


def test_rows_of_any_layout():
    image = np.arange(6).reshape(2, 3)[:, ::-1]
    batch = collate([{"image": image}, {"image": read_only(image)}], rows=["image"])
    assert batch["image"].tolist() == [image.tolist()] * 2
    batch["image"].zero_()
    assert image.any()


def test_numbers_in_lists_are_not_walked(monkeypatch):
    """Where tensors have been seen, it is asked whether a batch wants a gradient; a number cannot."""
    from seqformats.formats import leaves

    collate([torch.ones(1)])
    monkeypatch.setattr(leaves, "leaves", None)
    assert sf.convert([[1, 2], [3]], sf.Masked).data.tolist() == [[1, 2], [3, 0]]
    assert sf.concat([[[1], []], [[2], [3]]]) == [[1, 2], [3]]
    assert collate([[1.0], [2.0, 3.0]], sf.Ragged).data.tolist() == [1.0, 2.0, 3.0]


def test_lists_without_end():
    endless, vast = [], []
    endless.append(endless)
    for _ in range(60):
        vast = [vast, vast]
    with pytest.raises(sf.StructureError, match="no end"):
        collate([{"a": endless}])
    with pytest.raises(sf.OutOfMemory):
        collate([{"a": vast}])


@every_encoding
def test_pinning(kind, monkeypatch):
    """As the loader does it; what the tensors do is theirs."""
    x = collate([[1, 2], [], [3]], kind)
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
    pin = torch.utils.data._utils.pin_memory.pin_memory
    pinned = pin({"x": x, "y": torch.ones(2)})["x"]
    assert type(pinned) is kind
    assert sf.equal(pinned, x)
    places = [{leaf.data_ptr() for leaf in each._leaves() if leaf.numel()} for each in (x, pinned)]
    assert places[0].isdisjoint(places[1])
    with pytest.raises(TypeError, match="torch"):
        sf.convert([np.ones(2)], kind).pin_memory()
    assert len(sf.to(sf.convert([], kind), "torch").pin_memory()) == 0


# --- under the loader ------------------------------------------------------------------------------------------------

LOADERS = {
    "in this process": {},
    "fork": {"num_workers": 2, "multiprocessing_context": "fork"},
    "fork, persistent": {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True},
    "spawn, persistent": {"num_workers": 2, "multiprocessing_context": "spawn", "persistent_workers": True},
}


@pytest.mark.parametrize("options", LOADERS.values(), ids=LOADERS)
def test_every_sample_comes_once_in_every_epoch(options):
    texts = Texts(300)
    batches = sf.torch.BucketSampler(texts.lengths, 128, multiple_of=8, seed=1)
    loader = DataLoader(texts, batch_sampler=batches, collate_fn=functools.partial(collate, multiple_of=8), **options)
    orders = []
    for epoch in range(2):
        batches.set_epoch(epoch)
        order = []
        for batch in loader:
            order.append(assert_batch(batch, texts))
            assert batch["ids"].data.numel() <= 128
        assert order == list(batches)
        assert sorted(itertools.chain(*order)) == list(range(300))
        orders.append(order)
    assert orders[0] != orders[1]
    assert len(loader) == len(batches)
    del loader


@every_encoding
def test_every_encoding_comes_through_the_queue(kind):
    texts = Texts(20)
    loader = DataLoader(
        texts, 5, collate_fn=functools.partial(collate, to=kind), num_workers=1, multiprocessing_context="fork"
    )
    seen = []
    for batch in loader:
        assert type(batch["ids"]) is kind
        seen += assert_batch(batch, texts)
    assert seen == list(range(20))


@pytest.mark.parametrize("form", [None, "torch", "numpy"])
def test_datasets_of_hugging_face(form):
    datasets = pytest.importorskip("datasets")
    texts = Texts(60)
    rows = [{**texts[i], "ids": texts.ids[i].tolist()} for i in range(60)]
    data = datasets.Dataset.from_list(rows).with_format(form)
    batches = sf.torch.BucketSampler(texts.lengths, 100)
    loader = DataLoader(data, batch_sampler=batches, collate_fn=functools.partial(collate, dtype={"ids": torch.int64}))
    assert [assert_batch(batch, texts) for batch in loader] == list(batches)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but:UserWarning")
def test_a_loader_that_pins():
    texts = Texts(20)
    for batch in DataLoader(texts, 5, collate_fn=collate, pin_memory=True):
        assert_batch(batch, texts)


def test_a_consumer_that_stops_early():
    texts = Texts(300)
    batches = sf.torch.BucketSampler(texts.lengths, 64)
    before = set(multiprocessing.active_children())
    passes = iter(
        DataLoader(texts, batch_sampler=batches, collate_fn=collate, num_workers=2, multiprocessing_context="fork")
    )
    first = next(passes)
    del passes
    left = set(multiprocessing.active_children()) - before
    assert not left
    assert assert_batch(first, texts) == next(iter(batches))  # a new pass begins at the beginning


def test_errors_of_workers_name_the_column():
    samples = [{"a": torch.ones(1)}, {"a": torch.ones(1, 2)}]
    with pytest.raises(sf.StructureError, match="column 'a': sample 1 has item shape"):
        next(iter(DataLoader(samples, 2, collate_fn=collate, num_workers=1, multiprocessing_context="fork")))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_in_the_middle_of_an_epoch(workers):
    texts = Texts(300)

    def loader():
        batches = sf.torch.BucketSampler(texts.lengths, 128, seed=1)
        options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
        return batches, DataLoader(texts, batch_sampler=batches, collate_fn=collate, **options)

    batches, first = loader()
    batches.set_epoch(3)
    everything = [batch["number"].tolist() for batch in first]
    used = 5
    begun = list(itertools.islice(first, used))
    assert [batch["number"].tolist() for batch in begun] == everything[:used]
    state = batches.state_dict(taken=used) if workers else batches.state_dict()
    state = torch.load(saved(state), weights_only=True)
    others, second = loader()
    others.load_state_dict(state)
    others.set_epoch(3)
    assert [batch["number"].tolist() for batch in second] == everything[used:]
    assert [batch["number"].tolist() for batch in second] == everything


def saved(state):
    """What `torch.save` writes, to be read."""
    import io

    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata_saves_and_loads_the_sampler(workers):
    """What its loader returns is behind what the sampler has given, and it knows by how much."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    texts = Texts(300)

    def loader():
        batches = sf.torch.BucketSampler(texts.lengths, 128, seed=1)
        options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
        return stateful(texts, batch_sampler=batches, collate_fn=collate, **options)

    one, two = loader(), loader()
    everything = [batch["number"].tolist() for batch in one]
    begun = iter(one)
    for _ in range(5):
        next(begun)
    two.load_state_dict(one.state_dict())
    assert [batch["number"].tolist() for batch in two] == everything[5:]
    assert [batch["number"].tolist() for batch in two] == everything


def test_lengths_are_tensors_too():
    lengths = torch.tensor([1, 5, 2, 5, 1])
    assert list(sf.torch.BucketSampler(lengths, 10, shuffle=False)) == [[1, 3], [2, 0, 4]]


RANKS = """
    import sys, torch.distributed as dist, seqformats as sf
    rank, path = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    print(list(sf.torch.BucketSampler(list(range(41)), 60, seed=9)))
    dist.barrier()
    dist.destroy_process_group()
"""


def test_ranks_come_from_torch(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(RANKS)]
    started = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "ranks")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    found = [eval(process.communicate(timeout=HANG)[0]) for process in started]
    for rank, batches in enumerate(found):
        assert batches == list(sf.torch.BucketSampler(list(range(41)), 60, seed=9, rank=rank, world=2))
    assert set(itertools.chain(*found[0], *found[1])) == set(range(41))


INTERRUPTED = """
    import sys, torch, seqformats as sf
    from torch.utils.data import DataLoader

    samples = [{"ids": torch.arange(i % 50)} for i in range(2000)]
    batches = sf.torch.BucketSampler([i % 50 for i in range(2000)], 500)
    if __name__ == "__main__":
        loader = DataLoader(
            samples, batch_sampler=batches, collate_fn=sf.torch.collate, num_workers=2, persistent_workers=True,
            multiprocessing_context="fork",
        )
        try:
            while True:
                for batch in loader:
                    print("ready", flush=True)
        except KeyboardInterrupt:
            del loader
            sf.convert(batch["ids"], sf.Ragged)
            sys.exit(42)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of a process group")
@pytest.mark.parametrize("everybody", [True, False], ids=["to all, as a terminal does", "to the loader's process"])
def test_an_interrupt_ends_the_loader_and_its_workers(everybody, tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    errors = tmp_path / "errors"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True
        )
    try:
        for _ in range(20):
            assert process.stdout.readline() == "ready\n", errors.read_text()
        (os.killpg if everybody else os.kill)(process.pid, signal.SIGINT)
        process.communicate(timeout=HANG)
        assert process.returncode == 42, errors.read_text()
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)  # nobody of them is left
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


# --- documentation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [sf.torch, sampler, plan], ids=lambda module: module.__name__)
def test_examples(module):
    assert doctest.testmod(module).failed == 0
    assert pathlib.Path(module.__file__).exists()


# --- what does not know of workers by itself -------------------------------------------------------------------------


class Stream(torch.utils.data.IterableDataset):
    """Batches of `sf.batches`, in each worker of a loader."""

    def __init__(self, source, **options):
        self.source, self.options = source, options

    def __iter__(self):
        for batch in sf.batches(self.source(), max_items=40, to=sf.Ragged, **self.options):
            yield batch.data.tolist()


def rows_of_workers(source, count, **options):
    """All items that a loader with so many workers gives."""
    more = {"multiprocessing_context": "fork"} if count else {}
    loader = DataLoader(Stream(source, **options), batch_size=None, num_workers=count, **more)
    return [item for batch in loader for item in batch]


SOURCES = {
    "a list": lambda: [[i] * (1 + i % 5) for i in range(100)],
    "an iterator": lambda: iter([[i] * (1 + i % 5) for i in range(100)]),
    "an encoding": lambda: sf.convert([[i] * (1 + i % 5) for i in range(100)], sf.Ragged),
    "encodings": lambda: (sf.convert([[i] * (1 + i % 5) for i in range(k, k + 10)], sf.LoD) for k in range(0, 100, 10)),
    "nothing": list,
    "two rows": lambda: [[5], [6, 6]],
}
OPTIONS = [{}, {"seed": 3, "prefetch": 0}, {"shuffle_buffer": 0}]


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes:UserWarning")
@pytest.mark.parametrize(("name", "options"), [*zip(SOURCES, itertools.cycle(OPTIONS), strict=False)])
def test_workers_divide_the_rows(name, options):
    """Each row comes once from any number of workers; without a word on workers there is an error."""
    source = SOURCES[name]
    everything = sorted(rows_of_workers(source, 0, **options))
    assert sorted(rows_of_workers(source, 1, **options)) == everything
    for count in (2, 3):
        assert sorted(rows_of_workers(source, count, workers="divide", **options)) == everything
    assert sorted(rows_of_workers(source, 2, workers="each", **options)) == sorted(2 * everything)
    assert sorted(rows_of_workers(source, 0, workers="divide", **options)) == everything
    with pytest.raises(sf.ConversionError, match=r'worker \d of 2 of a DataLoader.*workers="divide".*SF206'):
        rows_of_workers(source, 2, **options)


def test_workers_divide_rows_that_are_left():
    """Rows that are too long are left out before rows are divided, and an error names the row of the source."""
    rows = [[i] * (50 if i % 2 else 3) for i in range(20)]
    assert sorted(set(rows_of_workers(lambda: rows, 2, workers="divide", too_long="drop"))) == list(range(0, 20, 2))
    with pytest.raises(sf.StructureError, match="row 1 has 50 items"):
        rows_of_workers(lambda: rows, 2, workers="divide")
    with pytest.raises(sf.ConversionError, match='workers must be "raise", "divide" or "each"'):
        sf.batches(rows, max_items=9, workers="all")


@pytest.mark.parametrize("persistent", [False, True])
def test_the_state_behind_workers_is_an_error(persistent):
    """The sampler has given more batches than the loader has returned, and nobody tells it."""
    texts = Texts(300)
    batches = sf.torch.BucketSampler(texts.lengths, 128, seed=1)
    loader = DataLoader(
        texts,
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=2,
        multiprocessing_context="fork",
        persistent_workers=persistent,
    )
    assert batches.state_dict()["taken"] == 0
    for _ in range(2):
        for used, _ in enumerate(itertools.islice(loader, 3), 1):
            with pytest.raises(sf.StructureError, match=r"with workers asks.*state_dict\(taken=.*SF117"):
                batches.state_dict()
            assert batches.state_dict(taken=used)["taken"] == used
    batches.set_epoch(1)
    assert batches.state_dict()["taken"] == 0
    direct = iter(batches)
    next(direct)
    assert batches.state_dict()["taken"] == 1
    batches.load_state_dict(batches.state_dict())
    assert batches.state_dict()["taken"] == 1


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_the_state_behind_workers_of_torchdata_is_the_loaders():
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    texts = Texts(300)
    batches = sf.torch.BucketSampler(texts.lengths, 128, seed=1)
    loader = stateful(texts, batch_sampler=batches, collate_fn=collate, num_workers=2, multiprocessing_context="fork")
    begun = iter(loader)
    next(begun)
    loader.state_dict()
    with pytest.raises(sf.StructureError, match="with workers"):
        batches.state_dict()
