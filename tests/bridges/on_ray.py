"""What `test_engines` runs on Ray, in a process of its own: it may hang, and it warns of itself."""

import os
import re
import sys

import numpy as np
import pyarrow as pa
import ray

import seqformats as sf

SIZES = [2, 1, 0, 3, 0, 1, 4, 2]


def corpus():
    """Documents of embeddings, in blocks that hold two each; and their means."""
    lengths = np.array(SIZES)
    x = sf.Ragged(np.arange(4 * lengths.sum(), dtype=np.float32).reshape(-1, 4), lengths)
    table = pa.table({"id": np.arange(len(lengths)), "tokens": sf.to_arrow(x, large=False)})
    means = np.stack([s.mean(axis=0) if len(s) else np.zeros(4, np.float32) for s in x.sequences()])
    return x, ray.data.from_arrow([table.slice(k, 2) for k in range(0, len(lengths), 2)]), means


def pool(tokens):
    return {"vector": sf.reduce_mean(tokens), "turned": sf.reverse(tokens)}


def check_results():
    """Rows are tensors of their dtype, encodings lists; blocks without rows are blocks like others."""
    x, dataset, means = corpus()
    mapped = sf.engines.ray(pool, ["tokens"], keep=["id"])
    done = dataset.map_batches(mapped, batch_format="pyarrow").materialize()
    assert done.schema().names == ["id", "vector", "turned"]
    table = pa.concat_tables(ray.get(done.to_arrow_refs())).sort_by("id")
    assert sf.equal(sf.from_arrow(table["turned"]), sf.reverse(x))
    batch = done.take_batch(len(x))
    assert batch["vector"].dtype == np.float32
    assert np.array_equal(batch["vector"][np.argsort(batch["id"])], means)

    some = dataset.filter(expr="id == 3")
    twice = sf.engines.ray(lambda vectors: {"twice": 2 * vectors}, "vector", keep=False)
    batch = some.map_batches(sf.engines.ray(pool, "tokens"), batch_format="pyarrow")
    batch = batch.map_batches(twice, batch_format="pyarrow").take_batch(9)
    assert batch["twice"].dtype == np.float32
    assert np.array_equal(batch["twice"], 2 * means[3:4])


def check_errors():
    """They come through, with column and row, and nothing is left of the batch."""
    broken = ray.data.from_arrow(pa.table({"tokens": [[1], None]}))
    try:
        broken.map_batches(sf.engines.ray(sf.reduce_sum, "tokens"), batch_format="pyarrow").materialize()
    except ray.exceptions.RayTaskError as error:
        assert re.search("StructureError: column 'tokens': .* null.* row 1", str(error)), error
        return
    raise AssertionError("no error came through")


def check_death():
    """A worker that dies is an error after as many tries as are asked for."""
    _, dataset, _ = corpus()
    mapped = sf.engines.ray(lambda tokens: os._exit(1), "tokens")
    try:
        dataset.map_batches(mapped, batch_format="pyarrow", max_retries=0).materialize()
    except ray.exceptions.WorkerCrashedError:
        return
    raise AssertionError("no error came through")


if __name__ == "__main__":
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(num_cpus=2, _node_ip_address="127.0.0.1", **options)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        check_results()
        check_errors()
        check_death()
    finally:
        ray.shutdown()
    sys.exit(0)
