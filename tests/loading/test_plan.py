"""Plans of batches by length, against plain Python."""

import copy
import pickle
import subprocess
import sys
import types
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.loading.plan import plan_batches, shuffle


def lists(plan):
    return [batch.tolist() for batch in plan.sequences()]


def cost(batch, lengths, multiple_of=1):
    """Items of a batch, with padding."""
    return -(-max(lengths[i] for i in batch) // multiple_of) * multiple_of * len(batch)


@st.composite
def wishes(draw):
    """Lengths, and what a plan is asked for."""
    lengths = draw(st.lists(st.integers(0, draw(st.sampled_from([0, 3, 40]))), max_size=60))
    return (
        lengths,
        draw(st.integers(0, 60)),
        {
            "multiple_of": draw(st.sampled_from([1, 1, 8])),
            "max_sequences": draw(st.none() | st.integers(1, 5)),
            "pool": draw(st.none() | st.integers(1, 4)),
            "seed": draw(st.none() | st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 3))),
        },
    )


@given(wish=wishes(), too_long=st.sampled_from(["raise", "drop", "alone"]))
def test_every_sequence_is_planned_once_within_the_limit(wish, too_long):
    lengths, limit, options = wish
    step = options["multiple_of"]
    long = {i for i, length in enumerate(lengths) if cost([i], lengths, step) > limit}
    if long and too_long == "raise":
        with pytest.raises(sf.StructureError, match=rf"sequence {min(long)} has {lengths[min(long)]} items.*{limit}"):
            plan_batches(lengths, limit, too_long=too_long, **options)
        return
    plan = plan_batches(lengths, limit, too_long=too_long, **options)
    batches = lists(plan)
    wanted = set(range(len(lengths))) - (long if too_long == "drop" else set())
    assert sorted(i for batch in batches for i in batch) == sorted(wanted)
    for batch in batches:
        assert batch
        if long.intersection(batch):
            assert len(batch) == 1
            continue
        assert cost(batch, lengths, step) <= limit
        assert len(batch) <= (options["max_sequences"] or len(batch))
        assert [lengths[i] for i in batch] == sorted((lengths[i] for i in batch), reverse=True)


@given(wish=wishes())
def test_one_pool_without_a_seed_is_buckets(wish):
    lengths, limit, options = wish
    options |= {"pool": None, "seed": None}
    fits = [length for i, length in enumerate(lengths) if cost([i], lengths, options["multiple_of"]) <= limit]
    del options["pool"], options["seed"]
    expected = sf.buckets(fits, limit, **options)
    assert lists(plan_batches(fits, limit, pool=None, **options)) == lists(expected)


def test_pools_follow_one_another():
    """Each of about so many batches: 4 batches of 10 items are 8 sequences of 5."""
    lengths = [5] * 24
    batches = lists(plan_batches(lengths, 10, pool=4))
    for k in (0, 4, 8):
        assert sorted(chain(*batches[k : k + 4])) == list(range(2 * k, 2 * k + 8))
    by_count = lists(plan_batches([1, 0] * 12, 10, pool=4, max_sequences=2))
    assert by_count[:4] == [[0, 2], [4, 6], [1, 3], [5, 7]]  # a short one takes half a batch as well
    assert by_count[8] == [16, 18]


def test_a_seed_shuffles_sequences_and_batches():
    lengths = [1 + i % 7 for i in range(700)]
    one, again, other = (lists(plan_batches(lengths, 20, seed=seed)) for seed in ((1, 0), (1, 0), (1, 1)))
    assert one == again != other
    assert {tuple(batch) for batch in one} != {tuple(batch) for batch in other}  # not only their order
    widths = [lengths[batch[0]] for batch in one]
    assert widths != sorted(widths, reverse=True)


def test_larger_pools_pad_less():
    lengths = np.minimum(np.random.default_rng(0).lognormal(3.2, 0.7, 5000).astype(int) + 1, 512)
    shares = []
    for pool in (1, 10, None):
        plan = plan_batches(lengths, 2048, pool=pool, seed=(0,))
        shares.append(1 - lengths.sum() / sum(cost(batch, lengths) for batch in lists(plan)))
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.05


def test_shuffled_is_a_permutation_that_stays():
    """The numbers are part of the interface: what is resumed on another machine, or later, goes on alike."""
    assert shuffle(10, 7, 3).tolist() == [7, 1, 9, 6, 0, 4, 2, 8, 3, 5]
    assert sorted(shuffle(1000, 0)) == list(range(1000))
    assert shuffle(0, 1).tolist() == []


def test_all_orders_are_as_likely():
    counts = {}
    for seed in range(1200):
        order = tuple(shuffle(3, seed))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(150 < count < 250 for count in counts.values())


def test_options_that_cannot_be():
    for options, error in (
        ({"max_items": -1}, sf.ConversionError),
        ({"multiple_of": 0}, sf.ConversionError),
        ({"max_sequences": 0}, sf.ConversionError),
        ({"pool": 0}, sf.ConversionError),
        ({"pool": 1.5}, TypeError),
        ({"too_long": "cut"}, sf.ConversionError),
        ({"too_long": None}, TypeError),
    ):
        with pytest.raises(error, match=next(iter(options))):
            plan_batches([1, 2], **{"max_items": 10, **options})
    with pytest.raises(sf.StructureError, match="negative"):
        plan_batches([1, -2], 10)
    with pytest.raises(TypeError, match="integers"):
        plan_batches([1.5], 10)


# --- the sampler, which needs no torch -------------------------------------------------------------------------------


@given(wish=wishes(), world=st.integers(1, 5), drop=st.booleans())
def test_ranks_share_the_batches(wish, world, drop):
    lengths, limit, options = wish
    del options["seed"]

    def sampler(rank, world):
        made = sf.torch.BucketSampler(
            lengths, limit, rank=rank, world=world, drop=drop, too_long="alone", seed=5, **options
        )
        made.set_epoch(2)
        return made

    whole = list(sampler(0, 1))
    ranks = [list(sampler(rank, world)) for rank in range(world)]
    assert {len(batches) for batches in ranks} == {len(sampler(0, world))}
    dealt = [batches[k] for k in range(len(ranks[0])) for batches in ranks]
    if drop:
        assert dealt == whole[: len(whole) // world * world]
    else:
        assert dealt[: len(whole)] == whole
        assert dealt[len(whole) :] == (whole * world)[: len(dealt) - len(whole)]
        assert len(dealt) - len(whole) < world


@given(wish=wishes(), world=st.integers(1, 3), taken=st.integers(0, 20), named=st.booleans())
def test_a_resumed_pass_goes_on(wish, world, taken, named):
    lengths, limit, options = wish
    del options["seed"]
    options |= {"rank": 0, "world": world, "too_long": "alone"}
    sampler = sf.torch.BucketSampler(lengths, limit, **options)
    sampler.set_epoch(4)
    taken = min(taken, len(sampler))
    ahead = iter(sampler)
    for _ in range(taken):
        next(ahead)
    state = sampler.state_dict()
    rest = list(ahead)
    if named:
        state = sampler.state_dict(taken=taken)
    again = sf.torch.BucketSampler(lengths, limit, **options)
    again.load_state_dict(state)
    assert again.state_dict() == state
    again.set_epoch(4)  # as a loop over epochs does
    assert (again.epoch, len(again)) == (4, len(sampler))
    assert list(again) == rest
    assert list(again) == list(sampler)  # only one pass goes on
    again.load_state_dict(state)
    again.set_epoch(5)
    sampler.set_epoch(5)
    assert list(again) == list(sampler)


def test_epochs_differ_and_come_back():
    sampler = sf.torch.BucketSampler(list(range(50)), 100, seed=3)
    first = list(sampler)
    assert first == list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first
    still = sf.torch.BucketSampler(list(range(50)), 100, shuffle=False)
    first = list(still)
    still.set_epoch(1)
    assert list(still) == first


def test_a_pass_that_has_begun_keeps_its_epoch():
    sampler = sf.torch.BucketSampler(list(range(50)), 100)
    expected = list(sampler)
    running = iter(sampler)
    got = [next(running)]
    sampler.set_epoch(1)
    assert got + list(running) == expected


def test_lengths_of_any_kind():
    x = sf.Ragged(np.arange(6), [1, 2, 3])
    batches = list(sf.torch.BucketSampler([1, 2, 3], 6, shuffle=False))
    for given_lengths in (np.array([1, 2, 3], "u2"), x, x.to_nested(), (1, 2, 3)):
        assert list(sf.torch.BucketSampler(given_lengths, 6, shuffle=False)) == batches == [[2, 1], [0]]
    assert all(type(i) is int for batch in batches for i in batch)
    assert list(sf.torch.BucketSampler([], 6)) == []


@pytest.mark.parametrize("answers", [(False, False), (True, False), (True, True)])
def test_ranks_where_torch_has_been_imported(monkeypatch, answers):
    """A stand-in; `tests/bridges` has real processes."""
    available, initialized = answers
    distributed = types.SimpleNamespace(
        is_available=lambda: available,
        is_initialized=lambda: initialized,
        get_rank=lambda: 1,
        get_world_size=lambda: 3,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    share = {"rank": 1, "world": 3} if initialized else {"rank": 0, "world": 1}
    lengths = list(range(50))
    assert list(sf.torch.BucketSampler(lengths, 100)) == list(sf.torch.BucketSampler(lengths, 100, **share))
    whole = sf.torch.BucketSampler(lengths, 100, rank=0, world=1)
    assert (len(sf.torch.BucketSampler(lengths, 100)) == len(whole)) is not initialized
    assert ("rank 1 of 3" in repr(sf.torch.BucketSampler(lengths, 100))) is initialized


def test_a_sampler_travels_with_its_place():
    sampler = sf.torch.BucketSampler(list(range(50)), 100)
    sampler.set_epoch(2)
    running = iter(sampler)
    next(running)
    twins = [pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)]
    for twin in twins:
        assert (twin.epoch, twin.state_dict(), repr(twin)) == (2, sampler.state_dict(), repr(sampler))
    assert [list(twin) for twin in twins] == [list(sampler)] * 2


def test_the_sampler_keeps_its_own_lengths():
    lengths = np.array([1, 2, 3])
    sampler = sf.torch.BucketSampler(lengths, 6)
    lengths[:] = 100
    assert sorted(chain(*sampler)) == [0, 1, 2]


def test_what_a_sampler_refuses():
    make = sf.torch.BucketSampler
    for options, error, words in (
        ({"lengths": [1, 20, 3]}, sf.StructureError, "sequence 1 has 20 items, more than max_items=10"),
        ({"lengths": [1, 9], "multiple_of": 8}, sf.StructureError, "padded to 16"),
        ({"rank": 0}, TypeError, "go together"),
        ({"world": 2}, TypeError, "go together"),
        ({"rank": 2, "world": 2}, sf.ConversionError, "below world=2"),
        ({"rank": -1, "world": 2}, sf.ConversionError, "rank"),
        ({"rank": 0, "world": 0}, sf.ConversionError, "world"),
        ({"seed": -1}, sf.ConversionError, "seed"),
        ({"shuffle": 1}, TypeError, "shuffle"),
        ({"drop": None}, TypeError, "drop"),
        ({"pool": 0}, sf.ConversionError, "pool"),
        ({"too_long": "x"}, sf.ConversionError, "too_long"),
    ):
        with pytest.raises(error, match=words):
            make(**{"lengths": [1, 2], "max_items": 10, **options})
    sampler = make([1, 2], 10)
    with pytest.raises(sf.ConversionError, match="epoch"):
        sampler.set_epoch(-1)
    with pytest.raises(TypeError, match="state_dict"):
        sampler.load_state_dict({"epoch": 1})
    for other in (make([1, 3], 10), make([1, 2], 9), make([1, 2], 10, seed=1), make([1, 2], 10, shuffle=False)):
        with pytest.raises(sf.ConversionError, match="others"):
            sampler.load_state_dict(other.state_dict())
    with pytest.raises(sf.ConversionError, match="2 ranks, but here are 1"):
        sampler.load_state_dict(make([1, 2], 10, rank=0, world=2).state_dict())


@pytest.mark.passes("compiled", reason="what is imported is the same in every pass")
def test_the_sampler_imports_no_torch():
    code = "import sys, seqformats as sf; list(sf.torch.BucketSampler([1, 2], 3)); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
