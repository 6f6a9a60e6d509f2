"""`sf.batches` in a shuffled order, divided among ranks, and resumed: nothing is lost, and each point is the same."""

import itertools
import json
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.loading import loader as batches_module
from seqformats.loading import parts, windows
from seqformats.loading.rows import ROW_SEQUENCE, Rows

SOURCES = {
    "rows": lambda rows: rows,
    "records": lambda rows: [{"x": row, "n": len(row)} for row in rows],
    "an encoding": lambda rows: sf.LoD.from_nested(rows, np.int64, 1),
    "columns": lambda rows: {"x": sf.LoD.from_nested(rows, np.int64, 1), "n": np.array([len(row) for row in rows])},
    "encodings": lambda rows: [sf.LoD.from_nested(rows[k : k + 3], np.int64, 1) for k in range(0, len(rows), 3)],
}
shuffles = st.fixed_dictionaries({"shuffle": st.just(True), "seed": st.sampled_from([None, 0, 7])})
orders = shuffles | st.fixed_dictionaries({"seed": st.sampled_from([None, 7])})
options = st.fixed_dictionaries(
    {
        "max_items": st.integers(12, 40),
        "shuffle_buffer": st.sampled_from([None, 1, 3, 10]),
        "max_sequences": st.sampled_from([None, 1, 4]),
        "too_long": st.just("drop"),
        "drop_last": st.booleans(),
        "max_cost": st.sampled_from([None, 30]),
    }
)
in_order = st.fixed_dictionaries(
    {"max_items": st.integers(12, 40), "shuffle_buffer": st.just(0), "too_long": st.just("drop")}
)
plans = st.builds(lambda plan, order: plan | order, options, orders) | in_order
lengths_of_rows = st.lists(st.integers(0, 14), max_size=40)  # some are longer than a batch
sections = st.sampled_from([1, 2, 5, 400])


def numbered(lengths):
    return [[100 * i + t for t in range(length)] for i, length in enumerate(lengths)]


def loader(source, **plan):
    return sf.batches(source, **{"to": sf.Ragged, "prefetch": 0, **plan})


def lists(batch):
    return sf.convert(batch["x"] if isinstance(batch, dict) else batch, list)


def all_of(batches):
    return [lists(batch) for batch in batches]


@given(lengths_of_rows, st.sampled_from(list(SOURCES)), plans, sections, st.integers(1, 5), st.integers(0, 3))
def test_ranks_give_the_batches_of_one_in_turn(lengths, kind, plan, section, world, epoch):
    source = SOURCES[kind](numbered(lengths))
    with mock.patch.object(windows, "SECTION", section):

        def epoch_of(**more):
            batches = loader(source, **plan, **more)
            batches.set_epoch(epoch)
            return all_of(batches)

        whole = epoch_of()
        ranks = {word: [epoch_of(rank=r, world=world, uneven=word) for r in range(world)] for word in ENDS}
        assert epoch_of(prefetch=3) == whole
    rows = sorted(row for batch in whole for row in batch)
    assert all(row in numbered(lengths) for row in rows)
    assert len(rows) == len(set(map(str, rows))) or [] in rows
    if not plan.get("drop_last"):
        limit = min(plan["max_items"], plan.get("max_cost") or 99)
        assert rows == sorted(row for row in numbered(lengths) if len(row) <= limit)
    for word, given_by in ranks.items():
        dealt = [batch for turn in itertools.zip_longest(*given_by) for batch in turn if batch is not None]
        assert dealt == ENDS[word](whole, world), word
        assert word == "keep" or len({len(batches) for batches in given_by}) == 1


ENDS = {
    "repeat": lambda whole, world: whole + whole[-1:] * (-len(whole) % world),
    "drop": lambda whole, world: whole[: len(whole) // world * world],
    "keep": lambda whole, world: whole,
}


@example([5, 13, 2, 4] * 12, "rows", {"max_items": 12, "shuffle_buffer": 0, "too_long": "drop"}, 400, 1, 0)
@example([5, 13, 2, 4] * 12, "an encoding", {"max_items": 12, "shuffle": True, "too_long": "drop"}, 3, 2, 0)
@given(lengths_of_rows, st.sampled_from(list(SOURCES)), plans, sections, st.integers(1, 3), st.sampled_from([0, 2]))
def test_every_point_is_resumed_exactly(lengths, kind, plan, section, world, prefetch):
    """In plain numbers, on another rank too; what follows, and the next epoch, are those of a run without a break."""
    source = SOURCES[kind](numbered(lengths))
    with mock.patch.object(windows, "SECTION", section):
        first, *others = (loader(source, **plan, rank=r, world=world) for r in reversed(range(world)))
        first.set_epoch(1)
        run = iter(first)
        states, found = [first.state_dict()], []
        for batch in run:
            found.append(lists(batch))
            states.append(run.state_dict())
            assert first.state_dict() == states[-1]
        following = all_of(first)
        for taken, state in enumerate(json.loads(json.dumps(states))):
            again = loader(source, **plan, prefetch=prefetch, rank=world - 1, world=world)
            again.load_state_dict(state)
            assert again.state_dict() == state
            assert all_of(again) == found[taken:]
            assert again.state_dict()["taken"] == len(found)
            assert all_of(again) == following
            first.set_epoch(1)
            first.load_state_dict(first.state_dict(taken=taken))
            assert all_of(first) == found[taken:]
            for other in others[:1]:
                other.load_state_dict(state)
                plain = loader(source, **plan, rank=world - 2, world=world)
                plain.set_epoch(1)
                assert all_of(other) == all_of(plain)[taken:]


@given(
    lengths_of_rows,
    plans,
    sections,
    st.sampled_from([(0, 1), (0, 2), (1, 2), (2, 3)]),
    st.integers(1, 4),
    st.integers(0, 9),
    st.sampled_from(list(ENDS)),
)
def test_workers_give_the_batches_of_one_in_turn(lengths, plan, section, share, workers, taken, uneven):
    """From any batch on, and each from the state of its own iterator."""
    plan = plan | {"rank": share[0], "world": share[1], "uneven": uneven, "workers": "divide"}
    with mock.patch.object(windows, "SECTION", section):
        whole = all_of(loader(numbered(lengths), **plan))
        found = []
        for worker in range(workers):
            with mock.patch.object(batches_module, "_worker", lambda _, worker=worker: (worker, workers)):
                batches = loader(numbered(lengths), **plan)
                batches.load_state_dict(batches.state_dict(taken=taken))
                run = iter(batches)
                states, given_by = [run.state_dict()], []
                for batch in run:
                    given_by.append(lists(batch))
                    states.append(run.state_dict())
                for count, state in enumerate(states):
                    again = iter(loader(numbered(lengths), **plan))
                    again.load_state_dict(state)
                    assert all_of(again) == given_by[count:]
                found.append(given_by)
    assert [batch for turn in itertools.zip_longest(*found) for batch in turn if batch is not None] == whole[taken:]


def test_each_epoch_has_an_order_of_its_own():
    x = sf.Ragged(np.arange(2000), np.ones(2000, np.int64))
    batches = loader(x, max_items=20, shuffle=True)
    orders = [np.concatenate([batch.data for batch in batches]) for _ in range(3)]
    for order in orders:
        assert np.array_equal(np.sort(order), x.data)
        assert abs(np.corrcoef(order, x.data)[0, 1]) < 0.05
        assert np.mean(np.abs(np.diff(order)) == 1) < 0.01
    assert len({order.tobytes() for order in orders}) == 3
    assert not np.array_equal(
        orders[0], np.concatenate([b.data for b in loader(x, max_items=20, shuffle=True, seed=1)])
    )
    batches.set_epoch(1)
    assert np.array_equal(np.concatenate([batch.data for batch in batches]), orders[1])
    assert (batches.epoch, batches.state_dict()["epoch"], batches.state_dict()["taken"]) == (2, 1, 100)
    batches.set_epoch(5)
    assert (batches.state_dict()["epoch"], batches.state_dict()["taken"]) == (5, 0)


def test_short_rows_are_not_held_back_to_the_end():
    """A row that is the shortest of every window goes with its section."""
    lengths = np.full(5000, 5)
    lengths[:10] = 1
    with mock.patch.object(windows, "SECTION", 20):
        found = all_of(loader(numbered(lengths), max_items=25, shuffle=True, shuffle_buffer=50))
    last = max(k for k, batch in enumerate(found) if any(len(row) == 1 for row in batch))
    assert last < 0.95 * len(found)


# --- parts that are read in one direction ----------------------------------------------------------------------------


def part_of(number, groups, run, log=None):
    """A part whose items are 1000 * number + the row in it."""
    begins = np.cumsum([0, *groups])

    def read(segments):
        for group, start, stop in segments:
            for at in range(start, stop, run):
                first, last = begins[group] + at, begins[group] + min(at + run, stop)
                data = np.arange(first, last) + 1000 * number
                if log is not None:
                    log.append(data)
                yield Rows(ROW_SEQUENCE, {None: sf.Ragged(data, np.ones(data.size, np.int64))}, data.size, int(first))

    return parts.Part(f"part {number}", tuple(groups), run, read)


def items(pieces):
    return [item for piece in pieces for item in piece.columns[None].data.tolist()]


several_parts = st.lists(st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=3), st.integers(1, 4)), max_size=7)


@given(several_parts, st.integers(1, 4), st.integers(0, 5), st.data())
def test_parts_are_mixed_and_begin_at_any_row(given_parts, together, seed, data):
    made = [part_of(k, groups, run) for k, (groups, run) in enumerate(given_parts)]
    total = sum(part.rows for part in made)
    with mock.patch.object(parts, "MAX_OPEN_PARTS", together):
        whole = items(parts.mix(made, (seed, 0), 0))
        row = data.draw(st.integers(0, total + 1))
        assert items(parts.mix(made, (seed, 0), row)) == whole[row:]
    assert sorted(whole) == sorted(1000 * k + i for k, part in enumerate(made) for i in range(part.rows))


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 4), st.integers(0, 3))
def test_streams_of_unknown_length_are_mixed(lengths, together, seed):
    streams = [lambda k=k, n=n: part_of(k, [n], 2).read([(0, 0, n)]) for k, n in enumerate(lengths)]
    with mock.patch.object(parts, "MAX_OPEN_PARTS", together):
        whole = items(parts.mixed_streams(streams, (seed, 0)))
    assert sorted(whole) == sorted(1000 * k + i for k, n in enumerate(lengths) for i in range(n))


@pytest.mark.parametrize(("files", "rows"), [(20, 1000), (50, 400), (2, 999)])
def test_parts_are_spread_over_the_epoch(files, rows):
    """Neither the order of files nor that of the rows in them is left, in each epoch."""
    for epoch in range(5):
        made = [part_of(k, [rows], 4) for k in range(files)]
        order = np.array(items(parts.mix(made, (3, epoch), 0)))
        position, within = np.arange(order.size), order % 1000
        if files <= parts.MAX_OPEN_PARTS:
            assert abs(np.corrcoef(position, order // 1000)[0, 1]) < 0.05
        trends = [np.corrcoef(position[order // 1000 == k], within[order // 1000 == k])[0, 1] for k in range(files)]
        assert abs(np.mean(trends)) < (0.3 if files >= 20 else 1.1)  # each file has one, but they differ
        assert len({order[order // 1000 == k][0] % 1000 for k in range(files)}) > files // 2


def test_rows_that_are_read_ahead_are_a_window_at_most():
    """Counted: what has been read and not given, beside a window, is a run of each open part and one batch."""
    log, window, together, run, most = [], 200, 8, 4, 10
    made = [part_of(k, [300], run, log) for k in range(20)]
    with mock.patch.object(parts, "MAX_OPEN_PARTS", together):
        plan = windows.Plan(most, None, False, window=window, seed=(1, 0), shuffle=True)
        steps = windows.plan_batches(parts.mix(made, (1, 0), 0), plan, windows.Mark(), windows.Fit())
        given_rows, ahead = 0, []
        for rows, _, _ in windows.deal_batches(steps, windows.Deal(), 0):
            ahead.append(sum(map(len, log)) - given_rows)
            given_rows += rows.size
    assert given_rows == 6000
    assert window <= max(ahead) <= window + together * run + most


def test_a_part_that_has_lost_rows_is_an_error():
    short = part_of(0, [10], 3)
    lying = short._replace(groups=(12,), read=lambda _: short.read([(0, 0, 10)]))
    with pytest.raises(sf.StructureError, match=r"part 0 has fewer rows than it had when it was opened.*SF108"):
        items(parts.mix([lying], (0, 0), 0))


# --- what is refused -------------------------------------------------------------------------------------------------

ROWS = numbered([3, 1, 2, 5, 4] * 4)
PLAN = {"max_items": 10, "shuffle": True, "seed": 3}


def state_of(**plan):
    batches = loader(ROWS, **{**PLAN, **plan})
    next(iter(batches))
    return batches.state_dict()


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (lambda state: None, TypeError, "a state is what state_dict"),
        (lambda state: {}, TypeError, "a state is what state_dict"),
        (lambda state: {"epoch": 0, "taken": 1}, TypeError, "a state is what state_dict"),
        (lambda state: state | {"taken": -1}, sf.ConversionError, "taken must be at least 0, not -1"),
        (lambda state: state | {"epoch": -2}, sf.ConversionError, "epoch must be at least 0, not -2"),
        (lambda state: state | {"row": -1}, sf.ConversionError, "row must be at least 0"),
        (lambda state: state | {"window": 0.5}, TypeError, "window"),
        (lambda state: state | {"batch": 9}, TypeError, "a state is what state_dict"),
        (lambda state: state_of(seed=4), sf.ConversionError, "other options or of another seed"),
        (lambda state: state_of(max_items=11), sf.ConversionError, "other options or of another seed"),
        (lambda state: state_of(cost=lambda x: 2 * x, max_cost=20), sf.ConversionError, "other options"),
        (lambda state: state_of(shuffle_buffer=7), sf.ConversionError, "other options or of another seed"),
        (lambda state: state_of(rank=0, world=2), sf.ConversionError, "one of 2 ranks, but here are 1"),
        (lambda state: state | {"workers": 2}, sf.ConversionError, "one of 2 workers, but here are 1"),
        (lambda state: state | {"source": 5}, sf.ConversionError, "another source, or of files that have changed"),
    ],
)
def test_states_of_others_are_refused(change, kind, said):
    batches, fresh = loader(ROWS, **PLAN), loader(ROWS, **PLAN)
    with pytest.raises(kind, match=said):
        batches.load_state_dict(change(state_of()))
    assert batches.state_dict() == fresh.state_dict()  # nothing of it is taken over
    assert all_of(batches) == all_of(fresh)


def test_another_source_is_refused():
    for rows in (ROWS[:-1], [*ROWS, [1]]):
        with pytest.raises(sf.ConversionError, match="another source"):
            loader(rows, **PLAN).load_state_dict(state_of())
    records = {"x": sf.convert(ROWS, sf.Ragged), "y": sf.convert(ROWS[::-1], sf.Ragged)}
    with pytest.raises(sf.ConversionError, match="other options"):
        loader(records, columns="x", **PLAN).load_state_dict(loader(records, columns="y", **PLAN).state_dict())
    x = records["x"]
    batches = loader(x, **PLAN)
    with pytest.raises(sf.ConversionError, match="another source"):
        loader(sf.reverse(x)[::-1], **PLAN).load_state_dict(batches.state_dict())


@pytest.mark.parametrize(
    ("more", "kind", "said"),
    [
        ({"rank": 0}, TypeError, "rank and world go together"),
        ({"world": 2}, TypeError, "rank and world go together"),
        ({"rank": 2, "world": 2}, sf.ConversionError, "rank must be below world=2"),
        ({"rank": -1, "world": 2}, sf.ConversionError, "rank must be at least 0"),
        ({"rank": 0, "world": 0}, sf.ConversionError, "world must be at least 1"),
        ({"rank": 0.5, "world": 2}, TypeError, "rank"),
        ({"uneven": "some"}, sf.ConversionError, "uneven must be"),
        ({"shuffle": 1}, TypeError, "shuffle must be True or False"),
        ({"shuffle_buffer": 0}, sf.ConversionError, "exclude each other"),
        ({"seed": -1}, sf.ConversionError, "seed"),
    ],
)
def test_options_that_cannot_be(more, kind, said):
    with pytest.raises(kind, match=said):
        loader(ROWS, **{**PLAN, **more})


def test_sources_with_one_order():
    for source in (iter(ROWS), (row for row in ROWS), {1, 2}):
        with pytest.raises(sf.ConversionError, match="in its order alone; seed= shuffles"):
            loader(source, **PLAN)
    with pytest.raises(sf.ConversionError, match="taken must be at least 0"):
        loader(ROWS, **PLAN).state_dict(taken=-1)


def test_an_iterator_is_resumed_by_reading_it_again():
    plan = {"max_items": 10, "seed": 1, "shuffle_buffer": 6}
    first = loader(iter(ROWS), **plan)
    run = iter(first)
    begun = [lists(next(run)) for _ in range(3)]
    again = loader(iter(ROWS), **plan)
    again.load_state_dict(first.state_dict())
    assert begun + all_of(again) == all_of(loader(ROWS, **plan)) == begun + all_of(run)


def test_fewer_rows_than_ranks():
    for r in range(8):
        assert all_of(loader([[1], [2]], max_items=1, shuffle=True, rank=r, world=8)) in ([[[1]]], [[[2]]])
        assert all_of(loader([[1], [2]], max_items=1, rank=r, world=8, uneven="drop")) == []
        assert all_of(loader([], max_items=1, rank=r, world=8)) == []


def test_errors_say_that_rows_are_counted_in_their_order():
    for source in (ROWS, sf.convert(ROWS, sf.Ragged)):
        with pytest.raises(sf.StructureError, match=r"row \d+ of the shuffled order has 5 items"):
            list(loader(source, max_items=4, shuffle=True))
