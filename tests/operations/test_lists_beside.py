"""Nested lists beside batches of any library: numbers in lists are of none, so they go with what the others are."""

import inspect

import numpy as np
import pytest

import seqformats as sf

FLAGS = [[True, False, True], [], [True, True]]
IDS, MORE = [[5, 3, 8], [], [2, 4]], [[5, 9], [7], [2, 4]]
ITEMS, SHARES = [[1.0, 2.0, 3.0], [], [4.0, 5.0]], [[1.0, 0.5, 0.5], [], [1.0, 3.0]]
ROWS = sf.Ragged(np.array([[1.0, 2.0, 0.5]] * 3 + [[0.0, 1.0, 2.0]] * 2), [3, 0, 2])
LOGS = sf.Ragged(np.log(np.array([[0.2, 0.3, 0.5]] * 3 + [[0.6, 0.3, 0.1]] * 2)), [3, 0, 2])
CALLS = {
    "bincount": (lambda x, weights: sf.bincount(x, 9, weights=weights), ([[5, 3, 8], [], [2, 4]], SHARES)),
    "ffill": (lambda x, valid: sf.ffill(x, valid), (IDS, FLAGS)),
    "intersect": (sf.intersect, (IDS, MORE)),
    "isin": (sf.isin, (IDS, MORE)),
    "merge_asof": (sf.merge_asof, (IDS, MORE)),
    "searchsorted": (lambda values, rising: sf.searchsorted(rising, values), (IDS, MORE)),
    "sort": (lambda x, by: sf.sort(x, by=by), (IDS, SHARES)),
    "window_by": (lambda x, keys: sf.window_by(x, keys, 1, 1), (IDS, SHARES)),
    "concat": (lambda *parts: sf.concat(parts), (IDS, MORE, IDS)),
    "cross": (sf.cross, (IDS, MORE)),
    "cross_entropy": (sf.cross_entropy, (ROWS, [[0, 1, 2], [], [2, 1]])),
    "ctc_align": (sf.ctc_align, (LOGS, [[1], [], [2]])),
    "embedding_bag": (
        lambda table, ids: sf.embedding_bag(table.data, ids),
        ([[1.0, 2.0, 3.0]], [[0, 2], [], [1]]),
    ),
    "expand_as": (lambda like, x: sf.expand_as(x, like), (ITEMS, [[1.0], [2.0], [3.0]])),
    "filter": (sf.filter, (IDS, [[True, False, True], [], [False, True]])),
    "gather": (sf.gather, (IDS, [[0, -1], [], [1]])),
    "interleave": (lambda *parts: sf.interleave(parts), (IDS, MORE, IDS)),
    "join_batches": (lambda *parts: sf.join_batches(parts), (IDS, MORE)),
    "levenshtein": (sf.levenshtein, (IDS, MORE)),
    "ema": (lambda x, where: sf.ema(x, 0.5, where=where), (SHARES, FLAGS)),
    "edits": (lambda x, y: tuple(sf.edits(references=x, hypotheses=y)), (IDS, MORE)),
    "corrupt_spans": (
        lambda x, special: sf.corrupt_spans(x, rate=0.5, mean=1, sentinel=99, seed=0, special=special)[0],
        (IDS, [[True, False, True], [], [False, True]]),
    ),
    "mask_tokens": (
        lambda x, special: sf.mask_tokens(x, mask_id=99, vocabulary=100, seed=0, rate=1.0, special=special)[0],
        (IDS, [[True, False, True], [], [False, True]]),
    ),
    "masked_scatter": (sf.masked_scatter, (IDS, [[True, False, True], [], [False, True]], [[7, 8], [], [9]])),
    "put_sequences": (lambda x, values: sf.put_sequences(x, [0, 2, 0], values), (IDS, MORE)),
    "pack": (lambda ids, labels: tuple(sf.pack(ids, 5, labels=labels))[:2], (IDS, IDS)),
    "recurrence": (sf.recurrence, (SHARES, SHARES)),
    "standardize": (lambda x, where: sf.standardize(x, where=where), (SHARES, FLAGS)),
    "reduce_mean": (lambda x, weights: sf.reduce_mean(x, weights=weights), (ITEMS, SHARES)),
    "reduce_sum": (lambda x, weights: sf.reduce_sum(x, weights=weights), (ITEMS, SHARES)),
    "scatter": (
        lambda updates, index, base: sf.scatter(base.data.reshape(3, 2), index, updates),
        (ITEMS, [[0, 1, 1], [], [1, 0]], [[0.0] * 2] * 3),
    ),
    "split": (sf.split, (IDS, [[False, True, False], [], [False, True]])),
    "Template": (lambda a, b: sf.Template([101, "a", 102, "b"])(a, b).ids, (IDS, MORE)),
    "truncate_pair": (lambda a, b: sf.truncate_pair(a, b, 3)[0], (IDS, MORE)),
}
"""Calls of all batches of each operation; the first says of which library the results are."""
OTHERS = {"where", "equal", "unchunk", "attention", "linear_cross_entropy", "map_sequences", "maxsim", "pairwise_dot"}
"""Those whose other argument may be of any library, is in chunks, or has items with axes, which lists have not."""


LIBRARIES = [
    "numpy",
    pytest.param("torch", marks=pytest.mark.peers),
    pytest.param("jax", marks=pytest.mark.jax),
]


def leaves(y):
    if isinstance(y, (tuple, list, sf.Pairs)):
        return [leaf for part in ((y.one, y.two) if isinstance(y, sf.Pairs) else y) for leaf in leaves(part)]
    if hasattr(y, "tokens") and hasattr(y, "scores"):
        return leaves(y.scores)
    return y._leaves() if hasattr(y, "_leaves") else [y]


def own(x, library):
    return sf.to(sf.convert(x, sf.Ragged), library)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", list(CALLS))
def test_lists_go_with_the_first_batch(name, library):
    """Each other argument as lists, alone and all of them: the result that it is without lists, in the library."""
    pytest.importorskip(library)
    function, given = CALLS[name]
    batches = [own(x, library) for x in given]
    wanted = function(*batches)
    kinds = [type(leaf) for leaf in leaves(wanted)]
    asked = [k for k in range(1, len(given)) if (name, k) != ("scatter", 2)]
    for which in [*([k] for k in asked), asked]:
        found = function(*[given[k] if k in which else x for k, x in enumerate(batches)])
        assert [type(leaf) for leaf in leaves(found)] == kinds
        for a, b in zip(leaves(found), leaves(wanted), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["concat", "interleave", "levenshtein", "join_batches", "Template", "cross"])
def test_lists_before_a_batch(name, library):
    pytest.importorskip(library)
    function, given = CALLS[name]
    batches = [own(x, library) for x in given]
    found = function(given[0], *batches[1:])  # which were refused; a result is as the first batch is
    assert found is not None


def test_every_operation_of_several_batches_is_here():
    """By the annotations of its parameters."""
    words = ("Batch", "B", "Weights", "Sequence[B]", "Sequence[T]")
    for name in sf.__all__:
        function = getattr(sf, name, None)
        if not inspect.isfunction(function):
            continue
        kinds = [set(str(p.annotation).split(" | ")) for p in inspect.signature(function).parameters.values()]
        several = sum(bool(kind & set(words)) for kind in kinds) > 1
        if several or any(kind & {"Sequence[B]", "Sequence[T]"} for kind in kinds):
            assert name in {*CALLS, *OTHERS}, name
