"""The retrieval example: what a search finds are items, and with beams for all of them it finds the likeliest."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import seqformats as sf

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "retrieval.py"))
recommend, places, scores_of_all = (EXAMPLE[name] for name in ("recommend", "places", "scores_of_all"))


@pytest.fixture(scope="module")
def shop():
    rng = np.random.default_rng(5)
    items = np.concatenate([rng.standard_normal((90, 4)), np.zeros((3, 4))])
    return EXAMPLE["catalogue"](items, levels=3, codes=6)


@pytest.fixture
def users():
    return np.random.default_rng(6).standard_normal((5, 4))


def test_every_item_has_codes_once(shop):
    assert sorted(shop.items.data.tolist()) == list(range(93))
    assert len(np.unique(shop.codes, axis=0)) == len(shop.codes) == len(shop.items)
    assert {90, 91, 92} <= set(next(row for row in shop.items.to_nested() if 90 in row))


def test_codes_lead_nearer(shop):
    """Each code is the nearest of its book for what the ones before it leave."""
    rng = np.random.default_rng(5)
    items = np.concatenate([rng.standard_normal((90, 4)), np.zeros((3, 4))])
    for codes, row in zip(shop.codes, shop.items.to_nested(), strict=True):
        left = items[row[0]]
        for book, code in zip(shop.books, codes, strict=True):
            distances = ((left - book) ** 2).sum(1)
            assert distances[code] <= distances.min() + 1e-9
            left = left - book[code]


def test_beams_for_all_find_the_likeliest(shop, users):
    found = recommend(users, shop, len(shop.codes), n_best=7)
    for i, row in enumerate(places(found, shop).sequences()):
        wanted = scores_of_all(users[i], shop)
        assert row.tolist() == np.argsort(-wanted, kind="stable")[:7].tolist()
        best = sum(found.token_scores.to_nested()[i][0])
        assert best == pytest.approx(wanted[row[0]], rel=1e-5)


def test_narrow_beams_find_items(shop, users):
    found = recommend(users, shop, 2, n_best=2)
    known = {tuple(codes) for codes in shop.codes.tolist()}
    assert all(tuple(row) in known for rows in found.tokens.to_nested() for row in rows)


def test_nobody(shop):
    found = recommend(np.zeros((0, 4)), shop, 3)
    assert isinstance(found, sf.BeamResult)
    assert len(found.tokens) == 0
