"""Beam search token for token: answers on file, and Hugging Face transformers and CTranslate2 where they are installed.

``SEQFORMATS_BEAM_CASES`` says how many random cases are held against each installed library, and from which seed:
``2000`` or ``500000:2000``.
"""

import os

import beam_tables as tables
import numpy as np
import pytest
from passes import INTERPRETED

RECORDED = list(tables.recorded())
FIRST, _, COUNT = os.environ.get("SEQFORMATS_BEAM_CASES", "100000:150").rpartition(":")
ROUNDING = 1e-6  # between the scores of two candidates
SURE = 1e-4  # the same in a network, where sums depend on how many rows are computed at once
SEEDS = range(int(FIRST or 100_000), int(FIRST or 100_000) + int(COUNT))


def name(entry):
    return f"{entry[0].rule}-{entry[0].vocabulary}-{entry[0].seed}"


def assert_same(case, result, wanted, near=1e-5):
    """The same tokens in the same order, scores as near as float32 comes. CTranslate2 leaves the end token out."""
    assert printed(case, result) == [[tokens for tokens, *_ in source] for source in wanted], case
    for mine, theirs in zip(tables.hypotheses(result), wanted, strict=True):
        scores = [score for _, score in mine], [score for _, score, *_ in theirs]
        np.testing.assert_allclose(*scores, rtol=near, atol=near, err_msg=str(case))


def printed(case, result):
    return [[tables.printed(case, tokens) for tokens, _ in source] for source in tables.hypotheses(result)]


# --- answers on file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", RECORDED[:: 2 if INTERPRETED else 1], ids=name)
def test_the_recorded_answers(entry):
    case, checksum, wanted = entry
    assert tables.checksum(case) == checksum, "the random numbers are not those that were recorded"
    assert_same(case, tables.search(case), wanted)


@pytest.mark.parametrize("entry", RECORDED[::40], ids=name)
def test_the_rule_as_written_gives_the_recorded_answers(entry):
    case, _, wanted = entry
    answer, margin, enough = tables.expected(case)
    assert enough
    assert margin > tables.CLOSE
    for mine, theirs in zip(answer, wanted, strict=True):
        assert [tables.printed(case, tokens) for tokens, _ in mine] == [tokens for tokens, _ in theirs]


def test_recorded_cases_are_of_all_kinds():
    for rule in tables.ENGINES:
        cases = [case for case, *_ in RECORDED if case.rule == rule]
        assert len(cases) > 100
        assert {case.beam_size for case in cases} == {2, 3, 4, 5, 6}
        assert {len(case.prompts) for case in cases} == {1, 2, 3, 4}
        assert {case.length_penalty for case in cases} >= {0, 0.6, 1, 2}
    for rule in tables.RULES:
        cases = [case for case, *_ in RECORDED if case.rule == rule]
        assert len(cases) > 100
        assert {case.beam_size for case in cases} > {2, 3, 4, 5}
        assert max(case.vocabulary for case in cases) > tables.WIDE
        assert {len(case.ends) for case in cases} == {1, 2}
        assert {len(case.prompts) for case in cases} == {1, 2, 3, 4}
        assert {case.length_penalty for case in cases} == {-1, 0, 0.6, 1, 2}
        assert any(case.min_new_tokens for case in cases)
    assert {case.early_stopping for case, *_ in RECORDED} == {False, True, "never"}


# --- the libraries themselves ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peers():
    for library in ("torch", "transformers", "ctranslate2"):
        pytest.importorskip(library)
    import beam_peers

    return beam_peers


@pytest.mark.peers
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("rule", tables.RULES)
def test_random_tables(peers, rule, wide):
    compared = 0
    for seed in SEEDS[: len(SEEDS) // 10 if wide else None]:
        case = tables.draw(rule, seed, wide)
        _, margin, enough = tables.expected(case)
        if enough:
            result, wanted = tables.search(case), peers.TABLE[rule](case)
            if margin < ROUNDING and printed(case, result) != [[tokens for tokens, *_ in source] for source in wanted]:
                continue  # rounding has decided between two candidates
            assert_same(case, result, wanted)
            compared += 1
    assert compared >= len(SEEDS) // (30 if wide else 2)


@pytest.mark.peers
def test_log_probabilities_of_tokens(peers):
    for seed in SEEDS[:60]:
        case = tables.draw("hf", seed)
        _, margin, enough = tables.expected(case)
        if enough and margin > ROUNDING:
            mine = np.asarray(tables.search(case).token_scores.data)
            theirs = [gained for source in peers.hf_table(case) for *_, gained in source]
            np.testing.assert_allclose(mine, np.concatenate(theirs), rtol=1e-5, atol=1e-5, err_msg=str(case))


@pytest.mark.peers
@pytest.mark.parametrize("cached", [False, True], ids=["whole-prefixes", "cache-as-memory"])
@pytest.mark.parametrize("kind", ["t5", "bart", "marian"])
def test_networks(peers, kind, cached):
    compared = 0
    for seed in range(10):
        network = peers.Network(kind, seed)
        _, margin, enough = network.expected()
        if enough and margin > SURE:
            search = network.search_with_cache if cached else network.search
            assert_same(network.case, search(), network.generate(), SURE)
            compared += 1
    assert compared > 3


@pytest.mark.peers
def test_networks_converted_to_ctranslate2(peers):
    compared = 0
    for seed in range(15):
        network = peers.Network("bart", seed, rule="ct2")
        _, margin, enough = network.expected()
        if enough and margin > SURE:
            assert_same(network.case, network.search(), network.translate(), SURE)
            compared += 1
    assert compared > 3
