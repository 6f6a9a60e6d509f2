"""Scores whose candidates are looked for by groups on a GPU, and what they are by the kernel that looks at all."""

import types

import numpy as np

from seqformats.arrays import NUMPY
from seqformats.beam import candidates
from seqformats.beam.rows import Limits, Wanted
from seqformats.beam.search import NOTHING_APART


def one_bad(generator, shape):
    """One score of a row is NaN or +inf, in a row of -inf too."""
    x = generator.normal(0, 2, shape)
    x[1, -1], x[3, shape[1] // 2] = np.nan, np.inf
    x[6] = -np.inf
    x[6, 7 % shape[1]] = np.nan
    return x


FORMS = {"logits": candidates.LOGITS, "logs": candidates.LOG_PROBABILITIES, "masked": candidates.MASKED}
SCORES = {
    "random": lambda generator, shape: generator.normal(0, 2, shape),
    "few values": lambda generator, shape: generator.integers(0, 3, shape),
    "all equal": lambda generator, shape: np.zeros(shape),
    "rising": lambda generator, shape: np.tile(np.arange(shape[1]) / 8, (shape[0], 1)),
    "falling": lambda generator, shape: np.tile(-np.arange(shape[1]) / 8, (shape[0], 1)),
    "nearly equal": lambda generator, shape: 1e-7 * generator.normal(0, 1, shape) - 30,
    "few finite": lambda generator, shape: np.where(generator.random(shape) < 0.02, 1.5, -np.inf),
    "the least": lambda generator, shape: np.where(generator.random(shape) < 0.5, np.finfo("f4").min, -np.inf),
    "one bad": one_bad,
    "bad": lambda generator, shape: (
        np.where(np.arange(shape[0])[:, None] % 3 < 2, 1.0, [[np.nan]])
        + np.where(np.arange(shape[0])[:, None] % 5 == 3, np.inf, np.zeros(shape))
    ),
}
MOST = np.array([5, 0, 2, 1, 64])


def query(library, put, width, form, scores):
    """Beams of three rows, none, two, one and one, that ask for so many candidates, and two rows of no beam.

    The last one of these goes to a block that has had a row of a beam, where a GPU has few blocks.
    """
    generator = np.random.default_rng(width)
    x = SCORES[scores](generator, (9, width)).astype("f4")
    if FORMS[form] == candidates.LOG_PROBABILITIES and "bad" not in scores:
        x = x - 3
    begin, end = np.array([0, 3, 4, 6, 7]), np.array([3, 3, 6, 7, 8])
    running = generator.normal(0, 1, 9).astype("f4")
    running[5] = -np.inf
    plan = types.SimpleNamespace(limits=limits(9, width)) if form == "masked" else None
    wanted = Wanted(begin, end, MOST)
    largest = int(MOST.max())
    return candidates.Query(library, put(x), running, FORMS[form], plan, wanted, NOTHING_APART, 3, largest, None)


def limits(rows, width):
    """Every second row may go on with every third token alone, and in the others two tokens are worth less."""
    allowed = np.arange(0, width, 3)
    chosen = np.arange(rows) % 2 == 0
    edited = np.unique(np.array([width // 2, width - 1]))
    count = np.where(chosen, 0, edited.size)
    size = int(count.sum())
    return Limits(
        np.full(size, -2, "f4"),
        np.full(size, 0.5, "f4"),
        np.full(size, 2, "f4"),
        np.where(chosen, 0, -1),
        np.where(chosen, allowed.size, 0),
        allowed,
        np.concatenate([[0], count.cumsum()]),
        np.tile(edited, size // edited.size),
        np.zeros(0, np.int64),
        0,
    )


def assert_chosen(library, query):
    """The candidates of all beams, and of all rows, are what they are on the host, values nearly."""
    here = query._replace(library=NUMPY, x=np.array(library.to_numpy(query.x)))
    for choose in (candidates.select, lambda query: candidates.row_lists(query, None)):
        found, wanted = choose(query), choose(here)
        np.testing.assert_array_equal(found.counts, wanted.counts)
        if (wanted.counts < 0).any():
            found, wanted = (x._replace(counts=np.maximum(x.counts, 0)) for x in (found, wanted))
        best, others = candidates.find_used(found), candidates.find_used(wanted)
        values, ids, of = found.values[best], found.ids[best], best // found.places
        np.testing.assert_allclose(values, wanted.values[others], rtol=1e-5, atol=5e-5)
        assert (np.lexsort((ids, -values, of)) == np.arange(ids.size)).all(), "the best come first"
        assert np.unique(ids).size == ids.size
        if np.ptp(here.x) > 1e-3:  # or else it is up to rounding which of them are equal
            np.testing.assert_array_equal(ids, wanted.ids[others])
