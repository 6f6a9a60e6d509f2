"""`sf.balance` beside brute force, and beside the differencing method and LPT as trainers have them."""

import heapq
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passes import INTERPRETED

import seqformats as sf
from seqformats.operations import costs as costs_module
from seqformats.operations import divide


def longest_first(costs, k):
    """Loads by LPT."""
    loads = [0.0] * k
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(loads, loads[0] + cost)
    return loads


def differencing(costs, k, equal=False):
    """Loads by the largest differencing method, in tuples of parts."""
    ranked = sorted(costs)
    runs = [ranked[a : a + k] for a in range(0, len(ranked), k)] if equal else [[cost] for cost in ranked]
    count = itertools.count()
    heap = []
    for run in runs:
        parts = sorted([*run, *[0.0] * (k - len(run))], reverse=True)
        heapq.heappush(heap, (parts[-1] - parts[0], next(count), parts))
    while len(heap) > 1:
        one, two = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        parts = sorted([a + b for a, b in zip(one, reversed(two), strict=True)], reverse=True)
        heapq.heappush(heap, (parts[-1] - parts[0], next(count), parts))
    return heap[0][2]


def brute(costs, sizes, bins, capacity, equal):
    """Find what the costliest bin costs in the best of all divisions; None where there is none."""
    n, best = len(costs), None
    for of in itertools.product(range(bins), repeat=n):
        counts = [of.count(b) for b in range(bins)]
        if (n >= bins and min(counts) == 0) or (equal and max(counts) - min(counts) > 1):
            continue
        loads, items = [0.0] * bins, [0] * bins
        for i, b in enumerate(of):
            loads[b] += costs[i]
            items[b] += sizes[i]
        if max(items) <= capacity and (best is None or max(loads) < best):
            best = max(loads)
    return best


def check(plan, lengths, costs, capacity=None):
    """A division of all sequences into parts that are what they say; the parts."""
    inner = sf.Ragged(plan.parts.data, sf.lengths(plan.parts))
    parts = inner.to_nested()
    assert sorted(inner.data.tolist()) == list(range(len(lengths)))
    assert all(part == sorted(part) for part in parts)
    np.testing.assert_allclose(plan.costs.reshape(-1), [sum(costs[i] for i in part) for part in parts], rtol=1e-12)
    assert plan.bound <= plan.costs.max()
    assert len(lengths) < len(parts) or all(parts)
    if capacity is not None:
        assert max(sum(lengths[i] for i in part) for part in parts) <= capacity
    return parts


lengths_drawn = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 50), st.integers(0, 10**6)), max_size=40)
polynomials = st.sampled_from([None, (6, 1), (0, 1), (0.5, 0, 3), lambda n: np.sqrt(n)])


def costs_of(lengths, cost):
    known = np.array(lengths, float)
    if cost is None:
        return known.tolist()
    if callable(cost):
        return cost(known).tolist()
    linear, square, constant = (*cost, 0)[:3]
    return (linear * known + square * known**2 + constant).tolist()


@given(lengths=lengths_drawn, ranks=st.integers(1, 12), cost=polynomials, equal=st.booleans())
def test_never_worse_than_what_trainers_have(lengths, ranks, cost, equal):
    lengths = lengths[: 12 if INTERPRETED else None]
    costs = costs_of(lengths, cost)
    plan = sf.balance(lengths, ranks, cost=cost, equal_counts=equal)
    parts = check(plan, lengths, costs)
    assert type(plan.parts) is sf.Ragged
    assert plan.costs.shape == (ranks,)
    peers = [] if equal else [longest_first(costs, ranks), *([differencing(costs, ranks)] if costs else [])]
    if equal:
        assert np.ptp([len(part) for part in parts]) <= 1
        peers = [differencing(costs, ranks, True)] if costs and len(costs) % ranks == 0 else []
    assert all(plan.costs.max() <= max(peer) * (1 + 1e-12) for peer in peers)


@given(data=st.data())
def test_as_brute_force_where_it_can_be_tried(data):
    lengths = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5 if INTERPRETED else 6))
    ranks, micro = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([None, 1, 2]))
    capacity = data.draw(st.sampled_from([None, max(lengths), max(lengths) + 4]))
    equal = data.draw(st.booleans())
    cost = data.draw(st.sampled_from([None, (1, 2), [float(k % 3) for k in range(len(lengths))]]))
    costs = cost if isinstance(cost, list) else costs_of(lengths, cost)
    room = sum(lengths) if capacity is None else capacity
    truth = {k: brute(costs, lengths, ranks * k, room, equal) for k in ((1, 2) if micro is None else (micro,))}
    options = {"cost": cost, "max_items": capacity, "micro_batches": micro, "equal_counts": equal}
    try:
        plan = sf.balance(lengths, ranks, **options)
    except sf.StructureError:  # there is no way, or a micro-batch would be empty
        assert micro is None or truth[micro] is None or len(lengths) < ranks * micro
        return
    check(plan, lengths, costs, capacity)
    count = plan.costs.size // ranks
    if micro is None and capacity is None:
        count = 1
    if count in truth:
        np.testing.assert_allclose(plan.costs.max(), truth[count], rtol=1e-12)
    assert micro is not None or capacity is None or all(truth[k] is None for k in truth if k < count)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("n", [640, 6_400])
@pytest.mark.parametrize("limits", [(divide.SMALL_TASK, divide.ROOMS), (0, 0)], ids=["few", "many"])
def test_near_the_bound_from_64_sequences_a_rank_on(limits, n, equal, monkeypatch):
    """Also by the ways of very many sequences, and of capacities that have no table."""
    monkeypatch.setattr(divide, "SMALL_TASK", limits[0])
    monkeypatch.setattr(divide, "NEAR", ())
    monkeypatch.setattr(divide, "ROOMS", limits[1])
    monkeypatch.setattr(divide, "TRIES", 1000 if INTERPRETED else divide.TRIES)
    n //= 10 if INTERPRETED else 1
    lengths = np.minimum(np.random.default_rng(n).lognormal(6, 1, n), 8192).astype(int)
    ranks = max(1, n // 640)
    for options in ({}, {"cost": (100, 1)}, {"cost": np.sqrt}, {"max_items": 16_384, "cost": (100, 1)}):
        plan = sf.balance(lengths, ranks, equal_counts=equal, **options)
        check(plan, lengths.tolist(), costs_of(lengths, options.get("cost")), options.get("max_items"))
        assert "max_items" in options or plan.costs.max() <= 1.001 * plan.bound


def test_micro_batches():
    """Check that micro-batches of one number cost alike on all ranks, the costliest first."""
    lengths = np.random.default_rng(0).integers(1, 100, 60)
    plan = sf.balance(lengths, 3, micro_batches=4, max_items=300)
    assert type(plan.parts) is sf.LoD
    assert plan.parts.lengths() == [[4, 4, 4], sf.lengths(plan.parts).tolist()]
    assert plan.costs.shape == (3, 4)
    ranked = np.sort(plan.costs.reshape(-1))[::-1].reshape(4, 3)
    assert np.array_equal(np.sort(plan.costs.T)[:, ::-1], ranked)
    least = sf.balance(lengths, 3, max_items=300)
    assert least.costs.shape[1] == -(-len(sf.pack_bins(lengths, 300)) // 3)


def test_what_costs_nothing_is_dealt_evenly():
    assert sf.balance([4, 5, 6, 7] * 10, 8, cost=(0, 0)).parts.lengths.tolist() == [5] * 8
    assert sf.balance([0] * 3 + [5], 2).parts.to_nested() == [[0, 2], [1, 3]]
    plan = sf.balance([0] * 6, 2, max_items=0)
    assert plan.parts.to_nested() == [[[0, 2, 4]], [[1, 3, 5]]]


def test_more_ranks_than_sequences():
    plan = sf.balance([3, 5], 4)
    assert plan.parts.to_nested() == [[0], [1], [], []]
    assert plan.costs.tolist() == [3, 5, 0, 0]
    assert plan.bound == 5
    empty = sf.balance([], 3, cost=lambda lengths: lengths.max() * lengths, equal_counts=True)
    assert (empty.parts.lengths.tolist(), empty.costs.tolist(), empty.bound) == ([0, 0, 0], [0, 0, 0], 0)


def test_one_way_to_say_costs_and_lengths():
    lengths = np.random.default_rng(1).integers(0, 500, 90)
    truth = sf.balance(lengths, 7, cost=(3, 1))
    costs = 3 * lengths + lengths**2
    batch = sf.Ragged(np.zeros(lengths.sum()), lengths)
    for given_lengths, cost in (
        (batch, (3, 1, 0)),
        (lengths.tolist(), costs),
        (lengths[:], costs.astype("f8").tolist()),
    ):
        plan = sf.balance(given_lengths, 7, cost=cost)
        assert sf.equal(plan.parts, truth.parts)
        assert np.array_equal(plan.costs, truth.costs)
    assert sf.equal(sf.balance(lengths, 7, cost=lambda n: 3 * n + n**2).parts, truth.parts)


@given(
    keys=st.lists(st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 3)), max_size=50),
    floats=st.lists(st.one_of(st.floats(0, 1e308), st.sampled_from([0.0, 1.0, 1 + 2**-52, 5e-324])), max_size=50),
)
def test_falling_order(keys, floats):
    for numbers in (np.array(keys, np.int64), np.array(floats), np.array(keys, float)):
        found = costs_module.falling(numbers)
        assert found.tolist() == sorted(range(numbers.size), key=lambda i: -numbers[i].item())


def test_order_of_more_than_a_word_can_number(monkeypatch):
    monkeypatch.setattr(costs_module, "MAX_PACKED_KEYS", 2)
    assert costs_module.falling(np.array([1, 3, 3, 2])).tolist() == [1, 2, 3, 0]


NAN, INF = float("nan"), float("inf")
ERRORS = {
    sf.StructureError: {
        "sequence 1 has 9 items, more than max_items=8": lambda: sf.balance([1, 9], 2, max_items=8),
        "3 sequences leave some of 2 x 2 micro-batches empty": lambda: sf.balance([1] * 3, 2, micro_batches=2),
        "0 sequences leave some": lambda: sf.balance([], 2, max_items=8),
        "no way was found to keep max_items=5 in 1 x 2 micro-batches": lambda: sf.balance(
            [4, 4, 4], 1, max_items=5, micro_batches=2
        ),
        "that of sequence 1 is -1.0": lambda: sf.balance([1, 2], 2, cost=[1, -1]),
        "that of sequence 0 is nan": lambda: sf.balance([1, 2], 2, cost=lambda n: n * NAN),
        "that of sequence 0 is inf": lambda: sf.balance([1, 2], 2, cost=(1e308, 1e308)),
        "that of sequence 0 is -1.0": lambda: sf.balance([1, 2], 2, cost=(-1, 0)),
        "costs add up to more than float64": lambda: sf.balance([1, 1], 2, cost=[1.7e308, 1.7e308]),
        r"cost must be \(2,\)": lambda: sf.balance([1, 2], 2, cost=[1.0]),
        r"cost\(lengths\) must return \(2,\)": lambda: sf.balance([1, 2], 2, cost=lambda n: 3.0),
        "lengths must not be negative": lambda: sf.balance([1, -2], 2),
    },
    sf.ConversionError: {
        "ranks must be at least 1": lambda: sf.balance([1], 0),
        "micro_batches must be at least 1": lambda: sf.balance([1], 1, micro_batches=0),
        "max_items must be at least 0": lambda: sf.balance([1], 1, max_items=-1),
        "no memory can hold": lambda: sf.balance([1], 2**60),
    },
    TypeError: {
        "ranks must be an integer": lambda: sf.balance([1], 2.0),
        "equal_counts must be True or False": lambda: sf.balance([1], 1, equal_counts=1),
        "cost must be a tuple of coefficients": lambda: sf.balance([1], 1, cost=3),
        "two or three coefficients": lambda: sf.balance([1], 1, cost=(1,)),
        "a coefficient of cost must be a number": lambda: sf.balance([1], 1, cost=("a", 1)),
        "cost must be numbers": lambda: sf.balance([1], 1, cost=["a"]),
        "cost must be numbers: ": lambda: sf.balance([1, 2], 1, cost=[[1], [1, 2]]),
        "lengths must be integers": lambda: sf.balance([1.5], 1),
    },
}
ERRORS = [(error, words, call) for error, calls in ERRORS.items() for words, call in calls.items()]


@pytest.mark.parametrize(("error", "words", "call"), ERRORS, ids=[words for _, words, _ in ERRORS])
def test_errors(error, words, call):
    with pytest.raises(error, match=words):
        call()
