"""`sf.batches` over files and streams: shuffled, among ranks and workers of loaders, stopped and resumed anywhere."""

import doctest
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqformats as sf
from seqformats.loading import files, windows

torch = pytest.importorskip("torch")
pa = pytest.importorskip("pyarrow")

from pages import DOCS, blocks_of  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

pytestmark = [
    pytest.mark.bridges,
    # What Python 3.12 says of every fork beside PyTorch's threads, and torchdata of PyTorch.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]
HANG = 300  # seconds: a child that takes so long does not end at all


def table_of(start, rows, longest=9):
    """Rows with their number, and that number as often as `longest` allows."""
    number = np.arange(start, start + rows)
    lengths = number * 7 % longest
    offsets = np.r_[0, lengths.cumsum()].astype(np.int32)
    ids = pa.ListArray.from_arrays(offsets, np.repeat(number, lengths))
    return pa.table({"ids": ids, "row": number})


def write(folder, counts, kind="parquet", group=7):
    """Files of so many rows; their numbers go on from file to file."""
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    for k, start in enumerate(np.cumsum([0, *counts[:-1]]).tolist()):
        table = table_of(start, counts[k])
        if kind == "parquet":
            pq.write_table(table, folder / f"{k}.parquet", row_group_size=group)
            continue
        new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with new(folder / f"{k}.arrow", table.schema) as writer:
            writer.write_table(table, group)
    return folder


def loader(source, **plan):
    return sf.batches(source, **{"max_items": 40, "shuffle": True, "seed": 5, "prefetch": 0, **plan})


def rows_of(batches):
    """The numbers of the rows of each batch, whose items are these too."""
    found = []
    for batch in batches:
        for number, ids in zip(batch["row"], batch["ids"].sequences(), strict=True):
            assert ids.tolist() == [number] * (number * 7 % 9)
        found.append(batch["row"].tolist())
    return found


def dataset(counts, folder):
    import datasets

    return datasets.Dataset(table_of(0, sum(counts)))


def stream(counts, folder):
    return dataset(counts, folder).to_iterable_dataset(num_shards=min(3, sum(counts)))


def file_set(counts, folder):
    import pyarrow.dataset

    return pyarrow.dataset.dataset(write(folder, counts), format="parquet")


def some_groups(counts, folder):
    found = file_set(counts, folder)
    groups = [group for fragment in found.get_fragments() for group in fragment.split_by_row_group()]
    return type(found)(groups, found.schema, found.format)


def frame(counts, folder):
    import polars as pl

    return pl.from_arrow(table_of(0, sum(counts)))


SOURCES = {
    "Parquet": lambda counts, folder: write(folder, counts),
    "Parquet in one group": lambda counts, folder: write(folder, counts, group=1000),
    "Arrow's files": lambda counts, folder: write(folder, counts, "file"),
    "Arrow's streams": lambda counts, folder: str(write(folder, counts, "stream")),
    "a set of files": file_set,
    "groups of rows": some_groups,
    "a table": lambda counts, folder: table_of(0, sum(counts)),
    "polars": frame,
    "datasets": dataset,
    "a stream of datasets": stream,
}


@mock.patch.object(windows, "SECTION", 3)
@pytest.mark.parametrize("kind", SOURCES)
@settings(max_examples=6)
@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    window=st.sampled_from([None, 1, 10]),
    seed=st.integers(0, 3),
    world=st.integers(1, 3),
    shuffle=st.booleans(),
    data=st.data(),
)
def test_files_and_streams(tmp_path_factory, kind, counts, window, seed, world, shuffle, data):
    """Each row once an epoch, in the same order with any prefetch and ranks, and from any point on."""
    source = SOURCES[kind](counts if sum(counts) else [1], tmp_path_factory.mktemp("rows"))
    window = window if shuffle else data.draw(st.sampled_from([window, 0]))
    plan = {"shuffle": shuffle, "shuffle_buffer": window, "seed": None if window == 0 else seed, "max_sequences": 4}
    batches = loader(source, **plan)
    first, second = rows_of(batches), rows_of(batches)
    total = max(sum(counts), 1)
    assert sorted(itertools.chain(*first)) == sorted(itertools.chain(*second)) == list(range(total))
    assert total < 25 or first != second or not shuffle or "stream of" in kind  # which has few orders
    assert rows_of(loader(source, **plan | {"prefetch": 3})) == first
    ranks = [rows_of(loader(source, rank=r, world=world, **plan)) for r in range(world)]
    dealt = [batch for turn in zip(*ranks, strict=True) for batch in turn]
    assert dealt == first + first[-1:] * (-len(first) % world)
    stop = data.draw(st.integers(0, len(first)))
    batches.set_epoch(0)
    run = iter(batches)
    begun = rows_of(itertools.islice(run, stop))
    again = loader(source, **plan)
    again.load_state_dict(json.loads(json.dumps(batches.state_dict())))
    assert begun + rows_of(again) == first
    assert rows_of(again) == second


def test_the_order_of_the_defaults(tmp_path):
    """200,000 rows in 20 files: what comes in an epoch says nothing of where it lies."""
    import pyarrow.parquet as pq

    for k in range(20):
        ids = pa.FixedSizeListArray.from_arrays(np.zeros(20_000, np.int8), 2).cast(pa.list_(pa.int8()))
        pq.write_table(
            pa.table({"ids": ids, "row": np.arange(10_000 * k, 10_000 * (k + 1))}), tmp_path / f"{k}.parquet"
        )
    batches = sf.batches(tmp_path, max_items=2048, shuffle=True)
    orders = [np.concatenate([batch["row"] for batch in batches]) for _ in range(2)]
    for order in orders:
        assert np.array_equal(np.sort(order), np.arange(200_000))
        assert abs(np.corrcoef(order, np.arange(200_000))[0, 1]) < 0.05
        assert np.mean(np.abs(np.diff(order)) == 1) < 0.001
    assert abs(np.corrcoef(*orders)[0, 1]) < 0.05


def test_what_is_read_to_resume_is_bounded(tmp_path, monkeypatch):
    """Counted: not the epoch up to there, but a section of it and the first window."""
    write(tmp_path, [2000] * 10, group=500)
    read, own = [], files.rows_of_batch
    monkeypatch.setattr(files, "rows_of_batch", lambda batch, *more: read.append(batch.num_rows) or own(batch, *more))
    plan = {"max_items": 40, "shuffle_buffer": 200}
    for order, most in (
        ({"shuffle": True}, 400 * 12 + 200),
        ({"shuffle": False, "seed": None, "shuffle_buffer": 0}, 1600),
    ):
        batches = loader(tmp_path, **plan | order)
        run = iter(batches)
        for _ in range(1200):
            next(run)
        after = next(run)["row"].tolist()
        state = batches.state_dict(taken=1200)
        again = loader(tmp_path, **plan | order)
        again.load_state_dict(state)
        read.clear()
        assert next(iter(again))["row"].tolist() == after
        assert sum(read) < most + 10 * 256


# --- files that change -----------------------------------------------------------------------------------------------


def vanish(folder):
    (folder / "1.parquet").unlink()


def shrink(folder):
    write(folder, [20, 19, 21])


def edit(folder):
    import pyarrow.parquet as pq

    changed = table_of(20, 20).set_column(1, "row", [pa.array(np.arange(20)[::-1] + 21)])
    pq.write_table(changed, folder / "1.parquet", row_group_size=7)


def rename(folder):
    (folder / "1.parquet").rename(folder / "3.parquet")


@pytest.mark.parametrize("change", [vanish, shrink, edit, rename])
@pytest.mark.parametrize("shuffle", [True, False])
def test_files_that_have_changed_are_refused(tmp_path, change, shuffle):
    write(tmp_path, [20, 20, 20])
    batches = loader(tmp_path, shuffle=shuffle)
    next(iter(batches))
    state = None if shuffle else batches.state_dict()
    loader(tmp_path, shuffle=shuffle).load_state_dict(state or batches.state_dict())
    change(tmp_path)
    state = state or batches.state_dict()  # that of the files as they were
    for again in (batches, loader(tmp_path, shuffle=shuffle)):
        with pytest.raises(sf.ConversionError, match=r"files that have changed since.*SF206"):
            again.load_state_dict(state)


def test_a_file_that_changes_while_it_is_read(tmp_path):
    write(tmp_path, [50, 50], group=50)
    found = files.Files(lambda: files.files_at(str(tmp_path), sf.loading.rows.Wanted()))
    pieces = found.read_mixed((1, 0), 0)
    next(pieces)
    part = found.find()[0].part()
    write(tmp_path, [40, 50], group=50)
    with pytest.raises(sf.StructureError, match=r"0\.parquet has other rows than it had when it was opened.*SF108"):
        next(part.read(part.in_order()))
    (tmp_path / "0.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        next(part.read(part.in_order()))


def test_empty_files_and_folders(tmp_path):
    write(tmp_path, [0, 5, 0, 1])
    assert sorted(itertools.chain(*rows_of(loader(tmp_path)))) == list(range(6))
    (tmp_path / "none").mkdir()
    assert rows_of(loader(tmp_path / "none")) == []
    write(tmp_path / "none", [0])
    assert rows_of(loader(tmp_path / "none", rank=1, world=3)) == []


# --- what else reads -------------------------------------------------------------------------------------------------


class Blocks:
    """Dataset with what `sf.batches` asks of one of Ray Data."""

    __module__ = "ray.data.dataset"

    def __init__(self, table):
        self.table = table

    def iter_batches(self, *, batch_size, batch_format):
        assert batch_format == "pyarrow"
        return (self.table.slice(k, batch_size) for k in range(0, len(self.table), batch_size))


def test_datasets_of_ray():
    source = Blocks(table_of(0, 3000))
    assert sorted(itertools.chain(*rows_of(loader(source, shuffle=False, columns=["row", "ids"])))) == list(range(3000))
    for more in ({}, {"shuffle": False, "rank": 0, "world": 2}):
        with pytest.raises(sf.ConversionError, match=r"Ray decides.*random_shuffle.*streaming_split"):
            loader(source, **more)
    batches = loader(source, shuffle=False)
    with pytest.raises(sf.ConversionError, match="state_dict needs rows that come in the same order each time: Ray"):
        batches.state_dict()
    with pytest.raises(sf.ConversionError, match="load_state_dict needs rows"):
        batches.load_state_dict({})


def test_files_that_are_read_in_their_order_alone(tmp_path):
    import pyarrow.dataset as ds

    filtered = ds.dataset(write(tmp_path, [30]), format="parquet").filter(ds.field("row") > 3)
    with pytest.raises(sf.ConversionError, match="in its order alone"):
        loader(filtered)
    with pytest.raises(sf.ConversionError, match="in its order alone"):
        loader(table_of(0, 9).to_reader())
    one, two = (loader(filtered, shuffle=False, rank=r, world=2, uneven="keep") for r in range(2))
    assert sorted(itertools.chain(*rows_of(one), *rows_of(two))) == list(range(4, 30))


# --- loaders of PyTorch ----------------------------------------------------------------------------------------------


class Stream(IterableDataset):
    """Batches in each worker of a loader, of the epoch and from the state that its process sets."""

    def __init__(self, source, **plan):
        self.batches = loader(source, workers="divide", **plan)

    def __iter__(self):
        return iter(self.batches)


def numbers(batches):
    return [batch["row"].tolist() for batch in batches]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_workers_give_what_one_process_gives(tmp_path, count):
    """In the same order, with ranks and from any point on."""
    write(tmp_path, [40, 50, 60])
    fork = {"multiprocessing_context": "fork"} if count else {}
    for share in ({}, {"rank": 1, "world": 2}):
        expected = loader(tmp_path, **share)
        expected.set_epoch(2)
        expected = rows_of(expected)
        for taken in (0, 1, 5, len(expected)):
            stream = Stream(tmp_path, **share)
            stream.batches.set_epoch(2)
            state = stream.batches.state_dict(taken=taken)
            again = Stream(tmp_path, **share)
            again.batches.load_state_dict(state)
            assert numbers(DataLoader(again, batch_size=None, num_workers=count, **fork)) == expected[taken:]


def test_the_state_behind_workers_is_said(tmp_path):
    stream = Stream(write(tmp_path, [40, 50]))
    list(DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="fork"))
    with pytest.raises(sf.StructureError, match=r"workers of a DataLoader.*state_dict\(taken=.*SF117"):
        stream.batches.state_dict()
    assert stream.batches.state_dict(taken=3)["taken"] == 3


@pytest.mark.parametrize("count", [0, 2])
def test_torchdata_resumes_at_any_point(tmp_path, count):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    write(tmp_path, [40, 50, 60])
    fork = {"multiprocessing_context": "fork"} if count else {}

    def made():
        return stateful(Stream(tmp_path), batch_size=None, num_workers=count, **fork)

    expected = rows_of(loader(tmp_path))
    for stop in np.random.default_rng(count).choice(len(expected), 3, replace=False).tolist():
        first, second = made(), made()
        begun = numbers(itertools.islice(first, stop))
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert begun + numbers(second) == expected


@pytest.mark.parametrize("count", [0, 2])
def test_torchdata_resumes_a_sampler_at_any_point(count):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    samples = [{"row": k} for k in range(60)]
    fork = {"multiprocessing_context": "fork"} if count else {}

    def made():
        sampler = sf.torch.BucketSampler([1 + k % 7 for k in range(60)], 12, seed=1)
        return stateful(samples, batch_sampler=sampler, collate_fn=sf.torch.collate, num_workers=count, **fork)

    expected = numbers(made())
    for stop in (0, 1, 4, len(expected) - 1, len(expected)):
        first, second = made(), made()
        begun = numbers(itertools.islice(first, stop))
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert begun + numbers(second) == expected


# --- the page, and two processes -------------------------------------------------------------------------------------

BLOCKS = blocks_of(DOCS / "training-loops.md")
(TRAIN,) = (block for block in BLOCKS if "init_process_group" in block)
SHOWN = "\n".join(block for block in BLOCKS if block.startswith(">>>"))


def test_the_page_shows_what_it_gives():
    test = doctest.DocTestParser().get_doctest(SHOWN, {}, "training-loops.md", None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    runner.run(test)
    assert (runner.failures, runner.tries > 40) == (0, True)
    shutil.rmtree(test.globs.get("corpus", ""), ignore_errors=True)


def train(folder, checkpoint, stop=None):
    """Return what two processes print, which are killed once the first has made so many steps."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    command = [sys.executable, "-c", TRAIN, str(folder), str(checkpoint)]
    processes = [
        subprocess.Popen(
            command, env={**os.environ, **shared, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for rank in range(2)
    ]
    try:
        begun = [line for line, _ in zip(processes[0].stdout, range(stop), strict=False)] if stop is not None else []
        if stop is not None:
            for process in processes:
                process.kill()
        ends = [process.communicate(timeout=HANG)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [("".join(before) + end).splitlines() for before, end in zip((begun, []), ends, strict=True)]


def test_two_processes_are_killed_and_go_on(tmp_path):
    """At a random point: all rows once an epoch, those that follow the last checkpoint, the same weights in the end."""
    assert sum(map(bool, TRAIN.splitlines())) <= 40
    corpus, checkpoint = write(tmp_path / "corpus", [150, 150, 100], group=60), tmp_path / "run.pt"
    whole = train(corpus, tmp_path / "whole.pt")
    assert len(whole[0]) == len(whole[1])
    for epoch in range(2):
        rows = [json.loads(line[2:]) for lines in whole for line in lines if line.startswith(f"{epoch} ")]
        assert sorted(set(itertools.chain(*rows))) == list(range(400))
        assert len(list(itertools.chain(*rows))) <= 400 + max(map(len, rows))  # the last batch may come twice
    stop, done = int(np.random.default_rng().integers(1, len(whole[0]))), 0
    for lines, expected in zip(train(corpus, checkpoint, stop), whole, strict=True):
        complete = [line for line in lines if line.endswith("]")]
        assert complete == expected[: len(complete)], stop
    if checkpoint.exists():
        state = torch.load(checkpoint)["batches"]
        done = state["taken"] + state["epoch"] * sum(line.startswith("0 ") for line in whole[0])
    assert train(corpus, checkpoint) == [lines[done:] for lines in whole], stop
