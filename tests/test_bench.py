"""``python -m seqformats bench``: what it reads, that both sides of a line do the same, and that they take turns."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import seqformats as sf
from seqformats.__main__ import main
from seqformats.bench import files, race

LENGTHS = [3, 0, 2, 7]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


LISTS = [[1] * length for length in LENGTHS]
FILES = {
    "numbers.txt": ("3 0\n2\n\n7\n", None),
    "numbers.json": (json.dumps(LENGTHS), None),
    "lists.json": (json.dumps(LISTS), None),
    "texts.json": (json.dumps(["abc", "", "de", "fghijkl"]), None),
    "columns.json": (json.dumps({"ids": LISTS, "label": [1, 2, 3, 4]}), "ids"),
    "one.json": (json.dumps({"ids": LISTS}), None),
    "rows.json": (json.dumps([{"ids": one, "n": 5} for one in LISTS]), "ids"),
    "rows.jsonl": ("\n".join(json.dumps({"ids": one}) for one in LISTS) + "\n\n", "ids"),
    "bare.jsonl": ("\n".join(map(json.dumps, LISTS)), None),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_text(name, tmp_path):
    text, column = FILES[name]
    found = files.lengths_in(write(tmp_path / name, text), column)
    assert found.tolist() == LENGTHS
    assert found.dtype == np.int64


def test_files_of_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.array(LENGTHS, np.uint8))
    np.savez(tmp_path / "a.npz", lengths=np.array(LENGTHS), others=np.zeros((2, 2)))
    np.savez(tmp_path / "one.npz", lengths=np.array(LENGTHS))
    assert files.lengths_in(tmp_path / "a.npy").tolist() == LENGTHS
    assert files.lengths_in(str(tmp_path / "a.npz"), "lengths").tolist() == LENGTHS
    assert files.lengths_in(tmp_path / "one.npz").tolist() == LENGTHS


@pytest.mark.bridges
@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_files_of_arrow(ending, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table(
        {
            "ids": LISTS,
            "text": ["abc", "", "de", "fghijkl"],
            "n": LENGTHS,
            "nulls": [[1, 2, 3], None, [None, 1], [1] * 7],
            "kinds": pa.array(["abc", "", "de", "fghijkl"]).dictionary_encode(),
            "float": [0.5] * 4,
        }
    )
    path = tmp_path / f"table.{ending}"
    (pyarrow.parquet.write_table if ending == "parquet" else pyarrow.feather.write_feather)(table, path)
    for column in ("ids", "text", "n", "nulls", "kinds"):
        assert files.lengths_in(path, column).tolist() == LENGTHS
    with pytest.raises(TypeError, match="column 'float' of .* holds double"):
        files.lengths_in(path, "float")
    with pytest.raises(sf.StructureError, match="give --column and one of: ids, text, n, nulls, kinds, float"):
        files.lengths_in(path)
    with pytest.raises(sf.StructureError, match="has no column 'id'"):
        files.lengths_in(path, "id")
    with pytest.raises(sf.StructureError, match="cannot be read"):
        files.lengths_in(write(tmp_path / f"broken.{ending}", "nothing of the kind"))


BAD = [
    ("a.csv", "1,2", None, TypeError, "none of the files that are read: .npy"),
    ("a.txt", "3 x", None, TypeError, "line 1 has 'x'"),
    ("a.txt", "", None, sf.StructureError, "holds no sequence"),
    ("a.txt", "3", "ids", sf.StructureError, "leave --column out"),
    ("a.json", "[1, -2]", None, sf.StructureError, "must not be negative"),
    ("a.json", "[1.5]", None, TypeError, "must be integers"),
    ("a.json", "[[1], 2]", None, TypeError, "row 1 of .* is 2, but others are lists"),
    ("a.json", "{", None, sf.StructureError, "is no JSON"),
    ("a.json", "5", None, TypeError, "must hold a list"),
    ("a.json", "{}", None, sf.StructureError, "several columns.*none"),
    ("a.json", '[{"a": [1]}, {}]', "a", sf.StructureError, "row 1 of .* has no column 'a'"),
    ("a.json", '{"a": [1], "b": [2]}', None, sf.StructureError, "give --column and one of: a, b"),
    ("a.json", '{"a": [1]}', "b", sf.StructureError, "has no column 'b'; its columns are: a"),
    ("a.jsonl", "[1]\n[", None, sf.StructureError, "line 2 of .* is no JSON"),
    ("a.npy", "no array", None, sf.StructureError, "cannot be read as arrays"),
    ("a.npz", "no array", None, sf.StructureError, "cannot be read as arrays"),
]


@pytest.mark.parametrize(("name", "text", "column", "kind", "words"), BAD)
def test_files_that_cannot_be_read(name, text, column, kind, words, tmp_path, capsys):
    path = write(tmp_path / name, text)
    with pytest.raises(kind, match=words) as caught:
        files.lengths_in(path, column)
    assert caught.value.code.startswith("SF")
    assert main(["bench", "--like", str(path), *([] if column is None else ["--column", column])]) == 2
    assert capsys.readouterr().err == f"{caught.value}\n"


def test_no_file(tmp_path, capsys):
    assert main(["bench", "--like", str(tmp_path / "a.txt")]) == 2
    assert f"there is no file {tmp_path / 'a.txt'}" in capsys.readouterr().err
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(FileNotFoundError):
        files.lengths_in(tmp_path / "folder.npy")


def test_other_arrays(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([[1], [1, 2]], object), allow_pickle=True)
    with pytest.raises(sf.StructureError, match="cannot be read"):
        files.lengths_in(tmp_path / "objects.npy")
    np.save(tmp_path / "wide.npy", np.ones((2, 2), int))
    with pytest.raises(sf.StructureError, match="must have one axis"):
        files.lengths_in(tmp_path / "wide.npy")
    np.save(tmp_path / "single.npy", np.ones(2, int))
    (tmp_path / "single.npy").rename(tmp_path / "single.npz")
    with pytest.raises(sf.StructureError, match="is no npz file"):
        files.lengths_in(tmp_path / "single.npz")


def same(own, other):
    """What both sides of a line have made."""
    if isinstance(own, sf.Masked):
        other = other[0] if isinstance(other, tuple) else other
    elif isinstance(own, sf.Ragged) and isinstance(other, tuple):
        assert np.asarray(other[1]).tolist() == own.lengths.tolist()
        other = other[0]
    np.testing.assert_allclose(np.asarray(getattr(own, "data", own)), np.asarray(other), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.peers)])
@pytest.mark.parametrize("lengths", [LENGTHS, [5], [0, 1], [0, 0, 0, 4, 0], [0]])
def test_both_sides_do_the_same(library, lengths):
    found = getattr(race, f"in_{library}")(np.array(lengths), 3, 0)
    assert len(found) == 14
    for own, other in zip(found[::2], found[1::2], strict=True):
        assert (own.operation, own.own, other.own) == (other.operation, True, False)
        same(own.call(), other.call())


def test_all_take_turns(monkeypatch):
    seen = []
    monkeypatch.setattr(race, "_turn", lambda call, count: (seen.append(call), 2.0 if call is slow else 1.0)[1])

    def quick():
        return None

    def slow():
        return None

    pair = [race.Contender("wait", "NumPy", True, quick), race.Contender("wait", "NumPy", False, slow)]
    (found,) = race.times(pair, 7, 0)
    assert (found.own, found.other, found.ratio) == (1.0, 2.0, 2.0)
    rounds = [seen[k : k + 2] for k in range(2, len(seen), 2)]
    assert len(rounds) == 7
    assert all(set(one) == {quick, slow} for one in rounds)
    assert len({one[0] for one in rounds}) == 2  # not always the same one first


def test_the_command(tmp_path, capsys):
    path = write(tmp_path / "a.json", json.dumps([3, 1, 40, 2, 2, 5, 1, 38]))
    assert main(["bench", "--like", str(path), "--batch", "4", "--rounds", "1", "--width", "2"]) == 0
    text = capsys.readouterr().out
    assert "8 sequences of 1 to 40 items, 11.5 on average" in text
    assert "a batch of 4 sequences" in text
    assert "padding: 71 % in 2 batches of 4 in this order" in text
    for name in ("list -> ragged", "ragged -> masked", "masked -> ragged", "mean", "softmax", "expand", "select"):
        assert re.search(rf"^{name} +NumPy +\d.* \d+\.\d\d$", text, re.MULTILINE), name


def test_no_items_at_all():
    _, text = race.report(np.zeros(3, np.int64), batch=2, width=1, rounds=1, seed=0)
    assert "nothing to pad" in text


def test_a_rectangle_that_is_too_large(tmp_path, capsys):
    path = write(tmp_path / "a.txt", "1 100000000")
    assert main(["bench", "--like", str(path)]) == 2
    assert "would take 12.8 GB in a rectangle; give a smaller --batch or --width [SF207]" in capsys.readouterr().err


def test_a_picture_needs_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["bench", "--like", str(write(tmp_path / "a.txt", "1 2")), "--picture", "a.svg"]) == 2
    assert "matplotlib" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--batch", "--width", "--rounds"])
def test_options_are_numbers(option, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--like", "a.txt", option, "0"])
    assert "a whole number from 1 on, not 0" in capsys.readouterr().err


def test_pyarrow_is_asked_for_by_its_files_alone(tmp_path):
    path = write(tmp_path / "a.txt", "1 2")
    script = f"""
import sys
from seqformats.bench import files
files.lengths_in({str(path)!r})
assert "pyarrow" not in sys.modules and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
