"""What a release is made of: one version, extras that hold each other, and workflows that run what the Makefile has."""

import re
import tomllib
from pathlib import Path

import pytest

import seqformats as sf

pytestmark = pytest.mark.passes("compiled", reason="it reads files")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_the_version_is_written_once():
    assert "version" in PROJECT["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {sf.__version__}\n" in citation
    assert sf.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_extras():
    wanted = {"torch", "arrow", "hf", "thinc", "jax", "engines", "plot", "cuda12", "cuda13", "all"}
    assert wanted <= EXTRAS.keys()
    (everything,) = EXTRAS["all"]
    assert set(re.search(r"\[(.*)\]", everything)[1].split(",")) <= EXTRAS.keys()
    engines = {name for extra in ("ray", "spark", "dask", "polars", "duckdb") for name in EXTRAS[extra]}
    assert set(EXTRAS["engines"]) == engines


def test_workflows_run_what_the_makefile_has():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    passes = re.search(r"pass: \[(.*)\]", workflow)[1].split(", ")
    commands = [*re.findall(r"run: make ([\w-]+)", workflow), *passes]
    assert {"lint", "jit", "interpreted", "bounds", "test-wheel", "release", "docs"} == set(commands)
    assert [name for name in commands if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []
