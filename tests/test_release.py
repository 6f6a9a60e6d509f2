"""What a release is made of: one version, extras that hold each other, and workflows that run what the Makefile has."""

import re
import tomllib
from pathlib import Path

import pytest

import seqformats as sf
from seqformats import health

pytestmark = pytest.mark.passes("compiled", reason="it reads files")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_the_version_is_written_once():
    assert "version" in PROJECT["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {sf.__version__}\n" in citation
    assert sf.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert health.versions().startswith(f"seqformats {sf.__version__}, ")  # the first line of `python -m seqformats`


def test_extras():
    wanted = {"torch", "arrow", "hf", "thinc", "jax", "engines", "plot", "cuda12", "cuda13", "all"}
    assert wanted <= EXTRAS.keys()
    (everything,) = EXTRAS["all"]
    assert set(re.search(r"\[(.*)\]", everything)[1].split(",")) <= EXTRAS.keys()
    engines = {name for extra in ("ray", "spark", "dask", "polars", "duckdb") for name in EXTRAS[extra]}
    assert set(EXTRAS["engines"]) == engines


def test_no_folder_hides_what_a_build_imports():
    """The build backend lies in the root: each folder there is a package to it, before those that are installed."""
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    assert not folders & {"hatchling", "packaging", "pathspec", "pluggy", "numba", "numpy", "Cython"}


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))


def workflow(name):
    return (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")


def test_public_ci_runs_what_ci_here_runs():
    """The wheel, the passes side by side, and then what they have run together."""
    lines = re.findall(r"^run ([a-z -]+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    here = set(" ".join(lines).split())
    text = workflow("tests.yml")
    passes = set(re.search(r"pass: \[(.*)\]", text)[1].split(", "))
    alone = set(re.findall(r"run: make ([\w-]+)", text))
    assert alone == {"lint", "wheel", "coverage", "release"}
    assert passes | alone - {"release"} == here
    assert here | {"release"} <= TARGETS


def test_the_nightly_workflow_runs_every_part():
    parts = set(re.search(r"^PARTS = (.*)", MAKEFILE, re.MULTILINE)[1].split())
    text = workflow("nightly.yml")
    assert set(re.search(r"part: \[(.*)\]", text)[1].split(", ")) | {"pythons", "without-gil"} == parts
    assert "make nightly-pythons " in text
    assert "make nightly-without-gil " in text
    assert {f"nightly-{part}" for part in parts} <= TARGETS


def test_each_wheel_is_tested_by_the_smoke_pass():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    smoke = re.search(r"^SMOKE = ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1].replace("\\\n", " ").split()
    text = workflow("wheels.yml")
    assert re.findall(r"tests/(\S+)\.py", options["test-command"]) == smoke
    assert re.findall(r"tests/(\S+)\.py", text) == smoke
    assert "-m cibuildwheel" in text
