"""`sf.batches` over Parquet, Arrow, datasets and polars: the same batches, constant memory, files cut short."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import seqformats as sf
from seqformats.loading import read_ahead

pytestmark = pytest.mark.bridges

HANGS = 300  # seconds, far above what anything here takes
ROWS = 3000


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    for thread in ours():
        thread.join(HANGS)
    assert ours() == []


def ours():
    return [thread for thread in threading.enumerate() if thread.name == read_ahead.THREAD_NAME]


def make_table():
    import pyarrow as pa

    lengths = np.minimum(np.random.default_rng(0).lognormal(3, 0.7, ROWS).astype(np.int32), 500)
    offsets = np.r_[0, lengths.cumsum()].astype(np.int32)
    ids = pa.ListArray.from_arrays(offsets, np.arange(offsets[-1]))
    vectors = pa.FixedSizeListArray.from_arrays(np.arange(2.0 * ROWS, dtype=np.float32), 2)
    names = pa.array([f"row {k}" for k in range(ROWS)])
    return pa.table({"ids": ids, "row": np.arange(ROWS), "vector": vectors, "name": names})


TABLE = None


@pytest.fixture
def table():
    global TABLE
    TABLE = make_table() if TABLE is None else TABLE
    return TABLE


@pytest.fixture
def folder(table, tmp_path):
    import pyarrow.parquet as pq

    for k in range(3):
        pq.write_table(table.slice(k * 1000, 1000), tmp_path / f"{k}.parquet", row_group_size=300)
    return tmp_path


def made(source, **options):
    return list(sf.batches(source, **{"max_items": 2000, **options}))


def check_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            a, b = one[name], other[name]
            assert sf.equal(a, b) if isinstance(a, sf.Masked) else a.tolist() == b.tolist()


def write_arrow(table, folder):
    import pyarrow as pa

    with pa.ipc.new_stream(folder / "0.arrow", table.schema) as stream:
        stream.write_table(table.slice(0, 1000), 300)
    with pa.ipc.new_file(folder / "1.arrow", table.schema) as file:
        file.write_table(table.slice(1000), 700)
    (folder / "state.json").write_text("{}")
    return folder


def polars_of(table):
    import polars as pl

    return pl.from_arrow(table)


def dataset_of(table):
    import datasets

    return datasets.Dataset(table)


def file_set(folder):
    import pyarrow.dataset

    return pyarrow.dataset.dataset(folder)


def partitioned(table, folder):
    import pyarrow.compute as pc
    import pyarrow.dataset

    part = pc.divide(table["row"], 1000)
    pyarrow.dataset.write_dataset(
        table.append_column("part", part),
        folder / "parts",
        format="parquet",
        partitioning=["part"],
        partitioning_flavor="hive",
        use_threads=False,
    )
    return folder / "parts"


def nano(table):
    import nanoarrow

    return nanoarrow.ArrayStream(table)


SOURCES = {
    "record batches": lambda table, _: table.to_batches(99),
    "a generator of tables": lambda table, _: (table.slice(k, 700) for k in range(0, ROWS, 700)),
    "a reader": lambda table, _: table.to_reader(300),
    "a folder": lambda _, folder: folder,
    "a folder by its name": lambda _, folder: str(folder),
    "a dataset of files": lambda _, folder: file_set(folder),
    "a filtered one": lambda _, folder: file_set(folder).filter(
        __import__("pyarrow.dataset").dataset.field("row") >= 0
    ),
    "a scanner": lambda _, folder: file_set(folder).scanner(batch_size=100),
    "Arrow's own files": lambda table, folder: write_arrow(table, folder),
    "polars": lambda table, _: polars_of(table),
    "pandas": lambda table, _: table.to_pandas(),
    "nanoarrow": lambda table, _: nano(table),
    "duckdb": lambda table, _: __import__("duckdb").from_arrow(table),
    "datasets": lambda table, _: dataset_of(table),
    "a stream of datasets": lambda table, _: dataset_of(table).to_iterable_dataset(num_shards=3),
    "rows": lambda table, _: table.to_pylist(),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("window", [None, 0, 500])
def test_the_same_batches_whatever_they_come_from(source, window, table, folder):
    options = {"shuffle_buffer": window, "seed": 3, "columns": ["ids", "row", "name"]}
    expected = made(table, **options)
    assert sum(len(batch["row"]) for batch in expected) == ROWS
    check_same(made(SOURCES[source](table, folder), **options), expected)


def test_the_table_itself(table):
    offsets = np.asarray(table["ids"].chunk(0).offsets)
    seen = []
    for batch in made(table, to=sf.Ragged):
        assert batch["vector"].tolist() == [[2 * k, 2 * k + 1] for k in batch["row"]]
        assert batch["name"].tolist() == [f"row {k}" for k in batch["row"]]
        for k, ids in zip(batch["row"], batch["ids"].sequences(), strict=True):
            assert ids.tolist() == list(range(offsets[k], offsets[k + 1]))
        seen += batch["row"].tolist()
    assert sorted(seen) == list(range(ROWS))


def test_a_column_alone(table):
    expected = made(table, columns="ids")
    for source in (table["ids"], table["ids"].chunk(0), polars_of(table)["ids"], table["ids"].chunks):
        found = made(source)
        assert all(sf.equal(a, b) for a, b in zip(found, expected, strict=True))
    with pytest.raises(sf.StructureError, match="a single column"):
        made(table["ids"], columns=["ids"])


def test_text_as_bytes(table):
    for source in (table, dataset_of(table), table.to_pylist()):
        batch = made(source, columns="name", to=sf.Ragged)[0]
        assert batch.dtype == np.uint8
        assert batch[0].data.tobytes().startswith(b"row ")


def test_columns_of_a_partition(table, folder):
    parts = partitioned(table, folder)
    for source in (parts, hive(parts)):
        batches = made(source, columns=["ids", "part", "row"])
        assert [list(batch) for batch in batches] == [["ids", "part", "row"]] * len(batches)
        assert sum(len(batch["row"]) for batch in batches) == ROWS
        assert all((batch["row"] // 1000).tolist() == batch["part"].tolist() for batch in batches)


def hive(folder):
    import pyarrow.dataset

    return pyarrow.dataset.dataset(folder, partitioning="hive")


def test_some_groups_of_rows_of_a_file(folder):
    import pyarrow.dataset

    groups = [group for fragment in file_set(folder).get_fragments() for group in fragment.split_by_row_group()][1:3]
    chosen = pyarrow.dataset.FileSystemDataset(groups, file_set(folder).schema, file_set(folder).format)
    rows = np.concatenate([batch["row"] for batch in made(chosen, shuffle_buffer=0)])
    assert rows.tolist() == list(range(300, 900))


def test_files_with_other_columns(table, folder):
    import pyarrow.parquet as pq

    pq.write_table(table.select(["row", "name"]), folder / "3.parquet")
    with pytest.raises(sf.StructureError, match=r"3\.parquet has no column 'ids', but others have"):
        made(folder)


def test_each_iteration_reads_anew(folder, table):
    for source in (folder, dataset_of(table), dataset_of(table).to_iterable_dataset(), polars_of(table)):
        found = sf.batches(source, max_items=2000, seed=1, columns=["row", "ids"])
        first, second = (np.concatenate([batch["row"] for batch in found]).tolist() for _ in range(2))
        assert first != second
        assert sorted(first) == sorted(second) == list(range(ROWS))


def test_tensors(folder):
    import torch

    batch = made(folder, library="torch", columns=["ids", "row", "name"])[0]
    assert isinstance(batch["ids"].data, torch.Tensor)
    assert isinstance(batch["row"], torch.Tensor)
    batch["ids"].data[0, 0] = 7  # it may be written
    rows = [{"ids": torch.arange(k), "label": torch.tensor(k)} for k in range(5)]
    (batch,) = made(rows, shuffle_buffer=0, library="torch")
    assert batch["label"].tolist() == [0, 1, 2, 3, 4]
    assert batch["ids"].data.shape == (5, 4)


def test_nulls(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    few = pa.table({"ids": [[1, 2]] * 5 + [None, [3, None]], "label": [1, 2, 3, None, 5, 6, 7]})
    pq.write_table(few, tmp_path / "0.parquet", row_group_size=2)
    for source, of in ((few, ""), (few.to_batches(2), ""), (tmp_path, r" of .*0\.parquet")):
        with pytest.raises(sf.StructureError, match=rf"column 'ids', row 5{of}: it is null; missing=.empty."):
            made(source, columns=["ids"])
        with pytest.raises(sf.StructureError, match=rf"column 'ids', row 6{of}: an item in it is null; items=0"):
            made(source, columns=["ids"], missing="empty")
        with pytest.raises(sf.StructureError, match=rf"column 'label', row 3{of}: it is null"):
            made(source, columns=["label", "ids"], by="ids", missing="empty")
        (batch,) = made(source, columns="ids", missing="empty", items=-1, shuffle_buffer=0)
        assert batch.to_nested() == [[1, 2]] * 5 + [[], [3, -1]]


def test_splits_are_named(table):
    import datasets

    with pytest.raises(TypeError, match="'train'"):
        sf.batches(datasets.DatasetDict(train=dataset_of(table)), max_items=9)


# ----------------------------------------------------------------------------------------------- files cut short


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("left", [0, 3, 1000, -1, -100])
def test_a_parquet_file_cut_short(folder, prefetch, left):
    path = folder / "1.parquet"
    path.write_bytes(path.read_bytes()[:left])
    run = iter(sf.batches(folder, max_items=2000, shuffle_buffer=200, prefetch=prefetch))
    found = []
    with pytest.raises(sf.StructureError, match=r"1\.parquet cannot be read from row 0 on"):
        found.extend(run)
    assert 700 < sum(len(batch["row"]) for batch in found) < 1000
    assert list(run) == []


def test_a_parquet_file_with_other_bytes_in_it(folder):
    """What stands in the middle of a page is found when that is read."""
    path = folder / "1.parquet"
    content = bytearray(path.read_bytes())
    for at in range(2000, len(content) // 2, 50):
        content[at] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(sf.StructureError, match=r"1\.parquet"):
        made(folder)


@pytest.mark.parametrize("name", ["0.arrow", "1.arrow"])
def test_an_arrow_file_cut_short(table, tmp_path, name):
    write_arrow(table, tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(sf.StructureError, match=rf"{name} cannot be read from row \d+ on"):
        made(tmp_path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sf.batches(tmp_path / "nowhere", max_items=3)
    assert made(tmp_path) == []


def test_columns_that_are_not_there(folder, table):
    for source in (folder, table, polars_of(table)):
        with pytest.raises(sf.StructureError, match=r"no column 'x'; there are 'ids'"):
            made(source, columns=["x"])


def test_a_row_that_is_too_long(folder):
    with pytest.raises(sf.StructureError, match=r"column 'ids', row \d+ of .*0\.parquet has \d+ items, more than"):
        made(folder, max_items=100)


# ---------------------------------------------------------------------------------------------- constant memory

READ = """
    import pathlib
    import resource
    import sys
    import threading

    import numpy as np

    import seqformats as sf

    FILES, ROWS, ROOM = 19, 20_000, 20 << 20  # bytes
    OPEN = 4 << 20  # for each file that is open beside others: pages of its columns
    threading.stack_size(1 << 20)  # else the room is that of stacks, for the most part

    def write(folder, files, rows):
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir()
        lengths = np.minimum(np.random.default_rng(0).lognormal(4.5, 1, rows).astype(np.int32) + 1, 2000)
        offsets = np.r_[0, lengths.cumsum()].astype(np.int32)
        items = np.arange(offsets[-1]) % 50
        ids = pa.ListArray.from_arrays(offsets, items)
        for k in range(files):
            pq.write_table(pa.table({"ids": ids, "row": np.arange(k * rows, (k + 1) * rows)}), folder / f"{k}.parquet")
        return files * items.nbytes, files * int(items.sum())

    def read(folder, window=1000, shuffle=sys.argv[2] == "shuffled"):
        seen, total = np.zeros(FILES * ROWS, np.uint8), 0
        for batch in sf.batches(folder, max_items=16384, shuffle_buffer=window, seed=1, shuffle=shuffle):
            seen[batch["row"]] += 1
            total += int(sf.reduce_sum(batch["ids"]).sum())
        return seen, total

    def used():
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmData")) * 1024

    few, all_of_them = (pathlib.Path(sys.argv[1]) / name for name in ("few", "all"))
    if sys.argv[2] == "write":
        write(few, 1, 2000)
        print(*write(all_of_them, FILES, ROWS), ROOM)
        sys.exit()

    read(few)  # whatever is loaded once, and the threads
    limit = used() + ROOM + (FILES * OPEN if sys.argv[2] == "shuffled" else 0)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if sys.argv[2] == "all at once":
        read(all_of_them, FILES * ROWS)
    seen, total = read(all_of_them)
    assert seen.min() == seen.max() == 1
    print(total)
"""


def child(*arguments):
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    command = [sys.executable, "-c", textwrap.dedent(READ), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False, env=environment)


@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="only Linux counts this memory")
def test_twenty_times_the_memory_there_is(tmp_path):
    """In a process that gets no more than a twentieth of what is read, beyond what it has when it begins."""
    written = child(tmp_path, "write")
    assert written.returncode == 0, written.stderr
    size, total, room = map(int, written.stdout.split())
    assert size >= 20 * room
    for how in ("in windows", "shuffled"):
        done = child(tmp_path, how)
        assert (done.returncode, done.stdout) == (0, f"{total}\n"), done.stderr
    failed = child(tmp_path, "all at once")  # so the limit is one
    assert failed.returncode != 0


# -------------------------------------------------------------------------------------------------------- how it ends


def test_ctrl_c_in_the_consumer(folder):
    code = """
        import sys
        import seqformats as sf
        for epoch in range(1_000_000):
            for batch in sf.batches(sys.argv[1], max_items=2000):
                print("begun", flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANGS)
    assert process.returncode in (-signal.SIGINT, 130, 1)
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_stream_that_is_left_early(table):
    stream = dataset_of(table).to_iterable_dataset()
    run = iter(sf.batches(stream, max_items=2000, shuffle_buffer=50))
    next(run)
    run.close()
    assert ours() == []


def test_a_bar(table, capsys):
    made(table, progress="reading")
    shown = capsys.readouterr().err
    assert "reading: 100%" in shown
    made(table)
    assert capsys.readouterr().err == ""


def test_columns_of_types_that_are_not_read():
    import pyarrow as pa

    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), pa.array([[1], [2]]))
    lists = pa.ListArray.from_arrays([0, 2, 3], pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), pa.array([1, 2])))
    both = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([[1], [2]]), pa.array(["a", "b"])])
    for column in (runs, lists, both):
        for source in (column, pa.chunked_array([column]), pa.table({"x": column})):
            with pytest.raises(sf.StructureError, match=r"row 0: .* not read here.*\[SF304\]"):
                list(sf.batches(source, max_items=9))
