"""Samplers by cost: batches of limited cost, steps that cost alike, and steps divided among ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

LENGTHS = np.minimum(np.random.default_rng(0).lognormal(4, 1, 700), 900).astype(int)
COST = (100, 1)
PRICES = 100.0 * LENGTHS + LENGTHS**2


def price(batch):
    """Return the cost of a padded batch."""
    return max(PRICES[i] for i in batch) * len(batch)


def steps_of(make, epoch=0, world=4):
    """The batches that ranks take together, step by step."""
    ranks = [make(rank=rank, world=world) for rank in range(world)]
    for sampler in ranks:
        sampler.set_epoch(epoch)
    return list(zip(*map(list, ranks), strict=True))


@pytest.mark.parametrize("shuffle", [True, False])
def test_the_batches_of_a_step_cost_alike(shuffle):
    def make(**options):
        return sf.torch.BucketSampler(LENGTHS, 2000, shuffle=shuffle, drop=True, **options)

    def spread(steps):
        return np.mean([max(map(price, step)) / np.mean([*map(price, step)]) for step in steps])

    usual, alike = steps_of(make), steps_of(lambda **options: make(cost=COST, **options))
    assert spread(alike) < 1.15
    assert spread(usual) > (1.3 if shuffle else spread(alike))
    assert len(usual) == len(alike)
    if shuffle:
        assert alike != steps_of(lambda **options: make(cost=COST, **options), epoch=1)
        firsts = [int(np.argmax([*map(price, step)])) for step in alike]
        assert len(set(firsts)) > 1  # no rank always has the costliest


@pytest.mark.parametrize(
    "cost", [COST, lambda n: 100.0 * n + n**2, PRICES], ids=["coefficients", "function", "numbers"]
)
def test_batches_of_limited_cost(cost):
    sampler = sf.torch.BucketSampler(LENGTHS, 2000, cost=cost, max_cost=PRICES.max())
    batches = list(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(LENGTHS.size))
    assert max(map(price, batches)) <= PRICES.max()
    few = sf.torch.BucketSampler(LENGTHS, 2000, cost=cost, max_cost=50_000, too_long="drop")
    assert sorted(i for batch in few for i in batch) == np.flatnonzero(PRICES <= 50_000).tolist()
    with pytest.raises(sf.StructureError, match="costs .*, more than max_cost=50000"):
        sf.torch.BucketSampler(LENGTHS, 2000, cost=cost, max_cost=50_000)


def test_costs_go_by_widths():
    sampler = sf.torch.BucketSampler([5, 5, 1], 100, multiple_of=8, shuffle=False, cost=(0, 1), max_cost=128)
    assert list(sampler) == [[0, 1], [2]]


@given(data=st.data())
def test_steps_divided_among_ranks(data):
    """Each step holds the samples that chance has chosen; each rank has as many micro-batches, none empty."""
    n, size = data.draw(st.integers(0, 60)), data.draw(st.integers(12, 30))
    lengths = LENGTHS[:n]
    world, seed = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 9))
    options = data.draw(st.sampled_from([{}, {"micro_batches": 3}, {"max_items": 1500}, {"max_items": 10_000}]))
    shuffle, epoch = data.draw(st.booleans()), data.draw(st.integers(0, 2))
    options |= {"cost": data.draw(st.sampled_from([None, COST])), "shuffle": shuffle, "seed": seed}
    try:
        found = steps_of(lambda **share: sf.torch.BalancedSampler(lengths, size, **options, **share), epoch, world)
        one = sf.torch.BalancedSampler(lengths, size, rank=0, world=world, **options)
        one.set_epoch(epoch)
        count = one.micro_batches
    except sf.StructureError as error:
        assert "micro-batches empty" in str(error)
        return
    assert len(found) == len(one) == n // size * count
    alone = sf.torch.BalancedSampler(lengths, size, shuffle=shuffle, seed=seed, rank=0, world=1)
    alone.set_epoch(epoch)
    for k, chosen in enumerate(alone):
        parts = [part for step in found[k * count : (k + 1) * count] for part in step]
        assert sorted(i for part in parts for i in part) == sorted(chosen)
        assert all(parts)
        assert max(lengths[part].sum() for part in parts) <= options.get("max_items", np.inf)
    if not shuffle and found:
        assert sorted(i for part in found[0] for i in part) == sorted(i for part in found[0] for i in part if i < size)


def test_a_sampler_of_steps_goes_on_where_it_was():
    def make(**changed):
        options = {"cost": COST, "micro_batches": 2, "rank": 1, "world": 2, "seed": 5} | changed
        return sf.torch.BalancedSampler(LENGTHS, 50, **options)

    sampler = make()
    sampler.set_epoch(2)
    batches = iter(sampler)
    for _ in range(5):
        next(batches)
    again = make()
    again.load_state_dict(sampler.state_dict())
    assert list(again) == list(batches)
    assert repr(again) == "BalancedSampler(700 samples, epoch 2, rank 1 of 2)"
    for other in (make(cost=(1, 0)), make(micro_batches=1), make(seed=4)):
        with pytest.raises(sf.ConversionError, match="other lengths, options or another seed"):
            other.load_state_dict(sampler.state_dict())
    bucket = sf.torch.BucketSampler(LENGTHS, 2000, cost=COST)
    with pytest.raises(sf.ConversionError, match="other lengths, options or another seed"):
        sf.torch.BucketSampler(LENGTHS, 2000, cost=(1, 1)).load_state_dict(bucket.state_dict())


ERRORS = {
    "batch_size=3 is less than a sample for each of 2 x 2 parts": lambda: sf.torch.BalancedSampler(
        [1] * 9, 3, micro_batches=2, rank=0, world=2
    ),
    "sample 1 has 9 items, more than max_items=8": lambda: sf.torch.BalancedSampler([1, 9], 1, max_items=8),
    "batch_size must be at least 1": lambda: sf.torch.BalancedSampler([1], 0),
    "costs must be finite and not negative": lambda: sf.torch.BalancedSampler([1], 1, cost=[-1.0]),
    "max_cost must be at least 0": lambda: sf.torch.BucketSampler([1], 1, max_cost=-1),
}


@pytest.mark.parametrize("words", ERRORS)
def test_errors(words):
    with pytest.raises(sf.SeqFormatError, match=words):
        ERRORS[words]()


@pytest.mark.parametrize("options", [{}, {"padded": False}, {"shuffle_buffer": 0}, {"seed": 3}, {"to": sf.Ragged}])
def test_batches_of_what_is_read_are_limited_too(options):
    rows = [{"ids": np.zeros(length), "row": i} for i, length in enumerate(LENGTHS[:300].tolist())]
    limit = float(PRICES[:300].max()) * 1.5
    batches = list(sf.batches(rows, max_items=10**6, cost=COST, max_cost=limit, **options))
    of = [batch["row"].tolist() for batch in batches]
    assert sorted(i for batch in of for i in batch) == list(range(300))
    padded = options.get("padded", options.get("to") is not sf.Ragged)
    costs = [price(batch) if padded else sum(PRICES[i] for i in batch) for batch in of]
    assert max(costs) <= limit < 3 * np.median(costs)
    with pytest.raises(sf.StructureError, match="which cost more than max_cost=50000"):
        list(sf.batches(rows, max_items=10**6, cost=COST, max_cost=50_000, **options))
    left = sf.batches(rows, max_items=10**6, cost=COST, max_cost=50_000, too_long="drop", **options)
    assert sorted(i for batch in left for i in batch["row"]) == np.flatnonzero(PRICES[:300] <= 50_000).tolist()
    with pytest.raises(TypeError, match="a tuple of coefficients or a function of lengths"):
        sf.batches(rows, max_items=10**6, cost=[1.0], max_cost=1)
