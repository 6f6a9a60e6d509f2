"""What the simulator cannot see of grids and of kernels for CUDA: constants that must agree, and barriers."""

import ast
import pathlib
import re

import pytest

from seqformats import kernels
from seqformats.beam import candidates
from seqformats.launch.kernel import Work, kernel

grids = pytest.importorskip("seqformats.launch.grids", reason="numba-cuda compiles the kernels")

pytestmark = pytest.mark.passes("compiled", "interpreted", reason="there are no such grids with checks")

FOLDER = pathlib.Path(kernels.__file__).parent
FILES = [*sorted(FOLDER.glob("*.py")), FOLDER / "parts" / "device.py", FOLDER / "parts" / "keys.py"]
# What waits for all threads of a block.
BARRIERS = {
    *("syncthreads", "tree_sum", "tree_max", "column_sum", "column_slopes", "column_powers", "tree_powers"),
    *("came_last", "choose_of_row", "merge_rows"),
}


@pytest.mark.parametrize("units", [1, 2, 3, 127, 128, 1000, 1 << 20])
def test_no_block_without_a_unit(units):
    """`best_tokens` and others have memory for as many blocks as there are units."""
    for over, size in (("blocks", 5), ("scores", 5), ("scores", 50_000)):
        grid, _, _ = grids.geometry(over, Work(units, units), size)
        assert grid[0] <= units


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 63, 1000, 260_000])
@pytest.mark.parametrize("row", [1, 3, 16, 33, 192, 768, 9_000_000])
def test_lines_cover_all_rows_and_words(rows, row):
    grid, block, _ = grids.geometry("lines", Work(2, rows), row)
    assert grid[0] * block[1] * grids.ROWS_PER_THREAD >= rows
    assert grid[1] * grid[2] * block[0] >= row
    assert grid[1] <= 65535
    assert block[0] * block[1] * block[2] <= grids.THREADS
    if grids.THREADS == 256:  # the simulator has no such limit, and narrow blocks
        assert grid[2] <= 65535


@pytest.mark.parametrize(("runs", "room"), [(1, 1), (3, 7), (20_000, 25), (64, 60), (2, 1_000_000)])
@pytest.mark.parametrize("row", [1, 3, 16, 192, 9_000_000])
def test_rooms_cover_all_words(runs, room, row):
    grid, block, _ = grids.geometry("rooms", Work(runs, runs * room), row)
    assert grid[0] * block[0] >= row
    assert block[0] * block[1] * block[2] <= grids.THREADS
    assert block[2] <= 64
    assert max(grid[1:]) <= 65535


@pytest.mark.parametrize("units", [1, 3, 64, 20_000])
@pytest.mark.parametrize("row", [1, 3, 16, 192, 9_000_000])
def test_units_have_a_thread_for_each_column(units, row):
    grid, block, _ = grids.geometry("units", Work(units, units), row)
    assert block[0] * block[1] * block[2] <= grids.THREADS
    if grids.THREADS == 256:  # the simulator has few threads, which go on
        assert grid[0] * block[1] >= units
        assert grid[1] == min(-(-row // block[0]), 65535)


def called(node):
    """The name of what a node calls."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


NAMES = [path.stem for path in FILES if path.parent == FOLDER and path.stem != "__init__"]


@pytest.mark.parametrize("name", [name for name in NAMES if kernel(name).load().over == "units"])
def test_a_column_of_a_unit_is_the_work_of_one_thread(name):
    """The grid has blocks side by side for wide rows, and what goes over them by itself does all that others do."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    drivers = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in ("cuda", "short")]
    loops = [node for driver in drivers for node in ast.walk(driver) if isinstance(node, ast.While)]
    over_columns = [loop for loop in loops if ast.unparse(loop.test) == "k < width"]
    for loop in over_columns:
        assert "columns_of_grid" in {called(node) for node in ast.walk(loop)}


def test_four_rows_are_written_out():
    tree = ast.parse((FOLDER / "parts" / "device.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names = [called(node) for node in ast.walk(functions["move_four"])]
    assert names.count("load_word") == names.count("store_word") == grids.ROWS_PER_THREAD
    pad = ast.parse((FOLDER / "pad_rows.py").read_text(encoding="utf-8"))
    assert [called(node) for node in ast.walk(pad)].count("store_word") == grids.ROWS_PER_THREAD


def test_the_best_so_far_and_a_turn_have_room():
    """`best_of_groups` has shared memory for so many keys as a block has threads."""
    text = (FOLDER / "best_of_groups.py").read_text(encoding="utf-8")
    (turn,) = map(int, re.findall(r"step = min\(threads, (\d+)\)", text))
    (kept,) = map(int, re.findall(r"if found > (\d+)", text))
    (room,) = map(int, re.findall(r"keys = p.natural\(gpu.shared.array\((\d+),", text))
    assert kept == candidates._FEW
    assert kept + turn <= room
    assert f"< {room - 4}:" in text
    assert f"<= {room - 4} " in text, "four numbers are before the groups that are named"


# Conditions that are the same for all threads of a block: of the arguments, of the item that the block has, or of what
# all have been told.
UNIFORM = {
    *(
        "terms.form == 2 and made.bias.size != 0 and (column == 0)",
        "column == 0",
        "begins.size != 0",
        "smoothing != 0",
        "counts",
        "down != 1",
        "found > 64 or at >= size",
        "whole",
        "merges",
    ),
    *(
        "moments.size != 0",
        "moments.size == 0 and scaled != 0",
        "mean != 0",
        "wrong == 0 and total != total",
        "goals.gradient != 0 and total > -math.inf",
    ),
}


def barriers_in_branches(tree):
    """The barriers that only some threads may reach: those in an `if`, or behind a `return`."""
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for branch in ast.walk(function):
                if isinstance(branch, (ast.If, ast.IfExp)) and ast.unparse(branch.test) not in UNIFORM:
                    found += [node.lineno for node in ast.walk(branch) if called(node) in BARRIERS]
            waits = [node.lineno for node in ast.walk(function) if called(node) in BARRIERS]
            ends = [node.lineno for node in ast.walk(function) if isinstance(node, ast.Return)]
            found += [line for line in waits if any(end < line for end in ends)]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_threads_of_a_block_come_to_each_barrier(path):
    assert barriers_in_branches(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_the_check_sees_what_it_looks_for():
    assert barriers_in_branches(ast.parse("def f():\n    if gpu.threadIdx.x == 0:\n        gpu.syncthreads()")) == [3]
    assert barriers_in_branches(ast.parse("def f():\n    if a:\n        return\n    tree_sum(parts, 1)")) == [4]


def test_four_columns_are_for_where_there_are_threads_enough(monkeypatch):
    monkeypatch.setattr(grids, "_FOURS_FROM", 1 << 17)
    wide, many = Work(64, 1_900), Work(20_000, 500_000)
    assert [grids.fours_fill("units", *batch) for batch in ((wide, 768), (many, 64), (many, 16))] == [
        False,
        True,
        False,
    ]
    assert [grids.fours_fill("lines", *batch) for batch in ((wide, 768), (many, 64))] == [False, True]
