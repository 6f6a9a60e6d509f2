"""The example of a grammar: every hypothesis that ends is JSON of the schema, and no better one is left out."""

import itertools
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.peers
EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "json_grammar.py"))
END, VOCABULARY = EXAMPLE["END"], EXAMPLE["VOCABULARY"]
SMALL = '{"type": "object", "properties": {"name": {"enum": [true, false]}}, "required": ["name"]}'


@pytest.fixture(scope="module", autouse=True)
def needs_xgrammar():
    pytest.importorskip("xgrammar")


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_what_ends_is_json_of_the_schema(seed, beam_size):
    found = EXAMPLE["generate"](EXAMPLE["random_model"](seed), EXAMPLE["SCHEMA"], sources=3, beam_size=beam_size)
    hypotheses = list(itertools.chain(*found.tokens.to_nested()))
    assert len(hypotheses) == 3 * beam_size
    for tokens in hypotheses:
        assert tokens[-1] == END
        read = json.loads(EXAMPLE["text_of"](tokens))
        assert read.keys() == {"name", "sizes"}
        assert read["name"] in ("bead", "cafe", "face")
        assert set(read["sizes"]) <= {1, 20, 300}
        assert len(read["sizes"]) <= 3


@pytest.mark.parametrize("rule", ["hf", "fairseq"])
def test_the_same_as_minus_infinity_among_scores(rule):
    """Limits are those that the grammar's own function puts into scores; some hypotheses are cut off."""
    import torch
    import xgrammar

    class Scores(EXAMPLE["Grammar"]):
        def __call__(self, scores, state):
            mask = torch.from_numpy(super().__call__(state))
            allowed = torch.tensor(np.array(scores))
            xgrammar.apply_token_bitmask_inplace(allowed, mask)
            return allowed.numpy()

    compiled = EXAMPLE["compile_schema"](EXAMPLE["SCHEMA"])
    options = {"start": np.arange(2), "end": END, "beam_size": 4, "n_best": 4, "rule": rule}
    for limit in (5, 40):
        both = [
            sf.beam_search(
                EXAMPLE["random_model"](7),
                None,
                max_new_tokens=limit,
                **options,
                **{name: kind(compiled, 2, len(VOCABULARY))},
            )
            for name, kind in (("on_mask", EXAMPLE["Grammar"]), ("on_scores", Scores))
        ]
        assert both[0].tokens.to_nested() == both[1].tokens.to_nested()
        assert both[0].scores.tolist() == both[1].scores.tolist()


def test_all_that_the_grammar_knows_is_found():
    """With beams for all of them: there are several ways to spell each."""
    found = EXAMPLE["generate"](EXAMPLE["random_model"](), SMALL, sources=1, beam_size=60, max_new_tokens=20)
    texts = {EXAMPLE["text_of"](tokens) for tokens in found.tokens.to_nested()[0]}
    assert {tuple(json.loads(text).items()) for text in texts} == {(("name", True),), (("name", False),)}


def test_the_example_runs(capsys):
    EXAMPLE["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "source 0:"
    assert len(lines) == 10
    assert json.loads(lines[1].split(maxsplit=1)[1])
