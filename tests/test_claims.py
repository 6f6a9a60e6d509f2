"""The first pages promise what is so: figures have a date and stand in the tables, the rest is tried here."""

import re
import tomllib

import pytest
from pages import DOCS, ROOT

from seqformats import registry

pytestmark = pytest.mark.passes("compiled", reason="it reads pages")

README = (ROOT / "README.md").read_text(encoding="utf-8")
PERFORMANCE = (DOCS / "performance.md").read_text(encoding="utf-8")
TOUR = (DOCS / "tour.md").read_text(encoding="utf-8")
POSITIONS = {"argmax", "argmin", "argsort", "buckets", "inverse_order", "pack_bins", "position_ids", "run_starts"}
POSITIONS |= {"merge_asof", "searchsorted"}
COUNTS_AND_TRUTHS = {
    *("block_mask", "cer", "cu_seqlens", "edits", "isin", "levenshtein", "mask", "segment_ids", "wer"),
    *("reduce_all", "reduce_any", "reduce_count", "reduce_nunique"),
}
TOKENS = {
    *("BeamDecoder", "beam_backtrace", "beam_search", "beam_step", "ctc_align", "ctc_beam_search", "ctc_greedy"),
    *(
        "Template",
        "corrupt_spans",
        "erase",
        "from_text",
        "intersect",
        "mask_tokens",
        "model_inputs",
        "spans_to_tags",
        "tags_to_spans",
        "to_text",
        "unique",
    ),
}
NO_OPERATIONS = {  # calls of the user's functions, and what moves whole batches: autograd sees through these
    *("TensorArray", "batches", "conversion", "from_arrays", "from_arrow", "from_awkward", "from_table", "kernel"),
    *("map_sequences", "operation", "sf.engines", "sf.hf", "sf.torch", "to", "to_arrays", "to_arrow", "to_awkward"),
    "to_device",
}


def test_what_has_no_gradient_returns_no_items():
    table = TOUR[TOUR.index("| family") : TOUR.index("[Coming from")]
    shown = {f"reduce{name}" if name[0] == "_" else name for name in re.findall(r"`([\w.]+)`", table)}
    without = shown - {operation.__name__ for operation in registry.gradients()}
    assert without == POSITIONS | COUNTS_AND_TRUTHS | TOKENS | NO_OPERATIONS


def test_the_figures_of_the_first_page_stand_in_the_tables_with_their_dates():
    first = README[: README.index("```sh")]
    figures = re.findall(r"(?<![\d,])(\d[\d,]*(?:\.\d+)?)(?: (s|ms|times))?\b", first)
    values = [value for value, _ in figures]
    assert len(values) >= 4
    assert [value for value in values if not re.search(rf"(?<![\d.,]){re.escape(value)}", PERFORMANCE)] == []
    sections = ("# Performance", "## The numbers of the first page", "## What it means for a model")
    for section in sections:
        text = PERFORMANCE.partition(section)[2].partition("\n## ")[0]
        assert re.search(r"\d{1,2} \w+ 20\d\d", " ".join(text.split())), f"{section} has no date"


def test_the_figures_in_short_are_those_of_the_benchmarks():
    short = PERFORMANCE.partition("## In short")[2].partition("\n## ")[0]
    measured = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    mean, cells = (
        re.search(r"all cells at least 4 \| (\d\.\d)\d", measured)[1],
        re.search(r"no cell at all .* of (\d+) cells", measured),
    )
    assert f"| {mean} |" in short
    assert f"of {int(cells[1]):,} |" in short


def test_the_platforms_are_those_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    systems = [name for name in project["classifiers"] if name.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]


def test_jax_is_promised_on_the_cpu_alone():
    assert "JAX has run on the CPU alone" in README
    devices = (DOCS / "devices.md").read_text(encoding="utf-8")
    assert re.search(r"^\| JAX \|.*\| not run yet \|$", devices, re.MULTILINE)
