"""The benchmark runs, its candidates agree, and it writes what it says; no time is looked at."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"

pytestmark = [
    pytest.mark.passes("compiled", reason="it measures compiled kernels, in processes of its own"),
    pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="it comes with the source alone"),
]


def benchmarks(*options):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_all_candidates_agree():
    done = benchmarks("--check", "--shapes", "tiny")
    assert done.returncode == 0, done.stderr
    assert "reduce_sum gradient" in done.stdout


def test_it_writes_tables_numbers_and_pictures(tmp_path):
    done = benchmarks("--quick", "--shapes", "tiny", "--only", "list -> padded,reduce_max", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "benchmarks.json").read_text())
    cells = {(c["operation"], c["shape"], c["arrays"]): c for c in results["cells"]}
    cell = cells["list -> padded", "tiny", "NumPy"]
    assert cell["ratio"] > 0
    assert cell["of roof"] >= cell["of limit"] > 0
    times = cell["times"]
    assert all(t["min"] <= t["low"] <= t["median"] <= t["high"] for t in times.values())
    assert cell["ratio"] == pytest.approx(times[cell["best peer"]]["min"] / times["seqformats"]["min"], rel=1e-2)
    page, table = (tmp_path / "benchmarks.md").read_text(), (tmp_path / "benchmarks" / "moves.md").read_text()
    assert "## Goals" in page
    assert "(benchmarks/moves.md)" in page
    assert "(benchmarks/moves.svg)" in page
    for name in cell["times"]:
        assert name in table or name not in (cell["best peer"], "seqformats")
    assert {path.name for path in tmp_path.glob("benchmarks/*.svg")} == {"families.svg", "moves.svg", "reduce.svg"}


def test_the_pages_are_what_the_recorded_numbers_make(tmp_path):
    shutil.copy(DOCS / "benchmarks.json", tmp_path)
    done = benchmarks("--report", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    made = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(made) > 10
    there = [DOCS / "benchmarks.json", DOCS / "benchmarks.md", *(DOCS / "benchmarks").iterdir()]
    assert sorted(str(path.relative_to(DOCS)) for path in there) == sorted(made)
    old = [name for name, text in made.items() if (DOCS / name).read_text() != text]
    assert not old, f"{old} are out of date: run python -m benchmarks --report"


def test_everybody_follows_everybody():
    """The order of the candidates is drawn in each round, the same in each run."""
    from benchmarks import cells

    def rounds():
        seen = []
        candidates = {name: cells.Peer(lambda: None, prepare=lambda: None) for name in "abc"}

        class Clock(cells.Clock):
            def __call__(self, candidate, calls=1):
                seen.append(next(name for name in candidates if candidates[name] is candidate))
                time.sleep(1e-3)
                return 1e-3

        cells.in_turns(candidates, Clock("cpu"), cells.Effort(1, 40))
        return ["".join(seen[k : k + 3]) for k in range(6, len(seen), 3)][:40]

    found = rounds()
    assert len(found) == 40
    assert all(sorted(one) == ["a", "b", "c"] for one in found)
    assert len(set(found)) == 6
    assert found == rounds()


def test_calls_of_a_turn_go_on_with_what_was_prepared():
    """As the steps of a search do; the next turn has another one."""
    from benchmarks import cells

    made, clock = [], cells.Clock("cpu")
    counting = cells.Peer(lambda x: x.append(0), prepare=lambda: made.append([]) or made[-1])
    for calls in (1, 3):
        clock(counting, calls)
    assert [len(x) for x in made] == [1, 3]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="where memory is new is known of Linux alone")
def test_a_large_pass_writes_new_memory():
    """As the results of operations do: each call has the system make its pages, of which the largest have 2 MB."""
    from benchmarks import cells, counts

    size = 40 << 20
    for limit in (cells.Limit(size, size), cells.Limit(0, size)):
        for name, run in cells.passes(limit, "cpu").items():
            assert counts.faults(run) >= size / (2 << 20) - 1, name


def test_what_goals_and_tables_say_of_minima_and_tenths():
    from benchmarks import cells, goals, markdown

    def times(least, median):
        return {"min": least, "p10": least, "median": median, "low": median, "high": median, "turns": 9}

    cell = {"operation": "expand", "arrays": "NumPy", "threads": 1, "family": "sequence", "best peer": "NumPy repeat"}
    both = {"seqformats": times(1e-6, 4e-6), "NumPy repeat": times(3e-6, 3e-6)}
    found = {}
    for shape in ("tiny", "wide"):
        ratio = cells.figure(both["NumPy repeat"], shape) / cells.figure(both["seqformats"], shape)
        found[shape] = ratio
        rows = goals.rows({"cells": [cell | {"shape": shape, "times": both, "ratio": ratio}]})
        judged = {what: (measured, reached) for what, measured, reached in rows}
        if shape == "tiny":
            assert judged["expand of tiny 2 times as fast as NumPy repeat"] == ("3.00", True)
        else:
            assert judged["expand of wide as fast as the best peer (0.95), by tenth percentiles"] == ("3.00", True)
            for which in ("of NumPy arrays with one thread", "at all"):
                assert not judged[f"no cell {which} below 0.95 of the best peer"][1]
    assert found == pytest.approx({"tiny": 3, "wide": 0.75})
    old = {"median": 2e-6, "low": 1e-6, "high": 3e-6, "turns": 5}  # as it was written before
    assert cells.figure(old, "tiny") == 2e-6
    assert markdown.spread(old) == "2.00 µs (1.00 µs to 3.00 µs)"
    assert markdown.spread(both["seqformats"]) == "1.00 µs; 4.00 µs (4.00 µs to 4.00 µs)"


def test_what_is_said_of_starting_and_of_counts():
    from benchmarks import goals, report

    def times(ms):
        return {"min": ms / 1e3, "median": ms / 1e3, "low": ms / 1e3, "high": ms / 1e3, "turns": 9, "cpu": ms / 1e3}

    start = {
        "times": {"import numpy": times(100), "first conversion": times(150), "ten operations": times(900)},
        "pairs": [["import numpy", "first conversion"]],
        "cold": {"cpu": 0.8, "numba": False},
        "from": "The library is a checkout.",
    }
    counts = {
        "switches": [
            {"operation": "softmax", "ours": True, "median": 0.001, "worst": 0.03},
            {"operation": "NumPy concatenate", "ours": False, "median": 0.1, "worst": 0.2},
        ],
        "faults": [
            {"operation": "softmax", "shape": "many", "bytes": 10**8, "faults": 863, "copy": 352},
            {"operation": "expand_as", "shape": "many", "bytes": 10**8, "faults": 800, "copy": 10},
        ],
        "instructions": {"softmax": 12_345},
    }
    results = {"cells": [], "startup": start, "counts": counts, "signatures": {}}
    assert [row[1:] for row in goals.rows(results)] == [
        ("50 ms", True),
        ("0.80 s", False),
        ("it is not", True),
        ("at most 0.030 (softmax)", False),
        ("at most 800 beside 10 (expand_as, many)", False),
    ]
    page = "\n".join(report.process(results))
    for said in ("| first conversion | 150 |", "The library is a checkout.", "| softmax | 12,345 |", "| 0.0300 |"):
        assert said in page, said
    assert report.start_up({"import numpy": {"median": 0.1, "low": 0.1, "high": 0.2}})  # as it was written before


def test_a_process_that_starts_sees_what_the_library_needs_alone(tmp_path):
    from benchmarks import startup

    path = startup.bare(tmp_path / "packages")
    wall, cpu, said = startup.run("import numpy, numba, seqformats; print(seqformats.__name__)", path)
    assert wall > 0
    assert cpu >= 0
    assert said == "seqformats"
    with pytest.raises(RuntimeError, match="No module named 'pytest'"):
        startup.run("import pytest", path)
    seen = "import os; print(os.environ['SEQFORMATS_CACHE_DIR'], os.environ['NUMBA_CACHE_DIR'])"
    assert startup.run(seen, path, tmp_path)[2] == f"{tmp_path / 'own'} {tmp_path / 'numba'}"


def test_no_lost_cell_is_one_of_the_same_work():
    from benchmarks import reasons

    cells = json.loads((DOCS / "benchmarks.json").read_text())["cells"]
    spared = [cell for _, some in reasons.spared(cells) for cell in some]
    assert spared
    assert not [cell for cell in reasons.lost(cells) if cell in spared]
    page = (DOCS / "benchmarks.md").read_text()
    assert all(f"- **{reason.title}.** " in page for reason, _ in reasons.spared(cells))


def test_links_lead_to_files():
    for path in [DOCS / "benchmarks.md", *(DOCS / "benchmarks").glob("*.md")]:
        links = re.findall(r"\]\(([^)#:]+)\)", path.read_text())
        assert links
        assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_lost_cell_is_in_one_group():
    from benchmarks import reasons

    cells = json.loads((DOCS / "benchmarks.json").read_text())["cells"]
    groups = reasons.grouped(cells)
    lost = [cell for _, some in groups for cell in some]
    assert len(lost) == len(reasons.lost(cells))
    assert {id(cell) for cell in lost} == {id(cell) for cell in reasons.lost(cells)}
    page = (DOCS / "benchmarks.md").read_text()
    assert all(f"- **{reason.title}.** " in page for reason, _ in groups)


def test_no_report_without_numbers(tmp_path):
    done = benchmarks("--report", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "there is no" in done.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_of_that_name():
    done = benchmarks("--only", "nonsense")
    assert done.returncode == 1
    assert "nothing is called nonsense" in done.stderr


def on_gpu(*options, **env):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *options],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it puts a driver in the place of Linux's")
@pytest.mark.skipif(not importlib.util.find_spec("numba_cuda"), reason="it compiles kernels for CUDA")
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_the_part_of_the_host_is_measured_without_a_gpu():
    done = on_gpu("--host", "--quick")
    assert done.returncode == 0, done.stderr
    rows = [[word.strip() for word in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert rows[0] == ["call", "µs", "launches"]
    launches = {name: int(count) for name, _, count in rows[2:]}
    assert launches.pop("make a Ragged") == 0
    assert launches["reduce_sum"] == launches["softmax"] == launches["Ragged -> Packed"] == 1
    assert all(count in (1, 2) for count in launches.values())
    assert all(float(time) > 0 for _, time, _ in rows[2:])


OF_NOTHING = """
import numpy as np
import seqformats as sf
from numba import cuda

for shape in [(4, 0), (0,), (2, 0, 3), (0, 1, 0)]:
    there, given = np.empty(shape, "f4"), cuda.device_array(shape, "f4")
    for here in (sf.to_device(there, "cuda"), sf.Ragged(given, [shape[0]]).data):
        for part in (slice(0, 0), slice(1, 3), slice(None, None, 2), slice(5, 9)):
            assert here[part].shape == there[part].shape, (shape, part, here[part].shape)
            assert here[part][0:1].shape == there[part][0:1].shape
        assert here.reshape((0, *shape))[0:0].shape == (0, *shape)
x = sf.Ragged(cuda.device_array((4, 0), "f4"), [1, 0, 3])
assert [y.shape for y in sf.convert(x, sf.List).items] == [(1, 0), (0, 0), (3, 0)]
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it puts a driver in the place of Linux's")
@pytest.mark.skipif(not importlib.util.find_spec("numba_cuda"), reason="the arrays are its own")
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
@pytest.mark.passes("compiled", reason="the simulator has NumPy's arrays")
def test_rows_without_items_of_numba_are_sliced(tmp_path):
    """Numba itself says that every slice of them is one row."""
    build = "import pathlib, sys; from benchmarks import host; host.build(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True)
    env = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", OF_NOTHING], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_benchmark_of_gpus_lacks_is_said(tmp_path):
    done = on_gpu("--host", CC="no-such-compiler")
    assert done.returncode == 1
    assert "--host needs" in done.stderr
    done = on_gpu("--only", "nonsense", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "there is no step nonsense; steps: runs, correct, timing, graph" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_table_of_times_on_a_gpu():
    from benchmarks import gpu

    one = {"batch": "A", "bytes": 10**9, "waited": False, "host": 1e-5}
    rows = [
        one | {"call": "copy", "kernels": 1e-3},
        one | {"call": "softmax", "kernels": 4e-3, "waited": True},
        {"batch": "A", "call": "cumsum", "error": "DeviceError: it failed"},
    ]
    assert gpu.shown("timing", rows)[2:] == [
        "| A | copy | 1.00 ms | 1.00 | 2.00 | 10.0 µs |",
        "| A | softmax | 4.00 ms with the host's | 0.25 |  | 10.0 µs |",
        "| A | cumsum | **DeviceError: it failed** |  |  |  |",
    ]
