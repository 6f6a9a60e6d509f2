"""Prefix beam search beside what flashlight-text, pyctcdecode and fast-ctc-decode have answered."""

import ctc_engines
import numpy as np
import pytest
from test_ctc_search import by_source

import seqformats as sf

RECORDED = list(ctc_engines.recorded())


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: str(entry[0].seed))
def test_the_recorded_answers(entry):
    case, checksum, answers = entry
    assert ctc_engines.checksum(case) == checksum, "the random numbers are not those that were recorded"
    x = sf.Ragged(ctc_engines.frames_of(case), case.lengths)
    found = by_source(sf.ctc_beam_search(x, beam_size=case.beam_size))
    for [(tokens, _, score, _)], theirs in zip(found, answers, strict=True):
        for name, label, value in theirs:
            assert (name, tokens) == (name, label)
            assert value is None or score == pytest.approx(value, abs=1e-4), name


def test_recorded_cases_are_of_all_kinds():
    cases = [case for case, *_ in RECORDED]
    assert len(cases) > 80
    names = {name for _, _, answers in RECORDED for found in answers for name, *_ in found}
    assert names == {"flashlight-text", "pyctcdecode", "fast-ctc-decode"}
    assert any(case.beam_size == ctc_engines.ALL for case in cases)
    assert {case.beam_size for case in cases} > {2, 3, 4}
    assert max(sum(case.lengths) for case in cases) > 50
    assert all(np.isfinite(ctc_engines.frames_of(case)).all() for case in cases)
