"""Columns of Arrow that are not what they say."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import seqformats as sf

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.bridges

TESTS = pathlib.Path(__file__).parents[1]
SEEDS = 500


def test_columns_at_random():
    """In a process of their own, since Arrow follows a wrong offset to its end."""
    first = int.from_bytes(os.urandom(4), "little")
    command = [sys.executable, "-X", "faulthandler", str(TESTS / "lying_columns.py"), str(first), str(first + SEEDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TESTS)
    assert (done.returncode, done.stdout) == (0, ""), (first, done.stdout[-2000:], done.stderr[-2000:])


def test_text_whose_offsets_lie():
    made = np.array([0, 2, 4], np.int32)
    text = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(made), pa.py_buffer(b"abcd")])
    made[:] = [0, 2, 10**6]
    with pytest.raises(sf.StructureError, match="row 1"):
        list(sf.batches({"text": text, "ids": [[1], [2]]}, max_items=9))


def test_a_chunk_without_buffers():
    """An empty list array may have no buffer of offsets."""
    empty = pa.Array.from_buffers(pa.list_(pa.int64()), 0, [None, None], children=[pa.array([], pa.int64())])
    assert len(sf.from_arrow(empty)) == 0
    assert list(sf.batches(pa.chunked_array([empty]), max_items=9)) == []
    full = pa.array([[1, 2], [3]])
    [batch] = sf.batches(pa.chunked_array([empty, full, empty]), max_items=9, to=list)
    assert batch == [[1, 2], [3]]
    [batch] = sf.batches({"a": pa.chunked_array([empty, full, empty])}, max_items=9, to=list)
    assert batch == {"a": [[1, 2], [3]]}


def test_empty_dictionaries():
    """Entries of an empty dictionary are null, whatever it would hold."""
    inner = pa.DictionaryArray.from_arrays(pa.array([], pa.int8()), pa.array([], pa.list_(pa.int64())))
    column = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), inner)
    assert sf.from_arrow(column, missing="empty").to_nested() == [[], []]
    union = pa.UnionArray.from_sparse(pa.array([], pa.int8()), [pa.array([], pa.int64())])
    column = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), union)
    with pytest.raises(TypeError, match="not read here"):
        sf.from_arrow(column, missing="empty")


@pytest.mark.parametrize("name", ["__arrow_c_stream__", "__arrow_c_array__"])
@pytest.mark.parametrize(
    "capsule",
    [None, 3, lambda: 0, pa.array([1]).__arrow_c_array__()[0]],
    ids=["none", "number", "function", "schema"],
)
def test_a_capsule_that_is_another(name, capsule):
    wrong = type("Wrong", (), {name: lambda self, requested_schema=None: capsule})()
    for read in (lambda x: list(sf.batches(x, max_items=9)), sf.from_arrow, sf.from_table):
        with pytest.raises((sf.StructureError, TypeError)) as found:
            read(wrong)
        assert found.value.code
    for read in (lambda x: list(sf.batches({"a": x}, max_items=9)), lambda x: list(sf.batches([x], max_items=9))):
        with pytest.raises((sf.StructureError, TypeError)) as found:
            read(wrong)
        assert found.value.code


INNER = {
    "maps": pa.array([[(1, 2), (3, 4)], [], [(5, 6)]], pa.map_(pa.int64(), pa.int64())),
    "structs": pa.array([{"a": [1]}, {"a": []}, {"a": [2, 3]}]),
    "structs of numbers": pa.array([{"a": 1}, {"a": 0}, {"a": 3}]),
    "decimals": pa.array([1, 2, 3], pa.decimal128(5)),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, 8])),
}


@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", INNER)
def test_what_is_advised_for_types_that_are_not_read_works(name, large, levels):
    """The Python in the message is run as it stands there, until the column is read."""
    column = INNER[name]
    for _ in range(levels):
        column = (pa.LargeListArray if large else pa.ListArray).from_arrays([0, 1, len(column)], column)
    import pyarrow.compute as pc

    read = sf.from_arrow
    for _ in range(3):
        try:
            found = read(column)
            break
        except TypeError as error:
            advice = str(error).split("; ")[1]
        names = {"sf": sf, "pa": pa, "pc": pc, "column": column, "name": "x"}
        if advice.startswith("from_table gives it"):
            found = sf.from_table({"x": column})
            break
        code = advice.partition(" reads ")[0].partition(" makes ")[0].partition(" is a plain")[0]
        column = eval(code, names)
        if code.startswith("sf."):
            found = column
            break
    assert found is not None
